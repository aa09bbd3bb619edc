"""Many runs at once: a crew hands them out to an engine until none is left, writes each record once, and can be stopped.

An engine is where they run: worker processes on this machine (`Processes`), or the machines of a Ray cluster (cluster.py). A
run that fails, or whose process is lost, is tried again from its checkpoint; then it is recorded as failed. The others go on.
"""

import json
import multiprocessing
import signal
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from srnn.errors import Interrupted, InUseError, SRNNError
from srnn.lab.records import store
from srnn.lab.report import runs as results
from srnn.lab.training.loop import Training, Watcher, asked_to_stop, train
from srnn.lab.training.recipes import from_dict
from srnn.lab.training.run import Run

EVERY = 0.5  # seconds between two words of a process about its run
TRIES = 3
LATER = 5.0  # seconds after which a run is tried again whose folder another process holds
FAILED = "failed.jsonl"

# The id of a run, a word, and what belongs to it:
#   at (share, update)      done record      failed why      lost why      busy why      stopped None
News = tuple[str, str, Any]


class Engine(Protocol):
    """Where runs are made."""

    room: int  # for so many at once

    def begin(self, key: str, run: Run, folder: Path) -> None: ...
    def listen(self) -> list[News]: ...
    def stop(self) -> list[News]:
        """Lets every run write its checkpoint, waits for that, and returns their last words."""

    def close(self) -> None: ...


def recorded(folder: Path, console: Console | None = None) -> dict[str, dict[str, Any]]:
    """The records of a folder by the id of what was run or measured; a line that holds none is named."""
    found, faults = store.read_folder(folder)
    if console is not None:
        for fault in faults:
            console.print(fault, markup=False, highlight=False, soft_wrap=True)
    return {record["id"]: record for record in found if record["kind"] in ("run", "measurement")}


class Crew:
    """Hands out runs until none is left, or until it is asked to stop."""

    def __init__(
        self,
        left: Mapping[str, Run],
        seconds: Mapping[str, float],
        runs: Path,
        into: Path,
        console: Console,
        engine: Engine,
        kept: Collection[str] = (),  # that are recorded, and stay as they are
    ) -> None:
        self.all, self.waiting, self.seconds, self.kept = dict(left), dict(left), seconds, kept
        self.runs, self.into, self.console, self.engine = runs, into, console, engine
        self.working: set[str] = set()
        self.tries: dict[str, int] = dict.fromkeys(left, 0)
        self.not_before: dict[str, float] = {}
        self.shares: dict[str, float] = {}
        self.failed: list[str] = []
        self.stopped: list[str] = []  # by a signal that reached them before this process saw it
        for run in left.values():
            store.make_room(into / f"{run.task.name}.jsonl")  # to fail now, and not after hours

    def work(self) -> list[str]:
        """Returns what failed, in words."""
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
                while (self.waiting or self.working) and not asked():
                    while len(self.working) < self.engine.room and (key := self.next()) is not None:
                        self.begin(key)
                    for key, word, about in self.engine.listen():
                        self.hear(key, word, about)
                if why := asked():
                    for key, word, about in self.engine.stop():
                        if word == "done":
                            self.hear(key, word, about)
                    begun = len(self.working) + len(self.stopped)
                    way = f"{begun} runs stand at their checkpoints: the same command again goes on"
                    interrupted = Interrupted(f"stopped by {why}; {way}")
                    interrupted.exit_code = 130 if why == "Ctrl-C" else 128 + signal.SIGTERM
                    raise interrupted
            finally:
                self.engine.close()
        return self.failed + [f"{key}: it was stopped, and can go on" for key in self.stopped]

    def next(self) -> str | None:
        """The run to begin now, if there is one."""
        now = time.monotonic()
        return next((key for key in self.waiting if self.not_before.get(key, now) <= now), None)

    def begin(self, key: str) -> None:
        run = self.waiting.pop(key)
        self.tries[key] += 1
        self.engine.begin(key, run, self.runs / key)
        self.working.add(key)
        self.tasks[key] = self.bar.add_task(", ".join(results.brief(run.as_dict())), total=1.0, count="")

    def hear(self, key: str, word: str, about: Any) -> None:
        """Takes a word of the engine about a run."""
        if word == "at":
            self.shares[key] = about[0]
            self.bar.update(self.tasks[key], completed=about[0], count=f"update {about[1]}")
            self.bar.update(self.whole, completed=sum(self.seconds[k] * share for k, share in self.shares.items()))
            return
        self.working.discard(key)
        self.bar.remove_task(self.tasks.pop(key))
        if word == "stopped":
            self.stopped.append(key)
        elif word == "done":
            self.end(key, about)
        elif word == "busy":  # whoever is at it may end it; then its record is there
            if key not in self.not_before:
                self._say(f"waiting: {self._name(key)}: {about}")
            self.not_before[key] = time.monotonic() + LATER
            self.tries[key] -= 1
            self.waiting[key] = self.all[key]
        elif self.tries[key] < TRIES:
            self._say(f"again: {self._name(key)}: {about}")
            self.waiting[key] = self.all[key]
        else:
            self.give_up(key, about)

    def end(self, key: str, record: dict[str, Any]) -> None:
        """Writes the record of a run."""
        self.shares[key] = 1.0
        try:
            if key not in self.kept:
                store.collect(self.into / f"{self.all[key].task.name}.jsonl", record)
                store.remove(self.into / FAILED, f"failed-{key}")
            self._say(f"{record['status']}: {self._name(key)}")
        except SRNNError as error:
            self.give_up(key, str(error))

    def give_up(self, key: str, fault: str) -> None:
        """Records that a run has failed; that is no record of the run, and the next time it is tried again."""
        self.failed.append(f"{self._name(key)} ({key}): {fault}")
        self._say(f"failed: {self.failed[-1]}")
        about = {
            "kind": "failure",
            "id": f"failed-{key}",
            "run": self.all[key].as_dict(),
            "error": fault,
            "tries": self.tries[key],
        }
        with suppress(SRNNError):  # the disk may be what is wrong
            store.collect(self.into / FAILED, about | store.environment())

    def _name(self, key: str) -> str:
        run = self.all[key].as_dict()
        return ", ".join((*results.brief(run), f"seed {run['seed']}"))

    def _say(self, text: str) -> None:
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)


