"""Lines and tables on a terminal. Tables are readable at 80 columns, and one item per block if there is less room."""

from collections.abc import Collection, Iterable, Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

GAP = 2  # columns between two columns of a table


def printable(text: str, allowed: str = "") -> str:
    r"""Returns text with `\x1b` and the like in the place of control characters, which could change the terminal."""
    return "".join(c if c.isprintable() or c in allowed else repr(c)[1:-1] for c in text)


def say(console: Console, text: str) -> None:
    """Prints a line as it is, however long: no markup, no colours, no line breaks, no control characters."""
    console.print(printable(text, allowed="\n"), markup=False, highlight=False, soft_wrap=True)


def print_table(
    console: Console,
    headings: Sequence[str],
    rows: Iterable[Sequence[str | Text]],
    *,
    right: Collection[str] = (),
    title: str = "",
    note: str = "",
) -> None:
    """Prints a table in which no word is cut; if the words do not fit next to each other, prints each row as a block.

    Args:
        console: Where to print. Its width decides.
        headings: One for each column.
        rows: Cells as plain text, or as `Text` with colours.
        right: Headings of columns that are aligned to the right.
        title: Line above the table.
        note: Text below the table.
    """
    cells = [[cell if isinstance(cell, Text) else Text(printable(cell, "\n")) for cell in row] for row in rows]
    columns = [[heading, *(row[k].plain for row in cells)] for k, heading in enumerate(headings)]
    least = [max(cell_len(word) for text in column for word in text.split() or [""]) for column in columns]
    most = [max(cell_len(text) for text in column) for column in columns]
    spare = console.width - sum(least) - GAP * (len(columns) - 1)
    if title:
        console.print(title, markup=False, highlight=False, style="bold")
    if spare < 0:
        _print_blocks(console, headings, cells)
    else:
        table, wanted = Table(box=None, padding=(0, GAP, 0, 0), pad_edge=False), sum(most) - sum(least)
        for heading, low, high in zip(headings, least, most, strict=True):
            width = low + (high - low) * min(spare, wanted) // max(1, wanted)
            table.add_column(heading, width=width, justify="right" if heading in right else "left")
        for row in cells:
            table.add_row(*row)
        console.print(table, highlight=False)
    if note:
        console.print(note, markup=False, highlight=False, style="dim")


def _print_blocks(console: Console, headings: Sequence[str], rows: Iterable[Sequence[Text]]) -> None:
    for first, *rest in rows:
        console.print(first, highlight=False, style="bold")
        for heading, cell in zip(headings[1:], rest, strict=True):
            if cell.plain:
                console.print(Padding(Text(f"{heading}: " if heading else "") + cell, (0, 0, 0, GAP)), highlight=False)
        console.print()
