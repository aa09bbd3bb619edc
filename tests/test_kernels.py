"""Every backend of `shuffle_scan` against the loop that specifies it: states, gradients, and what PyTorch asks of operators."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from srnn import errors, kernels
from srnn.kernels import native, ops, pytorch, reference, scan, shuffle_scan, triton
from srnn.kernels.arguments import words_of

Options = dict[str, Any]
Results = dict[str, Tensor]

# (relative, absolute) error against the reference in float64
TOLERANCE = {torch.float32: (1e-5, 1e-5), torch.bfloat16: (2**-8, 2**-8), torch.float16: (2**-11, 2**-10)}
ORDERS = ("shift", "identity", "random", "cycles")
FORMS = tuple(product(("dense", "table"), ("states", "final")))
EVERY_FORM = pytest.mark.parametrize(("form", "want"), FORMS)


def backend_param(name: str) -> Any:
    """A backend to run a test with; `native` is left out where it is not built, unless $SRNN_REQUIRE asks for it."""
    required = name in os.environ.get("SRNN_REQUIRE", "").split(",")
    absent = name == "native" and native.load_error() is not None and not required
    return pytest.param(name, marks=pytest.mark.skipif(absent, reason=f"no native backend: {native.load_error()}"))


# Triton's kernels in its interpreter, for which `make triton` starts a process of its own
TRITON = [pytest.param("triton", marks=pytest.mark.interpreter)] if triton.INTERPRETED else []
FAST = pytest.mark.parametrize("backend", [backend_param("native"), backend_param("torch"), *TRITON])
BY_UNIT = pytest.mark.parametrize("backend", [backend_param("native"), backend_param("torch")])
NATIVE = pytest.mark.parametrize("backend", [backend_param("native")])
EXACT = pytest.mark.parametrize("backend", [backend_param("native"), "reference"])
NAMESPACE = {"native": torch.ops.srnn, "torch": torch.ops.srnn_torch, "triton": torch.ops.srnn_triton}
EVERY = pytest.mark.parametrize("backend", [backend_param("native"), "torch", "reference", *TRITON])


def order_of(name: str, H: int) -> Tensor | None:
    """A permutation of H units; "cycles" has one cycle each of 1, 2, 3, ... units and one of all that are left."""
    if name == "shift":
        return None
    if name == "identity":
        return torch.arange(H)
    if name == "random":
        return torch.randperm(H)
    sizes = [1, 2, 3, 4, H - 10] if H > 11 else [1, H - 1] if H > 1 else [1]
    return torch.cat([part.roll(-1) for part in torch.arange(H).split(sizes)])


def problem(
    N: int,
    T: int,
    H: int,
    form: str = "dense",
    order: str = "shift",
    lengths: bool = False,
    dtype: torch.dtype = torch.float64,
    reset: bool = False,
) -> tuple[Tensor, Tensor, Options]:
    """b, h0 and options; a table has a row that is never used, lengths have 0 and T among them.

    With `reset` every second row begins a new sequence at step 0, one row at every step, one never, the others now and then.
    """
    options: Options = {"permutation": order_of(order, H)}
    if reset:
        options["reset"] = torch.rand(N, T) < 0.1
        options["reset"][::2, :1] = True
        options["reset"][1:2] = False
        options["reset"][2:3] = True
    if lengths:
        options["lengths"] = torch.randint(0, T + 1, (N,))
        options["lengths"][: min(N, 2)] = torch.tensor([T, 0])[: min(N, 2)]
    if form == "table":
        options["ids"] = torch.randint(0, 5, (N, T))
    b = torch.randn(*((6, H) if form == "table" else (N, T, H)), dtype=dtype)
    return b, torch.randn(N, H, dtype=dtype), options


def loss_of(outputs: dict[str, Tensor]) -> Tensor:
    """A sum with fixed random weights, so that every element of the outputs has a derivative of its own."""
    weights = torch.Generator().manual_seed(1)
    terms = [(y * (torch.randn(y.shape, generator=weights) + 0.5).bfloat16().to(y)).sum() for y in outputs.values()]
    return torch.stack(terms).sum()


def results(backend: str, b: Tensor, h0: Tensor, want: str = "states", **options: Any) -> Results:
    """The states, and the gradients of b and h0, by name."""
    b, h0 = b.detach().requires_grad_(), h0.detach().requires_grad_()
    if want == "final":
        outputs = {"h_n": shuffle_scan(b, h0, final=True, backend=backend, **options)}
    else:
        outputs = dict(zip(("output", "h_n"), scan(b, h0, backend=backend, **options), strict=True))
    db, dh0 = torch.autograd.grad(loss_of(outputs), (b, h0), materialize_grads=True)
    return {**{name: y.detach() for name, y in outputs.items()}, "db": db, "dh0": dh0}


def assert_same_bits(actual: Results, expected: Results) -> None:
    assert_close(actual, expected, rtol=0, atol=0, equal_nan=True)


# ---- every backend equals the reference


@FAST
@EVERY_FORM
@pytest.mark.parametrize("activation", kernels.ACTIVATIONS)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("lengths", [False, True], ids=["whole", "lengths"])
@pytest.mark.parametrize("reset", [False, True], ids=["one", "resets"])
@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
def test_states_and_gradients_equal_the_reference(
    backend: str, form: str, want: str, activation: str, order: str, lengths: bool, reset: bool, reverse: bool
) -> None:
    b, h0, options = problem(4, 67, 13, form, order, lengths, reset=reset)
    options |= {"activation": activation, "reverse": reverse, "want": want}
    assert_close(results(backend, b, h0, **options), results("reference", b, h0, **options))


SHAPES = [
    (1, 1, 1),
    (2, 1, 5),
    (3, 9, 1),
    (2, 70, 3),
    (5, 4, 7),
    (2, 3, 63),
    (2, 66, 64),
    (3, 5, 65),
    (2, 131, 130),
    (40, 3, 8),
]
EMPTY = [(0, 4, 3), (2, 0, 5), (0, 0, 1)]


@FAST
@EVERY_FORM
@pytest.mark.parametrize("shape", SHAPES + EMPTY, ids=str)
@pytest.mark.parametrize("order", ORDERS)
def test_awkward_shapes_equal_the_reference(
    backend: str, form: str, want: str, shape: tuple[int, int, int], order: str
) -> None:
    b, h0, options = problem(*shape, form, order, lengths=True, reset=order in ("shift", "random"))
    options |= {"want": want, "reverse": order == "random"}
    assert_close(results(backend, b, h0, **options), results("reference", b, h0, **options))


@FAST
@EVERY_FORM
@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
def test_many_short_cycles_equal_the_reference(backend: str, form: str, want: str, reverse: bool) -> None:
    """Pairs of units that change places: blocks of 64 along them would be empty but for two."""
    b, h0, options = problem(3, 70, 130, form, lengths=True)
    options |= {"want": want, "reverse": reverse, "permutation": torch.arange(130).flip(0)}
    assert_close(results(backend, b, h0, **options), results("reference", b, h0, **options))


@FAST
@pytest.mark.parametrize("shape", EMPTY, ids=str)
def test_tanh_of_nothing_equals_the_reference(backend: str, shape: tuple[int, int, int]) -> None:
    b, h0, _ = problem(*shape)
    assert_close(results(backend, b, h0, activation="tanh"), results("reference", b, h0, activation="tanh"))


@FAST
@EVERY_FORM
@pytest.mark.parametrize("activation", kernels.ACTIVATIONS)
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_other_dtypes_equal_the_reference_in_float64(
    backend: str, form: str, want: str, activation: str, dtype: torch.dtype
) -> None:
    b, h0, options = problem(3, 80, 70, form, lengths=True, dtype=dtype, reset=True)
    options |= {"activation": activation, "want": want}
    actual, expected = results(backend, b, h0, **options), results("reference", b.double(), h0.double(), **options)
    assert {y.dtype for y in actual.values()} == {dtype}
    rtol, atol = TOLERANCE[dtype]
    atol *= 16 if activation == "tanh" else 1  # the slope 1 - h^2 comes from states that were rounded when stored
    assert_close(actual, expected, rtol=rtol, atol=atol, check_dtype=False)


LAYOUTS = {
    "time first": lambda N, T, H: torch.randn(T, N, H).transpose(0, 1),
    "units first": lambda N, T, H: torch.randn(H, N, T).permute(1, 2, 0),
    "every other unit": lambda N, T, H: torch.randn(N, T, 2 * H)[..., ::2],
    "every other step": lambda N, T, H: torch.randn(N, 2 * T, H)[:, 1::2],
    "same for all sequences": lambda N, T, H: torch.randn(T, H).expand(N, T, H),
    "same for all units": lambda N, T, H: torch.randn(N, T, 1).expand(N, T, H),
}


@FAST
@pytest.mark.parametrize("want", ["states", "final"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_memory_layout_does_not_matter(backend: str, want: str, layout: str) -> None:
    b, h0 = LAYOUTS[layout](3, 9, 66).double(), torch.randn(66, 3, dtype=torch.float64).T
    assert_close(results(backend, b, h0, want), results("reference", b.contiguous(), h0.contiguous(), want))


@FAST
@pytest.mark.parametrize("want", ["states", "final"])
def test_gradients_of_any_memory_layout_are_read_correctly(backend: str, want: str) -> None:
    b, h0, _ = problem(3, 9, 66)
    b.requires_grad_()
    y = shuffle_scan(b, h0, final=want == "final", backend=backend)
    expected = shuffle_scan(b, h0, final=want == "final", backend="reference")
    for grad in (torch.randn(y.shape[::-1]).double().permute(*reversed(range(y.dim()))), torch.randn(1).double().expand_as(y)):
        assert_close(torch.autograd.grad(y, b, grad, True), torch.autograd.grad(expected, b, grad, True))


@FAST
@pytest.mark.parametrize("want", ["states", "final"])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.int64], ids=str)
def test_ids_of_every_integer_type_work(backend: str, want: str, dtype: torch.dtype) -> None:
    b, h0, options = problem(5, 7, 9, "table")
    expected = results("reference", b, h0, want, **options)
    ids = torch.stack([options["ids"], options["ids"]], -1).to(dtype)[..., 0]  # and not contiguous
    assert_close(results(backend, b, h0, want, ids=ids), expected)


@FAST
@pytest.mark.parametrize("want", ["states", "final"])
def test_uint8_ids_reach_all_256_rows(backend: str, want: str) -> None:
    table, h0, ids = torch.randn(256, 5).double(), torch.zeros(2, 5).double(), torch.arange(256, dtype=torch.uint8).view(2, 128)
    expected = results("reference", table.view(2, 128, 5), h0, want)
    actual = results(backend, table, h0, want, ids=ids)
    assert_close(actual | {"db": actual["db"].view(2, 128, 5)}, expected)


@FAST
@pytest.mark.parametrize("want", ["states", "final"])
def test_a_table_row_that_is_never_used_has_gradient_zero(backend: str, want: str) -> None:
    b, h0, options = problem(5, 7, 9, "table")
    db = results(backend, b, h0, want, **options)["db"]
    assert not db[5].any()
    assert db[:5].any(1).all()


@FAST
def test_the_shift_given_as_an_index_is_the_shift(backend: str) -> None:
    b, h0, _ = problem(2, 9, 70)
    given = torch.arange(70).roll(-1)
    for permutation in (given, given.int()):
        assert_same_bits(results(backend, b, h0, permutation=permutation), results(backend, b, h0))


@EVERY
def test_an_absent_initial_state_is_zero(backend: str) -> None:
    b, h0, _ = problem(2, 9, 7)
    assert_close(shuffle_scan(b, backend=backend), shuffle_scan(b, torch.zeros_like(h0), backend=backend))


@EVERY
def test_the_public_function_returns_the_states_or_the_last_one(backend: str) -> None:
    b, h0, options = problem(3, 9, 7, lengths=True)
    output, h_n = scan(b, h0, backend=backend, **options)
    assert_close(shuffle_scan(b, h0, backend=backend, **options), output)
    assert_close(shuffle_scan(b, h0, final=True, backend=backend, **options), h_n)


@FAST
def test_the_state_after_no_steps_is_a_copy(backend: str) -> None:
    b, h0, _ = problem(2, 0, 5)
    expected = h0.clone()
    for h_n in (scan(b, h0, backend=backend)[1], shuffle_scan(b, h0, final=True, backend=backend)):
        assert_close(h_n.add_(1), expected + 1)
        assert_close(h0, expected)


@EVERY
def test_three_steps_by_hand(backend: str) -> None:
    b = torch.tensor([[[1.0, -2.0, 0.5], [0.0, 1.0, -3.0], [-1.0, 0.0, 2.0]]])
    h0 = torch.tensor([[1.0, 2.0, 3.0]])
    #   P h0 = 2 3 1      P h1 = 1 1.5 3     P h2 = 2.5 0 1
    expected = torch.tensor([[[3.0, 1.0, 1.5], [1.0, 2.5, 0.0], [1.5, 0.0, 3.0]]])
    assert_close(shuffle_scan(b, h0, backend=backend), expected)


@EVERY
@EVERY_FORM
@pytest.mark.parametrize("activation", kernels.ACTIVATIONS)
@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
def test_a_reset_splits_a_sequence_in_two(backend: str, form: str, want: str, activation: str, reverse: bool) -> None:
    """Of seven steps with a reset at 3, the first three and the last four are as if alone; h0 enters the one that is first."""
    b, h0, options = problem(2, 7, 5, form, "random")
    options |= {"activation": activation, "reverse": reverse, "backend": backend}
    ids = options.pop("ids", None)
    reset = torch.zeros(2, 7, dtype=torch.bool)
    reset[:, 3] = True
    parts = [(b, ids[:, part]) if form == "table" else (b[:, part], None) for part in (slice(0, 3), slice(3, 7))]
    starts = [torch.zeros_like(h0), h0] if reverse else [h0, torch.zeros_like(h0)]
    separate = [scan(part, start, ids=its, **options) for (part, its), start in zip(parts, starts, strict=True)]
    if want == "final":
        assert_close(shuffle_scan(b, h0, final=True, ids=ids, reset=reset, **options), separate[0 if reverse else 1][1])
        return
    output, h_n = scan(b, h0, ids=ids, reset=reset, **options)
    assert_close(output, torch.cat([part for part, _ in separate], 1))
    assert_close(h_n, separate[0 if reverse else 1][1])


@EVERY
@EVERY_FORM
def test_a_reset_at_step_0_discards_the_initial_state(backend: str, form: str, want: str) -> None:
    b, h0, options = problem(4, 9, 70, form)
    b = b.abs()  # no unit is ever zero, so only the reset can stop the gradient
    options |= {"reset": torch.zeros(4, 9, dtype=torch.bool), "want": want}
    options["reset"][::2, 0] = True
    found = results(backend, b, h0.abs(), **options)
    assert not found["dh0"][::2].any()
    assert found["dh0"][1::2].all()
    assert_close(results(backend, b, h0.abs() * torch.tensor([[9.0], [1], [9], [1]]), **options)["h_n"], found["h_n"])


@FAST
@EVERY_FORM
def test_resets_behind_a_row_s_end_do_not_matter(backend: str, form: str, want: str) -> None:
    b, h0, options = problem(4, 70, 9, form, lengths=True, reset=True)
    for reverse in (False, True):
        expected = results(backend, b, h0, want, **options, reverse=reverse)
        other = options["reset"] ^ (torch.arange(70) >= options["lengths"][:, None])
        assert_same_bits(results(backend, b, h0, want, **options | {"reset": other}, reverse=reverse), expected)


@FAST
def test_the_final_form_of_tanh_is_refused(backend: str) -> None:
    b, h0, _ = problem(2, 3, 4)
    with pytest.raises(RuntimeError if backend == "native" else errors.SettingError, match="final form takes a bounded one"):
        NAMESPACE[backend].shuffle_scan_final(b, h0, None, None, None, None, False, "tanh")
    with pytest.raises((RuntimeError, errors.SettingError), match="gelu"):
        NAMESPACE[backend].shuffle_scan(b, h0, None, None, None, None, False, "gelu")


# ---- gated_scan

GATES = pytest.mark.parametrize(
    ("gate", "bias"), list(product((True, False), repeat=2)), ids=["gate bias", "gate", "bias", "bare"]
)
GATED = ("z", "weight", "bias", "x", "gate_weight", "gate_bias", "h0")


def gated_problem(
    N: int,
    T: int,
    H: int,
    gate: bool = True,
    bias: bool = True,
    lengths: bool = False,
    dtype: torch.dtype = torch.float64,
    K: int = 3,
    C: int = 2,
) -> tuple[list[Any], Options]:
    """The tensors of `GATED`, with K hidden units and C inputs, and options."""
    shapes = [(N, T, K), (H, K), (H,), (N, T, C), (H, C), (H,), (N, H)]
    absent = {"bias": not bias, "gate_weight": not gate, "gate_bias": not (gate and bias)}
    tensors = [None if absent.get(name) else torch.randn(shape, dtype=dtype) for name, shape in zip(GATED, shapes, strict=True)]
    return tensors, problem(N, T, H, order="random", lengths=lengths, reset=lengths)[2]


def composition(
    z: Tensor, weight: Tensor, bias: Any, x: Tensor, gate_weight: Any, gate_bias: Any, h0: Tensor, **options: Any
) -> tuple[Any, Tensor]:
    """What `gated_scan` is to be, as its equation says."""
    b = z @ weight.T + (0 if bias is None else bias)
    if gate_weight is not None:
        b = b * torch.sigmoid(x @ gate_weight.T + (0 if gate_bias is None else gate_bias))
    return reference.shuffle_scan(b, h0, **options)


def gated_results(backend: str | None, tensors: list[Any], want: str = "states", **options: Any) -> Results:
    """States and gradients by name; backend None is the composition."""
    leaves: list[Any] = [None if t is None else t.detach().requires_grad_() for t in tensors]
    output: Any
    if backend is None:
        output, h_n = composition(*leaves, **options)
    else:
        output, h_n = kernels.gated_scan(*leaves, final=want == "final", backend=backend, **options)
    outputs = {"h_n": h_n} if want == "final" else {"output": output, "h_n": h_n}
    given = {name: leaf for name, leaf in zip(GATED, leaves, strict=True) if leaf is not None}
    grads = torch.autograd.grad(loss_of(outputs), list(given.values()), materialize_grads=True)
    return {**{name: y.detach() for name, y in outputs.items()}, **dict(zip(given, grads, strict=True))}


@EVERY
@GATES
@pytest.mark.parametrize("want", ["states", "final"])
@pytest.mark.parametrize("activation", kernels.ACTIVATIONS)
@pytest.mark.parametrize("shape", [(3, 66, 5), (4, 6, 67), (0, 4, 3), (2, 0, 5)], ids=str)
def test_the_gated_scan_equals_the_composition(
    backend: str, gate: bool, bias: bool, want: str, activation: str, shape: tuple[int, int, int]
) -> None:
    tensors, options = gated_problem(*shape, gate, bias, lengths=True)
    options |= {"activation": activation, "reverse": gate, "want": want}
    assert_close(gated_results(backend, tensors, **options), gated_results(None, tensors, **options))


@FAST
@pytest.mark.parametrize("want", ["states", "final"])
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_the_gated_scan_in_other_dtypes_equals_the_composition(backend: str, want: str, dtype: torch.dtype) -> None:
    tensors, options = gated_problem(3, 40, 70, lengths=True, dtype=dtype)
    # each unit always on or always off: where a state is nearly 0, rounding b decides whether a gradient passes
    tensors[GATED.index("bias")] = torch.tensor([16, -16], dtype=dtype).repeat(35)
    options["permutation"] = torch.arange(70)
    actual = gated_results(backend, tensors, want, **options)
    expected = gated_results(None, [None if t is None else t.double() for t in tensors], want, **options)
    rtol, atol = TOLERANCE[dtype]
    for name, y in actual.items():
        assert y.dtype == dtype
        assert_close(y, expected[name], rtol=4 * rtol, atol=4 * atol * expected[name].abs().max().item(), check_dtype=False)


@NATIVE
@pytest.mark.parametrize(("K", "C"), [(3, 2), (20, 17)])
@pytest.mark.parametrize("want", ["states", "final"])
@pytest.mark.parametrize("activation", kernels.ACTIVATIONS)
def test_the_gated_scan_in_several_pieces_equals_the_composition(
    backend: str, activation: str, want: str, K: int, C: int
) -> None:
    tensors, options = gated_problem(9, 40, 1030, lengths=True, K=K, C=C)  # 4 sequences at a time
    options |= {"activation": activation, "reverse": True}
    assert_close(gated_results(backend, tensors, want, **options), gated_results(None, tensors, want, **options))


@FAST
@pytest.mark.parametrize("alone", ["z", "weight", "bias", "x", "gate_weight", "gate_bias", "h0"])
def test_a_single_requested_gradient_is_the_same(backend: str, alone: str) -> None:
    tensors, options = gated_problem(3, 6, 5)
    expected = gated_results(backend, tensors, **options)[alone]
    leaf = tensors[GATED.index(alone)]
    assert leaf is not None
    leaf.requires_grad_()
    output, h_n = kernels.gated_scan(*tensors, backend=backend, **options)
    assert output is not None
    assert_close(torch.autograd.grad(loss_of({"output": output, "h_n": h_n}), leaf)[0], expected)


# ---- one step


def cell_problem(
    mlp: tuple[int, ...], gate: bool, bias: bool, dtype: torch.dtype = torch.float64, rows: int = 3, C: int = 6, H: int = 37
) -> tuple[Tensor, Tensor, list[Tensor]]:
    """x, h and the linear maps of f_r and the gate, as the layer hands them over."""
    sizes = [*zip((C, *mlp), (*mlp, H), strict=True), *([(C, H)] if gate else [])]
    maps = [torch.randn(shape, dtype=dtype) for m, n in sizes for shape in ([(n, m), (n,)] if bias else [(n, m)])]
    return torch.randn(rows, C, dtype=dtype), torch.randn(rows, H, dtype=dtype), maps


@NATIVE
@GATES
@pytest.mark.parametrize("activation", kernels.ACTIVATIONS)
@pytest.mark.parametrize("mlp", [(), (7,), (33, 9)], ids=str)
@pytest.mark.parametrize("rows", [0, 1, 5])
@pytest.mark.parametrize("order", ["shift", "random"])
def test_one_step_equals_the_composition(
    backend: str, gate: bool, bias: bool, activation: str, mlp: tuple[int, ...], rows: int, order: str
) -> None:
    x, h, maps = cell_problem(mlp, gate, bias, rows=rows)
    leaves = [t.requires_grad_() for t in (x, h, *maps)]
    how = (order_of(order, 37), gate, bias, activation)
    found, expected = kernels.cell(x, h, maps, *how), pytorch.cell(x, h, maps, *how)
    grad = torch.randn_like(expected)
    assert_close((found, *torch.autograd.grad(found, leaves, grad)), (expected, *torch.autograd.grad(expected, leaves, grad)))


@NATIVE
def test_one_step_in_float32_equals_the_composition_in_float64(backend: str) -> None:
    x, h, maps = cell_problem((64,), True, True, rows=9, C=128, H=130)
    leaves = [t.requires_grad_() for t in (x, h, *maps)]
    small = [t.detach().float().requires_grad_() for t in leaves]
    expected = pytorch.cell(x, h, maps, None, True, True, "tanh")
    found = kernels.cell(small[0], small[1], small[2:], None, True, True, "tanh")
    assert_close(found, expected.float(), rtol=1e-4, atol=1e-4)
    for ours, theirs in zip(torch.autograd.grad(found.sum(), small), torch.autograd.grad(expected.sum(), leaves), strict=True):
        assert_close(ours, theirs.float(), rtol=1e-3, atol=1e-3 * theirs.abs().max().item())


@NATIVE
def test_one_step_of_any_memory_layout_is_the_same(backend: str) -> None:
    x, h, maps = cell_problem((7,), True, True)
    how = (None, True, True, "relu")
    strided = [torch.stack([t, t], -1)[..., 0] for t in (x, h, *maps)]
    assert not strided[2].is_contiguous()
    assert_close(kernels.cell(strided[0], strided[1], strided[2:], *how), kernels.cell(x, h, maps, *how))


@NATIVE
def test_one_step_keeps_the_leading_axes_of_the_state(backend: str) -> None:
    x, h, maps = cell_problem((7,), True, True)
    how = (None, True, True, "relu")
    assert_close(kernels.cell(x, h[None], maps, *how), kernels.cell(x, h, maps, *how)[None])
    assert_close(kernels.cell(x[0], h[0], maps, *how), kernels.cell(x, h, maps, *how)[0])


@NATIVE
def test_the_schema_and_the_fake_of_one_step_are_right(backend: str) -> None:
    x, h, maps = cell_problem((7,), True, True)
    how, checks = (None, True, True, "relu"), ("test_schema", "test_faketensor")
    torch.library.opcheck(torch.ops.srnn.cell, (x, h, maps, *how), test_utils=checks)
    for needs in ([1] * 8, [0, 1] * 4):
        torch.library.opcheck(torch.ops.srnn.cell_backward, (h, x, h, maps, *how, needs), test_utils=checks)


@NATIVE
@pytest.mark.parametrize(
    ("message", "change"),
    [
        ("h must have as many rows as x, 2", lambda x, h, maps: (x[:2], h, maps)),
        (r"maps\[0\] must be .*7, 6.*7, 5", lambda x, h, maps: (x, h, [maps[0][:, :5], *maps[1:]])),
        (r"maps\[2\] must be .*5, 7.*37, 7", lambda x, h, maps: (x, h[:, :5], maps)),
        (r"maps\[1\] must be .*7,.*3,", lambda x, h, maps: (x, h, [maps[0], maps[1][:3], *maps[2:]])),
        ("maps must hold", lambda x, h, maps: (x, h, maps[:-1])),
        ("h must be float64, got float32", lambda x, h, maps: (x, h.float(), maps)),
        ("float32 or float64", lambda x, h, maps: (x.half(), h.half(), [m.half() for m in maps])),
    ],
)
def test_one_step_refuses_tensors_that_do_not_fit(backend: str, message: str, change: Any) -> None:
    with pytest.raises(RuntimeError, match=message):
        torch.ops.srnn.cell(*change(*cell_problem((7,), True, True)), None, True, True, "relu")


# ---- derivatives of derivatives


def differentiable(backend: str, form: str, want: str, activation: str, lengths: bool) -> tuple[Any, tuple[Tensor, Tensor]]:
    b, h0, options = problem(3, 3, 2, form, "random", lengths, reset=lengths)
    options |= {"activation": activation, "reverse": lengths, "backend": backend}
    call = partial(shuffle_scan, final=True) if want == "final" else scan
    return lambda b, h0: call(b, h0, **options), (b.requires_grad_(), h0.requires_grad_())


@FAST
@EVERY_FORM
@pytest.mark.parametrize("activation", kernels.ACTIVATIONS)
@pytest.mark.parametrize("lengths", [False, True], ids=["whole", "lengths"])
def test_first_and_second_derivatives_are_those_of_finite_differences(
    backend: str, form: str, want: str, activation: str, lengths: bool
) -> None:
    function, inputs = differentiable(backend, form, want, activation, lengths)
    assert torch.autograd.gradcheck(function, inputs)
    assert torch.autograd.gradgradcheck(function, inputs, fast_mode=True)


@FAST
@GATES
@pytest.mark.parametrize("want", ["states", "final"])
@pytest.mark.parametrize("activation", kernels.ACTIVATIONS)
def test_derivatives_of_the_gated_scan_are_those_of_finite_differences(
    backend: str, gate: bool, bias: bool, want: str, activation: str
) -> None:
    tensors, options = gated_problem(2, 3, 2, gate, bias)
    options |= {"activation": activation, "final": want == "final", "backend": backend}

    def function(*inputs: Tensor) -> tuple[Tensor, ...]:
        return tuple(y for y in kernels.gated_scan(*inputs, **options) if y is not None)

    inputs: list[Any] = [None if t is None else t.requires_grad_() for t in tensors]
    assert torch.autograd.gradcheck(function, inputs)
    assert torch.autograd.gradgradcheck(function, inputs, fast_mode=True)


@FAST
@pytest.mark.parametrize("form", ["dense", "table"])
@pytest.mark.parametrize("kind", ["bits", "last zeros", "states of tanh"])
@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
def test_the_tangent_is_the_adjoint_of_the_backward(backend: str, form: str, kind: str, reverse: bool) -> None:
    namespace = NAMESPACE[backend]
    b, h0, options = problem(4, 140, 9, form, "random", lengths=True, reset=True)
    sequence = (options.get("ids"), options["permutation"], options["lengths"], options["reset"], reverse)
    v, v0, g_n = torch.randn_like(b), torch.randn_like(h0), torch.randn_like(h0)
    grad: Tensor | None = torch.randn(4, 140, 9).double()
    if kind == "last zeros":
        kept, grad = namespace.shuffle_scan_final(b, h0, *sequence, "relu")[1], None
    elif kind == "bits":
        kept = namespace.shuffle_scan(b, h0, *sequence, "relu")[2]
    else:
        kept = namespace.shuffle_scan(b, h0, *sequence, "tanh")[0]
    db, dh0 = namespace.shuffle_scan_backward(grad, g_n, kept, b, *sequence)
    s, s_n = namespace.shuffle_scan_tangent(v, v0, kept, *sequence)
    along = (s_n * g_n).sum() + (0 if grad is None else (s * grad).sum())
    assert_close(along, (v * db).sum() + (v0 * dh0).sum())


@BY_UNIT
@pytest.mark.parametrize("H", [1, 63, 64, 130])
@pytest.mark.parametrize("activation", ["relu", "clip"])
def test_the_kept_values_are_as_documented(backend: str, H: int, activation: str) -> None:
    b, h0, options = problem(4, 9, H, order="random", lengths=True)
    sequence = (None, options["permutation"], options["lengths"], None, True, activation)
    output, _, bits = NAMESPACE[backend].shuffle_scan(b, h0, *sequence)
    passes = output > 0 if activation == "relu" else output.abs() < 1
    expected = torch.zeros(4, 9, (H + 63) // 64 * 8, dtype=torch.uint8)
    for unit in range(H):
        group, k, byte = unit // 64, unit % 64 // 8, unit % 8
        expected[..., 8 * group + byte] += passes[..., unit].to(torch.uint8) << k
    valid = torch.arange(9) < options["lengths"][:, None]
    assert torch.equal(bits[valid], expected[valid])
    last = NAMESPACE[backend].shuffle_scan_final(b, h0, *sequence)[1]
    assert last.dtype == torch.int32
    for n, length in enumerate(options["lengths"].tolist()):
        place = torch.arange(H)  # follow each unit from the last step back until it was zero
        seen = torch.zeros(H, dtype=torch.int32)
        for step in range(length, 0, -1):
            seen = torch.where((seen == 0) & ~passes[n, length - step, place], step, seen)
            place = options["permutation"][place]
        assert torch.equal(last[n], seen.int())


# ---- what PyTorch asks of an operator


def scan_calls(name: str, own: Any) -> Iterator[tuple[Any, ...]]:
    """Arguments for `shuffle_scan`, its last-state form and their derivatives, of every kind that they take.

    Each namespace packs bits in its own way, so `own` makes what is kept.
    """
    for form, activation in product(("dense", "table"), kernels.ACTIVATIONS):
        b, h0, options = problem(3, 5, 4, form, "random", lengths=form == "table", reset=form == "table")
        sequence: Any = (*(options.get(name) for name in ("ids", "permutation", "lengths", "reset")), form == "table")
        output, _, bits = own.shuffle_scan(b, h0, *sequence, activation)
        every = [output if activation == "tanh" else bits]
        last = [own.shuffle_scan_final(b, h0, *sequence, activation)[1]] if activation != "tanh" else []
        calls: dict[str, list[tuple[Any, ...]]] = {
            "shuffle_scan": [(b, h0, *sequence, activation)],
            "shuffle_scan_final": [(b, h0, *sequence, activation)] if last else [],
            "shuffle_scan_backward": [(torch.randn_like(output), h0, kept, b, *sequence) for kept in every]
            + [(None, h0, kept, b, *sequence) for kept in every + last],
            "shuffle_scan_tangent": [(b, h0, kept, *sequence) for kept in every + last],
        }
        yield from calls[name]


def gated_calls(name: str, own: Any) -> Iterator[tuple[Any, ...]]:
    """The same for `gated_scan`."""
    for gate, bias in product((True, False), repeat=2):
        (*inputs, h0), options = gated_problem(3, 5, 4, gate, bias, lengths=True)
        sequence = (options["permutation"], options["lengths"], options["reset"], gate)
        bits, last = (
            own.gated_scan(*inputs, h0, *sequence, "relu")[2],
            own.gated_scan_final(*inputs, h0, *sequence, "clip")[1],
        )
        rest = (*inputs, *sequence, [bias, True, gate, not bias])
        calls = {
            "gated_scan": [(*inputs, h0, *sequence, activation) for activation in kernels.ACTIVATIONS],
            "gated_scan_final": [(*inputs, h0, *sequence, activation) for activation in ("relu", "clip")],
            "gated_scan_backward": [(torch.randn(3, 5, 4).double(), h0, bits, *rest), (None, h0, last, *rest)],
        }
        yield from calls[name]


def opcheck(namespace: str, name: str, *utilities: str) -> None:
    derivable = name != "gated_scan_backward"  # under create_graph the composition takes its place
    own = getattr(torch.ops, namespace)
    calls = list((gated_calls if name.startswith("gated") else scan_calls)(name, own))
    assert calls
    for args in calls:
        leaves = [a.clone().requires_grad_(derivable and a.is_floating_point()) if isinstance(a, Tensor) else a for a in args]
        torch.library.opcheck(getattr(own, name), tuple(leaves), test_utils=utilities)


OPERATORS = pytest.mark.parametrize(
    ("namespace", "name"),
    [
        pytest.param(namespace, name, marks=[pytest.mark.interpreter] if namespace == "srnn_triton" else [])
        for namespace, name in product(ops.NAMESPACES, ops.SCHEMAS)
    ],
)


@OPERATORS
def test_schema_autograd_and_fake_of_the_operator_are_right(namespace: str, name: str) -> None:
    opcheck(namespace, name, "test_schema", "test_autograd_registration", "test_faketensor")


@pytest.mark.slow
@OPERATORS
def test_the_operator_can_be_traced_with_dynamic_shapes(namespace: str, name: str) -> None:
    opcheck(namespace, name, "test_aot_dispatch_dynamic")


def compiled_forms(backend: str) -> Iterator[tuple[Any, list[Tensor]]]:
    """Functions to compile, with the tensors that they take and want derivatives of."""
    for form, want in FORMS:
        b, h0, options = problem(3, 7, 5, form, "random", lengths=True, reset=True)
        call = partial(shuffle_scan, final=True) if want == "final" else scan
        yield lambda b, h0, call=call, options=options: call(b, h0, backend=backend, **options), [b, h0]
    tensors, options = gated_problem(3, 7, 5)
    yield lambda *tensors: kernels.gated_scan(*tensors, backend=backend, **options), [t for t in tensors if t is not None]


def states_and_gradients(function: Any, tensors: list[Tensor]) -> list[Tensor]:
    leaves = [t.detach().requires_grad_() for t in tensors]
    outputs = function(*leaves)
    outputs = dict(enumerate(outputs if isinstance(outputs, tuple) else (outputs,)))
    return [*outputs.values(), *torch.autograd.grad(loss_of(outputs), leaves)]


def assert_compiled_equals_eager(backend: str, compiler: str) -> None:
    for function, tensors in compiled_forms(backend):
        torch.compiler.reset()
        compiled = torch.compile(function, fullgraph=True, backend=compiler)
        assert_close(states_and_gradients(compiled, tensors), states_and_gradients(function, tensors))


@FAST
def test_a_compiled_graph_is_whole_and_equals_eager(backend: str) -> None:
    assert_compiled_equals_eager(backend, "aot_eager")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # inductor's own
@FAST
def test_inductor_equals_eager(backend: str) -> None:
    assert_compiled_equals_eager(backend, "inductor")


class Scan(torch.nn.Module):
    """`scan` as a module, to be exported."""

    def __init__(self, backend: str) -> None:
        super().__init__()
        self.backend = backend

    def forward(self, b: Tensor, h0: Tensor, ids: Tensor | None, lengths: Tensor) -> tuple[Tensor, Tensor]:
        return scan(b, h0, ids=ids, lengths=lengths, backend=self.backend)


@FAST
@pytest.mark.parametrize("form", ["dense", "table"])
def test_an_exported_program_takes_any_batch_and_time(backend: str, form: str) -> None:
    N, T = torch.export.Dim("N"), torch.export.Dim("T")
    b, h0, options = problem(3, 7, 5, form, lengths=True)
    dynamic = {"b": None if form == "table" else {0: N, 1: T}, "h0": {0: N}, "lengths": {0: N}}
    dynamic["ids"] = {0: N, 1: T} if form == "table" else None
    program = torch.export.export(
        Scan(backend), (b, h0, options.get("ids"), options["lengths"]), dynamic_shapes=dynamic
    ).module()
    for shape in ((5, 80), (2, 2)):
        b, h0, options = problem(*shape, 5, form, lengths=True)
        args = b, h0, options.get("ids"), options["lengths"]
        assert_close(program(*args), Scan("reference")(*args))


@EVERY
def test_nothing_changes_without_gradients_or_under_autocast(backend: str) -> None:
    for function, tensors in compiled_forms(backend):
        tensors = [t.float() for t in tensors]  # autocast leaves float64 alone
        expected = function(*tensors)
        for mode in (torch.no_grad(), torch.inference_mode(), torch.autocast("cpu", dtype=torch.bfloat16)):
            with mode:
                assert_close(function(*tensors), expected, rtol=0, atol=0)


@FAST
def test_gradients_under_autocast_are_those_outside(backend: str) -> None:
    for function, tensors in compiled_forms(backend):
        tensors = [t.float() for t in tensors]
        with torch.autocast("cpu", dtype=torch.bfloat16):
            inside = states_and_gradients(function, tensors)
        assert_close(inside, states_and_gradients(function, tensors), rtol=0, atol=0)


# ---- bits, threads, memory


@EXACT
@EVERY_FORM
@pytest.mark.parametrize("activation", kernels.ACTIVATIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_chunks_that_carry_the_state_equal_the_whole_to_the_bit(
    backend: str, form: str, want: str, activation: str, dtype: torch.dtype
) -> None:
    b, h0, options = problem(3, 20, 70, form, "random", dtype=dtype)
    options |= {"activation": activation, "backend": backend}
    ids = options.pop("ids", None)
    parts = [slice(0, 7), slice(7, 8), slice(8, 20)]
    arguments = [{"b": b, "ids": ids[:, part]} if form == "table" else {"b": b[:, part]} for part in parts]
    whole, h = {"b": b, "ids": ids}, h0
    if want == "final":
        for part in arguments:
            h = shuffle_scan(final=True, h0=h, **part, **options)
        assert torch.equal(h, shuffle_scan(final=True, h0=h0, **whole, **options))
        return
    outputs = []
    for part in arguments:
        output, h = scan(h0=h, **part, **options)
        outputs.append(output)
    expected, h_n = scan(h0=h0, **whole, **options)
    assert torch.equal(torch.cat(outputs, 1), expected)
    assert torch.equal(h, h_n)


@NATIVE
@pytest.mark.parametrize(
    "name", sorted((ops.SCHEMAS | ops.CELL_SCHEMAS).keys() - {"shuffle_scan_tangent"})
)  # of second derivatives: plain everywhere
def test_the_compiled_library_has_its_operators(backend: str, name: str) -> None:
    """Where it had not, the plain code would run in its place, and every other test would pass."""
    assert torch._C._dispatch_has_kernel_for_dispatch_key(f"srnn::{name}", "CPU")


BITS = """
import hashlib, torch
from srnn import SRNN, shuffle_scan
digest = hashlib.sha256()
for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
    torch.manual_seed(0)
    b, table = (torch.randn(shape).to(dtype).requires_grad_() for shape in ((3, 40, 133), (9, 133)))
    ids = torch.randint(9, (3, 40))
    results = [shuffle_scan(b, activation=sigma) for sigma in ("relu", "tanh")]
    results += [shuffle_scan(b, final=True), shuffle_scan(table, ids=ids), shuffle_scan(table, ids=ids, final=True)]
    results += [SRNN(C, 133, dtype=dtype)(torch.randn(40, 3, C).to(dtype))[0] for C in (1, 9)]
    for result in results:
        result.float().sum().backward()
    for tensor in (*results, b.grad, table.grad):
        digest.update(tensor.detach().view(torch.uint8).numpy().tobytes())
