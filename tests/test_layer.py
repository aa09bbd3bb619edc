"""`SRNN` and `SRNNCell` against a plain loop of the paper's equations, and against the call of `nn.GRU`."""

import copy
import io
import pickle
import subprocess
import sys
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from test_checks import Operators
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.nn.utils import prune
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pack_sequence, pad_packed_sequence
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

import srnn
from srnn import SRNN, SRNNCell, shuffle_scan
from srnn.errors import DerivativeError, DtypeError

C, H, N, T, V = 3, 5, 4, 6, 7
LENGTHS = [T, 0, 2, 4]


def numbers(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(shape, dtype=dtype, requires_grad=True)


def layer(*args: Any, **settings: Any) -> Any:
    return SRNN(*(args or (C, H)), **{"mlp": (4,), "batch_first": True, "dtype": torch.float64, **settings})


# The equations, written for one row and one step at a time from nothing but the parameters.


def equation_b(rnn: SRNN | SRNNCell, k: int, x: Tensor) -> Tensor:
    """b(x) = f_r(x) * sigmoid(W_s x + b_s) of network k, for x [..., C]."""
    parameters = dict(rnn.named_parameters())

    def affine(name: str, x: Tensor) -> Tensor:
        product = x @ parameters[f"b.{k}.{name}.weight"].T
        return product + parameters[f"b.{k}.{name}.bias"] if rnn.bias else product

    f_r = x
    for i in range(len(rnn.mlp)):
        f_r = affine(f"mlp.{2 * i}", f_r).clamp(min=0)
    f_r = affine("linear", f_r)
    return f_r * torch.sigmoid(affine("gate", x)) if rnn.gate else f_r


def equation_P(rnn: SRNN | SRNNCell) -> Tensor:
    """The permutation as a matrix."""
    units = rnn.hidden_size
    source = [(i + 1) % units for i in range(units)] if rnn.permutation is None else rnn.permutation.tolist()
    P = torch.zeros(units, units, dtype=torch.float64)
    P[range(units), source] = 1
    return P


SIGMA: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "tanh": torch.tanh,
    "clip": nn.functional.hardtanh,  # its derivative is 0 at the bounds, where that of Tensor.clamp is 1
}


def equations(
    rnn: SRNN, x: Tensor, hx: Tensor | None = None, lengths: list[int] | None = None, reset: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """What rnn(x, hx, lengths=lengths, reset=reset) must be for x [N, T, C]: row by row, step by step, by the equation."""
    P, sigma, directions = equation_P(rnn), SIGMA[rnn.activation], 2 if rnn.bidirectional else 1
    reset = torch.zeros(x.shape[:2], dtype=torch.bool) if reset is None else reset
    hx = x.new_zeros(rnn.num_layers * directions, len(x), rnn.hidden_size) if hx is None else hx
    output, h_n = x.new_zeros(*x.shape[:2], directions * rnn.hidden_size), torch.zeros_like(hx)
    for n, end in enumerate([x.shape[1]] * len(x) if lengths is None else lengths):
        inputs = x[n, :end]
        for first in range(0, len(hx), directions):
            states = inputs.new_zeros(end, directions, rnn.hidden_size)
            for d in range(directions):
                h, b = hx[first + d, n], equation_b(rnn, first + d, inputs)
                for t in reversed(range(end)) if d else range(end):
                    if (t + 1 < end and reset[n, t + 1]) if d else reset[n, t]:
                        h = torch.zeros_like(h)
                    h = states[t, d] = sigma(P @ h + b[t])
                h_n[first + d, n] = h
            inputs = states.flatten(1)
        output[n, :end] = inputs
    return output, h_n


def assert_same(found: tuple[Tensor, ...], expected: tuple[Tensor, ...], leaves: list[Tensor]) -> None:
    """The same values, and the same gradient of a random sum of them by every leaf."""
    weights = [torch.randn_like(tensor) for tensor in expected]
    gradients = []
    for values in (found, expected):
        total = torch.stack([(w * value).sum() for w, value in zip(weights, values, strict=True)]).sum()
        gradients.append(torch.autograd.grad(total, leaves, materialize_grads=True))
    assert_close((*found, *gradients[0]), (*expected, *gradients[1]))


SETTINGS = [
    {},
    {"num_layers": 2},
    {"bidirectional": True},
    {"num_layers": 2, "bidirectional": True},
    {"num_layers": 3, "bidirectional": True, "mlp": (4, 6)},
    {"gate": False},
    {"gate": False, "num_layers": 2, "bidirectional": True},
    {"bias": False},
    {"bias": False, "gate": False, "mlp": ()},
    {"mlp": ()},
    {"mlp": [3, 2, 8]},
    {"activation": "tanh"},
    {"activation": "tanh", "num_layers": 2, "bidirectional": True, "gate": False},
    {"activation": "clip"},
    {"activation": "clip", "num_layers": 2, "bidirectional": True},
    {"permutation": "identity"},
    {"permutation": "partial"},
    {"permutation": "random"},
    {"permutation": torch.tensor([2, 0, 1, 4, 3]), "num_layers": 2, "bidirectional": True},
    {"permutation": torch.tensor([1, 0, 2, 4, 3], dtype=torch.int32), "activation": "tanh"},
]


def describe(settings: object) -> str:
    if isinstance(settings, dict):
        return "-".join(f"{k}={v.tolist() if isinstance(v, Tensor) else v}" for k, v in settings.items()) or "default"
    return str(settings)


@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["whole", "lengths"])
@pytest.mark.parametrize("settings", SETTINGS, ids=describe)
def test_the_layer_is_the_equations(settings: dict[str, Any], lengths: list[int] | None) -> None:
    rnn = layer(C, H, **settings)
    x = numbers(N, T, C)
    hx = numbers(len(rnn.b), N, H)
    assert_same(rnn(x, hx, lengths=lengths), equations(rnn, x, hx, lengths), [x, hx, *rnn.parameters()])


@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["whole", "lengths"])
@pytest.mark.parametrize("settings", SETTINGS, ids=describe)
def test_an_alphabet_is_the_equations_of_what_its_symbols_stand_for(
    settings: dict[str, Any], lengths: list[int] | None
) -> None:
    rnn = layer(C, H, **settings)
    ids, alphabet = torch.randint(0, V, (N, T)), numbers(V, C)
    hx = numbers(len(rnn.b), N, H)
    found = rnn(ids, hx, lengths=lengths, alphabet=alphabet)
    assert_same(found, equations(rnn, alphabet[ids], hx, lengths), [alphabet, hx, *rnn.parameters()])


@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["whole", "lengths"])
@pytest.mark.parametrize("symbols", [False, True], ids=["real", "symbols"])
@pytest.mark.parametrize("settings", SETTINGS, ids=describe)
def test_final_state_is_the_last_state_of_forward(settings: dict[str, Any], symbols: bool, lengths: list[int] | None) -> None:
    rnn = layer(C, H, **settings)
    alphabet = numbers(V, C) if symbols else None
    x = torch.randint(0, V, (N, T)) if symbols else numbers(N, T, C)
    hx = numbers(len(rnn.b), N, H)
    h_n = rnn.final_state(x, hx, lengths=lengths, alphabet=alphabet)
    expected = rnn(x, hx, lengths=lengths, alphabet=alphabet)[1]
    assert_same((h_n,), (expected,), [hx, x if alphabet is None else alphabet, *rnn.parameters()])


