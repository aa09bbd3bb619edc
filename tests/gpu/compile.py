"""Compiles the Triton kernels for GPUs that are not here, and compares what the compiler made with compiled.json.

    make gpu-compile                 every kernel and dtype for every architecture, and every form of a kernel for sm_80
    make gpu-compile SAMPLE=1        four kernels in float32 for two architectures, in less than a minute
    make gpu-compile REWRITE=1       writes compiled.json and the table of docs/gpu.md from what was found

Every kernel must compile, without shared memory or stack, and with registers below a bound, so that enough programs share a
processor. In the machine code of the loop over time, as many loads as a group has steps must be on their way (or nearly)
before anything waits for one of them: this keeps the memory busy. The additions meanwhile are those of the group before. The
numbers belong to one version of Triton, which the file names.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from srnn.kernels.triton.launch import REGISTERS, options_of
from srnn.kernels.triton.variants import Variant, variants
from srnn.lab.bench.result import Table, as_markdown
from srnn.lab.records import store

ROOT = Path(__file__).parents[2]
GOLDEN = Path(__file__).with_name("compiled.json")
PAGE = ROOT / "docs" / "gpu.md"
TARGETS = {f"sm_{arch}": GPUTarget("cuda", arch, 32) for arch in (75, 80, 90, 100, 120)} | {
    "gfx942": GPUTarget("hip", "gfx942", 64)
}
DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
MAIN = (  # compiled with every dtype and for every architecture; all kernels are among them
    "scan: shuffle_scan relu, dense, plain, lanes",
    "scan: shuffle_scan_final relu, dense, plain, lanes",
    "scan: shuffle_scan_final relu, table, plain, lanes",
    "scan: gated_scan relu, dense, plain, gate, lanes",
    "backward: shuffle_scan_backward bits, all states, dense, plain, lanes",
    "backward: shuffle_scan_backward zeros, dense, plain, lanes",
    "table_pieces: shuffle_scan_backward zeros, table, plain, lanes",
    "table_sum: shuffle_scan_backward bits, all states, table, plain, lanes",
    "summarize: shuffle_scan relu, dense, plain, time",
    "carry: shuffle_scan relu, dense, plain, time",
    "summarize_backward: shuffle_scan_backward bits, all states, dense, plain, time",
    "carry_backward: shuffle_scan_backward bits, all states, dense, plain, time",
)
SAMPLE = (MAIN[0], MAIN[1], MAIN[4], MAIN[9])
AT_ONCE = 12  # loads of a group of 16 that must be on their way together
TOOLS = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
Figures = dict[str, int]


def name_of(variant: Variant) -> str:
    """Returns the name of a variant without its dtype."""
    return f"{variant.name}: {variant.case}"


def key_of(variant: Variant, target: str) -> str:
    """Returns the name of a compilation in the golden file."""
    return f"{name_of(variant)}, {str(variant.dtype).removeprefix('torch.')}, {target}"


def plan(sample: bool) -> Iterator[tuple[Variant, str]]:
    """Yields what is compiled: variants and architectures."""
    for variant in variants(DTYPES):
        name = name_of(variant)
        wanted: tuple[str, ...] = ()
        if sample:
            wanted = ("sm_80", "sm_90") if name in SAMPLE and variant.dtype == torch.float32 else ()
        elif name in MAIN:
            wanted = tuple(TARGETS)
        else:
            wanted = ("sm_80",) if variant.dtype == torch.float32 else ()
        for target in wanted:
            yield variant, target


def compiled(variant: Variant, target: str) -> Figures:
    """Compiles a variant for an architecture, and returns what its machine code needs."""
    gpu = TARGETS[target]
    # what Triton assumes of a tensor below 2 GB, on AMD alone
    assumed = [["tt.pointer_range", 32]] if gpu.backend == "hip" else []
    pointers = {(k,): assumed for k, kind in enumerate(variant.signature.values()) if kind.startswith("*")}
    source = ASTSource(variant.kernel, dict(variant.signature), dict(variant.constants), pointers)
    made = triton.compile(source, target=gpu, options=options_of(gpu.warp_size, gpu.backend == "hip"))
    if target.startswith("gfx"):
        return _of_amd(made.asm["amdgcn"])
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(made.asm["cubin"])
        file.flush()
        usage, code = (_run(tool, *options, file.name) for tool, *options in (("cuobjdump", "-res-usage"), ("nvdisasm", "-c")))
    found = {key: int(number) for key, number in re.findall(r"(REG|STACK|SHARED|LOCAL):(\d+)", usage)}
    at_once, inside, instructions = loop(code)
    return {
        "registers": found["REG"],
        "stack": found["STACK"] + found["LOCAL"],
        "shared": made.metadata.shared,
        "loads": inside,
        "loads at once": at_once,
        "instructions": instructions,
    }


def _run(tool: str, *arguments: str) -> str:
    return subprocess.run([TOOLS / tool, *arguments], capture_output=True, text=True, check=True).stdout


def _of_amd(assembly: str) -> Figures:
    found = {key: int(number) for key, number in re.findall(r"\.(\w+):\s+(\d+)", assembly)}
    return {
        "registers": found["vgpr_count"],
        "stack": found["private_segment_fixed_size"] + 4 * found["vgpr_spill_count"],
        "shared": found["group_segment_fixed_size"],
    }


def loop(code: str) -> tuple[int, int, int]:
    """Returns how many global loads are on their way before anything waits for one of them, all loads, and all instructions.

    Args:
        code: The machine code as nvdisasm writes it. The numbers are those of the loop with most loads, 0 without one.
    """
    lines = code.splitlines()
    places = {line.rstrip(":"): at for at, line in enumerate(lines) if re.fullmatch(r"\.L_x_\d+:", line)}
    best = (0, 0, 0)
    for at, line in enumerate(lines):
        jump = re.search(r"\bBRA\S* .*`\((\.L_x_\d+)\)", line)
        if jump is not None and places[jump[1]] < at:
            best = max(best, _in_flight(lines[places[jump[1]] : at + 1]), key=lambda counts: counts[1])
    return best


def _in_flight(body: list[str]) -> tuple[int, int, int]:
    """Counts the loads before the first instruction that reads what one of them has loaded, all loads, and all instructions."""
    loaded: set[int] = set()
    first = total = instructions = 0
    is_waiting = False
    for line in body:
        instruction = re.search(r"\*/\s+(?:@!?U?P\d+ )?([A-Z]\S*)\s+(.*?) ;", line)
        if instruction is None:
            continue
        instructions += 1
        opcode, operands = instruction[1], instruction[2].split(", ")
        target = re.fullmatch(r"R(\d+)", operands[0])
        read = operands if target is None else operands[1:]
        is_waiting = is_waiting or any(int(number) in loaded for each in read for number in re.findall(r"\bR(\d+)", each))
        if opcode.startswith("LDG") and target is not None:
            total += 1
            first += not is_waiting
            width = 2 if ".64" in opcode else 1
            loaded |= set(range(int(target[1]), int(target[1]) + width))
    return (first, total, instructions) if total else (0, 0, 0)


def faults(name: str, figures: Figures) -> Iterator[str]:
    """Yields what must not be, whatever the golden file says."""
    for what, most in (("registers", REGISTERS), ("stack", 0), ("shared", 0)):
        if figures[what] > most:
            yield f"{what}: {figures[what]}, at most {most} are wanted"
    wanted = min(AT_ONCE, figures.get("loads", 0))
    if has_groups(name) and figures.get("loads at once", 0) < wanted:
        yield f"{figures['loads at once']} of {figures['loads']} loads are on their way at once, at least {wanted} are wanted"


def has_groups(name: str) -> bool:
    """Returns whether the kernel loads the next group of steps while it adds this one.

    With a table each load of a row waits for that of its symbol, and with a permutation for that of its place.
    """
    return name.split(":")[0] in ("scan", "backward", "summarize", "summarize_backward") and not re.search(
        "table|all options", name
    )


def differences(found: dict[str, Any], golden: dict[str, Any], sample: bool) -> Iterator[str]:
    """Yields where the figures are not those of the golden file."""
    if found["triton"] != golden["triton"]:
        yield f"this is Triton {found['triton']}, and {GOLDEN.name} is of {golden['triton']}: run make gpu-compile REWRITE=1"
        return
    for key in sorted(found["kernels"].keys() | (set() if sample else golden["kernels"].keys())):
        here, there = found["kernels"].get(key), golden["kernels"].get(key)
        if here != there:
            yield f"{key}: {here}, and {GOLDEN.name} has {there}"


def parts(golden: dict[str, Any]) -> Iterator[Table | str]:
    """Yields the table of docs/gpu.md: registers of the main variants by architecture, for float32 and then for all dtypes."""
    kernels, short = golden["kernels"], [str(dtype).removeprefix("torch.") for dtype in DTYPES]
    rows = []
    for name in MAIN:
        cells = [[kernels[f"{name}, {dtype}, {target}"]["registers"] for dtype in short] for target in TARGETS]
        rows.append([f"`{name.split(':')[0]}`", name.split(": ")[1], *(f"{min(c)} to {max(c)}" for c in cells)])
    yield Table(["kernel", "compiled for", *TARGETS], rows, names=2)
    most = {what: max(figures[what] for figures in kernels.values()) for what in ("registers", "stack", "shared")}
    loops = [
        figures["loads at once"] for key, figures in kernels.items() if has_groups(key) and figures.get("loads", 0) >= AT_ONCE
    ]
    yield (
        f"Registers per lane, least and most over {', '.join(short)}, with Triton {golden['triton']}. In all "
        f"{len(kernels)} compilations: at most {most['registers']} registers, {most['stack']} bytes of stack "
        f"and {most['shared']} bytes of shared memory. In the {len(loops)} loops over time for NVIDIA "
        f"with {AT_ONCE} loads or more and without a table or a permutation, at least {min(loops)} loads of a lane are "
        "on their way before one is waited for."
    )


@cache
def _variants() -> dict[tuple[str, str], Variant]:
    return {(name_of(each), str(each.dtype)): each for each in variants(DTYPES)}


def _compile(name: str, dtype: str, target: str) -> tuple[str, Figures, list[str]]:
    """In a worker process: a variant by its name."""
    variant = _variants()[name, dtype]
    figures = compiled(variant, target)
    key = key_of(variant, target)
    return key, figures, [f"{key}: {fault}" for fault in faults(name, figures)]


def main() -> int:
    """Compiles, compares or rewrites, and returns the exit code."""
    parser = argparse.ArgumentParser(description="Compile the Triton kernels for GPUs that are not here.")
    parser.add_argument("--sample", action="store_true", help="Compile a few of the kernels.")
    parser.add_argument("--rewrite", action="store_true", help="Write the golden file and the table of docs/gpu.md.")
    given = parser.parse_args()
    # The compiler's results are kept in Triton's cache, so that a run which is stopped resumes.
    wanted = [(name_of(variant), str(variant.dtype), target) for variant, target in plan(given.sample)]
    found: dict[str, Any] = {"triton": triton.__version__, "kernels": {}}
    wrong: list[str] = []
    # Not forked: torch has run products on several threads by now, and a forked copy of such a process waits for ever.
    with ProcessPoolExecutor(len(os.sched_getaffinity(0)), get_context("spawn")) as processes:
        for key, figures, bad in processes.map(_compile, *zip(*wanted, strict=True)):
            found["kernels"][key] = figures
            wrong += bad
            print(f"\r{len(found['kernels'])} of {len(wanted)} compiled", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    if given.rewrite and not given.sample:
        found["kernels"] = dict(sorted(found["kernels"].items()))
        GOLDEN.write_text(json.dumps(found, indent=1) + "\n")
        PAGE.write_bytes(store.filled(PAGE, "compiled", as_markdown(parts(found))))
    else:
        wrong += differences(found, json.loads(GOLDEN.read_text()), given.sample)
    for line in wrong:
        print(line)
    print(f"gpu-compile: {len(wanted)} compilations, {len(wrong)} faults")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
