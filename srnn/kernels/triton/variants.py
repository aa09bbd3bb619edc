"""Every form in which the kernels are launched, for compiling ahead of time: no GPU is needed to make the list.

The operators run on small tensors, and what they would launch is recorded, so the list cannot differ from what runs.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch
from torch import Tensor

from srnn.kernels.activations import ACTIVATIONS
from srnn.kernels.arguments import FLOATS, words_of
from srnn.kernels.triton import launch, operators

_POINTERS = {
    torch.float32: "*fp32",
    torch.float64: "*fp64",
    torch.float16: "*fp16",
    torch.bfloat16: "*bf16",
    torch.int64: "*i64",
    torch.int32: "*i32",
    torch.uint8: "*u8",
}
N, T, H, V = 2, 4096, 4, 3  # T is so long that a scan parallel in time has several chunks


@dataclass(frozen=True)
class Variant:
    """A kernel with types and constants, as `triton.compiler.ASTSource(kernel, signature, constants)` takes them.

    Attributes:
        name: The name of the kernel.
        kernel: The function that @triton.jit made.
        signature: The type of each argument by name: "*fp32", "i32", "constexpr".
        constants: The values of those that are constexpr; an absent tensor is the constant None.
        dtype: The type of the tensors that the operator was given.
        case: Which call of which operator it is of.
    """

    name: str
    kernel: Any
    signature: dict[str, str]
    constants: dict[str, Any]
    dtype: torch.dtype
    case: str


def variants(dtypes: tuple[torch.dtype, ...] = FLOATS) -> list[Variant]:
    """Returns all variants of all kernels for these dtypes, each once."""
    found: dict[Any, Variant] = {}
    for dtype, form in product(dtypes, ("lanes", "time")):
        for case, call in _calls(dtype):
            with launch.use_form(form), launch.recorded() as launches:
                call()
            for kernel, arguments in launches:
                variant = _variant(kernel, arguments, dtype, f"{case}, {form}")
                key = variant.name, tuple(variant.signature.items()), tuple(map(str, variant.constants.items()))
                found.setdefault(key, variant)
    return list(found.values())


def _variant(kernel: Any, arguments: dict[str, Any], dtype: torch.dtype, case: str) -> Variant:
    constexprs = {each.name for each in kernel.params if each.is_constexpr}
    signature = {name: "constexpr" if name in constexprs else _type(arguments[name]) for name in kernel.arg_names}
    constants = {name: arguments[name] for name, kind in signature.items() if kind == "constexpr"}
    return Variant(kernel.__name__, kernel, signature, constants, dtype, case)


def _type(value: Any) -> str:
    if value is None:
        return "constexpr"
    return _POINTERS[value.dtype] if isinstance(value, Tensor) else "i32"


def _calls(dtype: torch.dtype) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Calls of all operators: plain, and with all options."""
    b, h0, table = (torch.zeros(shape, dtype=dtype) for shape in ((N, T, H), (N, H), (V, H)))
    ids = torch.zeros(N, T, dtype=torch.int64)
    z, weight, bias = (torch.zeros(shape, dtype=dtype) for shape in ((N, T, 3), (H, 3), (H,)))
    bits, zeros = torch.zeros(N, words_of(T), H, dtype=torch.int32), torch.zeros(N, H, dtype=torch.int32)
    every = (torch.arange(H), torch.full((N,), T), torch.zeros(N, T, dtype=torch.bool), True)
    for options, (form, values, symbols) in product(
        ((None, None, None, False), every), (("dense", b, None), ("table", table, ids))
    ):
        name = f"{form}, {'all options' if options[0] is not None else 'plain'}"
        sequence = (symbols, *options)
        for activation in ACTIVATIONS:
            yield f"shuffle_scan {activation}, {name}", _bind(operators.shuffle_scan, values, h0, *sequence, activation)
        for activation in ("relu", "clip"):
            yield (
                f"shuffle_scan_final {activation}, {name}",
                _bind(operators.shuffle_scan_final, values, h0, *sequence, activation),
            )
        for kind, kept in (("bits", bits), ("states", b), ("zeros", zeros)):
            for grad in (None,) if kind == "zeros" else (b, None):
                case = f"shuffle_scan_backward {kind}, {'' if grad is None else 'all states, '}{name}"
                yield case, _bind(operators.shuffle_scan_backward, grad, h0, kept, values, *sequence)
            yield f"shuffle_scan_tangent {kind}, {name}", _bind(operators.shuffle_scan_tangent, values, h0, kept, *sequence)
        if form == "table":
            continue
        for gate in (True, False):
            inputs = (z, weight, bias, z, weight if gate else None, bias if gate else None)
            what = f"{name}{', gate' if gate else ''}"
            for activation in ACTIVATIONS:
                yield f"gated_scan {activation}, {what}", _bind(operators.gated_scan, *inputs, h0, *options, activation)
            for activation in ("relu", "clip"):
                yield (
                    f"gated_scan_final {activation}, {what}",
                    _bind(operators.gated_scan_final, *inputs, h0, *options, activation),
                )
            for kind, kept in (("bits", bits), ("states", b), ("zeros", zeros)):
                grad = None if kind == "zeros" else b
                case = f"gated_scan_backward {kind}, {what}"
                yield case, _bind(operators.gated_scan_backward, grad, h0, kept, *inputs, *options, [1, 1, 1, 1])
    _, lengths, reset, _ = every
    alone: Any = {
        "reverse": (None, None, None, True),
        "lengths": (None, lengths, None, False),
        "reset": (None, None, reset, False),
    }
    for option, options in alone.items():
        name = f"{option} alone"
        yield f"shuffle_scan relu, {name}", _bind(operators.shuffle_scan, b, h0, None, *options, "relu")
        yield f"shuffle_scan_final relu, {name}", _bind(operators.shuffle_scan_final, b, h0, None, *options, "relu")
        yield f"shuffle_scan_backward bits, {name}", _bind(operators.shuffle_scan_backward, b, h0, bits, b, None, *options)


def _bind(function: Callable[..., Any], *args: Any) -> Callable[[], Any]:
    return lambda: function(*args)
