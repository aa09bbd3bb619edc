"""The exhibits of the paper, one file each, in the order of the report.

A file has everything about its exhibit: what is run or measured, the numbers in print, where we differ from the paper, tables,
figures, the claims that it decides with their thresholds, and findings. To add an exhibit, write a file with an EXHIBIT and
name it here.
"""

from importlib import import_module

from srnn.lab.paper.plan import EXHIBITS as EXHIBITS

NAMES: tuple[str, ...] = ("copy", "adding", "psmnist", "pmnistablation", "timit", "timitablation", "randomlabels")
NAMES += ("gradients", "hiddenstate", "runtime", "timecomplexity", "permutation")
EXHIBITS.update({name: import_module(f"{__name__}.{name}").EXHIBIT for name in NAMES})
