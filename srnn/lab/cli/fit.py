"""`srnn fit`: from a table to a trained model. What is not given is found out from the table, and said."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from srnn.lab.cli.options import DATA, CheckpointEvery, Model, Out, Quiet, Results, Set, TensorBoard, Trust, settings_given
from srnn.lab.cli.train import RECORDS, TrainCommand, train_run
from srnn.lab.settings import rules
from srnn.lab.terminal import say

if TYPE_CHECKING:
    from srnn.lab.data.table import Table


class FitCommand(TrainCommand):
    """The command with an option for each field of a question about a table, and each setting of a run and of the networks."""

    with_tasks = False


def fit(
    context: typer.Context,
    data: Annotated[Path, typer.Argument(help="CSV, NPZ or Parquet file, or a folder that has a folder of files per class.")],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what was found out, and train nothing.", rich_help_panel=DATA)
    ] = False,
    model: Model = "srnn",
    trust: Trust = None,
    setting: Set = None,
    out: Out = None,
    results: Results = RECORDS,
    checkpoint_every: CheckpointEvery = 30.0,
    tensorboard: TensorBoard = False,
    quiet: Quiet = False,
) -> None:
    """Train a network on your own table.

    Columns of numbers are standardised, columns of text become symbols. Stop with Ctrl-C: the same command resumes.

    [dim]srnn fit data.csv --target label --id series
    srnn fit wide.csv --target price --model gru --minutes 5
    srnn fit power.csv --target load --time hour --horizon 24
    srnn fit folder/
    srnn fit new.csv --target label --id series --init-from runs/fit-srnn-1f0c33a9[/dim]
    """
    from srnn.lab.data import table as tables
    from srnn.lab.data.fitting import Question
    from srnn.lab.records.folder import RUNS
    from srnn.lab.training import distributed, recipes
    from srnn.lab.training.fit import make_fit
    from srnn.lab.training.run import Run

    recipes.trust(trust or [])
    about = {name: context.obj.pop(name) for name in rules(Question) if name in context.obj}
    given = settings_given(setting or [], {**rules(Run), **rules(recipes.network_kind(model))}, context.obj)
    table = tables.read(data)
    about |= {name: _names(each, table) for name, each in about.items() if isinstance(each, list | tuple)}
    asked = Question(**about)
    threads = {"threads": distributed.default_threads()}
    found = make_fit(table, asked, model, file=str(data.resolve()), **{**threads, **given})
    console = Console(quiet=quiet or os.environ.get("RANK", "0") != "0")
    for note in found.notes:
        say(console, note)
    if dry_run:
        return
    path = out or RUNS / found.run.id
    record = train_run(
        found.run,
        path,
        Console(quiet=quiet),
        into=results,
        checkpoint_every=checkpoint_every,
        tensorboard=tensorboard,
        quiet=quiet,
    )
    if record is not None:
        say(console, f"predict with: srnn predict {path} DATA")


def _names(given: Iterable[str], table: "Table") -> tuple[str, ...]:
    """Returns the columns of options such as `--drop a,b --drop 'c, d'`: a text that is a column is one, also with a comma."""
    return tuple(name for text in given for name in ([text] if text in table.columns else text.split(",")))
