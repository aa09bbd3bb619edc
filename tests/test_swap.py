"""`srnn bench --swap`: the data of each program, runs that end and resume, and a table that follows from its records."""

import math
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice, product
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from torch import Tensor, nn
from torch.nn import functional as F

from srnn.errors import Interrupted, RecordError, SettingError, TeamError
from srnn.lab.bench import swap
from srnn.lab.bench.result import as_markdown
from srnn.lab.bench.swap import acoustic, characters, classifier, forecaster, plan, policy, table, tagger, training, workers
from srnn.lab.bench.swap.acoustic import Acoustic
from srnn.lab.bench.swap.characters import Characters
from srnn.lab.bench.swap.classifier import Classifier
from srnn.lab.bench.swap.forecaster import Forecaster
from srnn.lab.bench.swap.policy import DOWN, FORWARD, UP, Policy
from srnn.lab.bench.swap.program import BLOCK, Data, Program, Run
from srnn.lab.bench.swap.tagger import Tagger
from srnn.lab.bench.swap.training import NETWORKS
from srnn.lab.records import record as records
from srnn.lab.records import store
from srnn.lab.records.record import Records
from srnn.lab.report import runs as results

ROOT = Path(__file__).parents[1]
PROGRAMS = list(plan.PROGRAMS.values())
TOYS = list(plan.programs(quick=True).values())


def named(program: Program) -> str:
    return program.name


