"""The table of the swap test: learning rates chosen by validation scores, and the test scores of that choice."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from srnn.lab.bench.result import Table, commit
from srnn.lab.bench.swap.program import Program, Run
from srnn.lab.bench.swap.training import BUDGETS, CLIP, NETWORKS

Found = Mapping[str, Mapping[str, Any]]  # records by the id of their run
OURS, THEIRS = ("SRNN", "SRNNStack"), ("nn.GRU", "nn.LSTM")
HEADING = ["program and score", "network", "equal updates", "lr", "equal CPU time", "lr", "updates in that time"]
NAMES = {"updates": "equal updates", "seconds": "equal CPU time"}
MEANING = (
    "Test scores: the mean over seeds (lowest to highest). The best of each program and column is bold. The learning rate (lr) "
    "is chosen for each program, network and budget by the mean validation score over seeds, where there are two scores by the "
    "first."
)


@dataclass(frozen=True)
class Choice:
    """The learning rate of a network in a program for a budget, and what it led to: test scores and updates, one per seed."""

    lr: float
    test: Mapping[str, Sequence[float]]  # not finite where a run or a score was not
    updates: Sequence[int]


Choices = Mapping[tuple[str, str, str], Choice | None]  # by program, network and budget


def choose(program: Program, network: str, budget: str, runs: Sequence[Run], found: Found) -> Choice | None:
    """Returns the choice of a network, or None where one of its runs in the program is not among those found."""
    groups: dict[float, list[Mapping[str, Any]]] = {}
    for run in runs:
        if (run.program, run.network) == (program, network):
            if run.id not in found:
                return None
            groups.setdefault(run.lr, []).append(found[run.id]["at"][budget])

    def values(lr: float, split: str, score: str) -> list[float]:
        worst = -math.inf if program.scores[score] else math.inf
        return [worst if (value := at[split][score]) is None else value for at in groups[lr]]

    first = next(iter(program.scores))
    best = (max if program.scores[first] else min)(groups, key=lambda lr: fmean(values(lr, "val", first)))
    return Choice(
        best, {score: values(best, "test", score) for score in program.scores}, [at["updates"] for at in groups[best]]
    )


def is_at_least_as_good(program: Program, ours: Choice, theirs: Choice) -> bool:
    """Returns whether the mean test score is not worse, in every score of the program."""
    pairs = [(fmean(ours.test[score]), fmean(theirs.test[score]), up) for score, up in program.scores.items()]
    return all(a >= b if up else a <= b for a, b, up in pairs)


def tables(runs: Sequence[Run], found: Found) -> tuple[list[list[str]], list[str]]:
    """Returns the rows of the table, and the sentences about them."""
    programs = list(dict.fromkeys(run.program for run in runs))
    chosen = {
        (program.name, network, budget): choose(program, network, budget, runs, found)
        for program in programs
        for network in NETWORKS
        for budget in BUDGETS
    }
    rows = [row for program in programs for score in program.scores for row in _rows(program, score, chosen)]
    return rows, [_summary(programs, ours, theirs, chosen) for ours in OURS for theirs in THEIRS]


def _rows(program: Program, score: str, chosen: Choices) -> list[list[str]]:
    up = program.scores[score]
    best = {}
    for budget in BUDGETS:
        means = [fmean(choice.test[score]) for net in NETWORKS if (choice := chosen[program.name, net, budget]) is not None]
        best[budget] = (max if up else min)(means) if means else None
    rows: list[list[str]] = []
    for network in NETWORKS:
        cells = []
        for budget in BUDGETS:
            choice = chosen[program.name, network, budget]
            if choice is None:
                cells += ["not complete", ""]
                continue
            text = _range(choice.test[score])
            is_best = fmean(choice.test[score]) == best[budget] and math.isfinite(fmean(choice.test[score]))
            cells += [f"**{text}**" if is_best else text, f"{choice.lr:g}"]
        last = chosen[program.name, network, "seconds"]
        title = f"{program.name}: {score}, {'higher' if up else 'lower'} is better" if not rows else ""
        rows.append([title, network, *cells, "" if last is None else f"{fmean(last.updates):.0f}"])
    return rows


def _range(values: Sequence[float]) -> str:
    bad = sum(not math.isfinite(value) for value in values)
    if bad:
        return f"diverged in {bad} of {len(values)} runs"
    return f"{fmean(values):.3g} ({min(values):.3g} to {max(values):.3g})"


def _summary(programs: Sequence[Program], ours: str, theirs: str, chosen: Choices) -> str:
    parts = []
    for budget in BUDGETS:
        compared, worse = 0, []
        for program in programs:
            a, b = chosen[program.name, ours, budget], chosen[program.name, theirs, budget]
            if a is not None and b is not None:
                compared += 1
                worse += [] if is_at_least_as_good(program, a, b) else [program.name]
        losses = f" (worse: {', '.join(worse)})" if worse else ""
        parts.append(f"in {compared - len(worse)} of {compared} programs at {NAMES[budget]}{losses}")
    return f"{ours} is at least as good as {theirs} {' and '.join(parts)}."


def about(runs: Sequence[Run], found: Found) -> list[str]:
    """Returns what was run, where, and the sizes and data of each program."""
    rates = ", ".join(f"{lr:g}" for lr in sorted({run.lr for run in runs}))
    seeds = ", ".join(f"{seed}" for seed in sorted({run.seed for run in runs}))
    commits = {commit(each) for each in found.values()}
    machines = {f"{each['machine']['cpu']}, torch {each['versions']['torch']}" for each in found.values()}
    return [
        f"{len(found)} runs with Adam, learning rates {rates}, seeds {seeds}, gradients clipped to norm {CLIP:g}, one thread. "
        f"Only the CPU time of updates counts. Measured on {_listed(machines)}; commit {_listed(commits)}. Budgets, sizes and "
        "data:",
        *(f"- {_sizes(program, found)}" for program in dict.fromkeys(run.program for run in runs)),
    ]


def _sizes(program: Program, found: Found) -> str:
    data = {each["settings"]["data"] for each in found.values() if each["settings"]["program"] == program.name}
    return (
        f"{program.name}: {program.updates} updates or {program.seconds:g} CPU seconds, {program.hidden_size} units, "
        f"batch {program.batch_size}, up to {program.length} steps, data: {_listed(data)}"
    )


def _listed(names: set[str]) -> str:
    return "; ".join(sorted(names)) or "not run"


def parts(runs: Sequence[Run], found: Found) -> list[Table | str]:
    """Returns the table, the sentences about it, what it means, and the origin of the records."""
    if not found:
        return ["There are no records yet. Run `srnn bench --swap --readme docs/migrate.md`."]
    rows, sentences = tables(runs, found)
    origin, *sizes = about(runs, found)
    compared = "\n".join(f"- {sentence}" for sentence in sentences)
    return [Table(HEADING, rows, names=2), compared, f"{MEANING} {origin}", "\n".join(sizes)]
