"""`srnn.diagnose` against loops that follow every path, and its advice by hand."""

import copy
import dataclasses
import re
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence
from torch.testing import assert_close

import srnn
from srnn import SRNN, SRNNStack, diagnose, kernels
from srnn.diagnosis import Diagnosis, LayerDiagnosis
from srnn.errors import DtypeError, LengthError, SettingError, SettingTypeError, ShapeError

C, H, N, T, V = 3, 5, 4, 11, 7
LENGTHS = [T, 3, 0, 8]
SIGMA: Any = {"relu": torch.relu, "tanh": torch.tanh, "clip": F.hardtanh}
EPSILON = 1e-7


def layer(**settings: Any) -> Any:
    return SRNN(C, H, **{"mlp": (4,), "batch_first": True, "dtype": torch.float64, **settings})


def numbers(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64)


def step(rnn: Any, h: Tensor, b: Tensor) -> Tensor:
    P_h = h.roll(-1) if rnn.permutation is None else h[rnn.permutation]
    return SIGMA[rnn.activation](P_h + b)


def states_of(rnn: Any, b: Tensor, h: Tensor, cleared: list[bool]) -> list[Tensor]:
    """The state before the first step and after each of b [L, H]; it is zero before steps that are `cleared`."""
    states = [h]
    for b_t, is_cleared in zip(b, cleared, strict=True):
        states.append(step(rnn, torch.zeros_like(h) if is_cleared else states[-1], b_t))
    return states


