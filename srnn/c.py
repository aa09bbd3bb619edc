"""C: a layer, with an alphabet before it and a read-out after it, as one header in C99 without dependencies and without heap.

    text = srnn.c.header(rnn, readout=nn.Linear(128, 10), name="tagger")

The header has the weights as static arrays and three names to use: `tagger_state`, `tagger_init` and `tagger_step`. An `nn.GRU`
can be written in the same style, to compare with.

The pieces of C below are templates with placeholders such as $name. `_Writer` fills them.
"""

import copy
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from srnn import __version__
from srnn.errors import ExportError, SettingError
from srnn.kernels import ACTIVATIONS
from srnn.kernels.activations import Activation
from srnn.layer import SRNN, InputNetwork
from srnn.stack import DELAYS, SRNNStack

FILE = """\
/* $title, written by srnn $version.
 *
 *     flash   $flash bytes: weights, $kind
 *     RAM     $ram bytes of $name_state, and $stack bytes of stack in $name_step
 *
 *     $name_state s;
 *     $name_init(&s);           at the start of a sequence
 *     $name_step(&s, $x, y);       one step: $inputs in, $outputs numbers out. With y = 0 there is no output
 *
 * C99, needs no library but that of C. The state is yours, so several sequences can be run in turns.
 */
#ifndef $guard
#define $guard

#include <math.h>
#include <stdint.h>

#define $upper_INPUTS $inputs_number
#define $upper_OUTPUTS $outputs

typedef struct {
    float h[$layers][$units]; $state
    int at[$layers];
} $name_state;

$arrays
$functions
static inline void $name_init($name_state *s)
{
    int l, i;
    for (l = 0; l < $layers; l++) {
        s->at[l] = 0;
        for (i = 0; i < $units; i++) s->h[l][i] = 0.0f;
    }
}

static inline void $name_step($name_state *s, $argument, float *y)
{
$buffers
$steps
}

#endif
"""

STATE = "/* of layer l, unit i is at place (at[l] + i) modulo the number of units that shift"
DELAYED = ". Inputs of the last steps follow the units"
LINEAR = """\
/* y = W x + c. W is stored by columns, so that the sums of all y[i] grow side by side. */
static inline void $name_linear(const float *restrict w, const float *restrict c, int n, int m, const float *restrict x,
                                float *restrict y)
{
    const int fours = n - n % 4;
    int i, k;
    for (i = 0; i < m; i++) y[i] = c[i];
    for (k = 0; k < fours; k += 4, w += 4 * m)
        for (i = 0; i < m; i++)
            y[i] += w[i] * x[k] + w[m + i] * x[k + 1] + w[2 * m + i] * x[k + 2] + w[3 * m + i] * x[k + 3];
    for (k = fours; k < n; k++, w += m)
        for (i = 0; i < m; i++) y[i] += w[i] * x[k];
}
"""

LINEAR_INT8 = """\
/* y = W x + c. Row i of W is scale[i] times integers. W is stored by columns, so that all y[i] grow side by side. */
static inline void $name_linear(const signed char *restrict w, const float *restrict scale, const float *restrict c, int n,
                                int m, const float *restrict x, float *restrict y)
{
    const int fours = n - n % 4;
    int i, k;
    for (i = 0; i < m; i++) y[i] = 0.0f;
    for (k = 0; k < fours; k += 4, w += 4 * m)
        for (i = 0; i < m; i++)
            y[i] += (float)w[i] * x[k] + (float)w[m + i] * x[k + 1] + (float)w[2 * m + i] * x[k + 2] +
                    (float)w[3 * m + i] * x[k + 3];
    for (k = fours; k < n; k++, w += m)
        for (i = 0; i < m; i++) y[i] += (float)w[i] * x[k];
    for (i = 0; i < m; i++) y[i] = scale[i] * y[i] + c[i];
}
"""

