"""What every command does: errors as messages, exit codes, and `--debug`."""

import functools
import inspect
import traceback
from collections.abc import Callable
from typing import Annotated, Any

import typer
from rich.markup import escape

INTERRUPTED = 130  # as a shell reports a program that Ctrl-C ended

_Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
# What the library raises with a message for the user; anything else is our mistake.
_EXPECTED = (ValueError, TypeError, OSError, NotImplementedError, ImportError, RuntimeError)


def command(app: typer.Typer, *examples: str) -> Callable[[Callable[..., None]], Any]:
    """Add a function to the program as a command, with examples at the end of its help."""

    lines = "\n\n".join(f"  {escape(example)}" for example in examples)

    def add(function: Callable[..., None]) -> Callable[..., None]:
        app.command(epilog=f"[bold]Examples[/bold]\n\n{lines}")(guarded(function))
        return function

    return add


def guarded(function: Callable[..., None]) -> Callable[..., None]:
    """Turn errors into messages on stderr and exit codes; add the option `--debug`."""

    @functools.wraps(function)
    def run(*arguments: Any, debug: bool = False, **options: Any) -> None:
        try:
            function(*arguments, **options)
        except (typer.Exit, typer.Abort, typer.BadParameter, BrokenPipeError):
            raise
        except KeyboardInterrupt:
            typer.echo("Interrupted.", err=True)
            raise typer.Exit(INTERRUPTED) from None
        except Exception as error:
            if debug:
                typer.echo(traceback.format_exc(), err=True)
            typer.echo(f"Error: {_message(error)}", err=True)
            raise typer.Exit(1) from None

    signature = inspect.signature(function, eval_str=True)
    debug = inspect.Parameter("debug", inspect.Parameter.KEYWORD_ONLY, default=False)
    parameters = [*signature.parameters.values(), debug.replace(annotation=_Debug)]
    # typer reads the options from these two.
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {**function.__annotations__, "debug": _Debug}
    return run


def _message(error: Exception) -> str:
    if isinstance(error, _EXPECTED) and str(error):
        return str(error)
    return (
        f"unexpected {type(error).__name__}: {error}. This is a bug in marginals: run the command "
        "again with --debug and report the output."
    )
