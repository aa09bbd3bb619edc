"""The Triton kernels of `shuffle_scan` and its variants. They know no tensors and no operators: launch.py calls them.

    u_k = sigma(u_{k-1} + c_k)            the scan, for a unit that is followed along its orbit under P
    v_{k-1} = sigma'_k (v_k + g_k)        its derivative

Lanes. A lane follows one unit of one sequence, and no other unit matters to it. Lane n H + d starts at place d of sequence n,
so lanes fill blocks whatever H is. A program takes BLOCK lanes and one chunk of steps: `scan` and `backward` run whole
sequences in one chunk, or many chunks in parallel whose starting states come from `summarize` and `carry`.

Steps s are counted from 0 in the order of the recurrence, times t along the row: t = s, or length - 1 - s in reverse.

Places. After k steps a lane is k entries further in the order of its cycle. For the shift, the order is H - 1, ..., 1, 0, and
for another permutation `orbits` [4, H] int32 holds the order of all cycles, and for each unit where its cycle starts in it,
where it stops, and where the unit itself is.

Memory.
    b, gate, grad, output, states     [N, T, H] with strides in n and t where the arguments name them, units contiguous;
                                      with BY_STEP, b and gate hold the window of steps only: [N, count, H]
    ids, reset                        [N, T];  lengths [N] int32
    bits                              [N, T // 32 + 2, H] int32, in the frame of lanes: bit s % 32 of word s // 32 is 1 where
                                      the derivative passes step s
    start, zero_start, carried        [N, chunks, H] or [N, H], in the frame of lanes
    h_n, zero, grad_n, dh0            [N, H]; zero is the last step, counted from 1, whose derivative is 0

The loads of the next GROUP of steps are issued before the steps of this one are added, and are carried through the loop: a step
is one addition, and a load takes hundreds of times as long. None of them depends on the state.
"""

import inspect

import triton
import triton.language as tl

# What is compiled into no kernel, so that it compiles none again: the values of sizes and strides, and where memory starts.
SIZES = ["N", "T", "H", "first", "count", "steps", "chunks", "b_n", "b_t", "g_n", "g_t", "d_n", "d_t", "pieces"]


def kernel(function):
    """Compiles a function whose arguments are pointers and SIZES, and constants with an annotation."""
    given = [name for name, each in inspect.signature(function).parameters.items() if each.annotation is each.empty]
    return triton.jit(do_not_specialize=SIZES, do_not_specialize_on_alignment=given)(function)


@triton.jit
def lanes_of(block, N, H, BLOCK: tl.constexpr):
    """Sequence, first place and validity of the lanes of a block."""
    lane = block.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    n = lane // H
    return n, (lane - n * H).to(tl.int32), lane < N.to(tl.int64) * H


@triton.jit
def ends_of(n, valid, lengths, T):
    """The number of steps of each lane; 0 for those that are not valid, so that comparing with it is the mask."""
    return tl.where(valid, T if lengths is None else tl.load(lengths + n, mask=valid, other=0), 0)


@triton.jit
def steps_of(chunk, n, valid, lengths, T, first, count, steps):
    """Where a chunk begins and finishes, where rows end, and per lane where its steps in the chunk end, and the chunk."""
    begin = first + chunk * steps
    finish = tl.minimum(begin + steps, first + count)
    ends = ends_of(n, valid, lengths, T)
    return begin, finish, ends, tl.minimum(ends, finish), tl.where(valid, finish, 0)


@triton.jit
def orbit_of(d, H, orbits, valid):
    """Where the cycle of a unit starts and stops in the order, and where the unit is in it."""
    if orbits is None:
        return d * 0, d * 0 + H, H - 1 - d
    else:
        return (
            tl.load(orbits + H.to(tl.int64) + d, mask=valid, other=0),
            tl.load(orbits + H.to(tl.int64) * 2 + d, mask=valid, other=1),
            tl.load(orbits + H.to(tl.int64) * 3 + d, mask=valid, other=0),
        )


