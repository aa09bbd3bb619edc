"""Figures: axes and their numbers, limits, notes, thin lines of seeds, files, and pictures of hidden states."""

import base64
import io
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy
import pytest
from PIL import Image

from srnn.errors import RecordError
from srnn.lab.paper.figure import OTHERS, Curve, Figure, Panel
from srnn.lab.report import plot


def drawn(*lines: Curve, **settings: Any) -> str:
    """Returns the SVG of one panel."""
    return plot.inline(Figure("f", "", "", [Panel("", "", "", lines, **settings)]))[0]


def texts(svg: str) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]+)</text>", svg)


def strokes(svg: str, colour: str) -> list[float]:
    """Returns the widths of all lines of a colour."""
    return [float(width) for width in re.findall(rf"stroke: {colour};[^\"]*?stroke-width: ([\d.]+)", svg)]


@pytest.mark.parametrize(("low", "high"), [(40.0, 50.0), (25.0, 110.0), (6.0, 250.0), (1e-6, 1.0)])
def test_logarithmic_axis_has_a_few_readable_numbers(low: float, high: float) -> None:
    line = Curve("srnn", [low, high], [low, high])
    shown = [float(text) for text in texts(drawn(line, log="xy"))]
    assert shown[: len(shown) // 2] == shown[len(shown) // 2 :]  # along x and along y
    assert 2 <= len(shown) // 2 <= 8
    assert all(low * 0.99 <= each <= high * 1.01 for each in shown)
    assert texts(drawn(line, log="x", ticks=[low, high]))[:2] == [plot._plain(low), plot._plain(high)]


def test_names_of_close_levels_do_not_overlap() -> None:
    svg = drawn(Curve("a", [1, 2], [1.0, 90.0]), guides=[("repeat", 50.0), ("linear", 49.0)])
    ends = [float(re.search(rf'<text[^>]*x="([\d.]+)"[^>]*>{name}<', svg)[1]) for name in ("repeat", "linear")]  # type: ignore[index]
    assert ends[0] - ends[1] > 20  # points: as wide as a word


def test_spikes_above_the_top_are_cut_off() -> None:
    spike = Curve("nru", [1, 2, 3], [1.0, 1e7, 0.1])
    for top, highest in ((None, 1e6), (10.0, 10.0)):  # the highest number at the axis
        levels = [float(text) for text in texts(drawn(spike, log="y", bottom=0.01, top=top)) if "e" in text or float(text) > 3]
        assert max(levels) == highest
    assert "10" not in texts(drawn(Curve("a", [1, 2], [0.1, 0.5]), log="y", top=10.0))


@pytest.mark.parametrize(("low", "number"), [(1e-9, "1e-8"), (167.0, "100")])
def test_axis_shows_the_lowest_value_of_every_line(low: float, number: str) -> None:
    lines = Curve("srnn", [1, 2], [0.1, 0.01]), Curve("nru", [1, 2], [200.0, low])
    assert number in texts(drawn(*lines, log="y", bottom=1e-4, top=1.0))


def test_seeds_are_thin_lines() -> None:
    seeds = [Curve("srnn", [1, 2, 3], [1.0, 2.0, y], thin=y > 1) for y in (1.0, 2.0, 3.0)]
    svg = drawn(*seeds)
    assert strokes(svg, "#d8572a") == [1.6, 0.5, 0.5]
    assert "fill-opacity" not in svg
    assert [entry[0] for entry in Figure("f", "", "", [Panel("", "", "", seeds)]).legend] == ["srnn"]


def test_note_of_a_panel_is_drawn() -> None:
    assert texts(drawn(Curve("a", [1, 2], [1, 2]), note="clock stopped all baselines"))[-1] == "clock stopped all baselines"


def test_panels_take_the_colour_of_the_page_and_have_unique_ids(tmp_path: Path) -> None:
    lines = [Curve("srnn", [1, 2], [1e-3, 1.0]), Curve("other", [1, 2], [1.0, 1.0], dashed=True)]
    figure = Figure("f", "c", "a", [Panel("p", "x", "y", lines, [("chance level", 0.5)], "y")] * 2)
    first, second = plot.inline(figure)
    ids = [set(re.findall(r'id="([^"]+)"', svg)) for svg in (first, second)]
    assert ids[0]
    assert not ids[0] & ids[1]
    used = set(re.findall(r'(?:url\(#|xlink:href="#)([^")]+)', first))
    assert used
    assert used <= ids[0]
    assert plot.INK not in first
    assert "currentColor" in first
    plot.save(figure, tmp_path)
    saved = (tmp_path / "f.svg").read_bytes(), (tmp_path / "f.pdf").read_bytes()
    assert plot.INK.encode() not in saved[0]
    assert saved[1].startswith(b"%PDF")
    plot.save(figure, tmp_path)
    assert ((tmp_path / "f.svg").read_bytes(), (tmp_path / "f.pdf").read_bytes()) == saved
    assert figure.legend == [("srnn", "#d8572a", "-", False), ("other", OTHERS[1], ":", False)]
    assert (plot.sample("-"), plot.sample(":"), plot.sample((0, (5, 1)))) == ("none", "1 2", "10 2")


def test_legend_has_room_below_the_panels(tmp_path: Path) -> None:
    """Eight long names do not fit into one row of one panel's width."""
    heights = []
    for count in (1, 8):
        lines = [Curve(f"a network of the name {k}", [0, 1], [1, 2], dots="o", thin=True) for k in range(count)]
        figure = Figure("f", "c", "a", [Panel("p", "x", "y", lines)])
        plot.save(figure, tmp_path, ["svg"])
        found = re.search(r'height="([\d.]+)pt"', (tmp_path / "f.svg").read_text())
        assert found
        heights.append(float(found[1]))
    assert heights[1] - heights[0] > 6 * 12  # points: the height of seven more rows of 8-point letters
    assert {entry[2:] for entry in figure.legend} == {("", True)}
    assert plot.sample("") == ""


def test_legend_shows_dots_for_what_is_drawn_as_dots() -> None:
    """A network with one point in every panel has no line. One with a line elsewhere has both."""
    point, pair = Curve("gru", [1], [1.0], dots="o"), Curve("nru", [1, 2], [1.0, 2.0], dots="o")
    curve = Curve("lstm", [1, 2, 3], [1.0, 2.0, 3.0])
    panels = [Panel("", "", "", lines) for lines in ([point, curve, replace(pair, x=[1], y=[1.0])], [point, pair])]
    found = {label: (bool(dash), dots) for label, _, dash, dots in Figure("f", "", "", panels).legend}
    assert found == {"gru": (False, True), "lstm": (True, False), "nru": (True, True)}


def luminance(colour: str) -> float:
    """Returns the relative luminance of a colour, as WCAG defines it."""
    parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a: str, b: str) -> float:
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_lead_figure_is_large_and_readable_on_light_and_dark(tmp_path: Path) -> None:
    lines = [Curve("SRNN", [0, 100], [90.0, 96.0], "srnn"), Curve("nn.GRU", [0, 600], [50.0, 78.0], "gru")]
    plot.save_lead(Figure("lead", "", "", [Panel("", "CPU seconds", "accuracy", lines, bottom=0.0, top=100.0)]), tmp_path)
    svg = (tmp_path / "lead.svg").read_text()
    width, box = (float(re.search(pattern, svg)[1]) for pattern in (r'width="([\d.]+)pt"', r'viewBox="0 0 ([\d.]+)'))  # type: ignore[index]
    assert 8 * width / box >= 16  # points: the size of the letters
    assert {"SRNN", "nn.GRU", "100"} <= set(texts(svg))
    assert plot.INK not in svg
    colours = set(re.findall(r"(?:fill|stroke): (#[0-9a-f]{6})", svg))
    assert plot.GREY in colours
    for colour in colours:
        assert min(contrast(colour, "#ffffff"), contrast(colour, "#0d1117")) > 3, (
            colour
        )  # WCAG for large letters; a white background would fail too


