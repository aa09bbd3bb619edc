"""The laboratory: tasks, networks, training, records, the paper's exhibits. Your own files import from here.

from srnn.lab import Batch, Network, Task, generator, load, make_run, setting, train
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from srnn.errors import SettingError
    from srnn.lab.networks.network import Group, Network
    from srnn.lab.settings import setting
    from srnn.lab.tasks.task import Batch, Task, generator
    from srnn.lab.training.loop import train
    from srnn.lab.training.recipes import make_run
    from srnn.lab.training.weights import load

__all__ = ["Batch", "Group", "Network", "SettingError", "Task", "generator", "load", "make_run", "setting", "train"]
_HOMES = {
    "srnn.errors": ("SettingError",),
    "srnn.lab.networks.network": ("Group", "Network"),
    "srnn.lab.settings": ("setting",),
    "srnn.lab.tasks.task": ("Batch", "Task", "generator"),
    "srnn.lab.training.loop": ("train",),
    "srnn.lab.training.recipes": ("make_run",),
    "srnn.lab.training.weights": ("load",),
}


def __getattr__(name: str) -> Any:
    """Imports a public name when it is first used, so that commands that do not need torch do not import it."""
    for home, names in _HOMES.items():
        if name in names:
            globals()[name] = found = getattr(import_module(home), name)
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
