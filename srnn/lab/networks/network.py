"""What a network is to the laboratory: the settings of a recurrent layer, and what it asks of the training.

A `Network` is a frozen dataclass like a task: its fields are its settings, and `layer` makes the recurrent layer, which is
called like `nn.GRU`. The training loop knows nothing of any network but the methods below.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from srnn.errors import SettingError

OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "rmsprop": lambda groups, alpha, **how: torch.optim.RMSprop(groups, alpha=alpha, eps=1e-8, **how),
    "adam": lambda groups, alpha, **how: torch.optim.Adam(groups, **how),
    "adamw": lambda groups, alpha, **how: torch.optim.AdamW(groups, **how),
    "sgd": lambda groups, alpha, **how: torch.optim.SGD(groups, **how),
}


@dataclass(frozen=True)
class Group:
    """Parameters that are not trained like the rest; what is None is as the run has it.

    rate            times the learning rate of the run
    optimizer       by name, as above, or one of the network's own
    is_clipped      whether they count in the norm of the gradient, and are cut with it
    """

    parameters: Sequence[nn.Parameter]
    rate: float = 1.0
    optimizer: str | Callable[..., torch.optim.Optimizer] | None = None
    weight_decay: float | None = None
    is_clipped: bool = True


@dataclass(frozen=True)
class Network:
    """Settings of a recurrent layer. A subclass sets `name` and writes `layer`.

    `recipes` are settings of a Run by recipe and then by task, "" for all of them; see training/recipes.py.
    """

    hidden_size: int = 128
    num_layers: int = 1

    name: ClassVar[str]
    is_stacked: ClassVar[bool] = True  # whether num_layers may be more than 1
    takes_symbols: ClassVar[bool] = False  # whether its layer has alphabet=, and `last_output` can be called
    recipes: ClassVar[Mapping[str, Mapping[str, Mapping[str, Any]]]] = {}
    authors_counts: ClassVar[Mapping[str, int]] = {}  # by variant: what the SRNN authors' code counts on adding, 128 units

    def __post_init__(self) -> None:
        for field in fields(self):
            value, default = getattr(self, field.name), field.default
            if isinstance(default, float) and isinstance(value, int) and not isinstance(value, bool):
                object.__setattr__(self, field.name, float(value))  # -2 and -2.0 are the same network, with the same id
            if isinstance(value, bool) and isinstance(default, int) and not isinstance(default, bool):
                self._require(False, "a whole number", field.name)
            self._require(not isinstance(value, float) or math.isfinite(value), "a finite number", field.name)
        for size in ("hidden_size", "num_layers"):
            self._require(isinstance(value := getattr(self, size), int) and value >= 1, "a whole number of at least 1", size)
        self._require(self.is_stacked or self.num_layers == 1, "1, it has no stack", "num_layers")

    @property
    def embedding_size(self) -> int:
        """How wide the learned embedding of a symbol is."""
        return self.hidden_size

    def output_size(self, input_size: int) -> int:
        """How wide the layer's output is."""
        return self.hidden_size

    def layer(self, input_size: int, steps: int) -> nn.Module:
        """A layer with batch_first=True; `steps` is about how long the task's sequences are."""
        raise NotImplementedError

    def last_output(self, layer: Any, x: Tensor, alphabet: Tensor | None, lengths: Tensor | None) -> Tensor:
        """The layer's output after each row's last step, [N, H], of a layer with `final_state`, as `srnn.SRNN`."""
        return layer.final_state(x, alphabet=alphabet, lengths=lengths)[-1]

    def begin_readout(self, readout: nn.Linear, task: str) -> None:
        """Draws the first weights of the read-out's last map, where for this task they are not torch's."""

    def groups(self, layer: Any) -> Iterable[Group]:
        """Parameters of the layer that are trained in their own way."""
        return ()

    def penalty(self, layer: Any) -> Tensor | None:
        """What is added to the loss that is trained on, and not to the one that is shown."""
        return None

    def after_update(self, layer: Any, update: int) -> Iterable[nn.Parameter]:
        """Is called after each update, the first has number 1; returns the parameters whose optimizer must begin anew."""
        return ()

    def variants(self) -> Mapping[str, "Network"]:
        """Networks that its counts are given for."""
        return {"": self}

    def free_parameters(self, layer: nn.Module) -> int:
        """Degrees of freedom of the layer: fewer than the stored numbers where a constraint binds those."""
        return sum(parameter.numel() for parameter in layer.parameters())

    def _require(self, holds: bool, rule: str, name: str) -> None:
        """For settings that cannot be: one line with the network, the setting and the rule."""
        if not holds:
            raise SettingError(f"{self.name}: {name} must be {rule}; got {getattr(self, name)!r}")
