"""Tables of an exhibit, ours beside the paper's, to be written as HTML, CSV, Markdown or LaTeX."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import fmean, median
from typing import Any

from srnn.lab.paper.claims import Verdict
from srnn.lab.paper.evidence import CLOCKS, CUT, Evidence, Result, first_over_last, mean
from srnn.lab.paper.plan import PARAMETERS_IN_PRINT, RIVALS, Exhibit, Key
from srnn.lab.paper.table import Table
from srnn.lab.training.progress import number

NOT_RUN = "not run"
IN_TIME = ", in its rivals' time"
SHORT = {"copy": "copying memory", "adding": "adding", "pmnist": "pMNIST", "bigpmnist": "big pMNIST", "speech": "speech"}


def verdict_table(verdicts: Sequence[Verdict]) -> Table:
    rows = tuple(
        (str(each.claim.number), each.claim.says, _said(each), each.found, each.claim.rule, each.claim.exhibit)
        for each in verdicts
    )
    return Table("verdicts", "What the paper claims, and what we measured", VERDICT_HEADINGS, rows)


def _said(verdict: Verdict) -> str:
    return verdict.verdict + (f" (the paper's own numbers, by this rule: {verdict.printed})" if verdict.printed else "")


VERDICT_HEADINGS = ("claim", "the paper says", "verdict", "measured", "it holds when", "exhibit")


def tables(exhibit: Exhibit, evidence: Evidence) -> list[Table]:
    """Those of an exhibit: all that was run beside what is in print."""
    return list(SPECIAL.get(exhibit.id, plain_tables)(exhibit, evidence))


def plain_tables(exhibit: Exhibit, evidence: Evidence) -> Iterator[Table]:
    """A row for each line, a column for each place, and one beside it where the paper has a number."""
    in_print = {**exhibit.quoted, **exhibit.published}
    lines = list(dict.fromkeys([*_lines(exhibit, evidence), *(line for line, _ in in_print)]))
    printed = list(dict.fromkeys(x for _, x in in_print))
    places = list(dict.fromkeys([*(x for _, x in evidence.planned[exhibit.id]), *printed]))
    if all(isinstance(x, int) for x in places):
        places.sort()
    headings = [f"by {exhibit.axis}"]
    for x in places:
        headings += [_place(x)] + ([f"{_place(x)}, paper"] if x in printed else [])
    rows, ran = [], evidence.results[exhibit.id]
    for line in lines:
        row = [line]
        for x in places:
            wanted = evidence.planned[exhibit.id].get((line, x), 0) or int((line, x) in exhibit.published)
            row.append(cell(ran.get((line, x), ()), wanted) + _fewer(ran.get((line, x), ()), ran.get(("srnn", x), ())))
            if x in printed:
                row.append(_printed(exhibit, line, x))
        rows.append(tuple(row))
        if line == "srnn" or (line.startswith("srnn, ") and exhibit.id == "randomlabels"):
            group = line.removeprefix("srnn")  # its rivals have the same ending
            rows.append((line + IN_TIME, *_in_their_time(ran, places, printed, group)))
    rows = [row for row in rows if any(row[1:])]
    notes = _notes(exhibit, rows, ran)
    caption = f"{exhibit.title}: ours and the paper's" if in_print else f"{exhibit.title}: what we measured"
    yield Table(exhibit.id, caption, tuple(headings), tuple(rows), notes)


def _fewer(results: Sequence[Result], ours: Sequence[Result]) -> str:
    """How many examples an own recipe gives to a rival, where these are fewer than SRNN's and no clock is to blame."""
    if not results or not ours or results[0].run["recipe"] != "own" or not results[0].is_whole:
        return ""
    return f" ({results[0].examples:,} examples)" if results[0].examples < ours[0].examples else ""


