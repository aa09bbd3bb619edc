"""Figure 4a: Permuted MNIST by depth, width, units and gate."""

from collections.abc import Iterator
from itertools import product
from statistics import fmean

from srnn.lab.paper.evidence import Evidence, Missing, mean, spread
from srnn.lab.paper.figure import depth_figure
from srnn.lab.paper.plan import AblationLine, Exhibit, Plan, Point, grid
from srnn.lab.paper.verdicts import Judgement, claim, combine, mean_at

SMALL, LARGE = 512, 1024
WIDTHS, DEPTHS = (32, 64), (1, 2, 3)
SEEDED = (LARGE, 32, 3)  # units, width and depth of the setting that runs with three seeds


def points(plan: Plan) -> Iterator[Point]:
    """Yields the runs of each form of f_r."""
    for H, width, gate, depth in product((SMALL, LARGE), WIDTHS, (True, False), DEPTHS):
        line, mlp = AblationLine(units=H, width=width, gate=gate), (width,) * depth
        count = 3 if (H, width, depth) == SEEDED else 1
        yield from plan.seeded(line, depth, "pmnist", count, epochs=30, hidden_size=H, mlp=mlp, gate=gate)


WITHIN = 2  # points
SETTINGS = [(AblationLine(units=H, width=width), depth) for H in (SMALL, LARGE) for width in WIDTHS for depth in DEPTHS]
COUNT = len(SETTINGS)


@claim(14, "On pMNIST it is insensitive to units, depth and width")
def insensitive(evidence: Evidence) -> Judgement:
    """Holds when {COUNT} settings with a gate are within {WITHIN} points."""
    values = [mean_at(evidence, "pmnistablation", depth, line) for line, depth in SETTINGS]
    low, high = min(values), max(values)
    said = f"accuracy from {low:.2f} to {high:.2f} over {COUNT} settings"
    return Judgement(combine([high - low <= WITHIN]), said, f"{low:.2f} to {high:.2f} % accuracy")


@claim(15, "Without the gate it is somewhat worse, more so when large")
def gate_helps(evidence: Evidence) -> Judgement:
    """Holds when the gain from the gate is larger than the spread of three seeds at {SEEDED[0]} units, width {SEEDED[1]}, depth
    {SEEDED[2]}, and on average of six settings, both at {SMALL} units and at {LARGE}. If one of these holds, the average gain
    at {LARGE} must also be larger than that at {SMALL} by more than the spread.
    """
    large, small = _gain(evidence, LARGE), _gain(evidence, SMALL)
    H, width, depth = SEEDED
    lines = (AblationLine(units=H, width=width, gate=gate) for gate in (True, False))
    with_it, without = (evidence.at("pmnistablation", line, depth, seeds=3) for line in lines)
    difference = fmean(each.value or 0.0 for each in with_it) - fmean(each.value or 0.0 for each in without)
    margin = max(spread(with_it), spread(without))
    seen, said = difference > margin, f"gate gains {difference:+.2f} points over three seeds, whose spread is {margin:.2f}"
    said += "" if seen else ": no difference"
    said += f"; mean over settings {small:+.2f} at {SMALL} units, {large:+.2f} at {LARGE}"
    helps = [seen, min(small, large) > margin]
    helps += [large - small > margin] if any(helps) else []
    return Judgement(combine(helps), said, f"{difference:+.2f} points")


def _gain(evidence: Evidence, H: int) -> float:
    """Returns the points that the gate gains on average, with so many units."""
    gains = []
    for width, depth in product(WIDTHS, DEPTHS):
        line, bare = AblationLine(units=H, width=width), AblationLine(units=H, width=width, gate=False)
        without = evidence.at("pmnistablation", bare, depth)
        value = mean(without)
        if value is None or any(each.diverged for each in without):  # which the claim is not about
            raise Missing(f"{bare} at {depth} diverged")
        gains.append(mean_at(evidence, "pmnistablation", depth, line) - value)
    return fmean(gains)


EXHIBIT = Exhibit(
    "test accuracy, percent",
    "hidden layers of f_r",
    draw=depth_figure,
    published=grid(
        {
            AblationLine(units=512, width=32): (95.43, 94.91, 95.84),
            AblationLine(units=512, width=32, gate=False): (95.31, 95.75, 95.69),
            AblationLine(units=512, width=64): (95.39, 94.97, 95.59),
            AblationLine(units=512, width=64, gate=False): (94.78, 95.42, 95.50),
            AblationLine(units=1024, width=32): (95.94, 96.38, 96.43),
            AblationLine(units=1024, width=32, gate=False): (95.86, 96.10, 95.84),
            AblationLine(units=1024, width=64): (95.79, 95.98, 96.03),
            AblationLine(units=1024, width=64, gate=False): (95.92, 95.99, 95.85),
        },
        DEPTHS,
    ),
    departures=("In the profile cpu 30 epochs instead of 60.",),
)
