"""Tables as text, written as CSV, Markdown or LaTeX, and the table that most exhibits share."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any

from srnn.lab.paper.evidence import CUT, Evidence, Result, star
from srnn.lab.paper.plan import OURS, TASKS, Exhibit, Key, Line, StartLine
from srnn.lab.training.progress import between, number

NOT_RUN = "not run"
IN_TIME = ", in the baselines' time"
LATEX: dict[str, Any] = {"\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "#": r"\#", "_": r"\_", "^": r"\^{}", "~": r"\~{}"}
LATEX |= {"|": r"\textbar{}", "±": r"$\pm$", "²": r"$^2$", "—": "---", "<": "$<$", ">": "$>$"}
SENTENCE = 40  # characters from which on a cell is set as a paragraph in LaTeX


@dataclass(frozen=True)
class Table:
    """A table of plain text. The first column names the row, and `notes` are shown below."""

    name: str
    caption: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()

    def as_csv(self) -> str:
        """Returns headings and rows."""
        file = io.StringIO()
        csv.writer(file, lineterminator="\n").writerows([self.headings, *self.rows])
        return file.getvalue()

    def as_markdown(self) -> str:
        """Returns the caption, the table and its notes."""
        lines = [self.headings, ("---",) * len(self.headings), *self.rows]
        body = "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
        return "\n\n".join([f"**{self.caption}**", body, *self.notes]) + "\n"

    def as_latex(self) -> str:
        """Returns a table environment, which needs the package booktabs."""

        def row(cells: Sequence[str]) -> str:
            return " & ".join(_latex(cell) for cell in cells) + r" \\"

        body = [row(self.headings), r"\midrule", *(row(cells) for cells in self.rows)]
        notes = [r"\par\footnotesize " + _latex(note) for note in self.notes]
        lines = ["% needs the package booktabs", r"\begin{table}", rf"\caption{{{_latex(self.caption)}}}"]
        lines += [rf"\label{{tab:{self.name}}}", rf"\begin{{tabular}}{{{self._columns()}}}", r"\toprule", *body, r"\bottomrule"]
        return "\n".join([*lines, r"\end{tabular}", *notes, r"\end{table}"]) + "\n"

    def _columns(self) -> str:
        """Returns LaTeX's column types: numbers flush right, sentences as paragraphs that share the width of the page."""
        longest = [max(len(row[k]) for row in (self.headings, *self.rows)) for k in range(len(self.headings))]
        share = 0.8 / max(1, sum(length > SENTENCE for length in longest))
        columns = [rf"p{{{share:.2f}\textwidth}}" if length > SENTENCE else "r" for length in longest]
        return "".join(["l" if columns[0] == "r" else columns[0], *columns[1:]])


def _latex(text: str) -> str:
    return text.translate(str.maketrans(LATEX))


def exhibit_table(exhibit: Exhibit, evidence: Evidence) -> Iterator[Table]:
    """Yields a table with a row for each line and a column for each place.

    The paper's numbers are in a column next to ours. A separate row shows what SRNN had reached when the clock stopped the
    baselines.
    """
    in_print = {**exhibit.quoted, **exhibit.published}
    printed = list(dict.fromkeys(x for _, x in in_print))
    places = list(dict.fromkeys([*(x for _, x in evidence.planned[exhibit.id]), *printed]))
    if all(isinstance(x, int) for x in places):
        places.sort()
    headings = [f"by {exhibit.axis}"]
    for x in places:
        place = TASKS.get(x, str(x))
        headings += [place] + ([f"{place}, paper"] if x in printed else [])
    rows: list[tuple[str, ...]] = []
    for line in dict.fromkeys([*shown_lines(exhibit, evidence), *(line for line, _ in in_print)]):
        rows += table_rows(exhibit, evidence, line.label, {(line, x): x in printed for x in places})
    caption = f"{exhibit.title}: ours and the paper's" if in_print else f"{exhibit.title}: what we measured"
    yield Table(exhibit.id, caption, tuple(headings), tuple(rows), notes(exhibit, evidence, rows))


def starts_table(exhibit: Exhibit, evidence: Evidence) -> Iterator[Table]:
    """Yields how many seeds of SRNN solve copy or adding with the library's start value, and with the paper's."""
    ran, planned = evidence.results[exhibit.id], evidence.planned[exhibit.id]
    keys = [(line, x) for line, x in planned if isinstance(line, StartLine)]
    if not keys:
        return
    lines, places = (list(dict.fromkeys(each)) for each in zip(*keys, strict=True))
    rows = [
        (f"gate_init {line.gate_init:g}", *(_solved(ran.get((line, x), ()), planned.get((line, x), 0)) for x in places))
        for line in lines
    ]
    note = (
        "Runs of the study in docs/learning.md, with the paper's other settings and seeds 21 to 30. They end when the mean "
        "loss of 500 updates is below a tenth of the chance level, on adding below 0.01, so only the updates they needed "
        "compare."
    )
    caption = f"{exhibit.title}: seeds that solve it by start value, and the updates they needed"
    yield Table(f"{exhibit.id}-starts", caption, (f"by {exhibit.axis}", *map(str, places)), tuple(rows), (note,))


def _solved(results: Sequence[Result], planned: int) -> str:
    if not results:
        return NOT_RUN
    needed = sorted(each.updates for each in results if each.ended_by == "stop_below")
    count = f"{len(needed)} of {len(results)}" + (f", {planned - len(results)} not run" if planned > len(results) else "")
    return f"{count}: {between(needed)}" if needed else count


