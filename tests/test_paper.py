"""The exhibits as data: which runs they have, how long each profile trains, and the numbers in print."""

import ast
import json
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from srnn.errors import SettingError
from srnn.lab.networks import NETWORKS
from srnn.lab.networks.srnn import SRNNNetwork
from srnn.lab.paper import exhibits, verdicts
from srnn.lab.paper.exhibits import EXHIBITS, psmnist, randomlabels
from srnn.lab.paper.exhibits.adding import LENGTHS
from srnn.lab.paper.exhibits.copy import DELAYS
from srnn.lab.paper.exhibits.randomlabels import CropLine
from srnn.lab.paper.exhibits.timit import SIZES, SpeechLine
from srnn.lab.paper.plan import BASELINES, PROFILES, SEEDS, AblationLine, Line, Plan, Point, StartLine
from srnn.lab.paper.verdicts import CLAIMS, FINDINGS, NEVER, Part, Took

RESULTS = Path(__file__).parent.parent / "results"


def points(exhibit: str, profile: str = "cpu", all_networks: bool = False) -> list[Point]:
    return list(EXHIBITS[exhibit].points(Plan(profile, all_networks)))


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("exhibit", EXHIBITS)
def test_no_point_has_the_same_seed_twice(exhibit: str, profile: str) -> None:
    found = points(exhibit, profile)
    assert found or any(EXHIBITS[exhibit].measurements(Plan(profile)))
    if profile != "quick":  # where sizes are all the same
        seeds = Counter((point.line, point.x, point.run.seed) for point in found)
        assert set(seeds.values()) <= {1}
    assert {point.run.threads for point in found} <= {1}


def test_every_file_of_exhibits_is_registered_under_its_name() -> None:
    files = {path.stem for path in Path(exhibits.__file__).parent.glob("*.py")} - {"__init__"}
    assert files == EXHIBITS.keys()
    assert all(name == exhibit.id for name, exhibit in EXHIBITS.items())
    assert {claim.exhibit for claim in CLAIMS.values()} | FINDINGS.keys() == files


THRESHOLDS = [
    *((1, "copy", "DIVERGED"), (2, "gradients", "LOWEST"), (2, "gradients", "HIGHEST"), (3, "gradients", "FACTOR")),
    *((4, "timecomplexity", "LIMIT"), (5, "copy", "TIMES"), (6, "copy", "RISE"), (6, "copy", "VISIBLE")),
    *((7, "copy", "LEARNED"), (7, "copy", "MASTERED"), (8, "copy", "LESS"), (8, "copy", "ENOUGH"), (10, "copy", "NNRNN_FAILS")),
    *((11, "psmnist", "LOW"), (11, "psmnist", "HIGH"), (12, "psmnist", "LARGER"), (14, "pmnistablation", "WITHIN")),
    *((17, "timit", "LARGER"), (18, "timitablation", "RATIO"), (19, "timitablation", "LESS"), (19, "timitablation", "LITTLE")),
    *((20, "hiddenstate", "CALMER"), (20, "hiddenstate", "DRIFT"), (21, "hiddenstate", "STILLER")),
    *((21, "hiddenstate", "DELAY_DRIFT"), (22, "hiddenstate", "EVOLVES"), (23, "hiddenstate", "TIMES")),
    *((24, "randomlabels", "BEHIND"), (25, "randomlabels", "LEVEL"), (26, "runtime", "SLOWER")),
    *((24, "randomlabels", "EPOCHS"), (28, "randomlabels", "LEVEL"), (29, "copy", "LEARNED"), (31, "randomlabels", "BEHIND")),
]


@pytest.mark.parametrize(("number", "exhibit", "constant"), THRESHOLDS)
def test_the_text_of_a_rule_follows_its_threshold(
    number: int, exhibit: str, constant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = sys.modules[f"srnn.lab.paper.exhibits.{exhibit}"]
    tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign):
            names = node.targets[0].elts if isinstance(node.targets[0], ast.Tuple) else node.targets
            values = node.value.elts if isinstance(node.value, ast.Tuple) and len(names) > 1 else [node.value]
            for name, value in zip(names, values, strict=False):
                if isinstance(name, ast.Name) and name.id == constant:
                    assert isinstance(value, ast.Constant)
                    value.value = 7777
    monkeypatch.setattr(verdicts, "CLAIMS", {})
    monkeypatch.setattr(verdicts, "FINDINGS", {})
    exec(compile(tree, exhibit, "exec"), {"__name__": module.__name__})
    assert "7777" in verdicts.CLAIMS[number].rule
    assert "7777" not in CLAIMS[number].rule


