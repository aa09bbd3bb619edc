"""The measurements of exhibits: each number is compared with that of a plain loop."""

import base64
import io
import itertools
import json
import math
import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy
import pytest
import torch
from PIL import Image
from torch import Tensor
from torch.testing import assert_close

from srnn import kernels
from srnn.lab.bench import clock
from srnn.lab.measures import KINDS, gradients, hiddenstate, measure, timing
from srnn.lab.networks.srnn import SRNNNetwork
from srnn.lab.paper.plan import EXHIBITS, Line, Measurement, Plan
from srnn.lab.tasks.copy import Copy
from srnn.lab.tasks.task import Batch
from srnn.lab.training import model as models
from srnn.lab.training.loop import make_model
from srnn.lab.training.recipes import make_run
from srnn.lab.training.run import Run


def small(task: str, network: str, **settings: Any) -> Run:
    return make_run(task, network, **({"hidden_size": 7, "steps": 1} | settings))


@pytest.mark.parametrize("task", ["adding", "copy"])
@pytest.mark.parametrize("network", ["srnn", "rnn", "lstm", "gru"])
def test_the_gradient_of_a_state_is_that_of_the_rest_of_the_sequence(task: str, network: str) -> None:
    run = small(task, network, length=6)
    found = gradients.gradients(run, None, 6, [5], sequences=3)
    steps = 6 if task == "adding" else 26
    assert found["t"] == list(range(1, steps + 1))
    model = gradients.load(run, None, 5)
    batch = run.task.batch(0, 3, 5 + gradients.FRESH)
    for t in (1, 4, steps):
        first, state = model.states(batch.input[:, :t])
        parts = [part.detach().requires_grad_() for part in (state if isinstance(state, tuple) else (state,))]
        outputs = [first[:, :-1].detach(), parts[0][-1][:, None]]
        if t < steps:
            outputs.append(model.states(batch.input[:, t:], tuple(parts) if len(parts) > 1 else parts[0])[0])
        states = torch.cat(outputs, dim=1)
        loss = run.task.loss(model.readout(states if run.task.every_step else states[:, -1]), batch)
        each = torch.autograd.grad(loss, parts, allow_unused=True, materialize_grads=True)
        norm = torch.cat([part[-1] for part in each], dim=-1).norm(dim=-1).mean()
        assert found["norm"][0][t - 1] == pytest.approx(float(norm), rel=1e-4, abs=1e-12)
    model.zero_grad()
    run.task.loss(model(batch), batch).backward()
    whole = math.sqrt(sum(float(p.grad.square().sum()) for p in model.rnn.parameters()))
    assert found["weights"][0] == pytest.approx(whole, rel=1e-4)


def test_untrained_networks_differ_by_seed_and_trained_ones_do_not() -> None:
    run = small("adding", "srnn", length=5)
    first, second = gradients.gradients(run, None, 5, [1, 2])["norm"]
    assert first != second
    weights = gradients.load(run, None, 3).state_dict()
    loaded = gradients.load(run, weights, 99)
    assert all(torch.equal(loaded.state_dict()[name], weights[name]) for name in weights)


def plain_undo(states: Tensor) -> Tensor:
    return torch.stack([states[:, t].roll(t, dims=-1) for t in range(states.shape[1])], dim=1)


def test_undoing_the_shift_leaves_a_unit_in_its_place() -> None:
    rnn = make_model(small("adding", "srnn")).rnn
    h = torch.rand(2, 7) + 1
    states = [h]
    for _ in range(9):
        states.append(states[-1].roll(-1, dims=-1))  # what the layer does to its state when b is 0
    still = gradients.undo_shift(torch.stack(states, dim=1))
    assert torch.equal(still, h[:, None].expand(-1, 10, -1))
    moved = rnn(torch.rand(2, 9, 2))[0]
    assert torch.equal(gradients.undo_shift(moved), plain_undo(moved))


