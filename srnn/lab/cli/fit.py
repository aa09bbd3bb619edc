"""`srnn fit`: from a table to a trained model. What is not given is found out from the table, and said."""

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from srnn.lab.cli.options import CheckpointEvery, Model, Out, Quiet, Results, Set, TensorBoard, Trust, settings_given
from srnn.lab.cli.train import RECORDS, TrainCommand, train_run
from srnn.lab.settings import rules
from srnn.lab.terminal import say

DATA = "Data"


class FitCommand(TrainCommand):
    """The command with an option for each setting of a run and of the networks."""

    with_tasks = False


def _option(help: str, metavar: str = "COLUMN", default: str = "") -> typer.models.OptionInfo:
    return typer.Option(help=help, metavar=metavar, rich_help_panel=DATA, show_default=default or False)


def fit(
    context: typer.Context,
    data: Annotated[Path, typer.Argument(help="CSV, NPZ or Parquet file, or a folder that has a folder of files per class.")],
    target: Annotated[str, _option("Column to predict.", default="the class, for a folder of files per class")] = "",
    id: Annotated[str, _option("Column that names the sequence of a row.", default="the table is one sequence")] = "",
    time: Annotated[str, _option("Column to sort the rows of a sequence by.", default="the order in the file")] = "",
    group: Annotated[str, _option("Column whose values stay together in the split, such as the speaker.")] = "",
    task: Annotated[str, _option("classify, regress, tag or forecast.", "NAME", "found out from the target")] = "",
    horizon: Annotated[
        int, typer.Option(min=0, help="Steps that a forecast predicts.", rich_help_panel=DATA, show_default="1")
    ] = 0,
    format: Annotated[
        str, _option("long (a row per step), wide or text (a row per sequence).", "NAME", "found out from the columns")
    ] = "",
    inputs: Annotated[list[str] | None, _option("Columns to read.", "COLUMN,...", "all others")] = None,
    drop: Annotated[list[str] | None, _option("Columns to leave out.", "COLUMN,...")] = None,
    text: Annotated[list[str] | None, _option("Columns of numbers to read as text.", "COLUMN,...")] = None,
    window: Annotated[
        int,
        typer.Option(
            min=0,
            help="Longest piece that is trained at once with --task tag and forecast.",
            rich_help_panel=DATA,
            show_default="up to 256 steps",
        ),
    ] = 0,
    val: Annotated[float, typer.Option(help="Share that selects the weights.", rich_help_panel=DATA)] = 0.15,
    test: Annotated[float, typer.Option(help="Share that is tested at the end.", rich_help_panel=DATA)] = 0.15,
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
    given = settings_given(setting or [], {**rules(Run), **rules(recipes.network_kind(model))}, context.obj)
    table = tables.read(data)
    asked = Question(
        target=target,
        id=id,
        time=time,
        group=group,
        task=task,
        format=format,
        horizon=horizon,
        window=window,
        inputs=_names(inputs, table.columns),
        drop=_names(drop, table.columns),
        text=_names(text, table.columns),
        val=val,
        test=test,
    )
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


def _names(given: list[str] | None, columns: object) -> tuple[str, ...]:
    """Returns the columns of options such as `--drop a,b --drop 'c, d'`: a text that is a column is one, also with a comma."""
    known = set(columns)  # type: ignore[call-overload]
    return tuple(name for text in given or [] for name in ([text] if text in known else text.split(",")))
