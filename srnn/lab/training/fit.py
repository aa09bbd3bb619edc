"""From a table to a run: `srnn fit` and programs that train on their own data start here.

table = Table.of({"id": ids, "x": x, "label": labels})      # or tables.read(path)
fit = make_fit(table, Question(target="label", id="id"))
record = train(fit.run, Path("runs/mine"))
load("runs/mine").predict({"id": ids, "x": x})
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from srnn.errors import DataError, RecordError
from srnn.lab.data.fitting import Question, prepare
from srnn.lab.data.preparation import Preparation
from srnn.lab.data.table import Table
from srnn.lab.tasks.fitted import Fitted, of_table
from srnn.lab.training import recipes, start
from srnn.lab.training.run import Run

BATCHES = 8  # in an epoch at least, if there are enough sequences
EVALUATE_EVERY = 25  # updates at least


@dataclass(frozen=True)
class Fit:
    """A run on a table, and lines for the user about the choices that were made."""

    run: Run
    notes: list[str]


def make_fit(table: Table, asked: Question, network: str = "srnn", *, file: str = "", **given: Any) -> Fit:
    """Return the run that learns to answer a question about a table.

    Args:
        table: The data.
        asked: The question.
        network: Name of a network, or path of a Python file that defines one.
        file: Where the table was read from. Without it the run cannot be resumed by another process.
        given: Settings of the run and of the network, by name.

    Raises:
        SettingError: A value is not allowed, or an input gives the target away.
        DataError: The table cannot be used.
        RecordError: `init_from` names a run whose columns or classes are not those of the table.
    """
    prepared, notes = prepare(table, asked)
    if given.get("init_from"):
        given["init_from"] = start.resolved(given["init_from"])
        prepared, more = _continued(prepared, table, given["init_from"])
        notes += more
    return Fit(run_of_task(of_table(table, prepared, file), network, **given), notes)


def run_of_task(task: Fitted, network: str = "srnn", **given: Any) -> Run:
    """Return the run that trains a network on a task whose data are in memory.

    Args:
        task: The task.
        network: Name of a network, or path of a Python file that defines one.
        given: Settings of the run and of the network, by name.

    Raises:
        SettingError: A value is not allowed.
    """
    settings = {"batch_size": _batch_size(task), **given}
    if network == "srnn" and given.get("gate") is False:
        settings.setdefault("gate_init", 0.0)  # the recipe's is for a gate
    if not given.keys() & {"steps", "epochs"} and given.keys() & {"minutes", "cpu_minutes"}:
        settings["steps"] = None  # the clock ends the run, not the recipe
    run = recipes.make_run(task.name, network, **_settings_of(task), **settings)
    if run.eval_every is None:
        every = max(EVALUATE_EVERY, task.updates_per_epoch(run.batch_size))
        run = replace(run, eval_every=min(every, run.steps or every))
    return replace(run, task=task)


def _settings_of(task: Fitted) -> dict[str, Any]:
    return {"file": task.file, "digest": task.digest, "preparation": task.preparation}


def _batch_size(task: Fitted) -> int:
    """Return a batch size that gives several updates per epoch, also with few sequences."""
    count = task.updates_per_epoch(1)
    return max(1, min(32, 2 ** (max(1, count // BATCHES).bit_length() - 1)))


def _continued(prepared: Preparation, table: Table, source: str) -> tuple[Preparation, list[str]]:
    """Return the preparation of the run whose weights are used, so that inputs and classes mean the same; and a line about it.

    The weights of a run on another kind of task have no preparation. The table's own one is used then.
    """
    from srnn.lab.training.loop import read_run

    folder = Path(source.rpartition("@")[0])
    if not folder.is_dir() or not isinstance(task := read_run(folder).task, Fitted):
        return prepared, []
    known = task.prepared
    if (known.kind, known.target, known.horizon) != (prepared.kind, prepared.target, prepared.horizon):
        theirs, ours = (f"{each.kind} {each.target!r} (horizon {each.horizon})" for each in (known, prepared))
        raise RecordError(f"--init-from {folder} is a run to {theirs}, and this one is to {ours}")
    if missing := [name for name in known.needed(with_target=True) if name not in table.columns]:
        raise DataError(f"{table.source} lacks columns that {folder} was trained with: {', '.join(missing)}")
    if new := sorted(set(prepared.classes or ()) - set(known.classes or ())):
        raise RecordError(
            f"--init-from {folder} does not know the class {new[0]!r}. It was trained with {', '.join(known.classes or ())}"
        )
    same = replace(known, val=prepared.val, test=prepared.test, in_time=prepared.in_time)
    return same, [f"starts from {folder}, with its columns, scales and classes"]
