"""Tables: what their columns are, and the way from their cells to evidence and back."""

from marginals.columns.decoding import decode, decode_column
from marginals.columns.encoded_cells import Encoded
from marginals.columns.encoding import encode, encode_bounds, encode_cells, encode_values
from marginals.columns.inference import infer
from marginals.columns.kinds import Categorical, Continuous, Discrete, Integer
from marginals.columns.relations import SchemaWarning
from marginals.columns.schema import Column, Schema

__all__ = [
    "Categorical",
    "Column",
    "Continuous",
    "Discrete",
    "Encoded",
    "Integer",
    "Schema",
    "SchemaWarning",
    "decode",
    "decode_column",
    "encode",
    "encode_bounds",
    "encode_cells",
    "encode_values",
    "infer",
]
