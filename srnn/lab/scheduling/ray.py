"""The engine of many machines: each run a task of a Ray cluster, with its CPUs and GPUs declared.

A cluster must have the sources and the data of the driver; every task checks that before it begins. Run folders lie at the same
path on every machine: on a shared disk a run that is tried elsewhere goes on from its checkpoint, without one it begins anew.
"""

import hashlib
import json
import logging
import os
import socket
import time
from pathlib import Path
from typing import Any

import srnn
from srnn.errors import Interrupted, InUseError, SettingError, SRNNError
from srnn.lab.scheduling.scheduler import Engine, News, Processes, in_words
from srnn.lab.training.loop import train
from srnn.lab.training.recipes import from_dict
from srnn.lab.training.run import Run

LOCAL = "local"
PATIENCE = 60.0  # seconds that runs have to write their checkpoints when they are asked to stop


def engine(jobs: int, ray: str | None) -> Engine:
    """Worker processes here, or a Ray cluster."""
    return Processes(jobs) if ray is None else Ray(ray, jobs)


class Ray:
    """The engine that Ray is. `address`: of a cluster, or "local" for one that is begun here and ends with this process."""

    def __init__(self, address: str = LOCAL, jobs: int | None = None) -> None:
        try:
            import ray
        except ModuleNotFoundError:
            raise SettingError(
                "--ray needs Ray; install it with: pip install 'srnn[ray]', or leave it out and use --jobs"
            ) from None
        self.ray, self.refs = ray, dict[Any, str]()
        where: dict[str, Any] = {"num_cpus": jobs, "include_dashboard": False} if address == LOCAL else {"address": address}
        if address != LOCAL:
            _require_someone_at(address)
        seen = {name: os.environ[name] for name in ("SRNN_DATA", "SRNN_BACKEND") if name in os.environ}
        try:
            ray.init(**where, log_to_driver=False, logging_level=logging.ERROR, runtime_env={"env_vars": seen})
        except (ConnectionError, OSError, RuntimeError, ValueError) as error:
            said = " ".join(str(error).split())
            raise SettingError(f"there is no Ray cluster at {address!r} ({said}); begin one with: ray start --head") from None
        self.sources = sources()
        self.task = ray.remote(max_retries=0)(_task)
        self.room = max(1, 2 * int(ray.cluster_resources().get("CPU", 1)))  # more than can run: a machine may join

    def begin(self, key: str, run: Run, folder: Path) -> None:
        gpus = 1 if run.device.startswith("cuda") else 0
        self._require({"CPU": run.threads, "GPU": gpus})
        expected = {"sources": self.sources, "data": run.task.data_digest}
        task = self.task.options(num_cpus=run.threads, num_gpus=gpus, name=key)
        self.refs[task.remote(json.dumps(run.as_dict()), str(folder.resolve()), json.dumps(expected))] = key

    def _require(self, needed: dict[str, int]) -> None:
        """An error where no machine has what a run needs: Ray would wait for one, and say nothing."""
        for name, count in needed.items():
            most = max((node["Resources"].get(name, 0) for node in self.ray.nodes() if node["Alive"]), default=0)
            if count > most:
                raise SettingError(f"a run needs {count} {name}, and no machine of the cluster has more than {most:g}")

    def listen(self) -> list[News]:
        if not self.refs:  # all that is left waits for a folder
            time.sleep(0.2)
            return []
        ready, _ = self.ray.wait(list(self.refs), timeout=0.2)
        return [self._news(ref) for ref in ready]

    def _news(self, ref: Any) -> News:
        key = self.refs.pop(ref)
        try:
            word, about = json.loads(self.ray.get(ref))
        except self.ray.exceptions.RayError as error:  # the process or its machine is gone, or the code is no longer ours
            return key, "lost", f"{type(error).__name__}: {str(error).strip().splitlines()[-1]}"
        return key, word, about

    def stop(self) -> list[News]:
        for ref in self.refs:
            self.ray.cancel(ref)
        if not self.refs:
            return []
        ready, _ = self.ray.wait(list(self.refs), num_returns=len(self.refs), timeout=PATIENCE)
        return [self._news(ref) for ref in ready]

    def close(self) -> None:
        self.ray.shutdown()


def _require_someone_at(address: str) -> None:
    """An error at once where nobody listens: Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not port.isdigit():  # such as "auto", which Ray looks up by itself
        return
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except OSError as error:
        said = error.strerror or error
        raise SettingError(f"there is no Ray cluster at {address!r} ({said}); begin one with: ray start --head") from None


def _task(plain: str, folder: str, expected: str) -> str:
    """One run on a machine of the cluster; what is said goes as JSON, since an exception of ours need not be known there."""
    try:
        run, wanted = from_dict(json.loads(plain), is_ours=True), json.loads(expected)
        if sources() != wanted["sources"]:
            raise SettingError(f"{os.uname().nodename} has other sources of srnn than the driver; install the same ones")
        if run.task.data_digest != wanted["data"]:
            raise SettingError(f"{os.uname().nodename} has other data for {run.task.name} than the driver; see SRNN_DATA")
        return json.dumps(["done", train(run, Path(folder))])
    except Interrupted:
        return json.dumps(["stopped", None])
    except InUseError as error:
        return json.dumps(["busy", str(error)])
    except SRNNError as error:
        return json.dumps(["failed", str(error)])
    except Exception as error:  # a fault of ours, or of a user's own task
        return json.dumps(["failed", in_words(error)])


def sources() -> str:
    """A digest of the package's own files."""
    root = Path(srnn.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()
