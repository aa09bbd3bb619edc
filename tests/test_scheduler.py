"""The scheduler and its engine, without processes: what is started, what is written, and that everything is closed."""

import io
import json
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from srnn.errors import Interrupted, StorageError
from srnn.lab import data
from srnn.lab.records import store
from srnn.lab.records.record import Record
from srnn.lab.scheduling import processes
from srnn.lab.scheduling.processes import Processes, Reporter
from srnn.lab.scheduling.scheduler import Scheduler, attempt
from srnn.lab.training.recipes import make_run
from srnn.lab.training.run import Run
from srnn.lab.workers import Event


class Script:
    """An engine that returns given events, as lists or from functions, and notes its calls."""

    def __init__(self, *events: Any, last: list[Event] | None = None) -> None:
        self.room, self.events, self.last, self.asked = 8, list(events), last or [], list[str]()

    def start(self, key: str, run: Run, folder: Path) -> None:
        self.asked.append(f"start {folder.parent.name}/{key}")

    def poll(self) -> list[Event]:
        following = self.events.pop(0)
        return following() if callable(following) else following

    def stop(self) -> list[Event]:
        self.asked.append("stop")
        return self.last

    def close(self) -> None:
        self.asked.append("close")


RUNS = {task: make_run(task, "srnn", length=5, steps=4) for task in ("copy", "adding")}
SECONDS = {"copy": 10.0, "adding": 30.0}


def scheduler(folder: Path, engine: Any, **how: Any) -> Scheduler:
    console = Console(file=io.StringIO(), width=200)
    return Scheduler(RUNS, SECONDS, folder / "runs", folder / "results", console, engine, **how)


def said(made: Scheduler) -> list[str]:
    return made.console.file.getvalue().split("\n")[:-2]  # type: ignore[attr-defined]  # the bar leaves an empty line


def done(key: str) -> Event:
    numbers: dict[str, Any] = {"parameters": 1, "updates": 4, "examples": 8, "chance": 1.0, "seconds": 1.0, "cpu_seconds": 1.0}
    how: dict[str, Any] = {"status": "finished", "ended_by": "steps", "epochs": None, "result": None, "training": None}
    curve: dict[str, list[Any]] = {name: [] for name in ("step", "loss", "seconds", "cpu_seconds")}
    return Event(key, "done", Record(id=key, run=RUNS[key].as_dict(), curve=curve, **numbers, **how).to_json())


def test_every_run_is_started_and_recorded_and_the_engine_is_closed(tmp_path: Path) -> None:
    engine = Script([done("adding")], [], [done("copy")])
    assert scheduler(tmp_path, engine).work() == []
    assert engine.asked == ["start runs/copy", "start runs/adding", "close"]
    assert {path.name for path in (tmp_path / "results").glob("*.jsonl")} == {"copy.jsonl", "adding.jsonl"}


def test_a_record_that_is_kept_is_not_written_again(tmp_path: Path) -> None:
    assert scheduler(tmp_path, Script([done("copy"), done("adding")]), kept=["copy"]).work() == []
    assert [path.name for path in (tmp_path / "results").glob("*.jsonl")] == ["adding.jsonl"]


def test_a_record_that_cannot_be_written_is_a_failure_and_the_others_are_written(tmp_path: Path) -> None:
    def fill() -> list[Event]:
        (tmp_path / "results" / "copy.jsonl").mkdir()  # in the place of the file, after the scheduler has looked for room
        return [done("copy"), done("adding")]

    engine = Script(fill)
    made = scheduler(tmp_path, engine)
    (failed,) = made.work()
    assert failed.startswith("copy length 5, srnn ")
    assert "copy.jsonl cannot be written: Is a directory" in failed
    assert [line.split(":")[0] for line in said(made)] == ["failed", "finished"]
    (failure,) = store.read_all(tmp_path / "results" / "failed.jsonl")
    assert (failure["id"], failure["tries"], failure["run"]) == ("failed-copy", 1, RUNS["copy"].as_dict())
    assert [record["id"] for record in store.read_all(tmp_path / "results" / "adding.jsonl")] == ["adding"]
    assert engine.asked[-1] == "close"


def test_a_failure_that_cannot_be_written_either_is_reported(tmp_path: Path) -> None:
    def full(path: Path, record: dict[str, Any]) -> None:
        raise StorageError(f"{path.name} cannot be written: No space left on device")

    with pytest.MonkeyPatch.context() as broken:
        broken.setattr(store, "collect", full)
        failed = scheduler(tmp_path, Script([done("copy"), done("adding")])).work()
    assert [text.split(": ", 1)[1] for text in failed] == [
        f"{task}.jsonl cannot be written: No space left on device" for task in RUNS
    ]


def test_a_folder_for_records_that_cannot_be_written_is_reported_before_a_run_starts(tmp_path: Path) -> None:
    (tmp_path / "results").write_text("a file in the place of the folder")
    engine = Script()
    with pytest.raises(StorageError, match=r"results/copy\.jsonl cannot be written: .*. Give another --results"):
        scheduler(tmp_path, engine)
    assert engine.asked == []


@pytest.mark.parametrize("fault", [ZeroDivisionError, KeyboardInterrupt])
def test_the_engine_is_closed_after_an_error(fault: type[BaseException], tmp_path: Path) -> None:
    def fail() -> list[Event]:
        raise fault

    engine = Script(fail)
    with pytest.raises(fault):
        scheduler(tmp_path, engine).work()
    assert engine.asked[-1] == "close"


