"""Tasks: an oracle solves each, an answer without memory scores chance level, data depend on seed and update only."""

import math
import os
from dataclasses import asdict, replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from srnn.errors import DataError, SettingError
from srnn.lab import data
from srnn.lab.data import mnist, speech
from srnn.lab.tasks import pmnist
from srnn.lab.tasks import task as tasks_task
from srnn.lab.tasks.adding import Adding
from srnn.lab.tasks.copy import Copy
from srnn.lab.tasks.pmnist import PMNIST, BigPMNIST
from srnn.lab.tasks.randomlabels import RandomLabels
from srnn.lab.tasks.speech import Speech
from srnn.lab.tasks.task import Batch, Task
from srnn.lab.tasks.text import Text

REAL = os.environ.get("SRNN_DATA")
needs_real_data = pytest.mark.skipif(REAL is None, reason="SRNN_DATA does not name the folder of the real data sets")
SIZES = {"train": 60, "test": 20}
LENGTHS = {"train": 67, "val": 5, "test": 9}  # utterances
EVERY = [
    *(Copy(30), Adding(31), PMNIST(), BigPMNIST(), BigPMNIST("wrapped"), RandomLabels(6, 60)),
    *(Speech(), Speech("echo", True), Speech(scale_targets=True), Speech("echo", True, scale_targets=True)),
    Text(length=16),
]
FINITE = [task for task in EVERY if type(task).updates_per_epoch is not Task.updates_per_epoch]


def fake_mnist(folder: Path) -> Any:
    """Images of noise, as many of each class."""
    draws = numpy.random.default_rng(0)
    return {
        split: (draws.integers(0, 256, (n, 28, 28), numpy.uint8), draws.permutation(numpy.arange(n) % 10).astype(numpy.uint8))
        for split, n in SIZES.items()
    }


def fake_speech(folder: Path, **how: Any) -> Any:
    """Noise in which a frame has something of the one before, in utterances short and long."""
    draws, found = numpy.random.default_rng(0), {}
    for split, n in LENGTHS.items():
        lengths = draws.integers(4, 60, n)
        noise = draws.normal(0, 3, (lengths.sum() + 1, speech.BINS))
        frames = (noise[1:] + noise[:-1] - 35).clip(-50).astype(numpy.float32)
        found[split] = frames, numpy.concatenate([[0], lengths.cumsum()])
    return found


@cache
def fake_text() -> str:
    """Words of a few letters, and in the last twentieth some of a letter that comes nowhere else."""
    draws = numpy.random.default_rng(0)
    words = ["".join(draws.choice(list("abcdé"), size)) for size in draws.integers(1, 8, 900)]
    return " ".join(words) + " zza" * 20


@pytest.fixture
def real() -> None:
    """For tests that want the real data."""


