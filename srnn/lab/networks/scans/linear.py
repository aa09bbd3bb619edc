"""linear_scan: h_t = sigma(a_t h_{t-1} + b_t), where no unit sees another. csrc/linear_scan.cpp is the compiled loop for a CPU.

    kind "identity", "relu"     real; a [H], the same at every step, or [N, T, H]
    kind "complex"              sigma is the identity, a [2 H]; all tensors hold real parts, then imaginary parts

The plain code is a scan in log2(T) passes: two maps h -> max(c, a h + b) compose to (a' a, a' b + b', max(c', a' c + b')) for
a' >= 0, with c = 0 for ReLU and no c for the identity. Only ReLU with a negative a goes step by step.
"""

from typing import Any

import torch
from torch import Tensor

from srnn.errors import ShapeError, one_of
from srnn.kernels.arguments import WIDE_FLOATS, below_limit, fits, has_dtype, has_rank
from srnn.lab.networks.scans import define, derive, operators

KINDS = ("identity", "relu", "complex")


def linear_scan(b: Tensor, a: Tensor, h0: Tensor, kind: str = "identity") -> Tensor:
    """Returns all states [N, T, H] for b [N, T, H] and h0 [N, H]."""
    return operators().linear_scan(b, a, h0, kind)


def halves(z: Tensor) -> Tensor:
    """Returns H complex numbers as 2 H real ones: real parts, then imaginary parts."""
    return torch.cat([z.real, z.imag], dim=-1)


def _forward(b: Tensor, a: Tensor, h0: Tensor, kind: str) -> Tensor:
    a = a.expand_as(b)
    if b.shape[1] == 0:
        return b.clone(memory_format=torch.contiguous_format)
    if (kind == "relu" and bool((a < 0).any())) or _may_overflow(a, kind):
        return _step_by_step(b, a, h0, kind)
    first = _times(a[:, :1], h0[:, None], kind) + b[:, :1]
    return _doubling(torch.cat([first.relu() if kind == "relu" else first, b[:, 1:]], dim=1), a, kind)


def _may_overflow(a: Tensor, kind: str) -> bool:
    """Whether powers of a grow: infinity times a state of zero would be NaN."""
    size = torch.hypot(*a.chunk(2, dim=-1)) if kind == "complex" else a.abs()
    return bool((size > 1).any())


def _step_by_step(b: Tensor, a: Tensor, h: Tensor, kind: str) -> Tensor:
    states = torch.empty_like(b, memory_format=torch.contiguous_format)
    for t in range(b.shape[1]):
        h = _times(a[:, t], h, kind) + b[:, t]
        h = states[:, t] = h.relu() if kind == "relu" else h
    return states


def _doubling(b: Tensor, a: Tensor, kind: str) -> Tensor:
    """States from b whose first step already contains h0: log2(T) passes, each over twice as many steps."""
    floor, stride = torch.zeros_like(b) if kind == "relu" else None, 1
    while stride < b.shape[1]:
        late, early = a[:, stride:], slice(None, -stride)
        new_b = _times(late, b[:, early], kind) + b[:, stride:]
        if floor is not None:
            reached = torch.maximum(floor[:, stride:], late * floor[:, early] + b[:, stride:])
            floor = torch.cat([floor[:, :stride], reached], dim=1)
        a = torch.cat([a[:, :stride], _times(late, a[:, early], kind)], dim=1)
        b = torch.cat([b[:, :stride], new_b], dim=1)
        stride *= 2
    return b if floor is None else torch.maximum(b, floor)


def _backward(grad: Tensor, states: Tensor, a: Tensor, h0: Tensor, kind: str) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients by b, a and h0. For an a [H] of all steps the gradient is [N, H], still to be summed over sequences."""
    each, before = a.expand_as(grad), torch.cat([h0[:, None], states[:, :-1]], dim=1)[:, : grad.shape[1]]
    slope = (states != 0).to(grad.dtype) if kind == "relu" else torch.ones_like(grad)
    # d_t = slope_t (g_t + conj(a_{t+1}) d_{t+1}), backwards in time.
    after = torch.cat([_conjugate(each[:, 1:], kind), torch.zeros_like(each[:, :1])], dim=1)
    linear = "complex" if kind == "complex" else "identity"
    late, by = (slope * grad).flip(1), (slope * after).flip(1)
    if _may_overflow(by, linear):
        d = _step_by_step(late, by, torch.zeros_like(h0), linear).flip(1)
    else:
        d = _doubling(late, by, linear).flip(1)
    da = _times(_conjugate(before, kind), d, kind)
    dh0 = _times(_conjugate(each[:, 0], kind), d[:, 0], kind) if grad.shape[1] else torch.zeros_like(h0)
    return d, da if a.dim() == 3 else da.sum(dim=1), dh0


def _times(a: Tensor, b: Tensor, kind: str) -> Tensor:
    if kind != "complex":
        return a * b
    (p, q), (x, y) = a.chunk(2, dim=-1), b.chunk(2, dim=-1)
    return torch.cat([p * x - q * y, p * y + q * x], dim=-1)


def _conjugate(a: Tensor, kind: str) -> Tensor:
    return torch.cat([a.chunk(2, dim=-1)[0], -a.chunk(2, dim=-1)[1]], dim=-1) if kind == "complex" else a


def _check(b: Tensor, a: Tensor, h0: Tensor, kind: str, name: str = "b") -> None:
    """Raises for arguments that do not fit; csrc/linear_scan.cpp checks the same."""
    if kind not in KINDS:
        raise one_of("kind", kind, KINDS)
    has_rank(name, b, "[N, T, K]", 3)
    has_dtype(name, b, WIDE_FLOATS)
    N, T, K = b.shape
    below_limit(name, T=T, K=K)
    if kind == "complex" and K % 2:
        raise ShapeError(f"{name} must have an even K, real and imaginary parts, got K = {K}")
    steps = a.dim() == 3 and kind != "complex"
    fits("a", a, "[N, T, K]" if steps else "[K]", (N, T, K) if steps else (K,), (b.dtype,), b)
    fits("h0", h0, "[N, K]", (N, K), (b.dtype,), b)


def _check_backward(grad: Tensor, states: Tensor, a: Tensor, h0: Tensor, kind: str) -> None:
    _check(grad, a, h0, kind, "grad")
    fits("states", states, "[N, T, K]", tuple(grad.shape), (grad.dtype,), grad)


def _fake(b: Tensor, a: Tensor, h0: Tensor, kind: str) -> Tensor:
    return b.new_empty(b.shape)


def _fake_backward(grad: Tensor, states: Tensor, a: Tensor, h0: Tensor, kind: str) -> tuple[Tensor, Tensor, Tensor]:
    return grad.new_empty(grad.shape), a.new_empty((a if a.dim() == 3 else h0).shape), h0.new_empty(h0.shape)


define("linear_scan(Tensor b, Tensor a, Tensor h0, str kind) -> Tensor", _check, _forward, _fake)
define(
    "linear_scan_backward(Tensor grad, Tensor states, Tensor a, Tensor h0, str kind) -> (Tensor, Tensor, Tensor)",
    _check_backward,
    _backward,
    _fake_backward,
)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    _, a, h0, ctx.kind = inputs
    ctx.save_for_backward(output, a, h0)


def _derivative(operator: Any, ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    states, a, h0 = ctx.saved_tensors
    db, da, dh0 = operator(grad, states, a, h0, ctx.kind)
    return db, da if a.dim() == 3 else da.sum(dim=0), dh0, None


derive("linear_scan", _derivative, _keep)