print(digest.hexdigest())
"""


@NATIVE
def test_a_processor_without_avx2_gives_the_same_bits(backend: str) -> None:
    found = []
    for isa in ("", "baseline"):
        given = {**os.environ, "SRNN_ISA": isa, "SRNN_BACKEND": backend}
        found.append(subprocess.run([sys.executable, "-c", BITS], env=given, capture_output=True, text=True, check=True).stdout)
    assert len(found[0]) == 65
    assert found[0] == found[1]


@NATIVE
@EVERY_FORM
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_any_number_of_threads_gives_the_same_bits(backend: str, form: str, want: str, dtype: torch.dtype) -> None:
    b, h0, options = problem(37, 50, 130, form, "random", lengths=True, dtype=dtype)
    expected = results(backend, b, h0, want, **options)
    for threads in (2, 2, 3, 1):
        torch.set_num_threads(threads)
        assert_same_bits(results(backend, b, h0, want, **options), expected)


SPLITS = ("1,1", "3,2", "5,1", "90,4", "3,2,5", "2,1,1")  # pieces of a sequence, steps of the first segment of each, probe


@NATIVE
@EVERY_FORM
@pytest.mark.parametrize("activation", ["relu", "clip"])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
def test_a_scan_split_in_time_equals_the_whole_to_the_bit(
    monkeypatch: pytest.MonkeyPatch, backend: str, form: str, want: str, activation: str, order: str, reverse: bool
) -> None:
    for drift, borders in product((-0.5, 0.0, 1.0), (False, True)):  # with 1.0, no unit of ReLU forgets
        b, h0, options = problem(3, 67, 13, form, order, lengths=borders, reset=borders)
        b = b + drift
        options |= {"activation": activation, "reverse": reverse, "want": want}
        found = []
        for split in SPLITS:
            monkeypatch.setenv("SRNN_SPLIT", split)
            found.append(results(backend, b, h0, **options))
        for other in found[1:]:
            assert_same_bits(other, found[0])
    assert_close(found[-1], results("reference", b, h0, **options))


@NATIVE
@pytest.mark.parametrize("want", ["states", "final"])
def test_a_gated_scan_split_in_time_equals_the_whole_to_the_bit(
    monkeypatch: pytest.MonkeyPatch, backend: str, want: str
) -> None:
    for C, dtype, gate in product((2, 9), (torch.float32, torch.float64), (True, False)):
        tensors, options = gated_problem(9, 66, 300, gate, lengths=True, dtype=dtype, C=C)  # in two chunks of sequences
        found = []
        for split in SPLITS:
            monkeypatch.setenv("SRNN_SPLIT", split)
            found.append(gated_results(backend, tensors, want, **options))
        for other in found[1:]:
            assert_same_bits(other, found[0])


@NATIVE
@pytest.mark.parametrize("want", ["states", "final"])
@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
def test_one_long_sequence_on_several_threads_has_the_same_bits(backend: str, want: str, reverse: bool) -> None:
    b, h0, options = problem(1, 3 * 2**15 + 5, 9, order="random", dtype=torch.float32)
    for value, step in ((0.0, 0), (float("nan"), 2**15), (float("inf"), 2**16 + 9)):
        b[0, step, 3] = value
        expected = results(backend, b, h0, want, reverse=reverse, **options)
        for threads in (2, 4):
            torch.set_num_threads(threads)
            assert_same_bits(results(backend, b, h0, want, reverse=reverse, **options), expected)
        torch.set_num_threads(1)


@NATIVE
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("want", ["states", "final"])
@pytest.mark.parametrize("C", [1, 4, 5])
def test_a_gate_of_few_inputs_that_need_no_gradient(backend: str, C: int, want: str, reverse: bool) -> None:
    """Numbers of a data set: up to four of them, the gate's weights are summed over time on the way."""
    tensors, options = gated_problem(9, 40, 1030, lengths=True, dtype=torch.float32, C=C)
    tensors[GATED.index("bias")] = torch.tensor([16.0, -16.0]).repeat(515)  # each unit always on or always off
    options |= {"reverse": reverse, "permutation": torch.arange(1030)}
    assert_gated_close(backend, tensors, want, "x", **options)


