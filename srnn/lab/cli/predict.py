"""`srnn predict`: answers of a fitted model, for a table or for a stream of lines."""

import csv
import io
import json
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from srnn.errors import DataError, SettingError
from srnn.lab.cli.options import Json, Overwrite, Trust
from srnn.lab.terminal import say

if TYPE_CHECKING:
    from srnn.lab.training.model import Model

SUFFIXES = (".csv", ".jsonl")


def predict(
    model: Annotated[Path, typer.Argument(help="Run folder of srnn fit, or a model that srnn export wrote as safetensors.")],
    data: Annotated[Path, typer.Argument(help="Table with the columns of the training, or - to read lines as they come.")],
    out: Annotated[Path | None, typer.Option(help="File to write, .csv or .jsonl.", show_default="the terminal")] = None,
    overwrite: Overwrite = False,
    level: Annotated[
        float, typer.Option(help="How often an interval should hold the true number: 0.5, 0.8, 0.9, 0.95 or 0.99.")
    ] = 0.9,
    as_json: Json = False,
    trust: Trust = None,
) -> None:
    """Predict with a model that srnn fit trained: classes with probabilities, or numbers with intervals.

    With - as DATA each line of CSV or JSON is answered at once, and the state of each sequence is kept.

    [dim]srnn predict runs/fit-srnn-1f0c33a9 new.csv --out answers.csv
    tail -f sensor.csv | srnn predict runs/fit-srnn-1f0c33a9 -[/dim]
    """
    from srnn.lab.training import recipes

    recipes.trust(trust or [])
    if out is not None:
        _check(out, overwrite, as_json, is_stream=str(data) == "-")
    found = _load(model)
    if str(data) == "-":
        _answer_stream(found, level, as_json)
    else:
        _answer_table(found, data, out, level, as_json or (out is not None and out.suffix == ".jsonl"))


def _check(out: Path, overwrite: bool, as_json: bool, is_stream: bool) -> None:
    if is_stream:
        raise SettingError("--out cannot be combined with a stream. Redirect the output instead: > FILE")
    if out.suffix not in SUFFIXES or (as_json and out.suffix == ".csv"):
        raise SettingError(f"--out must end in {' or '.join(SUFFIXES)}, and in .jsonl with --json, got {out}")
    if os.path.lexists(out) and not overwrite:
        raise SettingError(f"{out} exists. Give another --out, or --overwrite to replace it")


def _load(path: Path) -> "Model":
    """Returns the model of a run folder or an exported file, which must be of `srnn fit`."""
    from srnn.lab.export import tensors
    from srnn.lab.tasks.fitted import Fitted
    from srnn.lab.training.weights import load, weights_file

    if path.suffix in (".onnx", ".pt2", ".h", ".csv"):
        raise SettingError(f"srnn predict takes a run folder or a file of srnn export --format safetensors, got {path}")
    model = load(path) if path.is_dir() else tensors.load(path)[1].eval()
    if not isinstance(model.task, Fitted):
        raise SettingError(f"{path} is of the task {model.task.name}. srnn predict takes the models of srnn fit")
    if path.is_dir() and weights_file(path).name.startswith("checkpoint"):
        _note(
            f"the run is not finished: these are the weights of its last checkpoint. Finish it with: srnn train --resume {path}"
        )
    return model


def _note(text: str) -> None:
    say(Console(stderr=True), f"note: {text}")


def _answer_table(model: Any, data: Path, out: Path | None, level: float, as_json: bool) -> None:
    from srnn.lab.data import table as tables
    from srnn.lab.data.preparation import unseen_note
    from srnn.lab.records import store

    prepared, table = model.task.prepared, tables.read(data)
    answers = model.predict(table, level=level)
    unseen = {} if prepared.layout.format == "text" else prepared.unseen(table)
    notes = unseen_note(unseen, "here")
    if model.calibration is not None and (count := model.calibration["errors"]) < 1 / (1 - level):
        notes.append(f"the intervals rest on {count} errors of the validation data, which are too few for level {level:g}")
    for note in notes:
        _note(note)
    text = "".join(_lines(answers, as_json))
    if out is None:
        typer.echo(text, nl=False)
    else:
        store.replace(out, text.encode())
        say(Console(), f"wrote {out}, {len(answers)} answers")


def _lines(answers: Iterable[dict[str, Any]], as_json: bool) -> Iterator[str]:
    """Yields lines of JSON, or of CSV with the names of the columns first."""
    from srnn.lab.tasks.prediction import flat

    for number, answer in enumerate(answers):
        if as_json:
            yield json.dumps(answer) + "\n"
            continue
        cells, line = flat(answer), io.StringIO()
        writer = csv.writer(line, lineterminator="\n")
        if not number:
            writer.writerow(cells)
        writer.writerow("" if value is None else value for value in cells.values())
        yield line.getvalue()


def _answer_stream(model: Any, level: float, as_json: bool) -> None:
    """Answers each line of standard input before the next is read."""
    from srnn.lab.tasks.prediction import Stream

    stream = Stream(model, model.task.prepared, level=level)
    answers = (answer for number, row in _rows() for answer in _answers(stream, number, row))
    try:
        for line in _lines(answers, as_json):
            sys.stdout.write(line)
            sys.stdout.flush()
    except BrokenPipeError:  # the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _answers(stream: Any, number: int, row: dict[str, Any]) -> list[dict[str, Any]]:
    try:
        return stream.answer(row)
    except DataError as error:
        raise DataError(f"line {number} of the stream: {error}") from None


def _rows() -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields number and row of each line of standard input: JSON objects, or CSV after a line with the names of the columns."""
    from srnn.lab.data.table import check_names

    names: list[str] = []
    try:
        for number, line in enumerate(sys.stdin, start=1):
            if not line.strip():
                continue
            if not names and line.lstrip().startswith("{"):
                yield number, _object(line, number)
                continue
            cells = next(csv.reader([line], strict=True))
            if not names:
                names = check_names(cells, "the stream")
            elif len(cells) != len(names):
                raise DataError(f"line {number} of the stream must have {len(names)} cells, as the first, got {len(cells)}")
            else:
                yield number, dict(zip(names, cells, strict=True))
    except UnicodeDecodeError as error:
        raise DataError(f"the stream is not UTF-8 text ({error.reason})") from None
    except csv.Error as error:
        raise DataError(f"line {number} of the stream is not CSV: {error}") from None


def _object(line: str, number: int) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"line {number} of the stream is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise DataError(f"line {number} of the stream must be a JSON object, got a {type(found).__name__}")
    return found
