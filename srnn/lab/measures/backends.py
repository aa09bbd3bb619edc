"""Compares each backend of the scans with the reference, in values and in every gradient. `srnn doctor` shows the result."""

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor

from srnn import kernels
from srnn.kernels import gated_scan, scan, triton

CPU = torch.device("cpu")
# Rounding errors of 40 steps, as a share of the largest number: a correct backend differs in the order of additions, and in how
# it stores results.
TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4, torch.float16: 2**-8, torch.bfloat16: 2**-5}


def devices() -> list[torch.device]:
    """Returns the CPU, and every accelerator that torch finds."""
    kind = torch.accelerator.current_accelerator(check_available=True)
    count = 0 if kind is None else torch.accelerator.device_count()
    return [CPU, *(torch.device(kind.type, index) for index in range(count) if kind is not None)]


def selftest() -> Iterator[dict[str, Any]]:
    """Yields what `examine_backend` finds for every backend on every device that it can compute on, with every dtype."""
    for device in devices():
        dtypes = [dtype for dtype in TOLERANCE if dtype != torch.float64 or device.type != "mps"]  # which has no float64
        for name in names(device):
            yield {"backend": name, "device": str(device), **examine_backend(name, device, dtypes)}


def names(device: torch.device) -> list[str]:
    """Returns the backends that are made for a device."""
    on_cpu = ["native", *(["triton"] if triton.INTERPRETED else [])]
    return ["torch", *{"cpu": on_cpu, "cuda": ["triton"]}.get(device.type, [])]


def examine_backend(name: str, device: torch.device = CPU, dtypes: Iterable[torch.dtype] = (torch.float64,)) -> dict[str, Any]:
    """Returns whether a backend is available, why not, and how far its values and gradients are from the reference's.

    The reference runs on the CPU in float64.
    """
    reason = kernels.NATIVE_ERROR if name == "native" else triton.error(device) if name == "triton" else None
    found: dict[str, Any] = {"available": reason is None, "reason": reason, "equals_reference": None, "difference": None}
    found |= {"differences": {}, "error": None}
    if reason is not None or name == "reference":
        return found
    try:
        differences = {dtype: _largest_difference(name, device, dtype) for dtype in dtypes}
    except Exception as error:  # an operator or a compiler that fails is a finding, and must not end the examination
        return found | {"equals_reference": False, "error": " ".join(str(error).split())}
    return found | {
        "equals_reference": all(difference <= TOLERANCE[dtype] for dtype, difference in differences.items()),
        "difference": max(differences.values()),
        "differences": {str(dtype).removeprefix("torch."): difference for dtype, difference in differences.items()},
    }


def _largest_difference(backend: str, device: torch.device, dtype: torch.dtype) -> float:
    """Returns the largest difference in values and gradients, as a share of the largest number.

    b is of eighths: sums are exact, so that rounding makes no unit live that is zero in the reference. In half precision that
    does not hold for products, which are left out.
    """
    forms = (_dense, _table, _gated) if dtype in (torch.float64, torch.float32) else (_dense, _table)
    return max(_difference(form(backend, device, dtype), form("reference", CPU, torch.float64)) for form in forms)


def _difference(ours: list[Tensor], theirs: list[Tensor]) -> float:
    shares = [(a.cpu().double() - b).abs().max() / b.abs().max().clamp(min=1) for a, b in zip(ours, theirs, strict=True)]
    return torch.nan_to_num(torch.stack(shares), nan=torch.inf).max().item()


# A whole block of vector lanes and a remainder, more steps than bits in a word, and rows that end early.
_N, _T, _H = 3, 40, 70


def _draw(device: torch.device, dtype: torch.dtype, *shapes: tuple[int, ...]) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    drawn = [(torch.randn(shape, generator=generator) * 8).round() / 8 for shape in shapes]
    return [each.to(device, dtype).requires_grad_() for each in drawn]


def _gradients(results: list[Tensor], inputs: list[Tensor]) -> list[Tensor]:
    """Returns the results, and the gradients of a weighted sum of them with respect to every input."""
    weights = [(torch.linspace(-8, 8, each.numel()).round() / 8).view_as(each).to(each) for each in results]
    return [each.detach() for each in results] + list(torch.autograd.grad(results, inputs, weights))


def _dense(backend: str, device: torch.device, dtype: torch.dtype) -> list[Tensor]:
    b, h0 = _draw(device, dtype, (_N, _T, _H), (_N, _H))
    lengths = torch.tensor([_T, 0, _T // 2], device=device)
    output, h_n = scan(b, h0, lengths=lengths, backend=backend)
    back, _ = scan(b, h0, reverse=True, activation="tanh", backend=backend)
    return _gradients([output, h_n, back, scan(b, h0, lengths=lengths, final=True, backend=backend)[1]], [b, h0])


def _table(backend: str, device: torch.device, dtype: torch.dtype) -> list[Tensor]:
    table, h0 = _draw(device, dtype, (5, _H), (_N, _H))
    steps = torch.arange(_N * _T, device=device).view(_N, _T)
    options: dict[str, Any] = {"ids": steps % 4, "backend": backend}  # the fifth row is never used
    output, h_n = scan(table, h0, permutation=torch.arange(_H, device=device).flip(0), **options)
    _, last = scan(table, h0, reset=steps % 17 == 0, activation="clip", final=True, **options)
    return _gradients([output, h_n, last], [table, h0])


def _gated(backend: str, device: torch.device, dtype: torch.dtype) -> list[Tensor]:
    inputs = _draw(device, dtype, (_N, _T, 8), (_H, 8), (_H,), (_N, _T, 2), (_H, 2), (_H,), (_N, _H))
    output, h_n = gated_scan(*inputs, backend=backend)
    _, last = gated_scan(*inputs, final=True, backend=backend)
    return _gradients([output, h_n, last], inputs)
