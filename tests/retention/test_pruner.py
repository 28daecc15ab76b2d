"""Pruning: which segments are deleted, in what order, and what keeps them."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import commitlog
from commitlog import CommitLog, Retention
from commitlog.base.host import host
from commitlog.errors import (
    InvalidOptionError,
    LogNotFoundError,
    NotALogError,
    PositionError,
    ReadOnlyError,
)
from commitlog.keep import Pruned, prune
from commitlog.log.parts import parts_of
from commitlog.segment import mapped_file_queue
from commitlog.segment.directory import LogDirectory
from commitlog.tail.tailer_file import TailerFile
from tests.log_files import LogFiles
from tests.setups import BY_HAND, SEGMENT, Logs, values

ALL = Retention(max_bytes=0)
# Deletes nothing, but seals; a prune from outside does not seal.
SEAL = Retention(max_bytes="1TiB")


def filled(logs: Logs, segments: int = 8, **options: Any) -> CommitLog:
    """Return a log of sealed, durable segments with three records each."""
    log = logs.open(**{**BY_HAND, "allocate_ahead": 1, **options})
    for number in range(segments):
        log.append_many([b"%d-%d" % (number, index) for index in range(3)])
        log.roll()
    log.flush()
    if not log.pooled:
        log.pretouch()  # no segment is allocated while a test counts the files
    return log


def numbers(log: CommitLog) -> list[int]:
    return parts_of(log).directory.segment_numbers()


def bases(pruned: Pruned) -> list[int]:
    return [removal.position // SEGMENT for removal in pruned.segments]


def test_prune_deletes_oldest_first_and_keeps_last_sealed(logs: Logs) -> None:
    log = filled(logs)
    last = numbers(log)[-1]
    pruned = log.prune(ALL)
    assert bases(pruned) == [0, 1, 2, 3, 4, 5, 6]
    assert numbers(log) == list(range(7, last + 1))
    assert (pruned.complete, pruned.first_position, pruned.dry_run) == (False, 7 * SEGMENT, False)
    assert "last sealed segment" in pruned.stopped_by
    assert values(log) == [b"7-0", b"7-1", b"7-2"]
    assert log.first_sequence == 21


def test_prune_syncs_the_directory_once_after_all_deletions(
    logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    remove, sync = LogDirectory.remove_segment, LogDirectory.sync
    monkeypatch.setattr(
        LogDirectory,
        "remove_segment",
        lambda self, number: (done.append(f"removed {number}"), remove(self, number)),
    )
    monkeypatch.setattr(LogDirectory, "sync", lambda self: (done.append("synced"), sync(self)))
    log = filled(logs)
    done.clear()
    log.prune(ALL)
    assert done == [*(f"removed {number}" for number in range(7)), "synced"]
    log.prune(ALL)
    assert len(done) == 8


def test_max_bytes_deletes_no_more_segments_than_needed(logs: Logs) -> None:
    log = filled(logs)
    total = sum(parts_of(log).directory.disk_bytes(number) for number in numbers(log))
    each = parts_of(log).directory.disk_bytes(0)
    pruned = log.prune(Retention(max_bytes=total - 2 * each))
    assert bases(pruned) == [0, 1]
    assert pruned.bytes == 2 * each
    assert {removal.reason for removal in pruned.segments} == {"max_bytes"}
    assert (pruned.complete, pruned.stopped_by) == (
        True,
        "the remaining segments are within every limit",
    )
    assert log.prune(Retention(max_bytes=total - 2 * each)).segments == ()


def test_max_age_deletes_segments_by_time_since_their_roll(
    logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = filled(logs)
    rolled = []
    for number in range(1, 6):
        segment = parts_of(log).directory.open_segment(number, writable=False)
        rolled.append(segment.opened_ns)
        segment.release()
    monkeypatch.setattr(host, "time_ns", lambda: rolled[3] + 3600 * 10**9)
    pruned = log.prune(Retention(max_age="1h"))
    assert bases(pruned)[:4] == [0, 1, 2, 3]  # more only if two rolls had the same nanosecond
    assert {removal.reason for removal in pruned.segments} == {"max_age"}
    monkeypatch.setattr(host, "time_ns", lambda: rolled[3] - 1)
    assert log.prune(Retention(max_age="1h")).segments == ()


def test_appender_timestamps_do_not_affect_max_age(
    logs: Logs,
) -> None:
    log = logs.open(**BY_HAND)
    for stamp in (1, 1 << 62):
        log.append(b"v", timestamp_ns=stamp)
        log.roll()
    log.append(b"v")
    log.roll()
    log.flush()
    assert log.prune(Retention(max_age="1h")).segments == ()
    assert bases(log.prune(Retention(max_age="0s"))) == [0, 1]


def test_min_free_deletes_no_more_segments_than_needed(
    logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = filled(logs)
    each = parts_of(log).directory.disk_bytes(0)

    class Status:
        f_frsize, f_blocks, f_bavail = each, 1000, 100

    monkeypatch.setattr("os.fstatvfs", lambda descriptor: Status)
    assert log.prune(Retention(min_free_bytes=100 * each)).segments == ()
    assert bases(log.prune(Retention(min_free_bytes=102 * each))) == [0, 1]
    pruned = log.prune(Retention(min_free_percent=10.3))
    assert bases(pruned) == [2, 3, 4]
    assert {removal.reason for removal in pruned.segments} == {"min_free"}


def test_free_space_limits_ignore_between(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    log = filled(logs)
    monkeypatch.setattr(host, "time_ns", lambda: 12 * 3600 * 10**9)
    night = {"max_bytes": 0, "max_age": "0s", "between": "02:00-05:00"}
    pruned = log.prune(Retention(**night))  # type: ignore[arg-type]
    assert (pruned.segments, pruned.complete) == ((), True)
    assert "02:00-05:00" in pruned.stopped_by
    assert len(log.prune(Retention(**night, min_free_percent=100)).segments) == 7  # type: ignore[arg-type]


def test_dry_run_reports_the_deletions_and_deletes_nothing(logs: Logs) -> None:
    log = filled(logs)
    log.prune(SEAL)  # seals
    before = {path: path.read_bytes() for path in Path(log.path).glob("*.seg")}
    dry = log.prune(ALL, dry_run=True)
    outside = prune(log.path, ALL, dry_run=True)
    assert {path: path.read_bytes() for path in Path(log.path).glob("*.seg")} == before
    assert dry.dry_run
    assert dry == outside
    wet = log.prune(ALL)
    assert (wet.segments, wet.stopped_by, wet.first_position) == (
        dry.segments,
        dry.stopped_by,
        dry.first_position,
    )


def test_prune_deletes_up_to_a_held_segment(logs: Logs) -> None:
    log = filled(logs)
    tailer = log.tailer(start=3 * SEGMENT)
    record = tailer.read()
    assert record is not None
    pruned = log.prune(ALL)
    assert bases(pruned) == [0, 1, 2]
    assert "held by tailer" in pruned.stopped_by
    assert not pruned.complete
    assert numbers(log)[0] == 3
    tailer.close()
    del record
    assert bases(log.prune(ALL)) == [3, 4, 5, 6]


def test_prune_waits_for_a_brief_holder(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log's own threads hold segments for moments; prune waits for them."""
    monkeypatch.setattr(mapped_file_queue, "_MOMENT_S", 60)
    log = filled(logs)
    held = parts_of(log).queue.hold(0, "seal", briefly=True)
    assert held is not None
    file, token = held
    assert bases(log.prune(ALL, dry_run=True)) == [0, 1, 2, 3, 4, 5, 6]
    leaving = threading.Timer(0.1, file.release, [token])
    leaving.start()
    assert bases(log.prune(ALL)) == [0, 1, 2, 3, 4, 5, 6]
    leaving.join()


