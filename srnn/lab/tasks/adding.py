"""Adding: T numbers, two of them marked. The answer after the last step is the sum of these two.

    number   .31 .74 .08 .55 …  .92 .16 .43
    mark      ·   1   ·   ·  …   ·   1   ·        one mark in each half
    target                                  .90

Numbers are uniform in [0, 1). Answering 1, the mean, has a squared error of 1/6, the variance of the sum of two of them.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from srnn.lab.settings import setting
from srnn.lab.tasks.task import Batch, Task, generator

PAPER = {"batch_size": 50, "hidden_size": 128, "mlp": (8,), "steps": 30_000, "stop_below": 0.002}


@dataclass(frozen=True)
class Adding(Task):
    """The adding problem."""

    length: int = setting(200, "Numbers in a sequence.", least=2)

    name = "adding"
    input_size = 2
    output_size = 1
    metric = "mse"
    chance = 1 / 6
    recipes = {"paper": {"": PAPER}, "ours": {"srnn": PAPER | {"mlp": (32, 32), "optimizer": "adam", "lr": 3e-3}}}

    def batch(self, update: int, batch_size: int, seed: int) -> Batch:
        T, half, draws, row = self.length, self.length // 2, generator(seed, update), torch.arange(batch_size)
        input = torch.zeros(batch_size, T, 2)
        input[..., 0] = torch.rand(batch_size, T, generator=draws)
        first = torch.randint(0, half, (batch_size,), generator=draws)
        second = torch.randint(half, T, (batch_size,), generator=draws)
        input[row, first, 1] = input[row, second, 1] = 1.0
        return Batch(input, (input[row, first, 0] + input[row, second, 0])[:, None])

    def loss(self, output: Tensor, batch: Batch) -> Tensor:
        return F.mse_loss(output, batch.target)
