"""The tables of `srnn bench` and `srnn bench --networks`, and what they mean."""

from collections.abc import Iterator, Mapping
from typing import Any

from srnn.lab.bench.limits import FULL, LIMITS, LONG
from srnn.lab.bench.result import Table, origin
from srnn.lab.bench.training import BASELINES, SETTINGS

MEANING = (
    "One training step (forward, loss, backward, RMSprop) of SRNN compared with the same step of the others: batch 100, H 128, "
    "f_r (32) unless the row names others. Layer alone: forward and backward. Read-out and loss: their share of SRNN's step. "
    "Target: the least speed-up asked for, nn.RNN / nn.GRU. Bound: the time of the matrix products alone (matmul), or of a "
    "copy_ of the bytes that must move (memory), whichever is longer, as a share of SRNN's time. On copying memory and "
    "permuted MNIST SRNN reads symbols of an alphabet, a form that the others do not have; the row of real inputs does "
    "without. All data are random. Grey levels are 81 % background as in MNIST, the rest uniform."
)
REACHED = {True: "yes", False: "no", None: ""}
MEANING_OF_ROWS = {  # by a part of their keys
    "-torch": "Plain PyTorch: SRNN without its compiled library.",
    "long": "One sequence: 4 inputs, batch 1, forward and backward of the layer, all states.",
}
MEANING_OF_LIMITS = (
    f"At N {FULL[0]}, T {FULL[1]}, H {FULL[2]}. Dense scan: forward, all states. Table scan: 256 grey levels, drawn as above "
    "unless the row says otherwise, forward and backward, last state only. copy_: between two tensors [N, T, H]. Memory: rise "
    "of VmHWM in a fresh process during one training step with f_r (32, 32, 32), last state only."
)
MEANING_OF_SPLIT = (
    f" One sequence: T {LONG[1]:,}, H {LONG[2]}, forward, all states, b normal around -0.1 or, for no state ever 0, around 10. "
    "The value is how many times as fast two threads are as one."
)
MEANING_OF_NETWORKS = (
    "One training step (forward, loss, backward, optimizer) over that of nn.GRU: batch 100, H 128, f_r (32), other settings of "
    "each network at their defaults (mingru 3 blocks, lru 4, indrnn 2 layers). Below 1 is faster than nn.GRU. On "
    "copying memory and permuted MNIST SRNN reads symbols of an alphabet, a form that the others do not have. Data are random."
)


def parts(record: Mapping[str, Any]) -> Iterator[Table | str]:
    """Yields the tables of `srnn bench`, what they mean, and their origin. Rows that a record does not hold are left out."""
    if "networks" in record["results"]:
        yield _networks_table(record["results"]["networks"])
        yield MEANING_OF_NETWORKS
    else:
        rows = {row["key"]: row for part in record["results"].values() for row in part}
        training = [_setting_cells(rows[s.key]) for s in SETTINGS if s.key in rows]
        limits = [_limit_cells(rows[m.key]) for m in LIMITS if m.key in rows]
        yield Table(["times faster than", "nn.RNN", "nn.LSTM", "nn.GRU", "target", "reached", "bound"], training)
        yield " ".join([MEANING, *(text for key, text in MEANING_OF_ROWS.items() if any(key in name for name in rows))])
        yield Table(["measurement", "value", "target", "reached"], limits)
        yield MEANING_OF_LIMITS + (MEANING_OF_SPLIT if "split" in rows else "")
    machine, versions = record["machine"], f"torch {record['versions']['torch']}, backend {record['backend']['name']}"
    how = f"{machine['cores']} cores, {machine['threads']} threads, float32; {versions}"
    yield origin(record, how, "quick run" if record["settings"]["quick"] else "run")


def _networks_table(columns: list[Mapping[str, Any]]) -> Table:
    names = sorted({name for column in columns for name in column["times_gru"]})
    rows = [[name, *(_short(column["times_gru"][name]) for column in columns)] for name in names]
    return Table(["time of a step / nn.GRU's", *(column["title"] for column in columns)], rows)


def _setting_cells(row: Mapping[str, Any]) -> list[str]:
    title = row["title"] + (f": {row['share_of_step']:.0%}" if row["share_of_step"] is not None else "")
    floors = " / ".join(f"{least:g}" for least in row["floors"].values())
    by, share = max(row["limits"].items(), key=lambda limit: limit[1])
    return [title, *(_short(row["times_faster"].get(k)) for k in BASELINES), floors, REACHED[row["met"]], f"{by} {share:.0%}"]


def _limit_cells(row: Mapping[str, Any]) -> list[str]:
    return [row["title"], _short(row["value"]) or "not measured", row["floor"], REACHED[row["met"]]]


def _short(value: float | None) -> str:
    return "" if value is None else f"{value:.{3 if value < 0.1 else 2 if value < 2 else 1 if value < 20 else 0}f}"
