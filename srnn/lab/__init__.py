"""The laboratory: tasks, networks, training, records, the paper's exhibits. Your own files import from here.

from srnn.lab import Batch, Network, Task, generator, train
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from srnn.lab.networks.network import Group, Network
    from srnn.lab.tasks.task import Batch, Task, generator
    from srnn.lab.training.loop import train

__all__ = ["Batch", "Group", "Network", "Task", "generator", "train"]
_HOMES = {
    "srnn.lab.networks.network": ("Group", "Network"),
    "srnn.lab.tasks.task": ("Batch", "Task", "generator"),
    "srnn.lab.training.loop": ("train",),
}


def __getattr__(name: str) -> Any:
    """Imports a public name at its first use, so that a command that needs no torch does not import it."""
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(home), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
