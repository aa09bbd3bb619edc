"""Figures as data, and the figures that several exhibits share. report/plot.py draws them.

A figure has panels, and a panel has curves or a picture.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from srnn.lab.paper.evidence import Evidence, Result, mean
from srnn.lab.paper.plan import BASELINES, AblationLine, Exhibit, Line, StartLine

# Colour and dashes by network and form of SRNN. Dashes distinguish them without colour; the colours are
# distinguishable for most eyes, on light and on dark backgrounds.
STYLES: dict[str, tuple[str, Any]] = {
    "srnn": ("#d8572a", "-"),
    "gru": ("#3b8ede", (0, (5, 1))),
    "lstm": ("#1f9e77", (0, (3, 1, 1, 1))),
    "rnn": ("#8a8f98", (0, (1, 1))),
    "urnn": ("#c46bb0", (0, (4, 2))),
    "nru": ("#c99700", (0, (6, 2, 1, 2))),
    "nnrnn": ("#6f6fd8", (0, (2, 2))),
    "eurnn": ("#a05a2c", (0, (4, 1, 1, 1))),
    "exprnn": ("#4fb0c6", (0, (5, 1))),
    "rgd": ("#9b3d5a", (0, (3, 2))),
    "scornn": ("#7a8f2a", (0, (2, 1))),
    "srnn tuned": ("#6fa81f", "-"),
    "srnn variant": ("#e08e79", (0, (5, 2))),
    "gru variant": ("#3b8ede", (0, (1, 2))),
}
STYLES |= {f"{name} longer": (STYLES[name][0], (0, (9, 2))) for name in ("gru", "lstm", "rnn", "urnn")}
OTHERS = ("#d8572a", "#3b8ede", "#1f9e77", "#c46bb0", "#c99700", "#6f6fd8", "#8a8f98", "#a05a2c", "#4fb0c6", "#9b3d5a")
AXES = {"updates": "training steps", "examples": "training examples", "seconds": "CPU seconds, one thread", "epochs": "epochs"}


def style(line: Line) -> str:
    """Returns the style of a line of an exhibit, a key of `STYLES` for the networks that are drawn there."""
    form = line.recipe if line.recipe != "paper" else "variant" if line.variant else "longer" * line.longer
    return f"{line.network} {form}".strip()


@dataclass(frozen=True)
class Curve:
    """A curve of a panel.

    Attributes:
        label: Text in the legend. Curves with the same label share one entry.
        x: Horizontal positions.
        y: Values.
        style: A key of `STYLES`, or the number of a colour; by default the label, or else the place in the panel.
        dots: Marker of the points, "" for none. "o" with `thin` shows the points alone.
        dashed: Whether it is dotted, for the paper's numbers and other secondary curves.
        thin: Whether it is drawn thin, as further seeds are.
    """

    label: str
    x: Sequence[float]
    y: Sequence[float]
    style: str | int = ""
    dots: str = ""
    dashed: bool = False
    thin: bool = False

    @property
    def is_line(self) -> bool:
        """Whether there is a line: several points, and not the points alone."""
        return len(self.x) > 1 and not (self.dots == "o" and self.thin)

    def look(self, place: int) -> tuple[str, Any]:
        """Returns colour and dashes; `place` is that of the curve in its panel."""
        name = self.style if self.style != "" else self.label
        other = OTHERS[(name if isinstance(name, int) else place) % len(OTHERS)]
        colour, dash = STYLES.get(str(name), (other, "-"))
        return colour, ":" if self.dashed else dash


@dataclass(frozen=True)
class Panel:
    """Axes with curves, or a picture.

    Attributes:
        title, x, y: Texts.
        lines: Curves.
        guides: Horizontal lines, each with a name.
        log: Which axes are logarithmic: "", "x", "y" or "xy".
        bottom: Lowest value that is shown.
        top: Highest value that is shown, if values go higher.
        names: Names along y, at 0, 1, ...
        ticks: Positions of the numbers along x.
        png: A picture, in base64.
        marks: Steps of the picture that arrows point at.
        note: Shown at the upper right.
    """

    title: str
    x: str
    y: str
    lines: Sequence[Curve] = ()
    guides: Sequence[tuple[str, float]] = ()
    log: str = ""
    bottom: float | None = None
    top: float | None = None
    names: Sequence[str] = ()
    ticks: Sequence[float] = ()
    png: str = ""
    marks: Sequence[int] = ()
    note: str = ""


@dataclass(frozen=True)
class Figure:
    """Panels with one caption; `alt` describes the figure to those who do not see it."""

    name: str
    caption: str
    alt: str
    panels: Sequence[Panel] = field(default_factory=tuple)

    @property
    def legend(self) -> list[tuple[str, str, Any, bool]]:
        """Label, colour, dashes and whether there are dots, each label once. No dashes stand for dots alone."""
        found: dict[str, tuple[str, str, Any, bool]] = {}
        for panel in self.panels:
            for k, line in enumerate(panel.lines):
                colour, dash = line.look(k)
                _, colour, drawn, has_dots = found.get(line.label, ("", colour, "", False))
                drawn = drawn or (dash if line.is_line else "")
                found[line.label] = line.label, colour, drawn, has_dots or bool(line.dots)
        return list(found.values())


Trace = tuple[str, str, Sequence[Result]]  # label, style, and the results of all seeds


def unzip(points: Sequence[tuple[Any, Any]]) -> tuple[list[Any], list[Any]]:
    """Returns x and y of points."""
    return [x for x, _ in points], [y for _, y in points]


def with_seeds(main: Curve, seeds: Sequence[Sequence[float]]) -> list[Curve]:
    """Returns a curve and, if there are several seeds, thin ones for each of them at the same positions."""
    return [main, *(replace(main, y=y, thin=True) for y in seeds if len(seeds) > 1)]


def over_both(
    name: str, first: str, panels: Sequence[tuple[Panel, Sequence[Trace]]], caption: str, alt: str, stretch: bool = False
) -> Iterator[Figure]:
    """Yields the training curves twice: over `first`, as in the paper, and over seconds.

    Args:
        name: Name of the first figure; the second adds "-seconds".
        first: A key of `AXES`.
        panels: Panels without curves, each with the runs whose curves go there: the first seed, and further seeds as thin ones.
        caption: Caption with {} for the axis.
        alt: Description with {} for the axis.
        stretch: Whether x is logarithmic over `first` too, where the panel asks for it. Otherwise it is over seconds only.
    """
    for over in (first, "seconds"):
        drawn = []
        for panel, traces in panels:
            curves = [
                Curve(label, *_columns(each, over), style, "o" if len(each.smooth) < 3 else "", thin=k > 0)
                for label, style, results in traces
                for k, each in enumerate(results)
                if results[0].smooth and each.smooth
            ]
            log = panel.log if over == "seconds" or stretch else panel.log.replace("x", "")
            drawn += [replace(panel, x=AXES[over], lines=curves, log=log, note=_note(traces))] if curves else []
        suffix = "-seconds" if over == "seconds" else ""
        yield Figure(name + suffix, caption.format(AXES[over]), alt.format(AXES[over]), drawn)


def _note(traces: Sequence[Trace]) -> str:
    """Returns the note of a panel in which a time limit stopped every run of a baseline."""
    theirs = [each for _, _, results in traces for each in results if each.network != "srnn"]
    return "all baselines ended early" if theirs and all(each.is_stopped for each in theirs) else ""


def _columns(result: Result, over: str) -> tuple[list[float], list[float]]:
    updates = max(1, result.updates)
    per_update = {"updates": 1.0, "examples": result.examples / updates, "epochs": (result.epochs or 0) / updates}
    x = [seconds if over == "seconds" else step * per_update[over] for step, seconds, _ in result.smooth]
    return x, [value for _, _, value in result.smooth]


def is_drawn(line: Line) -> bool:
    """Says whether training curves show a line: forms of SRNN, and the paper's baselines with the paper's recipe.

    Runs with another start value are not drawn, because they end when they are solved.
    """
    if isinstance(line, StartLine):
        return False
    return line.network == "srnn" or replace(line, longer=False) in map(Line, BASELINES)


def memory_figures(exhibit: Exhibit, evidence: Evidence, first: str, depth: float, without: str = "") -> Iterator[Figure]:
    """Yields the curves of copy or adding, a panel for each length, down to the chance level divided by `depth`.

    Lines of the variant `without` are not drawn.
    """
    found, panels = evidence.results[exhibit.id], []
    drawn = [line for line in dict.fromkeys(line for line, _ in found) if is_drawn(line)]
    lines = [line for line in drawn if not without or line.variant != without]
    for T in dict.fromkeys(x for _, x in found):
        traces = [(line.label, style(line), found[line, T]) for line in lines if (line, T) in found]
        panels.append((memory_panel(f"T = {T}", exhibit.metric, traces, depth, top=10), traces))
    caption = (
        f"{exhibit.title}, over {{}}: medians of five means of 100 updates, cut off at ten times the chance level unless a "
        "whole line is above. Thin lines are further seeds."
    )
    alt = f"Loss over {{}} for {', '.join(map(str, lines))}, one panel for each length, with the chance level."
    yield from over_both(exhibit.id, first, panels, caption, alt)


def means(exhibit: Exhibit, evidence: Evidence, line: Line) -> tuple[list[tuple[Any, float]], list[tuple[Any, float]]]:
    """Returns the places of a line with the means of our seeds, and with the numbers of the paper."""
    ours = [(x, mean(results)) for (other, x), results in evidence.results[exhibit.id].items() if other == line]
    paper = [(x, value) for (other, x), value in exhibit.published.items() if other == line]
    return sorted((x, value) for x, value in ours if value is not None), sorted(paper)


def memory_panel(title: str, metric: str, traces: Sequence[Trace], depth: float, top: float | None = None) -> Panel:
    """Returns the panel of these runs on copy or adding, with `depth` and `top` relative to the chance level."""
    chance = next((results[0].chance for _, _, results in traces if results), 1.0)
    return Panel(title, "", metric, (), [("chance level", chance)], "y", chance / depth, top and top * chance)


def depth_figure(exhibit: Exhibit, evidence: Evidence) -> Iterator[Figure]:
    """Yields the figure of an ablation: a score over the depth of f_r, a panel for each number of units."""
    groups: dict[int, list[AblationLine]] = {}
    for line in dict.fromkeys(line for line, _ in evidence.planned[exhibit.id]):
        assert isinstance(line, AblationLine)
        groups.setdefault(line.units, []).append(line)
    panels = []
    for units, lines in groups.items():
        curves: list[Curve] = []
        for k, line in enumerate(lines):
            ours, paper = means(exhibit, evidence, line)
            if ours:
                curves.append(Curve(line.form, *unzip(ours), k, dots="o"))
                curves.append(Curve(f"{line.form}, paper", *unzip(paper), k, dashed=True))
        if curves:
            panels.append(Panel(f"{units} units", exhibit.axis, exhibit.metric, curves, ticks=(1, 2, 3)))
    alt = "Score over the number of hidden layers of f_r, one panel for each number of units, ours and the paper's."
    yield Figure(exhibit.id, f"{exhibit.title}: ours, and the paper's dotted.", alt, panels)
