"""A reader of a log that no writer has open finds the end and the sequences that the next writable
open finds, also without `cursors`, without a checkpoint and without the first segments.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import commitlog
from commitlog import CommitLog
from commitlog._kernel.segments import SparseIndex
from commitlog.errors import CommitLogError
from commitlog.flush import checkpoint as checkpoints
from commitlog.repair.verification import verify
from commitlog.retention import stored_mark
from commitlog.segment import identity as identities
from commitlog.stats import StoreStats
from tests.faults import image
from tests.log_files import HEADER, SIZE, LogFiles, numbered

COUNT = 400
KEPT = 100  # so many records at least are behind what is deleted
Harm = Callable[[Path], object]


def value_of(number: int) -> bytes:
    return b"%06d" % number + b"x" * 994


def write_and_delete(path: Path) -> None:
    """Append, delete the beginning, and leave the log open."""
    log = commitlog.open(
        path, segment_size=SIZE, flush="sync", tuning=commitlog.Tuning(allocate_ahead=1)
    )
    for first in range(0, COUNT, 20):
        log.append_many([value_of(number) for number in range(first, first + 20)])
        log.flush()
    assert log.delete_before(log.last_position - KEPT * 1000)
    os._exit(0)


def write_few(path: Path) -> None:
    log = commitlog.open(path, segment_size=SIZE, flush="sync")
    log.append_many([value_of(number) for number in range(20)])
    log.flush()
    os._exit(0)


def set_checkpoint(path: Path, position: int, *, clean: bool = False) -> None:
    identity = identities.read_path(str(path))
    fd = os.open(path, os.O_RDONLY)
    try:
        for _ in range(2):
            checkpoints.write(fd, identity.uuid, position, clean=clean)
    finally:
        os.close(fd)


def restart(path: Path) -> None:
    image.forget_boot(path)


def lose_cursors(path: Path) -> None:
    (path / "cursors").unlink()


def lose_checkpoint(path: Path) -> None:
    restart(path)
    (path / "checkpoint").unlink()


def take_another_checkpoint(path: Path) -> None:
    restart(path)
    other = path.with_name("other")
    commitlog.open(other, segment_size=SIZE).close()
    shutil.copy(other / "checkpoint", path / "checkpoint")


def lower_checkpoint(path: Path) -> None:
    restart(path)
    set_checkpoint(path, HEADER)


def lose_old_header(path: Path) -> None:
    """A segment of an older release, which did not note what was durable."""
    lower_checkpoint(path)
    for file in image.segments(path):
        image.poke(file, 72, bytes(16))


def mark_clean_too_early(path: Path) -> None:
    restart(path)
    set_checkpoint(path, int(image.segments(path)[0].stem) + HEADER, clean=True)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log"


HARMS: list[Harm] = [
    restart,
    lose_cursors,
    lose_checkpoint,
    take_another_checkpoint,
    lower_checkpoint,
    lose_old_header,
    mark_clean_too_early,
]


@pytest.mark.parametrize("write", [write_and_delete, write_few])
@pytest.mark.parametrize("harm", HARMS)
def test_reader_without_cursors_sees_what_a_writer_recovers(
    path: Path, write: Callable[[Path], None], harm: Harm, in_dead_child: Any
) -> None:
    in_dead_child(write, path)
    harm(path)
    before = {file.name: file.read_bytes() for file in path.iterdir()}
    with commitlog.open(path, "r") as log:
        seen = look(log)
    assert verify(path).records == len(seen["forward"])
    assert before == {file.name: file.read_bytes() for file in path.iterdir()}
    with commitlog.open(path) as log:
        assert look(log) == seen
    first, last = seen["first"], seen["last"]
    assert seen["forward"] == list(range(first, last + 1))
    assert last == (COUNT if write is write_and_delete else 20) - 1
    assert (first > 0) == (write is write_and_delete)


@pytest.mark.wing
@pytest.mark.parametrize("write", [write_and_delete, write_few])
@pytest.mark.parametrize("harm", HARMS)
def test_report_without_cursors_counts_what_a_reader_sees(
    path: Path, write: Callable[[Path], None], harm: Harm, in_dead_child: Any
) -> None:
    from commitlog.tools.cli.report import report_of

    in_dead_child(write, path)
    harm(path)
    assert report_of(str(path))["records"] == verify(path).records


@pytest.fixture
def in_dead_child() -> Callable[[Callable[[Path], None], Path], None]:
    """Return a function that runs another one in a forked child, which ends without closing."""

    def run(function: Callable[[Path], None], path: Path) -> None:
        child = os.fork()
        if child == 0:
            try:
                function(path)
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

    return run


def look(log: CommitLog) -> dict[str, Any]:
    """Read a log in every way; each record's sequence is checked against its value."""
    records = list(log.tailer())
    for record in records:
        assert int(record.value[:6]) == record.sequence
    middle = records[len(records) // 2]
    with log.tailer() as tailer:
        for seek in ({"sequence": middle.sequence}, {"position": middle.position}):
            assert tailer.seek(**seek)
            assert tailer.read().position == middle.position
        assert tailer.seek(timestamp=records[0].timestamp_ns)
        tailer.seek("end")
        assert tailer.read(timeout=0) is None
        end = tailer.position
    with log.tailer() as tailer:
        batch = tailer.read_batch(max_records=COUNT)
    table = log.to_arrow()
    return {
        "first": log.first_sequence,
        "last": log.last_sequence,
        "ends": (log.tail_position, log.committed_position, end),
        "forward": [record.sequence for record in records],
        "backward": [record.sequence for record in log.tailer(direction="backward")][::-1],
        "batch": len(batch),
        "arrow": table["sequence"].to_pylist(),
        "count": log.count(),
        "last record": log.last_position,
    }


# --- built logs ---------------------------------------------------------------------------------


def torn(files: LogFiles) -> None:
    end = files.records(1, numbered(3, 10))
    files.put(1, files.record(1, end, b"x" * 2000) - 1500, bytes(1000))
    files.records(1, numbered(3, 20), end + 2016)


def damaged(files: LogFiles) -> None:
    files.records(1, numbered(30, 10))
    files.flip(1, HEADER + 10 * 32 + 17)


def damaged_last(files: LogFiles) -> None:
    files.flip(1, files.records(1, numbered(3, 10)) - 15)


def torn_beside_a_claim(files: LogFiles) -> None:
    """The disk has the page behind the cell as it was before three appenders had finished."""
    end = files.records(1, [b"x" * 84] * 39)
    behind = files.record(1, end, b"x" * 300)
    files.put(1, 8192, bytes(behind - 8192))
    files.record(1, files.claim(1, behind, 104), b"x" * 100)


def half_copied(files: LogFiles) -> None:
    """The disk has the page behind the cell as it was while the record was copied into it."""
    end = files.records(1, [b"x" * 84] * 39)
    behind = files.record(1, end, b"x" * 300)
    files.put(1, 8192 + 100, bytes(behind - 8192 - 100))
    files.record(1, behind, b"x" * 100)


def claimed(files: LogFiles) -> None:
    end = files.records(1, numbered(3, 10))
    files.records(1, numbered(3, 20), files.claim(1, end, 64))


def empty_last(files: LogFiles) -> None:
    """The roll has begun: the next segment is there, and nothing is in it."""


TORN = [torn, torn_beside_a_claim, half_copied]


@pytest.mark.parametrize("build", [*TORN, damaged, damaged_last, claimed, empty_last])
@pytest.mark.parametrize(
    "checkpoint", [None, 0, HEADER, SIZE, SIZE + HEADER + 64, 9 * SIZE, 1 << 62]
)
def test_reader_ends_where_recovery_ends(
    path: Path, build: Callable[[LogFiles], None], checkpoint: int | None
) -> None:
    files = LogFiles(path)
    files.full(0, numbered(10))
    files.create(1, opened=True)
    build(files)
    known = None if checkpoint is None else files.checkpoint(checkpoint)
    with commitlog.open(path, "r") as log:
        end = log.tail_position
        positions = [record.position for record in log.tailer(on_damage="skip")]
    recovered = files.recover(checkpoint=known)
    assert recovered.end in (end, end - HEADER)
    with commitlog.open(path) as log:
        assert [record.position for record in log.tailer(on_damage="skip")] == positions


@pytest.mark.parametrize("build", TORN)
def test_torn_record_before_a_whole_one_is_cut(
    path: Path, build: Callable[[LogFiles], None]
) -> None:
    """No later reader finds it damaged."""
    files = LogFiles(path)
    files.full(0, numbered(10))
    files.create(1, opened=True)
    build(files)
    with commitlog.open(path) as log:
        assert log.append(b"later") == log.tail_position - 24
        assert list(log.tailer())[-1].value == b"later"


def test_damage_in_a_sealed_segment_is_never_cut(path: Path, in_dead_child: Any) -> None:
    """The last frame and the closing SKIP have no valid frame behind them; the seal has the end."""
    in_dead_child(write_and_delete, path)
    lose_checkpoint(path)
    file = image.segments(path)[0]
    seal_end = int.from_bytes(file.read_bytes()[256:264], "little")
    image.poke(file, seal_end - 500, b"?")
    image.poke(file, seal_end, b"\x01\x00\x00\x60")
    with commitlog.open(path) as log, log.tailer(on_damage="skip") as tailer:
        sequences = [record.sequence for record in tailer]
        assert len(tailer.damaged) == 1
        lost = set(range(sequences[0], COUNT)) - set(sequences)
        assert (sequences[-1], len(lost)) == (COUNT - 1, 1)


def test_new_segment_notes_what_was_durable_when_it_was_made(
    path: Path, in_dead_child: Any
) -> None:
    """The frames of a whole sector are lost below that position: they are damage."""
    in_dead_child(write_and_delete, path)
    lose_checkpoint(path)
    second = image.segments(path)[0]
    image.poke(second, 16384, bytes(4096))
    with commitlog.open(path) as log, log.tailer(on_damage="skip") as tailer:
        assert list(tailer)[-1].sequence == COUNT - 1
    assert not list(path.glob("*.cut"))


def test_impossible_position_in_cursors_ends_no_reader_in_a_walk(
    path: Path, in_dead_child: Any
) -> None:
    """A flipped bit there leads no reader along segments that do not exist."""
    in_dead_child(write_few, path)
    image.set_cell(path, "tail", 1 << 60 | HEADER)
    image.set_cell(path, "appended", 1 << 60)
    with commitlog.open(path, "r") as log, log.tailer() as tailer:
        for read in (
            lambda: tailer.search(lambda record: record.sequence, 5),
            lambda: list(log.tailer(start="end", direction="backward").striding()),
            lambda: log.to_arrow(columns=["sequence"]),
        ):
            with pytest.raises(CommitLogError):
                read()
        records = log.tailer()
        assert [next(records).sequence for _ in range(20)] == list(range(20))


def test_lost_sector_below_the_stored_end_is_damage(path: Path) -> None:
    files = LogFiles(path)
    files.full(0, numbered(10))
    files.create(1, opened=True)
    end = files.records(1, numbered(60, 10))
    segment = files.directory.open_segment(0, writable=True)
    assert segment.seal(0, SparseIndex(segment.id, segment.size, 4096))
    segment.release()
    known = StoreStats(target="/store", kept_position=SIZE, position=SIZE + end)
    stored_mark.write(files.directory, known)
    files.put(1, HEADER + 512, bytes(512))
    with commitlog.open(path) as log, log.tailer(on_damage="skip") as tailer:
        assert list(tailer)[-1].value == numbered(70)[-1]
        assert (log.tail_position, len(tailer.damaged)) == (SIZE + end, 1)
