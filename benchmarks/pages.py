"""Pages whose tables are written by the code that measured, between two marks."""

from collections.abc import Sequence
from pathlib import Path

START, END = "<!-- measured: written by the report command -->", "<!-- end of measured -->"


def with_tables(page: str, tables: str) -> str:
    """Return a page with the part between the marks replaced.

    >>> with_tables(f"a\\n{START}\\nold\\n{END}\\nb", "new").splitlines()[2]
    'new'
    """
    if START not in page or END not in page:
        raise SystemExit(f"Expected a page with the lines {START!r} and {END!r}; got neither.")
    before, rest = page.split(START)
    return f"{before}{START}\n{tables}\n{END}{rest.split(END)[1]}"


def tables_of(page: str) -> str:
    """Return the part of a page between the marks."""
    return page.split(START)[1].split(END)[0].strip("\n")


def write_tables(path: Path, tables: str) -> None:
    """Put tables into a page."""
    path.write_text(with_tables(path.read_text(), tables))


def command(program: str, words: Sequence[str]) -> str:
    """Return a command as a result file tells it: without the folders of a machine.

    >>> command("benchmarks.x", ["--data", "/a/b", "--seeds", "0"])
    'python -m benchmarks.x --data DATA --seeds 0'
    """
    told = list(words)
    for place, word in enumerate(words[:-1]):
        if word in ("--data", "--out"):
            told[place + 1] = word.strip("-").upper()
    return " ".join(["python -m", program, *told])