def _notes(exhibit: Exhibit, rows: Sequence[Sequence[str]], ran: Mapping[Key, Sequence[Result]]) -> tuple[str, ...]:
    """What is to be known to read these rows."""
    notes = [
        f"{exhibit.metric[0].upper()}{exhibit.metric[1:]}; of several seeds the mean (of losses the median), the "
        "lowest and the highest."
    ]
    if any(CUT in text for row in rows for text in row[1:]):
        notes.append(f"{CUT} ended by its time, with the share of its updates in brackets: not to be read as equal.")
    if any(row[0].endswith(IN_TIME) for row in rows):
        notes.append(
            "In its rivals' time: the best of the main seed's curve by then, where SRNN went on for longer; that curve is of "
            "validation data where there are such."
        )
    if any("own recipe" in line and each.run["recipe"] == "paper" for (line, _), found in ran.items() for each in found):
        notes.append("Where a network's own recipe is the paper's, both rows are one run.")
    if exhibit.quoted:
        notes.append("Numbers in brackets in a column of the paper are quoted there from other work.")
    return tuple(notes)


def _in_their_time(
    ran: Mapping[Key, Sequence[Result]], places: Sequence[Any], printed: Sequence[Any], group: str
) -> Iterator[str]:
    """Of SRNN at each place, where the clock gave less time to all rivals that it has ended; `group`: how lines must end."""
    for x in places:
        others = [each for (line, at), found in ran.items() if at == x and line.endswith(group) for each in found]
        yield _by_then(ran.get((f"srnn{group}", x), ()), others)
        if x in printed:
            yield ""


def _by_then(ours: Sequence[Result], others: Sequence[Result]) -> str:
    """The best of ours within the time of those that the clock has ended; nothing where ours took no longer."""
    cut = [each.time for each in others if each.record["ended_by"] in CLOCKS]
    shorter = ours and cut and max(cut) < ours[0].cpu_seconds
    best = ours[0].best(seconds=max(cut)) if shorter else None
    return "" if best is None else number(best)


SPEECH = {  # by heading what follows a network's name
    "echo": "",
    "prediction": ", predict",
    "echo, standardised": ", standardised",
    "prediction, standardised": ", predict, standardised",
}


def speech_tables(exhibit: Exhibit, evidence: Evidence) -> Iterator[Table]:
    """A row for each network and size, as in the paper: both directions, then both with standardised inputs."""
    ran, planned = evidence.results[exhibit.id], evidence.planned[exhibit.id]
    lines = [*_lines(exhibit, evidence), *(line for line, _ in (*exhibit.published, *exhibit.quoted))]
    rows: list[tuple[str, ...]] = []
    for network in dict.fromkeys(line.split(",")[0] for line in lines):
        names = [network + suffix for suffix in SPEECH.values()]
        sizes = {H for line, H in (*planned, *exhibit.published, *exhibit.quoted) if line in names}
        for H in sorted(sizes):
            echo, *others = (cell(ran.get((name, H), ()), planned.get((name, H), 0)) for name in names)
            rows.append((f"{network} {H}", echo, _printed(exhibit, network, H), *others))
            if network == "srnn":
                echo, *others = (
                    _by_then(
                        ran.get((name, H), ()),
                        [each for other in RIVALS for each in ran.get((other + suffix, H), ())],
                    )
                    for name, suffix in zip(names, SPEECH.values(), strict=True)
                )
                rows.append((f"{network} {H}{IN_TIME}", echo, "", *others))
    rows = [row for row in rows if any(row[1:])]
    first, *more = SPEECH
    headings = ("network and units", first, f"{first}, paper", *more)
    title = f"{exhibit.title}: ours and the paper's"
    yield Table(exhibit.id, title, headings, tuple(rows), _notes(exhibit, rows, ran))


def _lines(exhibit: Exhibit, evidence: Evidence) -> list[str]:
    """All lines that are planned, and others where they were run."""
    ran = {line for line, _ in evidence.results[exhibit.id]}
    return list(dict.fromkeys(line for (line, _), count in evidence.planned[exhibit.id].items() if count or line in ran))


