"""A part of `srnn bench --step`: nanoseconds of one step of exported models, for a small layer on one sequence.

SRNN and nn.GRU with 8 inputs and 128 units, f_r with one hidden layer of 32: in C (written by the same generator, compiled with
FLAGS), in onnxruntime, and in PyTorch. A side whose compiler or package is missing is not run.
"""

import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn

from srnn import SRNN, c, onnx
from srnn.errors import SettingError
from srnn.lab.bench.clock import Call, Clock
from srnn.lab.bench.result import Table
from srnn.lab.export import c as exports
from srnn.lab.export.onnx import is_available, session
from srnn.lab.export.program import largest_difference

C, H, MLP = 8, 128, (32,)
FLAGS = ("-O3", "-march=native")
CALLS = 50  # steps in one measurement in Python
TARGET = 5  # times fewer nanoseconds than the GRU in C
PAIRS = {"C, float32": "C", "C, int8 weights": "C8", "onnxruntime": "onnx", "PyTorch (SRNN.step, nn.GRUCell)": "torch"}
# Prints the nanoseconds of a step, the median of 50 measurements.
PROGRAM = """\
#define _POSIX_C_SOURCE 199309L
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "m.h"

static int order(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(void)
{
    static m_state s;
    static float x[M_INPUTS], y[M_OUTPUTS];
    static double found[50];
    float sum = 0.0f;
    int round, k, i;
    m_init(&s);
    for (round = 0; round < 50; round++) {
        struct timespec start, end;
        clock_gettime(CLOCK_MONOTONIC, &start);
        for (k = 0; k < 200; k++) {
            for (i = 0; i < M_INPUTS; i++) x[i] = (float)((7 * k + 3 * i) % 11) / 11.0f - 0.5f;
            m_step(&s, x, y);
            sum += y[k % M_OUTPUTS];
        }
        clock_gettime(CLOCK_MONOTONIC, &end);
        found[round] = ((double)(end.tv_sec - start.tv_sec) * 1e9 + (double)(end.tv_nsec - start.tv_nsec)) / 200;
    }
    qsort(found, 50, sizeof found[0], order);
    fprintf(stderr, "%g\\n", (double)sum);
    printf("%.1f\\n", found[25]);
    return 0;
}
"""


@torch.no_grad()
def measure(rounds: int) -> dict[str, Any]:
    """Returns the nanoseconds of a step for each side: the median over rounds in which all sides have their turn."""
    torch.manual_seed(0)
    layers: dict[str, Any] = {"srnn": SRNN(C, H, mlp=MLP), "gru": nn.GRU(C, H)}
    with tempfile.TemporaryDirectory() as folder:
        programs = dict(_programs(layers, Path(folder)))
        calls = dict(_calls(layers, Path(folder)))
        found: dict[str, list[float]] = {name: [] for name in programs}
        times = Clock(rounds).race(calls)
        for _ in range(rounds):
            for name, program in programs.items():
                done = subprocess.run([str(program)], capture_output=True, text=True, check=True)
                found[name].append(float(done.stdout))
    found |= {name: [1e9 * each / CALLS for each in seconds] for name, seconds in times.items()}
    return {"flags": " ".join(FLAGS), "nanoseconds": {name: median(each) for name, each in found.items()}}


def _programs(layers: Mapping[str, Any], folder: Path) -> Iterator[tuple[str, Path]]:
    """Programs in C that measure themselves, after a check that the code gives what the layer gives."""
    if exports.compiler() is None:
        return
    for label, rnn in layers.items():
        for kind, int8 in (("C", False), ("C8", True)):
            place = folder / f"{kind}-{label}"
            place.mkdir()
            text, x = c.header(rnn, name="m", int8=int8), torch.randn(100, C)
            (place / "m.h").write_text(text)
            if not int8:
                difference = largest_difference([exports.outputs(place / "m.h", "m", x)], [rnn(x)[0]])
                if not difference < 1e-5:
                    raise SettingError(f"{label} in C must give what PyTorch gives, and it is off by {difference:.1e}")
            yield f"{kind} {label}", exports.compiled(place, {"m.h": text, "main.c": PROGRAM}, *FLAGS)


def _calls(layers: Mapping[str, Any], folder: Path) -> Iterator[tuple[str, Call]]:
    """Calls of CALLS steps in PyTorch and, if it is installed, in onnxruntime."""
    x, h, rnn, cell = torch.randn(1, C), torch.zeros(1, 1, H), layers["srnn"], nn.GRUCell(C, H)
    yield "torch srnn", _repeated(lambda: rnn.step(x, h))
    yield "torch gru", _repeated(lambda: cell(x, h[0]))
    yield from _onnx_calls(rnn, layers["gru"], x, h, folder)


def _onnx_calls(rnn: SRNN, gru: nn.GRU, x: Tensor, h: Tensor, folder: Path) -> Iterator[tuple[str, Call]]:
    if not is_available():
        return
    from srnn.lab.bench.step import onnx_gru

    onnx.export(rnn, folder / "srnn.onnx")
    ours, theirs = session(folder / "srnn.onnx"), onnx_gru(gru, 1)
    hx, sequence = h.numpy(), x[None].numpy()
    yield "onnx srnn", _repeated(lambda: ours.run(None, {"input": sequence, "hx": hx}))
    yield "onnx gru", _repeated(lambda: theirs.run(None, {"x": sequence, "h": hx}))


def _repeated(step: Any) -> Call:
    def call() -> None:
        for _ in range(CALLS):
            step()

    return call


def parts(found: Mapping[str, Any]) -> Iterator[Table | str]:
    """Yields the table of what `measure` returned, and what it means."""
    rows, times = [], found["nanoseconds"]
    for title, key in PAIRS.items():
        pair = [times.get(f"{key} {layer}") for layer in ("srnn", "gru")]
        cells = ["not run" if each is None else f"{each:,.0f}" for each in pair]
        ratio = "not run" if None in pair else f"{pair[1] / pair[0]:.1f}"
        rows.append([title, *cells, ratio, str(TARGET) if key == "C" else ""])
    yield Table(["one step, nanoseconds", "SRNN", "nn.GRU", "times faster", "target, at least"], rows)
    yield (
        f"One sequence, {C} inputs, {H} units, f_r with one hidden layer of {MLP[0]}, one thread. "
        f"The C code of both is written by `srnn.c.header` and compiled with `{found['flags']}`."
    )
