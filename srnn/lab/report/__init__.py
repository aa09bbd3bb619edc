"""`srnn report`: records -> one self-contained HTML page; figures also as SVG and PDF, tables as CSV, Markdown and LaTeX.

evidence.py         what was run at each point, and how far it may be compared
claims.py, rules.py     the claims of the paper, and the rules of their verdicts
findings.py         what we found about the published experiments
tables.py, table.py     ours beside the paper's
figures.py          the same as figures
page.html, page.css     how it looks
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

from srnn.errors import RecordError, StorageError
from srnn.lab.paper.claims import ABOUT, VERDICTS, Verdict, verdicts
from srnn.lab.paper.evidence import Evidence
from srnn.lab.paper.figure import Figure
from srnn.lab.paper.figures import figures
from srnn.lab.paper.findings import findings
from srnn.lab.paper.plan import EXHIBITS, Exhibit, Plan, Point
from srnn.lab.paper.table import Table
from srnn.lab.paper.tables import tables, verdict_table
from srnn.lab.records import record as records
from srnn.lab.records import store
from srnn.lab.report import plot
from srnn.lab.report.runs import DEFAULTS
from srnn.lab.training.progress import number, plain

TITLE = "Shuffling Recurrent Neural Networks: does the paper hold?"
README_FIGURES = ("copy", "runtime", "psmnist", "adding")  # the first two of these that there are go into the README


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
    """Writes page, figures and tables; returns the page's path.

    points              by exhibit, in the place of the plan's
    is_experiment       whether anything may be concluded: not from a rehearsal, nor from a demonstration, whose page has no
                        verdicts
    """
    found, faults = _read(results, console)
    evidence = Evidence.gather(found, plan or Plan(all_networks=True), points)
    if not any(evidence.has(name) for name in EXHIBITS):
        raise RecordError(f"no record in {results} belongs to an exhibit; `srnn reproduce copy` makes some")
    parts = []
    try:
        for folder in ("figures", "tables"):
            (out / folder).mkdir(parents=True, exist_ok=True)
        with Progress(console=console, transient=True) as bar:
            for exhibit in bar.track(EXHIBITS.values(), description="drawing"):
                if points is None or evidence.has(exhibit.id):
                    parts.append(_part(exhibit, evidence, out))
        judged = verdicts(evidence) if is_experiment else []
        if judged:
            _write_table(verdict_table(judged), out)
        page = out / "index.html"
        store.replace(page, _page(judged, parts, evidence, found, faults, lead).encode())
    except OSError as error:
        if isinstance(error, StorageError):
            raise
        raise StorageError(f"{out} cannot be written: {error.strerror}; give another --out") from error
    return page


def read(results: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """All records of a folder, and what is wrong with lines that hold none."""
    if not any(results.glob("*.jsonl")):
        raise RecordError(f"there are no records in {results}; make some with: srnn reproduce copy (or name another --results)")
    recorded = records.read(results)
    return [each.to_json() for each in recorded.found], list(recorded.faults)


def _read(results: Path, console: Console) -> tuple[list[dict[str, Any]], list[str]]:
    """The same, with what is wrong told at once."""
    found, faults = read(results)
    for fault in faults:
        console.print(fault, markup=False, highlight=False, soft_wrap=True)
    return found, faults


def fill_readme(results: Path, readme: Path, console: Console, plan: Plan | None = None) -> None:
    """Puts verdicts and two figures into a README; numbers and rules go to docs/verdicts.md, figures to docs/figures."""
    found, _ = _read(results, console)
    evidence = Evidence.gather(found, plan or Plan(all_networks=True))
    drawn = readme_figures(evidence)
    text = store.filled(readme, "verdicts", readme_block(evidence, drawn[:2]))  # raises before anything is written
    folder = readme.parent / "docs" / "figures"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in set(README_FIGURES) - {figure.name for figure in drawn}:
            (folder / f"{name}.svg").unlink(missing_ok=True)  # of records that are no longer there
        for figure in drawn:
            plot.save(figure, folder, ["svg"])
    except OSError as error:
        raise StorageError(f"{folder} cannot be written: {error.strerror}") from error
    store.replace(folder.parent / "verdicts.md", verdict_document(evidence, found).encode())
    store.replace(readme, text)


def readme_figures(evidence: Evidence) -> list[Figure]:
    """The first two are for the README, the others for the documents beside it."""
    return [figure for name in README_FIGURES for figure in figures(EXHIBITS[name], evidence)[:1]]


def readme_block(evidence: Evidence, drawn: Sequence[Figure]) -> str:
    judged = verdicts(evidence)
    rows = tuple((str(each.claim.number), each.claim.says, each.verdict) for each in judged)
    shown = Table("verdicts", _summary(judged), ("claim", "the paper says", "verdict"), rows)
    pictures = [f"![{figure.alt}](docs/figures/{figure.name}.svg)" for figure in drawn]
    return "\n\n".join([shown.as_markdown().rstrip(), *pictures])


def verdict_document(evidence: Evidence, found: Sequence[Mapping[str, Any]]) -> str:
    """The verdicts with numbers and rules, and what we found, for those who read the repository and not the page."""
    judged = verdicts(evidence)
    origin = "Made from records by `srnn report --readme README.md`; `srnn report` makes a page with all tables and figures."
    lines = ["# Does the paper hold?", origin]
    lines += [verdict_table(judged).as_markdown().rstrip(), "## How a verdict is made", *ABOUT]
    lines += ["## What we found about the published experiments"]
    lines += [f"**{each.title}.** {each.text} {each.seen}" for each in findings(evidence)]
    return "\n\n".join([*lines, "## Records", _about(found)]) + "\n"


def _summary(judged: Sequence[Verdict]) -> str:
    counts = Counter(each.verdict for each in judged)
    return f"Verdicts on {len(judged)} claims: " + "; ".join(f"{name}: {counts[name]}" for name in VERDICTS if counts[name])


def _part(exhibit: Exhibit, evidence: Evidence, out: Path) -> dict[str, Any]:
    """A section of the page, its files written."""
    shown, drawn = tables(exhibit, evidence), figures(exhibit, evidence)
    for table in shown:
        _write_table(replace(table, notes=(*table.notes, *exhibit.departures)), out)  # which the page says once
    for figure in drawn:
        plot.save(figure, out / "figures")
    planned = evidence.planned[exhibit.id]
    made = {key: len(found) for key, found in evidence.results[exhibit.id].items()} | dict.fromkeys(
        evidence.measured[exhibit.id], 1
    )
    return {
        "exhibit": exhibit,
        "tables": shown,
        "figures": [
            {
                "name": figure.name,
                "caption": figure.caption,
                "alt": figure.alt,
                "legend": [(label, colour, plot.sample(dash)) for label, colour, dash in figure.legend],
                "panels": [markupsafe.Markup(svg) for svg in plot.inline(figure)],
            }
            for figure in drawn
        ],
        "planned": sum(planned.values()),
        "recorded": sum(count for key, count in made.items() if planned[key]),  # others are beyond the plan
        "runs": _runs(exhibit, evidence),
        "departures": exhibit.departures,
    }


def _write_table(table: Table, out: Path) -> None:
    for suffix, text in (("csv", table.as_csv()), ("md", table.as_markdown()), ("tex", table.as_latex())):
        (out / "tables" / f"{table.name}.{suffix}").write_text(text, encoding="utf-8")


def _runs(exhibit: Exhibit, evidence: Evidence) -> list[tuple[str, ...]]:
    """The records behind an exhibit: what was run, how it ended, and by which sources."""
    rows: list[tuple[str, ...]] = [
        (
            each.id,
            f"{line}, {x}, seed {each.seed}",
            _settings(each.run),
            f"{each.parameters:,}",
            f"{each.updates:,}",
            str(each.record["ended_by"]),
            f"{each.seconds:,.0f} ({each.cpu_seconds:,.0f})",
            _commit(each.record),
        )
        for (line, x), results in evidence.results[exhibit.id].items()
        for each in results
    ]
    known = {each.id: each.record for points in evidence.results.values() for found in points.values() for each in found}
    for (line, x), record in evidence.measured[exhibit.id].items():
        after = _trained(record.get("trained"), known.get(record["measurement"]["run"]))
        settings = ", ".join(f"{name} {plain(value)}" for name, value in record["measurement"]["settings"].items())
        rows.append((record["id"], f"{line}, {x}", settings, "", after, "", f"{record['seconds']:,.0f}", _commit(record)))
    return rows


def _trained(trained: Mapping[str, Any] | None, recorded: Mapping[str, Any] | None) -> str:
    """How far the weights were trained that were measured, and whether they are those of the recorded run.

    They are of a run made again where its folder was gone; later sources, or a clock, may let it come out otherwise.
    """
    if trained is None:
        return ""
    said = f"after {trained['updates']:,} updates"
    ours, theirs = ((each or {}).get("result") or (each or {}).get("training") or {} for each in (trained, recorded))
    a, b = (each.get("value", each.get("lowest")) for each in (ours, theirs))
    return said if a is None or b is None or a == b else f"{said}, made again: {number(a)}, recorded {number(b)}"


def _settings(run: Mapping[str, Any]) -> str:
    """Network and training of a run, as far as they are worth a word."""
    network = ", ".join(f"{name} {plain(value)}" for name, value in run["network"].items() if name != "name")
    said = ("task", "network", "optimizer", "lr", "batch_size", "recipe", "seed", "threads")
    more = "".join(
        f", {name} {plain(run[name])}" for name, usual in DEFAULTS.items() if name not in said and run.get(name, usual) != usual
    )
    return f"{network}; {run['optimizer']} {run['lr']}, batch {run['batch_size']}{more}; recipe {run['recipe']}"


def _commit(record: Mapping[str, Any]) -> str:
    commit = record.get("commit", {})
    return str(commit.get("id", "unknown"))[:10] + (" + changes" if commit.get("dirty") is True else "")


def _page(
    judged: Sequence[Verdict],
    parts: Sequence[Mapping[str, Any]],
    evidence: Evidence,
    found: Sequence[Mapping[str, Any]],
    faults: Sequence[str],
    lead: str,
) -> str:
    loader = jinja2.PackageLoader("srnn.lab.report", "")
    here = jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined)
    here.filters |= {"slug": _slug, "code": _code}
    counts = Counter(each.verdict for each in judged)
    for part in parts:
        part["claims"] = [each.claim.number for each in judged if each.claim.exhibit == part["exhibit"].id]  # type: ignore[index]
    source = loader.get_source(here, "page.css")[0]
    return here.get_template("page.html").render(
        title=TITLE if judged else "Shuffling Recurrent Neural Networks: what these runs show",
        style=markupsafe.Markup(source),
        lead=lead or LEAD,
        rules=ABOUT,
        counts=[(name, counts[name]) for name in VERDICTS],
        verdicts=judged,
        exhibits=parts,
        shown=[part["exhibit"].id for part in parts],
        findings=list(findings(evidence)) if judged else [],
        about=_about(found),
        machines=_machines(found),
        failures=[f"{record['id']}: {record.get('error', 'unknown')}" for record in found if record["kind"] == "failure"],
        faults=faults,
    )


LEAD = (
    "Rotman and Wolf (2020) propose a recurrent network whose state is shifted, not multiplied. Here are the tables and "
    "figures of their paper, as far as they were measured again on an ordinary CPU, and what that says about each of their "
    "claims."
)


def _about(found: Sequence[Mapping[str, Any]]) -> str:
    runs = [record for record in found if record["kind"] == "run"]
    hours = sum(record["cpu_seconds"] for record in runs) / 3600
    rest = sum(record["kind"] == "measurement" for record in found)
    return (
        f"{len(runs)} runs, {hours:.1f} hours of one core, and {rest} measurements. A record holds all settings, the seed, the "
        "commit, versions, the machine and the curve; the same settings give the same bits on the same machine with the same "
        f"sources, as far as a run goes: where it ends, a clock may say. {_shared(runs)}"
    )


def _shared(runs: Sequence[Mapping[str, Any]]) -> str:
    """How many runs had to share their core: only its seconds count, but those of a busy machine are slower."""
    parts = []
    for name, is_ours in (("SRNN", True), ("its rivals", False)):
        found = [record for record in runs if (record["run"]["network"]["name"] == "srnn") is is_ours]
        shared = sum(record["seconds"] > 1.3 * record["cpu_seconds"] for record in found)
        parts.append(f"{shared} of {len(found)} runs of {name}")
    return (
        f"The time by the clock is more than 1.3 times that of the core in {' and '.join(parts)}: they shared it with other "
        "work. Only seconds of the core are compared; those of a busy machine may be slower ones."
    )


def _machines(found: Sequence[Mapping[str, Any]]) -> list[str]:
    kinds = Counter(
        f"{record['machine']['cpu']}, {record['machine']['cores']} cores, torch {record['versions']['torch']}, "
        f"srnn {record['versions']['srnn']}"
        for record in found
        if "machine" in record
    )
    return [f"{count} records: {kind}." for kind, count in kinds.most_common()]


def _slug(text: str) -> str:
    return re.sub(r"[^a-z]+", "-", text.lower()).strip("-")


def _code(text: str) -> markupsafe.Markup:
    """`words` as code."""
    return markupsafe.Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(markupsafe.escape(text))))
