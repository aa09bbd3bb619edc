"""The data sets: what they are, where they are searched for, which are here, and how to get the others.

A data set is a folder of its name in one of `folders()`: those given to `look_in`, those of $SRNN_DATA, then the user's cache.
"""

import os
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import platformdirs
from rich.console import Console
from rich.markup import escape
from rich.text import Text

from srnn.errors import DataError, one_of
from srnn.lab.data import corpus, mnist, text
from srnn.lab.terminal import print_table, say


@dataclass(frozen=True)
class DataSet:
    """What is known about a data set that is not here; `looked_for` is what identifies its folder."""

    name: str
    title: str
    licence: str
    size: str
    how_to_get: str
    looked_for: str


_POINT = "point at it with --data FOLDER or SRNN_DATA=FOLDER, where FOLDER/{} is the copy or a link to it"

CATALOGUE = {
    one.name: one
    for one in (
        DataSet(
            "mnist",
            "MNIST, 70,000 handwritten digits",
            "CC BY-SA 3.0",
            "11 MB, unpacked 55 MB",
            "Download it with: srnn data mnist",
            f"one of {', '.join(mnist.FILES)}, raw or .gz",
        ),
        DataSet(
            "speech",
            "any speech with a manifest, such as a part of speechocean762",
            "its own (speechocean762: Apache 2.0)",
            "some 100 MB",
            "Make manifest.tsv with the columns utterance and split, put NAME.flac or NAME.wav next to it, and "
            + _POINT.format("speech"),
            corpus.LOOKED_FOR["speech"],
        ),
        DataSet(
            "timit",
            "TIMIT, 6300 read sentences (LDC93S1)",
            "LDC, for a fee",
            "some 600 MB",
            "It is licensed by the LDC and cannot be downloaded. Get a copy and " + _POINT.format("timit"),
            corpus.LOOKED_FOR["timit"],
        ),
        DataSet(
            "timit-sample",
            "NLTK's sample of TIMIT, 160 utterances",
            "CC BY-NC-SA",
            "some 16 MB",
            "It is not downloaded from here. Get 'timit' of NLTK's data and " + _POINT.format("timit-sample"),
            corpus.LOOKED_FOR["timit-sample"],
        ),
        DataSet(
            "text",
            "one file of plain text, such as tiny Shakespeare",
            "its own (Shakespeare: public domain)",
            "some 1 MB",
            "Put a UTF-8 file NAME.txt into a folder called text and " + _POINT.format("text"),
            "a file that ends in .txt",
        ),
    )
}

_given: tuple[Path, ...] = ()


def look_in(*given: Path) -> None:
    """Search these folders before those of $SRNN_DATA and the cache, in the place of those given before.

    Worker processes do not inherit this: schedulers send them `given()` with each run.
    """
    global _given
    _given = given


def given() -> list[str]:
    """Return the folders of `look_in` as absolute paths, for a process that runs elsewhere."""
    return [str(folder.resolve()) for folder in _given]


def folders() -> list[Path]:
    """Return the folders that are searched for data sets, in order."""
    named = [Path(entry).expanduser() for entry in os.environ.get("SRNN_DATA", "").split(os.pathsep) if entry]
    return [*_given, *named, _cache()]


def find(name: str) -> Path:
    """Return the folder of a data set: the first that has its name, in upper or lower case, and its files.

    Raises:
        DataError: The data set is in none of the folders. The error says how to get it.
    """
    if (found := _search(name, folders())) is None:
        raise _missing(name, folders())
    return found


def is_here(name: str) -> bool:
    """Return whether `find` would find it."""
    return _search(name, folders()) is not None


def fetch(name: str, folder: Path | None, console: Console) -> Path:
    """Check a data set and print what is there. Missing files of MNIST are downloaded.

    Args:
        name: The data set.
        folder: Search only here, and download to here; None for `folders()` and the cache.
        console: Where to print.
    """
    places = folders() if folder is None else [folder]
    found = _search(name, places)
    if name == "mnist":
        found = found or (folder or _cache()) / name
        mnist.download(found, console)
    if found is None:
        raise _missing(name, places)
    say(console, f"{name}: {_examine(name, found)}, in {found}")
    return found


