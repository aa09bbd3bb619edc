"""Registers the operators behind `shuffle_scan` with PyTorch: schema, shapes for tracing, derivatives.

Every operator exists twice. In the namespace `srnn` the compiled library replaces the plain PyTorch code on a CPU if it is
loaded, and Triton on a GPU where it can run. In `srnn_torch` the plain code always runs, for `backend="torch"`. A third
namespace, `srnn_triton`, is there only with TRITON_INTERPRET=1: it runs the Triton kernels on the CPU, to test them.

    shuffle_scan            all states; keeps one bit per unit and step (tanh: the states) for the derivative
    shuffle_scan_final      last state only, not for tanh; keeps one integer per unit, the last step whose derivative is 0
                            (ReLU: at zero, clip: at a bound; before a reset at step k, k - 1)
    shuffle_scan_backward   both derivatives: d_t = sigma'_t (g_t + P^T d_{t+1}); linear in g
    shuffle_scan_tangent    its adjoint, the derivative forward in time: s_t = sigma'_t (P s_{t-1} + v_t)
    gated_scan, gated_scan_final, gated_scan_backward
                            the same with b = (z W^T + c) * sigmoid(x U^T + e), computed in pieces that stay in cache, and
                            computed again in the backward pass

`b` is [N, T, H], or a table [V, H] if `ids` [N, T] is given. `reset` [N, T] is True where a new sequence starts. The dtype of
`kept` says what it is: bits (uint8), last zeros (int32) or states of tanh. `like` has the shape of b and no memory of its own.

Triton packs its bits along time, [N, T // 32 + 2, H] int32, in the order of the steps and in the frame of the units: entry d is
of the unit that starts at place d.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from srnn.kernels import arguments, pytorch, triton
from srnn.kernels.activations import ACTIVATIONS, tanh_slope
from srnn.kernels.arguments import checked, is_last_zero, shape, words_of

NAMESPACES = ("srnn", "srnn_torch", "srnn_triton") if triton.INTERPRETED else ("srnn", "srnn_torch")
Maybe = Tensor | None

_BORDERS = "Tensor? permutation, Tensor? lengths, Tensor? reset, bool reverse"
_SEQUENCE = f"Tensor? ids, {_BORDERS}"
_INPUTS = "Tensor z, Tensor weight, Tensor? bias, Tensor x, Tensor? gate_weight, Tensor? gate_bias"
_GATED = f"{_INPUTS}, Tensor h0, {_BORDERS}, str activation"
SCHEMAS = {
    "shuffle_scan": f"(Tensor b, Tensor h0, {_SEQUENCE}, str activation) -> (Tensor, Tensor, Tensor)",
    "shuffle_scan_final": f"(Tensor b, Tensor h0, {_SEQUENCE}, str activation) -> (Tensor, Tensor)",
    "shuffle_scan_backward": f"(Tensor? grad, Tensor grad_n, Tensor kept, Tensor like, {_SEQUENCE}) -> (Tensor, Tensor)",
    "shuffle_scan_tangent": f"(Tensor v, Tensor v0, Tensor kept, {_SEQUENCE}) -> (Tensor, Tensor)",
    "gated_scan": f"({_GATED}) -> (Tensor, Tensor, Tensor)",
    "gated_scan_final": f"({_GATED}) -> (Tensor, Tensor)",
    "gated_scan_backward": f"(Tensor? grad, Tensor grad_n, Tensor kept, {_INPUTS}, {_BORDERS}, int[] needs)"
    " -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
}
# One step of a layer, compiled or in Triton: elsewhere the layer's own modules are called.
_MAPS = "Tensor[] maps, Tensor? permutation, bool gate, bool bias, str activation"
CELL_SCHEMAS = {
    "cell": f"(Tensor x, Tensor h, {_MAPS}) -> Tensor",
    "cell_backward": f"(Tensor grad, Tensor x, Tensor out, {_MAPS}, int[] needs) -> Tensor[]",
}


def is_differentiated() -> bool:
    """Whether derivatives are taken forward (dual numbers) or by torch.func, which the operators do not support."""
    return forward_ad._current_level >= 0 or bool(transforms() & {"Grad", "Jvp"})


def is_transformed() -> bool:
    """Whether derivatives are taken forward or any transform of torch.func is active; faster than `transforms`."""
    return forward_ad._current_level >= 0 or torch._C._functorch.peek_interpreter_stack() is not None


def transforms() -> set[str]:
    """Returns the active transforms of torch.func: "Grad", "Jvp", "Vmap"."""
    if torch.compiler.is_compiling():
        return set()
    return {each.key().name for each in torch._C._functorch.get_interpreter_stack() or ()}


def _like(t: Tensor) -> Tensor:
    """A tensor of this shape that takes no memory."""
    return t.new_empty(()).expand(t.shape)


class Fakes:
    """What each operator returns, by shape and dtype alone. `arguments` has checked the arguments before.

    Args:
        in_time: Whether bits are packed along time, as Triton does.
    """

    def __init__(self, in_time: bool) -> None:
        self.in_time = in_time

    def shuffle_scan(self, b: Tensor, h0: Tensor, ids: Maybe, *rest: Any) -> tuple[Tensor, ...]:
        """States, last states, bits."""
        N, T, H = shape(b, ids)
        bits = b.new_empty((N, T, (H + 63) // 64 * 8), dtype=torch.uint8)
        if ACTIVATIONS[rest[-1]].bounds is None:
            bits = b.new_empty(0, dtype=torch.uint8)
        elif self.in_time:
            bits = b.new_empty((N, words_of(T), H), dtype=torch.int32)
        return b.new_empty(N, T, H), h0.new_empty(N, H), bits

    @staticmethod
    def shuffle_scan_final(b: Tensor, h0: Tensor, *rest: Any) -> tuple[Tensor, ...]:
        """Last states, last zeros."""
        return h0.new_empty(h0.shape), h0.new_empty(h0.shape, dtype=torch.int32)

    @staticmethod
    def shuffle_scan_backward(grad: Maybe, grad_n: Tensor, kept: Tensor, like: Tensor, *rest: Any) -> tuple[Tensor, ...]:
        """Gradients by b and h0."""
        return grad_n.new_empty(like.shape), grad_n.new_empty(grad_n.shape)

    @staticmethod
    def shuffle_scan_tangent(v: Tensor, v0: Tensor, kept: Tensor, ids: Maybe, *rest: Any) -> tuple[Tensor, ...]:
        """Derivatives of states and last states."""
        return v.new_empty((0,) if is_last_zero(kept) else shape(v, ids)), v.new_empty(v0.shape)

    def gated_scan(self, z: Tensor, weight: Tensor, *rest: Any) -> tuple[Tensor, ...]:
        """States, last states, bits."""
        b = z.new_empty(*z.shape[:2], weight.shape[0])
        return self.shuffle_scan(b, rest[4], None, rest[-1])

    @staticmethod
    def gated_scan_final(z: Tensor, weight: Tensor, *rest: Any) -> tuple[Tensor, ...]:
        """Last states, last zeros."""
        return Fakes.shuffle_scan_final(z, rest[4])

    @staticmethod
    def gated_scan_backward(grad: Maybe, grad_n: Tensor, kept: Tensor, z: Tensor, *rest: Any) -> tuple[Tensor, ...]:
        """Gradients by all inputs and h0; empty where not wanted."""
        weight, bias, x, gate_weight, gate_bias = rest[:5]
        f, f_map, gate_x, gate_map = rest[-1]
        x = None if gate_weight is None else x
        wanted = ((z, f), (weight, f_map), (bias, f_map), (x, gate_x), (gate_weight, gate_map), (gate_bias, gate_map))
        grads = [z.new_empty(t.shape if t is not None and want else 0) for t, want in wanted]
        return *grads, grad_n.new_empty(grad_n.shape)

    @staticmethod
    def cell(x: Tensor, h: Tensor, *rest: Any) -> Tensor:
        """The next state."""
        return torch.empty_like(h)

    @staticmethod
    def cell_backward(grad: Tensor, x: Tensor, out: Tensor, maps: list[Tensor], *rest: Any) -> list[Tensor]:
        """Gradients by x, h and all maps; empty where not wanted."""
        wanted = zip((x, out, *maps), rest[-1], strict=True)
        return [torch.empty_like(t) if want else t.new_empty(0) for t, want in wanted]


class Derivatives:
    """The derivatives of the operators of a namespace; each is again an operator with a derivative."""

    def __init__(self, namespace: str) -> None:
        self.ops = getattr(torch.ops, namespace)
        for name, backward, setup in (
            ("shuffle_scan", self.scan_backward, self.scan_setup),
            ("shuffle_scan_final", self.scan_backward, self.scan_setup),
            ("shuffle_scan_backward", self.backward_backward, self.backward_setup),
            ("shuffle_scan_tangent", self.tangent_backward, self.tangent_setup),
            ("gated_scan", self.gated_backward, self.gated_setup),
            ("gated_scan_final", self.gated_backward, self.gated_setup),
        ):
            torch.library.register_autograd(f"{namespace}::{name}", backward, setup_context=setup)

    @staticmethod
    def keep(ctx: Any, output: tuple[Tensor, ...], *rest: Any) -> None:
        """Saves what the derivative of a scan needs: bits or last zeros, or the states of a smooth activation."""
        *tensors, ctx.reverse, activation = rest
        kept = output[0] if ACTIVATIONS[activation].bounds is None else output[-1]
        ctx.mark_non_differentiable(output[-1])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(kept, _like(output[-2]), *tensors)

    @staticmethod
    def incoming(grads: tuple[Maybe, ...], like_n: Tensor) -> tuple[Maybe, Tensor] | None:
        """Returns the gradients by output and h_n, zeros for a missing h_n; None if both are missing."""
        grad, grad_n = grads[:2] if len(grads) == 3 else (None, grads[0])
        if grad is None and grad_n is None:
            return None
        return grad, torch.zeros_like(like_n) if grad_n is None else grad_n

    def scan_setup(self, ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        """Saves what `scan_backward` needs."""
        b, _, *sequence = inputs
        self.keep(ctx, output, _like(b), *sequence)

    def scan_backward(self, ctx: Any, *grads: Maybe) -> tuple[Maybe, ...]:
        """The derivative of a scan."""
        kept, like_n, like, *sequence = ctx.saved_tensors
        if (given := self.incoming(grads, like_n)) is None:
            return (None,) * 8
        db, dh0 = self.ops.shuffle_scan_backward(*given, kept, like, *sequence, ctx.reverse)
        return db, dh0, *[None] * 6

    def backward_setup(self, ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        """Saves what `backward_backward` needs."""
        grad, grad_n, kept, _, *sequence, ctx.reverse = inputs
        again = (grad, grad_n) if kept.is_floating_point() else (None, None)
        ctx.save_for_backward(kept, *sequence, *again)
        ctx.has_grad = grad is not None

    def backward_backward(self, ctx: Any, v: Tensor, v0: Tensor) -> tuple[Maybe, ...]:
        """The derivative of the derivative: the tangent."""
        kept, *sequence, grad, grad_n = ctx.saved_tensors
        s, s_n = self.ops.shuffle_scan_tangent(v, v0, kept, *sequence, ctx.reverse)
        return s if ctx.has_grad else None, s_n, self.slope_gradient(kept, s, grad, grad_n, sequence, ctx.reverse), *[None] * 6

    def tangent_setup(self, ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        """Saves what `tangent_backward` needs."""
        v, v0, kept, *sequence, ctx.reverse = inputs
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(kept, _like(v0), _like(v), *sequence, output[0])

    def tangent_backward(self, ctx: Any, *grads: Maybe) -> tuple[Maybe, ...]:
        """The derivative of the tangent: the backward pass of the scan."""
        kept, like_n, like, *sequence, s = ctx.saved_tensors
        if is_last_zero(kept):
            grads = (None, grads[1])
        if (given := self.incoming((*grads, None), like_n)) is None:
            return (None,) * 8
        dv, dv0 = self.ops.shuffle_scan_backward(*given, kept, like, *sequence, ctx.reverse)
        return dv, dv0, self.slope_gradient(kept, s, *given, sequence, ctx.reverse), *[None] * 5

    def slope_gradient(
        self, kept: Tensor, s: Tensor, grad: Maybe, grad_n: Tensor, sequence: list[Maybe], reverse: bool
    ) -> Tensor | None:
        """Returns the gradient by states of tanh: -2 h (s/a) (d/a), with a = 1 - h^2, s = a (P s + v), d = a (g + P^T d)."""
        if not kept.is_floating_point():
            return None  # the slopes of ReLU do not change
        d, _ = self.ops.shuffle_scan_backward(grad, grad_n, kept, kept, None, *sequence[1:], reverse)
        slope = tanh_slope(kept)
        return torch.where(slope > 0, -2 * kept * (s / slope) * (d / slope), 0)

    def gated_setup(self, ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        """Saves what `gated_backward` needs, all inputs except h0."""
        self.keep(ctx, output, *inputs[:6], *inputs[7:])

    def gated_backward(self, ctx: Any, *grads: Maybe) -> tuple[Maybe, ...]:
        """The derivative of a gated scan."""
        kept, like_n, *inputs, permutation, lengths, reset = ctx.saved_tensors
        if (given := self.incoming(grads, like_n)) is None:
            return (None,) * 12
        wants = list(ctx.needs_input_grad[:6])
        wants[3] = wants[3] and inputs[4] is not None  # without a gate, x is not in b
        sequence = (permutation, lengths, reset, ctx.reverse)
        found: Any
        if torch.is_grad_enabled():  # create_graph: the plain composition, every part of which has its own derivative
            # By aliases: one input may depend on another, as z on x, and that path must not count here.
            inputs = [None if t is None else t.view_as(t) for t in inputs]
            b = pytorch.input_drive(*inputs)
            db, dh0 = self.ops.shuffle_scan_backward(*given, kept, _like(b.detach()), None, *sequence)
            targets = [t for t, want in zip(inputs, wants, strict=True) if want]
            each = iter(torch.autograd.grad(b, targets, db, create_graph=True) if targets else ())
            found = [next(each) if want else None for want in wants]
        else:
            needs = [int(n) for n in (wants[0], wants[1] or wants[2], wants[3], wants[4] or wants[5])]
            *found, dh0 = self.ops.gated_scan_backward(*given, kept, *inputs, *sequence, needs)
        return *[g if want else None for g, want in zip(found, wants, strict=True)], dh0, *[None] * 5


class Cell(torch.autograd.Function):
    """The derivative of `srnn::cell`. An operator with lists of tensors would take longer than the step itself."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, h: Tensor, permutation: Maybe, *rest: Any) -> Tensor:
        """Runs the operator."""
        ctx.how, maps = rest[:3], rest[3:]
        out = torch.ops.srnn.cell.default(x, h, maps, permutation, *ctx.how)
        ctx.save_for_backward(x, h, permutation, out, *maps)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Maybe, ...]:
        """Runs the operator of the derivative, or with create_graph the plain composition."""
        x, h, permutation, out, *maps = ctx.saved_tensors
        needs = [ctx.needs_input_grad[k] for k in (0, 1, *range(6, 6 + len(maps)))]
        found: Any
        if torch.is_grad_enabled():  # create_graph: the plain composition, by aliases as in gated_backward
            inputs = [t.view_as(t) for t in (x, h, *maps)]
            y = pytorch.cell(inputs[0], inputs[1], inputs[2:], permutation, *ctx.how)
            targets = [t for t, want in zip(inputs, needs, strict=True) if want]
            each = iter(torch.autograd.grad(y, targets, grad, create_graph=True))
            found = [next(each) if want else None for want in needs]
        else:
            found = torch.ops.srnn.cell_backward.default(grad, x, out, maps, permutation, *ctx.how, needs)
        dx, dh, *dmaps = [g if want else None for g, want in zip(found, needs, strict=True)]
        return dx, dh, None, None, None, None, *dmaps


