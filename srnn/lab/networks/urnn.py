"""uRNN (Arjovsky, Shah and Bengio 2016): a unitary matrix as a product of cheap factors with 7 n numbers.

    h_t = modReLU(x_t V + h_{t-1} W; b),    W = D1 F R1 P D2 F^-1 R2 D3,    complex, h_0 learned
    D = diag(exp(i theta)), F the Fourier transform, R the reflection z - 2 <z, v> v / |v|^2, P a fixed permutation

The read-out sees real and imaginary parts. The code of the SRNN authors draws a new h_0 at every call, also in evaluation,
which makes its scores random. It counts 2,305 parameters on adding, including an unused linear map.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from srnn.lab.networks.network import Network
from srnn.lab.networks.orthogonal import ModReLU
from srnn.lab.networks.recurrent import glorot, uniform
from srnn.lab.settings import setting


class URNN(ModReLU):
    """theta [3, H], v [2, 2, H] (reflection, then real and imaginary part)."""

    state_is_complex = True
    learns_start = True
    permutation: Tensor

    def __init__(self, input_size: int, hidden_size: int, *, batch_first: bool = False, factored: bool = False) -> None:
        super().__init__(input_size, hidden_size, batch_first=batch_first, factored=factored)
        self.V = glorot(input_size, 2 * hidden_size)
        self.h0 = uniform(2 * hidden_size, bound=math.sqrt(1.5 / hidden_size))
        self.theta = uniform(3, hidden_size, bound=math.pi)
        self.v = uniform(2, 2, hidden_size, bound=1.0)
        self.register_buffer("permutation", torch.randperm(hidden_size))

    def turn(self, h: Tensor) -> Tensor:
        D = torch.polar(torch.ones_like(self.theta), self.theta)
        v = torch.complex(self.v[:, 0], self.v[:, 1])
        h = _reflect(torch.fft.fft(h * D[0], norm="ortho"), v[0])[..., self.permutation]
        return _reflect(torch.fft.ifft(h * D[1], norm="ortho"), v[1]) * D[2]


def _reflect(z: Tensor, v: Tensor) -> Tensor:
    return z - (z @ v.conj())[..., None] * (2 / v.abs().square().sum() * v)


@dataclass(frozen=True)
class URNNNetwork(Network):
    """Settings of uRNN."""

    factored: bool = setting(False, "Apply the factors at every step instead of building W once.")

    name = "urnn"
    readout_weights = nn.init.xavier_uniform_
    is_stacked = False
    authors_counts = {"": 2_305}
    # The SRNN authors use the embedding of a symbol as the complex input itself, which equals V on one-hot symbols.
    # DEVIATION: theirs is initialised from N(0, 1), with a norm 16 times that of h_0; V is initialised as in uRNN's paper.
    # DEVIATION: the running mean of RMSprop starts at 0 and has torch's epsilon; in uRNN's code it starts at 1e-3 without one.
    recipes = {
        "paper": {"copy": {"embed": False}},
        "own": {
            "copy": {"embed": False},
            "adding": {"hidden_size": 512},
            # From the sequel (Wisdom et al. 2016), which has both tasks; the learning rate of this paper was ten times higher.
            "pmnist": {"hidden_size": 512, "lr": 1e-4, "batch_size": 50, "epochs": 200, "patience": 5},
            "speech": {"hidden_size": 256, "batch_size": 28, "steps": 13_000, "epochs": None},
        },
    }

    def output_size(self, input_size: int) -> int:
        return 2 * self.hidden_size

    def layer(self, input_size: int, steps: int) -> nn.Module:
        return URNN(input_size, self.hidden_size, batch_first=True, factored=self.factored)
