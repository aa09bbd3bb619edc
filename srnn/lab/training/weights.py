"""The trained model of a run folder, for programs and for `srnn eval`."""

from pathlib import Path

from srnn.errors import RecordError
from srnn.lab.records.folder import RunFolder, load_tensors
from srnn.lab.training.checkpoint import Checkpoint
from srnn.lab.training.loop import make_model, read_run
from srnn.lab.training.model import Model


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
        Embedding, layer and read-out, in evaluation mode.

    Raises:
        MissingError: If it is not a run folder.
        RecordError: If there are no weights, or they do not fit the network.
    """
    folder = Path(folder)
    model, source = make_model(read_run(folder)), weights_file(folder)
    tensors = load_tensors(source)[0] if source == RunFolder(folder).model else Checkpoint.read(source).model
    try:
        model.load_state_dict({name: tensors[name] for name in model.state_dict()})
    except (KeyError, RuntimeError) as error:
        raise RecordError(f"{source} does not fit the run's network: {' '.join(str(error).split())}") from None
    return model.eval()
