"""From the rows of a table to sequences: which rows belong together, and in which order.

    long    one row per step, a column that names the sequence, optionally one with the time
    wide    one row per sequence, a column per step: x0 x1 x2 ..., or a0 a1 a2 ... b0 b1 b2 ... for two inputs a and b
    text    one row per sequence, a column with a text. Each character is a step

Wide tables and texts are turned into long ones first, so that everything after it knows one form only.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Any

import numpy
from numpy.typing import NDArray

from srnn.errors import DataError, SettingError
from srnn.lab.data.table import SEQUENCE, Column, Table, characters, free_name, lengths_before_end

FORMATS = ("long", "wide", "text")
NUMBERED = re.compile(r"(.*?)[_.\- \[]?(\d+)\]?")
FEWEST_STEPS = 8  # numbered columns that make a table wide without --format: three sensors x1, x2, x3 are common in long ones
ROW = "row"  # what messages and answers call the number of a row that is a sequence


@dataclass(frozen=True)
class Layout:
    """How the rows of a table become sequences.

    steps       wide: for each input its columns, one per step; text: the column of the text
    """

    format: str = "long"
    id: str | None = None
    time: str | None = None
    group: str | None = None
    steps: dict[str, list[str]] | None = None

    @property
    def label(self) -> str | None:
        """What answers call the name of a sequence; None for a table that is one sequence."""
        return self.id if self.id is not None else None if self.format == "long" else ROW


@dataclass(frozen=True)
class Sequences:
    """Sequences of a long table: the name of each, its rows in order, and the group that it belongs to."""

    table: Table
    names: list[str]
    rows: list[NDArray[numpy.int64]]
    groups: list[str]
    notes: list[str]

    @property
    def lengths(self) -> NDArray[numpy.int64]:
        """Steps of each sequence."""
        return numpy.array([len(each) for each in self.rows])


def numbered_columns(names: Sequence[str]) -> dict[str, list[str]]:
    """Return columns such as x0 x1 x2 by the part before the number, in the order of the numbers."""
    found: dict[str, list[tuple[int, str]]] = {}
    for name in names:
        if match := NUMBERED.fullmatch(name):
            found.setdefault(match[1], []).append((int(match[2]), name))
    return {prefix: [name for _, name in sorted(each)] for prefix, each in found.items()}


def choose_layout(table: Table, layout: Layout, inputs: Sequence[str], *, is_answer_per_sequence: bool) -> tuple[Layout, str]:
    """Return the layout of a table whose format the user may have left open (""), and the reason for the choice.

    Args:
        table: The table.
        layout: What the user gave. `format` may be empty.
        inputs: The columns that may be inputs.
        is_answer_per_sequence: True if the user asked for one answer per sequence, which needs several sequences.

    Raises:
        SettingError: The table cannot have the format that the user gave.
    """
    format, reason = layout.format, "as given"
    steps = {prefix: names for prefix, names in numbered_columns(inputs).items() if len(names) > 1}
    count = sum(map(len, steps.values()))
    texts = [name for name in inputs if table[name].numbers is None]
    is_unique = layout.id is None or len(set(table[layout.id].texts)) == len(table)
    if not format:
        format, reason = "long", "one row per step"
        cells = table[texts[0]].texts if len(texts) == 1 == len(inputs) else numpy.array([])
        if layout.time is None and is_unique and (layout.id is None or layout.id != table.id):
            if count >= FEWEST_STEPS and 2 * count >= len(inputs) and all(len(each) > 2 for each in steps.values()):
                format, reason = "wide", f"one row per sequence: the columns are numbered, such as {_some(steps)}"
            elif len(cells) and 2 * len(set(cells)) > len(cells) and sum(map(len, cells)) > 2 * len(cells):
                format, reason = "text", f"one row per sequence: each character of {texts[0]!r} is a step"
            elif is_answer_per_sequence and layout.id is None:
                format, reason = "wide", "one row per sequence, since no --id is given"
    if format == "long":
        return replace(layout, format=format, steps=None), reason
    if not is_unique:
        raise SettingError(f"--format {format} has one row per sequence, but a value of {layout.id!r} occurs in several rows")
    if format == "text":
        if len(texts) != 1:
            raise SettingError(
                f"--format text needs one column of text, got {', '.join(texts) or 'none'}. Name it with --inputs"
            )
        return replace(layout, format=format, steps={texts[0]: [texts[0]]}), reason
    numbers = [name for name in inputs if name not in texts]
    if not steps or len({len(names) for names in steps.values()}) > 1:  # columns in the order of the file
        steps = {"step": numbers}
    steps = {free_name(prefix or "step", table.columns): names for prefix, names in steps.items()}
    if not all(steps.values()):
        raise SettingError(f"--format wide needs a column of numbers for each step, and {table.source} has none")
    return replace(layout, format=format, steps=steps), reason


def _some(steps: dict[str, list[str]]) -> str:
    names = next(iter(steps.values()))
    return f"{names[0]} to {names[-1]}"


def unroll(table: Table, layout: Layout) -> tuple[Table, Layout]:
    """Return a table in the long format, and the layout that it has then. Columns that are no steps are repeated at each step.

    Missing values at the end of a row are not steps: the sequence is shorter.

    Raises:
        DataError: A column has texts instead of numbers, or a row has no steps.
    """
    if layout.steps is None:
        return table, layout
    names = numpy.arange(1, len(table) + 1).astype(str) if layout.id is None else table[layout.id].texts
    if layout.format == "text":
        (column,) = layout.steps
        texts = table[column].texts
        lengths = numpy.array([len(each) for each in texts])
        columns = {column: characters(texts)}
    else:
        grids = {prefix: numpy.stack([numbers_of(table, name) for name in each], 1) for prefix, each in layout.steps.items()}
        T = len(next(iter(layout.steps.values())))
        lengths = lengths_before_end([numpy.isnan(each) for each in grids.values()], len(table), T)
        columns = {prefix: Column(grid[numpy.arange(T) < lengths[:, None]]) for prefix, grid in grids.items()}
    if not lengths.all():
        raise DataError(f"row {int(lengths.argmin()) + 1} of {table.source} has no values. Remove it")
    used = {name for each in layout.steps.values() for name in each}
    which = numpy.repeat(numpy.arange(len(table)), lengths)
    rest = {name: column.take(which) for name, column in table.columns.items() if name not in used}
    id = layout.id or free_name(SEQUENCE, table.columns)
    rest[id] = Column(numpy.repeat(numpy.array([*names, None], dtype=object)[:-1], lengths))
    return replace(table, columns=rest | columns), replace(layout, format="long", id=id, steps=None)


def numbers_of(table: Table, name: str) -> NDArray[numpy.float64]:
    """Return a column as numbers.

    Raises:
        DataError: A cell is another text, or not finite. The error names the row.
    """
    column = table[name]
    if column.numbers is None:
        row = next(k for k, cell in enumerate(column.texts) if Column(numpy.array([cell], dtype=object)).numbers is None)
        raise DataError(f"the column {name!r} of {table.source} must hold numbers, got {column.texts[row]!r} in row {row + 1}")
    if len(
        wrong := numpy.flatnonzero(numpy.abs(numpy.nan_to_num(column.numbers, nan=0.0, posinf=1e300, neginf=1e300)) > 1e100)
    ):
        row, value = int(wrong[0]), column.numbers[wrong[0]]
        advice = "Correct it, or leave the cell empty if the value is not known"
        raise DataError(
            f"the column {name!r} of {table.source} must hold finite numbers, got {value:g} in row {row + 1}. {advice}"
        )
    return column.numbers


def group_rows(table: Table, layout: Layout) -> Sequences:
    """Return the sequences of a long table, in the order in which they first occur.

    Raises:
        DataError: A row has no id, a time occurs twice in a sequence, or a sequence is in two groups.
    """
    notes: list[str] = []
    if layout.id is None:
        names, which = ["series"], numpy.zeros(len(table), numpy.int64)
    else:
        texts = table[layout.id].texts
        if len(empty := numpy.flatnonzero(texts == "")):
            raise DataError(
                f"the column {layout.id!r} of {table.source} must name a sequence in every row, got none in row {empty[0] + 1}"
            )
        places: dict[str, int] = {}
        which = numpy.array([places.setdefault(text, len(places)) for text in texts], dtype=numpy.int64)
        names = list(places)
        if numpy.count_nonzero(numpy.diff(which)) >= len(names):
            notes.append(
                f"the rows of a sequence are not next to each other: they are collected by {layout.id!r}, in their order"
            )
    order = numpy.argsort(which, kind="stable")
    if layout.time is not None:
        times = _times(table, layout.time)
        order = numpy.lexsort((times, which))
        same = (numpy.diff(times[order]) == 0) & (numpy.diff(which[order]) == 0)
        if same.any():
            a, b = sorted(order[int(same.argmax()) : int(same.argmax()) + 2] + 1)
            place = "" if layout.id is None else f" of the sequence {names[which[a - 1]]!r}"
            raise DataError(f"the rows {a} and {b}{place} have the same {layout.time!r}. Each row of a sequence needs its own")
        if (order != numpy.argsort(which, kind="stable")).any():
            notes.append(f"rows are sorted by {layout.time!r}")
    rows = numpy.split(order, numpy.cumsum(numpy.bincount(which, minlength=len(names)))[:-1])
    return Sequences(table, names, rows, _groups(table, layout, names, rows), notes)


def _times(table: Table, name: str) -> NDArray[numpy.float64]:
    """Return a column of numbers or dates as numbers that can be sorted."""
    column = table[name]
    if column.numbers is not None:
        if column.is_missing.any():
            raise DataError(f"the column {name!r} of {table.source} has no time in row {int(column.is_missing.argmax()) + 1}")
        return numbers_of(table, name)
    found = []
    for row, cell in enumerate(column.texts, start=1):
        try:
            moment = datetime.fromisoformat(cell.removesuffix("Z"))
        except ValueError:
            expected = "must hold numbers or dates such as 2024-01-31T12:00"
            raise DataError(f"the column {name!r} of {table.source} {expected}, got {cell!r} in row {row}") from None
        found.append((moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).timestamp())
    return numpy.array(found)


def _groups(table: Table, layout: Layout, names: list[str], rows: list[Any]) -> list[str]:
    if layout.group is None:
        return names
    texts, found = table[layout.group].texts, []
    for name, each in zip(names, rows, strict=True):
        if len(values := sorted(set(texts[each]))) > 1:
            raise DataError(
                f"the sequence {name!r} has two values of the group {layout.group!r}: {values[0]!r} and {values[1]!r}"
            )
        found.append(values[0])
    return found
