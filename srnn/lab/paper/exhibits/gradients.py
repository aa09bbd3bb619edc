"""Section 3: Gradients through time.

And how long units live, the bound of section 3, and what drives the units.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from statistics import fmean, median
from typing import Any

import numpy

from srnn.lab.paper.evidence import Evidence, Missing, first_over_last
from srnn.lab.paper.figure import Curve, Figure, Panel, with_seeds
from srnn.lab.paper.plan import EXAMINED, Exhibit, Line, Measurement, Plan
from srnn.lab.paper.table import NOT_RUN, Table, measured
from srnn.lab.paper.verdicts import Judgement, claim, combine, finding
from srnn.lab.training.progress import number
from srnn.lab.training.run import Run

NETWORKS = ("srnn", "rnn", "lstm", "gru")
LENGTHS = (200, 1000, 2000)
# A trained network is measured at the length of its training, but no exhibit trains adding with 2000 steps.
TRAINED_AT = {("adding", 2000): 1500}
SEEDS = (1234, 1, 2, 3, 4)  # of untrained networks
LIVES = ("adding", "copy", "pmnist")  # tasks on which units are followed
STEPS = (10, 100)  # after which living units are counted
UNITS, DRIVE, BOUND = "units", "b(x)", "the bound"


@dataclass(frozen=True, kw_only=True)
class GradientLine(Line):
    """What is measured on a task, before or after training: the gradients of a network, or `what` of SRNN."""

    task: str
    trained: bool = False
    what: str = ""

    @property
    def label(self) -> str:
        return f"{self.what or self.network} on {self.task}, {self.state}"

    @property
    def state(self) -> str:
        """Trained or not, as it is shown."""
        return "trained" if self.trained else "untrained"


def _lines(tasks: Iterable[str], what: str = "", networks: Iterable[str] = ("srnn",)) -> list[GradientLine]:
    """Returns the lines of these tasks and networks, untrained and trained."""
    each = product(tasks, networks, (False, True))
    return [GradientLine(network, task=task, trained=trained, what=what) for task, network, trained in each]


def measurements(plan: Plan) -> Iterator[Measurement]:
    """Yields the measurements of untrained and trained networks."""
    quick = plan.profile == "quick"
    seeds = SEEDS[:2] if quick else SEEDS

    def of(kind: str, line: GradientLine, x: Any, run: Run, **settings: Any) -> Measurement:
        settings |= {"seeds": list(seeds[:1] if line.trained else seeds)}
        return Measurement("gradients", line, x, kind, settings, run, line.trained)

    for task, T in product(("adding", "copy"), (20, 40) if quick else LENGTHS):
        for line in _lines([task], networks=NETWORKS):
            at = TRAINED_AT.get((task, T), T) if line.trained else T
            yield of("gradients", line, T, plan.point(line, T, task, length=at).run, length=T)
    for task, how in EXAMINED.items():
        run = plan.point(Line(), task, task, **how).run
        yield of("drive", GradientLine(task=task, what=DRIVE), task, run)
        for line in _lines({task} & set(LIVES), UNITS):
            yield of("survival", line, task, run)
    for line in _lines(["adding"], BOUND):
        yield of("bound", line, 200, plan.point(line, 200, "adding", length=200).run, length=10 if quick else 200)


def tables(exhibit: Exhibit, evidence: Evidence) -> Iterator[Table]:
    """Yields the norms of gradients, and the shares of units that met a zero."""
    lengths = [x for x in dict.fromkeys(x for _, x in evidence.planned["gradients"]) if isinstance(x, int)]
    at_lengths = [f"T = {T}" for T in lengths]

    def row(line: GradientLine, show: Callable[[Any], str]) -> tuple[str, ...]:
        found = [measured(evidence, "gradients", line, T) for T in lengths]
        return line.label, *(NOT_RUN if each is None else show(each) for each in found)

    rows = [row(line, lambda found: _ratio(found["norm"])) for line in _lines(("adding", "copy"), networks=NETWORKS)]
    note = (
        "Median over seeds, lowest and highest (untrained 5, trained 1). On copy every step has its part of the loss, on "
        "adding only the last."
    )
    headings = ("|dL/dh_t| at T / 100 over that at T", *at_lengths)
    yield Table("gradients", "What is left of the gradient at the first hundredth", headings, tuple(rows), (note,))
    untrained = [GradientLine(network, task="adding") for network in NETWORKS]
    rows = [row(line, lambda found: _range(found["weights"])) for line in untrained]
    headings, note = ("|dL/dtheta| of the layer", *at_lengths), "Median over seeds, the lowest and the highest."
    yield Table("gradients-weights", "The gradient of the weights at growing lengths", headings, tuple(rows), (note,))
    rows = []
    for line in _lines(LIVES, UNITS):
        lives = measured(evidence, "gradients", line, line.task)
        shares = [_share(lives[who], k) for k in STEPS for who in ("newborn", "living")] if lives else []
        rows.append((f"{line.task}, {line.state}", *([f"{share:.2%}" for share in shares] or [NOT_RUN] * 4)))
    some = measured(evidence, "gradients", GradientLine(task="adding", what=UNITS), "adding")
    if some and len(some["k"]) > STEPS[1]:
        for name, key in (("estimate of the paper", "paper"), ("symmetric walk", "walk")):
            rows.append((name, f"{some[key][STEPS[0]]:.2%}", "", f"{some[key][STEPS[1]]:.2%}", ""))
    headings = (
        "units still positive after",
        "10 steps, newly positive",
        "10, all positive",
        "100 steps, newly positive",
        "100, all positive",
    )
    yield Table("gradients-survival", "Units still positive", headings, tuple(rows))
    rows = []
    for line in _lines(["adding"], BOUND):
        broken = measured(evidence, "gradients", line, 200)
        cells = [f"{fmean(each):.2%}" for each in broken.values()] if broken else [NOT_RUN] * 2
        rows.append((f"adding, {line.state}", *cells))
    headings = ("share of units and weights that break the bound", "as printed", "absolute value inside the sum")
    yield Table("gradients-bound", "The bound on dh_t/db_k", headings, tuple(rows))
    rows = []
    for task in EXAMINED:
        drive = measured(evidence, "gradients", GradientLine(task=task, what=DRIVE), task)
        cells = [f"{fmean(drive[name]):.3f}" for name in ("mean", "deviation")] if drive else [NOT_RUN] * 2
        rows.append((task, *cells))
    yield Table("gradients-drive", "b(x) before training, N(0, 1) in the paper", ("task", "mean", "deviation"), tuple(rows))


def _range(values: Sequence[float]) -> str:
    """Returns the median of seeds, with the lowest and the highest."""
    return f"{number(median(values))} ({number(min(values))} to {number(max(values))})"


def _ratio(norms: Sequence[Sequence[float]]) -> str:
    """Returns the gradient at the first point over that at the last, for all seeds or for the only one."""
    each = [first_over_last([seed]) for seed in norms]
    return _range(each) if len(each) > 1 else number(each[0])


def _share(seeds: Sequence[Sequence[float]], k: int) -> float:
    """Returns the mean over seeds of the share of units that are left after k steps, or after all if there are fewer."""
    return sum(each[min(k, len(each) - 1)] for each in seeds) / len(seeds)


def figures(exhibit: Exhibit, evidence: Evidence) -> Iterator[Figure]:
    """Yields the norms of gradients over time."""
    panels = []
    for task in ("adding", "copy"):
        for T in [x for x in dict.fromkeys(x for _, x in evidence.measured["gradients"]) if isinstance(x, int)]:
            shown: list[Curve] = []
            for line in _lines([task], networks=NETWORKS):
                found = measured(evidence, "gradients", line, T)
                if found and "norm" in found:
                    norms = numpy.maximum(numpy.asarray(found["norm"]), 1e-30)
                    # The median, as in the table: seeds whose units died would dominate a mean.
                    middle = numpy.median(norms, axis=0).tolist()
                    label = f"{line.network}, {line.state}"
                    shown += with_seeds(Curve(label, found["t"], middle, line.network, dashed=line.trained), norms.tolist())
            if shown:
                panels.append(Panel(f"{task}, T = {T}", "step t", "norm of dL/dh_t", shown, (), "y", 1e-12))
    alt = "Norm of the gradient of the loss by the state over the step, for SRNN, RNN, LSTM and GRU, untrained and trained."
    caption = "The gradient on its way back: untrained (median of 5 seeds, and each of them thin), and trained (dotted)."
    yield Figure("gradients", caption, alt, panels)
    panels = []
    for task in LIVES:
        shown = []
        for line in _lines([task], UNITS):
            found = measured(evidence, "gradients", line, task)
            if not found:
                continue
            k = [each + 1 for each in found["k"]]
            if not shown:
                shown.append(Curve("estimate of the paper", k, found["paper"], "rnn"))
                shown.append(Curve("symmetric walk", k, found["walk"], "nru"))
            units = numpy.mean(found["newborn"], axis=0).tolist()
            shown += with_seeds(Curve(f"units, {line.state}", k, units, "srnn" if line.trained else "gru"), found["newborn"])
        if shown:
            panels.append(Panel(task, "steps + 1", "share of newly positive units", shown, (), "xy", 1e-3))
    alt = "Share of units that are still positive, over steps since they became positive, with two estimates."
    caption = "How long a unit lives after it became positive. Thin lines are single seeds."
    yield Figure("gradients-survival", caption, alt, panels)


LOWEST, HIGHEST = 1e-3, 10


@claim(2, "Gradients neither explode nor vanish")
def no_explosion(evidence: Evidence) -> Judgement:
    """Holds when the norm of dL/dh_t on adding at the first hundredth of the steps over that at the last, median of seeds, is
    above {LOWEST:g} and below {HIGHEST}, untrained and trained, at T = {LENGTHS[0]}, {LENGTHS[1]}, {LENGTHS[2]} (1: nothing is
    lost, 0: everything is; not on copy, where the loss of every later step adds to it).
    """
    places = list(product(_lines(["adding"]), LENGTHS))  # the first three are untrained
    ratios = [first_over_last(evidence.found("gradients", line, T)["norm"]) for line, T in places]
    said = []
    for line in sorted(_lines(["adding"], networks=NETWORKS), key=lambda line: line.trained):
        # The others are only shown, and may be missing: a network that diverged left no weights.
        found = [measured(evidence, "gradients", line, T) for T in LENGTHS]
        said.append(f"{line.network} {line.state} {', '.join(_left(each['norm']) if each else NOT_RUN for each in found)}")
    about = f"first over last norm of dL/dh_t on adding at T = {', '.join(map(str, LENGTHS))}"
    key = f"{number(ratios[1])} of the gradient is left at T = {LENGTHS[1]}, untrained"
    return Judgement(combine(LOWEST < each < HIGHEST for each in ratios), f"{about}: {'; '.join(said)}", key)


def _left(norms: Sequence[Sequence[float]]) -> str:
    """Returns what is left of a gradient: the median of seeds, with the lowest and the highest if they are far apart."""
    each = [first_over_last([seed]) for seed in norms]
    return _range(each) if max(each) > 10 * min(each) and max(each) > 1e-3 else number(median(each))


FACTOR = 2


@claim(3, "A unit meets a zero within k steps with probability k / (1 + k)")
def survival(evidence: Evidence) -> Judgement:
    """Holds when after {STEPS[0]} and {STEPS[1]} steps the share of units that have not is within a factor of {FACTOR} of 1 /
    (1 + k), untrained and trained.
    """
    parts, said, first = [], [], []
    for line in _lines(LIVES, UNITS):
        found = evidence.found("gradients", line, line.task)
        if len(found["k"]) <= STEPS[1]:
            raise Missing(f"units on {line.task} were not followed for {STEPS[1]} steps")
        shares = {k: _share(found["newborn"], k) for k in STEPS}
        parts.append(all(1 / FACTOR <= share / found["paper"][k] <= FACTOR for k, share in shares.items()))
        said.append(f"{line.task} {line.state} {' and '.join(f'{share:.1%}' for share in shares.values())}")
        first.append(shares[STEPS[0]])
    estimates = [f"{1 / (1 + k):.1%}" for k in STEPS]
    about = f"after {STEPS[0]} and {STEPS[1]} steps (estimate {' and '.join(estimates)})"
    key = f"{first[0]:.1%} of units, not {estimates[0]}, after {STEPS[0]} steps"
    return Judgement(combine(parts), f"{about}: {', '.join(said)}", key)


@finding("The bound of section 3 needs its absolute value inside the sum")
def bounded(evidence: Evidence) -> str:
    """Removing terms of a sum can make the rest larger than the sum. Also in print: W_p and sigma' are in the wrong order in
    the recursion, and the product of the closed form runs over j = 1..i-1 instead of i+1..t.
    """
    found = evidence.found("gradients", GradientLine(task="adding", what=BOUND), 200)
    printed, inside = found["as printed"], found["absolute value inside"]
    return (
        f"Untrained, on adding: as printed it is broken with {sum(share > 0 for share in printed)} of {len(printed)} seeds, "
        f"for {fmean(printed):.2%} of units and weights, with the absolute value inside for {fmean(inside):.2%}."
    )


@finding("Units live longer than estimated")
def survived(evidence: Evidence) -> str:
    """Section 3 lets a unit survive k steps with probability 1 / (1 + k). A walk with symmetric steps whose first step goes
    upwards stays positive with a probability that falls as one over the square root of k. Before training, units on pMNIST
    follow it closely. On adding and copy they live longer on average, and differ by the seed. Training changes it in either
    direction.
    """
    parts = []
    for task in LIVES:
        found = evidence.found("gradients", GradientLine(task=task, what=UNITS), task)
        seeds = [[each[k] for each in found["newborn"]] for k in STEPS]
        shares = [f"{sum(each) / len(each):.1%} (seeds {min(each):.1%} to {max(each):.1%})" for each in seeds]
        parts.append(f"{task} {' and '.join(shares)}")
    walk, paper = (" and ".join(f"{found[name][k]:.1%}" for k in STEPS) for name in ("walk", "paper"))
    return f"Untrained, after 10 and 100 steps: {'; '.join(parts)}. A symmetric walk: {walk}; the printed estimate: {paper}."


@finding("The gradient of the weights can grow with the length")
def grown(evidence: Evidence) -> str:
    """Nothing scales a gradient on its way back, but that does not bound the sum over steps: every step at which a unit lives
    adds its part. With some seeds units live on and the sum grows, with others they die and it does not.
    """
    found = [evidence.found("gradients", GradientLine(task="adding"), T)["weights"] for T in LENGTHS]
    grew = sum(long > 2 * short for short, long in zip(found[0], found[-1], strict=True))
    return (
        "|dL/dtheta| of untrained networks on adding at T = 200, 1000 and 2000, median of seeds, lowest and highest: "
        f"{', '.join(map(_range, found))}. From 200 to 2000 it more than doubled with {grew} of {len(found[0])} seeds."
    )


@finding("What drives the units before training")
def driven(evidence: Evidence) -> str:
    """Section 3 assumes that b(x) is a normal variable with mean 0 and variance 1 before training. We initialise as the
    authors' code does.
    """
    lines = [GradientLine(task=task, what=DRIVE) for task in EXAMINED]
    found = [evidence.found("gradients", line, line.task)["deviation"] for line in lines]
    shown = (f"{line.task} {number(fmean(each))}" for line, each in zip(lines, found, strict=True))
    return f"Its standard deviation over units and inputs, mean of {len(found[0])} seeds: {', '.join(shown)}."


EXHIBIT = Exhibit(
    "norm of dL/dh_t",
    "step t",
    reported="Backpropagation permutes or zeroes a gradient and never scales it. A gambler's-ruin "
    "estimate gives how long a unit stays positive.",
    departures=(
        "Trained networks have the settings of those in the other exhibits: SRNN with all of its updates, baselines after five "
        "minutes of one core. Weights are not recorded. If a run was repeated for its weights and ended with another result, "
        "the list of records says so. For adding at T = 2000 the weights are those trained at 1500.",
    ),
)
