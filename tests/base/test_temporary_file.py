"""Temporary files: removed if the block raises, kept if it renames them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from commitlog.base.temporary_file import temporary_file


def test_renamed_file_holds_the_written_bytes(tmp_path: Path, dir_fd: int) -> None:
    with temporary_file(dir_fd, "note", 0o600) as (fd, temporary):
        os.write(fd, b"two lamps")
        os.rename(temporary, "note", src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
    assert os.listdir(tmp_path) == ["note"]
    assert (tmp_path / "note").read_bytes() == b"two lamps"
    assert (tmp_path / "note").stat().st_mode & 0o777 == 0o600


def test_block_that_raises_leaves_no_file(tmp_path: Path, dir_fd: int) -> None:
    def interrupted() -> None:
        with temporary_file(dir_fd, "note") as (_, temporary):
            assert os.listdir(tmp_path) == [temporary]
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert os.listdir(tmp_path) == []


def test_descriptor_is_closed_after_the_block(dir_fd: int) -> None:
    with temporary_file(dir_fd, "note") as (fd, _):
        pass
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)
