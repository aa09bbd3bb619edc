"""Settings: fields of frozen dataclasses that carry their own help, bounds and choices.

`Run`, every task and every network derive from `Settings`. A setting is declared once, and its check, the option of
`srnn train` and the help of that option all come from this declaration:

    length: int = setting(200, "Delay in steps.", least=1)
"""

import ast
import math
import operator
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from types import NoneType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from srnn.errors import SettingError, did_you_mean

Value = TypeVar("Value")

LARGEST = 3e38  # about the largest number that float32 can hold
TOO_LARGE = 2**53  # no size, length or count reaches this
BOUNDS = {"least": operator.ge, "above": operator.gt, "most": operator.le, "below": operator.lt}
NOUNS = {int: "whole number", float: "number", str: "text"}


def setting(
    default: Value,
    help: str = "",
    *,
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
    below: float | None = None,
    choices: Iterable[str] = (),
) -> Value:
    """Declares a setting: a dataclass field with its help and with the values that it may have.

    Args:
        default: Value of the field if it is not given.
        help: One sentence that says what the setting does.
        least: Smallest value; for a tuple, smallest value of each entry.
        above: Bound that the value must exceed.
        most: Largest value.
        below: Bound that the value must not reach.
        choices: The only values there are. The error for any other lists them.

    Returns:
        The field. Its static type is that of the default, as with `dataclasses.field`.
    """
    bounds = {"least": least, "above": above, "most": most, "below": below}
    about = {name: bound for name, bound in bounds.items() if bound is not None}
    return field(default=default, metadata={"help": help, "choices": tuple(choices), **about})


@dataclass(frozen=True)
class Rule:
    """What a setting may be: type, bounds and choices of one field.

    kind            type of the value, or of each entry of a tuple; None if it cannot be checked
    is_tuple        True for several values, such as widths of layers
    is_optional     True if None is allowed
    """

    name: str
    kind: type | None
    is_tuple: bool
    is_optional: bool
    help: str = ""
    least: float | None = None
    above: float | None = None
    most: float | None = None
    below: float | None = None
    choices: tuple[str, ...] = ()

    def checked(self, value: Any) -> Any:
        """Returns the value, with numbers as floats where the field is a float, or raises a SettingError."""
        if value is None and self.is_optional:
            return None
        if self.choices and value not in self.choices:
            raise SettingError(self.refusal(value) + did_you_mean(value, self.choices))
        if not self.is_tuple:
            return self._checked(value, value)
        if not isinstance(value, tuple | list):
            raise SettingError(self.refusal(value))
        return tuple(self._checked(entry, value) for entry in value)

    def _checked(self, value: Any, whole: Any) -> Any:
        number = value if isinstance(value, int | float) and not isinstance(value, bool) else None  # True is no number here
        if self.kind is float and number is not None:
            if not abs(number) < LARGEST:  # so that nan is refused too
                raise SettingError(f"{self.name} must be a finite number, got {value}")
            value = number = float(number)  # 1 and 1.0 are the same run, with the same id
        is_wrong = self.kind in (int, float) and number is None
        if is_wrong or (self.kind is not None and not isinstance(value, self.kind)) or not self._is_within(number):
            raise SettingError(self.refusal(whole))
        if isinstance(number, int) and self.below is None and abs(number) >= TOO_LARGE:
            raise SettingError(f"{self.name} must be below {_shown(TOO_LARGE)}, got {value}")
        return value

    def _is_within(self, number: float | None) -> bool:
        bounds = [(each, getattr(self, name)) for name, each in BOUNDS.items()]
        return number is None or all(bound is None or is_met(number, bound) for is_met, bound in bounds)

    def refusal(self, value: Any) -> str:
        """Returns the error for a value that this setting cannot have."""
        noun = NOUNS.get(self.kind or object, getattr(self.kind, "__name__", "value"))
        if self.choices:
            expected = f"one of {', '.join(self.choices)}"
        elif self.kind is bool:
            expected = "True or False"
        else:
            expected = (f"a tuple of {noun}s" if self.is_tuple else f"a {noun}") + self._bounds()
        return f"{self.name} must be {expected}{' or None' if self.is_optional else ''}, got {value!r}"

    def _bounds(self) -> str:
        high = f"to {_shown(self.most)}" if self.most is not None else f"to below {_shown(self.below)}"
        if self.above is not None:
            return f" above {self.above}"
        if self.most is self.below is None:
            return "" if self.least is None else f" of at least {_shown(self.least)}"
        return f" from {_shown(self.least)} {high}"


def _shown(bound: float | None) -> str:
    return f"2**{math.log2(bound):.0f}" if bound is not None and bound >= TOO_LARGE else str(bound)


_known: dict[type, dict[str, Rule]] = {}  # what `rules` found


def rules(kind: type) -> dict[str, Rule]:
    """Returns the rules of all settings of a class, by name.

    A subclass that gives a setting another default with a plain `name: int = 2` keeps help and bounds of the setting.
    """
    if kind not in _known:
        try:
            hints = get_type_hints(kind)
        except NameError:  # a user's annotation that exists for the type checker only
            hints = {}
        _known[kind] = {each.name: _rule(each.name, hints.get(each.name), _metadata(kind, each.name)) for each in fields(kind)}
    return _known[kind]


def _metadata(kind: type, name: str) -> dict[str, Any]:
    declared = [vars(base).get("__dataclass_fields__", {}).get(name) for base in reversed(kind.__mro__)]
    return {key: value for each in declared if each is not None for key, value in each.metadata.items()}


def _rule(name: str, hint: Any, metadata: dict[str, Any]) -> Rule:
    options = [each for each in get_args(hint) if each is not NoneType] if NoneType in get_args(hint) else [hint]
    kind = options[0] if len(options) == 1 else None
    is_tuple = get_origin(kind) is tuple
    kind = get_args(kind)[0] if is_tuple else kind
    is_known = isinstance(kind, type) and kind is not Any
    return Rule(name, kind if is_known else None, is_tuple, NoneType in get_args(hint), **metadata)


@dataclass(frozen=True)
class Settings:
    """Base of `Run`, `Task` and `Network`: a frozen dataclass that checks its fields when it is made.

    A rule that concerns several settings is written in `check`, which subclasses override.
    """

    def __post_init__(self) -> None:
        for rule in rules(type(self)).values():
            try:
                object.__setattr__(self, rule.name, rule.checked(getattr(self, rule.name)))
            except SettingError as error:
                raise SettingError(f"{self._owner}{error}") from None
        self.check()

    def check(self) -> None:
        """Raises a SettingError for settings that do not go together."""

    def require(self, holds: bool, name: str, rule: str) -> None:
        """Raises a SettingError that names a setting, what it must be and what it is, unless `holds`."""
        if not holds:
            raise SettingError(f"{self._owner}{name} must be {rule}, got {getattr(self, name)!r}")

    @property
    def _owner(self) -> str:
        return f"{name}: " if (name := getattr(type(self), "name", None)) else ""


def from_text(text: str, rule: Rule | None) -> Any:
    """Returns the value that a text on the command line stands for; a tuple is written 32,32 and the empty tuple none."""
    if rule is not None and rule.is_tuple:
        entries = [] if text in ("", "none", "()") else text.removeprefix("(").removesuffix(")").rstrip(",").split(",")
        try:
            return tuple((rule.kind or str)(entry) for entry in entries)
        except ValueError:
            raise SettingError(f"{rule.name} must be numbers such as 32,32, or none, got {text!r}") from None
    if rule is not None and rule.kind is str and not (rule.is_optional and text == "None"):
        return text
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return text
