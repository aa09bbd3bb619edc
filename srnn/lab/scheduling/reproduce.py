"""`srnn reproduce`: train the runs of exhibits, several at once, and take their measurements.

Recorded runs are skipped, and stopped runs resume from their checkpoints. Measurements are taken one at a time, on the weights
in the run folders. Those whose weights are there come before the runs of their exhibit, so that a stop does not lose them, and
the others after. A recorded run is repeated if its weights are needed and its folder is gone.
"""

import math
import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from srnn.errors import DataError, Interrupted, RecordError, SRNNError, one_of
from srnn.lab import data
from srnn.lab.bench.training import make_training
from srnn.lab.measures import measure
from srnn.lab.networks import NETWORKS
from srnn.lab.paper import evidence as comparing
from srnn.lab.paper.plan import EXHIBITS, Exhibit, Measurement, Plan, Point
from srnn.lab.records import record as records
from srnn.lab.records import store
from srnn.lab.records.folder import RUNS, RunFolder
from srnn.lab.records.record import Record
from srnn.lab.report import runs as results
from srnn.lab.scheduling.ray import engine
from srnn.lab.scheduling.scheduler import Scheduler
from srnn.lab.terminal import print_table, say
from srnn.lab.training.loop import read_weights
from srnn.lab.training.recipes import from_dict
from srnn.lab.training.run import Run

RESULTS = Path("results")
# The exhibits that decide most claims come first. Others follow.
ORDER = ("psmnist", "copy", "adding", "runtime", "timit", "randomlabels", "gradients", "hiddenstate", "permutation")


def chosen(names: Iterable[str]) -> list[Exhibit]:
    """Return exhibits by name, in the order they are named; "all" is all of them, in ORDER."""
    wanted = list(names)
    for name in wanted:
        if name != "all" and name not in EXHIBITS:
            raise one_of("exhibit", name, ["all", *EXHIBITS])
    return [EXHIBITS[name] for name in dict.fromkeys((*ORDER, *EXHIBITS) if "all" in wanted else wanted)]


@dataclass(frozen=True)
class Selection:
    """Parts of an exhibit that are wanted; what is empty selects all.

    Attributes:
        networks: Names of networks.
        lines: Texts, of which one must be in the label of a line. A text that starts with "-" must not be in it.
        places: Places along the axis, as text.
    """

    networks: Collection[str] = ()
    lines: Collection[str] = ()
    places: Collection[str] = ()

    def has(self, part: Point | Measurement) -> bool:
        """Say whether a part is wanted."""
        label, wanted = str(part.line), [text for text in self.lines if not text.startswith("-")]
        return (
            (not self.networks or (part.run is not None and part.run.network.name in self.networks))
            and (not wanted or any(text in label for text in wanted))
            and not any(text[1:] in label for text in self.lines if text.startswith("-"))
            and (not self.places or str(part.x) in self.places)
        )

    def __bool__(self) -> bool:
        return bool(self.networks or self.lines or self.places)

    def __str__(self) -> str:
        return ", ".join((*self.networks, *self.lines, *self.places))


ALL = Selection()


def runs_of(exhibits: Iterable[Exhibit], plan: Plan, only: Selection = ALL) -> dict[str, Run]:
    """Return the selected runs of exhibits by id."""
    return {point.id: point.run for exhibit in exhibits for point in exhibit.points(plan) if only.has(point)}


def measurements_of(exhibits: Iterable[Exhibit], plan: Plan, only: Selection = ALL) -> dict[str, Measurement]:
    """Return the selected measurements of exhibits by id."""
    return {each.id: each for exhibit in exhibits for each in exhibit.measurements(plan) if only.has(each)}


def show(plan: Plan, console: Console, only: Selection = ALL) -> None:
    """Print a table of the exhibits with an estimate of the CPU time of the runs that are not recorded."""
    rows, done = [], comparing.read(places(plan)[1], plan).done
    known = [(from_dict(each.run), each) for each in done.values() if isinstance(each, Record) and each.updates]
    total = 0.0
    for exhibit in EXHIBITS.values():
        runs, needs = runs_of([exhibit], plan, only), ", ".join(sorted({name for name in exhibit.data_sets(plan) if name}))
        keys, left = runs.keys() | measurements_of([exhibit], plan, only).keys(), [runs[key] for key in runs if key not in done]
        guesses = [estimate_from_records(run, known) for run in left]
        seconds = sum(guess for guess in guesses if guess is not None)
        total += seconds
        hours = f"{'more than ' * (None in guesses)}{seconds / 3600:.1f}" if left else ""
        rows.append((exhibit.id, exhibit.where, exhibit.title, str(len(keys)), str(len(keys & done.keys())), hours, needs))
    headings = ("exhibit", "in the paper", "what", "runs", "recorded", "CPU hours left", "needs")
    note = (
        "Runs and measurements, each counted once. The report counts points, and two points may share a run. "
        f"About {total / 3600:.0f} CPU hours are left, by the pace of recorded runs, and at most the time limits. "
        "--estimate measures the pace."
    )
    print_table(console, headings, rows, right=("runs", "recorded", "CPU hours left"), note=note)


