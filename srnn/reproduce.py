"""`srnn reproduce`: the runs of exhibits, several at once, each in a process of its own, continued where they were stopped.

A run that is recorded is not made again, whoever made it; one that was begun goes on from its checkpoint. The processes train,
this one hands out runs, shows how they stand, and writes each record once. Measurements come after the runs, one at a time,
on the weights in the run folders; where these are not here, the run is made again, with the same bits.
"""

import multiprocessing
import signal
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from srnn import data, records, results
from srnn.errors import DataError, Interrupted, RecordError, SRNNError, one_of
from srnn.folder import RunFolder, load_tensors
from srnn.lab import RUNS
from srnn.measures import measure
from srnn.paper import EXHIBITS, Exhibit, Measurement, Plan
from srnn.recipes import from_dict
from srnn.run import Run
from srnn.train import Training, Watcher, asked_to_stop, train

RESULTS = Path("results")
# Of all exhibits those first that answer most.
ORDER = ("psmnist", "copy", "adding", "runtime", "timit", "randomlabels", "gradients", "hiddenstate", "permutation")
EVERY = 0.5  # seconds between two words of a process about its run


def chosen(names: Iterable[str]) -> list[Exhibit]:
    """Exhibits by their names, in the order they are named; "all" are all, in the order that answers most first."""
    wanted = list(names)
    for name in wanted:
        if name != "all" and name not in EXHIBITS:
            raise one_of("exhibit", name, ["all", *EXHIBITS])
    return [EXHIBITS[name] for name in dict.fromkeys((*ORDER, *EXHIBITS) if "all" in wanted else wanted)]


def runs_of(exhibits: Iterable[Exhibit], plan: Plan, only: Iterable[str] = ()) -> dict[str, Run]:
    """Their runs by id, each once; `only` are networks."""
    names = set(only)
    found = {point.run.id: point.run for exhibit in exhibits for point in exhibit.points(plan)}
    return {key: run for key, run in found.items() if not names or run.network.name in names}


def measurements_of(exhibits: Iterable[Exhibit], plan: Plan, only: Iterable[str] = ()) -> dict[str, Measurement]:
    """Their measurements by id; with `only`, those that look at a run of these networks."""
    names = set(only)
    found = {each.id: each for exhibit in exhibits for each in exhibit.measurements(plan)}
    return {key: each for key, each in found.items() if not names or (each.run and each.run.network.name in names)}


def recorded(folder: Path, console: Console | None = None) -> dict[str, dict[str, Any]]:
    """The records of a folder by the id of what was run or measured; a line that holds none is named."""
    found: dict[str, dict[str, Any]] = {}
    for path in sorted(folder.glob("*.jsonl")):
        good, faults = records.read_lines(path)
        found |= {record["id"]: record for record in good}
        if console is not None:
            for fault in faults:
                console.print(fault, markup=False, highlight=False, soft_wrap=True)
    return found


def show(plan: Plan, console: Console) -> None:
    """A table of the exhibits."""
    table, done = Table(box=None, padding=(0, 2, 0, 0)), recorded(places(plan)[1])
    for heading in ("exhibit", "in the paper", "what", "parts", "recorded", "needs"):
        table.add_column(heading, overflow="fold", justify="right" if heading in ("parts", "recorded") else "left")
    for exhibit in EXHIBITS.values():
        keys = runs_of([exhibit], plan).keys() | measurements_of([exhibit], plan).keys()
        counts = str(len(keys)), str(len(keys & done.keys()))
        table.add_row(exhibit.id, exhibit.where, exhibit.title, *counts, ", ".join(exhibit.data))
    console.print(table, highlight=False)


def places(plan: Plan) -> tuple[Path, Path]:
    """Where run folders and records of a plan go: a rehearsal is kept apart."""
    return (RUNS / "rehearsal", RUNS / "rehearsal" / "records") if plan.profile == "quick" else (RUNS, RESULTS)


