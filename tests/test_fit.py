"""From a table to a model: reading, the choice of the task, the split, training, prediction, export, and bad input."""

import csv
import io
import json
import math
import os
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch

from srnn.errors import DataError, RecordError, SettingError, SettingTypeError
from srnn.lab import cli, load
from srnn.lab.data import fitting
from srnn.lab.data import table as tables
from srnn.lab.data.fitting import Question, prepare
from srnn.lab.data.preparation import Preparation
from srnn.lab.data.table import Table
from srnn.lab.export import c, export, onnx, preparation, tensors
from srnn.lab.records import store
from srnn.lab.records.folder import load_tensors, save_tensors
from srnn.lab.tasks.fitted import Fitted, of_table
from srnn.lab.tasks.prediction import Stream
from srnn.lab.training import start
from srnn.lab.training.fit import make_fit
from srnn.lab.training.loop import read_run, train
from srnn.lab.training.recipes import from_dict, make_run

ROOT = Path(__file__).parents[1]
SMALL: dict[str, Any] = {"hidden_size": 16, "mlp": (8,), "steps": 6, "eval_every": 3}
Columns = dict[str, list[Any]]


def waves(series: int = 24, labels: str = "ab") -> Columns:
    """Series of unequal length, with a number, a text and a label."""
    draws = numpy.random.default_rng(1)
    found: Columns = {"id": [], "t": [], "x": [], "colour": [], "label": []}
    for k in range(series):
        for t in range(4 + k % 5):
            row = (
                f"s{k}",
                t,
                float(numpy.sin(t * (1 + k % 2)) + draws.normal() / 5),
                ["red", "blue"][t % 2],
                labels[k % len(labels)],
            )
            for name, value in zip(found, row, strict=True):
                found[name].append(value)
    return found


def series(steps: int = 120) -> Columns:
    draws = numpy.random.default_rng(2)
    y = numpy.sin(numpy.arange(steps) / 4) * 10 + 50
    return {"t": list(range(steps)), "v": (y + draws.normal(size=steps) / 5).tolist(), "w": draws.normal(size=steps).tolist()}


def brackets(count: int = 20) -> Columns:
    draws, found = numpy.random.default_rng(3), {"id": [], "token": [], "depth": []}  # type: tuple[Any, Columns]
    for k in range(count):
        depth = 0
        for token in draws.choice(list("()."), 6 + k % 4).tolist():
            depth = max(0, depth + {"(": 1, ")": -1, ".": 0}[token])
            for name, value in zip(found, (str(k), token, f"d{min(depth, 2)}"), strict=True):
                found[name].append(value)
    return found


def wide(rows: int = 30) -> Columns:
    x = numpy.random.default_rng(4).normal(size=(rows, 9))
    return {f"x{k}": x[:, k].tolist() for k in range(9)} | {"y": (x.sum(1) * 3 + 100).tolist()}


def write(path: Path, columns: Columns) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


def ask(columns: Columns, **asked: Any) -> tuple[Preparation, str]:
    prepared, notes = prepare(Table.of(columns), Question(**asked))
    return prepared, "\n".join(notes)


def task_of(columns: Columns, **asked: Any) -> Fitted:
    table = Table.of(columns)
    return of_table(table, prepare(table, Question(**asked))[0])


# --- reading ---


