"""How close the scans are to what the machine allows, how their time grows, and how much memory a training step needs.

Times are the best of their rounds, because every disturbance of a scan of 20 ms, such as a page fault, makes it slower.
"""

import contextlib
import ctypes
import math
import multiprocessing
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import linear_regression
from typing import Any

import torch
from torch import Tensor

from srnn import kernels
from srnn.lab.bench.clock import Call, Clock
from srnn.lab.bench.training import PMNIST, Setting, grey_levels, training_step

FULL = (100, 784, 1024)  # N, T, H of the limits: the paper's permuted MNIST
LONG = (1, 1_000_000, 64)  # and of the limits of one long sequence
MEMORY: dict[str, Setting] = {
    "alphabet": replace(PMNIST, key="memory-alphabet", mlp=(32, 32, 32)),
    "real": replace(PMNIST.with_real_inputs(), key="memory-real", mlp=(32, 32, 32)),
}


@dataclass(frozen=True)
class Limit:
    """A number whose target is the range [low, high), and the function that measures it, or returns None if it cannot."""

    key: str
    title: str
    measure: Callable[[Clock], float | None]
    low: float = -math.inf
    high: float = math.inf

    @property
    def floor(self) -> str:
        if math.isinf(self.low):
            return f"below {self.high:g}"
        return f"at least {self.low:g}" if math.isinf(self.high) else f"{self.low:g} to {self.high:g}"


def scan(
    form: str,
    N: int,
    T: int,
    H: int,
    background: float = 0.81,
    draw: Callable[..., Tensor] = torch.rand,
    device: str = "cpu",
    **options: Any,
) -> Callable[[], list[Tensor]]:
    """Returns a call of the scan alone.

    If all b are positive, no unit is ever zero, and the gradient must go back through every step: the slowest case.

    Args:
        form: "dense" for forward with all states, "table" for 256 rows, forward and backward, last state only.
        N: Sequences.
        T: Steps.
        H: Units.
        background: Share of grey level 0 in the symbols of the table.
        draw: Draws the elements of b.
        device: Where to compute.
        options: Of `shuffle_scan`.
    """
    if form == "dense":
        b = draw(N, T, H, device=device)
        return lambda: [kernels.shuffle_scan(b, **options)]
    table, grad = draw(256, H, device=device).requires_grad_(), torch.randn(N, H, device=device)
    ids = grey_levels(N, T, background).to(device)

    def forward_and_backward() -> list[Tensor]:
        state = kernels.shuffle_scan(table, ids=ids, final=True, **options)
        return [state.detach(), *torch.autograd.grad(state, table, grad)]

    return forward_and_backward


def best_times(clock: Clock, sides: dict[Any, Call]) -> dict[Any, float]:
    """Returns the shortest time of each side. First, memory for their results is allocated and written to.

    It is enough for several results, because glibc cannot always put an aligned block where one of the same size was freed.
    """
    torch.ones(8, *FULL)
    for call in sides.values():
        call()
    return {name: min(seconds) for name, seconds in clock.race(sides).items()}


def against_copy(clock: Clock, form: str, background: float = 0.81) -> float:
    """Returns the time of the scan over that of one `copy_` between two tensors [N, T, H]."""
    source, target = torch.rand(FULL), torch.ones(FULL)
    best = best_times(clock, {"scan": scan(form, *FULL, background), "copy": lambda: target.copy_(source)})
    return best["scan"] / best["copy"]


def against_plain(clock: Clock, form: str, kind: str) -> float:
    """Returns the time of the scan with "clip" instead of ReLU, or with a "reset" at every fiftieth step, over the plain one's.

    b has both signs here, so that the states reach the bounds of ReLU and of clip.
    """
    N, T, _ = FULL
    options = {"activation": "clip"} if kind == "clip" else {"reset": torch.rand(N, T) < 0.02}
    plain, changed = (scan(form, *FULL, draw=torch.randn, **given) for given in ({}, options))
    best = best_times(clock, {"plain": plain, "changed": changed})
    return best["changed"] / best["plain"]


def slope(clock: Clock, form: str, axis: int) -> float | None:
    """Returns the log-log slope of time over T (axis 1) or H (axis 2). Native only: plain code needs too much memory."""
    if kernels.auto_backend() != "native":
        return None
    sides = {}
    for factor in (1.0, 0.5, 0.25) if form == "dense" else (2.0, 1.0, 0.5):  # the others reuse the memory of the largest
        N, T, H = (int(size * factor) if i == axis else size for i, size in enumerate(FULL))
        sides[math.log(factor)] = scan(form, N, T, H)
    best = best_times(clock, sides)
    return linear_regression(list(best), [math.log(seconds) for seconds in best.values()]).slope