def test_segments_that_are_not_durable_are_kept(logs: Logs) -> None:
    log = filled(logs, 3)
    for _ in range(3):
        log.append(b"not flushed")
        log.roll()
    pruned = log.prune(ALL)
    assert bases(pruned) == [0, 1, 2][: len(pruned.segments)]
    assert "not durable" in pruned.stopped_by
    assert pruned.first_position == log.flushed_position // SEGMENT * SEGMENT


def test_lagging_required_tailer_keeps_its_segment(logs: Logs) -> None:
    log = filled(logs)
    log.prune(SEAL)
    slow = TailerFile(parts_of(log).directory, "slow", 2 * SEGMENT + 4096)
    slow.declare(True, 0, lambda: None)
    TailerFile(parts_of(log).directory, "of no account", 4096).close()
    # From outside, from the log and by position: no deletion passes the tailer.
    pruned = prune(log.path, ALL)
    assert bases(pruned) == [0, 1]
    assert pruned.stopped_by == f"a required tailer has yet to read from position {2 * SEGMENT} on"
    assert log.prune(ALL).segments == ()
    assert log.delete_before(7 * SEGMENT) == []
    # It has read the segment's records and is before its padding.
    tailer = log.tailer(start=2 * SEGMENT)
    for _ in range(3):
        tailer.read()
    slow.page.save(tailer.position)
    assert tailer.position // SEGMENT == 2
    tailer.close()
    assert bases(log.prune(ALL)) == [2]
    slow.declare(False, 0, lambda: None)
    assert bases(log.prune(ALL)) == [3, 4, 5, 6]
    slow.close()


