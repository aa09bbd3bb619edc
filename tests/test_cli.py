"""The commands as a user meets them: what they print, their exit codes, and errors of one line."""

import errno
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import torch
import typer.main
from rich.console import Console

import srnn
from srnn import kernels
from srnn.errors import DataError
from srnn.kernels import native
from srnn.lab import cli, data, report
from srnn.lab.cli import demo
from srnn.lab.cli import options as cli_options
from srnn.lab.cli import train as lab
from srnn.lab.measures import backends
from srnn.lab.networks import NETWORKS
from srnn.lab.networks.srnn import SRNNNetwork
from srnn.lab.paper.plan import EXHIBITS, Plan
from srnn.lab.records import store
from srnn.lab.scheduling import reproduce, sweep
from srnn.lab.scheduling.reproduce import Selection
from srnn.lab.settings import Settings, rules
from srnn.lab.tasks import TASKS
from srnn.lab.training import progress
from srnn.lab.training.progress import number
from srnn.lab.training.recipes import SHOWN, make_run
from srnn.lab.training.run import Run as RunSettings

Run = Any  # (*arguments) -> (exit code, stdout, stderr)
TREE: Any = typer.main.get_command(cli.app)
COMMANDS = list(TREE.commands)
KINDS: list[type[Settings]] = [RunSettings, *TASKS.values(), *NETWORKS.values()]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.setattr(kernels, "_default", "auto")
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")

    def call(*arguments: str) -> tuple[Any, str, str]:
        monkeypatch.setattr(sys, "argv", ["srnn", *arguments])
        with pytest.raises(SystemExit) as end:
            cli.main()
        return end.value.code, *capsys.readouterr()

    return call


def python(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=120)


def test_version_is_that_of_the_package(run: Run) -> None:
    assert run("--version") == (0, f"srnn {srnn.__version__}\n", "")


def test_module_and_script_are_the_same_program() -> None:
    for command in ([sys.executable, "-m", "srnn"], [Path(sys.executable).with_name("srnn")]):
        done = subprocess.run([*command, "--version"], capture_output=True, text=True, timeout=120)
        assert (done.returncode, done.stdout, done.stderr) == (0, f"srnn {srnn.__version__}\n", "")


def test_no_arguments_show_the_help(run: Run) -> None:
    assert "Start with srnn doctor and srnn demo." in "".join(map(str, run()))


def test_help_names_every_command_and_shows_how_to_start(run: Run) -> None:
    code, out, _ = run("--help")
    assert code == 0
    assert [name for name in COMMANDS if f"│ {name} " not in out] == []
    assert "srnn bench --quick" in out
    assert "SRNN_BACKEND" in out


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_has_an_example(run: Run, command: str) -> None:
    code, out, _ = run(command, "--help")
    assert code == 0
    assert f"\n srnn {command}" in out


def test_help_on_a_narrow_terminal_cuts_no_option(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    code, out, _ = run("train", "--help")
    assert code == 0
    shown = ("--scale-targets / --no-scale-targets", "--checkpoint-every <float>", "--cpu-minutes <float>")
    assert [option for option in shown if f"  {option}\n" not in out] == []
    assert "│" not in out
    assert [line for line in out.splitlines() if len(line) > 40 and not line.startswith("  srnn train ")] == []


@pytest.mark.parametrize(
    "command",
    [
        "eval absent",
        "runs absent",
        "report --results absent",
        "train --resume absent",
        "train absent.py",
        "train copy --data absent",
        "train text --file absent.txt",
        "bench --quick --readme absent.md",
    ],
)
def test_a_file_that_does_not_exist_is_a_wrong_value(run: Run, command: str, elsewhere: Path) -> None:
    code, _, err = run(*command.split())
    assert (code, err.count("\n")) == (2, 1)
    assert "absent" in err


@pytest.mark.parametrize("command", COMMANDS)
def test_flags_have_no_type_in_help(run: Run, command: str) -> None:
    assert "bool" not in run(command, "--help")[1]


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ("nonsense", "nonsense"),
        ("--nonsense", "--nonsense"),
        ("train copy --steps many", "--steps"),
        ("demo --seed -1", "--seed"),
    ],
)
def test_wrong_usage_ends_with_2(run: Run, arguments: str, word: str) -> None:
    code, out, err = run(*arguments.split())
    assert (code, out) == (2, "")
    assert word in err


def test_unknown_name_is_one_line_and_ends_with_2(run: Run) -> None:
    code, _, err = run("bench", "--only", "nonsense")
    assert code == 2
    assert err.startswith("srnn: no benchmark is called 'nonsense'. Choose one of ")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("bench --swap --threads 1", "leave out --networks, --scale, --step, --repeats and --threads"),
        ("bench --jobs 2", "--jobs is an option of --swap, got 2 without it"),
        ("bench --device cpu --scale", "--device is a benchmark of its own"),
        ("bench --device nowhere", "device 'nowhere' is not available here"),
        ("bench --scale --networks", "leave out --networks, --only and --threads"),
        ("report --quick --readme README.md", "a rehearsal says nothing about the paper"),
        ("report --profile quick --readme README.md", "a rehearsal says nothing about the paper"),
        ("reproduce copy --profile full --quick", "leave out --profile full"),
        ("train speech --corpus mnist", "speech: corpus must be one of speech, timit, timit-sample, got 'mnist'"),
        ("train copy --activation gelu", "srnn: activation must be one of relu, tanh, clip, got 'gelu'"),
        ("train copy --permutation turn", "srnn: permutation must be one of shift, partial, identity, random, got 'turn'"),
    ],
)
def test_options_that_do_not_go_together_are_one_line_and_end_with_2(run: Run, arguments: str, said: str) -> None:
    code, out, err = run(*arguments.split())
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(("command", "word"), [("train", "TASK"), ("reproduce", "EXHIBITS")])
def test_a_missing_argument_is_named(run: Run, command: str, word: str) -> None:
    code, _, err = run(command)
    assert code == 2
    assert word in err


