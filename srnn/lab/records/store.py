"""Records: JSON that can answer for its numbers (settings, versions, machine, commit), written whole or not at all."""

import errno
import fcntl
import hashlib
import json
import os
import platform
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy
import torch

import srnn
from srnn import kernels
from srnn.errors import RecordError, StorageError
from srnn.lab.records.atomic import replacing

UNKNOWN = "unknown"
FORMAT = 1  # of a record; another is not read


def environment() -> dict[str, Any]:
    """Versions, machine, commit and backend: what a number depends on besides its settings."""
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


def signed(record: dict[str, Any]) -> dict[str, Any]:
    """The record with a digest of itself, by which a reader sees that not a bit of it has changed."""
    return record | {"sha256": _digest(record)}


def is_altered(record: dict[str, Any]) -> bool:
    """Whether a record does not fit its digest, or has lost it."""
    try:
        return record.get("sha256") != _digest(record)
    except RecursionError:  # nested deeper than anything of ours
        return True


def _unsigned(record: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in record.items() if name != "sha256"}


def _digest(record: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(_unsigned(record), sort_keys=True).encode()).hexdigest()


def write(path: Path, record: dict[str, Any]) -> None:
    """Writes one record as JSON; a reader of `path` sees the old record or the new one, never a part."""
    try:
        text = json.dumps(signed(record), indent=1, allow_nan=False) + "\n"
    except (TypeError, ValueError) as error:
        raise RecordError(f"the record for {path} cannot be written as JSON: {error}") from error
    replace(path, text.encode())


def replace(path: Path, content: bytes) -> None:
    """Puts `content` in the place of a file in one step: written beside it, forced to disk, then renamed."""
    try:
        with replacing(path) as beside:
            beside.write_bytes(content)
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror or error}; what was there is as it was") from error


def read(path: Path) -> dict[str, Any]:
    """The record at `path`."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RecordError(f"there is no record to read at {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{path} must be a record, one JSON object; it is not JSON: {error}") from error
    if not isinstance(record, dict):
        raise RecordError(f"{path} must be a record, one JSON object; it holds a {type(record).__name__}")
    if is_altered(record):
        raise RecordError(f"{path} is altered: its content does not fit its digest")
    return _unsigned(record)


def filled(path: Path, name: str, block: str) -> bytes:
    """The text of a README with `block` in the place of the named table; raises when there is no such place, or two."""
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise RecordError(f"{path} cannot be read: {error.strerror}") from error
    if text.count(begin) != 1 or text.count(end) != 1 or text.index(end) < text.index(begin):
        raise RecordError(f"{path} must hold {begin} and after it {end}, once each: the table goes between them")
    return f"{text.split(begin)[0]}{begin}\n{block}\n{end}{text.split(end)[1]}".encode()


def make_room(path: Path) -> Path:
    """The lock of a file of records; raises where such a file cannot be written."""
    lock = path.with_name(f".{path.name}.lock")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.touch()
        tempfile.TemporaryFile(dir=path.parent).close()  # the lock may be there, and the folder read-only
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror}; give another --results") from error
    return lock


def collect(path: Path, record: dict[str, Any]) -> None:
    """Puts a record into a file of records, one a line, in the place of an older one of the very same run.

    A line that cannot be read stays as it is: whoever finds it damaged may still want to mend it.
    """
    with make_room(path).open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lines = path.read_bytes().splitlines() if path.exists() else []
        kept: dict[Any, bytes] = {_id(line) or number: line for number, line in enumerate(lines)}
        try:
            kept[record["id"]] = json.dumps(signed(record), allow_nan=False).encode()
        except ValueError as error:
            raise RecordError(f"{record['id']} cannot be recorded: {error}") from None
        replace(path, b"".join(line + b"\n" for line in kept.values()))


def remove(path: Path, name: str) -> None:
    """Takes the record with this id out of a file of records, if it is there; the last one takes the file with it."""
    if not path.exists():
        return
    with make_room(path).open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lines = path.read_bytes().splitlines()
        kept = [line for line in lines if _id(line) != name]
        if not kept:
            path.unlink()
        elif kept != lines:
            replace(path, b"".join(line + b"\n" for line in kept))


def read_lines(path: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """The records of a file that holds one a line, and what is wrong with lines that hold none of ours."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise RecordError(f"there are no records to read at {path}: {error.strerror}") from error
    found, faults = [], []
    for number, line in enumerate(lines, start=1):
        record = _parsed(line)
        if record is None or "kind" not in record or not isinstance(record.get("id"), str):
            faults.append(f"{path}:{number} is damaged: it must be one JSON object with kind and id; it is left out")
        elif record.get("format", 1) != FORMAT:
            theirs = f"format {record['format']}, and this srnn reads format {FORMAT}"
            faults.append(f"{path}:{number} is of another version: {theirs}; it is left out")
        elif is_altered(record):
            faults.append(f"{path}:{number} is altered: its content does not fit its digest; it is left out")
        else:
            found.append(_unsigned(record))
    return found, faults


def read_folder(folder: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """The same of all files of records in a folder."""
    found: list[dict[str, Any]] = []
    faults: list[str] = []
    for path in sorted(folder.glob("*.jsonl")):
        good, bad = read_lines(path)
        found += good
        faults += bad
    return found, faults


def read_all(path: Path) -> list[dict[str, Any]]:
    """The records of a file that holds one a line; an error where a line holds none."""
    found, faults = read_lines(path)
    if faults:
        raise RecordError("; ".join(fault.removesuffix("; it is left out") for fault in faults))
    return found


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _id(line: bytes) -> str | None:
    """The id of the record on a line; None where it holds none."""
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
    """The commit of these sources, and whether anything but what is made of records (results, documents) differs from it."""
    commit, dirty = None, None
    if _git("ls-files", "--error-unmatch", Path(__file__).name):  # else installed inside a repository that is not ours
        commit = _git("rev-parse", "HEAD")
        made = (f":(top,exclude){name}" for name in ("results", "README.md", "docs"))
        dirty = _git("status", "--porcelain", "--", ":/", *made)
    return {"id": commit or UNKNOWN, "dirty": UNKNOWN if dirty is None else dirty != ""}


def _git(*arguments: str) -> str | None:
    """What git says about the package's folder; None without git or outside a repository."""
    command = ["git", "-C", str(Path(__file__).parent), *arguments]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
