"""The layer of "Shuffling Recurrent Neural Networks" (Rotman and Wolf, 2020), with the interface of `nn.GRU`.

    h_t  = sigma(P h_{t-1} + b(x_t))            P is a fixed permutation of the units; sigma is ReLU, tanh or clip
    b(x) = f_r(x) * sigmoid(W_s x + b_s)        f_r is an MLP with ReLU; the second factor, the gate, is optional

By default P is the shift, (P h)_i = h_{i+1}. b needs no state, so it is computed for all steps at once by matrix products. Only
an addition and a sigma per unit are left to do step by step, in `kernels`.

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
from torch._subclasses import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.nn import functional as F
from torch.nn.modules.module import _has_any_global_hook
from torch.nn.utils.rnn import PackedSequence
from torch.utils._python_dispatch import is_in_torch_dispatch_mode

from srnn import checks, kernels, tracing
from srnn.checks import Extents, Lengths
from srnn.errors import LengthError, SettingError, SettingTypeError, one_of

PERMUTATIONS = ("shift", "partial", "identity", "random")
STORED = ("random", "given")  # permutations that a state_dict must hold; the others follow from their name
GATE_INIT = -2.0  # what gate_init=None means where there is a gate with a bias; docs/learning.md has the study
# Weights of these classes can be given to our operators: the last two are what torch.export puts in their place.
ORDINARY = frozenset((Tensor, nn.Parameter, FakeTensor, FunctionalTensor, type(None)))

Device = torch.device | str | int | None


class HiddenLayers(nn.Sequential):
    """Linear maps, each followed by ReLU."""

    def forward(self, x: Tensor) -> Tensor:
        """Applies all maps to x [..., C]."""
        maps = list(self)
        for linear, relu in zip(maps[::2], maps[1::2], strict=True):
            x = linear(x)
            # In place, for half the memory: the derivative of a linear map does not need the map's output, but a hook might,
            # and so might a dispatch mode, such as that of selective activation checkpointing.
            unseen = torch.compiler.is_compiling() or not is_in_torch_dispatch_mode()
            x = x.relu_() if unseen and _is_plain(linear, nn.Linear) and _is_plain(relu, nn.ReLU) else relu(x)
        return x


class InputNetwork(nn.Module):
    """b(x) = f_r(x) * sigmoid(W_s x + b_s), from [..., C] to [..., H]: f_r(x) is linear(mlp(x)), W_s x + b_s is gate(x)."""

    gate: nn.Linear | None

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
        self.register_module("gate", linear(C, H) if gate else None)
        self.has_bias, self.gate_init = bias, gate_init
        self._shift_gate()

    def reset_parameters(self) -> None:
        """Draws all weights and biases again, and shifts the gate's bias by gate_init."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                module.reset_parameters()
        self._shift_gate()

    def _shift_gate(self) -> None:
        if self.gate is not None and self.gate_init:
            with torch.no_grad():
                self.gate.bias.add_(self.gate_init)

    def forward(self, x: Tensor) -> Tensor:
        """Returns b(x) [..., H] for x [..., C]."""
        f_r: Tensor = self.linear(self.mlp(x))
        return f_r if self.gate is None else f_r * torch.sigmoid(self.gate(x))

    def step(self, x: Tensor, h: Tensor, permutation: Tensor | None, activation: str) -> Tensor:
        """Returns h_t = sigma(P h_{t-1} + b(x_t)), the equation itself, for x [..., C] and h [..., H]."""
        maps = self._maps() if kernels.takes_cell(x) else None
        if maps is not None:
            return kernels.cell(x, h, maps, permutation, self._modules["gate"] is not None, self.has_bias, activation)
        P_h = h.roll(-1, dims=-1) if permutation is None else h.index_select(-1, permutation)
        return kernels.ACTIVATIONS[activation].function(P_h + self(x))

    def quick_step(self, x: Tensor, h: Tensor, permutation: Tensor | None, activation: str) -> Tensor | None:
        """`step` for input that needs no further check; None if it needs one, or if modules must be called."""
        if not kernels.takes_cell(x) or torch.is_autocast_enabled("cpu"):
            return None
        maps = self._maps()
        if maps is None or not (x.dtype == h.dtype == maps[0].dtype and h.is_cpu and maps[0].is_cpu):
            return None
        return kernels.cell(x, h, maps, permutation, self._modules["gate"] is not None, self.has_bias, activation)

    def _maps(self) -> list[Tensor] | None:
        """Weights and biases of f_r's maps and the gate's, for one operator; None if a module must be called itself."""
        parts: Any = self._modules  # attributes of nn.Module are slow, compared with a step
        hidden = parts["mlp"]
        if not (_is_plain(self, InputNetwork) and _is_plain(hidden, HiddenLayers)):
            return None
        found: list[Tensor] = []
        for module in (*hidden._modules.values(), parts["linear"], parts["gate"]):
            if type(module) is nn.Linear and _is_plain(module, nn.Linear):
                weight, bias = module._parameters.get("weight"), module._parameters.get("bias")
                if weight is None or (bias is not None) != self.has_bias:  # pruned, or without its bias
                    return None
                found += [weight] if bias is None else [weight, bias]
            elif module is not None and not _is_plain(module, nn.ReLU):
                return None
        return found

    def _is_plain(self) -> bool:
        """True if an operator may read the weights of linear and gate, so that the two need not be called as modules."""
        gate_is_plain = self.gate is None or _is_plain(self.gate, nn.Linear)
        return gate_is_plain and _is_plain(self.linear, nn.Linear) and _is_plain(self, InputNetwork)

    def scan(self, x: Tensor, h0: Tensor, alphabet: Tensor | None, final: bool, **how: Any) -> tuple[Any, Tensor]:
        """Returns the states [N, T, H] (None with `final`) and the last ones [N, H]."""
        if kernels.takes_cell(x) and x.shape[1] == 1 and how["lengths"] is how["reset"] is alphabet is None:
            h = self.step(x[:, 0], h0, how["permutation"], how["activation"])
            return h[:, None], h
        if alphabet is not None:  # x [N, T] are symbols: b once per symbol, not once per step
            return kernels.scan(self(alphabet), h0, ids=x, final=final, **how)
        if not self._is_plain():  # then the maps must be called as modules
            return kernels.scan(self(x), h0, final=final, **how)
        W, c = _weights(self.linear, x.dtype)
        W_s, b_s = _weights(self.gate, x.dtype)
        # Flat, since a ReLU in place on a view of a product would be copied, forward and back. An empty mlp gives x itself: the
        # strides of the two views would bind an exported graph to lengths of at least 1, which torch cannot express.
        is_empty = len(self.mlp) == 0 and _is_plain(self.mlp, HiddenLayers)
        z = x if is_empty else self.mlp(x.flatten(0, 1)).unflatten(0, x.shape[:2])
        return kernels.gated_scan(z, W, c, x, W_s, b_s, h0, final=final, **how)


