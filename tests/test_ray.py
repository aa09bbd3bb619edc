"""Many runs on Ray: each record once, whatever happens to a process or a machine. Real clusters, of one and of two nodes."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from srnn.errors import SettingError
from srnn.lab.records import store
from srnn.lab.records.folder import RunFolder
from srnn.lab.scheduling import ray as cluster
from srnn.lab.scheduling import scheduler
from srnn.lab.scheduling.ray import Ray
from srnn.lab.scheduling.scheduler import Scheduler
from srnn.lab.training.recipes import make_run
from srnn.lab.training.run import Run
from srnn.lab.workers import Event

ray = pytest.importorskip("ray")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    return tmp_path


@pytest.fixture
def console() -> Console:
    return Console(file=io.StringIO(), width=200)


def small(**settings: Any) -> Run:
    return make_run("copy", "srnn", **({"length": 5, "hidden_size": 8, "batch_size": 2, "steps": 4} | settings))


def work(runs: list[Run], console: Console, engine: Any) -> list[str]:
    left = {run.id: run for run in runs}
    return Scheduler(left, dict.fromkeys(left, 1.0), Path("runs"), Path("results"), console, engine).work()


def ids() -> list[str]:
    return sorted(record["id"] for record in store.read_all(Path("results/copy.jsonl")))


def task_of(key: str) -> list[int]:
    """Processes of Ray that work on a run."""
    found = subprocess.run(["pgrep", "-f", f"^ray::{key}"], capture_output=True, text=True, check=False)  # 1: none
    return [int(word) for word in found.stdout.split()]


class Killing(Ray):
    """Kills the process of one run, once its checkpoint is there."""

    def __init__(self, victim: str) -> None:
        super().__init__(jobs=2)
        self.victim: str | None = victim

    def poll(self) -> list[Event]:
        if self.victim is not None and Path("runs", self.victim, "checkpoint.safetensors").exists():
            for process in task_of(self.victim):
                os.kill(process, signal.SIGKILL)
                self.victim = None
        return super().poll()


@pytest.mark.slow
def test_a_local_cluster_trains_all_runs_and_survives_a_killed_process(console: Console) -> None:
    long = small(seed=1, length=100, hidden_size=64, steps=60_000, stop_below=None, minutes=0.7)
    others = [small(seed=seed) for seed in (2, 3, 4)]
    engine = Killing(long.id)
    assert work([long, *others], console, engine) == []
    assert engine.victim is None
    assert ids() == sorted(run.id for run in (long, *others))
    ended = next(record for record in store.read_all(Path("results/copy.jsonl")) if record["id"] == long.id)
    assert ended["resumed"] == 1
    said = console.file.getvalue()  # type: ignore[attr-defined]
    assert said.count("retried: ") == 1
    assert said.count("finished: ") == 4


@pytest.mark.slow
def test_a_run_that_cannot_be_trained_is_recorded_as_failed(console: Console) -> None:
    good, bad = small(seed=1), small(seed=2)
    Path("runs", bad.id).mkdir(parents=True)
    Path("runs", bad.id, "run.json").write_text("{}")
    failed = work([bad, good], console, Ray(jobs=1))
    assert len(failed) == 1
    assert ids() == [good.id]
    assert store.read_all(Path("results/failed.jsonl"))[0]["tries"] == 3


@pytest.mark.slow
def test_when_a_node_stops_its_runs_go_to_the_other(console: Console) -> None:
    from ray.cluster_utils import Cluster

    two = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    second = two.add_node(num_cpus=1)
    try:
        runs = [small(seed=seed, length=50, hidden_size=32, steps=2000) for seed in (1, 2, 3)]

        class Stopping(Ray):
            stopped = False

            def poll(self) -> list[Event]:
                working = [run.id for run in runs if Path("runs", run.id, "run.json").exists()]
                if not self.stopped and len(working) >= 2:
                    two.remove_node(second, allow_graceful=False)
                    self.stopped = True
                return super().poll()

        engine = Stopping(two.address)
        assert work(runs, console, engine) == []
        assert engine.stopped
        assert ids() == sorted(run.id for run in runs)
        assert "retried: " in console.file.getvalue()  # type: ignore[attr-defined]
    finally:
        two.shutdown()


PROGRAM = """
import sys
from pathlib import Path
from rich.console import Console
from srnn.lab.scheduling.ray import Ray
from srnn.lab.scheduling.scheduler import Scheduler
from srnn.errors import Interrupted
from srnn.lab.training.recipes import make_run

