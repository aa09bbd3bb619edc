"""`SRNN`, `SRNNCell` and `SRNNStack` with any settings, in every form of input, against the loops of their equations."""

import inspect
from pathlib import Path
from typing import Any

import test_faults
import test_layer
import test_stack
import torch
from hypothesis import strategies as st
from scans import activations, flag, registry, seeds
from torch import Tensor
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from srnn import SRNN, SRNNCell, SRNNStack

TARGETS, target = registry()
EQUATIONS: dict[Any, Any] = {SRNN: test_layer.equations, SRNNStack: test_stack.equations}
FORMS = ("batch first", "time first", "one sequence", "packed", "nested")
sizes = st.integers(1, 6)
kinds = st.sampled_from([SRNN, SRNNStack])


@st.composite
def settings(draw: Any, kind: Any) -> dict[str, Any]:
    """Settings of a layer, all of them right."""
    H = draw(st.sampled_from([1, 2, 3, 5, 8]))
    given: dict[str, Any] = {"input_size": draw(sizes), "hidden_size": H, "bias": draw(flag), "gate": draw(flag)}
    given |= {"mlp": draw(st.lists(sizes, max_size=1)), "activation": draw(activations)}
    if given["bias"] and given["gate"]:
        given["gate_init"] = draw(st.sampled_from([None, -1.0, 2]))
    if kind is not SRNNCell:
        given |= {"num_layers": draw(st.integers(1, 2)), "bidirectional": draw(flag)}
    if kind is SRNNStack:
        given["width"] = draw(st.sampled_from([None, 2, 5]))
        H = kind(**given).blocks[0].rnn.hidden_size  # the units of an SRNN
    given["permutation"] = draw(st.sampled_from(["shift", "partial", "identity", "random", torch.arange(H).flip(0)]))
    return given


def numbers(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, requires_grad=True)


def assert_same(found: tuple[Any, ...], expected: tuple[Any, ...], leaves: list[Tensor]) -> None:
    """The same values and gradients, also where nothing depends on a leaf."""
    both = torch.stack([leaf.sum() for leaf in leaves]).sum()
    test_layer.assert_same((*found, both), (*expected, both), leaves)


def nested(x: Tensor, lengths: list[int]) -> Tensor:
    values = torch.cat([row[:end] for row, end in zip(x, lengths, strict=True)])
    return torch.nested.nested_tensor_from_jagged(values, torch.tensor([0, *lengths]).cumsum(0))


def padded(output: Any, form: str, like: Tensor) -> Tensor:
    """The output of any form as [N, T, ...] of the extents of `like`, zeros from a row's length on."""
    if form == "packed":
        return pad_packed_sequence(output, batch_first=True, total_length=like.shape[1])[0]
    if form == "nested":
        rows = [torch.cat([row, row.new_zeros(like.shape[1] - len(row), row.shape[1])]) for row in output.unbind()]
        return torch.stack(rows)
    return output[None] if form == "one sequence" else output.transpose(0, 1) if form == "time first" else output


@target(
    seed=seeds,
    kind=kinds,
    data=st.data(),
    form=st.sampled_from(FORMS),
    N=st.integers(0, 3),
    T=st.integers(0, 7),
    lengths=flag,
    reset=flag,
    symbols=flag,
    hx=flag,
)
def whole_sequences(
    seed: int, kind: Any, data: Any, form: str, N: int, T: int, lengths: bool, reset: bool, symbols: bool, hx: bool
) -> None:
    """`forward`, `final_state` and `final_output`, with the gradients of all weights."""
    torch.manual_seed(seed)
    rnn = kind(**data.draw(settings(kind)), batch_first=form != "time first", dtype=torch.float64)
    lengths = lengths or form in ("packed", "nested")
    least = 1 if form in ("packed", "nested") else 0
    N, T = (1 if form == "one sequence" else max(N, least)), max(T, least)
    ends = [data.draw(st.integers(least, T)) for _ in range(N)] if lengths else None
    if form == "nested":
        T = max(ends or [0])
    mask = torch.rand(N, T) < 0.3 if reset else None
    alphabet, ids, D = numbers(4, rnn.input_size), torch.randint(0, 4, (N, T)), 2 if rnn.bidirectional else 1
    x = alphabet[ids] if symbols else numbers(N, T, rnn.input_size)
    h0 = numbers(rnn.num_layers * D, N, rnn.hidden_size) if hx else None
    leaves = [alphabet if symbols else x, *([] if h0 is None else [h0]), *rnn.parameters()]
    output, h_n = EQUATIONS[kind](rnn, x, h0, ends, mask)

    how: dict[str, Any] = {"hx": h0, "lengths": ends, "reset": mask}
    given: Any = ids if symbols else x
    if symbols:
        how["alphabet"] = alphabet
    if form == "time first":
        given, how["reset"] = given.transpose(0, 1), None if mask is None else mask.T
    elif form == "one sequence":
        given, h_n = given[0], h_n[:, 0]
        how |= {"reset": None if mask is None else mask[0], "lengths": None if ends is None else ends[0]}
        how["hx"] = None if h0 is None else h0[:, 0]
    elif form == "packed":
        given, packed = (pack_padded_sequence(t, ends, True, False) for t in (given, ids if mask is None else mask))  # type: ignore[arg-type]
        how |= {"lengths": None, "reset": None if mask is None else packed}
    elif form == "nested":
        given, how["lengths"] = nested(given, ends or []), None
    found = [*rnn(given, **how), rnn.final_state(given, **how)]
    found[0] = padded(found[0], form, x)
    expected = [output, h_n, h_n]
    if kind is SRNNStack:
        last = test_stack.last(output, ends) if N and T else output.new_zeros(N, output.shape[2])
        found.append(rnn.final_output(given, **how))
        expected.append(last[0] if form == "one sequence" else last)
    assert_same(tuple(found), tuple(expected), leaves)


