"""The training loop. It names no task and no network: everything a run needs is in its `Run`.

Update k depends on the weights, the optimizer, the seed and k alone. A checkpoint is therefore those and a position, and a run
that is killed anywhere and resumed has bit-identical results.
"""

import itertools
import json
import math
import reprlib
import shlex
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy
import torch
from torch import Tensor, nn

from srnn.errors import DivergedError, Interrupted, MissingError, ReadOnlyError, RecordError, SettingError, TeamError
from srnn.lab.records import record as records
from srnn.lab.records import store
from srnn.lab.records.folder import BELONGS_TO, RunFolder, Tensors, load_tensors, read_state, save_tensors
from srnn.lab.records.record import Evaluation, Losses, Record, Score
from srnn.lab.tasks.task import Batch, Task, mix
from srnn.lab.training import checkpoint, distributed, optimizers, schedule, start
from srnn.lab.training import model as models
from srnn.lab.training.checkpoint import Checkpoint, Position
from srnn.lab.training.distributed import ALONE, FINISHED, RESUME, START, Team, TorchTeam
from srnn.lab.training.recipes import from_dict
from srnn.lab.training.run import LIMITS, Run

WINDOW = 500  # updates over which a loss is averaged to be judged
EVALUATION_SEQUENCES = 500  # at once


class Watcher:
    """Receives the events of a run. It must not change the run."""

    def begin(self, training: "Training") -> None:
        """The run starts or resumes: settings, device, data and backend are good."""

    def update(self, training: "Training") -> None:
        """An update was made."""

    def entry(self, training: "Training", entry: dict[str, Any]) -> None:
        """The curve has a new entry."""

    def notice(self, text: str) -> None:
        """The user should know something about the run folder or the installed packages."""

    def end(self) -> None:
        """The run ended, in any way."""

    def already_finished(self, run: Run, folder: Path, record: Record) -> None:
        """The run was finished before: nothing is trained."""


def train(
    run: Run,
    folder: Path,
    *,
    checkpoint_every: float = 30.0,
    watchers: Sequence[Watcher] = (),
    team: Team = ALONE,
    into: Path | None = None,
) -> Record:
    """Train a run to its end, or resume it from the checkpoint in its folder.

    Args:
        run: The settings.
        folder: The run folder. The record of a run that is finished there is returned as it is.
        checkpoint_every: Seconds between checkpoints.
        watchers: Receive the events of the run.
        team: The processes that train the run together. This must be the first; the others call `follow`.
        into: A file that the caller adds the record to. It is checked before anything is trained.

    Returns:
        The record of the finished run. Its status is "diverged" if a number is no longer finite.

    Raises:
        Interrupted: A signal stopped the run. It can be resumed.
        RecordError: The folder has another run, or a damaged one.
        StorageError: A file cannot be written, or another process works in the folder.
    """
    distributed.check(run.batch_size, team)
    place = RunFolder(folder)
    announced = False
    try:
        with ExitStack() as stack:
            try:
                stack.enter_context(place.held())
                is_read_only = None
            except ReadOnlyError as error:  # where no lock can be written, a finished run can still be read
                is_read_only = error
            stack.enter_context(torch_unchanged())
            same = _is_same_run(place, run)
            if notice := place.notice:
                for watcher in watchers:
                    watcher.notice(notice)
            record = _finished(place, run)
            if same and record is not None:
                for watcher in watchers:
                    watcher.already_finished(run, folder, record)
                return record
            if is_read_only is not None:
                raise is_read_only
            if into is not None:
                store.make_room(into)
            if place.model.exists():
                _check_old_weights(place, run)
            content = store.read_bytes(place.checkpoint) if place.checkpoint.exists() else None
            # Whatever is wrong shows before anything is written.
            training = Training(run, place, checkpoint_every, watchers, team, content)
            place.delete_end()  # before run.json has the new end, of which the old record is not
            if not same:
                store.write(place.run, {"kind": "settings", "id": run.id, "run": run.as_dict(), **training.environment})
            with distributed.lost_processes():
                settings = json.dumps(run.as_dict()).encode()
                team.announce(START if content is None else RESUME, settings + b"\n" + (content or b""))
            announced = True
            try:
                with asked_to_stop() as asked:
                    return training.to_the_end(asked)
            finally:
                for watcher in watchers:
                    watcher.end()
    finally:
        if not announced:  # the run was finished, or something was wrong, which is reported here
            with suppress(TeamError), distributed.lost_processes():
                team.announce(FINISHED)


