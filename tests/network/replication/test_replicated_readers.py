"""A tailer with visibility="replicated" reads what enough copies have, and nothing else."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

import commitlog
from commitlog import replication
from commitlog.errors import InvalidOptionError, SyncTimeoutError
from commitlog.tools.cli.report import report_of
from commitlog.watching import LogWatch
from tests.network.replication.scene import LIMIT_S, SEGMENT

SHORT_S = 0.2


def served(path: Path, require: int = 1) -> tuple[commitlog.CommitLog, str]:
    rule = replication.Replication(require=require, timeout=SHORT_S)
    log = commitlog.open(path, flush="sync", replicate=rule, segment_size=SEGMENT)
    return log, rule.server.url(path.name)


def test_record_is_read_once_enough_copies_have_it(tmp_path: Path) -> None:
    log, url = served(tmp_path / "orders", require=2)
    with log, commitlog.open(tmp_path / "orders", "r") as reader:
        tailers = [each.tailer(visibility="replicated") for each in (log, reader)]
        with pytest.raises(SyncTimeoutError):
            log.append(b"one")
        with replication.follow(url, tmp_path / "b") as one:
            assert one.wait(log.flushed_position, LIMIT_S)
            assert [tailer.read() for tailer in tailers] == [None, None]
            with replication.follow(url, tmp_path / "c"):
                for tailer in tailers:
                    record = tailer.read(timeout=LIMIT_S)
                    assert record is not None
                    assert record.value == b"one"
        assert log.replicated_position == reader.replicated_position == log.flushed_position
        with pytest.raises(SyncTimeoutError):
            log.append(b"two")
        assert [tailer.read() for tailer in tailers] == [None, None]
        assert [record.value for record in log.tailer()] == [b"one", b"two"]


def test_acknowledgement_wakes_a_sleeping_reader(tmp_path: Path) -> None:
    log, url = served(tmp_path / "orders")
    values: list[bytes] = []
    with log, commitlog.open(tmp_path / "orders", "r") as reader:

        def read_all() -> None:
            with reader.tailer(visibility="replicated") as tailer:
                for record in tailer.follow(idle="block"):
                    values.append(bytes(record.value))
                    if len(values) == 300:
                        return

        sleeper = threading.Thread(target=read_all)
        sleeper.start()
        with replication.follow(url, tmp_path / "copy"):
            for number in range(300):  # over several segments
                log.append(b"%d " % number * 200)
            sleeper.join(LIMIT_S)
    assert values == [b"%d " % number * 200 for number in range(300)]


def test_coroutine_reads_what_is_replicated(tmp_path: Path) -> None:
    log, url = served(tmp_path / "orders")

    async def read_one() -> bytes:
        async for record in log.tailer(visibility="replicated").follow(timeout=LIMIT_S):
            return bytes(record.value)
        return b""

    async def both() -> bytes:
        reading = asyncio.create_task(read_one())
        await log.append_async(b"one")
        return await reading

    with log, replication.follow(url, tmp_path / "copy"):
        assert asyncio.run(both()) == b"one"


def test_backward_reader_begins_below_what_copies_lack(tmp_path: Path) -> None:
    log, url = served(tmp_path / "orders")
    with log:
        with replication.follow(url, tmp_path / "copy"):
            for number in range(3):
                log.append(b"%d" % number)
        with pytest.raises(SyncTimeoutError):
            log.append(b"late")
        tailer = log.tailer(direction="backward", visibility="replicated")
        assert [bytes(record.value) for record in tailer] == [b"2", b"1", b"0"]


def test_writer_without_copies_shows_nothing_replicated(tmp_path: Path) -> None:
    log, url = served(tmp_path / "orders")
    with log, replication.follow(url, tmp_path / "copy"):
        log.append(b"one")
    with commitlog.open(tmp_path / "orders") as log:
        assert log.replicated_position == 0
        with pytest.raises(InvalidOptionError, match="replicate="):
            log.tailer(visibility="replicated")
    with (
        commitlog.open(tmp_path / "copy", "r") as copy,
        pytest.raises(InvalidOptionError, match="replicate="),
    ):
        copy.tailer(visibility="replicated")


def test_replication_lag_counts_bytes_that_copies_lack(tmp_path: Path) -> None:
    log, url = served(tmp_path / "orders")
    with log:
        with replication.follow(url, tmp_path / "copy"):
            log.append(b"one")
        stats = log.stats()
        assert (stats.replication_lag_bytes, stats.replication_lag_ms) == (0, 0)
        with pytest.raises(SyncTimeoutError):
            log.append(b"two")
        stats, report = log.stats(), report_of(log.path)
        assert stats.replication_lag_ms is not None
        assert stats.replicated_position == report["replicated_position"] == log.last_position
        assert stats.replication_lag_bytes == report["replication_lag_bytes"] == 24
        assert SHORT_S * 1e3 <= stats.replication_lag_ms <= report["replication_lag_ms"]
        with LogWatch(log.path) as watch:
            figures = watch.look()
        assert figures.replication_lag_bytes == 24
        assert figures.replication_lag_seconds is not None
        assert figures.replication_lag_seconds >= SHORT_S
    with commitlog.open(tmp_path / "copy", "r") as copy:
        assert copy.stats().replication_lag_bytes is None
