"""Figures 5 and 6: The hidden state over time."""

from collections.abc import Iterator
from typing import Any

from srnn.lab.paper.evidence import Evidence, Missing
from srnn.lab.paper.figure import Figure, Panel
from srnn.lab.paper.plan import EXAMINED, TASKS, Exhibit, Line, Measurement, Plan
from srnn.lab.paper.table import NOT_RUN, Table, measured
from srnn.lab.paper.verdicts import Judgement, claim, combine

# The paper's picture of adding: its length, and the steps that it marks.
LENGTH, MARKERS = 400, (76, 336)
LONG = Line(variant=f"T = {LENGTH}")
SHOWN = {(Line(), task): TASKS[task] for task in EXAMINED} | {(LONG, "adding"): f"{TASKS['adding']}, {LONG.variant}"}


def measurements(plan: Plan) -> Iterator[Measurement]:
    """Yields one measurement for each task."""
    for task, how in EXAMINED.items():
        settings = {"steps": 151} if task == "speech" else {}  # and 2048 units, as in Figure 6
        size: dict[str, Any] = {"hidden_size": 2048} if task == "speech" else {}
        run = plan.point(Line(), task, task, **how, **size).run
        yield Measurement("hiddenstate", Line(), task, "hiddenstate", settings, run, trained=True)
    run = plan.point(Line(), LONG.variant, "adding", length=LENGTH).run
    yield Measurement("hiddenstate", LONG, "adding", "hiddenstate", {"markers": list(MARKERS)}, run, trained=True)


def tables(exhibit: Exhibit, evidence: Evidence) -> Iterator[Table]:
    """Yields how much the state changes in each phase."""
    forms = {"change": ".4f", "drift": ".2f", "zeroed": ".2%", "alive": ".1%"}
    rows = []
    for (line, task), title in SHOWN.items():
        found = measured(evidence, "hiddenstate", line, task)
        if found is None:
            rows.append((title, NOT_RUN, "", "", "", ""))
            continue
        for phase, each in found["phases"].items():
            rows.append((title, phase, *(f"{each[what]:{form}}" if what in each else "" for what, form in forms.items())))
        rows.append((title, "lasting units dropped per step", "", "", f"{found['dropped']:.2%}", ""))
    changes = ("relative change per step", "over the phase", "positive units set to zero per step", "positive")
    headings = ("task", "phase", *changes)
    notes = (
        "Over the phase: from its first step to its last, as a share of the larger state. Lasting units were positive for ten "
        "steps. Other units that are set to zero may only flicker.",
    )
    yield Table("hiddenstate", "How much a step changes the state, the shift aside", headings, tuple(rows), notes)


def figures(exhibit: Exhibit, evidence: Evidence) -> Iterator[Figure]:
    """Yields pictures of the states."""
    panels = []
    for (line, task), title in SHOWN.items():
        found = measured(evidence, "hiddenstate", line, task)
        if found:
            units = f"{found['units_drawn']} of {found['units']} units" if found["units_drawn"] < found["units"] else "units"
            panels.append(Panel(title, "step", units, png=found["png"], marks=found["markers"]))
    alt = (
        "Hidden states as pictures, units downwards and steps to the right, with the shift undone: copying memory, adding with "
        "arrows at its two markers, pMNIST and speech."
    )
    yield Figure("hiddenstate", "Hidden states of trained networks, brighter is larger. Arrows are markers.", alt, panels)


def _phase(evidence: Evidence, task: str, name: str, what: str) -> float:
    """Returns a number of one phase of a task's states."""
    phase = evidence.found("hiddenstate", Line(), task)["phases"][name]
    if what not in phase:
        raise Missing(f"the states of {task} have no step {name}")
    return float(phase[what])


CALMER, DRIFT = 5, 50  # times less than at a marker; percent of the state


