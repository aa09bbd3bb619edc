"""The recurrences of the baselines: `linear_scan` and `modrelu_scan`, in plain PyTorch and compiled for the CPU (csrc/).

Each operator exists twice: in the namespace `srnn_lab`, where the compiled library takes over on a CPU, and in
`srnn_lab_torch`, where the plain code always runs.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from srnn import kernels
from srnn.errors import BackendError, DerivativeError
from srnn.kernels import native
from srnn.kernels.arguments import checked
from srnn.kernels.ops import is_differentiated

NAMESPACES = ("srnn_lab", "srnn_lab_torch")


def load_error() -> str | None:
    """Loads the compiled library at the first call; returns None, or why there is none."""
    return native.load_error(__name__)


# As torch.compiler.assume_constant_result does, which would import torch._dynamo: a compiled graph calls it while it is traced.
load_error._dynamo_marked_constant = True  # type: ignore[attr-defined]


def operators() -> Any:
    """Returns the namespace of operators for the current default backend. The first call loads the library.

    Raises:
        BackendError: If the default backend is "native" and the library is missing.
        DerivativeError: Inside forward-mode derivatives and torch.func, which the operators do not have.
    """
    if is_differentiated():
        raise DerivativeError("this network has no derivatives forward or by torch.func, only by backward()")
    if kernels.auto_backend() == "native":
        if (error := load_error()) is None:
            return torch.ops.srnn_lab
        if kernels.default_backend() == "native":
            raise BackendError(f"backend 'native' is not available: {error}")
    return torch.ops.srnn_lab_torch


def define(schema: str, check: Callable[..., None], function: Callable[..., Any], fake: Callable[..., Any]) -> None:
    """Defines an operator in both namespaces: the check of its arguments, its plain code, and its shapes for tracing."""
    for namespace in NAMESPACES:
        name = f"{namespace}::{schema.split('(')[0]}"
        torch.library.define(name, schema[schema.index("(") :])
        torch.library.impl(name, "CompositeExplicitAutograd", checked(check, function))
        torch.library.register_fake(name, checked(check, fake))


def derive(name: str, backward: Callable[..., Any], setup: Callable[..., None]) -> None:
    """Registers the derivative of an operator: `backward` gets the operator NAME_backward, the context and the gradients."""
    for namespace in NAMESPACES:
        operator = getattr(getattr(torch.ops, namespace), f"{name}_backward")
        torch.library.register_autograd(f"{namespace}::{name}", partial(backward, operator), setup_context=setup)
        torch.library.register_autograd(f"{namespace}::{name}_backward", _refuse)


def _refuse(*anything: Any) -> Any:
    """The derivative of a derivative, which these operators do not have."""
    raise DerivativeError("this network has no second derivatives. Leave out create_graph=True")
