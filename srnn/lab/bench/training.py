"""The training settings of the benchmark: their tasks, and one training step of SRNN and of the baselines.

The sizes are those of the paper's Table 4; speech is also run with 1024 units. A step trains on one batch that is drawn before,
so drawing is not timed. Copying memory and adding are the tasks themselves. Images and speech frames are random numbers, so
no data set is needed.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from srnn.lab.bench.clock import Call, Clock, on_backend, ratio
from srnn.lab.networks import NETWORKS
from srnn.lab.networks.network import Network
from srnn.lab.networks.srnn import SRNNNetwork
from srnn.lab.records.folder import RunFolder
from srnn.lab.tasks.adding import Adding
from srnn.lab.tasks.copy import Copy
from srnn.lab.tasks.task import Batch, Classification, Task, generator
from srnn.lab.training.distributed import ALONE, Team
from srnn.lab.training.loop import Training, make_model
from srnn.lab.training.run import Run

BASELINES = ("rnn", "lstm", "gru")


def grey_levels(N: int, T: int, background: float = 0.81, draws: torch.Generator | None = None) -> Tensor:
    """Draws symbols of 256 grey levels: 81 % background (level 0) as in MNIST, the rest uniform over all levels."""
    levels = torch.randint(0, 256, (N, T), generator=draws)
    return levels.masked_fill(torch.rand(N, T, generator=draws) < background, 0).to(torch.uint8)


@dataclass(frozen=True)
class Images(Classification):
    """Random grey levels instead of permuted MNIST, as symbols or as real inputs."""

    length: int
    real: bool = False

    name = "pmnist"
    output_size = 10

    @property
    def alphabet(self) -> Tensor | None:
        return None if self.real else torch.arange(256)[:, None] / 255

    def batch(self, update: int, batch_size: int, seed: int) -> Batch:
        draws = generator(seed, update)
        levels = grey_levels(batch_size, self.length, draws=draws)
        return Batch(levels[..., None] / 255 if self.real else levels, torch.randint(0, 10, (batch_size,), generator=draws))


@dataclass(frozen=True)
class Frames(Task):
    """Standard normal frames instead of speech, as input and as target."""

    length: int

    name = "speech"
    input_size = output_size = 129
    every_step = True

    def batch(self, update: int, batch_size: int, seed: int) -> Batch:
        return Batch(*torch.randn(2, batch_size, self.length, self.input_size, generator=generator(seed, update)))

    def loss(self, output: Tensor, batch: Batch) -> Tensor:
        return F.mse_loss(output, batch.target)


class FewInputs(Frames):
    """Frames with four inputs."""

    input_size = output_size = 4


@dataclass(frozen=True)
class Setting:
    """One row of the table.

    Attributes:
        key: The name of the row in records and at the command line.
        title: The name of the row in tables.
        task_of: The task with sequences of T steps.
        T: The number of steps.
        part: "step" for a whole training step, "layer" for forward and backward of the layer alone, "read-out" for those of
            read-out and loss.
        backend: The backend of SRNN; "auto" is the default backend.
        baselines: The networks to compare with.
        N: The number of sequences in a batch.
        H: The number of units.
        mlp: The widths of the hidden layers of f_r.
        floors: By baseline, how many times faster SRNN should be.
        device: Where the step computes.
    """

    key: str
    title: str
    task_of: Callable[[int], Task]
    T: int
    part: str = "step"
    backend: str = "auto"
    baselines: tuple[str, ...] = BASELINES
    N: int = 100
    H: int = 128
    mlp: tuple[int, ...] = (32,)
    floors: Mapping[str, float] = field(default_factory=dict)
    device: str = "cpu"

    @property
    def task(self) -> Task:
        return self.task_of(self.T)

    @property
    def batch(self) -> Batch:
        return self.task.batch(0, self.N, 0).to(torch.device(self.device))

    @property
    def network(self) -> SRNNNetwork:
        return SRNNNetwork(self.H, mlp=self.mlp)

    @property
    def symbols(self) -> int:
        """Number of symbols, or 0 if inputs are real."""
        return self.task.symbols or (0 if self.task.alphabet is None else len(self.task.alphabet))

    @property
    def is_embedded(self) -> bool:
        """True if symbols have a learned embedding."""
        return self.task.symbols > 0

    @property
    def width(self) -> int:
        """Number of inputs of SRNN at one step."""
        return self.network.embedding_size if self.is_embedded else self.task.input_size

    def with_real_inputs(self) -> "Setting":
        """Returns the setting with grey levels as numbers instead of symbols, or unchanged if it has none."""
        return replace(self, task_of=partial(Images, real=True)) if isinstance(self.task, Images) else self


COPY = Setting("copy", "copying memory T 300", lambda T: Copy(max(1, T - 20)), 320)
ADDING = Setting("adding", "adding T 300", Adding, 300, floors={"rnn": 3.2, "gru": 10})
PMNIST = Setting("pmnist", "permuted MNIST T 784", Images, 784, floors={"rnn": 60, "gru": 200})
REAL = replace(PMNIST.with_real_inputs(), key="pmnist-real", title="- pixels as real inputs", floors={})
SPEECH = Setting("speech", "speech T 151", Frames, 151, floors={"rnn": 1.3, "gru": 3.2})
LARGE = replace(
    SPEECH, key="speech-1024", title="speech T 151, H 1024", H=1024, mlp=(32, 32, 32), floors={"rnn": 3.5, "gru": 10}
)
LONG = Setting("long", "one sequence T 10,000", FewInputs, 10_000, part="layer", baselines=("gru",), N=1)


def on_plain_torch(s: Setting) -> Setting:
    """Returns the setting with SRNN on plain PyTorch operations, as without a compiled library, compared with nn.GRU."""
    title = "- plain PyTorch" if s is not REAL else "- same, plain PyTorch"
    return replace(s, key=f"{s.key}-torch", title=title, backend="torch", baselines=("gru",), floors={})


SETTINGS: tuple[Setting, ...] = (
    replace(COPY, floors={"rnn": 6, "gru": 16}),
    replace(COPY, key="copy-readout", title="- read-out and loss", part="read-out"),
    replace(COPY, key="copy-layer", title="- layer alone", part="layer", floors={"rnn": 20, "gru": 55}),
    on_plain_torch(COPY),
    *(each for s in (ADDING, PMNIST, REAL, SPEECH, LARGE) for each in (s, on_plain_torch(s))),
    LONG,
)


class LastState(nn.Module):
    """A layer of torch.nn with its last state [N, 1, H] as the output, so that no gradient goes back through all outputs."""

    def __init__(self, rnn: nn.Module) -> None:
        super().__init__()
        self.rnn = rnn

    def forward(self, x: Tensor, hx: Any = None) -> tuple[Tensor, Any]:
        last = self.rnn(x, hx)[1]
        return (last[0] if isinstance(last, tuple) else last).transpose(0, 1), last


@dataclass(frozen=True)
class Baseline(Network):
    """A layer of torch.nn, for an answer after the last step or at every step."""

    kind: str = "gru"
    every_step: bool = True

    name = "baseline"

    def layer(self, input_size: int, steps: int) -> nn.Module:
        rnn = NETWORKS[self.kind](self.hidden_size).layer(input_size, steps)
        return rnn if self.every_step else LastState(rnn)


def make_run(s: Setting, network: Network, **settings: Any) -> Run:
    """Returns a run that repeats one batch of a setting, with RMSprop unless `settings` names another optimizer."""
    task, batch = s.task, s.batch
    fixed = type(type(task).__name__, (type(task),), {"batch": lambda self, *which: batch})(**asdict(task))
    return Run(fixed, network, batch_size=s.N, steps=10**9, threads=torch.get_num_threads(), device=s.device, **settings)


def run_of(s: Setting, name: str) -> Run:
    """Returns the run of "srnn" or of a baseline. Baselines get grey levels as numbers, since they have no alphabet."""
    if name == "srnn":
        return make_run(s, s.network)
    s = s.with_real_inputs()
    return make_run(s, Baseline(s.H, kind=name, every_step=s.task.every_step))


def make_training(run: Run, team: Team = ALONE) -> Training:
    """Returns a training that writes nothing."""
    return Training(run, RunFolder(Path("not-written")), float("inf"), (), team)


def training_step(s: Setting, name: str) -> Call:
    """Returns a call of forward, loss, backward and RMSprop, of SRNN or of a baseline."""
    update = make_training(run_of(s, name)).make_update
    return update if s.backend == "auto" or name != "srnn" else on_backend(s.backend, update)


def layer_alone(s: Setting, name: str) -> Call:
    """Returns a call of forward and backward of the layer. The baselines' inputs are symbols that are embedded already."""
    model, x = make_model(run_of(s, name)).to(s.device), s.batch.input
    inputs: list[Tensor] = list(model.rnn.parameters())
    states: Callable[[], Any] = partial(model.states, x)
    if model.embedding is not None and name == "srnn":
        inputs.append(model.embedding.weight)
    elif model.embedding is not None:
        inputs.append(model.embedding(x).detach().requires_grad_())
        states = partial(model.rnn, inputs[-1])
    grad = torch.randn_like(states()[0])
    return lambda: torch.autograd.grad(states()[0], inputs, grad)


