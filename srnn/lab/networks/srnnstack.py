"""SRNNStack: residual blocks around SRNN, which are not in the paper.

Each of `num_layers` blocks, between an input map and an output map, computes x <- x + GLU(W norm(SRNN(norm(x))) + V near(x)),
where near(x) is norm(x) with a part of that of the last two steps.
"""

from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from srnn.kernels import ACTIVATIONS
from srnn.lab.networks.network import Network
from srnn.lab.settings import setting
from srnn.layer import GATE_INIT, PERMUTATIONS
from srnn.stack import SRNNStack


@dataclass(frozen=True)
class SRNNStackNetwork(Network):
    """Settings of `srnn.SRNNStack`. f_r is affine in all blocks, also if a task's recipe has an mlp for srnn."""

    num_layers: int = 2
    width: int = setting(0, "Numbers per step between the blocks, 0 for the default of the layer.", least=0)
    gate_init: float = setting(GATE_INIT, "Number that is added to the initial bias of the gate.")
    activation: str = setting("clip", "Activation of the recurrence.", choices=ACTIVATIONS)
    permutation: str = setting("partial", "Permutation of the units at each step.", choices=PERMUTATIONS)
    block_dropout: float = setting(0.0, "Dropout inside the blocks.", least=0, below=1)

    name = "srnnstack"
    takes_symbols = True

    def layer(self, input_size: int, steps: int) -> nn.Module:
        same = self.values("hidden_size", "num_layers", "gate_init", "activation", "permutation")
        return SRNNStack(input_size, **same, dropout=self.block_dropout, width=self.width or None, mlp=(), batch_first=True)

    def last_output(self, layer: Any, x: Tensor, alphabet: Tensor | None, lengths: Tensor | None) -> Tensor:
        return layer.final_output(x, alphabet=alphabet, lengths=lengths)
