"""What was learned from the training part of a table: which columns are inputs, their means and scales, the classes.

A `Preparation` is stored as JSON with a run and in exported files. It turns tables of the same columns into the inputs of the
model, and the outputs of the model into answers:

    numbers     (x - mean) / scale, and 0 for a missing value. If values were missing in training, a further input says so
    texts       a symbol of an alphabet: one input per category, 1 for the category of the cell. All are 0 for a category that
                was not seen in training, and for a missing value. A single column of text is given as numbers of symbols
    answers     classes by the largest output, or numbers: output * scale + mean. The mean of a forecast is the last known value
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy
from numpy.typing import NDArray

from srnn.errors import DataError, RecordError
from srnn.lab.data.sequences import FORMATS, Layout, Sequences, group_rows, numbers_of, unroll
from srnn.lab.data.table import FILE, Column, Table
from srnn.lab.records.shape import misfit

FORMAT = 1  # of the stored form; another is not read
CLASSIFY, REGRESS, TAG, FORECAST = KINDS = ("classify", "regress", "tag", "forecast")


@dataclass(frozen=True)
class Input:
    """A column that the model reads.

    categories      texts that were seen in training; None for a column of numbers
    marks_missing   True if a further input is 1 where the value is missing
    """

    column: str
    mean: float = 0.0
    scale: float = 1.0
    marks_missing: bool = False
    categories: list[str] | None = None

    @property
    def names(self) -> list[str]:
        """A name for each number that the model gets for this column."""
        if self.categories is not None:
            return [f"{self.column} = {category}" for category in self.categories]
        return [self.column, f"{self.column} is missing"] if self.marks_missing else [self.column]


@dataclass(frozen=True)
class Preparation:
    """The way from a table to the inputs of a model and from its outputs to answers.

    kind            one of KINDS
    classes         of the target; None for numbers
    mean, scale     of the target, one of each per output. The means of a forecast are 0
    horizon         steps ahead that a forecast predicts; the model has an output for each
    window          longest piece of a sequence that is trained at once, if there is an answer at every step
    steps           usual number of steps
    val, test       share of the sequences that select the weights, and that are tested
    in_time         True if a sequence is split, its last part being the test data; otherwise whole sequences (or groups) are
    """

    layout: Layout
    kind: str
    target: str
    inputs: list[Input]
    classes: list[str] | None
    mean: list[float]
    scale: list[float]
    horizon: int = 0
    window: int = 0
    steps: int = 1
    val: float = 0.15
    test: float = 0.15
    in_time: bool = False

    @property
    def every_step(self) -> bool:
        """Whether there is an answer at every step."""
        return self.kind in (TAG, FORECAST)

    @property
    def is_symbols(self) -> bool:
        """Whether the input is a number of a symbol: 0 for none of the categories, then the categories."""
        return len(self.inputs) == 1 and self.inputs[0].categories is not None

    @property
    def input_names(self) -> list[str]:
        """A name for each input of the model."""
        return [name for each in self.inputs for name in each.names]

    @property
    def outputs(self) -> int:
        """Outputs of the model."""
        return len(self.scale) if self.classes is None else len(self.classes)

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {"format": FORMAT, **asdict(self)}

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> "Preparation":
        """Return what `to_json` wrote.

        Raises:
            RecordError: A newer version wrote it, or it is damaged.
        """
        found = dict(plain)
        if (number := found.pop("format", None)) != FORMAT:
            raise RecordError(
                f"the model was fitted by another version of srnn (format {number}, this one reads format {FORMAT})"
            )
        if wrong := misfit(found, _SHAPE, "preparation"):
            raise RecordError(f"the preparation of the data is damaged: {wrong}")
        try:
            found["layout"] = Layout(**found["layout"])
            found["inputs"] = [Input(**each) for each in found["inputs"]]
            whole = cls(**found)
        except TypeError as error:
            raise RecordError(f"the preparation of the data is damaged: {error}") from None
        if (
            whole.layout.format not in FORMATS
            or whole.kind not in KINDS
            or not whole.inputs
            or len(whole.mean) != len(whole.scale)
        ):
            raise RecordError("the preparation of the data is damaged: its values do not go together")
        return whole

    def needed(self, *, with_target: bool = False) -> list[str]:
        """Return the columns that a table must have for a prediction, or for training."""
        steps = self.layout.steps or {}
        columns = [*([self.target] if with_target else []), *(each.column for each in self.inputs)]
        others = [self.layout.id, self.layout.time, *([self.layout.group] if with_target else [])]
        return list(dict.fromkeys([*filter(None, others), *(each for name in columns for each in steps.get(name, [name]))]))

    def sequences(self, table: Table, *, with_target: bool = False) -> Sequences:
        """Return the sequences of a table.

        Raises:
            DataError: Columns are missing, or the rows cannot be put in order.
        """
        if self.layout.id == FILE and FILE not in table.columns:  # one file of those that a folder has many of
            names = numpy.full(len(table), Path(table.source).name, dtype=object)
            table = replace(table, columns={FILE: Column(names), **table.columns})
        if missing := [name for name in self.needed(with_target=with_target) if name not in table.columns]:
            raise DataError(f"{table.source} lacks columns that the model was trained with: {', '.join(missing)}")
        return group_rows(*unroll(table, self.layout))

    def encode(self, sequences: Sequences) -> list[NDArray[Any]]:
        """Return the inputs of each sequence: float32 [T, C], or numbers of symbols [T]."""
        table = sequences.table
        parts = [self._encoded(each, table) for each in self.inputs]
        whole = parts[0] if self.is_symbols else numpy.concatenate(parts, axis=1)
        return [whole[rows] for rows in sequences.rows]

    def _encoded(self, each: Input, table: Table) -> NDArray[Any]:
        if each.categories is None:
            values = numbers_of(table, each.column)
            absent = numpy.isnan(values)
            scaled = numpy.where(absent, 0.0, (values - each.mean) / each.scale)
            columns = [scaled, absent] if each.marks_missing else [scaled]
            return numpy.stack(columns, axis=1).astype(numpy.float32)
        places = {category: place for place, category in enumerate(each.categories, start=1)}
        symbols = numpy.array([places.get(text, 0) for text in table[each.column].texts], dtype=numpy.int64)
        return symbols if self.is_symbols else self.alphabet(each)[symbols]

    @staticmethod
    def alphabet(each: Input) -> NDArray[numpy.float32]:
        """Return the inputs of each symbol of a column of text: row 0 is zeros, for what was not seen in training."""
        size = len(each.categories or ())
        return numpy.eye(size + 1, size, k=-1, dtype=numpy.float32)

    def unseen(self, table: Table) -> dict[str, list[str]]:
        """Return the texts in each column of a table that were not seen in training."""
        found = {}
        for each in self.inputs:
            seen = None if each.categories is None or each.column not in table.columns else {"", *each.categories}
            if seen is not None and (new := sorted(set(table[each.column].texts) - seen)):
                found[each.column] = new
        return found

    def last_known(self, values: NDArray[numpy.float64]) -> NDArray[numpy.float64]:
        """Return at each step the last number that is not missing, nan before the first."""
        places = numpy.maximum.accumulate(numpy.where(numpy.isnan(values), -1, numpy.arange(len(values))))
        return numpy.where(places >= 0, values[places], numpy.nan)

    def answers(self, sequences: Sequences) -> list[NDArray[Any]]:
        """Return the targets of each sequence, scaled, as the model should output them.

        classes     int64 [T] or, with one answer per sequence, []; -1 where there is none
        numbers     float32 [T, O] or [O]; nan where there is none
        """
        table, found = sequences.table, []
        if self.classes is not None:
            places = {name: place for place, name in enumerate(self.classes)}
            labels = numpy.array([places.get(text, -1) for text in table[self.target].texts], dtype=numpy.int64)
            return [labels[rows] if self.every_step else labels[rows[0]] for rows in sequences.rows]
        values = numbers_of(table, self.target)
        for rows in sequences.rows:
            own = values[rows] if self.every_step else values[rows[:1]]
            if self.kind == FORECAST:
                later = [numpy.append(own[k:], numpy.full(min(k, len(own)), numpy.nan)) for k in range(1, self.horizon + 1)]
                wanted = numpy.stack(later, axis=1) - self.last_known(own)[:, None]
            else:
                wanted = own[:, None] - self.mean[0] if self.every_step else own - self.mean[0]
            found.append((wanted / self.scale).astype(numpy.float32))
        return found


_SHAPE = {
    "layout": {"format": str, "id": str | None, "time": str | None, "group": str | None, "steps": dict[str, list[str]] | None},
    "inputs": list[Input],
    "kind": str,
    "target": str,
    "classes": list[str] | None,
    "mean": list[float],
    "scale": list[float],
} | {"horizon": int, "window": int, "steps": int, "val": float, "test": float, "in_time": bool}


def unseen_note(unseen: Mapping[str, Sequence[str]], where: str) -> list[str]:
    """Return a line about each column with texts that were not seen in training."""
    return [
        f"{column!r} has {len(texts)} values {where} that are not in the training data, such as {texts[0]!r}: "
        "the model gets no input for them"
        for column, texts in unseen.items()
    ]
