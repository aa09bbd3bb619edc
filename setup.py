"""Compiles `srnn/kernels/csrc/*.cpp` to `srnn/_C.so`; all else about the package stands in pyproject.toml.

Where torch, a compiler or a header is missing the package installs all the same, on its plain PyTorch backend. The reason is
printed, and kept in `srnn/_build_error.txt` for `srnn doctor`.
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
    TORCH_ERROR = f"torch could not be imported during the build ({error}); it must be there first"
    kernel_build, kernel_extension = build_ext, Extension
else:
    TORCH_ERROR = ""
    # A library that torch loads, not a Python module: plain _C.so, the same for every Python.
    kernel_build = BuildExtension.with_options(no_python_abi_suffix=True, use_ninja=False)
    kernel_extension = CppExtension

CSRC = Path("srnn/kernels/csrc")
COMPILE = [
    "-std=c++17",
    "-O3",
    "-g0",
    "-Wall",
    "-Wno-psabi",  # vectors are passed only between functions of one file
    "-fvisibility=hidden",
    # The stable ABI of torch 2.10: without this line the library would need the very torch that it was built with.
    "-DTORCH_TARGET_VERSION=0x020a000000000000",
    # The same bits on every x86 machine, products of matrices aside: no fused multiply-add, and no -march=native, the
    # instruction set is chosen at run time. The other two let the compiler vectorise and change no result.
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
]
LINK = ["-Wl,--as-needed", "-s"] if sys.platform == "linux" else []


class BuildKernel(kernel_build):
    """Builds the library, or says why not; never fails the installation."""

    def run(self) -> None:
        package = Path(self.get_ext_fullpath("srnn._C")).parent  # the source tree itself when installed with -e
        library, note = package / "_C.so", package / "_build_error.txt"
        note.unlink(missing_ok=True)
        try:
            super().run()
        except Exception as error:  # whatever it was: the package works without the library
            reason = why(error)
            library.unlink(missing_ok=True)  # of an earlier build
            package.mkdir(parents=True, exist_ok=True)
            note.write_text(reason + "\n")
            self.extensions = []
            print(f"srnn: installed without its compiled kernel: {reason}", file=sys.stderr)

    def build_extensions(self) -> None:
        if TORCH_ERROR:
            raise PlatformError(TORCH_ERROR)
        compiler = getattr(self.compiler, "compiler_cxx", None)
        if compiler is None:
            raise PlatformError(f"the kernel is not built with the {self.compiler.compiler_type} compiler")
        if shutil.which(compiler[0]) is None:
            raise PlatformError(f"no C++ compiler was found (looked for {compiler[0]})")
        compile_one_by_one = self.compiler.compile

        def compile_side_by_side(sources: list[str], **options: object) -> list[str]:
            with ThreadPoolExecutor() as pool:
                return [
                    built
                    for part in pool.map(lambda source: compile_one_by_one([source], **options), sources)
                    for built in part
                ]

        self.compiler.compile = compile_side_by_side
        super().build_extensions()


def why(error: Exception) -> str:
    """The failure in one line; the compiler's own messages have already gone to the terminal, if pip lets them through."""
    if isinstance(error, subprocess.CalledProcessError):
        source = next((word for word in error.cmd if word.endswith(".cpp")), "the library")
        return f"{error.cmd[0]} failed with {source} (pip install -v shows its messages)"
    return " ".join(str(error).split())


setup(
    ext_modules=[
        kernel_extension(
            "srnn._C",
            sorted(str(path) for path in CSRC.glob("*.cpp")),
            depends=[*sorted(str(path) for path in CSRC.iterdir() if path.suffix != ".cpp"), "setup.py"],
            extra_compile_args=COMPILE,
            extra_link_args=LINK,
            py_limited_api=True,
        )
    ],
    cmdclass={"build_ext": BuildKernel},
    options={"bdist_wheel": {"py_limited_api": "cp310"}},
)
