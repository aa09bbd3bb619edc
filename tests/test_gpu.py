"""The Triton kernels on a GPU, compared with the loop that specifies them: `pytest -m gpu`, for somebody who has one.

Without a GPU the tests are left out. With TRITON_INTERPRET=1 the same code runs on the CPU at smaller sizes, in Triton's
interpreter. On a GPU the tests write the record results/gpu-tests.json: please send it to us.
"""

import copy
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from test_kernels import FORMS, TOLERANCE, Results, assert_same_bits, gated_problem, gated_results, problem, results
from torch import Tensor

from srnn import SRNN, kernels
from srnn.kernels import shuffle_scan, triton
from srnn.lab.bench import device, training
from srnn.lab.measures import backends
from srnn.lab.records import store

ON = torch.device("cpu" if triton.INTERPRETED else "cuda")
IS_GPU = ON.type == "cuda"
SHAPE = (37, 1003, 130) if IS_GPU else (2, 37, 5)
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(triton.error(ON) is not None, reason=f"{triton.error(ON)}")]
Differences = dict[str, float]


@pytest.fixture(scope="module")
def differences(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Differences]:
    """The largest difference that each test has seen. They go to the record, which is written at the end."""
    found: Differences = {}
    start = time.perf_counter()
    yield found
    path = (Path("results") if IS_GPU else tmp_path_factory.mktemp("results")) / "gpu-tests.json"
    record = {
        "kind": "gpu-tests",
        **store.environment(),
        "device": store.device(ON),
        "failed": request.session.testsfailed,
        "seconds": round(time.perf_counter() - start, 1),
        "largest_differences": found,
    }
    store.write(path, record)
    assert store.read(path) == record


@pytest.fixture
def compare(request: pytest.FixtureRequest, differences: Differences) -> Any:
    """Returns the largest difference of results on the device from the reference, as a share of the largest number of each."""

    def compare(actual: Results, expected: Results) -> float:
        shares = [
            (actual[name].cpu().double() - wanted).abs().max() / wanted.abs().max().clamp(min=1)
            for name, wanted in expected.items()
        ]
        differences[request.node.name] = float(torch.stack(shares).max())  # NaN if any is NaN
        return differences[request.node.name]

    return compare


def on_device(given: Any) -> Any:
    """Tensors on the device, alone or in a dictionary, and everything else as it is."""
    if isinstance(given, dict):
        return {name: on_device(value) for name, value in given.items()}
    return given.to(ON) if isinstance(given, Tensor) else given


def eighths(x: Tensor) -> Tensor:
    """Numbers whose sums have no rounding error, so that no unit is zero on one device only."""
    return (x * 8).round() / 8


@pytest.mark.parametrize(("form", "want"), FORMS)
@pytest.mark.parametrize("how", ["plain", "all options"])
def test_states_and_gradients_equal_the_reference(form: str, want: str, how: str, compare: Any) -> None:
    every = how != "plain"
    b, h0, options = problem(*SHAPE, form, "random" if every else "shift", every, torch.float32, every)
    b, h0, options = eighths(b), eighths(h0), options | {"want": want, "reverse": every}
    expected = results("reference", b.double(), h0.double(), **options)
    assert compare(results("triton", b.to(ON), h0.to(ON), **on_device(options)), expected) <= 1e-5


@pytest.mark.parametrize("activation", ["tanh", "clip"])
def test_other_activations_equal_the_reference(activation: str, compare: Any) -> None:
    b, h0, _ = problem(*SHAPE, dtype=torch.float32)
    b, h0 = eighths(b), eighths(h0)
    expected = results("reference", b.double(), h0.double(), activation=activation)
    assert compare(results("triton", b.to(ON), h0.to(ON), activation=activation), expected) <= 1e-4


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16], ids=str)
def test_other_dtypes_equal_the_reference(dtype: torch.dtype, compare: Any) -> None:
    b, h0, _ = problem(*SHAPE, dtype=dtype)
    b, h0 = eighths(b), eighths(h0)
    expected = results("reference", b.double(), h0.double(), activation="clip")
    actual = results("triton", b.to(ON), h0.to(ON), activation="clip")
    assert {y.dtype for y in actual.values()} == {dtype}
    assert compare(actual, expected) <= (1e-12 if dtype == torch.float64 else 4 * TOLERANCE[dtype][0])


@pytest.mark.parametrize("want", ["states", "final"])
def test_gated_scan_equals_the_reference(want: str, compare: Any) -> None:
    inputs, options = gated_problem(*SHAPE, lengths=True)
    expected = gated_results("reference", inputs, want=want, **options)
    actual = gated_results("triton", [on_device(each) for each in inputs], want=want, **on_device(options))
    assert compare(actual, expected) <= 1e-9


