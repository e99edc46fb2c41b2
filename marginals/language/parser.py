"""Parse queries by recursive descent.

    query      = "P(" conditions given ")" | "p(" conditions given ")"
               | "E[" column given "]" | "SD[" column given "]"
               | "Q[" level {"," level} "](" column given ")" | "mode(" column given ")"
    given      = ["|" conditions]
    conditions = condition {"," condition}
    condition  = simple {"or" simple}, all about one column
    simple     = operand sign operand [sign operand] | column "in" (set | interval)
    sign       = "<" | "<=" | ">" | ">=" | "=" | "=="
    set        = "{" value {"," value} "}"
    interval   = ("(" | "[") value "," value (")" | "]")

A column is a word, or anything in double quotes or backticks. A value is a number, true or false, a
date, a word, or anything in single or double quotes. In `a = b` the column is on the left, unless
only the right side can be a column. A level is strictly between 0 and 1.
"""

import math
from typing import NoReturn, final

from marginals.cells.cell import AnyOf, Cell, Exact, Interval, OneOf
from marginals.language.errors import QueryError
from marginals.language.query_tree import Column, Condition, Function, Query, Value
from marginals.language.tokens import Token, tokenize

FORMS: dict[Function, str] = {
    "P": "P(income > 50000 | age = 40)",
    "p": "p(income = 40000 | age = 40)",
    "E": "E[income | age = 40]",
    "SD": "SD[income | age = 40]",
    "Q": "Q[0.05, 0.95](income | age = 40)",
    "mode": "mode(city | age = 40)",
}
_COMPARISONS = ("<", "<=", ">", ">=", "=")
_EXAMPLE = "Write a condition such as age = 40, age > 30, or city in {Oslo, Bergen}."
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


def parse(text: str) -> Query:
    """Parse a query.

    Args:
        text: the query string.

    >>> parse("Q[0.5](income | age = 40)").given
    (Condition(column='age', cell=Exact(value=40)),)
    """
    return _Parser(text).query()


def parse_conditions(text: str) -> tuple[Condition, ...]:
    """Parse conditions alone, as written after the bar; an empty text has none.

    Args:
        text: conditions such as "age > 40, city = Oslo".

    >>> parse_conditions("city in {Oslo, Bergen}")
    (Condition(column='city', cell=OneOf(values=('Oslo', 'Bergen'))),)
    """
    return _Parser(text).only_conditions()


class Cursor:
    """A position among the tokens of a text."""

    def __init__(self, text: str) -> None:
        if not isinstance(text, str):
            raise TypeError(f"Expected a query to be a string; got {type(text).__name__}.")
        self.text = text
        self.tokens = tokenize(text)
        self.index = 0

    @property
    def token(self) -> Token:
        """The next token."""
        return self.tokens[self.index]

    def advance(self) -> Token:
        """Consume and return the next token."""
        token = self.token
        self.index = min(self.index + 1, len(self.tokens) - 1)
        return token

    def accept(self, *signs: str) -> Token | None:
        """Consume one of these signs if it is next."""
        return self.advance() if self.token.is_sign(*signs) else None

    def expect(self, sign: str, remedy: str = "") -> Token:
        """Consume this sign, which must be next."""
        return self.accept(sign) or self.fail(f"{sign!r}", remedy)

    def finish(self, remedy: str = "Write one query at a time.") -> None:
        """Check that nothing follows."""
        if self.token.kind != "end":
            self.fail("the end of the text", remedy)

    def fail(self, expected: str, remedy: str = "", token: Token | None = None) -> NoReturn:
        """Raise an error at a token, by default the next one."""
        token = token or self.token
        got = "the end of the text" if token.kind == "end" else repr(token.text)
        hint = remedy or self._hint(token)
        raise QueryError(f"Expected {expected}; got {got}. {hint}".rstrip(), self.text, token.at)

    def _hint(self, token: Token) -> str:
        before = self.tokens[self.index - 1] if self.index else None
        adjacent = before is not None and before.at + len(before.text) == token.at
        if adjacent and token.text[:1] not in ("", *"()[]{},|<>="):
            return "Put a name with such a character in backticks, a value in quotes."
        if token.text in ("and", "&", "&&", ";"):
            return "Separate conditions by commas."
        if token.text in ("or", "||"):
            return "Write age < 20 or age > 60, or for several values city in {Oslo, Bergen}."
        if token.is_sign("!=") or token.text in ("not", "!"):
            return "For other values than one, list them in a set or compute 1 - P(...)."
        return ""


