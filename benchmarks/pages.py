"""Pages whose tables are written by the code that measured, between two marks."""

import argparse
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

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


def report(
    program: str,
    words: Sequence[str],
    read: Callable[[list[Path]], Any],
    tables: Callable[[Any], str],
    draw: Callable[[Any, Path], None],
    *,
    page: str = "--out",
    heading: str | None = None,
) -> None:
    """Print the tables of result files, or write them into a page; draw the picture.

    Args:
        program: the module that is run.
        words: after `report`.
        read: joins result files; later ones take precedence.
        tables: of what was read, as Markdown.
        draw: the picture of what was read.
        page: the name of the option for the page, which has marks for the tables.
        heading: of a page that holds nothing else, and needs no marks.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {program} report")
    parser.add_argument("files", nargs="+", type=Path, help="result files")
    parser.add_argument(page, dest="page", type=Path, help="Markdown page, default the screen")
    parser.add_argument("--picture", type=Path, help="image file")
    asked = parser.parse_args(words)
    found = read(asked.files)
    text = tables(found).strip("\n")
    if asked.page is None:
        print(text)
    elif heading is None:
        write_tables(asked.page, text)
    else:
        asked.page.write_text(f"{heading}\n\n{text}\n")
    if asked.picture:
        draw(found, asked.picture)


def command(program: str, words: Sequence[str]) -> str:
    """Return a command as a result file tells it: without the folders of a machine.

    What adds to a result file is told as what makes it.

    >>> command("benchmarks.x", ["--data", "/a/b", "--append", "--seeds", "0"])
    'python -m benchmarks.x --data DATA --seeds 0'
    """
    told = list(words)
    for place, word in enumerate(words[:-1]):
        if word in ("--data", "--out", "--picture"):
            told[place + 1] = word.strip("-").upper()
    return " ".join(["python -m", program, *(quoted(w) for w in told if w != "--append")])


def quoted(word: str) -> str:
    """Return a word as a shell takes it, in quotes if it must be.

    >>> quoted("rate=2"), quoted("models=['paper']")
    ('rate=2', '"models=[\'paper\']"')
    """
    return word if re.fullmatch(r"[\w=.,:/+-]*", word) or word.startswith('"') else f'"{word}"'
