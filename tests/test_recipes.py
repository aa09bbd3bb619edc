"""Recipes and runs: the paper's settings, whose word goes first, files of the user's own, and what names a run."""

import math
import os
import re
from dataclasses import FrozenInstanceError, fields, make_dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from srnn.errors import RecordError, SettingError
from srnn.lab.networks import NETWORKS
from srnn.lab.networks.srnn import SRNNNetwork
from srnn.lab.networks.torch_nn import GRUNetwork
from srnn.lab.records import record as records
from srnn.lab.records.record import Record
from srnn.lab.tasks import TASKS
from srnn.lab.tasks.copy import Copy
from srnn.lab.tasks.pmnist import PMNIST
from srnn.lab.tasks.speech import Speech
from srnn.lab.training import model as models
from srnn.lab.training.loop import train
from srnn.lab.training.recipes import from_dict, make_run, network_kind, task_kind
from srnn.lab.training.run import Run

EXAMPLES, RESULTS = (Path(__file__).parent.parent / name for name in ("examples", "results"))
EVERY = [(task, network) for task in TASKS for network in NETWORKS]
TORCH = ("rnn", "lstm", "gru")
COPY = {"batch_size": 20, "hidden_size": 128, "steps": 20_000, "epochs": None, "clip": None, "stop_below": None}
ADDING = {"batch_size": 50, "hidden_size": 128, "steps": 30_000, "epochs": None, "clip": None, "stop_below": 0.002}
SPEECH = {"batch_size": 20, "hidden_size": 128, "epochs": 30, "clip": 1.0}
MNIST = {"batch_size": 100, "epochs": 60, "steps": None, "clip": 1.0}
LABELS = {"batch_size": 100, "epochs": 500, "clip": 1.0}
THREE = {"mlp": (32, 32, 32), "clip": None}
BIG: dict[str, dict[str, Any]] = {
    "srnn": {**MNIST, **THREE, "hidden_size": 1024},
    **{name: {**MNIST, "hidden_size": size} for name, size in (("lstm", 200), ("gru", 231), ("rnn", 400))},
}
PAPER: dict[str, dict[str, dict[str, Any]]] = {
    "copy": {"srnn": {**COPY, "mlp": (8,)}, "rnn": COPY, "lstm": COPY, "gru": COPY},
    "adding": {"srnn": {**ADDING, "mlp": (8,)}, "rnn": ADDING, "lstm": ADDING, "gru": ADDING},
    "speech": {"srnn": {**SPEECH, **THREE}, "rnn": SPEECH, "lstm": SPEECH, "gru": SPEECH},
    "pmnist": BIG,
    "bigpmnist": BIG,
    "randomlabels": {
        "srnn": {**LABELS, **THREE, "hidden_size": 285},
        **{name: {**LABELS, "hidden_size": size} for name, size in (("lstm", 59), ("gru", 68), ("rnn", 116))},
    },
}
COMMON = {"optimizer": "rmsprop", "lr": 0.001, "weight_decay": 0, "dropout": 0, "readout": (), "norm": False, "seed": 1234}
COMMON |= {"schedule": "constant", "select": "loss", "num_layers": 1}


def settings(run: Run) -> dict[str, Any]:
    return {**vars(run.task), **vars(run.network), **vars(run)}


# --- recipes ---


@pytest.mark.parametrize(("task", "network"), [(task, network) for task in PAPER for network in ("srnn", *TORCH)])
def test_runs_have_the_settings_of_the_paper(task: str, network: str) -> None:
    expected = {**COMMON, **PAPER[task][network]}
    got = settings(make_run(task, network))
    assert {name: got[name] for name in expected} == expected
    assert got.get("gate", True)
    assert settings(make_run(task, network, "own")) == {**got, "recipe": "own"}


BASELINES: dict[str, dict[str, Any]] = {
    "nru": {"optimizer": "adam", "lr": 0.001, "clip": 1.0, "memory_size": 256, "heads": 4},
    "nnrnn": {"alpha": 0.99, "optimizer": "rmsprop", "clip": None},
    "urnn": {"optimizer": "rmsprop", "alpha": 0.9, "lr": 0.001, "clip": None},
}


