"""Runs: equal ones give equal curves, stopped ones resume with bit-identical results, and every error is one clear line."""

import errno
import fcntl
import io
import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from filelock import FileLock
from rich.console import Console

from srnn import kernels
from srnn.errors import DivergedError, Interrupted, InUseError, RecordError, SettingError, SRNNError, StorageError
from srnn.lab.cli import eval as evaluation
from srnn.lab.cli import train as lab
from srnn.lab.records import store
from srnn.lab.records.folder import RunFolder, load_tensors, save_tensors
from srnn.lab.records.record import Losses, Record
from srnn.lab.tasks import pmnist
from srnn.lab.tasks.task import mix
from srnn.lab.training import loop
from srnn.lab.training.checkpoint import Checkpoint
from srnn.lab.training.loop import Training
from srnn.lab.training.recipes import from_dict, make_run
from srnn.lab.training.run import Run
from srnn.lab.training.schedule import learning_rate


def copy_run(**settings: Any) -> Run:
    """A short run with all that has a state: dropout, momentum, a decaying rate."""
    small: dict[str, Any] = {"length": 5, "hidden_size": 16, "batch_size": 4, "steps": 30, "eval_every": 7}
    how = {"dropout": 0.3, "optimizer": "adamw", "schedule": "cosine", "warmup": 3, "readout": (8,), "norm": True, "clip": 1.0}
    return make_run("copy", "srnn", **(small | how | settings))


def digits_run(**settings: Any) -> Run:
    small: dict[str, Any] = {"hidden_size": 8, "mlp": (4,), "batch_size": 20, "epochs": 4, "lr": 0.01, "dropout": 0.2}
    return make_run("pmnist", "srnn", **(small | settings))


def weights(folder: Path, name: str = "model") -> dict[str, Any]:
    return {key: value.tolist() for key, value in load_tensors(folder / f"{name}.safetensors")[0].items()}


def numbers(record: dict[str, Any]) -> dict[str, Any]:
    """A record without what tells of time, place and how often it was continued."""
    apart = {"seconds", "cpu_seconds", "started", "finished", "resumed", "commits", "commit", "machine", "versions", "curve"}
    apart |= {"versions_used", "belongs_to"}
    curve = {name: column for name, column in record["curve"].items() if "seconds" not in name}
    return {name: value for name, value in record.items() if name not in apart} | {"curve": curve}


def assert_same(one: Path, other: Path) -> None:
    """Metrics and weights, to the bit."""
    assert numbers(store.read(one / "record.json")) == numbers(store.read(other / "record.json"))
    assert weights(one) == weights(other)
    assert weights(one, "checkpoint") == weights(other, "checkpoint")
    ours, theirs = (RunFolder(folder).read_metrics() for folder in (one, other))
    assert [(e["step"], e["losses"], e.get("evaluation")) for e in ours] == [
        (e["step"], e["losses"], e.get("evaluation")) for e in theirs
    ]


