"""Decompositions give what the operators give, in plain ATen operators, or with torch's scan."""

import itertools
from typing import Any

import pytest
import torch
from torch.export import Dim

from srnn import SRNN, SRNNStack, decompositions
from srnn.kernels import ACTIVATIONS, pytorch, reference

C, H, V, N = 3, 5, 6, 4
FLAGS = (False, True)
# Warnings of torch's exporter about its own code.
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore:.*torch.jit:DeprecationWarning")


def operators(program: Any) -> set[str]:
    return {str(node.target) for node in program.graph.nodes if node.op == "call_function"}


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("T", [1, 7, 150])
def test_every_form_equals_the_reference(activation: str, T: int) -> None:
    for reverse, has_lengths, has_reset, is_permuted, has_ids in itertools.product(FLAGS, repeat=5):
        b, ids = (torch.randn(V, H), torch.randint(V, (N, T))) if has_ids else (torch.randn(N, T, H), None)
        permutation = torch.randperm(H) if is_permuted else None
        lengths, reset = torch.randint(T + 1, (N,)) if has_lengths else None, torch.rand(N, T) < 0.3 if has_reset else None
        given = (b, torch.randn(N, H), ids, permutation, lengths, reset, reverse, activation)
        *found, _ = decompositions.shuffle_scan(*given)
        for got, wanted in zip(found, reference.shuffle_scan(*given), strict=True):
            torch.testing.assert_close(got, wanted, rtol=0, atol=1e-4)


def test_no_step_and_half_precision() -> None:
    b, h0 = torch.randn(N, 0, H), torch.randn(N, H)
    states, h_n, _ = decompositions.shuffle_scan(b, h0, None, None, None, None, False, "relu")
    assert (states.shape, h_n.tolist()) == (b.shape, h0.tolist())
    half = torch.randn(N, 9, H).bfloat16()
    states, h_n, _ = decompositions.shuffle_scan(half, h0.bfloat16(), None, None, None, None, False, "relu")
    torch.testing.assert_close(states, reference.shuffle_scan(half, h0.bfloat16())[0])


def test_the_closed_form_does_not_drift_over_many_steps() -> None:
    b, h0 = torch.randn(2, 20_000, H), torch.zeros(2, H)
    states, h_n, _ = decompositions.shuffle_scan(b, h0, None, None, None, None, False, "relu")
    expected, last = pytorch.shuffle_scan(b.double(), h0.double(), None, None, None, None, False, "relu")[:2]
    torch.testing.assert_close(states.double(), expected, rtol=0, atol=1e-3)
    torch.testing.assert_close(h_n.double(), last, rtol=0, atol=1e-3)


def test_tanh_uses_the_scan_of_torch_for_fixed_steps_too() -> None:
    rnn, x = SRNN(C, H, activation="tanh").eval(), torch.randn(9, 2, C)
    plain = torch.export.export(rnn, (x,)).run_decompositions(decompositions.table())
    assert "scan" in operators(plain)
    torch.testing.assert_close(plain.module()(x)[0], rnn(x)[0], rtol=0, atol=1e-4)


def test_a_layer_with_fixed_steps_becomes_plain_aten() -> None:
    T = decompositions.CHUNK + 6
    rnn, x = SRNN(C, H, batch_first=True, bidirectional=True).eval(), torch.randn(2, T, C)
    exported = torch.export.export(rnn, (x,), dynamic_shapes={"input": {0: Dim("N")}})
    assert "srnn.gated_scan.default" in operators(exported)
    plain = exported.run_decompositions(decompositions.table())
    assert all(name.startswith(("aten.", "<built-in")) for name in operators(plain))
    for rows in (1, 3):
        x = torch.randn(rows, T, C)
        for got, wanted in zip(plain.module()(x), rnn(x), strict=True):
            torch.testing.assert_close(got, wanted, rtol=0, atol=1e-4)


@pytest.mark.parametrize("activation", ["clip", "tanh"])
def test_free_steps_use_the_scan_of_torch(activation: str) -> None:
    rnn: Any = SRNNStack(C, H, 1, batch_first=True, activation=activation).eval()
    x, lengths = torch.randn(2, 9, C), torch.tensor([9, 2])
    rows = Dim("N")
    shapes = {"input": {0: rows, 1: Dim("T")}, "lengths": {0: rows}}
    exported = torch.export.export(rnn, (x,), {"lengths": lengths}, dynamic_shapes=shapes)
    plain = exported.run_decompositions(decompositions.table())
    assert "scan" in operators(plain)
    assert not any("srnn" in name for name in operators(plain))
    for T in (2, 30):
        x, lengths = torch.randn(3, T, C), torch.randint(T + 1, (3,))
        for got, wanted in zip(plain.module()(x, lengths=lengths), rnn(x, lengths=lengths), strict=True):
            torch.testing.assert_close(got, wanted, rtol=0, atol=1e-4)
