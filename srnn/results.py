"""Records as a table: a line for all seeds of one setting, ours to be read beside the guesser's line."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from rich.table import Table

from srnn import records
from srnn.display import number
from srnn.errors import RecordError
from srnn.recipes import from_dict, make_run
from srnn.run import Run

HEADINGS = ("task", "network", "recipe", "score", "seeds", "guesser", "beside", "updates", "minutes")
ABOUT = (
    "Score: accuracy in percent, or mean squared error, on the split that the task reports, with the weights that validated "
    "best; for copy and adding, whose data never repeat, the lowest mean loss of 500 consecutive updates / the last such mean. "
    "Several seeds: their mean (and each). Minutes: of one core while the other was busy too, evaluation included."
)


def read(folder: Path) -> list[dict[str, Any]]:
    """The records of all runs in the files of a folder."""
    found = [record for path in sorted(folder.glob("*.jsonl")) for record in records.read_all(path)]
    if not found:
        raise RecordError(f"there are no records in {folder}; srnn train leaves them there")
    return found


def rows(found: Iterable[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """One row for the runs that differ in nothing but the seed."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for record in found:
        same = {name: value for name, value in record["run"].items() if name != "seed"}
        groups.setdefault(json.dumps(same, sort_keys=True), []).append(record)
    ordered = sorted(groups.values(), key=lambda group: _order(from_dict(group[0]["run"])))
    return [_row(sorted(group, key=lambda record: record["run"]["seed"])) for group in ordered]


def markdown(found: Iterable[Mapping[str, Any]]) -> str:
    lines = [HEADINGS, tuple("---" for _ in HEADINGS), *rows(found)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + f"\n\n{ABOUT}\n"


def table(found: Iterable[Mapping[str, Any]]) -> Table:
    shown = Table(box=None, padding=(0, 2, 0, 0), caption=ABOUT, caption_justify="left")
    for heading in HEADINGS:
        shown.add_column(heading, overflow="fold")
    for row in rows(found):
        shown.add_row(*row)
    return shown


def _order(run: Run) -> tuple[Any, ...]:
    task = [value for value in vars(run.task).values() if isinstance(value, str | int | bool)]
    return run.task.name, run.recipe, [str(value).zfill(6) for value in task], run.network.name, run.network.hidden_size


def _row(group: list[Mapping[str, Any]]) -> tuple[str, ...]:
    first, run = group[0], from_dict(group[0]["run"])
    seeds = ", ".join(str(record["run"]["seed"]) for record in group)
    minutes = sum(record["seconds"] for record in group) / 60 / len(group)
    updates = ", ".join(dict.fromkeys(str(record["updates"]) for record in group))
    return (
        f"{run.task.name} {_settings(run.task)}".strip(),
        f"{run.network.name} {_settings(run.network)}",
        run.recipe + _departures(run),
        _score(group),
        seeds,
        number(first["guesser"]),
        _beside(first),
        updates,
        f"{minutes:.1f}",
    )


def _score(group: list[Mapping[str, Any]]) -> str:
    if any(record["status"] != "finished" for record in group):
        return ", ".join(f"{record['status']} at {record['updates']}" for record in group if record["status"] != "finished")
    if group[0]["result"] is not None:
        values = [record["result"]["value"] for record in group]
        each = f" ({', '.join(number(value) for value in values)})" if len(values) > 1 else ""
        return f"{number(sum(values) / len(values))}{each}"
    both = [f"{number(record['training']['lowest'])} / {number(record['training']['final'])}" for record in group]
    return ", ".join(both)


def _beside(record: Mapping[str, Any]) -> str:
    lines = {**({"ceiling": record["ceiling"]} if record["ceiling"] is not None else {}), **(record["lines"] or {})}
    return ", ".join(f"{name} {number(value)}" for name, value in lines.items())


def _settings(thing: Any) -> str:
    """The settings that are no defaults, and the size in any case."""
    shown = []
    for field in fields(thing):
        value = getattr(thing, field.name)
        if value != field.default or field.name in ("length", "direction", "crop", "samples"):
            shown.append(f"{field.name} {','.join(map(str, value)) if isinstance(value, tuple) else value}")
    return ", ".join(shown)


def _departures(run: Run) -> str:
    """What was set otherwise than the recipe says, the end and the number of threads apart."""
    apart = ("task", "network", "recipe", "seed", "threads", "minutes")
    usual = make_run(run.task.name, run.network.name, run.recipe) if not hasattr(type(run.task), "file_path") else run
    changed = [f.name for f in fields(run) if f.name not in apart and getattr(run, f.name) != getattr(usual, f.name)]
    return "".join(f", {name} {getattr(run, name)}" for name in changed)
