"""`srnn runs`: a table of the runs in a folder."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from srnn.errors import MissingError, RecordError
from srnn.lab.cli.options import Json
from srnn.lab.terminal import print_table, say

HEADINGS = ("folder", "settings", "seed", "state", "updates", "score", "chance")


def runs(
    folder: Annotated[Path, typer.Argument(help="Folder of run folders, or of records.")] = Path("runs"),
    as_json: Json = False,
    readme: Annotated[Path | None, typer.Option(help="Markdown file whose table of results is replaced.")] = None,
    compact: Annotated[
        bool, typer.Option("--compact", help="First drop records that a later one with the same id replaces.")
    ] = False,
) -> None:
    """List runs, how far they are, and how well they do.

    If the folder has records, there is one line for all seeds of the same settings.

    [dim]srnn runs
    srnn runs results
    srnn runs results --compact
    srnn runs results --readme docs/results.md[/dim]
    """
    console = Console(quiet=as_json)
    if compact:
        _compact(folder, console)
    found = list_runs(folder, console, readme)
    if as_json:
        typer.echo(json.dumps(found, indent=1))


def list_runs(folder: Path, console: Console, readme: Path | None = None) -> list[dict[str, Any]]:
    """Prints and returns the runs in the run folders of a folder, or the records in its files."""
    from srnn.lab.records import store
    from srnn.lab.report import runs as results

    if not folder.is_dir():
        raise MissingError(f"there is no folder {folder}. Start a run with: srnn train copy")
    if (folder / "run.json").exists():
        raise MissingError(f"{folder} is itself a run folder. Give the folder that holds it")
    if readme is not None or any(folder.glob("*.jsonl")):
        collected = results.read(folder)
        results.show(collected, console)
        if readme is not None:
            store.replace(readme, store.filled(readme, "results", results.markdown(collected)))
        return [each.to_json() for each in collected]
    found = [_examine(path.parent) for path in sorted(folder.glob("*/run.json"))]
    if found:
        print_table(console, HEADINGS, [[str(row[heading]) for heading in HEADINGS] for row in found])
    else:
        say(console, f"no runs in {folder}. Start one with: srnn train copy")
    return found


def _compact(folder: Path, console: Console) -> None:
    """Rewrites the files of records in a folder that have records with the same id."""
    from srnn.lab.records import store

    for path in sorted(folder.glob("*.jsonl")):
        if dropped := store.compact(path):
            say(console, f"{path}: {dropped} older records dropped")


def _examine(path: Path) -> dict[str, Any]:
    """Returns the state of a run, read from its files only, so that no code of a user's task or network is executed."""
    from srnn.lab.records import store
    from srnn.lab.records.folder import BELONGS_TO, RunFolder
    from srnn.lab.records.record import load
    from srnn.lab.report import runs as results
    from srnn.lab.training.checkpoint import Checkpoint
    from srnn.lab.training.progress import number

    place = RunFolder(path)
    row: dict[str, Any] = {**dict.fromkeys(HEADINGS, ""), "folder": path.name}
    try:
        settings = store.read(place.run)
        row |= {"settings": ", ".join(results.brief(settings["run"])), "seed": settings["run"]["seed"]}
        if not place.record.exists():
            step = Checkpoint.read(place.checkpoint).position.step if place.checkpoint.exists() else 0
            return row | {"state": "unfinished", "updates": step}
        record = load(place.record)
        if record.environment.get(BELONGS_TO) != settings.get(BELONGS_TO):
            raise RecordError(f"{place.record} belongs to another run than run.json next to it")
        shown = {"score": "" if record.score is None else number(record.score), "chance": number(record.chance)}
        return row | {"state": record.status, "updates": record.updates, **shown}
    except RecordError as error:
        return row | {"state": f"unreadable: {error}"}
    except Exception as error:  # one odd file must not hide the other runs
        return row | {"state": f"unreadable: {place.path} is damaged ({error!r})"}
