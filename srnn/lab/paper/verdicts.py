"""Claims of the paper and the verdicts on them, and what else we found about the published experiments.

The files in exhibits/ register their claims with `claim` and their findings with `finding`. The function of a claim divides it
into parts, one for each place and baseline. A part is true, false, true at equal time only, or unknown if the clock stopped a
baseline that might still have got there. `combine` makes a verdict of them, and ABOUT says how.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

from srnn.lab.paper import evidence as comparing
from srnn.lab.paper.evidence import BETTER, IN_TIME, SAME, SOLVED, UNCLEAR, WORSE, Evidence, Missing, Result, mean, star
from srnn.lab.paper.plan import EXHIBITS, Line
from srnn.lab.paper.table import Table
from srnn.lab.training.progress import between, number

HOLDS, IN_PART, FAILS = "holds", "holds in part", "does not hold"
AT_EQUAL_TIME, NOT_TESTED = "holds at equal time, not tested at equal examples", "not tested"
UNDECIDED = "undecided"  # shown with the updates after which baselines ended that had not settled
VERDICTS = (HOLDS, AT_EQUAL_TIME, IN_PART, FAILS, UNDECIDED, NOT_TESTED)

SRNN = Line()
BUSY = 0.3  # cores that other programs may keep busy while time is measured

# How verdicts are computed, a paragraph each.
ABOUT = (
    "Verdicts are computed from the records, never written by hand. The rules and thresholds are ours.",
    "Terms: the chance level is the loss of the best answer without memory. Copy and adding are solved when the loss is below "
    f"1/{SOLVED} of it. f_r is the small MLP in SRNN, d_h the number of units. An original recipe has the settings that a "
    "baseline's own paper recommends, a tuned recipe those that we found. One-hot means without an embedding. The echo is the "
    "speech task of the published numbers, whose errors are in dB².",
    "In the profile cpu, SRNN trains with the paper's settings. Each baseline trains for as many updates or for five minutes "
    "of one core (permuted MNIST: as long as SRNN took), whichever ends first. Where that decides nothing, some baselines also "
    "train for longer, and a verdict then uses the longer run. A star marks numbers of runs that ended before all planned "
    "updates.",
    "SRNN beats a baseline that ended early if the baseline had a quarter of its updates, and over the last third of "
    f"those its error fell by less than {100 * comparing.TOLERANCE:g} % (and its accuracy rose by less than "
    f"{comparing.POINTS:g} points). Where updates or epochs are counted (claims 5, 8, 9 and 25), SRNN also beats it if the "
    "baseline made more of them than SRNN needed (claim 5: twice as many). Otherwise SRNN can be ahead at equal time only, "
    "measured in seconds of one core.",
    "On copy and adding, the number of a finished run is its lowest mean of 500 updates. The number of a stopped run is the "
    "lowest value of its curve. Curves are medians of five means of 100 updates, which a single spike does not move.",
    "On copy and permuted MNIST, SRNN reads symbols of an alphabet, which makes it faster. The baselines have no such form.",
    f"A difference of less than {100 * comparing.TOLERANCE:g} % of the error, or less than the spread of the seeds, does not "
    "count as a difference. The seed in the middle decides how long something took. A claim that a baseline fails (10 and 11) "
    "needs two of its seeds. SRNN fails if one of its seeds diverged.",
    "A claim holds in part if some of its parts hold, at equal time at least, and others do not. It does not hold if no part "
    "does. It is undecided if its baselines ended before their curves settled, so that the answer is open: the verdict says "
    "after how many updates, and the slope is that of the last third of the curve. It is not tested if a run is missing.",
)


# How the computation of all verdicts was changed after data were seen. Claims name their own changes.
CHANGED = (
    "All claims, in reviews on the day of the first runs of baselines: curves are medians of five means, and an accuracy "
    f"that rises by {comparing.POINTS:g} points counts as learning. Reason: spikes hid what NRU had learned, and 2 % of the "
    "error hid slow learning at low accuracy.",
    "Claims 5, 8, 10, 11 and 25, in the same reviews: every seed counts. For claim 5 runs without an embedding count too, and "
    "sequences decide if batches differ. Claim 8 asks for a quarter of the updates. Claim 11 can hold at equal time. Reason: "
    "verdicts depended on which of several runs was looked at.",
    'All claims: a claim whose baselines ended before their curves settled is "undecided" with the number of updates, where it '
    'was "not tested". Reason: these runs exist, and they say how far they got.',
    "Claims 5, 7, 11, 12 and 13: where a baseline also trained for longer, its longer run counts. Reason: the runs of five and "
    "17 minutes left these claims open.",
)


class Part(Enum):
    """A part of a claim that is neither true nor false: true at equal time only, or not known."""

    TIME = "at equal time"
    UNKNOWN = "unknown"


Parts = list[bool | Part]
OUTCOMES: dict[str, bool | Part] = {BETTER: True, IN_TIME: Part.TIME, SAME: False, WORSE: False, UNCLEAR: Part.UNKNOWN}
Look = Callable[[Evidence], str]


class Judgement(NamedTuple):
    """A verdict, the numbers behind it, and the one number that the list of verdicts shows."""

    verdict: str
    found: str
    key: str


Judge = Callable[[Evidence], Judgement]


@dataclass(frozen=True)
class Consulted(Evidence):
    """Evidence that notes which results were used."""

    used: dict[str, tuple[str, Result]] = field(default_factory=dict)  # by id: where they belong, and the results

    def at(self, exhibit: str, line: Line, x: Any, seeds: int = 1) -> Sequence[Result]:
        found = super().at(exhibit, line, x, seeds)
        self.used.update({each.id: (f"{line} at {x}", each) for each in found if isinstance(each, Result)})
        return found

    @property
    def open(self) -> list[tuple[str, Result]]:
        """The baselines that ended before their curves settled, by line and place; not those that had solved the task."""
        used = [(about, each) for about, each in self.used.values() if each.network != "srnn" and not each.diverged]
        used = [(about, each) for about, each in used if each.reports is not None or not each.is_solved]
        return [each for each in used if not each[1].is_fair] or [each for each in used if not each[1].is_settled]


class Diverged(Exception):
    """Raised when a run of SRNN that a claim is about diverged."""


@dataclass(frozen=True)
class Claim:
    """A claim of the paper.

    Attributes:
        number: Place in our list.
        says: What the paper says, in our words.
        exhibit: Id of the exhibit that decides it.
        rule: When it holds.
        judge: Computes the verdict, and says what was measured.
        changed: How and why the rule was changed after data were seen, if it was.
    """

    number: int
    says: str
    exhibit: str
    rule: str
    judge: Judge
    changed: str = ""

    def judged(self, evidence: Evidence) -> Judgement:
        """Returns the verdict and what was measured. Missing runs and diverged runs of SRNN decide it too."""
        consulted = Consulted(evidence.results, evidence.measured, evidence.planned)
        try:
            verdict, found, key = self.judge(consulted)
        except (Diverged, Missing) as why:
            verdict = FAILS if isinstance(why, Diverged) else NOT_TESTED
            return Judgement(verdict, str(why), re.split("[;:,]", str(why))[0])
        if verdict == UNDECIDED and consulted.open:
            verdict += f" after {between(each.updates for _, each in consulted.open)} updates"
            ended = [f"{about} after {each.updates:,}, {each.slope}" for about, each in consulted.open]
            found += f"; ended before they settled (updates, change of the curve in 1,000 more): {'; '.join(ended)}"
        return Judgement(verdict, found, key)


@dataclass(frozen=True)
class Verdict:
    """The verdict on a claim.

    Attributes:
        claim: The claim.
        verdict: One of `VERDICTS`; if it is undecided, with the number of updates.
        found: What was measured.
        key: The one number of it that the list of verdicts shows.
        printed: The verdict on the paper's own numbers, or None if the rule cannot be applied to them.
    """

    claim: Claim
    verdict: str
    found: str
    key: str
    printed: str | None


@dataclass(frozen=True)
class Finding:
    """Something we found about the published experiments; `seen` has the numbers of our records."""

    title: str
    text: str
    seen: str


CLAIMS: dict[int, Claim] = {}
FINDINGS: dict[str, list[tuple[str, str, Look]]] = {}  # by exhibit: title, text, and numbers


def claim(number: int, says: str, changed: str = "") -> Callable[[Judge], Judge]:
    """Registers a function as the judge of a claim, which belongs to the exhibit whose file the function is in.

    The docstring of the function, "Holds when ...", is the rule. Names in braces are constants of its file or of this one.
    `changed` says how and why the rule was changed after data were seen.
    """

    def register(judge: Judge) -> Judge:
        assert number not in CLAIMS, f"there are two claims {number}"
        text = " ".join((judge.__doc__ or "").split()).removeprefix("Holds when ").removesuffix(".")
        rule = text.format_map({**globals(), **judge.__globals__})
        CLAIMS[number] = Claim(number, says, _exhibit_of(judge), rule, judge, changed)
        return judge

    return register


def finding(title: str) -> Callable[[Look], Look]:
    """Registers a function as a finding: its docstring is the text, and it returns what our records show about it."""

    def register(look: Look) -> Look:
        FINDINGS.setdefault(_exhibit_of(look), []).append((title, " ".join((look.__doc__ or "").split()), look))
        return look

    return register


def _exhibit_of(function: Callable[[Evidence], Any]) -> str:
    return function.__module__.rpartition(".")[2]


def verdicts(evidence: Evidence) -> list[Verdict]:
    """Returns one verdict for every claim, by number."""
    printed, found = Evidence.printed(), []
    for _, each in sorted(CLAIMS.items()):
        of_the_paper = each.judged(printed).verdict
        found.append(Verdict(each, *each.judged(evidence), None if of_the_paper == NOT_TESTED else of_the_paper))
    return found


def findings(evidence: Evidence) -> Iterator[Finding]:
    """Yields the findings of all exhibits, with what our records show."""
    for title, text, look in (each for exhibit in EXHIBITS for each in FINDINGS.get(exhibit, ())):
        try:
            seen = look(evidence)
        except Missing as missing:
            seen = f"Not seen in our records yet: {missing}."
        yield Finding(title, text, seen)


def changes() -> list[str]:
    """Returns how and why rules were changed after data were seen, in sentences."""
    return [*CHANGED, *(f"Claim {each.number}: {each.changed}" for _, each in sorted(CLAIMS.items()) if each.changed)]


def verdict_table(judged: Sequence[Verdict]) -> Table:
    """Returns the verdicts as a table."""
    rows = []
    for each in judged:
        printed = f" (the paper's own numbers, by this rule: {each.printed})" if each.printed else ""
        of = each.claim
        rows.append((str(of.number), of.says, each.verdict + printed, each.found, of.rule, of.exhibit))
    headings = ("claim", "the paper says", "verdict", "measured", "it holds when", "exhibit")
    return Table("verdicts", "What the paper claims, and what we measured", headings, tuple(rows))


def combine(parts: Iterable[bool | Part], conditions: Iterable[bool | Part] = ()) -> str:
    """Returns the verdict on a claim from its parts.

    A condition that is not met counts like a part. A condition that is met proves nothing on its own.
    """
    found = set(parts) | (set(conditions) - {True})
    if found == {True}:
        return HOLDS
    if False in found:
        return IN_PART if found & {True, Part.TIME} else FAILS
    if not found:
        return NOT_TESTED
    return UNDECIDED if Part.UNKNOWN in found else AT_EQUAL_TIME


def kind(verdict: str) -> str:
    """Returns a verdict in short, without what follows a comma or "after"."""
    return re.split(",| after ", verdict)[0]


@dataclass(frozen=True, order=True)
class Took:
    """How many updates or epochs a run took to reach a level; infinitely many if it would never get there.

    `is_exact` is False for a run that was stopped on its way: it takes at least as many.
    """

    count: float
    is_exact: bool

    def less_than(self, other: "Took") -> bool | Part:
        """Says whether this took less than the other. What never gets there did not."""
        if self == NEVER:
            return False
        if self.is_exact and other.is_exact:
            return self.count < other.count
        if self.is_exact and self.count <= other.count:
            return True
        return False if other.is_exact and other.count <= self.count else Part.UNKNOWN

    def __str__(self) -> str:
        return "not reached" if self == NEVER else f"{'' if self.is_exact else 'more than '}{self.count:.0f}"


NEVER = Took(float("inf"), True)


def took(result: Result, level: float) -> Took:
    """Returns the updates that a run took to reach a level."""
    found = result.reached(level)
    if found is not None:
        return Took(found[0], True)
    return NEVER if result.is_fair else Took(result.updates, False)


def middle(results: Sequence[Result], level: float) -> Result:
    """Returns the seed in the middle by the updates it took to reach a level; of two seeds the slower."""
    return sorted(results, key=lambda each: took(each, level).count)[len(results) // 2]


def show_mean(results: Sequence[Result]) -> str:
    """Returns the mean over seeds, with a star if the clock stopped one, or says that one diverged."""
    value = mean(results)
    if value is None or any(each.diverged for each in results):
        return "diverged"
    return number(value) + star(results)


def srnn_at(evidence: Evidence, exhibit: str, x: Any, line: Line = SRNN, seeds: int = 1) -> Sequence[Result]:
    """Returns the results of SRNN at one place.

    Raises:
        Diverged: If one of the seeds diverged.
        Missing: If fewer than so many seeds were run.
    """
    results = evidence.at(exhibit, line, x, seeds)
    if any(each.diverged for each in results):
        raise Diverged(f"{line} diverged at {x}")
    return results


def mean_at(evidence: Evidence, exhibit: str, x: Any, line: Line) -> float:
    """Returns the mean of SRNN at one place over its seeds."""
    value = mean(srnn_at(evidence, exhibit, x, line))
    if value is None:
        raise Missing(f"{line} at {x} has no value")
    return value


def check_idle(measured: Iterable[Mapping[str, Any]]) -> None:
    """Raises Missing if other programs used the machine while times were measured."""
    busy = max(each["busy_cores"] for each in measured)
    if busy > BUSY:
        raise Missing(f"other programs kept {busy:.1f} cores busy during the measurement: measure again on an idle machine")
