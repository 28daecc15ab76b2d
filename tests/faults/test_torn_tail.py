"""Bytes after the end of a log that was not closed are cut; damage below its end is reported and
never cut.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

import commitlog
from commitlog.errors import CorruptRecordError
from tests.faults import image
from tests.faults.account import Account
from tests.faults.child import Child, Link, Report
from tests.faults.writers import (
    APPENDED,
    SEGMENT_SIZE,
    How,
    close_log,
    open_log,
    value_of,
    write_some,
)
from tests.oracle.segment_file import build_frame, build_skip, read_header

Start = Callable[..., Child]
DURABLE = {"flush": "sync", "checkpoint_interval": 0.001}


def killed_log(
    start: Start, path: Path, count: int = 40, flush: str = "sync"
) -> tuple[Account, list[Report], int]:
    """Return a mapped log whose only writer was killed: its account, its reports and its end."""
    child = start(write_some, str(path), 0, count, How(None, DURABLE | {"flush": flush}))
    reports = child.hear(count + 1)
    child.kill()
    account = Account()
    account.note(reports)
    return account, reports[:-1], reports[-1].position


def next_frame(path: Path, end: int) -> bytes:
    """Return the frame that the next append would write."""
    header = read_header(image.segment_path(path, end).read_bytes())
    return build_frame(header.segment_id, end % SEGMENT_SIZE, b"half written, " * 20)


@pytest.mark.parametrize("restarted", [True, False], ids=["after a restart", "in the same boot"])
def test_torn_last_record_is_cut(path: Path, restarted: bool, start: Start) -> None:
    """Any part of the record that reached the file is not read, and its bytes are
    zeroed.
    """
    account, _, end = killed_log(start, path)
    frame = next_frame(path, end)
    for written in [4, 8, 12, 16, 17, 100, len(frame) - 8, len(frame) - 1]:
        if restarted:
            image.forget_boot(path)
        image.poke(image.segment_path(path, end), end % SEGMENT_SIZE, frame[:written])
        log, made = open_log(str(path), None, DURABLE)
        account.check(log)
        assert log.tail_position == end
        assert image.behind(path, end) == b""
        close_log(log, made)
        account, _, end = write_more(start, path, account)
        frame = next_frame(path, end)
    assert len(account.promised) == 40 + 8 * 5


def write_more(start: Start, path: Path, account: Account) -> tuple[Account, list[Report], int]:
    """Append five more records by a writer that is killed."""
    sessions = {mark.session for mark in account.promised.values()}
    child = start(write_some, str(path), max(sessions) + 1, 5, How(None, DURABLE))
    reports = child.hear(6)
    child.kill()
    account.note(reports)
    return account, reports[:-1], reports[-1].position


def test_complete_last_record_is_kept(path: Path, start: Start) -> None:
    """The same bytes as in the test of the torn record, but complete."""
    _, _, end = killed_log(start, path)
    image.forget_boot(path)
    frame = next_frame(path, end)
    image.poke(image.segment_path(path, end), end % SEGMENT_SIZE, frame)
    log, made = open_log(str(path), None, DURABLE)
    assert log.read(end).value == b"half written, " * 20
    assert log.tail_position == end + len(frame)
    close_log(log, made)


def test_torn_frame_truncates_later_frames_into_cut_file(path: Path, start: Start) -> None:
    account, reports, end = killed_log(start, path, flush="none")
    image.forget_boot(path)
    torn = reports[20].position
    image.poke(image.segment_path(path, torn), torn % SEGMENT_SIZE, bytes(8))
    account.promised = {
        position: mark for position, mark in account.promised.items() if position < torn
    }
    log, made = open_log(str(path), None, DURABLE)
    account.check(log)
    assert log.tail_position == torn
    assert image.behind(path, torn) == b""
    close_log(log, made)
    saved = next(path.glob("*.cut")).read_bytes()
    assert all(value_of(0, index) in saved for index in range(21, 40))
    assert end > torn


def test_cut_records_never_return(path: Path, start: Start) -> None:
    """New records of the same sizes overwrite the cut range, kill after kill: no old record is read
    again.
    """
    account, reports, _ = killed_log(start, path, 60, "none")
    image.forget_boot(path)
    torn = reports[10].position
    image.poke(image.segment_path(path, torn), torn % SEGMENT_SIZE, bytes(8))
    account.promised = {
        position: mark for position, mark in account.promised.items() if position < torn
    }
    for index in range(10, 50, 5):
        log, made = open_log(str(path), None, {"flush": "none"})
        values = [record.value for record in log.tailer()]
        assert values == [value_of(0, old) for old in range(10)] + [
            new_value(new) for new in range(10, index)
        ]
        assert log.tail_position == reports[index].position
        assert image.behind(path, log.tail_position) == b""
        close_log(log, made)
        child = start(write_new, str(path), index, index + 5)
        assert [report.position for report in child.hear(5)] == [
            report.position for report in reports[index : index + 5]
        ]
        child.kill()
        image.forget_boot(path)


def new_value(index: int) -> bytes:
    """Return other bytes of the same length as the old record with that index."""
    return value_of(0, index)[::-1]


def write_new(link: Link, path: str, first: int, last: int) -> None:
    """Append the new records, then wait for the kill."""
    log, _ = open_log(path, None, {"flush": "none"})
    for index in range(first, last):
        link.say(APPENDED, 0, index, log.append(new_value(index)))
    link.wait()


def test_damage_below_flushed_mark_is_reported_and_never_cut(
    path: Path, numbers: random.Random, start: Start
) -> None:
    account, reports, end = killed_log(start, path)
    log, made = open_log(str(path), None, DURABLE)  # the checkpoint is now at the end
    close_log(log, made)
    account, _, end = write_more(start, path, account)
    image.forget_boot(path)
    at = numbers.randrange(1, 39)
    damaged, following = reports[at].position, reports[at + 1].position
    length = len(value_of(0, at))
    image.poke(image.segment_path(path, damaged), damaged % SEGMENT_SIZE + 16 + length // 2, b"\0")
    before = image.segment_path(path, damaged).read_bytes()
    for _ in range(2):
        log, made = open_log(str(path), None, DURABLE)
        assert log.tail_position == end
        with pytest.raises(CorruptRecordError) as caught:
            list(log.tailer())
        assert (caught.value.position, caught.value.resume_position) == (damaged, following)
        with log.tailer(on_damage="skip") as tailer:
            assert [record.position for record in tailer] == [
                position for position in account.promised if position != damaged
            ]
        close_log(log, made)
    assert image.segment_path(path, damaged).read_bytes()[4096:] == before[4096:]


def test_damage_in_closed_log_is_reported_and_never_cut(path: Path) -> None:
    log, made = open_log(str(path), None, DURABLE)
    positions = [log.append(value_of(0, index)) for index in range(40)]
    end = log.tail_position
    close_log(log, made)
    image.poke(image.segment_path(path, positions[7]), positions[7] % SEGMENT_SIZE + 1, b"\x77")
    for mode in ("r", "a", "r", "a"):
        with commitlog.open(path, mode) as log:
            assert log.tail_position == end
            with pytest.raises(CorruptRecordError) as caught:
                list(log.tailer())
            assert (caught.value.position, caught.value.resume_position) == (
                positions[7],
                positions[8],
            )
            assert log.read(positions[8]).value == value_of(0, 8)
            if mode == "a":
                end = log.append(b"more") + 24


@pytest.mark.parametrize("mark", [build_skip, None], ids=["rolled back", "zeros"])
def test_log_of_rolled_back_claims_opens_and_appends(
    path: Path, mark: Callable[..., bytes] | None, start: Start
) -> None:
    """Above the checkpoint there are only rolled-back claims, or nothing."""
    account, _, end = killed_log(start, path, 1)
    segment = image.segment_path(path, end)
    header = read_header(segment.read_bytes())
    at = end % SEGMENT_SIZE
    if mark is not None:
        for offset in range(at, at + 800, 8):
            image.poke(segment, offset, mark(header.segment_id, offset, 8))
    image.forget_boot(path)
    log, made = open_log(str(path), None, {})
    account.check(log)
    assert log.append(value_of(0, 1)) == end + (800 if mark is not None else 0)
    account.check(log)
    close_log(log, made)


def test_read_before_recovery_ends_at_torn_tail_and_keeps_files(path: Path, start: Start) -> None:
    account, _, end = killed_log(start, path)
    image.forget_boot(path)
    frame = next_frame(path, end)
    for written in (4, 8, 17, len(frame) - 1):
        image.poke(image.segment_path(path, end), end % SEGMENT_SIZE, frame[:written])
        before = {file.name: file.read_bytes() for file in path.iterdir() if file.name != "cursors"}
        with commitlog.open(path, "r") as log:
            account.check(log)
            with log.tailer() as tailer:
                assert len(list(tailer)) == len(account.promised)
                assert tailer.read(timeout=0) is None
        assert before == {
            file.name: file.read_bytes() for file in path.iterdir() if file.name != "cursors"
        }
