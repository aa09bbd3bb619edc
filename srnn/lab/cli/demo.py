"""`srnn demo`: three tasks of the paper, learned while you watch."""

import math
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from srnn.errors import DataError
from srnn.lab.cli import train as training
from srnn.lab.cli.options import Data, look_in
from srnn.lab.terminal import print_table, say

if TYPE_CHECKING:
    from srnn.lab.paper.plan import Point
    from srnn.lab.records.record import Record
    from srnn.lab.training.run import Run

FOLDER = Path("runs/demo")
ABOUT = {
    "copy": "Copying memory: recite ten symbols after a delay of {length} steps. Without memory the loss stays at {chance}. "
    "Watch the loss: it drops below a tenth of that.",
    "adding": "Adding: add the two marked numbers of {length} that come one by one. An answer without memory has a mean "
    "squared error of {chance}. Watch the loss: it drops once the network remembers.",
    "pmnist": "Permuted MNIST: classify a digit from its 784 pixels, one per step, in a fixed random order. This makes two "
    "passes over the 50,000 images, the paper 60. Watch the accuracy on validation images.",
}
LEAD = (
    "Made by srnn demo from the runs you have just seen. The claims of the paper need more runs than these: srnn report writes "
    "the page with a verdict on each claim, from the records in results/."
)
# Figures 2 and 3, Table 2
PAPER = {"copy": "solved, 100 to 2000", "adding": "solved, 100 to 1500", "pmnist": "96.43 %, 60 epochs"}


def demo(
    minutes: Annotated[float | None, typer.Option(help="Minutes for each of the three tasks at most.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of initial weights and data.")] = 1234,
    data: Data = None,
) -> None:
    """Watch an SRNN learn three tasks of the paper in two or three minutes.

    The tasks are copying, adding and permuted MNIST, which is downloaded if it is missing.

    Stop at any time with Ctrl-C. The same command resumes.

    [dim]srnn demo
    srnn demo --seed 3[/dim]
    """
    look_in(data)
    run(Console(), minutes=minutes, seed=seed)


def runs(minutes: float | None = None, seed: int = 1234) -> "list[Run]":
    """Returns the runs: settings of the paper, tuned ones for adding, which needs a tenth of the updates then."""
    import torch

    from srnn.lab.training.recipes import make_run

    how: dict[str, Any] = {"seed": seed, "minutes": minutes, "threads": torch.get_num_threads()}
    return [
        make_run("copy", "srnn", length=500, steps=6000, stop_below=0.1 * 10 * math.log(8) / 520, **how),
        make_run("adding", "srnn", "tuned", length=200, steps=12_000, stop_below=0.01, **how),
        make_run("pmnist", "srnn", epochs=2, **how),
    ]


def run(console: Console, *, minutes: float | None, seed: int) -> None:
    """Runs all three, then shows a table and writes a page. Unfinished runs are resumed, unless all are finished."""
    from srnn.lab import report
    from srnn.lab.records.folder import RunFolder
    from srnn.lab.training.progress import number

    chosen = [each for each in runs(minutes, seed) if each.task.name != "pmnist" or _mnist_is_there(console)]
    places = [RunFolder(FOLDER / each.id) for each in chosen]
    if all(place.record.exists() for place in places):
        for place in places:
            with place.held():
                place.clear()
    done = []
    for each in chosen:
        words = {"length": getattr(each.task, "length", ""), "chance": number(each.task.chance)}
        console.print(f"\n[bold]{ABOUT[each.task.name].format(**words).replace(':', ':[/bold]', 1)}", highlight=False)
        if (record := training.train_run(each, FOLDER / each.id, console, into=FOLDER)) is not None:
            done.append(record)
    console.print()
    headings = ("task", "loss", "here", "chance", "the paper", "updates", "seconds")
    rows = [_row(record, ascii_only=console.options.ascii_only) for record in done]
    print_table(console, headings, rows, title="Results")
    page = report.make(FOLDER, FOLDER / "report", console, lead=LEAD, points=_points(chosen), is_experiment=False)
    say(console, f"report: {page}")


def _points(chosen: "list[Run]") -> "dict[str, list[Point]]":
    """Returns the runs as points of exhibits, so that a report can show them with the paper's numbers."""
    from srnn.lab.paper.plan import Line, Point

    places: dict[str, tuple[str, Line, Any]] = {
        "copy": ("copy", Line(), 500),
        "adding": ("adding", Line(recipe="tuned"), 200),
        "pmnist": ("psmnist", Line(variant="2 epochs"), "pmnist"),
    }
    found = [(each, *places[each.task.name]) for each in chosen]
    return {exhibit: [Point(line, x, each)] for each, exhibit, line, x in found}


def _mnist_is_there(console: Console) -> bool:
    from srnn.lab import data

    try:
        data.fetch("mnist", None, console)
    except DataError as error:
        say(console, f"Permuted MNIST is left out: {error}")
        return False
    return True


def _row(record: "Record", *, ascii_only: bool) -> tuple[str, ...]:
    from srnn.lab.training.progress import number

    name, result, losses = record.run["task"]["name"], record.result, record.training
    here = f"{result.value:.2f} %" if result else number(losses.final) if losses else ""
    chance = f"{record.chance:.0f} %" if result else number(record.chance)
    line = sparkline(record.curve["loss"], ascii_only=ascii_only)
    return name, line, here, chance, PAPER[name], str(record.updates), f"{record.seconds:.0f}"


def sparkline(losses: list[float], *, ascii_only: bool, columns: int = 12) -> str:
    """Returns the losses as a row of bars of logarithmic height."""
    bars = "_.-=+*#" if ascii_only else "▁▂▃▄▅▆▇█"
    edges = [len(losses) * column // columns for column in range(columns + 1)]
    heights = [math.log(sum(losses[i:j]) / (j - i)) for i, j in pairwise(edges) if i < j]
    low, high = min(heights, default=0.0), max(heights, default=0.0)
    return "".join(bars[int((height - low) / (high - low + 1e-9) * len(bars))] for height in heights)
