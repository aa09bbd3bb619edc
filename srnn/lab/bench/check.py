"""The check before the race: every path that will be timed against the reference, in values and gradients, at a small size."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from srnn import kernels
from srnn.errors import SettingError
from srnn.lab.bench.limits import MEMORY, scan
from srnn.lab.bench.training import Network, Setting, loss

Outcome = dict[str, Tensor]  # what came out, and every gradient, by name
TOLERANCE = 1e-4  # of a tensor's norm: float32 sums in another order stay a hundred times below, a wrong step does not


def check_results(settings: Iterable[Setting]) -> None:
    """Raises at the first result that is not the reference's."""
    small = [replace(s, N=3, T=40) for s in (*settings, *MEMORY.values())]
    paths: dict[str, Callable[[], Outcome]] = {s.key: partial(_training_step, s) for s in small}
    paths |= {f"{form} scan": partial(_scan, form) for form in ("dense", "table")}
    for path, outcome in paths.items():
        got, wanted = _with_default(kernels.default_backend(), outcome), _with_default("reference", outcome)
        for name, value in wanted.items():
            error = float((got[name] - value).norm() / value.norm().clamp(min=1e-12))
            if not error <= TOLERANCE:  # a NaN is a mismatch too
                raise SettingError(
                    f"{path}: {name} must be the reference's up to {TOLERANCE:g} of its norm; with "
                    f"backend {kernels.auto_backend()!r} it is "
                    f"off by {error:.1e}; nothing was timed; srnn doctor and the tests of the kernels tell more"
                )


def _with_default(name: str, outcome: Callable[[], Outcome]) -> Outcome:
    """The outcome, from the same random numbers each time, where "auto" means the backend called `name`."""
    torch.manual_seed(0)
    with kernels.use(name):
        return outcome()


def _training_step(s: Setting) -> Outcome:
    network, (x, target) = Network(s, "srnn"), s.draw(s.N, s.T)
    output, parameters = network(x), dict(network.named_parameters())
    grads = torch.autograd.grad(loss(output, target), list(parameters.values()))
    return {"the output": output.detach(), **{f"the gradient of {name}": g for name, g in zip(parameters, grads, strict=True)}}


def _scan(form: str) -> Outcome:
    return dict(zip(("the states", "the gradient"), scan(form, 3, 40, 128, draw=torch.randn)(), strict=False))