def test_unreadable_picture_is_reported() -> None:
    with pytest.raises(RecordError, match="the picture of adding in the records cannot be read"):
        plot.inline(Figure("f", "c", "a", [Panel("adding", "x", "y", png="AAAA")]))


def test_small_picture_has_the_colours_of_the_panel() -> None:
    file = io.BytesIO()
    Image.fromarray(numpy.tile(numpy.linspace(0, 255, 500).astype(numpy.uint8), (400, 1))).save(file, "png")
    url = plot.image(Panel("copy", "", "", png=base64.b64encode(file.getvalue()).decode()))
    small = Image.open(io.BytesIO(base64.b64decode(url.removeprefix("data:image/png;base64,")))).convert("RGB")
    assert small.size == plot.SMALL
    left, right = (numpy.asarray(small.getpixel((x, 80)), float) for x in (0, plot.SMALL[0] - 1))
    assert left.sum() < 60  # inferno starts with black
    assert right[0] > 240 > 180 > right[2]  # and ends with light yellow


def test_zeros_do_not_stretch_a_logarithmic_axis() -> None:
    svg = drawn(Curve("a", [1, 2, 3], [1.0, 0.5, 0.0]), log="y", bottom=0.1)
    levels = [float(text) for text in re.findall(r"<text[^>]*>([^<]+)</text>", svg)]
    assert min(levels) >= 0.1
