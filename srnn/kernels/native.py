"""Loads the compiled operators (`csrc/`, built as `srnn/_C.so`); where they are absent, says why and what to do."""

import os
from functools import cache
from pathlib import Path

import torch

LIBRARY = Path(os.environ.get("SRNN_LIBRARY", Path(__file__).parents[1] / "_C.so"))  # another build, such as `make asan`'s
BUILD_ERROR = Path(__file__).parents[1] / "_build_error.txt"


@cache
def load_error() -> str | None:
    """None when the library is loaded; otherwise the reason. The first call loads it, none compiles."""
    if not LIBRARY.exists():
        reason = BUILD_ERROR.read_text().strip() if BUILD_ERROR.exists() else f"{LIBRARY.name} was not built"
        command = "pip install 'setuptools>=77' && pip install --no-build-isolation --no-deps --force-reinstall ."
        return f"{reason}; to build it, install a C++ compiler and run in the folder of the sources: {command}"
    try:
        torch.ops.load_library(str(LIBRARY))
    except OSError as error:
        return f"{LIBRARY.name} does not load with torch {torch.__version__} ({error}); build it again for this torch"
    return None
