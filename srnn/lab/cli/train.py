"""The commands train, eval and runs: from a user's words to a run, and from a run to words."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from rich.text import Text

from srnn.errors import DivergedError, RecordError, SettingError, one_of
from srnn.lab import data as sets
from srnn.lab.records import record as records
from srnn.lab.records import store
from srnn.lab.records.folder import RUNS, RunFolder, load_tensors
from srnn.lab.records.record import Record
from srnn.lab.report import runs as results
from srnn.lab.tasks.task import Batch
from srnn.lab.training import distributed, progress, recipes
from srnn.lab.training.checkpoint import Checkpoint
from srnn.lab.training.distributed import TorchTeam
from srnn.lab.training.loop import EVALUATION_SEQUENCES, evaluate, follow, make_model, read_run, train
from srnn.lab.training.progress import number
from srnn.lab.training.run import LIMITS, Run


def look_in(data: Path | None) -> None:
    """Search this folder for data sets before all others, here and in worker processes."""
    if data is not None and not data.is_dir():
        raise SettingError(f"--data {data}: there is no such folder")
    sets.look_in(*([] if data is None else [data]))


def choose_run(task: str | None, model: str, recipe: str, given: Mapping[str, Any], resume: Path | None) -> Run:
    """The run that is asked for: a new one by its settings, or one that stands in a folder, perhaps with another end."""
    if resume is None:
        assert task is not None
        return recipes.make_run(task, model, recipe, **{"threads": distributed.default_threads(), **given})
    if task is not None or given.keys() - set(LIMITS):
        wrong = ", ".join(f"--{name.replace('_', '-')}" for name in given.keys() - set(LIMITS)) or "a task"
        allowed = ", ".join(f"--{name.replace('_', '-')}" for name in LIMITS)
        raise SettingError(
            f"a run goes on with the settings it began with; besides {allowed}, --resume takes none; got {wrong}"
        )
    return read_run(resume).with_limits(**given)


def train_run(
    run: Run,
    path: Path,
    console: Console,
    *,
    into: Path = RUNS / "records",
    checkpoint_every: float = 30.0,
    tensorboard: bool = False,
    quiet: bool = False,
) -> Record | None:
    """Train, show progress, and add the record to those of its task. With torchrun only the first process does all that."""
    with distributed.joined(run.device) as team:
        if isinstance(team, TorchTeam) and not team.is_first:
            follow(run, path, team)
            return None
        collected = into / f"{run.task.name}.jsonl"
        shown = progress.watchers(console, quiet=quiet, tensorboard=path / "tensorboard" if tensorboard else None)
        shown = [progress.Heading(console), *shown]
        record = train(run, path, checkpoint_every=checkpoint_every, watchers=shown, team=team, into=collected)
        store.collect(collected, record.to_json())
        if record.diverged:
            raise DivergedError(f"{summary(record, path)}; record: {collected}")
        _say(console, summary(record, path))
        _say(console, f"record: {collected}")
        return record


def summary(record: Record, path: Path) -> str:
    """Return how a run ended, in one line."""
    ended = f"{record.updates} updates in {record.seconds:.0f} s (ended by {record.ended_by})"
    if record.diverged:
        kept = "the last checkpoint before it is kept" if RunFolder(path).checkpoint.exists() else "there was no checkpoint yet"
        return f"diverged after update {record.updates}: {record.ended_by}; {kept}"
    chance = f"chance {number(record.chance)}"
    if (result := record.result) is not None:
        ceiling = "" if record.ceiling is None else f", ceiling {number(record.ceiling)}"
        lines = "".join(f", {name} {number(value)}" for name, value in (record.lines or {}).items())
        score = f"{result.split} {result.metric} {number(result.value)} with the weights of update {result.at}"
        return f"{score} ({chance}{ceiling}{lines}); {ended}"
    means = record.training
    assert means is not None  # a finished run has made an update
    shown = f"mean loss of {means.window} updates: lowest {number(means.lowest)}, final {number(means.final)}"
    return f"{shown} ({chance}); {ended}"


def evaluate_run(path: Path, split: str | None, console: Console) -> dict[str, Any]:
    """Scores the weights that a finished run left, or those of its last checkpoint; until the end not on the test data."""
    run, place = read_run(path), RunFolder(path)
    task, finished = run.task, place.model.exists()
    if split is not None and split not in task.splits:
        raise (
            one_of("split", split, task.splits)
            if task.splits
            else SettingError(f"{task.name} has no splits; leave out --split")
        )
    torch.set_num_threads(run.threads)
    source = place.model if finished else place.checkpoint
    if not source.exists() and place.record.exists():
        raise RecordError(f"{path} left no weights: the run diverged before its first checkpoint")
    tensors = load_tensors(source)[0] if finished else Checkpoint.read(source).model
    model = make_model(run)
    try:
        model.load_state_dict({name: tensors[name] for name in model.state_dict()})
    except (KeyError, RuntimeError) as error:
        raise RecordError(f"{source} does not fit the run's network: {' '.join(str(error).split())}") from None
    split = split or (task.reports if finished or task.selects is None else task.selects)
    if split is None:  # data that never repeat: a hundred batches of a seed that training has not used
        batches: Iterator[Batch] = (task.batch(k, run.batch_size, run.seed + 1_000_003) for k in range(100))
    else:
        batches = task.batches(split, EVALUATION_SEQUENCES)
    found = {"split": split or "fresh", **evaluate(model, task, batches)}
    text = f"{found['split']} {task.metric} {number(found['score'])}, loss {number(found['loss'])}"
    _say(console, f"{text} (guesser {number(task.guesser)}); weights: {source}")
    return found


def list_runs(folder: Path, console: Console, readme: Path | None = None) -> list[dict[str, Any]]:
    """A table of the runs below a folder, what, how far, and how well; or of the records in it."""
    if not folder.is_dir():
        raise RecordError(f"there is no folder {folder}; begin a run with: srnn train copy")
    if (folder / "run.json").exists():
        raise RecordError(f"{folder} is itself a run folder; give the folder that holds it")
    if readme is not None or any(folder.glob("*.jsonl")):
        collected = results.read(folder)
        console.print(results.table(collected, console.width))
        if readme is not None:
            store.replace(readme, store.filled(readme, "results", results.markdown(collected)))
        return [each.to_json() for each in collected]
    found = [_examine(path.parent) for path in sorted(folder.glob("*/run.json"))]
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("folder", "settings", "seed", "state", "updates", "score", "guesser"):
        table.add_column(heading, overflow="fold")
    for row in found:
        table.add_row(*(Text(str(row[str(column.header)])) for column in table.columns))
    console.print(table if found else f"no runs in {folder}; begin one with: srnn train copy", highlight=False)
    return found


def _examine(path: Path) -> dict[str, Any]:
    """How a run stands, from its files alone: nothing of a user's own task or network is run for it."""
    place = RunFolder(path)
    row: dict[str, Any] = {"folder": path.name, "settings": "", "seed": "", "updates": "", "score": "", "guesser": ""}
    try:
        run = store.read(place.run)["run"]
        row |= {"settings": ", ".join(results.brief(run)), "seed": run["seed"]}
        if not place.record.exists():
            step = Checkpoint.read(place.checkpoint).position.step if place.checkpoint.exists() else 0
            return row | {"state": "can go on", "updates": step}
        record = records.load(place.record)
        shown = {"score": "" if record.score is None else number(record.score), "guesser": number(record.chance)}
        return row | {"state": record.status, "updates": record.updates, **shown}
    except RecordError as error:
        return row | {"state": f"unreadable: {error}"}
    except (KeyError, TypeError, AttributeError) as error:
        return row | {"state": f"unreadable: {place.path} is damaged ({error!r})"}


def _say(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)
