"""What is decided about Triton's kernels before any of them runs. tests/test_interpreter.py runs them."""

import importlib.metadata
import importlib.util
import inspect
from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from srnn import errors, kernels
from srnn.kernels import ops, shuffle_scan, triton

B = torch.zeros(2, 3, 4)
CUDA = torch.device("cuda")
LOADED = pytest.mark.skipif(triton.install_error() is not None, reason=f"{triton.install_error()}")


def test_tensors_on_the_cpu_need_the_interpreter() -> None:
    with pytest.raises(
        errors.BackendError, match="'triton' cannot run: it runs on a GPU, and the tensors are on cpu"
    ) as caught:
        shuffle_scan(B, backend="triton")
    assert "TRITON_INTERPRET=1" in str(caught.value)
    assert "\n" not in str(caught.value)
    with kernels.use("triton"), pytest.raises(errors.BackendError, match="the tensors are on cpu"):
        shuffle_scan(B)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_torch_that_finds_no_gpu_is_named() -> None:
    assert triton.error(CUDA) == "torch finds no GPU. Install a torch that is built for it"


def test_a_gpu_that_is_too_old_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "GTX 1080")
    for capability, message in (((6, 1), "it needs compute capability 7.5 or higher, and GTX 1080 has 6.1"), ((7, 5), None)):
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device, found=capability: found)
        assert triton._device_error.__wrapped__(CUDA) == message
    monkeypatch.setattr(torch.version, "hip", "7.0")
    for arch, message in (
        ("gfx906:sramecc+:xnack-", "it needs gfx908 or later, and GTX 1080 is gfx906"),
        ("gfx908:sramecc+:xnack-", None),
        ("gfx90a", None),
        ("gfx1100", None),
    ):
        about = SimpleNamespace(gcnArchName=arch)
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device, found=about: found)
        assert triton._device_error.__wrapped__(CUDA) == message


def test_a_triton_that_is_absent_or_too_old_is_named_and_auto_runs_without(monkeypatch: pytest.MonkeyPatch) -> None:
    find = triton.install_error.__wrapped__
    monkeypatch.setattr(triton, "version", lambda name: "3.5.1")
    assert find() == "Triton 3.5.1 is too old, expected 3.6 or later. Run pip install --upgrade triton"

    def of_another_name(name: str) -> str:
        if name == "triton":
            raise importlib.metadata.PackageNotFoundError(name)
        return "3.5.0+rocm"

    monkeypatch.setattr(triton, "version", of_another_name)
    monkeypatch.setattr(triton, "packages_distributions", lambda: {"triton": ["a-triton"]})
    assert find() == "Triton 3.5.0+rocm is too old, expected 3.6 or later. Run pip install --upgrade triton"
    monkeypatch.setattr(triton, "packages_distributions", dict)
    assert find() == "Triton is not installed. Run pip install 'srnn[triton]'"
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert find() == "Triton is not installed. Run pip install 'srnn[triton]'"
    monkeypatch.setattr(kernels, "TRITON_ERROR", find())
    with pytest.raises(errors.BackendError, match=r"backend 'triton' is not available: Triton is not installed. Run pip"):
        shuffle_scan(B, backend="triton")
    assert torch.equal(shuffle_scan(B), torch.zeros(2, 3, 4))


def test_every_operator_has_an_implementation_for_cuda() -> None:
    """Which runs Triton, or the plain code where Triton cannot run."""
    for name in ops.SCHEMAS | ops.CELL_SCHEMAS:
        assert torch._C._dispatch_has_kernel_for_dispatch_key(f"srnn::{name}", "CUDA")


def test_where_triton_cannot_run_the_plain_code_does() -> None:
    run = triton.operator_or("no_such_operator", lambda *args: "plain")
    assert run(None, B) == "plain"
    assert not triton.in_time((None, B))


@LOADED
@pytest.mark.parametrize(
    ("N", "T", "H", "form"),
    [
        (1, 16_000, 256, "time"),
        (1, 2048, 1, "time"),
        (1, 2047, 1, "lanes"),  # too few steps
        (53, 2048, 130, "time"),  # 6,890 lanes
        (54, 2048, 128, "lanes"),  # 64 x 108 lanes
        (100, 784, 128, "lanes"),
    ],
)
def test_few_lanes_and_many_steps_are_taken_in_parallel_over_time(N: int, T: int, H: int, form: str) -> None:
    from srnn.kernels.triton import launch

    assert launch.form_of(N, T, H, processors=108) == form


@LOADED
def test_the_form_can_be_chosen_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    from srnn.kernels.triton import launch as it

    for name in ("time", "lanes"):
        with it.use_form(name):
            assert it.form_of(1, 4000, 1, 108) == it.form_of(100, 784, 128, 108) == name
    assert it.form_of(1, 4000, 1, 108) == "time"
    with pytest.raises(errors.SettingError, match=r"'rows'\. Choose one of auto, lanes, time"), it.use_form("rows"):
        pass
    monkeypatch.setattr(it, "_form", "rows")
    with pytest.raises(errors.SettingError, match=r"SRNN_TRITON_FORM.* is called 'rows'\. Choose one of auto, lanes, time"):
        it.form_of(1, 4000, 1, 108)