def table_rows(exhibit: Exhibit, evidence: Evidence, label: str, keys: Mapping[Key, bool]) -> list[tuple[str, ...]]:
    """Returns a row of results, and one of what SRNN had reached when the clock stopped the baselines; only those with content.

    Args:
        exhibit: The exhibit.
        evidence: Our results.
        label: Name of the row.
        keys: A line and a place for each cell, and whether the paper's number has a cell next to it.
    """
    ran, planned = evidence.results[exhibit.id], evidence.planned[exhibit.id]
    row, earlier = [label], [label + IN_TIME]
    for (line, x), has_paper in keys.items():
        results = ran.get((line, x), ())
        wanted = planned.get((line, x), 0) or int((line, x) in exhibit.published)
        compared = [each for (other, at), found in ran.items() if at == x and other.base == line for each in found]
        row += [cell(results, wanted) + _fewer(results, ran.get((line.base, x), ()))]
        earlier += [by_then(results, compared)]
        if has_paper:
            row.append(number_in_print(exhibit, line, x))
            earlier.append("")
    return [tuple(each) for each in (row, earlier) if any(each[1:])]


def shown_lines(exhibit: Exhibit, evidence: Evidence) -> list[Line]:
    """Returns all lines that are planned, and others that were run; not those of another start value."""
    ran = {line for line, _ in evidence.results[exhibit.id]}
    lines = dict.fromkeys(line for (line, _), count in evidence.planned[exhibit.id].items() if count or line in ran)
    return [line for line in lines if not isinstance(line, StartLine)]


def _fewer(results: Sequence[Result], srnn: Sequence[Result]) -> str:
    """Returns the number of examples of an original recipe, if they are fewer than SRNN's and no clock stopped the run."""
    if not results or not srnn or results[0].run["recipe"] != "own" or not results[0].is_whole:
        return ""
    return f" ({results[0].examples:,} examples)" if results[0].examples < srnn[0].examples else ""


def by_then(srnn: Sequence[Result], baselines: Sequence[Result]) -> str:
    """Returns what SRNN had reached in the time of the baselines that the clock stopped, if it trained for longer."""
    limit = max((each.time for each in baselines if each.is_stopped), default=float("inf"))
    values = [value for each in srnn if (value := each.value_after(limit)) is not None]
    if not values or limit >= srnn[0].cpu_seconds:
        return ""
    about = _about(values, len(values)) + ([] if srnn[0].reports is None else ["validation"])
    return _with(number(_typical(values, srnn[0])), about)


def _typical(values: Sequence[float], result: Result) -> float:
    """Returns the mean, or the median of losses. Seeds that learned are far from the others, so no run is near the mean."""
    return fmean(values) if result.reports is not None else median(values)


def _about(values: Sequence[float], planned: int) -> list[str]:
    """Returns the lowest and the highest value, and the number of seeds."""
    seeds = f"{len(values)} of {planned} seeds" if len(values) < planned else f"{len(values)} seeds"
    about = [f"{number(min(values))} to {number(max(values))}"] if len(values) > 1 else []
    return about + ([seeds] if len(values) > 1 or planned > 1 else [])


def _with(text: str, about: Sequence[str]) -> str:
    return f"{text} ({', '.join(about)})" if about else text


def cell(results: Sequence[Result], planned: int) -> str:
    """Returns a value with its spread and seeds, and says if it was stopped by the clock or diverged.

    Args:
        results: One for each seed.
        planned: Number of seeds that are planned.
    """
    if not results:
        return NOT_RUN if planned else ""
    lost = [each for each in results if each.diverged]
    end = f"diverged after {min(each.updates for each in lost)} updates" if lost else ""
    values = [each.value for each in results if each.value is not None]
    if len(values) < len(results):
        return end or "no value"
    least, about = min(results, key=lambda each: (each.is_whole, each.share)), _about(values, planned)
    if not lost and not (least.network in OURS and least.is_whole):
        about += [least.training_done]
    text = _with(number(_typical(values, results[0])) + ("" if lost else star(results)), about)
    return f"{text}, {end}" if lost else text


def number_in_print(exhibit: Exhibit, line: Line, x: Any) -> str:
    """Returns what the paper has at a point; a number that it quotes is in brackets."""
    if (line, x) in exhibit.failed:
        return exhibit.failed[line, x]
    if (line, x) in exhibit.published:
        return f"{exhibit.published[line, x]:.2f}"
    return f"({exhibit.quoted[line, x]:.2f})" if (line, x) in exhibit.quoted else ""


def notes(exhibit: Exhibit, evidence: Evidence, rows: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Returns how to read these rows."""
    found = [f"{exhibit.metric[0].upper()}{exhibit.metric[1:]}."]
    if any(" seeds" in text for row in rows for text in row[1:]):
        found.append("For several seeds: the mean (the median of losses), the lowest and the highest.")
    if any(CUT in text for row in rows for text in row[1:]):
        found.append(f"{CUT} Ended before all planned updates, how many it made is in brackets: not an equal comparison.")
    if any("until solved" in text for row in rows for text in row[1:]):
        found.append("Until solved: the run ended because its score could not become better or was good enough.")
    if any(row[0].endswith(IN_TIME) for row in rows):
        found.append(
            "In the baselines' time: the same number, if SRNN had stopped with the last baseline. Test data are scored at the "
            "end only, so it is the best validation score by then if the task has one."
        )
    ran = evidence.results[exhibit.id].items()
    if any(line.recipe == "original" and each.run["recipe"] == "paper" for (line, _), seeds in ran for each in seeds):
        found.append("If a network's original recipe equals the paper's, both rows show the same run.")
    if exhibit.quoted:
        found.append("The paper quotes the numbers in brackets from other work.")
    return tuple(found)


def measured(evidence: Evidence, exhibit: str, line: Line, x: Any) -> Any:
    """Returns what was measured at a point, or None."""
    record = evidence.measured[exhibit].get((line, x))
    return None if record is None else record.found