def reproduce(
    names: Iterable[str],
    plan: Plan,
    console: Console,
    *,
    jobs: int = 2,
    only: Iterable[str] = (),
    estimate_only: bool = False,
) -> list[str]:
    """Makes what is not recorded, one exhibit after the other; returns what failed, in words."""
    wanted, failed = list(names), []
    for exhibit in chosen(wanted):
        missing = [name for name in exhibit.data if not data.is_here(name)]
        if missing and "all" in wanted:
            console.print(
                f"{exhibit.id} is left out: it needs {', '.join(missing)}; `srnn data` says how to get it", highlight=False
            )
        elif missing:
            raise DataError(
                f"{exhibit.id} needs data that are not here: {', '.join(missing)}; `srnn data` says how to get them"
            )
        else:
            failed += _reproduce(exhibit, plan, console, jobs, only, estimate_only)
    return failed


def _reproduce(
    exhibit: Exhibit, plan: Plan, console: Console, jobs: int, only: Iterable[str], estimate_only: bool
) -> list[str]:
    runs, into = places(plan)
    done = recorded(into, console)
    wanted, measurements = runs_of([exhibit], plan, only), measurements_of([exhibit], plan, only)
    to_measure = {key: each for key, each in measurements.items() if key not in done}
    # Weights are not recorded: a run that is to be looked at, and whose folder is not here, is made once more.
    needed = {each.run.id: each.run for each in to_measure.values() if each.trained and each.run is not None}
    wanted |= {key: run for key, run in needed.items() if key not in wanted}
    without = {key for key in needed if not RunFolder(runs / key).record.exists()}
    left = {key: run for key, run in wanted.items() if key not in done or key in without}
    count = f"{exhibit.id}: {len(wanted)} runs, {len(wanted.keys() & done.keys())} of them recorded in {into}"
    more = f"; {len(measurements)} measurements, {len(measurements) - len(to_measure)} recorded" if measurements else ""
    console.print(count + more, highlight=False, soft_wrap=True)
    failed: list[str] = []
    if left:
        # A rehearsal is too short to be worth an estimate.
        seconds = dict.fromkeys(left, 1.0) if plan.profile == "quick" else estimate(left, runs, console)
        if plan.profile != "quick":
            console.print(_table(left, seconds), highlight=False)
        again = f" ({len(left.keys() & done.keys())} of them for their weights)" if left.keys() & done.keys() else ""
        total = sum(seconds.values()) / jobs / 60
        console.print(
            f"{len(left)} to be made{again}: about {total:.0f} min with {jobs} at once, evaluations aside", highlight=False
        )
        if not estimate_only:
            failed = Crew(left, seconds, runs, into, console, jobs, kept=done.keys()).work()
    if to_measure and estimate_only:
        console.print(
            f"{len(to_measure)} to be measured: {', '.join(dict.fromkeys(each.line for each in to_measure.values()))}"
        )
    return failed + ([] if estimate_only else measure_all(to_measure, runs, into, console))


def measure_all(left: Mapping[str, Measurement], runs: Path, into: Path, console: Console) -> list[str]:
    """Makes measurements one after the other and writes each record; returns what failed, in words."""
    failed = []
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=20), TimeElapsedColumn())
    # Drawn between measurements, not by a thread that would disturb those of time.
    with Progress(*columns, console=console, transient=True, auto_refresh=False) as bar:
        task = bar.add_task("", total=len(left))
        for measurement in left.values():
            name = f"{measurement.exhibit}: {measurement.line}, {measurement.x}"
            bar.update(task, description=name, refresh=True)
            try:
                record = measure(measurement, *_weights(measurement, runs))
                records.collect(into / f"{measurement.exhibit}.jsonl", record)
                said = f"measured: {name}"
            except (SRNNError, RuntimeError, ArithmeticError, LookupError) as error:  # one that fails must not end the others
                failed.append(f"{name}: {' '.join(str(error).split())}")
                said = f"failed: {failed[-1]}"
            except KeyboardInterrupt:
                raise Interrupted(f"stopped by Ctrl-C while measuring {name}; the same command again goes on") from None
            console.print(said, markup=False, highlight=False, soft_wrap=True)
            bar.advance(task)
    return failed


def _weights(measurement: Measurement, runs: Path) -> tuple[Any, dict[str, Any] | None]:
    """What the run left, and how far that was trained: one that the clock ends is not the same when it is made again."""
    if measurement.run is None or not measurement.trained:
        return None, None
    place = RunFolder(runs / measurement.run.id)
    if not place.model.exists():
        raise RecordError(f"its run left no weights in {place.path}: it diverged, or could not be made")
    record = records.read(place.record)
    return load_tensors(place.model)[0], {name: record[name] for name in ("updates", "ended_by", "training", "result")}


