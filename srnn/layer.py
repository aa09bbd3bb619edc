"""The layer of "Shuffling Recurrent Neural Networks" (Rotman and Wolf, 2020), with the call of `nn.GRU`.

    h_t  = sigma(P h_{t-1} + b(x_t))            P a fixed permutation of the units, sigma ReLU, tanh or clip
    b(x) = f_r(x) * sigmoid(W_s x + b_s)        f_r an MLP with ReLU; the second factor, the gate, can be left out

P is the shift, (P h)_i = h_{i+1}, unless another is asked for. b needs no state, so it is computed for all steps at once, by
matrix products; all that is left to do step by step is an addition and a sigma per unit, the work of `kernels`.

N sequences, T steps, C inputs, H units, V symbols.
"""

import inspect
import warnings
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from srnn import check, kernels
from srnn.check import Extents, Lengths
from srnn.errors import LengthError, SettingError, SettingTypeError, one_of

PERMUTATIONS = ("shift", "identity", "random")
GATE_INIT = 0.0  # what gate_init=None means where there is a gate with a bias; docs/learning.md has the study

Device = torch.device | str | int | None


class HiddenLayers(nn.Sequential):
    """Linear maps, each followed by ReLU."""

    def forward(self, x: Tensor) -> Tensor:
        maps = list(self)
        for linear, relu in zip(maps[::2], maps[1::2], strict=True):
            x = linear(x)
            # In place, for half the memory: the derivative of a linear map does not need the map's output, but a hook might.
            x = x.relu_() if _is_plain(linear, nn.Linear) and _is_plain(relu, nn.ReLU) else relu(x)
        return x


