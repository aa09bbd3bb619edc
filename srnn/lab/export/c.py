"""C: one header, see srnn/c.py. If there is a compiler, the header is compiled and compared with the model."""

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy
import torch

from srnn import c
from srnn.errors import DataError, ExportError
from srnn.lab.export import preparation
from srnn.lab.export.program import largest_difference
from srnn.lab.records import store
from srnn.lab.training.loop import evaluate, evaluation_batches
from srnn.lab.training.model import Model
from srnn.lab.training.progress import number
from srnn.lab.training.run import Run

TOLERANCE = 1e-5  # share of the largest number
END = "\n#endif\n"  # of a header
STRICT = ("-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror")
# Reads inputs from standard input until there are no more, and writes the outputs.
PROGRAM = """\
#include <stdio.h>
#include "NAME.h"

int main(void)
{
    static NAME_state s;
    static TYPE x[UPPER_INPUTS];
    static float y[UPPER_OUTPUTS];
    NAME_init(&s);
    while (fread(x, sizeof x, 1, stdin) == 1) {
        NAME_step(&s, ARGUMENT, y);
        fwrite(y, sizeof y, 1, stdout);
    }
    return 0;
}
"""


def write(model: Model, run: Run, file: Path, *, name: str = "model", int8: bool = False) -> list[str]:
    """Writes the header, and reports what int8 weights cost and how far the compiled code is from the model."""
    model = model.eval()
    text = c.header(model.rnn, readout=model.readout, alphabet=model.symbols, name=name, int8=int8)
    if more := preparation.in_c(run, name):
        text = f"{text.removesuffix(END)}{more}{END}"
    file.write_text(text, encoding="ascii")
    lines = [line.removeprefix(" *").strip() for line in text.splitlines()[2:4]]
    if more:
        lines.append(f"the end of the file says how to prepare the inputs, and {name}_... functions do it")
    if int8:
        lines.append(_loss_of_int8(model, run))
    if compiler() is None:
        return [*lines, "not compared with PyTorch: there is no C compiler (cc, gcc or clang)"]
    return [*lines, f"largest difference from PyTorch: {check(model, file, name=name, int8=int8):.1e}"]


def _loss_of_int8(model: Model, run: Run) -> str:
    task = run.task
    try:
        before, after = scores_of_int8(model, run)
    except DataError as error:
        return f"the cost of int8 weights was not measured: {error}"
    return f"{task.reports or 'fresh'} {task.metric} {number(before)} with float32 weights, {number(after)} with int8 weights"


def scores_of_int8(model: Model, run: Run) -> list[float]:
    """Returns the score of a model with its weights and with int8 weights.

    Raises:
        DataError: The data are not there.
    """
    models = model, c.with_int8_weights(model)
    return [evaluate(each, run.task, evaluation_batches(run, run.task.reports))["score"] for each in models]


@torch.no_grad()
def check(model: Model, file: Path, *, name: str = "model", int8: bool = False, steps: int = 100) -> float:
    """Returns the largest difference of a header from the model, after compiling and running it.

    Raises:
        ExportError: The file is damaged, or does not give what the model gives.
    """
    model, symbols = (c.with_int8_weights(model) if int8 else model).eval(), model.symbols
    x = torch.randn(steps, model.rnn.input_size) if symbols is None else torch.randint(len(symbols), (steps,))
    worst = largest_difference([outputs(file, name, x)], [model.readout(model.states(x[None])[0])[0]])
    if not worst <= TOLERANCE:
        raise ExportError(f"{file} must give what the model gives up to {TOLERANCE:g}, and it is off by {worst:.1e}")
    return worst


def outputs(file: Path, name: str, x: torch.Tensor) -> torch.Tensor:
    """Returns what a header gives for inputs [T, C] or symbols [T], one step after the other.

    Raises:
        ExportError: The file is not C, or the compiled code ends before it has read all inputs.
        RecordError: The file cannot be read.
    """
    is_symbol = not x.is_floating_point()
    source = program_of(name, is_symbol=is_symbol)
    with tempfile.TemporaryDirectory() as folder:
        text = store.read_bytes(file).decode("ascii", errors="replace")
        if not text.isascii():
            raise ExportError(f"{file} must be C99 in ASCII, and it has other bytes")
        program = compiled(Path(folder), {f"{name}.h": text, "main.c": source})
        given = x.to(torch.int32 if is_symbol else torch.float32).numpy().tobytes()
        done = subprocess.run([str(program)], input=given, capture_output=True, check=False)
    if done.returncode != 0 or len(done.stdout) % (4 * len(x)):
        raise ExportError(f"the program with {file} must give numbers for {len(x)} steps, and it ended with {done.returncode}")
    return torch.from_numpy(numpy.frombuffer(done.stdout, numpy.float32).copy()).reshape(len(x), -1)


def program_of(name: str, *, is_symbol: bool = False) -> str:
    """Returns the program that runs the header of a model with this name."""
    values = {"UPPER": name.upper(), "NAME": name, "TYPE": "float", "ARGUMENT": "x"}
    if is_symbol:
        values |= {"TYPE": "int", "ARGUMENT": "x[0]"}
    return re.sub("|".join(values), lambda found: values[found[0]], PROGRAM)  # in one pass: a name may hold TYPE


def compiler() -> str | None:
    """Returns the C compiler of this machine: $CC, cc, gcc or clang."""
    return next(filter(None, map(shutil.which, (os.environ.get("CC") or "cc", "gcc", "clang"))), None)


def compiled(folder: Path, sources: dict[str, str], *flags: str, by: str | None = None) -> Path:
    """Compiles main.c with the other sources next to it, without warnings, and returns the program.

    Raises:
        ExportError: There is no compiler, or the sources are not C.
    """
    for name, text in sources.items():
        (folder / name).write_text(text, encoding="ascii")
    program = folder / "program"
    if (by := by or compiler()) is None:
        raise ExportError("there is no C compiler (cc, gcc or clang)")
    command = [by, *STRICT, *(flags or ("-O2",)), str(folder / "main.c"), "-o", str(program), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = next((line for line in done.stderr.splitlines() if "error" in line), "no message").split("error: ")[-1]
        raise ExportError(f"{' and '.join(sources)} must be C99. {Path(by).name} reports: {said}")
    return program
