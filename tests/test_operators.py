"""Every registered operator refuses every wrong argument: compiled, in plain PyTorch, and on fake tensors.

An exported graph can call the operators with anything. The cases are made from the schemas: a new operator needs an entry in
`GOOD`, and each of its arguments is then varied. `make asan` runs this file too, where a read out of bounds ends the run.
"""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from srnn.kernels import native, ops, triton
from srnn.kernels.arguments import words_of
from srnn.lab.networks import scans
from srnn.lab.networks.scans import linear, modrelu  # noqa: F401  (they register operators)

Arguments = dict[str, Any]
N, T, H, V, C, K = 3, 5, 4, 6, 2, 3
pytestmark = [pytest.mark.interpreter] if triton.INTERPRETED else []
NAMESPACES = (*ops.NAMESPACES, *scans.NAMESPACES)
COMPILED = {"srnn": native.load_error(), "srnn_lab": scans.load_error()}


@cache
def schemas() -> dict[str, Any]:
    """The schema of every registered operator, by namespace::name."""
    found = (s for s in torch._C._jit_get_all_schemas() if s.name.split("::")[0] in NAMESPACES)
    return {schema.name: schema for schema in found}


def randn(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


def borders() -> Arguments:
    reset = torch.zeros(N, T, dtype=torch.bool)
    lengths = torch.tensor([T, 2, 0])
    return {"permutation": torch.tensor([2, 0, 3, 1]), "lengths": lengths, "reset": reset, "reverse": False}


def scan_input(form: str, name: str = "b") -> Arguments:
    if form == "dense":
        return {name: randn(N, T, H), "ids": None}
    return {name: randn(V, H), "ids": torch.arange(N * T).view(N, T) % V}


def kept(kind: str) -> Arguments:
    return {"kept": {"bits": BITS, "states": randn(N, T, H).tanh()}.get(kind, LAST_ZEROS)}


BITS = torch.zeros(N, T, 8, dtype=torch.uint8)  # of the compiled and the plain code
LAST_ZEROS = torch.tensor([[0, 1, T, 2], [0, 1, 2, 2], [0, 0, 0, 0]], dtype=torch.int32)
GATED = {"z": randn(N, T, K), "weight": randn(H, K), "bias": randn(H)}
GATED |= {"x": randn(N, T, C), "gate_weight": randn(H, C), "gate_bias": randn(H)}
MAPS = [randn(7, C), randn(7), randn(H, 7), randn(H), randn(H, C), randn(H)]
CELL = {"maps": MAPS, "permutation": torch.tensor([2, 0, 3, 1]), "gate": True, "bias": True, "activation": "tanh"}
STATE, OUTPUT = randn(N, H), randn(N, T, H)
GOOD: dict[str, dict[str, Arguments]] = {
    "shuffle_scan": {form: {**scan_input(form), "h0": STATE, **borders(), "activation": "relu"} for form in ("dense", "table")},
    "shuffle_scan_final": {
        form: {**scan_input(form), "h0": STATE, **borders(), "activation": "clip"} for form in ("dense", "table")
    },
    "shuffle_scan_backward": {
        f"{form} {kind}": {
            "grad": None if kind == "last zeros" else OUTPUT,
            "grad_n": STATE,
            **kept(kind),
            **scan_input(form, "like"),
            **borders(),
        }
        for form in ("dense", "table")
        for kind in ("bits", "states", "last zeros")
    },
    "shuffle_scan_tangent": {
        f"{form} {kind}": {**scan_input(form, "v"), "v0": STATE, **kept(kind), **borders()}
        for form in ("dense", "table")
        for kind in ("bits", "states", "last zeros")
    },
    "gated_scan": {"gate": {**GATED, "h0": STATE, **borders(), "activation": "tanh"}},
    "gated_scan_final": {"gate": {**GATED, "h0": STATE, **borders(), "activation": "relu"}},
    "gated_scan_backward": {
        kind: {
            "grad": None if kind == "last zeros" else OUTPUT,
            "grad_n": STATE,
            **kept(kind),
            **GATED,
            **borders(),
            "needs": [1, 1, 1, 1],
        }
        for kind in ("bits", "states", "last zeros")
    },
    "cell": {"gate": {"x": randn(N, C), "h": STATE, **CELL}},
    "cell_backward": {"gate": {"grad": STATE, "x": randn(N, C), "out": STATE.tanh(), **CELL, "needs": [1] * 8}},
    "linear_scan": {
        "steps": {"b": OUTPUT, "a": OUTPUT.sigmoid(), "h0": STATE, "kind": "relu"},
        "complex": {"b": OUTPUT, "a": randn(H) / 4, "h0": STATE, "kind": "complex"},
    },
    "linear_scan_backward": {
        "steps": {"grad": OUTPUT, "states": OUTPUT.relu(), "a": OUTPUT.sigmoid(), "h0": STATE, "kind": "relu"},
        "complex": {"grad": OUTPUT, "states": OUTPUT, "a": randn(H) / 4, "h0": STATE, "kind": "complex"},
    },
    "modrelu_scan": {"complex": {"x": randn(T, N, H), "W": randn(H, H), "b": randn(H // 2), "h0": STATE}},
    "modrelu_scan_backward": {
        "complex": {"grad": randn(T, N, H), "kept": randn(T, N, H), "W": randn(H, H), "b": randn(H // 2)}
    },
}
# Extents that no other argument has: another number of rows of a table, or of steps, fits as well.
FREE = {("b", "table", 0), ("like", "table", 0), ("v", "table", 0), ("b", "complex", 1), ("x", "complex", 0)}
# Values out of range, by argument; those of a table with rows that `ids` do not reach are no error.
VALUES: dict[str, dict[str, Any]] = {
    "ids": {"negative": -torch.ones(N, T, dtype=torch.int64), "beyond V": torch.full((N, T), V, dtype=torch.int32)},
    "lengths": {"negative": torch.tensor([T, -1, 0]), "beyond T": torch.tensor([T + 1, 2, 0])},
    "permutation": {
        "twice": torch.tensor([0, 1, 2, 2]),
        "negative": torch.tensor([0, 1, 2, -1]),
        "beyond H": torch.tensor([0, 1, 2, H]),
    },
    "last zeros": {
        "negative": -torch.ones(N, H, dtype=torch.int32),
        "beyond T": torch.full((N, H), 10**6, dtype=torch.int32),
        "beyond a row's length": torch.full((N, H), T, dtype=torch.int32),
    },
    "reset with last zeros": {"after a last zero": torch.ones(N, T, dtype=torch.bool)},
    "activation": {"unknown": "sin", "empty": ""},
    "kind": {"unknown": "tanh"},
    "needs": {"short": [1], "none": [], "long": [1] * 9},
}


def wrong_tensors(t: Tensor) -> Iterator[tuple[str, Tensor]]:
    """Tensors that differ from a good one in one property."""
    yield "rank + 1", t[None].clone()
    yield "rank 0", t.flatten()[0].clone()
    if t.dim() > 1:
        yield "rank - 1", t[0].clone()
    for axis, extent in enumerate(t.shape):
        yield f"axis {axis} short", t.narrow(axis, 0, extent - 1).clone()
        yield f"axis {axis} long", torch.cat([t, t.narrow(axis, 0, 1)], axis)
        yield f"axis {axis} empty", t.narrow(axis, 0, 0).clone()
        yield f"axis {axis} of 2^31", t.narrow(axis, 0, 1).expand([2**31 if i == axis else -1 for i in range(t.dim())])
    for dtype in (torch.float64, torch.int16, torch.complex64, torch.float32):
        if dtype != t.dtype:
            yield f"{dtype}", t.to(dtype)
    yield "meta", t.to("meta")
    yield "sparse", t.to_sparse()


def wrong_values(name: str, given: Arguments) -> Iterator[tuple[str, Any]]:
    """Values of the argument that are wrong although shape and type are right, and lists that are wrong in one element."""
    value = given[name]
    key = "last zeros" if name == "kept" and value.dtype == torch.int32 else name
    yield from VALUES.get(key, {}).items()
    if name == "grad" and value is None:
        yield "with last zeros", OUTPUT
    if name == "reset" and given.get("kept") is LAST_ZEROS:
        yield from VALUES["reset with last zeros"].items()
    if name == "maps":
        yield from {"none": [], "one missing": value[:-1], "gate missing": value[:2]}.items()
        for i, each in enumerate(value):
            for what, wrong in wrong_tensors(each):
                if not (i == 0 and what.startswith("axis 0")) or "2^31" in what:
                    yield f"[{i}] {what}", [*value[:i], wrong, *value[i + 1 :]]


def is_free(operator: str, name: str, form: str, what: str) -> bool:
    """Whether a change makes another problem that is right, not a wrong one."""
    if "2^31" in what:
        return False
    if operator.startswith("cell") and name in ("x", "h", "out") and what == "rank + 1":
        return name != "out"  # a step takes any leading axes; `grad` must then have them too
    return any(name == n and f in form and what.startswith(f"axis {axis}") for n, f, axis in FREE)


def wrong(operator: str, form: str, name: str) -> Iterator[tuple[str, Any]]:
    """Every wrong value of an argument."""
    given = GOOD[operator][form]
    every = wrong_tensors(given[name]) if isinstance(given[name], Tensor) else iter(())
    for what, changed in (*every, *wrong_values(name, given)):
        if not is_free(operator, name, form, what):
            yield what, changed


ARGUMENTS = [
    (operator, form, name)
    for operator, forms in GOOD.items()
    for form, given in forms.items()
    for name in given
    if any(wrong(operator, form, name))
]
ANY_ERROR = (RuntimeError, ValueError, IndexError)  # of our own classes each is one of them


def arguments_of(operator: str, given: Arguments) -> list[Any]:
    """The arguments in the order of the schema."""
    schema = next(schema for name, schema in schemas().items() if name.split("::")[1] == operator)
    return [given[argument.name] for argument in schema.arguments]


AS_BITS = (BITS.shape, BITS.dtype, BITS.device, BITS.layout)


def call(mode: str, operator: str, given: Arguments) -> Any:
    """Calls the operator of a library, its plain code, Triton's kernels in the interpreter, or its shapes for tracing."""
    lab = "_lab" if operator.startswith(("linear", "modrelu")) else ""
    kept = given.get("kept")
    if mode == "triton" and kept is not None and (kept.shape, kept.dtype, kept.device, kept.layout) == AS_BITS:
        given = given | {"kept": torch.zeros(N, words_of(T), H, dtype=torch.int32)}
    args = arguments_of(operator, given)
    if mode != "fake":
        suffix = "" if mode == "native" else f"_{mode}"
        return getattr(getattr(torch.ops, f"srnn{lab}{suffix}"), operator)(*args)
    with FakeTensorMode() as fakes:
        faked = torch.utils._pytree.tree_map_only(Tensor, fakes.from_tensor, args)
        return getattr(getattr(torch.ops, f"srnn{lab}"), operator)(*faked)


def modes(operator: str) -> list[str]:
    compiled = COMPILED["srnn_lab" if operator.startswith(("linear", "modrelu")) else "srnn"] is None
    interpreted = ["triton"] if triton.INTERPRETED and operator in ops.SCHEMAS else []
    return (["native"] if compiled else []) + (["torch"] if not operator.startswith("cell") else []) + interpreted + ["fake"]


def same(found: Any, expected: Any) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def is_value(name: str, changed: Any, given: Arguments) -> bool:
    """Whether only the values of a tensor are wrong, which a fake tensor does not have."""
    return (
        isinstance(changed, Tensor)
        and isinstance(given[name], Tensor)
        and any(changed is wrong for wrongs in VALUES.values() for wrong in wrongs.values())
    )


def test_every_operator_has_cases_for_every_argument() -> None:
    assert {name.split("::")[1] for name in schemas()} == set(GOOD)
    for name, schema in schemas().items():
        operator = name.split("::")[1]
        varied = {argument for each, _, argument in ARGUMENTS if each == operator}
        assert varied == {argument.name for argument in schema.arguments if str(argument.type) != "bool"}, name


@pytest.mark.parametrize(("operator", "form"), [(operator, form) for operator, forms in GOOD.items() for form in forms])
def test_the_good_arguments_are_accepted_in_any_memory_layout(operator: str, form: str) -> None:
    given = GOOD[operator][form]
    spread: Callable[[Tensor], Tensor] = lambda t: torch.stack([t, t], -1)[..., 0]  # noqa: E731
    strided = {name: torch.utils._pytree.tree_map_only(Tensor, spread, value) for name, value in given.items()}
    expected = call(modes(operator)[0], operator, given)
    for mode in modes(operator):
        if mode == "triton" and operator in ("shuffle_scan", "gated_scan"):  # its bits are packed in another way
            same(call(mode, operator, given)[:2], expected[:2])
        elif mode != "fake":
            same(call(mode, operator, given), expected)
            same(call(mode, operator, strided), expected)
        else:
            shapes = [t.shape for t in torch.utils._pytree.tree_leaves(call(mode, operator, given))]
            assert shapes == [t.shape for t in torch.utils._pytree.tree_leaves(expected)]


@pytest.mark.parametrize(("operator", "form", "name"), ARGUMENTS)
def test_a_wrong_argument_is_refused(operator: str, form: str, name: str) -> None:
    given = GOOD[operator][form]
    names = "|".join([*given, r"maps\[\d\]", "ids .symbols.", "z .* and x .*"])
    expected = re.compile(
        rf"({names}) must .*, got|no {name} is called .*\. Choose one of|Could not run 'srnn::cell"
    )  # the last: a sparse one
    for what, changed in wrong(operator, form, name):
        for mode in modes(operator):
            if mode == "fake" and is_value(name, changed, given):
                continue
            try:
                call(mode, operator, given | {name: changed})
            except ANY_ERROR as error:
                message = str(error).splitlines()[0]
            else:
                message = "no error"
            assert expected.match(message), f"{mode}, {name} {what}: {message}"


@pytest.mark.parametrize("operator", [operator for operator in GOOD if operator != "shuffle_scan_tangent"])
def test_the_compiled_code_refuses_another_device_by_itself(operator: str) -> None:
    library = "srnn_lab" if operator.startswith(("linear", "modrelu")) else "srnn"
    if COMPILED[library] is not None:
        pytest.skip("the compiled library is not here")  # an error where $SRNN_REQUIRE asks for it
    overload = getattr(getattr(torch.ops, library), operator).default
    for given in GOOD[operator].values():
        for name, value in given.items():
            if isinstance(value, Tensor):
                args = arguments_of(operator, given | {name: value.to("meta")})
                with pytest.raises(RuntimeError, match=f"{name} must be on cpu"):
                    overload.redispatch(torch._C.DispatchKeySet(torch._C.DispatchKey.CPU), *args)


@pytest.mark.parametrize("mode", ["native", "torch", "fake"])
@pytest.mark.parametrize("operator", ["shuffle_scan_final", "gated_scan_final"])
def test_the_final_form_of_tanh_is_refused(operator: str, mode: str) -> None:
    if mode in modes(operator):
        for given in GOOD[operator].values():
            with pytest.raises(ANY_ERROR, match="The final form takes a bounded one, such as relu"):
                call(mode, operator, given | {"activation": "tanh"})


MEMORY = """
import resource, torch
from srnn.kernels import native
assert native.load_error() is None
torch.set_num_threads(2)
H = 1 << 21
b, h, table, ids = torch.zeros(2, 1, H), torch.zeros(2, H), torch.zeros(1, H), torch.zeros(2, 1, dtype=torch.int64)
bits, zeros = torch.zeros(2, 1, H // 8, dtype=torch.uint8), torch.zeros(2, H, dtype=torch.int32)
w, m = torch.zeros(H, 1), torch.zeros(2, 1, 1)
borders = (None, None, None, False)
ops, refused, done = torch.ops.srnn, 0, 0
calls = [
    lambda: ops.shuffle_scan(b, h, None, *borders, "relu"),
    lambda: ops.shuffle_scan_final(b, h, None, *borders, "relu"),
    lambda: ops.shuffle_scan_final(table, h, ids, *borders, "relu"),
    lambda: ops.shuffle_scan_backward(b, h, bits, b, None, *borders),
    lambda: ops.shuffle_scan_backward(None, h, zeros, table, ids, *borders),
    lambda: ops.gated_scan(m, w, None, m, w, None, h, *borders, "relu"),
    lambda: ops.gated_scan_backward(b, h, bits, m, w, None, m, w, None, *borders, [1, 1, 1, 1]),
    lambda: ops.cell(m[:, 0], h, [w, w], None, True, False, "relu"),
    lambda: ops.cell_backward(h, m[:, 0], h, [w, w], None, True, False, "relu", [1] * 4),
]
for each in calls:
    each()  # starts the threads
    for megabytes in range(0, 200, 8):
        held = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (held + (megabytes << 20), resource.RLIM_INFINITY))
        try:
            each()
            done += 1
        except (RuntimeError, MemoryError):
            refused += 1
        finally:
            resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(refused > 0, done > 0)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux") or COMPILED["srnn"] is not None, reason="needs /proc and the library")
def test_a_failed_allocation_is_an_error() -> None:
    done = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "True True\n"), done.stderr
