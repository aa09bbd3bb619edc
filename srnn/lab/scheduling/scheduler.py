"""Many runs at once: a scheduler gives them to an engine, writes each record once, retries what fails, and can be stopped.

An engine is where runs are trained: worker processes on this machine (processes.py) or the machines of a Ray cluster (ray.py).
A run that fails, or whose process is lost, is retried from its checkpoint. After TRIES attempts it is recorded as failed, and
the other runs continue.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from srnn.errors import Interrupted, InUseError, SRNNError
from srnn.lab import data
from srnn.lab.records import store
from srnn.lab.records.record import Failure, Record
from srnn.lab.report import runs as results
from srnn.lab.terminal import say
from srnn.lab.training.loop import Watcher, asked_to_stop, train
from srnn.lab.training.recipes import from_dict
from srnn.lab.training.run import Run
from srnn.lab.workers import Event

TRIES = 3
LATER = 5.0  # seconds after which a run is retried whose folder another process holds
FAILED = "failed.jsonl"


class Engine(Protocol):
    """Where runs are trained.

    An event says what happened to a run:

    progress    (share, update)         done    the stored form of the record
    failed      why                     busy    why: another process works in its folder
    lost        why: its process ended  stopped None: it was stopped, and can be resumed
    """

    room: int  # for so many runs at once

    def start(self, key: str, run: Run, folder: Path) -> None:
        """Start a run, or resume it."""

    def poll(self) -> list[Event]:
        """Wait a moment, and return the events since the last call."""

    def stop(self) -> list[Event]:
        """Ask every run to write its checkpoint, wait for that, and return their last events."""

    def close(self) -> None:
        """End all processes."""


def order(run: Run, folder: Path) -> dict[str, Any]:
    """Return the arguments of `attempt` that train a run, as plain values."""
    return {"settings": run.as_dict(), "folder": str(folder), "data_folders": data.given()}


def attempt(
    settings: Mapping[str, Any],
    folder: str | Path,
    *,
    data_folders: Sequence[str] = (),
    check: Callable[[Run], None] = lambda run: None,
    watchers: Sequence[Watcher] = (),
    checkpoint_every: float = 30.0,
) -> tuple[str, Any]:
    """Train a run in a worker, and return the kind of the event that this is, and what belongs to it, as plain values.

    Args:
        settings: The run, as `Run.as_dict` gives it.
        folder: The run folder.
        data_folders: Searched for data sets first.
        check: Raises an error if this machine must not train the run.
        watchers: Receive the events of the run.
        checkpoint_every: Seconds between checkpoints.
    """
    try:
        data.look_in(*map(Path, data_folders))
        run = from_dict(settings, is_ours=True)
        check(run)
        return "done", train(run, Path(folder), checkpoint_every=checkpoint_every, watchers=watchers).to_json()
    except Interrupted:
        return "stopped", None
    except InUseError as error:
        return "busy", str(error)
    except SRNNError as error:
        return "failed", str(error)
    except Exception as error:  # a bug, possibly in a user's own task: it is reported where it can be seen
        return "failed", " ".join(f"{type(error).__name__}: {error}".split())


@dataclass
class Scheduler:
    """Trains runs until none is left, or until a signal asks to stop.

    Attributes:
        left: The runs, by id.
        seconds: How long each takes, for the progress bar.
        runs: Where run folders are.
        into: The folder of the records.
        console: Where to print.
        engine: Where runs are trained.
        kept: Ids of runs whose record is kept as it is.
    """

    left: Mapping[str, Run]
    seconds: Mapping[str, float]
    runs: Path
    into: Path
    console: Console
    engine: Engine
    kept: Collection[str] = ()

    def __post_init__(self) -> None:
        self.waiting = dict(self.left)
        self.working: set[str] = set()
        self.tries: dict[str, int] = dict.fromkeys(self.left, 0)
        self.not_before: dict[str, float] = {}
        self.shares: dict[str, float] = {}
        self.failed: list[str] = []
        self.stopped: list[str] = []  # by a signal that reached them before this process
        for run in self.left.values():
            store.make_room(self.into / f"{run.task.name}.jsonl")  # to fail now, and not after hours

    def work(self) -> list[str]:
        """Train all runs, and return a line about each that failed.

        Raises:
            Interrupted: A signal stopped the runs. They can be resumed.
        """
        columns = (TextColumn("{task.description}"), BarColumn(bar_width=20), TextColumn("{task.fields[count]}"))
        bar = Progress(*columns, TimeElapsedColumn(), console=self.console, transient=True)
        with asked_to_stop() as asked, bar as self.bar:
            self.whole = self.bar.add_task("all", total=sum(self.seconds.values()), count="")
            self.tasks: dict[str, Any] = {}
            try:
                while (self.waiting or self.working) and not asked():
                    while len(self.working) < self.engine.room and (key := self.next()) is not None:
                        self.start(key)
                    for event in self.engine.poll():
                        self.handle(event)
                if why := asked():
                    for event in self.engine.stop():
                        if event.kind == "done":
                            self.handle(event)
                    count = len(self.working) + len(self.stopped)
                    raise Interrupted(why, f". Run the same command to resume {count} runs")
            finally:
                self.engine.close()
        return self.failed + [f"{key}: it was stopped, and can be resumed" for key in self.stopped]

    def next(self) -> str | None:
        """Return the run to start now, if there is one."""
        now = time.monotonic()
        return next((key for key in self.waiting if self.not_before.get(key, now) <= now), None)

    def start(self, key: str) -> None:
        run = self.waiting.pop(key)
        self.tries[key] += 1
        self.engine.start(key, run, self.runs / key)
        self.working.add(key)
        self.tasks[key] = self.bar.add_task(", ".join(results.brief(run.as_dict())), total=1.0, count="")

    def handle(self, event: Event) -> None:
        """Act on an event: show progress, write a record, retry a run or give it up."""
        key, kind, about = event
        if kind == "progress":
            self.shares[key] = about[0]
            self.bar.update(self.tasks[key], completed=about[0], count=f"update {about[1]}")
            self.bar.update(self.whole, completed=sum(self.seconds[k] * share for k, share in self.shares.items()))
            return
        self.working.discard(key)
        self.bar.remove_task(self.tasks.pop(key))
        if kind == "stopped":
            self.stopped.append(key)
        elif kind == "done":
            self.end(key, Record.from_json(about))
        elif kind == "busy":  # the process that holds the folder may finish the run; then its record is there
            if key not in self.not_before:
                say(self.console, f"waiting: {self._name(key)}: {about}")
            self.not_before[key] = time.monotonic() + LATER
            self.tries[key] -= 1
            self.waiting[key] = self.left[key]
        elif self.tries[key] < TRIES:
            say(self.console, f"retried: {self._name(key)}: {about}")
            self.waiting[key] = self.left[key]
        else:
            self.give_up(key, about)

    def end(self, key: str, record: Record) -> None:
        """Write the record of a run."""
        self.shares[key] = 1.0
        try:
            if key not in self.kept:
                store.collect(self.into / f"{self.left[key].task.name}.jsonl", record.to_json())
                store.remove(self.into / FAILED, f"failed-{key}")
            say(self.console, f"{record.status}: {self._name(key)}")
        except SRNNError as error:
            self.give_up(key, str(error))

    def give_up(self, key: str, error: str) -> None:
        """Record that a run failed. The run counts as not recorded, so it is started again the next time."""
        self.failed.append(f"{self._name(key)} ({key}): {error}")
        say(self.console, f"failed: {self.failed[-1]}")
        if self._is_recorded(key):  # written, but not synced for sure: the next attempt would not remove the failure
            return
        run, tries = self.left[key].as_dict(), self.tries[key]
        failure = Failure(id=f"failed-{key}", run=run, error=error, tries=tries, environment=store.environment())
        with suppress(SRNNError):  # the disk may be what is wrong
            store.collect(self.into / FAILED, failure.to_json())

    def _is_recorded(self, key: str) -> bool:
        path = self.into / f"{self.left[key].task.name}.jsonl"
        with suppress(SRNNError):
            return any(record["id"] == key for record in store.read_lines(path)[0])
        return False

    def _name(self, key: str) -> str:
        run = self.left[key].as_dict()
        return ", ".join((*results.brief(run), f"seed {run['seed']}"))
