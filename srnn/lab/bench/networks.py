"""`srnn bench --networks`: the time of one training step of every network over that of nn.GRU, at the sizes of Table 4.

A step is a whole update with the optimizer of the paper's recipe: forward, loss, backward, optimizers, and what the network
does after an update. uRNN and EURNN run twice: with W built once for a sequence, and with its factors applied at every step.
"""

from dataclasses import replace
from statistics import median
from typing import Any

from srnn.lab.bench.clock import Call, Clock, ratio
from srnn.lab.bench.training import SETTINGS, Setting, make_run, make_training
from srnn.lab.networks import NETWORKS
from srnn.lab.networks.network import Network
from srnn.lab.training import recipes
from srnn.lab.training.distributed import ALONE, Team

COMPARED_WITH = "gru"
TABLE_4 = [setting for setting in SETTINGS if setting.key in ("copy", "adding", "pmnist", "speech")]
FACTORED = ("urnn", "eurnn")


def sides() -> dict[str, Network]:
    """Returns all networks with 128 units, f_r of SRNN as in Table 4."""
    known: dict[str, Any] = {name: kind(128) for name, kind in NETWORKS.items()}
    return known | {f"{name}, factored": replace(known[name], factored=True) for name in FACTORED}


def training_step(s: Setting, network: Network, team: Team = ALONE) -> Call:
    """Returns a call of a whole update on one batch. The processes of a team share the batch."""
    recipe = recipes.make_run(s.key, network.name)
    settings = {name: getattr(recipe, name) for name in ("optimizer", "lr", "weight_decay", "alpha", "clip")}
    training = make_training(make_run(s, network, **settings), team)
    if team.size == 1:
        return training.make_update
    training.wrapped = team.wrap(training.model)

    def step() -> None:
        team.add(0.0, 0.0, 0.0, 0.0)  # in training: the loss, whether to stop, and clocks
        training.make_update()

    return step


def measure_networks(s: Setting, clock: Clock) -> dict[str, Any]:
    """Measures one column of the table, for the record: the time of each network over that of nn.GRU."""
    times = clock.race({name: training_step(s, network) for name, network in sides().items()})
    return {
        "key": s.key,
        "title": s.title,
        "sizes": {"N": s.N, "T": s.T, "H": s.H},
        "times_gru": {name: ratio(times, name, COMPARED_WITH) for name in times},
        "milliseconds": {name: 1e3 * median(seconds) for name, seconds in times.items()},
    }
