"""The rule of every claim: a function that gives a verdict from records, and the numbers behind it.

A claim is cut into parts, one for each place and rival. A part is true, false, true at equal time only, or unknown, where a
rival was stopped by the clock and might still have got there. ABOUT in claims.py says how they make a verdict.
"""

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, median
from typing import Any

from srnn.lab.paper.evidence import (
    BETTER,
    IN_TIME,
    SAME,
    UNCLEAR,
    WORSE,
    Evidence,
    Missing,
    Result,
    compare,
    first_over_last,
    mean,
    spread,
    star,
)
from srnn.lab.paper.plan import DELAYS, EXHIBITS, LENGTHS, RIVALS, SIZES
from srnn.lab.training.progress import number

HOLDS, IN_PART, FAILS = "holds", "holds in part", "does not hold"
AT_EQUAL_TIME, NOT_TESTED = "holds at equal time, not tested at equal examples", "not tested"

SAMPLES = (100, 1000, 10_000)  # of random labels
IDLE = 0.3  # cores that other work may use while time is measured

YES, NO, TIME, UNKNOWN = "yes", "no", "at equal time", "unknown"
OUTCOMES = {BETTER: YES, IN_TIME: TIME, SAME: NO, WORSE: NO, UNCLEAR: UNKNOWN}

Judgement = tuple[str, str]  # a verdict, and the numbers behind it


class Diverged(Exception):
    """A run of SRNN that a claim is about did."""


def _verdict(parts: Iterable[str], conditions: Iterable[str] = ()) -> str:
    """Of all parts of a claim together; a condition can take from it, and where it is met nothing is won by that alone."""
    found = set(parts) | (set(conditions) - {YES})
    if found == {YES}:
        return HOLDS
    if NO in found:
        return IN_PART if found & {YES, TIME} else FAILS
    return AT_EQUAL_TIME if found and UNKNOWN not in found else NOT_TESTED


def _is(true: bool) -> str:
    return YES if true else NO


def _took(result: Result, level: float) -> tuple[float, bool]:
    """Updates to a level, and whether that is known: of a run that was cut short it is at least what it made."""
    found = result.reached(level)
    if found is not None:
        return found[0], True
    return (float("inf"), True) if result.is_fair else (result.updates, False)


