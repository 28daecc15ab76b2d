"""The life of a handle: close, fork, signals, interpreter exit, deletion, and use by threads."""

from __future__ import annotations

import contextlib
import pickle
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from commitlog import CommitLog, Record, Tailer
from commitlog.errors import (
    ClosedError,
    CloseTimeoutError,
    InUseError,
    PoolBufferError,
    PositionError,
    ReadOnlyError,
    RecordTypeError,
    RolledBackError,
    SegmentHeldError,
)
from commitlog.log.parts import parts_of
from tests.conftest import ROOT
from tests.setups import BY_HAND, HEADER, SEGMENT, Logs, Setup

# --- close ----------------------------------------------------------------------------------------


def uses(log: CommitLog, tailer: Tailer, record: Record) -> list[Callable[[], object]]:
    """Return every call that needs an open log."""
    position = record.position
    return [
        lambda: log.append(b"x"),
        lambda: log.append_many([b"x"]),
        lambda: log.append_array(np.zeros((1, 4))),
        lambda: log.claim(5),
        log.commit,
        log.flush,
        log.roll,
        log.tailer,
        lambda: log.read(position),
        lambda: log.delete_before(position),
        lambda: log.first_position,
        tailer.read,
        lambda: tailer.read(timeout=1),
        tailer.read_batch,
        lambda: list(tailer),
        lambda: list(tailer.values()),
        lambda: tailer.seek("first"),
        lambda: tailer.seek("end"),
        lambda: tailer.seek(position),
        record.view,
    ]


def test_every_call_after_close_raises_closed_error(logs: Logs, setup: Setup) -> None:
    log = logs.open_as(setup)
    log.append(b"value")
    log.flush()
    tailer = log.tailer()
    record = tailer.read()
    assert record is not None
    log.close()
    log.close()
    assert log.closed
    assert "closed" in repr(log)
    for attempt in uses(log, tailer, record):
        with pytest.raises(ClosedError):
            attempt()
    assert list(tailer.follow()) == []
    assert record.value == b"value"
    assert log.stats().records == 1
    assert log.tail_position == log.flushed_position
    tailer.close()


def test_claim_left_open_at_close_is_rolled_back(logs: Logs, setup: Setup) -> None:
    log = logs.open_as(setup, claim_timeout=0.03)
    log.append(b"before", sync=False)
    claim = log.claim(100)
    view = claim.buffer
    untouched = log.claim(100, sync=False)
    log.close()
    if setup.pooled:
        pool = logs.pool(setup.backing)
        assert pool.buffers - pool.available == 1
        with pytest.raises(PoolBufferError, match="log"):
            pool.close()
    view[:] = b"w" * 100
    with pytest.raises(RolledBackError), claim:
        claim.truncate(3)
    with pytest.raises(RolledBackError), untouched:
        untouched.buffer[:] = b"u" * 100
    del view
    if setup.pooled:
        assert logs.pool(setup.backing).available == logs.pool(setup.backing).buffers
    assert list(logs.open_as(setup).tailer(visibility="appended").values()) == [b"before"]


def test_close_past_its_timeout_raises_and_can_be_retried(logs: Logs) -> None:
    log = logs.open(claim_timeout=0.2, close_timeout=0.01)
    claim = log.claim(5)
    log.append(b"behind")
    with pytest.raises(CloseTimeoutError):
        log.close()
    assert not log.closed
    with pytest.raises(ClosedError):
        log.append(b"x")
    while not log.closed:  # ends with the claim timeout
        with contextlib.suppress(CloseTimeoutError):
            log.close()
    with pytest.raises(RolledBackError), claim:
        pass
    assert list(logs.open().tailer().values()) == [b"behind"]


def test_close_flushes_any_number_of_segments(logs: Logs, setup: Setup) -> None:
    options = {**BY_HAND, "pool": logs.pool(setup.backing, buffers=4)} if setup.pooled else BY_HAND
    log = logs.open(flush=setup.flush, **options)
    rows = np.arange(6000 * 4, dtype=np.uint64).reshape(-1, 4)
    log.append_array(rows, sync=False)
    assert log.tail_position > 4 * SEGMENT
    log.close()
    assert log.flushed_position == log.tail_position
    assert b"".join(logs.open(mode="r").tailer().values()) == rows.tobytes()


