"""Fills the tables of docs/learning.md from the records in this folder, and applies the rule of its protocol.

python results/learning/table.py
"""

import math
from pathlib import Path
from statistics import mean
from typing import Any

from srnn.lab.records import record as records
from srnn.lab.records import store
from srnn.lab.records.record import Record

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "learning.md"
CANDIDATES = [*((start, 1.0) for start in (0.0, -1.0, -2.0, -3.0, -4.0)), (0.0, 0.1), (0.0, 0.3)]  # gate_init, f_r_scale
SEEDS = (21, 22, 23)
# task: length, and what marks the records of the first stage
CHOOSE: list[tuple[str, int | None, dict[str, Any]]] = [
    ("adding", 200, {"steps": 2500}),
    ("adding", 400, {"steps": 3000}),
    ("adding", 1000, {"steps": 3000}),
    ("copy", 200, {"steps": 2000}),
    ("copy", 1000, {"steps": 3000}),
    ("pmnist", None, {"epochs": 3}),
    ("speech", None, {"steps": 1000}),
    ("text", 256, {"steps": 1000}),
]
CONFIRM = [
    *(("copy", T) for T in (100, 200, 300, 500, 1000, 2000)),
    *(("adding", T) for T in (100, 200, 400, 750, 1000, 1500, 5000)),
]
COMPARE = [("text", ("gru", "srnnstack", "srnn")), ("speech", ("gru", "srnnstack"))]
Found = dict[tuple[Any, ...], dict[int, Record]]  # by task, length, start and end of the run: records by seed


def read() -> Found:
    """Returns the records of the network srnn by setting and seed."""
    found: Found = {}
    for record in records.read(HERE).of(Record):
        run, network, task = record.run, record.run["network"], record.run["task"]
        if network["name"] == "srnn" and run["cpu_minutes"] is None:
            end = ("epochs", run["epochs"]) if run["epochs"] else ("steps", run["steps"])
            start = network["gate_init"], network["f_r_scale"]
            found.setdefault((task["name"], task.get("length"), start, end), {})[record.seed] = record
    return found


def is_relative(task: str) -> bool:
    """True for tasks that are judged by their loss over chance level."""
    return task in ("adding", "copy")


def measure(task: str, record: Record) -> float:
    """Returns the mean loss of the last updates over chance level; for other tasks the best validation score."""
    assert record.training
    if is_relative(task):
        return record.training.final / record.chance
    assert record.selection
    return record.selection.score


def is_solved(task: str, record: Record) -> bool:
    level = 0.01 if task == "adding" else record.chance / 10
    return record.training is not None and record.training.lowest < level


def name(start: tuple[float, float]) -> str:
    return f"gate_init {start[0]:g}" if start[1] == 1 else f"f_r x {start[1]:g}"


def choose_rows(found: Found) -> list[list[str]]:
    """A row for each task, with every seed of every candidate."""
    rows = [["task", *map(name, CANDIDATES)], ["---"] * (1 + len(CANDIDATES))]
    for task, length, end in CHOOSE:
        cells = []
        for start in CANDIDATES:
            by_seed = found.get((task, length, start, next(iter(end.items()))), {})
            values = [measure(task, by_seed[seed]) for seed in SEEDS if seed in by_seed]
            cells.append(", ".join(f"{value:.3g}" if task != "pmnist" else f"{value:.2f}" for value in values) or "not run")
        rows.append([f"{task}{'' if length is None else f', T = {length}'}", *cells])
    return rows


