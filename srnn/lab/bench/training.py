"""The training settings of the benchmark: data of the right shape and distribution, the networks, and their race.

The settings are those of the paper's Table 4, and speech once more at H 1024. The data are drawn at random; what is timed is
one training step on one batch.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from srnn.lab.bench.clock import Call, Clock, ratio
from srnn.layer import SRNN

RIVALS: dict[str, Callable[..., nn.Module]] = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}


def copying(N: int, T: int) -> tuple[Tensor, Tensor]:
    """Ten symbols of eight, blanks (0), a signal (9) eleven steps before the end; to be said in the last ten steps."""
    symbols = torch.randint(1, 9, (N, 10))
    ids, target = torch.zeros(2, N, T, dtype=torch.int64)
    ids[:, :10], ids[:, -11], target[:, -10:] = symbols, 9, symbols
    return ids, target


def adding(N: int, T: int) -> tuple[Tensor, Tensor]:
    """Numbers in [0, 1) and a mark on two of them, one in each half; their sum."""
    x, n = torch.stack([torch.rand(N, T), torch.zeros(N, T)], dim=-1), torch.arange(N)
    marked = torch.stack([torch.randint(0, T // 2, (N,)), torch.randint(T // 2, T, (N,))])
    x[n, marked, 1] = 1.0
    return x, x[n, marked, 0].sum(0)[:, None]


def grey_levels(N: int, T: int, background: float = 0.81) -> Tensor:
    """Ids of 256 grey levels: 81 % background (level 0) as in MNIST, the rest uniform over all levels."""
    return torch.randint(0, 256, (N, T)).masked_fill(torch.rand(N, T) < background, 0).to(torch.uint8)


def images(N: int, T: int) -> tuple[Tensor, Tensor]:
    return grey_levels(N, T), torch.randint(0, 10, (N,))


def real_images(N: int, T: int) -> tuple[Tensor, Tensor]:
    return grey_levels(N, T)[..., None] / 255, torch.randint(0, 10, (N,))


def frames(N: int, T: int) -> tuple[Tensor, Tensor]:
    """Standard normal spectra of 129 bins, in and out."""
    return torch.randn(N, T, 129), torch.randn(N, T, 129)


@dataclass(frozen=True)
class Setting:
    """One line of the table: a task's shape, the layer's sizes, and the least ratios asked for."""

    key: str
    title: str
    draw: Callable[[int, int], tuple[Tensor, Tensor]]  # (N, T) -> input, target; integer targets mean cross-entropy, others MSE
    T: int
    outputs: int
    features: int = 1  # of one real input, or of one row of a fixed alphabet
    symbols: int = 0  # that an input of ids has; 0: the input is real
    embedded: bool = False  # the symbols' alphabet is a learned embedding
    every_step: bool = False  # the read-out sees every state, not the last one only
    part: str = "step"  # the whole training step; or forward and backward of the "layer" or of "read-out" and loss alone
    N: int = 100
    H: int = 128
    mlp: tuple[int, ...] = (32,)
    floors: Mapping[str, float] = field(default_factory=dict)

    @property
    def width(self) -> int:
        """Of what SRNN reads at one step; a learned embedding is as wide as f_r."""
        return self.mlp[0] if self.embedded else self.features


COPY = Setting("copy", "copying memory T 300", copying, 320, 10, symbols=10, embedded=True, every_step=True)
PMNIST = Setting("pmnist", "permuted MNIST T 784", images, 784, 10, symbols=256, floors={"rnn": 60, "gru": 200})
SPEECH = Setting("speech", "speech T 151", frames, 151, 129, features=129, every_step=True, floors={"rnn": 1.3, "gru": 3.2})
SETTINGS: tuple[Setting, ...] = (
    replace(COPY, floors={"rnn": 6, "gru": 16}),
    replace(COPY, key="copy-readout", title="- read-out and loss", part="read-out"),
    replace(COPY, key="copy-layer", title="- layer alone", part="layer", floors={"rnn": 20, "gru": 55}),
    Setting("adding", "adding T 300", adding, 300, 1, features=2, floors={"rnn": 3.2, "gru": 10}),
    PMNIST,
    replace(PMNIST, key="pmnist-real", title="- pixels as real inputs", draw=real_images, symbols=0, floors={}),
    SPEECH,
    replace(SPEECH, key="speech-1024", title="speech T 151, H 1024", H=1024, mlp=(32, 32, 32), floors={"rnn": 3.5, "gru": 10}),
)


class Network(nn.Module):
    """Embedding or alphabet -> recurrent layer -> read-out, for SRNN and for its rivals."""

    def __init__(self, s: Setting, name: str) -> None:
        super().__init__()
        self.s, self.is_srnn = s, name == "srnn"
        width = s.width if self.is_srnn or not s.embedded else s.H
        self.embedding = nn.Embedding(s.symbols, width) if s.embedded else None
        self.levels = torch.arange(s.symbols)[:, None] / 255 if s.symbols and not s.embedded else None
        layer = partial(SRNN, mlp=s.mlp) if self.is_srnn else RIVALS[name]
        self.rnn: Any = layer(width, s.H, batch_first=True)
        self.readout = nn.Linear(s.H, s.outputs)

    def prepare(self, x: Tensor) -> Tensor:
        """What the network is given, made once and not timed: rivals get grey levels as numbers."""
        return x if self.is_srnn or self.levels is None else x[..., None] / 255

    def states(self, x: Tensor) -> Any:
        if self.is_srnn:
            alphabet = self.levels if self.embedding is None else self.embedding.weight
            return self.rnn(x, alphabet=alphabet)[0] if self.s.every_step else self.rnn.final_state(x, alphabet=alphabet)[-1]
        output, last = self.rnn(x if self.embedding is None or x.is_floating_point() else self.embedding(x))
        return output if self.s.every_step else (last[0] if isinstance(last, tuple) else last)[-1]

    def forward(self, x: Tensor) -> Any:
        return self.readout(self.states(x))


def loss(output: Tensor, target: Tensor) -> Tensor:
    if target.is_floating_point():
        return F.mse_loss(output, target)
    return F.cross_entropy(output.flatten(0, -2), target.flatten())


def training_step(s: Setting, name: str) -> Call:
    """Forward, loss, backward, RMSprop."""
    network, (x, target) = Network(s, name), s.draw(s.N, s.T)
    x, optimizer = network.prepare(x), torch.optim.RMSprop(network.parameters(), lr=1e-3, alpha=0.9)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        loss(network(x), target).backward()
        optimizer.step()

    return step


def layer_alone(s: Setting, name: str) -> Call:
    """Forward, and backward for a given gradient of the output. Rivals find their symbols embedded already."""
    network, x = Network(s, name), s.draw(s.N, s.T)[0]
    inputs: list[Tensor] = list(network.rnn.parameters())
    if network.embedding is not None:
        if not network.is_srnn:
            x = network.embedding(x).detach().requires_grad_()
        inputs.append(network.embedding.weight if network.is_srnn else x)
    grad = torch.randn_like(network.states(x))
    return lambda: torch.autograd.grad(network.states(x), inputs, grad)


def readout_alone(s: Setting) -> Call:
    """Forward and backward of read-out and loss for given states."""
    readout, target = nn.Linear(s.H, s.outputs), s.draw(s.N, s.T)[1]
    states = torch.rand(s.N, s.T, s.H, requires_grad=True)
    return lambda: torch.autograd.grad(loss(readout(states), target), [states, *readout.parameters()])


def matrix_products(s: Setting) -> Call:
    """The products of one step and no more: forward, weight gradients, and input gradients where something needs them."""
    rows, read = s.symbols or s.N * s.T, s.N * s.T if s.every_step else s.N
    layer = [(rows, K, J, s.embedded or i > 0) for i, (K, J) in enumerate(pairwise((s.width, *s.mlp, s.H)))]
    layer.append((rows, s.width, s.H, s.embedded))  # the gate
    readout = [(read, s.H, s.outputs, True)]
    products = []
    for M, K, J, input_gradient in {"step": layer + readout, "layer": layer, "read-out": readout}[s.part]:
        x, w, grad = torch.rand(M, K), torch.rand(J, K), torch.rand(M, J)
        products.append((x, w.T, torch.ones(M, J)))
        products.append((x.T, grad, torch.ones(K, J)) if K < J else (grad.T, x, torch.ones(J, K)))  # the faster way round
        if input_gradient:
            products.append((grad, w, torch.ones(M, K)))
    return lambda: [torch.mm(a, b, out=out) for a, b, out in products]


def memory_traffic(s: Setting) -> Call:
    """A `copy_` of as many bytes as must move between data, layer, read-out and loss.

    Inputs are read in both passes. States at every step are written, read by the read-out and by its weight gradient, and
    their gradient is written and read; the read-out's result likewise.
    """
    x = s.draw(s.N, s.T)[0]
    states, results = {"step": (5, 5), "layer": (2, 0), "read-out": (3, 5)}[s.part]
    moved = 4 * s.N * (s.T if s.every_step else 1) * (states * s.H + results * s.outputs)
    moved += 0 if s.part == "read-out" else 2 * x.numel() * x.element_size()
    source, target = torch.ones(2, moved // 2, dtype=torch.uint8)  # a copy moves every byte twice: in and out
    return lambda: target.copy_(source)


def measure_setting(s: Setting, clock: Clock) -> dict[str, Any]:
    """One line of the table, as it stands in the record."""
    if s.part == "read-out":
        sides = {"srnn": readout_alone(s), "step": training_step(replace(s, part="step"), "srnn")}
    else:
        side = training_step if s.part == "step" else layer_alone
        sides = {name: side(s, name) for name in ("srnn", *RIVALS)}
    times = clock.race({**sides, "matmul": matrix_products(s), "memory": memory_traffic(s)})
    faster = {name: ratio(times, name, "srnn") for name in RIVALS if name in times}
    sizes = {"N": s.N, "T": s.T, "H": s.H, "mlp": list(s.mlp), "symbols": s.symbols, "inputs": s.width, "outputs": s.outputs}
    return {
        "key": s.key,
        "title": s.title,
        "part": s.part,
        "sizes": sizes,
        "times_faster": faster,
        "floors": dict(s.floors),
        "met": all(faster[name] >= least for name, least in s.floors.items()) if s.floors else None,
        "limits": {name: ratio(times, name, "srnn") for name in ("matmul", "memory")},
        "share_of_step": ratio(times, "srnn", "step") if "step" in times else None,
        "milliseconds": {
            name: {"median": 1e3 * median(seconds), "best": 1e3 * min(seconds), "rounds": len(seconds)}
            for name, seconds in times.items()
        },
    }
