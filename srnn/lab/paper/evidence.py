"""Records as evidence: the results at each point of an exhibit, and what may be compared with what."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from statistics import fmean, linear_regression, median
from types import NoneType
from typing import Any

from rich.console import Console

from srnn.lab.paper.plan import EXHIBITS, SEEDS, Key, Line, Plan, Point
from srnn.lab.records.record import Measured, Record, Records, Stored
from srnn.lab.records.record import read as read_folder

CLOCKS = ("minutes", "cpu_minutes")
TOLERANCE = 0.02  # a smaller relative difference of errors counts as none, whatever the seeds show
POINTS = 0.3  # of accuracy: where it is low, 2 % of the error would be nearly 2 points, and hide slow learning
SOLVED = 10  # copy and adding are solved when the loss is below the chance level divided by this
CUT = "*"  # marks a number from fewer updates than planned
STUDY = "learning"  # folder of records of the study of start values, some of whose runs are points of exhibits
SOLVED_EARLY = ("stop_below", "ceiling")  # limits that end a run because it cannot become better, or need not


class Missing(Exception):
    """A verdict needs something that was not run."""


@dataclass(frozen=True, kw_only=True)
class Result(Record):
    """The record of a run as evidence for a claim.

    whole               settings of the training of which the run was planned as a part; None if it is all of it
    """

    whole: Mapping[str, Any] | None = field(default=None, metadata={"hint": (dict, NoneType)})

    @classmethod
    def of(cls, record: Record, point: Point) -> "Result":
        whole = None if point.whole is None else point.whole.as_dict()
        return cls(**{each.name: getattr(record, each.name) for each in fields(record)}, whole=whole)

    @property
    def value(self) -> float | None:
        """The number that is reported: the score of the record.

        For a run that the clock ended, on data that never repeat, it is the lowest point of its curve if that is lower: a
        window of 500 updates would include the high first losses.
        """
        if self.reports is not None or self.score is None or self.is_whole or self.diverged:
            return self.score
        return min([self.score, *(value for _, _, value in self.smooth)])

    @property
    def share(self) -> float:
        """The share of the planned updates that were made."""
        done, planned = {"steps": self.updates, "epochs": self.epochs or 0.0}, self.whole or self.run
        return max((count / planned[limit] for limit, count in done.items() if planned[limit]), default=1.0)

    @property
    def training_done(self) -> str:
        """How much of its training the run got, in words."""
        planned = self.whole or self.run
        if planned["epochs"]:
            done, all_of_it, unit = f"{self.epochs:.1f}".removesuffix(".0"), str(planned["epochs"]), "epochs"
        else:
            done, all_of_it, unit = f"{self.updates:,}", f"{planned['steps']:,}", "updates"
        if self.is_whole:
            return f"until solved, {done} {unit}" if self.ended_by in SOLVED_EARLY else f"all {done} {unit}"
        return f"{done} of {all_of_it} {unit}"

    @property
    def time(self) -> float:
        """CPU seconds of training. An evaluation after the clock ended the run does not count."""
        limit = self.run.get("cpu_minutes")
        return self.cpu_seconds if limit is None else min(self.cpu_seconds, 60 * limit)

    @property
    def is_whole(self) -> bool:
        """Whether the run came to the end of the whole training."""
        return not self.diverged and not self.is_stopped

    @property
    def is_stopped(self) -> bool:
        """Whether the clock ended the run, or it was planned as a part of a longer one."""
        return self.ended_by in CLOCKS or (self.share < 1 and self.whole is not None and self.ended_by not in SOLVED_EARLY)

    @property
    def solved_at(self) -> float:
        """The loss below which the task counts as solved."""
        return self.chance / SOLVED

    @property
    def is_solved(self) -> bool:
        """Whether the curve came down to the loss at which the task counts as solved."""
        return self.reached(self.solved_at) is not None

    @property
    def is_fair(self) -> bool:
        """Whether more updates would not have helped: all were made, or a quarter of them and the last third gained nothing."""
        return self.is_whole or (not self.diverged and self.share >= 0.25 and self.is_settled)

    @property
    def is_settled(self) -> bool:
        """Whether the last third of the curve gained nothing."""
        errors = [self.error(value) for _, _, value in self.smooth]
        before, after = errors[: 2 * len(errors) // 3], errors[2 * len(errors) // 3 :]
        if not before:
            return False
        gain = TOLERANCE * min(before)
        return min(after) >= min(before) - (min(gain, POINTS) if self.higher_is_better else gain)

    @property
    def slope(self) -> str:
        """How the last third of the curve changes in 1,000 updates: an accuracy in points, another score in percent."""
        points = self.smooth[2 * len(self.smooth) // 3 :]
        if len(points) < 2:
            return "too short for a slope"
        steps, values = [step for step, _, _ in points], [value for _, _, value in points]
        change = 1000 * linear_regression(steps, values).slope
        change *= 1 if self.higher_is_better else 100 / fmean(values)
        return f"{change:{'+.2g' if abs(change) < 100 else '+,.0f'}} {'points' if self.higher_is_better else '%'}"

    def error(self, value: float) -> float:
        """Return the value itself, or for an accuracy the difference to 100 percent: lower is better."""
        return 100 - value if self.higher_is_better else value

    def best(self, *, seconds: float = float("inf"), updates: float = float("inf")) -> float | None:
        """Return the best value of the curve within these limits."""
        values = [value for step, at, value in self.smooth if at <= seconds and step <= updates]
        return (max if self.higher_is_better else min)(values, default=None)

    def value_after(self, seconds: float) -> float | None:
        """Return the value of the run if it had ended then: on validation data, or the lowest mean loss of 500 updates."""
        values = [value for _, at, value in self.points(fmean) if at <= seconds]
        return (max if self.higher_is_better else min)(values, default=None)


class Printed:
    """A number from the paper in the place of a run. It has a value; what the paper does not say raises `Missing`."""

    seed, diverged, is_whole, is_fair, error = SEEDS[0], False, True, True, Result.error

    def __init__(self, value: float, higher_is_better: bool) -> None:
        self.value, self.higher_is_better = value, higher_is_better

    def __getattr__(self, name: str) -> Any:
        raise Missing("the paper does not say")


@dataclass(frozen=True)
class Evidence:
    """All records of a plan, by exhibit, line and x."""

    results: Mapping[str, Mapping[Key, Sequence[Result]]]
    measured: Mapping[str, Mapping[Key, Measured]]
    planned: Mapping[str, Mapping[Key, int]]  # runs or measurements of a point; 0 if the paper did not run it

    @classmethod
    def gather(cls, records: Iterable[Stored], plan: Plan, points: Mapping[str, Iterable[Point]] | None = None) -> "Evidence":
        """Collect the records of a plan's points, or of the points given by exhibit."""
        found = {record.id: record for record in records}
        results: dict[str, dict[Key, list[Result]]] = {name: {} for name in EXHIBITS}
        measured: dict[str, dict[Key, Measured]] = {name: {} for name in EXHIBITS}
        planned: dict[str, dict[Key, int]] = {name: {} for name in EXHIBITS}
        for name, exhibit in EXHIBITS.items():
            parts = exhibit.parts(plan) if points is None else [*points.get(name, ())]
            asked = exhibit.parts(replace(plan, all_networks=False)) if points is None else parts
            counts = Counter((part.line, part.x) for part in asked)
            for part in parts:
                key, record = (part.line, part.x), found.get(part.id)
                planned[name][key] = counts[key]
                if isinstance(record, Record):
                    assert isinstance(part, Point)
                    results[name].setdefault(key, []).append(Result.of(record, part))
                elif isinstance(record, Measured):
                    measured[name][key] = record
        return cls(results, measured, planned)

    @classmethod
    def printed(cls) -> "Evidence":
        """Return the numbers of the paper, as if they had been measured here."""
        results: dict[str, Any] = {
            name: {key: [Printed(value, "accuracy" in each.metric)] for key, value in {**each.quoted, **each.published}.items()}
            for name, each in EXHIBITS.items()
        }
        return cls(results, {name: {} for name in EXHIBITS}, {name: {} for name in EXHIBITS})

    @property
    def runs(self) -> dict[str, Result]:
        """The runs of all exhibits by id; several exhibits may share one."""
        return {each.id: each for points in self.results.values() for found in points.values() for each in found}

    def at(self, exhibit: str, line: Line, x: Any, seeds: int = 1) -> Sequence[Result]:
        """Return the results of a point, the main seed first; raise `Missing` if there are fewer seeds."""
        found = self.results[exhibit].get((line, x), ())
        if not found or found[0].seed != SEEDS[0]:
            raise Missing(f"not run: {exhibit}, {line} at {x}")
        if len(found) < seeds:
            raise Missing(f"not run: {exhibit}, {line} at {x}, {seeds - len(found)} more of {seeds} seeds")
        return found

    def longest(self, exhibit: str, line: Line, x: Any, seeds: int = 1) -> Sequence[Result]:
        """Return the results of the longer training of a line if it has as many seeds, else those of `at`."""
        longer = replace(line, longer=True)
        return self.at(exhibit, longer if len(self.results[exhibit].get((longer, x), ())) >= seeds else line, x, seeds)

    def found(self, exhibit: str, line: Line, x: Any) -> Mapping[str, Any]:
        """Return what was measured at a point."""
        if (line, x) not in self.measured[exhibit]:
            raise Missing(f"not measured: {exhibit}, {line} ({x})")
        return self.measured[exhibit][line, x].found

    def has(self, exhibit: str) -> bool:
        return bool(self.results[exhibit] or self.measured[exhibit])