# What a model may need besides linear maps; only what it does need is written.
FUNCTIONS = {
    "relu": """\
static inline void $name_relu(int n, float *x)
{
    int i;
    for (i = 0; i < n; i++) x[i] = x[i] < 0.0f ? 0.0f : x[i];
}
""",
    "gate": """\
/* x <- x * sigmoid(g) */
static inline void $name_gate(int n, const float *restrict g, float *restrict x)
{
    int i;
    for (i = 0; i < n; i++) x[i] /= 1.0f + $name_exp(-g[i]);
}
""",
    "norm": """\
/* y = w * (x - mean) / sqrt(variance + eps) + c */
static inline void $name_norm(const float *w, const float *c, float eps, int n, const float *x, float *y)
{
    float mean = 0.0f, square = 0.0f, factor;
    int i;
    for (i = 0; i < n; i++) mean += x[i];
    mean /= (float)n;
    for (i = 0; i < n; i++) square += (x[i] - mean) * (x[i] - mean);
    factor = 1.0f / sqrtf(square / (float)n + eps);
    for (i = 0; i < n; i++) y[i] = w[i] * ((x[i] - mean) * factor) + c[i];
}
""",
    "add": """\
static inline void $name_add(int n, const float *restrict a, float *restrict x)
{
    int i;
    for (i = 0; i < n; i++) x[i] += a[i];
}
""",
    "shift": """\
/* h <- sigma(P h + b) for n units that shift. No unit moves: unit i + 1 becomes unit i, since `at` grows by one. */
static inline int $name_shift(int n, int at, const float *restrict b, float *restrict h, float *restrict out)
{
    int i;
    at = at + 1 < n ? at + 1 : 0;
    for (i = 0; i < n - at; i++) out[i] = h[at + i] = $name_sigma(h[at + i] + b[i]);
    for (i = n - at; i < n; i++) out[i] = h[at + i - n] = $name_sigma(h[at + i - n] + b[i]);
    return at;
}
""",
    "keep": """\
/* h <- sigma(h + b) for n units that keep their place. */
static inline void $name_keep(int n, const float *restrict b, float *restrict h, float *restrict out)
{
    int i;
    for (i = 0; i < n; i++) out[i] = h[i] = $name_sigma(h[i] + b[i]);
}
""",
    "delay": """\
/* y <- h, m numbers. Then the first k of x are put in front of h, whose last k are dropped. */
static inline void $name_delay(int k, int m, const float *x, float *h, float *y)
{
    int i;
    for (i = 0; i < m; i++) y[i] = h[i];
    for (i = 0; i < k; i++) h[i] = x[i];
    for (i = k; i < m; i++) h[i] = y[i - k];
}
""",
    "permute": """\
/* h <- sigma(P h + b) for any permutation: out[i] comes from h[source[i]]. */
static inline void $name_permute(int n, const unsigned short *source, const float *b, float *h, float *out)
{
    int i;
    for (i = 0; i < n; i++) out[i] = $name_sigma(h[source[i]] + b[i]);
    for (i = 0; i < n; i++) h[i] = out[i];
}
""",
    "gru": """\
/* h <- (1 - z) * candidate + z * h, with r, z, candidate of W x (a) and W h (b), in the order of torch. */
static inline void $name_gru(int n, const float *restrict a, const float *restrict b, float *restrict h, float *restrict out)
{
    int i;
    for (i = 0; i < n; i++) {
        float r = 1.0f / (1.0f + $name_exp(-(a[i] + b[i])));
        float z = 1.0f / (1.0f + $name_exp(-(a[n + i] + b[n + i])));
        float candidate = 1.0f - 2.0f / (1.0f + $name_exp(2.0f * (a[2 * n + i] + r * b[2 * n + i])));
        out[i] = h[i] = (1.0f - z) * candidate + z * h[i];
    }
}
""",
}
# Of our own, because compilers cannot vectorise a loop that calls expf.
EXP = """\
/* exp(x) = 2^k exp(r) with |r| <= log(2) / 2, for x from -87 to 87. The bounds are set in integers, which never trap. */
static inline float $name_exp(float x)
{
    union {
        float number;
        int32_t bits;
    } bound, power;
    int32_t size, k;
    float r, p;
    bound.number = x;
    size = bound.bits & INT32_MAX;
    size = size < 0x42ae0000 ? size : 0x42ae0000; /* the bits of 87 */
    bound.bits = (bound.bits & ~INT32_MAX) | size;
    k = (int32_t)(bound.number * 1.44269504f + 127.5f) - 127;
    r = bound.number - (float)k * 0.693359375f + (float)k * 2.12194440e-4f;
    p = 1.0f / 720.0f;
    p = p * r + 1.0f / 120.0f;
    p = p * r + 1.0f / 24.0f;
    p = p * r + 1.0f / 6.0f;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    power.bits = (k + 127) << 23;
    return p * power.number;
}
"""
SIGMA = """\
static inline float $name_sigma(float u)
{
    return $expression;
}
"""