def winner(found: Found) -> str:
    """The outcome of the protocol's three steps, or that runs are missing."""
    values: dict[tuple[float, float], dict[tuple[str, int | None], list[Record]]] = {start: {} for start in CANDIDATES}
    for start in CANDIDATES:
        for task, length, end in CHOOSE:
            by_seed = found.get((task, length, start, next(iter(end.items()))), {})
            if any(seed not in by_seed for seed in SEEDS):
                return "Stage 1 is not complete, so there is no winner yet."
            values[start][task, length] = [by_seed[seed] for seed in SEEDS]

    def average(start: tuple[float, float], task: str) -> float:
        return mean(measure(task, record) for (name, _), runs in values[start].items() if name == task for record in runs)

    paper = CANDIDATES[0]
    kept = [
        start
        for start in CANDIDATES
        if average(start, "pmnist") >= average(paper, "pmnist") - 0.5
        and all(average(start, task) <= 1.02 * average(paper, task) for task in ("speech", "text"))
    ]
    judged = {s: [(t, r) for (t, _), runs in values[s].items() if is_relative(t) for r in runs] for s in kept}
    solved = {s: sum(is_solved(t, r) for t, r in judged[s]) for s in kept}
    logs = {s: mean(math.log10(measure(t, r)) for t, r in judged[s]) for s in kept}
    best = min((s for s in kept if solved[s] >= max(solved.values()) - 1), key=lambda s: logs[s])
    dropped = ", ".join(name(s) for s in CANDIDATES if s not in kept) or "none"
    counts = ", ".join(f"{name(s)}: {solved[s]} solved, mean log10 {logs[s]:.2f}" for s in kept)
    return f"Dropped in step 1: {dropped}. Of 15 runs on adding and copy, {counts}. **The winner is {name(best)}.**"


def confirm_rows(found: Found) -> list[list[str]]:
    """Solved seeds and the updates they took, for every start that was run in the second stage."""
    starts = sorted({key[2] for key in found if key[3] == ("steps", 20_000)}, reverse=True)
    rows = [["task", *map(name, starts)], ["---"] * (1 + len(starts))]
    for task, length in CONFIRM:
        cells = []
        for start in starts:
            end = 5_000 if length == 5000 else 20_000
            by_seed = found.get((task, length, start, ("steps", end)), {})
            solved = {seed: r.updates for seed, r in sorted(by_seed.items()) if is_solved(task, r)}
            failed = [str(seed) for seed, r in sorted(by_seed.items()) if not is_solved(task, r)]
            text = f"{len(solved)} of {len(by_seed)}" + (f", updates {', '.join(map(str, solved.values()))}" if solved else "")
            cells.append(text + (f"; not solved: seed {', '.join(failed)}" if failed else "") if by_seed else "not run")
        rows.append([f"{task}, T = {length}", *cells])
    if starts:
        ends = [found.get(("pmnist", None, start, ("epochs", 10)), {}) for start in starts]
        cells = [", ".join(f"{by_seed[seed].score:.2f}" for seed in sorted(by_seed)) or "not run" for by_seed in ends]
        rows.append(["pMNIST, test accuracy", *cells])
    return rows if starts else []


def compare_rows() -> list[list[str]]:
    """The validation score of each learning rate, and the test scores of the five seeds with the best of them."""
    runs = [record for record in records.read(HERE).of(Record) if record.run["cpu_minutes"] is not None]
    rows = [["task", "network", "validation by learning rate", "test, seeds 22 to 26", "mean", "updates"], ["---"] * 6]
    for task, networks in COMPARE:
        for network in networks:
            of = [r for r in runs if (r.run["task"]["name"], r.run["network"]["name"]) == (task, network)]
            tried = sorted((r.run["lr"], r.selection.score) for r in of if r.seed == 21 and r.selection)
            tested = sorted((r for r in of if r.seed != 21), key=lambda r: r.seed)
            scores = [r.result.value for r in tested if r.result]
            texts = [", ".join(f"{lr:g}: {score:.4g}" for lr, score in tried), ", ".join(f"{score:.4g}" for score in scores)]
            ends = [f"{mean(scores):.4g}", str(round(mean(r.updates for r in tested)))] if scores else ["", ""]
            if tried:
                rows.append([task, network, *(text or "not run" for text in texts), *ends])
    return rows if len(rows) > 2 else []


def markdown(rows: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows) or "Not run yet."


def main() -> None:
    found = read()
    chosen = f"{markdown(choose_rows(found))}\n\n{winner(found)}"
    store.replace(PAGE, store.filled(PAGE, "choose", chosen))
    store.replace(PAGE, store.filled(PAGE, "confirm", markdown(confirm_rows(found))))
    store.replace(PAGE, store.filled(PAGE, "compare", markdown(compare_rows())))


if __name__ == "__main__":
    main()
