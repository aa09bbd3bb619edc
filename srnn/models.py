"""A network for a task: embedding -> recurrent layer -> read-out; and the layers by name.

A `Network` is a frozen dataclass like a task: its fields are its settings, and `layer` makes the recurrent layer, which is
called like `nn.GRU`. What a task gives decides the rest of the model.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from srnn.layer import SRNN
from srnn.tasks import Batch, Settings, Task


@dataclass(frozen=True)
class Network:
    """Settings of a recurrent layer. A subclass sets `name` and writes `layer`.

    `recipes` are settings of a Run by recipe and then by task, "" for all of them; see srnn/recipes.py.
    """

    hidden_size: int = 128
    num_layers: int = 1

    name: ClassVar[str]
    recipes: ClassVar[dict[str, dict[str, Settings]]] = {}

    @property
    def embedding_size(self) -> int:
        """How wide the learned embedding of a symbol is."""
        return self.hidden_size

    def layer(self, input_size: int) -> nn.Module:
        """A layer with batch_first=True whose output is `hidden_size` wide."""
        raise NotImplementedError


@dataclass(frozen=True)
class SRNNNetwork(Network):
    """The shuffling network; its fields are those of `srnn.SRNN`."""

    mlp: tuple[int, ...] = (32,)
    gate: bool = True
    activation: str = "relu"
    permutation: str = "shift"

    name = "srnn"

    @property
    def embedding_size(self) -> int:
        return self.mlp[0] if self.mlp else self.hidden_size

    def layer(self, input_size: int) -> nn.Module:
        return SRNN(
            input_size,
            self.hidden_size,
            self.num_layers,
            mlp=self.mlp,
            gate=self.gate,
            activation=self.activation,
            permutation=self.permutation,
            batch_first=True,
        )


class RNNNetwork(Network):
    """The vanilla network, with tanh."""

    name = "rnn"

    def layer(self, input_size: int) -> nn.Module:
        return nn.RNN(input_size, self.hidden_size, self.num_layers, batch_first=True)


class LSTMNetwork(Network):
    name = "lstm"

    def layer(self, input_size: int) -> nn.Module:
        return nn.LSTM(input_size, self.hidden_size, self.num_layers, batch_first=True)


class GRUNetwork(Network):
    name = "gru"

    def layer(self, input_size: int) -> nn.Module:
        return nn.GRU(input_size, self.hidden_size, self.num_layers, batch_first=True)


NETWORKS: dict[str, type[Network]] = {kind.name: kind for kind in (GRUNetwork, LSTMNetwork, RNNNetwork, SRNNNetwork)}


class Model(nn.Module):
    """The whole: inputs of a task's batch to its outputs, [N, T, O] or, for an answer after the last step, [N, O].

    readout     widths of the hidden layers of the read-out, with ReLU; () is affine
    norm        whether a layer norm comes before it
    dropout     probability, before the read-out and after each of its hidden layers
    """

    alphabet: Tensor | None

    def __init__(self, task: Task, network: Network, *, readout: tuple[int, ...], norm: bool, dropout: float) -> None:
        super().__init__()
        C = network.embedding_size if task.symbols else task.input_size
        self.embedding = nn.Embedding(task.symbols, C) if task.symbols else None
        self.register_buffer("alphabet", task.alphabet, persistent=False)
        self.rnn: Any = network.layer(C)
        self.every_step = task.every_step
        self.readout = _readout((network.hidden_size, *readout, task.output_size), norm, dropout)

    def forward(self, batch: Batch) -> Tensor:
        x, symbols = batch.input, self.alphabet if self.embedding is None else self.embedding.weight
        if symbols is None:
            states = self.rnn(x)[0] if self.every_step else self._last(x)
        elif isinstance(self.rnn, SRNN):  # b once per symbol, not once per step
            states = self.rnn(x, alphabet=symbols)[0] if self.every_step else self.rnn.final_state(x, alphabet=symbols)[-1]
        else:
            x = nn.functional.embedding(x.long(), symbols)
            states = self.rnn(x)[0] if self.every_step else self._last(x)
        return self.readout(states)

    def _last(self, x: Tensor) -> Tensor:
        return self.rnn.final_state(x)[-1] if isinstance(self.rnn, SRNN) else self.rnn(x)[0][:, -1]

    def count_parameters(self) -> int:
        return sum(parameter.numel() for parameter in self.parameters())


def _readout(widths: tuple[int, ...], norm: bool, dropout: float) -> nn.Sequential:
    parts: list[nn.Module] = [nn.LayerNorm(widths[0])] if norm else []
    if dropout:
        parts.append(nn.Dropout(dropout))
    for m, n in pairwise(widths[:-1]):
        parts += [nn.Linear(m, n), nn.ReLU(), *([nn.Dropout(dropout)] if dropout else [])]
    return nn.Sequential(*parts, nn.Linear(widths[-2], widths[-1]))


def make(task: Task, network: Network, seed: int, **readout: Any) -> Model:
    """The model with weights drawn from the seed; torch's generator is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Model(task, network, **readout)
