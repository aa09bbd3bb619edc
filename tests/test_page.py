"""The page of the report: what it says, that it needs nothing else, and how it looks in a browser; and the README's blocks."""

import io
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import test_report as paper  # records of a world in which the paper is right
from browser import CHROMIUM, Browser
from rich.console import Console

from srnn.errors import RecordError, StorageError
from srnn.lab import report
from srnn.lab.cli import app
from srnn.lab.paper.evidence import Evidence
from srnn.lab.paper.exhibits import EXHIBITS
from srnn.lab.paper.figure import Figure, Panel
from srnn.lab.paper.plan import OURS, Line, Plan
from srnn.lab.paper.verdicts import verdicts
from srnn.lab.records import record as stored
from srnn.lab.records import store
from srnn.lab.records.record import Record, Records
from srnn.lab.report import answer, page, readme
from srnn.lab.training.recipes import make_run

ROOT = Path(__file__).parents[1]
world = paper.world


@pytest.fixture(scope="module")
def records() -> Evidence:
    """The records of the repository."""
    return Evidence.gather(stored.read(ROOT / "results").found, Plan(all_networks=True))


def is_baseline(record: dict[str, Any]) -> bool:
    return record["kind"] == "run" and record["run"]["network"]["name"] not in OURS


def all_stopped(world: list[dict[str, Any]]) -> Evidence:
    """Returns the records as if a time limit had stopped every run of a baseline."""
    return paper.gathered([paper.cut(record) if is_baseline(record) else record for record in world])


class Page(HTMLParser):
    """What a page holds: ids, links, headings, tables with captions, resources that it would load."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.headings: list[str] = []
        self.loads: list[str] = []
        self.tables = self.captions = self.pictures = self.named = self.scripts = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        about = dict(attributes)
        self.ids += [about["id"]] if about.get("id") else []  # type: ignore[list-item]
        self.links += [about["href"] or ""] if tag == "a" else []
        self.headings += [tag] if re.fullmatch("h[1-6]", tag) else []
        self.tables += tag == "table"
        self.captions += tag == "caption"
        self.scripts += tag == "script"
        self.pictures += about.get("role") == "img"
        self.named += about.get("role") == "img" and bool(about.get("aria-label"))
        if tag in ("script", "link", "iframe", "object", "embed") or (tag in ("img", "image", "use", "source")):
            self.loads += [value for name, value in about.items() if name in ("src", "href", "xlink:href") and value]


@pytest.fixture(scope="module")
def made(world: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report with every exhibit."""
    folder = tmp_path_factory.mktemp("report")
    (folder / "all.jsonl").write_text("".join(paper.line(record) for record in world))
    said = io.StringIO()
    made = report.make(folder, folder / "out", Console(file=said), plan=None)
    assert said.getvalue().strip() == ""  # no record was skipped
    return made


def test_page_needs_nothing_but_itself(made: Path) -> None:
    text = made.read_text(encoding="utf-8")
    page = Page(text)
    assert text.startswith("<!doctype html>")
    assert len(text.encode()) < 5_200_000
    assert all(load.startswith(("data:", "#")) for load in page.loads), page.loads
    assert page.scripts == 0
    assert not re.search(r"@import|url\((?!#)", text)
    assert len(page.ids) == len(set(page.ids))
    for link in page.links:
        assert link[1:] in page.ids if link.startswith("#") else (made.parent / link).stat().st_size > 0, link
    assert page.tables == page.captions > 12
    assert page.pictures == page.named > 40
    assert page.headings[0] == "h1"
    assert page.headings.count("h1") == 1
    assert {f"claim-{k}" for k in range(1, 28)} | set(EXHIBITS) <= set(page.ids)
    assert {path.stem for path in made.parent.glob("figures/*.svg")} >= {*EXHIBITS, "copy-seconds", "gradients-survival"}
    assert "after 20,000 updates" in text  # a measurement among the records
    assert "96.43" in text  # a number of the paper
    for figure in made.parent.glob("figures/*.svg"):
        assert figure.with_suffix(".pdf").exists()


