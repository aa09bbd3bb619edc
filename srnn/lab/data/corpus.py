"""Speech corpora in three layouts, as lists of utterances: TIMIT as the LDC ships it, NLTK's sample of it, a manifest.

TRAIN/DR1/FCJF0/SX37.WAV         TIMIT, names in any case
dr1-fvmh0/sx26.wav               NLTK's sample
manifest.tsv, flac/NAME.flac     a table with the columns utterance and split (train, val, test), and speaker if known
"""

import os
import re
import reprlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath, PureWindowsPath

from srnn.errors import DataError

SPLITS = ("train", "val", "test")
LOOKED_FOR = {"speech": "manifest.tsv", "timit": "a folder TRAIN", "timit-sample": "folders like dr1-fvmh0"}

# TIMIT's core test set, 24 speakers, and the usual 50 of the development set. The paper validates on the core test set
# (192 utterances) and tests on the development set (400). The names of the splits are the paper's.
_VAL = """
    mdab0 mwbt0 felc0 mtas1 mwew0 fpas0 mjmp0 mlnt0 fpkt0 mlll0 mtls0 fjlm0 mbpm0 mklt0 fnlp0 mcmj0 mjdh0 fmgd0 mgrt0 mnjm0
    fdhc0 mjln0 mpam0 fmld0
"""
_TEST = """
    faks0 fdac1 fjem0 mgwt0 mjar0 mmdb1 mmdm2 mpdf0 fcmh0 fkms0 mbdg0 mbwm0 mcsh0 fadg0 fdms0 fedw0 mgjf0 mglb0 mrtk0 mtaa0
    mtdt0 mthc0 mwjg0 fnmr0 frew0 fsem0 mbns0 mmjr0 mdls0 mdlf0 mdvc0 mers0 fmah0 fdrw0 mrcs0 mrjm4 fcal1 mmwh0 fjsj0 majc0
    mjsw0 mreb0 fgjd0 fjmg0 mroa0 mteb0 mjfc0 mrjr0 fmml0 mrws1
"""
VAL_SPEAKERS, TEST_SPEAKERS = frozenset(_VAL.split()), frozenset(_TEST.split())
TIMIT_COUNTS = {"train": 3640, "val": 192, "test": 400}

# The sample has no official split; all of it is from TRAIN. We validate and test on a woman and a man each, and train on 12.
SAMPLE_SPEAKERS = {"val": ("falk0", "madc0"), "test": ("fapb0", "mbma1")}


@dataclass(frozen=True)
class Utterance:
    """One recording. `speaker` is empty if unknown. `samples` is its length and `where` its place, if a manifest gives them."""

    key: str
    path: Path
    speaker: str
    split: str
    samples: int | None = None
    where: str = field(default="", compare=False)

    def __str__(self) -> str:
        return f"{reprlib.repr(self.key)} ({self.where or self.path})"


def layout(folder: Path) -> str | None:
    """Return the data set whose layout a folder has: "speech", "timit", "timit-sample" or None."""
    if (folder / "manifest.tsv").is_file():
        return "speech"
    names = [entry.name.lower() for entry in _entries(folder) if entry.is_dir()]
    if "train" in names:
        return "timit"
    return "timit-sample" if any(map(_sample_speaker, names)) else None


def utterances(folder: Path, *, allow_shared_speakers: bool = False) -> list[Utterance]:
    """Return all utterances that are used, in the manifest's order or by name, without the SA sentences that all speakers read.

    Raises:
        DataError: The folder has no corpus, or an incomplete one, or one recording twice, or one speaker in two splits unless
            that is allowed.
    """
    kind = layout(folder)
    if kind is None:
        raise DataError(f"{folder} holds no speech corpus, expected one of: {', '.join(LOOKED_FOR.values())}")
    readers = {"speech": _manifest, "timit": _timit, "timit-sample": _sample}
    found = list(readers[kind](folder))
    if not found:
        raise DataError(f"{folder} has {LOOKED_FOR[kind]}, but no utterances. The copy is incomplete")
    first: dict[str | Path, Utterance] = {}
    for utterance in found:
        for name in (utterance.key, utterance.path):  # a and ./a are two keys of one path
            if (other := first.setdefault(name, utterance)) is not utterance:
                raise DataError(f"{twice(folder, other, utterance)}. Each may be there once")
    if (shared := shared_speaker(found)) and not allow_shared_speakers:
        one, other = shared
        raise DataError(
            f"{folder}: speaker {one.speaker!r} is in {one.split} ({one.where or one.path}) and in {other.split} "
            f"({other.where or other.path}). Give each speaker one split, or pass --allow-shared-speakers if it is meant so"
        )
    return found


