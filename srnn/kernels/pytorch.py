"""The operators of `shuffle_scan` in plain PyTorch operations: for any device, with a loop over time only for tanh.

Follow a unit along its orbit under P, and no other unit matters: u_t = relu(u_{t-1} + c_t), where c_t is the entry of b_t at
the unit's place. With S_t = c_1 + ... + c_t this has a closed form. So has its derivative, a running sum that restarts from 0
wherever the state was zero:

    u_t = S_t + max(u_0, -S_1, ..., -S_t)
    s_t = S_t + (s_0 if the state was never zero, else -S_z),   S now of v, z the last step at which the state was zero

With clip, or if a reset cuts the sequence, the first has no closed form. But maps u -> min(max(u + s, l), m) compose to maps of
the same form, so log2(L) rounds of composition give all states of a chunk of L steps.

All these are differences of running sums, which lose digits as S grows. So time is cut into chunks: the closed form inside a
chunk, the state itself from chunk to chunk. The closed form is for finite values: where the loop keeps an infinity, S - S is
NaN.

Autograd does not see this file: `ops.py` defines the derivatives, and what `kept` holds.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from srnn.errors import LengthError, SettingError, SymbolError
from srnn.kernels.activations import ACTIVATIONS, tanh_slope

CHUNK = 64  # steps; longer chunks mean fewer calls, more memory and larger running sums

Maybe = Tensor | None
Store = Callable[[Tensor, Tensor], None]  # takes steps [L] and what every unit was before and in them [N, L + 1, H]


def shuffle_scan(
    b: Tensor, h0: Tensor, ids: Maybe, permutation: Maybe, lengths: Maybe, reset: Maybe, reverse: bool, activation: str
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns all states, the last states, and the bits for the derivative (empty for a smooth activation)."""
    walk = _Walk(b, ids, permutation, lengths, reset, reverse)
    sigma = ACTIVATIONS[activation]
    has_bits = sigma.bounds is not None
    output, h = b.new_empty(walk.shape), h0.to(wide_type(b))
    kept = b.new_empty((*walk.shape[:2], (b.shape[-1] + 63) // 64 * 8) if has_bits else 0, dtype=torch.uint8)
    for steps in walk.chunks():
        u = _states(walk.read(b, ids, steps), h, walk.cut(steps), sigma.bounds)
        states = walk.settle(u, steps)
        walk.write(output, None, steps, states)
        if has_bits:
            walk.write(kept, None, steps, _pack(~sigma.is_flat(states)))
        h = walk.leave(u, steps)
    return output, h.to(b.dtype, copy=True), kept


def shuffle_scan_final(
    b: Tensor, h0: Tensor, ids: Maybe, permutation: Maybe, lengths: Maybe, reset: Maybe, reverse: bool, activation: str
) -> tuple[Tensor, Tensor]:
    """Returns the last states, and the last step at which each unit's derivative was 0."""
    sigma = ACTIVATIONS[activation]
    walk = _Walk(b, ids, permutation, lengths, reset, reverse)
    h, zero = h0.to(wide_type(b)), torch.zeros_like(h0, dtype=torch.int32)
    for steps in walk.chunks():
        cut = walk.cut(steps)
        u = _states(walk.read(b, ids, steps), h, cut, sigma.bounds)
        zeros = torch.where(sigma.is_flat(u[:, 1:]), steps.int()[:, None], 0)
        if cut is not None:
            zeros = zeros.maximum(torch.where(cut, steps.int()[:, None] - 1, 0))
        zero = walk.leave(torch.cat([zero[:, None], zeros], 1).cummax(1).values, steps)
        h = walk.leave(u, steps)
    return h.to(b.dtype, copy=True), zero


def shuffle_scan_backward(
    grad: Maybe,
    grad_n: Tensor,
    kept: Tensor,
    like: Tensor,
    ids: Maybe,
    permutation: Maybe,
    lengths: Maybe,
    reset: Maybe,
    reverse: bool,
) -> tuple[Tensor, Tensor]:
    """Returns the gradients by b and h0: d_t = sigma'_t (g_t + P^T d_{t+1}).

    This is the recursion of the tangent with time reversed and P^T for P. It starts from P g_n, which its first step turns into
    g_n, and ends with d_1, which gives dh_0 = P^T d_1.
    """
    walk = _Walk(like, ids, permutation, lengths, reset, reverse, adjoint=True)
    db = like.new_empty(like.shape) if ids is None else like.new_zeros(like.shape, dtype=wide_type(like))

    def store(steps: Tensor, d: Tensor) -> None:
        walk.write(db, ids, steps, walk.settle(d, steps))

    start = grad_n[:, walk.inverse].to(wide_type(grad_n))
    if kept.dtype == torch.int32:
        check_last_zeros(kept, walk.ends, reset, reverse)
        d_1 = _last_stretch(start, walk.ends - kept[:, walk.inverse], walk, store)
    else:
        grad = grad_n.new_zeros(()).expand(walk.shape) if grad is None else grad
        d_1 = _derivative(grad, None, start, kept, walk, store)
    if reset is not None and not reverse and walk.shape[1]:  # a reset at the first step discards h0
        d_1 = d_1.masked_fill(reset[:, :1] & (walk.ends > 0), 0)
    return db.to(like.dtype), d_1[:, walk.source].to(grad_n.dtype)


def shuffle_scan_tangent(
    v: Tensor, v0: Tensor, kept: Tensor, ids: Maybe, permutation: Maybe, lengths: Maybe, reset: Maybe, reverse: bool
) -> tuple[Tensor, Tensor]:
    """Returns the derivatives of all states and of the last states: s_t = sigma'_t (P s_{t-1} + v_t), from s_0 = v0."""
    walk = _Walk(v, ids, permutation, lengths, reset, reverse)
    final = kept.dtype == torch.int32
    states = v.new_empty(0 if final else walk.shape)

    def store(steps: Tensor, s: Tensor) -> None:
        if not final:
            walk.write(states, None, steps, walk.settle(s, steps))

    if final:
        check_last_zeros(kept, walk.ends, reset, reverse)
        # `kept` names a unit by the place where it ends, the walk by the place where it starts
        kept = kept.gather(1, _powers(walk.inverse, walk.ends[:, 0]))
    s_n = _derivative(v, ids, v0.to(wide_type(v)), kept, walk, store)
    return states, s_n.to(v.dtype, copy=True)


def check_values(b: Tensor, ids: Maybe, permutation: Maybe, lengths: Maybe) -> None:
    """Raises for values of ids, lengths or a permutation that are out of range; shapes and dtypes were checked before."""
    (N, T), H = b.shape[:2] if ids is None else ids.shape, b.shape[-1]
    if ids is not None and ids.numel():
        low, high = int(ids.min()), int(ids.max())  # as int: 256 is not a uint8
        if low < 0 or high >= len(b):
            expected = f"ids (symbols) must be between 0 and {len(b) - 1}, because the table (alphabet) has {len(b)} rows"
            raise SymbolError(f"{expected}, got {low} to {high}")
    if lengths is not None and N and (lengths.min() < 0 or lengths.max() > T):
        raise LengthError(f"lengths must be between 0 and T = {T}, got {lengths.min()} to {lengths.max()}")
    if permutation is None:
        return
    values = permutation.tolist()
    if sorted(values) != list(range(H)):
        came = f"{len(values)} values from {min(values)} to {max(values)}, {len(set(values))} of them different"
        raise SettingError(f"permutation must hold each of 0 to {H - 1} once, got {came}")


def check_last_zeros(kept: Tensor, ends: Tensor, reset: Maybe, reverse: bool) -> None:
    """Raises unless each last zero of a row [N, H] is a step of that row, or 0 for none, and none is before the last reset.

    `ends` [N, 1] are the lengths. A forward pass with this reset keeps no others: nothing passes a reset.
    """
    least = torch.zeros_like(ends)
    if reset is not None and reset.shape[1]:
        t = torch.arange(reset.shape[1], device=reset.device)
        crossed = reset & (t > 0) & (t < ends)
        least = torch.where(crossed, ends - t if reverse else t, 0).amax(1, keepdim=True)
    if kept.numel() and bool(((kept < least) | (kept > ends)).any()):
        got = f"{int(kept.min())} to {int(kept.max())}"
        raise LengthError(f"kept must hold last zeros between the last reset of their row, or 0, and its length, got {got}")


def input_drive(z: Tensor, weight: Tensor, bias: Maybe, x: Tensor, gate_weight: Maybe, gate_bias: Maybe) -> Tensor:
    """Returns b = (z W^T + c) * sigmoid(x U^T + e), without a gate_weight only the first factor; differentiable."""
    with dtype_as_given(z):
        b = F.linear(z, weight, bias)
        return b if gate_weight is None else b * F.linear(x, gate_weight, gate_bias).sigmoid()


def dtype_as_given(x: Tensor) -> torch.autocast:
    """Inside, products are not rounded by autocast: the caller has already chosen the dtype."""
    return torch.autocast(x.device.type, enabled=False)


def gated_scan(
    z: Tensor, weight: Tensor, bias: Maybe, x: Tensor, gate_weight: Maybe, gate_bias: Maybe, h0: Tensor, *sequence: Any
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns what `shuffle_scan` returns for b = `input_drive`."""
    b = input_drive(*widen(z, weight, bias, x, gate_weight, gate_bias))
    output, h_n, kept = shuffle_scan(b, h0, None, *sequence)
    return output.to(z.dtype), h_n.to(z.dtype), kept


def gated_scan_final(
    z: Tensor, weight: Tensor, bias: Maybe, x: Tensor, gate_weight: Maybe, gate_bias: Maybe, h0: Tensor, *sequence: Any
) -> tuple[Tensor, Tensor]:
    """Returns what `shuffle_scan_final` returns for b = `input_drive`."""
    b = input_drive(*widen(z, weight, bias, x, gate_weight, gate_bias))
    h_n, zero = shuffle_scan_final(b, h0, None, *sequence)
    return h_n.to(z.dtype), zero


def gated_scan_backward(
    grad: Maybe,
    grad_n: Tensor,
    kept: Tensor,
    z: Tensor,
    weight: Tensor,
    bias: Maybe,
    x: Tensor,
    gate_weight: Maybe,
    gate_bias: Maybe,
    permutation: Maybe,
    lengths: Maybe,
    reset: Maybe,
    reverse: bool,
    needs: list[bool],
) -> tuple[Tensor, ...]:
    """Returns the gradients by all inputs and h0. With b = f * a and a = sigmoid(e): df = db * a, de = db * f * a * (1 - a)."""
    like = z.new_empty((), dtype=wide_type(z)).expand(*z.shape[:2], len(weight))
    df, dh0 = shuffle_scan_backward(grad, grad_n, kept, like, None, permutation, lengths, reset, reverse)
    f_inputs, e_inputs = widen(z, weight, bias), widen(x, gate_weight, gate_bias)
    gate_grads: tuple[Maybe, ...] = (None, None, None)
    with dtype_as_given(z):
        if gate_weight is not None:
            a = F.linear(*e_inputs).sigmoid()
            df = df * a
            gate_grads = _linear_backward(df * F.linear(*f_inputs) * (1 - a), *e_inputs, *needs[2:])
        grads = _linear_backward(df, *f_inputs, *needs[:2]) + gate_grads
    return *(z.new_empty(0) if g is None else g.to(z.dtype) for g in grads), dh0


def _linear_backward(
    d: Tensor, x: Tensor, weight: Tensor, bias: Maybe, needs_x: bool, needs_weight: bool
) -> tuple[Maybe, Maybe, Maybe]:
    """The derivatives by x, weight and bias of a loss whose derivative by x weight^T + bias is d [N, T, H]."""
    dx = d @ weight if needs_x else None
    dweight = d.flatten(0, 1).T @ x.flatten(0, 1) if needs_weight else None
    return dx, dweight, d.sum((0, 1)) if needs_weight and bias is not None else None


def cell_factors(x: Tensor, maps: Sequence[Tensor], gate: bool, bias: bool) -> tuple[Tensor, Maybe]:
    """Returns f_r(x), and W_s x + b_s if there is a gate; differentiable. `maps` are those of f_r, then the gate's."""
    each = list(zip(maps[::2], maps[1::2], strict=True)) if bias else [(weight, None) for weight in maps]
    last = len(each) - 1 - gate
    z = x
    for linear in each[:last]:
        z = F.linear(z, *linear).relu()
    return F.linear(z, *each[last]), F.linear(x, *each[-1]) if gate else None


def cell(x: Tensor, h: Tensor, maps: Sequence[Tensor], permutation: Maybe, gate: bool, bias: bool, activation: str) -> Tensor:
    """Returns h' = sigma(P h + f_r(x) * sigmoid(W_s x + b_s)), differentiable; `maps` are those of f_r, then the gate's."""
    b, e = cell_factors(x, maps, gate, bias)
    if e is not None:
        b = b * e.sigmoid()
    P_h = h.roll(-1, dims=-1) if permutation is None else h.index_select(-1, permutation)
    return ACTIVATIONS[activation].function(P_h + b)


class _Walk:
    """In which order the steps of each row are taken, and where the units are meanwhile; raises for values out of range.

    times [N, T]: the place in time of the s-th step taken; after a row's end, the step itself, so that no place is left out.
    ahead, back [CHUNK + 1, H]: k steps into a chunk, the unit that entered it at place j is at ahead[k, j], and the unit at
    place i entered it at back[k, i]. Every chunk numbers the units by the places where they enter it.
    cuts [N, T]: whether the state is cleared before the s-th step taken; None without resets.
    The adjoint walk takes the steps in the opposite order, with P^T for P.
    """

    def __init__(
        self, b: Tensor, ids: Maybe, permutation: Maybe, lengths: Maybe, reset: Maybe, reverse: bool, *, adjoint: bool = False
    ) -> None:
        check_values(b, ids, permutation, lengths)
        N, T = b.shape[:2] if ids is None else ids.shape
        self.shape = N, T, b.shape[-1]
        self.source = torch.arange(b.shape[-1], device=b.device).roll(-1) if permutation is None else permutation.long()
        self.inverse = self.source.argsort()
        if adjoint:
            self.source, self.inverse, reverse = self.inverse, self.source, not reverse
        counts = torch.arange(CHUNK + 1, device=b.device)
        self.ahead, self.back = _powers(self.inverse, counts), _powers(self.source, counts)
        self.rows, order = torch.arange(N, device=b.device)[:, None], torch.arange(T, device=b.device).expand(N, T)
        self.ends = torch.full_like(self.rows, T) if lengths is None else lengths.long()[:, None]
        self.times = torch.where(order < self.ends, self.ends - 1 - order, order) if reverse else order
        self.cuts = None
        if reset is not None and T:  # the border that a step crosses is before it in time, or behind it going back
            crossed = reset.gather(1, (self.times + reverse).clamp(max=T - 1))
            crosses = order > 0 if reverse or adjoint else order >= 0  # the first step takes what it is given
            self.cuts = crossed & crosses & (order < self.ends)

    def chunks(self) -> Iterator[Tensor]:
        """The steps in the order in which they are taken, counted from 1."""
        for s in range(0, self.shape[1], CHUNK):
            yield torch.arange(s + 1, min(s + CHUNK, self.shape[1]) + 1, device=self.rows.device)

    def cut(self, steps: Tensor) -> Maybe:
        """Whether the state is cleared before each of these steps [N, L, 1]; None where it never is."""
        return None if self.cuts is None else self.cuts[:, steps - 1, None]

    def read(self, b: Tensor, ids: Maybe, steps: Tensor) -> Tensor:
        """What each unit meets in these steps [N, L, H], from a sequence b [N, T, H] or a table b [V, H]."""
        times, places = self.times[:, steps - 1], self.ahead[1 : len(steps) + 1]
        if ids is None:
            return b[self.rows[..., None], times[..., None], places].to(wide_type(b))
        return b[ids[self.rows, times].long()[..., None], places].to(wide_type(b))

    def write(self, target: Tensor, ids: Maybe, steps: Tensor, values: Tensor) -> None:
        """Puts values [N, L, *] at these steps of a sequence, or adds them to the rows of a table."""
        times = self.times[:, steps - 1]
        if ids is None:
            target[self.rows, times] = values.to(target.dtype)
        else:
            target.index_add_(0, ids[self.rows, times].long().flatten(), values.flatten(0, 1))

    def settle(self, u: Tensor, steps: Tensor) -> Tensor:
        """States of units before and in the chunk [N, L + 1, H] -> states of places in it [N, L, H], 0 from a row's end on."""
        h = u[:, 1:].gather(2, self.back[1 : len(steps) + 1].expand(len(u), -1, -1))
        return h.masked_fill_((steps > self.ends)[..., None], 0)

    def leave(self, u: Tensor, steps: Tensor) -> Tensor:
        """States of units [N, L + 1, H] -> states of places after the row's last step in this chunk [N, H]."""
        taken = (self.ends - steps[0] + 1).clamp(0, len(steps))
        return u[self.rows, taken, self.back[taken[:, 0]]]


def _states(c: Tensor, start: Tensor, cut: Maybe, bounds: tuple[float, float] | None) -> Tensor:
    """Every unit before and in a chunk [N, L + 1, H]: u_t = sigma(u_{t-1} + c_t), from 0 where it is cut."""
    if bounds is None:
        return _loop(c, start, None, cut)
    return _climb(c, start) if bounds == (0.0, torch.inf) and cut is None else _compose(c, start, cut, *bounds)


def _compose(c: Tensor, start: Tensor, cut: Maybe, low: float, high: float) -> Tensor:
    """u_t = clamp(u_{t-1} + c_t, low, high): the maps of 1, 2, 4, ... steps, each clamp(u + shift, lowest, highest)."""
    shift, lowest, highest = c, torch.full_like(c, low), torch.full_like(c, high)
    if cut is not None:  # such a step gives the same whatever came before
        lowest, highest = (torch.where(cut, c.clamp(low, high), bound) for bound in (lowest, highest))
    for k in (2**n for n in range((c.shape[1] - 1).bit_length())):
        later = shift[:, k:], lowest[:, k:], highest[:, k:]
        lowest, highest = (
            torch.cat([bound[:, :k], (bound[:, :-k] + later[0]).clamp(*later[1:])], 1) for bound in (lowest, highest)
        )
        shift = torch.cat([shift[:, :k], shift[:, :-k] + later[0]], 1)
    return torch.cat([start[:, None], (start[:, None] + shift).clamp(lowest, highest)], 1)


def _climb(c: Tensor, start: Tensor, zero: Maybe = None) -> Tensor:
    """The closed forms, [N, L + 1, H] beginning with `start`; the second where `zero` says which step was the last zero."""
    S = F.pad(c.cumsum(1), (0, 0, 1, 0))
    bases = torch.cat([start[:, None], -S[:, 1:]], 1)
    return S + (bases.cummax(1).values if zero is None else bases.gather(1, zero))


def _loop(c: Tensor, start: Tensor, slopes: Maybe, cut: Maybe) -> Tensor:
    """The same for tanh, one step after the other; the derivative where its slopes are given."""
    u = [start]
    for k, c_t in enumerate(c.unbind(1)):
        before = u[-1] if cut is None else u[-1].masked_fill(cut[:, k], 0)
        u.append((before + c_t).tanh() if slopes is None else (before + c_t) * slopes[:, k])
    return torch.stack(u, 1)


def _derivative(v: Tensor, ids: Maybe, s: Tensor, kept: Tensor, walk: _Walk, store: Store) -> Tensor:
    """s_t = sigma'_t (P s_{t-1} + v_t), from s_0 = s; returns the last."""
    for steps in walk.chunks():
        L, c, cut = len(steps), walk.read(v, ids, steps), walk.cut(steps)
        if cut is not None:
            s = s.masked_fill(cut[:, 0], 0)
        if kept.is_floating_point():
            u = _loop(c, s, tanh_slope(walk.read(kept, None, steps)), cut)
        elif kept.dtype == torch.int32:  # only the last state is asked for: before its last zero anything may stand
            u = _climb(c, s, (kept - steps[0] + 1).clamp(0, L).long()[:, None].expand(-1, L + 1, -1))
            kept = walk.leave(kept[:, None].expand(-1, L + 1, -1), steps)
        else:
            positive = _unpack(kept[walk.rows, walk.times[:, steps - 1]])
            positive = positive.gather(2, walk.ahead[1 : L + 1].expand(len(s), -1, -1))
            k = torch.arange(1, L + 1, device=s.device)[:, None]
            zero = torch.where(positive, 0, k) if cut is None else torch.where(positive, torch.where(cut, k - 1, 0), k)
            u = _climb(c, s, F.pad(zero.cummax(1).values, (0, 0, 1, 0)))
        store(steps, u)
        s = walk.leave(u, steps)
    return s


def _last_stretch(d: Tensor, life: Tensor, walk: _Walk, store: Store) -> Tensor:
    """The derivative of the last state alone, going back: d for the `life` steps since the unit's last zero, then 0."""
    for steps in walk.chunks():
        taken = torch.cat([steps[:1] - 1, steps]).minimum(walk.ends)
        u = torch.where(taken[..., None] <= life[:, None], d[:, None], 0)
        store(steps, u)
        d, life = walk.leave(u, steps), walk.leave(life[:, None].expand_as(u), steps)
    return d


def _powers(permutation: Tensor, counts: Tensor) -> Tensor:
    """[K, H]: in row k the permutation applied counts[k] times, by repeated squaring."""
    places = torch.arange(len(permutation), device=counts.device).expand(len(counts), -1)
    for bit in range(int(counts.max()).bit_length() if len(counts) else 0):
        places = torch.where((counts >> bit & 1).bool()[:, None], permutation[places], places)
        permutation = permutation[permutation]
    return places


def _pack(mask: Tensor) -> Tensor:
    """[..., H] -> bytes [..., 8 * ceil(H / 64)]: of every 64 units, unit 8 k + l is bit k of byte l."""
    words: Tensor = F.pad(mask.to(torch.uint8), (0, -mask.shape[-1] % 64)).unflatten(-1, (-1, 8, 8))
    return (words << _bits(mask)).sum(-2, dtype=torch.uint8).flatten(-2)


def _unpack(kept: Tensor) -> Tensor:
    """The inverse of `_pack`, followed by the zeros that fill the last word."""
    words: Tensor = kept.unflatten(-1, (-1, 1, 8))
    return (words >> _bits(kept) & 1).flatten(-3).bool()


def _bits(like: Tensor) -> Tensor:
    return torch.arange(8, dtype=torch.uint8, device=like.device)[:, None]


def wide_type(x: Tensor) -> torch.dtype:
    """The type to compute in."""
    return torch.promote_types(x.dtype, torch.float32)


def widen(*tensors: Maybe) -> list[Any]:
    """The tensors in the type to compute in."""
    return [None if t is None else t.to(wide_type(t)) for t in tensors]