def test_page_of_some_records_says_what_was_not_run(world: list[dict[str, Any]], tmp_path: Path) -> None:
    runs = [record["run"] | {"record": record} for record in world if record["kind"] == "run"]
    some = [run["record"] for run in runs if (run["task"]["name"], run["network"]["name"]) == ("copy", "srnn")]
    (tmp_path / "some.jsonl").write_text(
        "".join(paper.line(record) for record in some) + "broken\n" + '{"kind": "run", "id": "x", "format": 9}\n'
    )
    console = Console(file=io.StringIO(), width=200)
    text = report.make(tmp_path, tmp_path / "out", console, plan=None).read_text(encoding="utf-8")
    said = console.file.getvalue()  # type: ignore[attr-defined]
    for fault in (f"some.jsonl:{len(some) + 1} is damaged", f"some.jsonl:{len(some) + 2} is of another version"):
        assert fault in said
        assert fault in text
    assert "not run: copy, gru at 100" in text
    assert ">not run</td>" in text


def test_page_of_few_exhibits_links_to_no_other(world: list[dict[str, Any]], tmp_path: Path) -> None:
    few = list(EXHIBITS["permutation"].points(Plan()))
    (tmp_path / "all.jsonl").write_text("".join(paper.line(record) for record in world))
    console = Console(file=io.StringIO())
    made = report.make(tmp_path, tmp_path / "out", console, points={"permutation": few}, is_experiment=False)
    page = Page(made.read_text(encoding="utf-8"))
    assert "permutation" in page.ids
    assert [link for link in page.links if link.startswith("#") and link[1:] not in page.ids] == []


def test_runs_beyond_the_plan_do_not_count_as_planned(world: list[dict[str, Any]], tmp_path: Path) -> None:
    for name in ("figures", "tables"):
        (tmp_path / name).mkdir()
    evidence = paper.gathered(world)
    found = page._section(EXHIBITS["copy"], evidence, tmp_path)
    extra = sum(paper.is_extra(point.line) for point in EXHIBITS["copy"].points(Plan()))  # which this world lacks
    assert found["recorded"] == found["planned"] - extra
    more = {**evidence.results["copy"], (Line("lru"), 100): evidence.results["copy"][Line("gru"), 100]}
    evidence = Evidence({**evidence.results, "copy": more}, evidence.measured, evidence.planned)
    assert page._section(EXHIBITS["copy"], evidence, tmp_path)["recorded"] == found["recorded"]


def test_score_of_measured_weights_is_shown_if_it_differs_from_the_recorded_run(world: list[dict[str, Any]]) -> None:
    evidence = paper.gathered(world)
    seen: Any = next(each for (_, x), each in evidence.measured["hiddenstate"].items() if x == "pmnist")
    plain = next(record for record in world if record["id"] == seen.measurement["run"])
    recorded = Record.from_json(plain)
    trained: Any = {"updates": 30_000, "training": plain["training"], "result": plain["result"]}
    assert page._trained(None, recorded) == ""
    assert page._trained(trained, None) == page._trained(trained, recorded) == "after 30,000 updates"
    trained["result"] = plain["result"] | {"value": 90.5}
    assert page._trained(trained, recorded) == "after 30,000 updates, rerun: 90.50, recorded 96.12"
    evidence.measured["hiddenstate"][Line(), "pmnist"] = replace(seen, trained=trained)  # type: ignore[index]
    assert any("rerun: 90.50" in row[4] for row in page._runs(EXHIBITS["hiddenstate"], evidence))


def test_runs_that_shared_their_core_are_counted() -> None:
    run = paper.point("copy", "srnn", 200).run
    ours = [paper.recorded(run, 0.1, seconds=100.0) | {"cpu_seconds": each} for each in (100.0, 78.0, 76.0)]
    theirs = paper.recorded(paper.point("copy", "gru", 200).run, 0.1)
    assert "in 1 of 3 runs of SRNN and 0 of 1 runs of baselines:" in page.about(Records(paper.typed([*ours, theirs]), []))


def test_settings_of_a_run_are_shown_where_they_are_no_defaults() -> None:
    said = page._settings(make_run("pmnist", "srnn", "ours").as_dict())
    for setting in ("adamw 0.002", "dropout 0.4", "schedule cosine", "warmup 200", "norm", "epochs 40"):
        assert setting in said, said
    assert "embed False" in page._settings(make_run("copy", "gru", embed=False).as_dict())


