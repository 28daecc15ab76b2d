"""Recovery from the shared-memory buffers of a pool whose process died."""

from __future__ import annotations

import pytest

from commitlog._kernel import memory as kernel
from commitlog.errors import LogLockedError
from commitlog.pool.shm import ShmBuffer
from commitlog.pool.shm_survey import find_buffers
from tests.log_files import HEADER, SIZE, UUID, LogFiles, numbered
from tests.oracle import segment_file as oracle
from tests.recovery.dead_pools import DeadPool, fill, frames


def test_partly_committed_shm_buffers_recover_in_base_order(
    files: LogFiles, dead_pool: DeadPool
) -> None:
    files.create(0)
    committed = files.records(0, numbered(3))
    files.create(1, opened=True)
    files.create(2)
    names = dead_pool(
        [
            (1, files.segment_id(1), HEADER, frames(files, 1, numbered(5, 10))),
            (0, files.segment_id(0), HEADER, frames(files, 0, numbered(10), full=True)),
        ]
    )
    files.open_cursors(mode=kernel.MODE_POOLED)
    recovered = files.recover(usable=True, checkpoint=files.checkpoint(committed), shm_names=names)
    end = HEADER + len(frames(files, 1, numbered(5, 10)))
    assert (recovered.case, recovered.tail, recovered.lost) == ("kept", (1, end), ())
    assert recovered.from_shm == (names[1], names[0])
    assert files.values() == numbered(15)
    assert find_buffers(names, UUID).missing == tuple(names)


def test_shm_buffers_are_recovered_without_usable_cursors(
    files: LogFiles, dead_pool: DeadPool
) -> None:
    files.create(0)
    names = dead_pool([(0, files.segment_id(0), HEADER, frames(files, 0, numbered(10)))])
    assert files.recover(shm_names=names).from_shm == tuple(names)
    assert files.values() == numbered(10)


def test_buffer_claims_become_skips_and_a_torn_record_is_dropped(
    files: LogFiles, dead_pool: DeadPool
) -> None:
    files.create(0)
    content = frames(files, 0, numbered(2))
    claim = HEADER + len(content)
    content += oracle.build_claim(45, 2, 1) + b"\xaa" * 40
    skip = HEADER + len(content)
    content += oracle.build_skip(files.segment_id(0), skip, 32) + b"\xbb" * 24
    content += frames(files, 0, numbered(2, 2), HEADER + len(content))
    end = HEADER + len(content)
    content += bytes(8) + b"half a record"
    names = dead_pool([(0, files.segment_id(0), HEADER, content)])
    recovered = files.recover(shm_names=names)
    assert (recovered.tail, recovered.rolled_back, recovered.cut_range) == ((0, end), 1, None)
    assert files.values() == numbered(4)
    found = [
        (frame.offset, frame.length)
        for frame in oracle.frames(files.get(0))
        if frame.kind is oracle.Kind.SKIP
    ]
    assert found == [(claim, 48), (skip, 32)]
    assert files.get(0, skip + 8, skip + 32) == bytes(24)
    assert files.get(0, end) == bytes(SIZE - end)


def test_missing_segment_of_a_buffer_is_created(files: LogFiles, dead_pool: DeadPool) -> None:
    files.full(0, numbered(5))
    names = dead_pool([(1, 0xABCD, HEADER, oracle.build_frame(0xABCD, HEADER, b"alone"))])
    recovered = files.recover(shm_names=names)
    assert recovered.tail == (1, HEADER + 24)
    assert files.values() == [*numbered(5), b"alone"]


def test_log_is_recovered_from_buffers_alone(files: LogFiles, dead_pool: DeadPool) -> None:
    names = dead_pool([(2, 0xABCD, HEADER, oracle.build_frame(0xABCD, HEADER, b"alone"))])
    assert files.recover(shm_names=names).tail == (2, HEADER + 24)
    assert files.values() == [b"alone"]


def test_claims_in_a_segment_without_a_buffer_become_skips(
    files: LogFiles, dead_pool: DeadPool
) -> None:
    files.create(0)
    files.create(1, opened=True)
    end = files.records(1, numbered(5, 5), files.claim(1, HEADER, 64))
    names = dead_pool([(0, files.segment_id(0), HEADER, frames(files, 0, numbered(5), full=True))])
    recovered = files.recover(checkpoint=files.checkpoint(HEADER), shm_names=names)
    assert (recovered.tail, recovered.rolled_back, recovered.cut_range) == ((1, end), 1, None)
    assert files.values() == numbered(10)