def against_one_thread(clock: Clock, part: str, mean: float) -> float | None:
    """Returns the time of one long sequence on one thread over that on two. Native only: plain code is not split in time.

    Args:
        clock: Measures.
        part: "forward" for all states, "backward" for the derivative of all states.
        mean: Of b, which is normal. A negative one brings the states of ReLU to 0 again and again, a large one never does.
    """
    if kernels.auto_backend() != "native":
        return None
    b, grad = (torch.randn(LONG) + mean).requires_grad_(), torch.randn(LONG)
    states = kernels.shuffle_scan(b) if part == "backward" else b

    def on(threads: int) -> Call:
        def call() -> Any:
            torch.set_num_threads(threads)
            if part == "forward":
                return kernels.shuffle_scan(b.detach())
            return torch.autograd.grad(states, b, grad, retain_graph=True)

        return call

    best = best_times(clock, {threads: on(threads) for threads in (1, 2)})
    return best[1] / best[2]


def peak_memory(clock: Clock, kind: str) -> float | None:
    """Returns the megabytes that a training step adds to the peak memory of this process, or None without /proc."""
    if not Path("/proc/self/status").exists():
        return None
    N, T, H = FULL
    training_step(replace(MEMORY[kind], N=2, T=8, H=8), "srnn")()  # loads libraries and starts threads
    step = training_step(replace(MEMORY[kind], N=N, T=T, H=H), "srnn")
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # forgets earlier peaks, such as that of an import
    before = _high_water()
    step()
    return (_high_water() - before) / 1e6


def _high_water() -> int:
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["VmHWM"].split()[0]) * 1024


LIMITS: tuple[Limit, ...] = (
    Limit("dense", "dense scan, bytes/s over copy_'s", lambda clock: 1 / against_copy(clock, "dense"), low=0.70),
    Limit("table", "table scan, time over copy_'s", partial(against_copy, form="table"), high=0.75),
    Limit("table-uniform", "table scan, uniform levels", partial(against_copy, form="table", background=0.0), high=0.75),
    Limit("clip", "dense scan with clip, time over ReLU's", partial(against_plain, form="dense", kind="clip"), high=1.1),
    Limit("clip-table", "table scan with clip, time over ReLU's", partial(against_plain, form="table", kind="clip"), high=1.1),
    Limit("reset", "dense scan with resets, over without", partial(against_plain, form="dense", kind="reset"), high=1.05),
    Limit("reset-table", "table scan with resets, over without", partial(against_plain, form="table", kind="reset"), high=1.05),
    Limit("dense-T", "dense scan, log-log slope in T", partial(slope, form="dense", axis=1), 0.9, 1.1),
    Limit("dense-H", "dense scan, log-log slope in H", partial(slope, form="dense", axis=2), 0.9, 1.1),
    Limit("table-T", "table scan, log-log slope in T", partial(slope, form="table", axis=1), 0.9, 1.1),
    Limit("table-H", "table scan, log-log slope in H", partial(slope, form="table", axis=2), 0.9, 1.1),
    Limit("split", "one sequence, two threads over one", partial(against_one_thread, part="forward", mean=-0.1), low=1.5),
    Limit("split-backward", "- its derivative", partial(against_one_thread, part="backward", mean=-0.1), low=1.5),
    Limit("split-never", "- no state ever 0", partial(against_one_thread, part="forward", mean=10.0), low=0.91),
    Limit("memory-real", "extra peak memory, real inputs (MB)", partial(peak_memory, kind="real"), high=150),
    Limit("memory-alphabet", "extra peak memory, alphabet (MB)", partial(peak_memory, kind="alphabet"), high=50),
)


def keep_freed_memory() -> None:
    """Makes glibc reuse large blocks, so that a scan writes to memory that is mapped already, as `copy_` does.

    By default every new result of 300 MB gets fresh pages, which cost several times the scan itself.
    """
    mmap_max, trim_threshold = -4, -1  # their numbers in malloc.h
    mallopt = getattr(ctypes.CDLL(None) if sys.platform == "linux" else None, "mallopt", lambda option, value: 0)
    mallopt(mmap_max, 0), mallopt(trim_threshold, -1)


def measure_here(key: str, backend: str, sizes: tuple[int, int, int], rounds: int, quick: bool, threads: int) -> float | None:
    """Returns the value of one limit. Earlier work of the process would change it."""
    global FULL
    FULL = sizes
    torch.set_num_threads(threads)
    if not key.startswith("memory"):
        keep_freed_memory()
    with kernels.use(backend):
        return next(limit for limit in LIMITS if limit.key == key).measure(Clock(rounds, quick))


def in_fresh_process(key: str, clock: Clock) -> float | None:
    """Returns the result of `measure_here` in a new process, with the backend, the sizes and the threads of this one."""
    given = (key, kernels.default_backend(), FULL, clock.rounds, clock.quick, torch.get_num_threads())
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        return process.submit(measure_here, *given).result()


def measure_limit(limit: Limit, clock: Clock) -> dict[str, Any]:
    """Measures one row of the table, for the record."""
    value = in_fresh_process(limit.key, clock)
    clock.tick(1)
    met = None if value is None else limit.low <= value < limit.high
    return {"key": limit.key, "title": limit.title, "value": value, "floor": limit.floor, "met": met}
