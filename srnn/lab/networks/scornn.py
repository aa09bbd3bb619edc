"""scoRNN (Helfrich, Willmott and Ye 2018): an orthogonal matrix as the scaled Cayley transform of a skew-symmetric one.

    h_t = modReLU(x_t V + h_{t-1} W; b),    W = (I + A)^-1 (I - A) D,    A = -A^T,  D = diag(+-1) fixed

The Cayley transform cannot reach the eigenvalue -1; D, with `rho` entries of -1, makes up for that. A has its own learning
rate.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from srnn.lab.networks.network import OPTIMIZERS, Group, Network
from srnn.lab.networks.orthogonal import ModReLU, Skew
from srnn.lab.networks.recurrent import uniform
from srnn.lab.settings import setting


class SCORNN(ModReLU):
    """A is stored by its entries above the diagonal; the last `rho` entries of D are -1."""

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
    """Settings of scoRNN."""

    rho: int | None = setting(None, "Entries of D that are -1, half of them if it is not given.", least=0)
    orthogonal_rate: float = setting(0.1, "Learning rate of A as a factor of the run's.", above=0)
    orthogonal_optimizer: str | None = setting(None, "Optimizer of A if it is not the run's.", choices=OPTIMIZERS)

    name = "scornn"
    readout_weights = nn.init.xavier_uniform_
    is_stacked = False
    recipes = {
        "own": {
            "copy": {"embed": False, "hidden_size": 190, "steps": 10_000},
            "adding": {"hidden_size": 170, "optimizer": "adam", "orthogonal_optimizer": "rmsprop", "steps": 20_000},
            "pmnist": {"hidden_size": 170, "batch_size": 50, "epochs": 70},
            "speech": {"hidden_size": 224},
        }
    }

    def check(self) -> None:
        super().check()
        fits = self.rho is None or self.rho <= self.hidden_size
        self.require(fits, "rho", f"a whole number from 0 to hidden_size ({self.hidden_size})")

    def layer(self, input_size: int, steps: int) -> nn.Module:
        rho = self.hidden_size // 2 if self.rho is None else self.rho
        return SCORNN(input_size, self.hidden_size, rho=rho, batch_first=True)

    def groups(self, layer: SCORNN) -> Iterable[Group]:
        return [Group([layer.A.above], rate=self.orthogonal_rate, optimizer=self.orthogonal_optimizer, weight_decay=0.0)]
