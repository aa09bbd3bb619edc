"""The engine of many machines: each run is a task of a Ray cluster, with its CPUs and GPUs declared.

All machines must have the same sources and data as this one; every task checks that first. A run folder has the same path on
every machine. On a shared disk, a run that is retried on another machine resumes from its checkpoint; otherwise it starts from
scratch.
"""

import hashlib
import json
import logging
import os
import platform
import socket
import time
from pathlib import Path
from typing import Any

import srnn
from srnn.errors import SettingError
from srnn.lab.scheduling.processes import Processes
from srnn.lab.scheduling.scheduler import Engine, attempt, order
from srnn.lab.training.run import Run
from srnn.lab.workers import Event

LOCAL = "local"
PATIENCE = 60.0  # seconds that runs have to write their checkpoints when they are stopped


def engine(jobs: int, ray: str | None) -> Engine:
    """Return the engine: `jobs` worker processes on this machine, or the Ray cluster at the address `ray`."""
    return Processes(jobs) if ray is None else Ray(ray, jobs)


class Ray:
    """A Ray cluster.

    Args:
        address: Of a cluster, or "local" to start one on this machine that ends with this process.
        jobs: CPUs of a local cluster.
    """

    def __init__(self, address: str = LOCAL, jobs: int | None = None) -> None:
        try:
            import ray
        except ModuleNotFoundError:
            raise SettingError(
                "--ray needs Ray. Install it with: pip install 'srnn[ray]', or leave it out and use --jobs"
            ) from None
        self.ray, self.refs = ray, dict[Any, str]()
        where: dict[str, Any] = {"address": address}
        if address == LOCAL:  # in this way a new cluster starts even if there is another on this machine
            where |= {"num_cpus": jobs, "include_dashboard": False}
        else:
            _require_listener(address)
        seen = {name: os.environ[name] for name in ("SRNN_DATA", "SRNN_BACKEND") if name in os.environ}
        try:
            ray.init(**where, log_to_driver=False, logging_level=logging.ERROR, runtime_env={"env_vars": seen})
        except (ConnectionError, OSError, RuntimeError, ValueError) as error:
            said = " ".join(str(error).split())
            raise SettingError(f"there is no Ray cluster at {address!r} ({said}). Start one with: ray start --head") from None
        self.sources = sources()
        self.task = ray.remote(max_retries=0)(_task)
        self.room = max(1, 2 * int(ray.cluster_resources().get("CPU", 1)))  # more than can run at once: a machine may join

    def start(self, key: str, run: Run, folder: Path) -> None:
        """Start a run as a task of the cluster."""
        gpus = 1 if run.device.startswith("cuda") else 0
        self._require({"CPU": run.threads, "GPU": gpus})
        message = order(run, folder.resolve()) | {"sources": self.sources, "data": run.task.data_digest}
        task = self.task.options(num_cpus=run.threads, num_gpus=gpus, name=key)
        self.refs[task.remote(json.dumps(message))] = key

    def _require(self, needed: dict[str, int]) -> None:
        """Raise a SettingError if no machine has what a run needs. Ray would wait for one without a message."""
        for name, count in needed.items():
            most = max((node["Resources"].get(name, 0) for node in self.ray.nodes() if node["Alive"]), default=0)
            if count > most:
                raise SettingError(f"a run needs {count} {name}, and no machine of the cluster has more than {most:g}")

    def poll(self) -> list[Event]:
        """Wait up to 0.2 seconds, and return the events of the tasks that have ended."""
        if not self.refs:  # all runs that are left wait for a folder
            time.sleep(0.2)
            return []
        ready, _ = self.ray.wait(list(self.refs), timeout=0.2)
        return [self._receive(ref) for ref in ready]

    def _receive(self, ref: Any) -> Event:
        key = self.refs.pop(ref)
        try:
            return Event(key, *json.loads(self.ray.get(ref)))
        except self.ray.exceptions.RayError as error:  # the process or its machine is lost, or has other code
            return Event(key, "lost", f"{type(error).__name__}: {str(error).strip().splitlines()[-1]}")

    def stop(self) -> list[Event]:
        """Cancel all tasks, and return their last events."""
        for ref in self.refs:
            self.ray.cancel(ref)
        if not self.refs:
            return []
        ready, _ = self.ray.wait(list(self.refs), num_returns=len(self.refs), timeout=PATIENCE)
        return [self._receive(ref) for ref in ready]

    def close(self) -> None:
        """Leave the cluster."""
        self.ray.shutdown()


def _require_listener(address: str) -> None:
    """Raise a SettingError at once if nothing listens at an address. Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not port.isdigit():  # such as "auto", which Ray looks up itself
        return
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except OSError as error:
        said = error.strerror or error
        raise SettingError(f"there is no Ray cluster at {address!r} ({said}). Start one with: ray start --head") from None


def _task(content: str) -> str:
    """Train one run on a machine of the cluster. The answer is JSON: the driver may not know an exception's class."""
    message = json.loads(content)
    wanted_sources, wanted_data = (message.pop(name) for name in ("sources", "data"))

    def check(run: Run) -> None:
        if sources() != wanted_sources:
            raise SettingError(f"{platform.node()} has other sources of srnn than the driver. Install the same ones")
        if run.task.data_digest != wanted_data:
            raise SettingError(f"{platform.node()} has other data for {run.task.name} than the driver. See SRNN_DATA")

    return json.dumps(attempt(**message, check=check))


def sources() -> str:
    """Return a digest of the package's own files."""
    root = Path(srnn.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()
