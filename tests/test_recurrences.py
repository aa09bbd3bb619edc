"""linear_scan and modrelu_scan: compiled and plain code give what a loop under autograd gives, values and every gradient."""

from typing import Any

import pytest
import torch
from torch import Tensor

from srnn.kernels import linear, modrelu

SHAPES = [(4, 7, 5), (1, 1, 1), (3, 1, 8), (2, 9, 64), (5, 3, 67), (3, 0, 4), (0, 3, 4)]  # N, T, H
KINDS = [("identity", False), ("identity", True), ("relu", False), ("relu", True), ("complex", False)]


def draw(*shape: int, like: torch.dtype) -> Tensor:
    return torch.randn(shape, dtype=like)


def linear_loop(b: Tensor, a: Tensor, h: Tensor, kind: str) -> Tensor:
    states = []
    for t in range(b.shape[1]):
        h = (a if a.dim() == 1 else a[:, t]) * h + b[:, t]
        h = h.relu() if kind == "relu" else h
        states.append(h)
    return torch.stack(states, dim=1) if states else b


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("kind", "varies"), KINDS)
def test_linear_scan_is_a_loop(kind: str, varies: bool, shape: tuple[int, int, int]) -> None:
    N, T, H = shape
    dtype = torch.complex128 if kind == "complex" else torch.float64
    inputs = [draw(N, T, H, like=dtype), draw(*((N, T, H) if varies else (H,)), like=dtype), draw(N, H, like=dtype)]
    leaves = [tensor.requires_grad_() for tensor in inputs]
    results = []
    for states in (
        linear.linear_scan(leaves[0], leaves[1], leaves[2], "identity" if kind == "complex" else kind),
        linear_loop(leaves[0], leaves[1], leaves[2], kind),
    ):
        weights = torch.linspace(-1, 2, states.numel(), dtype=torch.float64).view(states.shape)
        loss = (states * weights).sum()
        total = loss.real + loss.imag if loss.is_complex() else loss
        results.append([states, *torch.autograd.grad(total, leaves, allow_unused=True, materialize_grads=True)])
    torch.testing.assert_close(*results)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("kind", "varies"), KINDS)
def test_compiled_and_plain_linear_scan_agree(kind: str, varies: bool, shape: tuple[int, int, int], dtype: torch.dtype) -> None:
    N, T, H = shape
    K = 2 * H if kind == "complex" else H
    b, a, h0 = draw(N, T, K, like=dtype), draw(*((N, T, K) if varies else (K,)), like=dtype) / 2, draw(N, K, like=dtype)
    b = torch.stack([b, b], dim=1)[:, 0]  # not contiguous
    ops: Any = torch.ops.srnn
    states = ops.linear_scan(b, a, h0, kind)
    torch.testing.assert_close(states, linear._fallback(b, a, h0, kind))
    given = (torch.randn_like(states), states, a, h0, kind)
    torch.testing.assert_close(ops.linear_scan_backward(*given), linear._fallback_backward(*given))
    if kind == "relu" and states.numel() > 20:
        assert 0.1 < float((states > 0).double().mean()) < 0.9


def modrelu_loop(x: Tensor, W: Tensor, b: Tensor, h: Tensor) -> Tensor:
    """With complex numbers where the state is complex."""
    H, states = len(b), []
    for x_t in x:
        z = x_t + h @ W
        if z.shape[-1] == H:
            h = z.sign() * (z.abs() + b).relu()
        else:
            c = torch.complex(z[:, :H], z[:, H:])
            c = c * (c.abs() + b).relu() / (c.abs() + 1e-5)
            h = torch.cat([c.real, c.imag], dim=1)
        states.append(h)
    return torch.stack(states) if states else x


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("is_complex", [False, True])
def test_modrelu_scan_is_a_loop(is_complex: bool, shape: tuple[int, int, int]) -> None:
    N, T, H = shape
    K = 2 * H if is_complex else H
    inputs = [draw(T, N, K, like=torch.float64), draw(K, K, like=torch.float64) / K**0.5]
    inputs += [draw(H, like=torch.float64) / 2, draw(N, K, like=torch.float64)]
    leaves = [tensor.requires_grad_() for tensor in inputs]
    results = []
    for states in (modrelu.modrelu_scan(*leaves), modrelu_loop(*leaves)):
        weights = torch.linspace(-1, 2, states.numel(), dtype=torch.float64).view(states.shape)
        gradients = torch.autograd.grad((states * weights).sum(), leaves, allow_unused=True, materialize_grads=True)
        results.append([states, *gradients])
    torch.testing.assert_close(*results)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("shape", [*SHAPES, (300, 2, 130)])  # the last is wide enough for threads
@pytest.mark.parametrize("is_complex", [False, True])
def test_compiled_and_plain_modrelu_scan_agree(
    is_complex: bool, shape: tuple[int, int, int], threads: int, dtype: torch.dtype
) -> None:
    torch.set_num_threads(threads)
    N, T, H = shape
    K = 2 * H if is_complex else H
    x, W, b = draw(T, N, K, like=dtype), draw(K, K, like=dtype) / K**0.5, draw(H, like=dtype) / 4
    h0, ops = draw(N, K, like=dtype), torch.ops.srnn
    with torch.no_grad():
        x[:, :1] = 0  # z = 0 at first, where h0 is 0 too
        h0[:1] = 0
    found = ops.modrelu_scan(x, W.T.contiguous().T, b, h0)
    torch.testing.assert_close(found, modrelu._fallback(x, W, b, h0))
    given = (torch.randn_like(x), found[1] if is_complex else found[0], W, b)
    torch.testing.assert_close(ops.modrelu_scan_backward(*given), modrelu._fallback_backward(*given), rtol=1e-4, atol=1e-4)


def test_bits_do_not_depend_on_the_number_of_threads() -> None:
    b, a, h0 = torch.randn(6, 50, 40), torch.rand(40), torch.randn(6, 40)
    found = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        states = torch.ops.srnn.linear_scan(b, a, h0, "relu")
        found.append([states, *torch.ops.srnn.linear_scan_backward(b, states, a, h0, "relu")])
    torch.testing.assert_close(*found, rtol=0, atol=0)


def test_nan_is_passed_on() -> None:
    b = torch.tensor([[[1.0, torch.nan], [1.0, 1.0]]])
    for kind in ("identity", "relu"):
        assert torch.ops.srnn.linear_scan(b, torch.ones(2), torch.zeros(1, 2), kind).isnan().tolist() == [[[False, True]] * 2]
    for H in (2, 1):
        states = modrelu.modrelu_scan(b, torch.eye(2), torch.zeros(H), torch.zeros(2, 2))
        assert states[0, 0].isnan().any()


@pytest.mark.parametrize("kind", ["identity", "relu", "complex"])
def test_tracing_sees_the_same_shapes(kind: str) -> None:
    linear_inputs = torch.randn(2, 3, 4, requires_grad=True), torch.rand(4, requires_grad=True), torch.randn(2, 4), kind
    torch.library.opcheck(torch.ops.srnn.linear_scan.default, linear_inputs)
    H = 2 if kind == "complex" else 4
    weights = torch.randn(4, 4, requires_grad=True), torch.randn(H, requires_grad=True), torch.randn(2, 4)
    torch.library.opcheck(torch.ops.srnn.modrelu_scan.default, (torch.randn(3, 2, 4, requires_grad=True), *weights))