@pytest.mark.parametrize("newborn", [True, False])
def test_survival_equals_a_count_of_living_units(newborn: bool) -> None:
    states = torch.relu(torch.randn(2, 20, 5) + 0.5)
    horizon, ages = 6, []
    for n in range(2):
        for t in range(20 - horizon):
            for u in range(5):
                if states[n, t, u] > 0 and not (newborn and t > 0 and states[n, t - 1, u] > 0):
                    age = next((k for k in range(20 - t) if states[n, t + k, u] == 0), 99)
                    ages.append(age)
    expected = [sum(age > k for age in ages) / len(ages) for k in range(horizon + 1)]
    assert gradients._shares(states, horizon, newborn) == pytest.approx(expected)
    assert expected[0] == 1 > expected[1]


def test_a_symmetric_walk_survives_as_the_formula_says() -> None:
    found = gradients.survival(small("copy", "srnn", length=20), None, [1], horizon=10)
    steps = torch.randn(200_000, 11).cumsum(dim=1)
    born = steps[steps[:, 0] > 0]
    for k in (0, 1, 5, 10):
        assert found["walk"][k] == pytest.approx(float((born[:, : k + 1] > 0).all(dim=1).double().mean()), abs=0.01)
        assert found["paper"][k] == 1 / (1 + k)
    assert len(found["newborn"][0]) == len(found["k"]) == 11


def test_the_bound_holds_with_the_absolute_value_inside_and_not_as_printed() -> None:
    found = gradients.bound(small("adding", "srnn", length=10), None, 10, [1, 2, 3], units=7)
    assert found["absolute value inside"] == [0.0] * 3
    assert max(found["as printed"]) > 0


def test_b_is_measured_on_the_inputs_of_the_task() -> None:
    run = small("adding", "srnn", length=30)
    found = gradients.drive(run, None, [4])
    b = gradients.load(run, None, 4).rnn.b[0](run.task.batch(0, 20, 4 + gradients.FRESH).input)
    assert found == {"mean": [pytest.approx(float(b.detach().mean()))], "deviation": [pytest.approx(float(b.detach().std()))]}


def test_changes_of_the_state_are_measured_by_phase() -> None:
    run = small("adding", "srnn", length=40)
    weights = gradients.load(run, None, 1).state_dict()
    found = hiddenstate.hiddenstate(run, weights, sequences=3)
    batch = run.task.batch(0, 3, run.seed + gradients.FRESH)
    states = plain_undo(gradients.load(run, weights, 1).states(batch.input)[0].detach())
    changes: dict[str, list[float]] = {name: [] for name in found["phases"]}
    for n in range(3):
        marks = batch.input[n, :, 1].nonzero().flatten().tolist()
        for t in range(10, 40):
            phase = "at the markers" if t in marks else list(changes)[1 + sum(mark < t for mark in marks)]
            changes[phase].append(float((states[n, t] - states[n, t - 1]).norm() / states[n, t - 1].norm()))
    assert list(changes) == ["at the markers", "before the markers", "between them", "after them"]
    for name, values in changes.items():
        assert found["phases"][name]["steps"] == len(values) > 0
        assert found["phases"][name]["change"] == pytest.approx(sum(values) / len(values), rel=1e-5)
    marked = [batch.input[n, :, 1].nonzero().flatten().tolist() for n in range(3)]
    shortest = [min(first, second - first, 39 - second) for first, second in marked]
    drawn = shortest.index(max(shortest))  # a picture in which all three bands can be seen
    assert drawn != 0, "the first would be drawn by any rule: choose another seed"
    assert found["markers"] == marked[drawn]
    picture = numpy.asarray(Image.open(io.BytesIO(base64.b64decode(found["png"]))))
    assert picture.shape == (7, 40)
    expected = (states[drawn] / found["white"]).clamp(0, 1).T.numpy() * 255
    assert numpy.abs(picture - expected).max() <= 0.5 + 1e-3


