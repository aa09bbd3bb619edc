"""From names and a few settings to a complete Run. A recipe gives the settings that the user omits.

    paper       the settings of the SRNN paper, or of its authors' code if the paper does not give them
    original    the settings that the network's own paper recommends, otherwise those of the SRNN paper
    tuned       settings that were tuned here, for the tasks that have them

The user's settings come first. Then come the task's settings for this network, the task's for all networks, the network's for
this task and the network's for all tasks (in `original` the network comes before the task). The rest are defaults.
"""

import hashlib
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from srnn.errors import RecordError, SettingError, SRNNError, did_you_mean, one_of
from srnn.lab.networks import NETWORKS
from srnn.lab.networks.network import Network
from srnn.lab.settings import Rule, rules
from srnn.lab.tasks import FITTED, TASKS, Task
from srnn.lab.training.run import Run

SHOWN = {"paper": "paper", "own": "original", "ours": "tuned"}  # by the name in records and ids: as people read and type it

Kind = TypeVar("Kind", bound=Task | Network)

# What a user's class must define, because there is no default.
NEEDED = {"Task": ("output_size", "chance", "batch", "loss"), "Network": ("layer",)}

named_files: set[str] = set()  # files that the user named on this command line; no other file is executed


def trust(files: Iterable[Path]) -> None:
    """Allows runs that use these Python files to be read."""
    files = list(files)
    for path in files:
        if not path.is_file():
            raise SettingError(f"--trust {path}: there is no such file")
    named_files.update(str(path.resolve()) for path in files)


def task_kind(name: str) -> type[Task]:
    """Returns a task's class by its name, or by the path of a Python file that defines one."""
    if name in FITTED:
        return FITTED[name]
    return _from_file(name, Task) if _is_path(name) else _named("task", name, TASKS)


def network_kind(name: str) -> type[Network]:
    """Returns a network's class by its name, or by the path of a Python file that defines one."""
    return _from_file(name, Network) if _is_path(name) else _named("network", name, NETWORKS)


def stored_recipe(name: str) -> str:
    """Returns the name that records have for a recipe. The stored names "own" and "ours" are accepted too."""
    names = {shown: stored for stored, shown in SHOWN.items()} | {stored: stored for stored in SHOWN}
    if name not in names:
        raise one_of("recipe", name, SHOWN.values())
    return names[name]


def shown_recipe(stored: str) -> str:
    """Returns the name that people read for the name in a record, which may come from anywhere."""
    return SHOWN.get(stored, stored)


def setting_rules(task: str, network: str) -> dict[str, Rule]:
    """Returns the rules of all settings that `make_run` takes for a task and a network, by name."""
    return {**rules(Run), **rules(network_kind(network)), **rules(task_kind(task))}


def make_run(task: str, network: str, recipe: str = "paper", **given: Any) -> Run:
    """Returns the run of a task, a network and a recipe.

    Args:
        task: Name of a task, or path of a Python file that defines one.
        network: Name of a network, or path of a Python file that defines one.
        recipe: "paper", "original" or "tuned": where the other settings come from.
        given: Settings of the run, the task and the network, by name.

    Raises:
        SettingError: A name is unknown, or a value is not allowed.
    """
    recipe, kinds = stored_recipe(recipe), (task_kind(task), network_kind(network))
    names = [set(rules(kind)) for kind in (*kinds, Run)]
    for name in given:
        if not any(name in known for known in names):
            owners = [other for other, kind in (TASKS | NETWORKS).items() if name in rules(kind)]
            others = f". It belongs to {', '.join(owners)}" if owners else did_you_mean(name, set().union(*names))
            raise SettingError(f"neither {kinds[0].name} nor {kinds[1].name} has a setting {name!r}{others}")
    given = given | {name: None for name in ("clip", "clip_value") if given.get(name) == 0}
    settings = _recipe(*kinds, recipe) | given
    of_task, of_network, of_run = ({name: settings[name] for name in known & settings.keys()} for known in names)
    ends = {"steps", "epochs"}
    if given.keys() & ends:  # an end that is given replaces the recipe's; minutes can only shorten a run
        of_run |= dict.fromkeys(ends - given.keys())
    for field in (*fields(kinds[0]), *fields(kinds[1])):
        if field.name not in settings and field.default is field.default_factory is MISSING:
            raise SettingError(f"the setting {field.name!r} must be given: --set {field.name}=VALUE")
    return Run(task=kinds[0](**of_task), network=kinds[1](**of_network), recipe=recipe, **of_run)


