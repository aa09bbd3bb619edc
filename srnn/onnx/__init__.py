"""ONNX: `TABLE` lets `torch.onnx.export` translate our operators, and `export` writes a layer with free batch and time axes.

    torch.onnx.export(model, args, "model.onnx", dynamo=True, custom_translation_table=srnn.onnx.TABLE)

Every layer and direction becomes one ONNX `Scan` (scans.py), whatever the number of steps. Importing this file needs neither
onnx nor onnxscript. Translating needs both: pip install 'srnn[onnx]'.

N sequences, T steps, C inputs, H units, V symbols.
"""

import functools
import importlib
import importlib.util
import logging
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim

from srnn import checks
from srnn.errors import MissingPackageError, SettingTypeError
from srnn.kernels import ACTIVATIONS, ops
from srnn.layer import SRNN
from srnn.stack import SRNNStack

OPSET = 18  # the version of ONNX's operators that `export` writes
INT64, FLOAT = 7, 1  # ONNX's numbers of these dtypes
CHATTY = ("torch.onnx._internal.exporter._registration", "onnxscript.optimizer._constant_folding")  # loggers
Table = dict[Callable[..., Any], Callable[..., Any]]


def export(
    module: SRNN | SRNNStack, file: str | os.PathLike[str], *, alphabet: Tensor | None = None, lengths: bool = False
) -> None:
    """Writes a layer as an ONNX file with free batch and time axes, whose state goes in and comes out.

    The inputs are `input` and `hx`, the outputs `output` and `h_n`, all as in `SRNN.forward`. For streaming, pass h_n as the
    next hx. An existing file is replaced. The axes are free from 1 on: onnxruntime ends the process for an empty batch or no
    steps.

    Args:
        module: The layer. It is exported as in evaluation, without dropout.
        file: The path of the file.
        alphabet: [V, C]. The input then holds symbols, int64 from 0 to V - 1.
        lengths: Whether the file has a third input, `lengths` [N], int64.

    Raises:
        MissingPackageError: If onnx or onnxscript is not installed.
        TracingError: If torch cannot export the layer.
    """
    if not isinstance(module, (SRNN, SRNNStack)):
        raise SettingTypeError(f"export takes an SRNN or an SRNNStack, got {type(module).__name__}. See srnn.onnx.TABLE")
    weight, N, T = module._weight, Dim("N"), Dim("T")
    sizes, axes = ((2, 3), {0: N, 1: T}) if module.batch_first else ((3, 2), {0: T, 1: N})
    if alphabet is None:
        x = torch.zeros(*sizes, module.input_size, dtype=weight.dtype, device=weight.device)
    else:
        alphabet = checks.numbers("alphabet", alphabet, weight)
        x = torch.zeros(sizes, dtype=torch.int64, device=weight.device)
    directions = 2 if module.bidirectional else 1
    hx = torch.zeros(module.num_layers * directions, 2, module.hidden_size, dtype=weight.dtype, device=weight.device)
    inputs: dict[str, tuple[Tensor, Any]] = {"input": (x, axes), "hx": (hx, {1: N})}
    if lengths:
        inputs["lengths"] = torch.full((2,), 3, device=weight.device), {0: N}
    write(_Layer(module, alphabet), inputs, ("output", "h_n"), file)


class _Layer(nn.Module):
    """A layer with its alphabet, which ONNX cannot take as a keyword."""

    def __init__(self, layer: nn.Module, alphabet: Tensor | None) -> None:
        super().__init__()
        self.layer = layer
        self.register_buffer("alphabet", alphabet)

    def forward(self, input: Tensor, hx: Tensor, lengths: Tensor | None = None) -> Any:
        return self.layer(input, hx, lengths=lengths, alphabet=self.alphabet)


def write(
    module: nn.Module,
    inputs: Mapping[str, tuple[Tensor, Any]],
    outputs: Sequence[str],
    file: str | os.PathLike[str],
    about: Mapping[str, str] = {},
) -> None:
    """Writes any module that contains our layers as an ONNX file.

    Args:
        module: The module. It is exported as in evaluation.
        inputs: By the name of an argument of `forward`, an example and the free axes, as `torch.export` has them.
        outputs: The names of the results.
        file: The path of the file.
        about: Texts for the file's metadata.
    """
    require_packages()
    was_training = module.training
    try:
        with _quiet():
            program = torch.onnx.export(
                module.eval(),
                kwargs={name: example for name, (example, _) in inputs.items()},
                dynamic_shapes={name: axes for name, (_, axes) in inputs.items()},
                input_names=list(inputs),
                output_names=list(outputs),
                opset_version=OPSET,
                custom_translation_table=TABLE,
                dynamo=True,
                verbose=False,
            )
    finally:
        module.train(was_training)
    assert program is not None
    program.model.metadata_props.update(about)
    program.save(file)


def require_packages() -> None:
    """Raises unless onnx and onnxscript are installed."""
    missing = [name for name in ("onnx", "onnxscript") if importlib.util.find_spec(name) is None]
    if missing:
        raise MissingPackageError(f"ONNX needs {' and '.join(missing)}. Install with: pip install 'srnn[onnx]'")


@contextmanager
def _quiet() -> Any:
    """Without messages of torch about packages that we do not use and about its own code."""
    logs = [logging.getLogger(name) for name in CHATTY]
    levels = [log.level for log in logs]
    for log in logs:
        log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for log, level in zip(logs, levels, strict=True):
            log.setLevel(level)


def shuffle_scan(
    b: Any, h0: Any, ids: Any, permutation: Any, lengths: Any, reset: Any, reverse: bool, activation: str, final: bool = False
) -> tuple[Any, ...]:
    """Translates `srnn::shuffle_scan`, and `srnn::shuffle_scan_final` with `final`."""
    b = b if ids is None else _op().Gather(b, _op().Cast(ids, to=INT64))
    return _scan(b, h0, permutation, lengths, reset, reverse, activation, final)


