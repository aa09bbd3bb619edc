"""How kernels.py is launched: the form of a scan, the sizes of blocks, chunks and groups, permutations, checks of values.

Nothing here waits for the device, except the first use of a permutation.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
import triton.language as tl
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from srnn.errors import ShapeError, one_of
from srnn.kernels import pytorch
from srnn.kernels.activations import ACTIVATIONS
from srnn.kernels.arguments import is_last_zero
from srnn.kernels.triton import kernels

Maybe = Tensor | None

BLOCK = 128  # lanes of a program, one per thread
REGISTERS = 168  # of a thread at most, so that three programs share a processor
GROUP = 16  # loads of a lane that are in flight together: what full bandwidth needs at N H = 12,800
SMALL_GROUP = 8  # the same in steps, where a step has several loads: larger kernels take long to compile and more registers
FREE_STEPS = 256  # of a chunk, where chunks do not depend on each other
FORMS = ("auto", "lanes", "time")
LANES_PER_PROCESSOR = 64
MANY_STEPS = 2048
LIMIT = 2**31 - 2**20  # steps and units are counted in int32, some groups and chunks ahead of the last

_form = os.environ.get("SRNN_TRITON_FORM") or "auto"  # changed by `use_form` alone
_launches: list[Any] | None = None


def form_of(N: int, T: int, H: int, processors: int) -> str:
    """Returns how a scan of relu or clip is parallel: over "lanes" alone, or over "time" too.

    A lane takes T steps one after the other, GROUP of them in the time that a load takes. Chunks of time in parallel read the
    input twice, 1.5 times the memory traffic of a scan and its states, and need three launches. The rule is about where the
    cost model of docs/gpu.md has the two equally fast. It is a prediction: nothing of it was measured.
    """
    if _form not in FORMS:
        raise one_of("form of the Triton kernels ($SRNN_TRITON_FORM)", _form, FORMS)
    if _form != "auto":
        return _form
    lanes, few = N * H, LANES_PER_PROCESSOR * processors
    return "time" if lanes < few and T >= MANY_STEPS else "lanes"


@contextmanager
def use_form(form: str) -> Iterator[None]:
    """Makes all scans of relu and clip parallel over "lanes" or "time", whatever `form_of` would say."""
    global _form
    if form not in FORMS:
        raise one_of("form of the Triton kernels", form, FORMS)
    before, _form = _form, form
    try:
        yield
    finally:
        _form = before


@contextmanager
def recorded() -> Iterator[list[Any]]:
    """Collects (kernel, arguments by name) of all launches, and launches nothing."""
    global _launches
    before, _launches = _launches, []
    try:
        yield _launches
    finally:
        _launches = before


def launch(kernel: Any, programs: int, *args: Any, **constants: Any) -> None:
    """Runs programs of a kernel on the device of its first tensor, or records that."""
    if not programs:
        return
    if _launches is not None:
        names = [name for name in kernel.arg_names if name not in constants]
        _launches.append((kernel, dict(zip(names, args, strict=True)) | constants))
        return
    device = next(each.device for each in args if isinstance(each, Tensor))
    with torch.cuda.device(device if device.type == "cuda" else -1):
        kernel[(programs,)](*args, **constants, **_options(device))


def options_of(warp: int, is_hip: bool) -> dict[str, int]:
    """Returns how kernels are compiled for warps of this size: one lane per thread, with a bound on registers.

    Without a bound, NVIDIA's assembler chooses one, and sometimes moves a number of the loop to the stack to stay below it.
    """
    return {"num_warps": BLOCK // warp} | ({} if is_hip else {"maxnreg": REGISTERS})


@cache
def _options(device: torch.device) -> dict[str, int]:
    if device.type != "cuda":  # the interpreter has no warps
        return {}
    return options_of(torch.cuda.get_device_properties(device).warp_size, torch.version.hip is not None)


@cache
def _processors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1


def cdiv(a: int, b: int) -> int:
    """a / b, rounded up."""
    return -(-a // b)


def wide_of(dtype: torch.dtype) -> Any:
    """The type that a kernel computes in."""
    return tl.float64 if dtype == torch.float64 else tl.float32


def units(x: Tensor) -> Tensor:
    """The tensor [N, T, H] with units next to each other; sequences and steps may be anywhere, or all at the same place."""
    return x if x.stride(-1) == 1 or x.shape[-1] == 1 else x.contiguous()


# ---- permutations

_orbits: WeakTensorKeyDictionary = WeakTensorKeyDictionary()


def orbits_of(permutation: Tensor) -> Tensor:
    """The `orbits` [4, H] of kernels.py. They are made on the CPU, and kept until the permutation changes."""
    version = None if permutation.is_inference() else permutation._version
    known = _orbits.get(permutation)
    if known is not None and version is not None and known[0] == version:
        return known[1]
    source = permutation.tolist()
    pytorch.check_values(permutation.new_empty(0, 0, len(source)), None, permutation, None)
    inverse = [0] * len(source)
    for place, from_place in enumerate(source):
        inverse[from_place] = place
    order: list[int] = []
    start, stop, at = [0] * len(source), [0] * len(source), [-1] * len(source)
    for first in range(len(source)):
        if at[first] >= 0:
            continue
        begin, unit = len(order), first
        while at[unit] < 0:
            at[unit] = len(order)
            order.append(unit)
            unit = inverse[unit]
        for unit in order[begin:]:
            start[unit], stop[unit] = begin, len(order)
    made = torch.tensor([order, start, stop, at], dtype=torch.int32).to(permutation.device)
    if version is not None:
        _orbits[permutation] = version, made
    return made


def check_later(b: Tensor, ids: Maybe, lengths: Maybe) -> None:
    """Checks values as `pytorch.check_values` does, without waiting: an invalid one raises at the next synchronization."""
    T = b.shape[1] if ids is None else ids.shape[1]
    if ids is not None and ids.numel():
        torch._assert_async(((ids >= 0) & (ids.long() < len(b))).all(), "ids (symbols) must be rows of the table (alphabet)")
    if lengths is not None and lengths.numel():
        torch._assert_async(((lengths >= 0) & (lengths <= T)).all(), "lengths must be between 0 and T")


# ---- a walk along all rows


@dataclass
class Rows:
    """The sequences as kernels take them: sizes, tensors without gaps, the type to compute in."""

    N: int
    T: int
    H: int
    ids: Maybe
    orbits: Maybe
    lengths: Maybe
    reset: Maybe
    reverse: bool
    dtype: torch.dtype
    device: torch.device

    def empty(self, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
        """New memory for numbers that the kernels compute with."""
        return torch.empty(shape, dtype=dtype or self.dtype, device=self.device)

    def blocks(self) -> int:
        """How many programs take all lanes."""
        return cdiv(self.N * self.H, BLOCK)

    def chunks(self, count: int, bounded: bool) -> tuple[int, int]:
        """The length of a chunk of time and their number; a multiple of 32, because a word of bits has one writer."""
        processors = _processors(self.device)
        if not bounded or form_of(self.N, self.T, self.H, processors) == "lanes":
            return max(count, 1), 1
        wanted = max(1, 8 * LANES_PER_PROCESSOR * processors // max(self.N * self.H, 1))  # lanes in all, for full bandwidth
        steps = max(32 * cdiv(cdiv(count, wanted), 32), 64)
        return steps, max(cdiv(count, steps), 1)

    def times(self, first: int, count: int) -> Tensor:
        """When the steps from `first` on happen [N, count]; after a row's end, the step itself, so that no time is left out."""
        s = torch.arange(first, first + count, device=self.device).expand(self.N, -1)
        if not self.reverse:
            return s
        if self.lengths is None:
            return self.T - 1 - s
        ends = self.lengths[:, None].long()
        return torch.where(s < ends, ends - 1 - s, s)