@pytest.fixture(autouse=True)
def fakes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Small data in the place of the files, for all other tests."""
    if "real" not in request.fixturenames:
        (tmp_path / "text").mkdir()
        (tmp_path / "text" / "words.txt").write_bytes(fake_text().encode())
        monkeypatch.setattr(data, "find", lambda name: tmp_path / name)
        monkeypatch.setattr(mnist, "load", fake_mnist)
        monkeypatch.setattr(speech, "load", fake_speech)
        monkeypatch.setattr(pmnist, "SPLITS", {"train": ("train", 0, 50), "val": ("train", 50, 60), "test": ("test", 0, 20)})


def show(task: Task) -> str:
    return "-".join([task.name, *map(str, asdict(task).values())])


@pytest.fixture(params=EVERY, ids=show)
def task(request: pytest.FixtureRequest) -> Task:
    return replace(request.param)  # a new one, that has read nothing yet


def right(task: Task, batch: Batch) -> Tensor:
    """The output of somebody who knows."""
    if batch.target.dtype == torch.int64:
        return 100 * F.one_hot(batch.target, task.output_size).float()
    return (batch.target + 35) / 13 if isinstance(task, Speech) and task.scale_targets else batch.target.clone()


# --- laws of the family ---


def test_an_oracle_solves_the_task(task: Task) -> None:
    found = [task.batch(0, 16, 1), *(task.batches(task.reports, 16) if task.reports else ())]
    for batch in found:
        assert task.loss(right(task, batch), batch).item() == pytest.approx(0, abs=1e-6)
        assert task.score(right(task, batch), batch).item() == pytest.approx(100 if task.higher_is_better else 0, abs=1e-6)


def guess(task: Task, batch: Batch) -> Tensor:
    """The output of somebody who remembers nothing."""
    if isinstance(task, Copy):
        output = torch.full((*batch.target.shape, 10), -math.inf)
        output[:, :-10, 0] = output[:, -10:, 1:9] = 0.0
        return output
    if isinstance(task, Adding):
        return torch.ones_like(batch.target)
    if isinstance(task, Speech):
        if task.standardise == task.scale_targets:
            return batch.input
        return 13 * batch.input - 35 if task.standardise else (batch.input + 35) / 13
    if isinstance(task, Text):
        return pair_scores()[batch.input]
    return F.one_hot(torch.full_like(batch.target, 3), 10).float()


def pair_scores() -> Tensor:
    """For each character the logarithms of how often each other follows it in the first 90 % of the text, plus one."""
    text, characters = fake_text(), sorted(set(fake_text()))
    train = text[: int(0.9 * len(text))]
    counts = [[1 + sum(train[k : k + 2] == a + b for k in range(len(train))) for b in characters] for a in characters]
    return torch.tensor(counts).log()


def test_an_answer_without_memory_scores_chance_level(task: Task) -> None:
    found = list(task.batches(task.reports, 7)) if task.reports else [task.batch(k, 500, 1) for k in range(20)]
    weights = [task.weight(batch) for batch in found]
    score = sum(w * task.score(guess(task, b), b).item() for w, b in zip(weights, found, strict=True)) / sum(weights)
    # Adding: 4 deviations of the mean of 10,000 squared errors, whose variance is 1/15 - 1/36; the others are exact.
    error = 4 * math.sqrt(7 / 180 / 10_000) if isinstance(task, Adding) else 1e-5 * task.chance
    assert score == pytest.approx(task.chance, abs=error)


def test_a_batch_is_a_function_of_update_size_and_seed(task: Task) -> None:
    first = task.batch(5, 8, 1)
    task.batch(2, 3, 9)
    torch.rand(10)
    again = task.batch(5, 8, 1)
    assert torch.equal(first.input, again.input)
    assert torch.equal(first.target, again.target)
    for update, seed in ((4, 1), (6, 1), (5, 2), (105, 1)):
        assert samples(task.batch(update, 8, seed)) != samples(first)


def test_sizes_and_types(task: Task) -> None:
    batch, known = task.batch(0, 5, 1), task.symbols or (0 if task.alphabet is None else len(task.alphabet))
    T = {"copy": 50, "adding": 31, "pmnist": 784, "bigpmnist": 3136, "randomlabels": 36, "text": 16}.get(
        task.name, batch.input.shape[1]
    )
    assert batch.input.shape == ((5, T) if known else (5, T, task.input_size))
    assert batch.input.dtype == (torch.float32 if not known else torch.int64 if task.symbols else torch.uint8)
    assert not known or 0 <= int(batch.input.min()) <= int(batch.input.max()) < known
    if task.alphabet is not None:
        assert (task.alphabet.shape, task.alphabet.dtype) == ((known, task.input_size), torch.float32)
    classes = task.output_size in (10, task.symbols)
    assert batch.target.dtype == (torch.int64 if classes else torch.float32)
    assert batch.target.shape == (5, *((T,) if task.every_step else ()), *(() if classes else (task.output_size,)))
    assert task.weight(batch) == (5 * T if isinstance(task, Text) else 5 if batch.lengths is None else batch.lengths.sum())
    assert {part.device.type for part in vars(batch.to(torch.device("meta"))).values() if part is not None} == {"meta"}


def samples(batch: Batch) -> list[bytes]:
    lengths = [batch.input.shape[1]] * len(batch.input) if batch.lengths is None else batch.lengths.tolist()
    return [one[:n].numpy().tobytes() for one, n in zip(batch.input, lengths, strict=True)]


@pytest.mark.parametrize("task", FINITE, indirect=True, ids=show)
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_every_sample_comes_once_in_an_epoch_and_epochs_differ(task: Task, size: int) -> None:
    count = task.updates_per_epoch(size)
    assert count is not None
    train = sorted(one for batch in task.batches("train", 9) for one in samples(batch))
    assert len(set(train)) == len(train)
    assert count == math.ceil(len(train) / size)
    epochs = [[one for k in range(count) for one in samples(task.batch(e * count + k, size, 1))] for e in (0, 1, 2)]
    assert all(sorted(epoch) == train for epoch in epochs)
    if size < 1000 or task.name != "speech":  # a single batch of speech is sorted by length
        assert epochs[0] != epochs[1] != epochs[2]


def test_neighbouring_numbers_give_unrelated_seeds() -> None:
    seeds = [tasks_task.mix(seed, update) for seed in range(30) for update in range(30)]
    assert len(set(seeds)) == 900
    assert 30 < sum((a ^ b).bit_count() for a, b in pairwise(seeds)) / 899 < 33  # of 63 bits


BAD = [
    (Copy, {"length": 0}, "copy: length must be a whole number of at least 1, got 0"),
    (Adding, {"length": 1}, "adding: length must be a whole number of at least 2, got 1"),
    *(
        (RandomLabels, {"crop": crop}, f"randomlabels: crop must be a whole number from 1 to 28, got {crop}")
        for crop in (0, 29)
    ),
    *(
        (RandomLabels, {"samples": samples}, f"randomlabels: samples must be a whole number from 1 to 60000, got {samples}")
        for samples in (0, 60_001)
    ),
    (Speech, {"direction": "forward"}, "speech: direction must be one of predict, echo, got 'forward'"),
    *((Text, {"length": length}, f"text: length must be a whole number of at least 1, got {length}") for length in (0, -5)),
    (BigPMNIST, {"pixels": "grey"}, "bigpmnist: pixels must be one of raw, wrapped, got 'grey'"),
]


@pytest.mark.parametrize(("kind", "settings", "said"), BAD)
def test_an_invalid_setting_is_refused(kind: Any, settings: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingError, match=said):
        kind(**settings)


# --- copy and adding ---


@pytest.mark.parametrize("T", [1, 2, 30])
def test_copy_has_the_layout_of_the_paper(T: int) -> None:
    batch = Copy(T).batch(0, 200, 1)
    for input, target in zip(batch.input.tolist(), batch.target.tolist(), strict=True):
        symbols = input[:10]
        assert set(symbols) <= set(range(1, 9))
        assert input == [*symbols, *[0] * (T - 1), 9, *[0] * 10]
        assert target == [*[0] * (T + 10), *symbols]
    assert set(batch.input[:, :10].flatten().tolist()) == set(range(1, 9))


@pytest.mark.parametrize("T", [2, 3, 7, 30])
def test_adding_has_a_mark_in_each_half(T: int) -> None:
    batch = Adding(T).batch(0, 500, 1)
    number, mark = batch.input.double().unbind(dim=-1)
    assert set(mark.flatten().tolist()) <= {0.0, 1.0}
    assert (mark[:, : T // 2].sum(dim=1) == 1).all()
    assert (mark[:, T // 2 :].sum(dim=1) == 1).all()
    assert mark.sum(dim=0).min() > 0  # each place is marked at times
    assert (number >= 0).all()
    assert (number < 1).all()
    torch.testing.assert_close((number * mark).sum(dim=1, keepdim=True).float(), batch.target)


# --- digits ---


def check_splits(train: int) -> None:
    """So many images are trained on, the others of the first file validate; all pixels in the authors' order."""
    task, files = PMNIST(), mnist.load(data.find("mnist"))
    order = numpy.random.RandomState(1234).permutation(784)
    for split, file, rows in (("train", 0, slice(train)), ("val", 0, slice(train, None)), ("test", 1, slice(None))):
        images, labels = (part[rows] for part in list(files.values())[file])
        batches = list(task.batches(split, 500))
        assert torch.cat([batch.target for batch in batches]).tolist() == labels.tolist()
        numpy.testing.assert_array_equal(torch.cat([batch.input for batch in batches]), images.reshape(-1, 784)[:, order])


