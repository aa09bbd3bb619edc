"""The model of a run as one function of plain tensors: (input, state) -> (output, state).

input     real numbers [N, T, C] or symbols [N, T], int64
state     [layers, N, H]; zeros start a sequence, and the state that comes out continues it
output    [N, T, O], or [N, O] after the last step for tasks with one answer per sequence
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim

from srnn.lab.training.model import Model
from srnn.stack import SRNNStack

NAMES = ("input", "state")
OUTPUTS = ("output", "new_state")


class Program(nn.Module):
    """A model with an SRNN or an SRNNStack, whose state goes in and comes out."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model.eval()

    def forward(self, input: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        model, rnn = self.model, self.model.rnn
        if model.every_step or isinstance(rnn, SRNNStack):
            states, h_n = rnn(input, state, alphabet=model.symbols)
            return model.readout(states if model.every_step else states[:, -1]), h_n
        h_n = rnn.final_state(input, state, alphabet=model.symbols)
        return model.readout(h_n[-1]), h_n

    def example(self, N: int, T: int) -> dict[str, Tensor]:
        """Returns an input and a state of so many sequences and steps."""
        rnn, symbols = self.model.rnn, self.model.symbols
        x = torch.randn(N, T, rnn.input_size) if symbols is None else torch.randint(len(symbols), (N, T))
        return {"input": x, "state": torch.zeros(rnn.num_layers, N, rnn.hidden_size)}

    @property
    def free_axes(self) -> dict[str, Any]:
        """The axes of the arguments that a file must leave free."""
        N, T = Dim("N"), Dim("T")
        return {"input": {0: N, 1: T}, "state": {1: N}}


def largest_difference(found: Any, expected: Any) -> float:
    """Returns the largest difference of any number, as a share of the largest number if that is above 1.

    It is infinite if a shape is another one, as in a file of another model.
    """
    worst = 0.0
    if len(found) != len(expected):
        return torch.inf
    for got, wanted in zip(found, expected, strict=True):
        got, wanted = torch.as_tensor(got), wanted.detach()
        if got.shape != wanted.shape:
            return torch.inf
        scale = max(1.0, float(wanted.abs().max()))
        worst = max(worst, float((got - wanted).abs().max()) / scale)
    return worst
