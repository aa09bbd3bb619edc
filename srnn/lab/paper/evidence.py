"""Records as evidence: what was run at each point of an exhibit, how well it did, and how far it may be compared."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean, median
from typing import Any

from srnn.lab.paper.plan import EXHIBITS, SEEDS, Key, Line, Measurement, Plan, Point
from srnn.lab.tasks import TASKS

SMOOTH = 5  # entries of a loss curve that are averaged before it is judged, as a rule 500 updates; at its beginning fewer
CLOCKS = ("minutes", "cpu_minutes")
TOLERANCE = 0.02  # relative difference of errors that is not taken for one, whatever the seeds say
POINTS = 0.3  # of accuracy: where it is low, 2 % of the error would be nearly 2 points, and hide slow learning
CUT = "*"  # marks a number made with fewer updates than planned


class Missing(Exception):
    """Something that a verdict needs was not run."""


class Result:
    """One recorded run."""

    def __init__(self, record: Mapping[str, Any]) -> None:
        self.record = record
        self.run, self.id, self.seed = record["run"], record["id"], record["run"]["seed"]
        self.seconds, self.cpu_seconds = record["seconds"], record["cpu_seconds"]
        self.updates, self.examples, self.parameters = record["updates"], record["examples"], record["parameters"]
        self.epochs, self.guesser = record["epochs"], record["guesser"]
        self.diverged = record["status"] == "diverged"
        task = TASKS[self.run["task"]["name"]]
        self.higher_is_better, self.has_split = task.higher_is_better, task.reports is not None

    @property
    def value(self) -> float | None:
        """The number that is reported: of the split that the task reports, or the lowest mean loss of 500 updates.

        Of a run that was cut short the lowest of its curve, if that is less: 500 of few updates would hold the first losses,
        and those that went astray.
        """
        if self.has_split:
            return self.record["result"]["value"] if self.record["result"] else None
        if not self.record["training"]:
            return None
        along = [] if self.is_whole or self.diverged else [value for _, _, value in self.curve]
        return min([self.record["training"]["lowest"], *along])

    @property
    def share(self) -> float:
        """Of the updates that it was to make."""
        run, ends = self.run, []
        if run["steps"]:
            ends.append(self.updates / run["steps"])
        if run["epochs"]:
            ends.append(self.epochs / run["epochs"])
        return max(ends, default=1.0)

    @property
    def time(self) -> float:
        """CPU seconds that it could train: what an evaluation took after the clock had ended it does not count."""
        limit = self.run.get("cpu_minutes")
        return self.cpu_seconds if limit is None else min(self.cpu_seconds, 60 * limit)

    @property
    def is_whole(self) -> bool:
        """Whether it came to its end, and was not ended by the clock."""
        return not self.diverged and self.record["ended_by"] not in CLOCKS

    @cached_property
    def curve(self) -> list[tuple[int, float, float]]:
        """(update, CPU seconds, value) along the way: evaluations where there are such, else losses without their spikes."""
        return self.smoothed(median)

    def smoothed(self, average: Callable[[Sequence[float]], float]) -> list[tuple[int, float, float]]:
        """The curve, with losses by such an average of five entries, as a rule of 100 updates each."""
        curve = self.record["curve"]
        if self.has_split:
            values = curve.get("evaluation_score", [None] * len(curve["step"]))
        else:
            losses = curve["loss"]
            values = [average(losses[k + 1 - min(SMOOTH, k // 2 + 1) : k + 1]) for k in range(len(losses))]
        rows = zip(curve["step"], curve["cpu_seconds"], values, strict=True)
        return [(step, seconds, value) for step, seconds, value in rows if value is not None]

    @property
    def is_solved(self) -> bool:
        """Whether it has come below a tenth of the guesser's line."""
        return self.reached(self.guesser / 10) is not None

    @property
    def is_fair(self) -> bool:
        """Whether more updates would not have helped: it had all, or a quarter of them and the last third was for nothing."""
        if self.is_whole:
            return True
        errors = [self.error(value) for _, _, value in self.curve]
        before, after = errors[: 2 * len(errors) // 3], errors[2 * len(errors) // 3 :]
        if self.diverged or self.share < 0.25 or not before:
            return False
        gain = TOLERANCE * min(before)
        return min(after) >= min(before) - (min(gain, POINTS) if self.higher_is_better else gain)

    def error(self, value: float) -> float:
        """What is to be small: the value itself, or what is missing to 100 percent."""
        return 100 - value if self.higher_is_better else value

    def best(self, *, seconds: float = float("inf"), updates: float = float("inf")) -> float | None:
        """The best value along the way until then."""
        values = [value for step, at, value in self.curve if at <= seconds and step <= updates]
        return (max if self.higher_is_better else min)(values, default=None)

    def reached(self, level: float) -> tuple[int, float] | None:
        """Updates and CPU seconds until the curve first is as good as this."""
        good = ((step, at) for step, at, value in self.curve if self.error(value) <= self.error(level))
        return next(good, None)


class Printed(Result):
    """A number of the paper in the place of a run: it has a value, and whatever else a rule asks for is missing."""

    def __init__(self, value: float, higher_is_better: bool) -> None:
        self.printed, self.higher_is_better, self.diverged, self.seed = value, higher_is_better, False, SEEDS[0]

    def __getattr__(self, name: str) -> Any:
        raise Missing("the paper does not say")

    value = property(lambda self: self.printed)
    is_whole = is_fair = property(lambda self: True)


@dataclass(frozen=True)
class Evidence:
    """All records of a plan, by exhibit, line and place."""

    results: Mapping[str, Mapping[Key, Sequence[Result]]]
    measured: Mapping[str, Mapping[Key, Mapping[str, Any]]]  # whole records
    planned: Mapping[str, Mapping[Key, int]]  # runs or measurements that a point asks for; 0 where the paper did not run it

    @classmethod
    def gather(
        cls,
        records: Iterable[Mapping[str, Any]],
        plan: Plan,
        points: Mapping[str, Iterable[Point]] | None = None,
    ) -> "Evidence":
        """Of the plan's points, or of those given by exhibit."""
        found = {record["id"]: record for record in records}
        asked = replace(plan, all_networks=False)
        results: dict[str, dict[Key, list[Result]]] = {}
        measured: dict[str, dict[Key, Mapping[str, Any]]] = {}
        planned: dict[str, dict[Key, int]] = {}
        for name, exhibit in EXHIBITS.items():
            each: list[Point] = list(exhibit.points(plan) if points is None else points.get(name, ()))
            looked: list[Measurement] = list(exhibit.measurements(plan)) if points is None else []
            results[name], measured[name], planned[name] = {}, {}, {}
            parts: list[Point | Measurement] = [*each, *looked]
            for part in parts:
                planned[name].setdefault((part.line, part.x), 0)
            if points is None:
                parts = [*exhibit.points(asked), *exhibit.measurements(asked)]
            for part in parts:
                planned[name][part.line, part.x] += 1
            for point in each:
                if point.run.id in found:
                    results[name].setdefault((point.line, point.x), []).append(Result(found[point.run.id]))
            for measurement in looked:
                if measurement.id in found:
                    measured[name][measurement.line, measurement.x] = found[measurement.id]
        return cls(results, measured, planned)

    @classmethod
    def printed(cls) -> "Evidence":
        """The numbers of the paper, as if they had been run here."""
        results = {
            name: {
                key: [Printed(value, "accuracy" in exhibit.metric)]
                for key, value in (*exhibit.quoted.items(), *exhibit.published.items())
            }
            for name, exhibit in EXHIBITS.items()
        }
        return cls(results, {name: {} for name in EXHIBITS}, {name: {} for name in EXHIBITS})

    def at(self, exhibit: str, line: Line, x: Any, seeds: int = 1) -> Sequence[Result]:
        """The results of a point, the main seed first; raises where it or one of so many seeds was not run."""
        found = self.results[exhibit].get((line, x), ())
        if not found or found[0].seed != SEEDS[0]:
            raise Missing(f"not run: {exhibit}, {line} at {x}")
        if len(found) < seeds:
            raise Missing(f"not run: {exhibit}, {line} at {x}, {seeds - len(found)} more of {seeds} seeds")
        return found

    def found(self, exhibit: str, line: Line, x: Any) -> Mapping[str, Any]:
        """What was measured at a point."""
        if (line, x) not in self.measured[exhibit]:
            raise Missing(f"not measured: {exhibit}, {line} ({x})")
        return self.measured[exhibit][line, x]["found"]

    def has(self, exhibit: str) -> bool:
        return bool(self.results[exhibit] or self.measured[exhibit])


def mean(results: Sequence[Result]) -> float | None:
    """Of the values of all seeds; None where one has none."""
    values = [result.value for result in results if result.value is not None]
    return fmean(values) if values and len(values) == len(results) else None


def star(results: Sequence[Result]) -> str:
    """The mark of numbers of which one was made with fewer updates than planned."""
    return "" if all(each.is_whole for each in results) else CUT


def spread(results: Sequence[Result]) -> float:
    """From the lowest to the highest value of the seeds."""
    values = [result.value for result in results if result.value is not None]
    return max(values) - min(values) if values else 0.0


def first_over_last(norms: Sequence[Sequence[float]]) -> float:
    """What is left of a gradient at the first point of a sequence, over that at the last: the median over seeds."""
    return median(each[0] / each[-1] if each[-1] > 0 else 0.0 for each in norms)


BETTER, IN_TIME, SAME, WORSE, UNCLEAR = "better", "better at equal time", "no difference seen", "worse", "unclear"


def compare(ours: Sequence[Result], theirs: Sequence[Result]) -> str:
    """How ours do beside theirs. Who might still improve can win, and can lose at equal time only.

    A rival that diverged has lost when it did so with two seeds; we have with one.
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
    then, rivals = [each.best(seconds=limit) for each in ours], [each.best() for each in theirs]
    if None in then or None in rivals:
        return UNCLEAR
    at_equal_time = _order(ours[0], fmean(then), fmean(rivals), apart)  # type: ignore[arg-type]
    return IN_TIME if at_equal_time == BETTER else UNCLEAR


def _order(of: Result, a: float, b: float, tolerance: float) -> str:
    """What a value is beside another, with differences that are taken for none."""
    a, b = of.error(a), of.error(b)
    if abs(a - b) <= max(tolerance, TOLERANCE * max(a, b)):
        return SAME
    return BETTER if a < b else WORSE