@pytest.mark.parametrize("want", ["states", "final"])
def test_form_that_is_parallel_in_time_equals_the_reference(want: str, compare: Any) -> None:
    from srnn.kernels.triton import launch

    b, h0, _ = problem(*((2, 5003, 70) if IS_GPU else (1, 130, 2)), dtype=torch.float32)
    b, h0 = eighths(b), eighths(h0)
    expected = results("reference", b.double(), h0.double(), want)
    with launch.use_form("time"):
        assert compare(results("triton", b.to(ON), h0.to(ON), want), expected) <= 1e-4


def test_results_are_bit_identical_every_time() -> None:
    b, h0, options = problem(*SHAPE, "table", lengths=True, dtype=torch.float32)
    given = b.to(ON), h0.to(ON)
    assert_same_bits(results("triton", *given, **on_device(options)), results("triton", *given, **on_device(options)))


BIG = [(65_600, 64, 512), (1, 2**22 + 64, 512)]  # more elements than a number of 32 bits can count


@pytest.mark.parametrize("shape", BIG if IS_GPU else [(33, 2, 4), (1, 66, 4)], ids=str)
def test_offsets_do_not_overflow(shape: tuple[int, int, int]) -> None:
    if IS_GPU and torch.cuda.get_device_properties(ON).total_memory < 24e9:
        pytest.skip("needs 24 GB of GPU memory")
    b = torch.zeros(shape, dtype=torch.bfloat16, device=ON)
    b[-1, -1] = torch.arange(shape[-1], device=ON).bfloat16() / 256
    states = shuffle_scan(b, backend="triton")
    assert torch.equal(states[-1, -1], b[-1, -1])
    assert not states[-1, -2].any()
    del states
    b.requires_grad_()
    (gradient,) = torch.autograd.grad(shuffle_scan(b, final=True, backend="triton")[-1].sum(), b)
    assert torch.equal(gradient[-1, -1], (b[-1, -1] > 0).to(b.dtype))
    assert not gradient[-1, -2].any()


def test_layer_equals_itself_on_the_cpu(compare: Any) -> None:
    N, T, H = SHAPE
    rnn = SRNN(3, H, mlp=(8,), num_layers=2, bidirectional=IS_GPU, batch_first=True, dtype=torch.float64)
    there = copy.deepcopy(rnn).to(ON)
    x = torch.randn(N, T, 3, dtype=torch.float64)
    found: list[Results] = []
    for layer, given, backend in ((there, x.to(ON), "triton"), (rnn, x, "reference")):
        with kernels.use(backend):
            output, h_n = layer(given)
            gradients = torch.autograd.grad(output.sin().sum() + h_n.sum(), list(layer.parameters()))
        found.append({"output": output.detach(), "h_n": h_n.detach()} | {str(k): g for k, g in enumerate(gradients)})
    assert compare(*found) <= 1e-9


def test_compiled_layer_equals_the_plain_one(compare: Any) -> None:
    rnn = SRNN(3, 16, batch_first=True).to(ON)
    x = torch.randn(2, 20, 3, device=ON)
    with kernels.use("triton"):
        compiled = torch.compile(rnn, fullgraph=True, backend="inductor" if IS_GPU else "aot_eager")
        assert compare({"output": compiled(x)[0].detach()}, {"output": rnn(x)[0].detach().cpu().double()}) <= 1e-5


def test_self_test_passes_on_the_device() -> None:
    found = backends.examine_backend("triton", ON, [torch.float32, torch.float16])
    assert found["equals_reference"], found


def test_benchmark_of_the_device_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    setting = replace(training.COPY, N=1, T=22, H=4)
    monkeypatch.setattr(device, "SETTINGS", [setting])
    monkeypatch.setattr(device, "PARTS", {"step": training.training_step})
    monkeypatch.setattr(device, "SHAPES", [(1, 130, 2)])
    if not IS_GPU:
        monkeypatch.setattr(device, "check_results", lambda settings, on: None)  # takes long there, and the tests above do more
    with kernels.use("triton"):
        record = device.main(str(ON), rounds=1, threads=1, out=tmp_path / "bench.json")
    assert record["device"]["backend"] == "triton"
    assert set(record["scans"][0]["microseconds"]) == {"lanes", "time", "copy"}
    assert all(value > 0 for value in record["scans"][0]["microseconds"].values())
