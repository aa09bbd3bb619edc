"""`srnn bench --step`: the cost of one time step, for programs that see one input at a time.

Two comparisons: `SRNN.step` and `SRNNCell` with `nn.GRUCell`, and `SRNN.forward` on a sequence of one step with `nn.GRU`. All
layers have 128 inputs and 128 units and run on one thread. "With gradients" is a forward and a backward pass with gradients of
all weights, of the input and of the state. onnxruntime's GRU, where it is installed, runs the weights of the `nn.GRU`.
"""

import importlib.util
from collections.abc import Mapping
from contextlib import AbstractContextManager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy
import torch
from rich import box
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from srnn import SRNN, SRNNCell, SRNNStack
from srnn.errors import SettingError
from srnn.lab.bench.clock import Call, Clock, ratio
from srnn.lab.records import store

RECORD = Path("results/bench-step.json")
C = H = 128
CALLS = 50  # in one measurement, so that reading the clock does not count
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
    "With gradients: forward and backward. SRNNStack.step runs two layers and five more maps than SRNN.step."
)


def sides(N: int, with_gradients: bool) -> dict[str, Call]:
    """One step of every layer, on the same input."""
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
            raise SettingError(f"onnxruntime's GRU must give what nn.GRU gives; it is off by {difference:.1e}")
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
    """Before anything is timed: a step equals a sequence of one step."""
    found, expected = steps["SRNN.step"](), steps["SRNN, T = 1"]()
    if not torch.allclose(found, expected, atol=1e-6):
        raise SettingError("SRNN.step must equal SRNN on a sequence of one step; it does not, and nothing was timed")


def onnx_gru(gru: nn.GRU, N: int) -> Any:
    """An onnxruntime session with the weights of `gru`; None where onnx and onnxruntime are not installed."""
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


def measure(rounds: int) -> list[dict[str, Any]]:
    """The ratios of every case, sides taking turns."""
    found = []
    for title, (N, with_gradients) in CASES.items():
        mode: AbstractContextManager[Any] = torch.enable_grad() if with_gradients else torch.no_grad()
        with mode:
            times = Clock(rounds).race(sides(N, with_gradients))
        ratios = {side: ratio(times, side, other) for side, (other, _) in COMPARED.items() if side in times}
        best = {name: 1e6 * min(seconds) / CALLS for name, seconds in times.items()}
        found.append({"case": title, "ratios": ratios, "best_microseconds": best})
    return found


def main(rounds: int = 15, out: Path | None = None, readme: Path | None = None, console: Console | None = None) -> int:
    """Measures, prints, writes the record and, if asked, the block of a document."""
    console, threads = console or Console(), torch.get_num_threads()
    if readme is not None:
        store.filled(readme, "step", "")  # fails now rather than after the measurement
    started = datetime.now(timezone.utc).isoformat(timespec="seconds")
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]), console.status("one step of every layer"):
            torch.manual_seed(0)
            measured = measure(rounds)
    finally:
        torch.set_num_threads(threads)
    record = {"kind": "step", **store.environment(), "started": started, "rounds": rounds, "measured": measured}
    store.write(out or RECORD, record)
    heading, *body = rows(record)
    table = Table(*heading, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    for row in body:
        table.add_row(*row)
    console.print(table, MEANING, sep="\n", highlight=False, markup=False)
    console.print(f"record: {out or RECORD}", soft_wrap=True)
    if readme is not None:
        store.replace(readme, store.filled(readme, "step", block(record)))
    return 0


def rows(record: Mapping[str, Any]) -> list[list[str]]:
    """The heading and a row for each side, from a record."""
    cases = record["measured"]
    body = []
    for side, (other, wanted) in COMPARED.items():
        cells = [f"{case['ratios'][side]:.2f}" if side in case["ratios"] else "not run" for case in cases]
        body.append([side, other, *cells, "" if wanted is None else f"{wanted:g}"])
    return [["layer", "compared with", *(case["case"] for case in cases), "wanted, at most"], *body]


def block(record: Mapping[str, Any]) -> str:
    """The table as Markdown, with its origin."""
    heading, *body = rows(record)
    rule = ["---", "---", *["--:"] * (len(heading) - 2)]
    lines = [f"| {' | '.join(cells)} |" for cells in (heading, rule, *body)]
    commit, machine = record["commit"]["id"][:10], record["machine"]["cpu"]
    origin = f"{machine}, torch {record['versions']['torch']}, {record['started']}, commit {commit}; record: `{RECORD}`."
    return "\n".join([*lines, "", MEANING, "", f"Measured on {origin}"])
