"""Measures several calls in turns within one process, so that other load on the machine affects all of them alike."""

import gc
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch

from srnn import kernels
from srnn.lab.training.loop import torch_unchanged

Call = Callable[[], Any]
CPU = torch.device("cpu")


@dataclass
class Clock:
    """Measures calls in turns.

    Attributes:
        rounds: How often each call has its turn.
        quick: Whether a call slower than a third of a second has one round only.
        tick: Is called with the share of the measurement that has just been done.
        device: Where the calls compute. On an accelerator, its own events measure from the first kernel to the last.
    """

    rounds: int
    quick: bool = False
    tick: Callable[[float], object] = lambda share: None
    device: torch.device = CPU

    def race(self, sides: Mapping[Any, Call]) -> dict[Any, list[float]]:
        """Returns the seconds of one call, for each side and round.

        In each round a side is called as often as fits into a twentieth of a second, up to 20 times. The median counts.
        """
        share, calls, rounds = 1 / (len(sides) * (self.rounds + 1)), {}, {}
        for name, call in sides.items():
            first = self.measure(call)  # fills caches and memory pools, and shows how slow the side is
            calls[name] = max(1, min(20, int(0.05 / (first if first > 0.05 else self.measure(call)))))
            rounds[name] = 1 if self.quick and first > 1 / 3 else self.rounds
            self.tick(share)
        times: dict[Any, list[float]] = {name: [] for name in sides}
        collecting = gc.isenabled()
        gc.disable()
        try:
            for number in range(self.rounds):
                for name, call in sides.items():
                    if number < rounds[name]:
                        times[name].append(median(self.measure(call) for _ in range(calls[name])))
                    self.tick(share)
        finally:
            if collecting:
                gc.enable()
        return times

    def measure(self, call: Call) -> float:
        """Returns the seconds of one call."""
        if self.device.type == "cpu":
            begin = time.perf_counter()
            call()
            return time.perf_counter() - begin
        first, last = (torch.Event(self.device, enable_timing=True) for _ in range(2))
        first.record()
        call()
        last.record()
        last.synchronize()
        return first.elapsed_time(last) / 1e3


def ratio(times: Mapping[Any, list[float]], over: Any, under: Any) -> float:
    """Returns how many times longer `over` takes than `under`: the median over the rounds that both ran."""
    return median(a / b for a, b in zip(times[over], times[under], strict=False))


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Runs a block on so many threads, and restores torch's number of threads and its random generator afterwards."""
    with torch_unchanged():
        torch.set_num_threads(count)
        yield


def on_backend(backend: str, call: Call) -> Call:
    """Returns the call with `backend` as the default backend of the kernels."""

    def changed() -> Any:
        with kernels.use(backend):
            return call()

    return changed
