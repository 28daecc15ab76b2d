"""The second writer of segments: what it copies, what it refuses, and what a kill leaves."""

from __future__ import annotations

import itertools
import os
import resource
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

import commitlog
from commitlog._kernel.segments import FRAME_ALIGN, HEADER_SIZE, SEAL_AT, SEAL_SIZE
from commitlog.base import failpoint
from commitlog.base.path import opened_directory
from commitlog.errors import (
    CommitLogError,
    FencedError,
    IOFailureError,
    LogLockedError,
    LogNotFoundError,
    NotALogError,
    PositionError,
)
from commitlog.extension import view_of
from commitlog.flush import checkpoint as checkpoints
from commitlog.log import copy_writer
from commitlog.log.copy_writer import CopyWriter
from commitlog.log.locked_log import LockedLog
from commitlog.recovery.lineage import Lineage
from commitlog.repair.log_files import LogFiles
from commitlog.repair.verification import verify
from commitlog.segment.identity import Identity
from tests.copies import copy_log
from tests.network.replication.scene import SEGMENT, check_same, fill, records
from tests.steps import killed_at

FOLLOWS = Lineage(follows="tcp://127.0.0.1:1/orders")
PIECE = 16 << 10


class Source:
    """A closed log with several sealed segments, as its copies get it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.pages: dict[int, bytes] = {}
        self.pieces: list[tuple[int, bytes]] = []  # frames by their positions
        with commitlog.open(path, segment_size=SEGMENT) as log:
            fill(log, 300)
        with commitlog.open(path, "r") as log:
            view = view_of(log)
            self.identity, self.end = view.identity, log.tail_position
            for number in range(self.end // SEGMENT + 1):  # without those allocated ahead
                page = view.header(number)
                assert page is not None
                self.pages[number] = page
                offset, base = HEADER_SIZE, number * SEGMENT
                while (stop := min(SEGMENT, self.end - base)) > offset:
                    stop = min(stop, offset + PIECE)
                    copied = view.copy_frames(number, offset, stop, digests=False)
                    assert copied is not None
                    self.pieces.append((base + offset, bytes(copied.frames)))
                    offset += len(copied.frames)

    def copy(self, writer: CopyWriter, *, more: bool = False) -> None:
        """Write what the copy lacks."""
        for number, page in self.pages.items():
            if (number + 1) * SEGMENT > writer.end:
                writer.header(number, page)
            for position, frames in self.pieces:
                if position // SEGMENT == number and position >= writer.end:
                    writer.frames(position, frames, more=more)
        for number in writer.unsealed():
            writer.seal(number, self.pages[number])


@pytest.fixture
def source(tmp_path: Path) -> Source:
    return Source(tmp_path / "orders")


def begun(source: Source, path: Path) -> CopyWriter:
    """Return the writer of a copy without frames."""
    LockedLog.create(str(path), source.identity, FOLLOWS)
    LockedLog.begin(str(path), source.identity, 0, source.pages[0])
    return LockedLog.open(str(path)).writer()


@pytest.fixture
def writer(source: Source, tmp_path: Path) -> Iterator[CopyWriter]:
    with closing(begun(source, tmp_path / "copy")) as opened:
        yield opened


def refuses(match: str, act: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match=match):
        act()


@pytest.mark.parametrize("more", [False, True])
def test_copy_has_the_bytes_and_seals_of_its_log(
    source: Source, writer: CopyWriter, more: bool
) -> None:
    source.copy(writer, more=more)
    assert writer.sync() == writer.durable == writer.end == source.end
    assert writer.unsealed() == []
    copy = Path(writer.path)
    assert records(copy) == records(source.path)  # also while the writer has it open
    writer.close()
    check_same(source.path, copy, source.end)
    assert records(copy) == records(source.path)


def test_close_makes_durable_what_was_written(source: Source, writer: CopyWriter) -> None:
    position, frames = source.pieces[0]
    writer.frames(position, frames, more=True)
    assert writer.durable == position < writer.end
    writer.close()
    with opened_directory(writer.path) as fd:
        left = checkpoints.read(fd, source.identity.uuid)
    assert left is not None
    assert (left.clean, left.position) == (True, position + len(frames))


def test_write_that_stops_halfway_leaves_no_clean_mark(
    source: Source, writer: CopyWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copy_writer, "_WRITTEN_BYTES", 1024)
    position, frames = source.pieces[0]
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (position + len(frames) // 2, limits[1]))
    try:
        with pytest.raises(IOFailureError):
            writer.frames(position, frames)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert writer.end == position
    with pytest.raises(IOFailureError):
        writer.sync()
    writer.close()
    with opened_directory(writer.path) as fd:
        left = checkpoints.read(fd, source.identity.uuid)
    assert left is not None
    assert (left.clean, left.position) == (False, position)
    with closing(LockedLog.open(str(writer.path)).writer()) as again:
        source.copy(again)
        assert again.end == source.end


def test_cut_that_fails_leaves_no_clean_mark(source: Source, writer: CopyWriter) -> None:
    source.copy(writer)
    position, _ = source.pieces[0]
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, limits[1]))
    try:
        with pytest.raises(OSError, match=r"\w"):
            writer.cut(position)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    writer.close()
    with opened_directory(writer.path) as fd:
        left = checkpoints.read(fd, source.identity.uuid)
    assert left is not None
    assert not left.clean


def test_cut_without_room_changes_nothing(source: Source, writer: CopyWriter) -> None:
    source.copy(writer)
    known = records(writer.path)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    # Enough for what is saved of the fork, and not for the start of its segment.
    resource.setrlimit(resource.RLIMIT_FSIZE, (SEGMENT - 1, limits[1]))
    try:
        with pytest.raises(CommitLogError, match="copy what stays of the segment"):
            writer.cut(source.pieces[-1][0])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    writer.close()
    assert records(writer.path) == known
    assert verify(writer.path).sound
    with closing(LockedLog.open(str(writer.path)).writer()) as again:
        assert again.end == source.end


# --- what does not fit ----------------------------------------------------------------------------


def test_frames_that_do_not_fit_change_nothing(source: Source, writer: CopyWriter) -> None:
    position, frames = source.pieces[0]
    refuses("goes on elsewhere", lambda: writer.frames(position + FRAME_ALIGN, frames))
    refuses("goes on elsewhere", lambda: writer.frames(*source.pieces[1]))
    for wrong in (b"", frames[:-1], frames + bytes(SEGMENT)):
        refuses("do not fit", lambda wrong=wrong: writer.frames(position, wrong))
    for at in range(0, len(frames), 997):
        damaged = bytearray(frames)
        damaged[at] ^= 4
        if at < 8 or bytes(damaged[at : at + 1]) != b"\0":
            _refuses_damage(writer, position, bytes(damaged))
    for cut in (FRAME_ALIGN, len(frames) // 2 // FRAME_ALIGN * FRAME_ALIGN):
        _refuses_damage(writer, position, frames[: len(frames) - cut])
    _refuses_damage(writer, position, bytes(len(frames)))
    assert writer.end == writer.durable == position
    assert records(Path(writer.path)) == []
    source.copy(writer)
    writer.close()
    check_same(source.path, Path(writer.path), source.end)


def _refuses_damage(writer: CopyWriter, position: int, frames: bytes) -> None:
    refuses("damaged frames", lambda: writer.frames(position, frames))
    with (
        LogFiles(writer.path) as files,
        files.opened_segment(0) as segment,
    ):  # as if they had never come
        assert segment.nonzero(HEADER_SIZE, SEGMENT) == SEGMENT


def test_frames_of_another_segment_are_damaged(source: Source, writer: CopyWriter) -> None:
    """A segment's random id is in the CRC of each frame."""
    position, _ = source.pieces[0]
    frames = next(frames for at, frames in source.pieces if at == SEGMENT + HEADER_SIZE)
    _refuses_damage(writer, position, frames)


