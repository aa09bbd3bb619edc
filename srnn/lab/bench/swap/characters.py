"""Character model: predict the next character of a text.

    input     t h e   q u i c
    target    h e   q u i c k

The text is the data set `text` (tiny Shakespeare), or, where that is not here, one that is generated from made-up words. 90 %
of it are training data, 5 % validation data, 5 % test data. Every window starts from a zero state. Without any knowledge a
character costs log2 V bits, where V is the number of different characters.
"""

import hashlib
import math
from functools import cache
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from srnn.lab import data
from srnn.lab.bench.swap.program import RNN, Data, Model, Program, Scores
from srnn.lab.data import text
from srnn.lab.tasks.task import generator

BOUNDS = {"train": (0.0, 0.9), "val": (0.9, 0.95), "test": (0.95, 1.0)}


class Characters(Program):
    """The model of characters."""

    name = "characters"
    scores = {"bits per character": False}

    @property
    def data(self) -> str:
        return source()[0]

    def model(self, RNN: RNN) -> nn.Module:
        characters = int(source()[1].max()) + 1
        return Model(RNN, 64, self.hidden_size, characters, symbols=characters)

    def draw(self, split: str, n: int, draws: torch.Generator) -> Data:
        """Windows [n, length + 1] of the split."""
        ids = source()[1]
        start, end = (int(bound * len(ids)) for bound in BOUNDS[split])
        starts = torch.randint(start, end - self.length, (n, 1), generator=draws)
        return (ids[starts + torch.arange(self.length + 1)],)

    def loss(self, model: Any, data: Data) -> Tensor:
        (windows,) = data
        return F.cross_entropy(model(windows[:, :-1]).flatten(0, 1), windows[:, 1:].flatten())

    def score(self, model: Any, data: Data) -> Scores:
        return {"bits per character": float(self.loss(model, data)) / math.log(2)}


@cache
def source() -> tuple[str, Tensor]:
    """Returns what the text is, with a digest of it, and its characters as indices."""
    if data.is_here("text"):
        path = text.files(data.find("text"))[0]
        title, ids = path.name, torch.from_numpy(text.load(path)[1])
    else:
        title, ids = "a generated text", generated()
    return f"{title}, {len(ids)} characters, sha256 {hashlib.sha256(ids.numpy().tobytes()).hexdigest()[:12]}", ids


def generated(words: int = 60_000) -> Tensor:
    """Returns a text of made-up words, each followed by one of five others or by the end of the sentence."""
    draws = generator(0)
    sizes = torch.randint(2, 9, (400,), generator=draws).tolist()
    lexicon = [torch.randint(2, 28, (size,), generator=draws) for size in sizes]  # 0 is a space, 1 a full stop
    followers = torch.randint(0, len(lexicon), (len(lexicon), 5), generator=draws)
    choices = torch.randint(0, 6, (words,), generator=draws).tolist()
    walk = [0]
    for choice in choices:
        walk.append(int(followers[walk[-1], choice % 5]) if choice < 5 else int(torch.randint(0, 400, (), generator=draws)))
    gaps = [torch.tensor([0]) if choice < 5 else torch.tensor([1, 0]) for choice in choices]
    return torch.cat([part for (word, _), gap in zip(pairwise(walk), gaps, strict=True) for part in (lexicon[word], gap)])