def nested(depth: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(depth):
        found = [found]
    return found


def stop_after(updates: int, run: Run, folder: Path) -> None:
    """Trains for some updates with a checkpoint after each, then ends without a word, as a killed process does."""

    class Killed(BaseException):
        pass

    class Killer(loop.Watcher):
        def update(self, training: Training) -> None:
            if training.position.step == updates:
                raise Killed

    with pytest.raises(Killed):
        loop.train(run, folder, checkpoint_every=0.0, watchers=[Killer()])


def test_equal_runs_give_equal_curves_and_weights(tmp_path: Path) -> None:
    for name in "ab":
        torch.manual_seed(ord(name))  # what went before does not matter
        loop.train(copy_run(), tmp_path / name)
    assert_same(tmp_path / "a", tmp_path / "b")
    loop.train(copy_run(seed=5), tmp_path / "c")
    assert weights(tmp_path / "a") != weights(tmp_path / "c")


@pytest.mark.parametrize("updates", [1, 6, 7, 8, 29])
def test_a_resumed_run_is_bit_identical(updates: int, tmp_path: Path) -> None:
    loop.train(copy_run(), tmp_path / "whole")
    stop_after(updates, copy_run(), tmp_path / "parts")
    record = loop.train(copy_run(), tmp_path / "parts")
    assert record.resumed == 1
    assert_same(tmp_path / "whole", tmp_path / "parts")


@pytest.mark.usefixtures("digits")
@pytest.mark.parametrize("updates", [2, 3, 4, 10])
def test_the_best_weights_are_resumed(updates: int, tmp_path: Path) -> None:
    loop.train(digits_run(), tmp_path / "whole")
    stop_after(updates, digits_run(), tmp_path / "parts")
    loop.train(digits_run(), tmp_path / "parts")
    assert_same(tmp_path / "whole", tmp_path / "parts")


def test_metrics_written_after_the_checkpoint_are_replaced(tmp_path: Path) -> None:
    run, folder = copy_run(), tmp_path / "run"
    stop_after(7, run, folder)
    with (folder / "metrics.jsonl").open("ab") as file:
        file.write(b'{"step": 14, "losses": [1.0')  # a line that was cut short
    record = loop.train(run, folder)
    assert record.curve["step"] == [7, 14, 21, 28, 30]


COMMAND = [sys.executable, "-m", "srnn", "train", "copy", "--length", "20", "--threads", "1", "--dropout", "0.2"]


@pytest.mark.slow
def test_a_process_that_is_killed_many_times_is_bit_identical(tmp_path: Path) -> None:
    rng, command = random.Random(0), [*COMMAND, "--steps", "1500", "--checkpoint-every", "0.02", "--quiet"]
    subprocess.run([*command, "--out", "whole"], cwd=tmp_path, check=True)
    checkpoint, kills = tmp_path / "parts" / "checkpoint.safetensors", 0
    while kills < 3:
        before = checkpoint.stat().st_mtime_ns if checkpoint.exists() else 0
        process = subprocess.Popen([*command, "--out", "parts"], cwd=tmp_path)
        while process.poll() is None and (not checkpoint.exists() or checkpoint.stat().st_mtime_ns == before):
            time.sleep(0.001)
        time.sleep(rng.random() * 0.2)
        assert process.poll() is None, "the run ended before it could be killed"
        process.kill()
        process.wait()
        kills += 1
    subprocess.run([*command, "--out", "parts"], cwd=tmp_path, check=True)
    assert store.read(tmp_path / "parts" / "record.json")["resumed"] == 3
    assert_same(tmp_path / "whole", tmp_path / "parts")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_a_run_that_resumes_and_prints_how(number: signal.Signals, tmp_path: Path) -> None:
    command = [*COMMAND, "--steps", "100000", "--out", "run", "--checkpoint-every", "1000"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 120
    while not (tmp_path / "run" / "metrics.jsonl").exists():
        assert process.poll() is None, "the run ended before it could be stopped"
        assert time.monotonic() < until
        time.sleep(0.01)
    process.send_signal(number)
    _, said = process.communicate(timeout=30)
    assert process.returncode == (130 if number == signal.SIGINT else 143)
    assert said.count("\n") == 1
    assert "srnn train --resume run" in said
    step = Checkpoint.read(tmp_path / "run" / "checkpoint.safetensors").position.step
    assert f"after update {step}." in said
    record = loop.train(loop.read_run(tmp_path / "run").with_limits(steps=step + 5), tmp_path / "run")
    assert record.updates == step + 5


def test_cpu_minutes_end_a_run(tmp_path: Path) -> None:
    record = loop.train(replace(copy_run(), cpu_minutes=1e-9), tmp_path)
    assert (record.ended_by, record.updates) == ("cpu_minutes", 1)


def test_minutes_end_a_run_and_more_minutes_extend_it(tmp_path: Path) -> None:
    run = copy_run(schedule="constant")
    loop.train(run, tmp_path / "whole")
    short = loop.train(replace(run, minutes=1e-9), tmp_path / "parts")
    assert (short.ended_by, short.updates) == ("minutes", 1)
    before = Checkpoint.read(tmp_path / "parts" / "checkpoint.safetensors").position.seconds
    record = loop.train(replace(run, minutes=10.0), tmp_path / "parts")
    assert (record.ended_by, record.updates, record.resumed) == ("steps", 30, 1)
    assert record.seconds > before > 0
    assert short.curve["loss"][0] == pytest.approx(RunFolder(tmp_path / "parts").read_metrics()[0]["losses"][0], rel=1e-5)
    ours, theirs = (RunFolder(tmp_path / name).read_metrics() for name in ("whole", "parts"))
    assert [entry["losses"] for entry in ours] == [entry["losses"] for entry in theirs]
    assert weights(tmp_path / "whole") == weights(tmp_path / "parts")


def test_a_finished_run_is_not_trained_a_second_time(tmp_path: Path) -> None:
    seen: list[tuple[Run, Path, Record]] = []

    class Noting(loop.Watcher):
        def begin(self, training: Training) -> None:
            pytest.fail("it was trained a second time")

        def already_finished(self, run: Run, folder: Path, record: Record) -> None:
            seen.append((run, folder, record))

    first = loop.train(copy_run(), tmp_path)
    assert loop.train(copy_run(), tmp_path, watchers=[Noting()]) == first
    assert seen == [(copy_run(), tmp_path, first)]


@pytest.mark.parametrize("checkpoint_every", [0.0, 1000.0])
def test_a_loss_that_is_not_finite_ends_the_run_and_keeps_the_last_good_checkpoint(
    checkpoint_every: float, tmp_path: Path
) -> None:
    # The rate rises with every update, until the loss is not finite.
    run = copy_run(lr=1e30, clip=None, norm=False, warmup=30, optimizer="sgd", dropout=0.0)
    record = loop.train(run, tmp_path, checkpoint_every=checkpoint_every)
    assert (record.status, record.ended_by) == ("diverged", "a loss that is not finite")
    assert 0 < record.updates < 30
    assert sum(record.curve["step"][-1:]) == record.updates
    json.dumps(record.to_json(), allow_nan=False)
    kept = "The last checkpoint before it is kept" if checkpoint_every == 0 else "There was no checkpoint yet"
    assert lab.summary(record, tmp_path) == f"diverged after update {record.updates}: a loss that is not finite. {kept}"
    if checkpoint_every == 0:
        place = RunFolder(tmp_path)
        training = Training(run, place, 1000.0, (), content=place.checkpoint.read_bytes())
        assert training.position.step == record.updates - 1  # the last whose weights gave a finite loss
        assert math.isfinite(training._forward()[0].item())
        training.make_update()
        assert not math.isfinite(training._forward()[0].item())
    assert loop.train(run, tmp_path) == record


@pytest.mark.usefixtures("digits")
def test_an_evaluation_that_is_not_finite_is_a_divergence_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pmnist.PMNIST, "score", lambda self, output, batch: output.sum() * math.inf)
    record = loop.train(digits_run(), tmp_path)
    assert (record.status, record.ended_by, record.updates) == ("diverged", "an evaluation that is not finite", 3)
    assert record.result is None


@pytest.mark.usefixtures("digits")
def test_a_test_score_that_is_not_finite_leaves_a_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = loop.evaluate

    def broken(*about: Any) -> Any:
        if not tests:
            return real(*about)
        raise DivergedError("an evaluation that is not finite")

    tests: list[bool] = []
    report = Training._report

    def noted(self: Training) -> Any:
        tests.append(True)
        return report(self)

    monkeypatch.setattr(loop, "evaluate", broken)
    monkeypatch.setattr(Training, "_report", noted)
    record = loop.train(digits_run(), tmp_path)
    assert (record.status, record.ended_by, record.result) == ("diverged", "an evaluation that is not finite", None)
    assert RunFolder(tmp_path).record.exists()
    assert tests == [True, True]


def test_training_leaves_torch_as_it_was(tmp_path: Path) -> None:
    threads, state = torch.get_num_threads(), torch.random.get_rng_state()
    loop.train(copy_run(threads=threads + 1), tmp_path)
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.random.get_rng_state(), state)