def test_retention_service_prunes_at_its_interval(logs: Logs, until: Callable[..., None]) -> None:
    log = logs.open(
        retention=Retention(max_bytes=4 * SEGMENT, interval="5ms"),
        flush_interval="5ms",
        flush_least_pages=0,
    )
    for number in range(12):
        log.append(b"%d" % number)
        log.roll()
    until(lambda: log.first_position > 8 * SEGMENT)
    log.close()
    kept = values(logs.open(mode="r"))
    assert kept == [b"%d" % number for number in range(12 - len(kept), 12)]
    assert 0 < len(kept) <= 4


def test_blocked_retention_warns_once_with_the_reason(
    logs: Logs, until: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "commitlog.keep"):
        log = logs.open(retention=Retention(max_bytes=0, interval="1ms"))
        log.append(b"one")
        log.roll()
        log.flush()
        until(lambda: any("last sealed segment" in message for message in caplog.messages))
        count = len(caplog.messages)
        done = threading.Event()
        done.wait(0.05)
        assert len(caplog.messages) - count <= 1


def test_close_ends_the_retention_thread(logs: Logs) -> None:
    log = logs.open(retention=Retention(max_bytes="1GiB", interval="1h"))
    name = f"commitlog retention {log.path}"
    assert name in [thread.name for thread in threading.enumerate()]
    log.close()
    assert name not in [thread.name for thread in threading.enumerate()]


def test_retention_of_two_writers_deletes_without_error(
    logs: Logs, until: Callable[..., None]
) -> None:
    rule = Retention(max_bytes=3 * SEGMENT, interval="1ms")
    both = [logs.open(retention=rule, flush_interval="2ms", flush_least_pages=0) for _ in range(2)]
    for number in range(40):
        both[number % 2].append(b"%d" % number)
        both[number % 2].roll()
    until(lambda: both[0].first_position > 36 * SEGMENT)
    assert all(service.error is None for log in both for service in parts_of(log).writer.services)
    # From the end: segments at the front may still be deleted.
    assert next(iter(both[1].tailer(direction="backward").values())) == b"39"


def test_closed_log_pruned_from_outside_reopens(logs: Logs) -> None:
    log = filled(logs)
    log.prune(SEAL)
    log.close()
    pruned = prune(log.path, ALL)
    assert bases(pruned) == [0, 1, 2, 3, 4, 5, 6]
    again = logs.open()
    assert values(again) == [b"7-0", b"7-1", b"7-2"]
    assert again.first_sequence == 21
    again.append(b"on")
    assert again.last_sequence == 24


def test_log_pruned_from_outside_beside_a_writer_continues(logs: Logs) -> None:
    log = filled(logs)
    log.prune(SEAL)
    assert len(prune(log.path, ALL).segments) == 7
    log.append(b"on")
    assert values(log) == [b"7-0", b"7-1", b"7-2", b"on"]
    log.close()
    with commitlog.open(log.path, "r") as reader:
        assert parts_of(reader).engine.uncertain_from == (1 << 64) - 1  # the log was closed cleanly


def test_log_pruned_from_outside_beside_a_pooled_writer(logs: Logs) -> None:
    log = filled(logs, pool=logs.pool())
    log.prune(SEAL)
    assert len(prune(log.path, ALL).segments) == 7
    log.append(b"on")
    log.flush()
    assert values(log) == [b"7-0", b"7-1", b"7-2", b"on"]


def test_unclosed_log_is_pruned_only_below_checkpoint(files: LogFiles) -> None:
    for number in range(5):
        files.full(number, [b"a", b"b"])
    files.create(5, opened=True)
    files.checkpoint(2 * SEGMENT + 4096)
    pruned = prune(files.path, ALL)
    assert pruned.segments == ()
    assert "not sealed" in pruned.stopped_by


def test_prune_without_a_log_or_retention_is_refused(logs: Logs, tmp_path: Path) -> None:
    log = filled(logs, 2)
    with pytest.raises(InvalidOptionError, match="retention"):
        log.prune()
    with pytest.raises(InvalidOptionError, match="retention"):
        log.prune("7d")  # type: ignore[arg-type]
    with logs.open(mode="r") as reader, pytest.raises(ReadOnlyError):
        reader.prune(ALL)
    with pytest.raises(LogNotFoundError):
        prune(tmp_path / "none", ALL)
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(NotALogError):
        prune(tmp_path / "file", ALL)
    (tmp_path / "other").mkdir()
    with pytest.raises(NotALogError):
        prune(tmp_path / "other", ALL)


# --- readers while segments go from under them ----------------------------------------------------


