"""Base class of the baseline layers: the call of nn.GRU with its checks, and initial weights."""

from typing import Any

import torch
from torch import Tensor, nn

from srnn import checks
from srnn.errors import DtypeError, ShapeError

State = Any  # a tensor [layers, N, H], or a tuple of such


class Recurrent(nn.Module):
    """A layer that is called like nn.GRU. A subclass writes `scan`, for sequences with the batch first.

    input       [T, N, C], with batch_first [N, T, C]; one sequence [T, C]
    hx, h_n     [layers, N, H], without N for one sequence; complex for a complex state; hx=None is the network's initial state
    output      like input, with the width of the network's output
    """

    state_is_complex: bool = False

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1, *, batch_first: bool = False) -> None:
        super().__init__()
        self.input_size, self.hidden_size, self.num_layers, self.batch_first = input_size, hidden_size, num_layers, batch_first

    @property
    def state_sizes(self) -> tuple[int, ...]:
        """Widths of the parts of the state. A state of one part is a tensor, one of several parts is a tuple."""
        return (self.hidden_size,)

    def scan(self, x: Tensor, hx: State | None) -> tuple[Tensor, State]:
        """Returns the output [N, T, O] and the last state for inputs x [N, T, C] and an initial state or None."""
        raise NotImplementedError

    def forward(self, input: Tensor, hx: State | None = None) -> tuple[Tensor, State]:
        weight = next(self.parameters())
        batched = ("batch", "time") if self.batch_first else ("time", "batch")
        x, _, batch = checks.input("input", input, None, self.input_size, weight, batched, ("time",))
        if x.dtype not in (torch.float32, torch.float64):
            raise DtypeError(f"this network takes float32 or float64, got {x.dtype}")
        alone = not batch
        x = x[None] if alone else x if self.batch_first else x.transpose(0, 1)
        if hx is not None:
            parts = hx if isinstance(hx, tuple) else (hx,)
            if len(parts) != len(self.state_sizes):
                raise ShapeError(f"hx must be {len(self.state_sizes)} tensors, {self.state_sizes} wide, got {len(parts)}")
            like = weight.new_empty(0, dtype=weight.dtype.to_complex()) if self.state_is_complex else weight
            for part, size in zip(parts, self.state_sizes, strict=True):
                checks.state("hx", part, {"layers": self.num_layers, **batch, "hidden": size}, input, like)
            hx = _each(lambda part: part.unsqueeze(1), hx) if alone else hx
        output, h_n = self.scan(x, hx)
        if alone:
            return output[0], _each(lambda part: part.squeeze(1), h_n)
        return output if self.batch_first else output.transpose(0, 1), h_n

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}" + (f", num_layers={self.num_layers}" if self.num_layers > 1 else "")


def _each(change: Any, state: State) -> State:
    return tuple(change(part) for part in state) if isinstance(state, tuple) else change(state)


def glorot(*shape: int) -> nn.Parameter:
    """Returns a parameter that is uniform in +-sqrt(6 / (rows + columns))."""
    bound = (6 / (shape[-2] + shape[-1])) ** 0.5
    return uniform(*shape, bound=bound)


def uniform(*shape: int, bound: float) -> nn.Parameter:
    """Returns a parameter that is uniform in +-bound."""
    return nn.Parameter(torch.empty(shape).uniform_(-bound, bound))
