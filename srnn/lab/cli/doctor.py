"""What is here and why the rest is not: versions, threads, data sets, backends, each compared with the reference."""

import os
import platform
from collections.abc import Callable
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

import srnn
from srnn import kernels
from srnn.kernels import BACKENDS, gated_scan, scan_final, scan_states
from srnn.lab import data
from srnn.lab.networks import scans

# What rounding may do to 40 steps. The reference and a right backend add in float64 in another order at most.
TOLERANCE = 1e-9
ABOUT = {
    "reference": "a plain loop over time, the specification",
    "torch": "plain PyTorch operations, on any device",
    "native": "compiled C++ for the CPU",
}


def examine() -> dict[str, Any]:
    """Everything `srnn doctor` knows, as plain values; `healthy` is false when a backend differs from the reference."""
    backends = {name: _examine_backend(name) for name in ABOUT}
    wish, problem = kernels.default_backend(), None
    if wish not in BACKENDS:
        problem = f"SRNN_BACKEND={wish} names no backend; there are {', '.join(BACKENDS)}"
    elif wish != "auto" and not backends[wish]["available"]:
        problem = f"SRNN_BACKEND={wish} asks for a backend that is not available"
    return {
        "srnn": srnn.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "platform": f"{platform.system()} {platform.machine()}",
        "backends": backends,
        "scans_error": scans.load_error(),
        "data": {entry["name"]: {key: entry[key] for key in ("state", "where", "detail")} for entry in data.status()},
        "auto": None if problem else kernels.auto_backend(),
        "SRNN_BACKEND": wish,
        "problem": problem,
        "healthy": problem is None and all(backend["equals_reference"] is not False for backend in backends.values()),
    }


def show(found: dict[str, Any], console: Console) -> None:
    """The findings as a person reads them."""
    facts = Table.grid(padding=(0, 2))
    for label, value in (
        ("srnn", found["srnn"]),
        ("Python", f"{found['python']}, {found['platform']}"),
        ("torch", found["torch"]),
        ("threads", f"{found['threads']} on {found['cores']} cores"),
        ("CPU", f"{found['cpu_capability']} (what torch uses of it)"),
    ):
        facts.add_row(f"[bold]{label}[/bold]", str(value))
    console.print(facts)
    console.print()

    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("backend", "what it is", "state", "beside the reference"):
        table.add_column(heading, overflow="fold")
    for name, backend in found["backends"].items():
        state = "[green]ready[/green]" if backend["available"] else "[yellow]not available[/yellow]"
        table.add_row(name, ABOUT[name], state, _verdict(name, backend))
    console.print(table)
    console.print()

    for name, backend in found["backends"].items():
        if backend["reason"] is not None:
            console.print(f"[yellow]{name}[/yellow] is not available: ", end="")
            console.print(backend["reason"], markup=False, highlight=False)
    if found["scans_error"] is not None:
        console.print("The baselines run on plain PyTorch operations: ", end="")
        console.print(found["scans_error"], markup=False, highlight=False)
    sets = [f"{name} {entry['state']}" for name, entry in found["data"].items()]
    console.print(f"Data sets: {', '.join(sets)}; [bold]srnn data[/bold] says where, and how to get the rest.", highlight=False)
    if found["problem"] is not None:
        console.print(f"[red]{found['problem']}[/red]", highlight=False)
        return
    wish = "" if found["SRNN_BACKEND"] == "auto" else f" (SRNN_BACKEND={found['SRNN_BACKEND']})"
    console.print(f"On a CPU, [bold]auto[/bold] runs [bold]{found['auto']}[/bold]{wish}.", highlight=False)


def _verdict(name: str, backend: dict[str, Any]) -> str:
    if name == "reference":
        return "is the reference"
    if backend["equals_reference"] is None:
        return "-"
    if backend["error"] is not None:
        return f"[red]fails: {backend['error']}[/red]"
    worst = f"values and gradients differ by {backend['difference']:.0e} at most"
    return f"equal ({worst})" if backend["equals_reference"] else f"[red]NOT EQUAL ({worst})[/red]"


def _examine_backend(name: str) -> dict[str, Any]:
    reason = kernels.NATIVE_ERROR if name == "native" else None
    found: dict[str, Any] = {"available": reason is None, "reason": reason, "equals_reference": None, "difference": None}
    found["error"] = None
    if reason is not None or name == "reference":
        return found
    try:
        difference = max(_difference(call, name) for call in (_dense, _table, _gated))
    except RuntimeError as error:  # an operator that cannot run is a finding, not the end of the examination
        return found | {"equals_reference": False, "error": " ".join(str(error).split())}
    return found | {"equals_reference": difference <= TOLERANCE, "difference": difference}


def _difference(call: Callable[[str], list[Tensor]], backend: str) -> float:
    """The largest difference between a backend and the reference over all values and gradients of one form of the scan."""
    pairs = zip(call(backend), call("reference"), strict=True)
    return max(torch.nan_to_num((ours - theirs).abs(), nan=torch.inf).max().item() for ours, theirs in pairs)


# Sizes with a whole block of vector lanes and a tail, more steps than one word of bits, and rows that end early.
_N, _T, _H = 3, 40, 70


def _draw(*shapes: tuple[int, ...]) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_() for shape in shapes]


def _gradients(results: list[Tensor], inputs: list[Tensor]) -> list[Tensor]:
    """The results and the derivative of a weighted sum of them by every input."""
    total = sum(
        (result * torch.linspace(-1, 1, result.numel(), dtype=result.dtype).view_as(result)).sum() for result in results
    )
    assert isinstance(total, Tensor)
    return [result.detach() for result in results] + list(torch.autograd.grad(total, inputs))


def _dense(backend: str) -> list[Tensor]:
    b, h0 = _draw((_N, _T, _H), (_N, _H))
    lengths = torch.tensor([_T, 0, _T // 2])
    output, h_n = scan_states(b, h0, lengths=lengths, backend=backend)
    back, _ = scan_states(b, h0, reverse=True, activation="tanh", backend=backend)
    return _gradients([output, h_n, back, scan_final(b, h0, lengths=lengths, backend=backend)], [b, h0])


def _table(backend: str) -> list[Tensor]:
    table, h0 = _draw((5, _H), (_N, _H))
    ids = torch.arange(_N * _T).view(_N, _T) % 4  # the fifth row is never used
    permutation = torch.arange(_H).flip(0)
    output, h_n = scan_states(table, h0, ids=ids, permutation=permutation, backend=backend)
    return _gradients([output, h_n, scan_final(table, h0, ids=ids, backend=backend)], [table, h0])


def _gated(backend: str) -> list[Tensor]:
    inputs = _draw((_N, _T, 8), (_H, 8), (_H,), (_N, _T, 2), (_H, 2), (_H,), (_N, _H))
    output, h_n = gated_scan(*inputs, backend=backend)
    _, last = gated_scan(*inputs, final=True, backend=backend)
    assert output is not None
    return _gradients([output, h_n, last], inputs)
