"""The types of stored values. A file may hold any JSON, also under a valid digest, so readers check it first."""

from collections.abc import Iterable
from dataclasses import is_dataclass
from types import NoneType, UnionType
from typing import Any, TypeAlias, get_args, get_origin, get_type_hints

WHOLE, LARGEST = 2**63, 1e100  # bounds of numbers: sums and squares of smaller ones are finite
Shape: TypeAlias = dict[str, Any]  # a hint for each key

# What readers rely on inside the fields of a record.
RUN: Shape = {"task": {"name": str}, "network": {"name": str}, "seed": int, "recipe": str, "optimizer": str, "lr": float}
RUN |= {"batch_size": int, "steps": int | None, "epochs": int | None, "minutes": float | None, "cpu_minutes": float | None}
CURVE: Shape = {"step": list[int], "loss": list[float], "cpu_seconds": list[float], "seconds": list[float] | None}
CURVE |= dict.fromkeys(("evaluation_loss", "evaluation_score"), list[float | None] | None)
MEASUREMENT: Shape = {"kind": str, "settings": dict, "run": str | None}
TRAINED: Shape = {"updates": int, "result": ({"value": float}, NoneType), "training": ({"lowest": float}, NoneType)}
FOUND: dict[str, Shape] = {  # by the kind of the measurement
    "gradients": {"norm": list[list[float]], "weights": list[float], "t": list[int]},
    "survival": {"k": list[int], "newborn": list[list[float]], "living": list[list[float]]}
    | dict.fromkeys(("paper", "walk"), list[float]),
    "bound": {"as printed": list[float], "absolute value inside": list[float]},
    "drive": {"mean": list[float], "deviation": list[float]},
    "hiddenstate": {"steps": int, "phases": dict[str, dict[str, float]], "dropped": float, "markers": list[int], "png": str},
    "runtime": {"parameters": dict[str, int], "quartiles": dict[str, list[float]] | None}
    | dict.fromkeys(("milliseconds", "times_srnn"), dict[str, float]),
    "growth": {"sizes": list[int], "milliseconds": list[float], "exponent": float, "margin": float},
}
ALIGNED = {  # lists of the same length, or lists of such lists
    "gradients": ("t", "norm"),
    "survival": ("k", "newborn", "living", "paper", "walk"),
    "bound": ("as printed", "absolute value inside"),
    "drive": ("mean", "deviation"),
    "growth": ("sizes", "milliseconds"),
}
ENVIRONMENT: Shape = {"commit": dict | None, "machine": ({"cpu": str}, NoneType), "versions": ({"torch": str}, NoneType)}


def misfit(value: Any, hint: Any, name: str) -> str:
    """Return what is wrong with a stored value, or an empty text.

    Args:
        value: Anything that JSON can hold.
        hint: A class, a union, list[...], dict[str, ...], a dataclass, a dict with a hint for each key, or a tuple of hints of
            which one must fit. An absent key counts as None. Numbers must be finite, whole numbers also not negative, and
            True is not a number.
        name: How the message names the value.
    """
    if isinstance(hint, UnionType | tuple):
        wrong = [misfit(value, part, name) for part in (hint if isinstance(hint, tuple) else get_args(hint))]
        return "" if "" in wrong else max(wrong, key=len)  # the one that names an entry
    if is_dataclass(hint):
        hint = get_type_hints(hint)
    kind = dict if isinstance(hint, dict) else get_origin(hint) or hint
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind is float and is_number:
        return "" if abs(value) < LARGEST else f"{name} is not a finite number below {LARGEST:g}"
    if kind is int and is_number and isinstance(value, int):
        return "" if 0 <= value < WHOLE else f"{name} is not a whole number from 0 to 2**63"
    if kind in (int, float) or not isinstance(value, kind):
        return f"{name} has a value of type {type(value).__name__}"
    return next(filter(None, (misfit(*each) for each in _entries(value, hint, name))), "")


def _entries(value: Any, hint: Any, name: str) -> Iterable[tuple[Any, Any, str]]:
    """Return value, hint and name of each entry that has a hint."""
    if isinstance(hint, dict):
        return ((value.get(key), each, f"{name}.{key}") for key, each in hint.items())
    parts = get_args(hint)
    found = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return ((each, parts[-1], f"{name}.{key}") for key, each in found) if parts else ()
