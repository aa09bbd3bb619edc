"""Section 3 of the paper, measured: how a gradient changes on its way back through time.

A unit of SRNN is followed along the shift: the value at place i is at place i - 1 one step later.
"""

import copy
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from srnn.lab.records.folder import Tensors
from srnn.lab.tasks.task import Batch
from srnn.lab.training.loop import make_model
from srnn.lab.training.model import Model
from srnn.lab.training.run import Run
from srnn.layer import SRNN

POINTS = 100  # along a sequence
FRESH = 1_000_003  # added to a run's seed: batches that it was not trained on


def gradients(run: Run, weights: Tensors | None, length: int, seeds: Sequence[int], sequences: int = 20) -> dict[str, Any]:
    """Measure |dL/dh_t| over t, mean over sequences, and |dL/dtheta|: a list for each seed, or one for trained weights.

    The task has this length, which may differ from the trained one. The state of an LSTM is both of its parts. Computed in
    float64: after many steps a gradient can be smaller than float32 can hold.
    """
    found: dict[str, Any] = {"norm": [], "weights": []}
    for seed in seeds:
        model, task = load(run, weights, seed).double(), type(run.task)(length=length)  # type: ignore[call-arg]
        batch = task.batch(0, sequences, seed + FRESH)
        if batch.input.is_floating_point():
            batch = Batch(batch.input.double(), batch.target.double())
        t, norms = _state_gradients(model, task, batch)
        found |= {"t": t}
        found["norm"].append(norms)
        squares = sum(float(p.grad.square().sum()) for p in model.rnn.parameters() if p.grad is not None)
        found["weights"].append(math.sqrt(squares))
    return found


def _state_gradients(model: Model, task: Any, batch: Batch) -> tuple[list[int], list[float]]:
    """Run the layer on pieces of the sequence, so that there is a state at the end of each."""
    steps = batch.input.shape[1]
    every = max(1, steps // POINTS)
    outputs, carried, state = [], [], None
    for x in batch.input.split(every, dim=1):
        output, state = model.states(x, state)
        parts = state if isinstance(state, tuple) else (state,)
        for part in parts:
            part.retain_grad()
        carried.append(parts)
        outputs += [output[:, :-1], parts[0][-1][:, None]]  # the last is the state itself, which the next piece uses, too
    states = torch.cat(outputs, dim=1)
    task.loss(model.readout(states if task.every_step else states[:, -1]), batch).backward()
    return [min(steps, (k + 1) * every) for k in range(len(carried))], [_norm(parts) for parts in carried]


def _norm(parts: Sequence[Tensor]) -> float:
    """Return the norm of the gradient of all parts of a state. A part without a gradient does not reach the loss."""
    found = [torch.zeros_like(part[-1]) if part.grad is None else part.grad[-1] for part in parts]
    return float(torch.cat(found, dim=-1).norm(dim=-1).mean())


@torch.no_grad()
def survival(run: Run, weights: Tensors | None, seeds: Sequence[int], sequences: int = 5, horizon: int = 200) -> dict[str, Any]:
    """Measure the share of units that stay positive for k more steps: of those that just became positive, and of all positive.

    Also returned: the paper's estimate, 1 / (1 + k), and that of a walk with symmetric steps after its first step up,
    2 C(2n, n) / 4^n with n = k + 1.
    """
    newborn, living = [], []
    for seed in seeds:
        model = load(run, weights, seed)
        states = undo_shift(model.states(run.task.batch(0, sequences, seed + FRESH).input)[0])
        newborn.append(_shares(states, horizon, newborn=True))
        living.append(_shares(states, horizon, newborn=False))
    k = range(len(newborn[0]))
    walk = [2 * math.exp(math.lgamma(2 * n + 3) - 2 * math.lgamma(n + 2) - (n + 1) * math.log(4)) for n in k]
    return {"k": list(k), "newborn": newborn, "living": living, "paper": [1 / (1 + n) for n in k], "walk": walk}


def _shares(states: Tensor, horizon: int, newborn: bool) -> list[float]:
    """Return the shares for units of states [N, T, H] that are positive `horizon` steps or more before the end."""
    T = states.shape[1]
    horizon = min(horizon, T // 2)
    alive = states > 0
    steps = torch.arange(T)[None, :, None]
    next_zero = torch.where(alive, T, steps).flip(1).cummin(dim=1).values.flip(1)
    starts = alive.clone()
    if newborn:
        starts[:, 1:] &= ~alive[:, :-1]
    ages = (next_zero - steps)[:, : T - horizon][starts[:, : T - horizon]]
    return [float((ages > k).double().mean()) if len(ages) else 0.0 for k in range(horizon + 1)]


def undo_shift(states: Tensor) -> Tensor:
    """Return states [N, T, H] with the shift undone: place i is always the same unit."""
    T, H = states.shape[1:]
    places = (torch.arange(H)[None] - torch.arange(T)[:, None]) % H
    return states.gather(2, places.expand(len(states), -1, -1))


def bound(
    run: Run, weights: Tensors | None, length: int, seeds: Sequence[int], units: int = 16, picked: int = 50
) -> dict[str, Any]:
    """Measure how often |dh_T/dw| <= |sum_i db(x_i)/dw|, as printed, is violated, and with the absolute value inside the sum.

    Shares of pairs (unit, weight w), for one sequence, some units and some weights; b(x_i) at the place of the unit at step i.
    """
    outside, inside = [], []
    for seed in seeds:
        layer: SRNN = copy.deepcopy(load(run, weights, seed).rnn).double()
        x = type(run.task)(length=length).batch(0, 1, seed + FRESH).input[0].double()  # type: ignore[call-arg]
        parameters = list(layer.parameters())
        pick = torch.randperm(sum(p.numel() for p in parameters), generator=torch.Generator().manual_seed(seed))[:picked]

        def derivative(value: Tensor, of: list[Any] = parameters, pick: Tensor = pick) -> Tensor:
            parts = torch.autograd.grad(value, of, retain_graph=True, allow_unused=True, materialize_grads=True)
            return torch.cat([part.flatten() for part in parts])[pick]

        states, b, H = layer(x)[0], layer.b[0](x), layer.hidden_size
        broken = torch.zeros(2)
        for unit in range(min(units, H)):
            left = derivative(states[-1, unit]).abs()
            terms = torch.stack([derivative(b[i, (unit + length - 1 - i) % H]) for i in range(length)])
            for form, right in enumerate((terms.sum(dim=0).abs(), terms.abs().sum(dim=0))):
                broken[form] += (left > right * (1 + 1e-9) + 1e-12).double().mean()
        outside.append(float(broken[0] / min(units, H)))
        inside.append(float(broken[1] / min(units, H)))
    return {"as printed": outside, "absolute value inside": inside}


@torch.no_grad()
def drive(run: Run, weights: Tensors | None, seeds: Sequence[int]) -> dict[str, Any]:
    """Measure mean and standard deviation of b(x) over units and the inputs of a batch. The paper assumes N(0, 1)."""
    means, deviations = [], []
    for seed in seeds:
        model = load(run, weights, seed)
        x = run.task.batch(0, 20, seed + FRESH).input
        b = model.rnn.b[0](x if model.symbols is None else torch.nn.functional.embedding(x.long(), model.symbols))
        means.append(float(b.mean()))
        deviations.append(float(b.std()))
    return {"mean": means, "deviation": deviations}


def load(run: Run, weights: Tensors | None, seed: int) -> Model:
    """Return the model of a run with these weights, or with the first weights of this seed."""
    model = make_model(run if weights is not None else replace(run, seed=seed))
    if weights is not None:
        model.load_state_dict(weights)
    return model