@pytest.mark.parametrize("inputs", [1, 2, 20], ids="{} inputs".format)
@pytest.mark.parametrize("symbols", [False, True], ids=["real", "symbols"])
def test_final_state_is_bit_identical_to_forward(inputs: int, symbols: bool) -> None:
    rnn = SRNN(inputs, 130, mlp=(8,), batch_first=True)
    alphabet = torch.randn(V, inputs)
    ids = torch.randint(0, V, (6, 50))
    if symbols:
        assert torch.equal(rnn.final_state(ids, alphabet=alphabet), rnn(ids, alphabet=alphabet)[1])
    else:
        assert torch.equal(rnn.final_state(alphabet[ids]), rnn(alphabet[ids])[1])


def test_output_can_be_viewed_flat_as_that_of_gru() -> None:
    x = torch.randn(7, 3, 2)
    assert SRNN(2, 5)(x)[0].view(-1, 5).shape == nn.GRU(2, 5)(x)[0].view(-1, 5).shape


@pytest.mark.parametrize(("rows", "steps", "units"), [(1, 1, 1), (2, 4, 1), (2, 1, 6), (2, 9, 3), (3, 7, 7), (2, 0, 4)])
@pytest.mark.parametrize("settings", [{}, {"num_layers": 2, "bidirectional": True}, {"activation": "tanh"}], ids=describe)
def test_any_number_of_rows_steps_and_units_works(settings: dict[str, Any], rows: int, steps: int, units: int) -> None:
    rnn = layer(C, units, **settings)
    x, hx = numbers(rows, steps, C), numbers(len(rnn.b), rows, units)
    assert_same(rnn(x, hx), equations(rnn, x, hx), [x, hx, *rnn.parameters()])
    assert_same((rnn.final_state(x, hx),), (equations(rnn, x, hx)[1],), [x, hx, *rnn.parameters()])
    ids, alphabet = torch.randint(0, V, (rows, steps)), numbers(V, C)
    assert_same(rnn(ids, hx, alphabet=alphabet), equations(rnn, alphabet[ids], hx), [alphabet, hx, *rnn.parameters()])


@pytest.mark.parametrize("steps", [0, T])
def test_no_rows_give_no_states_and_no_gradient(steps: int) -> None:
    rnn = layer(C, H, num_layers=2, bidirectional=True)
    x, ids, hx, alphabet = numbers(0, steps, C), torch.zeros(0, steps, dtype=torch.uint8), numbers(4, 0, H), numbers(V, C)
    for (output, h_n), last in (
        (rnn(x, hx, lengths=[]), rnn.final_state(x, hx)),
        (rnn(ids, hx, alphabet=alphabet), rnn.final_state(ids, hx, alphabet=alphabet)),
    ):
        assert (output.shape, h_n.shape, last.shape) == ((0, steps, 2 * H), (4, 0, H), (4, 0, H))
        (output.sum() + h_n.sum() + last.sum()).backward()
    assert not any(leaf.grad is None or leaf.grad.any() for leaf in (x, hx, alphabet, *rnn.parameters()))


def test_without_hx_the_state_starts_at_zero() -> None:
    rnn = layer(C, H, num_layers=2, bidirectional=True)
    x = numbers(N, T, C)
    assert_same(rnn(x), equations(rnn, x), [x, *rnn.parameters()])
    assert torch.equal(rnn.final_state(x), rnn.final_state(x, torch.zeros(4, N, H, dtype=torch.float64)))


@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["whole", "lengths"])
def test_batch_first_only_moves_the_batch_axis(lengths: list[int] | None) -> None:
    rnn, other = layer(C, H, num_layers=2, bidirectional=True), layer(C, H, num_layers=2, bidirectional=True, batch_first=False)
    other.load_state_dict(rnn.state_dict())
    x, hx = numbers(N, T, C), numbers(4, N, H)
    output, h_n = rnn(x, hx, lengths=lengths)
    turned, turned_h_n = other(x.transpose(0, 1), hx, lengths=lengths)
    assert_close(turned.transpose(0, 1), output)
    assert_close(turned_h_n, h_n)
    ids, alphabet = torch.randint(0, V, (N, T)), numbers(V, C)
    output, h_n = rnn(ids, hx, lengths=lengths, alphabet=alphabet)
    turned, turned_h_n = other(ids.T, hx, lengths=lengths, alphabet=alphabet)
    assert_close(turned.transpose(0, 1), output)
    assert_close(turned_h_n, h_n)


@pytest.mark.parametrize("batch_first", [False, True])
def test_one_sequence_needs_no_batch(batch_first: bool) -> None:
    rnn = layer(C, H, num_layers=2, bidirectional=True, batch_first=batch_first)
    x, hx, batch = numbers(T, C), numbers(4, H), 0 if batch_first else 1
    output, h_n = rnn(x.unsqueeze(batch), hx[:, None])
    assert_same(rnn(x, hx), (output.squeeze(batch), h_n[:, 0]), [x, hx, *rnn.parameters()])
    assert_close(rnn.final_state(x, hx), h_n[:, 0])
    output, h_n = rnn(x.unsqueeze(batch), hx[:, None], lengths=[4])
    assert_same(rnn(x, hx, lengths=4), (output.squeeze(batch), h_n[:, 0]), [x, hx, *rnn.parameters()])
    ids, alphabet = torch.randint(0, V, (T,)), numbers(V, C)
    assert_same(rnn(ids, hx, alphabet=alphabet), rnn(alphabet[ids], hx), [alphabet, hx, *rnn.parameters()])


def test_inputs_need_not_be_contiguous() -> None:
    rnn = layer()
    x, hx = numbers(C, 2 * T, N).permute(2, 1, 0)[:, ::2], numbers(N, 1, H).transpose(0, 1)
    assert_same(rnn(x, hx), equations(rnn, x, hx), list(rnn.parameters()))
    ids, alphabet = torch.randint(0, V, (T, 2 * N))[:, ::2].T, numbers(C, V).T
    assert_same(rnn(ids, hx, alphabet=alphabet), equations(rnn, alphabet[ids], hx), list(rnn.parameters()))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.int64])
def test_symbols_of_three_integer_types_work(dtype: torch.dtype) -> None:
    rnn = layer()
    ids, alphabet = torch.randint(0, V, (N, T)), numbers(V, C)
    assert_close(rnn(ids.to(dtype), alphabet=alphabet), rnn(alphabet[ids]))
    assert_close(rnn.final_state(ids.to(dtype), alphabet=alphabet), rnn.final_state(alphabet[ids]))


def test_gradients_reach_an_embedding_used_as_alphabet() -> None:
    rnn, embedding = layer(C, H, bidirectional=True), nn.Embedding(V, C, dtype=torch.float64)
    ids = torch.randint(0, V - 1, (N, T))  # the last symbol does not occur
    rnn(embedding(ids))[0].square().sum().backward()
    expected, embedding.weight.grad = embedding.weight.grad, None
    rnn(ids, alphabet=embedding.weight)[0].square().sum().backward()
    assert expected is not None
    assert expected[:-1].abs().sum() > 0
    assert_close(embedding.weight.grad, expected)


