"""The exhibits of the paper, one file each, in the order of the report.

A file has everything about its exhibit. To add an exhibit, write a file and name it here.

    docstring                              first line: where the paper has it, and the title
    EXHIBIT                                metric, axis, numbers in print, where we differ from the paper
    points(plan), measurements(plan)       what is run, what is measured
    tables(exhibit, evidence)              the tables; without it, the table that most exhibits share
    figures(exhibit, evidence)             the figures
    @claim, @finding                       claims that it decides, with their thresholds, and findings
"""

from dataclasses import replace
from importlib import import_module

from srnn.lab.paper.plan import EXHIBITS as EXHIBITS
from srnn.lab.paper.plan import Exhibit
from srnn.lab.paper.table import exhibit_table

NAMES: tuple[str, ...] = ("copy", "adding", "psmnist", "pmnistablation", "timit", "timitablation", "randomlabels")
NAMES += ("gradients", "hiddenstate", "runtime", "timecomplexity", "permutation")
FUNCTIONS = {"points": "points", "measurements": "measurements", "tabulate": "tables", "draw": "figures"}  # by field


def _load(name: str) -> Exhibit:
    """Returns the EXHIBIT of a file with its title and the functions of the file."""
    module = import_module(f"{__name__}.{name}")
    where, _, title = str(module.__doc__).partition("\n")[0].removesuffix(".").partition(": ")
    found = {field: getattr(module, function) for field, function in FUNCTIONS.items() if hasattr(module, function)}
    return replace(module.EXHIBIT, id=name, where=where, title=title, **({"tabulate": exhibit_table} | found))


EXHIBITS.update({name: _load(name) for name in NAMES})
