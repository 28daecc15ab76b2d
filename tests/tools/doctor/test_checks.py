"""Each check passes on a machine that has its feature, and fails or warns on one that misses it."""

from __future__ import annotations

import multiprocessing
import os
import signal
from pathlib import Path

import pytest

import commitlog
from commitlog.tools.doctor import checks, machine, processes, storage
from commitlog.tools.doctor.finding import Verdict, Workspace, failed
from tests.tools.doctor import lacking
from tests.tools.doctor.lacking import examined

FAILED = Verdict.FAILED.value
WARNING = Verdict.WARNING.value

# The missing feature, the check that finds it, its verdict, and a word of its message.
LACKS = [
    ("allocation", "allocation", FAILED, "fails"),
    ("blocks", "allocation", FAILED, "allocated only 0 KiB"),
    ("rename", "round", FAILED, "not supported"),
    ("directories", "round", FAILED, "Invalid argument"),
    ("fdatasync", "round", FAILED, "not supported"),
    ("msync", "msync", FAILED, "fails"),
    ("device", "msync", WARNING, "too fast"),
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
        with Workspace.within(tmp_path) as workspace:
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
    monkeypatch.setattr("commitlog.base.file_system.file_system_type", lambda path: kind)
    monkeypatch.setattr(storage, "file_system_type", lambda path: kind)
    with Workspace.within(tmp_path) as workspace:
        assert storage.check_kind(workspace).verdict is verdict


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
    release, architecture, crc, verdict = case
    monkeypatch.setattr(machine.platform, "release", lambda: release)
    monkeypatch.setattr(machine.platform, "machine", lambda: architecture)
    monkeypatch.setattr(machine, "crc32c_implementation", lambda: crc)
    with Workspace.within(tmp_path) as workspace:
        assert machine.check_platform(workspace).verdict is verdict


def test_round_detects_a_record_that_differs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "_RECORDS", 50)
    with Workspace.within(tmp_path) as workspace:
        assert processes.check_round(workspace).verdict is Verdict.OK
    monkeypatch.setattr(processes, "_write", _write_wrongly)
    with Workspace.within(tmp_path) as workspace:
        finding = processes.check_round(workspace)
    assert finding.verdict is Verdict.FAILED
    assert "differs from what the writer appended" in finding.found


def _write_wrongly(path: str, writer: int) -> None:
    with commitlog.open(path) as log:
        for number in range(50):
            value = processes.content(writer, number)
            log.append(value + b"!" if number == 20 else value)


def test_dead_or_hanging_child_fails_the_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "_LIMIT_S", 0.5)
    monkeypatch.setattr(processes, "_write", _hang)
    with Workspace.within(tmp_path) as workspace:
        finding = processes.check_round(workspace)
    assert finding.verdict is Verdict.FAILED
    assert "did not end within 0.5 s" in finding.found
    assert multiprocessing.active_children() == []


def _hang(path: str, writer: int) -> None:
    signal.pause()


def test_round_is_skipped_after_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (last,) = (check for check in checks.CHECKS if check.name == "round")
    failing = checks.Check("fault", "", lambda workspace: failed("wrong", "mend it"))
    monkeypatch.setattr(checks, "CHECKS", (failing, last))
    with Workspace.within(tmp_path) as workspace:
        findings = [finding for _, finding in checks.examine(workspace)]
    assert [finding.verdict for finding in findings] == [Verdict.FAILED, Verdict.WARNING]
    assert "not run" in findings[1].found


def test_workspace_leaves_no_file_after_an_error(tmp_path: Path) -> None:
    def work() -> None:
        with Workspace.within(tmp_path) as workspace, workspace.file("file", 8):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work()
    assert os.listdir(tmp_path) == []
