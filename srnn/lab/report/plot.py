"""Draws figures with matplotlib: each panel as an SVG for the page, and whole figures as SVG and PDF files.

Axes and text are drawn in the colour INK, which the page replaces by the colour of its text, for light and for dark.
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
GREY = "#78828c"  # readable on white and on the dark background of a README
PANEL = (3.4, 2.5)  # inches: as wide as a phone
LEAD = (4.2, 2.1)  # inches, shown at twice this size, which makes its letters large
LEGEND = 0.2  # inches below the panels, for each of its rows and for the space above
PIXELS = 480, 360  # largest size of a picture in a panel
SMALL = 240, 160  # size of a picture on the first screen
POINTS = 120  # most points of a line; more cannot be seen
RC: Any = {
    "svg.fonttype": "none",  # text stays text: readers can search it, and it takes the font of the page
    "svg.hashsalt": "srnn",  # the same records give the same file
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.formatter.useoffset": False,
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color", "axes.titlecolor"), INK),
}


def inline(figure: Figure) -> list[str]:
    """Returns an SVG for each panel, with ids that are unique in the page."""
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
    text = re.sub(r' d="[^"]+"', lambda path: re.sub(r"(\.\d\d)\d+", r"\1", path[0]), text)  # hundredths of a point are enough
    text = text.replace("<svg ", '<svg aria-hidden="true" focusable="false" ', 1)
    return re.sub(r">\s+<", "><", text).replace(INK, "currentColor")


def sample(dash: Any) -> str:
    """Returns dashes in SVG notation, for the legend of the page; nothing for no line."""
    return {"-": "none", ":": "1 2", "": ""}[dash] if isinstance(dash, str) else " ".join(str(2 * part) for part in dash[1])


def save(figure: Figure, folder: Path, kinds: Sequence[str] = ("svg", "pdf")) -> None:
    """Writes the whole figure with a legend on white, to files of its name."""
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
        handles = [
            Line2D([], [], color=colour, label=label, linestyle=dash, marker="o" if dots else "", markersize=4.5)
            for label, colour, dash, dots in names
        ]
        if handles:
            canvas.legend(handles=handles, loc="lower center", ncols=fitting, frameon=False)
        for kind in kinds:
            path = folder / f"{figure.name}.{kind}"
            if kind == "svg":
                path.write_text(_svg(canvas).replace(INK, "#222222"), encoding="utf-8")
            else:
                content = io.BytesIO()  # not the file: a write that fails would confuse matplotlib
                canvas.savefig(content, format=kind, metadata={"CreationDate": None})
                path.write_bytes(content.getvalue())


def save_lead(figure: Figure, folder: Path) -> None:
    """Writes a figure of one panel as SVG for the top of a README: large letters, labels at the lines, no background."""
    (panel,) = figure.panels
    with matplotlib.rc_context({**RC, "savefig.facecolor": "none"}):
        canvas = Canvas(figsize=LEAD)
        axes = canvas.add_axes(_inside((0.0, 0.0), LEAD, panel, LEAD))
        _draw(panel, axes)
        axes.set_ylim(top=panel.top)
        for k, line in enumerate(panel.lines):
            if not line.thin:
                is_left = line.x[-1] < sum(axes.get_xlim()) / 2  # then there is room to the right of its end, else above
                look: Any = {"color": line.look(k)[0], "fontsize": 9, "fontweight": "bold", "textcoords": "offset points"}
                look |= {"va": "center", "xytext": (5, 0)} if is_left else {"va": "bottom", "ha": "right", "xytext": (0, 5)}
                axes.annotate(line.label, (line.x[-1], line.y[-1]), **look)
        text = _svg(canvas).replace(INK, GREY)
    text = re.sub(r' (width|height)="([\d.]+)pt"', lambda side: f' {side[1]}="{2 * float(side[2]):g}pt"', text, count=2)
    (folder / f"{figure.name}.svg").write_text(text, encoding="utf-8")


def image(panel: Panel) -> str:
    """Returns the picture of a panel as a small PNG in a data URL, in the colours of the panel."""
    picture, file = Image.fromarray(_pixels(panel, SMALL)[0]), io.BytesIO()
    picture.putpalette(matplotlib.colormaps["inferno"](range(256), bytes=True)[:, :3].tobytes())
    picture.save(file, "png", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"


def _inside(
    corner: tuple[float, float], whole: tuple[float, float], panel: Panel, size: tuple[float, float] = PANEL
) -> tuple[float, float, float, float]:
    """Returns the rectangle of a panel's axes, relative to the drawing: the panel without its margins.

    The margins are fixed, because measuring all labels first would take half of the drawing time.
    """
    left, right, bottom, top = 1.15 if panel.names else 0.62, 0.16, 0.45, 0.3 if panel.title else 0.12
    x, y = corner[0] + left, corner[1] + bottom
    return x / whole[0], y / whole[1], (size[0] - left - right) / whole[0], (size[1] - bottom - top) / whole[1]


def _svg(canvas: Canvas) -> str:
    file = io.StringIO()
    FigureCanvasSVG(canvas).print_svg(file, metadata={"Date": None, "Creator": None})
    return file.getvalue()


def _draw(panel: Panel, axes: Axes) -> None:
    axes.patch.set_alpha(0)
    axes.figure.patch.set_alpha(0)
    axes.set_title(panel.title, loc="left")
    axes.set_title(panel.note, loc="right", fontsize=6.5, fontstyle="italic")
    axes.set_xlabel(panel.x)
    axes.set_ylabel(panel.y)
    if panel.png:
        _picture(panel, axes)
        return
    for number, line in enumerate(panel.lines):
        _line(line, number, axes)
    for k, (name, level) in enumerate(panel.guides):
        axes.axhline(level, color=INK, linewidth=0.6, linestyle=(0, (1, 2)))
        # Side by side, because levels may be close.
        axes.annotate(name, (1 - 0.16 * k, level), xycoords=("axes fraction", "data"), ha="right", va="bottom", fontsize=6.5)
    if max((line.x[-1] for line in panel.lines if len(line.x)), default=0) >= 10_000 and "x" not in panel.log:
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))  # 400k
    if "x" in panel.log:
        axes.set_xscale("log")
    if "y" in panel.log:
        axes.set_yscale("log")
    _limit(panel, axes)
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


def _limit(panel: Panel, axes: Axes) -> None:
    """Applies the limits of a panel, but keeps the lowest value of every line in view: tables show it."""
    is_log = "y" in panel.log
    bottom, top = (None if is_log and bound is not None and bound <= 0 else bound for bound in (panel.bottom, panel.top))
    shown = [[value for value in line.y if value > 0 or not is_log] for line in panel.lines]
    lowest, margin = [min(values) for values in shown if values], 2.0 if is_log else 1.0
    if bottom is not None:
        axes.set_ylim(bottom=min([bottom, *(value / margin for value in lowest)]))
    if top is not None:
        axes.set_ylim(top=min(max([top, *(value * margin for value in lowest)]), axes.get_ylim()[1]))


def _logarithmic(axis: Axis) -> None:
    """Puts readable numbers on a logarithmic axis: powers of ten, or more where fewer than two of them would show."""
    low, high = sorted(axis.get_view_interval())
    axis.set_major_formatter(_plain)
    axis.set_minor_formatter(NullFormatter())
    if high < 4 * low:
        axis.set_major_locator(MaxNLocator(4))
    elif high < 50 * low:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))


def _plain(value: float, place: Any = None) -> str:
    """Returns a number for a logarithmic axis in at most about four characters: 0.01, 1e-4, 300."""
    return (f"{value:g}" if 1e-3 <= abs(value) < 1e4 else f"{value:.0e}").replace("e-0", "e-").replace("e+0", "e")


def _line(line: Curve, number: int, axes: Axes) -> None:
    colour, dash = line.look(number)
    chosen = numpy.unique(numpy.linspace(0, len(line.x) - 1, min(POINTS, len(line.x))).round().astype(int))
    x, y = numpy.asarray(line.x, float)[chosen], numpy.asarray(line.y, float)[chosen]
    width = 0.5 if line.thin else 0.8 if line.dashed else 1.6 if "srnn" in (line.style, line.label) else 1.1
    face = "none" if line.dashed else colour
    marks: Any = {"marker": line.dots, "markersize": 4.5, "markerfacecolor": face, "markeredgecolor": colour}
    look: Any = {"color": colour, "linestyle": dash if line.is_line else "none", "linewidth": width}
    axes.plot(x, y, **look, **(marks if line.dots else {}))


def _picture(panel: Panel, axes: Axes) -> None:
    small, (width, height) = _pixels(panel, PIXELS)
    edges = (-0.5, width - 0.5, height - 0.5, -0.5)
    axes.imshow(small, cmap="inferno", aspect="auto", interpolation="none", extent=edges)
    arrow: Any = {"arrowprops": {"arrowstyle": "->", "color": INK}, "annotation_clip": False}
    for mark in panel.marks:
        axes.annotate("", (mark, -0.5), (mark, -0.5 - 0.09 * height), **arrow)


def _pixels(panel: Panel, largest: tuple[int, int]) -> tuple[numpy.ndarray, tuple[int, int]]:
    """Returns the picture of a panel, averaged to this size where it is larger, and its full width and height."""
    try:
        full = Image.open(io.BytesIO(base64.b64decode(panel.png)))
    except (UnidentifiedImageError, ValueError):
        raise RecordError(f"the picture of {panel.title} in the records cannot be read. Measure it again") from None
    width, height = full.size
    small = full.resize((min(width, largest[0]), min(height, largest[1])), Image.Resampling.BOX)
    return numpy.asarray(small), (width, height)