def test_the_markers_of_the_drawn_sequence_can_be_chosen() -> None:
    run = small("adding", "srnn", length=40)
    weights = gradients.load(run, None, 1).state_dict()
    found = hiddenstate.hiddenstate(run, weights, sequences=3, markers=(15, 30))
    input = run.task.batch(0, 3, run.seed + gradients.FRESH).input
    input[0, :, 1] = 0.0
    input[0, [15, 30], 1] = 1.0
    states = plain_undo(gradients.load(run, weights, 1).states(input)[0].detach())
    picture = numpy.asarray(Image.open(io.BytesIO(base64.b64decode(found["png"]))))
    assert found["markers"] == [15, 30]
    assert numpy.abs(picture - (states[0] / found["white"]).clamp(0, 1).T.numpy() * 255).max() <= 0.5 + 1e-3


def test_units_that_a_step_sets_to_zero_are_counted_by_phase() -> None:
    run = small("copy", "srnn", length=30)
    weights = gradients.load(run, None, 1).state_dict()
    found = hiddenstate.hiddenstate(run, weights, sequences=3)
    states = plain_undo(
        gradients.load(run, weights, 1).states(run.task.batch(0, 3, run.seed + gradients.FRESH).input)[0].detach()
    )
    shares, alive = [], []
    for n in range(3):
        for t in range(10, 39):
            positive = [u for u in range(7) if states[n, t - 1, u] > 0]
            if positive:
                shares.append(sum(float(states[n, t, u]) <= 0 for u in positive) / len(positive))
                alive.append(sum(float(states[n, t, u]) > 0 for u in range(7)) / 7)
    assert found["phases"]["delay"]["steps"] == len(shares) > 0
    assert found["phases"]["delay"]["zeroed"] == pytest.approx(sum(shares) / len(shares))
    assert found["phases"]["delay"]["alive"] == pytest.approx(sum(alive) / len(alive))


def test_drift_is_from_the_first_step_of_a_phase_to_its_last() -> None:
    states = torch.tensor([[[3.0, 4.0], [9.0, 9.0], [0.0, 4.0], [1.0, 1.0]], [[1.0, 0.0], [2.0, 0.0], [4.0, 0.0], [8.0, 0.0]]])
    both = torch.tensor([[True, True, True, False], [False, True, True, True]])
    assert hiddenstate._drift(both, states) == {"drift": pytest.approx((3 / 5 + 6 / 8) / 2)}
    pieces = torch.tensor([[True, False, True, False], [True, True, False, False]])
    assert hiddenstate._drift(pieces, states) == {"drift": pytest.approx(0.5)}  # of the second alone
    assert hiddenstate._drift(torch.zeros(2, 4, dtype=torch.bool), states) == {}


def test_a_unit_is_dropped_after_it_has_lasted() -> None:
    """Of three units one flickers, one lasts, and one is set to zero at step 12 of 14."""
    states = torch.ones(1, 14, 3)
    states[0, ::2, 0] = 0
    states[0, 12:, 1] = 0
    lasting = 3 + 4  # (unit, step) from which a step can drop it: unit 1 after steps 9, 10, 11 and unit 2 after 9 to 12
    assert hiddenstate._dropped(states) == pytest.approx(1 / lasting)
    assert hiddenstate._dropped(torch.zeros(1, 14, 3)) == 0.0


def test_work_of_other_processes_is_noticed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stat = tmp_path / "stat"
    stat.write_text("cpu  100 20 30 4000 50 6 7 0 0 0\ncpu0 1 2 3 4 5 6 7 0 0 0\n")
    monkeypatch.setattr(timing, "STAT", stat)
    ticks = os.sysconf("SC_CLK_TCK")
    assert timing._work() == 163 / ticks
    others = timing.Others()
    stat.write_text(f"cpu  {100 + 3 * ticks} 20 30 4000 50 6 7 0 0 0\n")  # three seconds of work
    others.wall, others.own = time.monotonic() - 2, time.process_time() - 1  # in two seconds, one of them ours
    assert others.busy_cores() == pytest.approx(1.0, abs=0.1)
    monkeypatch.setattr(timing, "STAT", tmp_path / "none")
    alone = timing.Others()
    assert alone.busy_cores() == alone.load


