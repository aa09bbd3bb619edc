"""Figure 3: Adding at growing lengths."""

from collections.abc import Iterator

from srnn.lab.paper.evidence import Evidence
from srnn.lab.paper.exhibits import pmnistablation
from srnn.lab.paper.figure import Figure, memory_figures
from srnn.lab.paper.plan import STUDIED, Exhibit, Line, Plan, Point
from srnn.lab.paper.table import Table, exhibit_table, starts_table
from srnn.lab.paper.verdicts import HOLDS, Judgement, Parts, claim, combine, middle, srnn_at, took

LENGTHS = (100, 200, 400, 750, 1000, 1500)
TUNED = LENGTHS[:3]  # where the paper's settings do not succeed with every seed
SOLVED_LOSS = 0.01  # at which the runs with another start value end
TANH, TANH_LENGTH = Line(variant="tanh"), 200
NNRNN_SOLVES, NNRNN_FAILS = (100,), 200  # the lengths up to which nnRNN solves it, and the first after these


def points(plan: Plan) -> Iterator[Point]:
    """Yields the runs of each length."""
    for T in LENGTHS:
        yield from plan.seeded(Line(), T, "adding", length=T)
        yield from plan.points(plan.baselines, T, "adding", twice="nnrnn" if T == NNRNN_FAILS else "", length=T)
    yield from plan.originals(400, "adding", length=400)
    for T in TUNED:
        yield from plan.seeded(Line(recipe="tuned"), T, "adding", length=T)
    if plan.profile != "full":  # which gives more updates to all
        yield plan.point(Line(variant="40,000 updates"), 1500, "adding", length=1500, steps=40_000)
    for T in LENGTHS:
        yield from plan.started(T, "adding", solved=SOLVED_LOSS, count=3 if LENGTHS[-1] == T else len(STUDIED), length=T)
    yield plan.point(TANH, TANH_LENGTH, "adding", length=TANH_LENGTH, activation="tanh")


def tables(exhibit: Exhibit, evidence: Evidence) -> Iterator[Table]:
    """Yields the losses, and the seeds that solve it with another start value."""
    yield from exhibit_table(exhibit, evidence)
    yield from starts_table(exhibit, evidence)


def figures(exhibit: Exhibit, evidence: Evidence) -> Iterator[Figure]:
    """Yields the loss of each length."""
    return memory_figures(exhibit, evidence, "updates", depth=200)


@claim(9, "Adding: NRU, GRU and SRNN are quick, NRU quickest, LSTM slow")
def quick_at_adding(evidence: Evidence) -> Judgement:
    """Holds when NRU needs the fewest updates to come below 1/{SOLVED} of the chance level, LSTM the most, at every T."""
    parts, said, fewest = Parts(), [], []
    for T in LENGTHS:
        results = {name: evidence.at("adding", Line(name), T) for name in ("nru", "gru", "lstm")}
        results["srnn"] = srnn_at(evidence, "adding", T)
        level = results["srnn"][0].solved_at
        needed = {name: took(middle(each, level), level) for name, each in results.items()}
        parts += [needed["nru"].less_than(needed[name]) for name in ("gru", "srnn", "lstm")]
        parts += [needed[name].less_than(needed["lstm"]) for name in ("gru", "srnn")]
        said.append(f"T {T}: " + ", ".join(f"{name} {each}" for name, each in needed.items()))
        fewest.append(needed["nru"])
    key = f"{fewest[0]} updates: NRU at T = {LENGTHS[0]}"
    return Judgement(combine(parts), f"updates until it is solved: {'; '.join(said)}", key)


@claim(30, "It is insensitive to its hyper-parameters", changed="added when its records were there.")
def insensitive(evidence: Evidence) -> Judgement:
    """Holds when {pmnistablation.COUNT} settings on pMNIST are within {pmnistablation.WITHIN} points (claim 14), and on adding
    at T = {TUNED[0]}, {TUNED[1]} and {TUNED[2]} as many of three seeds come below 1/{SOLVED} of the chance level with the
    paper's settings as with the tuned ones.
    """
    digits = pmnistablation.insensitive(evidence)
    parts, said = [digits.verdict == HOLDS], []
    for T in TUNED:
        lines = (Line(), Line(recipe="tuned"))
        paper, tuned = (sum(each.is_solved for each in srnn_at(evidence, "adding", T, line, seeds=3)) for line in lines)
        parts.append(paper == tuned)
        said.append(f"{paper} and {tuned} at {T}")
    found = f"pMNIST: {digits.found}; seeds of three that solve adding, paper's and tuned settings: {', '.join(said)}"
    return Judgement(combine(parts), found, f"adding, seeds of three: {said[-1]}")


EXHIBIT = Exhibit(
    "mean squared error",
    "steps T",
    reported="NRU, GRU and SRNN solve it soon, NRU first. LSTM takes long. nnRNN learns it below 200 steps only.",
    departures=(
        "The paper gives no length of training. In the profile cpu SRNN gets 30,000 updates of 50 sequences, or fewer once the "
        "mean of 500 is below 0.002. The profile full uses as many as the authors' code, 99,900. The reported loss is defined "
        "as for copy.",
        "The tuned recipe (two hidden layers of 32 in f_r, Adam at 0.003) and the longer run at T = 1500 are separate lines: "
        "they get below 0.01 where the paper's settings do not.",
        "Runs with gate_init -2 have a table of their own. They end when they are solved, and are drawn in no figure.",
    ),
)
