"""Speech frames: log-spectra of 129 bins, 32 ms long, one every 16 ms (srnn/data/speech.py makes them).

    predict    see frame t, say frame t + 1; after the last comes silence
    echo       see frame t + 1, say frame t, which was seen one step before

The published numbers on TIMIT fit the second, which is far easier: the recipe they follow exchanges input and target. The score
is the mean squared error in dB^2 over all valid frames and bins at once: long utterances weigh more, padding does not count.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from srnn import data
from srnn.data import speech
from srnn.errors import one_of
from srnn.tasks import Batch, Task, generator

DIRECTIONS = ("predict", "echo")
SILENCE = -50.0  # dB, the least a frame can hold
POOL = 20  # batches' worth of utterances that are sorted by length together


@dataclass(frozen=True)
class Speech(Task):
    """corpus: the data set to read. standardise: inputs as (x + 35) / 13 instead of raw dB, as in the paper."""

    direction: str = "predict"
    standardise: bool = False
    corpus: str = "speech"

    name = "speech"
    input_size = output_size = speech.BINS
    every_step = True
    metric = "mse"
    selects = "val"
    reports = "test"
    recipes = {
        "paper": {
            "": {"batch_size": 20, "epochs": 30, "hidden_size": 128, "mlp": (32, 32, 32)},
            **{name: {"clip": 1.0} for name in ("rnn", "lstm", "gru")},
        }
    }

    def __post_init__(self) -> None:
        if self.direction not in DIRECTIONS:
            raise one_of("direction", self.direction, DIRECTIONS)

    @property
    def guesser(self) -> float:
        """The score of saying what was just seen."""
        return self.lines["repeat"]

    @cached_property
    def lines(self) -> dict[str, float]:
        """Scores on the test split without memory: repeating the input, and the best linear map of it, fitted on training."""
        gram, moment, ones = 0.0, 0.0, lambda x: numpy.hstack([x, numpy.ones((len(x), 1), x.dtype)])
        for x, y in self._pairs("train"):
            x, y = ones(x.astype(numpy.float64)), y.astype(numpy.float64)
            gram, moment = gram + x.T @ x, moment + x.T @ y
        weight = numpy.linalg.solve(gram, moment)
        errors = {"repeat": 0.0, "linear": 0.0}
        count = 0
        for x, y in self._pairs("test"):
            errors["repeat"] += float(numpy.square(x - y, dtype=numpy.float64).sum())
            errors["linear"] += float(numpy.square(ones(x) @ weight - y).sum())
            count += y.size
        return {name: error / count for name, error in errors.items()}

    def updates_per_epoch(self, batch_size: int) -> int:
        return -(-len(self._lengths("train")) // batch_size)

    def batch(self, update: int, batch_size: int, seed: int) -> Batch:
        """Utterances of similar length: a shuffled epoch is cut into pools, each sorted and cut into batches."""
        lengths = self._lengths("train")
        epoch, position = divmod(update, self.updates_per_epoch(batch_size))
        draws = generator(seed, epoch)
        pools = torch.randperm(len(lengths), generator=draws).split(POOL * batch_size)
        rows = [part for pool in pools for part in pool[lengths[pool].argsort(stable=True)].split(batch_size)]
        order = torch.randperm(len(rows), generator=draws)
        return self._batch("train", rows[int(order[position])].tolist())

    def batches(self, split: str, batch_size: int) -> Iterator[Batch]:
        for rows in self._lengths(split).argsort(stable=True).split(batch_size):
            yield self._batch(split, rows.tolist())

    def loss(self, output: Tensor, batch: Batch) -> Tensor:
        assert batch.lengths is not None
        valid = torch.arange(output.shape[1], device=output.device) < batch.lengths[:, None]
        return ((output - batch.target).square().mean(dim=-1) * valid).sum() / batch.lengths.sum()

    def weight(self, batch: Batch) -> int:
        assert batch.lengths is not None
        return int(batch.lengths.sum())

    @cached_property
    def _frames(self) -> dict[str, tuple[numpy.ndarray, numpy.ndarray]]:
        return speech.load(data.find(self.corpus))

    def _lengths(self, split: str) -> Tensor:
        return torch.from_numpy(numpy.diff(self._frames[split][1]))

    def _pair(self, split: str, row: int) -> tuple[numpy.ndarray, numpy.ndarray]:
        """The frames that are seen and those to be said, each [F, 129]."""
        frames, offsets = self._frames[split]
        now = frames[offsets[row] : offsets[row + 1]]
        following = numpy.vstack([now[1:], numpy.full((1, speech.BINS), SILENCE, now.dtype)])
        return (now, following) if self.direction == "predict" else (following, now)

    def _pairs(self, split: str) -> Iterator[tuple[numpy.ndarray, numpy.ndarray]]:
        return (self._pair(split, row) for row in range(len(self._frames[split][1]) - 1))

    def _batch(self, split: str, rows: list[int]) -> Batch:
        pairs = [self._pair(split, row) for row in rows]
        input, target = (
            pad_sequence([torch.from_numpy(pair[k]) for pair in pairs], batch_first=True, padding_value=SILENCE) for k in (0, 1)
        )
        lengths = torch.tensor([len(pair[0]) for pair in pairs])
        return Batch((input + 35) / 13 if self.standardise else input, target, lengths)
