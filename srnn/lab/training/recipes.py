"""From names and a few settings to a complete Run. A recipe gives what the user does not.

    paper   the settings of the SRNN paper, or its authors' code where the paper is silent
    own     those that a network's own paper recommends; the paper's where it recommends none
    ours    ours, for the tasks that have such

What a user gives goes first, then what the task says for the network, what it says for all, what the network says for the task
and for all (in `own` the network goes before the task); what nobody says is a default of `Run`, of the task or of the network.
"""

import hashlib
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from srnn.errors import RecordError, SettingError, SRNNError, one_of
from srnn.lab.networks import NETWORKS
from srnn.lab.networks.network import Network
from srnn.lab.tasks import TASKS, Task
from srnn.lab.training.run import Run

RECIPES = ("paper", "own", "ours")
SHOWN = {"paper": "paper", "own": "original", "ours": "tuned"}

Kind = TypeVar("Kind", bound=Task | Network)

# What a user's own class cannot do without.
NEEDED = {"Task": ("output_size", "guesser", "batch", "loss"), "Network": ("layer",)}

named_files: set[str] = set()  # by the user, on this command line: no other file is run, whatever a record says


def trust(files: Iterable[Path]) -> None:
    """Lets runs that were begun with these files be read again."""
    files = list(files)
    for path in files:
        if not path.is_file():
            raise SettingError(f"--trust {path}: there is no such file")
    named_files.update(str(path.resolve()) for path in files)


def task_kind(name: str) -> type[Task]:
    """A task by its name, or by the path of a Python file that defines one."""
    return _from_file(name, Task) if _is_path(name) else _named("task", name, TASKS)


def network_kind(name: str) -> type[Network]:
    """A network by its name, or by the path of a Python file that defines one."""
    return _from_file(name, Network) if _is_path(name) else _named("network", name, NETWORKS)


def make_run(task: str, network: str, recipe: str = "paper", **given: Any) -> Run:
    """The run of a task, a network and a recipe; `given` are settings of the run, the task and the network, by their names."""
    if recipe not in RECIPES:
        raise one_of("recipe", recipe, RECIPES)
    kinds = task_kind(task), network_kind(network)
    names = [{field.name for field in fields(kind)} for kind in (*kinds, Run)]
    for name in given:
        if not any(name in known for known in names):
            raise SettingError(f"neither the task {kinds[0].name} nor the network {kinds[1].name} has a setting {name!r}")
    given = _typed(given) | {name: None for name in ("clip", "clip_value") if given.get(name) == 0}
    for kind in (*kinds, Run):
        _check_types(kind, given)
    settings = _recipe(*kinds, recipe) | given
    of_task, of_network, of_run = ({name: settings[name] for name in known & settings.keys()} for known in names)
    ends = {"steps", "epochs"}
    if given.keys() & ends:  # an end that is asked for stands in the place of the recipe's; minutes can only cut short
        of_run |= dict.fromkeys(ends - given.keys())
    for field in (*fields(kinds[0]), *fields(kinds[1])):
        if field.name not in settings and field.default is field.default_factory is MISSING:
            raise SettingError(f"the setting {field.name!r} must be given: --set {field.name}=VALUE")
    return Run(task=kinds[0](**of_task), network=kinds[1](**of_network), recipe=recipe, **of_run)


def from_dict(plain: Mapping[str, Any], *, is_ours: bool = False) -> Run:
    """The run that `Run.as_dict` wrote. `is_ours`: by the process that began this one, so a user's file in it is trusted."""
    try:
        if is_ours:
            trust(Path(plain[part]["path"]) for part in ("task", "network") if plain[part].get("path"))
        settings = dict(plain)
        task, network = (
            _rebuild(dict(settings.pop(key)), find) for key, find in (("task", task_kind), ("network", network_kind))
        )
        return Run(task=task, network=network, **_typed(settings))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, SRNNError):
            raise
        raise RecordError(f"these are not the settings of a run: {error!r}") from None


def _recipe(task: type[Task], network: type[Network], recipe: str) -> dict[str, Any]:
    of_task, of_network = task.recipes.get(recipe, {}), network.recipes.get(recipe, {})
    if recipe == "ours" and network.name not in of_task:
        places = [f"{kind.name} with {name}" for kind in TASKS.values() for name in kind.recipes.get("ours", {})]
        raise SettingError(f"there is no recipe of ours for {task.name} with {network.name}; there are: {', '.join(places)}")
    word_of_task = {**of_task.get("", {}), **of_task.get(network.name, {})}
    word_of_network = {**of_network.get("", {}), **of_network.get(task.name, {})}
    if recipe == "own":  # the network's word goes before the paper's
        return {**_recipe(task, network, "paper"), **word_of_task, **word_of_network}
    return {**word_of_network, **word_of_task}