def rows_of(
    b: Tensor, ids: Maybe, permutation: Maybe, lengths: Maybe, reset: Maybe, reverse: bool, H: int | None = None
) -> Rows:
    """Returns the sequences of an operator's arguments, after the checks of their values."""
    N, T = b.shape[:2] if ids is None else ids.shape
    H = b.shape[-1] if H is None else H
    if max(T, H) > LIMIT:
        raise ShapeError(f"backend 'triton' needs T and H of {LIMIT:,} or less, got T = {T:,}, H = {H:,}. Use backend='torch'")
    if b.device.type == "cpu":
        pytorch.check_values(b, ids, None, lengths)
    else:
        check_later(b, ids, lengths)
    return Rows(
        N,
        T,
        H,
        None if ids is None else ids.contiguous(),
        None if permutation is None else orbits_of(permutation),
        None if lengths is None else lengths.to(torch.int32).contiguous(),
        None if reset is None else reset.contiguous().view(torch.uint8),
        reverse,
        pytorch.wide_type(b),
        b.device,
    )


def scan(
    rows: Rows,
    b: Tensor,
    sigma: str,
    start: Tensor,
    h_n: Tensor,
    *,
    gate: Maybe = None,
    kept: Maybe = None,
    output: Maybe = None,
    bits: Maybe = None,
    zero: Maybe = None,
    zero_start: Maybe = None,
    window: tuple[int, int] | None = None,
) -> None:
    """Launches the scan of all steps, or of a window of them, for which b and gate are."""
    first, count = (0, rows.T) if window is None else window
    N, T, H, wide = rows.N, rows.T, rows.H, wide_of(rows.dtype)
    bounded = sigma in ACTIVATIONS and ACTIVATIONS[sigma].bounds is not None
    steps, chunks = rows.chunks(count, bounded)
    by_step = window is not None
    strides = (0, 0) if rows.ids is not None else b.stride()[:2]
    walk = (rows.reset, rows.lengths, rows.orbits)
    group = group_of(rows, gate, sigma)
    how: dict[str, Any] = {"BY_STEP": by_step, "REVERSE": rows.reverse, "WIDE": wide, "GROUP": group, "BLOCK": BLOCK}
    sizes = (N, T, H, first, count, steps, chunks, *strides)
    found = zero
    if chunks > 1:
        maps, carried = rows.empty(3, N, chunks, H), rows.empty(N, chunks, H)
        launch(kernels.summarize, rows.blocks() * chunks, b, gate, rows.ids, *walk, maps, *sizes, SIGMA=sigma, **how)
        launch(kernels.carry, rows.blocks(), maps, start, carried, N, H, chunks, WIDE=wide, GROUP=SMALL_GROUP, BLOCK=BLOCK)
        start = carried
        found = None if zero is None else rows.empty(N, chunks, H, dtype=torch.int32)
    pointers = (b, gate, rows.ids, kept, *walk, start, zero_start, output, bits, h_n, found)
    last = first + count == T
    launch(kernels.scan, rows.blocks() * chunks, *pointers, *sizes, SIGMA=sigma, LAST=last, **how)
    if zero is not None and found is not zero and found is not None:
        torch.amax(found, 1, out=zero)


