"""The report: the page made from records, its first screen, plots, blocks of the README, and the table of runs."""

from srnn.lab.report.page import make
from srnn.lab.report.readme import fill_readme

__all__ = ["fill_readme", "make"]