def test_pixels_come_in_the_order_of_the_authors() -> None:
    check_splits(train=50)


@needs_real_data
@pytest.mark.usefixtures("real")
def test_real_digits_are_split_as_the_authors_did() -> None:
    check_splits(train=50_000)
    assert (RandomLabels(8, 10_000).ceiling, RandomLabels(16, 1000).ceiling) == (99.74, 100)


def test_grey_levels_are_normalised() -> None:
    expected = [(level / 255 - 0.1307) / 0.3081 for level in range(256)]
    for task in (PMNIST(), BigPMNIST(), RandomLabels()):
        torch.testing.assert_close(task.alphabet, torch.tensor(expected)[:, None])


def wrap(grey: float) -> int:
    return int((grey - 0.1307) / 0.3081 * 255) % 256


def test_wrapped_pixels_are_those_of_the_authors() -> None:
    assert [wrap(k / 10) for k in range(11)] == [148, 231, 57, 140, 222, 49, 132, 215, 41, 124, 207]  # measured in their code
    values = BigPMNIST("wrapped").alphabet[pmnist.wrap(torch.arange(256)).long(), 0]
    torch.testing.assert_close(values, torch.tensor([wrap(level / 255) / 255 for level in range(256)]))
    assert (round(values[0].item(), 2), BigPMNIST("wrapped").alphabet[0].item()) == (0.58, 0)  # black, and the padding


