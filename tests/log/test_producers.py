"""`producer=`: a repeat of a number returns the first position, and appends nothing."""

from __future__ import annotations

import asyncio
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import commitlog
from commitlog import CommitLog
from commitlog.errors import (
    ClosedError,
    InUseError,
    InvalidOptionError,
    IOFailureError,
    ProducerSequenceError,
    ReadOnlyError,
    RecordTooLargeError,
)
from commitlog.extension import view_of
from commitlog.keep import archive_segments
from commitlog.keep import prune as prune_outside
from commitlog.log import producers
from commitlog.log.parts import parts_of
from commitlog.segment import producers_file
from tests.copies import copy_log
from tests.setups import LARGEST_VALUE, SEGMENT, Logs, Setup, all_appended

MARK = 32
KEPT = producers_file.NUMBERS_KEPT


def sent(log: CommitLog, *numbers: int, name: str = "till", size: int = 0) -> list[int]:
    return [
        log.append(b"%d" % number + b"." * size, producer=name, producer_sequence=number)
        for number in numbers
    ]


def values(log: CommitLog) -> list[bytes]:
    return all_appended(log)


def test_repeat_returns_the_first_position(setup: Setup, logs: Logs) -> None:
    log = logs.open_as(setup)
    first = log.append(
        b"lamp", key=b"k", type=3, timestamp_ns=5, producer="till", producer_sequence=7
    )
    end = log.tail_position
    for value in (b"lamp", b"other"):
        assert log.append(value, producer="till", producer_sequence=7) == first
    assert log.tail_position == end
    record = log.read(first)
    assert (record.value, record.key, record.type, record.timestamp_ns) == (b"lamp", b"k", 3, 5)
    assert (record.sequence, log.count(), log.last_position) == (0, 1, first)


def test_producers_and_plain_appends_share_no_numbers(setup: Setup, logs: Logs) -> None:
    log = logs.open_as(setup)
    sent(log, 0, 1)
    log.append(b"plain")
    sent(log, 0, 1, name="café")
    assert values(log) == [b"0", b"1", b"plain", b"0", b"1"]


def test_reopened_log_knows_the_numbers(setup: Setup, logs: Logs) -> None:
    log = logs.open_as(setup)
    positions = sent(log, *range(300), size=500)  # over some segments
    log.close()
    log = logs.open_as(setup)
    end = log.tail_position
    assert sent(log, *range(300 - KEPT, 300)) == positions[-KEPT:]
    assert log.tail_position == end
    (next_one,) = sent(log, 300)
    assert log.read(next_one).sequence == 300


def test_older_number_than_the_kept_ones_is_refused(logs: Logs) -> None:
    log = logs.open_as(Setup("none", "mapped"))
    positions = sent(log, *range(KEPT + 5))
    assert sent(log, 5) == positions[5:6]
    end = log.tail_position
    with pytest.raises(ProducerSequenceError, match=f"keeps its last {KEPT} numbers"):
        sent(log, 4)
    assert log.tail_position == end
    log.close()
    log = logs.open_as(Setup("none", "mapped"))
    with pytest.raises(ProducerSequenceError):
        sent(log, 4)


