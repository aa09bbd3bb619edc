"""The training loop. It names no task and no network: what a run needs is in its `Run`.

What happens in update k depends on the weights, the optimiser, the seed and k alone. So a checkpoint is those and a position,
and a run that is killed anywhere and continued ends with the very bits of one that never stopped.
"""

import itertools
import json
import math
import shlex
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy
import torch
from torch import Tensor, nn

from srnn.errors import DivergedError, Interrupted, RecordError, SettingError, TeamError
from srnn.lab.records import store
from srnn.lab.records.folder import RunFolder, Tensors, parse_tensors, save_tensors
from srnn.lab.tasks.task import Batch, Task, mix
from srnn.lab.training import distributed, optimizers
from srnn.lab.training import model as models
from srnn.lab.training.distributed import ALONE, BEGIN, FINISHED, GO_ON, Team, TorchTeam
from srnn.lab.training.recipes import from_dict
from srnn.lab.training.run import LIMITS, Run

WINDOW = 500  # updates over which a loss is averaged to be judged
EVALUATION_SEQUENCES = 500  # at once


@dataclass
class Position:
    """Where a run stands, besides its tensors: plain values that go into the checkpoint."""

    step: int = 0
    examples: int = 0
    pending: list[float] = field(default_factory=list)  # losses since the last entry of the curve
    recent: list[float] = field(default_factory=list)  # the last WINDOW losses
    best: dict[str, Any] | None = None  # the evaluation whose weights are kept
    evaluations_since_best: int = 0
    ceiling_reached: bool = False
    metrics_bytes: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    resumed: int = 0
    commits: list[str] = field(default_factory=list)  # of the sources that worked on it, one after the other
    processes: list[int] = field(default_factory=list)  # how many at once; with another number sums round otherwise
    started: str = field(default_factory=lambda: _now())


class Watcher:
    """Is told of a run while it goes on, and changes nothing in it."""

    def begin(self, training: "Training") -> None: ...
    def update(self, training: "Training") -> None: ...
    def entry(self, training: "Training", entry: dict[str, Any]) -> None: ...
    def end(self) -> None: ...


def train(
    run: Run,
    folder: Path,
    *,
    checkpoint_every: float = 30.0,
    watchers: Sequence[Watcher] = (),
    team: Team = ALONE,
    into: Path | None = None,
) -> dict[str, Any]:
    """Runs, or goes on with what stands in the folder, to the end; returns the record. `checkpoint_every` is in seconds.

    `into` is a file that the record is to go to: whether it can is seen before anything is run. Of a team the first does
    all that, the others follow it: they leave the folder alone, and return nothing.
    """
    distributed.check(run.batch_size, team)
    place = RunFolder(folder)
    if isinstance(team, TorchTeam) and not team.is_first:
        return _follow(run, place, team)
    told = False
    try:
        if into is not None:
            store.make_room(into)
        with place.held(), _as_it_was():
            same = _is_same_run(place, run)
            if same and place.record.exists():
                return store.read(place.record)
            content = place.checkpoint.read_bytes() if place.checkpoint.exists() else None
            # Whatever is wrong shows before anything is written.
            training = Training(run, place, checkpoint_every, watchers, team, content)
            if not same:
                store.write(place.run, {"kind": "settings", "id": run.id, "run": run.as_dict(), **training.environment})
            place.forget_end()
            with distributed.lost_ones():
                team.announce(
                    BEGIN if content is None else GO_ON, json.dumps(run.as_dict()).encode() + b"\n" + (content or b"")
                )
            told = True
            try:
                with asked_to_stop() as asked:
                    return training.to_the_end(asked)
            finally:
                for watcher in watchers:
                    watcher.end()
    finally:
        if not told:  # it was finished, or something was wrong, and that is said here
            with suppress(TeamError), distributed.lost_ones():
                team.announce(FINISHED)


@contextmanager
def _as_it_was() -> Iterator[None]:
    """Leaves torch's number of threads and its generator as they were."""
    threads = torch.get_num_threads()
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        torch.set_num_threads(threads)


