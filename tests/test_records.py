"""Records as typed objects, and the files and locks they are stored with."""

import json
import math
import os
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from srnn.errors import InUseError, RecordError, StorageError
from srnn.lab.records import record as records
from srnn.lab.records import store
from srnn.lab.records.folder import RunFolder
from srnn.lab.records.record import Evaluation, Failure, Losses, Measured, Record, Score
from srnn.lab.tasks import TASKS

RESULTS = Path(__file__).parents[1] / "results"
PLAIN: dict[str, Any] = {
    "kind": "run",
    "id": "copy-srnn-0",
    "run": {"seed": 7, "task": {"name": "copy"}, "network": {"name": "srnn"}, "recipe": "paper", "steps": 6}
    | {"optimizer": "adam", "lr": 0.1, "batch_size": 2},
    "parameters": 10,
    "status": "finished",
    "ended_by": "steps",
    "updates": 6,
    "examples": 12,
    "epochs": None,
    "result": None,
    "training": {"window": 2, "final": 3.0, "lowest": 2.0, "lowest_at": 5},
    "guesser": 4.0,
    "curve": {"step": [1, 2, 3, 4], "loss": [9.0, 5.0, 1.0, 2.0], "seconds": [1, 2, 3, 4], "cpu_seconds": [2, 4, 6, 8]},
    "seconds": 4.5,
    "cpu_seconds": 9,
    "commit": {"id": "0123456789abcdef", "dirty": True},
    "something": "that a later version adds",
}
SCORED = {
    "result": {"split": "test", "metric": "accuracy", "value": 91.0, "loss": 0.2, "at": 4},
    "selection": {"split": "val", "loss": 0.3, "score": 90.0, "step": 4},
    "curve": PLAIN["curve"] | {"evaluation_loss": [3, None, 2, 1], "evaluation_score": [50, None, 90, 80]},
}
MEASURED: dict[str, Any] = {
    "kind": "measurement",
    "id": "copy-srnn-0",
    "measurement": {"kind": "drive", "settings": {}, "run": None},
    "found": {"mean": [0.1], "deviation": [0.9]},
    "seconds": 1.5,
}


@pytest.mark.parametrize("folder", [RESULTS, RESULTS / "learning"])
def test_every_stored_record_is_read_and_written_back_unchanged(folder: Path) -> None:
    plain = [each for path in sorted(folder.glob("*.jsonl")) for each in store.read_all(path)]
    stored = [each for each in plain if each["kind"] in records.KINDS]
    found = records.read(folder)
    assert not found.faults
    assert len(found.found) == len(stored) > 200
    assert [each.to_json() for each in found.found] == stored


def test_stored_records_have_the_split_and_direction_of_their_task() -> None:
    found = records.read(RESULTS).of(Record)
    tasks = [TASKS[each.run["task"]["name"]] for each in found]
    assert [each.reports for each in found] == [task.reports for task in tasks]
    assert [each.higher_is_better for each in found] == [task.higher_is_better for task in tasks]


def test_a_record_has_typed_fields_and_keeps_the_rest() -> None:
    record = Record.from_json(PLAIN | SCORED)
    assert (record.id, record.seed, record.chance, record.cpu_seconds, record.diverged) == ("copy-srnn-0", 7, 4.0, 9, False)
    assert record.training == Losses(window=2, final=3.0, lowest=2.0, lowest_at=5)
    assert record.result == Score(split="test", metric="accuracy", value=91.0, loss=0.2, at=4)
    assert record.selection == Evaluation(split="val", loss=0.3, score=90.0, step=4)
    assert record.environment["something"] == "that a later version adds"
    assert record.commit == "0123456789 + changes"
    assert record.to_json() == PLAIN | SCORED
    assert replace(record, updates=9).to_json() == PLAIN | SCORED | {"updates": 9}


def test_a_record_without_reported_split_is_scored_by_its_losses() -> None:
    record = Record.from_json(PLAIN)
    assert (record.reports, record.score) == (None, 2.0)
    assert record.smooth == [(1, 2, 9.0), (2, 4, 5.0), (3, 6, 3.0), (4, 8, 1.5)]  # medians of 1, 1, 2 and 2 losses
    assert record.reached(5.0) == (2, 4)
    assert record.reached(2.9) == (4, 8)
    assert record.reached(1.0) is None
    assert Record.from_json(PLAIN | {"training": None}).score is None


def test_a_record_with_reported_split_is_scored_by_its_evaluations() -> None:
    record = Record.from_json(PLAIN | SCORED)
    assert (record.reports, record.higher_is_better, record.score) == ("test", True, 91.0)
    assert record.reached(50.0) == (1, 2)
    assert record.reached(85.0) == (3, 6)
    assert record.reached(95.0) is None
    diverged = Record.from_json(PLAIN | SCORED | {"status": "diverged", "result": None})
    assert (diverged.diverged, diverged.score) == (True, None)  # and not its loss in the place of an accuracy


