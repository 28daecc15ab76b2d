"""Creating a segment: written under a temporary name, then renamed; a failure leaves no file."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from commitlog.base import failpoint
from commitlog.errors import DiskFullError, IOFailureError
from commitlog.segment.directory import LogDirectory, names_in, segment_name
from tests.setups import HEADER, SEGMENT


def test_new_segment_is_allocated_with_a_valid_header(
    directory: LogDirectory, tmp_path: Path
) -> None:
    assert directory.create_segment(3) is True
    file = tmp_path / segment_name(3 * SEGMENT)
    assert file.name == f"{3 * SEGMENT:020d}.seg"
    assert file.stat().st_size == SEGMENT
    assert file.stat().st_blocks * 512 >= SEGMENT
    segment = directory.open_segment(3, writable=False)
    assert (segment.number, segment.base, segment.size, segment.opened_ns) == (
        3,
        3 * SEGMENT,
        SEGMENT,
        0,
    )
    assert segment.nonzero(HEADER, SEGMENT) == SEGMENT
    segment.release()
    assert directory.has(3)
    assert not directory.has(2)


def test_new_segment_has_a_unique_id_unless_given(directory: LogDirectory) -> None:
    ids = set()
    for number in range(5):
        directory.create_segment(number, segment_id=77 if number == 4 else None)
        segment = directory.open_segment(number, writable=False)
        ids.add(segment.id)
        segment.release()
    assert len(ids) == 5
    assert 77 in ids


def test_existing_segment_is_not_replaced(directory: LogDirectory, tmp_path: Path) -> None:
    directory.create_segment(0)
    before = (tmp_path / segment_name(0)).read_bytes()
    assert directory.create_segment(0) is False
    assert (tmp_path / segment_name(0)).read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == [segment_name(0)]


@pytest.mark.parametrize("cause", [errno.ENOSPC, errno.EDQUOT])
def test_full_disk_leaves_no_file(
    directory: LogDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cause: int
) -> None:
    def refuse(*arguments: Any) -> None:
        raise OSError(cause, os.strerror(cause))

    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_fallocate", refuse)
        with pytest.raises(DiskFullError, match="free space") as caught:
            directory.create_segment(0)
    assert caught.value.errno == cause
    assert caught.value.path == str(tmp_path / segment_name(0))
    assert list(tmp_path.iterdir()) == []
    assert directory.create_segment(0) is True


def test_failed_creation_carries_its_errno(
    directory: LogDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: Any) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(IOFailureError) as caught:
        directory.create_segment(0)
    assert caught.value.errno == errno.EIO


def test_creation_steps_are_in_crash_safe_order(
    directory: LogDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    monkeypatch.setattr(failpoint, "hook", steps.append)
    directory.create_segment(0)
    assert steps == ["created", "allocated", "written", "synced", "renamed", "directory synced"]


def test_only_names_of_segments_are_listed(directory: LogDirectory, tmp_path: Path) -> None:
    for number in (2, 0, 10):
        directory.create_segment(number)
    for name in (
        "00000000000000000001.seg",
        "5.seg",
        "x.seg",
        f"{SEGMENT:020d}.seg.cut",
        f".{SEGMENT:020d}.seg.{'a' * 16}.tmp",
        "log.json",
    ):
        (tmp_path / name).write_bytes(b"")
    assert directory.segment_numbers() == [0, 2, 10]
    directory.remove_segment(2)
    directory.remove_segment(2)
    assert directory.segment_numbers() == [0, 10]


def test_sweep_removes_only_temporary_files(directory: LogDirectory, tmp_path: Path) -> None:
    left = [f".{0:020d}.seg.{'0123456789abcdef'}.tmp", ".log.json.0123456789abcdef.tmp"]
    kept = ["notes.tmp", f"{0:020d}.seg.cut", f".{0:020d}.seg.xyz.tmp", "tailers"]
    for name in (*left, *kept):
        (tmp_path / name).write_bytes(b"")
    directory.sweep()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(kept)


def test_listing_by_a_half_read_descriptor_sees_every_name(
    directory: LogDirectory, tmp_path: Path
) -> None:
    names = {segment_name(number * SEGMENT) for number in range(10)}
    for name in names:
        (tmp_path / name).touch()
    with os.scandir(directory.fd) as another:
        next(another)
        assert set(names_in(directory.fd)) == set(directory.names()) == names
        assert {entry.name for entry in another} < names


def test_removed_directory_has_no_names(tmp_path: Path) -> None:
    fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    tmp_path.rmdir()
    assert names_in(fd) == []
    os.close(fd)


def test_concurrent_listings_are_complete(directory: LogDirectory, tmp_path: Path) -> None:
    names = {f"file {number}" for number in range(300)}
    for name in names:
        (tmp_path / name).touch()
    seen: list[bool] = []

    def look() -> None:
        seen.extend(names <= set(directory.names()) for _ in range(200))

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [True] * 800
