"""linear_scan and modrelu_scan: compiled and plain code equal a loop under autograd, in values and in every gradient."""

import io
import os
import subprocess
import sys
from typing import Any

import pytest
import torch
from rich.console import Console
from torch import Tensor

from srnn import kernels
from srnn.errors import BackendError, DerivativeError, SettingError
from srnn.lab.cli import doctor
from srnn.lab.networks import scans
from srnn.lab.networks.scans import NAMESPACES, linear, modrelu

SHAPES = [(4, 7, 5), (1, 1, 1), (3, 1, 8), (2, 9, 64), (5, 3, 67), (3, 0, 4), (0, 3, 4)]  # N, T, H
KINDS = [("identity", False), ("identity", True), ("relu", False), ("relu", True), ("complex", False)]


NATIVE = scans.load_error() is None


def ops(namespace: str) -> Any:
    """The operators of a namespace, after a check that those of "srnn_lab" are the compiled ones."""
    if namespace == "srnn_lab":
        if not NATIVE:
            pytest.skip("the compiled library is not here")  # an error where $SRNN_REQUIRE asks for it
        for name in ("linear_scan", "linear_scan_backward", "modrelu_scan", "modrelu_scan_backward"):
            assert torch._C._dispatch_has_kernel_for_dispatch_key(f"srnn_lab::{name}", "CPU")
    return getattr(torch.ops, namespace)


def draw(*shape: int, like: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(shape, dtype=like)


def complex_of(t: Tensor) -> Tensor:
    return torch.complex(*t.chunk(2, dim=-1))


def linear_loop(b: Tensor, a: Tensor, h: Tensor, kind: str) -> Tensor:
    """With complex numbers where the state is complex."""
    if kind == "complex":
        states = linear_loop(complex_of(b), complex_of(a), complex_of(h), "identity")
        return torch.cat([states.real, states.imag], dim=-1)
    each = []
    for t in range(b.shape[1]):
        h = (a if a.dim() == 1 else a[:, t]) * h + b[:, t]
        h = h.relu() if kind == "relu" else h
        each.append(h)
    return torch.stack(each, dim=1) if each else b


def fading(a: Tensor, kind: str) -> Tensor:
    """Factors between 0 and 1, as of a gate; complex ones of length 0.9."""
    if kind != "complex":
        return a.sigmoid()
    length = torch.hypot(*a.chunk(2, dim=-1))
    return 0.9 * a / torch.cat([length, length], dim=-1)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("kind", "varies"), KINDS)
