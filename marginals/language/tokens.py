"""Split the text of a query into tokens."""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, final

from marginals.language.errors import QueryError
from marginals.language.query_tree import Value

Kind = Literal["word", "number", "date", "quoted", "doubted", "ticked", "sign", "unknown", "end"]

SIGNS = ("<=", ">=", "==", "!=", "<", ">", "=", "(", ")", "[", "]", "{", "}", ",", "|")
_ALIASES = {"≤": "<=", "≥": ">=", "≠": "!=", "∈": "in", "==": "="}
_QUOTES: dict[str, Kind] = {"'": "quoted", '"': "doubted", "`": "ticked"}
_CONSTANTS: dict[str, Value] = {
    "true": True,
    "True": True,
    "false": False,
    "False": False,
    "inf": float("inf"),
}

# Leading zeros make a word: the code 0150 is not the number 150.
_NUMBER = re.compile(
    r"[-+]?(?:(?:0|[1-9][0-9]*(?:_[0-9]+)*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|[-+]inf"
)
_DATE = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"(?:T[0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]+)?)?(?:Z|[-+][0-9]{2}:?[0-9]{2})?)?"
)


@final
@dataclass(frozen=True)
class Token:
    """A piece of the text.

    Args:
        kind: "quoted", "doubted" and "ticked" are in single, double and back quotes; "unknown" is a
            character that starts no token.
        text: as it was written.
        at: where it starts.
        value: what it means.
    """

    kind: Kind
    text: str
    at: int
    value: Value

    def is_sign(self, *signs: str) -> bool:
        """Say whether it is one of these signs; `in` counts as a sign."""
        return self.kind == "sign" and self.value in signs

    def is_name(self) -> bool:
        """Say whether it may name a column."""
        plain = self.kind == "word" and isinstance(self.value, str)
        return plain or self.kind in ("doubted", "ticked")

    def is_value(self) -> bool:
        """Say whether it may be a value."""
        return self.kind in ("word", "number", "date", "quoted", "doubted")


def tokenize(text: str) -> list[Token]:
    """Split the text into tokens; the last one is the end.

    >>> [token.value for token in tokenize("age >= 1e3")]
    ['age', '>=', 1000.0, '']
    """
    return list(_tokens(text))


def is_plain(text: str) -> bool:
    """Say whether a string can be written as it is, without quotes.

    >>> is_plain("Oslo"), is_plain("2024-01-31"), is_plain("New York"), is_plain("12")
    (True, True, False, False)
    """
    if not text or not (_is_word(text[0]) and text[0] != "."):
        return False
    try:
        token = next(_tokens(text))
    except QueryError:  # a number that is too large
        return False
    return token.kind in ("word", "date") and token.value == text == token.text


def _tokens(text: str) -> Iterator[Token]:
    at = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        token = _token(text, at)
        yield token
        at += len(token.text)
    yield Token("end", "", len(text), "")


def _token(text: str, at: int) -> Token:
    character = text[at]
    if character in _QUOTES:
        return _quoted(text, at)
    for kind, pattern in (("date", _DATE), ("number", _NUMBER)):
        found = pattern.match(text, at)
        if found and not _is_word(text[found.end() : found.end() + 1]):
            piece = found.group()
            return Token("date", piece, at, piece) if kind == "date" else _number(text, piece, at)
    if _is_word(character) and character != ".":
        return _word(text, at)
    sign = next((sign for sign in (*SIGNS, *_ALIASES) if text.startswith(sign, at)), None)
    if sign is None:
        return Token("unknown", character, at, character)
    return Token("sign", sign, at, _ALIASES.get(sign, sign))


def _word(text: str, at: int) -> Token:
    end = at
    while end < len(text) and _is_word(text[end]):
        end += 1
    word = text[at:end]
    if word == "in":
        return Token("sign", word, at, word)
    return Token("word", word, at, _CONSTANTS.get(word, word))


def _is_word(character: str) -> bool:
    """Say whether it is a letter, digit or mark of any script, an underscore or a dot."""
    if not character:
        return False
    return (
        character.isalnum() or character in "_." or unicodedata.category(character).startswith("M")
    )


def _number(text: str, piece: str, at: int) -> Token:
    number = float(piece)
    if abs(number) == float("inf"):
        if piece.endswith("inf"):
            return Token("number", piece, at, number)
        raise QueryError(
            "Expected a number below 1.8e308; got a larger one. Write inf for an open end.",
            text,
            at,
        )
    whole = piece.lstrip("+-").replace("_", "").isdigit()
    return Token("number", piece, at, int(piece) if whole else number)


def _quoted(text: str, at: int) -> Token:
    """Read up to the closing quote; a backslash keeps the character after it as it is."""
    quote, end = text[at], at + 1
    letters: list[str] = []
    while end < len(text) and text[end] != quote:
        end += text[end] == "\\"
        letters.append(text[end : end + 1])
        end += 1
    if end >= len(text):
        raise QueryError(
            f"Expected a closing {quote}; got the end of the text. Add it, or write \\{quote} for "
            "one inside of the quotes.",
            text,
            at,
        )
    return Token(_QUOTES[quote], text[at : end + 1], at, "".join(letters))
