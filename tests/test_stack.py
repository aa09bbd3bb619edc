"""`SRNNStack` against its equations, written out with plain loops, and against the call of `nn.GRU`."""

import copy
import pickle
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pack_sequence, pad_packed_sequence
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

from srnn import SRNN, SRNNStack
from srnn.errors import TracingError

C, H, N, T, V, W = 3, 9, 4, 6, 7, 4
UNITS, DELAYED = 5, 2  # of a state of H numbers: units of the SRNN, and numbers of norm(x) one step ago and two steps ago
LENGTHS = [T, 0, 2, 4]
SIGMA = {"relu": torch.relu, "tanh": torch.tanh, "clip": nn.functional.hardtanh}


def numbers(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(shape, dtype=dtype, requires_grad=True)


def stack(**settings: Any) -> Any:
    """A small stack whose norms are not at their start, where they would hide what they do."""
    sizes: dict[str, Any] = {
        "input_size": C,
        "hidden_size": H,
        "width": W,
        "mlp": (4,),
        "batch_first": True,
        "dtype": torch.float64,
    }
    rnn = SRNNStack(**(sizes | settings))
    with torch.no_grad():
        for name, parameter in rnn.named_parameters():
            if "norm" in name:
                parameter.add_(0.3 * torch.randn_like(parameter))
    return rnn


# The equations, from nothing but the parameters: one row at a time, and of each row one step at a time.


def affine(p: Mapping[str, Tensor], name: str, x: Tensor) -> Tensor:
    product = x @ p[f"{name}.weight"].T
    return product + p[f"{name}.bias"] if f"{name}.bias" in p else product


def normed(p: Mapping[str, Tensor], name: str, x: Tensor) -> Tensor:
    centred = x - x.mean(-1, keepdim=True)
    scaled = centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt() * p[f"{name}.weight"]
    return scaled + p[f"{name}.bias"] if f"{name}.bias" in p else scaled


def equations(
    rnn: SRNNStack, x: Tensor, hx: Tensor | None = None, lengths: list[int] | None = None, reset: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """What rnn(x, hx, lengths=lengths, reset=reset) must be for x [N, T, C], without dropout."""
    reset = torch.zeros(x.shape[:2], dtype=torch.bool) if reset is None else reset
    p, D = dict(rnn.named_parameters()), 2 if rnn.bidirectional else 1
    delayed = min(rnn.width, rnn.hidden_size // 4)  # the state is the units of the SRNN, then norm(x)[:delayed] of two steps
    units = rnn.hidden_size - 2 * delayed
    hx = x.new_zeros(rnn.num_layers * D, len(x), rnn.hidden_size) if hx is None else hx
    output, h_n = x.new_zeros(*x.shape[:2], D * rnn.hidden_size), torch.zeros_like(hx)
    for n, end in enumerate([x.shape[1]] * len(x) if lengths is None else lengths):
        y = affine(p, "encode", x[n, :end])
        for k in range(rnn.num_layers):
            block, z = f"blocks.{k}", normed(p, f"blocks.{k}.norm", y)
            index = rnn.blocks[k].rnn.permutation
            source = [(i + 1) % units for i in range(units)] if index is None else index.tolist()
            states, before = z.new_zeros(end, D, units), z.new_zeros(end, D, 2 * delayed)
            for d in range(D):
                hidden = affine(p, f"{block}.rnn.b.{d}.mlp.0", z).clamp(min=0) if rnn.mlp else z
                b = affine(p, f"{block}.rnn.b.{d}.linear", hidden)
                b = b * torch.sigmoid(affine(p, f"{block}.rnn.b.{d}.gate", z)) if rnn.gate else b
                h, held = hx[k * D + d, n, :units], hx[k * D + d, n, units:]
                for t in reversed(range(end)) if d else range(end):
                    if (t + 1 < end and reset[n, t + 1]) if d else reset[n, t]:
                        h, held = torch.zeros_like(h), torch.zeros_like(held)
                    h = states[t, d] = SIGMA[rnn.activation](h[source] + b[t])
                    before[t, d], held = held, torch.cat([z[t, :delayed], held[:delayed]])
                h_n[k * D + d, n] = torch.cat([h, held])
            read = affine(p, f"{block}.linear", normed(p, f"{block}.state_norm", states.flatten(1)))
            u, v = (read + torch.cat([z, before.flatten(1)], dim=-1) @ p[f"{block}.direct.weight"].T).chunk(2, dim=-1)
            y = y + u / (1 + torch.exp(-v))
        output[n, :end] = affine(p, "decode", normed(p, "norm", y))
    return output, h_n


def assert_same(found: tuple[Tensor, ...], expected: tuple[Tensor, ...], leaves: list[Tensor]) -> None:
    """The same values, and the same gradient of a random sum of them by every leaf."""
    weights = [torch.randn_like(tensor) for tensor in expected]
    gradients = []
    for values in (found, expected):
        total = torch.stack([(w * value).sum() for w, value in zip(weights, values, strict=True)]).sum()
        gradients.append(torch.autograd.grad(total, leaves, materialize_grads=True))
    assert_close((*found, *gradients[0]), (*expected, *gradients[1]))


def last(output: Tensor, lengths: list[int] | None) -> Tensor:
    """Of output [N, T, D * H] the last step of each row; zeros for a row without steps."""
    ends = [output.shape[1]] * len(output) if lengths is None else lengths
    return torch.stack([output[n, end - 1] if end else torch.zeros_like(output[n, 0]) for n, end in enumerate(ends)])


SETTINGS: list[dict[str, Any]] = [
    {},
    {"num_layers": 1},
    {"num_layers": 3},
    {"bidirectional": True},
    {"num_layers": 1, "bidirectional": True},
    {"num_layers": 3, "bidirectional": True, "gate": False},
    {"bias": False},
    {"activation": "tanh", "permutation": "random"},
    {"width": None, "permutation": torch.tensor([1, 0, 2, 4, 3])},
    {"hidden_size": 3, "bidirectional": True},  # holds no inputs
    {"hidden_size": 20, "width": 2},  # holds the whole of the inputs
]


def describe(settings: object) -> str:
    if isinstance(settings, dict):
        return "-".join(f"{k}={v.tolist() if isinstance(v, Tensor) else v}" for k, v in settings.items()) or "default"
    return str(settings)


@pytest.mark.parametrize("symbols", [False, True], ids=["real", "symbols"])
@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["whole", "lengths"])
@pytest.mark.parametrize("settings", SETTINGS, ids=describe)
def test_the_stack_is_its_equations(settings: dict[str, Any], lengths: list[int] | None, symbols: bool) -> None:
    rnn = stack(**settings)
    x, hx = numbers(N, T, C), numbers(len(rnn.blocks) * (2 if rnn.bidirectional else 1), N, rnn.hidden_size)
    ids, alphabet = torch.randint(0, V, (N, T)), numbers(V, C)
    given: tuple[Tensor, dict[str, Any]] = (ids, {"alphabet": alphabet}) if symbols else (x, {})
    leaves = [alphabet if symbols else x, hx, *rnn.parameters()]
    output, h_n = equations(rnn, alphabet[ids] if symbols else x, hx, lengths)
    how = {"hx": hx, "lengths": lengths, **given[1]}
    found = (*rnn(given[0], **how), rnn.final_state(given[0], **how), rnn.final_output(given[0], **how))
    assert_same(found, (output, h_n, h_n, last(output, lengths)), leaves)


@pytest.mark.parametrize("settings", [{}, {"num_layers": 1, "activation": "tanh"}, {"num_layers": 3}], ids=describe)
def test_steps_and_chunks_and_the_whole_agree(settings: dict[str, Any]) -> None:
    rnn = stack(**settings)
    x, hx = numbers(N, T, C), numbers(rnn.num_layers, N, H)
    leaves = [x, hx, *rnn.parameters()]

    h, outputs = hx, []
    for chunk in x.split([1, 3, 2], dim=1):
        output, h = rnn(chunk, h)
        outputs.append(output)
    assert_same((torch.cat(outputs, dim=1), h), rnn(x, hx), leaves)

    h, outputs = hx, []
    for x_t in x.unbind(1):
        output, h = rnn.step(x_t, h)
        outputs.append(output)
    assert_same((torch.stack(outputs, dim=1), h), rnn(x, hx), leaves)

    for found, expected in zip(rnn.step(x[:, 0]), rnn(x[:, :1]), strict=True):
        assert_close(found.flatten(), expected.flatten())
    for found, expected in zip(rnn.step(x[0, 0], hx[:, 0]), rnn(x[0, :1], hx[:, 0]), strict=True):
        assert_close(found, expected.view_as(found))


# Resets.

RESET = torch.tensor([[0, 0, 1, 0, 1, 0], [1, 0, 0, 0, 0, 0], [0, 0, 0, 1, 0, 1], [0, 1, 1, 1, 0, 0]], dtype=torch.bool)


@pytest.mark.parametrize("symbols", [False, True], ids=["real", "symbols"])
@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["whole", "lengths"])
@pytest.mark.parametrize("settings", [{}, {"num_layers": 1}, {"bidirectional": True}], ids=describe)
def test_a_stack_with_resets_is_the_equations_of_separate_sequences(
    settings: dict[str, Any], lengths: list[int] | None, symbols: bool
) -> None:
    rnn, alphabet, ids = stack(**settings), numbers(V, C), torch.randint(0, V, (N, T))
    hx = numbers(rnn.num_layers * (2 if rnn.bidirectional else 1), N, H)
    more = {"hx": hx, "lengths": lengths, "reset": RESET, **({"alphabet": alphabet} if symbols else {})}
    x = ids if symbols else alphabet[ids]
    output, h_n = equations(rnn, alphabet[ids], hx, lengths, RESET)
    found = (*rnn(x, **more), rnn.final_state(x, **more), rnn.final_output(x, **more))
    assert_same(found, (output, h_n, h_n, last(output, lengths)), [alphabet, hx, *rnn.parameters()])


def test_resets_are_taken_in_every_form_of_input() -> None:
    rnn, x, hx, lengths = stack(bidirectional=True), numbers(N, T, C), numbers(4, N, H), torch.tensor([4, T, 2, 3])
    output, h_n = rnn(x, hx, reset=RESET)
    rnn.batch_first = False
    turned, turned_h_n = rnn(x.transpose(0, 1), hx, reset=RESET.T)
    rnn.batch_first = True
    assert_close((turned.transpose(0, 1), turned_h_n), (output, h_n))
    assert_close(rnn(x[0], hx[:, 0], reset=RESET[0]), (output[0], h_n[:, 0]))
    packed, mask = (pack_padded_sequence(t, lengths, batch_first=True, enforce_sorted=False) for t in (x, RESET))
    expected, expected_h_n = rnn(x, hx, lengths=lengths, reset=RESET)
    packed_output, packed_h_n = rnn(packed, hx, reset=mask)
    assert_close((pad_packed_sequence(packed_output, batch_first=True)[0], packed_h_n), (expected, expected_h_n))
    assert_close(rnn.final_output(packed, hx, reset=mask), last(expected, lengths.tolist()))


def test_a_step_with_a_reset_starts_from_zeros() -> None:
    rnn, x, h, mask = stack(), numbers(N, C), numbers(2, N, H), RESET[:, 4]
    assert mask.any()
    assert_same(rnn.step(x, h, reset=mask), rnn.step(x, h * ~mask[:, None]), [x, h, *rnn.parameters()])
    assert_close(rnn.step(x[0], h[:, 0], torch.tensor(True)), rnn.step(x[0]))


# The forms of input.


@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["whole", "lengths"])
def test_batch_first_only_moves_the_batch_axis(lengths: list[int] | None) -> None:
    rnn, other = stack(bidirectional=True), stack(bidirectional=True, batch_first=False)
    other.load_state_dict(rnn.state_dict())
    x, hx, ids, alphabet = numbers(N, T, C), numbers(4, N, H), torch.randint(0, V, (N, T)), numbers(V, C)
    options: dict[str, Any] = {"hx": hx, "lengths": lengths}
    for given, turned, more in ((x, x.transpose(0, 1), {}), (ids, ids.T, {"alphabet": alphabet})):
        (output, h_n), (other_output, other_h_n) = rnn(given, **options, **more), other(turned, **options, **more)
        assert other_output.is_contiguous()  # programs written for nn.GRU call .view on it
        assert_same((other_output.transpose(0, 1), other_h_n), (output, h_n), [x, hx, alphabet])
        assert_close(other.final_state(turned, **options, **more), h_n)
        assert_close(other.final_output(turned, **options, **more), last(output, lengths))


