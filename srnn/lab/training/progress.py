"""What a run prints while it trains: a heading, then a progress bar on a terminal or a plain line every few seconds."""

import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from srnn.diagnosis import diagnose
from srnn.errors import SettingError, StorageError
from srnn.lab.records import store
from srnn.lab.records.record import Record
from srnn.lab.tasks.task import Batch
from srnn.lab.terminal import say
from srnn.lab.training.loop import Training, Watcher
from srnn.lab.training.recipes import shown_recipe
from srnn.lab.training.run import LIMITS, Run

SHOWN = 100  # updates whose mean loss is shown
EVERY = 10.0  # seconds between plain lines
LEAST = 100  # updates before a run is judged: before that, most runs are at chance level
STALLED = 0.9  # times the error at chance level; a run with more than that has learned nothing
UNSHOWN = ("name", "path", "sha256", "digest", "preparation")  # of a task or network: shown elsewhere, or too long to read
EXAMINED = 20_000_000  # numbers in the states of the sequences that a diagnosis looks at


def describe(run: Mapping[str, Any]) -> str:
    """Return a line such as: copy (length 200) with srnn (hidden_size 128, mlp 8), seed 1234, recipe paper."""
    parts = []
    for thing in (run["task"], run["network"]):
        settings = [f"{name} {plain(value)}" for name, value in thing.items() if name not in UNSHOWN]
        parts.append(f"{thing['name']} ({', '.join(settings)})" if settings else thing["name"])
    return f"{' with '.join(parts)}, seed {run['seed']}, recipe {shown_recipe(run['recipe'])}"


def number(value: float) -> str:
    """Return a number with about four digits, however small."""
    return f"{value:.3g}" if abs(value) < 1e-3 else f"{value:.4f}" if abs(value) < 10 else f"{value:.2f}"


def between(counts: Iterable[int]) -> str:
    """Returns the lowest and the highest of some counts, or the one that they all are."""
    every = sorted(counts)
    return " to ".join(dict.fromkeys((f"{every[0]:,}", f"{every[-1]:,}")))


def plain(value: Any) -> str:
    """Return a setting as text: 8,8 for a list of widths."""
    return ",".join(map(str, value)) or "none" if isinstance(value, list | tuple) else str(value)


class Printer(Watcher):
    """Base of the watchers that print."""

    def __init__(self, console: Console) -> None:
        self.console = console


class Heading(Printer):
    """Prints what is trained and where, once it is certain that training can start; or that the run is already finished."""

    def begin(self, training: Training) -> None:
        processes = f", {training.team.size} processes" if training.team.size > 1 else ""
        step = training.position.step
        say(self.console, describe(training.run.as_dict()))
        say(self.console, f"run folder: {training.place.path}{processes}" + (f", resumes at update {step}" if step else ""))

    def notice(self, text: str) -> None:
        say(self.console, f"note: {text}")

    def already_finished(self, run: Run, folder: Path, record: Record) -> None:
        say(self.console, describe(record.run))
        say(self.console, f"already finished: {folder}. {extension(run, folder, record)}")


def extension(run: Run, folder: Path, record: Record) -> str:
    """Return how to extend a finished run, or why that is not possible."""
    if record.diverged:
        return "It diverged, so it cannot be extended"
    if record.ended_by not in LIMITS:
        return f"It ended by {record.ended_by}, so it cannot be extended"
    if run.schedule == "cosine" and record.ended_by in ("steps", "epochs"):
        return "Its learning rate has decayed to 0, so it cannot be extended. Give another --out to start a new run"
    option = f"--{record.ended_by.replace('_', '-')}"
    return f"To extend it: srnn train --resume {folder} {option} N, with N above {getattr(run, record.ended_by)}"


class Display(Printer):
    """Base of the displays of progress, with what both show of a run."""

    def begin(self, training: Training) -> None:
        self.started = self.last = time.monotonic()
        self.first = training.position.step

    def speed(self, training: Training) -> float:
        """Return the updates per second since this process started."""
        return (training.position.step - self.first) / max(1e-9, time.monotonic() - self.started)

    def left(self, training: Training) -> str:
        """Return the time to the nearest limit, such as "3 min left", or an empty text if it is not known."""
        run, position, speed = training.run, training.position, self.speed(training)
        ends = [(training.last_step - position.step) / speed] if training.last_step and speed else []
        ends += [60 * run.minutes - position.seconds] if run.minutes is not None else []
        ends += [60 * run.cpu_minutes - position.cpu_seconds] if run.cpu_minutes is not None else []
        seconds = max(0.0, min(ends, default=0.0))
        return "" if not ends else f"{seconds / 60:.0f} min left" if seconds >= 90 else f"{seconds:.0f} s left"

    def line(self, training: Training) -> str:
        """Return the loss, the last evaluation, the chance level and the epoch."""
        task, position = training.task, training.position
        recent = position.recent[-SHOWN:]
        parts = [f"loss {number(sum(recent) / len(recent))}"] if recent else []
        if (found := training.last_evaluation) is not None:
            parts.append(f"{found['split']} {task.metric} {number(found['score'])}")
        parts.append(f"chance {number(task.chance)}")
        if training.updates_per_epoch:
            parts.append(f"epoch {position.step / training.updates_per_epoch:.1f}")
        return "  ".join(parts)


