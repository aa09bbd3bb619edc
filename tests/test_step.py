"""`srnn bench --step`: what it compares, checks, writes and shows. No test here judges a speed."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from torch import nn

from srnn.errors import RecordError, SettingError
from srnn.lab.bench import parity, step, streaming
from srnn.lab.bench.result import Table, as_markdown
from srnn.lab.export import c as exports
from srnn.lab.export import onnx as onnx_file
from srnn.lab.training.recipes import make_run


@pytest.fixture
def record() -> dict[str, Any]:
    """A record with invented ratios, in which one side was not run."""
    ratios = {"SRNN.step": 0.5123, "SRNNCell": 0.4, "SRNNStack.step, 2 layers": 3.0, "SRNN, T = 1": 0.75}
    return {
        "kind": "step",
        "started": "2026-01-02T00:00:00+00:00",
        "versions": {"torch": "2.99.0"},
        "machine": {"cpu": "Some CPU"},
        "commit": {"id": "0123456789abcdef", "dirty": False},
        "measured": [{"case": "batch 1", "ratios": ratios, "best_microseconds": {}}],
    }


def test_every_layer_is_compared_with_its_counterpart(record: dict[str, Any]) -> None:
    shown = next(step.parts(record))
    assert isinstance(shown, Table)
    assert shown.headings == ["layer", "compared with", "batch 1", "target, at most"]
    body = shown.rows
    assert body[0] == ["SRNN.step", "nn.GRUCell", "0.51", "0.7"]
    assert body[3] == ["SRNN, T = 1", "nn.GRU, T = 1", "0.75", "1"]
    assert body[4] == ["onnxruntime GRU, T = 1", "nn.GRU, T = 1", "not run", ""]
    text = as_markdown(step.parts(record))
    assert "| SRNN.step | nn.GRUCell | 0.51 | 0.7 |" in text
    assert (
        "Some CPU, torch 2.99.0; run of 2026-01-02T00:00:00+00:00, commit 0123456789; record: `results/bench-step.json`."
        in text
    )


@pytest.mark.parametrize("with_gradients", [False, True], ids=["no gradients", "gradients"])
def test_each_side_runs_its_layer(with_gradients: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step, "CALLS", 2)
    with torch.set_grad_enabled(with_gradients):
        sides = step.sides(3, with_gradients)
        for call in sides.values():
            call()
    assert {other for other, _ in step.COMPARED.values()} < set(sides)
    assert set(step.COMPARED) - {"onnxruntime GRU, T = 1"} < set(sides)


def test_onnxruntime_gru_equals_nn_gru() -> None:
    pytest.importorskip("onnxruntime")
    gru, x, h = nn.GRU(5, 4), torch.randn(1, 3, 5), torch.randn(1, 3, 4)
    found = step.onnx_gru(gru, 3).run(None, {"x": x.numpy(), "h": h.numpy()})[0]
    torch.testing.assert_close(torch.from_numpy(found)[:, 0], gru(x, h)[0])


def test_exported_models_are_measured_next_to_the_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "CALLS", 1)
    monkeypatch.setattr(streaming, "_onnx_calls", lambda *given: iter(()))  # seconds of torch's exporter
    found = streaming.measure(1)
    assert all(value > 0 for value in found["nanoseconds"].values())
    sides = {"torch srnn", "torch gru"}
    if exports.compiler() is not None:
        sides |= {"C srnn", "C gru", "C8 srnn", "C8 gru"}
    assert set(found["nanoseconds"]) == sides
    table = next(streaming.parts({"flags": "-O3", "nanoseconds": {"C srnn": 400.4, "C gru": 2402.4, "torch srnn": 9000.0}}))
    assert isinstance(table, Table)
    assert table.rows[0] == ["C, float32", "400", "2,402", "6.0", "5"]
    assert table.rows[3] == ["PyTorch (SRNN.step, nn.GRUCell)", "9,000", "not run", "not run", ""]


def test_wrong_step_is_refused() -> None:
    with pytest.raises(SettingError, match="must equal SRNN on a sequence of one step"):
        step.check({"SRNN.step": lambda: torch.ones(2), "SRNN, T = 1": lambda: torch.zeros(2)})


def test_main_writes_a_record_and_a_block(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(step, "CASES", {"batch 2": (2, False)})
    monkeypatch.setattr(step, "CALLS", 1)
    monkeypatch.setattr(
        streaming, "measure", lambda rounds: {"flags": "-O3", "nanoseconds": {"C srnn": 400.0, "C gru": 2400.0}}
    )
    page, shown = tmp_path / "page.md", io.StringIO()
    page.write_text("before\n<!-- step:begin -->\n<!-- step:end -->\nafter\n")
    threads = torch.get_num_threads()
    step.main(1, out=tmp_path / "record.json", readme=page, console=Console(file=shown, width=100))
    assert torch.get_num_threads() == threads
    written = json.loads((tmp_path / "record.json").read_text())
    assert written["measured"][0]["ratios"]["SRNN.step"] > 0
    assert "| SRNN.step | nn.GRUCell |" in page.read_text()
    assert "| C, float32 | 400 | 2,400 | 6.0 | 5 |" in page.read_text()
    assert "SRNN.step" in shown.getvalue()


def test_page_without_a_block_is_refused_before_measuring(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("no place\n")
    with pytest.raises(RecordError):
        step.main(1, out=tmp_path / "record.json", readme=page)
    assert not (tmp_path / "record.json").exists()


def test_exported_files_are_compared_with_pytorch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    run = make_run("adding", "srnn", length=4, hidden_size=6, steps=1)
    monkeypatch.setattr(parity, "runs", lambda updates: [("adding, 4 steps", run)])
    monkeypatch.setattr(onnx_file, "is_available", lambda: False)  # seconds of torch's exporter
    page, shown = tmp_path / "page.md", io.StringIO()
    page.write_text("<!-- parity:begin -->\n<!-- parity:end -->\n")
    parity.main(out=tmp_path / "record.json", readme=page, console=Console(file=shown, width=100))
    (found,) = json.loads((tmp_path / "record.json").read_text())["parity"]
    assert 0 <= found["pt2"] < 1e-5
    assert exports.compiler() is None or (0 < found["c"] < 1e-5 and 0 < found["c_int8"] < 1e-5)
    assert found["float32"] != found["int8"]
    record: dict[str, Any] = {"parity": [{**found, "onnx": [2e-7, 1.4e-7, 3e-6], "c": None, "float32": 0.5, "int8": 0.25}]}
    record |= {
        "updates": 1,
        "machine": {"cpu": "Some CPU"},
        "tools": {"torch": "2.99"},
        "started": "2026",
        "commit": {"id": "0" * 40, "dirty": True},
    }
    table, _, origin = parity.parts(record)
    assert isinstance(table, Table)
    assert table.rows[0][:5] == ["adding, 4 steps", "srnn", "2e-07", "1e-07", "3e-06"]
    assert table.rows[0][6] == "not run"
    assert table.rows[0][8:] == [f"{run.task.metric} 0.5000", "0.2500"]
    assert origin == "Measured on Some CPU with torch 2.99, 2026, commit 0000000000 with changes."
    assert "| adding, 4 steps | srnn | not run | not run | not run |" in page.read_text()