@triton.jit
def place_at(at, H, orbits, valid):
    """The place at an entry of the order."""
    if orbits is None:
        return H - 1 - at
    else:
        return tl.load(orbits + at, mask=valid, other=0)


@triton.jit
def advance(at, start, stop, k, H, orbits):
    """The entry k steps further; no sum exceeds H."""
    if orbits is None:
        further = k % H  # one division for all lanes, if k is a scalar
    else:
        further = k % (stop - start)
    left = stop - at
    return tl.where(further < left, at + further, start + (further - left))


@triton.jit
def time_of(s, ends, T, lengths, REVERSE: tl.constexpr):
    """When step s happens; a scalar unless rows differ."""
    if REVERSE:
        if lengths is None:
            return T - 1 - s
        else:
            return ends - 1 - s
    else:
        return s


@triton.jit
def is_cut(reset, n_T, s, ends, limit, T, lengths, REVERSE: tl.constexpr):
    """Whether a sequence starts at step s, so that no state enters it. Nothing precedes the first step of a reversed row."""
    border = time_of(s, ends, T, lengths, REVERSE)
    if REVERSE:
        border = border + 1
    return tl.load(reset + n_T + border, mask=(s < limit) & (border < ends), other=0) != 0


@triton.jit
def tanh(x):
    """tanh with a relative error of a few roundings. Near 0, where 1 - e cancels, it is a quotient from the library Cephes."""
    e = tl.exp(-2 * tl.abs(x))
    is_near = tl.abs(x) < 0.625
    near = tl.where(is_near, x, 0.0)
    s = near * near
    above = (-0.964399179425052238628 * s - 99.2877231001918586564) * s - 1614.68768441708447952
    below = ((s + 112.811678491632931402) * s + 2235.48839060100448583) * s + 4844.06305325125486048
    far = tl.where(x < 0, e - 1, 1 - e)
    return near + tl.where(is_near, near * s * above, far) / tl.where(is_near, below, 1 + e)  # one division for both


@triton.jit
def clamp(x, SIGMA: tl.constexpr):
    """The bounded activations, and whether the derivative passes. NaN stays NaN, and passes ReLU as in torch."""
    if SIGMA == "relu":
        flat = x <= 0
        return tl.where(flat, 0.0, x), ~flat
    else:
        y = tl.where(x < -1, -1.0, tl.where(x > 1, 1.0, x))
        return y, (y > -1) & (y < 1)


@triton.jit
def between(x, low, high):
    """x, or the bound that it exceeds; NaN stays NaN."""
    return tl.where(x < low, low, tl.where(x > high, high, x))


@triton.jit
def combine(shift, low, high, next_shift, next_low, next_high):
    """The map u -> clamp(u + shift, low, high), then the next one of this form: associative, with identity (0, -inf, inf)."""
    return (shift + next_shift, between(low + next_shift, next_low, next_high), between(high + next_shift, next_low, next_high))


@triton.jit
def combine_backward(total, passes, next_total, next_passes):
    """The map v -> (v if passes else 0) + total, then the next one of this form: associative, with identity (0, 1)."""
    return tl.where(next_passes != 0, total, 0.0) + next_total, tl.where(next_passes != 0, passes, 0.0)


