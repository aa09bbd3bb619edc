"""Headers in C give what PyTorch gives, compile without warnings, and say what they need."""

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from torch import Tensor, nn

import srnn.c
from srnn import SRNN, SRNNStack, kernels
from srnn.errors import ExportError, SettingError
from srnn.kernels.activations import Activation
from srnn.lab.export import c as exports

C, H, T = 6, 9, 200
ARM = "arm-linux-gnueabihf-gcc"
FLAGS = {"gcc": ("-O2", "-Wshadow"), "clang": ("-O2", "-Wshadow"), ARM: ("-O2", "-static")}
FORMS: dict[str, Callable[[], Any]] = {
    "shift": lambda: SRNN(C, H),
    "layers": lambda: SRNN(C, H, 3, mlp=(4, 5), permutation="partial", activation="clip"),
    "random": lambda: SRNN(C, H, permutation="random", activation="tanh", gate=False, bias=False),
    "identity": lambda: SRNN(C, H, mlp=(), permutation="identity"),
    "one unit": lambda: SRNN(C, 1, permutation="partial"),
    "stack": lambda: SRNNStack(C, H),
    "stack of one": lambda: SRNNStack(C, H, 1, mlp=(7,), bias=False, permutation="shift", width=5),
    "gru": lambda: nn.GRU(C, H, 2),
    "gru without bias": lambda: nn.GRU(C, H, bias=False),
}

needs_compiler = pytest.mark.skipif(exports.compiler() is None, reason="there is no C compiler")


def readout(n: int) -> nn.Module:
    return nn.Sequential(nn.LayerNorm(n), nn.Linear(n, 7), nn.ReLU(), nn.Dropout(0.5), nn.Linear(7, 4)).eval()


def run(text: str, x: Tensor, folder: Path, name: str = "model") -> Tensor:
    file = folder / "exported.h"
    file.write_text(text)
    return exports.outputs(file, name, x)


@needs_compiler
@pytest.mark.parametrize("form", FORMS)
def test_c_code_gives_what_pytorch_gives(form: str, tmp_path: Path) -> None:
    rnn, x = FORMS[form](), torch.randn(T, C)
    expected = rnn(x)[0].detach()
    found = run(srnn.c.header(rnn), x, tmp_path)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5 * max(1.0, float(expected.abs().max())))


@needs_compiler
@pytest.mark.parametrize("activation", [*kernels.ACTIVATIONS, "relu6"])
def test_a_line_in_the_table_of_activations_is_enough_for_c_code(
    activation: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(kernels.ACTIVATIONS, "relu6", Activation(nn.functional.relu6, (0.0, 6.0)))
    rnn, x = SRNN(C, H, activation=activation, gate=False), 5 * torch.randn(T, C)  # states reach their bounds
    with kernels.use("torch"):  # the compiled kernels do not know relu6
        expected = rnn(x)[0].detach()
    found = run(srnn.c.header(rnn), x, tmp_path)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5 * max(1.0, float(expected.abs().max())))


@needs_compiler
def test_symbols_go_in_and_a_readout_comes_out(tmp_path: Path) -> None:
    rnn, alphabet, ids, last = SRNN(C, H, 2), torch.randn(5, C), torch.randint(5, (T,)), readout(H)
    found = run(srnn.c.header(rnn, readout=last, alphabet=alphabet, name="prototype"), ids, tmp_path, "prototype")
    torch.testing.assert_close(found, last(rnn(ids, alphabet=alphabet)[0]).detach(), rtol=0, atol=1e-5)


@needs_compiler
@pytest.mark.parametrize("form", ["shift", "layers", "stack"])
def test_int8_code_gives_what_pytorch_gives_with_these_weights(form: str, tmp_path: Path) -> None:
    rnn, x, last = FORMS[form](), torch.randn(T, C), readout(H)
    rounded: Any = srnn.c.with_int8_weights(nn.ModuleList([rnn, last]))
    expected, exact = rounded[1](rounded[0](x)[0]).detach(), last(rnn(x)[0]).detach()
    found = run(srnn.c.header(rnn, readout=last, int8=True), x, tmp_path)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
    assert 1e-5 < (found - exact).abs().max() < 0.3
    weight = rnn.encode.weight if form == "stack" else rnn.b[0].linear.weight
    integers, scale = srnn.c.quantised(weight)
    assert (integers * scale[:, None] - weight).abs().max() <= weight.abs().max() / 254 + 1e-7