@NATIVE
@pytest.mark.parametrize("constant", ["x", "z", ""])
@pytest.mark.parametrize("gate", [True, False])
@pytest.mark.parametrize("K", [1, 8, 9])
def test_the_last_state_of_paths_that_end_together(backend: str, K: int, gate: bool, constant: str) -> None:
    """With few hidden units the derivative skips the vectors whose paths have all ended."""
    tensors, options = gated_problem(9, 40, 203, gate, lengths=True, dtype=torch.float32, K=K)
    z, weight, bias, _, gate_weight, *_ = tensors
    z[..., 0] = torch.rand(9, 40) < 0.1  # the steps at which the first 130 units become 0 for sure
    weight[:, 0] = torch.where(torch.arange(203) < 130, -1000.0, 1.0)
    bias[:] = 16
    if gate:
        gate_weight *= 0.1
    options["permutation"] = torch.arange(203)
    assert_gated_close(backend, tensors, "final", constant, **options)


def assert_gated_close(backend: str, tensors: list[Any], want: str, constant: str, **options: Any) -> None:
    """Compares float32 with the composition in float64; the tensor of GATED called `constant` needs no gradient."""
    found = {}
    for name in (backend, None):
        given = [t if t is None or name else t.double() for t in tensors]
        leaves: list[Any] = [
            None if t is None else t.detach().requires_grad_(at != constant) for at, t in zip(GATED, given, strict=True)
        ]
        output: Any
        if name is None:
            output, h_n = composition(*leaves, **options)
        else:
            output, h_n = kernels.gated_scan(*leaves, final=want == "final", backend=name, **options)
        outputs = {"h_n": h_n} if want == "final" else {"output": output, "h_n": h_n}
        wanted = {at: leaf for at, leaf in zip(GATED, leaves, strict=True) if leaf is not None and leaf.requires_grad}
        grads = torch.autograd.grad(loss_of(outputs), list(wanted.values()), materialize_grads=True)
        found[name] = outputs | dict(zip(wanted, grads, strict=True))
    assert len(found[None]) == sum(t is not None for t in tensors) - bool(constant) + (1 if want == "final" else 2)
    for at, expected in found[None].items():
        assert_close(found[backend][at], expected, rtol=1e-5, atol=1e-5 * expected.abs().max().item(), check_dtype=False)


