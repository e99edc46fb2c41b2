"""The paper's experiments from the command line."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import torch
import typer

from benchmarks.pages import command
from experiments import page as pages
from experiments.config import Config, Size, load
from experiments.registry import NAMES, find
from experiments.results import FOLDER
from experiments.results import merge as merge_results
from experiments.results import run as run_experiment

app = typer.Typer(
    help="Run the paper's experiments, and make tables, figures and the page from the results.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
Names = Annotated[list[str] | None, typer.Argument(help="Experiments; all that have results.")]
Results = Annotated[Path, typer.Option(help="Folder of result files.")]


@app.command("list")
def list_experiments() -> None:
    """List the experiments."""
    for name in NAMES:
        print(f"{name}: {find(name).title}")


@app.command()
def run(
    name: Annotated[str, typer.Argument(help="Of the experiment.")],
    quick: Annotated[bool, typer.Option("--quick", help="For a CPU, in minutes.")] = False,
    tiny: Annotated[bool, typer.Option("--tiny", help="For tests, in seconds.")] = False,
    seeds: Annotated[
        str | None, typer.Option(help="As 0,1,2; default those of the config.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="cpu or cuda; default a GPU if any.")] = None,
    data: Annotated[str | None, typer.Option(help="Folder of data sets.")] = None,
    output: Annotated[Path, typer.Option(help="Folder for the result file.")] = FOLDER,
    changes: Annotated[
        list[str] | None, typer.Option("--set", help="A setting, key=value.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Add what the newest lacks.")] = False,
) -> None:
    """Run an experiment and write its result file."""
    if quick and tiny:
        raise SystemExit("Expected --quick or --tiny; got both.")
    size: Size = "quick" if quick else "tiny" if tiny else "full"
    experiment = find(name)
    config = load(experiment, size, changes or ())
    words = ["run", name, *([] if size == "full" else [f"--{size}"])]
    if seeds is not None:
        config = _with_seeds(config, seeds)
        words += ["--seeds", seeds]
    device = _device(device)
    words += ["--device", device, *(word for each in changes or () for word in ("--set", each))]
    path = run_experiment(
        experiment,
        size,
        config,
        command=command("experiments", words),
        device=device,
        data=data,
        folder=output,
        resume=resume,
    )
    print(path)


@app.command()
def merge(
    files: Annotated[list[Path], typer.Argument(help="Result files of one experiment and size.")],
    output: Annotated[Path, typer.Option(help="Folder of the result file.")] = FOLDER,
) -> None:
    """Add result files of other seeds or parts to the newest one of their size."""
    print(merge_results(files, output))


@app.command()
def tables(names: Names = None, results: Results = FOLDER) -> None:
    """Print the tables of the newest result files."""
    for found in pages.stored(names or (), results):
        print(f"{find(found.experiment).title}\n\n{pages.origin(found)}\n\n{pages.tables(found)}\n")


@app.command()
def figures(
    names: Names = None,
    results: Results = FOLDER,
    output: Annotated[Path, typer.Option(help="Folder for the pictures.")] = pages.PICTURES,
) -> None:
    """Draw the figures of the newest result files."""
    for found in pages.stored(names or (), results):
        for path in pages.draw(found, output):
            print(path)


@app.command()
def page() -> None:
    """Write docs/experiments.md and its pictures."""
    pages.write()


def _device(asked: str | None) -> str:
    there = ("cuda", "cpu") if torch.cuda.is_available() else ("cpu",)
    if asked is not None and asked not in there:
        raise SystemExit(f"Expected --device to be {' or '.join(there)} here; got {asked!r}.")
    return asked or there[0]


def _with_seeds(config: Config, seeds: str) -> Config:
    try:
        return replace(config, seeds=tuple(int(seed) for seed in seeds.split(",")))
    except ValueError:
        raise SystemExit(f"Expected --seeds as whole numbers, 0,1,2; got {seeds!r}.") from None


if __name__ == "__main__":
    app(prog_name="python -m experiments")