def test_an_error_about_an_unknown_backend_in_the_environment_lists_all(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "srnn", "train", "copy", "--steps", "1"]
    environment = os.environ | {"SRNN_BACKEND": "nonsense"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert "called 'nonsense'. Choose one of auto, native, reference, torch" in done.stderr
    assert done.stderr.count("\n") == 1


def test_doctor_shows_versions_and_backends(run: Run) -> None:
    code, out, _ = run("doctor")
    assert code == 0
    assert all(
        word in out
        for word in (torch.__version__, srnn.__version__, "reference", "torch", "native", "equal (", "The backend on a CPU is")
    )


def test_doctor_knows_the_data_sets(run: Run, elsewhere: Path) -> None:
    code, out, _ = run("doctor")
    assert code == 0
    assert "Data sets: mnist missing, speech missing, timit missing, timit-sample missing, text missing. Run srnn data" in out


def test_doctor_prints_json(run: Run) -> None:
    code, out, _ = run("doctor", "--json")
    found = json.loads(out)
    assert code == 0
    assert found["healthy"] is True
    assert found["threads"] == torch.get_num_threads()
    assert found["auto"] == ("torch" if native.load_error() else "native")
    assert found["backends"]["torch"]["difference"] < backends.TOLERANCE[torch.float64]


def test_doctor_says_why_native_is_missing_and_what_runs_instead(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "NATIVE_ERROR", "no C++ compiler was found. Install one")
    code, out, _ = run("doctor")
    assert code == 0
    assert "native is not available: no C++ compiler was found. Install one" in out
    assert "The backend on a CPU is torch." in out


def test_doctor_respects_and_shows_the_environment(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "_default", "reference")
    assert "The backend on a CPU is reference (SRNN_BACKEND=reference)." in run("doctor")[1]


@pytest.mark.parametrize(
    ("wish", "answer"), [("nonsense", "names no backend. Choose one of auto,"), ("native", "not available")]
)
def test_doctor_fails_if_the_requested_backend_cannot_run(
    run: Run, monkeypatch: pytest.MonkeyPatch, wish: str, answer: str
) -> None:
    monkeypatch.setattr(kernels, "NATIVE_ERROR", "no compiler")
    monkeypatch.setattr(kernels, "_default", wish)
    code, out, _ = run("doctor")
    assert code == 1
    assert answer in out


FINE = {"available": True, "reason": None, "equals_reference": True, "difference": 0.0, "error": None}


def test_doctor_says_which_backend_every_device_gets_and_why(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    places = [torch.device("cpu"), torch.device("mps", 0), torch.device("cuda", 0)]
    monkeypatch.setattr(backends, "devices", lambda: places)
    monkeypatch.setattr(store, "device", lambda on: {"name": f"Some {on.type}"})  # torch would look for a GPU
    monkeypatch.setattr(kernels.triton, "error", lambda on: "Triton is not installed. Run pip install it")
    out = run("doctor")[1]
    assert "The backend on mps:0 (Some mps) is torch: compiled kernels are for the CPU and for CUDA." in out
    assert "The backend on cuda:0 (Some cuda) is torch: Triton is not installed. Run pip install it." in out
    monkeypatch.setattr(kernels.triton, "error", lambda on: None if on.type == "cuda" else "not here")
    monkeypatch.setattr(backends, "examine_backend", lambda *given: FINE)
    assert "The backend on cuda:0 (Some cuda) is triton." in run("doctor")[1]
    monkeypatch.setattr(kernels, "_default", "torch")
    assert "The backend on cuda:0 (Some cuda) is torch (SRNN_BACKEND=torch)." in run("doctor")[1]


def test_doctor_prints_a_line_of_the_self_test_for_each_backend(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, _ = run("doctor", "--selftest")
    assert code == 0
    assert "torch on cpu: equals the reference up to float64 " in out
    found = json.loads(run("doctor", "--selftest", "--json")[1])["selftest"]
    assert [each["backend"] for each in found[:2]] == ["torch", "native"]
    tests = [
        {**FINE, "backend": "triton", "device": "cuda:0", "equals_reference": False, "differences": {"float16": 0.5}},
        {**FINE, "backend": "torch", "device": "mps:0", "error": "out of order", "equals_reference": False},
        {**FINE, "backend": "native", "device": "cpu", "reason": "no compiler", "equals_reference": None},
    ]
    monkeypatch.setattr(backends, "selftest", lambda: tests)
    code, out, _ = run("doctor", "--selftest")
    assert code == 1
    assert "triton on cuda:0: DIFFERS FROM the reference up to float16 5e-01" in out
    assert "torch on mps:0: fails: out of order" in out
    assert "native on cpu: not available. no compiler" in out


def lie(kind: str, truth: Any) -> Any:
    """A scan whose backend `torch` has a wrong value, a NaN, or right values with a wrong gradient."""
    wrong = {"value": lambda h: h + 1e-6, "nan": lambda h: h * torch.nan, "gradient": lambda h: h + (h - h.detach()) * 1e-6}

    def scan(*args: Any, **options: Any) -> Any:
        result = truth(*args, **options)
        if options["backend"] != "torch":
            return result
        return (result[0], wrong[kind](result[1])) if isinstance(result, tuple) else wrong[kind](result)

    return scan


@pytest.mark.parametrize("kind", ["value", "nan", "gradient"])
@pytest.mark.parametrize("name", ["scan", "gated_scan"])
def test_doctor_notices_a_backend_that_differs(run: Run, monkeypatch: pytest.MonkeyPatch, name: str, kind: str) -> None:
    monkeypatch.setattr(backends, name, lie(kind, getattr(backends, name)))
    code, out, _ = run("doctor")
    assert code == 1
    assert out.count("NOT EQUAL") == 1


@pytest.mark.parametrize("kind", [RuntimeError, Exception])  # of torch, and of Triton's compiler
def test_doctor_reports_a_backend_that_cannot_run(run: Run, monkeypatch: pytest.MonkeyPatch, kind: type[Exception]) -> None:
    def broken(*args: Any, **options: Any) -> Any:
        raise kind("out of\norder")

    monkeypatch.setattr(backends, "gated_scan", broken)
    code, out, _ = run("doctor")
    assert code == 1
    assert "fails: out of order" in out


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder, and no data sets."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SRNN_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


SHORT = ("train", "copy", "--length", "5", "--hidden-size", "8", "--steps", "20", "--threads", "1")


def test_train_leaves_a_folder_and_a_record_and_runs_and_eval_read_them(run: Run, elsewhere: Path) -> None:
    code, out, err = run(*SHORT)
    assert (code, err) == (0, "")
    assert "copy (length 5) with srnn (hidden_size 8" in out
    (folder,) = (elsewhere / "runs").glob("copy-*")
    files = {"run.json", "metrics.jsonl", "model.safetensors", "checkpoint.safetensors", "record.json", "lock"}
    assert {path.name for path in folder.iterdir()} == files
    (record,) = store.read_all(elsewhere / "runs" / "records" / "copy.jsonl")
    assert (record["id"], record["updates"], record["status"]) == (folder.name, 20, "finished")
    assert f"final {number(record['training']['final'])}" in out
    code, out, _ = run("runs", "--json")
    (row,) = json.loads(out)
    assert (code, row["folder"], row["state"], row["updates"]) == (0, folder.name, "finished", 20)
    code, out, _ = run("eval", str(folder), "--json")
    found = json.loads(out)
    assert (code, found["split"]) == (0, "fresh")
    assert 0 < found["loss"] == found["score"] < 10
    assert f"cross-entropy {number(found['score'])}" in run("eval", str(folder))[1]


def test_the_same_command_and_resume_both_resume_a_run(run: Run, elsewhere: Path) -> None:
    run(*SHORT)
    first = store.read_all(elsewhere / "runs" / "records" / "copy.jsonl")
    assert run(*SHORT)[0] == 0
    assert store.read_all(elsewhere / "runs" / "records" / "copy.jsonl") == first
    (folder,) = (elsewhere / "runs").glob("copy-*")
    code, _, err = run("train", "--resume", str(folder), "--steps", "30")
    assert (code, err) == (0, "")
    assert [record["updates"] for record in store.read_all(elsewhere / "runs" / "records" / "copy.jsonl")] == [20, 30]


# A setting of `srnn train`: a run that has it, what is typed, and what must be in the run, where something else would be.
TYPED: dict[str, tuple[str, str, Any]] = {
    "length": ("copy", "--length 7", 7),
    "direction": ("speech", "--direction echo", "echo"),
    "standardise": ("speech", "--standardise", True),
    "scale_targets": ("speech", "--scale-targets", True),
    "corpus": ("speech", "--corpus timit", "timit"),
    "file": ("text", "--file prose.txt", "prose.txt"),
    "allow_shared_speakers": ("speech", "--allow-shared-speakers", True),
    "crop": ("randomlabels", "--crop 6", 6),
    "samples": ("randomlabels", "--samples 50", 50),
    "pixels": ("bigpmnist", "--pixels wrapped", "wrapped"),
    "hidden_size": ("copy", "--hidden-size 9", 9),
    "num_layers": ("copy", "--num-layers 2", 2),
    "mlp": ("copy", "--mlp 5,6", [5, 6]),
    "gate": ("copy", "--no-gate", False),
    "gate_init": ("copy", "--gate-init -3", -3.0),
    "activation": ("copy", "--activation tanh", "tanh"),
    "permutation": ("copy", "--permutation random", "random"),
    "readout": ("copy", "--readout 7,8", [7, 8]),
    "norm": ("copy", "--norm", True),
    "dropout": ("copy", "--dropout 0.25", 0.25),
    "batch_size": ("copy", "--batch-size 3", 3),
    "optimizer": ("copy", "--optimizer sgd", "sgd"),
    "lr": ("copy", "--lr 0.5", 0.5),
    "weight_decay": ("copy", "--weight-decay 0.125", 0.125),
    "clip": ("copy", "--clip 2.5", 2.5),
    "schedule": ("copy", "--schedule cosine", "cosine"),
    "warmup": ("copy", "--warmup 11", 11),
    "steps": ("copy", "--steps 12", 12),
    "epochs": ("pmnist", "--epochs 13", 13),
    "minutes": ("copy", "--minutes 1.5", 1.5),
    "cpu_minutes": ("copy", "--cpu-minutes 2.5", 2.5),
    "patience": ("pmnist", "--patience 4", 4),
    "stop_below": ("copy", "--stop-below 0.75", 0.75),
    "select": ("pmnist", "--select metric", "metric"),
    "eval_every": ("copy", "--eval-every 17", 17),
    "seed": ("copy", "--seed 18", 18),
    "threads": ("copy", "--threads 997", 997),
    "device": ("copy", "--device cuda:1", "cuda:1"),
    "embed": ("copy", "--no-embed", False),
    "alpha": ("copy", "--alpha 0.5", 0.5),
    "clip_value": ("copy", "--clip-value 3", 3.0),
    "decay_every": ("copy", "--decay-every 19", 19),
    "f_r_scale": ("copy", "--f-r-scale 0.5", 0.5),
    "width": ("copy --model srnnstack", "--width 20", 20),
    "block_dropout": ("copy --model srnnstack", "--block-dropout 0.5", 0.5),
    "style": ("copy --model eurnn", "--style fft", "fft"),
    "capacity": ("copy --model eurnn", "--capacity 4", 4),
    "factored": ("copy --model urnn", "--factored", True),
    "angles": ("copy --model exprnn", "--angles cayley", "cayley"),
    "rebase_every": ("copy --model exprnn", "--rebase-every 21", 21),
    "orthogonal_rate": ("copy --model scornn", "--orthogonal-rate 0.5", 0.5),
    "orthogonal_optimizer": ("copy --model scornn", "--orthogonal-optimizer adam", "adam"),
    "rho": ("copy --model scornn", "--rho 22", 22),
    "delta": ("copy --model nnrnn", "--delta 0.5", 0.5),
    "triangle_decay": ("copy --model nnrnn", "--triangle-decay 0.5", 0.5),
    "unitary_rate": ("copy --model rgd", "--unitary-rate 0.5", 0.5),
    "scaled": ("copy --model rgd", "--scaled", True),
    "growth": ("copy --model indrnn", "--growth 3", 3.0),
    "remembers": ("adding --model indrnn", "--no-remembers", False),
    "layer_norm": ("copy --model indrnn", "--layer-norm batch", "batch"),
    "layer_dropout": ("copy --model lru", "--layer-dropout 0.5", 0.5),
    "input_std": ("copy --model indrnn", "--input-std 0.5", 0.5),
    "blocks": ("copy --model mingru", "--no-blocks", False),
    "radii": ("copy --model lru", "--radii 0.5,0.75", [0.5, 0.75]),
    "largest_angle": ("copy --model lru", "--largest-angle 0.5", 0.5),
    "eigenvalue_rate": ("copy --model lru", "--eigenvalue-rate 0.25", 0.25),
    "memory_size": ("copy --model nru", "--memory-size 64", 64),
    "heads": ("copy --model nru", "--heads 1", 1),
    "relu": ("copy --model nru", "--relu", True),
    "head_scale": ("copy --model nru", "--head-scale 0.5", 0.5),
}


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What `srnn train` hands over to be trained, one entry a run, in the place of the training."""
    given: list[dict[str, Any]] = []
    monkeypatch.setattr(lab, "train_run", lambda run, path, console, **how: given.append({"run": run, "path": path, **how}))
    return given


def train_options(*, completing: bool) -> dict[str, Any]:
    """The options of `srnn train`, by name, as a user meets them or as shell completion does."""
    command = TREE.commands["train"]
    context = command.context_class(command, resilient_parsing=completing)
    return {option.name: option for option in command.get_params(context)}


def test_every_setting_has_an_option_and_is_tested_below() -> None:
    settings = {field.name for kind in KINDS for field in fields(kind)} - {"task", "network", "recipe"}
    others = {option.name for option in TREE.commands["train"].params} | {"help"}
    assert set(train_options(completing=False)) - others == settings == set(TYPED) | {"init_from"}  # test_fit.py tests it


def test_completion_knows_the_same_options_as_the_command() -> None:
    assert set(train_options(completing=True)) == set(train_options(completing=False))


def test_only_the_settings_of_baselines_are_hidden_from_help() -> None:
    shown = {name for name, option in train_options(completing=False).items() if not getattr(option, "hidden", False)}
    own = {field.name for field in fields(SRNNNetwork)}
    hidden = set(TYPED) - shown
    assert hidden == {field.name for kind in NETWORKS.values() for field in fields(kind)} - own


def test_every_setting_says_in_one_sentence_what_it_does() -> None:
    for kind in KINDS:
        for rule in rules(kind).values():
            if rule.name not in ("task", "network"):
                assert rule.help.endswith("."), (kind, rule.name)
                assert ";" not in rule.help
                assert ". " not in rule.help


@pytest.mark.parametrize("name", TYPED)
def test_an_option_sets_its_setting_and_changes_nothing_else(name: str, run: Run, started: list[dict[str, Any]]) -> None:
    task, words, value = TYPED[name]
    for typed in ("", words):
        assert run("train", *task.split(), *typed.split()) == (0, "", "")
    without, with_it = (flat(each["run"].as_dict()) for each in started)
    assert without[name] != with_it[name] == value
    assert {each for each in without if without[each] != with_it[each]} == {name}


def flat(plain: dict[str, Any]) -> dict[str, Any]:
    """The settings of a run, of its task and of its network, all by their names."""
    return {**plain.pop("task"), **plain.pop("network"), **plain}


@pytest.mark.parametrize(
    ("words", "name", "value"), [("--gate", "gate", True), ("--clip 0", "clip", None), ("--readout none", "readout", [])]
)
def test_an_option_takes_the_default_value_too(
    words: str, name: str, value: Any, run: Run, started: list[dict[str, Any]]
) -> None:
    assert run("train", "copy", *words.split())[0] == 0
    assert flat(started[0]["run"].as_dict())[name] == value


def test_files_go_to_the_folders_that_the_options_name(
    run: Run, elsewhere: Path, started: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SRNN_DATA", "before")
    monkeypatch.setattr(data, "_given", ())  # restored after the test
    places = ("--out", "there", "--results", "kept", "--checkpoint-every", "7", "--tensorboard", "--quiet", "--data", ".")
    assert run(*SHORT, *places)[0] == 0
    assert data.folders()[:2] == [Path("."), Path("before")]
    assert run(*SHORT)[0] == 0
    assert data.folders()[0] == Path("before")
    first, second = started
    assert first["run"] == second["run"]
    how = {"into": Path("kept"), "checkpoint_every": 7.0, "tensorboard": True, "quiet": True}
    assert first == {"run": first["run"], "path": Path("there"), **how}
    how = {"into": Path("runs/records"), "checkpoint_every": 30.0, "tensorboard": False, "quiet": False}
    assert second == {"run": first["run"], "path": Path("runs") / first["run"].id, **how}


@pytest.mark.parametrize(
    ("arguments", "plan", "names", "how"),
    [
        ("copy", Plan("cpu"), ["copy"], {}),
        ("copy adding --quick --estimate", Plan("quick"), ["copy", "adding"], {"estimate_only": True}),
        ("all --profile full --all-networks", Plan("full", all_networks=True), ["all"], {}),
        (
            "copy --only gru --only srnn --line longer --line=-tuned --at 1000 --jobs 3 --ray",
            Plan(),
            ["copy"],
            {"only": Selection(["gru", "srnn"], ["longer", "-tuned"], ["1000"]), "jobs": 3, "ray": "local"},
        ),
        ("copy --ray 1.2.3.4:6379", Plan(), ["copy"], {"ray": "1.2.3.4:6379"}),
    ],
)
@pytest.mark.parametrize(("failed", "code"), [([], 0), (["x"], 1)])
def test_reproduce_runs_what_is_named_and_ends_with_1_if_something_fails(
    failed: list[str],
    code: int,
    arguments: str,
    plan: Plan,
    names: list[str],
    how: dict[str, Any],
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: dict[str, Any] = {}

    def made(names: list[str], plan: Plan, console: Console, **how: Any) -> list[str]:
        seen.update(how, names=names, plan=plan)
        return failed

    monkeypatch.setattr(reproduce, "reproduce", made)
    assert run("reproduce", *arguments.split()) == (code, "", "")
    usual = {"jobs": 2, "ray": None, "only": Selection(), "estimate_only": False}
    assert seen == usual | how | {"names": names, "plan": plan}


def test_reproduce_lists_the_exhibits_and_runs_nothing(run: Run, elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reproduce, "reproduce", lambda *about, **more: pytest.fail("something was run"))
    code, out, err = run("reproduce", "--list")
    assert (code, err) == (0, "")
    rows = {words[0]: words for line in out.splitlines() if (words := line.split()) and words[0] in EXHIBITS}
    assert rows.keys() == EXHIBITS.keys()
    assert rows["permutation"][-3:] == ["9", "0", "unknown"]  # nine runs, none of them recorded
    assert out != run("reproduce", "--list", "--all-networks")[1]
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize(("failed", "code"), [([], 0), (["x"], 1)])
def test_sweep_ends_with_1_when_a_run_fails(failed: list[str], code: int, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}
    monkeypatch.setattr(sweep, "sweep", lambda runs, console, **how: seen.update(how, runs=runs) or failed)
    arguments = "sweep copy --grid seed=1,2 --set length=5 --set steps=3 --model gru --results kept"
    assert run(*arguments.split()) == (code, "", "")
    expected = [make_run("copy", "gru", length=5, steps=3, seed=seed) for seed in (1, 2)]
    assert seen == {"runs": {each.id: each for each in expected}, "jobs": 2, "ray": None, "into": Path("kept")}


@pytest.mark.parametrize(
    ("arguments", "results", "profile"),
    [
        ("", "results", "cpu"),
        ("--results kept --profile full", "kept", "full"),
        ("--quick", "runs/rehearsal/records", "quick"),
        ("--profile quick", "runs/rehearsal/records", "quick"),
    ],
)
def test_report_is_made_of_the_records_that_are_named(
    arguments: str, results: str, profile: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, Any] = {}

    def make(folder: Path, out: Path, console: Console, **how: Any) -> Path:
        seen.update(how, folder=folder, out=out)
        return out / "index.html"

    monkeypatch.setattr(report, "make", make)
    assert run("report", "--out", "page", *arguments.split()) == (0, "report: page/index.html\n", "")
    rehearsed = profile == "quick"
    assert seen.pop("lead").startswith("A rehearsal at toy sizes") is rehearsed
    plan = Plan(profile, all_networks=True)
    assert seen == {"folder": Path(results), "out": Path("page"), "plan": plan, "is_experiment": not rehearsed}


def test_eval_knows_the_splits(run: Run, elsewhere: Path) -> None:
    run(*SHORT, "--out", "run")
    code, _, err = run("eval", "run", "--split", "test")
    assert (code, err) == (2, "srnn: copy has no splits. Leave out --split\n")
    code, _, err = run("runs", "run")
    assert (code, err) == (2, "srnn: run is itself a run folder. Give the folder that holds it\n")


def test_text_from_files_cannot_change_the_terminal(run: Run, elsewhere: Path) -> None:
    run(*SHORT, "--out", "runs/[red]\x1b]0;title\x07[bold]")
    code, out, _ = run("runs")
    assert code == 0
    assert "\x1b" not in out
    assert "[red]\\x1b]0;title\\x07[bold]" in "".join(out.split())
    code, _, err = run("runs", "\x1b[2J\nabsent")
    assert (code, err.count("\n"), "\x1b" in err) == (2, 1, False)


@pytest.mark.parametrize("arguments", [[*SHORT, "--out", ""], ["train", "--resume", ""], ["eval", ""], ["report", "--out="]])
def test_an_empty_path_is_an_error(arguments: list[str], run: Run, elsewhere: Path) -> None:
    code, _, err = run(*arguments)
    before = next(word for word in reversed(arguments) if word).removesuffix("=")
    assert (code, err) == (2, f"srnn: the value after {before} must not be empty\n")
    assert list(elsewhere.iterdir()) == []


NOTED = """
from dataclasses import dataclass
from srnn.lab.settings import setting
from srnn.lab.tasks.copy import Copy

@dataclass(frozen=True)
class Noted(Copy):
    name = "noted"
    note: str = setting("", "A note.")
"""


@pytest.mark.parametrize("note", ["[/b]", "[red]x", "\x1b[2J\x07", "\udcff"])
def test_text_from_records_is_shown_as_it_is(note: str, run: Run, elsewhere: Path) -> None:
    (elsewhere / "noted.py").write_text(NOTED)
    settings = ["--set", f"note={note}", *SHORT[2:]]
    code, _, err = run("train", "noted.py", *settings, "--out", "runs/noted")
    assert code == 0, err
    for folder in ("runs", "runs/records"):
        code, out, err = run("runs", folder)
        assert (code, err) == (0, "")
        assert f"note{repr(note)[1:-1]}" in "".join(out.split())


def test_a_finished_run_is_shown_when_its_file_of_records_is_read_only(
    run: Run, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(*SHORT, "--out", "run")
    path = elsewhere / "runs" / "records" / "copy.jsonl"
    before = path.read_bytes()

    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    code, out, err = run(*SHORT, "--out", "run")
    assert (code, err) == (0, "")
    assert "already finished" in out
    code, _, err = run(*SHORT, "--out", "run", "--results", "other")
    assert (code, err) == (1, "srnn: other/copy.jsonl cannot be written: Read-only file system. Give another --results\n")
    assert path.read_bytes() == before


def test_compact_drops_records_that_a_later_one_replaces(run: Run, elsewhere: Path) -> None:
    run(*SHORT, "--out", "run")
    path = elsewhere / "runs" / "records" / "copy.jsonl"
    line = path.read_text()
    path.write_text(line + "not a record\n" + line)
    code, out, _ = run("runs", "runs/records", "--compact")
    assert code == 0
    assert out.startswith("runs/records/copy.jsonl: 1 older records dropped\n")
    assert sorted(path.read_text().splitlines(keepends=True)) == sorted([line, "not a record\n"])


def test_a_damaged_run_does_not_hide_the_others(run: Run, elsewhere: Path) -> None:
    run(*SHORT, "--out", "runs/good")
    run(*SHORT, "--out", "runs/bad", "--seed", "2")
    (elsewhere / "runs" / "bad" / "record.json").write_text("{}")
    code, out, _ = run("runs", "--json")
    assert code == 0
    bad, good = json.loads(out)
    assert bad["state"].startswith("unreadable: ")
    assert good["state"] == "finished"


def test_quiet_prints_nothing(run: Run, elsewhere: Path) -> None:
    assert run(*SHORT, "--quiet") == (0, "", "")
    assert (elsewhere / "runs" / "records" / "copy.jsonl").exists()


# What is not there, or does not fit into memory, is a failure; every other bad input is a wrong value.
FAILURES = ("train pmnist", "train copy --hidden-size 100000000000")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("train copi", "no task is called 'copi'. Choose one of adding, bigpmnist, copy, pmnist, randomlabels, speech"),
        ("train copy --model srn", "no network is called 'srn'. Choose one of eurnn, exprnn, gru, indrnn, lru, lstm,"),
        ("train copy --recipe best", "no recipe is called 'best'. Choose one of paper, original, tuned"),
        ("train copy --recipe ours", "there is no recipe tuned for copy with srnn, only for adding with srnn, "),
        ("train copy --crop 8", "neither copy nor srnn has a setting 'crop'. It belongs to randomlabels"),
        ("train copy --model gru --mlp 8", "neither copy nor gru has a setting 'mlp'. It belongs to srnn"),
        ("train copy --mlp 8,x", "mlp must be numbers such as 32,32, or none, got '8,x'"),
        ("train copy --set length", "--set takes NAME=VALUE with the name of a setting, got 'length'"),
        ("train copy --epochs 3", "copy has no epochs because its data never repeat: give --steps or --minutes"),
        ("train copy --length 0", "copy: length must be a whole number of at least 1, got 0"),
        ("train copy --lr -1", "lr must be a number above 0, got -1.0"),
        ("train copy --data nowhere", "--data nowhere: there is no such folder"),
        ("train nothing.py", "nothing.py cannot be read: No such file or directory"),
        ("train pmnist", "download it with: srnn data mnist"),
        ("train --resume nowhere", "nowhere is not a run folder: it has no run.json"),
        ("train copy --resume nowhere", "a resumed run keeps its settings"),
        ("train copy --steps 5 --resume nowhere --model gru", "--model cannot be combined with --resume"),
        ("train copy --set recipe=ours", "--set takes NAME=VALUE with the name of a setting, got 'recipe=ours'"),
        ("train copy --set a={[]:1}", "has a setting 'a'"),
        ("train copy --eval-every 0", "eval_every must be a whole number of at least 1 or None, got 0"),
        ("train copy --mlp 0", "srnn: mlp must be a tuple of whole numbers of at least 1, got (0,)"),
        ("train copy --seed -1", "seed must be a whole number from 0 to below 2**63, got -1"),
        ("train copy --lr inf", "lr must be a finite number, got inf"),
        ("train copy --threads 99999999999", "threads must be a whole number from 1 to 1024, got 99999999999"),
        ("train copy --hidden-size 100000000000", "there is not enough memory for these sizes"),
        ("train copy --hidden-size 10000000000000000000000", "hidden_size must be below 2**53"),
        ("train copy --length 10000000000000000000000", "length must be below 2**53"),
        ("train copy --mlp 8,10000000000000000000000", "mlp must be below 2**53"),
        ("train copy --batch-size 10000000000000000000000", "batch_size must be below 2**53"),
        ("info srnn --hidden-size 10000000000000000000000", "hidden_size must be below 2**53"),
        ("train copy --lr 1e308", "lr must be a finite number, got 1e+308"),
        ("train copy --device hpu", "device 'hpu' is not available here"),
        ("train copy --device mps", "device 'mps' is not available here"),
        ("train copy --set length=True", "copy: length must be a whole number of at least 1, got True"),
        ("train copy --set lr=True", "lr must be a number above 0, got True"),
        ("train copy --length 5 --set length=7", "length is given twice. Give it once"),
        ("train copy --mlp ((8", "mlp must be numbers such as 32,32, or none, got '((8'"),
        ("train copy --trust nope.py", "--trust nope.py: there is no such file"),
        ("train copy --checkpoint-every nan", "--checkpoint-every must be a number of seconds, got nan"),
        ("train copy --checkpoint-every -1", "--checkpoint-every must be a number of seconds, got -1"),
        (
            "train --resume nowhere --lr 1",
            "with --resume give only --steps, --epochs, --minutes, --cpu-minutes, --patience, got --lr",
        ),
        ("train copy --device meta", "device 'meta' is not available here: it computes nothing"),
        ("train copy --out [/b]x --activation tan[/h]", "activation must be one of relu, tanh, clip, got 'tan[/h]'"),
        ("train copy --model nnrnn --hidden-size 7", "nnrnn: hidden_size must be even, got 7"),
        (
            "train copy --model eurnn --set style=fft --hidden-size 12",
            "eurnn: hidden_size must be a power of two for style fft",
        ),
        ("train copy --model urnn --set factored=3", "urnn: factored must be True or False, got 3"),
        ("info srn", "no network is called 'srn'. Choose one of eurnn,"),
        ("info gru --task coppy", "no task is called 'coppy'. Choose one of adding,"),
        ("reproduce coppy", "no exhibit is called 'coppy'. Choose one of all, copy"),
        ("reproduce copy --profile gpu", "no profile is called 'gpu'. Choose one of cpu, full, quick"),
        ("runs nowhere", "there is no folder nowhere. Start a run with: srnn train copy"),
        ("eval nowhere", "nowhere is not a run folder: it has no run.json"),
        ("train copy --out=", "the value after --out must not be empty"),
        ("data nothing", "no data set is called 'nothing'. Choose one of mnist, speech, timit, timit-sample"),
    ],
)
def test_bad_input_is_one_line_that_says_what_to_do(arguments: str, message: str, run: Run, elsewhere: Path) -> None:
    code, _, err = run(*arguments.split())
    assert code == (1 if arguments in FAILURES else 2)
    assert err.startswith("srnn: ")
    assert message.lower() in err.lower()
    assert err.count("\n") == 1
    assert not (elsewhere / "runs" / "records").exists() or not list((elsewhere / "runs" / "records").glob("*.jsonl"))


def test_a_run_that_diverges_is_an_error(run: Run, elsewhere: Path) -> None:
    code, out, err = run(*SHORT, "--optimizer", "sgd", "--lr", "1e30", "--quiet")
    assert (code, out) == (1, "")
    assert err.startswith("srnn: diverged after update ")
    assert err.endswith("Record: runs/records/copy.jsonl\n")
    assert store.read_all(elsewhere / "runs" / "records" / "copy.jsonl")[0]["status"] == "diverged"


def test_a_folder_in_place_of_a_file_is_reported_before_anything_runs(run: Run, elsewhere: Path) -> None:
    (elsewhere / "runs" / "records" / "copy.jsonl").mkdir(parents=True)
    code, _, err = run(*SHORT)
    assert (code, err) == (1, "srnn: runs/records/copy.jsonl cannot be written: Is a directory. Give another --results\n")
    assert not list((elsewhere / "runs").glob("copy-*"))


def test_data_lists_what_is_missing_and_how_to_get_it(run: Run, elsewhere: Path) -> None:
    code, out, _ = run("data")
    assert code == 0
    assert all(word in out for word in ("mnist", "timit", "missing", "srnn data"))


def test_demo_runs_all_three_or_says_what_is_left_out(run: Run, elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any) -> None:
        raise DataError("mnist is not here")

    monkeypatch.setattr(data, "fetch", refuse)
    code, out, err = run("demo", "--minutes", "0.0001")
    assert (code, err) == (0, "")
    assert "Permuted MNIST is left out: mnist is not here" in out
    table = out[out.index("Results\n") :]
    assert all(word in table for word in ("copy", "adding", "the paper"))
    assert "pmnist" not in table
    assert len(list((elsewhere / "runs" / "demo").glob("*/record.json"))) == 2
    page = elsewhere / "runs" / "demo" / "report" / "index.html"
    assert f"report: {page.relative_to(elsewhere)}" in out
    text = page.read_text(encoding="utf-8")
    assert all(f'id="{exhibit}"' in text for exhibit in ("copy", "adding"))
    assert 'id="psmnist"' not in text


def test_demo_starts_from_scratch_when_all_is_finished_and_keeps_files_of_others(
    run: Run, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small: dict[str, Any] = {"length": 5, "hidden_size": 8, "batch_size": 2, "steps": 2}
    monkeypatch.setattr(demo, "runs", lambda minutes, seed: [make_run(task, "srnn", **small) for task in ("copy", "adding")])
    monkeypatch.setattr(report, "make", lambda *about, **how: Path("page"))
    folder = elsewhere / "runs" / "demo"

    def marked() -> list[bool]:
        """Whether a record is still that which was there before."""
        return ["mark" in store.read(path) for path in found]

    assert run("demo")[0] == 0
    found = sorted(folder.glob("*/record.json"))
    mine = [folder / "notes.txt", *(path.with_name("notes.txt") for path in found)]
    for path in mine:
        path.write_text("mine")
    for path in found:
        store.write(path, store.read(path) | {"mark": True})
    found[0].rename(elsewhere / "away")
    assert run("demo")[0] == 0
    assert marked() == [False, True]  # what was not finished alone
    store.write(found[0], store.read(found[0]) | {"mark": True})
    assert run("demo")[0] == 0
    assert marked() == [False, False]
    assert [path.read_text() for path in mine] == ["mine"] * 3


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_is_a_bar_on_a_terminal_and_lines_elsewhere(
    terminal: bool, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "EVERY", 0.0)
    console = Console(file=io.StringIO(), force_terminal=terminal, width=160)
    short = make_run("copy", "srnn", length=5, hidden_size=8, steps=20)
    lab.train_run(short, elsewhere / "run", console, into=elsewhere)
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert ("20/20 at" in shown) is terminal
    assert ("update 20/20  loss" in shown) is not terminal
    assert "chance level 0.8318" in shown


def test_tensorboard_gets_the_curve(run: Run, elsewhere: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    assert run(*SHORT, "--tensorboard", "--eval-every", "5", "--out", "run")[0] == 0
    events = EventAccumulator(str(elsewhere / "run" / "tensorboard"))
    events.Reload()
    curve = store.read(elsewhere / "run" / "record.json")["curve"]
    assert [event.step for event in events.Scalars("train/loss")] == curve["step"] == [5, 10, 15, 20]
    assert [event.value for event in events.Scalars("train/loss")] == pytest.approx(curve["loss"], rel=1e-5)


def test_tensorboard_that_is_not_installed_is_named(run: Run, elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    code, _, err = run(*SHORT, "--tensorboard")
    assert (code, err) == (2, "srnn: --tensorboard needs the package tensorboard: pip install 'srnn[tensorboard]'\n")


def test_sparkline_falls_with_the_loss_and_knows_ascii() -> None:
    losses = [0.1**i for i in range(4) for _ in range(10)]
    assert demo.sparkline(losses, ascii_only=False, columns=4) == "█▆▃▁"
    assert demo.sparkline(losses, ascii_only=True, columns=4) == "#+-_"
    assert demo.sparkline([0.5], ascii_only=True) == "_"


@pytest.mark.parametrize("package", ["typer", "rich"])
def test_command_line_without_the_laboratory_says_what_to_install(package: str) -> None:
    done = python(f"import sys; sys.modules[{package!r}] = None; from srnn.lab.cli import main; main()", "doctor")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"srnn: the command line needs {package}")
    assert done.stderr.endswith("pip install 'srnn[lab]'\n")
    assert done.stderr.count("\n") == 1


def test_import_of_the_library_loads_neither_torch_nor_the_laboratory() -> None:
    heavy = {"torch", "numpy", "srnn.lab", "jinja2", "matplotlib", "platformdirs", "rich", "safetensors", "scipy", "typer"}
    done = python(f"import sys, srnn; print({heavy!r} & set(sys.modules))")
    assert (done.returncode, done.stdout, done.stderr) == (0, "set()\n", "")
    laboratory = heavy - {"torch", "numpy"}
    done = python(f"import sys; from srnn import *; print(type(SRNN(2, 3)).__name__, {laboratory!r} & set(sys.modules))")
    assert (done.returncode, done.stdout, done.stderr) == (0, "SRNN set()\n", "")


@pytest.mark.parametrize("imports", ["import torch, srnn", "import srnn.kernels, torch", "from srnn import SRNN; import torch"])
def test_operators_are_registered_by_the_import(imports: str) -> None:
    assert python(f"{imports}; print(torch.ops.srnn.shuffle_scan.default.name())").stdout == "srnn::shuffle_scan\n"


def test_public_names_of_the_library_are_listed_and_modules_can_be_reached() -> None:
    program = "import srnn; print(set(srnn.__all__) <= set(dir(srnn)), srnn.kernels.BACKENDS[0], callable(srnn.diagnose))"
    assert python(program).stdout == "True auto True\n"
    assert "module 'srnn' has no attribute 'nonsense'" in python("import srnn; srnn.nonsense").stderr


def test_a_public_function_is_not_hidden_by_the_module_that_defines_it() -> None:
    assert python("import srnn.diagnosis, srnn.stack; from srnn import diagnose; print(callable(diagnose))").stdout == "True\n"


def test_a_layer_can_be_pickled_and_loaded_in_a_process_that_has_imported_nothing(tmp_path: Path) -> None:
    path = tmp_path / "layer.pt"
    torch.save(srnn.SRNN(2, 3), path)
    done = python("import sys, torch; print(type(torch.load(sys.argv[1], weights_only=False)).__name__)", str(path))
    assert (done.returncode, done.stdout) == (0, "SRNN\n"), done.stderr


# A command line as the shell sends it for completion, and a word that must be among the answers.
COMPLETED = {
    "srnn tr": "train",
    "srnn train c": "copy",
    "srnn train copy --model sr": "srnnstack",
    "srnn train copy --recipe o": "original",
    "srnn train copy --hidden": "--hidden-size",
    "srnn train copy --rebase": "--rebase-every",
    "srnn sweep big": "bigpmnist",
    "srnn info eu": "eurnn",
    "srnn reproduce grad": "gradients",
    "srnn data timit-": "timit-sample",
    "srnn eval --sp": "--split",
    "srnn bench --ne": "--networks",
    "srnn runs --js": "--json",
    "srnn report --pro": "--profile",
    "srnn demo --min": "--minutes",
    "srnn doctor --j": "--json",
}
WITHOUT_TORCH = "import sys; sys.modules['torch'] = None; from srnn.lab.cli import main; main()"


def without_torch(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WITHOUT_TORCH, *arguments]
    return subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("line", COMPLETED)
def test_completion_knows_commands_options_and_names_without_torch(line: str) -> None:
    words = {"_SRNN_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(line.split()) - 1)}
    done = without_torch(**words)
    assert (done.returncode, done.stderr) == (0, "")
    assert COMPLETED[line] in done.stdout.split()


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["eval", "--help"], ["bench", "--help"], ["info", "--help"]])
def test_help_and_version_need_no_torch(arguments: list[str]) -> None:
    done = without_torch(*arguments)
    assert (done.returncode, done.stderr) == (0, "")
    assert "srnn" in done.stdout


def test_completion_can_be_installed_and_shown() -> None:
    listed = without_torch("--help").stdout
    assert "--install-completion" in listed
    assert "--show-completion" in listed
    assert "_SRNN_COMPLETE=complete_bash" in without_torch(_SRNN_COMPLETE="source_bash").stdout


def test_names_for_completion_are_those_that_exist() -> None:
    assert cli_options.task_names() == sorted(TASKS)
    assert cli_options.network_names() == sorted(NETWORKS)
    assert cli_options.exhibit_names() == ["all", *sorted(EXHIBITS)]
    assert cli_options.data_set_names() == sorted(data.CATALOGUE)
    assert cli_options.recipe_names() == list(SHOWN.values())


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        ("train copi", "copy"),
        ("train copy --model srn", "srnn"),
        ("train copy --optimizer adm", "adam"),
        ("train copy --recipe tunned", "tuned"),
        ("train copy --activation rely", "relu"),
        ("reproduce gradient", "gradients"),
        ("bench --only lstn", None),
        ("bench --only scan-state", None),
    ],
)
def test_an_error_about_a_typo_suggests_the_closest_name(arguments: str, meant: str | None, run: Run, elsewhere: Path) -> None:
    code, _, err = run(*arguments.split())
    assert code == 2
    assert ("Did you mean" in err) is (meant is not None)
    assert meant is None or err.endswith(f". Did you mean {meant!r}?\n")


@pytest.mark.parametrize(("typed", "stored"), [("original", "own"), ("tuned", "ours"), ("own", "own"), ("ours", "ours")])
def test_old_names_of_recipes_still_work(typed: str, stored: str, run: Run, started: list[dict[str, Any]]) -> None:
    assert run("train", "adding", "--recipe", typed) == (0, "", "")
    assert started[0]["run"].recipe == stored
    assert started[0]["run"] == make_run("adding", "srnn", stored, threads=started[0]["run"].threads)


# A command, how its table starts, and a word that must not be cut.
TABLES = {
    "doctor": ("backend what", "specification"),
    "info": ("network parameters", "srnnstack"),
    "runs": ("folder settings", "hidden_size"),
    "data": ("data set", "speechocean762"),
    "reproduce --list": ("exhibit paper", "randomlabels"),
}


@pytest.mark.parametrize("command", TABLES)
@pytest.mark.parametrize("columns", [40, 80])
def test_tables_fit_the_terminal_and_cut_no_word(
    command: str, columns: int, run: Run, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(*SHORT, "--out", "runs/one")
    monkeypatch.setenv("COLUMNS", str(columns))
    code, out, _ = run(*command.split())
    assert code == 0
    heading, word = TABLES[command]
    never_wrapped = (" is missing: ", " is not available: ", "Looked in")
    lines = [line.rstrip() for line in out.splitlines() if not any(part in line for part in never_wrapped)]
    assert any(" ".join(line.split()).startswith(heading) for line in lines) is (columns == 80)
    assert all(len(line) <= columns for line in lines)
    assert word in out


@pytest.mark.parametrize("option", [[], ["--json"]])
def test_closed_pipe_leaves_no_traceback(option: list[str]) -> None:
    command = [sys.executable, "-m", "srnn", "doctor", *option]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 1


def test_interrupt_leaves_no_traceback(tmp_path: Path) -> None:
    # A shell's background job ignores the signal, and its children with it: so it is set here.
    program = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from srnn.lab.cli import main; main()"
    command = [sys.executable, "-c", program, "train", "copy"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith("copy (length 200) with srnn")
        process.send_signal(signal.SIGINT)
        assert "Traceback" not in process.stderr.read()
    assert process.returncode == 130


def test_info_counts_every_network_stored_and_free(run: Run) -> None:
    code, out, _ = run("info")
    assert code == 0
    rows = {line.split()[0]: line.split()[1:] for line in out.splitlines() if line[:1].isalpha() and len(line.split()) > 3}
    assert rows["rgd"] == ["33,921", "17,537", "33,664"]
    assert rows["nnrnn"] == ["16,833", "16,833", "16,704", "49,857"]
    assert rows["urnn"][-1] == "2,305"
    assert {"lru", "mingru", "srnn"} <= rows.keys()
    assert "left out: nnrnn: hidden_size must be even, got 7" in run("info", "--hidden-size", "7")[1]
    assert (
        json.loads(run("info", "urnn", "--task", "copy", "--json")[1])["counts"][0]["parameters"] == 6_410
    )  # without embedding
    found = json.loads(run("info", "--json")[1])["counts"]
    assert {row["network"] for row in found} == set(NETWORKS)
    by_variant = {(row["network"], row["variant"]): row for row in found}
    assert (
        by_variant["srnn", "f_r 32, as in Table 4"]["parameters"] == by_variant["srnn", "f_r 32, as in Table 4"]["authors"] - 1
    )
    assert by_variant["mingru", "one bare layer"]["parameters"] == 897
    assert by_variant["lru", "one bare layer"]["parameters"] == 1_413


def test_info_of_one_network_says_what_it_is_and_what_can_be_set(run: Run) -> None:
    code, out, _ = run("info", "eurnn", "--task", "copy", "--hidden-size", "16")
    assert code == 0
    for word in (
        "Jing et al. 2017",
        "h_t = modReLU(x_t V + h_{t-1} W; b)",
        "style        'tunable'",
        "capacity     2 ",
        "recipe original, copy:",
    ):
        assert word in out
    found = json.loads(run("info", str(Path(__file__).parents[1] / "examples" / "ewma.py"), "--json")[1])
    assert found["counts"][0]["network"] == "ewma"
    assert found["settings"]["slowest"] == 1000.0
    assert found["counts"][0]["authors"] is None


def test_settings_without_an_option_go_through_set(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    small = ("--length", "5", "--hidden-size", "8", "--batch-size", "2", "--steps", "2", "--out", "run", "--quiet")
    given = ("--set", "style=fft", "--set", "alpha=0.5", "--set", "embed=False", "--set", "factored=True")
    assert run("train", "copy", "--model", "eurnn", *small, *given)[0] == 0
    written = store.read(tmp_path / "run" / "run.json")["run"]
    assert (written["network"]["style"], written["network"]["factored"]) == ("fft", True)
    assert (written["alpha"], written["embed"]) == (0.5, False)
