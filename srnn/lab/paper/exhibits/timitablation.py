"""Figure 4b: Speech frames by depth, width and units."""

from collections.abc import Iterator
from itertools import product
from statistics import fmean, median

from srnn.lab.paper.evidence import Evidence
from srnn.lab.paper.exhibits import timit
from srnn.lab.paper.figure import depth_figure
from srnn.lab.paper.plan import AblationLine, Exhibit, Plan, Point, grid
from srnn.lab.paper.verdicts import Judgement, claim, combine, finding, mean_at

NARROW, WIDE = 8, 32
DEPTHS = (1, 2, 3)


def points(plan: Plan) -> Iterator[Point]:
    """Yields the runs of each form of f_r."""
    for H, width, depth in product(timit.SIZES, (NARROW, WIDE), DEPTHS):
        line, mlp = AblationLine(units=H, width=width), (width,) * depth
        yield plan.point(line, depth, "speech", direction="echo", hidden_size=H, mlp=mlp, epochs=10)


def _errors(evidence: Evidence, H: int, width: int) -> list[float]:
    return [mean_at(evidence, "timitablation", depth, AblationLine(units=H, width=width)) for depth in DEPTHS]


RATIO = 1.5


@claim(18, f"f_r of width {NARROW} is only slightly worse than of width {WIDE}")
def narrow_is_enough(evidence: Evidence) -> Judgement:
    """Holds when the median of the error of width {NARROW} over that of width {WIDE} is at most {RATIO}."""
    ratios = []
    for H in timit.SIZES:
        ratios += [a / b for a, b in zip(_errors(evidence, H, NARROW), _errors(evidence, H, WIDE), strict=True)]
    said = f"error of width {NARROW} over that of width {WIDE}, one seed each: median {median(ratios):.2f}, from "
    said += f"{min(ratios):.2f} to {max(ratios):.2f}"
    return Judgement(combine([median(ratios) <= RATIO]), said, f"{median(ratios):.2f} times the error, median")


LARGE, SMALL = (1024, 2048), 128
LESS, LITTLE = 0.5, 5  # of the range in small networks; percent of the error


@claim(19, "Depth of f_r matters little in large networks")
def depth_matters_little(evidence: Evidence) -> Judgement:
    """Holds when the worst minus the best of three depths, on average, is at {LARGE[0]} and {LARGE[1]} units less than {LESS}
    of that at {SMALL}, in dB² and as a share of the error (in part: one of both), or less than {LITTLE} % of the error.
    """
    large, small = _ranges(evidence, *LARGE), _ranges(evidence, SMALL)
    shown = [f"{dB:.2f} dB² ({share:.0%} of the error)" for dB, share in (large, small)]
    where = f"at {LARGE[0]} and {LARGE[1]} units"
    said = f"worst minus best of three depths, mean, one seed each: {shown[0]} {where}, {shown[1]} at {SMALL}"
    little = [a < LESS * b or large[1] < LITTLE / 100 for a, b in zip(large, small, strict=True)]
    return Judgement(combine(little), said, f"{large[1]:.0%} of the error {where}")


def _ranges(evidence: Evidence, *sizes: int) -> tuple[float, float]:
    """Returns the mean difference between the worst and the best depth, in dB² and as a share of the best."""
    errors = [_errors(evidence, H, width) for H in sizes for width in (NARROW, WIDE)]
    return fmean(max(each) - min(each) for each in errors), fmean((max(each) - min(each)) / min(each) for each in errors)


@finding("The same runs are printed with different numbers")
def inconsistent(evidence: Evidence) -> str:
    """Table 3 is said to use three hidden layers of 32 in f_r, and so does one line of Figure 4b."""
    table, figure = timit.EXHIBIT.published, EXHIBIT.published
    lines = {H: AblationLine(units=H, width=WIDE) for H in LARGE}
    pairs = [f"{H} units: {table[timit.SpeechLine(), H]} and {figure[line, 3]}" for H, line in lines.items()]
    return f"Table 3 and Figure 4b at depth 3, width {WIDE}: {'; '.join(pairs)} (0.64 is the figure's value at depth 2)."


EXHIBIT = Exhibit(
    "test mean squared error, dB²",
    "hidden layers of f_r",
    draw=depth_figure,
    published=grid(
        {
            AblationLine(units=128, width=8): (18.29, 16.45, 22.54),
            AblationLine(units=128, width=32): (11.82, 12.02, 12.69),
            AblationLine(units=256, width=8): (9.32, 10.16, 11.26),
            AblationLine(units=256, width=32): (7.81, 7.95, 7.85),
            AblationLine(units=512, width=8): (4.64, 3.72, 6.41),
            AblationLine(units=512, width=32): (3.64, 3.72, 4.73),
            AblationLine(units=1024, width=8): (1.69, 1.45, 2.11),
            AblationLine(units=1024, width=32): (1.52, 0.88, 1.36),
            AblationLine(units=2048, width=8): (1.52, 1.45, 1.33),
            AblationLine(units=2048, width=32): (0.71, 0.64, 0.73),
        },
        DEPTHS,
    ),
    departures=("The same corpus replaces TIMIT, on the echo. In the profile cpu 10 epochs.",),
)
