"""Answers of fitted models: for whole tables, and for streams line by line.

An answer is a dict for one line of CSV or JSON:

    classify    the name of the sequence, prediction, probabilities
    regress     the name of the sequence, prediction, low, high
    tag         the same for each step, with `step` or the column of the time
    forecast    the same for each of the next steps, with `ahead` from 1 on

low and high are the bounds of an interval. Its half-width is a quantile of the absolute errors on the validation data, with the
correction of split conformal prediction: the smallest error such that (n + 1) * level of n errors are not above it. The
interval is a little too narrow, because the same data also selected the weights.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from srnn.errors import DataError, RecordError, SettingError
from srnn.lab.data.preparation import FORECAST, Preparation
from srnn.lab.data.sequences import ROW, Sequences, numbers_of
from srnn.lab.data.table import Table
from srnn.lab.records.shape import misfit
from srnn.lab.tasks.task import Batch

Answer = dict[str, Any]
LEVELS = ("0.5", "0.8", "0.9", "0.95", "0.99")  # of intervals
AT_ONCE = 200  # sequences
PREDICTION, PROBABILITIES = "prediction", "probabilities"


@torch.no_grad()
def calibrate(model: Any, task: Any, batches: Iterable[Batch]) -> dict[str, Any]:
    """Return half-widths of intervals by level, one per output in the unit of the target, and how many errors they rest on."""
    device = next(model.parameters()).device
    errors: list[list[Tensor]] = [[] for _ in task.prepared.scale]
    for batch in batches:
        apart = (model(batch.to(device)).cpu() - batch.target).abs().flatten(0, -2)
        for k, each in enumerate(apart.unbind(-1)):
            errors[k].append(each[~each.isnan()])
    widths: dict[str, list[float]] = {level: [] for level in LEVELS}
    sorted_errors = [torch.cat(each).sort().values for each in errors]
    for scale, each in zip(task.prepared.scale, sorted_errors, strict=True):
        for level in LEVELS:
            place = min(len(each), math.ceil((len(each) + 1) * float(level)))
            widths[level].append(float(each[place - 1]) * scale if place else 0.0)
    return {"widths": widths, "errors": min(map(len, sorted_errors))}


def half_widths(model: Any, level: float) -> list[float] | None:
    """Return the half-width of the interval of each output; None if the model has none.

    Raises:
        SettingError: There are no intervals of this level.
        RecordError: The stored values are damaged.
    """
    known: Mapping[str, Any] | None = getattr(model, "calibration", None)
    if f"{level:g}" not in LEVELS:
        raise SettingError(f"the level of an interval must be one of {', '.join(LEVELS)}, got {level:g}")
    if known is None:
        return None
    if wrong := misfit(known, {"widths": dict.fromkeys(LEVELS, list[float]), "errors": int}, "calibration"):
        raise RecordError(f"the intervals of the model are damaged: {wrong}")
    return known["widths"][f"{level:g}"]


def predict(model: Any, prepared: Preparation, table: Table, *, level: float = 0.9) -> list[Answer]:
    """Return the answers for a table.

    Raises:
        DataError: The table lacks columns, or holds values that the model cannot read.
        SettingError: There are no intervals of this level.
    """
    if not len(table):
        raise DataError(f"{table.source} has no rows")
    widths = half_widths(model, level)
    if prepared.kind == FORECAST:
        _check_past(prepared, table)
    sequences = prepared.sequences(table)
    found = enumerate(outputs(model, prepared, sequences))
    return [answer for number, output in found for answer in _answers(prepared, sequences, number, output, widths)]


def _check_past(prepared: Preparation, table: Table) -> None:
    if prepared.target not in table.columns and prepared.target not in (prepared.layout.steps or {}):
        raise DataError(f"{table.source} lacks the column {prepared.target!r}. A forecast needs the past of its target")


def outputs(model: Any, prepared: Preparation, sequences: Sequences) -> Iterator[Tensor]:
    """Yield the outputs of each sequence: [O], and [T, O] for tags. Long sequences are read in windows, as in evaluations."""
    inputs = [torch.from_numpy(each) for each in prepared.encode(sequences)]
    if prepared.kind == FORECAST:
        inputs = [each[-2 * prepared.window :] for each in inputs]  # more steps than it was trained with may confuse it
    for start in range(0, len(inputs), AT_ONCE):
        some = inputs[start : start + AT_ONCE]
        if prepared.every_step and prepared.kind != FORECAST:
            yield from (_in_windows(model, each, prepared.window) for each in some)
            continue
        lengths = torch.tensor([len(each) for each in some])
        output = _run(model, Batch(pad_sequence(some, batch_first=True), torch.empty(0), lengths))
        yield from output[torch.arange(len(some)), lengths - 1] if prepared.every_step else output


def _in_windows(model: Any, x: Tensor, window: int) -> Tensor:
    found = []
    for start in range(0, len(x), window):
        context = max(0, start - window)
        output = _run(model, Batch(x[None, context : start + window], torch.empty(0)))
        found.append(output[0, start - context :])
    return torch.cat(found)


@torch.no_grad()
def _run(model: Any, batch: Batch) -> Tensor:
    model.eval()
    return model(batch.to(next(model.parameters()).device)).cpu()


def _answers(
    prepared: Preparation, sequences: Sequences, number: int, output: Tensor, widths: list[float] | None
) -> Iterator[Answer]:
    """Yield the answers about one sequence."""
    layout, rows, table = prepared.layout, sequences.rows[number], sequences.table
    who: Answer = {} if layout.label is None else {layout.label: sequences.names[number]}
    if prepared.kind == FORECAST:
        values = numbers_of(table, prepared.target)[rows]
        yield from forecasts(prepared, who, output, float(prepared.last_known(values)[-1]), widths)
    elif not prepared.every_step:
        yield who | one_answer(prepared, output, widths)
    else:
        times = None if layout.time is None else table[layout.time].texts[rows]
        for step, each in enumerate(output):
            when = {"step": step + 1} if times is None else {str(layout.time): times[step]}
            yield who | when | one_answer(prepared, each, widths)


def one_answer(prepared: Preparation, output: Tensor, widths: list[float] | None) -> Answer:
    """Return prediction and probabilities, or prediction and interval, of one output [O]."""
    if prepared.classes is not None:
        shares = output.double().softmax(-1)
        named = {name: _short(share) for name, share in zip(prepared.classes, shares.tolist(), strict=True)}
        return {PREDICTION: prepared.classes[int(output.argmax())], PROBABILITIES: named}
    value = float(output[0]) * prepared.scale[0] + prepared.mean[0]
    return _with_interval(value, None if widths is None else widths[0])


def forecasts(prepared: Preparation, who: Answer, output: Tensor, last: float, widths: list[float] | None) -> Iterator[Answer]:
    """Yield a prediction for each of the next steps. All are None if no value is known yet."""
    for k, scale in enumerate(prepared.scale):
        value = float(output[k]) * scale + last
        yield who | {"ahead": k + 1} | _with_interval(value, None if widths is None else widths[k])


def _with_interval(value: float, width: float | None) -> Answer:
    if math.isnan(value):
        return {PREDICTION: None}
    found: Answer = {PREDICTION: _short(value)}
    return found if width is None else found | {"low": _short(value - width), "high": _short(value + width)}


def _short(value: float) -> float:
    return float(f"{value:.6g}")


class Stream:
    """Answers rows as they come, and keeps the state of each sequence in between.

    Args:
        model: A fitted model.
        prepared: How rows become inputs.
        level: Of intervals.
    """

    def __init__(self, model: Any, prepared: Preparation, *, level: float = 0.9) -> None:
        self.model, self.prepared, self.level = model.eval(), prepared, level
        self.widths = half_widths(model, level)
        self.rows = 0
        self.states: dict[str, Any] = {}
        self.steps: dict[str, int] = {}
        self.last: dict[str, float] = {}

    @torch.no_grad()
    def answer(self, row: Mapping[str, Any]) -> list[Answer]:
        """Return the answers after one more row: one, or those for each step of a forecast.

        Raises:
            DataError: The row lacks columns, or holds values that the model cannot read.
        """
        prepared, layout = self.prepared, self.prepared.layout
        table = Table.of({name: [value] for name, value in row.items()}, "the row")
        if layout.format != "long":  # each row is a sequence
            self.rows += 1
            found = predict(self.model, prepared, table, level=self.level)
            return [answer | ({ROW: str(self.rows)} if layout.id is None else {}) for answer in found]
        if prepared.kind == FORECAST:
            _check_past(prepared, table)
        sequences = prepared.sequences(table)
        name = sequences.names[0]
        x = torch.from_numpy(prepared.encode(sequences)[0])[None].to(next(self.model.parameters()).device)
        states, self.states[name] = self.model.states(x, self.states.get(name))
        output = self.model.readout(states[0, -1]).cpu()
        self.steps[name] = self.steps.get(name, 0) + 1
        who: Answer = {} if layout.label is None else {layout.label: name}
        when = {"step": self.steps[name]} if layout.time is None else {layout.time: table[layout.time].texts[0]}
        if prepared.kind != FORECAST:
            return [who | when | one_answer(prepared, output, self.widths)]
        value = float(numbers_of(table, prepared.target)[0])
        self.last[name] = self.last.get(name, math.nan) if math.isnan(value) else value
        return list(forecasts(prepared, who | when, output, self.last[name], self.widths))


def flat(answer: Answer) -> Answer:
    """Return an answer without nested values, for a line of CSV: p(NAME) is the probability of a class."""
    found = {name: value for name, value in answer.items() if name != PROBABILITIES}
    return found | {f"p({name})": share for name, share in answer.get(PROBABILITIES, {}).items()}