def cell(results: Sequence[Result], planned: int) -> str:
    """A value with its spread and its seeds, marked where it was cut short or diverged. `planned` are seeds."""
    if not results:
        return NOT_RUN if planned else ""
    value, lost = mean(results), [each for each in results if each.diverged]
    end = f"diverged after {min(each.updates for each in lost)} updates" if lost else ""
    if value is None:
        return end or "no value"
    values = [each.value or 0.0 for each in results]
    if not results[0].has_split:  # losses of seeds that learned and of others lie far apart: their mean would be that of no run
        value = median(values)
    seeds = f"{len(values)} of {planned} seeds" if len(values) < planned else f"{len(values)} seeds"
    about = [f"{number(min(values))} to {number(max(values))}"] if len(values) > 1 else []
    about += [seeds] if len(values) > 1 or planned > 1 else []
    text = number(value) + (f" ({', '.join(about)})" if about else "")
    if lost:
        return f"{text}, {end}"
    share = min(each.share for each in results)
    return text if all(each.is_whole for each in results) else f"{text}{CUT} ({'<1%' if share < 0.01 else f'{share:.0%}'})"


def _printed(exhibit: Exhibit, line: str, x: Any) -> str:
    if (line, x) in exhibit.failed:
        return exhibit.failed[line, x]
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
            found = results[0].reached(90) if results else None
            missed = "not reached" if results and results[0].is_whole else f"not reached{CUT}"
            epochs = f"{found[0] * results[0].epochs / results[0].updates:.0f}" if found else missed
            row.append(epochs if results else NOT_RUN)
        rows.append(tuple(row))
    yield Table(
        "randomlabels-epochs", "Epochs until 90 % of the random labels are known", ("samples", *map(str, places)), tuple(rows)
    )


TIMED = ("copy", "adding", "pmnist", "speech")


def runtime_tables(exhibit: Exhibit, evidence: Evidence) -> Iterator[Table]:
    """Time of a training step over that of SRNN, here and in print; then what it is in an epoch; then parameters."""
    found: dict[str, dict[str, Any]] = {task: {} for task in TIMED}
    for (_, task), record in evidence.measured["runtime"].items():
        for part, numbers in record["found"].items():
            if isinstance(numbers, dict):
                found[task][part] = found[task].get(part, {}) | numbers
    names = list(dict.fromkeys(name for each in found.values() for name in each.get("times_srnn", {})))
    names = names or ["rnn", "lstm", "gru", "nru", "urnn", "srnn, dense"]
    headings = ("network", *(f"{SHORT[task]}{suffix}" for task in TIMED for suffix in ("", ", paper")))
    rows, epochs = [], []
    for name in names:
        row, seconds = [name], [name]
        for task in TIMED:
            ours, theirs = found[task], exhibit.published.get((PRINTED.get(name, name), task))
            times, spread = ours.get("times_srnn", {}).get(name), ours.get("quartiles", {}).get(name)
            none = "" if "alphabet" in name and task in ("adding", "speech") else NOT_RUN  # these have no symbols
            row.append(
                none if times is None else f"{times:.2f} ({spread[0]:.2f} to {spread[1]:.2f})" if spread else f"{times:.2f}"
            )
            row.append("" if theirs is None else f"{theirs / exhibit.published['srnn', task]:.2f}")
            seconds.append(_epoch(task, ours, name) or none)
            seconds.append("" if theirs is None else f"{theirs:.2f}")
        rows.append(tuple(row))
        epochs.append(tuple(seconds))
    notes = (
        "Times SRNN with real inputs (dense), median and quartiles of rounds in which all take turns. Plain loop: SRNN as the "
        "reference computes it, step by step. Alphabet: SRNN on symbols, which its rivals have no form for. uRNN in the paper "
        "is factored.",
    )
    yield Table("runtime", "Time of a training step, as a multiple of SRNN's", headings, tuple(rows), notes)
    more = (
        "Batch 100, 128 units: 1000 sequences of copy (T 300), 10,000 of adding (T 300), 50,000 of pMNIST; our speech in "
        "milliseconds per 1000 frames, since the corpus differs, the paper's in seconds. Seconds of this machine and of the "
        "authors' GPU: only ratios compare. No epoch was timed: it is the median of seven steps, times the steps of an epoch.",
    )
    yield Table("runtime-epochs", "Seconds of a training epoch", headings, tuple(epochs), more)
    counts = found["adding"].get("parameters", {})
    sizes = [(name, f"{counts[name]:,}" if name in counts else NOT_RUN, text) for name, text in PARAMETERS_IN_PRINT.items()]
    yield Table("runtime-parameters", "Parameters on adding with 128 units", ("network", "ours", "paper"), tuple(sizes))


