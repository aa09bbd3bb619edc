"""The commands as a user meets them: what they print, their exit codes, and what goes wrong in one line."""

import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

import srnn
from srnn import cli, demo, doctor, kernels
from srnn.kernels import native

Run = Any  # (*arguments) -> (exit code, stdout, stderr)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.setattr(kernels, "DEFAULT", "auto")
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


def test_help_names_every_command_and_shows_how_to_begin(run: Run) -> None:
    code, out, _ = run("--help")
    assert code == 0
    assert all(word in out for word in ("doctor", "bench", "demo", "srnn bench --quick", "SRNN_BACKEND"))


@pytest.mark.parametrize("command", ["doctor", "bench", "demo"])
def test_help_of_a_command_has_an_example(run: Run, command: str) -> None:
    code, out, _ = run(command, "--help")
    assert code == 0
    assert f"\n srnn {command}" in out


@pytest.mark.parametrize(
    ("arguments", "word"),
    [("nonsense", "nonsense"), ("--nonsense", "--nonsense"), ("demo --steps many", "--steps"), ("demo --length 1", "--length")],
)
def test_wrong_usage_ends_with_2(run: Run, arguments: str, word: str) -> None:
    code, out, err = run(*arguments.split())
    assert (code, out) == (2, "")
    assert word in err


def test_error_of_ours_is_one_line_and_ends_with_1(run: Run) -> None:
    code, _, err = run("bench", "--only", "nonsense")
    assert code == 1
    assert err.startswith("srnn: no benchmark is called 'nonsense'; there are ")
    assert err.count("\n") == 1


def test_unknown_backend_in_the_environment_is_answered_with_the_list() -> None:
    command = [sys.executable, "-m", "srnn", "demo", "--steps", "1"]
    environment = os.environ | {"SRNN_BACKEND": "nonsense"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "called 'nonsense'; there are auto, native, reference, torch" in done.stderr
    assert done.stderr.count("\n") == 1


def test_doctor_shows_versions_and_backends(run: Run) -> None:
    code, out, _ = run("doctor")
    assert code == 0
    assert all(
        word in out for word in (torch.__version__, srnn.__version__, "reference", "torch", "native", "equal (", "auto runs")
    )


def test_doctor_speaks_json(run: Run) -> None:
    code, out, _ = run("doctor", "--json")
    found = json.loads(out)
    assert code == 0
    assert found["healthy"] is True
    assert found["threads"] == torch.get_num_threads()
    assert found["auto"] == ("torch" if native.load_error() else "native")
    assert found["backends"]["torch"]["difference"] < doctor.TOLERANCE


def test_doctor_says_why_native_is_missing_and_what_runs_instead(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "NATIVE_ERROR", "no C++ compiler was found; install one")
    code, out, _ = run("doctor")
    assert code == 0
    assert "native is not available: no C++ compiler was found; install one" in out
    assert "auto runs torch." in out


def test_doctor_obeys_and_shows_the_environment(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "DEFAULT", "reference")
    assert "auto runs reference (SRNN_BACKEND=reference)." in run("doctor")[1]


@pytest.mark.parametrize(("wish", "answer"), [("nonsense", "names no backend; there are auto,"), ("native", "not available")])
def test_doctor_fails_when_the_environment_asks_for_what_cannot_run(
    run: Run, monkeypatch: pytest.MonkeyPatch, wish: str, answer: str
) -> None:
    monkeypatch.setattr(kernels, "NATIVE_ERROR", "no compiler")
    monkeypatch.setattr(kernels, "DEFAULT", wish)
    code, out, _ = run("doctor")
    assert code == 1
    assert answer in out


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
@pytest.mark.parametrize("name", ["scan_states", "scan_final", "gated_scan"])
def test_doctor_notices_a_backend_that_differs(run: Run, monkeypatch: pytest.MonkeyPatch, name: str, kind: str) -> None:
    monkeypatch.setattr(doctor, name, lie(kind, getattr(doctor, name)))
    code, out, _ = run("doctor")
    assert code == 1
    assert out.count("NOT EQUAL") == 1


def test_doctor_reports_a_backend_that_cannot_run(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: Any, **options: Any) -> Any:
        raise RuntimeError("out of\norder")

    monkeypatch.setattr(doctor, "gated_scan", broken)
    code, out, _ = run("doctor")
    assert code == 1
    assert "fails: out of order" in out


def test_demo_learns_short_sums(run: Run) -> None:
    code, out, err = run("demo", "--length", "10")
    assert (code, err) == (0, "")
    assert "0.167: the guesser's line" in out
    assert "Learned in" in out


def test_demo_that_has_not_learned_says_so_and_ends_with_1(run: Run) -> None:
    code, out, err = run("demo", "--steps", "3", "--length", "10")
    assert code == 1
    assert "Learned in" not in out
    assert err.startswith("srnn: the network has not learned the sum: mean squared error ")
    assert err.count("\n") == 1


def test_demo_repeats_itself_with_the_same_seed(run: Run) -> None:
    first, again, other = (run("demo", "--steps", "5", "--length", "10", "--seed", seed)[2] for seed in "334")
    assert first == again != other


def test_demo_draws_a_bar_on_a_terminal() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=120)
    losses = demo._train(demo.Adder(), 4, 10, console)
    assert len(losses) == 4
    assert "4/4" in console.file.getvalue()  # type: ignore[attr-defined]