@triton.jit
def word_at(bits, n, d, s0, begin, bound, T, H):
    """The word of bits that step s0 is in; nothing is read outside of the chunk."""
    live = tl.where(s0 >= begin, bound, s0)
    return tl.load(bits + (n * (T // 32 + 2) + s0 // 32) * H + d, mask=s0 < live, other=0)


@triton.jit
def fetch(
    b, gate, ids, states, reset, n_b, n_T, s0, at, start, stop, ends, limit, bound, T, H, first, b_t,
    lengths, orbits, BY_STEP: tl.constexpr, REVERSE: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """Loads what the steps s0 to s0 + GROUP - 1 need: for each b, gate, kept state, cut and place, as far as they are there."""
    values = ()
    for i in tl.static_range(GROUP):
        s = s0 + i
        inside = s < limit
        t = time_of(s, ends, T, lengths, REVERSE)
        at = tl.where(at + 1 == stop, start, at + 1)
        place = place_at(at, H, orbits, s < bound)
        if ids is not None:
            row = tl.load(ids + n_T + t, mask=inside, other=0).to(tl.int64) * H
            values = values + (tl.load(b + row + place, mask=inside, other=0),)
        else:
            if BY_STEP:
                t = s - first
            offset = n_b + t.to(tl.int64) * b_t + place
            values = values + (tl.load(b + offset, mask=inside, other=0),)
            if gate is not None:
                values = values + (tl.load(gate + offset, mask=inside, other=0),)
        if states is not None:
            kept = (n_T + time_of(s, ends, T, lengths, REVERSE)) * H + place
            values = values + (tl.load(states + kept, mask=inside, other=0),)
        if reset is not None:
            values = values + (is_cut(reset, n_T, s, ends, limit, T, lengths, REVERSE),)
        if orbits is not None:
            values = values + (place,)
    return values, at


@kernel
def scan(
    b, gate, ids, kept, reset, lengths, orbits, start, zero_start, output, bits, h_n, zero,
    N, T, H, first, count, steps, chunks, b_n, b_t,
    SIGMA: tl.constexpr, BY_STEP: tl.constexpr, REVERSE: tl.constexpr, LAST: tl.constexpr, WIDE: tl.constexpr,
    GROUP: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The states of `steps` steps, for each of the chunks that divide the window of `count` steps from step `first`.

    SIGMA is an activation, or "bits", "states" or "zeros": what `kept` is, in the tangent s_k = sigma'_k (s_{k-1} + v_k).
    LAST says that this is the last window: h_n and zero are then named by the places where lanes end, otherwise by lanes.
    """
    chunk = tl.program_id(0) % chunks
    n, d, valid = lanes_of(tl.program_id(0) // chunks, N, H, BLOCK)
    begin, finish, ends, limit, bound = steps_of(chunk, n, valid, lengths, T, first, count, steps)
    n_T, words = n * T, T // 32 + 2
    cycle, stop, origin = orbit_of(d, H, orbits, valid)
    at = advance(origin, cycle, stop, begin, H, orbits)
    u = tl.load(start + (n * chunks + chunk) * H + d, mask=valid, other=0).to(WIDE)
    end = place_at(advance(origin, cycle, stop, ends, H, orbits), H, orbits, valid)
    if SIGMA == "zeros":
        life = tl.load(kept + n * H + end, mask=valid, other=0)
    last = tl.zeros([BLOCK], tl.int32)
    if zero_start is not None:
        last = tl.load(zero_start + n * H + d, mask=valid, other=0)
    word = tl.zeros([BLOCK], tl.int32)

    GATE: tl.constexpr = gate is not None
    STATES: tl.constexpr = SIGMA == "states"
    CUT: tl.constexpr = 1 + GATE + STATES
    PLACE: tl.constexpr = CUT + (reset is not None)
    FIELDS: tl.constexpr = PLACE + (orbits is not None)
    states = kept if STATES else None
    values, next_at = fetch(
        b, gate, ids, states, reset, n * b_n, n_T, begin, at, cycle, stop, ends, limit, bound, T, H, first, b_t,
        lengths, orbits, BY_STEP, REVERSE, GROUP,
    )  # fmt: skip
    if SIGMA == "bits":
        next_passed = word_at(kept, n, d, begin, begin, bound, T, H)
    for group in range(tl.cdiv(finish - begin, GROUP)):
        s0 = begin + group * GROUP
        following, next_at = fetch(
            b, gate, ids, states, reset, n * b_n, n_T, s0 + GROUP, next_at, cycle, stop, ends, limit, bound, T, H,
            first, b_t, lengths, orbits, BY_STEP, REVERSE, GROUP,
        )  # fmt: skip
        shift = s0 % 32
        if SIGMA == "bits":
            passed = next_passed >> shift
            next_passed = word_at(kept, n, d, s0 + GROUP, begin, bound, T, H)
        half = tl.zeros([BLOCK], tl.int32)
        for i in tl.static_range(GROUP):
            s = s0 + i
            inside = s < limit
            at = tl.where(at + 1 == stop, cycle, at + 1)
            if reset is not None:
                cut = values[i * FIELDS + CUT]
                u = tl.where(cut, 0.0, u)
                last = tl.where(cut, s, last)
            c = values[i * FIELDS].to(WIDE)
            if GATE:
                c = c * tl.sigmoid(values[i * FIELDS + 1].to(WIDE))
            x = u + c
            if SIGMA == "tanh":
                x = tanh(x)
            elif SIGMA == "bits":
                x = tl.where((passed >> i) & 1 != 0, x, 0.0)
            elif SIGMA == "states":
                h = values[i * FIELDS + 1].to(WIDE)
                x = x * (1 - h * h)
            elif SIGMA == "zeros":
                x = tl.where(s < life, 0.0, x)
            else:
                x, passes = clamp(x, SIGMA)
                if bits is not None:
                    half = half | ((passes & inside).to(tl.int32) << i)
                if zero is not None:
                    last = tl.where(passes | (s >= limit), last, s + 1)
            u = tl.where(inside, x, u)
            if output is not None:
                t = tl.where(inside, time_of(s, ends, T, lengths, REVERSE), s)
                place = H - 1 - at if orbits is None else values[i * FIELDS + PLACE]  # after a row's end, every place gets a 0
                tl.store(output + (n_T + t) * H + place, tl.where(inside, u, 0.0), mask=s < bound)
        if bits is not None:
            word = tl.where(shift == 0, half, word | (half << shift))
            tl.store(bits + (n * words + s0 // 32) * H + d, word, mask=s0 < bound)
        values = following

    target = n * H + (end if LAST else d)
    tl.store(h_n + target, u, mask=valid & (chunk == chunks - 1))
    if zero is not None:
        tl.store(zero + (n * (chunks - 1) + chunk) * H + target, last, mask=valid)


@kernel
def summarize(
    b, gate, ids, reset, lengths, orbits, maps,
    N, T, H, first, count, steps, chunks, b_n, b_t,
    SIGMA: tl.constexpr, BY_STEP: tl.constexpr, REVERSE: tl.constexpr, WIDE: tl.constexpr, GROUP: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """What each chunk of `scan` does to the state that enters it: `maps` [3, N, chunks, H] are shift, low and high."""
    chunk = tl.program_id(0) % chunks
    n, d, valid = lanes_of(tl.program_id(0) // chunks, N, H, BLOCK)
    begin, finish, ends, limit, bound = steps_of(chunk, n, valid, lengths, T, first, count, steps)
    n_T = n * T
    cycle, stop, origin = orbit_of(d, H, orbits, valid)
    at = advance(origin, cycle, stop, begin, H, orbits)

    GATE: tl.constexpr = gate is not None
    CUT: tl.constexpr = 1 + GATE
    FIELDS: tl.constexpr = CUT + (reset is not None) + (orbits is not None)
    shift = tl.zeros([BLOCK], WIDE)
    low = tl.full([BLOCK], float("-inf"), WIDE)
    high = tl.full([BLOCK], float("inf"), WIDE)
    fresh = tl.zeros([BLOCK], tl.int32)
    values, at = fetch(
        b, gate, ids, None, reset, n * b_n, n_T, begin, at, cycle, stop, ends, limit, bound, T, H, first, b_t,
        lengths, orbits, BY_STEP, REVERSE, GROUP,
    )  # fmt: skip
    for group in range(tl.cdiv(finish - begin, GROUP)):
        s0 = begin + group * GROUP
        following, at = fetch(
            b, gate, ids, None, reset, n * b_n, n_T, s0 + GROUP, at, cycle, stop, ends, limit, bound, T, H, first, b_t,
            lengths, orbits, BY_STEP, REVERSE, GROUP,
        )  # fmt: skip
        for i in tl.static_range(GROUP):
            inside = s0 + i < limit
            if reset is not None:
                cut = values[i * FIELDS + CUT]
                low = tl.where(cut, 0.0, low)
                high = tl.where(cut, 0.0, high)
                fresh = tl.where(cut, 1, fresh)
            c = values[i * FIELDS].to(WIDE)
            if GATE:
                c = c * tl.sigmoid(values[i * FIELDS + 1].to(WIDE))
            bottom = 0.0 if SIGMA == "relu" else -1.0
            top = float("inf") if SIGMA == "relu" else 1.0
            new_shift, new_low, new_high = combine(shift, low, high, c, bottom, top)
            shift = tl.where(inside, new_shift, shift)
            low = tl.where(inside, new_low, low)
            high = tl.where(inside, new_high, high)
        values = following
    if reset is not None:  # whatever enters, even NaN, the chunk ends at low; no other map has this upper bound
        high = tl.where(fresh != 0, float("-inf"), high)
    at_map = (n * chunks + chunk) * H + d
    size = N.to(tl.int64) * chunks * H
    tl.store(maps + at_map, shift, mask=valid)
    tl.store(maps + size + at_map, low, mask=valid)
    tl.store(maps + 2 * size + at_map, high, mask=valid)


@kernel
def carry(maps, start, carried, N, H, chunks, WIDE: tl.constexpr, GROUP: tl.constexpr, BLOCK: tl.constexpr):
    """Takes the state from chunk to chunk: `carried` [N, chunks, H] is what enters each of them."""
    n, d, valid = lanes_of(tl.program_id(0), N, H, BLOCK)
    size = N.to(tl.int64) * chunks * H
    u = tl.load(start + n * H + d, mask=valid, other=0).to(WIDE)
    ends = tl.where(valid, chunks, 0)
    for c0 in range(0, chunks, GROUP):
        values = ()
        for i in tl.static_range(GROUP):
            inside = c0 + i < ends
            at = (n * chunks + c0 + i) * H + d
            values = values + (tl.load(maps + at, mask=inside, other=0),)
            values = values + (tl.load(maps + size + at, mask=inside, other=float("-inf")),)
            values = values + (tl.load(maps + 2 * size + at, mask=inside, other=float("inf")),)
        for i in tl.static_range(GROUP):
            tl.store(carried + (n * chunks + c0 + i) * H + d, u, mask=c0 + i < ends)
            reached = between(u + values[3 * i], values[3 * i + 1], values[3 * i + 2])
            u = tl.where(values[3 * i + 2] == float("-inf"), values[3 * i + 1], reached)


@triton.jit
def fetch_backward(
    grad, states, f, gate, reset, n_g, n_f, n_T, s0, at, start, stop, ends, limit, bound, T, H, first, begin, g_t, d_t,
    lengths, orbits, REVERSE: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """Loads what the steps s0 + GROUP - 1 down to s0 need: gradient, kept state, f, gate, cut, place, if there."""
    values = ()
    limit = tl.where(s0 >= begin, limit, s0)  # nothing is read before the chunk
    bound = tl.where(s0 >= begin, bound, s0)
    for i in tl.static_range(GROUP):
        s = s0 + (GROUP - 1 - i)
        inside = s < limit
        t = time_of(s, ends, T, lengths, REVERSE)
        place = place_at(at, H, orbits, s < bound)
        if grad is not None:
            values = values + (tl.load(grad + n_g + t.to(tl.int64) * g_t + place, mask=inside, other=0),)
        if states is not None:
            values = values + (tl.load(states + (n_T + t) * H + place, mask=inside, other=0),)
        if gate is not None:
            offset = n_f + (s - first).to(tl.int64) * d_t + place
            values = values + (tl.load(f + offset, mask=inside, other=0), tl.load(gate + offset, mask=inside, other=0))
        if reset is not None:
            values = values + (is_cut(reset, n_T, s, ends, limit, T, lengths, REVERSE),)
        if orbits is not None:
            values = values + (place,)
        at = tl.where(at == start, stop - 1, at - 1)
    return values, at


@kernel
def backward(
    grad, grad_n, kept, gate, reset, lengths, orbits, start, db, dh0,
    N, T, H, first, count, steps, chunks, g_n, g_t, d_n, d_t,
    KEPT: tl.constexpr, BY_STEP: tl.constexpr, REVERSE: tl.constexpr, WIDE: tl.constexpr, GROUP: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """The gradients by b of a window of steps, going back, for each of its chunks; `kept` is "bits", "states" or "zeros".

    `start` holds the gradient from later steps; None means grad_n. From last zeros nothing needs to come: a gradient that
    arrives at the last state passes all steps after its unit's last zero, so all chunks are independent of each other.
    With a gate, db holds f and is overwritten by f's gradient, and gate by its own. dh0 is named by lanes.
    """
    chunk = tl.program_id(0) % chunks
    n, d, valid = lanes_of(tl.program_id(0) // chunks, N, H, BLOCK)
    begin, finish, ends, limit, bound = steps_of(chunk, n, valid, lengths, T, first, count, steps)
    n_T = n * T
    cycle, stop, origin = orbit_of(d, H, orbits, valid)
    end = place_at(advance(origin, cycle, stop, ends, H, orbits), H, orbits, valid)
    if start is None:
        v = tl.load(grad_n + n * H + end, mask=valid, other=0).to(WIDE)
    else:
        v = tl.load(start + (n * chunks + chunk) * H + d, mask=valid, other=0)
    if KEPT == "zeros":
        life = tl.load(kept + n * H + end, mask=valid, other=0)

    GRAD: tl.constexpr = grad is not None
    STATES: tl.constexpr = KEPT == "states"
    GATE: tl.constexpr = gate is not None
    CUT: tl.constexpr = GRAD + STATES + 2 * GATE
    PLACE: tl.constexpr = CUT + (reset is not None)
    FIELDS: tl.constexpr = PLACE + (orbits is not None)
    states = kept if STATES else None
    groups = tl.cdiv(finish - begin, GROUP)
    s0 = begin + (groups - 1) * GROUP
    at = advance(origin, cycle, stop, s0, H, orbits)
    at = advance(at, cycle, stop, s0 * 0 + GROUP, H, orbits)  # a tensor, as `advance` needs
    values, next_at = fetch_backward(
        grad, states, db, gate, reset, n * g_n, n * d_n, n_T, s0, at, cycle, stop, ends, limit, bound, T, H, first, begin, g_t,
        d_t, lengths, orbits, REVERSE, GROUP,
    )  # fmt: skip
    if KEPT == "bits":
        next_passed = word_at(kept, n, d, s0, begin, bound, T, H)
    for _ in range(groups):
        following, next_at = fetch_backward(
            grad, states, db, gate, reset, n * g_n, n * d_n, n_T, s0 - GROUP, next_at, cycle, stop, ends, limit, bound, T, H,
            first, begin, g_t, d_t, lengths, orbits, REVERSE, GROUP,
        )  # fmt: skip
        if KEPT == "bits":
            passed = next_passed >> (s0 % 32)
            next_passed = word_at(kept, n, d, s0 - GROUP, begin, bound, T, H)
        for i in tl.static_range(GROUP):
            s = s0 + (GROUP - 1 - i)
            inside = s < limit
            if GRAD:
                v = tl.where(inside, v + values[i * FIELDS].to(WIDE), v)
            if KEPT == "bits":
                v = tl.where((passed >> (GROUP - 1 - i)) & 1 != 0, v, tl.where(inside, 0.0, v))
                x = v
            elif KEPT == "states":
                h = values[i * FIELDS + GRAD].to(WIDE)
                v = tl.where(inside, v * (1 - h * h), v)
                x = v
            else:
                x = tl.where(s < life, 0.0, v)
            x = tl.where(inside, x, 0.0)
            if BY_STEP:
                t = s - first
            else:
                t = tl.where(inside, time_of(s, ends, T, lengths, REVERSE), s)
            place = H - 1 - at if orbits is None else values[i * FIELDS + PLACE]
            offset = n * d_n + t.to(tl.int64) * d_t + place
            if GATE:
                f = values[i * FIELDS + CUT - 2].to(WIDE)
                a = tl.sigmoid(values[i * FIELDS + CUT - 1].to(WIDE))
                tl.store(gate + offset, x * f * a * (1 - a), mask=s < bound)
                x = x * a
            tl.store(db + offset, x, mask=s < bound)
            if reset is not None:
                if KEPT != "zeros":
                    v = tl.where(values[i * FIELDS + CUT], 0.0, v)
            at = tl.where(at == cycle, stop - 1, at - 1)
        values = following
        s0 -= GROUP
    if KEPT == "zeros":
        v = tl.where(life > 0, 0.0, v)
        if reset is not None:  # a reset at the first step leaves no other trace in a last zero
            v = tl.where(is_cut(reset, n_T, T * 0, ends, ends, T, lengths, REVERSE), 0.0, v)  # step 0, as a tensor
    tl.store(dh0 + n * H + d, v, mask=valid & (chunk == 0))


@kernel
def summarize_backward(
    grad, kept, reset, lengths, orbits, maps,
    N, T, H, first, count, steps, chunks, g_n, g_t,
    REVERSE: tl.constexpr, WIDE: tl.constexpr, GROUP: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """What each chunk of `backward` does to a gradient from later steps: `maps` [2, N, chunks, H] are total and passes."""
    chunk = tl.program_id(0) % chunks
    n, d, valid = lanes_of(tl.program_id(0) // chunks, N, H, BLOCK)
    begin, finish, ends, limit, bound = steps_of(chunk, n, valid, lengths, T, first, count, steps)
    n_T = n * T
    cycle, stop, origin = orbit_of(d, H, orbits, valid)

    GRAD: tl.constexpr = grad is not None
    FIELDS: tl.constexpr = GRAD + (reset is not None) + (orbits is not None)
    total, passes = tl.zeros([BLOCK], WIDE), tl.full([BLOCK], 1.0, WIDE)
    groups = tl.cdiv(finish - begin, GROUP)
    s0 = begin + (groups - 1) * GROUP
    at = advance(origin, cycle, stop, s0, H, orbits)
    at = advance(at, cycle, stop, s0 * 0 + GROUP, H, orbits)  # a tensor, as `advance` needs
    values, at = fetch_backward(
        grad, None, None, None, reset, n * g_n, n_T, n_T, s0, at, cycle, stop, ends, limit, bound, T, H, first, begin, g_t, g_t,
        lengths, orbits, REVERSE, GROUP,
    )  # fmt: skip
    next_passed = word_at(kept, n, d, s0, begin, bound, T, H)
    for _ in range(groups):
        following, at = fetch_backward(
            grad, None, None, None, reset, n * g_n, n_T, n_T, s0 - GROUP, at, cycle, stop, ends, limit, bound, T, H, first,
            begin, g_t, g_t, lengths, orbits, REVERSE, GROUP,
        )  # fmt: skip
        passed = next_passed >> (s0 % 32)
        next_passed = word_at(kept, n, d, s0 - GROUP, begin, bound, T, H)
        for i in tl.static_range(GROUP):
            inside = s0 + (GROUP - 1 - i) < limit
            open = (passed >> (GROUP - 1 - i)) & 1
            if GRAD:
                total += tl.where(inside, values[i * FIELDS].to(WIDE), 0.0)
            if reset is not None:
                open = tl.where(values[i * FIELDS + GRAD], 0, open)
            new_total, new_passes = combine_backward(total, passes, 0.0, open)
            total = tl.where(inside, new_total, total)
            passes = tl.where(inside, new_passes, passes)
        values = following
        s0 -= GROUP
    at_map = (n * chunks + chunk) * H + d
    tl.store(maps + at_map, total, mask=valid)
    tl.store(maps + N.to(tl.int64) * chunks * H + at_map, passes, mask=valid)


@kernel
def carry_backward(
    maps, grad_n, lengths, orbits, start, carried, N, T, H, chunks, WIDE: tl.constexpr, GROUP: tl.constexpr, BLOCK: tl.constexpr
):
    """Takes the gradient from the last chunk to the first: `carried` [N, chunks, H] is what enters each of them."""
    n, d, valid = lanes_of(tl.program_id(0), N, H, BLOCK)
    size = N.to(tl.int64) * chunks * H
    if start is None:
        ends = ends_of(n, valid, lengths, T)
        cycle, stop, origin = orbit_of(d, H, orbits, valid)
        end = place_at(advance(origin, cycle, stop, ends, H, orbits), H, orbits, valid)
        v = tl.load(grad_n + n * H + end, mask=valid, other=0).to(WIDE)
    else:
        v = tl.load(start + n * H + d, mask=valid, other=0)
    groups = tl.cdiv(chunks, GROUP)
    lowest = tl.where(valid, 0, chunks)
    c0 = (groups - 1) * GROUP
    for _ in range(groups):
        values = ()
        for i in tl.static_range(GROUP):
            c = c0 + (GROUP - 1 - i)
            inside = valid & (lowest + c < chunks)
            at = (n * chunks + c) * H + d
            values = values + (tl.load(maps + at, mask=inside, other=0), tl.load(maps + size + at, mask=inside, other=1))
        for i in tl.static_range(GROUP):
            c = c0 + (GROUP - 1 - i)
            tl.store(carried + (n * chunks + c) * H + d, v, mask=valid & (lowest + c < chunks))
            v, _p = combine_backward(v, 1.0, values[2 * i], values[2 * i + 1])
        c0 -= GROUP


@kernel
def table_pieces(
    tokens, begins, finishes, d, grad_n, zero, lengths, orbits, sums,
    N, T, H, pieces, REVERSE: tl.constexpr, WIDE: tl.constexpr, GROUP: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Sums the gradients of some tokens of one symbol, in order: `sums` [pieces, H].

    Piece p takes the entries begins[p] to finishes[p] of `tokens`, which are numbered n T + t. Their gradients are d [N, T, H],
    or if d is None made of grad_n and the last zeros, so that nothing of size N T H is ever stored.
    """
    blocks = tl.cdiv(H, BLOCK)
    piece = (tl.program_id(0) // blocks).to(tl.int64)
    i = (tl.program_id(0) % blocks) * BLOCK + tl.arange(0, BLOCK)
    valid = i < H
    begin, finish = tl.load(begins + piece), tl.load(finishes + piece)
    cycle, stop, origin = orbit_of(i, H, orbits, valid)
    total = tl.zeros([BLOCK], WIDE)
    for j0 in range(begin, finish, GROUP):
        values = ()
        for k in tl.static_range(GROUP):
            inside = valid & (j0 + k < tl.where(valid, finish, begin))
            token = tl.load(tokens + tl.minimum(j0 + k, finish - 1))
            if d is not None:
                values = values + (tl.load(d + token * H + i, mask=inside, other=0).to(WIDE),)
            else:
                n = token // T
                t = (token - n * T).to(tl.int32)
                end = T if lengths is None else tl.load(lengths + n)
                step = end - t if REVERSE else t + 1
                place = n * H + place_at(advance(origin, cycle, stop, end - step, H, orbits), H, orbits, valid)
                life = tl.load(zero + place, mask=inside, other=0)
                x = tl.load(grad_n + place, mask=inside, other=0).to(WIDE)
                values = values + (tl.where(step > life, x, 0.0),)
        for k in tl.static_range(GROUP):
            total += values[k]
    tl.store(sums + piece * H + i, total, mask=valid)


@kernel
def table_sum(sums, offsets, table, H, WIDE: tl.constexpr, BLOCK: tl.constexpr):
    """Adds the pieces offsets[v] to offsets[v + 1] of every symbol v, in order: `table` [V, H]."""
    blocks = tl.cdiv(H, BLOCK)
    symbol = (tl.program_id(0) // blocks).to(tl.int64)
    i = (tl.program_id(0) % blocks) * BLOCK + tl.arange(0, BLOCK)
    valid = i < H
    total = tl.zeros([BLOCK], WIDE)
    for piece in range(tl.load(offsets + symbol), tl.load(offsets + symbol + 1)):
        total += tl.load(sums + piece * H + i, mask=valid, other=0)
    tl.store(table + symbol * H + i, total, mask=valid)
