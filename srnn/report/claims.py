"""The claims of the paper, each with a rule that gives its verdict from records. Nobody types a verdict.

A claim is cut into parts, one for each place and rival. A part is true, false, true at equal time only, or unknown, where a
rival was stopped by the clock and might still have got there. ABOUT says how they make a verdict, on the page too.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from srnn.display import number
from srnn.paper import DELAYS, EXHIBITS, LENGTHS, RIVALS, SIZES
from srnn.report.evidence import BETTER, IN_TIME, SAME, UNCLEAR, WORSE, Evidence, Missing, Result, compare, mean, spread

HOLDS, IN_PART, FAILS = "holds", "holds in part", "does not hold"
AT_EQUAL_TIME, NOT_TESTED = "holds at equal time, not tested at equal examples", "not tested"
VERDICTS = (HOLDS, AT_EQUAL_TIME, IN_PART, FAILS, NOT_TESTED)
ABOUT = (
    "A verdict is computed from records, by the rule below each claim, and typed by nobody. Rivals had as many updates as SRNN "
    "or five minutes of one core (permuted MNIST: as long as SRNN took), whichever ended first. One that the clock has stopped "
    "counts as beaten only when it had a quarter of its updates and did not improve by 2 % over the last third of them; "
    "otherwise SRNN can be ahead at equal time, compared in seconds of one core. Differences of less than 2 % of the error, or "
    "less than the spread of seeds, are no difference. That a network fails takes two seeds. What was not run is not tested."
)

YES, NO, TIME, UNKNOWN = "yes", "no", "at equal time", "unknown"
OUTCOMES = {BETTER: YES, IN_TIME: TIME, SAME: NO, WORSE: NO, UNCLEAR: UNKNOWN}

Judgement = tuple[str, str]  # a verdict, and the numbers behind it


@dataclass(frozen=True)
class Claim:
    """number: in our list. says: what the paper says, in our words. rule: when it holds."""

    number: int
    says: str
    exhibit: str
    rule: str
    judge: Callable[[Evidence], Judgement]


@dataclass(frozen=True)
class Verdict:
    """printed: the verdict on the paper's own numbers, where the rule can be applied to them."""

    claim: Claim
    verdict: str
    found: str
    printed: str | None = None


def verdicts(evidence: Evidence) -> list[Verdict]:
    """One for every claim, in their order."""
    printed = Evidence.printed()
    found = []
    for claim in CLAIMS:
        of_the_paper = _judged(claim, printed)[0]
        shown = of_the_paper if of_the_paper != NOT_TESTED else None
        found.append(Verdict(claim, *_judged(claim, evidence), shown))
    return found


def untested(why: str) -> list[Verdict]:
    """For records that are no experiment."""
    return [Verdict(claim, NOT_TESTED, why) for claim in CLAIMS]


def _judged(claim: Claim, evidence: Evidence) -> Judgement:
    try:
        return claim.judge(evidence)
    except Missing as missing:
        return NOT_TESTED, str(missing)


def _verdict(parts: Iterable[str]) -> str:
    """Of all parts of a claim together."""
    found = set(parts)
    if found <= {YES}:
        return HOLDS
    if NO in found:
        return FAILS if found == {NO} else IN_PART
    return NOT_TESTED if UNKNOWN in found else AT_EQUAL_TIME


def _is(true: bool) -> str:
    return YES if true else NO


def _solved(result: Result) -> bool:
    """Whether it has come below a tenth of the guesser's line."""
    return result.value is not None and result.value < result.guesser / 10


def _took(result: Result, level: float) -> tuple[float, bool]:
    """Updates to a level, and whether that is known: of a run that was cut short it is at least what it made."""
    found = result.reached(level)
    if found is not None:
        return found[0], True
    return (float("inf"), True) if result.is_fair else (result.updates, False)


def _less(a: tuple[float, bool], b: tuple[float, bool]) -> str:
    """Whether the first took less than the second."""
    if a[1] and b[1]:
        return _is(a[0] < b[0])
    if a[1] and a[0] <= b[0]:
        return YES
    if b[1] and b[0] <= a[0]:
        return NO
    return UNKNOWN


def _shown(took: tuple[float, bool]) -> str:
    return "not reached" if took[0] == float("inf") else f"{took[0]:.0f}" if took[1] else f"more than {took[0]:.0f}"


def _value(results: Sequence[Result]) -> str:
    value = mean(results)
    return "diverged" if value is None or any(each.diverged for each in results) else number(value)