class _Recurrent(nn.Module):
    """What `SRNN`, `SRNNCell` and `SRNNStack` share: checks of input and state, and how they look to tracers."""

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

    def __prepare_scriptable__(self) -> None:
        """`torch.jit.script` calls this first."""
        tracing.refuse_script(self)

    def extra_repr(self) -> str:
        """Returns the sizes and all settings that are not at their default."""
        shown = [f"{self.input_size}, {self.hidden_size}"]
        for name, setting in inspect.signature(type(self)).parameters.items():
            value = self._permutation_name if name == "permutation" else getattr(self, name, setting.default)
            if setting.default not in (setting.empty, value):
                shown.append(f"{name}={value!r}")
        return ", ".join(shown)

    def _input(
        self, name: str, x: Tensor, alphabet: Tensor | None, *forms: tuple[str, ...]
    ) -> tuple[Tensor, Tensor | None, Extents]:
        return checks.input(name, x, alphabet, self.input_size, self._weight_for(x), *forms)

    def _state(self, name: str, h: Tensor | None, layers: Extents, batch: Extents, x: Tensor) -> Tensor:
        return checks.state(name, h, {**layers, **batch, "hidden": self.hidden_size}, x, self._weight_for(x))

    def _weight_for(self, x: object) -> Tensor:
        """`_weight` as it will be during the call: offloaded weights are on the meta device until their map is called."""
        weight = self._weight
        if weight.is_meta and isinstance(x, Tensor) and any("forward" in vars(module) for module in self.modules()):
            return torch.empty(0, dtype=weight.dtype, device=x.device)
        return weight


