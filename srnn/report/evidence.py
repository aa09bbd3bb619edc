"""Records as evidence: what was run at each point of an exhibit, how well it did, and how far it may be compared."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from srnn.paper import EXHIBITS, Key, Measurement, Plan, Point

SMOOTH = 5  # entries of a loss curve that are averaged before it is judged, as a rule 500 updates
IMPROVED = 0.02  # what a curve must gain, relatively, to be still improving


class Missing(Exception):
    """Something that a verdict needs was not run."""


class Result:
    """One recorded run."""

    def __init__(self, record: Mapping[str, Any]) -> None:
        self.record = record
        self.run, self.id, self.seed = record["run"], record["id"], record["run"]["seed"]
        self.seconds, self.cpu_seconds = record["seconds"], record["cpu_seconds"]
        self.updates, self.examples, self.parameters = record["updates"], record["examples"], record["parameters"]
        self.guesser, self.diverged = record["guesser"], record["status"] == "diverged"

    @property
    def value(self) -> float | None:
        """The number that is reported: of the split that the task reports, or the lowest mean loss of 500 updates."""
        if self.record["result"]:
            return self.record["result"]["value"]
        return self.record["training"]["lowest"] if self.record["training"] else None

    @property
    def higher_is_better(self) -> bool:
        return bool(self.record["result"]) and self.record["result"]["metric"] == "accuracy"

    @property
    def share(self) -> float:
        """Of the updates that it was to make."""
        run, ends = self.run, []
        if run["steps"]:
            ends.append(self.updates / run["steps"])
        if run["epochs"]:
            ends.append(self.record["epochs"] / run["epochs"])
        return max(ends, default=1.0)

    @property
    def is_whole(self) -> bool:
        """Whether it was ended by anything but the clock."""
        return self.diverged or self.record["ended_by"] != "minutes"

    @cached_property
    def curve(self) -> list[tuple[int, float, float]]:
        """(update, CPU seconds, value) along the way: evaluations where there are such, else smoothed losses."""
        curve = self.record["curve"]
        scores = curve.get("evaluation_score" if self.higher_is_better else "evaluation_loss")
        if scores is not None and any(score is not None for score in scores):
            values = scores
        else:
            values = [_mean(curve["loss"][max(0, k - SMOOTH + 1) : k + 1]) for k in range(len(curve["loss"]))]
        rows = zip(curve["step"], curve["cpu_seconds"], values, strict=True)
        return [(step, seconds, value) for step, seconds, value in rows if value is not None]

    @property
    def is_fair(self) -> bool:
        """Whether more updates would not have helped: it had all, or a quarter of them and the last third was for nothing."""
        if self.is_whole:
            return True
        values = [value for _, _, value in self.curve]
        before, after = values[: 2 * len(values) // 3], values[2 * len(values) // 3 :]
        if self.share < 0.25 or not before:
            return False
        if self.higher_is_better:
            return max(after) <= max(before) * (1 + IMPROVED)
        return min(after) >= min(before) * (1 - IMPROVED)

    def best(self, *, seconds: float = float("inf"), updates: float = float("inf")) -> float | None:
        """The best value along the way until then."""
        values = [value for step, at, value in self.curve if at <= seconds and step <= updates]
        return (max if self.higher_is_better else min)(values, default=None)

    def updates_to(self, level: float) -> int | None:
        """Updates until the curve first is as good as this."""
        good = (step for step, _, value in self.curve if (value >= level if self.higher_is_better else value <= level))
        return next(good, None)


@dataclass(frozen=True)
class Evidence:
    """All records of a plan, by exhibit, line and place."""

    results: Mapping[str, Mapping[Key, Sequence[Result]]]
    measured: Mapping[str, Mapping[Key, Mapping[str, Any]]]
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
                    measured[name][measurement.line, measurement.x] = found[measurement.id]["found"]
        return cls(results, measured, planned)

    def at(self, exhibit: str, line: str, x: Any, seeds: int = 1) -> Sequence[Result]:
        """The results of a point; raises where there are fewer than so many seeds."""
        found = self.results[exhibit].get((line, x), ())
        if len(found) < seeds:
            raise Missing(f"not run: {line} at {x}" + (f", {seeds - len(found)} more of {seeds} seeds" if found else ""))
        return found

    def found(self, exhibit: str, line: str, x: Any) -> Mapping[str, Any]:
        """What was measured at a point."""
        if (line, x) not in self.measured[exhibit]:
            raise Missing(f"not measured: {line} at {x}")
        return self.measured[exhibit][line, x]

    def has(self, exhibit: str) -> bool:
        return bool(self.results[exhibit] or self.measured[exhibit])


def mean(results: Sequence[Result]) -> float | None:
    """Of the values of all seeds; None where one has none."""
    values = [result.value for result in results if result.value is not None]
    return _mean(values) if values and len(values) == len(results) else None


def spread(results: Sequence[Result]) -> float:
    """From the lowest to the highest value of the seeds."""
    values = [result.value for result in results if result.value is not None]
    return max(values) - min(values) if values else 0.0


BETTER, IN_TIME, SAME, WORSE, UNCLEAR = "better", "better at equal time", "no difference seen", "worse", "unclear"


def compare(ours: Sequence[Result], theirs: Sequence[Result]) -> str:
    """How ours do beside theirs. A rival that might still improve can win, and can lose at equal time only."""
    a, b = mean(ours), mean(theirs)
    if a is None:
        return WORSE if b is not None else UNCLEAR
    if b is None:
        return BETTER
    sign = 1 if ours[0].higher_is_better else -1
    if abs(a - b) <= max(spread(ours), spread(theirs)):
        return SAME if all(each.is_fair for each in theirs) else UNCLEAR
    if sign * (a - b) < 0:
        return WORSE
    if all(each.is_fair for each in theirs):
        return BETTER
    limit = max(each.cpu_seconds for each in theirs)
    then = [each.best(seconds=limit) for each in ours]
    rivals = [each.best() for each in theirs]
    if None in then or None in rivals:
        return UNCLEAR
    return IN_TIME if sign * (_mean(then) - _mean(rivals)) > 0 else UNCLEAR  # type: ignore[arg-type]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
