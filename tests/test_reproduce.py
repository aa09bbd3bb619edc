"""`srnn reproduce`: each run once, several at once, whatever happens to one of them."""

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from srnn.errors import DataError, Interrupted, RecordError, SettingError
from srnn.lab import data
from srnn.lab.paper.plan import EXHIBITS, Exhibit, Line, Measurement, Plan
from srnn.lab.records import record as records
from srnn.lab.records import store
from srnn.lab.records.folder import RunFolder
from srnn.lab.records.record import Measured
from srnn.lab.scheduling import reproduce, scheduler
from srnn.lab.scheduling.processes import Processes
from srnn.lab.scheduling.reproduce import Selection
from srnn.lab.scheduling.scheduler import Scheduler
from srnn.lab.training.loop import Training, train
from srnn.lab.training.recipes import make_run
from srnn.lab.training.run import Run
from srnn.lab.workers import Event

QUICK = Plan("quick")
EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def console() -> Console:
    return Console(file=io.StringIO(), width=200)


def said(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def small(**settings: Any) -> Run:
    return make_run("copy", "srnn", **({"length": 5, "hidden_size": 8, "batch_size": 2, "steps": 4} | settings))


def schedule(runs: list[Run], folder: Path, console: Console, jobs: int = 2) -> Scheduler:
    left = {run.id: run for run in runs}
    return Scheduler(left, dict.fromkeys(left, 1.0), folder / "runs", folder / "results", console, Processes(jobs))


def ids(folder: Path) -> list[str]:
    return [record["id"] for path in sorted(folder.glob("*.jsonl")) for record in store.read_all(path)]


@pytest.mark.slow
def test_an_exhibit_is_run_once(tmp_path: Path, console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    assert reproduce.reproduce(["permutation"], QUICK, console, jobs=3, only=Selection(["srnn"])) == []
    expected = reproduce.runs_of([EXHIBITS["permutation"]], QUICK)
    assert sorted(ids(tmp_path / "runs" / "rehearsal" / "records")) == sorted(expected)
    assert not (tmp_path / "results").exists()
    assert said(console).count("finished: ") == len(expected) == 9
    monkeypatch.delattr(reproduce, "Scheduler")
    assert reproduce.reproduce(["permutation"], QUICK, console) == []
    assert "permutation: 9 runs, 9 of them recorded" in said(console)
    reproduce.show(QUICK, console)
    assert any(
        line.split()[0] == "permutation" and line.split()[-2:] == ["9", "9"] for line in said(console).splitlines() if line
    )


def test_a_process_is_kept_for_the_next_run(tmp_path: Path, console: Console) -> None:
    workers: list[int | None] = []

    class Counting(Processes):
        def start(self, key: str, run: Run, folder: Path) -> None:
            super().start(key, run, folder)
            workers.append(self.working[key].process.pid)

    left = {run.id: run for run in (small(seed=seed) for seed in (1, 2, 3))}
    assert Scheduler(left, dict.fromkeys(left, 1.0), tmp_path / "runs", tmp_path / "results", console, Counting(1)).work() == []
    assert sorted(ids(tmp_path / "results")) == sorted(left)
    assert len(workers) == 3
    assert len(set(workers)) == 1


def test_a_run_that_fails_is_retried_then_reported_and_the_others_continue(tmp_path: Path, console: Console) -> None:
    good, bad = small(seed=1), small(seed=2)
    RunFolder(tmp_path / "runs" / bad.id).path.mkdir(parents=True)
    (tmp_path / "runs" / bad.id / "run.json").write_text("{}")
    failed = schedule([bad, good], tmp_path, console).work()
    assert len(failed) == 1
    assert bad.id in failed[0]
    assert "run.json" in failed[0]
    assert said(console).count("retried: ") == 2
    assert ids(tmp_path / "results") == [good.id, f"failed-{bad.id}"]
    failure = store.read_all(tmp_path / "results" / "failed.jsonl")[0]
    assert (failure["kind"], failure["tries"]) == ("failure", 3)
    assert "run.json" in failure["error"]
    assert records.read(tmp_path / "results").done.keys() == {good.id}  # a failure is no record of the run
    (tmp_path / "runs" / bad.id / "run.json").unlink()
    assert schedule([bad], tmp_path, console).work() == []
    assert sorted(ids(tmp_path / "results")) == sorted([good.id, bad.id])  # and the failure is forgotten


class Murderous(Processes):
    """Kills a run so many times, once it works."""

    def __init__(self, victim: str, times: int) -> None:
        super().__init__(1)
        self.victim, self.times = victim, times

    def poll(self) -> list[Event]:
        events = super().poll()
        for key, kind, _ in events:
            if key == self.victim and kind == "progress" and self.times > 0:
                self.times -= 1
                pid = self.working[key].process.pid
                assert pid is not None
                os.kill(pid, signal.SIGKILL)
        return events


@pytest.mark.parametrize("times", [1, 3])
def test_a_process_that_dies_loses_no_run(times: int, tmp_path: Path, console: Console) -> None:
    victim, good = small(seed=1, steps=400 if times == 1 else 10**9), small(seed=2)
    left = {run.id: run for run in (victim, good)}
    engine = Murderous(victim.id, times)
    failed = Scheduler(left, dict.fromkeys(left, 1.0), tmp_path / "runs", tmp_path / "results", console, engine).work()
    assert engine.times == 0
    if times == 1:
        assert failed == []
        assert sorted(ids(tmp_path / "results")) == sorted(left)
    else:
        assert failed == [f"{failed[0].split(' (')[0]} ({victim.id}): its process ended with code -9"]
        assert ids(tmp_path / "results") == [good.id, f"failed-{victim.id}"]


PROGRAM = """
import sys
from pathlib import Path
from rich.console import Console
from srnn.errors import Interrupted
from srnn.lab.training.recipes import make_run
from srnn.lab.scheduling.processes import Processes
from srnn.lab.scheduling.scheduler import Scheduler

if __name__ == "__main__":
    runs = [make_run("copy", "srnn", length=5, hidden_size=8, batch_size=2, steps=int(sys.argv[1]), seed=k) for k in (1, 2)]
    left = {run.id: run for run in runs}
    try:
        Scheduler(left, dict.fromkeys(left, 1.0), Path("runs"), Path("results"), Console(), Processes(2)).work()
    except Interrupted as error:
        print(error)
        sys.exit(error.exit_code)
"""


@contextmanager
def started(command: list[str], folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A process in a group of its own; none of that group is left behind, whatever a test finds."""
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def wait_until(holds: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 120
    while not holds():
        assert process.poll() is None, "it ended before it could be stopped"
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.parametrize(("number", "code"), [pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow), (signal.SIGINT, 130)])
def test_it_stops_on_a_signal_and_resumes(number: int, code: int, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, "program.py", "1000000"]

    def steps() -> list[int]:
        """How far each run is, by the last whole line of its curve."""
        curves = [path.read_bytes().rpartition(b"\n")[0].splitlines() for path in sorted(tmp_path.glob("runs/*/metrics.jsonl"))]
        return [json.loads(curve[-1])["step"] for curve in curves if curve]

    with started(command, tmp_path) as process:
        wait_until(lambda: len(steps()) == 2, process)
        os.killpg(process.pid, number)  # as a terminal does: to all of them
        out, _ = process.communicate(timeout=60)
    assert process.returncode == code
    assert "Run the same command to resume 2 runs" in out
    assert "Traceback" not in out
    assert len(list(tmp_path.glob("runs/*/checkpoint.safetensors"))) == 2
    assert not any(tmp_path.glob("results/*.jsonl"))
    before = steps()
    with started(command, tmp_path) as process:
        wait_until(lambda: all(now > step for now, step in zip(steps(), before, strict=True)), process)
        os.killpg(process.pid, number)
        assert process.communicate(timeout=60)[0].count("Traceback") == 0
    assert process.returncode == code
    for folder in tmp_path.glob("runs/copy-*"):
        entries = [entry["step"] for entry in RunFolder(folder).read_metrics()]
        assert entries == list(range(100, 100 * len(entries) + 1, 100))  # it resumed, and did not start from scratch


SLOW = (
    (EXAMPLES / "parity.py")
    .read_text()
    .replace(
        '        """Yields a thousand test sequences."""', "        import time; open('scoring', 'w').close(); time.sleep(2)"
    )
)


def test_a_run_that_is_scored_during_a_stop_is_recorded(tmp_path: Path, console: Console) -> None:
    """A run that has made its updates does not see a signal any more: it ends, and nobody may wait for the other."""
    (tmp_path / "slow.py").write_text(SLOW)
    run = make_run(str(tmp_path / "slow.py"), "srnn", steps=2, hidden_size=8)

    class Stopped(Processes):
        def poll(self) -> list[Event]:
            if (tmp_path / "scoring").exists():
                os.kill(os.getpid(), signal.SIGTERM)
            return super().poll()

    left = {run.id: run}
    with pytest.raises(Interrupted, match="Run the same command to resume 0 runs"):
        Scheduler(left, {run.id: 1.0}, tmp_path / "runs", tmp_path / "results", console, Stopped(1)).work()
    assert ids(tmp_path / "results") == [run.id]


def test_an_error_in_a_users_task_is_reported_with_its_cause(tmp_path: Path, console: Console) -> None:
    faulty = SLOW.replace("time.sleep(2)", "raise LookupError('no such thing')")
    (tmp_path / "faulty.py").write_text(faulty)
    run = make_run(str(tmp_path / "faulty.py"), "srnn", steps=2, hidden_size=8)
    failed = schedule([run], tmp_path, console).work()
    assert len(failed) == 1
    assert failed[0].endswith("LookupError: no such thing")
    assert store.read_all(tmp_path / "results" / "failed.jsonl")[0]["error"] == "LookupError: no such thing"


def test_a_folder_that_another_process_holds_is_waited_for(
    tmp_path: Path, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler, "LATER", 0.05)
    busy, good = small(seed=1), small(seed=2)
    refused = 0

    class Patient(Processes):
        def poll(self) -> list[Event]:
            nonlocal refused
            events = super().poll()
            refused += sum(event.kind == "busy" for event in events)
            if refused == 5:
                held.close()
            return events

    held = ExitStack()
    held.enter_context(RunFolder(tmp_path / "runs" / busy.id).held())
    left = {run.id: run for run in (busy, good)}
    assert Scheduler(left, dict.fromkeys(left, 1.0), tmp_path / "runs", tmp_path / "results", console, Patient(1)).work() == []
    assert refused >= 5  # more often than a run that fails is tried
    assert ids(tmp_path / "results") == [good.id, busy.id]
    assert said(console).count("waiting: ") == 1
    assert "is in use by another process" in said(console)


def test_a_process_that_ended_between_two_runs_is_replaced(tmp_path: Path, console: Console) -> None:
    class Hasty(Processes):
        def start(self, key: str, run: Run, folder: Path) -> None:
            for worker in self.idle:
                worker.process.kill()
                worker.process.join()
            super().start(key, run, folder)

    left = {run.id: run for run in (small(seed=1), small(seed=2))}
    assert Scheduler(left, dict.fromkeys(left, 1.0), tmp_path / "runs", tmp_path / "results", console, Hasty(1)).work() == []
    assert "retried: " not in said(console)


def test_time_is_estimated_from_steps_and_limits(tmp_path: Path, console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reproduce, "pace", lambda run, slow: 0.5)
    runs = {
        "steps": small(steps=100),
        "minutes": small(steps=100_000, cpu_minutes=2.0),
        "few": small(steps=20, cpu_minutes=2.0),
    }
    assert reproduce.estimate(runs, tmp_path, console) == {"steps": 50.0, "minutes": 120.0, "few": 10.0}


def test_minutes_that_are_nearly_over_are_the_estimate(
    tmp_path: Path, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reproduce, "pace", lambda run, slow: pytest.fail("updates were made to measure their pace"))
    assert reproduce.estimate({"a": small(cpu_minutes=1.0)}, tmp_path, console) == {"a": 60.0}


def test_the_estimate_leaves_out_what_a_run_has_done(tmp_path: Path, console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    slows: list[float] = []

    def pace(run: Run, slow: float) -> float:
        slows.append(slow)
        return 0.5

    monkeypatch.setattr(reproduce, "pace", pace)
    runs = {
        "steps": small(steps=100),
        "minutes": small(steps=100_000, cpu_minutes=3.0),
        "over": small(steps=100_000, cpu_minutes=0.5),
        "damaged": small(steps=100),
        "strange": small(steps=100),
        "new": small(steps=100),
    }
    for key in ("steps", "minutes", "over"):
        (tmp_path / key).mkdir()
        for step in (30, 60):
            RunFolder(tmp_path / key).append_metrics({"step": step, "cpu_seconds": step + 10.0})
    for key, content in (("damaged", b'{"step": 60, "cpu_sec'), ("strange", b"3\n")):
        (tmp_path / key).mkdir()
        (tmp_path / key / "metrics.jsonl").write_bytes(content)
    found = reproduce.estimate(runs, tmp_path, console)
    assert found == {"steps": 20.0, "minutes": 110.0, "over": 0.0, "damaged": 50.0, "strange": 50.0, "new": 50.0}
    assert slows == [float("inf"), pytest.approx(4 * 110 / 99_940), *[float("inf")] * 3]


@pytest.mark.parametrize("name", ["copy", "adding", "permutation"])
def test_no_two_lines_of_the_list_are_the_same(name: str, console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reproduce, "pace", lambda run, slow: 0.5)
    reproduce.reproduce([name], Plan("cpu"), console, estimate_only=True)
    rows = [line for line in said(console).splitlines() if line.startswith(("copy ", "adding "))]
    assert len(rows) == len(set(rows)) == len(reproduce.runs_of([EXHIBITS[name]], Plan("cpu")))


def test_the_pace_of_a_run_is_measured() -> None:
    start = time.perf_counter()
    assert 0 < reproduce.pace(small()) < time.perf_counter() - start


def test_the_pace_of_a_run_that_its_minutes_end_is_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    monkeypatch.setattr(Training, "make_update", lambda self: made.append(1))
    assert reproduce.pace(small(), slow=0.0) > 0
    assert len(made) == 1


def looking_at(run: Run, trained: bool = True) -> Measurement:
    return Measurement("hiddenstate", Line(), 5, "hiddenstate", {"sequences": 2}, run, trained)


@pytest.mark.slow
def test_a_recorded_run_is_repeated_if_its_weights_are_needed(
    tmp_path: Path, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = small()
    exhibit = Exhibit("", "", id="looked", measurements=lambda plan: iter([looking_at(run)]))
    monkeypatch.setitem(EXHIBITS, "looked", exhibit)
    assert reproduce.reproduce(["looked"], Plan(), console) == []
    first = store.read_all(tmp_path / "results" / "copy.jsonl")
    measured = store.read_all(tmp_path / "results" / "hiddenstate.jsonl")
    assert [record["id"] for record in measured] == [looking_at(run).id]
    assert "looked: 1 runs, 0 of them recorded in results; 1 measurements, 0 recorded" in said(console)
    shutil.rmtree(tmp_path / "runs")
    assert reproduce.reproduce(["looked"], Plan(), console) == []  # all is recorded: no weights are needed
    assert not (tmp_path / "runs").exists()
    (tmp_path / "results" / "hiddenstate.jsonl").unlink()
    assert reproduce.reproduce(["looked"], Plan(), console) == []
    assert "1 to run (1 of them for their weights)" in said(console)
    again = store.read_all(tmp_path / "results" / "hiddenstate.jsonl")
    assert again[0]["found"] == measured[0]["found"]
    assert store.read_all(tmp_path / "results" / "copy.jsonl") == first


def test_measurements_without_weights_come_before_the_runs(
    tmp_path: Path, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = small()
    there: list[str] = []

    def stopped(*about: Any, **more: Any) -> Any:
        there.extend(record["id"] for record in store.read_all(tmp_path / "results" / "hiddenstate.jsonl"))
        raise Interrupted("Ctrl-C", "")

    untrained = looking_at(run, trained=False)
    exhibit = Exhibit("", "", id="looked", measurements=lambda plan: iter([looking_at(run), untrained]))
    monkeypatch.setitem(EXHIBITS, "looked", exhibit)
    monkeypatch.setattr(reproduce, "Scheduler", stopped)
    with pytest.raises(Interrupted):
        reproduce.reproduce(["looked"], Plan(), console)
    assert there == [untrained.id]


def test_an_estimate_lists_the_measurements_and_takes_none(
    tmp_path: Path, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("Scheduler", "measure"):
        monkeypatch.setattr(reproduce, name, lambda *about, **more: pytest.fail("something was made"))
    other = Measurement("drive", Line("", variant="b(x)"), 5, "drive", {"seeds": [1]}, small(seed=2))
    both = [looking_at(small(), trained=False), looking_at(small(seed=3), trained=False), other]
    monkeypatch.setitem(EXHIBITS, "looked", Exhibit("", "", id="looked", measurements=lambda plan: iter(both)))
    assert reproduce.reproduce(["looked"], Plan(), console, estimate_only=True) == []
    assert "3 to measure: srnn, b(x)\n" in said(console)
    assert list(tmp_path.iterdir()) == []


def test_a_measurement_without_weights_is_reported_and_the_others_continue(tmp_path: Path, console: Console) -> None:
    lost, good = looking_at(small(seed=1)), Measurement("drive", Line(variant="b"), 5, "drive", {"seeds": [1]}, small(seed=2))
    failed = reproduce.measure_all({each.id: each for each in (lost, good)}, tmp_path / "runs", tmp_path, console)
    assert len(failed) == 1
    assert "hiddenstate: srnn, 5: its run left no weights" in failed[0]
    assert [record["id"] for record in store.read_all(tmp_path / "drive.jsonl")] == [good.id]


def test_a_measurement_that_is_no_number_does_not_end_the_others(
    tmp_path: Path, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = iter((float("nan"), 1.0))
    monkeypatch.setattr(
        reproduce,
        "measure",
        lambda each, *about: Measured(id=each.id, measurement=each.as_dict(), found={"x": next(values)}, seconds=1.0),
    )
    two = [looking_at(small(seed=seed), trained=False) for seed in (1, 2)]
    failed = reproduce.measure_all({each.id: each for each in two}, tmp_path, tmp_path, console)
    assert len(failed) == 1
    assert "cannot be recorded" in failed[0]
    assert (tmp_path / "hiddenstate.jsonl").read_text().count("\n") == 1


def test_a_measurement_can_be_stopped(tmp_path: Path, console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*about: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(reproduce, "measure", interrupted)
    each = looking_at(small(), trained=False)
    with pytest.raises(
        Interrupted, match=r"stopped by Ctrl-C while measuring hiddenstate: srnn, 5\. Run the same command to resume"
    ):
        reproduce.measure_all({each.id: each}, tmp_path, tmp_path, console)


def test_records_that_cannot_be_read_are_named_and_stay(tmp_path: Path, console: Console) -> None:
    path = tmp_path / "copy.jsonl"
    damaged = b'{"kind": "run", "id": "half'
    newer = b'{"kind": "run", "id": "b", "format": 2}'
    about: dict[str, Any] = {"kind": "other", "settings": {}, "run": None}
    good = store.signed({"kind": "measurement", "id": "a", "measurement": about, "found": {}, "seconds": 1})
    altered = json.dumps(good | {"kind": "run"}).encode()
    lines = [json.dumps(good).encode(), damaged, newer, altered]
    odd = [b'{"kind": "run", "id": 0}', b'{"kind": "run", "id": []}', b"[" * 200_000, b'{"a": ' * 100_000]
    path.write_bytes(b"\n".join([*lines, *odd, b""]))
    recorded = records.read(tmp_path, console)
    assert list(recorded.done) == ["a"]
    assert "copy.jsonl:4 is altered" in said(console)
    assert "copy.jsonl:2 is damaged" in said(console)
    assert "copy.jsonl:3 is of another version: format 2, and this srnn reads format 1" in said(console)
    store.collect(path, {"kind": "run", "id": "a", "new": True})
    newest = store.signed({"kind": "run", "id": "a", "new": True})
    assert path.read_bytes().splitlines() == [*lines, *odd, json.dumps(newest).encode()]
    assert store.compact(path) == 1
    assert path.read_bytes().splitlines() == [json.dumps(newest).encode(), *lines[1:], *odd]
    with pytest.raises(RecordError, match=r"copy.jsonl:2 is damaged.*copy.jsonl:3 is of another version"):
        store.read_all(path)


def test_all_starts_with_the_exhibits_that_decide_most() -> None:
    names = [exhibit.id for exhibit in reproduce.chosen(["all"])]
    assert names[:4] == ["psmnist", "copy", "adding", "runtime"]
    assert sorted(names) == sorted(EXHIBITS)


@pytest.mark.parametrize(
    ("exhibit", "selection", "expected"),
    [  # the runs of docs/laboratory.md, by network, place and seeds
        ("randomlabels", Selection(["lstm", "gru", "rnn"], ["8x8"], ["10000"]), {"lstm": 1, "gru": 1, "rnn": 1}),
        ("randomlabels", Selection([], ["longer"]), {"srnn": 2}),
        ("psmnist", Selection([], ["longer"]), {"rnn": 2, "gru": 1, "lstm": 1}),
        ("psmnist", Selection(["lstm", "gru"], [], ["bigpmnist"]), {"lstm": 1, "gru": 1}),
        ("copy", Selection([], ["longer"], ["1000"]), {"gru": 1, "lstm": 1, "urnn": 1}),
        ("adding", Selection(["srnn"], ["-gate_init", "-updates"], ["1500"]), {"srnn": 3}),
        ("adding", Selection([], ["gate_init -2"], ["100"]), {"srnn": 10}),
        ("timit", Selection([], ["tuned"], ["2048"]), {"srnn": 2, "srnnstack": 2}),
        ("timit", Selection([], ["tuned"], ["512"]), dict.fromkeys(("srnn", "srnnstack", "lstm", "gru", "nru"), 6)),
    ],
)
def test_lines_and_places_select_runs(exhibit: str, selection: Selection, expected: dict[str, int]) -> None:
    found = reproduce.runs_of([EXHIBITS[exhibit]], Plan(), selection).values()
    assert Counter(run.network.name for run in found) == expected


def test_the_time_left_is_estimated_from_the_most_similar_record() -> None:
    def known(seconds: float, updates: int, **settings: Any) -> tuple[Run, Any]:
        run = make_run("copy", "gru", **({"length": 80} | settings))
        return run, SimpleNamespace(cpu_seconds=seconds, examples=updates * run.batch_size, epochs=None)

    slow, quick = known(10.0, 100), known(90.0, 100, length=980)
    run = make_run("copy", "gru", length=180, steps=1000, cpu_minutes=None)  # 200 steps, and the first record has 100
    assert reproduce.estimate_from_records(run, [slow, quick]) == pytest.approx(10.0 / 100 * 1000 * 2)
    assert reproduce.estimate_from_records(replace(run, cpu_minutes=1.0), [slow, quick]) == 60.0
    assert reproduce.estimate_from_records(replace(run, cpu_minutes=1.0), []) == 60.0
    assert reproduce.estimate_from_records(run, []) is None


def test_wrong_names_and_missing_data_are_one_line(monkeypatch: pytest.MonkeyPatch, console: Console) -> None:
    with pytest.raises(SettingError, match=r"no exhibit is called 'coppy'\. Choose one of all, copy, adding, psmnist"):
        reproduce.chosen(["coppy"])
    monkeypatch.setattr(data, "is_here", lambda name: False)
    with pytest.raises(
        DataError, match=r"timit needs data that are not here: speech, for 94 of its 94 parts\. `srnn data` says how"
    ):
        reproduce.reproduce(["timit"], QUICK, console)
    monkeypatch.setattr(reproduce, "_reproduce", lambda *about: pytest.fail("copy was started"))
    with pytest.raises(DataError, match="timit needs data"):
        reproduce.reproduce(["copy", "timit"], QUICK, console)
    monkeypatch.setattr(reproduce, "_reproduce", lambda exhibit, *about: [exhibit.id])
    possible = ["copy", "adding", "runtime", "gradients", "hiddenstate", "permutation", "timecomplexity"]
    assert reproduce.reproduce(["all"], QUICK, console) == possible
    assert "timit needs data that are not here: speech" in said(console)


def test_parts_whose_data_are_missing_are_skipped_and_the_others_run(
    monkeypatch: pytest.MonkeyPatch, console: Console, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(data, "is_here", lambda name: name != "speech")
    measured: list[str] = []

    def measure_all(left: dict[str, Any], *about: Any) -> list[str]:
        measured.extend(str(each.line) for each in left.values())
        return []

    monkeypatch.setattr(reproduce, "measure_all", measure_all)
    monkeypatch.setattr(Scheduler, "work", lambda self: [])
    reproduce.reproduce(["hiddenstate", "gradients"], QUICK, console)
    parts = [each for name in ("hiddenstate", "gradients") for each in EXHIBITS[name].measurements(QUICK)]
    wanted = [str(each.line) for each in parts if each.run is None or each.run.task.name != "speech"]
    assert sorted(measured) == sorted(wanted)
    assert len(wanted) == len(parts) - 2  # states, and b(x)
    assert "hiddenstate needs data that are not here: speech, for 1 of its 5 parts, which are skipped" in said(console)


def test_a_network_that_an_exhibit_does_not_have_is_reported(console: Console) -> None:
    with pytest.raises(SettingError, match=r"no network is called 'foo'\. Choose one of eurnn, exprnn, gru"):
        reproduce.reproduce(["copy"], QUICK, console, only=Selection(["foo"]))
    assert reproduce.reproduce(["permutation"], QUICK, console, only=Selection(["gru"])) == []
    assert "permutation has no run of gru. --all-networks may add some" in said(console)


def test_only_what_is_named_is_run() -> None:
    found = reproduce.runs_of([EXHIBITS["copy"], EXHIBITS["adding"]], Plan(), Selection(["gru"]))
    assert {run.network.name for run in found.values()} == {"gru"}
    assert {run.task.name for run in found.values()} == {"copy", "adding"}
    gradients = reproduce.measurements_of([EXHIBITS["gradients"], EXHIBITS["runtime"]], Plan(), Selection(["gru", "lstm"]))
    assert {each.line.network for each in gradients.values()} == {"gru", "lstm"}
    assert len(gradients) == 2 * 2 * 3 * 2  # networks, tasks, lengths, untrained and trained; nothing of Table 4
    everything = list(EXHIBITS["gradients"].measurements(Plan()))
    assert list(reproduce.measurements_of([EXHIBITS["gradients"]], Plan())) == [each.id for each in everything]


WITH_RUNS = [name for name, exhibit in EXHIBITS.items() if any(exhibit.points(QUICK))]


@pytest.mark.usefixtures("digits", "voices")
@pytest.mark.parametrize("name", WITH_RUNS)
def test_every_exhibit_can_be_rehearsed(name: str, tmp_path: Path) -> None:
    """One update of the first run of each of its tasks."""
    runs = reproduce.runs_of([EXHIBITS[name]], QUICK).values()
    for run in {run.task.name: run for run in reversed(runs)}.values():
        record = train(replace(run, steps=1), tmp_path / run.id)
        assert (record.status, record.updates, record.ended_by) == ("finished", 1, "steps")
        assert (record.result is None) == (run.task.reports is None)


def test_the_other_exhibits_have_measurements_alone() -> None:
    assert EXHIBITS.keys() - set(WITH_RUNS) == {"gradients", "hiddenstate", "runtime", "timecomplexity"}  # see test_measures.py
