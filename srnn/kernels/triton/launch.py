"""The operators of ops.py on a GPU: what they allocate, and which kernels of kernels.py they launch.

`check` has passed the arguments before. Nothing here waits for the device, except the first use of a permutation.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.weak import WeakTensorKeyDictionary

from srnn.errors import one_of
from srnn.kernels import pytorch
from srnn.kernels.activations import ACTIVATIONS, tanh_slope
from srnn.kernels.arguments import is_last_zero, words_of
from srnn.kernels.triton import kernels

Maybe = Tensor | None

BLOCK, WARPS = 128, 4  # a lane per thread
GROUP = 16  # loads of a lane that are in flight together: what full bandwidth needs at N H = 12,800
FEW = 8  # the same in steps, where a step has several loads: larger kernels take long to compile and more registers
FREE_STEPS = 256  # of a chunk, where chunks do not depend on each other
PIECE = 256  # tokens that one program of the table's gradient adds
WINDOW_BYTES = 64 * 2**20  # of each product of a gated scan
FORMS = ("auto", "lanes", "time")
LANES_PER_PROCESSOR = 64
FEW_STEPS = 2048

_form = os.environ.get("SRNN_TRITON_FORM") or "auto"  # changed by `use_form` alone
_launches: list[Any] | None = None


def form_of(N: int, T: int, H: int, processors: int) -> str:
    """Returns how a scan of relu or clip is parallel: over "lanes" alone, or over "time" too.

    A lane takes T steps one after the other, GROUP of them in the time that a load takes. Chunks of time in parallel read the
    input twice, 1.5 times the memory traffic of a scan and its states, and need three launches. In the cost model of
    docs/gpu.md they win where T latency / GROUP exceeds that, which is below N H = 5,500 on an A100 and 10,600 on an H100 and
    above some 1,000 steps. The rule stays on the safe side of both. It is a prediction: nothing of it was measured.
    """
    if _form not in FORMS:
        raise one_of("form of the Triton kernels ($SRNN_TRITON_FORM)", _form, FORMS)
    if _form != "auto":
        return _form
    return "time" if N * H < processors * LANES_PER_PROCESSOR and T >= FEW_STEPS else "lanes"


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
    """Collects (kernel, arguments by name, options) of all launches, and launches nothing."""
    global _launches
    before, _launches = _launches, []
    try:
        yield _launches
    finally:
        _launches = before


def _launch(kernel: Any, programs: int, *args: Any, **constants: Any) -> None:
    if not programs:
        return
    if _launches is not None:
        names = [name for name in kernel.arg_names if name not in constants]
        _launches.append((kernel, dict(zip(names, args, strict=True)) | constants, {"num_warps": WARPS}))
        return
    device = next(each.device for each in args if isinstance(each, Tensor))
    with torch.cuda.device(device if device.type == "cuda" else -1):
        kernel[(programs,)](*args, **constants, num_warps=WARPS)


@cache
def _processors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1


def _cdiv(a: int, b: int) -> int:
    return -(-a // b)


def _wide(dtype: torch.dtype) -> Any:
    """The type that a kernel computes in."""
    return kernels.tl.float64 if dtype == torch.float64 else kernels.tl.float32


def _units(x: Tensor) -> Tensor:
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
    """The checks of values of `pytorch.check_values` without waiting for the device: an error ends its work, later."""
    T = b.shape[1] if ids is None else ids.shape[1]
    if ids is not None and ids.numel():
        torch._assert_async(((ids >= 0) & (ids.long() < len(b))).all(), "ids (symbols) must be rows of the table (alphabet)")
    if lengths is not None and lengths.numel():
        torch._assert_async(((lengths >= 0) & (lengths <= T)).all(), "lengths must be between 0 and T")


# ---- a walk along all rows


@dataclass
class _Rows:
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
        return _cdiv(self.N * self.H, BLOCK)

    def chunks(self, count: int, bounded: bool) -> tuple[int, int]:
        """The length of a chunk of time and their number; a multiple of 32, because a word of bits has one writer."""
        processors = _processors(self.device)
        if not bounded or form_of(self.N, self.T, self.H, processors) == "lanes":
            return max(count, 1), 1
        wanted = max(1, 8 * LANES_PER_PROCESSOR * processors // max(self.N * self.H, 1))  # lanes in all, for full bandwidth
        steps = max(32 * _cdiv(_cdiv(count, wanted), 32), 64)
        return steps, max(_cdiv(count, steps), 1)

    def times(self, first: int, count: int) -> Tensor:
        """When the steps from `first` on happen [N, count]; after a row's end, the step itself, so that no time is left out."""
        s = torch.arange(first, first + count, device=self.device).expand(self.N, -1)
        if not self.reverse:
            return s
        if self.lengths is None:
            return self.T - 1 - s
        ends = self.lengths[:, None].long()
        return torch.where(s < ends, ends - 1 - s, s)


