"""`srnn eval`: the score of a run's weights."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from srnn.errors import RecordError, SettingError, one_of
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

    from srnn.lab.records.folder import RunFolder, load_tensors
    from srnn.lab.training.checkpoint import Checkpoint
    from srnn.lab.training.loop import evaluate, evaluation_batches, load_model, read_run
    from srnn.lab.training.progress import number

    run, place = read_run(path), RunFolder(path)
    task, finished = run.task, place.model.exists()
    if split is not None and split not in task.splits:
        none = SettingError(f"{task.name} has no splits; leave out --split")
        raise one_of("split", split, task.splits) if task.splits else none
    torch.set_num_threads(run.threads)
    source = place.model if finished else place.checkpoint
    if not source.exists() and place.record.exists():
        raise RecordError(f"{path} has no weights: the run diverged before its first checkpoint")
    tensors = load_tensors(source)[0] if finished else Checkpoint.read(source).model
    model = load_model(run, tensors, source)
    split = split or (task.reports if finished or task.selects is None else task.selects)
    found = {"split": split or "fresh", **evaluate(model, task, evaluation_batches(run, split))}
    text = f"{found['split']} {task.metric} {number(found['score'])}, loss {number(found['loss'])}"
    say(console, f"{text} (chance level {number(task.chance)}); weights: {source}")
    return found
