"""Many writers over many segments, with small and large frames: no record is lost, each writer's
order is kept, and all readers see the same order.
"""

from __future__ import annotations

import errno
import random
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

import commitlog
from commitlog import CommitLog, Tuning
from commitlog.log.parts import parts_of
from commitlog.segment import directory as directories
from tests.faults import image
from tests.faults.child import Child, Link

Start = Callable[..., Child]
APPENDED, OPENED, READ = "A", "O", "R"
WRITERS = 8
HEAD = struct.Struct("<qqq")

NOTHING_AHEAD = Tuning(allocate_ahead=0)


def value_with(session: int, index: int, size: int) -> bytes:
    """Return a record of that size, whose bytes follow from its session and index."""
    return HEAD.pack(session, index, size) + bytes([(session * 31 + index) & 0xFF]) * (
        size - HEAD.size
    )


def check_value(value: bytes) -> tuple[int, int]:
    session, index, size = HEAD.unpack_from(value)
    assert value == value_with(session, index, size)
    return session, index


def write_mixed(link: Link, path: str, session: int, count: int, seed: str) -> None:
    """Append records of all sizes, singly, in batches and through claims."""
    numbers = random.Random(f"{seed} {session}")
    log = commitlog.open(
        path,
        segment_size="1MiB",
        tuning=Tuning(allocate_ahead=session % 2),
        flush="async" if session % 3 else "none",
        claim_timeout=60,
    )
    link.say(OPENED)
    link.wait()
    index = 0
    while index < count:
        # Three in four are small and may overshoot; frames above 64 KiB claim by compare-and-swap.
        size = numbers.choice(
            [
                numbers.randint(24, 200),
                24,
                numbers.randint(24, 3000),
                numbers.randint(60_000, log.largest_value),
            ]
        )
        if size < 1000 and index % 3 == 0:
            some = [
                value_with(session, index + step, size) for step in range(min(5, count - index))
            ]
            positions = log.append_many(some).tolist()
        elif index % 5 == 0:
            with log.claim(size) as claim:
                claim.buffer[:] = value_with(session, index, size)
            positions = [claim.position]
        else:
            positions = [log.append(value_with(session, index, size))]
        for position in positions:
            link.say(APPENDED, session, index, position)
            index += 1
    log.close()


def read_along(link: Link, path: str, count: int, start: str) -> None:
    """Read live, and report each record with its position."""
    with commitlog.open(path, "r") as log:
        tailer = log.tailer(start=start)  # type: ignore[arg-type]
        link.say(OPENED)
        for _ in range(count):
            record = tailer.read(timeout=60)
            assert record is not None
            link.say(READ, *check_value(record.value), record.position)


def check_all(
    path: Path,
    count: int,
    promised: dict[int, tuple[int, int]],
    seen: list[list[tuple[int, int, int]]],
) -> None:
    with commitlog.open(path) as log:
        found = [(*check_value(record.value), record.position) for record in log.tailer()]
        assert log.tail_position > 8 << 20
    assert {position: (session, index) for session, index, position in found} == promised
    assert len(found) == WRITERS * count
    for session in range(WRITERS):
        assert [index for who, index, _ in found if who == session] == list(range(count))
    for other in seen:
        assert other == found


def run(path: Path, count: int, start: Start, seed: str) -> None:
    with commitlog.open(path, segment_size="1MiB", tuning=NOTHING_AHEAD):
        pass
    readers = [
        start(read_along, str(path), WRITERS * count, "first"),
        start(read_along, str(path), WRITERS * count, "end"),
    ]
    writers = [start(write_mixed, str(path), session, count, seed) for session in range(WRITERS)]
    for child in (*readers, *writers):
        child.hear(1)
    for writer in writers:
        writer.go_on()
    promised: dict[int, tuple[int, int]] = {}
    for writer in writers:
        for report in writer.hear(count):
            assert report.position not in promised
            promised[report.position] = (report.session, report.index)
        writer.join()
    seen = []
    for reader in readers:
        seen.append(
            [
                (report.session, report.index, report.position)
                for report in reader.hear(WRITERS * count)
            ]
        )
        reader.join()
    check_all(path, count, promised, seen)
    assert image.temporaries(path) == []


def test_eight_writers_roll_with_frames_of_all_sizes(
    path: Path, start: Start, numbers: random.Random
) -> None:
    run(path, 150, start, str(numbers.random()))


@pytest.mark.long
@pytest.mark.timeout(600)
def test_eight_writers_roll_often_with_frames_of_all_sizes(
    path: Path, start: Start, numbers: random.Random
) -> None:
    run(path, 1500, start, str(numbers.random()))


# --- making segments ------------------------------------------------------------------------------


def test_segment_not_needed_yet_is_left_to_its_creator(path: Path) -> None:
    """If each of many processes created the next segment ahead of need, the disk would need room
    for all of them.
    """
    with (
        commitlog.open(path, segment_size="64KiB", tuning=NOTHING_AHEAD) as other,
        commitlog.open(path, tuning=NOTHING_AHEAD) as log,
    ):
        assert parts_of(other).engine.try_creation()
        assert parts_of(log).writer.allocation is not None
        parts_of(log).writer.allocation._place(1, needed=False)
        assert not parts_of(log).directory.has(1)
        parts_of(other).engine.end_creation()
        parts_of(log).writer.allocation._place(1, needed=False)
        assert parts_of(log).directory.has(1)
        assert parts_of(other).engine.try_creation()
        parts_of(other).engine.end_creation()


def test_enospc_on_a_segment_created_meanwhile_is_no_error(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two processes create the same segment with room for one."""
    with commitlog.open(path, segment_size="64KiB", tuning=NOTHING_AHEAD) as log:
        directory = parts_of(log).directory
        put_new_file = directories.put_new_file

        def outdone(*arguments: object, **options: object) -> bool:
            monkeypatch.setattr(directories, "put_new_file", put_new_file)
            assert directory.create_segment(1)
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(directories, "put_new_file", outdone)
        assert not directory.create_segment(1)
        log.roll()
        assert log.append(b"on") > directory.segment_size


def test_stalled_segment_creation_does_not_block_other_writers(path: Path) -> None:
    """A process that creates a segment may delay the others only for a moment."""
    with (
        commitlog.open(path, segment_size="64KiB", tuning=NOTHING_AHEAD) as still,
        commitlog.open(path, tuning=NOTHING_AHEAD) as log,
    ):
        assert parts_of(still).engine.try_creation()
        _roll(log, 3)
        assert not parts_of(log).engine.try_creation()
        parts_of(still).engine.end_creation()
        assert parts_of(log).engine.try_creation()
        parts_of(log).engine.end_creation()
        _roll(log, 1)


def _roll(log: CommitLog, times: int) -> None:
    for _ in range(times):
        before = parts_of(log).engine.tail
        log.roll()
        assert parts_of(log).engine.tail != before