def test_numbers_may_have_gaps_and_come_late(logs: Logs) -> None:
    log = logs.open_as(Setup("none", "mapped"))
    first = sent(log, 10, 3, 20, 4)
    assert sent(log, 3, 4, 10, 20) == [first[1], first[3], first[0], first[2]]
    assert values(log) == [b"10", b"3", b"20", b"4"]


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"producer": "till"}, "producer_sequence must be an int of at least 0, not None"),
        ({"producer_sequence": 1}, "producer must be a name of 1 to 255 bytes, not None"),
        ({"producer": "", "producer_sequence": 1}, "producer must be a name"),
        ({"producer": "x" * 256, "producer_sequence": 1}, "producer must be a name"),
        ({"producer": b"till", "producer_sequence": 1}, "producer must be a name"),
        ({"producer": "till", "producer_sequence": -1}, "of at least 0, not -1"),
        ({"producer": "till", "producer_sequence": 1 << 63}, "of at least 0"),
        ({"producer": "till", "producer_sequence": "1"}, "of at least 0, not '1'"),
        ({"producer": "till", "producer_sequence": 1.5}, "of at least 0"),
        ({"producer": "till", "producer_sequence": 1, "expect": 0}, "exclude each other"),
    ],
)
def test_bad_producer_appends_nothing(logs: Logs, given: dict[str, Any], match: str) -> None:
    log = logs.open_as(Setup("none", "mapped"))
    with pytest.raises(InvalidOptionError, match=match):
        log.append(b"never", **given)
    with pytest.raises(InvalidOptionError, match=match):
        asyncio.run(log.append_async(b"never", **given))
    assert values(log) == []
    assert not (Path(log.path) / "producers").exists()


def test_largest_record_leaves_room_for_its_mark(setup: Setup, logs: Logs) -> None:
    log = logs.open_as(setup)
    with pytest.raises(RecordTooLargeError):
        log.append(b"x" * (LARGEST_VALUE - MARK + 1), producer="till", producer_sequence=0)
    position = log.append(b"x" * (LARGEST_VALUE - MARK), producer="till", producer_sequence=0)
    assert sent(log, 0) == [position]


def test_read_only_and_closed_logs_refuse(tmp_path: Path) -> None:
    log = commitlog.open(tmp_path / "log")
    with commitlog.open(tmp_path / "log", "r") as reader, pytest.raises(ReadOnlyError):
        sent(reader, 0)
    log.close()
    with pytest.raises(ClosedError):
        sent(log, 0)


def test_second_user_of_a_name_waits_and_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producers, "_WAIT_S", 0.05)
    with commitlog.open(tmp_path / "log") as first, commitlog.open(tmp_path / "log") as second:
        sent(first, 0)
        with pytest.raises(InUseError, match="as producer 'till'"):
            sent(second, 1)
        sent(second, 1, name="other")
        (position,) = sent(first, 1)
        first.close()
        assert sent(second, 1) == [position]
        assert values(second) == [b"0", b"1", b"1"]


def test_child_of_a_fork_does_not_share_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producers, "_WAIT_S", 0.05)
    with commitlog.open(tmp_path / "log") as log:
        sent(log, 0)
        child = os.fork()
        if child == 0:
            try:
                sent(log, 1)
            except InUseError:
                os._exit(3)
            os._exit(4)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
        sent(log, 1)
        assert values(log) == [b"0", b"1"]