@pytest.mark.parametrize("place", ["start", "middle", "end"])
def test_segments_deleted_outside_give_reader_position_error(logs: Logs, place: str) -> None:
    log = filled(logs)
    reader = logs.open(mode="r")
    first = {"start": 0, "middle": 3, "end": 7}[place]
    tailer = reader.tailer(start=first * SEGMENT)
    if place != "start":
        assert tailer.read() is not None
    # As `rm` does: segments after the reader's, or the one that it opens next.
    gone = {"start": [0, 1], "middle": [4, 5], "end": [6, 7]}[place]
    for number in gone:
        Path(parts_of(log).directory.segment_path(number)).unlink()
    seen: list[bytes] = []
    if place == "end":
        # The reader is in the last segment, holds it, and reads what follows.
        log.append(b"on")
        assert list(tailer.values()) == [b"7-1", b"7-2", b"on"]
        return
    with pytest.raises(PositionError) as caught:
        seen.extend(tailer.values())
    assert seen == ([] if place == "start" else [b"3-1", b"3-2"])
    assert caught.value.first_position == (gone[-1] + 1) * SEGMENT
    tailer.seek(caught.value.first_position)
    assert next(iter(tailer.values())) == b"%d-0" % (gone[-1] + 1)


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_batch_ends_at_a_gap_and_the_next_one_raises(logs: Logs, direction: Any) -> None:
    log = filled(logs)
    reader = logs.open(mode="r")
    tailer = reader.tailer(direction=direction)
    for number in (3, 4):
        Path(parts_of(log).directory.segment_path(number)).unlink()
    found = tailer.read_batch().values()
    ordered = [b"%d-%d" % (number, index) for number in range(8) for index in range(3)]
    assert found == (ordered[:9] if direction == "forward" else ordered[15:][::-1])
    for _ in range(2):
        with pytest.raises(PositionError) as caught:
            tailer.read_batch()
        assert caught.value.first_position is not None


def test_deletions_under_load_cost_readers_only_deleted_records(logs: Logs) -> None:
    """A writer, a tool that prunes from outside, and two readers: the values that a reader gets are
    valid and in order.
    """
    log = logs.open(flush_interval="1ms", flush_least_pages=0)
    reader = logs.open(mode="r")
    count = 30000
    done = threading.Event()

    def follow(handle: CommitLog) -> int:
        """Read to the last record; return how often the next record was deleted."""
        last, gaps = -1, 0
        tailer = handle.tailer()
        while last < count - 1:
            try:
                for value in tailer.values():
                    assert int(value[:8]) > last
                    last = int(value[:8])
                    assert value == b"%08d" % last + b"." * 92
                tailer.read(timeout=0.001)
                tailer.seek(tailer.position)
            except PositionError:
                gaps += 1
                tailer.seek("first")
        return gaps

    def delete() -> None:
        for size in itertools.cycle([5, 2, 9, 3, 7]):
            if done.is_set():
                return
            prune(log.path, Retention(max_bytes=size * SEGMENT))

    with ThreadPoolExecutor() as threads:
        readers = [threads.submit(follow, handle) for handle in (log, reader)]
        deleter = threads.submit(delete)
        for number in range(count):
            log.append(b"%08d" % number + b"." * 92)
            if number % 500 == 0:
                log.flush()
        try:
            for future in readers:
                future.result(60)
        finally:
            done.set()
        deleter.result(60)
    assert log.first_position > SEGMENT


@pytest.mark.parametrize("pooled", [False, True], ids=["mapped", "pooled"])
def test_retention_deletes_from_a_log_that_no_thread_flushes(
    logs: Logs, until: Callable[..., None], pooled: bool
) -> None:
    given = {"pool": logs.pool()} if pooled else {}
    log = logs.open(
        flush="none", retention=Retention(max_bytes=4 * SEGMENT, interval="5ms"), **given
    )
    for number in range(12):
        log.append(b"%d" % number)
        log.roll()
    until(lambda: log.first_position > 8 * SEGMENT)
    until(lambda: log.committed_position == log.tail_position)  # a pool's thread commits
    assert values(log)[-1] == b"11"


def test_retention_flushes_nothing_that_a_tailer_keeps(
    logs: Logs, until: Callable[..., None]
) -> None:
    log = logs.open(flush="none", retention=Retention(max_bytes=0, interval="5ms"))
    with log.tailer("slow", required=True, start="first"):
        for number in range(4):
            log.append(b"%d" % number)
            log.roll()
        until(lambda: "required tailer" in log.prune(dry_run=True).stopped_by or log.first_position)
        assert log.flushed_position < SEGMENT


def test_unflushed_log_is_pruned_by_hand_after_a_flush(logs: Logs) -> None:
    log = filled(logs, 3, flush="none")
    log.append(b"on")
    log.roll()
    pruned = log.prune(ALL)
    assert (bases(pruned), pruned.stopped_by) == ([0, 1, 2], "it is not durable yet")
    log.append(b"more")
    log.roll()
    log.flush()
    assert bases(log.prune(ALL)) == [3]
