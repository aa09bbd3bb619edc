"""Faults, many of them: processes killed anywhere, disks that fill at any byte, files cut, flipped and swapped, bad arguments.

Run by `make faults`. Each counts what it tried and what was survived; the table at the end must show nothing lost.
"""

import errno
import hashlib
import io
import json
import math
import multiprocessing
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import hypothesis
import numpy
import pytest
import soundfile
import torch
from hypothesis import strategies as st
from rich.console import Console

from srnn.errors import DataError, RecordError, SRNNError, StorageError
from srnn.kernels import shuffle_scan
from srnn.lab import report
from srnn.lab.data import corpus, mnist, speech
from srnn.lab.paper.plan import Plan
from srnn.lab.records import store
from srnn.lab.records.folder import RunFolder, load_tensors, save_tensors
from srnn.lab.training import loop
from srnn.lab.training.checkpoint import Checkpoint
from srnn.lab.training.recipes import from_dict, make_run
from srnn.lab.training.run import Run

pytestmark = pytest.mark.faults
KILLS = 25
TRIED: Counter[str] = Counter()
SURVIVED: Counter[str] = Counter()


@pytest.fixture(scope="module", autouse=True)
def summary() -> Iterator[None]:
    """Prints the table, and puts it into the file that $SRNN_FAULTS names."""
    yield
    rows = [(name, TRIED[name], SURVIVED[name], TRIED[name] - SURVIVED[name]) for name in TRIED]
    rows.append(("all", *(sum(column) for column in zip(*(row[1:] for row in rows), strict=True))))  # type: ignore[arg-type]
    lines = [("fault", "tried", "survived", "lost"), ("---", "--:", "--:", "--:"), *rows]
    table = "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)
    print(f"\n{table}")
    if path := os.environ.get("SRNN_FAULTS"):
        store.replace(Path(path), store.filled(Path(path), "faults", table))


def survived(name: str, times: int = 1) -> None:
    SURVIVED[name] += times


def tried(name: str, times: int = 1) -> None:
    TRIED[name] += times


def tiny(**settings: Any) -> Run:
    small: dict[str, Any] = {"length": 5, "hidden_size": 3, "mlp": (2,), "batch_size": 2, "steps": 20}
    return make_run("copy", "srnn", **(small | settings))


# Processes that are killed. The server that they are forked from has torch already, so each begins at once.


@pytest.fixture(scope="module")
def forks() -> Any:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["srnn.lab.training.loop", "srnn.lab.report"])
    return context


def go_on(plain: dict[str, Any], folder: Path) -> None:
    loop.train(from_dict(plain), folder, checkpoint_every=0.01)


def result_of(folder: Path) -> tuple[Any, ...]:
    """Everything a run ends with but its times."""
    record = store.read(folder / "record.json")
    weights = {name: tensor.tolist() for name, tensor in load_tensors(folder / "model.safetensors")[0].items()}
    losses = [entry["losses"] for entry in RunFolder(folder).read_metrics()]
    return record["training"], record["curve"]["loss"], weights, losses


def checkpoints(folder: Path) -> list[int]:
    """When those below a folder were written."""
    return [path.stat().st_mtime_ns for path in sorted(folder.rglob("checkpoint.safetensors"))]


