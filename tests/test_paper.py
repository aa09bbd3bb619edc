"""The exhibits as data: which runs they are made of, how long each profile makes them, and the numbers in print."""

from collections import Counter
from dataclasses import replace

import pytest

from srnn.errors import SettingError
from srnn.lab.networks import NETWORKS
from srnn.lab.paper.plan import DELAYS, EXHIBITS, LENGTHS, PROFILES, RIVALS, SEEDS, SIZES, Plan, Point


def points(exhibit: str, profile: str = "cpu", all_networks: bool = False) -> list[Point]:
    return list(EXHIBITS[exhibit].points(Plan(profile, all_networks)))


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("exhibit", EXHIBITS)
def test_every_point_is_a_run_of_its_own(exhibit: str, profile: str) -> None:
    found = points(exhibit, profile)
    assert found or any(EXHIBITS[exhibit].measurements(Plan(profile)))
    if profile != "quick":  # where sizes are all the same
        seeds = Counter((point.line, point.x, point.run.seed) for point in found)
        assert set(seeds.values()) <= {1}
    assert {point.run.threads for point in found} <= {1}


def test_srnn_runs_at_the_papers_settings_and_rivals_have_five_minutes() -> None:
    for exhibit in ("copy", "adding", "timit", "randomlabels"):
        for point in points(exhibit):
            assert point.run.cpu_minutes == (None if point.run.network.name == "srnn" else 5.0)
    by_line = {(point.line, point.x): point.run for point in points("psmnist")}
    assert by_line["srnn", "pmnist"].epochs == 60
    assert by_line["srnn", "pmnist"].cpu_minutes is None
    assert {by_line[name, "pmnist"].cpu_minutes for name in RIVALS} == {17.0}
    assert by_line["gru, 5 of 60 epochs", "pmnist"].epochs == 5
    assert {key[0] for key in by_line if key[1] == "bigpmnist"} == {
        "srnn",
        "srnn, wrapped pixels",
        "srnn, our recipe",
        "lstm",
        "gru",
    }


def test_each_exhibit_has_the_points_of_the_paper() -> None:
    def places(exhibit: str, line: str) -> list[object]:
        return list(dict.fromkeys(point.x for point in points(exhibit) if point.line == line))

    for network in ("srnn", *RIVALS):
        assert places("copy", network) == list(DELAYS)
        assert places("adding", network) == list(LENGTHS)
    assert places("timit", "srnn") == places("timit", "srnn, predict") == list(SIZES)
    assert places("timit", "nru") == list(SIZES[:4])
    assert places("timit", "urnn") == list(SIZES[:3])
    assert {point.line for point in points("timit") if "standardised" in point.line} == {
        f"{network}{direction}, standardised" for network in ("srnn", "lstm", "gru") for direction in ("", ", predict")
    }
    assert len({point.run.id for point in points("timitablation")}) == 30
    assert len({point.run.id for point in points("pmnistablation") if point.run.seed == 1234}) == 24
    assert places("randomlabels", "srnn, 16x16") == [100, 1000, 10_000]


def test_three_seeds_where_three_are_asked_for() -> None:
    def seeds(exhibit: str, line: str, x: object) -> list[int]:
        return [point.run.seed for point in points(exhibit) if (point.line, point.x) == (line, x)]

    three = list(SEEDS)
    assert all(seeds("copy", "srnn", T) == three for T in DELAYS)
    assert [seeds("adding", "srnn", T) for T in LENGTHS] == [three] * 3 + [[1234]] * 3
    assert seeds("psmnist", "srnn", "pmnist") == seeds("psmnist", "srnn, our recipe", "pmnist") == three
    assert seeds("pmnistablation", "1024 units, width 32, no gate", 3) == three
    assert seeds("copy", "gru", 100) == [1234]


def test_two_seeds_before_a_failure_is_told() -> None:
    twice = Counter(
        (exhibit, point.run.network.name, point.x) for exhibit in EXHIBITS for point in points(exhibit) if point.line in RIVALS
    )
    assert {place for place, count in twice.items() if count == 2} == {
        ("copy", "nnrnn", 500),
        ("adding", "nnrnn", 200),
        ("psmnist", "rnn", "pmnist"),
    }


def test_own_recipes_are_lines_of_their_own() -> None:
    for exhibit, x in (("copy", 200), ("adding", 400), ("psmnist", "pmnist")):
        own = [point for point in points(exhibit) if "own recipe" in point.line]
        assert [(point.line, point.x) for point in own] == [(f"{network}, own recipe", x) for network in RIVALS]
        runs = {point.line: point.run for point in points(exhibit) if point.x == x and point.run.seed == SEEDS[0]}
        for network in RIVALS:  # what is the same in all but its name is made once
            paper, own_run = runs[network], runs[f"{network}, own recipe"]
            assert (own_run == paper) == (own_run.recipe == "paper")
            assert replace(own_run, recipe="paper") != paper or own_run == paper
        assert (runs["nnrnn, own recipe"].recipe == "own") is (exhibit != "adding")  # whose rates the paper has taken over
        assert runs["gru, own recipe"] == runs["gru"]


def test_the_embedding_is_taken_away_to_see_whether_it_helps() -> None:
    lines = {point.line: point.run for point in points("copy") if point.x == 100}
    for network in ("srnn", *RIVALS):
        with_it = lines["urnn, embedding" if network == "urnn" else network]
        assert with_it.embed
        assert not lines[f"{network}, one-hot"].embed


def test_all_networks_are_all() -> None:
    for exhibit in ("copy", "adding", "psmnist"):
        assert {point.run.network.name for point in points(exhibit, all_networks=True)} == set(NETWORKS) - {"srnnstack"}
        assert {point.run.network.name for point in points(exhibit)} == {"srnn", *RIVALS}


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
        not_run = {("nru", "bigpmnist")} if exhibit.id == "psmnist" else set()
        assert exhibit.published.keys() - run == not_run
    quoted = EXHIBITS["timit"].quoted
    assert {("exprnn", 224), ("scornn", 224), ("eurnn", 158), ("rgd", 128)} <= quoted.keys() & {
        (point.line, point.x) for point in points("timit")
    }
    # One number of each, as it is printed.
    assert EXHIBITS["psmnist"].published["srnn", "bigpmnist"] == 90.31
    assert EXHIBITS["pmnistablation"].published["512 units, width 64, no gate", 1] == 94.78
    assert EXHIBITS["timit"].published["nru", 1024] == 0.35
    assert EXHIBITS["timitablation"].published["1024 units, width 32", 2] == 0.88
    assert EXHIBITS["runtime"].published["nru", "pmnist"] == 835.47


def test_an_unknown_profile_is_answered_with_those_there_are() -> None:
    with pytest.raises(SettingError, match="no profile is called 'gpu'; there are cpu, full, quick"):
        Plan("gpu")