def _number(evidence: Evidence, exhibit: str, line: str, x: Any) -> float:
    value = mean(evidence.at(exhibit, line, x))
    if value is None:
        raise Missing(f"{line} at {x} has no value: it diverged")
    return value


def no_clipping(evidence: Evidence) -> Judgement:
    places = (
        [("copy", T) for T in DELAYS] + [("adding", T) for T in LENGTHS] + [("psmnist", x) for x in ("pmnist", "bigpmnist")]
    )
    found = [each for exhibit, x in places for each in evidence.at(exhibit, "srnn", x)]
    clipped = [each for each in found if each.run.get("clip") is not None or each.run.get("clip_value") is not None]
    if clipped:
        raise Missing("a run of SRNN with clipping is recorded in the place of one without")
    diverged = sum(each.diverged for each in found)
    verdict = HOLDS if not diverged else IN_PART if diverged < len(found) / 10 else FAILS
    return verdict, f"{diverged} of {len(found)} runs of copy, adding and pMNIST diverged, all without clipping"


def no_explosion(evidence: Evidence) -> Judgement:
    ratios: dict[str, list[float]] = {name: [] for name in ("srnn", "rnn", "lstm", "gru")}
    for name, found in ratios.items():
        for state in ("untrained", "trained"):
            for T in (200, 1000, 2000):
                norms = evidence.found("gradients", f"{name} on adding, {state}", T)["norm"]
                found.append(median(each[0] / each[-1] if each[-1] > 0 else 0.0 for each in norms))
    said = "; ".join(f"{name} {number(min(found))} to {number(max(found))}" for name, found in ratios.items())
    return _verdict(_is(1e-3 < ratio < 10) for ratio in ratios["srnn"]), f"first over last norm of dL/dh_t on adding: {said}"


def survival(evidence: Evidence) -> Judgement:
    parts, said = [], []
    for task in ("adding", "copy"):
        for state in ("untrained", "trained"):
            found = evidence.found("gradients", f"units on {task}, {state}", task)
            for k in (10, 100):
                if k >= len(found["k"]):
                    raise Missing(f"units on {task} were not followed for {k} steps")
                share = sum(each[k] for each in found["newborn"]) / len(found["newborn"])
                parts.append(_is(0.5 <= share / found["paper"][k] <= 2))
                said.append(f"{task} {state}, {k} steps: {share:.1%} (estimate {found['paper'][k]:.1%})")
    return _verdict(parts), "; ".join(said)


def linear_cost(evidence: Evidence) -> Judgement:
    found = {name: evidence.found("timecomplexity", name, "units") for name in ("srnn", "rnn", "lstm", "gru", "nru", "urnn")}
    said = ", ".join(f"{name} {each['exponent']:.2f} ± {each['margin']:.2f}" for name, each in found.items())
    linear = found["srnn"]["exponent"] < 1.2
    quadratic = min(found[name]["exponent"] for name in ("rnn", "lstm", "gru", "nru")) > 1.5
    return (HOLDS if linear and quadratic else IN_PART if linear else FAILS), f"exponents over d_h: {said}"


def only_srnn_copies(evidence: Evidence) -> Judgement:
    parts, quick, solved = [], [], 0
    delays = [T for T in DELAYS if T > 100]
    for T in delays:
        ours, rivals = evidence.at("copy", "srnn", T)[0], {name: evidence.at("copy", name, T)[0] for name in RIVALS}
        needed = ours.reached(ours.guesser / 10)
        if needed is None:
            parts.append(NO)
            continue
        solved += 1
        for name, each in rivals.items():
            updates, is_known = _took(each, each.guesser / 10)
            if is_known or updates >= 2 * needed[0]:
                parts.append(_is(updates >= 2 * needed[0]))
            else:
                parts.append(TIME if needed[1] <= each.cpu_seconds else UNKNOWN)
            quick += [f"{name} at {T}"] if parts[-1] == NO else []
    said = f"SRNN comes below a tenth of the guesser's line at {solved} of {len(delays)} delays; "
    return _verdict(parts), said + f"rivals with less than twice its updates: {', '.join(quick) or 'none'}"


def rises_again(evidence: Evidence) -> Judgement:
    found = [each.record["training"] for T in DELAYS for each in evidence.at("copy", "srnn", T) if each.record["training"]]
    risen = [each for each in found if each["final"] > 10 * each["lowest"]]
    said = f"in {len(risen)} of {len(found)} runs the last mean of 500 updates is more than ten times the lowest"
    return (HOLDS if risen else FAILS), said


