"""What `torch.utils.flop_counter.FlopCounterMode` counts for our operators: the products with W and U of a gated scan.

As everywhere in that mode, a product [M, K] by [K, H] counts 2 M K H and elementwise work counts 0, so `shuffle_scan` counts 0.
The backward pass counts the products that it repeats, as torch does for its attention.

A layer under this mode calls its linear maps one by one, since the mode hooks every module, and is counted by those. The
formulas here are for graphs that hold our operators, such as exported ones (none of which holds `cell`). They are not
registered where that would load triton, which takes half a second: there, import `torch.utils.flop_counter` before `srnn`.
"""

import importlib.util
import sys
from typing import Any

import torch
from torch import Size

from srnn.kernels.ops import NAMESPACES


def forward(z: Size, weight: Size, bias: Size | None, x: Size, gate_weight: Size | None, *rest: Any, **more: Any) -> int:
    """Counts z W^T [N * T, K] by [K, H], and x U^T [N * T, C] by [C, H] if there is a gate. All arguments are shapes."""
    N, T, K = z
    return 2 * N * T * weight[0] * (K + (x[2] if gate_weight is not None else 0))


def backward(grad: Size | None, grad_n: Size, kept: Size, *rest: Any, **more: Any) -> int:
    """Counts one product for each derivative in `needs`, and with a gate the two products of `forward` again."""
    z, weight, _, x, gate_weight, *_, needs = rest
    steps, K, C = z[0] * z[1], z[2], x[2] if gate_weight is not None else 0
    repeated = K + C if gate_weight is not None else 0
    return 2 * steps * weight[0] * (repeated + K * (needs[0] + needs[1]) + C * (needs[2] + needs[3]))


def register() -> None:
    """Registers the formulas with torch's counter."""
    from torch.utils.flop_counter import register_flop_formula

    for namespace in NAMESPACES:
        ops = getattr(torch.ops, namespace)
        register_flop_formula([ops.gated_scan, ops.gated_scan_final])(forward)
        register_flop_formula(ops.gated_scan_backward)(backward)


if "torch.utils.flop_counter" in sys.modules or "triton" in sys.modules or importlib.util.find_spec("triton") is None:
    register()
