"""Table 4: Time of a training epoch."""

from collections.abc import Iterator
from typing import Any

from srnn.lab.paper.evidence import Evidence
from srnn.lab.paper.figure import Curve, Figure, Panel, unzip
from srnn.lab.paper.plan import OTHERS, TASKS, Exhibit, Line, Measurement, Plan, grid
from srnn.lab.paper.table import NOT_RUN, Table, measured
from srnn.lab.paper.verdicts import Judgement, check_idle, claim, combine

TIMED = ("copy", "adding", "pmnist", "speech")
BASELINES = ("rnn", "lstm", "gru", "nru", "urnn")
IN_TABLE, MORE = Line("", variant="Table 4"), Line("", variant="other networks")
# Names in a measurement: the form of SRNN that the others are compared with, and the form that reads symbols.
DENSE, ALPHABET = "srnn, dense", "srnn, alphabet"
# The paper's networks by these names. Its uRNN is factored; ours is not, so that it has no number in print.
PRINTED = {name: Line(name) for name in BASELINES[:-1]} | {DENSE: Line("srnn"), "urnn, factored": Line("urnn")}
PARAMETERS = {"rnn": "17k", "lstm": "67k", "gru": "50k", "nru": "102k", "urnn": "2k", "srnn": "5k"}  # in print
SEQUENCES = {"copy": 1000, "adding": 10_000, "pmnist": 50_000}  # of an epoch


def measurements(plan: Plan) -> Iterator[Measurement]:
    """Yields one measurement for each task."""
    short: dict[str, Any] = {"rounds": 1, "steps": 12} if plan.profile == "quick" else {}
    for task in TIMED:
        yield Measurement("runtime", IN_TABLE, task, "runtime", {"task": task} | short)
        if plan.all_networks:
            settings = {"task": task, "networks": sorted((*OTHERS, "nnrnn"))} | short
            yield Measurement("runtime", MORE, task, "runtime", settings)


def tables(exhibit: Exhibit, evidence: Evidence) -> Iterator[Table]:
    """Yields the time of a training step over that of SRNN, the time of an epoch, and parameters."""
    found: dict[str, dict[str, Any]] = {task: {} for task in TIMED}
    for (_, task), record in evidence.measured["runtime"].items():
        for part, numbers in record.found.items():
            if isinstance(numbers, dict):
                found[task][part] = found[task].get(part, {}) | numbers
    names = list(dict.fromkeys(name for each in found.values() for name in each.get("times_srnn", {})))
    headings = ("network", *(f"{TASKS[task]}{suffix}" for task in TIMED for suffix in ("", ", paper")))
    rows, epochs = [], []
    for name in names or [*BASELINES, DENSE]:
        row, seconds = [name], [name]
        for task in TIMED:
            ours, theirs = found[task], exhibit.published.get((PRINTED.get(name, MORE), task))
            times, quartiles = ours.get("times_srnn", {}).get(name), ours.get("quartiles", {}).get(name)
            spread = f" ({quartiles[0]:.2f} to {quartiles[1]:.2f})" if len(quartiles or ()) == 2 else ""
            none = "" if name == ALPHABET and task in ("adding", "speech") else NOT_RUN  # these have no symbols
            row.append(none if times is None else f"{times:.2f}{spread}")
            row.append("" if theirs is None else f"{theirs / exhibit.published[Line(), task]:.2f}")
            seconds += [_epoch(task, ours, name) or none, "" if theirs is None else f"{theirs:.2f}"]
        rows.append(tuple(row))
        epochs.append(tuple(seconds))
    note = (
        "As a multiple of SRNN with real inputs (dense): median and quartiles of rounds in which all networks take turns. "
        "Plain loop: SRNN as the reference computes it, step by step. Alphabet: SRNN on symbols. The baselines have no such "
        "form. uRNN in the paper is factored."
    )
    yield Table("runtime", "Time of a training step, as a multiple of SRNN's", headings, tuple(rows), (note,))
    note = (
        "Batch 100, 128 units: 1000 sequences of copy (T 300), 10,000 of adding (T 300), 50,000 of pMNIST. Our speech is in "
        "milliseconds per 1000 frames, since the corpus differs, the paper's in seconds. Seconds of this machine and of the "
        "authors' GPU: only ratios compare. No epoch was timed: it is the median of seven steps, times the steps of an epoch."
    )
    yield Table("runtime-epochs", "Seconds of a training epoch", headings, tuple(epochs), (note,))
    counts = found["adding"].get("parameters", {})
    sizes = [(name, f"{counts[name]:,}" if name in counts else NOT_RUN, text) for name, text in PARAMETERS.items()]
    yield Table("runtime-parameters", "Parameters on adding with 128 units", ("network", "ours", "paper"), tuple(sizes))


