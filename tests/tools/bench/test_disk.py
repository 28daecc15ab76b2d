"""Plain writes, and waiting until the disk is idle."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest

from commitlog.tools.bench import disk
from commitlog.tools.bench.case import QUICK
from commitlog.tools.bench.disk import settle, unwritten_bytes, write_plainly
from commitlog.tools.bench.harness import run
from commitlog.tools.bench.workloads import WORKLOADS, choose
from tests.tools.bench.made import SILENT


def test_plain_writes_fill_the_file(tmp_path: Path) -> None:
    assert write_plainly(tmp_path / "file", 3 << 20) > 0
    assert (tmp_path / "file").stat().st_size == 3 << 20


def test_settle_waits_until_little_is_unwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = iter([64 << 20, 9 << 20, 1 << 20])
    monkeypatch.setattr(disk, "unwritten_bytes", lambda: next(looks))
    settle(tmp_path, 10)
    assert next(looks, None) is None


def test_settle_ends_on_a_system_that_is_never_idle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk, "unwritten_bytes", lambda: 1 << 40)
    assert settle(tmp_path, 0.05) >= 0.05
    assert settle(tmp_path, 0) == 0


def test_unwritten_bytes_are_read_from_the_system() -> None:
    assert 0 <= unwritten_bytes() < os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def test_system_without_counters_counts_as_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object, **_options: object) -> str:
        raise FileNotFoundError

    monkeypatch.setattr(Path, "read_text", refuse)
    assert unwritten_bytes() == 0


def test_only_workloads_that_wait_for_the_disk_settle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settled: list[float] = []
    monkeypatch.setattr(
        "commitlog.tools.bench.harness.settle", lambda _directory, limit_s: settled.append(limit_s)
    )
    assert [one.name for one in WORKLOADS if not one.settles] == ["append"]
    chosen = [(one, cases[:2]) for one, cases in choose(["append", "sustained"], ["mapped"])]
    run(tmp_path, chosen, dataclasses.replace(QUICK, settle_s=3.0), *SILENT)
    assert settled == [3.0, 3.0]  # the case and its baseline
