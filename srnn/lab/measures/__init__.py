"""What exhibits measure besides training runs: a function each, from a few settings to plain values for a record.

gradients.py        what becomes of a gradient on its way back through time
hiddenstate.py      the states of trained networks, with the shift undone
timing.py           a training step of every network, and how its time grows
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

KINDS: dict[str, Callable[..., dict[str, Any]]] = {
    "gradients": gradients.gradients,
    "survival": gradients.survival,
    "bound": gradients.bound,
    "drive": gradients.drive,
    "hiddenstate": hiddenstate.hiddenstate,
    "runtime": timing.runtime,
    "growth": timing.growth,
}


def measure(measurement: Measurement, weights: Tensors | None, trained: dict[str, Any] | None = None) -> dict[str, Any]:
    """The record of a measurement, on the weights that its run left where it has one; `trained` says what these are."""
    started, start = datetime.now(timezone.utc).isoformat(timespec="seconds"), time.perf_counter()
    given = dict(measurement.settings)
    if measurement.run is not None:
        given |= {"run": measurement.run, "weights": weights}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1234)
        found = KINDS[measurement.kind](**given)
    return {
        "kind": "measurement",
        "id": measurement.id,
        "measurement": measurement.as_dict(),
        "trained": trained,
        "found": found,
        "started": started,
        "seconds": round(time.perf_counter() - start, 1),
        **store.environment(),
    }
