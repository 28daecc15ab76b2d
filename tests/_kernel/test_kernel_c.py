"""Run the kernel's C tests under the address and undefined-behaviour sanitizers, and those with
threads under the thread sanitizer, too.

The first line of a test may hold one directive: `/* sources: crc32c.c */` names the kernel files to
link instead of all, `/* threads */` asks for the thread sanitizer, and `/* steps */` says that the
test drives a process instruction by instruction. It drives the kernel as it was built, without a
sanitizer, which multiplies the instructions; `make test-long` drives a sanitized one.
"""

from __future__ import annotations

import re
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests._kernel.compiling import (
    ADDRESS,
    HERE,
    KERNEL,
    PLAIN,
    Variant,
    built_kernel,
    kernel,
    program,
    run,
    thread,
)

TESTS = sorted(HERE.glob("*_test.c"))


def special(test: Path) -> tuple[str, str]:
    """Return the directive in the test's first comment as (subject, rest)."""
    comment = test.read_text(encoding="utf-8").partition(" */")[0].replace("\n *", "")
    said = re.fullmatch(r"/\* (sources|threads|steps)(?:: (.*))?", comment)
    return (said[1], said[2] or "") if said else ("", "")


def asking_for(subject: str) -> list[Path]:
    return [test for test in TESTS if special(test)[0] == subject]


def build_and_run(test: Path, variant: Variant, folder: Path) -> None:
    objects = kernel(variant)
    subject, names = special(test)
    chosen = (
        [objects / name.replace(".c", ".o") for name in names.split()]
        if subject == "sources"
        else sorted(objects.glob("*.o"))
    )
    run(*variant.launcher, program(test, variant, chosen), cwd=folder)


@pytest.mark.parametrize(
    "test",
    [
        pytest.param(test, marks=[pytest.mark.long] if test in asking_for("steps") else [])
        for test in TESTS
    ],
    ids=lambda test: test.stem,
)
def test_c_tests_pass_under_address_sanitizer(test: Path, tmp_path: Path) -> None:
    build_and_run(test, ADDRESS, tmp_path)


@pytest.mark.parametrize("test", asking_for("threads"), ids=lambda test: test.stem)
def test_threaded_c_tests_pass_under_thread_sanitizer(test: Path, tmp_path: Path) -> None:
    build_and_run(test, thread(), tmp_path)


@pytest.mark.parametrize("test", asking_for("steps"), ids=lambda test: test.stem)
def test_each_step_of_the_built_kernel_can_be_the_last(test: Path, tmp_path: Path) -> None:
    run(program(test, PLAIN, built_kernel()), cwd=tmp_path)


def names(objects: Path, which: str) -> list[tuple[str, str]]:
    """Return each name that the object files define or use, after the noun that does so."""
    listing = run("nm", "-A", "--extern-only", which, *sorted(objects.glob("*.o")), cwd=objects)
    return re.findall(r"(\w+)\.o:.* (\w+)$", listing, re.MULTILINE)


def test_kernel_includes_and_calls_have_no_circle() -> None:
    uses: dict[str, set[str]] = {}
    for path in KERNEL.glob("*.[ch]"):
        included = re.findall(r'^#include "(\w+)\.h"', path.read_text(), re.MULTILINE)
        uses.setdefault(path.stem, set()).update(included)
    objects = kernel(ADDRESS)
    definer = {name: noun for noun, name in names(objects, "--defined-only")}
    for noun, name in names(objects, "--undefined-only"):
        uses[noun].add(definer.get(name, noun))
    assert len(uses) > 30
    TopologicalSorter({noun: used - {noun} for noun, used in uses.items()}).prepare()
