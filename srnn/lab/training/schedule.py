"""Learning rate schedules, and the update at which a run ends."""

import math

from srnn.lab.training.run import Run


def learning_rate(run: Run, peak: float, step: int, last_step: int | None) -> float:
    """Return the learning rate of an update.

    After a linear warm-up the rate is constant, follows half a cosine to 0, or is divided by 10 every `decay_every` updates.

    Args:
        run: Its `schedule`, `warmup` and `decay_every` are used.
        peak: The rate after the warm-up.
        step: The number of the update, counted from 0.
        last_step: The number of updates of the run; None if only the clock ends it.
    """
    if step < run.warmup:
        return peak * (step + 1) / run.warmup
    if run.schedule == "staircase":
        return peak * 0.1 ** (step // run.decay_every)
    if run.schedule == "constant" or last_step is None:
        return peak
    return peak / 2 * (1 + math.cos(math.pi * (step - run.warmup) / max(1, last_step - run.warmup)))


def last_step(run: Run, updates_per_epoch: int | None) -> int | None:
    """Return the number of updates after which a run ends; None if only the clock or its scores end it."""
    ends = [run.steps] if run.steps is not None else []
    if run.epochs is not None:
        assert updates_per_epoch is not None
        ends.append(run.epochs * updates_per_epoch)
    return min(ends, default=None)
