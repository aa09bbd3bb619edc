"""Records as a table: one line for all seeds of a setting, and nothing in it that is not in a record."""

from pathlib import Path
from typing import Any

import pytest

from srnn import lab, records, results
from srnn.display import number
from srnn.errors import RecordError
from srnn.recipes import make_run
from srnn.train import train


def recorded(folder: Path, **settings: Any) -> dict[str, Any]:
    run = make_run("copy", "srnn", **({"length": 5, "hidden_size": 8, "batch_size": 2, "steps": 4} | settings))
    record = train(run, folder / run.id)
    records.collect(folder / "results" / "copy.jsonl", record)
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
    usual, other = "paper, batch_size 2, steps 4", "paper, batch_size 2, lr 0.5, steps 4"
    assert [line["recipe"] for line in lines] == [usual, other, usual]
    by_seed = {record["run"]["seed"]: record["training"] for record in found[:2]}
    shown = [f"{number(by_seed[seed]['lowest'])} / {number(by_seed[seed]['final'])}" for seed in (1, 1234)]
    assert lines[0]["score"] == ", ".join(shown)
    assert lines[0]["network"] == "srnn hidden_size 8, mlp 8"


def test_scores_are_means_over_seeds_with_each_beside(folder: Path) -> None:
    found = results.read(folder / "results")[:2]
    for value, record in zip((90.0, 95.0), found, strict=True):
        record |= {"result": {"value": value, "split": "test"}, "ceiling": 99.5, "lines": {"linear": 38.75}}
    ((*_, score, seeds, _, beside, _, _),) = results.rows(found)
    assert score == "92.50 (95.00, 90.00)"  # in the order of the seeds
    assert seeds == "1, 1234"
    assert beside == "linear 38.75, ceiling 99.50"


def test_a_run_that_diverged_has_no_score(folder: Path) -> None:
    (record,) = results.read(folder / "results")[2:3]
    ((*_, score, _, _, _, _, _),) = results.rows([record | {"status": "diverged"}])
    assert score == "diverged after 4"


def test_the_readme_gets_the_table(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from rich.console import Console

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
    with pytest.raises(RecordError, match=rf"there are no records in {tmp_path}; srnn train leaves them there"):
        results.read(tmp_path)
