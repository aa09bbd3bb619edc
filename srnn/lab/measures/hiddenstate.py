"""The states of a trained SRNN over time, with the shift undone: a picture, and how much they change in parts of a sequence.

change    |h_t - P h_{t-1}| / |P h_{t-1}|, the relative change of a step without the shift
drift     the same from the first step of a phase to its last, over the larger of both states
zeroed    share of the positive units that a step sets to zero
alive     share of units that are positive
dropped   share of units that were positive for LASTING steps that a step sets to zero, over the whole sequence
"""

import base64
import io
from collections.abc import Sequence
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from srnn.lab.measures.gradients import FRESH, load, undo_shift
from srnn.lab.records.folder import Tensors
from srnn.lab.tasks.task import Batch
from srnn.lab.training.run import Run

PIXELS = 700_000  # of a picture at most: with 8 bits each, less than a megabyte in a record
LASTING = 10
WHITEST = 0.995  # quantile of the values that is drawn white, as are all larger ones


@torch.no_grad()
def hiddenstate(
    run: Run, weights: Tensors | None, sequences: int = 50, steps: int | None = None, markers: Sequence[int] | None = None
) -> dict[str, Any]:
    """Draw the states of one sequence, and average their changes over several.

    Args:
        run: Its task and network.
        weights: The trained weights; None for the first ones.
        sequences: How many are averaged.
        steps: Where lengths differ, take the sequences with the nearest length.
        markers: On adding, the two marked steps of the sequence that is drawn, which is then the first.
    """
    batch = _batch(run, sequences, steps)
    if markers:
        batch.input[0, :, 1] = 0.0
        batch.input[0, list(markers), 1] = 1.0
    states = undo_shift(load(run, weights, run.seed).states(batch.input)[0])
    phases = _phases(run.task.name, batch)
    before, after = states[:, :-1], states[:, 1:]
    size = before.norm(dim=-1)
    change = (after - before).norm(dim=-1) / size
    positive = (before > 0).sum(dim=-1)
    zeroed = ((before > 0) & (after <= 0)).sum(dim=-1) / positive
    found = {}
    for name, here in phases.items():
        here = here[:, 1:] & (size > 0)  # the step into t; a state of zeros has no relative change
        parts = {"change": change, "zeroed": zeroed, "alive": (after > 0).double()} if here.any() else {}
        means = {what: float(each[here].mean()) for what, each in parts.items()}
        found[name] = {"steps": int(here.sum()), **means, **_drift(phases[name], states)}
    row, marks = (0, list(markers)) if markers else _drawn(run.task.name, batch)
    about = {"steps": states.shape[1], "units": states.shape[2], "phases": found, "dropped": _dropped(states), "markers": marks}
    return about | _picture(states[row])


def _drift(here: Tensor, states: Tensor) -> dict[str, float]:
    """Return the mean over sequences in which the phase is contiguous and has at least two steps; nothing without any."""
    found = []
    for steps, h in zip(here, states, strict=True):
        t = steps.nonzero().flatten()
        if len(t) > 1 and t[-1] - t[0] == len(t) - 1:
            first, last = h[t[0]], h[t[-1]]
            found.append((last - first).norm() / torch.maximum(first.norm(), last.norm()).clamp(min=1e-30))
    return {"drift": float(torch.stack(found).mean())} if found else {}


def _dropped(states: Tensor) -> float:
    alive = states > 0
    if states.shape[1] <= LASTING:
        return 0.0
    lasting = alive[:, :-1].unfold(1, LASTING, 1).all(dim=-1)  # at step LASTING - 1 and on
    lost = lasting & ~alive[:, LASTING:]
    return float(lost.sum() / lasting.sum().clamp(min=1))


def _batch(run: Run, sequences: int, steps: int | None) -> Batch:
    """Return sequences that were not trained on, all of one length."""
    if run.task.reports is None:
        return run.task.batch(0, sequences, run.seed + FRESH)
    batches = run.task.batches(run.task.reports, sequences)
    if steps is None:
        return next(iter(batches))
    batch = min(batches, key=lambda batch: abs(int(batch.input.shape[1]) - steps))
    assert batch.lengths is not None
    chosen = (batch.lengths - steps).abs().argsort(stable=True)
    chosen = chosen[batch.lengths[chosen] >= min(steps, int(batch.lengths[chosen[0]]))]
    T = min(steps, int(batch.lengths[chosen].min()))  # no padding
    return Batch(batch.input[chosen, :T], batch.target[chosen, :T])


def _phases(task: str, batch: Batch) -> dict[str, Tensor]:
    """Return the parts of a sequence that are measured separately, as masks [N, T]."""
    N, T = batch.input.shape[:2]
    t = torch.arange(T).expand(N, T)
    if task == "adding":
        marked = batch.input[..., 1] > 0
        count = marked.cumsum(dim=1)
        apart = (t >= 10) & ~marked  # states start with zeros, so that the first steps change everything
        names = {"before the markers": 0, "between them": 1, "after them": 2}
        return {"at the markers": marked & (t >= 10), **{name: apart & (count == k) for name, k in names.items()}}
    if task == "copy":
        return {"symbols": t < 10, "delay": (t >= 10) & (t < T - 11), "recital": t >= T - 11}
    third, started = 3 * t // T, t >= min(10, T // 6)
    return {"first third": started & (third == 0), "second third": third == 1, "last third": third == 2}


def _drawn(task: str, batch: Batch) -> tuple[int, list[int]]:
    """Return the sequence that is drawn, and its markers: for adding the one whose shortest part is longest, else the first."""
    if task != "adding":
        return 0, []
    first, second = batch.input[..., 1].nonzero()[:, 1].view(-1, 2).unbind(dim=1)
    bands = torch.stack([first, second - first, batch.input.shape[1] - 1 - second])
    row = int(bands.amin(dim=0).argmax())
    return row, [int(first[row]), int(second[row])]


def _picture(states: Tensor) -> dict[str, Any]:
    """States [T, H] as a grey image, the first units downwards and steps to the right, 8 bits each."""
    states = states[:, : PIXELS // len(states)]
    white = float(states.flatten().double().quantile(WHITEST)) or float(states.max()) or 1.0
    grey = (states / white).clamp(0, 1).mul(255).round().to(torch.uint8).T
    file = io.BytesIO()
    Image.fromarray(grey.contiguous().numpy()).save(file, "PNG", optimize=True)
    return {"png": base64.b64encode(file.getvalue()).decode(), "white": white, "units_drawn": states.shape[1]}