def header(
    rnn: SRNN | SRNNStack | nn.GRU,
    *,
    readout: nn.Module | None = None,
    alphabet: Tensor | None = None,
    name: str = "model",
    int8: bool = False,
) -> str:
    """Returns a layer as the text of a C header.

    Args:
        rnn: The layer, in one direction. An nn.GRU is for comparison.
        readout: Maps the layer's output to the output of a step: an nn.Linear, nn.ReLU, nn.LayerNorm, nn.Dropout (which does
            nothing here) or an nn.Sequential of these. None gives the layer's output.
        alphabet: [V, C]. A step then takes a symbol, an int from 0 to V - 1, instead of C numbers.
        name: The prefix of all names in C.
        int8: Whether the weights of the linear maps are stored as 8-bit integers, with one factor per row. Sums are float.

    Raises:
        ExportError: If a part cannot be written in C.
        SettingError: If the name is not one in C.
    """
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name):
        raise SettingError(f"name must be one in C, such as my_model, got {name!r}")
    if getattr(rnn, "bidirectional", False):
        raise ExportError("C code runs step by step, and a bidirectional layer needs whole sequences. Export it to ONNX")
    return _Writer(name, int8).write(rnn, readout, alphabet)


def with_int8_weights(module: nn.Module) -> Any:
    """Returns a copy whose linear maps have the values that `header` with int8 stores, to measure what they cost."""
    changed = copy.deepcopy(module)
    with torch.no_grad():
        for part in changed.modules():
            if isinstance(part, nn.Linear):
                integers, scale = quantised(part.weight)
                part.weight.copy_(integers * scale[:, None])
    return changed