def _follow(run: Run, place: RunFolder, team: TorchTeam) -> dict[str, Any]:
    """The part of a process that is not the first."""
    with distributed.lost_ones():
        code, content = team.hear()
    if code != FINISHED:
        plain, _, checkpoint = content.partition(b"\n")
        theirs = json.loads(plain)
        run = replace(run, threads=theirs["threads"])  # a default that hangs on the machine
        if run.as_dict() != theirs:
            raise SettingError("the processes of a run must be given the same settings; the first has others than this one")
        training = Training(run, place, math.inf, (), team, checkpoint if code == GO_ON else None)
        with asked_to_stop() as asked:
            training.to_the_end(asked)
    return {}


def _is_same_run(place: RunFolder, run: Run) -> bool:
    """Whether run.json is of this very run; False for a new folder and for another end; an error for other settings."""
    if not place.run.exists():
        return False
    theirs, ours = read_run(place.path).as_dict(), run.as_dict()
    differing = {name for name in ours if theirs[name] != ours[name]}
    shown = "; ".join(f"{name}: {theirs[name]!r} there, {ours[name]!r} here" for name in ours if name in differing)
    if differing - set(LIMITS):
        raise RecordError(f"{place.path} holds a run with other settings ({shown}); give another --out")
    if differing & {"steps", "epochs"} and run.schedule == "cosine":
        raise RecordError(f"{place.path} holds a run whose rate decays to another end ({shown}); give another --out")
    return not differing


def read_run(path: Path) -> Run:
    """The run whose folder this is."""
    place = RunFolder(path)
    if not place.run.exists():
        raise RecordError(f"{path} is not a run folder: it has no run.json; `srnn runs` lists those there are")
    try:
        return from_dict(store.read(place.run).get("run", {}))
    except (RecordError, SettingError) as error:
        raise RecordError(f"{place.run}: {error}") from None


