"""Compiles the C++ sources; everything else about the package is in pyproject.toml.

    srnn/kernels/csrc/                   -> srnn/_C.so                      the kernels of the layer
    srnn/lab/networks/scans/csrc/        -> srnn/lab/networks/scans/_C.so   the recurrences of the baselines

If torch, a compiler or a header is missing, or a library does not compile, the package still installs and runs on plain PyTorch
operations. The reason is printed, and written to `_build_error.txt` next to the library's place for `srnn doctor`.
"""

import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import PlatformError

try:
    from torch.utils.cpp_extension import BuildExtension, CppExtension
except ImportError as error:
    TORCH_ERROR = f"torch could not be imported during the build ({error}). Install torch first"
    kernel_build, kernel_extension = build_ext, Extension
else:
    TORCH_ERROR = ""
    # Libraries that torch loads, not Python modules: plain _C.so, the same for every Python.
    kernel_build = BuildExtension.with_options(no_python_abi_suffix=True, use_ninja=False)
    kernel_extension = CppExtension

KERNELS, SCANS = Path("srnn/kernels/csrc"), Path("srnn/lab/networks/scans/csrc")
COMPILE = [
    "-std=c++17",
    "-O3",
    "-g0",
    "-Wall",
    "-Wno-psabi",  # vectors are passed only between functions of one file
    "-fvisibility=hidden",
    # The stable ABI of torch 2.10: without this line a library would need exactly the torch that it was built with.
    "-DTORCH_TARGET_VERSION=0x020a000000000000",
    # The same bits on every x86 machine, except for matrix products: no fused multiply-add, and no -march=native, since the
    # instruction set is chosen at run time. The other two let the compiler vectorise and change no result.
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
]
LINK = ["-Wl,--as-needed", "-s"] if sys.platform == "linux" else []


class BuildLibraries(kernel_build):
    """Builds each library, or notes why not. Never fails the installation."""

    def run(self) -> None:
        # Asked before `run`, which changes it: the source tree itself when installed with -e.
        self.places = {extension.name: Path(self.get_ext_fullpath(extension.name)).parent for extension in self.extensions}
        self.built: list[Extension] = []
        for place in self.places.values():
            (place / "_build_error.txt").unlink(missing_ok=True)
        try:
            super().run()
        except Exception as error:  # whatever it was: the package works without its libraries
            for extension in self.extensions:
                self.note(extension, error)
        self.extensions = self.built

    def build_extensions(self) -> None:
        if TORCH_ERROR:
            raise PlatformError(TORCH_ERROR)
        compiler = getattr(self.compiler, "compiler_cxx", None)
        if compiler is None:
            raise PlatformError(f"the kernels are not built with the {self.compiler.compiler_type} compiler")
        if shutil.which(compiler[0]) is None:
            raise PlatformError(f"no C++ compiler was found (looked for {compiler[0]})")
        compile_in_turn = self.compiler.compile

        def compile_in_parallel(sources: list[str], **options: object) -> list[str]:
            with ThreadPoolExecutor() as pool:
                objects = pool.map(lambda source: compile_in_turn([source], **options), sources)
                return [built for part in objects for built in part]

        self.compiler.compile = compile_in_parallel
        super().build_extensions()

    def build_extension(self, extension: Extension) -> None:
        try:
            super().build_extension(extension)
        except Exception as error:
            self.note(extension, error)
        else:
            self.built.append(extension)

    def note(self, extension: Extension, error: Exception) -> None:
        """Removes the library of an earlier build and writes down why there is none."""
        reason, place = why(error), self.places[extension.name]
        (place / "_C.so").unlink(missing_ok=True)
        place.mkdir(parents=True, exist_ok=True)
        (place / "_build_error.txt").write_text(reason + "\n")
        print(f"srnn: installed without {extension.name}: {reason}", file=sys.stderr)


def why(error: Exception) -> str:
    """The failure in one line; the compiler's own messages have already gone to the terminal, if pip lets them through."""
    failed: BaseException | None = error
    while failed is not None and not isinstance(failed, subprocess.CalledProcessError):
        failed = failed.__cause__ or failed.__context__
    if failed is None:
        return " ".join(str(error).split())
    source = next((word for word in failed.cmd if word.endswith(".cpp")), "the library")
    return f"{failed.cmd[0]} failed with {source} (pip install -v shows its messages)"


def library(name: str, folder: Path, **options: object) -> Extension:
    headers = [path for path in {*KERNELS.iterdir(), *folder.iterdir()} if path.suffix != ".cpp"]
    return kernel_extension(
        name,
        sorted(map(str, folder.glob("*.cpp"))),
        depends=[*sorted(map(str, headers)), "setup.py"],
        extra_compile_args=COMPILE,
        extra_link_args=LINK,
        py_limited_api=True,
        optional=True,  # it need not be there after the build
        **options,
    )


setup(
    ext_modules=[
        library("srnn._C", KERNELS),
        library("srnn.lab.networks.scans._C", SCANS, include_dirs=[str(KERNELS.resolve())]),
    ],
    cmdclass={"build_ext": BuildLibraries},
    options={"bdist_wheel": {"py_limited_api": "cp310"}},
)
