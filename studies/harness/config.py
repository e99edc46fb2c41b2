"""Configs: a TOML file for each study, checked key by key.

`[full]` has every setting and the seeds, `[quick]` and `[tiny]` only what differs from it. A study
of the paper has `[paper]` too: where the paper shows it (`source`), what came out of the committed
results in words (`outcome`), what differs here in data or protocol (`differs`, a list of sentences)
and what the paper reports (`figures`, which `tables` is given).
"""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, final, get_args

from studies.harness.study import Settings, Study

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

    settings: Settings
    seeds: tuple[int, ...]
    paper: Paper


def load(
    study: Study, size: Size, changes: Iterable[str] = (), folder: Path | None = None
) -> Config:
    """Read a config at one size, with changes given as `key=value`."""
    path = (folder or FOLDER) / f"{study.name}.toml"
    content = tomllib.loads(path.read_text())
    _check_keys(content, (*SIZES, "paper"), path.name)
    full = {"seeds": [0], **content["full"]}
    for name in SIZES:
        _check_keys(content.get(name, {}), full, f"[{name}] of {path.name}")
    changed = dict(map(_change, changes))
    _check_keys(changed, [name for name in full if name != "seeds"], "--set")
    chosen = {**full, **content.get(size, {}), **changed}
    values = {name: _typed(name, value, full[name]) for name, value in chosen.items()}
    paper = content.get("paper", {})
    _check_keys(paper, Paper.__dataclass_fields__, f"[paper] of {path.name}")
    seeds = values.pop("seeds")
    return Config(Settings(**values), seeds, Paper(**paper))


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


def _typed(name: str, value: Any, like: Any) -> Any:
    """Return a value as `[full]` has it: a list as a tuple, a whole number as a float."""
    if isinstance(like, list) and isinstance(value, list):
        return tuple(_typed(name, each, like[0]) for each in value)
    if type(like) is float and type(value) is int:
        return float(value)
    if type(value) is not type(like):
        raise SystemExit(f"Expected {name!r} to be of type {type(like).__name__}; got {value!r}.")
    return value
