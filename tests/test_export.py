"""`srnn export`: every format gives the model again, files are never replaced unasked, and mistakes are one line."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import srnn
from srnn import kernels
from srnn.errors import ExportError, MissingError, RecordError, SettingError
from srnn.lab import cli, export
from srnn.lab.export import c, onnx, pt2, tensors
from srnn.lab.export.program import Program
from srnn.lab.tasks import TASKS
from srnn.lab.training.loop import make_model, train
from srnn.lab.training.recipes import make_run
from srnn.lab.training.weights import finished_model

Run = Any  # (*arguments) -> (exit code, stdout, stderr)
NETWORKS = ("srnn", "srnnstack")
SIZES: Any = {"hidden_size": 12, "steps": 1}
SMALL: dict[str, dict[str, Any]] = {
    "copy": {"length": 5},
    "adding": {"length": 8},
    "randomlabels": {"samples": 20},
    "text": {"length": 16},
}
DATA = {"pmnist": "digits", "bigpmnist": "digits", "randomlabels": "digits", "speech": "voices", "text": "prose"}  # fixtures
# Warnings of torch's exporter about its own code.
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore:.*torch.jit:DeprecationWarning")
needs_onnx = pytest.mark.skipif(not onnx.is_available(), reason="onnx, onnxscript and onnxruntime are not all installed")
needs_compiler = pytest.mark.skipif(c.compiler() is None, reason="there is no C compiler")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A finished run in an empty current folder."""
    monkeypatch.chdir(tmp_path)
    train(make_run("copy", "srnn", length=5, hidden_size=12, steps=2), Path("trained"))
    return Path("trained")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.setattr(kernels, "_default", "auto")

    def call(*arguments: str) -> tuple[Any, str, str]:
        monkeypatch.setattr(sys, "argv", ["srnn", *arguments])
        with pytest.raises(SystemExit) as end:
            cli.main()
        return end.value.code, *capsys.readouterr()

    return call


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("task", TASKS)
def test_a_program_gives_what_its_model_gives(task: str, network: str, request: pytest.FixtureRequest) -> None:
    request.getfixturevalue(DATA.get(task, "randomness"))
    settings = make_run(task, network, **SIZES, **SMALL.get(task, {}))
    model, batch = make_model(settings).eval(), settings.task.batch(0, 3, 0)
    program = Program(model)
    state = program.example(len(batch.input), 1)["state"]
    x = batch.input if batch.input.is_floating_point() else batch.input.long()
    output, new_state = program(x, state)
    torch.testing.assert_close(output, model(batch))
    first, between = program(x[:, :4], state)
    second, last = program(x[:, 4:], between)  # streaming
    torch.testing.assert_close(last, new_state)
    torch.testing.assert_close(torch.cat([first, second], 1) if model.every_step else second, output)


