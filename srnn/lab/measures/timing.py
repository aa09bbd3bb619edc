"""The time of a training step: of every network at the sizes of the paper's Table 4, and how it grows with units and steps."""

import math
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import torch
from scipy import stats

from srnn.lab.bench.clock import Call, Clock, on_backend, ratio, torch_threads
from srnn.lab.bench.networks import training_step
from srnn.lab.bench.training import SETTINGS, Setting
from srnn.lab.networks import NETWORKS
from srnn.lab.networks.network import Network
from srnn.lab.networks.srnn import SRNNNetwork
from srnn.lab.networks.urnn import URNNNetwork
from srnn.lab.training import model as models

PAPER = ("rnn", "lstm", "gru", "nru", "urnn")
STAT = Path("/proc/stat")
INPUTS = 128  # d_i, and the width of f_r, when time is measured over units and steps


def runtime(
    task: str, rounds: int = 7, networks: Sequence[str] = PAPER, steps: int | None = None, threads: int = 2
) -> dict[str, Any]:
    """Measure the milliseconds of a training step with batch 100 and 128 units, in turns, and ratios to SRNN with real inputs.

    "plain loop" is SRNN with the reference backend, "dense" with real inputs, "alphabet" with symbols. uRNN is measured twice:
    with its matrix built once per sequence, and with its factors applied at every step.
    """
    others = Others()
    with torch_threads(threads):
        found = _race(task, rounds, networks, steps)
    return found | {"threads": threads, "busy_cores": others.busy_cores()}


class Others:
    """The load of other processes on this machine from now on."""

    def __init__(self) -> None:
        self.load, self.work, self.wall, self.own = os.getloadavg()[0], _work(), time.monotonic(), time.process_time()

    def busy_cores(self) -> float:
        """Return the cores that they kept busy on average, or the load at the start if the system does not count them."""
        work = _work()
        if work is None or self.work is None:
            return self.load
        theirs = work - self.work - (time.process_time() - self.own)
        return max(0.0, theirs) / max(0.01, time.monotonic() - self.wall)


def _work() -> float | None:
    """Return the seconds that all cores of a Linux machine have worked, or None on other systems."""
    try:
        user, nice, system, _, _, *interrupts = map(int, STAT.read_text().split("\n")[0].split()[1:8])
    except OSError:
        return None
    return (user + nice + system + sum(interrupts)) / os.sysconf("SC_CLK_TCK")


def _race(task: str, rounds: int, networks: Sequence[str], steps: int | None) -> dict[str, Any]:
    s = next(setting for setting in SETTINGS if setting.key == task)
    s = s if steps is None else replace(s, T=steps)
    srnn = SRNNNetwork(s.H, mlp=s.mlp)
    dense, on = (DenseSRNNNetwork(s.H, mlp=s.mlp), s) if s.is_embedded else (srnn, s.with_real_inputs())
    shown: dict[str, Network] = {name: NETWORKS[name](s.H) for name in networks} | {"srnn": srnn}
    calls = {name: training_step(on, shown[name]) for name in networks}
    if "urnn" in networks:
        calls["urnn, factored"] = training_step(on, URNNNetwork(s.H, factored=True))
    calls |= {"srnn, plain loop": on_backend("reference", training_step(on, dense)), "srnn, dense": training_step(on, dense)}
    if s.symbols:
        calls["srnn, alphabet"] = training_step(s, srnn)
    times = Clock(rounds).race(calls)
    return {
        "sizes": {"N": s.N, "T": s.T, "H": s.H},
        "parameters": {name: _parameters(on, network) for name, network in shown.items()},
        "milliseconds": {name: 1e3 * median(seconds) for name, seconds in times.items()},
        "times_srnn": {name: ratio(times, name, "srnn, dense") for name in times},
        "quartiles": {name: _quartiles(times, name) for name in times},
    }


def _quartiles(times: Mapping[Any, list[float]], name: str) -> list[float]:
    """Return the quartiles of the ratio over the rounds; with one round, its value twice."""
    each = [a / b for a, b in zip(times[name], times["srnn, dense"], strict=True)]
    first, _, third = quantiles(each, n=4) if len(each) > 1 else (each[0],) * 3
    return [first, third]


def _parameters(s: Setting, network: Network) -> int:
    return models.make(s.task, network, 1, readout=(), norm=False, dropout=0.0).count_parameters()


class DenseSRNNNetwork(SRNNNetwork):
    """An SRNN that gets the vector of its symbol at every step, as the baselines do, and not an alphabet."""

    takes_symbols = False


def growth(network: str, over: str, sizes: Sequence[int], fixed: int = 128, rounds: int = 5) -> dict[str, Any]:
    """Measure forward and backward of one sequence over d_h ("units") or T ("steps"), and fit the exponent of its growth.

    With one thread: two would share the work from some size on, which looks like another exponent. The exponent is fitted to
    the larger half of the sizes, where constant costs matter less.
    """
    others = Others()
    with torch_threads(1):
        times = Clock(rounds).race({size: _one_sequence(network, over, size, fixed) for size in sizes})
    seconds = {size: median(found) for size, found in times.items()}
    large = list(sizes)[-max(3, len(sizes) // 2 + 1) :]
    exponent, margin = fit([math.log(size) for size in large], [math.log(seconds[size]) for size in large])
    return {
        "sizes": list(sizes),
        "milliseconds": [1e3 * seconds[size] for size in sizes],
        "fitted_from": large[0],
        "exponent": exponent,
        "margin": margin,
        "threads": 1,
        "busy_cores": others.busy_cores(),
    }


def fit(x: Sequence[float], y: Sequence[float]) -> tuple[float, float]:
    """Returns the slope of the straight line through points, and half the width of its 95 % interval."""
    line = stats.linregress(x, y)
    return float(line.slope), float(line.stderr * stats.t.ppf(0.975, len(x) - 2))


def _one_sequence(name: str, over: str, size: int, fixed: int) -> Call:
    H, T = (size, fixed) if over == "units" else (fixed, size)
    layer, x = _network(name, H).layer(INPUTS, T), torch.randn(1, T, INPUTS)

    def step() -> None:
        layer.zero_grad()
        layer(x)[0][:, -1].square().sum().backward()

    return step


def _network(name: str, H: int) -> Network:
    if name == "srnn":
        return SRNNNetwork(H, mlp=(INPUTS,))
    return URNNNetwork(H, factored=True) if name == "urnn" else NETWORKS[name](H)  # the paper counts the cost of the factors
