"""What all benchmarks share: they measure, write a record, and show it on the terminal and in a document."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from srnn.lab.bench.clock import torch_threads
from srnn.lab.records import store
from srnn.lab.terminal import print_table


@dataclass(frozen=True)
class Table:
    """A table of text.

    Attributes:
        headings: One for each column.
        rows: The cells. Those in ** are bold.
        names: How many of the first columns are names, which are aligned to the left. The others are numbers.
    """

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    names: int = 1

    def as_markdown(self) -> str:
        rule = ["---" if k < self.names else "--:" for k in range(len(self.headings))]
        return "\n".join(f"| {' | '.join(cells)} |" for cells in (self.headings, rule, *self.rows))

    def print(self, console: Console) -> None:
        rows = [[Text(cell.strip("*"), "bold" if cell.startswith("**") else "") for cell in row] for row in self.rows]
        print_table(console, self.headings, rows, right=self.headings[self.names :])


def as_markdown(parts: Iterable[Table | str]) -> str:
    """Returns tables and paragraphs as Markdown."""
    return "\n\n".join(part if isinstance(part, str) else part.as_markdown() for part in parts)


def show(parts: Iterable[Table | str], console: Console) -> None:
    """Prints tables and paragraphs."""
    for part in parts:
        if isinstance(part, Table):
            part.print(console)
        else:
            console.print(part.replace("**", ""), markup=False, highlight=False)
        console.print()


def commit(record: Mapping[str, Any]) -> str:
    """Returns the commit of a record, and whether there were changes to it."""
    return f"{record['commit']['id'][:10]}{' with changes' if record['commit']['dirty'] is True else ''}"


def origin(record: Mapping[str, Any], how: str, kind: str = "run") -> str:
    """Returns where a record comes from: machine, how it was measured, date, commit and file."""
    path = record.get("path", f"results/bench-{record['kind']}.json")  # records of --scale and --step once had no path
    about = f"{record['machine']['cpu']}, {how}; {kind} of {record['started']}, commit {commit(record)}"
    return f"Measured on {about}; record: `{path}`."


def conduct(
    kind: str,
    measure: Callable[[], dict[str, Any]],
    parts: Callable[[Mapping[str, Any]], Iterable[Table | str]],
    *,
    quick: bool,
    threads: int,
    out: Path | None,
    readme: Path | None,
    console: Console,
) -> dict[str, Any]:
    """Measures, writes the record, prints it and, if asked, puts it into a document.

    Args:
        kind: Name of the record's file, and of the block in the document.
        measure: Returns what belongs into the record.
        parts: Returns what is shown of a record.
        quick: Whether the default file is that of quick runs, so that the record behind a document is kept.
        threads: Threads of torch while it measures.
        out: File of the record, by default in results/.
        readme: Document whose block is replaced.
        console: Where to print.

    Returns:
        The record.
    """
    out = out or Path(f"results/{'-'.join(['bench', *[kind] * (kind != 'bench'), *['quick'] * quick])}.json")
    if readme is not None:
        store.filled(readme, kind, "")  # fails before hours of measurements
    started, start = datetime.now(timezone.utc).isoformat(timespec="seconds"), time.perf_counter()
    with torch_threads(threads):
        record = {"kind": kind, **store.environment(), "started": started, **measure()}
    record["seconds"] = round(time.perf_counter() - start, 1)
    inside = out.resolve().is_relative_to(Path.cwd())
    record["path"] = (out.resolve().relative_to(Path.cwd()) if inside else out).as_posix()
    store.write(out, record)
    show(parts(record), console)
    console.print(f"record: {out}", soft_wrap=True)
    if readme is not None:
        store.replace(readme, store.filled(readme, kind, as_markdown(parts(record))))
    return record
