"""`anomalies`: the rows that the model finds least likely."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from marginals.cli import options
from marginals.cli.command import command
from marginals.cli.models import load_model, table
from marginals.cli.output import bar, print_json, print_table, records

if TYPE_CHECKING:
    import pandas as pd

Top = Annotated[int, typer.Option("--top", min=1, help="How many rows to show.")]


def add(app: typer.Typer) -> None:
    """Add the command to the program."""
    command(
        app,
        "marginals anomalies model.mdma data.csv",
        "marginals anomalies model.mdma data.parquet --top 5 --json",
    )(anomalies)


def anomalies(
    model: options.Model,
    data: options.Data,
    top: Top = 20,
    format: options.Format = None,
    json: options.Json = False,
) -> None:
    """Show the rows with the lowest log density, counted from 0, and which cell stands out."""
    import pandas as pd

    fitted = load_model(model)
    rows = _lowest(fitted, data, top, format)
    found = pd.DataFrame({"row": rows.index, "log_density": rows.pop("log_density").to_numpy()})
    found = pd.concat([found, _surprises(fitted, rows), rows.reset_index(drop=True)], axis=1)
    if json:
        print_json({"anomalies": records(found)})
    else:
        print_table([str(name) for name in found.columns], found.to_numpy(dtype=object).tolist())


def _lowest(model: Any, data: str, top: int, format: str | None) -> "pd.DataFrame":
    """Return the rows of the lowest log density, which is their last column."""
    import numpy as np
    import pandas as pd

    from marginals.io import tables

    lowest = pd.DataFrame()
    with bar("score", tables.count(data, format)) as advance:
        for frame in table(model, data, format):
            scored = frame.assign(log_density=np.asarray(model.score_samples(frame)))
            lowest = pd.concat([lowest, scored]) if len(lowest) else scored
            lowest = lowest.nsmallest(top, "log_density", keep="first")
            advance(len(frame))
    return lowest


def _surprises(model: Any, rows: "pd.DataFrame") -> "pd.DataFrame":
    """Return for each row the cell that the rest of it explains least, and how far out it is."""
    import numpy as np
    import pandas as pd

    tails = pd.DataFrame({name: _tails(model, rows, name) for name in rows.columns})
    filled = tails.fillna(np.inf)
    cells = [str(filled.columns[i]) for i in filled.to_numpy().argmin(1)]
    return pd.DataFrame({"cell": cells, "tail": filled.min(axis=1).replace(np.inf, np.nan)})


def _tails(model: Any, rows: "pd.DataFrame", name: Any) -> Any:
    """Return how likely a value as far out as that of a cell is, given the rest of its row."""
    import numpy as np

    from marginals.columns import Categorical

    known = rows[name].notna().to_numpy(dtype=bool)
    tails = np.full(len(rows), np.nan)
    if not known.any():
        return tails
    cells, rest = rows.loc[known, [name]], rows.loc[known].drop(columns=name)
    given = rest if len(rest.columns) else None
    kind = model.schema_[name].kind
    mass = 0.0 if _is_line(kind) else model.pdf(cells, given=given)
    if isinstance(kind, Categorical):
        tails[known] = mass
    else:
        below, above = model.cdf(cells, given=given), model.sf(cells, given=given) + mass
        tails[known] = np.minimum(1.0, 2 * np.minimum(below, above))
    return tails


def _is_line(kind: Any) -> bool:
    from marginals.columns import Continuous

    return isinstance(kind, Continuous) and kind.resolution is None
