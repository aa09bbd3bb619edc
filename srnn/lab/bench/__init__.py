"""`srnn bench`: speed and memory compared with nn.RNN, nn.LSTM and nn.GRU, and with what the machine allows.

training.py   the settings: tasks, networks, one training step
limits.py     the scans compared with copy_, growth in T and H, peak memory
networks.py   every network compared with nn.GRU
step.py       the cost of one time step
scale.py      one run on several processes
swap/         six programs trained with each of four networks
clock.py      how times are measured
check.py      compares results with the reference before anything is timed
result.py     the record of a benchmark, and how it is shown
table.py      the tables of `srnn bench` itself
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

from srnn import kernels
from srnn.errors import SettingError, one_of
from srnn.lab.bench.check import check_results
from srnn.lab.bench.clock import Clock
from srnn.lab.bench.limits import LIMITS, measure_limit
from srnn.lab.bench.networks import TABLE_4, measure_networks
from srnn.lab.bench.result import conduct
from srnn.lab.bench.table import parts
from srnn.lab.bench.training import SETTINGS, measure_setting

SLOW = [s.key for s in SETTINGS if s.baselines == ("gru",)]


def main(
    quick: bool = False,
    threads: int = 2,
    repeats: int | None = None,
    out: Path | None = None,
    readme: Path | None = None,
    only: list[str] | None = None,
    networks: bool = False,
) -> None:
    """Checks, measures, prints, and writes the record and, if asked, the table of a document. A missed target is no error.

    Args:
        quick: Whether to measure fewer rounds, and no setting that is compared with nn.GRU alone.
        threads: Threads of torch.
        repeats: Number of rounds.
        out: File of the record.
        readme: Document whose block gets the table.
        only: Keys of settings and limits to measure, by default all.
        networks: Whether to compare all networks with nn.GRU instead.

    Raises:
        SettingError: A value is wrong, or a result differs from the reference. Nothing was timed.
    """
    measures: dict[str, Any] = {"training": (SETTINGS, measure_setting), "limits": (LIMITS, measure_limit)}
    if networks:
        measures = {"networks": (TABLE_4, measure_networks)}
    keys = [thing.key for things, _ in measures.values() for thing in things]
    for key in only or ():
        if key not in keys:
            raise one_of("benchmark", key, keys)
    if threads < 1 or (repeats is not None and repeats < 1):
        raise SettingError(f"threads and repeats must be at least 1, got {threads} and {repeats}")
    rounds, console = repeats or (3 if quick else 7), Console()
    chosen = only or [key for key in keys if not (quick and key in SLOW)]
    kind = "networks" if networks else "bench"
    how: dict[str, Any] = {"quick": quick, "threads": threads, "out": out, "readme": readme, "console": console}
    record = conduct(kind, lambda: run(rounds, quick, chosen, measures, console), parts, **how)
    if reason := record["backend"]["native_load_error"]:
        console.print(f"native is not available: {reason}", style="yellow", markup=False)


def run(rounds: int, quick: bool, keys: list[str], measures: Mapping[str, Any], console: Console) -> dict[str, Any]:
    """Checks all results, measures the settings and limits in `keys`, and returns what belongs into the record."""
    check_results(SETTINGS)
    results: dict[str, Any] = {part: [] for part in measures}
    with Progress(console=console, transient=True, auto_refresh=False) as bar:
        task = bar.add_task("", total=len(keys))

        def tick(share: float) -> None:  # drawn between measurements, not by a thread that would disturb them
            bar.update(task, advance=share, refresh=True)

        for part, (things, measure) in measures.items():
            for thing in [thing for thing in things if thing.key in keys]:
                bar.update(task, description=thing.key)
                results[part].append(measure(thing, Clock(rounds, quick, tick)))
    return {
        "settings": {"rounds": rounds, "quick": quick, "only": keys, "dtype": "float32"},
        "backend": {"name": kernels.auto_backend(), "native_load_error": kernels.native.load_error()},
        "results": results,
    }