def readout_alone(s: Setting) -> Call:
    """Returns a call of forward and backward of read-out and loss, for given states."""
    task, batch, readout = s.task, s.batch, make_model(run_of(s, "srnn")).readout
    states = torch.rand(s.N, s.T, s.H, requires_grad=True)
    return lambda: torch.autograd.grad(task.loss(readout(states), batch), [states, *readout.parameters()])


def matrix_products(s: Setting) -> Call:
    """Returns a call of the matrix products of one step: forward, weight gradients, and input gradients if they are needed."""
    rows, read = s.symbols or s.N * s.T, s.N * s.T if s.task.every_step else s.N
    layer = [(rows, K, J, s.is_embedded or i > 0) for i, (K, J) in enumerate(pairwise((s.width, *s.mlp, s.H)))]
    layer.append((rows, s.width, s.H, s.is_embedded))  # the gate
    readout = [(read, s.H, s.task.output_size, True)]
    products = []
    for M, K, J, input_gradient in {"step": layer + readout, "layer": layer, "read-out": readout}[s.part]:
        x, w, grad = torch.rand(M, K), torch.rand(J, K), torch.rand(M, J)
        products.append((x, w.T, torch.ones(M, J)))
        products.append((x.T, grad, torch.ones(K, J)) if K < J else (grad.T, x, torch.ones(J, K)))  # whichever is faster
        if input_gradient:
            products.append((grad, w, torch.ones(M, K)))
    return lambda: [torch.mm(a, b, out=out) for a, b, out in products]