def read(folder: Path, plan: Plan, console: Console | None = None) -> Records:
    """Read the records of a folder, and of the study of start values in it those that are points of an exhibit."""
    found, study = read_folder(folder, console), read_folder(folder / STUDY, console)
    planned = {part.id for exhibit in EXHIBITS.values() for part in exhibit.parts(plan)} - found.done.keys()
    return Records([*found.found, *(each for each in study.found if each.id in planned)], [*found.faults, *study.faults])


def mean(results: Sequence[Result]) -> float | None:
    """Return the mean of the values of all seeds; None if one has no value."""
    values = [result.value for result in results if result.value is not None]
    return fmean(values) if values and len(values) == len(results) else None


def star(results: Sequence[Result]) -> str:
    """Return the mark of numbers that include a run with fewer updates than planned."""
    return "" if all(each.is_whole for each in results) else CUT


def spread(results: Sequence[Result]) -> float:
    """Return the difference between the highest and the lowest value of the seeds."""
    values = [result.value for result in results if result.value is not None]
    return max(values) - min(values) if values else 0.0


def first_over_last(norms: Sequence[Sequence[float]]) -> float:
    """Return the gradient at the first point of a sequence over that at the last: the median over seeds."""
    return median(each[0] / each[-1] if each[-1] > 0 else 0.0 for each in norms)


