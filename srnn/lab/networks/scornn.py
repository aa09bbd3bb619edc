"""scoRNN (Helfrich, Willmott and Ye 2018): an orthogonal matrix by the scaled Cayley transform of a skew-symmetric one.

    h_t = modReLU(x_t V + h_{t-1} W; b),    W = (I + A)^-1 (I - A) D,    A = -A^T,  D = diag(+-1) fixed

The transform alone cannot reach the eigenvalue -1; D, with `rho` entries of -1, does that. A has a learning rate of its own.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from srnn.lab.networks.network import OPTIMIZERS, Group, Network
from srnn.lab.networks.orthogonal import ModReLU, Skew
from srnn.lab.networks.recurrent import uniform


class SCORNN(ModReLU):
    """A by what stands above its diagonal; the last `rho` entries of D are -1."""

    D: Tensor

    def __init__(self, input_size: int, hidden_size: int, *, rho: int, batch_first: bool = False) -> None:
        super().__init__(input_size, hidden_size, batch_first=batch_first)
        self.V = uniform(input_size, hidden_size, bound=0.01)
        self.A = Skew(hidden_size, "cayley")
        self.register_buffer("D", torch.cat([torch.ones(hidden_size - rho), -torch.ones(rho)]), persistent=False)

    def matrix(self) -> Tensor:
        A, eye = self.A(), self.eye()
        return torch.linalg.solve(eye + A, eye - A) * self.D


@dataclass(frozen=True)
class SCORNNNetwork(Network):
    """rho: how many entries of D are -1, None for half of them. orthogonal_rate: the learning rate of A, times that of the run.

    orthogonal_optimizer: that of A, None for the run's.
    """

    rho: int | None = None
    orthogonal_rate: float = 0.1
    orthogonal_optimizer: str | None = None

    name = "scornn"
    is_stacked = False
    recipes = {
        "own": {
            "copy": {"embed": False, "hidden_size": 190, "steps": 10_000},
            "adding": {"hidden_size": 170, "optimizer": "adam", "orthogonal_optimizer": "rmsprop", "steps": 20_000},
            "pmnist": {"hidden_size": 170, "batch_size": 50, "epochs": 70},
            "speech": {"hidden_size": 224},
        },
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        fits = self.rho is None or (type(self.rho) is int and 0 <= self.rho <= self.hidden_size)
        self._require(fits, f"a whole number from 0 to {self.hidden_size}", "rho")
        optimizer = self.orthogonal_optimizer
        self._require(
            optimizer is None or optimizer in tuple(OPTIMIZERS), f"one of {', '.join(OPTIMIZERS)}", "orthogonal_optimizer"
        )
        self._require(self.orthogonal_rate > 0, "positive", "orthogonal_rate")

    def layer(self, input_size: int, steps: int) -> nn.Module:
        rho = self.hidden_size // 2 if self.rho is None else self.rho
        return SCORNN(input_size, self.hidden_size, rho=rho, batch_first=True)

    def groups(self, layer: SCORNN) -> Iterable[Group]:
        return [Group([layer.A.above], rate=self.orthogonal_rate, optimizer=self.orthogonal_optimizer, weight_decay=0.0)]

    def begin_readout(self, readout: nn.Linear, task: str) -> None:
        nn.init.xavier_uniform_(readout.weight)
        nn.init.zeros_(readout.bias)
