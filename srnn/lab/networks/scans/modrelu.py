"""modrelu_scan: h_t = modReLU(x_t + h_{t-1} W; b). csrc/modrelu_scan.cpp has a compiled loop for the CPU.

    real        modReLU(z; b) = sign(z) relu(|z| + b)
    complex     modReLU(z; b) = z relu(|z| + b) / (|z| + 1e-5), which has a derivative at z = 0 too

A complex state of H units is carried as 2 H real numbers: all real parts, then all imaginary parts. So `z V` and `h W` are
products with [Re, Im] and [[Re, Im], [-Im, Re]].
"""

from typing import Any

import torch
from torch import Tensor

from srnn.errors import ShapeError
from srnn.kernels.arguments import WIDE_FLOATS, below_limit, fits, has_dtype, has_rank
from srnn.lab.networks.scans import define, derive, operators

EPSILON = 1e-5  # as in csrc/modrelu_scan.cpp


def modrelu_scan(x: Tensor, W: Tensor, b: Tensor, h0: Tensor) -> Tensor:
    """Returns all states [T, N, K] for x [T, N, K], W [K, K], b [H] and h0 [N, K]; K is H, or 2 H for a complex state."""
    return operators().modrelu_scan(x, W, b, h0)[0]


def modrelu(z: Tensor, b: Tensor) -> Tensor:
    """Returns modReLU of z [..., K] for b [H]."""
    if z.shape[-1] == b.shape[-1]:
        return z.sign() * (z.abs() + b).relu()
    r = _length(z)
    return z * ((r + b).relu() / (r + EPSILON)).repeat(*[1] * (z.dim() - 1), 2)


def _length(z: Tensor) -> Tensor:
    """|z| as a norm, whose derivative at 0 is 0; that of a square root is infinite."""
    return torch.linalg.vector_norm(torch.stack(z.chunk(2, dim=-1)), dim=0)


def _forward(x: Tensor, W: Tensor, b: Tensor, h0: Tensor) -> tuple[Tensor, Tensor]:
    """States, and z if they are complex, by a loop over time: for machines without the library and for other devices."""
    h, states, kept = h0, [x.new_empty(0)] * len(x), [x.new_empty(0)] * len(x)
    for t, x_t in enumerate(x):
        kept[t] = torch.addmm(x_t, h, W)
        h = states[t] = modrelu(kept[t], b)
    if not states:
        return _fake(x, W, b, h0)
    return torch.stack(states), torch.stack(kept) if x.shape[-1] != b.shape[0] else x.new_empty(0)


def _backward(grad: Tensor, kept: Tensor, W: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients by z (and so by x) and by b; `kept` are the states, or z if they are complex."""
    dz, db, d = grad.new_empty(grad.shape), torch.zeros_like(b), grad.new_zeros(grad.shape[1:])
    for t in reversed(range(len(grad))):
        g = grad[t] + d @ W.T
        if kept.shape[-1] == b.shape[0]:
            dz[t] = d = g * (kept[t] != 0)
            db += (d * kept[t].sign()).sum(dim=0)
            continue
        r = _length(kept[t])
        along, m, safe = sum((kept[t] * g).chunk(2, dim=-1)), r + b, r + EPSILON
        slope = torch.where(r > 0, along * ((m > 0).to(g.dtype) - m.relu() / safe) / (safe * r), 0)
        dz[t] = d = g * (m.relu() / safe).repeat(1, 2) + kept[t] * slope.repeat(1, 2)
        db += ((m > 0) * along / safe).sum(dim=0)
    return dz, db


def _check_maps(name: str, x: Tensor, W: Tensor, b: Tensor) -> None:
    """Raises for arguments that do not fit; csrc/modrelu_scan.cpp checks the same."""
    has_rank(name, x, "[T, N, K]", 3)
    has_dtype(name, x, WIDE_FLOATS)
    has_rank("b", b, "[H]", 1)
    K, H = x.shape[2], b.shape[0]
    below_limit(name, T=x.shape[0], K=K)
    if K not in (H, 2 * H):
        raise ShapeError(f"b must be [H] with K = {K} equal to H, or 2 H for a complex state, got shape {tuple(b.shape)}")
    fits("b", b, "[H]", (H,), (x.dtype,), x)
    fits("W", W, "[K, K]", (K, K), (x.dtype,), x)


def _check(x: Tensor, W: Tensor, b: Tensor, h0: Tensor) -> None:
    _check_maps("x", x, W, b)
    fits("h0", h0, "[N, K]", (x.shape[1], x.shape[2]), (x.dtype,), x)


def _check_backward(grad: Tensor, kept: Tensor, W: Tensor, b: Tensor) -> None:
    _check_maps("grad", grad, W, b)
    fits("kept", kept, "[T, N, K]", tuple(grad.shape), (grad.dtype,), grad)


def _fake(x: Tensor, W: Tensor, b: Tensor, h0: Tensor) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.shape), x.new_empty(0 if x.shape[-1] == b.shape[0] else x.shape)


define("modrelu_scan(Tensor x, Tensor W, Tensor b, Tensor h0) -> (Tensor, Tensor)", _check, _forward, _fake)
define(
    "modrelu_scan_backward(Tensor grad, Tensor kept, Tensor W, Tensor b) -> (Tensor, Tensor)",
    _check_backward,
    _backward,
    lambda grad, kept, W, b: (grad.new_empty(grad.shape), b.new_empty(b.shape)),
)


def _keep(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, Tensor]) -> None:
    _, W, b, h0 = inputs
    ctx.mark_non_differentiable(output[1])
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*output, W, b, h0)


def _derivative(operator: Any, ctx: Any, grad: Tensor | None, _: Any) -> tuple[Tensor | None, ...]:
    if grad is None:
        return (None,) * 4
    states, z, W, b, h0 = ctx.saved_tensors
    dz, db = operator(grad, z if len(b) != states.shape[-1] else states, W, b)
    if not len(dz):
        return dz, torch.zeros_like(W), db, torch.zeros_like(h0)
    dW = h0.T @ dz[0]
    dW += states[:-1].flatten(0, 1).T @ dz[1:].flatten(0, 1)  # of all steps at once
    return dz, dW, db, dz[0] @ W.T


derive("modrelu_scan", _derivative, _keep)
