"""The command line: `app` has the commands, one file each, and `main` is the entry point.

A command imports what it needs when it runs. So `srnn --help`, `srnn --version` and shell completion never wait for torch.
"""

import os
import sys
from typing import Annotated

try:
    import rich  # noqa: F401  every command prints with it
    import typer
except ModuleNotFoundError as missing:
    raise SystemExit(f"srnn: the command line needs {missing.name}. Install it with: pip install 'srnn[lab]'") from None

import srnn
from srnn.errors import Interrupted, SettingError, SRNNError
from srnn.lab.cli import bench, data, demo, doctor, eval, export, fit, info, predict, report, reproduce, runs, sweep, train
from srnn.lab.cli.options import Command, Group
from srnn.lab.terminal import printable

app = typer.Typer(
    name="srnn",
    cls=Group,
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # a traceback is a bug of ours, and the plain one shows most
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command(cls=Command)(doctor.doctor)
app.command(cls=Command)(demo.demo)
app.command(cls=Command)(info.info)
app.command(cls=train.TrainCommand)(train.train)
app.command(cls=fit.FitCommand)(fit.fit)
app.command(cls=Command)(predict.predict)
app.command("eval", cls=Command)(eval.eval_)
app.command(cls=Command)(export.export)
app.command(cls=Command)(runs.runs)
app.command(cls=Command)(sweep.sweep)
app.command(cls=Command)(reproduce.reproduce)
app.command(cls=Command)(report.report)
app.command(cls=Command)(bench.bench)
app.command(cls=Command)(data.data)


def main() -> None:
    """Runs the command line. Wrong values end with exit code 2, failures with 1, both with one line on standard error."""
    try:
        app(_arguments(sys.argv[1:]), prog_name="srnn")
    except SRNNError as error:
        rank = os.environ.get("RANK", "0")  # of torchrun: if all processes stop together, only the first reports it
        if rank == "0" or not isinstance(error, Interrupted):
            message = printable(str(error).removeprefix("srnn: "))  # an error about the network of that name
            print(f"srnn: {message}" if rank == "0" else f"srnn (process {rank}): {message}", file=sys.stderr)
        sys.exit(error.exit_code)
    except OSError as error:  # of a file that is neither a record nor of a run, or a disk that fails at a rare moment
        if error.strerror is None:
            raise
        where = f"{error.filename}: " if error.filename is not None else ""
        print(f"srnn: {printable(f'{where}{error.strerror}')}", file=sys.stderr)
        sys.exit(1)
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and "can't allocate memory" not in str(error):
            raise
        print("srnn: there is not enough memory for these sizes. Try smaller ones or a smaller --batch-size", file=sys.stderr)
        sys.exit(1)


def _arguments(given: list[str]) -> list[str]:
    """Returns the command line with `--ray local` for `--ray` without an address, because typer has no optional values.

    Raises:
        SettingError: An argument is empty. An empty path would mean the present folder.
    """
    for before, word in zip(["the command", *given], given, strict=False):
        name, equals, value = word.partition("=")
        if not word or (name.startswith("--") and equals and not value):
            raise SettingError(f"the value after {before if not word else name} must not be empty")
    found = []
    for word, following in zip(given, [*given, "-"][1:], strict=True):
        found += [word, "local"] if word == "--ray" and following.startswith("-") else [word]
    return found


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

    Start with [bold]srnn doctor[/bold] and [bold]srnn demo[/bold].

    [dim]srnn doctor            # what runs on this machine
    srnn demo              # watch networks learn
    srnn info              # all networks and their sizes
    srnn train copy        # train one network on one task
    srnn fit data.csv --target label --id series   # train on your own table
    srnn runs              # what was run, and how well it did
    srnn export RUN --format onnx         # the model for other programs
    srnn sweep copy --grid lr=1e-3,3e-4   # which settings are best?
    srnn reproduce --list  # tables and figures of the paper
    srnn report            # one page with all results
    srnn bench --quick     # how much faster than nn.GRU?
    SRNN_BACKEND=torch srnn demo     # without the compiled kernel[/dim]
    """