@FAST
@pytest.mark.parametrize("want", ["states", "final"])
@pytest.mark.parametrize("form", ["dense", "table", "gated"])
def test_no_float_for_every_unit_and_step_is_kept(backend: str, want: str, form: str) -> None:
    N, T, H = 2, 100, 640
    saved: dict[int, int] = {}

    def pack(t: Tensor) -> Tensor:
        saved[t.untyped_storage().data_ptr()] = t.untyped_storage().nbytes()
        return t

    if form == "gated":
        tensors, _ = gated_problem(N, T, H)
        given = sum(t.requires_grad_().nbytes for t in tensors[:-1])
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            kernels.gated_scan(*tensors, final=want == "final", backend=backend)
    else:
        b, h0, options = problem(N, T, H, form)
        given = options["ids"].nbytes if form == "table" else 0
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            shuffle_scan(b.requires_grad_(), h0, final=want == "final", backend=backend, **options)
    bits, integers = N * T * H // 8, 4 * N * H
    if backend == "triton":  # packed along time, in words of 32 steps
        bits = words_of(T) * integers
    assert sum(saved.values()) <= given + (integers if want == "final" else bits) + 64


@pytest.fixture
def poisoned_memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """New memory is full of NaN."""
    monkeypatch.setattr(torch.utils.deterministic, "fill_uninitialized_memory", True)
    torch.use_deterministic_algorithms(True)
    assert torch.empty(3).isnan().all()
    yield
    torch.use_deterministic_algorithms(False)


