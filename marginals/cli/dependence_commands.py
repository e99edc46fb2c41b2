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
    """Estimate the mutual information of columns in nats: 0 if they are independent."""
    fitted = load_model(model)
    sides = _names(fitted, a), _names(fitted, b), _names(fitted, *given or [])
    result = fitted.mutual_information(*sides)
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
    """Test whether columns are independent, optionally given others, on the rows of a table."""
    import pandas as pd

    fitted = load_model(model)
    sides = _names(fitted, x), _names(fitted, y), _names(fitted, *given or [])
    rows = pd.concat([frame for _, frame in table(fitted, data, format)])
    result = fitted.independence_test(*sides, data=rows)
    content = {"statistic": result.statistic, "pvalue": result.pvalue, "rows": result.n}
    _show({"x": x, "y": y, "given": given or [], **content}, json)


def _names(model: Any, *texts: str) -> list[Any]:
    """Return the columns between commas in each text; a name may hold a comma itself."""
    from marginals.language.conditions import name_in
    from marginals.language.query_tree import Column

    known = [str(name) for name in model.schema_.names]
    listed = ([text] if text in known else text.split(",") for text in texts)
    return [name_in(model.schema_, Column(part.strip())) for parts in listed for part in parts]


def _show(content: dict[str, Any], json: bool) -> None:
    if json:
        print_json(content)
    else:
        print_table(list(content), [list(content.values())])
