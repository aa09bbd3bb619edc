"""RGD, full-capacity uRNN (Wisdom et al. 2016): any unitary matrix, which stays unitary by steps along the unitary group.

    h_t = modReLU(x_t V + h_{t-1} W; b),    complex, h_0 learned
    W <- (I + l/2 A)^-1 (I - l/2 A) W,      A = G W^H - W G^H,    G the gradient with respect to W

The released code uses the gradient of half of the entries and lets rounding errors accumulate. Here all of G counts, and each
step ends with a correction towards the closest unitary matrix. If the published numbers come from that code, they belong to
another method.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from srnn.lab.networks.network import Group, Network
from srnn.lab.networks.orthogonal import ModReLU, nearer
from srnn.lab.networks.recurrent import glorot, uniform
from srnn.lab.networks.urnn import URNN
from srnn.lab.settings import setting


class RGD(ModReLU):
    """W [2, H, H], real and imaginary part, is initialised as the matrix of a uRNN."""

    state_is_complex = True
    learns_start = True

    def __init__(self, input_size: int, hidden_size: int, *, batch_first: bool = False) -> None:
        super().__init__(input_size, hidden_size, batch_first=batch_first)
        self.V = glorot(input_size, 2 * hidden_size)
        self.h0 = uniform(2 * hidden_size, bound=math.sqrt(1.5 / hidden_size))
        with torch.no_grad():
            self.W = nn.Parameter(torch.view_as_real(URNN(1, hidden_size).matrix()).movedim(-1, 0).contiguous())

    def matrix(self) -> Tensor:
        return torch.complex(self.W[0], self.W[1])


class CayleyDescent(torch.optim.Optimizer):
    """Moves W [2, n, n] along the unitary group. `is_scaled` divides the gradient by its running root mean square."""

    def __init__(self, params: Any, lr: float, is_scaled: bool = False, alpha: float = 0.9) -> None:
        super().__init__(params, {"lr": lr, "is_scaled": is_scaled, "alpha": alpha})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    parameter.copy_(self._turned(parameter, parameter.grad, group))

    def _turned(self, parameter: Tensor, grad: Tensor, group: dict[str, Any]) -> Tensor:
        if group["is_scaled"]:
            mean = self.state[parameter].setdefault("square_avg", torch.zeros_like(parameter))
            mean.mul_(group["alpha"]).addcmul_(grad, grad, value=1 - group["alpha"])
            grad = grad / (mean.sqrt() + 1e-8)
        W, G = torch.complex(*parameter), torch.complex(*grad)
        A, eye = G @ W.mH - W @ G.mH, torch.eye(len(W), dtype=W.dtype, device=W.device)
        W = nearer(torch.linalg.solve(eye + group["lr"] / 2 * A, (eye - group["lr"] / 2 * A) @ W))
        return torch.stack([W.real, W.imag])


@dataclass(frozen=True)
class RGDNetwork(Network):
    """Settings of RGD."""

    unitary_rate: float = setting(1.0, "Learning rate of W as a factor of the run's.", above=0)
    scaled: bool = setting(False, "Divide the gradient of W by its running root mean square.")

    name = "rgd"
    readout_weights = nn.init.xavier_uniform_
    is_stacked = False
    recipes = {
        "own": {
            "copy": {"embed": False, "steps": 10_000},
            "pmnist": {
                "hidden_size": 116,
                "unitary_rate": 1e-3,  # 1e-6 for W
                "scaled": True,
                "batch_size": 50,
                "epochs": 200,
                "patience": 5,
            },
            "speech": {"hidden_size": 128, "batch_size": 28, "steps": 13_000, "epochs": None},
        }
    }

    def output_size(self, input_size: int) -> int:
        return 2 * self.hidden_size

    def layer(self, input_size: int, steps: int) -> nn.Module:
        return RGD(input_size, self.hidden_size, batch_first=True)

    def groups(self, layer: RGD) -> Iterable[Group]:
        descent = partial(CayleyDescent, is_scaled=self.scaled)
        return [Group([layer.W], rate=self.unitary_rate, optimizer=descent, is_clipped=False)]

    def free_parameters(self, layer: nn.Module) -> int:
        return super().free_parameters(layer) - self.hidden_size**2  # the unitary group has n^2 dimensions