@FAST
@EVERY_FORM
@pytest.mark.parametrize("activation", kernels.ACTIVATIONS)
@pytest.mark.parametrize("shape", [(4, 67, 70), (2, 0, 5)], ids=str)
@pytest.mark.usefixtures("poisoned_memory")
def test_no_element_of_a_result_is_left_unwritten(
    backend: str, form: str, want: str, activation: str, shape: tuple[int, int, int]
) -> None:
    b, h0, options = problem(*shape, form, "random", lengths=True, reset=True)
    options |= {"activation": activation, "want": want}
    assert_close(results(backend, b, h0, **options), results("reference", b, h0, **options))


@FAST
@GATES
@pytest.mark.parametrize("want", ["states", "final"])
@pytest.mark.parametrize("shape", [(4, 7, 70), (2, 0, 5), (0, 3, 4)], ids=str)
@pytest.mark.usefixtures("poisoned_memory")
def test_no_element_of_a_gated_result_is_left_unwritten(
    backend: str, gate: bool, bias: bool, want: str, shape: tuple[int, int, int]
) -> None:
    tensors, options = gated_problem(*shape, gate, bias, lengths=True)
    assert_close(gated_results(backend, tensors, want, **options), gated_results(None, tensors, want, **options))


# ---- numbers that are large, small, or none


