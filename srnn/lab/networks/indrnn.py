"""IndRNN (Li et al. 2018): each unit remembers by itself alone; units mix between layers.

    h_t = relu(x_t W + u * h_{t-1} + c),    |u_i| <= g^(1/T)

so that over T steps no unit grows more than g-fold. Batch norm after a layer, for deep stacks, sees all steps at once, also
later ones: for answers at every step take "layer". In the released code the beginning that is meant for the last layer never
reaches it; here `remembers` gives it. There the rate falls when the validation loss stays, which is not done here.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from srnn.lab.networks.network import Group, Network
from srnn.lab.networks.recurrent import Recurrent
from srnn.lab.networks.scans.linear import linear_scan

NORMS = ("none", "batch", "layer")


class IndRNN(Recurrent):
    """bound: the largest |u|. input_std: of the first input weights, 0: Kaiming's. norm: after each layer. dropout: between."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 2,
        *,
        bound: float = 1.0,
        remembers: bool = True,
        norm: str = "none",
        dropout: float = 0.0,
        input_std: float = 0.0,
        batch_first: bool = False,
    ) -> None:
        super().__init__(input_size, hidden_size, num_layers, batch_first=batch_first)
        self.bound, self.dropout = bound, dropout
        widths = [input_size, *[hidden_size] * (num_layers - 1)]
        self.inputs = nn.ModuleList(_linear(width, hidden_size, input_std) for width in widths)
        self.u = nn.ParameterList(torch.empty(hidden_size).uniform_(0, bound) for _ in widths)
        if remembers:
            nn.init.uniform_(self.u[-1], 1 / bound, bound)
        kinds = {"none": nn.Identity, "batch": nn.BatchNorm1d, "layer": nn.LayerNorm}
        self.norms = nn.ModuleList(kinds[norm](hidden_size) for _ in widths)

    def scan(self, x: Tensor, hx: Tensor | None) -> tuple[Tensor, Tensor]:
        last = []
        for k, (linear, u, norm) in enumerate(zip(self.inputs, self.u, self.norms, strict=True)):
            h0 = x.new_zeros(len(x), self.hidden_size) if hx is None else hx[k]
            h = linear_scan(linear(x), u, h0, "relu")
            last.append(h[:, -1] if h.shape[1] else h0)
            x = norm(h.flatten(0, 1)).view_as(h) if isinstance(norm, nn.BatchNorm1d) else norm(h)
            if self.dropout and self.training and k + 1 < self.num_layers:  # one mask for all steps
                x = x * nn.functional.dropout(torch.ones_like(x[:, :1]), self.dropout)
        return x, torch.stack(last)

    @torch.no_grad()
    def confine(self) -> None:
        for u in self.u:
            u.clamp_(-self.bound, self.bound)


def _linear(m: int, n: int, std: float) -> nn.Linear:
    linear = nn.Linear(m, n)
    if std:
        nn.init.normal_(linear.weight, std=std)
    else:
        nn.init.kaiming_uniform_(linear.weight, a=8)
    nn.init.zeros_(linear.bias)
    return linear


@dataclass(frozen=True)
class IndRNNNetwork(Network):
    """growth: g. remembers: the last layer begins with units that keep what they have, for answers after the last step.

    layer_norm: "none", "batch" or "layer", after each layer. layer_dropout: between layers, the same units at every step.
    input_std: of the first input weights; 0 is uniform as Kaiming's with a slope of 8.
    """

    num_layers: int = 2
    growth: float = 2.0
    remembers: bool = True
    layer_norm: str = "none"
    layer_dropout: float = 0.0
    input_std: float = 0.0

    name = "indrnn"
    recipes = {
        "paper": {"copy": {"remembers": False}, "speech": {"remembers": False}},
        "own": {
            # DEVIATION: gradients are cut in the parameters, in the released code inside of the layer.
            "adding": {
                "input_std": 0.001,
                "optimizer": "adam",
                "lr": 2e-4,
                "batch_size": 32,
                "schedule": "staircase",
                "clip_value": 10.0,
            },
            "pmnist": {
                "num_layers": 6,
                "hidden_size": 128,
                "layer_norm": "batch",
                "layer_dropout": 0.1,
                "growth": 5.0,
                "optimizer": "adam",
                "lr": 2e-4,
                "batch_size": 32,
                "weight_decay": 1e-4,
                "clip_value": 10.0,
            },
        },
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require(1 <= self.growth <= 1e6, "from 1 to a million", "growth")
        self._require(self.input_std >= 0, "0 or more", "input_std")
        self._require(self.layer_norm in NORMS, f"one of {', '.join(NORMS)}", "layer_norm")
        self._require(0 <= self.layer_dropout < 1, "a probability below 1", "layer_dropout")

    def layer(self, input_size: int, steps: int) -> nn.Module:
        return IndRNN(
            input_size,
            self.hidden_size,
            self.num_layers,
            bound=self.growth ** (1 / steps),
            remembers=self.remembers,
            norm=self.layer_norm,
            dropout=self.layer_dropout,
            input_std=self.input_std,
            batch_first=True,
        )

    def groups(self, layer: IndRNN) -> Iterable[Group]:
        biases = [parameter for name, parameter in layer.inputs.named_parameters() if name.endswith("bias")]
        # DEVIATION: the read-out's bias is decayed with its weights.
        return [Group([*layer.u, *biases, *layer.norms.parameters()], weight_decay=0.0)]

    def after_update(self, layer: IndRNN, update: int) -> Iterable[nn.Parameter]:
        layer.confine()
        return []

    def begin_readout(self, readout: nn.Linear, task: str) -> None:
        nn.init.kaiming_normal_(readout.weight)
        nn.init.zeros_(readout.bias)
