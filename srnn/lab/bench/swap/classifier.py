"""Classifier: say which of 10 made-up languages a word is in.

    input     n k d w a e i         letters; words have from a quarter of `length` to `length` of them
    target    language 5

In a language each letter has its own favourite successor, which follows it with probability 0.5; otherwise any letter does.
All letters are equally frequent in all languages, so a single letter says nothing: chance level is 10 %.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from srnn.lab.bench.swap.program import RNN, Data, Model, Program, Scores, percent_right
from srnn.lab.tasks.task import generator

LANGUAGES, LETTERS, FAVOURITE = 10, 20, 0.5


class LastLetter(Model):
    """The output at a word's last letter, from a packed batch."""

    def forward(self, words: Tensor, lengths: Tensor) -> Tensor:  # type: ignore[override]
        packed = pack_padded_sequence(self.embedding(words), lengths, batch_first=True, enforce_sorted=False)
        output, _ = pad_packed_sequence(self.rnn(packed)[0], batch_first=True)
        return self.readout(output[torch.arange(len(words)), lengths - 1])


class Classifier(Program):
    """The classifier."""

    name = "classifier"
    scores = {"accuracy, %": True}

    def model(self, RNN: RNN) -> nn.Module:
        return LastLetter(RNN, 32, self.hidden_size, LANGUAGES, symbols=LETTERS)

    def draw(self, split: str, n: int, draws: torch.Generator) -> Data:
        """words [n, length] with zeros after their ends, lengths [n], languages [n]."""
        languages = torch.randint(0, LANGUAGES, (n,), generator=draws)
        lengths = torch.randint(self.length // 4, self.length + 1, (n,), generator=draws)
        letters = torch.randint(0, LETTERS, (n, self.length), generator=draws)
        follows = torch.rand(n, self.length, generator=draws) < FAVOURITE
        successor = successors()[languages]
        for t in range(1, self.length):
            favourite = successor.gather(1, letters[:, t - 1 : t])[:, 0]
            letters[:, t] = torch.where(follows[:, t], favourite, letters[:, t])
        return letters * (torch.arange(self.length) < lengths[:, None]), lengths, languages

    def loss(self, model: Any, data: Data) -> Tensor:
        words, lengths, languages = data
        return F.cross_entropy(model(words, lengths), languages)

    def score(self, model: Any, data: Data) -> Scores:
        words, lengths, languages = data
        return {"accuracy, %": percent_right(model(words, lengths), languages)}


def successors() -> Tensor:
    """Returns each letter's favourite successor in each language, [LANGUAGES, LETTERS]; no two letters share one."""
    draws = generator(0)
    return torch.stack([torch.randperm(LETTERS, generator=draws) for _ in range(LANGUAGES)])