def test_times_to_a_level_compare_only_if_they_are_known() -> None:
    exact, more = Took(100, True), Took(100, False)
    assert exact.less_than(Took(101, True)) is True
    assert exact.less_than(exact) is False
    assert exact.less_than(more) is True  # a stopped run takes longer than it ran
    assert more.less_than(exact) is False
    assert more.less_than(Took(101, True)) is Part.UNKNOWN
    assert Took(101, True).less_than(more) is Part.UNKNOWN
    assert NEVER.less_than(more) is NEVER.less_than(NEVER) is False
    assert exact.less_than(NEVER) is True
    assert [str(each) for each in (exact, more, NEVER)] == ["100", "more than 100", "not reached"]


def test_labels_name_lines_uniquely() -> None:
    for exhibit in EXHIBITS.values():
        plan = Plan(all_networks=True)
        lines = {each.line for each in exhibit.points(plan)} | {each.line for each in exhibit.measurements(plan)}
        lines |= {line for line, _ in (*exhibit.published, *exhibit.quoted)}
        assert len({line.label for line in lines}) == len(lines)
    assert str(Line("gru", recipe="original")) == "gru, original recipe"
    assert str(Line(recipe="tuned", variant="2 epochs")) == "srnn, tuned recipe, 2 epochs"
    assert str(SpeechLine("gru", direction="predict", standardised=True)) == "gru, predict, standardised"


def test_the_base_of_a_line_is_srnn_with_the_same_task() -> None:
    assert Line("gru", recipe="original", variant="one-hot").base == Line("srnn")
    assert CropLine("lstm", crop=16).base == CropLine(crop=16) != CropLine(crop=8)
    assert SpeechLine("nru", direction="predict").base == SpeechLine(direction="predict") != SpeechLine()


def test_lines_of_recorded_measurements_are_stored_as_their_labels() -> None:
    planned = {
        each.id: each.as_dict() for exhibit in EXHIBITS.values() for each in exhibit.measurements(Plan(all_networks=True))
    }
    records = [json.loads(line) for path in sorted(RESULTS.glob("*.jsonl")) for line in path.read_text().splitlines()]
    stored = {record["id"]: record["measurement"] for record in records if record["kind"] == "measurement"}
    assert len(stored) > 50
    for key, measurement in stored.items():
        assert measurement == planned[key]


def test_srnn_has_the_papers_settings_and_baselines_have_five_minutes() -> None:
    for exhibit in ("copy", "adding", "timit", "randomlabels"):
        for point in points(exhibit):
            if not point.line.longer and point.line.recipe != "tuned":
                long = exhibit == "randomlabels" and (point.line.crop, point.x) in randomlabels.MINUTES  # type: ignore[attr-defined]
                assert point.run.cpu_minutes == (None if point.run.network.name == "srnn" else 60.0 if long else 5.0)
    by_line = {(point.line, point.x): point.run for point in points("psmnist")}
    assert by_line[Line(), "pmnist"].epochs == 60
    assert by_line[Line(), "pmnist"].cpu_minutes is None
    assert {by_line[Line(name), "pmnist"].cpu_minutes for name in BASELINES} == {17.0}
    assert {name: by_line[Line(name, longer=True), "pmnist"].epochs for name in ("rnn", "gru", "lstm")} == psmnist.LONGER
    assert {(run.epochs, run.cpu_minutes) for run in (by_line[Line(name), "bigpmnist"] for name in ("gru", "lstm"))} == {
        (2, None)
    }
    assert by_line[Line("gru", variant="5 of 60 epochs"), "pmnist"].epochs == 5
    assert {line.label for line, x in by_line if x == "bigpmnist"} == {
        "srnn",
        "srnn, wrapped pixels",
        "srnn, tuned recipe",
        "lstm",
        "gru",
    }


