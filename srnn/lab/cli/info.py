"""`srnn info`: what a network is, what can be set, and how many parameters it has, stored and free."""

import sys
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from rich.console import Console
from rich.table import Table

from srnn.errors import SettingError
from srnn.lab.networks import NETWORKS
from srnn.lab.training import loop, recipes
from srnn.lab.training.run import Run

HEADINGS = ("network", "", "parameters", "free", "layer alone", "counted by the authors")
ABOUT = (
    "Parameters: all numbers that are stored and trained, embedding and read-out included. Free: degrees of freedom, fewer "
    "where numbers are bound by a constraint. Counted by the authors: what the code of the SRNN paper's authors prints on "
    "adding with 128 units (those of its Table 4 among them); it has a scalar in SRNN that nothing uses, and an unused map in "
    "uRNN."
)


def counts(run: Run) -> list[dict[str, Any]]:
    """For each variant of a run's network: stored and free parameters of the whole model, stored ones of the layer."""
    task, network, found = run.task, run.network, []
    for label, variant in network.variants().items():
        model = loop.make_model(replace(run, network=variant))
        stored, layer = model.count_parameters(), sum(parameter.numel() for parameter in model.rnn.parameters())
        is_theirs = task.name == "adding" and variant.hidden_size == 128
        found.append(
            {
                "network": network.name,
                "variant": label,
                "parameters": stored,
                "free": stored - layer + variant.free_parameters(model.rnn),
                "layer": layer,
                "authors": variant.authors_counts.get(label) if is_theirs else None,
            }
        )
    return found


def examine(name: str | None, task: str, hidden_size: int) -> dict[str, Any]:
    """Of one network, or of all of them: counts; of one also its settings and what its file says."""
    found: dict[str, Any] = {"task": task, "counts": [], "left_out": {}}
    for each in sorted(NETWORKS) if name is None else [name]:
        try:
            run = recipes.make_run(task, each, hidden_size=hidden_size)
        except SettingError as error:
            if name is not None or not str(error).startswith(f"{each}:"):
                raise
            found["left_out"][each] = str(error)
            continue
        found["counts"] += counts(run)
    if name is not None:
        kind, network = type(run.network), run.network
        found["about"] = (sys.modules[kind.__module__].__doc__ or "").strip()
        found["meaning"] = (kind.__doc__ or "").strip()
        found["settings"] = {field.name: getattr(network, field.name) for field in fields(kind)}
        found["recipes"] = {recipe: {key: dict(value) for key, value in said.items()} for recipe, said in kind.recipes.items()}
    return found


def show(found: Mapping[str, Any], console: Console) -> None:
    if "about" in found:
        console.print(found["about"], markup=False, highlight=False, soft_wrap=True)
        console.print(
            "\nsettings of srnn train (--set NAME=VALUE where there is no option), and their defaults:", highlight=False
        )
        for name, value in found["settings"].items():
            console.print(f"  {name} = {value!r}", markup=False, highlight=False)
        console.print(f"\n{found['meaning']}", markup=False, highlight=False, soft_wrap=True)
        for recipe, by_task in found["recipes"].items():
            for task, settings in by_task.items():
                said = ", ".join(f"{name} {value}" for name, value in settings.items() if value is not None)
                console.print(f"recipe {recipe}, {task or 'every task'}: {said}", markup=False, highlight=False, soft_wrap=True)
        console.print()
    table = Table(box=None, padding=(0, 2, 0, 0), title=f"on {found['task']}", title_justify="left", caption=ABOUT)
    table.caption_justify = "left"
    for number, heading in enumerate(HEADINGS):
        table.add_column(heading, justify="left" if number < 2 else "right")
    for row in found["counts"]:
        numbers = (row["parameters"], row["free"], row["layer"], row["authors"])
        table.add_row(row["network"], row["variant"], *("" if value is None else f"{value:,}" for value in numbers))
    console.print(table, highlight=False)
    for reason in found["left_out"].values():
        console.print(f"left out: {reason}", markup=False, highlight=False, soft_wrap=True)
