"""Measurements of exhibits: functions from a few settings to plain values for a record.

gradients.py        how gradients change on their way back through time
hiddenstate.py      the states of trained networks, with the shift undone
timing.py           the time of a training step of every network, and how it grows
"""

import time
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

import torch

from srnn.lab.measures import gradients, hiddenstate, timing
from srnn.lab.paper.plan import Measurement
from srnn.lab.records import store
from srnn.lab.records.folder import Tensors
from srnn.lab.records.record import Measured

KINDS: dict[str, Callable[..., dict[str, Any]]] = {
    "gradients": gradients.gradients,
    "survival": gradients.survival,
    "bound": gradients.bound,
    "drive": gradients.drive,
    "hiddenstate": hiddenstate.hiddenstate,
    "runtime": timing.runtime,
    "growth": timing.growth,
}


def measure(measurement: Measurement, weights: Tensors | None, trained: dict[str, Any] | None = None) -> Measured:
    """Take a measurement and return its record.

    Args:
        measurement: What to measure.
        weights: The trained weights of its run; None for first weights, or without a run.
        trained: How far these weights were trained, for the record.
    """
    started, start = datetime.now(timezone.utc).isoformat(timespec="seconds"), time.perf_counter()
    given = dict(measurement.settings)
    if measurement.run is not None:
        given |= {"run": measurement.run, "weights": weights}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1234)
        found = KINDS[measurement.kind](**given)
    return Measured(
        id=measurement.id,
        measurement=measurement.as_dict(),
        trained=trained,
        found=found,
        started=started,
        seconds=round(time.perf_counter() - start, 1),
        environment=store.environment(),
    )
