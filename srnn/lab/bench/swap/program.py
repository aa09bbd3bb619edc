"""What the six programs share: sizes, budgets, and data by split."""

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from srnn.lab.tasks.task import generator

RNN = Callable[..., nn.Module]  # nn.GRU, nn.LSTM, SRNN or SRNNStack: the only thing that changes in a program
Data = tuple[Tensor, ...]  # examples along the first axis of each tensor
Scores = dict[str, float]

STREAMS = {"train": 1, "val": 2, "test": 3}  # of random numbers: no two splits share one
BLOCK = 32  # batches that are drawn at once, which is faster


class Model(nn.Module):
    """A recurrent layer with a read-out at every step, and with an embedding if the inputs are symbols."""

    def __init__(self, RNN: RNN, inputs: int, hidden_size: int, outputs: int, symbols: int = 0, **options: Any) -> None:
        super().__init__()
        self.embedding = nn.Embedding(symbols, inputs) if symbols else nn.Identity()
        self.rnn = RNN(inputs, hidden_size, batch_first=True, **options)
        self.readout = nn.Linear(hidden_size * (2 if options.get("bidirectional") else 1), outputs)

    def forward(self, x: Tensor) -> Tensor:
        return self.readout(self.rnn(self.embedding(x))[0])


@dataclass(frozen=True)
class Program:
    """A model with its data, written as if for `nn.GRU`.

    updates, seconds    the two budgets: updates, and CPU seconds of updates
    length              steps of a sequence, or the most it can have
    held_out            examples of the validation data, and as many of the test data
    scores              a ClassVar: the name of each score, and whether higher is better. The first chooses the learning rate
    """

    updates: int
    seconds: float = 5.0
    hidden_size: int = 64
    batch_size: int = 32
    length: int = 100
    held_out: int = 256

    name: ClassVar[str]
    scores: ClassVar[dict[str, bool]]

    @property
    def data(self) -> str:
        """What the data are, for the record and the table."""
        return "drawn at random"

    def model(self, RNN: RNN) -> nn.Module:
        """Returns the model with this recurrent layer."""
        raise NotImplementedError

    def draw(self, split: str, n: int, draws: torch.Generator) -> Data:
        """Returns n examples of a split."""
        raise NotImplementedError

    def loss(self, model: Any, data: Data) -> Tensor:
        """Returns the loss of a batch."""
        raise NotImplementedError

    def score(self, model: Any, data: Data) -> Scores:
        """Returns every score in `scores`."""
        raise NotImplementedError

    def batches(self, seed: int) -> Iterator[Data]:
        """Yields training batches without end."""
        draws = generator(seed, STREAMS["train"])
        while True:
            block = self.draw("train", BLOCK * self.batch_size, draws)
            for rows in torch.arange(BLOCK * self.batch_size).split(self.batch_size):
                yield tuple(part[rows] for part in block)

    def examples(self, split: str) -> Data:
        """Returns the validation or test data, the same for every run."""
        return self.draw(split, self.held_out, generator(0, STREAMS[split]))


@dataclass(frozen=True)
class Run:
    """One training: a program, a network, a learning rate and a seed."""

    program: Program
    network: str
    lr: float
    seed: int

    @property
    def settings(self) -> dict[str, Any]:
        """Plain values of all that a result depends on, except the sources."""
        chosen = {"program": self.program.name, "network": self.network, "lr": self.lr, "seed": self.seed}
        return chosen | asdict(self.program) | {"data": self.program.data}

    @property
    def id(self) -> str:
        """A name made of all settings except the data, which other machines may not have."""
        named = {name: value for name, value in self.settings.items() if name != "data"}
        digest = hashlib.sha256(json.dumps(named, sort_keys=True).encode()).hexdigest()
        return f"{self.program.name}-{self.network}-{digest[:8]}"


def percent_right(output: Tensor, target: Tensor) -> float:
    """Returns the share of classes with the highest output that are right, in percent."""
    return 100 * float((output.argmax(dim=-1) == target).float().mean())
