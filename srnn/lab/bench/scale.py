"""`srnn bench --scale`: one run on several processes. One and two processes are measured, more are computed by a model.

    t(n) = c + w ceil(B / n) + r(n)                seconds of a step on n processes with B sequences in a batch
    r(n) = 4 (n - 1) l + 2 (n - 1) / n  G / v      seconds of two sums in a ring: of the losses, and of G bytes of gradients

c is the part of a step that does not depend on the batch, w that of one sequence, l the latency of a message, and v the bytes
per second. c and w are fitted to steps of one process with whole, half and quarter batches, l and v to sums of a short and of a
long tensor over two processes. The measured step of two processes shows how good the model is.
"""

import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import linear_regression, median
from typing import Any

import torch
from rich.console import Console
from torch import distributed

from srnn.errors import TeamError
from srnn.lab.bench.clock import Call
from srnn.lab.bench.networks import training_step
from srnn.lab.bench.result import Table, conduct, origin
from srnn.lab.bench.training import PMNIST, SPEECH, Setting, run_of
from srnn.lab.paper.figure import Curve, Figure, Panel
from srnn.lab.report import plot
from srnn.lab.training.distributed import Team, joined
from srnn.lab.training.loop import make_model

SIZE: dict[str, Any] = {"H": 1024, "mlp": (32, 32, 32)}
# Batches and updates are those of the paper's recipes: 60 epochs of 50,000 images, 30 epochs of 3003 utterances.
PLACES = (replace(PMNIST, N=100, **SIZE), replace(SPEECH, N=20, **SIZE))
UPDATES = {PMNIST.key: 60 * 500, SPEECH.key: 30 * 151}
PROCESSES = (1, 2, 4, 8, 16, 32, 64)
SHOWN = (1, 2, 8, 64)
SHORT, LONG = 1, 4_000_000  # sizes of the tensors that are summed
SUMS = 10  # in one measurement
ASSUMED = ("10 Gbit/s Ethernet, assumed", 50e-6, 1.25e9)  # latency in seconds, bytes per second


@dataclass(frozen=True)
class Link:
    """A connection between processes: latency of a message in seconds, and bandwidth in bytes per second."""

    name: str
    latency: float
    bandwidth: float

    def reduce(self, n: int, size: int) -> float:
        """Returns the seconds in which n processes add up their losses, and then `size` bytes of gradients, in a ring."""
        return 4 * (n - 1) * self.latency + 2 * (n - 1) / n * size / self.bandwidth


@dataclass(frozen=True)
class Cost:
    """The model of a step's time. All times are in seconds, and `size` is the bytes of all gradients."""

    fixed: float
    per_sequence: float
    batch: int
    size: int

    def compute(self, n: int) -> float:
        return self.fixed + self.per_sequence * math.ceil(self.batch / n)

    def step(self, n: int, link: Link) -> float:
        return self.compute(n) + link.reduce(n, self.size)

    def overtaken(self, link: Link) -> int | None:
        """Returns the number of processes from which on all-reduce takes longer than computing, or None.

        Counted up to one sequence per process.
        """
        return next((n for n in range(2, self.batch + 1) if link.reduce(n, self.size) > self.compute(n)), None)

    def best(self, link: Link) -> int:
        """Returns the number of processes with the shortest step, up to one sequence per process."""
        return min(range(1, self.batch + 1), key=lambda n: self.step(n, link))


def main(
    rounds: int = 15, quick: bool = False, out: Path | None = None, readme: Path | None = None, console: Console | None = None
) -> None:
    """Measures, prints, and writes the record and, if asked, the block and the figure of a document."""
    console = console or Console()
    console.print("measuring two processes")
    how: dict[str, Any] = {"quick": quick, "threads": 1, "out": out, "readme": readme, "console": console}
    record = conduct("scale", partial(in_two_processes, rounds), parts, **how)
    if readme is not None:
        plot.save(figure(record, readme.stem), readme.parent, ("svg",))


