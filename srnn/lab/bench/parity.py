"""`srnn bench --parity`: how far exported files are from the PyTorch model, for small models that are trained first.

Each model is trained for a few hundred updates and written in every format of `srnn export`. onnxruntime and torch run the
files on sequences of 1, 7 and 1000 steps, and a C compiler compiles the headers. A format without its packages or a compiler is
not run.
"""

import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy
import torch
from rich.console import Console

from srnn.lab.bench.result import Table, commit, conduct
from srnn.lab.data import table as tables
from srnn.lab.data.fitting import Question
from srnn.lab.export import c, onnx, pt2
from srnn.lab.training.fit import make_fit
from srnn.lab.training.loop import train
from srnn.lab.training.progress import number
from srnn.lab.training.recipes import make_run
from srnn.lab.training.run import Run
from srnn.lab.training.weights import finished_model

STEPS = (1, 7, 1000)
NETWORKS = ("srnn", "srnnstack")
UPDATES = 400


def runs(updates: int) -> Iterator[tuple[str, Run]]:
    """Yields a name and a run for each task and network: symbols, numbers, and a table of `srnn fit`."""
    table = tables.Table.of(_waves())
    for network in NETWORKS:
        given: dict[str, Any] = {"hidden_size": 64, "steps": updates}
        yield "copy, 10 steps", make_run("copy", network, length=10, lr=5e-3, **given)
        yield "adding, 20 steps", make_run("adding", network, length=20, lr=5e-3, **given)
        yield "fit, 3 classes", make_fit(table, Question(target="label", id="id"), network, **given).run


def _waves() -> dict[str, Any]:
    """Returns a table of 240 sequences of 10 to 30 steps with one of three labels."""
    draws = numpy.random.default_rng(0)
    found: dict[str, list[Any]] = {"id": [], "x": [], "label": []}
    for series in range(240):
        speed, steps = series % 3, draws.integers(10, 31)
        found["id"] += [str(series)] * steps
        found["x"] += (numpy.sin(numpy.arange(steps) * (0.5 + 0.1 * speed)) + draws.normal(size=steps) / 2).tolist()
        found["label"] += [f"class {speed}"] * steps
    return found


def measure(updates: int = UPDATES) -> dict[str, Any]:
    """Returns the differences of each file, and the score with int8 weights."""
    torch.manual_seed(0)
    found = []
    for task, run in runs(updates):
        with tempfile.TemporaryDirectory() as folder:
            found.append({"task": task, "network": run.network.name, **_differences(run, Path(folder))})
    return {"updates": updates, "parity": found, "tools": _tools()}


def _differences(run: Run, folder: Path) -> dict[str, Any]:
    train(run, folder / "run")
    _, model = finished_model(folder / "run")
    found: dict[str, Any] = {}
    if onnx.is_available():
        onnx.write(model, run, folder / "m.onnx")
        found["onnx"] = [onnx.check(model, folder / "m.onnx", (T,)) for T in STEPS]
    pt2.write(model, run, folder / "m.pt2")
    found["pt2"] = pt2.check(model, folder / "m.pt2", STEPS)
    if c.compiler() is not None:
        for name, int8 in (("c", False), ("c_int8", True)):
            c.write(model, run, folder / "model.h", int8=int8)
            found[name] = c.check(model, folder / "model.h", int8=int8, steps=1000)
    found["metric"], (found["float32"], found["int8"]) = run.task.metric, c.scores_of_int8(model, run)
    return found


def _tools() -> dict[str, str]:
    """Returns versions of what ran the files."""
    found = {"torch": str(torch.__version__)}
    if onnx.is_available():
        import onnxruntime

        found["onnxruntime"] = onnxruntime.__version__
    if (compiler := c.compiler()) is not None:
        said = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False).stdout
        found["C compiler"] = said.splitlines()[0]
    return found


def parts(record: Mapping[str, Any]) -> Iterator[Table | str]:
    """Yields the table of a record and how it was made."""
    rows = []
    for each in record["parity"]:
        cells = [*each.get("onnx", [None] * len(STEPS)), each["pt2"], each.get("c"), each.get("c_int8")]
        scores = f"{each['metric']} {number(each['float32'])}", number(each["int8"])
        rows.append([each["task"], each["network"], *("not run" if x is None else f"{x:.0e}" for x in cells), *scores])
    onnx_columns = [f"ONNX, T = {T}" for T in STEPS]
    headings = ["task", "network", *onnx_columns, "pt2", "C, float32", "C, int8", "float32 weights", "int8 weights"]
    yield Table(headings, rows, names=2)
    yield (
        f"The largest difference from PyTorch after {record['updates']} updates with 64 units, as a share of the largest "
        "number if that is above 1. pt2: T = 1, 7 and 1000. C: 1000 steps, int8 compared with the rounded weights in PyTorch. "
        "The last two columns are the score before and after rounding the weights."
    )
    tools = ", ".join(f"{name} {version}" if name != "C compiler" else version for name, version in record["tools"].items())
    yield f"Measured on {record['machine']['cpu']} with {tools}, {record['started']}, commit {commit(record)}."


def main(quick: bool = False, out: Path | None = None, readme: Path | None = None, console: Console | None = None) -> None:
    """Measures, prints, and writes the record and, if asked, the block of a document."""
    console = console or Console()
    console.print("training small models and exporting each in every format, about a minute")
    how = partial(measure, 20 if quick else UPDATES)
    conduct("parity", how, parts, quick=quick, threads=1, out=out, readme=readme, console=console)