def gates_copy_in_part(evidence: Evidence) -> Judgement:
    parts, said = [], []
    for name in ("gru", "lstm", "urnn"):
        results = {T: evidence.at("copy", name, T)[0] for T in DELAYS}
        relative = {T: each.value / each.guesser for T, each in results.items() if each.value is not None and not each.diverged}
        said.append(f"{name} " + ", ".join(f"{T}: {value:.2f}" for T, value in relative.items()))
        if name == "urnn":
            continue
        below = any(value < 0.9 for value in relative.values())
        parts.append(YES if below else NO if all(each.is_fair for each in results.values()) else UNKNOWN)
        above = [T for T, value in relative.items() if value > 0.1]
        parts.append(NO if not above else YES if any(results[T].is_fair for T in above) else TIME)
        parts.append(OUTCOMES[compare([results[2000]], evidence.at("copy", "urnn", 2000))])
    return _verdict(parts), f"share of the guesser's line: {'; '.join(said)}"


def embedding_helps(evidence: Evidence) -> Judgement:
    parts, said = [], []
    for name in ("srnn", *RIVALS):
        for T in (100, 200):
            with_it = evidence.at("copy", "urnn, embedding" if name == "urnn" else name, T)[0]
            without = evidence.at("copy", f"{name}, one-hot", T)[0]
            until = min(with_it.updates, without.updates)
            a, b = with_it.best(updates=until), without.best(updates=until)
            if a is None or b is None:
                raise Missing(f"{name} at {T} has no curve")
            known = b < 0.9 * a or (with_it.is_fair and without.is_fair)
            parts.append(YES if a < 0.9 * b else NO if known else UNKNOWN)
            said.append(f"{name} {number(a)} ({number(b)})")
    return _verdict(parts), f"cross-entropy with (without) at equal updates, T = 100 and 200: {', '.join(said)}"


def quick_at_adding(evidence: Evidence) -> Judgement:
    parts, said = [], []
    for T in (100, 200, 400):
        results = {name: evidence.at("adding", name, T)[0] for name in ("nru", "gru", "srnn", "lstm")}
        took = {name: _took(each, each.guesser / 10) for name, each in results.items()}
        parts += [_less(took["nru"], took[name]) for name in ("gru", "srnn", "lstm")]
        parts += [_less(took[name], took["lstm"]) for name in ("gru", "srnn")]
        said.append(f"T {T}: " + ", ".join(f"{name} {_shown(each)}" for name, each in took.items()))
    return _verdict(parts), f"updates to a tenth of the guesser's error: {'; '.join(said)}"


def limits_of_nnrnn(evidence: Evidence) -> Judgement:
    parts, said = [], []
    for task, inside, beyond in (("copy", (100, 200, 300), 500), ("adding", (100,), 200)):
        for T in inside:
            each = evidence.at(task, "nnrnn", T)[0]
            parts.append(YES if _solved(each) else NO if each.is_fair else UNKNOWN)
        far = evidence.at(task, "nnrnn", beyond, seeds=2)
        parts.append(NO if any(map(_solved, far)) else YES if all(each.is_fair or each.diverged for each in far) else UNKNOWN)
        said += [f"{task} T {T} {_value(evidence.at(task, 'nnrnn', T))}" for T in (*inside, beyond)]
    return _verdict(parts), "; ".join(said)


def rnn_fails_at_digits(evidence: Evidence) -> Judgement:
    results, ours = evidence.at("psmnist", "rnn", "pmnist", seeds=2), evidence.at("psmnist", "srnn", "pmnist")[0]
    values = [each.value or 0.0 for each in results]
    said = f"test accuracy {', '.join(f'{value:.2f}' for value in values)} after {', '.join(_epochs(each) for each in results)}"
    if max(values) > 50:
        return (FAILS if max(values) > 80 else IN_PART), said
    if all(each.is_fair or each.diverged for each in results):
        return HOLDS, said
    ahead = (ours.best(seconds=max(each.cpu_seconds for each in results)) or 0) > 80
    return (AT_EQUAL_TIME if ahead else NOT_TESTED), said


def _epochs(result: Result) -> str:
    return f"{result.epochs:.1f} epochs"


