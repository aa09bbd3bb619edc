"""`srnn bench --scale`: one run on many processes. A step on one and on two of them, measured; on more, by a model.

    t(n) = c + w ceil(B / n) + r(n)                c: whatever the batch; w: of a sequence; B: sequences of a batch
    r(n) = 4 (n - 1) l + 2 (n - 1) / n  G / v      two sums in rings, of the loss and of G bytes of gradients: l of a message,
                                                   v bytes a second

c and w come from steps of one process with whole, half and quarter batches, l and v from sums of a short and of a long tensor
over two processes. What two processes take, measured, says what the model is worth.
"""

import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from statistics import linear_regression, median
from typing import Any

import torch
from rich.console import Console
from torch import distributed

from srnn.errors import TeamError
from srnn.lab.bench.clock import Call
from srnn.lab.bench.networks import training_step
from srnn.lab.bench.training import PMNIST, SPEECH, Setting, run_of
from srnn.lab.paper.figure import Curve, Figure, Panel
from srnn.lab.records import store
from srnn.lab.report import plot
from srnn.lab.training.distributed import Team, joined
from srnn.lab.training.loop import make_model

RECORD = Path("results/bench-scale.json")
SIZE: dict[str, Any] = {"H": 1024, "mlp": (32, 32, 32)}
# With the batches of the paper's recipes, and the updates of a run: 60 epochs of 50,000 images, 30 of 3003 utterances.
PLACES = (replace(PMNIST, N=100, **SIZE), replace(SPEECH, N=20, **SIZE))
UPDATES = {PMNIST.key: 60 * 500, SPEECH.key: 30 * 151}
PROCESSES = (1, 2, 4, 8, 16, 32, 64)
SHOWN = (1, 2, 8, 64)
SHORT, LONG = 1, 4_000_000  # numbers that are summed
SUMS = 10  # one after the other
ASSUMED = ("10 Gbit/s Ethernet, assumed", 50e-6, 1.25e9)  # seconds of a message, bytes a second


@dataclass(frozen=True)
class Link:
    """What processes speak over."""

    name: str
    latency: float
    bandwidth: float

    def reduce(self, n: int, size: int) -> float:
        """Seconds in which n processes add up their losses, and then `size` bytes of gradients, in a ring."""
        return 4 * (n - 1) * self.latency + 2 * (n - 1) / n * size / self.bandwidth


@dataclass(frozen=True)
class Cost:
    """Seconds of a step of a network, by the number of processes and the link."""

    fixed: float
    per_sequence: float
    batch: int
    size: int  # bytes of all gradients

    def compute(self, n: int) -> float:
        return self.fixed + self.per_sequence * math.ceil(self.batch / n)

    def step(self, n: int, link: Link) -> float:
        return self.compute(n) + link.reduce(n, self.size)

    def overtaken(self, link: Link) -> int | None:
        """The number of processes from which adding up takes longer than computing; None: not up to one sequence for each."""
        return next((n for n in range(2, self.batch + 1) if link.reduce(n, self.size) > self.compute(n)), None)

    def best(self, link: Link) -> int:
        """The number of processes with the shortest step, up to one sequence for each."""
        return min(range(1, self.batch + 1), key=lambda n: self.step(n, link))


def main(rounds: int = 15, out: Path | None = None, readme: Path | None = None, console: Console | None = None) -> int:
    """Measures, prints, writes the record and, if asked, the block and the figure of a document."""
    console = console or Console()
    if readme is not None:
        store.filled(readme, "scale", "")  # fails now rather than after minutes
    started = datetime.now(timezone.utc).isoformat(timespec="seconds")
    with console.status("two processes at work"):
        measured = in_two_processes(rounds)
    record = {"kind": "scale", **store.environment(), "started": started, "rounds": rounds, "measured": measured}
    store.write(out or RECORD, record)
    console.print(block(record), markup=False, highlight=False, soft_wrap=True)
    console.print(f"record: {out or RECORD}", soft_wrap=True)
    if readme is not None:
        store.replace(readme, store.filled(readme, "scale", block(record)))
        plot.save(figure(record, readme.stem), readme.parent, ("svg",))
    return 0