class InputNetwork(nn.Module):
    """b(x) = f_r(x) * sigmoid(W_s x + b_s), from [..., C] to [..., H]: f_r(x) is linear(mlp(x)), W_s x + b_s is gate(x)."""

    def __init__(
        self,
        C: int,
        H: int,
        mlp: Sequence[int],
        gate: bool,
        bias: bool,
        gate_init: float,
        device: Device,
        dtype: torch.dtype | None,
    ) -> None:
        super().__init__()
        linear = partial(nn.Linear, bias=bias, device=device, dtype=dtype)
        widths = (C, *mlp)
        self.mlp = HiddenLayers(*(part for m, n in pairwise(widths) for part in (linear(m, n), nn.ReLU())))
        self.linear = linear(widths[-1], H)
        self.gate = linear(C, H) if gate else None
        self.gate_init = gate_init
        self._shift_gate()

    def reset_parameters(self) -> None:
        """Draws all weights and biases again, with the gate's bias shifted by gate_init."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                module.reset_parameters()
        self._shift_gate()

    def _shift_gate(self) -> None:
        if self.gate is not None and self.gate_init:
            with torch.no_grad():
                self.gate.bias.add_(self.gate_init)

    def forward(self, x: Tensor) -> Tensor:
        f_r: Tensor = self.linear(self.mlp(x))
        return f_r if self.gate is None else f_r * torch.sigmoid(self.gate(x))

    def scan(self, x: Tensor, h0: Tensor, alphabet: Tensor | None, final: bool, **how: Any) -> tuple[Any, Tensor]:
        """The states [N, T, H] (None with `final`) and the last ones [N, H]."""
        if alphabet is not None:  # x [N, T] are symbols: b of each that there is, not of each that comes
            table = self(alphabet)
            if final:
                return None, kernels.scan_final(table, h0, ids=x, **how)
            return kernels.scan_states(table, h0, ids=x, **how)
        maps = (self.linear,) if self.gate is None else (self.linear, self.gate)
        if not all(_is_plain(linear, nn.Linear) for linear in maps):  # pruned, hooked or replaced: then it is to be called
            b = self(x)
            return (None, kernels.scan_final(b, h0, **how)) if final else kernels.scan_states(b, h0, **how)
        W, c = _weights(self.linear, x.dtype)
        W_s, b_s = _weights(self.gate, x.dtype)
        # Flat, since a ReLU in place on a view of a product would be copied, forward and back.
        z = self.mlp(x.flatten(0, 1)).unflatten(0, x.shape[:2])
        return kernels.gated_scan(z, W, c, x, W_s, b_s, h0, final=final, **how)


class _Recurrent(nn.Module):
    """The forms of input that `nn.GRU` takes, checked and brought into one: what `SRNN` and `SRNNStack` share."""

    input_size: int
    hidden_size: int
    num_layers: int
    batch_first: bool
    bidirectional: bool
    _permutation_name: str

    @property
    def _weight(self) -> Tensor:
        """One of the weights, for the device and the dtype of all."""
        raise NotImplementedError

    def _scan(self, x: Tensor, h0: Tensor, ends: Tensor | None, alphabet: Tensor | None, final: Any) -> tuple[Any, Tensor]:
        """Output [N, T, directions * H] (None with `final`) and states, from x [N, T, C] or symbols [N, T]."""
        raise NotImplementedError

    def extra_repr(self) -> str:
        """The sizes, and whatever was not left at its default."""
        shown = [f"{self.input_size}, {self.hidden_size}"]
        for name, setting in inspect.signature(type(self)).parameters.items():
            value = self._permutation_name if name == "permutation" else getattr(self, name, setting.default)
            if setting.default not in (setting.empty, value):
                shown.append(f"{name}={value!r}")
        return ", ".join(shown)

    def _input(
        self, name: str, x: Tensor, alphabet: Tensor | None, *forms: tuple[str, ...]
    ) -> tuple[Tensor, Tensor | None, Extents]:
        return check.input(name, x, alphabet, self.input_size, self._weight, *forms)

    def _state(self, name: str, h: Tensor | None, layers: Extents, batch: Extents, x: Tensor) -> Tensor:
        return check.state(name, h, {**layers, **batch, "hidden": self.hidden_size}, x, self._weight)

    def _run(
        self,
        input: Tensor | PackedSequence,
        hx: Tensor | None,
        lengths: Lengths | None,
        alphabet: Tensor | None,
        final: bool | str,
    ) -> tuple[Any, Tensor]:
        """Checks everything, brings it into the form [N, T, C] or [N, T], scans, and brings the result back.

        `final`, passed to the scan, says that only the second result is wanted, [..., N, H]; the first is then None.
        """
        layers = {"layers * directions": self.num_layers * (2 if self.bidirectional else 1)}
        if isinstance(input, PackedSequence):
            if lengths is not None:
                raise LengthError("a PackedSequence has lengths of its own; leave out lengths=")
            data, sizes, order, back = input
            data, alphabet, _ = self._input("the data of input", data, alphabet, ("steps",))
            h0 = self._state("hx", hx, layers, {"batch": int(sizes[0])}, data)
            x, steps = pad_packed_sequence(PackedSequence(data, sizes), batch_first=True)  # rows stay in the order of length
            output, h_n = self._scan(x, _select(h0, order), steps.to(x.device), alphabet, final)
            if not final:
                output = PackedSequence(pack_padded_sequence(output, steps, batch_first=True).data, sizes, order, back)
            return output, _select(h_n, back)

        batched = ("batch", "time") if self.batch_first else ("time", "batch")
        x, alphabet, batch = self._input("input", input, alphabet, batched, ("time",))
        h0 = self._state("hx", hx, layers, batch, input)
        ends = None if lengths is None else check.lengths(lengths, batch, input)
        if not batch:
            output, h_n = self._scan(x[None], h0[:, None], ends, alphabet, final)
            return None if final else output[0], h_n[:, 0]
        if self.batch_first:
            return self._scan(x, h0, ends, alphabet, final)
        output, h_n = self._scan(x.transpose(0, 1), h0, ends, alphabet, final)
        return None if final else output.transpose(0, 1).contiguous(), h_n  # programs written for nn.GRU call .view on it


class _Shuffling(_Recurrent):
    """What layer and cell share: the settings, one b per layer and direction, P and sigma."""

    b: Any  # nn.ModuleList of InputNetwork, in the order of h_n
    permutation: Tensor | None

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int,
        directions: int,
        mlp: Sequence[int],
        gate: bool,
        activation: str,
        bias: bool,
        gate_init: float | None,
        permutation: str | Tensor,
        device: Device,
        dtype: torch.dtype | None,
    ) -> None:
        super().__init__()
        if not isinstance(mlp, Sequence):
            raise SettingTypeError(f"mlp must be the widths of the hidden layers of f_r, such as (32, 32); got {mlp!r}")
        check.sizes(input_size=input_size, hidden_size=hidden_size, num_layers=num_layers)
        check.sizes(**{f"mlp[{i}]": width for i, width in enumerate(mlp)})
        check.flags(gate=gate, bias=bias)
        check.floating(dtype)
        if activation not in kernels.ACTIVATIONS:
            raise one_of("activation", activation, kernels.ACTIVATIONS)
        self.input_size, self.hidden_size = input_size, hidden_size
        self.mlp, self.gate, self.activation, self.bias = tuple(mlp), gate, activation, bias
        self.gate_init = check.gate_init(gate_init, gate, bias)
        shift = 0.0 if not (gate and bias) else GATE_INIT if self.gate_init is None else self.gate_init
        widths = [input_size] * directions + [directions * hidden_size] * directions * (num_layers - 1)
        self.b = nn.ModuleList(InputNetwork(C, hidden_size, mlp, gate, bias, shift, device, dtype) for C in widths)
        # Drawn after the weights, which are then the same for every permutation. Names that say all stay out of the
        # state_dict; an index that was drawn or given is part of it.
        name = self._permutation_name = permutation if isinstance(permutation, str) else "given"
        index = _index(permutation, hidden_size, self._weight.device)
        self.register_buffer("permutation", index, persistent=name not in ("shift", "identity"))

    def reset_parameters(self) -> None:
        """Draws weights and biases again, as at construction. The permutation stays."""
        for b in self.b:
            b.reset_parameters()

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        """`to_empty` leaves what no state_dict brings back to us."""
        super()._apply(fn, recurse)
        if self._permutation_name == "identity" and self.permutation is not None:
            self.permutation = _index("identity", self.hidden_size, self.permutation.device)
        return self

    @property
    def _weight(self) -> Tensor:
        """One of the weights, for the device and the dtype of all."""
        weight = self.b[0].linear.weight  # not next(self.parameters()): replicas of nn.DataParallel have none
        return weight if isinstance(weight, Tensor) else torch.empty(0)  # quantised: float32 on the CPU goes in and comes out

    def _step(self, b: InputNetwork, x: Tensor, h: Tensor) -> Tensor:
        """h_t = sigma(P h_{t-1} + b(x_t)), the equation itself."""
        P_h = h.roll(-1, dims=-1) if self.permutation is None else h.index_select(-1, self.permutation)
        return kernels.ACTIVATIONS[self.activation](P_h + b(x))


class SRNN(_Shuffling):
    """One or more layers of h_t = sigma(P h_{t-1} + b(x_t)), to be used like `nn.GRU`.

    mlp             widths of the hidden layers of f_r; with () it is affine
    gate            whether b has the factor sigmoid(W_s x + b_s)
    gate_init       added to the first draw of b_s. Below 0 the gate starts closed, so that units keep what they hold until
                    training opens it; 0.0 is the paper's start. None is the library's default
    activation      sigma: "relu"; "clip", which keeps states in [-1, 1] and is as fast; or "tanh"
    bias            whether the linear maps of b have one
    dropout         probability, between layers, in training
    permutation     P: "shift", "identity", "random" (drawn here from torch's generator and kept in the state_dict), or an index
                    tensor, (P h)_i = h[permutation[i]]. Units keep their numbers in all that goes in and comes out
    The rest is as in `nn.GRU`; initialisation is that of `nn.Linear`.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        *,
        mlp: Sequence[int] = (64,),
        gate: bool = True,
        gate_init: float | None = None,
        activation: str = "relu",
        permutation: str | Tensor = "shift",
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        check.flags(batch_first=batch_first, bidirectional=bidirectional)
        dropout = check.probability("dropout", dropout)
        directions = 2 if bidirectional else 1
        super().__init__(
            input_size,
            hidden_size,
            num_layers,
            directions,
            mlp,
            gate,
            activation,
            bias,
            gate_init,
            permutation,
            device,
            dtype,
        )
        self.num_layers, self.batch_first, self.dropout, self.bidirectional = num_layers, batch_first, dropout, bidirectional
        if dropout > 0 and num_layers == 1:
            warnings.warn(f"dropout acts between layers; {dropout=} does nothing with num_layers=1", stacklevel=2)

    def forward(
        self,
        input: Tensor | PackedSequence,
        hx: Tensor | None = None,
        *,
        lengths: Lengths | None = None,
        alphabet: Tensor | None = None,
    ) -> tuple[Any, Tensor]:
        """All states of the last layer, and the last state of every layer and direction: (output, h_n).

        input       [T, N, C], with batch_first [N, T, C]; one sequence [T, C]; or a PackedSequence
        hx, h_n     [layers * directions, N, H], without N for one sequence; hx=None is zeros
        output      like input, directions * H wide
        lengths     [N], a number for one sequence: steps from there on are not looked at, and output is 0 there. h_n is the
                    state after a row's last step (hx for length 0), and the reverse direction starts at that step
        alphabet    [V, C]: input then holds symbols, integers s from 0 to V - 1 that stand for alphabet[s]; the same result,
                    sooner where V is less than N * T. For an embedding, alphabet=embedding.weight
        """
        return self._run(input, hx, lengths, alphabet, final=False)

    def final_state(
        self,
        input: Tensor | PackedSequence,
        hx: Tensor | None = None,
        *,
        lengths: Lengths | None = None,
        alphabet: Tensor | None = None,
    ) -> Tensor:
        """The h_n of `forward`; with ReLU the last layer never holds its states.

        Compiled and in float32, b is made for a few sequences at a time (four, more where they are short), elsewhere for all.
        """
        return self._run(input, hx, lengths, alphabet, final=True)[1]

    def step(self, x_t: Tensor, h: Tensor | None = None) -> Tensor:
        """One step in time: x_t [N, C] and h [layers, N, H] give the next h. Without N for one sequence; h=None is zeros."""
        if self.bidirectional:
            raise SettingError("step goes forward in time; a bidirectional layer must be called on whole sequences")
        x, _, batch = self._input("x_t", x_t, None, ("batch",), ())
        h = self._state("h", h, {"layers": self.num_layers}, batch, x_t)
        states: list[Tensor] = []
        for b, h_l in zip(self.b, h, strict=True):
            x = self._drop(states[-1]) if states else x
            states.append(self._step(b, x, h_l))
        return torch.stack(states)

    def flatten_parameters(self) -> None:
        """Does nothing; here because programs written for `nn.GRU` call it."""

    def _scan(self, x: Tensor, h0: Tensor, ends: Tensor | None, alphabet: Tensor | None, final: bool) -> tuple[Any, Tensor]:
        """The layers in turn, on x [N, T, C] or symbols [N, T], from h0 [layers * directions, N, H]."""
        if ends is not None:  # padding may hold anything, even NaN, which would reach the weights' gradients as 0 * NaN
            padding = torch.arange(x.shape[1], device=x.device) >= ends[:, None]
            x = x.masked_fill(padding if alphabet is not None else padding[..., None], 0)
        x, D, states = x.contiguous(), 2 if self.bidirectional else 1, []
        how = {"permutation": self.permutation, "lengths": ends, "activation": self.activation}
        for first in range(0, len(self.b), D):
            last = first + D == len(self.b)
            scans = [
                self.b[k].scan(x, h0[k], alphabet, final and last, reverse=k > first, **how) for k in range(first, first + D)
            ]
            states += [h for _, h in scans]
            if not (final and last):
                x = scans[0][0] if D == 1 else torch.cat([output for output, _ in scans], dim=-1)
            if not last:
                x, alphabet = self._drop(x), None
        return None if final else x, torch.stack(states)

    def _drop(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.dropout, self.training) if self.dropout else x


class SRNNCell(_Shuffling):
    """One step of the layer, to be used like `nn.GRUCell`: cell(x, h) = sigma(P h + b(x)).

    The settings are those of `SRNN`; the state_dict is that of an `SRNN` with one layer.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        *,
        mlp: Sequence[int] = (64,),
        gate: bool = True,
        gate_init: float | None = None,
        activation: str = "relu",
        permutation: str | Tensor = "shift",
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, 1, 1, mlp, gate, activation, bias, gate_init, permutation, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """input [N, C] and hx [N, H] give the next state. Without N for one sequence. hx=None is zeros."""
        x, _, batch = self._input("input", input, None, ("batch",), ())
        h = self._state("hx", hx, {}, batch, x)
        return self._step(self.b[0], x, h)


def _select(h: Tensor, rows: Tensor | None) -> Tensor:
    return h if rows is None else h.index_select(1, rows)


def _is_plain(module: nn.Module, kind: type[nn.Module]) -> bool:
    """Whether it is of this kind, and nobody wants to know of its calls."""
    hooks = module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or module._backward_pre_hooks
    return type(module) is kind and not hooks and "forward" not in vars(module)


def _weights(linear: nn.Linear | None, dtype: torch.dtype) -> tuple[Any, Any]:
    """Weight and bias in this dtype; None for what is not there."""
    if linear is None:
        return None, None
    return linear.weight.to(dtype), None if linear.bias is None else linear.bias.to(dtype)


def _index(permutation: str | Tensor, H: int, device: torch.device) -> Tensor | None:
    """Where P takes each unit from, (P h)_i = h[index[i]]; None is the shift, which the kernels know by themselves."""
    if isinstance(permutation, Tensor):
        return check.permutation(permutation, H).to(device)
    if not isinstance(permutation, str):
        raise SettingTypeError(f"permutation must be {', '.join(PERMUTATIONS)} or an index tensor; got {permutation!r}")
    if permutation not in PERMUTATIONS:
        raise one_of("permutation", permutation, PERMUTATIONS)
    if permutation == "shift":
        return None
    # On the CPU whatever the device is, so that a seed means one permutation.
    return (torch.randperm if permutation == "random" else torch.arange)(H, device="cpu").to(device)