def follow(run: Run, folder: Path, team: TorchTeam) -> None:
    """Train a run together with the first process of a team, which reads and writes the folder."""
    distributed.check(run.batch_size, team)
    with distributed.lost_processes():
        code, content = team.receive()
    if code == FINISHED:
        return
    plain, _, state = content.partition(b"\n")
    settings = json.loads(plain)
    run = replace(run, threads=settings["threads"])  # a default that depends on the machine
    if run.as_dict() != settings:
        raise SettingError("the processes of a run must have the same settings. Those of the first process are different")
    training = Training(run, RunFolder(folder), math.inf, (), team, state if code == RESUME else None)
    with asked_to_stop() as asked:
        training.to_the_end(asked)


@contextmanager
def torch_unchanged() -> Iterator[None]:
    """Restore torch's number of threads and its random generator afterwards."""
    threads = torch.get_num_threads()
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        torch.set_num_threads(threads)


def _is_same_run(place: RunFolder, run: Run) -> bool:
    """Return whether run.json has exactly this run: False for a new folder or other limits, an error for other settings."""
    if not place.run.exists():
        return False
    theirs, ours = read_run(place.path).as_dict(), run.as_dict()
    differing = {name for name in ours if theirs[name] != ours[name]}
    shown = ", ".join(_differences(theirs, ours)[:3])
    if differing - set(LIMITS):
        raise RecordError(f"{place.path} holds a run with other settings ({shown}). Give another --out")
    if differing & {"steps", "epochs"} and run.schedule == "cosine":
        raise RecordError(f"{place.path} holds a run whose rate decays to another end ({shown}). Give another --out")
    return not differing


def _differences(theirs: dict[str, Any], ours: dict[str, Any], prefix: str = "") -> list[str]:
    """Return the settings that differ, also those of task and network, with both values."""
    found = []
    for name in ours:
        there, here = theirs.get(name), ours[name]
        if isinstance(there, dict) and isinstance(here, dict):
            found += _differences(there, here, f"{name}.")
        elif there != here:
            is_short = not isinstance(there, dict | list) or len(repr(there)) < 60
            shown = f": {reprlib.repr(there)} there and {reprlib.repr(here)} here" if is_short else " differs"
            found.append(f"{prefix}{name}{shown}")
    return found


def _finished(place: RunFolder, run: Run) -> Record | None:
    """Return the record of this run, or None if there is none, or only that of an earlier end."""
    if not place.record.exists():
        return None
    record = records.load(place.record)
    return record if is_of_run(record.run, record.environment.get(BELONGS_TO), run, place, place.record) else None


def is_of_run(plain: object, name: object, run: Run, place: RunFolder, path: Path) -> bool:
    """Return whether a file in the folder of this run was written for it: False if the run had another end then.

    Args:
        plain: The settings in the file.
        name: The name of a run in the file.
        run: The run.
        place: Its folder.
        path: The file.

    Raises:
        RecordError: The file belongs to another run.
    """
    try:
        theirs, ours = from_dict(plain if isinstance(plain, dict) else {}).as_dict(), run.as_dict()
    except (RecordError, SettingError) as error:
        raise RecordError(f"{path}: {error}") from None
    differing = {key for key in ours if theirs[key] != ours[key]}
    if differing - set(LIMITS):
        raise RecordError(f"{path} is of a run with other settings than run.json next to it")
    if name != place.name():
        raise RecordError(f"{path} belongs to another run than run.json next to it")
    return not differing


def _check_old_weights(place: RunFolder, run: Run) -> None:
    """Raise a RecordError unless the model file was written for this run or is empty: it is deleted when the run resumes.

    Damage after its head does not matter. The run resumes from its checkpoint, and its end writes the file again.
    """
    try:
        if state := read_state(place.model):
            is_of_run(state.get("run"), state.get(BELONGS_TO), run, place, place.model)
    except RecordError as error:
        raise RecordError(f"{error}. Move it elsewhere to resume the run") from None


