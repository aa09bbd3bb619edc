"""A run folder: the files that a run leaves on disk, and how they are read. Nothing is pickled.

    run.json                  settings, commit, versions, machine
    metrics.jsonl             a line per entry of the curve
    checkpoint.safetensors    weights, optimizer and position, from which the run resumes
    model.safetensors         the weights that are reported
    record.json               the finished run, complete
    diagnosis.txt             what was printed about a network that did not leave chance level
    lock                      locked by the process that works in the folder

Each file names the run that it belongs to in the field `belongs_to`. The name is drawn when a run starts. The curve has none,
but the checkpoint has its digest. Lines are added to metrics.jsonl. The other files are replaced in one step. Symbolic links
are never followed when a file is written. The folder itself may be one, so that runs can be on another disk.
"""

import contextlib
import hashlib
import itertools
import json
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import safetensors
import safetensors.torch
from filelock import FileLock, Timeout
from torch import Tensor

from srnn.errors import InUseError, ReadOnlyError, RecordError, StorageError
from srnn.lab.records import store

BELONGS_TO = "belongs_to"
SCRATCH = "Delete the folder's files to start from scratch"  # advice about a damaged file of a run
RUNS = Path("runs")  # where run folders are, unless --out is given
Tensors = dict[str, Tensor]


