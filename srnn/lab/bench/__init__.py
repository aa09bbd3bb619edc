"""`srnn bench`: speed and memory compared with nn.RNN, nn.LSTM and nn.GRU, and with what the machine allows.

training.py   the settings: tasks, networks, one training step
limits.py     the scans compared with copy_, growth in T and H, peak memory
networks.py   every network compared with nn.GRU
step.py       the cost of one time step
scale.py      one run on several processes
swap/         six programs trained with each of four networks
clock.py      how times are measured
check.py      compares results with the reference before anything is timed
table.py      the tables on the terminal and in the README
"""

import time
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import Progress

from srnn import kernels
from srnn.errors import SettingError, one_of
from srnn.lab.bench.check import check_results
from srnn.lab.bench.clock import Clock
from srnn.lab.bench.limits import LIMITS, measure_limit
from srnn.lab.bench.networks import TABLE_4, measure_networks
from srnn.lab.bench.table import readme_table, show
from srnn.lab.bench.training import SETTINGS, measure_setting
from srnn.lab.records import store

RECORD = Path("results/bench.json")
SLOW = [s.key for s in SETTINGS if s.baselines == ("gru",)]


def main(
    quick: bool = False,
    threads: int = 2,
    repeats: int | None = None,
    out: Path | None = None,
    readme: Path | None = None,
    only: list[str] | None = None,
    networks: bool = False,
) -> int:
    """Checks, measures, prints, and writes the record and, if asked, the table of the README.

    Args:
        quick: Whether to measure fewer rounds, and no setting that is compared with nn.GRU alone.
        threads: The number of threads of torch.
        repeats: The number of rounds.
        out: The file of the record.
        readme: A document whose block gets the table.
        only: The keys of settings and limits to measure; None for all.
        networks: Whether to compare all networks with nn.GRU instead.

    Returns:
        The exit code 0; a missed floor is shown, and is no error.
    """
    keys = [s.key for s in TABLE_4] if networks else [*(s.key for s in SETTINGS), *(limit.key for limit in LIMITS)]
    kind = "networks" if networks else "bench"
    for key in only or ():
        if key not in keys:
            raise one_of("benchmark", key, keys)
    if threads < 1 or (repeats is not None and repeats < 1):
        raise SettingError(f"threads and repeats must be at least 1; got {threads} and {repeats}")
    if readme is not None:
        store.filled(readme, kind, "")  # fails now rather than after minutes
    if out is None:  # the README's numbers keep the record behind them
        out = RECORD.with_stem("bench" + ("-networks" if networks else "") + ("-quick" if quick else ""))
    console, threads_before = Console(), torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with torch.random.fork_rng(devices=[]), Progress(console=console, transient=True, auto_refresh=False) as bar:
            chosen = only or [key for key in keys if not (quick and key in SLOW)]
            record = run(repeats or (3 if quick else 7), quick, chosen, bar, networks)
    finally:
        torch.set_num_threads(threads_before)
    inside = out.resolve().is_relative_to(Path.cwd())
    record["path"] = (out.resolve().relative_to(Path.cwd()) if inside else out).as_posix()
    show(record, console)
    store.write(out, record)
    console.print(f"record: {out}", soft_wrap=True)
    if readme is not None:
        store.replace(readme, store.filled(readme, kind, readme_table(record)))
    return 0


def run(rounds: int, quick: bool, keys: list[str], bar: Progress, networks: bool = False) -> dict[str, Any]:
    """Checks all results, measures the settings and limits in `keys`, and returns the record."""
    started, start = datetime.now(timezone.utc).isoformat(timespec="seconds"), time.perf_counter()
    task = bar.add_task("check", total=len(keys))

    def tick(share: float) -> None:  # drawn between measurements, not by a thread that would disturb them
        bar.advance(task, share)
        bar.refresh()

    clock = Clock(rounds, quick, tick)
    check_results(SETTINGS)
    measures: dict[str, Any] = {
        "training": (SETTINGS, measure_setting),
        "limits": (LIMITS, measure_limit),
    }
    results: dict[str, Any] = {}
    for part, (things, measure) in ({"networks": (TABLE_4, measure_networks)} if networks else measures).items():
        results[part] = []
        for thing in [thing for thing in things if thing.key in keys]:
            bar.update(task, description=thing.key)
            results[part].append(measure(thing, clock))
    return {
        "kind": "bench",
        **store.environment(),
        "started": started,
        "seconds": round(time.perf_counter() - start, 1),
        "settings": {"rounds": rounds, "quick": quick, "only": keys, "dtype": "float32"},
        "backend": {"name": kernels.auto_backend(), "native_load_error": kernels.native.load_error()},
        "results": results,
    }
