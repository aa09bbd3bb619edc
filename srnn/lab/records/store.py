"""Files of records: JSON with a digest, replaced in one step or appended to under a lock."""

import contextlib
import errno
import hashlib
import importlib.metadata
import importlib.util
import io
import json
import os
import platform
import re
import reprlib
import secrets
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy
import torch
from filelock import FileLock

import srnn
from srnn import kernels
from srnn.errors import MissingError, ReadOnlyError, RecordError, StorageError

UNKNOWN = "unknown"
READ_ONLY = (errno.EROFS, errno.EACCES, errno.EPERM)
FORMAT = 1  # of a record; another is not read


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a new file next to `path` to write to. On leaving, sync it to disk and rename it; after an error, remove it.

    Readers of `path` see the old file or the new one, never a part.
    """
    new = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    make_folder(path.parent)
    _remove_old(leftovers(path))
    try:
        yield new
        with new.open("rb+") as file:
            os.fsync(file.fileno())
        os.replace(new, path)
        sync(path.parent)
    finally:
        with contextlib.suppress(OSError):
            new.unlink()  # exists only when something went wrong


def _remove_old(left: list[Path]) -> None:
    """Remove temporary files that are older than an hour. Newer ones may be of a process that is still writing."""
    for path in left:
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > 3600:
                path.unlink()


def sync(folder: Path) -> None:
    """Sync the names in a folder to disk, so that files that were renamed or removed stay so after a power cut."""
    if os.name == "posix":
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


def make_folder(path: Path) -> None:
    """Make a folder and those above it, and sync their names to disk, so that a power cut does not lose what is in them.

    Raises:
        NotADirectoryError: The path, or one above it, is a file.
    """
    if not path.is_dir():
        make_folder(path.parent)
        try:
            path.mkdir(exist_ok=True)
        except FileExistsError:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path)) from None
        sync(path.parent)


def leftovers(path: Path) -> list[Path]:
    """Return the files that killed processes left next to `path` while they wrote it."""
    ours = re.compile(re.escape(f".{path.name}.") + r"\d+\.[0-9a-f]{8}")
    return [each for each in path.parent.iterdir() if ours.fullmatch(each.name) and each.is_file()]


def replace(path: Path, content: bytes) -> None:
    """Replace the content of a file in one step.

    Raises:
        StorageError: The file cannot be written. It is unchanged.
    """
    try:
        with replacing(path) as new, new.open("xb") as file:
            file.write(content)
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror or error}. The old file is unchanged") from error


def read_bytes(path: Path) -> bytes:
    """Return the content of a file.

    Raises:
        MissingError: There is no such file.
        RecordError: The file cannot be read, or is not a regular file: a pipe would be waited for.
    """
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | getattr(os, "O_NONBLOCK", 0))) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise RecordError(f"{path} cannot be read: it is not a regular file")
            return file.read()
    except FileNotFoundError:
        raise MissingError(f"{path} cannot be read: No such file or directory") from None
    except OSError as error:
        raise RecordError(f"{path} cannot be read: {error.strerror}") from error


def environment() -> dict[str, Any]:
    """Return versions, machine, commit and backend: what a number depends on besides its settings."""
    versions = {"python": platform.python_version(), "torch": torch.__version__, "numpy": numpy.__version__}
    system = f"{platform.system()} {platform.release()} {platform.machine()}"
    machine = {"cpu": _cpu_model(), "cores": os.cpu_count(), "threads": torch.get_num_threads(), "system": system}
    return {
        "format": FORMAT,
        "versions": {**versions, "srnn": srnn.__version__},
        "machine": {**machine, "memory_bytes": _memory_bytes()},
        "commit": _commit(),
        "backend": kernels.auto_backend(),
    }


def device(on: torch.device) -> dict[str, Any]:
    """Return what a number measured on a device depends on, besides the environment."""
    found: dict[str, Any] = {"type": on.type, "name": on.type}
    if on.type == "cuda":
        about = torch.cuda.get_device_properties(on)
        found |= {
            "name": about.name,
            "capability": f"{about.major}.{about.minor}",
            "memory_bytes": about.total_memory,
            "processors": about.multi_processor_count,
            "cuda": torch.version.cuda or torch.version.hip,
            "triton": importlib.metadata.version("triton") if importlib.util.find_spec("triton") else None,
            "cudnn": torch.backends.cudnn.version(),
            "tf32": {"cudnn": torch.backends.cudnn.allow_tf32, "matmul": torch.backends.cuda.matmul.allow_tf32},
        }
    return found


def signed(record: dict[str, Any]) -> dict[str, Any]:
    """Return the record with a digest of itself, so that a reader notices any change."""
    return record | {"sha256": _digest(record)}


def is_altered(record: dict[str, Any]) -> bool:
    """Return whether a record has no digest, or one that does not match its content."""
    try:
        return record.get("sha256") != _digest(record)
    except RecursionError:  # nested deeper than any record
        return True


def _unsigned(record: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in record.items() if name != "sha256"}


def _digest(record: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(_unsigned(record), sort_keys=True).encode()).hexdigest()


def write(path: Path, record: dict[str, Any]) -> None:
    """Write one record as JSON with its digest, in one step."""
    try:
        text = json.dumps(signed(record), indent=1, allow_nan=False) + "\n"
    except (TypeError, ValueError) as error:
        raise RecordError(f"the record for {path} cannot be written as JSON: {error}") from error
    replace(path, text.encode())


def read(path: Path) -> dict[str, Any]:
    """Return the record at `path`.

    Raises:
        RecordError: The file is missing, is not a record, or does not match its digest.
    """
    content = read_bytes(path)
    try:
        record = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{path} must be a record, one JSON object. It is not JSON: {error}") from error
    if not isinstance(record, dict):
        raise RecordError(f"{path} must be a record, one JSON object, got a {type(record).__name__}")
    if is_altered(record):
        raise RecordError(f"{path} is altered: its content does not match its digest")
    return _unsigned(record)


def filled(path: Path, name: str, block: str) -> bytes:
    """Return the text of a Markdown file with `block` between the two comments that mark the named table.

    Raises:
        RecordError: The file does not have each of the comments once.
    """
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    text = read_bytes(path).decode()
    if text.count(begin) != 1 or text.count(end) != 1 or text.index(end) < text.index(begin):
        raise RecordError(f"{path} must hold {begin} and after it {end}, once each: the table goes between them")
    return f"{text.split(begin)[0]}{begin}\n{block}\n{end}{text.split(end)[1]}".encode()


def make_room(path: Path) -> Path:
    """Return the path of the lock of a file of records.

    Raises:
        StorageError: A file of records cannot be written there. A ReadOnlyError if the folder is read-only.
    """
    lock = path.with_name(f".{path.name}.lock")
    try:
        make_folder(path.parent)
        lock.touch()
        tempfile.TemporaryFile(dir=path.parent).close()  # the lock may be there, and the folder read-only
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    except OSError as error:
        kind = ReadOnlyError if error.errno in READ_ONLY else StorageError
        raise kind(f"{path} cannot be written: {error.strerror}. Give another --results") from error
    return lock


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Wait until no other process changes a file of records, and hold its lock."""
    lock = FileLock(make_room(path))
    try:
        lock.acquire()
    except OSError as error:
        raise StorageError(f"{path} cannot be locked: {error.strerror or error}. Give another --results") from error
    try:
        yield
    finally:
        lock.release()


