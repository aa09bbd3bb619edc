"""The other networks: each equals a plain loop of its equations, stays what its paper says it is, and asks clearly."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from srnn.errors import DeviceError, DtypeError, SettingError, ShapeError
from srnn.lab import data
from srnn.lab.networks import NETWORKS
from srnn.lab.networks.eurnn import EURNN, EURNNNetwork
from srnn.lab.networks.exprnn import EXPRNNNetwork
from srnn.lab.networks.indrnn import IndRNN, IndRNNNetwork
from srnn.lab.networks.lru import LRU, LRUNetwork
from srnn.lab.networks.mingru import MinGRUNetwork
from srnn.lab.networks.network import OPTIMIZERS, Group, Network
from srnn.lab.networks.nnrnn import NNRNNNetwork
from srnn.lab.networks.nru import NRU, NRUNetwork
from srnn.lab.networks.rgd import RGD, CayleyDescent, RGDNetwork
from srnn.lab.networks.scornn import SCORNNNetwork
from srnn.lab.networks.urnn import URNN, URNNNetwork
from srnn.lab.records.folder import RunFolder, load_tensors
from srnn.lab.tasks import TASKS, pmnist, randomlabels
from srnn.lab.training import model as models
from srnn.lab.training import optimizers
from srnn.lab.training.loop import Training, train
from srnn.lab.training.recipes import make_run
from srnn.lab.training.run import Run

C, H, STEPS = 3, 6, 9


# Plain loops: x [N, T, C] and the first state to outputs [N, T, O] and the last state.


def modrelu(z: Tensor, b: Tensor) -> Tensor:
    if z.is_complex():
        return z * (z.abs() + b).relu() / (z.abs() + 1e-5)
    return z.sign() * (z.abs() + b).relu()


def modrelu_loop(layer: Any, x: Tensor, h: Tensor | None, W: Tensor, V: Tensor) -> tuple[Tensor, Tensor]:
    states = []
    for x_t in x.unbind(dim=1):
        before = torch.zeros(len(x), layer.hidden_size, dtype=W.dtype) if h is None else h
        h = modrelu(x_t.to(V.dtype) @ V + before @ W, layer.b)
        states.append(h)
    assert h is not None
    return torch.stack(states, dim=1), h


def unitary_loop(layer: Any, x: Tensor, h: Tensor | None, W: Tensor) -> tuple[Tensor, Tensor]:
    """With a complex state; where it is learned, it begins with that."""
    n = layer.hidden_size
    if h is None and layer.h0 is not None:
        h = torch.complex(layer.h0[:n], layer.h0[n:]).expand(len(x), -1)
    return modrelu_loop(layer, x, h, W, torch.complex(layer.V[:, :n], layer.V[:, n:]))


def urnn_loop(layer: Any, x: Tensor, h: Tensor | None) -> tuple[Tensor, Tensor]:
    n = layer.hidden_size
    powers = torch.outer(torch.arange(n), torch.arange(n)).double()
    F = torch.polar(torch.full((n, n), n**-0.5, dtype=torch.float64), -2 * math.pi * powers / n)
    D = [torch.diag(torch.exp(1j * theta)) for theta in layer.theta]
    eye = torch.eye(n, dtype=F.dtype)
    R = [eye - 2 * torch.outer(v.conj(), v) / (v.conj() @ v) for v in layer.v[:, 0] + 1j * layer.v[:, 1]]
    P = eye[:, layer.permutation]
    states, last = unitary_loop(layer, x, h, D[0] @ F @ R[0] @ P @ D[1] @ F.conj().T @ R[1] @ D[2])
    return torch.cat([states.real, states.imag], dim=-1), last


def rgd_loop(layer: Any, x: Tensor, h: Tensor | None) -> tuple[Tensor, Tensor]:
    states, last = unitary_loop(layer, x, h, layer.W[0] + 1j * layer.W[1])
    return torch.cat([states.real, states.imag], dim=-1), last


def eurnn_loop(layer: Any, x: Tensor, h: Tensor | None, layers: list[list[tuple[int, int]]]) -> tuple[Tensor, Tensor]:
    n, k = layer.hidden_size, 0
    W = torch.eye(n, dtype=torch.complex128)
    for pairs in layers:
        for p, q in pairs:
            t, f = layer.theta[k], torch.exp(1j * layer.phi[k])
            turned = {p: t.cos() * W[:, p] - t.sin() * f * W[:, q], q: t.sin() * W[:, p] + t.cos() * f * W[:, q]}
            W = torch.stack([turned.get(i, W[:, i]) for i in range(n)], dim=1)
            k += 1
    assert k == len(layer.theta)
    states, last = unitary_loop(layer, x, h, W * torch.exp(1j * layer.omega))
    return states.real, last


def skew(above: Tensor, n: int) -> Tensor:
    numbers = iter(above)
    A = [[above.new_zeros(()) for _ in range(n)] for _ in range(n)]
    for i in range(n):
        for j in range(i + 1, n):
            A[i][j] = next(numbers)
            A[j][i] = -A[i][j]
    return torch.stack([torch.stack(row) for row in A])


def exponential(A: Tensor) -> Tensor:
    """The series itself, of a matrix halved often enough."""
    total = term = torch.eye(len(A), dtype=A.dtype)
    for k in range(1, 20):
        term = term @ (A / 2**6) / k
        total = total + term
    for _ in range(6):
        total = total @ total
    return total


def scornn_loop(layer: Any, x: Tensor, h: Tensor | None) -> tuple[Tensor, Tensor]:
    A, eye = skew(layer.A.above, layer.hidden_size), torch.eye(layer.hidden_size, dtype=x.dtype)
    D = torch.diag(torch.tensor([1.0] * (layer.hidden_size - 2) + [-1.0] * 2, dtype=x.dtype))
    return modrelu_loop(layer, x, h, torch.linalg.inv(eye + A) @ (eye - A) @ D, layer.V)


def exprnn_loop(layer: Any, x: Tensor, h: Tensor | None) -> tuple[Tensor, Tensor]:
    W = exponential(skew(layer.A.above, layer.hidden_size))
    return modrelu_loop(layer, x, h, W if layer.B is None else layer.B @ W, layer.V)


def nnrnn_loop(layer: Any, x: Tensor, h: Tensor | None) -> tuple[Tensor, Tensor]:
    n, numbers = layer.hidden_size, iter(layer.T)
    inner = [[x.new_zeros(()) for _ in range(n)] for _ in range(n)]
    for i in range(n):
        for j in range(i + 1, n):
            if i // 2 != j // 2:
                inner[i][j] = next(numbers)
    for k, (g, a) in enumerate(zip(layer.gamma, layer.alpha, strict=True)):
        inner[2 * k][2 * k] = inner[2 * k + 1][2 * k + 1] = g * a.cos()
        inner[2 * k][2 * k + 1], inner[2 * k + 1][2 * k] = -g * a.sin(), g * a.sin()
    P = exponential(skew(layer.A.above, n))
    return modrelu_loop(layer, x, h, P @ torch.stack([torch.stack(row) for row in inner]) @ P.T, layer.V)


def nru_loop(layer: Any, x: Tensor, hx: Any) -> tuple[Tensor, Any]:
    k, s, N = layer.heads, math.isqrt(layer.heads * layer.memory_size), len(x)
    h, m = (x.new_zeros(N, layer.hidden_size), x.new_zeros(N, layer.memory_size)) if hx is None else hx
    states = []
    for x_t in x.unbind(dim=1):
        h = layer.state(torch.cat([x_t, h, m], dim=1)).relu()
        alpha, beta, p_w, p_e, w_w, w_e = layer.heads_map(torch.cat([h, m], dim=1)).split((k, k, s, s, s, s), dim=1)
        change = torch.zeros_like(m)
        for sign, amount, p, w in ((1, alpha, p_w, w_w), (-1, beta, p_e, w_e)):
            directions = (p[:, :, None] * w[:, None, :]).reshape(N, k, layer.memory_size)
            directions = directions / torch.linalg.vector_norm(directions, ord=5, dim=-1, keepdim=True)
            for i in range(k):
                change = change + sign * (amount.relu() if layer.relu else amount)[:, i, None] * directions[:, i] / k
        m = m + change
        states.append(h)
    return torch.stack(states, dim=1), (h, m)


def indrnn_loop(layer: Any, x: Tensor, hx: Tensor | None) -> tuple[Tensor, Tensor]:
    last = []
    for k, linear in enumerate(layer.inputs):
        h, states = x.new_zeros(len(x), layer.hidden_size) if hx is None else hx[k], []
        for x_t in x.unbind(dim=1):
            h = (linear(x_t) + layer.u[k] * h).relu()
            states.append(h)
        last.append(h)
        x = layer.norms[k](torch.stack(states, dim=1))
    return x, torch.stack(last)


def mingru_layer(layer: Any, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
    n, states = layer.hidden_size, []
    for x_t in x.unbind(dim=1):
        both = layer.linear(x_t)
        z, v = both[:, :n].sigmoid(), both[:, n:]
        h = (1 - z) * h + z * torch.where(v >= 0, v + 0.5, v.sigmoid())
        states.append(h)
    return torch.stack(states, dim=1), h


def lru_layer(layer: Any, x: Tensor, s: Tensor) -> tuple[Tensor, Tensor]:
    n, outputs = layer.hidden_size, []
    L = torch.exp(-layer.nu.exp() + 1j * layer.theta.exp())
    B, C_ = layer.B[:, :n] + 1j * layer.B[:, n:], layer.C[:n] - 1j * layer.C[n:]
    for x_t in x.unbind(dim=1):
        s = L * s + layer.gamma.exp() * (x_t.to(B.dtype) @ B)
        outputs.append((s @ C_).real + layer.D * x_t)
    return torch.stack(outputs, dim=1), s


def stack_loop(one: Callable[..., tuple[Tensor, Tensor]]) -> Callable[..., tuple[Tensor, Tensor]]:
    def loop(layer: Any, x: Tensor, hx: Tensor | None) -> tuple[Tensor, Tensor]:
        dtype = torch.complex128 if layer.state_is_complex else torch.float64
        has_blocks, last = hasattr(layer, "encode"), []
        x = layer.encode(x) if has_blocks else x
        for k, part in enumerate(layer.layers):
            h = torch.zeros(len(x), layer.hidden_size, dtype=dtype) if hx is None else hx[k]
            y, h = one(part, layer.norms[k](x) if has_blocks else x, h)
            last.append(h)
            x = x + layer.mixes[k](y) if has_blocks else y
            x = x + layer.feeds[k](x) if has_blocks and layer.feeds is not None else x
        return x, torch.stack(last)

    return loop


TUNABLE = [[(0, 1), (2, 3), (4, 5)], [(1, 2), (3, 4)]]
BUTTERFLIES = [[(0, 4), (1, 5), (2, 6), (3, 7)], [(0, 2), (1, 3), (4, 6), (5, 7)], [(0, 1), (2, 3), (4, 5), (6, 7)]]
CASES: dict[str, tuple[Network, Callable[..., Any]]] = {
    "urnn": (URNNNetwork(H), urnn_loop),
    "urnn 5": (URNNNetwork(5), urnn_loop),
    "urnn factored": (URNNNetwork(H, factored=True), urnn_loop),
    "rgd": (RGDNetwork(H), rgd_loop),
    "eurnn 2": (EURNNNetwork(H), partial(eurnn_loop, layers=TUNABLE)),
    "eurnn 6": (EURNNNetwork(H, capacity=6), partial(eurnn_loop, layers=TUNABLE * 3)),
    "eurnn fft": (EURNNNetwork(8, style="fft"), partial(eurnn_loop, layers=BUTTERFLIES)),
    "eurnn fft factored": (EURNNNetwork(8, style="fft", factored=True), partial(eurnn_loop, layers=BUTTERFLIES)),
    "eurnn factored": (EURNNNetwork(H, factored=True), partial(eurnn_loop, layers=TUNABLE)),
    "scornn": (SCORNNNetwork(H, rho=2), scornn_loop),
    "scornn 5": (SCORNNNetwork(5, rho=2), scornn_loop),
    "exprnn": (EXPRNNNetwork(H), exprnn_loop),
    "exprnn cayley": (EXPRNNNetwork(5, angles="cayley"), exprnn_loop),
    "exprnn dynamic": (EXPRNNNetwork(H, rebase_every=3), exprnn_loop),
    "nnrnn": (NNRNNNetwork(H), nnrnn_loop),
    "nru": (NRUNetwork(5, memory_size=36, heads=4), nru_loop),
    "nru relu": (NRUNetwork(5, memory_size=8, heads=2, relu=True), nru_loop),
    "indrnn": (IndRNNNetwork(H), indrnn_loop),
    "indrnn 3": (IndRNNNetwork(H, num_layers=3, layer_norm="layer", remembers=False), indrnn_loop),
    "mingru": (MinGRUNetwork(H), stack_loop(mingru_layer)),
    "mingru bare": (MinGRUNetwork(H, 2, blocks=False), stack_loop(mingru_layer)),
    "lru": (LRUNetwork(H), stack_loop(lru_layer)),
    "lru bare": (LRUNetwork(H, 2, blocks=False), stack_loop(lru_layer)),
}
DEFAULTS = {name: kind(8) for name, kind in NETWORKS.items()}
OTHERS = {name: network for name, network in DEFAULTS.items() if name != "srnn"}


def parts(state: Any) -> tuple[Tensor, ...]:
    return state if isinstance(state, tuple) else (state,)


def unsettled(layer: Any) -> Any:
    """In float64, and no parameter left at a beginning that hides mistakes, such as zero."""
    layer = layer.double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter += 0.2 * torch.randn_like(parameter)
    return layer


def random_state(layer: Any) -> Any:
    """A state that fits, for four sequences."""
    layer_state = layer(torch.randn(4, 1, layer.input_size, dtype=torch.float64))[1]
    states = tuple(torch.randn_like(part) for part in parts(layer_state))
    return states if isinstance(layer_state, tuple) else states[0]


@pytest.mark.parametrize("with_state", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_each_network_is_a_loop_of_its_equations(case: str, with_state: bool) -> None:
    network, loop = CASES[case]
    layer = unsettled(network.layer(C, 20))
    x = torch.randn(4, STEPS, C, dtype=torch.float64, requires_grad=True)
    hx = random_state(layer) if with_state else None
    leaves = [x, *layer.parameters(), *(part.requires_grad_() for part in parts(hx) if hx is not None)]
    output, h_n = layer(x, hx)
    # The loops of one layer have no dimension for layers.
    alone = layer.num_layers == 1 and not hasattr(layer, "layers")
    bare = hx if not alone or hx is None else tuple(p[0] for p in hx) if isinstance(hx, tuple) else hx[0]
    expected, last = loop(layer, x, bare)
    torch.testing.assert_close(output, expected)
    torch.testing.assert_close(list(parts(h_n)), [part[None] if alone else part for part in parts(last)], check_stride=False)

    def gradients(output: Tensor, state: Any) -> list[Tensor]:
        weights = torch.linspace(-1, 2, output.numel(), dtype=torch.float64).view(output.shape)
        total = (output * weights).sum() + sum(
            (torch.view_as_real(p) if p.is_complex() else p).square().sum() for p in parts(state)
        )
        return list(torch.autograd.grad(total, leaves, allow_unused=True, materialize_grads=True))

    got, wanted = gradients(output, h_n), gradients(expected, last)
    names = ["x", *(name for name, _ in layer.named_parameters())]
    for name, gradient in zip(names, got, strict=False):
        learned_start_is_replaced = with_state and name == "h0"
        assert (gradient.abs().max() > 0) is not learned_start_is_replaced, name
    torch.testing.assert_close(got, wanted)


@pytest.mark.parametrize(
    "network", [URNNNetwork(16), EURNNNetwork(16), EURNNNetwork(16, capacity=16), EURNNNetwork(16, style="fft")]
)
def test_the_factored_and_the_built_form_agree(network: Any) -> None:
    built = unsettled(network.layer(C, 20))
    factored = replace(network, factored=True).layer(C, 20).double()
    factored.load_state_dict(built.state_dict())
    x = torch.randn(4, STEPS, C, dtype=torch.float64)
    results = []
    for layer in (built, factored):
        output, h_n = layer(x)
        results.append([output, h_n, *torch.autograd.grad(output.square().sum(), list(layer.parameters()))])
    torch.testing.assert_close(*results, check_stride=False)


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("name", OTHERS)
def test_state_carries_over_between_chunks(name: str, batch_first: bool) -> None:
    layer: Any = OTHERS[name].layer(C, 20).double()
    layer.batch_first = batch_first
    x = torch.randn(*((4, STEPS) if batch_first else (STEPS, 4)), C, dtype=torch.float64)
    whole, last = layer(x)
    pieces, state = [], None
    for chunk in x.split([4, 1, 4], dim=int(batch_first)):
        output, state = layer(chunk, state)
        pieces.append(output)
    torch.testing.assert_close(torch.cat(pieces, dim=int(batch_first)), whole)
    torch.testing.assert_close(parts(state), parts(last))
    for n in range(2):  # one sequence by itself, without a dimension for sequences
        output, state = layer(x[n] if batch_first else x[:, n], None)
        torch.testing.assert_close(output, whole[n] if batch_first else whole[:, n])
        torch.testing.assert_close(parts(state), tuple(part[:, n] for part in parts(last)))


@pytest.mark.parametrize("name", [name for name in OTHERS if name not in ("rnn", "lstm", "gru")])
def test_no_steps_and_no_sequences_are_allowed(name: str) -> None:
    layer: Any = OTHERS[name].layer(C, 20)
    some, state = layer(torch.randn(2, 3, C))
    output, after = layer(torch.randn(2, 0, C), state)
    assert output.shape == (2, 0, some.shape[-1])
    torch.testing.assert_close(parts(after), parts(state))
    assert layer(torch.randn(0, 3, C))[0].shape == (0, 3, some.shape[-1])


def start_of_training(name: str, steps: int, **settings: Any) -> list[Tensor]:
    """Outputs and gradients of an untrained network on uniform inputs, for a loss at the last step."""
    layer: Any = NETWORKS[name](64, **settings).layer(2, steps)
    output = layer(torch.rand(4, steps, 2))[0]
    output[:, -1].square().mean().backward()
    return [output, *(parameter.grad for parameter in layer.parameters() if parameter.grad is not None)]


@pytest.mark.parametrize("name", OTHERS)
def test_two_thousand_steps_give_finite_gradients(name: str) -> None:
    found = start_of_training(name, 2000)
    assert len(found) > 1
    assert all(tensor.isfinite().all() for tensor in found)


def test_the_memory_of_nru_grows_unless_its_heads_start_small() -> None:
    def memory(steps: int, **settings: Any) -> float:
        layer: Any = NRUNetwork(64, **settings).layer(2, steps)
        with torch.no_grad():
            return float(layer(torch.rand(4, steps, 2))[1][1].norm(dim=-1).mean())

    assert memory(200) > 100
    assert 1e3 < memory(1500) < 1e8
    assert memory(500, head_scale=0.1) < 100


def test_a_direction_of_nru_beyond_its_reach_writes_nothing() -> None:
    layer = NRU(2, 3, memory_size=4, heads=1, batch_first=True)
    with torch.no_grad():
        layer.heads_map.weight.zero_()
        for p, changes in ((1e3, True), (3e7, True), (3e8, False)):
            layer.heads_map.bias.copy_(torch.tensor([1.0, 0.0, p, 0.0, 1.0, 1.0, 1.0, 0.0, 1.0, 1.0]))
            memory = layer(torch.rand(1, 1, 2))[1][1]
            assert (float(memory.abs().max()) > 0) is changes
            assert not changes or memory.flatten().tolist() == pytest.approx([1.0, 0.0, 0.0, 0.0])


def test_a_run_that_diverges_is_recorded_as_such(tmp_path: Path) -> None:
    record = train(make_run("adding", "nru", length=50, batch_size=2, steps=40, lr=1e30), tmp_path / "run")
    assert record.status == "diverged"
    assert "not finite" in record.ended_by


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        *((name, {}) for name in ("urnn", "rgd", "eurnn", "scornn", "exprnn", "nnrnn", "nru")),
        ("urnn", {"factored": True}),
        ("eurnn", {"factored": True}),
    ],
)
def test_gradients_are_finite_where_everything_is_zero(name: str, settings: dict[str, Any]) -> None:
    layer: Any = NETWORKS[name](8, **settings).layer(C, 20)
    with torch.no_grad():
        if name == "nru":  # amounts that are not zero, of directions that are
            layer.heads_map.bias.zero_()
            layer.heads_map.weight.zero_()
            layer.heads_map.bias[:8] = 1.0
        else:
            layer.b.copy_(torch.linspace(-0.1, 0.1, 8))
    state = tuple(torch.zeros_like(part) for part in parts(layer(torch.zeros(2, 1, C))[1]))
    layer(torch.zeros(2, 5, C), state if len(state) > 1 else state[0])[0].sum().backward()
    assert all(parameter.grad.abs().max() < 1e9 for parameter in layer.parameters() if parameter.grad is not None)


# What the papers promise of W.


def distance_from_unitary(W: Tensor) -> float:
    return float((W.mH @ W - torch.eye(len(W), dtype=W.dtype)).abs().max())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("urnn", {"hidden_size": 128}),
        ("eurnn", {"hidden_size": 128}),
        ("eurnn", {"capacity": 32}),
        ("eurnn", {"style": "fft"}),
        ("scornn", {"hidden_size": 128, "orthogonal_rate": 1.0}),
        ("exprnn", {"hidden_size": 64, "orthogonal_rate": 1.0}),
        ("exprnn", {"orthogonal_rate": 1.0, "rebase_every": 10}),
        ("nnrnn", {"hidden_size": 64, "orthogonal_rate": 1.0}),
        ("rgd", {"unitary_rate": 100.0}),
        ("rgd", {"hidden_size": 128, "scaled": True}),
    ],
)
def test_the_matrix_stays_unitary_over_a_thousand_updates(name: str, settings: dict[str, Any], tmp_path: Path) -> None:
    small: dict[str, Any] = {"hidden_size": 32, "length": 6, "batch_size": 8, "steps": 1000, "stop_below": 0.0}
    run = make_run("adding", name, **(small | settings))
    training = Training(run, RunFolder(tmp_path / "run"), 1e9, ())
    layer = training.model.rnn

    def matrix() -> Tensor:
        with torch.no_grad():
            return layer.orthogonal() if name == "nnrnn" else layer.matrix()

    before = matrix()
    for _ in range(1000):
        training.make_update()
    assert float((matrix() - before).abs().max()) > 0.01  # it was trained
    assert matrix().dtype in (torch.float32, torch.complex64)
    assert distance_from_unitary(matrix()) < 1e-4


@torch.no_grad()
def test_a_wide_eurnn_mixes_every_unit_with_every_other() -> None:
    layer = EURNN(2, 16, capacity=16).double()
    W = layer.matrix().detach()
    assert distance_from_unitary(W) < 1e-12
    assert len(layer.theta) == 16 * 15 // 2
    assert float(W.abs().min()) > 0  # full, while two layers give a band
    assert float(EURNN(2, 16).double().matrix().detach().abs().min()) == 0


def test_dynamic_exprnn_keeps_its_matrix_when_the_base_moves() -> None:
    network = EXPRNNNetwork(8, rebase_every=5)
    layer: Any = network.layer(C, 20).double()
    W = layer.matrix().detach()
    assert list(network.after_update(layer, 4)) == []
    (reset,) = network.after_update(layer, 5)
    assert reset is layer.A.above
    assert float(reset.detach().abs().max()) == 0
    torch.testing.assert_close(layer.matrix(), W)
    assert list(EXPRNNNetwork(8).after_update(layer, 5)) == []


def test_rgd_steps_along_the_unitary_group_and_downhill() -> None:
    layer = RGD(2, 8).double()
    x, target = torch.rand(5, 10, 2, dtype=torch.float64), torch.rand(5, 1, dtype=torch.float64)
    readout = torch.randn(16, 1, dtype=torch.float64) / 4
    descent = CayleyDescent([layer.W], lr=1e-2)
    losses = []
    for _ in range(30):
        loss = (layer(x.transpose(0, 1))[0][-1] @ readout - target).square().mean()
        layer.zero_grad()
        loss.backward()
        assert layer.W.grad is not None
        W, G = torch.complex(*layer.W.detach()), torch.complex(*layer.W.grad)
        A, eye = G @ W.mH - W @ G.mH, torch.eye(8, dtype=W.dtype)
        expected = torch.linalg.inv(eye + 0.005 * A) @ (eye - 0.005 * A) @ W
        descent.step()
        torch.testing.assert_close(layer.matrix().detach(), expected)
        losses.append(float(loss.detach()))
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < 0.9 * losses[0]


def test_indrnn_is_confined_after_every_update() -> None:
    network = IndRNNNetwork(8, growth=3.0)
    layer: Any = network.layer(C, 100)
    assert layer.bound == pytest.approx(3 ** (1 / 100))
    assert float(layer.u[-1].detach().min()) >= 1 / layer.bound
    with torch.no_grad():
        layer.u[0].fill_(1.5)
        layer.u[1].fill_(-1.5)
    network.after_update(layer, 1)
    assert [float(u.detach().abs().max()) for u in layer.u] == pytest.approx([layer.bound] * 2)
    assert float(layer.u[1].detach().max()) < 0


def test_dropout_between_layers_is_the_same_at_all_steps_and_rests_in_evaluation() -> None:
    layer: Any = IndRNN(C, 50, 2, dropout=0.5, batch_first=True)
    with torch.no_grad():
        layer.inputs[1].weight.copy_(torch.eye(50))
        layer.u[1].zero_()
    x = torch.rand(3, 7, C) + 1
    seen, all_of_it = (layer.train(mode)(x)[0] for mode in (True, False))
    mask = torch.where(all_of_it > 0, seen / all_of_it, torch.nan)
    for row in mask.movedim(1, -1).reshape(-1, 7):
        assert len(row[~row.isnan()].unique()) <= 1
    assert set(mask[~mask.isnan()].round().unique().tolist()) == {0.0, 2.0}
    torch.testing.assert_close(layer(x)[0], all_of_it)


def test_batch_norm_of_indrnn_uses_what_it_has_seen_in_evaluation() -> None:
    layer: Any = IndRNNNetwork(8, layer_norm="batch").layer(C, 20)
    x = torch.randn(16, 10, C)
    output = layer.train()(x)[0]
    torch.testing.assert_close(output.mean(dim=(0, 1)), torch.zeros(8), atol=1e-5, rtol=0)
    torch.testing.assert_close(layer.eval()(x)[0][:4], layer(x[:4])[0])


# How they begin.


# By parameter: the largest of what is uniform, or the standard deviation of what is normal, with 16 inputs and 512 units.
BEGINNINGS: dict[str, dict[str, tuple[str, float]]] = {
    "urnn": {
        "V": ("uniform", math.sqrt(6 / (16 + 1024))),
        "h0": ("uniform", math.sqrt(1.5 / 512)),
        "theta": ("uniform", math.pi),
        "v": ("uniform", 1.0),
        "b": ("constant", 0.0),
    },
    "rgd": {"V": ("uniform", math.sqrt(6 / (16 + 1024))), "h0": ("uniform", math.sqrt(1.5 / 512)), "b": ("constant", 0.0)},
    "eurnn": {
        "V": ("uniform", 0.01),
        "theta": ("uniform", math.pi),
        "phi": ("uniform", math.pi),
        "omega": ("uniform", math.pi),
        "b": ("constant", 0.0),
    },
    "scornn": {"V": ("uniform", 0.01), "b": ("constant", 0.0)},
    "exprnn": {"V": ("normal", math.sqrt(2 / 16)), "b": ("uniform", 0.01)},
    "nnrnn": {
        "V": ("normal", math.sqrt(2 / (16 + 512))),
        "b": ("uniform", 0.01),
        "gamma": ("constant", 1.0),
        "T": ("constant", 0.0),
        "alpha": ("uniform", 2 * math.pi),
    },
    "nru": {"state.weight": ("uniform", (16 + 512 + 256) ** -0.5), "heads_map.weight": ("uniform", (512 + 256) ** -0.5)},
    "indrnn": {
        "inputs.0.weight": ("uniform", math.sqrt(6 / (1 + 64) / 16)),
        "inputs.1.weight": ("uniform", math.sqrt(6 / (1 + 64) / 512)),
        "inputs.0.bias": ("constant", 0.0),
        "u.0": ("uniform", 2 ** (1 / 100)),
    },
    "lru": {
        "layers.0.B": ("normal", math.sqrt(1 / 2 / 512)),
        "layers.0.C": ("normal", math.sqrt(1 / 512)),
        "layers.0.D": ("normal", 1.0),
    },
}


@torch.no_grad()
@pytest.mark.parametrize("name", BEGINNINGS)
def test_initial_weights_are_those_of_the_papers(name: str) -> None:
    drawn = dict(NETWORKS[name](512).layer(16, 100).named_parameters())
    for parameter, (law, size) in BEGINNINGS[name].items():
        values = drawn[parameter]
        if law == "uniform":
            assert 0.97 * size < float(values.abs().max()) <= size * (1 + 1e-6), parameter
            assert float(values.abs().mean()) == pytest.approx(size / 2, rel=0.1), parameter
        elif law == "normal":
            assert float(values.std()) == pytest.approx(size, rel=0.1), parameter
        else:
            assert bool((values == size).all()), parameter


@torch.no_grad()
def test_initial_eigenvalues_are_in_the_right_range() -> None:
    n = 512
    lru = LRU(16, n, radii=(0.5, 0.8), largest_angle=0.3)
    L = lru.eigenvalues()
    assert 0.5 <= float(L.abs().min()) < 0.52
    assert 0.78 < float(L.abs().max()) <= 0.8
    assert float(L.angle().min()) > 0
    assert 0.28 < float(L.angle().max()) <= 0.3
    torch.testing.assert_close(lru.gamma.exp(), (1 - L.abs().square()).sqrt())
    for angles, most in (("henaff", math.pi), ("cayley", math.tan(math.pi / 4))):
        layer: Any = EXPRNNNetwork(n, angles=angles).layer(2, 20)
        A = layer.A()
        blocks = A[torch.arange(0, n, 2), torch.arange(1, n, 2)]
        assert float(A.abs().sum()) == pytest.approx(2 * float(blocks.abs().sum()), rel=1e-5)  # nothing but blocks
        assert 0.95 * most < float(blocks.abs().max()) <= most
        assert bool((blocks > 0).any()) is (angles == "henaff")  # cayley: one side only
    assert distance_from_unitary(NNRNNNetwork(n).layer(2, 20).matrix()) < 1e-4  # type: ignore[operator]
    scornn: Any = SCORNNNetwork(n).layer(2, 20)
    assert float(scornn.D.sum()) == 0  # half of them -1
    eigenvalues = torch.linalg.eigvals(scornn.matrix() * scornn.D)
    assert float(eigenvalues.real.min()) > -1e-4  # the right half of the circle, all of it
    assert float(eigenvalues.angle().max()) > 1.5
    last: Any = IndRNNNetwork(n, input_std=0.05).layer(16, 100)
    assert float(last.u[-1].min()) > 2 ** (-1 / 100)
    assert float(last.inputs[0].weight.std()) == pytest.approx(0.05, rel=0.1)
    moved: Any = EXPRNNNetwork(16, rebase_every=9).layer(2, 20)
    assert float(moved.A.above.abs().max()) == 0
    assert float((moved.matrix() - torch.eye(16)).abs().max()) > 0.1


@pytest.mark.parametrize(
    ("name", "weight", "bias"),
    [
        ("urnn", math.sqrt(6 / (256 + 40)), 0.0),
        ("rgd", math.sqrt(6 / (256 + 40)), 0.0),
        ("eurnn", math.sqrt(6 / (128 + 40)), 0.01),
        ("scornn", math.sqrt(6 / (128 + 40)), 0.0),
        ("gru", math.sqrt(1 / 128), None),
    ],
)
@torch.no_grad()
def test_the_network_initialises_the_read_out(name: str, weight: float, bias: float | None) -> None:
    network = NETWORKS[name](128)
    readout = nn.Linear(network.output_size(2), 40)
    network.begin_readout(readout, "adding")
    assert 0.98 * weight < float(readout.weight.abs().max()) <= weight
    if bias is not None:
        assert bool((readout.bias == bias).all())


@pytest.mark.parametrize(
    ("name", "task", "deviation"),
    [
        ("exprnn", "copy", math.sqrt(2 / 512)),  # Kaiming
        ("indrnn", "adding", math.sqrt(2 / 512)),
        ("nnrnn", "adding", math.sqrt(2 / (512 + 40))),  # Xavier
        ("nru", "pmnist", math.sqrt(2 / (512 + 40))),
    ],
)
@torch.no_grad()
def test_exprnn_initialises_the_read_out_from_a_normal_distribution(name: str, task: str, deviation: float) -> None:
    readout = nn.Linear(512, 40)
    NETWORKS[name](512).begin_readout(readout, task)
    assert float(readout.weight.std()) == pytest.approx(deviation, rel=0.05)
    assert float(readout.weight.abs().max()) > 3 * deviation  # normal, not uniform
    if name != "nnrnn":
        assert bool((readout.bias == 0).all())


# Counts.


@pytest.mark.parametrize(
    ("task", "wanted", "network"),
    [("pmnist", 165_000, name) for name in pmnist.SIZES if name not in ("urnn", "eurnn")]
    + [("randomlabels", 15_000, name) for name in randomlabels.SIZES],
)
def test_networks_are_of_one_size_where_the_paper_says_so(task: str, wanted: int, network: str) -> None:
    assert count(make_run(task, network).network, task)[1] == pytest.approx(wanted, rel=0.03)


LEDGER = {  # adding, 128 units: stored numbers and degrees of freedom
    "urnn": (2_049, 2_049),
    "rgd": (33_921, 17_537),
    "eurnn": (1_151, 1_151),
    "scornn": (8_641, 8_641),
    "exprnn": (8_641, 8_641),
    "nnrnn": (16_833, 16_833),
    "nru": (102_025, 102_025),
    "indrnn": (17_281, 17_281),
    "rnn": (17_025, 17_025),
    "gru": (50_817, 50_817),
    "lstm": (67_713, 67_713),
    "srnn": (1_689, 1_689),
}


def count(network: Network, task: str = "adding", embed: bool = True) -> tuple[int, int]:
    model = models.make(TASKS[task](), network, 1, embed=embed, readout=(), norm=False, dropout=0.0)
    return model.count_parameters(), model.count_parameters() - _stored(model.rnn) + network.free_parameters(model.rnn)


def _stored(layer: nn.Module) -> int:
    return sum(parameter.numel() for parameter in layer.parameters())


@pytest.mark.parametrize("name", LEDGER)
def test_counts_follow_from_the_equations(name: str) -> None:
    assert count(make_run("adding", name, hidden_size=128).network) == LEDGER[name]


def test_counts_of_variants() -> None:
    assert count(EURNNNetwork(capacity=4))[1] == 1_405
    assert count(EURNNNetwork(capacity=128))[1] == 17_153
    assert count(EURNNNetwork(style="fft"))[1] == 1_793
    assert count(NRUNetwork(memory_size=64))[1] == 38_985
    assert count(IndRNNNetwork(num_layers=1))[1] == 641
    assert count(IndRNNNetwork(num_layers=6, layer_norm="batch"), "pmnist")[1] == 86_410
    assert count(URNNNetwork(512))[1] == 8_193
    assert count(URNNNetwork(512), "pmnist")[1] == 16_394
    assert count(RGDNetwork(116), "pmnist")[1] == 16_366
    assert count(SCORNNNetwork(170), "pmnist")[1] == 16_415
    assert count(EXPRNNNetwork(224), "speech")[1] == 83_121
    assert count(NNRNNNetwork(512), "pmnist")[1] == 268_298 - 256  # without the entries of T inside the blocks
    assert count(NRUNetwork(212), "pmnist")[1] == 165_554
    for kind, bare in ((MinGRUNetwork, 897), (LRUNetwork, 1_413)):
        one, stack = kind().variants().values()
        assert count(one)[0] == bare
        assert stack == kind()
    assert _stored(LRU(128, 128)) + 3 * 128 + 129 == 66_561  # with an encoder and a read-out


@pytest.mark.parametrize(("task", "nru"), [("copy", 120_594), ("adding", 102_025), ("pmnist", 103_058), ("speech", 134_793)])
def test_nru_has_the_parameters_of_the_authors_code(task: str, nru: int) -> None:
    assert count(NRUNetwork(), task)[0] == nru


def test_one_hot_symbols_are_v_itself() -> None:
    assert count(URNNNetwork(), "copy", embed=False)[0] == 10 * 256 + 10 * 128 + 256 * 10 + 10


# What they ask of the training.


def tiny(name: str, **settings: Any) -> Run:
    small: dict[str, Any] = {"length": 5, "hidden_size": 8, "batch_size": 4, "steps": 12, "eval_every": 5}
    return make_run("copy", name, **(small | settings))


OWN_WAYS: dict[str, Run] = {
    "two optimizers and a new base": tiny(
        "exprnn", optimizer="adam", orthogonal_optimizer="rmsprop", rebase_every=3, schedule="cosine", warmup=2
    ),
    "steps along the group": tiny("rgd", scaled=True, clip=0.5),
    "a penalty and a decay": tiny("nnrnn", delta=0.3),
    "batch norm and dropout": tiny("indrnn", layer_norm="batch", layer_dropout=0.3, clip_value=0.1),
    "a staircase": tiny("lru", schedule="staircase", decay_every=4, layer_dropout=0.2),
    "a memory": tiny("nru"),
}


class Killed(BaseException):
    pass


@pytest.mark.parametrize("way", OWN_WAYS)
@pytest.mark.parametrize("stop", [1, 3, 7])
def test_resumed_runs_of_every_network_are_bit_identical(way: str, stop: int, tmp_path: Path) -> None:
    from srnn.lab.training import loop

    class Killer(loop.Watcher):
        def update(self, training: Training) -> None:
            if training.position.step == stop + 1:
                raise Killed

    run = OWN_WAYS[way]
    whole = train(run, tmp_path / "whole")
    with pytest.raises(Killed):
        train(run, tmp_path / "cut", checkpoint_every=0.0, watchers=[Killer()])
    again = train(run, tmp_path / "cut")
    assert again.resumed == 1
    assert again.training == whole.training
    one, other = (load_tensors(tmp_path / name / "checkpoint.safetensors")[0] for name in ("whole", "cut"))
    torch.testing.assert_close(one, other, rtol=0, atol=0)


def test_parameters_are_trained_as_their_group_says() -> None:
    a, b, c = (nn.Parameter(torch.ones(2)) for _ in range(3))
    descent: list[Any] = []

    def make(groups: Any, lr: float) -> torch.optim.Optimizer:
        descent.append(groups)
        return torch.optim.SGD(groups, lr=lr)

    groups = [Group([b], rate=0.5, weight_decay=0.0), Group([c], rate=0.1, optimizer=make)]
    one, other = optimizers.make([a, b, c], groups, "rmsprop", lr=0.2, weight_decay=0.3, alpha=0.7)
    assert isinstance(one, torch.optim.RMSprop)
    assert [(group["params"], group["lr"], group["weight_decay"], group["alpha"]) for group in one.param_groups] == [
        ([a], 0.2, 0.3, 0.7),
        ([b], 0.1, 0.0, 0.7),
    ]
    assert [(group["params"], group["lr"]) for group in other.param_groups] == [([c], pytest.approx(0.02))]
    assert [len(optimizers.make([a], [], name, 0.1, 0.0, 0.9)) for name in OPTIMIZERS] == [1] * 4
    with pytest.raises(SettingError, match=r"no optimizer is called 'lion'\. Choose one of rmsprop, adam, adamw, sgd"):
        optimizers.make([a], [Group([a], optimizer="lion")], "sgd", 0.1, 0.0, 0.9)


@pytest.mark.parametrize(
    ("network", "expected"),
    [
        (SCORNNNetwork(8, orthogonal_rate=0.3, orthogonal_optimizer="adam"), [({"A.above"}, 0.3, "adam", 0.0, True)]),
        (EXPRNNNetwork(8, orthogonal_rate=0.2), [({"A.above"}, 0.2, None, 0.0, True)]),
        (
            NNRNNNetwork(8, orthogonal_rate=0.2, triangle_decay=0.4),
            [({"A.above"}, 0.2, None, 0.0, True), ({"T"}, 1.0, None, 0.4, True)],
        ),
        (IndRNNNetwork(8, layer_norm="layer"), [(
            {"u.0", "u.1", "inputs.0.bias", "inputs.1.bias", *(f"norms.{k}.{p}" for k in (0, 1) for p in ("weight", "bias"))},
            1.0, None, 0.0, True,
        )]),
        (
            LRUNetwork(8, 2, eigenvalue_rate=0.25),
            [({f"layers.{k}.{name}" for k in (0, 1) for name in ("nu", "theta", "gamma", "B")}, 0.25, None, 0.0, True)],
        ),
        *((kind(8), []) for kind in (URNNNetwork, EURNNNetwork, NRUNetwork, MinGRUNetwork)),
    ],
)  # fmt: skip
def test_networks_return_their_parameter_groups(network: Network, expected: list[Any]) -> None:
    layer = network.layer(C, 20)
    names = {id(parameter): name for name, parameter in layer.named_parameters()}
    got = [
        (
            {names[id(parameter)] for parameter in group.parameters},
            group.rate,
            group.optimizer,
            group.weight_decay,
            group.is_clipped,
        )
        for group in network.groups(layer)
    ]
    assert got == expected


def test_rgd_optimizes_only_w_along_the_unitary_group() -> None:
    layer = RGDNetwork(8).layer(C, 20)
    (group,) = RGDNetwork(8, unitary_rate=0.5, scaled=True).groups(layer)  # type: ignore[arg-type]
    assert [parameter.shape for parameter in group.parameters] == [(2, 8, 8)]
    assert (group.rate, group.is_clipped) == (0.5, False)
    assert callable(group.optimizer)
    descent = group.optimizer([{"params": group.parameters}], lr=0.1)
    assert isinstance(descent, CayleyDescent)
    assert descent.defaults["is_scaled"] is True


def test_the_penalty_is_trained_on_and_not_shown(tmp_path: Path) -> None:
    def training(name: str, **settings: Any) -> Training:
        return Training(tiny("nnrnn", **settings), RunFolder(tmp_path / name), 1e9, ())

    free, bound = training("free", delta=0.0), training("bound", delta=10.0)
    for one in (free, bound):
        with torch.no_grad():
            one.model.rnn.gamma.fill_(1.5)
    losses = [one._forward() for one in (free, bound)]
    assert losses[0][0].item() == losses[1][0].item()
    for one, (loss, size) in zip((free, bound), losses, strict=True):
        one._update(loss, loss.item(), size)
    assert free.position.pending == bound.position.pending
    difference = bound.model.rnn.gamma.grad - free.model.rnn.gamma.grad
    torch.testing.assert_close(difference, torch.full((4,), 2 * 10.0 * 0.5), rtol=1e-3, atol=1e-3)


def test_parameters_that_are_not_clipped_keep_their_gradient(tmp_path: Path) -> None:
    training = Training(tiny("rgd", clip=1e-6), RunFolder(tmp_path / "run"), 1e9, ())
    training.make_update()
    assert float(training.model.rnn.W.grad.norm()) > 1e-4
    assert float(training.model.rnn.V.grad.norm()) <= 1e-6
    training = Training(tiny("rnn", clip_value=1e-7), RunFolder(tmp_path / "other"), 1e9, ())
    training.make_update()
    assert 0 < max(float(p.grad.abs().max()) for p in training.model.parameters() if p.grad is not None) <= 1.01e-7


# Bad input.


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("nnrnn", {"hidden_size": 7}, "nnrnn: hidden_size must be even, got 7"),
        ("eurnn", {"hidden_size": 7}, "eurnn: hidden_size must be even for style tunable, got 7"),
        ("eurnn", {"hidden_size": 12, "style": "fft"}, "eurnn: hidden_size must be a power of two for style fft, got 12"),
        ("eurnn", {"style": "ftf"}, "eurnn: style must be one of tunable, fft, got 'ftf'"),
        ("eurnn", {"capacity": 3}, "eurnn: capacity must be even, from 2 to hidden_size (128), got 3"),
        ("eurnn", {"capacity": 130}, "eurnn: capacity must be even, from 2 to hidden_size (128), got 130"),
        (
            "nru",
            {"memory_size": 100, "heads": 3},
            "nru: memory_size must be heads (3) times the square of a whole number, got 100",
        ),
        ("nru", {"heads": 0}, "nru: heads must be a whole number of at least 1, got 0"),
        *(
            ("scornn", {"rho": rho}, f"scornn: rho must be a whole number of at least 0 or None, got {rho!r}")
            for rho in (-1, "a", 0.5, True)
        ),
        ("scornn", {"rho": 129}, "scornn: rho must be a whole number from 0 to hidden_size (128), got 129"),
        ("nru", {"head_scale": math.nan}, "nru: head_scale must be a finite number, got nan"),
        ("exprnn", {"rebase_every": True}, "exprnn: rebase_every must be a whole number of at least 0, got True"),
        (
            "exprnn",
            {"orthogonal_optimizer": {1: 2}},
            "exprnn: orthogonal_optimizer must be one of rmsprop, adam, adamw, sgd or None, got {1: 2}",
        ),
        ("eurnn", {"style": "fft", "capacity": 4}, "eurnn: capacity must be left at 2 for style fft"),
        ("indrnn", {"growth": 1e9}, "indrnn: growth must be a number from 1 to 1000000, got 1000000000.0"),
        ("lru", {"radii": ("a", "b")}, "lru: radii must be a tuple of numbers, got ('a', 'b')"),
        ("urnn", {"hidden_size": 0}, "urnn: hidden_size must be a whole number of at least 1, got 0"),
        ("exprnn", {"angles": "cayly"}, "exprnn: angles must be one of henaff, cayley, got 'cayly'. Did you mean 'cayley'?"),
        ("exprnn", {"rebase_every": -1}, "exprnn: rebase_every must be a whole number of at least 0, got -1"),
        ("indrnn", {"growth": 0.5}, "indrnn: growth must be a number from 1 to 1000000, got 0.5"),
        ("indrnn", {"layer_norm": "group"}, "indrnn: layer_norm must be one of none, batch, layer, got 'group'"),
        ("lru", {"radii": (0.5, 1.0)}, "lru: radii must be two numbers, 0 <= inner < outer < 1"),
        ("rgd", {"unitary_rate": 0.0}, "rgd: unitary_rate must be a number above 0, got 0.0"),
        *(
            (name, {"num_layers": 2}, f"{name}: num_layers must be 1, because this network cannot be stacked, got 2")
            for name in ("urnn", "nru", "rgd")
        ),
        ("scornn", {"orthogonal_optimizer": "lion"}, "scornn: orthogonal_optimizer must be one of rmsprop, adam, adamw, sgd"),
        ("gru", {"capacity": 4}, "neither adding nor gru has a setting 'capacity'. It belongs to eurnn"),
        ("gru", {"alpha": 1.0}, "alpha must be a number from 0 to below 1, got 1.0"),
        ("gru", {"decay_every": 0}, "decay_every must be a whole number of at least 1, got 0"),
    ],
)
def test_an_invalid_setting_is_one_line(name: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError) as error:
        make_run("adding", name, **({"hidden_size": 128} | settings))
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_wrong_tensors_are_named() -> None:
    layer = URNN(C, 8, batch_first=True)
    x = torch.randn(2, 5, 3)
    with pytest.raises(DtypeError, match=r"hx must be torch\.complex64, like the weights, got torch\.complex128"):
        layer(x, torch.zeros(1, 2, 8, dtype=torch.complex128))
    with pytest.raises(DeviceError, match="hx is on meta and the weights are on cpu"):
        layer(x, torch.zeros(1, 2, 8, dtype=torch.complex64, device="meta"))
    with pytest.raises(DtypeError, match=r"this network takes float32 or float64, got torch\.bfloat16"):
        MinGRUNetwork(8).layer(C, 5).bfloat16()(x.bfloat16())
    with pytest.raises(ShapeError, match=r"input must be input_size = 3 wide, got shape \(2, 5, 4\)"):
        layer(torch.randn(2, 5, 4))
    with pytest.raises(ShapeError, match=r"hx must be \[layers, batch, hidden\] = \(1, 2, 8\) to go with .*, got \(2, 8\)"):
        layer(torch.randn(2, 5, 3), torch.zeros(2, 8, dtype=torch.complex64))
    with pytest.raises(DtypeError, match=r"hx must be torch\.complex64, like the weights, got torch\.float32"):
        layer(torch.randn(2, 5, 3), torch.zeros(1, 2, 8))
    with pytest.raises(DtypeError, match=r"input must be torch\.float32, like the weights, got torch\.float64"):
        layer(torch.randn(2, 5, 3, dtype=torch.float64))
    with pytest.raises(ShapeError, match=r"hx must be 2 tensors, \(8, 256\) wide, got 1"):
        NRU(C, 8, batch_first=True)(torch.randn(2, 5, 3), torch.zeros(1, 2, 8))


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_every_network_trains_on_every_task(task: str, tmp_path: Path) -> None:
    if (needs := {"speech": "speech", "text": "text", "copy": None, "adding": None}.get(task, "mnist")) and not data.is_here(
        needs
    ):
        pytest.skip(f"{needs} is not here; SRNN_DATA says where it is")
    for name in NETWORKS:
        length: dict[str, Any] = {"length": 30} if task in ("copy", "adding", "text") else {}
        run = make_run(task, name, hidden_size=16, batch_size=4, steps=2, **length)
        training = Training(run, RunFolder(tmp_path / name), 1e9, ())
        before = {key: value.clone() for key, value in training.model.state_dict().items()}
        training.make_update()
        assert all(math.isfinite(loss) for loss in training.position.pending), name
        assert all(parameter.isfinite().all() for parameter in training.model.parameters()), name
        changed = [key for key, value in training.model.state_dict().items() if not torch.equal(value, before[key])]
        assert any(key.startswith("rnn.") for key in changed), name


# Whether they learn: the updates are those of the table in docs/networks.md, and a network may need twice as many.


def learning() -> list[tuple[str, str, int, int]]:
    """Network, task, length and updates: the task that a network learns in fewer updates, and both for our own."""
    page = (Path(__file__).parents[1] / "docs" / "networks.md").read_text(encoding="utf-8")
    section = page.split("## Do they learn?")[1].split("## ")[0]
    rows = [[cell.strip(" `") for cell in line.split("|")[1:-1]] for line in section.splitlines() if line.startswith("| `")]
    assert [row[0] for row in rows] == sorted(NETWORKS)
    assert all(row[3] for row in rows if "-" in row[1:3])  # with the reason
    found = []
    for name, adding, copy, reason in rows:
        each = sorted((int(cell), task) for cell, task in ((adding, "adding"), (copy, "copy")) if cell != "-")
        lengths = {"adding": 50, "copy": 20}
        if not each:
            each, lengths = [(int(reason.split("takes ")[1].split()[0]), "adding")], {"adding": 10}
        wanted = each if name in ("srnn", "srnnstack") else each[:1]
        found += [(name, task, lengths[task], updates) for updates, task in wanted]
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("name", "task", "length", "updates"), learning(), ids=str)
def test_networks_learn(name: str, task: str, length: int, updates: int, tmp_path: Path) -> None:
    how: dict[str, Any] = {"lr": 1e-3, "clip": 1.0} if name == "rnn" else {"lr": 3e-3}
    sizes: dict[str, Any] = {"length": length, "hidden_size": 64, "batch_size": 32}
    run = make_run(task, name, optimizer="adam", steps=2 * updates, stop_below=None, **sizes, **how)
    training = Training(run, RunFolder(tmp_path / "run"), 1e9, ())
    goal = 0.08 if task == "adding" else run.task.chance / 2
    for _ in range(2 * updates):
        training.make_update()
        recent = training.position.recent[-50:]
        if len(recent) == 50 and sum(recent) / 50 < goal:
            return
    pytest.fail(f"{name}: mean loss {sum(recent) / 50:.3f} after {2 * updates} updates; wanted below {goal:.3f}")
