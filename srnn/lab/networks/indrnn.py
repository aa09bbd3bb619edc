"""IndRNN (Li et al. 2018): the state of each unit depends on its own past only; units mix between layers.

    h_t = relu(x_t W + u * h_{t-1} + c),    |u_i| <= g^(1/T)

so that no unit grows more than g-fold over T steps. Batch norm after a layer, for deep stacks, averages over all steps, also
later ones, so use "layer" for tasks with an answer at every step. The released code never applies the initialisation that is
meant for the last layer; here `remembers` does. It also lowers the learning rate when the validation loss stalls, which is not
done here.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from srnn.lab.networks.network import Group, Network
from srnn.lab.networks.recurrent import Recurrent
from srnn.lab.networks.scans.linear import linear_scan
from srnn.lab.settings import setting

NORMS = ("none", "batch", "layer")


class IndRNN(Recurrent):
    """A stack of IndRNN layers; `bound` is the largest |u|, the other settings are those of `IndRNNNetwork`."""

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
        """Clips every u to the bound."""
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
    """Settings of IndRNN."""

    num_layers: int = 2
    growth: float = setting(2.0, "Largest growth g of a unit over the steps of a sequence.", least=1, most=1_000_000)
    remembers: bool = setting(True, "Start the last layer with u close to 1, for answers after the last step.")
    layer_norm: str = setting("none", "Normalisation after each layer.", choices=NORMS)
    layer_dropout: float = setting(0.0, "Dropout between layers, of the same units at every step.", least=0, below=1)
    input_std: float = setting(0.0, "Deviation of the initial input weights, 0 for Kaiming's with slope 8.", least=0)

    name = "indrnn"
    readout_weights = nn.init.kaiming_normal_
    recipes = {
        "paper": {"copy": {"remembers": False}, "speech": {"remembers": False}},
        "own": {
            # DEVIATION: gradients of the parameters are clipped; the released code clips inside the layer.
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

    def layer(self, input_size: int, steps: int) -> nn.Module:
        same = self.values("hidden_size", "num_layers", "remembers", "input_std")
        between: dict[str, Any] = {"norm": self.layer_norm, "dropout": self.layer_dropout}
        return IndRNN(input_size, bound=self.growth ** (1 / steps), **same, **between, batch_first=True)

    def groups(self, layer: IndRNN) -> Iterable[Group]:
        biases = [parameter for name, parameter in layer.inputs.named_parameters() if name.endswith("bias")]
        # DEVIATION: weight decay applies to the bias of the read-out too.
        return [Group([*layer.u, *biases, *layer.norms.parameters()], weight_decay=0.0)]

    def after_update(self, layer: IndRNN, update: int) -> Iterable[nn.Parameter]:
        layer.confine()
        return []