@pytest.mark.parametrize(
    ("task", "lr", "orthogonal_lr", "delta", "triangle_decay"),
    [("copy", 5e-4, 1e-6, 1e-4, 1e-6), ("adding", 2e-4, 2e-5, 1e-4, 1e-5), ("pmnist", 2e-4, 2e-5, 0.1, 1e-4)],
)
def test_nnrnn_has_the_rates_of_its_released_code(
    task: str, lr: float, orthogonal_lr: float, delta: float, triangle_decay: float
) -> None:
    got = settings(make_run(task, "nnrnn"))
    assert (got["lr"], got["delta"], got["triangle_decay"]) == (lr, delta, triangle_decay)
    assert got["lr"] * got["orthogonal_rate"] == pytest.approx(orthogonal_lr)


@pytest.mark.parametrize("network", BASELINES)
@pytest.mark.parametrize("task", ["copy", "adding", "speech", "pmnist", "bigpmnist"])
def test_baselines_have_the_settings_of_the_paper(task: str, network: str) -> None:
    got = settings(make_run(task, network))
    shared = PAPER[task]["srnn"]
    expected = {**{name: shared.get(name) for name in ("batch_size", "steps", "epochs", "stop_below")}, **BASELINES[network]}
    assert {name: got[name] for name in expected} == expected
    sizes = {"nru": 212, "nnrnn": 400, "urnn": 512} if "pmnist" in task else dict.fromkeys(BASELINES, 128)
    assert got["hidden_size"] == sizes[network]
    assert got["embed"] is (network != "urnn" or task != "copy")


@pytest.mark.parametrize(("task", "network"), EVERY)
@pytest.mark.parametrize("recipe", ["paper", "own"])
@pytest.mark.usefixtures("prose")
def test_every_network_has_a_recipe_for_every_task(task: str, network: str, recipe: str) -> None:
    run = make_run(task, network, recipe)
    assert (run.task.name, run.network.name, run.recipe) == (task, network, recipe)
    assert from_dict(run.as_dict()) == run
    models.make(replace(run.task), run.network, 1, embed=run.embed, readout=run.readout, norm=run.norm, dropout=run.dropout)


@pytest.mark.parametrize(
    ("task", "network", "expected"),
    [
        ("copy", "scornn", {"hidden_size": 190, "lr": 1e-3, "orthogonal_rate": 0.1, "batch_size": 20, "steps": 10_000}),
        ("copy", "exprnn", {"hidden_size": 190, "lr": 2e-4, "alpha": 0.99, "batch_size": 128, "steps": 4000, "embed": False}),
        ("pmnist", "exprnn", {"hidden_size": 170, "lr": 7e-4, "angles": "cayley", "batch_size": 128, "epochs": 70}),
        ("adding", "scornn", {"hidden_size": 170, "optimizer": "adam", "orthogonal_optimizer": "rmsprop", "batch_size": 50}),
        ("pmnist", "rgd", {"hidden_size": 116, "lr": 1e-3, "unitary_rate": 1e-3, "scaled": True, "patience": 5}),
        ("pmnist", "nnrnn", {"hidden_size": 512, "lr": 1.5e-4, "delta": 0.15, "triangle_decay": 1e-4, "orthogonal_rate": 0.1}),
        ("pmnist", "nru", {"hidden_size": 212, "steps": 50_000, "epochs": None, "clip": 1.0}),
        ("pmnist", "indrnn", {"num_layers": 6, "layer_norm": "batch", "lr": 2e-4, "optimizer": "adam", "clip_value": 10.0}),
        ("speech", "exprnn", {"optimizer": "adam", "orthogonal_optimizer": "rmsprop", "hidden_size": 224, "epochs": 1200}),
        ("speech", "urnn", {"batch_size": 28, "steps": 13_000, "epochs": None}),
        ("adding", "lru", {"optimizer": "adamw", "weight_decay": 0.05, "schedule": "cosine", "eigenvalue_rate": 0.5}),
    ],
)
def test_networks_have_the_settings_of_their_own_papers(task: str, network: str, expected: dict[str, Any]) -> None:
    got = settings(make_run(task, network, "own"))
    assert {name: got[name] for name in expected} == expected


