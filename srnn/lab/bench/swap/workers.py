"""Runs of the swap test on worker processes of one thread each."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from srnn.errors import Interrupted, TeamError
from srnn.lab.bench.swap.plan import from_settings
from srnn.lab.bench.swap.program import Run
from srnn.lab.bench.swap.training import train
from srnn.lab.training.loop import asked_to_stop
from srnn.lab.workers import Send, Workers


def results(runs: Sequence[Run], jobs: int) -> Iterator[tuple[Run, dict[str, Any]]]:
    """Yields each run with the result of `train`, in the order in which they end.

    Raises:
        Interrupted: After Ctrl-C or SIGTERM. Only the runs that were in progress are lost.
        TeamError: A worker has ended.
    """
    by_id, workers = {run.id: run for run in runs}, Workers(_work)
    waiting = list(by_id)
    try:
        with asked_to_stop() as asked:
            while waiting or workers.working:
                while waiting and len(workers.working) < jobs:
                    key = waiting.pop(0)
                    workers.send(key, by_id[key].settings)
                for key, kind, about in workers.poll():
                    if kind == "lost":
                        raise TeamError(f"{key} failed: {about}. Run the same command to repeat it")
                    yield by_id[key], about
                if why := asked():
                    raise Interrupted(why, ". Run the same command to resume")
    finally:
        workers.close()


def _work(settings: dict[str, Any], send: Send) -> tuple[str, Any]:
    torch.set_num_threads(1)
    return "done", train(from_settings(settings))
