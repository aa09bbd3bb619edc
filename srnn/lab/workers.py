"""Worker processes of this machine: each works on one message after the other, and reports by messages.

Messages are JSON over one pipe per worker. With one queue for all, a worker killed while it writes would block the others.
"""

import json
import multiprocessing
import signal
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple

Send = Callable[[Any], None]
Work = Callable[[Any, Send], tuple[str, Any]]


class Event(NamedTuple):
    """A message about the work of this key: its kind, and what belongs to it."""

    key: str
    kind: str
    about: Any


class Workers:
    """Processes that are started when they are needed, and kept, because a start takes seconds.

    Args:
        work: A function of a module, which every worker calls with each message and with a function that reports progress. It
            returns kind and content of the last event. A worker whose work was "stopped" ends.
    """

    def __init__(self, work: Work) -> None:
        self.work = work
        self.working: dict[str, Worker] = {}
        self.idle: list[Worker] = []

    def send(self, key: str, message: Any) -> None:
        """Gives a message to a worker, an idle one if there is any."""
        try:
            worker = self.idle.pop() if self.idle else Worker(self.work)
            _send(worker.pipe, message)
        except OSError:  # the worker has ended in the meantime
            worker = Worker(self.work)
            _send(worker.pipe, message)
        self.working[key] = worker

    def poll(self) -> list[Event]:
        """Waits up to 0.2 seconds, and returns the events of all workers."""
        keys: dict[Any, str] = {worker.pipe: key for key, worker in self.working.items()}
        return [self._receive(keys[pipe]) for pipe in wait(list(keys), timeout=0.2)]

    def _receive(self, key: str) -> Event:
        worker = self.working[key]
        try:
            kind, about = _receive(worker.pipe)
        except (EOFError, OSError):
            self.working.pop(key).process.join()
            return Event(key, "lost", f"its process ended with code {worker.process.exitcode}")
        if kind == "stopped":
            self.working.pop(key).process.join()
        elif kind != "progress":
            self.idle.append(self.working.pop(key))
        return Event(key, kind, about)

    def stop(self) -> list[Event]:
        """Terminates all workers, and returns their last events."""
        for worker in self.working.values():
            worker.process.terminate()
            with suppress(OSError):
                _send(worker.pipe, None)  # for one that has just finished its work, and would wait for the next message
        events: list[Event] = []
        while self.working:
            events += self.poll()
        return events

    def close(self) -> None:
        """Ends all workers."""
        for worker in self.idle:
            with suppress(OSError):  # it may have ended by itself
                _send(worker.pipe, None)
        for worker in self.working.values():
            worker.process.terminate()
        for worker in (*self.idle, *self.working.values()):
            worker.process.join()


class Worker:
    """A process, and the pipe to it."""

    def __init__(self, work: Work) -> None:
        context = multiprocessing.get_context("spawn")  # a fork would copy torch's threads in an unknown state
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, work))
        self.process.start()
        theirs.close()  # so that the pipe ends with the process


def _serve(pipe: Connection, work: Work) -> None:
    """Works on one message after the other, until a message is None or the first process has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes, and the first one ends the others
    with suppress(EOFError):
        while (message := _receive(pipe)) is not None:
            event = work(message, partial(_send, pipe))
            _send(pipe, event)
            if event[0] == "stopped":
                return


def _send(pipe: Connection, message: Any) -> None:
    pipe.send_bytes(json.dumps(message).encode())  # not `send`, which pickles


def _receive(pipe: Connection) -> Any:
    return json.loads(pipe.recv_bytes())