def test_second_derivatives_exist() -> None:
    rnn = layer(2, 3, num_layers=2, mlp=(3,))
    x, hx = numbers(1, 3, 2), numbers(2, 1, 3)
    assert torch.autograd.gradgradcheck(lambda x, hx: rnn(x, hx)[0], (x, hx))
    assert torch.autograd.gradgradcheck(rnn.final_state, (x, hx))


@pytest.mark.parametrize(
    "settings", [{}, {"mlp": ()}, {"gate": False}, {"num_layers": 2}, {"num_layers": 2, "bidirectional": True}]
)
@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_first_derivatives_are_the_same_when_second_ones_are_asked_for(settings: dict[str, Any], activation: str) -> None:
    """An input of the gate is also what f_r was made of: its way through f_r must not count twice."""
    rnn, x = layer(C, H, activation=activation, **settings), numbers(N, T, C)
    weight, wanted = numbers(N, T, H * (2 if rnn.bidirectional else 1)), [x, *rnn.parameters()]
    for result in (lambda: (rnn(x)[0] * weight).sum(), lambda: rnn.final_state(x).square().sum()):
        expected = torch.autograd.grad(result(), wanted)
        found = torch.autograd.grad(result(), wanted, create_graph=True)
        for a, b in zip(found, expected, strict=True):
            assert_close(a, b)


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")  # which torch's own jvp calls
def test_derivatives_forward_are_those_backward() -> None:
    rnn, x, v = layer(C, H, num_layers=2), numbers(N, T, C), numbers(N, T, C).detach()
    ids, alphabet = torch.randint(0, V, (N, T)), numbers(V, C)
    for call, point, along in (
        (lambda x: rnn(x)[0], x, v),
        (rnn.final_state, x, v),
        (lambda alphabet: rnn(ids, alphabet=alphabet)[0], alphabet, torch.randn_like(alphabet)),
    ):
        vjp = torch.autograd.functional.vjp(call, point, torch.ones_like(call(point)))[1]
        for jvp in (torch.func.jvp(call, (point.detach(),), (along,))[1], _by_dual_numbers(call, point.detach(), along)):
            assert jvp.any()
            assert_close(jvp.sum(), (vjp * along).sum())
    with forward_ad.dual_level(), pytest.raises(DerivativeError, match="backend 'torch' has no derivatives forward"):
        shuffle_scan(forward_ad.make_dual(x.detach(), v), backend="torch")


def test_derivatives_by_torch_func_are_those_of_autograd() -> None:
    rnn, x = layer(num_layers=2), numbers(N, T, C)
    ids, alphabet = torch.randint(0, V, (N, T)), numbers(V, C).detach()
    weights = {name: parameter.detach() for name, parameter in rnn.named_parameters()}

    def loss(weights: Any, *given: Any, **more: Any) -> Tensor:
        return torch.func.functional_call(rnn, weights, given, more)[0].square().sum()

    rnn(x)[0].square().sum().backward()
    found = torch.func.grad(loss)(weights, x.detach())
    for name, parameter in rnn.named_parameters():
        assert_close(found[name], parameter.grad)
    each = torch.func.vmap(torch.func.grad(loss), (None, 0))(weights, x.detach()[:, None])
    assert_close({name: grad.sum(0) for name, grad in each.items()}, found)
    symbols = torch.func.vmap(torch.func.grad(lambda weights, ids: loss(weights, ids, alphabet=alphabet)), (None, 0))(
        weights, ids[:, None]
    )
    whole = torch.func.grad(lambda weights: loss(weights, ids, alphabet=alphabet))(weights)
    assert_close({name: grad.sum(0) for name, grad in symbols.items()}, whole)
    b = numbers(1, T, H)
    assert_close(
        torch.func.jacrev(lambda b: shuffle_scan(b, final=True))(b.detach()),
        torch.autograd.functional.jacobian(lambda b: shuffle_scan(b, final=True), b),
    )
    with pytest.raises(DerivativeError, match=r"backend 'torch' has no derivatives forward or by torch\.func"):
        torch.func.grad(lambda b: shuffle_scan(b, backend="torch").sum())(b.detach())


def _by_dual_numbers(call: Any, point: Tensor, along: Tensor) -> Tensor:
    with forward_ad.dual_level(), torch.no_grad():
        tangent = forward_ad.unpack_dual(call(forward_ad.make_dual(point, along))).tangent
        assert tangent is not None
        return tangent


def test_a_linear_map_that_was_pruned_or_hooked_is_called() -> None:
    rnn, x = layer(), numbers(N, T, C)
    linear, same = rnn.b[0].linear, copy.deepcopy(rnn)
    prune.l1_unstructured(linear, "weight", 0.5)
    for factor in (1.0, 2.0):  # the mask is applied at every call
        linear.weight_orig.data.mul_(factor)
        same.b[0].linear.weight.data.copy_(linear.weight_orig * linear.weight_mask)
        output = rnn(x)[0]
        assert_close(output, same(x)[0])
        output.sum().backward()
    seen: list[Any] = []
    plain = layer()
    plain.b[0].gate.register_forward_hook(lambda *about: seen.append(about))
    plain(x)
    plain.final_state(x)
    assert len(seen) == 2


@pytest.mark.parametrize("name", ["mlp.0", "mlp.1", "linear", "gate"])
def test_hooks_of_all_kinds_are_called_on_every_map(name: str) -> None:
    plain, x = layer(), numbers(N, T, C)
    expected = plain(x)[0]
    for register in ("register_forward_pre_hook", "register_full_backward_pre_hook", "register_full_backward_hook"):
        rnn = copy.deepcopy(plain)
        seen: list[Any] = []
        getattr(rnn.b[0].get_submodule(name), register)(lambda *about, seen=seen: seen.append(about))
        output = rnn(x)[0]
        assert_close(output, expected)
        output.sum().backward()
        assert len(seen) == 1
    rnn, outputs = layer(), []
    rnn.b[0].mlp[0].register_forward_hook(lambda module, inputs, output: outputs.append(output))
    rnn(x)
    assert outputs[0].min() < 0  # as it was, before ReLU
    rnn = layer()
    rnn.b[0].linear.forward = lambda z: torch.zeros(*z.shape[:-1], H, dtype=z.dtype)
    assert not rnn(x)[0].any()


def test_a_quantised_layer_runs() -> None:
    rnn, x = layer(dtype=torch.float32), torch.randn(N, T, C)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it will move to another package
        small = torch.ao.quantization.quantize_dynamic(nn.Sequential(rnn), {nn.Linear})[0]
    assert type(small.b[0].linear) is not nn.Linear
    assert_close(small(x)[0], rnn(x)[0], atol=0.2, rtol=0.2)
    assert_close(small.final_state(x), small(x)[1])
    with pytest.raises(DtypeError, match="float32"):
        small(x.double())