def test_copy_is_split_at_the_delay_and_a_picture_stays_below_a_megabyte() -> None:
    run = small("copy", "srnn", length=30)
    batch = run.task.batch(0, 2, 1)
    phases = hiddenstate._phases("copy", batch)
    assert {name: int(part[0].sum()) for name, part in phases.items()} == {"symbols": 10, "delay": 29, "recital": 11}
    assert int(batch.input[0, -11]) == 9  # where the recital begins: with the signal
    noise = hiddenstate._picture(torch.rand(784, 1024))
    assert noise["units_drawn"] == 892
    assert len(noise["png"]) < 1_000_000


def test_utterances_near_a_length_are_chosen() -> None:
    class Spoken:
        reports = "test"

        def batches(self, split: str, size: int) -> Any:
            for lengths in ([20, 30, 40], [140, 150, 160], [300, 310, 320]):
                yield Batch(torch.zeros(3, max(lengths), 2), torch.zeros(3, max(lengths), 2), torch.tensor(lengths))

    class Fixed:
        task = Spoken()

    batch = hiddenstate._batch(Fixed(), 3, 151)  # type: ignore[arg-type]
    assert batch.input.shape[:2] == (2, 150)  # one of them is no longer than that


def test_a_line_is_fitted_with_its_interval() -> None:
    x = [0.0, 1.0, 2.0, 3.0]
    slope, margin = timing.fit(x, [1.0, 3.1, 4.9, 7.0])
    (expected, _), covariance = numpy.polyfit(x, [1.0, 3.1, 4.9, 7.0], 1, cov=True)
    assert slope == pytest.approx(expected, rel=1e-9)
    assert margin == pytest.approx(4.302652729911275 * covariance[0, 0] ** 0.5, rel=1e-9)  # Student's t, 97.5 %, two degrees
    assert timing.fit([0.0, 1.0, 2.0], [5.0, 7.0, 9.0]) == pytest.approx((2.0, 0.0), abs=1e-9)


def test_growth_is_measured_at_every_size_with_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[Any, ...]] = []
    real = timing._one_sequence

    def noted(*what: Any) -> Any:
        made.append((*what, torch.get_num_threads()))
        return real(*what)

    monkeypatch.setattr(timing, "_one_sequence", noted)
    torch.set_num_threads(2)
    found = timing.growth("srnn", "units", [8, 16, 32], fixed=5, rounds=1)
    assert torch.get_num_threads() == 2
    assert made == [("srnn", "units", size, 5, 1) for size in (8, 16, 32)]
    assert found["sizes"] == [8, 16, 32]
    assert min(found["milliseconds"]) > 0
    assert found["fitted_from"] == 8
    layer = timing._network("urnn", 8).layer(4, 5)
    assert layer.factored


