"""Where a named tailer resumes: after each way of reading, an exception, a restart, or a change of
the log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import commitlog
from commitlog import Batch, Tailer
from commitlog.errors import PositionError
from tests.setups import HEADER, SEGMENT, Logs, Setup, values
from tests.tail.named import filled, read


def test_named_tailers_resume_after_a_restart(logs: Logs) -> None:
    """Port of a Chronicle Queue test: after a restart each of two tailers resumes after the records
    it read.
    """
    log = filled(logs)
    assert read(log.tailer("a"), 3) == [b"0", b"1", b"2"]
    assert read(log.tailer("b"), 1) == [b"0"]
    log.close()
    log = logs.open()
    assert read(log.tailer("a"), 1) == [b"3"]
    assert read(log.tailer("b"), 1) == [b"1"]
    assert values(log) == [b"%d" % index for index in range(10)]


def test_position_is_saved_in_every_setup(logs: Logs, setup: Setup) -> None:
    log = logs.open_as(setup)
    log.append_many([b"%d" % index for index in range(5000)])
    log.commit()
    with log.tailer("a") as tailer:
        for _ in range(4000):
            tailer.read()
    log.close()
    log = logs.open_as(setup)
    assert list(log.tailer("a").values()) == [b"%d" % index for index in range(4000, 5000)]


def test_reader_of_a_closed_log_saves_its_position(logs: Logs) -> None:
    filled(logs).close()
    with logs.open(mode="r") as reader, reader.tailer("a") as tailer:
        read(tailer, 3)
    with logs.open(mode="r") as reader:
        assert read(reader.tailer("a"), 1) == [b"3"]


# --- each way of reading --------------------------------------------------------------------------

READS: dict[str, Callable[[Tailer], Any]] = {
    "read": lambda tailer: [tailer.read() for _ in range(3)],
    "read_batch": lambda tailer: tailer.read_batch(3),
    "a batch after another": lambda tailer: (tailer.read_batch(1), tailer.read_batch(2)),
    "read with a timeout": lambda tailer: [tailer.read(timeout=1) for _ in range(3)],
    "seek": lambda tailer: tailer.seek(sequence=3),
    "seek by key": lambda tailer: tailer.seek(key=b"3"),
    "search": lambda tailer: tailer.search(lambda record: int(record.value), 3),
    "seek to the end": lambda tailer: (tailer.seek("end"), tailer.seek(sequence=3)),
    "backward": lambda tailer: (
        tailer.seek(sequence=4),
        setattr(tailer, "direction", "backward"),
        tailer.read(),
    ),
    "reading": lambda tailer: [_read_in_context(tailer) for _ in range(3)],
    "reading_batch": lambda tailer: _batch_in_context(tailer, 3),
    "loop to a break": lambda tailer: _loop(tailer, 4),
    "loop of values": lambda tailer: _loop(tailer.values(), 4),
    "loop of follow": lambda tailer: _loop(tailer.follow(), 4),
    "loop at the recorded pace": lambda tailer: _loop(tailer.follow(speed=1000.0), 4),
    "loop of a coroutine": lambda tailer: asyncio.run(_loop_in_coroutine(tailer, 4)),
    "two loops": lambda tailer: (_loop(tailer, 2), _loop(tailer, 3)),
    "a loop, then a call": lambda tailer: (_loop(tailer, 3), tailer.read()),
}


def _read_in_context(tailer: Tailer) -> None:
    with tailer.reading() as record:
        assert record is not None


def _batch_in_context(tailer: Tailer, count: int) -> None:
    with tailer.reading_batch(count) as batch:
        assert len(batch) == count


def _loop(records: Any, count: int) -> None:
    """Iterate over `count` records and break in the last one."""
    for index, _ in enumerate(records, 1):
        if index == count:
            break


async def _loop_in_coroutine(tailer: Tailer, count: int) -> None:
    index = 0
    async for _ in tailer.follow():
        index += 1
        if index == count:
            break


@pytest.mark.parametrize("way", READS)
def test_each_way_of_reading_saves_the_position(logs: Logs, way: str) -> None:
    log = logs.open()
    log.append_many(
        [b"%d" % index for index in range(10)], keys=[b"%d" % index for index in range(10)]
    )
    with log.tailer("a") as tailer:
        READS[way](tailer)
    assert read(log.tailer("a"), 1) == [b"3"]


def test_completed_loop_saves_the_end_position(logs: Logs) -> None:
    log = filled(logs)
    for name, loop in (
        ("a", lambda tailer: tailer),
        ("b", lambda tailer: tailer.values()),
        ("c", lambda tailer: tailer.follow(timeout=0)),
    ):
        with log.tailer(name) as tailer:
            assert len(list(loop(tailer))) == 10
        with log.tailer(name) as tailer:
            assert tailer.read() is None


def test_record_of_a_broken_loop_is_read_again(logs: Logs) -> None:
    log = filled(logs)
    tailer = log.tailer("a")
    for record in tailer:
        if record.value == b"4":
            break
    assert read(tailer, 1) == [b"4"]
    assert [record.value for record in tailer] == [b"5", b"6", b"7", b"8", b"9"]


def test_read_inside_a_loop_takes_the_next_record(logs: Logs) -> None:
    tailer = filled(logs).tailer("a")
    pairs = []
    for record in tailer:
        with tailer.reading() as following:
            assert following is not None
            pairs.append((record.value, following.value))
    assert pairs == [(b"0", b"1"), (b"2", b"3"), (b"4", b"5"), (b"6", b"7"), (b"8", b"9")]
    assert tailer.read() is None


def test_record_of_a_failed_loop_is_read_again(logs: Logs) -> None:
    log = filled(logs)
    tailer = log.tailer("a")

    def fail_on(records: Any) -> None:
        for _record in records:
            raise ZeroDivisionError

    ways: list[Callable[[], Any]] = [lambda: tailer, tailer.values, tailer.follow, tailer.striding]
    for way in ways:
        tailer.seek(sequence=0)
        with pytest.raises(ZeroDivisionError):
            fail_on(way())
        again = next(iter(way()))
        assert (again if isinstance(again, bytes) else again.value) == b"0"
        with tailer.reading() as record:
            assert record is not None
            assert record.value == b"0"


def test_unnamed_tailer_resumes_after_a_broken_loop(logs: Logs) -> None:
    tailer = filled(logs).tailer()
    for record in tailer:
        if record.value == b"4":
            break
    assert next(iter(tailer)).value == b"5"


@pytest.mark.parametrize("name", ["a", None])
def test_record_of_a_failed_reading_block_is_read_again(logs: Logs, name: str | None) -> None:
    """Port of a Chronicle Queue test: a record whose handling failed is read again, before and
    after a restart.
    """
    log = filled(logs)
    tailer = log.tailer(name)

    def fail_with(context: Any, expected: list[bytes]) -> None:
        with context as what:
            assert (what.values() if isinstance(what, Batch) else [what.value]) == expected
            raise ZeroDivisionError

    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            fail_with(tailer.reading(), [b"0"])
    with pytest.raises(ZeroDivisionError):
        fail_with(tailer.reading_batch(4), [b"0", b"1", b"2", b"3"])
    with tailer.reading() as record:
        assert record is not None
        assert record.value == b"0"
    with tailer.reading_batch(2) as batch:
        assert batch.values() == [b"1", b"2"]
    if name is not None:
        with pytest.raises(KeyboardInterrupt), tailer.reading():
            raise KeyboardInterrupt
        tailer.close()
        tailer = log.tailer(name)
    assert read(tailer, 1) == [b"3"]


def test_reading_at_the_end_returns_none_after_timeout(logs: Logs) -> None:
    tailer = logs.open().tailer("a")
    with tailer.reading(timeout="1ms") as record:
        assert record is None
    with tailer.reading_batch(timeout="1ms") as batch:
        assert len(batch) == 0


# --- which place ----------------------------------------------------------------------------------


def test_direction_is_not_saved(logs: Logs) -> None:
    log = filled(logs)
    with log.tailer("a", direction="backward") as tailer:
        assert read(tailer, 2) == [b"9", b"8"]
    with log.tailer("a") as tailer:
        assert tailer.direction == "forward"
        assert read(tailer, 1) == [b"8"]


def test_new_name_obeys_start_and_known_name_resumes(logs: Logs) -> None:
    log = filled(logs)
    with log.tailer("a", start="end") as tailer:
        assert tailer.read() is None
        log.append(b"new")
        assert read(tailer, 1) == [b"new"]
    with log.tailer("a", start="first") as tailer:
        assert tailer.read() is None
        assert (tailer.name, log.tailer().name) == ("a", None)


def test_position_at_the_end_of_a_segment_is_resumed(logs: Logs) -> None:
    log = logs.open()
    log.append(b"x")
    log.roll()
    with log.tailer("a") as tailer:
        assert len(list(tailer)) == 1
        assert tailer.read() is None
    with log.tailer("a") as tailer:
        log.append(b"y")
        assert read(tailer, 1) == [b"y"]
        assert tailer.position > SEGMENT + HEADER


def test_seek_to_a_cycle_is_saved(logs: Logs) -> None:
    log = filled(logs, roll_cycle="DAILY")
    with log.tailer("a") as tailer:
        read(tailer, 4)
        assert tailer.seek_cycle(log.cycles()[0].number)
    assert read(log.tailer("a"), 1) == [b"0"]


def test_failed_seek_keeps_the_saved_position(logs: Logs) -> None:
    log = filled(logs)
    tailer = log.tailer("a")
    read(tailer, 2)
    with pytest.raises(PositionError):
        tailer.seek(12345)
    assert tailer.seek(key=b"none") is False
    tailer.close()
    assert read(log.tailer("a"), 1) == [b"2"]


# --- a log that changed ---------------------------------------------------------------------------


def test_read_at_deleted_position_names_the_first_position(logs: Logs) -> None:
    log = logs.open(flush="sync")
    for turn in range(4):
        log.append(b"%d" % turn)
        log.roll()
    with log.tailer("a") as tailer:
        assert read(tailer, 1) == [b"0"]
    assert log.delete_before(3 * SEGMENT)
    log.close()
    log = logs.open()
    tailer = log.tailer("a")
    with pytest.raises(PositionError, match="were deleted") as caught:
        tailer.read()
    assert caught.value.first_position == log.first_position - HEADER
    tailer.seek("first")
    assert read(tailer, 1) == [b"3"]


def cut(path: Path, records: int) -> None:
    """Truncate a log as a power cut may: keep `records` records of one byte, and neither checkpoint
    nor cursors.
    """
    file = min(path.glob("*.seg"))
    content = bytearray(file.read_bytes())
    content[HEADER + records * 24 :] = bytes(len(content) - HEADER - records * 24)
    file.write_bytes(content)
    (path / "checkpoint").unlink()
    (path / "cursors").unlink()


def test_position_beyond_the_end_of_a_cut_log_moves_back(
    logs: Logs, caplog: pytest.LogCaptureFixture
) -> None:
    """Records that were read are lost in a crash; the records appended in their place are read,
    too.
    """
    log = filled(logs)
    log.close()
    path = log.path
    with commitlog.open(path) as log, log.tailer("a") as tailer:
        list(tailer)
    cut(Path(path), 5)
    with commitlog.open(path) as log:
        log.append_many([b"new"] * 5)
        assert list(log.tailer("a").values()) == [b"new"] * 5
    assert "tailer 'a'" in caplog.text


def test_named_tailer_before_recovery_goes_to_the_visible_end(
    logs: Logs, caplog: pytest.LogCaptureFixture
) -> None:
    log = filled(logs)
    with log.tailer("a") as tailer:
        list(tailer)
    log.close()
    cut(Path(log.path), 5)
    reader = logs.open(mode="r")
    tailer = reader.tailer("a")
    assert tailer.position == HEADER + 5 * 24
    assert "continues there" in caplog.text
