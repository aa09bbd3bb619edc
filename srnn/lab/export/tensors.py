"""safetensors: the weights of a model, with the settings of its run as JSON in the file's metadata."""

from pathlib import Path

import srnn
from srnn.errors import RecordError
from srnn.lab.records.folder import load_tensors, save_tensors
from srnn.lab.training.loop import load_model
from srnn.lab.training.model import Model
from srnn.lab.training.recipes import from_dict
from srnn.lab.training.run import Run, to_share

KIND, FORMAT = "exported model", 1


def write(model: Model, run: Run, file: Path) -> list[str]:
    """Writes weights and settings."""
    state = {"kind": KIND, "format": FORMAT, "srnn": srnn.__version__, "run": to_share(run.as_dict())}
    if model.calibration is not None:
        state["calibration"] = model.calibration
    save_tensors(file, dict(model.state_dict()), state)
    return [f"{model.count_parameters():,} parameters. srnn.lab.export.tensors.load makes the model again"]


def load(file: Path) -> tuple[Run, Model]:
    """Returns the run and the model of such a file.

    Raises:
        RecordError: The file is missing or damaged, or is not of this kind.
    """
    weights, state = load_tensors(file, advice="Export the model again")
    if state.get("kind") == KIND and isinstance(number := state.get("format"), int) and number > FORMAT:
        raise RecordError(f"{file} has format {number}, and this version of srnn reads format {FORMAT}. Update srnn")
    if (state.get("kind"), state.get("format")) != (KIND, FORMAT) or not isinstance(state.get("run"), dict):
        raise RecordError(f"{file} is not an exported model of format {FORMAT}. `srnn export --format safetensors` writes one")
    run = from_dict(state["run"])
    return run, load_model(run, weights, file, state.get("calibration"))
