"""Copying memory: recite ten symbols after a delay of T steps.

    input    3711825546 ·········…· : ··········
    target   ·········· ·········…· · 3711825546
             10 symbols  T - 1 blanks 1 10 blanks

Symbols are 1 to 8, a blank is 0, and 9 is the signal to recite. A network without memory can only guess the last ten answers,
which has a loss of 10 ln 8 / (T + 20) nats per step.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from srnn.lab.settings import setting
from srnn.lab.tasks.task import Batch, Task, generator

BLANK, SIGNAL = 0, 9


@dataclass(frozen=True)
class Copy(Task):
    """The copying memory problem."""

    length: int = setting(200, "Delay in steps.", least=1)

    name = "copy"
    symbols = output_size = 10
    every_step = True
    metric = "cross-entropy"
    recipes = {"paper": {"": {"batch_size": 20, "hidden_size": 128, "mlp": (8,), "steps": 20_000}}}

    @property
    def usual_steps(self) -> int:
        return self.length + 20

    @property
    def chance(self) -> float:
        return 10 * math.log(8) / (self.length + 20)

    def batch(self, update: int, batch_size: int, seed: int) -> Batch:
        symbols = torch.randint(1, 9, (batch_size, 10), generator=generator(seed, update))
        input, target = torch.full((2, batch_size, self.length + 20), BLANK)
        input[:, :10], input[:, -11], target[:, -10:] = symbols, SIGNAL, symbols
        return Batch(input, target)

    def loss(self, output: Tensor, batch: Batch) -> Tensor:
        return F.cross_entropy(output.flatten(0, 1), batch.target.flatten())
