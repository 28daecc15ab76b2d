"""Instruction counts: the programs do what is counted, and a count that grew by more than 5 %
fails.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from bench.instructions import __main__ as command
from bench.instructions import counting
from bench.instructions.counting import CountingError
from bench.instructions.counts import KEPT, Counts, changes
from setup import KERNEL_FLAGS
from tests._kernel.compiling import ADDRESS, kernel
from tests.length import mixed

COUNTS = Counts("gcc 12.2.0", "x86_64", ["-O3"], "sse42", {"append": 100.0, "read": 50.0})
Counted = Callable[[Counts | Exception], None]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program, under the address and undefined-behaviour sanitizers."""
    objects = sorted(kernel(ADDRESS).glob("*.o"))
    flags = [*KERNEL_FLAGS, *ADDRESS.flags]
    return counting.build(tmp_path_factory.mktemp("program"), flags, objects)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    """Return a function that sets what the command will have counted."""

    def say(result: Counts | Exception) -> None:
        def count_all() -> Counts:
            if isinstance(result, Exception):
                raise result
            return result

        monkeypatch.setattr(command, "count_all", count_all)

    return say


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    file = tmp_path / "counts.json"
    COUNTS.save(file)
    return file


@pytest.mark.parametrize(
    ("path", "operations"), mixed(Counts.load(KEPT).instructions, [1, 2, 300], of=3)
)
def test_hot_path_program_runs_clean_under_sanitizers(
    program: Path, path: str, operations: int
) -> None:
    printed = counting.run(program, path, str(operations), cwd=program.parent)
    crc32c, elapsed_ns = printed.split()
    assert crc32c in ("sse42", "armv8")
    assert float(elapsed_ns) > 0


def test_every_hot_path_has_a_kept_count(program: Path) -> None:
    kept = Counts.load(KEPT)
    assert list(kept.instructions) == counting.hot_paths(program)
    assert all(number > 0 for number in kept.instructions.values())
    assert kept.flags == KERNEL_FLAGS


@pytest.mark.parametrize(
    "arguments",
    [
        ("no such path", "1"),
        ("read", "0"),
        ("read", "-1"),
        ("read", "1000000000"),
        ("read", "x"),
        ("read",),
    ],
)
def test_program_refuses_invalid_arguments(program: Path, arguments: tuple[str, ...]) -> None:
    with pytest.raises(CountingError, match="failed with status"):
        counting.run(program, *arguments, cwd=program.parent)


def test_compiler_version_has_a_name_and_a_version() -> None:
    name, version = counting.compiler_version().split()
    assert name in ("gcc", "clang")
    assert [part.isdigit() for part in version.split(".")] == [True] * 3


def test_sum_of_a_report_is_parsed() -> None:
    for name in ("summary", "totals"):
        assert counting.total_of(f"events: Ir\nfn=(1) f\n3 45\n{name}: 12345\n") == 12345
    with pytest.raises(CountingError, match="wrote no sum"):
        counting.total_of("events: Ir\n\nfn=(1) f\n3 45\n")


def test_missing_counter_is_named_with_its_package(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert command.main(["--check"]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.count("\n") == 1
    assert "apt install valgrind" in output.err


def test_missing_compiler_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CC", str(tmp_path / "gcc-99"))
    with pytest.raises(CountingError, match="gcc-99 is missing"):
        counting.build(tmp_path)


@pytest.mark.parametrize(
    ("path", "now", "verdict", "fails"),
    [
        ("append", 100.0, "", False),
        ("append", 105.0, "", False),
        ("append", 105.1, "more", True),
        ("append", 95.0, "", False),
        ("append", 94.9, "fewer", False),
        ("append", 200.0, "more", True),
        ("walk", 1.0, "not kept yet", True),
    ],
)
def test_increase_over_five_percent_fails(path: str, now: float, verdict: str, fails: bool) -> None:
    change = next(
        row
        for row in changes(COUNTS, replace(COUNTS, instructions={**COUNTS.instructions, path: now}))
        if row.path == path
    )
    assert (change.verdict, change.fails) == (verdict, fails)


def test_hot_path_without_a_count_fails() -> None:
    gone = changes(COUNTS, replace(COUNTS, instructions={"append": 100.0}))[-1]
    assert (gone.path, gone.verdict, gone.fails) == ("read", "not counted any more", True)


APPEND_106 = replace(COUNTS, instructions={"append": 106.0, "read": 50.0})
FEWER = replace(COUNTS, instructions={"append": 60.0, "read": 50.0})
OTHER_FIGURES = {"append": 1000.0}
NOT_COMPARED = "not compared: the kept counts are of gcc 12.2.0 on x86_64"


@pytest.mark.parametrize(
    "case",
    [
        ("--check", replace(COUNTS, compiler="gcc 12.3.1"), 0, "append"),
        ("--check", APPEND_106, 1, "1.060  more\n"),
        ("--check", FEWER, 0, "became shorter"),
        *(
            ("--check", replace(COUNTS, instructions=OTHER_FIGURES, **other), 0, NOT_COMPARED)
            for other in (
                {"compiler": "gcc 13.1.0"},
                {"compiler": "clang 12.2.0"},
                {"machine": "aarch64"},
            )
        ),
        ("--update", replace(COUNTS, compiler="gcc 14.1.0", instructions={"append": 300.0}), 0, ""),
        ("--update", CountingError("it broke"), 2, ""),
    ],
)
def test_command_compares_counts_or_keeps_new_ones(
    counted: Counted,
    kept: Path,
    capsys: pytest.CaptureFixture[str],
    case: tuple[str, Counts | Exception, int, str],
) -> None:
    argument, result, status, said = case
    counted(result)
    assert command.main([argument], kept) == status
    output = capsys.readouterr()
    assert said in output.out
    assert ("--update" in output.err) == (status == 1)
    updated = argument == "--update" and status == 0
    assert Counts.load(kept) == (result if updated else COUNTS)


def test_check_without_kept_counts_fails(counted: Counted, tmp_path: Path) -> None:
    counted(COUNTS)
    assert command.main(["--check"], tmp_path / "nothing.json") == 1
