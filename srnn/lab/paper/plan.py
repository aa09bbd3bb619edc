"""What an exhibit of the paper is made of: lines, points and measurements, and how long each profile trains.

An exhibit is a table or figure. It has lines, and a line has points along the axis of the exhibit. A point is a run, several
runs that differ in their seed only, or a measurement. The profile decides how long runs are:

    cpu     SRNN with the paper's settings; a baseline gets as many updates or five minutes of one core, whichever ends first
    full    every network trains as long as in the authors' code
    quick   a rehearsal: every run at a toy size, to show that it works and nothing else
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from srnn.errors import one_of
from srnn.lab.networks import NETWORKS
from srnn.lab.training.recipes import make_run, stored_recipe
from srnn.lab.training.run import Run

if TYPE_CHECKING:
    from srnn.lab.paper.evidence import Evidence
    from srnn.lab.paper.figure import Figure
    from srnn.lab.paper.table import Table

PROFILES = ("cpu", "full", "quick")
SEEDS = (1234, 1, 2)  # figures show the first as a thick line and the others as thin ones
# The start value that SRNN has by default outside the paper's recipe, with the seeds of the study in docs/learning.md.
GATE_INIT, STUDIED = -2.0, range(21, 31)
BASELINES = ("rnn", "lstm", "gru", "urnn", "nru", "nnrnn")  # which the paper ran
OURS = ("srnn", "srnnstack")  # the second is a form of the first and is not compared with it
OTHERS = tuple(sorted(set(NETWORKS) - {*BASELINES, *OURS}))  # the networks that the paper did not run
TASKS = {"copy": "copying memory", "adding": "adding", "pmnist": "pMNIST", "bigpmnist": "big pMNIST", "speech": "speech"}
TOY: dict[str, Any] = {"steps": 3, "hidden_size": 16, "batch_size": 10, "eval_every": 1000}
# The lengths of the authors' code, since the paper gives none: 999 epochs of 50 updates for copy, of 100 for adding.
FULL: dict[str, dict[str, Any]] = {"copy": {"steps": 49_950}, "adding": {"steps": 99_900, "stop_below": None}}
FULL |= {"pmnist": {"epochs": 60}, "bigpmnist": {"epochs": 60}}
FULL |= {"speech": {"epochs": 999}, "randomlabels": {"epochs": 999, "batch_size": 20}}
# Runs of SRNN whose gradients and hidden states are measured, by task.
EXAMINED: dict[str, dict[str, Any]] = {"adding": {"length": 200}, "copy": {"length": 200}, "pmnist": {}}
EXAMINED["speech"] = {"direction": "echo"}


@dataclass(frozen=True)
class Line:
    """A line of an exhibit: what all of its points have in common.

    An exhibit whose lines differ in more settings than these extends the class.

    Attributes:
        network: Name of the network, as in `NETWORKS`.
        recipe: "paper", "original" or "tuned".
        variant: Any other setting that differs from the exhibit's usual ones, in the words that are shown.
        longer: Whether it trains for longer than the same line without this mark.
    """

    network: str = "srnn"
    recipe: str = "paper"
    variant: str = ""
    longer: bool = False

    @property
    def label(self) -> str:
        """The line as it is shown, and as records of measurements store it."""
        recipe = "" if self.recipe == "paper" else f"{self.recipe} recipe"
        return ", ".join(part for part in (self.network, recipe, self.variant, "longer" * self.longer) if part)

    @property
    def base(self) -> "Line":
        """The line of SRNN with the paper's recipe that this line is compared with."""
        return replace(self, network="srnn", recipe="paper", variant="", longer=False)

    def __str__(self) -> str:
        return self.label


@dataclass(frozen=True, kw_only=True)
class AblationLine(Line):
    """A form of SRNN: its units, the width of the hidden layers of f_r, and whether it has a gate."""

    units: int
    width: int
    gate: bool = True

    @property
    def form(self) -> str:
        """The label without the number of units."""
        return f"width {self.width}{'' if self.gate else ', no gate'}"

    @property
    def label(self) -> str:
        return f"{self.units} units, {self.form}"


@dataclass(frozen=True, kw_only=True)
class StartLine(Line):
    """SRNN with the gate started at some value, in runs that end when they are solved. No other line is compared with it."""

    gate_init: float

    @property
    def label(self) -> str:
        return f"{super().label}, gate_init {self.gate_init:g}, until solved"


