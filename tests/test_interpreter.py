"""Triton's kernels in its interpreter, on the CPU, against the loop that specifies them. `make triton` starts a process for it.

tests/test_kernels.py runs there too, with the backend "triton". This file has what only these kernels have: two forms, windows
of time, bits packed along time, and no access outside of a tensor. What a GPU computes differs from the interpreter in exp
(hence tanh and the gate).
"""

import inspect
from collections.abc import Iterator
from itertools import product
from typing import Any

import interpreter
import pytest
import torch
import triton
import triton.language as tl
from hypothesis import given, settings
from hypothesis import strategies as st
from test_kernels import (
    FORMS,
    TOLERANCE,
    Results,
    assert_same_bits,
    cell_problem,
    differentiable,
    gated_problem,
    gated_results,
    order_of,
    problem,
    results,
)
from torch import Tensor
from torch.testing import assert_close

from srnn import kernels
from srnn.kernels import ACTIVATIONS, pytorch, shuffle_scan
from srnn.kernels.triton import kernels as jitted
from srnn.kernels.triton import launch, operators

pytestmark = pytest.mark.interpreter

SHAPES = [(2, 37, 20), (3, 70, 5), (1, 33, 130)]
OPTIONS = {
    "plain": ("shift", False, False, False),
    "reverse": ("shift", False, False, True),
    "lengths": ("random", True, False, False),
    "resets": ("cycles", False, True, False),
    "all options": ("random", True, True, True),
}
EVERY_OPTION = pytest.mark.parametrize("how", OPTIONS)


@pytest.fixture(autouse=True)
def bounds() -> Iterator[None]:
    """Any access of a kernel outside of its arguments is an error."""
    with interpreter.bounds_checked():
        yield


def exactly(x: Tensor) -> Tensor:
    """Numbers whose sums have no rounding error, so that every order of addition gives the same."""
    return (x * 64).round() / 64


def scan_problem(
    shape: tuple[int, int, int], form: str, how: str, dtype: torch.dtype = torch.float64
) -> tuple[Tensor, Tensor, dict[str, Any]]:
    order, lengths, reset, reverse = OPTIONS[how]
    b, h0, options = problem(*shape, form, order, lengths, dtype, reset)
    return b, h0, options | {"reverse": reverse}


# ---- parallel over lanes


@EVERY_OPTION
@pytest.mark.parametrize("want", ["states", "final"])
@pytest.mark.parametrize("activation", ["relu", "clip"])
def test_lanes_equal_the_reference_to_the_bit(how: str, want: str, activation: str) -> None:
    for shape, dtype in zip(SHAPES, (torch.float32, torch.float64, torch.float32), strict=True):
        b, h0, options = scan_problem(shape, "dense", how, dtype)
        options |= {"activation": activation, "want": want}
        with launch.use_form("lanes"):
            assert_same_bits(results("triton", b, h0, **options), results("reference", b, h0, **options))


@pytest.mark.parametrize("shape", [(0, 4, 3), (2, 0, 5), (1, 1, 1), (2, 9, 1)], ids=str)
def test_shapes_with_nothing_or_one_equal_the_reference(shape: tuple[int, int, int]) -> None:
    with launch.use_form("time"):
        for form, want in FORMS:
            b, h0, options = scan_problem(shape, form, "all options")
            assert_close(results("triton", b, h0, want, **options), results("reference", b, h0, want, **options))
        for want in ("states", "final"):
            tensors, options = gated_problem(*shape, lengths=True)
            options |= {"want": want, "reverse": True}
            assert_close(gated_results("triton", tensors, **options), gated_results(None, tensors, **options))


@EVERY_OPTION
def test_states_of_tanh_equal_the_reference(how: str) -> None:
    b, h0, options = scan_problem((3, 35, 5), "dense", how)
    options |= {"activation": "tanh"}
    assert_close(results("triton", b, h0, **options), results("reference", b, h0, **options))


