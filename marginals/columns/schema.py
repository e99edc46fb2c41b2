"""The schema of a table: what each column is, and where its values are on the model's scale."""

import math
import operator
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, final

import pandas as pd

from marginals.columns.dtypes import base, parse
from marginals.columns.kinds import KINDS, Categorical, Continuous, Discrete, Kind
from marginals.columns.normal_scores import NormalScores
from marginals.columns.plain_values import did_you_mean, from_json, to_json
from marginals.columns.rounding import Rounding

if TYPE_CHECKING:
    from marginals.columns.axis import Axis
    from marginals.columns.glued_axis import Margin

__all__ = ["Column", "Name", "Schema"]

Name = str | int

_HEADER = ("column", "kind", "dtype", "values", "why", "notes")


@final
@dataclass(frozen=True)
class Column:
    """A column: its kind, and the map from its values to the model's scale.

    Args:
        name: the name in the table.
        kind: the kind; a categorical kind lists its categories.
        dtype: the name of the pandas dtype.
        reason: why the column has this kind.
        location, scale: subtracted, and divided by, to reach the model's scale.
        notes: hints for the user.
        ordered: whether the categories are ordered.
        reference: the whole number from which integers and times are counted, so that huge values
            keep their digits; for rounded floats, in multiples of the resolution.
        offset: where the lattice of a rounded column starts.
        grain: the step in which times are counted from `reference`.
        atoms: the kind's atoms on the model's scale, in the same order.
        knot: for a column with one bound, the logarithm of the largest distance from it in the
            data; see `open_tail`.
        soft: for a lattice, the steps from its bounds at which its scale becomes logarithmic.
        line: for a column with one bound, the length of its scale if that is a line but for values
            next to the bound, in steps for a lattice; 0 for a logarithm. See `straight_scale`.
        scores: for a continuous or finely rounded column with many rows, the map to its normal
            scores.
        rounding: for a column modelled as smooth although its values repeat, lie on a grid or have
            bounds, the map from its numbers to such values.
        alone: whether the column is modelled as independent of all others, as a column that nearly
            identifies its row is.
        above: the columns that never exceed this one in the fitted table; draws keep to that.
        margin: a distribution that replaces the column's margin; it cannot be saved.
        unknown: how to treat a category not seen in training: "error" or "missing".
    """

    name: Name
    kind: Kind
    dtype: str
    reason: str
    location: float = 0.0
    scale: float = 1.0
    notes: tuple[str, ...] = ()
    ordered: bool = False
    reference: int = 0
    offset: float = 0.0
    grain: int = 1
    atoms: tuple[float, ...] = ()
    knot: float | None = None
    soft: float = 0.0
    line: float = 0.0
    scores: NormalScores | None = None
    rounding: Rounding | None = None
    alone: bool = False
    above: tuple[Name, ...] = ()
    margin: "Margin | None" = None
    unknown: str = "error"

    @cached_property
    def axis(self) -> "Axis":
        """The map from the column's values to the model's scale, built once."""
        from marginals.columns.column_axis import axis_of

        return axis_of(self)

    @property
    def declared(self) -> bool:
        """Whether the user declared the kind; otherwise it was inferred."""
        return self.reason == "given"

    @property
    def listed(self) -> tuple[Any, ...] | None:
        """The categories or discrete values in the order of their codes, or None.

        Columns with codes have a table of probabilities in each component.
        """
        if isinstance(self.kind, Categorical):
            return tuple(self.kind.categories or ())
        return (self.kind.values or ()) if isinstance(self.kind, Discrete) else None

    @cached_property
    def codes(self) -> dict[Any, int]:
        """The code of each category; empty unless the column is categorical."""
        listed = getattr(self.kind, "categories", None) or ()
        return {category: code for code, category in enumerate(listed)}

    def to_dict(self) -> dict[str, Any]:
        """Return a dict that JSON can hold."""
        if self.margin is not None:
            raise ValueError(
                f"Expected column {self.name!r} to have its own margin; got one glued on, which no "
                "file holds. Save the model, and call `with_margins` again after loading it."
            )
        rest = [f.name for f in fields(self) if f.name not in ("kind", "margin", "unknown")]
        plain = {name: getattr(self, name) for name in rest}
        maps = {name: getattr(self, name) for name in ("scores", "rounding")}
        plain |= {name: None if own is None else asdict(own) for name, own in maps.items()}
        lists = {name: list(getattr(self, name)) for name in ("notes", "atoms", "above")}
        plain |= lists
        return plain | {"kind": _kind_to_dict(self.kind)}

    @staticmethod
    def from_dict(stored: Mapping[str, Any]) -> "Column":
        """Return the column that `to_dict` wrote.

        Args:
            stored: the dict.
        """
        lists = {name: tuple(stored.get(name, ())) for name in ("notes", "atoms", "above")}
        rest = {**stored, **lists}
        if rest.get("scores") is not None:
            knots = {name: tuple(part) for name, part in rest["scores"].items()}
            rest["scores"] = NormalScores(**knots)
        if rest.get("rounding") is not None:
            own = rest["rounding"]
            rest["rounding"] = Rounding(**{**own, "values": tuple(own["values"])})
        column = Column(**{**rest, "kind": _kind_from_dict(stored["kind"])})
        _check_stored(column)
        return column


