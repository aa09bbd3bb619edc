"""Tagger: give each word of a sentence a tag, as in finding names of persons, places and so on. Both directions.

    input     a2  word  NAME  word  word  b0  NAME  word  b1
    target     0     0     9     0     0   0    10     0   0        1 + 4 i + j for a NAME between a_i and b_j

The tag of a name depends on the last cue a before it and on the first cue b after it. Each of the cues a_0 to a_3 and b_0 to
b_3 is any of 10 words, which a network must learn. All other words have tag 0. The score is that of the names alone: without
memory one of 16 tags is right by chance.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from srnn.lab.bench.swap.program import RNN, Data, Model, Program, Scores, percent_right

CUES, WORDS_OF_A_CUE, NAMES, WORDS = 4, 10, 10, 50
TAGS = 1 + CUES * CUES
SIZES = torch.tensor([CUES * WORDS_OF_A_CUE, CUES * WORDS_OF_A_CUE, NAMES, WORDS])  # of the vocabulary: a, b, names, others
SHARES = torch.tensor([0.06, 0.06, 0.2, 0.68])  # of the same in a sentence


class Tagger(Program):
    """The tagger."""

    name = "tagger"
    scores = {"accuracy of names, %": True}

    def model(self, RNN: RNN) -> nn.Module:
        return Model(RNN, 32, self.hidden_size, TAGS, symbols=int(SIZES.sum()), bidirectional=True)

    def draw(self, split: str, n: int, draws: torch.Generator) -> Data:
        """words [n, length] and tags [n, length]."""
        shape = (n, self.length)
        kinds = torch.multinomial(SHARES, n * self.length, replacement=True, generator=draws).view(shape)
        kinds[:, 0], kinds[:, -1] = 0, 1  # so that every name has a cue on each side
        which = (torch.rand(shape, generator=draws) * SIZES[kinds]).long()
        steps = torch.arange(self.length)
        before = torch.where(kinds == 0, steps, 0).cummax(dim=1).values
        after = torch.where(kinds == 1, steps, self.length).flip(1).cummin(dim=1).values.flip(1)
        i, j = (which.gather(1, place) % CUES for place in (before, after))
        return (SIZES.cumsum(0) - SIZES)[kinds] + which, (1 + CUES * i + j) * (kinds == 2)

    def loss(self, model: Any, data: Data) -> Tensor:
        words, tags = data
        return F.cross_entropy(model(words).flatten(0, 1), tags.flatten())

    def score(self, model: Any, data: Data) -> Scores:
        words, tags = data
        names = tags > 0
        return {"accuracy of names, %": percent_right(model(words)[names], tags[names])}
