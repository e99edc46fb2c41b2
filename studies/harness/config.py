"""Configs: a TOML file for each study, checked key by key.

`[full]` has every setting and the seeds, `[quick]` and `[tiny]` only what differs from it. A study
of the paper has `[paper]` too: where the paper shows it (`source`), what came out of the committed
results in words (`outcome`), what differs here in data or protocol (`differs`, a list of sentences)
and what the paper reports (`figures`, which `tables` is given).
"""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, final, get_args, get_origin, get_type_hints

from studies.harness.study import Study

FOLDER = Path(__file__).parents[1] / "configs"
Size = Literal["full", "quick", "tiny"]
SIZES: tuple[Size, ...] = get_args(Size)


@final
@dataclass(frozen=True)
class Paper:
    """What the paper says of a study, and what differs here."""

    source: str = ""
    outcome: str = ""
    differs: tuple[str, ...] = ()
    figures: dict[str, Any] = field(default_factory=dict)


@final
@dataclass(frozen=True)
class Config:
    """Settings and seeds of a study at one size, and what the paper says of it."""

    settings: Any
    seeds: tuple[int, ...]
    paper: Paper


def load(
    study: Study, size: Size, changes: Iterable[str] = (), folder: Path | None = None
) -> Config:
    """Read a config at one size, with changes given as `key=value`."""
    path = (folder or FOLDER) / f"{study.name}.toml"
    content = tomllib.loads(path.read_text())
    _check_keys(content, (*SIZES, "paper"), path.name)
    known = ("seeds", *(each.name for each in fields(study.settings)))
    for name in SIZES:
        _check_keys(content.get(name, {}), known, f"[{name}] of {path.name}")
    chosen = {**content.get("full", {}), **content.get(size, {})}
    changed = dict(map(_change, changes))
    _check_keys(changed, known[1:], "--set")
    seeds = _typed("seeds", chosen.pop("seeds", [0]), tuple[int, ...])
    settings = _made(study.settings, {**chosen, **changed}, f"[full] of {path.name}")
    return Config(
        settings, seeds, _made(Paper, content.get("paper", {}), f"[paper] of {path.name}")
    )


def _made(kind: type, values: Mapping[str, Any], where: str) -> Any:
    """Make a dataclass of values whose names and types are checked."""
    _check_keys(values, [each.name for each in fields(kind)], where)
    for each in fields(kind):
        needed = each.default is MISSING and each.default_factory is MISSING
        if needed and each.name not in values:
            raise SystemExit(f"Expected {where} to have {each.name!r}. Add it.")
    hints = get_type_hints(kind)
    return kind(**{name: _typed(name, value, hints[name]) for name, value in values.items()})


def _check_keys(given: Mapping[str, Any], known: Iterable[str], where: str) -> None:
    unknown = [name for name in given if name not in known]
    if unknown:
        raise SystemExit(
            f"Expected keys of {where} to be among {', '.join(known)}; got {unknown[0]!r}. "
            "Correct or remove it."
        )


def _change(text: str) -> tuple[str, Any]:
    """Read `key=value`; a value that is not TOML is a word.

    >>> _change("width=20"), _change("sets=['a']"), _change("effort=fast")
    (('width', 20), ('sets', ['a']), ('effort', 'fast'))
    """
    name, equals, value = text.partition("=")
    if not equals:
        raise SystemExit(f"Expected --set to be given key=value; got {text!r}.")
    try:
        return name.strip(), tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return name.strip(), value.strip()


def _typed(name: str, value: Any, kind: Any) -> Any:
    """Return a value as its field has it: a list as a tuple, a whole number as a float."""
    if get_origin(kind) is tuple and isinstance(value, list):
        return tuple(_typed(name, each, get_args(kind)[0]) for each in value)
    if kind is float and type(value) is int:
        return float(value)
    plain = get_origin(kind) or kind
    if type(value) is not plain:
        wanted = plain.__name__ if plain is kind or plain is dict else str(kind)
        raise SystemExit(f"Expected {name!r} to be of type {wanted}; got {value!r}.")
    return value