def in_two_processes(rounds: int) -> dict[str, Any]:
    """What `measure` finds, by torchrun."""
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "found.json"
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone"]
        done = subprocess.run(
            [*torchrun, "-m", "srnn.lab.bench.scale", str(rounds), str(found)], capture_output=True, text=True, check=False
        )
        if done.returncode or not found.exists():
            last = (done.stderr.strip() or "nothing was said").splitlines()[-1]
            raise TeamError(f"two processes could not be measured: {last}")
        return json.loads(found.read_text())


def measure(rounds: int, team: Team) -> dict[str, Any]:
    """Seconds of everything, the sides taking turns; steps of one process are made by the first while the others wait."""
    sums = {f"sum of {count}": _sums_of(count) for count in (SHORT, LONG)}
    alone: dict[str, Call] = {}
    together: dict[str, Call] = dict(sums)
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
    middle = {name: median(seconds[2:]) for name, seconds in times.items() if seconds}  # the first two fill caches and pools
    return {
        "processes": team.size,
        "sums": {str(4 * count): middle[f"sum of {count}"] / SUMS for count in (SHORT, LONG)},
        "places": {
            s.key: {
                "alone": {str(N): middle.get(f"{s.key} {N}") for N in _batches(s)},
                "apart": middle[f"{s.key} apart"],
                "together": middle[s.key],
                "gradient_bytes": 4 * _parameters(s),
            }
            for s in PLACES
        },
    }


def _batches(s: Setting) -> tuple[int, int, int]:
    return s.N, s.N // 2, s.N // 4


def _sums_of(count: int) -> Call:
    """Several of them: the first finds the other process asleep."""
    tensor = torch.zeros(count)

    def sums() -> None:
        for _ in range(SUMS):
            distributed.all_reduce(tensor)

    return sums


def _parameters(s: Setting) -> int:
    return make_model(run_of(s, "srnn")).count_parameters()


def links(record: Mapping[str, Any]) -> tuple[Link, Link]:
    """That of the machine, from the sums of a record, and one that is assumed."""
    (_, short), (size, long) = sorted((int(size), seconds) for size, seconds in record["measured"]["sums"].items())
    # Two processes: two messages, and each byte once.
    return Link("This machine", short / 2, size / max(long - short, 1e-9)), Link(*ASSUMED)


def cost(place: Mapping[str, Any]) -> Cost:
    """The model of a place, from the steps of one process."""
    steps = {int(N): seconds for N, seconds in place["alone"].items()}
    line = linear_regression(list(steps), list(steps.values()))
    return Cost(max(0.0, line.intercept), line.slope, max(steps), place["gradient_bytes"])


def block(record: Mapping[str, Any]) -> str:
    """What a document shows: the tables, where adding up overtakes, and where the numbers come from."""
    here, assumed = links(record)
    lines = []
    for s in PLACES:
        place = record["measured"]["places"][s.key]
        model = cost(place)
        one, two = place["alone"][str(s.N)], place["together"]
        lines += [
            f"**{s.title}**, {s.H} units, batch {s.N}, {UPDATES[s.key]:,} updates: c {1e3 * model.fixed:.1f} ms, "
            f"w {1e3 * model.per_sequence:.2f} ms, G {model.size / 1024:.0f} KiB. Two processes, measured: "
            f"{one / two:.2f} times as fast as one; by the model {model.compute(1) / model.step(2, here):.2f}. While another "
            "process does the same, and nothing is added up, half a batch takes "
            f"{place['apart'] / place['alone'][str(s.N // 2)]:.2f} times as long.",
            "",
            f"| {' | '.join(HEADING)} |",
            "| --: " * len(HEADING) + "|",
            *(_row(model, n, UPDATES[s.key], here, assumed) for n in SHOWN),
            "",
            " ".join(_overtaken(model, link) for link in (here, assumed)),
            "",
        ]
    machine, commit = record["machine"], record["commit"]
    speeds = [
        f"{link.name}: {1e6 * link.latency:.0f} µs of a message, {link.bandwidth / 1e9:.2f} GB/s" for link in (here, assumed)
    ]
    origin = (
        f"Measured on {machine['cpu']}, {machine['cores']} cores, one thread for each process; run of {record['started']}, "
        f"commit {commit['id'][:10]}{' with changes' if commit['dirty'] is True else ''}; record: `{RECORD.as_posix()}`."
    )
    return "\n".join([*lines, f"Links: {'; '.join(speeds)}.", "", origin])


