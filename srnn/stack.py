"""Residual blocks around `SRNN`, with the interface of `nn.GRU`: use it for best results; `SRNN` is the paper's layer.

    x  = W_in input                                            width numbers per step
    x <- x + dropout(GLU(W norm(SRNN(norm(x))) + V near(x)))   once per layer; GLU(u, v) = u * sigmoid(v)
    output = W_out norm(x)                                     directions * H numbers per step, as from nn.GRU

near(x) is norm(x) with a part of the two norm(x) before it. V lets these choose what is read from the states: b is added to
them, so that alone they could only be read as a whole. And V sees which inputs follow each other, which no sum of b shows.

Its SRNN differs from the paper's in four defaults, chosen with the programs of `srnn bench --swap` (docs/learning.md): f_r is
affine, states are clipped, the gate starts closed as in `SRNN`, and half of the units keep their place. A unit that keeps its
place holds a value until something is written to it. A value in a unit that shifts is in another unit at every step.

The state of a block has H numbers. At most two quarters of it hold the parts of norm(x), the rest are units of its SRNN.

The maps read normalised states only, so the output is bounded by the weights for sequences of any length. A program that feeds
a plain SRNN with ReLU its own output can diverge: its states have no bound and can grow with the number of steps.

N sequences, T steps, C inputs, H units, V symbols, D directions.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import PackedSequence

from srnn import checks, tracing
from srnn.checks import Lengths
from srnn.errors import SettingError
from srnn.layer import SRNN, Device, _Sequences

DELAYS = 2  # how many steps of norm(x) a block looks back
GAIN = 2.0  # times the first weights of f_r's output map


class ResidualBlock(nn.Module):
    """The parts of x + dropout(GLU(W norm(SRNN(norm(x))) + V near(x))); `mix` computes what follows the SRNN.

    The state [..., H] is that of the SRNN, then the first `delayed` numbers of norm(x) one step ago, then two steps ago.
    """

    def __init__(self, width: int, hidden_size: int, bias: bool, bidirectional: bool, **settings: Any) -> None:
        super().__init__()
        D, like = 2 if bidirectional else 1, {"bias": bias, "device": settings["device"], "dtype": settings["dtype"]}
        self.delayed = min(width, hidden_size // 4)
        units = hidden_size - DELAYS * self.delayed
        self.norm = nn.LayerNorm(width, **like)
        self.rnn = SRNN(width, units, bias=bias, batch_first=True, bidirectional=bidirectional, **settings)
        self.state_norm = nn.LayerNorm(D * units, **like)
        self.linear = nn.Linear(D * units, 2 * width, **like)
        # V; W has the bias of both
        self.direct = nn.Linear(width + D * DELAYS * self.delayed, 2 * width, **{**like, "bias": False})
        self._strengthen()

    def reset_parameters(self) -> None:
        """Draws weights and biases again, as at construction."""
        for part in (self.norm, self.rnn, self.state_norm, self.linear, self.direct):
            part.reset_parameters()
        self._strengthen()

    def _strengthen(self) -> None:
        with torch.no_grad():
            for b in self.rnn.b:
                b.linear.weight.mul_(GAIN)

    def split(self, h: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the parts of a state [..., H]: that of the SRNN, and the delayed numbers [..., DELAYS, delayed]."""
        units = self.rnn.hidden_size
        return h[..., :units].contiguous(), h[..., units:].unflatten(-1, (DELAYS, self.delayed))

    def near(self, normed: Tensor, held: Tensor, ends: Tensor | None, reset: Tensor | None) -> tuple[Tensor, Tensor]:
        """Returns norm(x) [N, T, width] with the steps before (after, in the reverse direction), and what is held at the end.

        held is [D, N, DELAYS, delayed], before the first step and after the last.
        """
        near, held_n = [normed], []
        for direction in range(len(held)):
            x = normed[..., : self.delayed]
            for first in held[direction].unbind(dim=1):
                x, last = _delay(x, first, ends, reset, reverse=direction == 1)
                near.append(x)
                held_n.append(last)
        return torch.cat(near, dim=-1), torch.stack(held_n).unflatten(0, (len(held), DELAYS)).transpose(1, 2)

    def mix(self, x: Tensor, near: Tensor, states: Tensor, dropout: float) -> Tensor:
        """Returns x + dropout(GLU(W norm(states) + V near)), from x [..., width] and the SRNN's states [..., D * units]."""
        read = self.linear(self.state_norm(states)) + self.direct(near)
        return x + F.dropout(F.glu(read, dim=-1), dropout, self.training)


