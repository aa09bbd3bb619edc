"""Plain text: one UTF-8 file, read as a sequence of characters."""

from pathlib import Path

import numpy
from numpy.typing import NDArray

from srnn.errors import DataError
from srnn.lab.data.regular import regular

IGNORED = ("source.txt", "readme.txt", "license.txt", "licence.txt")  # files that describe a data set


def files(folder: Path) -> list[Path]:
    """Return the text files of a folder, sorted by name. The first one is the data set."""
    return [path for path in sorted(folder.glob("*.txt")) if path.name.lower() not in IGNORED]


def read(path: Path) -> bytes:
    """Return the content of a file."""
    regular(path)
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None


def decoded(path: Path, content: bytes) -> str:
    """Return the content of a UTF-8 file as text."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text ({error.reason} at byte {error.start}). Convert it to UTF-8 first") from None


def load(path: Path) -> tuple[str, NDArray[numpy.int64]]:
    """Return the distinct characters of a file in sorted order, and the file as indices into them."""
    text = decoded(path, read(path))
    codes = numpy.frombuffer(text.encode("utf-32-le"), dtype=numpy.uint32)
    characters, ids = numpy.unique(codes, return_inverse=True)
    return "".join(map(chr, characters.tolist())), ids.astype(numpy.int64)
