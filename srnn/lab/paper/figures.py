"""The figures of each exhibit, from what was recorded: as the paper draws them, and once more over seconds."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy

from srnn.lab.paper.evidence import CLOCKS, CUT, Evidence, Result, mean
from srnn.lab.paper.figure import Figure, Line, Panel
from srnn.lab.paper.plan import RIVALS, SIZES, Exhibit
from srnn.lab.paper.rules import NEAREST
from srnn.lab.paper.tables import PRINTED, SHORT, TIMED

SHOWN = ("srnn", *RIVALS)


def figures(exhibit: Exhibit, evidence: Evidence) -> list[Figure]:
    """Those for which something was recorded."""
    return [figure for figure in BUILDERS[exhibit.id](exhibit, evidence) if figure.panels]


def curve(label: str, results: Sequence[Result], over: str) -> Line:
    """The first seed as a line, all of them as a band; over training "examples", "seconds" or "epochs"."""
    x, y = _columns(results[0], over)
    band = None
    if len(results) > 1:
        sides = [numpy.interp(x, *_columns(each, over)) for each in results if each.curve]
        band = numpy.min(sides, axis=0).tolist(), numpy.max(sides, axis=0).tolist()
    return Line(label, x, y, band=band, dots="o" if len(x) < 3 else "")  # a run that was evaluated once has no line


def _columns(result: Result, over: str) -> tuple[list[float], list[float]]:
    updates = max(1, result.updates)
    per_update = {"updates": 1.0, "examples": result.examples / updates, "epochs": (result.epochs or 0) / updates}
    x = [seconds if over == "seconds" else step * per_update[over] for step, seconds, _ in result.curve]
    return x, [value for _, _, value in result.curve]


AXES = {"updates": "training steps", "examples": "training examples", "seconds": "CPU seconds, one thread", "epochs": "epochs"}
Curves = Sequence[tuple[Panel, dict[str, Sequence[Result]]]]  # axes without lines, and the results whose curves go there


def over_both(name: str, first: str, curves: Curves, caption: str, alt: str, stretch: bool = False) -> Iterator[Figure]:
    """The same panels over `first`, as the paper has them, and over seconds, where an axis that is to be logarithmic is so.

    stretch     whether it is so in both, since rivals would lie in one place otherwise
    """
    for over in (first, "seconds"):
        panels = []
        for panel, found in curves:
            lines = [curve(label, results, over) for label, results in found.items() if results and results[0].curve]
            log = panel.log if over == "seconds" or stretch else panel.log.replace("x", "")
            panels += [replace(panel, x=AXES[over], lines=lines, log=log, note=_note(found))] if lines else []
        suffix = "-seconds" if over == "seconds" else ""
        yield Figure(name + suffix, caption.format(AXES[over]), alt.format(AXES[over]), panels)


def _note(found: Mapping[str, Sequence[Result]]) -> str:
    """Returns the note of a panel in which a time limit stopped every run of a baseline."""
    theirs = [each for results in found.values() for each in results if each.run["network"]["name"] != "srnn"]
    return "clock stopped all baselines" if theirs and all(each.record["ended_by"] in CLOCKS for each in theirs) else ""


def memory_figures(exhibit: Exhibit, evidence: Evidence) -> Iterator[Figure]:
    """Copy and adding: a panel for each length."""
    found = evidence.results[exhibit.id]
    names = [line for line in dict.fromkeys(line for line, _ in found) if line in SHOWN or line.startswith("srnn, ")]
    names = [line for line in names if not line.endswith("one-hot")]
    curves = []
    for T in dict.fromkeys(x for _, x in found):
        lines = {line: found.get((line, T), ()) for line in names}
        guesser = next((results[0].guesser for results in lines.values() if results), 1.0)
        bottom = guesser / (1e4 if exhibit.id == "copy" else 200)
        curves.append((Panel(f"T = {T}", "", exhibit.metric, (), [("guesser", guesser)], "y", bottom, 10 * guesser), lines))
    caption = (
        f"{exhibit.title}, over {{}}: medians of five means of 100 updates; above ten times the guesser's line they are cut. "
        "A band holds all seeds."
    )
    alt = f"Loss over {{}} for {', '.join(names)}, one panel for each length, with the line of a guesser."
    yield from over_both(exhibit.id, "examples" if exhibit.id == "copy" else "updates", curves, caption, alt)


def digit_figures(exhibit: Exhibit, evidence: Evidence) -> Iterator[Figure]:
    found, curves = evidence.results[exhibit.id], []
    for task in ("pmnist", "bigpmnist"):
        names = [line for line, x in found if x == task and (line in SHOWN or line.startswith(("srnn", "gru, 5")))]
        panel = Panel(SHORT[task], "", "validation accuracy, percent", (), [("guesser", 10.0)], "x")
        curves.append((panel, {line: found[line, task] for line in names}))
    caption = "Permuted MNIST over {}: accuracy on the validation images. The band holds all seeds."
    alt = "Validation accuracy over {} for each network, on pMNIST and on big pMNIST."
    yield from over_both("psmnist", "epochs", curves, caption, alt, stretch=True)


def depth_figures(exhibit: Exhibit, evidence: Evidence) -> Iterator[Figure]:
    """Ablations: a score over the depth of f_r, ours as lines, the paper's dotted."""
    groups: dict[str, list[str]] = {}
    for line in dict.fromkeys(line for line, _ in evidence.planned[exhibit.id]):
        groups.setdefault(line.split(" units")[0], []).append(line)
    panels = []
    for units, lines in groups.items():
        shown: list[Line] = []
        for k, line in enumerate(lines):
            ours = [(x, mean(results)) for (name, x), results in evidence.results[exhibit.id].items() if name == line]
            points = sorted((x, value) for x, value in ours if value is not None)
            if not points:
                continue
            label = line.split("units, ")[1]
            paper = sorted((x, value) for (name, x), value in exhibit.published.items() if name == line)
            style = str(k)
            shown.append(Line(label, *_unzip(points), style, dots="o"))
            shown.append(Line(f"{label}, paper", *_unzip(paper), style, dashed=True))
        if shown:
            panels.append(Panel(f"{units} units", exhibit.axis, exhibit.metric, shown, ticks=(1, 2, 3)))
    alt = "Score over the number of hidden layers of f_r, one panel for each number of units, ours and the paper's."
    yield Figure(exhibit.id, f"{exhibit.title}: ours, and the paper's dotted.", alt, panels)


