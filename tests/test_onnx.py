"""Exported ONNX files give what PyTorch gives, for any number of sequences and steps, in onnxruntime."""

import itertools
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

import srnn.onnx
from srnn import SRNN, SRNNStack, kernels
from srnn.errors import MissingPackageError, SettingTypeError
from srnn.kernels.activations import Activation

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxscript")
onnxruntime = pytest.importorskip("onnxruntime")

C, H, V = 3, 5, 6
STEPS = (1, 7, 1000)
# Warnings of torch's exporter, about its own code and about names of axes.
pytestmark = pytest.mark.filterwarnings(
    "ignore::FutureWarning", "ignore:.*torch.jit:DeprecationWarning", "ignore:# The axis name"
)

BACKENDS = {"relu6": "torch"}  # the compiled kernels do not know it
Run = Callable[..., list[Tensor]]


def session(file: Path) -> Run:
    """Returns a function that runs the file on tensors, by the names of the inputs."""
    loaded = onnxruntime.InferenceSession(file.read_bytes(), providers=["CPUExecutionProvider"])
    return lambda **given: [
        torch.from_numpy(numpy.asarray(found)) for found in loaded.run(None, {k: v.numpy() for k, v in given.items()})
    ]


def assert_equal(found: list[Tensor], expected: Any) -> None:
    """ReLU has no upper bound, so that 1e-5 is meant of the largest state, or of 1 if all are smaller."""
    assert len(found) == len(expected)
    for got, wanted in zip(found, expected, strict=True):
        scale = max(1.0, float(wanted.detach().abs().max()) if wanted.numel() else 1.0)
        torch.testing.assert_close(got, wanted.detach(), rtol=0, atol=1e-5 * scale)


def scans(file: Path) -> int:
    """Counts the Scan nodes of a file."""
    return sum(node.op_type == "Scan" for node in onnx.load(file).graph.node)


def test_a_layer_has_free_axes_lengths_and_one_scan_per_direction(tmp_path: Path) -> None:
    rnn, file = SRNN(C, H, bidirectional=True), tmp_path / "layer.onnx"
    srnn.onnx.export(rnn, file, lengths=True)
    assert scans(file) == 2
    assert [(each.domain, each.version) for each in onnx.load(file).opset_import if not each.domain] == [("", srnn.onnx.OPSET)]
    run = session(file)
    for N, T in itertools.product((1, 3), STEPS):
        x, hx, lengths = torch.randn(T, N, C), torch.randn(2, N, H), torch.randint(T + 1, (N,))
        assert_equal(run(input=x, hx=hx, lengths=lengths), rnn(x, hx, lengths=lengths))


def test_a_stack_takes_symbols_and_streams(tmp_path: Path) -> None:
    rnn, alphabet, file = SRNNStack(C, H, 1, batch_first=True, dropout=0.5), torch.randn(V, C), tmp_path / "stack.onnx"
    srnn.onnx.export(rnn, file, alphabet=alphabet)
    assert rnn.training  # as it was, and exported without dropout
    assert scans(file) == 1
    rnn.eval()
    run = session(file)
    for T in STEPS:
        ids, hx = torch.randint(V, (2, T)), torch.randn(1, 2, H).clamp(-1, 1)
        expected = rnn(ids, hx, alphabet=alphabet)
        assert_equal(run(input=ids, hx=hx), expected)
        if T == 7:
            first, h = run(input=ids[:, :3], hx=hx)
            second, h_n = run(input=ids[:, 3:], hx=h)
            assert_equal([torch.cat([first, second], 1), h_n], expected)


class Everything(nn.Module):
    """Calls every operator in every form."""

    def forward(self, b: Tensor, table: Tensor, ids: Tensor, h0: Tensor, lengths: Tensor, reset: Tensor) -> tuple[Tensor, ...]:
        found: list[Tensor] = []
        permutation = torch.tensor([2, 0, 1, 4, 3])
        for activation, reverse, masked in itertools.product(kernels.ACTIVATIONS, (False, True), (False, True)):
            how: dict[str, Any] = {"activation": activation, "reverse": reverse, "backend": BACKENDS.get(activation, "auto")}
            how |= {"lengths": lengths, "reset": reset} if masked else {"permutation": permutation}
            found += kernels.scan(b, h0, **how)
        found += kernels.scan(table, h0, ids=ids, reset=reset, reverse=True)
        found.append(kernels.scan(table, h0, ids=ids, final=True, reverse=True)[1])
        found.append(kernels.scan(b, h0, final=True, lengths=lengths, activation="clip")[1])
        found += (self.cell(b[:, 0], h0, activation) for activation in kernels.ACTIVATIONS if activation not in BACKENDS)
        return (*found, self.in_half(b, h0))

    def cell(self, x: Tensor, h: Tensor, activation: str) -> Tensor:
        maps = [torch.eye(H), torch.ones(H), torch.eye(H) * 2, torch.zeros(H), torch.eye(H) * 3, torch.ones(H)]
        return torch.ops.srnn.cell(x, h, maps, None, True, True, activation)

    def in_half(self, b: Tensor, h0: Tensor) -> Tensor:
        return kernels.gated_scan(b.half(), torch.eye(H).half(), None, b.half(), None, None, h0.half())[0].float()


def test_every_operator_in_every_form_is_translated_for_a_users_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also with a bounded activation of which there is only a line in the table."""
    monkeypatch.setitem(kernels.ACTIVATIONS, "relu6", Activation(nn.functional.relu6, (0.0, 6.0)))
    N, T = Dim("N"), Dim("T")
    module, file, axes = Everything().eval(), tmp_path / "everything.onnx", {0: N, 1: T}

    def given(N: int, T: int) -> dict[str, Tensor]:
        each = {"b": torch.randn(N, T, H), "table": torch.randn(V, H), "ids": torch.randint(V, (N, T)), "h0": torch.randn(N, H)}
        return each | {"lengths": torch.randint(T + 1, (N,)), "reset": torch.rand(N, T) < 0.3}

    shapes = {"b": axes, "table": None, "ids": axes, "h0": {0: N}, "lengths": {0: N}, "reset": axes}
    torch.onnx.export(
        module,
        kwargs=given(2, 3),
        dynamic_shapes=shapes,
        dynamo=True,
        custom_translation_table=srnn.onnx.TABLE,
        verbose=False,
        f=file,
    )
    run = session(file)
    for rows, steps in ((1, 1), (4, 9)):
        inputs = given(rows, steps)
        *found, half = run(**inputs)
        *expected, half_expected = module(**inputs)
        assert_equal(found, expected)
        torch.testing.assert_close(half, half_expected, rtol=2e-3, atol=2e-3)


def test_missing_packages_and_other_modules_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingTypeError, match=r"export takes an SRNN or an SRNNStack, got GRU. See srnn\.onnx\.TABLE"):
        srnn.onnx.export(nn.GRU(C, H), tmp_path / "gru.onnx")  # type: ignore[arg-type]
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "onnxscript" else name)
    with pytest.raises(MissingPackageError, match=r"^ONNX needs onnxscript. Install with: pip install 'srnn\[onnx\]'$"):
        srnn.onnx.export(SRNN(C, H), tmp_path / "layer.onnx")
    assert not list(tmp_path.iterdir())


def test_the_table_needs_no_onnxscript() -> None:
    program = (
        "import sys; sys.modules['onnx'] = sys.modules['onnxscript'] = None; import srnn.onnx; print(len(srnn.onnx.TABLE))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "9\n"
