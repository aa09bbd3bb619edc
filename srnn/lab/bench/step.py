"""`srnn bench --step`: the cost of one time step, for programs that see one input at a time.

`SRNN.step` and `SRNNCell` are compared with `nn.GRUCell`, and `SRNN.forward` on a sequence of one step with `nn.GRU`.
All layers have 128 inputs and 128 units and run on one thread. "With gradients" is a forward and a backward pass with
gradients of all weights, of the input and of the state. If onnxruntime is installed, its GRU runs with the weights of the
`nn.GRU`. A second table has nanoseconds of exported models (streaming.py).
"""

import importlib.util
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy
import torch
from rich.console import Console
from torch import Tensor, nn

from srnn import SRNN, SRNNCell, SRNNStack
from srnn.errors import SettingError
from srnn.lab.bench import streaming
from srnn.lab.bench.clock import Call, Clock, ratio
from srnn.lab.bench.result import Table, conduct, origin

C = H = 128
CALLS = 50  # steps in one measurement, so that the time of reading the clock does not matter
CASES = {"batch 1": (1, False), "batch 16": (16, False), "batch 16, with gradients": (16, True)}
# side: what it is compared with, and the largest ratio of times that is wanted
COMPARED: dict[str, tuple[str, float | None]] = {
    "SRNN.step": ("nn.GRUCell", 0.7),
    "SRNNCell": ("nn.GRUCell", 0.7),
    "SRNNStack.step, 2 layers": ("nn.GRUCell", None),
    "SRNN, T = 1": ("nn.GRU, T = 1", 1.0),
    "onnxruntime GRU, T = 1": ("nn.GRU, T = 1", None),
}
MEANING = (
    "Time of one step over that of the layer in the second column, 128 inputs and 128 units, one thread. Below 1 is faster. "
    "With gradients: forward and backward. SRNNStack.step runs two layers and more maps than SRNN.step."
)


def sides(N: int, with_gradients: bool) -> dict[str, Call]:
    """Returns a call for each layer that makes CALLS steps, on the same input, after a check that their results agree."""
    cell, gru, rnn, stack = nn.GRUCell(C, H), nn.GRU(C, H), SRNN(C, H), SRNNStack(C, H, 2)
    ours = SRNNCell(C, H)
    x, h = (torch.randn(N, size, requires_grad=with_gradients) for size in (C, H))
    hx, hx2 = h.detach()[None].requires_grad_(with_gradients), torch.randn(2, N, H, requires_grad=with_gradients)
    sequence = x.detach()[None].requires_grad_(with_gradients)
    steps: dict[str, Any] = {
        "nn.GRUCell": lambda: cell(x, h),
        "SRNN.step": lambda: rnn.step(x, hx),
        "SRNNCell": lambda: ours(x, h),
        "SRNNStack.step, 2 layers": lambda: stack.step(x, hx2)[0],
        "nn.GRU, T = 1": lambda: gru(sequence, hx)[0],
        "SRNN, T = 1": lambda: rnn(sequence, hx)[0],
    }
    if not with_gradients and (session := onnx_gru(gru, N)) is not None:
        given = {"x": sequence.numpy(), "h": hx.numpy()}
        difference = float(abs(session.run(None, given)[0].reshape(N, H) - gru(sequence, hx)[0][0].detach().numpy()).max())
        if not difference < 1e-5:
            raise SettingError(f"onnxruntime's GRU must give what nn.GRU gives, and it is off by {difference:.1e}")
        steps["onnxruntime GRU, T = 1"] = lambda: session.run(None, given)
    check(steps)
    grad = torch.ones(N, H)
    return {name: _repeated(step, grad if with_gradients else None) for name, step in steps.items()}


def _repeated(step: Any, grad: Tensor | None) -> Call:
    def call() -> None:
        for _ in range(CALLS):
            output = step()
            if grad is not None:
                output.backward(grad.view(output.shape))

    return call


def check(steps: Mapping[str, Any]) -> None:
    """Raises a SettingError if a step of SRNN does not equal a sequence of one step."""
    found, expected = steps["SRNN.step"](), steps["SRNN, T = 1"]()
    if not torch.allclose(found, expected, atol=1e-6):
        raise SettingError("SRNN.step must equal SRNN on a sequence of one step. It does not, and nothing was timed")


def onnx_gru(gru: nn.GRU, N: int) -> Any:
    """Returns an onnxruntime session with the weights of `gru`, or None if onnx and onnxruntime are not installed."""
    if any(importlib.util.find_spec(name) is None for name in ("onnx", "onnxruntime")):
        return None
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    def of_gates(tensor: Tensor) -> Any:  # torch has reset, update, new; ONNX has update, reset, new
        r, z, n = tensor.detach().chunk(3)
        return torch.cat([z, r, n]).numpy()

    ih, hh, bias_ih, bias_hh = (of_gates(parameter) for parameter in gru.parameters())
    weights = {"W": ih[None], "R": hh[None], "B": numpy.concatenate([bias_ih, bias_hh])[None]}
    node = helper.make_node(
        "GRU", ["x", "W", "R", "B", "", "h"], ["y", "h_n"], hidden_size=gru.hidden_size, linear_before_reset=1
    )
    values = {"x": [1, N, gru.input_size], "h": [1, N, gru.hidden_size]}
    graph = helper.make_graph(
        [node],
        "gru",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in values.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1, N, gru.hidden_size])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def measure(rounds: int) -> dict[str, Any]:
    """Measures all layers in turns, and returns for each case the ratios of their times."""
    torch.manual_seed(0)
    found = []
    for title, (N, with_gradients) in CASES.items():
        with torch.set_grad_enabled(with_gradients):
            times = Clock(rounds).race(sides(N, with_gradients))
        ratios = {side: ratio(times, side, other) for side, (other, _) in COMPARED.items() if side in times}
        best = {name: 1e6 * min(seconds) / CALLS for name, seconds in times.items()}
        found.append({"case": title, "ratios": ratios, "best_microseconds": best})
    return {"rounds": rounds, "measured": found, "streaming": streaming.measure(rounds)}


def main(
    rounds: int = 15, quick: bool = False, out: Path | None = None, readme: Path | None = None, console: Console | None = None
) -> None:
    """Measures, prints, and writes the record and, if asked, the block of a document."""
    console = console or Console()
    console.print("measuring one step of every layer")
    conduct("step", partial(measure, rounds), parts, quick=quick, threads=1, out=out, readme=readme, console=console)


def parts(record: Mapping[str, Any]) -> Iterator[Table | str]:
    """Yields the table of a record, what it means, and its origin."""
    cases, rows = record["measured"], []
    for side, (other, wanted) in COMPARED.items():
        cells = [f"{case['ratios'][side]:.2f}" if side in case["ratios"] else "not run" for case in cases]
        rows.append([side, other, *cells, "" if wanted is None else f"{wanted:g}"])
    yield Table(["layer", "compared with", *(case["case"] for case in cases), "target, at most"], rows, names=2)
    yield MEANING
    if "streaming" in record:  # older records have none
        yield from streaming.parts(record["streaming"])
    yield origin(record, f"torch {record['versions']['torch']}")
