"""Tables of an exhibit, ours beside the paper's, to be written as HTML, CSV, Markdown or LaTeX."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from srnn.display import number
from srnn.paper import Exhibit
from srnn.report.claims import Verdict
from srnn.report.evidence import Evidence, Result, mean
from srnn.report.table import Table

NOT_RUN = "not run"
CUT = "*"  # marks a number made with fewer updates than planned
SHORT = {"copy": "copying memory", "adding": "adding", "pmnist": "pMNIST", "bigpmnist": "big pMNIST", "speech": "speech"}


def verdict_table(verdicts: Sequence[Verdict]) -> Table:
    rows = tuple(
        (str(each.claim.number), each.claim.says, each.verdict, each.found, each.claim.rule, each.claim.exhibit)
        for each in verdicts
    )
    return Table("verdicts", "What the paper claims, and what we measured", VERDICT_HEADINGS, rows)


VERDICT_HEADINGS = ("claim", "the paper says", "verdict", "measured", "it holds when", "exhibit")


def tables(exhibit: Exhibit, evidence: Evidence) -> list[Table]:
    """Those of an exhibit: all that was run beside what is in print."""
    return list(SPECIAL.get(exhibit.id, plain_tables)(exhibit, evidence))


def plain_tables(exhibit: Exhibit, evidence: Evidence) -> Iterator[Table]:
    """A row for each line, a column for each place, and one beside it where the paper has a number."""
    in_print = {**exhibit.quoted, **exhibit.published}
    lines, places = _lines(exhibit, evidence), list(dict.fromkeys(x for _, x in evidence.planned[exhibit.id]))
    printed = [x for x in dict.fromkeys(x for _, x in in_print) if x in places]
    headings = [exhibit.axis]
    for x in places:
        headings += [_place(x)] + ([f"{_place(x)}, paper"] if x in printed else [])
    rows = []
    for line in lines:
        row = [line]
        for x in places:
            planned = evidence.planned[exhibit.id].get((line, x), 0)
            row.append(cell(evidence.results[exhibit.id].get((line, x), ()), planned > 0))
            if x in printed:
                row.append(_printed(exhibit, line, x))
        rows.append(tuple(row))
    notes = [f"{exhibit.metric}; ± is half the range over seeds."]
    if any(CUT in text for row in rows for text in row[1:]):
        notes.append(f"{CUT} ended by its time, with the share of its updates in brackets: not to be read as equal.")
    if exhibit.quoted:
        notes.append("Numbers in brackets in a column of the paper are quoted there from other work.")
    yield Table(exhibit.id, f"{exhibit.title}: ours and the paper's", tuple(headings), tuple(rows), tuple(notes))


def _lines(exhibit: Exhibit, evidence: Evidence) -> list[str]:
    """All lines that are planned, and others where they were run."""
    ran = {line for line, _ in evidence.results[exhibit.id]}
    return list(dict.fromkeys(line for (line, _), count in evidence.planned[exhibit.id].items() if count or line in ran))


def cell(results: Sequence[Result], planned: bool) -> str:
    """A value with its spread, marked where it was cut short."""
    if not results:
        return NOT_RUN if planned else ""
    value = mean(results)
    if value is None:
        return f"diverged after {min(each.updates for each in results)} updates"
    values = [each.value or 0.0 for each in results]
    text = number(value) + (f" ± {number((max(values) - min(values)) / 2)}" if len(values) > 1 else "")
    share = min(each.share for each in results)
    return text if all(each.is_whole for each in results) else f"{text}{CUT} ({share:.0%})"


def _printed(exhibit: Exhibit, line: str, x: Any) -> str:
    if (line, x) in exhibit.published:
        return f"{exhibit.published[line, x]:.2f}"
    return f"({exhibit.quoted[line, x]:.2f})" if (line, x) in exhibit.quoted else ""


def _place(x: Any) -> str:
    return SHORT.get(str(x), str(x))


def label_tables(exhibit: Exhibit, evidence: Evidence) -> Iterator[Table]:
    """Accuracy, and epochs to 90 %."""
    yield from plain_tables(exhibit, evidence)
    places = list(dict.fromkeys(x for _, x in evidence.planned["randomlabels"]))
    rows = []
    for line in _lines(exhibit, evidence):
        row = [line]
        for x in places:
            results = evidence.results["randomlabels"].get((line, x), ())
            updates = results[0].updates_to(90) if results else None
            epochs = (
                f"{updates * results[0].record['epochs'] / results[0].updates:.0f}" if updates is not None else "not reached"
            )
            row.append(epochs if results else NOT_RUN)
        rows.append(tuple(row))
    yield Table(
        "randomlabels-epochs", "Epochs until 90 % of the random labels are known", ("samples", *map(str, places)), tuple(rows)
    )


TIMED = ("copy", "adding", "pmnist", "speech")


def runtime_tables(exhibit: Exhibit, evidence: Evidence) -> Iterator[Table]:
    """Time of a training step over that of SRNN, here and in print; then what it is in an epoch."""
    found = {task: evidence.measured["runtime"].get(("all", task)) for task in TIMED}
    published = exhibit.published
    names = list(dict.fromkeys(name for each in found.values() if each for name in each["times_srnn"]))
    headings = ["network"]
    for task in TIMED:
        headings += [SHORT[task], f"{SHORT[task]}, paper"]
    rows, epochs = [], []
    for name in names or [*{line for line, _ in published}]:
        row, seconds = [name], [name]
        for task in TIMED:
            each = found[task]
            paper = published[name, task] / published["srnn", task] if (name, task) in published else None
            row.append(NOT_RUN if each is None else f"{each['times_srnn'][name]:.2f}" if name in each["times_srnn"] else "—")
            row.append("" if paper is None else f"{paper:.2f}")
            seconds.append(_epoch(task, each, name))
            seconds.append(f"{published[name, task]:.2f}" if (name, task) in published and task != "speech" else "")
        rows.append(tuple(row))
        epochs.append(tuple(seconds))
    notes = (
        "Times SRNN with real inputs (dense), in one run, all networks taking turns. Plain loop: SRNN without a compiled "
        "kernel. Alphabet: SRNN on symbols, which its rivals have no form for.",
    )
    yield Table("runtime", "Time of a training step, as a multiple of SRNN's", tuple(headings), tuple(rows), notes)
    more = (
        "Batch 100, 128 units: 1000 sequences of copy (T 300), 10,000 of adding (T 300), 50,000 of pMNIST; speech in "
        "milliseconds per 1000 frames, since the corpus differs. Seconds of this machine and of the authors' GPU: only "
        "ratios compare.",
    )
    yield Table("runtime-epochs", "Seconds of a training epoch", tuple(headings), tuple(epochs), more)


SEQUENCES = {"copy": 1000, "adding": 10_000, "pmnist": 50_000}


def _epoch(task: str, found: Any, name: str) -> str:
    if found is None:
        return NOT_RUN
    if name not in found["milliseconds"]:
        return "—"
    step, sizes = found["milliseconds"][name], found["sizes"]
    if task == "speech":
        return f"{1000 * step / sizes['N'] / sizes['T']:.2f}"
    return f"{step / 1000 * SEQUENCES[task] / sizes['N']:.3g}"


def growth_tables(exhibit: Exhibit, evidence: Evidence) -> Iterator[Table]:
    orders = {"srnn": "T d_h d_i", "urnn": "T d_h log d_h + T d_h d_i"}
    rows = []
    for name in ("rnn", "lstm", "gru", "nru", "urnn", "srnn"):
        row = [name, orders.get(name, "T d_h² + T d_h d_i")]
        for over in ("units", "steps"):
            found = evidence.measured["timecomplexity"].get((name, over))
            row.append(NOT_RUN if found is None else f"{found['exponent']:.2f} ± {found['margin']:.2f}")
            row.append(f"{exhibit.published[name, over]}")
        rows.append(tuple(row))
    headings = ("network", "cost by the paper", "exponent in d_h", "d_h, paper", "exponent in T", "T, paper")
    notes = (
        "One sequence, d_i = 128, f_r as wide as the input, one thread; 95 % interval of a straight line through the larger "
        "half of the sizes (128 to 4096). uRNN applies its factors at every step.",
    )
    yield Table("timecomplexity", "How the time of a gradient step grows", headings, tuple(rows), notes)


def gradient_tables(exhibit: Exhibit, evidence: Evidence) -> Iterator[Table]:
    measured = evidence.measured["gradients"]
    rows = []
    for task in ("adding", "copy"):
        for name in ("srnn", "rnn", "lstm", "gru"):
            for state in ("untrained", "trained"):
                row = [f"{name} on {task}, {state}"]
                for T in _lengths(evidence):
                    found = measured.get((row[0], T))
                    row.append(NOT_RUN if found is None else _first_over_last(found["norm"]))
                rows.append(tuple(row))
    headings = ("|dL/dh_1| over |dL/dh_T|", *(f"T = {T}" for T in _lengths(evidence)))
    notes = (
        "Median over seeds (untrained 5, trained 1). On copy every step has its part of the loss; on adding the last alone.",
    )
    yield Table("gradients", "What is left of the gradient at the first step", headings, tuple(rows), notes)
    rows = []
    for task in ("adding", "copy", "pmnist"):
        for state in ("untrained", "trained"):
            found = measured.get((f"units on {task}, {state}", task))
            cells = [NOT_RUN] * 4
            if found:
                ks = [min(k, len(found["k"]) - 1) for k in (10, 100)]
                cells = [f"{_average(found[who], k):.2%}" for k in ks for who in ("newborn", "living")]
            rows.append((f"{task}, {state}", *cells))
    some = measured.get(("units on adding, untrained", "adding"))
    if some and len(some["k"]) > 100:
        for name, key in (("estimate of the paper", "paper"), ("symmetric walk", "walk")):
            rows.append((name, f"{some[key][10]:.2%}", "", f"{some[key][100]:.2%}", ""))
    headings = ("units alive after", "10 steps, newborn", "10, all alive", "100 steps, newborn", "100, all alive")
    yield Table("gradients-survival", "Units that have not met a zero", headings, tuple(rows))
    rows = []
    for state in ("untrained", "trained"):
        found = measured.get((f"the bound on adding, {state}", 200))
        cells = [NOT_RUN] * 2 if not found else [f"{sum(each) / len(each):.2%}" for each in found.values()]
        rows.append((f"adding, {state}", *cells))
    headings = ("share of units and weights that break the bound", "as printed", "absolute value inside the sum")
    yield Table("gradients-bound", "The bound on dh_t/db_k", headings, tuple(rows))
    rows = []
    for task in ("adding", "copy", "pmnist", "speech"):
        found = measured.get((f"b(x) on {task}, untrained", task))
        cells = [NOT_RUN] * 2 if not found else [f"{_mean(found['mean']):.3f}", f"{_mean(found['deviation']):.3f}"]
        rows.append((task, *cells))
    yield Table("gradients-drive", "b(x) at the beginning, N(0, 1) in the paper", ("task", "mean", "deviation"), tuple(rows))


def _lengths(evidence: Evidence) -> list[int]:
    return [x for x in dict.fromkeys(x for _, x in evidence.planned["gradients"]) if isinstance(x, int)]


def _first_over_last(norms: Sequence[Sequence[float]]) -> str:
    ratios = sorted(each[0] / each[-1] for each in norms if each[-1] > 0)
    return number(ratios[len(ratios) // 2]) if ratios else "0"


def _average(rows: Sequence[Sequence[float]], k: int) -> float:
    return sum(row[k] for row in rows) / len(rows)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def state_tables(exhibit: Exhibit, evidence: Evidence) -> Iterator[Table]:
    rows = []
    for task in ("adding", "copy", "pmnist", "speech"):
        found = evidence.measured["hiddenstate"].get(("srnn", task))
        if found is None:
            rows.append((SHORT[task], NOT_RUN, "", "", ""))
            continue
        for phase, each in found["phases"].items():
            numbers = (
                [f"{each['change']:.4f}", f"{each['zeroed']:.2%}", f"{each['alive']:.1%}"] if "change" in each else [""] * 3
            )
            rows.append((SHORT[task], phase, *numbers))
    headings = ("task", "phase", "relative change per step", "positive units set to zero per step", "positive units")
    yield Table("hiddenstate", "How much a step changes the state, the shift aside", headings, tuple(rows))


SPECIAL: dict[str, Callable[[Exhibit, Evidence], Iterator[Table]]] = {
    "runtime": runtime_tables,
    "timecomplexity": growth_tables,
    "gradients": gradient_tables,
    "hiddenstate": state_tables,
    "randomlabels": label_tables,
}
