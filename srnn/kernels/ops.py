"""The operators behind `shuffle_scan` as PyTorch sees them: schema, shapes for tracing, derivatives.

Every operator exists twice. In the namespace `srnn` the compiled library (CPU) takes over from the plain PyTorch code when it
is there; in `srnn_torch` the plain code always runs, which is what `backend="torch"` asks for.

    shuffle_scan            all states; keeps one bit per unit and step (tanh: the states) for the derivative
    shuffle_scan_final      last state only, ReLU; keeps one integer per unit, the last step at which it was zero
    shuffle_scan_backward   both derivatives: d_t = sigma'_t (g_t + P^T d_{t+1}); linear in g
    shuffle_scan_tangent    its adjoint, the derivative forward in time: s_t = sigma'_t (P s_{t-1} + v_t)
    gated_scan, gated_scan_final, gated_scan_backward
                            the same with b = (z W^T + c) * sigmoid(x U^T + e) made in pieces that stay in cache, and made
                            again in the backward pass

`b` is [N, T, H], or a table [V, H] when `ids` [N, T] is given. `kept` tells by its type what it is: bits (uint8), last zeros
(int32) or states of tanh. `like` has the shape of b and no memory of its own.
"""

from typing import Any

import torch
from torch import Tensor

from srnn.kernels import fallback

NAMESPACES = ("srnn", "srnn_torch")

_SEQUENCE = "Tensor? ids, Tensor? permutation, Tensor? lengths, bool reverse"
_INPUTS = "Tensor z, Tensor weight, Tensor? bias, Tensor x, Tensor? gate_weight, Tensor? gate_bias"
_GATED = f"{_INPUTS}, Tensor h0, Tensor? permutation, Tensor? lengths, bool reverse"
SCHEMAS = {
    "shuffle_scan": f"(Tensor b, Tensor h0, {_SEQUENCE}, str activation) -> (Tensor, Tensor, Tensor)",
    "shuffle_scan_final": f"(Tensor b, Tensor h0, {_SEQUENCE}) -> (Tensor, Tensor)",
    "shuffle_scan_backward": f"(Tensor? grad, Tensor grad_n, Tensor kept, Tensor like, {_SEQUENCE}) -> (Tensor, Tensor)",
    "shuffle_scan_tangent": f"(Tensor v, Tensor v0, Tensor kept, {_SEQUENCE}) -> (Tensor, Tensor)",
    "gated_scan": f"({_GATED}, str activation) -> (Tensor, Tensor, Tensor)",
    "gated_scan_final": f"({_GATED}) -> (Tensor, Tensor)",
    "gated_scan_backward": f"(Tensor? grad, Tensor grad_n, Tensor kept, {_INPUTS}, Tensor? permutation, Tensor? lengths, "
    "bool reverse, int[] needs) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
}


def mask_bytes(H: int) -> int:
    """Bytes that hold one bit for each of H units, in whole words of 64."""
    return (H + 63) // 64 * 8


def shape(b: Tensor, ids: Tensor | None) -> tuple[int, int, int]:
    N, T = b.shape[:2] if ids is None else ids.shape
    return N, T, b.shape[-1]


def _fake_scan(b, h0, ids, permutation, lengths, reverse, activation):
    N, T, H = shape(b, ids)
    bits = (N, T, mask_bytes(H)) if activation == "relu" else (0,)
    return b.new_empty(N, T, H), h0.new_empty(N, H), b.new_empty(bits, dtype=torch.uint8)


def _fake_final(b, h0, ids, permutation, lengths, reverse):
    return h0.new_empty(h0.shape), h0.new_empty(h0.shape, dtype=torch.int32)


def _fake_backward(grad, grad_n, kept, like, ids, permutation, lengths, reverse):
    return grad_n.new_empty(like.shape), grad_n.new_empty(grad_n.shape)


def _fake_tangent(v, v0, kept, ids, permutation, lengths, reverse):
    states = (0,) if kept.dtype == torch.int32 else shape(v, ids)
    return v.new_empty(states), v.new_empty(v0.shape)