@pytest.mark.parametrize("pixels", ["raw", "wrapped"])
def test_big_images_have_the_digit_in_the_middle_of_zeros(pixels: str) -> None:
    big, digits = numpy.zeros((20, 56, 56)), fake_mnist(Path())["test"][0]
    big[:, 14:42, 14:42] = digits if pixels == "raw" else numpy.vectorize(wrap)(digits / 255)
    (batch,) = BigPMNIST(pixels).batches("test", 100)
    numpy.testing.assert_array_equal(batch.input, big.reshape(20, -1)[:, numpy.random.RandomState(1234).permutation(3136)])


def test_random_labels_belong_to_the_middle_of_drawn_images() -> None:
    images, labels = fake_mnist(Path())["train"]
    for crop in (1, 5, 6, 28):
        edge = (28 - crop) // 2
        middles = [image[edge : edge + crop, edge : edge + crop].tobytes() for image in images]
        (batch,) = RandomLabels(crop, 60).batches("train", 100)
        assert sorted(samples(batch)) == sorted(middles)
    truth = dict(zip(middles, labels.tolist(), strict=True))
    assert sorted(batch.target.tolist()) == sorted(truth.values())
    assert sum(truth[one] == label for one, label in zip(samples(batch), batch.target, strict=True)) < 20  # 6 by chance


def test_random_labels_are_drawn_once_for_all() -> None:
    (all_of_them,), (again,), (few,) = (RandomLabels(8, n).batches("train", 100) for n in (40, 40, 10))
    for first, second in ((all_of_them, again), (few, Batch(again.input[:10], again.target[:10]))):
        assert torch.equal(first.input, second.input)
        assert torch.equal(first.target, second.target)


