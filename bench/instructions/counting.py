"""Builds `hot_paths.c` with the kernel, and counts what each of its paths executes."""

from __future__ import annotations

import os
import platform
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.instructions.counts import Counts
from setup import KERNEL_FLAGS

ROOT = Path(__file__).resolve().parents[2]
OPERATIONS = 2000
TIME_LIMIT_S = 120
COUNTER = "valgrind"
# In this order, since clang also calls itself an old gcc.
VERSION_MACROS = {
    "clang": ("__clang_major__", "__clang_minor__", "__clang_patchlevel__"),
    "gcc": ("__GNUC__", "__GNUC_MINOR__", "__GNUC_PATCHLEVEL__"),
}


class CountingError(Exception):
    """A program that counting needs is missing, or failed."""


def run(*command: str | Path, cwd: Path) -> str:
    """Run a program; what it printed."""
    try:
        done = subprocess.run(
            command, cwd=cwd, capture_output=True, text=True, timeout=TIME_LIMIT_S, check=False
        )
    except FileNotFoundError:
        raise CountingError(
            f"{command[0]} is missing: install it (Debian, Ubuntu: apt install "
            f"{Path(command[0]).name})"
        ) from None
    except subprocess.TimeoutExpired:
        raise CountingError(
            f"{shlex.join(map(str, command))} was not done after {TIME_LIMIT_S} s"
        ) from None
    if done.returncode != 0:
        raise CountingError(
            f"{shlex.join(map(str, command))} failed with status {done.returncode}:\n"
            f"{done.stdout}{done.stderr}"
        )
    return done.stdout


def compiler() -> list[str]:
    return shlex.split(os.environ.get("CC") or "gcc")


def compiler_version() -> str:
    """The compiler by name and version, as "gcc 12.2.0", from its macros: the name of its
    command differs between machines.
    """
    macros = dict(
        re.findall(
            r"#define (\w+) (\d+)", run(*compiler(), "-dM", "-E", "-x", "c", "/dev/null", cwd=ROOT)
        )
    )
    for name, parts in VERSION_MACROS.items():
        if parts[0] in macros:
            return f"{name} {'.'.join(macros[part] for part in parts)}"
    raise CountingError(f"{compiler()[0]} does not say which version it is: set CC to gcc or clang")


def build(
    folder: Path, flags: Sequence[str] = KERNEL_FLAGS, kernel: Sequence[Path] | None = None
) -> Path:
    """Compile the program into `folder`, with the flags of the kernel unless others are given.

    Parameters
    ----------
    kernel : sequence of Path, optional
        Object files of the kernel. [default: compile the kernel, too]
    """
    program = folder / "hot_paths"
    source = Path(__file__).with_name("hot_paths.c")
    others = kernel or sorted((ROOT / "commitlog" / "_kernel" / "c").glob("*.c"))
    # The tests' scene makes a log without Python.
    run(*compiler(), *flags, "-iquote", "tests/_kernel", source, *others, "-o", program, cwd=ROOT)
    return program


def hot_paths(program: Path) -> list[str]:
    return run(program, cwd=program.parent).split()


def total_of(report: str) -> int:
    """The instructions that a report of callgrind sums up."""
    found = re.search(r"^(?:summary|totals): (\d+)$", report, re.MULTILINE)
    if not found:
        raise CountingError(
            f"{COUNTER} wrote no sum: a version of it that this program does not know"
        )
    return int(found[1])


def count(program: Path, path: str, operations: int) -> tuple[int, str]:
    """Instructions of so many operations of a hot path, and the CRC that they used."""
    report = program.with_name("report")
    options = [
        "--tool=callgrind",
        "--toggle-collect=measured",
        f"--callgrind-out-file={report}",
        "--quiet",
    ]
    printed = run(COUNTER, *options, program, path, str(operations), cwd=program.parent)
    crc32c, _elapsed_ns = printed.split()
    return total_of(report.read_text()), crc32c


def count_all() -> Counts:
    """Count every hot path. What a call costs however much it does falls out: twice as many
    operations, less as many.
    """
    if shutil.which(COUNTER) is None:
        raise CountingError(
            f"{COUNTER} is missing: install it to count instructions (Debian, Ubuntu: apt install "
            f"{COUNTER})"
        )
    instructions = {}
    crc32c = ""
    with tempfile.TemporaryDirectory(prefix="instructions-") as folder:
        program = build(Path(folder))
        for path in hot_paths(program):
            once, crc32c = count(program, path, OPERATIONS)
            twice, _ = count(program, path, 2 * OPERATIONS)
            instructions[path] = round((twice - once) / OPERATIONS, 1)
    return Counts(compiler_version(), platform.machine(), list(KERNEL_FLAGS), crc32c, instructions)
