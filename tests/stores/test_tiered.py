"""A reader with a store passes from the store to the disk to the live end, without a gap."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import commitlog
from commitlog import CommitLog, Store
from commitlog.base.polling import attempts
from commitlog.errors import CorruptSegmentError, NotALogError, PositionError
from commitlog.log.parts import parts_of
from tests.stores.test_store import is_stored

pytest.importorskip("zstandard")
SEGMENT = 64 << 10
COUNT = 1200
LIMIT_S = 30.0
START_NS = 1_800_000_000 * 10**9


def append(log: CommitLog, start: int, stop: int) -> list[int]:
    return [
        log.append(b"%d" % number * 200, timestamp_ns=START_NS + number)
        for number in range(start, stop)
    ]


def drop_stored(log: CommitLog) -> None:
    """Delete from the disk all that the store has whole."""
    writer = parts_of(log).writer
    assert writer is not None
    assert writer.store is not None
    log.flush()
    goal = (log.tail_position // SEGMENT - 1) * SEGMENT
    for _ in attempts(LIMIT_S, "the store"):
        if writer.store.kept_position >= goal:
            break
    log.delete_before(goal)
    assert log.first_position > goal - 2 * SEGMENT > 0


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store", every="10ms")


@pytest.fixture
def log(tmp_path: Path, store: Store) -> Iterator[CommitLog]:
    with commitlog.open(tmp_path / "orders", segment_size=SEGMENT, store=store) as log:
        yield log


def sequences(tailer: commitlog.Tailer) -> list[int]:
    return [record.sequence for record in iter(tailer.read, None)]


def test_reader_passes_from_store_to_disk_to_memory(log: CommitLog, store: Store) -> None:
    append(log, 0, COUNT)
    drop_stored(log)
    with commitlog.open(log.path, "r") as alone:
        assert alone.first_sequence > 0
    with commitlog.open(log.path, "r", store=store) as tiered, tiered.tailer() as tailer:
        assert sequences(tailer) == list(range(COUNT))
        append(log, COUNT, COUNT + 5)
        for number in range(COUNT, COUNT + 5):
            record = tailer.read(timeout=LIMIT_S)
            assert record is not None
            assert record.sequence == number
        with tiered.tailer(direction="backward") as backward:
            assert sequences(backward) == list(range(COUNT + 5))[::-1]
        assert (tiered.first_sequence, tiered.count()) == (0, COUNT + 5)
        assert len(tiered.to_arrow()) == COUNT + 5


def test_seeks_find_records_of_the_store(log: CommitLog, store: Store) -> None:
    positions = append(log, 0, COUNT)
    drop_stored(log)
    with commitlog.open(log.path, "r", store=store) as tiered, tiered.tailer() as tailer:
        for number in (0, 17, COUNT // 2, COUNT - 1):
            for where in (
                {"position": positions[number]},
                {"sequence": number},
                {"timestamp": START_NS + number},
            ):
                assert tailer.seek(**where)  # type: ignore[arg-type]
                record = tailer.read()
                assert record is not None
                assert record.position == positions[number]


def test_coroutine_reads_from_store_to_live_end(log: CommitLog, store: Store) -> None:
    async def follow(tiered: CommitLog) -> list[int]:
        seen = []
        async with asyncio.timeout(LIMIT_S):
            async for record in tiered.tailer().follow():
                seen.append(record.sequence)
                if len(seen) == COUNT:
                    append(log, COUNT, COUNT + 1)
                if len(seen) > COUNT:
                    return seen
        return seen

    append(log, 0, COUNT)
    drop_stored(log)
    with commitlog.open(log.path, "r", store=store) as tiered:
        assert asyncio.run(follow(tiered)) == list(range(COUNT + 1))


def test_deletion_under_a_reader_leaves_no_gap(log: CommitLog, store: Store) -> None:
    append(log, 0, COUNT)
    ended = threading.Event()

    def go_on() -> None:
        for turn in range(1, 6):
            append(log, COUNT * turn, COUNT * (turn + 1))
            drop_stored(log)
        ended.set()

    with commitlog.open(log.path, "r", store=store) as tiered, tiered.tailer() as tailer:
        writer = threading.Thread(target=go_on)
        writer.start()
        seen: list[int] = []
        while len(seen) < 6 * COUNT:
            record = tailer.read(timeout=LIMIT_S)
            assert record is not None
            seen.append(record.sequence)
        writer.join()
    assert ended.is_set()
    assert seen == list(range(6 * COUNT))


def test_segment_that_was_listed_as_parts_is_read_whole(
    log: CommitLog, store: Store, until: Callable[..., None]
) -> None:
    """The reader lists the parts of the live segment, which is then stored whole and deleted."""
    first = SEGMENT // 300
    append(log, 0, first)
    assert SEGMENT < log.tail_position < 2 * SEGMENT
    log.flush()
    until(lambda: is_stored(log))
    with commitlog.open(log.path, "r", store=store) as tiered, tiered.tailer() as tailer:
        assert tailer.read() is not None
        append(log, first, COUNT)
        drop_stored(log)
        assert sequences(tailer) == list(range(1, COUNT))


def test_reader_behind_the_store_raises_position_error(log: CommitLog, store: Store) -> None:
    append(log, 0, COUNT)
    drop_stored(log)
    tuning = commitlog.Tuning(archive_cache=0)
    with commitlog.open(log.path, "r", store=store, tuning=tuning) as tiered:
        tailer = tiered.tailer()
        assert tailer.read() is not None
        objects = sorted(Path(store.target).glob("*.seg.zst"))
        for path in objects[:8]:
            path.unlink()
        with pytest.raises(PositionError, match="deleted") as raised:
            list(tailer)
        assert raised.value.first_position == 8 * SEGMENT
        tailer.seek(raised.value.first_position)
        assert sequences(tailer)[-1] == COUNT - 1


def test_segment_that_the_store_misses_is_damage(log: CommitLog, store: Store) -> None:
    append(log, 0, COUNT)
    drop_stored(log)
    lost = sorted(Path(store.target).glob("*.seg.zst"))[3]
    lost.rename(lost.with_suffix(".away"))
    said = []
    for place, kept in ((log.path, store), (store.target, None)):
        with commitlog.open(place, "r", store=kept) as tiered, tiered.tailer() as tailer:
            with pytest.raises(CorruptSegmentError, match="segment 3 is missing") as caught:
                list(tailer)
            said.append((caught.value.path, caught.value.position))
            lost.with_suffix(".away").rename(lost)
            assert sequences(tailer)[-1] == COUNT - 1  # it was restored
            lost.rename(lost.with_suffix(".away"))
    assert said == [(str(lost), 3 * SEGMENT)] * 2


def test_reader_of_a_log_without_stored_segments_reads_the_disk(
    log: CommitLog, store: Store
) -> None:
    append(log, 0, 10)
    with commitlog.open(log.path, "r", store=store) as tiered, tiered.tailer() as tailer:
        assert sequences(tailer) == list(range(10))


def test_store_of_another_log_is_refused(log: CommitLog, tmp_path: Path) -> None:
    append(log, 0, COUNT)
    drop_stored(log)
    other = Store(tmp_path / "other", every="10ms")
    with commitlog.open(tmp_path / "trades", segment_size=SEGMENT, store=other) as trades:
        append(trades, 0, COUNT)
        drop_stored(trades)
    with (
        commitlog.open(log.path, "r", store=other) as tiered,
        pytest.raises(NotALogError, match="another log"),
    ):
        tiered.tailer()


def test_gap_error_is_of_a_new_listing(log: CommitLog, store: Store) -> None:
    """The listing of a moment ago is not what an error tells: more may be deleted since."""
    append(log, 0, COUNT)
    drop_stored(log)
    objects = sorted(Path(store.target).glob("*.seg.zst"))
    tuning = commitlog.Tuning(archive_cache=0)
    with commitlog.open(log.path, "r", store=store, tuning=tuning) as tiered:
        tailer = tiered.tailer(start=0)
        for path in objects[:4]:
            path.unlink()
        directory = parts_of(tiered).directory
        directory.look_again()  # as a thread that reads ahead does
        for path in objects[4:8]:
            path.unlink()
        with pytest.raises(PositionError) as raised:
            list(tailer)
        assert raised.value.first_position == 8 * SEGMENT


@pytest.mark.parametrize("call", ["seek", "count", "sequence"])
def test_position_errors_name_what_the_store_has_now(
    log: CommitLog, store: Store, call: str
) -> None:
    append(log, 0, COUNT)
    drop_stored(log)
    objects = sorted(Path(store.target).glob("*.seg.zst"))
    with commitlog.open(log.path, "r", store=store) as tiered:
        assert tiered.first_position < SEGMENT
        for path in objects[:4]:
            path.unlink()
        tailer = tiered.tailer(start="end")
        wrong = {
            "seek": lambda: tailer.seek(tiered.tail_position + SEGMENT),
            "count": lambda: tiered.count(tiered.tail_position + SEGMENT),
            "sequence": lambda: tailer.seek(sequence=1 << 40),
        }
        with pytest.raises(PositionError) as raised:
            wrong[call]()
        assert raised.value.first_position == 4 * SEGMENT
