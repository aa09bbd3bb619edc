"""linear_scan: h_t = sigma(a_t h_{t-1} + b_t), each unit by itself; with a compiled loop for the CPU (csrc/linear_scan.cpp)."""

from typing import Any

import torch
from torch import Tensor


def linear_scan(b: Tensor, a: Tensor, h0: Tensor, activation: str = "identity") -> Tensor:
    """All states [N, T, H] for b [N, T, H], h0 [N, H] and a [N, T, H], or [H] for the same at every step.

    activation "identity" or "relu"; where the tensors are complex, a is [H] and sigma the identity.
    """
    if not b.is_complex():
        return torch.ops.srnn.linear_scan(b, a, h0, activation)
    states = torch.ops.srnn.linear_scan(halves(b), halves(a), halves(h0), "complex")
    return torch.complex(*states.chunk(2, dim=-1))


def halves(z: Tensor) -> Tensor:
    """Real parts, then imaginary parts: H complex numbers as 2 H real ones."""
    return torch.cat([z.real, z.imag], dim=-1)


def _fallback(b: Tensor, a: Tensor, h0: Tensor, kind: str) -> Tensor:
    """A plain loop over time, for machines without the compiled one and for other devices."""
    h, states = h0, [b.new_empty(0)] * b.shape[1]
    for t, b_t in enumerate(b.unbind(dim=1)):
        h = _times(a if a.dim() == 1 else a[:, t], h, kind) + b_t
        h = states[t] = h.relu() if kind == "relu" else h
    return torch.stack(states, dim=1) if states else torch.empty_like(b)


def _fallback_backward(grad: Tensor, states: Tensor, a: Tensor, h0: Tensor, kind: str) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients by b, a and h0; that by an a of all steps [H] is left as sums over time, [N, H]."""
    d, carry = torch.empty_like(grad), torch.zeros_like(h0)
    da = torch.empty_like(a) if a.dim() == 3 else torch.zeros_like(h0)
    for t in reversed(range(grad.shape[1])):
        d[:, t] = d_t = (grad[:, t] + carry) * (states[:, t] > 0 if kind == "relu" else 1)
        before = states[:, t - 1] if t else h0
        if a.dim() == 3:
            da[:, t] = d_t * before
        else:
            da += _times(_conjugate(before, kind), d_t, kind)
        carry = _times(_conjugate(a if a.dim() == 1 else a[:, t], kind), d_t, kind)
    return d, da, carry


def _times(a: Tensor, b: Tensor, kind: str) -> Tensor:
    if kind != "complex":
        return a * b
    (p, q), (x, y) = a.chunk(2, dim=-1), b.chunk(2, dim=-1)
    return torch.cat([p * x - q * y, p * y + q * x], dim=-1)


def _conjugate(a: Tensor, kind: str) -> Tensor:
    return torch.cat([a.chunk(2, dim=-1)[0], -a.chunk(2, dim=-1)[1]], dim=-1) if kind == "complex" else a


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    _, a, h0, ctx.kind = inputs
    ctx.save_for_backward(output, a, h0)


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    states, a, h0 = ctx.saved_tensors
    db, da, dh0 = torch.ops.srnn.linear_scan_backward(grad, states, a, h0, ctx.kind)
    return db, da if a.dim() == 3 else da.sum(dim=0), dh0, None


def _fake_backward(grad: Tensor, states: Tensor, a: Tensor, h0: Tensor, kind: str) -> tuple[Tensor, Tensor, Tensor]:
    return torch.empty_like(grad), torch.empty_like(a if a.dim() == 3 else h0), torch.empty_like(h0)


torch.library.define("srnn::linear_scan", "(Tensor b, Tensor a, Tensor h0, str kind) -> Tensor")
torch.library.define(
    "srnn::linear_scan_backward", "(Tensor grad, Tensor states, Tensor a, Tensor h0, str kind) -> (Tensor, Tensor, Tensor)"
)
torch.library.impl("srnn::linear_scan", "CompositeExplicitAutograd", _fallback)
torch.library.impl("srnn::linear_scan_backward", "CompositeExplicitAutograd", _fallback_backward)
torch.library.register_fake("srnn::linear_scan", lambda b, a, h0, kind: torch.empty_like(b))
torch.library.register_fake("srnn::linear_scan_backward", _fake_backward)
torch.library.register_autograd("srnn::linear_scan", _backward, setup_context=_setup)