@pytest.mark.parametrize("fades", [False, True])
@pytest.mark.parametrize("namespace", NAMESPACES)
def test_linear_scan_is_a_loop(
    namespace: str, fades: bool, kind: str, varies: bool, shape: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    N, T, H = shape
    K = 2 * H if kind == "complex" else H
    inputs = [draw(N, T, K), draw(*((N, T, K) if varies else (K,))), draw(N, K)]
    inputs[1] = fading(inputs[1], kind) if fades else inputs[1]
    b, a, h0 = leaves = [tensor.requires_grad_() for tensor in inputs]
    doublings, doubling = [], linear._doubling

    def noted(*args: Any) -> Tensor:
        doublings.append(args)
        return doubling(*args)

    monkeypatch.setattr(linear, "_doubling", noted)
    results = []
    for states in (ops(namespace).linear_scan(b, a, h0, kind), linear_loop(b, a, h0, kind)):
        weights = torch.linspace(-1, 2, states.numel(), dtype=torch.float64).view(states.shape)
        gradients = torch.autograd.grad((states * weights).sum(), leaves, allow_unused=True, materialize_grads=True)
        results.append([states, *gradients])
    torch.testing.assert_close(*results)
    if fades and T > 0:  # the scan in log2(T) passes, which steps that grow do not take
        assert bool(doublings) == (namespace == "srnn_lab_torch")
    if kind == "relu" and b.numel() > 20:
        assert 0.1 < float((results[0][0] > 0).double().mean()) < 0.9


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("sign", ["positive", "any"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("kind", "varies"), KINDS)
def test_compiled_and_plain_linear_scan_agree(
    kind: str, varies: bool, shape: tuple[int, int, int], sign: str, dtype: torch.dtype
) -> None:
    N, T, H = shape
    K = 2 * H if kind == "complex" else H
    b, a, h0 = (
        draw(T, N, K, like=dtype).transpose(0, 1),
        draw(*((N, T, K) if varies else (K,)), like=dtype) / 2,
        draw(N, K, like=dtype),
    )
    a = a.abs() if sign == "positive" else a
    states = ops("srnn_lab").linear_scan(b, a, h0, kind)
    torch.testing.assert_close(states, torch.ops.srnn_lab_torch.linear_scan(b, a, h0, kind), rtol=1e-5, atol=1e-5)
    given = (torch.randn_like(states), states, a, h0, kind)
    compiled, plain = ops("srnn_lab").linear_scan_backward(*given), torch.ops.srnn_lab_torch.linear_scan_backward(*given)
    torch.testing.assert_close(compiled, plain, rtol=1e-5, atol=1e-5)


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
@pytest.mark.parametrize("namespace", NAMESPACES)
def test_modrelu_scan_is_a_loop(namespace: str, is_complex: bool, shape: tuple[int, int, int]) -> None:
    N, T, H = shape
    K = 2 * H if is_complex else H
    inputs = [draw(T, N, K, like=torch.float64), draw(K, K, like=torch.float64) / K**0.5]
    inputs += [draw(H, like=torch.float64) / 2, draw(N, K, like=torch.float64)]
    leaves = [tensor.requires_grad_() for tensor in inputs]
    results = []
    for states in (ops(namespace).modrelu_scan(*leaves)[0], modrelu_loop(*leaves)):
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
    h0, compiled, plain = draw(N, K, like=dtype), ops("srnn_lab"), torch.ops.srnn_lab_torch
    x[:, :1] = 0  # z = 0 at first, where h0 is 0 too
    h0[:1] = 0
    found = compiled.modrelu_scan(x, W.T.contiguous().T, b, h0)
    torch.testing.assert_close(found, plain.modrelu_scan(x, W, b, h0))
    given = (torch.randn_like(x), found[1] if is_complex else found[0], W, b)
    tolerance: Any = {} if dtype == torch.float64 else {"rtol": 1e-4, "atol": 1e-4}
    torch.testing.assert_close(compiled.modrelu_scan_backward(*given), plain.modrelu_scan_backward(*given), **tolerance)


def test_bits_do_not_depend_on_the_number_of_threads() -> None:
    b, a, h0 = torch.randn(6, 50, 40), torch.rand(40), torch.randn(6, 40)
    x, W, c, s0 = (
        torch.randn(2, 300, 130),
        torch.eye(130),
        torch.randn(65) / 4,
        torch.randn(300, 130),
    )  # wide enough for threads
    found = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        states = ops("srnn_lab").linear_scan(b, a, h0, "relu")
        z = ops("srnn_lab").modrelu_scan(x, W, c, s0)
        found.append([states, *ops("srnn_lab").linear_scan_backward(b, states, a, h0, "relu")])
        found[-1] += [*z, *ops("srnn_lab").modrelu_scan_backward(x, z[1], W, c)]
    torch.testing.assert_close(*found, rtol=0, atol=0)


def test_the_default_backend_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "NATIVE_ERROR", None)
    monkeypatch.setattr(scans, "load_error", lambda: None)
    for backend, namespace in (("torch", "srnn_lab_torch"), ("reference", "srnn_lab_torch"), ("native", "srnn_lab")):
        with kernels.use(backend):
            assert scans.operators() is getattr(torch.ops, namespace)
    monkeypatch.setattr(kernels, "_default", "bogus")
    with pytest.raises(SettingError, match="SRNN_BACKEND"):
        scans.operators()


def test_without_its_library_plain_code_runs_unless_native_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "NATIVE_ERROR", None)
    monkeypatch.setattr(scans, "load_error", lambda: "it was not built")
    with kernels.use("auto"):
        assert scans.operators() is torch.ops.srnn_lab_torch
    with kernels.use("native"), pytest.raises(BackendError, match="backend 'native' is not available: it was not built"):
        scans.operators()


def test_doctor_reports_a_missing_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scans, "load_error", lambda: "g++ failed with linear_scan.cpp")
    shown = io.StringIO()
    doctor.show(doctor.examine(), Console(file=shown, width=200))
    assert "The baselines run on plain PyTorch operations: g++ failed with linear_scan.cpp" in shown.getvalue()


LOADED = """
import sys, torch, srnn
assert not [name for name in sys.modules if name.startswith("srnn.lab")], "import srnn loads nothing of the laboratory"
from srnn.kernels import native
from srnn.lab.networks import NETWORKS
layer, x = NETWORKS["lru"](4).layer(3, 5), torch.randn(2, 5, 3)
before = native.load_error.cache_info().currsize
compiled = torch.compile(lambda x: layer(x)[0], fullgraph=True, backend="aot_eager")(x)
torch.testing.assert_close(compiled, layer(x)[0])
print(before, native.load_error.cache_info().currsize)
"""


