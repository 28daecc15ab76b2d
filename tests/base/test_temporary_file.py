"""Temporary files: removed if the block raises, kept if it renames them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from commitlog.base.temporary_file import temporary_file


@pytest.fixture
def folder_fd(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield fd
    os.close(fd)


def test_renamed_file_holds_the_written_bytes(tmp_path: Path, folder_fd: int) -> None:
    with temporary_file(folder_fd, "note", 0o600) as (fd, temporary):
        os.write(fd, b"two lamps")
        os.rename(temporary, "note", src_dir_fd=folder_fd, dst_dir_fd=folder_fd)
    assert os.listdir(tmp_path) == ["note"]
    assert (tmp_path / "note").read_bytes() == b"two lamps"
    assert (tmp_path / "note").stat().st_mode & 0o777 == 0o600


def test_block_that_raises_leaves_no_file(tmp_path: Path, folder_fd: int) -> None:
    def interrupted() -> None:
        with temporary_file(folder_fd, "note") as (_, temporary):
            assert os.listdir(tmp_path) == [temporary]
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert os.listdir(tmp_path) == []


def test_descriptor_is_closed_after_the_block(folder_fd: int) -> None:
    with temporary_file(folder_fd, "note") as (fd, _):
        pass
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)
