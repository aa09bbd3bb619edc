"""expRNN (Lezcano-Casado and Martinez-Rubio 2019) and dtriv (Lezcano-Casado 2019): an orthogonal matrix by the exponential.

    h_t = modReLU(x_t V + h_{t-1} W; b),    W = B exp(A),    A = -A^T

expRNN has B = I for ever. With `rebase_every` = K it is dtriv-K: at the start and every K updates B becomes W, and A zero, so
that the map never strays far from where its derivative is simple; a K beyond the end of the run is dtriv-infinity. A has a
learning rate of its own. The published scores on permuted MNIST chose their epoch on the test images.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from srnn.lab.networks.network import OPTIMIZERS, Group, Network
from srnn.lab.networks.orthogonal import ANGLES, ModReLU, Skew, nearer
from srnn.lab.networks.recurrent import uniform


class EXPRNN(ModReLU):
    """A by what stands above its diagonal; B [H, H] is not trained."""

    B: Tensor | None

    def __init__(
        self, input_size: int, hidden_size: int, *, angles: str = "henaff", moves: bool = False, batch_first: bool = False
    ) -> None:
        super().__init__(input_size, hidden_size, batch_first=batch_first)
        nn.init.kaiming_normal_(self.V, mode="fan_out", nonlinearity="relu")  # V is [C, H]: its fan_out is the inputs
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
        """B becomes W, as orthogonal as it can be, and A zero."""
        assert self.B is not None
        self.B.copy_(nearer(self.matrix()))
        self.A.above.zero_()


@dataclass(frozen=True)
class EXPRNNNetwork(Network):
    """angles: how A begins, "henaff" or "cayley". rebase_every: updates between two bases, 0 for one base.

    orthogonal_rate: the learning rate of A, times that of the run. orthogonal_optimizer: that of A, None for the run's.
    """

    angles: str = "henaff"
    rebase_every: int = 0
    orthogonal_rate: float = 0.1
    orthogonal_optimizer: str | None = None

    name = "exprnn"
    is_stacked = False
    recipes = {
        # The SRNN paper did not run it: its decay is that of its own paper.
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

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require(self.angles in ANGLES, f"one of {', '.join(ANGLES)}", "angles")
        self._require(self.rebase_every >= 0, "0 or a number of updates", "rebase_every")
        optimizer = self.orthogonal_optimizer
        self._require(
            optimizer is None or optimizer in tuple(OPTIMIZERS), f"one of {', '.join(OPTIMIZERS)}", "orthogonal_optimizer"
        )
        self._require(self.orthogonal_rate > 0, "positive", "orthogonal_rate")

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
