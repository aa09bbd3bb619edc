"""`SRNNStack` against its equations, written out with plain loops, and against the call of `nn.GRU`."""

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from srnn import SRNNStack

C, H, N, T, V, W = 3, 5, 4, 6, 7, 4
LENGTHS = [T, 0, 2, 4]


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


def equations(rnn: SRNNStack, x: Tensor, hx: Tensor | None = None, lengths: list[int] | None = None) -> tuple[Tensor, Tensor]:
    """What rnn(x, hx, lengths=lengths) must be for x [N, T, C], without dropout."""
    p, D = dict(rnn.named_parameters()), 2 if rnn.bidirectional else 1
    hx = x.new_zeros(rnn.num_layers * D, len(x), rnn.hidden_size) if hx is None else hx
    output, h_n = x.new_zeros(*x.shape[:2], D * rnn.hidden_size), torch.zeros_like(hx)
    for n, end in enumerate([x.shape[1]] * len(x) if lengths is None else lengths):
        y = affine(p, "encode", x[n, :end])
        for k in range(rnn.num_layers):
            block, z = f"blocks.{k}", normed(p, f"blocks.{k}.norm", y)
            index = rnn.blocks[k].rnn.permutation
            source = [(i + 1) % rnn.hidden_size for i in range(rnn.hidden_size)] if index is None else index.tolist()
            states = z.new_zeros(end, D, rnn.hidden_size)
            for d in range(D):
                b = affine(p, f"{block}.rnn.b.{d}.linear", affine(p, f"{block}.rnn.b.{d}.mlp.0", z).clamp(min=0))
                b = b * torch.sigmoid(affine(p, f"{block}.rnn.b.{d}.gate", z)) if rnn.gate else b
                h = hx[k * D + d, n]
                for t in reversed(range(end)) if d else range(end):
                    h = states[t, d] = getattr(torch, rnn.activation)(h[source] + b[t])
                h_n[k * D + d, n] = h
            u, v = affine(p, f"{block}.linear", normed(p, f"{block}.state_norm", states.flatten(1))).chunk(2, dim=-1)
            y = y + u / (1 + torch.exp(-v))
        output[n, :end] = affine(p, "decode", normed(p, "norm", y))
    return output, h_n


def assert_same(found: tuple[Tensor, ...], expected: tuple[Tensor, ...], leaves: list[Tensor]) -> None:
    """The same values, and the same gradient of a random sum of them by every leaf."""
    weights = [torch.randn_like(tensor) for tensor in expected]
    gradients = []
    for values in (found, expected):
        total = torch.stack([(w * value).sum() for w, value in zip(weights, values, strict=True)]).sum()
        gradients.append(torch.autograd.grad(total, leaves, materialize_grads=True, retain_graph=True))
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
    x, hx = numbers(N, T, C), numbers(len(rnn.blocks) * (2 if rnn.bidirectional else 1), N, H)
    ids, alphabet = torch.randint(0, V, (N, T)), numbers(V, C)
    given: tuple[Tensor, dict[str, Any]] = (ids, {"alphabet": alphabet}) if symbols else (x, {})
    leaves = [alphabet if symbols else x, hx, *rnn.parameters()]
    output, h_n = equations(rnn, alphabet[ids] if symbols else x, hx, lengths)
    assert_same(rnn(given[0], hx, lengths=lengths, **given[1]), (output, h_n), leaves)
    assert_same((rnn.final_state(given[0], hx, lengths=lengths, **given[1]),), (h_n,), leaves)
    assert_same((rnn.final_output(given[0], hx, lengths=lengths, **given[1]),), (last(output, lengths),), leaves)


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
