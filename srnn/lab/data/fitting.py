"""From a table to a `Preparation`: what the task is, which columns are inputs, how the data are split, and what is wrong.

Nothing is guessed silently. Every choice has a line in the notes, and an option of `srnn fit` to change it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy
from numpy.typing import NDArray

from srnn.errors import DataError, SettingError, one_of
from srnn.lab.data.preparation import CLASSIFY, FORECAST, KINDS, REGRESS, TAG, Input, Preparation, unseen_note
from srnn.lab.data.sequences import FORMATS, Layout, Sequences, choose_layout, group_rows, numbered_columns, numbers_of, unroll
from srnn.lab.data.table import Column, Table
from srnn.lab.settings import Settings, setting

SPLITS = ("train", "val", "test")
FEW_CLASSES = 20  # as many whole numbers or fewer are classes, unless --task regress is given
CATEGORIES, MIXED = 1000, 100  # of a column of text, alone and among other columns: the most frequent are kept
LEAST_WINDOW, WINDOW = 16, 256  # steps
SPLIT_SEED = 1234
ANSWERS = ("prediction", "probabilities", "low", "high", "ahead", "step")  # columns; a time column takes the place of step
PERFECT = 1 - 1e-9  # a correlation with the target above this is a leak


@dataclass(frozen=True)
class Question(Settings):
    """What the user asked for. Empty values are found out from the table. `srnn fit` has an option for each field."""

    target: str = setting("", "Column to predict. In a folder of files per class it is the class, unless given.")
    id: str = setting("", "Column that names the sequence of a row. Without it the table is one sequence.")
    time: str = setting("", "Column to sort the rows of a sequence by. Without it they stay as they are in the file.")
    group: str = setting("", "Column whose values stay together in the split, such as the speaker.")
    task: str = setting("", "classify, regress, tag or forecast. Found out from the target, unless given.")
    format: str = setting("", "long (a row per step), wide or text (a row per sequence). Found out, unless given.")
    horizon: int = setting(0, "Steps that a forecast predicts, 1 unless given.", least=0)
    window: int = setting(
        0, "Longest piece that is trained at once with --task tag and forecast. At most 256 unless given.", least=0
    )
    inputs: tuple[str, ...] = setting((), "Columns to read, unless all others.")
    drop: tuple[str, ...] = setting((), "Columns to leave out.")
    text: tuple[str, ...] = setting((), "Columns of numbers to read as text.")
    val: float = setting(0.15, "Share that selects the weights, 0.15 unless given.")
    test: float = setting(0.15, "Share that is tested at the end, 0.15 unless given.")


def prepare(table: Table, asked: Question) -> tuple[Preparation, list[str]]:
    """Find out how to train on a table.

    Args:
        table: The data.
        asked: What the user asked for.

    Returns:
        The preparation, fitted on the training part, and lines for the user about every choice.

    Raises:
        SettingError: A value of `asked` does not go with the table, or an input gives the target away.
        DataError: The table cannot be used, or is too small.
    """
    target, kind = _checked(table, asked)
    given = Layout(asked.format, asked.id or table.id, asked.time or None, asked.group or None)
    candidates = _candidates(table, target, given, asked, kind)
    as_asked = _as_text(table, asked.text)
    layout, reason = choose_layout(as_asked, given, candidates, is_answer_per_sequence=kind in (CLASSIFY, REGRESS))
    long, inner = unroll(as_asked, layout)
    sequences = group_rows(long, inner)
    kind, why = _task(kind, sequences, target, layout)
    sequences, dropped = _with_answers(sequences, target, kind)
    draft = _draft(sequences, layout, kind, target, asked)
    if asked.group and draft.in_time:
        raise SettingError("--group keeps whole sequences in one part, and this table is split in time. Leave it out")
    sequences, short = _long_enough(sequences, draft)
    parts = split(sequences, draft)
    _check_parts(sequences, draft)
    columns = _columns(long, layout, candidates, target if kind == FORECAST else None)
    _refuse_leaks(sequences, draft, columns, is_explicit=bool(asked.inputs))
    training = training_rows(sequences, draft, parts["train"])
    found, left_out = _fit(sequences, draft, columns, training, asked.window)
    notes = [
        f"{table.source}: {len(table):,} rows, {_counted(sequences, inner)}, format {layout.format} ({reason})",
        f"task: {_described(found)} ({why})",
        f"inputs: {_listed(found.inputs, training, sequences.table)}",
        *left_out,
        *sequences.notes,
        *dropped,
        *short,
        *_singles(sequences, found),
        _split_note(sequences, found, parts),
        *_absent_classes(sequences, found, parts),
        *unseen_note(found.unseen(sequences.table), "outside the training part"),
    ]
    return found, notes


def _checked(table: Table, asked: Question) -> tuple[str, str]:
    """Return the target, and the kind of task or "" if it is to be found out. Options that contradict are an error."""
    target = asked.target or table.target or ""
    if not target:
        raise SettingError(
            f"--target must name the column to predict. {table.source} has {', '.join(list(table.columns)[:12])}"
        )
    if asked.task and asked.task not in KINDS:
        raise one_of("task", asked.task, KINDS)
    if asked.format and asked.format not in FORMATS:
        raise one_of("format", asked.format, FORMATS)
    if not (asked.val > 0 and asked.test > 0 and asked.val + asked.test < 1):
        raise SettingError(f"--val and --test must be above 0 and below 1 together, got {asked.val:g} and {asked.test:g}")
    if asked.horizon and asked.task not in ("", FORECAST):
        raise SettingError(f"--horizon is for --task {FORECAST}, got --task {asked.task}")
    return target, asked.task or (FORECAST if asked.horizon else "")


def _draft(sequences: Sequences, layout: Layout, kind: str, target: str, asked: Question) -> Preparation:
    """Return the preparation without what is learned from the training part."""
    is_classes = kind == CLASSIFY or (kind == TAG and not _is_real(sequences, target))
    return Preparation(
        layout,
        kind,
        target,
        [],
        _classes(sequences, target) if is_classes else None,
        [0.0],
        [1.0],
        (asked.horizon or 1) if kind == FORECAST else 0,
        val=asked.val,
        test=asked.test,
        in_time=kind == FORECAST or len(sequences.names) == 1,
    )


def _columns(long: Table, layout: Layout, candidates: Sequence[str], always: str | None) -> list[str]:
    """Return the columns of the long table that may be inputs: those of the steps first, and `always` that one."""
    steps = list(layout.steps or ())
    found = [*steps, *(name for name in candidates if name in long.columns and name not in steps)]
    return found if always is None or always in found else [always, *found]


def _fit(
    sequences: Sequences, draft: Preparation, columns: Sequence[str], training: NDArray[numpy.int64], window: int
) -> tuple[Preparation, list[str]]:
    """Return the preparation with all that is learned from the rows of the training part, and lines about omitted columns."""
    mean, scale = _fit_target(sequences, draft, training)
    inputs, left_out = _fit_inputs(sequences.table, columns, training)
    steps = usual_length(sequences.lengths)
    if draft.every_step:
        window = window or _window(draft, int(sequences.lengths.max()))
        steps = min(steps, window)
    return replace(draft, inputs=inputs, mean=mean, scale=scale, window=window, steps=steps), left_out


def _as_text(table: Table, names: Sequence[str]) -> Table:
    """Return the table with columns that the user wants as texts, also where they hold numbers."""
    return replace(table, columns=dict(table.columns) | {name: Column(table[name].texts, is_exact=True) for name in names})


def _candidates(table: Table, target: str, layout: Layout, asked: Question, kind: str) -> list[str]:
    """Return the columns that may be inputs."""
    roles = {"--target": target, "--id": layout.id, "--time": layout.time, "--group": layout.group}
    given = {option: name for option, name in roles.items() if name}
    for name in (*given.values(), *asked.inputs, *asked.drop, *asked.text):
        if name != target or not _names_steps(table, target):
            table[name]
    for one, other in combinations(given, 2):
        if given[one] == given[other] and (one, other) != ("--id", "--group"):
            raise SettingError(f"{one} and {other} are both {given[one]!r}. Give two different columns")
    for option, name in given.items():
        if option in ("--id", "--time") and name in ANSWERS and (option, name) != ("--time", "step"):
            raise SettingError(f"{option} must not be {name!r}, because answers have a column of this name. Rename it")
    if target in asked.inputs and kind != FORECAST:
        raise SettingError(f"the target {target!r} must not be among the --inputs. Only a forecast reads its own past")
    if both := set(asked.inputs) & set(asked.drop):
        raise SettingError(f"{min(both)!r} is both in --inputs and in --drop")
    taken = {*given.values(), *asked.drop}
    found = [name for name in asked.inputs or table.columns if name not in taken]
    if not found and kind not in ("", FORECAST):
        raise SettingError(f"{table.source} has no column left for the inputs")
    return found


def _names_steps(table: Table, target: str) -> bool:
    """Return whether the target is no column but the name of several without their numbers, such as x for x0, x1, x2."""
    return target not in table.columns and len(numbered_columns(list(table.columns)).get(target, ())) > 1


def _is_real(sequences: Sequences, target: str) -> bool:
    """Return whether the target is a number and not a class: it has fractions, or too many values."""
    numbers = sequences.table[target].numbers
    if numbers is None:
        return False
    known = numbers[~numpy.isnan(numbers)]
    return bool((known != numpy.round(known)).any() or len(numpy.unique(known)) > FEW_CLASSES)


def _task(kind: str, sequences: Sequences, target: str, layout: Layout) -> tuple[str, str]:
    """Return the kind of task and the reason for it."""
    column, count = sequences.table[target], len(sequences.names)
    if target in (layout.steps or {}):
        if kind not in ("", FORECAST):
            raise SettingError(
                f"{target!r} is the value at each step of a row, which --task {FORECAST} predicts, got --task {kind}"
            )
        return FORECAST, f"{target!r} is the number at each step of a row"
    is_text = column.numbers is None
    if not is_text:
        numbers_of(sequences.table, target)
    texts = column.texts
    is_constant = all(len(set(texts[rows]) - {""}) <= 1 for rows in sequences.rows)
    if kind:
        if kind in (CLASSIFY, REGRESS) and not is_constant:
            name = next(n for n, rows in zip(sequences.names, sequences.rows, strict=True) if len(set(texts[rows]) - {""}) > 1)
            where = f" of the sequence {name!r}" if layout.id else ". Give --id if the table has several sequences"
            raise SettingError(f"--task {kind} needs one value of {target!r} for each sequence, and there are several{where}")
        if kind in (REGRESS, FORECAST) and is_text:
            numbers_of(sequences.table, target)  # raises the error that names the row
        if kind == FORECAST and layout.format != "long":
            example = next(iter(layout.steps or {}))
            raise SettingError(
                f"--task {kind} of a table with one row per sequence predicts its steps. "
                f"Give their name without the numbers, such as --target {example}, got --target {target}"
            )
        return kind, "as given"
    few = len(numpy.unique(texts[texts != ""]))
    other = "use --task to change this"
    if is_constant and count > 1:
        same = "one for each row" if layout.format != "long" else "the same in all rows of a sequence"
        if is_text:
            return CLASSIFY, f"{target!r} is a text, {same}"
        if not _is_real(sequences, target) and 2 * few <= count:
            return CLASSIFY, f"{target!r} has {few} different whole numbers, {other}"
        return REGRESS, f"{target!r} is a number, {same}, {other}"
    if is_text:
        return TAG, f"{target!r} is a text that changes within a sequence"
    if not _is_real(sequences, target) and 10 * few <= len(texts):
        return TAG, f"{target!r} has {few} different whole numbers, and changes within a sequence, {other}"
    return FORECAST, f"{target!r} is a number that changes within a sequence, {other}"


def usable(sequences: Sequences, preparation: Preparation) -> Sequences:
    """Return the sequences that `prepare` did not leave out."""
    return _long_enough(_with_answers(sequences, preparation.target, preparation.kind)[0], preparation)[0]


def _with_answers(sequences: Sequences, target: str, kind: str) -> tuple[Sequences, list[str]]:
    """Return the sequences that have an answer, and a line about those that do not."""
    absent = sequences.table[target].is_missing
    if absent.all():
        raise DataError(f"the column {target!r} of {sequences.table.source} has no values")
    if kind in (CLASSIFY, REGRESS):
        kept = [not absent[rows].any() for rows in sequences.rows]
    else:
        kept = [not absent[rows].all() for rows in sequences.rows]
    notes = []
    if not all(kept):
        notes.append(f"left out: {kept.count(False)} of {len(kept)} sequences, because {target!r} is missing")
    elif absent.any():
        notes.append(f"{target!r} is missing in {int(absent.sum())} of {len(absent)} rows: these have no answer to learn from")
    if not any(kept):
        raise DataError(f"every sequence of {sequences.table.source} lacks {target!r} in some row")
    return _keep(sequences, kept), notes


def _keep(sequences: Sequences, kept: Sequence[bool]) -> Sequences:
    def of(values: list) -> list:
        return [each for each, keep in zip(values, kept, strict=True) if keep]

    return replace(sequences, names=of(sequences.names), rows=of(sequences.rows), groups=of(sequences.groups))


def _classes(sequences: Sequences, target: str) -> list[str]:
    column = sequences.table[target]
    rows = numpy.concatenate(sequences.rows)
    found = set(column.texts[rows]) - {""}
    if len(found) < 2:
        raise DataError(
            f"the column {target!r} of {sequences.table.source} has one class only, {found.pop()!r}. At least two are needed"
        )
    return sorted(found, key=(lambda text: (float(text), text)) if column.numbers is not None else str)


def _long_enough(sequences: Sequences, draft: Preparation) -> tuple[Sequences, list[str]]:
    """Return the sequences that are long enough to be split in time, and a line about the others."""
    if not draft.in_time:
        return sequences, []
    kept = [all(b > a for a, b in (time_bounds(len(rows), draft, part) for part in SPLITS)) for rows in sequences.rows]
    if not any(kept):
        longest = int(sequences.lengths.max())
        wanted = next(n for n in range(10**7) if all(b > a for a, b in (time_bounds(n, draft, part) for part in SPLITS)))
        need = f"a sequence needs at least {wanted} steps, and the longest has {longest}"
        raise DataError(f"{sequences.table.source} has too few rows: {need}")
    short = kept.count(False)
    return _keep(sequences, kept), [f"left out: {short} of {len(kept)} sequences, which are too short"] if short else []


def time_bounds(steps: int, draft: Preparation, part: str) -> tuple[int, int]:
    """Return the first and the last step (exclusive) of a part of a sequence: training first, then validation, then test."""
    after_train = int(steps * (1 - draft.val - draft.test))
    after_val = int(steps * (1 - draft.test))
    if draft.kind == FORECAST and after_train <= draft.horizon:
        return 0, 0  # nothing could be learned about the last step of the horizon
    return {"train": (0, after_train), "val": (after_train, after_val), "test": (after_val, steps)}[part]


def split(sequences: Sequences, preparation: Preparation, seed: int = SPLIT_SEED) -> dict[str, list[int]]:
    """Return the numbers of the sequences in each part. A group is in one part only.

    Each class has a sequence in the training part, and about the same share of each part. Sequences that are split in time are
    in all parts. A part whose share is 0 is empty.

    Raises:
        DataError: There are too few sequences or groups.
    """
    everything = list(range(len(sequences.names)))
    if preparation.in_time:
        return dict.fromkeys(SPLITS, everything)
    groups: dict[str, list[int]] = {}
    for number, group in enumerate(sequences.groups):
        groups.setdefault(group, []).append(number)
    labels = _labels(sequences, preparation)
    draws = numpy.random.default_rng(seed)
    order = [list(groups)[place] for place in draws.permutation(len(groups))]
    kept: set[str] = set()  # groups that are trained on, so that each class is
    seen: set[str] = set()
    for name in order:
        if not (here := {labels[number] for number in groups[name]}) <= seen:
            kept.add(name)
            seen |= here
    free = sorted((name for name in order if name not in kept), key=lambda name: labels[groups[name][0]])
    shares = {"val": preparation.val, "test": preparation.test}
    wanted = {part: max(1, round(share * len(order))) if share else 0 for part, share in shares.items()}
    if len(free) < sum(wanted.values()) or not kept:
        what = "sequences" if preparation.layout.group is None else f"groups ({preparation.layout.group!r})"
        need = len(kept) + sum(wanted.values())
        raise DataError(
            f"{sequences.table.source} has {len(order)} {what}, which is too few to train, validate and test: "
            f"expected at least {max(need, 3)}, with one of each class to train on"
        )
    parts: dict[str, list[str]] = {}
    for part, count in wanted.items():
        chosen = {free[int((k + 0.5) * len(free) / count)] for k in range(count)}  # evenly over the classes
        parts[part] = [name for name in free if name in chosen]
        free = [name for name in free if name not in chosen]
    parts["train"] = [*kept, *free]
    return {part: sorted(number for name in parts[part] for number in groups[name]) for part in SPLITS}


def _check_parts(sequences: Sequences, draft: Preparation) -> None:
    """Raise an error if a part of sequences that are split in time has no answers. Whole sequences have some."""
    absent = sequences.table[draft.target].is_missing
    for part in SPLITS if draft.in_time else ():
        if all(absent[rows[slice(*time_bounds(len(rows), draft, part))]].all() for rows in sequences.rows):
            where = f"the {part} part of {sequences.table.source}, which is split in time,"
            raise DataError(f"{where} has no values of {draft.target!r}. Give another --val and --test")


def _labels(sequences: Sequences, preparation: Preparation) -> list[str]:
    """Return a class for each sequence, the same for all if there are no classes or several in one sequence."""
    if preparation.kind != CLASSIFY:
        return [""] * len(sequences.names)
    return [str(sequences.table[preparation.target].texts[rows[0]]) for rows in sequences.rows]


def training_rows(sequences: Sequences, preparation: Preparation, numbers: Sequence[int]) -> NDArray[numpy.int64]:
    """Return the rows of the table that belong to the training part."""
    rows = [sequences.rows[number] for number in numbers]
    if preparation.in_time:
        rows = [each[slice(*time_bounds(len(each), preparation, "train"))] for each in rows]
    return numpy.concatenate(rows)


def fit_numbers(name: str, values: NDArray[numpy.float64]) -> Input:
    """Return the input for a column of numbers, from its values in the training part, nan for a missing one."""
    known = values[~numpy.isnan(values)]
    mean, scale = (float(known.mean()), float(known.std()) or 1.0) if len(known) else (0.0, 1.0)
    return Input(name, mean, scale, marks_missing=len(known) < len(values))


def _fit_inputs(table: Table, columns: Sequence[str], training: NDArray[numpy.int64]) -> tuple[list[Input], list[str]]:
    """Return the inputs with their scales or categories, and lines about columns that are left out."""
    inputs, constant, names = [], [], []
    notes = []
    for name in columns:
        column = table[name].take(training)
        if column.numbers is not None:
            numbers_of(table, name)  # all rows, so that a bad cell in the test part is named now
            known = column.numbers[~numpy.isnan(column.numbers)]
            is_constant = len(known) < 2 or bool((known == known[0]).all())
            if is_constant and not (len(known) and len(known) < len(column.numbers)):
                constant.append(name)
                continue
            inputs.append(fit_numbers(name, column.numbers))
        else:
            texts, counts = numpy.unique(column.texts[column.texts != ""].astype(str), return_counts=True)
            notes += _mixed_note(name, column, texts)
            if len(texts) < 2:
                constant.append(name)
            elif len(texts) > 50 and 2 * len(texts) > len(column.texts):
                names.append(name)
            else:
                most = texts[numpy.argsort(-counts, kind="stable")[: CATEGORIES if len(columns) == 1 else MIXED]]
                if len(most) < len(texts):
                    notes.append(f"{name!r} has {len(texts)} different texts: the {len(most)} most frequent are symbols")
                inputs.append(Input(name, categories=sorted(most.tolist())))
    if constant:
        notes.append(f"left out: {', '.join(constant)}, because the training part has one value only")
    if names:
        notes.append(f"left out: {', '.join(names)}, because nearly every row has another text")
    if not inputs:
        raise DataError(f"{table.source} has no column left for the inputs: each is constant, or has another text in every row")
    return inputs, notes


def _mixed_note(name: str, column: Column, texts: NDArray[Any]) -> list[str]:
    """Return a line about a column of numbers that is read as texts because of a few cells."""

    def is_number(text: str) -> bool:
        return Column(numpy.array([text], dtype=object)).numbers is not None

    some = texts[:: 1 + len(texts) // 1000]
    if column.is_exact or 2 * sum(map(is_number, some)) <= len(some):
        return []
    odd = str(next(text for text in texts if not is_number(text)))
    return [f"{name!r} is read as texts, because {odd!r} is no number. Correct such cells, or leave them empty"]


def _fit_target(sequences: Sequences, draft: Preparation, training: NDArray[numpy.int64]) -> tuple[list[float], list[float]]:
    """Return means and scales of the outputs, over the training part. A forecast has scales of changes over 1, 2, ... steps."""
    if draft.classes is not None:
        return [0.0], [1.0]
    if draft.kind == FORECAST:
        table = replace(sequences, rows=[rows[slice(*time_bounds(len(rows), draft, "train"))] for rows in sequences.rows])
        changes = numpy.concatenate(replace(draft, scale=[1.0] * draft.horizon).answers(table))
        known = ~numpy.isnan(changes)
        if not known.any(axis=0).all():
            raise DataError(f"{draft.target!r} is missing too often to forecast {draft.horizon} steps ahead")
        means = numpy.sqrt((numpy.where(known, changes, 0.0).astype(numpy.float64) ** 2).sum(axis=0) / known.sum(axis=0))
        if not means.all():
            raise DataError(f"{draft.target!r} never changes in the training part, so that there is nothing to forecast")
        return [0.0] * draft.horizon, [float(each) for each in means]
    values = numbers_of(sequences.table, draft.target)[training]
    known = values[~numpy.isnan(values)]
    if not known.std():
        raise DataError(
            f"the column {draft.target!r} of {sequences.table.source} has one value only in the training part, {known[0]:g}"
        )
    return [float(known.mean())], [float(known.std())]


def _refuse_leaks(sequences: Sequences, draft: Preparation, columns: Sequence[str], *, is_explicit: bool) -> None:
    """Raise an error if an input equals the target, or is the same under other names."""
    table, target = sequences.table, draft.target
    first = [rows if draft.every_step else rows[:1] for rows in sequences.rows]
    rows = numpy.concatenate(first)
    for name in columns:
        if name == target:
            continue
        what = _leak(table, draft, name, rows, sequences.rows)
        if what and not (is_explicit and "equals" not in what):
            advice = f"Leave it out with --drop {name!r}" + ("" if "equals" in what else ", or keep it by naming all --inputs")
            raise SettingError(f"the column {name!r} gives the target away: it {what} {target!r}. {advice}")


def _leak(table: Table, draft: Preparation, name: str, rows: NDArray[numpy.int64], sequences: list) -> str:
    x, y = table[name].take(rows), table[draft.target].take(rows)
    if x.numbers is not None and y.numbers is not None:
        if draft.kind == FORECAST:
            for k in range(min(draft.horizon, 100) + 1):
                pairs = [(table[name].take(each[: len(each) - k]), table[draft.target].take(each[k:])) for each in sequences]
                if all(numpy.array_equal(a.numbers, b.numbers, equal_nan=True) for a, b in pairs):  # type: ignore[arg-type]
                    return f"equals the value {k} step{'s' * (k > 1)} later of" if k else "equals"
            return ""
        both = ~(numpy.isnan(x.numbers) | numpy.isnan(y.numbers))
        a, b = x.numbers[both], y.numbers[both]
        if len(a) > 1 and numpy.array_equal(a, b) and a.std():
            return "equals"
        if draft.classes is None:
            is_perfect = len(a) > 4 and a.std() and b.std() and abs(numpy.corrcoef(a, b)[0, 1]) > PERFECT
            return "is a straight line of" if is_perfect else ""
    if draft.classes is None:
        return ""
    if not draft.every_step and any(len(set(table[name].texts[each])) > 1 for each in sequences):
        return ""
    pairs_seen = set(zip(x.texts.tolist(), y.texts.tolist(), strict=True))
    if any(a == b for a, b in pairs_seen) and all(a == b for a, b in pairs_seen):
        return "equals"
    values, labels = {a for a, _ in pairs_seen}, {b for _, b in pairs_seen}
    is_renamed = len(pairs_seen) == len(values) == len(labels) > 1 and len(rows) > 2 * len(labels)
    return "has one value for each value of" if is_renamed else ""


def _window(draft: Preparation, longest: int) -> int:
    if not draft.in_time:
        return min(longest, WINDOW)
    return max(LEAST_WINDOW, min(WINDOW, time_bounds(longest, draft, "train")[1] // 8))


def usual_length(lengths: NDArray[numpy.int64]) -> int:
    """Return the median number of steps."""
    return int(numpy.median(lengths))


def _counted(sequences: Sequences, layout: Layout) -> str:
    lengths = sequences.lengths
    if layout.id is None:
        return f"one sequence of {lengths[0]:,} steps, since no --id is given"
    low, high = int(lengths.min()), int(lengths.max())
    return f"{len(lengths):,} sequences of {low:,}{'' if low == high else f' to {high:,}'} steps"


def _described(found: Preparation) -> str:
    if found.classes is not None:
        shown = ", ".join(found.classes[:6]) + (", ..." if len(found.classes) > 6 else "")
        return f"{found.kind} {found.target!r}, {len(found.classes)} classes: {shown}"
    if found.kind == FORECAST:
        return f"{FORECAST} {found.target!r}, {found.horizon} step{'s' if found.horizon > 1 else ''} ahead"
    return f"{found.kind} {found.target!r}" + (", a number at every step" if found.kind == TAG else "")


def _listed(inputs: Sequence[Input], training: NDArray[numpy.int64], table: Table) -> str:
    shown = []
    for each in inputs[:12]:
        if each.categories is not None:
            shown.append(f"{each.column} ({len(each.categories)} symbols)")
        else:
            absent = table[each.column].take(training).is_missing.mean()
            shown.append(each.column + (f" ({absent:.1%} missing)" if absent else ""))
    return ", ".join(shown) + (f" and {len(inputs) - 12} more" if len(inputs) > 12 else "")


def _singles(sequences: Sequences, found: Preparation) -> list[str]:
    """Return a line about classes with one example."""
    if found.classes is None:
        return []
    if found.kind == TAG:
        rows = numpy.concatenate(sequences.rows)
        labels = sequences.table[found.target].texts[rows].tolist()
    else:
        labels = _labels(sequences, found)
    single = [name for name in found.classes if labels.count(name) == 1]
    where = (
        "it is in the training part and cannot be tested"
        if len(single) == 1
        else "these are in the training part and cannot be tested"
    )
    where = where if found.kind == CLASSIFY else "which is hardly enough to learn"
    return [f"one example only of {', '.join(single[:5])}{', ...' if len(single) > 5 else ''}: {where}"] if single else []


def _absent_classes(sequences: Sequences, found: Preparation, parts: dict[str, list[int]]) -> list[str]:
    """Return a line for each part that lacks a class which has more than one example."""
    if found.kind != CLASSIFY:
        return []
    labels = _labels(sequences, found)
    several = [name for name in found.classes or () if labels.count(name) > 1]
    notes = []
    for part, numbers in parts.items():
        if absent := sorted(set(several) - {labels[number] for number in numbers}):
            why = "there are too few examples" if found.layout.group is None else "the groups have few classes each"
            notes.append(f"the {part} part has no example of {', '.join(absent[:5])}: {why}")
    return notes


def _split_note(sequences: Sequences, found: Preparation, parts: dict[str, list[int]]) -> str:
    if found.in_time:
        shares = {"train": 1 - found.val - found.test, "val": found.val, "test": found.test}
        shown = ", ".join(f"{share:.0%} {part}" for part, share in shares.items())
        what = "the sequence" if len(sequences.names) == 1 else "each sequence"
        return f"split in time: {shown}, the last part of {what} is the test"
    by = f"{found.layout.id or 'sequence'!r}" if found.layout.group is None else f"group {found.layout.group!r}"
    return f"split by {by}: " + ", ".join(f"{len(numbers)} {part}" for part, numbers in parts.items()) + " sequences"
