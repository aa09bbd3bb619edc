"""Ours: Effect of the permutation.

SRNN with the shift, with a random permutation, and with none.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from srnn.lab.paper.evidence import Evidence
from srnn.lab.paper.figure import Figure, memory_panel, over_both
from srnn.lab.paper.plan import Exhibit, Line, Plan, Point
from srnn.lab.paper.verdicts import finding

KINDS = {"shift": "srnn", "random": "gru", "identity": "lstm"}  # each with the style that it is drawn in
PLACES = (("copy", 200), ("copy", 1000), ("adding", 200))


@dataclass(frozen=True, kw_only=True)
class PermutationLine(Line):
    """SRNN with one kind of permutation on a task."""

    task: str
    kind: str

    @property
    def label(self) -> str:
        return f"{self.task}, {self.kind}"


def points(plan: Plan) -> Iterator[Point]:
    """Yields the runs of each permutation."""
    for kind in KINDS:
        for task, T in PLACES:
            yield plan.point(PermutationLine(task=task, kind=kind), T, task, length=T, permutation=kind)


def figures(exhibit: Exhibit, evidence: Evidence) -> Iterator[Figure]:
    """Yields the curves of each permutation."""
    found, panels = evidence.results["permutation"], []
    for task, T in PLACES:
        traces = [(kind, style, found.get((PermutationLine(task=task, kind=kind), T), ())) for kind, style in KINDS.items()]
        panels.append((memory_panel(f"{task}, T = {T}", "loss", traces, depth=1e4), traces))
    alt = "Loss over {} with the shift, a random permutation and none, on copying memory and adding."
    caption = "SRNN with the shift, with a random permutation, and with none, over {}."
    yield from over_both("permutation", "examples", panels, caption, alt)


@finding("What the shuffle is needed for")
def shuffled(evidence: Evidence) -> str:
    """P may be any permutation, or none: then a unit sees only its own past. Not in the paper; measured as the exhibit
    `permutation`.
    """
    parts = []
    for task, T in PLACES:
        shares, learned = [], []
        for kind in KINDS:
            result = evidence.at("permutation", PermutationLine(task=task, kind=kind), T)[0]
            share = "diverged" if result.value is None else f"{result.value / result.chance:.2g}"
            shares.append(f"{kind} {share} after {result.updates:,} updates")
            learned += [kind] if result.is_solved else []
        parts.append(f"{task} at {T} is learned with {', '.join(learned) or 'none'} ({', '.join(shares)})")
    return f"In brackets the lowest loss as a share of the chance level, one seed each: {'; '.join(parts)}."


EXHIBIT = Exhibit("lowest mean loss of 500 updates", "steps T")