def _rebuild(plain: dict[str, Any], find: Any) -> Any:
    name, path, sha256 = plain.pop("name"), plain.pop("path", None), plain.pop("sha256", None)
    if path is not None and path not in named_files:
        raise RecordError(f"it was begun with {path}, a program; if that is yours, say so: --trust {path}")
    if path is not None and hashlib.sha256(_read(Path(path))).hexdigest() != sha256:  # before anything of it is run
        raise RecordError(f"{path} is no longer the file that the run was begun with; begin a new run")
    return find(path or name)(**_typed(plain))


def _typed(plain: dict[str, Any]) -> dict[str, Any]:
    """JSON's lists as the tuples they were."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in plain.items()}


def _check_types(kind: type, given: dict[str, Any]) -> None:
    """A value must be of its default's type; a real number may be a whole one, what is None in a Run is a number or None."""
    wanted: dict[Any, Any] = {float: int | float, type(None): int | float | None if kind is Run else object}
    for field in fields(kind):
        if field.name in given and field.default is not MISSING:
            value, default = given[field.name], field.default
            _check_size(field.name, value)
            is_number = kind is Run if default is None else isinstance(default, int | float) and not isinstance(default, bool)
            is_odd = is_number and isinstance(value, bool)  # True is 1 to Python, and not to us
            if is_odd or not isinstance(value, wanted.get(type(default), type(default))):
                like = "a number" if default is None else f"of the kind of {default!r}"
                raise SettingError(f"{field.name} must be {like}; got {value!r}")


def _check_size(name: str, value: Any) -> None:
    """No size, length or count of ours is as large as what torch cannot take."""
    for part in value if isinstance(value, tuple) else (value,):
        if isinstance(part, int) and abs(part) >= 2**53 and name != "seed":
            raise SettingError(f"{name} must be below 2**53; got {part}")


def _is_path(name: str) -> bool:
    return name.endswith(".py") or "/" in name


def _named(kind: str, name: str, known: dict[str, type[Kind]]) -> type[Kind]:
    if name not in known:
        raise one_of(kind, name, sorted(known))
    return known[name]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise SettingError(f"{path} cannot be read: {error.strerror}") from error


def _from_file(name: str, kind: type[Kind]) -> type[Kind]:
    """The one subclass of Task or Network that a user's file defines, with the file's path and content noted in it."""
    path = Path(name).resolve()
    source = _read(path)
    trust([path])
    digest = hashlib.sha256(source).hexdigest()
    # One module for each path and content: what a class says of its file stays true when there is a copy of it elsewhere.
    module_name = f"srnn_user_{hashlib.sha256(str(path).encode() + source).hexdigest()[:16]}"
    if module_name not in sys.modules:
        module = sys.modules[module_name] = ModuleType(module_name)
        module.__file__ = str(path)
        try:  # not by import: a file changed twice within a second would be taken from __pycache__
            exec(compile(source, str(path), "exec"), vars(module))
        except Exception as error:
            del sys.modules[module_name]
            said = " ".join(f"{type(error).__name__}: {error}".split())
            raise SettingError(f"{path} does not run as Python: {said}") from error
    defined = [
        value
        for value in vars(sys.modules[module_name]).values()
        if isinstance(value, type) and issubclass(value, kind) and value.__module__ == module_name
    ]
    if len(defined) != 1:
        found = ", ".join(value.__name__ for value in defined) or "none"
        raise SettingError(f"{path} must define one subclass of srnn's {kind.__name__}; it defines {found}")
    label = getattr(defined[0], "name", None)
    if not isinstance(label, str) or not re.fullmatch("[a-z0-9_-]+", label) or label in TASKS | NETWORKS:
        raise SettingError(
            f"{path}: {defined[0].__name__} must have a name of its own, such as name = 'parity'; it has {label!r}"
        )
    for needed in NEEDED[kind.__name__]:
        if getattr(defined[0], needed, None) in (None, getattr(kind, needed, None)):
            raise SettingError(f"{path}: {defined[0].__name__} must say its {needed}")
    defined[0].file_path, defined[0].file_sha256 = str(path), digest  # type: ignore[attr-defined]
    return defined[0]