HEADING = (
    "processes",
    "sequences of each",
    "computing, ms",
    "adding up here, ms",
    "over Ethernet, ms",
    "times faster here",
    "over Ethernet",
    "minutes of a run, over Ethernet",
    "times the processor time",
    "sequences per second if each has a whole batch, over Ethernet",
)


def _row(model: Cost, n: int, updates: int, here: Link, assumed: Link) -> str:
    one, cells = model.compute(1), [str(n)]
    adding = [f"{1e3 * link.reduce(n, model.size):.1f}" for link in (here, assumed)]
    if n <= model.batch:
        steps = [model.step(n, link) for link in (here, assumed)]
        cells += [f"at most {math.ceil(model.batch / n)}", f"{1e3 * model.compute(n):.1f}", *adding]
        cells += [*(f"{one / step:.2f}" for step in steps), f"{updates * steps[1] / 60:.1f}", f"{n * steps[1] / one:.1f}"]
    else:
        cells += ["fewer than one", "", *adding, "", "", "", ""]
    return f"| {' | '.join([*cells, f'x {n * one / (one + assumed.reduce(n, model.size)):.1f}'])} |"


def _overtaken(model: Cost, link: Link) -> str:
    n, best = model.overtaken(link), model.best(link)
    when = f"takes longer than computing from {n} processes on" if n else f"never takes longer, up to {model.batch} processes"
    return f"{link.name.split(',')[0]}: adding up {when}; the shortest step has {best}."


def figure(record: Mapping[str, Any], name: str) -> Figure:
    """A step by the number of processes: what it is made of, and what was measured."""
    here, assumed = links(record)
    panels = []
    for s in PLACES:
        place = record["measured"]["places"][s.key]
        model = cost(place)
        counts = [n for n in PROCESSES if n <= model.batch]

        def line(label: str, of: Any, style: str, counts: list[int] = counts) -> Curve:
            return Curve(label, counts[-len(of) :], [1e3 * value for value in of], style)

        panels.append(
            Panel(
                f"{s.title}, batch {s.N}",
                "processes",
                "ms of a step",
                [
                    line("step, this machine", [model.step(n, here) for n in counts], "srnn"),
                    line("computing", [model.compute(n) for n in counts], "gru"),
                    line("adding up, this machine", [here.reduce(n, model.size) for n in counts[1:]], "lstm"),
                    line("adding up, 10 Gbit/s", [assumed.reduce(n, model.size) for n in counts[1:]], "urnn"),
                    Curve(
                        "measured (dots)",
                        [1, 2],
                        [1e3 * place["alone"][str(s.N)], 1e3 * place["together"]],
                        "rnn",
                        dots="o",
                        thin=True,
                    ),
                ],
                log="xy",
            )
        )
    caption = "A training step of SRNN with 1024 units by the number of processes that share its batch."
    return Figure(name, caption, caption, panels)


if __name__ == "__main__":
    torch.set_num_threads(1)
    with joined("cpu") as team:
        found = measure(int(sys.argv[1]), team)
        if team.is_first:
            Path(sys.argv[2]).write_text(json.dumps(found))