def _fake_gated(z, weight, bias, x, gate_weight, gate_bias, h0, permutation, lengths, reverse, activation):
    b = z.new_empty(*z.shape[:2], weight.shape[0])
    return _fake_scan(b, h0, None, permutation, lengths, reverse, activation)


def _fake_gated_final(z, weight, bias, x, gate_weight, gate_bias, h0, permutation, lengths, reverse):
    return _fake_final(z, h0, None, permutation, lengths, reverse)


def _fake_gated_backward(
    grad, grad_n, kept, z, weight, bias, x, gate_weight, gate_bias, permutation, lengths, reverse, needs
):
    has_gate = gate_weight is not None
    wanted = (needs[0], needs[1], needs[1], needs[2] and has_gate, needs[3], needs[3])
    tensors = (z, weight, bias, x, gate_weight, gate_bias)
    grads = [t.new_empty(t.shape) if t is not None and want else z.new_empty(0) for t, want in zip(tensors, wanted)]
    return *grads, grad_n.new_empty(grad_n.shape)


FAKES = {
    "shuffle_scan": _fake_scan,
    "shuffle_scan_final": _fake_final,
    "shuffle_scan_backward": _fake_backward,
    "shuffle_scan_tangent": _fake_tangent,
    "gated_scan": _fake_gated,
    "gated_scan_final": _fake_gated_final,
    "gated_scan_backward": _fake_gated_backward,
}


