"""A table as plain text in cells, written as CSV, Markdown or LaTeX."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass

LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "#": r"\#",
    "_": r"\_",
    "^": r"\^{}",
    "~": r"\~{}",
    "|": r"\textbar{}",
}
SENTENCE = 40  # letters in a cell from which on it is one
LATEX |= {"±": r"$\pm$", "²": r"$^2$", "—": "---", "<": "$<$", ">": "$>$"}


@dataclass(frozen=True)
class Table:
    """Plain text in rows; the first column names the row. `notes` stand below."""

    name: str
    caption: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()

    def as_csv(self) -> str:
        file = io.StringIO()
        csv.writer(file, lineterminator="\n").writerows([self.headings, *self.rows])
        return file.getvalue()

    def as_markdown(self) -> str:
        lines = [self.headings, ("---",) * len(self.headings), *self.rows]
        body = "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
        return "\n\n".join([f"**{self.caption}**", body, *self.notes]) + "\n"

    def as_latex(self) -> str:
        def row(cells: Sequence[str]) -> str:
            return " & ".join(_latex(cell) for cell in cells) + r" \\"

        body = [row(self.headings), r"\midrule", *(row(cells) for cells in self.rows)]
        notes = [r"\par\footnotesize " + _latex(note) for note in self.notes]
        lines = ["% needs the package booktabs", r"\begin{table}", rf"\caption{{{_latex(self.caption)}}}"]
        lines += [rf"\label{{tab:{self.name}}}", rf"\begin{{tabular}}{{{self._columns()}}}", r"\toprule", *body, r"\bottomrule"]
        return "\n".join([*lines, r"\end{tabular}", *notes, r"\end{table}"]) + "\n"

    def _columns(self) -> str:
        """Of LaTeX: numbers to the right, sentences in paragraphs that share the page."""
        longest = [max(len(row[k]) for row in (self.headings, *self.rows)) for k in range(len(self.headings))]
        share = 0.8 / max(1, sum(length > SENTENCE for length in longest))
        columns = [rf"p{{{share:.2f}\textwidth}}" if length > SENTENCE else "r" for length in longest]
        return "".join(["l" if columns[0] == "r" else columns[0], *columns[1:]])


def _latex(text: str) -> str:
    return "".join(LATEX.get(letter, letter) for letter in text)