def test_runs_that_end_while_stopping_are_recorded_and_the_rest_can_resume(tmp_path: Path) -> None:
    def stop() -> list[Event]:
        signal.raise_signal(signal.SIGTERM)
        return []

    engine = Script(stop, last=[done("copy"), Event("adding", "stopped", None)])
    with pytest.raises(Interrupted, match=r"stopped by SIGTERM\. Run the same command to resume 1 runs") as caught:
        scheduler(tmp_path, engine).work()
    assert caught.value.exit_code == 143
    assert engine.asked[-2:] == ["stop", "close"]
    assert [path.name for path in (tmp_path / "results").glob("*.jsonl")] == ["copy.jsonl"]


def progress(share: float, update: int) -> Event:
    return Event("adding", "progress", (share, update))


def test_progress_is_weighted_by_the_seconds_of_each_run(tmp_path: Path) -> None:
    seen: list[float] = []

    def look() -> list[Event]:
        seen.append(made.bar.tasks[made.whole].completed)
        return []

    made = scheduler(tmp_path, Script([progress(0.5, 2)], look, [done("copy"), progress(0.75, 3)], look, [done("adding")]))
    assert made.work() == []
    assert seen == [15.0, 32.5]  # of 40
    assert made.bar.tasks[made.whole].total == 40.0


@pytest.mark.parametrize(
    ("last_step", "minutes", "cpu_minutes", "share"),
    [(100, None, None, 0.25), (100, 20.0, 10.0, 0.25), (100, None, 2.0, 0.5), (None, 6.0, None, 0.5), (None, None, None, 0.0)],
)
def test_the_share_is_that_of_the_limit_that_comes_first(
    last_step: int | None, minutes: float | None, cpu_minutes: float | None, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[Any] = []
    training: Any = SimpleNamespace(
        position=SimpleNamespace(step=25, seconds=180.0, cpu_seconds=60.0),
        last_step=last_step,
        run=SimpleNamespace(minutes=minutes, cpu_minutes=cpu_minutes),
    )
    reporter = Reporter(sent.append)
    monkeypatch.setattr(processes, "EVERY", float("inf"))
    reporter.update(training)
    assert sent == []  # not so often
    monkeypatch.setattr(processes, "EVERY", -1.0)
    reporter.update(training)
    assert sent == [["progress", (share, 25)]]


def test_close_ends_working_and_idle_processes() -> None:
    seen: list[tuple[str, str]] = []

    def worker(name: str, is_gone: bool = False) -> Any:
        def send_bytes(content: bytes) -> None:
            seen.append((name, f"sent {json.loads(content)}"))
            if is_gone:
                raise BrokenPipeError

        ways = {way: lambda way=way: seen.append((name, way)) for way in ("terminate", "join")}
        return SimpleNamespace(pipe=SimpleNamespace(send_bytes=send_bytes), process=SimpleNamespace(**ways))

    engine = Processes(3)
    engine.idle, engine.working = [worker("gone", is_gone=True), worker("idle")], {"copy": worker("busy")}
    engine.close()
    first = [("gone", "sent None"), ("idle", "sent None"), ("busy", "terminate")]
    assert seen == [*first, *((name, "join") for name in ("gone", "idle", "busy"))]


PROSE = "the quick brown fox jumps over the lazy dog. " * 150


def text_run() -> Run:
    return make_run("text", "srnn", length=8, hidden_size=4, batch_size=2, steps=1)


def test_a_worker_searches_the_folders_that_come_with_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SRNN_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "sets" / "text").mkdir(parents=True)
    (tmp_path / "sets" / "text" / "prose.txt").write_text(PROSE)
    settings = text_run().as_dict()
    kind, why = attempt(settings, tmp_path / "without")
    assert (kind, "text (one file of plain text" in why) == ("failed", True)
    kind, record = attempt(settings, tmp_path / "with", data_folders=[str(tmp_path / "sets")])
    assert (kind, record["status"]) == ("done", "finished")
    assert attempt(settings, tmp_path / "after")[0] == "failed"  # those of one run are not those of the next


def test_processes_send_the_data_folders_with_each_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Any] = []
    monkeypatch.setattr(Processes, "send", lambda self, key, message: sent.append(message))
    monkeypatch.chdir(tmp_path)
    data.look_in(Path("sets"))
    try:
        Processes(1).start("copy", RUNS["copy"], tmp_path / "run")
    finally:
        data.look_in()
    (message,) = sent
    assert message["data_folders"] == [str(tmp_path / "sets")]  # absolute: a worker may be elsewhere
    assert message["settings"] == RUNS["copy"].as_dict()


def test_a_run_whose_data_are_given_by_an_argument_is_trained_by_a_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SRNN_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "sets" / "text").mkdir(parents=True)
    (tmp_path / "sets" / "text" / "prose.txt").write_text(PROSE)
    data.look_in(tmp_path / "sets")
    try:
        left = {"text": text_run()}
        console = Console(file=io.StringIO())
        assert Scheduler(left, {"text": 1.0}, tmp_path / "runs", tmp_path / "results", console, Processes(1)).work() == []
    finally:
        data.look_in()
    (record,) = store.read_all(tmp_path / "results" / "text.jsonl")
    assert record["status"] == "finished"
