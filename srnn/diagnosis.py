"""Finds out why a layer does not learn: cut paths through time, states of the wrong size, dead units, closed gates.

A change of b at one unit, d steps from the end, follows one path: from unit to unit as P moves it, through d activations (the
last step is one step from the end). It reaches the last state multiplied by the derivatives of those activations. With ReLU and
clip these are 0 or 1, so a path is either alive or cut, and no gradient comes back along a cut path. A reset also cuts a path.
The product is the derivative of the sum of the last state by b. The backward pass of one scan gives it for all paths at once.

N sequences, T steps, H units.
"""

import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from srnn import kernels
from srnn.errors import SettingError, SettingTypeError, ShapeError
from srnn.layer import SRNN, InputNetwork

ALIVE = 0.01  # the least product of derivatives along a path that is alive; only tanh has products between 0 and 1
CLOSED = 0.05  # gate values below this are closed
# Survival on the adding problem from the first tenth of the steps on: 0.00 in all runs that stalled, 0.04 or more in all that
# learned. Not from the first step on: a state that starts at zero is cut there if b is below zero, in any run.
FEW_PATHS, ENOUGH_PATHS = 0.01, 0.04
SMALL_STATES, LARGE_STATES = 0.01, 10.0  # root mean square at the end
MANY_DEAD = 0.2  # share of units
MANY_CLOSED, OPEN_GATE = 0.95, 0.4  # share of closed gate values; mean of all gate values


@dataclass(frozen=True)
class LayerDiagnosis:
    """What was found in one layer and direction.

    Attributes:
        name: The layer and direction, such as "layer 1, reverse".
        survival: By distance d = 1, 2, 4, ..., 0.9 T, T: the share of (sequence, unit) paths that are alive from d steps before
            a sequence's end to its last state. Sequences of fewer than d steps do not count. T is the longest length.
        state_rms: The root mean square of the states after the first, the middle and the last step of each sequence.
        state_max: The largest absolute state after the same steps.
        dead_units: The share of units that are zero at every step of every sequence.
        closed_gates: The share of gate values below 0.05; None without a gate.
        gate_mean: The mean of the gate values; None without a gate.
    """

    name: str
    survival: dict[int, float]
    state_rms: tuple[float, float, float]
    state_max: tuple[float, float, float]
    dead_units: float
    closed_gates: float | None
    gate_mean: float | None

    @property
    def advice(self) -> dict[str, str]:
        """Returns one sentence for each of paths, states, units and gates."""
        return {"paths": self._paths(), "states": self._states(), "units": self._units(), "gates": self._gates()}

    def _paths(self) -> str:
        distance = _most(max(self.survival))
        share = self.survival[distance]
        if share >= ENOUGH_PATHS:
            return f"Enough paths reach back {distance} steps: with a share of {ENOUGH_PATHS} or more, runs have learned."
        amount = "Hardly any path reaches" if share < FEW_PATHS else "Few paths reach"
        change = "gate=True" if self.closed_gates is None else "a lower gate_init, such as -3.0"
        return f"{amount} back {distance} steps: if the answer depends on inputs that early, start with {change}."

    def _states(self) -> str:
        if not all(map(math.isfinite, self.state_rms)):
            return "States are not finite: lower the learning rate, or clip the gradients."
        if self.state_rms[-1] > LARGE_STATES:
            return "States are large at the end: put an nn.LayerNorm between the layer and the read-out."
        if self.state_rms[-1] < SMALL_STATES:
            return "States are close to zero at the end: scale the inputs up, or start with a gate that is less closed."
        return "States have a usual size at the end."

    def _units(self) -> str:
        if self.dead_units >= MANY_DEAD:
            return "Many units are never used: lower the learning rate, or take a smaller hidden_size."
        return "Some units are never used, which does no harm." if self.dead_units else "Every unit is used."

    def _gates(self) -> str:
        if self.closed_gates is None or self.gate_mean is None:
            return "There is no gate: every step changes every unit."
        if self.closed_gates >= MANY_CLOSED:
            return "Nearly all gates are closed: if the loss does not fall, start with a gate_init closer to 0."
        if self.gate_mean >= OPEN_GATE:
            return "Gates are open, so every step changes every unit, and the paths above decide whether that is too much."
        return "Gates are partly open, as they are in layers that learn."

    def __str__(self) -> str:
        """Returns the numbers, each with its advice."""
        rms, largest = (" / ".join(f"{value:.3g}" for value in values) for values in (self.state_rms, self.state_max))
        gates = "none" if self.gate_mean is None else f"{self.closed_gates:.2f}, mean gate {self.gate_mean:.3f}"
        lines = {
            "paths": f"paths alive   {'  '.join(f'{distance}: {share:.2f}' for distance, share in self.survival.items())}",
            "states": f"states        rms {rms}, max {largest} at start / middle / end",
            "units": f"dead units    {self.dead_units:.2f}",
            "gates": f"closed gates  {gates}",
        }
        return "\n".join([self.name, *(f"  {lines[key]}\n{'':16}{advice}" for key, advice in self.advice.items())])


@dataclass(frozen=True)
class Diagnosis:
    """What `diagnose` found, for each layer and direction."""

    layers: tuple[LayerDiagnosis, ...]

    def __str__(self) -> str:
        """Returns all numbers, each with its advice."""
        return "\n".join(map(str, self.layers))


