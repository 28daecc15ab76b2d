"""Paths as arguments: what every call accepts as a path."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import commitlog
from commitlog import Retention, Store, keep
from commitlog.base.path import make_directory, path_of
from commitlog.errors import InvalidOptionError, IOFailureError, LogNotFoundError, NotALogError
from commitlog.repair.repair import repair
from commitlog.repair.verification import verify
from tests.setups import SEGMENT

TAKERS: dict[str, Callable[[Any], object]] = {
    "open": commitlog.open,
    "prune": lambda path: keep.prune(path, Retention(max_bytes=0)),
    "archive_segments": lambda path: keep.archive_segments(path, Store("archive")),
    "verify": verify,
    "repair": repair,
}


def _bus(name: str) -> Callable[[Any], object]:
    def take(path: Any) -> object:
        from commitlog import bus

        return getattr(bus, name)(path)

    return take


def _watch(path: Any) -> object:
    from commitlog.tools.observe.watching import LogWatch

    return LogWatch(path).look()


OF_WINGS: dict[str, Callable[[Any], object]] = {
    "bus.writer": _bus("writer"),
    "bus.reader": _bus("reader"),
    "LogWatch": _watch,
}
in_wings = [pytest.param(name, marks=pytest.mark.wing) for name in OF_WINGS]


@pytest.mark.parametrize(
    "path", ["", "a\0b", "\ud800", b"a\0b", None, 5, 1.5, ["log"], {}], ids=repr
)
@pytest.mark.parametrize("taker", [*TAKERS, *in_wings])
def test_invalid_path_is_refused_by_every_call(taker: str, path: Any) -> None:
    with pytest.raises(InvalidOptionError, match="path must"):
        (TAKERS | OF_WINGS)[taker](path)


def test_path_of_a_str_subclass_becomes_str(tmp_path: Path) -> None:
    """A column of paths holds numpy.str_; the kernel takes only str."""
    path = np.str_(tmp_path / "log")
    assert type(path_of(path)) is str
    with commitlog.open(path, segment_size=SEGMENT) as log:
        log.append(b"x")
    with commitlog.open(path, mode="r") as log:
        assert log.count() == 1


@pytest.mark.parametrize("taker", ["prune", "archive_segments", "verify", "repair", in_wings[-1]])
def test_path_refused_by_system_raises_commitlog_error(taker: str, tmp_path: Path) -> None:
    with pytest.raises(IOFailureError, match="File name too long"):
        (TAKERS | OF_WINGS)[taker](tmp_path / ("x" * 300))
    (tmp_path / "log.json").mkdir()
    with pytest.raises((IOFailureError, NotALogError), match=r"Is a directory|log\.json"):
        (TAKERS | OF_WINGS)[taker](tmp_path)


def test_bytes_are_accepted_as_a_path(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path / "log")
    commitlog.open(path, segment_size=SEGMENT).close()
    assert verify(path).sound
    assert keep.prune(path, Retention(max_bytes=0)).segments == ()
    with pytest.raises(LogNotFoundError):
        verify(path + b"x")


def test_chdir_after_relative_open_leaves_log_usable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, until: Callable[..., None]
) -> None:
    """A daemon changes to the root directory."""
    monkeypatch.chdir(tmp_path)
    with commitlog.open("log", segment_size=SEGMENT, roll_cycle="DAILY") as log:
        monkeypatch.chdir("/")
        for _ in range(4):
            log.append_many([b"x" * 100] * 500)
            log.roll()
        log.flush()
        assert log.count() == 2000
        with log.tailer("reader", required=True) as tailer:
            tailer.seek(sequence=1999)
        assert [state.name for state in log.tailers()] == ["reader"]
        assert sum(cycle.records for cycle in log.cycles()) == 2000
        store = Store(tmp_path / "archive")
        # A service seals the segments soon.
        until(lambda: keep.archive_segments(tmp_path / "log", store, keep=True).segments)
        done = log.prune(Retention(max_bytes=0))
        assert done.segments
        assert log.stats().disk == "fine"
        log.reset_tailer("reader", "end")
    assert verify(tmp_path / "log").sound
    assert verify(tmp_path / "archive").sound


def test_deep_directory_is_created_with_all_parents(tmp_path: Path) -> None:
    path = os.path.join(tmp_path, *["a"] * 1500)
    try:
        make_directory(path)
        assert os.path.isdir(path)
    finally:  # `shutil.rmtree` is recursive
        while os.path.isdir(path) and path != str(tmp_path):
            os.rmdir(path)
            path = os.path.dirname(path)


def test_directory_is_refused_while_stat_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """No file system here fails to examine its root, so the failure is simulated."""

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "stat", fail)
    with pytest.raises(OSError, match="Input/output error"):
        make_directory("/a/b/c")
