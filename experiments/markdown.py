"""Tables of the page."""

from collections.abc import Iterable, Sequence
from statistics import fmean, stdev


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table.

    >>> print(table(["", "a"], [["b", "1"]]))
    |  | a |
    |---|---|
    | b | 1 |
    """
    lines = [_line(head), "|---" * len(head) + "|", *map(_line, rows)]
    return "\n".join(lines)


def spread(values: Sequence[float], digits: int = 3) -> str:
    """Return the mean of values, ± their standard deviation if there are several.

    >>> spread([1.0, 2.0]), spread([1.0], 1), spread([])
    ('1.500 ± 0.707', '1.0', '')
    """
    if not values:
        return ""
    mean = f"{fmean(values):.{digits}f}"
    return f"{mean} ± {stdev(values):.{digits}f}" if len(values) > 1 else mean


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