def _rows(
    b: Tensor, ids: Maybe, permutation: Maybe, lengths: Maybe, reset: Maybe, reverse: bool, H: int | None = None
) -> _Rows:
    if b.device.type == "cpu":
        pytorch.check_values(b, ids, None, lengths)
    else:
        check_later(b, ids, lengths)
    N, T = b.shape[:2] if ids is None else ids.shape
    return _Rows(
        N,
        T,
        b.shape[-1] if H is None else H,
        None if ids is None else ids.contiguous(),
        None if permutation is None else orbits_of(permutation),
        None if lengths is None else lengths.to(torch.int32).contiguous(),
        None if reset is None else reset.contiguous().view(torch.uint8),
        reverse,
        pytorch.wide_type(b),
        b.device,
    )


def _scan(
    rows: _Rows,
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
    N, T, H, wide = rows.N, rows.T, rows.H, _wide(rows.dtype)
    bounded = sigma in ACTIVATIONS and ACTIVATIONS[sigma].bounds is not None
    steps, chunks = rows.chunks(count, bounded)
    by_step = window is not None
    strides = (0, 0) if rows.ids is not None else b.stride()[:2]
    walk = (rows.reset, rows.lengths, rows.orbits)
    group = FEW if gate is not None or rows.reset is not None or sigma == "states" else GROUP
    how: dict[str, Any] = {"BY_STEP": by_step, "REVERSE": rows.reverse, "WIDE": wide, "GROUP": group, "BLOCK": BLOCK}
    sizes = (N, T, H, first, count, steps, chunks, *strides)
    found = zero
    if chunks > 1:
        maps, carried = rows.empty(3, N, chunks, H), rows.empty(N, chunks, H)
        _launch(kernels.summarize, rows.blocks() * chunks, b, gate, rows.ids, *walk, maps, *sizes, SIGMA=sigma, **how)
        _launch(kernels.carry, rows.blocks(), maps, start, carried, N, H, chunks, WIDE=wide, GROUP=FEW, BLOCK=BLOCK)
        start = carried
        found = None if zero is None else rows.empty(N, chunks, H, dtype=torch.int32)
    pointers = (b, gate, rows.ids, kept, *walk, start, zero_start, output, bits, h_n, found)
    last = first + count == T
    _launch(kernels.scan, rows.blocks() * chunks, *pointers, *sizes, SIGMA=sigma, LAST=last, **how)
    if zero is not None and found is not zero and found is not None:
        torch.amax(found, 1, out=zero)


def _backward(
    rows: _Rows,
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
    N, T, H, wide = rows.N, rows.T, rows.H, _wide(rows.dtype)
    kind = _kind(kept)
    if kind == "zeros":
        steps, chunks = FREE_STEPS, max(_cdiv(count, FREE_STEPS), 1)
    else:
        steps, chunks = rows.chunks(count, kind == "bits")
    strides = (0, 0) if grad is None else grad.stride()[:2]
    walk = (rows.reset, rows.lengths, rows.orbits)
    group = FEW if gate is not None or rows.reset is not None or kind == "states" else GROUP
    how: dict[str, Any] = {"REVERSE": rows.reverse, "WIDE": wide, "GROUP": group, "BLOCK": BLOCK}
    sizes = (N, T, H, first, count, steps, chunks, *strides)
    if chunks > 1 and kind == "bits":
        maps, carried = rows.empty(2, N, chunks, H), rows.empty(N, chunks, H)
        _launch(kernels.summarize_backward, rows.blocks() * chunks, grad, kept, *walk, maps, *sizes, **how)
        rest = {"WIDE": wide, "GROUP": FEW, "BLOCK": BLOCK}
        pointers = (maps, grad_n, rows.lengths, rows.orbits, start, carried)
        _launch(kernels.carry_backward, rows.blocks(), *pointers, N, T, H, chunks, **rest)
        start = carried
    targets = db.stride()[:2] if db.dim() == 3 else (0, 0)
    pointers = (grad, grad_n, kept, gate, *walk, start, db, dh0)
    by_step = window is not None
    _launch(kernels.backward, rows.blocks() * chunks, *pointers, *sizes, *targets, KEPT=kind, BY_STEP=by_step, **how)


def _kind(kept: Tensor) -> str:
    """What `kept` holds, as the kernels call it."""
    return "zeros" if is_last_zero(kept) else "states" if kept.is_floating_point() else "bits"


def _bits(rows: _Rows, activation: str) -> Tensor:
    """Memory for the bits, empty for a smooth activation; the words that no step belongs to are 0."""
    if ACTIVATIONS[activation].bounds is None:
        return torch.empty(0, dtype=torch.uint8, device=rows.device)
    return torch.zeros(rows.N, words_of(rows.T), rows.H, dtype=torch.int32, device=rows.device)


# ---- the operators


def shuffle_scan(
    b: Tensor, h0: Tensor, ids: Maybe, permutation: Maybe, lengths: Maybe, reset: Maybe, reverse: bool, activation: str
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns all states, the last states, and the bits for the derivative (empty for a smooth activation)."""
    rows = _rows(b, ids, permutation, lengths, reset, reverse)
    output, h_n = rows.empty(rows.N, rows.T, rows.H, dtype=b.dtype), rows.empty(rows.N, rows.H, dtype=b.dtype)
    bits = _bits(rows, activation)
    _scan(rows, _units(b), activation, h0.contiguous(), h_n, output=output, bits=bits if bits.dim() == 3 else None)
    return output, h_n, bits


def shuffle_scan_final(
    b: Tensor, h0: Tensor, ids: Maybe, permutation: Maybe, lengths: Maybe, reset: Maybe, reverse: bool, activation: str
) -> tuple[Tensor, Tensor]:
    """Returns the last states, and the last step at which each unit's derivative was 0."""
    rows = _rows(b, ids, permutation, lengths, reset, reverse)
    h_n, zero = rows.empty(rows.N, rows.H, dtype=b.dtype), rows.empty(rows.N, rows.H, dtype=torch.int32)
    _scan(rows, _units(b), activation, h0.contiguous(), h_n, zero=zero)
    return h_n, zero


def shuffle_scan_backward(
    grad: Maybe,
    grad_n: Tensor,
    kept: Tensor,
    like: Tensor,
    ids: Maybe,
    permutation: Maybe,
    lengths: Maybe,
    reset: Maybe,
    reverse: bool,
) -> tuple[Tensor, Tensor]:
    """Returns the gradients by b and h0."""
    rows = _rows(like, ids, permutation, lengths, reset, reverse)
    _check_kept(rows, kept)
    grad, grad_n, kept = None if grad is None else _units(grad), grad_n.contiguous(), kept.contiguous()
    dh0 = rows.empty(rows.N, rows.H, dtype=grad_n.dtype)
    if ids is None:
        db = rows.empty(*like.shape, dtype=like.dtype)
        _backward(rows, grad, grad_n, kept, db, dh0)
        return db, dh0
    if is_last_zero(kept):
        _backward(rows, None, grad_n, kept, dh0, dh0, window=(0, 0))  # no step: only what reaches h0
        return _table_gradient(rows, like, None, grad_n, kept), dh0
    d = rows.empty(rows.N, rows.T, rows.H)
    _backward(rows, grad, grad_n, kept, d, dh0)
    return _table_gradient(rows, like, d, grad_n, kept), dh0


def _table_gradient(rows: _Rows, like: Tensor, d: Maybe, grad_n: Tensor, kept: Tensor) -> Tensor:
    """The gradient of a table from d, or from grad_n and the last zeros in `kept`, in the same order every time.

    The tokens are sorted by symbol. Programs add up to PIECE of them, and others add the pieces of each symbol, in order.
    """
    V, H = like.shape
    assert rows.ids is not None
    ids, wide = rows.ids.long(), _wide(rows.dtype)
    if rows.lengths is not None:  # what is behind a row's end is of no symbol
        ids = torch.where(torch.arange(rows.T, device=rows.device) < rows.lengths[:, None], ids, V)
    symbols, tokens = torch.sort(ids.flatten(), stable=True)
    starts = torch.searchsorted(symbols, torch.arange(V + 1, device=rows.device))
    offsets = F.pad(((starts.diff() + PIECE - 1) // PIECE).cumsum(0), (1, 0))
    count = len(tokens) // PIECE + V  # at least as many as there are pieces; the rest are empty
    pieces = torch.arange(count, device=rows.device)
    symbol = (torch.searchsorted(offsets, pieces, right=True) - 1).clamp(max=max(V - 1, 0))
    begins = starts[symbol] + (pieces - offsets[symbol]) * PIECE
    finishes = torch.minimum(begins + PIECE, starts[symbol + 1]).maximum(begins)
    sums, table = rows.empty(count, H), rows.empty(V, H, dtype=like.dtype)
    blocks, walk = _cdiv(H, BLOCK), (rows.lengths, rows.orbits)
    pointers = (tokens, begins, finishes, d, grad_n, kept if d is None else None, *walk, sums)
    how: dict[str, Any] = {"WIDE": wide, "BLOCK": BLOCK}
    sizes = (rows.N, rows.T, H, count)
    _launch(kernels.table_pieces, count * blocks, *pointers, *sizes, REVERSE=rows.reverse, GROUP=FEW, **how)
    _launch(kernels.table_sum, V * blocks, sums, offsets, table, H, **how)
    return table


def shuffle_scan_tangent(
    v: Tensor, v0: Tensor, kept: Tensor, ids: Maybe, permutation: Maybe, lengths: Maybe, reset: Maybe, reverse: bool
) -> tuple[Tensor, Tensor]:
    """Returns the derivatives of all states and of the last states: s_t = sigma'_t (P s_{t-1} + v_t), from s_0 = v0."""
    rows = _rows(v, ids, permutation, lengths, reset, reverse)
    _check_kept(rows, kept)
    kind = _kind(kept)
    states = rows.empty(*((0,) if kind == "zeros" else (rows.N, rows.T, rows.H)), dtype=v.dtype)
    s_n = rows.empty(rows.N, rows.H, dtype=v.dtype)
    output = None if kind == "zeros" else states
    _scan(rows, _units(v), kind, v0.contiguous(), s_n, kept=kept.contiguous(), output=output)
    return states, s_n


def _check_kept(rows: _Rows, kept: Tensor) -> None:
    """Last zeros are only compared with steps, so on a GPU wrong ones are not worth waiting for."""
    if is_last_zero(kept) and rows.device.type == "cpu":
        ends = torch.full((rows.N,), rows.T) if rows.lengths is None else rows.lengths.long()
        pytorch.check_last_zeros(kept, ends[:, None], None if rows.reset is None else rows.reset.bool(), rows.reverse)


# ---- gated scans: two matrix products for a window of time, then the scan, which applies the gate when it loads them


def _windows(rows: _Rows) -> list[tuple[int, int]]:
    """First step and number of steps of windows whose products take at most WINDOW_BYTES each, but of 32 steps or more."""
    step = rows.N * rows.H * rows.dtype.itemsize
    steps = max(WINDOW_BYTES // max(step, 1) // 32 * 32, 32)
    return [(first, min(steps, rows.T - first)) for first in range(0, rows.T, steps)]


def _inputs(rows: _Rows, x: Tensor, window: tuple[int, int]) -> Tensor:
    """The inputs of a window of steps, in the order of the steps and the type to compute in."""
    first, count = window
    if not rows.reverse:
        return x[:, first : first + count].to(rows.dtype)
    sequence = torch.arange(rows.N, device=x.device)[:, None]
    return x[sequence, rows.times(first, count)].to(rows.dtype)


def _linear(rows: _Rows, x: Tensor, weight: Maybe, bias: Maybe) -> Maybe:
    if weight is None:
        return None
    with pytorch.dtype_as_given(x):
        return F.linear(x, weight.to(rows.dtype), None if bias is None else bias.to(rows.dtype)).contiguous()


def _gated(
    z: Tensor,
    weight: Tensor,
    bias: Maybe,
    x: Tensor,
    gate_weight: Maybe,
    gate_bias: Maybe,
    h0: Tensor,
    permutation: Maybe,
    lengths: Maybe,
    reset: Maybe,
    reverse: bool,
    activation: str,
    final: bool,
) -> tuple[Tensor, Tensor, Maybe, Maybe]:
    """Returns the last states, and the last zeros, or all states and bits."""
    rows = _rows(z, None, permutation, lengths, reset, reverse, H=len(weight))
    N, T, H = rows.N, rows.T, rows.H
    h_n, h = rows.empty(N, H, dtype=z.dtype), rows.empty(N, H)
    output, bits, zero, zeros = None, None, None, None
    if final:
        zero, zeros = rows.empty(N, H, dtype=torch.int32), rows.empty(N, H, dtype=torch.int32)
    else:
        output, bits = rows.empty(N, T, H, dtype=z.dtype), _bits(rows, activation)
    if not T:
        h_n.copy_(h0)
        if zero is not None:
            zero.zero_()
    start = h0.contiguous()
    for window in _windows(rows):
        f = _linear(rows, _inputs(rows, z, window), weight, bias)
        assert f is not None
        _scan(
            rows,
            f,
            activation,
            start,
            h_n if sum(window) == T else h,
            gate=None if gate_weight is None else _linear(rows, _inputs(rows, x, window), gate_weight, gate_bias),
            output=output,
            bits=bits if bits is not None and bits.dim() == 3 else None,
            zero=zero if sum(window) == T else zeros,
            zero_start=zeros if window[0] else None,
            window=window,
        )
        start = h
    return h_n, output if zero is None else zero, bits


def gated_scan(*args: Any) -> tuple[Tensor, ...]:
    """Returns what `shuffle_scan` returns for b = (z W^T + c) * sigmoid(x U^T + e)."""
    h_n, output, bits = _gated(*args, final=False)
    return output, h_n, bits


def gated_scan_final(*args: Any) -> tuple[Tensor, ...]:
    """Returns what `shuffle_scan_final` returns for this b."""
    h_n, zero, _ = _gated(*args, final=True)
    return h_n, zero


def gated_scan_backward(
    grad: Maybe,
    grad_n: Tensor,
    kept: Tensor,
    z: Tensor,
    weight: Tensor,
    bias: Maybe,
    x: Tensor,
    gate_weight: Maybe,
    gate_bias: Maybe,
    permutation: Maybe,
    lengths: Maybe,
    reset: Maybe,
    reverse: bool,
    needs: Sequence[int],
) -> tuple[Tensor, ...]:
    """Returns the gradients by all inputs and h0. The products are computed again, one window after the other."""
    rows = _rows(z, None, permutation, lengths, reset, reverse, H=len(weight))
    _check_kept(rows, kept)
    grad, grad_n, kept = None if grad is None else _units(grad), grad_n.contiguous(), kept.contiguous()
    dh0, v = rows.empty(rows.N, rows.H, dtype=grad_n.dtype), rows.empty(rows.N, rows.H)
    f_map = _MapGradient(rows, z, weight, bias, bool(needs[0]), bool(needs[1]))
    e_map = None if gate_weight is None else _MapGradient(rows, x, gate_weight, gate_bias, bool(needs[2]), bool(needs[3]))
    if not rows.T:
        dh0.copy_(grad_n)
    start = None
    for window in reversed(_windows(rows)):
        z_in, x_in = _inputs(rows, z, window), None if e_map is None else _inputs(rows, x, window)
        if x_in is None:
            f, e = rows.empty(rows.N, window[1], rows.H), None
        else:
            f, e = _linear(rows, z_in, weight, bias), _linear(rows, x_in, gate_weight, gate_bias)
        assert f is not None
        carried = start if _kind(kept) != "zeros" else None
        _backward(rows, grad, grad_n, kept, f, v if window[0] else dh0, gate=e, start=carried, window=window)
        f_map.add(window, f, z_in)
        if e_map is not None and x_in is not None and e is not None:
            e_map.add(window, e, x_in)
        start = v
    nothing = (z.new_empty(0),) * 3
    return *f_map.gradients(), *(nothing if e_map is None else e_map.gradients()), dh0


class _MapGradient:
    """The derivatives of a loss by x, weight and bias of x weight^T + bias, summed over windows of time."""

    def __init__(self, rows: _Rows, x: Tensor, weight: Tensor, bias: Maybe, needs_x: bool, needs_map: bool) -> None:
        self.rows, self.x, self.weight = rows, x, weight.to(rows.dtype)
        self.dx = torch.empty_like(x, memory_format=torch.contiguous_format) if needs_x else None
        self.dweight = torch.zeros_like(self.weight) if needs_map else None
        self.dbias = rows.empty(rows.H).zero_() if needs_map and bias is not None else None

    def add(self, window: tuple[int, int], d: Tensor, x: Tensor) -> None:
        """Adds what the steps of a window give: d [N, L, H] is the derivative by the product, x [N, L, C] its input."""
        with pytorch.dtype_as_given(x):
            if self.dx is not None:
                sequence = torch.arange(self.rows.N, device=x.device)[:, None]
                self.dx[sequence, self.rows.times(*window)] = (d @ self.weight).to(self.dx.dtype)
            if self.dweight is not None:
                self.dweight.addmm_(d.flatten(0, 1).T, x.flatten(0, 1))
            if self.dbias is not None:
                self.dbias += d.sum((0, 1))

    def gradients(self) -> list[Tensor]:
        """The gradients in the type of the input, empty where none is wanted."""
        found = (self.dx, self.dweight, self.dbias)
        return [self.x.new_empty(0) if each is None else each.to(self.x.dtype) for each in found]


# ---- one step


def cell(x: Tensor, h: Tensor, maps: Sequence[Tensor], permutation: Maybe, gate: bool, bias: bool, activation: str) -> Tensor:
    """Returns h' = sigma(P h + f_r(x) * sigmoid(W_s x + b_s)): the products, then a scan of one step."""
    with pytorch.dtype_as_given(x):
        f, e = (None if t is None else t.reshape(-1, 1, h.shape[-1]) for t in pytorch.cell_factors(x, maps, gate, bias))
    assert f is not None
    rows = _rows(f, None, permutation, None, None, False)
    out = rows.empty(*h.shape)
    _scan(rows, f, activation, h.reshape(rows.N, rows.H), out, gate=e, window=(0, 1))
    return out


def cell_backward(
    grad: Tensor,
    x: Tensor,
    out: Tensor,
    maps: Sequence[Tensor],
    permutation: Maybe,
    gate: bool,
    bias: bool,
    activation: str,
    needs: Sequence[int],
) -> list[Tensor]:
    """Returns the gradients by x, h and all maps, empty where not wanted. The products are computed again."""
    sigma = ACTIVATIONS[activation]
    d = grad * tanh_slope(out) if sigma.bounds is None else grad.masked_fill(sigma.is_flat(out), 0)
    dh = d.roll(1, dims=-1) if permutation is None else torch.empty_like(d).index_copy_(-1, permutation.long(), d)
    inputs = [t.detach().requires_grad_(bool(want)) for t, want in zip((x, *maps), (needs[0], *needs[2:]), strict=True)]
    targets = [t for t in inputs if t.requires_grad]
    with torch.enable_grad(), pytorch.dtype_as_given(x):
        f, e = pytorch.cell_factors(inputs[0], inputs[1:], gate, bias)
        b = f if e is None else f * e.sigmoid()
        each = iter(torch.autograd.grad(b, targets, d.reshape(b.shape)) if targets else ())
    found = [next(each) if t.requires_grad else x.new_empty(0) for t in inputs]
    return [found[0], dh if needs[1] else x.new_empty(0), *found[1:]]
