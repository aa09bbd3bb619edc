"""The layer inside other programs: autocast, quantised and offloaded weights, hooks, checkpoints, nested tensors, tracers."""

import copy
import functools
import logging
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._functorch.aot_autograd import aot_export_module
from torch.nn.modules import module as torch_module
from torch.nn.utils import parametrizations
from torch.testing import assert_close
from torch.utils import _pytree as pytree
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts
from torch.utils.flop_counter import FlopCounterMode

from srnn import SRNN, SRNNCell, SRNNStack, kernels, shuffle_scan
from srnn.errors import DeviceError, DtypeError, LengthError, SettingError, ShapeError, TracingError

C, K, H, N, T, V = 3, 4, 5, 4, 6, 7
HALVES = [torch.bfloat16, torch.float16]


def numbers(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(shape, dtype=dtype, requires_grad=True)


def layer(*args: Any, **settings: Any) -> Any:
    return SRNN(*(args or (C, H)), **{"mlp": (K,), "batch_first": True, "dtype": torch.float64, **settings})


def every_call(rnn: Any, x: Tensor) -> list[Tensor]:
    """What a layer of one direction gives for all forms of its call."""
    ids = torch.arange(N * T).reshape(N, T) % V
    alphabet = torch.linspace(-1, 1, V * C, dtype=x.dtype).reshape(V, C)
    return [
        *rnn(x),
        *rnn(x[:, :1]),
        rnn.final_state(x),
        rnn.step(x[:, 0]),
        *rnn(ids, alphabet=alphabet),
        rnn.final_state(ids, alphabet=alphabet),
    ]


# Autocast.


@pytest.mark.parametrize("half", HALVES, ids=str)
def test_a_state_made_inside_autocast_can_be_passed_outside(half: torch.dtype) -> None:
    rnn, cell = layer(num_layers=2, dtype=torch.float32), SRNNCell(C, H, mlp=(K,))
    x = torch.randn(N, T, C)
    with torch.autocast("cpu", dtype=half):
        h, h_cell = rnn(x)[1], cell(x[:, 0])
    assert h.dtype == h_cell.dtype == half
    for call, state in ((lambda h: rnn(x, h)[0], h), (lambda h: rnn.final_state(x, h), h), (lambda h: rnn.step(x[:, 0], h), h)):
        assert_close(call(state), call(state.float()), rtol=0, atol=0)
    assert_close(cell(x[:, 1], h_cell), cell(x[:, 1], h_cell.float()), rtol=0, atol=0)
    rnn(x, h)[0].sum().backward()  # through the state into the first call


@pytest.mark.parametrize("half", HALVES, ids=str)
def test_a_state_made_outside_autocast_can_be_passed_inside(half: torch.dtype) -> None:
    rnn, x = layer(dtype=torch.float32), torch.randn(N, T, C)
    h = rnn(x)[1]
    with torch.autocast("cpu", dtype=half):
        assert_close(rnn(x, h)[0], rnn(x, h.to(half))[0], rtol=0, atol=0)


@pytest.mark.parametrize(
    ("state", "weights"),
    [
        (torch.float64, torch.float32),
        (torch.float32, torch.float64),
        (torch.float32, torch.bfloat16),
        (torch.bfloat16, torch.float16),
        (torch.int64, torch.float32),
    ],
)
def test_only_a_half_state_is_converted(state: torch.dtype, weights: torch.dtype) -> None:
    rnn, x = layer(dtype=weights), torch.randn(N, T, C, dtype=weights)
    with pytest.raises(DtypeError, match=f"hx must be {weights}, like the weights, got {state}"):
        rnn(x, torch.zeros(1, N, H, dtype=state))


# Weights that only a call of their map can use.


class Doubled(Tensor):
    """A weight that is kept as its half, as quantised weights are kept in another form: only operators of torch know of it."""

    stored: Tensor

    @staticmethod
    def __new__(cls, stored: Tensor) -> "Doubled":
        return Tensor._make_wrapper_subclass(cls, stored.shape, dtype=stored.dtype, device=stored.device)

    def __init__(self, stored: Tensor) -> None:
        self.stored = stored

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        if func.namespace != "aten":
            raise NotImplementedError(f"Doubled does not know {func}")
        if func is torch.ops.aten.detach.default:
            return cls(args[0].stored)
        plain = pytree.tree_map_only(cls, lambda weight: 2 * weight.stored, (args, kwargs or {}))
        return func(*plain[0], **plain[1])


@pytest.mark.parametrize("part", ["weight", "bias"])
@pytest.mark.parametrize("name", ["mlp.0", "linear", "gate"])
@pytest.mark.parametrize("layers", [1, 2])
def test_weights_of_another_tensor_class_work(layers: int, name: str, part: str) -> None:
    rnn, x = layer(num_layers=layers), numbers(N, T, C).detach()
    expected = every_call(rnn, x)
    for b in rnn.b:
        linear = b.get_submodule(name)
        setattr(linear, part, nn.Parameter(Doubled(getattr(linear, part).detach() / 2), requires_grad=False))
        assert type(getattr(linear, part)) is Doubled
    assert_close(every_call(rnn, x), expected)


def test_parametrised_weights_work() -> None:
    rnn, x = layer(num_layers=2), numbers(N, T, C)
    expected = every_call(rnn, x)
    for b in rnn.b:
        parametrizations.weight_norm(b.linear)
        parametrizations.weight_norm(b.gate)
    found = every_call(rnn, x)
    assert_close(found, expected)
    found[0].sum().backward()
    assert rnn.b[0].gate.parametrizations.weight.original0.grad.any()


def offload(module: nn.Module) -> None:
    """Moves the weights to the meta device and overrides forward of each map by one that brings them, as accelerate does."""
    for part in module.modules():
        if not isinstance(part, nn.Linear):
            continue
        real = {name: parameter.detach().clone() for name, parameter in part.named_parameters()}
        part.to("meta")

        part.forward = functools.partial(_forward_with, real)  # type: ignore[method-assign]


def _forward_with(weights: dict[str, Tensor], input: Tensor) -> Tensor:
    return nn.functional.linear(input, **weights)


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("permutation", ["shift", "identity", "random"])
def test_offloaded_weights_are_loaded_when_their_map_is_called(permutation: str, layers: int) -> None:
    rnn, x = layer(num_layers=layers, permutation=permutation), numbers(N, T, C).detach()
    cell = SRNNCell(C, H, permutation=permutation, dtype=torch.float64)
    expected = [*every_call(rnn, x), cell(x[:, 0])]
    offload(rnn)
    offload(cell)
    assert {parameter.device.type for parameter in rnn.parameters()} == {"meta"}
    assert_close([*every_call(rnn, x), cell(x[:, 0])], expected)
    with pytest.raises(DeviceError, match="hx is on meta"):
        rnn(x, torch.zeros(layers, N, H, dtype=torch.float64, device="meta"))
    with pytest.raises(DtypeError, match=r"input must be torch\.float64"):
        rnn(x.float())


def test_meta_weights_that_are_not_offloaded_are_refused() -> None:
    with pytest.raises(DeviceError, match="input is on cpu and the weights are on meta"):
        layer(device="meta")(numbers(N, T, C))


@pytest.fixture
def torchao() -> Any:
    """The real package; it reports at import what of its compiled code cannot be loaded here."""
    logging.disable(logging.CRITICAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = pytest.importorskip("torchao.quantization")
    logging.disable(logging.NOTSET)
    return found


@pytest.mark.parametrize("config", ["Int8WeightOnlyConfig", "Int8DynamicActivationInt8WeightConfig"])
@pytest.mark.filterwarnings("ignore")
def test_torchao_can_quantise_a_layer(torchao: Any, config: str) -> None:
    rnn, x = SRNN(C, 32, 2, mlp=(16,), batch_first=True), torch.randn(N, T, C)
    expected = every_call(rnn, x)
    torchao.quantize_(rnn, getattr(torchao, config)())
    assert type(rnn.b[1].linear.weight) not in (Tensor, nn.Parameter)
    assert_close(every_call(rnn, x), expected, rtol=0.05, atol=0.05)


@pytest.mark.parametrize("permutation", ["shift", "random"])
@pytest.mark.filterwarnings("ignore")
def test_accelerate_can_offload_a_layer(permutation: str, tmp_path: Path) -> None:
    accelerate = pytest.importorskip("accelerate")
    rnn, x = layer(num_layers=2, permutation=permutation), numbers(N, T, C).detach()
    expected = every_call(rnn, x)
    model = nn.Sequential(copy.deepcopy(rnn))
    accelerate.cpu_offload(model, execution_device="cpu")
    assert {parameter.device.type for parameter in model.parameters()} == {"meta"}
    assert_close([*model(x), *every_call(model[0], x)], [*expected[:2], *expected])
    model = nn.Sequential(copy.deepcopy(rnn))
    accelerate.disk_offload(model, str(tmp_path), execution_device="cpu", offload_buffers=True)
    assert_close(model(x), tuple(expected[:2]))


# Hooks on all modules, dispatch modes.


CALLS: dict[str, Callable[[Any, Tensor], Tensor]] = {
    "forward": lambda rnn, x: rnn(x)[0],
    "forward of one step": lambda rnn, x: rnn(x[:, :1])[0],
    "final_state": lambda rnn, x: rnn.final_state(x),
    "step": lambda rnn, x: rnn.step(x[:, 0]),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("kind", ["forward", "forward_pre", "full_backward", "full_backward_pre"])
def test_global_hooks_see_every_map(kind: str, layers: int, call: str) -> None:
    rnn, x = layer(num_layers=layers), numbers(N, T, C)
    method = functools.partial(CALLS[call], rnn)
    expected = torch.autograd.grad(method(x).sum(), x)
    seen: list[nn.Module] = []
    handle = getattr(torch_module, f"register_module_{kind}_hook")(lambda module, *about: seen.append(module))
    try:
        gradient = torch.autograd.grad(method(x).sum(), x)
    finally:
        handle.remove()
    assert_close(gradient, expected)
    assert {id(part) for part in rnn.modules() if isinstance(part, (nn.Linear, nn.ReLU))} <= {id(module) for module in seen}


def test_a_hook_on_a_whole_input_network_is_called() -> None:
    rnn, x = layer(), numbers(N, T, C)
    seen: list[Tensor] = []
    rnn.b[0].register_forward_hook(lambda module, inputs, output: seen.append(output))
    output, _ = rnn(x)
    assert_close(shuffle_scan(seen[0]), output)
    for count, call in enumerate(CALLS.values(), 2):
        call(rnn, x)
        assert len(seen) == count


POLICIES: dict[str, Callable[[str], bool]] = {
    "products": lambda name: "mm" in name,
    "scans": lambda name: "srnn" in name,
    "products and scans": lambda name: "mm" in name or "srnn" in name,
    "all": lambda name: True,
    "nothing": lambda name: False,
}


@pytest.mark.parametrize("saved", POLICIES)
@pytest.mark.parametrize("settings", [{"num_layers": 2}, {"bidirectional": True, "activation": "tanh"}], ids=str)
def test_selective_activation_checkpointing_gives_the_same_gradients(saved: str, settings: dict[str, Any]) -> None:
    rnn, x = layer(**settings, mlp=(K, K)), numbers(N, T, C)

    def policy(context: Any, op: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
        return CheckpointPolicy.MUST_SAVE if POLICIES[saved](str(op)) else CheckpointPolicy.PREFER_RECOMPUTE

    context_fn = functools.partial(create_selective_checkpoint_contexts, policy)
    wanted = [x, *rnn.parameters()]
    for call in (lambda x: rnn(x)[0], rnn.final_state):
        expected = torch.autograd.grad(call(x).square().sum(), wanted)
        found = checkpoint(call, x, use_reentrant=False, context_fn=context_fn)
        assert isinstance(found, Tensor)
        assert_close(torch.autograd.grad(found.square().sum(), wanted), expected)


def test_an_exported_layer_still_has_the_fused_operator() -> None:
    """While a tracer runs, weights are of another tensor class, too, and must not be mistaken for quantised ones."""
    rnn, given = layer().requires_grad_(False), (numbers(N, T, C).detach(),)
    exported: list[Any] = [torch.export.export(rnn, given, strict=strict) for strict in (False, True)]
    for program in (*exported, aot_export_module(rnn, given, trace_joint=False)[0]):
        assert [node for node in program.graph.nodes if "gated_scan" in str(node.target)]


# Nested tensors.


def jagged(rows: list[Tensor]) -> Any:
    return torch.nested.as_nested_tensor(rows, layout=torch.jagged)


NESTED_LENGTHS = [3, 0, T, 4]


@pytest.mark.parametrize("settings", [{}, {"num_layers": 2, "bidirectional": True}, {"activation": "tanh"}], ids=str)
@pytest.mark.parametrize("symbols", [False, True], ids=["real", "symbols"])
def test_a_nested_batch_is_the_padded_one_with_lengths(settings: dict[str, Any], symbols: bool) -> None:
    rnn = layer(**settings)
    alphabet = numbers(V, C) if symbols else None
    x = torch.randint(0, V, (N, T)) if symbols else numbers(N, T, C)
    hx = numbers(len(rnn.b), N, H)
    rows = [row[:length] for row, length in zip(x, NESTED_LENGTHS, strict=True)]
    wanted = [hx, *([x] if alphabet is None else [alphabet]), *rnn.parameters()]
    padded, h_n = rnn(x, hx, lengths=NESTED_LENGTHS, alphabet=alphabet)
    nested, nested_h_n = rnn(jagged(rows), hx, alphabet=alphabet)
    assert nested.layout == torch.jagged
    assert nested.shape[0] == N
    assert nested.shape[2] == padded.shape[2]
    for row, expected, length in zip(nested.unbind(), padded, NESTED_LENGTHS, strict=True):
        assert_close(row, expected[:length])
    assert_close(nested_h_n, h_n)
    assert_close(rnn.final_state(jagged(rows), hx, alphabet=alphabet), h_n)
    weight, weight_n = torch.randn_like(padded), torch.randn_like(h_n)
    values = torch.cat([row[:length] for row, length in zip(weight, NESTED_LENGTHS, strict=True)])
    assert_close(
        torch.autograd.grad((nested.values() * values).sum() + (nested_h_n * weight_n).sum(), wanted, retain_graph=True),
        torch.autograd.grad((padded * weight).sum() + (h_n * weight_n).sum(), wanted, retain_graph=True),
    )
    assert_close(
        torch.autograd.grad((rnn.final_state(jagged(rows), hx, alphabet=alphabet) * weight_n).sum(), wanted),
        torch.autograd.grad((h_n * weight_n).sum(), wanted),
    )


def test_a_stack_takes_nested_batches() -> None:
    stack, x = SRNNStack(C, H, batch_first=True, bidirectional=True, dtype=torch.float64), numbers(N, T, C)
    rows = [row[:length] for row, length in zip(x, NESTED_LENGTHS, strict=True)]
    output, h_n = stack(jagged(rows))
    expected, expected_h_n = stack(x, lengths=NESTED_LENGTHS)
    for row, padded, length in zip(output.unbind(), expected, NESTED_LENGTHS, strict=True):
        assert_close(row, padded[:length])
    assert_close(h_n, expected_h_n)
    assert_close(stack.final_output(jagged(rows)), stack.final_output(x, lengths=NESTED_LENGTHS))


def test_resets_of_a_nested_batch_are_a_padded_mask() -> None:
    rnn, x, reset = layer(), numbers(N, T, C), torch.rand(N, T) < 0.3
    rows = [row[:length] for row, length in zip(x, NESTED_LENGTHS, strict=True)]
    assert_close(rnn(jagged(rows), reset=reset)[1], rnn(x, lengths=NESTED_LENGTHS, reset=reset)[1])
    with pytest.raises(ShapeError, match=r"reset must have the shape \(4, 6\)"):
        rnn(jagged(rows), reset=reset[:, 1:])


def test_output_and_input_of_a_nested_call_have_the_same_offsets() -> None:
    rnn = layer(H, H)
    x = jagged([torch.randn(length, H, dtype=torch.float64) for length in NESTED_LENGTHS])
    output = rnn(x)[0]
    assert_close((x + output).values(), x.values() + output.values())  # torch refuses where the offsets are others
    assert output.offsets() is x.offsets()


def test_gaps_between_nested_rows_are_ignored() -> None:
    rnn, whole = layer(bidirectional=True), torch.randn(N, T, C, dtype=torch.float64)
    starts, lengths = torch.tensor([0, 1, 2, 0]), torch.tensor([3, 2, 4, 1])
    gaps: Any = torch.nested.narrow(whole, 1, starts, lengths, layout=torch.jagged)
    assert gaps.lengths() is not None
    output, h_n = rnn(gaps)
    assert_close(output.lengths(), lengths)
    for n, (start, length) in enumerate(zip(starts.tolist(), lengths.tolist(), strict=True)):
        expected, expected_h_n = rnn(whole[n, start : start + length])
        assert_close(output[n], expected)
        assert_close(h_n[:, n], expected_h_n)


def test_nested_rows_may_all_be_empty() -> None:
    output, h_n = layer()(jagged([torch.zeros(0, C, dtype=torch.float64)] * 2), torch.ones(1, 2, H, dtype=torch.float64))
    assert (output.values().shape, h_n.sum()) == ((0, H), 2 * H)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
def test_a_wrong_nested_input_is_refused() -> None:
    rows = [torch.zeros(length, C) for length in (2, 3)]
    x, rnn = jagged(rows), SRNN(C, H, batch_first=True)
    for method in (rnn, rnn.final_state):
        with pytest.raises(LengthError, match=r"a nested tensor has lengths of its own\. Leave out lengths="):
            method(x, lengths=[2, 3])
        with pytest.raises(ShapeError, match=r"must have layout torch\.jagged, got torch\.strided. Make it with"):
            method(torch.nested.nested_tensor(rows))
        with pytest.raises(ShapeError, match=r"must be \[batch, time, inputs\], jagged in time, got shape \(2, 3, j\d+\)"):
            method(x.transpose(1, 2))
        with pytest.raises(ShapeError, match=r"must be \[batch, time\], jagged in time, got shape \(2, j\d+, 3\)"):
            method(x, alphabet=torch.zeros(V, C))
        with pytest.raises(ShapeError, match="the values of input must be input_size = 3 wide"):
            method(jagged([row[:, :2] for row in rows]))
        with pytest.raises(DtypeError, match=r"the values of input must be torch\.float32"):
            method(x.double())
        with pytest.raises(ShapeError, match=r"hx must be \[layers \* directions, batch, hidden\] = \(1, 2, 5\)"):
            method(x, torch.zeros(1, 3, H))
    with pytest.raises(SettingError, match=r"a nested input is batch first\. Make the layer with batch_first=True"):
        SRNN(C, H)(x)


# Counting operations.


@pytest.mark.parametrize("backend", ["auto", "torch"])
@pytest.mark.parametrize("final", [False, True], ids=["states", "final"])
@pytest.mark.parametrize("gate", [True, False], ids=["gate", "no gate"])
def test_the_flop_counter_counts_the_products_of_a_gated_scan(backend: str, gate: bool, final: bool) -> None:
    z, x, h0, W, c = numbers(N, T, K), numbers(N, T, C), numbers(N, H), numbers(H, K), numbers(H)
    U, e = (numbers(H, C), numbers(H)) if gate else (None, None)
    f_r, gate_map = 2 * N * T * K * H, 2 * N * T * C * H if gate else 0
    with FlopCounterMode(display=False) as counter:
        _, h_n = kernels.gated_scan(z, W, c, x, U, e, h0, final=final, backend=backend)
    assert counter.get_total_flops() == f_r + gate_map
    with FlopCounterMode(display=False) as counter:
        h_n.sum().backward()
    repeated = f_r + gate_map if gate else 0
    assert counter.get_total_flops() == repeated + 2 * (f_r + gate_map)
    _, h_n = kernels.gated_scan(z.detach(), W, c, x.detach(), U, e, h0, final=final, backend=backend)
    with FlopCounterMode(display=False) as counter:
        h_n.sum().backward()
    assert counter.get_total_flops() == repeated + f_r + gate_map  # no derivatives by z and x


def test_the_flop_counter_counts_a_layer_and_what_is_exported_of_it() -> None:
    rnn, x = layer(), numbers(N, T, C)
    products = 2 * N * T * (C * K + K * H + C * H)
    with FlopCounterMode(display=False) as counter:
        output = rnn(x)[0]
    assert counter.get_total_flops() == products
    with FlopCounterMode(display=False) as counter:
        output.sum().backward()
    assert counter.get_total_flops() == 2 * products
    exported = torch.export.export(rnn, (x,)).module()
    with FlopCounterMode(display=False) as counter:
        exported(x)
    assert counter.get_total_flops() == products
    with FlopCounterMode(display=False) as counter:
        shuffle_scan(output)
    assert counter.get_total_flops() == 0


# Tracers.


class Everything(nn.Module):
    """Every public call of layer, stack and cell, inside another module."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(V, C, dtype=torch.float64)
        self.rnn, self.cell = layer(num_layers=2), SRNNCell(C, H, dtype=torch.float64)
        self.stack = SRNNStack(C, H, batch_first=True, dtype=torch.float64)

    def forward(self, x: Tensor, ids: Tensor) -> tuple[Tensor, ...]:
        output, h = self.rnn(x)
        more, _ = self.rnn(ids, h, alphabet=self.embedding.weight)
        h = self.rnn.step(x[:, 0], h)
        output = output + more + self.stack(ids, alphabet=self.embedding.weight)[0]
        last = self.rnn.final_state(x, h), self.cell(x[:, 0], h[-1])
        return output, *last, self.stack.final_state(x, h), self.stack.final_output(x, h), self.stack.step(x[:, 0], h)[0]


def test_fx_traces_layers_as_leaves() -> None:
    model, x, ids = Everything(), numbers(N, T, C), torch.randint(0, V, (N, T))
    traced = torch.fx.symbolic_trace(model)
    traced.graph.lint()
    calls = [(node.op, str(node.target)) for node in traced.graph.nodes if node.op in ("call_module", "call_method")]
    assert calls == [
        ("call_module", "rnn"),
        ("call_module", "rnn"),
        ("call_method", "step"),
        ("call_module", "stack"),
        ("call_method", "final_state"),
        ("call_module", "cell"),
        ("call_method", "final_state"),
        ("call_method", "final_output"),
        ("call_method", "step"),
    ]
    assert_close(traced(x, ids), model(x, ids))
    with pytest.raises(TracingError, match=r"torch\.fx keeps SRNN as one call.*Trace nn\.Sequential\(SRNN\(\.\.\.\)\)"):
        torch.fx.symbolic_trace(model.rnn)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", ["", "rnn", "cell", "stack"])
def test_script_names_the_alternative(name: str) -> None:
    expected = r"^torch\.jit\.script cannot compile SRNN(Cell|Stack)?. Use torch\.export\.export, or torch\.compile$"
    with pytest.raises(TracingError, match=expected):
        torch.jit.script(Everything().get_submodule(name))


# What nn.GRU has.


def test_all_weights_are_the_parameters_of_each_layer_and_direction() -> None:
    rnn, gru = layer(num_layers=2, bidirectional=True), nn.GRU(C, H, num_layers=2, bidirectional=True)
    assert len(rnn.all_weights) == len(gru.all_weights) == 4
    for weights, b in zip(rnn.all_weights, rnn.b, strict=True):
        assert [id(weight) for weight in weights] == [id(weight) for weight in b.parameters()]
    assert sum(len(weights) for weights in rnn.all_weights) == len(list(rnn.parameters()))


def test_importing_and_running_on_a_cpu_does_not_load_triton(tmp_path: Path) -> None:
    """As torch.utils.flop_counter does where there is one; the real package takes half a second."""
    package = tmp_path / "triton"
    (package / "runtime").mkdir(parents=True)
    for name, text in (("__init__.py", ""), ("runtime/__init__.py", ""), ("runtime/jit.py", "class JITFunction: pass")):
        (package / name).write_text(text)
    found = "import sys, torch; from srnn import *; shuffle_scan(torch.ones(1, 1, 1)); print('triton' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    for first, expected in (("", "False"), ("import torch.utils.flop_counter; ", "True")):
        command = [sys.executable, "-c", first + found]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        assert done.stdout.strip() == expected
