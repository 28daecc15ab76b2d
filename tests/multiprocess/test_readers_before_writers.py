"""A reader opened before the first writer of this boot: it adopts the live cursors as soon as they
exist.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import commitlog
from commitlog import CommitLog
from commitlog.errors import CorruptRecordError
from commitlog.log.parts import parts_of
from commitlog.tail.seek import Visibility
from tests.faults import image
from tests.faults.child import Child, Link
from tests.faults.writers import (
    APPENDED,
    OPENED,
    SEGMENT_SIZE,
    How,
    close_log,
    open_log,
    value_of,
    write_some,
)
from tests.setups import BY_HAND

Start = Callable[..., Child]
Until = Callable[..., None]
POOLS: dict[str, dict[str, Any] | None] = {"mapped": None, "pooled": {}, "shm": {"backing": "shm"}}


SPOILED: dict[str, Callable[[Path], object]] = {
    "missing": lambda path: (path / "cursors").unlink(),
    "of another boot": image.forget_boot,
    "garbage": lambda path: (path / "cursors").write_bytes(b"\xa5" * (64 << 10)),
    "short": lambda path: (path / "cursors").write_bytes(b"CML"),
}


@pytest.fixture
def reader(request: pytest.FixtureRequest, path: Path) -> Iterator[CommitLog]:
    """A reader of a log of a hundred records whose cursors are unusable: missing, or as
    parametrized.
    """
    log, _ = open_log(str(path), None, {})
    log.append_many([value_of(0, index) for index in range(100)])
    log.close()
    SPOILED[getattr(request, "param", "missing")](path)
    with commitlog.open(path, "r") as log:
        assert not parts_of(log).engine.cursors.shared
        yield log


def check_moves(reader: CommitLog, pool: dict[str, Any] | None, start: Start, until: Until) -> None:
    """Start a writer; check that positions and tailers move with it, and stay after it has gone."""
    at_end = reader.tailer(start="end")
    flushed = reader.tailer(visibility="flushed")
    assert len(list(flushed)) == 100
    before = reader.tail_position
    writer = start(write_some, reader.path, 1, 20, How(pool, {"flush": "sync"}))
    end = writer.hear(21)[-1].position
    until(lambda: reader.tail_position == reader.flushed_position == end > before)
    expected = [value_of(1, index) for index in range(20)]
    assert list(at_end.values()) == expected
    assert list(flushed.values()) == expected
    assert list(reader.tailer(start="end")) == []
    assert reader.tailer(start="end").position == end
    writer.go_on()
    writer.join()
    assert reader.tail_position == end


@pytest.mark.parametrize("pool", POOLS)
def test_positions_and_tailers_move_once_a_writer_comes(
    reader: CommitLog, pool: str, start: Start, until: Until
) -> None:
    check_moves(reader, POOLS[pool], start, until)


@pytest.mark.parametrize("reader", [kind for kind in SPOILED if kind != "missing"], indirect=True)
def test_reader_of_any_unusable_cursors_adopts_new_ones(
    reader: CommitLog, start: Start, until: Until
) -> None:
    check_moves(reader, None, start, until)


@pytest.mark.parametrize("idle", ["spin", "yield", "backoff", "block"])
def test_waiting_tailer_adopts_the_cursors_of_a_new_writer(
    reader: CommitLog, idle: Any, start: Start
) -> None:
    """The test reads no position: the wait itself must notice the writer."""
    tailer = reader.tailer(start="end", visibility="flushed")
    writer = start(write_some, reader.path, 1, 30, How(None, {"flush": "sync"}))
    for index in range(30):
        record = tailer.read(timeout=60, idle=idle)
        assert record is not None
        assert record.value == value_of(1, index)
    assert parts_of(reader).engine.cursors.shared
    writer.go_on()
    writer.join()


def test_read_without_wait_adopts_the_cursors_of_a_new_writer(
    reader: CommitLog, start: Start, until: Until
) -> None:
    single, many = (reader.tailer(start="end", visibility="flushed") for _ in range(2))
    writer = start(write_some, reader.path, 1, 3, How(None, {"flush": "sync"}))
    writer.hear(4)
    found: list[bytes] = []

    def read() -> bool:
        record = single.read()
        found.extend([] if record is None else [record.value])
        return len(found) == 3

    until(read)
    until(lambda: len(many.read_batch()) == 3)
    assert found == [value_of(1, index) for index in range(3)]


def test_damage_is_raised_once_the_log_is_recovered(reader: CommitLog) -> None:
    """Above the checkpoint a bad frame is the end until a writer has recovered the log; then it is
    damage.
    """
    tailer = reader.tailer(start="end")
    log, _ = open_log(reader.path, None, {})
    positions = [log.append(value_of(1, index)) for index in range(3)]
    image.poke(
        image.segment_path(Path(reader.path), positions[1]),
        positions[1] % SEGMENT_SIZE + 20,
        b"\xff",
    )
    assert tailer.read() is not None
    with pytest.raises(CorruptRecordError) as caught:
        tailer.read(timeout=60)
    assert caught.value.position == positions[1]
    log.close()


# --- the other mode -------------------------------------------------------------------------------


def by_turns(link: Link, path: str, turns: int) -> None:
    """Open a log alternately mapped and pooled, for a few records each."""
    index = 0
    for turn in range(turns):
        log, made = open_log(
            path, [None, {}][turn % 2], {"commit_interval": 0.001, "commit_least_pages": 0}
        )
        for _ in range(40):
            link.say(APPENDED, 0, index, log.append(value_of(0, index)))
            index += 1
            if index % 8 == 0:
                log.commit()
        close_log(log, made)
    link.say(OPENED, 0, index)


@pytest.mark.parametrize("visibility", ["committed", "appended", "flushed"])
def test_reopen_in_the_other_mode_keeps_a_reader_reading(
    path: Path, visibility: Visibility, start: Start
) -> None:
    """To a reader opened while the log was mapped, the uncommitted bytes of a pooled log must not
    look like a claim or damage.
    """
    log, _ = open_log(str(path), None, {})
    reader = commitlog.open(path, "r")
    tailer = reader.tailer(visibility=visibility)
    log.close()
    turns = 10
    writer = start(by_turns, str(path), turns)
    for index in range(40 * turns):
        record = tailer.read(timeout=60, idle="yield")
        assert record is not None, (index, reader.tail_position)
        assert record.value == value_of(0, index)
        assert reader.tail_position >= record.position
    writer.join()
    assert (
        reader.tail_position
        == reader.appended_position
        == reader.committed_position
        == reader.flushed_position
        == tailer.position
    )
    reader.close()


def test_pooled_uncommitted_range_is_the_end_to_a_mapped_reader(
    path: Path,
) -> None:
    log, _ = open_log(str(path), None, {})
    reader = commitlog.open(path, "r")
    tailers = [
        reader.tailer(visibility=visibility) for visibility in ("committed", "appended", "flushed")
    ]
    log.close()
    log, made = open_log(str(path), {}, BY_HAND)
    log.append(b"one")
    end = log.append(b"two")
    # The `appended` watermark rises before the range is in the file.
    parts_of(reader).engine.cursors["appended"] = log.tail_position
    for tailer in tailers:
        assert tailer.read() is None
        assert tailer.read(timeout=0.005, idle="backoff") is None
    log.commit()
    assert [record.position for record in tailers[0]][-1] == end
    log.flush()
    assert [len(list(tailer)) for tailer in tailers] == [0, 2, 2]
    close_log(log, made)
    reader.close()
