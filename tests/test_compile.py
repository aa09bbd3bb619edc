"""What `make gpu-compile` reads from machine code, and what it would refuse. Nothing is compiled here."""

import json
import sys
from typing import Any

import pytest
import torch

if sys.platform != "linux":
    pytest.skip("Triton is for Linux", allow_module_level=True)

from gpu import compile as compiling

from srnn.kernels import triton
from srnn.kernels.triton import launch, operators
from srnn.kernels.triton.variants import variants
from srnn.lab.bench import roofline
from srnn.lab.bench.result import as_markdown
from srnn.lab.records import store

if triton.INTERPRETED:
    pytest.skip("kernels of the interpreter cannot be compiled", allow_module_level=True)

LOOP = """.L_x_1:
        /*0010*/              @!P1 LDG.E R9, [R20.64] ;
        /*0020*/                   FADD R65, R65, R2 ;
        /*0030*/              @!P1 LDG.E.64 R12, desc[UR4][R22.64] ;
{between}
        /*0050*/              @!P1 LDG.E R15, [R24.64] ;
        /*0060*/                   MOV R2, R9 ;
        /*0070*/               @P0 BRA `(.L_x_1) ;
"""


@pytest.mark.parametrize(
    ("between", "at_once"),
    [
        ("", 3),
        ("        /*0040*/                   FADD R3, R9, R65 ;", 2),
        ("        /*0040*/                   DADD R4, R6, R12 ;", 2),
        ("        /*0040*/                   DADD R4, R6, -R13 ;", 2),
        ("        /*0040*/                   STG.E [R30.64], R9 ;", 2),
        ("        /*0040*/                   MOV R99, R90 ;", 3),
    ],
)
def test_loads_count_until_one_is_waited_for(between: str, at_once: int) -> None:
    assert compiling.loop(LOOP.format(between=between))[:2] == (at_once, 3)


def test_code_without_a_loop_has_no_loads_to_count() -> None:
    assert compiling.loop(LOOP.replace("BRA `(.L_x_1)", "EXIT")) == (0, 0, 0)
    assert compiling.loop(".L_x_1:\n        /*0010*/  BRA `(.L_x_1) ;") == (0, 0, 0)


GOOD = {"registers": 100, "stack": 0, "shared": 0, "loads": 16, "loads at once": 16}


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({}, None),
        ({"registers": 169}, "registers: 169, at most 168 are wanted"),
        ({"stack": 8}, "stack: 8, at most 0 are wanted"),
        ({"shared": 1024}, "shared: 1024, at most 0 are wanted"),
        ({"loads": 8, "loads at once": 8}, None),
        ({"loads at once": 11}, "11 of 16 loads are on their way at once, at least 12 are wanted"),
    ],
)
def test_kernel_that_would_be_slow_is_a_fault(changed: dict[str, int], fault: str | None) -> None:
    found = list(compiling.faults("scan: relu, dense", GOOD | changed))
    assert found == ([] if fault is None else [fault])


def test_differences_from_the_golden_file_are_named() -> None:
    golden = {"triton": "3.7.1", "kernels": {"a": GOOD, "b": GOOD}}
    changed: dict[str, Any] = {"triton": "3.7.1", "kernels": {"a": GOOD | {"registers": 101}}}
    assert list(compiling.differences(golden, golden, sample=False)) == []
    assert [line.split(":")[0] for line in compiling.differences(changed, golden, sample=False)] == ["a", "b"]
    assert [line.split(":")[0] for line in compiling.differences(changed, golden, sample=True)] == ["a"]
    (line,) = compiling.differences({**golden, "triton": "3.8.0"}, golden, sample=True)
    assert line.startswith("this is Triton 3.8.0")


@pytest.fixture(scope="module")
def golden() -> Any:
    return json.loads(compiling.GOLDEN.read_text())


def test_golden_file_has_every_kernel_that_is_launched(golden: Any) -> None:
    """A new kernel, or a new form of one, needs make gpu-compile REWRITE=1."""
    planned = {compiling.key_of(variant, target) for variant, target in compiling.plan(sample=False)}
    assert planned == golden["kernels"].keys()
    every = {variant.name for variant in variants((torch.float32,))}
    assert {name.split(":")[0] for name in compiling.MAIN} == every
    assert len({key for key in planned if key.startswith(compiling.MAIN[0])}) == len(compiling.TARGETS) * len(compiling.DTYPES)


def test_golden_file_has_no_fault(golden: Any) -> None:
    found = [f"{key}: {fault}" for key, figures in golden["kernels"].items() for fault in compiling.faults(key, figures)]
    assert found == []


def test_page_shows_the_golden_file(golden: Any) -> None:
    assert store.filled(compiling.PAGE, "compiled", as_markdown(compiling.parts(golden))) == compiling.PAGE.read_bytes()


def test_model_has_the_instructions_of_the_machine_code(golden: Any) -> None:
    for processor, target in ((roofline.A100, "sm_80"), (roofline.H100, "sm_90")):
        figures = golden["kernels"][f"{compiling.MAIN[0]}, float32, {target}"]
        assert processor.instructions == round(figures["instructions"] / roofline.IN_FLIGHT)


def test_model_has_the_rule_and_the_chunks_of_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = (launch.LANES_PER_PROCESSOR, launch.MANY_STEPS, launch.GROUP)
    assert rule == (roofline.LANES_PER_PROCESSOR, roofline.MANY_STEPS, roofline.IN_FLIGHT)
    for processor in roofline.PROCESSORS:
        monkeypatch.setattr(launch, "_processors", lambda device, count=processor.count: count)
        for N, T, H in roofline.SHAPES[2:4]:
            b, h0 = torch.zeros(1, 1, 1).expand(N, T, H), torch.zeros(N, H)
            with launch.use_form("time"), launch.recorded() as launches:
                operators.shuffle_scan(b, h0, None, None, None, None, False, "relu")
            work, (*_, last) = roofline.time_parallel(N, T, H, processor), launches
            assert last[1]["chunks"] * N * H == work.lanes
            assert 2 * last[1]["steps"] + last[1]["chunks"] == work.depth
            assert len(launches) == work.launches
