"""Tables, pictures and pages, from result files alone.

A page shows figures in two ways. The part between the lines START and END has the tables of the
page's studies. In the text, a figure stands between two comments, the first with its study and
its name, one of those that `Study.facts` returns: `<!-- STUDY.NAME -->figure<!-- -->`. The fact
`origin` says when, from which commit and on what machine a study was measured.
"""

import os
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from studies.harness.available import check_choice
from studies.harness.config import SIZES, Config, Size, load
from studies.harness.drawing import DPI, STYLE
from studies.harness.results import FOLDER, Results, newest, read
from studies.harness.study import MODULES, Record, Study, find

DOCS = Path(__file__).parents[2] / "docs"
IMAGES = DOCS / "images"
SHOWN: tuple[Size, ...] = ("full", "quick")  # the tiny size only shows that the code runs
START, END = "<!-- measured: written by `python -m studies page` -->", "<!-- end of measured -->"
FACT = re.compile(r"<!-- (?P<study>[a-z-]+)\.(?P<name>[\w.-]+) -->(?P<text>.*?)<!-- -->", re.DOTALL)
PAPER = "experiments"  # the page that shows several studies, those of the paper


def stored(
    names: Sequence[str], folder: Path = FOLDER, sizes: Sequence[Size] = SIZES
) -> list[Results]:
    """Return the newest results of the studies named, or of each study that has some."""
    found = []
    for name in names or MODULES:
        path = newest(find(name).name, folder, sizes)
        if path is not None:
            found.append(read(path))
        elif names:
            raise SystemExit(
                f"Expected a result file of {name!r} in {folder}; got none. Make one with "
                f"`python -m studies {name}`."
            )
    return found


def tables(results: Results) -> str:
    """Return the tables of a study as Markdown, with its failures."""
    study, config = _parts(results)
    text = study.tables(results.good, config.paper.figures).strip("\n")
    failed = [record for record in results.records if "failure" in record]
    if not failed:
        return text
    lines = []
    for record in failed:
        words = [str(record[name]) for name in study.key if record.get(name) is not None]
        lines.append(f"- {' '.join(words)}, seed {record['seed']}: {record['failure']}")
    return "\n".join([text, "", "Failed:", "", *lines])


def draw(results: Results, folder: Path) -> list[Path]:
    """Draw the pictures of a study as PNG files without a date: the same picture, the same file."""
    import matplotlib

    study, _ = _parts(results)
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    with matplotlib.rc_context(STYLE):
        for name, figure in study.figures(results.good, results.arrays).items():
            paths.append(folder / (f"{study.name}-{name}.png" if name else f"{study.name}.png"))
            figure.savefig(paths[-1], dpi=DPI, metadata={"Software": None})
    return paths


def origin(results: Results) -> str:
    """Say by which commands, where and from which commit results come; a line for all seeds."""
    found: dict[tuple[str, str], list[Record]] = {}
    for number, run in enumerate(results.runs):
        own = [record for record in results.records if record["run"] == number]
        if own:
            found.setdefault(_made_by(run), []).extend(own)
    lines = []
    for (command, where), own in found.items():
        seeds = ", ".join(str(seed) for seed in sorted({record["seed"] for record in own}))
        seconds = [record["took_s"] for record in own if "took_s" in record]
        took = f"; {sum(seconds) / 60:.1f} minutes" if seconds else ""
        lines.append(f"- `{command}`; seeds {seeds}{took}; {where}")
    return "\n".join([f"Measured at the {results.size} size with:", "", *lines])


def caption(results: Results) -> str:
    """Say when, from which commits and on what machines results come, in a line."""
    used = {record["run"] for record in results.records}
    runs = [run for number, run in enumerate(results.runs) if number in used]
    dates, commits, machines = (
        list(dict.fromkeys(each))
        for each in (
            (run["date"][:10] for run in runs),
            (run["commit"] for run in runs),
            (run["gpu"] if run["device"] != "cpu" else f"{run['cpu']} CPU" for run in runs),
        )
    )
    when = " to ".join(sorted({min(dates), max(dates)}))
    named = f"commit{'s' if len(commits) > 1 else ''} {', '.join(commits)}"
    if len(commits) > 3:
        named = f"{len(commits)} commits from {commits[0]} to {commits[-1]}"
    return f"{when}, {named}, {', '.join(machines)}"


def _made_by(run: Record) -> tuple[str, str]:
    """Return the command without its seeds, and where, when and with what it ran."""
    machine = run["gpu"] if run["device"] != "cpu" else f"{run['cpu']}, threads: {run['threads']}"
    command = re.sub(r" --seeds \S+", "", run["command"])
    torch = f"torch {run['versions']['torch']}"
    return command, f"{run['date'][:10]}, commit {run['commit']}, {torch}, {machine}"