def test_the_library_is_loaded_at_the_first_use_even_in_a_compiled_graph() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADED], capture_output=True, text=True, env=os.environ | {"SRNN_BACKEND": "auto"}
    )
    assert (done.stdout, done.stderr) == (f"1 {2 if NATIVE else 1}\n", "")


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_second_derivatives_are_refused_in_one_line(namespace: str) -> None:
    b, a = torch.randn(2, 3, 4, requires_grad=True), torch.rand(4, requires_grad=True)
    states = ops(namespace).linear_scan(b, a, torch.zeros(2, 4), "identity")
    (first,) = torch.autograd.grad(states.square().sum(), a, create_graph=True)
    with pytest.raises(DerivativeError, match="no second derivatives"):
        first.sum().backward()
    states, _ = ops(namespace).modrelu_scan(b, torch.eye(4), a, torch.zeros(3, 4))
    (first,) = torch.autograd.grad(states.square().sum(), a, create_graph=True)
    with pytest.raises(DerivativeError, match="no second derivatives"):
        first.sum().backward()


@pytest.mark.parametrize(
    ("name", "shapes", "message"),
    [
        ("linear_scan", [(2, 3, 4), (2,), (2, 4)], "a must be"),
        ("linear_scan", [(2, 3, 4), (4,), (1, 4)], "h0 must be"),
        ("linear_scan", [(3, 4), (4,), (1, 4)], "b must be"),
        ("modrelu_scan", [(3, 2, 5), (5, 5), (3,), (2, 5)], "b must be .*K = 5"),
        ("modrelu_scan", [(3, 2, 4), (4, 3), (4,), (2, 4)], "W must be"),
        ("modrelu_scan", [(3, 2, 4), (4, 4), (4,), (3, 4)], "h0 must be"),
    ],
)
def test_the_compiled_code_walks_no_pointer_past_its_end(name: str, shapes: list[tuple[int, ...]], message: str) -> None:
    tensors = [torch.zeros(shape) for shape in shapes]
    call, kind = getattr(ops("srnn_lab"), name), ["identity"] if name == "linear_scan" else []
    with pytest.raises(RuntimeError, match=message):
        call(*tensors, *kind)
    fitting = [torch.zeros(shape) for shape in ((2, 3, 4), (4,), (2, 4))]
    with pytest.raises(RuntimeError, match="a must be float64, got float32"):
        ops("srnn_lab").linear_scan(fitting[0].double(), *fitting[1:], "identity")
    with pytest.raises(RuntimeError, match=r"no kind is called 'tanh'\. Choose one of identity, relu, complex"):
        ops("srnn_lab").linear_scan(*fitting, "tanh")


@pytest.mark.parametrize("namespace", ["srnn_lab", "srnn_lab_torch"])
@pytest.mark.parametrize("kind", ["identity", "relu", "complex"])
def test_a_state_of_zero_stays_zero_where_powers_overflow(namespace: str, kind: str) -> None:
    b, a, h0 = torch.zeros(1, 600, 2), torch.full((2,), 1.5), torch.zeros(1, 2)
    b.requires_grad_()
    states = ops(namespace).linear_scan(b, a, h0, kind)
    assert not states.any()
    (db,) = torch.autograd.grad(states[:, 0].sum(), b)
    assert db.isfinite().all()


def test_nan_is_passed_on() -> None:
    b = torch.tensor([[[1.0, torch.nan], [1.0, 1.0]]])
    for kind in ("identity", "relu"):
        assert torch.ops.srnn_lab.linear_scan(b, torch.ones(2), torch.zeros(1, 2), kind).isnan().tolist() == [
            [[False, True]] * 2
        ]
    for H in (2, 1):
        states = modrelu.modrelu_scan(b, torch.eye(2), torch.zeros(H), torch.zeros(2, 2))
        assert states[0, 0].isnan().any()


@pytest.mark.parametrize("namespace", NAMESPACES)
@pytest.mark.parametrize("kind", ["identity", "relu", "complex"])
def test_tracing_sees_the_same_shapes(kind: str, namespace: str) -> None:
    for b in (torch.randn(2, 3, 4), torch.randn(3, 2, 4).transpose(0, 1)):
        given = b.requires_grad_(), torch.rand(4, requires_grad=True), torch.randn(2, 4), kind
        torch.library.opcheck(ops(namespace).linear_scan.default, given)
    H = 2 if kind == "complex" else 4
    weights = torch.randn(4, 4, requires_grad=True), torch.randn(H, requires_grad=True), torch.randn(2, 4)
    for x in (torch.randn(3, 2, 4), torch.randn(2, 3, 4).transpose(0, 1)):
        torch.library.opcheck(ops(namespace).modrelu_scan.default, (x.requires_grad_(), *weights))
