"""Irregular files with the name of a log's file: refused by path, and never waited for or read
without end.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import stat
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import commitlog
from commitlog.base import regular_file
from commitlog.errors import CommitLogError, CorruptSegmentError, IOFailureError, NotALogError
from commitlog.log.parts import parts_of
from commitlog.recovery.join_note import Manifest
from commitlog.repair.repair import repair
from commitlog.repair.verification import verify
from commitlog.retention.outside import prune
from commitlog.retention.retention import Retention
from commitlog.segment.directory import segment_name
from tests.setups import Logs

SEGMENT = 65536
FIRST, LAST = segment_name(0), segment_name(2 * SEGMENT)
RECORDS = 140
LARGE = 1 << 40  # bytes of a sparse file


# A socket's path may have 107 bytes.
def put_socket(path: Path) -> None:
    with (
        contextlib.chdir(path.parent),
        socket.socket(socket.AF_UNIX) as made,
    ):
        made.bind(path.name)


def put_device(path: Path) -> None:
    try:
        os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 5))  # /dev/zero
    except PermissionError:
        os.mkfifo(path)


KINDS: dict[str, Callable[[Path], object]] = {
    "a FIFO": os.mkfifo,
    "a directory": os.mkdir,
    "a symbolic link": lambda path: path.symlink_to(path.with_name("aside")),
    "a socket": put_socket,
    "a device": put_device,
}


@contextlib.contextmanager
def replaced(path: Path, kind: str) -> Iterator[None]:
    """Replace a file by an irregular one during the block; the file is kept beside it."""
    aside = path.with_name("aside")
    if path.exists():
        path.rename(aside)
    KINDS[kind](path)
    signal.alarm(20)  # ends a call that waits
    try:
        yield
    finally:
        signal.alarm(0)
        if os.path.lexists(path):
            path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
        if aside.exists():
            aside.rename(path)


@pytest.fixture
def path(logs: Logs) -> Path:
    """A closed log of three segments, with one named tailer."""
    log = logs.open(segment_size=SEGMENT)
    log.append_many([b"x" * 1000] * RECORDS)
    with log.tailer(name="n") as tailer:
        tailer.read()
    logs.close()
    return Path(log.path)


def open_and_close(mode: str) -> Callable[[Path], object]:
    return lambda path: commitlog.open(path, mode).close()


def read_named(path: Path) -> None:
    with commitlog.open(path) as log:
        log.tailer(name="n").close()


def read_all(path: Path) -> None:
    with commitlog.open(path, "r") as log:
        assert log.count() == len(list(log.tailer())) == RECORDS


def read_manifest(path: Path) -> None:
    with commitlog.open(path, "r") as log:
        Manifest.read(parts_of(log).directory)


def report(path: Path) -> None:
    from commitlog.tools.cli.report import report_of

    report_of(str(path))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("name", "use", "error"),
    [
        ("log.json", open_and_close("a"), NotALogError),
        ("log.json", open_and_close("r"), NotALogError),
        ("lock", open_and_close("a"), IOFailureError),
        ("lock", verify, IOFailureError),
        ("lock", repair, IOFailureError),
        pytest.param("lock", report, IOFailureError, marks=pytest.mark.wing),
        ("cursors", open_and_close("a"), IOFailureError),
        ("checkpoint", open_and_close("a"), IOFailureError),
        ("checkpoint", verify, IOFailureError),
        ("checkpoint", repair, IOFailureError),
        pytest.param("checkpoint", report, IOFailureError, marks=pytest.mark.wing),
        ("joining", open_and_close("a"), CorruptSegmentError),
        ("joined", read_manifest, CorruptSegmentError),
        (FIRST, read_all, CorruptSegmentError),
        (LAST, open_and_close("a"), CorruptSegmentError),
        ("tailers/n", read_named, IOFailureError),
    ],
)
def test_irregular_file_is_refused_by_kind(
    path: Path, name: str, use: Callable[[str], object], error: type[Exception], kind: str
) -> None:
    with replaced(path / name, kind), pytest.raises(error, match="regular file") as caught:
        use(str(path))
    assert isinstance(caught.value, CommitLogError)
    assert caught.value.path == str(path / name)
    if name not in ("joining", "joined"):
        read_all(path)


@pytest.mark.parametrize("kind", KINDS)
def test_irregular_file_that_readers_do_not_need_is_ignored(path: Path, kind: str) -> None:
    for name in ("cursors", "lock", "tailers/n", f"{0:020d}.idx"):
        with replaced(path / name, kind):
            read_all(path)
            if name != "lock":
                assert verify(path).segments[0].records > 0
    with replaced(path / "tailers/n", kind):
        assert not prune(path, Retention(max_bytes=0)).segments, (
            "it may have been that of a required tailer"
        )


@pytest.mark.parametrize("kind", KINDS)
def test_repair_moves_irregular_segment_away(path: Path, kind: str) -> None:
    with replaced(path / FIRST, kind):
        assert [problem for segment in verify(path).segments for problem in segment.problems]
        assert [action.file for action in repair(path, dry_run=True).actions] == [FIRST]
        report = repair(path)
        assert [action.file for action in report.actions] == [FIRST]
        assert not report.remaining
        with commitlog.open(path) as log:
            assert 0 < len(list(log.tailer())) < RECORDS
        moved = path / f"{FIRST}.broken"
        moved.rmdir() if kind == "a directory" else moved.unlink()


@pytest.mark.parametrize("name", ["log.json", "joined", "joining"])
def test_repair_moves_irregular_notes_away(path: Path, name: str) -> None:
    with replaced(path / name, "a FIFO"):
        assert name in [action.file for action in repair(path).actions]
        assert stat.S_ISFIFO((path / f"{name}.broken").lstat().st_mode)
        read_all(path)
        (path / f"{name}.broken").unlink()
        (path / "aside").unlink(missing_ok=True)


def test_irregular_leftovers_do_not_keep_log_closed(path: Path) -> None:
    """Leftovers of killed creations, and of a saved copy."""
    (path / f".{FIRST}.0123456789abcdef.tmp").mkdir()
    (path / "tailers" / ".n.0123456789abcdef.tmp").mkdir()
    read_named(path)
    read_all(path)


def test_directory_in_place_of_index_does_not_stop_deletion(path: Path) -> None:
    index = path / f"{0:020d}.idx"
    index.unlink()
    index.mkdir()
    assert prune(path, Retention(max_bytes=0)).segments
    assert not (path / FIRST).exists()


# --- sizes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "use"),
    [
        ("log.json", open_and_close("a")),
        ("lock", open_and_close("a")),
        ("checkpoint", open_and_close("a")),
        ("cursors", open_and_close("a")),
        ("joining", open_and_close("a")),
        ("joined", read_manifest),
        ("tailers/n", read_named),
        (f"{0:020d}.idx", read_all),
        (FIRST, read_all),
        (FIRST, verify),
        (FIRST, repair),
    ],
)
def test_sparse_file_of_a_tebibyte_takes_no_memory(
    path: Path, name: str, use: Callable[[str], object]
) -> None:
    with open(path / name, "ab") as file:
        file.truncate(LARGE)
    tracemalloc.start()
    try:
        with contextlib.suppress(CommitLogError):
            use(str(path))
        assert tracemalloc.get_traced_memory()[1] < 40 << 20
    finally:
        tracemalloc.stop()


def test_repair_copies_no_more_than_a_segment(path: Path) -> None:
    with open(path / FIRST, "r+b") as file:
        file.write(b"?")
        file.truncate(LARGE)
    repair(path)
    assert (path / f"{FIRST}.broken").stat().st_size == SEGMENT
    read_all(path)


def test_small_file_above_its_limit_is_refused(tmp_path: Path) -> None:
    (tmp_path / "small").write_bytes(b"12345")
    assert regular_file.read_small_file(tmp_path / "small", 5) == b"12345"
    with pytest.raises(IOFailureError, match="has 5 bytes, and its format allows 4"):
        regular_file.read_small_file(tmp_path / "small", 4)


def test_os_error_of_open_regular_is_passed_on(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        regular_file.open_regular(tmp_path / "absent")
    with pytest.raises(NotADirectoryError):
        regular_file.open_regular(__file__ + "/below")
    shutil.copy(__file__, tmp_path / "file")
    (tmp_path / "link").symlink_to("file")
    os.close(regular_file.open_regular(tmp_path / "link", follow=True))
