"""The activations sigma, each with what its derivative and its exports need: the only table of them in Python.

A new activation is a line here, and its code in csrc/kernels.h and csrc/simd.inl. The tests run over this table.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F


@dataclass(frozen=True)
class Activation:
    """An activation sigma.

    Attributes:
        function: sigma itself, for tensors of any shape.
        bounds: The interval to which sigma clamps its input. Its derivative is then 0 at a bound and 1 elsewhere, so that one
            bit per state is enough for the backward pass, and exports clamp to it too. None if sigma is smooth; its backward
            pass needs the states.
        smooth_in_c: A smooth sigma of u as an expression in C, where $name_exp is the exponential function. See srnn/c.py.
    """

    function: Callable[[Tensor], Tensor]
    bounds: tuple[float, float] | None
    smooth_in_c: str = ""

    def is_flat(self, h: Tensor) -> Tensor:
        """Where the derivative is 0, from the states. It is 1 for a NaN of an activation without upper bound, as in torch."""
        assert self.bounds is not None
        low, high = self.bounds
        return h <= low if high == torch.inf else ~((h > low) & (h < high))


ACTIVATIONS = {
    "relu": Activation(torch.relu, (0.0, torch.inf)),
    "tanh": Activation(torch.tanh, None, smooth_in_c="1.0f - 2.0f / (1.0f + $name_exp(2.0f * u))"),
    "clip": Activation(F.hardtanh, (-1.0, 1.0)),
}


def tanh_slope(h: Tensor) -> Tensor:
    """The derivative of tanh, the only smooth activation, from its value."""
    return 1 - h * h
