"""Records as a table: one line for all seeds of a setting, and nothing in it that is not in a record."""

import io
import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from srnn.errors import RecordError
from srnn.lab.cli import runs as lab
from srnn.lab.records import record as records
from srnn.lab.records import store
from srnn.lab.records.record import Record, Score
from srnn.lab.report import runs as results
from srnn.lab.training.loop import train
from srnn.lab.training.progress import number
from srnn.lab.training.recipes import make_run


def recorded(folder: Path, **settings: Any) -> Record:
    run = make_run("copy", "srnn", **({"length": 5, "hidden_size": 8, "batch_size": 2, "steps": 4} | settings))
    record = train(run, folder / run.id)
    store.collect(folder / "results" / "copy.jsonl", record.to_json())
    return record


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for seed in (1234, 1):
        recorded(tmp_path, seed=seed)
    recorded(tmp_path, length=12)
    recorded(tmp_path, lr=0.5)
    return tmp_path


def test_seeds_share_a_line_and_other_settings_do_not(folder: Path) -> None:
    found = results.read(folder / "results")
    lines = [dict(zip(results.HEADINGS, row, strict=True)) for row in results.rows(found)]
    assert [(line["task"], line["seeds"]) for line in lines] == [
        ("copy length 5", "1, 1234"),
        ("copy length 5", "1234"),
        ("copy length 12", "1234"),
    ]
    usual, other = "paper, but batch_size 2, steps 4", "paper, but batch_size 2, lr 0.5, steps 4"
    assert [line["recipe"] for line in lines] == [usual, other, usual]
    by_seed = {record.seed: record.training for record in found[:2] if record.training}
    shown = [f"{number(by_seed[seed].lowest)} / {number(by_seed[seed].final)}" for seed in (1, 1234)]
    assert lines[0]["score"] == ", ".join(shown)
    assert lines[0]["network"] == "srnn hidden_size 8, mlp 8"


def test_narrow_terminal_gets_fewer_columns(folder: Path) -> None:
    found = results.read(folder / "results")
    shown = {}
    for width in (80, 300):
        console = Console(file=io.StringIO(), width=width)
        results.show(found, console)
        shown[width] = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert shown[80][0].split() == ["task", "network", "recipe", "score", "updates"]
    assert " ".join(shown[300][0].split()) == " ".join(results.HEADINGS)
    assert max(map(len, shown[80])) <= 80
    for row in results.rows(found):
        assert any(row[results.HEADINGS.index("score")] in line for line in shown[300])


def test_the_document_shows_the_records() -> None:
    root = Path(__file__).parents[1]
    block = results.markdown(results.read(root / "results"))
    assert store.filled(root / "docs" / "results.md", "results", block) == (root / "docs" / "results.md").read_bytes()


def test_scores_are_means_over_seeds_followed_by_each(folder: Path) -> None:
    both = zip((90.0, 95.0), results.read(folder / "results")[:2], strict=True)
    found = [
        replace(record, result=Score("test", "accuracy", value, 0.1, 4), ceiling=99.5, lines={"linear": 38.75})
        for value, record in both
    ]
    ((*_, score, seeds, _, others, _, _),) = results.rows(found)
    assert score == "92.50 (95.00, 90.00)"  # in the order of the seeds
    assert seeds == "1, 1234"
    assert others == "linear 38.75, ceiling 99.50"


def test_a_run_that_diverged_has_no_score(folder: Path) -> None:
    (record,) = results.read(folder / "results")[2:3]
    ((*_, score, _, _, _, _, _),) = results.rows([replace(record, status="diverged")])
    assert score == "diverged after 4"


def test_the_readme_gets_the_table(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    readme = folder / "README.md"
    readme.write_text("before\n<!-- results:begin -->\nold\n<!-- results:end -->\nafter\n")
    lab.list_runs(folder / "results", Console(width=200), readme)
    text = readme.read_text()
    assert text.startswith("before\n<!-- results:begin -->\n| task | network |")
    assert text.endswith("<!-- results:end -->\nafter\n")
    assert "old" not in text
    assert text.count("\n| copy ") == 3
    assert "copy length 12" in capsys.readouterr().out


def test_a_folder_without_records_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        RecordError, match=rf"there are no records in {tmp_path}\. Write some with: srnn train TASK --results {tmp_path}"
    ):
        results.read(tmp_path)