Key = tuple[Line, Any]  # a line, and a place along the axis


@dataclass(frozen=True)
class Point:
    """A run as part of an exhibit: its line, its place along the axis, and the training of which the run is only a part."""

    line: Line
    x: Any
    run: Run
    whole: Run | None = None

    @property
    def id(self) -> str:
        return self.run.id


@dataclass(frozen=True)
class Measurement:
    """A part of an exhibit that is measured after, or without, training.

    Attributes:
        exhibit: Id of the exhibit.
        line: Line of the exhibit.
        x: Place along the axis.
        kind: Name of a function in `srnn.lab.measures.KINDS`.
        settings: Arguments of that function.
        run: The run whose network is measured.
        trained: True for the trained weights of the run, False for its initial ones.
    """

    exhibit: str
    line: Line
    x: Any
    kind: str
    settings: Mapping[str, Any]
    run: Run | None = None
    trained: bool = False

    @property
    def id(self) -> str:
        """A name that depends on what is measured, and not on the line where it is shown."""
        said = [self.kind, sorted(self.settings.items()), self.run.id if self.run else None, self.trained]
        return f"{self.exhibit}-{self.kind}-{hashlib.sha256(json.dumps(said).encode()).hexdigest()[:8]}"

    def as_dict(self) -> dict[str, Any]:
        """Returns plain values, for JSON."""
        about = {"exhibit": self.exhibit, "line": str(self.line), "x": self.x, "kind": self.kind}
        return about | {"settings": dict(self.settings), "run": self.run.id if self.run else None, "trained": self.trained}


def _nothing(*_: Any) -> Iterator[Any]:
    yield from ()


@dataclass(frozen=True)
class Exhibit:
    """A table or figure of the paper.

    Attributes:
        metric: What is compared, with its unit.
        axis: What the places of a line are.
        id: Name of its file in `exhibits/`, which sets this field and the next six.
        title: What it shows.
        where: Where the paper has it.
        points: The runs, by plan.
        measurements: The measurements, by plan.
        tabulate: The tables, from the exhibit and evidence.
        draw: The figures, from both; those without panels are not shown.
        published: Numbers of the paper, by line and place.
        quoted: Numbers that the paper quotes from others.
        failed: What the paper has in place of a number.
        reported: What the paper's figure shows, in words, if there are no numbers.
        departures: Where we differ from the paper or from its authors' code, in sentences.
    """

    metric: str
    axis: str
    id: str = ""
    title: str = ""
    where: str = ""
    points: Callable[["Plan"], Iterator[Point]] = _nothing
    measurements: Callable[["Plan"], Iterator[Measurement]] = _nothing
    tabulate: Callable[["Exhibit", "Evidence"], Iterable["Table"]] = _nothing
    draw: Callable[["Exhibit", "Evidence"], Iterable["Figure"]] = _nothing
    published: Mapping[Key, float] = field(default_factory=dict)
    quoted: Mapping[Key, float] = field(default_factory=dict)
    failed: Mapping[Key, str] = field(default_factory=dict)
    reported: str = ""
    departures: tuple[str, ...] = ()

    def tables(self, evidence: "Evidence") -> list["Table"]:
        """Returns our numbers and the paper's."""
        return list(self.tabulate(self, evidence))

    def figures(self, evidence: "Evidence") -> list["Figure"]:
        """Returns the figures for which something was recorded."""
        return [figure for figure in self.draw(self, evidence) if figure.panels]

    def parts(self, plan: "Plan") -> list[Point | Measurement]:
        """Returns all points and measurements."""
        return [*self.points(plan), *self.measurements(plan)]

    def data_sets(self, plan: "Plan") -> list[str | None]:
        """Returns the data set that each part needs, None where data are generated."""
        return [part.run.task.data_set if part.run else None for part in self.parts(plan)]


EXHIBITS: dict[str, Exhibit] = {}  # by id; exhibits/__init__.py fills it, on the first import of anything in srnn.lab.paper


