"""Pages show the figures of the result files, and no measured figure is typed by hand."""

import re
from pathlib import Path

import pytest

from studies.harness import page
from studies.harness.config import load
from studies.harness.results import newest
from studies.harness.study import MODULES

TEXTS = [path for path in page.texts() if path.stem != "reference"]  # made from docstrings
# What is not prose: generated parts, code, addresses, comments.
NOT_PROSE = (
    rf"{re.escape(page.START)}.*?{re.escape(page.END)}",
    page.FACT.pattern,
    r"^```.*?^```",
    r"`[^`\n]*`",
    r"\]\([^)]*\)",
    r"<!--.*?-->",
)
# What looks measured: decimals, times, shares of a count, and how many times faster.
FIGURE = re.compile(
    r"[-−]?\d[\d,]*\.\d+(?: %)?"
    r"|\d[\d,]* (?:s|ms|µs|seconds?|minutes?|hours?|MB|MiB|GB|GiB)\b"
    r"|\d[\d,]* of (?:the )?\d[\d,]*"
    r"|\d[\d,]* (?:times|rows per second)\b"
)
# What a page may state without a result file: versions of packages, and the phrases below, which
# are settings, definitions, targets and bounds that tests of the library check. Error bounds in
# powers of ten, whole percentages (levels, shares of a split) and plain counts are not scanned.
PACKAGES = "Python|PyTorch|torch|Ray|DuckDB|pyvinecopulib|zuko|spflow|sdmetrics|pandas|NumPy"
VERSION = rf"(?:{PACKAGES}) \d+(?:\.\d+)+"
DEFINED = (
    *("in about 15 seconds", "limit on our fit (15 seconds)", "atomically every 30 seconds"),
    *("at most 256 MiB", "32 MiB of workspace", "40 hours a week", "within 100 ms"),
    *("30 seconds of fitting", "3.5 standard errors", "exceeds 0.02", "plus 0.02"),
    *("At the level 0.05", "between 0.03 and 0.07", "within 0.1 nats", "AUC of 0.5"),
    *("close rows of 0.05", "0.05 if nothing is copied", "0.5 means they cannot"),
    *("coefficient is 0.31", "deviation of 0.8 steps", "s at 0.8 or more", "if 0.8 of its widest"),
    *("a rate of 0.1", "and 0.03 for others", "constant rate of 0.01", "by 0.01 / s²"),
    *("within 2.5 % of the axis", "127.0.0.1", "such as 1, 0.01, 5", "at least 0.3 % of the rows"),
    *("more noise (0.02 to 0.15)", "beyond 0.999", "6.5 standard errors", "is 0.3. Any other"),
    *("within 0.2 % for a normal", "within 0.01 of the exact CDF", "a CDF by up to 0.002"),
    *("exp(score) < 0.01", "| hepmass | -22.0", "| sachs | -6.65", "| power | 1.7"),
)


def prose(text: str) -> str:
    """Return what a person wrote, on one line."""
    for part in NOT_PROSE:
        text = re.sub(part, "", text, flags=re.DOTALL | re.MULTILINE)
    return " ".join(text.split())


def typed_figures(text: str) -> list[str]:
    """Return the figures in prose that no rule allows, each with the words around it."""
    plain = re.sub(VERSION, "", prose(text))
    for phrase in DEFINED:
        plain = plain.replace(phrase, "")
    return [plain[max(0, m.start() - 40) : m.end() + 20] for m in FIGURE.finditer(plain)]


def test_the_readme_lists_every_study_once() -> None:
    text = (page.DOCS.parent / "studies" / "README.md").read_text()
    table = re.search(r"^\| study \| page .*?(?=\n\n)", text, re.DOTALL | re.MULTILINE)
    assert table is not None
    first = [line.split("|")[1] for line in table[0].splitlines()]
    assert sorted(re.findall(r"`([\w-]+)`", " ".join(first))) == sorted(MODULES)


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_pages_show_the_figures_of_the_result_files(path: Path) -> None:
    assert path.read_text() == page.rebuilt(path), "Run: python -m studies page"
    for picture in re.findall(r"\]\(((?:docs/)?images/[^)]+)\)", path.read_text()):
        assert (path.parent / picture).exists()


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_no_measured_figure_is_typed_by_hand(path: Path) -> None:
    assert typed_figures(path.read_text()) == [], (
        "Quote a fact of a study (see studies/README.md), or add a definition to DEFINED."
    )


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_pages_name_commit_machine_and_date(path: Path) -> None:
    text = path.read_text()
    for name in {found["study"] for found in page.FACT.finditer(text)}:
        shown = page.find(name).page == path.stem
        assert shown or f"<!-- {name}.origin -->" in text, f"Add <!-- {name}.origin -->."
    if path.stem in page.pages():
        block = text.split(page.START)[1].split(page.END)[0]
        studies = [name for name in MODULES if page.find(name).page == path.stem]
        captions = re.findall(
            r"^\*Measured \d{4}-\d\d-\d\d.*, (?:commits? \w|\d+ commits from).*, .+\.", block, re.M
        )
        assert len(captions) == len([name for name in studies if newest(name, sizes=page.SHOWN)])


@pytest.mark.parametrize("name", MODULES)
def test_outcomes_are_stated_in_words(name: str) -> None:
    assert typed_figures(load(page.find(name), "full").paper.outcome) == []


def test_a_typed_figure_is_found_and_a_wrong_fact_replaced() -> None:
    text = (
        "It takes 3.2 s on 40 of 48 tables, 25 times faster, 7 ms with Python 3.11 and 90 %.\n"
        "```\n0.123\n```\n`0.5` <!-- imputation.coverage.mdma -->9.999<!-- --> 1e-4."
    )
    assert len(typed_figures(text)) == 4
    assert "9.999" not in page.with_facts(text)
    with pytest.raises(SystemExit, match=r"coverage.mean, .*; got 'nought'"):
        page.with_facts("<!-- imputation.nought --><!-- -->")