class _Sequences(_Recurrent):
    """What `SRNN` and `SRNNStack` share: the forms of input of `nn.GRU`, checked and converted to one form."""

    def forward(
        self,
        input: Tensor | PackedSequence,
        hx: Tensor | None = None,
        *,
        lengths: Lengths | None = None,
        alphabet: Tensor | None = None,
        reset: Tensor | PackedSequence | None = None,
    ) -> tuple[Any, Tensor]:
        """Runs the layers over sequences.

        Args:
            input: [T, N, C], with batch_first [N, T, C]; one sequence [T, C]; a PackedSequence; or, with batch_first, a jagged
                nested tensor [N, T, C].
            hx: The initial state [layers * directions, N, H], without N for one sequence; None is zeros.
            lengths: [N], a number for one sequence. Steps from there on are ignored, and the output is 0 there. The reverse
                direction starts at a row's last step.
            alphabet: [V, C]. The input then holds symbols, integers s from 0 to V - 1 that stand for alphabet[s]. The result is
                the same, and faster if V is less than N * T. For an embedding, pass alphabet=embedding.weight.
            reset: Booleans with the batch and time axes of the input. True at t starts a new sequence at step t: no state
                passes from t - 1 to t or back, and at step 0 hx is discarded. Resets from a row's length on are ignored. For a
                PackedSequence, a PackedSequence of the same layout.

        Returns:
            output: Like the input, directions * H wide: the states of the last layer, or the result of an `SRNNStack`.
            h_n: The state after each row's last step (hx for length 0), for every layer and direction, shaped like hx.
        """
        if tracing.is_traced(input, hx):
            return tracing.node(self, "forward", input, hx, lengths=lengths, alphabet=alphabet, reset=reset)
        if lengths is alphabet is reset is None and (quick := self._quick_forward(input, hx)) is not None:
            return quick
        return self._run(input, hx, lengths, alphabet, reset, final="")

    def final_state(
        self,
        input: Tensor | PackedSequence,
        hx: Tensor | None = None,
        *,
        lengths: Lengths | None = None,
        alphabet: Tensor | None = None,
        reset: Tensor | PackedSequence | None = None,
    ) -> Tensor:
        """Returns the h_n of `forward`. With ReLU or clip the last layer or block never holds its states.

        In float32 the compiled kernels compute b for a few sequences at a time (four, more if they are short). Elsewhere it is
        computed for all of them at once. The arguments are those of `forward`.
        """
        if tracing.is_traced(input, hx):
            return tracing.node(self, "final_state", input, hx, lengths=lengths, alphabet=alphabet, reset=reset)
        return self._run(input, hx, lengths, alphabet, reset, final="state")[1]

    def flatten_parameters(self) -> None:
        """Does nothing. Programs written for `nn.GRU` call it."""

    def _quick_forward(self, input: Any, hx: Tensor | None) -> tuple[Tensor, Tensor] | None:
        """A faster way through `forward`, if there is one for this input."""
        return None

    def _scan(
        self, x: Tensor, h0: Tensor, ends: Tensor | None, alphabet: Tensor | None, reset: Tensor | None, final: str
    ) -> tuple[Any, Tensor]:
        """Output [N, T, directions * H] (None with `final`) and states, from x [N, T, C] or symbols [N, T]."""
        raise NotImplementedError

    def _run(
        self,
        input: Tensor | PackedSequence,
        hx: Tensor | None,
        lengths: Lengths | None,
        alphabet: Tensor | None,
        reset: Tensor | PackedSequence | None,
        final: str,
    ) -> tuple[Any, Tensor]:
        """Checks the arguments, converts them to the form [N, T, C] or [N, T], scans, and converts the result back.

        With `final`, which is passed to the scan, only the second result [..., N, H] is computed; the first is None.
        """
        layers = {"layers * directions": self.num_layers * (2 if self.bidirectional else 1)}
        if isinstance(input, PackedSequence):
            if lengths is not None:
                raise LengthError("a PackedSequence has lengths of its own. Leave out lengths=")
            data, sizes, order, back = input
            data, alphabet, _ = self._input("the data of input", data, alphabet, ("steps",))
            checks.packed(input)
            h0 = self._state("hx", hx, layers, {"batch": int(sizes[0])}, data)
            mask = None if reset is None else checks.packed_reset(reset, input)
            padded, packed, steps = _places(sizes, data)  # rows stay in the order of length
            x = data.index_select(0, padded.flatten()).unflatten(0, padded.shape)
            output, h_n = self._scan(x, _select(h0, order), steps, alphabet, None if mask is None else mask[padded], final)
            if not final:
                output = PackedSequence(output.flatten(0, 1).index_select(0, packed), sizes, order, back)
            return output, _select(h_n, back)
        if isinstance(input, Tensor) and input.is_nested:
            return self._run_nested(input, hx, layers, lengths, alphabet, reset, final)

        batched = ("batch", "time") if self.batch_first else ("time", "batch")
        x, alphabet, batch = self._input("input", input, alphabet, batched, ("time",))
        h0 = self._state("hx", hx, layers, batch, input)
        ends = None if lengths is None else checks.lengths(lengths, batch, input)
        mask = None if reset is None else checks.reset(reset, x.shape if alphabet is not None else x.shape[:-1], input)
        if not batch:
            output, h_n = self._scan(x[None], h0[:, None], ends, alphabet, None if mask is None else mask[None], final)
            return None if final else output[0], h_n[:, 0]
        if self.batch_first:
            return self._scan(x, h0, ends, alphabet, mask, final)
        output, h_n = self._scan(x.transpose(0, 1), h0, ends, alphabet, None if mask is None else mask.T, final)
        return None if final else output.transpose(0, 1).contiguous(), h_n  # programs written for nn.GRU call .view on it

    def _run_nested(
        self,
        input: Any,
        hx: Tensor | None,
        layers: Extents,
        lengths: Lengths | None,
        alphabet: Tensor | None,
        reset: Any,
        final: str,
    ) -> tuple[Any, Tensor]:
        """The same for a jagged nested tensor, via a padded one; the output has the offsets of the input."""
        if lengths is not None:
            raise LengthError("a nested tensor has lengths of its own. Leave out lengths=")
        checks.nested(input, alphabet, self.batch_first)
        offsets, given = input.offsets(), input.lengths()  # lengths only where there are gaps between the rows
        values, alphabet, _ = self._input("the values of input", input.values(), alphabet, ("steps",))
        h0 = self._state("hx", hx, layers, {"batch": len(offsets) - 1}, values)
        ends = offsets.diff() if given is None else given
        steps = torch.arange(int(ends.max()), device=values.device)
        mask = None if reset is None else checks.reset(reset, (len(ends), len(steps)), values)
        places = (offsets[:-1, None] + steps).clamp(max=len(values) - 1)  # [N, T]; values beyond a row's end are ignored
        output, h_n = self._scan(values[places], h0, ends.long(), alphabet, mask, final)
        if final:
            return None, h_n
        valid = steps < ends[:, None]
        values = output.new_zeros(len(values), output.shape[-1]).index_put((places[valid],), output[valid])
        return torch.nested.nested_tensor_from_jagged(values, offsets, given), h_n


