"""`shuffle_scan` and its variants on a GPU, in Triton: kernels.py, how they are launched, operators.py.

This file decides whether they can run. Triton itself is loaded at the first use. With TRITON_INTERPRET=1 in the environment,
the operators exist in the namespace `srnn_triton` too, where they take tensors on the CPU and run in Triton's interpreter.
"""

import importlib
import importlib.util
import os
from collections.abc import Callable
from functools import cache
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from typing import Any

import torch

OLDEST = (3, 6)  # what torch 2.10 brings
CAPABILITY = (7, 5)
OLDEST_AMD = "gfx908"  # the oldest that Triton knows
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"


@cache
def install_error() -> str | None:
    """Returns why Triton cannot be loaded and what to do, or None. Nothing is loaded."""
    absent = "Triton is not installed. Run pip install 'srnn[triton]'"
    if importlib.util.find_spec("triton") is None:
        return absent
    try:
        found = version("triton")
    except PackageNotFoundError:  # builds for other systems have other names; a folder called triton has none
        names = packages_distributions().get("triton")
        if not names:
            return absent
        found = version(names[0])
    if tuple(int(part) for part in found.split(".")[:2]) < OLDEST:
        return f"Triton {found} is too old, expected {'.'.join(map(str, OLDEST))} or later. Run pip install --upgrade triton"
    return None


def error(device: torch.device) -> str | None:
    """Returns why the kernels cannot run on a device and what to do, or None."""
    return install_error() or _device_error(device)


# A compiled graph takes the answer as a constant. torch.compiler.assume_constant_result does the same, and loads Triton for it.
error._dynamo_marked_constant = True  # type: ignore[attr-defined]


@cache
def _device_error(device: torch.device) -> str | None:
    if device.type == "cpu" and INTERPRETED:
        return None
    if device.type != "cuda":
        return (
            f"it runs on a GPU, and the tensors are on {device}. Use backend='auto', or set TRITON_INTERPRET=1 before Python "
            "starts to try its kernels in Triton's interpreter"
        )
    if not torch.cuda.is_available():
        return "torch finds no GPU. Install a torch that is built for it"
    if torch.version.hip is not None:
        arch = torch.cuda.get_device_properties(device).gcnArchName.split(":")[0]  # such as gfx90a:sramecc+:xnack-
        if int(arch[3:], 16) < int(OLDEST_AMD[3:], 16):
            return f"it needs {OLDEST_AMD} or later, and {torch.cuda.get_device_name(device)} is {arch}"
        return None
    found = torch.cuda.get_device_capability(device)
    if found < CAPABILITY:
        needed, got = ".".join(map(str, CAPABILITY)), ".".join(map(str, found))
        return f"it needs compute capability {needed} or higher, and {torch.cuda.get_device_name(device)} has {got}"
    return None


def operator(name: str) -> Callable[..., Any]:
    """Returns the implementation of an operator, which loads Triton when it is first called."""

    def run(*args: Any) -> Any:
        return getattr(importlib.import_module("srnn.kernels.triton.operators"), name)(*args)

    return run


def operator_or(name: str, plain: Callable[..., Any]) -> Callable[..., Any]:
    """Returns an operator for the CUDA key: Triton where it can run, otherwise the plain PyTorch code."""
    launched = operator(name)

    def run(*args: Any) -> Any:
        return (launched if in_time(args) else plain)(*args)

    return run


def in_time(args: tuple[Any, ...]) -> bool:
    """Whether an operator of the namespace `srnn` runs here with these arguments, and then packs its bits along time."""
    device = next(each.device for each in args if isinstance(each, torch.Tensor))
    return device.type == "cuda" and error(device) is None
