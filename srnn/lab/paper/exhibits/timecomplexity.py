"""Table 1: How the cost of a gradient step grows."""

from collections.abc import Iterator

from srnn.lab.paper.evidence import Evidence
from srnn.lab.paper.figure import Curve, Figure, Panel
from srnn.lab.paper.plan import Exhibit, Line, Measurement, Plan, grid
from srnn.lab.paper.table import NOT_RUN, Table, measured
from srnn.lab.paper.verdicts import Judgement, Part, check_idle, claim, combine

NETWORKS = ("rnn", "lstm", "gru", "urnn", "nru", "srnn")
AXES = {"units": "units d_h", "steps": "steps T"}
ORDERS = dict.fromkeys(("rnn", "lstm", "gru", "nru"), "T d_h² + T d_h d_i")  # by the paper
ORDERS |= {"urnn": "T d_h log d_h + T d_h d_i", "srnn": "T d_h d_i"}


def measurements(plan: Plan) -> Iterator[Measurement]:
    """Yields one measurement for each network, over units and over steps."""
    quick = plan.profile == "quick"
    sizes = [16, 32, 64] if quick else [128, 256, 512, 1024, 2048, 4096]
    for network in NETWORKS:
        for over in AXES:
            settings = {"network": network, "over": over, "sizes": sizes, "rounds": 1 if quick else 5}
            yield Measurement("timecomplexity", Line(network), over, "growth", settings)


def tables(exhibit: Exhibit, evidence: Evidence) -> Iterator[Table]:
    """Yields the fitted exponents."""
    rows = []
    for name, order in ORDERS.items():
        row = [name, order]
        for over in AXES:
            found = measured(evidence, "timecomplexity", Line(name), over)
            row.append(NOT_RUN if found is None else f"{found['exponent']:.2f} ± {found['margin']:.2f}")
            row.append(f"{exhibit.published[Line(name), over]}")
        rows.append(tuple(row))
    headings = ("network", "cost by the paper", "exponent in d_h", "d_h, paper", "exponent in T", "T, paper")
    notes = (
        "One sequence, d_i = 128, f_r as wide as the input, one thread. 95 % interval of a straight line through the "
        "logarithms at 512, 1024, 2048 and 4096. Exponents above 2 are of networks whose weights no longer fit into the "
        "caches. uRNN applies its factors at every step. Their fixed cost hides how they grow, so its small exponent is not "
        "that of its arithmetic.",
    )
    yield Table("timecomplexity", "How the time of a gradient step grows", headings, tuple(rows), notes)


def figures(exhibit: Exhibit, evidence: Evidence) -> Iterator[Figure]:
    """Yields the times over the sizes."""
    panels = []
    for over, axis in AXES.items():
        shown = [
            Curve(line.label, record.found["sizes"], record.found["milliseconds"], line.network, dots=".")
            for (line, x), record in evidence.measured["timecomplexity"].items()
            if x == over
        ]
        if shown:
            panels.append(Panel(f"over {axis}", axis, "milliseconds", shown, (), "xy", ticks=shown[0].x))
    alt = "Time of a gradient step for one sequence over the number of units and over the number of steps, for each network."
    yield Figure("timecomplexity", "Time of forward and backward for one sequence, one thread.", alt, panels)


LIMIT = 1.2


@claim(
    4,
    "Its cost is linear in the number of units",
    changed="the exponents of baselines count too. Reason: that of uRNN is below SRNN's, and the rule did not ask for it.",
)
def linear_cost(evidence: Evidence) -> Judgement:
    """Holds when the 95 % interval of the fitted exponent of its time is below {LIMIT}; in part if the whole interval of a
    baseline is below its own.
    """
    found = {name: evidence.found("timecomplexity", Line(name), "units") for name in ("srnn", *NETWORKS[:-1])}
    check_idle(found.values())
    shown = {name: f"{each['exponent']:.2f} ± {each['margin']:.2f}" for name, each in found.items()}
    said = f"exponents over d_h: {', '.join(f'{name} {text}' for name, text in shown.items())}"
    low, high = (found["srnn"]["exponent"] + side * found["srnn"]["margin"] for side in (-1, 1))
    is_below = True if high < LIMIT else False if low > LIMIT else Part.UNKNOWN
    is_lowest = is_below is not True or all(each["exponent"] + each["margin"] >= low for each in found.values())
    return Judgement(combine([is_below], [is_lowest]), said, f"exponent {shown['srnn']}")


EXHIBIT = Exhibit(
    "exponent",
    "over",
    departures=("The paper's table is an analysis. These are exponents of measured times.",),
    published=grid({Line(name): (1 if name in ("urnn", "srnn") else 2, 1) for name in NETWORKS}, AXES),
)
