"""Code written for an earlier version runs: no name, argument or option of it has gone."""

import inspect
import json
from functools import reduce
from pathlib import Path
from typing import Any

import typer

import marginals
from marginals.cli import app

# The names at the top of the package, their methods and arguments, and the options of commands.
INTERFACE = json.loads((Path(__file__).parent / "interface_0_1_0.json").read_text())


def test_names_and_arguments_are_still_there() -> None:
    for name, arguments in INTERFACE.items():
        if not name.startswith("marginals "):
            thing: Any = reduce(getattr, name.split("."), marginals)
            own = set(inspect.signature(thing).parameters) if arguments else set()
            assert set(arguments) <= own, name


def test_commands_and_options_are_still_there() -> None:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    for name, options in INTERFACE.items():
        if name.startswith("marginals "):
            own = {word for p in commands[name.split()[1]].params for word in p.opts}
            assert set(options) <= own
