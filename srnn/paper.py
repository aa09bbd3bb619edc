"""Every exhibit of the paper that is made of training runs, as data: what is run, and the numbers in print.

An exhibit is lines of points; a point is a run, or several that differ in the seed alone. Profiles say how long:

    cpu     SRNN at the paper's settings; each rival the same number of updates or five minutes, whichever ends first
    full    the lengths of the authors' code for every network
    quick   a rehearsal of every run at toy sizes: shows that it runs, and nothing else
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from srnn.errors import one_of
from srnn.models import NETWORKS
from srnn.recipes import make_run
from srnn.run import Run

PROFILES = ("cpu", "full", "quick")
SEEDS = (1234, 1, 2)  # the first is the curve that is shown, the others its band
RIVALS = ("rnn", "lstm", "gru", "urnn", "nru", "nnrnn")  # that the paper ran
TOY: dict[str, Any] = {"steps": 3, "hidden_size": 16, "batch_size": 10, "eval_every": 1000}
DELAYS = (100, 200, 300, 500, 1000, 2000)
LENGTHS = (100, 200, 400, 750, 1000, 1500)
SIZES = (128, 256, 512, 1024, 2048)

Key = tuple[str, Any]  # a line and a place along the axis


@dataclass(frozen=True)
class Point:
    """A run as part of an exhibit: on which line, and where along the axis."""

    line: str
    x: Any
    run: Run


@dataclass(frozen=True)
class Exhibit:
    """published: numbers of the paper by line and place. quoted: numbers that the paper quotes from others."""

    id: str
    title: str
    where: str
    metric: str
    axis: str
    points: Callable[["Plan"], Iterator[Point]]
    published: Mapping[Key, float] = field(default_factory=dict)
    quoted: Mapping[Key, float] = field(default_factory=dict)
    data: tuple[str, ...] = ()


@dataclass(frozen=True)
class Plan:
    """A profile, and whether networks run that the paper did not."""

    profile: str = "cpu"
    all_networks: bool = False

    def __post_init__(self) -> None:
        if self.profile not in PROFILES:
            raise one_of("profile", self.profile, PROFILES)

    @property
    def rivals(self) -> tuple[str, ...]:
        others = tuple(sorted(set(NETWORKS) - {*RIVALS, "srnn"}))
        return RIVALS + (others if self.all_networks else ())

    def point(
        self, line: str, x: Any, task: str, network: str, *, recipe: str = "paper", minutes: float = 5.0, **settings: Any
    ) -> Point:
        """The run of a point, as long as the profile says; `minutes` are those of a rival."""
        if self.profile == "quick":
            toy = TOY | ({"mlp": (8,)} if network == "srnn" else {}) | ({"samples": 20} if task == "randomlabels" else {})
            return Point(line, x, make_run(task, network, recipe, **(settings | toy | {"epochs": None})))
        if self.profile == "full":
            return Point(line, x, make_run(task, network, recipe, **(FULL[task] | settings if recipe == "paper" else settings)))
        limit = {} if network == "srnn" else {"minutes": minutes}
        return Point(line, x, make_run(task, network, recipe, **(limit | settings)))

    def points(self, lines: Iterable[str], task: str, x: Any, **how: Any) -> Iterator[Point]:
        """One network after the other at one place."""
        for network in lines:
            yield self.point(network, x, task, network, **how)


# The lengths of the authors' code, where the paper gives none: 999 epochs of 50 updates for copy, of 100 for adding.
FULL: dict[str, dict[str, Any]] = {
    "copy": {"steps": 49_950},
    "adding": {"steps": 99_900, "stop_below": None},
    "pmnist": {"epochs": 60},
    "bigpmnist": {"epochs": 60},
    "speech": {"epochs": 999},
    "randomlabels": {"epochs": 999, "batch_size": 20},
}


def copy(plan: Plan) -> Iterator[Point]:
    for T in DELAYS:
        for seed in SEEDS:
            yield plan.point("srnn", T, "copy", "srnn", length=T, seed=seed)
        yield from plan.points(plan.rivals, "copy", T, length=T)
    for network in plan.rivals:
        yield plan.point(f"{network}, own recipe", 200, "copy", network, recipe="own", length=200)
    for T in (100, 200):  # does an embedding help?
        for network in ("srnn", *plan.rivals):
            yield plan.point(f"{network}, one-hot", T, "copy", network, length=T, embed=False)
            if network == "urnn":  # whose recipe has none
                yield plan.point("urnn, embedding", T, "copy", network, length=T, embed=True)


def adding(plan: Plan) -> Iterator[Point]:
    for T in LENGTHS:
        for seed in SEEDS if T <= 400 else SEEDS[:1]:
            yield plan.point("srnn", T, "adding", "srnn", length=T, seed=seed)
        yield from plan.points(plan.rivals, "adding", T, length=T)
    for network in plan.rivals:
        yield plan.point(f"{network}, own recipe", 400, "adding", network, recipe="own", length=400)


# SRNN needs 16 to 20 minutes for its 60 epochs with one thread: each rival gets the longer time.
DIGIT_MINUTES = 20.0


def psmnist(plan: Plan) -> Iterator[Point]:
    for seed in SEEDS:
        yield plan.point("srnn", "pmnist", "pmnist", "srnn", seed=seed)
    yield from plan.points(plan.rivals, "pmnist", "pmnist", minutes=DIGIT_MINUTES)
    for network in plan.rivals:
        yield plan.point(f"{network}, own recipe", "pmnist", "pmnist", network, recipe="own", minutes=DIGIT_MINUTES)
    yield plan.point("gru, 5 epochs", "pmnist", "pmnist", "gru", minutes=24 * 60.0, epochs=5)
    yield plan.point("srnn", "bigpmnist", "bigpmnist", "srnn")
    yield plan.point("srnn, wrapped pixels", "bigpmnist", "bigpmnist", "srnn", pixels="wrapped")
    yield from plan.points(("lstm", "gru"), "bigpmnist", "bigpmnist", minutes=DIGIT_MINUTES)
    for seed in SEEDS:
        yield plan.point("srnn, our recipe", "pmnist", "pmnist", "srnn", recipe="ours", seed=seed)
    yield plan.point("srnn, our recipe", "bigpmnist", "bigpmnist", "srnn", recipe="ours")


def pmnistablation(plan: Plan) -> Iterator[Point]:
    for H in (512, 1024):
        for width in (32, 64):
            for gate in (True, False):
                for depth in (1, 2, 3):
                    seeds = SEEDS if (H, width, depth) == (1024, 32, 3) else SEEDS[:1]
                    for seed in seeds:
                        how: dict[str, Any] = {"hidden_size": H, "mlp": (width,) * depth, "gate": gate, "seed": seed}
                        yield plan.point(_ablated(H, width, gate), depth, "pmnist", "srnn", epochs=30, **how)


def _ablated(H: int, width: int, gate: bool) -> str:
    return f"{H} units, width {width}{'' if gate else ', no gate'}"


def timit(plan: Plan) -> Iterator[Point]:
    for direction in ("echo", "predict"):
        suffix = "" if direction == "echo" else ", predict"
        for H in SIZES:
            yield plan.point(f"srnn{suffix}", H, "speech", "srnn", direction=direction, hidden_size=H)
        for network, sizes in {"lstm": SIZES[:4], "gru": SIZES[:4], "urnn": SIZES[:3], "nru": SIZES[:4]}.items():
            for H in sizes:
                yield plan.point(f"{network}{suffix}", H, "speech", network, direction=direction, hidden_size=H)
        for network, H in {"exprnn": 224, "scornn": 224, "eurnn": 158, "rgd": 128}.items():
            yield plan.point(f"{network}{suffix}", H, "speech", network, direction=direction, hidden_size=H)
        for network in ("srnn", "lstm", "gru"):
            for H in (128, 512):
                how: dict[str, Any] = {"direction": direction, "hidden_size": H, "standardise": True}
                yield plan.point(f"{network}{suffix}, standardised", H, "speech", network, **how)


def timitablation(plan: Plan) -> Iterator[Point]:
    for H in SIZES:
        for width in (8, 32):
            for depth in (1, 2, 3):
                how: dict[str, Any] = {"direction": "echo", "hidden_size": H, "mlp": (width,) * depth, "epochs": 10}
                yield plan.point(f"{H} units, width {width}", depth, "speech", "srnn", **how)


def randomlabels(plan: Plan) -> Iterator[Point]:
    for crop in (8, 16):
        for N in (100, 1000, 10_000):
            networks = ("srnn", "lstm", "gru", "rnn")
            for network in networks + (tuple(sorted(set(plan.rivals) - set(networks))) if plan.all_networks else ()):
                yield plan.point(f"{network}, {crop}x{crop}", N, "randomlabels", network, crop=crop, samples=N)


def permutation(plan: Plan) -> Iterator[Point]:
    for kind in ("shift", "random", "identity"):
        for T in (200, 1000):
            yield plan.point(f"copy, {kind}", T, "copy", "srnn", length=T, permutation=kind)
        yield plan.point(f"adding, {kind}", 200, "adding", "srnn", length=200, permutation=kind)


def _rows(lines: Mapping[str, Iterable[float]], places: Iterable[Any]) -> dict[Key, float]:
    return {(line, x): value for line, values in lines.items() for x, value in zip(places, values, strict=False)}


EXHIBITS: dict[str, Exhibit] = {
    exhibit.id: exhibit
    for exhibit in (
        Exhibit("copy", "Copying memory at growing delays", "Figure 2", "cross-entropy, nats per step", "delay T", copy),
        Exhibit("adding", "Adding at growing lengths", "Figure 3", "mean squared error", "steps T", adding),
        Exhibit(
            "psmnist",
            "Permuted MNIST, and its big version",
            "Table 2",
            "test accuracy, percent",
            "task",
            psmnist,
            published={
                **_rows(
                    {"lstm": (89.50, 33.60), "gru": (91.87, 9.45), "nru": (91.64, 11.01), "srnn": (96.43, 90.31)},
                    ("pmnist", "bigpmnist"),
                ),
                ("urnn", "pmnist"): 91.74,
            },
            data=("mnist",),
        ),
        Exhibit(
            "pmnistablation",
            "Permuted MNIST by depth, width, units and gate",
            "Figure 4a",
            "test accuracy, percent",
            "hidden layers of f_r",
            pmnistablation,
            published=_rows(
                {
                    _ablated(512, 32, True): (95.43, 94.91, 95.84),
                    _ablated(512, 32, False): (95.31, 95.75, 95.69),
                    _ablated(512, 64, True): (95.39, 94.97, 95.59),
                    _ablated(512, 64, False): (94.78, 95.42, 95.50),
                    _ablated(1024, 32, True): (95.94, 96.38, 96.43),
                    _ablated(1024, 32, False): (95.86, 96.10, 95.84),
                    _ablated(1024, 64, True): (95.79, 95.98, 96.03),
                    _ablated(1024, 64, False): (95.92, 95.99, 95.85),
                },
                (1, 2, 3),
            ),
            data=("mnist",),
        ),
        Exhibit(
            "timit",
            "Speech frames",
            "Table 3",
            "test mean squared error, dB²",
            "units",
            timit,
            published=_rows(
                {
                    "lstm": (19.78, 15.91, 12.32, 8.66),
                    "gru": (39.66, 37.17, 33.00, 26.53),
                    "urnn": (12.09, 10.83, 11.90),
                    "nru": (12.26, 5.90, 3.23, 0.35),
                    "srnn": (12.69, 7.85, 4.73, 1.34, 0.64),
                },
                SIZES,
            ),
            quoted={
                **_rows({"lstm": (14.30, 12.95, 12.62)}, (84, 120, 158)),
                **_rows({"exprnn": (5.30, 4.38, 5.48), "scornn": (8.50, 7.82, 7.36)}, (224, 322, 425)),
                **_rows({"eurnn": (18.51, 15.31, 15.15)}, (158, 256, 378)),
                **_rows({"rgd": (14.58, 14.50, 14.69)}, (128, 192, 256)),
            },
            data=("speech",),
        ),
        Exhibit(
            "timitablation",
            "Speech frames by depth, width and units",
            "Figure 4b",
            "test mean squared error, dB²",
            "hidden layers of f_r",
            timitablation,
            published=_rows(
                {
                    "128 units, width 8": (18.29, 16.45, 22.54),
                    "128 units, width 32": (11.82, 12.02, 12.69),
                    "256 units, width 8": (9.32, 10.16, 11.26),
                    "256 units, width 32": (7.81, 7.95, 7.85),
                    "512 units, width 8": (4.64, 3.72, 6.41),
                    "512 units, width 32": (3.64, 3.72, 4.73),
                    "1024 units, width 8": (1.69, 1.45, 2.11),
                    "1024 units, width 32": (1.52, 0.88, 1.36),
                    "2048 units, width 8": (1.52, 1.45, 1.33),
                    "2048 units, width 32": (0.71, 0.64, 0.73),
                },
                (1, 2, 3),
            ),
            data=("speech",),
        ),
        Exhibit(
            "randomlabels",
            "Labels that mean nothing, learned by heart",
            "Figures 7 and 8",
            "accuracy on the training samples, percent",
            "samples",
            randomlabels,
            data=("mnist",),
        ),
        Exhibit("permutation", "Does the shuffle matter?", "ours", "lowest mean loss of 500 updates", "steps T", permutation),
    )
}