def quantised(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Returns integers from -127 to 127 [m, n] and a factor for each row [m] whose products are nearest to the weight."""
    scale = weight.detach().abs().amax(dim=1) / 127
    scale = torch.where(scale > 0, scale, 1)
    return (weight.detach() / scale[:, None]).round(), scale


class _Writer:
    """Collects arrays, functions, buffers and the calls of a step."""

    def __init__(self, name: str, int8: bool) -> None:
        self.name, self.int8 = name, int8
        self.arrays: list[str] = []
        self.flash = 0
        self.used: set[str] = set()
        self.buffers: dict[str, int] = {}
        self.steps: list[str] = []
        self.sigma = "relu"

    def write(self, rnn: Any, readout: nn.Module | None, alphabet: Tensor | None) -> str:
        """Returns the text of the header."""
        x = "x"
        if alphabet is not None:
            x = f"{self.array('symbols', alphabet.detach().flatten())} + {alphabet.shape[1]} * x"
        kind = type(rnn).__name__
        parts: dict[type, Callable[..., tuple[str, int]]] = {SRNN: self.srnn, SRNNStack: self.stack, nn.GRU: self.gru}
        if type(rnn) not in parts:
            raise ExportError(f"C code can be written for SRNN, SRNNStack and nn.GRU, got {kind}")
        out, outputs = parts[type(rnn)](rnn, x)
        self.steps.append("if (!y) return;")
        out, outputs = self.readout(readout, out, outputs)
        self.steps.append(f"for (int i = 0; i < {outputs}; i++) y[i] = {out}[i];")
        return self.text(rnn, readout, alphabet, outputs)

    def text(self, rnn: Any, readout: nn.Module | None, alphabet: Tensor | None, outputs: int) -> str:
        """Fills the template of the file."""
        layers, units = rnn.num_layers, rnn.hidden_size
        functions = [LINEAR_INT8 if self.int8 else LINEAR]
        has_sigma = bool({"shift", "keep", "permute"} & self.used)
        expression = _sigma(ACTIVATIONS[self.sigma])
        if {"gate", "gru"} & self.used or (has_sigma and "$name_exp" in expression):
            functions.append(EXP)
        if has_sigma:
            functions.append(SIGMA)
        functions += [text for key, text in FUNCTIONS.items() if key in self.used]
        title = f"{type(rnn).__name__} of {rnn.input_size} inputs, {units} units, {layers} layer{'s' * (layers > 1)}"
        title += "" if readout is None else f", and a read-out of {outputs}"
        return _filled(
            FILE,
            arrays="\n".join(self.arrays),
            functions="\n".join(functions),
            buffers="\n".join(f"    float {name}[{size}];" for name, size in self.buffers.items()),
            steps="\n".join(f"    {step}" for step in self.steps),
            title=title,
            version=__version__,
            flash=f"{self.flash:,}",
            kind="int8 with float32 factors" if self.int8 else "float32",
            state=STATE + (DELAYED if "delay" in self.used else "") + " */",
            ram=f"{layers * (4 * units + 4):,}",
            stack=f"{4 * sum(self.buffers.values()):,}",
            guard=f"{self.name.upper()}_H",
            upper=self.name.upper(),
            x="symbol" if alphabet is not None else "x",
            inputs=f"one of {len(alphabet)} symbols" if alphabet is not None else f"{rnn.input_size} numbers",
            inputs_number=str(1 if alphabet is not None else rnn.input_size),
            outputs=str(outputs),
            layers=str(layers),
            units=str(units),
            argument="int x" if alphabet is not None else "const float *x",
            expression=expression,
            name=self.name,
        )

    def call(self, function: str, *arguments: object, result: str = "") -> None:
        """Adds a call to the step."""
        self.used.add(function)
        self.steps.append(f"{result}{self.name}_{function}({', '.join(map(str, arguments))});")

    def buffer(self, name: str, size: int) -> str:
        """Returns a local array that is large enough for all its uses."""
        self.buffers[name] = max(size, self.buffers.get(name, 0))
        return name

    def array(self, what: str, values: Tensor, kind: str = "float") -> str:
        """Adds a static array and returns its name."""
        if not bool(values.isfinite().all()):
            raise ExportError(f"weights must be finite numbers to be written in C, and {what} has others")
        name, size = f"{self.name}_{what}_{len(self.arrays)}", {"float": 4, "signed char": 1, "unsigned short": 2}[kind]
        texts = [_number(value) for value in values.float().tolist()] if kind == "float" else map(str, values.int().tolist())
        self.arrays.append(f"static const {kind} {name}[{values.numel()}] = {{\n{_lines(list(texts))}}};")
        self.flash += size * values.numel()
        return name

    def linear(self, weight: Tensor, bias: Tensor | None, x: str, y: str) -> int:
        """Adds y = W x + c, and returns the size of y."""
        m, n = weight.shape
        offset = torch.zeros(m) if bias is None else bias.detach()
        if self.int8:
            integers, scale = quantised(weight)
            maps = [self.array("w", integers.T.flatten(), "signed char"), self.array("scale", scale)]
        else:
            maps = [self.array("w", weight.detach().T.flatten())]
        self.call("linear", *maps, self.array("c", offset), n, m, x, self.buffer(y, m))
        return m

    def norm(self, norm: nn.LayerNorm, x: str, y: str) -> None:
        """Adds y, the norm of x."""
        n = norm.normalized_shape[0]
        if len(norm.normalized_shape) != 1:
            raise ExportError(f"a LayerNorm in C has one axis, got {norm.normalized_shape}")
        w, c = (_or(part, like, n) for part, like in ((norm.weight, torch.ones), (norm.bias, torch.zeros)))
        self.call("norm", self.array("norm", w), self.array("c", c), _number(norm.eps), n, x, self.buffer(y, n))

    def srnn(self, rnn: SRNN, x: str) -> tuple[str, int]:
        """Adds the layers of an SRNN."""
        H = rnn.hidden_size
        for layer, b in enumerate(rnn.b):
            self.recurrence(layer, rnn, b, x, f"h{layer % 2}")
            x = f"h{layer % 2}"
        return x, H

    def recurrence(self, layer: int, rnn: SRNN, b: InputNetwork, x: str, out: str) -> None:
        """Adds h = sigma(P h + b(x)) of one layer, which is left in its state and in `out`."""
        z, H = x, rnn.hidden_size
        for k, part in enumerate(part for part in b.mlp if isinstance(part, nn.Linear)):
            n = self.linear(part.weight, part.bias, z, f"z{k % 2}")
            z = f"z{k % 2}"
            self.call("relu", n, z)
        self.linear(b.linear.weight, b.linear.bias, z, "b")
        if b.gate is not None:
            self.linear(b.gate.weight, b.gate.bias, x, "g")
            self.call("gate", H, "g", "b")
        self.sigma, self.buffers[out] = rnn.activation, max(H, self.buffers.get(out, 0))
        for first, last, shifts in _ranges(rnn.permutation, H):
            if shifts is None:
                source = self.array("source", rnn.permutation, "unsigned short")  # type: ignore[arg-type]
                self.call("permute", H, source, "b", f"s->h[{layer}]", out)
            else:
                places = [_plus(name, first) for name in ("b", f"s->h[{layer}]", out)]
                if shifts:
                    self.call("shift", last - first, f"s->at[{layer}]", *places, result=f"s->at[{layer}] = ")
                else:
                    self.call("keep", last - first, *places)

    def stack(self, rnn: SRNNStack, x: str) -> tuple[str, int]:
        """Adds the maps and blocks of an SRNNStack."""
        W, H = rnn.width, rnn.hidden_size
        self.linear(rnn.encode.weight, rnn.encode.bias, x, "path")
        for layer, block in enumerate(rnn.blocks):
            self.norm(block.norm, "path", self.buffer("near", W + DELAYS * block.delayed))
            if block.delayed:
                held = _plus(f"s->h[{layer}]", block.rnn.hidden_size)
                self.call("delay", block.delayed, DELAYS * block.delayed, "near", held, f"near + {W}")
            self.recurrence(layer, block.rnn, block.rnn.b[0], "near", "h0")
            self.norm(block.state_norm, "h0", "read")
            self.linear(block.linear.weight, block.linear.bias, "read", "mix")
            self.linear(block.direct.weight, None, "near", "direct")
            self.call("add", 2 * W, "direct", "mix")
            self.call("gate", W, f"mix + {W}", "mix")
            self.call("add", W, "mix", "path")
        self.norm(rnn.norm, "path", "near")
        self.linear(rnn.decode.weight, rnn.decode.bias, "near", "h0")
        return "h0", H

    def gru(self, rnn: nn.GRU, x: str) -> tuple[str, int]:
        """Adds the layers of an nn.GRU."""
        for layer, weights in enumerate(rnn.all_weights):
            w_x, w_h, c_x, c_h = cast("list[Any]", weights if rnn.bias else [*weights, None, None])
            self.linear(w_x, c_x, x, "a")
            self.linear(w_h, c_h, f"s->h[{layer}]", "b")
            x = self.buffer(f"h{layer % 2}", rnn.hidden_size)
            self.call("gru", rnn.hidden_size, "a", "b", f"s->h[{layer}]", x)
        return x, rnn.hidden_size

    def readout(self, readout: nn.Module | None, x: str, n: int) -> tuple[str, int]:
        """Adds a read-out of x, and returns its result."""
        for part in _parts(readout):
            y = "y1" if x == "y0" else "y0"
            if isinstance(part, nn.Linear):
                n, x = self.linear(part.weight, part.bias, x, y), y
            elif isinstance(part, nn.LayerNorm):
                self.norm(part, x, y)
                x = y
            elif isinstance(part, nn.ReLU):
                self.call("relu", n, x)
            elif not isinstance(part, (nn.Dropout, nn.Identity)):
                known = "Linear, ReLU, LayerNorm and Dropout"
                raise ExportError(f"a read-out in C may have {known}, got {type(part).__name__}")
        return x, n


def _parts(readout: nn.Module | None) -> Iterator[nn.Module]:
    if isinstance(readout, nn.Sequential):
        for part in readout:
            yield from _parts(part)
    elif readout is not None:
        yield readout


def _or(parameter: Tensor | None, like: Callable[[int], Tensor], n: int) -> Tensor:
    return like(n) if parameter is None else parameter.detach()


def _ranges(permutation: Tensor | None, H: int) -> list[tuple[int, int, bool | None]]:
    """Units from first to last, and whether they shift by one (True), keep their place (False) or neither (None)."""
    source = [*range(1, H), 0] if permutation is None else permutation.tolist()
    kept = next((i for i, j in enumerate(source) if i != j), H)
    rest = [*range(kept + 1, H), kept] if kept < H else []
    if source[kept:] != rest:
        return [(0, H, None)]
    return [each for each in ((0, kept, False), (kept, H, True)) if each[0] < each[1]]


def _sigma(activation: Activation) -> str:
    """sigma(u): the clamp to the bounds of an activation that has any. NaN passes, as in torch."""
    if activation.bounds is None:
        return activation.smooth_in_c
    low, high = activation.bounds
    expression = "u" if high == torch.inf else f"u > {_number(high)} ? {_number(high)} : u"
    return expression if low == -torch.inf else f"u < {_number(low)} ? {_number(low)} : {expression}"


def _plus(name: str, offset: int) -> str:
    return f"{name} + {offset}" if offset else name


def _number(value: float) -> str:
    text = f"{value:.9g}"
    return f"{text}f" if re.search(r"[.e]", text) else f"{text}.0f"


def _lines(texts: Sequence[str]) -> str:
    return "".join(f"    {', '.join(texts[k : k + 10])},\n" for k in range(0, len(texts), 10))


def _filled(text: str, **values: str) -> str:
    """Replaces the placeholders of a template, also those in the values. $name_state is $name and "_state"."""
    pattern = re.compile(r"\$(" + "|".join(sorted(values, key=len, reverse=True)) + ")")
    while "$" in text:
        text = pattern.sub(lambda found: values[found[1]], text)
    return text