@pytest.mark.parametrize("batch_first", [False, True])
def test_one_sequence_needs_no_batch(batch_first: bool) -> None:
    rnn = stack(bidirectional=True, batch_first=batch_first)
    x, hx, batch = numbers(T, C), numbers(4, H), 0 if batch_first else 1
    ids, alphabet = torch.randint(0, V, (T,)), numbers(V, C)
    for length in (None, 4):
        output, h_n = rnn(x.unsqueeze(batch), hx[:, None], lengths=None if length is None else [length])
        expected = output.squeeze(batch), h_n[:, 0]
        assert_same(rnn(x, hx, lengths=length), expected, [x, hx, *rnn.parameters()])
        assert_close(rnn.final_state(x, hx, lengths=length), h_n[:, 0])
        assert_close(rnn.final_output(x, hx, lengths=length), expected[0][(length or T) - 1])
    assert_same(rnn(ids, hx, alphabet=alphabet), rnn(alphabet[ids], hx), [alphabet, hx, *rnn.parameters()])
    assert not rnn.final_output(x, hx, lengths=0).any()


def test_each_row_of_a_padded_or_packed_batch_is_as_it_would_be_alone() -> None:
    rnn = stack(bidirectional=True)
    lengths = [3, T, 1, 4]
    x, hx = numbers(N, T, C), numbers(4, N, H)
    packed = pack_padded_sequence(x, torch.tensor(lengths), batch_first=True, enforce_sorted=False)
    output, h_n = rnn(x, hx, lengths=lengths)
    packed_output, packed_h_n = rnn(packed, hx)
    unpacked, found = pad_packed_sequence(packed_output, batch_first=True)
    assert found.tolist() == lengths
    for n, length in enumerate(lengths):
        alone, alone_h_n = rnn(x[n, :length], hx[:, n])
        for rows, states in ((output, h_n), (unpacked, packed_h_n)):
            assert_close(rows[n, :length], alone)
            assert_close(states[:, n], alone_h_n)
            assert not rows[n, length:].any()
    assert_same((unpacked, packed_h_n), (output, h_n), [x, hx, *rnn.parameters()])
    assert_close(rnn.final_state(packed, hx), h_n)
    assert_close(rnn.final_output(packed, hx), last(output, lengths))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.int64])
