"""`srnn train`: one run, new or resumed. Its options for settings are made from the fields of runs, tasks and networks."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from srnn.errors import DivergedError, ReadOnlyError, SettingError
from srnn.lab.cli.options import (
    FILES,
    CheckpointEvery,
    Command,
    Model,
    Out,
    Quiet,
    Recipe,
    Results,
    Set,
    TensorBoard,
    Trust,
    look_in,
    setting_options,
    settings_given,
    task_names,
)
from srnn.lab.settings import rules
from srnn.lab.terminal import say

if TYPE_CHECKING:
    from srnn.lab.records.record import Record
    from srnn.lab.training.run import Run

RECORDS = Path("runs/records")


class TrainCommand(Command):
    """The command with an option for each setting. They are added when they are needed, because finding them imports torch."""

    with_tasks = True

    def get_params(self, ctx: Any) -> list[Any]:
        return [*setting_options(ctx.resilient_parsing, self.with_tasks), *super().get_params(ctx)]

    def invoke(self, ctx: Any) -> Any:
        """Runs the command with the settings that were given as `ctx.obj`, not as arguments of the function."""
        given = {option.name: ctx.params.pop(option.name) for option in setting_options(False, self.with_tasks)}
        ctx.obj = {name: value for name, value in given.items() if value is not None}
        return super().invoke(ctx)


def train(
    context: typer.Context,
    task: Annotated[
        str | None,
        typer.Argument(
            help="copy, adding, pmnist, bigpmnist, randomlabels, speech, text, or your own Python file.",
            autocompletion=task_names,
        ),
    ] = None,
    model: Model = "srnn",
    recipe: Recipe = "paper",
    resume: Annotated[
        Path | None,
        typer.Option(help="Run folder to resume. Only --steps, --epochs, --minutes, --cpu-minutes and --patience can change."),
    ] = None,
    trust: Trust = None,
    setting: Set = None,
    data: Annotated[
        Path | None, typer.Option(help="Folder of data sets, searched before those of $SRNN_DATA.", rich_help_panel=FILES)
    ] = None,
    out: Out = None,
    results: Results = RECORDS,
    checkpoint_every: CheckpointEvery = 30.0,
    tensorboard: TensorBoard = False,
    quiet: Quiet = False,
) -> None:
    """Train a network on a task. Settings you omit default to the paper's.

    Stop a run at any time with Ctrl-C: the same command resumes it. Each run has a folder. A finished run also has a record.

    [dim]srnn train copy --length 500
    srnn train pmnist --recipe tuned --seed 1
    srnn train speech --model gru --direction echo --hidden-size 256 --minutes 10
    srnn train ./mytask.py --set length=100
    srnn train --resume runs/copy-srnn-1f0c33a9 --steps 40000[/dim]
    """
    from srnn.lab.records.folder import RUNS
    from srnn.lab.tasks import FITTED, TASKS
    from srnn.lab.training import recipes
    from srnn.lab.training.run import Run

    look_in(data)
    recipes.trust(trust or [])
    if task in FITTED:
        raise SettingError("a table is trained on with: srnn fit DATA --target COLUMN")
    if task is None and resume is None:
        raise typer.BadParameter(f"give one of {', '.join(sorted(TASKS))}, a Python file, or --resume", param_hint="TASK")
    if resume is not None:
        for name in ("model", "recipe", "out"):
            if getattr(context.get_parameter_source(name), "name", "DEFAULT") != "DEFAULT":
                raise SettingError(f"--{name} cannot be combined with --resume")
    known = rules(Run) if task is None or resume is not None else recipes.setting_rules(task, model)
    run = choose_run(task, model, recipe, settings_given(setting or [], known, context.obj), resume)
    train_run(
        run,
        resume or out or RUNS / run.id,
        Console(quiet=quiet),
        into=results,
        checkpoint_every=checkpoint_every,
        tensorboard=tensorboard,
        quiet=quiet,
    )


def choose_run(task: str | None, model: str, recipe: str, given: Mapping[str, Any], resume: Path | None) -> "Run":
    """Returns the run that is asked for: a new one, or the one of a folder, possibly with another end."""
    from srnn.lab.training import distributed, recipes, start
    from srnn.lab.training.loop import read_run
    from srnn.lab.training.run import LIMITS

    if resume is None:
        assert task is not None
        if given.get("init_from"):
            given = {**given, "init_from": start.resolved(given["init_from"])}
        return recipes.make_run(task, model, recipe, **{"threads": distributed.default_threads(), **given})
    if task is not None or given.keys() - set(LIMITS):
        wrong = ", ".join(f"--{name.replace('_', '-')}" for name in given.keys() - set(LIMITS)) or "a task"
        allowed = ", ".join(f"--{name.replace('_', '-')}" for name in LIMITS)
        raise SettingError(f"a resumed run keeps its settings: with --resume give only {allowed}, got {wrong}")
    return read_run(resume).with_limits(**given)


def train_run(
    run: "Run",
    path: Path,
    console: Console,
    *,
    into: Path = RECORDS,
    checkpoint_every: float = 30.0,
    tensorboard: bool = False,
    quiet: bool = False,
) -> "Record | None":
    """Trains a run, shows its progress, and adds its record to those of its task. Under torchrun only rank 0 writes and prints.

    Args:
        run: What to train.
        path: Run folder.
        console: Where to print.
        into: Folder of the records.
        checkpoint_every: Seconds between checkpoints.
        tensorboard: True to write the curve for TensorBoard too.
        quiet: True to show no progress.

    Returns:
        The record, or None on ranks other than 0.

    Raises:
        SettingError: `checkpoint_every` is not a number of seconds.
        DivergedError: The loss became infinite or not a number. The record is written nevertheless.
    """
    from srnn.lab.training import distributed, loop, progress
    from srnn.lab.training.distributed import TorchTeam

    if not checkpoint_every >= 0:  # nan is not below 0 either
        raise SettingError(f"--checkpoint-every must be a number of seconds, got {checkpoint_every}")
    with distributed.joined(run.device) as team:
        if isinstance(team, TorchTeam) and not team.is_first:
            loop.follow(run, path, team)
            return None
        collected = into / f"{run.task.name}.jsonl"
        shown = progress.watchers(console, quiet=quiet, tensorboard=path / "tensorboard" if tensorboard else None)
        shown = [progress.Heading(console), *shown]
        record = loop.train(run, path, checkpoint_every=checkpoint_every, watchers=shown, team=team, into=collected)
        _collect(collected, record)
        if record.diverged:
            raise DivergedError(f"{summary(record, path)}. Record: {collected}")
        for text in (summary(record, path), f"record: {collected}"):
            say(console, text)
        return record


def _collect(path: Path, record: "Record") -> None:
    """Adds a record to a file of records, unless the file is read-only and already has it."""
    from srnn.lab.records import store

    try:
        store.collect(path, record.to_json())
    except ReadOnlyError:
        if not path.exists() or record.to_json() not in store.read_lines(path)[0]:
            raise


def summary(record: "Record", path: Path) -> str:
    """Returns a line about how a run ended."""
    from srnn.lab.records.folder import RunFolder
    from srnn.lab.training.progress import number

    if record.diverged:
        kept = "The last checkpoint before it is kept" if RunFolder(path).checkpoint.exists() else "There was no checkpoint yet"
        return f"diverged after update {record.updates}: {record.ended_by}. {kept}"
    ended = f"{record.updates} updates in {record.seconds:.0f} s (ended by {record.ended_by})"
    chance = f"chance level {number(record.chance)}"
    if (result := record.result) is not None:
        ceiling = "" if record.ceiling is None else f", ceiling {number(record.ceiling)}"
        lines = "".join(f", {name} {number(value)}" for name, value in (record.lines or {}).items())
        score = f"{result.split} {result.metric} {number(result.value)} with the weights of update {result.at}"
        return f"{score} ({chance}{ceiling}{lines}), {ended}"
    means = record.training
    assert means is not None  # a finished run has made an update
    shown = f"mean loss of {means.window} updates: lowest {number(means.lowest)}, final {number(means.final)}"
    return f"{shown} ({chance}), {ended}"
