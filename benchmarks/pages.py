"""Pages whose tables are written by the code that measured, between two marks."""

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