@pytest.mark.parametrize("enforce_sorted", [True, False])
def test_symbols_of_three_integer_types_can_be_packed(enforce_sorted: bool, dtype: torch.dtype) -> None:
    rnn, alphabet, hx = stack(bidirectional=True), numbers(V, C), numbers(4, 3, H)
    lengths = [5, 3, 2] if enforce_sorted else [3, 5, 2]
    rows = [torch.randint(0, V, (length,), dtype=dtype) for length in lengths]
    output, h_n = rnn(pack_sequence(rows, enforce_sorted), hx, alphabet=alphabet)
    expected, expected_h_n = rnn(pack_sequence([alphabet[row.long()] for row in rows], enforce_sorted), hx)
    assert_same((output.data, h_n), (expected.data, expected_h_n), [alphabet, hx, *rnn.parameters()])


@pytest.mark.parametrize("bidirectional", [False, True], ids=["forward", "bidirectional"])
def test_a_jagged_nested_tensor_is_its_rows(bidirectional: bool) -> None:
    rnn, lengths = stack(bidirectional=bidirectional), [3, T, 1, 4]
    rows, hx = [numbers(length, C) for length in lengths], numbers(4 if bidirectional else 2, N, H)
    nested = torch.nested.as_nested_tensor(rows, layout=torch.jagged)
    output, h_n = rnn(nested, hx)
    expected, expected_h_n = rnn(nn.utils.rnn.pad_sequence(rows, batch_first=True), hx, lengths=lengths)
    flat = torch.cat([expected[n, :length] for n, length in enumerate(lengths)])
    assert_same((torch.cat(output.unbind()), h_n), (flat, expected_h_n), [*rows, hx, *rnn.parameters()])
    assert_close(rnn.final_output(nested, hx), last(expected, lengths))


