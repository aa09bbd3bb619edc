"""Run: every setting that decides a number, frozen.

Two equal runs give equal curves on the same machine, bit for bit; where a clock ends them, one may go farther than the other.
"""

import hashlib
import json
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from srnn.errors import RecordError, SettingError, one_of
from srnn.lab.networks.network import OPTIMIZERS, Network
from srnn.lab.tasks.task import Task

SCHEDULES = ("constant", "cosine", "staircase")
SELECTS = ("loss", "metric")
LARGEST = 3e38  # that float32 can hold
LIMITS = ("steps", "epochs", "minutes", "cpu_minutes", "patience")  # how long, not how: a run may be continued with others


@dataclass(frozen=True)
class Run:
    """A task, a network and how it is trained.

    embed, readout, norm, dropout       see `models.Model`
    optimizer, lr, weight_decay         of what the network does not train in its own way
    alpha                               the decay of rmsprop's mean square, 0.9 in the paper
    clip, clip_value                    the norm gradients are clipped to, and the size of one entry; None: not at all
    schedule, warmup                    "cosine" goes to 0 at the last update; warm-up is linear, in updates
    decay_every                         "staircase": updates until the rate is divided by 10, and again
    steps, epochs, minutes              updates, passes over the data, time of training: the first that is reached ends the run
    cpu_minutes                         the same in time of the processor: fair where others use the machine too
    patience                            evaluations without a better one on the validation data until the run ends
    stop_below                          the run ends when the mean loss of 500 updates is below this
    select                              what keeps weights: the lowest "loss" or the best "metric" on the validation data
    eval_every                          updates between entries of the curve; None: an epoch, or 100 where there is none
    threads                             of torch: matrix products round otherwise with another number of them
    """

    task: Task
    network: Network
    recipe: str = "paper"
    embed: bool = True
    readout: tuple[int, ...] = ()
    norm: bool = False
    dropout: float = 0.0
    batch_size: int = 100
    optimizer: str = "rmsprop"
    lr: float = 1e-3
    alpha: float = 0.9
    weight_decay: float = 0.0
    clip: float | None = None
    clip_value: float | None = None
    schedule: str = "constant"
    warmup: int = 0
    decay_every: int = 20_000
    steps: int | None = None
    epochs: int | None = None
    minutes: float | None = None
    cpu_minutes: float | None = None
    patience: int | None = None
    stop_below: float | None = None
    select: str = "loss"
    eval_every: int | None = None
    seed: int = 1234
    threads: int = 1
    device: str = "cpu"

    def __post_init__(self) -> None:
        reals = ("lr", "alpha", "weight_decay", "clip", "clip_value", "dropout", "minutes", "cpu_minutes", "stop_below")
        for name in reals:
            if isinstance(value := getattr(self, name), int):  # 1 and 1.0 are the same run, with the same id
                object.__setattr__(self, name, float(value))
        for name in ("batch_size", "threads", "steps", "epochs", "patience", "eval_every", "decay_every", "warmup", "seed"):
            _check_whole(name, getattr(self, name), 0 if name in ("warmup", "seed") else 1)
        for name in reals:
            if (value := getattr(self, name)) is not None and not abs(value) < LARGEST:
                raise SettingError(f"{name} must be a finite number; got {value}")
        if self.weight_decay < 0:
            raise SettingError(f"weight_decay must not be negative; got {self.weight_decay}")
        if self.threads > 1024:
            raise SettingError(f"threads must be at most 1024; got {self.threads}")
        if not 0 <= self.alpha < 1:
            raise SettingError(f"alpha must be from 0 to below 1; got {self.alpha}")
        for name in ("lr", "clip", "clip_value", "minutes", "cpu_minutes"):
            if (value := getattr(self, name)) is not None and not value > 0:
                raise SettingError(f"{name} must be positive; got {value}")
        if self.seed >= 2**63:
            raise SettingError(f"seed must be below 2**63, torch takes no larger one; got {self.seed}")
        for width in self.readout:
            _check_whole("every width of readout", width, 1)
        if not 0 <= self.dropout < 1:
            raise SettingError(f"dropout must be a probability below 1; got {self.dropout}")
        for kind, value, values in (
            ("optimizer", self.optimizer, OPTIMIZERS),
            ("schedule", self.schedule, SCHEDULES),
            ("select", self.select, SELECTS),
        ):
            if value not in values:
                raise one_of(kind, value, values)
        if self.steps is self.epochs is self.minutes is self.cpu_minutes is None:
            raise SettingError("a run needs an end: give --steps, --epochs or --minutes")
        if self.schedule == "cosine" and self.steps is self.epochs is None:
            raise SettingError(f"schedule {self.schedule} must know the last update: give --steps or --epochs")
        if self.epochs is not None and type(self.task).updates_per_epoch is Task.updates_per_epoch:
            raise SettingError(f"{self.task.name} has no epochs, its data never repeat: give --steps or --minutes")
        if self.patience is not None and self.task.selects is None:
            raise SettingError(f"patience needs validation data, and {self.task.name} has none")

    @property
    def id(self) -> str:
        """A name for this very run, such as copy-srnn-1f0c33a9; it stays when later versions have more settings."""
        said = {part: _said(thing) for part, thing in (("run", self), ("task", self.task), ("network", self.network))}
        digest = hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()
        return f"{self.task.name}-{self.network.name}-{digest[:8]}"

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON: what is written about a run, and what `recipes.from_dict` reads."""
        plain = {field.name: getattr(self, field.name) for field in fields(self)}
        plain["task"] = {"name": self.task.name, **asdict(self.task), **_source(self.task)}
        plain["network"] = {"name": self.network.name, **asdict(self.network), **_source(self.network)}
        return json.loads(json.dumps(plain))

    def with_limits(self, **limits: Any) -> "Run":
        """The same run with another end; a decaying rate has its end in every update, so it cannot have another."""
        changed = {name: value for name, value in limits.items() if value is not None and value != getattr(self, name)}
        if self.schedule == "cosine" and changed.keys() & {"steps", "epochs"}:
            raise RecordError(f"a run with schedule {self.schedule} cannot be given another end; begin a new one")
        ends = {"steps", "epochs"}
        if changed.keys() & ends:  # one of them stands in the place of the other
            changed = dict.fromkeys(ends - limits.keys()) | changed
        return replace(self, **changed)


def _said(thing: Any) -> dict[str, Any]:
    """The settings that are not at their defaults."""
    settings = {field.name: (getattr(thing, field.name), field.default) for field in fields(thing)}
    said = {name: value for name, (value, default) in settings.items() if value != default and name not in ("task", "network")}
    return said | (_source(thing) if isinstance(thing, Task | Network) else {})


def _source(thing: Task | Network) -> dict[str, str]:
    """Path and content of the user's file that a task or a network comes from; nothing for our own."""
    return {key: value for key in ("path", "sha256") if (value := getattr(type(thing), f"file_{key}", None))}


def _check_whole(name: str, value: Any, least: int) -> None:
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < least):
        raise SettingError(f"{name} must be a whole number of at least {least}; got {value!r}")
