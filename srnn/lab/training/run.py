"""Run: all settings that decide a result, in a frozen dataclass.

Equal runs give bit-identical curves on the same machine. Only a run that a clock ends may get further than its equal.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from srnn.errors import RecordError, SettingError
from srnn.lab.networks.network import OPTIMIZERS, Network
from srnn.lab.settings import Settings, setting
from srnn.lab.tasks.task import Task

SCHEDULES = ("constant", "cosine", "staircase")
SELECTS = ("loss", "metric")
LIMITS = ("steps", "epochs", "minutes", "cpu_minutes", "patience")  # when a run ends: these may change when it is resumed


@dataclass(frozen=True)
class Run(Settings):
    """A task, a network and how the network is trained. `training.model.Model` explains embed, readout, norm and dropout."""

    task: Task
    network: Network
    recipe: str = setting("paper", "Recipe that gives the settings you omit.")  # "paper", "own" or "ours", see recipes.SHOWN
    embed: bool = setting(True, "Learn an embedding of symbols instead of one-hot inputs.")
    readout: tuple[int, ...] = setting((), "Widths of the hidden layers of the read-out, such as 512, or none.", least=1)
    norm: bool = setting(False, "Normalise the layer's output before the read-out.")
    dropout: float = setting(0.0, "Dropout in the read-out.", least=0, below=1)
    batch_size: int = setting(100, "Sequences in an update.", least=1)
    optimizer: str = setting(
        "rmsprop", "Optimizer, except for parameters that a network trains in its own way (srnn info NAME).", choices=OPTIMIZERS
    )
    lr: float = setting(1e-3, "Learning rate.", above=0)
    alpha: float = setting(0.9, "Decay of the mean square in rmsprop.", least=0, below=1)
    weight_decay: float = setting(0.0, "Weight decay.", least=0)
    clip: float | None = setting(None, "Norm that gradients are clipped to, 0 for no clipping.", above=0)
    clip_value: float | None = setting(None, "Bound that each entry of a gradient is clipped to, 0 for no clipping.", above=0)
    schedule: str = setting(
        "constant", "Learning rate over time: cosine ends at 0, staircase divides by 10.", choices=SCHEDULES
    )
    warmup: int = setting(0, "Updates of linear warm-up.", least=0)
    decay_every: int = setting(20_000, "Updates between two divisions of the rate, for schedule staircase.", least=1)
    steps: int | None = setting(None, "End after this many updates.", least=1)
    epochs: int | None = setting(None, "End after this many passes over the data.", least=1)
    minutes: float | None = setting(None, "End after this many minutes at the latest.", above=0)
    cpu_minutes: float | None = setting(None, "End after this many minutes of CPU time at the latest.", above=0)
    patience: int | None = setting(None, "End after this many evaluations without improvement.", least=1)
    stop_below: float | None = setting(None, "End when the mean loss of 500 updates is below this.")
    select: str = setting("loss", "Keep the weights with the best validation loss or metric.", choices=SELECTS)
    eval_every: int | None = setting(None, "Updates between two evaluations, by default one epoch or 100 updates.", least=1)
    seed: int = setting(1234, "Seed of initial weights and data.", least=0, below=2**63)
    threads: int = setting(1, "Threads of torch on each machine, shared by the processes of torchrun.", least=1, most=1024)
    device: str = setting("cpu", "Device of torch, such as cpu or cuda:1.")
    init_from: str = setting("", "Run folder or exported safetensors file whose weights the run starts from.")

    def check(self) -> None:
        """Raises a SettingError for settings that do not go together."""
        if self.steps is self.epochs is self.minutes is self.cpu_minutes is None:
            raise SettingError("a run needs an end: give --steps, --epochs or --minutes")
        if self.schedule == "cosine" and self.steps is self.epochs is None:
            raise SettingError(f"schedule {self.schedule} needs the number of updates: give --steps or --epochs")
        if self.epochs is not None and type(self.task).updates_per_epoch is Task.updates_per_epoch:
            raise SettingError(f"{self.task.name} has no epochs because its data never repeat: give --steps or --minutes")
        if self.patience is not None and self.task.selects is None:
            raise SettingError(f"patience needs validation data, and {self.task.name} has none: leave out --patience")

    @property
    def id(self) -> str:
        """Name of this run, such as copy-srnn-1f0c33a9. It stays the same when later versions add settings."""
        changed = {part: _changed(thing) for part, thing in (("run", self), ("task", self.task), ("network", self.network))}
        digest = hashlib.sha256(json.dumps(changed, sort_keys=True).encode()).hexdigest()
        return f"{self.task.name}-{self.network.name}-{digest[:8]}"

    def as_dict(self) -> dict[str, Any]:
        """Returns plain values for JSON, which `recipes.from_dict` reads."""
        plain = {field.name: getattr(self, field.name) for field in fields(self)}
        plain["task"] = {"name": self.task.name, **asdict(self.task), **_source(self.task)}
        plain["network"] = {"name": self.network.name, **asdict(self.network), **_source(self.network)}
        return json.loads(json.dumps(plain))

    def with_limits(self, **limits: Any) -> "Run":
        """Returns the same run with another end.

        Raises:
            RecordError: The schedule is cosine, where every update depends on the number of updates.
        """
        changed = {name: value for name, value in limits.items() if value is not None and value != getattr(self, name)}
        if self.schedule == "cosine" and changed.keys() & {"steps", "epochs"}:
            raise RecordError(f"a run with schedule {self.schedule} cannot be given another end. Start a new one")
        ends = {"steps", "epochs"}
        if changed.keys() & ends:  # one of them replaces the other
            changed = dict.fromkeys(ends - limits.keys()) | changed
        return replace(self, **changed)


def to_share(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Returns `Run.as_dict` for a file that leaves this machine: of paths of data and weights only the last part.

    The path of the user's own Python file stays, since the model cannot be loaded without it.
    """
    task = {key: Path(value).name if key == "file" else value for key, value in plain["task"].items()}
    return {**plain, "task": task, "init_from": Path(plain.get("init_from", "")).name}


def _changed(thing: Settings) -> dict[str, Any]:
    """Returns the settings that differ from their defaults."""
    settings = {field.name: (getattr(thing, field.name), field.default) for field in fields(thing)}
    changed = {
        name: value for name, (value, default) in settings.items() if value != default and name not in ("task", "network")
    }
    return changed | (_source(thing) if isinstance(thing, Task | Network) else {})


def _source(thing: Task | Network) -> dict[str, str]:
    """Returns path and digest of the user's file that defines a task or a network; nothing for those of this package."""
    return {key: value for key in ("path", "sha256") if (value := getattr(type(thing), f"file_{key}", None))}
