"""A task of one's own: the parity of the bits seen so far.

    input    1 0 1 1 0 1
    target   1 1 0 1 1 0        1 where an odd number of ones has come

    srnn train examples/parity.py --set length=10 --steps 300

A file like this one is all that a task needs: its name, its sizes, its batches, what training lowers and what is reported. The
fields are its settings, which --set changes. Whoever does not remember is right half of the time.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from srnn.errors import SettingError
from srnn.lab import Batch, Task, generator


@dataclass(frozen=True)
class Parity(Task):
    """length: how many bits."""

    length: int = 10

    name = "parity"
    symbols = 2  # inputs are the symbols 0 and 1, for which an embedding is learned; reals would have an input_size instead
    output_size = 2  # a score for even and one for odd
    every_step = True  # an answer at each step, [N, T, 2]; otherwise after the last, [N, 2]
    metric = "accuracy"
    higher_is_better = True
    reports = "test"
    chance = 50.0
    ceiling = 100.0  # a run ends when it gets there
    recipes = {"paper": {"": {"hidden_size": 64, "mlp": (32,), "readout": (32,), "steps": 2000}}}  # what the user does not say

    def __post_init__(self) -> None:
        if self.length < 1:
            raise SettingError(f"parity: there must be at least 1 bit; got length {self.length}")

    def batch(self, update: int, batch_size: int, seed: int) -> Batch:
        """Drawn from the seed and the number of the update alone, so that a run can stop and go on anywhere."""
        bits = torch.randint(0, 2, (batch_size, self.length), generator=generator(seed, update))
        return Batch(bits, bits.cumsum(dim=1) % 2)

    def batches(self, split: str, batch_size: int) -> Iterator[Batch]:
        """A thousand sequences to test on."""
        yield self.batch(0, 1000, seed=2**40)  # a seed that training does not use

    def loss(self, output: Tensor, batch: Batch) -> Tensor:
        return F.cross_entropy(output.flatten(0, 1), batch.target.flatten())

    def score(self, output: Tensor, batch: Batch) -> Tensor:
        return 100 * (output.argmax(dim=-1) == batch.target).float().mean()
