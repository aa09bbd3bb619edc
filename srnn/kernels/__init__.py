"""`shuffle_scan` and its variants: this file checks the arguments, then a backend computes.

reference   a plain loop over time, the specification
native      C++ for the CPU
triton      Triton for a GPU
torch       plain PyTorch operations, any device
auto        native on a CPU if it was built, triton on a GPU if it is installed, otherwise torch; `use` and $SRNN_BACKEND choose
            another
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from srnn import checks
from srnn.errors import BackendError, DerivativeError, LengthError, SettingError, SymbolError, one_of
from srnn.kernels import arguments, flops, native, ops, pytorch, reference, triton  # noqa: F401  (flops registers its formulas)
from srnn.kernels.activations import ACTIVATIONS

__all__ = [
    "ACTIVATIONS",
    "BACKENDS",
    "auto_backend",
    "cell",
    "default_backend",
    "gated_scan",
    "native",
    "scan",
    "shuffle_scan",
    "takes_cell",
    "use",
]

BACKENDS = ("auto", "native", "reference", "torch", "triton")
Maybe = Tensor | None
_VALUE_ERRORS = {"ids": SymbolError, "lengths": LengthError, "permutation": SettingError}

NATIVE_ERROR = native.load_error()  # loads the library; a constant, so that a compiled graph need not ask
TRITON_ERROR = triton.install_error()  # loads nothing
_default = os.environ.get("SRNN_BACKEND") or "auto"  # changed by `use` alone; a global, which torch.compile guards


def shuffle_scan(
    b: Tensor,
    h0: Tensor | None = None,
    *,
    ids: Tensor | None = None,
    permutation: Tensor | None = None,
    lengths: Tensor | None = None,
    reset: Tensor | None = None,
    reverse: bool = False,
    activation: str = "relu",
    final: bool = False,
    backend: str = "auto",
) -> Tensor:
    """Computes h_t = sigma(P h_{t-1} + b_t) for all steps t.

    Args:
        b: [N, T, H], or a table [V, H] if `ids` are given.
        h0: The initial state [N, H]; None is zeros.
        ids: Symbols [N, T] (uint8, int32 or int64): b_t of sequence n is then the row ids[n, t] of the table.
        permutation: [H], (P h)_i = h_{permutation[i]}; None is the shift, (P h)_i = h_{i+1}.
        lengths: [N]. States from a row's length on are 0 and have no gradient.
        reset: Booleans [N, T]. True at t starts a new sequence there: no state passes from t - 1 to t or back, and at t = 0 h0
            is discarded. Resets from a row's length on are ignored.
        reverse: Whether each row runs from its last valid step to its first.
        activation: The name of sigma: see `srnn.SRNN`.
        final: Whether to return only the last state of each row. With ReLU or clip this keeps one integer per unit for the
            derivative, and nothing that grows with T.
        backend: "auto", "native", "reference", "torch" or "triton".

    Returns:
        The states [N, T, H], or with `final` the state after each row's last step [N, H].
    """
    _check_tensors(b=b, ids=ids)
    if h0 is None:
        arguments.scan_input("b", b, ids)
        h0 = b.new_zeros(b.shape[0] if ids is None else ids.shape[0], b.shape[-1])
    sequence = {"ids": ids, "permutation": permutation, "lengths": lengths, "reset": reset}
    output, h_n = scan(b, h0, **sequence, reverse=reverse, activation=activation, final=final, backend=backend)
    return h_n if output is None else output


def scan(
    b: Tensor,
    h0: Tensor,
    *,
    ids: Maybe = None,
    permutation: Maybe = None,
    lengths: Maybe = None,
    reset: Maybe = None,
    reverse: bool = False,
    activation: str = "relu",
    final: bool = False,
    backend: str = "auto",
) -> tuple[Any, Tensor]:
    """Returns all states [N, T, H], or None with `final`, and the state after each row's last step [N, H].

    See `shuffle_scan` for the arguments.
    """
    namespace = _namespace(backend, b)
    _check_tensors(b=b, h0=h0, ids=ids, permutation=permutation, lengths=lengths, reset=reset)
    sequence = (ids, permutation, lengths, reset, reverse, activation)
    arguments.shuffle_scan(b, h0, *sequence)
    if namespace is None:
        _check_values(b, ids, permutation, lengths)
        output, h_n = reference.shuffle_scan(b, h0, *sequence)
    elif final and ACTIVATIONS[activation].bounds is not None:
        return None, _call(namespace.shuffle_scan_final, b, h0, *sequence)[0]
    else:
        output, h_n, _ = _call(namespace.shuffle_scan, b, h0, *sequence)
    return None if final else output, h_n


def gated_scan(
    z: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    x: Tensor,
    gate_weight: Tensor | None,
    gate_bias: Tensor | None,
    h0: Tensor,
    *,
    permutation: Tensor | None = None,
    lengths: Tensor | None = None,
    reset: Tensor | None = None,
    reverse: bool = False,
    activation: str = "relu",
    final: bool = False,
    backend: str = "auto",
) -> tuple[Any, Tensor]:
    """Scans b = (z weight^T + bias) * sigmoid(x gate_weight^T + gate_bias) without ever holding all of b.

    Args:
        z: [N, T, K].
        weight: [H, K].
        bias: [H] or None.
        x: [N, T, C].
        gate_weight: [H, C]; None for no gate.
        gate_bias: [H] or None.
        h0: The initial state [N, H].
        permutation: As in `shuffle_scan`, and so are the other arguments.
        lengths: [N].
        reset: [N, T].
        reverse: Whether rows run backwards.
        activation: The name of sigma.
        final: Whether only the last state is wanted.
        backend: The backend.

    Returns:
        All states [N, T, H], or None with `final`, and the state after each row's last step [N, H].
    """
    namespace = _namespace(backend, z)
    inputs = (z, weight, bias, x, gate_weight, gate_bias)
    sequence = (permutation, lengths, reset, reverse, activation)
    arguments.gated_scan(*inputs, h0, *sequence)
    if namespace is None:
        b = pytorch.input_drive(*inputs)
        _check_values(b, None, permutation, lengths)
        output, h_n = reference.shuffle_scan(b, h0, None, *sequence)
    elif final and ACTIVATIONS[activation].bounds is not None:
        return None, _call(namespace.gated_scan_final, *inputs, h0, *sequence)[0]
    else:
        output, h_n, _ = _call(namespace.gated_scan, *inputs, h0, *sequence)
    return None if final else output, h_n


CELL_ROWS = 32  # with more sequences, torch's matrix products are faster than the compiled step; a GPU calls those anyway


def takes_cell(x: Tensor) -> bool:
    """Whether `cell` can run for this input: few rows on a CPU, or Triton; no transforms and no compiled graphs."""
    return (
        not torch.compiler.is_compiling()
        and x.dtype in (torch.float32, torch.float64)
        and (
            (x.is_cpu and NATIVE_ERROR is None and _default in ("auto", "native") and x.numel() <= CELL_ROWS * x.shape[-1])
            or (x.is_cuda and _default in ("auto", "triton") and triton.error(x.device) is None)
        )
        and not ops.is_transformed()
    )


def cell(
    x: Tensor, h: Tensor, maps: Sequence[Tensor], permutation: Tensor | None, gate: bool, bias: bool, activation: str
) -> Tensor:
    """Computes one step h' = sigma(P h + b(x)) by one operator, where `takes_cell` allows it.

    Args:
        x: The input [..., C].
        h: The state [..., H].
        maps: The weights (and biases) of f_r's linear maps, then of the gate.
        permutation: [H]; None is the shift.
        gate: Whether there is a gate.
        bias: Whether `maps` has biases.
        activation: The name of sigma.

    Returns:
        The next state [..., H].
    """
    if torch.is_grad_enabled() and (x.requires_grad or h.requires_grad or any(m.requires_grad for m in maps)):
        return ops.Cell.apply(x, h, permutation, gate, bias, activation, *maps)
    return torch.ops.srnn.cell.default(x, h, maps, permutation, gate, bias, activation)


@contextmanager
def use(backend: str) -> Iterator[None]:
    """Makes "auto" mean another backend: `with kernels.use("reference"): ...`.

    It holds for all threads of the process. The environment variable SRNN_BACKEND sets the backend outside of any `use`.

    Args:
        backend: "auto", "native", "reference", "torch" or "triton".

    Raises:
        SettingError: If there is no backend of this name.
        BackendError: If the backend is not available.
    """
    global _default
    before, _default = _default, _available(backend)
    try:
        yield
    finally:
        _default = before


def default_backend() -> str:
    """Returns the name that was given to `use` or is in SRNN_BACKEND, which need not be that of a backend; else "auto"."""
    return _default


def auto_backend(device: torch.device = torch.device("cpu")) -> str:  # noqa: B008  a constant
    """Returns what "auto" runs on a device: the default backend if one was chosen, else a compiled one if there is, else torch.

    Raises:
        SettingError: If SRNN_BACKEND names no backend.
        BackendError: If native or triton was chosen and is not available.
    """
    wish = _available_default()
    if wish != "auto":
        return wish
    if device.type == "cpu":
        return "native" if NATIVE_ERROR is None else "torch"
    return "triton" if triton.error(device) is None else "torch"


def _available_default() -> str:
    return _available(_default, "backend ($SRNN_BACKEND)")


def _available(backend: str, what: str = "backend") -> str:
    """The backend, if there is one of this name and it is installed."""
    if backend not in BACKENDS:
        raise one_of(what, backend, BACKENDS)
    reason = NATIVE_ERROR if backend == "native" else TRITON_ERROR if backend == "triton" else None
    if reason is not None:
        raise BackendError(f"backend {backend!r} is not available: {reason}")
    return backend


def _namespace(backend: str, tensor: Tensor) -> Any:
    """The operators to call; None for the reference. A backend asked for by name runs or raises."""
    chosen = _available_default() if backend == "auto" else _available(backend)
    if ops.is_differentiated():
        if backend not in ("auto", "reference"):
            raise DerivativeError(
                f"backend {backend!r} has no derivatives forward or by torch.func. Use backend='auto' for the plain loop"
            )
        return None
    if chosen == "native" and tensor.device.type != "cpu":
        raise BackendError(f"backend 'native' runs on the CPU, and the tensors are on {tensor.device}. Use backend='auto'")
    if chosen == "triton":
        if (reason := triton.error(tensor.device)) is not None:
            raise BackendError(f"backend 'triton' cannot run: {reason}")
        return torch.ops.srnn_triton if tensor.device.type == "cpu" else torch.ops.srnn
    return {"reference": None, "torch": torch.ops.srnn_torch}.get(chosen, torch.ops.srnn)


def _call(op: Callable[..., Any], *args: Any) -> Any:
    """Calls an operator and converts its errors about values to ours; in a compiled graph they stay RuntimeErrors."""
    if torch.compiler.is_compiling():
        return op(*args)
    try:
        return op(*args)
    except RuntimeError as error:
        kind = _VALUE_ERRORS.get(str(error).split(" ", 1)[0])
        if kind is None or isinstance(error, kind):
            raise
        raise kind(str(error).splitlines()[0]) from None


def _check_values(b: Tensor, ids: Maybe, permutation: Maybe, lengths: Maybe) -> None:
    if "Vmap" not in ops.transforms():  # inside which values cannot be read
        pytorch.check_values(b, ids, permutation, lengths)


def _check_tensors(**given: object) -> None:
    for name, value in given.items():
        if value is not None:
            checks.tensor(name, value)