def backward(
    rows: Rows,
    grad: Maybe,
    grad_n: Tensor,
    kept: Tensor,
    db: Tensor,
    dh0: Tensor,
    *,
    gate: Maybe = None,
    start: Maybe = None,
    window: tuple[int, int] | None = None,
) -> None:
    """Launches the derivative of all steps, or of a window of them, whose gradients take the place of f in db, and of gate."""
    first, count = (0, rows.T) if window is None else window
    N, T, H, wide = rows.N, rows.T, rows.H, wide_of(rows.dtype)
    kind = kind_of(kept)
    if kind == "zeros":
        steps, chunks = FREE_STEPS, max(cdiv(count, FREE_STEPS), 1)
    else:
        steps, chunks = rows.chunks(count, kind == "bits")
    strides = (0, 0) if grad is None else grad.stride()[:2]
    walk = (rows.reset, rows.lengths, rows.orbits)
    group = group_of(rows, gate, kind)
    how: dict[str, Any] = {"REVERSE": rows.reverse, "WIDE": wide, "GROUP": group, "BLOCK": BLOCK}
    sizes = (N, T, H, first, count, steps, chunks, *strides)
    if chunks > 1 and kind == "bits":
        maps, carried = rows.empty(2, N, chunks, H), rows.empty(N, chunks, H)
        launch(kernels.summarize_backward, rows.blocks() * chunks, grad, kept, *walk, maps, *sizes, **how)
        rest = {"WIDE": wide, "GROUP": SMALL_GROUP, "BLOCK": BLOCK}
        ends = (rows.lengths, rows.orbits)
        launch(kernels.carry_backward, rows.blocks(), maps, grad_n, *ends, start, carried, N, T, H, chunks, **rest)
        start = carried
    targets = db.stride()[:2] if db.dim() == 3 else (0, 0)
    pointers = (grad, grad_n, kept, gate, *walk, start, db, dh0)
    by_step = window is not None
    launch(kernels.backward, rows.blocks() * chunks, *pointers, *sizes, *targets, KEPT=kind, BY_STEP=by_step, **how)


def group_of(rows: Rows, gate: Maybe, kind: str) -> int:
    """Returns how many steps are loaded at once: fewer where a step has several loads."""
    return SMALL_GROUP if gate is not None or rows.reset is not None or kind == "states" else GROUP


def kind_of(kept: Tensor) -> str:
    """What `kept` holds, as the kernels call it."""
    return "zeros" if is_last_zero(kept) else "states" if kept.is_floating_point() else "bits"