@pytest.mark.parametrize("bidirectional", [False, True], ids=["forward", "bidirectional"])
def test_nothing_comes_from_or_goes_to_steps_beyond_the_length(bidirectional: bool) -> None:
    rnn = stack(bidirectional=bidirectional)
    clean, hx = numbers(N, T, C), numbers(4 if bidirectional else 2, N, H)
    beyond = torch.arange(T) >= torch.tensor(LENGTHS)[:, None]
    dirty = clean.detach().masked_fill(beyond[..., None], float("nan")).requires_grad_()
    results = []
    for x in (clean, dirty):
        (output, h_n), final = rnn(x, hx, lengths=LENGTHS), rnn.final_output(x, hx, lengths=LENGTHS)
        assert not output[beyond].any()
        assert not final[1].any()  # the row of length 0
        assert torch.equal(h_n[:, 1], hx[:, 1])
        total = output.square().sum() + h_n.square().sum() + final.square().sum()
        gradient, *others = torch.autograd.grad(total, [x, hx, *rnn.parameters()])
        assert not gradient[beyond].any()
        results.append([output, h_n, gradient, *others])
    assert_close(*results)
    ids, alphabet = torch.randint(0, V, (N, T)), numbers(V, C)
    assert_close(
        rnn(ids.masked_fill(beyond, -1), hx, lengths=LENGTHS, alphabet=alphabet),
        rnn(ids, hx, lengths=LENGTHS, alphabet=alphabet),
    )