def best_at_digits(evidence: Evidence) -> Judgement:
    ours = evidence.at("psmnist", "srnn", "pmnist", seeds=3)
    rivals = {name: evidence.at("psmnist", name, "pmnist") for name in RIVALS}
    parts = [OUTCOMES[compare(ours, each)] for each in rivals.values()]
    parts += [_is(rivals[name][0].parameters > 3 * ours[0].parameters) for name in ("lstm", "gru", "nru")]
    shown = ", ".join(f"{name} {_value(each)} ({each[0].parameters:,}; {_epochs(each[0])})" for name, each in rivals.items())
    return _verdict(parts), f"SRNN {_value(ours)} ({ours[0].parameters:,} parameters; {_epochs(ours[0])}); {shown}"


def lead_grows(evidence: Evidence) -> Judgement:
    leads, parts = {}, []
    for x in ("pmnist", "bigpmnist"):
        ours, rivals = evidence.at("psmnist", "srnn", x), [evidence.at("psmnist", name, x) for name in ("lstm", "gru")]
        outcomes = [OUTCOMES[compare(ours, each)] for each in rivals]
        parts += outcomes
        values = [_number(evidence, "psmnist", name, x) for name in ("lstm", "gru")]
        limit = float("inf") if set(outcomes) == {YES} else max(each[0].cpu_seconds for each in rivals)
        then = _number(evidence, "psmnist", "srnn", x) if limit == float("inf") else ours[0].best(seconds=limit) or 0.0
        leads[x] = then - max(values)
    larger = leads["bigpmnist"] > leads["pmnist"]
    parts.append(NO if not larger else YES if set(parts) == {YES} else TIME)
    said = f"lead over the better of LSTM and GRU: {leads['pmnist']:.1f} points on pMNIST, {leads['bigpmnist']:.1f} on big"
    return (FAILS if not larger or leads["bigpmnist"] <= 0 else _verdict(parts)), said + (
        "" if set(parts) == {YES} else " (at equal time)"
    )


def insensitive(evidence: Evidence) -> Judgement:
    values = [
        _number(evidence, "pmnistablation", line, x)
        for line, x in EXHIBITS["pmnistablation"].published
        if "no gate" not in line
    ]
    said = f"accuracy from {min(values):.2f} to {max(values):.2f} over 12 settings"
    return (HOLDS if max(values) - min(values) <= 2 else FAILS), said


def gate_helps(evidence: Evidence) -> Judgement:
    def gain(H: int) -> float:
        gains = []
        for width in (32, 64):
            for depth in (1, 2, 3):
                with_it, without = (
                    _number(evidence, "pmnistablation", f"{H} units, width {width}{gate}", depth) for gate in ("", ", no gate")
                )
                gains.append(with_it - without)
        return sum(gains) / len(gains)

    large, small = gain(1024), gain(512)
    with_it, without = (evidence.at("pmnistablation", f"1024 units, width 32{gate}", 3, seeds=3) for gate in ("", ", no gate"))
    difference = (mean(with_it) or 0) - (mean(without) or 0)
    seen = difference > max(spread(with_it), spread(without))
    said = (
        f"gate gains {difference:+.2f} points over three seeds ({'more' if seen else 'not more'} than their spread); "
        f"mean over settings {small:+.2f} at 512 units, {large:+.2f} at 1024"
    )
    return (FAILS if not seen else _verdict([YES, _is(large > small)])), said


# At which of our sizes a network that runs at one size only is compared: the nearest.
NEAREST = {("exprnn", 224): 256, ("scornn", 224): 256, ("eurnn", 158): 128, ("rgd", 128): 128}


def only_nru_is_better(evidence: Evidence) -> Judgement:
    places = {(name, H): H for name, sizes in {"lstm": SIZES[:4], "gru": SIZES[:4], "urnn": SIZES[:3]}.items() for H in sizes}
    outcomes = {
        (name, H): compare(evidence.at("timit", "srnn", at), evidence.at("timit", name, H))
        for (name, H), at in (places | NEAREST).items()
    }
    parts = [OUTCOMES[each] for each in outcomes.values()]
    nru = [compare(evidence.at("timit", "srnn", H), evidence.at("timit", "nru", H)) for H in SIZES[:4]]
    parts.append(YES if WORSE in nru else NO if set(nru) <= {BETTER, SAME} else UNKNOWN)
    not_beaten = [f"{name} {H} ({each})" for (name, H), each in outcomes.items() if each != BETTER]
    said = f"of {len(outcomes)} comparisons SRNN is better in {len(outcomes) - len(not_beaten)}"
    others = f"; else: {', '.join(not_beaten)}" if not_beaten else ""
    return _verdict(parts), f"{said}{others}; SRNN beside NRU at 128 to 1024: {', '.join(nru)}"