def test_a_newer_record_states_the_split_of_its_task() -> None:
    record = Record.from_json(PLAIN | {"reports": "test", "higher_is_better": True, "status": "diverged"})
    assert (record.reports, record.higher_is_better, record.score, record.reached(0.0)) == ("test", True, None, None)


@pytest.mark.parametrize(
    ("kind", "plain", "said"),
    [
        (Record, {name: PLAIN[name] for name in PLAIN.keys() - {"curve", "guesser"}}, "is not whole: it lacks guesser, curve"),
        (Record, PLAIN | {"updates": "six"}, "is damaged: updates has a value of type str"),
        (Record, PLAIN | {"run": [1]}, "is damaged: run has a value of type list"),
        (Record, PLAIN | {"result": 3.0}, "is damaged: result has a value of type float"),
        (Record, PLAIN | {"result": {"value": 3.0}}, "is damaged: result.split has a value of type NoneType"),
        (Record, PLAIN | {"result": SCORED["result"] | {"mood": "good"}}, "is damaged: result: .* argument 'mood'"),
        (Record, PLAIN | {"updates": -1}, "is damaged: updates is not a whole number from 0 to 2"),
        (Record, PLAIN | {"seconds": True}, "is damaged: seconds has a value of type bool"),
        (Record, PLAIN | {"seconds": 10**400}, "is damaged: seconds is not a finite number"),
        (Record, PLAIN | {"guesser": math.nan}, "is damaged: guesser is not a finite number"),
        (Record, PLAIN | {"run": PLAIN["run"] | {"seed": None}}, "is damaged: run.seed has a value of type NoneType"),
        (Record, PLAIN | {"curve": PLAIN["curve"] | {"loss": [1.0]}}, "is damaged: the columns of its curve differ in length"),
        (Record, PLAIN | {"commit": "0123"}, "is damaged: commit has a value of type str"),
        (Measured, MEASURED | {"found": {"mean": [1.0]}}, "is damaged: found.deviation has a value of type NoneType"),
        (Measured, {"id": "copy-srnn-0"}, "is not whole: it lacks measurement, found, seconds"),
    ],
)
def test_a_damaged_record_is_one_error_that_names_what_is_wrong(kind: Any, plain: dict[str, Any], said: str) -> None:
    with pytest.raises(RecordError, match=f"the record copy-srnn-0 {said}"):
        kind.from_json(plain)


def test_a_folder_is_read_by_kind_and_faults_are_named(tmp_path: Path) -> None:
    measured = MEASURED | {"id": "m"}
    for plain in (PLAIN, measured, {"kind": "failure", "id": "failed-a", "error": "no memory"}, {"kind": "swap", "id": "s"}):
        store.collect(tmp_path / "a.jsonl", plain)
    store.collect(tmp_path / "b.jsonl", {"kind": "run", "id": "half"})
    found = records.read(tmp_path)
    assert [each.id for each in found.of(Record)] == ["copy-srnn-0"]
    assert [each.found for each in found.of(Measured)] == [MEASURED["found"]]
    assert [each.error for each in found.of(Failure)] == ["no memory"]
    assert found.done.keys() == {"copy-srnn-0", "m"}  # a failure does not count as recorded
    (fault,) = found.faults
    assert fault.startswith(f"{tmp_path / 'b.jsonl'}: the record half is not whole: it lacks run, parameters")


def test_a_record_file_that_is_not_whole_is_named(tmp_path: Path) -> None:
    store.write(tmp_path / "record.json", PLAIN)
    assert records.load(tmp_path / "record.json") == Record.from_json(PLAIN)
    store.write(tmp_path / "record.json", {"kind": "run", "id": "half"})
    with pytest.raises(RecordError, match=r"record\.json: the record half is not whole"):
        records.load(tmp_path / "record.json")


HOLD = """
import sys, time
from pathlib import Path
from filelock import FileLock
from srnn.lab.records import store
from srnn.lab.records.folder import RunFolder
with RunFolder(Path("run")).held(), FileLock(store.make_room(Path("copy.jsonl"))):
    print("held", flush=True)
    time.sleep(600)
"""


