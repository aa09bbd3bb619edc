"""`srnn bench --scale`: the model by hand, two real processes, and the page that shows them."""

import copy
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from srnn.errors import RecordError, TeamError
from srnn.lab.bench import scale
from srnn.lab.bench.result import as_markdown
from srnn.lab.bench.scale import Cost, Link
from srnn.lab.cli import app
from srnn.lab.records import store
from srnn.lab.report import plot

PAGE = "# Scale\n\n<!-- scale:begin -->\nold\n<!-- scale:end -->\nend\n"


def measured() -> dict[str, Any]:
    """A step takes 2 ms and 0.12 ms for each sequence, a message 100 µs and 1 s for each GB."""
    places = {
        s.key: {"alone": {str(N): 2e-3 + 1.2e-4 * N for N in scale._batches(s)}, "apart": 0.01, "together": 0.008}
        for s in scale.PLACES
    }
    for place in places.values():
        place["gradient_bytes"] = 1_100_000
    return {"processes": 2, "sums": {"4": 2e-4, "16000000": 0.0162}, "places": places}


@pytest.fixture
def record() -> dict[str, Any]:
    return {"kind": "scale", **store.environment(), "started": "2026-01-02T03:04:05+00:00", "measured": measured()}


def test_time_of_a_ring() -> None:
    link = Link("wire", latency=1e-3, bandwidth=1e6)
    assert link.reduce(1, 500_000) == 0
    assert link.reduce(2, 500_000) == pytest.approx(4e-3 + 0.5)
    assert link.reduce(4, 500_000) == pytest.approx(12e-3 + 0.75)


def test_step_is_computing_plus_adding_up() -> None:
    link, cost = Link("wire", 1e-3, 1e9), Cost(fixed=0.01, per_sequence=0.001, batch=100, size=0)
    assert cost.compute(1) == pytest.approx(0.11)
    assert cost.step(10, link) == pytest.approx(0.01 + 0.01 + 0.036)
    assert cost.compute(8) == pytest.approx(0.01 + 0.013)  # one of the eight has 13 sequences
    # Computing takes 25 and 23 ms with 7 and with 8 processes, all-reduce 24 and 28.
    assert cost.overtaken(link) == 8
    assert cost.best(link) == 5  # 30 and 16 ms; 31 and 20 with six, 35 and 12 with four


def test_adding_up_can_always_be_faster_than_computing() -> None:
    assert Cost(0.01, 0.001, 20, 0).overtaken(Link("wire", 1e-9, 1e9)) is None
    assert Cost(0.01, 0.001, 20, 0).best(Link("wire", 0.0, 1e9)) == 20


def test_model_is_fitted_to_a_record(record: dict[str, Any]) -> None:
    here, assumed = scale.links(record)
    assert (here.latency, here.bandwidth) == pytest.approx((1e-4, 1e9))
    assert assumed == Link(*scale.ASSUMED)
    cost = scale.cost(record["measured"]["places"]["pmnist"])
    assert (cost.fixed, cost.per_sequence) == pytest.approx((2e-3, 1.2e-4))
    assert (cost.batch, cost.size) == (100, 1_100_000)


def test_fixed_cost_is_never_negative(record: dict[str, Any]) -> None:
    place = copy.deepcopy(record["measured"]["places"]["pmnist"])
    place["alone"] = {"100": 0.1, "50": 0.049, "25": 0.024}
    assert scale.cost(place).fixed == 0


def test_block_shows_measured_and_assumed_numbers(record: dict[str, Any]) -> None:
    text = as_markdown(scale.parts(record))
    assert "Two processes, measured: 1.75 times as fast as one; by the model 1.47." in text
    # 8 processes: 2 ms and 13 sequences of 0.12; 28 messages of 0.1 ms and 7/4 of 1.1 MB; 14 ms over that; 6.5 ms 30,000 times.
    assert "| 8 | at most 13 | 3.6 | 4.7 | 2.9 | 1.69 | 2.15 | 3.2 | 3.7 | x 6.6 |" in text
    assert "| 64 | fewer than one |" in text
    assert "This machine: 100 µs of a message, 1.00 GB/s; 10 Gbit/s Ethernet, assumed: 50 µs" in text


def test_figure_shows_the_measured_points(record: dict[str, Any], tmp_path: Path) -> None:
    figure = scale.figure(record, "scale")
    assert [panel.title for panel in figure.panels] == ["permuted MNIST T 784, batch 100", "speech T 151, batch 20"]
    for panel, top in zip(figure.panels, (64, 16), strict=True):
        lines = {line.label: line for line in panel.lines}
        assert lines["computing"].x[-1] == top
        assert lines["all-reduce, this machine"].x[0] == 2
        assert list(lines["measured (dots)"].x) == [1, 2]
        assert lines["measured (dots)"].y[1] == pytest.approx(8.0)
    plot.save(figure, tmp_path, ("svg",))
    assert (tmp_path / "scale.svg").stat().st_size > 1000


def test_page_without_a_block_is_refused_before_measuring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scale, "in_two_processes", lambda rounds: pytest.fail("it was measured"))
    (tmp_path / "page.md").write_text("nothing here")
    with pytest.raises(RecordError, match="scale:begin"):
        scale.main(out=tmp_path / "scale.json", readme=tmp_path / "page.md")


def test_failed_processes_are_a_one_line_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(TeamError, match="two processes could not be measured: there is no message"):
        scale.main(1, out=tmp_path / "scale.json")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_two_processes_are_measured(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    scale.main(1, out=tmp_path / "scale.json", readme=page, console=Console(width=80))
    record = store.read(tmp_path / "scale.json")
    found = record["measured"]
    assert found["processes"] == 2
    for place in found["places"].values():
        assert all(seconds > 0 for seconds in (*place["alone"].values(), place["apart"], place["together"]))
    assert found["places"]["speech"]["gradient_bytes"] > 4 * 1024 * 129  # those of the read-out
    assert as_markdown(scale.parts(record)) in page.read_text()
    assert (tmp_path / "page.svg").exists()


def test_command_measures(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = []

    def in_two_processes(rounds: int) -> dict[str, Any]:
        asked.append(rounds)
        return {"rounds": rounds, "measured": measured()}

    monkeypatch.setattr(scale, "in_two_processes", in_two_processes)
    with pytest.raises(SystemExit) as end:
        app(["bench", "--scale", "--repeats", "2", "--out", str(tmp_path / "scale.json")])
    assert end.value.code == 0
    assert asked == [2]
    assert "all-reduce takes longer than computing" in capsys.readouterr().out