@pytest.mark.parametrize("compiler", FLAGS)
@pytest.mark.parametrize("int8", [False, True], ids=["float32", "int8"])
def test_each_compiler_accepts_the_code_without_warnings(compiler: str, int8: bool, tmp_path: Path) -> None:
    emulator = ["qemu-arm"] if compiler == ARM else []
    if not all(map(shutil.which, [compiler, *emulator])):
        pytest.skip(f"{compiler} is not installed")
    rnn, x = SRNNStack(C, H), torch.randn(20, C)
    sources = {"m.h": srnn.c.header(rnn, name="m", int8=int8), "main.c": exports.program_of("m")}
    program = exports.compiled(tmp_path, sources, *FLAGS[compiler], by=compiler)
    done = subprocess.run([*emulator, str(program)], input=x.numpy().tobytes(), capture_output=True, check=True)
    found = torch.from_numpy(numpy.frombuffer(done.stdout, numpy.float32).copy()).reshape(20, H)
    expected = (srnn.c.with_int8_weights(rnn) if int8 else rnn)(x)[0].detach()
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


@needs_compiler
def test_the_head_of_the_file_counts_bytes(tmp_path: Path) -> None:
    rnn = SRNN(C, H, mlp=(4,))
    text = srnn.c.header(rnn, name="m")
    assert f"flash   {4 * sum(p.numel() for p in rnn.parameters())} bytes: weights, float32" in text
    check = '#include "m.h"\nint main(void) { return m_init && m_step && sizeof(m_state) == SIZE ? 0 : 1; }\n'
    size = int(re.findall(r"RAM     (\d+) bytes of m_state", text)[0])
    assert size == 4 * H + 4
    program = exports.compiled(tmp_path, {"m.h": text, "main.c": check.replace("SIZE", str(size))}, "-O0", "-Wno-address")
    assert subprocess.run([str(program)], check=False).returncode == 0


@needs_compiler
def test_two_models_fit_in_one_program(tmp_path: Path) -> None:
    both = {f"{name}.h": srnn.c.header(SRNN(C, H), name=name) for name in ("first", "second")}
    uses = [
        f"{name}_state {name};\n    {name}_init(&{name});\n    {name}_step(&{name}, x, 0);\n" for name in ("first", "second")
    ]
    source = f'#include "first.h"\n#include "second.h"\nint main(void)\n{{ float x[{C}] = {{0}};\n{"".join(uses)}return 0; }}\n'
    assert exports.compiled(tmp_path, {**both, "main.c": source}, "-O1").exists()


def test_what_c_cannot_do_is_refused_in_one_line() -> None:
    for rnn, words in (
        (SRNN(C, H, bidirectional=True), "a bidirectional layer needs whole sequences. Export it to ONNX"),
        (SRNNStack(C, H, bidirectional=True), "a bidirectional layer needs whole sequences. Export it to ONNX"),
        (nn.LSTM(C, H), "SRNN, SRNNStack and nn.GRU, got LSTM"),
    ):
        with pytest.raises(ExportError, match=re.escape(words)):
            srnn.c.header(rnn)  # type: ignore[arg-type]
    with pytest.raises(ExportError, match="Linear, ReLU, LayerNorm and Dropout, got GELU"):
        srnn.c.header(SRNN(C, H), readout=nn.GELU())
    with pytest.raises(SettingError, match="name must be one in C, such as my_model, got '3d'"):
        srnn.c.header(SRNN(C, H), name="3d")
    broken = SRNN(C, H)
    with torch.no_grad():
        broken.b[0].linear.weight[0, 0] = torch.nan
    with pytest.raises(ExportError, match="weights must be finite numbers"):
        srnn.c.header(broken)


@needs_compiler
def test_a_header_that_was_cut_is_one_line_of_error(tmp_path: Path) -> None:
    text = srnn.c.header(SRNN(C, H))
    for part in (text[: len(text) // 2], text[:-20]):
        with pytest.raises(ExportError, match=r"^model\.h and main\.c must be C99. \w+ reports: [^\n]+$"):
            run(part, torch.randn(1, C), tmp_path)