def test_close_ends_a_reader_waiting_for_the_next_segment(logs: Logs) -> None:
    for _ in range(20):
        log = logs.open(allocate_ahead=0, prefault=False)
        log.append_array(np.zeros((1920, 16), dtype=np.uint8))
        reader = logs.open(mode="r")
        tailer = reader.tailer(start="end")
        with ThreadPoolExecutor(1) as pool:
            following = pool.submit(lambda tailer=tailer: list(tailer.follow()))
            reader.close()
            assert following.result(timeout=60) == []
        log.close()


def test_context_manager_closes_the_log_after_an_error(logs: Logs) -> None:
    log = logs.open()
    log.append(b"kept")
    with pytest.raises(RecordTypeError), log:
        log.append("not bytes")  # type: ignore[arg-type, unused-ignore]
    assert log.closed
    assert list(logs.open().tailer().values()) == [b"kept"]


def test_unclosed_log_is_drained_at_exit_with_a_warning(
    run_python: Callable[..., Any], logs: Logs, tmp_path: Path
) -> None:
    script = """
import sys, commitlog
pool = None
if sys.argv[2] == "pooled":
    pool = commitlog.TransientStorePool(buffers=2, buffer_size="64KiB", lock_memory="off")
tuning = commitlog.Tuning(commit_thorough_interval=60)
never = {"commit_interval": 60, "tuning": tuning, "flush": "none"}
log = commitlog.open(sys.argv[1], pool=pool, segment_size="64KiB", **never)
log.append_many([b"%d" % index for index in range(3000)])
del log, pool
"""
    for kind in ("pooled", "mapped"):
        ended = run_python(script, tmp_path / kind, kind)
        assert ended.returncode == 0, ended.stderr
        assert "ResourceWarning" in ended.stderr
        assert "never closed" in ended.stderr
        assert "Traceback" not in ended.stderr
        log = logs.open(kind, mode="r")
        assert len(list(log.tailer(visibility="flushed"))) == 3000


# --- reading handles ------------------------------------------------------------------------------


def test_every_write_to_a_read_only_log_is_refused(logs: Logs) -> None:
    log = logs.open()
    position = log.append(b"there")
    reader = logs.open(mode="r")
    attempts: list[Callable[[], object]] = [
        lambda: reader.append(b"x"),
        lambda: reader.append(bytes(1 << 20)),
        lambda: reader.append_many([b"x"]),
        lambda: reader.append_array(np.zeros((1, 8))),
        lambda: reader.claim(5),
        reader.commit,
        reader.flush,
        reader.roll,
        lambda: reader.delete_before(position),
    ]
    for attempt in attempts:
        with pytest.raises(ReadOnlyError, match="mode 'a'"):
            attempt()
    assert [record.value for record in reader.tailer()] == [b"there"]


def test_tailer_in_use_refuses_a_second_thread(logs: Logs, until: Callable[..., None]) -> None:
    log = logs.open()
    tailer = log.tailer()

    def waits() -> bool:
        try:
            tailer.direction = "forward"  # unlike a read, this does not mark the tailer in use
        except InUseError:
            return True
        return False

    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(tailer.read, timeout=None, idle="block")
        until(waits)
        with pytest.raises(InUseError, match="one tailer for each thread"):
            tailer.read_batch()
        log.append(b"for the first")
        record = reading.result(timeout=60)
    assert record is not None
    assert record.value == b"for the first"


def test_pickled_record_equals_the_original(logs: Logs, setup: Setup) -> None:
    log = logs.open_as(setup)
    log.append(b"value", key=b"key", type=7, timestamp_ns=12)
    record = log.tailer(visibility="appended").read()
    assert record is not None
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        twin = pickle.loads(pickle.dumps(record, protocol))
        assert twin == record
        assert hash(twin) == hash(record)
        assert (twin.position, twin.value, twin.key, twin.type, twin.timestamp_ns) == (
            HEADER,
            b"value",
            b"key",
            7,
            12,
        )
        assert bytes(twin.view()) == b"value"
    assert record != b"value"
    assert "b'value'" in repr(record)


def test_view_of_an_uncommitted_record_returns_its_value(logs: Logs, setup: Setup) -> None:
    log = logs.open_as(setup, **BY_HAND)
    log.append(b"not yet", sync=False)
    record = log.tailer(visibility="appended").read()
    assert record is not None
    assert bytes(record.view()) == b"not yet"
    log.flush()
    assert bytes(record.view()) == b"not yet"