@pytest.fixture(autouse=True)
def no_data_sets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The character model reads the generated text, here and in other processes."""
    monkeypatch.delenv("SRNN_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    forget = characters.source.cache_clear
    forget()
    yield
    forget()


# --- data ---


def rows(data: Data) -> set[bytes]:
    return {b"".join(part[n].numpy().tobytes() for part in data) for n in range(len(data[0]))}


@pytest.mark.parametrize("program", PROGRAMS, ids=named)
def test_batches_depend_on_the_seed_alone(program: Program) -> None:
    def first(seed: int) -> list[Data]:
        torch.rand(seed)
        return list(islice(program.batches(seed), BLOCK + 2))

    one, again, other = first(1), first(1), first(2)
    assert all(torch.equal(a, b) for x, y in zip(one, again, strict=True) for a, b in zip(x, y, strict=True))
    assert {len(part) for batch in one for part in batch} == {program.batch_size}
    different = set().union(*(rows(batch) for batch in (*one, *other)))
    assert len(different) > 0.99 * 2 * (BLOCK + 2) * program.batch_size  # of a text, a window may come twice


@pytest.mark.parametrize("program", PROGRAMS, ids=named)
def test_splits_share_no_example_and_are_the_same_for_all_runs(program: Program) -> None:
    val, test = (rows(program.examples(split)) for split in ("val", "test"))
    train = set().union(*(rows(batch) for batch in islice(program.batches(1), 4 * BLOCK)))
    assert len(val) == len(test) == program.held_out
    assert not val & test
    assert not train & (val | test)
    torch.manual_seed(99)
    assert rows(program.examples("val")) == val


def one_hot(target: Tensor, classes: int) -> Tensor:
    return 100 * F.one_hot(target, classes).float()


def spelled_out(symbols: Tensor, steps: int) -> Tensor:
    """Symbols at the first frames, then the blank."""
    return one_hot(F.pad(symbols, (0, steps - symbols.shape[1])), 1 + acoustic.SYMBOLS)


class Series:
    """Knows series [n, T]; its state is the number of steps it has seen."""

    def __init__(self, series: Tensor) -> None:
        self.series = F.pad(series, (0, 1))

    def __call__(self, given: Tensor, state: int | None = None) -> tuple[Tensor, int]:
        start = state or 0
        end = start + given.shape[1]
        return self.series[:, start + 1 : end + 1], end


class Walker:
    """Walks to the junction and turns as the sign said, or always up. Its state is the sign."""

    def __init__(self, remembers: bool) -> None:
        self.remembers = remembers

    def __call__(self, seen: Tensor, state: Any = None) -> tuple[Tensor, Tensor, Any]:
        flags = seen[:, 0]
        sign = torch.where(flags[:, 1] > 0, DOWN, UP) if state is None else state
        action = torch.where(flags[:, 3] > 0, sign if self.remembers else UP, FORWARD)
        return one_hot(action, 3)[:, None], torch.zeros(len(seen), 1), sign


# For each program, from its data: a model that knows the answer, one that remembers nothing, and what they score.
EXPERTS: dict[str, tuple[Callable[[Data], Any], float, Callable[[Data], Any], float, float]] = {
    "classifier": (
        *(lambda data: lambda words, lengths: one_hot(data[2], classifier.LANGUAGES), 100),
        *(lambda data: lambda words, lengths: one_hot(words[:, 0] % 10, classifier.LANGUAGES), 10, 5),
    ),
    "tagger": (
        *(lambda data: lambda words: one_hot(data[1], tagger.TAGS), 100),
        *(lambda data: lambda words: one_hot(1 + words % 16, tagger.TAGS), 100 / 16, 2.5),
    ),
    "characters": (
        *(lambda data: lambda ids: one_hot(data[0][:, 1:], 28), 0),
        *(lambda data: lambda ids: torch.zeros(*ids.shape, 28), math.log2(28), 1e-5),
    ),
    "forecaster": (
        *(lambda data: Series(data[0]), 0),
        *(lambda data: lambda given, state=None: (torch.zeros_like(given), None), 1, 1e-6),
    ),
    "acoustic": (
        *(lambda data: lambda frames: spelled_out(data[2], frames.shape[1]), 0),
        *(lambda data: lambda frames: one_hot(torch.zeros(frames.shape[:2], dtype=torch.int64), 13), 100, 1e-6),
    ),
    "policy": (*(lambda data: Walker(remembers=True), 100), *(lambda data: Walker(remembers=False), 50, 8)),
}


@pytest.mark.parametrize("split", ["val", "test"])
@pytest.mark.parametrize("program", PROGRAMS, ids=named)
def test_oracle_is_perfect_and_no_memory_scores_chance_level(program: Program, split: str) -> None:
    data = program.examples(split)
    oracle, perfect, guess, chance, error = EXPERTS[program.name]
    for model, expected, tolerance in ((oracle, perfect, 1e-6), (guess, chance, error)):
        found = program.score(model(data), data)
        assert found.keys() == program.scores.keys()
        assert list(found.values()) == pytest.approx([expected] * len(found), abs=tolerance)


def test_languages_differ_in_the_order_of_letters_alone() -> None:
    words, lengths, languages = Classifier(1, length=60).draw("train", 4000, torch.Generator().manual_seed(5))
    assert lengths.min() == 15
    assert lengths.max() == 60
    assert not words[torch.arange(60) >= lengths[:, None]].any()
    for language in (0, 9):
        chosen = words[languages == language][:, :15]
        shares = torch.bincount(chosen.flatten(), minlength=classifier.LETTERS) / chosen.numel()
        assert (shares - 1 / classifier.LETTERS).abs().max() < 0.015
        favourites = classifier.successors()[language][chosen[:, :-1]] == chosen[:, 1:]
        assert favourites.float().mean().item() == pytest.approx(0.5 + 0.5 / classifier.LETTERS, abs=0.02)


def test_tags_follow_from_the_cues_around_a_name() -> None:
    words, tags = Tagger(1, length=30).draw("train", 100, torch.Generator().manual_seed(5))
    assert len(tags.unique()) == tagger.TAGS
    cues = tagger.CUES * tagger.WORDS_OF_A_CUE
    for sentence, found in zip(words.tolist(), tags.tolist(), strict=True):
        for t, word in enumerate(sentence):
            if not 2 * cues <= word < 2 * cues + tagger.NAMES:
                assert found[t] == 0
                continue
            before = [cue for cue in sentence[:t] if cue < cues][-1]
            after = next(cue - cues for cue in sentence[t:] if cues <= cue < 2 * cues)
            assert found[t] == 1 + 4 * (before % 4) + after % 4


def test_splits_of_the_text_do_not_overlap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(characters, "source", lambda: ("numbers", torch.arange(1000)))
    for split, (first, last) in {"train": (0, 899), "val": (900, 949), "test": (950, 999)}.items():
        (windows,) = Characters(1, length=10).draw(split, 20_000, torch.Generator().manual_seed(5))
        assert (int(windows.min()), int(windows.max())) == (first, last)
        assert (windows.diff(dim=1) == 1).all()


def test_text_is_the_data_set_if_it_is_here(prose: Path) -> None:
    program = Characters(1)
    assert program.data.startswith("prose.txt, 6000 characters, sha256 ")
    run = Run(program, "SRNN", 0.1, 1)
    before, name = run.settings, run.id
    prose.unlink()
    characters.source.cache_clear()
    assert run.settings == before | {"data": program.data}
    assert program.data.startswith("a generated text, ")
    assert run.id == name


def test_series_is_two_sines_of_known_periods() -> None:
    (series,) = Forecaster(1, length=50).draw("train", 20, torch.Generator().manual_seed(5))
    assert series.shape == (20, 50 + forecaster.FREE)
    (_, a, _), (_, b, _) = ((1.0, -2 * math.cos(2 * math.pi / period), 1.0) for period in forecaster.PERIODS)
    factors = [1.0, a + b, 2 + a * b, a + b, 1.0]  # (1, a, 1) times (1, b, 1): applied to a sum of both sines it gives 0
    rest = sum(factor * series.double()[:, k : len(series[0]) - 4 + k] for k, factor in enumerate(factors))
    assert isinstance(rest, Tensor)
    assert rest.abs().max() < 1e-4
    assert series.square().mean(dim=1).min() > 0.2


def test_running_free_feeds_back_the_output() -> None:
    program, given = Forecaster(1, length=20), []

    def model(series: Tensor, state: int | None = None) -> tuple[Tensor, int]:
        given.append(series)
        return series + 1, (state or 0) + 1

    data = program.examples("test")
    program.score(model, data)
    assert len(given) == forecaster.FREE
    assert torch.equal(given[0], data[0][:, :20])
    torch.testing.assert_close(given[5], data[0][:, 19:20] + 5)


def test_utterances_are_noisy_templates_of_their_symbols() -> None:
    frames, lengths, symbols, counts = Acoustic(1, length=80).draw("train", 300, torch.Generator().manual_seed(5))
    assert (int(counts.min()), int(counts.max())) == (5, 10)
    assert (symbols[:, 1:] != symbols[:, :-1])[symbols[:, 1:] > 0].all()
    assert torch.equal((symbols > 0).sum(dim=1), counts)
    assert (lengths >= 3 * counts).all()
    assert (lengths <= 8 * counts).all()
    assert not frames[torch.arange(80) >= lengths[:, None]].any()
    for row in range(20):
        first = frames[row, :3] - acoustic.templates()[symbols[row, 0]]
        last = frames[row, lengths[row] - 3 : lengths[row]] - acoustic.templates()[symbols[row, counts[row] - 1]]
        for noise in (first, last):
            assert noise.std().item() == pytest.approx(acoustic.NOISE, rel=0.4)


def test_edits_is_the_least_number_of_edits() -> None:
    def slowly(a: tuple[int, ...], b: tuple[int, ...]) -> int:
        if not a or not b:
            return len(a) + len(b)
        return min(slowly(a[1:], b) + 1, slowly(a, b[1:]) + 1, slowly(a[1:], b[1:]) + (a[0] != b[0]))

    sequences = [sequence for size in range(4) for sequence in product((1, 2), repeat=size)]
    for a, b in product(sequences, repeat=2):
        assert acoustic.edits(a, b) == slowly(a, b)


def test_repeated_frames_and_blanks_are_one_symbol() -> None:
    program = Acoustic(1, length=8)
    path = torch.tensor([[0, 3, 3, 0, 5, 5, 5, 7]])
    data = torch.zeros(1, 8, 16), torch.tensor([7]), torch.tensor([[3, 5]]), torch.tensor([2])
    assert program.score(lambda frames: one_hot(path, 13), data) == {"symbol error rate, %": 0}  # the 7 is after the end
    wrong = torch.tensor([[3, 0, 3, 0, 5, 5, 5, 7]])
    assert program.score(lambda frames: one_hot(wrong, 13), data) == {"symbol error rate, %": 50}


def test_episode_has_the_described_rewards() -> None:
    """Two corridors of 3 cells, one walker that hits a wall first and turns right, and one that turns wrong."""
    script = torch.tensor([[UP, FORWARD, FORWARD, FORWARD, DOWN, 0], [FORWARD, FORWARD, FORWARD, FORWARD, DOWN, 0]])
    seen = []

    def model(now: Tensor, state: int | None = None) -> tuple[Tensor, Tensor, int]:
        seen.append(now[:, 0, :4].tolist())
        step = state or 0
        return one_hot(script[:, step : step + 1], 3), torch.zeros(2, 1), step + 1

    data = torch.tensor([DOWN, UP]), torch.tensor([3, 3]), torch.zeros(2, 14, policy.NOISE)
    found = policy.play(model, data, greedy=True)
    assert found.won.tolist() == [True, False]
    torch.testing.assert_close(found.rewards, torch.tensor([[-0.1, 0, 0, 0, 1], [0, 0, 0, -0.1, -1]]))
    assert found.on.all()
    assert [row[0] for row in seen] == [[0, 1, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
    assert [row[1] for row in seen] == [[1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 1, 0], [0, 0, 0, 1], [0, 0, 0, 1]]


def test_ended_episode_stops_counting_and_a_long_one_is_cut() -> None:
    data = torch.tensor([UP, UP]), torch.tensor([1, 40]), torch.zeros(2, 8, policy.NOISE)
    found = policy.play(Walker(remembers=True), data, greedy=True)
    assert found.on.sum(dim=1).tolist() == [2, 8]
    assert found.won.tolist() == [True, False]
    assert found.rewards.shape == (2, 8)


def test_turn_after_the_end_wins_nothing() -> None:
    """The first walker turns the wrong way, and then the right way while the second is still in its corridor."""
    script = torch.tensor([[FORWARD, UP, DOWN], [FORWARD, FORWARD, FORWARD]])

    def model(now: Tensor, state: int | None = None) -> tuple[Tensor, Tensor, int]:
        step = state or 0
        return one_hot(script[:, step : step + 1], 3), torch.zeros(2, 1), step + 1

    data = torch.tensor([DOWN, DOWN]), torch.tensor([1, 9]), torch.zeros(2, 3, policy.NOISE)
    assert policy.play(model, data, greedy=True).won.tolist() == [False, False]


def test_returns_are_discounted_sums() -> None:
    rewards, on = torch.randn(3, 6), torch.arange(6) < torch.tensor([[6], [4], [1]])
    found = policy.returns(rewards, on)
    for n, t in product(range(3), range(6)):
        expected = sum(policy.DISCOUNT ** (k - t) * rewards[n, k].item() for k in range(t, 6) if on[n, k])
        assert found[n, t].item() == pytest.approx(expected, abs=1e-6)


def test_policy_learns_from_its_rewards() -> None:
    """Walls cost something, so going forward becomes likelier."""
    program = Policy(1, length=2, batch_size=256)
    torch.manual_seed(0)
    model = program.model(nn.GRU)
    data = next(program.batches(1))
    seen = policy.play(model, data, greedy=False).seen[:, :1]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    before = model(seen)[0].softmax(dim=-1)[..., FORWARD].mean().item()
    for _ in range(60):
        optimizer.zero_grad()
        program.loss(model, data).backward()
        optimizer.step()
    assert model(seen)[0].softmax(dim=-1)[..., FORWARD].mean().item() > before + 0.2


# --- runs ---


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("program", TOYS, ids=named)
def test_short_run_ends_with_finite_scores(program: Program, network: str) -> None:
    found = training.train(Run(program, network, 0.003, 1))
    assert found["status"] == "finished"
    assert found["at"]["updates"]["updates"] == program.updates
    assert found["at"]["seconds"]["cpu_seconds"] >= program.seconds
    assert found["updates"] == max(at["updates"] for at in found["at"].values())
    for at in found["at"].values():
        for split in ("val", "test"):
            assert at[split].keys() == program.scores.keys()
            assert all(math.isfinite(value) for value in at[split].values())
    assert found["curve"]


@pytest.mark.parametrize("program", TOYS, ids=named)
def test_scores_after_equal_updates_are_those_of_the_seed(program: Program) -> None:
    runs = [Run(replace(program, updates=20), "SRNN", 0.01, seed) for seed in (1, 1, 2)]
    found = []
    for number, run in enumerate(runs):
        torch.manual_seed(number)  # what was drawn before does not matter
        found.append(training.train(run)["at"]["updates"])
    first, again, other = found
    assert (first["val"], first["test"]) == (again["val"], again["test"])
    if program.name in ("characters", "forecaster"):  # others score so few examples that two seeds may agree
        assert first["test"] != other["test"]


def test_programs_differ_only_in_the_network() -> None:
    for program in PROGRAMS:
        models: list[Any] = [program.model(kind) for kind in NETWORKS.values()]
        shapes = [{name: p.shape for name, p in model.named_parameters() if not name.startswith("rnn.")} for model in models]
        assert shapes[0] == shapes[1] == shapes[2] == shapes[3]
        assert [type(model.rnn) for model in models] == list(NETWORKS.values())
        assert {model.rnn.hidden_size for model in models} == {program.hidden_size}


def test_only_the_time_of_updates_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow evaluation and slow data leave the CPU budget alone."""
    program, seconds = TOYS[0], iter(range(10**9))
    monkeypatch.setattr(time, "process_time", lambda: next(seconds))  # one second passes with each look at the clock
    found = training.train(Run(replace(program, updates=2, seconds=5), "nn.GRU", 0.01, 1))
    assert found["at"]["updates"]["cpu_seconds"] == 2
    assert found["at"]["seconds"]["updates"] == 5
    assert [point["updates"] for point in found["curve"]] == [1, 2, 3, 4, 5]