def test_weights_that_are_not_finite_are_a_divergence_whenever_checkpoints_are_written(tmp_path: Path) -> None:
    class Poison(loop.Watcher):
        def update(self, training: Training) -> None:
            if training.position.step == 3:
                training.model.rnn.b[0].linear.bias.data[0] = -math.inf  # which ReLU would hide from a loss

    for checkpoint_every in (0.0, 1000.0):
        folder = tmp_path / str(checkpoint_every)
        record = loop.train(copy_run(steps=3, clip=None), folder, checkpoint_every=checkpoint_every, watchers=[Poison()])
        assert (record.status, record.ended_by, record.updates) == ("diverged", "weights that are not finite", 3)


@pytest.mark.usefixtures("digits")
def test_the_weights_that_validated_best_are_reported_and_the_test_data_are_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    batches = pmnist.PMNIST.batches

    def counted(self: Any, split: str, batch_size: int) -> Any:
        read.append(split)
        return batches(self, split, batch_size)

    monkeypatch.setattr(pmnist.PMNIST, "batches", counted)
    record = loop.train(digits_run(epochs=6, lr=0.3), tmp_path)
    assert read == ["val"] * 6 + ["test"]
    losses = record.curve["evaluation_loss"]
    assert record.selection is not None
    assert record.result is not None
    assert record.selection.loss == pytest.approx(min(losses), rel=1e-5)
    assert record.result.at == record.curve["step"][losses.index(min(losses))]
    model = loop.make_model(digits_run())
    model.load_state_dict(load_tensors(tmp_path / "model.safetensors")[0])
    found = loop.evaluate(model, digits_run().task, digits_run().task.batches("val", 500))
    assert found["loss"] == record.selection.loss


@pytest.mark.usefixtures("digits")
@pytest.mark.parametrize("higher_is_better", [True, False])
def test_a_run_selects_by_the_metric_when_asked(
    higher_is_better: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pmnist.PMNIST, "higher_is_better", higher_is_better)
    scores = iter([30.0, 20.0, 50.0, 50.0, 10.0, 10.0, 30.0, 40.0])  # the first of the best is kept
    evaluate = Training._evaluate

    def scored(self: Training, split: str) -> dict[str, Any]:
        return evaluate(self, split) | ({"score": next(scores)} if split == "val" else {})

    monkeypatch.setattr(Training, "_evaluate", scored)
    record = loop.train(digits_run(epochs=8, select="metric"), tmp_path)
    assert record.selection is not None
    assert (record.selection.score, record.selection.step) == ((50.0, 9) if higher_is_better else (10.0, 15))


@pytest.mark.usefixtures("digits")
def test_runs_end_by_patience_by_the_ceiling_and_by_a_low_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    patient = loop.train(digits_run(epochs=50, lr=1e-9, patience=3), tmp_path / "patience")
    assert patient.ended_by == "patience"
    assert patient.selection is not None
    assert patient.updates == patient.selection.step + 3 * 3
    labels = loop.train(make_run("randomlabels", "srnn", samples=20, lr=0.01), tmp_path / "ceiling")
    assert labels.result is not None
    assert (labels.ended_by, labels.result.value) == ("ceiling", labels.ceiling)
    monkeypatch.setattr(loop, "WINDOW", 5)
    low = loop.train(copy_run(stop_below=100.0), tmp_path / "low")
    assert (low.ended_by, low.updates) == ("stop_below", 5)


@pytest.mark.usefixtures("digits")
@pytest.mark.parametrize(("steps", "ended"), [(None, ("epochs", 6, 2.0)), (7, ("epochs", 6, 2.0)), (5, ("steps", 5, 5 / 3))])
def test_a_run_ends_by_its_epochs_or_by_its_steps_whichever_come_first(
    steps: int | None, ended: tuple[str, int, float], tmp_path: Path
) -> None:
    record = loop.train(digits_run(epochs=2, steps=steps), tmp_path)  # of three updates each
    assert (record.ended_by, record.updates, record.epochs) == ended


def test_the_record_has_the_lowest_mean_of_consecutive_updates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "WINDOW", 3)
    losses = [5.0, 1.0, 1.0, 4.0, 0.0, 0.5, 8.5]
    found = loop._means(losses)
    assert found is not None
    assert vars(found) == pytest.approx({"window": 3, "final": 3.0, "lowest": 1.5, "lowest_at": 6})


def test_a_short_run_is_judged_without_its_first_losses() -> None:
    losses = [1e7, 1e3, 5.0, 1.0, 0.5, 0.25]
    assert loop._means(losses) == Losses(window=2, final=0.375, lowest=0.375, lowest_at=6)
    assert loop._means([3.0]) == Losses(window=1, final=3.0, lowest=3.0, lowest_at=1)
    assert loop._means([]) is None


def test_the_rate_warms_up_and_decays_to_zero() -> None:
    run = copy_run(lr=1.0, steps=103)
    rates = [learning_rate(run, 1.0, step, 103) for step in range(103)]
    assert rates[:4] == pytest.approx([1 / 3, 2 / 3, 1, 1], abs=1e-3)
    assert rates[53] == pytest.approx(0.5)
    assert rates[3:] == sorted(rates[3:], reverse=True)
    assert learning_rate(run, 1.0, 103, 103) == pytest.approx(0.0)
    assert learning_rate(replace(run, schedule="constant"), 1.0, 90, 103) == 1.0
    stairs = replace(run, schedule="staircase", decay_every=40, warmup=0)
    assert [learning_rate(stairs, 2.0, step, 103) for step in (0, 39, 40, 80)] == pytest.approx([2.0, 2.0, 0.2, 0.02])


SHARES = {  # of the full rate, in ten updates with a warm-up of three, counted by hand
    "constant": [1 / 3, 2 / 3, 1, 1, 1, 1, 1, 1, 1, 1],
    "cosine": [1 / 3, 2 / 3, 1, 1, 0.95048, 0.81174, 0.61126, 0.38874, 0.18826, 0.04952],
    "staircase": [1 / 3, 2 / 3, 1, 1, 0.1, 0.1, 0.1, 0.1, 0.01, 0.01],
}
# Some parameters of the last two have a rate of their own, with the run's optimizer and with one that is theirs.
RATES: dict[str, tuple[dict[str, Any], list[float]]] = {
    "srnn": ({}, [2e-3]),
    "exprnn": ({"orthogonal_rate": 0.5}, [2e-3, 1e-3]),
    "rgd": ({"unitary_rate": 0.25}, [2e-3, 5e-4]),
}


