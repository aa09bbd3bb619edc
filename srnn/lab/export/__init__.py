"""A trained model as one file, or a folder, for other programs: `srnn export`. Each format has a file here.

onnx           onnxruntime and others; free batch and time axes, state in and out
pt2            torch.export, or compiled by AOTInductor; loading needs `import torch, srnn`
c              a header in C99 without dependencies, one step at a time
safetensors    weights and settings, which `tensors.load` makes a model of again
hub            a folder for the Hugging Face hub: weights, settings and a model card
"""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import nn

from srnn.errors import ExportError, SettingError, one_of
from srnn.lab.export import c, hub, onnx, pt2, tensors
from srnn.lab.records import record as records
from srnn.lab.records import store
from srnn.lab.records.folder import RunFolder
from srnn.lab.training.weights import finished_model
from srnn.layer import SRNN
from srnn.stack import SRNNStack

Writer = Callable[..., list[str]]  # of a model, its run and a path, and what to report about the file
WRITERS: dict[str, Writer] = {
    "onnx": onnx.write,
    "pt2": pt2.write,
    "c": c.write,
    "safetensors": tensors.write,
    "hub": hub.write,
}
TAKES = {"onnx": (SRNN, SRNNStack), "pt2": (SRNN, SRNNStack), "c": (SRNN, SRNNStack, nn.GRU)}  # layers, all if not listed
SUFFIXES = {"onnx": ".onnx", "pt2": ".pt2", "c": ".h", "safetensors": ".safetensors", "hub": "-hub"}


def export(
    path: Path, format: str, out: Path | None = None, *, overwrite: bool = False, **options: Any
) -> tuple[Path, list[str]]:
    """Writes the model of a finished run to a file.

    Args:
        path: Run folder.
        format: One of WRITERS.
        out: The file, or the folder of the format hub. By default it has the name of the run folder and is in the current
            folder.
        overwrite: Whether an existing file, or the model in an existing folder, may be replaced.
        **options: Options of the format.

    Returns:
        The file, and what to report about it.

    Raises:
        SettingError: There is no such format, or the file exists.
        RecordError: The run is not finished, or its folder is damaged.
        ExportError: The model cannot be written in this format, or the file does not give what the model gives.
    """
    if format not in WRITERS:
        raise one_of("format", format, WRITERS)
    run, model = finished_model(path)
    if format in TAKES and not isinstance(model.rnn, TAKES[format]):
        known = "srnn, srnnstack and gru" if format == "c" else "srnn and srnnstack"
        raise ExportError(f"--format {format} takes the networks {known}, and this run has {run.network.name}. Use safetensors")
    out = Path(f"{path.resolve().name}{SUFFIXES[format]}") if out is None else out
    if format == "hub":  # a folder, whose writer knows what may be replaced in it
        record = records.load(RunFolder(path).record)
        return out, WRITERS[format](model, run, out, record=record, overwrite=overwrite, **options)
    if os.path.lexists(out) and not overwrite:
        raise SettingError(f"{out} exists. Give another --out, or --overwrite to replace it")
    if out.is_dir():
        raise SettingError(f"{out} is a folder. Give a file")
    if format == "c":
        options["name"] = re.sub(r"^(?![A-Za-z])", "m_", re.sub(r"\W", "_", out.stem, flags=re.ASCII))
    with store.replacing(out) as new:
        return out, WRITERS[format](model, run, new, **options)
