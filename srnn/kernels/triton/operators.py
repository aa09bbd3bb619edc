"""The operators of ops.py on a GPU: what they allocate, and what they launch. `arguments` has checked the arguments before."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from srnn.kernels import pytorch
from srnn.kernels.activations import ACTIVATIONS, tanh_slope
from srnn.kernels.arguments import is_last_zero, words_of
from srnn.kernels.triton import kernels
from srnn.kernels.triton.launch import BLOCK, SMALL_GROUP, Rows, backward, cdiv, kind_of, launch, rows_of, scan, units, wide_of

Maybe = Tensor | None

PIECE = 256  # tokens that one program of the table's gradient adds
WINDOW_BYTES = 64 * 2**20  # of each product of a gated scan


def shuffle_scan(
    b: Tensor, h0: Tensor, ids: Maybe, permutation: Maybe, lengths: Maybe, reset: Maybe, reverse: bool, activation: str
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns all states, the last states, and the bits for the derivative (empty for a smooth activation)."""
    rows = rows_of(b, ids, permutation, lengths, reset, reverse)
    output, h_n = rows.empty(rows.N, rows.T, rows.H, dtype=b.dtype), rows.empty(rows.N, rows.H, dtype=b.dtype)
    bits = _bits(rows, activation)
    scan(rows, units(b), activation, h0.contiguous(), h_n, output=output, bits=bits if bits.dim() == 3 else None)
    return output, h_n, bits


def shuffle_scan_final(
    b: Tensor, h0: Tensor, ids: Maybe, permutation: Maybe, lengths: Maybe, reset: Maybe, reverse: bool, activation: str
) -> tuple[Tensor, Tensor]:
    """Returns the last states, and the last step at which each unit's derivative was 0."""
    rows = rows_of(b, ids, permutation, lengths, reset, reverse)
    h_n, zero = rows.empty(rows.N, rows.H, dtype=b.dtype), rows.empty(rows.N, rows.H, dtype=torch.int32)
    scan(rows, units(b), activation, h0.contiguous(), h_n, zero=zero)
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
    rows = rows_of(like, ids, permutation, lengths, reset, reverse)
    _check_kept(rows, kept)
    grad, grad_n, kept = None if grad is None else units(grad), grad_n.contiguous(), kept.contiguous()
    dh0 = rows.empty(rows.N, rows.H, dtype=grad_n.dtype)
    if ids is None:
        db = rows.empty(*like.shape, dtype=like.dtype)
        backward(rows, grad, grad_n, kept, db, dh0)
        return db, dh0
    if is_last_zero(kept):
        backward(rows, None, grad_n, kept, dh0, dh0, window=(0, 0))  # no step: only what reaches h0
        return _table_gradient(rows, like, None, grad_n, kept), dh0
    d = rows.empty(rows.N, rows.T, rows.H)
    backward(rows, grad, grad_n, kept, d, dh0)
    return _table_gradient(rows, like, d, grad_n, kept), dh0


def _table_gradient(rows: Rows, like: Tensor, d: Maybe, grad_n: Tensor, kept: Tensor) -> Tensor:
    """The gradient of a table from d, or from grad_n and the last zeros in `kept`, in the same order every time.

    The tokens are sorted by symbol. Programs add up to PIECE of them, and others add the pieces of each symbol, in order.
    """
    V, H = like.shape
    assert rows.ids is not None
    ids, wide = rows.ids.long(), wide_of(rows.dtype)
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
    blocks, walk = cdiv(H, BLOCK), (rows.lengths, rows.orbits)
    pointers = (tokens, begins, finishes, d, grad_n, kept if d is None else None, *walk, sums)
    how: dict[str, Any] = {"WIDE": wide, "BLOCK": BLOCK}
    sizes = (rows.N, rows.T, H, count)
    launch(kernels.table_pieces, count * blocks, *pointers, *sizes, REVERSE=rows.reverse, GROUP=SMALL_GROUP, **how)
    launch(kernels.table_sum, V * blocks, sums, offsets, table, H, **how)
    return table


def shuffle_scan_tangent(
    v: Tensor, v0: Tensor, kept: Tensor, ids: Maybe, permutation: Maybe, lengths: Maybe, reset: Maybe, reverse: bool
) -> tuple[Tensor, Tensor]:
    """Returns the derivatives of all states and of the last states: s_t = sigma'_t (P s_{t-1} + v_t), from s_0 = v0."""
    rows = rows_of(v, ids, permutation, lengths, reset, reverse)
    _check_kept(rows, kept)
    kind = kind_of(kept)
    states = rows.empty(*((0,) if kind == "zeros" else (rows.N, rows.T, rows.H)), dtype=v.dtype)
    s_n = rows.empty(rows.N, rows.H, dtype=v.dtype)
    output = None if kind == "zeros" else states
    scan(rows, units(v), kind, v0.contiguous(), s_n, kept=kept.contiguous(), output=output)
    return states, s_n


