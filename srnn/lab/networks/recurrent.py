"""Base class of the baseline layers: the call of nn.GRU with its checks, and initial weights."""

from typing import Any

import torch
from torch import Tensor, nn

from srnn.errors import DeviceError, DtypeError, ShapeError

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
        if input.dim() not in (2, 3) or input.shape[-1] != self.input_size:
            order = "batch, time" if self.batch_first else "time, batch"
            raise ShapeError(
                f"input must be [{order}, {self.input_size}], or [time, {self.input_size}] for one sequence; "
                f"got {tuple(input.shape)}"
            )
        if input.dtype != (dtype := next(self.parameters()).dtype):
            raise DtypeError(f"input must be {dtype}, as the parameters are; got {input.dtype}")
        if dtype not in (torch.float32, torch.float64):
            raise DtypeError(f"this network takes float32 or float64; got {dtype}")
        alone = input.dim() == 2
        x = input[None] if alone else input if self.batch_first else input.transpose(0, 1)
        if hx is not None:
            parts = hx if isinstance(hx, tuple) else (hx,)
            expected = [(self.num_layers, *(() if alone else (len(x),)), size) for size in self.state_sizes]
            if [tuple(part.shape) for part in parts] != expected:
                got = [tuple(part.shape) for part in parts]
                raise ShapeError(
                    f"hx must be {_joined(expected)} to go with input of shape {tuple(input.shape)}; got {_joined(got)}"
                )
            wanted = dtype.to_complex() if self.state_is_complex else dtype
            for part in parts:
                if part.dtype != wanted:
                    raise DtypeError(f"hx must be {wanted} to go with input of {dtype}; got {part.dtype}")
                if part.device != input.device:
                    raise DeviceError(f"hx must be on {input.device}, as input is; got {part.device}")
            hx = _each(lambda part: part.unsqueeze(1), hx) if alone else hx
        output, h_n = self.scan(x, hx)
        if alone:
            return output[0], _each(lambda part: part.squeeze(1), h_n)
        return output if self.batch_first else output.transpose(0, 1), h_n

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}" + (f", num_layers={self.num_layers}" if self.num_layers > 1 else "")


def _each(change: Any, state: State) -> State:
    return tuple(change(part) for part in state) if isinstance(state, tuple) else change(state)


def _joined(shapes: list[tuple[int, ...]]) -> str:
    return " and ".join(map(str, shapes))


def glorot(*shape: int) -> nn.Parameter:
    """Returns a parameter that is uniform in +-sqrt(6 / (rows + columns))."""
    bound = (6 / (shape[-2] + shape[-1])) ** 0.5
    return uniform(*shape, bound=bound)


def uniform(*shape: int, bound: float) -> nn.Parameter:
    """Returns a parameter that is uniform in +-bound."""
    return nn.Parameter(torch.empty(shape).uniform_(-bound, bound))
