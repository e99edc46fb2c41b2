"""One column at a time: its schema, and there and back again."""

from typing import Any

import numpy as np
import pandas as pd
import torch

from marginals.columns import Column, Schema, decode, encode, encode_values, infer
from marginals.columns.kinds import Kind

INF, NAN = torch.inf, torch.nan


def schema_of(values: Any, kind: Kind | None = None, upper: Any = None) -> Schema:
    """The schema of a table with the single column "x"."""
    high = None if upper is None else pd.DataFrame({"x": upper})
    return infer(pd.DataFrame({"x": values}), None if kind is None else {"x": kind}, high)


def column_of(values: Any, kind: Kind | None = None) -> Column:
    return schema_of(values, kind).columns[0]


def there_and_back(values: Any, kind: Kind | None = None, schema: Schema | None = None) -> Any:
    """Encode the exact values of a column and decode them."""
    schema = schema or schema_of(values, kind)
    encode(schema, pd.DataFrame({"x": values}))  # the table's way must accept them too
    model, _ = encode_values(schema, "x", values)
    return decode(schema, model[:, None])["x"]


def cells(schema: Schema, values: Any, upper: Any = None, strict: Any = "all") -> Any:
    """The lower and upper ends of the cells of column "x", and which are empty."""
    high = None if upper is None else pd.DataFrame({"x": upper})
    out = encode(schema, pd.DataFrame({"x": values}), high, strict=strict)
    evidence = out.evidence
    return evidence.lower[:, 0].numpy(), evidence.upper[:, 0].numpy(), out.empty.numpy()


def same(one: Any, two: Any) -> None:
    """Compare arrays exactly, NaN equal to itself."""
    np.testing.assert_array_equal(np.asarray(one), np.asarray(two))


def table() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "x": [1.5, 2.0, NAN, 4.0],
            "n": [1, 2, 3, 4],
            "c": ["a", "b", None, "a"],
            "t": pd.to_datetime(["2020-01-01", None, "2020-01-03", "2020-01-04"]),
        }
    )


def ordered() -> Schema:
    return schema_of(pd.Categorical(list("SML"), categories=["S", "M", "L"], ordered=True))