@EVERY_OPTION
@pytest.mark.parametrize("want", ["states", "final"])
def test_scans_of_a_table_equal_the_reference(how: str, want: str) -> None:
    b, h0, options = scan_problem((3, 300, 5), "table", how)  # more tokens than one program adds
    assert_close(results("triton", b, h0, want, **options), results("reference", b, h0, want, **options))


@triton.jit  # type: ignore[untyped-decorator]
def tanh_kernel(x, out, SIZE: tl.constexpr) -> None:  # type: ignore[no-untyped-def]
    i = tl.arange(0, SIZE)
    tl.store(out + i, jitted.tanh(tl.load(x + i)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_tanh_is_exact_but_for_rounding_near_0_too(dtype: torch.dtype) -> None:
    sizes = torch.cat([torch.logspace(-30, 30, 1023, dtype=dtype), torch.linspace(0.4, 0.8, 1024, dtype=dtype)])
    x = torch.cat([sizes, -sizes, torch.tensor([0.0, torch.nan], dtype=dtype)])
    found = torch.empty_like(x)
    tanh_kernel[(1,)](x, found, SIZE=len(x))
    expected = x.double().tanh()
    assert_close(found.double(), expected, rtol=3 * torch.finfo(dtype).eps, atol=0, equal_nan=True)


def test_no_kernel_adds_in_an_order_that_may_change() -> None:
    assert "atomic" not in inspect.getsource(jitted)


@pytest.mark.parametrize(("form", "dtype"), list(product(("lanes", "time"), TOLERANCE)), ids=str)
def test_every_dtype_equals_the_reference_in_float64(form: str, dtype: torch.dtype) -> None:
    for table, want in (("dense", "states"), ("table", "final")):
        b, h0, options = scan_problem((3, 70, 5), table, "lengths", dtype)
        b, h0 = exactly(b).to(dtype), exactly(h0).to(dtype)  # no state is rounded across 0, which would stop a gradient
        with launch.use_form(form):
            found = results("triton", b, h0, want, **options)
        assert {y.dtype for y in found.values()} == {dtype}
        assert_near(found, results("reference", b.double(), h0.double(), want, **options), dtype)


def assert_near(found: Results, expected: Results, dtype: torch.dtype) -> None:
    """Compares within the tolerance of a dtype, relative to the largest value."""
    rtol, atol = TOLERANCE[dtype]
    for name, y in found.items():
        atol_here = atol * max(1, expected[name].abs().max().item())
        assert_close(y, expected[name], rtol=rtol, atol=atol_here, check_dtype=False)


# ---- parallel over time: within 1e-5 of the loop in float32, 1e-12 in float64, times the largest state


@EVERY_OPTION
@pytest.mark.parametrize(("form", "want"), [("dense", "states"), ("dense", "final"), ("table", "states")])
@pytest.mark.parametrize("activation", ["relu", "clip"])
def test_chunks_of_time_equal_the_reference_where_sums_are_exact(how: str, form: str, want: str, activation: str) -> None:
    b, h0, options = scan_problem((2, 257, 3), form, how)  # five chunks, the last of one step
    b, h0, options = exactly(b), exactly(h0), options | {"activation": activation, "want": want}
    with launch.use_form("time"):
        assert_close(results("triton", b, h0, **options), results("reference", b, h0, **options))


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-12)], ids=str)
@pytest.mark.parametrize(("activation", "drift"), [("relu", -0.5), ("relu", 0.0), ("relu", 0.5), ("clip", 0.0)])
def test_chunks_of_time_agree_with_the_loop_up_to_rounding(
    dtype: torch.dtype, tolerance: float, activation: str, drift: float
) -> None:
    b, h0 = torch.randn(1, 700, 3, dtype=dtype) + drift, torch.randn(1, 3, dtype=dtype)
    with launch.use_form("time"):
        found = shuffle_scan(b, h0, activation=activation, backend="triton")
    expected = shuffle_scan(b, h0, activation=activation, backend="reference")
    error = tolerance * expected.abs().max()
    assert (found - expected).abs().max() <= error
    for bound in ACTIVATIONS[activation].bounds or ():
        away = (expected == bound) | ((expected - bound).abs() > error)
        assert torch.equal((found == bound)[away], (expected == bound)[away])


