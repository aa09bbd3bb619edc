"""Shuffling Recurrent Neural Networks: `SRNN` and `SRNNStack` are called like `nn.GRU`; layer.py has the equations.

`import torch, srnn` registers our operators with torch. Without torch, `import srnn` imports nothing until a name is used, so
that the command line answers at once.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from srnn.diagnosis import diagnose
    from srnn.kernels import shuffle_scan
    from srnn.layer import SRNN, SRNNCell
    from srnn.stack import SRNNStack

__all__ = ["SRNN", "SRNNCell", "SRNNStack", "diagnose", "shuffle_scan"]
__version__ = "0.1.0"
_HOMES = {"SRNN": "layer", "SRNNCell": "layer", "SRNNStack": "stack", "diagnose": "diagnosis", "shuffle_scan": "kernels"}
_MODULES = ("c", "checks", "decompositions", "diagnosis", "errors", "kernels", "layer", "onnx", "stack", "tracing")


def __getattr__(name: str) -> Any:
    """Imports a public name, or a module of the library, when it is first used: `srnn --version` need not wait for torch."""
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})


if sys.modules.get("torch") is not None:  # then our operators are registered at once: torch.export.load needs them
    import_module(f"{__name__}.kernels")
