"""What a task is: a frozen dataclass whose fields are its settings and whose methods are the problem.

Data are a function of the seed and of the number of the update or epoch, and of nothing that happened before, so a run can
resume anywhere, and any part of the data can be generated anywhere.

N sequences, T steps, C inputs, V symbols, O outputs.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Batch:
    """N sequences: real inputs [N, T, C] or symbols [N, T], and the answers; lengths [N] where they differ."""

    input: Tensor
    target: Tensor
    lengths: Tensor | None = None

    def to(self, device: torch.device) -> "Batch":
        lengths = None if self.lengths is None else self.lengths.to(device)
        return Batch(self.input.to(device), self.target.to(device), lengths)


@dataclass(frozen=True)
class Task:
    """A problem. A subclass sets the constants below, and writes `batch` and, where there are data to test on, `batches`.

    Sizes: `symbols` is V where inputs are symbols with a learned embedding; `alphabet` gives each symbol [V, C] where its value
    is known, as that of a grey level is. `every_step` asks for an answer at every step, otherwise after the last.
    Score: `metric` names it, `chance` is that of an answer without memory, `ceiling` the best there is, where it is known.
    `selects` is the split that says which weights are kept and `reports` the one whose score the run reports, once, with those
    weights; without them the loss of the training itself is reported, as on data that never repeat.
    `recipes` are settings of a Run by recipe and then by network, "" for all of them; see training/recipes.py.
    """

    name: ClassVar[str]
    input_size: ClassVar[int] = 1
    output_size: ClassVar[int]
    symbols: ClassVar[int] = 0
    every_step: ClassVar[bool] = False
    metric: ClassVar[str] = "loss"
    higher_is_better: ClassVar[bool] = False
    selects: ClassVar[str | None] = None
    reports: ClassVar[str | None] = None
    recipes: ClassVar[Mapping[str, Mapping[str, Settings]]] = {}
    settings_tried: ClassVar[Mapping[str, int]] = {}  # by recipe, before the one that is in it was chosen; for the record

    @property
    def usual_steps(self) -> int:
        """About how many steps a sequence has; some networks set their bounds by it."""
        return 1000

    @property
    def splits(self) -> tuple[str, ...]:
        """The names that `batches` takes."""
        return tuple(dict.fromkeys(split for split in (self.selects, self.reports) if split is not None))

    @property
    def data_set(self) -> str | None:
        """The name of the data that are read (`srnn data`); None where they are drawn."""
        return None

    @property
    def data_digest(self) -> str | None:
        """A digest of the data that are read, for the record; None where they are drawn."""
        return None

    @property
    def chance(self) -> float:
        raise NotImplementedError

    @property
    def ceiling(self) -> float | None:
        return None

    @property
    def alphabet(self) -> Tensor | None:
        return None

    def updates_per_epoch(self, batch_size: int) -> int | None:
        """None where data never repeat."""
        return None

    def batch(self, update: int, batch_size: int, seed: int) -> Batch:
        """The batch of the update with this number, counted from 0."""
        raise NotImplementedError

    def batches(self, split: str, batch_size: int) -> Iterator[Batch]:
        """All of a split, to be scored."""
        raise NotImplementedError

    def loss(self, output: Tensor, batch: Batch) -> Tensor:
        """What training lowers: a mean over `weight(batch)` answers."""
        raise NotImplementedError

    def score(self, output: Tensor, batch: Batch) -> Tensor:
        """The mean of the metric over the same answers; the loss itself unless a task says otherwise."""
        return self.loss(output, batch)

    def weight(self, batch: Batch) -> int:
        """How many answers a batch holds, so that means over batches are means over answers."""
        return batch.target.shape[0]


class Classification(Task):
    """What tasks with one class per sequence share: cross-entropy, and accuracy in percent."""

    metric = "accuracy"
    higher_is_better = True

    def loss(self, output: Tensor, batch: Batch) -> Tensor:
        return F.cross_entropy(output, batch.target)

    def score(self, output: Tensor, batch: Batch) -> Tensor:
        return 100 * (output.argmax(dim=-1) == batch.target).float().mean()


def mix(*numbers: int) -> int:
    """A seed made of all the numbers, such as a run's seed and an update; neighbours give seeds far apart (splitmix64)."""
    mixed, ones = 0, 0xFFFFFFFFFFFFFFFF
    for number in numbers:
        mixed = (mixed + number + 0x9E3779B97F4A7C15) & ones
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & ones
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & ones
        mixed ^= mixed >> 31
    return mixed >> 1  # torch takes 63 bits


def generator(*numbers: int) -> torch.Generator:
    return torch.Generator().manual_seed(mix(*numbers))
