"""Residual blocks around `SRNN`, with the interface of `nn.GRU`: use it for best results; `SRNN` is the paper's layer.

    x  = W_in input                                            width numbers per step
    x <- x + dropout(GLU(W norm(SRNN(norm(x))) + V norm(x)))   once per layer; GLU(u, v) = u * sigmoid(v)
    output = W_out norm(x)                                     directions * H numbers per step, as from nn.GRU

Its SRNN differs from the paper's in four defaults, chosen with the programs of `srnn bench --swap` (docs/learning.md): f_r is
affine, states are clipped, the gate starts a little closed, and a quarter of the units keep their place. A unit that keeps its
place holds a value until something is written to it. A value in a unit that shifts is in another unit at every step. V lets the
present input choose what is read from the states: b is added to them, so that alone they could only be read as a whole.

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

GATE_INIT = -1.0  # what gate_init=None means here; the gate starts near sigmoid(-1) = 0.27
GAIN = 2.0  # times the first weights of f_r's output map


class ResidualBlock(nn.Module):
    """The parts of x + dropout(GLU(W norm(SRNN(norm(x))) + V norm(x))); `mix` computes what follows the SRNN."""

    def __init__(self, width: int, hidden_size: int, bias: bool, bidirectional: bool, **settings: Any) -> None:
        super().__init__()
        D, like = 2 if bidirectional else 1, {"bias": bias, "device": settings["device"], "dtype": settings["dtype"]}
        self.norm = nn.LayerNorm(width, **like)
        self.rnn = SRNN(width, hidden_size, bias=bias, batch_first=True, bidirectional=bidirectional, **settings)
        self.state_norm = nn.LayerNorm(D * hidden_size, **like)
        self.linear = nn.Linear(D * hidden_size, 2 * width, **like)
        self.direct = nn.Linear(width, 2 * width, **{**like, "bias": False})  # V; W has the bias of both
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

    def mix(self, x: Tensor, normed: Tensor, states: Tensor, dropout: float) -> Tensor:
        """Returns x + dropout(GLU(W norm(states) + V normed)), from x and normed [..., width] and states [..., D * H]."""
        read = self.linear(self.state_norm(states)) + self.direct(normed)
        return x + F.dropout(F.glu(read, dim=-1), dropout, self.training)


class SRNNStack(_Sequences):
    """Residual blocks of `SRNN` between an input map and an output map, to be used like `nn.GRU`.

    Use the output as its result: h_n holds the states of the SRNNs, which are from -1 to 1 with activation="clip". Maps start
    as `nn.Linear`, norms as `nn.LayerNorm`. The weights of f_r's output map are twice as large as the draw.

    Args:
        input_size: The number of inputs C.
        hidden_size: The number of units H.
        num_layers: The number of blocks.
        bias: Whether the linear maps and the norms have a bias.
        batch_first: Whether input and output are [N, T, ...] instead of [T, N, ...].
        dropout: The probability of dropout, in training, of each number that a block adds to x. Unlike in nn.GRU, the last or
            only block drops too. x itself is never dropped.
        bidirectional: Whether each SRNN also runs backwards in time.
        width: The numbers per step between the blocks. None is hidden_size // 2, at least 16.
        mlp: As in `SRNN`.
        gate: As in `SRNN`.
        gate_init: As in `SRNN`; None is -1.0.
        activation: As in `SRNN`.
        permutation: As in `SRNN`; "random" draws a permutation for each block.
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
        # The SRNN of a block checks what is explicit; it is not given ours where there is no bias of a gate to shift.
        start = GATE_INIT if gate_init is None and gate is True and bias else gate_init
        settings: Any = {"mlp": mlp, "gate": gate, "gate_init": start, "activation": activation, "permutation": permutation}
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
        x, states = self.encode(x), []
        for block, h_l in zip(self.blocks, h.split(1), strict=True):
            normed = block.norm(x)
            states.append(block.rnn.step(normed, h_l, reset))
            x = block.mix(x, normed, states[-1][0], self.dropout)
        return self.decode(self.norm(x)), torch.cat(states)

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
        table: Any = None if alphabet is None else self.encode(alphabet)
        y: Any = self.encode(x) if alphabet is None else None  # what passes through the blocks, [N, T, width]
        D, states = 2 if self.bidirectional else 1, []
        for k, (block, h) in enumerate(zip(self.blocks, h0.split(D), strict=True)):
            # The first SRNN is given symbols as they are, so that its b is made once for each of them and not at every step.
            normed = block.norm(table if y is None else y)
            inputs = {"input": x, "alphabet": normed} if y is None else {"input": normed}
            inputs |= {"hx": h, "lengths": ends, "reset": reset}
            is_end = bool(final) and k + 1 == self.num_layers
            if is_end and (D == 1 or final == "state"):
                outputs, h_n = None, block.rnn.final_state(**inputs)
            else:
                outputs, h_n = block.rnn(**inputs)
            states.append(h_n)
            if is_end and final == "state":
                return None, torch.cat(states)
            if y is None:
                y, normed = F.embedding(x.long(), table), F.embedding(x.long(), normed)
            if is_end:
                y, normed = _last(y, ends), _last(normed, ends)
                outputs = h_n[0] if outputs is None else _last(outputs, ends)
            y = block.mix(y, normed, outputs, self.dropout)
        output = self.decode(self.norm(y))
        if final:
            return None, (output if ends is None else output.masked_fill(ends[:, None] == 0, 0))[None]
        return output if padding is None else output.masked_fill(padding, 0), torch.cat(states)


def _last(x: Tensor, ends: Tensor | None) -> Tensor:
    """x [N, T, ...] at each row's last step, at its first for length 0, zeros where T is 0."""
    if x.shape[1] == 0:
        return x.sum(dim=1)
    return x[:, -1] if ends is None else x[torch.arange(len(x), device=x.device), (ends - 1).clamp(min=0)]