@needs_onnx
def test_onnx_gives_the_model_again(folder: Path, run: Run) -> None:
    code, out, err = run("export", str(folder), "--format", "onnx")
    assert (code, err) == (0, "")
    assert "wrote trained.onnx" in out
    assert "ONNX opset 18" in out
    model = finished_model(folder)[1]
    assert onnx.check(model, Path("trained.onnx"), (1, 7, 1000)) < 1e-5
    about = onnx.session(Path("trained.onnx")).get_modelmeta().custom_metadata_map
    assert (about["srnn"], json.loads(about["run"])["task"]["name"]) == (srnn.__version__, "copy")
    content = Path("trained.onnx").read_bytes()
    for name, damaged in (("cut.onnx", content[: len(content) // 2]), ("empty.onnx", b""), ("text.onnx", b"not ONNX at all")):
        Path(name).write_bytes(damaged)
        with pytest.raises(ExportError, match=rf"^{name} is not an ONNX file that onnxruntime can load: [^\n]+$"):
            onnx.check(model, Path(name))
    with torch.no_grad():
        last: Any = model.readout[-1]
        last.bias += 1
    with pytest.raises(ExportError, match=r"must give what the model gives up to 1e-05, and it is off by [\d.]+e"):
        onnx.check(model, Path("trained.onnx"))


@needs_onnx
@pytest.mark.slow
@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("task", TASKS)
def test_models_of_every_task_export_to_onnx(task: str, network: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    request.getfixturevalue(DATA.get(task, "randomness"))
    settings = make_run(task, network, **SIZES, **SMALL.get(task, {}))
    lines = onnx.write(make_model(settings), settings, tmp_path / "model.onnx")
    assert "largest difference from PyTorch in onnxruntime" in lines[-1]


@needs_compiler
@pytest.mark.parametrize("network", [*NETWORKS, "gru"])
@pytest.mark.parametrize("task", ["adding", "copy"])
def test_models_export_to_c(task: str, network: str, tmp_path: Path) -> None:
    settings = make_run(task, network, **SIZES, **SMALL[task], readout=(7,), norm=True)
    lines = c.write(make_model(settings), settings, tmp_path / "model.h")
    assert lines[0].startswith("flash")
    assert lines[-1].startswith("largest difference from PyTorch: ")


@needs_compiler
def test_a_header_of_another_model_or_no_header_is_one_line_of_error(tmp_path: Path) -> None:
    settings, other = (make_run("adding", "srnn", **SMALL["adding"], hidden_size=size, steps=1) for size in (12, 5))
    model, file = make_model(settings), tmp_path / "model.h"
    c.write(model, settings, file)
    with pytest.raises(ExportError, match=r"^[^\n]+$"):
        c.check(make_model(other), file)
    with pytest.raises(RecordError, match=r"^[^\n]*No such file[^\n]*$"):
        c.check(model, tmp_path / "missing.h")
    text = file.read_bytes()
    file.write_bytes(text[:300] + b"\xff" + text[300:])
    with pytest.raises(ExportError, match="must be C99 in ASCII, and it has other bytes"):
        c.check(model, file)


@needs_onnx
@pytest.mark.parametrize("form", [onnx, pt2], ids=["onnx", "pt2"])
def test_the_file_of_another_model_or_no_file_is_one_line_of_error(form: Any, tmp_path: Path) -> None:
    settings, other = (make_run("adding", "srnn", **SMALL["adding"], hidden_size=size, steps=1) for size in (12, 5))
    symbols = make_run("copy", "srnn", **SMALL["copy"], **SIZES)
    model, file = make_model(settings), tmp_path / f"a.{form.__name__.rpartition('.')[2]}"
    form.write(model, settings, file)
    for another in (other, symbols):
        with pytest.raises(ExportError, match=r"^[^\n]+$"):
            form.check(make_model(another), file)
    with pytest.raises((ExportError, RecordError), match=r"^[^\n]*No such file[^\n]*$"):
        form.check(model, tmp_path / f"missing{file.suffix}")


@needs_compiler
def test_int8_reports_what_it_costs(folder: Path, run: Run) -> None:
    code, out, _ = run("export", str(folder), "--format", "c", "--int8", "--out", "2-bytes.h")
    assert code == 0
    assert "fresh cross-entropy" in out
    assert "with float32 weights" in out
    assert "with int8 weights" in out
    assert "m_2_bytes_step(m_2_bytes_state *s, int x, float *y)" in Path("2-bytes.h").read_text()
    text = Path("2-bytes.h").read_text()
    Path("2-bytes.h").write_text(text[: len(text) // 3])
    with pytest.raises(ExportError, match=r"must be C99. \w+ reports: "):
        c.check(finished_model(folder)[1], Path("2-bytes.h"), name="m_2_bytes", int8=True)


def test_safetensors_can_be_loaded(folder: Path, run: Run) -> None:
    assert run("export", str(folder), "--format", "safetensors", "--out", "m.safetensors")[0] == 0
    settings, loaded = tensors.load(Path("m.safetensors"))
    expected_settings, expected = finished_model(folder)
    assert settings == expected_settings
    batch = settings.task.batch(0, 3, 0)
    assert torch.equal(loaded.eval()(batch), expected.eval()(batch))
    with pytest.raises(RecordError, match="is not an exported model of format 1"):
        tensors.load(folder / "checkpoint.safetensors")
    content = Path("m.safetensors").read_bytes()
    Path("m.safetensors").write_bytes(content[:-9])
    with pytest.raises(RecordError, match="is damaged"):
        tensors.load(Path("m.safetensors"))


def test_pt2_names_the_import_that_loading_needs(folder: Path, run: Run) -> None:
    code, out, _ = run("export", str(folder), "--format", "pt2")
    assert code == 0
    assert "before torch.export.load, run: import torch, srnn" in out
    assert pt2.check(finished_model(folder)[1], Path("trained.pt2"), (1, 7, 1000)) < 1e-5
    program = (  # torch cannot load the file before the import
        "import torch; f = {'srnn.json': ''}\n"
        "try: torch.export.load('trained.pt2'); raise SystemExit(1)\n"
        "except RuntimeError: import srnn\n"
        "torch.export.load('trained.pt2', extra_files=f); print(f['srnn.json'])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    about = json.loads(done.stdout)
    assert (about["needs"], about["srnn"]) == ("import torch, srnn", srnn.__version__)
    content = Path("trained.pt2").read_bytes()
    for damaged in (content[: len(content) // 2], b"", content[:3000] + b"!" + content[3001:]):
        Path("damaged.pt2").write_bytes(damaged)
        with pytest.raises(ExportError, match=r"^damaged\.pt2 is [^\n]+$"):
            pt2.load(Path("damaged.pt2"))


@pytest.mark.slow
def test_a_compiled_package_gives_the_model_again(folder: Path, run: Run) -> None:
    code, out, _ = run("export", str(folder), "--format", "pt2", "--compiled")
    assert code == 0
    assert "before torch._inductor.aoti_load_package, run: import torch, srnn" in out
    assert pt2.check(finished_model(folder)[1], Path("trained.pt2"), (1, 7, 1000)) < 1e-5
    loaded: Any = pt2.load(Path("trained.pt2"))
    assert loaded.get_metadata()["needs"] == "import torch, srnn"


def test_files_are_replaced_only_if_asked(folder: Path, run: Run) -> None:
    Path("precious.h").write_text("mine")
    arguments = ("export", str(folder), "--format", "c", "--out", "precious.h")
    assert run(*arguments) == (2, "", "srnn: precious.h exists. Give another --out, or --overwrite to replace it\n")
    assert Path("precious.h").read_text() == "mine"
    assert run(*arguments, "--overwrite")[0] == 0
    assert "precious_step" in Path("precious.h").read_text()
    assert run("export", str(folder), "--format", "c", "--out", ".", "--overwrite")[::2] == (
        2,
        "srnn: . is a folder. Give a file\n",
    )


def test_a_failed_export_leaves_no_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(model: Any, run: Any, file: Path) -> list[str]:
        file.write_text("half")
        raise ExportError("no")

    monkeypatch.setitem(export.WRITERS, "onnx", fail)
    with pytest.raises(ExportError):
        export.export(folder, "onnx")
    assert [path.name for path in Path().iterdir()] == ["trained"]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (
            "trained --format onx",
            2,
            "no format is called 'onx'. Choose one of onnx, pt2, c, safetensors, hub. Did you mean 'onnx'?",
        ),
        ("trained --format onnx --int8", 2, "--int8 is an option of --format c, got --format onnx"),
        ("trained --format c --compiled", 2, "--compiled is an option of --format pt2, got --format c"),
        ("nowhere --format c", 2, "nowhere is not a run folder: it has no run.json. `srnn runs` lists run folders"),
        ("unfinished --format c", 1, "unfinished has no model.safetensors: the run is not finished. "
         "Finish it with: srnn train --resume unfinished"),
        ("others --format onnx", 1, "--format onnx takes the networks srnn and srnnstack, and this run has mingru. "
         "Use safetensors"),
        ("others --format c", 1, "--format c takes the networks srnn, srnnstack and gru, and this run has mingru. "
         "Use safetensors"),
    ],
)  # fmt: skip
def test_mistakes_are_one_line(folder: Path, run: Run, arguments: str, code: int, words: str) -> None:
    if arguments.startswith("unfinished"):
        folder.rename("unfinished")
        for name in ("model.safetensors", "record.json"):
            Path("unfinished", name).unlink()
    if arguments.startswith("others"):
        train(make_run("copy", "mingru", length=5, hidden_size=12, steps=1), Path("others"))
    assert run("export", *arguments.split()) == (code, "", f"srnn: {words}\n")


def test_wrong_calls_raise_our_errors(tmp_path: Path) -> None:
    with pytest.raises(SettingError):
        export.export(tmp_path, "tflite")
    with pytest.raises(MissingError):
        export.export(tmp_path, "c")
