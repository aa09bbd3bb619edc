"""`srnn info`: what a network is, its settings, and how many parameters it has, stored and free."""

import json
import sys
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from srnn.errors import SettingError
from srnn.lab.cli.options import Json, network_names, task_names
from srnn.lab.settings import rules
from srnn.lab.terminal import print_table, say

if TYPE_CHECKING:
    from srnn.lab.training.run import Run

HEADINGS = ("network", "", "parameters", "free", "layer alone", "counted by the authors")
ABOUT = (
    "Parameters: all numbers that are stored and trained, including embedding and read-out. Free: degrees of freedom, fewer if "
    "the numbers obey a constraint. Counted by the authors: what the code of the SRNN paper's authors prints on adding with "
    "128 units, as in its Table 4. It includes an unused scalar in SRNN and an unused map in uRNN."
)


def info(
    model: Annotated[
        str | None, typer.Argument(help="Network, or your own Python file, by default all.", autocompletion=network_names)
    ] = None,
    task: Annotated[str, typer.Option(help="Task to train on.", autocompletion=task_names)] = "adding",
    hidden_size: Annotated[int, typer.Option(min=1, help="Units of the network.")] = 128,
    as_json: Json = False,
) -> None:
    """Describe a network: its equation, its settings, its number of parameters.

    [dim]srnn info
    srnn info eurnn
    srnn info lru --task copy --hidden-size 64[/dim]
    """
    found = examine(model, task, hidden_size)
    if as_json:
        typer.echo(json.dumps(found, indent=2))
    else:
        show(found, Console())


def counts(run: "Run") -> list[dict[str, Any]]:
    """Returns, for each variant of a run's network, stored and free parameters of the model and stored ones of the layer."""
    from srnn.lab.training import loop

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
    """Returns the counts of one network or of all, and of one network also its settings, recipes and documentation."""
    from srnn.lab.networks import NETWORKS
    from srnn.lab.training import recipes

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
        found["settings"] = {field.name: getattr(network, field.name) for field in fields(kind)}
        found["help"] = {rule.name: rule.help for rule in rules(kind).values()}
        found["recipes"] = {
            recipes.SHOWN[key]: {task: dict(each) for task, each in said.items()} for key, said in kind.recipes.items()
        }
    return found


def show(found: Mapping[str, Any], console: Console) -> None:
    """Prints what `examine` found."""
    if "about" in found:
        say(console, found["about"])
        console.print()
        settings = [(name, repr(value), found["help"][name]) for name, value in found["settings"].items()]
        print_table(console, ("setting", "value", "meaning"), settings)
        console.print("Each setting is an option of srnn train, such as --hidden-size.\n", highlight=False)
        for recipe, by_task in found["recipes"].items():
            for task, settings in by_task.items():
                said = ", ".join(f"{name} {value}" for name, value in settings.items() if value is not None)
                say(console, f"recipe {recipe}, {task or 'every task'}: {said}")
        console.print()
    rows = []
    for row in found["counts"]:
        numbers = (row["parameters"], row["free"], row["layer"], row["authors"])
        rows.append((row["network"], row["variant"], *("" if value is None else f"{value:,}" for value in numbers)))
    print_table(console, HEADINGS, rows, right=HEADINGS[2:], title=f"on {found['task']}", note=ABOUT)
    for reason in found["left_out"].values():
        say(console, f"left out: {reason}")
