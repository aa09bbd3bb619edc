"""The recurrences as ONNX functions, each with one `Scan` over the time axis, written in onnxscript.

    h_t = clamp(h_{t-1}[index] + b_t, low, high)      ReLU is the clamp to [0, inf], clip the one to [-1, 1]
    h_t = tanh(h_{t-1}[index] + b_t)

    b [N, T, H]    h0 [N, H]    index [H]    low, high []    cut, valid [N, T, 1]

`cut` is true where a step starts from zeros. `valid` is false where a row has ended: its state stays as it is. `order` holds a
1 for each input of the Scan and `order_out` one for its output if time runs backward, otherwise zeros. The results are all
states [N, T, H] and the last ones [N, H], of `clamp_scan_final` the last ones only. States after the end of a row have no
meaning.

onnxscript reads the sources of these functions, so they cannot share code.
"""

from collections.abc import Sequence
from typing import TypeVar, Union

from onnxscript import BOOL, DOUBLE, FLOAT, INT64, graph, opset18, script
from onnxscript.values import Opset

op = opset18
DOMAIN = Opset("srnn", 1)
Real = TypeVar("Real", bound=Union[FLOAT[...], DOUBLE[...]])  # noqa: UP007  onnxscript does not read X | Y
Index = INT64[...]
Mask = BOOL[...]
Order = Sequence[int]


@script(DOMAIN, default_opset=op)
def clamp_scan(b: Real, h0: Real, index: Index, low: Real, high: Real, order: Order, order_out: Order) -> tuple[Real, Real]:
    """All states with ReLU or clip."""

    @graph()
    def step(h: Real, b_t: Real) -> tuple[Real, Real]:
        new = op.Clip(op.Gather(h, index, axis=1) + b_t, low, high)
        return new, op.Identity(new)

    h_n, states = op.Scan(
        h0,
        b,
        body=step,
        num_scan_inputs=1,
        scan_input_axes=[1],
        scan_output_axes=[1],
        scan_input_directions=order,
        scan_output_directions=order_out,
    )
    return states, h_n


@script(DOMAIN, default_opset=op)
def clamp_scan_final(b: Real, h0: Real, index: Index, low: Real, high: Real, order: Order) -> Real:
    """The last states with ReLU or clip."""

    @graph()
    def step(h: Real, b_t: Real) -> Real:
        return op.Clip(op.Gather(h, index, axis=1) + b_t, low, high)

    return op.Scan(h0, b, body=step, num_scan_inputs=1, scan_input_axes=[1], scan_input_directions=order)


@script(DOMAIN, default_opset=op)
def masked_clamp_scan(
    b: Real, h0: Real, index: Index, low: Real, high: Real, cut: Mask, valid: Mask, order: Order, order_out: Order
) -> tuple[Real, Real]:
    """All states with ReLU or clip, for rows that end or start again."""

    @graph()
    def step(h: Real, b_t: Real, cut_t: Mask, valid_t: Mask) -> tuple[Real, Real]:
        before = op.Where(cut_t, op.CastLike(0.0, h), h)
        new = op.Where(valid_t, op.Clip(op.Gather(before, index, axis=1) + b_t, low, high), h)
        return new, op.Identity(new)

    h_n, states = op.Scan(
        h0,
        b,
        cut,
        valid,
        body=step,
        num_scan_inputs=3,
        scan_input_axes=[1, 1, 1],
        scan_output_axes=[1],
        scan_input_directions=order,
        scan_output_directions=order_out,
    )
    return states, h_n


@script(DOMAIN, default_opset=op)
def tanh_scan(b: Real, h0: Real, index: Index, order: Order, order_out: Order) -> tuple[Real, Real]:
    """All states with tanh."""

    @graph()
    def step(h: Real, b_t: Real) -> tuple[Real, Real]:
        new = op.Tanh(op.Gather(h, index, axis=1) + b_t)
        return new, op.Identity(new)

    h_n, states = op.Scan(
        h0,
        b,
        body=step,
        num_scan_inputs=1,
        scan_input_axes=[1],
        scan_output_axes=[1],
        scan_input_directions=order,
        scan_output_directions=order_out,
    )
    return states, h_n


@script(DOMAIN, default_opset=op)
def masked_tanh_scan(
    b: Real, h0: Real, index: Index, cut: Mask, valid: Mask, order: Order, order_out: Order
) -> tuple[Real, Real]:
    """All states with tanh, for rows that end or start again."""

    @graph()
    def step(h: Real, b_t: Real, cut_t: Mask, valid_t: Mask) -> tuple[Real, Real]:
        before = op.Where(cut_t, op.CastLike(0.0, h), h)
        new = op.Where(valid_t, op.Tanh(op.Gather(before, index, axis=1) + b_t), h)
        return new, op.Identity(new)

    h_n, states = op.Scan(
        h0,
        b,
        cut,
        valid,
        body=step,
        num_scan_inputs=3,
        scan_input_axes=[1, 1, 1],
        scan_output_axes=[1],
        scan_input_directions=order,
        scan_output_directions=order_out,
    )
    return states, h_n