def test_each_exhibit_has_the_points_of_the_paper() -> None:
    def places(exhibit: str, line: Line) -> list[object]:
        return list(dict.fromkeys(point.x for point in points(exhibit) if point.line == line))

    for network in ("srnn", *BASELINES):
        assert places("copy", Line(network)) == list(DELAYS)
        assert places("adding", Line(network)) == list(LENGTHS)
    assert places("timit", SpeechLine()) == places("timit", SpeechLine(direction="predict")) == list(SIZES)
    assert places("timit", SpeechLine("nru")) == list(SIZES[:4])
    assert places("timit", SpeechLine("urnn")) == list(SIZES[:3])
    lines = [point.line for point in points("timit")]
    assert {line for line in lines if isinstance(line, SpeechLine) and line.standardised} == {
        SpeechLine(network, direction=direction, standardised=True)
        for network in ("srnn", "lstm", "gru")
        for direction in ("echo", "predict")
    } | {
        SpeechLine(network, recipe="tuned", direction=direction, standardised=True, rate=rate)
        for network in ("srnn", "srnnstack", "lstm", "gru", "nru")
        for direction in ("echo", "predict")
        for rate in (0.001, 0.002, 0.004)
    }
    assert len({point.run.id for point in points("timitablation")}) == 30
    assert len({point.run.id for point in points("pmnistablation") if point.run.seed == 1234}) == 24
    assert places("randomlabels", CropLine(crop=16)) == [100, 1000, 10_000]


def test_the_run_of_a_point_is_what_its_line_says() -> None:
    for point in [each for name in EXHIBITS for each in points(name, all_networks=True)]:
        line, run = point.line, point.run
        assert run.network.name == line.network
        assert line.recipe != "tuned" or run.recipe == "ours"
        if isinstance(line, AblationLine):
            assert (run.network.hidden_size, run.network.mlp, run.network.gate) == (  # type: ignore[attr-defined]
                line.units,
                (line.width,) * point.x,
                line.gate,
            )
        if isinstance(line, SpeechLine):
            task = run.task
            assert (task.direction, task.standardise) == (line.direction, line.standardised)  # type: ignore[attr-defined]
        if isinstance(line, StartLine):
            assert run.network.gate_init == line.gate_init  # type: ignore[attr-defined]
        elif isinstance(run.network, SRNNNetwork):
            assert run.network.gate_init == 0  # the paper's, never mixed with another
        if isinstance(line, SpeechLine) and line.rate:
            assert run.lr == line.rate
        if isinstance(line, CropLine):
            assert run.task.crop == line.crop  # type: ignore[attr-defined]


def test_three_seeds_where_three_are_needed() -> None:
    def seeds(exhibit: str, line: Line, x: object) -> list[int]:
        return [point.run.seed for point in points(exhibit) if (point.line, point.x) == (line, x)]

    three = list(SEEDS)
    assert all(seeds("copy", Line(), T) == three for T in DELAYS)
    assert all(seeds("adding", Line(), T) == three for T in LENGTHS)
    assert (
        seeds("psmnist", Line(), "bigpmnist")
        == seeds("psmnist", Line(), "pmnist")
        == seeds("psmnist", Line(recipe="tuned"), "pmnist")
        == three
    )
    assert seeds("pmnistablation", AblationLine(units=1024, width=32, gate=False), 3) == three
    assert seeds("copy", Line("gru"), 100) == [1234]


def test_two_seeds_where_a_claim_says_that_a_baseline_fails() -> None:
    twice = Counter(
        (exhibit, point.line.network, point.x)
        for exhibit in ("copy", "adding", "psmnist")
        for point in points(exhibit)
        if point.line in map(Line, BASELINES)
    )
    assert {place for place, count in twice.items() if count == 2} == {
        ("copy", "nnrnn", 500),
        ("adding", "nnrnn", 200),
        ("psmnist", "rnn", "pmnist"),
    }


