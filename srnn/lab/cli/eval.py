"""`srnn eval`: the score of a run's weights."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from srnn.errors import SettingError, one_of
from srnn.lab.cli.options import Data, Json, Trust, look_in
from srnn.lab.terminal import say


def eval_(
    run: Annotated[Path, typer.Argument(help="Run folder.")],
    trust: Trust = None,
    split: Annotated[str | None, typer.Option(help="train, val or test.", show_default="the split the task reports")] = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Score the weights of a run.

    [dim]srnn eval runs/pmnist-srnn-1f0c33a9
    srnn eval runs/pmnist-srnn-1f0c33a9 --split val[/dim]
    """
    from srnn.lab.training import recipes

    look_in(data)
    recipes.trust(trust or [])
    found = evaluate_run(run, split, Console(quiet=as_json))
    if as_json:
        typer.echo(json.dumps(found))


def evaluate_run(path: Path, split: str | None, console: Console) -> dict[str, Any]:
    """Scores the weights of a finished run, or those of its last checkpoint, and prints the result.

    Args:
        path: Run folder.
        split: Data to score on. By default the split that the task reports, and until the run ends the validation data.
        console: Where to print.

    Returns:
        The split, the loss and the score.
    """
    import torch

    from srnn.lab.records.folder import RunFolder
    from srnn.lab.training.loop import evaluate, evaluation_batches, read_run
    from srnn.lab.training.progress import number
    from srnn.lab.training.weights import load, weights_file

    run, place = read_run(path), RunFolder(path)
    task, finished = run.task, place.model.exists()
    if split is not None and split not in task.splits:
        none = SettingError(f"{task.name} has no splits. Leave out --split")
        raise one_of("split", split, task.splits) if task.splits else none
    torch.set_num_threads(run.threads)
    if place.notice:
        say(Console(stderr=True), f"note: {place.notice}")
    source, model = weights_file(path), load(path)
    split = split or (task.reports if finished or task.selects is None else task.selects)
    found = {"split": split or "fresh", **evaluate(model, task, evaluation_batches(run, split))}
    text = f"{found['split']} {task.metric} {number(found['score'])}, loss {number(found['loss'])}"
    say(console, f"{text} (chance level {number(task.chance)}), weights: {source}")
    return found
