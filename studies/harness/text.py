"""Markdown tables and the figures in them."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, stdev
from typing import Any


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table.

    >>> print(table(["", "a"], [["b", "1"]]))
    |  | a |
    |---|---|
    | b | 1 |
    """
    return "\n".join([_line(head), "|---" * len(head) + "|", *map(_line, rows)])


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def spread(values: Sequence[float], digits: int = 3) -> str:
    """Return the mean of values, ± their standard deviation if there are several.

    >>> spread([1.0, 2.0]), spread([1.0], 1), spread([])
    ('1.500 ± 0.707', '1.0', '')
    """
    if not values:
        return ""
    mean = f"{fmean(values):.{digits}f}"
    return f"{mean} ± {stdev(values):.{digits}f}" if len(values) > 1 else mean


def shown(figure: float | None, digits: int = 3) -> str:
    """Return a figure with so many digits; nothing for None and NaN."""
    return "" if figure is None or figure != figure else f"{figure:.{digits}f}"


def best_bold(
    figures: Mapping[str, float | None], digits: int, *, smaller: bool | None
) -> dict[str, str]:
    """Write figures, the best in bold; `smaller` says which is best, None marks none.

    >>> best_bold({"a": 1.0, "b": 2.0, "c": None}, 1, smaller=True)
    {'a': '**1.0**', 'b': '2.0', 'c': ''}
    """
    known = [figure for figure in figures.values() if figure is not None and figure == figure]
    best = None if smaller is None or not known else min(known) if smaller else max(known)
    return {
        name: f"**{text}**" if text and figure == best else text
        for name, figure in figures.items()
        for text in [shown(figure, digits)]
    }


def ranked(figures: Mapping[str, float], digits: int, *, smaller: bool = True) -> str:
    """Name figures from the best to the worst, for the text of a page.

    >>> ranked({"a": 2.0, "b": 1.0}, 1), ranked({"a": 2.0, "b": 1.0}, 1, smaller=False)
    ('b 1.0, a 2.0', 'a 2.0, b 1.0')
    """
    ordered = sorted(figures.items(), key=lambda item: item[1] if smaller else -item[1])
    return ", ".join(f"{name} {figure:.{digits}f}" for name, figure in ordered)


def ranges(values: Iterable[int]) -> str:
    """Return the least and the largest of some counts, or the one that there is.

    >>> ranges([3, 1, 2]), ranges([5])
    ('1 to 3', '5')
    """
    found = sorted(values)
    return str(found[0]) if found[0] == found[-1] else f"{found[0]} to {found[-1]}"


def pick(records: Iterable[dict[str, Any]], **where: Any) -> list[dict[str, Any]]:
    """Return the records that have these values.

    >>> pick([{"set": "a", "seed": 0}, {"set": "b", "seed": 0}], set="b")
    [{'set': 'b', 'seed': 0}]
    """
    return [r for r in records if all(r.get(name) == value for name, value in where.items())]


def values(records: Iterable[dict[str, Any]], figure: str, **where: Any) -> list[Any]:
    """Return one figure of the records that have these values."""
    return [record[figure] for record in pick(records, **where)]


def present(labels: Iterable[str], found: Iterable[str]) -> list[str]:
    """Return those labels that were found, in their own order."""
    there = set(found)
    return [label for label in labels if label in there]
