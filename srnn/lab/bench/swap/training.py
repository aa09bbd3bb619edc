"""One run: a program trained with one network, learning rate and seed, until both budgets are used up.

Scores are taken twice, after `updates` updates and after `seconds` CPU seconds, on validation and test data. Only the CPU time
of updates counts, not that of drawing batches and scoring.
"""

import math
import time
from typing import Any

import torch
from torch import nn

from srnn import SRNN, SRNNStack
from srnn.lab.bench.swap.program import RNN, Data, Program, Run

NETWORKS: dict[str, RNN] = {"nn.GRU": nn.GRU, "nn.LSTM": nn.LSTM, "SRNN": SRNN, "SRNNStack": SRNNStack}
BUDGETS = ("updates", "seconds")
CLIP = 1.0  # bound of the norm of all gradients
POINTS = 5  # validation scores per CPU budget, for the curve


@torch.random.fork_rng(devices=[])
def train(run: Run) -> dict[str, Any]:
    """Returns the scores at the end of each budget, the curve of the validation scores, and what the training took.

    A score that is not a finite number is None. So are all scores that were still to come when the loss stopped being finite.
    """
    torch.manual_seed(run.seed)
    program = run.program
    model = program.model(NETWORKS[run.network])
    optimizer = torch.optim.Adam(model.parameters(), lr=run.lr)
    batches, data = program.batches(run.seed), {split: program.examples(split) for split in ("val", "test")}
    started, done, spent, diverged = time.perf_counter(), 0, 0.0, False
    curve: list[dict[str, Any]] = []
    at: dict[str, dict[str, Any]] = {}
    while len(at) < len(BUDGETS):
        if not diverged:
            batch, start = next(batches), time.process_time()
            diverged = not _update(model, optimizer, program, batch)
            spent += time.process_time() - start
            done += 1
        taken = {"updates": done, "cpu_seconds": spent}
        if spent >= program.seconds * (len(curve) + 1) / POINTS and not diverged:
            curve.append(taken | {"val": _scores(program, model, data["val"])})
        for budget, used in (("updates", done), ("seconds", spent)):
            if budget not in at and (diverged or used >= getattr(program, budget)):
                scores = {split: None if diverged else _scores(program, model, part) for split, part in data.items()}
                at[budget] = taken | {split: found or dict.fromkeys(program.scores) for split, found in scores.items()}
    return {
        "status": "diverged" if diverged else "finished",
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "updates": done,
        "cpu_seconds": spent,
        "seconds": time.perf_counter() - started,
        "at": at,
        "curve": curve,
    }


def _update(model: nn.Module, optimizer: torch.optim.Optimizer, program: Program, batch: Data) -> bool:
    """Makes an update; returns whether the loss was a finite number."""
    optimizer.zero_grad()
    loss = program.loss(model, batch)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), CLIP)
    optimizer.step()
    return math.isfinite(loss.item())


@torch.no_grad()
def _scores(program: Program, model: nn.Module, data: Data) -> dict[str, float | None]:
    model.eval()
    found = program.score(model, data)
    model.train()
    return {name: value if math.isfinite(value) else None for name, value in found.items()}