def memory_traffic(s: Setting) -> Call:
    """Returns a call of a `copy_` of as many bytes as must move between data, layer, read-out and loss.

    Inputs are read in both passes. States at every step are written, read by the read-out and by its weight gradient, and
    their gradient is written and read. The same holds for the read-out's result.
    """
    x = s.batch.input
    states, results = {"step": (5, 5), "layer": (2, 0), "read-out": (3, 5)}[s.part]
    moved = 4 * s.N * (s.T if s.task.every_step else 1) * (states * s.H + results * s.task.output_size)
    moved += 0 if s.part == "read-out" else 2 * x.numel() * x.element_size()
    source, target = torch.ones(2, moved // 2, dtype=torch.uint8)  # a copy reads and writes every byte
    return lambda: target.copy_(source)


def measure_setting(s: Setting, clock: Clock) -> dict[str, Any]:
    """Measures one row of the table, for the record."""
    if s.part == "read-out":
        sides = {"srnn": readout_alone(s), "step": training_step(replace(s, part="step"), "srnn")}
    else:
        side = training_step if s.part == "step" else layer_alone
        sides = {name: side(s, name) for name in ("srnn", *s.baselines)}
    times = clock.race({**sides, "matmul": matrix_products(s), "memory": memory_traffic(s)})
    faster = {name: ratio(times, name, "srnn") for name in s.baselines if name in times}
    sizes = {"N": s.N, "T": s.T, "H": s.H, "mlp": list(s.mlp), "symbols": s.symbols, "inputs": s.width}
    return {
        "key": s.key,
        "title": s.title,
        "part": s.part,
        "backend": s.backend,
        "sizes": sizes | {"outputs": s.task.output_size},
        "times_faster": faster,
        "floors": dict(s.floors),
        "met": all(faster[name] >= least for name, least in s.floors.items()) if s.floors else None,
        "limits": {name: ratio(times, name, "srnn") for name in ("matmul", "memory")},
        "share_of_step": ratio(times, "srnn", "step") if "step" in times else None,
        "milliseconds": {
            name: {"median": 1e3 * median(seconds), "best": 1e3 * min(seconds), "rounds": len(seconds)}
            for name, seconds in times.items()
        },
    }
