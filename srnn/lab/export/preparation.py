"""What a program needs to prepare the inputs of a fitted model and to read its outputs: as metadata, and as functions in C.

NAME_prepare    numbers as they are in the table -> inputs of the model, scaled, 0 for a missing value
NAME_symbol     a text -> the number of a symbol, for a model of one column of text
NAME_class      outputs -> the name of the class with the largest
NAME_value      outputs -> a number in the unit of the target
"""

import json
import re
from typing import Any

from srnn.lab.data.preparation import FORECAST, Preparation
from srnn.lab.tasks.fitted import Fitted
from srnn.lab.training.run import Run


def about(run: Run) -> dict[str, str]:
    """Returns metadata for a file: how the data of a fitted model are prepared. Nothing for other models."""
    if not isinstance(run.task, Fitted):
        return {}
    prepared = run.task.prepared
    inputs = [{"column": each.column, "names": each.names, "mean": each.mean, "scale": each.scale} for each in prepared.inputs]
    how: dict[str, Any] = {"kind": prepared.kind, "target": prepared.target, "classes": prepared.classes, "mean": prepared.mean}
    how |= {"scale": prepared.scale, "inputs": inputs, "is_symbols": prepared.is_symbols}
    if prepared.is_symbols:
        how["symbols"] = ["", *(prepared.inputs[0].categories or ())]  # by number, the first for all other texts
    return {"preparation": json.dumps(how)}


def in_c(run: Run, name: str) -> str:
    """Returns functions that prepare inputs and read outputs, and a comment about them. Nothing for other models."""
    if not isinstance(run.task, Fitted):
        return ""
    prepared = run.task.prepared
    parts = [_comment(prepared, name), _symbols(prepared) if prepared.is_symbols else _numbers(prepared)]
    parts.append(_classes(prepared.classes) if prepared.classes is not None else _values(prepared))
    return "\n".join(parts).replace("$upper", name.upper()).replace("$name", name)


def _comment(prepared: Preparation, name: str) -> str:
    lines = [f"Fitted to {prepared.kind} the column {_plain(prepared.target)}.", "", "Inputs:"]
    if prepared.is_symbols:
        lines.append(f"    $name_symbol(text) is the symbol of a text of the column {_plain(prepared.inputs[0].column)}")
    else:
        lines += [f"    raw[{k}]   {_plain(each)}" for k, each in enumerate(prepared.input_names)]
        lines.append("    $name_prepare(raw, x) scales them. Give NAN for a missing number, and 1 or 0 for a yes or no")
    lines += ["", "Outputs:"]
    if prepared.classes is not None:
        lines.append("    $name_class(y) is the name of the class")
    elif prepared.kind == FORECAST:
        lines.append(f"    $name_value(y, k, last) is {_plain(prepared.target)} in k + 1 steps, given its last known value")
    else:
        lines.append(f"    $name_value(y) is {_plain(prepared.target)}")
    return "\n/* " + "\n".join(f" * {line}".rstrip() for line in lines)[3:] + "\n */"


def _plain(text: str) -> str:
    """Returns a text that can be in a comment in C, whatever a table calls its columns."""
    return re.sub(r"[^A-Za-z0-9 _.,:=+-]", "_", text)


def _string(text: str) -> str:
    """Returns a text as a constant in C."""
    return '"' + re.sub(rb"[^A-Za-z0-9 _.-]", lambda match: b"\\%03o" % match[0][0], text.encode()).decode() + '"'


def _symbols(prepared: Preparation) -> str:
    known = ", ".join(map(_string, prepared.inputs[0].categories or ()))
    return f"""\
#include <string.h>

/* 0 for a text that was not in the training data. */
static inline int $name_symbol(const char *text)
{{
    static const char *const known[] = {{{known}}};
    int i;
    for (i = 0; i < {len(prepared.inputs[0].categories or ())}; i++)
        if (strcmp(text, known[i]) == 0) return i + 1;
    return 0;
}}
"""


def _numbers(prepared: Preparation) -> str:
    means, scales = [], []
    for each in prepared.inputs:
        is_first = [each.categories is None] + [False] * (len(each.names) - 1)
        means += [each.mean if first else 0.0 for first in is_first]
        scales += [each.scale if first else 1.0 for first in is_first]
    return f"""\
static inline void $name_prepare(const double *raw, float *x)
{{
    static const double mean[] = {{{", ".join(map(repr, means))}}};
    static const double scale[] = {{{", ".join(map(repr, scales))}}};
    int i;
    for (i = 0; i < $upper_INPUTS; i++) x[i] = raw[i] == raw[i] ? (float)((raw[i] - mean[i]) / scale[i]) : 0.0f;
}}
"""


def _classes(names: list[str]) -> str:
    return f"""\
static inline const char *$name_class(const float *y)
{{
    static const char *const names[] = {{{", ".join(map(_string, names))}}};
    int i, best = 0;
    for (i = 1; i < $upper_OUTPUTS; i++)
        if (y[i] > y[best]) best = i;
    return names[best];
}}
"""


def _values(prepared: Preparation) -> str:
    if prepared.kind != FORECAST:
        return f"""\
static inline double $name_value(const float *y)
{{
    return y[0] * {prepared.scale[0]!r} + {prepared.mean[0]!r};
}}
"""
    return f"""\
static inline double $name_value(const float *y, int k, double last)
{{
    static const double scale[] = {{{", ".join(map(repr, prepared.scale))}}};
    return y[k] * scale[k] + last;
}}
"""
