"""Random labels: memorise which random label each image has. This measures how much a network can store.

The labels of all of MNIST are shuffled, `samples` images are drawn, and their middle is cut out and read row by row. Identical
crops with different labels are indistinguishable, so the best possible accuracy, `ceiling`, can be below 100 and is counted.
The score is the accuracy on the training samples after each epoch.
"""

from collections import Counter
from dataclasses import dataclass
from functools import cached_property

import numpy
import torch
from torch import Tensor

from srnn.lab import data
from srnn.lab.data import mnist
from srnn.lab.settings import setting
from srnn.lab.tasks.pmnist import CLIPPED, Digits

# About 15,000 degrees of freedom each, as in the paper.
SIZES = {"lstm": 59, "gru": 68, "rnn": 116, "nru": 52, "nnrnn": 116, "urnn": 468, "eurnn": 936}
SIZES |= {"exprnn": 162, "scornn": 162, "rgd": 110, "indrnn": 116, "mingru": 26, "lru": 24}
DRAW = 1234  # one draw of labels and samples for all networks and seeds


@dataclass(frozen=True)
class RandomLabels(Digits):
    """Crops of MNIST with labels that mean nothing."""

    crop: int = setting(8, "Side of the square that is cut out of each image.", least=1, most=28)
    samples: int = setting(1000, "Number of images.", least=1, most=60_000)

    name = "randomlabels"
    reports = "train"
    recipes = {
        "paper": {
            "": {"batch_size": 100, "epochs": 500, "hidden_size": 285, "mlp": (32, 32, 32)},
            **{name: {"hidden_size": size, **({"clip": 1.0} if name in CLIPPED else {})} for name, size in SIZES.items()},
            "nru": {"hidden_size": SIZES["nru"], "memory_size": 64},
        }
    }

    @property
    def usual_steps(self) -> int:
        return self.crop**2

    @cached_property
    def ceiling(self) -> float:
        images, labels = self._splits["train"]
        kinds: dict[bytes, Counter[int]] = {}
        for image, label in zip(images.numpy(), labels.tolist(), strict=True):
            kinds.setdefault(image.tobytes(), Counter())[label] += 1
        return 100 * sum(max(votes.values()) for votes in kinds.values()) / self.samples

    @cached_property
    def _splits(self) -> dict[str, tuple[Tensor, Tensor]]:
        images, labels = mnist.load(data.find("mnist"))["train"]
        # DEVIATION: this follows the paper. The authors' code takes the first samples, crops to 8 x 8 and wraps the values.
        draws = numpy.random.RandomState(DRAW)
        shuffled = labels[draws.permutation(len(labels))]
        rows, edge = draws.permutation(len(labels))[: self.samples], (28 - self.crop) // 2
        crops = images[rows, edge : edge + self.crop, edge : edge + self.crop].reshape(self.samples, -1)
        return {"train": (torch.from_numpy(crops), torch.from_numpy(shuffled[rows]).long())}