@NATIVE
@EVERY_FORM
@pytest.mark.parametrize("activation", kernels.ACTIVATIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("strange", [float("nan"), float("inf"), float("-inf")], ids=str)
def test_values_that_are_not_finite_spread_as_in_the_reference(
    backend: str, form: str, want: str, activation: str, dtype: torch.dtype, strange: float
) -> None:
    b, h0, options = problem(6, 9, 70, form, "random", dtype=dtype)
    h0.view(-1)[::53] = strange
    b.view(-1)[::97] = strange
    options |= {"activation": activation, "want": want}
    found, expected = results(backend, b, h0, **options), results("reference", b, h0, **options)
    if activation == "clip" and strange != strange:  # torch's gradient at NaN depends on the place in memory; ours is 0
        found, expected = ({name: y for name, y in these.items() if not name.startswith("d")} for these in (found, expected))
    assert_close(found, expected, equal_nan=True)


@FAST
@pytest.mark.parametrize("want", ["states", "final"])
def test_no_gradient_passes_a_state_of_clip_that_is_not_a_number(backend: str, want: str) -> None:
    b, h0 = torch.full((1, 2, 70), 0.25, dtype=torch.float64), torch.zeros(1, 70, dtype=torch.float64)
    b[0, 0, 5] = float("nan")  # unit 5 of the first step, unit 4 of the second
    found = results(backend, b, h0, want, activation="clip")
    assert found["h_n"].isnan().nonzero().tolist() == [[0, 4]]
    assert (found["db"][0] == 0).nonzero().tolist() == [[0, 5], [1, 4]]


@NATIVE
@EVERY_FORM
def test_a_gradient_that_is_not_finite_spreads_as_in_the_reference(backend: str, form: str, want: str) -> None:
    b, h0, options = problem(3, 9, 70, form, "random")
    found = []
    for name in (backend, "reference"):
        leaves = [b.clone().requires_grad_(), h0.clone().requires_grad_()]
        y = shuffle_scan(*leaves, final=want == "final", backend=name, **options)
        grad = torch.ones_like(y)
        grad[0, ..., 3], grad[1, ..., 5], grad[2, ..., 7] = torch.tensor([float("nan"), float("inf"), float("-inf")])
        found.append(torch.autograd.grad(y, leaves, grad))
    assert_close(found[0], found[1], equal_nan=True)


@FAST
def test_values_behind_a_row_s_end_do_not_matter(backend: str) -> None:
    for form, want in FORMS:
        b, h0, options = problem(4, 70, 9, form, lengths=True)
        expected = results(backend, b, h0, want, **options)
        behind = torch.arange(70) >= options["lengths"][:, None]
        if form == "table":
            options["ids"][behind] = 5  # the row that is used nowhere else
            b[5] = float("nan")
        else:
            b[behind] = float("nan")
        assert_same_bits(results(backend, b, h0, want, **options), expected)


@FAST
@pytest.mark.parametrize(
    "drift", [0.01, -1.0]
)  # states that grow for thousands of steps, and states far below their running sums
def test_ten_thousand_steps_in_float32_are_accurate(backend: str, drift: float) -> None:
    b, h0 = torch.randn(2, 10_000, 5) + drift, torch.randn(2, 5)
    actual = shuffle_scan(b, h0, backend=backend)
    expected = shuffle_scan(b.double(), h0.double(), backend="reference")
    assert (actual - expected).abs().max() < 1e-5 * expected.max()


@cache
def long_problem(form: str, want: str, drift: float) -> tuple[Tensor, Tensor, Options, Results]:
    """10,000 steps whose states are exact in float32, so that all let the same gradients pass; with the reference's results."""
    b, h0, options = problem(2, 10_000, 5, form)
    b, h0 = ((b + drift) * 64).round() / 64, h0.abs().ceil()
    return b, h0, options, results("reference", b, h0, want, **options)


@FAST
@pytest.mark.parametrize(("form", "want", "drift"), [("dense", "states", -1.0), ("table", "final", 0.05)])
def test_gradients_through_ten_thousand_steps_in_float32_are_accurate(backend: str, form: str, want: str, drift: float) -> None:
    b, h0, options, expected = long_problem(form, want, drift)
    for name, y in results(backend, b.float(), h0.float(), want, **options).items():
        assert (y - expected[name]).abs().max() < 1e-5 * expected[name].abs().max().clamp(min=1)


# ---- bad input


B, H0 = torch.zeros(2, 3, 4), torch.zeros(2, 4)
TABLE, IDS, RESET = torch.zeros(5, 4), torch.zeros(2, 3, dtype=torch.int64), torch.zeros(2, 3, dtype=torch.bool)
IMPOSSIBLE: list[tuple[type, type, str, Options]] = [
    (errors.ShapeError, ValueError, r"b must be \[N, T, H\].*\(2, 4\)", {"b": H0, "h0": None}),
    (errors.ShapeError, ValueError, r"b must be \[N, T, H\].*\(4,\)", {"b": B[0, 0], "h0": None}),
    (errors.ShapeError, ValueError, r"b must be \[N, T, H\].*\(1, 2, 3, 4\)", {"b": B[None]}),
    (errors.ShapeError, ValueError, r"table \[V, H\].*\(2, 3, 4\)", {"ids": IDS}),
    (errors.ShapeError, ValueError, r"ids \[N, T\].*\(3,\)", {"b": TABLE, "ids": IDS[0]}),
    (errors.ShapeError, RuntimeError, r"h0 must be .*\(2, 4\).*\(2, 3\)", {"h0": H0[:, :3]}),
    (errors.ShapeError, RuntimeError, r"h0 must be .*\(2, 4\).*\(4,\)", {"h0": H0[0]}),
    (errors.ShapeError, RuntimeError, r"lengths must .*\(2,\).*\(3,\)", {"lengths": torch.tensor([1, 2, 3])}),
    (errors.ShapeError, RuntimeError, r"permutation must .*\(4,\).*\(3,\)", {"permutation": torch.arange(3)}),
    (errors.DtypeError, ValueError, "b must be float32.*int64", {"b": B.long(), "h0": H0.long()}),
    (errors.DtypeError, ValueError, "h0 .*float32.*float64", {"h0": H0.double()}),
    (errors.DtypeError, ValueError, "ids must be uint8, int32 or int64.*float32", {"b": TABLE, "ids": IDS.float()}),
    (errors.DtypeError, ValueError, "ids must be uint8, int32 or int64.*int16", {"b": TABLE, "ids": IDS.short()}),
    (errors.DtypeError, ValueError, "lengths must be int.*float32", {"lengths": torch.tensor([1.0, 2.0])}),
    (errors.DtypeError, ValueError, "permutation must be int.*bool", {"permutation": torch.ones(4, dtype=torch.bool)}),
    (errors.DeviceError, RuntimeError, "h0 must be on cpu.*meta", {"h0": H0.to("meta")}),
    (errors.DeviceError, RuntimeError, "lengths must be on cpu.*meta", {"lengths": torch.tensor([1, 2], device="meta")}),
    (errors.SettingError, ValueError, "activation.*'gelu'.*relu, tanh, clip", {"activation": "gelu"}),
    (errors.SettingTypeError, TypeError, "reset must be a tensor, got list", {"reset": [[True] * 3] * 2}),
    (errors.ShapeError, RuntimeError, r"reset must be \[N, T\] = \(2, 3\), got \(3, 2\)", {"reset": RESET.T}),
    (errors.DtypeError, ValueError, "reset must be bool, got int64", {"reset": IDS}),
    (errors.DeviceError, RuntimeError, "reset must be on cpu.*meta", {"reset": RESET.to("meta")}),
    (errors.ShapeError, ValueError, "one unit or more, got H = 0", {"b": B[..., :0], "h0": None}),
    (errors.SettingTypeError, TypeError, "b must be a tensor, got list", {"b": [[[1.0]]], "h0": None}),
    (errors.SettingTypeError, TypeError, "h0 must be a tensor, got list", {"h0": [1.0]}),
    (errors.SettingTypeError, TypeError, "lengths must be a tensor, got list", {"lengths": [1, 2]}),
    (errors.SymbolError, IndexError, "ids .symbols. must be .*0 and 4.*-1", {"b": TABLE, "ids": IDS - 1}),
    (errors.SymbolError, RuntimeError, "ids .symbols. must be .*0 and 4.*5", {"b": TABLE, "ids": IDS.int() + 5}),
    (errors.SymbolError, IndexError, "ids .symbols. must be .*0 and 4.*255", {"b": TABLE, "ids": IDS.to(torch.uint8) + 255}),
    (errors.LengthError, RuntimeError, "lengths must be .*0 and T = 3.*-1", {"lengths": torch.tensor([-1, 2])}),
    (errors.LengthError, ValueError, "lengths must be .*0 and T = 3.*4", {"lengths": torch.tensor([0, 4])}),
    (errors.SettingError, ValueError, "permutation must .*once", {"permutation": torch.tensor([0, 1, 2, 2])}),
    (errors.SettingError, ValueError, "permutation must .*once", {"permutation": torch.tensor([0, 1, 2, 4])}),
    (errors.SettingError, ValueError, "permutation must .*once", {"permutation": torch.tensor([0, 1, 2, -1])}),
]


@EVERY
@pytest.mark.parametrize("final", [False, True], ids=["states", "final"])
@pytest.mark.parametrize(("kind", "builtin", "message", "changes"), IMPOSSIBLE, ids=[case[2] for case in IMPOSSIBLE])
def test_invalid_input_is_refused_in_one_line(
    backend: str, final: bool, kind: type[Exception], builtin: type[Exception], message: str, changes: Options
) -> None:
    arguments: Options = {"b": B, "h0": H0, "final": final, "backend": backend} | changes
    with pytest.raises(kind, match=message) as caught:
        shuffle_scan(**arguments)
    assert isinstance(caught.value, builtin)
    assert "\n" not in str(caught.value)


@EVERY
@pytest.mark.parametrize(
    ("kind", "message", "changes"),
    [
        (errors.ShapeError, r"z .*x .*agree.*\(2, 3, 3\).*\(2, 3\)", {"x": torch.zeros(2, 3)}),
        (errors.ShapeError, r"z .*x .*agree.*\(2, 4, 2\)", {"x": torch.zeros(2, 4, 2)}),
        (errors.ShapeError, r"weight must be .*\(4, 3\).*\(4, 5\)", {"weight": torch.zeros(4, 5)}),
        (errors.ShapeError, r"bias must be .*\(4,\).*\(3,\)", {"bias": torch.zeros(3)}),
        (errors.ShapeError, r"gate_weight must be .*\(4, 2\).*\(4, 1\)", {"gate_weight": torch.zeros(4, 1)}),
        (errors.ShapeError, r"gate_bias must be .*\(4,\).*\(5,\)", {"gate_bias": torch.zeros(5)}),
        (errors.ShapeError, r"h0 must be .*\(2, 4\).*\(3, 4\)", {"h0": torch.zeros(3, 4)}),
        (errors.DtypeError, "weight .*float32.*float64", {"weight": torch.zeros(4, 3).double()}),
        (errors.DtypeError, "x .*float32.*float64", {"x": torch.zeros(2, 3, 2).double()}),
        (errors.DtypeError, "h0 .*float32.*float64", {"h0": torch.zeros(2, 4).double()}),
        (errors.DeviceError, "weight .*cpu.*meta", {"weight": torch.zeros(4, 3, device="meta")}),
        (errors.LengthError, "lengths must be .*T = 3.*4", {"lengths": torch.tensor([0, 4])}),
        (errors.SettingError, "permutation must .*once", {"permutation": torch.zeros(4, dtype=torch.int64)}),
        (errors.SettingError, "activation.*relu, tanh", {"activation": "step"}),
    ],
)
def test_the_gated_scan_refuses_invalid_input(backend: str, kind: type[Exception], message: str, changes: Options) -> None:
    tensors, _ = gated_problem(2, 3, 4, dtype=torch.float32)
    arguments: Options = dict(zip(GATED, tensors, strict=True)) | {"backend": backend} | changes
    with pytest.raises(kind, match=message):
        kernels.gated_scan(**arguments)


@FAST
@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("ids", {"b": TABLE, "ids": IDS + 5}),
        ("ids", {"b": TABLE, "ids": IDS - 1}),
        ("lengths", {"lengths": torch.tensor([0, 4])}),
        ("lengths", {"lengths": torch.tensor([-1, 3])}),
    ],
    ids=["ids above", "ids below", "lengths above", "lengths below"],
)
def test_a_compiled_graph_refuses_values_out_of_range(backend: str, name: str, changes: Options) -> None:
    torch.compiler.reset()
    compiled = torch.compile(shuffle_scan, fullgraph=True, backend="aot_eager")
    arguments: Options = {"b": B, "h0": H0, "backend": backend} | changes
    with pytest.raises(RuntimeError, match=f"{name} .*must be"):
        compiled(**arguments)