def _unzip(points: Sequence[tuple[Any, Any]]) -> tuple[list[Any], list[Any]]:
    return [x for x, _ in points], [y for _, y in points]


def speech_figures(exhibit: Exhibit, evidence: Evidence) -> Iterator[Figure]:
    panels = []
    found = evidence.results[exhibit.id]
    for direction, title in (("", "echo, the task of the published numbers"), (", predict", "prediction of the next frame")):
        shown, guides = [], []
        for network in ("srnn", "lstm", "gru", "urnn", "nru"):
            line = f"{network}{direction}"
            points = sorted((x, mean(results)) for (name, x), results in found.items() if name == line and mean(results))
            if points:
                cut = any(not each.is_whole for x, _ in points for each in found[line, x])
                shown.append(Line(f"{network}{CUT if cut else ''}", *_unzip(points), network, dots="o"))
                guides = [(name, value) for name, value in found[line, points[0][0]][0].record["lines"].items()]
            paper = sorted((x, value) for (name, x), value in exhibit.published.items() if name == network)
            if paper and not direction and points:
                shown.append(Line(f"{network}, paper", *_unzip(paper), network, dashed=True))
        if shown:
            panels.append(Panel(title, "units", exhibit.metric, shown, guides, "x" if direction else "xy", ticks=SIZES))
    alt = "Test error over the number of units for each network, on both directions of the speech task."
    caption = "Speech frames: test error at the best validation epoch; dotted the paper's, which are of another corpus."
    yield Figure("timit", f"{caption} {CUT} With runs that the clock has ended.", alt, panels)
    yield from speech_curves(exhibit, evidence)


