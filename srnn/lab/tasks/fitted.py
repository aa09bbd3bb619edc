"""A task made of a table by `srnn fit`: classify or regress sequences, tag every step, or forecast the next steps.

    classify    x x x x x -> class           tag         x x x x x
    regress     x x x x x -> number                      a a b b a
                                             forecast    x x x x x -> the next h values of one of the columns

How a table becomes inputs and answers is in `preparation` (see data/preparation.py), so a model can be built, exported and
asked without the data. The data are needed to train and to evaluate only, and are then checked against their digest.

The score of classes is the accuracy in percent, that of numbers the mean absolute error in the unit of the target. The
no-memory baselines are the most frequent class, the mean of the training part, and for a forecast the last known value.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from srnn.errors import DataError, MissingError, SettingTypeError
from srnn.lab import data
from srnn.lab.data import fitting
from srnn.lab.data import table as tables
from srnn.lab.data.preparation import FORECAST, Preparation
from srnn.lab.data.sequences import Sequences
from srnn.lab.data.table import Table
from srnn.lab.tasks.prediction import Answer, calibrate, predict
from srnn.lab.tasks.task import Batch, Task, generator, similar_lengths

RECIPE = {"hidden_size": 128, "optimizer": "adamw", "lr": 2e-3, "weight_decay": 0.01, "clip": 1.0, "warmup": 20, "norm": True}
RECIPE |= {"batch_size": 32, "steps": 3000, "patience": 20}


class Piece(NamedTuple):
    """Steps of a sequence that are trained or evaluated at once: inputs from `context` on, answers from `start` to `stop`."""

    sequence: int
    context: int
    start: int
    stop: int


@dataclass(frozen=True)
class Fitted(Task):
    """A table and a question about it."""

    file: str
    digest: str
    preparation: dict

    name: ClassVar[str] = "fit"  # annotated, so that the completion of `srnn train` does not take it for one of its tasks
    selects = "val"
    reports = "test"
    splits = fitting.SPLITS
    recipes = {"paper": {"": RECIPE, "srnn": {"mlp": (32,), "gate_init": -2.0}}}  # docs/learning.md chose -2.0

    def __hash__(self) -> int:
        return hash((self.file, self.digest, json.dumps(self.preparation, sort_keys=True)))

    def __deepcopy__(self, memo: Any) -> "Fitted":
        return self  # it never changes, and it may hold the data

    def check(self) -> None:
        assert self.prepared  # reads it, and raises an error if it is damaged

    @cached_property
    def prepared(self) -> Preparation:
        """How a table becomes inputs and answers."""
        return Preparation.from_json(self.preparation)

    @property
    def _is_classes(self) -> bool:
        return self.prepared.classes is not None

    @property
    def input_size(self) -> int:  # type: ignore[override]
        return len(self.prepared.input_names)

    @property
    def output_size(self) -> int:  # type: ignore[override]
        return self.prepared.outputs

    @property
    def every_step(self) -> bool:  # type: ignore[override]
        return self.prepared.every_step

    @property
    def metric(self) -> str:  # type: ignore[override]
        return "accuracy" if self._is_classes else "mae"

    @property
    def higher_is_better(self) -> bool:  # type: ignore[override]
        return self._is_classes

    @property
    def usual_steps(self) -> int:
        return self.prepared.steps

    @cached_property
    def alphabet(self) -> Tensor | None:
        prepared = self.prepared
        return torch.from_numpy(prepared.alphabet(prepared.inputs[0])) if prepared.is_symbols else None

    @property
    def data_digest(self) -> str:
        assert self.table  # checks the digest
        return self.digest

    @cached_property
    def table(self) -> Table:
        """The data.

        Raises:
            DataError: The file is missing, or has changed.
        """
        found = tables.read(self._path)
        if found.digest != self.digest:
            raise DataError(
                f"{found.source} has changed since the run was started: expected the sha256 {self.digest[:12]}..., got "
                f"{found.digest[:12]}.... Restore it, or start a new run with srnn fit"
            )
        return found

    @property
    def _path(self) -> Path:
        """The file, or one of its name in the folders that are searched for data."""
        path = Path(self.file)
        places = [path, *(folder / path.name for folder in data.folders())]
        if not self.file or (found := next((place for place in places if place.exists()), None)) is None:
            what = self.file or "the table of this run, which was in memory,"
            raise MissingError(f"{what} is not there. Name the folder that it is in now with --data FOLDER")
        return found

    @cached_property
    def _split(self) -> tuple[list[NDArray[Any]], list[NDArray[Any]], dict[str, list[int]]]:
        """Inputs and answers of all sequences, and the numbers of those in each part."""
        prepared = self.prepared
        sequences = fitting.usable(prepared.sequences(self.table, with_target=True), prepared)
        return prepared.encode(sequences), prepared.answers(sequences), fitting.split(sequences, prepared)

    @cached_property
    def _pieces(self) -> dict[str, list[Piece]]:
        """The pieces of each part."""
        inputs, _, parts = self._split
        return {
            split: [piece for number in parts[split] for piece in self._cut(number, len(inputs[number]), split)]
            for split in parts
        }

    def _cut(self, number: int, T: int, split: str) -> list[Piece]:
        """Returns the pieces of a sequence of T steps.

        Long sequences with an answer at every step are cut: to train, into windows that overlap by half, and otherwise into
        windows that follow each other, each after as many steps without an answer.
        """
        prepared = self.prepared
        if not prepared.every_step:
            return [Piece(number, 0, 0, T)]
        first, last = fitting.time_bounds(T, prepared, split) if prepared.in_time else (0, T)
        ahead, window = prepared.horizon, prepared.window
        first, last = max(0, first - ahead), last - min(ahead, 1)  # the steps whose answers can be in this part
        if split == "train":
            half = max(1, window // 2)
            starts = range(first, max(first + 1, last - half), half)
            return [Piece(number, start, start, min(start + window, last)) for start in starts]
        starts = range(first, last, window)
        return [Piece(number, max(0, start - window), start, min(start + window, last)) for start in starts]

    @cached_property
    def _lengths(self) -> dict[str, Tensor]:
        return {split: torch.tensor([p.stop - p.context for p in pieces]) for split, pieces in self._pieces.items()}

    def updates_per_epoch(self, batch_size: int) -> int:
        return -(-len(self._pieces["train"]) // batch_size)

    def batch(self, update: int, batch_size: int, seed: int) -> Batch:
        epoch, position = divmod(update, self.updates_per_epoch(batch_size))
        key = (batch_size, epoch, seed)
        if key not in self._orders:  # every update of an epoch asks for it
            self._orders.clear()
            self._orders[key] = similar_lengths(self._lengths["train"], batch_size, generator(seed, epoch))
        return self._batch("train", self._orders[key][position])

    @cached_property
    def _orders(self) -> dict[tuple[int, int, int], list[list[int]]]:
        return {}

    def batches(self, split: str, batch_size: int) -> Iterator[Batch]:
        for rows in self._lengths[split].argsort(stable=True).split(batch_size):
            yield self._batch(split, rows.tolist())

    def _batch(self, split: str, rows: list[int]) -> Batch:
        inputs, answers, _ = self._split
        pieces = [self._pieces[split][row] for row in rows]
        x = pad_sequence([torch.from_numpy(inputs[p.sequence][p.context : p.stop]) for p in pieces], batch_first=True)
        lengths = torch.tensor([p.stop - p.context for p in pieces])
        if not self.every_step:
            target = torch.from_numpy(numpy.stack([answers[p.sequence] for p in pieces]))
        else:
            wanted = [torch.from_numpy(self._answers(answers[p.sequence], p, split)) for p in pieces]
            target = pad_sequence(wanted, batch_first=True, padding_value=-1 if self._is_classes else numpy.nan)
        return Batch(x, target, None if (lengths == lengths[0]).all() else lengths)

    def _answers(self, answers: NDArray[Any], piece: Piece, split: str) -> NDArray[Any]:
        """Returns the answers of a piece, with nothing where they do not count: before its start, or in another part."""
        found = answers[piece.context : piece.stop].copy()
        nothing = -1 if self._is_classes else numpy.nan
        found[: piece.start - piece.context] = nothing
        if self.prepared.in_time:
            first, last = fitting.time_bounds(len(answers), self.prepared, split)
            step = numpy.arange(piece.context, piece.stop)
            ahead = numpy.arange(1, self.prepared.horizon + 1) if self.prepared.kind == FORECAST else numpy.zeros(1, int)
            at = step[:, None] + ahead
            outside = (at < first) | (at >= last)
            found[outside[:, 0] if found.ndim == 1 else outside] = nothing
        return found

    def _known(self, batch: Batch) -> Tensor:
        """Which answers count."""
        return batch.target >= 0 if self._is_classes else ~batch.target.isnan()

    def weight(self, batch: Batch) -> int:
        return int(self._known(batch).sum())

    def loss(self, output: Tensor, batch: Batch) -> Tensor:
        """Cross-entropy, or the squared error of scaled numbers."""
        known = self._known(batch)
        count = known.sum().clamp(min=1)
        if self._is_classes:
            return F.cross_entropy(output.flatten(0, -2), batch.target.flatten(), ignore_index=-1, reduction="sum") / count
        return torch.where(known, output - batch.target, 0.0).square().sum() / count

    def score(self, output: Tensor, batch: Batch) -> Tensor:
        known = self._known(batch)
        count = known.sum().clamp(min=1)
        if self._is_classes:
            return 100 * ((output.argmax(dim=-1) == batch.target) & known).sum() / count
        scale = torch.tensor(self.prepared.scale, device=output.device)
        return (torch.where(known, output - batch.target, 0.0).abs() * scale).sum() / count

    @cached_property
    def chance(self) -> float:
        """Score on the reported part of the most frequent class, of the mean, or for a forecast of the last known value."""
        total = weight = 0.0
        output = torch.zeros(self.output_size)
        if self._is_classes:
            every = torch.cat([batch.target[batch.target >= 0] for batch in self.batches("train", 500)])
            output[every.mode().values] = 1.0
        for batch in self.batches(self.reports or "train", 500):
            count = self.weight(batch)
            guess = output.expand(*batch.target.shape, -1) if self._is_classes else output.expand(batch.target.shape)
            total += count * self.score(guess, batch).item()
            weight += count
        return total / weight

    def calibration(self, model: Any) -> dict[str, Any] | None:
        return None if self._is_classes else calibrate(model, self, self.batches("val", 500))

    def predict(self, model: Any, given: Any, *, level: float) -> list[Answer]:
        """Return the answers for a file, a folder, a `Table`, columns by name or a DataFrame."""
        if isinstance(given, str | Path):
            given = tables.read(Path(given))
        elif not isinstance(given, Table):
            names = given if isinstance(given, Mapping) else getattr(given, "columns", None)
            if names is None:
                wants = "a file, a folder, a Table, columns by name or a DataFrame"
                raise SettingTypeError(f"the model of a table predicts for {wants}, got {type(given).__name__}")
            given = Table.of({name: given[name] for name in names})
        return predict(model, self.prepared, given, level=level)


def of_table(table: Table, preparation: Preparation, file: str = "") -> Fitted:
    """Return the task of a table that is in memory. A run of it can be resumed only if `file` holds the same table."""
    task = Fitted(file, table.digest or hashlib.sha256().hexdigest(), json.loads(json.dumps(preparation.to_json())))
    vars(task)["table"] = table
    return task


class Divided(Fitted):
    """Sequences in memory that the caller divided: one part to train and, unless its share is 0, one that selects the weights.

    There is no test part, so the part that selects is also the one that the run reports.
    """

    @property
    def selects(self) -> str | None:  # type: ignore[override]
        return "val" if self.prepared.val else None

    @property
    def reports(self) -> str | None:  # type: ignore[override]
        return self.selects

    def calibration(self, model: Any) -> None:
        return None


def of_sequences(sequences: Sequences, preparation: Preparation, parts: dict[str, list[int]]) -> Divided:
    """Return the task of sequences that are in memory, with the numbers of those in each part."""
    known = of_table(sequences.table, preparation)
    task = Divided(known.file, known.digest, known.preparation)
    arrays = preparation.encode(sequences), preparation.answers(sequences)
    vars(task).update(table=sequences.table, _split=(*arrays, parts))
    return task
