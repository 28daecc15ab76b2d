"""Builds the kernel: its plain C files once, into a static library, and an extension module for
each `.pyx`.

A `.pyx` includes its parts, the `.pxi` files.

Everything that can be said declaratively stands in `pyproject.toml`.
"""

from __future__ import annotations

import os
import platform
import re
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from setuptools import Extension, setup
from setuptools.command.build import build
from setuptools.command.build_clib import build_clib
from setuptools.command.build_ext import build_ext

# Assertions in C, for tests: `make test` sets this. Such a kernel is compiled in a folder of its
# own, so that it and the release kernel take each other's place by a copy.
ASSERTS = bool(os.environ.get("COMMITLOG_ASSERT"))
MACHINES = ("x86_64", "aarch64")
KERNEL = Path("commitlog/_kernel")
C_KERNEL = KERNEL / "c"
# The wings' own modules, above the kernel's, with C files of their own.
WINGS = [Path("commitlog/queues/compiled"), Path("commitlog/topics/compiled")]
C_API = "commitlog/include/commitlog/capi.h"
GENERATED = Path("build/cython")
# The interpreter's own flags ask for debug data, which is nine tenths of a module and a third of
# the time to compile it.
DEBUG_FLAGS = [] if "CFLAGS" in os.environ else ["-g0"]
ASSERT_FLAGS = ["-DCL_ASSERT"] if ASSERTS else []
PROFILE_FLAGS = ["-std=gnu11", "-O3", "-fPIC", "-fvisibility=hidden", "-pthread"]
WARNING_FLAGS = ["-Wall", "-Wextra", "-Wno-unused-parameter"]
# `-iquote` and not `-I`, so that the kernel's memory.h is never taken for the C library's
# <memory.h>.
KERNEL_FLAGS = [
    *PROFILE_FLAGS,
    *WARNING_FLAGS,
    "-Wshadow",
    "-Wstrict-prototypes",
    "-iquote",
    str(C_KERNEL),
]
# What Cython generates is not ours to tidy: unused helpers and sign comparisons are its own. With
# -O2 it compiles a fifth faster, but a plain append executes a sixth more instructions. For tests,
# the last -O wins: a third of the time to compile, while the C kernel itself is optimized as
# released.
MODULE_FLAGS = [
    *PROFILE_FLAGS,
    *(["-O0"] if ASSERTS else []),
    *WARNING_FLAGS,
    "-Wno-unused-function",
    "-Wno-sign-compare",
    "-iquote",
    str(C_KERNEL),
    "-iquote",
    "commitlog/include",
    *(flag for wing in WINGS for flag in ("-iquote", str(wing))),
]
# In Markdown: `!` for a picture, the text, the target.
RELATIVE_LINK = re.compile(r"(!?)\[([^\]]+)\]\((?![a-z]+:|#)([^)\s]+)\)")
DIRECTIVES = {
    "language_level": "3str",
    "autotestdict": False,
    "binding": False,
    "boundscheck": False,
    "wraparound": False,
    "cdivision": True,
    "embedsignature": True,
    "embedsignature.format": "clinic",
}


def refuse_other_platforms() -> None:
    """Stop with one clear line where commitlog cannot run."""
    machine = platform.machine()
    if sys.platform != "linux" or machine not in MACHINES:
        raise SystemExit(
            f"commitlog runs on Linux only ({' and '.join(MACHINES)}): it cannot be built on "
            f"{sys.platform} {machine}."
        )


def kernel_files(*suffixes: str) -> list[str]:
    return sorted(str(path) for suffix in suffixes for path in KERNEL.rglob(f"*{suffix}"))


def folder_files(folder: Path) -> list[str]:
    return sorted(str(path) for suffix in ("pxi", "[ch]") for path in folder.glob(f"*.{suffix}"))


def is_stale(product: str | Path, sources: list[str]) -> bool:
    """Whether `product` is missing or older than one of `sources`."""
    product = Path(product)
    return not product.exists() or product.stat().st_mtime_ns < max(
        Path(source).stat().st_mtime_ns for source in sources
    )


class Build(build):
    """Keeps what is compiled in `build/`, for an editable installation too.

    setuptools gives that one a temporary folder, in which nothing is built yet.
    """

    def initialize_options(self) -> None:
        super().initialize_options()
        if ASSERTS:
            self.build_base = "build/asserts"

    def finalize_options(self) -> None:
        if "editable_wheel" in self.distribution.commands:
            self.build_temp = self.build_lib = self.build_platlib = None
        super().finalize_options()


