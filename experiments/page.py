"""Tables, figures and the page, from result files alone."""

import re
from collections.abc import Sequence
from pathlib import Path

from benchmarks.pages import quoted
from experiments.config import SIZES, Config, Size, load
from experiments.drawing import STYLE, save
from experiments.registry import NAMES, Experiment, Record, find
from experiments.results import FOLDER, Results, newest, read

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "experiments.md"
PICTURES = ROOT / "docs" / "images" / "experiments"
SHOWN: tuple[Size, ...] = ("full", "quick")  # the tiny size only shows that the code runs

HEAD = """# The paper's experiments, run again

Each experiment of the paper with this library, beside what the paper reports, and what differs.
The page is written by `python -m experiments page` from the files in `experiments/results`;
[experiments/README.md](../experiments/README.md) has the commands that made those. "Quick" is a
size for a CPU in minutes, on fewer rows with smaller models; "full" is the paper's, for a GPU."""


def stored(names: Sequence[str], folder: Path, sizes: Sequence[Size] = SIZES) -> list[Results]:
    """Return the newest results of each experiment that has some, or of those named."""
    found = []
    for name in names or NAMES:
        path = newest(find(name).name, folder, sizes)
        if path is not None:
            found.append(read(path))
        elif names:
            raise SystemExit(
                f"Expected a result file of {name!r} in {folder}; got none. Make one by "
                f"`python -m experiments run {name}`."
            )
    return found


def tables(results: Results) -> str:
    """Return the tables of an experiment as Markdown."""
    experiment, config = _parts(results)
    return experiment.tables(results.records, config.paper.figures).strip("\n")


def draw(results: Results, folder: Path) -> list[Path]:
    """Draw the figures of an experiment as `<experiment>-<figure>.png`, and return the files."""
    import matplotlib

    experiment, _ = _parts(results)
    with matplotlib.rc_context(STYLE):
        figures = experiment.figures(results.records, results.arrays)
        return save(figures, folder, experiment.name)


def section(results: Results, pictures: Sequence[str]) -> str:
    """Return the part of the page for one experiment, with pictures in `images/experiments`."""
    experiment, config = _parts(results)
    parts = [f"## {experiment.title}", f"In the paper: {config.paper.source}"]
    if config.paper.outcome:
        parts.append(f"Here: {config.paper.outcome}")
    parts += [origin(results), tables(results)]
    parts += [f"![{Path(name).stem}](images/experiments/{name})" for name in pictures]
    if config.paper.differs:
        listed = "\n".join(f"- {each}" for each in config.paper.differs)
        parts.append(f"What differs from the paper:\n\n{listed}")
    return "\n\n".join(parts)


def origin(results: Results) -> str:
    """Say by which commands, where and from which commit results come; a line for all seeds."""
    found: dict[tuple[str, str], list[Record]] = {}
    for number, run in enumerate(results.runs):
        own = [record for record in results.records if record["run"] == number]
        if own:
            found.setdefault(_made_by(run), []).extend(own)
    lines = []
    for (command, where), own in found.items():
        seeds = ", ".join(str(seed) for seed in sorted({record["seed"] for record in own}))
        minutes = sum(record["seconds"] for record in own) / 60
        lines.append(f"- `{command}`; seeds {seeds}; {minutes:.1f} minutes; {where}")
    return "\n".join([f"Measured at size {results.size} by", "", *lines])


def _made_by(run: Record) -> tuple[str, str]:
    """Return the command without its seeds, and where, when and with what it ran."""
    gpu = run["device"] != "cpu"
    machine = run["gpu"] if gpu else f"{run['cpu']}, threads: {run['threads']}"
    command = " ".join(quoted(word) for word in run["command"].split(" "))
    command = re.sub(r" --seeds \S+", "", command)
    torch = f"torch {run['versions']['torch']}"
    return command, f"{run['date'][:10]}, commit {run['commit']}, {torch}, {machine}"


def compose(folder: Path = FOLDER, pictures: Path = PICTURES) -> str:
    """Return the page, with those pictures that there are."""
    sections = []
    for results in stored((), folder, SHOWN):
        names = sorted(path.name for path in pictures.glob(f"{results.experiment}-*.png"))
        sections.append(section(results, names))
    return "\n\n".join([HEAD, *sections]) + "\n"


def write(folder: Path = FOLDER, page: Path = PAGE, pictures: Path = PICTURES) -> None:
    """Draw the pictures and write the page."""
    for results in stored((), folder, SHOWN):
        for old in pictures.glob(f"{results.experiment}-*.png"):
            old.unlink()
        draw(results, pictures)
    page.write_text(compose(folder, pictures))


def _parts(results: Results) -> tuple[Experiment, Config]:
    experiment = find(results.experiment)
    return experiment, load(experiment, results.size)