def test_the_tuned_recipe_has_our_settings() -> None:
    run = make_run("pmnist", "srnn", "ours")
    assert (run.recipe, run.optimizer, run.schedule, run.select) == ("ours", "adamw", "cosine", "metric")
    assert run.network == make_run("pmnist", "srnn").network
    for task, network in (("copy", "srnn"), ("pmnist", "gru"), ("bigpmnist", "rnn")):
        with pytest.raises(SettingError, match=f"no recipe tuned for {task} with {network}, only for .*pmnist with srnn"):
            make_run(task, network, "ours")


def test_a_network_overrides_the_paper_only_in_recipe_original(monkeypatch: pytest.MonkeyPatch) -> None:
    said: dict[str, Any] = {"": {"lr": 0.5, "batch_size": 7, "seed": 5}, "copy": {"lr": 0.25}}
    monkeypatch.setattr(GRUNetwork, "recipes", {"own": said, "paper": said})
    monkeypatch.setattr(Copy, "recipes", {**Copy.recipes, "own": {"": {"lr": 0.75, "warmup": 9}}})
    paper, own = make_run("copy", "gru"), make_run("copy", "gru", "own")
    assert (paper.lr, paper.batch_size, paper.seed) == (0.25, 20, 5)
    assert (own.lr, own.batch_size, own.seed, own.steps, own.warmup) == (0.25, 7, 5, 20_000, 9)
    assert make_run("adding", "gru", "own").lr == 0.5


def test_settings_of_the_user_override_the_recipe() -> None:
    given: dict[str, Any] = {
        "length": 7,
        "hidden_size": 9,
        "mlp": (3, 4),
        "lr": 0.5,
        "batch_size": 2,
        "seed": 3,
        "readout": (5,),
    }
    run = make_run("copy", "srnn", **given)
    assert {name: settings(run)[name] for name in given} == given
    assert make_run("copy", "srnn", mlp=[3, 4]).network == make_run("copy", "srnn", mlp=(3, 4)).network
    assert make_run("pmnist", "lstm", clip=None).clip is None


