"""ONNX: one Scan per layer, free batch and time axes, state in and out (see srnn/onnx)."""

import importlib.util
import json
from pathlib import Path
from typing import Any

import torch

import srnn
from srnn import onnx
from srnn.errors import ExportError, MissingPackageError
from srnn.lab.export import preparation
from srnn.lab.export.program import OUTPUTS, Program, largest_difference
from srnn.lab.training.model import Model
from srnn.lab.training.run import Run, to_share

TOLERANCE = 1e-5  # share of the largest number


def write(model: Model, run: Run, file: Path) -> list[str]:
    """Writes the model, and compares the file with it if onnxruntime is installed."""
    program = Program(model)
    example = program.example(2, 3)
    inputs = {name: (example[name], axes) for name, axes in program.free_axes.items()}
    about = {"srnn": srnn.__version__, "run": json.dumps(to_share(run.as_dict())), **preparation.about(run)}
    onnx.write(program, inputs, OUTPUTS, file, about)
    lines = [f"ONNX opset {onnx.OPSET}, inputs input and state, outputs output and new_state, batch and time axes free"]
    if not is_available():
        return [*lines, "not compared with PyTorch: onnxruntime is not installed"]
    return [*lines, f"largest difference from PyTorch in onnxruntime: {check(model, file):.1e}"]


def is_available() -> bool:
    """Whether ONNX files can be written and run: onnx, onnxscript and onnxruntime are installed."""
    return all(importlib.util.find_spec(name) is not None for name in ("onnx", "onnxscript", "onnxruntime"))


@torch.no_grad()
def check(model: Model, file: Path, steps: tuple[int, ...] = (1, 7, 100)) -> float:
    """Returns the largest difference of a file from the model.

    Raises:
        ExportError: The file is damaged, or does not give what the model gives.
    """
    program, worst = Program(model), 0.0
    run = session(file)
    for T in steps:
        given = program.example(2, T)
        try:
            found = run.run(None, {name: tensor.numpy() for name, tensor in given.items()})
        except Exception as error:  # as in `session`
            said = " ".join(str(error).split())[:200]
            raise ExportError(f"{file} does not take the inputs of this model: {said}") from None
        worst = max(worst, largest_difference(found, program(**given)))
    if not worst <= TOLERANCE:
        raise ExportError(f"{file} must give what the model gives up to {TOLERANCE:g}, and it is off by {worst:.1e}")
    return worst


def session(file: Path) -> Any:
    """Returns an onnxruntime session on one thread.

    Raises:
        ExportError: The file is missing or damaged.
        MissingPackageError: onnxruntime is not installed.
    """
    try:
        import onnxruntime
    except ModuleNotFoundError:
        raise MissingPackageError("ONNX files run in onnxruntime. Install it with: pip install 'srnn[onnx]'") from None

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    try:
        return onnxruntime.InferenceSession(file.read_bytes(), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime has a class for each kind of damage, and no base class for them
        said = " ".join(str(error).split())[:200]
        raise ExportError(f"{file} is not an ONNX file that onnxruntime can load: {said}") from None
