"""A crew and its engine, without processes: what each is told, what is written, and that nothing is left open."""

import io
import json
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from srnn.errors import Interrupted, StorageError
from srnn.lab.records import store
from srnn.lab.scheduling import scheduler
from srnn.lab.scheduling.scheduler import Crew, News, Processes, Teller
from srnn.lab.training.recipes import make_run
from srnn.lab.training.run import Run


class Script:
    """An engine that says what it is given, lists of news or functions that return such, and notes what it is asked."""

    def __init__(self, *news: Any, last: list[News] | None = None) -> None:
        self.room, self.news, self.last, self.asked = 8, list(news), last or [], list[str]()

    def begin(self, key: str, run: Run, folder: Path) -> None:
        self.asked.append(f"begin {folder.parent.name}/{key}")

    def listen(self) -> list[News]:
        following = self.news.pop(0)
        return following() if callable(following) else following

    def stop(self) -> list[News]:
        self.asked.append("stop")
        return self.last

    def close(self) -> None:
        self.asked.append("close")


RUNS = {task: make_run(task, "srnn", length=5, steps=4) for task in ("copy", "adding")}
SECONDS = {"copy": 10.0, "adding": 30.0}


def crew(folder: Path, engine: Any, **how: Any) -> Crew:
    console = Console(file=io.StringIO(), width=200)
    return Crew(RUNS, SECONDS, folder / "runs", folder / "results", console, engine, **how)


def said(crew: Crew) -> list[str]:
    return crew.console.file.getvalue().split("\n")[:-2]  # type: ignore[attr-defined]  # the bar leaves an empty line


def done(key: str) -> News:
    return key, "done", {"kind": "run", "id": key, "status": "finished"}


def test_every_run_is_begun_recorded_and_the_engine_closed(tmp_path: Path) -> None:
    engine = Script([done("adding")], [], [done("copy")])
    assert crew(tmp_path, engine).work() == []
    assert engine.asked == ["begin runs/copy", "begin runs/adding", "close"]
    assert {path.name for path in (tmp_path / "results").glob("*.jsonl")} == {"copy.jsonl", "adding.jsonl"}


def test_a_record_that_is_kept_is_not_written_again(tmp_path: Path) -> None:
    assert crew(tmp_path, Script([done("copy"), done("adding")]), kept=["copy"]).work() == []
    assert [path.name for path in (tmp_path / "results").glob("*.jsonl")] == ["adding.jsonl"]


def test_a_record_that_cannot_be_written_is_a_failure_and_the_others_are_written(tmp_path: Path) -> None:
    def fill() -> list[News]:
        (tmp_path / "results" / "copy.jsonl").mkdir()  # in the place of the file, after the crew has looked for room
        return [done("copy"), done("adding")]

    engine = Script(fill)
    made = crew(tmp_path, engine)
    (failed,) = made.work()
    assert failed.startswith("copy length 5, srnn ")
    assert "copy.jsonl cannot be written: Is a directory" in failed
    assert [line.split(":")[0] for line in said(made)] == ["failed", "finished"]
    (failure,) = store.read_all(tmp_path / "results" / "failed.jsonl")
    assert (failure["id"], failure["tries"], failure["run"]) == ("failed-copy", 1, RUNS["copy"].as_dict())
    assert [record["id"] for record in store.read_all(tmp_path / "results" / "adding.jsonl")] == ["adding"]
    assert engine.asked[-1] == "close"


def test_a_failure_that_cannot_be_written_either_is_told(tmp_path: Path) -> None:
    def full(path: Path, record: dict[str, Any]) -> None:
        raise StorageError(f"{path.name} cannot be written: No space left on device")

    with pytest.MonkeyPatch.context() as broken:
        broken.setattr(store, "collect", full)
        failed = crew(tmp_path, Script([done("copy"), done("adding")])).work()
    assert [text.split(": ", 1)[1] for text in failed] == [
        f"{task}.jsonl cannot be written: No space left on device" for task in RUNS
    ]


def test_a_place_for_records_that_cannot_be_written_is_told_before_anything_is_begun(tmp_path: Path) -> None:
    (tmp_path / "results").write_text("a file in the place of the folder")
    engine = Script()
    with pytest.raises(StorageError, match=r"results/copy\.jsonl cannot be written: .*; give another --results"):
        crew(tmp_path, engine)
    assert engine.asked == []


@pytest.mark.parametrize("fault", [ZeroDivisionError, KeyboardInterrupt])
def test_the_engine_is_closed_after_a_fault_of_ours(fault: type[BaseException], tmp_path: Path) -> None:
    def fail() -> list[News]:
        raise fault

    engine = Script(fail)
    with pytest.raises(fault):
        crew(tmp_path, engine).work()
    assert engine.asked[-1] == "close"


def test_what_ends_while_it_is_stopped_is_recorded_and_the_rest_can_go_on(tmp_path: Path) -> None:
    def stop() -> list[News]:
        signal.raise_signal(signal.SIGTERM)
        return []

    engine = Script(stop, last=[done("copy"), ("adding", "stopped", None)])
    with pytest.raises(Interrupted, match="stopped by SIGTERM; 1 runs stand at their checkpoints") as caught:
        crew(tmp_path, engine).work()
    assert caught.value.exit_code == 143
    assert engine.asked[-2:] == ["stop", "close"]
    assert [path.name for path in (tmp_path / "results").glob("*.jsonl")] == ["copy.jsonl"]


def test_progress_is_weighed_by_the_seconds_of_each_run(tmp_path: Path) -> None:
    seen: list[float] = []

    def look() -> list[News]:
        seen.append(made.bar.tasks[made.whole].completed)
        return []

    made = crew(
        tmp_path,
        Script([("adding", "at", (0.5, 2))], look, [done("copy"), ("adding", "at", (0.75, 3))], look, [done("adding")]),
    )
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
    told: list[Any] = []
    training: Any = SimpleNamespace(
        position=SimpleNamespace(step=25, seconds=180.0, cpu_seconds=60.0),
        last_step=last_step,
        run=SimpleNamespace(minutes=minutes, cpu_minutes=cpu_minutes),
    )
    teller = Teller(told.append)
    monkeypatch.setattr(scheduler, "EVERY", float("inf"))
    teller.update(training)
    assert told == []  # not so often
    monkeypatch.setattr(scheduler, "EVERY", -1.0)
    teller.update(training)
    assert told == [["at", (share, 25)]]


def test_processes_that_still_work_are_ended_and_those_that_wait_are_sent_home() -> None:
    heard: list[tuple[str, str]] = []

    def worker(name: str, is_gone: bool = False) -> Any:
        def send_bytes(content: bytes) -> None:
            heard.append((name, f"told {json.loads(content)}"))
            if is_gone:
                raise BrokenPipeError

        ways = {way: lambda way=way: heard.append((name, way)) for way in ("terminate", "join")}
        return SimpleNamespace(line=SimpleNamespace(send_bytes=send_bytes), process=SimpleNamespace(**ways))

    engine = Processes(3)
    engine.idle, engine.working = [worker("gone", is_gone=True), worker("idle")], {"copy": worker("busy")}
    engine.close()
    told = [("gone", "told None"), ("idle", "told None"), ("busy", "terminate")]
    assert heard == [*told, *((name, "join") for name in ("gone", "idle", "busy"))]
