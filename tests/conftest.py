"""What all tests share: one seed, one thread, what $SRNN_REQUIRE asks for, and data sets of a few sequences."""

import importlib.util
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy
import pytest
import torch
import torch.utils.flop_counter  # where Triton is installed, srnn adds its formulas only if this comes first: see flops.py

from srnn.kernels import native, triton
from srnn.lab import data
from srnn.lab.data import mnist, speech
from srnn.lab.networks import scans
from srnn.lab.tasks import pmnist

# Some virtual machines announce AMX and do not have it. torch's products in half precision then end in an illegal instruction.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")


collect_ignore = [] if triton.INTERPRETED else ["test_interpreter.py"]  # `make triton` runs it in a process of its own
if triton.INTERPRETED:
    import interpreter

    interpreter.keep_patches()
    interpreter.round_bfloat16()
COMPILERS = ("gcc", "clang", "arm-linux-gnueabihf-gcc", "qemu-arm")  # of the headers in C


def pytest_sessionstart() -> None:
    """SRNN_REQUIRE=native,ray,mnist makes an error of what is missing, where tests would otherwise be left out."""
    missing = {
        "native": native.load_error() or scans.load_error(),
        "triton": triton.install_error(),
        "ray": None if importlib.util.find_spec("ray") else "it is not installed",
        "mnist": None if data.is_here("mnist") else "`srnn data` says how to get it",
        "compilers": f"{', '.join(absent)} not found"
        if (absent := [each for each in COMPILERS if not shutil.which(each)])
        else None,
        "browser": None,  # test_page.py looks for it
    }
    wanted = list(filter(None, os.environ.get("SRNN_REQUIRE", "").split(",")))
    if unknown := [name for name in wanted if name not in missing]:
        raise pytest.UsageError(f"SRNN_REQUIRE={','.join(unknown)}: nothing is called so. Choose one of {', '.join(missing)}")
    for name in wanted:
        if (reason := missing[name]) is not None:
            pytest.exit(f"SRNN_REQUIRE={name}, and it is not available: {reason}", returncode=1)


@pytest.fixture(autouse=True)
def randomness() -> Iterator[None]:
    """Every test draws from the same seed, and computes with one thread unless it sets another number."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def digits(monkeypatch: pytest.MonkeyPatch) -> None:
    """MNIST of 80 images that are easy to tell apart."""
    labels = numpy.arange(80, dtype=numpy.uint8) % 10
    images = numpy.random.RandomState(0).randint(0, 40, (80, 28, 28)).astype(numpy.uint8) + (20 * labels)[:, None, None]
    monkeypatch.setattr(data, "find", lambda name: Path(name))
    monkeypatch.setattr(mnist, "load", lambda folder: {"train": (images, labels), "test": (images[:20], labels[:20])})
    splits = {"train": ("train", 0, 50), "val": ("train", 50, 80), "test": ("test", 0, 20)}
    monkeypatch.setattr(pmnist, "SPLITS", splits)


@pytest.fixture
def voices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Speech of 12 utterances in each split, all of noise."""
    offsets = numpy.arange(10, 23).cumsum() - 10  # 11 to 22 frames each
    frames = numpy.random.RandomState(0).normal(-35, 5, (int(offsets[-1]), speech.BINS)).clip(-50).astype(numpy.float32)
    monkeypatch.setattr(data, "find", lambda name: Path(name))
    monkeypatch.setattr(speech, "fingerprint", lambda folder, **how: "noise")
    monkeypatch.setattr(speech, "load", lambda folder, **how: dict.fromkeys(("train", "val", "test"), (frames, offsets)))


@pytest.fixture
def prose(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The data set `text`: one file of 6,000 characters, as the only data set that can be found."""
    path = tmp_path / "data" / "text" / "prose.txt"
    path.parent.mkdir(parents=True)
    path.write_bytes(("the quick brown fox jumps over the lazy dög. " * 150)[:6000].encode())
    monkeypatch.setenv("SRNN_DATA", str(tmp_path / "data"))
    return path