class BuildKernelLibrary(build_clib):
    """Compiles what has changed, several files at a time, and archives it anew."""

    def build_libraries(self, libraries: list[tuple[str, dict[str, Any]]]) -> None:
        for name, build_info in libraries:
            archive = Path(self.build_clib, self.compiler.library_filename(name))
            objects = self._compile_stale(build_info)
            if self.force or not archive.exists() or is_stale(archive, objects):
                archive.unlink(
                    missing_ok=True
                )  # `ar` would keep the members whose sources are gone
                self.compiler.create_static_lib(
                    objects, name, output_dir=self.build_clib, debug=self.debug
                )

    def _compile_stale(self, build_info: dict[str, Any]) -> list[str]:
        sources = build_info["sources"]
        objects = self.compiler.object_filenames(sources, output_dir=self.build_temp)
        work = [
            source
            for source, product in zip(sources, objects, strict=True)
            if self.force or is_stale(product, [source, *build_info["depends"]])
        ]
        with ThreadPoolExecutor(os.cpu_count()) as executor:
            list(executor.map(lambda source: self._compile(source, build_info["cflags"]), work))
        return objects

    def _compile(self, source: str, flags: list[str]) -> None:
        self.compiler.compile(
            [source], output_dir=self.build_temp, debug=self.debug, extra_postargs=flags
        )


class BuildKernelModules(build_ext):
    """Builds the static library first (setuptools does not, for `--inplace`) and the modules
    several at a time.
    """

    def finalize_options(self) -> None:
        super().finalize_options()
        self.parallel = self.parallel or os.cpu_count()

    def run(self) -> None:
        if self.distribution.libraries:
            library = self.get_finalized_command("build_clib")
            library.force = library.force or self.force
            self.run_command("build_clib")
        super().run()

    def copy_extensions_to_source(self) -> None:
        # What stands there may be newer and still the other kernel: with assertions, or without.
        self.force = True
        super().copy_extensions_to_source()


def kernel_libraries() -> list[tuple[str, dict[str, Any]]]:
    sources = kernel_files(".c")
    if not sources:
        return []
    return [
        (
            "clkernel",
            {
                "sources": sources,
                "depends": [*kernel_files(".h"), "setup.py"],
                "cflags": [*KERNEL_FLAGS, *DEBUG_FLAGS, *ASSERT_FLAGS],
            },
        )
    ]


def kernel_modules() -> list[Extension]:
    sources = [*kernel_files(".pyx"), *(str(path) for wing in WINGS for path in wing.glob("*.pyx"))]
    if not sources:
        return []
    # Imported here: `setup.py --version` and a source distribution without modules need no Cython.
    from Cython.Build import cythonize

    modules = [
        Extension(
            ".".join(Path(source).with_suffix("").parts),
            [source, *sorted(map(str, Path(source).parent.glob("*.c")))],
            extra_compile_args=[*MODULE_FLAGS, *DEBUG_FLAGS, *ASSERT_FLAGS],
            extra_link_args=["-pthread"],
        )
        for source in sources
    ]
    parts = kernel_files(".c", ".h", ".pxd", ".pxi")
    own = {name: folder_files(Path(*name.split(".")[:-1])) for name in (m.name for m in modules)}
    modules = cythonize(
        modules,
        build_dir=str(GENERATED),
        compiler_directives=DIRECTIVES,
        nthreads=os.cpu_count() or 1,
        quiet=True,
    )
    for module in modules:
        # The archive is linked into every module, so each depends on every C file. This comes after
        # cythonize, which copies known dependencies into GENERATED, where the kernel's C files
        # would be mistaken for its own.
        module.depends = [*parts, *own[module.name], C_API, "setup.py"]
    return modules


def long_description() -> str:
    """Return the README for a package index, where a relative link leads nowhere.

    A relative link becomes a link below the project's URL `Source`. Without that URL it becomes the
    name of its page, and a picture its caption.
    """
    with Path("pyproject.toml").open("rb") as file:
        base = tomllib.load(file)["project"].get("urls", {}).get("Source", "").rstrip("/")

    def absolute(link: re.Match[str]) -> str:
        picture, text, target = link.groups()
        if base:
            return f"{picture}[{text}]({base}/{'raw' if picture else 'blob'}/HEAD/{target})"
        return f"*{text}*" if picture else f"{text} (`{target.partition('#')[0]}`)"

    return RELATIVE_LINK.sub(absolute, Path("README.md").read_text(encoding="utf-8"))


if __name__ == "__main__":
    refuse_other_platforms()
    os.chdir(Path(__file__).resolve().parent)
    setup(
        libraries=kernel_libraries(),
        ext_modules=kernel_modules(),
        long_description=long_description(),
        long_description_content_type="text/markdown",
        cmdclass={
            "build": Build,
            "build_clib": BuildKernelLibrary,
            "build_ext": BuildKernelModules,
        },
    )
