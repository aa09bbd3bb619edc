"""The layout of a checkpoint: everything from which a run resumes with bit-identical results.

A checkpoint is one file of tensors and plain values (see records/folder.py):

    model.NAME                      parameters and buffers
    best.NAME                       the same of the best evaluation so far
    optimizer.K.NUMBER.NAME         the state of optimizer K for a parameter
    format, run, position, on, metrics, belongs_to      plain values: the fields of `Checkpoint`

A new field of `Position` needs a default, so that older checkpoints can be read. A change that older versions would misread
needs another FORMAT.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, get_type_hints

from torch import Tensor, nn
from torch.optim import Optimizer

from srnn.errors import RecordError, SRNNError
from srnn.lab.records.folder import BELONGS_TO, Tensors, load_tensors, parse_tensors, save_tensors
from srnn.lab.records.record import Evaluation
from srnn.lab.records.shape import misfit

FORMAT = 1  # the first checkpoints do not say it


def now() -> str:
    """Return the time as text, in UTC."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


@dataclass
class Position:
    """How far a run is, besides its tensors."""

    step: int = 0
    examples: int = 0
    pending: list[float] = field(default_factory=list)  # losses since the last entry of the curve
    recent: list[float] = field(default_factory=list)  # the last losses
    best: dict[str, Any] | None = None  # the evaluation whose weights are kept
    evaluations_since_best: int = 0
    ceiling_reached: bool = False
    metrics_bytes: int = 0  # length of metrics.jsonl
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    resumed: int = 0
    commits: list[str] = field(default_factory=list)  # of the sources that trained it, in order
    versions: list[dict[str, str]] = field(default_factory=list)  # of Python, torch, numpy and srnn, in order
    processes: list[int] = field(default_factory=list)  # how many at once, in order: sums round differently with another number
    started: str = field(default_factory=now)


@dataclass(frozen=True)
class Checkpoint:
    """A run between two updates.

    run         the settings, as `Run.as_dict` gives them
    on          backend and digest of the data: the numbers depend on them, so they must stay the same
    metrics     digest of the curve so far
    belongs_to  name of the run that wrote it, as in run.json; None before runs had names
    """

    run: Mapping[str, Any]
    position: Position
    on: Mapping[str, Any]
    metrics: str
    belongs_to: str | None
    model: Tensors
    best: Tensors
    optimizers: Sequence[Mapping[int, Tensors]]

    def save(self, path: Path) -> None:
        """Write the checkpoint, in one step."""
        tensors = {f"model.{name}": tensor for name, tensor in self.model.items()}
        tensors |= {f"best.{name}": tensor for name, tensor in self.best.items()}
        for k, states in enumerate(self.optimizers):
            tensors |= {f"optimizer.{k}.{n}.{name}": value for n, state in states.items() for name, value in state.items()}
        plain = {"run": self.run, "position": asdict(self.position), "on": self.on, "metrics": self.metrics}
        save_tensors(path, tensors, {"format": FORMAT, BELONGS_TO: self.belongs_to, **plain})

    @classmethod
    def read(cls, path: Path) -> "Checkpoint":
        """Read a checkpoint.

        Raises:
            RecordError: The file is missing or damaged, or of a version with another layout.
        """
        return cls._build(*load_tensors(path), path)

    @classmethod
    def parse(cls, content: bytes, path: Path) -> "Checkpoint":
        """Read a checkpoint from the content of its file; errors name `path`."""
        return cls._build(*parse_tensors(content, path), path)

    @classmethod
    def _build(cls, tensors: Tensors, plain: dict[str, Any], path: Path) -> "Checkpoint":
        if (number := plain.pop("format", FORMAT)) != FORMAT:
            raise RecordError(
                f"{path} has format {number}, and this version of srnn reads format {FORMAT}. "
                "Resume the run with the version that wrote it, or start a new one with another --out"
            )
        position = plain.get("position")
        hints = get_type_hints(Position) | {"best": Evaluation | None}
        present = {name: hint for name, hint in hints.items() if isinstance(position, dict) and name in position}
        shape = {"run": dict, "position": present, "on": dict, "metrics": str, BELONGS_TO: str | None}
        with _fitting(path):
            if wrong := misfit(plain, shape, "its state"):
                raise ValueError(wrong)
            states: dict[int, dict[int, Tensors]] = {}
            for key, tensor in _under("optimizer", tensors).items():
                k, n, name = key.split(".", 2)
                states.setdefault(int(k), {}).setdefault(int(n), {})[name] = tensor
            return cls(
                run=plain["run"],
                position=Position(**plain["position"]),
                on=plain["on"],
                metrics=plain["metrics"],
                belongs_to=plain.get(BELONGS_TO),
                model=_under("model", tensors),
                best=_under("best", tensors),
                optimizers=[states.get(k, {}) for k in range(max(states, default=-1) + 1)],
            )

    def load_into(self, model: nn.Module, optimizers: Sequence[Optimizer], path: Path) -> None:
        """Load weights and states into a model and its optimizers; errors name `path`."""
        with _fitting(path):
            model.load_state_dict(self.model)
            for k, optimizer in enumerate(optimizers):
                state = self.optimizers[k] if k < len(self.optimizers) else {}
                optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def optimizer_state(optimizer: Optimizer) -> dict[int, Tensors]:
    """Return the tensors of an optimizer's state, by the number of the parameter."""
    return {
        number: {name: value for name, value in state.items() if isinstance(value, Tensor)}
        for number, state in optimizer.state_dict()["state"].items()
    }


@contextmanager
def _fitting(path: Path) -> Iterator[None]:
    """Turn errors about missing or unknown parts of a checkpoint into a RecordError on one line."""
    try:
        yield
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        if isinstance(error, SRNNError):
            raise
        said = " ".join(str(error).split())
        raise RecordError(f"{path} does not fit this version of srnn: {said}") from None


def _under(prefix: str, tensors: Tensors) -> Tensors:
    return {name.removeprefix(f"{prefix}."): tensor for name, tensor in tensors.items() if name.startswith(f"{prefix}.")}
