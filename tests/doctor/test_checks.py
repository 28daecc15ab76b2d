"""Each check passes on a machine that has its feature, and fails or warns on one that misses it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from commitlog.doctor import checks, round, storage, system
from commitlog.doctor.finding import Verdict
from commitlog.doctor.workspace import Workspace
from tests.doctor import lacking
from tests.doctor.lacking import examined

FAILED = Verdict.FAILED.value
WARNING = Verdict.WARNING.value

# The missing feature, the check that finds it, its verdict, and a word of its message.
LACKS = [
    ("allocation", "allocation", FAILED, "fails"),
    ("blocks", "allocation", FAILED, "allocated only 0 KiB"),
    ("rename", "rename", FAILED, "fails"),
    ("names", "rename", FAILED, "replaced an existing file"),
    ("directories", "directory sync", FAILED, "Invalid argument"),
    ("msync", "msync", FAILED, "fails"),
    ("fdatasync", "fdatasync", FAILED, "fails"),
    ("device", "msync", WARNING, "too fast"),
    ("device", "fdatasync", WARNING, "too fast"),
    ("locks", "locks", FAILED, "not supported"),
    ("holders", "locks", FAILED, "is not visible"),
    ("death", "locks", FAILED, "still held"),
    ("lock", "memory lock", WARNING, "fails"),
    ("memory", "shared memory", WARNING, "POSIX shared memory fails"),
]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lacking.build(tmp_path_factory.mktemp("faults"))


@pytest.mark.parametrize("case", LACKS, ids=lambda case: f"{case[0]}-{case[1]}")
def test_missing_feature_is_found(
    library: Path, tmp_path: Path, case: tuple[str, str, str, str]
) -> None:
    lacks, name, verdict, word = case
    (said,) = examined(tmp_path, name, library=library, lacks=lacks)
    assert said.verdict == verdict, said
    assert word in said.found
    assert said.advice
    assert os.listdir(tmp_path) == []


def test_checks_on_a_complete_machine_do_not_fail(library: Path, tmp_path: Path) -> None:
    names = sorted({name for _, name, _, _ in LACKS})
    said = examined(tmp_path, *names, library=library, lacks="nothing")
    assert [each.verdict for each in said if each.verdict == FAILED] == [], said


def test_low_limit_of_open_files_fails_or_warns(tmp_path: Path) -> None:
    (said,) = examined(tmp_path, "open files", launcher=("prlimit", "--nofile=40"))
    assert said.verdict == FAILED
    (said,) = examined(tmp_path, "open files", launcher=("prlimit", "--nofile=256"))
    assert said.verdict == WARNING


def test_little_free_space_warns_or_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    space = os.statvfs(tmp_path)
    for free, verdict in (
        (1 << 20, Verdict.FAILED),
        (64 << 20, Verdict.WARNING),
        (1 << 40, Verdict.OK),
    ):
        fields = list(space)
        fields[4] = free // space.f_frsize
        monkeypatch.setattr(
            storage.os, "statvfs", lambda path, fields=tuple(fields): os.statvfs_result(fields)
        )
        with Workspace(tmp_path) as workspace:
            assert storage.check_room(workspace).verdict is verdict


@pytest.mark.parametrize(
    ("kind", "verdict"),
    [
        (0x6969, Verdict.FAILED),
        (0x65735546, Verdict.FAILED),
        (0x01021994, Verdict.WARNING),
        (0x9123683E, Verdict.WARNING),
        (0xEF53, Verdict.OK),
    ],
)
def test_each_file_system_type_gets_its_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: int, verdict: Verdict
) -> None:
    monkeypatch.setattr("commitlog.segment.directory.file_system_type", lambda path: kind)
    monkeypatch.setattr(storage, "file_system_type", lambda path: kind)
    with Workspace(tmp_path) as workspace:
        assert storage.check_kind(workspace).verdict is verdict


@pytest.mark.parametrize(
    ("setting", "value", "check"),
    [
        (
            "/sys/devices/system/clocksource/clocksource0/current_clocksource",
            "hpet",
            system.check_clock,
        ),
    ],
)
def test_slow_clock_or_strict_overcommit_warns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str, value: str, check: object
) -> None:
    monkeypatch.setattr(system, "_setting", lambda path: value if path == setting else None)
    with Workspace(tmp_path) as workspace:
        assert check(workspace).verdict is Verdict.WARNING  # type: ignore[operator]


@pytest.mark.parametrize(
    "case",
    [
        ("3.10.0-1160.el7", "x86_64", "sse42", Verdict.FAILED),
        ("6.1.0", "riscv64", "portable", Verdict.FAILED),
        ("5.4.0-generic", "aarch64", "armv8", Verdict.WARNING),
        ("6.1.0-13-cloud", "x86_64", "portable", Verdict.WARNING),
        ("6.1.0-13-cloud", "x86_64", "sse42-pclmul", Verdict.OK),
    ],
)
def test_kernel_processor_and_crc_get_their_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: tuple[str, str, str, Verdict]
) -> None:
    release, machine, crc, verdict = case
    monkeypatch.setattr(system.platform, "release", lambda: release)
    monkeypatch.setattr(system.platform, "machine", lambda: machine)
    monkeypatch.setattr(system, "crc32c_implementation", lambda: crc)
    with Workspace(tmp_path) as workspace:
        assert system.check_platform(workspace).verdict is verdict


def test_unreadable_boot_id_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> bytes:
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(system, "boot_id", refuse)
    with Workspace(tmp_path) as workspace:
        assert system.check_boot_id(workspace).verdict is Verdict.FAILED


def test_round_detects_a_record_that_differs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = round.content
    monkeypatch.setattr(round, "_RECORDS", 50)
    with Workspace(tmp_path) as workspace:
        assert round.check_round(workspace).verdict is Verdict.OK
    reader = os.getpid()
    monkeypatch.setattr(round, "_write", lambda path, writer: _write_wrongly(path, writer, honest))
    with Workspace(tmp_path) as workspace:
        outcome = round.check_round(workspace)
    assert os.getpid() == reader
    assert outcome.verdict is Verdict.FAILED
    assert "differs from what the writer appended" in outcome.found


def _write_wrongly(path: str, writer: int, honest: object) -> None:
    import commitlog

    with commitlog.open(path) as log:
        for number in range(50):
            value = honest(writer, number)  # type: ignore[operator]
            log.append(value + b"!" if number == 20 else value)


def test_round_is_skipped_after_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> bytes:
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(system, "boot_id", refuse)
    kept = [check for check in checks.CHECKS if check.name in ("boot id", "round")]
    monkeypatch.setattr(checks, "CHECKS", kept)
    with Workspace(tmp_path) as workspace:
        findings = list(checks.examine(workspace))
    assert [finding.verdict for finding in findings] == [Verdict.FAILED, Verdict.WARNING]
    assert "not run" in findings[1].found
