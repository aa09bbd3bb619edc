"""`srnn export`: the model of a run as one file for other programs."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from srnn.errors import SettingError
from srnn.lab.cli.options import Data, Overwrite, Trust, look_in
from srnn.lab.terminal import say


def export(
    run: Annotated[Path, typer.Argument(help="Run folder.")],
    format: Annotated[str, typer.Option(help="onnx, pt2, c or safetensors.")],
    out: Annotated[
        Path | None, typer.Option(help="File to write.", show_default="the name of the run folder, in the current folder")
    ] = None,
    overwrite: Overwrite = False,
    int8: Annotated[
        bool, typer.Option("--int8", help="c: store weights as 8-bit integers, and report what that costs.")
    ] = False,
    compiled: Annotated[
        bool, typer.Option("--compiled", help="pt2: compile with AOTInductor, for machines like this one, in about a minute.")
    ] = False,
    trust: Trust = None,
    data: Data = None,
) -> None:
    """Write the model of a finished run to a file for other programs.

    The file is compared with the model in PyTorch, where there is something to run it.

    [dim]srnn export runs/copy-srnn-1f0c33a9 --format onnx
    srnn export runs/copy-srnn-1f0c33a9 --format c --out model.h[/dim]
    """
    from srnn.lab import export as exports
    from srnn.lab.training import recipes

    look_in(data)
    recipes.trust(trust or [])
    options: dict[str, Any] = {}
    for name, given, owner in (("int8", int8, "c"), ("compiled", compiled, "pt2")):
        if given and format != owner:
            raise SettingError(f"--{name} is an option of --format {owner}, got --format {format}")
        options |= {name: True} if given else {}
    file, lines = exports.export(run, format, out, overwrite=overwrite, **options)
    console = Console()
    for line in (f"wrote {file}, {file.stat().st_size:,} bytes", *lines):
        say(console, line)
