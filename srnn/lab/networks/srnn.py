"""SRNN, the layer of the paper, with its initialisation.

h_t = sigma(P h_{t-1} + b(x_t)), where P permutes the units and sigma is ReLU.
b(x) = f_r(x) * sigmoid(W_s x + b_s), where f_r is an MLP with ReLU, and the second factor is the gate.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import nn

from srnn.kernels import ACTIVATIONS
from srnn.lab.networks.network import Network
from srnn.lab.settings import setting
from srnn.layer import PERMUTATIONS, SRNN


@dataclass(frozen=True)
class SRNNNetwork(Network):
    """Settings of `srnn.SRNN`. The defaults are the paper's, also where those of the library differ."""

    mlp: tuple[int, ...] = setting((32,), "Widths of the hidden layers of f_r, such as 32,32, or none.", least=1)
    gate: bool = setting(True, "Multiply f_r by the gate sigmoid(W_s x + b_s).")
    activation: str = setting("relu", "Activation of the recurrence.", choices=ACTIVATIONS)
    permutation: str = setting("shift", "Permutation of the units at each step.", choices=PERMUTATIONS)
    gate_init: float = setting(0.0, "Number that is added to the initial bias of the gate.")
    f_r_scale: float = setting(1.0, "Factor for the initial weights and biases of f_r's output layer.")

    name = "srnn"
    takes_symbols = True
    authors_counts = {"f_r 8": 1_690, "f_r 32, as in Table 4": 4_834}

    def variants(self) -> Mapping[str, Network]:
        return {f"f_r {'-'.join(map(str, self.mlp)) or 'none'}": self, "f_r 32, as in Table 4": replace(self, mlp=(32,))}

    def check(self) -> None:
        super().check()
        self.require(self.gate or self.gate_init == 0, "gate_init", "0.0 without a gate")

    @property
    def embedding_size(self) -> int:
        return self.mlp[0] if self.mlp else self.hidden_size

    def layer(self, input_size: int, steps: int) -> nn.Module:
        same = self.values("hidden_size", "num_layers", "mlp", "gate", "activation", "permutation")
        rnn = SRNN(input_size, **same, gate_init=self.gate_init if self.gate else None, batch_first=True)
        with torch.no_grad():
            for b in rnn.b:
                for parameter in b.linear.parameters():
                    parameter *= self.f_r_scale
        return rnn
