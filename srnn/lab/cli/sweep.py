"""`srnn sweep`: one run for each combination of values."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from srnn.lab.cli.options import Data, Jobs, Model, Ray, Recipe, Set, look_in, settings_given, task_names


def sweep(
    task: Annotated[str, typer.Argument(help="Task, or your own Python file.", autocompletion=task_names)],
    grid: Annotated[list[str], typer.Option(help="Setting and its values as NAME=VALUE,VALUE. Repeat it for several.")],
    model: Model = "srnn",
    recipe: Recipe = "paper",
    setting: Set = None,
    jobs: Jobs = 2,
    ray: Ray = None,
    results: Annotated[Path, typer.Option(help="Folder of TASK.jsonl, which collects the records.")] = Path("runs/records"),
    data: Data = None,
) -> None:
    """Run many experiments in parallel, one for each combination of values, and rank them.

    Crashed runs are retried, recorded runs are skipped, and stopped runs are resumed. Separate widths by slashes: mlp=8/32,32

    [dim]srnn sweep copy --grid hidden_size=128,256 --grid lr=1e-3,3e-4 --set steps=2000
    srnn sweep pmnist --grid mlp=32/32,32 --grid seed=1,2,3 --set epochs=5 --jobs 4[/dim]
    """
    from srnn.lab.scheduling import sweep as sweeping
    from srnn.lab.training import recipes

    look_in(data)
    fixed = settings_given(setting or [], recipes.setting_rules(task, model))
    runs = sweeping.runs_of(task, model, recipe, fixed, grid)
    if sweeping.sweep(runs, Console(), jobs=jobs, ray=ray, into=results):
        raise typer.Exit(1)