def _middle(results: Sequence[Result], level: float) -> Result:
    """Of the seeds that which is in the middle by the updates it takes to a level; of two the slower."""
    return sorted(results, key=lambda each: _took(each, level)[0])[len(results) // 2]


def _less(a: tuple[float, bool], b: tuple[float, bool]) -> str:
    """Whether the first took less than the second; what never got there did not."""
    if a == (float("inf"), True):
        return NO
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
    if value is None or any(each.diverged for each in results):
        return "diverged"
    return number(value) + star(results)


def _ours(evidence: Evidence, exhibit: str, line: str, x: Any, seeds: int = 1) -> Sequence[Result]:
    """Of SRNN at one place, where no seed has diverged."""
    results = evidence.at(exhibit, line, x, seeds)
    if any(each.diverged for each in results):
        raise Diverged(f"{line} diverged at {x}")
    return results


def _number(evidence: Evidence, exhibit: str, line: str, x: Any) -> float:
    """Of SRNN at one place, over its seeds."""
    value = mean(_ours(evidence, exhibit, line, x))
    if value is None:
        raise Missing(f"{line} at {x} has no value")
    return value


def no_clipping(evidence: Evidence) -> Judgement:
    places: list[tuple[str, str, Any]] = [("copy", "srnn", T) for T in DELAYS] + [("adding", "srnn", T) for T in LENGTHS]
    places += [("psmnist", "srnn", "pmnist"), ("psmnist", "srnn", "bigpmnist")]
    places += [("timit", line, H) for line in ("srnn", "srnn, predict") for H in SIZES]
    places += [("randomlabels", f"srnn, {crop}", N) for crop in ("8x8", "16x16") for N in SAMPLES]
    found = [each for exhibit, line, x in places for each in evidence.at(exhibit, line, x)]
    clipped = [each for each in found if each.run.get("clip") is not None or each.run.get("clip_value") is not None]
    if clipped:
        raise Missing("a run of SRNN with clipping is recorded in the place of one without")
    diverged = sum(each.diverged for each in found)
    verdict = HOLDS if not diverged else IN_PART if diverged < len(found) / 10 else FAILS
    lines = [each for each in found if not each.has_split]  # copy and adding, whose guessers have a loss
    learned = (
        f"{sum(each.is_solved for each in lines)} of {len(lines)} on copy and adding came below a tenth of the guesser's line"
    )
    return verdict, f"{diverged} of {len(found)} runs diverged, all without clipping; {learned}"


def no_explosion(evidence: Evidence) -> Judgement:
    parts, said = [], []
    for state in ("untrained", "trained"):
        for name in ("srnn", "rnn", "lstm", "gru"):
            places = [(f"{name} on adding, {state}", T) for T in (200, 1000, 2000)]
            if name == "srnn":
                ratios = [first_over_last(evidence.found("gradients", *place)["norm"]) for place in places]
                parts += [_is(1e-3 < ratio < 10) for ratio in ratios]
            # The others are shown beside SRNN, and may be missing: one that diverged left no weights.
            there = [evidence.measured["gradients"].get(place) for place in places]
            shown = (_left(each["found"]["norm"]) if each else "not run" for each in there)
            said.append(f"{name} {state} {', '.join(shown)}")
    return _verdict(parts), f"first over last norm of dL/dh_t on adding at T = 200, 1000, 2000: {'; '.join(said)}"


def _left(norms: Sequence[Sequence[float]]) -> str:
    """What is left of a gradient: the median of seeds, with the lowest and the highest where they are apart."""
    each = [first_over_last([seed]) for seed in norms]
    apart = max(each) > 10 * min(each) and max(each) > 1e-3
    return number(first_over_last(norms)) + (f" ({number(min(each))} to {number(max(each))})" if apart else "")


def survival(evidence: Evidence) -> Judgement:
    parts, said = [], []
    for task in ("adding", "copy", "pmnist"):
        for state in ("untrained", "trained"):
            found = evidence.found("gradients", f"units on {task}, {state}", task)
            if len(found["k"]) <= 100:
                raise Missing(f"units on {task} were not followed for 100 steps")
            shares = {k: sum(each[k] for each in found["newborn"]) / len(found["newborn"]) for k in (10, 100)}
            parts.append(_is(all(0.5 <= share / found["paper"][k] <= 2 for k, share in shares.items())))
            said.append(f"{task} {state} {shares[10]:.1%} and {shares[100]:.1%}")
    return _verdict(parts), f"after 10 and 100 steps (estimate 9.1% and 1.0%): {', '.join(said)}"


def linear_cost(evidence: Evidence) -> Judgement:
    found = {name: evidence.found("timecomplexity", name, "units") for name in ("srnn", "rnn", "lstm", "gru", "nru")}
    _was_idle(found.values())
    said = ", ".join(f"{name} {each['exponent']:.2f} ± {each['margin']:.2f}" for name, each in found.items())
    low, high = (found["srnn"]["exponent"] + side * found["srnn"]["margin"] for side in (-1, 1))
    return _verdict([YES if high < 1.2 else NO if low > 1.2 else UNKNOWN]), f"exponents over d_h: {said}"


def only_srnn_copies(evidence: Evidence) -> Judgement:
    parts, quick, solved = [], [], []
    delays = [T for T in DELAYS if T > 100]
    for T in delays:
        seeds, rivals = _ours(evidence, "copy", "srnn", T, seeds=3), {name: evidence.at("copy", name, T) for name in RIVALS}
        ours = _middle(seeds, seeds[0].guesser / 10)
        needed = ours.reached(ours.guesser / 10)
        solved.append(sum(each.reached(each.guesser / 10) is not None for each in seeds))
        if needed is None:
            parts.append(NO)
            continue
        for name, each in [(name, each) for name, group in rivals.items() for each in group]:
            updates, is_known = _took(each, each.guesser / 10)
            if is_known or updates >= 2 * needed[0]:
                parts.append(_is(updates >= 2 * needed[0]))
            else:
                parts.append(TIME if needed[1] <= each.time else UNKNOWN)
            which = f", seed {each.seed}" if len(rivals[name]) > 1 else ""
            quick += [f"{name} at {T}{which} ({updates}, SRNN {needed[0]})"] if parts[-1] == NO else []
        sequences = 2 * needed[0] * ours.run["batch_size"]  # since an own recipe may have another batch
        for line in [f"{name}, {form}" for name in RIVALS for form in ("own recipe", "one-hot", "embedding")]:
            for each in evidence.results["copy"].get((line, T), ()):
                also = each.reached(each.guesser / 10)
                is_another = each.id != rivals[line.split(",")[0]][0].id  # an own recipe may be the paper's
                if is_another and also is not None and also[0] * each.run["batch_size"] < sequences:
                    parts.append(NO)
                    batch = f" of {each.run['batch_size']}" if each.run["batch_size"] != ours.run["batch_size"] else ""
                    quick.append(f"{line} at {T} ({also[0]}{batch}, SRNN {needed[0]})")
    said = f"SRNN comes below a tenth of the guesser's line with {', '.join(map(str, solved))} of 3 seeds at T = "
    said += f"{', '.join(map(str, delays))}; rivals with less than twice its updates: {', '.join(quick) or 'none'}"
    return _verdict(parts), said


def rises_again(evidence: Evidence) -> Judgement:
    found = [each for T in DELAYS for each in evidence.at("copy", "srnn", T)]
    risen = [_rise(each) for each in found]
    said = f"a mean of 500 updates came to more than ten times an earlier one in {sum(rise > 0 for rise in risen)} of "
    high = sum(rise > 0.01 for rise in risen)
    return (HOLDS if high else FAILS), said + f"{len(found)} runs, and to more than 1 % of the guesser's line in {high}"


def _rise(result: Result) -> float:
    """The highest share of the guesser's line that a loss came to after it had been below a tenth of that."""
    lowest, highest = float("inf"), 0.0
    for _, _, value in result.smoothed(fmean):
        highest = max(highest, value if value > 10 * lowest else 0.0)
        lowest = min(lowest, value)
    return highest / result.guesser


def gates_copy_in_part(evidence: Evidence) -> Judgement:
    parts, said = [], []
    for name in ("gru", "lstm", "urnn"):
        results = {T: evidence.at("copy", name, T)[0] for T in DELAYS}
        relative = {T: each.value / each.guesser for T, each in results.items() if each.value is not None and not each.diverged}
        said.append(f"{name} " + ", ".join(f"{T}: {value:.2f}{star([results[T]])}" for T, value in relative.items()))
        if name == "urnn":
            continue
        below, above = any(value < 0.9 for value in relative.values()), [T for T, value in relative.items() if value > 0.1]
        never = not below and all(each.is_fair for each in results.values())
        in_part = below and sum(results[T].is_fair for T in above) > 1
        everywhere = len(relative) - len(above) > len(DELAYS) - 2
        parts.append(YES if in_part else NO if never or everywhere else UNKNOWN)
        last = results[2000]
        if relative.get(2000, 1.0) > 0.9:  # what has learned nothing is not better than what has not either
            parts.append(NO if last.is_fair else UNKNOWN)
        else:
            parts.append(OUTCOMES[compare([last], evidence.at("copy", "urnn", 2000))])
    return _verdict(parts), f"share of the guesser's line: {'; '.join(said)}"


def embedding_helps(evidence: Evidence) -> Judgement:
    parts, said = [], []
    for name in ("srnn", *RIVALS):
        for T in (100, 200):
            without = evidence.at("copy", f"{name}, one-hot", T)[0]
            level = without.guesser / 10
            if name == "srnn":
                with_it = _middle(_ours(evidence, "copy", "srnn", T), level)
            else:
                with_it = evidence.at("copy", "urnn, embedding" if name == "urnn" else name, T)[0]
            until = min(with_it.updates, without.updates)
            took = _took(with_it, level), _took(without, level)
            if with_it.reached(level) or without.reached(level):
                parts.append(_less(took[0], (0.9 * took[1][0], took[1][1])))
                said.append(f"{name} at {T} {_shown(took[0])} ({_shown(took[1])}) updates")
                continue
            a, b = with_it.best(updates=until), without.best(updates=until)
            if a is None or b is None:
                raise Missing(f"{name} at {T} has no curve")
            enough = until >= (with_it.run["steps"] or 0) / 4
            known = b < 0.9 * a or (with_it.is_fair and without.is_fair)
            parts.append(UNKNOWN if not enough else YES if a < 0.9 * b else NO if known else UNKNOWN)
            shares = a / with_it.guesser, b / without.guesser
            said.append(f"{name} at {T} {shares[0]:.2f}{star([with_it])} ({shares[1]:.2f}{star([without])})")
    return _verdict(parts), f"with (without), updates to the level, or share of the guesser's line: {', '.join(said)}"


def quick_at_adding(evidence: Evidence) -> Judgement:
    parts, said = [], []
    for T in LENGTHS:
        results = {name: evidence.at("adding", name, T) for name in ("nru", "gru", "lstm")}
        results["srnn"] = _ours(evidence, "adding", "srnn", T)
        level = results["srnn"][0].guesser / 10
        took = {name: _took(_middle(each, level), level) for name, each in results.items()}
        parts += [_less(took["nru"], took[name]) for name in ("gru", "srnn", "lstm")]
        parts += [_less(took[name], took["lstm"]) for name in ("gru", "srnn")]
        said.append(f"T {T}: " + ", ".join(f"{name} {_shown(each)}" for name, each in took.items()))
    return _verdict(parts), f"updates to a tenth of the guesser's error: {'; '.join(said)}"


def limits_of_nnrnn(evidence: Evidence) -> Judgement:
    parts, said = [], []
    for task, inside, beyond in (("copy", (100, 200, 300), 500), ("adding", (100,), 200)):
        for T in inside:
            near = evidence.at(task, "nnrnn", T)
            failed = len(near) > 1 and all(each.is_fair or each.diverged for each in near)
            parts.append(YES if any(each.is_solved for each in near) else NO if failed else UNKNOWN)
        far = evidence.at(task, "nnrnn", beyond, seeds=2)
        parts.append(
            NO
            if any(each.is_solved for each in far)
            else YES
            if all(each.is_fair or each.diverged for each in far)
            else UNKNOWN
        )
        said += [f"{task} T {T} {_value(evidence.at(task, 'nnrnn', T))}" for T in (*inside, beyond)]
    return _verdict(parts), "; ".join(said)


def rnn_fails_at_digits(evidence: Evidence) -> Judgement:
    results, ours = evidence.at("psmnist", "rnn", "pmnist", seeds=2), evidence.at("psmnist", "srnn", "pmnist")[0]
    values = [each.value or 0.0 for each in results]
    each_said = [f"{value:.2f} after {_epochs(each)}" for value, each in zip(values, results, strict=True)]
    said = f"test accuracy {', '.join(each_said)}"
    if max(values) > 80:
        return FAILS, said
    if all(each.is_fair or each.diverged for each in results):
        return (HOLDS if max(values) < 50 else IN_PART), said
    ahead = (ours.best(seconds=max(each.time for each in results)) or 0) > 80
    return (AT_EQUAL_TIME if ahead and max(values) < 50 else NOT_TESTED), said


def _epochs(result: Result) -> str:
    return f"{result.epochs:.1f} epochs"


def best_at_digits(evidence: Evidence) -> Judgement:
    ours = _ours(evidence, "psmnist", "srnn", "pmnist", seeds=3)
    rivals = {name: evidence.at("psmnist", name, "pmnist") for name in RIVALS}
    more = {line: each for (line, x), each in evidence.results["psmnist"].items() if x == "pmnist" and line in ALSO_AT_DIGITS}
    known = {each.id for group in rivals.values() for each in group}
    more = {line: group for line, group in more.items() if group[0].id not in known}  # an own recipe that is the paper's
    outcomes = [compare(ours, each) for each in rivals.values()]
    lost = WORSE in (*outcomes, *(compare(ours, each) for each in more.values()))
    rivals |= more
    small = [_is(rivals[name][0].parameters > 3 * ours[0].parameters) for name in ("lstm", "gru", "nru")]
    shown = ", ".join(f"{name} {_value(each)} ({each[0].parameters:,}; {_epochs(each[0])})" for name, each in rivals.items())
    said = f"SRNN {_value(ours)} ({ours[0].parameters:,} parameters; {_epochs(ours[0])}); {shown}"
    return (FAILS if lost else _verdict((OUTCOMES[each] for each in outcomes), small)), said


# What else of the rivals was run on pMNIST: it can take the lead from SRNN, and need not be there.
ALSO_AT_DIGITS = ("gru, 5 of 60 epochs", *(f"{name}, own recipe" for name in RIVALS))


def lead_grows(evidence: Evidence) -> Judgement:
    both = {
        x: (_ours(evidence, "psmnist", "srnn", x), [evidence.at("psmnist", name, x) for name in ("lstm", "gru")])
        for x in ("pmnist", "bigpmnist")
    }
    fair = all(each.is_fair for _, rivals in both.values() for rival in rivals for each in rival)
    leads = {x: _lead(ours, rivals, fair) for x, (ours, rivals) in both.items()}
    outcomes = {x: [OUTCOMES[compare(ours, each)] for each in rivals] for x, (ours, rivals) in both.items()}
    how = "test accuracy" if fair else "validation accuracy at equal time"
    said = (
        f"lead over the better of LSTM and GRU, {how}: {leads['pmnist']:.1f} points on pMNIST, {leads['bigpmnist']:.1f} on big"
    )
    larger = leads["bigpmnist"] - leads["pmnist"] > spread(both["pmnist"][0])
    if NO in outcomes["bigpmnist"] or (fair and not larger):
        return FAILS, said
    return (_verdict([*outcomes["pmnist"], *outcomes["bigpmnist"], YES if fair else TIME]) if larger else NOT_TESTED), said


def _lead(ours: Sequence[Result], rivals: Sequence[Sequence[Result]], fair: bool) -> float:
    """In points over the best rival: at the end, or of validation at the time that rivals had."""
    values: list[float | None]
    if fair:
        values = [mean(each) for each in (ours, *rivals)]
    else:
        limit = max(each.time for rival in rivals for each in rival)
        values = [ours[0].best(seconds=limit), *(rival[0].best() for rival in rivals)]
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        raise Missing("a run on pMNIST or its big version has no value")
    return known[0] - max(known[1:])


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
                line = f"{H} units, width {width}"
                without = evidence.at("pmnistablation", f"{line}, no gate", depth)
                value = mean(without)
                if value is None or any(each.diverged for each in without):  # which is not what the claim is about
                    raise Missing(f"{line}, no gate at {depth} diverged")
                gains.append(_number(evidence, "pmnistablation", line, depth) - value)
        return fmean(gains)

    large, small = gain(1024), gain(512)
    with_it, without = (evidence.at("pmnistablation", f"1024 units, width 32{gate}", 3, seeds=3) for gate in ("", ", no gate"))
    difference = fmean(each.value or 0.0 for each in with_it) - fmean(each.value or 0.0 for each in without)
    margin = max(spread(with_it), spread(without))
    seen, said = difference > margin, f"gate gains {difference:+.2f} points over three seeds, whose spread is {margin:.2f}"
    said += f"{'' if seen else ': no difference seen'}; mean over settings {small:+.2f} at 512 units, {large:+.2f} at 1024"
    helps = [_is(seen), _is(min(small, large) > margin)]
    more_so = [_is(large - small > margin)] if YES in helps else []
    return _verdict(helps + more_so), said


# At which of our sizes a network that runs at one size only is compared: the nearest.
NEAREST = {("exprnn", 224): 256, ("scornn", 224): 256, ("eurnn", 158): 128, ("rgd", 128): 128}


def only_nru_is_better(evidence: Evidence) -> Judgement:
    places = {(name, H): H for name, sizes in {"lstm": SIZES[:4], "gru": SIZES[:4], "urnn": SIZES[:3]}.items() for H in sizes}
    outcomes = {
        (name, H): compare(_ours(evidence, "timit", "srnn", at), evidence.at("timit", name, H))
        for (name, H), at in (places | NEAREST).items()
    }
    parts = [OUTCOMES[each] for each in outcomes.values()]
    nru = [compare(_ours(evidence, "timit", "srnn", H), evidence.at("timit", "nru", H)) for H in SIZES[:4]]
    nru_wins = YES if WORSE in nru else NO if set(nru) <= {BETTER, SAME} else UNKNOWN
    not_beaten = [f"{name} {H} ({each})" for (name, H), each in outcomes.items() if each != BETTER]
    said = f"of {len(outcomes)} comparisons SRNN is better in {len(outcomes) - len(not_beaten)}"
    others = f"; else: {', '.join(not_beaten)}" if not_beaten else ""
    return _verdict(parts, [nru_wins]), f"{said}{others}; SRNN beside NRU at 128 to 1024: {', '.join(nru)}"


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
    said = f"error of width 8 over that of width 32, one seed each: median {median(ratios):.2f}, from {min(ratios):.2f} to "
    said += f"{max(ratios):.2f}"
    return (HOLDS if median(ratios) <= 1.5 else FAILS), said


def depth_matters_little(evidence: Evidence) -> Judgement:
    def ranges(*sizes: int) -> tuple[float, float]:
        found, shares = [], []
        for H in sizes:
            for width in (8, 32):
                values = [_number(evidence, "timitablation", f"{H} units, width {width}", depth) for depth in (1, 2, 3)]
                found.append(max(values) - min(values))
                shares.append(found[-1] / min(values))
        return fmean(found), fmean(shares)

    large, small = ranges(1024, 2048), ranges(128)
    shown = [f"{dB:.2f} dB² ({share:.0%} of the error)" for dB, share in (large, small)]
    said = f"worst less best of three depths, mean, one seed each: {shown[0]} at 1024 and 2048 units, {shown[1]} at 128"
    little = [_is(a < b / 2 or large[1] < 0.05) for a, b in zip(large, small, strict=True)]
    return _verdict(little), said


def _phase(evidence: Evidence, task: str, name: str, what: str) -> float:
    """A number of one phase of a task's states."""
    phase = evidence.found("hiddenstate", "srnn", task)["phases"][name]
    if what not in phase:
        raise Missing(f"the states of {task} have no step {name}")
    return float(phase[what])


def three_bands(evidence: Evidence) -> Judgement:
    at, parts, said = _phase(evidence, "adding", "at the markers", "change"), [], []
    for band in ("before the markers", "between them", "after them"):
        change, drift = (_phase(evidence, "adding", band, what) for what in ("change", "drift"))
        parts.append(_is(change < at / 5 and drift < 0.5))
        said.append(f"{band} {change:.3f} a step, {drift:.2f} in all")
    return _verdict(parts), f"relative change: at the markers {at:.3f} a step; {'; '.join(said)}"


def still_while_it_waits(evidence: Evidence) -> Judgement:
    reading, waiting = (_phase(evidence, "copy", phase, "change") for phase in ("symbols", "delay"))
    drift = _phase(evidence, "copy", "delay", "drift")
    said = f"relative change: {reading:.3f} a step while it reads, {waiting:.4f} in the delay, {drift:.2f} over all of it"
    return _verdict([_is(waiting <= reading / 10), _is(drift < 0.25)]), said


def evolves(evidence: Evidence) -> Judgement:
    still = max(_phase(evidence, "copy", "delay", "drift"), _phase(evidence, "adding", "between them", "drift"))
    drifts = [_phase(evidence, "pmnist", f"{third} third", "drift") for third in ("first", "second", "last")]
    said = f"relative change over each third of pMNIST {', '.join(f'{each:.2f}' for each in drifts)}"
    parts = [_is(each > max(0.5, still)) for each in drifts]
    return _verdict(parts), said + f"; in the delay of copy or between the markers of adding at most {still:.2f}"


def drops_what_is_irrelevant(evidence: Evidence) -> Judgement:
    dropped = {task: evidence.found("hiddenstate", "srnn", task)["dropped"] for task in ("speech", "adding", "copy")}
    said = ", ".join(f"{task} {share:.2%}" for task, share in dropped.items())
    parts = [_is(dropped["speech"] > 2 * dropped[task]) for task in ("adding", "copy")]
    return _verdict(parts), f"units positive for ten steps that a step sets to zero: {said}"


MEMORISERS = ("lstm", "gru", "rnn")


def equal_capacity(evidence: Evidence) -> Judgement:
    parts, said = [], []
    for crop in ("8x8", "16x16"):
        for N in SAMPLES:
            ours = _ours(evidence, "randomlabels", f"srnn, {crop}", N)[0]
            value, best = ours.value or 0.0, (0.0, "")
            for name in MEMORISERS:
                each = evidence.at("randomlabels", f"{name}, {crop}", N)[0]
                theirs = each.value or 0.0
                then = ours.best(seconds=each.time) or 0.0
                best = max(best, (theirs, star([each])))
                if each.diverged:
                    parts.append(UNKNOWN)
                elif value < theirs - 2:
                    parts.append(NO)
                else:
                    parts.append(YES if each.is_fair else TIME if then >= theirs - 2 else UNKNOWN)
            said.append(f"{crop}, {N}: {value:.1f} (best rival {best[0]:.1f}{best[1]})")
    return _verdict(parts), "; ".join(said)


def fewer_epochs(evidence: Evidence) -> Judgement:
    parts, said, gains = [], [], {}
    for crop in ("8x8", "16x16"):
        for N in (100, 1000):
            ours = _epochs_to_90(_ours(evidence, "randomlabels", f"srnn, {crop}", N)[0])
            rivals = [_epochs_to_90(evidence.at("randomlabels", f"{name}, {crop}", N)[0]) for name in MEMORISERS]
            parts += [_less(ours, each) for each in rivals]
            # Of a rival that was cut short it is known to take longer than another when it has made more epochs than that.
            gains[crop, N] = min(rivals)[0] / ours[0] if ours[1] and min(rivals)[1] else None
            said.append(f"{crop}, {N}: {_shown(ours)} (best rival {_shown(min(rivals))})")
    grows = []
    for N in (100, 1000):
        small, large = gains["8x8", N], gains["16x16", N]
        if small is None or large is None:
            grows.append(UNKNOWN)
        elif not small == large == float("inf"):  # where no rival gets there at either crop there is no factor to grow
            grows.append(_is(large > small))
    return _verdict(parts, grows or [UNKNOWN]), f"epochs to 90 %: {'; '.join(said)}"


def _epochs_to_90(result: Result) -> tuple[float, bool]:
    updates, is_known = _took(result, 90)
    return (updates * result.epochs / max(1, result.updates) if updates < float("inf") else updates), is_known


TIMED = ("rnn", "lstm", "gru", "nru", "urnn")  # in the paper's Table 4


def fastest(evidence: Evidence) -> Judgement:
    parts, said = [], []
    for task in ("copy", "adding", "pmnist", "speech"):
        measured = evidence.found("runtime", "Table 4", task)
        _was_idle([measured])
        found = measured["times_srnn"]
        nearest = min(TIMED, key=lambda name: found[name])
        parts.append(_is(found[nearest] > 1.05))
        said.append(f"{task}: {nearest} {found[nearest]:.1f} times")
    return _verdict(parts), f"time of the fastest rival over that of SRNN without its alphabet form: {', '.join(said)}"


def _was_idle(measured: Iterable[Mapping[str, Any]]) -> None:
    busy = max(each["busy_cores"] for each in measured)
    if busy > IDLE:
        raise Missing(f"other work kept {busy:.1f} cores busy when it was measured: measure again on an idle machine")


def few_parameters(evidence: Evidence) -> Judgement:
    found = evidence.found("runtime", "Table 4", "adding")["parameters"]
    smaller = [name for name in TIMED if found[name] < found["srnn"]]
    said = f"SRNN {found['srnn']:,}; " + ", ".join(f"{name} {found[name]:,}" for name in TIMED)
    return (HOLDS if smaller == ["urnn"] else FAILS), said