def collect(path: Path, record: dict[str, Any]) -> None:
    """Append a record to a file of records, one per line. It replaces an older record with the same id, as readers see it.

    Waits for other processes that change the file. Returns when the record is on the disk.

    Raises:
        RecordError: The record cannot be written as JSON.
        StorageError: The file cannot be written. It is unchanged.
    """
    try:
        line = json.dumps(signed(record), allow_nan=False).encode() + b"\n"
    except (TypeError, ValueError) as error:
        raise RecordError(f"{record['id']} cannot be recorded: {error}") from None
    with _locked(path):
        if path.exists():
            _append(path, line)
        else:
            replace(path, line)  # which also syncs the folder


def _append(path: Path, line: bytes) -> None:
    """Add a line to a file and sync it to disk; after an error, cut the file to its old length.

    A last line without an end was torn when its writer was killed. It is ended first, so that both stay apart.
    """
    try:
        with path.open("ab+", buffering=0) as file:
            length = file.seek(0, os.SEEK_END)
            file.seek(max(0, length - 1))
            rest = memoryview(line if file.read(1) in (b"", b"\n") else b"\n" + line)
            try:
                while rest:
                    rest = rest[file.write(rest) :]
                os.fsync(file.fileno())
            except BaseException:
                file.truncate(length)
                raise
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror or error}. The old file is unchanged") from error