def test_header_that_does_not_fit_is_refused(
    source: Source, writer: CopyWriter, tmp_path: Path
) -> None:
    page, other = source.pages[0], Source(tmp_path / "other").pages[0]
    for wrong in (b"", page[:-1], page[:8] + b"\2" + page[9:], other, source.pages[1]):
        refuses("damaged header", lambda wrong=wrong: writer.header(0, wrong))
    for number in (-1, 1, 1 << 60):
        refuses("damaged header", lambda number=number: writer.header(number, page))
    refuses("segment 0 is next", lambda: writer.header(1, source.pages[1]))
    writer.header(0, page)  # the same one again
    with LogFiles(writer.path) as files:
        assert files.segment_numbers() == [0]


def test_frames_before_their_header_are_refused(source: Source, writer: CopyWriter) -> None:
    pieces = iter(source.pieces)
    for position, frames in itertools.takewhile(lambda piece: piece[0] < SEGMENT, pieces):
        writer.frames(position, frames)
    position, frames = next(each for each in source.pieces if each[0] > SEGMENT)
    refuses("frames before their segment", lambda: writer.frames(position, frames))
    writer.header(1, source.pages[1])
    writer.frames(position, frames)


def test_seal_that_does_not_fit_is_refused(source: Source, writer: CopyWriter) -> None:
    refuses("seal before its frames", lambda: writer.seal(0, source.pages[0]))
    source.copy(writer)
    bare = source.pages[0][:SEAL_AT] + bytes(SEAL_SIZE) + source.pages[0][SEAL_AT + SEAL_SIZE :]
    refuses("not its segment's", lambda: writer.seal(0, bare))
    refuses("damaged header", lambda: writer.seal(0, source.pages[1]))
    last = max(source.pages)
    refuses("seal before its frames", lambda: writer.seal(last, source.pages[last]))


def view_page(path: Path, number: int) -> bytes:
    return (path / f"{number * SEGMENT:020}.seg").read_bytes()[:HEADER_SIZE]