@pytest.mark.parametrize("rows", [0, 2])
@pytest.mark.parametrize("steps", [0, T])
@pytest.mark.parametrize("bidirectional", [False, True], ids=["forward", "bidirectional"])
def test_zero_rows_and_zero_steps_work(bidirectional: bool, steps: int, rows: int) -> None:
    rnn, D = stack(bidirectional=bidirectional), 2 if bidirectional else 1
    x, hx, alphabet = numbers(rows, steps, C), numbers(2 * D, rows, H), numbers(V, C)
    ids = torch.zeros(rows, steps, dtype=torch.uint8)
    for given, more in ((x, {}), (ids, {"alphabet": alphabet})):
        (output, h_n), final = rnn(given, hx, **more), rnn.final_output(given, hx, **more)
        assert (output.shape, h_n.shape, final.shape) == ((rows, steps, D * H), (2 * D, rows, H), (rows, D * H))
        assert_close(rnn.final_state(given, hx, **more), h_n)
        if steps == 0:
            assert_close(h_n, hx)
            assert not final.any()
        (output.sum() + h_n.sum() + final.sum()).backward()
    if rows == 0:
        assert not any(leaf.grad is None or leaf.grad.any() for leaf in (x, hx, alphabet, *rnn.parameters()))


# The place of nn.GRU.


@pytest.mark.parametrize("given_hx", [False, True], ids=["zeros", "hx"])
@pytest.mark.parametrize("form", ["batched", "unbatched", "packed", "packed unsorted"])
@pytest.mark.parametrize("batch_first", [False, True], ids=["time first", "batch first"])
@pytest.mark.parametrize("bidirectional", [False, True], ids=["forward", "bidirectional"])
@pytest.mark.parametrize("num_layers", [1, 2])
def test_every_call_of_gru_gives_the_same_shapes(
    num_layers: int, bidirectional: bool, batch_first: bool, form: str, given_hx: bool
) -> None:
    settings: tuple[Any, ...] = (C, H, num_layers, True, batch_first, 0.0, bidirectional)
    gru, rnn = nn.GRU(*settings), SRNNStack(*settings, width=W)
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


def test_the_stack_has_the_arguments_attributes_and_methods_of_gru() -> None:
    gru, rnn = nn.GRU(3, 4, 2, True, True, 0.1, True), SRNNStack(3, 4, 2, True, True, 0.1, True)
    for name in ("input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout", "bidirectional"):
        assert getattr(rnn, name) == getattr(gru, name)
    rnn.flatten_parameters()
    assert len(rnn.all_weights) == len(gru.all_weights) // 2 == 2
    assert {id(weight) for weights in rnn.all_weights for weight in weights} == {id(p) for p in rnn.blocks.parameters()}
    assert SRNNStack(3, 4).num_layers == 2


def test_reset_parameters_draws_again_as_at_construction() -> None:
    torch.manual_seed(1)
    rnn = SRNNStack(C, H, width=W, gate_init=-40.0)
    expected = copy.deepcopy(rnn.state_dict())
    with torch.no_grad():
        for parameter in rnn.parameters():
            parameter.fill_(7.0)
    torch.manual_seed(1)
    rnn.reset_parameters()
    assert_close(dict(rnn.state_dict()), dict(expected), rtol=0, atol=0)