@pytest.mark.parametrize("schedule", SHARES)
@pytest.mark.parametrize("network", RATES)
def test_every_update_is_made_with_the_rate_of_the_schedule(network: str, schedule: str, tmp_path: Path) -> None:
    own, peaks = RATES[network]
    small: dict[str, Any] = {"length": 5, "hidden_size": 8, "batch_size": 2, "steps": 10, "lr": 2e-3, "warmup": 3}
    run = make_run("copy", network, schedule=schedule, decay_every=4, **small, **own)
    training, used = Training(run, RunFolder(tmp_path), math.inf, ()), list[float]()
    for optimizer in training.optimizers:
        optimizer.register_step_pre_hook(lambda at, *about: used.extend(group["lr"] for group in at.param_groups))
    for share in SHARES[schedule]:
        used.clear()
        training.make_update()
        assert used == pytest.approx([share * peak for peak in peaks], rel=1e-4)


# Scores of stored weights.


def score(folder: Path, split: str | None = None) -> tuple[dict[str, Any], str]:
    """What `srnn eval` finds, and what it says."""
    console = Console(file=io.StringIO(), width=200)
    found = evaluation.evaluate_run(folder, split, console)
    return found, console.file.getvalue()  # type: ignore[attr-defined]


@pytest.mark.usefixtures("digits")
def test_eval_takes_validation_data_until_the_run_is_finished_and_then_the_test_data(tmp_path: Path) -> None:
    run = digits_run(lr=1.0, epochs=5)  # whose last weights are not its best
    stop_after(13, run, tmp_path)  # with a checkpoint of update 12, the end of the fourth epoch
    found, said = score(tmp_path)
    *before, entry = RunFolder(tmp_path).read_metrics()
    assert entry["evaluation"]["loss"] > min(each["evaluation"]["loss"] for each in before)
    assert found == {name: entry["evaluation"][name] for name in ("split", "loss", "score")}
    assert found["split"] == "val"
    assert said.startswith("val accuracy ")
    assert said.endswith(f"(chance level 10.00), weights: {tmp_path / 'checkpoint.safetensors'}\n")
    record = loop.train(run, tmp_path)
    found, said = score(tmp_path)
    assert record.result is not None
    assert found == {"split": "test", "loss": record.result.loss, "score": record.result.value}
    assert said.endswith(f"weights: {tmp_path / 'model.safetensors'}\n")
    assert score(tmp_path, "val")[0] == {name: getattr(record.selection, name) for name in ("split", "loss", "score")}
    assert score(tmp_path, "train")[0]["split"] == "train"
    with pytest.raises(SettingError, match=r"no split is called 'dev'\. Choose one of train, val, test"):
        score(tmp_path, "dev")


@pytest.mark.usefixtures("digits")
def test_eval_takes_what_is_reported_where_nothing_selects(tmp_path: Path) -> None:
    stop_after(1, make_run("randomlabels", "srnn", samples=20), tmp_path)
    assert score(tmp_path)[0]["split"] == "train"


def test_eval_of_a_run_without_weights_says_why(tmp_path: Path) -> None:
    stop_after(1, copy_run(), tmp_path / "started")
    (tmp_path / "started" / "checkpoint.safetensors").unlink()
    with pytest.raises(RecordError, match=r"started/checkpoint\.safetensors cannot be read: No such file"):
        score(tmp_path / "started")
    loop.train(copy_run(lr=1e30, clip=None, norm=False, optimizer="sgd"), tmp_path / "diverged", checkpoint_every=1000.0)
    with pytest.raises(RecordError, match="diverged has no weights: the run diverged before its first checkpoint"):
        score(tmp_path / "diverged")


@pytest.mark.parametrize("name", ["model", "checkpoint"])
@pytest.mark.parametrize("other", [{"hidden_size": 12}, {"norm": False, "dropout": 0.0}, {"seed": 9}, {}])
def test_eval_refuses_weights_of_another_run(other: dict[str, Any], name: str, tmp_path: Path) -> None:
    for folder, settings in (("ours", {}), ("theirs", other)):
        loop.train(copy_run(steps=1, **settings), tmp_path / folder)
    os.replace(tmp_path / "theirs" / f"{name}.safetensors", tmp_path / "ours" / f"{name}.safetensors")
    if name == "checkpoint":
        (tmp_path / "ours" / "model.safetensors").unlink()
    with pytest.raises(RecordError, match=rf"ours/{name}\.safetensors (is of|belongs to) a.* than run\.json") as caught:
        score(tmp_path / "ours")
    assert "\n" not in str(caught.value)


def test_eval_refuses_weights_of_an_earlier_end(tmp_path: Path) -> None:
    run = copy_run(schedule="constant", steps=2)
    loop.train(run, tmp_path)
    longer = replace(run, steps=50)
    store.write(tmp_path / "run.json", store.read(tmp_path / "run.json") | {"run": longer.as_dict()})
    with pytest.raises(RecordError, match=r"model\.safetensors is of an earlier end of the run. Resume it"):
        score(tmp_path)


def test_eval_names_weights_that_do_not_fit(tmp_path: Path) -> None:
    loop.train(copy_run(steps=1), tmp_path)
    path = tmp_path / "model.safetensors"
    tensors, state = load_tensors(path)
    for changed in ({"embedding.weight": torch.zeros(1)}, {}):
        save_tensors(path, (tensors if changed else {}) | changed, state)
        with pytest.raises(RecordError, match=r"model\.safetensors does not fit the run's network: ") as caught:
            score(tmp_path)
        assert "\n" not in str(caught.value)


# Errors.


