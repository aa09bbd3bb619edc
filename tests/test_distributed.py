"""One run on several processes, started by torchrun: the curve of one process, and nothing is lost when a process ends."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import distributed as dist

from srnn.errors import SettingError, TeamError
from srnn.lab.networks import NETWORKS
from srnn.lab.records.folder import RunFolder
from srnn.lab.tasks.task import Batch
from srnn.lab.training import distributed
from srnn.lab.training.distributed import ALONE, TorchTeam
from srnn.lab.training.loop import Training, follow, train
from srnn.lab.training.recipes import make_run

SMALL = ["copy", "--length", "20", "--hidden-size", "16", "--threads", "1"]


def torchrun(folder: Path, *arguments: str, restarts: int = 0, processes: int = 2) -> subprocess.Popen[str]:
    """srnn train in several processes; a process group of its own, so that all of it can be ended."""
    options = ["--nproc-per-node", str(processes), "--max-restarts", str(restarts), "--rdzv-backend", "c10d"]
    command = [sys.executable, "-m", "torch.distributed.run", *options, "--rdzv-endpoint", "localhost:0", "-m", "srnn", "train"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    streams: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen([*command, *arguments], cwd=folder, env=environment, start_new_session=True, **streams)


def finished(process: subprocess.Popen[str], seconds: float = 120) -> str:
    try:
        out, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    return out


def losses(folder: Path) -> list[float]:
    return [loss for entry in RunFolder(folder).read_metrics() for loss in entry["losses"]]


def record(folder: Path) -> dict[str, Any]:
    return json.loads(RunFolder(folder).record.read_text())


def wait_for(path: Path, process: subprocess.Popen[str], seconds: float = 90) -> None:
    deadline = time.monotonic() + seconds
    while not path.exists() and time.monotonic() < deadline:
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.05)
    assert path.exists()


def workers(process: subprocess.Popen[str]) -> dict[int, int]:
    """Process ids by rank: torchrun begins its processes in this order."""
    found = subprocess.run(["pgrep", "-P", str(process.pid), "-f", "srnn train"], capture_output=True, text=True, check=True)
    return dict(enumerate(sorted(map(int, found.stdout.split()))))


@pytest.mark.slow
def test_two_processes_make_the_curve_of_one_and_others_resume_it(tmp_path: Path) -> None:
    """Also with an odd batch. The same command does not train it a second time, and three processes and one resume it."""
    settings = [*SMALL, "--batch-size", "7", "--out", "two"]
    run = make_run("copy", "srnn", length=20, hidden_size=16, threads=1, steps=100, batch_size=7)
    out = finished(torchrun(tmp_path, *settings, "--steps", "100"))
    assert out.count("run folder: two, 2 processes") == 1
    train(run, tmp_path / "one")
    one, two = losses(tmp_path / "one"), losses(tmp_path / "two")
    assert len(one) == len(two) == 100
    torch.testing.assert_close(torch.tensor(two), torch.tensor(one), rtol=1e-4, atol=0)
    assert record(tmp_path / "two")["processes"] == [2]
    assert record(tmp_path / "two")["examples"] == 100 * 7
    assert record(tmp_path / "one")["processes"] == [1]
    before = (tmp_path / "two" / "record.json").read_bytes()
    again = torchrun(tmp_path, *settings, "--steps", "100")
    finished(again)
    assert again.returncode == 0
    assert (tmp_path / "two" / "record.json").read_bytes() == before
    finished(torchrun(tmp_path, *settings, "--steps", "130", processes=3))
    for name in ("two", "one"):
        train(replace(run, steps=160), tmp_path / name)
    assert record(tmp_path / "two")["processes"] == [2, 3, 1]
    torch.testing.assert_close(
        torch.tensor(losses(tmp_path / "two")), torch.tensor(losses(tmp_path / "one")), rtol=1e-3, atol=0
    )


@pytest.mark.slow
@pytest.mark.skipif("SRNN_DATA" not in os.environ, reason="needs MNIST: $SRNN_DATA")
def test_two_processes_make_the_curve_of_one_on_digits(tmp_path: Path) -> None:
    """Sooner or later rounding switches a unit, and the curves part: after 45 updates or more than 100, as the CPU rounds."""
    given = ["pmnist", "--hidden-size", "64", "--steps", "100", "--eval-every", "50", "--threads", "1"]
    finished(torchrun(tmp_path, *given, "--batch-size", "100", "--out", "two"), 240)
    train(make_run("pmnist", "srnn", hidden_size=64, steps=100, eval_every=50, threads=1, batch_size=100), tmp_path / "one")
    one, two = losses(tmp_path / "one"), losses(tmp_path / "two")
    assert len(one) == len(two) == 100
    torch.testing.assert_close(torch.tensor(two[:20]), torch.tensor(one[:20]), rtol=1e-4, atol=0)
    torch.testing.assert_close(torch.tensor(two), torch.tensor(one), rtol=0.3, atol=0)  # and they stay near each other
    ours, theirs = record(tmp_path / "two")["result"], record(tmp_path / "one")["result"]
    assert ours["value"] == pytest.approx(theirs["value"], abs=0.1)  # all images were scored, by the one or the other


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 1])
def test_a_process_that_dies_ends_the_others_and_the_checkpoint_is_good(rank: int, tmp_path: Path) -> None:
    endless = [*SMALL, "--steps", "1000000", "--checkpoint-every", "0.2", "--out", "run"]
    process = torchrun(tmp_path, *endless)
    wait_for(tmp_path / "run" / "checkpoint.safetensors", process)
    victim = workers(process)[rank]
    os.kill(victim, signal.SIGKILL)
    start = time.monotonic()
    out = finished(process, 60)
    assert time.monotonic() - start < 30
    assert process.returncode != 0
    # The process that is left says so, once, unless torchrun ends it before it comes to that.
    printed = [line for line in out.splitlines() if line.startswith("srnn: ")]
    assert len(printed) <= 1
    assert all(
        "another process of this run has ended. Run the same command to resume from the last" in line for line in printed
    )
    assert f"exitcode  : -9 (pid: {victim})" in out
    assert "srnn/lab/training/loop.py" not in out  # no traceback of ours
    place = RunFolder(tmp_path / "run")
    at = len(losses(tmp_path / "run"))
    run = make_run("copy", "srnn", length=20, hidden_size=16, threads=1, steps=max(100, at + 100))
    assert train(run, place.path).updates == run.steps


@pytest.mark.slow
def test_a_killed_process_is_replaced_and_the_run_resumes(tmp_path: Path) -> None:
    process = torchrun(tmp_path, *SMALL, "--steps", "1500", "--checkpoint-every", "0.2", "--out", "run", restarts=2)
    wait_for(tmp_path / "run" / "checkpoint.safetensors", process)
    os.kill(workers(process)[1], signal.SIGKILL)
    out = finished(process)
    assert process.returncode == 0, out
    ended = record(tmp_path / "run")
    assert ended["updates"] == 1500
    assert ended["resumed"] == 1
    assert len(losses(tmp_path / "run")) == 1500


@pytest.mark.slow
def test_a_signal_to_one_stops_all_of_them_at_the_same_update(tmp_path: Path) -> None:
    process = torchrun(tmp_path, *SMALL, "--steps", "1000000", "--checkpoint-every", "0.2", "--out", "run")
    wait_for(tmp_path / "run" / "checkpoint.safetensors", process)
    os.kill(workers(process)[1], signal.SIGTERM)  # one of them alone is asked
    out = finished(process, 60)
    assert out.count("Run the same command to resume, or: srnn train --resume run") == 1, out
    assert "stopped by a signal to another process" in out


@pytest.mark.slow
def test_ctrl_c_stops_all_of_them(tmp_path: Path) -> None:
    process = torchrun(tmp_path, *SMALL, "--steps", "1000000", "--checkpoint-every", "0.2", "--out", "run")
    wait_for(tmp_path / "run" / "checkpoint.safetensors", process)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    out = finished(process, 60)
    # Which of the two, depends on which process torchrun signals first.
    assert out.count("srnn: stopped by Ctrl-C after update") + out.count("srnn: stopped by a signal to another process") == 1
    at = len(losses(tmp_path / "run"))
    run = make_run("copy", "srnn", length=20, hidden_size=16, threads=1, steps=at + 100)
    assert train(run, tmp_path / "run").updates == at + 100


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (["--out", "run"], "run holds a run with other settings"),
        (["--out", "new", "--results", "file/x"], "cannot be written: Not a directory. Give another --results"),
    ],
)
def test_an_error_is_printed_once(wrong: list[str], said: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    train(make_run("copy", "srnn", length=20, hidden_size=8, steps=2), tmp_path / "run")
    process = torchrun(tmp_path, *SMALL, "--steps", "5", *wrong)
    out = finished(process)
    assert process.returncode != 0
    printed = [line for line in out.splitlines() if line.startswith("srnn: ")]
    assert len(printed) == 1
    assert said in printed[0]
    assert "srnn/lab/training/loop.py" not in out  # no traceback of ours
    assert not (tmp_path / "new").exists()


@pytest.mark.slow
def test_the_same_command_is_the_same_run_on_one_process_and_on_two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    words = ["copy", "--length", "20", "--hidden-size", "16", "--steps", "3"]
    alone = subprocess.run([sys.executable, "-m", "srnn", "train", *words], cwd=tmp_path, capture_output=True, check=False)
    assert alone.returncode == 0, alone.stderr
    together = torchrun(tmp_path, *words)
    finished(together)
    assert together.returncode == 0
    folders = list((tmp_path / "runs").glob("copy-*"))
    assert len(folders) == 1
    assert record(folders[0])["processes"] == [1]  # it was finished, and is left


@pytest.fixture
def team(tmp_path: Path) -> Iterator[TorchTeam]:
    """A team of one, in this process."""
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield TorchTeam(torch.device("cpu"))
    dist.destroy_process_group()


def test_no_row_is_given_twice_and_none_is_left_out() -> None:
    batch = Batch(torch.arange(7)[:, None], torch.arange(7), torch.arange(7))
    for size in (1, 2, 3, 7):
        rows = []
        for rank in range(size):
            team = TorchTeam.__new__(TorchTeam)
            team.rank, team.size = rank, size
            part, is_real = team.part(batch)
            assert is_real
            assert part.lengths is not None
            assert torch.equal(part.target, part.lengths)
            rows += part.target.tolist()
        assert sorted(rows) == list(range(7))
    team.rank, team.size = 8, 9
    part, is_real = team.part(batch)
    assert (len(part.input), is_real) == (1, False)
    assert ALONE.part(batch) == (batch, True)


@pytest.mark.parametrize("network", sorted(NETWORKS))
def test_every_network_can_be_trained_by_a_team(network: str, team: TorchTeam, tmp_path: Path) -> None:
    run = make_run("adding", network, length=6, hidden_size=8, batch_size=4, steps=3)
    theirs, alone = (
        Training(run, RunFolder(tmp_path / name), 1e9, (), each) for name, each in (("team", team), ("one", ALONE))
    )
    theirs.wrapped = team.wrap(theirs.model)
    for _ in range(2):
        theirs.make_update()
        alone.make_update()
    for ours, others in zip(theirs.model.state_dict().values(), alone.model.state_dict().values(), strict=True):
        torch.testing.assert_close(ours, others)


def test_a_batch_norm_is_not_shared(team: TorchTeam, tmp_path: Path) -> None:
    run = make_run("adding", "indrnn", length=6, hidden_size=8, batch_size=4, steps=3, layer_norm="batch")
    training = Training(run, RunFolder(tmp_path), 1e9, (), team)
    with pytest.raises(SettingError, match="a batch norm cannot be shared by processes"):
        training.to_the_end(lambda: None)


def test_threads_of_a_machine_are_shared_by_its_processes(team: TorchTeam, tmp_path: Path) -> None:
    team.here = 2
    for threads, each in ((4, 2), (2, 1), (1, 1)):
        Training(make_run("copy", "srnn", length=5, threads=threads), RunFolder(tmp_path), 1e9, (), team)
        assert torch.get_num_threads() == each


def test_default_threads_do_not_depend_on_torchrun(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.set_num_threads(1)
    assert distributed.default_threads() == 1
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "x")
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {10_000, 10_001, 10_002})  # whose siblings are not known
    assert distributed.default_threads() == 3


def test_processes_with_different_settings_are_refused(tmp_path: Path) -> None:
    theirs = make_run("copy", "srnn", length=5, seed=2, threads=7)

    class Second(TorchTeam):
        def __init__(self) -> None:
            self.rank, self.size, self.here, self.device = 1, 2, 1, torch.device("cpu")

        def receive(self) -> tuple[int, bytes]:
            return distributed.START, json.dumps(theirs.as_dict()).encode() + b"\n"

    with pytest.raises(SettingError, match=r"must have the same settings\. Those of the first process are different"):
        follow(make_run("copy", "srnn", length=5, seed=1), tmp_path, Second())
    with pytest.raises(ValueError, match="process group"):  # with the same it goes to work: threads are the first's
        follow(make_run("copy", "srnn", length=5, seed=2), tmp_path, Second())
    assert torch.get_num_threads() == 7


def test_sums_and_announcements_reach_all_processes(team: TorchTeam) -> None:
    assert team.add(1.5, 2.0) == [1.5, 2.0]
    team.announce(1, b"content")
    assert team.is_first
    with distributed.joined("cpu") as alone:
        assert alone is ALONE


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"WORLD_SIZE": "x"}, r"\$WORLD_SIZE must be a whole number of at least 1, got 'x'. Start the processes with torchrun"),
        ({"WORLD_SIZE": "0"}, r"\$WORLD_SIZE must be a whole number of at least 1, got '0'"),
        ({"WORLD_SIZE": "-2"}, r"\$WORLD_SIZE must be"),
        ({"WORLD_SIZE": "2"}, r"\$RANK must be a whole number of at least 0, got nothing. Start the processes with torchrun"),
        ({"WORLD_SIZE": "2", "RANK": "x"}, r"\$RANK must be a whole number of at least 0, got 'x'"),
        ({"WORLD_SIZE": "2", "RANK": "0", "MASTER_ADDR": "localhost"}, r"\$MASTER_PORT must be .* got nothing"),
        ({"WORLD_SIZE": "2", "RANK": "0", "MASTER_PORT": "1"}, r"\$MASTER_ADDR be set"),
        (
            {"WORLD_SIZE": "2", "RANK": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"},
            r"\$RANK must be below \$WORLD_SIZE",
        ),
    ],
)
def test_variables_that_are_not_of_torchrun_are_one_error(
    variables: dict[str, str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SettingError, match=said), distributed.joined("cpu"):
        pass


@pytest.mark.parametrize("size", ["", "1"])
def test_a_world_of_one_needs_no_torchrun(size: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", size)
    with distributed.joined("cpu") as team:
        assert team is distributed.ALONE


def test_a_batch_must_be_large_enough(tmp_path: Path) -> None:
    team = TorchTeam.__new__(TorchTeam)
    team.rank, team.size = 0, 3
    run = make_run("copy", "srnn", length=5, batch_size=2)
    with pytest.raises(SettingError, match=r"a batch of 2 cannot be shared by 3 processes\. Give a larger --batch-size"):
        train(run, tmp_path / "run", team=team)


def test_only_errors_of_the_connection_are_taken_for_a_lost_process() -> None:
    with (
        pytest.raises(TeamError, match=r"another process of this run has ended\. Resume it"),
        distributed.lost_processes("Resume it"),
    ):
        raise RuntimeError("[gloo/transport/tcp/pair.cc:537] Connection closed by peer")
    with pytest.raises(TeamError), distributed.lost_processes():
        raise RuntimeError("the TCPStore has gone")
    for text in ("shapes cannot be multiplied", "could not restore the weights"):
        with pytest.raises(RuntimeError, match=text) as raised, distributed.lost_processes():
            raise RuntimeError(text)
        assert not isinstance(raised.value, TeamError)
    with pytest.raises(SettingError, match="no store"), distributed.lost_processes():
        raise SettingError("no store")


def test_alone_an_error_keeps_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Training) -> None:
        raise RuntimeError("the store of samples has no connection")

    monkeypatch.setattr(Training, "_forward", broken)
    with pytest.raises(RuntimeError, match="the store of samples has no connection"):
        train(make_run("copy", "srnn", length=5, steps=2), tmp_path)