def wait_for_another(before: list[int], folder: Path, is_alive: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while checkpoints(folder) == before:
        assert is_alive(), "it was over before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.005)


def is_running(process: subprocess.Popen[bytes]) -> bool:
    return process.poll() is None


def test_a_run_is_killed_anywhere(forks: Any, tmp_path: Path) -> None:
    endless, parts, rng = tiny(steps=1_000_000, dropout=0.2), tmp_path / "parts", random.Random(1)
    for kill in range(KILLS):
        before = checkpoints(parts)
        process = forks.Process(target=go_on, args=(endless.as_dict(), parts))
        process.start()
        if kill % 2:  # in the middle of training; else anywhere, at its beginning too
            wait_for_another(before, parts, process.is_alive)
        time.sleep(rng.random() * 0.2)
        assert process.is_alive()
        process.kill()
        process.join()
        tried("SIGKILL of a run")
    reached = Checkpoint.read(RunFolder(parts).checkpoint).position.step
    run = replace(endless, steps=reached + 200)
    go_on(run.as_dict(), parts)
    loop.train(run, tmp_path / "whole")
    assert result_of(parts) == result_of(tmp_path / "whole")
    assert store.read(parts / "record.json")["resumed"] >= KILLS // 2
    survived("SIGKILL of a run", KILLS)


REPRODUCTION = """
from pathlib import Path
from rich.console import Console
from srnn.lab.scheduling.processes import Processes
from srnn.lab.scheduling.scheduler import Scheduler
from srnn.lab.training.recipes import make_run

if __name__ == "__main__":
    runs = [make_run("copy", "srnn", length=5, hidden_size=3, batch_size=2, steps=4000, seed=seed) for seed in range(4)]
    left = {run.id: run for run in runs}
    engine = Processes(2, checkpoint_every=0.01)
    Scheduler(left, dict.fromkeys(left, 1.0), Path("runs"), Path("results"), Console(), engine).work()
"""


def test_a_reproduction_with_two_jobs_is_killed_anywhere(tmp_path: Path) -> None:
    rng, outcomes = random.Random(2), {}
    for name in ("whole", "parts"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "program.py").write_text(REPRODUCTION)
        for kill in range(KILLS if name == "parts" else 0):
            before = checkpoints(folder)
            command = [sys.executable, "program.py"]
            process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, start_new_session=True)
            if kill % 2:
                wait_for_another(before, folder, partial(is_running, process))
            time.sleep(rng.random() * (0.2 if kill % 2 else 4))
            assert is_running(process), "it was over before it could be killed"
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            tried("SIGKILL of a reproduction")
        subprocess.run([sys.executable, "program.py"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        found = store.read_all(folder / "results" / "copy.jsonl")
        outcomes[name] = {record["id"]: (record["training"], record["curve"]["loss"]) for record in found}
        assert len(found) == len(outcomes[name]) == 4
    assert sum(record["resumed"] for record in found) >= KILLS // 2  # of the parts, which stand last
    assert outcomes["parts"] == outcomes["whole"]
    survived("SIGKILL of a reproduction", KILLS)


def build(results: Path, out: Path) -> None:
    report.make(results, out, Console(file=io.StringIO()), plan=Plan())


def test_a_report_is_killed_anywhere(forks: Any, tmp_path: Path) -> None:
    results = tmp_path / "results"
    record = loop.train(make_run("copy", "srnn", length=100, steps=20_000, minutes=0.001), tmp_path / "run")
    store.collect(results / "copy.jsonl", record.to_json() | {"id": make_run("copy", "srnn", length=100).id})
    build(results, tmp_path / "whole")
    page, rng = tmp_path / "out" / "index.html", random.Random(3)
    whole = (tmp_path / "whole" / "index.html").read_bytes()
    start = time.monotonic()
    build(results, tmp_path / "timed")
    seconds = time.monotonic() - start
    kills = 0
    while kills < KILLS:
        process = forks.Process(target=build, args=(results, tmp_path / "out"))
        process.start()
        time.sleep(rng.random() * seconds)
        if not process.is_alive():  # it was quicker this time
            continue
        process.kill()
        process.join()
        kills += 1
        tried("SIGKILL of a report")
        assert not page.exists() or page.read_bytes() == whole
        survived("SIGKILL of a report")
    build(results, tmp_path / "out")
    assert page.read_bytes() == whole


# Disks that fill.


@contextmanager
def full_file(size: int) -> Iterator[None]:
    """Files that cannot grow beyond so many bytes, by the system's own limit: it writes what fits, and then refuses."""
    before, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def outcome(read: Callable[[Path], Any], path: Path) -> tuple[str, Any]:
    """What a reader says: "read" and what it read, or "refused" and an error of ours; another error is its own."""
    try:
        return "read", read(path)
    except SRNNError as error:
        return "refused", str(error)


def test_a_disk_that_fills_at_any_byte_of_a_checkpoint(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop.Training, "_finish", lambda *about: {})
        loop.train(tiny(hidden_size=1, mlp=(1,)), tmp_path)
    path = tmp_path / "checkpoint.safetensors"
    before = path.read_bytes()
    tensors, state = load_tensors(path)
    for after in range(len(before)):
        tried("ENOSPC in a checkpoint")
        with full_file(after), pytest.raises(StorageError, match="File too large"):
            save_tensors(path, tensors, state)
        assert path.read_bytes() == before
        assert not list(tmp_path.glob(".*"))
        survived("ENOSPC in a checkpoint")


def test_a_disk_that_fills_at_any_byte_of_a_file_of_records(tmp_path: Path) -> None:
    path = tmp_path / "copy.jsonl"
    for name in ("a", "b"):
        store.collect(path, {"kind": "run", "id": name, "numbers": [1, 2]})
    before = path.read_bytes()
    new = {"kind": "run", "id": "c", "numbers": [3]}
    for after in range(len(json.dumps(store.signed(new))) + 1):
        tried("ENOSPC in a file of records")
        with (
            full_file(len(before) + after),
            pytest.raises(StorageError, match=r"copy\.jsonl cannot be written: File too large"),
        ):
            store.collect(path, new)
        assert path.read_bytes() == before
        survived("ENOSPC in a file of records")
    for after in range(len(before) // 2):  # one of two equally long lines is written again
        tried("ENOSPC in a file of records")
        with full_file(after), pytest.raises(StorageError, match="File too large"):
            store.remove(path, "a")
        assert path.read_bytes() == before
        survived("ENOSPC in a file of records")


def test_a_disk_that_fills_at_any_byte_of_the_metrics(tmp_path: Path) -> None:
    place, entry = RunFolder(tmp_path), {"step": 7, "losses": [0.25] * 7, "seconds": 1.5}
    place.append_metrics(entry)
    length = place.metrics_length()
    for after in range(length):
        tried("ENOSPC in metrics")
        with full_file(length + after), pytest.raises(StorageError, match=r"metrics\.jsonl cannot be written: File too large"):
            place.append_metrics(entry)
        assert place.metrics.stat().st_size == length + after  # a part of the line is there
        place.cut_metrics(length)
        assert place.read_metrics() == [entry]
        survived("ENOSPC in metrics")


# Files that are cut, flipped and swapped.


def idx(array: Any) -> bytes:
    array = numpy.asarray(array, numpy.uint8)
    return bytes([0, 0, 8, array.ndim]) + b"".join(size.to_bytes(4, "big") for size in array.shape) + array.tobytes()


def sphere(samples: Any) -> bytes:
    head = f"NIST_1A\n   1024\nsample_count -i {len(samples)}\nsample_n_bytes -i 2\nchannel_count -i 1\n"
    head += "sample_byte_format -s2 01\nsample_rate -i 8000\nsample_coding -s3 pcm\nend_head\n"
    return head.encode().ljust(1024) + samples.astype("<i2").tobytes()


def audio(kind: str, gain: int = 1) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, SAMPLES * gain, 8000, format=kind, subtype="PCM_16")
    return file.getvalue()


SAMPLES = numpy.random.default_rng(0).integers(-3000, 3000, 600).astype(numpy.int16)
MANIFEST = b"utterance\tsplit\tsamples\nu1\ttrain\t600\nu2\ttest\t600\n"


def checkpoint() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        save_tensors(Path(folder) / "x", {"w": torch.arange(6.0)}, {"step": 3})
        return (Path(folder) / "x").read_bytes()


def signed(indent: int | None) -> bytes:
    record = store.signed({"kind": "run", "id": "a", "curve": {"loss": [0.25, 0.125]}, "updates": 20})
    return json.dumps(record, indent=indent).encode() + b"\n"


def read_manifest(path: Path) -> Any:
    (path.parent / "u1.wav").write_bytes(audio("WAV"))
    (path.parent / "u2.wav").write_bytes(audio("WAV", gain=2))
    return [(each.key, each.split, each.samples) for each in corpus.utterances(path.parent)]


def read_lines(path: Path) -> Any:
    found, faults = store.read_lines(path)
    if faults or not found:
        raise RecordError("; ".join(faults) or "there is no record in it")
    return found


LABELS, DIGITS = "t10k-labels-idx1-ubyte", idx(numpy.arange(90) % 10)


def read_digits(path: Path) -> Any:
    """The labels of an MNIST of 90 digits."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(mnist.FILES, LABELS, ((90,), hashlib.sha256(DIGITS).hexdigest()))
        return mnist.read(path, LABELS).tolist()


# Name of a file, its right content, how it is read, and whether a reader by itself can see that a bit is not as it was. Where
# it cannot, the digest of the data can.
FORMATS: dict[str, tuple[str, Callable[[], bytes], Callable[[Path], Any], bool]] = {
    "idx": (LABELS, lambda: DIGITS, read_digits, True),
    "flac": ("a.flac", lambda: audio("FLAC"), lambda path: speech.read(path).tolist(), True),
    "wav": ("u1.wav", lambda: audio("WAV"), lambda path: speech.read(path, 600).tolist(), False),
    "sphere": ("u1.wav", lambda: sphere(SAMPLES), lambda path: speech.read(path, 600).tolist(), False),
    "manifest": ("manifest.tsv", lambda: MANIFEST, read_manifest, False),
    "safetensors": ("a.safetensors", checkpoint, lambda path: [t.tolist() for t in load_tensors(path)[0].values()], True),
    "JSON": ("a.json", lambda: signed(1), store.read, True),
    "JSONL": ("a.jsonl", lambda: signed(None), read_lines, True),
}


def digest(path: Path) -> str:
    """What a run notes of its data, of which this file is a part."""
    return speech.fingerprint(path.parent)


def damages(content: bytes, rng: random.Random) -> Iterator[tuple[str, bytes]]:
    for _ in range(120):
        yield "cut", content[: rng.randrange(len(content))]
    for _ in range(240):
        place = rng.randrange(len(content))
        yield "flipped", content[:place] + bytes([content[place] ^ (1 << rng.randrange(8))]) + content[place + 1 :]
    for name in FORMATS:
        yield "swapped", FORMATS[name][1]()


@pytest.mark.parametrize("kind", FORMATS)
def test_a_damaged_file_is_refused_or_does_no_harm(kind: str, tmp_path: Path) -> None:
    """What is read is right, or an error of ours; where a format cannot know, the digest of the data knows."""
    name, make, read, knows = FORMATS[kind]
    path, rng = tmp_path / name, random.Random(4)
    for each, other in (("manifest.tsv", MANIFEST), ("u1.wav", audio("WAV")), ("u2.wav", audio("WAV", gain=2))):
        (tmp_path / each).write_bytes(other)  # a corpus, of which it may be a part
    content = make()
    path.write_bytes(content)
    right, whole = read(path), digest(path)
    for how, damaged in damages(content, rng):
        if damaged == content:
            continue
        tried(f"{kind} {how}")
        path.write_bytes(damaged)
        word, found = outcome(read, path)
        if word == "refused":
            assert found
            assert "\n" not in found
        else:
            assert found == right or (not knows and outcome(digest, path) != ("read", whole)), (how, found)
            assert how != "cut" or found == right or kind == "manifest"  # whose last lines may be missing
        survived(f"{kind} {how}")


@pytest.mark.parametrize("kind", ["wav", "sphere", "manifest"])
def test_data_with_a_flipped_bit_have_another_digest(kind: str, tmp_path: Path) -> None:
    """These carry no checksum of their own: a run notes that of all it read, and so do features."""
    (tmp_path / "manifest.tsv").write_bytes(MANIFEST)
    for gain in (1, 2):
        content = sphere(SAMPLES * gain) if kind == "sphere" else audio("WAV", gain)
        (tmp_path / f"u{gain}.wav").write_bytes(content)
    whole, rng = speech.fingerprint(tmp_path), random.Random(5)
    path = tmp_path / ("manifest.tsv" if kind == "manifest" else "u1.wav")
    content = path.read_bytes()
    for _ in range(100):
        place = rng.randrange(len(content))
        path.write_bytes(content[:place] + bytes([content[place] ^ (1 << rng.randrange(8))]) + content[place + 1 :])
        tried(f"{kind} flipped, by digest")
        assert outcome(speech.fingerprint, tmp_path) != ("read", whole)
        survived(f"{kind} flipped, by digest")


def test_digits_with_a_flipped_bit_are_refused(tmp_path: Path) -> None:
    """An idx file has no checksum either: those of MNIST are known."""
    rng, (name, (shape, _)) = random.Random(8), next(item for item in mnist.FILES.items() if len(item[1][0]) == 1)
    content = idx(numpy.arange(shape[0]) % 10)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(mnist.FILES, name, (shape, hashlib.sha256(content).hexdigest()))
        mnist._verify(name, content, name)
        for _ in range(100):
            place = rng.randrange(len(content))
            tried("MNIST flipped, by digest")
            with pytest.raises(DataError, match=f"is not MNIST's {name}"):
                mnist._verify(
                    name, content[:place] + bytes([content[place] ^ (1 << rng.randrange(8))]) + content[place + 1 :], name
                )
            survived("MNIST flipped, by digest")


def test_metrics_with_a_flipped_bit_are_refused(tmp_path: Path) -> None:
    run, rng = tiny(steps=40, eval_every=10), random.Random(6)
    loop.train(run, tmp_path)
    content = (tmp_path / "metrics.jsonl").read_bytes()
    for _ in range(30):
        place = rng.randrange(len(content))
        (tmp_path / "metrics.jsonl").write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        tried("metrics flipped")
        with pytest.raises(RecordError, match=r"metrics\.jsonl is altered"):
            loop.train(tiny(steps=50, eval_every=10), tmp_path)
        survived("metrics flipped")


# What else.


def test_a_run_survives_a_clock_that_jumps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loop.train(tiny(), tmp_path / "whole")
    rng, real = random.Random(7), time.monotonic
    for number in range(10):
        tried("a clock that jumps")
        with monkeypatch.context() as patch:
            patch.setattr(time, "monotonic", lambda: real() + rng.choice([0, 1e6, -1e6]))
            record = loop.train(tiny(), tmp_path / str(number))
        assert record.seconds >= 0
        assert result_of(tmp_path / str(number)) == result_of(tmp_path / "whole")
        survived("a clock that jumps")


def compete(plain: dict[str, Any], folder: Path, line: Any) -> None:
    try:
        loop.train(from_dict(plain), folder)
        line.send("done")
    except StorageError as error:
        line.send(str(error))


def test_only_one_process_works_in_a_folder(forks: Any, tmp_path: Path) -> None:
    for number in range(10):
        tried("two processes on one folder")
        lines, processes = [], []
        for _ in range(2):
            ours, theirs = forks.Pipe()
            process = forks.Process(target=compete, args=(tiny(steps=3000).as_dict(), tmp_path / str(number), theirs))
            process.start()
            lines.append(ours)
            processes.append(process)
        said = [line.recv() for line in lines]
        for process in processes:
            process.join()
        assert all(word == "done" or "is in use by another process" in word for word in said)
        assert "done" in said
        assert store.read(tmp_path / str(number) / "record.json")["updates"] == 3000
        survived("two processes on one folder")


def test_results_that_cannot_be_written_are_one_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*about: Any, **more: Any) -> Any:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    for place, name in ((Path, "mkdir"), (Path, "touch"), (tempfile, "TemporaryFile")):
        tried("a read-only folder of results")
        with monkeypatch.context() as patch:
            patch.setattr(place, name, refused)
            with pytest.raises(StorageError, match=r"Read-only file system\. Give another --results"):
                store.collect(tmp_path / "results" / "copy.jsonl", {"kind": "run", "id": "a"})
        survived("a read-only folder of results")


# Arguments and contents that make no sense.

MANY: Any = {"deadline": None, "database": None, "suppress_health_check": list(hypothesis.HealthCheck), "derandomize": True}
DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.uint8, torch.bool]


@st.composite
def tensors(draw: Any) -> Any:
    shape = draw(st.lists(st.integers(0, 4), max_size=4))
    dtype = draw(st.sampled_from([*DTYPES, torch.complex64, torch.int8]))
    values = draw(st.lists(st.integers(-3, 6), min_size=math.prod(shape), max_size=math.prod(shape)))
    return torch.tensor(values, dtype=torch.float64).to(dtype).reshape(shape)


anything = st.one_of(st.none(), tensors())


@hypothesis.settings(max_examples=6000, **MANY)
@hypothesis.given(
    b=tensors(),
    h0=anything,
    ids=anything,
    permutation=anything,
    lengths=anything,
    reverse=st.booleans(),
    final=st.booleans(),
    activation=st.sampled_from(["relu", "tanh", "gelu", ""]),
    backend=st.sampled_from(["auto", "native", "torch", "reference", "cuda", ""]),
)
def test_invalid_arguments_of_shuffle_scan_are_refused(b: Any, **arguments: Any) -> None:
    word, found = outcome(lambda _: shuffle_scan(b, **arguments), Path())
    if word == "read":  # they were good
        assert found.dtype == b.dtype
        return
    tried("bad arguments of shuffle_scan")
    assert found
    survived("bad arguments of shuffle_scan")


@hypothesis.settings(max_examples=900, **MANY)
@hypothesis.given(kind=st.sampled_from(sorted(FORMATS)), content=st.binary(max_size=2000), keep=st.integers(0, 1200))
def test_random_file_contents_are_refused(
    kind: str, content: bytes, keep: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Any bytes, alone or after a good beginning; each is tried with all that it may be taken for."""
    for other in FORMATS:
        name, right, read, knows = FORMATS[other]
        path = tmp_path_factory.mktemp("fuzz", numbered=True) / name
        path.write_bytes(FORMATS[kind][1]()[:keep] + content)
        written = path.read_bytes()
        word, found = outcome(read, path)
        tried("bad contents of files")
        if word == "refused":
            assert found
            assert "\n" not in found
        elif knows:  # it can tell its own from others: nothing but the right thing is read
            path.write_bytes(right())
            assert found == read(path)
        else:  # samples, pixels or names that might have been meant: no more of them than there are bytes
            assert len(found) <= len(written)
        survived("bad contents of files")
        for left in path.parent.iterdir():
            left.unlink()
        path.parent.rmdir()
