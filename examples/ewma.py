"""A network of your own: each unit is a moving average whose memory is learned.

    u_t = relu(W x_t + c)
    h_t = a h_{t-1} + (1 - a) u_t        a = sigmoid(theta), one for each unit

    srnn train adding --length 50 --lr 0.01 --steps 1000 --model examples/ewma.py

A layer is called like nn.GRU with batch_first=True and returns the states of all steps and the last state. Embedding and
read-out are added for the task.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from srnn.lab import Network, setting


class MovingAverages(nn.Module):
    """The layer: a linear map, ReLU, and a moving average of each unit."""

    def __init__(self, input_size: int, hidden_size: int, slowest: float) -> None:
        super().__init__()
        self.linear = nn.Linear(input_size, hidden_size)
        # Initial memories from 1 step to the slowest, evenly on a logarithmic scale: a = exp(-1 / steps).
        self.theta = nn.Parameter(torch.logit(torch.exp(-1 / torch.logspace(0, torch.tensor(slowest).log10(), hidden_size))))

    def forward(self, x: Tensor, h: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Returns all states [N, T, H] and the last one [1, N, H] for inputs [N, T, C] and an initial state [1, N, H]."""
        u, a, states = torch.relu(self.linear(x)), torch.sigmoid(self.theta), []
        state = torch.zeros_like(u[:, 0]) if h is None else h[0]
        for u_t in u.unbind(dim=1):
            state = a * state + (1 - a) * u_t
            states.append(state)
        return torch.stack(states, dim=1), state[None]


@dataclass(frozen=True)
class EWMA(Network):
    """Settings of the moving averages."""

    slowest: float = setting(1000.0, "Initial memory of the slowest unit in steps.", above=0)

    name = "ewma"

    def layer(self, input_size: int, steps: int) -> nn.Module:
        return MovingAverages(input_size, self.hidden_size, self.slowest)