def speech_curves(exhibit: Exhibit, evidence: Evidence) -> Iterator[Figure]:
    """A panel for each direction and number of units; networks of one size only stand beside the nearest."""
    found, curves = evidence.results[exhibit.id], []
    for direction, suffix in (("echo", ""), ("prediction", ", predict")):
        for H in SIZES:
            sizes = dict.fromkeys(("srnn", "lstm", "gru", "urnn", "nru"), H)
            sizes |= {name: size for (name, size), nearest in NEAREST.items() if nearest == H}
            lines = {
                name if size == H else f"{name}, {size} units": found.get((f"{name}{suffix}", size), ())
                for name, size in sizes.items()
            }
            curves.append((Panel(f"{direction}, {H} units", "", "validation error, dB²", log="xy"), lines))
    alt = "Validation error over {} for each network, a panel for each direction of the task and number of units."
    yield from over_both("timit-curves", "epochs", curves, "Speech frames over {}: error on the validation utterances.", alt)


def label_figures(exhibit: Exhibit, evidence: Evidence) -> Iterator[Figure]:
    found, curves = evidence.results[exhibit.id], []
    for crop in ("8x8", "16x16"):
        for N in dict.fromkeys(x for _, x in found):
            names = [line for line, x in found if x == N and line.endswith(f", {crop}")]
            panel = Panel(f"{crop}, {N} samples", "", "accuracy, percent", (), [("guesser", 10.0)], "x")
            curves.append((panel, {line.split(",")[0]: found[line, N] for line in names}))
    alt = "Accuracy on the training samples over {} for each network, a panel for each crop and number of samples."
    caption = "Random labels learned by heart, over {}: accuracy on the training samples."
    yield from over_both("randomlabels", "epochs", curves, caption, alt)


def gradient_figures(exhibit: Exhibit, evidence: Evidence) -> Iterator[Figure]:
    measured = {key: record["found"] for key, record in evidence.measured[exhibit.id].items()}
    panels = []
    for task in ("adding", "copy"):
        for T in [x for x in dict.fromkeys(x for _, x in measured) if isinstance(x, int)]:
            shown = []
            for network in ("srnn", "rnn", "lstm", "gru"):
                for state in ("untrained", "trained"):
                    found = measured.get((f"{network} on {task}, {state}", T))
                    if found and "norm" in found:
                        shown.append(_norms(f"{network}, {state}", network, found, dashed=state == "trained"))
            if shown:
                panels.append(Panel(f"{task}, T = {T}", "step t", "norm of dL/dh_t", shown, (), "y", 1e-12))
    alt = "Norm of the gradient of the loss by the state over the step, for SRNN, RNN, LSTM and GRU, untrained and trained."
    yield Figure(
        "gradients", "The gradient on its way back: untrained (median and band of 5 seeds), and trained (dotted).", alt, panels
    )
    panels = []
    for task in ("adding", "copy", "pmnist"):
        shown = []
        for state in ("untrained", "trained"):
            found = measured.get((f"units on {task}, {state}", task))
            if not found:
                continue
            rows, k = numpy.asarray(found["newborn"]), [each + 1 for each in found["k"]]
            band = (rows.min(0).tolist(), rows.max(0).tolist()) if len(rows) > 1 else None
            if not shown:
                shown += [
                    Line("estimate of the paper", k, found["paper"], "rnn"),
                    Line("symmetric walk", k, found["walk"], "nru"),
                ]
            shown.append(Line(f"units, {state}", k, rows.mean(0).tolist(), "srnn" if state == "trained" else "gru", band))
        if shown:
            panels.append(Panel(task, "steps + 1", "share of newborn units", shown, (), "xy", 1e-3))
    alt = "Share of units that have not met a zero over steps since they became positive, beside two estimates."
    yield Figure("gradients-survival", "How long a unit lives after it became positive.", alt, panels)


def _norms(label: str, style: str, found: Any, dashed: bool) -> Line:
    rows = numpy.maximum(numpy.asarray(found["norm"]), 1e-30)
    middle = numpy.median(rows, axis=0)  # as in the table; a mean would be that of the seeds whose units have died
    band = (rows.min(0).tolist(), rows.max(0).tolist()) if len(rows) > 1 else None
    return Line(label, found["t"], middle.tolist(), style, band, dashed=dashed)


