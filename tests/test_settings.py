"""Settings: what a field declares is what is checked, and fields stay those of a plain dataclass."""

from dataclasses import MISSING, dataclass, fields
from typing import Any

import pytest

from srnn.errors import SettingError
from srnn.lab.networks import NETWORKS
from srnn.lab.settings import Settings, from_text, rules, setting
from srnn.lab.tasks import TASKS
from srnn.lab.training.run import Run


@dataclass(frozen=True)
class Example(Settings):
    """One setting of each kind."""

    count: int = setting(3, "How many.", least=1, most=9)
    share: float = setting(0.5, "How much.", least=0, below=1)
    rate: float | None = setting(None, "How fast.", above=0)
    word: str = setting("red", "Which colour.", choices=("red", "green"))
    flag: bool = False
    widths: tuple[int, ...] = setting((), "How wide.", least=1)
    anything: Any = None

    name = "example"

    def check(self) -> None:
        self.require(not self.flag or self.count > 1, "count", "above 1 with flag")


@dataclass(frozen=True)
class Derived(Example):
    """The same with another default."""

    count: int = 5


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"count": 0}, "count must be a whole number from 1 to 9, got 0"),
        ({"count": 10}, "count must be a whole number from 1 to 9, got 10"),
        ({"count": 2.0}, "count must be a whole number from 1 to 9, got 2.0"),
        ({"count": True}, "count must be a whole number from 1 to 9, got True"),
        ({"count": None}, "count must be a whole number from 1 to 9, got None"),
        ({"share": 1}, "share must be a number from 0 to below 1, got 1"),
        ({"share": -0.1}, "share must be a number from 0 to below 1, got -0.1"),
        ({"share": float("nan")}, "share must be a finite number, got nan"),
        ({"share": 10**400}, f"share must be a finite number, got {10**400}"),
        ({"rate": 0.0}, "rate must be a number above 0 or None, got 0.0"),
        ({"rate": "fast"}, "rate must be a number above 0 or None, got 'fast'"),
        ({"word": "blue"}, "word must be one of red, green, got 'blue'"),
        ({"word": "gren"}, "word must be one of red, green, got 'gren'. Did you mean 'green'?"),
        ({"word": [1]}, "word must be one of red, green, got [1]"),
        ({"flag": 1}, "flag must be True or False, got 1"),
        ({"widths": 8}, "widths must be a tuple of whole numbers of at least 1, got 8"),
        ({"widths": (8, 0)}, "widths must be a tuple of whole numbers of at least 1, got (8, 0)"),
        ({"widths": (8, 2**60)}, f"widths must be below 2**53, got {2**60}"),
        ({"count": 1, "flag": True}, "count must be above 1 with flag, got 1"),
    ],
)
@pytest.mark.parametrize("kind", [Example, Derived])
def test_a_value_that_the_field_does_not_allow_is_refused(kind: Any, given: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError) as caught:
        kind(**given)
    assert str(caught.value) == f"example: {message}"


def test_allowed_values_are_kept_and_numbers_become_those_of_the_field() -> None:
    made = Example(1, 0, 2, "green", False, [4, 5], anything=[1])  # type: ignore[arg-type]
    assert (made.count, made.share, made.rate, made.word, made.widths, made.anything) == (1, 0.0, 2.0, "green", (4, 5), [1])
    assert [type(value) for value in (made.count, made.share, made.rate)] == [int, float, float]


def test_a_new_default_keeps_help_and_bounds() -> None:
    assert Derived().count == 5
    assert rules(Derived)["count"] == rules(Example)["count"]


@pytest.mark.parametrize("kind", [Run, *TASKS.values(), *NETWORKS.values()])
def test_defaults_are_plain_values_that_their_own_rule_allows(kind: Any) -> None:
    for field in fields(kind):
        if field.default is not MISSING:
            assert rules(kind)[field.name].checked(field.default) == field.default
            assert rules(kind)[field.name].kind is not None


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("widths", "8", (8,)),
        ("widths", "8,16", (8, 16)),
        ("widths", "(8, 16,)", (8, 16)),
        ("widths", "none", ()),
        ("count", "4", 4),
        ("rate", "None", None),
        ("rate", "1e-3", 1e-3),
        ("word", "12", "12"),
        ("flag", "True", True),
        ("anything", "{[]:1}", "{[]:1}"),
    ],
)
def test_a_text_stands_for_a_value_of_the_type_of_the_field(name: str, text: str, value: Any) -> None:
    assert from_text(text, rules(Example)[name]) == value