@pytest.mark.parametrize(("stored", "shown"), [("paper", "paper"), ("own", "original"), ("ours", "tuned")])
def test_recipes_are_shown_under_their_plain_names(stored: str, shown: str) -> None:
    assert page._settings(make_run("pmnist", "srnn", stored).as_dict()).endswith(f"; recipe {shown}")


def test_errors_of_the_report_are_one_line(tmp_path: Path, world: list[dict[str, Any]]) -> None:
    console = Console(file=io.StringIO())
    with pytest.raises(RecordError, match=r"there are no records in .*. Make some with: srnn reproduce copy"):
        report.make(tmp_path, tmp_path / "out", console)
    (tmp_path / "a.jsonl").write_text(paper.line({"kind": "run", "id": "of nothing"}))
    with pytest.raises(RecordError, match=r"no record in .* belongs to an exhibit\. Make some with: srnn reproduce copy"):
        report.make(tmp_path, tmp_path / "out", console)
    (tmp_path / "a.jsonl").write_text(paper.line(world[0]))
    (tmp_path / "out").write_text("a file")
    with pytest.raises(StorageError, match=r"out cannot be written: .*. Give another --out"):
        report.make(tmp_path, tmp_path / "out", console, plan=None)


def test_incomplete_record_is_reported(world: list[dict[str, Any]], tmp_path: Path) -> None:
    lacking = {name: value for name, value in world[0].items() if name != "curve"}
    (tmp_path / "a.jsonl").write_text(paper.line(lacking) + paper.line(world[1]))
    found = stored.read(tmp_path)
    assert [each.to_json() for each in found.found] == [world[1]]
    assert found.faults == [f"{tmp_path / 'a.jsonl'}: the record {lacking['id']} is not whole: it lacks curve. It is left out"]


