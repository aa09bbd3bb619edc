"""`srnn reproduce`: the runs behind the tables and figures of the paper."""

from typing import Annotated

import typer
from rich.console import Console

from srnn.lab.cli.options import Data, Jobs, Ray, exhibit_names, look_in, network_names
from srnn.lab.cli.options import profile as chosen_profile


def reproduce(
    exhibits: Annotated[
        list[str] | None,
        typer.Argument(help="Exhibits of the paper (--list names them), or all.", autocompletion=exhibit_names),
    ] = None,
    list_: Annotated[
        bool, typer.Option("--list", help="List the exhibits, their runs, how many are recorded, and the time left.")
    ] = False,
    estimate: Annotated[
        bool, typer.Option("--estimate", help="Run three updates of each run, print how long all would take, and stop.")
    ] = False,
    profile: Annotated[
        str, typer.Option(help="Length of runs: cpu (baselines stop after minutes), full (as the authors') or quick.")
    ] = "cpu",
    quick: Annotated[bool, typer.Option("--quick", help="Rehearse at toy sizes, apart from the results.")] = False,
    all_networks: Annotated[bool, typer.Option("--all-networks", help="Also run networks that the paper did not run.")] = False,
    only: Annotated[
        list[str] | None, typer.Option(help="Run this network only. Repeat it for several.", autocompletion=network_names)
    ] = None,
    line: Annotated[
        list[str] | None,
        typer.Option(help="Run lines of the exhibit with this text in their name only, or without it after a minus sign."),
    ] = None,
    at: Annotated[
        list[str] | None, typer.Option(help="Run this place only: a length, task, number of units or samples.")
    ] = None,
    jobs: Jobs = 2,
    ray: Ray = None,
    data: Data = None,
) -> None:
    """Run the experiments behind tables and figures of the paper.

    Recorded runs are skipped. Stop at any time with Ctrl-C: the same command resumes.

    [dim]srnn reproduce --list
    srnn reproduce copy --quick
    srnn reproduce copy adding --estimate
    srnn reproduce psmnist --line longer --only rnn
    srnn reproduce all --jobs 4[/dim]
    """
    from srnn.lab.paper import plan as paper
    from srnn.lab.scheduling import reproduce as reproducing

    look_in(data)
    plan, console = paper.Plan(chosen_profile(profile, quick), all_networks), Console()
    selected = reproducing.Selection(only or (), line or (), at or ())
    if list_:
        reproducing.show(plan, console, selected)
        return
    if not exhibits:
        raise typer.BadParameter(f"give one, or all: {', '.join(paper.EXHIBITS)}", param_hint="EXHIBITS")
    if reproducing.reproduce(exhibits, plan, console, jobs=jobs, ray=ray, only=selected, estimate_only=estimate):
        raise typer.Exit(1)