def test_start_and_defaults_are_those_of_the_stack() -> None:
    rnn = SRNNStack(C, 60, width=25)
    assert (rnn.mlp, rnn.activation, rnn._permutation_name, rnn.gate_init) == ((), "clip", "partial", None)
    for block in rnn.blocks:
        b = block.rnn.b[0]  # nn.Linear draws up to 1 / sqrt(25) = 0.2
        assert 0.38 < b.linear.weight.abs().max() <= 0.4
        assert b.linear.bias.abs().max() <= 0.2
        assert b.gate.weight.abs().max() <= 0.2
        assert -2.2 <= b.gate.bias.min() < -2 < b.gate.bias.max() <= -1.8


@pytest.mark.parametrize("bidirectional", [False, True], ids=["forward", "bidirectional"])
@pytest.mark.parametrize("width", [None, 6])
def test_the_parameters_are_those_of_the_equations(width: int | None, bidirectional: bool) -> None:
    rnn = SRNNStack(C, H, 3, width=width, mlp=(8,), bidirectional=bidirectional)
    w, D = width or 16, 2 if bidirectional else 1
    of_rnn = D * ((w + 1) * 8 + (8 + 1) * UNITS + (w + 1) * UNITS)
    block = 2 * w + of_rnn + 2 * D * UNITS + (D * UNITS + 1) * 2 * w + (w + 2 * D * DELAYED) * 2 * w
    assert sum(p.numel() for p in rnn.parameters()) == (C + 1) * w + 3 * block + 2 * w + (w + 1) * D * H


def test_settings_reach_the_layers() -> None:
    given: dict[str, Any] = {"mlp": (4, 2), "gate_init": -2.0, "activation": "tanh", "permutation": "random", "bias": True}
    rnn = SRNNStack(C, 50, 3, **given)
    for block in rnn.blocks:
        assert [getattr(block.rnn, name) for name in ("mlp", "gate_init", "activation")] == [(4, 2), -2.0, "tanh"]
    drawn = [block.rnn.permutation.tolist() for block in rnn.blocks]
    assert drawn[0] != drawn[1] != drawn[2]
    without = SRNNStack(C, H, bias=False, gate=False, device="meta", dtype=torch.float16)
    assert not [name for name, _ in without.named_parameters() if "bias" in name or "gate" in name]
    assert {(p.device.type, p.dtype) for p in without.parameters()} == {("meta", torch.float16)}


@pytest.mark.parametrize(
    ("rnn", "expected"),
    [
        (SRNNStack(C, 40), "3, 40, width=20"),
        (
            SRNNStack(C, H, 3, False, True, 0.5, True, width=8, mlp=[4], gate=False, permutation="random"),
            "3, 9, num_layers=3, bias=False, batch_first=True, dropout=0.5, bidirectional=True, width=8, mlp=(4,), "
            "gate=False, permutation='random'",
        ),
    ],
)
def test_the_repr_names_the_width_and_what_is_not_default(rnn: SRNNStack, expected: str) -> None:
    assert rnn.extra_repr() == expected
    assert repr(rnn).startswith(f"SRNNStack(\n  {expected}\n")


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda rnn: pickle.loads(pickle.dumps(rnn))], ids=["deepcopy", "pickle"])
def test_a_copy_of_the_stack_computes_the_same(copied: Callable[[Any], Any]) -> None:
    rnn, x = stack(permutation="random"), numbers(N, T, C)
    assert_close(copied(rnn)(x), rnn(x), rtol=0, atol=0)


def test_the_state_dict_restores_the_stack() -> None:
    rnn, other, x = stack(permutation="random"), stack(permutation="random"), numbers(N, T, C)
    assert not torch.equal(rnn(x)[0], other(x)[0])
    other.load_state_dict(rnn.state_dict())
    assert_close(other(x), rnn(x), rtol=0, atol=0)


# Modes.


@pytest.mark.parametrize("num_layers", [1, 2])
def test_dropout_acts_inside_every_block_in_training(num_layers: int) -> None:
    rnn, x = stack(num_layers=num_layers, dropout=1.0), numbers(N, T, C)
    output, h_n = rnn(x)
    p = dict(rnn.named_parameters())
    assert_close(output, affine(p, "decode", normed(p, "norm", affine(p, "encode", x))))  # what a block adds is dropped whole
    assert_close(h_n[0], equations(rnn, x)[1][0])  # the states are not
    assert_close(rnn.final_state(x), h_n)
    assert_close(rnn.final_output(x), output[:, -1])
    assert_close(rnn.step(x[:, 0])[0], output[:, 0])
    rnn.dropout = 0.5
    assert not torch.equal(rnn(x)[0], rnn(x)[0])
    rnn.eval()
    assert_close(rnn(x), equations(rnn, x))