class Training:
    """A model, its optimiser and its position, from one update to the next."""

    def __init__(
        self,
        run: Run,
        place: RunFolder,
        checkpoint_every: float,
        watchers: Sequence[Watcher],
        team: Team = ALONE,
        checkpoint: bytes | None = None,
    ) -> None:
        """`checkpoint` is the content of such a file, to go on from."""
        torch.set_num_threads(max(1, run.threads // team.here))
        self.team = team
        self.run, self.place, self.checkpoint_every, self.watchers = run, place, checkpoint_every, watchers
        self.task, self.device = run.task, team.device or _device(run.device)
        self.model = make_model(run).to(self.device)
        self.wrapped: nn.Module = self.model
        groups = list(run.network.groups(self.model.rnn))
        self.optimizers = optimizers.make(self.model.parameters(), groups, run.optimizer, run.lr, run.weight_decay, run.alpha)
        self.clipped = optimizers.clipped(self.model.parameters(), groups)
        self.updates_per_epoch = self.task.updates_per_epoch(run.batch_size)
        self.last_step = _last_step(run, self.updates_per_epoch)
        self.entry_every = run.eval_every or self.updates_per_epoch or 100
        self.position, self.best_weights = Position(), Tensors()
        kept = self.model.state_dict().keys()
        self.buffers = {name: buffer for name, buffer in self.model.named_buffers() if name in kept}
        self.buffers_before = Tensors()  # as they were before a forward pass whose update is not yet made
        self.last_evaluation: dict[str, Any] | None = None
        self.environment = store.environment() | {"data": self.task.data_digest}
        if checkpoint is not None:
            self._restore(checkpoint)
        if team.is_first and place.metrics.exists():
            place.cut_metrics(self.position.metrics_bytes)
        if self.last_step is not None and self.position.step > self.last_step:
            raise RecordError(f"{place.path} is at update {self.position.step}; it cannot end at {self.last_step}, behind that")
        if (commit := self.environment["commit"]["id"]) not in self.position.commits[-1:]:
            self.position.commits.append(commit)
        if team.size not in self.position.processes[-1:]:
            self.position.processes.append(team.size)
        self._clock, self._cpu_clock = time.monotonic(), time.process_time()
        self.used = list(self._clocks())  # by the first process: all must end at the same update

    def to_the_end(self, asked: Callable[[], str | None]) -> dict[str, Any]:
        """Updates until a limit is reached, a signal asks to stop, or a number is no longer finite."""
        self._tell("begin")
        guarded = distributed.lost_ones("the same command again goes on from the last checkpoint")
        with guarded if self.team.size > 1 else nullcontext():
            self.wrapped = self.team.wrap(self.model)
            try:
                ended_by = self._work(asked)
                if not all(parameter.isfinite().all() for parameter in self.model.parameters()):
                    raise DivergedError("weights that are not finite")
                self._save()
                return self._finish("finished", ended_by)
            except DivergedError as error:
                return self._finish("diverged", str(error))

    def _work(self, asked: Callable[[], str | None]) -> str:
        """The updates; returns the limit that ended them."""
        saved = time.monotonic()
        while (ended_by := self._ending()) is None:
            loss, size = self._forward()
            stop = asked()
            clocks = self._clocks() if self.team.is_first else (0.0, 0.0)
            value, stops, *self.used = self.team.add(loss.item(), float(stop is not None), *clocks)
            if not math.isfinite(value):
                raise DivergedError("a loss that is not finite")
            if stops or time.monotonic() - saved >= self.checkpoint_every:  # of weights that have just given a finite loss
                self._save()
                saved = time.monotonic()
            if stops:
                stop = stop or "a signal to another process"
                way = f"the same command again goes on, or: {self._command()}"
                interrupted = Interrupted(f"stopped by {stop} after update {self.position.step}; {way}")
                interrupted.exit_code = 130 if stop == "Ctrl-C" else 143
                raise interrupted
            self._update(loss, value, size)
            if self.position.step % self.entry_every == 0:
                self._add_entry()
            self._tick()
            if self.team.size == 1:
                self.used = list(self._clocks())
            self._tell("update")
        return ended_by

    def _command(self) -> str:
        """What a user types to go on with this run."""
        parts = (self.run.as_dict()[name] for name in ("task", "network"))
        trusted = [word for part in parts if "path" in part for word in ("--trust", part["path"])]
        return shlex.join(["srnn", "train", "--resume", str(self.place.path), *trusted])

    def make_update(self) -> None:
        """The next update by itself, without what is around it in `to_the_end`."""
        loss, size = self._forward()
        self._update(loss, loss.item(), size)

    def _forward(self) -> tuple[Tensor, int]:
        """This process's part of the loss of the next update, and how many sequences the whole is of."""
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
        """One step of the optimizers, and what the network does besides. `value` is the loss of all processes."""
        run, position, rnn = self.run, self.position, self.model.rnn
        self.model.zero_grad()
        penalty = run.network.penalty(rnn)
        if self.team.size > 1:  # what comes back is the mean over processes, where the sum is wanted
            loss = loss * self.team.size
        (loss if penalty is None else loss + penalty).backward()
        if run.clip_value is not None:
            nn.utils.clip_grad_value_(self.clipped, run.clip_value)
        if run.clip is not None:
            nn.utils.clip_grad_norm_(self.clipped, run.clip)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(run, group["peak_lr"], position.step, self.last_step)
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
        """The limit that is reached."""
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
        self._tell("entry", entry)

    def _entry(self, evaluate: bool = True) -> dict[str, Any]:
        """A point of the curve: the losses since the last one, and an evaluation where the task has data for it."""
        entry: dict[str, Any] = {"step": self.position.step, "losses": self.position.pending}
        if evaluate and (split := self.task.selects or self.task.reports) is not None:
            entry["evaluation"] = self._evaluate_and_keep(split)
        self._tick()
        return entry | {"seconds": round(self.position.seconds, 3), "cpu_seconds": round(self.position.cpu_seconds, 3)}

    def _evaluate_and_keep(self, split: str) -> dict[str, Any]:
        """An evaluation; the weights are kept when it is the best yet, by the split that selects."""
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
        """Writes a checkpoint, in the place of the one before."""
        if not self.team.is_first:
            return
        self._tick()
        self.position.metrics_bytes = self.place.metrics_length()
        # A forward pass that is to be made again must not count twice, as it would in the running means of a batch norm.
        tensors = {f"model.{name}": self.buffers_before.get(name, t) for name, t in self.model.state_dict().items()}
        tensors |= {f"best.{name}": tensor for name, tensor in self.best_weights.items()}
        tensors |= {
            f"optimizer.{k}.{number}.{name}": value
            for k, optimizer in enumerate(self.optimizers)
            for number, values in optimizer.state_dict()["state"].items()
            for name, value in values.items()
            if isinstance(value, Tensor)
        }
        written = self.place.metrics_digest(self.position.metrics_bytes)
        state = {"run": self.run.as_dict(), "position": asdict(self.position), "on": self._ground(), "metrics": written}
        save_tensors(self.place.checkpoint, tensors, state)

    def _ground(self) -> dict[str, Any]:
        """What numbers hang on besides the settings, and what must not change on the way."""
        return {name: self.environment[name] for name in ("backend", "data")}

    def _restore(self, checkpoint: bytes) -> None:
        """Everything as it was when the checkpoint was written."""
        tensors, state = parse_tensors(checkpoint, self.place.checkpoint)
        try:
            theirs, ours = from_dict(state["run"]).as_dict(), self.run.as_dict()
            if any(theirs[name] != ours[name] for name in ours.keys() - set(LIMITS)):
                raise RecordError(f"{self.place.checkpoint} is of a run with other settings than run.json beside it")
            for name, value in self._ground().items():
                if state["on"][name] != value:
                    raise RecordError(f"{self.place.path} was begun with {name} {state['on'][name]}; here it is {value}")
            self.position = Position(**state["position"])
            if self.team.is_first and state["metrics"] != self.place.metrics_digest(self.position.metrics_bytes):
                raise RecordError(f"{self.place.metrics} is altered, or has lost its end: it does not fit the checkpoint")
            self.model.load_state_dict(_under("model", tensors))
            self.best_weights = {name: tensor.to(self.device) for name, tensor in _under("best", tensors).items()}
            for k, optimizer in enumerate(self.optimizers):
                values: dict[int, Tensors] = {}
                for key, tensor in _under(f"optimizer.{k}", tensors).items():
                    number, name = key.split(".", 1)
                    values.setdefault(int(number), {})[name] = tensor
                optimizer.load_state_dict({"state": values, "param_groups": optimizer.state_dict()["param_groups"]})
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            if isinstance(error, RecordError):
                raise
            said = " ".join(str(error).split())
            raise RecordError(f"{self.place.checkpoint} does not fit this version of srnn: {said}") from None
        self.position.resumed += 1

    def _tick(self) -> None:
        clock, cpu_clock = time.monotonic(), time.process_time()
        self.position.seconds += max(0.0, clock - self._clock)  # a clock may be set back
        self.position.cpu_seconds += max(0.0, cpu_clock - self._cpu_clock) * self.team.size  # all of them are as busy
        self._clock, self._cpu_clock = clock, cpu_clock

    def _clocks(self) -> tuple[float, float]:
        return self.position.seconds, self.position.cpu_seconds

    def _tell(self, what: str, *about: Any) -> None:
        for watcher in self.watchers:
            getattr(watcher, what)(self, *about)

    def _finish(self, status: str, ended_by: str) -> dict[str, Any]:
        """Evaluates what is to be reported, with the weights that were kept, and writes model and record.

        The checkpoint is not touched: from there the run can go on, should it be given another end.
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
            # A score that is not finite may be what ended it: the weights are kept all the same.
            if first:
                save_tensors(self.place.model, dict(self.model.state_dict()), {"run": self.run.as_dict(), "result": result})
        if not first:
            return {}
        record = {
            "kind": "run",
            "id": self.run.id,
            "run": self.run.as_dict(),
            "parameters": self.model.count_parameters(),
            "status": status,
            "ended_by": ended_by,
            "updates": position.step,
            "examples": position.examples,
            "epochs": position.step / self.updates_per_epoch if self.updates_per_epoch else None,
            "result": result,
            "selection": position.best,
            "training": _judge([loss for entry in entries for loss in entry["losses"]]),
            "guesser": task.chance,
            "ceiling": task.ceiling,
            "lines": getattr(task, "lines", None),
            "settings_tried": task.settings_tried.get(self.run.recipe),
            "curve": curve(entries),
            "seconds": round(position.seconds, 3),
            "cpu_seconds": round(position.cpu_seconds, 3),
            "resumed": position.resumed,
            "commits": position.commits,
            "processes": position.processes,
            "started": position.started,
            "finished": _now(),
            **self.environment,
        }
        store.write(self.place.record, record)
        return record

    def _report(self) -> dict[str, Any] | None:
        """The score on the split that the task reports, with the best weights where there are such."""
        if self.best_weights:
            self.model.load_state_dict(self.best_weights)
        if (split := self.task.reports) is None:
            return None
        found = self._evaluate(split)
        at = self.position.best["step"] if self.position.best else self.position.step
        return {"split": split, "metric": self.task.metric, "value": found["score"], "loss": found["loss"], "at": at}


def make_model(run: Run) -> models.Model:
    how = {name: getattr(run, name) for name in ("embed", "readout", "norm", "dropout")}
    return models.make(run.task, run.network, run.seed, **how)


@torch.no_grad()
def evaluate(model: nn.Module, task: Task, batches: Iterable[Batch], team: Team = ALONE) -> dict[str, Any]:
    """Loss and score: means over all answers. Of a team each takes some of the batches."""
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


def learning_rate(run: Run, peak: float, step: int, last_step: int | None) -> float:
    """The rate of the update with this number: linear warm-up, then constant, half a cosine down to 0, or tenths."""
    if step < run.warmup:
        return peak * (step + 1) / run.warmup
    if run.schedule == "staircase":
        return peak * 0.1 ** (step // run.decay_every)
    if run.schedule == "constant" or last_step is None:
        return peak
    return peak / 2 * (1 + math.cos(math.pi * (step - run.warmup) / max(1, last_step - run.warmup)))


def curve(entries: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """The entries as columns: mean losses, evaluations, times."""
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


def _judge(losses: list[float]) -> dict[str, Any] | None:
    """The mean loss of the last WINDOW updates, and the lowest such mean of any WINDOW consecutive ones.

    Of a run with fewer updates, of a third of them: the first losses of some networks are a million times what comes soon.
    """
    if not losses:
        return None
    window = WINDOW if len(losses) >= WINDOW else max(1, len(losses) // 3)
    sums = numpy.cumsum(numpy.concatenate([[0.0], losses]))
    means = (sums[window:] - sums[:-window]) / window
    lowest = int(means.argmin())
    return {"window": window, "final": float(means[-1]), "lowest": float(means[lowest]), "lowest_at": lowest + window}


def _last_step(run: Run, updates_per_epoch: int | None) -> int | None:
    ends = [run.steps] if run.steps is not None else []
    if run.epochs is not None:
        assert updates_per_epoch is not None
        ends.append(run.epochs * updates_per_epoch)
    return min(ends, default=None)


def _device(name: str) -> torch.device:
    try:
        device = torch.device(name)
        if device.type == "meta":
            raise RuntimeError("it computes nothing")
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, ImportError) as error:
        said = str(error).splitlines()[0].split(". ")[0][:200]
        raise SettingError(f"device {name!r} is not available here: {said}") from None
    return device


def _under(prefix: str, tensors: Tensors) -> Tensors:
    return {name.removeprefix(f"{prefix}."): tensor for name, tensor in tensors.items() if name.startswith(f"{prefix}.")}


def _short(value: float) -> float:
    return float(f"{value:.6g}")


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


@contextmanager
def asked_to_stop() -> Iterator[Callable[[], str | None]]:
    """Ctrl-C and SIGTERM become a request that is met after the update; a second Ctrl-C stops at once."""
    asked: list[str] = []

    def note(number: int, frame: Any) -> None:
        asked.append("Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name)
        if number == signal.SIGINT:  # of SIGTERM there can be two at once: one to the group, one from the process that began us
            signal.signal(number, before[number])

    before = {number: signal.getsignal(number) for number in (int(signal.SIGINT), int(signal.SIGTERM))}
    try:
        for number in before:
            signal.signal(number, note)
        yield lambda: asked[0] if asked else None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
