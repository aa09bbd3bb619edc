"""Speech frames: log-spectra of 129 bins, 32 ms long, one every 16 ms (computed in srnn/lab/data/speech.py).

    predict    input frame t, target frame t + 1; silence follows the last frame
    echo       input frame t + 1, target frame t, which was the input one step earlier

The numbers published on TIMIT are plausible for `echo` only, which is far easier: the code they come from exchanges input and
target. The score is the mean squared error in dB^2 over all valid frames and bins together, so long utterances weigh more and
padding does not count.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from srnn.lab import data
from srnn.lab.data import speech
from srnn.lab.settings import setting
from srnn.lab.tasks.task import Batch, Task, generator, similar_lengths

DIRECTIONS = ("predict", "echo")
CORPORA = ("speech", "timit", "timit-sample")
SILENCE = -50.0  # dB, the smallest value of a frame
# For all networks alike: targets at unit scale, Adam with warm-up and cosine. The learning rate is the middle one of the three
# that were tried.
TUNED: dict[str, Any] = {"batch_size": 20, "epochs": 30, "hidden_size": 512, "standardise": True, "scale_targets": True}
TUNED |= {"optimizer": "adam", "lr": 2e-3, "clip": 1.0, "schedule": "cosine", "warmup": 100}
MEAN, DEVIATION = -35.0, 13.0  # dB, of frames of speech, about


@dataclass(frozen=True)
class Speech(Task):
    """Frames of speech: predict the next one, or repeat the last one."""

    direction: str = setting("predict", "Predict the next frame, or repeat the previous one.", choices=DIRECTIONS)
    standardise: bool = setting(False, "Scale inputs to (x + 35) / 13 instead of raw dB.")
    corpus: str = setting("speech", "Data set to read.", choices=CORPORA)
    scale_targets: bool = setting(False, "Predict 13 y - 35 for an output y, so that outputs have unit scale.")
    allow_shared_speakers: bool = setting(False, "Accept a corpus that has one speaker in two splits.")

    name = "speech"
    input_size = output_size = speech.BINS
    usual_steps = 217
    every_step = True
    metric = "mse"
    selects = "val"
    reports = "test"
    recipes = {
        "paper": {
            "": {"batch_size": 20, "epochs": 30, "hidden_size": 128, "mlp": (32, 32, 32)},
            **{name: {"clip": 1.0} for name in ("rnn", "lstm", "gru")},
        },
        "ours": {
            **dict.fromkeys(("lstm", "gru", "nru"), TUNED),
            "srnn": TUNED | {"mlp": (32, 32, 32)},
            "srnnstack": TUNED | {"width": 192},
        },
    }
    settings_tried = {"ours": 3}

    @property
    def splits(self) -> tuple[str, ...]:
        return tuple(self._frames)

    @property
    def data_set(self) -> str:
        return self.corpus

    @cached_property
    def data_digest(self) -> str:
        return speech.fingerprint(data.find(self.corpus), allow_shared_speakers=self.allow_shared_speakers)

    @cached_property
    def chance(self) -> float:
        """Error of repeating the input, on the test split."""
        x, y = self._pairs("test")
        return float(numpy.square(x - y, dtype=numpy.float64).mean())

    @cached_property
    def lines(self) -> dict[str, float]:
        """Errors on the test split without memory: repeating the input, and the best affine map of it, fitted on train."""
        moments = numpy.zeros((2 * speech.BINS + 1, 2 * speech.BINS + 1))
        for x, y in zip(*(numpy.array_split(part, 20) for part in self._pairs("train")), strict=True):
            both = numpy.hstack([x, numpy.ones((len(x), 1)), y])  # in float64, in parts to save memory
            moments += both.T @ both
        inputs = speech.BINS + 1
        weight = numpy.linalg.lstsq(moments[:inputs, :inputs], moments[:inputs, inputs:])[0]
        x, y = self._pairs("test")
        error = numpy.hstack([x, numpy.ones((len(x), 1))]) @ weight - y
        return {"repeat": self.chance, "linear": float(numpy.square(error).mean())}

    def updates_per_epoch(self, batch_size: int) -> int:
        return -(-len(self._lengths("train")) // batch_size)

    def batch(self, update: int, batch_size: int, seed: int) -> Batch:
        # DEVIATION: the authors' batches mix all lengths; sorting wastes less on padding.
        epoch, position = divmod(update, self.updates_per_epoch(batch_size))
        return self._batch("train", similar_lengths(self._lengths("train"), batch_size, generator(seed, epoch))[position])

    def batches(self, split: str, batch_size: int) -> Iterator[Batch]:
        for rows in self._lengths(split).argsort(stable=True).split(batch_size):
            yield self._batch(split, rows.tolist())

    def loss(self, output: Tensor, batch: Batch) -> Tensor:
        assert batch.lengths is not None
        if self.scale_targets:
            output = output * DEVIATION + MEAN
        valid = torch.arange(output.shape[1], device=output.device) < batch.lengths[:, None]
        return ((output - batch.target).square().mean(dim=-1) * valid).sum() / batch.lengths.sum()

    def weight(self, batch: Batch) -> int:
        assert batch.lengths is not None
        return int(batch.lengths.sum())

    @cached_property
    def _frames(self) -> dict[str, tuple[numpy.ndarray, numpy.ndarray]]:
        folder = data.find(self.corpus)
        loaded = speech.load(folder, allow_shared_speakers=self.allow_shared_speakers)
        data.check_counts(self.corpus, folder, {split: len(offsets) - 1 for split, (_, offsets) in loaded.items()})
        return loaded

    def _lengths(self, split: str) -> Tensor:
        return torch.from_numpy(numpy.diff(self._frames[split][1]))

    def _pairs(self, split: str) -> tuple[numpy.ndarray, numpy.ndarray]:
        """Returns all input frames and all target frames, each [total, 129]; silence follows an utterance."""
        frames, offsets = self._frames[split]
        following = numpy.full_like(frames, SILENCE)
        following[:-1] = frames[1:]
        following[offsets[1:] - 1] = SILENCE
        return (frames, following) if self.direction == "predict" else (following, frames)

    def _batch(self, split: str, rows: list[int]) -> Batch:
        frames, offsets = self._frames[split]
        parts = [torch.from_numpy(frames[offsets[row] : offsets[row + 1]]) for row in rows]
        now = pad_sequence(parts, batch_first=True, padding_value=SILENCE)
        following = torch.nn.functional.pad(now[:, 1:], (0, 0, 0, 1), value=SILENCE)
        input, target = (now, following) if self.direction == "predict" else (following, now)
        lengths = torch.tensor([len(part) for part in parts])
        return Batch((input - MEAN) / DEVIATION if self.standardise else input, target, lengths)