class Board(Watcher):
    """Writes the curve to TensorBoard."""

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise SettingError("--tensorboard needs the package tensorboard: pip install 'srnn[tensorboard]'") from None
        self.folder, self.make = folder, SummaryWriter
        self.writer: Any = None

    def begin(self, training: Training) -> None:
        try:
            self.writer = self.make(str(self.folder), purge_step=training.position.step + 1)
        except OSError as error:
            raise StorageError(f"{self.folder} cannot be written: {error.strerror}") from error

    def entry(self, training: Training, entry: dict[str, Any]) -> None:
        assert self.writer is not None
        self.writer.add_scalar("train/loss", sum(entry["losses"]) / len(entry["losses"]), entry["step"])
        if found := entry.get("evaluation"):
            self.writer.add_scalar(f"{found['split']}/loss", found["loss"], entry["step"])
            self.writer.add_scalar(f"{found['split']}/{training.task.metric}", found["score"], entry["step"])
        self.writer.flush()

    def end(self) -> None:
        if self.writer is not None:
            self.writer.close()


class Lines(Display):
    """Prints a plain line every few seconds, for a file or a pipe."""

    def update(self, training: Training) -> None:
        if time.monotonic() - self.last >= EVERY:
            self.last, count = time.monotonic(), f"update {training.position.step}/{training.last_step or '?'}"
            parts = (count, self.line(training), f"{self.speed(training):.1f} updates/s", self.left(training))
            say(self.console, "  ".join(filter(None, parts)))


class Bar(Display):
    """Shows a progress bar, for a terminal."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        columns = (BarColumn(bar_width=20), TextColumn("{task.fields[count]}"), TextColumn("{task.fields[status]}"))
        self.bar = Progress(*columns, TimeElapsedColumn(), TextColumn("{task.fields[left]}"), console=console)

    def begin(self, training: Training) -> None:
        super().begin(training)
        self.task = self.bar.add_task("", total=training.last_step, completed=self.first, count="", status="", left="")
        self.bar.start()

    def update(self, training: Training) -> None:
        step, total, minutes = training.position.step, training.last_step, training.run.minutes
        done: dict[str, Any] = {"completed": step}
        if total is None and minutes is not None:  # the clock ends the run
            done = {"total": 60 * minutes, "completed": training.position.seconds}
        count = f"{step}/{total or '?'} at {self.speed(training):.0f}/s"
        self.bar.update(self.task, count=count, status=self.line(training), left=self.left(training), **done)

    def end(self) -> None:
        self.bar.stop()


class Examiner(Printer):
    """Prints a diagnosis of the network's SRNN layers, once, if the run is at chance level after a tenth of its updates.

    If data never repeat and the loss is the score, the mean loss of the later half of these updates is judged. If the score is
    an accuracy, the next evaluation is judged. Other tasks are skipped: their baselines are not chance, and may be hard to
    beat. Runs that the clock ends are skipped too, because their number of updates is not known.
    """

    def begin(self, training: Training) -> None:
        self.due = None if training.place.diagnosis.exists() else _judged_after(training)

    def update(self, training: Training) -> None:
        if training.position.step != self.due or not (standing := _at_chance(training)):
            return
        try:
            diagnosis = diagnose(training.model, _some_sequences(training))
        except SettingError:  # there are no SRNN layers, or they are called step by step
            return
        text = f"after {self.due} of {training.last_step} updates the run is still at chance level: {standing}\n{diagnosis}"
        # Written first: a run that is killed and resumed from before this update must not print it a second time.
        store.replace(training.place.diagnosis, f"{text}\n".encode())
        say(self.console, text)


def _judged_after(training: Training) -> int | None:
    """Return the update after which a run must have left chance level; None for runs that cannot be judged."""
    task, last = training.task, training.last_step
    is_evaluated = (task.selects or task.reports) is not None
    if last is None or is_evaluated is not (task.metric == "accuracy"):
        return None
    after = max(LEAST, -(-last // 10))
    if is_evaluated:
        after = -(-after // training.entry_every) * training.entry_every
    return after


def _at_chance(training: Training) -> str:
    """Return a text about the score of a run if it is no better than chance, otherwise an empty text."""
    task, position = training.task, training.position
    if (found := training.last_evaluation) is not None:
        best = 100.0 if task.ceiling is None else task.ceiling
        stalled, standing = best - found["score"] > STALLED * (best - task.chance), f"{task.metric} {number(found['score'])}"
    else:
        losses = position.recent[-(position.step // 2) :]
        mean = sum(losses) / len(losses)
        stalled, standing = mean > STALLED * task.chance, f"loss {number(mean)}"
    return f"{standing}, chance level {number(task.chance)}" if stalled else ""


def _some_sequences(training: Training) -> Batch:
    """Return the first sequences of the last batch, as many as fit into little memory with their states."""
    run, step = training.run, training.position.step
    batch = training.task.batch(step - 1, run.batch_size, run.seed).to(training.device)
    return batch.rows(slice(max(1, EXAMINED // (batch.input.shape[1] * run.network.hidden_size))))


def watchers(console: Console, *, quiet: bool, tensorboard: Path | None) -> list[Watcher]:
    """Return the displays of progress that the user asked for."""
    shown: list[Watcher] = [] if quiet else [Bar(console) if console.is_terminal else Lines(console), Examiner(console)]
    return [*shown, *([Board(tensorboard)] if tensorboard else [])]
