"""Draws figures: panel by panel for the page, whole as SVG and PDF.

Ink is drawn in one colour that the page replaces by that of its text, so that a figure is readable on light and on dark.
"""

import base64
import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D
from matplotlib.ticker import EngFormatter, FixedLocator, LogLocator, MaxNLocator, NullFormatter
from PIL import Image, UnidentifiedImageError

from srnn.errors import RecordError
from srnn.lab.paper.figure import Curve, Figure, Panel

INK = "#012345"
PANEL = (3.4, 2.5)  # inches: as wide as a phone
LEGEND = 0.2  # inches below the panels, for each of its rows and for the space above
PIXELS = 480, 360  # of a picture at most: what a panel shows on a screen; a record has them all
POINTS = 120  # of a line at most; more are not seen
RC: Any = {
    "svg.fonttype": "none",  # text stays text: it can be searched, and takes the page's font
    "svg.hashsalt": "srnn",  # the same records give the same bytes
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.formatter.useoffset": False,
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color", "axes.titlecolor"), INK),
}


def inline(figure: Figure) -> list[str]:
    """An SVG for each panel, to stand in a page; ids are the figure's own."""
    return [_page_svg(panel, f"{figure.name}-{k}") for k, panel in enumerate(figure.panels)]


def _page_svg(panel: Panel, prefix: str) -> str:
    with matplotlib.rc_context(RC):
        canvas = Canvas(figsize=PANEL)
        _draw(panel, canvas.add_axes(_inside((0.0, 0.0), PANEL, panel)))
        text = _svg(canvas)
    text = text[text.index("<svg") :]
    text = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}-\1"', text)
    text = re.sub(r'(xlink:href="#|url\(#)', rf"\1{prefix}-", text)
    text = re.sub(r' (width|height)="[\d.]+pt"', "", text, count=2)
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = text.replace("<svg ", '<svg aria-hidden="true" focusable="false" ', 1)
    return re.sub(r">\s+<", "><", text).replace(INK, "currentColor")


def sample(dash: Any) -> str:
    """Dashes as SVG writes them, for the legend of a page; "o" stays."""
    if dash == "o":
        return "o"
    return {"-": "none", ":": "1 2"}.get(dash, "none") if isinstance(dash, str) else " ".join(str(2 * part) for part in dash[1])


