"""The engine of this machine: worker processes that train one run after the other."""

import time
from pathlib import Path
from typing import Any

from srnn.lab.scheduling.scheduler import attempt, order
from srnn.lab.training.loop import Training, Watcher
from srnn.lab.training.run import Run
from srnn.lab.workers import Send, Workers

EVERY = 0.5  # seconds between two reports of progress


class Processes(Workers):
    """So many worker processes on this machine.

    Args:
        jobs: How many runs are trained at once.
        checkpoint_every: Seconds between checkpoints of a run.
    """

    def __init__(self, jobs: int, checkpoint_every: float = 30.0) -> None:
        super().__init__(_work)
        self.room, self.checkpoint_every = jobs, checkpoint_every

    def start(self, key: str, run: Run, folder: Path) -> None:
        """Give a run to a worker."""
        self.send(key, order(run, folder) | {"checkpoint_every": self.checkpoint_every})


class Reporter(Watcher):
    """Sends the progress of a run: the largest share of any of its limits, and the number of updates."""

    def __init__(self, send: Send) -> None:
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


def _work(message: dict[str, Any], send: Send) -> tuple[str, Any]:
    return attempt(**message, watchers=[Reporter(send)])