def test_threads_of_one_handle_append_each_number_once(setup: Setup, logs: Logs) -> None:
    log = logs.open_as(setup)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: sent(log, *range(KEPT // 2)), range(4)))
    assert all(positions == found[0] for positions in found)
    assert sorted(values(log)) == sorted(b"%d" % number for number in range(KEPT // 2))


def test_coroutines_repeat_and_wait_for_durability(tmp_path: Path) -> None:
    async def run(log: CommitLog) -> list[int]:
        return await asyncio.gather(
            *(
                log.append_async(b"lamp", producer="till", producer_sequence=number % 3)
                for number in range(9)
            )
        )

    with commitlog.open(tmp_path / "log", flush="sync") as log:
        positions = asyncio.run(run(log))
        assert positions == positions[:3] * 3
        assert len(set(positions)) == 3
        assert log.flushed_position > max(positions)


def test_repeat_with_sync_makes_the_first_append_durable(tmp_path: Path) -> None:
    with commitlog.open(tmp_path / "log", flush="none") as log:
        (position,) = sent(log, 0)
        flushed = log.flushed_position
        assert flushed <= position
        assert log.append(b"", producer="till", producer_sequence=0, sync=True) == position
        assert log.flushed_position > position


def test_interrupted_append_is_found_by_its_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exception between the append and its note, such as Ctrl-C, must not cost the mark."""
    with commitlog.open(tmp_path / "log", segment_size=SEGMENT) as log:
        sent(log, 0)

        def interrupted(*_: object) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(producers_file.Numbers, "note", interrupted)
            with pytest.raises(KeyboardInterrupt):
                sent(log, 1)
        log.append(b"plain")
        sent(log, 1)
        assert values(log) == [b"0", b"1", b"plain"]


# --- deletion, copies, damage ---------------------------------------------------------------------


@pytest.mark.parametrize("outside", [False, True])
def test_numbers_outlive_their_deleted_records(tmp_path: Path, outside: bool) -> None:
    path = tmp_path / "log"
    with commitlog.open(path, segment_size=SEGMENT, flush="none") as log:
        positions = sent(log, 0, 1, 2)
        for _ in range(4):
            log.roll()
            log.append(b"plain")
        log.flush()
        if not outside:
            log.delete_before(log.tail_position)
            assert sent(log, 0, 1, 2) == positions
        # As if the process was killed: the file has no more than deletions put there.
        parts_of(log).producers.keep = lambda: None  # type: ignore[union-attr, method-assign]
    if outside:
        prune_outside(path, commitlog.Retention(max_bytes=1))
    with commitlog.open(path) as log:
        assert log.first_position > max(positions)
        assert sent(log, 0, 1, 2) == positions


@pytest.mark.parametrize("content", [None, b"", b"{}", b"other"])
def test_lost_or_damaged_file_is_made_again(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "log"
    with commitlog.open(path, segment_size=SEGMENT) as log:
        positions = sent(log, *range(KEPT), size=3000)
    if content is None:
        (path / "producers").unlink()
    elif content == b"other":
        with commitlog.open(tmp_path / "other", segment_size=SEGMENT) as other:
            sent(other, 0)
        shutil.copy(tmp_path / "other" / "producers", path / "producers")
    else:
        (path / "producers").write_bytes(content)
    with commitlog.open(path) as log:
        assert sent(log, *range(KEPT)) == positions


def test_file_of_other_segments_is_made_again(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with commitlog.open(path, segment_size=SEGMENT) as log:
        sent(log, 0)
    copy_log(path, tmp_path / "early")
    for where, number in ((path, 1), (tmp_path / "early", 2)):
        with commitlog.open(where) as log:
            sent(log, number)
            log.roll()
            log.append(b"plain")
    shutil.copy(path / "producers", tmp_path / "early" / "producers")
    with commitlog.open(tmp_path / "early") as log:
        sent(log, 1, 2)
        assert values(log) == [b"0", b"2", b"plain", b"1"]


def test_marks_are_read_behind_damage(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with commitlog.open(path, segment_size=SEGMENT) as log:
        positions = sent(log, 0, 1, 2, size=100)
        log.roll()
        log.append(b"plain")
    (path / "producers").unlink()
    with open(path / f"{0:020}.seg", "r+b") as file:
        file.seek(positions[1])
        file.write(b"\xff" * 4)  # the word of a record
    with commitlog.open(path) as log:
        assert sent(log, 0, 2) == [positions[0], positions[2]]


def test_number_in_a_damaged_mark_is_not_taken(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with commitlog.open(path, segment_size=SEGMENT) as log:
        (position,) = sent(log, 2)
    (path / "producers").unlink()
    with open(path / f"{0:020}.seg", "r+b") as file:
        file.seek(position - MARK + 16)
        file.write(b"\3")  # the number, which no CRC of a frame covers
    with commitlog.open(path) as log:
        assert sent(log, 3) != [position]
        assert values(log) == [b"2", b"3"]


def test_archived_and_restored_log_knows_the_numbers(tmp_path: Path) -> None:
    with commitlog.open(tmp_path / "log", segment_size=SEGMENT) as log:
        positions = sent(log, *range(100), size=2000)
        log.roll()
        log.append(b"plain")
    archive_segments(str(tmp_path / "log"), commitlog.Store(tmp_path / "archive"))
    commitlog.keep.restore(tmp_path / "archive", tmp_path / "copy")
    with commitlog.open(tmp_path / "copy") as log:
        known = [position for position in positions if position < log.tail_position]
        assert len(known) > KEPT
        assert sent(log, *range(len(known) - KEPT, len(known))) == known[-KEPT:]


def test_tail_torn_at_any_byte_costs_no_number(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with commitlog.open(path, segment_size=SEGMENT, flush="none") as log:
        sent(log, 0, size=20)
        log.flush()
        flushed = log.tail_position
        sent(log, 1, 2, size=20)
        end = log.tail_position
        copy_log(path, tmp_path / "live")
    for cut in range(flushed, end + 1, 3):
        torn = tmp_path / f"torn{cut}"
        copy_log(tmp_path / "live", torn)
        (torn / "cursors").unlink()  # as after a power cut
        with open(torn / f"{0:020}.seg", "r+b") as file:
            file.seek(cut)
            file.write(bytes(end - cut))
        with commitlog.open(torn) as log:
            kept = len(values(log))
            log.append(b"plain")  # right behind a mark whose record was cut
            sent(log, 0, 1, 2, 3, size=20)
            found = [value.rstrip(b".") for value in values(log) if value != b"plain"]
            assert found == [b"0", b"1", b"2", b"3"], (cut, kept)


def test_bytes_of_a_claim_that_equal_a_mark_are_ignored(tmp_path: Path) -> None:
    """A claim that ends early leaves a SKIP of 32 bytes with content of the program's own."""
    with commitlog.open(tmp_path / "log", segment_size=SEGMENT) as log:
        (first,) = sent(log, 0, size=7)  # 24 bytes and its mark
        content = (tmp_path / "log" / f"{0:020}.seg").read_bytes()
        mark = content[first - MARK + 8 : first]
        with log.claim(40) as claim:
            claim.buffer[:8] = b"8 bytes."
            claim.buffer[16:40] = mark
            claim.truncate(8)
        log.append(b"plain")
    (tmp_path / "log" / "producers").unlink()
    with commitlog.open(tmp_path / "log") as log:
        with parts_of(log).directory.opened_segment(0) as segment:
            found = list(producers_file.marks_of(segment, log.tail_position))
        assert [(number, position) for _, number, position in found] == [(0, first)]


def test_last_number_is_known_after_a_reopen_and_with_gaps(tmp_path: Path) -> None:
    with commitlog.open(tmp_path / "log") as log:
        view = view_of(log)
        assert view.last_producer_sequence("till") is None
        sent(log, 3, 9)
        sent(log, 4, name="other")
        assert view.last_producer_sequence("till") == 9
    with commitlog.open(tmp_path / "log") as log:
        assert view_of(log).last_producer_sequence("till") == 9
        sent(log, *range(10, 10 + 2 * KEPT))
        assert view_of(log).last_producer_sequence("till") == 9 + 2 * KEPT
        with pytest.raises(InvalidOptionError, match="producer must be a name"):
            view_of(log).last_producer_sequence("")
    with pytest.raises(ClosedError):
        view.last_producer_sequence("till")


def test_last_number_is_refused_to_a_reader(tmp_path: Path) -> None:
    commitlog.open(tmp_path / "log").close()
    with commitlog.open(tmp_path / "log", "r") as log, pytest.raises(ReadOnlyError):
        view_of(log).last_producer_sequence("till")


def test_removed_log_of_a_producer_is_closed(tmp_path: Path) -> None:
    log = commitlog.open(tmp_path / "log")
    log.append(b"a", producer="till", producer_sequence=0)
    shutil.rmtree(log.path)
    with pytest.raises(IOFailureError, match="cannot open lock"):
        log.append(b"b", producer="other", producer_sequence=0)
    log.close()
