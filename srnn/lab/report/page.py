"""`srnn report`: records -> one self-contained HTML page, with figures as SVG and PDF and tables as CSV, Markdown and LaTeX.

srnn/lab/paper decides what is shown: exhibits, tables, figures, verdicts and findings. answer.py writes the first screen,
plot.py draws, page.html and page.css lay it out.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jinja2
import markupsafe
from rich.console import Console
from rich.progress import Progress

from srnn.errors import MissingError, RecordError, StorageError
from srnn.lab.paper import evidence as comparing
from srnn.lab.paper.evidence import Evidence
from srnn.lab.paper.exhibits import EXHIBITS
from srnn.lab.paper.figure import Figure
from srnn.lab.paper.plan import OURS, Exhibit, Plan, Point
from srnn.lab.paper.table import Table
from srnn.lab.paper.verdicts import ABOUT, Verdict, changes, findings, kind, verdict_table, verdicts
from srnn.lab.records import store
from srnn.lab.records.record import Failure, Measured, Record, Records
from srnn.lab.report import answer, plot
from srnn.lab.report.runs import DEFAULTS
from srnn.lab.training.progress import number, plain
from srnn.lab.training.recipes import shown_recipe


def make(
    results: Path,
    out: Path,
    console: Console,
    *,
    plan: Plan | None = None,
    lead: str = "",
    points: Mapping[str, Sequence[Point]] | None = None,
    is_experiment: bool = True,
) -> Path:
    """Writes the page with its figures and tables.

    Args:
        results: Folder with the records.
        out: Folder to write to.
        console: Receives a line for each record that cannot be read, and the progress.
        plan: Profile of the experiments; the default is `cpu` with all networks.
        lead: Introduction that replaces the usual one.
        points: Points by exhibit that replace those of the plan.
        is_experiment: Whether the records allow conclusions. Pages of demonstrations and rehearsals have no verdicts.

    Returns:
        The path of the page.

    Raises:
        RecordError: If no record belongs to an exhibit.
        StorageError: If `out` cannot be written.
    """
    found = read(results, console, plan)
    evidence = Evidence.gather(found.found, plan or Plan(all_networks=True), points)
    if not any(evidence.has(name) for name in EXHIBITS):
        raise RecordError(f"no record in {results} belongs to an exhibit. Make some with: srnn reproduce copy")
    sections = []
    try:
        for folder in ("figures", "tables"):
            (out / folder).mkdir(parents=True, exist_ok=True)
        with Progress(console=console, transient=True) as bar:
            for exhibit in bar.track(EXHIBITS.values(), description="drawing"):
                if points is None or evidence.has(exhibit.id):
                    sections.append(_section(exhibit, evidence, out))
        judged = verdicts(evidence) if is_experiment else []
        if judged:
            _write_table(verdict_table(judged), out)
        page = out / "index.html"
        store.replace(page, _page(judged, sections, evidence, found, lead).encode(errors="backslashreplace"))
    except OSError as error:
        if isinstance(error, StorageError):
            raise
        raise StorageError(f"{out} cannot be written: {error.strerror}. Give another --out") from error
    return page


def read(results: Path, console: Console, plan: Plan | None = None) -> Records:
    """Returns the records of a folder, and prints a message for each line that holds no complete record.

    Of the study of start values in it, those that are points of an exhibit are included.
    """
    if not any(results.glob("*.jsonl")):
        raise MissingError(f"there are no records in {results}. Make some with: srnn reproduce copy")
    return comparing.read(results, plan or Plan(all_networks=True), console)


def _section(exhibit: Exhibit, evidence: Evidence, out: Path) -> dict[str, Any]:
    """Writes the files of an exhibit and returns its section of the page."""
    shown, drawn = exhibit.tables(evidence), exhibit.figures(evidence)
    for table in shown:
        _write_table(replace(table, notes=(*table.notes, *exhibit.departures)), out)  # the page has them once per section
    for figure in drawn:
        plot.save(figure, out / "figures")
    planned = evidence.planned[exhibit.id]
    recorded = {**evidence.results[exhibit.id], **{key: [each] for key, each in evidence.measured[exhibit.id].items()}}
    return {
        "exhibit": exhibit,
        "tables": shown,
        "drawn": drawn,
        "figures": [_figure(figure) for figure in drawn],
        "planned": sum(planned.values()),
        "recorded": sum(len(found) for key, found in recorded.items() if planned[key]),  # without runs beyond the plan
        "runs": _runs(exhibit, evidence),
    }


def _figure(figure: Figure) -> dict[str, Any]:
    """Returns a figure as the template shows it: an SVG for each panel, and the legend as HTML."""
    count = len(figure.panels)
    wide, narrow = 2 if count in (1, 2, 4) else 3, 2  # columns; the legend fills the cells that are left
    drawn = map(markupsafe.Markup, plot.inline(figure))
    return vars(figure) | {
        "legend": [(label, colour, plot.sample(dash), dots) for label, colour, dash, dots in figure.legend],
        "panels": [(panel.title, svg) for panel, svg in zip(figure.panels, drawn, strict=True)],
        "layout": f"--wide: {wide}; --wide-rest: {-count % wide or wide}; --narrow: {narrow}; "
        f"--narrow-rest: {-count % narrow or narrow}",
    }


def _write_table(table: Table, out: Path) -> None:
    for suffix, text in (("csv", table.as_csv()), ("md", table.as_markdown()), ("tex", table.as_latex())):
        (out / "tables" / f"{table.name}.{suffix}").write_text(text, encoding="utf-8", errors="backslashreplace")


def _runs(exhibit: Exhibit, evidence: Evidence) -> list[tuple[str, ...]]:
    """Returns a row for each record of an exhibit: its settings, how it ended, and the commit that ran it."""
    rows: list[tuple[str, ...]] = [
        (
            each.id,
            f"{line}, {x}, seed {each.seed}",
            _settings(each.run),
            f"{each.parameters:,}",
            f"{each.updates:,}",
            each.ended_by,
            f"{each.seconds:,.0f} ({each.cpu_seconds:,.0f})",
            each.commit,
        )
        for (line, x), results in evidence.results[exhibit.id].items()
        for each in results
    ]
    known = evidence.runs
    for (line, x), measured in evidence.measured[exhibit.id].items():
        after = _trained(measured.trained, known.get(measured.measurement["run"]))
        settings = ", ".join(f"{name} {plain(value)}" for name, value in measured.measurement["settings"].items())
        rows.append((measured.id, f"{line}, {x}", settings, "", after, "", f"{measured.seconds:,.0f}", measured.commit))
    return rows


def _trained(trained: Mapping[str, Any] | None, recorded: Record | None) -> str:
    """Returns how long the measured weights were trained, and their score where it differs from the recorded run's.

    A measurement reruns a training whose folder is gone. A newer commit or a time limit can change the result.
    """
    if trained is None:
        return ""
    said = f"after {trained['updates']:,} updates"
    result, training = trained.get("result"), trained.get("training")
    ours = result["value"] if result else training["lowest"] if training else None
    theirs = recorded.score if recorded else None
    if ours is None or theirs is None or ours == theirs:
        return said
    return f"{said}, rerun: {number(ours)}, recorded {number(theirs)}"


def _settings(run: Mapping[str, Any]) -> str:
    """Returns network, optimizer, recipe, and the settings of a run that differ from the defaults."""
    network = ", ".join(f"{name} {plain(value)}" for name, value in run["network"].items() if name != "name")
    said = ("task", "network", "optimizer", "lr", "batch_size", "recipe", "seed", "threads")
    changed = [name for name, usual in DEFAULTS.items() if name not in said and run.get(name, usual) != usual]
    more = "".join(f", {name} {plain(run[name])}" for name in changed)
    return f"{network}; {run['optimizer']} {run['lr']}, batch {run['batch_size']}{more}; recipe {shown_recipe(run['recipe'])}"


def _page(
    judged: Sequence[Verdict], sections: Sequence[Mapping[str, Any]], evidence: Evidence, found: Records, lead: str
) -> str:
    loader = jinja2.PackageLoader("srnn.lab.report", "")
    here = jinja2.Environment(
        loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    here.filters |= {"slug": _slug, "code": _code, "short": kind}
    first = answer.pictures(figure for section in sections for figure in section["drawn"])
    return here.get_template("page.html").render(
        style=markupsafe.Markup(loader.get_source(here, "page.css")[0]),
        lead=lead,
        sentences=answer.sentences(judged, evidence) if judged else [],
        pictures=[_picture(figure) for figure in first],
        rules=ABOUT,
        changes=changes(),
        counts=answer.counts(judged),
        verdicts=judged,
        sections=sections,
        shown=[section["exhibit"].id for section in sections],
        findings=list(findings(evidence)) if judged else [],
        about=about(found),
        machines=_machines(found),
        failures=[f"{each.id}: {each.error}" for each in found.of(Failure)],
        faults=found.faults,
    )


def _picture(figure: Figure) -> dict[str, Any]:
    """Returns a figure of the first screen: one panel, or the pictures of hidden states without axes."""
    images = [(panel.title, plot.image(panel)) for panel in figure.panels if panel.png]
    shown = _figure(replace(figure, panels=()) if images else figure)
    return shown | {"images": images, "exhibit": figure.name.removeprefix("first-").removesuffix("-seconds")}


def about(found: Records) -> str:
    """Returns a paragraph about the records: how many, what they hold, and how busy the machine was."""
    runs, shared = found.of(Record), []
    for name, is_ours in (("SRNN", True), ("baselines", False)):
        those = [record for record in runs if (record.network in OURS) is is_ours]
        count = sum(record.seconds > 1.3 * record.cpu_seconds for record in those)
        shared.append(f"{count} of {len(those)} runs of {name}")
    hours = sum(record.cpu_seconds for record in runs) / 3600
    return (
        f"{len(runs)} runs ({hours:.1f} CPU hours) and {len(found.of(Measured))} measurements. A record holds all settings, "
        "the seed, the commit, versions, the machine and the curve. The same settings on the same machine with the same "
        "commit give bit-identical results, except that a time limit may end a run earlier or later. Wall-clock time is more "
        f"than 1.3 times the CPU time in {' and '.join(shared)}: these runs shared their core with other work. Only CPU "
        "seconds are compared, but on a busy machine they can be slower."
    )


def _machines(found: Records) -> list[str]:
    known = [(each.environment.get("machine"), each.environment.get("versions")) for each in found.found]
    about = [(on, of) for on, of in known if on and of]
    kinds = Counter(f"{on['cpu']}, {on.get('cores')} cores, torch {of['torch']}, srnn {of.get('srnn')}" for on, of in about)
    return [f"{count} records: {kind}." for kind, count in kinds.most_common()]


def _slug(text: str) -> str:
    return re.sub(r"[^a-z]+", "-", text.lower()).strip("-")


def _code(text: str) -> markupsafe.Markup:
    """Returns text with `words` in backquotes as HTML code."""
    return markupsafe.Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(markupsafe.escape(text))))