@pytest.mark.parametrize(("over", "power"), [("units", 2.0), ("steps", 0.5)])
def test_the_exponent_of_growth_is_that_of_the_larger_sizes(over: str, power: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call says how long it took: more than the law has it at the two smallest sizes, and in one of three rounds at any."""
    made: list[tuple[Any, ...]] = []

    def one_sequence(*what: Any) -> Any:
        made.append(what)
        seconds = 2.0 * what[2] ** power + (1e9 if what[2] < 32 else 0.0)
        calls = itertools.count()  # one before the race, then one a round
        return lambda: 1e9 if next(calls) == 1 else seconds

    monkeypatch.setattr(timing, "_one_sequence", one_sequence)
    monkeypatch.setattr(clock.Clock, "measure", lambda self, call: call())
    sizes = [8, 16, 32, 64, 128, 256]
    found = timing.growth("gru", over, sizes, fixed=7, rounds=3)
    assert made == [("gru", over, size, 7) for size in sizes]
    assert (found["exponent"], found["margin"]) == (pytest.approx(power), pytest.approx(0.0, abs=1e-6))
    assert found["fitted_from"] == 32
    assert found["milliseconds"][2:] == pytest.approx([2000.0 * size**power for size in sizes[2:]])


@pytest.mark.parametrize(("over", "shape"), [("units", (6, 3)), ("steps", (3, 6))])
def test_growth_is_over_units_or_over_steps(over: str, shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, ...]] = []
    real = timing._network

    def network(name: str, H: int) -> Any:
        layer = real(name, H).layer(timing.INPUTS, 1)
        layer.register_forward_hook(lambda layer, given, out: seen.append((out[0].shape[2], given[0].shape[1])))
        return SimpleNamespace(layer=lambda *sizes: layer)

    monkeypatch.setattr(timing, "_network", network)
    timing._one_sequence("gru", over, 6, 3)()
    assert seen == [shape]


def test_the_dense_form_of_srnn_gets_a_vector_at_every_step_and_gives_the_same() -> None:
    task = Copy(5)
    batch = task.batch(0, 2, 0)
    how = {"readout": (), "norm": False, "dropout": 0.0}
    usual, dense = (models.make(task, kind(6, mlp=(3,)), 1, **how) for kind in (SRNNNetwork, timing.DenseSRNNNetwork))
    shapes: list[tuple[int, ...]] = []
    dense.rnn.register_forward_pre_hook(lambda layer, given: shapes.append(tuple(given[0].shape)))
    assert_close(dense(batch), usual(batch))
    assert shapes == [(2, 25, 3)]


def test_a_call_on_a_backend_runs_there() -> None:
    seen: list[str] = []
    clock.on_backend("reference", lambda: seen.append(kernels.default_backend()))()
    assert seen == ["reference"]


@pytest.mark.parametrize("task", ["copy", "pmnist"])
def test_runtime_holds_every_form(task: str) -> None:
    found = timing.runtime(task, rounds=1, networks=["gru"], steps=24)
    assert list(found["milliseconds"]) == ["gru", "srnn, plain loop", "srnn, dense", "srnn, alphabet"]
    assert found["times_srnn"]["srnn, dense"] == 1.0
    assert list(found["parameters"]) == ["gru", "srnn"]
    assert found["threads"] == 2
    assert found["quartiles"]["srnn, dense"] == [1.0, 1.0]
    assert found["times_srnn"]["gru"] == pytest.approx(found["milliseconds"]["gru"] / found["milliseconds"]["srnn, dense"])


def test_runtime_counts_parameters_as_table_4_does() -> None:
    found = timing.runtime("adding", rounds=1, networks=["rnn", "gru"], steps=3)
    assert found["parameters"] == {"rnn": 17_025, "gru": 50_817, "srnn": 4_833}  # the authors' one more is not used


def test_a_record_of_a_measurement_is_complete() -> None:
    run = small("adding", "srnn", length=5)
    measurement = Measurement("gradients", Line(), 5, "gradients", {"length": 5, "seeds": [1]}, run)
    record = measure(measurement, None).to_json()
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert record["id"] == measurement.id
    assert record["measurement"]["run"] == run.id
    assert {"versions", "machine", "commit", "format"} <= record.keys()
    again = Measurement("gradients", Line(), 5, "gradients", {"seeds": [1], "length": 5}, run)
    other = Measurement("gradients", Line(), 5, "gradients", {"seeds": [1], "length": 5}, run, trained=True)
    assert again.id == measurement.id != other.id


def test_every_measurement_of_every_exhibit_has_a_function_and_an_id_of_its_own() -> None:
    found = [each for exhibit in EXHIBITS.values() for each in exhibit.measurements(Plan())]
    assert {each.kind for each in found} == set(KINDS)
    assert len({each.id for each in found}) == len(found)
    trained = {(each.line, each.x) for each in found if each.kind == "gradients" and each.trained}
    assert len(trained) == 2 * 3 * 4
    seeds = {len(each.settings["seeds"]) for each in found if each.kind == "gradients" and not each.trained}
    assert seeds == {5}


REHEARSED = [each for exhibit in EXHIBITS.values() for each in exhibit.measurements(Plan("quick"))]


@pytest.mark.slow
@pytest.mark.usefixtures("digits", "voices")
@pytest.mark.parametrize("each", REHEARSED, ids=lambda each: f"{each.exhibit}: {each.line}, {each.x}, {each.kind}")
def test_every_measurement_can_be_rehearsed(each: Measurement) -> None:
    weights = make_model(each.run).state_dict() if each.run and each.trained else None
    assert measure(each, weights).found