class Teller(Watcher):
    """Says in another process how a run stands."""

    def __init__(self, tell: Callable[..., None]) -> None:
        self.tell, self.last = tell, 0.0

    def update(self, training: Training) -> None:
        if time.monotonic() - self.last > EVERY:
            self.last = time.monotonic()
            run, position = training.run, training.position
            limits = (
                (position.step, training.last_step),
                (position.seconds / 60, run.minutes),
                (position.cpu_seconds / 60, run.cpu_minutes),
            )
            share = max((done / limit for done, limit in limits if limit), default=0.0)
            self.tell(["at", (share, position.step)])


def _work(line: Connection) -> None:
    """What a process does: one run after the other, each from its settings to its record, until it is given None."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # between two runs; while it trains, a run sees to it
    while (given := _hear(line)) is not None:
        plain, folder, every = given
        try:
            told = [Teller(partial(_say, line))]
            _say(line, ["done", train(from_dict(plain, is_ours=True), Path(folder), checkpoint_every=every, watchers=told)])
        except Interrupted:
            _say(line, ["stopped", None])
            return
        except InUseError as error:
            _say(line, ["busy", str(error)])
        except SRNNError as error:
            _say(line, ["failed", str(error)])
        except Exception as error:  # a fault of ours, or of a user's own task: it must be told where it can be seen
            _say(line, ["failed", in_words(error)])


def in_words(error: BaseException) -> str:
    """An error that is none of ours, on one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())


def _say(line: Connection, what: Any) -> None:
    line.send_bytes(json.dumps(what).encode())  # not `send`, which pickles


def _hear(line: Connection) -> Any:
    return json.loads(line.recv_bytes())


class Worker:
    """A process that trains; it takes a few seconds to begin, so it is kept for the next run.

    Each has a line of its own: one that is killed while it speaks would leave a shared one locked for all.
    """

    def __init__(self, context: Any) -> None:
        self.line, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs,))
        self.process.start()
        theirs.close()  # so that the end of the process is the end of the line


class Processes:
    """The engine of this machine: so many worker processes. `checkpoint_every` is in seconds."""

    def __init__(self, jobs: int, checkpoint_every: float = 30.0) -> None:
        self.room, self.checkpoint_every = jobs, checkpoint_every
        self.context = multiprocessing.get_context("spawn")  # a fork would copy torch's threads in the middle of something
        self.working: dict[str, Worker] = {}
        self.idle: list[Worker] = []

    def begin(self, key: str, run: Run, folder: Path) -> None:
        given = [run.as_dict(), str(folder), self.checkpoint_every]
        try:
            worker = self.idle.pop() if self.idle else Worker(self.context)
            _say(worker.line, given)
        except OSError:  # it has ended by itself in between
            worker = Worker(self.context)
            _say(worker.line, given)
        self.working[key] = worker

    def listen(self) -> list[News]:
        lines: dict[Any, str] = {worker.line: key for key, worker in self.working.items()}
        return [self._news(lines[line]) for line in wait(list(lines), timeout=0.2)]

    def _news(self, key: str) -> News:
        worker = self.working[key]
        try:
            word, about = _hear(worker.line)
        except (EOFError, OSError):
            self.working.pop(key).process.join()
            return key, "lost", f"its process ended by itself, with code {worker.process.exitcode}"
        if word == "stopped":
            self.working.pop(key).process.join()
        elif word != "at":
            self.idle.append(self.working.pop(key))
        return key, word, about

    def stop(self) -> list[News]:
        for worker in self.working.values():
            worker.process.terminate()
            with suppress(OSError):
                _say(worker.line, None)  # for one that has just finished its run, and would wait for the next
        news: list[News] = []
        while self.working:
            news += self.listen()
        return news

    def close(self) -> None:
        for worker in self.idle:
            with suppress(OSError):  # it may have ended by itself
                _say(worker.line, None)
        for worker in self.working.values():  # after a fault of ours: else none is left
            worker.process.terminate()
        for worker in (*self.idle, *self.working.values()):
            worker.process.join()