class RunFolder:
    """The files of one run."""

    def __init__(self, path: Path) -> None:
        self.path, self.lock = path, path / "lock"
        self.run, self.metrics, self.record = path / "run.json", path / "metrics.jsonl", path / "record.json"
        self.checkpoint, self.model = path / "checkpoint.safetensors", path / "model.safetensors"
        self.diagnosis = path / "diagnosis.txt"
        self.files = (self.run, self.metrics, self.record, self.checkpoint, self.model, self.diagnosis)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold the folder's lock, so that no other process works in it. The lock ends with the process, however that ends.

        Raises:
            InUseError: Another process holds the lock.
            ReadOnlyError: The folder cannot be written, but it may be read.
            StorageError: The folder cannot be used, or holds files that are not of a run.
        """
        is_new = self._check_content()
        lock = self._acquire()
        try:
            for left in itertools.chain.from_iterable(map(store.leftovers, self.files)):
                left.unlink()
            yield
        finally:
            with contextlib.suppress(OSError):  # the folder may have been deleted
                if os.listdir(self.path) == [self.lock.name]:  # the run was not started
                    self.lock.unlink()
                    if is_new:
                        self.path.rmdir()
            lock.release()

    def _check_content(self) -> bool:
        """Return whether the folder is missing. Raise an error if it has files that a run would overwrite or follow."""
        try:
            names = os.listdir(self.path)
            for path in (*self.files, self.lock):
                if path.name in names and not stat.S_ISREG(path.lstat().st_mode):
                    raise StorageError(f"{path} is not a regular file, so it is not of a run. Remove it, or give another --out")
        except FileNotFoundError:
            return not os.path.lexists(self.path)
        except OSError as error:
            if isinstance(error, StorageError):
                raise
            raise self._unusable(error) from error
        if self.run.name in names:
            if store.read(self.run).get("kind") != "settings":
                raise RecordError(f"{self.run} is not of a run of srnn. Give another --out")
        else:  # a process that was killed before it wrote run.json leaves only these
            ours = {self.lock.name, *(left.name for path in self.files for left in store.leftovers(path))}
            if others := sorted(set(names) - ours):
                raise StorageError(
                    f"{self.path} holds files that are not of a run, such as {others[0]!r}. "
                    "A run needs a new or empty folder: give another --out"
                )
        return False

    def _unusable(self, error: OSError) -> StorageError:
        kind = ReadOnlyError if error.errno in store.READ_ONLY else StorageError
        return kind(f"{self.path} cannot be used as a run folder: {error.strerror or error}. Give another --out")

    def _acquire(self) -> FileLock:
        lock = FileLock(self.lock)
        while True:
            try:
                store.make_folder(self.path)
                lock.acquire(timeout=0)
                return lock
            except Timeout:
                if self.lock.exists():  # otherwise its holder has just deleted the folder
                    raise InUseError(f"{self.path} is in use by another process. Wait for it, or give another --out") from None
            except OSError as error:
                raise self._unusable(error) from error

    @contextlib.contextmanager
    def _open_metrics(self) -> Iterator[BinaryIO]:
        """Yield the file of metrics, to add to its end."""
        try:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
            with open(os.open(self.metrics, flags, 0o666), "ab") as file:
                yield file
        except OSError as error:
            raise StorageError(f"{self.metrics} cannot be written: {error.strerror}. The checkpoint is unchanged") from error

    def append_metrics(self, entry: dict[str, Any]) -> None:
        """Add a line."""
        with self._open_metrics() as file:
            file.write(json.dumps(entry, allow_nan=False).encode() + b"\n")

    def cut_metrics(self, length: int) -> None:
        """Keep the first `length` bytes only: a run that resumes from a checkpoint repeats the rest."""
        with self._open_metrics() as file:
            if file.tell() < length:
                raise RecordError(f"{self.metrics} has lost its end: expected at least {length} bytes, got {file.tell()}")
            file.truncate(length)
            os.fsync(file.fileno())

    def metrics_length(self) -> int:
        """Return the number of bytes written so far, after syncing them to disk."""
        with self._open_metrics() as file:
            os.fsync(file.fileno())
            return file.tell()

    def metrics_digest(self, length: int) -> str:
        """Return a digest of the first `length` bytes."""
        return hashlib.sha256(store.read_bytes(self.metrics)[:length]).hexdigest()

    def name(self) -> str | None:
        """Return the name of the run in run.json; a new one if there is no run, None if an older version started the run."""
        found = store.read(self.run).get(BELONGS_TO) if self.run.exists() else secrets.token_hex(8)
        if not isinstance(found, str | None):
            raise RecordError(f"{self.run} is damaged: {BELONGS_TO} has a value of type {type(found).__name__}")
        return found

    @property
    def notice(self) -> str:
        """A line about files that cannot be told from those of other runs, or an empty text."""
        old = f"{self.path} was started by an older version of srnn: its files do not name their run"
        return old if self.name() is None else ""

    def clear(self) -> None:
        """Delete everything but run.json, so that the run starts from scratch in a folder that is still its own."""
        self._delete(*(path for path in reversed(self.files) if path != self.run))

    def delete_end(self) -> None:
        """Delete what the end of a run wrote, because the run resumes."""
        self._delete(self.record, self.model)

    def _delete(self, *paths: Path) -> None:
        try:
            for path in filter(Path.exists, paths):
                path.unlink()
                store.sync(self.path)  # after each, so that a power cut keeps their order
        except OSError as error:
            raise StorageError(f"{self.path} cannot be written: {error.strerror}. Run the same command to resume") from error

    def read_metrics(self) -> list[dict[str, Any]]:
        """Return the entries of the curve."""
        lines = store.read_bytes(self.metrics).splitlines() if self.metrics.exists() else []  # no entry yet
        try:
            return [json.loads(line) for line in lines]
        except (ValueError, RecursionError) as error:
            raise RecordError(f"{self.metrics} is damaged: {error}") from error


def save_tensors(path: Path, tensors: Tensors, state: dict[str, Any]) -> None:
    """Write tensors and plain values to one file, with a digest of both."""
    plain = json.dumps(state, allow_nan=False)
    body = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
    store.replace(path, safetensors.torch.save(body, {"state": plain, "sha256": _digest(body, plain)}))


def load_tensors(path: Path, advice: str = SCRATCH) -> tuple[Tensors, dict[str, Any]]:
    """Read what `save_tensors` wrote.

    Args:
        path: The file.
        advice: Ends the message about a damaged file.

    Raises:
        RecordError: The file is missing or damaged.
    """
    return parse_tensors(store.read_bytes(path), path, advice)


def parse_tensors(content: bytes, path: Path, advice: str = SCRATCH) -> tuple[Tensors, dict[str, Any]]:
    """Parse the content of such a file."""
    try:
        tensors = safetensors.torch.load(content)
        about = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")]).get("__metadata__", {})
    except (ValueError, KeyError, RecursionError, safetensors.SafetensorError) as error:
        raise RecordError(f"{path} is damaged ({error}). {advice}") from None
    if about.get("sha256") != _digest(tensors, about.get("state", "")):
        raise RecordError(f"{path} is damaged (its content does not match its digest). {advice}")
    try:
        state = json.loads(about.get("state", ""))
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{path} is damaged ({error}). {advice}") from None
    if not isinstance(state, dict):
        raise RecordError(f"{path} is damaged (expected one JSON object, got a {type(state).__name__}). {advice}")
    return tensors, state


def read_state(path: Path) -> dict[str, Any]:
    """Read the plain values of such a file from its head, which a file without its end still has. No digest is checked.

    Returns:
        The values, or no values if the file is empty or holds only zero bytes, as files may after a power cut.

    Raises:
        RecordError: The file cannot be read, or its head is not one that `save_tensors` writes.
    """
    content = store.read_bytes(path)
    if not content.strip(b"\0"):
        return {}
    try:
        head = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
        state = json.loads(head["__metadata__"]["state"])
    except (ValueError, KeyError, TypeError, RecursionError):
        state = None
    if not isinstance(state, dict):
        raise RecordError(f"{path} does not name the run that it belongs to: it is damaged, or another program wrote it")
    return state


def _digest(tensors: Tensors, plain: str) -> str:
    return hashlib.sha256(plain.encode() + safetensors.torch.save(dict(sorted(tensors.items())))).hexdigest()
