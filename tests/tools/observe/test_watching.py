"""Live figures of a log: equal from within and from another process, and the states of writers."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import commitlog
from commitlog.errors import ClosedError, LogNotFoundError, NotALogError
from commitlog.log.parts import parts_of
from commitlog.tools.observe.watching import LogWatch, WriterFigures, look
from tests.log_files import numbered
from tests.setups import BY_HAND, HEADER, SEGMENT, Logs
from tests.tools.cli.program import LIMIT_S, started

Until = Callable[..., None]


@contextlib.contextmanager
def appending(path: Path, until: Until, *options: object) -> Iterator[subprocess.Popen[bytes]]:
    """Start another process that has the log open and has appended one line."""
    with started("append", *options, "--segment-size", SEGMENT, path) as writer:
        say(writer, b"one")
        with LogWatch(path) as watch:
            until(
                lambda: (path / "cursors").exists() and watch.look().committed_position > HEADER,
                LIMIT_S,
            )
        yield writer


def say(writer: subprocess.Popen[bytes], line: bytes) -> None:
    assert writer.stdin is not None
    writer.stdin.write(line + b"\n")


def test_figures_of_writer_and_watcher_are_equal(logs: Logs) -> None:
    log = logs.open(**BY_HAND, allocate_ahead=0)  # no segment or index is created meanwhile
    log.append_many(numbered(5000))
    log.flush()
    log.append(b"not durable")
    assert parts_of(log).writer.allocation is not None
    parts_of(log).writer.allocation.sealed_below()
    with LogWatch(log.path) as watch:
        seen, own = watch.look(), look(log)
    assert (
        seen.tail_position
        == seen.appended_position
        == seen.committed_position
        == own.tail_position
        == log.tail_position
    )
    assert seen.flushed_position == own.flushed_position == log.flushed_position
    assert seen.unflushed_bytes == 32
    assert seen.uncommitted_bytes == 0
    assert (seen.first_sequence, seen.next_sequence, seen.uuid) == (0, 5001, own.uuid)
    assert (seen.first_position, seen.mode, seen.recovering, seen.failed) == (
        HEADER,
        "mapped",
        False,
        None,
    )
    assert (seen.segment_size, seen.segments) == (SEGMENT, len(list(Path(log.path).glob("*.seg"))))
    assert seen.disk_bytes == sum(file.stat().st_blocks * 512 for file in Path(log.path).iterdir())
    assert 0 < seen.free_disk_bytes < seen.disk_size_bytes
    (writer,) = seen.writers
    assert (writer.slot, writer.pid, writer.state, writer.flushing, writer.rolled_back_claims) == (
        parts_of(log).engine.slot,
        os.getpid(),
        "live",
        False,
        0,
    )


def test_watcher_of_a_pooled_log_sees_committed_positions(logs: Logs) -> None:
    log = logs.open(pool=logs.pool(), **BY_HAND)
    log.append_many(numbered(100))
    log.commit()
    committed = log.tail_position
    log.append(b"in the buffer")
    with LogWatch(log.path) as watch:
        seen = watch.look()
        assert (seen.mode, seen.tail_position, seen.uncommitted_bytes) == ("pooled", committed, 0)
        assert look(log).uncommitted_bytes == log.tail_position - committed
        assert watch.look().writers[0].state == "idle"
        log.commit()
        assert watch.look().writers[0].state == "appending"


def test_writer_state_follows_its_activity(tmp_path: Path, until: Until) -> None:
    path = tmp_path / "log"
    with LogWatch(path) as watch, appending(path, until) as writer:

        def only() -> WriterFigures:
            (figures,) = watch.look().writers
            return figures

        first = only()
        assert (first.state, first.pid) == ("live", writer.pid)
        assert only().state == "idle"
        say(writer, b"two")
        until(lambda: only().state == "appending", LIMIT_S)
        assert only().claims == first.claims + 1
        writer.send_signal(signal.SIGSTOP)
        until(lambda: only().state == "stopped", LIMIT_S)
        writer.kill()
        writer.wait()
        assert only().state == "dead"


def test_writer_stopped_in_a_claim_is_held_up(logs: Logs) -> None:
    log = logs.open()
    log.append(b"one")
    assert parts_of(log).engine.slot is not None
    counter_at = 8192 + 128 * parts_of(log).engine.slot
    with LogWatch(log.path) as watch, (Path(log.path) / "cursors").open("r+b") as file:
        watch.look()
        count = int.from_bytes(os.pread(file.fileno(), 8, counter_at), "little")
        os.pwrite(file.fileno(), (count + 1).to_bytes(8, "little"), counter_at)
        assert [watch.look().writers[0].state for _ in range(2)] == ["idle", "held up"]
        os.pwrite(file.fileno(), count.to_bytes(8, "little"), counter_at)


def test_rolled_back_claims_of_dead_writers_are_counted(tmp_path: Path, until: Until) -> None:
    path = tmp_path / "log"
    with commitlog.open(path, segment_size=SEGMENT) as log, LogWatch(path) as watch:
        child = os.fork()
        if child == 0:
            claim = commitlog.open(path).claim(64)
            claim.__enter__()
            os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(child, 0)
        until(lambda: log.appended_position == log.tail_position)
        assert watch.look().rolled_back_claims == 1
        assert [(writer.state, writer.rolled_back_claims) for writer in watch.look().writers] == [
            ("idle", 0),
            ("dead", 1),
        ]


def test_watcher_reports_the_failure_of_a_log(logs: Logs) -> None:
    log = logs.open()
    parts_of(log).engine.fail(5)
    with LogWatch(log.path) as watch:
        assert watch.look().failed == "Input/output error"
    with pytest.raises(commitlog.CommitLogError):
        log.close()


def test_closed_log_has_positions_and_no_writers(logs: Logs) -> None:
    log = logs.open()
    log.append(b"one")
    end = log.tail_position
    log.close()
    with LogWatch(log.path) as watch:
        seen = watch.look()
    assert (seen.tail_position, seen.flushed_position, seen.writers) == (end, end, ())
    with pytest.raises(ClosedError):
        look(log)


def test_watcher_without_cursors_reads_the_files(logs: Logs) -> None:
    log = logs.open()
    log.append(b"one")
    end = log.tail_position
    log.close()
    (Path(log.path) / "cursors").unlink()
    with LogWatch(log.path) as watch:
        seen = watch.look()
        assert (seen.mode, seen.tail_position, seen.writers) == (None, end, ())
        with commitlog.open(log.path) as again:
            again.append(b"two")
            assert (watch.look().mode, watch.look().tail_position) == (
                "mapped",
                again.tail_position,
            )


def test_watcher_continues_after_the_cursors_are_removed(logs: Logs) -> None:
    log = logs.open()
    with LogWatch(log.path) as watch:
        watch.look()
        (Path(log.path) / "cursors").unlink()
        seen = watch.look()
    assert (seen.tail_position, seen.writers) == (log.tail_position, ())


def test_watcher_reads_the_log_now_at_its_path(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with LogWatch(path) as watch:
        with pytest.raises(LogNotFoundError):
            watch.look()
        with commitlog.open(path, segment_size=SEGMENT) as log:
            log.append_many(numbered(10))
        assert watch.look().segment_size == SEGMENT
        shutil.rmtree(path)
        with pytest.raises(LogNotFoundError):
            watch.look()
        commitlog.open(path, segment_size=2 * SEGMENT).close()
        assert (watch.look().segment_size, watch.look().tail_position) == (2 * SEGMENT, HEADER)
        for file in path.iterdir():
            file.unlink()
        with pytest.raises(NotALogError):
            watch.look()
        commitlog.open(path, segment_size=SEGMENT).close()
        assert watch.look().segment_size == SEGMENT