def _headed(results: Results) -> str:
    """Return the tables of a study under a line that says how old they are."""
    when = f"*Measured {caption(results)}. Later changes to the library are not in these figures.*"
    return f"{when}\n\n{tables(results)}"


def _packages(results: Results) -> str:
    found = {name: number for run in results.runs for name, number in run["versions"].items()}
    return "Packages: " + ", ".join(f"{name} {number}" for name, number in found.items()) + "."


def section(results: Results, pictures: Sequence[str]) -> str:
    """Return the part of the paper's page for one study."""
    study, config = _parts(results)
    parts = [f"## {study.title}", f"In the paper: {config.paper.source}"]
    if config.paper.outcome:
        parts.append(f"Here: {config.paper.outcome}")
    parts += [_headed(results)]
    parts += [f"![{Path(name).stem}]({name})" for name in pictures]
    parts.append(origin(results))
    if config.paper.differs:
        listed = "\n".join(f"- {each}" for each in config.paper.differs)
        parts.append(f"Differences from the paper:\n\n{listed}")
    return "\n\n".join(parts)


def measured(page: str, folder: Path = FOLDER, docs: Path = DOCS) -> str:
    """Return what a page says between its marks."""
    own = [name for name in MODULES if find(name).page == page and newest(name, folder, SHOWN)]
    pictures = docs / "images" / PAPER
    parts = []
    for results in stored(own, folder, SHOWN) if own else ():
        if page == PAPER:
            every = sorted(pictures.glob(f"{results.study}-*.png"))
            drawn = [path for path in every if _study_of(path.name) == results.study]
            above = path_of(page, docs).parent
            parts.append(section(results, [os.path.relpath(path, above) for path in drawn]))
        else:
            parts.append(f"{_headed(results)}\n\n{origin(results)}\n\n{_packages(results)}")
    return "\n\n".join(parts)


def _study_of(picture: str) -> str:
    """Return the study of a picture: names of studies may begin alike."""
    return max((name for name in MODULES if picture.startswith(f"{name}-")), key=len)


def with_measured(text: str, tables: str) -> str:
    """Return a page with the part between its marks replaced.

    >>> with_measured(f"a\\n{START}\\nold\\n{END}\\nb", "new").splitlines()[2]
    'new'
    """
    if START not in text or END not in text:
        raise SystemExit(f"Expected a page with the lines {START!r} and {END!r}; got neither.")
    before, rest = text.split(START)
    return f"{before}{START}\n{tables}\n{END}{rest.split(END)[1]}"


def facts(name: str, folder: Path = FOLDER) -> dict[str, str]:
    """Return the figures of a study that pages may quote in their text, by name."""
    (results,) = stored([name], folder, SHOWN)
    return {**find(name).facts(results.good), "origin": caption(results)}


def with_facts(text: str, folder: Path = FOLDER) -> str:
    """Return a page with the figures in its text replaced by those of the result files."""
    known = cache(lambda name: facts(name, folder))

    def filled(found: re.Match[str]) -> str:
        study, name = found["study"], found["name"]
        check_choice(f"the fact {found[0]!r}", name, known(study))
        return f"<!-- {study}.{name} -->{known(study)[name]}<!-- -->"

    return FACT.sub(filled, text)


def pages() -> list[str]:
    """Return the pages that show studies."""
    return list(dict.fromkeys(page for name in MODULES if (page := find(name).page)))


def path_of(page: str, docs: Path = DOCS) -> Path:
    """Return the file of a page."""
    return docs / f"{page}.md"


def rebuilt(path: Path, folder: Path = FOLDER, docs: Path = DOCS) -> str:
    """Return a page's text with every figure as the result files have it."""
    text = path.read_text()
    if path in {path_of(page, docs) for page in pages()}:
        text = with_measured(text, measured(path.stem, folder, docs))
    return with_facts(text, folder)


def texts(docs: Path = DOCS) -> list[Path]:
    """Return the files that may show figures: the documents and the front page above them."""
    return [*sorted(docs.glob("*.md")), *docs.parent.glob("README.md")]


def write(folder: Path = FOLDER, docs: Path = DOCS) -> None:
    """Draw all pictures and write the figures of all pages."""
    for results in stored((), folder, SHOWN):
        if page := find(results.study).page:
            draw(results, docs / "images" / PAPER if page == PAPER else docs / "images")
    for path in texts(docs):
        path.write_text(rebuilt(path, folder, docs))


def _parts(results: Results) -> tuple[Study, Config]:
    study = find(results.study)
    return study, load(study, results.size)
