"""The time of the scans on a GPU by a model, because nobody has measured it: docs/gpu.md shows these tables.

    seconds = launches l + max(bytes / v, depth latency / in flight, depth i max(1, warps / schedulers) / clock)

A form of the scan is so many launches, moves bytes, and makes `depth` steps in a row, each with i instructions. A processor has
a bandwidth v, a latency of its memory, a clock, and schedulers that share the warps of 32 lanes evenly. `python -m
srnn.lab.bench.roofline docs/gpu.md` writes the tables of that page.
"""

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from srnn.lab.bench.result import Table, as_markdown
from srnn.lab.records import store

LAUNCH = 4e-6  # seconds that a launch costs. Assumed
SHARE_OF_BANDWIDTH = 0.88  # that a kernel reaches which reads and writes in order. Assumed
SHARE_OF_ISSUE = 0.6  # of the cycles in which a scheduler issues an instruction. Assumed
IN_FLIGHT = 16  # loads of a lane that are on their way at any time: the group of the kernels
LANES_PER_PROCESSOR, MANY_STEPS = 64, 2_048  # of the rule in srnn/kernels/triton/launch.py
STATES = 4 + 4 + 1 / 8  # bytes of a step of a lane: b is read, the state and one bit are written


@dataclass(frozen=True)
class Processor:
    """A GPU, as its data sheet has it. Only the latency is assumed.

    Attributes:
        name: The name in tables.
        bandwidth: Bytes per second.
        latency: Seconds of a load from its memory.
        count: Streaming multiprocessors, with four schedulers each.
        clock: Cycles per second.
        instructions: Of a step of the forward kernel, as its machine code has them (tests/gpu/compiled.json).
    """

    name: str
    bandwidth: float
    latency: float
    count: int
    clock: float
    instructions: int

    @property
    def schedulers(self) -> int:
        return 4 * self.count


A100 = Processor("A100 80 GB", 2.04e12, 600e-9, 108, 1.41e9, 45)
H100 = Processor("H100 SXM", 3.35e12, 700e-9, 132, 1.755e9, 45)
PROCESSORS = (A100, H100)
SHAPES = ((100, 784, 128), (100, 784, 1024), (32, 784, 128), (1, 16_000, 256), (1, 1_000_000, 64))  # N, T, H
LENGTHS = (2_048, 16_384, 131_072, 1_048_576)  # of the crossover


@dataclass(frozen=True)
class Work:
    """What a form of the scan does, on any processor.

    Attributes:
        size: Bytes read and written.
        lanes: Scalar recurrences that run at the same time.
        depth: Steps in a row of the longest of them.
        launches: Kernels, one after the other.
    """

    size: float
    lanes: int
    depth: int
    launches: int

    def parts(self, processor: Processor, in_flight: int = IN_FLIGHT) -> dict[str, float]:
        """Returns the seconds that each resource needs. They work at the same time, so that the largest counts."""
        warps = max(1.0, self.lanes / 32 / processor.schedulers)  # of each scheduler
        return {
            "bandwidth": self.size / (SHARE_OF_BANDWIDTH * processor.bandwidth),
            "latency": self.depth * processor.latency / in_flight,
            "instructions": self.depth * processor.instructions * warps / (SHARE_OF_ISSUE * processor.clock),
        }

    def seconds(self, processor: Processor, in_flight: int = IN_FLIGHT) -> float:
        return self.launches * LAUNCH + max(self.parts(processor, in_flight).values())

    def bound(self, processor: Processor) -> str:
        """Returns what takes longest: a resource, or the launches."""
        parts = self.parts(processor) | {"launches": self.launches * LAUNCH}
        return max(parts, key=lambda name: parts[name])


def lane_parallel(N: int, T: int, H: int) -> Work:
    """Returns the work of one lane for each unit of each sequence, with T steps: forward, all states."""
    return Work(N * T * H * STATES, N * H, T, 1)


def time_parallel(N: int, T: int, H: int, processor: Processor) -> Work:
    """Returns the work of summaries, carry and replay: forward, all states.

    The chunks are as many as give every scheduler four warps, and at most so many that a chunk has 64 steps.
    """
    wanted = max(1, 128 * processor.schedulers // (N * H))
    steps = max(64, 32 * math.ceil(math.ceil(T / wanted) / 32))  # no word of bits belongs to two chunks
    chunks = math.ceil(T / steps)
    carried = 3 * 4 * N * H * chunks  # the two numbers of a summary, and the state a chunk starts from
    return Work(N * T * H * (4 + STATES) + 2 * carried, N * H * chunks, 2 * steps + chunks, 3)


def crossover(T: int, processor: Processor) -> int:
    """Returns the number of lanes N H from which on the lane-parallel form is as fast as the time-parallel one."""
    low, high = 1, 1 << 20
    while low < high:
        middle = (low + high) // 2
        if lane_parallel(middle, T, 1).seconds(processor) <= time_parallel(middle, T, 1, processor).seconds(processor):
            high = middle
        else:
            low = middle + 1
    return low


def parts() -> Iterator[Table | str]:
    """Yields the tables of the page, and what they mean."""
    headings = [f"{p.name}, µs" if what else "bound by" for p in PROCESSORS for what in (True, False)]
    yield Table(
        ["N, T, H", "form", "MB", "depth", "launches", *headings],
        [_row(shape, is_split) for shape in SHAPES for is_split in (False, True)],
        names=2,
    )
    work = lane_parallel(*SHAPES[0])
    alone = [f"{1e6 * work.seconds(p, in_flight=1):,.0f} µs on {p.name}" for p in PROCESSORS]
    yield (
        "Forward, all states, float32. MB: bytes read and written. Depth: steps one after the other. Time: the launches, and "
        f"the longest of bandwidth, latency (each lane has {IN_FLIGHT} loads on their way) and instructions "
        f"({A100.instructions} of a step in the machine code for sm_80). With one load at a time instead of "
        f"{IN_FLIGHT}, the first row would take {' and '.join(alone)}."
    )
    yield Table(
        ["T", *(p.name for p in PROCESSORS)], [[f"{T:,}", *(f"{crossover(T, p):,}" for p in PROCESSORS)] for T in LENGTHS]
    )
    rule = [f"{LANES_PER_PROCESSOR * p.count:,} on {p.name}" for p in PROCESSORS]
    yield (
        "Lanes N H from which on the lane-parallel form is at least as fast, by this model. The rule in the code is "
        f"time-parallel below {LANES_PER_PROCESSOR} lanes per streaming multiprocessor, {' and '.join(rule)}, if there are "
        f"{MANY_STEPS:,} steps or more."
    )


def _row(shape: tuple[int, int, int], is_split: bool) -> list[str]:
    works = [time_parallel(*shape, p) if is_split else lane_parallel(*shape) for p in PROCESSORS]
    first = works[0]  # bytes and depth of the other differ by the number of its chunks
    cells = [f"{first.size / 1e6:,.0f}", f"{first.depth:,}", f"{first.launches}"]
    for processor, work in zip(PROCESSORS, works, strict=True):
        cells += [f"{1e6 * work.seconds(processor):,.0f}", work.bound(processor)]
    return [", ".join(f"{size:,}" for size in shape), "time-parallel" if is_split else "lane-parallel", *cells]


if __name__ == "__main__":
    page = Path(sys.argv[1])
    store.replace(page, store.filled(page, "roofline", as_markdown(parts())))
