"""The plugin of pytest that comes with the package."""

from __future__ import annotations

from importlib.metadata import entry_points

import commitlog
import pytest_commitlog

commitlog_log = pytest_commitlog.commitlog_log


def test_fixture_is_an_empty_open_log(commitlog_log: commitlog.CommitLog) -> None:
    assert list(commitlog_log) == []
    commitlog_log.append(b"value")
    assert len(list(commitlog_log)) == 1


def test_pytest_finds_the_plugin_by_the_package() -> None:
    (found,) = entry_points(group="pytest11", name="commitlog")
    assert found.value == "pytest_commitlog"