def test_a_readme_shows_srnn_with_usual_settings_and_the_time_of_gru(folder: Path) -> None:
    found = results.read(folder / "results")
    assert results.markdown(found).count("| copy length") == 3
    network = found[0].run["network"] | {"permutation": "random"}
    changed = replace(found[0], run=dict(found[0].run) | {"network": network})
    baseline = replace(found[1], run=make_run("copy", "gru", length=5).as_dict())
    assert results.markdown([changed, baseline, found[2]]).count("| copy length") == 1
    ours = replace(found[0], run=make_run("pmnist", "srnn").as_dict(), epochs=60.0, cpu_seconds=960.0)
    gru = make_run("pmnist", "gru", hidden_size=128, epochs=2).as_dict()
    theirs = replace(found[0], run=gru, epochs=2.0, cpu_seconds=1200.0)
    assert (
        "60 epochs of SRNN with 1024 units took 16.0 CPU minutes, 2 epochs of nn.GRU with 128 units 20.0."
        in results.markdown([ours, theirs])
    )
    assert "nn.GRU" not in results.markdown([ours])


def test_damaged_lines_are_named_and_the_rest_is_shown(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder / "results" / "copy.jsonl"
    path.write_text("half a line\n" + path.read_text())
    assert len(lab.list_runs(folder / "results", Console(width=200))) == 4
    shown = capsys.readouterr()
    assert f"{path}:1 is damaged" in shown.err.replace("\n", "")
    assert "copy length 12" in shown.out
    lab.list_runs(folder / "results", Console(quiet=True))  # as with --json, whose output is for programs
    assert "is damaged" in capsys.readouterr().err


def test_a_record_of_another_run_is_refused_and_the_others_are_shown(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        train(make_run("copy", "srnn", length=5, hidden_size=8, batch_size=2, steps=2), tmp_path / name)
    shutil.copy(tmp_path / "a" / "record.json", tmp_path / "b" / "record.json")  # the same settings, but another run
    states = {row["folder"]: row["state"] for row in lab.list_runs(tmp_path, Console(quiet=True))}
    refused = f"unreadable: {tmp_path}/b/record.json belongs to another run than run.json next to it"
    assert states == {"a": "finished", "b": refused, "c": "finished"}


def test_measurements_are_not_runs(folder: Path) -> None:
    before = results.read(folder / "results")
    store.collect(folder / "results" / "gradients.jsonl", {"kind": "measurement", "id": "m"})
    assert results.read(folder / "results") == before


def test_records_of_a_subfolder_are_shown_only_if_it_is_named(folder: Path) -> None:
    """Such as results/learning, a study of its own."""
    into = folder / "results"
    before = results.read(into), lab.list_runs(into, Console(quiet=True)), records.read(into)
    other = recorded(folder / "elsewhere", seed=99)
    store.collect(into / "learning" / "copy.jsonl", other.to_json())
    (into / "learning" / "broken.jsonl").write_text("half a line\n")
    assert (results.read(into), lab.list_runs(into, Console(quiet=True)), records.read(into)) == before
    assert [record["id"] for record in store.read_all(into / "learning" / "copy.jsonl")] == [other.id]


def test_every_record_names_a_clean_commit_of_this_repository() -> None:
    """A reader who doubts a number can check out its sources."""
    root = Path(__file__).parent.parent

    def git(*words: str) -> str:
        return subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, check=True).stdout.strip()

    if not (root / ".git").exists() or git("rev-parse", "--is-shallow-repository") == "true":
        pytest.skip("these sources have no history, or a part of it")
    history, strangers = set(git("rev-list", "HEAD").split()), []
    files = [root / name for name in git("ls-files", "results/*.json", "results/*.jsonl").splitlines()]  # not of make demo
    for record in (json.loads(line) for path in files for line in _objects(path)):
        commits = {record["commit"]["id"], *record.get("commits", ())}
        if record["commit"]["dirty"] is not False or not commits <= history:
            strangers.append(record.get("id", record["kind"]))
    assert files
    assert strangers == []


def _objects(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8")
    return text.splitlines() if path.suffix == ".jsonl" else [text]