def estimate_from_records(run: Run, known: Collection[tuple[Run, Record]]) -> float | None:
    """Return the CPU seconds of a run by the most similar recorded run, or its limit of time without one.

    Time is taken as proportional to sequences, steps and units. No data are loaded, so records also tell how long an epoch is.
    """
    limit = None if run.cpu_minutes is None else 60 * run.cpu_minutes
    alike = [each for each in known if each[0].network.name == run.network.name]
    epochs = [each for each in known if each[0].task.name == run.task.name and each[1].epochs]
    if not alike or (run.steps is None and not epochs):
        return limit

    def size(of: Run) -> float:
        return of.task.usual_steps * of.network.hidden_size

    other, record = min(alike, key=lambda each: (each[0].task.name != run.task.name, abs(math.log(size(each[0]) / size(run)))))
    if run.steps is not None:
        examples: float = run.steps * run.batch_size
    else:
        _, same = min(epochs, key=lambda each: each[0].task != run.task)
        examples = (run.epochs or 0) * same.examples / (same.epochs or 1)
    seconds = examples * record.cpu_seconds / record.examples * size(run) / size(other)
    return seconds if limit is None else min(seconds, limit)


def places(plan: Plan) -> tuple[Path, Path]:
    """Return where run folders and records of a plan go: a rehearsal has its own place."""
    return (RUNS / "rehearsal", RUNS / "rehearsal" / "records") if plan.profile == "quick" else (RUNS, RESULTS)


def reproduce(
    names: Iterable[str],
    plan: Plan,
    console: Console,
    *,
    jobs: int = 2,
    ray: str | None = None,
    only: Selection = ALL,
    estimate_only: bool = False,
) -> list[str]:
    """Run what is not recorded, one exhibit after the other. Return a line about each part that failed."""
    wanted, failed = list(names), []
    for network in only.networks:
        if network not in NETWORKS:
            raise one_of("network", network, sorted(NETWORKS))
    needed = {exhibit.id: exhibit.data_sets(plan) for exhibit in chosen(wanted)}
    absent = {name for names in needed.values() for name in set(names) if name and not data.is_here(name)}
    without = {name: [each for each in needs if each in absent] for name, needs in needed.items()}
    impossible = [name for name, sets in without.items() if len(sets) == len(needed[name])]
    lacking = [  # reported before hours of other exhibits
        f"{name} needs data that are not here: {', '.join(sorted(set(filter(None, sets))))}, "
        f"for {len(sets)} of its {len(needed[name])} parts"
        for name, sets in without.items()
        if sets
    ]
    if impossible and "all" not in wanted:
        raise DataError(f"{'. '.join(lacking)}. `srnn data` says how to get them")
    for said in lacking:
        say(console, f"{said}, which are skipped. `srnn data` says how to get them")
    for exhibit in chosen(wanted):
        if exhibit.id not in impossible:
            failed += _reproduce(exhibit, plan, console, jobs, ray, only, estimate_only, absent)
    return failed


def _reproduce(
    exhibit: Exhibit,
    plan: Plan,
    console: Console,
    jobs: int,
    ray: str | None,
    only: Selection,
    estimate_only: bool,
    absent: Collection[str],  # data sets
) -> list[str]:
    runs, into = places(plan)
    done = comparing.read(into, plan, console).done
    wanted = {key: run for key, run in runs_of([exhibit], plan, only).items() if run.task.data_set not in absent}
    measurements = measurements_of([exhibit], plan, only)
    measurements = {key: each for key, each in measurements.items() if not (each.run and each.run.task.data_set in absent)}
    if only and not wanted and not measurements:
        more = "" if plan.all_networks else ". --all-networks may add some"
        say(console, f"{exhibit.id} has no run of {only}{more}")
        return []
    to_measure = {key: each for key, each in measurements.items() if key not in done}
    # Records have no weights: a run whose weights are measured, and whose folder is gone, is repeated.
    needed = {each.run.id: each.run for each in to_measure.values() if each.trained and each.run is not None}
    wanted |= {key: run for key, run in needed.items() if key not in wanted}
    without = {key for key in needed if not RunFolder(runs / key).record.exists()}
    left = {key: run for key, run in wanted.items() if key not in done or key in without}
    count = f"{exhibit.id}: {len(wanted)} runs, {len(wanted.keys() & done.keys())} of them recorded in {into}"
    more = f"; {len(measurements)} measurements, {len(measurements) - len(to_measure)} recorded" if measurements else ""
    say(console, count + more)
    ready = {key: each for key, each in to_measure.items() if not (each.trained and each.run and each.run.id in without)}
    failed = [] if estimate_only else measure_all(ready, runs, into, console)
    if left:
        # A rehearsal is too short to be worth an estimate.
        seconds = dict.fromkeys(left, 1.0) if plan.profile == "quick" else estimate(left, runs, console)
        if plan.profile != "quick":
            rows = [(*_described(run), f"{seconds[key] / 60:.1f}") for key, run in left.items()]
            print_table(console, ("task", "network", "recipe", "seed", "minutes"), rows, right=("minutes",))
        again = f" ({len(left.keys() & done.keys())} of them for their weights)" if left.keys() & done.keys() else ""
        total = sum(seconds.values()) / jobs / 60
        say(console, f"{len(left)} to run{again}: about {total:.0f} min with {jobs} at once, without evaluations")
        if not estimate_only:
            failed += Scheduler(left, seconds, runs, into, console, engine(jobs, ray), kept=done.keys()).work()
    if to_measure and estimate_only:
        lines = ", ".join(dict.fromkeys(str(each.line) for each in to_measure.values()))
        say(console, f"{len(to_measure)} to measure: {lines}")
    waiting = {key: each for key, each in to_measure.items() if key not in ready}
    return failed + ([] if estimate_only else measure_all(waiting, runs, into, console))


