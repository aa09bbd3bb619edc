"""The figures of each exhibit, from what was recorded: as the paper draws them, and once more over seconds."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy

from srnn.paper import RIVALS, Exhibit
from srnn.plot import Figure, Line, Panel
from srnn.report.evidence import Evidence, Result, mean
from srnn.report.tables import PRINTED, SHORT, TIMED

SHOWN = ("srnn", *RIVALS)
OURS = "srnn, our recipe"


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
    return Line(label, x, y, band=band)


def _columns(result: Result, over: str) -> tuple[list[float], list[float]]:
    updates = max(1, result.updates)
    per_update = {"updates": 1.0, "examples": result.examples / updates, "epochs": (result.epochs or 0) / updates}
    x = [seconds if over == "seconds" else step * per_update[over] for step, seconds, _ in result.curve]
    return x, [value for _, _, value in result.curve]


AXES = {"updates": "training steps", "examples": "training examples", "seconds": "CPU seconds, one thread", "epochs": "epochs"}


def memory_figures(exhibit: Exhibit, evidence: Evidence) -> Iterator[Figure]:
    """Copy and adding: a panel for each length, over examples and over seconds."""
    places = list(dict.fromkeys(x for _, x in evidence.results[exhibit.id]))
    lines = [line for line in dict.fromkeys(line for line, _ in evidence.results[exhibit.id]) if line in (*SHOWN, OURS)]
    for over in ("examples" if exhibit.id == "copy" else "updates", "seconds"):  # the first as the paper has it
        panels = []
        for T in places:
            found = {line: evidence.results[exhibit.id].get((line, T), ()) for line in lines}
            shown = [curve(line, results, over) for line, results in found.items() if results and results[0].curve]
            if not shown:
                continue
            guesser = next(results[0].guesser for results in found.values() if results)
            bottom = guesser / 1e4 if exhibit.id == "copy" else guesser / 200
            panels.append(Panel(f"T = {T}", AXES[over], exhibit.metric, shown, [("guesser", guesser)], "y", bottom))
        suffix = "-seconds" if over == "seconds" else ""
        caption = f"{exhibit.title}, over {AXES[over]}: means of 500 updates. The band holds all seeds of SRNN."
        alt = f"Loss over {AXES[over]} for {', '.join(lines)}, one panel for each length, with the line of a guesser."
        yield Figure(f"{exhibit.id}{suffix}", caption, alt, panels)


def digit_figures(exhibit: Exhibit, evidence: Evidence) -> Iterator[Figure]:
    found = evidence.results[exhibit.id]
    for over in ("epochs", "seconds"):
        panels = []
        for task in ("pmnist", "bigpmnist"):
            lines = [line for line, x in found if x == task and (line in SHOWN or line.startswith(("srnn", "gru,")))]
            shown = [curve(line, found[line, task], over) for line in lines if found[line, task][0].curve]
            if shown:
                log = "x" if over == "seconds" else ""
                panels.append(Panel(SHORT[task], AXES[over], "validation accuracy, percent", shown, [("guesser", 10.0)], log))
        suffix = "" if over == "epochs" else "-seconds"
        caption = f"Permuted MNIST over {AXES[over]}: accuracy on the validation images. The band holds all seeds."
        alt = f"Validation accuracy over {AXES[over]} for each network, on pMNIST and on big pMNIST."
        yield Figure(f"psmnist{suffix}", caption, alt, panels)


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
            panels.append(Panel(f"{units} units", exhibit.axis, exhibit.metric, shown))
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
                shown.append(Line(network, *_unzip(points), network, dots="o"))
                guides = [(name, value) for name, value in found[line, points[0][0]][0].record["lines"].items()]
            paper = sorted((x, value) for (name, x), value in exhibit.published.items() if name == network)
            if paper and not direction and points:
                shown.append(Line(f"{network}, paper", *_unzip(paper), network, dashed=True))
        if shown:
            panels.append(Panel(title, "units", exhibit.metric, shown, guides, "xy" if not direction else "x"))
    alt = "Test error over the number of units for each network, on both directions of the speech task."
    yield Figure("timit", "Speech frames: test error at the best validation epoch; the paper's numbers dotted.", alt, panels)


def label_figures(exhibit: Exhibit, evidence: Evidence) -> Iterator[Figure]:
    found = evidence.results[exhibit.id]
    for over in ("epochs", "seconds"):
        panels = []
        for crop in ("8x8", "16x16"):
            for N in dict.fromkeys(x for _, x in found):
                lines = [line for line, x in found if x == N and line.endswith(f", {crop}")]
                shown = [curve(line.split(",")[0], found[line, N], over) for line in lines if found[line, N][0].curve]
                if shown:
                    log = "x" if over == "seconds" else ""
                    guides = [("guesser", 10.0)]
                    panels.append(Panel(f"{crop}, {N} samples", AXES[over], "accuracy, percent", shown, guides, log))
        alt = (
            f"Accuracy on the training samples over {AXES[over]} for each network, a panel for each crop and number of samples."
        )
        caption = f"Random labels learned by heart, over {AXES[over]}: accuracy on the training samples."
        yield Figure("randomlabels" + ("-seconds" if over == "seconds" else ""), caption, alt, panels)


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
    yield Figure("gradients", "The gradient on its way back: untrained (5 seeds, band), and trained (dotted).", alt, panels)
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
    middle = numpy.exp(numpy.log(rows).mean(axis=0))
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
        names = [name for name in found["times_srnn"] if name != "srnn, dense"]
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
            panels.append(Panel(f"over {axis}", axis, "milliseconds", shown, (), "xy"))
    alt = "Time of a gradient step for one sequence over the number of units and over the number of steps, for each network."
    yield Figure("timecomplexity", "Time of forward and backward for one sequence, one thread.", alt, panels)


def shuffle_figures(exhibit: Exhibit, evidence: Evidence) -> Iterator[Figure]:
    found = evidence.results[exhibit.id]
    for over in ("examples", "seconds"):
        panels = []
        for task in ("copy", "adding"):
            for T in dict.fromkeys(x for line, x in found if line.startswith(task)):
                kinds = [line for line, x in found if x == T and line.startswith(task)]
                shown = [curve(line.split(", ")[1], found[line, T], over) for line in kinds if found[line, T][0].curve]
                guesser = found[kinds[0], T][0].guesser
                guides = [("guesser", guesser)]
                panels.append(Panel(f"{task}, T = {T}", AXES[over], "loss", shown, guides, "y", guesser / 1e4))
        alt = f"Loss over {AXES[over]} with the shift, a random permutation and none, on copying memory and adding."
        caption = f"SRNN with the shift, with a random permutation, and with none, over {AXES[over]}."
        yield Figure("permutation" + ("-seconds" if over == "seconds" else ""), caption, alt, panels)


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
