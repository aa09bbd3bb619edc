"""Text: predict the next character of a file.

    input    t h e   q u i c
    target   h e   q u i c k

The first 90 % of the file train, the next 5 % select the weights and the last 5 % are the test data. The score is in bits per
character. Every window of `length` characters starts from a zero state, for all networks alike. The no-memory baseline knows
only the current character: it predicts from counts of pairs in the training part, with one added to each count.
"""

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy
import torch
from torch import Tensor
from torch.nn import functional as F

from srnn.errors import DataError
from srnn.lab import data
from srnn.lab.data import text
from srnn.lab.settings import setting
from srnn.lab.tasks.task import Batch, Task, generator

SHARES = {"train": (0.0, 0.9), "val": (0.9, 0.95), "test": (0.95, 1.0)}
RECIPE = {"batch_size": 32, "steps": 2000, "hidden_size": 256, "mlp": (64,), "optimizer": "adamw", "lr": 2e-3, "clip": 1.0}


@dataclass(frozen=True)
class Text(Task):
    """The next character of a text."""

    file: str = setting("", "UTF-8 text file to read instead of the data set 'text'.")
    length: int = setting(256, "Characters in a sequence.", least=1)

    name = "text"
    every_step = True
    metric = "bits"
    selects = "val"
    reports = "test"
    recipes = {"paper": {"": RECIPE}}

    @property
    def splits(self) -> tuple[str, ...]:
        return tuple(SHARES)

    @property
    def data_set(self) -> str | None:
        return None if self.file else "text"

    @cached_property
    def data_digest(self) -> str:
        return hashlib.sha256(text.read(self._path)).hexdigest()

    @cached_property
    def symbols(self) -> int:  # type: ignore[override]
        return len(self._text[0])

    @property
    def output_size(self) -> int:  # type: ignore[override]
        return self.symbols

    @cached_property
    def chance(self) -> float:
        pairs = numpy.ones((self.symbols, self.symbols))
        train, test = self._part("train"), self._part("test")
        numpy.add.at(pairs, (train[:-1], train[1:]), 1)
        logs = numpy.log2(pairs / pairs.sum(1, keepdims=True))
        return float(-logs[test[:-1], test[1:]].mean())

    def batch(self, update: int, batch_size: int, seed: int) -> Batch:
        train = torch.from_numpy(self._part("train"))
        starts = torch.randint(0, len(train) - self.length, (batch_size, 1), generator=generator(seed, update))
        window = train[starts + torch.arange(self.length + 1)]
        return Batch(window[:, :-1], window[:, 1:])

    def batches(self, split: str, batch_size: int) -> Iterator[Batch]:
        """Yields windows that overlap by one, so that each character but the first is predicted once. The last can be short."""
        part = torch.from_numpy(self._part(split))
        full = part.unfold(0, self.length + 1, self.length)
        for window in (*full.split(batch_size), part[None, len(full) * self.length :]):
            if window.shape[1] > 1:
                yield Batch(window[:, :-1], window[:, 1:])

    def loss(self, output: Tensor, batch: Batch) -> Tensor:
        """Bits per character, in training too, so that losses and scores can be compared."""
        return F.cross_entropy(output.flatten(0, 1), batch.target.flatten()) / math.log(2)

    def weight(self, batch: Batch) -> int:
        return batch.target.numel()

    @property
    def _path(self) -> Path:
        return Path(self.file) if self.file else text.files(data.find("text"))[0]

    @cached_property
    def _text(self) -> tuple[str, numpy.ndarray]:
        characters, ids = text.load(self._path)
        if (needed := 20 * (self.length + 2)) > len(ids):  # each of the two held-out parts is a twentieth of the file
            raise DataError(f"{self._path} has {len(ids)} characters, and windows of {self.length} need at least {needed}")
        return characters, ids

    def _part(self, split: str) -> numpy.ndarray:
        ids = self._text[1]
        start, stop = (int(share * len(ids)) for share in SHARES[split])
        return ids[start:stop]
