"""`srnn sweep`: every combination once, the best first."""

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from srnn.errors import SettingError
from srnn.lab import cli
from srnn.lab.records.record import Evaluation, Score
from srnn.lab.scheduling import sweep
from srnn.lab.training.loop import train
from srnn.lab.training.recipes import make_run, setting_rules

KNOWN = setting_rules("copy", "srnn")


def test_grid_has_all_combinations() -> None:
    assert sweep.grid(["hidden_size=8,16", "lr=1e-3,0.5"], KNOWN) == [
        {"hidden_size": 8, "lr": 0.001},
        {"hidden_size": 8, "lr": 0.5},
        {"hidden_size": 16, "lr": 0.001},
        {"hidden_size": 16, "lr": 0.5},
    ]
    assert sweep.grid(["mlp=8/32,32/none", "optimizer=adam"], KNOWN) == [
        {"mlp": mlp, "optimizer": "adam"} for mlp in ((8,), (32, 32), ())
    ]


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (["lr"], "takes NAME=VALUE,VALUE"),
        (["lr="], "takes NAME=VALUE,VALUE"),
        (["task=copy"], "takes NAME=VALUE,VALUE"),
        (["lr=1", "lr=2"], "lr is given twice"),
        ([], "at least one --grid"),
    ],
)
def test_wrong_grid_is_refused(texts: list[str], said: str) -> None:
    with pytest.raises(SettingError, match=said):
        sweep.grid(texts, KNOWN)


def test_setting_given_by_set_and_grid_is_refused() -> None:
    with pytest.raises(SettingError, match="seed: given by --set and by --grid"):
        sweep.runs_of("copy", "srnn", "paper", {"seed": 3}, ["seed=1,2"])


def test_unknown_setting_is_refused_before_anything_runs() -> None:
    with pytest.raises(SettingError, match="has a setting 'colour'"):
        sweep.runs_of("copy", "srnn", "paper", {}, ["colour=1,2"])


def test_sweep_runs_once_and_shows_the_best_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    fixed = {"length": 5, "steps": 60, "batch_size": 4}
    runs = sweep.runs_of("copy", "srnn", "paper", fixed | {"lr": 1e-2}, ["hidden_size=2,64"])  # by name 2 would be the first
    console = Console(file=io.StringIO(), width=200)
    assert sweep.sweep(runs, console) == []
    said = console.file.getvalue()  # type: ignore[attr-defined]
    assert "2 runs, 0 of them recorded" in said
    table = said[said.index("network") :]
    assert table.index("hidden_size 64") < table.index("hidden_size 2,")
    monkeypatch.delattr("srnn.lab.scheduling.scheduler.Scheduler")
    assert sweep.sweep(runs, console) == []
    assert "2 runs, 2 of them recorded" in console.file.getvalue()  # type: ignore[attr-defined]


def test_best_run_is_chosen_by_validation_score(tmp_path: Path) -> None:
    copy = train(make_run("copy", "srnn", length=5, hidden_size=8, batch_size=2, steps=4), tmp_path)
    assert copy.training is not None
    assert sweep._order(copy) == copy.training.lowest
    result, selection = Score("test", "mse", 1.0, 1.0, 4), Evaluation("val", 3.0, 3.0, 4)
    speech = replace(copy, reports="test", result=result, selection=selection)
    digits = replace(speech, higher_is_better=True)
    assert (sweep._order(speech), sweep._order(digits)) == (3.0, -3.0)
    assert sweep._order(replace(speech, selection=None)) == 1.0
    assert sweep._order(replace(speech, status="diverged")) == float("inf")
    assert sweep._order(replace(speech, selection=None, result=None)) == float("inf")


def test_grid_can_turn_clipping_off() -> None:
    (run,) = sweep.runs_of("pmnist", "srnn", "paper", {}, ["clip=0"]).values()
    assert run.clip is None


def test_the_command_line_takes_grids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    seen: dict[str, object] = {}
    monkeypatch.setattr(sweep, "sweep", lambda runs, console, **how: seen.update(runs=runs, **how) or [])
    words = ["sweep", "copy", "--grid", "hidden_size=8,16", "--set", "length=5", "--jobs", "3", "--ray"]
    done = CliRunner().invoke(cli.app, cli._arguments(words))
    assert done.exit_code == 0, done.output
    assert (seen["jobs"], seen["ray"]) == (3, "local")
    assert {run.network.hidden_size for run in seen["runs"].values()} == {8, 16}  # type: ignore[attr-defined]
    assert cli._arguments(["--ray", "1.2.3.4:6379", "--jobs", "2"]) == ["--ray", "1.2.3.4:6379", "--jobs", "2"]
    assert cli._arguments(["--ray", "--jobs", "2"]) == ["--ray", "local", "--jobs", "2"]