def nru_is_larger(evidence: Evidence) -> Judgement:
    ours, theirs = evidence.at("timit", "srnn", 2048)[0], evidence.at("timit", "nru", 1024)[0]
    times = theirs.parameters / ours.parameters
    said = f"NRU 1024 has {theirs.parameters:,} parameters, SRNN 2048 {ours.parameters:,}: {times:.1f} times"
    return (HOLDS if times >= 10 else FAILS), said


def narrow_is_enough(evidence: Evidence) -> Judgement:
    ratios = []
    for H in SIZES:
        for depth in (1, 2, 3):
            narrow, wide = (_number(evidence, "timitablation", f"{H} units, width {width}", depth) for width in (8, 32))
            ratios.append(narrow / wide)
    said = f"error of width 8 over that of width 32: median {median(ratios):.2f}, from {min(ratios):.2f} to {max(ratios):.2f}"
    return (HOLDS if median(ratios) <= 1.5 else FAILS), said


def depth_matters_little(evidence: Evidence) -> Judgement:
    def ranges(*sizes: int) -> float:
        found = []
        for H in sizes:
            for width in (8, 32):
                values = [_number(evidence, "timitablation", f"{H} units, width {width}", depth) for depth in (1, 2, 3)]
                found.append(max(values) - min(values))
        return sum(found) / len(found)

    large, small = ranges(1024, 2048), ranges(128)
    said = f"worst less best of three depths, mean: {large:.2f} dB² at 1024 and 2048 units, {small:.2f} at 128"
    return (HOLDS if large < small / 2 else FAILS), said


def _phases(evidence: Evidence, task: str, what: str) -> dict[str, float]:
    """A number of every phase of a task's states."""
    phases = evidence.found("hiddenstate", "srnn", task)["phases"]
    for name, each in phases.items():
        if what not in each:
            raise Missing(f"the states of {task} have no step {name}")
    return {name: each[what] for name, each in phases.items()}


def three_bands(evidence: Evidence) -> Judgement:
    changes = _phases(evidence, "adding", "change")
    at = changes.pop("at the markers")
    said = f"relative change per step: at the markers {at:.3f}; " + ", ".join(
        f"{name} {each:.3f}" for name, each in changes.items()
    )
    return _verdict(_is(each < at / 5) for each in changes.values()), said


def still_while_it_waits(evidence: Evidence) -> Judgement:
    changes = _phases(evidence, "copy", "change")
    said = f"relative change per step: {changes['symbols']:.3f} while it reads, {changes['delay']:.4f} in the delay"
    return (HOLDS if changes["delay"] <= changes["symbols"] / 10 else FAILS), said


def evolves(evidence: Evidence) -> Judgement:
    changes, waiting = _phases(evidence, "pmnist", "change"), _phases(evidence, "copy", "change")["delay"]
    said = f"relative change per step on pMNIST by thirds {', '.join(f'{each:.4f}' for each in changes.values())}; "
    return _verdict(_is(each > 5 * waiting) for each in changes.values()), said + f"in the delay of copy {waiting:.4f}"


def drops_what_is_irrelevant(evidence: Evidence) -> Judgement:
    speech = _phases(evidence, "speech", "zeroed")
    zeroed = sum(speech.values()) / len(speech)
    adding, copy = _phases(evidence, "adding", "zeroed")["between them"], _phases(evidence, "copy", "zeroed")["delay"]
    said = f"positive units that a step sets to zero: speech {zeroed:.2%}, adding {adding:.2%}, copy in the delay {copy:.2%}"
    return _verdict([_is(zeroed > adding), _is(zeroed > copy)]), said


MEMORISERS = ("lstm", "gru", "rnn")