@pytest.mark.parametrize("name", ["identity", "partial"])
def test_a_named_permutation_survives_to_empty(name: str) -> None:
    rnn = layer(permutation=name)
    empty = layer(permutation=name, device="meta").to_empty(device="cpu")
    assert empty.permutation.tolist() == rnn.permutation.tolist()
    empty.load_state_dict(rnn.state_dict())
    x = numbers(N, T, C)
    assert_close(empty(x)[0], rnn(x)[0])


def test_a_replica_without_parameters_runs() -> None:
    """As nn.DataParallel makes them: weights are attributes there, and `parameters()` is empty."""
    rnn, x = layer(), numbers(N, T, C)
    replica = copy.deepcopy(rnn)
    for module in replica.modules():
        for name, parameter in list(module._parameters.items()):
            del module._parameters[name]
            if parameter is not None:
                object.__setattr__(module, name, parameter.detach())
    assert not list(replica.parameters())
    assert_close(replica(x), rnn(x))


# Lengths and packed sequences.


def test_each_row_of_a_padded_or_packed_batch_is_as_it_would_be_alone() -> None:
    rnn = layer(C, H, num_layers=2, bidirectional=True)
    lengths = [3, T, 1, 4]
    x, hx = numbers(N, T, C), numbers(4, N, H)
    packed = pack_padded_sequence(x, torch.tensor(lengths), batch_first=True, enforce_sorted=False)
    output, h_n = rnn(x, hx, lengths=lengths)
    packed_output, packed_h_n = rnn(packed, hx)
    assert isinstance(packed_output, PackedSequence)
    unpacked, found = pad_packed_sequence(packed_output, batch_first=True)
    assert found.tolist() == lengths
    for n, length in enumerate(lengths):
        alone, alone_h_n = rnn(x[n, :length], hx[:, n])
        for rows, last in ((output, h_n), (unpacked, packed_h_n)):
            assert_close(rows[n, :length], alone)
            assert_close(last[:, n], alone_h_n)
            assert not rows[n, length:].any()
    assert_same((unpacked, packed_h_n), (output, h_n), [x, hx, *rnn.parameters()])
    assert_close(rnn.final_state(packed, hx), h_n)
    assert_close(rnn.final_state(x, hx, lengths=lengths), h_n)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.int64])
@pytest.mark.parametrize("enforce_sorted", [True, False])
def test_symbols_can_be_packed(enforce_sorted: bool, dtype: torch.dtype) -> None:
    rnn, alphabet = layer(C, H, num_layers=2, bidirectional=True), numbers(V, C)
    lengths = [5, 3, 2] if enforce_sorted else [3, 5, 2]
    rows = [torch.randint(0, V, (length,), dtype=dtype) for length in lengths]
    hx = numbers(4, 3, H)
    output, h_n = rnn(pack_sequence(rows, enforce_sorted), hx, alphabet=alphabet)
    expected, expected_h_n = rnn(pack_sequence([alphabet[row.long()] for row in rows], enforce_sorted), hx)
    assert_same((output.data, h_n), (expected.data, expected_h_n), [alphabet, hx, *rnn.parameters()])


def test_packed_sequences_compile_without_a_warning() -> None:
    rnn = layer(C, H, bidirectional=True)
    compiled = torch.compile(rnn, backend="eager")
    for lengths in ([5, 3, 2], [3, 5]):
        packed = pack_sequence([torch.randn(length, C, dtype=torch.float64) for length in lengths], enforce_sorted=False)
        (output, h_n), (expected, expected_h_n) = compiled(packed), rnn(packed)
        assert_close((output.data, h_n), (expected.data, expected_h_n))


@pytest.mark.parametrize("given", [torch.tensor(LENGTHS), torch.tensor(LENGTHS, dtype=torch.int16), LENGTHS, tuple(LENGTHS)])
def test_lengths_may_be_a_tensor_or_a_sequence(given: Any) -> None:
    rnn, x = layer(), numbers(N, T, C)
    assert_close(rnn(x, lengths=given), equations(rnn, x, lengths=LENGTHS))


def test_nothing_comes_from_or_goes_to_steps_beyond_the_length() -> None:
    rnn = layer(C, H, num_layers=2, bidirectional=True)
    clean, hx = numbers(N, T, C), numbers(4, N, H)
    beyond = torch.arange(T) >= torch.tensor(LENGTHS)[:, None]
    dirty = clean.detach().masked_fill(beyond[..., None], float("nan")).requires_grad_()
    results = []
    for x in (clean, dirty):
        output, h_n = rnn(x, hx, lengths=LENGTHS)
        assert not output[beyond].any()
        assert torch.equal(h_n[:, 1], hx[:, 1])  # the row of length 0
        gradient, *others = torch.autograd.grad(output.square().sum() + h_n.square().sum(), [x, hx, *rnn.parameters()])
        assert not gradient[beyond].any()
        results.append([output, h_n, gradient, *others])
    assert_close(*results)
    ids, alphabet = torch.randint(0, V, (N, T)), numbers(V, C)
    assert_close(
        rnn(ids.masked_fill(beyond, -1), hx, lengths=LENGTHS, alphabet=alphabet),
        rnn(ids, hx, lengths=LENGTHS, alphabet=alphabet),
    )


# One step at a time.


@pytest.mark.parametrize(
    "settings", [{}, {"num_layers": 3, "permutation": "random"}, {"activation": "tanh", "gate": False}], ids=describe
)
def test_steps_and_chunks_and_the_whole_agree(settings: dict[str, Any]) -> None:
    rnn = layer(C, H, **settings)
    x, hx = numbers(N, T, C), numbers(len(rnn.b), N, H)
    leaves = [x, hx, *rnn.parameters()]

    h, outputs = hx, []
    for chunk in x.split([1, 3, 2], dim=1):
        output, h = rnn(chunk, h)
        outputs.append(output)
    assert_same((torch.cat(outputs, dim=1), h), rnn(x, hx), leaves)

    h, outputs = hx, []
    for x_t in x.unbind(1):
        h = rnn.step(x_t, h)
        outputs.append(h[-1])
    assert_same((torch.stack(outputs, dim=1), h), rnn(x, hx), leaves)

    assert_close(rnn.step(x[:, 0]), rnn(x[:, :1])[1])
    assert_close(rnn.step(x[0, 0], hx[:, 0]), rnn(x[0, :1], hx[:, 0])[1])


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"gate": False, "bias": False},
        {"mlp": ()},
        {"activation": "tanh"},
        {"activation": "clip"},
        {"permutation": "identity"},
        {"permutation": "random"},
    ],
    ids=describe,
)
def test_the_cell_is_the_equation(settings: dict[str, Any]) -> None:
    cell = SRNNCell(C, H, **{"mlp": (4, 2), "dtype": torch.float64, **settings})
    x, h = numbers(N, C), numbers(N, H)
    expected = SIGMA[cell.activation](h @ equation_P(cell).T + equation_b(cell, 0, x))
    assert_same((cell(x, h),), (expected,), [x, h, *cell.parameters()])
    assert_close(cell(x[0], h[0]), expected[0])
    assert_close(cell(x), cell(x, torch.zeros_like(h)))


# Resets.

RESET = torch.tensor([[1, 0, 0, 1, 0, 0], [1, 1, 1, 1, 1, 1], [0, 1, 0, 1, 0, 0], [0, 0, 0, 0, 0, 1]], dtype=torch.bool)


