"""Records that are well-formed JSON with a valid digest, and odd in one place: each costs a line, and the rest is shown."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from srnn.lab.cli import runs as lab
from srnn.lab.records import store
from srnn.lab.records.shape import WHOLE
from srnn.lab.report import page, plot

RESULTS = Path(__file__).parents[1] / "results"


def nested(depth: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(depth):
        found = [found]
    return found


ODD: list[Any] = [
    None,
    [],
    ["a"],
    {},
    {"name": 1},
    10**400,
    -(10**400),
    WHOLE - 1,
    -1,
    -0.5,
    1e99,
    0,
    0.0,
    "",
    "NaN",
    "[/b]",
    "\x1b[2J",
]
ODD += [True, nested(50), nested(900), [None], [[1.0]], {"a": {"b": [None]}}, float("nan"), float("inf"), "\ud800", "../x"]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Returns the paths of all values in a record that can be replaced: two entries of a list stand for all."""
    entries = value.items() if isinstance(value, dict) else list(enumerate(value))[:2] if isinstance(value, list) else ()
    return [each for key, entry in entries for each in ((*path, key), *places(entry, (*path, key)))]


def replaced(record: dict[str, Any], path: tuple[Any, ...], odd: Any) -> dict[str, Any]:
    found = at = json.loads(json.dumps(record))
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = odd
    return found


SEEDS = [0, pytest.param(1, marks=pytest.mark.slow)]  # `make fuzz` draws more


@pytest.fixture(params=SEEDS)
def odd_folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The records of this repository, half of them with one odd value."""
    choose = random.Random(request.param)
    for path in RESULTS.glob("*.jsonl"):
        lines = []
        for record in (each for each in store.read_all(path) if each["kind"] in ("run", "measurement", "failure")):
            where = choose.choice([each for each in places(record) if each not in (("kind",), ("id",), ("format",))])
            odd = replaced(record, where, choose.choice(ODD)) if choose.random() < 0.5 else record
            lines.append(json.dumps(store.signed(odd)))
        (tmp_path / path.name).write_text("\n".join(lines) + "\n")
    return tmp_path


def test_odd_records_do_not_stop_the_list_of_runs(odd_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = lab.list_runs(odd_folder, Console(width=200))
    said = capsys.readouterr()
    assert len(shown) > 100
    assert "It is left out" in said.err
    assert "\x1b" not in said.out + said.err


def test_odd_records_do_not_stop_the_report(odd_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plot, "save", lambda *_: None)  # the same panels are drawn for the page
    made = page.make(odd_folder, tmp_path / "page", Console(quiet=True))
    assert "It is left out" in made.read_text(encoding="utf-8")


def test_a_record_of_an_unknown_task_costs_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, other = store.read_all(RESULTS / "copy.jsonl")[:2]
    store.collect(tmp_path / "copy.jsonl", one)
    store.collect(tmp_path / "copy.jsonl", replaced(other, ("run", "task", "name"), "NaN"))
    assert [each["id"] for each in lab.list_runs(tmp_path, Console(width=200))] == [one["id"]]
    (line,) = capsys.readouterr().err.splitlines()
    assert f"the record {other['id']} cannot be used: " in line
    assert line.endswith(". It is left out")