def test_a_given_end_replaces_that_of_the_recipe() -> None:
    by_steps, by_epochs = make_run("pmnist", "srnn", steps=5), make_run("pmnist", "srnn", epochs=2)
    assert (by_steps.steps, by_steps.epochs, by_epochs.steps, by_epochs.epochs) == (5, None, None, 2)
    both, cut = make_run("pmnist", "srnn", steps=5, epochs=2), make_run("pmnist", "srnn", minutes=1.0)
    assert (both.steps, both.epochs, cut.epochs, cut.minutes) == (5, 2, 60, 1.0)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            ("copi", "srnn"),
            "no task is called 'copi'. Choose one of adding, bigpmnist, copy, pmnist, randomlabels, speech, text",
        ),
        (("copy", "srn"), "no network is called 'srn'. Choose one of eurnn, exprnn, gru, indrnn, lru, lstm,"),
        (("copy", "srnn", "theirs"), "no recipe is called 'theirs'. Choose one of paper, original, tuned"),
    ],
)
def test_an_error_about_an_unknown_name_lists_the_known_ones(call: tuple[str, ...], said: str) -> None:
    with pytest.raises(SettingError, match=said):
        make_run(*call)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"crop": 8}, "neither copy nor srnn has a setting 'crop'. It belongs to randomlabels"),
        ({"length": "long"}, "copy: length must be a whole number of at least 1, got 'long'"),
        ({"mlp": 8}, "srnn: mlp must be a tuple of whole numbers of at least 1, got 8"),
        ({"lr": "fast"}, "lr must be a number above 0, got 'fast'"),
        ({"steps": "many"}, "steps must be a whole number of at least 1 or None, got 'many'"),
        ({"lr": 0.0}, "lr must be a number above 0, got 0.0"),
        ({"lr": float("nan")}, "lr must be a finite number, got nan"),
        ({"clip": -1.0}, "clip must be a number above 0 or None, got -1.0"),
        ({"batch_size": 0}, "batch_size must be a whole number of at least 1, got 0"),
        ({"hidden_size": 0}, "must be a whole number of at least 1, got 0"),
        ({"readout": (4, 0)}, r"readout must be a tuple of whole numbers of at least 1, got \(4, 0\)"),
        ({"mlp": (0,)}, r"srnn: mlp must be a tuple of whole numbers of at least 1, got \(0,\)"),
        ({"gate": False, "gate_init": -2.0}, "srnn: gate_init must be 0.0 without a gate, got -2.0"),
        ({"gate_init": float("inf")}, "gate_init must be a finite number, got inf"),
        ({"gate_init": True}, "srnn: gate_init must be a number, got True"),
        ({"f_r_scale": "small"}, "srnn: f_r_scale must be a number, got 'small'"),
        ({"seed": -1}, r"seed must be a whole number from 0 to below 2\*\*63, got -1"),
        ({"seed": 2**64}, r"seed must be a whole number from 0 to below 2\*\*63, got 18446744073709551616"),
        ({"dropout": 1.0}, "dropout must be a number from 0 to below 1, got 1.0"),
        ({"optimizer": "lion"}, "optimizer must be one of rmsprop, adam, adamw, sgd, got 'lion'"),
        ({"schedule": "step"}, "schedule must be one of constant, cosine, staircase, got 'step'"),
        ({"select": "last"}, "select must be one of loss, metric, got 'last'"),
        ({"epochs": 3}, "copy has no epochs because its data never repeat"),
        ({"patience": 3}, "patience needs validation data, and copy has none"),
        ({"steps": None}, "a run needs an end"),
        ({"steps": None, "minutes": 1.0, "schedule": "cosine"}, "schedule cosine needs the number of updates"),
    ],
)
def test_an_invalid_setting_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingError, match=said):
        make_run("copy", "srnn", **given)


# --- runs ---

BASE = Run(task=PMNIST(), network=SRNNNetwork(), steps=10)
OTHER: dict[str, Any] = {
    "init_from": "runs/other",
    "task": Copy(), "network": GRUNetwork(), "recipe": "ours", "readout": (4,), "norm": True, "dropout": 0.5, "batch_size": 7,
    "optimizer": "adam", "lr": 0.5, "alpha": 0.5, "weight_decay": 0.1, "clip": 1.0, "clip_value": 0.5, "embed": False,
    "schedule": "cosine", "decay_every": 7, "warmup": 3, "steps": 11,
    "epochs": 2, "minutes": 1.5, "cpu_minutes": 2.5,
    "patience": 2, "stop_below": 0.1, "select": "metric", "eval_every": 5, "seed": 2, "threads": 2,
    "device": "cuda",
}  # fmt: skip


@pytest.mark.parametrize(("task", "network"), EVERY)
def test_a_run_is_rebuilt_from_its_dict(task: str, network: str) -> None:
    run = make_run(task, network, readout=(4, 5), seed=7)
    again = from_dict(run.as_dict())
    assert (again, hash(again), again.id) == (run, hash(run), run.id)


@pytest.mark.parametrize("plain", [{}, {"task": 3}, {**BASE.as_dict(), "colour": 1}, {**BASE.as_dict(), "task": {}}])
def test_a_dict_that_is_no_run_is_refused(plain: dict[str, Any]) -> None:
    with pytest.raises(RecordError, match="these are not the settings of a run"):
        from_dict(plain)


def test_different_runs_have_different_ids() -> None:
    assert OTHER.keys() == {field.name for field in fields(Run)}
    runs = [BASE, *(replace(BASE, **{name: value}) for name, value in OTHER.items())]
    networks = [SRNNNetwork(9), SRNNNetwork(num_layers=2), SRNNNetwork(mlp=()), SRNNNetwork(gate=False)]
    networks += [SRNNNetwork(activation="tanh"), SRNNNetwork(permutation="random")]
    networks += [SRNNNetwork(gate_init=-2.0), SRNNNetwork(f_r_scale=0.1)]
    runs += [*(replace(BASE, network=network) for network in networks), replace(BASE, task=Copy(7))]
    runs += [replace(BASE, task=Speech()), replace(BASE, task=Speech(scale_targets=True))]
    assert len({run.id for run in runs}) == len(set(runs)) == len(runs)
    for run in runs:
        assert replace(run).id == run.id
        assert from_dict(run.as_dict()) == run


