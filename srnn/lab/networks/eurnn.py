"""EURNN (Jing et al. 2017): a unitary matrix as a product of layers of plane rotations; the number of layers is free.

    h_t = modReLU(x_t V + h_{t-1} W; b),    W = F_1 F_2 ... F_L diag(exp(i omega)),    complex
    F_k turns disjoint pairs (p, q):  p' = cos(t) p - sin(t) e^{i f} q,   q' = sin(t) p + cos(t) e^{i f} q

Style "tunable" has L layers of neighbours: (0,1) (2,3) ... in one layer and (1,2) (3,4) ... in the next. L = H reaches every
unitary matrix. Style "fft" has log2 H layers with strides H/2, H/4, ... 1. The read-out sees only the real part. The released
code adds 0.01 to |z| in modReLU, and its flag for a real state has no effect.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from srnn.lab.networks.network import Network
from srnn.lab.networks.orthogonal import ModReLU
from srnn.lab.networks.recurrent import uniform
from srnn.lab.settings import setting

STYLES = ("tunable", "fft")


class EURNN(ModReLU):
    """theta, phi [pairs of all layers], omega [H]."""

    state_is_complex = True
    partner: Tensor
    own: Tensor

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        style: str = "tunable",
        capacity: int = 2,
        batch_first: bool = False,
        factored: bool = False,
    ) -> None:
        super().__init__(input_size, hidden_size, batch_first=batch_first, factored=factored)
        self.V = uniform(input_size, 2 * hidden_size, bound=0.01)
        layers = _butterflies(hidden_size) if style == "fft" else _neighbours(hidden_size, capacity)
        # For each layer and unit: its partner, and its index into [1, first of each pair ..., second of each pair ...].
        partner, own, pairs = torch.arange(hidden_size).repeat(len(layers), 1), torch.zeros(len(layers), hidden_size).long(), 0
        total = sum(len(layer) for layer in layers)
        for k, layer in enumerate(layers):
            for p, q in layer:
                partner[k, p], partner[k, q], own[k, p], own[k, q] = q, p, 1 + pairs, 1 + total + pairs
                pairs += 1
        self.register_buffer("partner", partner, persistent=False)
        self.register_buffer("own", own, persistent=False)
        self.theta, self.phi = uniform(total, bound=math.pi), uniform(total, bound=math.pi)
        self.omega = uniform(hidden_size, bound=math.pi)

    def turn(self, h: Tensor) -> Tensor:
        phase = torch.polar(torch.ones_like(self.phi), self.phi)
        cos, sin, one = self.theta.cos(), self.theta.sin(), self.theta.new_ones(1)
        stay = torch.cat([one, cos, cos * phase])[self.own]
        cross = torch.cat([0 * one, -sin * phase, sin])[self.own]
        for partner, v, w in zip(self.partner, stay, cross, strict=True):
            h = h * v + h[..., partner] * w
        return h * torch.polar(torch.ones_like(self.omega), self.omega)

    def output(self, states: Tensor) -> Tensor:
        return states[..., : self.hidden_size]


def _neighbours(H: int, L: int) -> list[list[tuple[int, int]]]:
    return [[(p, p + 1) for p in range(k % 2, H - 1, 2)] for k in range(L)]


def _butterflies(H: int) -> list[list[tuple[int, int]]]:
    strides = [H >> (k + 1) for k in range(H.bit_length() - 1)]
    return [[(p, p + stride) for p in range(H) if not p & stride] for stride in strides]


@dataclass(frozen=True)
class EURNNNetwork(Network):
    """Settings of EURNN."""

    style: str = setting("tunable", "Which units are rotated together.", choices=STYLES)
    capacity: int = setting(2, "Layers of rotations, for style tunable.")
    factored: bool = setting(False, "Apply the factors at every step instead of building W once.")

    name = "eurnn"
    is_stacked = False
    recipes = {
        "own": {
            "copy": {"embed": False, "batch_size": 128, "steps": 10_000},
            "pmnist": {"hidden_size": 512, "lr": 1e-4, "batch_size": 128, "steps": 20_000, "epochs": None},
        }
    }

    def check(self) -> None:
        super().check()
        if self.style == "fft":
            is_power = self.hidden_size > 1 and self.hidden_size & (self.hidden_size - 1) == 0
            self.require(is_power, "hidden_size", "a power of two for style fft")
            self.require(self.capacity == 2, "capacity", "left at 2 for style fft, which has log2(hidden_size) layers")
        else:
            self.require(self.hidden_size % 2 == 0, "hidden_size", "even for style tunable")
            even = self.capacity % 2 == 0 and 2 <= self.capacity <= self.hidden_size
            self.require(even, "capacity", f"even, from 2 to hidden_size ({self.hidden_size})")

    def layer(self, input_size: int, steps: int) -> nn.Module:
        return EURNN(input_size, **self.values("hidden_size", "style", "capacity", "factored"), batch_first=True)

    def variants(self) -> Mapping[str, Network]:
        full = {f"{self.hidden_size} layers": replace(self, style="tunable", capacity=self.hidden_size)}
        fft = {} if self.hidden_size & (self.hidden_size - 1) else {"fft": replace(self, style="fft", capacity=2)}
        return {"": self, **fft, **full}

    def begin_readout(self, readout: nn.Linear, task: str) -> None:
        # DEVIATION: the released code bounds the weights by the number of inputs of the layer, not by its units.
        nn.init.xavier_uniform_(readout.weight)
        nn.init.constant_(readout.bias, 0.01)
