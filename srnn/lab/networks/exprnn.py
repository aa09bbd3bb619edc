"""expRNN (Lezcano-Casado and Martinez-Rubio 2019), dtriv (Lezcano-Casado 2019): an orthogonal matrix as a matrix exponential.

    h_t = modReLU(x_t V + h_{t-1} W; b),    W = B exp(A),    A = -A^T

In expRNN B is always I. `rebase_every` = K makes it dtriv-K: at the start and every K updates B becomes W and A becomes zero,
so that the map stays close to where its derivative is simple. A K larger than the number of updates is dtriv-infinity. A has
its own learning rate. The scores published on permuted MNIST select their epoch on the test images.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from srnn.lab.networks.network import OPTIMIZERS, Group, Network
from srnn.lab.networks.orthogonal import ANGLES, ModReLU, Skew, nearer
from srnn.lab.networks.recurrent import uniform
from srnn.lab.settings import setting


class EXPRNN(ModReLU):
    """A is stored by its entries above the diagonal; B [H, H] is not trained."""

    B: Tensor | None

    def __init__(
        self, input_size: int, hidden_size: int, *, angles: str = "henaff", moves: bool = False, batch_first: bool = False
    ) -> None:
        super().__init__(input_size, hidden_size, batch_first=batch_first)
        nn.init.kaiming_normal_(self.V, mode="fan_out", nonlinearity="relu")  # V is [C, H], so fan_out is the number of inputs
        self.b = uniform(hidden_size, bound=0.01)
        self.A = Skew(hidden_size, angles)
        self.register_buffer("B", torch.eye(hidden_size) if moves else None)
        if moves:
            self.rebase()

    def matrix(self) -> Tensor:
        W = torch.matrix_exp(self.A())
        return W if self.B is None else self.B @ W

    @torch.no_grad()
    def rebase(self) -> None:
        """Sets B to W, made as orthogonal as rounding allows, and A to zero."""
        assert self.B is not None
        self.B.copy_(nearer(self.matrix()))
        self.A.above.zero_()


@dataclass(frozen=True)
class EXPRNNNetwork(Network):
    """Settings of expRNN and dtriv."""

    angles: str = setting("henaff", "Initialisation of A.", choices=ANGLES)
    rebase_every: int = setting(0, "Updates between two changes of B, 0 for none.", least=0)
    orthogonal_rate: float = setting(0.1, "Learning rate of A as a factor of the run's.", above=0)
    orthogonal_optimizer: str | None = setting(None, "Optimizer of A if it is not the run's.", choices=OPTIMIZERS)

    name = "exprnn"
    is_stacked = False
    recipes = {
        # The SRNN paper did not run it, so the decay is that of its own paper.
        "paper": {"": {"alpha": 0.99}, "pmnist": {"angles": "cayley"}, "bigpmnist": {"angles": "cayley"}},
        "own": {
            "": {"alpha": 0.99},
            "copy": {"embed": False, "hidden_size": 190, "batch_size": 128, "lr": 2e-4, "steps": 4000},
            "pmnist": {"hidden_size": 170, "batch_size": 128, "lr": 7e-4, "epochs": 70},
            "speech": {
                "hidden_size": 224,
                "batch_size": 128,
                "optimizer": "adam",
                "orthogonal_optimizer": "rmsprop",
                "epochs": 1200,
            },
        },
    }

    def layer(self, input_size: int, steps: int) -> nn.Module:
        return EXPRNN(input_size, self.hidden_size, angles=self.angles, moves=self.rebase_every > 0, batch_first=True)

    def groups(self, layer: EXPRNN) -> Iterable[Group]:
        return [Group([layer.A.above], rate=self.orthogonal_rate, optimizer=self.orthogonal_optimizer, weight_decay=0.0)]

    def begin_readout(self, readout: nn.Linear, task: str) -> None:
        if task == "copy":
            nn.init.kaiming_normal_(readout.weight, nonlinearity="relu")
            nn.init.zeros_(readout.bias)

    def after_update(self, layer: EXPRNN, update: int) -> Iterable[nn.Parameter]:
        if not self.rebase_every or update % self.rebase_every:
            return []
        layer.rebase()
        return [layer.A.above]