def from_dict(plain: Mapping[str, Any], *, is_ours: bool = False) -> Run:
    """Returns the run that `Run.as_dict` wrote.

    Args:
        plain: What `as_dict` returned.
        is_ours: True if the process that started this one wrote it, so that a user's file in it is trusted.

    Raises:
        RecordError: These are not the settings of a run, or they name a file that is not trusted or has changed.
    """
    try:
        if is_ours:
            trust(Path(plain[part]["path"]) for part in ("task", "network") if plain[part].get("path"))
        settings = dict(plain)
        task, network = (
            _rebuild(dict(settings.pop(key)), find) for key, find in (("task", task_kind), ("network", network_kind))
        )
        return Run(task=task, network=network, **settings)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        if isinstance(error, SRNNError):
            raise
        raise RecordError(f"these are not the settings of a run: {error!r}") from None


def _recipe(task: type[Task], network: type[Network], recipe: str) -> dict[str, Any]:
    of_task, of_network = task.recipes.get(recipe, {}), network.recipes.get(recipe, {})
    if recipe == "ours" and network.name not in of_task:
        places = [f"{kind.name} with {name}" for kind in TASKS.values() for name in kind.recipes.get("ours", {})]
        raise SettingError(
            f"there is no recipe {SHOWN[recipe]} for {task.name} with {network.name}, only for {', '.join(places)}"
        )
    by_task = {**of_task.get("", {}), **of_task.get(network.name, {})}
    by_network = {**of_network.get("", {}), **of_network.get(task.name, {})}
    if recipe == "own":  # here the network comes before the SRNN paper
        return {**_recipe(task, network, "paper"), **by_task, **by_network}
    return {**by_network, **by_task}


def _rebuild(plain: dict[str, Any], find: Any) -> Any:
    name, path, sha256 = plain.pop("name"), plain.pop("path", None), plain.pop("sha256", None)
    if path is not None and path not in named_files:
        raise RecordError(f"the run uses the Python file {path}. If you trust it, add --trust {path}")
    if path is not None and hashlib.sha256(_read(Path(path))).hexdigest() != sha256:  # before any of it is executed
        raise RecordError(f"{path} has changed since the run was started. Start a new run")
    return find(path or name)(**plain)


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
    """Returns the one subclass of Task or Network that a user's file defines, with the file's path and digest in it."""
    path = Path(name).resolve()
    source = _read(path)
    trust([path])
    digest = hashlib.sha256(source).hexdigest()
    # One module for each path and content, so that a class keeps its path if there is a copy of the file elsewhere.
    module_name = f"srnn_user_{hashlib.sha256(str(path).encode() + source).hexdigest()[:16]}"
    if module_name not in sys.modules:
        module = sys.modules[module_name] = ModuleType(module_name)
        module.__file__ = str(path)
        try:  # not by import, which would take a file that changed twice within a second from __pycache__
            exec(compile(source, str(path), "exec"), vars(module))
        except Exception as error:
            del sys.modules[module_name]
            message = " ".join(f"{type(error).__name__}: {error}".split())
            raise SettingError(f"{path} does not run as Python: {message}") from error
    defined = [
        value
        for value in vars(sys.modules[module_name]).values()
        if isinstance(value, type) and issubclass(value, kind) and value.__module__ == module_name
    ]
    if len(defined) != 1:
        found = ", ".join(value.__name__ for value in defined) or "none"
        raise SettingError(f"{path} must define one subclass of srnn's {kind.__name__}, got {found}")
    label = getattr(defined[0], "name", None)
    if not isinstance(label, str) or not re.fullmatch("[a-z0-9_-]+", label) or label in TASKS | FITTED | NETWORKS:
        raise SettingError(f"{path}: {defined[0].__name__} must have a new name, such as name = 'parity', got {label!r}")
    for needed in NEEDED[kind.__name__]:
        if getattr(defined[0], needed, None) in (None, getattr(kind, needed, None)):
            raise SettingError(f"{path}: {defined[0].__name__} must define {needed}")
    defined[0].file_path, defined[0].file_sha256 = str(path), digest  # type: ignore[attr-defined]
    return defined[0]