def test_adding_problem_has_a_mark_in_each_half_and_answers_their_sum() -> None:
    x, answer = demo.adding_batch(1000, 7)
    value, marker = x.unbind(dim=-1)
    assert ((value >= 0) & (value < 1)).all()
    assert torch.equal(marker[:, :3].sum(dim=1), torch.ones(1000))
    assert torch.equal(marker[:, 3:].sum(dim=1), torch.ones(1000))
    assert marker.any(dim=0).all()
    torch.testing.assert_close((value * (marker == 1)).sum(dim=1), answer)


def test_guesser_of_the_adding_problem_scores_its_line() -> None:
    _, answer = demo.adding_batch(100_000, 4)
    assert (answer - 1).square().mean().item() == pytest.approx(demo.GUESSER, rel=0.02)


def test_sparkline_falls_with_the_loss_and_knows_ascii() -> None:
    losses = [0.1**i for i in range(4) for _ in range(10)]
    assert demo._sparkline(losses, ascii_only=False, columns=4) == "1.000 █▆▃▁ 0.0010"
    assert demo._sparkline(losses, ascii_only=True, columns=4) == "1.000 #+-_ 0.0010"


def test_sparkline_of_a_single_update_is_one_bar() -> None:
    assert demo._sparkline([0.5], ascii_only=True) == "0.500 _ 0.5000"


@pytest.mark.parametrize("package", ["typer", "rich"])
def test_command_line_without_the_laboratory_says_what_to_install(package: str) -> None:
    done = python(f"import sys; sys.modules[{package!r}] = None; from srnn.cli import main; main()", "doctor")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"srnn: the command line needs {package}")
    assert done.stderr.endswith("pip install 'srnn[lab]'\n")
    assert done.stderr.count("\n") == 1


def test_import_of_the_library_loads_nothing_of_the_laboratory() -> None:
    laboratory = {"jinja2", "matplotlib", "platformdirs", "rich", "safetensors", "scipy", "soundfile", "typer"}
    done = python(f"import sys, srnn; print({laboratory!r} & set(sys.modules))")
    assert (done.returncode, done.stdout, done.stderr) == (0, "set()\n", "")


@pytest.mark.parametrize("option", [[], ["--json"]])
def test_closed_pipe_leaves_no_traceback(option: list[str]) -> None:
    command = [sys.executable, "-m", "srnn", "doctor", *option]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 1


def test_interrupt_leaves_no_traceback() -> None:
    # A shell's background job ignores the signal, and its children with it: so it is set here.
    program = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from srnn.cli import main; main()"
    command = [sys.executable, "-c", program, "demo", "--steps", "1000000", "--length", "1000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert "adding problem" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == ""
    assert process.returncode == 130