def diagnose(module: nn.Module, *args: Any, **kwargs: Any) -> Diagnosis:
    """Runs module(*args, **kwargs) once and examines its `SRNN` layers: `print(srnn.diagnose(rnn, x))`.

    The module runs in evaluation mode and without gradients, and is not changed. If a layer runs more than once, its last run
    counts. For a batch of a few sequences this takes about as long as an update, and three times the memory of the states.

    Args:
        module: An `SRNN`, or any module that contains some and runs them over sequences.
        *args: The arguments of its call.
        **kwargs: The keyword arguments of its call.

    Returns:
        What was found in each layer and direction. `print` shows it with advice.

    Raises:
        SettingError: If no `SRNN` layer ran.
        ShapeError: If there is no sequence of at least one step.
    """
    if not isinstance(module, nn.Module):
        raise SettingTypeError(f"diagnose needs an SRNN layer, or a module that contains one, got {type(module).__name__}")
    found: dict[str, LayerDiagnosis] = {}
    # Compiled code would not call the observers. Without torch._dynamo, which is slow to import, there is no compiled code.
    eager = torch.compiler.set_stance("force_eager") if "torch._dynamo" in sys.modules else nullcontext()
    with _observed(module, found), _evaluating(module), eager, torch.inference_mode(False), torch.no_grad():
        module(*args, **kwargs)
    if not found:
        raise SettingError(
            f"diagnose needs a module that runs SRNN layers over sequences, and {type(module).__name__} ran none"
        )
    return Diagnosis(tuple(found.values()))


@contextmanager
def _observed(module: nn.Module, found: dict[str, LayerDiagnosis]) -> Iterator[None]:
    """Inside, every scan of an SRNN layer in the module is examined."""
    observed = []
    try:
        for path, rnn in module.named_modules():
            if isinstance(rnn, SRNN):
                for k, b in enumerate(rnn.b):
                    layer, reverse = divmod(k, 2) if rnn.bidirectional else (k, 0)
                    name = f"{path}{', ' if path else ''}layer {layer}{', reverse' if reverse else ''}"
                    vars(b).update(scan=partial(_scan, b, name, found), quick_step=_no_quick_step)
                    observed.append(b)
        yield
    finally:
        for b in observed:
            del vars(b)["scan"], vars(b)["quick_step"]


def _no_quick_step(*given: Any) -> None:
    """In the place of b.quick_step: a sequence of one step is scanned, too."""


@contextmanager
def _evaluating(module: nn.Module) -> Iterator[None]:
    """Inside, the module is in evaluation mode."""
    modes = {part: part.training for part in module.modules()}
    try:
        module.eval()
        yield
    finally:
        for part, mode in modes.items():
            part.training = mode


def _scan(
    b: InputNetwork,
    name: str,
    found: dict[str, LayerDiagnosis],
    x: Tensor,
    h0: Tensor,
    alphabet: Tensor | None,
    final: bool,
    **how: Any,
) -> tuple[Any, Tensor]:
    """In the place of b.scan: the same result, and what is found on the way."""
    N, T = x.shape[:2]
    lengths = torch.full((N,), T, device=x.device) if how["lengths"] is None else how["lengths"]
    if N == 0 or lengths.max() < 1:
        raise ShapeError(f"diagnose needs a sequence of at least one step, got {N} sequences of {T} steps")
    drive = b(x) if alphabet is None else b(alphabet)[x.long()]
    how = {key: value.clone() if isinstance(value, Tensor) else value for key, value in how.items()}  # inference tensors
    with torch.enable_grad():
        drive = drive.detach().requires_grad_()
        states, h_n = kernels.scan(drive, h0.detach(), **how)
        (products,) = torch.autograd.grad(h_n.sum(), drive)
    states, h_n = states.detach(), h_n.detach()
    gates = None
    if b.gate is not None:
        gates = torch.sigmoid(b.gate(x) if alphabet is None else b.gate(alphabet)[x.long()])
        gates = gates[torch.arange(T, device=x.device) < lengths[:, None]].double()
    rows = lengths.nonzero()[:, 0]
    steps = torch.stack([torch.ones_like(lengths), (lengths + 1) // 2, lengths])[:, rows]
    sizes = [_at(states[rows], lengths[rows], step, how["reverse"]).double() for step in steps]
    found[name] = LayerDiagnosis(
        name,
        _survival(products.abs() >= ALIVE, lengths, how["reverse"]),
        _three(size.square().mean().sqrt() for size in sizes),
        _three(size.abs().max() for size in sizes),
        (states == 0).flatten(0, 1).all(0).double().mean().item(),
        None if gates is None else (gates < CLOSED).double().mean().item(),
        None if gates is None else gates.mean().item(),
    )
    return None if final else states, h_n


def _survival(alive: Tensor, lengths: Tensor, reverse: bool) -> dict[int, float]:
    """By distance, the share of `alive` [N, T, H] among the sequences that have as many steps."""
    longest = int(lengths.max())
    shares = {}
    for distance in sorted({*(2**k for k in range(longest.bit_length())), _most(longest), longest}):
        rows = lengths >= distance
        steps = lengths[rows] - distance + 1
        shares[distance] = _at(alive[rows], lengths[rows], steps, reverse).double().mean().item()
    return shares


def _most(steps: int) -> int:
    """Nine tenths of the steps, rounded up: the distance from the first tenth to the end."""
    return steps - steps // 10


def _at(values: Tensor, lengths: Tensor, steps: Tensor, reverse: bool) -> Tensor:
    """values [N, T, H] at the given step of each row, counted from 1 in the order in which the scan takes them."""
    return values[torch.arange(len(values), device=values.device), lengths - steps if reverse else steps - 1]


def _three(values: Iterator[Tensor]) -> tuple[float, float, float]:
    start, middle, end = (value.item() for value in values)
    return start, middle, end
