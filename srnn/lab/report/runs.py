"""Records as a table: a line for all seeds of one setting, ours to be read beside the guesser's line."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from srnn.errors import RecordError
from srnn.lab.networks import NETWORKS
from srnn.lab.records import store
from srnn.lab.tasks import TASKS
from srnn.lab.training.progress import number, plain
from srnn.lab.training.recipes import make_run
from srnn.lab.training.run import Run

HEADINGS = ("task", "network", "recipe", "score", "seeds", "guesser", "beside", "updates", "CPU minutes")
NARROW, WIDE = ("task", "network", "recipe", "score", "updates"), 120
DEFAULTS = json.loads(json.dumps({field.name: field.default for field in fields(Run) if field.default is not MISSING}))
KNOWN: dict[str, Mapping[str, type]] = {"task": TASKS, "network": NETWORKS}
ABOUT = (
    "Score: of the split that the task reports, accuracy in percent or mean squared error, with the weights that validated "
    "best where there are validation data (several seeds: the mean, and each); for copy and adding, whose data never repeat, "
    "the lowest mean loss of 500 consecutive updates / the last such mean (adding ends where it is below 0.002). CPU minutes: "
    "of all threads, evaluation included, mean over seeds."
)


def read(folder: Path) -> list[dict[str, Any]]:
    """The records of all runs in the files of a folder; a line that holds none is named on standard error."""
    found, faults = store.read_folder(folder)
    for fault in faults:
        Console(stderr=True).print(fault, markup=False, highlight=False, soft_wrap=True)
    runs = [record for record in found if record["kind"] == "run"]
    if not runs:
        raise RecordError(f"there are no records in {folder}; srnn train --results {folder} puts them there")
    return runs


def rows(found: Iterable[Mapping[str, Any]], in_order: bool = False) -> list[tuple[str, ...]]:
    """One row for the runs that differ in nothing but the seed, by task and network, or in the order they come in."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for record in found if in_order else sorted(found, key=lambda record: _order(record["run"])):
        same = {name: value for name, value in (DEFAULTS | record["run"]).items() if name != "seed"}
        groups.setdefault(json.dumps(same, sort_keys=True), []).append(record)
    return [_row(group) for group in groups.values()]


def markdown(found: Sequence[Mapping[str, Any]]) -> str:
    """A table for docs/results.md: SRNN as it is meant. Rivals and what is changed to see what it does are in the report."""
    lines = [HEADINGS, tuple("---" for _ in HEADINGS), *rows(filter(_is_headline, found))]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + f"\n\n{ABOUT}{_beside_gru(list(found))}\n"


def _is_headline(record: Mapping[str, Any]) -> bool:
    run = record["run"]
    if run["network"]["name"] != "srnn" or "path" in run["task"]:
        return False
    usual = make_run(run["task"]["name"], "srnn", run["recipe"]).as_dict()
    changed = [name for name in ("gate", "permutation", "activation", "mlp") if run["network"][name] != usual["network"][name]]
    return not changed and run.get("embed", True) and not run["task"].get("standardise") and run["epochs"] == usual["epochs"]


def _beside_gru(found: list[Mapping[str, Any]]) -> str:
    """How long SRNN needs for all of its epochs on permuted MNIST, beside two of nn.GRU with 128 units; "" without records."""

    def minutes(network: str, epochs: int) -> list[float]:
        runs = [each for each in found if (each["run"]["task"]["name"], each["run"]["network"]["name"]) == ("pmnist", network)]
        whole = [each for each in runs if each["run"]["recipe"] == "paper" and each["epochs"] == epochs]
        size = {"srnn": 1024, "gru": 128}[network]
        return [each["cpu_seconds"] / 60 for each in whole if each["run"]["network"]["hidden_size"] == size]

    ours, theirs = minutes("srnn", 60), minutes("gru", 2)
    if not ours or not theirs:
        return ""
    a, b = (sum(each) / len(each) for each in (ours, theirs))
    said = f"60 epochs of SRNN with 1024 units took {a:.1f} CPU minutes, 2 epochs of nn.GRU with 128 units {b:.1f}"
    return f" On pmnist, {said}."