@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["whole", "lengths"])
@pytest.mark.parametrize("settings", SETTINGS, ids=describe)
def test_a_layer_with_resets_is_the_equations_of_separate_sequences(
    settings: dict[str, Any], lengths: list[int] | None
) -> None:
    rnn = layer(C, H, **settings)
    x, hx = numbers(N, T, C), numbers(len(rnn.b), N, H)
    leaves = [x, hx, *rnn.parameters()]
    assert_same(rnn(x, hx, lengths=lengths, reset=RESET), equations(rnn, x, hx, lengths, RESET), leaves)
    h_n = rnn.final_state(x, hx, lengths=lengths, reset=RESET)
    assert_same((h_n,), equations(rnn, x, hx, lengths, RESET)[1:], leaves)


def test_resets_are_taken_in_every_form_of_input() -> None:
    rnn, hx, lengths = layer(C, H, 2, bidirectional=True), numbers(4, N, H), torch.tensor([4, 1, T, 4])
    x = numbers(N, T, C)
    expected, h_n = rnn(x, hx, reset=RESET)
    time_first = layer(C, H, 2, bidirectional=True, batch_first=False)
    time_first.load_state_dict(rnn.state_dict())
    found = time_first(x.transpose(0, 1), hx, reset=RESET.T)
    assert_close((found[0].transpose(0, 1), found[1]), (expected, h_n))
    assert_close(rnn(x[0], hx[:, 0], reset=RESET[0]), (expected[0], h_n[:, 0]))

    packed, mask = (pack_padded_sequence(t, lengths, batch_first=True, enforce_sorted=False) for t in (x, RESET))
    output, h_packed = rnn(packed, hx, reset=mask)
    assert_close((pad_packed_sequence(output, batch_first=True)[0], h_packed), rnn(x, hx, lengths=lengths, reset=RESET))
    ids, alphabet = torch.randint(V, (N, T)), numbers(V, C)
    assert_close(rnn(ids, hx, alphabet=alphabet, reset=RESET), rnn(alphabet[ids], hx, reset=RESET))


def test_a_step_with_a_reset_begins_from_zeros() -> None:
    rnn, x, h = layer(C, H, 2), numbers(N, C), numbers(2, N, H)
    mask = torch.tensor([True, False, True, False])
    assert_same((rnn.step(x, h, reset=mask),), (rnn.step(x, h * ~mask[:, None]),), [x, h, *rnn.parameters()])
    assert_close(rnn.step(x[0], h[:, 0], reset=torch.tensor(True)), rnn.step(x[0]))
    assert_close(rnn.step(x, h, mask), rnn(x[:, None], h, reset=mask[:, None])[1])


def test_resets_work_in_a_compiled_graph_and_in_an_exported_program() -> None:
    rnn = layer(C, H, bidirectional=True)
    x, hx = torch.randn(N, T, C).double(), torch.randn(2, N, H).double()
    torch.compiler.reset()
    compiled = torch.compile(lambda x, hx, reset: rnn(x, hx, reset=reset), fullgraph=True, backend="aot_eager")
    assert_close(compiled(x, hx, RESET), rnn(x, hx, reset=RESET))
    with pytest.raises(Exception, match=r"reset must have the shape \(4, 6\)"):
        compiled(x, hx, RESET[:, :5])

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn = rnn

        def forward(self, x: Tensor, reset: Tensor) -> Any:
            return self.rnn(x, reset=reset)

    axes = {0: torch.export.Dim("N"), 1: torch.export.Dim("T")}
    program = torch.export.export(Model(), (x, RESET), dynamic_shapes={"x": axes, "reset": axes}).module()
    longer, mask = torch.randn(7, 70, C).double(), torch.rand(7, 70) < 0.2
    assert_close(program(longer, mask), rnn(longer, reset=mask))


# One step by one operator.

needs_native = pytest.mark.skipif(
    srnn.kernels.auto_backend() != "native", reason="the step is one operator where it is compiled"
)


@needs_native
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("rows", [1, 16])
def test_a_step_is_one_operator(rows: int, dtype: torch.dtype) -> None:
    rnn, cell = SRNN(C, H, dtype=dtype), SRNNCell(C, H, dtype=dtype)
    x, h = torch.randn(rows, C, dtype=dtype), torch.randn(rows, H, dtype=dtype)
    for call, args in ((rnn.step, (x, h[None])), (cell, (x, h)), (rnn.step, (x[0], h[:1]))):
        with torch.no_grad(), Operators() as ran:
            call(*args)
        assert ran.names == ["srnn::cell"]
    with torch.no_grad(), Operators() as ran:
        rnn(x[None], h[None])
    assert [name for name in ran.names if name.startswith("srnn")] == ["srnn::cell"]
    assert not [name for name in ran.names if "mm" in name]


@needs_native
def test_a_layer_step_is_one_operator_for_each_layer() -> None:
    rnn = SRNN(C, H, 3)
    with torch.no_grad(), Operators() as ran:
        rnn.step(torch.randn(N, C), torch.randn(3, N, H))
    assert [name for name in ran.names if name.startswith("srnn")] == ["srnn::cell"] * 3


@pytest.mark.parametrize("batch_first", [False, True], ids=["time first", "batch first"])
@pytest.mark.parametrize("given_hx", [False, True], ids=["zeros", "hx"])
def test_a_forward_of_one_step_equals_the_equations_and_shares_no_memory(batch_first: bool, given_hx: bool) -> None:
    rnn = layer(C, H, batch_first=batch_first)
    x, hx = numbers(N, 1, C), numbers(1, N, H) if given_hx else None
    leaves = [x, *([hx] if hx is not None else []), *rnn.parameters()]
    expected, h_n = equations(rnn, x, hx)
    expected = expected if batch_first else expected.transpose(0, 1)
    output, found_h_n = rnn(x if batch_first else x.transpose(0, 1), hx)
    assert output.is_contiguous()
    assert_same((output, found_h_n), (expected, h_n), leaves)
    with torch.no_grad():
        output += 1
    assert_close(found_h_n, h_n)


def test_a_step_has_second_derivatives() -> None:
    cell, x, h = SRNNCell(C, H, mlp=(4,), activation="tanh", dtype=torch.float64), numbers(2, C), numbers(2, H)
    assert torch.autograd.gradcheck(cell, (x, h))
    assert torch.autograd.gradgradcheck(cell, (x, h))
    names = [name for name, _ in cell.named_parameters()]

    def of_weights(*weights: Tensor) -> Tensor:
        return torch.func.functional_call(cell, dict(zip(names, weights, strict=True)), (x, h))

    assert torch.autograd.gradgradcheck(of_weights, tuple(cell.parameters()))


def test_a_step_gives_only_the_gradients_that_are_asked_for() -> None:
    cell, x, h = SRNNCell(C, H, dtype=torch.float64), numbers(2, C).detach(), numbers(2, H).detach()
    cell.requires_grad_(False)
    cell.b[0].gate.bias.requires_grad_()
    cell(x, h).sum().backward()
    assert [name for name, p in cell.named_parameters() if p.grad is not None] == ["b.0.gate.bias"]