def test_an_error_about_an_unknown_backend_lists_all() -> None:
    with pytest.raises(
        errors.SettingError, match=r"no backend is called 'cuda'\. Choose one of auto, native, reference, torch, triton"
    ):
        shuffle_scan(B, H0, backend="cuda")


def test_an_unavailable_backend_says_why_and_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "NATIVE_ERROR", "no compiler was found. Install one")
    with pytest.raises(errors.BackendError, match=r"native.*no compiler was found. Install one"):
        shuffle_scan(B, H0, backend="native")
    monkeypatch.setattr(kernels, "_default", "native")
    with pytest.raises(errors.BackendError, match=r"native.*no compiler was found. Install one"):
        shuffle_scan(B, H0)


@pytest.mark.slow
def test_the_environment_says_what_auto_means() -> None:
    def run(name: str) -> subprocess.CompletedProcess[str]:
        command = [
            sys.executable,
            "-c",
            "import torch, srnn; print(srnn.kernels.auto_backend()); srnn.shuffle_scan(torch.ones(1, 1, 1))",
        ]
        return subprocess.run(command, env=os.environ | {"SRNN_BACKEND": name}, capture_output=True, text=True)

    assert run("torch").stdout == "torch\n"
    wrong = run("cuda")  # an import does not fail for it; the first scan does
    assert "SettingError" in wrong.stderr
    assert "'cuda'. Choose one of auto, native, reference, torch, triton" in wrong.stderr


