"""Locks held by a user with read permission only: they keep no writer, no tailer and no archive
out.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import struct
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import commitlog
from commitlog.base.life_lock import LifeLock, open_lock_file
from commitlog.errors import InUseError
from commitlog.keep import archive_segments
from commitlog.log.parts import parts_of
from commitlog.repair.verification import verify
from commitlog.segment.lock_file import TERMS
from commitlog.tail import tailer_folder
from tests.faults.child import Child, Link
from tests.faults.writers import OPENED
from tests.multiprocess.test_dead_owners import AN_HOUR, claim_and_wait

Start = Callable[..., Child]
OTHER_USER = 65534
EVERYTHING = struct.pack("@hhqqi4x", fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0)


@pytest.fixture
def path() -> Iterator[Path]:
    """Return the path of a log that another user may read, under a umask that lets others read new
    files.
    """
    made = Path(tempfile.mkdtemp(prefix="commitlog-test-"))
    made.chmod(0o755)
    old = os.umask(0o022)
    yield made / "log"
    os.umask(old)
    shutil.rmtree(made)


@pytest.fixture(autouse=True)
def short_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tailer_folder, "FOLDER_WAIT_S", 0.02)


def hold_all_locks(link: Link, path: str) -> None:
    """Lock every file that another user can open, shared if necessary, until the parent lets the
    child end.

    Root becomes user 65534. Any other user opens only what the modes let others read.
    """
    if os.geteuid() == 0:
        os.setresgid(OTHER_USER, OTHER_USER, OTHER_USER)
        os.setresuid(OTHER_USER, OTHER_USER, OTHER_USER)
    held = []
    for place in (Path(path), *Path(path).rglob("*")):
        if not place.stat().st_mode & stat.S_IROTH:
            if os.geteuid() == OTHER_USER:
                with pytest.raises(PermissionError):
                    os.open(place, os.O_RDONLY)
            continue
        fd = os.open(place, os.O_RDONLY)
        held.append(fd)
        with contextlib.suppress(BlockingIOError):  # a live writer holds it
            fcntl.fcntl(fd, fcntl.F_OFD_SETLK, EVERYTHING)
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    link.say(OPENED, 0, len(held))
    link.wait()


@pytest.fixture
def locked(path: Path, start: Start) -> Callable[[], Child]:
    """Return a function that starts another user's process, which locks everything at the path."""

    def lock() -> Child:
        child = start(hold_all_locks, str(path))
        assert child.hear(1)[0].index > 3
        return child

    return lock


def make_log(path: Path) -> None:
    with commitlog.open(path, segment_size="64KiB") as log:
        log.append(b"one")
        log.tailer("mail").close()


def test_locks_of_a_reader_do_not_block_writers(path: Path, locked: Callable[[], Child]) -> None:
    make_log(path)
    locked()
    with commitlog.open(path) as log, commitlog.open(path) as other:
        assert {parts_of(log).engine.slot, parts_of(other).engine.slot} == {0, 1}
        other.append(b"two")
    with (
        commitlog.TransientStorePool(buffers=2, buffer_size="64KiB") as pool,
        commitlog.open(path, pool=pool) as log,
    ):
        log.append(b"three")
    assert verify(path).clean


def test_locks_of_a_reader_do_not_block_tailers(path: Path, locked: Callable[[], Child]) -> None:
    make_log(path)
    locked()
    with commitlog.open(path) as log:
        assert [state.owner for state in log.tailers()] == [None]
        with log.tailer("mail", required=True) as tailer:
            assert tailer.read() is not None
            assert [state.pid for state in log.tailers()] == [os.getpid()]
            with pytest.raises(InUseError, match=f"this process|{os.getpid()}"):
                log.tailer("mail")
            assert log.evict_tailer("mail")
        log.reset_tailer("mail", position=log.first_position)
        log.delete_tailer("mail")
        assert log.tailers() == []


def test_tailer_locks_of_old_and_new_releases_exclude(
    path: Path, locked: Callable[[], Child]
) -> None:
    """Older releases take only the exclusive lock on the tailer's file."""
    make_log(path)
    file = path / "tailers" / "mail"
    child = locked()
    with commitlog.open(path) as log:
        tailer = log.tailer("mail")
        child.kill()
        with pytest.raises(BlockingIOError):
            LifeLock(lambda: os.open(file, os.O_RDWR))
        tailer.close()
        older = LifeLock(lambda: os.open(file, os.O_RDWR))
        with pytest.raises(InUseError):
            log.tailer("mail")
        older.close()
        log.tailer("mail").close()


def test_locks_of_a_reader_do_not_hide_a_dead_owner(
    path: Path, locked: Callable[[], Child], start: Start
) -> None:
    with commitlog.open(path, flush="none", segment_size="64KiB", claim_timeout=AN_HOUR) as log:
        child = start(claim_and_wait, str(path), 1, 100)
        child.hear(1)
        locked()
        child.kill()
        log.append(b"later")
        record = log.tailer().read(timeout=60)
        assert record is not None
        assert record.value == b"later"


def test_locked_tailer_folder_does_not_delay_appends(
    path: Path, locked: Callable[[], Child], until: Callable[..., None]
) -> None:
    with (
        commitlog.open(path, segment_size="64KiB") as log,
        log.tailer("mail", required=True, max_lag="1MiB"),
    ):
        locked()
        guard = parts_of(log).writer.backpressure
        assert guard is not None

        def settled() -> bool:
            guard.begin()
            return bool(guard._seen == parts_of(log).engine.cursors["required"])

        until(settled)
        changing = LifeLock(lambda: open_lock_file("lock", parts_of(log).directory.fd), span=TERMS)
        parts_of(log).engine.cursors.raise_cell("required")
        assert not settled()
        time.sleep(2 * tailer_folder.FOLDER_WAIT_S)
        assert not settled()
        changing.close()
        until(settled)


def test_locked_archive_accepts_segments(path: Path, start: Start) -> None:
    pytest.importorskip("zstandard")
    make_log(path)
    archive = path.parent / "archive"
    archive.mkdir()
    for name in "abc":  # files for the child to open
        (archive / name).touch()
    assert start(hold_all_locks, str(archive)).hear(1)[0].index == 4
    with commitlog.open(path) as log:
        log.roll()
        log.flush()
        log.append(b"two")
        log.roll()
    archive_segments(path, commitlog.Store(archive))
    assert list(archive.glob("*.seg.zst"))


@pytest.mark.parametrize(
    ("umask", "mode"), [(0o022, 0o600), (0o002, 0o660), (0o077, 0o600), (0, 0o666), (0o027, 0o600)]
)
def test_lock_file_is_readable_only_by_those_who_may_write(
    path: Path, umask: int, mode: int
) -> None:
    os.umask(umask)
    make_log(path)
    assert stat.S_IMODE((path / "lock").stat().st_mode) == mode


def test_lock_mode_of_an_older_release_is_tightened(path: Path) -> None:
    make_log(path)
    (path / "lock").chmod(0o664)
    make_log(path)
    assert stat.S_IMODE((path / "lock").stat().st_mode) == 0o660
