"""`shuffle_scan`, `gated_scan`, one step and the scans of the baselines: every form against a plain loop."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import hypothesis
import test_faults
import test_kernels
import test_operators
import test_scans
import torch
from hypothesis import strategies as st
from test_kernels import TOLERANCE
from torch import Tensor
from torch.testing import assert_close

from srnn.kernels import ACTIVATIONS, cell, native, pytorch, shuffle_scan
from srnn.lab.networks import scans

BACKENDS = ["torch"] if native.load_error() else ["native", "torch"]
MARGIN = 1e-4  # in other types than float64: pre-activations nearer to a bound may be on its other side
seeds = st.integers(0, 2**32 - 1)
flag = st.booleans()
rows, steps = st.integers(0, 5), st.one_of(st.integers(0, 9), st.integers(0, 75))
units = st.one_of(st.integers(1, 20), st.sampled_from([31, 32, 33, 63, 64, 65, 70, 127, 128, 130]))
dtypes = st.sampled_from([torch.float64, torch.float64, *TOLERANCE])
activations = st.sampled_from(sorted(ACTIVATIONS))
indices = st.sampled_from([torch.int64, torch.int32])


Test = Callable[..., None]


def registry() -> tuple[dict[str, tuple[Test, dict[str, Any]]], Callable[..., Callable[[Test], Test]]]:
    """Returns the targets of a file, and the decorator that adds one to them, with the strategies of its arguments."""
    found: dict[str, tuple[Test, dict[str, Any]]] = {}

    def target(**strategies: Any) -> Callable[[Test], Test]:
        def register(test: Test) -> Test:
            found[test.__name__] = test, strategies
            return test

        return register

    return found, target


TARGETS, target = registry()


@contextmanager
def decided(activation: str, dtype: torch.dtype) -> Iterator[None]:
    """Rejects a case whose derivative depends on rounding: in the loop run here, an argument of sigma is nearly at a bound."""
    real, is_near = ACTIVATIONS[activation], False

    def function(z: Tensor) -> Tensor:
        nonlocal is_near
        for bound in real.bounds or ():
            apart = (z.detach() - bound).abs()
            is_near = is_near or bool(((apart > 0) & (apart < MARGIN)).any())
        return real.function(z)

    try:
        ACTIVATIONS[activation] = replace(real, function=function)
        yield
    finally:
        ACTIVATIONS[activation] = real
    hypothesis.assume(dtype == torch.float64 or not is_near)


def close(found: dict[str, Tensor], expected: dict[str, Tensor], dtype: torch.dtype, factor: float = 4) -> None:
    """Compares values and gradients by name; those in less than double precision with the error that their type allows."""
    assert found.keys() == expected.keys()
    for name, y in found.items():
        assert y.dtype == dtype, f"{name} is {y.dtype}"
        size = expected[name].abs().max().item() if y.numel() else 0
        rtol, atol = (factor * part for part in TOLERANCE.get(dtype, (1e-8, 1e-9)))
        assert_close(y.double(), expected[name], rtol=rtol, atol=atol * max(1, size), msg=partial("{}: {}".format, name))


def borders(options: dict[str, Any], order: str, lengths: bool, index: torch.dtype, N: int, T: int, H: int) -> None:
    """Replaces permutation and lengths of a problem by others, of this type."""
    permutation = test_kernels.order_of(order, H)
    options["permutation"] = None if permutation is None else permutation.to(index)
    if lengths:
        options["lengths"] = torch.randint(0, T + 1, (N,), dtype=index)


@target(
    seed=seeds,
    N=rows,
    T=steps,
    H=units,
    form=st.sampled_from(["dense", "table"]),
    want=st.sampled_from(["states", "final"]),
    order=st.sampled_from(test_kernels.ORDERS),
    lengths=flag,
    reset=flag,
    reverse=flag,
    activation=activations,
    dtype=dtypes,
    index=indices,
    backend=st.sampled_from(BACKENDS),
    ties=flag,
    layout=st.sampled_from(["rows", "time first", "strided"]),
    threads=st.sampled_from([1, 2]),
)
def scan_forms(
    seed: int,
    N: int,
    T: int,
    H: int,
    form: str,
    want: str,
    order: str,
    lengths: bool,
    reset: bool,
    reverse: bool,
    activation: str,
    dtype: torch.dtype,
    index: torch.dtype,
    backend: str,
    ties: bool,
    layout: str,
    threads: int,
) -> None:
    """States, last states and both gradients. With `ties`, numbers are halves: sums are exact, and states are at bounds."""
    torch.manual_seed(seed)
    torch.set_num_threads(threads)
    b, h0, options = test_kernels.problem(N, T, H, form, order, lengths, dtype, reset)
    borders(options, order, lengths, index, N, T, H)
    if ties:
        b, h0 = (2 * b).round() / 2, (2 * h0).round() / 2
    if layout == "time first":
        b = b.transpose(0, 1).contiguous().transpose(0, 1)
    elif layout == "strided":
        b, h0 = (torch.stack([t, t], -1)[..., 0] for t in (b, h0))
    options |= {"activation": activation, "reverse": reverse, "want": want}
    with decided(activation, dtype):
        expected = test_kernels.results("reference", b.double(), h0.double(), **options)
    # Slopes of tanh come from states that were rounded when stored, and their errors add up over steps.
    close(test_kernels.results(backend, b, h0, **options), expected, dtype, 64 if activation == "tanh" else 4)


@target(
    seed=seeds,
    N=rows,
    T=steps,
    H=units,
    K=st.integers(1, 20),
    C=st.integers(1, 20),
    gate=flag,
    bias=flag,
    want=st.sampled_from(["states", "final"]),
    order=st.sampled_from(test_kernels.ORDERS),
    lengths=flag,
    reverse=flag,
    activation=activations,
    dtype=st.sampled_from([torch.float64, torch.float32]),
    index=indices,
    backend=st.sampled_from(BACKENDS),
    threads=st.sampled_from([1, 2]),
)
def gated_forms(
    seed: int,
    N: int,
    T: int,
    H: int,
    K: int,
    C: int,
    gate: bool,
    bias: bool,
    want: str,
    order: str,
    lengths: bool,
    reverse: bool,
    activation: str,
    dtype: torch.dtype,
    index: torch.dtype,
    backend: str,
    threads: int,
) -> None:
    """The scan that computes b in pieces, with the gradients of all weights."""
    torch.manual_seed(seed)
    torch.set_num_threads(threads)
    tensors, options = test_kernels.gated_problem(N, T, H, gate, bias, lengths, dtype, K, C)
    borders(options, order, lengths, index, N, T, H)
    options |= {"activation": activation, "reverse": reverse, "want": want}
    with decided(activation, dtype):
        expected = test_kernels.gated_results(None, [None if t is None else t.double() for t in tensors], **options)
    close(test_kernels.gated_results(backend, tensors, **options), expected, dtype, 64)


@target(
    seed=seeds,
    mlp=st.lists(st.integers(1, 40), max_size=2),
    C=st.integers(1, 40),
    H=units,
    N=st.integers(0, 9),
    gate=flag,
    bias=flag,
    order=st.sampled_from(test_kernels.ORDERS),
    activation=activations,
    dtype=st.sampled_from([torch.float64, torch.float32]),
)
def one_step(
    seed: int, mlp: list[int], C: int, H: int, N: int, gate: bool, bias: bool, order: str, activation: str, dtype: torch.dtype
) -> None:
    """One step of a layer, with the gradients of all maps; in float32 its values."""
    hypothesis.assume(native.load_error() is None)
    torch.manual_seed(seed)
    x, h, maps = test_kernels.cell_problem(tuple(mlp), gate, bias, dtype, N, C, H)
    how = (test_kernels.order_of(order, H), gate, bias, activation)
    leaves = [t.requires_grad_() for t in (x, h, *maps)]
    found = cell(x, h, maps, *how)
    if dtype == torch.float32:
        expected = pytorch.cell(x.double(), h.double(), [m.double() for m in maps], *how)
        assert_close(found.double(), expected, rtol=1e-4, atol=1e-4 * max(1, *(m.abs().max().item() ** 2 for m in maps)) * C)
        return
    expected, grad = pytorch.cell(x, h, maps, *how), torch.randn_like(h)
    assert_close((found, *torch.autograd.grad(found, leaves, grad)), (expected, *torch.autograd.grad(expected, leaves, grad)))


def with_gradients(states: Tensor, leaves: list[Tensor]) -> list[Tensor]:
    """States, and the gradients of a sum of them with other weights for each."""
    weights = torch.linspace(-1, 2, states.numel(), dtype=states.dtype).view(states.shape)
    grads = torch.autograd.grad((states * weights).sum(), leaves, allow_unused=True, materialize_grads=True)
    return [states.detach(), *grads]


@target(
    seed=seeds,
    N=rows,
    T=st.integers(0, 40),
    H=st.one_of(st.integers(1, 9), st.integers(60, 70)),
    kind=st.sampled_from(test_scans.KINDS),
    fades=flag,
    namespace=st.sampled_from(scans.NAMESPACES),
    threads=st.sampled_from([1, 2]),
)
def linear_scan(seed: int, N: int, T: int, H: int, kind: tuple[str, bool], fades: bool, namespace: str, threads: int) -> None:
    """The scan of LRU, minGRU and IndRNN."""
    torch.manual_seed(seed)
    torch.set_num_threads(threads)
    name, varies = kind
    K = 2 * H if name == "complex" else H
    b, a, h0 = test_scans.draw(N, T, K), test_scans.draw(*((N, T, K) if varies else (K,))), test_scans.draw(N, K)
    b, a, h0 = leaves = [t.requires_grad_() for t in (b, test_scans.fading(a, name) if fades else a / 2, h0)]
    loop = with_gradients(test_scans.linear_loop(b, a, h0, name), leaves)
    assert_close(with_gradients(getattr(torch.ops, namespace).linear_scan(*leaves, name), leaves), loop)


@target(
    seed=seeds,
    N=rows,
    T=st.integers(0, 12),
    H=st.one_of(st.integers(1, 9), st.integers(60, 70)),
    is_complex=flag,
    namespace=st.sampled_from(scans.NAMESPACES),
    threads=st.sampled_from([1, 2]),
)
def modrelu_scan(seed: int, N: int, T: int, H: int, is_complex: bool, namespace: str, threads: int) -> None:
    """The scan of the unitary and orthogonal networks."""
    torch.manual_seed(seed)
    torch.set_num_threads(threads)
    K, draw = 2 * H if is_complex else H, test_scans.draw
    leaves = [draw(T, N, K), draw(K, K) / K**0.5, draw(H) / 2, draw(N, K)]
    leaves = [tensor.requires_grad_() for tensor in leaves]
    loop = with_gradients(test_scans.modrelu_loop(*leaves), leaves)
    assert_close(with_gradients(getattr(torch.ops, namespace).modrelu_scan(*leaves)[0], leaves), loop)


@target(
    b=test_faults.tensors(),
    h0=test_faults.anything,
    ids=test_faults.anything,
    permutation=test_faults.anything,
    lengths=test_faults.anything,
    reset=test_faults.anything,
    reverse=flag,
    final=flag,
    activation=st.sampled_from(["relu", "tanh", "clip", "gelu", ""]),
    backend=st.sampled_from([*BACKENDS, "cuda", ""]),
)
def wrong_scan(b: Tensor, backend: str, **arguments: Any) -> None:
    """Any tensors as arguments: one of our errors, or what the loop gives."""
    word, found = test_faults.outcome(lambda _: shuffle_scan(b, backend=backend, **arguments), Path())
    if word == "refused":
        assert found
        return
    expected = shuffle_scan(b.double(), backend="reference", **arguments | {"h0": _double(arguments["h0"])})
    assert found.dtype == b.dtype
    assert_close(found.double(), expected, rtol=0.01, atol=0.05)


def _double(t: Tensor | None) -> Tensor | None:
    return None if t is None else t.double()


@st.composite
def changed(draw: Any, t: Tensor) -> Tensor:
    """A tensor that differs from a good one in its values, extents, type or layout."""
    how = draw(st.sampled_from(["values", "extents", "type", "layout"]))
    if how == "values":
        new = torch.randint(-2, 8, t.shape, generator=torch.Generator().manual_seed(draw(seeds)))
        return new.to(t.dtype)
    if how == "type":
        return t.to(draw(st.sampled_from(test_faults.DTYPES)))
    if how == "layout":
        return torch.stack([t, t], -1)[..., draw(st.sampled_from([0, 1]))]
    sizes = [draw(st.sampled_from([extent, extent, extent + 1, max(0, extent - 1), 1, 0])) for extent in t.shape]
    return torch.zeros(sizes, dtype=t.dtype)


@st.composite
def calls(draw: Any) -> tuple[str, dict[str, Any]]:
    """An operator, with arguments of which up to two are changed."""
    operator = draw(st.sampled_from(sorted(test_operators.GOOD)))
    given = dict(test_operators.GOOD[operator][draw(st.sampled_from(sorted(test_operators.GOOD[operator])))])
    tensors = [name for name, value in given.items() if isinstance(value, Tensor)]
    for name in draw(st.lists(st.sampled_from(tensors), max_size=2, unique=True)):
        given[name] = draw(changed(given[name]))
    return operator, given


@target(call=calls())
def operators(call: tuple[str, dict[str, Any]]) -> None:
    """Operators as a graph may call them: compiled and plain code both refuse the arguments, or give the same."""
    operator, given = call
    outcomes: dict[str, Any] = {}
    for mode in test_operators.modes(operator):
        if mode == "fake":
            continue
        try:
            outcomes[mode] = test_operators.call(mode, operator, given)
        except test_operators.ANY_ERROR:
            outcomes[mode] = "refused"
    first, *others = outcomes.values()
    for other in others:
        assert (first == "refused") == (other == "refused"), outcomes
        if first != "refused":
            assert_close(first, other, rtol=1e-4, atol=1e-3, equal_nan=True)
