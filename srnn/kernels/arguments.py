"""What the operators require of their arguments: shapes, dtypes, devices, layouts, names, and extents below 2^31.

An exported graph can call an operator with anything. Each function here has the name and the arguments of an operator and
raises for the first argument that does not fit. The plain PyTorch code and the shapes for tracing call it. csrc/arguments.h
does the same for the compiled code. Values of tensors are checked where they are read, in csrc/plan.h and pytorch.py.
"""

from collections.abc import Callable, Sequence
from functools import wraps
from math import prod
from typing import Any

import torch
from torch import Tensor

from srnn import checks
from srnn.errors import DeviceError, DtypeError, SettingError, ShapeError, one_of
from srnn.kernels.activations import ACTIVATIONS

Maybe = Tensor | None
Dtypes = tuple[torch.dtype, ...]

FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
WIDE_FLOATS = (torch.float32, torch.float64)
LIMIT = 2**31  # the kernels count steps, rows of a table and units in int32


def checked(check: Callable[..., None], function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the function with a check of its arguments before it runs."""

    @wraps(function)
    def run(*args: Any) -> Any:
        check(*args)
        return function(*args)

    return run


def fits(name: str, tensor: Tensor, axes: str, sizes: tuple[int, ...], dtypes: Dtypes, like: Tensor) -> None:
    """Raises unless a tensor has these sizes, one of these dtypes, dense memory and the device of another tensor."""
    if tuple(tensor.shape) != sizes:
        raise ShapeError(f"{name} must be {axes} = {sizes}, got {tuple(tensor.shape)}")
    has_dtype(name, tensor, dtypes)
    if tensor.device != like.device:
        raise DeviceError(f"{name} must be on {like.device} like the rest, got {tensor.device}")


def has_rank(name: str, tensor: Tensor, axes: str, rank: int) -> None:
    """Raises unless a tensor has this many axes."""
    if tensor.dim() != rank:
        raise ShapeError(f"{name} must be {axes}, got shape {tuple(tensor.shape)}")


def has_dtype(name: str, tensor: Tensor, dtypes: Dtypes) -> None:
    """Raises unless a tensor has one of these dtypes and dense memory."""
    if tensor.dtype not in dtypes:
        *others, last = [str(each).removeprefix("torch.") for each in dtypes]
        expected = f"{', '.join(others)} or {last}" if others else last
        raise DtypeError(f"{name} must be {expected}, got {str(tensor.dtype).removeprefix('torch.')}")
    if tensor.layout != torch.strided:
        raise ShapeError(f"{name} must have layout torch.strided, got {tensor.layout}")


def below_limit(name: str, **extents: int) -> None:
    """Raises for extents of 2^31 or more; symbolic ones pass, since a graph must not be bound to a range."""
    if torch.compiler.is_compiling():
        return
    for axis, extent in extents.items():
        if isinstance(extent, int) and extent >= LIMIT:
            raise ShapeError(f"{name} must have {axis} below 2^31, got {axis} = {extent}")


def words_of(T: int) -> int:
    """Returns how many words of 32 steps hold bits along time; some are spare, so that no graph is bound to a range of T."""
    return T // 32 + 2


def is_last_zero(kept: Tensor) -> bool:
    """Whether `kept` holds last zeros [N, H]; bits along time are int32 too, with another axis."""
    return kept.dtype == torch.int32 and kept.dim() == 2


def shape(b: Tensor, ids: Maybe) -> tuple[int, int, int]:
    """Returns N, T and H of a scan over b."""
    N, T = b.shape[:2] if ids is None else ids.shape
    return N, T, b.shape[-1]


def scan_input(name: str, b: Tensor, ids: Maybe) -> None:
    """Raises unless b is [N, T, H], or a table [V, H] to go with ids [N, T]."""
    if ids is None:
        has_rank(name, b, "[N, T, H]", 3)
    elif b.dim() != 2 or ids.dim() != 2:
        got = f"{tuple(b.shape)} and {tuple(ids.shape)}"
        raise ShapeError(f"{name} must be a table [V, H] to go with ids [N, T], got {got}")
    else:
        fits("ids", ids, "[N, T]", tuple(ids.shape), checks.SYMBOLS, b)
        below_limit(name, V=b.shape[0])
    _, T, H = shape(b, ids)
    has_dtype(name, b, FLOATS)
    if H == 0:
        raise ShapeError(f"{name} must have one unit or more, got H = 0")
    below_limit(name if ids is None else "ids", T=T)
    below_limit(name, H=H)


def shuffle_scan(
    b: Tensor, h0: Tensor, ids: Maybe, permutation: Maybe, lengths: Maybe, reset: Maybe, reverse: bool, activation: str
) -> None:
    """Checks the arguments of `shuffle_scan`."""
    scan_input("b", b, ids)
    N, T, H = shape(b, ids)
    fits("h0", h0, "[N, H]", (N, H), (b.dtype,), b)
    _borders(N, T, H, b, permutation, lengths, reset)
    _activation(activation)


def shuffle_scan_final(
    b: Tensor, h0: Tensor, ids: Maybe, permutation: Maybe, lengths: Maybe, reset: Maybe, reverse: bool, activation: str
) -> None:
    """Checks the arguments of `shuffle_scan_final`."""
    shuffle_scan(b, h0, ids, permutation, lengths, reset, reverse, activation)
    _bounded(activation)


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
    *,
    in_time: bool = False,
) -> None:
    """Checks the arguments of `shuffle_scan_backward`; `in_time` says how bits must be packed."""
    scan_input("like", like, ids)
    N, T, H = shape(like, ids)
    _gradients(N, T, H, like, grad, grad_n, kept, in_time)
    _borders(N, T, H, like, permutation, lengths, reset)


def shuffle_scan_tangent(
    v: Tensor,
    v0: Tensor,
    kept: Tensor,
    ids: Maybe,
    permutation: Maybe,
    lengths: Maybe,
    reset: Maybe,
    reverse: bool,
    *,
    in_time: bool = False,
) -> None:
    """Checks the arguments of `shuffle_scan_tangent`."""
    scan_input("v", v, ids)
    N, T, H = shape(v, ids)
    fits("v0", v0, "[N, H]", (N, H), (v.dtype,), v)
    _kept(N, T, H, v, kept, in_time)
    _borders(N, T, H, v, permutation, lengths, reset)


def gated_scan(
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
) -> None:
    """Checks the arguments of `gated_scan`."""
    N, T, H = _gated_input(z, weight, bias, x, gate_weight, gate_bias)
    fits("h0", h0, "[N, H]", (N, H), (z.dtype,), z)
    _borders(N, T, H, z, permutation, lengths, reset)
    _activation(activation)


def gated_scan_final(*args: Any) -> None:
    """Checks the arguments of `gated_scan_final`."""
    gated_scan(*args)
    _bounded(args[-1])


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
    *,
    in_time: bool = False,
) -> None:
    """Checks the arguments of `gated_scan_backward`."""
    N, T, H = _gated_input(z, weight, bias, x, gate_weight, gate_bias)
    _gradients(N, T, H, z, grad, grad_n, kept, in_time)
    _borders(N, T, H, z, permutation, lengths, reset)
    _needs(needs, 4)


def cell(x: Tensor, h: Tensor, maps: Sequence[Tensor], permutation: Maybe, gate: bool, bias: bool, activation: str) -> None:
    """Checks the arguments of `cell`."""
    _cell(x, "h", h, maps, permutation, gate, bias, activation)


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
) -> None:
    """Checks the arguments of `cell_backward`."""
    _cell(x, "out", out, maps, permutation, gate, bias, activation)
    fits("grad", grad, "[..., H]", tuple(out.shape), (x.dtype,), x)
    _needs(needs, len(maps) + 2)


def _cell(
    x: Tensor, name: str, h: Tensor, maps: Sequence[Tensor], permutation: Maybe, gate: bool, bias: bool, activation: str
) -> None:
    has_dtype("x", x, WIDE_FLOATS)
    for label, tensor, axes in (("x", x, "[..., C]"), (name, h, "[..., H]")):
        if tensor.dim() == 0:
            raise ShapeError(f"{label} must be {axes}, got shape ()")
    C, H = x.shape[-1], h.shape[-1]
    below_limit("x", C=C)
    below_limit(name, H=H)
    fits(name, h, "[..., H]", tuple(h.shape), (x.dtype,), x)
    if prod(x.shape[:-1]) != prod(h.shape[:-1]):
        raise ShapeError(f"{name} must have as many rows as x, {prod(x.shape[:-1])}, got shape {tuple(h.shape)}")
    each = 2 if bias else 1
    count, rest = divmod(len(maps), each)
    if rest or count < 1 + gate:
        raise SettingError(f"maps must hold f_r's linear maps and the gate's, {each} tensors each, got {len(maps)} tensors")
    width = C
    for i in range(count):
        columns, is_hidden = C if gate and i == count - 1 else width, i < count - 1 - gate
        label, weight = f"maps[{i * each}]", maps[i * each]
        has_rank(label, weight, "[rows, columns]", 2)
        rows = weight.shape[0] if is_hidden else H
        fits(label, weight, "[rows, columns]", (rows, columns), (x.dtype,), x)
        below_limit(label, rows=rows)
        if bias:
            fits(f"maps[{i * each + 1}]", maps[i * each + 1], "[rows]", (rows,), (x.dtype,), x)
        width = rows
    if permutation is not None:
        fits("permutation", permutation, "[H]", (H,), checks.INDICES, x)
    _activation(activation)


def _gated_input(
    z: Tensor, weight: Tensor, bias: Maybe, x: Tensor, gate_weight: Maybe, gate_bias: Maybe
) -> tuple[int, int, int]:
    """Checks the factors of b; returns N, T and H."""
    if z.dim() != 3 or x.dim() != 3 or z.shape[:2] != x.shape[:2]:
        raise ShapeError(f"z [N, T, K] and x [N, T, C] must agree in N and T, got {tuple(z.shape)} and {tuple(x.shape)}")
    has_dtype("z", z, FLOATS)
    has_rank("weight", weight, "[H, K]", 2)
    (N, T, K), C, H = z.shape, x.shape[2], weight.shape[0]
    fits("x", x, "[N, T, C]", (N, T, C), (z.dtype,), z)
    for name, tensor, axes, sizes in (
        ("weight", weight, "[H, K]", (H, K)),
        ("bias", bias, "[H]", (H,)),
        ("gate_weight", gate_weight, "[H, C]", (H, C)),
        ("gate_bias", gate_bias, "[H]", (H,)),
    ):
        if tensor is not None:
            fits(name, tensor, axes, sizes, (z.dtype,), z)
    if H == 0:
        raise ShapeError("weight must have one unit or more, got H = 0")
    below_limit("z", T=T, K=K)
    below_limit("x", C=C)
    below_limit("weight", H=H)
    return N, T, H


def _borders(N: int, T: int, H: int, like: Tensor, permutation: Maybe, lengths: Maybe, reset: Maybe) -> None:
    if permutation is not None:
        fits("permutation", permutation, "[H]", (H,), checks.INDICES, like)
    if lengths is not None:
        fits("lengths", lengths, "[N]", (N,), checks.INDICES, like)
    if reset is not None:
        fits("reset", reset, "[N, T]", (N, T), (torch.bool,), like)


def _kept(N: int, T: int, H: int, like: Tensor, kept: Tensor, in_time: bool) -> None:
    if in_time and not is_last_zero(kept) and not kept.is_floating_point():
        fits("kept", kept, "[N, T // 32 + 2, H]", (N, words_of(T), H), (torch.int32,), like)
    elif kept.dtype == torch.uint8:
        fits("kept", kept, "[N, T, 8 * ceil(H / 64)]", (N, T, (H + 63) // 64 * 8), (torch.uint8,), like)
    elif kept.dtype == torch.int32:
        fits("kept", kept, "[N, H]", (N, H), (torch.int32,), like)
    else:
        fits("kept", kept, "[N, T, H]", (N, T, H), (torch.uint8, torch.int32, like.dtype), like)


def _gradients(N: int, T: int, H: int, like: Tensor, grad: Maybe, grad_n: Tensor, kept: Tensor, in_time: bool) -> None:
    fits("grad_n", grad_n, "[N, H]", (N, H), (like.dtype,), like)
    _kept(N, T, H, like, kept, in_time)
    if grad is None:
        return
    if is_last_zero(kept):
        raise SettingError(f"grad must be None if kept holds last zeros, got shape {tuple(grad.shape)}")
    fits("grad", grad, "[N, T, H]", (N, T, H), (like.dtype,), like)


def _needs(needs: Sequence[int], count: int) -> None:
    if len(needs) != count:
        raise SettingError(f"needs must hold {count} numbers, got {len(needs)}")


def _activation(name: str) -> None:
    if name not in ACTIVATIONS:
        raise one_of("activation", name, ACTIVATIONS)


def _bounded(activation: str) -> None:
    if ACTIVATIONS[activation].bounds is None:
        raise SettingError(f"the derivative of {activation} needs all states. The final form takes a bounded one, such as relu")
