"""The studies from the command line."""

import sys
from dataclasses import replace as changed
from pathlib import Path
from typing import Annotated

import torch
import typer

from studies.harness import page as pages
from studies.harness import results as files
from studies.harness.available import check_choice
from studies.harness.config import Config, Size, load
from studies.harness.machine import command_of
from studies.harness.parallel import cores, run_lines
from studies.harness.run import run as run_study
from studies.harness.study import MODULES, find

app = typer.Typer(
    help="Run a study (`python -m studies NAME`), and make tables, pictures and pages of results.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
Names = Annotated[list[str] | None, typer.Argument(help="Studies; default all with results.")]
ResultFolder = Annotated[Path, typer.Option(help="Folder of result files.")]


@app.command("list")
def list_studies() -> None:
    """List the studies and the pages that show them."""
    for name in MODULES:
        study = find(name)
        print(f"{name}: {study.title}" + (f" (docs/{study.page}.md)" if study.page else ""))


@app.command(hidden=True)
def run(
    name: Annotated[str, typer.Argument(help="Name of the study.")],
    full: Annotated[bool, typer.Option("--full", help="The full size, the default.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="For a CPU, in minutes.")] = False,
    tiny: Annotated[bool, typer.Option("--tiny", help="For tests, in seconds.")] = False,
    seeds: Annotated[str | None, typer.Option(help="0,1,2; default those of the config.")] = None,
    device: Annotated[str | None, typer.Option(help="cpu or cuda; default a GPU if any.")] = None,
    threads: Annotated[int | None, typer.Option(help="Threads of torch.")] = None,
    data: Annotated[str | None, typer.Option(help="Folder of data sets.")] = None,
    reference: Annotated[str | None, typer.Option(help="Folder of the authors' code.")] = None,
    output: Annotated[Path, typer.Option(help="Folder for the result file.")] = files.FOLDER,
    changes: Annotated[
        list[str] | None, typer.Option("--set", help="A setting, key=value.")
    ] = None,
    seconds: Annotated[float, typer.Option(help="Start no further job after this.")] = float("inf"),
    resume: Annotated[bool, typer.Option("--resume", help="Add what the newest lacks.")] = False,
    again: Annotated[bool, typer.Option("--again", help="Replace what the newest has.")] = False,
) -> None:
    """Run a study and write its result file."""
    if quick + tiny + full > 1:
        raise SystemExit("Expected one of --full, --quick and --tiny; got several.")
    size: Size = "quick" if quick else "tiny" if tiny else "full"
    study = find(name)
    config = load(study, size, changes or ())
    words = [name, *([] if size == "full" else [f"--{size}"])]
    if seeds is not None:
        config = _with_seeds(config, seeds)
        words += ["--seeds", seeds]
    known = ("cuda", "cpu") if torch.cuda.is_available() else ("cpu",)
    device = check_choice("--device", device or known[0], known)
    words += ["--device", device]
    if threads is not None:
        torch.set_num_threads(threads)
        words += ["--threads", str(threads)]
    words += ["--reference", reference] if reference else []
    words += [word for each in changes or () for word in ("--set", each)]
    path = run_study(
        *(study, size, config),
        command=command_of(words),
        device=device,
        data=data,
        reference=reference,
        folder=output,
        resume=resume,
        again=again,
        seconds=seconds,
    )
    print(path)


@app.command()
def merge(
    paths: Annotated[list[Path], typer.Argument(help="Result files of one study and size.")],
    output: ResultFolder = files.FOLDER,
    replace: Annotated[bool, typer.Option("--replace", help="Replace what is there.")] = False,
) -> None:
    """Add result files of other seeds or parts to the newest one of their size."""
    print(files.merge(paths, output, replace))


@app.command()
def parallel(
    file: Annotated[Path, typer.Argument(help="Each line the arguments of a run; # is a comment.")],
    output: Annotated[Path, typer.Option(help="Folder for a folder of each run.")],
    jobs: Annotated[int | None, typer.Option(help="Runs at a time; default the cores.")] = None,
    seconds: Annotated[float, typer.Option(help="End all runs after this.")] = 1e9,
) -> None:
    """Run several studies at once; `merge` puts their result files together."""
    lines = [line for line in file.read_text().splitlines() if line and not line.startswith("#")]
    codes = run_lines(lines, output, jobs or cores(), seconds)
    for number, (code, line) in enumerate(zip(codes, lines, strict=True)):
        print(f"{number}: {'done' if code == 0 else f'failed ({code})'}: {line}")
    if any(codes):
        raise SystemExit(1)


@app.command()
def tables(names: Names = None, results: ResultFolder = files.FOLDER) -> None:
    """Print the tables of the newest result files."""
    for found in pages.stored(names or (), results):
        print(f"{find(found.study).title}\n\n{pages.origin(found)}\n\n{pages.tables(found)}\n")


@app.command()
def figures(
    names: Names = None,
    results: ResultFolder = files.FOLDER,
    output: Annotated[Path, typer.Option(help="Folder for the pictures.")] = Path("pictures"),
) -> None:
    """Draw the pictures of the newest result files."""
    for found in pages.stored(names or (), results):
        for path in pages.draw(found, output):
            print(path)


@app.command()
def page() -> None:
    """Write the measured part of the pages in docs/, and their pictures."""
    pages.write()


def _with_seeds(config: Config, seeds: str) -> Config:
    try:
        return changed(config, seeds=tuple(int(seed) for seed in seeds.split(",")))
    except ValueError:
        raise SystemExit(f"Expected --seeds as whole numbers, 0,1,2; got {seeds!r}.") from None


def main(words: list[str]) -> None:
    """Run a command; the name of a study stands for running it."""
    known = {command.name or command.callback.__name__ for command in app.registered_commands}
    first = words[0] if words else "--help"
    app(
        words if first in known or first.startswith("-") else ["run", *words],
        prog_name="python -m studies",
    )


if __name__ == "__main__":
    main(sys.argv[1:])