TOLERANCE: dict[torch.dtype, dict[str, Any]] = {
    torch.bfloat16: {"rtol": 5e-2, "atol": 1e-1},
    torch.float16: {"rtol": 1e-2, "atol": 2e-2},
}


@pytest.mark.parametrize("settings", [{}, {"activation": "tanh"}, {"bidirectional": True}], ids=describe)
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_half_precision_is_near_to_single(dtype: torch.dtype, settings: dict[str, Any]) -> None:
    rnn = stack(**settings, dtype=dtype)
    single = copy.deepcopy(rnn).float()
    x, alphabet, ids = numbers(N, T, C, dtype=dtype), numbers(V, C, dtype=dtype), torch.randint(0, V, (N, T))
    for inputs in ({"input": x}, {"input": ids, "alphabet": alphabet}):
        found = (*rnn(**inputs), rnn.final_output(**inputs))
        wide = {name: t.float() if t.is_floating_point() else t for name, t in inputs.items()}
        expected = (*single(**wide), single.final_output(**wide))
        assert {tensor.dtype for tensor in found} == {dtype}
        for one, other in zip(found, expected, strict=True):
            assert_close(one.float(), other, **TOLERANCE[dtype])
        for module, results in ((rnn, found), (single, expected)):
            module.zero_grad()
            results[0].square().sum().backward()
        # Of all weights together: a state that is rounded to the other side of a bound changes the gradient of a small one.
        near, exact = (torch.cat([p.grad.float().flatten() for p in module.parameters()]) for module in (rnn, single))
        assert (near - exact).norm() <= TOLERANCE[dtype]["atol"] * exact.norm()


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_autocast_decides_the_dtype(dtype: torch.dtype) -> None:
    rnn = stack(dtype=torch.float32)
    x, hx, alphabet = (numbers(*shape, dtype=torch.float32) for shape in ((N, T, C), (2, N, H), (V, C)))
    ids = torch.randint(0, V, (N, T))

    def everything() -> list[Tensor]:
        symbols: dict[str, Any] = {"input": ids, "hx": hx, "alphabet": alphabet}
        calls = (rnn(x, hx), rnn.step(x[:, 0], hx), rnn(**symbols))
        ends = (rnn.final_state(x, hx), rnn.final_output(x, hx), rnn.final_output(**symbols))
        return [tensor for pair in calls for tensor in pair] + list(ends)

    with torch.autocast("cpu", dtype=dtype):
        found = everything()
    assert {tensor.dtype for tensor in found} == {dtype}
    for one, other in zip(found, everything(), strict=True):
        assert_close(one.float(), other, **TOLERANCE[dtype])
    gradients = torch.autograd.grad(found[0].sum() + found[4].sum(), [x, hx, alphabet, *rnn.parameters()])
    assert {gradient.dtype for gradient in gradients} == {torch.float32}


def test_the_stack_works_without_gradients() -> None:
    rnn, x = stack(bidirectional=True), numbers(N, T, C)
    expected = rnn(x)
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            assert_close(rnn(x), tuple(t.detach() for t in expected))
            assert not rnn.final_output(x).requires_grad


def test_second_derivatives_exist() -> None:
    rnn, x, hx = stack(), numbers(1, 3, C), numbers(2, 1, H)
    assert torch.autograd.gradgradcheck(lambda x, hx: rnn(x, hx)[0], (x, hx))


@pytest.mark.slow
def test_the_stack_compiles_to_one_graph() -> None:
    rnn = stack(permutation="random")

    def everything(x: Tensor, ids: Tensor, alphabet: Tensor, hx: Tensor, lengths: Tensor) -> tuple[Tensor, ...]:
        output, h = rnn.step(x[:, 0], rnn.final_state(ids, hx, alphabet=alphabet))
        return *rnn(x, h, lengths=lengths), output, rnn.final_output(ids, h, lengths=lengths, alphabet=alphabet)

    compiled = torch.compile(everything, fullgraph=True, backend="aot_eager", dynamic=True)
    for rows, steps in ((N, T), (N + 1, 2 * T)):
        x, ids, alphabet, hx = numbers(rows, steps, C), torch.randint(0, V, (rows, steps)), numbers(V, C), numbers(2, rows, H)
        arguments = (x, ids, alphabet, hx, torch.tensor([*LENGTHS, 2 * T][:rows]))
        assert_same(compiled(*arguments), everything(*arguments), [x, alphabet, hx, *rnn.parameters()])


