"""`mi` and `independence`: how columns depend on each other."""

from typing import Annotated, Any

import typer

from marginals.cli import options
from marginals.cli.command import command
from marginals.cli.models import load_model, table
from marginals.cli.output import print_json, print_table

First = Annotated[str, typer.Argument(metavar="A", help="A column, or several between commas.")]
Second = Annotated[str, typer.Argument(metavar="B", help="A column, or several between commas.")]


def add(app: typer.Typer) -> None:
    """Add the commands to the program."""
    command(
        app,
        "marginals mi model.mdma income age",
        "marginals mi model.mdma income age,city --given education",
    )(mi)
    command(
        app,
        "marginals independence model.mdma data.csv income city",
        "marginals independence model.mdma data.csv income city -g age -g education --json",
    )(independence)


def mi(
    model: options.Model,
    a: First,
    b: Second,
    given: options.GivenColumns = None,
    json: options.Json = False,
) -> None:
    """Print the mutual information of columns, in nats: 0 if they are independent."""
    fitted = load_model(model)
    result = fitted.mutual_information(
        _names(fitted, a), _names(fitted, b), given=_all(fitted, given)
    )
    content = {"value": result.value, "stderr": result.stderr}
    _show({"a": a, "b": b, "given": given or [], **content}, json)


def independence(
    model: options.Model,
    data: options.Data,
    x: First,
    y: Second,
    given: options.GivenColumns = None,
    format: options.Format = None,
    json: options.Json = False,
) -> None:
    """Test whether columns are independent, perhaps given others, at the rows of a table."""
    import pandas as pd

    fitted = load_model(model)
    first, second, known = _names(fitted, x), _names(fitted, y), _all(fitted, given)
    rows = pd.concat(list(table(fitted, data, format)))
    result = fitted.independence_test(first, second, given=known, data=rows)
    content = {"statistic": result.statistic, "pvalue": result.pvalue, "rows": result.n}
    _show({"x": x, "y": y, "given": given or [], **content}, json)


def _names(model: Any, text: str) -> Any:
    """Return a column, or a list of those between commas; a name may hold a comma itself."""
    from marginals.language.conditions import name_in
    from marginals.language.query_tree import Column

    known = [str(name) for name in model.schema_.names]
    parts = [text] if text in known else [part.strip() for part in text.split(",")]
    names = [name_in(model.schema_, Column(part)) for part in parts]
    return names[0] if len(names) == 1 else names


def _all(model: Any, given: list[str] | None) -> list[Any] | None:
    found = [_names(model, text) for text in given or []]
    return [n for names in found for n in (names if isinstance(names, list) else [names])] or None


def _show(content: dict[str, Any], json: bool) -> None:
    if json:
        print_json(content)
    else:
        print_table(list(content), [list(content.values())])