def by_loops(rnn: Any, x: Tensor, hx: Tensor, lengths: list[int], reset: Tensor) -> list[dict[str, Any]]:
    """All that `diagnose` says of rnn(x, hx, lengths=lengths, reset=reset), each path followed after a change of b."""
    directions, inputs, found = (
        2 if rnn.bidirectional else 1,
        [row[:length] for row, length in zip(x, lengths, strict=True)],
        [],
    )
    for first in range(0, len(rnn.b), directions):
        outputs = [row.new_zeros(len(row), 0) for row in inputs]
        for k in range(first, first + directions):
            alive: dict[int, list[bool]] = {}
            states, gates = [], []
            for n, row in enumerate(inputs):
                b = rnn.b[k](row).flip(0) if k > first else rnn.b[k](row)  # in the order of the steps
                borders = reset[n, : len(row)].tolist()  # before each step, and in reverse after it
                cleared = [False, *borders[:0:-1]][: len(row)] if k > first else borders
                states.append(states_of(rnn, b, hx[k, n], cleared))
                gates += torch.sigmoid(rnn.b[k].gate(row)).flatten().tolist() if rnn.gate else []
                for distance in range(1, len(row) + 1):
                    for unit in torch.eye(H, dtype=torch.float64):
                        other = b[len(b) - distance :].clone()
                        other[0] += EPSILON * unit
                        changed = states_of(rnn, other, states[n][-1 - distance], cleared[len(b) - distance :])[-1]
                        change = (changed - states[n][-1]).abs().sum() / EPSILON
                        alive.setdefault(distance, []).append(bool(change >= 0.01))
                after = torch.stack(states[n][1:]) if len(row) else row.new_zeros(0, H)
                outputs[n] = torch.cat([outputs[n], after.flip(0) if k > first else after], dim=1)
            here = [each[1:] for each in states if len(each) > 1]
            places = [
                torch.stack([each[i(len(each))] for each in here]) for i in (lambda L: 0, lambda L: (L - 1) // 2, lambda L: -1)
            ]
            every = torch.stack([h for each in here for h in each])
            found.append(
                {
                    "survival": {distance: sum(paths) / len(paths) for distance, paths in alive.items()},
                    "state_rms": tuple(place.square().mean().sqrt().item() for place in places),
                    "state_max": tuple(place.abs().max().item() for place in places),
                    "dead_units": (every == 0).all(0).double().mean().item(),
                    "closed_gates": sum(gate < 0.05 for gate in gates) / len(gates) if gates else None,
                    "gate_mean": sum(gates) / len(gates) if gates else None,
                }
            )
        inputs = outputs
    return found


def assert_same(diagnosis: Diagnosis, expected: list[dict[str, Any]]) -> None:
    for layer, values in zip(diagnosis.layers, expected, strict=True):
        found = dataclasses.asdict(layer)
        longest = max(values["survival"])
        assert set(found["survival"]) == {d for d in (1, 2, 4, 8, longest - longest // 10, longest) if d <= longest}
        assert found["survival"] == {distance: values["survival"][distance] for distance in found["survival"]}
        for name in set(values) - {"survival"}:
            assert found[name] == pytest.approx(values[name]), name


SETTINGS: list[dict[str, Any]] = [
    {},
    {"permutation": "identity"},
    {"permutation": "random"},
    {"bidirectional": True},
    {"num_layers": 2, "bidirectional": True, "permutation": "random"},
    {"gate": False},
    {"gate_init": -3.0},
]


@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["whole", "lengths"])
@pytest.mark.parametrize("activation", kernels.ACTIVATIONS)
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_every_number_is_what_following_each_path_gives(
    settings: dict[str, Any], activation: str, lengths: list[int] | None
) -> None:
    rnn = layer(**settings, activation=activation)
    x, hx = 3 * numbers(N, T, C), numbers(len(rnn.b), N, H)
    expected = by_loops(rnn, x, hx, lengths or [T] * N, torch.zeros(N, T, dtype=torch.bool))
    assert_same(diagnose(rnn, x, hx, lengths=lengths), expected)


@pytest.mark.parametrize("activation", kernels.ACTIVATIONS)
@pytest.mark.parametrize("bidirectional", [False, True], ids=["forward", "both"])
def test_a_reset_cuts_paths(bidirectional: bool, activation: str) -> None:
    rnn = layer(bidirectional=bidirectional, activation=activation, gate_init=-3.0)
    x, hx, reset = numbers(N, T, C), numbers(len(rnn.b), N, H), torch.rand(N, T) < 0.2
    expected = by_loops(rnn, x, hx, LENGTHS, reset)
    assert_same(diagnose(rnn, x, hx, lengths=LENGTHS, reset=reset), expected)
    whole = diagnose(rnn, x, hx, reset=torch.zeros(N, T, dtype=torch.bool).index_fill_(1, torch.tensor([T - 4]), True)).layers[
        0
    ]
    assert whole.survival[4] > 0
    assert whole.survival[8] == 0


def test_a_sequence_of_one_step_is_diagnosed() -> None:
    rnn, x, hx = layer(), numbers(1, 1, C), numbers(1, 1, H)
    assert_same(diagnose(rnn, x, hx), by_loops(rnn, x, hx, [1], torch.zeros(1, 1, dtype=torch.bool)))


def test_paths_of_both_kinds_are_among_those_that_were_followed() -> None:
    rnn = layer()
    never = torch.zeros(N, T, dtype=torch.bool)
    shares = by_loops(rnn, 3 * numbers(N, T, C), numbers(1, N, H), LENGTHS, never)[0]["survival"].values()
    assert any(0 < share < 1 for share in shares)


def test_every_form_of_input_is_diagnosed_alike() -> None:
    rnn, x = layer(num_layers=2, bidirectional=True), numbers(N, T, C)
    lengths = [T, 3, 1, 8]
    expected = diagnose(rnn, x, lengths=lengths)
    packed = pack_padded_sequence(x, torch.tensor(lengths), batch_first=True, enforce_sorted=False)
    rows = [row[:length] for row, length in zip(x, lengths, strict=True)]
    for form in (packed, torch.nested.as_nested_tensor(rows, layout=torch.jagged)):
        assert_close(_values(diagnose(rnn, form)), _values(expected))
    rnn.batch_first = False
    assert_close(_values(diagnose(rnn, x.transpose(0, 1), lengths=lengths)), _values(expected))
    assert_close(_values(diagnose(rnn, x[0])), _values(diagnose(rnn, x[:1].transpose(0, 1))))
    ids, alphabet = torch.randint(0, V, (T, N)), numbers(V, C)
    assert_close(_values(diagnose(rnn, ids, alphabet=alphabet)), _values(diagnose(rnn, alphabet[ids])))


def _values(diagnosis: Diagnosis) -> list[dict[str, Any]]:
    """All that was found but the names."""
    return [{name: value for name, value in dataclasses.asdict(each).items() if name != "name"} for each in diagnosis.layers]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_single_and_half_precision_are_diagnosed(dtype: torch.dtype) -> None:
    rnn, x = layer(), numbers(N, T, C)
    expected = diagnose(rnn, x).layers[0]
    found = diagnose(rnn.to(dtype), x.to(dtype)).layers[0]
    assert found.state_rms == pytest.approx(expected.state_rms, rel=0.02)
    assert found.survival[T] == pytest.approx(expected.survival[T], abs=0.15)


# A module with layers inside.


class Classifier(nn.Module):
    """Calls one layer, and only `final_state` of another; normalises and drops in between."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = layer(num_layers=2), SRNN(H, H, mlp=(4,), batch_first=True, dtype=torch.float64)
        self.norm, self.dropout = nn.BatchNorm1d(H, dtype=torch.float64), nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        output, _ = self.first(x)
        return self.last.final_state(self.dropout(self.norm(output.transpose(1, 2)).transpose(1, 2)))


def test_layers_inside_a_module_are_found_wherever_they_run() -> None:
    model, x = Classifier(), numbers(N, T, C)
    found = diagnose(model, x).layers
    assert [layer.name for layer in found] == ["first, layer 0", "first, layer 1", "last, layer 0"]
    assert_close(_values(Diagnosis(found[:2])), _values(diagnose(model.first, x)))
    model.eval()
    middle = model.norm(model.first(x)[0].transpose(1, 2)).transpose(1, 2)
    assert_close(_values(Diagnosis(found[2:])), _values(diagnose(model.last, middle)))


def test_the_layers_of_a_stack_are_found() -> None:
    stack, x = SRNNStack(C, H, batch_first=True, mlp=(4,), dtype=torch.float64), numbers(N, T, C)
    assert [each.name for each in diagnose(stack, x).layers] == ["blocks.0.rnn, layer 0", "blocks.1.rnn, layer 0"]


def test_both_directions_are_named() -> None:
    found = diagnose(layer(num_layers=2, bidirectional=True), numbers(N, T, C)).layers
    assert [each.name for each in found] == ["layer 0", "layer 0, reverse", "layer 1", "layer 1, reverse"]


def test_a_diagnosis_leaves_everything_as_it_was() -> None:
    model, x = Classifier(), numbers(N, T, C)
    model.first.eval()
    before, modes = copy.deepcopy(model.state_dict()), {name: part.training for name, part in model.named_modules()}
    attributes = {name: set(vars(part)) for name, part in model.named_modules()}
    generator, graphs = torch.get_rng_state(), []
    handle = model.norm.register_forward_hook(lambda module, given, output: graphs.append(output.requires_grad))
    diagnose(model, x)
    assert graphs == [False]
    handle.remove()
    with pytest.raises(ShapeError):
        diagnose(model, x[..., :2])
    assert torch.equal(torch.get_rng_state(), generator)
    assert_close(dict(model.state_dict()), dict(before), rtol=0, atol=0)
    assert {name: part.training for name, part in model.named_modules()} == modes
    assert {name: set(vars(part)) for name, part in model.named_modules()} == attributes
    assert all(parameter.grad is None for parameter in model.parameters())


def test_a_compiled_module_is_diagnosed() -> None:
    rnn, x = layer(num_layers=2), numbers(N, T, C)
    compiled: Any = torch.compile(rnn, backend="aot_eager")
    expected = compiled(x)
    assert_close(_values(diagnose(compiled, x)), _values(diagnose(rnn, x)))
    assert_close(compiled(x), expected)


def test_inference_mode_does_not_matter() -> None:
    rnn, x = layer(), numbers(N, T, C)
    expected = diagnose(rnn, x, lengths=LENGTHS)
    with torch.inference_mode():
        given = {"input": x.clone(), "hx": torch.zeros(1, N, H, dtype=torch.float64), "lengths": torch.tensor(LENGTHS)}
        assert diagnose(rnn, **given) == expected


# Wrong calls.


def test_wrong_input_raises_what_the_layer_raises() -> None:
    rnn, x = layer(), numbers(N, T, C)
    for kind, given in (
        (ShapeError, {"input": x[..., :2]}),
        (DtypeError, {"input": x.float()}),
        (ShapeError, {"input": x, "hx": x}),
        (LengthError, {"input": x, "lengths": [T, T, T, T + 1]}),
    ):
        with pytest.raises(kind) as expected:
            rnn(**given)
        with pytest.raises(kind, match=re.escape(str(expected.value))):
            diagnose(rnn, **given)


def test_a_module_without_srnn_layers_is_refused() -> None:
    x: Any = numbers(N, T, C)
    with pytest.raises(SettingTypeError, match="diagnose needs an SRNN layer, or a module that contains one, got Tensor"):
        diagnose(x, x)
    with pytest.raises(SettingError, match="runs SRNN layers over sequences, and GRU ran none"):
        diagnose(nn.GRU(C, H, dtype=torch.float64), x)
    for empty in (x[:0], x[:, :0]):
        with pytest.raises(ShapeError, match="diagnose needs a sequence of at least one step, got"):
            diagnose(layer(), empty)
    with pytest.raises(ShapeError, match="diagnose needs a sequence of at least one step, got 4 sequences of 11 steps"):
        diagnose(layer(), x, lengths=[0] * N)


# Advice.

FINE = LayerDiagnosis("layer 0", {1: 1.0, 9: 0.5, 10: 0.01}, (0.1, 0.5, 1.0), (0.3, 1.0, 2.0), 0.0, 0.5, 0.1)


@pytest.mark.parametrize(
    ("about", "changes", "expected"),
    [
        ("paths", {}, "Enough paths reach back 9 steps"),
        ("paths", {"survival": {1: 1.0, 9: 0.04, 10: 0.0}}, "Enough paths reach back 9 steps"),
        ("paths", {"survival": {1: 1.0, 9: 0.039, 10: 0.039}}, "Few paths reach back 9 steps.*a lower gate_init, such as -3.0"),
        ("paths", {"survival": {1: 1.0, 9: 0.009, 10: 0.0}}, "Hardly any path reaches back 9 steps.*a lower gate_init"),
        ("paths", {"survival": {1: 0.0}, "closed_gates": None}, "Hardly any path.*1 steps.*gate=True"),
        ("states", {}, "usual size"),
        ("states", {"state_rms": (0.1, 0.5, 10.1)}, "large at the end.*LayerNorm"),
        ("states", {"state_rms": (20.0, 20.0, 9.9)}, "usual size"),
        ("states", {"state_rms": (0.1, 0.5, 0.009)}, "close to zero"),
        ("states", {"state_rms": (0.1, float("nan"), float("nan"))}, "not finite"),
        ("states", {"state_rms": (0.1, 0.5, float("inf"))}, "not finite"),
        ("units", {}, "Every unit is used"),
        ("units", {"dead_units": 0.1}, "does no harm"),
        ("units", {"dead_units": 0.2}, "Many units are never used"),
        ("gates", {}, "partly open"),
        ("gates", {"closed_gates": 0.95}, "Nearly all gates are closed"),
        ("gates", {"gate_mean": 0.4}, "Gates are open.*the paths above decide"),
        ("gates", {"closed_gates": None, "gate_mean": None}, "There is no gate"),
    ],
)
def test_advice_depends_on_the_numbers(about: str, changes: dict[str, Any], expected: str) -> None:
    advice = dataclasses.replace(FINE, **changes).advice
    assert set(advice) == {"paths", "states", "units", "gates"}
    assert re.search(expected, advice[about])
    for sentence in advice.values():
        assert sentence.endswith(".")
        assert sentence.count(". ") == 0


def test_short_paths_and_closed_gates_are_distinguished() -> None:
    cut, closed = layer(gate=False, mlp=()), layer(gate_init=-6.0)
    with torch.no_grad():
        cut.b[0].linear.bias.fill_(-10.0)
    x = numbers(N, T, C)
    assert "Hardly any path" in diagnose(cut, x).layers[0].advice["paths"]
    assert diagnose(cut, x).layers[0].dead_units == 1.0
    ones = torch.ones(1, N, H, dtype=torch.float64)
    assert diagnose(closed, x, ones).layers[0].survival[T] == 1.0
    assert "Nearly all gates are closed" in diagnose(closed, x, ones).layers[0].advice["gates"]


def test_the_text_has_every_number_and_every_advice() -> None:
    text = str(FINE)
    assert text.splitlines() == [
        "layer 0",
        "  paths alive   1: 1.00  9: 0.50  10: 0.01",
        f"                {FINE.advice['paths']}",
        "  states        rms 0.1 / 0.5 / 1, max 0.3 / 1 / 2 at start / middle / end",
        f"                {FINE.advice['states']}",
        "  dead units    0.00",
        f"                {FINE.advice['units']}",
        "  closed gates  0.50, mean gate 0.100",
        f"                {FINE.advice['gates']}",
    ]
    assert str(Diagnosis((FINE, FINE))) == f"{text}\n{text}"
    assert "closed gates  none" in str(dataclasses.replace(FINE, closed_gates=None, gate_mean=None))


def test_a_diagnosis_cannot_be_changed() -> None:
    found: Any = srnn.diagnose(layer(), numbers(N, T, C))
    for thing, name in ((found, "layers"), (found.layers[0], "survival")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(thing, name, None)