@pytest.mark.parametrize("name", ["log", "tailer"])
def test_dir_lists_the_documented_names_and_hides_the_engine(logs: Logs, name: str) -> None:
    log = logs.open()
    used = log if name == "log" else log.tailer()
    shown = dir(used)
    assert all(hasattr(used, each) for each in shown)
    assert not {"fail", "setup", "move_tail", "batch", "move_to", "_wire"} & set(shown)
    pages = "".join(
        page.read_text(encoding="utf-8")
        for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md"))
        if page.name not in {"messages.md", "sealed.md"}  # their tailers are those of topics
    )
    assert set(re.findall(rf"\b{name}\.([a-z]\w*)", pages)) - {
        "json",
        "py",
        "c",
        "readingDocument",
        "rst",
    } <= set(shown)


# --- deletion -------------------------------------------------------------------------------------


@pytest.mark.usefixtures("no_other_holders")
def test_delete_before_removes_front_segments_without_a_gap(logs: Logs, setup: Setup) -> None:
    log = logs.open_as(setup, **BY_HAND)
    for _ in range(8):
        log.append_array(np.zeros((1000, 32), dtype=np.uint8), sync=False)
        log.roll()
    tailer = log.tailer()
    assert log.delete_before(8 * SEGMENT) == []  # nothing is flushed yet
    log.flush()
    view = log.tailer(start=3 * SEGMENT).read().view()  # type: ignore[union-attr]
    with pytest.raises(SegmentHeldError, match="a view"):
        log.delete_before(6 * SEGMENT, force_after=0.01)
    assert log.first_position == 3 * SEGMENT + HEADER
    assert parts_of(log).queue.numbers()[:3] == [3, 4, 5]
    del view
    assert [Path(path).name for path in log.delete_before(6 * SEGMENT)] == [
        f"{number * SEGMENT:020d}.seg" for number in (3, 4, 5)
    ]
    with pytest.raises(PositionError) as caught:
        tailer.read()
    assert caught.value.first_position == 6 * SEGMENT
    tailer.seek("first")
    assert len(list(tailer)) == 2000
    with pytest.raises(PositionError) as caught:
        log.read(SEGMENT + HEADER)
    assert caught.value.first_position is not None
    log.close()
    assert len(list(logs.open_as(setup).tailer())) == 2000


def test_delete_past_the_tail_keeps_the_last_segment(logs: Logs) -> None:
    log = logs.open()
    log.append(b"x")
    log.flush()
    assert log.delete_before(log.tail_position + 1000 * SEGMENT) == []
    assert log.append(b"y") == HEADER + 24


# --- thousands ------------------------------------------------------------------------------------


@pytest.fixture
def in_memory() -> Iterator[Path]:
    """Return a directory in memory, where a roll takes microseconds."""
    path = Path(tempfile.mkdtemp(dir="/dev/shm", prefix="commitlog-test-"))
    yield path
    shutil.rmtree(path)


@pytest.mark.parametrize(
    ("backing", "turns"),
    [
        ("mapped", 40),
        ("anonymous", 10),
        ("shm", 10),
        *(
            pytest.param(each, 100, marks=pytest.mark.long)
            for each in ("mapped", "anonymous", "shm")
        ),
    ],
)
def test_16_byte_appends_over_many_rolls_keep_their_order(
    in_memory: Path, backing: Any, turns: int
) -> None:
    logs = Logs(in_memory)
    log = logs.open_as(Setup("none", backing))
    tailer = log.tailer(visibility="appended")
    rows = np.zeros((1920 * 20, 2), dtype=np.uint64)
    for turn in range(turns):
        rows[:, 0] = np.arange(turn * len(rows), (turn + 1) * len(rows))
        log.append_array(rows)
        seen = 0
        while len(batch := tailer.read_batch()):
            numbers = batch.data.view(np.uint64)[::2]
            assert np.array_equal(numbers, rows[seen : seen + len(batch), 0])
            seen += len(batch)
        assert seen == len(rows)
        if turn % 10 == 9:
            log.flush()
            log.delete_before(log.tail_position - 2 * SEGMENT)
    assert log.stats().rolls > 20 * turns
    logs.close()
