"""Options that several commands share, one option for each setting, and names for shell completion.

Names for completion are read from the sources, because importing the modules that define them takes seconds.
"""

import ast
import re
import shutil
from collections.abc import Iterable, Mapping
from functools import cache, partial
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from srnn.errors import SettingError
from srnn.lab.settings import Rule, from_text, rules

TASK, DATA, NETWORK, RUN, FILES = "Task", "Data", "Network (srnn info NAME lists more)", "Model and training", "Files"
NOT_OPTIONS = ("task", "network", "recipe")  # settings of a run that `srnn train` has arguments for
NARROW = 60  # columns
LAB = Path(__file__).parents[1]


class _Help:
    """Help that fits the terminal, with flags that have no type, since they take no value."""

    help: str | None
    rich_markup_mode: Any

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Writes the help; on a narrow terminal as plain text, since boxes would cut the names of options."""
        if (columns := shutil.get_terminal_size().columns) < NARROW:
            self.rich_markup_mode = None
            self.help = re.sub(r"\[/?(bold|dim)\]", "", (self.help or "").replace("[dim]", "\b\n"))
            formatter.width = columns
            formatter.write_dl = partial(formatter.write_dl, col_max=4)  # longer names have a line of their own
        super().format_help(ctx, formatter)  # type: ignore[misc]

    def get_params(self, ctx: Any) -> list[Any]:
        found: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for option in found:
            if getattr(option, "is_flag", False):
                option.metavar = ""
        return found


class Command(_Help, TyperCommand):
    """A command of srnn."""


class Group(_Help, TyperGroup):
    """All commands of srnn."""


def _declared(files: str, pattern: str) -> list[str]:
    sources = (path.read_text(encoding="utf-8") for path in LAB.glob(files))
    return sorted({name for source in sources for name in re.findall(pattern, source, re.MULTILINE)})


def task_names() -> list[str]:
    """Returns the names of all tasks."""
    return _declared("tasks/*.py", r'^    name = "(\w+)"')


def network_names() -> list[str]:
    """Returns the names of all networks."""
    return _declared("networks/*.py", r'^    name = "(\w+)"')


def exhibit_names() -> list[str]:
    """Returns "all" and the names of all exhibits of the paper."""
    return ["all", *sorted(path.stem for path in LAB.glob("paper/exhibits/[!_]*.py"))]


def data_set_names() -> list[str]:
    """Returns the names of all data sets."""
    return _declared("data/*.py", r'\bDataSet\(\s*(?:name=)?"([\w-]+)"')


def recipe_names() -> list[str]:
    """Returns the names of all recipes, as they are shown."""
    return list(ast.literal_eval(_declared("training/recipes.py", r"^SHOWN = (\{.*\})")[0]).values())


def setting_names(with_tasks: bool = True) -> list[str]:
    """Returns the names of all settings that have an option: those of tasks, or of questions about a table, and the others."""
    declared = r"^    (\w+): [^=\n]+ = setting\("
    places = ("tasks/*.py" if with_tasks else "data/fitting.py", "networks/*.py", "training/run.py")
    names = [name for files in places for name in _declared(files, declared)]
    return [name for name in dict.fromkeys(names) if name not in NOT_OPTIONS or not with_tasks]


Data = Annotated[Path | None, typer.Option(help="Folder of data sets, searched before those of $SRNN_DATA.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
CheckpointEvery = Annotated[float, typer.Option(help="Seconds between checkpoints.", rich_help_panel=FILES)]
Out = Annotated[Path | None, typer.Option(help="Run folder.", show_default="runs/ID", rich_help_panel=FILES)]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the file if it exists.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print errors only.", rich_help_panel=FILES)]
Results = Annotated[Path, typer.Option(help="Folder of TASK.jsonl, which collects the records.", rich_help_panel=FILES)]
TensorBoard = Annotated[
    bool, typer.Option("--tensorboard", help="Also write the curve for TensorBoard.", rich_help_panel=FILES)
]
Jobs = Annotated[int, typer.Option(min=1, help="Runs at the same time, with one thread each.")]
Model = Annotated[
    str, typer.Option(help="Network (srnn info lists them), or your own Python file.", autocompletion=network_names)
]
Ray = Annotated[
    str | None, typer.Option(metavar="ADDRESS", help="Run on the Ray cluster at this address, or on a new local one.")
]
Recipe = Annotated[
    str, typer.Option(help="Where settings you omit come from: paper, original or tuned.", autocompletion=recipe_names)
]
Set = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Any setting as NAME=VALUE. Repeat it for several.")
]
Trust = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="FILE",
        help="Python file that defines the run's custom task or network. Code of a run folder is executed only if listed.",
    ),
]


@cache
def setting_options(names_only: bool, with_tasks: bool = True) -> list[Any]:
    """Returns an option of `srnn train` or `srnn fit` for each setting of a run, of the tasks and of the networks.

    Args:
        names_only: True for shell completion, which needs no more, and must not import torch.
        with_tasks: False for `srnn fit`, which has the fields of `Question` instead.
    """
    names = setting_names(with_tasks) if names_only else []
    described = {name: (str, typer.Option(f"--{_dashed(name)}")) for name in names} or _described(with_tasks)
    parameters = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, option])
        for name, (kind, option) in described.items()
    ]

    def settings(**given: Any) -> None:
        """Stands for the command, so that typer makes its options."""

    settings.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    settings.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    alone = typer.Typer(add_completion=False)
    alone.command()(settings)
    return typer.main.get_command(alone).params


def _described(with_tasks: bool) -> dict[str, tuple[Any, Any]]:
    """Returns type and option of each setting. The options of the baselines are hidden: they would fill two screens."""
    from srnn.lab.data.fitting import Question
    from srnn.lab.networks import NETWORKS
    from srnn.lab.tasks import TASKS
    from srnn.lab.training.run import Run

    found: dict[str, tuple[Any, Any]] = {}
    asked: tuple[str, Mapping[str, type]] = (TASK, TASKS) if with_tasks else (DATA, {"": Question})
    for panel, kinds in (asked, (NETWORK, NETWORKS), (RUN, {"": Run})):
        owners: dict[str, dict[Rule, list[str]]] = {}
        for name, kind in kinds.items():
            for rule in rules(kind).values():
                owners.setdefault(rule.name, {}).setdefault(rule, []).append(name)
        for name, by_rule in owners.items():
            if name in NOT_OPTIONS and panel != DATA:
                continue
            is_shared = all(len(names) == len(kinds) for names in by_rule.values())
            helps = [rule.help if is_shared else f"{', '.join(names)}: {rule.help}" for rule, names in by_rule.items()]
            is_hidden = panel == NETWORK and not any("srnn" in names for names in by_rule.values())
            found[name] = _option(next(iter(by_rule)), " ".join(helps), panel, is_hidden)
    return found


def _option(rule: Rule, help: str, panel: str, is_hidden: bool) -> tuple[Any, Any]:
    dashed = _dashed(rule.name)
    is_permission = dashed.startswith("allow-")  # off unless given, and too long a name for a pair on a narrow terminal
    flag = f"--{dashed}/--no-{dashed}" if rule.kind is bool and not is_permission else f"--{dashed}"
    metavar = "" if rule.kind is bool else {int: "N,N,...", str: "COLUMN,..."}.get(rule.kind or str) if rule.is_tuple else None
    if rule.is_tuple and rule.kind is str:  # of columns, whose names may have commas, so that the option can be repeated
        kind: Any = list[str]
    else:
        kind = str if rule.is_tuple or rule.kind is None else rule.kind
    help += f" One of {', '.join(rule.choices)}." if rule.choices else ""
    return kind, typer.Option(flag, help=help, metavar=metavar, rich_help_panel=panel, hidden=is_hidden)


def _dashed(name: str) -> str:
    return name.replace("_", "-")


def settings_given(texts: Iterable[str], known: Mapping[str, Rule], options: Mapping[str, Any] = {}) -> dict[str, Any]:
    """Returns the settings that the options and the NAME=VALUE texts of --set give.

    Args:
        texts: What was given to --set.
        known: Rules of the settings there are, for the type of a value.
        options: Values of options, by the name of the setting.

    Raises:
        SettingError: A text is not NAME=VALUE, or a setting is given twice.
    """
    given = {
        name: from_text(value, known[name]) if name in known and isinstance(value, str) else value
        for name, value in options.items()
    }
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier() or name in NOT_OPTIONS:
            raise SettingError(f"--set takes NAME=VALUE with the name of a setting, got {text!r}")
        if name in given:
            raise SettingError(f"{name} is given twice. Give it once")
        given[name] = from_text(value, known.get(name))
    return given


def look_in(folder: Path | None) -> None:
    """Makes this process, and the workers it starts, look for data sets in a folder before all others."""
    from srnn.lab import data

    if folder is not None and not folder.is_dir():
        raise SettingError(f"--data {folder}: there is no such folder")
    data.look_in(*([] if folder is None else [folder]))


def profile(name: str, quick: bool) -> str:
    """Returns the profile of a plan, given --profile and --quick."""
    if quick and name not in ("cpu", "quick"):
        raise SettingError(f"--quick is a profile of its own: leave out --profile {name}")
    return "quick" if quick else name
