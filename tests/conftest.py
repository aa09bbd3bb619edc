"""What all tests share: one seed, one thread, and what $SRNN_REQUIRE asks for."""

import importlib.util
import os
from collections.abc import Iterator

import pytest
import torch

from srnn import data
from srnn.kernels import native


def pytest_sessionstart() -> None:
    """SRNN_REQUIRE=native,ray,mnist makes an error of what is missing, where tests would otherwise be left out."""
    missing = {
        "native": native.load_error(),
        "ray": None if importlib.util.find_spec("ray") else "it is not installed",
        "mnist": None if data.is_here("mnist") else "`srnn data` says how to get it",
    }
    for name in os.environ.get("SRNN_REQUIRE", "").split(","):
        if (reason := missing.get(name)) is not None:
            pytest.exit(f"SRNN_REQUIRE={name}, and it is not available: {reason}", returncode=1)


@pytest.fixture(autouse=True)
def randomness() -> Iterator[None]:
    """Every test draws from the same seed, and computes with one thread unless it sets another number."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    yield
    torch.set_num_threads(threads)