class Signals(loop.Watcher):
    """Sends signals to this process, after update 3."""

    def __init__(self, *numbers: signal.Signals) -> None:
        self.numbers = numbers

    def update(self, training: Training) -> None:
        if training.position.step == 3:
            for number in self.numbers:
                signal.raise_signal(number)


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Ctrl-C is seen, also where a shell began these tests in the background; SIGTERM that a run lets through is a failure."""
    before = {
        signal.SIGINT: signal.signal(signal.SIGINT, signal.default_int_handler),
        signal.SIGTERM: signal.signal(signal.SIGTERM, lambda *about: pytest.fail("SIGTERM was not taken")),
    }
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize(
    ("numbers", "name", "code"),
    [((signal.SIGINT,), "Ctrl-C", 130), ((signal.SIGTERM, signal.SIGTERM, signal.SIGINT), "SIGTERM", 143)],
)
def test_a_run_that_is_asked_to_stop_writes_a_checkpoint_first(
    numbers: tuple[signal.Signals, ...], name: str, code: int, tmp_path: Path
) -> None:
    with pytest.raises(Interrupted, match=rf"stopped by {name} after update 3\. .* srnn train --resume ") as caught:
        loop.train(copy_run(), tmp_path, checkpoint_every=1000.0, watchers=[Signals(*numbers)])
    assert caught.value.exit_code == code
    assert Checkpoint.read(tmp_path / "checkpoint.safetensors").position.step == 3
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.usefixtures("interruptible")
def test_a_second_ctrl_c_stops_at_once(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        loop.train(copy_run(), tmp_path, checkpoint_every=1000.0, watchers=[Signals(signal.SIGINT, signal.SIGINT)])
    assert not (tmp_path / "checkpoint.safetensors").exists()


@pytest.mark.parametrize("call", range(2, 12))
def test_a_full_disk_is_one_error_and_the_run_resumes_from_the_last_checkpoint(
    call: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop.train(copy_run(), tmp_path / "whole")
    stop_after(10, copy_run(), tmp_path / "run")
    fsync, calls = os.fsync, [0]

    def full(file: int) -> None:
        calls[0] += 1
        if calls[0] >= call:
            raise OSError(28, "No space left on device")
        fsync(file)

    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", full)
        with pytest.raises(StorageError, match=r"cannot be written: No space left on device"):
            loop.train(copy_run(), tmp_path / "run", checkpoint_every=0.0)
    loop.train(copy_run(), tmp_path / "run")
    assert_same(tmp_path / "whole", tmp_path / "run")


def test_a_folder_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match=r"file/run cannot be used as a run folder: Not a directory. Give another --out"):
        loop.train(copy_run(), tmp_path / "file" / "run")


def test_other_files_in_a_run_folder_stay(tmp_path: Path) -> None:
    stop_after(3, copy_run(), tmp_path)
    ours = [".checkpoint.safetensors.123.0123abcd", ".record.json.7.deadbeef"]
    theirs = [".bashrc", ".gitignore", ".checkpoint.safetensors", ".record.json.bak", ".run.json.12.x"]
    for name in (*ours, *theirs):
        (tmp_path / name).write_text("")
    (tmp_path / ".git").mkdir()
    loop.train(copy_run(), tmp_path)
    assert {path.name for path in tmp_path.glob(".*")} == {*theirs, ".git"}


FOREIGN = ["model.safetensors", "record.json", "metrics.jsonl", "checkpoint.safetensors", "run.json", "notes.txt"]


@pytest.mark.parametrize("name", FOREIGN)
def test_a_run_does_not_start_in_a_folder_with_other_files(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"mine")
    with pytest.raises(SRNNError, match=name) as caught:
        loop.train(copy_run(), tmp_path)
    assert "\n" not in str(caught.value)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {name: b"mine"}


def test_a_run_starts_where_another_start_was_killed(tmp_path: Path) -> None:
    for name in ("lock", ".run.json.12.0123abcd"):
        (tmp_path / name).write_text("")
    assert loop.train(copy_run(), tmp_path).updates == 30
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("name", ["metrics.jsonl", "record.json", "model.safetensors", "checkpoint.safetensors", "lock"])
def test_a_link_in_a_run_folder_is_not_followed(name: str, tmp_path: Path) -> None:
    stop_after(3, copy_run(), tmp_path / "run")
    (tmp_path / "mine").write_bytes(b"mine")
    (tmp_path / "run" / name).unlink(missing_ok=True)
    (tmp_path / "run" / name).symlink_to(tmp_path / "mine")
    with pytest.raises(StorageError, match=f"{name} is not a regular file"):
        loop.train(copy_run(), tmp_path / "run")
    assert (tmp_path / "mine").read_bytes() == b"mine"


@pytest.mark.parametrize("name", ["run.json", "record.json", "checkpoint.safetensors", "metrics.jsonl"])
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_a_pipe_or_a_folder_in_place_of_a_file_is_one_error(name: str, make: Callable[[Path], None], tmp_path: Path) -> None:
    stop_after(3, copy_run(), tmp_path)
    (tmp_path / name).unlink(missing_ok=True)
    make(tmp_path / name)
    with pytest.raises(StorageError, match=f"{name} is not a regular file"):
        loop.train(copy_run(), tmp_path)
    with pytest.raises(RecordError, match=r"it is not a regular file|Is a directory"):
        store.read_bytes(tmp_path / name)


def test_a_name_that_is_too_long_is_one_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"cannot be used as a run folder: File name too long\. Give another --out"):
        loop.train(copy_run(), tmp_path / ("x" * 256))


def test_a_killed_extension_is_not_reported_as_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = copy_run(schedule="constant")
    loop.train(run, tmp_path)

    class Killed(BaseException):
        pass

    def kill(_: RunFolder) -> None:
        raise Killed

    with monkeypatch.context() as broken:
        broken.setattr(RunFolder, "delete_end", kill)
        with pytest.raises(Killed):
            loop.train(replace(run, steps=50), tmp_path)
    assert loop.train(replace(run, steps=50), tmp_path).updates == 50


def test_the_old_record_is_gone_from_the_disk_before_a_run_has_another_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = copy_run(schedule="constant")
    loop.train(run, tmp_path)
    real, seen = store.sync, list[tuple[bool, int | None]]()

    def sync(folder: Path) -> None:
        seen.append(((tmp_path / "record.json").exists(), loop.read_run(tmp_path).steps))
        real(folder)

    monkeypatch.setattr(store, "sync", sync)
    loop.train(replace(run, steps=50), tmp_path)
    assert seen[0] == (False, 30)


def test_the_record_of_an_earlier_end_is_not_believed(tmp_path: Path) -> None:
    """Earlier versions left it next to the run.json of the new end if they were killed in between."""
    run = copy_run(schedule="constant")
    loop.train(run, tmp_path)
    longer = replace(run, steps=50)
    store.write(tmp_path / "run.json", store.read(tmp_path / "run.json") | {"id": longer.id, "run": longer.as_dict()})
    assert loop.train(longer, tmp_path).updates == 50


@pytest.mark.parametrize(
    ("seed", "said"), [(1, "is of a run with other settings than run"), (2, "belongs to another run than run")]
)
def test_the_record_of_another_run_is_refused(seed: int, said: str, tmp_path: Path) -> None:
    run = copy_run(seed=2, schedule="constant", steps=2)
    for name, settings in (("a", replace(run, seed=seed)), ("b", run)):
        loop.train(settings, tmp_path / name)
    shutil.copy(tmp_path / "a" / "record.json", tmp_path / "b" / "record.json")
    for steps in (2, 4):  # also before the run gets another end, which deletes the record
        with pytest.raises(RecordError, match=rf"record\.json {said}\.json next to it"):
            loop.train(replace(run, steps=steps), tmp_path / "b")


def test_weights_of_another_run_are_not_deleted(tmp_path: Path) -> None:
    run = copy_run(schedule="constant", steps=2)
    for name in ("a", "b"):
        loop.train(run, tmp_path / name)
    shutil.copy(tmp_path / "a" / "model.safetensors", tmp_path / "b" / "model.safetensors")
    with pytest.raises(RecordError, match=r"model\.safetensors belongs to another run .*\. Move it elsewhere to resume"):
        loop.train(replace(run, steps=4), tmp_path / "b")
    assert (tmp_path / "b" / "model.safetensors").exists()


def damaged(whole: bytes) -> dict[str, bytes]:
    flipped = whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:]
    return {"cut": whole[:-100], "flipped": flipped, "empty": b"", "zeros": bytes(len(whole))}


@pytest.mark.parametrize("damage", damaged(bytes(200)))
def test_damaged_weights_of_the_run_are_written_again_when_it_is_extended(damage: str, tmp_path: Path) -> None:
    run = copy_run(schedule="constant", steps=2)
    loop.train(run, tmp_path)
    path = tmp_path / "model.safetensors"
    path.write_bytes(damaged(path.read_bytes())[damage])
    assert loop.train(replace(run, steps=4), tmp_path).updates == 4
    loop.train(replace(run, steps=4), tmp_path / "whole")
    expected = load_tensors(tmp_path / "whole" / "model.safetensors")[0]
    assert all(torch.equal(tensor, expected[name]) for name, tensor in load_tensors(path)[0].items())


@pytest.mark.parametrize(
    "content", [b"mine", safetensors.torch.save({"x": torch.ones(1)}), b"\xff" * 200], ids=["text", "safetensors", "bytes"]
)
def test_a_model_file_of_another_program_is_not_deleted(content: bytes, tmp_path: Path) -> None:
    run = copy_run(schedule="constant", steps=2)
    loop.train(run, tmp_path)
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    said = "does not name the run that it belongs to: it is damaged, or another program wrote it. Move it elsewhere"
    with pytest.raises(RecordError, match=said):
        loop.train(replace(run, steps=4), tmp_path)
    assert path.read_bytes() == content


@pytest.mark.parametrize("plain", [{"kind": ["run"]}, {"run": nested(900)}, {"run": {}}, {"belongs_to": ["x"]}])
def test_an_odd_record_in_a_run_folder_is_one_error(plain: dict[str, Any], tmp_path: Path) -> None:
    loop.train(copy_run(steps=1), tmp_path)
    store.write(tmp_path / "record.json", store.read(tmp_path / "record.json") | plain)
    with pytest.raises(RecordError, match=r"record\.json") as caught:
        loop.train(copy_run(steps=1), tmp_path)
    assert "\n" not in str(caught.value)


class Notices(loop.Watcher):
    """Collects notices."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def notice(self, text: str) -> None:
        self.texts.append(text)


