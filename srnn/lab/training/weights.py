"""The trained model of a run folder, for programs and for `srnn eval`."""

from pathlib import Path

from srnn.errors import RecordError
from srnn.lab.records.folder import RunFolder
from srnn.lab.training.checkpoint import Checkpoint
from srnn.lab.training.loop import is_of_run, load_model, read_run, read_weights
from srnn.lab.training.model import Model
from srnn.lab.training.run import Run


def weights_file(folder: Path) -> Path:
    """Return the file of a run's weights: those that are reported, or the last checkpoint until the run is finished."""
    place = RunFolder(folder)
    source = place.model if place.model.exists() else place.checkpoint
    if not source.exists() and place.record.exists():
        raise RecordError(f"{folder} has no weights: the run diverged before its first checkpoint")
    return source


def load(folder: Path | str) -> Model:
    """Load the model of a run, with the weights that are reported.

    Args:
        folder: Run folder. Until the run is finished, the weights are those of its last checkpoint.

    Returns:
        Embedding, layer and read-out, in evaluation mode. `predict` gives its answers to new data.

    Raises:
        MissingError: If it is not a run folder.
        RecordError: If there are no weights, they belong to another run, or they do not fit the network.
    """
    place = RunFolder(Path(folder))
    run, source = read_run(place.path), weights_file(place.path)
    if source == place.model:
        tensors, calibration = read_weights(place, run)
    else:
        calibration = None
        saved = Checkpoint.read(source)
        is_of_run(saved.run, saved.belongs_to, run, place, source)
        tensors = saved.model
    return load_model(run, tensors, source, calibration).eval()


def finished_model(path: Path) -> tuple[Run, Model]:
    """Return a finished run and its model, with the weights that it reports.

    Raises:
        MissingError: If it is not a run folder.
        RecordError: If the run is not finished, or its folder is damaged.
    """
    run, place = read_run(path), RunFolder(path)
    if not place.model.exists():
        reason = "the run diverged before its first checkpoint" if place.record.exists() else "the run is not finished"
        advice = "" if place.record.exists() else f". Finish it with: srnn train --resume {path}"
        raise RecordError(f"{path} has no model.safetensors: {reason}{advice}")
    return run, load(path)
