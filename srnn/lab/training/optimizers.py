"""The optimizers of a run: one for each kind that the network's parameter groups ask for, usually just one."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from srnn.errors import one_of
from srnn.lab.networks.network import OPTIMIZERS, Group


def clipped(parameters: Iterable[nn.Parameter], groups: Iterable[Group]) -> list[nn.Parameter]:
    """Return the parameters whose gradients are clipped: all except those of groups that exclude it."""
    apart = {id(parameter) for group in groups if not group.is_clipped for parameter in group.parameters}
    return [parameter for parameter in parameters if id(parameter) not in apart]


def make(
    parameters: Iterable[nn.Parameter], groups: Iterable[Group], name: str, lr: float, weight_decay: float, alpha: float
) -> list[torch.optim.Optimizer]:
    """Return optimizers for all parameters.

    Args:
        parameters: Of the whole model.
        groups: Parameters that the network trains in its own way.
        name: The optimizer of the other parameters.
        lr: Their learning rate; a group's `rate` is relative to it.
        weight_decay: Of groups that have none of their own.
        alpha: The decay of rmsprop's mean square.

    Returns:
        One optimizer for each kind. Every parameter group in it has its full learning rate as "peak_lr".
    """
    groups = list(groups)
    special = {id(parameter) for group in groups for parameter in group.parameters}
    rest = Group([parameter for parameter in parameters if id(parameter) not in special])
    by_kind: dict[Any, list[dict[str, Any]]] = {}
    for group in (rest, *groups):
        decay = weight_decay if group.weight_decay is None else group.weight_decay
        rate = lr * group.rate
        kind = group.optimizer or name
        if isinstance(kind, str) and kind not in OPTIMIZERS:
            raise one_of("optimizer", kind, OPTIMIZERS)
        settings = {"params": list(group.parameters), "lr": rate, "peak_lr": rate}
        by_kind.setdefault(kind, []).append(settings | ({"weight_decay": decay} if isinstance(kind, str) else {}))
    return [
        OPTIMIZERS[kind](parts, alpha=alpha, lr=lr) if isinstance(kind, str) else kind(parts, lr=lr)
        for kind, parts in by_kind.items()
    ]
