"""Parse kinds of columns and settings: `price=continuous(lower=0, resolution=0.01)`."""

from dataclasses import fields
from typing import Any, final

from marginals.columns.kinds import KINDS
from marginals.columns.plain_values import did_you_mean
from marginals.language.parser import Cursor
from marginals.language.tokens import Token

_EXAMPLE = "Write for example: price=continuous(lower=0, resolution=0.01)."


def parse_spec(text: str) -> tuple[str, Any]:
    """Read the kind of a column.

    >>> parse_spec("price=continuous(lower=0, resolution=0.01)")
    ('price', Continuous(lower=0, resolution=0.01))
    >>> parse_spec("day=continuous(resolution='1 day')")
    ('day', Continuous(resolution=Timedelta('1 days 00:00:00')))
    >>> parse_spec("grade=categorical(categories={low, high})")
    ('grade', Categorical(categories=('low', 'high')))
    """
    return _Parser(text).spec()


def parse_setting(text: str) -> tuple[str, Any]:
    """Read a name and a value.

    >>> parse_setting("learning_rate=0.01"), parse_setting("tensor=cp")
    (('learning_rate', 0.01), ('tensor', 'cp'))
    """
    return _Parser(text).setting()


@final
class _Parser(Cursor):
    def spec(self) -> tuple[str, Any]:
        if self.token.kind not in ("word", "doubted", "ticked"):
            self.fail("the name of a column", _EXAMPLE)
        name = self.advance()
        self.expect("=", _EXAMPLE)
        kind = self._choice("a kind", list(KINDS))
        options: dict[str, Any] = {}
        if self.accept("("):
            while not self.accept(")"):
                self._option(str(kind.value), options)
        self.finish("Give one column at a time.")
        return _name(name), KINDS[str(kind.value)](**options)

    def setting(self) -> tuple[str, Any]:
        remedy = "Write for example: learning_rate=0.01."
        if not self.token.is_name():
            self.fail("the name of a setting", remedy)
        name = self.advance()
        self.expect("=", remedy)
        value = self._value()
        self.finish(remedy)
        return str(name.value), value

    def _option(self, kind: str, options: dict[str, Any]) -> None:
        option = self._choice(f"an option of {kind}", [field.name for field in fields(KINDS[kind])])
        self.expect("=", _EXAMPLE)
        name = str(option.value)
        if name == "categories":
            options[name] = self._set()
        elif name == "atoms":
            options[name] = tuple(map(_moment, self._set()))
        else:
            options[name] = _moment(self._value(), span=name == "resolution")
        if not (self.accept(",") or self.token.is_sign(")")):
            self.fail("',' or ')'", _EXAMPLE)

    def _set(self) -> tuple[Any, ...]:
        self.expect("{", "Write a set in braces, such as {low, high}.")
        values = [self._value()]
        while self.accept(","):
            values.append(self._value())
        self.expect("}", "Close the set.")
        return tuple(values)

    def _value(self) -> Any:
        if not self.token.is_value():
            self.fail("a value", _EXAMPLE)
        return self.advance().value

    def _choice(self, expected: str, known: list[str]) -> Token:
        if self.token.text not in known:
            self.fail(expected, did_you_mean(self.token.text, known))
        return self.advance()


def _moment(value: Any, span: bool = False) -> Any:
    """Read a string as a time or, failing that, as a duration."""
    if not isinstance(value, str):
        return value
    import pandas as pd

    try:
        return pd.Timedelta(value) if span else pd.to_datetime(value, format="ISO8601")
    except ValueError:
        return value if span else _moment(value, span=True)


def _name(token: Token) -> str:
    return token.text if token.kind == "word" else str(token.value)