def remove(path: Path, name: str) -> None:
    """Remove every record with this id from a file of records, and the file if it is then empty."""
    if not path.exists():
        return
    with _locked(path):
        lines = _split(path)
        kept = [line for line in lines if _id(line) != name]
        if not kept:
            path.unlink()
        elif kept != lines:
            replace(path, _joined(kept))


def compact(path: Path) -> int:
    """Remove the records that a later one with the same id replaces, and return how many. Lines that cannot be used stay."""
    with _locked(path):
        lines = _split(path)
        kept = _current(lines)
        if len(kept) < len(lines):
            replace(path, _joined(line for line, _, _ in kept.values()))
    return len(lines) - len(kept)


def read_lines(path: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the records of a file that has one per line, and a message about each line that cannot be used.

    The last record with an id counts. It is in the place of the first.
    """
    found, faults = [], []
    for key, (_, record, fault) in _current(_split(path)).items():
        if fault:
            faults.append(f"{path}:{key} {fault}. It is left out")
        else:
            found.append(_unsigned(record))
    return found, faults


def _split(path: Path) -> list[bytes]:
    return io.BytesIO(read_bytes(path)).readlines()  # each with its end, which only the last may lack


def _joined(lines: Iterable[bytes]) -> bytes:
    return b"".join(line.removesuffix(b"\n") + b"\n" for line in lines)


def _current(lines: Iterable[bytes]) -> dict[str | int, tuple[bytes, dict[str, Any], str]]:
    """Return (line, record, fault) of the last record of each id by this id, and of each line that cannot be used by number."""
    kept: dict[str | int, tuple[bytes, dict[str, Any], str]] = {}
    for number, line in enumerate(lines, start=1):
        record = _parsed(line) or {}
        fault = _fault(line, record)
        kept[number if fault else record["id"]] = line, record, fault
    return kept


def _fault(line: bytes, record: dict[str, Any]) -> str:
    """Return why a line cannot be used, or an empty text."""
    if not record and not line.endswith(b"\n"):
        return "is torn: its writer was stopped, or is still writing"
    if not isinstance(record.get("kind"), str) or not isinstance(record.get("id"), str):
        return "is damaged: it must be one JSON object with kind and id"
    if (theirs := record.get("format", FORMAT)) != FORMAT:
        return f"is of another version: format {reprlib.repr(theirs)}, and this srnn reads format {FORMAT}"
    return "is altered: its content does not match its digest" if is_altered(record) else ""


def read_all(path: Path) -> list[dict[str, Any]]:
    """Return the records of a file that has one per line; raise a RecordError if a line cannot be used."""
    found, faults = read_lines(path)
    if faults:
        raise RecordError(". ".join(fault.removesuffix(". It is left out") for fault in faults))
    return found


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _id(line: bytes) -> str | None:
    """Return the id of the record on a line, or None."""
    found = (_parsed(line) or {}).get("id")
    return found if isinstance(found, str) else None


def _cpu_model() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or UNKNOWN


def _memory_bytes() -> int | str:
    known = {"SC_PHYS_PAGES", "SC_PAGE_SIZE"} <= set(getattr(os, "sysconf_names", {}))
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if known else UNKNOWN


def _commit() -> dict[str, Any]:
    """Return the commit of these sources, and whether any file differs from it except results and documents."""
    commit, dirty = None, None
    if _git("ls-files", "--error-unmatch", Path(__file__).name):  # otherwise srnn is installed inside another repository
        commit = _git("rev-parse", "HEAD")
        made = (f":(top,exclude){name}" for name in ("results", "README.md", "docs"))
        dirty = _git("status", "--porcelain", "--", ":/", *made)
    return {"id": commit or UNKNOWN, "dirty": UNKNOWN if dirty is None else dirty != ""}


def _git(*arguments: str) -> str | None:
    """Return the output of git for the package's folder; None without git or outside a repository."""
    command = ["git", "-C", str(Path(__file__).parent), *arguments]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
