"""Tables: what their columns are, and the way from their cells to evidence and back."""

from marginals.table.decoding import decode, decode_column
from marginals.table.encoding import Encoded, encode, encode_bounds, encode_known, encode_values
from marginals.table.infer import infer
from marginals.table.kinds import Categorical, Continuous, Integer
from marginals.table.schema import Column, Schema

__all__ = [
    "Categorical",
    "Column",
    "Continuous",
    "Encoded",
    "Integer",
    "Schema",
    "decode",
    "decode_column",
    "encode",
    "encode_bounds",
    "encode_known",
    "encode_values",
    "infer",
]