@pytest.mark.parametrize("activation", ["relu", "clip"])
@pytest.mark.parametrize("reverse", [False, True])
def test_no_nan_passes_a_reset_in_chunks_of_time(activation: str, reverse: bool) -> None:
    b, reset = torch.randn(1, 260, 3), torch.zeros(1, 260, dtype=torch.bool)
    b[0, 250 if reverse else 10, 1], reset[0, [40, 150, 220]] = torch.nan, True
    with launch.use_form("time"):
        found = shuffle_scan(b, reset=reset, reverse=reverse, activation=activation, backend="triton")
    expected = shuffle_scan(b, reset=reset, reverse=reverse, activation=activation, backend="reference")
    assert torch.equal(found.isnan(), expected.isnan())
    assert found.isnan().any()


def test_last_zeros_in_chunks_of_time_are_those_of_lanes() -> None:
    b, h0, options = scan_problem((2, 257, 3), "dense", "all options")
    sequence = (None, options["permutation"], options["lengths"], options["reset"], True, "relu")
    found = {}
    for form in ("lanes", "time"):
        with launch.use_form(form):
            found[form] = torch.ops.srnn_triton.shuffle_scan_final(exactly(b), exactly(h0), *sequence)
    assert torch.equal(found["lanes"][1], found["time"][1])


# ---- the maps of chunks


@triton.jit  # type: ignore[untyped-decorator]
def combine_kernel(first, second, out, count, SIZE: tl.constexpr) -> None:  # type: ignore[no-untyped-def]
    i = tl.arange(0, SIZE)
    a = jitted.combine(*[tl.load(first + k * SIZE + i) for k in range(3)], *[tl.load(second + k * SIZE + i) for k in range(3)])
    for k in tl.static_range(3):
        tl.store(out + k * SIZE + i, a[k])


@triton.jit  # type: ignore[untyped-decorator]
def combine_backward_kernel(first, second, out, count, SIZE: tl.constexpr) -> None:  # type: ignore[no-untyped-def]
    i = tl.arange(0, SIZE)
    a = jitted.combine_backward(
        *[tl.load(first + k * SIZE + i) for k in range(2)], *[tl.load(second + k * SIZE + i) for k in range(2)]
    )
    for k in tl.static_range(2):
        tl.store(out + k * SIZE + i, a[k])


MAPS = {"forward": (combine_kernel, 3), "backward": (combine_backward_kernel, 2)}
EVERY_MAP = pytest.mark.parametrize("direction", MAPS)


def combined(direction: str, first: Tensor, second: Tensor) -> Tensor:
    kernel, fields = MAPS[direction]
    assert first.shape == second.shape == (fields, 8)
    out = torch.empty_like(first)
    kernel[(1,)](first.contiguous(), second.contiguous(), out, 8, SIZE=8)
    return out


def maps_of(direction: str, numbers: list[int]) -> Tensor:
    """Maps of single steps: of multiples of 1/4, whose sums are exact, half of them with another kind."""
    c = torch.tensor(numbers, dtype=torch.float64).view(-1, 8) / 4
    if direction == "forward":
        return torch.stack([c, torch.where(c > 2, -1.0, 0.0), torch.where(c > 2, 1.0, torch.inf)], 1)
    return torch.stack([c, (c.abs() * 4 % 3 > 0).double()], 1)


def applied(direction: str, map_: Tensor, u: Tensor) -> Tensor:
    if direction == "forward":
        return (u + map_[0]).maximum(map_[1]).minimum(map_[2])
    return torch.where(map_[1] != 0, u, 0) + map_[0]


steps = st.integers(-12, 12)


@EVERY_MAP
@settings(deadline=None, max_examples=25)
@given(numbers=st.lists(steps, min_size=24, max_size=24))
def test_the_maps_of_chunks_are_associative_and_have_an_identity(direction: str, numbers: list[int]) -> None:
    a, b, c = maps_of(direction, numbers)
    left, right = (combined(direction, combined(direction, a, b), c), combined(direction, a, combined(direction, b, c)))
    assert torch.equal(left, right)
    identity = torch.tensor([[0.0], [-torch.inf], [torch.inf]] if direction == "forward" else [[0.0], [1.0]]).double()
    for each in (combined(direction, identity.expand_as(a), a), combined(direction, a, identity.expand_as(a))):
        assert torch.equal(each, a)