class _Shuffling(_Recurrent):
    """What `SRNN` and `SRNNCell` share: the settings, one b per layer and direction, P and sigma."""

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
            raise SettingTypeError(f"mlp must be the widths of the hidden layers of f_r, such as (32, 32), got {mlp!r}")
        checks.sizes(input_size=input_size, hidden_size=hidden_size, num_layers=num_layers)
        checks.sizes(**{f"mlp[{i}]": width for i, width in enumerate(mlp)})
        checks.flags(gate=gate, bias=bias)
        checks.floating(dtype)
        if not isinstance(activation, str) or activation not in kernels.ACTIVATIONS:
            raise one_of("activation", activation, kernels.ACTIVATIONS)
        self.input_size, self.hidden_size = input_size, hidden_size
        self.mlp, self.gate, self.activation, self.bias = tuple(mlp), gate, activation, bias
        self.gate_init = checks.gate_init(gate_init, gate, bias)
        shift = 0.0 if not (gate and bias) else GATE_INIT if self.gate_init is None else self.gate_init
        widths = [input_size] * directions + [directions * hidden_size] * directions * (num_layers - 1)
        self.b = nn.ModuleList(InputNetwork(C, hidden_size, mlp, gate, bias, shift, device, dtype) for C in widths)
        # Drawn after the weights, which are then the same for every permutation.
        name = self._permutation_name = permutation if isinstance(permutation, str) else "given"
        index = _index(permutation, hidden_size, self._weight.device)
        self.register_buffer("permutation", index, persistent=name in STORED)

    def reset_parameters(self) -> None:
        """Draws weights and biases again, as at construction. The permutation does not change."""
        for b in self.b:
            b.reset_parameters()

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        """Restores the permutation after `to_empty`, unless a state_dict will bring it."""
        super()._apply(fn, recurse)
        if self.permutation is not None and self._permutation_name not in STORED:
            self.permutation = _index(self._permutation_name, self.hidden_size, self.permutation.device)
        return self

    def _quick_step(self, x: Tensor, h: Tensor | None, *layers: int) -> Tensor | None:
        """One step of a single layer for input that needs no further check; None if it needs one."""
        if type(x) is not Tensor or not (h is None or type(h) is Tensor) or x.is_nested:
            return None
        first, *others = self._modules["b"]._modules.values()  # type: ignore[union-attr]
        sizes = (*layers, *x.shape[:-1], self.hidden_size)
        if others or x.shape[-1:] != (self.input_size,) or x.dim() > 2 or (h is not None and h.shape != sizes):
            return None
        h = x.new_zeros(sizes) if h is None else h
        return first.quick_step(x, h, self.permutation, self.activation)  # type: ignore[operator, union-attr]

    @property
    def _weight(self) -> Tensor:
        """One of the weights, for the device and the dtype of all."""
        weight = self.b[0].linear.weight  # not next(self.parameters()): replicas of nn.DataParallel have none
        return weight if isinstance(weight, Tensor) else torch.empty(0)  # quantised: float32 on the CPU goes in and comes out