def test_original_recipes_are_separate_lines() -> None:
    for exhibit, x in (("copy", 200), ("adding", 400), ("psmnist", "pmnist")):
        original = [point for point in points(exhibit) if point.line.recipe == "original"]
        assert [(point.line, point.x) for point in original] == [(Line(name, recipe="original"), x) for name in BASELINES]
        runs = {point.line: point.run for point in points(exhibit) if point.x == x and point.run.seed == SEEDS[0]}
        for network in BASELINES:  # a recipe that differs in its name alone is not run twice
            paper, own = runs[Line(network)], runs[Line(network, recipe="original")]
            assert (own == paper) == (own.recipe == "paper")
            assert replace(own, recipe="paper") != paper or own == paper
        # For adding the paper has taken over the rates of nnRNN.
        assert (runs[Line("nnrnn", recipe="original")].recipe == "own") is (exhibit != "adding")
        assert runs[Line("gru", recipe="original")] == runs[Line("gru")]


def test_every_network_also_runs_without_an_embedding() -> None:
    lines = {point.line: point.run for point in points("copy") if point.x == 100}
    for network in ("srnn", *BASELINES):
        assert lines[Line(network, variant="embedding" if network == "urnn" else "")].embed
        assert not lines[Line(network, variant="one-hot")].embed


def test_all_networks_are_all() -> None:
    for exhibit in ("copy", "adding", "psmnist"):
        assert {point.run.network.name for point in points(exhibit, all_networks=True)} == set(NETWORKS) - {"srnnstack"}
        assert {point.run.network.name for point in points(exhibit)} == {"srnn", *BASELINES}


def test_full_is_as_long_as_the_authors_code() -> None:
    steps = {
        exhibit: {point.run.steps for point in points(exhibit, "full") if point.run.recipe == "paper"}
        for exhibit in ("copy", "adding")
    }
    assert steps == {"copy": {49_950}, "adding": {99_900}}
    own = {point.run.network.name: point.run.steps for point in points("copy", "full") if point.run.recipe == "own"}
    assert own["nru"] == 49_950  # its own paper names no end
    assert own["nnrnn"] == 1500
    assert {point.run.cpu_minutes for exhibit in EXHIBITS for point in points(exhibit, "full")} == {None}


@pytest.mark.parametrize("exhibit", EXHIBITS)
def test_a_rehearsal_is_short(exhibit: str) -> None:
    for point in points(exhibit, "quick"):
        assert (point.run.steps, point.run.epochs, point.run.network.hidden_size) == (3, None, 16)


def test_published_numbers_belong_to_lines_that_are_run() -> None:
    counts = {"psmnist": (9, 0), "pmnistablation": (24, 0), "timit": (20, 15), "timitablation": (30, 0)}
    measured = {"runtime": (24, 0), "timecomplexity": (12, 0)}
    for exhibit in EXHIBITS.values():
        assert (len(exhibit.published), len(exhibit.quoted)) == (counts | measured).get(exhibit.id, (0, 0))
        if exhibit.id in measured:
            continue
        run = {(point.line, point.x) for point in points(exhibit.id)}
        not_run = {(Line("nru"), "bigpmnist")} if exhibit.id == "psmnist" else set()
        assert exhibit.published.keys() - run == not_run
    quoted = {
        (line.network, x) for line, x in EXHIBITS["timit"].quoted.keys() & {(each.line, each.x) for each in points("timit")}
    }
    assert {("exprnn", 224), ("scornn", 224), ("eurnn", 158), ("rgd", 128)} <= quoted
    # One number of each, as it is printed.
    assert EXHIBITS["psmnist"].published[Line(), "bigpmnist"] == 90.31
    assert EXHIBITS["pmnistablation"].published[AblationLine(units=512, width=64, gate=False), 1] == 94.78
    assert EXHIBITS["timit"].published[SpeechLine("nru"), 1024] == 0.35
    assert EXHIBITS["timitablation"].published[AblationLine(units=1024, width=32), 2] == 0.88
    assert EXHIBITS["runtime"].published[Line("nru"), "pmnist"] == 835.47
    assert EXHIBITS["timecomplexity"].published[Line("urnn"), "units"] == 1


def test_an_error_about_an_unknown_profile_lists_the_known_ones() -> None:
    with pytest.raises(SettingError, match=r"no profile is called 'gpu'\. Choose one of cpu, full, quick"):
        Plan("gpu")
