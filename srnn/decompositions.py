"""Our operators in plain ATen operators, for programs that know no others.

    exported = torch.export.export(model, args)
    plain = exported.run_decompositions(srnn.decompositions.table())

With a fixed number of steps, ReLU and clip are computed in closed form, CHUNK steps at a time (kernels/pytorch.py has the
mathematics). The state itself passes from chunk to chunk, so errors do not grow with the number of steps. With a free number
of steps, and with tanh, there is no closed form: the graph then has torch's `scan` operator, one step at a time.

N sequences, T steps, H units, L steps of a chunk.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._higher_order_ops.scan import scan_op
from torch.nn import functional as F

from srnn.kernels import ACTIVATIONS, ops, pytorch

CHUNK = pytorch.CHUNK
Maybe = Tensor | None


def table() -> dict[Any, Callable[..., Any]]:
    """Returns torch's own decompositions and those of our operators, for `run_decompositions`."""
    found: Any = torch.export.default_decompositions()
    found.update(TABLE)
    return found


def shuffle_scan(
    b: Tensor, h0: Tensor, ids: Maybe, permutation: Maybe, lengths: Maybe, reset: Maybe, reverse: bool, activation: str
) -> tuple[Tensor, Tensor, Tensor]:
    """Decomposes `srnn::shuffle_scan`. What it keeps for the derivative is left out."""
    b = b if ids is None else F.embedding(ids.long(), b)
    wide = torch.promote_types(b.dtype, torch.float32)
    walk = _Walk(b, permutation, lengths, reset, reverse)
    go = _by_chunks if isinstance(b.shape[1], int) and ACTIVATIONS[activation].bounds is not None else _by_steps
    states, h_n = go(walk.ordered(b.to(wide)), h0.to(wide), walk, activation)
    if walk.valid is not None:
        states = states.masked_fill(~walk.valid[..., None], 0)
    return walk.ordered(states).to(b.dtype), h_n.to(b.dtype), b.new_zeros(0, dtype=torch.uint8)


def shuffle_scan_final(b: Tensor, h0: Tensor, *sequence: Any) -> tuple[Tensor, Tensor]:
    """Decomposes `srnn::shuffle_scan_final`."""
    _, h_n, _ = shuffle_scan(b, h0, *sequence)
    return h_n, torch.zeros_like(h0, dtype=torch.int32)


def gated_scan(
    z: Tensor, weight: Tensor, bias: Maybe, x: Tensor, gate_weight: Maybe, gate_bias: Maybe, h0: Tensor, *sequence: Any
) -> tuple[Tensor, Tensor, Tensor]:
    """Decomposes `srnn::gated_scan`."""
    b = F.linear(z, weight, bias)
    b = b if gate_weight is None else b * F.linear(x, gate_weight, gate_bias).sigmoid()
    return shuffle_scan(b, h0, None, *sequence)


def gated_scan_final(
    z: Tensor, weight: Tensor, bias: Maybe, x: Tensor, gate_weight: Maybe, gate_bias: Maybe, h0: Tensor, *sequence: Any
) -> tuple[Tensor, Tensor]:
    """Decomposes `srnn::gated_scan_final`."""
    _, h_n, _ = gated_scan(z, weight, bias, x, gate_weight, gate_bias, h0, *sequence)
    return h_n, torch.zeros_like(h0, dtype=torch.int32)


TABLE: dict[Any, Callable[..., Any]] = {torch.ops.srnn.cell.default: pytorch.cell} | {
    getattr(getattr(torch.ops, namespace), function.__name__).default: function
    for namespace in ops.NAMESPACES
    for function in (shuffle_scan, shuffle_scan_final, gated_scan, gated_scan_final)
}


