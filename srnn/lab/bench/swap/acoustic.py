"""Acoustic model: write down the symbols of an utterance, trained by CTC without knowing where each of them is.

    input     a a a a a k k k o o o o o o o       frames: a symbol's template plus noise, for 3 to 8 frames
    target    a k o

The score is the symbol error rate in percent: insertions, deletions and substitutions of the greedy decoding over the number of
symbols. Writing nothing costs 100.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from srnn.lab.bench.swap.program import RNN, Data, Model, Program, Scores
from srnn.lab.tasks.task import generator

SYMBOLS, BINS, SHORTEST, LONGEST, NOISE = 12, 16, 3, 8, 1.5  # symbols are 1 to SYMBOLS; 0 is the blank of CTC


class Acoustic(Program):
    """The acoustic model."""

    name = "acoustic"
    scores = {"symbol error rate, %": False}

    def model(self, RNN: RNN) -> nn.Module:
        return Model(RNN, BINS, self.hidden_size, 1 + SYMBOLS)

    def draw(self, split: str, n: int, draws: torch.Generator) -> Data:
        """frames [n, length, BINS], how many of them count [n], symbols [n, most] and how many of them count [n]."""
        most = self.length // LONGEST
        counts = torch.randint(max(1, most // 2), most + 1, (n,), generator=draws)
        # Steps of 1 to SYMBOLS - 1 from one symbol to the next, so that no symbol follows itself.
        symbols = 1 + torch.randint(1, SYMBOLS, (n, most), generator=draws).cumsum(dim=1) % SYMBOLS
        durations = torch.randint(SHORTEST, LONGEST + 1, (n, most), generator=draws)
        ends = durations.cumsum(dim=1)
        at = (torch.arange(self.length)[None, :, None] >= ends[:, None]).sum(dim=-1)  # which symbol a frame belongs to
        frames = templates()[symbols.gather(1, at.clamp(max=most - 1))]
        frames = frames + NOISE * torch.randn(frames.shape, generator=draws)
        lengths = ends.gather(1, counts[:, None] - 1)[:, 0]
        return frames * (at < counts[:, None])[..., None], lengths, symbols * (torch.arange(most) < counts[:, None]), counts

    def loss(self, model: Any, data: Data) -> Tensor:
        frames, lengths, symbols, counts = data
        return F.ctc_loss(F.log_softmax(model(frames), dim=-1).transpose(0, 1), symbols, lengths, counts)

    def score(self, model: Any, data: Data) -> Scores:
        frames, lengths, symbols, counts = data
        found = [row[:n].tolist() for row, n in zip(model(frames).argmax(dim=-1), lengths.tolist(), strict=True)]
        wanted = [row[:n].tolist() for row, n in zip(symbols, counts.tolist(), strict=True)]
        errors = sum(edits([s for s, _ in groupby(a) if s], b) for a, b in zip(found, wanted, strict=True))
        return {"symbol error rate, %": 100 * errors / int(counts.sum())}


def templates() -> Tensor:
    """Returns the frame that each symbol stands for, [1 + SYMBOLS, BINS]."""
    return torch.randn(1 + SYMBOLS, BINS, generator=generator(0))


def edits(found: Sequence[int], wanted: Sequence[int]) -> int:
    """Returns the least number of insertions, deletions and substitutions between two sequences (Levenshtein)."""
    costs = list(range(len(wanted) + 1))
    for i, a in enumerate(found, start=1):
        diagonal, costs[0] = costs[0], i
        for j, b in enumerate(wanted, start=1):
            diagonal, costs[j] = costs[j], min(costs[j] + 1, costs[j - 1] + 1, diagonal + (a != b))
    return costs[-1]