@pytest.mark.parametrize("mlp", [(4,), ()], ids=["mlp", "affine"])
@pytest.mark.parametrize("bidirectional", [False, True], ids=["forward", "bidirectional"])
def test_the_stack_exports_with_any_batch_and_time(bidirectional: bool, mlp: tuple[int, ...]) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn = stack(bidirectional=bidirectional, mlp=mlp)

        def forward(self, x: Tensor, hx: Tensor, lengths: Tensor, reset: Tensor) -> tuple[Tensor, ...]:
            more: Any = {"hx": hx, "lengths": lengths, "reset": reset}
            return *self.rnn(x, **more), self.rnn.final_state(x, **more), self.rnn.final_output(x, **more)

    model, layers = Model(), 4 if bidirectional else 2
    rows, steps = torch.export.Dim("rows"), torch.export.Dim("steps")
    whole = {0: rows, 1: steps}
    shapes = {"x": whole, "hx": {1: rows}, "lengths": {0: rows}, "reset": whole}
    options = {"hx": numbers(layers, N, H), "lengths": torch.tensor(LENGTHS), "reset": RESET}
    exported = torch.export.export(model, (numbers(N, T, C),), options, dynamic_shapes=shapes).module()
    for length in (9, 1):
        lengths, reset = torch.tensor([length, 1]), torch.arange(2 * length).view(2, length) % 3 == 2
        x, more = numbers(2, length, C), {"hx": numbers(layers, 2, H), "lengths": lengths, "reset": reset}
        assert_close(exported(x, **more), model(x, **more))


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")
def test_torch_fx_keeps_the_stack_as_one_call_and_script_is_refused() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn = stack()

        def forward(self, x: Tensor) -> tuple[Tensor, ...]:
            output, h = self.rnn(x)
            return output, self.rnn.final_state(x, h), self.rnn.final_output(x, h), self.rnn.step(x[:, 0], h)[0]

    model, x = Model(), numbers(N, T, C)
    traced = torch.fx.symbolic_trace(model)
    assert [node.op for node in traced.graph.nodes].count("call_module") == 1
    assert_close(traced(x), model(x))
    with pytest.raises(TracingError, match=r"torch\.jit\.script cannot compile SRNNStack. Use torch\.export"):
        torch.jit.script(model.rnn)


class Largest(TorchDispatchMode):
    """Notes how many numbers the largest float tensor has that any operator gives back."""

    numbers = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, tuple | list) else [result]:
            if isinstance(tensor, Tensor) and tensor.is_floating_point():
                self.numbers = max(self.numbers, tensor.untyped_storage().nbytes() // tensor.element_size())
        return result


@pytest.mark.parametrize("method", ["final_state", "final_output"])
def test_the_last_block_never_holds_its_states_where_only_the_end_is_wanted(method: str) -> None:
    rnn, x = stack(hidden_size=32, num_layers=1, dtype=torch.float32), torch.randn(N, 100, C)
    with Largest() as final:
        getattr(rnn, method)(x).sum().backward()
    assert 0 < final.numbers < N * 100 * 32
    with Largest() as whole:
        rnn(x)
    assert whole.numbers >= N * 100 * 32


# Running free.


def test_running_free_on_its_own_output_stays_bounded() -> None:
    """With weights at which a plain SRNN in the same loop diverges."""
    plain, rnn = SRNN(C, C, gate_init=0.0), SRNNStack(C, C, width=8, gate_init=0.0)
    x, h, outputs, y, g = torch.randn(N, C), None, [], torch.randn(N, C), None
    with torch.no_grad():
        for parameter in (*plain.parameters(), *rnn.parameters()):
            parameter.mul_(3)
        for _ in range(1000):
            x, h = rnn.step(x, h)
            outputs.append(x)
            g = plain.step(y, g)
            y = g[-1]
        weight, shift = rnn.norm.weight.abs(), rnn.norm.bias.abs()
        bound = rnn.decode.weight.abs() @ (8**0.5 * weight + shift) + rnn.decode.bias.abs()
    assert (torch.stack(outputs).abs() <= bound).all()
    assert h is not None
    assert h.isfinite().all()
    assert not y.abs().max() < 1e6
