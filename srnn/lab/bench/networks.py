"""Every network beside nn.GRU: time of one training step at the settings of the paper's Table 4.

A step is what training does: forward, loss, backward, optimizers, and what the network does besides, with the paper's recipe.
uRNN and EURNN run twice: with W built once for a sequence, and with its factors applied at every step.
"""

import itertools
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import median
from typing import Any

import torch
from torch import Tensor

from srnn.lab.bench.clock import Call, Clock, ratio
from srnn.lab.bench.training import SETTINGS, Setting, loss
from srnn.lab.networks import NETWORKS
from srnn.lab.networks.network import Network
from srnn.lab.tasks.task import Batch, Task
from srnn.lab.training import model as models
from srnn.lab.training import optimizers
from srnn.lab.training.distributed import ALONE, Team
from srnn.lab.training.recipes import make_run

BESIDE = "gru"
TABLE_4 = [setting for setting in SETTINGS if setting.key in ("copy", "adding", "pmnist", "speech")]
FACTORED = ("urnn", "eurnn")


@dataclass(frozen=True)
class Drawn(Task):
    """A setting of the benchmark as a task: random data of its shape."""

    setting: Setting

    name = "drawn"

    @property
    def usual_steps(self) -> int:
        return self.setting.T

    @cached_property
    def alphabet(self) -> Tensor | None:
        s = self.setting
        return torch.arange(s.symbols)[:, None] / 255 if s.symbols and not s.embedded else None


def drawn(s: Setting) -> Task:
    sizes = {"input_size": s.features, "output_size": s.outputs, "symbols": s.symbols if s.embedded else 0}
    return type("Drawn", (Drawn,), {"every_step": s.every_step, **sizes})(s)


def sides() -> dict[str, Network]:
    """All networks with 128 units, f_r of SRNN as in Table 4."""
    known: dict[str, Any] = {name: kind(128) for name, kind in NETWORKS.items()}
    return known | {f"{name}, factored": replace(known[name], factored=True) for name in FACTORED}


def training_step(s: Setting, network: Network, team: Team = ALONE) -> Call:
    """A whole step on one batch, with what processes tell each other where several train together."""
    task, run = drawn(s), make_run(s.key, network.name)
    model = models.make(task, network, 1, readout=(), norm=False, dropout=0.0)
    how = (run.optimizer, run.lr, run.weight_decay, run.alpha)
    groups = list(network.groups(model.rnn))
    steppers = optimizers.make(model.parameters(), groups, *how)
    x, target = s.draw(s.N, s.T)
    wrapped = team.wrap(model)
    clipped = optimizers.clipped(model.parameters(), groups)
    updates = itertools.count(1)

    def step() -> None:
        model.zero_grad()
        penalty, value = network.penalty(model.rnn), loss(wrapped(Batch(x, target)), target)
        if team.size > 1:
            team.add(value.item(), 0.0, 0.0, 0.0)  # the loss of all, whether one is to stop, and clocks
        (value if penalty is None else value + penalty).backward()
        if run.clip is not None:
            torch.nn.utils.clip_grad_norm_(clipped, run.clip)
        for stepper in steppers:
            stepper.step()
        list(network.after_update(model.rnn, next(updates)))

    return step


def measure_networks(s: Setting, clock: Clock) -> dict[str, Any]:
    """One column of the table, as it stands in the record: the time of each network over that of nn.GRU."""
    times = clock.race({name: training_step(s, network) for name, network in sides().items()})
    return {
        "key": s.key,
        "title": s.title,
        "sizes": {"N": s.N, "T": s.T, "H": s.H},
        "times_gru": {name: ratio(times, name, BESIDE) for name in times},
        "milliseconds": {name: 1e3 * median(seconds) for name, seconds in times.items()},
    }