def test_locks_end_with_the_process_that_holds_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    process = subprocess.Popen([sys.executable, "-c", HOLD], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        start = time.monotonic()
        with pytest.raises(InUseError, match="run is in use by another process"), RunFolder(Path("run")).held():
            pass
        assert time.monotonic() - start < 2  # refused at once
        waiting = threading.Thread(target=store.collect, args=(Path("copy.jsonl"), {"kind": "run", "id": "a"}))
        waiting.start()
        waiting.join(0.5)
        assert waiting.is_alive()  # waited for
    finally:
        process.kill()
        process.communicate()
    waiting.join(30)
    with RunFolder(Path("run")).held():
        pass
    assert [each["id"] for each in store.read_all(Path("copy.jsonl"))] == ["a"]


def ids(path: Path) -> list[tuple[str, int]]:
    return [(each["id"], each["number"]) for each in store.read_lines(path)[0]]


def fill(path: Path, *names: str) -> None:
    for number, name in enumerate(names):
        store.collect(path, {"kind": "run", "id": name, "number": number})


def test_a_record_is_appended_and_counts_in_the_place_of_the_older_one(tmp_path: Path) -> None:
    path = tmp_path / "copy.jsonl"
    fill(path, "a", "b", "c")
    before = path.read_bytes()
    fill(path, "d", "a")
    assert path.read_bytes().startswith(before)
    assert path.read_bytes().count(b"\n") == 5
    assert ids(path) == [("a", 1), ("b", 1), ("c", 2), ("d", 0)]


def test_adding_a_record_takes_as_long_whatever_the_length_of_the_file(tmp_path: Path) -> None:
    path, seconds = tmp_path / "copy.jsonl", []
    lines = [json.dumps(store.signed({"kind": "run", "id": f"a{number}", "number": 0})) for number in range(100_000)]
    path.write_text("\n".join(lines) + "\n")
    for _ in range(3):
        start = time.perf_counter()
        fill(path, "b")
        seconds.append(time.perf_counter() - start)
    assert min(seconds) < 0.05
    assert path.read_bytes().count(b"\n") == 100_003


def test_a_record_is_on_the_disk_when_it_is_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, synced = tmp_path / "copy.jsonl", []
    fill(path, "a")
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(os.fstat(file).st_size))
    fill(path, "b")
    assert synced == [path.stat().st_size]


def test_new_folders_are_on_the_disk_before_anything_is_in_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[tuple[str, list[str]]] = []
    monkeypatch.setattr(store, "sync", lambda folder: synced.append((folder.name, [each.name for each in folder.iterdir()])))
    store.make_folder(tmp_path / "a" / "b")
    assert synced == [(tmp_path.name, ["a"]), ("a", ["b"])]
    store.make_folder(tmp_path / "a" / "b")
    assert len(synced) == 2


@pytest.mark.parametrize("name", ["file/copy.jsonl", "file/x/copy.jsonl"])
def test_a_file_where_a_folder_is_needed_is_not_a_directory(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(StorageError, match=rf"{name} cannot be written: Not a directory\. Give another --results$"):
        store.make_room(tmp_path / name)
    assert (tmp_path / "file").read_text() == "mine"


def test_a_torn_last_line_is_reported_and_the_next_record_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "copy.jsonl"
    fill(path, "a", "b")
    whole, ends = path.read_bytes(), path.read_bytes().index(b"\n") + 1
    for end in range(ends + 1, len(whole) - 1):
        path.write_bytes(whole[:end])
        (fault,) = store.read_lines(path)[1]
        assert fault == f"{path}:2 is torn: its writer was stopped, or is still writing. It is left out"
        fill(path, "c")
        assert ids(path) == [("a", 0), ("c", 0)]
        assert store.compact(path) == 0
        assert whole[ends:end] in path.read_bytes().splitlines()  # to be repaired by hand
    path.write_bytes(whole[:-1])  # only the end is missing
    fill(path, "c")
    assert ids(path) == [("a", 0), ("b", 1), ("c", 0)]
    assert store.read_lines(path)[1] == []


def test_removing_a_record_removes_its_older_versions(tmp_path: Path) -> None:
    path = tmp_path / "failed.jsonl"
    fill(path, "a", "b", "a")
    path.write_bytes(path.read_bytes() + b'{"torn')
    store.remove(path, "a")
    assert ids(path) == [("b", 1)]
    assert path.read_bytes().endswith(b'}\n{"torn\n')
    store.remove(path, "c")
    assert ids(path) == [("b", 1)]


def test_compacting_keeps_what_readers_see_and_lines_that_they_cannot_read(tmp_path: Path) -> None:
    path = tmp_path / "copy.jsonl"
    fill(path, "a", "b", "a")
    with path.open("ab") as file:
        file.write(b"half\r a line\n\n")
    fill(path, "b")
    before, lines = store.read_lines(path), path.read_bytes().split(b"\n")
    assert store.compact(path) == 2
    assert path.read_bytes().split(b"\n") == [lines[2], lines[5], b"half\r a line", b"", b""]
    assert store.read_lines(path)[0] == before[0]
    assert store.compact(path) == 0


ADD = """
import sys
from pathlib import Path
from srnn.lab.records import store
for number in range(30):
    store.collect(Path("copy.jsonl"), {"kind": "run", "id": f"{sys.argv[1]}-{number}", "number": number})
    if number % 10 == 9:
        store.compact(Path("copy.jsonl"))
"""


def test_processes_that_add_and_compact_at_once_lose_nothing(tmp_path: Path) -> None:
    adding = [subprocess.Popen([sys.executable, "-c", ADD, name], cwd=tmp_path) for name in "xy"]
    assert [process.wait(120) for process in adding] == [0, 0]
    path = tmp_path / "copy.jsonl"
    assert sorted(ids(path)) == sorted((f"{name}-{number}", number) for name in "xy" for number in range(30))
    assert store.read_lines(path)[1] == []
