"""Records as a table: one line for all seeds of a setting, with the chance level and other scores to compare with."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from rich.console import Console

from srnn.errors import MissingError
from srnn.lab.networks import NETWORKS
from srnn.lab.records import record as records
from srnn.lab.records.record import Record, Stored
from srnn.lab.tasks import FITTED, TASKS
from srnn.lab.terminal import print_table
from srnn.lab.training.progress import UNSHOWN, number, plain
from srnn.lab.training.recipes import make_run, shown_recipe
from srnn.lab.training.run import Run

HEADINGS = ("task", "network", "recipe", "score", "seeds", "chance", "compare with", "updates", "CPU minutes")
NARROW, WIDE = ("task", "network", "recipe", "score", "updates"), 120
DEFAULTS = json.loads(json.dumps({field.name: field.default for field in fields(Run) if field.default is not MISSING}))
KNOWN: dict[str, Mapping[str, type]] = {"task": TASKS, "network": NETWORKS}
ABOUT = (
    "Score: accuracy in percent or mean squared error on the split that the task reports, with the weights that were best on "
    "the validation data, if there are any. Several seeds: the mean, then each. The data of copy and adding never repeat: "
    "their score is the lowest mean loss of 500 consecutive updates / the last such mean (adding ends when it is below 0.002). "
    "Chance: the score without memory. CPU minutes: of all threads, with evaluations, mean over seeds."
)


def read(folder: Path) -> list[Record]:
    """Return the records of all runs in a folder. Lines that cannot be used are reported on standard error."""

    def use(record: Stored) -> None:
        if isinstance(record, Record):
            rows([record])

    if not (runs := records.read(folder, Console(stderr=True), use).of(Record)):
        raise MissingError(f"there are no records in {folder}. Write some with: srnn train TASK --results {folder}")
    return runs


def rows(found: Iterable[Record], in_order: bool = False) -> list[tuple[str, ...]]:
    """Return a row for all runs that differ only in the seed, sorted by task and network, or in the order given."""
    groups: dict[str, list[Record]] = {}
    for record in found if in_order else sorted(found, key=lambda record: _order(record.run)):
        same = {name: value for name, value in (DEFAULTS | dict(record.run)).items() if name != "seed"}
        groups.setdefault(json.dumps(same, sort_keys=True), []).append(record)
    return [_row(group) for group in groups.values()]


def markdown(found: Sequence[Record]) -> str:
    """Return the table for docs/results.md: SRNN with its usual settings. Baselines and ablations are in the report."""
    lines = [HEADINGS, tuple("---" for _ in HEADINGS), *rows(filter(_is_headline, found))]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + f"\n\n{ABOUT}{_time_of_gru(found)}\n"


def _is_headline(record: Record) -> bool:
    run = record.run
    if run["network"]["name"] != "srnn" or "path" in run["task"] or run["task"]["name"] in FITTED:
        return False
    usual = make_run(run["task"]["name"], "srnn", run["recipe"]).as_dict()
    changed = [name for name in ("gate", "permutation", "activation", "mlp") if run["network"][name] != usual["network"][name]]
    return not changed and run.get("embed", True) and not run["task"].get("standardise") and run["epochs"] == usual["epochs"]


def _time_of_gru(found: Sequence[Record]) -> str:
    """Return the time of SRNN for all epochs on permuted MNIST, and of nn.GRU for two; an empty text without records."""

    def minutes(network: str, epochs: int) -> list[float]:
        runs = [each for each in found if (each.run["task"]["name"], each.network) == ("pmnist", network)]
        whole = [each for each in runs if each.run["recipe"] == "paper" and each.epochs == epochs]
        size = {"srnn": 1024, "gru": 128}[network]
        return [each.cpu_seconds / 60 for each in whole if each.run["network"]["hidden_size"] == size]

    ours, theirs = minutes("srnn", 60), minutes("gru", 2)
    if not ours or not theirs:
        return ""
    a, b = (sum(each) / len(each) for each in (ours, theirs))
    said = f"60 epochs of SRNN with 1024 units took {a:.1f} CPU minutes, 2 epochs of nn.GRU with 128 units {b:.1f}"
    return f" On pmnist, {said}."


def show(found: Iterable[Record], console: Console, in_order: bool = False) -> None:
    """Print the table. A narrow terminal gets fewer columns."""
    headings = HEADINGS if console.width >= WIDE else NARROW
    shown = [[row[HEADINGS.index(heading)] for heading in headings] for row in rows(found, in_order)]
    print_table(console, headings, shown, note=ABOUT)


def _order(run: Mapping[str, Any]) -> tuple[Any, ...]:
    task, network = ([str(value).zfill(6) for value in run[part].values()] for part in ("task", "network"))
    return run["task"]["name"], run["recipe"], task, network, run["seed"]


def _row(group: list[Record]) -> tuple[str, ...]:
    first, run = group[0], group[0].run
    minutes = sum(record.cpu_seconds for record in group) / 60 / len(group)
    return (
        *brief(run),
        recipe(run),
        _score(group),
        ", ".join(str(record.seed) for record in group),
        number(first.chance),
        ", ".join(f"{name} {value}" for name, value in _comparisons(first).items()),
        ", ".join(dict.fromkeys(str(record.updates) for record in group)),
        f"{minutes:.1f}",
    )


def brief(run: Mapping[str, Any]) -> tuple[str, str]:
    """Return task and network of a run, each with its sizes and the settings that are not defaults."""
    task, network = (f"{run[part]['name']} {_settings(run[part], known)}" for part, known in KNOWN.items())
    return task.strip(), network.strip()


def recipe(run: Mapping[str, Any]) -> str:
    """Return the recipe of a run, and the settings that differ from it."""
    name = shown_recipe(run["recipe"])
    return f"{name}, but {apart}" if (apart := _departures(run)) else name


def _score(group: list[Record]) -> str:
    values = [record.result.value for record in group if not record.diverged and record.result]
    if len(values) == len(group):
        each = f" ({', '.join(number(value) for value in values)})" if len(values) > 1 else ""
        return f"{number(sum(values) / len(values))}{each}"
    return ", ".join(_one_score(record) for record in group)


def _one_score(record: Record) -> str:
    if record.diverged or record.training is None:
        return f"{record.status} after {record.updates}"
    if record.result:
        return number(record.result.value)
    return f"{number(record.training.lowest)} / {number(record.training.final)}"


def _comparisons(record: Record) -> dict[str, str]:
    """Return scores to compare with, and the epochs to 90 % if the training samples themselves are scored."""
    shown = {name: number(value) for name, value in (record.lines or {}).items()}
    if record.ceiling is not None:
        shown["ceiling"] = number(record.ceiling)
    if record.reports == "train" and record.epochs:
        reached = record.reached(90.0)
        shown["epochs to 90 %"] = "not reached" if reached is None else f"{reached[0] * record.epochs / record.updates:.0f}"
    return shown


def _settings(thing: Mapping[str, Any], known: Mapping[str, type]) -> str:
    """Return the settings of a task or network that are not defaults, and its sizes; all settings of a user's own."""
    kind = None if "path" in thing else known.get(thing["name"])
    defaults = {field.name: field.default for field in fields(kind)} if kind is not None else {}
    sizes = ("length", "direction", "crop", "samples", "hidden_size")
    said = [name for name, value in thing.items() if name in sizes or defaults.get(name) != value]
    return ", ".join(f"{name} {plain(thing[name])}" for name in said if name not in UNSHOWN)


def _departures(run: Mapping[str, Any]) -> str:
    """Return the settings that differ from the recipe; nothing for a user's own task, network or table, without a recipe."""
    if "path" in run["task"] or "path" in run["network"] or run["task"]["name"] in FITTED:
        return ""
    usual = make_run(run["task"]["name"], run["network"]["name"], run["recipe"]).as_dict()
    apart = ("task", "network", "recipe", "seed", "threads")
    return ", ".join(f"{name} {value}" for name, value in run.items() if name not in apart and value != usual.get(name))
