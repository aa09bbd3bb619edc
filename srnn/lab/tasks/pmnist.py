"""Permuted MNIST: classify a digit that is shown pixel by pixel, in a random order that is the same for all images.

    pmnist       28 x 28, 784 steps
    bigpmnist    the same in the middle of a black 56 x 56 image, 3136 steps, long stretches of which carry no information

A pixel is one of 256 grey levels, so inputs are symbols with a known value, (level / 255 - 0.1307) / 0.3081. Images 0 to 49,999
are for training, 50,000 to 59,999 select the epoch (by the lowest cross-entropy), and the 10,000 test images are for the
report.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import ClassVar

import numpy
import torch
from torch import Tensor

from srnn.lab import data
from srnn.lab.data import mnist
from srnn.lab.settings import setting
from srnn.lab.tasks.task import Batch, Classification, Recipe, generator

PIXELS = ("raw", "wrapped")
SPLITS = {"train": ("train", 0, 50_000), "val": ("train", 50_000, 60_000), "test": ("test", 0, 10_000)}
# About 165,000 degrees of freedom each, as in the paper. uRNN cannot have as many: it gets the 512 units of its own paper
# (16,000), and EURNN with two layers of rotations as many units as uRNN. The paper did not run EURNN and the second row.
SIZES = {"lstm": 200, "gru": 231, "rnn": 400, "nru": 212, "nnrnn": 400, "urnn": 512, "eurnn": 512}
SIZES |= {"exprnn": 562, "scornn": 562, "rgd": 394, "indrnn": 398, "mingru": 88, "lru": 82}
CLIPPED = ("rnn", "lstm", "gru")  # by the paper's authors; NRU is clipped on every task
PAPER: dict[str, Recipe] = {
    "": {"batch_size": 100, "epochs": 60, "hidden_size": 1024, "mlp": (32, 32, 32)},
    **{name: {"hidden_size": size} | ({"clip": 1.0} if name in CLIPPED else {}) for name, size in SIZES.items()},
}
# Settings of an earlier prototype, chosen on the validation images only.
TUNED: dict[str, Recipe] = {
    "srnn": {
        **PAPER[""],
        "epochs": 40,
        "optimizer": "adamw",
        "lr": 2e-3,
        "weight_decay": 0.05,
        "warmup": 200,
        "schedule": "cosine",
        "norm": True,
        "dropout": 0.4,
        "readout": (512,),
        "select": "metric",
    }
}


class Digits(Classification):
    """Base of the tasks on grey levels: the symbols, and batches of them."""

    output_size = 10
    chance = 10.0
    data_set = "mnist"
    data_digest = mnist.DIGEST

    @property
    def splits(self) -> tuple[str, ...]:
        return tuple(self._splits)

    @cached_property
    def alphabet(self) -> Tensor:
        return normalise(torch.arange(256))[:, None]

    @cached_property
    def _splits(self) -> dict[str, tuple[Tensor, Tensor]]:
        """Grey levels [n, T] and classes [n] of every split."""
        raise NotImplementedError

    def updates_per_epoch(self, batch_size: int) -> int:
        return -(-len(self._splits["train"][0]) // batch_size)

    def batch(self, update: int, batch_size: int, seed: int) -> Batch:
        images, labels = self._splits["train"]
        epoch, position = divmod(update, self.updates_per_epoch(batch_size))
        rows = _order(len(images), epoch, seed)[position * batch_size : (position + 1) * batch_size]
        return Batch(images[rows], labels[rows])

    def batches(self, split: str, batch_size: int) -> Iterator[Batch]:
        images, labels = self._splits[split]
        for start in range(0, len(images), batch_size):
            yield Batch(images[start : start + batch_size], labels[start : start + batch_size])


@lru_cache(maxsize=1)  # every update of an epoch asks for it
def _order(count: int, epoch: int, seed: int) -> Tensor:
    return torch.randperm(count, generator=generator(seed, epoch))


class PMNIST(Digits):
    """The digits as they are."""

    name = "pmnist"
    selects = "val"
    reports = "test"
    recipes = {"paper": PAPER, "ours": TUNED}
    settings_tried = {"ours": 1}
    side: ClassVar[int] = 28

    @property
    def usual_steps(self) -> int:
        return self.side**2

    @cached_property
    def _splits(self) -> dict[str, tuple[Tensor, Tensor]]:
        order = torch.from_numpy(numpy.random.RandomState(1234).permutation(self.side**2))  # the authors'
        files = mnist.load(data.find("mnist"))
        return {
            split: (self._place(torch.from_numpy(images[i:j]))[:, order], torch.from_numpy(labels[i:j]).long())
            for split, (file, i, j) in SPLITS.items()
            for images, labels in [files[file]]
        }

    def _place(self, images: Tensor) -> Tensor:
        """Grey levels [n, T] from images [n, 28, 28]."""
        return images.flatten(1)


@dataclass(frozen=True)
class BigPMNIST(PMNIST):
    """The digits in the middle of a black image; `wrap` explains the pixels "wrapped"."""

    pixels: str = setting("raw", "Grey levels as they are, or as in the code of the paper's authors.", choices=PIXELS)

    name = "bigpmnist"
    side = 56

    @cached_property
    def alphabet(self) -> Tensor:
        return torch.arange(256)[:, None] / 255 if self.pixels == "wrapped" else super().alphabet

    def _place(self, images: Tensor) -> Tensor:
        # DEVIATION: the authors' code wraps values here; "wrapped" reproduces that.
        levels = wrap(images) if self.pixels == "wrapped" else images
        return torch.nn.functional.pad(levels, (14, 14, 14, 14)).flatten(1)


def normalise(levels: Tensor) -> Tensor:
    """Returns grey levels with mean 0 and deviation 1 over MNIST."""
    return (levels / 255 - 0.1307) / 0.3081


def wrap(levels: Tensor) -> Tensor:
    """Returns what the authors' code makes of a grey level: 255 times the normalised value, truncated, modulo 256.

    Black becomes 148, which is lighter than the padding (0) and than many greys: the order of grey levels is lost.
    """
    return (normalise(torch.arange(256)) * 255).trunc().long().remainder(256).to(torch.uint8)[levels.long()]