class SRNN(_Sequences, _Shuffling):
    """One or more layers of h_t = sigma(P h_{t-1} + b(x_t)), to be used like `nn.GRU`.

    Weights start as those of `nn.Linear`.

    Args:
        input_size: The number of inputs C.
        hidden_size: The number of units H.
        num_layers: The number of layers.
        bias: Whether the linear maps of b have a bias.
        batch_first: Whether input and output are [N, T, ...] instead of [T, N, ...].
        dropout: The probability of dropout between layers, in training.
        bidirectional: Whether each layer also runs backwards in time.
        mlp: The widths of the hidden layers of f_r; with () it is affine.
        gate: Whether b has the factor sigmoid(W_s x + b_s).
        gate_init: Added to the first draw of b_s. Below 0 the gate starts closed, so that units keep what they hold until
            training opens it. None is -2.0; the paper's start is 0.0.
        activation: sigma: "relu"; "clip", which clamps states to [-1, 1] and is as fast; or "tanh".
        permutation: P: "shift"; "partial", where the first H // 2 units keep their place and the others shift; "identity";
            "random", drawn from torch's generator and stored in the state_dict; or an index tensor, (P h)_i =
            h[permutation[i]]. Units keep their numbers in all inputs and outputs.
        device: The device of the weights.
        dtype: The dtype of the weights.
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
        checks.flags(batch_first=batch_first, bidirectional=bidirectional)
        dropout = checks.probability("dropout", dropout)
        directions = 2 if bidirectional else 1
        super().__init__(
            input_size, hidden_size, num_layers, directions, mlp, gate, activation, bias, gate_init, permutation, device, dtype
        )
        self.num_layers, self.batch_first, self.dropout, self.bidirectional = num_layers, batch_first, dropout, bidirectional
        if dropout > 0 and num_layers == 1:
            warnings.warn(f"dropout acts between layers, so {dropout=} does nothing with num_layers=1", stacklevel=2)

    def step(self, x_t: Tensor, h: Tensor | None = None, reset: Tensor | None = None) -> Tensor:
        """Runs one step in time.

        Args:
            x_t: The input [N, C], or [C] for one sequence.
            h: The state [layers, N, H], without N for one sequence; None is zeros.
            reset: Booleans [N]: rows that start a new sequence with this step, so that their h is taken as zeros.

        Returns:
            The next state, shaped like h.
        """
        if tracing.is_traced(x_t, h):
            return tracing.node(self, "step", x_t, h, reset=reset)
        if self.bidirectional:
            raise SettingError("step goes forward in time. Call a bidirectional layer on whole sequences")
        if reset is None and (quick := self._quick_step(x_t, h, 1)) is not None:
            return quick
        x, _, batch = self._input("x_t", x_t, None, ("batch",), ())
        h = self._state("h", h, {"layers": self.num_layers}, batch, x_t)
        if reset is not None:
            h = h.masked_fill(checks.reset(reset, x.shape[:-1], x_t)[..., None], 0)
        states: list[Tensor] = []
        for b, h_l in zip(self.b, h.split(1), strict=True):
            x = self._drop(states[-1][0]) if states else x
            states.append(b.step(x, h_l, self.permutation, self.activation))
        return states[0] if len(states) == 1 else torch.cat(states)

    @property
    def all_weights(self) -> list[list[nn.Parameter]]:
        """The parameters of each layer and direction, in the order of h_n."""
        return [list(b.parameters()) for b in self.b]

    def _quick_forward(self, input: Any, hx: Tensor | None) -> tuple[Tensor, Tensor] | None:
        """`forward` of a single time step, for programs that call the layer step by step."""
        if torch.compiler.is_compiling() or not isinstance(input, Tensor) or input.is_nested or self.bidirectional:
            return None
        time = 1 if self.batch_first else 0
        if input.dim() != 3 or input.shape[time] != 1:
            return None
        h_n = self._quick_step(input.squeeze(time), hx, 1)
        return None if h_n is None else (h_n.clone().view(*input.shape[:2], self.hidden_size), h_n)

    def _scan(
        self, x: Tensor, h0: Tensor, ends: Tensor | None, alphabet: Tensor | None, reset: Tensor | None, final: str
    ) -> tuple[Any, Tensor]:
        """The layers in turn, on x [N, T, C] or symbols [N, T], from h0 [layers * directions, N, H]."""
        if ends is not None:  # padding may hold anything, even NaN, which would reach the weights' gradients as 0 * NaN
            padding = torch.arange(x.shape[1], device=x.device) >= ends[:, None]
            x = x.masked_fill(padding if alphabet is not None else padding[..., None], 0)
        x, D, states = x.contiguous(), 2 if self.bidirectional else 1, []
        how = {"permutation": self.permutation, "lengths": ends, "reset": reset, "activation": self.activation}
        for first in range(0, len(self.b), D):
            last = first + D == len(self.b)
            scans = [
                self.b[k].scan(x, h0[k], alphabet, bool(final) and last, reverse=k > first, **how)
                for k in range(first, first + D)
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

    The arguments are those of `SRNN`. The state_dict is that of an `SRNN` with one layer.
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
        """Returns the next state [N, H] for input [N, C] and hx [N, H], without N for one sequence; hx=None is zeros."""
        if tracing.is_traced(input, hx):
            return tracing.node(self, "forward", input, hx)
        if (quick := self._quick_step(input, hx)) is not None:
            return quick
        x, _, batch = self._input("input", input, None, ("batch",), ())
        h = self._state("hx", hx, {}, batch, x)
        return self.b[0].step(x, h, self.permutation, self.activation)


def _places(sizes: Tensor, data: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """How packed data and rows [N, T] follow from each other, for the batch sizes [T].

    Returns which packed step is at each place of the rows [N, T] (any in the padding), the place of each packed step in the
    flat rows, and the lengths [N]. An index each way is faster than torch's own functions, which take a slice per step.
    """
    rows, steps = (torch.arange(n, device=sizes.device) for n in (int(sizes[0]), len(sizes)))
    valid = rows < sizes[:, None]
    padded = (sizes.cumsum(0) - sizes + rows[:, None]).clamp(max=data.shape[0] - 1)
    packed = (rows * len(sizes) + steps[:, None])[valid]
    return padded.to(data.device), packed.to(data.device), valid.sum(dim=0).to(data.device)


def _select(h: Tensor, rows: Tensor | None) -> Tensor:
    return h if rows is None else h.index_select(1, rows)


def _is_plain(module: nn.Module, kind: type[nn.Module]) -> bool:
    """True if `module` is exactly a `kind` with ordinary tensors as weights, without hooks and without an overridden forward.

    Anything else must be called as a module. Hooks (also global ones) must see the call. Weights of another tensor class
    (quantised, distributed) support only the operators of torch. An overridden forward may load the weights first, as in a
    layer that accelerate has offloaded.
    """
    hooks = module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or module._backward_pre_hooks
    if type(module) is not kind or hooks or _has_any_global_hook() or "forward" in vars(module):
        return False
    return ORDINARY.issuperset(map(type, module._parameters.values()))


def _weights(linear: nn.Linear | None, dtype: torch.dtype) -> tuple[Any, Any]:
    """Weight and bias in this dtype; None for what is not there."""
    if linear is None:
        return None, None
    return linear.weight.to(dtype), None if linear.bias is None else linear.bias.to(dtype)


def _index(permutation: str | Tensor, H: int, device: torch.device) -> Tensor | None:
    """Where P takes each unit from, (P h)_i = h[index[i]]; None is the shift, which the kernels have built in."""
    if isinstance(permutation, Tensor):
        return checks.permutation(permutation, H).to(device)
    if not isinstance(permutation, str):
        raise SettingTypeError(f"permutation must be {', '.join(PERMUTATIONS)} or an index tensor, got {permutation!r}")
    if permutation not in PERMUTATIONS:
        raise one_of("permutation", permutation, PERMUTATIONS)
    if permutation == "shift":
        return None
    # Always on the CPU, so that a seed gives the same permutation on every device.
    index = (torch.randperm if permutation == "random" else torch.arange)(H, device="cpu")
    if permutation == "partial":
        index[H // 2 :] = index[H // 2 :].roll(-1)
    return index.to(device)
