"""`srnn bench` at tiny sizes: checks, measurements, records and tables. No test here judges a speed."""

import gc
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from srnn import kernels
from srnn.errors import RecordError, SettingError, StorageError
from srnn.kernels import reference
from srnn.lab import bench
from srnn.lab.bench import clock as clocks
from srnn.lab.bench import limits, networks, scale, step, table, training
from srnn.lab.bench.check import check_results
from srnn.lab.bench.result import Table, as_markdown
from srnn.lab.networks import NETWORKS
from srnn.lab.records import store
from srnn.lab.tasks.copy import Copy

TITLES = [*(s.title for s in training.SETTINGS), *(limit.title for limit in limits.LIMITS)]
KEYS = [*(s.key for s in training.SETTINGS), *(limit.key for limit in limits.LIMITS)]
ROOT = Path(__file__).parents[1]
BEGIN, END = "<!-- bench:begin -->", "<!-- bench:end -->"
README = f"# Title\n\nbefore, größer\n{BEGIN}\nold table\n{END}\nafter\n"


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same benchmark on sequences of a few steps."""
    monkeypatch.setattr(bench, "SETTINGS", tuple(replace(s, N=2, T=24, H=16) for s in training.SETTINGS))
    monkeypatch.setattr(limits, "FULL", (2, 16, 64))


@pytest.fixture
def record() -> dict[str, Any]:
    """A record of one setting and one limit, with invented numbers."""
    setting = {
        "key": "copy",
        "title": "copying memory T 300",
        "times_faster": {"rnn": 8.26, "lstm": 31.7, "gru": 15.94},
        "floors": {"rnn": 6, "gru": 16},
        "met": False,
        "limits": {"matmul": 0.31, "memory": 0.42},
        "share_of_step": None,
        "milliseconds": {"srnn": {"median": 98765.4, "best": 98765.4, "rounds": 1}},
    }
    limit = {"key": "dense", "title": "dense scan, bytes/s over copy_'s", "value": 0.934, "floor": "at least 0.7", "met": True}
    return {
        "kind": "bench",
        "path": "results/bench.json",
        "started": "2026-01-02T00:00:00+00:00",
        "versions": {"torch": "2.99.0"},
        "machine": {"cpu": "Some CPU", "cores": 4, "threads": 2},
        "commit": {"id": "0123456789abcdef", "dirty": True},
        "settings": {"quick": False},
        "backend": {"name": "native", "native_load_error": None},
        "results": {"training": [setting], "limits": [limit]},
    }


class FixedClock(clocks.Clock):
    """Times that are known: two rounds, in which srnn takes 1 and then 2 seconds and the others what `seconds` says."""

    def __init__(self, **seconds: list[float]) -> None:
        super().__init__(rounds=2)
        self.seconds = seconds

    def race(self, sides: Any) -> dict[Any, list[float]]:
        return {name: self.seconds[name] for name in sides}


# The whole ------------------------------------------------------------------------------------------------------------------


@pytest.mark.slow  # 16 limits, each measured in a process of its own
@pytest.mark.usefixtures("tiny")
def test_run_shows_and_records_every_setting_and_limit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    threads, random_state = torch.get_num_threads(), torch.get_rng_state()
    bench.main(repeats=1, threads=1, out=tmp_path / "new" / "bench.json")
    record = store.read(tmp_path / "new" / "bench.json")
    rows = record["results"]["training"] + record["results"]["limits"]
    assert [row["key"] for row in rows] == KEYS
    for row in record["results"]["training"]:
        is_for_gru = row["backend"] == "torch" or row["key"] == "long"
        baselines = set() if row["part"] == "read-out" else {"gru"} if is_for_gru else {"rnn", "lstm", "gru"}
        assert set(row["times_faster"]) == baselines
        assert all(value > 0 for value in (*row["times_faster"].values(), *row["limits"].values()))
        assert set(row["milliseconds"]) >= {"srnn", "matmul", "memory"} | baselines
    shown = capsys.readouterr().out
    assert [title for title in TITLES if title not in shown] == []
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= 80 or str(tmp_path) in max(shown.splitlines(), key=len)
    assert f"backend {record['backend']['name']}" in " ".join(shown.split())
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), random_state)


@pytest.mark.usefixtures("tiny")
def test_run_without_native_kernel_shows_its_backend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(kernels, "_default", "torch")
    bench.main(repeats=1, threads=1, out=tmp_path / "bench.json", only=["pmnist", "dense", "dense-T"])
    record = store.read(tmp_path / "bench.json")
    assert record["backend"]["name"] == "torch"
    assert [row["value"] is None for row in record["results"]["limits"]] == [False, True]
    shown = " ".join(capsys.readouterr().out.split())
    assert "backend torch" in shown
    assert "log-log slope in T not measured" in shown
    assert "adding T 300" not in shown


@pytest.mark.usefixtures("tiny")
def test_quick_run_has_its_own_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    bench.main(quick=True, threads=1, only=["copy-readout"])
    assert [path.name for path in (tmp_path / "results").iterdir()] == ["bench-quick.json"]
    record = store.read(tmp_path / "results" / "bench-quick.json")
    assert record["settings"]["quick"] is True
    assert record["results"]["training"][0]["share_of_step"] > 0


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"only": ["copy", "coppy"]}, "no benchmark is called 'coppy'. Choose one of copy, "),
        ({"repeats": 0}, "at least 1, got 2 and 0"),
        ({"threads": 0}, "at least 1, got 0 and None"),
        ({"readme": Path("nowhere") / "README.md"}, "cannot be read: No such file"),
    ],
)
def test_wrong_options_are_refused_before_anything_runs(
    wrong: dict[str, Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(bench, "run")
    with pytest.raises((SettingError, RecordError), match=message):
        bench.main(out=tmp_path / "bench.json", **wrong)


# The check ------------------------------------------------------------------------------------------------------------------


class _WrongGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        return grads[0] * 1.001


WRONG: dict[str, tuple[Callable[[Tensor], Tensor], str]] = {  # how a result is falsified, and what is reported first
    "value": (lambda x: x * 1.001, "the (output|states)"),
    "gradient": (_WrongGradient.apply, "the gradient"),
}


@pytest.mark.parametrize("wrong", ["value", "gradient"])
@pytest.mark.parametrize(
    ("function", "place", "path"),
    [
        ("scan", 0, "copy"),
        ("scan", 1, "pmnist"),
        ("gated_scan", 1, "adding"),
        ("gated_scan", 0, "speech"),
        ("shuffle_scan", None, "(dense|table) scan"),
    ],
)
def test_wrong_kernel_result_stops_the_benchmark(
    function: str, place: int | None, path: str, wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    correct, loop = getattr(kernels, function), reference.shuffle_scan
    falsify, victim = WRONG[wrong]
    loops: list[str] = []

    def counted_loop(*args: Any) -> Any:
        loops.append("ran")
        return loop(*args)

    def falsified(*args: Any, **options: Any) -> Any:
        loops.clear()
        result = correct(*args, **options)
        if loops:  # the reference is right
            return result
        if place is None:
            return falsify(result)
        return tuple(falsify(part) if i == place and part is not None else part for i, part in enumerate(result))

    monkeypatch.setattr(reference, "shuffle_scan", counted_loop)
    monkeypatch.setattr(kernels, function, falsified)
    monkeypatch.setattr(bench, "measure_setting", None)
    with pytest.raises(SettingError, match=rf"^{path}: {victim}.* must be the reference's .* Nothing was timed"):
        bench.main(threads=1, out=tmp_path / "bench.json")
    assert list(tmp_path.iterdir()) == []


def test_check_keeps_the_default_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("auto", "torch"):
        monkeypatch.setattr(kernels, "_default", name)
        check_results(training.SETTINGS[:1])
        assert name == kernels.default_backend()


# Times ----------------------------------------------------------------------------------------------------------------------


def test_sides_take_turns_while_garbage_collection_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clocks.Clock, "measure", lambda self, call: call() or 1.0)
    assert gc.isenabled()
    seen: list[tuple[str, bool]] = []
    ticks: list[float] = []
    sides = {name: lambda name=name: seen.append((name, gc.isenabled())) for name in "ab"}
    times = clocks.Clock(rounds=2, tick=ticks.append).race(sides)
    assert seen == [("a", True), ("b", True), ("a", False), ("b", False), ("a", False), ("b", False)]
    assert times == {"a": [1.0, 1.0], "b": [1.0, 1.0]}
    assert gc.isenabled()
    assert sum(ticks) == pytest.approx(1.0)


def test_slow_side_of_a_quick_run_has_one_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clocks.Clock, "measure", lambda self, call: call())
    times = clocks.Clock(rounds=3, quick=True).race({"slow": lambda: 0.5, "fast": lambda: 0.01})
    assert times == {"slow": [0.5], "fast": [0.01] * 3}
    assert clocks.ratio(times, "slow", "fast") == pytest.approx(50.0)


def test_ratio_is_the_median_over_rounds() -> None:
    times = {"gru": [10.0, 90.0, 4.0], "srnn": [1.0, 3.0, 2.0]}  # 10, 30, 2: the medians' ratio would be 5
    assert clocks.ratio(times, "gru", "srnn") == 10.0


@pytest.mark.parametrize(("gru", "met"), [([16.0, 32.0], True), ([15.9, 31.8], False)])
def test_target_is_reached_by_the_ratio(gru: list[float], met: bool) -> None:
    clock = FixedClock(srnn=[1.0, 2.0], rnn=[6.0, 12.0], lstm=[7.0, 14.0], gru=gru, matmul=[0.5, 1.0], memory=[0.1, 0.2])
    row = training.measure_setting(replace(training.SETTINGS[0], N=2, T=24, H=16), clock)
    assert row["times_faster"] == {"rnn": 6.0, "lstm": 7.0, "gru": pytest.approx(gru[0])}
    assert row["met"] is met
    assert row["limits"] == {"matmul": 0.5, "memory": 0.1}
    assert row["milliseconds"]["gru"] == {"median": pytest.approx(1500 * gru[0]), "best": 1000 * gru[0], "rounds": 2}


@pytest.mark.parametrize(("value", "met"), [(0.89, False), (0.9, True), (1.09, True), (1.1, False), (None, None)])
def test_limit_is_reached_within_its_bounds(value: float | None, met: bool | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "in_fresh_process", lambda key, clock: value)
    row = limits.measure_limit(limits.Limit("x", "x", lambda clock: None, 0.9, 1.1), clocks.Clock(1))
    assert (row["value"], row["met"], row["floor"]) == (value, met, "0.9 to 1.1")


@pytest.mark.parametrize(("form", "axis"), [("dense", 1), ("dense", 2), ("table", 1), ("table", 2)])
def test_slope_of_quadratic_time_is_two(form: str, axis: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "auto_backend", lambda: "native")
    monkeypatch.setattr(limits, "FULL", (2, 16, 64))
    monkeypatch.setattr(limits, "scan", lambda form, N, T, H: lambda: float((N, T, H)[axis] ** 2))
    monkeypatch.setattr(clocks.Clock, "measure", lambda self, call: call())
    assert limits.slope(clocks.Clock(1), form, axis) == pytest.approx(2.0)


@pytest.mark.parametrize("part", ["forward", "backward"])
def test_two_threads_that_need_a_third_of_the_time_are_three_times_as_fast(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "auto_backend", lambda: "native")
    monkeypatch.setattr(limits, "FULL", (2, 16, 64))
    monkeypatch.setattr(limits, "LONG", (1, 16, 8))
    monkeypatch.setattr(clocks.Clock, "measure", lambda self, call: [call(), {1: 3.0, 2: 1.0}[torch.get_num_threads()]][1])
    assert limits.against_one_thread(clocks.Clock(1), part, -0.1) == 3.0


STEPS = [s for s in training.SETTINGS if s.part == "step" and s.backend == "auto"]


@pytest.mark.parametrize("setting", STEPS, ids=lambda s: s.key)
def test_matrix_products_are_those_of_a_training_step(setting: training.Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "_default", "reference")  # the plain composition: nothing is recomputed
    small = replace(setting, N=2, T=24, H=16)
    step = training.training_step(small, "srnn")
    with FlopCounterMode(display=False) as of_step:
        step()
    products = training.matrix_products(small)
    with FlopCounterMode(display=False) as of_products:
        products()
    assert of_products.get_total_flops() == of_step.get_total_flops() > 0


@pytest.mark.parametrize(
    ("key", "moved"),
    [
        ("copy", 2 * 2 * 24 * 8 + 4 * 2 * 24 * (5 * 16 + 5 * 10)),  # ids, then states and read-out
        ("copy-readout", 4 * 2 * 24 * (3 * 16 + 5 * 10)),
        ("copy-layer", 2 * 2 * 24 * 8 + 4 * 2 * 24 * 2 * 16),
        ("pmnist", 2 * 2 * 24 * 1 + 4 * 2 * (5 * 16 + 5 * 10)),
        ("adding", 2 * 2 * 24 * 2 * 4 + 4 * 2 * (5 * 16 + 5 * 1)),
    ],
)
def test_copy_moves_as_many_bytes_as_a_step_must(key: str, moved: int) -> None:
    (setting,) = (s for s in training.SETTINGS if s.key == key)
    copied = training.memory_traffic(replace(setting, N=2, T=24, H=16))()
    assert 2 * copied.nbytes == moved


PEAK = """
import torch
from srnn.lab.bench import clock, limits
limits.training_step = lambda s, name: lambda: torch.ones(s.T * 2**20)
limits.FULL = (1, 16, 1)
print(limits.peak_memory(clock.Clock(1), "real"))  # after a warm-up that holds 32
"""


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="peak memory is read from /proc")
def test_peak_memory_counts_what_a_step_allocates() -> None:
    # In a process of its own: where other tests have freed memory, a step may find room that was there before.
    done = subprocess.run([sys.executable, "-c", PEAK], capture_output=True, text=True, timeout=120, check=True)
    assert 60 < float(done.stdout) < 80


def test_step_trains_on_a_batch_drawn_before(monkeypatch: pytest.MonkeyPatch) -> None:
    setting = replace(training.COPY, N=3, T=24, H=8)
    update = training.training_step(setting, "gru")
    monkeypatch.delattr(Copy, "batch")  # drawing would fail now
    task: Any = update.__self__.task  # type: ignore[attr-defined]
    assert task.batch(0, 3, 0) is task.batch(7, 3, 5)
    update()


@pytest.mark.parametrize("name", training.BASELINES)
def test_baseline_for_the_last_step_returns_the_last_state(name: str) -> None:
    x = torch.randn(3, 7, 2)
    layer: Any = training.Baseline(5, kind=name, every_step=False).layer(2, 7)
    assert torch.equal(layer(x)[0], layer.rnn(x)[0][:, -1:])


@pytest.mark.parametrize(("key", "backend"), [("copy-torch", "torch"), ("adding-torch", "torch"), ("long", "reference")])
def test_each_row_runs_on_its_backend(key: str, backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "_default", "reference")
    (setting,) = (replace(s, N=2, T=24, H=8) for s in training.SETTINGS if s.key == key)
    call = (training.training_step if setting.part == "step" else training.layer_alone)(setting, "srnn")
    seen, namespace = set(), kernels._namespace

    def noted(*given: Any) -> Any:
        seen.add(kernels.default_backend())
        return namespace(*given)

    monkeypatch.setattr(kernels, "_namespace", noted)
    call()
    assert seen == {backend}


def test_quick_run_skips_rows_compared_with_gru_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[list[str]] = []

    def run(rounds: int, quick: bool, keys: list[str], *rest: Any) -> dict[str, Any]:
        asked.append(keys)
        raise SettingError("enough")

    monkeypatch.setattr(bench, "run", run)
    for quick in (False, True):
        with pytest.raises(SettingError, match="enough"):
            bench.main(quick=quick, out=tmp_path / "bench.json")
    assert set(asked[0]) - set(asked[1]) == {key for key in KEYS if key.endswith("-torch") or key == "long"}


def test_grey_levels_are_mostly_background_or_uniform() -> None:
    torch.manual_seed(0)
    assert (training.grey_levels(100, 784) == 0).float().mean() == pytest.approx(0.81, abs=0.01)
    uniform = training.grey_levels(100, 784, background=0.0)
    assert uniform.dtype == torch.uint8
    assert (uniform == 0).float().mean() == pytest.approx(1 / 256, abs=0.002)
    assert (int(uniform.min()), int(uniform.max())) == (0, 255)


def readme_table(record: dict[str, Any]) -> str:
    return as_markdown(table.parts(record))


# What a reader sees ---------------------------------------------------------------------------------------------------------


def test_readme_table_shows_the_record(record: dict[str, Any]) -> None:
    text = readme_table(record)
    assert "| copying memory T 300 | 8.3 | 32 | 15.9 | 6 / 16 | no | memory 42% |" in text
    assert "| dense scan, bytes/s over copy_'s | 0.93 | at least 0.7 | yes |" in text
    assert [title for title in TITLES if f"| {title} |" in text] == ["copying memory T 300", "dense scan, bytes/s over copy_'s"]
    assert "Plain PyTorch" not in text
    setting = record["results"]["training"][0]
    record["results"]["training"].append(
        setting | {"key": "copy-torch", "title": "- plain PyTorch", "times_faster": {"gru": 2.5}}
    )
    assert "| - plain PyTorch |  |  | 2.5 | 6 / 16 | no | memory 42% |" in readme_table(record)
    assert "Plain PyTorch: SRNN without its compiled library." in readme_table(record)
    for origin in ("Some CPU, 4 cores, 2 threads", "torch 2.99.0", "native", "0123456789 with changes", "`results/bench.json`"):
        assert origin in text
    assert "98765" not in text  # seconds are for the record


@pytest.mark.parametrize(
    ("page", "block", "parts"),
    [
        ("docs/benchmark.md", "bench", table.parts),
        ("docs/networks.md", "networks", table.parts),
        ("docs/scale.md", "scale", scale.parts),
        ("docs/migrate.md", "step", step.parts),
    ],
)
def test_documents_show_the_records(page: str, block: str, parts: Callable[[dict[str, Any]], Iterable[Table | str]]) -> None:
    record = store.read(ROOT / "results" / ("bench.json" if block == "bench" else f"bench-{block}.json"))
    assert store.filled(ROOT / page, block, as_markdown(parts(record))) == (ROOT / page).read_bytes()


@pytest.mark.usefixtures("tiny")
def test_only_the_block_between_the_markers_changes(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(README)
    bench.main(repeats=1, threads=1, out=tmp_path / "bench.json", readme=readme, only=["copy-readout"])
    block = readme_table(store.read(tmp_path / "bench.json"))
    assert readme.read_text() == README.replace("old table", block)
    assert store.filled(readme, "bench", "old table").decode() == README


@pytest.mark.parametrize("text", ["", BEGIN, f"{END}{BEGIN}", README + BEGIN, README + END])
def test_readme_without_exactly_one_block_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text(text)
    with pytest.raises(RecordError, match="once each"):
        store.filled(tmp_path / "README.md", "bench", "table")


# Records --------------------------------------------------------------------------------------------------------------------


def test_record_is_read_as_written(tmp_path: Path, record: dict[str, Any]) -> None:
    record["title"] = "größer ≥"
    store.write(tmp_path / "a" / "b" / "record.json", record)
    assert store.read(tmp_path / "a" / "b" / "record.json") == record


@pytest.mark.parametrize("broken", ["fsync", "replace"])
def test_failed_write_keeps_the_old_record(broken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "record.json"
    store.write(path, {"number": 1})

    def fail(*args: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, broken, fail)
    with pytest.raises(StorageError, match=r"record\.json cannot be written: No space left on device"):
        store.write(path, {"number": 2})
    assert store.read(path) == {"number": 1}
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), Path()])
def test_values_that_are_not_json_are_refused(value: Any, tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="cannot be written as JSON"):
        store.write(tmp_path / "record.json", {"value": value})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("text", "message"), [(None, "cannot be read"), ("{", "not JSON"), ("[1]", "got a list")])
def test_file_that_is_not_a_record_is_refused(text: str | None, message: str, tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(RecordError, match=message):
        store.read(path)


def test_environment_has_versions_machine_and_commit() -> None:
    found = store.environment()
    assert found["versions"]["torch"] == torch.__version__
    assert set(found["versions"]) == {"python", "torch", "numpy", "srnn"}
    assert set(found["machine"]) == {"cpu", "cores", "threads", "system", "memory_bytes"}
    assert found["machine"]["threads"] == torch.get_num_threads()
    assert json.loads(json.dumps(found)) == found


def test_commit_is_that_of_the_package_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def git(*arguments: str) -> str:
        author = ("-c", "user.name=a", "-c", "user.email=a@b")
        return subprocess.run(["git", "-C", tmp_path, *author, *arguments], check=True, capture_output=True, text=True).stdout

    package = tmp_path / "package"
    package.mkdir()
    monkeypatch.setattr(store, "__file__", str(package / "records.py"))
    unknown = {"id": "unknown", "dirty": "unknown"}
    assert store.environment()["commit"] == unknown  # no repository

    (tmp_path / "README.md").write_text("read me")
    git("init", "--quiet")
    git("add", "README.md")
    git("commit", "--quiet", "--message", "first")
    (package / "records.py").write_text("")
    assert store.environment()["commit"] == unknown  # somebody else's repository

    git("add", "--all")
    git("commit", "--quiet", "--message", "second")
    commit = {"id": git("rev-parse", "HEAD").strip(), "dirty": False}
    assert store.environment()["commit"] == commit

    store.write(tmp_path / "results" / "record.json", {})
    (tmp_path / "README.md").write_text("a new table")
    assert store.environment()["commit"] == commit  # what a run writes does not make it another program

    (package / "records.py").write_text("changed")
    assert store.environment()["commit"] == {**commit, "dirty": True}


@pytest.fixture
def tiny_networks(monkeypatch: pytest.MonkeyPatch, tiny: None) -> None:
    small = [replace(s, N=2, T=24, H=128) for s in networks.TABLE_4]
    monkeypatch.setattr(bench, "TABLE_4", small)
    monkeypatch.setattr(networks, "TABLE_4", small)


def test_every_network_is_compared_with_gru(tiny_networks: None, tmp_path: Path) -> None:
    readme = tmp_path / "networks.md"
    readme.write_text("before\n<!-- networks:begin -->\nold\n<!-- networks:end -->\nafter\n")
    out = tmp_path / "networks.json"
    bench.main(repeats=1, threads=1, out=out, only=["adding", "copy"], networks=True, readme=readme)
    record = store.read(out)
    columns = record["results"]["networks"]
    assert [column["key"] for column in columns] == ["copy", "adding"]
    for column in columns:
        assert set(column["times_gru"]) == {*NETWORKS, "urnn, factored", "eurnn, factored"}
        assert column["times_gru"]["gru"] == 1.0
        assert all(value > 0 for value in column["times_gru"].values())
    shown = next(table.parts(record))
    assert isinstance(shown, Table)
    assert [len(row) for row in shown.rows] == [len(shown.headings)] * 17
    text = readme.read_text()
    assert "| urnn, factored |" in text
    assert "old" not in text
    assert text.startswith("before\n")


@pytest.mark.parametrize("key", ["copy", "adding", "pmnist", "speech"])
def test_measured_step_trains_every_network(key: str) -> None:
    (setting,) = (replace(s, N=3, T=24) for s in networks.TABLE_4 if s.key == key)
    for network in networks.sides().values():
        step = networks.training_step(setting, network)
        model: Any = step.__self__.model  # type: ignore[attr-defined]
        before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        step()
        changed = [name for name, tensor in model.state_dict().items() if not torch.equal(tensor, before[name])]
        assert any(name.startswith("rnn") for name in changed), network.name
        assert any(name.startswith("readout") for name in changed), network.name


def test_networks_have_their_own_record(tiny_networks: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    bench.main(quick=True, threads=1, only=["adding"], networks=True)
    assert [path.name for path in (tmp_path / "results").iterdir()] == ["bench-networks-quick.json"]
    with pytest.raises(SettingError, match=r"no benchmark is called 'dense'\. Choose one of copy, adding, pmnist, speech"):
        bench.main(only=["dense"], networks=True)
