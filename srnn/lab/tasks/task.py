"""Base class of the tasks: a frozen dataclass whose fields are its settings and whose methods define the problem.

Data are a function of the seed and of the number of the update or epoch, and of nothing that happened before. So a run can
resume anywhere, and any part of the data can be generated anywhere.

N sequences, T steps, C inputs, V symbols, O outputs.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from srnn.lab.settings import Settings

POOL = 20  # batches' worth of sequences that are sorted by length together
Recipe = Mapping[str, Any]  # settings of a Run, of its task and of its network, by name


@dataclass(frozen=True)
class Batch:
    """N sequences and their answers.

    input       real numbers [N, T, C] or symbols [N, T]
    target      as the task's loss wants it
    lengths     [N] steps of each sequence, None if all have T
    """

    input: Tensor
    target: Tensor
    lengths: Tensor | None = None

    def to(self, device: torch.device) -> "Batch":
        """Returns the batch on another device."""
        return self._each(lambda tensor: tensor.to(device))

    def rows(self, which: slice) -> "Batch":
        """Returns some of the sequences."""
        return self._each(lambda tensor: tensor[which])

    def _each(self, change: Callable[[Tensor], Tensor]) -> "Batch":
        return Batch(change(self.input), change(self.target), None if self.lengths is None else change(self.lengths))


@dataclass(frozen=True)
class Task(Settings):
    """A problem. A subclass sets the constants below and writes `chance`, `batch`, `loss` and, if it has test data, `batches`.

    Its fields are its settings (see srnn/lab/settings.py): `length: int = setting(200, "Delay in steps.", least=1)`.

    input_size          C, for inputs that are real numbers
    symbols             V, for inputs that are symbols with a learned embedding
    output_size         O
    every_step          True for an answer at every step, False for one answer after the last step
    metric              name of the score, as it is shown
    selects             split that decides which weights are kept, None if there are no validation data
    reports             split whose score the run reports once, with these weights; None if data never repeat, then the run
                        reports the loss of the training itself
    recipes             settings by recipe and then by network, "" for all networks; see training/recipes.py
    settings_tried      by recipe, how many settings were tried before this one was chosen; for the record
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
    recipes: ClassVar[Mapping[str, Mapping[str, Recipe]]] = {}
    settings_tried: ClassVar[Mapping[str, int]] = {}

    @property
    def usual_steps(self) -> int:
        """Typical number of steps of a sequence, by default the setting `length`; some networks choose their bounds by it."""
        return getattr(self, "length", 1000)

    @property
    def splits(self) -> tuple[str, ...]:
        """Names that `batches` takes."""
        return tuple(dict.fromkeys(split for split in (self.selects, self.reports) if split is not None))

    @property
    def data_set(self) -> str | None:
        """Name of the data set that is read (see `srnn data`), None if data are generated."""
        return None

    @property
    def data_digest(self) -> str | None:
        """Digest of the data that are read, for the record; None if data are generated."""
        return None

    @property
    def chance(self) -> float:
        """Score of the best answer without memory."""
        raise NotImplementedError

    @property
    def ceiling(self) -> float | None:
        """Best possible score, None if it is not known."""
        return None

    @property
    def alphabet(self) -> Tensor | None:
        """Value [V, C] of each symbol, if it is known as that of a grey level is; None for a learned embedding."""
        return None

    def updates_per_epoch(self, batch_size: int) -> int | None:
        """Returns the number of batches in a pass over the data, None if data never repeat."""
        return None

    def batch(self, update: int, batch_size: int, seed: int) -> Batch:
        """Returns the training batch of an update, counted from 0."""
        raise NotImplementedError

    def batches(self, split: str, batch_size: int) -> Iterator[Batch]:
        """Yields a whole split in batches, for evaluation."""
        raise NotImplementedError

    def loss(self, output: Tensor, batch: Batch) -> Tensor:
        """Returns what training minimises: a mean over `weight(batch)` answers."""
        raise NotImplementedError

    def score(self, output: Tensor, batch: Batch) -> Tensor:
        """Returns the mean of the metric over the same answers. The default is the loss."""
        return self.loss(output, batch)

    def weight(self, batch: Batch) -> int:
        """Returns the number of answers in a batch, so that means over batches are means over answers."""
        return batch.target.shape[0]

    def calibration(self, model: Any) -> dict[str, Any] | None:
        """Returns plain values to store with the reported weights, for the margins of their answers; None for nothing."""
        return None

    def predict(self, model: Any, given: Any, *, level: float) -> Any:
        """Returns a model's answers to new data: here its outputs for a `Batch`, or for the input of one."""
        device = next(model.parameters()).device
        batch = given if isinstance(given, Batch) else Batch(torch.as_tensor(given), torch.empty(0))
        return model(batch.to(device))


class Classification(Task):
    """Base of tasks with one class per sequence: cross-entropy, and accuracy in percent."""

    metric = "accuracy"
    higher_is_better = True

    def loss(self, output: Tensor, batch: Batch) -> Tensor:
        return F.cross_entropy(output, batch.target)

    def score(self, output: Tensor, batch: Batch) -> Tensor:
        return 100 * (output.argmax(dim=-1) == batch.target).float().mean()


def similar_lengths(lengths: Tensor, batch_size: int, draws: torch.Generator) -> list[list[int]]:
    """Returns an epoch in batches of similar length: shuffled sequences are cut into pools, and each is sorted into batches."""
    pools = torch.randperm(len(lengths), generator=draws).split(POOL * batch_size)
    rows = [part for pool in pools for part in pool[lengths[pool].argsort(stable=True)].split(batch_size)]
    return [rows[place].tolist() for place in torch.randperm(len(rows), generator=draws).tolist()]


def mix(*numbers: int) -> int:
    """Returns a seed made of all numbers, such as a run's seed and an update; close numbers give distant seeds (splitmix64)."""
    mixed, ones = 0, 0xFFFFFFFFFFFFFFFF
    for number in numbers:
        mixed = (mixed + number + 0x9E3779B97F4A7C15) & ones
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & ones
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & ones
        mixed ^= mixed >> 31
    return mixed >> 1  # torch takes 63 bits


def generator(*numbers: int) -> torch.Generator:
    """Returns a generator of random numbers that is seeded with all the numbers given."""
    return torch.Generator().manual_seed(mix(*numbers))
