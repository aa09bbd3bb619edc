"""What all tests share: one seed, one thread, and the kernel when $SRNN_REQUIRE asks for it."""

import os
from collections.abc import Iterator

import pytest
import torch

from srnn.kernels import native


def pytest_sessionstart() -> None:
    """SRNN_REQUIRE=native makes a missing kernel an error where tests would otherwise leave it out."""
    reason = native.load_error()
    if "native" in os.environ.get("SRNN_REQUIRE", "").split(",") and reason is not None:
        pytest.exit(f"SRNN_REQUIRE=native, and the native backend is not available: {reason}", returncode=1)


@pytest.fixture(autouse=True)
def randomness() -> Iterator[None]:
    """Every test draws from the same seed, and computes with one thread unless it sets another number."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    yield
    torch.set_num_threads(threads)
