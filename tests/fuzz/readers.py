"""Every file reader, given files that were damaged at random: it reads them, or one of our errors says on one line why not."""

import copy
import gzip
import io
import json
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import test_faults
from hypothesis import strategies as st
from rich.console import Console
from scans import registry

from srnn.lab.cli import runs
from srnn.lab.cli.eval import evaluate_run
from srnn.lab.data import mnist, speech, text
from srnn.lab.records import record, store
from srnn.lab.records.folder import RunFolder, load_tensors, save_tensors
from srnn.lab.training import loop
from srnn.lab.training.checkpoint import Checkpoint

TARGETS, target = registry()
Reader = Callable[[Path], Any]


@cache
def run_files() -> dict[str, bytes]:
    """The files of a finished run."""
    with tempfile.TemporaryDirectory() as folder:
        loop.train(test_faults.tiny(steps=4, eval_every=2), Path(folder))
        return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def quiet() -> Console:
    return Console(file=io.StringIO())


# Name of a file, its right content, and how it is read. Those of a run are read with the other files of the run next to them.
FORMATS: dict[str, tuple[str, Callable[[], bytes], Reader]] = {
    **{kind: about[:3] for kind, about in test_faults.FORMATS.items()},
    "idx.gz": (
        f"{test_faults.LABELS}.gz",
        lambda: gzip.compress(test_faults.DIGITS, mtime=0),
        lambda path: mnist.read(path, test_faults.LABELS),
    ),
    "text": ("a.txt", lambda: "the quick brown dög".encode(), text.load),
    "digest": (
        "manifest.tsv",
        lambda: test_faults.MANIFEST,
        lambda path: (test_faults.read_manifest(path), speech.fingerprint(path.parent)),
    ),
    "features": ("a.safetensors", test_faults.checkpoint, lambda path: speech._recall(path, "")),
}
RUN: dict[str, tuple[str, Reader]] = {
    "metrics": ("metrics.jsonl", lambda path: RunFolder(path.parent).read_metrics()),
    "checkpoint": ("checkpoint.safetensors", Checkpoint.read),
    "record": ("record.json", record.load),
    "records": ("record.json", lambda path: record.read(_as_lines(path))),
    "settings": ("run.json", lambda path: loop.read_run(path.parent)),
    "model": ("model.safetensors", lambda path: evaluate_run(path.parent, None, quiet())),
    "list": ("run.json", lambda path: runs.list_runs(path.parent.parent, quiet())),
}


def _as_lines(path: Path) -> Path:
    """The folder of a record, which is now also in a file of records."""
    (path.parent / "copy.jsonl").write_bytes(path.read_bytes().replace(b"\n", b"") + b"\n")
    return path.parent


TOKENS = [b"", b"\0", b"\xff" * 4, b"\t", b"\n", b"\r\n", b'"', b"{", b"[" * 2000, b"null", b"NaN", b"1e999", b"-1", b"9" * 400]
TOKENS += [b"../", b"a" * 300, "\u2028".encode(), b"\xed\xa0\x80", b"RIFF", b"NIST_1A\n", b"fLaC"]
edits = st.lists(
    st.tuples(st.floats(0, 1), st.floats(0, 0.2), st.one_of(st.sampled_from(TOKENS), st.binary(max_size=12))), max_size=4
)


def edited(content: bytes, changes: list[tuple[float, float, bytes]]) -> bytes:
    """The content with parts of it replaced; each change has a place, a length and the new bytes."""
    for place, length, new in changes:
        start = int(place * len(content))
        content = content[:start] + new + content[start + int(length * len(content)) :]
    return content


def read(reader: Reader, path: Path) -> None:
    word, found = test_faults.outcome(reader, path)
    assert word == "read" or (found and "\n" not in found), found


@target(kind=st.sampled_from(sorted(FORMATS)), changes=edits, start=st.sampled_from(sorted(FORMATS)), own=st.booleans())
def data_files(kind: str, changes: list[tuple[float, float, bytes]], start: str, own: bool) -> None:
    """Bytes replaced anywhere in a file of this kind, or of another kind under its name."""
    name, _, reader = FORMATS[kind]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(edited(FORMATS[kind if own else start][1](), changes))
        read(reader, path)


values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**65), 2**65), st.floats(), st.text(max_size=5), st.just("srnn")),
    lambda each: st.one_of(st.lists(each, max_size=3), st.dictionaries(st.text(max_size=3), each, max_size=2)),
    max_leaves=4,
)


@st.composite
def altered(draw: Any, plain: Any) -> Any:
    """JSON in which a value somewhere is another one, or is gone."""
    plain = copy.deepcopy(plain)
    place = plain
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = draw(st.sampled_from(keys))
        if isinstance(place[key], dict | list) and place[key] and draw(st.booleans()):
            place = place[key]
            continue
        if draw(st.booleans()):
            place[key] = draw(values)
        else:
            del place[key]
        return plain


@target(kind=st.sampled_from(sorted(RUN)), changes=st.one_of(st.none(), edits), data=st.data())
def run_folders(kind: str, changes: list[tuple[float, float, bytes]] | None, data: Any) -> None:
    """A file of a run with bytes replaced, or with values replaced and a right digest, as another program might write it."""
    name, reader = RUN[kind]
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent) / "run"
        folder.mkdir()
        for each, content in run_files().items():
            (folder / each).write_bytes(content)
        path = folder / name
        if changes is not None:
            path.write_bytes(edited(path.read_bytes(), changes))
        elif name.endswith(".json"):
            plain = json.loads(path.read_bytes())
            plain.pop("sha256")
            store_anyway(path, data.draw(altered(plain)))
        elif name.endswith(".jsonl"):
            lines = [json.loads(line) for line in path.read_bytes().splitlines()]
            path.write_bytes("".join(json.dumps(line) + "\n" for line in data.draw(altered(lines))).encode())
        else:
            tensors, plain = load_tensors(path)
            gone = data.draw(st.sampled_from([*tensors, None]))
            tensors = {each: tensor for each, tensor in tensors.items() if each != gone}
            save_anyway(path, tensors, data.draw(altered(plain)) if plain else plain)
        read(reader, path)


def store_anyway(path: Path, plain: Any) -> None:
    """Writes a record with a right digest; NaN is written as JSON's readers in Python take it."""
    path.write_text(json.dumps(store.signed(plain)), encoding="utf-8")


def save_anyway(path: Path, tensors: Any, plain: Any) -> None:
    """Writes tensors and plain values with a right digest; numbers that JSON does not have are left out."""
    save_tensors(path, tensors, json.loads(json.dumps(plain), parse_constant=lambda _: None))
