"""`srnn report`: one page with all results."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from srnn.errors import SettingError
from srnn.lab.cli.options import profile as chosen_profile
from srnn.lab.terminal import say


def report(
    out: Annotated[Path, typer.Option(help="Folder of the page, its figures and its tables.")] = Path("report"),
    results: Annotated[Path, typer.Option(help="Folder of the records.")] = Path("results"),
    profile: Annotated[str, typer.Option(help="Runs to show: cpu, full or quick.")] = "cpu",
    quick: Annotated[bool, typer.Option("--quick", help="Show the rehearsal of srnn reproduce --quick.")] = False,
    readme: Annotated[
        Path | None,
        typer.Option(help="Update the verdicts in this README, docs/verdicts.md and docs/figures instead of writing a page."),
    ] = None,
) -> None:
    """Write one page with all results: claims of the paper, verdicts, tables and figures.

    The page is a single file. Figures are also written as SVG and PDF, tables as CSV, Markdown and LaTeX.

    [dim]srnn report
    srnn report --out /tmp/page --quick
    srnn report --readme README.md[/dim]
    """
    from srnn.lab import report as page
    from srnn.lab.paper import plan as paper
    from srnn.lab.scheduling import reproduce

    plan, console = paper.Plan(chosen_profile(profile, quick), all_networks=True), Console()
    quick = plan.profile == "quick"
    folder = reproduce.places(plan)[1] if quick else results
    if readme is not None:
        if quick:
            raise SettingError("a rehearsal says nothing about the paper: leave out --quick, or --readme")
        page.fill_readme(folder, readme, console, plan)
        return
    lead = "A rehearsal at toy sizes: it shows that everything runs, and says nothing about the paper." if quick else ""
    path = page.make(folder, out, console, plan=plan, lead=lead, is_experiment=not quick)
    say(console, f"report: {path}")