def read_weights(place: RunFolder, run: Run) -> tuple[Tensors, dict[str, Any] | None]:
    """Return the weights that a finished run reports, and what its task found about their errors, if anything.

    Raises:
        RecordError: The file is missing or damaged, or of another run or of an earlier end of this run.
    """
    tensors, state = load_tensors(place.model)
    if not is_of_run(state.get("run"), state.get(BELONGS_TO), run, place, place.model):
        raise RecordError(f"{place.model} is of an earlier end of the run. Resume it: srnn train --resume {place.path}")
    return tensors, state.get("calibration")


def read_run(path: Path) -> Run:
    """Return the run whose folder this is."""
    place = RunFolder(path)
    if not place.run.exists():
        raise MissingError(f"{path} is not a run folder: it has no run.json. `srnn runs` lists run folders")
    plain = store.read(place.run)
    try:
        return from_dict(plain.get("run", {}))
    except (RecordError, SettingError) as error:
        raise RecordError(f"{place.run}: {error}") from None


class Training:
    """A run in progress: a model, its optimizers and a position."""

    def __init__(
        self,
        run: Run,
        place: RunFolder,
        checkpoint_every: float,
        watchers: Sequence[Watcher],
        team: Team = ALONE,
        content: bytes | None = None,
    ) -> None:
        """Build everything that the first update needs.

        Args:
            run: The settings.
            place: The run folder. Nothing is written to it here, but a curve that is longer than the checkpoint says is cut.
            checkpoint_every: Seconds between checkpoints.
            watchers: Receive the events of the run.
            team: The processes that train the run together.
            content: The content of a checkpoint to resume from.
        """
        torch.set_num_threads(max(1, run.threads // team.here))
        self.team = team
        self.run, self.place, self.checkpoint_every, self.watchers = run, place, checkpoint_every, watchers
        self.task, self.device = run.task, team.device or find_device(run.device)
        self.model = make_model(run).to(self.device)
        if content is None and run.init_from:
            start.load_into(self.model, run.init_from)
        self.wrapped: nn.Module = self.model
        groups = list(run.network.groups(self.model.rnn))
        self.optimizers = optimizers.make(self.model.parameters(), groups, run.optimizer, run.lr, run.weight_decay, run.alpha)
        self.clipped = optimizers.clipped(self.model.parameters(), groups)
        self.updates_per_epoch = self.task.updates_per_epoch(run.batch_size)
        self.last_step = schedule.last_step(run, self.updates_per_epoch)
        self.entry_every = run.eval_every or self.updates_per_epoch or 100
        self.position, self.best_weights = Position(), Tensors()
        kept = self.model.state_dict().keys()
        self.buffers = {name: buffer for name, buffer in self.model.named_buffers() if name in kept}
        self.buffers_before = Tensors()  # before a forward pass whose update is not made yet
        self.last_evaluation: dict[str, Any] | None = None
        self.environment = store.environment() | {"data": self.task.data_digest}
        if team.is_first and (name := place.name()) is not None:
            self.environment[BELONGS_TO] = name
        if content is not None:
            self._restore(Checkpoint.parse(content, place.checkpoint))
        if self.last_step is not None and self.position.step > self.last_step:
            raise RecordError(f"{place.path} is at update {self.position.step}, so it cannot end at update {self.last_step}")
        if team.is_first and place.metrics.exists():
            place.cut_metrics(self.position.metrics_bytes)
        if (commit := self.environment["commit"]["id"]) not in self.position.commits[-1:]:
            self.position.commits.append(commit)
        if self.environment["versions"] not in self.position.versions[-1:]:
            self._report_versions()
            self.position.versions.append(self.environment["versions"])
        if team.size not in self.position.processes[-1:]:
            self.position.processes.append(team.size)
        self._clock, self._cpu_clock, self._saved = time.monotonic(), time.process_time(), time.monotonic()
        self.used = list(self._clocks())  # by the first process: all must end at the same update

    def _report_versions(self) -> None:
        """Report which packages have another version than when the run was last trained."""
        before = self.position.versions[-1] if self.position.versions else {}
        now = self.environment["versions"]
        changed = [f"{name} {before[name]}, now {now[name]}" for name in now if before.get(name, now[name]) != now[name]]
        if changed:
            text = f"{self.place.path} was trained with {', '.join(changed)}: its results may differ from those of one version"
            for watcher in self.watchers:
                watcher.notice(text)

    def to_the_end(self, asked: Callable[[], str | None]) -> Record:
        """Make updates until a limit is reached, a signal asks to stop, or a number is no longer finite."""
        self._emit("begin")
        guarded = distributed.lost_processes("Run the same command to resume from the last checkpoint")
        with guarded if self.team.size > 1 else nullcontext():
            self.wrapped = self.team.wrap(self.model)
            try:
                while (ended_by := self._ending()) is None:
                    self.make_update(lambda loss: self._before_update(loss, asked()))
                    if self.position.step % self.entry_every == 0:
                        self._add_entry()
                    self._tick()
                    if self.team.size == 1:
                        self.used = list(self._clocks())
                    self._emit("update")
                if not all(parameter.isfinite().all() for parameter in self.model.parameters()):
                    raise DivergedError("weights that are not finite")
                self._save()
                return self._finish("finished", ended_by)
            except DivergedError as error:
                return self._finish("diverged", str(error))

    def make_update(self, before: Callable[[float], float] = float) -> None:
        """Make one training step: batch, loss, gradients, optimizers.

        Args:
            before: Receives the loss before any weight changes, and returns that of all processes.
        """
        loss, size = self._forward()
        self._update(loss, before(loss.item()), size)

    def _before_update(self, loss: float, stop: str | None) -> float:
        """Return the loss of all processes. Write a checkpoint if it is time: these weights have just given a finite loss."""
        clocks = self._clocks() if self.team.is_first else (0.0, 0.0)
        value, stops, *self.used = self.team.add(loss, float(stop is not None), *clocks)
        if not math.isfinite(value):
            raise DivergedError("a loss that is not finite")
        if stops or time.monotonic() - self._saved >= self.checkpoint_every:
            self._save()
            self._saved = time.monotonic()
        if stops:
            stop = stop or "a signal to another process"
            way = f"Run the same command to resume, or: {self._command()}"
            raise Interrupted(stop, f" after update {self.position.step}. {way}")
        return value

    def _command(self) -> str:
        """Return the command that resumes this run."""
        parts = (self.run.as_dict()[name] for name in ("task", "network"))
        trusted = [word for part in parts if "path" in part for word in ("--trust", part["path"])]
        return shlex.join(["srnn", "train", "--resume", str(self.place.path), *trusted])

    def _forward(self) -> tuple[Tensor, int]:
        """Return this process's part of the loss of the next update, and the number of sequences of the whole batch."""
        run, step, rank = self.run, self.position.step, self.team.rank
        torch.manual_seed(mix(run.seed, step, 1, *([rank] if rank else [])))  # for dropout; data are drawn from (seed, step)
        whole = self.task.batch(step, run.batch_size, run.seed)
        batch, is_real = self.team.part(whole)
        batch = batch.to(self.device)
        self.model.train()
        self.buffers_before = {name: buffer.clone() for name, buffer in self.buffers.items()}
        loss = self.task.loss(self.wrapped(batch), batch)
        if self.team.size > 1:  # a mean over all answers, of which this process may have more or fewer than others
            loss = loss * (self.task.weight(batch) / self.task.weight(whole) if is_real else 0.0)
        return loss, len(whole.input)

    def _update(self, loss: Tensor, value: float, size: int) -> None:
        """Make one step of the optimizers, and what the network does after it. `value` is the loss of all processes."""
        run, position, rnn = self.run, self.position, self.model.rnn
        self.model.zero_grad()
        penalty = run.network.penalty(rnn)
        if self.team.size > 1:  # gradients are averaged over processes, but their sum is needed
            loss = loss * self.team.size
        (loss if penalty is None else loss + penalty).backward()
        if run.clip_value is not None:
            nn.utils.clip_grad_value_(self.clipped, run.clip_value)
        if run.clip is not None:
            nn.utils.clip_grad_norm_(self.clipped, run.clip)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = schedule.learning_rate(run, group["peak_lr"], position.step, self.last_step)
            optimizer.step()
        position.step += 1
        self.buffers_before = Tensors()
        for parameter in run.network.after_update(rnn, position.step):
            for optimizer in self.optimizers:
                optimizer.state.pop(parameter, None)
        position.examples += size
        position.pending.append(value)
        position.recent = [*position.recent[-WINDOW + 1 :], value]

    def _ending(self) -> str | None:
        """Return the limit that is reached, or None."""
        run, position = self.run, self.position
        if position.step == self.last_step:
            return "steps" if position.step == run.steps else "epochs"
        for name, seconds in zip(("minutes", "cpu_minutes"), self.used, strict=True):
            limit = getattr(run, name)
            if limit is not None and seconds >= 60 * limit:
                return name
        if run.stop_below is not None and len(position.recent) == WINDOW and sum(position.recent) / WINDOW < run.stop_below:
            return "stop_below"
        if position.ceiling_reached:
            return "ceiling"
        if run.patience is not None and position.evaluations_since_best >= run.patience:
            return "patience"
        return None

    def _add_entry(self) -> None:
        entry = self._entry()
        self.position.pending = []
        if self.team.is_first:
            self.place.append_metrics(entry)
        self._emit("entry", entry)

    def _entry(self, evaluate: bool = True) -> dict[str, Any]:
        """Return an entry of the curve: the losses since the last one, and an evaluation if the task has data for it."""
        entry: dict[str, Any] = {"step": self.position.step, "losses": self.position.pending}
        if evaluate and (split := self.task.selects or self.task.reports) is not None:
            entry["evaluation"] = self._evaluate_and_keep(split)
        self._tick()
        return entry | {"seconds": round(self.position.seconds, 3), "cpu_seconds": round(self.position.cpu_seconds, 3)}

    def _evaluate_and_keep(self, split: str) -> dict[str, Any]:
        """Evaluate, and keep the weights if this is the best evaluation so far on the split that selects."""
        position, found = self.position, self._evaluate(split)
        found["step"] = position.step
        self.last_evaluation = found
        if self.task.selects is not None:
            if position.best is None or self._better(found, position.best):
                position.best, position.evaluations_since_best = found, 0
                self.best_weights = {name: tensor.clone() for name, tensor in self.model.state_dict().items()}
            else:
                position.evaluations_since_best += 1
        ceiling = self.task.ceiling
        position.ceiling_reached = ceiling is not None and found["score"] > ceiling - 1e-4  # a mean of float32
        return found

    def _evaluate(self, split: str) -> dict[str, Any]:
        batches = self.task.batches(split, EVALUATION_SEQUENCES)
        found = {"split": split, **evaluate(self.model, self.task, batches, self.team)}
        if not (math.isfinite(found["loss"]) and math.isfinite(found["score"])):
            raise DivergedError("an evaluation that is not finite")
        return found

    def _better(self, new: dict[str, Any], old: dict[str, Any]) -> bool:
        if self.run.select == "loss":
            return new["loss"] < old["loss"]
        return (new["score"] > old["score"]) is self.task.higher_is_better and new["score"] != old["score"]

    def _save(self) -> None:
        """Write a checkpoint."""
        if not self.team.is_first:
            return
        self._tick()
        self.position.metrics_bytes = self.place.metrics_length()
        Checkpoint(
            run=self.run.as_dict(),
            position=self.position,
            on=self._ground(),
            metrics=self.place.metrics_digest(self.position.metrics_bytes),
            belongs_to=self.environment.get(BELONGS_TO),
            # A forward pass that is repeated must not count twice, as it would in the running means of a batch norm.
            model={name: self.buffers_before.get(name, tensor) for name, tensor in self.model.state_dict().items()},
            best=self.best_weights,
            optimizers=[checkpoint.optimizer_state(optimizer) for optimizer in self.optimizers],
        ).save(self.place.checkpoint)

    def _ground(self) -> dict[str, Any]:
        """Return what the numbers depend on besides the settings. It must be the same when the run resumes."""
        return {name: self.environment[name] for name in ("backend", "data")}

    def _restore(self, saved: Checkpoint) -> None:
        """Continue from a checkpoint."""
        path = self.place.checkpoint
        if self.team.is_first:
            is_of_run(saved.run, saved.belongs_to, self.run, self.place, path)
        for name, value in self._ground().items():
            if saved.on.get(name) != value:
                raise RecordError(f"{self.place.path} was started with {name} {saved.on.get(name)}, and here it is {value}")
        if self.team.is_first and saved.metrics != self.place.metrics_digest(saved.position.metrics_bytes):
            raise RecordError(f"{self.place.metrics} is altered, or has lost its end: it does not match the checkpoint")
        saved.load_into(self.model, self.optimizers, path)
        self.position = saved.position
        self.position.resumed += 1
        self.best_weights = {name: tensor.to(self.device) for name, tensor in saved.best.items()}

    def _tick(self) -> None:
        clock, cpu_clock = time.monotonic(), time.process_time()
        self.position.seconds += max(0.0, clock - self._clock)  # the clock may be set back
        self.position.cpu_seconds += max(0.0, cpu_clock - self._cpu_clock) * self.team.size  # all of them are as busy
        self._clock, self._cpu_clock = clock, cpu_clock

    def _clocks(self) -> tuple[float, float]:
        return self.position.seconds, self.position.cpu_seconds

    def _emit(self, event: str, *about: Any) -> None:
        for watcher in self.watchers:
            getattr(watcher, event)(self, *about)

    def _finish(self, status: str, ended_by: str) -> Record:
        """Evaluate the weights that were kept, and write model and record.

        The checkpoint is not changed, so that the run can be extended.
        """
        task, position, first = self.task, self.position, self.team.is_first
        entries = self.place.read_metrics() if first else []
        if position.pending:  # ended between two entries
            entries.append(self._entry(evaluate=status == "finished"))
        result = None
        if status == "finished" or self.best_weights:
            try:
                result = self._report()
            except DivergedError:
                if status == "finished":
                    raise
            # A score that is not finite may have ended the run: the weights are kept all the same.
            if first:
                state = {"run": self.run.as_dict(), "result": result and vars(result)}
                state[BELONGS_TO] = self.environment.get(BELONGS_TO)
                if result is not None and (found := task.calibration(self.model.eval())) is not None:
                    state["calibration"] = found
                save_tensors(self.place.model, dict(self.model.state_dict()), state)
        record = Record(
            id=self.run.id,
            run=self.run.as_dict(),
            parameters=self.model.count_parameters(),
            status=status,
            ended_by=ended_by,
            updates=position.step,
            examples=position.examples,
            epochs=position.step / self.updates_per_epoch if self.updates_per_epoch else None,
            result=result,
            selection=Evaluation(**position.best) if position.best else None,
            training=_means([loss for entry in entries for loss in entry["losses"]]),
            chance=task.chance,
            ceiling=task.ceiling,
            lines=getattr(task, "lines", None),
            settings_tried=task.settings_tried.get(self.run.recipe),
            reports=task.reports,
            higher_is_better=task.higher_is_better,
            curve=curve(entries),
            seconds=round(position.seconds, 3),
            cpu_seconds=round(position.cpu_seconds, 3),
            resumed=position.resumed,
            commits=position.commits,
            versions_used=position.versions,
            processes=position.processes,
            started=position.started,
            finished=checkpoint.now(),
            environment=self.environment,
        )
        if first:
            store.write(self.place.record, record.to_json())
        return record

    def _report(self) -> Score | None:
        """Return the score on the split that the task reports, with the best weights if any were kept."""
        if self.best_weights:
            self.model.load_state_dict(self.best_weights)
        if (split := self.task.reports) is None:
            return None
        found = self._evaluate(split)
        at = self.position.best["step"] if self.position.best else self.position.step
        return Score(split, self.task.metric, found["score"], found["loss"], at)


def make_model(run: Run) -> models.Model:
    """Return the model of a run with its first weights."""
    how = {name: getattr(run, name) for name in ("embed", "readout", "norm", "dropout")}
    return models.make(run.task, run.network, run.seed, **how)


def load_model(run: Run, weights: Tensors, source: Path, calibration: dict[str, Any] | None = None) -> models.Model:
    """Return the model of a run with these weights, which were read from `source` with what is known about their errors.

    Raises:
        RecordError: The weights are not those of such a model.
    """
    model = make_model(run)
    model.calibration = calibration
    try:
        model.load_state_dict({name: weights[name] for name in model.state_dict()})
    except (KeyError, RuntimeError) as error:
        raise RecordError(f"{source} does not fit the run's network: {' '.join(str(error).split())}") from None
    return model


def evaluation_batches(run: Run, split: str | None) -> Iterable[Batch]:
    """Return a split in batches. None is for data that never repeat: a hundred batches of a seed that training does not use."""
    if split is None:
        return (run.task.batch(k, run.batch_size, run.seed + 1_000_003) for k in range(100))
    return run.task.batches(split, EVALUATION_SEQUENCES)


@torch.no_grad()
def evaluate(model: nn.Module, task: Task, batches: Iterable[Batch], team: Team = ALONE) -> dict[str, Any]:
    """Return loss and score, as means over all answers. The processes of a team share the batches."""
    model.eval()
    device = next(model.parameters()).device
    loss = score = weight = 0.0
    for batch in itertools.islice(batches, team.rank, None, team.size):
        batch = batch.to(device)
        output, n = model(batch), task.weight(batch)
        loss += n * task.loss(output, batch).item()
        score += n * task.score(output, batch).item()
        weight += n
    loss, score, weight = team.add(loss, score, weight)
    return {"loss": loss / weight, "score": score / weight}


def curve(entries: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """Return the entries as columns: mean losses, evaluations, times."""
    columns: dict[str, list[Any]] = {
        "step": [entry["step"] for entry in entries],
        "loss": [_short(sum(entry["losses"]) / len(entry["losses"])) for entry in entries],
        "seconds": [entry["seconds"] for entry in entries],
        "cpu_seconds": [entry["cpu_seconds"] for entry in entries],
    }
    if any("evaluation" in entry for entry in entries):
        for name in ("loss", "score"):
            evaluations = [entry.get("evaluation") for entry in entries]
            columns[f"evaluation_{name}"] = [found and _short(found[name]) for found in evaluations]
    return columns


def _means(losses: list[float]) -> Losses | None:
    """Return the mean loss of the last WINDOW updates, and the lowest such mean of any WINDOW consecutive updates.

    The window of a shorter run is a third of it: the first losses of some networks are a million times the later ones.
    """
    if not losses:
        return None
    window = WINDOW if len(losses) >= WINDOW else max(1, len(losses) // 3)
    sums = numpy.cumsum(numpy.concatenate([[0.0], losses]))
    means = (sums[window:] - sums[:-window]) / window
    lowest = int(means.argmin())
    return Losses(window, final=float(means[-1]), lowest=float(means[lowest]), lowest_at=lowest + window)


def find_device(name: str) -> torch.device:
    """Return the device of torch with this name, or raise a SettingError if it cannot be used here."""
    try:
        device = torch.device(name)
        if device.type == "meta":
            raise RuntimeError("it computes nothing")
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, ImportError) as error:
        said = str(error).splitlines()[0].split(". ")[0][:200]
        raise SettingError(f"device {name!r} is not available here: {said}") from None
    return device


def _short(value: float) -> float:
    return float(f"{value:.6g}")


@contextmanager
def asked_to_stop() -> Iterator[Callable[[], str | None]]:
    """Turn Ctrl-C and SIGTERM into a request to stop after the update. A second Ctrl-C stops at once."""
    asked: list[str] = []

    def note(number: int, frame: Any) -> None:
        asked.append("Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name)
        if number == signal.SIGINT:  # SIGTERM can come twice: to the group, and from the parent process
            signal.signal(number, before[number])

    before = {number: signal.getsignal(number) for number in (int(signal.SIGINT), int(signal.SIGTERM))}
    try:
        for number in before:
            signal.signal(number, note)
        yield lambda: asked[0] if asked else None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