def equal_capacity(evidence: Evidence) -> Judgement:
    parts, said = [], []
    for crop in ("8x8", "16x16"):
        for N in (100, 1000, 10_000):
            ours = evidence.at("randomlabels", f"srnn, {crop}", N)[0]
            value, best = _number(evidence, "randomlabels", f"srnn, {crop}", N), 0.0
            for name in MEMORISERS:
                each = evidence.at("randomlabels", f"{name}, {crop}", N)[0]
                theirs = each.best() or 0.0
                then = ours.best(seconds=each.cpu_seconds) or 0.0
                best = max(best, theirs)
                if value < theirs - 2:
                    parts.append(NO)
                else:
                    parts.append(YES if each.is_fair else TIME if then >= theirs - 2 else UNKNOWN)
            said.append(f"{crop}, {N}: {value:.1f} (best rival {best:.1f})")
    return _verdict(parts), "; ".join(said)


def fewer_epochs(evidence: Evidence) -> Judgement:
    parts, said, gains = [], [], {}
    for crop in ("8x8", "16x16"):
        for N in (100, 1000):
            ours = _epochs_to_90(evidence.at("randomlabels", f"srnn, {crop}", N)[0])
            rivals = [_epochs_to_90(evidence.at("randomlabels", f"{name}, {crop}", N)[0]) for name in MEMORISERS]
            parts += [_less(ours, each) for each in rivals]
            gains[crop, N] = min(rivals)[0] / ours[0] if all(each[1] for each in (ours, *rivals)) else None
            said.append(f"{crop}, {N}: {_shown(ours)} (best rival {_shown(min(rivals))})")
    for N in (100, 1000):
        small, large = gains["8x8", N], gains["16x16", N]
        parts.append(UNKNOWN if small is None or large is None else _is(large > small))
    return _verdict(parts), f"epochs to 90 %: {'; '.join(said)}"


def _epochs_to_90(result: Result) -> tuple[float, bool]:
    updates, is_known = _took(result, 90)
    return (updates * result.epochs / result.updates if updates < float("inf") else updates), is_known


TIMED = ("rnn", "lstm", "gru", "nru", "urnn")  # in the paper's Table 4


def fastest(evidence: Evidence) -> Judgement:
    parts, said = [], []
    for task in ("copy", "adding", "pmnist", "speech"):
        found = evidence.found("runtime", "Table 4", task)["times_srnn"]
        nearest = min(TIMED, key=lambda name: found[name])
        parts.append(_is(found[nearest] > 1.05))
        said.append(f"{task}: {nearest} {found[nearest]:.1f} times")
    return _verdict(parts), f"time of the fastest rival over that of SRNN without its alphabet form: {', '.join(said)}"


def few_parameters(evidence: Evidence) -> Judgement:
    found = evidence.found("runtime", "Table 4", "adding")["parameters"]
    smaller = [name for name in TIMED if found[name] < found["srnn"]]
    said = f"SRNN {found['srnn']:,}; " + ", ".join(f"{name} {found[name]:,}" for name in TIMED)
    return (HOLDS if smaller == ["urnn"] else FAILS), said