@final
class _Parser(Cursor):
    def query(self) -> Query:
        function = self._function()
        opening, closing = ("[", "]") if function in ("E", "SD") else ("(", ")")
        levels = self._levels() if function == "Q" else ()
        self.expect(opening, f"Write for example: {FORMS[function]}.")
        of: tuple[Condition | Column, ...]
        if function in ("P", "p"):
            of = self._conditions(exact=function == "p")
        else:
            of = (self._column(),)
        given = self._conditions() if self.accept("|") else ()
        self.expect(closing, f"Write for example: {FORMS[function]}.")
        self.finish()
        return Query(function, of, given, levels, self.text)

    def only_conditions(self) -> tuple[Condition, ...]:
        if self.token.kind == "end":
            return ()
        conditions = self._conditions()
        self.finish("Write conditions without a bar or a function around them.")
        return conditions

    def _function(self) -> Function:
        for name in FORMS:
            if self.token.kind == "word" and self.token.text == name:
                self.advance()
                return name
        return self.fail("P, p, E, SD, Q or mode", f"Write for example: {FORMS['P']}.")

    def _levels(self) -> tuple[float, ...]:
        self.expect("[", f"Write for example: {FORMS['Q']}.")
        levels = [self._level()]
        while self.accept(","):
            levels.append(self._level())
        self.expect("]", f"Write for example: {FORMS['Q']}.")
        return tuple(levels)

    def _level(self) -> float:
        level = self.token.value
        fine = self.token.kind == "number" and not isinstance(level, str) and 0 < level < 1
        if not fine:
            self.fail("a level strictly between 0 and 1", f"Write for example: {FORMS['Q']}.")
        self.advance()
        return float(level)

    def _column(self) -> Column:
        if not self.token.is_name():
            remedy = f"Write for example: {FORMS['E']}; put odd names in backticks."
            self.fail("the name of a column", remedy)
        token = self.advance()
        return Column(str(token.value), token.at)

    # Conditions -------------------------------------------------------------------------------

    def _conditions(self, exact: bool = False) -> tuple[Condition, ...]:
        conditions = [self._condition(exact)]
        while self.accept(","):
            conditions.append(self._condition(exact))
        if not (self.token.kind == "end" or self.token.is_sign("|", ")", "]")):
            self.fail("',' or the end of the conditions")
        return tuple(conditions)

    def _condition(self, exact: bool) -> Condition:
        parts = [self._simple(exact)]
        while not exact and self.token.kind == "word" and self.token.text == "or":
            self.advance()
            at = self.token
            parts.append(self._simple(exact))
            if parts[-1].column != parts[0].column:
                self.fail(
                    f"conditions on {parts[0].column!r} alone on both sides of 'or'",
                    "Add the probabilities of events that exclude each other.",
                    at,
                )
        if len(parts) == 1:
            return parts[0]
        cells = [_parts(part.cell) for part in parts]
        cell = AnyOf(tuple(piece for pieces in cells for piece in pieces))
        return Condition(parts[0].column, cell, parts[0].at)

    def _simple(self, exact: bool) -> Condition:
        first = self._operand()
        if exact and not self.token.is_sign("="):
            self.fail("'='", "p takes exact values; P takes comparisons, intervals and sets.")
        if self.accept("in"):
            return self._membership(self._name(first))
        sign = self._comparison(first)
        second = self._operand()
        if self.token.is_sign(*_COMPARISONS):
            return self._chain(first, sign, second)
        name, value = (second, first) if _is_turned(first, second) else (first, second)
        relation = str(sign.value) if name is first else _TURNED[str(sign.value)]
        return self._relation(self._name(name), relation, self._value(value))

    def _operand(self) -> Token:
        if not (self.token.is_name() or self.token.is_value()):
            self.fail("a column or a value", self._hint(self.token) or _EXAMPLE)
        return self.advance()

    def _comparison(self, before: Token) -> Token:
        remedy = self._hint(self.token) or _EXAMPLE
        if before.text.isdigit():
            remedy = "Write thousands as 1_000, or put the name of a column in backticks."
        return self.accept(*_COMPARISONS) or self.fail("'<', '<=', '>', '>=', '=' or 'in'", remedy)

    def _chain(self, first: Token, sign: Token, name: Token) -> Condition:
        """Read `low < column < high`, or the other way around."""
        column = self._name(name)
        second = self.advance()
        signs = str(sign.value), str(second.value)
        if "=" in signs or signs[0][0] != signs[1][0]:
            self.fail("both signs to point the same way", "Write: 20 <= age < 30.", second)
        ends = (self._value(first), signs[0]), (self._value(self._operand()), signs[1])
        (low, below), (high, above) = ends if signs[0][0] == "<" else (ends[1], ends[0])
        return self._interval(column, low, high, "=" in below, "=" in above)

    def _membership(self, column: Column) -> Condition:
        opening = self.accept("{", "(", "[")
        if opening is None:
            self.fail("a set in braces or an interval", "Write {a, b}, (0, 1], or [0, 1].")
        values = [self._value(self._operand())]
        while self.accept(","):
            values.append(self._value(self._operand()))
        if opening.value == "{":
            self.expect("}", "Separate values by commas and close the set.")
            return self._set(column, values)
        closing = self.accept(")", "]") or self.fail("')' or ']'", "Close the interval.")
        if len(values) != 2:
            self.fail("two ends of an interval", "Write a set in braces.", opening)
        closed = opening.value == "[", closing.value == "]"
        return self._interval(column, values[0], values[1], *closed)

    # Parts ------------------------------------------------------------------------------------

    def _name(self, token: Token) -> Column:
        if not token.is_name():
            remedy = "Put the name of a column in backticks if it looks like a value."
            self.fail("the name of a column", remedy, token)
        return Column(str(token.value), token.at)

    def _value(self, token: Token) -> Value:
        if not token.is_value():
            self.fail("a value", "Columns are compared to values, not to each other.", token)
        return token.value

    def _relation(self, column: Column, sign: str, value: Value) -> Condition:
        if sign == "=":
            self._check_finite(column, [value])
            return Condition(column.column, Exact(value), column.at)
        closed = sign.endswith("=")
        if sign[0] == ">":
            return self._interval(column, value, math.inf, closed, False)
        return self._interval(column, -math.inf, value, False, closed)

    def _set(self, column: Column, values: list[Value]) -> Condition:
        self._check_finite(column, values)
        distinct = {(isinstance(value, bool), value): value for value in values}
        return Condition(column.column, OneOf(tuple(distinct.values())), column.at)

    def _interval(
        self, column: Column, low: Value, high: Value, low_closed: bool, high_closed: bool
    ) -> Condition:
        if low == math.inf or high == -math.inf:
            raise QueryError(
                f"Expected {column.column!r} to have finite values in the interval; got none. "
                "Turn the infinite end around.",
                self.text,
                column.at,
            )
        cell = Interval(low, high, low_closed, high_closed)
        return Condition(column.column, cell, column.at)

    def _check_finite(self, column: Column, values: list[Value]) -> None:
        if any(isinstance(value, float) and math.isinf(value) for value in values):
            raise QueryError(
                f"Expected a finite value for {column.column!r}; got inf. Use it in intervals.",
                self.text,
                column.at,
            )


def _parts(cell: Cell) -> tuple[Exact | Interval, ...]:
    """Return the exact values and intervals of a simple condition."""
    if isinstance(cell, OneOf):
        return tuple(map(Exact, cell.values))
    assert isinstance(cell, Exact | Interval)
    return (cell,)


def _is_turned(left: Token, right: Token) -> bool:
    """Say whether the column stands on the right: `50000 < income`."""
    if not right.is_name():
        return False
    return not left.is_name() or (right.kind == "ticked" and left.is_value())