def _check_kept(rows: Rows, kept: Tensor) -> None:
    """Last zeros are only compared with steps, so on a GPU wrong ones are not worth waiting for."""
    if is_last_zero(kept) and rows.device.type == "cpu":
        ends = torch.full((rows.N,), rows.T) if rows.lengths is None else rows.lengths.long()
        pytorch.check_last_zeros(kept, ends[:, None], None if rows.reset is None else rows.reset.bool(), rows.reverse)


def _bits(rows: Rows, activation: str) -> Tensor:
    """Memory for the bits, empty for a smooth activation; the words that no step belongs to are 0."""
    if ACTIVATIONS[activation].bounds is None:
        return torch.empty(0, dtype=torch.uint8, device=rows.device)
    return torch.zeros(rows.N, words_of(rows.T), rows.H, dtype=torch.int32, device=rows.device)


# ---- gated scans: two matrix products for a window of time, then the scan, which applies the gate when it loads them


def _windows(rows: Rows) -> list[tuple[int, int]]:
    """First step and number of steps of windows whose products take at most WINDOW_BYTES each, but of 32 steps or more."""
    step = rows.N * rows.H * rows.dtype.itemsize
    steps = max(WINDOW_BYTES // max(step, 1) // 32 * 32, 32)
    return [(first, min(steps, rows.T - first)) for first in range(0, rows.T, steps)]


def _inputs(rows: Rows, x: Tensor, window: tuple[int, int]) -> Tensor:
    """The inputs of a window of steps, in the order of the steps and the type to compute in."""
    first, count = window
    if not rows.reverse:
        return x[:, first : first + count].to(rows.dtype)
    sequence = torch.arange(rows.N, device=x.device)[:, None]
    return x[sequence, rows.times(first, count)].to(rows.dtype)


def _linear(rows: Rows, x: Tensor, weight: Maybe, bias: Maybe) -> Maybe:
    if weight is None:
        return None
    with pytorch.dtype_as_given(x):
        return F.linear(x, weight.to(rows.dtype), None if bias is None else bias.to(rows.dtype)).contiguous()


def _gated(
    final: bool,
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
) -> tuple[Tensor, ...]:
    """Returns the last states and last zeros, or all states, the last ones and bits."""
    rows = rows_of(z, None, permutation, lengths, reset, reverse, H=len(weight))
    N, T, H = rows.N, rows.T, rows.H
    h_n, h = rows.empty(N, H, dtype=z.dtype), rows.empty(N, H)
    output: Any = None
    bits: Any = None
    zero, zeros = None, None
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
        scan(
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
    return (output, h_n, bits) if zero is None else (h_n, zero)


def gated_scan(*args: Any) -> tuple[Tensor, ...]:
    """Returns what `shuffle_scan` returns for b = (z W^T + c) * sigmoid(x U^T + e)."""
    return _gated(False, *args)


def gated_scan_final(*args: Any) -> tuple[Tensor, ...]:
    """Returns what `shuffle_scan_final` returns for this b."""
    return _gated(True, *args)


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
    rows = rows_of(z, None, permutation, lengths, reset, reverse, H=len(weight))
    _check_kept(rows, kept)
    grad, grad_n, kept = None if grad is None else units(grad), grad_n.contiguous(), kept.contiguous()
    dh0, v = rows.empty(rows.N, rows.H, dtype=grad_n.dtype), rows.empty(rows.N, rows.H)
    f_map = _MapGradient(rows, z, weight, bias, bool(needs[0]), bool(needs[1]))
    e_map = None if gate_weight is None else _MapGradient(rows, x, gate_weight, gate_bias, bool(needs[2]), bool(needs[3]))
    if not rows.T:
        dh0.copy_(grad_n)
    start = None
    f: Maybe
    for window in reversed(_windows(rows)):
        z_in, x_in = _inputs(rows, z, window), None if e_map is None else _inputs(rows, x, window)
        if x_in is None:
            f, e = rows.empty(rows.N, window[1], rows.H), None
        else:
            f, e = _linear(rows, z_in, weight, bias), _linear(rows, x_in, gate_weight, gate_bias)
        assert f is not None
        carried = start if kind_of(kept) != "zeros" else None
        backward(rows, grad, grad_n, kept, f, v if window[0] else dh0, gate=e, start=carried, window=window)
        f_map.add(window, f, z_in)
        if e_map is not None and x_in is not None and e is not None:
            e_map.add(window, e, x_in)
        start = v
    nothing = [z.new_empty(0) for _ in range(3)]
    return *f_map.gradients(), *(nothing if e_map is None else e_map.gradients()), dh0


class _MapGradient:
    """The derivatives of a loss by x, weight and bias of x weight^T + bias, summed over windows of time."""

    def __init__(self, rows: Rows, x: Tensor, weight: Tensor, bias: Maybe, needs_x: bool, needs_map: bool) -> None:
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
    rows = rows_of(f, None, permutation, None, None, False)
    out = rows.empty(*h.shape)
    scan(rows, f, activation, h.reshape(rows.N, rows.H).contiguous(), out, gate=e, window=(0, 1))
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
