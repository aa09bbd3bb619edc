"""`srnn info`: what a network is, what can be set, and how many parameters it has, stored and free."""

import sys
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from rich.console import Console
from rich.table import Table

from srnn import models, recipes
from srnn.models import NETWORKS
from srnn.network import Network
from srnn.tasks import Task

HEADINGS = ("network", "", "parameters", "free", "layer alone", "counted by the authors")
ABOUT = (
    "Parameters: all numbers that are stored and trained, embedding and read-out included. Free: degrees of freedom, fewer "
    "where numbers are bound by a constraint. Counted by the authors: what the code of the SRNN paper's authors prints on "
    "adding with 128 units (the last line of Table 4); it has a scalar in SRNN that nothing uses, and an unused map in uRNN."
)


def counts(task: Task, network: Network) -> list[dict[str, Any]]:
    """For each variant of a network: stored and free parameters of the whole model, stored ones of the layer."""
    found = []
    for label, variant in network.variants().items():
        model = models.make(task, variant, 1, readout=(), norm=False, dropout=0.0)
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
    names = sorted(NETWORKS) if name is None else [name]
    runs = [recipes.make_run(task, each, hidden_size=hidden_size) for each in names]
    found: dict[str, Any] = {"task": task, "counts": [row for run in runs for row in counts(run.task, run.network)]}
    if name is not None:
        kind, network = type(runs[0].network), runs[0].network
        found["about"] = (sys.modules[kind.__module__].__doc__ or "").strip()
        found["meaning"] = (kind.__doc__ or "").strip()
        found["settings"] = {field.name: getattr(network, field.name) for field in fields(kind)}
        found["own"] = {key: dict(value) for key, value in kind.recipes.get("own", {}).items()}
    return found


def show(found: Mapping[str, Any], console: Console) -> None:
    if "about" in found:
        console.print(found["about"], markup=False, highlight=False, soft_wrap=True)
        console.print("\nsettings, of the network or by --set NAME=VALUE:", highlight=False)
        for name, value in found["settings"].items():
            console.print(f"  {name} = {value!r}", markup=False, highlight=False)
        console.print(f"\n{found['meaning']}", markup=False, highlight=False, soft_wrap=True)
        for task, settings in found["own"].items():
            said = ", ".join(f"{name} {value}" for name, value in settings.items())
            console.print(f"recipe own, {task or 'every task'}: {said}", markup=False, highlight=False)
        console.print()
    table = Table(box=None, padding=(0, 2, 0, 0), title=f"on {found['task']}", title_justify="left", caption=ABOUT)
    table.caption_justify = "left"
    for number, heading in enumerate(HEADINGS):
        table.add_column(heading, justify="left" if number < 2 else "right")
    for row in found["counts"]:
        numbers = (row["parameters"], row["free"], row["layer"], row["authors"])
        table.add_row(row["network"], row["variant"], *("" if value is None else f"{value:,}" for value in numbers))
    console.print(table, highlight=False)
