"""Base class of the networks: the settings of a recurrent layer, and what the layer needs from the training loop.

A `Network` is a frozen dataclass like a task: its fields are its settings, and `layer` makes the recurrent layer, which is
called like `nn.GRU`. The training loop uses the methods below and knows nothing else about a network.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from srnn.lab.settings import Settings, setting

OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "rmsprop": lambda groups, alpha, **how: torch.optim.RMSprop(groups, alpha=alpha, eps=1e-8, **how),
    "adam": lambda groups, alpha, **how: torch.optim.Adam(groups, **how),
    "adamw": lambda groups, alpha, **how: torch.optim.AdamW(groups, **how),
    "sgd": lambda groups, alpha, **how: torch.optim.SGD(groups, **how),
}


@dataclass(frozen=True)
class Group:
    """Parameters that are trained in their own way. None stands for the run's setting.

    rate            factor of the run's learning rate
    optimizer       one of OPTIMIZERS by name, or an optimizer of the network's own
    is_clipped      True if their gradients count in the norm that is clipped, and are clipped with it
    """

    parameters: Sequence[nn.Parameter]
    rate: float = 1.0
    optimizer: str | Callable[..., torch.optim.Optimizer] | None = None
    weight_decay: float | None = None
    is_clipped: bool = True


@dataclass(frozen=True)
class Network(Settings):
    """Settings of a recurrent layer. A subclass sets `name` and writes `layer`.

    Its fields are its settings (see srnn/lab/settings.py). Rules between settings are written in `check`.

    is_stacked          True if num_layers may be more than 1
    takes_symbols       True if the layer has `alphabet=` and `last_output` can be called
    readout_weights     initialises the weights of the read-out, whose biases are 0 then; None for torch's initialisation
    recipes             settings by recipe and then by task, "" for all tasks; see training/recipes.py
    authors_counts      by variant, the parameters that the code of the SRNN authors counts on adding with 128 units
    """

    hidden_size: int = setting(128, "Units of the network.", least=1)
    num_layers: int = setting(1, "Recurrent layers.", least=1)

    name: ClassVar[str]
    is_stacked: ClassVar[bool] = True
    takes_symbols: ClassVar[bool] = False
    readout_weights: ClassVar[Callable[[Tensor], Any] | None] = None
    recipes: ClassVar[Mapping[str, Mapping[str, Mapping[str, Any]]]] = {}
    authors_counts: ClassVar[Mapping[str, int]] = {}

    def check(self) -> None:
        """Raises a SettingError for settings that do not go together. Subclasses call super().check() first."""
        self.require(self.is_stacked or self.num_layers == 1, "num_layers", "1, because this network cannot be stacked")

    @property
    def embedding_size(self) -> int:
        """Width of the learned embedding of a symbol."""
        return self.hidden_size

    def values(self, *names: str) -> dict[str, Any]:
        """Returns these settings by name, for a layer whose arguments have the same names."""
        return {name: getattr(self, name) for name in names}

    def output_size(self, input_size: int) -> int:
        """Returns the width of the layer's output."""
        return self.hidden_size

    def layer(self, input_size: int, steps: int) -> nn.Module:
        """Returns a new layer with batch_first=True; `steps` is the typical length of the task's sequences."""
        raise NotImplementedError

    def last_output(self, layer: Any, x: Tensor, alphabet: Tensor | None, lengths: Tensor | None) -> Tensor:
        """Returns the output [N, H] after the last step of each row, for a layer that has `final_state` like `srnn.SRNN`."""
        return layer.final_state(x, alphabet=alphabet, lengths=lengths)[-1]

    def begin_readout(self, readout: nn.Linear, task: str) -> None:
        """Initialises the last map of the read-out if this network does it differently from torch on this task."""
        if (initialise := type(self).readout_weights) is not None:
            initialise(readout.weight)
            nn.init.zeros_(readout.bias)

    def groups(self, layer: Any) -> Iterable[Group]:
        """Returns the parameters of the layer that are trained in their own way."""
        return ()

    def penalty(self, layer: Any) -> Tensor | None:
        """Returns a term that is added to the training loss, but not to the loss that is shown."""
        return None

    def after_update(self, layer: Any, update: int) -> Iterable[nn.Parameter]:
        """Is called after each update, counted from 1. Returns the parameters whose optimizer state must be reset."""
        return ()

    def variants(self) -> Mapping[str, "Network"]:
        """Returns the networks that `srnn info` counts the parameters of, by label."""
        return {"": self}

    def free_parameters(self, layer: nn.Module) -> int:
        """Returns the degrees of freedom of the layer: fewer than its stored numbers if these obey a constraint."""
        return sum(parameter.numel() for parameter in layer.parameters())
