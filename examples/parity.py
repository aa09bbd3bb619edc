"""A task of your own: the parity of the bits seen so far.

    input    1 0 1 1 0 1
    target   1 1 0 1 1 0        1 if the number of ones so far is odd

    srnn train examples/parity.py --set length=10 --steps 300

A task needs one file like this: its name, its sizes, its batches, the loss and the score. The fields are its settings, which
--set changes. An answer without memory is right half of the time.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from srnn.lab import Batch, Task, generator, setting


@dataclass(frozen=True)
class Parity(Task):
    """Parity of bits."""

    length: int = setting(10, "Number of bits.", least=1)

    name = "parity"
    symbols = 2  # inputs are the symbols 0 and 1, whose embedding is learned; for real numbers set input_size instead
    output_size = 2  # a score for even and one for odd
    every_step = True  # an answer at each step, [N, T, 2]; otherwise one after the last, [N, 2]
    metric = "accuracy"
    higher_is_better = True
    reports = "test"
    chance = 50.0
    ceiling = 100.0  # a run ends when it reaches this
    recipes = {"paper": {"": {"hidden_size": 64, "mlp": (32,), "readout": (32,), "steps": 2000}}}  # settings the user omits

    def batch(self, update: int, batch_size: int, seed: int) -> Batch:
        """Draws from the seed and the number of the update only, so that a run can be resumed at any update."""
        bits = torch.randint(0, 2, (batch_size, self.length), generator=generator(seed, update))
        return Batch(bits, bits.cumsum(dim=1) % 2)

    def batches(self, split: str, batch_size: int) -> Iterator[Batch]:
        """Yields a thousand test sequences."""
        yield self.batch(0, 1000, seed=2**40)  # a seed that training does not use

    def loss(self, output: Tensor, batch: Batch) -> Tensor:
        return F.cross_entropy(output.flatten(0, 1), batch.target.flatten())

    def score(self, output: Tensor, batch: Batch) -> Tensor:
        return 100 * (output.argmax(dim=-1) == batch.target).float().mean()
