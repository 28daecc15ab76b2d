"""The state of all named tailers: positions, reset, deletion, damage and permissions."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from commitlog.errors import (
    CorruptTailerError,
    InUseError,
    PositionError,
    ReadOnlyError,
    TailerNotFoundError,
)
from commitlog.log.parts import parts_of
from commitlog.tail.tailer_folder import FOLDER
from tests.setups import HEADER, Logs
from tests.tail.named import filled, read

# Saves read this clock, which lags CLOCK_REALTIME; Python does not name it.
CLOCK_REALTIME_COARSE = 5


def test_tailers_lists_position_lag_and_owner_of_each(logs: Logs) -> None:
    before_ns = time.clock_gettime_ns(CLOCK_REALTIME_COARSE)
    log = filled(logs)
    assert log.tailers() == []
    a = log.tailer("a")
    log.tailer("b", required=True).close()
    read(a, 4)
    (first, second) = log.tailers()
    assert (first.name, first.position, first.required, first.pid) == (
        "a",
        a.position,
        False,
        os.getpid(),
    )
    assert first.lag_bytes == log.tail_position - a.position
    assert first.owner == "this process"
    assert (second.name, second.position, second.required, second.owner) == (
        "b",
        HEADER,
        True,
        None,
    )
    assert before_ns <= first.created_ns <= time.time_ns()
    assert before_ns <= first.saved_ns <= time.time_ns()
    assert logs.open(mode="r").tailers() == [first, second]


def test_reset_and_delete_need_a_tailer_not_in_use(logs: Logs) -> None:
    log = filled(logs)
    tailer = log.tailer("a")
    read(tailer, 4)
    for call in (lambda: log.reset_tailer("a", "first"), lambda: log.delete_tailer("a")):
        with pytest.raises(InUseError):
            call()
    tailer.close()
    where: Any
    for where, value in (
        ("first", [b"0"]),
        ("end", []),
        (parts_of(log).index.position_of(7), [b"7"]),
    ):
        log.reset_tailer("a", where)
        with log.tailer("a") as tailer:
            assert read(tailer, 1) == value
    with pytest.raises(PositionError):
        log.reset_tailer("a", 12345)
    log.delete_tailer("a")
    assert log.tailers() == []
    for refused in (
        lambda: log.reset_tailer("a", "first"),
        lambda: log.delete_tailer("a"),
        lambda: log.evict_tailer("a"),
    ):
        with pytest.raises(TailerNotFoundError, match="'a'"):
            refused()
    with log.tailer("a") as tailer:
        assert read(tailer, 1) == [b"0"]


def test_damaged_tailer_file_affects_no_other_tailer(logs: Logs) -> None:
    log = filled(logs)
    log.tailer("a").close()
    log.tailer("b").close()
    (Path(log.path) / FOLDER / "a").write_bytes(b"garbage")
    with pytest.raises(CorruptTailerError, match="reset_tailer"):
        log.tailer("a")
    assert [state.damage for state in log.tailers()] == ["it has 7 bytes, not 4096", None]
    assert read(log.tailer("b"), 1) == [b"0"]
    log.append(b"on")
    log.reset_tailer("a", "end")
    assert log.tailer("a").read() is None


def test_named_tailer_without_write_permission_is_refused(
    logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = filled(logs)
    real = os.mkdir

    def refuse(path: Any, *arguments: Any, **options: Any) -> None:
        if path == FOLDER:
            raise PermissionError(13, os.strerror(13))
        real(path, *arguments, **options)

    monkeypatch.setattr(os, "mkdir", refuse)
    reader = logs.open(mode="r")
    with pytest.raises(ReadOnlyError, match="read without a name"):
        reader.tailer("a")
    assert len(list(reader.tailer())) == 10
    assert log.tailers() == []
