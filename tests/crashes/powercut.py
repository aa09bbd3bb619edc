"""The kinds of crashes, the log of the shim, and what a power cut loses: names or data that were not synced."""

import os
import shutil
from pathlib import Path
from typing import NamedTuple

ERRORS = ("ENOSPC", "EIO", "EACCES")
CUTS = ("power cut, names lost", "power cut, data lost")
HOW = ("killed before", "killed in a write", *ERRORS, *CUTS)


class Operation(NamedTuple):
    """A line of the shim's log."""

    number: int
    kind: str
    path: str
    second: str
    backup: str


def read_log(path: Path) -> list[Operation]:
    """Returns the operations that a process has logged."""
    lines = path.read_text().splitlines() if path.exists() else []
    found = [line.split("\t") for line in lines]
    return [Operation(int(number), *map(_normal, rest)) for number, *rest in found]


def _normal(text: str) -> str:
    return os.path.normpath(text) if text.startswith("/") else text


def lose_names(log: list[Operation]) -> None:
    """Undoes what changed the names in a folder that was not synced afterwards, newest first."""
    synced: set[str] = set()
    for each in reversed(log):
        if each.kind == "fsync":
            synced.add(each.path)
        elif os.path.dirname(each.second if each.kind == "rename" else each.path) not in synced:
            if each.kind in ("rename", "unlink", "rmdir"):
                _undo(each)
            elif each.kind == "mkdir":
                shutil.rmtree(each.path, ignore_errors=True)
            elif each.kind == "open" and each.backup == "created":
                Path(each.path).unlink(missing_ok=True)


def _undo(each: Operation) -> None:
    if each.kind == "rmdir":
        os.makedirs(each.path, exist_ok=True)
        return
    os.makedirs(os.path.dirname(each.path), exist_ok=True)
    if each.kind == "rename":
        if os.path.exists(each.second):
            os.rename(each.second, each.path)
        if each.backup:
            os.rename(each.backup, each.second)
    elif each.backup:
        os.rename(each.backup, each.path)


def lose_data(log: list[Operation], synced: dict[str, int]) -> None:
    """Cuts files to what was synced of them: a new one to nothing, also if it was renamed. `synced` has the sizes before."""
    unsynced: set[str] = set()
    for each in log:
        if each.kind == "open" and each.second == "new":
            synced[each.path] = 0
            unsynced.add(each.path)
        elif each.kind == "write":
            unsynced.add(each.path)
        elif each.kind == "fsync":
            synced[each.path] = int(each.second)
            unsynced.discard(each.path)
        elif each.kind == "rename":
            synced[each.second] = synced.pop(each.path, 0)
            unsynced.discard(each.second)
            if each.path in unsynced:
                unsynced.remove(each.path)
                unsynced.add(each.second)
        elif each.kind == "unlink":
            synced.pop(each.path, None)
            unsynced.discard(each.path)
    for path in unsynced:
        if os.path.isfile(path):
            os.truncate(path, min(synced.get(path, 0), os.path.getsize(path)))
