"""How the layers look to tracers that cannot follow them: one node for `torch.fx`, an error for `torch.jit.script`."""

from typing import Any

from torch import nn
from torch.fx import Proxy

from srnn.errors import TracingError


def is_traced(x: object, h: object) -> bool:
    """True if `torch.fx` is tracing: then input or state is a proxy."""
    return isinstance(x, Proxy) or isinstance(h, Proxy)


def node(module: nn.Module, method: str, *args: Any, **kwargs: Any) -> Any:
    """Adds the call module.method(*args, **kwargs) to the graph that `torch.fx` is building, as one node.

    For `forward` this is what its tracer does with the layers of torch.nn, which it knows by the name of their module.
    """
    tracer = next(value for value in (*args, *kwargs.values()) if isinstance(value, Proxy)).tracer
    path = tracer.path_of_module(module)  # type: ignore[attr-defined]
    kind = type(module).__name__
    if not path:
        raise TracingError(
            f"torch.fx keeps {kind} as one call, so that it cannot be the root. Trace nn.Sequential({kind}(...))"
        )
    kwargs = {name: value for name, value in kwargs.items() if value is not None}
    if method == "forward":
        return tracer.create_proxy("call_module", path, args, kwargs)
    owner = tracer.create_proxy("get_attr", path, (), {})
    return tracer.create_proxy("call_method", method, (owner, *args), kwargs)


def refuse_script(module: nn.Module) -> None:
    """Raises the error of `torch.jit.script`."""
    kind = type(module).__name__
    raise TracingError(f"torch.jit.script cannot compile {kind}. Use torch.export.export, or torch.compile")
