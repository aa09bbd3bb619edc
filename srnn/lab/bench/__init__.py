"""`srnn bench`: how many times faster than nn.RNN, nn.LSTM and nn.GRU, how far from what the machine allows, how much memory.

networks.py   every network beside nn.GRU
scale.py      one run on several processes
swap/         six programs trained with each of four networks
training.py   the settings: data, networks, one training step
limits.py     the scans beside copy_, growth in T and H, peak memory
clock.py      how times are taken
check.py      results are compared with the reference before anything is timed
table.py      what a reader sees
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


def main(
    quick: bool = False,
    threads: int = 2,
    repeats: int | None = None,
    out: Path | None = None,
    readme: Path | None = None,
    only: list[str] | None = None,
    networks: bool = False,
) -> int:
    """Checks, measures, prints, writes the record and, if asked, the README's table. A missed floor is told, not an error."""
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
            record = run(repeats or (3 if quick else 7), quick, only or keys, bar, networks)
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
    """Checks everything, measures what `keys` name, and returns the record."""
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
