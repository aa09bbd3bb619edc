"""`srnn bench --device`: training steps and scans on a GPU or another device, compared with the layers of torch.nn there.

On CUDA these are cuDNN's. The sizes are those of the paper's Table 4 and of the model in roofline.py. A record of this
benchmark is to replace the numbers of that model.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch
from rich.console import Console
from rich.progress import Progress

from srnn import kernels
from srnn.lab.bench.check import check_results
from srnn.lab.bench.clock import Call, Clock, ratio
from srnn.lab.bench.limits import scan
from srnn.lab.bench.networks import TABLE_4
from srnn.lab.bench.result import Table, conduct, origin
from srnn.lab.bench.roofline import SHAPES, STATES
from srnn.lab.bench.training import BASELINES, REAL, Setting, layer_alone, training_step
from srnn.lab.records import store
from srnn.lab.training.loop import find_device

PARTS = {"step": training_step, "layer": layer_alone}
SETTINGS = (*TABLE_4, replace(REAL, title="permuted MNIST, real inputs"))
MEANING = (
    "A training step (forward, loss, backward, optimizer) of SRNN compared with the same step of the layers of torch.nn, and "
    "forward and backward of the layer alone where a task has an answer at every step: batch 100, H 128, f_r (32). On copying "
    "memory and permuted MNIST SRNN reads symbols of an alphabet, a form that the others do not have; the row of real inputs "
    "does without. Data are random."
)
MEANING_OF_SCANS = (
    "The scan alone, forward, all states, float32. copy_: bytes per second over those of Tensor.copy_ between two tensors "
    "[N, T, H]."
)


def main(
    device: str, rounds: int = 7, quick: bool = False, threads: int = 2, out: Path | None = None, console: Console | None = None
) -> dict[str, Any]:
    """Checks, measures, prints and writes the record of a device, and returns it.

    Raises:
        SettingError: The device cannot be used, or a result differs from the reference. Nothing was timed.
    """
    console, on = console or Console(), find_device(device)
    how: dict[str, Any] = {"quick": quick, "threads": threads, "out": out, "readme": None, "console": console}
    return conduct(on.type, partial(run, on, rounds, quick, console), parts, **how)


def run(device: torch.device, rounds: int, quick: bool, console: Console) -> dict[str, Any]:
    """Checks all results, measures the settings and the scans, and returns what belongs into the record."""
    settings = [replace(s, device=str(device)) for s in SETTINGS]
    rows = [(s, part) for s in settings for part in PARTS if part == "step" or s.task.every_step]
    check_results(settings, str(device))
    with Progress(console=console, transient=True, auto_refresh=False) as bar:
        task = bar.add_task("", total=len(rows) + len(SHAPES))
        clock = Clock(rounds, quick, lambda share: bar.update(task, advance=share, refresh=True), device)
        steps = [measure_step(*row, clock) for row in rows]
        scans = [measure_scan(shape, clock) for shape in SHAPES]
    about = store.device(device) | {"backend": kernels.auto_backend(device), "triton_error": kernels.triton.error(device)}
    return {"settings": {"rounds": rounds, "quick": quick, "dtype": "float32"}, "device": about, "steps": steps, "scans": scans}


def measure_step(s: Setting, part: str, clock: Clock) -> dict[str, Any]:
    """Measures one row of the first table, for the record."""
    times = clock.race({name: PARTS[part](s, name) for name in ("srnn", *BASELINES)})
    return {
        "key": s.key,
        "title": s.title,
        "part": part,
        "sizes": {"N": s.N, "T": s.T, "H": s.H, "mlp": list(s.mlp)},
        "times_faster": {name: ratio(times, name, "srnn") for name in BASELINES},
        "milliseconds": {name: 1e3 * median(seconds) for name, seconds in times.items()},
    }


def measure_scan(shape: tuple[int, int, int], clock: Clock) -> dict[str, Any]:
    """Measures one row of the second table, for the record: each form of the scan, and a copy of b."""
    source, target = torch.rand(2, *shape, device=clock.device)
    call = scan("dense", *shape, device=str(clock.device))
    sides = {form: _in_form(form, call) for form in _forms(clock.device)} | {"copy": lambda: target.copy_(source)}
    times = {name: median(seconds) for name, seconds in clock.race(sides).items()}
    return {"shape": list(shape), "microseconds": {name: 1e6 * seconds for name, seconds in times.items()}}


def _forms(device: torch.device) -> tuple[str, ...]:
    """Returns how the scan can be parallel: the forms of the Triton kernels, or what the other backends do."""
    return ("lanes", "time") if kernels.auto_backend(device) == "triton" else ("auto",)


def _in_form(form: str, call: Call) -> Call:
    """Returns the call with the Triton kernels in this form."""
    if form == "auto":
        return call
    from srnn.kernels.triton import launch

    def changed() -> Any:
        with launch.use_form(form):
            return call()

    return changed


def parts(record: Mapping[str, Any]) -> Iterator[Table | str]:
    """Yields the tables of a record, what they mean, and its origin."""
    rows = []
    for row in record["steps"]:
        cells = [f"{row['times_faster'][name]:.2f}" for name in BASELINES]
        rows.append([row["title"] if row["part"] == "step" else "- layer alone", *cells, f"{row['milliseconds']['srnn']:.2f}"])
    yield Table(["times faster than", "nn.RNN", "nn.LSTM", "nn.GRU", "SRNN, ms"], rows)
    yield MEANING
    yield Table(["N, T, H", "form", "µs", "ns a step", "bytes/s over copy_'s"], list(_scan_rows(record["scans"])), names=2)
    yield MEANING_OF_SCANS
    device = record["device"]
    yield origin(record, f"{device['name']}, torch {record['versions']['torch']}, backend {device['backend']}")


def _scan_rows(scans: list[Mapping[str, Any]]) -> Iterator[list[str]]:
    for row in scans:
        N, T, H = row["shape"]
        copy = 8 * N * T * H / row["microseconds"]["copy"]
        for form, time in row["microseconds"].items():
            if form != "copy":
                share = STATES * N * T * H / time / copy
                yield [f"{N:,}, {T:,}, {H:,}", form, f"{time:,.0f}", f"{1e3 * time / T:.1f}", f"{share:.2f}"]
