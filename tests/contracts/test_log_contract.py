"""Contract of every log, for each flush mode and each backing of uncommitted bytes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import commitlog
from tests.setups import BY_HAND, LARGEST_VALUE, Logs, Open, Setup, all_appended, values

# --- round trips ----------------------------------------------------------------------------------


def test_values_of_small_and_near_maximum_sizes_round_trip(open_log: Open) -> None:
    sizes = [*range(301), 4079, 4080, 4081, *range(LARGEST_VALUE - 9, LARGEST_VALUE + 1)]
    written = [bytes([size % 251]) * size for size in sizes]
    log = open_log()
    positions = [log.append(value, sync=False) for value in written]
    assert positions == sorted(set(positions))
    assert all(position % 8 == 0 for position in positions)
    records = list(log.tailer(visibility="appended"))
    assert [record.value for record in records] == written
    assert [record.position for record in records] == positions
    assert [log.read(position).value for position in positions] == written


def test_keys_types_and_timestamps_round_trip(open_log: Open) -> None:
    given = [
        (b"v", None, 0, 5),
        (b"", None, 0, 0),
        (b"v", b"", 0, 6),
        (b"", b"tombstone", 0, 7),
        (b"v", None, 1, 8),
        (b"v" * 100, b"k" * 100, 2**32 - 1, 2**63 - 1),
    ]
    log = open_log()
    for value, key, kind, stamp in given:
        log.append(value, key=key, type=kind, timestamp_ns=stamp)
    found = [
        (record.value, record.key, record.type, record.timestamp_ns)
        for record in log.tailer(visibility="appended")
    ]
    assert found == given


@pytest.mark.parametrize(
    "make", [bytearray, memoryview, lambda value: np.frombuffer(value, dtype=np.uint8)]
)
def test_objects_with_the_buffer_protocol_are_appended(
    logs: Logs, make: Callable[[bytes], Any]
) -> None:
    log = logs.open()
    log.append(make(b"some bytes"), key=make(b"key"))
    log.append_many([make(b"more"), b"bytes"], keys=[make(b""), None])
    found = [(record.key, record.value) for record in log.tailer()]
    assert found == [(b"key", b"some bytes"), (b"", b"more"), (None, b"bytes")]


def test_append_many_keeps_the_order(open_log: Open) -> None:
    written = [bytes([index % 256]) * (index % 700) for index in range(1500)]
    keys = [None if index % 3 else b"k%d" % index for index in range(1500)]
    types = [index % 5 for index in range(1500)]
    log = open_log()
    positions = log.append_many(written, keys=keys, types=types, timestamp_ns=42)
    records = list(log.tailer(visibility="appended"))
    assert [(record.value, record.key, record.type) for record in records] == list(
        zip(written, keys, types, strict=True)
    )
    assert {record.timestamp_ns for record in records} == {42}
    assert positions.tolist() == [record.position for record in records]
    assert log.append_many([]).tolist() == []


def test_append_array_keeps_the_order_of_rows(open_log: Open) -> None:
    rows = np.arange(5000 * 12, dtype=np.uint8).reshape(5000, 12)
    table = np.zeros(40, dtype=[("id", "<i8"), ("price", "<f4")])
    table["id"] = range(40)
    log = open_log()
    positions = log.append_array(rows)
    log.append_array(rows[::2, ::3], timestamp_ns=9)
    log.append_array(table)
    found = all_appended(log)
    strided = np.ascontiguousarray(rows[::2, ::3])
    assert found == [row.tobytes() for array in (rows, strided, table) for row in array]
    assert (
        positions.tolist()
        == [record.position for record in log.tailer(visibility="appended")][:5000]
    )
    assert log.append_array(np.zeros((0, 8))).tolist() == []


# --- watermarks and visibility --------------------------------------------------------------------


def test_watermarks_keep_their_order_during_appends(open_log: Open) -> None:
    log = open_log(
        flush_interval=0.001, commit_interval=0.001, flush_least_pages=0, commit_least_pages=0
    )
    done = threading.Event()

    def append() -> None:
        try:
            for _ in range(40):
                log.append_array(np.zeros((100, 64), dtype=np.uint8), sync=False)
        finally:
            done.set()

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(append)
        while not done.is_set():
            flushed, committed = log.flushed_position, log.committed_position
            appended, tail = log.appended_position, log.tail_position
            assert flushed <= committed <= appended <= tail
        writing.result()
    log.flush()
    assert (
        log.flushed_position == log.committed_position == log.appended_position == log.tail_position
    )


def test_each_visibility_ends_at_its_watermark(open_log: Open, setup: Setup) -> None:
    log = open_log(**BY_HAND)
    log.append(b"one", sync=False)
    assert values(log, visibility="appended") == [b"one"]
    assert values(log, visibility="committed") == ([] if setup.pooled else [b"one"])
    assert values(log, visibility="flushed") == []
    assert log.commit() is True
    assert values(log, visibility="committed") == [b"one"]
    assert values(log, visibility="flushed") == []
    assert log.flush() == log.tail_position
    assert values(log, visibility="flushed") == [b"one"]


def test_sync_append_is_durable_when_it_returns(open_log: Open, setup: Setup) -> None:
    log = open_log(**BY_HAND)
    log.append(b"waited for", sync=True)
    assert log.flushed_position == log.tail_position
    log.append(b"as the log says")
    assert (log.flushed_position == log.tail_position) == (setup.flush == "sync")


def test_commit_shows_records_to_a_reader_in_another_process(
    open_log: Open, logs: Logs, in_child: Callable[..., Any]
) -> None:
    log = open_log(**BY_HAND)
    positions = log.append_many(
        [b"a", b"b", bytes(5000)], keys=[b"k", None, b""], sync=False
    ).tolist()
    log.commit()

    def read() -> list[tuple[Any, ...]]:
        with commitlog.open(logs.path / "log", "r", log.options) as reader:
            return [(record.position, record.key, record.value) for record in reader.tailer()]

    assert in_child(read) == list(
        zip(positions, [b"k", None, b""], [b"a", b"b", bytes(5000)], strict=True)
    )


def test_reader_follows_appends_and_rolls(open_log: Open, logs: Logs) -> None:
    log = open_log(commit_interval=0.001, commit_least_pages=0)
    reader = logs.open(mode="r")
    written = [b"%06d" % index * 50 for index in range(3000)]
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(
            lambda: [
                record.value
                for _, record in zip(written, reader.tailer().follow(timeout=60), strict=False)
            ]
        )
        for start in range(0, 3000, 100):
            log.append_many(written[start : start + 100], sync=False)
        assert reading.result() == written


def test_flushed_watermark_reaches_other_handles(open_log: Open, logs: Logs) -> None:
    log = open_log(**BY_HAND)
    log.append_many([b"x"] * 10, sync=False)
    reader = logs.open(mode="r")
    assert values(reader, visibility="flushed") == []
    log.flush()
    assert values(reader, visibility="flushed") == [b"x"] * 10
    assert reader.flushed_position == log.flushed_position


# --- restart --------------------------------------------------------------------------------------


def test_clean_restart_keeps_records_and_positions(open_log: Open) -> None:
    log = open_log()
    written = [b"%d" % index * (index % 90) for index in range(1200)]
    positions = log.append_many(written).tolist()
    tail = log.tail_position
    for _ in range(3):
        log.close()
        log = open_log()
        assert log.tail_position == log.flushed_position == tail
        assert [(record.position, record.value) for record in log.tailer()] == list(
            zip(positions, written, strict=True)
        )
        positions.append(log.append(b"again"))
        written.append(b"again")
        assert positions[-1] == tail
        tail = log.tail_position


def test_log_reopens_in_every_other_setup(open_log: Open, logs: Logs) -> None:
    written = []
    for turn, backing in enumerate(("mapped", "anonymous", "shm", "mapped")):
        log = open_log() if turn == 0 else logs.open_as(Setup("async", backing))  # type: ignore[arg-type]
        written += [b"%d %d" % (turn, index) * 20 for index in range(500)]
        log.append_many(written[-500:])
        assert all_appended(log) == written
        log.close()


def test_close_returns_the_buffers(logs: Logs, setup: Setup) -> None:
    if not setup.pooled:
        log = logs.open_as(setup)
        log.append(b"x")
        log.close()
        assert log.stats().pool is None
        return
    pool = logs.pool(setup.backing)
    for _ in range(3):
        with logs.open_as(setup) as log:
            log.append_array(np.zeros((3000, 40), dtype=np.uint8), sync=False)
            assert pool.available < pool.buffers
        assert pool.available == pool.buffers
        assert pool.buffers - pool.available == 0


# --- reading --------------------------------------------------------------------------------------


def test_views_stay_valid_after_roll_and_close(open_log: Open) -> None:
    log = open_log()
    log.append(b"looked at", key=b"key")
    log.flush()
    view = log.tailer().read().view()  # type: ignore[union-attr]
    assert view.readonly
    log.append_array(np.ones((4000, 50), dtype=np.uint8))
    log.close()
    assert bytes(view) == b"looked at"


def test_tailer_starts_at_the_given_position(open_log: Open) -> None:
    log = open_log()
    positions = log.append_many([b"%d" % index * 30 for index in range(3000)]).tolist()
    log.flush()
    everything = values(log, start="first")
    assert len(everything) == 3000
    for index in (0, 1, 700, 1500, 2999):
        assert values(log, start=positions[index]) == everything[index:]
    ended = log.tailer(start="end")
    assert list(ended) == []
    log.append(b"after")
    log.commit()
    assert [record.value for record in ended] == [b"after"]
    assert values(log, start=log.tail_position) == []
    ended.seek(positions[2998])
    assert ended.position == positions[2998]
    assert list(ended.values()) == [*everything[2998:], b"after"]


@pytest.mark.parametrize("idle", ["spin", "yield", "backoff", "block"])
@pytest.mark.parametrize("visibility", ["committed", "appended", "flushed"])
def test_follow_waits_for_records_and_ends_with_the_log(
    open_log: Open, idle: Any, visibility: Any
) -> None:
    log = open_log(
        commit_interval=0.002, commit_least_pages=0, flush_interval=0.002, flush_least_pages=0
    )
    tailer = log.tailer(visibility=visibility)
    seen: list[bytes] = []
    arrived = threading.Semaphore(0)

    def follow() -> None:
        for record in tailer.follow(idle=idle):
            seen.append(record.value)
            arrived.release()

    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(follow)
        for index in range(5):
            log.append(b"%d" % index)
            if visibility == "flushed":
                log.flush()
            assert arrived.acquire(timeout=60)
        log.close()
        following.result(timeout=60)
    assert seen == [b"0", b"1", b"2", b"3", b"4"]


def test_read_with_timeout_returns_none_or_the_next_record(open_log: Open) -> None:
    log = open_log(commit_interval=0.001, commit_least_pages=0)
    tailer = log.tailer()
    assert tailer.read() is None
    assert tailer.read(timeout=0.01) is None
    assert tailer.read(timeout="5ms", idle="block") is None
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(tailer.read, timeout=60)
        log.append(b"came")
        record = reading.result()
    assert record is not None
    assert record.value == b"came"


def test_batches_equal_iteration(open_log: Open) -> None:
    log = open_log()
    log.append_many(
        [bytes([index % 256]) * (index % 400) for index in range(2000)],
        keys=[None if index % 3 == 0 else b"k" * (index % 7) for index in range(2000)],
        types=[index % 4 for index in range(2000)],
    )
    log.append(bytes(LARGEST_VALUE))
    log.flush()
    records = list(log.tailer())
    for most in (7, 300, 65536):
        tailer = log.tailer()
        found = []
        while len(batch := tailer.read_batch(most)):
            assert len(batch) <= most
            columns = (batch.positions.tolist(), batch.timestamps_ns.tolist(), batch.types.tolist())
            found += list(
                zip(
                    *columns,
                    [batch.key(row) for row in range(len(batch))],
                    batch.values(),
                    strict=True,
                )
            )
        assert found == [
            (record.position, record.timestamp_ns, record.type, record.key, record.value)
            for record in records
        ]


# --- many threads ---------------------------------------------------------------------------------


def test_concurrent_appends_flushes_and_tailers(open_log: Open) -> None:
    log = open_log(commit_interval=0.001, commit_least_pages=0)
    each = 1200

    def append(writer: int) -> None:
        for index in range(0, each, 4):
            log.append(b"%d %d " % (writer, index) + bytes(100), sync=False)
            with log.claim(120) as claim:
                claim.buffer[:] = (b"%d %d " % (writer, index + 1)).ljust(120, b"\0")
            log.append_many(
                [b"%d %d " % (writer, there) for there in (index + 2, index + 3)], sync=False
            )

    def flush(stop: threading.Event) -> None:
        while not stop.is_set():
            log.flush()
            log.commit()

    def read(visibility: Any) -> list[bytes]:
        following = log.tailer(visibility=visibility).follow(timeout=60)
        return [record.value for _, record in zip(range(3 * each), following, strict=False)]

    stop = threading.Event()
    with ThreadPoolExecutor(7) as pool:
        reading = [
            pool.submit(read, visibility) for visibility in ("appended", "committed", "flushed")
        ]
        flushing = pool.submit(flush, stop)
        for writing in [pool.submit(append, writer) for writer in range(3)]:
            writing.result()
        found = [reader.result() for reader in reading]
        stop.set()
        flushing.result()
    for seen in found:
        of_writer: dict[int, list[int]] = {0: [], 1: [], 2: []}
        for value in seen:
            writer, index = value.split()[:2]
            of_writer[int(writer)].append(int(index))
        assert of_writer == {writer: list(range(each)) for writer in range(3)}
    assert found[0] == found[1] == found[2] == all_appended(log)
