"""A network for a task: embedding -> recurrent layer -> read-out; and the networks by name."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from srnn.baselines.eurnn import EURNNNetwork
from srnn.baselines.exprnn import EXPRNNNetwork
from srnn.baselines.indrnn import IndRNNNetwork
from srnn.baselines.lru import LRUNetwork
from srnn.baselines.mingru import MinGRUNetwork
from srnn.baselines.nnrnn import NNRNNNetwork
from srnn.baselines.nru import NRUNetwork
from srnn.baselines.rgd import RGDNetwork
from srnn.baselines.scornn import SCORNNNetwork
from srnn.baselines.torch_nn import GRUNetwork, LSTMNetwork, RNNNetwork
from srnn.baselines.urnn import URNNNetwork
from srnn.kernels import ACTIVATIONS
from srnn.layer import PERMUTATIONS, SRNN
from srnn.network import Network
from srnn.stack_network import SRNNStackNetwork
from srnn.tasks import Batch, Task


@dataclass(frozen=True)
class SRNNNetwork(Network):
    """The shuffling network; its fields are those of `srnn.SRNN`."""

    mlp: tuple[int, ...] = (32,)
    gate: bool = True
    activation: str = "relu"
    permutation: str = "shift"
    gate_init: float = 0.0  # the paper's start, also where the library's default is another
    f_r_scale: float = 1.0  # times the first weights and biases of f_r's output map

    name = "srnn"
    takes_symbols = True
    authors_counts = {"f_r 8": 1_690, "f_r 32, as in Table 4": 4_834}

    def variants(self) -> Mapping[str, Network]:
        return {f"f_r {'-'.join(map(str, self.mlp)) or 'none'}": self, "f_r 32, as in Table 4": replace(self, mlp=(32,))}

    def __post_init__(self) -> None:
        super().__post_init__()
        widths = all(isinstance(width, int) and width >= 1 for width in self.mlp)
        self._require(widths, "widths of at least 1, such as 32,32", "mlp")
        self._require(self.activation in ACTIVATIONS, f"one of {', '.join(ACTIVATIONS)}", "activation")
        self._require(self.permutation in PERMUTATIONS, ", ".join(PERMUTATIONS), "permutation")
        self._require(self.gate or self.gate_init == 0, "0.0 where there is no gate", "gate_init")

    @property
    def embedding_size(self) -> int:
        return self.mlp[0] if self.mlp else self.hidden_size

    def layer(self, input_size: int, steps: int) -> nn.Module:
        rnn = SRNN(
            input_size,
            self.hidden_size,
            self.num_layers,
            mlp=self.mlp,
            gate=self.gate,
            gate_init=self.gate_init if self.gate else None,
            activation=self.activation,
            permutation=self.permutation,
            batch_first=True,
        )
        with torch.no_grad():
            for b in rnn.b:
                for parameter in b.linear.parameters():
                    parameter *= self.f_r_scale
        return rnn


NETWORKS: dict[str, type[Network]] = {
    kind.name: kind
    for kind in (
        EURNNNetwork,
        EXPRNNNetwork,
        GRUNetwork,
        IndRNNNetwork,
        LRUNetwork,
        LSTMNetwork,
        MinGRUNetwork,
        NNRNNNetwork,
        NRUNetwork,
        RGDNetwork,
        RNNNetwork,
        SCORNNNetwork,
        SRNNNetwork,
        SRNNStackNetwork,
        URNNNetwork,
    )
}


class Model(nn.Module):
    """The whole: inputs of a task's batch to its outputs, [N, T, O] or, for an answer after the last step, [N, O].

    embed       whether symbols go through a learned embedding, or are given as one-hot vectors
    readout     widths of the hidden layers of the read-out, with ReLU; () is affine
    norm        whether a layer norm comes before it
    dropout     probability, before the read-out and after each of its hidden layers
    """

    alphabet: Tensor | None

    def __init__(
        self, task: Task, network: Network, *, embed: bool = True, readout: tuple[int, ...], norm: bool, dropout: float
    ) -> None:
        super().__init__()
        embed = embed and task.symbols > 0
        C = network.embedding_size if embed else task.symbols or task.input_size
        self.embedding = nn.Embedding(task.symbols, C) if embed else None
        one_hot = torch.eye(task.symbols) if task.symbols and not embed else None
        self.register_buffer("alphabet", task.alphabet if one_hot is None else one_hot, persistent=False)
        self.rnn: Any = network.layer(C, task.usual_steps)
        self.every_step, self.takes_symbols, self.last_output = task.every_step, network.takes_symbols, network.last_output
        self.readout = _readout((network.output_size(C), *readout, task.output_size), norm, dropout)
        network.begin_readout(self.readout[-1], task.name)  # type: ignore[arg-type]

    def forward(self, batch: Batch) -> Tensor:
        if self.takes_symbols and not self.every_step:
            return self.readout(self.last_output(self.rnn, batch.input, self.symbols, batch.lengths))
        states = self.states(batch.input)[0]
        if self.every_step:
            return self.readout(states)
        return self.readout(states[:, -1] if batch.lengths is None else _last(states, batch.lengths))

    @property
    def symbols(self) -> Tensor | None:
        """What each symbol is to the layer, [V, C]; None where inputs are real."""
        return self.alphabet if self.embedding is None else self.embedding.weight

    def states(self, x: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        """The layer's output at all steps, and its last state, from inputs or symbols as a batch holds them."""
        if self.takes_symbols:  # b once per symbol, not once per step
            return self.rnn(x, state, alphabet=self.symbols)
        return self.rnn(x if self.symbols is None else nn.functional.embedding(x.long(), self.symbols), state)

    def count_parameters(self) -> int:
        return sum(parameter.numel() for parameter in self.parameters())


def _last(states: Tensor, lengths: Tensor) -> Tensor:
    """Of states [N, T, H] those after each row's last step, [N, H]; zeros, as a state begins, after none."""
    found = states[torch.arange(len(states)), lengths.long() - 1]
    return torch.where(lengths[:, None] > 0, found, 0)


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
