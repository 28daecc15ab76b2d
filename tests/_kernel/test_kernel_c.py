"""The kernel's own C tests, each compiled with the sources it names and run under the address and undefined-behaviour sanitizers."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
KERNEL = HERE.parents[1] / "commitlog" / "_kernel"
FLAGS = [
    "-std=gnu11",
    "-O1",
    "-g",
    "-Wall",
    "-Wextra",
    "-pthread",
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
    "-fno-omit-frame-pointer",
]
TIME_LIMIT_S = 100


def kernel_sources(test: Path) -> list[Path]:
    """The files named in the test's first line, as in `/* sources: crc32c.c futex.c */`; all of the kernel's where it names none."""
    first_line = test.read_text(encoding="utf-8").partition("\n")[0]
    named = re.fullmatch(r"/\* sources: (.*) \*/", first_line)
    return [KERNEL / name for name in named[1].split()] if named else sorted(KERNEL.glob("*.c"))


@pytest.mark.parametrize("test", sorted(HERE.glob("*_test.c")), ids=lambda test: test.stem)
def test_kernel_passes_its_c_tests_under_sanitizers(test: Path, tmp_path: Path) -> None:
    program = tmp_path / test.stem
    sources = [str(source) for source in kernel_sources(test)]
    compiled = subprocess.run(
        ["gcc", *FLAGS, "-iquote", str(KERNEL), str(test), *sources, "-o", str(program)],
        capture_output=True,
        text=True,
        timeout=TIME_LIMIT_S,
        check=False,
    )
    assert compiled.returncode == 0, compiled.stderr
    run = subprocess.run([str(program)], capture_output=True, text=True, timeout=TIME_LIMIT_S, cwd=tmp_path, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
