"""LRU (Orvieto et al. 2023): a linear recurrence with complex eigenvalues below 1 in modulus, non-linear maps between layers.

    s_t = L * s_{t-1} + g * (x_t B),    y_t = Re(s_t C) + D * x_t
    L = exp(-exp(nu) + i exp(theta)),   g = exp(gamma), initially sqrt(1 - |L|^2)

By default it is a stack of residual blocks, as in the paper: norm, layer, GELU and a gated linear map. Eigenvalues start in a
ring close to the unit circle with small angles, as in the paper for long memories. SRNN without its ReLU is an LRU whose L are
the H-th roots of 1.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from srnn.lab.networks.blocks import Bare, Stack
from srnn.lab.networks.network import Group, Network
from srnn.lab.networks.recurrent import Recurrent
from srnn.lab.networks.scans.linear import halves, linear_scan
from srnn.lab.settings import setting


class LRU(Recurrent):
    """One layer, whose output is as wide as its input. B [C, 2 H] and C [2 H, C] hold real parts, then imaginary parts."""

    state_is_complex = True

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        radii: tuple[float, float] = (0.9, 0.999),
        largest_angle: float = math.pi / 10,
        batch_first: bool = False,
    ) -> None:
        super().__init__(input_size, hidden_size, batch_first=batch_first)
        least, most = radii
        u = torch.rand(hidden_size).clamp(1e-6, 1 - 1e-6)
        length = (u * (most**2 - least**2) + least**2).sqrt()  # uniform over the ring
        self.nu = nn.Parameter((-length.log()).log())
        self.theta = nn.Parameter((largest_angle * torch.rand(hidden_size).clamp(1e-6)).log())
        self.gamma = nn.Parameter((1 - length.square()).log() / 2)
        self.B = nn.Parameter(torch.randn(input_size, 2 * hidden_size) / math.sqrt(2 * input_size))
        self.C = nn.Parameter(torch.randn(2 * hidden_size, input_size) / math.sqrt(hidden_size))
        self.D = nn.Parameter(torch.randn(input_size))

    def eigenvalues(self) -> Tensor:
        """Returns L [H], complex."""
        return torch.polar((-self.nu.exp()).exp(), self.theta.exp())

    def scan(self, x: Tensor, hx: Tensor | None) -> tuple[Tensor, Tensor]:
        gain = self.gamma.exp().repeat(2)
        s0 = x.new_zeros(len(x), 2 * self.hidden_size) if hx is None else halves(hx[0])
        s = linear_scan(x @ (self.B * gain), halves(self.eigenvalues()), s0, "complex")
        # Re(s C) = Re s Re C - Im s Im C; the lower half of C includes the sign.
        y = s @ self.C + self.D * x
        last = s[:, -1] if s.shape[1] else s0
        return y, torch.complex(*last.chunk(2, dim=-1))[None]


class _GatedMix(nn.Module):
    """Dropout of a gated linear unit: (g W + b) * sigmoid(g U + c) with g = GELU(x)."""

    def __init__(self, H: int, dropout: float) -> None:
        super().__init__()
        self.linear, self.dropout = nn.Linear(H, 2 * H), dropout

    def forward(self, x: Tensor) -> Tensor:
        y = nn.functional.glu(self.linear(nn.functional.gelu(x)))
        return nn.functional.dropout(y, self.dropout, self.training) if self.dropout else y


@dataclass(frozen=True)
class LRUNetwork(Network):
    """Settings of LRU."""

    num_layers: int = 4
    blocks: bool = setting(True, "Put each layer into a residual block with norm and gated map.")
    radii: tuple[float, ...] = setting((0.9, 0.999), "Inner and outer radius of the ring of initial eigenvalues.")
    largest_angle: float = setting(math.pi / 10, "Largest angle of the initial eigenvalues.", above=0)
    eigenvalue_rate: float = setting(0.5, "Learning rate of nu, theta, gamma and B as a factor of the run's.", above=0)
    layer_dropout: float = setting(0.0, "Dropout inside the blocks.", least=0, below=1)

    name = "lru"
    recipes = {
        "own": {
            "": {"optimizer": "adamw", "lr": 1e-3, "weight_decay": 0.05, "schedule": "cosine", "layer_dropout": 0.1},
            # DEVIATION: data that never repeat need no dropout, and the reported loss is the training loss.
            "copy": {"layer_dropout": 0.0},
            "adding": {"layer_dropout": 0.0},
        }
    }

    def check(self) -> None:
        super().check()
        fits = len(self.radii) == 2 and 0 <= self.radii[0] < self.radii[1] < 1
        self.require(fits, "radii", "two numbers, 0 <= inner < outer < 1, because the gain of the input is 0 at 1")

    def output_size(self, input_size: int) -> int:
        return self.hidden_size if self.blocks else input_size

    def layer(self, input_size: int, steps: int) -> nn.Module:
        H = self.hidden_size
        how = self.values("radii", "largest_angle")
        if not self.blocks:
            return Bare([LRU(input_size, H, **how) for _ in range(self.num_layers)], batch_first=True)
        layer, mix = partial(LRU, H, H, **how), partial(_GatedMix, H, self.layer_dropout)
        return Stack(input_size, H, self.num_layers, layer=layer, mix=mix, batch_first=True)

    def groups(self, layer: Any) -> Iterable[Group]:
        own = [parameter for part in layer.layers for parameter in (part.nu, part.theta, part.gamma, part.B)]
        return [Group(own, rate=self.eigenvalue_rate, weight_decay=0.0)]

    def variants(self) -> Mapping[str, Network]:
        return {"one bare layer": replace(self, num_layers=1, blocks=False), f"{self.num_layers} blocks": self}
