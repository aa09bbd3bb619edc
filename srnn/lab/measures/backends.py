"""Compares each backend of the scans with the reference, in values and in every gradient. `srnn doctor` shows the result."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from srnn import kernels
from srnn.kernels import gated_scan, scan

TOLERANCE = 1e-9  # rounding errors of 40 steps in float64: a correct backend differs at most in the order of additions


def examine_backend(name: str) -> dict[str, Any]:
    """Returns whether a backend is available, why not, and how far its values and gradients are from the reference's."""
    reason = kernels.NATIVE_ERROR if name == "native" else None
    found: dict[str, Any] = {"available": reason is None, "reason": reason, "equals_reference": None, "difference": None}
    found["error"] = None
    if reason is not None or name == "reference":
        return found
    try:
        difference = max(_difference(call, name) for call in (_dense, _table, _gated))
    except RuntimeError as error:  # an operator that fails is a finding, and must not end the examination
        return found | {"equals_reference": False, "error": " ".join(str(error).split())}
    return found | {"equals_reference": difference <= TOLERANCE, "difference": difference}


def _difference(call: Callable[[str], list[Tensor]], backend: str) -> float:
    """Returns the largest difference between a backend and the reference in values and gradients of one form of the scan."""
    pairs = zip(call(backend), call("reference"), strict=True)
    return max(torch.nan_to_num((ours - theirs).abs(), nan=torch.inf).max().item() for ours, theirs in pairs)


# A whole block of vector lanes and a remainder, more steps than bits in a word, and rows that end early.
_N, _T, _H = 3, 40, 70


def _draw(*shapes: tuple[int, ...]) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_() for shape in shapes]


def _gradients(results: list[Tensor], inputs: list[Tensor]) -> list[Tensor]:
    """Returns the results, and the gradients of a weighted sum of them with respect to every input."""
    total = sum(
        (result * torch.linspace(-1, 1, result.numel(), dtype=result.dtype).view_as(result)).sum() for result in results
    )
    assert isinstance(total, Tensor)
    return [result.detach() for result in results] + list(torch.autograd.grad(total, inputs))


def _dense(backend: str) -> list[Tensor]:
    b, h0 = _draw((_N, _T, _H), (_N, _H))
    lengths = torch.tensor([_T, 0, _T // 2])
    output, h_n = scan(b, h0, lengths=lengths, backend=backend)
    back, _ = scan(b, h0, reverse=True, activation="tanh", backend=backend)
    return _gradients([output, h_n, back, scan(b, h0, lengths=lengths, final=True, backend=backend)[1]], [b, h0])


def _table(backend: str) -> list[Tensor]:
    table, h0 = _draw((5, _H), (_N, _H))
    ids = torch.arange(_N * _T).view(_N, _T) % 4  # the fifth row is never used
    permutation = torch.arange(_H).flip(0)
    output, h_n = scan(table, h0, ids=ids, permutation=permutation, backend=backend)
    return _gradients([output, h_n, scan(table, h0, ids=ids, final=True, backend=backend)[1]], [table, h0])


def _gated(backend: str) -> list[Tensor]:
    inputs = _draw((_N, _T, 8), (_H, 8), (_H,), (_N, _T, 2), (_H, 2), (_H,), (_N, _H))
    output, h_n = gated_scan(*inputs, backend=backend)
    _, last = gated_scan(*inputs, final=True, backend=backend)
    return _gradients([output, h_n, last], inputs)
