"""What `srnn train` prints: a heading, progress, and a diagnosis of a run that stays at chance level."""

import io
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from srnn.errors import SRNNError
from srnn.lab.records import store
from srnn.lab.records.folder import RunFolder, load_tensors
from srnn.lab.training import loop, progress
from srnn.lab.training.loop import Training
from srnn.lab.training.progress import Examiner, Heading
from srnn.lab.training.recipes import make_run
from srnn.lab.training.run import Run

HEADING = "updates the run is still at chance level"


def copy_run(**settings: Any) -> Run:
    small: dict[str, Any] = {"length": 3, "hidden_size": 16, "batch_size": 4, "steps": 120, "eval_every": 20, "dropout": 0.1}
    return make_run("copy", "srnn", **(small | settings))


def labels_run(**settings: Any) -> Run:
    """Three updates an epoch, so that the first evaluation after update 100 is after update 102."""
    small: dict[str, Any] = {"hidden_size": 64, "mlp": (32,), "batch_size": 20, "samples": 60, "crop": 3, "epochs": 36}
    return make_run("randomlabels", "srnn", optimizer="adam", **(small | settings))


@pytest.fixture(autouse=True)
def no_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a slow machine a run would print one, in the middle of the text that is compared."""
    monkeypatch.setattr(progress, "EVERY", float("inf"))


def printed(run: Run, folder: Path, *others: loop.Watcher) -> str:
    console = Console(file=io.StringIO(), width=200)
    loop.train(run, folder, watchers=[*progress.watchers(console, quiet=False, tensorboard=None), *others])
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return text


def result(folder: Path) -> list[Any]:
    """Weights, losses and evaluations of a finished run."""
    tensors = {name: tensor.tolist() for name, tensor in load_tensors(folder / "checkpoint.safetensors")[0].items()}
    entries = [(entry["step"], entry["losses"], entry.get("evaluation")) for entry in RunFolder(folder).read_metrics()]
    return [tensors, entries, store.read(folder / "record.json")["training"]]


def heading(run: Run, folder: Path, **how: Any) -> list[str]:
    console = Console(file=io.StringIO(), width=200)
    try:
        loop.train(run, folder, watchers=[Heading(console)], **how)
    finally:
        lines: list[str] = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    return lines


SETTINGS = "copy (length 3) with srnn (hidden_size 16, "


def test_the_heading_names_settings_folder_and_update(tmp_path: Path) -> None:
    run = copy_run(steps=4)
    first, second = heading(run, tmp_path / "run")
    assert first.startswith(SETTINGS)
    assert second == f"run folder: {tmp_path / 'run'}"
    assert heading(copy_run(steps=6), tmp_path / "run")[1] == f"run folder: {tmp_path / 'run'}, resumes at update 4"


@pytest.mark.parametrize("wrong", ["device", "folder", "results"])
def test_nothing_is_printed_about_a_run_that_cannot_start(wrong: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    console = Console(file=io.StringIO(), width=200)
    run = copy_run(device="meta") if wrong == "device" else copy_run()
    folder = tmp_path / ("file" if wrong == "folder" else "run")
    into = tmp_path / ("file" if wrong == "results" else "results") / "copy.jsonl"
    with pytest.raises(SRNNError):
        loop.train(run, folder, watchers=[Heading(console)], into=into)
    assert console.file.getvalue() == ""  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "To extend it: srnn train --resume {folder} --steps N, with N above 4"),
        ({"minutes": 1e-9}, "To extend it: srnn train --resume {folder} --minutes N, with N above 1e-09"),
        ({"schedule": "cosine"}, "Its learning rate has decayed to 0, so it cannot be extended. Give another --out"),
        ({"lr": 1e30, "optimizer": "sgd", "clip": None}, "It diverged, so it cannot be extended"),
    ],
)
def test_a_finished_run_says_so_and_how_to_extend_it(settings: dict[str, Any], said: str, tmp_path: Path) -> None:
    run, folder = copy_run(**({"steps": 4} | settings)), tmp_path / "run"
    heading(run, folder)
    first, second = heading(run, folder)
    assert first.startswith(SETTINGS)
    assert second.startswith(f"already finished: {folder}. {said.format(folder=folder)}")


def test_a_run_that_a_low_loss_ended_cannot_be_extended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "WINDOW", 2)
    run = copy_run(steps=4, stop_below=100.0)
    heading(run, tmp_path)
    assert heading(run, tmp_path)[1].endswith("It ended by stop_below, so it cannot be extended")


def test_the_progress_line_shows_the_chance_level(tmp_path: Path) -> None:
    training = Training(copy_run(), RunFolder(tmp_path), 1000.0, ())
    training.make_update()
    line = progress.Lines(Console()).line(training)
    assert line == f"loss {progress.number(training.position.recent[0])}  chance 0.9041"


def test_a_run_at_chance_level_is_diagnosed_once_with_unchanged_results(tmp_path: Path) -> None:
    run = copy_run(lr=1e-9)
    text = printed(run, tmp_path / "shown")
    assert text.count(HEADING) == 1
    assert text.startswith("after 100 of 120 updates the run is still at chance level: loss ")
    assert "chance level 0.9041\nrnn, layer 0\n  paths alive   1: " in text
    assert (tmp_path / "shown" / "diagnosis.txt").read_text() == text
    loop.train(run, tmp_path / "quiet", watchers=progress.watchers(Console(), quiet=True, tensorboard=None))
    assert not (tmp_path / "quiet" / "diagnosis.txt").exists()
    assert result(tmp_path / "shown") == result(tmp_path / "quiet")


def test_a_run_that_learns_is_not_diagnosed(tmp_path: Path) -> None:
    run = copy_run(lr=0.01, hidden_size=64, batch_size=32, optimizer="adam", dropout=0.0)
    assert HEADING not in printed(run, tmp_path)
    entries = RunFolder(tmp_path).read_metrics()
    losses = [loss for entry in entries for loss in entry["losses"]][50:100]
    assert sum(losses) / len(losses) < 0.9 * run.task.chance


@pytest.mark.usefixtures("digits")
@pytest.mark.parametrize(("lr", "stays"), [(1e-9, True), (0.02, False)])
def test_accuracy_is_judged_by_the_next_evaluation(lr: float, stays: bool, tmp_path: Path) -> None:
    run = labels_run(lr=lr)
    text = printed(run, tmp_path)
    found = {entry["step"]: entry["evaluation"]["score"] for entry in RunFolder(tmp_path).read_metrics()}[102]
    best = run.task.ceiling or 100.0
    assert (best - found > 0.9 * (best - 10)) is stays
    assert text.startswith(f"after 102 of 108 {HEADING}: accuracy ") is stays
    assert text.count(HEADING) == stays


@pytest.mark.parametrize("stopped_after", [99, 100, 110])
def test_a_resumed_run_does_not_print_it_a_second_time(stopped_after: int, tmp_path: Path) -> None:
    class Killed(BaseException):
        pass

    class Killer(loop.Watcher):
        def update(self, training: Training) -> None:
            if training.position.step == 60:
                training._save()  # the only checkpoint: what comes after it is repeated
            if training.position.step == stopped_after:
                raise Killed

    run, console = copy_run(lr=1e-9), Console(file=io.StringIO(), width=200)
    shown = progress.watchers(console, quiet=False, tensorboard=None)
    with pytest.raises(Killed):
        loop.train(run, tmp_path, checkpoint_every=1000.0, watchers=[*shown, Killer()])
    first: str = console.file.getvalue()  # type: ignore[attr-defined]
    second = printed(run, tmp_path)
    assert (first.count(HEADING), second.count(HEADING)) == ((0, 1) if stopped_after < 100 else (1, 0))
    loop.train(run, tmp_path / "whole")
    assert result(tmp_path) == result(tmp_path / "whole")


@pytest.mark.parametrize(
    "run",
    [
        make_run("copy", "gru", length=3, hidden_size=16, batch_size=4, steps=120, lr=1e-9),
        copy_run(steps=99, lr=1e-9),
        copy_run(steps=None, minutes=0.001, lr=1e-9),
    ],
    ids=["no SRNN layer", "too short", "ended by time"],
)
def test_runs_that_cannot_be_judged_are_not_diagnosed(run: Run, tmp_path: Path) -> None:
    assert printed(run, tmp_path) == ""


@pytest.mark.usefixtures("voices")
def test_a_task_whose_baseline_is_not_chance_is_not_judged(tmp_path: Path) -> None:
    run = make_run("speech", "srnn", hidden_size=8, mlp=(4,), batch_size=12, epochs=1000)
    assert progress._judged_after(Training(run, RunFolder(tmp_path), 1000.0, ())) is None


@pytest.mark.parametrize(("steps", "after"), [(120, 100), (1000, 100), (1001, 101), (20_000, 2000)])
def test_a_run_is_judged_after_a_tenth_of_its_updates(steps: int, after: int, tmp_path: Path) -> None:
    assert progress._judged_after(Training(copy_run(steps=steps), RunFolder(tmp_path), 1000.0, ())) == after


def test_the_later_half_of_the_losses_is_judged(tmp_path: Path) -> None:
    training = Training(copy_run(), RunFolder(tmp_path), 1000.0, ())
    chance = training.task.chance
    training.position.step = 100
    for first, later, stays in ((9.0, 0.91, True), (9.0, 0.89, False), (0.1, 0.91, True)):
        training.position.recent = [first * chance] * 50 + [later * chance] * 50
        assert bool(progress._at_chance(training)) is stays


@pytest.mark.parametrize(("budget", "rows"), [(1, 1), (2 * 23 * 16, 2), (progress.EXAMINED, 4)])
def test_few_sequences_are_examined_where_states_are_large(
    budget: int, rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = copy_run()
    training = Training(run, RunFolder(tmp_path), 1000.0, ())
    training.position.step = 7
    monkeypatch.setattr(progress, "EXAMINED", budget)
    batch, whole = progress._some_sequences(training), run.task.batch(6, run.batch_size, run.seed)
    assert torch.equal(batch.input, whole.input[:rows])
    assert torch.equal(batch.target, whole.target[:rows])


def test_a_network_that_runs_its_layer_step_by_step_is_trained_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = copy_run(lr=1e-9)
    training = Training(run, RunFolder(tmp_path), 1000.0, ())
    examiner = Examiner(Console(file=io.StringIO()))
    examiner.begin(training)
    assert examiner.due == 100
    training.position.step, training.position.recent = 100, [10.0] * 100
    monkeypatch.setattr(training.model, "forward", lambda batch: training.model.rnn.step(torch.zeros(1, 8)))
    examiner.update(training)
    assert not (tmp_path / "diagnosis.txt").exists()
