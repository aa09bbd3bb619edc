"""minGRU (Feng et al. 2024): a GRU whose gate depends on the input only, so that its state is a weighted average.

    h_t = (1 - z_t) h_{t-1} + z_t g(x_t W_h + b_h),    z_t = sigmoid(x_t W_z + b_z)
    g(v) = v + 1/2 for v >= 0, sigmoid(v) below

By default it is a stack of residual blocks, as in the paper: norm, layer and linear map, then norm and MLP. A single layer
cannot count steps: while the input is constant, it cannot tell them apart. The paper computes in logarithms to scan in
parallel; here the recurrence is computed step by step, which rounds less.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from srnn.lab.networks.blocks import Bare, Stack
from srnn.lab.networks.network import Network
from srnn.lab.networks.recurrent import Recurrent
from srnn.lab.networks.scans.linear import linear_scan
from srnn.lab.settings import setting


class MinGRU(Recurrent):
    """One layer of minGRU."""

    def __init__(self, input_size: int, hidden_size: int, *, batch_first: bool = False) -> None:
        super().__init__(input_size, hidden_size, batch_first=batch_first)
        self.linear = nn.Linear(input_size, 2 * hidden_size)  # for z, then for the candidate state

    def scan(self, x: Tensor, hx: Tensor | None) -> tuple[Tensor, Tensor]:
        gate, v = self.linear(x).chunk(2, dim=-1)
        z, h0 = gate.sigmoid(), x.new_zeros(len(x), self.hidden_size) if hx is None else hx[0]
        h = linear_scan(z * torch.where(v >= 0, v + 0.5, v.sigmoid()), 1 - z, h0)
        return h, (h[:, -1] if h.shape[1] else h0)[None]


@dataclass(frozen=True)
class MinGRUNetwork(Network):
    """Settings of minGRU."""

    num_layers: int = 3
    blocks: bool = setting(True, "Put each layer into a residual block with norm, linear map and MLP.")

    name = "mingru"
    recipes = {"own": {"": {"optimizer": "adamw", "lr": 1e-3, "clip": 1.0}}}

    def layer(self, input_size: int, steps: int) -> nn.Module:
        H = self.hidden_size
        if not self.blocks:
            return Bare([MinGRU(input_size if k == 0 else H, H) for k in range(self.num_layers)], batch_first=True)

        def feed() -> nn.Module:
            return nn.Sequential(nn.LayerNorm(H), nn.Linear(H, 2 * H), nn.GELU(), nn.Linear(2 * H, H))

        return Stack(
            input_size, H, self.num_layers, layer=lambda: MinGRU(H, H), mix=lambda: nn.Linear(H, H), feed=feed, batch_first=True
        )

    def variants(self) -> Mapping[str, Network]:
        return {"one bare layer": replace(self, num_layers=1, blocks=False), f"{self.num_layers} blocks": self}