def test_hooks_of_the_parts_are_called_in_a_step() -> None:
    cell, x, h = SRNNCell(C, H, dtype=torch.float64), numbers(2, C), numbers(2, H)
    expected, called = cell(x, h), []
    cell.b[0].mlp[1].register_forward_hook(lambda *args: called.append("relu"))
    cell.b[0].gate.register_forward_hook(lambda *args: called.append("gate"))
    cell.b[0].mlp.register_forward_hook(lambda *args: called.append("mlp"))
    assert_close(cell(x, h), expected)
    assert sorted(called) == ["gate", "mlp", "relu"]


@pytest.mark.parametrize("part", ["mlp.0", "linear", "gate"])
def test_a_removed_bias_is_not_used_in_a_step(part: str) -> None:
    cell, x, h = SRNNCell(C, H, dtype=torch.float64), numbers(2, C), numbers(2, H)
    linear: Any = cell.b[0].get_submodule(part)
    with torch.no_grad():
        linear.bias.zero_()
    expected = cell(x, h)
    linear.bias = None
    assert_close(cell(x, h), expected)


def test_a_step_of_a_pruned_layer_uses_the_mask() -> None:
    cell, x, h = SRNNCell(C, H, dtype=torch.float64), numbers(2, C), numbers(2, H)
    before = cell(x, h)
    prune.l1_unstructured(cell.b[0].linear, "weight", amount=0.5)
    pruned = cell(x, h)
    assert not torch.allclose(pruned, before)
    prune.remove(cell.b[0].linear, "weight")
    assert_close(cell(x, h), pruned)


def test_many_rows_take_the_products_of_torch() -> None:
    cell, rows = SRNNCell(C, H), srnn.kernels.CELL_ROWS + 1
    with torch.no_grad(), Operators() as ran:
        found = cell(torch.ones(rows, C), torch.ones(rows, H))
    assert "srnn::cell" not in ran.names
    assert_close(found[:1], cell(torch.ones(1, C), torch.ones(1, H)))


def test_a_cell_and_a_layer_exchange_their_weights() -> None:
    rnn, cell = layer(C, H, permutation="random"), SRNNCell(C, H, mlp=(4,), permutation="random", dtype=torch.float64)
    cell.load_state_dict(rnn.state_dict())
    x, h = numbers(N, C), numbers(N, H)
    assert_close(cell(x, h), rnn.step(x, h[None])[0])


# Start values.


@pytest.mark.parametrize("again", [False, True], ids=["constructed", "reset"])
@pytest.mark.parametrize(
    ("kind", "settings"),
    [(SRNN, {}), (SRNN, {"num_layers": 2, "bidirectional": True}), (SRNN, {"mlp": ()}), (SRNNCell, {})],
    ids=describe,
)
def test_gate_init_is_added_to_the_drawn_bias_of_every_gate_and_to_nothing_else(
    kind: Any, settings: dict[str, Any], again: bool
) -> None:
    settings = {"mlp": (4,), **settings}

    def parameters(gate_init: float) -> dict[str, Tensor]:
        torch.manual_seed(3)
        module = kind(C, H, dtype=torch.float64, gate_init=gate_init, **settings)
        if again:
            torch.manual_seed(3)
            module.reset_parameters()
        return dict(module.named_parameters())

    paper, closed = parameters(0.0), parameters(-3)
    gates = [name for name in paper if name.endswith("gate.bias")]
    assert len(gates) == settings.get("num_layers", 1) * (2 if settings.get("bidirectional") else 1)
    for name, value in paper.items():
        assert_close(closed[name], value - 3 if name in gates else value, rtol=0, atol=1e-15)


@pytest.mark.parametrize("kind", [SRNN, SRNNCell])
def test_gate_init_none_is_the_default_of_the_library(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("srnn.layer.GATE_INIT", -1.5)
    bias = []
    for gate_init in (None, -1.5):
        torch.manual_seed(3)
        module = kind(C, H, gate_init=gate_init)
        bias.append(module.b[0].gate.bias)
        assert module.gate_init is gate_init
    assert torch.equal(*bias)
    assert bias[0].max() < -0.5  # nn.Linear draws from -0.58 to 0.58
    for without in ({"gate": False}, {"bias": False}):
        kind(C, H, **without)  # has no such bias, and needs none


# The place of nn.GRU.


def test_arguments_by_position_are_in_the_order_of_torch() -> None:
    given = (3, 4, 2, True, True, 0.1, True)
    rnn, gru = SRNN(*given), nn.GRU(*given)
    names = ("input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout", "bidirectional")
    assert [getattr(rnn, name) for name in names] == [getattr(gru, name) for name in names] == list(given)
    x = torch.randn(N, T, 3)
    assert [value.shape for value in rnn(x)] == [value.shape for value in gru(x)]
    assert SRNN(3, 4, 1, False).bias is False
    with pytest.raises(TypeError, match="positional"):
        SRNN(*given, (8,))  # type: ignore[call-arg]


def test_a_cell_takes_the_arguments_of_nn_gru_cell() -> None:
    cell, gru = SRNNCell(10, 20, False), nn.GRUCell(10, 20, False)
    assert not cell.bias
    assert not any(name.endswith("bias") for name, _ in cell.named_parameters())
    x, h = torch.randn(N, 10), torch.randn(N, 20)
    assert cell(input=x, hx=h).shape == gru(input=x, hx=h).shape
    assert torch.equal(cell(input=x, hx=h), cell(x, h))
    with pytest.raises(TypeError, match="positional"):
        SRNNCell(10, 20, False, (8,))  # type: ignore[call-arg]


@pytest.mark.parametrize("given_hx", [False, True], ids=["zeros", "hx"])
@pytest.mark.parametrize("form", ["batched", "unbatched", "packed", "packed unsorted"])
@pytest.mark.parametrize("batch_first", [False, True], ids=["time first", "batch first"])
@pytest.mark.parametrize("bidirectional", [False, True], ids=["forward", "bidirectional"])
@pytest.mark.parametrize("num_layers", [1, 2])
def test_every_call_of_gru_gives_the_same_shapes(
    num_layers: int, bidirectional: bool, batch_first: bool, form: str, given_hx: bool
) -> None:
    settings: dict[str, Any] = {"batch_first": batch_first, "bidirectional": bidirectional}
    gru, rnn = nn.GRU(C, H, num_layers, **settings), SRNN(C, H, num_layers, **settings)
    shape = (T, C) if form == "unbatched" else (N, T, C) if batch_first else (T, N, C)
    x: Any = torch.randn(shape)
    if form.startswith("packed"):
        lengths = torch.tensor([T, 4, 4, 1] if form == "packed" else [4, 1, T, 4])
        x = pack_padded_sequence(x, lengths, batch_first, enforce_sorted=form == "packed")
    states = num_layers * (2 if bidirectional else 1)
    hx = (torch.randn((states, H) if form == "unbatched" else (states, N, H)),) if given_hx else ()
    (output, h_n), (expected, expected_h_n) = rnn(x, *hx), gru(x, *hx)
    assert type(output) is type(expected)
    assert h_n.shape == expected_h_n.shape
    if isinstance(output, PackedSequence):
        assert output.data.shape == expected.data.shape
        assert_close(list(output[1:]), list(expected[1:]))
    else:
        assert output.shape == expected.shape


def test_the_layer_has_the_attributes_and_methods_of_gru() -> None:
    gru = nn.GRU(C, H, num_layers=2, bias=False, batch_first=True, dropout=0.25, bidirectional=True)
    rnn = SRNN(C, H, num_layers=2, bias=False, batch_first=True, dropout=0.25, bidirectional=True)
    for name in ("input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout", "bidirectional"):
        assert getattr(rnn, name) == getattr(gru, name)
    before = copy.deepcopy(rnn.state_dict())
    rnn.flatten_parameters()
    assert_close(dict(rnn.state_dict()), dict(before))
    rnn.reset_parameters()
    assert all((value != before[name]).any() for name, value in rnn.state_dict().items())


@pytest.mark.parametrize(
    ("settings", "count"),
    [
        ({"mlp": (32, 32, 32)}, 48_266 - 10_250),
        ({"mlp": (32,)}, 64 + 1024 * 33 + 1024 * 2),
        ({"mlp": (32,), "gate": False}, 64 + 1024 * 33),
        ({"mlp": (32,), "bias": False}, 32 + 1024 * 32 + 1024),
        ({"mlp": ()}, 2 * 1024 * 2),
        ({"mlp": (), "bidirectional": True}, 2 * 2 * 1024 * 2),
        ({"mlp": (), "num_layers": 2, "bidirectional": True}, 2 * 2 * 1024 * 2 + 2 * 2 * 1024 * 2049),
        ({"mlp": (32,), "permutation": "random"}, 64 + 1024 * 33 + 1024 * 2),
    ],
    ids=describe,
)
def test_the_parameters_are_those_of_the_equations(settings: dict[str, Any], count: int) -> None:
    assert sum(p.numel() for p in SRNN(1, 1024, **settings).parameters()) == count


def test_weights_start_as_those_of_linear_do() -> None:
    torch.manual_seed(1)
    linears = [nn.Linear(C, 4), nn.Linear(4, 2), nn.Linear(2, H), nn.Linear(C, H)]
    expected = [parameter for linear in linears for parameter in linear.parameters()]
    for permutation in ("shift", "random"):  # the weights do not depend on it
        torch.manual_seed(1)
        assert_close(list(SRNN(C, H, mlp=(4, 2), gate_init=0.0, permutation=permutation).parameters()), expected)


# The permutation.


def test_a_random_permutation_is_drawn_by_the_seed() -> None:
    drawn = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        drawn.append(layer(C, 50, permutation="random").permutation)
    assert sorted(drawn[0].tolist()) == list(range(50))
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])


