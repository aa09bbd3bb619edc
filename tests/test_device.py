"""`srnn bench --device`, the model of the time on a GPU, and the self-test of backends. No test here judges a speed."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from srnn import kernels
from srnn.errors import SettingError
from srnn.lab.bench import clock as clocks
from srnn.lab.bench import device, roofline, training
from srnn.lab.bench.result import as_markdown
from srnn.lab.bench.roofline import A100, H100, PROCESSORS, Work, lane_parallel, time_parallel
from srnn.lab.measures import backends
from srnn.lab.records import store

ROOT = Path(__file__).parents[1]


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two settings and one scan of a few steps."""
    few = [s for s in device.SETTINGS if s.key in ("copy", "pmnist-real")]
    monkeypatch.setattr(device, "SETTINGS", [replace(s, N=2, T=24, H=16) for s in few])
    monkeypatch.setattr(device, "SHAPES", ((2, 70, 8),))


# srnn bench --device --------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("tiny")
def test_record_of_a_device_has_steps_and_scans(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    device.main("cpu", rounds=1, threads=1, out=tmp_path / "bench-cpu.json")
    record = store.read(tmp_path / "bench-cpu.json")
    assert record["device"]["name"] == "cpu"
    assert record["device"]["backend"] == kernels.auto_backend()
    assert [(row["key"], row["part"]) for row in record["steps"]] == [
        ("copy", "step"),
        ("copy", "layer"),
        ("pmnist-real", "step"),
    ]
    assert all(set(row["milliseconds"]) == {"srnn", "rnn", "lstm", "gru"} for row in record["steps"])
    assert [row["shape"] for row in record["scans"]] == [[2, 70, 8]]
    assert all(time > 0 for row in record["scans"] for time in row["microseconds"].values())
    shown = capsys.readouterr().out
    assert "permuted MNIST, real inputs" in shown
    assert "2, 70, 8" in shown


def test_rows_of_scans_are_computed_from_their_times() -> None:
    row = {"shape": [100, 1000, 10], "microseconds": {"auto": 50.0, "copy": 40.0}}
    # 8 bytes in 40 µs against 8.125 in 50.
    assert list(device._scan_rows([row])) == [["100, 1,000, 10", "auto", "50", "50.0", "0.81"]]


@pytest.mark.parametrize("name", ["srnn", *training.BASELINES])
def test_every_tensor_of_a_layer_is_on_the_device(name: str) -> None:
    setting = replace(training.COPY, N=2, T=24, H=16, device="meta")  # which takes no other tensors
    gradients: Any = training.layer_alone(setting, name)()
    assert {gradient.device.type for gradient in gradients} == {"meta"}


def test_training_step_is_run_on_the_device() -> None:
    with pytest.raises(SettingError, match="device 'meta' is not available here"):
        training.training_step(replace(training.COPY, N=2, T=24, H=16, device="meta"), "gru")


def test_device_that_is_not_here_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="device 'cuda:7' is not available here"):
        device.main("cuda:7", out=tmp_path / "bench.json")
    assert not list(tmp_path.iterdir())


def test_events_of_the_device_measure_its_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no GPU to measure, so the events are ours."""
    log: list[str] = []

    class Event:
        def __init__(self, on: torch.device, *, enable_timing: bool) -> None:
            assert (on.type, enable_timing) == ("cuda", True)
            self.place = -1

        def record(self) -> None:
            self.place = len(log)
            log.append("record")

        def synchronize(self) -> None:
            log.append("synchronize")

        def elapsed_time(self, last: "Event") -> float:
            return 1000.0 * (last.place - self.place)  # milliseconds

    monkeypatch.setattr(torch, "Event", Event)
    clock = clocks.Clock(1, device=torch.device("cuda"))
    assert clock.measure(lambda: log.append("call")) == 2.0
    assert log == ["record", "call", "record", "synchronize"]


# The model ------------------------------------------------------------------------------------------------------------------


def test_time_is_the_launches_and_the_longest_of_three() -> None:
    moves = Work(size=2.04e9, lanes=32, depth=1, launches=2)
    assert moves.seconds(A100) == pytest.approx(8e-6 + 1e-3 / 0.88)
    assert moves.bound(A100) == "bandwidth"
    waits = Work(size=0, lanes=32, depth=16_000, launches=1)
    assert waits.seconds(H100) == pytest.approx(4e-6 + 700e-6)
    assert waits.seconds(H100, in_flight=1) == pytest.approx(4e-6 + 16 * 700e-6)
    assert waits.bound(H100) == "latency"
    counts = Work(size=0, lanes=3 * 32 * A100.schedulers, depth=1410, launches=1)
    assert counts.parts(A100)["instructions"] == pytest.approx(3 * A100.instructions * 1e-6 / 0.6)
    assert counts.bound(A100) == "instructions"


def test_chunks_of_time_make_every_step_twice() -> None:
    lanes, time = lane_parallel(1, 1_000_000, 64), time_parallel(1, 1_000_000, 64, A100)
    assert lanes.depth == 1_000_000
    assert time.launches == 3
    chunks = time.lanes // 64
    assert 2 * 1_000_000 <= (time.depth - chunks) * chunks < 2.1 * 1_000_000
    assert 1.49 < time.size / lanes.size < 1.51


@pytest.mark.parametrize("processor", PROCESSORS, ids=lambda p: p.name)
@pytest.mark.parametrize("T", roofline.LENGTHS)
def test_forms_change_places_at_the_crossover(processor: roofline.Processor, T: int) -> None:
    lanes = roofline.crossover(T, processor)
    for count, is_faster in ((lanes - 1, True), (lanes, False)):
        assert (
            time_parallel(count, T, 1, processor).seconds(processor) < lane_parallel(count, T, 1).seconds(processor)
        ) is is_faster


def test_page_shows_the_model() -> None:
    page = ROOT / "docs" / "gpu.md"
    assert store.filled(page, "roofline", as_markdown(roofline.parts())) == page.read_bytes()


# srnn doctor --selftest -----------------------------------------------------------------------------------------------------


def test_every_backend_of_this_machine_passes_the_self_test() -> None:
    found = {(each["backend"], each["device"]): each for each in backends.selftest()}
    assert {("torch", "cpu"), ("native", "cpu")} <= set(found)
    tested = [each for each in found.values() if each["available"]]
    assert all(each["equals_reference"] for each in tested)
    assert all(list(each["differences"]) == ["float64", "float32", "float16", "bfloat16"] for each in tested)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_self_test_notices_an_error_in_one_dtype(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    truth = kernels.scan

    def scan(b: Any, *args: Any, **options: Any) -> Any:
        output, h_n = truth(b, *args, **options)
        return output, h_n * (1 + 4 * backends.TOLERANCE[dtype] * (b.dtype == dtype))

    monkeypatch.setattr(backends, "scan", scan)
    found = backends.examine_backend("torch", dtypes=[torch.float64, dtype])
    assert found["equals_reference"] is False
    assert found["differences"]["float64"] < backends.TOLERANCE[torch.float64]


def test_backend_that_fails_on_a_device_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "devices", lambda: [torch.device("meta")])
    found = {each["backend"]: each for each in backends.selftest()}
    assert found["torch"]["equals_reference"] is False
    assert found["torch"]["error"]
    assert kernels.default_backend() == "auto"