def gated_scan(
    z: Any,
    weight: Any,
    bias: Any,
    x: Any,
    gate_weight: Any,
    gate_bias: Any,
    h0: Any,
    permutation: Any,
    lengths: Any,
    reset: Any,
    reverse: bool,
    activation: str,
    final: bool = False,
) -> tuple[Any, ...]:
    """Translates `srnn::gated_scan`, and `srnn::gated_scan_final` with `final`."""
    b = _drive(z, weight, bias, x, gate_weight, gate_bias)
    return _scan(b, h0, permutation, lengths, reset, reverse, activation, final)


def cell(x: Any, h: Any, maps: Any, permutation: Any, gate: bool, bias: bool, activation: str) -> Any:
    """Translates `srnn::cell`."""
    op = _op()
    each: list[Any] = list(zip(maps[::2], maps[1::2], strict=True)) if bias else [(weight, None) for weight in maps]
    last = len(each) - 1 - gate
    z = x
    for linear in each[:last]:
        z = op.Relu(_linear(z, *linear))
    (weight, offset), (gate_weight, gate_bias) = each[last], each[-1] if gate else (None, None)
    b = _drive(z, weight, offset, x, gate_weight, gate_bias)
    P_h = op.Gather(h, _index(permutation, h.shape[-1]), axis=-1)
    bounds = ACTIVATIONS[activation].bounds
    return op.Tanh(P_h + b) if bounds is None else op.Clip(P_h + b, *(op.CastLike(bound, b) for bound in bounds))


TABLE: Table = {torch.ops.srnn.cell.default: cell} | {
    getattr(getattr(torch.ops, namespace), name).default: function
    for namespace in ops.NAMESPACES
    for scan in (shuffle_scan, gated_scan)
    for name, function in ((scan.__name__, scan), (f"{scan.__name__}_final", functools.partial(scan, final=True)))
}


def _scans() -> Any:
    """scans.py, which needs onnxscript."""
    return importlib.import_module("srnn.onnx.scans")


def _op() -> Any:
    """ONNX's own operators."""
    return _scans().op


def _nothing() -> Any:
    """In place of a result that nobody reads: it is removed with all that is unused."""
    return _op().Constant(value_int=0)


def _is_half(x: Any) -> bool:
    return x.dtype is not None and x.dtype.name in ("FLOAT16", "BFLOAT16")  # results of other nodes have no dtype yet


def _wide(x: Any) -> Any:
    """Half precision as float32, in which the operators compute."""
    return _op().Cast(x, to=FLOAT) if _is_half(x) else x


def _index(permutation: Any, H: int) -> Any:
    """Where P takes each unit from."""
    op = _op()
    return op.Constant(value_ints=[*range(1, H), 0]) if permutation is None else op.Cast(permutation, to=INT64)


def _drive(z: Any, weight: Any, bias: Any, x: Any, gate_weight: Any, gate_bias: Any) -> Any:
    """b = (z W^T + c) * sigmoid(x U^T + e), without a gate_weight only the first factor."""
    b = _linear(z, weight, bias)
    return b if gate_weight is None else _op().Mul(b, _op().Sigmoid(_linear(x, gate_weight, gate_bias)))


def _linear(x: Any, weight: Any, bias: Any) -> Any:
    product = _op().MatMul(_wide(x), _op().Transpose(_wide(weight), perm=[1, 0]))
    return product if bias is None else _op().Add(product, _wide(bias))


def _scan(
    b: Any, h0: Any, permutation: Any, lengths: Any, reset: Any, reverse: bool, activation: str, final: bool
) -> tuple[Any, ...]:
    """All states (not with `final`) and the last ones, in the dtype of h0. What is kept for the derivative is not computed."""
    scans, op, h, bounds, order = _scans(), _op(), _wide(h0), ACTIVATIONS[activation].bounds, [int(reverse)]
    b = op.Cast(b, to=FLOAT) if _is_half(h0) else b
    given = b, h, _index(permutation, h0.shape[1])
    given += () if bounds is None else tuple(op.CastLike(bound, h) for bound in bounds)
    states = None
    if lengths is not None or reset is not None:
        cut, valid = _masks(b, lengths, reset, reverse)
        scan = scans.masked_tanh_scan if bounds is None else scans.masked_clamp_scan
        states, h_n = scan(*given, cut, valid, order=3 * order, order_out=order)
        states = op.Where(valid, states, op.CastLike(0.0, h))
    elif final:
        h_n = scans.clamp_scan_final(*given, order=order)
    else:
        states, h_n = (scans.tanh_scan if bounds is None else scans.clamp_scan)(*given, order=order, order_out=order)
    results = [op.CastLike(each, h0) for each in ((h_n,) if final else (states, h_n))]
    return *results, _nothing()


def _masks(b: Any, lengths: Any, reset: Any, reverse: bool) -> tuple[Any, Any]:
    """Where a step starts from zeros, and where a row has a step: booleans [N, T, 1]."""
    op = _op()
    if lengths is None:
        valid = op.Or(reset, op.Not(reset))
    else:
        steps = op.Range(0, op.Squeeze(op.Shape(b, start=1, end=2)), 1)
        valid = op.Less(steps, op.Unsqueeze(op.Cast(lengths, to=INT64), [1]))
    cut = op.And(valid, op.Not(valid) if reset is None else reset)
    if reverse:  # the border that a step crosses is behind it: that of step t + 1
        cut = op.Slice(op.Pad(cut, [0, 0, 0, 1]), [1], [2**62], [1])
    return op.Unsqueeze(cut, [2]), op.Unsqueeze(valid, [2])
