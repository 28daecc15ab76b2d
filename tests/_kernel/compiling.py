"""Compiles C tests, and the kernel for them, once: `build/c-tests` keeps what was compiled until a
source changes.
"""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
KERNEL = ROOT / "commitlog" / "_kernel" / "c"
KEPT = ROOT / "build" / "c-tests"
FLAGS = (
    "-std=gnu11",
    "-g1",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-pthread",
    "-fno-omit-frame-pointer",
    "-DCL_ASSERT",
)
TIME_LIMIT_S = 250


@dataclass(frozen=True)
class Variant:
    """A way to compile the kernel and the tests.

    Attributes
    ----------
    flags : tuple of str
        Added to `FLAGS`.
    launcher : tuple of str
        The command that starts the programs.
    """

    name: str
    flags: tuple[str, ...]
    launcher: tuple[str, ...] = ()


ADDRESS = Variant("address", ("-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"))
PLAIN = Variant("plain", ("-O3",))


@functools.cache
def thread() -> Variant:
    """Return the thread sanitizer, or `PLAIN` where it does not work, so that races can occur."""
    # Older thread sanitizers fail where the system randomizes addresses widely.
    launcher = ("setarch", platform.machine(), "-R") if shutil.which("setarch") else ()
    # The thread sanitizer does not model the kernel's one fence, which guards a wake-up and no
    # data.
    variant = Variant("thread", ("-O1", "-fsanitize=thread", "-Wno-tsan"), launcher)
    try:
        with tempfile.TemporaryDirectory() as folder:
            probe = Path(folder, "probe.c")
            probe.write_text("int main(void) { return 0; }\n", encoding="utf-8")
            run("gcc", *variant.flags, probe, "-o", "probe", cwd=Path(folder))
            run(*launcher, Path(folder, "probe"), cwd=Path(folder))
    except AssertionError:
        return PLAIN
    return variant


def run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=TIME_LIMIT_S, cwd=cwd, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def built_kernel() -> list[Path]:
    """Return the kernel's library as `setup.py` built it last, or else a plain kernel's objects."""
    built = (ROOT / "build").rglob("libclkernel.a")
    newest = max(built, key=lambda path: path.stat().st_mtime_ns, default=None)
    return [newest] if newest else sorted(kernel(PLAIN).glob("*.o"))


@functools.cache
def kernel(variant: Variant) -> Path:
    """Compile the kernel and return the folder of its object files."""

    def compile_kernel(folder: Path) -> None:
        with ThreadPoolExecutor(os.cpu_count()) as executor:
            list(
                executor.map(
                    lambda source: run(
                        "gcc", *FLAGS, *variant.flags, *_includes(), "-c", source, cwd=folder
                    ),
                    sorted(KERNEL.glob("*.c")),
                )
            )

    return _kept(f"kernel-{variant.name}", variant.flags, KERNEL.glob("*.[ch]"), compile_kernel)


def program(source: Path, variant: Variant, objects: Sequence[Path]) -> Path:
    """Compile a test and link it with objects of the kernel."""

    def compile_program(folder: Path) -> None:
        # A test runs once: without optimization it compiles in half the time.
        flags = (*FLAGS, *variant.flags, "-O0", *_includes())
        run("gcc", *flags, source, *objects, "-o", source.stem, cwd=folder)

    inputs = [source, *objects, *KERNEL.glob("*.h"), *source.parent.glob("*.h")]
    name = f"{source.stem}-{variant.name}"
    return _kept(name, variant.flags, inputs, compile_program) / source.stem


def _includes() -> tuple[str, ...]:
    return ("-iquote", str(KERNEL), "-iquote", str(HERE))


@functools.cache
def _compiler_version() -> str:
    return run("gcc", "--version", cwd=HERE)


def _kept(
    name: str, flags: Iterable[str], inputs: Iterable[Path], make: Callable[[Path], None]
) -> Path:
    """Return the folder of this name that was made of these inputs. If there is none, make it and
    remove those made of others.
    """
    digest = hashlib.sha256(repr((_compiler_version(), FLAGS, *flags)).encode())
    for path in sorted(inputs):
        digest.update(path.name.encode() + path.read_bytes())
    folder = KEPT / f"{name}-{digest.hexdigest()[:16]}"
    if not folder.exists():
        for stale in KEPT.glob(f"{name}-*"):
            shutil.rmtree(stale, ignore_errors=True)
        KEPT.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(dir=KEPT))
        try:
            make(fresh)
            fresh.rename(folder)
        except OSError:  # another process made the same meanwhile
            assert folder.exists()
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    return folder