@EVERY_MAP
@settings(deadline=None, max_examples=25)
@given(data=st.data(), count=st.integers(1, 7))
def test_the_maps_combined_in_any_tree_do_what_the_steps_do(direction: str, data: st.DataObject, count: int) -> None:
    numbers = data.draw(st.lists(steps, min_size=8 * count, max_size=8 * count))
    maps = list(maps_of(direction, numbers))
    start = torch.linspace(-3, 3, 8, dtype=torch.float64)
    expected = start
    for each in maps:
        expected = applied(direction, each, expected)
    narrow = [each.float() for each in maps]
    while len(narrow) > 1:
        k = data.draw(st.integers(0, len(narrow) - 2))
        narrow[k : k + 2] = [combined(direction, narrow[k], narrow[k + 1])]
    assert_close(applied(direction, narrow[0], start.float()).double(), expected, rtol=1e-6, atol=1e-6)


# ---- gated scans in windows of time


@pytest.mark.parametrize(
    ("form", "want", "activation"),
    [*product(("lanes", "time"), ("states", "final"), ("relu", "clip")), ("lanes", "states", "tanh")],
)
@pytest.mark.parametrize(("gate", "lengths", "reverse"), [(True, False, False), (False, True, False), (True, True, True)])
def test_windows_of_a_gated_scan_equal_the_composition(
    form: str, want: str, activation: str, gate: bool, lengths: bool, reverse: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operators, "WINDOW_BYTES", 3 * 4 * 8 * (128 if form == "time" else 32))
    tensors, options = gated_problem(3, 150 if form == "time" else 70, 4, gate, lengths=lengths)
    options |= {"activation": activation, "reverse": reverse, "want": want}
    with launch.use_form(form):
        assert_close(gated_results("triton", tensors, **options), gated_results(None, tensors, **options))


