"""Configs: a TOML file for each experiment, checked key by key.

`[full]` has every setting and the seeds, `[quick]` and `[tiny]` what differs from it. `[paper]`
says where the paper shows the experiment (`source`), what came out of the committed results in
words (`outcome`), what differs here in data or protocol (`differs`, a list of sentences) and what
the paper reports (`figures`, a table for the experiment).
"""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any, Literal, final, get_args, get_origin, get_type_hints

from experiments.registry import Experiment

FOLDER = Path(__file__).parent / "configs"
Size = Literal["full", "quick", "tiny"]
SIZES: tuple[Size, ...] = get_args(Size)


@final
@dataclass(frozen=True)
class Paper:
    """What the paper says of an experiment, and what differs here."""

    source: str
    outcome: str
    differs: tuple[str, ...]
    figures: Mapping[str, Any]


@final
@dataclass(frozen=True)
class Config:
    """Settings and seeds of an experiment at one size, and what the paper says of it."""

    settings: Any
    seeds: tuple[int, ...]
    paper: Paper


def load(
    experiment: Experiment, size: Size, changes: Iterable[str] = (), folder: Path | None = None
) -> Config:
    """Read a config at one size, with changes as `key=value`."""
    path = (folder or FOLDER) / f"{experiment.name}.toml"
    content = tomllib.loads(path.read_text())
    _check_keys(content, (*SIZES, "paper"), path.name)
    known = ("seeds", *(field.name for field in fields(experiment.settings)))
    for name in SIZES:
        _check_keys(content.get(name, {}), known, f"[{name}] of {path.name}")
    chosen = {**content.get("full", {}), **content.get(size, {})}
    changed = dict(map(_change, changes))
    _check_keys(changed, known[1:], "--set")
    seeds = _typed("seeds", chosen.pop("seeds", [0]), tuple[int, ...])
    return Config(
        _settings(experiment, {**chosen, **changed}), seeds, _paper(content.get("paper", {}), path)
    )


def _settings(experiment: Experiment, values: Mapping[str, Any]) -> Any:
    hints = get_type_hints(experiment.settings)
    without = [f.name for f in fields(experiment.settings) if f.default is MISSING]
    lacking = [name for name in without if name not in values]
    if lacking:
        raise SystemExit(
            f"Expected [full] of {experiment.name}.toml to have {lacking[0]!r}. Add it."
        )
    return experiment.settings(**{n: _typed(n, value, hints[n]) for n, value in values.items()})


def _paper(values: Mapping[str, Any], path: Path) -> Paper:
    _check_keys(values, ("source", "outcome", "differs", "figures"), f"[paper] of {path.name}")
    return Paper(
        _typed("source", values.get("source", ""), str),
        _typed("outcome", values.get("outcome", ""), str),
        _typed("differs", values.get("differs", []), tuple[str, ...]),
        values.get("figures", {}),
    )


def _check_keys(given: Mapping[str, Any], known: Iterable[str], where: str) -> None:
    unknown = [name for name in given if name not in known]
    if unknown:
        raise SystemExit(
            f"Expected keys of {where} to be among {', '.join(known)}; got {unknown[0]!r}. "
            "Correct or remove it."
        )


def _change(text: str) -> tuple[str, Any]:
    """Read `key=value`; a value that is no TOML is a word.

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
    if type(value) is not kind:
        told = kind.__name__ if isinstance(kind, type) and not get_args(kind) else str(kind)
        raise SystemExit(f"Expected {name!r} to be of type {told}; got {value!r}.")
    return value