@final
@dataclass(frozen=True)
class Schema:
    """The columns of a table, in order. Print it to see each column's kind and the reason for it.

    Args:
        columns: descriptions of the columns, in the table's order.

    >>> from marginals import Integer
    >>> schema = Schema((Column("age", Integer(lower=0), "int64", "given"),))
    >>> schema.index("age")
    0
    >>> print(schema)
    column  kind     dtype  values    why
    age     integer  int64  0 to inf  given
    """

    columns: tuple[Column, ...]

    def __len__(self) -> int:
        return len(self.columns)

    def __iter__(self) -> Iterator[Column]:
        return iter(self.columns)

    def __getitem__(self, column: Name) -> Column:
        return self.columns[self.index(column)]

    @property
    def names(self) -> tuple[Name, ...]:
        """The names of the columns."""
        return tuple(column.name for column in self.columns)

    @property
    def categories(self) -> dict[int, int]:
        """The number of categories or values of each column modelled as a table, by position."""
        listed = {i: column.listed for i, column in enumerate(self.columns)}
        return {i: len(values) for i, values in listed.items() if values is not None}

    @property
    def orders(self) -> list[tuple[Name, Name]]:
        """The pairs (a, b) of columns with a <= b in every row of the fitted table."""
        names = set(self.names)
        return [(low, c.name) for c in self.columns for low in c.above if low in names]

    @property
    def build_options(self) -> dict[str, Any]:
        """The options of `marginals.build` that describe the columns, by position."""
        from marginals.columns.lattice_axis import LatticeAxis

        atoms = {i: column.atoms for i, column in enumerate(self.columns) if column.atoms}
        axes = [column.axis for column in self.columns]
        lattices = {i: axis.cells for i, axis in enumerate(axes) if isinstance(axis, LatticeAxis)}
        alone = tuple(i for i, column in enumerate(self.columns) if column.alone)
        categories = self.categories
        return {"categories": categories, "atoms": atoms, "lattices": lattices, "alone": alone}

    def reading(self, unknown: str) -> "Schema":
        """Return a schema that treats categories not seen in training in another way.

        Args:
            unknown: "error" rejects them, "missing" treats their cells as missing.
        """
        if unknown not in ("error", "missing"):
            raise ValueError(
                f"Expected `handle_unknown` to be 'error' or 'missing'; got {unknown!r}."
            )
        same = all(column.unknown == unknown for column in self.columns)
        return self if same else self._otherwise

    @cached_property
    def _otherwise(self) -> "Schema":
        """The schema that reads unseen categories the other way, built once."""
        other = "missing" if self.columns[0].unknown == "error" else "error"
        return Schema(tuple(replace(column, unknown=other) for column in self.columns))

    def atoms(self, column: Name) -> tuple[float, ...]:
        """Return the atoms of a column on the model's scale, in rising order.

        Args:
            column: a name or position.
        """
        return self[column].atoms

    def index(self, column: Name) -> int:
        """Return a column's position, from its name or, if no name is a number, its position.

        Args:
            column: a name or position.
        """
        try:
            named = None if isinstance(column, bool) else self._places.get(column)
        except TypeError:
            raise TypeError(
                f"Expected a column's name; got {type(column).__name__}: {column!r:.60}. Name "
                "one column at a time."
            ) from None
        if named is not None:
            return named
        position = _whole(column)
        if position is not None and self._by_position and 0 <= position < len(self):
            return position
        raise ValueError(
            f"Expected a column of the table; got {column!r}. {did_you_mean(column, self.names)}"
        )

    def positions(self, columns: Name | Iterable[Name] | None = None) -> tuple[int, ...]:
        """Return the positions of one or more columns, each once; by default of all columns.

        Args:
            columns: names or positions; None for all.
        """
        if columns is None:
            return tuple(range(len(self)))
        single = isinstance(columns, str) or not isinstance(columns, Iterable)
        listed: list[Any] = [columns] if single else list(columns)  # type: ignore[arg-type]
        found = tuple(self.index(column) for column in listed)
        if len(set(found)) != len(found):
            raise ValueError(
                f"Expected each column once; got {listed}. Leave out the repeated one."
            )
        return found

    @cached_property
    def _places(self) -> dict[Name, int]:
        return {name: i for i, name in enumerate(self.names)}

    @cached_property
    def _by_position(self) -> bool:
        return not any(isinstance(name, int) for name in self.names)

    # Files ------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Return a dict that JSON can hold."""
        return {"columns": [column.to_dict() for column in self.columns]}

    @staticmethod
    def from_dict(stored: Mapping[str, Any]) -> "Schema":
        """Return the schema that `to_dict` wrote.

        Args:
            stored: the dict.
        """
        try:
            schema = Schema(tuple(Column.from_dict(column) for column in stored["columns"]))
            if not len(schema) or len(set(schema.names)) != len(schema):
                raise ValueError(f"the columns are {schema.names}")
            return schema
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise ValueError(
                f"Expected a schema as `to_dict` writes it; got another ({error!r}). Fit again, or "
                "load the file with the version that wrote it."
            ) from error

    # Text -------------------------------------------------------------------------------------

    def __str__(self) -> str:
        rows = [_HEADER, *map(_row, self.columns)]
        used = [i for i in range(len(_HEADER)) if any(row[i] for row in rows[1:])]
        widths = {i: max(len(row[i]) for row in rows) for i in used}
        lines = ("  ".join(row[i].ljust(widths[i]) for i in used).rstrip() for row in rows)
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        cells = pd.DataFrame(map(_row, self.columns), columns=list(_HEADER))
        return cells.to_html(index=False)