def test_fully_committed_unreturned_buffer_is_discarded(
    files: LogFiles, dead_pool: DeadPool, caplog: pytest.LogCaptureFixture
) -> None:
    files.full(0, numbered(5))
    files.create(1, opened=True)
    end = files.records(1, numbered(5, 5))
    names = dead_pool([(0, files.segment_id(0), HEADER, frames(files, 0, numbered(5), full=True))])
    recovered = files.recover(checkpoint=files.checkpoint(SIZE + end), shm_names=names)
    assert (recovered.tail, recovered.from_shm) == ((1, end), tuple(names))
    assert find_buffers(names, UUID).missing == tuple(names)
    assert caplog.text == ""


def test_buffer_attached_ahead_of_a_roll_is_discarded_silently(
    files: LogFiles, dead_pool: DeadPool, caplog: pytest.LogCaptureFixture
) -> None:
    files.create(0)
    files.create(1)
    content = frames(files, 0, numbered(5))
    names = dead_pool(
        [(0, files.segment_id(0), HEADER, content), (1, files.segment_id(1), HEADER, b"")]
    )
    recovered = files.recover(checkpoint=files.checkpoint(HEADER), shm_names=names)
    assert (recovered.tail, recovered.lost) == ((0, HEADER + len(content)), ())
    assert (recovered.from_shm, recovered.unused) == ((names[0],), (names[1],))
    assert files.values() == numbered(5)
    assert find_buffers(names, UUID).missing == tuple(names)
    assert caplog.text == ""


def test_buffer_ahead_with_damaged_bytes_is_not_taken_for_unused(
    files: LogFiles, dead_pool: DeadPool, caplog: pytest.LogCaptureFixture
) -> None:
    files.create(0)
    files.records(0, numbered(3))
    files.create(1)
    names = dead_pool([(1, files.segment_id(1), HEADER + 64, b"x")])
    recovered = files.recover(checkpoint=files.checkpoint(HEADER), shm_names=names)
    assert (recovered.from_shm, recovered.unused) == (tuple(names), ())
    assert "the log ends before the records" in caplog.text


def test_partial_commit_is_completed_from_its_buffer(files: LogFiles, dead_pool: DeadPool) -> None:
    files.create(0)
    committed = files.records(0, numbered(3))
    content = frames(files, 0, numbered(10))
    names = dead_pool([(0, files.segment_id(0), HEADER, content)])
    files.put(0, committed, bytes(8) + content[committed - HEADER + 8 : 200])
    recovered = files.recover(checkpoint=files.checkpoint(HEADER), shm_names=names)
    assert (recovered.tail, recovered.cut_range) == ((0, HEADER + len(content)), None)
    assert files.values() == numbered(10)


def test_frames_behind_damage_in_a_buffer_are_saved(files: LogFiles, dead_pool: DeadPool) -> None:
    files.create(0)
    content = bytearray(frames(files, 0, numbered(10)))
    step = len(content) // 10
    content[3 * step + 20] ^= 1
    names = dead_pool([(0, files.segment_id(0), HEADER, bytes(content))])
    recovered = files.recover(shm_names=names)
    assert (recovered.tail, recovered.saved_as) == ((0, HEADER + 3 * step), str(files.cut_file(0)))
    assert files.values() == numbered(3)
    assert files.cut_file(0).read_bytes()[HEADER + 4 * step :] == content[4 * step :]


def test_missing_buffer_saves_later_records_and_reports_loss(
    files: LogFiles, dead_pool: DeadPool, caplog: pytest.LogCaptureFixture
) -> None:
    files.create(0)
    end = files.records(0, numbered(3))
    files.create(1, opened=True)
    names = dead_pool([(1, files.segment_id(1), HEADER, frames(files, 1, numbered(5, 10)))])
    absent = "/commitlog-" + "0" * 32
    recovered = files.recover(checkpoint=files.checkpoint(HEADER), shm_names=[absent, *names])
    assert (recovered.tail, recovered.lost) == ((0, end), (absent,))
    assert recovered.saved_as == str(files.cut_file(1))
    assert files.values() == numbered(3)
    assert absent in caplog.text


def test_buffer_of_another_segment_incarnation_is_left_alone(
    files: LogFiles, dead_pool: DeadPool
) -> None:
    files.create(0)
    end = files.records(0, numbered(3))
    names = dead_pool([(0, 0xDEAD, HEADER, oracle.build_frame(0xDEAD, HEADER, b"other"))])
    recovered = files.recover(shm_names=names)
    assert (recovered.tail, recovered.lost, recovered.from_shm) == ((0, end), tuple(names), ())
    assert len(find_buffers(names, UUID).recoverable) == 1


def test_buffers_of_a_live_pool_are_not_recovered(files: LogFiles) -> None:
    files.create(0)
    buffer = ShmBuffer.allocate(SIZE)
    try:
        fill(buffer, 0, files.segment_id(0), HEADER, frames(files, 0, numbered(3)))
        with pytest.raises(LogLockedError, match="a live pool"):
            files.recover(shm_names=[str(buffer.name)])
        assert files.values() == []
    finally:
        buffer.destroy()