def state_figures(exhibit: Exhibit, evidence: Evidence) -> Iterator[Figure]:
    panels = []
    for task in TIMED:
        record = evidence.measured[exhibit.id].get(("srnn", task))
        if record:
            found = record["found"]
            units = f"{found['units_drawn']} of {found['units']} units" if found["units_drawn"] < found["units"] else "units"
            panels.append(Panel(SHORT[task], "step", units, png=found["png"], marks=found["markers"]))
    alt = (
        "Hidden states as pictures, units downwards and steps to the right, with the shift undone: copying memory, adding "
        "with arrows at its two markers, pMNIST and speech."
    )
    yield Figure("hiddenstate", "Hidden states of trained networks, brighter is larger; arrows: markers.", alt, panels)


def runtime_figures(exhibit: Exhibit, evidence: Evidence) -> Iterator[Figure]:
    panels = []
    for task in TIMED:
        record = evidence.measured[exhibit.id].get(("Table 4", task))
        if not record:
            continue
        found = record["found"]
        names = list(found["times_srnn"])
        paper = {
            name: exhibit.published[name, task] / exhibit.published["srnn", task] for name, x in exhibit.published if x == task
        }
        theirs = [(paper[PRINTED.get(name, name)], k) for k, name in enumerate(names) if PRINTED.get(name, name) in paper]
        ours = [(found["times_srnn"][name], k) for k, name in enumerate(names)]
        lines = [
            Line("here", *_unzip(ours), "srnn", dots="o", thin=True),
            Line("in the paper", *_unzip(theirs), "gru", dots="o", thin=True, dashed=True),
        ]
        panels.append(Panel(SHORT[task], "times SRNN's time", "", lines, (), "x", names=names))
    alt = "Time of a training step of each network as a multiple of SRNN's, here and in the paper, one panel for each task."
    yield Figure("runtime", "Time of a training step as a multiple of SRNN's with real inputs.", alt, panels)


def growth_figures(exhibit: Exhibit, evidence: Evidence) -> Iterator[Figure]:
    panels = []
    for over, axis in (("units", "units d_h"), ("steps", "steps T")):
        shown = [
            Line(name, record["found"]["sizes"], record["found"]["milliseconds"], name, dots=".")
            for (name, x), record in evidence.measured[exhibit.id].items()
            if x == over
        ]
        if shown:
            panels.append(Panel(f"over {axis}", axis, "milliseconds", shown, (), "xy", ticks=shown[0].x))
    alt = "Time of a gradient step for one sequence over the number of units and over the number of steps, for each network."
    yield Figure("timecomplexity", "Time of forward and backward for one sequence, one thread.", alt, panels)


def shuffle_figures(exhibit: Exhibit, evidence: Evidence) -> Iterator[Figure]:
    found, curves = evidence.results[exhibit.id], []
    for task in ("copy", "adding"):
        for T in dict.fromkeys(x for line, x in found if line.startswith(task)):
            kinds = [line for line, x in found if x == T and line.startswith(task)]
            guesser = found[kinds[0], T][0].guesser
            panel = Panel(f"{task}, T = {T}", "", "loss", (), [("guesser", guesser)], "y", guesser / 1e4)
            curves.append((panel, {line.split(", ")[1]: found[line, T] for line in kinds}))
    alt = "Loss over {} with the shift, a random permutation and none, on copying memory and adding."
    caption = "SRNN with the shift, with a random permutation, and with none, over {}."
    yield from over_both("permutation", "examples", curves, caption, alt)


BUILDERS: dict[str, Callable[[Exhibit, Evidence], Iterator[Figure]]] = {
    "copy": memory_figures,
    "adding": memory_figures,
    "psmnist": digit_figures,
    "pmnistablation": depth_figures,
    "timitablation": depth_figures,
    "timit": speech_figures,
    "randomlabels": label_figures,
    "gradients": gradient_figures,
    "hiddenstate": state_figures,
    "runtime": runtime_figures,
    "timecomplexity": growth_figures,
    "permutation": shuffle_figures,
}
