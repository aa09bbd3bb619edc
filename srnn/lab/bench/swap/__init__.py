"""`srnn bench --swap`: six small programs, each with nn.GRU, nn.LSTM, SRNN and SRNNStack in the same line of code.

program.py      what the programs share
classifier.py   words of unequal lengths, packed              tagger.py      a tag per word, both directions
characters.py   the next character of a text                  forecaster.py  the next value, then running free
acoustic.py     symbols of an utterance, by CTC               policy.py      a maze with a sign at its start
training.py     one run, until both budgets are used up       plan.py        which runs there are
workers.py      runs on several processes                     table.py       learning rates chosen, scores compared
"""

from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from srnn.errors import SettingError, one_of
from srnn.lab.bench.clock import torch_threads
from srnn.lab.bench.result import as_markdown, show
from srnn.lab.bench.swap import plan, table, workers
from srnn.lab.bench.swap.program import Run
from srnn.lab.records import store
from srnn.lab.terminal import say

RECORDS = Path("results/swap.jsonl")


def main(
    quick: bool = False,
    jobs: int = 1,
    out: Path | None = None,
    readme: Path | None = None,
    only: Sequence[str] = (),
    console: Console | None = None,
) -> None:
    """Makes the runs that are not recorded yet, prints the table of all recorded runs, and writes it into a document if asked.

    Args:
        quick: Whether to rehearse with toy sizes.
        jobs: Number of worker processes.
        out: File of the records.
        readme: Document whose block gets the table.
        only: Names of programs, by default all.
        console: Where to print.

    Raises:
        SettingError: There is no such program, or a rehearsal has a document.
        RecordError: The document has no place for the table.
    """
    console, out = console or Console(), out or RECORDS.with_stem("swap" + ("-quick" if quick else ""))
    for name in only:
        if name not in plan.PROGRAMS:
            raise one_of("program", name, plan.PROGRAMS)
    if quick and readme is not None:
        raise SettingError("--quick is a rehearsal at toy sizes, not a result: leave out --readme")
    if readme is not None:
        store.filled(readme, "swap", "")  # fails now rather than after hours
    wanted = plan.runs(quick, only)
    known = recorded(out, wanted, console)
    left = [run for run in wanted if run.id not in known or known[run.id]["settings"] != run.settings]
    if left:
        make(left, len(wanted), jobs, out, console)
    everything = plan.runs(quick)
    parts = table.parts(everything, recorded(out, everything, Console(quiet=True)))
    show(parts, console)
    console.print(f"records: {out}", soft_wrap=True)
    if readme is not None:
        store.replace(readme, store.filled(readme, "swap", as_markdown(parts)))


def recorded(path: Path, runs: Sequence[Run], console: Console) -> dict[str, dict[str, Any]]:
    """Returns the records of these runs in a file, by id, and prints which lines are damaged."""
    found, faults = store.read_lines(path) if path.exists() else ([], [])
    for fault in faults:
        say(console, fault)
    ids = {run.id for run in runs}
    return {record["id"]: record for record in found if record["kind"] == "swap" and record["id"] in ids}


def make(left: Sequence[Run], total: int, jobs: int, out: Path, console: Console) -> None:
    """Makes the runs on `jobs` processes and records each when it ends."""
    store.make_room(out)
    with torch_threads(1):  # that of each run
        environment = store.environment()  # once, because sources may change during hours of runs
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=20), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=console, transient=True) as bar:
        task = bar.add_task("runs", total=total, completed=total - len(left))
        for run, found in workers.results(left, jobs):
            ended = datetime.now(timezone.utc).isoformat(timespec="seconds")
            record = {"kind": "swap", "id": run.id, **environment, "ended": ended, "settings": run.settings, **found}
            store.collect(out, record)
            bar.update(task, advance=1, description=f"{run.program.name}, {run.network}")
