"""How far the scans are from the machine's limits, how they grow, and how much memory a training step needs.

Times are the best of their rounds: what disturbs a scan of 20 ms, a page fault above all, only ever adds.
"""

import contextlib
import ctypes
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import linear_regression
from typing import Any

import torch
from torch import Tensor

from srnn import kernels
from srnn.lab.bench.clock import Clock
from srnn.lab.bench.training import PMNIST, Setting, grey_levels, training_step

FULL = (100, 784, 1024)  # N, T, H of the limits: the paper's permuted MNIST
MEMORY: dict[str, Setting] = {
    "alphabet": replace(PMNIST, key="memory-alphabet", mlp=(32, 32, 32)),
    "real": replace(PMNIST.with_real_inputs(), key="memory-real", mlp=(32, 32, 32)),
}


@dataclass(frozen=True)
class Limit:
    """A number that should lie in [low, high), and how it is measured; None where this machine cannot tell."""

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
    **options: Any,
) -> Callable[[], list[Tensor]]:
    """The scan alone. "dense": forward, all states. "table": 256 rows, forward and backward, last state only.

    Where all b are positive no unit is ever zero, and the derivative must go back through every step: the slowest case.
    """
    if form == "dense":
        b = draw(N, T, H)
        return lambda: [kernels.shuffle_scan(b, **options)]
    table, ids, grad = draw(256, H).requires_grad_(), grey_levels(N, T, background), torch.randn(N, H)

    def forward_and_backward() -> list[Tensor]:
        state = kernels.shuffle_scan(table, ids=ids, final=True, **options)
        return [state.detach(), *torch.autograd.grad(state, table, grad)]

    return forward_and_backward


def against_copy(clock: Clock, form: str, background: float = 0.81) -> float:
    """Time of the scan over that of one `copy_` between two tensors [N, T, H]."""
    source, target = torch.rand(FULL), torch.ones(FULL)
    times = clock.race(settled({"scan": scan(form, *FULL, background), "copy": lambda: target.copy_(source)}))
    return min(times["scan"]) / min(times["copy"])


def against_plain(clock: Clock, form: str, kind: str) -> float:
    """Time of the scan with "clip" in the place of ReLU, or with a "reset" at every fiftieth step, over that of the plain one.

    b has both signs here, so that states of ReLU and of clip reach their bounds.
    """
    N, T, _ = FULL
    options = {"activation": "clip"} if kind == "clip" else {"reset": torch.rand(N, T) < 0.02}
    sides = {"plain": scan(form, *FULL, draw=torch.randn), kind: scan(form, *FULL, draw=torch.randn, **options)}
    times = clock.race(settled(sides))
    return min(times[kind]) / min(times["plain"])


def settled(sides: dict[Any, Callable[[], Any]]) -> dict[Any, Callable[[], Any]]:
    """The sides, once there is room for their results in memory that has been written to before.

    Room for several: glibc cannot always put an aligned block where one of the same size was freed.
    """
    torch.ones(8, *FULL)
    for call in sides.values():
        call()
    return sides


def slope(clock: Clock, form: str, axis: int) -> float | None:
    """Log-log slope of time along T (axis 1) or H (axis 2); native only, as the plain code would need too much memory."""
    if kernels.auto_backend() != "native":
        return None
    sides = {}
    for factor in (1.0, 0.5, 0.25) if form == "dense" else (2.0, 1.0, 0.5):  # the largest first: the others find its memory
        N, T, H = (int(size * factor) if i == axis else size for i, size in enumerate(FULL))
        sides[math.log(factor)] = scan(form, N, T, H)
    times = clock.race(settled(sides))
    return linear_regression(list(times), [math.log(min(seconds)) for seconds in times.values()]).slope


def peak_memory(clock: Clock, kind: str) -> float | None:
    """Megabytes that a training step with `final_state` adds to the peak of this process; None without /proc."""
    if not Path("/proc/self/status").exists():
        return None
    N, T, H = FULL
    training_step(replace(MEMORY[kind], N=2, T=8, H=8), "srnn")()  # libraries, threads, the optimizer's imports
    step = training_step(replace(MEMORY[kind], N=N, T=T, H=H), "srnn")
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts from what is held now, not from an import's peak
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
    Limit("memory-real", "extra peak memory, real inputs (MB)", partial(peak_memory, kind="real"), high=150),
    Limit("memory-alphabet", "extra peak memory, alphabet (MB)", partial(peak_memory, kind="alphabet"), high=50),
)


def keep_freed_memory() -> None:
    """Makes glibc reuse large blocks: `copy_` writes to memory that is there, and so must a scan that is compared with it.

    By default every new result of 300 MB is made of fresh pages, which cost several times the scan itself.
    """
    mmap_max, trim_threshold = -4, -1  # their numbers in malloc.h
    mallopt = getattr(ctypes.CDLL(None) if sys.platform == "linux" else None, "mallopt", lambda option, value: 0)
    mallopt(mmap_max, 0), mallopt(trim_threshold, -1)


def measure_here(key: str, sizes: tuple[int, int, int], rounds: int, quick: bool, threads: int) -> float | None:
    """The value of one limit; meant for a process that has done nothing else, since old memory would tell on it."""
    global FULL
    FULL = sizes
    torch.set_num_threads(threads)
    if not key.startswith("memory"):
        keep_freed_memory()
    return next(limit for limit in LIMITS if limit.key == key).measure(Clock(rounds, quick))


def in_fresh_process(key: str, clock: Clock) -> float | None:
    """`measure_here`, elsewhere, with the backend, the sizes and the threads of this process."""
    call = f"{key!r}, {FULL!r}, {clock.rounds}, {clock.quick}, {torch.get_num_threads()}"
    program = f"import json; from srnn.lab.bench import limits; print(json.dumps(limits.measure_here({call})))"
    environment = os.environ | {"SRNN_BACKEND": kernels.default_backend()}
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=True, env=environment)
    value: float | None = json.loads(done.stdout)
    return value


def measure_limit(limit: Limit, clock: Clock) -> dict[str, Any]:
    value = in_fresh_process(limit.key, clock)
    clock.tick(1)
    met = None if value is None else limit.low <= value < limit.high
    return {"key": limit.key, "title": limit.title, "value": value, "floor": limit.floor, "met": met}
