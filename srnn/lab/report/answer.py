"""What the first screen says: the answer in a few sentences, the number of each verdict, and the pictures to look at first.

All numbers are computed from verdicts and records. A sentence is left out when its records are missing.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from statistics import fmean

from srnn.lab.paper.evidence import Evidence, Result
from srnn.lab.paper.figure import Curve, Figure, Panel
from srnn.lab.paper.plan import OURS, StartLine
from srnn.lab.paper.verdicts import VERDICTS, Verdict, kind

DELAY = 1000  # of the copy task on the first screen
PICTURES = {  # by figure: the panel, or "" for all, and the caption
    "copy-seconds": (f"T = {DELAY}", f"Copying ten symbols after {DELAY} steps: loss over CPU seconds, lower is better."),
    "psmnist-seconds": ("pMNIST", "Permuted MNIST: validation accuracy over CPU seconds, higher is better."),
    "hiddenstate": ("", "Hidden states of trained SRNNs: units from top to bottom, time from left to right."),
}


def sentences(judged: Sequence[Verdict], evidence: Evidence) -> list[str]:
    """Returns the answer in up to five sentences."""
    return [counted(judged), *_copied(evidence), *_digits(evidence), *_timed(evidence), *_stopped(evidence)]


def counts(judged: Iterable[Verdict]) -> list[tuple[str, int]]:
    """Returns every verdict, in short, with the number of claims that have it."""
    found = Counter(kind(each.verdict) for each in judged)
    return [(kind(name), found[kind(name)]) for name in VERDICTS]


def counted(judged: Sequence[Verdict]) -> str:
    """Returns the counts of verdicts as a sentence."""
    holds, at_equal_time, in_part, fails, undecided, not_tested = (count for _, count in counts(judged))
    tail = f"{undecided} are undecided, and {not_tested} are not tested" if not_tested else f"and {undecided} are undecided"
    return (
        f"{holds} of the paper's {len(judged)} claims hold, {at_equal_time + in_part} hold in part or at equal CPU time only, "
        f"{fails} do not hold, {tail}."
    )


def runs(evidence: Evidence, exhibit: str, task: str, **settings: object) -> list[Result]:
    """Returns the distinct runs of an exhibit on one task, with these settings of the task or of the run itself.

    Runs with another start value are left out.
    """
    groups = [group for (line, _), group in evidence.results[exhibit].items() if not isinstance(line, StartLine)]
    found = {each.id: each for group in groups for each in group}
    asked = {"name": task, **settings}.items()
    return [each for each in found.values() if asked <= (each.run | each.run["task"] | {"network": each.network}).items()]


def _copied(evidence: Evidence) -> Iterator[str]:
    found = runs(evidence, "copy", "copy", length=DELAY)
    ours, theirs = ([each for each in found if (each.network == "srnn") is is_ours] for is_ours in (True, False))
    if ours and theirs:
        seconds = [at for each in ours if (at := each.reached(each.solved_at)) is not None]
        solved = sorted({each.network for each in theirs if each.is_solved})
        count = len({each.network for each in theirs})
        others = f"of {count} baselines {', '.join(solved)} can" if solved else f"none of {count} baselines can"
        quick = f" in {max(at for _, at in seconds):.0f} CPU seconds or less" if seconds else ""
        yield (
            f"After a delay of {DELAY} steps SRNN can copy ten symbols with {len(seconds)} of {len(ours)} seeds{quick}, and "
            f"{others} after up to {max(each.time for each in theirs) / 60:.0f} CPU minutes."
        )


def _digits(evidence: Evidence) -> Iterator[str]:
    ours, theirs = (runs(evidence, "psmnist", "pmnist", network=name, recipe="paper") for name in ("srnn", "gru"))
    if ours and theirs:
        best = max(theirs, key=lambda each: each.value or 0.0)
        minutes = fmean(each.cpu_seconds for each in ours) / 60
        yield (
            f"On permuted MNIST SRNN reaches {_mean(ours):.1f} % test accuracy in {minutes:.0f} CPU minutes "
            f"({ours[0].epochs:.0f} epochs), and nn.GRU {best.value:.1f} % in {best.cpu_seconds / 60:.0f} CPU minutes "
            f"({best.epochs:.0f} epochs)."
        )


def _mean(results: Sequence[Result]) -> float:
    return fmean(each.value or 0.0 for each in results)


def _timed(evidence: Evidence) -> Iterator[str]:
    found = [each.found["times_srnn"] for each in evidence.measured["runtime"].values()]
    times = {network: [each[network] for each in found if network in each] for network in ("gru", "rnn")}
    if all(times.values()):
        gru, rnn = (f"{min(each):.1f} to {max(each):.1f} times" for each in times.values())
        yield f"With real inputs a training step of nn.GRU takes {gru} as long as one of SRNN, and one of nn.RNN {rnn} as long."


def _stopped(evidence: Evidence) -> Iterator[str]:
    theirs = [each for each in evidence.runs.values() if each.network not in OURS]
    stopped = sum(each.is_stopped for each in theirs)
    if stopped:
        yield (
            f"Baselines are slow on a CPU: {stopped} of their {len(theirs)} runs in the exhibits ended before all planned "
            "updates, so most comparisons are at equal CPU time, not at equal training examples."
        )


def pictures(figures: Iterable[Figure]) -> list[Figure]:
    """Returns the figures of the first screen, in the order of PICTURES."""
    named = {figure.name: figure for figure in figures if figure.name in PICTURES}
    found = []
    for name, (title, caption) in PICTURES.items():
        panels = [panel for panel in named[name].panels if title in ("", panel.title)] if name in named else []
        found += [replace(named[name], name=f"first-{name}", caption=caption, panels=panels[:4])] if panels else []
    return found


def lead(evidence: Evidence) -> Figure | None:
    """Returns validation accuracy on permuted MNIST over CPU seconds, of SRNN and nn.GRU; None without records of both."""
    lines, sentences = [], []
    for network, label in (("srnn", "SRNN"), ("gru", "nn.GRU")):
        found = runs(evidence, "psmnist", "pmnist", network=network, recipe="paper")
        drawn = [each for each in found if len(each.smooth) > 2] or [each for each in found if each.smooth]
        if not drawn:
            return None
        drawn = [each for each in drawn if each.epochs == max(other.epochs or 0 for other in drawn)]
        for k, each in enumerate(drawn):
            _, seconds, values = zip(*each.smooth, strict=True)
            lines.append(Curve(label, seconds, values, network, thin=k > 0))
        times, first = fmean(each.cpu_seconds for each in drawn) / 60, drawn[0]
        sentences.append(
            f"{label} ({first.parameters:,} parameters): {_mean(drawn):.1f} % test accuracy after {first.epochs:.0f} epochs, "
            f"{times:.0f} CPU minutes"
        )
    guides = [("chance level", first.chance)]
    panel = Panel("", "CPU seconds, one thread", "validation accuracy, %", lines, guides, bottom=0.0, top=100.0)
    seeds = sum(line.label == "SRNN" for line in lines)
    caption = (
        f"Permuted MNIST, 784 steps, one thread, the paper's settings. {'. '.join(sentences)}. SRNN ({seeds} seeds) reads grey "
    )
    caption += "levels as symbols."
    alt = "Validation accuracy on permuted MNIST over CPU seconds, for SRNN and nn.GRU."
    return Figure("lead", caption, alt, [panel])
