"""SRNN itself, at the paper's start values."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import nn

from srnn.kernels import ACTIVATIONS
from srnn.lab.networks.network import Network
from srnn.layer import PERMUTATIONS, SRNN


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
