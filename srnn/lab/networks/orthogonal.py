"""The recurrence that the unitary and orthogonal networks share, and the skew-symmetric matrices of the orthogonal ones.

    h_t = modReLU(x_t V + h_{t-1} W; b)        modReLU(z; b) = z / |z| relu(|z| + b)

States are rows, so W is the transpose of the matrix in the papers. W is built once per sequence. A network whose W is a product
of cheap factors can apply these at every step instead (`factored`), to measure what that costs.
"""

import math
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from srnn.errors import one_of
from srnn.lab.networks.recurrent import Recurrent
from srnn.lab.networks.scans.linear import halves
from srnn.lab.networks.scans.modrelu import modrelu, modrelu_scan

ANGLES = ("henaff", "cayley")


class ModReLU(Recurrent):
    """V [C, K], b [H], with learns_start also h0 [K]; K is H, or 2 H for a complex state. A subclass has `matrix` or `turn`."""

    learns_start: ClassVar[bool] = False

    def __init__(self, input_size: int, hidden_size: int, *, batch_first: bool = False, factored: bool = False) -> None:
        super().__init__(input_size, hidden_size, batch_first=batch_first)
        self.factored = factored
        self.width = 2 * hidden_size if self.state_is_complex else hidden_size
        self.V = nn.Parameter(torch.empty(input_size, self.width))
        self.b = nn.Parameter(torch.zeros(hidden_size))
        self.h0 = nn.Parameter(torch.empty(self.width)) if self.learns_start else None

    def matrix(self) -> Tensor:
        """Returns W [H, H], by default from `turn`."""
        return self.turn(self.eye())

    def turn(self, h: Tensor) -> Tensor:
        """Returns h W for rows h [..., H], factor by factor."""
        raise NotImplementedError

    def eye(self) -> Tensor:
        """Returns the identity matrix in the dtype of the state."""
        dtype = self.V.dtype.to_complex() if self.state_is_complex else self.V.dtype
        return torch.eye(self.hidden_size, dtype=dtype, device=self.V.device)

    def output(self, states: Tensor) -> Tensor:
        """Returns what the read-out sees of the states."""
        return states

    def scan(self, x: Tensor, hx: Tensor | None) -> tuple[Tensor, Tensor]:
        drive = x.transpose(0, 1) @ self.V
        if hx is not None:
            h = halves(hx[0]) if self.state_is_complex else hx[0]
        else:
            h = drive.new_zeros(len(x), self.width) if self.h0 is None else self.h0.expand(len(x), -1)
        states = self._turn_by_turn(drive, h) if self.factored else modrelu_scan(drive, self._real_matrix(), self.b, h)
        last = states[-1] if len(states) else h
        return self.output(states).transpose(0, 1), (_complex(last) if self.state_is_complex else last)[None]

    def _real_matrix(self) -> Tensor:
        W = self.matrix()
        if not self.state_is_complex:
            return W
        return torch.cat([torch.cat([W.real, W.imag], dim=1), torch.cat([-W.imag, W.real], dim=1)])

    def _turn_by_turn(self, drive: Tensor, h: Tensor) -> Tensor:
        states = []
        for x_t in drive:
            turned = halves(self.turn(_complex(h))) if self.state_is_complex else self.turn(h)
            h = modrelu(x_t + turned, self.b)
            states.append(h)
        return torch.stack(states) if states else drive


def _complex(h: Tensor) -> Tensor:
    return torch.complex(*h.chunk(2, dim=-1))


class Skew(nn.Module):
    """A skew-symmetric matrix A [n, n], stored by the n (n - 1) / 2 numbers above its diagonal; it starts as 2 x 2 blocks.

    With angles "henaff" the blocks hold s ~ U(-pi, pi), and exp(A) rotates by s. With "cayley" they hold s = -tan(t / 2),
    t ~ U(0, pi / 2), and (I + A)^-1 (I - A) rotates by t.
    """

    index: Tensor

    def __init__(self, n: int, angles: str) -> None:
        super().__init__()
        self.n = n
        rows, columns = torch.triu_indices(n, n, 1)
        self.register_buffer("index", rows * n + columns, persistent=False)
        blocks = torch.zeros(n, n)
        first = torch.arange(0, n - 1, 2)
        if angles not in ANGLES:
            raise one_of("kind of angles", angles, ANGLES)
        if angles == "henaff":
            blocks[first, first + 1] = torch.empty(len(first)).uniform_(-math.pi, math.pi)
        else:
            blocks[first, first + 1] = -torch.tan(torch.empty(len(first)).uniform_(0, math.pi / 2) / 2)
        self.above = nn.Parameter(blocks[rows, columns])

    def forward(self) -> Tensor:
        upper = self.above.new_zeros(self.n * self.n).index_copy(0, self.index, self.above).view(self.n, self.n)
        return upper - upper.T


def nearer(W: Tensor) -> Tensor:
    """Returns W (3 I - W^H W) / 2, which is closer to a unitary matrix: the distance, here a rounding error, is squared."""
    eye: Any = torch.eye(len(W), dtype=W.dtype, device=W.device)
    return W @ (3 * eye - W.mH @ W) / 2