@pytest.mark.parametrize("permutation", ["random", torch.tensor([4, 3, 2, 1, 0])], ids=["random", "given"])
def test_the_state_dict_restores_the_permutation(permutation: str | Tensor) -> None:
    rnn, other = layer(C, H, permutation=permutation), layer(C, H, permutation="random")
    x = numbers(N, T, C)
    assert not torch.equal(rnn.permutation, other.permutation)
    file = io.BytesIO()
    torch.save(rnn.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file))
    assert torch.equal(rnn.permutation, other.permutation)
    assert_close(other(x), rnn(x), rtol=0, atol=0)
    with pytest.raises(RuntimeError, match="permutation"):
        layer().load_state_dict(rnn.state_dict())


def test_a_named_permutation_needs_no_place_in_the_state_dict() -> None:
    for name in ("shift", "partial", "identity"):
        assert "permutation" not in layer(C, H, permutation=name).state_dict()


def test_identity_leaves_every_unit_in_its_place() -> None:
    assert layer(C, H, permutation="identity").permutation.tolist() == list(range(H))


@pytest.mark.parametrize(("H", "index"), [(1, [0]), (3, [0, 2, 1]), (5, [0, 1, 3, 4, 2]), (8, [0, 1, 2, 3, 5, 6, 7, 4])])
def test_partial_leaves_half_of_the_units_in_place_and_shifts_the_others(H: int, index: list[int]) -> None:
    assert layer(C, H, permutation="partial").permutation.tolist() == index


def test_a_given_permutation_is_copied() -> None:
    given = torch.tensor([4, 3, 2, 1, 0])
    rnn = layer(C, H, permutation=given)
    given[0] = 0
    assert rnn.permutation.tolist() == [4, 3, 2, 1, 0]


# Copies, devices, dtypes, modes.


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda rnn: pickle.loads(pickle.dumps(rnn))], ids=["deepcopy", "pickle"])
def test_a_copy_of_the_layer_computes_the_same(copied: Callable[[SRNN], SRNN]) -> None:
    rnn = layer(C, H, num_layers=2, bidirectional=True, permutation="random")
    x = numbers(N, T, C)
    other = copied(rnn)
    assert_close(other(x), rnn(x), rtol=0, atol=0)
    assert repr(other) == repr(rnn)
    next(other.parameters()).data.zero_()
    assert next(rnn.parameters()).any()


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        (SRNN(C, H), "3, 5"),
        (SRNN(1, 1024, mlp=(32, 32, 32), batch_first=True), "1, 1024, batch_first=True, mlp=(32, 32, 32)"),
        (
            SRNN(C, H, 2, gate=False, activation="tanh", bias=False, dropout=0.5, permutation="random"),
            "3, 5, num_layers=2, bias=False, dropout=0.5, gate=False, activation='tanh', permutation='random'",
        ),
        (SRNN(C, 2, mlp=[8], permutation=torch.tensor([1, 0])), "3, 2, mlp=(8,), permutation='given'"),
        (SRNN(C, H, gate_init=-3), "3, 5, gate_init=-3.0"),
        (SRNN(C, H, gate_init=0.0), "3, 5, gate_init=0.0"),
        (SRNNCell(C, H), "3, 5"),
        (SRNNCell(C, H, gate_init=-2.5), "3, 5, gate_init=-2.5"),
        (SRNNCell(C, H, mlp=(8,), permutation="identity"), "3, 5, mlp=(8,), permutation='identity'"),
    ],
)
def test_the_repr_names_what_is_not_default(module: nn.Module, expected: str) -> None:
    assert module.extra_repr() == expected
    assert repr(module).startswith(f"{type(module).__name__}(\n  {expected}\n")


TOLERANCE: dict[torch.dtype, dict[str, Any]] = {
    torch.bfloat16: {"rtol": 5e-2, "atol": 5e-2},
    torch.float16: {"rtol": 1e-2, "atol": 1e-2},
}


