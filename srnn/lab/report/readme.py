"""`srnn report --readme`: fills README.md and docs/ from the records.

README.md           <!-- lead:begin --> one figure; <!-- speed:begin --> rows of `srnn bench`;
                    <!-- verdicts:begin --> one line of counts and one figure
docs/verdicts.md    every claim with its verdict, the rules and the findings
docs/figures/       the figures that these documents show
"""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from srnn.errors import StorageError
from srnn.lab.paper.evidence import Evidence
from srnn.lab.paper.exhibits import EXHIBITS
from srnn.lab.paper.figure import Figure
from srnn.lab.paper.plan import Plan
from srnn.lab.paper.verdicts import ABOUT, changes, findings, verdict_table, verdicts
from srnn.lab.records import store
from srnn.lab.report import answer, page, plot

SPEED = {  # rows of the README by their keys in the record of `srnn bench`, those without a special form first
    "long": "one sequence of 10,000 steps, forward and backward",
    "pmnist-real": "permuted MNIST, 784 steps, real inputs",
    "adding": "adding, 300 steps",
    "speech": "speech frames, 151 steps",
    "pmnist": "permuted MNIST, 784 steps, alphabet form",
}
FIGURES = ("copy", "runtime", "psmnist", "adding")  # in docs/figures; the first one with records goes into the README


def fill_readme(results: Path, readme: Path, console: Console, plan: Plan | None = None) -> None:
    """Fills the blocks "lead", "speed" and "verdicts" of a README, and writes docs/verdicts.md and docs/figures next to it.

    Args:
        results: Folder with the records.
        readme: File that contains the begin and end markers of the blocks.
        console: Receives a line for each record that cannot be read.
        plan: Profile of the experiments; the default is `cpu` with all networks.

    Raises:
        RecordError: If there are no records, or a marker is missing. Nothing is written then.
        StorageError: If docs/figures cannot be written.
    """
    found = page.read(results, console, plan)
    evidence = Evidence.gather(found.found, plan or Plan(all_networks=True))
    lead, drawn = answer.lead(evidence), document_figures(evidence)
    blocks = {"lead": lead_block(lead), "speed": speed_block(results), "verdicts": verdict_block(evidence, drawn)}
    for name, block in blocks.items():
        store.filled(readme, name, block)  # raises before anything is written
    folder = readme.parent / "docs" / "figures"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in {*FIGURES, "lead"} - {figure.name for figure in (lead, *drawn) if figure}:
            (folder / f"{name}.svg").unlink(missing_ok=True)  # its records are no longer there
        for figure in drawn:
            plot.save(figure, folder, ["svg"])
        if lead:
            plot.save_lead(lead, folder)
    except OSError as error:
        raise StorageError(f"{folder} cannot be written: {error.strerror}") from error
    store.replace(folder.parent / "verdicts.md", verdict_document(evidence, page.about(found)).encode())
    for name, block in blocks.items():
        store.replace(readme, store.filled(readme, name, block))


def document_figures(evidence: Evidence) -> list[Figure]:
    """Returns the first figure of each exhibit in FIGURES that has records."""
    return [figure for name in FIGURES for figure in EXHIBITS[name].figures(evidence)[:1]]


def lead_block(lead: Figure | None) -> str:
    """Returns the figure at the top of the README with its caption, or a sentence where there are no records of it."""
    return f"{_image(lead)}\n\n{lead.caption}" if lead else "There are no records of SRNN and nn.GRU on permuted MNIST yet."


def speed_block(results: Path) -> str:
    """Returns how many times faster than nn.GRU a training step of SRNN is, by the rows of SPEED that were measured."""
    if not (path := results / "bench.json").exists():
        return "There is no record of `srnn bench` yet."
    record = store.read(path)
    faster = {row["key"]: row["times_faster"]["gru"] for row in record["results"]["training"] if row["key"] in SPEED}
    rows = [f"| {title} | {faster[key]:.{1 if faster[key] < 20 else 0}f} |" for key, title in SPEED.items() if key in faster]
    machine = f"{record['machine']['threads']} threads of {record['machine']['cpu']}"
    lines = ["| training step | times faster than nn.GRU |", "| --- | --: |", *rows, "", f"128 units, {machine}, float32."]
    return "\n".join(lines)


def verdict_block(evidence: Evidence, drawn: Sequence[Figure]) -> str:
    """Returns one line with the counts of verdicts, and one figure."""
    line = f"**{answer.counted(verdicts(evidence))}** [All claims and verdicts](docs/verdicts.md)"
    return "\n\n".join([line, *map(_image, drawn[:1])])


def _image(figure: Figure) -> str:
    return f"![{figure.alt}](docs/figures/{figure.name}.svg)"


def verdict_document(evidence: Evidence, about: str) -> str:
    """Returns docs/verdicts.md: verdicts with numbers and rules, findings, and a paragraph about the records."""
    origin = (
        "The paper is Rotman and Wolf, Shuffling Recurrent Neural Networks "
        "([arXiv 2007.07324](https://arxiv.org/abs/2007.07324)). `srnn report --readme README.md` writes this page from the "
        "records. `srnn report` writes one with all tables and figures."
    )
    lines = ["# Does the paper hold?", origin]
    lines += [verdict_table(verdicts(evidence)).as_markdown().rstrip(), "## How a verdict is computed", *ABOUT]
    lines += ["## Rules that were changed after data were seen", "\n".join(f"- {each}" for each in changes())]
    lines += ["## What we found about the published experiments"]
    lines += [f"**{each.title}.** {each.text} {each.seen}" for each in findings(evidence)]
    return "\n\n".join([*lines, "## Records", about]) + "\n"
