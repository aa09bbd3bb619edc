"""A run folder: what a run leaves on disk, and how it is read back. Nothing is pickled.

    run.json                  settings, commit, versions, machine
    metrics.jsonl             a line per entry of the curve
    checkpoint.safetensors    weights, optimiser and position, to go on from
    model.safetensors         the weights that are reported
    record.json               the finished run, in one piece
    diagnosis.txt             what was printed about a network that did not leave chance level
    lock                      held by the process that works in the folder

Lines are added to metrics.jsonl; the other files are replaced in one step.
"""

import contextlib
import fcntl
import hashlib
import itertools
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
from torch import Tensor

from srnn.errors import InUseError, RecordError, StorageError
from srnn.lab.records import store
from srnn.lab.records.atomic import leftovers

RUNS = Path("runs")  # where run folders are, unless --out is given
Tensors = dict[str, Tensor]


class RunFolder:
    """The files of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.run, self.metrics, self.record = path / "run.json", path / "metrics.jsonl", path / "record.json"
        self.checkpoint, self.model = path / "checkpoint.safetensors", path / "model.safetensors"
        self.diagnosis = path / "diagnosis.txt"
        self.files = (self.run, self.metrics, self.record, self.checkpoint, self.model, self.diagnosis)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """While one process works in a folder no other may; the lock goes with the process, however it ends."""
        is_new = not self.path.exists()
        lock = self._lock()
        try:
            for left in itertools.chain.from_iterable(map(leftovers, self.files)):
                left.unlink()
            yield
        finally:
            with contextlib.suppress(OSError):  # somebody may have taken it away
                if os.listdir(self.path) == ["lock"]:  # nothing was begun
                    os.unlink(self.path / "lock")
                    if is_new:
                        self.path.rmdir()
            os.close(lock)

    def _lock(self) -> int:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise StorageError(f"{self.path} cannot be used as a run folder: {error.strerror}; give another --out") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            raise InUseError(f"{self.path} is in use by another process; wait for it, or give another --out") from None
        with contextlib.suppress(OSError):
            if os.path.samestat(os.fstat(lock), os.stat(self.path / "lock")):
                return lock
        os.close(lock)  # whoever held it has taken the folder away in between
        return self._lock()

    def append_metrics(self, entry: dict[str, Any]) -> None:
        """Adds a line; a run that goes on from an older checkpoint first cuts off what it will write again."""
        try:
            with self.metrics.open("ab") as file:
                file.write(json.dumps(entry, allow_nan=False).encode() + b"\n")
        except OSError as error:
            raise StorageError(f"{self.metrics} cannot be written: {error.strerror}; the checkpoint is as it was") from error

    def cut_metrics(self, length: int) -> None:
        """Forgets what came after the first `length` bytes."""
        try:
            with self.metrics.open("ab") as file:
                if file.tell() < length:
                    raise RecordError(f"{self.metrics} has lost its end: {length} bytes are needed, {file.tell()} are there")
                file.truncate(length)
                os.fsync(file.fileno())
        except OSError as error:
            raise StorageError(f"{self.metrics} cannot be written: {error.strerror}") from error

    def metrics_length(self) -> int:
        """Bytes written so far, on disk for good."""
        try:
            with self.metrics.open("ab") as file:
                os.fsync(file.fileno())
                return file.tell()
        except OSError as error:
            raise StorageError(f"{self.metrics} cannot be written: {error.strerror}; the checkpoint is as it was") from error

    def metrics_digest(self, length: int) -> str:
        """Of the first `length` bytes."""
        try:
            with self.metrics.open("rb") as file:
                return hashlib.sha256(file.read(length)).hexdigest()
        except OSError as error:
            raise RecordError(f"{self.metrics} cannot be read: {error.strerror}; the checkpoint needs it") from error

    def begin_anew(self) -> None:
        """Forgets the run."""
        for path in self.files:
            path.unlink(missing_ok=True)

    def forget_end(self) -> None:
        """A run that goes on has no end yet."""
        self.record.unlink(missing_ok=True)
        self.model.unlink(missing_ok=True)

    def read_metrics(self) -> list[dict[str, Any]]:
        if not self.metrics.exists():  # nothing to tell yet
            return []
        try:
            return [json.loads(line) for line in self.metrics.read_bytes().splitlines()]
        except OSError as error:
            raise RecordError(f"{self.metrics} cannot be read: {error.strerror}") from error
        except (ValueError, RecursionError) as error:
            raise RecordError(f"{self.metrics} is damaged: {error}") from error


def save_tensors(path: Path, tensors: Tensors, state: dict[str, Any]) -> None:
    """Tensors and plain values in one file, with a digest of both."""
    plain = json.dumps(state, allow_nan=False)
    body = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
    store.replace(path, safetensors.torch.save(body, {"state": plain, "sha256": _digest(body, plain)}))


def load_tensors(path: Path) -> tuple[Tensors, dict[str, Any]]:
    """What `save_tensors` wrote, or an error that names the file."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise RecordError(f"{path} is not there") from None
    except OSError as error:
        raise RecordError(f"{path} cannot be read: {error.strerror}") from error
    return parse_tensors(content, path)


def parse_tensors(content: bytes, path: Path) -> tuple[Tensors, dict[str, Any]]:
    """The same from the file's content."""
    advice = "it cannot be used; delete the folder's files to begin again"
    try:
        tensors = safetensors.torch.load(content)
        about = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")]).get("__metadata__", {})
    except (ValueError, KeyError, safetensors.SafetensorError) as error:
        raise RecordError(f"{path} is damaged ({error}); {advice}") from None
    if about.get("sha256") != _digest(tensors, about.get("state", "")):
        raise RecordError(f"{path} is damaged (its content does not fit its digest); {advice}")
    return tensors, json.loads(about["state"])


def _digest(tensors: Tensors, plain: str) -> str:
    return hashlib.sha256(plain.encode() + safetensors.torch.save(dict(sorted(tensors.items())))).hexdigest()