def test_other_segment_with_records_is_fenced(source: Source, tmp_path: Path) -> None:
    path = tmp_path / "copy"
    with closing(begun(source, path)) as writer:
        writer.frames(*source.pieces[0])
    with commitlog.open(tmp_path / "other", segment_size=SEGMENT) as log:
        log.append(b"x")
    # The same log with another segment 0, as after a restore of a backup.
    identity = source.identity
    LockedLog.create(str(tmp_path / "twin"), identity, FOLLOWS)
    with closing(LockedLog.open(str(tmp_path / "twin"))):
        pass  # recovery makes a segment of its own
    page = view_page(tmp_path / "twin", 0)
    with closing(LockedLog.open(str(path)).writer()) as writer:
        with pytest.raises(FencedError, match="different segments"):
            writer.header(0, page)
        assert writer.end > HEADER_SIZE
    # An empty one that recovery made is replaced.
    with closing(LockedLog.open(str(tmp_path / "twin")).writer()) as writer:
        source.copy(writer)
    check_same(source.path, tmp_path / "twin", source.end)


# --- other programs -------------------------------------------------------------------------------


def test_log_has_one_writer(source: Source, writer: CopyWriter) -> None:
    path = writer.path
    with pytest.raises(LogLockedError):
        LockedLog.open(path)
    with pytest.raises(CommitLogError):
        commitlog.open(path, wait_for_log=0)
    with commitlog.open(source.path), pytest.raises(LogLockedError, match="close it there"):
        LockedLog.open(str(source.path))


def test_directory_without_a_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LogNotFoundError):
        LockedLog.open(str(tmp_path / "none"))
    with pytest.raises(NotALogError):
        LockedLog.open(str(tmp_path))
    (tmp_path / "file").touch()
    with pytest.raises(NotALogError):
        LockedLog.create(str(tmp_path), Identity.new(SEGMENT, "coarse"), FOLLOWS)
    assert not (tmp_path / "log.json").exists()


def test_copied_directory_is_known_as_restored(
    source: Source, writer: CopyWriter, tmp_path: Path
) -> None:
    writer.frames(*source.pieces[0])
    clone = copy_log(writer.path, tmp_path / "clone")
    with closing(LockedLog.open(str(clone)).writer()) as other:  # the lock is not copied
        assert LogFiles(str(clone)).restored
        assert other.end == writer.end
        source.copy(other)
    assert not LogFiles(writer.path).restored
    assert writer.end < source.end
    check_same(source.path, clone, source.end)


# --- kills ----------------------------------------------------------------------------------------


def test_copy_killed_at_any_step_goes_on(source: Source, tmp_path: Path) -> None:
    path, known = tmp_path / "copy", records(source.path)

    def act() -> None:
        LockedLog.create(str(path), source.identity, FOLLOWS)
        LockedLog.begin(str(path), source.identity, 0, source.pages[0])
        with closing(LockedLog.open(str(path)).writer()) as writer:
            source.copy(writer)

    for step in itertools.count(1):
        killed = killed_at(1 + step * 5 % 23 if step < 8 else step * 7, lambda: act)
        if (path / "log.json").exists() and list(path.glob("*.seg")):
            found = records(path)
            assert found == known[: len(found)]
            assert verify(path).sound
        if not killed:
            break
    check_same(source.path, path, source.end)


@pytest.mark.parametrize("where", [0, 1])
def test_cut_killed_at_any_step_is_done_again(source: Source, tmp_path: Path, where: int) -> None:
    known = records(source.path)
    position = source.pieces[2][0] if where else SEGMENT + HEADER_SIZE
    kept = [each for each in known if each[0] < position]
    with closing(begun(source, tmp_path / "whole")) as writer:
        source.copy(writer)
    for step in itertools.count(1):
        path = copy_log(tmp_path / "whole", tmp_path / str(step))

        def prepare(path: Path = path) -> Callable[[], None]:
            writer = LockedLog.open(str(path)).writer()

            def act() -> None:
                writer.cut(position)
                writer.close()

            return act

        killed = killed_at(step, prepare)
        with closing(LockedLog.open(str(path)).writer()) as writer:
            found = records(path)
            assert found == known[: len(found)]
            assert len(found) >= len(kept)
            if writer.end > position:  # as the follower does, which compares again
                assert killed
                writer.cut(position)
        assert records(path) == kept
        assert verify(path).sound
        assert list(path.glob("*.fork"))
        if not killed:
            break
    with closing(LockedLog.open(str(path)).writer()) as writer:
        source.copy(writer)
    check_same(source.path, path, source.end)


def test_cut_outside_the_log_is_refused(source: Source, writer: CopyWriter) -> None:
    source.copy(writer)
    refuses("not in the log", lambda: writer.cut(source.end + FRAME_ALIGN))
    refuses("not in the log", lambda: writer.cut(-1))
    assert writer.end == source.end


def test_steps_of_a_copy_are_failpoints(source: Source, writer: CopyWriter) -> None:
    passed: list[str] = []
    failpoint.hook = passed.append
    try:
        source.copy(writer)
    finally:
        failpoint.hook = None
    assert {"segment placed", "frames written", "frames flushed", "seal written"} <= set(passed)
    with LogFiles(writer.path) as files, pytest.raises(PositionError), files.opened_segment(99):
        pass
    assert os.path.isdir(writer.path)
