"""A file that is replaced in one step: readers see the old one or the new one, never a part."""

import contextlib
import os
import re
import secrets
from collections.abc import Iterator
from pathlib import Path


def leftovers(path: Path) -> list[Path]:
    """What processes that were killed while they wrote have left beside `path`."""
    ours = re.compile(re.escape(f".{path.name}.") + r"\d+\.[0-9a-f]{8}")
    return [beside for beside in path.parent.iterdir() if ours.fullmatch(beside.name) and beside.is_file()]


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A new file beside `path` to write to; on leaving it is forced to disk and renamed, after an error removed."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        yield beside
        with beside.open("rb+") as file:
            os.fsync(file.fileno())
        os.replace(beside, path)
        folder = os.open(path.parent, os.O_RDONLY)  # so that the new name outlasts a power cut, too
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    finally:
        with contextlib.suppress(OSError):
            beside.unlink()  # there only when something went wrong
