"""pt2: a package of `torch.export`, or compiled by AOTInductor for machines like this one.

The graph calls our operators, so a program must register them before it loads the file. torch raises its own error otherwise.

    import torch, srnn                                     # in this order, or `import srnn.kernels` in any
    model = torch.export.load("model.pt2").module()        # or torch._inductor.aoti_load_package("model.pt2")
    output, state = model(input=x, state=state)

`extra/srnn.json` in the file says so too, with the settings of the run; in a compiled package the metadata do.
"""

import io
import json
import tempfile
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import srnn
from srnn.errors import ExportError
from srnn.lab.export import preparation
from srnn.lab.export.program import Program, largest_difference
from srnn.lab.records import store
from srnn.lab.training.model import Model
from srnn.lab.training.run import Run, to_share

NEEDS = "import torch, srnn"
TOLERANCE = 1e-5  # share of the largest number


def write(model: Model, run: Run, file: Path, *, compiled: bool = False) -> list[str]:
    """Writes the model and compares the file with it."""
    program = Program(model)
    about = {"needs": NEEDS, "srnn": srnn.__version__, "torch": torch.__version__, "run": json.dumps(to_share(run.as_dict()))}
    about |= preparation.about(run)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch, about its own code
        exported = torch.export.export(program, (), program.example(2, 3), dynamic_shapes=program.free_axes)
        content = _compiled(exported, about) if compiled else _saved(exported, about)
    file.write_bytes(content)
    load_by = "torch._inductor.aoti_load_package" if compiled else "torch.export.load"
    return [f"before {load_by}, run: {NEEDS}", f"largest difference from PyTorch: {check(model, file):.1e}"]


def _saved(exported: Any, about: dict[str, str]) -> bytes:
    content = io.BytesIO()
    torch.export.save(exported, content, extra_files={"srnn.json": json.dumps(about)})
    return content.getvalue()


def _compiled(exported: Any, about: dict[str, str]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path, how = str(Path(folder) / "model.pt2"), {"aot_inductor.metadata": about}
        try:
            torch._inductor.aoti_compile_and_package(exported, package_path=path, inductor_configs=how)
        except RuntimeError as error:  # no C++ compiler, or one that fails
            raise ExportError(f"AOTInductor cannot compile the model: {str(error).splitlines()[0]}") from None
        return Path(path).read_bytes()


def load(file: Path) -> Callable[..., tuple[torch.Tensor, torch.Tensor]]:
    """Returns the model of a file of either kind, to be called with input= and state=.

    Raises:
        ExportError: The file is damaged, or is not of this kind.
    """
    content = store.read_bytes(file)
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            is_compiled = any("/aotinductor/" in name for name in archive.namelist())
            if (damaged := archive.testzip()) is not None:
                raise ExportError(f"{file} is damaged: {damaged}")
        if not is_compiled:
            return torch.export.load(io.BytesIO(content)).module()
        with tempfile.NamedTemporaryFile(suffix=".pt2") as copy:  # torch wants a path that ends so
            copy.write(content)
            copy.flush()
            return torch._inductor.aoti_load_package(copy.name)
    except (zipfile.BadZipFile, RuntimeError, KeyError, ValueError) as error:
        if isinstance(error, ExportError):
            raise
        raise ExportError(f"{file} is not a pt2 package that torch can load: {str(error).splitlines()[0]}") from None


@torch.no_grad()
def check(model: Model, file: Path, steps: tuple[int, ...] = (1, 7, 100)) -> float:
    """Returns the largest difference of a file from the model.

    Raises:
        ExportError: The file is damaged, or does not give what the model gives.
    """
    program, loaded, worst = Program(model), load(file), 0.0
    for T in steps:
        given = program.example(2, T)
        try:
            found = loaded(**given)
        except Exception as error:  # guards of a graph are generated code, and raise what they like
            said = (str(error).splitlines() or [type(error).__name__])[0]
            raise ExportError(f"{file} does not take the inputs of this model: {said}") from None
        worst = max(worst, largest_difference(found, program(**given)))
    if not worst <= TOLERANCE:
        raise ExportError(f"{file} must give what the model gives up to {TOLERANCE:g}, and it is off by {worst:.1e}")
    return worst