def _epoch(task: str, found: Any, name: str) -> str:
    if name not in found.get("milliseconds", {}):
        return ""
    step, sizes = found["milliseconds"][name], found["sizes"]
    if task == "speech":
        return f"{1000 * step / sizes['N'] / sizes['T']:.2f} ms"
    seconds = step / 1000 * SEQUENCES[task] / sizes["N"]
    return f"{seconds:,.0f}" if seconds >= 100 else f"{seconds:.3g}"


def figures(exhibit: Exhibit, evidence: Evidence) -> Iterator[Figure]:
    """Yields the time of each network as a multiple of that of SRNN."""
    panels = []
    for task in TIMED:
        found = measured(evidence, "runtime", IN_TABLE, task)
        if not found:
            continue
        names = list(found["times_srnn"])
        ours = [(found["times_srnn"][name], k) for k, name in enumerate(names)]
        printed = [(exhibit.published[PRINTED[name], task], k) for k, name in enumerate(names) if name in PRINTED]
        theirs = [(seconds / exhibit.published[Line(), task], k) for seconds, k in printed]
        curves = [Curve("here", *unzip(ours), "srnn", dots="o", thin=True)]
        curves.append(Curve("in the paper", *unzip(theirs), "gru", dots="o", thin=True, dashed=True))
        panels.append(Panel(TASKS[task], "times SRNN's time", "", curves, (), "x", names=names))
    alt = "Time of a training step of each network as a multiple of SRNN's, here and in the paper, one panel for each task."
    yield Figure("runtime", "Time of a training step as a multiple of SRNN's with real inputs.", alt, panels)


SLOWER = 5  # percent of the time of SRNN


@claim(26, "It is the fastest on all four tasks")
def fastest(evidence: Evidence) -> Judgement:
    """Holds when a training step of every baseline takes more than {SLOWER} % longer than SRNN's without its alphabet form, on
    an idle machine.
    """
    parts, said = [], []
    for task in TIMED:
        found = evidence.found("runtime", IN_TABLE, task)
        check_idle([found])
        times, name = min((found["times_srnn"][name], name) for name in BASELINES)
        parts.append(times > 1 + SLOWER / 100)
        said.append(f"{task}: {name} {times:.1f} times")
    about = "time of the fastest baseline over that of SRNN without its alphabet form"
    return Judgement(combine(parts), f"{about}: {', '.join(said)}", f"{times:.1f} times on {task}")


@claim(27, "Only uRNN has fewer parameters")
def few_parameters(evidence: Evidence) -> Judgement:
    """Holds when on adding, at the sizes of Table 4, uRNN alone of the five baselines has fewer parameters."""
    found = evidence.found("runtime", IN_TABLE, "adding")["parameters"]
    smaller = [name for name in BASELINES if found[name] < found["srnn"]]
    said = f"SRNN {found['srnn']:,}; " + ", ".join(f"{name} {found[name]:,}" for name in BASELINES)
    return Judgement(combine([smaller == ["urnn"]]), said, f"{found['srnn']:,} parameters")


EXHIBIT = Exhibit(
    "times SRNN's time",
    "task",
    published=grid(
        {
            Line("rnn"): (0.18, 1.53, 19.64, 1.76),
            Line("lstm"): (0.26, 1.76, 22.88, 1.80),
            Line("gru"): (0.19, 1.63, 17.43, 1.78),
            Line("nru"): (7.13, 61.77, 835.47, 42.98),
            Line("urnn"): (13.48, 112.78, 1510.54, 76.10),
            Line("srnn"): (0.07, 0.77, 8.59, 1.27),
        },
        TIMED,
    ),
    departures=(
        "Random data of the right shapes. Ratios of one training step, each network with its own optimizer, with two threads. "
        "On copy every baseline has an embedding. uRNN builds its matrix once for a sequence. Factored, it applies its factors "
        "at every step, as the paper's did.",
    ),
)