def _register_derivatives(namespace: str) -> None:
    """How autograd goes through the operators: each derivative is again an operator with a derivative."""
    ops = getattr(torch.ops, namespace)

    def scan_setup(ctx: Any, inputs: tuple, output: tuple) -> None:
        b, h0, ids, permutation, lengths, reverse = inputs[:6]
        kept = output[-1]
        if len(inputs) == 7 and inputs[6] == "tanh":
            kept = output[0]
        ctx.mark_non_differentiable(output[-1])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(kept, b.new_empty(()).expand(b.shape), ids, permutation, lengths, h0.new_empty(()).expand(h0.shape))
        ctx.reverse, ctx.arity = reverse, len(inputs)

    def scan_backward(ctx: Any, *grads: Tensor | None) -> tuple:
        kept, like, *sequence, like_n = ctx.saved_tensors
        grad, grad_n = grads[:2] if len(grads) == 3 else (None, grads[0])
        if grad is None and grad_n is None:
            return (None,) * ctx.arity
        grad_n = torch.zeros_like(like_n) if grad_n is None else grad_n
        db, dh0 = ops.shuffle_scan_backward(grad, grad_n, kept, like, *sequence, ctx.reverse)
        return db, dh0, *[None] * (ctx.arity - 2)

    def backward_setup(ctx: Any, inputs: tuple, output: tuple) -> None:
        grad, grad_n, kept, like, ids, permutation, lengths, reverse = inputs
        ctx.save_for_backward(kept, ids, permutation, lengths, like, output[0] if kept.is_floating_point() else None)
        ctx.reverse, ctx.has_grad = reverse, grad is not None

    def backward_backward(ctx: Any, v: Tensor, v0: Tensor) -> tuple:
        kept, *sequence, like, d = ctx.saved_tensors
        s, s_n = ops.shuffle_scan_tangent(v, v0, kept, *sequence, ctx.reverse)
        return s if ctx.has_grad else None, s_n, _slope_gradient(kept, s, d), *[None] * 5

    def tangent_setup(ctx: Any, inputs: tuple, output: tuple) -> None:
        v, v0, kept, ids, permutation, lengths, reverse = inputs
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(kept, v.new_empty(()).expand(v.shape), ids, permutation, lengths, output[0], v0)
        ctx.reverse = reverse

    def tangent_backward(ctx: Any, grad: Tensor | None, grad_n: Tensor | None) -> tuple:
        kept, like, *sequence, s, v0 = ctx.saved_tensors
        if grad is None and grad_n is None:
            return (None,) * 7
        grad = None if kept.dtype == torch.int32 else grad
        grad_n = torch.zeros_like(v0) if grad_n is None else grad_n
        d, dv0 = ops.shuffle_scan_backward(grad, grad_n, kept, like, *sequence, ctx.reverse)
        return d, dv0, _slope_gradient(kept, s, d), *[None] * 4

    def gated_setup(ctx: Any, inputs: tuple, output: tuple) -> None:
        *tensors, h0, permutation, lengths, reverse = inputs[:10]
        kept = output[-1]
        if len(inputs) == 11 and inputs[10] == "tanh":
            kept = output[0]
        ctx.mark_non_differentiable(output[-1])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(kept, *tensors, permutation, lengths, h0.new_empty(()).expand(h0.shape))
        ctx.reverse, ctx.arity = reverse, len(inputs)

    def gated_backward(ctx: Any, *grads: Tensor | None) -> tuple:
        kept, z, weight, bias, x, gate_weight, gate_bias, permutation, lengths, like_n = ctx.saved_tensors
        grad, grad_n = grads[:2] if len(grads) == 3 else (None, grads[0])
        if grad is None and grad_n is None:
            return (None,) * ctx.arity
        grad_n = torch.zeros_like(like_n) if grad_n is None else grad_n
        inputs = (z, weight, bias, x, gate_weight, gate_bias)
        wanted = list(ctx.needs_input_grad[:6])
        wanted[3] = wanted[3] and gate_weight is not None  # without a gate, x is not in b
        if torch.is_grad_enabled():  # create_graph: the plain composition, every part of which has its own derivative
            b = fallback.input_drive(*inputs)
            db, dh0 = ops.shuffle_scan_backward(
                grad, grad_n, kept, b.detach().new_empty(()).expand(b.shape), None, permutation, lengths, ctx.reverse
            )
            targets = [t for t, want in zip(inputs, wanted) if want]
            found = iter(torch.autograd.grad(b, targets, db, create_graph=True) if targets else ())
            return *[next(found) if want else None for want in wanted], dh0, *[None] * (ctx.arity - 7)
        needs = [int(n) for n in (wanted[0], wanted[1] or wanted[2], wanted[3], wanted[4] or wanted[5])]
        *found, dh0 = ops.gated_scan_backward(grad, grad_n, kept, *inputs, permutation, lengths, ctx.reverse, needs)
        return *[g if want else None for g, want in zip(found, wanted)], dh0, *[None] * (ctx.arity - 7)

    def register(name: str, backward: Any, setup: Any) -> None:
        torch.library.register_autograd(f"{namespace}::{name}", backward, setup_context=setup)

    register("shuffle_scan", scan_backward, scan_setup)
    register("shuffle_scan_final", scan_backward, scan_setup)
    register("shuffle_scan_backward", backward_backward, backward_setup)
    register("shuffle_scan_tangent", tangent_backward, tangent_setup)
    register("gated_scan", gated_backward, gated_setup)
    register("gated_scan_final", gated_backward, gated_setup)


def _slope_gradient(kept: Tensor, s: Tensor, d: Tensor | None) -> Tensor | None:
    """The derivative of sum(s . d) by the states of tanh, slope a = 1 - h^2, s = a (P s + v), d = a (g + P^T d): -2 h (s/a)(d/a)."""
    if d is None or not kept.is_floating_point():
        return None
    slope = 1 - kept * kept
    return torch.where(slope > 0, -2 * kept * (s / slope) * (d / slope), 0)


def _register(namespace: str) -> None:
    for name, schema in SCHEMAS.items():
        torch.library.define(f"{namespace}::{name}", schema)
        torch.library.impl(f"{namespace}::{name}", "CompositeExplicitAutograd", getattr(fallback, name))
        torch.library.register_fake(f"{namespace}::{name}", FAKES[name])
    _register_derivatives(namespace)


for _namespace in NAMESPACES:
    _register(_namespace)