class _Walk:
    """In which order the steps of each row are taken: forward, or from a row's last step to its first.

    valid [N, T] is false after a row's end, and None without lengths. cut [N, T] is true where the state is cleared before a
    step, and None without resets. Both are in the order of the steps taken. source [H] is P.
    """

    def __init__(self, b: Tensor, permutation: Maybe, lengths: Maybe, reset: Maybe, reverse: bool) -> None:
        N, T, H = b.shape
        self.source = torch.arange(H, device=b.device).roll(-1) if permutation is None else permutation.long()
        steps = torch.arange(T, device=b.device)
        self.ends = ends = None if lengths is None else lengths.long()
        self.valid = None if ends is None else steps < ends[:, None]
        self.times: Maybe = None
        if reverse:
            back = (T - 1 - steps).expand(N, T) if ends is None else ends[:, None] - 1 - steps
            self.times = back if self.valid is None else torch.where(self.valid, back, steps)
        self.cut: Maybe = None
        if reset is not None:  # going back, the border that a step crosses is that of the step after it
            crossed = reset if self.times is None else self.ordered(F.pad(reset[:, 1:], (0, 1)))
            self.cut = crossed if self.valid is None else crossed & self.valid
            if reverse and self.ends is not None:  # a reset at the end of a row is not in it
                self.cut = self.cut & (steps > 0)

    def ordered(self, x: Tensor) -> Tensor:
        """x [N, T, ...] in the order of the steps taken, and back again, since the order is its own inverse."""
        if self.times is None:
            return x
        return x.gather(1, self.times if x.dim() == 2 else self.times[..., None].expand_as(x))


def _by_steps(b: Tensor, h0: Tensor, walk: _Walk, activation: str) -> tuple[Tensor, Tensor]:
    """All states and the last ones, by torch's scan over single steps."""
    sigma = ACTIVATIONS[activation].function
    N, T, _ = b.shape
    cut = torch.zeros(N, T, dtype=torch.bool, device=b.device) if walk.cut is None else walk.cut
    valid = torch.ones(N, T, dtype=torch.bool, device=b.device) if walk.valid is None else walk.valid

    def step(h: Tensor, b_t: Tensor, cut_t: Tensor, valid_t: Tensor, source: Tensor) -> tuple[Tensor, Tensor]:
        new = sigma(h.masked_fill(cut_t[:, None], 0).index_select(1, source) + b_t)
        new = torch.where(valid_t[:, None], new, h)
        return new, new.clone()

    # The operator itself and not the function of this name: that one compiles, and its guards would fix the number of steps.
    h_n, states = scan_op(step, (h0,), (b.transpose(0, 1), cut.T, valid.T), (walk.source,))
    return states.transpose(0, 1), h_n


def _by_chunks(b: Tensor, h: Tensor, walk: _Walk, activation: str) -> tuple[Tensor, Tensor]:
    """All states and the last ones, in closed form inside a chunk: every unit is followed along its orbit."""
    (N, T, H), bounds = b.shape, ACTIVATIONS[activation].bounds
    back = [torch.arange(H, device=b.device)]  # k steps into a chunk, the unit at place i entered it at back[k][i]
    for _ in range(min(CHUNK, T)):
        back.append(back[-1].index_select(0, walk.source))
    places = torch.stack(back)
    ahead = places.argsort(1)  # and the unit that entered it at place j is at ahead[k][j]
    parts = []
    for start in range(0, T, CHUNK):
        L = min(CHUNK, T - start)
        cut = None if walk.cut is None else walk.cut[:, start : start + L, None]
        c = b[:, start : start + L].gather(2, ahead[1 : L + 1].expand(N, L, H))
        u = pytorch._states(c, h, cut, bounds)  # [N, L + 1, H], the state at the start first
        at_places = u.gather(2, places[: L + 1].expand(N, L + 1, H))
        parts.append(at_places[:, 1:])
        if walk.ends is None:
            h = at_places[:, -1]
        else:  # rows that have ended keep their state
            taken = (walk.ends - start).clamp(0, L)
            h = at_places.gather(1, taken[:, None, None].expand(N, 1, H))[:, 0]
    return torch.cat(parts, 1) if parts else b, h