def test_use_chooses_the_default_backend_and_restores_it() -> None:
    before = kernels.default_backend()
    with kernels.use("torch"):
        with kernels.use("reference"):
            assert kernels.auto_backend() == "reference"
        assert kernels.auto_backend() == "torch"
        with pytest.raises(ZeroDivisionError), kernels.use("reference"):
            raise ZeroDivisionError
        assert kernels.auto_backend() == "torch"
        with pytest.raises(errors.SettingError, match="no backend is called 'cuda'"), kernels.use("cuda"):
            pass
    assert kernels.default_backend() == before


def test_a_compiled_graph_respects_use() -> None:
    graphs: list[list[str]] = []

    def compile(graph: Any, inputs: Any) -> Any:
        graphs.append([str(node.target) for node in graph.graph.nodes if "srnn" in str(node.target)])
        return graph.forward

    def inside(b: Tensor) -> Tensor:
        with kernels.use("torch"):
            return shuffle_scan(b, H0)

    expected = shuffle_scan(B, H0, backend="reference")
    torch.compiler.reset()
    assert_close(torch.compile(inside, fullgraph=True, backend=compile)(B), expected)
    outside = torch.compile(lambda b: shuffle_scan(b, H0), fullgraph=True, backend=compile)
    for backend in ("torch", "reference", "torch"):  # the second graph must not be that of the first, the third may be
        with kernels.use(backend):
            assert_close(outside(B), expected)
    assert graphs == [["srnn_torch.shuffle_scan"], ["srnn_torch.shuffle_scan"], []]


def test_every_activation_of_the_table_is_compiled_and_another_is_an_error() -> None:
    source = (Path(native.__file__).parent / "csrc" / "kernels.h").read_text()
    assert re.findall(r'\{"(\w+)", Activation::(\w+)\}', source) == [(name, name) for name in kernels.ACTIVATIONS]
    if native.load_error() is None:
        with pytest.raises(RuntimeError, match=r"no activation is called 'sin'\. Choose one of relu, tanh, clip"):
            torch.ops.srnn.shuffle_scan(B, H0, None, None, None, None, False, "sin")


def test_an_error_about_a_missing_library_says_how_to_build_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(native, "ROOT", tmp_path)
    load_error, package = native.load_error.__wrapped__, "srnn.lab.networks.scans"
    assert re.match(r"_C.so of srnn was not built\. .*pip install", load_error() or "")
    folder = tmp_path / "srnn" / "lab" / "networks" / "scans"
    folder.mkdir(parents=True)
    (folder / "_build_error.txt").write_text("g++ was not found\n")
    assert (load_error(package) or "").startswith("g++ was not found. ")
    (folder / "_C.so").write_bytes(b"no library")
    assert "does not load with torch" in (load_error(package) or "")


def test_an_empty_variable_chooses_no_backend() -> None:
    code = "from srnn import kernels; print(kernels.default_backend(), kernels.auto_backend())"
    found = subprocess.run([sys.executable, "-c", code], env=os.environ | {"SRNN_BACKEND": ""}, capture_output=True, text=True)
    assert found.stdout.split()[:1] == ["auto"], found.stderr
