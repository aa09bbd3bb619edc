"""Residual blocks around the shuffling network: `srnn.SRNNStack`, not in the paper.

x <- x + GLU(W norm(SRNN(norm(x)))) in each of `num_layers` blocks, between an input map and an output map.
"""

from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from srnn.kernels import ACTIVATIONS
from srnn.lab.networks.network import Network
from srnn.layer import PERMUTATIONS
from srnn.stack import SRNNStack


@dataclass(frozen=True)
class SRNNStackNetwork(Network):
    """Settings of `srnn.SRNNStack`.

    width           numbers per step between the blocks; 0 is the layer's default
    gate_init, activation, permutation
                    settings of the SRNN in each block. Its f_r is affine, also where a task's recipe has an mlp for srnn
    block_dropout   probability, inside the blocks; `dropout` is that of the read-out
    """

    num_layers: int = 2
    width: int = 0
    gate_init: float = -1.0
    activation: str = "clip"
    permutation: str = "partial"
    block_dropout: float = 0.0

    name = "srnnstack"
    takes_symbols = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require(self.width >= 0, "a whole number of at least 0", "width")
        self._require(self.activation in ACTIVATIONS, f"one of {', '.join(ACTIVATIONS)}", "activation")
        self._require(self.permutation in PERMUTATIONS, ", ".join(PERMUTATIONS), "permutation")
        self._require(0 <= self.block_dropout < 1, "a probability below 1", "block_dropout")

    def layer(self, input_size: int, steps: int) -> nn.Module:
        return SRNNStack(
            input_size,
            self.hidden_size,
            self.num_layers,
            batch_first=True,
            dropout=self.block_dropout,
            width=self.width or None,
            mlp=(),
            gate_init=self.gate_init,
            activation=self.activation,
            permutation=self.permutation,
        )

    def last_output(self, layer: Any, x: Tensor, alphabet: Tensor | None, lengths: Tensor | None) -> Tensor:
        return layer.final_output(x, alphabet=alphabet, lengths=lengths)
