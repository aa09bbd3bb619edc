"""NRU (Chandar et al. 2019): a state that never saturates, and a memory that is written and erased.

    h_t = relu([x_t, h_{t-1}, m_{t-1}] W_h + b_h)
    m_t = m_{t-1} + 1/k sum_i (alpha_i v_i - beta_i u_i),    from q = [h_t, m_{t-1}], for k heads
    alpha = q W_a + b_a,  beta = q W_b + b_b,   v_i, u_i: directions of L5 norm 1, from outer products

    v_i = p_i (x) w divided by its norm, where (p, w) = q W_v + b_v have sqrt(k M) numbers each and p_i is the i-th part of p.
    The norm of an outer product is the product of the norms, so the directions themselves are never computed.

This follows the released code: x_t is not part of q, and alpha and beta may be negative (`relu` prevents that, as in the
paper). With the initial weights the memory grows by some percent per step, and after a few hundred steps the loss starts above
1e10. The published numbers depend on an accident that ends this growth: beyond 5e7 the fifth powers of the L5 norm overflow
float32, and such a direction becomes 0. Without it, adding with 200 steps was not learned. So it is an explicit rule here,
`REACH`, and nothing overflows. `head_scale` 0.1, which is not in the paper, starts with small alpha and beta, and so with
little growth. Memory and heads must be such that each p_i is a whole part of p.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from srnn.lab.networks.network import Network
from srnn.lab.networks.recurrent import Recurrent
from srnn.lab.settings import setting

REACH = torch.finfo(torch.float32).max ** 0.2  # a larger L5 norm is infinite in float32


class NRU(Recurrent):
    """hx and h_n are pairs of the state [1, N, H] and the memory [1, N, M]."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        memory_size: int = 256,
        heads: int = 4,
        relu: bool = False,
        head_scale: float = 1.0,
        batch_first: bool = False,
    ) -> None:
        super().__init__(input_size, hidden_size, batch_first=batch_first)
        self.memory_size, self.heads, self.relu = memory_size, heads, relu
        self.side = math.isqrt(heads * memory_size)  # sqrt(k M)
        self.state = nn.Linear(input_size + hidden_size + memory_size, hidden_size)
        # alpha, beta; then p for writing and erasing, then w for both.
        self.heads_map = nn.Linear(hidden_size + memory_size, 2 * heads + 4 * self.side)
        with torch.no_grad():
            self.heads_map.weight[: 2 * heads] *= head_scale
            self.heads_map.bias[: 2 * heads] *= head_scale

    @property
    def state_sizes(self) -> tuple[int, ...]:
        return self.hidden_size, self.memory_size

    def scan(self, x: Tensor, hx: tuple[Tensor, Tensor] | None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        N, C, k, H = len(x), self.input_size, self.heads, self.hidden_size
        # The contribution of the input, for all steps at once.
        drive = x.transpose(0, 1) @ self.state.weight[:, :C].T + self.state.bias
        from_before, from_now = self.state.weight[:, C:].T, self.heads_map.weight.T
        h, m = (x.new_zeros(N, H), x.new_zeros(N, self.memory_size)) if hx is None else (hx[0][0], hx[1][0])
        states = []
        for x_t in drive:
            h = torch.addmm(x_t, torch.cat([h, m], dim=1), from_before).relu()
            q = torch.addmm(self.heads_map.bias, torch.cat([h, m], dim=1), from_now)
            amount, p, w = q.split((2 * k, 2 * self.side, 2 * self.side), dim=1)
            amount = (amount.relu() if self.relu else amount).view(N, 2, k, 1)
            (p, p_length), (w, w_length) = _direct(p.view(N, 2, k, self.side // k)), _direct(w.view(N, 2, self.side))
            amount = amount * (p_length * w_length[..., None] < REACH)
            p = (amount * p).sum(dim=2)  # [N, 2, M / side]
            write, erase = p.unbind(dim=1)
            change = torch.bmm(torch.stack([write, -erase], dim=2), w)
            m = m + change.flatten(1) / k
            states.append(h)
        return torch.stack(states, dim=1) if states else x.new_empty(N, 0, H), (h[None], m[None])


def _direct(v: Tensor) -> tuple[Tensor, Tensor]:
    """Returns v divided by its L5 norm over the last dimension, and the norm. 0 stays 0, and no power overflows."""
    largest = v.detach().abs().amax(dim=-1, keepdim=True).clamp_min(1e-6)  # a smaller v is not scaled up to norm 1
    v = v / largest
    square = v * v
    factor = (square * square * v.abs()).sum(dim=-1, keepdim=True).clamp_min(1).pow(-0.2)
    return v * factor, largest / factor.detach()


@dataclass(frozen=True)
class NRUNetwork(Network):
    """Settings of NRU."""

    memory_size: int = setting(256, "Size of the memory.")
    heads: int = setting(4, "Heads that write and erase.", least=1)
    relu: bool = setting(False, "Keep alpha and beta positive, as in the paper.")
    head_scale: float = setting(1.0, "Factor of the initial weights of alpha and beta.")

    name = "nru"
    readout_weights = nn.init.xavier_normal_
    is_stacked = False
    authors_counts = {"": 102_025}
    recipes = {
        "paper": {"": {"optimizer": "adam", "clip": 1.0}},
        "own": {"": {"optimizer": "adam", "clip": 1.0}, "pmnist": {"hidden_size": 212, "steps": 50_000, "epochs": None}},
    }

    def check(self) -> None:
        super().check()
        ratio = self.memory_size // self.heads
        square = self.memory_size > 0 and ratio * self.heads == self.memory_size and math.isqrt(ratio) ** 2 == ratio
        self.require(square, "memory_size", f"heads ({self.heads}) times the square of a whole number")

    def layer(self, input_size: int, steps: int) -> nn.Module:
        return NRU(input_size, **self.values("hidden_size", "memory_size", "heads", "relu", "head_scale"), batch_first=True)