@claim(20, "On adding the state has three bands, cut by the markers")
def three_bands(evidence: Evidence) -> Judgement:
    """Holds when before, between and after the markers, without the first ten steps, a step changes it less than 1/{CALMER} of
    what a marker does, and from the first step of a band to its last it changes by less than {DRIFT} %.
    """
    at = _phase(evidence, "adding", "at the markers", "change")
    bands = {
        band: [_phase(evidence, "adding", band, what) for what in ("change", "drift")]
        for band in ("before the markers", "between them", "after them")
    }
    parts = [change < at / CALMER and drift < DRIFT / 100 for change, drift in bands.values()]
    said = "; ".join(f"{band} {change:.3f} a step, {drift:.2f} in all" for band, (change, drift) in bands.items())
    key = f"{bands['between them'][0]:.3f} a step between the markers"
    return Judgement(combine(parts), f"relative change: at the markers {at:.3f} a step; {said}", key)


STILLER, DELAY_DRIFT = 10, 25  # times less than at a symbol; percent of the state


@claim(21, "On copy the state is still after step 10")
def still_while_it_waits(evidence: Evidence) -> Judgement:
    """Holds when in the delay a step changes it at most 1/{STILLER} of what a symbol does, and the whole delay less than
    {DELAY_DRIFT} %.
    """
    reading, waiting = (_phase(evidence, "copy", phase, "change") for phase in ("symbols", "delay"))
    drift = _phase(evidence, "copy", "delay", "drift")
    said = f"relative change: {reading:.3f} a step while it reads, {waiting:.4f} in the delay, {drift:.2f} over all of it"
    parts = [waiting <= reading / STILLER, drift < DELAY_DRIFT / 100]
    return Judgement(combine(parts), said, f"{waiting:.4f} a step in the delay")


EVOLVES = 50  # percent of the state


@claim(22, "On pMNIST the state evolves all the time")
def evolves(evidence: Evidence) -> Judgement:
    """Holds when over every third of the sequence it changes by more than {EVOLVES} %, and more than on copy over the delay and
    on adding between the markers.
    """
    still = max(_phase(evidence, "copy", "delay", "drift"), _phase(evidence, "adding", "between them", "drift"))
    drifts = [_phase(evidence, "pmnist", f"{third} third", "drift") for third in ("first", "second", "last")]
    said = f"relative change over each third of pMNIST {', '.join(f'{each:.2f}' for each in drifts)}"
    said += f"; in the delay of copy or between the markers of adding at most {still:.2f}"
    parts = [each > max(EVOLVES / 100, still) for each in drifts]
    return Judgement(combine(parts), said, f"{drifts[0]:.2f} over the first third")


TIMES = 2


@claim(23, "On TIMIT the state drops what is irrelevant")
def drops_what_is_irrelevant(evidence: Evidence) -> Judgement:
    """Holds when, of the units that were positive for ten steps, a step sets to zero more than {TIMES} times the share that it
    does on adding and on copy. Whether the forgotten content is irrelevant is not measured.
    """
    dropped = {task: evidence.found("hiddenstate", Line(), task)["dropped"] for task in ("speech", "adding", "copy")}
    shown = ", ".join(f"{task} {share:.2%}" for task, share in dropped.items())
    said = f"units positive for ten steps that a step sets to zero: {shown}"
    parts = [dropped["speech"] > TIMES * dropped[task] for task in ("adding", "copy")]
    return Judgement(combine(parts), said, f"{dropped['speech']:.2%} of lasting units a step")


EXHIBIT = Exhibit(
    "relative change per step",
    "task",
    reported="Bands that stay: on adding they change at the two markers, on copying memory nothing changes after step 10, on "
    "pMNIST the state changes steadily.",
    departures=(
        "Adding and copy at T = 200, the echo of our corpus at the length of the paper's picture, 151. Pictures show one "
        "sequence, for adding the one of 50 whose shortest band is the longest. Adding at T = 400 has the markers of the "
        "paper's picture, steps 76 and 336, and decides no claim. Numbers are means of up to 50 sequences, of one network "
        "each, trained with seed 1234.",
    ),
)
