"""The error of the query language, which points at a place in the text."""

import unicodedata

_WIDTH = 72  # characters of the query shown around the place


class QueryError(ValueError):
    """A query that cannot be read or answered; shows the place in the text.

    Args:
        message: what was expected, what was found, and what to do.
        text: the query.
        position: where in the text; None if there is no place to show.

    >>> print(QueryError("Expected a value.", "P(age > )", 8))
    Expected a value.
      P(age > )
              ^
    """

    def __init__(self, message: str, text: str = "", position: int | None = None) -> None:
        self.message = message
        self.text = text
        self.position = position
        shown = position is not None and text != ""
        super().__init__(f"{message}\n{_pointer(text, position or 0)}" if shown else message)


def _pointer(text: str, position: int) -> str:
    """Show the line that holds the position, and a caret below it."""
    position = min(max(position, 0), len(text))
    start = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    line = text[start : end if end >= 0 else None]
    at = position - start
    left = max(0, at - _WIDTH // 2)
    right = left + _WIDTH
    before = ("..." if left else "") + _printable(line[left:at])
    after = _printable(line[at:right]) + ("..." if right < len(line) else "")
    return f"  {before}{after}\n  {' ' * _columns(before)}^"


def _printable(text: str) -> str:
    """Give each character that would move the caret a visible stand-in."""
    return "".join(" " if c.isspace() else c if c.isprintable() or _mark(c) else "?" for c in text)


def _columns(text: str) -> int:
    """Count the columns that the text takes on a terminal."""
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(map(_mark, text))


def _mark(character: str) -> bool:
    return unicodedata.category(character) in {"Mn", "Me"}