def save(figure: Figure, folder: Path, kinds: Sequence[str] = ("svg", "pdf")) -> None:
    """The whole figure with a legend, in files of its name, on white."""
    columns = min(3, len(figure.panels))
    rows = -(-len(figure.panels) // columns)
    width, names = PANEL[0] * columns, figure.legend
    entry = 0.5 + 0.065 * max((len(label) for label, *_ in names), default=0)  # inches: a dash, and 8 points a letter
    fitting = max(1, min(len(names), int(width / entry)))
    height = PANEL[1] * rows + LEGEND * (1 - -len(names) // fitting)
    with matplotlib.rc_context({**RC, "savefig.facecolor": "white"}):
        canvas = Canvas(figsize=(width, height))
        for k, panel in enumerate(figure.panels):
            corner = PANEL[0] * (k % columns), height - PANEL[1] * (k // columns + 1)
            _draw(panel, canvas.add_axes(_inside(corner, (width, height), panel)))
        handles = [Line2D([], [], color=colour, label=label, **_legend_style(dash)) for label, colour, dash in names]
        if handles:
            canvas.legend(handles=handles, loc="lower center", ncols=fitting, frameon=False)
        for kind in kinds:
            path = folder / f"{figure.name}.{kind}"
            if kind == "svg":
                path.write_text(_svg(canvas).replace(INK, "#222222"), encoding="utf-8")
            else:
                canvas.savefig(path, metadata={"CreationDate": None})


def _legend_style(dash: Any) -> dict[str, Any]:
    return {"marker": "o", "markersize": 4.5, "linestyle": "none"} if dash == "o" else {"linestyle": dash}


def _inside(corner: tuple[float, float], whole: tuple[float, float], panel: Panel) -> tuple[float, float, float, float]:
    """Where the axes of a panel lie in a drawing, in shares of it: the panel less its margins, which are in inches.

    Fixed ones: to measure every label first would take half of the time of drawing.
    """
    left, right, bottom, top = 1.15 if panel.names else 0.62, 0.16, 0.45, 0.3
    x, y = corner[0] + left, corner[1] + bottom
    return x / whole[0], y / whole[1], (PANEL[0] - left - right) / whole[0], (PANEL[1] - bottom - top) / whole[1]


def _svg(canvas: Canvas) -> str:
    file = io.StringIO()
    FigureCanvasSVG(canvas).print_svg(file, metadata={"Date": None, "Creator": None})
    return file.getvalue()


def _draw(panel: Panel, axes: Axes) -> None:
    axes.patch.set_alpha(0)
    axes.figure.patch.set_alpha(0)
    axes.set_title(panel.title)
    axes.set_xlabel(panel.x)
    axes.set_ylabel(panel.y)
    if panel.png:
        _picture(panel, axes)
        return
    for number, line in enumerate(panel.lines):
        _line(line, number, axes)
    for k, (name, level) in enumerate(panel.guides):
        axes.axhline(level, color=INK, linewidth=0.6, linestyle=(0, (1, 2)))
        # Beside each other, since levels may be close.
        axes.annotate(name, (1 - 0.16 * k, level), xycoords=("axes fraction", "data"), ha="right", va="bottom", fontsize=6.5)
    if max((line.x[-1] for line in panel.lines if len(line.x)), default=0) >= 10_000 and "x" not in panel.log:
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))  # 400k
    if "x" in panel.log:
        axes.set_xscale("log")
    if "y" in panel.log:
        axes.set_yscale("log")
    if panel.bottom is not None:
        axes.set_ylim(bottom=panel.bottom)
    if panel.top is not None:
        axes.set_ylim(top=min(panel.top, axes.get_ylim()[1]))
    for side, axis in (("x", axes.xaxis), ("y", axes.yaxis)):
        if side in panel.log:
            _logarithmic(axis)
    if panel.ticks:
        axes.xaxis.set_major_locator(FixedLocator(panel.ticks))
        axes.xaxis.set_minor_locator(FixedLocator([]))
    if panel.names:
        axes.set_yticks(range(len(panel.names)), panel.names)
        axes.invert_yaxis()
        axes.grid(axis="x", linewidth=0.3, alpha=0.4)


def _logarithmic(axis: Axis) -> None:
    """Numbers that can be read and do not touch: at powers of ten, or more of them where there would be less than two."""
    low, high = sorted(axis.get_view_interval())
    axis.set_major_formatter(_plain)
    axis.set_minor_formatter(NullFormatter())
    if high < 4 * low:
        axis.set_major_locator(MaxNLocator(4))
    elif high < 50 * low:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))


def _plain(value: float, place: Any = None) -> str:
    """A number on a logarithmic axis: 0.01, 1e-4, 300; four places or so, for more do not fit beside the name of the axis."""
    return (f"{value:g}" if 1e-3 <= abs(value) < 1e4 else f"{value:.0e}").replace("e-0", "e-").replace("e+0", "e")


def _line(line: Curve, number: int, axes: Axes) -> None:
    colour, dash = line.look(number)
    chosen = numpy.unique(numpy.linspace(0, len(line.x) - 1, min(POINTS, len(line.x))).round().astype(int))
    x, y = numpy.asarray(line.x, float)[chosen], numpy.asarray(line.y, float)[chosen]
    width = 0.8 if line.thin or line.dashed else 1.6 if line.style == "srnn" or line.label == "srnn" else 1.1
    face = "none" if line.dashed else colour
    marks: Any = (
        {"marker": line.dots, "markersize": 4.5, "markerfacecolor": face, "markeredgecolor": colour} if line.dots else {}
    )
    axes.plot(x, y, color=colour, linestyle="none" if line.is_dots else dash, linewidth=width, **marks)


def _picture(panel: Panel, axes: Axes) -> None:
    try:
        image = Image.open(io.BytesIO(base64.b64decode(panel.png)))
    except (UnidentifiedImageError, ValueError):
        raise RecordError(f"the picture of {panel.title} in the records cannot be read; measure it again") from None
    width, height = image.size
    small = image.resize((min(width, PIXELS[0]), min(height, PIXELS[1])), Image.Resampling.BOX)  # means, not a choice
    edges = (-0.5, width - 0.5, height - 0.5, -0.5)
    axes.imshow(numpy.asarray(small), cmap="inferno", aspect="auto", interpolation="none", extent=edges)
    for mark in panel.marks:
        axes.annotate(
            "",
            (mark, -0.5),
            (mark, -0.5 - 0.09 * height),
            arrowprops={"arrowstyle": "->", "color": INK},
            annotation_clip=False,
        )