def test_ids_stay_when_settings_are_added() -> None:
    """Records are found by these: a change here makes all of them strangers."""
    names = [("copy", "srnn"), ("pmnist", "lstm"), ("speech", "gru")]
    assert [make_run(*name).id for name in names] == ["copy-srnn-9f416a4d", "pmnist-lstm-85b03fee", "speech-gru-01be90f2"]
    later: Any = make_dataclass("Later", [("extra", int, 0)], bases=(Run,), frozen=True)
    assert later(**vars(BASE)).id == BASE.id != later(**vars(BASE), extra=1).id
    defaults: dict[str, Any] = {
        field.name: field.default for field in fields(Run) if field.name not in ("task", "network", "steps")
    }
    assert Run(PMNIST(), SRNNNetwork(128, 1, (32,)), steps=10, **defaults).id == BASE.id


@pytest.mark.parametrize(
    ("names", "defaults"),
    [(("copy", "srnn"), {"gate_init": 0.0, "f_r_scale": 1.0}), (("speech", "gru"), {"scale_targets": False})],
)
def test_an_id_does_not_depend_on_defaults_that_are_given(names: tuple[str, str], defaults: dict[str, Any]) -> None:
    assert make_run(*names, **defaults).id == make_run(*names).id


def test_records_have_the_ids_of_their_runs() -> None:
    found = records.read(RESULTS)
    runs = found.of(Record)
    assert not found.faults
    assert len(runs) > 250
    assert [record.id for record in runs if from_dict(dict(record.run)).id != record.id] == []


@pytest.mark.parametrize(("name", "whole", "real"), [("gate_init", -2, -2.0), ("f_r_scale", 2, 2.0)])
def test_a_whole_number_and_a_real_one_name_the_same_network(name: str, whole: int, real: float) -> None:
    given: list[dict[str, Any]] = [{name: whole}, {name: real}]
    runs = [make_run("copy", "srnn", **one) for one in given]
    assert runs[0].id == runs[1].id != make_run("copy", "srnn").id
    assert type(getattr(runs[0].network, name)) is float


def test_a_run_is_frozen() -> None:
    for thing in (BASE, BASE.network, Copy()):
        with pytest.raises(FrozenInstanceError):
            setattr(thing, fields(thing)[0].name, 3)


def test_a_run_can_be_extended_unless_its_rate_decays() -> None:
    assert BASE.with_limits(steps=20, epochs=None) == replace(BASE, steps=20)
    epochs = make_run("pmnist", "srnn")
    assert (epochs.epochs, epochs.with_limits(steps=20).epochs, epochs.with_limits(steps=20).steps) == (60, None, 20)
    assert epochs.with_limits(minutes=3.0).epochs == 60
    decaying = replace(BASE, schedule="cosine")
    assert decaying.with_limits(steps=10, minutes=3.0).minutes == 3.0
    with pytest.raises(RecordError, match="cannot be given another end"):
        decaying.with_limits(steps=20)


# --- files of the user's own ---

TASK = "from srnn.lab.tasks import Task\nclass A(Task):\n    name = 'a'\n"


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (TASK + "class B(A):\n    pass\n", "must define one subclass of srnn's Task, got A, B"),
        ("from srnn.lab.tasks.copy import Copy\n", "must define one subclass of srnn's Task, got none"),
        ("class A(Task:\n", "does not run as Python: SyntaxError: .*line 1"),
        ("raise ValueError('two\\nlines')\n", "does not run as Python: ValueError: two lines"),
        ("from srnn.lab.tasks import Task\nclass A(Task):\n    pass\n", "A must have a new name, such as name = 'parity'"),
        (None, "cannot be read: No such file or directory"),
    ],
)
def test_a_file_without_a_task_is_refused_by_name(tmp_path: Path, source: str | None, said: str) -> None:
    path = tmp_path / "mine.py"
    if source is not None:
        path.write_text(source)
    with pytest.raises(SettingError, match=rf"mine\.py.*{said}") as caught:
        make_run(str(path), "srnn", steps=1)
    assert "\n" not in str(caught.value)