if __name__ == "__main__":
    runs = [make_run("copy", "srnn", length=50, hidden_size=32, batch_size=2, steps=10**6, seed=k) for k in (1, 2)]
    left = {run.id: run for run in runs}
    try:
        Scheduler(left, dict.fromkeys(left, 1.0), Path("runs"), Path("results"), Console(), Ray(jobs=2)).work()
    except Interrupted as error:
        print(error)
        sys.exit(error.exit_code)
"""


@pytest.mark.slow
def test_ctrl_c_on_the_driver_leaves_checkpoints(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    process = subprocess.Popen([sys.executable, "program.py"], stdout=subprocess.PIPE, text=True, start_new_session=True)
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline and len(list(Path("runs").glob("*/metrics.jsonl"))) < 2:
        time.sleep(0.2)
    os.kill(process.pid, signal.SIGINT)
    out, _ = process.communicate(timeout=90)
    assert process.returncode == 130, out
    assert "Run the same command to resume 2 runs" in out
    assert len(list(Path("runs").glob("*/checkpoint.safetensors"))) == 2
    assert not list(Path("results").glob("*.jsonl"))


def test_a_task_checks_sources_and_data(monkeypatch: pytest.MonkeyPatch) -> None:
    right: dict[str, Any] = {"settings": small().as_dict(), "data_folders": [], "sources": cluster.sources(), "data": None}
    kind, record = json.loads(cluster._task(json.dumps(right | {"folder": "runs/right"})))
    assert (kind, record["status"]) == ("done", "finished")
    for wrong, said in (({"sources": "other"}, "has other sources of srnn"), ({"data": "other"}, "has other data for copy")):
        kind, why = json.loads(cluster._task(json.dumps(right | {"folder": "runs/wrong"} | wrong)))
        assert kind == "failed"
        assert said in why
    assert not Path("runs/wrong").exists()


def test_a_task_reports_why_it_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    right = {"settings": small().as_dict(), "sources": cluster.sources(), "data": None}
    with RunFolder(Path("runs/held")).held():
        kind, why = json.loads(cluster._task(json.dumps(right | {"folder": "runs/held"})))
    assert kind == "busy"
    assert "is in use by another process" in why

    def broken(run: Run, folder: Path, **how: Any) -> Any:
        raise LookupError("no such thing")

    monkeypatch.setattr(scheduler, "train", broken)
    assert json.loads(cluster._task(json.dumps(right | {"folder": "runs/new"}))) == ["failed", "LookupError: no such thing"]


@pytest.mark.slow
def test_a_run_that_no_machine_has_room_for_is_refused() -> None:
    engine = Ray(jobs=1)
    with pytest.raises(SettingError, match="a run needs 4 CPU, and no machine of the cluster has more than 1"):
        engine.start("key", small(threads=4), Path("runs/x"))
    assert engine.refs == {}


def test_a_missing_ray_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:  # not until the end of the test, when the cluster is stopped
        patch.setitem(sys.modules, "ray", None)
        with pytest.raises(SettingError, match=r"--ray needs Ray. Install it with: pip install 'srnn\[ray\]'"):
            cluster.engine(2, "local")


def test_an_address_without_a_cluster_is_refused() -> None:
    with pytest.raises(SettingError, match=r"there is no Ray cluster at '127\.0\.0\.1:1'"):
        cluster.engine(2, "127.0.0.1:1")


@pytest.fixture(autouse=True)
def no_cluster_is_left() -> Iterator[None]:
    yield
    ray.shutdown()