def test_page_of_a_demonstration_has_no_verdicts(world: list[dict[str, Any]], tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(paper.line(world[0]))
    console = Console(file=io.StringIO())
    text = report.make(tmp_path, tmp_path / "out", console, lead="Hello.", is_experiment=False).read_text()
    assert "claim-1" not in text
    assert 'href="#verdicts"' not in text
    assert 'class="answer"' not in text
    assert not (tmp_path / "out" / "tables" / "verdicts.csv").exists()
    assert "what these runs show" in text
    assert "Hello." in text


def test_failed_runs_are_shown_and_are_no_measurements(tmp_path: Path, world: list[dict[str, Any]]) -> None:
    failure = {"kind": "failure", "id": "failed-copy-gru", "error": "out of memory", "machine": world[0]["machine"]}
    failure |= {"versions": world[0]["versions"]}
    (tmp_path / "all.jsonl").write_text(paper.line(world[0]) + paper.line(failure))
    text = report.make(tmp_path, tmp_path / "out", Console(file=io.StringIO())).read_text(encoding="utf-8")
    assert "failed-copy-gru: out of memory" in text
    assert "and 0 measurements" in text


def test_records_of_the_repository_are_complete_and_small() -> None:
    found = stored.read(ROOT / "results")
    assert found.faults == []
    assert found.found
    assert sum(path.stat().st_size for path in (ROOT / "results").iterdir()) < 20_000_000


# The first screen.


def test_answer_has_five_sentences_that_follow_from_the_records(world: list[dict[str, Any]]) -> None:
    evidence = paper.gathered(world)
    said = answer.sentences(verdicts(evidence), evidence)
    assert len(said) == 4  # in this world no clock stopped a baseline
    assert said[0].startswith("32 of the paper's 32 claims hold, 0 hold in part")
    assert "with 3 of 3 seeds" in said[1]
    assert "none of 6 baselines can" in said[1]
    assert "SRNN reaches 96.0 % test accuracy in 2 CPU minutes (60 epochs), and nn.GRU 91.1 %" in said[2]
    said = answer.sentences(verdicts(evidence), stopped := all_stopped(world))
    assert len(said) == 5
    total = sum(map(is_baseline, world))
    assert f"{total} of their {total} runs in the exhibits ended before all planned updates" in said[4]
    notes = {panel.note for figure in EXHIBITS["copy"].figures(stopped) for panel in figure.panels}
    assert notes == {"all baselines ended early"}


def test_panel_has_no_note_if_one_baseline_was_not_stopped(world: list[dict[str, Any]]) -> None:
    stopped = all_stopped(world)
    whole = paper.gathered(world).results["copy"][Line("lstm"), 500][0]
    stopped.results["copy"][Line("lstm"), 500][0] = whole  # type: ignore[index]
    notes = {panel.title: panel.note for panel in EXHIBITS["copy"].figures(stopped)[0].panels}
    assert notes.pop("T = 500") == ""
    assert set(notes.values()) == {"all baselines ended early"}
    assert {panel.note for figure in EXHIBITS["permutation"].figures(stopped) for panel in figure.panels} == {""}


def test_answer_names_baselines_that_copy_and_leaves_out_what_was_not_run(world: list[dict[str, Any]]) -> None:
    evidence = paper.gathered(world)
    solved: Any = evidence.results["copy"][Line(), 1000][0].curve
    evidence = paper.changed(world, paper.edit("copy", "urnn", 1000, curve=solved))
    assert "of 6 baselines urnn can" in answer.sentences(verdicts(evidence), evidence)[1]
    nothing = paper.gathered([])
    assert answer.sentences(verdicts(nothing), nothing) == [answer.counted(verdicts(nothing))]
    assert "and 32 are not tested" in answer.counted(verdicts(nothing))


def test_every_verdict_on_the_records_has_one_number(records: Evidence) -> None:
    found = {each.claim.number: each.key for each in verdicts(records)}
    for each in verdicts(records):
        assert len(each.key) < 60
        (number, *_) = re.findall(r"[\d.,]*\d", each.key) or [""]
        assert number in each.found if number else each.key == "not run", (each.key, each.found)
    assert found[1] == "0 of 50 runs diverged"
    assert found[12] == "96.24 % accuracy"


def test_without_a_number_a_verdict_shows_the_first_words_about_it(world: list[dict[str, Any]]) -> None:
    first = verdicts(paper.gathered(world))[0]
    assert (first.verdict, first.key) == ("holds", "0 of 58 runs diverged")
    missing = verdicts(paper.gathered(world[1:]))[0]
    assert (missing.found, missing.key) == ("not run: copy, srnn at 100", "not run")
    lost = verdicts(paper.changed(world, paper.edit("copy", "srnn", 500, status="diverged")))[4]
    assert (lost.verdict, lost.key) == ("does not hold", "srnn diverged at 500")


def test_first_screen_shows_copy_digits_and_hidden_states() -> None:
    drawn = [
        Figure("copy-seconds", "c", "a", [Panel(f"T = {T}", "x", "y") for T in (100, 1000)]),
        Figure("copy", "c", "a", [Panel("T = 1000", "x", "y")]),
        Figure("hiddenstate", "c", "a", [Panel("adding", "x", "y"), Panel("speech", "x", "y")]),
    ]
    shown = answer.pictures(drawn)
    assert [figure.name for figure in shown] == ["first-copy-seconds", "first-hiddenstate"]
    assert [[panel.title for panel in figure.panels] for figure in shown] == [["T = 1000"], ["adding", "speech"]]


# README and docs.


def test_readme_shows_the_records(records: Evidence) -> None:
    """`srnn report --readme README.md` writes the blocks."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert readme.speed_block(ROOT / "results") in text, "run: srnn report --readme README.md"
    assert readme.lead_block(answer.lead(records)) in text, "run: srnn report --readme README.md"
    assert readme.verdict_block(records, readme.document_figures(records)) in text, "run: srnn report --readme README.md"


def test_lead_figure_has_srnn_and_gru_over_cpu_seconds(records: Evidence) -> None:
    lead = answer.lead(records)
    assert lead is not None
    (panel,) = lead.panels
    assert [(line.label, line.thin) for line in panel.lines] == [
        ("SRNN", False),
        ("SRNN", True),
        ("SRNN", True),
        ("nn.GRU", False),
    ]
    assert panel.x == "CPU seconds, one thread"
    assert panel.lines[-1].x[-1] == pytest.approx(5994, abs=1)
    assert "SRNN (48,266 parameters): 96.2 % test accuracy after 60 epochs" in lead.caption
    assert "nn.GRU (164,482 parameters): 78.1 % test accuracy after 5 epochs" in lead.caption
    assert answer.lead(paper.gathered([])) is None


def test_documents_of_the_repository_are_those_of_the_records(tmp_path: Path) -> None:
    shutil.copy(ROOT / "README.md", tmp_path)
    (tmp_path / "docs" / "figures").mkdir(parents=True)
    report.fill_readme(ROOT / "results", tmp_path / "README.md", Console(file=io.StringIO()))
    written = (tmp_path / "docs" / "verdicts.md").read_bytes()
    assert written == (ROOT / "docs" / "verdicts.md").read_bytes(), "run: srnn report --readme README.md"
    made = {path.name: path.read_bytes() for path in (tmp_path / "docs" / "figures").iterdir()}
    assert made == {path.name: path.read_bytes() for path in (ROOT / "docs" / "figures").iterdir()}
    assert {"adding.svg", "lead.svg"} <= made.keys()  # docs/laboratory.md and README.md show them


@pytest.mark.parametrize("missing", ["lead", "speed", "verdicts"])
def test_readme_without_a_marker_changes_nothing(missing: str, tmp_path: Path, world: list[dict[str, Any]]) -> None:
    others = "".join(f"<!-- {name}:begin --><!-- {name}:end -->" for name in ("lead", "speed", "verdicts") if name != missing)
    (tmp_path / "README.md").write_text(others)
    (tmp_path / "all.jsonl").write_text("".join(paper.line(record) for record in world[:3]) + "half a line\n")
    said = io.StringIO()
    with pytest.raises(RecordError, match=f"must hold <!-- {missing}:begin -->"):
        report.fill_readme(tmp_path, tmp_path / "README.md", Console(file=said))
    assert "all.jsonl" in said.getvalue()  # the damaged line
    assert not (tmp_path / "docs").exists()
    assert (tmp_path / "README.md").read_text() == others


MARKERS = "between\n".join(f"<!-- {name}:begin -->\n<!-- {name}:end -->\n" for name in ("lead", "speed", "verdicts"))


def test_readme_figures_that_cannot_be_written_are_an_error(tmp_path: Path, world: list[dict[str, Any]]) -> None:
    (tmp_path / "README.md").write_text(MARKERS)
    (tmp_path / "all.jsonl").write_text(paper.line(world[0]))
    (tmp_path / "docs").write_text("a file in the place of the folder")
    with pytest.raises(StorageError, match="docs/figures cannot be written"):
        report.fill_readme(tmp_path, tmp_path / "README.md", Console(file=io.StringIO()))


def test_command_makes_the_page_and_fills_the_readme(
    world: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from typer.testing import CliRunner

    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "copy.jsonl").write_text(paper.line(world[0]))
    done = CliRunner().invoke(app, ["report", "--out", "page"])
    assert done.exit_code == 0, done.output
    assert "report: page/index.html" in done.output
    assert (tmp_path / "page" / "index.html").exists()
    (tmp_path / "README.md").write_text(MARKERS)
    figures_there = tmp_path / "docs" / "figures"
    figures_there.mkdir(parents=True)
    (figures_there / "mine.svg").write_text("of the user")
    (figures_there / "psmnist.svg").write_text("of records that are gone")
    assert CliRunner().invoke(app, ["report", "--readme", "README.md"]).exit_code == 0
    lead, speed, counts = re.findall(r":begin -->\n(.*?)\n<!--", (tmp_path / "README.md").read_text(), re.DOTALL)
    assert lead == "There are no records of SRNN and nn.GRU on permuted MNIST yet."
    assert speed == "There is no record of `srnn bench` yet."
    assert counts.startswith(
        "**0 of the paper's 32 claims hold, 0 hold in part or at equal CPU time only, 0 do not hold, 0 are undecided, and 32"
    )
    assert counts.count("\n") == 2  # one line, an empty one, and the figure
    document = (tmp_path / "docs" / "verdicts.md").read_text()
    assert "| 27 | Only uRNN has fewer parameters | not tested |" in document
    assert "not measured: runtime, Table 4 (adding)" in document
    assert {path.name for path in figures_there.iterdir()} == {"mine.svg", "copy.svg"}
    assert CliRunner().invoke(app, ["report", "--readme", "README.md", "--profile", "full"]).exit_code == 0
    assert not (figures_there / "copy.svg").exists()  # there is no record of the full profile
    assert store.read_all(tmp_path / "results" / "copy.jsonl") == [world[0]]


# The page of the repository's records in Chromium, as readers see it.


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if CHROMIUM is None:
        if "browser" in os.environ.get("SRNN_REQUIRE", "").split(","):
            pytest.fail("SRNN_REQUIRE=browser, and there is no chromium")
        pytest.skip("there is no chromium")
    browser = Browser(tmp_path_factory.mktemp("browser"))
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return report.make(ROOT / "results", tmp_path_factory.mktemp("real"), Console(file=io.StringIO()))


LOOKS = [
    *((width, scheme, "screen") for width in (390, 768, 1280) for scheme in ("light", "dark")),
    (718, "light", "print"),
]  # A4
# Elements that stick out to the right, and do not scroll in a box of their own.
WIDE = """[...document.querySelectorAll("body *")].filter(each => !each.closest(".scroll, .skip, .verdicts thead, svg")
  && each.getBoundingClientRect().right > innerWidth + 1).map(each => each.outerHTML.slice(0, 80))"""
# Pairs of texts in one plot, and of neighbours on the page, that cover each other by more than a pixel.
OVERLAPS = """(() => {
  const box = each => each.getBoundingClientRect(), found = [];
  const compare = (group, margin) => group.forEach((a, k) => group.slice(k + 1).forEach(b => {
    const [p, q] = [box(a), box(b)];
    const [width, height] = [["left", "right"], ["top", "bottom"]].map(
      ([low, high]) => Math.min(p[high], q[high]) - Math.max(p[low], q[low]));
    if (width > margin && height > margin)
      found.push([a, b].map(each => each.textContent.trim().slice(0, 40) || each.outerHTML.slice(0, 40)).join(" | "));
  }));
  document.querySelectorAll(".panel svg").forEach(svg => compare([...svg.querySelectorAll("text")], 2));
  const style = getComputedStyle;
  const isBlock = each => each.checkVisibility() && style(each).display !== "inline" && style(each).position !== "absolute";
  document.querySelectorAll("body, body *:not(svg, svg *)").forEach(each => compare([...each.children].filter(isBlock), 1));
  return found;
})()"""
HOLES = """[...document.querySelectorAll(".panels")].filter(each => {
  const cells = [...each.children].map(child => child.getBoundingClientRect());
  return Math.abs(Math.max(...cells.map(box => box.right)) - cells.at(-1).right) > 2;
}).map(each => each.parentElement.getAttribute("aria-label"))"""


@pytest.mark.parametrize(("width", "scheme", "media"), LOOKS)
def test_nothing_overlaps_overflows_or_is_loaded(width: int, scheme: str, media: str, browser: Browser, real: Path) -> None:
    browser.open(real, width, 900, scheme, media)
    assert browser.run("innerWidth") == width
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert browser.run(WIDE if media == "screen" else WIDE.replace(".scroll, ", "")) == []  # paper does not scroll
    assert browser.run(OVERLAPS) == []
    assert browser.run(HOLES) == []
    assert browser.run("document.querySelectorAll('.panel svg').length") > 60
    assert browser.run("Math.min(...[...document.querySelectorAll('.panel svg')].map(e => e.clientWidth))") > 200
    assert browser.loaded == []
    assert browser.complaints == []


def test_first_screen_has_answer_counts_and_three_pictures(browser: Browser, real: Path) -> None:
    browser.open(real, 1280, 800)
    boxes = browser.run(
        "[...document.querySelectorAll('.answer p, .counts, .pictures figure')].map(e => e.getBoundingClientRect().bottom)"
    )
    assert len(boxes) == 5 + 1 + 3
    assert max(boxes) <= 800
    assert browser.run("document.querySelectorAll('.states img').length") == 4
    assert browser.run("[...document.querySelectorAll('.states img')].every(each => each.naturalWidth > 100)")


@pytest.mark.parametrize(("width", "is_side"), [(390, False), (768, False), (1280, True)])
def test_contents_stay_in_view_on_wide_screens_and_fold_on_others(
    width: int, is_side: bool, browser: Browser, real: Path
) -> None:
    browser.open(real, width, 900)
    browser.run("scrollTo(0, document.documentElement.scrollHeight / 2)")
    assert browser.run("scrollY") > 5000
    assert browser.run("document.querySelector('.side').checkVisibility()") is is_side
    assert browser.run("document.querySelector('.contents').checkVisibility()") is not is_side
    assert not browser.run("document.querySelector('.contents nav').checkVisibility({contentVisibilityAuto: true})")
    if is_side:
        box = browser.run("document.querySelector('.side ul').getBoundingClientRect().toJSON()")
        assert 0 <= box["top"] < box["bottom"] <= 900
        assert box["right"] < browser.run("document.querySelector('main').getBoundingClientRect().left")


def test_dark_page_has_light_text_also_in_figures(browser: Browser, real: Path) -> None:
    found = {}
    for scheme in ("light", "dark"):
        browser.open(real, 1280, 900, scheme)
        read = "(name, part) => getComputedStyle(document.querySelector(name))[part].match(/\\d+/g).map(Number)[0]"
        found[scheme] = [
            browser.run(f"({read})('{name}', '{part}')")
            for name, part in (("body", "backgroundColor"), (".panel svg text", "fill"))
        ]
    assert found["light"][0] > 240 > 60 > found["light"][1]
    assert found["dark"][0] < 40 < 200 < found["dark"][1]


def test_details_of_a_verdict_are_folded_on_screen_and_open_in_print(browser: Browser, real: Path) -> None:
    height = "document.querySelector('.verdicts details').clientHeight"
    browser.open(real, 768, 900)
    folded = browser.run(height)
    browser.run("document.querySelector('.verdicts summary').click()")
    assert browser.run(height) > 2 * folded
    browser.open(real, 768, 900, media="print")
    assert browser.run(height) > 2 * folded
    assert browser.run("[...document.querySelectorAll('.side, .contents, .box')].some(each => each.checkVisibility())") is False
    pdf = browser.printed()
    assert pdf.startswith(b"%PDF")
    assert 20 < len(re.findall(rb"/Type ?/Page\b", pdf)) < 60


def test_browser_checks_see_what_is_wrong(browser: Browser, tmp_path: Path) -> None:
    bad = tmp_path / "bad.html"
    bad.write_text(
        "<!doctype html><img src='no.png'><script>undefined_name()</script><div style='width: 3000px'>wide</div>"
        "<div class='panel'><svg width=99 height=20><text y=9>one</text><text y=9>two</text></svg></div>"
        "<p>above</p><p style='margin-top: -2rem'>below</p>"
        "<figure aria-label=f><div class=panels style='display: grid; grid-template-columns: 9rem 9rem'><p>a<p>b<p>c</div>"
    )
    browser.open(bad, 390, 900)
    assert any("undefined_name" in each for each in browser.complaints)
    assert [url.rpartition("/")[2] for url in browser.loaded] == ["no.png"]
    assert browser.run("document.documentElement.scrollWidth") > 390
    assert "wide" in browser.run(WIDE)[0]
    assert browser.run(OVERLAPS) == ["one | two", "above | below"]
    assert browser.run(HOLES) == ["f"]


def test_speed_rows_of_the_readme_are_those_of_the_record(tmp_path: Path) -> None:
    assert readme.speed_block(tmp_path) == "There is no record of `srnn bench` yet."
    rows = [
        {"key": key, "times_faster": {"gru": times}} for key, times in (("pmnist", 219.4), ("adding", 12.04), ("copy", 9.0))
    ]
    machine = {"threads": 2, "cpu": "Some CPU"}
    store.write(tmp_path / "bench.json", {"results": {"training": rows}, "machine": machine})
    text = readme.speed_block(tmp_path)
    assert text.index("| adding, 300 steps | 12.0 |") < text.index("alphabet form | 219 |")
    assert "9.0" not in text
    assert "2 threads of Some CPU" in text