def _whole(value: Any) -> int | None:
    try:
        return None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        return None


def _kind_to_dict(kind: Kind) -> dict[str, Any]:
    name = next(name for name, cls in KINDS.items() if isinstance(kind, cls))
    stored: dict[str, Any] = {"is": name}
    for f in fields(kind):
        value = getattr(kind, f.name)
        stored[f.name] = [to_json(v) for v in value] if isinstance(value, tuple) else to_json(value)
    return stored


def _kind_from_dict(stored: Mapping[str, Any]) -> Kind:
    options = {
        name: tuple(from_json(v) for v in value) if isinstance(value, list) else from_json(value)
        for name, value in stored.items()
        if name != "is"
    }
    return KINDS[stored["is"]](**options)


def _check_stored(column: Column) -> None:
    """Refuse a stored column that would fail only later, and silently."""
    knot = 0.0 if column.knot is None else column.knot
    scales = (column.location, column.scale, column.offset, column.soft, column.line, knot)
    numbers = (*scales, *column.atoms)
    whole = (column.reference, column.grain)
    texts = (column.dtype, column.reason, *column.notes)
    sound = (
        type(column.name) in (str, int)
        and all(type(text) is str for text in texts)
        and all(type(number) in (int, float) and math.isfinite(number) for number in numbers)
        and all(type(number) is int for number in whole)
        and type(column.ordered) is bool
        and type(column.alone) is bool
        and len(column.atoms) == len(getattr(column.kind, "atoms", ()))
        and column.listed != ()
    )
    if not (sound and column.scale > 0 and column.grain > 0 and column.line >= 0):
        raise ValueError(f"column {column.name!r} is {column}")
    if not column.dtype.startswith("category["):
        parse(base(column.dtype))  # raises TypeError for what is no dtype


def _row(column: Column) -> tuple[str, ...]:
    kind = type(column.kind).__name__.lower()
    values, notes = _values(column), "; ".join(column.notes)
    return str(column.name), kind, column.dtype, values, column.reason, notes


def _values(column: Column) -> str:
    """Describe the values that a column can take."""
    kind = column.kind
    if column.listed is not None:
        shown = [str(value) for value in column.listed[:4]]
        more = [f"... ({len(column.listed)})"] if len(column.listed) > 4 else []
        ordered = column.ordered or isinstance(kind, Discrete)
        return (" < " if ordered else ", ").join(shown + more)
    assert not isinstance(kind, Categorical | Discrete)
    if kind.lower is None and kind.upper is None:
        text = ""
    else:
        low = "-inf" if kind.lower is None else kind.lower
        text = f"{low} to {'inf' if kind.upper is None else kind.upper}"
    step = kind.resolution if isinstance(kind, Continuous) else None
    rounded = "" if step is None else f"steps of {step}"
    atoms = "atoms at " + _some(kind.atoms) if kind.atoms else ""
    return ", ".join(part for part in (text, rounded, atoms) if part)


def _some(values: tuple[Any, ...]) -> str:
    """Return the first few values, and how many there are."""
    more = f", ... ({len(values)})" if len(values) > 6 else ""
    return ", ".join(map(str, values[:6])) + more
