"""Checks before anything is timed that every path equals the reference in values and gradients, at a small size."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from srnn import kernels
from srnn.errors import SettingError
from srnn.lab.bench.limits import MEMORY, scan
from srnn.lab.bench.training import Setting, run_of
from srnn.lab.training.loop import make_model

Outcome = dict[str, Tensor]  # results and gradients, by name
TOLERANCE = 1e-4  # share of a tensor's norm: float32 sums in another order differ by a hundredth of this, a wrong step by more


def check_results(settings: Iterable[Setting], device: str = "cpu") -> None:
    """Compares every path with the reference, on a device.

    Raises:
        SettingError: At the first result that differs.
    """
    small = [replace(s, N=3, T=40, device=device) for s in (*settings, *MEMORY.values())]
    paths: dict[str, tuple[Callable[[], Outcome], str]] = {s.key: (partial(_training_step, s), s.backend) for s in small}
    paths |= {f"{form} scan": (partial(_scan, form, device), "auto") for form in ("dense", "table")}
    for path, (outcome, backend) in paths.items():
        backend = kernels.auto_backend(torch.device(device)) if backend == "auto" else backend
        got, wanted = _on(backend, outcome), _on("reference", outcome)
        for name, value in wanted.items():
            error = float((got[name] - value).norm() / value.norm().clamp(min=1e-12))
            if not error <= TOLERANCE:  # a NaN is a mismatch too
                raise SettingError(
                    f"{path}: {name} must be the reference's up to {TOLERANCE:g} of its norm. With backend {backend!r} it "
                    f"is off by {error:.1e}. Nothing was timed. Run srnn doctor and the tests of the kernels"
                )


def _on(backend: str, outcome: Callable[[], Outcome]) -> Outcome:
    """Returns the outcome on a backend, with the same random numbers each time."""
    torch.manual_seed(0)
    with kernels.use(backend):
        return outcome()


def _training_step(s: Setting) -> Outcome:
    model, batch = make_model(run_of(s, "srnn")).to(s.device), s.batch
    output, parameters = model(batch), dict(model.named_parameters())
    grads = torch.autograd.grad(s.task.loss(output, batch), list(parameters.values()))
    return {"the output": output.detach(), **{f"the gradient of {name}": g for name, g in zip(parameters, grads, strict=True)}}


def _scan(form: str, device: str) -> Outcome:
    return dict(zip(("the states", "the gradient"), scan(form, 3, 40, 128, draw=torch.randn, device=device)(), strict=False))
