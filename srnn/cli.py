"""The commands of `srnn`. Each checks its options here and leaves the work to the module of its name."""

import json
import sys
from pathlib import Path
from typing import Annotated

try:
    import typer
    from rich.console import Console
except ModuleNotFoundError as missing:
    raise SystemExit(f"srnn: the command line needs {missing.name}; install it with: pip install 'srnn[lab]'") from None

import srnn
from srnn.errors import SRNNError

app = typer.Typer(
    name="srnn",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,  # a traceback is a bug of ours, and then the plain one says most
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """The entry point: an error of ours is one line and exit code 1, wrong usage is 2."""
    try:
        app(prog_name="srnn")
    except SRNNError as error:
        print(f"srnn: {error}", file=sys.stderr)
        sys.exit(1)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"srnn {srnn.__version__}")
        raise typer.Exit()


@app.callback()
def srnn_(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Shuffling Recurrent Neural Networks: a drop-in for nn.GRU that trains fast on a CPU.

    Begin with [bold]srnn doctor[/bold] and [bold]srnn demo[/bold].

    [dim]srnn doctor            # what runs here, and why the rest does not
    srnn demo              # a network learns before your eyes
    srnn bench --quick     # how much faster than nn.GRU?
    SRNN_BACKEND=torch srnn demo     # without the compiled kernel (also: native, reference)[/dim]
    """


@app.command()
def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False) -> None:
    """Say which backends run here, why the others do not, and whether each equals the reference.

    Ends with exit code 1 when a backend gives other values or gradients than the reference.

    [dim]srnn doctor
    srnn doctor --json | python -m json.tool[/dim]
    """
    from srnn import doctor

    found = doctor.examine()
    if as_json:
        typer.echo(json.dumps(found, indent=2))
    else:
        doctor.show(found, Console())
    if not found["healthy"]:
        raise typer.Exit(1)


@app.command()
def bench(
    quick: Annotated[bool, typer.Option("--quick", help="Fewer and shorter measurements: a first look, not a result.")] = False,
    threads: Annotated[int, typer.Option(min=1, help="Threads of torch.")] = 2,
    repeats: Annotated[int | None, typer.Option(min=1, help="Measurements of each number.", show_default="7, quick 3")] = None,
    only: Annotated[list[str] | None, typer.Option(help="Measure this benchmark alone; may be given again.")] = None,
    out: Annotated[Path | None, typer.Option(help="Where the record goes.", show_default="results/bench.json")] = None,
    readme: Annotated[Path | None, typer.Option(help="A README whose table is to be replaced by this one.")] = None,
) -> None:
    """Measure speed and memory beside nn.RNN, nn.LSTM and nn.GRU, and write a record.

    Results are compared with the reference before anything is timed. A floor that is missed is shown, and is no error.

    [dim]srnn bench --quick
    srnn bench --readme README.md[/dim]
    """
    from srnn import bench

    raise typer.Exit(
        bench.main(quick=quick, threads=threads, repeats=repeats, out=out or bench.RECORD, readme=readme, only=only)
    )


@app.command()
def demo(
    steps: Annotated[int, typer.Option(min=1, help="Updates at most; it stops when the problem is solved.")] = 12000,
    length: Annotated[int, typer.Option(min=2, help="Steps of each sequence.")] = 200,
    seed: Annotated[int, typer.Option(min=0, help="Of the weights and of the data.")] = 0,
) -> None:
    """Watch an SRNN learn to add two numbers that lie far apart, in about a minute.

    Ends with exit code 1 when it has not learned within --steps updates.

    [dim]srnn demo
    srnn demo --length 500 --seed 3[/dim]
    """
    from srnn import demo

    demo.run(Console(), steps=steps, length=length, seed=seed)
