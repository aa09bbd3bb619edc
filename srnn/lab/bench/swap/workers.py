"""Runs on worker processes of one thread each, until none is left or the user asks to stop."""

import json
import multiprocessing
import signal
from collections.abc import Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from typing import Any

import torch

from srnn.errors import Interrupted, TeamError
from srnn.lab.bench.swap.plan import from_settings
from srnn.lab.bench.swap.program import Run
from srnn.lab.bench.swap.training import train
from srnn.lab.training.loop import asked_to_stop


def results(runs: Sequence[Run], jobs: int) -> Iterator[tuple[Run, dict[str, Any]]]:
    """Yields each run with what `train` found, in the order in which they end.

    Raises `Interrupted` after Ctrl-C or SIGTERM; the runs that were under way are then lost, and nothing else.
    """
    waiting = list(runs)
    busy: dict[Any, tuple[Worker, Run]] = {}
    workers = [Worker() for _ in range(min(jobs, len(waiting)))]
    idle = list(workers)
    try:
        with asked_to_stop() as asked:
            while waiting or busy:
                while waiting and idle:
                    worker = idle.pop()
                    busy[worker.line] = worker, waiting[0]
                    worker.send(waiting.pop(0).settings)
                for line in wait(list(busy), timeout=0.2):
                    worker, run = busy.pop(line)
                    found = worker.receive(run)
                    idle.append(worker)
                    yield run, found
                if why := asked():
                    interrupted = Interrupted(f"stopped by {why}; the same command resumes")
                    interrupted.exit_code = 130 if why == "Ctrl-C" else 128 + signal.SIGTERM
                    raise interrupted
    finally:
        for worker in workers:
            worker.end()


class Worker:
    """A process that trains one run after the other. It takes a few seconds to start, so it is kept."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")  # a fork would copy torch's threads in the middle of something
        self.line, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()  # so that the end of the process is the end of the line

    def send(self, settings: dict[str, Any]) -> None:
        with suppress(OSError):  # of a process that has ended, `receive` tells
            self.line.send_bytes(json.dumps(settings).encode())  # not `send`, which pickles

    def receive(self, run: Run) -> dict[str, Any]:
        try:
            return json.loads(self.line.recv_bytes())
        except (EOFError, OSError):
            self.process.join()
            code = self.process.exitcode
            raise TeamError(f"{run.id} failed: its process ended with code {code}; the same command repeats it") from None

    def end(self) -> None:
        self.process.terminate()
        self.process.join()


def _work(line: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the first one ends the others
    torch.set_num_threads(1)
    with suppress(EOFError, OSError):  # the first process has ended
        while True:
            found = train(from_settings(json.loads(line.recv_bytes())))
            line.send_bytes(json.dumps(found, allow_nan=False).encode())