def test_the_ceiling_is_the_best_of_all_ways_to_label_crops(monkeypatch: pytest.MonkeyPatch) -> None:
    images, labels = fake_mnist(Path())["train"]
    monkeypatch.setattr(mnist, "load", lambda folder: {"train": (images // 128, labels)})  # 1 x 1: two crops
    task = RandomLabels(1, 40)
    (batch,) = task.batches("train", 100)
    ways = [torch.eye(10)[[black, white]][batch.input[:, 0].long()] for black in range(10) for white in range(10)]
    assert task.ceiling == pytest.approx(max(task.score(output, batch).item() for output in ways))
    assert 10 < task.ceiling < 50
    monkeypatch.setattr(mnist, "load", fake_mnist)
    assert RandomLabels(28, 40).ceiling == 100


# --- speech ---


@pytest.mark.parametrize("direction", ["predict", "echo"])
def test_speech_is_shifted_by_a_frame_with_silence_at_the_end(direction: str) -> None:
    frames, offsets = fake_speech(Path())["test"]
    utterances = sorted(numpy.split(frames, offsets[1:-1]), key=len)
    raw, scaled = (list(Speech(direction, standardise).batches("test", 4)) for standardise in (False, True))
    for one, other in zip(raw, scaled, strict=True):
        torch.testing.assert_close(other.input, (one.input + 35) / 13)
        assert torch.equal(other.target, one.target)
        assert one.lengths is not None
        for input, target, n in zip(one.input, one.target, one.lengths.tolist(), strict=True):
            now, following = (input[:n], target[:n]) if direction == "predict" else (target[:n], input[:n])
            numpy.testing.assert_array_equal(now, utterances.pop(0))
            assert torch.equal(following, torch.cat([now[1:], torch.full((1, 129), -50.0)]))
    assert not utterances


def test_the_loss_is_the_mean_over_all_valid_frames_and_bins() -> None:
    task = Speech()
    batch = next(iter(task.batches("train", 30)))
    assert batch.lengths is not None
    assert batch.lengths.min() < batch.lengths.max()
    output = torch.randn_like(batch.target, requires_grad=True)
    errors = [(output[n, :length] - batch.target[n, :length]) ** 2 for n, length in enumerate(batch.lengths.tolist())]
    loss = task.loss(output, batch)
    assert loss.item() == pytest.approx(torch.cat(errors).mean().item())
    loss.backward()
    valid = torch.arange(output.shape[1]) < batch.lengths[:, None]
    assert output.grad is not None
    assert output.grad[valid].abs().min() > 0  # the frame of silence after the last counts too
    assert not output.grad[~valid].any()
    padded = Batch(batch.input, torch.where(valid[..., None], batch.target, 1e3), batch.lengths)
    assert task.loss(torch.where(valid[..., None], output, -1e3), padded).item() == loss.item()


@pytest.mark.parametrize("direction", ["predict", "echo"])
def test_scaled_targets_are_scored_in_decibels(direction: str) -> None:
    plain, scaled = Speech(direction), Speech(direction, scale_targets=True)
    (batch,), (other,) = plain.batches("test", 100), scaled.batches("test", 100)
    assert torch.equal(batch.target, other.target)
    assert torch.equal(batch.input, other.input)
    output = torch.randn_like(batch.target)
    for measure in ("loss", "score"):
        expected = getattr(plain, measure)(13 * output - 35, batch)
        torch.testing.assert_close(getattr(scaled, measure)(output, batch), expected)
    assert (scaled.lines, scaled.chance) == (plain.lines, plain.chance)


@pytest.mark.parametrize("direction", ["predict", "echo"])
def test_the_lines_of_speech_equal_a_slow_computation(direction: str) -> None:
    def pairs(split: str) -> tuple[Any, Any]:
        frames, offsets = fake_speech(Path())[split]
        now = [one.astype(float) for one in numpy.split(frames, offsets[1:-1])]
        following = [numpy.vstack([one[1:], numpy.full((1, 129), -50.0)]) for one in now]
        seen, said = (now, following) if direction == "predict" else (following, now)
        return numpy.vstack(seen), numpy.vstack(said)

    (x, y), (x_test, y_test), lines = pairs("train"), pairs("test"), Speech(direction).lines
    fitted = numpy.c_[x_test, numpy.ones(len(x_test))] @ numpy.linalg.lstsq(numpy.c_[x, numpy.ones(len(x))], y)[0]
    assert lines == pytest.approx({"repeat": ((x_test - y_test) ** 2).mean(), "linear": ((fitted - y_test) ** 2).mean()})
    assert lines["linear"] < lines["repeat"]
    assert Speech(direction, standardise=True).lines == lines  # of the frames, not of what the network is shown


def test_batches_of_similar_length_have_little_padding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LENGTHS, "train", 1000)
    task = Speech()
    batches = [task.batch(k, 20, 1) for k in range(50)]
    valid, held = (sum(task.weight(b) for b in batches), sum(b.input.shape[0] * b.input.shape[1] for b in batches))
    assert held / valid < 1.10
    longest = [batch.input.shape[1] for batch in batches]
    assert 10 < sum(first < second for first, second in pairwise(longest)) < 39  # of 49: their order is random


@needs_real_data
@pytest.mark.usefixtures("real")
def test_a_linear_map_predicts_real_speech_better_than_repetition(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SRNN_CACHE", str(tmp_path))
    task = Speech(corpus="timit-sample")
    assert task.lines["linear"] < task.chance < 100


# --- text ---


def spelled(ids: Tensor) -> str:
    characters = sorted(set(fake_text()))
    return "".join(characters[k] for k in ids.flatten().tolist())


@pytest.mark.parametrize("size", [1, 4, 1000])
@pytest.mark.parametrize("length", [1, 7, 16, 100])
def test_each_character_of_the_file_is_in_one_split_and_predicted_once(length: int, size: int) -> None:
    task, parts = Text(length=length), []
    for split in task.splits:
        batches = list(task.batches(split, size))
        assert all(torch.equal(batch.input[:, 1:], batch.target[:, :-1]) for batch in batches)
        assert {len(batch.target) for batch in batches[:-2]} <= {size}
        assert all(batch.target.shape[1] == length for batch in batches[:-1])
        first, rest = batches[0].input[0, 0], [spelled(batch.target) for batch in batches]
        parts.append(spelled(first) + "".join(rest))
    assert task.splits == ("train", "val", "test")
    assert "".join(parts) == fake_text()
    assert [round(20 * len(part) / len(fake_text()), 1) for part in parts] == [18, 1, 1]


@pytest.mark.parametrize("task", [Adding(30), Copy(30), Text(length=16)])
def test_the_usual_number_of_steps_is_that_of_a_batch(task: Task) -> None:
    assert task.usual_steps == task.batch(0, 2, 1).input.shape[1]


def test_training_windows_are_from_the_first_part_and_reach_all_of_it() -> None:
    task = Text(length=16)
    train = fake_text()[: int(0.9 * len(fake_text()))]
    batch = task.batch(0, 60_000, 1)
    assert torch.equal(batch.input[:, 1:], batch.target[:, :-1])
    text = spelled(torch.cat([batch.input, batch.target[:, -1:]], dim=1))
    assert {text[k : k + 17] for k in range(0, len(text), 17)} == {train[k : k + 17] for k in range(len(train) - 16)}


def test_the_score_of_text_is_in_bits() -> None:
    task = Text(length=16)
    batch = task.batch(0, 5, 1)
    assert task.symbols == task.output_size == len(set(fake_text())) == 7
    for measure in (task.loss, task.score):
        assert measure(torch.zeros(5, 16, 7), batch).item() == pytest.approx(math.log2(7))


def test_a_file_can_replace_the_data_set(tmp_path: Path) -> None:
    path = tmp_path / "other.txt"
    path.write_text("01" * 200)
    task, usual = Text(str(path), length=4), Text(length=4)
    assert (task.symbols, task.data_set, usual.data_set) == (2, None, "text")
    assert task.data_digest == Text(str(path)).data_digest != usual.data_digest
    path.write_text("01" * 300)
    assert Text(str(path)).data_digest != task.data_digest


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot be read: No such file or directory"),
        (b"\xff" * 1000, "is not UTF-8 text"),
        (b"a" * 359, "has 359 characters, and windows of 16 need at least 360"),
    ],
)
def test_a_bad_file_is_named_with_what_is_wrong(tmp_path: Path, content: bytes | None, said: str) -> None:
    path = tmp_path / "bad.txt"
    if content is not None:
        path.write_bytes(content)
    for ask in (lambda task: task.symbols, lambda task: task.chance, lambda task: task.batch(0, 1, 1)):
        with pytest.raises(DataError, match=rf"bad\.txt {said}") as caught:
            ask(Text(str(path), length=16))
        assert "\n" not in str(caught.value)
    if content is None:
        with pytest.raises(DataError, match=rf"bad\.txt {said}"):
            _ = Text(str(path)).data_digest


def test_the_shortest_file_has_a_window_in_each_split(tmp_path: Path) -> None:
    path = tmp_path / "short.txt"
    path.write_bytes(b"ab" * 180)
    task = Text(str(path), length=16)
    assert [sum(task.weight(batch) for batch in task.batches(split, 8)) for split in task.splits] == [323, 17, 17]
    assert task.batch(0, 3, 1).input.shape == (3, 16)