PRINTED = {"srnn, dense": "srnn", "urnn, factored": "urnn", "urnn": "urnn as we train it"}
SEQUENCES = {"copy": 1000, "adding": 10_000, "pmnist": 50_000}


def _epoch(task: str, found: Any, name: str) -> str:
    if name not in found.get("milliseconds", {}):
        return ""
    step, sizes = found["milliseconds"][name], found["sizes"]
    if task == "speech":
        return f"{1000 * step / sizes['N'] / sizes['T']:.2f} ms"
    seconds = step / 1000 * SEQUENCES[task] / sizes["N"]
    return f"{seconds:,.0f}" if seconds >= 100 else f"{seconds:.3g}"


def growth_tables(exhibit: Exhibit, evidence: Evidence) -> Iterator[Table]:
    orders = {"srnn": "T d_h d_i", "urnn": "T d_h log d_h + T d_h d_i"}
    rows = []
    for name in ("rnn", "lstm", "gru", "nru", "urnn", "srnn"):
        row = [name, orders.get(name, "T d_h² + T d_h d_i")]
        for over in ("units", "steps"):
            found = _found(evidence, "timecomplexity", name, over)
            row.append(NOT_RUN if found is None else f"{found['exponent']:.2f} ± {found['margin']:.2f}")
            row.append(f"{exhibit.published[name, over]}")
        rows.append(tuple(row))
    headings = ("network", "cost by the paper", "exponent in d_h", "d_h, paper", "exponent in T", "T, paper")
    notes = (
        "One sequence, d_i = 128, f_r as wide as the input, one thread; 95 % interval of a straight line through the "
        "logarithms at 512, 1024, 2048 and 4096. Above 2 are networks whose weights no longer fit into the caches. uRNN "
        "applies its factors at every step; their fixed cost hides how they grow, so its small exponent is not that of its "
        "arithmetic.",
    )
    yield Table("timecomplexity", "How the time of a gradient step grows", headings, tuple(rows), notes)


def gradient_tables(exhibit: Exhibit, evidence: Evidence) -> Iterator[Table]:
    rows: list[tuple[str, ...]] = []
    for task in ("adding", "copy"):
        for name in ("srnn", "rnn", "lstm", "gru"):
            for state in ("untrained", "trained"):
                row = [f"{name} on {task}, {state}"]
                for T in _lengths(evidence):
                    found = _found(evidence, "gradients", row[0], T)
                    ratios = [] if found is None else [first_over_last([seed]) for seed in found["norm"]]
                    row.append(NOT_RUN if not ratios else _seeds(ratios) if len(ratios) > 1 else number(ratios[0]))
                rows.append(tuple(row))
    headings = ("|dL/dh_t| at T / 100 over that at T", *(f"T = {T}" for T in _lengths(evidence)))
    notes = (
        "Median over seeds, lowest and highest (untrained 5, trained 1). On copy every step has its part of the loss; on "
        "adding the last alone.",
    )
    yield Table("gradients", "What is left of the gradient at the first hundredth", headings, tuple(rows), notes)
    yield _weight_table(evidence)
    rows = []
    for task in ("adding", "copy", "pmnist"):
        for state in ("untrained", "trained"):
            found = _found(evidence, "gradients", f"units on {task}, {state}", task)
            cells = [NOT_RUN] * 4
            if found:
                ks = [min(k, len(found["k"]) - 1) for k in (10, 100)]
                cells = [f"{_average(found[who], k):.2%}" for k in ks for who in ("newborn", "living")]
            rows.append((f"{task}, {state}", *cells))
    some = _found(evidence, "gradients", "units on adding, untrained", "adding")
    if some and len(some["k"]) > 100:
        for name, key in (("estimate of the paper", "paper"), ("symmetric walk", "walk")):
            rows.append((name, f"{some[key][10]:.2%}", "", f"{some[key][100]:.2%}", ""))
    headings = ("units alive after", "10 steps, newborn", "10, all alive", "100 steps, newborn", "100, all alive")
    yield Table("gradients-survival", "Units that have not met a zero", headings, tuple(rows))
    rows = []
    for state in ("untrained", "trained"):
        found = _found(evidence, "gradients", f"the bound on adding, {state}", 200)
        cells = [NOT_RUN] * 2 if not found else [f"{sum(each) / len(each):.2%}" for each in found.values()]
        rows.append((f"adding, {state}", *cells))
    headings = ("share of units and weights that break the bound", "as printed", "absolute value inside the sum")
    yield Table("gradients-bound", "The bound on dh_t/db_k", headings, tuple(rows))
    rows = []
    for task in ("adding", "copy", "pmnist", "speech"):
        found = _found(evidence, "gradients", f"b(x) on {task}, untrained", task)
        cells = [NOT_RUN] * 2 if not found else [f"{fmean(found['mean']):.3f}", f"{fmean(found['deviation']):.3f}"]
        rows.append((task, *cells))
    yield Table("gradients-drive", "b(x) at the beginning, N(0, 1) in the paper", ("task", "mean", "deviation"), tuple(rows))


