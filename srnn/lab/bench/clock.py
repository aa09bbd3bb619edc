"""Times of several sides that take turns within one run, so that other load on the machine affects all of them."""

import gc
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

Call = Callable[[], Any]


@dataclass
class Clock:
    """Lets sides take turns and keeps the seconds of each."""

    rounds: int
    quick: bool = False
    tick: Callable[[float], object] = lambda share: None  # told which share of the measurement is done

    def race(self, sides: Mapping[Any, Call]) -> dict[Any, list[float]]:
        """Seconds of one call for every side and round: the median of as many calls as fill about a twentieth of a second.

        In a quick run a side slower than a third of a second has one round only.
        """
        share, calls, rounds = 1 / (len(sides) * (self.rounds + 1)), {}, {}
        for name, call in sides.items():
            first = _seconds(call)  # fills caches and pools; only to know how slow the side is
            calls[name] = max(1, min(20, int(0.05 / (first if first > 0.05 else _seconds(call)))))
            rounds[name] = 1 if self.quick and first > 1 / 3 else self.rounds
            self.tick(share)
        times: dict[Any, list[float]] = {name: [] for name in sides}
        collecting = gc.isenabled()
        gc.disable()
        try:
            for number in range(self.rounds):
                for name, call in sides.items():
                    if number < rounds[name]:
                        times[name].append(median(_seconds(call) for _ in range(calls[name])))
                    self.tick(share)
        finally:
            if collecting:
                gc.enable()
        return times


def ratio(times: Mapping[Any, list[float]], over: Any, under: Any) -> float:
    """How many times longer `over` takes than `under`: the median over the rounds that both ran."""
    return median(a / b for a, b in zip(times[over], times[under], strict=False))


def _seconds(call: Call) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