def measure_all(left: Mapping[str, Measurement], runs: Path, into: Path, console: Console) -> list[str]:
    """Take measurements one after the other and write each record. Return a line about each that failed."""
    failed = []
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=20), TimeElapsedColumn())
    # Drawn between measurements, not by a thread, which would disturb measured times.
    with Progress(*columns, console=console, transient=True, auto_refresh=False) as bar:
        task = bar.add_task("", total=len(left))
        for measurement in left.values():
            name = f"{measurement.exhibit}: {measurement.line}, {measurement.x}"
            bar.update(task, description=name, refresh=True)
            try:
                record = measure(measurement, *_weights(measurement, runs))
                store.collect(into / f"{measurement.exhibit}.jsonl", record.to_json())
                said = f"measured: {name}"
            except (SRNNError, RuntimeError, ArithmeticError, LookupError) as error:  # the others continue
                failed.append(f"{name}: {' '.join(str(error).split())}")
                said = f"failed: {failed[-1]}"
            except KeyboardInterrupt:
                raise Interrupted("Ctrl-C", f" while measuring {name}. Run the same command to resume") from None
            say(console, said)
            bar.advance(task)
    return failed


def _weights(measurement: Measurement, runs: Path) -> tuple[Any, dict[str, Any] | None]:
    """Return the weights of a run, and how far they were trained: a run that the clock ends differs when it is repeated."""
    if measurement.run is None or not measurement.trained:
        return None, None
    place = RunFolder(runs / measurement.run.id)
    if not place.model.exists():
        raise RecordError(f"its run left no weights in {place.path}: it diverged or failed")
    record = records.load(place.record).to_json()
    return read_weights(place, measurement.run)[0], {
        name: record[name] for name in ("updates", "ended_by", "training", "result")
    }


def estimate(left: Mapping[str, Run], runs: Path, console: Console) -> dict[str, float]:
    """Return the seconds that each run still needs at most: its limit of time, or its updates at a measured pace."""
    found: dict[str, float] = {}
    with Progress(TextColumn("measuring steps"), BarColumn(), console=console, transient=True) as bar:
        task = bar.add_task("", total=len(left))
        for key, run in left.items():
            bar.advance(task)
            step, seconds = _position(runs / key)
            limit = 60 * run.cpu_minutes - seconds if run.cpu_minutes is not None else float("inf")
            updates = _updates(run) - step
            found[key] = max(0.0, min(limit, updates * pace(run, 4 * limit / max(1, updates)) if limit > 60 else limit))
    return found


def pace(run: Run, slow: float = float("inf")) -> float:
    """Return the seconds of one update: the faster of the second and third, or the first if it is slower than `slow`."""
    training, times = make_training(replace(run, cpu_minutes=None, steps=_updates(run))), []
    for _ in range(3):
        start = time.perf_counter()
        training.make_update()
        times.append(time.perf_counter() - start)
        if times[0] > slow:
            return times[0]
    return min(times[1:])


def _updates(run: Run) -> int:
    if run.steps is not None:
        return run.steps
    assert run.epochs is not None
    return run.epochs * (run.task.updates_per_epoch(run.batch_size) or 0)


def _position(folder: Path) -> tuple[int, float]:
    """Return the updates and CPU seconds of a run so far, by the last line of its curve."""
    with suppress(ValueError, IndexError, KeyError, TypeError):  # there is no curve, or it is damaged
        last = RunFolder(folder).read_metrics()[-1]
        return last["step"], last["cpu_seconds"]
    return 0, 0.0


def _described(run: Run) -> tuple[str, ...]:
    recipe = results.recipe(replace(run, cpu_minutes=None).as_dict())  # the column minutes shows that limit
    return (*results.brief(run.as_dict()), recipe, str(run.seed))