def test_the_id_of_a_file_depends_on_path_and_content(tmp_path: Path) -> None:
    source = (EXAMPLES / "parity.py").read_text()
    first, second = tmp_path / "first.py", tmp_path / "second"
    first.write_text(source)
    second.write_text(source)
    run, other = make_run(str(first), "srnn"), make_run(str(second), "srnn")
    assert run.as_dict()["task"]["path"] == str(first)
    assert run.id != other.id
    assert from_dict(run.as_dict()) == run == make_run(str(first), "srnn")
    written = first.stat()
    first.write_text(source.replace("length: int = setting(10,", "length: int = setting(99,"))
    os.utime(first, ns=(written.st_atime_ns, written.st_mtime_ns))  # as when a file is changed twice within a tick
    assert make_run(str(first), "srnn").task.length == 99  # type: ignore[attr-defined]
    with pytest.raises(RecordError, match=r"^\S+first\.py has changed since the run was started"):
        from_dict(run.as_dict())
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []


def test_the_examples_load_by_their_path() -> None:
    assert (task_kind(str(EXAMPLES / "parity.py")).name, network_kind(str(EXAMPLES / "ewma.py")).name) == ("parity", "ewma")
    run = make_run(str(EXAMPLES / "parity.py"), str(EXAMPLES / "ewma.py"), length=5, slowest=20.0, hidden_size=6)
    assert {name: settings(run)[name] for name in ("length", "slowest", "hidden_size", "steps")} == {
        "length": 5, "slowest": 20.0, "hidden_size": 6, "steps": 2000,
    }  # fmt: skip
    with pytest.raises(SettingError, match="parity: length must be a whole number of at least 1, got 0"):
        make_run(str(EXAMPLES / "parity.py"), "srnn", length=0)


@pytest.mark.parametrize(
    ("task", "network", "steps", "guess"),
    [(EXAMPLES / "parity.py", "srnn", 80, math.log(2)), ("adding", EXAMPLES / "ewma.py", 200, 1 / 6)],
)
def test_the_examples_learn(tmp_path: Path, task: Any, network: Any, steps: int, guess: float) -> None:
    run = make_run(str(task), str(network), length=4, steps=steps, lr=0.01, eval_every=10)
    record = train(run, tmp_path / "run")
    assert record.status == "finished"
    assert record.curve["loss"][-1] < guess / 2
    if run.task.name == "parity":
        assert record.result is not None
        assert record.result.value > 80


@pytest.mark.parametrize(("file", "method"), [("parity.py", "batch"), ("parity.py", "loss"), ("ewma.py", "layer")])
def test_a_file_must_define_all_required_names(file: str, method: str, tmp_path: Path) -> None:
    path = tmp_path / file
    path.write_text((EXAMPLES / file).read_text().replace(f"def {method}(", f"def other_{method}("))
    with pytest.raises(SettingError, match=f"must define {method}"):
        task_kind(str(path)) if file == "parity.py" else network_kind(str(path))


def test_a_setting_without_a_default_must_be_given(tmp_path: Path) -> None:
    source = (EXAMPLES / "parity.py").read_text()
    assert "length: int = setting(10" in source
    path = tmp_path / "needy.py"
    path.write_text(re.sub(r"length: int = setting\(.*\)", "length: int", source))
    with pytest.raises(SettingError, match="the setting 'length' must be given: --set length=VALUE"):
        make_run(str(path), "srnn")
    assert make_run(str(path), "srnn", length=3).task.length == 3  # type: ignore[attr-defined]


def test_whole_and_real_numbers_are_the_same_run() -> None:
    assert make_run("copy", "srnn", clip=1).id == make_run("copy", "srnn", clip=1.0).id
