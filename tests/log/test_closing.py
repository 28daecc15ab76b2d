"""A log that is garbage-collected before `close`: it is closed, with a warning."""

from __future__ import annotations

import gc
import os
import subprocess
import warnings
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import commitlog
from commitlog import CommitLog, Options
from commitlog.keep import SegmentListener
from commitlog.log.registry import registry
from commitlog.repair.verification import verify
from tests.base.test_descriptor import held_in
from tests.setups import SEGMENT, SETUPS, Setup

Until = Callable[..., None]
Open = Callable[..., CommitLog]


@pytest.fixture
def path(tmp_path: Path, until: Until) -> Iterator[Path]:
    """Return the path of a log; at the end check that this process holds none of its files."""
    yield tmp_path / "log"
    gc.collect()
    until(lambda: held_in(tmp_path) == [])


@pytest.fixture
def warned() -> Iterator[list[warnings.WarningMessage]]:
    """Collect the warnings of the test."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield caught


def is_closed(path: Path) -> bool:
    """Return whether the log is closed and its lock and files are released."""
    known = any(log.path == str(path) for log in registry._logs.copy().values())
    return not known and held_in(path) == []


def test_dropped_log_closes_cleanly_with_a_warning(
    path: Path, until: Until, warned: list[warnings.WarningMessage]
) -> None:
    log = commitlog.open(path, segment_size=SEGMENT)
    log.append(b"x")
    del log
    until(lambda: is_closed(path))
    assert [each.category for each in warned] == [ResourceWarning]
    assert f"the log {path} was dropped without close()" in str(warned[0].message)
    report = verify(path)
    assert (report.sound, report.clean, report.records) == (True, True, 1)


@pytest.mark.usefixtures("warned")
@pytest.mark.parametrize("setup", SETUPS, ids=str)
def test_dropped_log_keeps_every_record(
    path: Path, until: Until, setup: Setup, make_pool: Callable[[str], Any]
) -> None:
    pool = make_pool(setup.backing) if setup.pooled else None
    log = commitlog.open(path, flush=setup.flush, pool=pool, segment_size=None if pool else SEGMENT)
    log.append_many([b"x"] * 100)
    del log
    until(lambda: is_closed(path))
    if pool is not None:
        assert pool.buffers - pool.available == 0
    with commitlog.open(path, "r") as reader:
        assert reader.count() == 100


@pytest.fixture
def make_pool() -> Iterator[Callable[[str], Any]]:
    """Return a function that makes a pool, and close the pools at the end."""
    pools: list[commitlog.TransientStorePool] = []

    def make(backing: str) -> commitlog.TransientStorePool:
        options: dict[str, Any] = {"backing": backing, "lock_memory": "off", "low_water": 0}
        pools.append(commitlog.TransientStorePool(buffers=3, buffer_size=SEGMENT, **options))
        return pools[-1]

    yield make
    for pool in pools:
        pool.close()


@pytest.mark.usefixtures("warned")
def test_log_in_a_garbage_cycle_is_closed(path: Path, until: Until) -> None:
    log = commitlog.open(path, segment_size=SEGMENT)
    cycle: list[Any] = [log]
    cycle.append(cycle)
    del log, cycle
    gc.collect()
    until(lambda: is_closed(path))


def test_closed_log_is_dropped_without_a_warning(
    path: Path, warned: list[warnings.WarningMessage]
) -> None:
    log = commitlog.open(path, segment_size=SEGMENT)
    log.close()
    there = weakref.ref(log)
    del log
    gc.collect()
    assert there() is None
    assert warned == []


@pytest.mark.parametrize("state", ["closed", "open", "open in a child"])
def test_global_log_outliving_its_module_ends_silently(
    state: str, tmp_path: Path, run_python: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    """At exit `threading` keeps a function of `__main__`, so the log outlives the modules."""
    script = """
import os, sys, threading
import commitlog
log = commitlog.open(sys.argv[1], segment_size="64KiB")
log.append(b"x")
threading.keeps = lambda: log
if sys.argv[2] == "closed":
    log.close()
elif sys.argv[2] == "open in a child" and (child := os.fork()):
    log.close()
    os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    ended = run_python(script, tmp_path / "log", state)
    assert ended.returncode == 0
    for word in ("Error", "Exception", "Traceback"):
        assert word not in ended.stderr


def test_dropped_log_closes_even_if_warnings_are_errors(
    path: Path, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    raised: list[Any] = []
    monkeypatch.setattr("sys.unraisablehook", lambda error: raised.append(error.exc_type))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        log = commitlog.open(path, segment_size=SEGMENT)
        del log
    until(lambda: is_closed(path))
    assert raised == [ResourceWarning]


@pytest.mark.usefixtures("warned")
def test_dropped_reader_closes_its_files(path: Path, until: Until) -> None:
    commitlog.open(path, segment_size=SEGMENT).close()
    reader = commitlog.open(path, "r")
    assert held_in(path)
    del reader
    until(lambda: held_in(path) == [])


@pytest.mark.usefixtures("warned")
@pytest.mark.parametrize("kept", ["tailer", "loop", "values", "claim"])
def test_log_stays_open_while_a_tailer_or_claim_refers_to_it(
    path: Path, until: Until, kept: str
) -> None:
    log = commitlog.open(path, segment_size=SEGMENT)
    log.append(b"x")
    if kept == "claim":
        with log.claim(1) as used:
            del log
            gc.collect()
            used.buffer[:] = b"y"
            assert not is_closed(path)
        del used
    else:
        tailer = log.tailer()
        using: Any = {"loop": tailer.follow, "values": tailer.values}.get(kept, lambda: tailer)()
        del log, tailer
        gc.collect()
        assert not is_closed(path)
        assert len([using.read()] if hasattr(using, "read") else [next(iter(using))]) == 1
        del using
    gc.collect()
    until(lambda: is_closed(path))


def test_drop_in_forked_child_leaves_the_parent_log_open(
    path: Path, in_child: Callable[..., Any], warned: list[warnings.WarningMessage]
) -> None:
    holder = [commitlog.open(path, segment_size=SEGMENT)]

    def drop() -> tuple[int, int]:
        holder.clear()
        gc.unfreeze()
        gc.collect()
        return len(warned), os.getpid()

    assert in_child(drop)[0] == 0
    assert holder[0].append(b"x") > 0
    holder[0].close()


@pytest.mark.usefixtures("warned")
def test_log_is_closed_when_a_listener_drops_it(path: Path, until: Until) -> None:
    """The last reference is dropped in one of the log's own threads."""
    holder: list[CommitLog] = []

    class Listener(SegmentListener):
        def on_sealed(self, *_: Any) -> None:
            holder.clear()

    options = Options(segment_size=SEGMENT, listener=Listener())
    holder.append(commitlog.open(path, "a", options))
    holder[0].append(b"x")
    holder[0].roll()
    until(lambda: is_closed(path))
