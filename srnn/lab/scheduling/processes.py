"""The engine of this machine: worker processes that train one run after the other.

A worker receives runs and sends events as JSON over a pipe of its own: one that is killed while it writes to a shared queue
would leave that locked for all.
"""

import json
import multiprocessing
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from srnn.lab import data
from srnn.lab.scheduling.scheduler import Event, attempt
from srnn.lab.training.loop import Training, Watcher
from srnn.lab.training.run import Run

EVERY = 0.5  # seconds between two reports of progress


class Processes:
    """So many worker processes on this machine.

    Args:
        jobs: How many runs are trained at once.
        checkpoint_every: Seconds between checkpoints of a run.
    """

    def __init__(self, jobs: int, checkpoint_every: float = 30.0) -> None:
        self.room, self.checkpoint_every = jobs, checkpoint_every
        self.context = multiprocessing.get_context("spawn")  # a fork would copy torch's threads in an unknown state
        self.working: dict[str, Worker] = {}
        self.idle: list[Worker] = []

    def start(self, key: str, run: Run, folder: Path) -> None:
        """Give a run to a worker, an idle one if there is any."""
        message = {
            "settings": run.as_dict(),
            "folder": str(folder),
            "data_folders": data.given(),
            "checkpoint_every": self.checkpoint_every,
        }
        try:
            worker = self.idle.pop() if self.idle else Worker(self.context)
            _send(worker.pipe, message)
        except OSError:  # the worker has ended in the meantime
            worker = Worker(self.context)
            _send(worker.pipe, message)
        self.working[key] = worker

    def poll(self) -> list[Event]:
        """Wait up to 0.2 seconds, and return the events of all workers."""
        keys: dict[Any, str] = {worker.pipe: key for key, worker in self.working.items()}
        return [self._receive(keys[pipe]) for pipe in wait(list(keys), timeout=0.2)]

    def _receive(self, key: str) -> Event:
        worker = self.working[key]
        try:
            kind, about = _receive(worker.pipe)
        except (EOFError, OSError):
            self.working.pop(key).process.join()
            return Event(key, "lost", f"its process ended by itself, with code {worker.process.exitcode}")
        if kind == "stopped":
            self.working.pop(key).process.join()
        elif kind != "progress":
            self.idle.append(self.working.pop(key))
        return Event(key, kind, about)

    def stop(self) -> list[Event]:
        """Ask every run to stop, and return their last events."""
        for worker in self.working.values():
            worker.process.terminate()
            with suppress(OSError):
                _send(worker.pipe, None)  # for one that has just finished its run, and would wait for the next
        events: list[Event] = []
        while self.working:
            events += self.poll()
        return events

    def close(self) -> None:
        """End all workers."""
        for worker in self.idle:
            with suppress(OSError):  # it may have ended by itself
                _send(worker.pipe, None)
        for worker in self.working.values():  # only after an error: otherwise none is left
            worker.process.terminate()
        for worker in (*self.idle, *self.working.values()):
            worker.process.join()


class Worker:
    """A process that trains. It takes seconds to start, so it is kept for the next run."""

    def __init__(self, context: Any) -> None:
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs,))
        self.process.start()
        theirs.close()  # so that the pipe ends with the process


class Reporter(Watcher):
    """Sends the progress of a run: the largest share of any of its limits, and the number of updates."""

    def __init__(self, send: Callable[[Any], None]) -> None:
        self.send, self.last = send, 0.0

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
            self.send(["progress", (share, position.step)])


def _work(pipe: Connection) -> None:
    """Train one run after the other, each as its message says, until the message is None."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # between two runs; during a run, `train` handles it
    while (message := _receive(pipe)) is not None:
        folder = Path(message.pop("folder"))
        event = attempt(folder=folder, watchers=[Reporter(partial(_send, pipe))], **message)
        _send(pipe, event)
        if event[0] == "stopped":
            return


def _send(pipe: Connection, message: Any) -> None:
    pipe.send_bytes(json.dumps(message).encode())  # not `send`, which pickles


def _receive(pipe: Connection) -> Any:
    return json.loads(pipe.recv_bytes())