@LOADED
def test_steps_and_units_that_int32_cannot_count_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    from srnn.kernels.triton import launch, operators

    for T, H in ((launch.LIMIT + 1, 2), (3, launch.LIMIT + 1)):
        b, h0 = torch.zeros(1, 1, 1).expand(1, T, H), torch.zeros(1, 1).expand(1, H)
        with pytest.raises(errors.ShapeError, match=rf"needs T and H of 2,146,435,072 or less, got T = {T:,}, H = {H:,}\. Use"):
            operators.shuffle_scan_final(b, h0, None, None, None, None, False, "relu")
    for processors, lanes in product((1, 108, 1000), (2**k for k in range(20))):
        monkeypatch.setattr(launch, "_processors", lambda device, count=processors: count)
        rows = launch.rows_of(torch.zeros(1, 1, 1).expand(1, launch.LIMIT, lanes), None, None, None, None, False)
        with launch.use_form("time"):
            steps, chunks = rows.chunks(rows.T, bounded=True)
        assert steps * chunks + 2 * launch.GROUP < 2**31


@LOADED
def test_every_lane_has_a_thread_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    from srnn.kernels.triton import launch

    for warp, hip, options in ((32, None, {"num_warps": 4, "maxnreg": 168}), (64, "7.0", {"num_warps": 2})):
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device, warp=warp: SimpleNamespace(warp_size=warp))
        monkeypatch.setattr(torch.version, "hip", hip)
        assert launch._options.__wrapped__(CUDA) == options
        given: list[Any] = []
        monkeypatch.setattr(launch, "_options", lambda device, options=options: options)
        kernel = {(3,): lambda *args, given=given, **constants: given.append(constants)}
        launch.launch(kernel, 3, B, BLOCK=1)
        assert given == [{"BLOCK": 1} | options]
        monkeypatch.undo()


@LOADED
def test_no_program_is_no_launch() -> None:
    from srnn.kernels.triton import launch

    launched: list[Any] = []
    kernel = {(programs,): lambda *args: launched.append(args) for programs in (0, 3)}
    launch.launch(kernel, 0, B)  # a GPU refuses a grid of none
    assert not launched
    launch.launch(kernel, 3, B)
    assert len(launched) == 1


@LOADED
def test_values_out_of_range_are_an_error_without_waiting_for_the_device() -> None:
    from srnn.kernels.triton import launch

    ids, lengths = torch.tensor([[0, 4, 1], [2, 2, 2]]), torch.tensor([3, 0])
    launch.check_later(torch.zeros(5, 4), ids, lengths)
    for wrong in (ids + 1, ids - 1):
        with pytest.raises(RuntimeError, match=r"ids .symbols. must be rows of the table"):
            launch.check_later(torch.zeros(5, 4), wrong, None)
    for wrong in (lengths + 1, lengths - 1):
        with pytest.raises(RuntimeError, match="lengths must be between 0 and T"):
            launch.check_later(B, None, wrong)


@LOADED
def test_orbits_follow_each_cycle_of_a_permutation() -> None:
    from srnn.kernels.triton import launch

    permutation = torch.tensor([2, 1, 0, 4, 5, 3])
    order, start, stop, at = launch.orbits_of(permutation).tolist()
    inverse = permutation.argsort().tolist()
    for unit in range(6):
        assert order[at[unit]] == unit
        after = start[unit] if at[unit] + 1 == stop[unit] else at[unit] + 1
        assert order[after] == inverse[unit]
    assert launch.orbits_of(permutation) is launch.orbits_of(permutation)
    with pytest.raises(errors.SettingError, match="permutation must hold each of 0 to 2 once"):
        launch.orbits_of(torch.tensor([0, 1, 1]))


@LOADED
def test_the_list_of_variants_has_every_kernel() -> None:
    from srnn.kernels.triton import kernels as jitted
    from srnn.kernels.triton import variants

    found = variants.variants((torch.bfloat16,))
    launched = {name for name, each in vars(jitted).items() if hasattr(each, "arg_names") and "WIDE" in each.arg_names}
    assert {each.name for each in found} == launched == {
        "scan", "summarize", "carry", "backward", "summarize_backward", "carry_backward", "table_pieces", "table_sum"
    }  # fmt: skip
    assert len({(each.name, str(each.signature), str(each.constants)) for each in found}) == len(found) > 100
    for each in found:
        assert list(each.signature) == list(inspect.signature(each.kernel.fn).parameters)


@LOADED
@pytest.mark.skipif(triton.INTERPRETED, reason="the interpreter compiles nothing")
@pytest.mark.parametrize(("backend", "target"), [("nvidia", ("cuda", 80, 32)), ("amd", ("hip", "gfx942", 64))])
def test_no_size_and_no_address_compiles_a_kernel_again(backend: str, target: tuple[Any, ...]) -> None:
    from triton.backends import backends
    from triton.backends.compiler import GPUTarget
    from triton.runtime.jit import create_function_from_signature

    from srnn.kernels.triton import variants

    compiler = backends[backend].compiler(GPUTarget(*target))
    kernels_of = {each.name: each for each in variants.variants((torch.float32,))}
    memory = torch.zeros(64)
    for each in kernels_of.values():
        specialize = create_function_from_signature(each.kernel.signature, each.kernel.params, compiler)
        found = set()
        for size, tensor in ((1, memory), (16, memory), (17, memory), (16, memory[1:])):
            given = {name: each.constants.get(name, size if kind == "i32" else tensor) for name, kind in each.signature.items()}
            found.add(str(specialize(**given)[1]))
        assert len(found) == 1
