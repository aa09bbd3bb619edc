"""Records as typed objects: a finished run, a measurement, a run that failed; and the one reader of a folder of records."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, asdict, dataclass, field, fields, is_dataclass
from functools import cache, cached_property
from pathlib import Path
from statistics import median
from types import NoneType
from typing import Any, ClassVar, TypeVar, get_args, get_type_hints

from rich.console import Console

from srnn.errors import RecordError
from srnn.lab.records import store
from srnn.lab.records.shape import ALIGNED, CURVE, ENVIRONMENT, FOUND, MEASUREMENT, RUN, TRAINED, misfit
from srnn.lab.terminal import say

SMOOTH = 5  # entries of a loss curve that are averaged, usually of 100 updates each; fewer at its start
Kind = TypeVar("Kind", bound="Stored")


@dataclass(frozen=True)
class Score:
    """The score that a run reports: of one split, with the weights of update `at`."""

    split: str
    metric: str
    value: float
    loss: float
    at: int


@dataclass(frozen=True)
class Evaluation:
    """The evaluation whose weights were kept."""

    split: str
    loss: float
    score: float
    step: int


@dataclass(frozen=True)
class Losses:
    """Means of the training loss over `window` consecutive updates: the last one, and the lowest, which ends at `lowest_at`."""

    window: int
    final: float
    lowest: float
    lowest_at: int


@dataclass(frozen=True, kw_only=True)
class Stored:
    """A record: the fields of a subclass, and in `environment` everything else that was stored with them.

    The type of a field is the type that its stored value must have. A field without a default must be stored.
    """

    kind: ClassVar[str]
    id: str
    environment: Mapping[str, Any] = field(default_factory=dict)  # versions, machine, commit, backend, data
    absent: frozenset = frozenset()  # fields that an older record does not have: `to_json` leaves them out again

    @classmethod
    def from_json(cls: type[Kind], plain: Mapping[str, Any]) -> Kind:
        """Build a record from its stored form.

        Raises:
            RecordError: Something is missing, or has a value of another type. The error names it.
        """
        known = _known_fields(cls)  # type: ignore[arg-type]
        name = f"the record {plain.get('id', 'without an id')}"
        if missing := [key for key, (_, _, is_required) in known.items() if is_required and key not in plain]:
            raise RecordError(f"{name} is not whole: it lacks {', '.join(missing)}")
        stored = {key: field for key, field in known.items() if key in plain}
        hints = {key: hint for key, (_, hint, _) in stored.items()} | ENVIRONMENT
        for key, hint in hints.items():
            if wrong := misfit(plain.get(key), hint, key):
                raise RecordError(f"{name} is damaged: {wrong}")
        values = {field: _build(hint, plain[key], f"{name} is damaged: {key}") for key, (field, hint, _) in stored.items()}
        rest = {key: value for key, value in plain.items() if key not in known and key != "kind"}
        record = cls(**values, environment=rest, absent=frozenset(known.keys() - plain.keys()))
        record.check()
        return record

    def check(self) -> None:
        """Raise a RecordError if stored values do not go together."""

    def to_json(self) -> dict[str, Any]:
        """Return the stored form, as plain values."""
        known = _known_fields(type(self)).items()  # type: ignore[arg-type]
        values = {key: getattr(self, field) for key, (field, _, _) in known if key not in self.absent}
        plain = {key: asdict(value) if is_dataclass(value) else value for key, value in values.items()}  # type: ignore[arg-type]
        return {"kind": self.kind, **plain, **self.environment}

    @property
    def commit(self) -> str:
        """The commit of the sources, shortened, and whether they had changes that were not committed."""
        found = self.environment.get("commit", {})
        return str(found.get("id", "unknown"))[:10] + (" + changes" if found.get("dirty") is True else "")


@dataclass(frozen=True, kw_only=True)
class Record(Stored):
    """One finished run.

    run                 its settings, as `Run.as_dict` gives them
    ended_by            the limit that ended it, or what diverged
    epochs              passes over the data; None where data never repeat
    result              the score on the split that the task reports; None without such a split, or if the run diverged
    training            means of the training loss; None without an update
    chance              the score without memory ("guesser" in the stored form)
    curve               columns: step, loss, seconds, cpu_seconds, and evaluation_loss and evaluation_score where there are such
    lines               scores of simple methods to compare with
    settings_tried      how many settings were tried for the recipe before this one was chosen
    reports             the split that the task reports; None where data never repeat
    commits             those that the run was trained on, in order. versions_used and processes are such lists, too
    higher_is_better    whether a higher score is better, as an accuracy
    """

    kind = "run"
    run: Mapping[str, Any] = field(metadata={"hint": RUN})
    parameters: int
    status: str
    ended_by: str
    updates: int
    examples: int
    epochs: float | None
    result: Score | None
    training: Losses | None
    chance: float = field(metadata={"key": "guesser"})
    curve: Mapping[str, list] = field(metadata={"hint": CURVE})
    seconds: float
    cpu_seconds: float
    selection: Evaluation | None = None
    ceiling: float | None = None
    lines: dict[str, float] | None = None
    settings_tried: int | None = None
    reports: str | None = None
    higher_is_better: bool = False
    resumed: int = 0
    commits: list[str] = field(default_factory=list)
    versions_used: list[dict[str, str]] = field(default_factory=list)
    processes: list[int] = field(default_factory=list)
    started: str = ""
    finished: str = ""

    def __post_init__(self) -> None:
        if "reports" in self.absent:  # an older record: result and curve tell which split the task reports
            evaluated = "test" if "evaluation_score" in self.curve else None
            object.__setattr__(self, "reports", self.result.split if self.result else evaluated)
            object.__setattr__(self, "higher_is_better", self.result is not None and self.result.metric == "accuracy")

    def check(self) -> None:
        if len({len(self.curve[name]) for name in CURVE if self.curve.get(name) is not None}) > 1:
            raise RecordError(f"the record {self.id} is damaged: the columns of its curve differ in length")

    @property
    def seed(self) -> int:
        return self.run["seed"]

    @property
    def network(self) -> str:
        return self.run["network"]["name"]

    @property
    def diverged(self) -> bool:
        return self.status == "diverged"

    @property
    def score(self) -> float | None:
        """The number that is reported: on the split that the task reports, or the lowest mean training loss without one."""
        if self.reports is not None:
            return None if self.result is None else self.result.value
        return None if self.training is None else self.training.lowest

    @cached_property
    def smooth(self) -> list[tuple[int, float, float]]:
        """The points of the curve with medians of losses, which have no spikes."""
        return self.points(median)

    def points(self, average: Callable[[Sequence[float]], float]) -> list[tuple[int, float, float]]:
        """Return (update, CPU seconds, value) along the curve: evaluations, or averages of losses where there are none."""
        steps = self.curve["step"]
        if self.reports is not None:
            values = self.curve.get("evaluation_score", [None] * len(steps))
        else:
            losses = self.curve["loss"]
            values = [average(losses[k + 1 - min(SMOOTH, k // 2 + 1) : k + 1]) for k in range(len(losses))]
        rows = zip(steps, self.curve["cpu_seconds"], values, strict=True)
        return [(step, seconds, value) for step, seconds, value in rows if value is not None]

    def reached(self, level: float) -> tuple[int, float] | None:
        """Return the updates and CPU seconds after which the curve is first as good as `level`, or None if it never is."""
        for step, seconds, value in self.smooth:
            if (value >= level) if self.higher_is_better else (value <= level):
                return step, seconds
        return None


@dataclass(frozen=True, kw_only=True)
class Measured(Stored):
    """One measurement: its settings, what was found, and for trained weights what is known about their run."""

    kind = "measurement"
    measurement: Mapping[str, Any] = field(metadata={"hint": MEASUREMENT})
    found: Mapping[str, Any] = field(metadata={"hint": dict})
    seconds: float
    trained: Mapping[str, Any] | None = field(default=None, metadata={"hint": (TRAINED, NoneType)})
    started: str = ""

    def check(self) -> None:
        kind = self.measurement["kind"]
        wrong = misfit(self.found, FOUND.get(kind, dict), "found")
        columns = [self.found.get(name) or [[]] for name in ALIGNED.get(kind, ())]
        rows = [row for column in columns for row in (column if isinstance(column[0], list) else [column])]
        if wrong or (rows and {len(row) for row in rows} != {len(rows[0]) or None}):
            raise RecordError(f"the record {self.id} is damaged: {wrong or 'its columns are empty or differ in length'}")


@dataclass(frozen=True, kw_only=True)
class Failure(Stored):
    """A run that failed in every attempt. It counts as not recorded, so it is started again the next time."""

    kind = "failure"
    error: str = "unknown"
    run: dict | None = None
    tries: int = 0


KINDS: dict[str, type[Stored]] = {kind.kind: kind for kind in (Record, Measured, Failure)}


@dataclass(frozen=True)
class Records:
    """The records of a folder in the order in which they are stored, and a line about each that cannot be used."""

    found: Sequence[Stored]
    faults: Sequence[str]

    def of(self, kind: type[Kind]) -> list[Kind]:
        return [each for each in self.found if isinstance(each, kind)]

    @property
    def done(self) -> dict[str, Record | Measured]:
        """Runs and measurements by id."""
        return {each.id: each for each in self.found if isinstance(each, Record | Measured)}


def read(folder: Path, console: Console | None = None, use: Callable[[Stored], object] = id) -> Records:
    """Read the records in the files NAME.jsonl of a folder. Kinds not in `KINDS` are skipped.

    Args:
        folder: Where the files are.
        console: Receives a line about each record that is left out.
        use: Called with each record. A record on which it raises any error is left out.
    """
    found, faults = [], []
    for path in sorted(folder.glob("*.jsonl")):
        lines, bad = store.read_lines(path)
        faults += bad
        for plain in lines:
            if (kind := KINDS.get(str(plain["kind"]))) is None:
                continue
            try:
                record = kind.from_json(plain)
                use(record)
                found.append(record)
            except RecordError as error:
                faults.append(f"{path}: {error}. It is left out")
            except Exception as error:  # one odd record must not hide the others
                faults.append(f"{path}: the record {plain['id']} cannot be used: {error!r}. It is left out")
    if console is not None:
        for fault in faults:
            say(console, fault)
    return Records(found, faults)


def load(path: Path) -> Record:
    """Read the record of a finished run from the record.json of its folder."""
    try:
        plain = store.read(path)
        if plain.get("kind") != Record.kind:
            raise RecordError(f"{path} is not the record of a run")
        return Record.from_json(plain)
    except RecordError as error:
        raise error if str(path) in str(error) else RecordError(f"{path}: {error}") from None


@cache
def _known_fields(kind: Any) -> dict[str, tuple[str, Any, bool]]:
    """The fields of a kind by the keys they are stored under: name, type, and whether a record must have it."""
    hints = get_type_hints(kind)
    found = (each for each in fields(kind) if each.name not in ("environment", "absent"))
    return {each.metadata.get("key", each.name): _field(each, hints) for each in found}


def _field(each: Field, hints: Mapping[str, Any]) -> tuple[str, Any, bool]:
    is_required = each.default is MISSING and each.default_factory is MISSING
    return each.name, each.metadata.get("hint", hints[each.name]), is_required


def _build(hint: Any, value: Any, about: str) -> Any:
    """Return a stored value, or the dataclass that the hint asks for."""
    for part in get_args(hint):
        if is_dataclass(part) and isinstance(value, Mapping):
            try:
                return part(**value)  # type: ignore[operator]
            except TypeError as error:
                raise RecordError(f"{about}: {error}") from None
    return value
