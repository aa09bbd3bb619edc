"""Loads the compiled libraries: `srnn/_C.so`, and `_C.so` in the folder of any other package that has one.

Set the environment variable SRNN_LIBRARY to use another build of all of them, such as that of `make asan`. It names a folder
with the same tree, as `python setup.py build_ext --build-lib FOLDER` makes it.
"""

import os
from functools import cache
from pathlib import Path

import torch

ROOT = Path(os.environ.get("SRNN_LIBRARY", Path(__file__).parents[2]))


@cache
def load_error(package: str = "srnn") -> str | None:
    """Loads the compiled library of a package. Nothing is compiled.

    Args:
        package: The name of the package, with dots.

    Returns:
        None if the library is loaded, otherwise the reason and what to do.
    """
    folder = ROOT.joinpath(*package.split("."))
    library, build_error = folder / "_C.so", folder / "_build_error.txt"
    if not library.exists():
        reason = build_error.read_text().strip() if build_error.exists() else f"{library.name} of {package} was not built"
        command = "pip install 'setuptools>=77' && pip install --no-build-isolation --no-deps --force-reinstall ."
        return f"{reason}. To build it, install a C++ compiler and run in the folder of the sources: {command}"
    try:
        torch.ops.load_library(str(library))
    except OSError as error:
        return (
            f"{library.name} of {package} does not load with torch {torch.__version__} ({error}). Build it again for this torch"
        )
    return None
