"""Where a run starts: at the weights of another run instead of random ones, for fine-tuning.

`Run.init_from` holds the path of a run folder or of an exported safetensors file, and after an @ the digest of its weights, so
that a run is never resumed or repeated from other weights.
"""

import hashlib
from pathlib import Path

from torch import nn

from srnn.errors import MissingError, RecordError
from srnn.lab.records.folder import RunFolder, Tensors, load_tensors
from srnn.lab.training.checkpoint import Checkpoint


def resolved(given: str) -> str:
    """Return the full path of a run folder or file, and after an @ the digest of its weights. The empty text stays empty.

    Raises:
        MissingError: There is no such folder or file.
        RecordError: It has no weights, or is damaged.
    """
    path = _path(given).resolve()
    return f"{path}@{_digest(read(path))}" if given else ""


def _path(given: str) -> Path:
    return Path(given.partition("@")[0] if not Path(given).exists() else given)


def read(path: Path) -> Tensors:
    """Return the weights of a run folder, the reported ones or those of its last checkpoint, or of an exported file."""
    if not path.exists():
        raise MissingError(f"--init-from {path}: there is no such run folder or file")
    if not path.is_dir():
        return load_tensors(path)[0]
    place = RunFolder(path)
    if place.model.exists():
        return load_tensors(place.model)[0]
    if not place.checkpoint.exists():
        raise MissingError(f"--init-from {path}: there are no weights in it. `srnn runs` lists run folders")
    return Checkpoint.read(place.checkpoint).model


def load_into(model: nn.Module, given: str) -> None:
    """Load the weights that a run starts from.

    Raises:
        RecordError: They are not those that the run was made with, or do not fit the model. The error names one that does not.
    """
    path = _path(given)
    weights, expected = read(path), given.removeprefix(str(path)).removeprefix("@")
    if expected and _digest(weights) != expected:
        raise RecordError(f"the weights of {path} have changed since the run was made. Start a new run with --init-from {path}")
    ours = model.state_dict()
    for name in [*ours, *(name for name in weights if name not in ours)]:
        there, here = (tuple(each[name].shape) if name in each else "absent" for each in (weights, ours))
        if there != here:
            advice = "Use the network, its sizes and the number of inputs and classes of that run"
            raise RecordError(f"the weights of {path} do not fit: {name} is {there} there and {here} here. {advice}")
    model.load_state_dict(weights)


def _digest(weights: Tensors) -> str:
    found = hashlib.sha256()
    for name, tensor in sorted(weights.items()):
        found.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode() + tensor.cpu().numpy().tobytes())
    return found.hexdigest()[:16]
