"""The commands that are crashed: what is in their folder before, what they are called with, and what they leave behind."""

import gzip
import hashlib
import itertools
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy

from srnn.lab.data import mnist
from srnn.lab.paper.evidence import Evidence
from srnn.lab.paper.exhibits import EXHIBITS
from srnn.lab.paper.plan import Exhibit, Plan, Point
from srnn.lab.records import store
from srnn.lab.records.folder import load_tensors
from srnn.lab.training.recipes import from_dict, make_run

SIZES = ("length=5", "hidden_size=3", "mlp=2", "batch_size=2", "threads=1")
TINY = [word for size in SIZES for word in ("--set", size)]
NEW = ["train", "copy", *TINY, "--steps", "4", "--eval-every", "2", "--dropout", "0.2", "--checkpoint-every", "0"]
NEW += ["--out", "a", "--results", "records", "--quiet"]
FIRST = ["train", "copy", *TINY, "--steps", "40", "--eval-every", "20", "--out", "a", "--results", "records", "--quiet"]
LONGER = ["train", "--resume", "a", "--steps", "60", "--results", "records", "--quiet"]
# A record has these besides its results: times, where it ran, how often it was resumed, its name. Metrics are digests of times.
VARYING = {"seconds", "cpu_seconds", "started", "finished", "machine", "commit", "commits", "versions", "resumed", "sha256"}
VARYING |= {"metrics", "metrics_bytes", "belongs_to", "versions_used"}
FOREIGN = {
    "other/run.json": "a",
    "records/notes.txt": "b",
    "report/figures/mine.svg": "c",
    "data/mnist/mine": "d",
    "e.json": "e",
}
Play = Callable[[list[str], Path], None]


@dataclass(frozen=True)
class Command:
    """A command line. `prepare` fills its folder; the processes that write there are the roles."""

    name: str
    argv: list[str]
    prepare: Callable[[Path, Play], None] = lambda folder, play: None
    roles: tuple[str, ...] = ("parent",)


def _half_done(folder: Path, play: Play) -> None:
    """A run that was killed after its second update: the files are those of a run with another end, cut there."""
    two = [word if word != "4" else "2" for word in NEW]
    play(two, folder)
    (folder / "a" / "record.json").unlink()
    (folder / "a" / "model.safetensors").unlink()
    (folder / "records" / "copy.jsonl").unlink()
    settings = store.read(folder / "a" / "run.json")
    settings["run"]["steps"] = 4
    store.write(folder / "a" / "run.json", settings | {"id": from_dict(settings["run"]).id})


def _record(folder: Path, play: Play) -> None:
    """One record of an exhibit, so that the report has a figure."""
    play(FIRST, folder)
    record = store.read(folder / "a" / "record.json") | {"id": make_run("copy", "srnn", length=100).id}
    store.collect(folder / "results" / "copy.jsonl", record)
    shutil.rmtree(folder / "a")
    shutil.rmtree(folder / "records")


COMMANDS = [
    Command("a new run", NEW),
    Command("a resumed run", NEW, _half_done),
    Command("a continuation to another end", LONGER, lambda folder, play: play(FIRST, folder)),
    Command("a finished run", NEW, lambda folder, play: play(NEW, folder)),
    Command("a reproduction", ["reproduce", "copy", "--quick", "--jobs", "2"], roles=("parent", "worker 1", "worker 2")),
    Command(
        "a sweep",
        ["sweep", "copy", "--grid", "seed=1,2", *TINY, "--set", "steps=4", "--set", "eval_every=2", "--results", "records"],
        roles=("parent", "worker 1", "worker 2"),
    ),
    Command("data", ["data", "mnist", "--data", "data"]),
    Command("a report", ["report"], _record),
]


def shrink(folder: Path) -> None:
    """Makes MNIST a few digits from a local mirror, and exhibits one table and figure, for which two runs are needed."""
    folder.mkdir()
    for name, (shape, _) in list(mnist.FILES.items()):
        small = (6, *shape[1:])
        content = bytes([0, 0, 8, len(small)]) + b"".join(n.to_bytes(4, "big") for n in small)
        content += (numpy.arange(numpy.prod(small)) % 10).astype(numpy.uint8).tobytes()
        mnist.FILES[name] = (small, hashlib.sha256(content).hexdigest())
        (folder / f"{name}.gz").write_bytes(gzip.compress(content, mtime=0))
    mnist.MIRRORS = (f"{folder.as_uri()}/",)  # type: ignore[assignment]
    points, tables = EXHIBITS["copy"].points, EXHIBITS["copy"].tabulate

    def two(plan: Plan) -> Any:
        found: list[Point] = list(itertools.islice(points(plan), 2))
        return iter(found) if plan.profile == "quick" else points(plan)

    def one(exhibit: Exhibit, evidence: Evidence) -> Any:
        return itertools.islice(figures(exhibit, evidence), 1)

    figures = EXHIBITS["copy"].draw
    for name, exhibit in EXHIBITS.items():
        EXHIBITS[name] = replace(exhibit, tabulate=lambda *_: (), draw=lambda *_: ())
    EXHIBITS["copy"] = replace(EXHIBITS["copy"], points=two, draw=one, tabulate=tables)


def plain(value: Any) -> Any:
    """Returns a value of a record without what differs from run to run."""
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items() if name not in VARYING}
    return [plain(each) for each in value] if isinstance(value, list) else value


def outcome(folder: Path) -> dict[str, Any]:
    """Returns what is in all files below a folder, except locks, and what differs from run to run."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_dir() or path.name == "lock" or path.name.endswith(".lock"):
            continue
        content = path.read_bytes()
        if path.suffix == ".safetensors":
            tensors, state = load_tensors(path)
            found[name] = plain(state), {key: tensor.numpy().tobytes() for key, tensor in tensors.items()}
        elif name in FOREIGN or path.suffix not in (".json", ".jsonl"):
            found[name] = hashlib.sha256(content).hexdigest()
        elif path.name == "metrics.jsonl":
            found[name] = [plain(json.loads(line)) for line in content.splitlines()]
        elif path.suffix == ".jsonl":  # two workers end in any order
            found[name] = {record["id"]: plain(record) for record in store.read_lines(path)[0]}
        else:
            found[name] = plain(json.loads(content))
    return found
