"""`srnn sweep`: train every combination of some settings, and show a table with the best first."""

import itertools
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from srnn.errors import SettingError
from srnn.lab.records import record as records
from srnn.lab.records.folder import RUNS
from srnn.lab.records.record import Record
from srnn.lab.report import runs as results
from srnn.lab.scheduling import scheduler
from srnn.lab.scheduling.ray import engine
from srnn.lab.settings import Rule, from_text
from srnn.lab.training.recipes import make_run, setting_rules
from srnn.lab.training.run import Run


def grid(texts: Iterable[str], known: Mapping[str, Rule]) -> list[dict[str, Any]]:
    """Return all combinations of NAME=VALUE,VALUE,... texts. Lists of widths are separated by slashes: mlp=8/32,32.

    Args:
        texts: What was given to --grid.
        known: Rules of the settings there are, for the types of the values.
    """
    axes: dict[str, list[Any]] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        if not equals or not name.isidentifier() or name in ("task", "network", "recipe") or not values:
            raise SettingError(f"--grid takes NAME=VALUE,VALUE,... with the name of a setting, got {text!r}")
        if name in axes:
            raise SettingError(f"--grid {name} is given twice. Put all its values into one")
        rule = known.get(name)
        axes[name] = [from_text(value, rule) for value in values.split("/" if rule and rule.is_tuple else ",")]
    if not axes:
        raise SettingError("give at least one --grid NAME=VALUE,VALUE,...")
    return [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]


def runs_of(task: str, model: str, recipe: str, given: Mapping[str, Any], grids: Iterable[str]) -> dict[str, Run]:
    """Return the runs by id. An error in any of them shows before one is started."""
    combinations = grid(grids, setting_rules(task, model))
    both = sorted(given.keys() & combinations[0].keys())
    if both:
        raise SettingError(f"{', '.join(both)}: given by --set and by --grid. One of them is enough")
    runs = [make_run(task, model, recipe, **{"threads": 1, **given, **each}) for each in combinations]
    return {run.id: run for run in runs}


def sweep(
    runs: Mapping[str, Run], console: Console, *, jobs: int = 2, ray: str | None = None, into: Path = RUNS / "records"
) -> list[str]:
    """Train the runs that are not recorded, then print a table of all. Return a line about each run that failed."""
    done = records.read(into, console).done
    left = {key: run for key, run in runs.items() if key not in done}
    console.print(f"{len(runs)} runs, {len(runs) - len(left)} of them recorded in {into}", highlight=False, soft_wrap=True)
    failed = scheduler.Scheduler(left, dict.fromkeys(left, 1.0), RUNS, into, console, engine(jobs, ray)).work() if left else []
    found = [record for record in records.read(into).of(Record) if record.id in runs]
    if found:
        results.show(sorted(found, key=_order), console, in_order=True)
        if any(record.selection for record in found):
            console.print("Sorted by validation score. The scores shown are those of the split that the task reports.")
    return failed


def _order(record: Record) -> float:
    """Return a number that is low for good runs, by validation score if there is one: nothing is chosen on test data."""
    score = record.selection.score if record.selection else record.score
    if record.diverged or score is None:
        return float("inf")
    return -score if record.higher_is_better else score
