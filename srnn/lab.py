"""The commands train, eval and runs: from a user's words to a run, and from a run to words."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from srnn import display, recipes, records, results
from srnn.display import number
from srnn.errors import RecordError, SettingError
from srnn.folder import RunFolder, load_tensors
from srnn.run import LIMITS, Run
from srnn.train import evaluate, make_model, train

RUNS = Path("runs")


def look_in(data: Path | None) -> None:
    """Data sets are looked for in this folder before all others, here and in processes begun from here."""
    if data is not None:
        if not data.is_dir():
            raise SettingError(f"--data {data}: there is no such folder")
        os.environ["SRNN_DATA"] = os.pathsep.join([str(data), *filter(None, [os.environ.get("SRNN_DATA")])])


def choose_run(task: str | None, model: str, recipe: str, given: Mapping[str, Any], resume: Path | None) -> Run:
    """The run that is asked for: a new one by its settings, or one that stands in a folder, perhaps with another end."""
    if resume is None:
        if task is None:
            raise SettingError(f"name a task ({', '.join(sorted(recipes.TASKS))}, or a file.py), or a run with --resume")
        return recipes.make_run(task, model, recipe, **{"threads": torch.get_num_threads(), **given})
    if task is not None or given.keys() - set(LIMITS):
        wrong = ", ".join(f"--{name.replace('_', '-')}" for name in given.keys() - set(LIMITS)) or "a task"
        allowed = ", ".join(f"--{name}" for name in LIMITS)
        raise SettingError(
            f"a run goes on with the settings it began with; besides {allowed}, --resume takes none; got {wrong}"
        )
    return read_run(resume).with_limits(**given)


def read_run(path: Path) -> Run:
    """The run whose folder this is."""
    if not RunFolder(path).run.exists():
        raise RecordError(f"{path} is not a run folder: it has no run.json; `srnn runs` lists those there are")
    return recipes.from_dict(records.read(RunFolder(path).run).get("run", {}))


def train_run(
    run: Run,
    path: Path,
    console: Console,
    *,
    into: Path = Path("results"),
    checkpoint_every: float = 30.0,
    tensorboard: bool = False,
    quiet: bool = False,
) -> dict[str, Any]:
    """Trains, shows it, and puts the record with the others of its task."""
    console.print(display.describe(run), highlight=False, soft_wrap=True)
    console.print(f"run folder: {path}", highlight=False, soft_wrap=True)
    shown = display.watchers(console, quiet=quiet, tensorboard=path / "tensorboard" if tensorboard else None)
    record = train(run, path, checkpoint_every=checkpoint_every, watchers=shown)
    collected = into / f"{run.task.name}.jsonl"
    records.collect(collected, record)
    console.print(summary(record), highlight=False, soft_wrap=True)
    console.print(f"record: {collected}", highlight=False, soft_wrap=True)
    return record


def summary(record: Mapping[str, Any]) -> str:
    """How a run ended, in words."""
    steps, ended = (
        record["updates"],
        f"{record['updates']} updates in {record['seconds']:.0f} s (ended by {record['ended_by']})",
    )
    if record["status"] == "diverged":
        return f"diverged at update {steps}: {record['ended_by']}; the checkpoint before it is kept"
    guesser, training = f"guesser {number(record['guesser'])}", record["training"]
    if (result := record["result"]) is not None:
        ceiling = "" if record["ceiling"] is None else f", ceiling {number(record['ceiling'])}"
        lines = "".join(f", {name} {number(value)}" for name, value in (record["lines"] or {}).items())
        score = f"{result['split']} {result['metric']} {number(result['value'])} with the weights of update {result['at']}"
        return f"{score} ({guesser}{ceiling}{lines}); {ended}"
    means = f"mean loss of {training['window']} updates: lowest {number(training['lowest'])}, final {number(training['final'])}"
    return f"{means} ({guesser}); {ended}"


def evaluate_run(path: Path, split: str | None, console: Console) -> dict[str, Any]:
    """Scores the weights that a finished run left, or those of its last checkpoint."""
    run, place = read_run(path), RunFolder(path)
    torch.set_num_threads(run.threads)
    model, source = make_model(run), place.model
    if place.model.exists():
        tensors, _ = load_tensors(place.model)
    else:
        tensors, source = load_tensors(place.checkpoint)[0], place.checkpoint
        tensors = {name.removeprefix("model."): value for name, value in tensors.items() if name.startswith("model.")}
    try:
        model.load_state_dict(tensors)
    except RuntimeError as error:
        raise RecordError(f"{source} does not fit the run's network: {str(error).splitlines()[0]}") from None
    wanted = split or run.task.reports
    if wanted is None:
        found = _evaluate_stream(model, run)
    else:
        found = evaluate(model, run.task, wanted, torch.device("cpu"))
    text = f"{found['split']} {run.task.metric} {number(found['score'])}, loss {number(found['loss'])}"
    console.print(f"{text} (guesser {number(run.task.guesser)}); weights: {source}", highlight=False, soft_wrap=True)
    return found


def _evaluate_stream(model: Any, run: Run) -> dict[str, Any]:
    """Data that never repeat: a hundred batches of a seed that training does not use."""
    model.eval()
    with torch.no_grad():
        batches = [run.task.batch(k, run.batch_size, run.seed + 1_000_003) for k in range(100)]
        scores = [(run.task.loss(out, b).item(), run.task.score(out, b).item()) for b in batches for out in [model(b)]]
    loss, score = (sum(column) / len(column) for column in zip(*scores, strict=True))
    return {"split": "fresh", "loss": loss, "score": score}


def list_runs(folder: Path, console: Console, readme: Path | None = None) -> list[dict[str, Any]]:
    """A table of the runs below a folder, what, how far, and how well; or of the records in it."""
    if readme is not None or any(folder.glob("*.jsonl")):
        collected = results.read(folder)
        console.print(results.table(collected))
        if readme is not None:
            records.replace(readme, records.filled(readme, "results", results.markdown(collected)))
        return collected
    found = [_examine(path.parent) for path in sorted(folder.glob("*/run.json"))]
    if not found:
        console.print(f"no runs in {folder}; begin one with: srnn train copy", highlight=False, soft_wrap=True)
        return found
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("run", "settings", "seed", "state", "updates", "score", "guesser"):
        table.add_column(heading, overflow="fold")
    for row in found:
        table.add_row(*(str(row[key]) for key in ("folder", "settings", "seed", "state", "updates", "score", "guesser")))
    console.print(table)
    return found


def _examine(path: Path) -> dict[str, Any]:
    place = RunFolder(path)
    row: dict[str, Any] = {"folder": path.name, "settings": "", "seed": "", "updates": "", "score": "", "guesser": ""}
    try:
        run = read_run(path)
        row |= {"settings": display.describe(run).rsplit(", seed", 1)[0], "seed": run.seed}
        if not place.record.exists():
            step = load_tensors(place.checkpoint)[1]["position"]["step"] if place.checkpoint.exists() else 0
            return row | {"state": "can go on", "updates": step}
        record = records.read(place.record)
        score = record["result"]["value"] if record["result"] else (record["training"] or {}).get("lowest")
        shown = {"score": "" if score is None else number(score), "guesser": number(record["guesser"])}
        return row | {"state": record["status"], "updates": record["updates"], **shown}
    except (RecordError, SettingError) as error:
        return row | {"state": f"unreadable: {error}"}