def test_a_run_keeps_its_name_and_all_files_have_it(tmp_path: Path) -> None:
    run = copy_run(schedule="constant")
    stop_after(3, run, tmp_path)
    name = store.read(tmp_path / "run.json")["belongs_to"]
    for steps in (30, 40):
        record = loop.train(replace(run, steps=steps), tmp_path)
        assert record.environment["belongs_to"] == store.read(tmp_path / "run.json")["belongs_to"] == name
        for file in ("model", "checkpoint"):
            assert load_tensors(tmp_path / f"{file}.safetensors")[1]["belongs_to"] == name
    loop.train(run, tmp_path / "other")
    assert store.read(tmp_path / "other" / "run.json")["belongs_to"] != name


def test_a_folder_without_a_name_opens_with_a_notice(tmp_path: Path) -> None:
    run, notices = copy_run(), Notices()
    stop_after(3, run, tmp_path)
    plain = store.read(tmp_path / "run.json")
    del plain["belongs_to"]
    store.write(tmp_path / "run.json", plain)
    tensors, state = load_tensors(tmp_path / "checkpoint.safetensors")
    del state["belongs_to"]
    save_tensors(tmp_path / "checkpoint.safetensors", tensors, state)
    for _ in range(2):  # resumed, then finished
        assert loop.train(run, tmp_path, watchers=[notices]).updates == 30
    assert notices.texts == [f"{tmp_path} was started by an older version of srnn: its files do not name their run"] * 2
    assert score(tmp_path)[0]["split"] == "fresh"