def test_the_memory_of_a_gated_scan_does_not_grow_with_time(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    def watched(make: Any) -> Any:
        def run(*args: Any, **more: Any) -> Any:
            made = make(*args, **more)
            sizes.extend([] if made is None else [made.numel()])
            return made

        return run

    monkeypatch.setattr(operators, "WINDOW_BYTES", 2 * 4 * 8 * 32)
    monkeypatch.setattr(launch.Rows, "empty", watched(launch.Rows.empty))
    monkeypatch.setattr(operators, "_linear", watched(operators._linear))
    tensors, _ = gated_problem(2, 200, 4)
    leaves = [t.requires_grad_() for t in tensors]
    h_n = kernels.gated_scan(*leaves, final=True, backend="triton")[1]
    torch.autograd.grad(h_n.sum(), leaves)
    assert max(sizes) == 2 * 32 * 4


# ---- derivatives of derivatives


@pytest.mark.parametrize(
    ("form", "want", "activation"),
    [("dense", "states", "relu"), ("dense", "states", "tanh"), ("dense", "final", "clip"), ("table", "final", "relu")],
)
def test_two_derivatives_are_those_of_differences(form: str, want: str, activation: str) -> None:
    function, inputs = differentiable("triton", form, want, activation, lengths=True)
    assert torch.autograd.gradcheck(function, inputs, fast_mode=True)
    assert torch.autograd.gradgradcheck(function, inputs, fast_mode=True)


@pytest.mark.parametrize("final", [False, True], ids=["states", "final"])
def test_two_derivatives_of_a_gated_scan_are_those_of_differences(final: bool) -> None:
    tensors, options = gated_problem(2, 3, 2)

    def function(*inputs: Tensor) -> tuple[Tensor, ...]:
        return tuple(y for y in kernels.gated_scan(*inputs, final=final, backend="triton", **options) if y is not None)

    inputs = [t.requires_grad_() for t in tensors]
    assert torch.autograd.gradcheck(function, inputs, fast_mode=True)
    assert torch.autograd.gradgradcheck(function, inputs, fast_mode=True)


# ---- one step


@pytest.mark.parametrize("activation", kernels.ACTIVATIONS)
@pytest.mark.parametrize(
    ("gate", "bias", "order", "layout"),
    [
        (True, True, "random", "dense"),
        (False, False, "shift", "dense"),
        (True, True, "shift", "expanded"),
        (True, True, "shift", "turned"),
    ],
)
def test_one_step_equals_the_composition(activation: str, gate: bool, bias: bool, order: str, layout: str) -> None:
    x, h, maps = cell_problem((7,), gate, bias)
    h = {"dense": h, "expanded": h[:1].expand_as(h), "turned": h.T.contiguous().T}[layout].detach()
    how = (order_of(order, 37), gate, bias, activation)
    leaves = [t.requires_grad_() for t in (x, h, *maps)]
    expected = pytorch.cell(x, h, maps, *how)
    grad = torch.randn_like(expected)
    with torch.no_grad():
        found = operators.cell(x, h, maps, *how)
        assert_close(found, expected)
        wanted = [1] * len(leaves)
        grads = operators.cell_backward(grad, x, found, maps, *how, wanted)
        some = operators.cell_backward(grad, x, found, maps, *how, [0, 0, *wanted[2:]])
    assert_close(grads, list(torch.autograd.grad(expected, leaves, grad)))
    assert [t.numel() for t in some[:2]] == [0, 0]
    assert_close(some[2:], grads[2:])


# ---- what is kept, and where kernels read and write


@pytest.mark.parametrize("activation", ["relu", "clip"])
@pytest.mark.parametrize("T", [0, 1, 32, 70])
def test_bits_are_packed_along_time_in_the_frame_of_the_units(activation: str, T: int) -> None:
    N, H = 3, 6
    b, h0, options = problem(N, T, H, order="random", lengths=True)
    permutation, lengths = options["permutation"], options["lengths"]
    output, _, bits = torch.ops.srnn_triton.shuffle_scan(b, h0, None, permutation, lengths, None, True, activation)
    expected = torch.zeros(N, T // 32 + 2, H, dtype=torch.int64)
    for n, length in enumerate(lengths.tolist()):
        place = torch.arange(H)  # of the unit that starts at each place
        for s in range(length):
            place = permutation.argsort()[place]
            states = output[n, length - 1 - s, place]
            passes = states > 0 if activation == "relu" else states.abs() < 1
            expected[n, s // 32] += passes.long() << (s % 32)
    assert bits.dtype == torch.int32
    assert torch.equal(bits.long() & 0xFFFFFFFF, expected)


def test_offsets_have_64_bits() -> None:
    far = 2**30 + 8  # two steps are further apart than int32 counts; untouched memory takes no space
    memory = torch.empty(2 * far + 4, dtype=torch.float16)
    b = memory.as_strided((1, 3, 4), (0, far, 1))
    b.copy_(torch.randn(1, 3, 4))
    h0 = torch.zeros(1, 4, dtype=torch.float16)
    assert torch.equal(shuffle_scan(b, h0, backend="triton"), shuffle_scan(b, h0, backend="reference"))


def test_an_access_outside_of_the_arguments_is_found() -> None:
    b = torch.zeros(1, 4, 8)
    with pytest.raises(Exception, match="outside of the arguments"):
        launch.launch(jitted.table_sum, 1, b, torch.tensor([0, 5]), torch.zeros(1, 8), 8, WIDE=tl.float32, BLOCK=128)


def test_a_changed_permutation_is_not_taken_for_the_old_one() -> None:
    b, h0, _ = problem(2, 5, 4)
    permutation = torch.tensor([1, 2, 3, 0])
    for new in ([1, 2, 3, 0], [3, 0, 1, 2], [0, 1, 2, 3]):
        permutation.copy_(torch.tensor(new))
        expected = shuffle_scan(b, h0, permutation=permutation, backend="reference")
        assert torch.equal(shuffle_scan(b, h0, permutation=permutation, backend="triton"), expected)