def _in_time(namespace: str, args: tuple[Any, ...]) -> bool:
    """Whether the implementation of an operator of this namespace packs bits along time."""
    return namespace == "srnn_triton" or (namespace == "srnn" and triton.in_time(args))


def _checked(namespace: str, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function after the check of its arguments."""
    check = getattr(arguments, name)
    if "Tensor kept" not in SCHEMAS.get(name, ""):
        return checked(check, function)
    return checked(lambda *args: check(*args, in_time=_in_time(namespace, args)), function)


def _fake(namespace: str, name: str) -> Callable[..., Any]:
    return _checked(namespace, name, lambda *args: getattr(Fakes(_in_time(namespace, args)), name)(*args))


for _name, _schema in CELL_SCHEMAS.items():
    torch.library.define(f"srnn::{_name}", _schema)
    torch.library.register_fake(f"srnn::{_name}", _fake("srnn", _name))
    torch.library.impl(f"srnn::{_name}", "CUDA", _checked("srnn", _name, triton.operator(_name)))
for _namespace in NAMESPACES:
    for _name, _schema in SCHEMAS.items():
        torch.library.define(f"{_namespace}::{_name}", _schema)
        _plain = getattr(pytorch, _name)
        _run = triton.operator(_name) if _namespace == "srnn_triton" else _plain
        torch.library.impl(f"{_namespace}::{_name}", "CompositeExplicitAutograd", _checked(_namespace, _name, _run))
        if _namespace == "srnn":
            _run = triton.operator_or(_name, _plain)
            torch.library.impl(f"srnn::{_name}", "CUDA", _checked("srnn", _name, _run))
        torch.library.register_fake(f"{_namespace}::{_name}", _fake(_namespace, _name))
    Derivatives(_namespace)