BETTER, IN_TIME, SAME, WORSE, UNCLEAR = "better", "better at equal time", "no difference seen", "worse", "unclear"


def compare(ours: Sequence[Result], theirs: Sequence[Result]) -> str:
    """Compare our results with those of a baseline.

    A run that was cut short might still improve: it can win, but it can lose only at equal time. A baseline has lost if it
    diverged with two seeds; we have lost if we diverged with one.
    """
    if any(each.diverged for each in ours):
        return UNCLEAR if any(each.diverged for each in theirs) else WORSE
    if any(each.diverged for each in theirs):
        return BETTER if len(theirs) > 1 and all(each.diverged for each in theirs) else UNCLEAR
    a, b = mean(ours), mean(theirs)
    if a is None or b is None:
        return UNCLEAR
    apart = max(spread(ours), spread(theirs))
    outcome = _order(ours[0], a, b, apart)
    if outcome != BETTER and not all(each.is_fair for each in ours):
        return UNCLEAR
    if outcome == WORSE or all(each.is_fair for each in theirs):
        return outcome
    if outcome == SAME:
        return UNCLEAR
    limit = max(each.time for each in theirs)
    then, others = [each.best(seconds=limit) for each in ours], [each.best() for each in theirs]
    if None in then or None in others:
        return UNCLEAR
    at_equal_time = _order(ours[0], fmean(then), fmean(others), apart)  # type: ignore[arg-type]
    return IN_TIME if at_equal_time == BETTER else UNCLEAR


def _order(of: Result, a: float, b: float, tolerance: float) -> str:
    """Compare two values; differences up to the tolerance count as none."""
    a, b = of.error(a), of.error(b)
    if abs(a - b) <= max(tolerance, TOLERANCE * max(a, b)):
        return SAME
    return BETTER if a < b else WORSE
