"""Run the kernel's C tests under the address and undefined-behaviour sanitizers, and those with
threads under the thread sanitizer, too.

The kernel is compiled once for each session and sanitizer; each test is linked with it. The first
line of a test may hold one directive: `/* sources: crc32c.c */` names the kernel files to link
instead of all, `/* threads */` asks for the thread sanitizer.
"""

from __future__ import annotations

import functools
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
KERNEL = HERE.parents[1] / "commitlog" / "_kernel" / "c"
TESTS = sorted(HERE.glob("*_test.c"))
WARNINGS = ["-Wall", "-Wextra", "-Werror"]
FLAGS = [
    "-std=gnu11",
    "-O1",
    "-g1",
    *WARNINGS,
    "-pthread",
    "-fno-omit-frame-pointer",
    "-DCL_ASSERT",
    "-iquote",
    str(KERNEL),
]
ADDRESS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
# The thread sanitizer does not model the kernel's one fence, which guards a wake-up and no data.
THREAD = ["-fsanitize=thread", "-Wno-tsan"]
TIME_LIMIT_S = 250  # includes compiling the kernel, in the first test of a sanitizer


def special(test: Path) -> tuple[str, str]:
    """Return the directive in the test's first comment as (subject, rest)."""
    comment = test.read_text(encoding="utf-8").partition(" */")[0].replace("\n *", "")
    said = re.fullmatch(r"/\* (sources|threads)(?:: (.*))?", comment)
    return (said[1], said[2] or "") if said else ("", "")


def run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=TIME_LIMIT_S, cwd=cwd, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def fixed_addresses() -> list[str]:
    """Disable address randomization: older thread sanitizers fail where the system randomizes
    widely.
    """
    return ["setarch", platform.machine(), "-R"] if shutil.which("setarch") else []


@functools.cache
def thread_flags(folder: Path) -> tuple[str, ...]:
    """Return the thread sanitizer's flags, or `-O3` where it does not work, so that races can
    occur.
    """
    program = folder / "probe"
    (folder / "probe.c").write_text("int main(void) { return 0; }\n", encoding="utf-8")
    try:
        run("gcc", *THREAD, "probe.c", "-o", "probe", cwd=folder)
        run(*fixed_addresses(), program, cwd=folder)
    except AssertionError:
        return ("-O3",)
    return tuple(THREAD)


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Callable[[tuple[str, ...]], Path]:
    """Compile the kernel for a sanitizer, once a session, and return the folder of its object
    files.
    """

    @functools.cache
    def compile_kernel(sanitizer: tuple[str, ...]) -> Path:
        folder = tmp_path_factory.mktemp("kernel")
        sources = sorted(KERNEL.glob("*.c"))
        with ThreadPoolExecutor(os.cpu_count()) as executor:
            list(
                executor.map(
                    lambda source: run("gcc", *FLAGS, *sanitizer, "-c", source, cwd=folder), sources
                )
            )
        return folder

    return compile_kernel


def build_and_run(test: Path, sanitizer: tuple[str, ...], objects: Path, folder: Path) -> None:
    subject, names = special(test)
    chosen = (
        [objects / name.replace(".c", ".o") for name in names.split()]
        if subject == "sources"
        else sorted(objects.glob("*.o"))
    )
    program = folder / test.stem
    run("gcc", *FLAGS, *sanitizer, test, *chosen, "-o", program, cwd=folder)
    run(*(fixed_addresses() if "-fsanitize=thread" in sanitizer else []), program, cwd=folder)


@pytest.mark.parametrize("test", TESTS, ids=lambda test: test.stem)
def test_c_tests_pass_under_address_sanitizer(
    test: Path, compiled: Callable[[tuple[str, ...]], Path], tmp_path: Path
) -> None:
    build_and_run(test, tuple(ADDRESS), compiled(tuple(ADDRESS)), tmp_path)


@pytest.mark.parametrize(
    "test", [test for test in TESTS if special(test)[0] == "threads"], ids=lambda test: test.stem
)
def test_threaded_c_tests_pass_under_thread_sanitizer(
    test: Path, compiled: Callable[[tuple[str, ...]], Path], tmp_path: Path
) -> None:
    flags = thread_flags(tmp_path)
    build_and_run(test, flags, compiled(flags), tmp_path)


def names(objects: Path, which: str) -> list[tuple[str, str]]:
    """Return each name that the object files define or use, after the noun that does so."""
    listing = run("nm", "-A", "--extern-only", which, *sorted(objects.glob("*.o")), cwd=objects)
    return re.findall(r"(\w+)\.o:.* (\w+)$", listing, re.MULTILINE)


def test_kernel_includes_and_calls_have_no_circle(
    compiled: Callable[[tuple[str, ...]], Path],
) -> None:
    uses: dict[str, set[str]] = {}
    for path in KERNEL.glob("*.[ch]"):
        included = re.findall(r'^#include "(\w+)\.h"', path.read_text(), re.MULTILINE)
        uses.setdefault(path.stem, set()).update(included)
    objects = compiled(tuple(ADDRESS))
    definer = {name: noun for noun, name in names(objects, "--defined-only")}
    for noun, name in names(objects, "--undefined-only"):
        uses[noun].add(definer.get(name, noun))
    assert len(uses) > 30
    TopologicalSorter({noun: used - {noun} for noun, used in uses.items()}).prepare()