@dataclass(frozen=True)
class Plan:
    """How an exhibit is reproduced.

    Attributes:
        profile: One of `PROFILES`.
        all_networks: Whether networks run that the paper did not run.
    """

    profile: str = "cpu"
    all_networks: bool = False

    def __post_init__(self) -> None:
        if self.profile not in PROFILES:
            raise one_of("profile", self.profile, PROFILES)

    @property
    def baselines(self) -> tuple[str, ...]:
        """The networks that SRNN is compared with."""
        return BASELINES + (OTHERS if self.all_networks else ())

    def point(self, line: Line, x: Any, task: str, *, minutes: float = 5.0, **settings: Any) -> Point:
        """Makes a point with a run as long as the profile says.

        If a network's original recipe equals the paper's, the point has the paper's run, so that it is not run twice.

        Args:
            line: Line of the point; its network and recipe are those of the run.
            x: Place along the axis.
            task: Name of the task.
            minutes: CPU time of a baseline in the profile cpu.
            **settings: Settings of the run, the task or the network, as for `make_run`.
        """
        network, recipe = line.network, stored_recipe(line.recipe)
        if self.profile == "quick":
            toy = TOY | ({"mlp": (8,)} if network == "srnn" else {}) | ({"samples": 20} if task == "randomlabels" else {})
            return Point(line, x, make_run(task, network, recipe, **(settings | toy | {"epochs": None})))
        if self.profile == "full":
            named = NETWORKS[network].recipes.get(recipe, {}) if line.recipe == "original" else {}
            has_an_end = line.recipe == "tuned" or {"steps", "epochs"} & {*named.get("", {}), *named.get(task, {})}
            return Point(line, x, make_run(task, network, recipe, **(settings if has_an_end else settings | FULL[task])))
        limit = {} if network == "srnn" else {"cpu_minutes": minutes}
        run = make_run(task, network, recipe, **(limit | settings))
        paper = make_run(task, network, **(limit | settings)) if line.recipe == "original" else run
        return Point(line, x, paper if replace(run, recipe="paper") == paper else run)

    def part(self, line: Line, x: Any, task: str, budget: Mapping[str, Any], **settings: Any) -> Point:
        """Makes a point whose run is the first part of a training that is too long for us.

        Args:
            line: Line of the point.
            x: Place along the axis.
            task: Name of the task.
            budget: Settings that end the run earlier, such as `epochs`.
            **settings: Settings of the whole training, as for `make_run`.
        """
        whole = self.point(line, x, task, **settings)
        if self.profile == "full":
            return whole
        part = self.point(line, x, task, **(settings | {"cpu_minutes": None, **budget}))
        return replace(part, whole=whole.run)

    def seeded(self, line: Line, x: Any, task: str, count: int = len(SEEDS), **how: Any) -> Iterator[Point]:
        """Yields the same point with so many seeds."""
        for seed in SEEDS[:count]:
            yield self.point(line, x, task, seed=seed, **how)

    def started(self, x: Any, task: str, *, solved: float, count: int = len(STUDIED), **how: Any) -> Iterator[Point]:
        """Yields SRNN with the start value `GATE_INIT` and with the paper's, as the study of start values runs them.

        These runs end when they are solved, so that only how many updates they needed can be compared. The profile full has
        none of them.
        """
        if self.profile == "full":
            return
        for gate_init, seeds in ((GATE_INIT, STUDIED[:count]), (0.0, STUDIED[:3])):
            for seed in seeds if self.profile != "quick" else seeds[:1]:
                end = {"steps": 20_000, "stop_below": solved}
                yield self.point(StartLine(gate_init=gate_init), x, task, seed=seed, gate_init=gate_init, **end, **how)

    def points(self, networks: Iterable[str], x: Any, task: str, *, twice: str = "", **how: Any) -> Iterator[Point]:
        """Yields a point for each network at one place, with two seeds for the network named by `twice`."""
        for network in networks:
            yield from self.seeded(Line(network), x, task, 2 if network == twice else 1, **how)

    def originals(self, x: Any, task: str, **how: Any) -> Iterator[Point]:
        """Yields a point for each baseline with its original recipe, at one place."""
        for network in self.baselines:
            yield self.point(Line(network, recipe="original"), x, task, **how)


def grid(lines: Mapping[Line, Sequence[float]], places: Iterable[Any]) -> dict[Key, float]:
    """Returns printed numbers by line and place. A line may have fewer numbers than there are places."""
    return {(line, x): value for line, values in lines.items() for x, value in zip(places, values, strict=False)}