def shared_speaker(found: list[Utterance]) -> tuple[Utterance, Utterance] | None:
    """Return the first two utterances of one speaker that are in different splits, or None. Unknown speakers do not count."""
    first: dict[str, Utterance] = {}
    for utterance in found:
        if utterance.speaker and (other := first.setdefault(utterance.speaker, utterance)).split != utterance.split:
            return other, utterance
    return None


def twice(folder: Path, one: Utterance, other: Utterance) -> str:
    """Return the start of the error for two utterances that are one recording."""
    return f"{folder} has one recording twice, {one} and {other}"


def count(found: list[Utterance]) -> dict[str, int]:
    """Return the number of utterances of each split."""
    return {split: sum(utterance.split == split for utterance in found) for split in SPLITS}


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir(), key=lambda entry: (entry.name.lower(), entry.name))
    except OSError:  # not a folder, or not readable
        return []


def _recordings(folder: Path) -> list[Path]:
    """Return NAME.wav in upper or lower case, without SA1 and SA2. NAME.WAV.wav is a converted copy, which is ignored."""
    pattern = re.compile(r"(?!sa)[^.]+\.wav", re.IGNORECASE)
    return [path for path in _entries(folder) if pattern.fullmatch(path.name)]


def _timit(folder: Path) -> Iterator[Utterance]:
    for part in _entries(folder):
        for speaker in (speaker for dialect in _entries(part) for speaker in _entries(dialect)):
            name = speaker.name.lower()
            for path in _recordings(speaker):
                below = path.relative_to(part).with_suffix("").as_posix().lower()
                split = _timit_split(part.name.lower(), name, below)
                if split is not None:
                    yield Utterance(f"{part.name.lower()}/{below}", path, name, split)


def _timit_split(part: str, speaker: str, below: str) -> str | None:
    if part == "train":
        # "sa" anywhere in the path also drops 7 speakers, not only the SA sentences. The published numbers were made this way.
        return "train" if "sa" not in below else None
    if part == "test":
        return "val" if speaker in VAL_SPEAKERS else "test" if speaker in TEST_SPEAKERS else None
    return None


def _sample_speaker(name: str) -> str | None:
    match = re.fullmatch(r"dr[1-8]-([fm][a-z]{3}[0-9])", name.lower())
    return match and match[1]


def _sample(folder: Path) -> Iterator[Utterance]:
    splits = {speaker: split for split, speakers in SAMPLE_SPEAKERS.items() for speaker in speakers}
    for entry in _entries(folder):
        speaker = _sample_speaker(entry.name)
        for path in _recordings(entry) if speaker else ():
            key = path.relative_to(folder).with_suffix("").as_posix().lower()
            yield Utterance(key, path, str(speaker), splits.get(str(speaker), "train"))


def _manifest(folder: Path) -> Iterator[Utterance]:
    table = folder / "manifest.tsv"
    try:
        lines = table.read_text(encoding="utf-8-sig").rstrip().split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{table} cannot be read: {error}. Expected tab-separated text in UTF-8") from error
    columns = lines[0].rstrip("\r").split("\t")
    if not {"utterance", "split"} <= set(columns):
        raise DataError(
            f"the first line of {table} must name the columns utterance and split, separated by tabs, "
            f"got {reprlib.repr(columns)}"
        )
    for number, line in enumerate(lines[1:], start=2):
        fields, where = line.rstrip("\r").split("\t"), f"{table}, line {number}"
        if len(fields) != len(columns):
            raise DataError(f"{where}: expected {len(columns)} fields as in the first line, got {len(fields)}")
        row = dict(zip(columns, fields, strict=True))
        if row["split"] not in SPLITS:
            raise DataError(f"{where}: split must be one of {', '.join(SPLITS)}, got {reprlib.repr(row['split'])}")
        samples = row.get("samples")
        if samples is not None and not re.fullmatch("[0-9]{1,12}", samples):
            raise DataError(f"{where}: samples must be a whole number, got {reprlib.repr(samples)}")
        path = _audio(folder, row["utterance"], where)
        length, speaker = None if samples is None else int(samples), row.get("speaker", "").strip()
        yield Utterance(row["utterance"], path, speaker, row["split"], length, f"line {number} of {table.name}")


def _audio(folder: Path, name: str, where: str) -> Path:
    leaves = any(kind(name).is_absolute() or ".." in kind(name).parts for kind in (PurePosixPath, PureWindowsPath))
    if leaves or not name:
        got = reprlib.repr(name)
        raise DataError(f"{where}: an utterance must be the name of a file inside {folder}, without its ending, got {got}")
    candidates = [folder / place / f"{name}.{ending}" for place in ("flac", "wav", ".") for ending in ("flac", "wav")]
    for path in candidates:
        if os.path.isfile(path):  # Path.is_file raises an error for a name that is too long
            return path
    raise DataError(
        f"{where}: no audio for {reprlib.repr(name)}. Looked for NAME.flac and NAME.wav in {folder}, flac/ and wav/ below it"
    )
