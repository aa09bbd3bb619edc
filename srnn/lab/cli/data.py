"""`srnn data`: which data sets are on this machine, and how to get the others."""

from typing import Annotated

import typer
from rich.console import Console

from srnn.lab.cli.options import Data, data_set_names, look_in


def data(
    name: Annotated[
        str | None,
        typer.Argument(help="mnist, speech, timit, timit-sample or text, by default all.", autocompletion=data_set_names),
    ] = None,
    data: Data = None,
) -> None:
    """List the data sets, check one, or download it.

    Without a name, all data sets are listed with how to get those that are missing.

    With a name, that one is checked. MNIST is downloaded if it is missing.

    [dim]srnn data
    srnn data mnist[/dim]
    """
    from srnn.lab import data as sets

    if name is not None:
        sets.fetch(name, data, Console())
        return
    look_in(data)
    sets.show(Console())