@pytest.mark.parametrize("settings", [{}, {"activation": "tanh"}, {"num_layers": 2, "bidirectional": True}], ids=describe)
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_half_precision_is_near_to_single(dtype: torch.dtype, settings: dict[str, Any]) -> None:
    rnn = layer(C, H, **settings, dtype=dtype)
    single = copy.deepcopy(rnn).float()
    x, alphabet = numbers(N, T, C, dtype=dtype), numbers(V, C, dtype=dtype)
    ids = torch.randint(0, V, (N, T))
    for inputs in ({"input": x}, {"input": ids, "alphabet": alphabet}):
        output, h_n = rnn(**inputs)
        expected, expected_h_n = single(**{name: t.float() if t.is_floating_point() else t for name, t in inputs.items()})
        assert output.dtype == h_n.dtype == rnn.final_state(**inputs).dtype == dtype
        assert_close(output.float(), expected, **TOLERANCE[dtype])
        assert_close(h_n.float(), expected_h_n, **TOLERANCE[dtype])
        for parameters, result in ((rnn.parameters(), output), (single.parameters(), expected)):
            for parameter in parameters:
                parameter.grad = None
            result.sum().backward()
        for parameter, other in zip(rnn.parameters(), single.parameters(), strict=True):
            assert parameter.grad is not None
            assert other.grad is not None
            assert (parameter.grad.float() - other.grad).norm() <= TOLERANCE[dtype]["rtol"] * (other.grad.norm() + 1)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_autocast_decides_the_dtype(dtype: torch.dtype) -> None:
    rnn = layer(C, H, num_layers=2, mlp=(), dtype=torch.float32)
    x, hx, alphabet = (numbers(*shape, dtype=torch.float32) for shape in ((N, T, C), (2, N, H), (V, C)))
    ids = torch.randint(0, V, (N, T))
    with torch.autocast("cpu", dtype=dtype):
        found = [*rnn(x, hx), rnn.final_state(x, hx), rnn.step(x[:, 0], hx)]
        found += [*rnn(ids, hx, alphabet=alphabet), rnn.final_state(ids, hx, alphabet=alphabet)]
        found += [rnn(x.to(dtype), hx.double())[0]]
    expected = [*rnn(x, hx), rnn.final_state(x, hx), rnn.step(x[:, 0], hx)]
    expected += [*rnn(ids, hx, alphabet=alphabet), rnn.final_state(ids, hx, alphabet=alphabet), expected[0]]
    assert {tensor.dtype for tensor in found} == {dtype}
    for one, other in zip(found, expected, strict=True):
        assert_close(one.float(), other, **TOLERANCE[dtype])
    gradients = torch.autograd.grad(found[0].sum() + found[4].sum(), [x, hx, alphabet, *rnn.parameters()])
    assert {gradient.dtype for gradient in gradients} == {torch.float32}


def test_autocast_leaves_double_precision_alone() -> None:
    rnn, x = layer(C, H), numbers(N, T, C)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert_close(rnn(x), rnn(x.detach()), rtol=0, atol=0)
        assert rnn(x)[0].dtype == torch.float64


def test_device_and_dtype_are_honoured() -> None:
    rnn = layer(C, H, 2, bidirectional=True, permutation="random", device="meta", dtype=torch.float16)
    assert {(p.device.type, p.dtype) for p in rnn.parameters()} == {("meta", torch.float16)}
    assert rnn.permutation.device.type == "meta"
    assert layer(C, H, permutation="random").half().permutation.dtype == torch.int64


def test_the_layer_works_without_gradients() -> None:
    rnn, x = layer(C, H, num_layers=2, bidirectional=True), numbers(N, T, C)
    expected = rnn(x)
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            assert_close(rnn(x), tuple(t.detach() for t in expected))
            assert not rnn.final_state(x).requires_grad


def test_dropout_acts_between_layers_in_training() -> None:
    rnn = layer(C, H, num_layers=3, dropout=1.0)
    top = layer(H, H)
    top.load_state_dict({name.replace("b.2.", "b.0."): value for name, value in rnn.state_dict().items() if "b.2." in name})
    x = numbers(N, T, C)
    output, h_n = rnn(x)
    assert_close(output, top(torch.zeros(N, T, H, dtype=torch.float64))[0])  # the layer below was dropped whole
    assert_close(h_n[0], equations(rnn, x)[1][0])  # the inputs, and the states themselves, were not
    assert_close(rnn.final_state(x), h_n)
    assert_close(rnn.step(x[:, 0]), rnn(x[:, :1])[1])
    rnn.dropout = 0.5
    assert not torch.equal(rnn(x)[0], rnn(x)[0])
    rnn.eval()
    assert_close(rnn(x), equations(rnn, x))


def test_dropout_without_a_second_layer_is_warned_of() -> None:
    with pytest.warns(UserWarning, match=r"between layers.*dropout=0.5.*num_layers=1"):
        SRNN(C, H, dropout=0.5)


class Largest(TorchDispatchMode):
    """Notes how many numbers the largest float tensor has that any operator gives back."""

    numbers = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, tuple | list) else [result]:
            if isinstance(tensor, Tensor) and tensor.is_floating_point():
                self.numbers = max(self.numbers, tensor.untyped_storage().nbytes() // tensor.element_size())
        return result


@pytest.mark.parametrize("symbols", [False, True], ids=["real", "symbols"])
def test_final_state_never_makes_a_float_tensor_of_all_states(symbols: bool) -> None:
    rnn = layer(C, 16, dtype=torch.float32)
    x = torch.randint(0, V, (N, 100)) if symbols else torch.randn(N, 100, C)
    options = {"alphabet": numbers(V, C, dtype=torch.float32)} if symbols else {}
    with Largest() as final:
        rnn.final_state(x, **options).sum().backward()
    assert 0 < final.numbers < N * 100 * 16
    with Largest() as whole:
        rnn(x, **options)
    assert whole.numbers >= N * 100 * 16


def test_the_layer_compiles_to_one_graph() -> None:
    rnn = layer(C, H, permutation="random")

    def everything(x: Tensor, ids: Tensor, alphabet: Tensor, hx: Tensor, lengths: Tensor) -> tuple[Tensor, ...]:
        h_n = rnn.final_state(ids, hx, alphabet=alphabet)
        return *rnn(x, rnn.step(x[:, 0], h_n), lengths=lengths), h_n

    compiled = torch.compile(everything, fullgraph=True, backend="aot_eager", dynamic=True)
    for rows, steps in ((N, T), (N + 1, 2 * T)):
        x, ids, alphabet, hx = numbers(rows, steps, C), torch.randint(0, V, (rows, steps)), numbers(V, C), numbers(1, rows, H)
        arguments = (x, ids, alphabet, hx, torch.tensor([*LENGTHS, 2 * T][:rows]))
        assert_same(compiled(*arguments), everything(*arguments), [x, alphabet, hx, *rnn.parameters()])


def test_the_layer_exports_with_any_batch_and_time() -> None:
    rnn = layer(C, H, num_layers=2, bidirectional=True)
    rows, steps = torch.export.Dim("rows"), torch.export.Dim("steps")
    shapes = {"input": {0: rows, 1: steps}, "hx": {1: rows}, "lengths": {0: rows}}
    options = {"hx": numbers(4, N, H), "lengths": torch.tensor(LENGTHS)}
    exported = torch.export.export(rnn, (numbers(N, T, C),), options, dynamic_shapes=shapes).module()
    x, hx, lengths = numbers(2, 9, C), numbers(4, 2, H), torch.tensor([9, 3])
    assert_close(exported(x, hx=hx, lengths=lengths), rnn(x, hx, lengths=lengths))


def test_importing_prints_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", "from srnn import *"], capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("", "")
    assert set(srnn.__all__) == {"SRNN", "SRNNCell", "SRNNStack", "diagnose", "shuffle_scan"}
    assert srnn.__version__