def table(found: Iterable[Mapping[str, Any]], width: int, in_order: bool = False) -> Table:
    """For a terminal of this width: a narrow one gets fewer columns."""
    shown = Table(box=None, padding=(0, 2, 0, 0), caption=ABOUT, caption_justify="left")
    headings = HEADINGS if width >= WIDE else NARROW
    for heading in headings:
        shown.add_column(heading, overflow="fold")
    for row in rows(found, in_order):
        shown.add_row(*(text for heading, text in zip(HEADINGS, row, strict=True) if heading in headings))
    return shown


def _order(run: Mapping[str, Any]) -> tuple[Any, ...]:
    task, network = ([str(value).zfill(6) for value in run[part].values()] for part in ("task", "network"))
    return run["task"]["name"], run["recipe"], task, network, run["seed"]


def _row(group: list[Mapping[str, Any]]) -> tuple[str, ...]:
    first, run = group[0], group[0]["run"]
    minutes = sum(record["cpu_seconds"] for record in group) / 60 / len(group)
    return (
        *brief(run),
        recipe(run),
        _score(group),
        ", ".join(str(record["run"]["seed"]) for record in group),
        number(first["guesser"]),
        ", ".join(f"{name} {value}" for name, value in _beside(first).items()),
        ", ".join(dict.fromkeys(str(record["updates"]) for record in group)),
        f"{minutes:.1f}",
    )


def brief(run: Mapping[str, Any]) -> tuple[str, str]:
    """Task and network of a run, each with the settings that are worth a word."""
    task, network = (f"{run[part]['name']} {_settings(run[part], known)}" for part, known in KNOWN.items())
    return task.strip(), network.strip()


def recipe(run: Mapping[str, Any]) -> str:
    """The recipe of a run, and where it does otherwise."""
    return f"ours: {run['recipe']}, but {apart}" if (apart := _departures(run)) else run["recipe"]


def _score(group: list[Mapping[str, Any]]) -> str:
    values = [record["result"]["value"] for record in group if record["status"] == "finished" and record["result"]]
    if len(values) == len(group):
        each = f" ({', '.join(number(value) for value in values)})" if len(values) > 1 else ""
        return f"{number(sum(values) / len(values))}{each}"
    return ", ".join(_one_score(record) for record in group)


def _one_score(record: Mapping[str, Any]) -> str:
    if record["status"] != "finished":
        return f"{record['status']} after {record['updates']}"
    if record["result"]:
        return number(record["result"]["value"])
    return f"{number(record['training']['lowest'])} / {number(record['training']['final'])}"


def _beside(record: Mapping[str, Any]) -> dict[str, str]:
    """Scores to compare with, and where the training samples themselves are scored, how long 90 % took."""
    shown = {name: number(value) for name, value in (record["lines"] or {}).items()}
    if record["ceiling"] is not None:
        shown["ceiling"] = number(record["ceiling"])
    if record["result"] and record["result"]["split"] == "train" and record["epochs"]:
        scores, steps = record["curve"]["evaluation_score"], record["curve"]["step"]
        reached = next((step for score, step in zip(scores, steps, strict=True) if score is not None and score >= 90), None)
        shown["epochs to 90 %"] = "not reached" if reached is None else f"{reached * record['epochs'] / record['updates']:.0f}"
    return shown


def _settings(thing: Mapping[str, Any], known: Mapping[str, type]) -> str:
    """The settings of a task or network that are no defaults, and its sizes in any case; all of a user's own."""
    kind = None if "path" in thing else known.get(thing["name"])
    defaults = {field.name: field.default for field in fields(kind)} if kind is not None else {}
    sizes = ("length", "direction", "crop", "samples", "hidden_size")
    apart = ("name", "path", "sha256")
    said = {
        name: value for name, value in thing.items() if name not in apart and (name in sizes or defaults.get(name) != value)
    }
    return ", ".join(f"{name} {plain(value)}" for name, value in said.items())


def _departures(run: Mapping[str, Any]) -> str:
    """What was set otherwise than the recipe says; nothing is known of a recipe for a user's own task or network."""
    if "path" in run["task"] or "path" in run["network"]:
        return ""
    usual = make_run(run["task"]["name"], run["network"]["name"], run["recipe"]).as_dict()
    apart = ("task", "network", "recipe", "seed", "threads")
    return ", ".join(f"{name} {value}" for name, value in run.items() if name not in apart and value != usual.get(name))