@target(seed=seeds, kind=kinds, data=st.data(), N=st.sampled_from([0, 1, 2, 33]), T=st.integers(1, 3), reset=flag, hx=flag)
def step_by_step(seed: int, kind: Any, data: Any, N: int, T: int, reset: bool, hx: bool) -> None:
    """`step`, `SRNNCell` and a forward pass of one step, in float64 with gradients."""
    torch.manual_seed(seed)
    given = data.draw(settings(kind)) | {"bidirectional": False}
    rnn = kind(**given, batch_first=True, dtype=torch.float64)
    x, mask = numbers(N, T, rnn.input_size), torch.rand(N, T) < 0.3 if reset else None
    h0 = numbers(rnn.num_layers, N, rnn.hidden_size) if hx else None
    output, h_n = EQUATIONS[kind](rnn, x, h0, None, mask)
    leaves = [x, *([] if h0 is None else [h0]), *rnn.parameters()]
    h, outputs = h0, []
    for t in range(T):
        found = rnn.step(x[:, t], h, None if mask is None else mask[:, t])
        y, h = found if kind is SRNNStack else (found[-1], found)
        outputs.append(y)
    assert_same((torch.stack(outputs, 1), h), (output, h_n), leaves)
    if mask is None:
        alone = rnn(x[:, :1], h0)
        assert_same(alone, EQUATIONS[kind](rnn, x[:, :1], h0), leaves)
        if kind is SRNN and rnn.num_layers == 1:
            cell = SRNNCell(**{k: v for k, v in given.items() if k not in ("num_layers", "bidirectional")}, dtype=torch.float64)
            cell.load_state_dict(rnn.state_dict())
            torch.testing.assert_close(cell(x[:, 0], None if h0 is None else h0[0]), alone[1][0])


@target(seed=seeds, kind=kinds, data=st.data(), N=st.integers(0, 9), T=st.integers(0, 20), final=flag)
def single_precision(seed: int, kind: Any, data: Any, N: int, T: int, final: bool) -> None:
    """Values in float32 against the same layer in float64."""
    torch.manual_seed(seed)
    given = data.draw(settings(kind)) | {"batch_first": True}
    rnn, exact = kind(**given), kind(**given, dtype=torch.float64)
    exact.load_state_dict(rnn.state_dict())
    x, ends = torch.randn(N, T, rnn.input_size), torch.randint(0, T + 1, (N,))
    found, expected = rnn(x, lengths=ends), exact(x.double(), lengths=ends)
    if final:
        found, expected = (rnn.final_state(x, lengths=ends),), expected[1:]
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-3, atol=1e-3)


junk = st.one_of(
    test_faults.anything,
    st.sampled_from([True, -1, 0, 2, 1.5, float("nan"), "", "relu", "shift", (), (2,), [1, 2], [0], [[1]], {}, torch.float16]),
)
MAKE = [name for name in inspect.signature(SRNNStack).parameters if name != "device"]
CALL = ("input", "hx", "lengths", "alphabet", "reset")


@target(
    kind=st.sampled_from([SRNN, SRNNCell, SRNNStack]),
    wrong=st.dictionaries(st.sampled_from(MAKE), junk, max_size=2),
    calls=st.dictionaries(st.sampled_from(CALL), junk, max_size=3),
    method=st.sampled_from(["forward", "final_state", "step", "final_output"]),
    symbols=flag,
    batch_first=flag,
)
def wrong_arguments(
    kind: Any, wrong: dict[str, Any], calls: dict[str, Any], method: str, symbols: bool, batch_first: bool
) -> None:
    """Any values as settings and arguments: they fit, or one of our errors says why not."""
    names = kind.__init__.__annotations__
    given: dict[str, Any] = {"input_size": 2, "hidden_size": 3, "batch_first": batch_first} | wrong

    def call(_: Path) -> None:
        rnn = kind(**{name: value for name, value in given.items() if name in names})
        if kind is SRNNCell:
            rnn(calls.get("input", torch.zeros(4, 2)), calls.get("hx"))
        elif method == "step":
            rnn.step(calls.get("input", torch.zeros(4, 2)), calls.get("hx"), calls.get("reset"))
        else:
            good = {"input": torch.zeros(2, 4, 2)}
            if symbols:
                good = {"input": torch.zeros(2, 4, dtype=torch.int64), "alphabet": torch.zeros(5, 2)}
            getattr(rnn, method if hasattr(rnn, method) else "forward")(**good | calls)

    word, found = test_faults.outcome(call, Path())
    assert word == "read" or found