def test_another_version_of_torch_is_recorded_and_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notices = Notices()
    stop_after(3, copy_run(), tmp_path)
    stop_after(6, copy_run(), tmp_path)  # the same versions are listed once
    before = store.environment()["versions"]
    monkeypatch.setattr(torch, "__version__", "9.9")
    record = loop.train(copy_run(), tmp_path, watchers=[notices])
    assert record.versions_used == [before, before | {"torch": "9.9"}]
    assert notices.texts == [
        f"{tmp_path} was trained with torch {before['torch']}, now 9.9: its results may differ from those of one version"
    ]


def test_a_finished_run_on_a_read_only_disk_gives_its_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = loop.train(copy_run(), tmp_path / "done")
    stop_after(3, copy_run(), tmp_path / "half")

    def refuse(self: Any, **_: Any) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(FileLock, "acquire", refuse)
    assert loop.train(copy_run(), tmp_path / "done") == record
    with pytest.raises(StorageError, match="Read-only file system"):
        loop.train(copy_run(), tmp_path / "half")


def test_an_empty_folder_of_the_user_stays_when_a_run_cannot_start(tmp_path: Path) -> None:
    run = copy_run()
    (tmp_path / "mine").mkdir()
    for name in ("mine", "new"):
        with pytest.raises(SettingError, match="device"):
            loop.train(replace(run, device="meta"), tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    assert list((tmp_path / "mine").iterdir()) == []


def test_a_folder_that_is_deleted_during_a_run_is_no_error_of_its_own(tmp_path: Path) -> None:
    place = RunFolder(tmp_path / "run")
    with place.held():
        shutil.rmtree(place.path)
    assert not place.path.exists()
    with place.held():  # and it can be used again
        assert place.path.exists()


def test_a_lock_whose_folder_was_deleted_is_acquired_in_a_new_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process may take the empty folder away between the opening of the lock and its locking."""
    folder, real, taken = tmp_path / "run", fcntl.flock, list[int]()

    def flock(lock: int, how: int) -> None:
        if not taken:
            taken.append(lock)
            shutil.rmtree(folder)
        real(lock, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    with RunFolder(folder).held():
        assert taken
        with pytest.raises(InUseError), RunFolder(folder).held():
            pass


def test_a_folder_in_use_is_left_alone(tmp_path: Path) -> None:
    with RunFolder(tmp_path).held(), pytest.raises(StorageError, match="in use by another process"):
        loop.train(copy_run(), tmp_path)
    assert not (tmp_path / "run.json").exists()


def test_a_run_with_other_settings_does_not_touch_the_folder(tmp_path: Path) -> None:
    stop_after(3, copy_run(), tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(RecordError, match=r"holds a run with other settings \(lr: 0.001 there and 0.5 here\)"):
        loop.train(copy_run(lr=0.5), tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_swapped_checkpoint_is_refused(tmp_path: Path) -> None:
    stop_after(3, copy_run(), tmp_path / "a")
    stop_after(3, copy_run(seed=9), tmp_path / "b")
    os.replace(tmp_path / "a" / "checkpoint.safetensors", tmp_path / "b" / "checkpoint.safetensors")
    with pytest.raises(RecordError, match=r"of a run with other settings than run\.json next to it"):
        loop.train(copy_run(seed=9), tmp_path / "b")


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "text"])
def test_a_damaged_checkpoint_is_named_and_left_as_it_is(damage: str, tmp_path: Path) -> None:
    stop_after(3, copy_run(), tmp_path)
    path = tmp_path / "checkpoint.safetensors"
    whole = path.read_bytes()
    flipped = whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:]
    path.write_bytes({"cut": whole[:-100], "flipped": flipped, "empty": b"", "text": b"not a checkpoint at all"}[damage])
    broken = path.read_bytes()
    with pytest.raises(RecordError, match=r"checkpoint\.safetensors is damaged") as caught:
        loop.train(copy_run(), tmp_path)
    assert "\n" not in str(caught.value)
    assert path.read_bytes() == broken


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda tensors, state: state["position"].update(mood="good"), "'mood'"),
        (lambda tensors, state: state.pop("on"), "state.on has a value of type NoneType"),
        (lambda tensors, state: state["position"].update(step="x"), "position.step has a value of type str"),
        (lambda tensors, state: state["position"].update(step=-1), "position.step is not a whole number"),
        (lambda tensors, state: state["position"].update(recent=[nested(500)]), "position.recent.0 has a value of type list"),
        (lambda tensors, state: state["position"].update(best=7), "position.best has a value of type int"),
        (lambda tensors, state: state["position"].update(commits=3), "position.commits has a value of type int"),
        (lambda tensors, state: state.update(on=nested(900)), "state.on has a value of type list"),
        (lambda tensors, state: state.update(position=nested(900)), "state.position has a value of type list"),
        (lambda tensors, state: tensors.pop("model.embedding.weight"), "embedding.weight"),
        (lambda tensors, state: tensors.update({"optimizer.0.first.step": torch.zeros(())}), "'first'"),
    ],
)
def test_a_checkpoint_of_another_version_is_named_and_left_as_it_is(
    change: Callable[[Any, Any], Any], said: str, tmp_path: Path
) -> None:
    stop_after(3, copy_run(), tmp_path)
    path = tmp_path / "checkpoint.safetensors"
    tensors, state = load_tensors(path)
    change(tensors, state)
    save_tensors(path, tensors, state)
    before = path.read_bytes()
    with pytest.raises(RecordError, match=rf"checkpoint\.safetensors does not fit this version of srnn: .*{said}") as caught:
        loop.train(copy_run(), tmp_path)
    assert "\n" not in str(caught.value)
    assert path.read_bytes() == before


def test_a_checkpoint_without_format_number_is_resumed(tmp_path: Path) -> None:
    """The first version of srnn wrote no number."""
    loop.train(copy_run(), tmp_path / "whole")
    stop_after(10, copy_run(), tmp_path / "parts")
    path = tmp_path / "parts" / "checkpoint.safetensors"
    tensors, state = load_tensors(path)
    assert state.pop("format") == 1
    save_tensors(path, tensors, state)
    assert loop.train(copy_run(), tmp_path / "parts").resumed == 1
    assert_same(tmp_path / "whole", tmp_path / "parts")


def test_a_checkpoint_with_an_unknown_format_number_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    stop_after(3, copy_run(), tmp_path)
    path = tmp_path / "checkpoint.safetensors"
    tensors, state = load_tensors(path)
    save_tensors(path, tensors, state | {"format": 7})
    before = path.read_bytes()
    with pytest.raises(RecordError, match=r"has format 7, and this version of srnn reads format 1. Resume the run") as caught:
        loop.train(copy_run(), tmp_path)
    assert "\n" not in str(caught.value)
    assert path.read_bytes() == before
    with pytest.raises(RecordError, match="has format 7"):
        score(tmp_path)  # other readers of the file refuse it, too


OLD = Path(__file__).parent / "data" / "old"


def test_the_folder_of_an_older_version_is_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Written before checkpoints had a format number, with the backend torch, and stopped after update 10 of 30."""
    monkeypatch.setattr(kernels, "_default", "torch")
    shutil.copytree(OLD, tmp_path / "old")
    run = loop.read_run(tmp_path / "old")
    assert "format" not in load_tensors(tmp_path / "old" / "checkpoint.safetensors")[1]
    record = loop.train(run, tmp_path / "old")
    assert (record.updates, record.resumed, record.curve["step"]) == (30, 1, [7, 14, 21, 28, 30])
    loop.train(run, tmp_path / "new")
    for old, new in zip(
        RunFolder(tmp_path / "old").read_metrics(), RunFolder(tmp_path / "new").read_metrics(), strict=True
    ):  # on another machine the first losses may round differently
        assert old["losses"] == pytest.approx(new["losses"], rel=1e-3)


@pytest.mark.parametrize("content", [b"", b'{"step": 7'])
def test_a_curve_that_has_lost_its_end_is_named_and_left_as_it_is(content: bytes, tmp_path: Path) -> None:
    stop_after(8, copy_run(), tmp_path)
    place = RunFolder(tmp_path)
    length = place.metrics_length()
    place.metrics.write_bytes(content)
    with pytest.raises(RecordError, match=r"metrics\.jsonl is altered, or has lost its end: it does not match the checkpoint"):
        loop.train(copy_run(), tmp_path)
    with pytest.raises(RecordError, match=rf"has lost its end: expected at least {length} bytes, got {len(content)}"):
        place.cut_metrics(length)
    assert place.metrics.read_bytes() == content


@pytest.mark.parametrize("text", ["{}", "[", '{"run": {"task": {"name": "copy"}}}', '{"run": {"task": 3, "network": 4}}'])
def test_a_damaged_run_json_is_one_error(text: str, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(SRNNError) as caught:
        loop.read_run(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_device_that_is_not_there_is_named(tmp_path: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("here it is there")
    with pytest.raises(SettingError, match="device 'cuda' is not available here"):
        loop.train(copy_run(device="cuda"), tmp_path)


def test_a_cosine_run_cannot_be_given_another_end(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="cannot be given another end"):
        copy_run().with_limits(steps=50)
    assert copy_run(schedule="constant").with_limits(steps=50).steps == 50
    loop.train(copy_run(), tmp_path)
    before = (tmp_path / "record.json").read_bytes()
    with pytest.raises(RecordError, match=r"whose rate decays to another end \(steps: 30 there and 50 here\)"):
        loop.train(copy_run(steps=50), tmp_path)
    assert (tmp_path / "record.json").read_bytes() == before


def test_an_end_in_the_past_is_refused_and_the_record_stays(tmp_path: Path) -> None:
    loop.train(copy_run(schedule="constant"), tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(RecordError, match="is at update 30, so it cannot end at update 10"):
        loop.train(copy_run(schedule="constant", steps=10), tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_damaged_checkpoint_leaves_the_record_of_a_run_to_be_extended(tmp_path: Path) -> None:
    loop.train(copy_run(schedule="constant"), tmp_path)
    (tmp_path / "checkpoint.safetensors").write_bytes(b"")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(RecordError, match="is damaged"):
        loop.train(copy_run(schedule="constant", steps=50), tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_run_does_not_resume_with_another_backend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stop_after(3, copy_run(), tmp_path)
    monkeypatch.setattr(kernels, "_default", "reference")
    with pytest.raises(RecordError, match=r"was started with backend (native|torch), and here it is reference"):
        loop.train(copy_run(), tmp_path)


def test_files_that_a_killed_process_left_half_written_are_deleted(tmp_path: Path) -> None:
    stop_after(3, copy_run(), tmp_path)
    (tmp_path / ".checkpoint.safetensors.1.0123abcd").write_bytes(b"half")
    loop.train(copy_run(), tmp_path)
    assert not list(tmp_path.glob(".*"))


def test_a_run_that_cannot_start_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="meta"):
        loop.train(copy_run(device="meta"), tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_dropout_does_not_draw_what_the_data_are_drawn_from() -> None:
    assert mix(1234, 7) != mix(1234, 7, 1)
    seeds = {mix(seed, step, *rest) for seed in range(30) for step in range(30) for rest in ((), (1,))}
    assert len(seeds) == 30 * 30 * 2


def test_settings_survive_the_folder(tmp_path: Path) -> None:
    stop_after(1, copy_run(), tmp_path)
    assert loop.read_run(tmp_path) == copy_run()
    assert from_dict(copy_run().as_dict()) == copy_run()


def test_records_are_collected_one_for_each_run(tmp_path: Path) -> None:
    path = tmp_path / "results" / "copy.jsonl"
    for number, name in enumerate(("a", "b", "a")):
        store.collect(path, {"kind": "run", "id": name, "number": number})
    assert [(each["id"], each["number"]) for each in store.read_all(path)] == [("a", 2), ("b", 1)]
    path.write_text("{\n")
    with pytest.raises(RecordError, match=r"copy\.jsonl:1 is damaged: it must be one JSON object"):
        store.read_all(path)
    store.collect(path, {"kind": "run", "id": "c"})
    first, second = path.read_text().splitlines()
    assert first == "{"
    assert json.loads(second) == store.signed({"kind": "run", "id": "c"})
