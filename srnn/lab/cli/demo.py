"""Three problems of the paper, solved before the reader's eyes, and what came out beside what the paper says."""

import math
from itertools import pairwise
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from srnn.errors import DataError
from srnn.lab import data, report
from srnn.lab.cli import train as lab
from srnn.lab.paper.plan import Point
from srnn.lab.records.folder import RUNS, RunFolder
from srnn.lab.records.record import Record
from srnn.lab.training.progress import number
from srnn.lab.training.recipes import make_run
from srnn.lab.training.run import Run

FOLDER = RUNS / "demo"
ABOUT = {
    "copy": "Copying memory: ten symbols, a delay of {length} steps, then recite them. Without memory the loss stays at the "
    "guesser's line, {guesser}. Look for the loss: it falls below a tenth of that.",
    "adding": "Adding: {length} numbers come one by one, two of them marked; then say the sum of these two. To answer 1, "
    "whatever came, has a mean squared error of {guesser}. Look for the loss: it falls once the network remembers.",
    "pmnist": "Permuted MNIST: a digit, pixel by pixel in an order that is random but always the same: 784 steps. Two "
    "passes over the 50,000 images; the paper makes 60. Look for the accuracy on images that are not trained on.",
}
LEAD = (
    "Made by srnn demo from the runs that you have just seen. The claims of the paper ask for more runs than these: srnn "
    "report makes the page with a verdict on each of them, from the records in results/."
)
# What the paper says: Figures 2 and 3, and Table 2 after 60 epochs.
PAPER = {"copy": "solved, 100 to 2000", "adding": "solved, 100 to 1500", "pmnist": "96.43 %, 60 epochs"}


def runs(minutes: float | None = None, seed: int = 1234) -> list[Run]:
    """The settings of the paper, but for adding: our recipe needs a tenth of the updates. All end once the point is made."""
    how: dict[str, Any] = {"seed": seed, "minutes": minutes, "threads": torch.get_num_threads()}
    return [
        make_run("copy", "srnn", length=500, steps=6000, stop_below=0.1 * 10 * math.log(8) / 520, **how),
        make_run("adding", "srnn", "ours", length=200, steps=12_000, stop_below=0.01, **how),
        make_run("pmnist", "srnn", epochs=2, **how),
    ]


def run(console: Console, *, minutes: float | None, seed: int) -> None:
    """Runs all three, shows each as it goes, ends with a table. What was stopped goes on; what is finished begins anew."""
    chosen = [each for each in runs(minutes, seed) if each.task.name != "pmnist" or _mnist_is_there(console)]
    places = [RunFolder(FOLDER / each.id) for each in chosen]
    if all(place.record.exists() for place in places):
        for place in places:
            with place.held():
                place.clear()
    done = []
    for each in chosen:
        words = {"length": getattr(each.task, "length", ""), "guesser": number(each.task.guesser)}
        console.print(f"\n[bold]{ABOUT[each.task.name].format(**words).replace(':', ':[/bold]', 1)}", highlight=False)
        if (record := lab.train_run(each, FOLDER / each.id, console, into=FOLDER)) is not None:
            done.append(record)
    console.print()
    console.print(_table(done, ascii_only=console.options.ascii_only))
    page = report.make(FOLDER, FOLDER / "report", console, lead=LEAD, points=_points(chosen), is_experiment=False)
    console.print(f"report: {page}", markup=False, highlight=False, soft_wrap=True)


def _points(chosen: list[Run]) -> dict[str, list[Point]]:
    """The runs as points of exhibits, so that a report can show them beside the paper's numbers."""
    places: dict[str, tuple[str, str, Any]] = {
        "copy": ("copy", "srnn", 500),
        "adding": ("adding", "srnn, our recipe", 200),
        "pmnist": ("psmnist", "srnn, 2 epochs", "pmnist"),
    }
    found: dict[str, list[Point]] = {}
    for each in chosen:
        exhibit, line, x = places[each.task.name]
        found.setdefault(exhibit, []).append(Point(line, x, each))
    return found


def _mnist_is_there(console: Console) -> bool:
    try:
        data.fetch("mnist", None, console)
    except DataError as error:
        console.print(f"Permuted MNIST is left out: {error}", markup=False, highlight=False, soft_wrap=True)
        return False
    return True


def _table(done: list[Record], *, ascii_only: bool) -> Table:
    table = Table(title="What came out", title_justify="left", box=None, padding=(0, 2, 0, 0))
    for heading in ("task", "loss", "here", "guesser", "the paper", "updates", "seconds"):
        table.add_column(heading, overflow="fold", no_wrap=heading == "loss")
    for record in done:
        name, result, training = record.run["task"]["name"], record.result, record.training
        here = f"{result.value:.2f} %" if result else number(training.final) if training else ""
        guesser = f"{record.chance:.0f} %" if result else number(record.chance)
        line = sparkline(record.curve["loss"], ascii_only=ascii_only)
        table.add_row(name, line, here, guesser, PAPER[name], str(record.updates), f"{record.seconds:.0f}")
    return table


def sparkline(losses: list[float], *, ascii_only: bool, columns: int = 12) -> str:
    """The losses as a row of bars, their height logarithmic."""
    bars = "_.-=+*#" if ascii_only else "▁▂▃▄▅▆▇█"
    edges = [len(losses) * column // columns for column in range(columns + 1)]
    heights = [math.log(sum(losses[i:j]) / (j - i)) for i, j in pairwise(edges) if i < j]
    low, high = min(heights, default=0.0), max(heights, default=0.0)
    return "".join(bars[int((height - low) / (high - low + 1e-9) * len(bars))] for height in heights)