def status() -> list[dict[str, Any]]:
    """Return for each data set what the catalogue says, its state (ready, damaged or missing), its folder, and details."""
    report = []
    for name, known in CATALOGUE.items():
        where = _search(name, folders())
        entry = {**asdict(known), "state": "missing", "where": None, "detail": known.how_to_get}
        if where is not None:
            try:
                entry |= {"state": "ready", "where": str(where), "detail": _examine(name, where)}
            except DataError as error:
                entry |= {"state": "damaged", "where": str(where), "detail": str(error)}
        report.append(entry)
    return report


def show(console: Console) -> None:
    """Print which data sets are here, and how to get the others."""
    colours = {"ready": "green", "damaged": "red", "missing": "yellow"}
    report = status()
    rows = [
        (entry["name"], entry["title"], Text(entry["state"], colours[entry["state"]]), entry["size"], entry["licence"])
        for entry in report
    ]
    print_table(console, ("data set", "what it is", "state", "size", "licence"), rows)
    console.print()
    for entry in report:
        place = f" in {escape(entry['where'])}" if entry["where"] else ""
        line = f"[{colours[entry['state']]}]{entry['name']}[/] is {entry['state']}{place}: {escape(entry['detail'])}"
        console.print(line, highlight=False, soft_wrap=True)
    say(console, f"Looked in {', '.join(map(str, folders()))}")


def _cache() -> Path:
    return platformdirs.user_cache_path("srnn") / "data"


def _search(name: str, places: list[Path]) -> Path | None:
    """Return the first folder that has the set, or None. Copies of TIMIT are called timit, TIMIT and Timit."""
    if name not in CATALOGUE:
        raise one_of("data set", name, CATALOGUE)
    for place in places:
        with suppress(OSError):  # not a folder, or not readable
            for entry in sorted(entry for entry in place.iterdir() if entry.name.lower() == name):
                if _holds(entry, name):
                    return entry
    return None


def _holds(folder: Path, name: str) -> bool:
    if name == "mnist":
        return any(mnist.locate(folder, file) is not None for file in mnist.FILES)
    if name == "text":
        return bool(text.files(folder))
    return corpus.layout(folder) == name


def _missing(name: str, places: list[Path]) -> DataError:
    known = CATALOGUE[name]
    looked = ", ".join(str(place / name) for place in places)
    return DataError(f"{name} ({known.title}) is not in {looked} (looked for {known.looked_for}). {known.how_to_get}")


def check_counts(name: str, folder: Path, counts: dict[str, int]) -> None:
    """Raise a DataError if a split has no utterances, or if TIMIT is not complete."""
    if name == "timit" and counts != corpus.TIMIT_COUNTS:
        raise DataError(
            f"TIMIT in {folder} is incomplete: expected {corpus.TIMIT_COUNTS} utterances, got {counts}. Copy it again"
        )
    if empty := [split for split, number in counts.items() if not number]:
        raise DataError(f"{folder} has no utterances to {'/'.join(empty)} with. A corpus needs some in train, val and test")


def _examine(name: str, folder: Path) -> str:
    """Check a data set and return a summary. Checks the checksums of MNIST and the file names of speech."""
    if name == "mnist":
        mnist.load(folder)
        return "all four files have the right checksums"
    if name == "text":
        path = text.files(folder)[0]
        characters, ids = text.load(path)
        return f"{path.name}, {len(ids):,} characters, {len(characters)} of them different"
    found = corpus.utterances(folder, allow_shared_speakers=True)
    counts = corpus.count(found)
    check_counts(name, folder, counts)
    note = "; splits share speakers, so train with --allow-shared-speakers" if corpus.shared_speaker(found) else ""
    return ", ".join(f"{number} {split}" for split, number in counts.items()) + f" utterances{note}"