def in_two_processes(rounds: int) -> dict[str, Any]:
    """Returns the result of `measure`, run by torchrun in two processes."""
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "found.json"
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone"]
        done = subprocess.run(
            [*torchrun, "-m", "srnn.lab.bench.scale", str(rounds), str(found)], capture_output=True, text=True, check=False
        )
        if done.returncode or not found.exists():
            last = (done.stderr.strip() or "there is no message").splitlines()[-1]
            raise TeamError(f"two processes could not be measured: {last}")
        return {"rounds": rounds, "measured": json.loads(found.read_text())}


def measure(rounds: int, team: Team) -> dict[str, Any]:
    """Measures sums and steps in turns, and returns their seconds. The first process alone runs the steps of one process."""
    alone: dict[str, Call] = {}
    together: dict[str, Call] = {f"sum of {count}": _sums_of(count) for count in (SHORT, LONG)}
    for s in PLACES:
        alone |= {f"{s.key} {N}": training_step(replace(s, N=N), s.network) for N in _batches(s)}
        part = replace(s, N=s.N // team.size)
        together |= {f"{s.key} apart": training_step(part, s.network), s.key: training_step(s, s.network, team)}
    times: dict[str, list[float]] = {name: [] for name in (*alone, *together)}
    for _ in range(rounds + 2):
        for name in times:
            distributed.barrier()
            if name in together or team.is_first:
                start = time.perf_counter()
                (alone | together)[name]()
                times[name].append(time.perf_counter() - start)
    middle = {name: median(seconds[2:]) for name, seconds in times.items() if seconds}  # the first two fill caches
    return {
        "processes": team.size,
        "sums": {str(4 * count): middle[f"sum of {count}"] / SUMS for count in (SHORT, LONG)},
        "places": {
            s.key: {
                "alone": {str(N): middle.get(f"{s.key} {N}") for N in _batches(s)},
                "apart": middle[f"{s.key} apart"],
                "together": middle[s.key],
                "gradient_bytes": 4 * make_model(run_of(s, "srnn")).count_parameters(),
            }
            for s in PLACES
        },
    }


def _batches(s: Setting) -> tuple[int, int, int]:
    return s.N, s.N // 2, s.N // 4


def _sums_of(count: int) -> Call:
    """Returns a call of several sums, because the first may have to wait for the other process."""
    tensor = torch.zeros(count)
    return lambda: [distributed.all_reduce(tensor) for _ in range(SUMS)]


def links(record: Mapping[str, Any]) -> tuple[Link, Link]:
    """Returns the link of the machine, fitted to the sums of a record, and the assumed one."""
    (_, short), (size, long) = sorted((int(size), seconds) for size, seconds in record["measured"]["sums"].items())
    # Between two processes, a sum is two messages, and each byte is sent once.
    return Link("This machine", short / 2, size / max(long - short, 1e-9)), Link(*ASSUMED)


def cost(place: Mapping[str, Any]) -> Cost:
    """Returns the model of a place, fitted to the steps of one process."""
    steps = {int(N): seconds for N, seconds in place["alone"].items()}
    line = linear_regression(list(steps), list(steps.values()))
    return Cost(max(0.0, line.intercept), line.slope, max(steps), place["gradient_bytes"])


HEADING = (
    "processes",
    "sequences of each",
    "computing, ms",
    "all-reduce here, ms",
    "over Ethernet, ms",
    "times faster here",
    "over Ethernet",
    "minutes of a run, over Ethernet",
    "times the processor time",
    "sequences per second if each has a whole batch, over Ethernet",
)


def parts(record: Mapping[str, Any]) -> Iterator[Table | str]:
    """Yields for each place a paragraph, a table, and when all-reduce takes longer than computing; then links and origin."""
    both = here, assumed = links(record)
    for s in PLACES:
        place = record["measured"]["places"][s.key]
        model = cost(place)
        one, two = place["alone"][str(s.N)], place["together"]
        yield (
            f"**{s.title}**, {s.H} units, batch {s.N}, {UPDATES[s.key]:,} updates: c {1e3 * model.fixed:.1f} ms, "
            f"w {1e3 * model.per_sequence:.2f} ms, G {model.size / 1024:.0f} KiB. Two processes, measured: "
            f"{one / two:.2f} times as fast as one; by the model {model.compute(1) / model.step(2, here):.2f}. While another "
            "process does the same, and no gradients are exchanged, half a batch takes "
            f"{place['apart'] / place['alone'][str(s.N // 2)]:.2f} times as long."
        )
        yield Table(HEADING, [_row(model, n, UPDATES[s.key], here, assumed) for n in SHOWN], names=0)
        yield " ".join(_overtaken(model, link) for link in both)
    speeds = [f"{link.name}: {1e6 * link.latency:.0f} µs of a message, {link.bandwidth / 1e9:.2f} GB/s" for link in both]
    yield f"Links: {'; '.join(speeds)}."
    yield origin(record, f"{record['machine']['cores']} cores, one thread for each process")


def _row(model: Cost, n: int, updates: int, here: Link, assumed: Link) -> list[str]:
    one, cells = model.compute(1), [str(n)]
    adding = [f"{1e3 * link.reduce(n, model.size):.1f}" for link in (here, assumed)]
    if n <= model.batch:
        steps = [model.step(n, link) for link in (here, assumed)]
        cells += [f"at most {math.ceil(model.batch / n)}", f"{1e3 * model.compute(n):.1f}", *adding]
        cells += [*(f"{one / step:.2f}" for step in steps), f"{updates * steps[1] / 60:.1f}", f"{n * steps[1] / one:.1f}"]
    else:
        cells += ["fewer than one", "", *adding, "", "", "", ""]
    return [*cells, f"x {n * one / (one + assumed.reduce(n, model.size)):.1f}"]


def _overtaken(model: Cost, link: Link) -> str:
    n, best = model.overtaken(link), model.best(link)
    when = f"takes longer than computing from {n} processes on" if n else f"never takes longer, up to {model.batch} processes"
    return f"{link.name.split(',')[0]}: all-reduce {when}; the shortest step has {best}."


def figure(record: Mapping[str, Any], name: str) -> Figure:
    """Returns the figure of a step's time over the number of processes: its parts by the model, and what was measured."""
    here, assumed = links(record)
    panels = []
    for s in PLACES:
        place = record["measured"]["places"][s.key]
        model, measured = cost(place), [place["alone"][str(s.N)], place["together"]]
        counts = [n for n in PROCESSES if n <= model.batch]
        lines: dict[str, tuple[str, list[float]]] = {
            "step, this machine": ("srnn", [model.step(n, here) for n in counts]),
            "computing": ("gru", [model.compute(n) for n in counts]),
            "all-reduce, this machine": ("lstm", [here.reduce(n, model.size) for n in counts[1:]]),
            "all-reduce, 10 Gbit/s": ("urnn", [assumed.reduce(n, model.size) for n in counts[1:]]),
        }
        curves = [Curve(label, counts[-len(y) :], [1e3 * each for each in y], style) for label, (style, y) in lines.items()]
        curves.append(Curve("measured (dots)", [1, 2], [1e3 * each for each in measured], "rnn", dots="o", thin=True))
        panels.append(Panel(f"{s.title}, batch {s.N}", "processes", "ms of a step", curves, log="xy"))
    caption = "A training step of SRNN with 1024 units by the number of processes that share its batch."
    return Figure(name, caption, caption, panels)


if __name__ == "__main__":
    torch.set_num_threads(1)
    with joined("cpu") as team:
        found = measure(int(sys.argv[1]), team)
        if team.is_first:
            Path(sys.argv[2]).write_text(json.dumps(found))