CLAIMS = (
    Claim(
        1,
        "SRNN trains without gradient clipping",
        "copy",
        "no run of copy, adding and pMNIST at the paper's settings diverges (in part: less than a tenth)",
        no_clipping,
    ),
    Claim(
        2,
        "Gradients neither explode nor vanish",
        "gradients",
        "the norm of dL/dh_t on adding at the first hundredth of the steps over that at the last, median of seeds, is above "
        "0.001 and below 10, untrained and trained, at T = 200, 1000 and 2000",
        no_explosion,
    ),
    Claim(
        3,
        "A unit meets a zero within k steps with probability k / (1 + k)",
        "gradients",
        "after 10 and 100 steps the share that has not is within a factor of 2 of 1 / (1 + k)",
        survival,
    ),
    Claim(
        4,
        "Its cost is linear in the number of units",
        "timecomplexity",
        "fitted exponent below 1.2, and above 1.5 for RNN, LSTM, GRU and NRU",
        linear_cost,
    ),
    Claim(
        5,
        "On copy only SRNN deals efficiently with delays above 100",
        "copy",
        "SRNN comes below a tenth of the guesser's line at T = 200 to 2000, and no rival with less than twice its updates",
        only_srnn_copies,
    ),
    Claim(
        6,
        "Its loss on copy can rise again",
        "copy",
        "in some run the last mean is above ten times the lowest",
        rises_again,
    ),
    Claim(
        7,
        "GRU and LSTM solve copy in part, and better than uRNN at long delays",
        "copy",
        "each is below 0.9 of the guesser's line somewhere and above 0.1 somewhere, and beats uRNN at T = 2000",
        gates_copy_in_part,
    ),
    Claim(
        8,
        "An embedding helps every network on copy",
        "copy",
        "with it the lowest loss is less than 0.9 of that without, at equal updates",
        embedding_helps,
    ),
    Claim(
        9,
        "Adding: NRU, GRU and SRNN are quick, NRU quickest, LSTM slow",
        "adding",
        "NRU needs the fewest updates to a tenth of the guesser's error, LSTM the most, at T = 100, 200, 400",
        quick_at_adding,
    ),
    Claim(
        10,
        "nnRNN solves copy up to 300 and adding below 200 only",
        "copy",
        "below a tenth of the guesser there, and with two seeds not at 500 and 200",
        limits_of_nnrnn,
    ),
    Claim(
        11,
        "RNN does not converge on pMNIST",
        "psmnist",
        "two seeds stay below 50 % test accuracy (in part: below 80 %)",
        rnn_fails_at_digits,
    ),
    Claim(
        12,
        "SRNN is best on pMNIST, with 50k parameters against 165k",
        "psmnist",
        "its mean of three seeds beats every rival, and LSTM, GRU and NRU have more than three times its parameters",
        best_at_digits,
    ),
    Claim(
        13,
        "Its lead is largest on big pMNIST",
        "psmnist",
        "it beats LSTM and GRU on both, and its lead over the better of them is larger there than on pMNIST",
        lead_grows,
    ),
    Claim(
        14,
        "On pMNIST it is insensitive to units, depth and width",
        "pmnistablation",
        "12 settings with a gate are within 2 points",
        insensitive,
    ),
    Claim(
        15,
        "Without the gate it is somewhat worse, more so when large",
        "pmnistablation",
        "at 1024 units, width 32, depth 3 it gains more than the spread of three seeds; on average more at 1024 than at 512",
        gate_helps,
    ),
    Claim(
        16,
        "On TIMIT only NRU is better",
        "timit",
        "on the task of the published numbers SRNN beats LSTM, GRU and uRNN at every size, EXPRNN, SCORNN, EURNN and RGD at "
        "the nearest, and NRU beats SRNN somewhere",
        only_nru_is_better,
    ),
    Claim(
        17,
        "NRU needs ten times the parameters for it",
        "timit",
        "NRU 1024 has at least ten times those of SRNN 2048",
        nru_is_larger,
    ),
    Claim(
        18,
        "f_r of width 8 is only slightly worse than of width 32",
        "timitablation",
        "the median of the error of width 8 over that of width 32 is at most 1.5",
        narrow_is_enough,
    ),
    Claim(
        19,
        "Depth of f_r matters little in large networks",
        "timitablation",
        "worst less best of three depths, in dB² and on average, is at 1024 and 2048 units less than half of that at 128",
        depth_matters_little,
    ),
    Claim(
        20,
        "On adding the state has three bands, cut by the markers",
        "hiddenstate",
        "before, between and after the markers a step changes it less than a fifth of what a marker does",
        three_bands,
    ),
    Claim(
        21,
        "On copy the state is still after step 10",
        "hiddenstate",
        "in the delay a step changes it at most a tenth of what a symbol does",
        still_while_it_waits,
    ),
    Claim(
        22,
        "On pMNIST the state evolves all the time",
        "hiddenstate",
        "in every third of the sequence a step changes it more than five times as much as in the delay of copy",
        evolves,
    ),
    Claim(
        23,
        "On TIMIT the state drops what is irrelevant",
        "hiddenstate",
        "a step sets a larger share of positive units to zero than on adding and on copy",
        drops_what_is_irrelevant,
    ),
    Claim(
        24,
        "Its capacity equals that of its rivals",
        "randomlabels",
        "accuracy on random labels at most 2 points below LSTM, GRU and RNN, for every crop and number of samples",
        equal_capacity,
    ),
    Claim(
        25,
        "It fits random labels in fewer epochs, more so at 16x16",
        "randomlabels",
        "fewer epochs to 90 % than every rival with 100 and 1000 samples, and by a larger factor at 16x16 than at 8x8",
        fewer_epochs,
    ),
    Claim(
        26,
        "It is the fastest on all four tasks",
        "runtime",
        "a training step of every rival takes 5 % longer than SRNN's without its alphabet form, or more",
        fastest,
    ),
    Claim(27, "Only uRNN has fewer parameters", "runtime", "with the sizes of Table 4, on adding", few_parameters),
)
assert [claim.number for claim in CLAIMS] == list(range(1, 28))  # all of them, in their order