def estimate(left: Mapping[str, Run], runs: Path, console: Console) -> dict[str, float]:
    """Seconds that each run still needs at most: its minutes, or its updates at the pace of three that are made for it."""
    found: dict[str, float] = {}
    with Progress(TextColumn("measuring steps"), BarColumn(), console=console, transient=True) as bar:
        task = bar.add_task("", total=len(left))
        for key, run in left.items():
            bar.advance(task)
            done = _begun(runs / key)
            limit = 60 * run.cpu_minutes - done["cpu_seconds"] if run.cpu_minutes is not None else float("inf")
            updates = _updates(run) - done["step"]
            found[key] = max(0.0, min(limit, updates * pace(run, 4 * limit / max(1, updates)) if limit > 60 else limit))
    return found


def pace(run: Run, slow: float = float("inf")) -> float:
    """Seconds of one update, the faster of two after a first; that of the first where it is slower than `slow`."""
    with tempfile.TemporaryDirectory() as folder:
        training = Training(replace(run, cpu_minutes=None, steps=_updates(run)), RunFolder(Path(folder) / "run"), 1e9, ())
        times = []
        for _ in range(3):
            start = time.perf_counter()
            training.make_update()
            times.append(time.perf_counter() - start)
            if times[0] > slow:
                return times[0]
    return min(times[1:])


def _updates(run: Run) -> int:
    if run.steps is not None:
        return run.steps
    assert run.epochs is not None
    return run.epochs * (run.task.updates_per_epoch(run.batch_size) or 0)


def _begun(folder: Path) -> dict[str, Any]:
    """How far a run is, by the last line of its curve."""
    metrics = RunFolder(folder).metrics
    with suppress(OSError, ValueError, IndexError, KeyError):
        last = RunFolder(folder).read_metrics()[-1] if metrics.exists() else {"step": 0, "cpu_seconds": 0.0}
        return {"step": last["step"], "cpu_seconds": last["cpu_seconds"]}
    return {"step": 0, "cpu_seconds": 0.0}