def _weight_table(evidence: Evidence) -> Table:
    """|dL/dtheta| of the recurrent layer over T, which a gradient that explodes would let grow."""
    rows = []
    for name in ("srnn", "rnn", "lstm", "gru"):
        line = f"{name} on adding, untrained"
        found = [_found(evidence, "gradients", line, T) for T in _lengths(evidence)]
        rows.append((line, *(NOT_RUN if each is None else _seeds(each["weights"]) for each in found)))
    headings = ("|dL/dtheta| of the layer", *(f"T = {T}" for T in _lengths(evidence)))
    notes = ("Median over seeds, the lowest and the highest.",)
    return Table("gradients-weights", "The gradient of the weights at growing lengths", headings, tuple(rows), notes)


def _seeds(values: Sequence[float]) -> str:
    return f"{number(median(values))} ({number(min(values))} to {number(max(values))})"


def _found(evidence: Evidence, exhibit: str, line: str, x: Any) -> Any:
    """What was measured at a point; None where nothing was."""
    record = evidence.measured[exhibit].get((line, x))
    return None if record is None else record["found"]


def _lengths(evidence: Evidence) -> list[int]:
    return [x for x in dict.fromkeys(x for _, x in evidence.planned["gradients"]) if isinstance(x, int)]


def _average(rows: Sequence[Sequence[float]], k: int) -> float:
    return sum(row[k] for row in rows) / len(rows)


def state_tables(exhibit: Exhibit, evidence: Evidence) -> Iterator[Table]:
    rows = []
    for task in ("adding", "copy", "pmnist", "speech"):
        found = _found(evidence, "hiddenstate", "srnn", task)
        if found is None:
            rows.append((SHORT[task], NOT_RUN, "", "", "", ""))
            continue
        for phase, each in found["phases"].items():
            forms = {"change": ".4f", "drift": ".2f", "zeroed": ".2%", "alive": ".1%"}
            rows.append((SHORT[task], phase, *(f"{each[what]:{form}}" if what in each else "" for what, form in forms.items())))
        rows.append((SHORT[task], "lasting units dropped per step", "", "", f"{found['dropped']:.2%}", ""))
    headings = (
        "task",
        "phase",
        "relative change per step",
        "over the phase",
        "positive units set to zero per step",
        "positive",
    )
    notes = (
        "Over the phase: from its first step to its last, as a share of the larger state. Lasting units were positive for ten "
        "steps; setting others to zero may be no more than flicker.",
    )
    yield Table("hiddenstate", "How much a step changes the state, the shift aside", headings, tuple(rows), notes)


SPECIAL: dict[str, Callable[[Exhibit, Evidence], Iterator[Table]]] = {
    "runtime": runtime_tables,
    "timecomplexity": growth_tables,
    "gradients": gradient_tables,
    "hiddenstate": state_tables,
    "randomlabels": label_tables,
    "timit": speech_tables,
}