class SRNNStack(_Sequences):
    """Residual blocks of `SRNN` between an input map and an output map, to be used like `nn.GRU`.

    Use the output as its result: h_n holds the states of the SRNNs, which are from -1 to 1 with activation="clip", and parts of
    the last two inputs of each block. Maps start as `nn.Linear`, norms as `nn.LayerNorm`. The weights of f_r's output map are
    twice as large as the draw.

    Args:
        input_size: The number of inputs C.
        hidden_size: The numbers of a block's state H. Its SRNN has H - 2 min(width, H // 4) units.
        num_layers: The number of blocks.
        bias: Whether the linear maps and the norms have a bias.
        batch_first: Whether input and output are [N, T, ...] instead of [T, N, ...].
        dropout: The probability of dropout, in training, of each number that a block adds to x. Unlike in nn.GRU, the last or
            only block drops too. x itself is never dropped.
        bidirectional: Whether each SRNN also runs backwards in time.
        width: The numbers per step between the blocks. None is hidden_size // 2, at least 16.
        mlp: As in `SRNN`.
        gate: As in `SRNN`.
        gate_init: As in `SRNN`.
        activation: As in `SRNN`.
        permutation: As in `SRNN`, of the units of an SRNN; "random" draws a permutation for each block.
        device: The device of the weights.
        dtype: The dtype of the weights.
    """

    blocks: Any  # nn.ModuleList of ResidualBlock

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 2,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        *,
        width: int | None = None,
        mlp: Sequence[int] = (),
        gate: bool = True,
        gate_init: float | None = None,
        activation: str = "clip",
        permutation: str | Tensor = "partial",
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        checks.sizes(input_size=input_size, hidden_size=hidden_size, num_layers=num_layers)
        # Products with W and the gate, of width * H weights, are nearly all of the cost, and states are cheap. At half of
        # hidden_size two blocks cost about as much as one layer of nn.GRU. A norm of a few numbers would lose most of them.
        width = max(16, hidden_size // 2) if width is None else width
        checks.sizes(width=width)
        checks.flags(bias=bias, batch_first=batch_first, bidirectional=bidirectional)
        checks.floating(dtype)
        self.input_size, self.hidden_size, self.num_layers, self.width = input_size, hidden_size, num_layers, width
        self.bias, self.batch_first, self.bidirectional = bias, batch_first, bidirectional
        self.dropout = checks.probability("dropout", dropout)
        settings: Any = {"mlp": mlp, "gate": gate, "gate_init": gate_init, "activation": activation, "permutation": permutation}
        like: Any = {"bias": bias, "device": device, "dtype": dtype}
        self.encode = nn.Linear(input_size, width, **like)
        self.blocks = nn.ModuleList(
            ResidualBlock(width, hidden_size, bidirectional=bidirectional, **settings, **like) for _ in range(num_layers)
        )
        self.norm = nn.LayerNorm(width, **like)
        self.decode = nn.Linear(width, (2 if bidirectional else 1) * hidden_size, **like)
        rnn = self.blocks[0].rnn
        self.mlp, self.gate, self.activation = rnn.mlp, rnn.gate, rnn.activation
        self.gate_init = None if gate_init is None else rnn.gate_init
        self._permutation_name = rnn._permutation_name

    def final_output(
        self,
        input: Tensor | PackedSequence,
        hx: Tensor | None = None,
        *,
        lengths: Lengths | None = None,
        alphabet: Tensor | None = None,
        reset: Tensor | PackedSequence | None = None,
    ) -> Tensor:
        """Returns the output of `forward` at each row's last step, [N, D * H]: output[n, lengths[n] - 1]. Zeros for length 0.

        Without N for one sequence. In one direction the last block never holds its states, except with tanh. In both
        directions the reverse part of the last block has seen one step by then; the blocks below it have seen all.
        """
        if tracing.is_traced(input, hx):
            return tracing.node(self, "final_output", input, hx, lengths=lengths, alphabet=alphabet, reset=reset)
        return self._run(input, hx, lengths, alphabet, reset, final="output")[1][0]

    def step(self, x: Tensor, h: Tensor | None = None, reset: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Runs one step in time.

        Args:
            x: The input [N, C], or [C] for one sequence.
            h: The state [layers, N, H], without N for one sequence; None is zeros.
            reset: Booleans [N]: rows whose h is taken as zeros.

        Returns:
            The output [N, H] and the next state, shaped like h.
        """
        if tracing.is_traced(x, h):
            return tracing.node(self, "step", x, h, reset=reset)
        if self.bidirectional:
            raise SettingError("step goes forward in time. Call a bidirectional layer on whole sequences")
        x, _, batch = self._input("x", x, None, ("batch",), ())
        h = self._state("h", h, {"layers": self.num_layers}, batch, x)
        if reset is not None:
            h = h.masked_fill(checks.reset(reset, x.shape[:-1], x)[..., None], 0)
        x, states = self.encode(x), []
        for block, h_l in zip(self.blocks, h.unbind(), strict=True):
            normed, (state, held) = block.norm(x), block.split(h_l)
            state = block.rnn.step(normed, state[None])[0]
            near = torch.cat([normed, held.flatten(-2)], dim=-1)
            x = block.mix(x, near, state, self.dropout)
            # The newest numbers are first, and the oldest are dropped.
            states.append(torch.cat([state, normed[..., : block.delayed], held[..., :-1, :].flatten(-2)], dim=-1))
        return self.decode(self.norm(x)), torch.stack(states)

    def reset_parameters(self) -> None:
        """Draws weights and biases again, as at construction. Permutations do not change."""
        for part in (self.encode, *self.blocks, self.norm, self.decode):
            part.reset_parameters()

    @property
    def all_weights(self) -> list[list[nn.Parameter]]:
        """Returns the parameters of each block."""
        return [list(block.parameters()) for block in self.blocks]

    @property
    def _weight(self) -> Tensor:
        return self.blocks[0].rnn._weight

    def _scan(
        self, x: Tensor, h0: Tensor, ends: Tensor | None, alphabet: Tensor | None, reset: Tensor | None, final: str
    ) -> tuple[Any, Tensor]:
        """The blocks in turn, on input [N, T, C] or symbols [N, T], from h0 [layers * D, N, H]: output and states.

        With final="state" only the states, with final="output" only the output at the last step, as [1, N, D * H].
        """
        if ends is None and x.shape[1] == 0:
            ends = x.new_zeros(len(x), dtype=torch.int64)
        padding = None
        if ends is not None:  # padding may hold anything, even NaN, which would reach the weights' gradients as 0 * NaN
            padding = (torch.arange(x.shape[1], device=x.device) >= ends[:, None])[..., None]
            x = x.masked_fill(padding if alphabet is None else padding[..., 0], 0)
            reset = None if reset is None else reset & ~padding[..., 0]
        table: Any = None if alphabet is None else self.encode(alphabet)
        y: Any = self.encode(x) if alphabet is None else None  # what passes through the blocks, [N, T, width]
        D, states = 2 if self.bidirectional else 1, []
        for k, (block, h) in enumerate(zip(self.blocks, h0.split(D), strict=True)):
            # The first SRNN is given symbols as they are, so that its b is made once for each of them and not at every step.
            normed = block.norm(table if y is None else y)
            inputs = {"input": x, "alphabet": normed} if y is None else {"input": normed}
            h, held = block.split(h)
            inputs |= {"hx": h, "lengths": ends, "reset": reset}
            is_end = bool(final) and k + 1 == self.num_layers
            if is_end and (D == 1 or final == "state"):
                outputs, h = None, block.rnn.final_state(**inputs)
            else:
                outputs, h = block.rnn(**inputs)
            if y is None:
                y, normed = F.embedding(x.long(), table), F.embedding(x.long(), normed)
            near, held = block.near(normed, held, ends, reset)
            states.append(torch.cat([h, held.flatten(-2)], dim=-1))
            if is_end and final == "state":
                return None, torch.cat(states)
            if is_end:
                y, near = _last(y, ends), _last(near, ends)
                outputs = h[0] if outputs is None else _last(outputs, ends)
            y = block.mix(y, near, outputs, self.dropout)
        output = self.decode(self.norm(y))
        if final:
            return None, (output if ends is None else output.masked_fill(ends[:, None] == 0, 0))[None]
        return output if padding is None else output.masked_fill(padding, 0), torch.cat(states)


def _last(x: Tensor, ends: Tensor | None) -> Tensor:
    """x [N, T, ...] at each row's last step, at its first for length 0, zeros where T is 0."""
    if x.shape[1] == 0:
        return x.sum(dim=1)
    return x[:, -1] if ends is None else x[torch.arange(x.shape[0], device=x.device), (ends - 1).clamp(min=0)]


def _delay(x: Tensor, first: Tensor, ends: Tensor | None, reset: Tensor | None, reverse: bool) -> tuple[Tensor, Tensor]:
    """x [N, T, k] one step later, or earlier with `reverse`, from what is held first [N, k]; and what is held at the end."""
    held = first[:, None]
    if reverse:
        x = torch.cat([x, held], dim=1)
        if ends is not None:
            x = torch.where((torch.arange(x.shape[1], device=x.device) == ends[:, None])[..., None], held, x)
        # The border that a step crosses is that of the step after it. Padded first: a graph may have no slice of T - 1 steps.
        moved, last, cut = x[:, 1:], x[:, 0], None if reset is None else F.pad(reset, (0, 1))[:, 1:]
    else:
        x = torch.cat([held, x], dim=1)
        moved, last, cut = x[:, :-1], x[:, -1] if ends is None else x[torch.arange(x.shape[0], device=x.device), ends], reset
    return moved if cut is None else moved.masked_fill(cut[..., None], 0), last