def _table(left: Mapping[str, Run], seconds: Mapping[str, float]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("task", "network", "recipe", "seed", "minutes"):
        table.add_column(heading, overflow="fold", justify="right" if heading == "minutes" else "left")
    for key, run in left.items():
        table.add_row(*results.brief(run.as_dict()), run.recipe, str(run.seed), f"{seconds[key] / 60:.1f}")
    return table


class Teller(Watcher):
    """Says in another process how a run stands."""

    def __init__(self, tell: Callable[..., None]) -> None:
        self.tell, self.last = tell, 0.0

    def update(self, training: Training) -> None:
        if time.monotonic() - self.last > EVERY:
            self.last = time.monotonic()
            share = training.position.step / (training.last_step or 1)
            if training.run.cpu_minutes is not None:
                share = max(share, training.position.cpu_seconds / 60 / training.run.cpu_minutes)
            self.tell(("at", share, training.position.step))


def _work(line: Connection) -> None:
    """What a process does: one run after the other, each from its settings to its record, until it is given None."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # between two runs; while it trains, a run sees to it
    while (given := line.recv()) is not None:
        plain, folder = given
        try:
            train(from_dict(plain), folder, watchers=[Teller(line.send)])
            line.send(("done",))
        except Interrupted:
            line.send(("stopped",))
            return
        except SRNNError as error:
            line.send(("failed", str(error)))


class Worker:
    """A process that trains; it takes a few seconds to begin, so it is kept for the next run.

    Each has a line of its own: one that is killed while it speaks would leave a shared one locked for all.
    """

    def __init__(self, context: Any) -> None:
        self.line, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs,))
        self.process.start()
        theirs.close()  # so that the end of the process is the end of the line


class Crew:
    """Hands out runs to processes until none is left, or until it is asked to stop."""

    def __init__(
        self,
        left: Mapping[str, Run],
        seconds: Mapping[str, float],
        runs: Path,
        into: Path,
        console: Console,
        jobs: int,
        kept: Collection[str] = (),  # that are recorded, and stay as they are
    ) -> None:
        self.kept = kept
        self.waiting, self.seconds, self.runs, self.into, self.jobs = dict(left), seconds, runs, into, jobs
        self.all, self.console = dict(left), console
        self.context = multiprocessing.get_context("spawn")  # a fork would copy torch's threads in the middle of something
        self.working: dict[str, Worker] = {}
        self.idle: list[Worker] = []
        self.shares: dict[str, float] = {}
        self.failed: list[str] = []
        self.stopped: list[str] = []  # by a signal that reached them before this process saw it
        for run in left.values():
            records.make_room(into / f"{run.task.name}.jsonl")  # to fail now, and not after hours

    def work(self) -> list[str]:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[count]}"),
            TimeElapsedColumn(),
        )
        with asked_to_stop() as asked, Progress(*columns, console=self.console, transient=True) as self.bar:
            self.whole = self.bar.add_task("all", total=sum(self.seconds.values()), count="")
            self.tasks: dict[str, Any] = {}
            try:
                while self.waiting or self.working:
                    if asked():
                        self.stop(str(asked()))
                    while self.waiting and len(self.working) < self.jobs:
                        self.begin()
                    self.listen()
                if asked():
                    self.stop(str(asked()))
            finally:
                for worker in self.idle:
                    with suppress(OSError):  # it may have ended by itself
                        worker.line.send(None)
                for worker in self.working.values():  # only after a fault of ours
                    worker.process.terminate()
                for worker in (*self.idle, *self.working.values()):
                    worker.process.join()
        return self.failed + [f"{key}: it was stopped, and can go on" for key in self.stopped]

    def begin(self) -> None:
        key = next(iter(self.waiting))
        run = self.waiting.pop(key)
        worker = self.idle.pop() if self.idle else Worker(self.context)
        worker.line.send((run.as_dict(), self.runs / key))
        self.working[key] = worker
        self.tasks[key] = self.bar.add_task(", ".join(results.brief(run.as_dict())), total=1.0, count="")

    def listen(self) -> None:
        """Takes what the processes have to say, for a while, and sees to those that have ended."""
        lines: dict[Any, str] = {worker.line: key for key, worker in self.working.items()}
        for line in wait(list(lines), timeout=0.2):
            key = lines[line]
            try:
                word, *about = self.working[key].line.recv()
            except (EOFError, OSError):
                self.working[key].process.join()
                self.end(key, f"its process ended by itself, with code {self.working[key].process.exitcode}")
                continue
            if word == "at":
                self.shares[key] = about[0]
                self.bar.update(self.tasks[key], completed=about[0], count=f"update {about[1]}")
                self.bar.update(self.whole, completed=sum(self.seconds[k] * share for k, share in self.shares.items()))
            elif word == "stopped":
                self.working.pop(key).process.join()
                self.stopped.append(key)
            else:
                self.end(key, None if word == "done" else about[0])

    def end(self, key: str, fault: str | None) -> None:
        worker = self.working.pop(key)
        if worker.process.is_alive():
            self.idle.append(worker)
        self.bar.remove_task(self.tasks.pop(key))
        self.shares[key] = 1.0
        name = ", ".join(results.brief(self.all[key].as_dict()))
        if fault is None:
            try:
                record = records.read(RunFolder(self.runs / key).record)
                if key not in self.kept:
                    records.collect(self.into / f"{self.all[key].task.name}.jsonl", record)
                self.console.print(f"{record['status']}: {name}", markup=False, highlight=False, soft_wrap=True)
                return
            except SRNNError as error:
                fault = str(error)
        self.failed.append(f"{name} ({key}): {fault}")
        self.console.print(f"failed: {self.failed[-1]}", markup=False, highlight=False, soft_wrap=True)

    def stop(self, why: str) -> None:
        """Lets every process write its checkpoint, then leaves."""
        for worker in self.working.values():
            worker.process.terminate()
        for worker in self.working.values():
            worker.process.join()
        begun = len(self.working) + len(self.stopped)
        self.working.clear()
        interrupted = Interrupted(f"stopped by {why}; {begun} runs stand at their checkpoints: the same command again goes on")
        interrupted.exit_code = 130 if why == "Ctrl-C" else 128 + signal.SIGTERM
        raise interrupted