def test_slow_network_uses_up_both_budgets(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter(range(10**9))
    monkeypatch.setattr(time, "process_time", lambda: next(seconds))
    found = training.train(Run(replace(TOYS[0], updates=7, seconds=3), "nn.GRU", 0.01, 1))
    assert (found["at"]["seconds"]["updates"], found["at"]["updates"]["updates"], found["updates"]) == (3, 7, 7)


class Exploding(nn.GRU):
    """Gives NaN from the third call on."""

    calls = 0

    def forward(self, *args: Any) -> Any:
        self.calls += 1
        output, state = super().forward(*args)
        return (output * math.nan if self.calls > 2 else output), state


def test_diverged_run_has_no_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(training.NETWORKS, "nn.GRU", Exploding)
    program = replace(plan.programs(quick=True)["characters"], seconds=100.0, updates=50)
    found = training.train(Run(program, "nn.GRU", 0.01, 1))
    assert (found["status"], found["updates"]) == ("diverged", 3)
    assert found["at"]["updates"]["test"] == found["at"]["seconds"]["val"] == {"bits per character": None}


def test_score_that_is_not_finite_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = {"error running free": math.inf, "error one step ahead": 0.5}
    monkeypatch.setattr(Forecaster, "score", lambda self, model, data: scores)
    found = training.train(Run(plan.programs(quick=True)["forecaster"], "SRNN", 0.01, 1))
    assert found["status"] == "finished"
    assert found["at"]["seconds"]["test"] == {"error running free": None, "error one step ahead": 0.5}


def test_ids_depend_on_all_settings() -> None:
    runs = plan.runs()
    assert len(runs) == len({run.id for run in runs}) == 6 * 4 * 3 * 5
    assert {(run.lr, run.seed) for run in runs} == set(product(plan.RATES, plan.SEEDS))
    assert all(plan.from_settings(run.settings) == run for run in runs)
    assert 0 not in plan.SEEDS  # the seed that the sizes were set with
    changed = [replace(PROGRAMS[0], **{name: value}) for name, value in plan.QUICK.items()]
    assert len({Run(program, "SRNN", 0.001, 1).id for program in (*changed, PROGRAMS[0])}) == 7
    assert {run.program.name for run in plan.runs(only=["policy"])} == {"policy"}


# --- workers ---


def when(is_so: Callable[[], bool]) -> None:
    """Waits for something that happens within two minutes."""
    end = time.monotonic() + 120
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_lost_process_is_an_error_that_names_its_run() -> None:
    runs = [Run(replace(TOYS[0], seconds=600.0), "nn.GRU", 0.001, 1)]
    found = workers.results(runs, jobs=1)

    def kill() -> None:
        when(lambda: bool(multiprocessing.active_children()))
        multiprocessing.active_children()[0].kill()

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(
        TeamError, match=rf"{runs[0].id} failed: its process ended with code -9\. Run the same command to repeat it"
    ):
        next(found)
    killer.join()
    assert not multiprocessing.active_children()


def lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines() if path.exists() else []


@pytest.mark.slow
def test_stopped_or_killed_bench_resumes_without_repeating(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "swap.jsonl"
    command = [sys.executable, "-m", "srnn", "bench", "--swap", "--quick", "--only", "forecaster", "--out", str(out)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=ROOT) as process:
        when(lambda: len(lines(out)) >= 2 or process.poll() is not None)
        process.kill()
        process.communicate(timeout=60)  # ends when its worker, too, has ended
    killed = lines(out)
    assert 2 <= len(killed) < 16

    more: dict[str, Any] = {"quick": True, "out": out, "only": ["forecaster"]}

    def press_ctrl_c() -> None:
        when(lambda: len(lines(out)) >= 5)
        os.kill(os.getpid(), signal.SIGINT)

    user = threading.Thread(target=press_ctrl_c)
    user.start()
    with pytest.raises(Interrupted, match=r"stopped by Ctrl-C\. Run the same command to resume") as stop:
        swap.main(**more, console=Console(quiet=True))
    user.join()
    stopped = lines(out)
    assert stop.value.exit_code == 130
    assert stopped[: len(killed)] == killed
    assert 5 <= len(stopped) < 16
    assert not multiprocessing.active_children()

    swap.main(**more, jobs=2, console=Console(width=150))
    assert lines(out)[: len(stopped)] == stopped
    found = store.read_all(out)
    assert {record["id"] for record in found} == {run.id for run in plan.runs(True, ["forecaster"])}
    assert {record["machine"]["threads"] for record in found} == {1}
    shown = capsys.readouterr().out
    assert "forecaster: error" in shown
    assert "not complete" in shown  # the other programs
    monkeypatch.setattr(workers, "results", None)
    whole = lines(out)
    swap.main(**more, console=Console(quiet=True))
    assert lines(out) == whole


def test_runs_on_other_data_are_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Run] = []

    def results(runs: list[Run], jobs: int) -> Iterator[tuple[Run, dict[str, Any]]]:
        for run in runs:
            made.append(run)
            yield run, made_up(run)

    monkeypatch.setattr(workers, "results", results)
    how: dict[str, Any] = {"quick": True, "out": tmp_path / "swap.jsonl", "console": Console(quiet=True)}
    for _ in range(2):
        swap.main(**how)
        assert len(made) == 96
    monkeypatch.setattr(characters, "source", lambda: ("another text", torch.arange(20)))
    swap.main(**how)
    assert len(made) == 96 + 16
    assert {run.program.name for run in made[96:]} == {"characters"}
    assert len(store.read_all(tmp_path / "swap.jsonl")) == 96


def test_damaged_lines_are_reported_and_their_runs_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(workers, "results", lambda runs, jobs: ((run, made_up(run)) for run in runs))
    out = tmp_path / "swap.jsonl"
    swap.main(quick=True, out=out, console=Console(quiet=True))
    first, *rest = lines(out)
    out.write_bytes(b"\n".join([first.replace(b'"seed": %d' % plan.SEEDS[0], b'"seed": 99'), *rest]) + b"\n")
    swap.main(quick=True, out=out, console=Console(width=300))
    assert f"{out}:1 is altered" in capsys.readouterr().out
    assert len(store.read_lines(out)[0]) == 96


# --- the table ---


def made_up(run: Run, scores: Callable[..., float | None] = lambda run, score, split, budget: 50.0) -> dict[str, Any]:
    """What `train` would have found, with scores of one's choice."""
    at = {
        budget: {
            "updates": 100 if budget == "updates" else 321,
            "cpu_seconds": 1.0,
            **{split: {name: scores(run, name, split, budget) for name in run.program.scores} for split in ("val", "test")},
        }
        for budget in training.BUDGETS
    }
    return {"status": "finished", "parameters": 10, "updates": 321, "cpu_seconds": 1.0, "seconds": 1.0, "at": at, "curve": []}


def recorded(scores: Callable[..., float | None], runs: list[Run] | None = None) -> dict[str, dict[str, Any]]:
    about = {"kind": "swap", **store.environment(), "ended": "2026-01-02T03:04:05+00:00"}
    return {
        run.id: {**about, "id": run.id, "settings": run.settings, **made_up(run, scores)}
        for run in (plan.runs() if runs is None else runs)
    }


def test_learning_rate_is_chosen_by_validation_score() -> None:
    """Validation prefers 0.003 after equal updates and 0.01 after equal time; the test data would prefer 0.001."""
    favourite = {"updates": 0.003, "seconds": 0.01}

    def scores(run: Run, score: str, split: str, budget: str) -> float:
        good = run.lr == favourite[budget] if split == "val" else run.lr == 0.001
        higher = run.program.scores[score]
        return (90.0 if good else 60.0 + run.seed) if higher else (1.0 if good else 5.0 + run.seed)

    for program, network, budget in product(PROGRAMS, NETWORKS, training.BUDGETS):
        choice = table.choose(program, network, budget, plan.runs(), recorded(scores))
        assert choice is not None
        assert choice.lr == favourite[budget]
        expected = [(60.0 if next(iter(program.scores.values())) else 5.0) + seed for seed in plan.SEEDS]
        assert list(choice.test.values()) == [expected] * len(program.scores)


def test_first_score_chooses_the_learning_rate() -> None:
    def scores(run: Run, score: str, split: str, budget: str) -> float:
        return run.lr if score == "error running free" else 1 - run.lr

    choice = table.choose(plan.PROGRAMS["forecaster"], "SRNN", "updates", plan.runs(), recorded(scores))
    assert choice is not None
    assert choice.lr == 0.001
    assert choice.test["error one step ahead"] == [0.999] * 5


def test_mean_over_seeds_decides_and_a_missing_score_is_the_worst() -> None:
    def scores(run: Run, score: str, split: str, budget: str) -> float | None:
        if run.lr == 0.01:  # best with four seeds, and once divergent
            return 0.01 if run.seed < plan.SEEDS[-1] else None
        return {0.001: 3.0, 0.003: 20.0 if run.seed == plan.SEEDS[0] else 0.1}[run.lr]

    choice = table.choose(plan.PROGRAMS["forecaster"], "SRNN", "seconds", plan.runs(), recorded(scores))
    assert choice is not None
    assert choice.lr == 0.001
    all_bad = recorded(lambda run, score, split, budget: None if run.seed == plan.SEEDS[1] else 1.0)
    choice = table.choose(plan.PROGRAMS["classifier"], "SRNN", "seconds", plan.runs(), all_bad)
    assert choice is not None
    assert table._range(choice.test["accuracy, %"]) == "diverged in 1 of 5 runs"


def lost_and_won(run: Run, score: str, split: str, budget: str) -> float:
    """nn.GRU and nn.LSTM score 50. SRNN loses the tagger and half of the forecaster, SRNNStack the policy at equal updates."""
    worse = run.network == "SRNN" and (run.program.name == "tagger" or score == "error one step ahead")
    worse |= run.network == "SRNNStack" and budget == "updates" and run.program.name == "policy"
    better = run.network == "SRNNStack" and not worse
    step = 10 if run.program.scores[score] else -10
    return 50.0 + step * (better - worse) + (run.seed - plan.SEEDS[2]) + 0.001 * (run.lr == 0.003) * step


def test_losses_are_shown_like_wins() -> None:
    rows, sentences = table.tables(plan.runs(), recorded(lost_and_won))
    assert len(rows) == 4 * 7
    assert [row[1] for row in rows] == list(NETWORKS) * 7
    first, second = (
        next(k for k, row in enumerate(rows) if row[0].startswith(title)) for title in ("tagger", "forecaster: error one")
    )
    assert rows[first] == [
        *("tagger: accuracy of names, %, higher is better", "nn.GRU"),
        *("50 (48 to 52)", "0.003", "50 (48 to 52)", "0.003", "321"),
    ]
    assert rows[first + 2][2:5] == ["40 (38 to 42)", "0.003", "40 (38 to 42)"]
    assert rows[first + 3][2] == "**60 (58 to 62)**"
    assert rows[second + 2][2] == "60 (58 to 62)"
    assert rows[second + 3][2] == "**40 (38 to 42)**"
    assert [row[0] for row in rows[first + 1 : first + 4]] == ["", "", ""]
    lost = "in 4 of 6 programs at equal {} (worse: tagger, forecaster)"
    one_lost = "in 5 of 6 programs at equal updates (worse: policy) and in 6 of 6 programs at equal CPU time."
    assert sentences == [
        f"SRNN is at least as good as nn.GRU {lost.format('updates')} and {lost.format('CPU time')}.",
        f"SRNN is at least as good as nn.LSTM {lost.format('updates')} and {lost.format('CPU time')}.",
        f"SRNNStack is at least as good as nn.GRU {one_lost}",
        f"SRNNStack is at least as good as nn.LSTM {one_lost}",
    ]


def test_incomplete_programs_are_not_compared() -> None:
    found = recorded(lost_and_won)
    missing = next(run for run in plan.runs() if (run.program.name, run.network) == ("tagger", "SRNN"))
    del found[missing.id]
    rows, sentences = table.tables(plan.runs(), found)
    cells = next(rows[k + 2] for k, row in enumerate(rows) if row[0].startswith("tagger"))
    assert cells == ["", "SRNN", "not complete", "", "not complete", "", ""]
    assert sentences[0].startswith("SRNN is at least as good as nn.GRU in 4 of 5 programs at equal updates (worse: forecaster)")
    assert sentences[2].startswith("SRNNStack is at least as good as nn.GRU in 5 of 6")


def test_document_shows_table_and_origin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page, out = tmp_path / "page.md", tmp_path / "swap.jsonl"
    page.write_text("before\n<!-- swap:begin -->\nold\n<!-- swap:end -->\nafter\n")
    monkeypatch.setattr(workers, "results", lambda runs, jobs: ((run, made_up(run, lost_and_won)) for run in runs))
    swap.main(out=out, readme=page, console=Console(quiet=True))
    text = page.read_text()
    assert text.startswith("before\n<!-- swap:begin -->\n| program and score | network |")
    assert text.endswith("\n<!-- swap:end -->\nafter\n")
    assert "| classifier: accuracy, %, higher is better | nn.GRU | 50 (48 to 52) | 0.003 |" in text
    assert "- SRNNStack is at least as good as nn.GRU in 5 of 6 programs" in text
    assert "360 runs with Adam, learning rates 0.001, 0.003, 0.01, seeds 6, 7, 8, 9, 10" in text
    assert "\n- policy: 460 updates or 5 CPU seconds, 64 units, batch 16, up to 25 steps, data: drawn at random\n" in text
    assert "batch 16, up to 100 steps, data: a generated text, 370532 characters" in text
    (commit,) = {record["commit"]["id"] for record in store.read_all(out)}
    assert f"commit {commit[:10]}" in text


def test_document_without_records_shows_the_command() -> None:
    assert (
        as_markdown(table.parts(plan.runs(), {}))
        == "There are no records yet. Run `srnn bench --swap --readme docs/migrate.md`."
    )


def test_other_readers_skip_swap_records(tmp_path: Path) -> None:
    for record in recorded(lost_and_won, plan.runs(quick=True)).values():
        store.collect(tmp_path / "swap.jsonl", record)
    with pytest.raises(RecordError, match="there are no records in"):
        results.read(tmp_path)
    assert records.read(tmp_path) == Records([], [])


def test_page_shows_the_records() -> None:
    runs, page = plan.runs(), ROOT / "docs" / "migrate.md"
    found = swap.recorded(ROOT / swap.RECORDS, runs, Console())
    assert store.filled(page, "swap", as_markdown(table.parts(runs, found))) == page.read_bytes()


@pytest.mark.parametrize(
    ("how", "kind", "said"),
    [
        ({"only": ["speller"]}, SettingError, "no program is called 'speller'. Choose one of classifier, tagger, characters,"),
        ({"quick": True, "readme": ROOT / "docs" / "migrate.md"}, SettingError, "--quick is a rehearsal .* leave out --readme"),
        ({"readme": ROOT / "docs" / "data.md"}, RecordError, "must hold <!-- swap:begin -->"),
    ],
)
def test_wrong_options_are_refused_before_anything_runs(
    how: dict[str, Any], kind: type[Exception], said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(workers, "results", None)
    with pytest.raises(kind, match=said):
        swap.main(out=tmp_path / "swap.jsonl", **how)
    assert list(tmp_path.iterdir()) == []