def test_csv_with_other_delimiters_and_decimal_commas(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("\ufeffa;b;c\n1,5;x;\n 2 ;NA;3\n\n", encoding="utf-8")
    (tmp_path / "b.tsv").write_text("a\tb\n1\t2\n")
    found = tables.read(tmp_path / "a.csv")
    assert list(found.columns) == ["a", "b", "c"]
    assert found["a"].numbers is not None
    assert found["a"].numbers.tolist() == [1.5, 2]
    assert found["b"].texts.tolist() == ["x", ""]
    assert found["c"].is_missing.tolist() == [True, False]
    assert tables.read(tmp_path / "b.tsv")["b"].texts.tolist() == ["2"]


def test_npz_has_columns_or_sequences(tmp_path: Path) -> None:
    numpy.savez(tmp_path / "columns.npz", x=numpy.arange(3), y=numpy.array(["a", "b", "c"]))
    assert tables.read(tmp_path / "columns.npz")["x"].texts.tolist() == ["0", "1", "2"]
    (tmp_path / "ids").mkdir()
    for k, value in enumerate((1, 2**53 + 1)):
        numpy.savez(tmp_path / "ids" / f"{k}.npz", id=numpy.array([value]))
    assert tables.read(tmp_path / "ids")["id"].texts.tolist() == ["1", "9007199254740993"]
    x = numpy.arange(12.0).reshape(2, 3, 2)
    numpy.savez(tmp_path / "arrays.npz", x=x, y=numpy.array([7, 8]), lengths=numpy.array([3, 1]))
    found = tables.read(tmp_path / "arrays.npz")
    assert found.id == "sequence"
    assert {name: column.texts.tolist() for name, column in found.columns.items()} == {
        "sequence": ["1", "1", "1", "2"],
        "x0": ["0", "2", "4", "6"],
        "x1": ["1", "3", "5", "7"],
        "y": ["7", "7", "7", "8"],
    }
    x[1, 1:] = numpy.nan
    numpy.savez(tmp_path / "nan.npz", x=x, y=numpy.array([7, 8]))
    assert len(tables.read(tmp_path / "nan.npz")) == 4


@pytest.mark.skipif(not __import__("importlib.util").util.find_spec("pyarrow"), reason="pyarrow is not installed")
def test_parquet_reads_as_csv_does(tmp_path: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    columns: Columns = {"a": [1, None, 3], "b": ["x", None, "z"], "c": [True, False, None], "d": [2**53, None, 2**53 + 1]}
    columns |= {"e": [-(2**53), 2**53 + 2, 2**53 + 1]}
    categories = {name: pyarrow.array(columns[name]).dictionary_encode() for name in "abd"}
    found = columns | {f"categories {name}": values for name, values in categories.items()}
    pyarrow.parquet.write_table(pyarrow.table(found), tmp_path / "a.parquet")
    found = columns | {f"categories {name}": columns[name] for name in categories}
    write(tmp_path / "a.csv", {name: ["" if each is None else each for each in values] for name, values in found.items()})
    ours, theirs = tables.read(tmp_path / "a.parquet"), tables.read(tmp_path / "a.csv")
    assert {name: column.texts.tolist() for name, column in ours.columns.items()} == {
        name: column.texts.tolist() for name, column in theirs.columns.items()
    }


def test_parquet_without_pyarrow_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"pip install 'srnn\[parquet\]'"):
        tables.read(tmp_path / "a.parquet")


def test_folder_of_text_files_per_class(tmp_path: Path) -> None:
    for k in range(4):
        for name, text in (("yes", "ja ?"), ("no", "nein")):
            (tmp_path / name).mkdir(exist_ok=True)
            (tmp_path / name / f"{k}.txt").write_text(f"{text}\n")
    prepared, notes = prepare(tables.read(tmp_path), Question())
    assert (prepared.kind, prepared.target, prepared.layout.id, prepared.classes) == (
        "classify",
        "class",
        "file",
        ["no", "yes"],
    )
    assert prepared.inputs[0].categories == [" ", "?", "a", "e", "i", "j", "n"]  # no character is a missing value
    assert "8 sequences of 4 steps" in notes[0]
    alone = prepared.sequences(tables.read(tmp_path / "yes" / "1.txt"))  # a file of those is predicted without its folder
    assert (alone.names, alone.lengths.tolist()) == (["1.txt"], [4])
    (tmp_path / "yes" / "0.txt").write_text("")
    with pytest.raises(DataError, match=r"0\.txt is empty$"):
        tables.read(tmp_path)


def test_digest_of_a_folder_depends_on_names_and_contents(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "1.txt").write_text("x")
    first = tables.digest(tmp_path)
    (tmp_path / "a" / "1.txt").rename(tmp_path / "a" / "2.txt")
    renamed = tables.digest(tmp_path)
    (tmp_path / "a" / "2.txt").write_text("y")
    assert len({first, renamed, tables.digest(tmp_path)}) == 3


# --- the choice of the task ---


@pytest.mark.parametrize(
    ("columns", "asked", "format", "kind", "outputs"),
    [
        (waves(4), {"target": "label", "id": "id"}, "long", "classify", 2),  # the fewest that can be split
        (waves() | {f"s{k}": waves()["x"] for k in range(9)}, {"target": "label", "id": "id"}, "long", "classify", 2),
        ({"v": [0, 1] * 10, "w": series(20)["w"]}, {"target": "v"}, "long", "tag", 2),
        ({"v": ([0, 1] * 10)[1:], "w": series(19)["w"]}, {"target": "v"}, "long", "forecast", 1),
        (waves(), {"target": "label", "id": "id"}, "long", "classify", 2),
        (waves(), {"target": "x", "id": "id", "val": 0.25, "test": 0.25}, "long", "forecast", 1),
        (brackets(), {"target": "depth", "id": "id"}, "long", "tag", 3),
        (series(), {"target": "v"}, "long", "forecast", 1),
        (series(), {"target": "v", "horizon": 4}, "long", "forecast", 4),
        (series(), {"target": "v", "task": "tag"}, "long", "tag", 1),
        (wide(), {"target": "y"}, "wide", "regress", 1),
        (wide() | {"y": [0, 1] * 15}, {"target": "y"}, "wide", "classify", 2),
        (wide() | {"y": [0, 1] * 15}, {"target": "y", "task": "regress"}, "wide", "regress", 1),
        (wide() | {"y": [0, 1] * 15}, {"target": "x"}, "wide", "forecast", 1),
        (wide(), {"target": "x", "horizon": 3, "drop": ("y",)}, "wide", "forecast", 3),
        ({"name": [f"n{k}ame{k * 7}" for k in range(30)], "y": list("abc") * 10}, {"target": "y"}, "text", "classify", 3),
        (
            {"p": [1.0, 2, 3] * 6, "q": [2.0, 5, 4, 3, 2, 1] * 3, "y": list("ab") * 9},
            {"target": "y", "task": "classify"},
            "wide",
            "classify",
            2,
        ),
    ],
)
def test_format_and_task_are_found_out(columns: Columns, asked: dict[str, Any], format: str, kind: str, outputs: int) -> None:
    prepared, _ = ask(columns, **asked)
    assert (prepared.layout.format, prepared.kind, prepared.outputs) == (format, kind, outputs)


def test_wide_rows_with_missing_ends_are_shorter_sequences() -> None:
    columns = wide()
    columns["x8"] = [math.nan] * 30
    columns["x7"][3] = math.nan
    prepared, notes = ask(columns, target="y")
    assert "30 sequences of 7 to 8 steps" in notes
    sequences = prepared.sequences(Table.of(columns))
    assert sequences.lengths.tolist() == [8, 8, 8, 7] + [8] * 26
    values = sequences.table["x"].numbers
    assert values is not None
    assert values[sequences.rows[4]].tolist() == [columns[f"x{k}"][4] for k in range(8)]


def test_two_inputs_of_a_wide_table_are_told_apart_by_their_names() -> None:
    columns = {f"{name}_{k}": [float(k * 10 + r) for r in range(12)] for k in range(3) for name in "abc"}
    prepared, _ = ask(columns | {"y": list("uv") * 6}, target="y")
    assert prepared.layout.steps == {name: [f"{name}_{k}" for k in range(3)] for name in "abc"}
    assert [each.column for each in prepared.inputs] == ["a", "b", "c"]


def test_steps_keep_their_values_if_another_column_has_their_name() -> None:
    columns = {name.replace("x", "y"): values for name, values in wide().items()}
    prepared, _ = ask(columns, target="y")
    found = prepared.sequences(Table.of(columns), with_target=True)
    (values,) = (found.table[each.column].numbers for each in prepared.inputs)
    assert values is not None
    assert values[found.rows[2]].tolist() == [columns[f"y{k}"][2] for k in range(9)]
    texts = {"sequence": [f"AC{'GT'[k % 2]}{k}" for k in range(30)], "y": list("ab") * 15}
    prepared, _ = ask(texts, target="y")
    assert prepared.inputs[0].categories == [*"0123456789ACGT"]
    assert len(prepared.sequences(Table.of(texts)).names) == 30


def test_rows_out_of_order_are_collected_and_sorted() -> None:
    columns = waves()
    order = numpy.random.default_rng(0).permutation(len(columns["t"]))
    mixed = {name: [values[k] for k in order] for name, values in columns.items()}
    prepared, notes = ask(mixed, target="label", id="id", time="t")
    assert "not next to each other" in notes
    assert "sorted by 't'" in notes
    found = prepared.sequences(Table.of(mixed))
    assert [len(rows) for _, rows in sorted(zip(found.names, found.rows, strict=True))] == [
        columns["id"].count(name) for name in sorted(set(columns["id"]))
    ]
    assert all(numpy.diff([mixed["t"][row] for row in rows]).min() > 0 for rows in found.rows)


def test_columns_are_left_out_with_a_reason() -> None:
    columns = waves() | {"one": [1] * len(waves()["t"]), "note": [f"text {k}" for k in range(len(waves()["t"]))]}
    prepared, notes = ask(columns, target="label", id="id")
    assert [each.column for each in prepared.inputs] == ["t", "x", "colour"]
    assert "left out: one, because the training part has one value only" in notes
    assert "left out: note, because nearly every row has another text" in notes


def test_sequences_without_an_answer_are_left_out_and_steps_without_one_are_not() -> None:
    columns, tags = waves(), brackets()
    columns["label"][-1] = tags["depth"][-1] = ""
    assert "left out: 1 of 24 sequences, because 'label' is missing" in ask(columns, target="label", id="id")[1]
    assert "'depth' is missing in 1 of 150 rows" in ask(tags, target="depth", id="id")[1]


def test_a_number_that_cannot_be_read_is_named() -> None:
    columns = waves()
    columns["x"] = ["oops" if t == 0 else x for t, x in zip(columns["t"], map(str, columns["x"]), strict=True)]
    assert "'x' is read as texts, because 'oops' is no number" in ask(columns, target="label", id="id")[1]


def test_notes_describe_task_and_split() -> None:
    notes = ask(series(), target="v", horizon=3)[1]
    assert "forecast 'v', 3 steps ahead" in notes
    assert "split in time: 70% train, 15% val, 15% test, the last part of the sequence is the test" in notes
    assert "tag 'v', a number at every step" in ask(series(), target="v", task="tag")[1]
    assert "the last part of each sequence" in ask(wide(), target="x")[1]


def test_class_with_one_example_is_trained_on_and_reported() -> None:
    columns = waves()
    columns["label"] = ["rare" if name == "s5" else label for name, label in zip(columns["id"], columns["label"], strict=True)]
    prepared, notes = ask(columns, target="label", id="id")
    assert "one example only of rare" in notes
    sequences = prepared.sequences(Table.of(columns))
    assert sequences.names.index("s5") in fitting.split(sequences, prepared)["train"]


# --- the split ---


def test_groups_and_sequences_are_in_one_part_only() -> None:
    columns = waves(60)
    columns["speaker"] = [f"p{int(name[1:]) % 9}" for name in columns["id"]]
    prepared, _ = ask(columns, target="label", id="id", group="speaker")
    sequences = prepared.sequences(Table.of(columns), with_target=True)
    parts = fitting.split(sequences, prepared)
    assert sorted(number for numbers in parts.values() for number in numbers) == list(range(60))
    groups = [{sequences.groups[number] for number in numbers} for numbers in parts.values()]
    assert all(groups)
    assert sum(map(len, groups)) == len(set.union(*groups)) == 9
    columns["label"] = ["rare" if name == "s8" else f"l{int(name[1:]) % 9 % 2}" for name in columns["id"]]
    _, notes = ask(columns, target="label", id="id", group="speaker")
    assert "split by group 'speaker': " in notes
    assert "the val part has no example of l" in notes
    assert "the train part" not in notes
    assert notes.count("rare") == 2  # it has no second example that another part could have


def test_every_part_has_about_the_same_share_of_each_class() -> None:
    columns = waves(100, labels="aaab")
    prepared, _ = ask(columns, target="label", id="id")
    sequences = prepared.sequences(Table.of(columns))
    labels = [columns["label"][rows[0]] for rows in sequences.rows]
    for numbers in fitting.split(sequences, prepared).values():
        assert sum(labels[number] == "b" for number in numbers) / len(numbers) == pytest.approx(0.25, abs=0.08)


def test_scales_are_of_the_training_part_only() -> None:
    columns = series()
    before, _ = ask(columns, target="v", time="t")
    columns["w"][110] = columns["v"][110] = 1e6
    after, _ = ask(columns, target="v", time="t")
    assert after == before
    for each in after.inputs:
        known = columns[each.column][:84]
        assert (each.mean, each.scale) == pytest.approx((numpy.mean(known), numpy.std(known)))


def test_no_answer_of_a_forecast_is_from_a_later_part() -> None:
    columns = series()
    task = task_of(columns, target="v", time="t", horizon=3)
    prepared, values = task.prepared, numpy.array(columns["v"])
    known = {}
    for split, bounds in (("train", (0, 84)), ("val", (84, 102)), ("test", (102, 120))):
        assert fitting.time_bounds(120, prepared, split) == bounds
        seen = []
        for piece in task._pieces[split]:
            wanted = task._answers(task._split[1][0], piece, split)
            for step, row in zip(range(piece.context, piece.stop), wanted, strict=True):
                for k, answer in enumerate(row):
                    if not numpy.isnan(answer):
                        seen.append((step, k))
                        assert bounds[0] <= step + k + 1 < bounds[1]
                        assert answer * prepared.scale[k] + values[step] == pytest.approx(values[step + k + 1], abs=1e-4)
        known[split] = seen
    assert len(known["test"]) == len(set(known["test"])) == 3 * 18  # each answer once
    assert len(set(known["train"])) == 83 + 82 + 81


def test_windows_of_tags_count_each_step_once() -> None:
    task = task_of(brackets(), target="depth", id="id", window=4)
    for split in ("val", "test"):
        batches = list(task.batches(split, 3))
        total = sum(task.weight(batch) for batch in batches)
        for batch in batches:  # equal scores for all classes
            assert task.loss(torch.zeros(*batch.target.shape, 3), batch).item() == pytest.approx(math.log(3))
        assert total == sum(len(task._split[0][number]) for number in task._split[2][split])


# --- inputs and answers ---


def test_unseen_texts_and_missing_values_give_no_input() -> None:
    prepared, _ = ask(waves() | {"x": [math.nan, *waves()["x"][1:]]}, target="label", id="id", drop=("t",))
    assert (
        prepared.input_names == ["x", "x is missing", "colour = blue", "colour = red"] or not prepared.inputs[0].marks_missing
    )
    new = Table.of({"id": ["n", "n"], "x": [prepared.inputs[0].mean, math.nan], "colour": ["green", "red"]})
    found = prepared.encode(prepared.sequences(new))[0]
    assert found[:, -2:].tolist() == [[0, 0], [0, 1]]
    assert found[:, 0].tolist() == [0, 0]
    assert prepared.unseen(new) == {"colour": ["green"]}


def test_missing_values_of_the_training_part_are_marked() -> None:
    columns = waves()
    columns["x"] = [math.nan if k % 7 == 0 else x for k, x in enumerate(columns["x"])]
    prepared, notes = ask(columns, target="label", id="id")
    assert "inputs: t, x (15.2% missing), colour (2 symbols)" in notes
    assert notes.count("missing") == 1
    found = numpy.concatenate(prepared.encode(prepared.sequences(Table.of(columns))))
    place = prepared.input_names.index("x is missing")
    assert found[:, place].tolist() == [float(math.isnan(x)) for x in columns["x"]]
    assert numpy.isfinite(found).all()


def test_unseen_symbol_is_a_vector_of_zeros() -> None:
    task = task_of(brackets(), target="depth", id="id")
    assert task.alphabet is not None
    assert task.alphabet.tolist() == [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]
    table = Table.of({"id": ["a"] * 3, "token": ["(", "!", ""]})
    assert task.prepared.encode(task.prepared.sequences(table))[0].tolist() == [1, 0, 0]


def test_preparation_survives_json() -> None:
    for columns, asked in ((waves(), {"target": "label", "id": "id"}), (wide(), {"target": "y"}), (series(), {"target": "v"})):
        prepared, _ = ask(columns, **asked)
        assert Preparation.from_json(json.loads(json.dumps(prepared.to_json()))) == prepared


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"format": 2}, "another version"),
        ({"mean": "x"}, "damaged"),
        ({"kind": "guess"}, "damaged"),
        ({"layout": {"a": 1}}, "damaged"),
    ],
)
def test_preparations_of_newer_or_damaged_files_are_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(RecordError, match=said):
        Preparation.from_json(ask(wide(), target="y")[0].to_json() | change)


