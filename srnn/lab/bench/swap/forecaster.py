"""Forecaster: predict the next value of a series, then run free on its own predictions.

    training    x_1 ... x_T, the next value wanted at each step
    running     after x_1 ... x_T, 200 more steps in which each input is the last output

A series is a sum of two sines, 12 and 31 steps long, whose phases and amplitudes are drawn for each series. Scores are mean
squared errors as a share of the variance, so that a forecast of 0 scores 1. "One step ahead" counts the second half of the T
steps, where the series can be known.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn

from srnn.lab.bench.swap.program import RNN, Data, Model, Program, Scores

FREE = 200  # steps on its own output
PERIODS = (12.0, 31.0)  # steps


class Continued(Model):
    """The next value at every step, and the state after the last."""

    def forward(self, series: Tensor, state: Any = None) -> tuple[Tensor, Any]:  # type: ignore[override]
        output, state = self.rnn(series[..., None], state)
        return self.readout(output)[..., 0], state


class Forecaster(Program):
    """The forecaster."""

    name = "forecaster"
    scores = {"error running free": False, "error one step ahead": False}

    def model(self, RNN: RNN) -> nn.Module:
        return Continued(RNN, 1, self.hidden_size, 1)

    def draw(self, split: str, n: int, draws: torch.Generator) -> Data:
        """Series [n, length + FREE]."""
        steps, series = torch.arange(self.length + FREE), torch.zeros(n, self.length + FREE)
        for period in PERIODS:
            phase, amplitude = torch.rand(2, n, 1, generator=draws)
            series += (0.5 + 0.5 * amplitude) * torch.sin(2 * math.pi * (steps / period + phase))
        return (series,)

    def loss(self, model: Any, data: Data) -> Tensor:
        (series,) = data
        given = series[:, : self.length]
        return (model(given[:, :-1])[0] - given[:, 1:]).square().mean()

    def score(self, model: Any, data: Data) -> Scores:
        (series,) = data
        known, future = series[:, : self.length], series[:, self.length :]
        predictions, state = model(known)
        half = self.length // 2
        ahead, values = predictions[:, half:-1] - known[:, half + 1 :], [predictions[:, -1:]]
        while len(values) < FREE:
            value, state = model(values[-1], state)
            values.append(value)
        free = torch.cat(values, dim=1) - future
        return {
            "error running free": float(free.square().mean() / future.square().mean()),
            "error one step ahead": float(ahead.square().mean() / known[:, half + 1 :].square().mean()),
        }
