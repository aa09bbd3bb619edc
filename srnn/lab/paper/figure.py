"""A figure as data: panels of lines, or a picture. report/plot.py draws it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

# Distinguishable without colour by their dashes, and with it by most eyes, on light and on dark.
STYLES: dict[str, tuple[str, Any]] = {
    "srnn": ("#d8572a", "-"),
    "gru": ("#3b8ede", (0, (5, 1))),
    "lstm": ("#1f9e77", (0, (3, 1, 1, 1))),
    "rnn": ("#8a8f98", (0, (1, 1))),
    "urnn": ("#c46bb0", (0, (4, 2))),
    "nru": ("#c99700", (0, (6, 2, 1, 2))),
    "nnrnn": ("#6f6fd8", (0, (2, 2))),
    "srnn, our recipe": ("#6fa81f", "-"),
    "srnn, 40,000 updates": ("#e08e79", (0, (5, 2))),
    "srnn, wrapped pixels": ("#e08e79", (0, (5, 2))),
    "srnn, 2 epochs": ("#d8572a", "-"),
    "gru, 5 of 60 epochs": ("#3b8ede", (0, (1, 2))),
    "eurnn, 158 units": ("#a05a2c", (0, (4, 1, 1, 1))),
    "exprnn, 224 units": ("#4fb0c6", (0, (5, 1))),
    "rgd": ("#9b3d5a", (0, (3, 2))),
    "scornn, 224 units": ("#7a8f2a", (0, (2, 1))),
    "shift": ("#d8572a", "-"),
    "random": ("#3b8ede", (0, (5, 1))),
    "identity": ("#1f9e77", (0, (1, 1))),
}
OTHERS = ("#d8572a", "#3b8ede", "#1f9e77", "#c46bb0", "#c99700", "#6f6fd8", "#8a8f98", "#a05a2c", "#4fb0c6", "#9b3d5a")


@dataclass(frozen=True)
class Line:
    """One line, or with `dots` its points alone; `band` is a pair of lines around it. `style` names its colour."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    style: str = ""
    band: tuple[Sequence[float], Sequence[float]] | None = None
    dots: str = ""
    dashed: bool = False
    thin: bool = False

    @property
    def is_dots(self) -> bool:
        return self.dots == "o" and self.thin

    def look(self, number: int) -> tuple[str, Any]:
        """Colour and dashes."""
        name = self.style or self.label
        if name.isdigit():  # lines that belong together have the same number
            number = int(name)
        colour, dash = STYLES.get(name, (OTHERS[number % len(OTHERS)], "-"))
        return colour, ":" if self.dashed else dash


@dataclass(frozen=True)
class Panel:
    """Axes with lines; `guides` are level lines with a name; `names` stand along y for numbers, `ticks` along x."""

    title: str
    x: str
    y: str
    lines: Sequence[Line] = ()
    guides: Sequence[tuple[str, float]] = ()
    log: str = ""
    bottom: float | None = None
    top: float | None = None  # of what is shown, where values go higher
    names: Sequence[str] = ()
    ticks: Sequence[float] = ()
    png: str = ""  # a picture, base64
    marks: Sequence[int] = ()  # steps of a picture that are pointed at
    note: str = ""  # shown at the upper right


@dataclass(frozen=True)
class Figure:
    """Panels with one caption; `alt` says in words what one sees."""

    name: str
    caption: str
    alt: str
    panels: Sequence[Panel] = field(default_factory=tuple)

    @property
    def legend(self) -> list[tuple[str, str, Any]]:
        """Label, colour and dashes, each once; "o" in the place of dashes: dots alone."""
        found: dict[str, tuple[str, str, Any]] = {}
        for panel in self.panels:
            for k, line in enumerate(panel.lines):
                colour, dash = line.look(k)
                found.setdefault(line.label, (line.label, colour, "o" if line.is_dots else dash))
        return list(found.values())