@pytest.mark.parametrize(
    ("columns", "asked"),
    [
        (waves(), {"target": "label", "id": "id"}),
        (brackets(), {"target": "depth", "id": "id"}),
        (wide(), {"target": "y"}),
        (series(), {"target": "v", "horizon": 2}),
    ],
)
def test_an_oracle_has_no_error_and_the_baseline_has_that_of_chance(columns: Columns, asked: dict[str, Any]) -> None:
    task = task_of(columns, **asked)
    for batch in (task.batch(0, 4, 1), *task.batches("test", 4)):
        if task.prepared.classes is not None:
            right = 100 * torch.nn.functional.one_hot(batch.target.clamp(min=0), task.output_size).float()
        else:
            right = batch.target.nan_to_num()
        assert task.loss(right, batch).item() == pytest.approx(0, abs=1e-6)
        assert task.score(right, batch).item() == pytest.approx(100 if task.higher_is_better else 0, abs=1e-4)
    assert 0 < task.chance < 100
    (batch,) = list(task.batches("test", 100))
    if task.prepared.classes is None:
        away = (batch.target[:, 0] * task.prepared.scale[0]).abs() if batch.target.ndim == 2 else None
        if away is not None:
            assert task.score(torch.zeros_like(batch.target), batch).item() == pytest.approx(away.mean().item(), rel=1e-5)
    epoch = [task.batch(update, 4, 1) for update in range(task.updates_per_epoch(4))]
    assert sum(len(each.target) for each in epoch) == task.updates_per_epoch(1)
    assert len(epoch) == -(-task.updates_per_epoch(1) // 4)


# --- training, prediction, export ---


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A small finished run of each kind, on a CSV file."""
    folder, found = tmp_path_factory.mktemp("fit"), {}
    questions: dict[str, tuple[Columns, Question]] = {
        "classify": (waves(), Question(target="label", id="id", time="t")),
        "regress": (wide(60), Question(target="y")),
        "tag": (brackets(), Question(target="depth", id="id")),
        "forecast": (series(), Question(target="v", time="t", horizon=3)),
        "rows": (wide() | {"y": ["a", "b"] * 15}, Question(target="x", horizon=2)),
    }
    for name, (columns, asked) in questions.items():
        path = write(folder / f"{name}.csv", columns)
        run = make_fit(tables.read(path), asked, file=str(path), **SMALL).run
        assert train(run, folder / name).status == "finished"
        found[name] = folder / name
    return found


def test_load_gives_a_model_that_predicts_without_the_data(trained: dict[str, Path], tmp_path: Path) -> None:
    copied = tmp_path / "run"
    copied.mkdir()
    for file in trained["classify"].iterdir():
        if file.is_file():
            (copied / file.name).write_bytes(file.read_bytes())
    model = load(copied)
    assert not model.training
    answers = model.predict(waves(3))
    assert [answer["id"] for answer in answers] == ["s0", "s1", "s2"]
    for answer in answers:
        shares = answer["probabilities"]
        assert sum(shares.values()) == pytest.approx(1, abs=1e-4)
        assert answer["prediction"] == max(shares, key=shares.__getitem__)


def test_predict_of_other_models_gives_their_outputs(tmp_path: Path) -> None:
    train(make_run("adding", "srnn", length=4, steps=2), tmp_path / "run")
    model = load(tmp_path / "run")
    assert model.predict(torch.zeros(3, 4, 2)).shape == (3, 1)


def test_answers_do_not_depend_on_the_other_sequences(trained: dict[str, Path]) -> None:
    model, columns = load(trained["classify"]), waves()
    one = {
        name: [value for value, id in zip(values, columns["id"], strict=True) if id == "s7"] for name, values in columns.items()
    }
    (alone,), among = model.predict(one), model.predict(columns)[7]
    assert alone["probabilities"] == pytest.approx(among["probabilities"], abs=1e-5)


def test_predict_takes_tables_and_dataframes(trained: dict[str, Path]) -> None:
    pandas = pytest.importorskip("pandas")
    model = load(trained["classify"])
    assert model.predict(pandas.DataFrame(waves(3))) == model.predict(Table.of(waves(3))) == model.predict(waves(3))
    with pytest.raises(SettingTypeError, match="a file, a folder, a Table, columns by name or a DataFrame, got list"):
        model.predict([waves(3)])


def test_intervals_hold_the_share_of_validation_errors_that_they_promise(trained: dict[str, Path]) -> None:
    model = load(trained["regress"])
    task = model.task
    assert isinstance(task, Fitted)
    assert model.calibration is not None
    assert model.calibration["errors"] == len(task._split[2]["val"]) == 9
    answers = model.predict(wide(60), level=0.8)
    y = wide(60)["y"]
    inside = [answers[k]["low"] - 1e-3 <= y[k] <= answers[k]["high"] + 1e-3 for k in task._split[2]["val"]]
    assert sum(inside) == 8  # the smallest whole number that is not below (9 + 1) * 0.8
    with pytest.raises(SettingError, match=r"must be one of 0\.5, 0\.8"):
        model.predict(wide(), level=0.7)


def test_forecast_continues_each_series_from_its_last_value(trained: dict[str, Path]) -> None:
    model, columns = load(trained["forecast"]), series()
    answers = model.predict(columns)
    assert [answer["ahead"] for answer in answers] == [1, 2, 3]
    with torch.no_grad():
        for parameter in model.readout[-1].parameters():  # outputs of 0 repeat the last value
            parameter.zero_()
    with pytest.raises(DataError, match=r"lacks the column 'v'\. A forecast needs the past of its target"):
        model.predict({"t": [1], "w": [0.5]})
    with pytest.raises(DataError, match="the table has no rows"):
        model.predict({name: [] for name in columns})
    columns["v"][-1] = math.nan
    assert [answer["prediction"] for answer in model.predict(columns)] == pytest.approx([columns["v"][-2]] * 3, rel=1e-5)


def test_forecast_of_a_wide_table_continues_each_row(trained: dict[str, Path]) -> None:
    model, columns = load(trained["rows"]), wide()
    answers = model.predict(columns)
    assert [(answer["row"], answer["ahead"]) for answer in answers[:4]] == [("1", 1), ("1", 2), ("2", 1), ("2", 2)]
    stream = Stream(model, model.task.prepared)  # type: ignore[attr-defined]
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    streamed = [answer for row in rows for answer in stream.answer(row)]
    assert [each["row"] for each in streamed] == [each["row"] for each in answers]
    assert [each["prediction"] for each in streamed] == pytest.approx([each["prediction"] for each in answers], rel=1e-4)
    with torch.no_grad():
        for parameter in model.readout[-1].parameters():
            parameter.zero_()
    columns["x8"][1] = math.nan
    assert [answer["prediction"] for answer in model.predict(columns)[:4]] == pytest.approx(
        [columns["x8"][0]] * 2 + [columns["x7"][1]] * 2, rel=1e-5
    )
    with torch.no_grad():
        last: Any = model.readout[-1]
        last.bias += 1  # an output of 1 is the usual change
    scale = model.task.prepared.scale  # type: ignore[attr-defined]
    assert model.predict(columns)[1]["prediction"] == pytest.approx(columns["x8"][0] + scale[1], rel=1e-5)
    with pytest.raises(DataError, match="lacks columns that the model was trained with: x4"):
        model.predict({name: values for name, values in columns.items() if name != "x4"})


@pytest.mark.parametrize("kind", ["classify", "tag"])
def test_stream_answers_as_the_table_does(kind: str, trained: dict[str, Path]) -> None:
    model, columns = load(trained[kind]), waves() if kind == "classify" else brackets()
    assert isinstance(model.task, Fitted)
    stream = Stream(model, model.task.prepared)
    rows = [dict(zip(columns, map(str, row), strict=True)) for row in zip(*columns.values(), strict=True)]
    order = sorted(range(len(rows)), key=lambda k: (rows[k].get("t", k % 5), k)) if kind == "classify" else range(len(rows))
    last = {}  # sequences in turns, each with a state of its own
    for answer in [answer for k in order for answer in stream.answer(rows[k])]:
        last[answer["id"], answer["step"] if kind == "tag" else None] = answer["probabilities"]
    wanted = {(a["id"], a.get("step")): a["probabilities"] for a in model.predict(columns)}
    assert last.keys() == wanted.keys()
    for key, shares in wanted.items():
        assert last[key] == pytest.approx(shares, abs=1e-4)


def test_resumed_run_is_bit_identical(trained: dict[str, Path], tmp_path: Path) -> None:
    path = trained["tag"].with_suffix(".csv")
    run = make_fit(tables.read(path), Question(target="depth", id="id"), file=str(path), **SMALL).run
    train(run.with_limits(steps=3), tmp_path / "run")
    train(run, tmp_path / "run")
    ours, theirs = (load_tensors(folder / "model.safetensors")[0] for folder in (tmp_path / "run", trained["tag"]))
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


def test_changed_file_is_refused_on_resume(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", brackets())
    run = make_fit(tables.read(path), Question(target="depth", id="id"), file=str(path), **SMALL).run
    train(run, tmp_path / "run")
    before = (tmp_path / "run" / "model.safetensors").read_bytes()
    path.write_text(path.read_text() + "x,(,d1\n")
    with pytest.raises(DataError, match="has changed since the run was started"):
        train(read_run(tmp_path / "run").with_limits(steps=9), tmp_path / "run")
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == before


def test_fine_tuning_starts_from_the_weights_and_records_it(trained: dict[str, Path], tmp_path: Path) -> None:
    source = trained["classify"]
    table = Table.of(waves(30) | {"x": [value + 5 for value in waves(30)["x"]]})
    fit = make_fit(
        table, Question(target="label", id="id", time="t"), **SMALL | {"lr": 1e-9, "steps": 1}, init_from=str(source)
    )
    record = train(fit.run, tmp_path / "run")
    assert record.run["init_from"] == start.resolved(str(source))
    ours, theirs = (load_tensors(folder / "model.safetensors")[0] for folder in (tmp_path / "run", source))
    assert all(torch.allclose(ours[name], theirs[name], atol=1e-6) for name in theirs)
    assert isinstance(fit.run.task, Fitted)
    assert fit.run.task.prepared.inputs == load(source).task.prepared.inputs  # type: ignore[attr-defined]
    assert "with its columns, scales and classes" in fit.notes[-1]


def test_weights_that_do_not_fit_or_have_changed_are_refused(trained: dict[str, Path], tmp_path: Path) -> None:
    source = start.resolved(str(trained["tag"]))
    with pytest.raises(RecordError, match=r"do not fit: .* there and .* here") as error:
        train(make_run("copy", "srnn", length=3, steps=1, init_from=source), tmp_path / "run")
    assert "\n" not in str(error.value)
    train(make_run("copy", "srnn", length=3, steps=1), tmp_path / "first")
    given = start.resolved(str(tmp_path / "first"))
    train(make_run("copy", "srnn", length=3, steps=2), tmp_path / "other")
    (tmp_path / "first" / "model.safetensors").write_bytes((tmp_path / "other" / "model.safetensors").read_bytes())
    with pytest.raises(RecordError, match="have changed since the run was made"):
        train(make_run("copy", "srnn", length=3, steps=1, init_from=given), tmp_path / "run")


def test_gate_of_srnn_starts_closed_and_runs_of_before_keep_their_ids() -> None:
    table, asked = Table.of(wide()), Question(target="y")
    starts = [make_fit(table, asked, **given).run.network.gate_init for given in ({}, {"gate": False}, {"gate_init": 0.5})]  # type: ignore[attr-defined]
    assert starts == [-2.0, 0.0, 0.5]
    before = make_fit(table, asked, gate_init=0.0, file="a.csv").run
    plain = before.as_dict()
    del plain["network"]["gate_init"]
    assert from_dict(plain).id == before.id


def test_length_of_the_training_follows_the_table_and_the_clock() -> None:
    def made(columns: Columns, asked: Question, **given: Any) -> tuple[Any, ...]:
        run = make_fit(Table.of(columns), asked, **given).run
        return run.steps, run.eval_every, run.batch_size

    few, many = (waves(), Question(target="label", id="id")), (waves(600), Question(target="label", id="id"))
    assert made(*few) == (3000, 25, 2)  # 16 sequences are trained on, so that an epoch has 8 batches
    assert made(*many) == (3000, 25, 32)
    assert made(waves(2400), few[1])[1] == 53  # an epoch of 1680 sequences
    assert made(*few, minutes=1.0) == (None, 25, 2)
    assert made(*few, minutes=1.0, steps=7) == (7, 7, 2)
    assert made(*few, cpu_minutes=1.0, epochs=2)[0] is None
    assert made(*few, eval_every=3, batch_size=5) == (3000, 3, 5)
    assert made(waves(4), few[1])[2] == 1


def test_a_run_without_a_start_keeps_its_id() -> None:
    assert (
        make_run("copy", "srnn").id == make_run("copy", "srnn", init_from="").id != make_run("copy", "srnn", init_from="a").id
    )


def test_exported_file_predicts_as_the_run(trained: dict[str, Path], tmp_path: Path) -> None:
    export(trained["regress"], "safetensors", tmp_path / "m.safetensors")
    assert tensors.load(tmp_path / "m.safetensors")[1].predict(wide()) == load(trained["regress"]).predict(wide())
    weights, state = load_tensors(tmp_path / "m.safetensors")
    save_tensors(tmp_path / "new.safetensors", weights, state | {"format": 99})
    with pytest.raises(RecordError, match=r"has format 99, and this version of srnn reads format 1"):
        tensors.load(tmp_path / "new.safetensors")


MAIN = """\
#include <stdio.h>
#include "m.h"
int main(void)
{
    static m_state s;
    double raw[M_INPUTS];
    float x[M_INPUTS], y[M_OUTPUTS];
    int i;
    m_init(&s);
    for (;;) {
        for (i = 0; i < M_INPUTS; i++) if (scanf("%lf", raw + i) != 1) break;
        if (i < M_INPUTS) break;
        m_prepare(raw, x);
        m_step(&s, x, y);
    }
    PRINT
    return 0;
}
"""


@pytest.mark.skipif(c.compiler() is None, reason="there is no C compiler")
def test_functions_of_the_c_header_prepare_inputs_and_read_outputs(trained: dict[str, Path], tmp_path: Path) -> None:
    export(trained["regress"], "c", tmp_path / "m.h")
    main = MAIN.replace("PRINT", 'printf("%.9g", m_value(y));')
    program = c.compiled(tmp_path, {"m.h": (tmp_path / "m.h").read_text(), "main.c": main})
    columns = wide()
    given = " ".join(repr(columns[f"x{k}"][2]) for k in range(9))
    done = subprocess.run([str(program)], input=given, capture_output=True, text=True, check=True)
    assert float(done.stdout) == pytest.approx(load(trained["regress"]).predict(columns)[2]["prediction"], rel=1e-5)


@pytest.mark.skipif(c.compiler() is None, reason="there is no C compiler")
def test_functions_in_c_know_symbols_and_forecasts(trained: dict[str, Path], tmp_path: Path) -> None:
    tag, forecast = read_run(trained["tag"]), read_run(trained["forecast"])
    assert json.loads(preparation.about(tag)["preparation"])["symbols"] == ["", "(", ")", "."]
    assert "symbols" not in json.loads(preparation.about(forecast)["preparation"])
    main = (
        '#include <stdio.h>\n#define T_OUTPUTS 3\n#define F_INPUTS 3\n#include "m.h"\nint main(void) {\n'
        "float y[3] = {0, 2, 1};\n"
        'printf("%d %d %s %.6f", t_symbol(")"), t_symbol("?"), t_class(y), f_value(y, 1, 50.0)); return 0; }\n'
    )
    code = preparation.in_c(tag, "t") + preparation.in_c(forecast, "f")
    for line in ("t_symbol(text) is the symbol of a text of the column token", "t_class(y) is the name of the class",
                 "f_prepare(raw, x) scales them", "f_value(y, k, last) is v in k + 1 steps"):  # fmt: skip
        assert line in code
    done = subprocess.run(
        [str(c.compiled(tmp_path, {"m.h": code, "main.c": main}, "-Wno-unused-function"))], capture_output=True, check=True
    )
    assert isinstance(forecast.task, Fitted)
    value = 50 + 2 * forecast.task.prepared.scale[1]
    assert done.stdout.decode() == f"2 0 d1 {value:.6f}"


@pytest.mark.skipif(c.compiler() is None, reason="there is no C compiler")
def test_names_of_columns_and_classes_cannot_leave_a_comment_or_a_text_in_c(tmp_path: Path) -> None:
    columns = waves(labels=["*/ int x;", '"é\\?'])  # type: ignore[arg-type]
    columns["*/ #error"] = columns.pop("x")
    table = Table.of(columns)
    run = make_fit(table, Question(target="label", id="id"), **SMALL).run
    code = preparation.in_c(run, "m")
    main = (
        '#include <stdio.h>\n#define M_INPUTS 4\n#define M_OUTPUTS 2\n#include "m.h"\nint main(void) { float y[2] = {0, 1};\n'
    )
    program = c.compiled(tmp_path, {"m.h": code, "main.c": main + "puts(m_class(y)); return 0; }\n"})
    assert subprocess.run([str(program)], capture_output=True, check=True).stdout.decode().strip() in ("*/ int x;", '"é\\?')


@pytest.mark.skipif(not onnx.is_available(), reason="onnxruntime is not installed")
def test_onnx_metadata_say_how_to_prepare_inputs(trained: dict[str, Path], tmp_path: Path) -> None:
    export(trained["classify"], "onnx", tmp_path / "m.onnx")
    about = onnx.session(tmp_path / "m.onnx").get_modelmeta().custom_metadata_map
    how = json.loads(about["preparation"])
    assert (how["kind"], how["target"], how["classes"]) == ("classify", "label", ["a", "b"])
    assert [name for each in how["inputs"] for name in each["names"]] == ["x", "colour = blue", "colour = red"]


# --- the commands ---


def call(*words: str, given: str = "") -> tuple[int, str, str]:
    """Runs a command in this process."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["srnn", *words])
        patch.setattr(sys, "stdin", io.StringIO(given))
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", err)
        patch.setenv("COLUMNS", "200")
        with pytest.raises(SystemExit) as end:
            cli.main()
    return int(end.value.code or 0), out.getvalue(), err.getvalue()


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


BAD: dict[str, tuple[bytes | Columns, str, int, str]] = {
    "empty": (b"", "--target y", 1, "is empty"),
    "header": (b"x,y\n", "--target y", 1, "has no rows"),
    "encoding": (b"x,y\n\xe9,1\n", "--target y", 1, "is not UTF-8 text"),
    "ragged": (b"x,y\n1,2\n3\n", "--target y", 1, "must have 2 cells in each line, as in the first, got 1 in line 3"),
    "two names": (b"x,x\n1,2\n", "--target x", 1, "names two columns 'x'"),
    "a name": (b"x,,y\n1,2,3\n", "--target y", 1, "The name of column 2 is empty"),
    "no names": (b"1,2\n3,4\n", "--target y", 1, "must have the names of the columns"),
    "quote": (b'x,y\n"1,2\n', "--target y", 1, "is not a CSV file"),
    "infinite": (waves() | {"x": [math.inf, *waves()["x"][1:]]}, "--target label --id id", 1, "got inf in row 1"),
    "no target": (waves(), "--id id", 2, "--target must name the column to predict"),
    "changes": (waves(), "--target colour --id id --task classify", 2, "there are several of the sequence 's0'"),
    "never": (series() | {"v": [1.5] * 110 + series()["v"][110:]}, "--target v --time t", 1, "never changes in the"),
    "one value": (wide() | {"y": [5.5] * 30}, "--target y", 1, "has one value only in the training part, 5.5"),
    "two groups": (waves() | {"who": waves()["colour"]}, "--target label --id id --group who", 1, "has two values of"),
    "gaps": (wide() | {"euro": ["", *wide()["y"][1:]]}, "--target y", 2, "gives the target away: it equals 'y'"),
    "no test": (series() | {"v": [*series()["v"][:102], *[""] * 18]}, "--target v --time t", 1, "the test part of data.csv"),
    "no inputs": ({"id": waves()["id"], "label": waves()["label"]}, "--target label --id id --task tag", 2, "no column left"),
    "unknown": (waves(), "--target lable --id id", 2, "has no column 'lable'"),
    "twice": (waves(), "--target id --id id", 2, "are both 'id'"),
    "no id": (waves() | {"id": ["", *waves()["id"][1:]]}, "--target label --id id", 1, "got none in row 1"),
    "one class": (waves(labels="a"), "--target label --id id", 1, "has one class only, 'a'"),
    "too few": (waves(3), "--target label --id id", 1, "has 3 sequences, which is too few"),
    "too short": (series(5), "--target v --horizon 4", 1, "has too few rows"),
    "same time": (waves() | {"t": [0] * len(waves()["t"])}, "--target label --id id --time t", 1, "have the same 't'"),
    "leak": (waves() | {"copy": waves()["label"]}, "--target label --id id", 2, "gives the target away: it equals 'label'"),
    "renamed": (waves() | {"code": [ord(x) for x in waves()["label"]]}, "--target label --id id", 2, "one value for each"),
    "scaled": (wide() | {"euro": [2 * y + 1 for y in wide()["y"]]}, "--target y", 2, "is a straight line of"),
    "future": (series() | {"next": [*series()["v"][1:], ""]}, "--target v --time t", 2, "equals the value 1 step later of 'v'"),
    "in inputs": (waves(), "--target label --id id --inputs x,label", 2, "must not be among the --inputs"),
    "task": (waves(), "--target label --id id --task regres", 2, "no task is called 'regres'"),
    "format": (waves(), "--target label --id id --format tall", 2, "no format is called 'tall'"),
    "no steps": (wide(), "--target y --horizon 2", 2, "Give their name without the numbers, such as --target x"),
    "tag steps": (wide(), "--target x --task tag", 2, "'x' is the value at each step of a row, which --task forecast predicts"),
    "group": (wide() | {"who": ["a", "b"] * 15}, "--target x --group who", 2, "--group keeps whole sequences in one part"),
    "overwritten": (waves() | {"low": waves()["id"]}, "--target label --id low", 2, "--id must not be 'low', because answers"),
    "shares": (waves(), "--target label --id id --val 0.6 --test 0.5", 2, "must be above 0 and below 1 together"),
    "text": (waves(), "--target label --id id --task regress", 1, "must hold numbers, got 'a' in row 1"),
    "missing": (waves() | {"label": [""] * len(waves()["t"])}, "--target label --id id", 1, "has no values"),
    "nothing": ({"id": waves()["id"], "label": waves()["label"]}, "--target label --id id", 1, "no column left for the inputs"),
    "network": (waves(), "--target label --id id --model srn", 2, "no network is called 'srn'"),
    "start": (waves(), "--target label --id id --init-from absent", 2, "there is no such run folder or file"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_writes_nothing(case: str, elsewhere: Path) -> None:
    content, options, code, said = BAD[case]
    path = elsewhere / "data.csv"
    path.write_bytes(content) if isinstance(content, bytes) else write(path, content)
    found = call("fit", "data.csv", *options.split(), "--steps", "1")
    assert (found[0], found[2].count("\n")) == (code, 1), found
    assert said in found[2]
    assert [each.name for each in elsewhere.iterdir()] == ["data.csv"]


def test_archives_with_pickled_arrays_are_refused(elsewhere: Path) -> None:
    numpy.savez(elsewhere / "a.npz", x=numpy.array([{}, 1], dtype=object))
    assert "is not an NPZ file of plain arrays" in call("fit", "a.npz", "--target", "x")[2]
    numpy.savez(elsewhere / "c.npz", x=numpy.zeros((4, 3)), z=numpy.zeros((4, 2)))
    assert "must be [N], [N, T] or [N, T, C] with the same T" in call("fit", "c.npz", "--target", "x")[2]
    with zipfile.ZipFile(elsewhere / "b.npz", "w") as archive:
        archive.writestr("x.npy", b"no array")
    assert "is not an NPZ file of plain arrays" in call("fit", "b.npz", "--target", "x")[2]


def test_predict_says_which_columns_are_missing_and_overwrites_nothing(trained: dict[str, Path], elsewhere: Path) -> None:
    write(elsewhere / "new.csv", {name: values for name, values in waves().items() if name != "colour"})
    code, _, err = call("predict", str(trained["classify"]), "new.csv")
    assert (code, err) == (1, "srnn: new.csv lacks columns that the model was trained with: colour\n")
    write(elsewhere / "whole.csv", waves())
    (elsewhere / "out.csv").write_text("mine")
    code, _, err = call("predict", str(trained["classify"]), "whole.csv", "--out", "out.csv")
    assert (code, err.count("\n"), (elsewhere / "out.csv").read_text()) == (2, 1, "mine")
    assert call("predict", str(trained["classify"]), "whole.csv", "--out", "out.csv", "--overwrite")[0] == 0
    with (elsewhere / "out.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    write(elsewhere / "new.csv", waves() | {"colour": ["green"] * len(waves()["t"])})
    assert (
        "note: 'colour' has 1 values here that are not in the training"
        in call("predict", str(trained["classify"]), "new.csv")[2]
    )
    assert rows[0].keys() == {"id", "prediction", "p(a)", "p(b)"}
    assert len(rows) == 24


def test_predict_refuses_other_models(elsewhere: Path) -> None:
    train(make_run("copy", "srnn", length=3, steps=1), elsewhere / "run")
    assert call("predict", "run", "absent.csv")[::2] == (
        2,
        "srnn: run is of the task copy. srnn predict takes the models of srnn fit\n",
    )
    assert call("predict", "m.onnx", "absent.csv")[2].endswith("or a file of srnn export --format safetensors, got m.onnx\n")


def test_stream_takes_csv_and_json_lines(trained: dict[str, Path]) -> None:
    run = str(trained["tag"])
    code, out, _ = call("predict", run, "-", given="id,token\na,(\na,)\nb,.\n")
    assert code == 0
    assert [row.split(",")[:2] for row in out.splitlines()] == [["id", "step"], ["a", "1"], ["a", "2"], ["b", "1"]]
    _, lines, _ = call("predict", run, "-", "--json", given='{"id": "a", "token": "("}\n{"id": "a", "token": ")"}\n')
    assert [json.loads(line)["step"] for line in lines.splitlines()] == [1, 2]
    assert call("predict", run, "-", given="id,token\na,(\n,)\n")[2].startswith("srnn: line 3 of the stream: the column 'id'")
    assert call("predict", run, "-", "--out", "a.csv")[2] == (
        "srnn: --out cannot be combined with a stream. Redirect the output instead: > FILE\n"
    )
    nested = [f'{{"id": "a", "token": {token}}}\n' for token in ('["("]', '["(", [1]]', "{}")]
    for bad in ('id,token\n"a,(\n', *nested, "id,token\na\n", '{"id": \n', "{}\n", "id,token\na,(,(\n"):
        code, _, err = call("predict", run, "-", given=bad)
        assert (code, err.count("\n")) == (1, 1)


def test_the_same_command_resumes_and_a_table_needs_fit(elsewhere: Path) -> None:
    write(elsewhere / "a.csv", waves())
    words = ("fit", "a.csv", "--target", "label", "--id", "id", "--hidden-size", "8", "--steps", "3", "--out", "run")
    code, out, _ = call(*words)
    assert code == 0
    assert "task: classify 'label', 2 classes: a, b" in out
    assert "predict with: srnn predict run DATA" in out
    assert "already finished: run" in call(*words)[1]
    assert call("eval", "run")[1].startswith("test accuracy ")
    assert "resumes at update 3" in call("train", "--resume", "run", "--steps", "5")[1]
    assert store.read(elsewhere / "run" / "record.json")["updates"] == 5
    assert "fit file" in call("runs", "runs/records")[1]
    assert "srnn fit DATA --target COLUMN" in call("train", "fit")[2]


def test_columns_are_named_with_commas_or_by_repeating_the_option(elsewhere: Path) -> None:
    write(elsewhere / "a.csv", waves() | {"a, b": waves()["x"], "y": waves()["x"]})
    words = ("fit", "a.csv", "--target", "label", "--id", "id", "--dry-run")
    assert "\ninputs: x\n" in call(*words, "--drop", "t,colour", "--drop", "a, b", "--drop", "y")[1]
    assert "\ninputs: a, b, t (" in call(*words, "--inputs", "a, b", "--inputs", "t", "--text", "t")[1]
    assert call(*words, "--quiet") == (0, "", "")


def test_moved_file_is_found_in_the_folder_of_data(elsewhere: Path) -> None:
    write(elsewhere / "a.csv", waves())
    call("fit", "a.csv", "--target", "label", "--id", "id", "--hidden-size", "8", "--steps", "2", "--out", "run")
    (elsewhere / "new").mkdir()
    os.replace("a.csv", "new/a.csv")
    code, _, err = call("eval", "run")
    assert (code, err.count("\n")) == (2, 1)
    assert "Name the folder that it is in now with --data FOLDER" in err
    assert call("eval", "run", "--data", "new")[0] == 0


def test_commands_of_the_documentation_run(elsewhere: Path) -> None:
    text = (ROOT / "docs" / "fit.md").read_text(encoding="utf-8")
    code, commands = (text.split(f"```{kind}\n")[1].split("```")[0] for kind in ("python", "sh"))
    exec(compile(code, "docs/fit.md", "exec"), {})
    printed = []
    for line in commands.splitlines():
        words = shlex.split(line)
        assert words[0] == "srnn"
        ended, out, err = call(*(word.replace("200", "5") for word in words[1:]))
        assert (ended, err) == (0, "")
        printed.append(out)
    shown = [line.strip() for line in text.split("each of which an option changes:\n\n")[1].split("\n\n")[0].splitlines()]
    assert printed[0].splitlines() == shown


@pytest.mark.slow
@pytest.mark.skipif(c.compiler() is None, reason="there is no C compiler")
def test_example_makes_a_c_program_of_a_csv_file(tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for _ in range(2):  # it can be repeated in the same folder
        done = subprocess.run(
            ["sh", str(ROOT / "examples" / "csv_to_c.sh")],
            cwd=tmp_path,
            env=os.environ | {"PATH": path, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "fast"), done.stderr
