"""The `cursors` file: usable only for its log, in its directory and boot."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from commitlog._kernel import memory as kernel
from commitlog.base.boot import boot_id
from commitlog.errors import IOFailureError
from commitlog.segment import cursors_file
from commitlog.segment.identity import Identity

IDENTITY = Identity.new(65536, "coarse")


@pytest.fixture
def ready(dir_fd: int) -> int:
    """A directory whose `cursors` file is READY and belongs to this log, boot and directory."""
    file = cursors_file.open_writable(dir_fd, IDENTITY)
    assert not file.usable
    file.cells.rebuild(IDENTITY.uuid, boot_id(), file.inode, IDENTITY.segment_size)
    file.cells["state"] = kernel.STATE_READY
    return dir_fd


def test_new_file_is_allocated_and_not_usable(dir_fd: int, tmp_path: Path) -> None:
    assert not cursors_file.open_writable(dir_fd, IDENTITY).usable
    assert (tmp_path / "cursors").stat().st_size == kernel.CURSORS_SIZE
    assert (tmp_path / "cursors").stat().st_blocks * 512 >= kernel.CURSORS_SIZE


def test_all_mappings_share_their_values(ready: int) -> None:
    writer = cursors_file.open_writable(ready, IDENTITY)
    reader = cursors_file.open_for_reading(ready, IDENTITY)
    assert writer.ready
    assert reader.ready
    writer.cells["committed"] = 4711
    assert reader.cells["committed"] == 4711


def test_file_of_another_boot_is_not_usable(ready: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cursors_file, "boot_id", lambda: bytes(16))
    assert not cursors_file.open_writable(ready, IDENTITY).usable


def test_file_of_another_log_is_not_usable(ready: int) -> None:
    assert not cursors_file.open_writable(ready, Identity.new(65536, "coarse")).usable
    other = Identity(IDENTITY.uuid, 131072, "coarse", 1)
    assert not cursors_file.open_writable(ready, other).usable


def test_copied_file_is_not_usable(ready: int, tmp_path: Path) -> None:
    (tmp_path / "copy").mkdir()
    shutil.copy(tmp_path / "cursors", tmp_path / "copy" / "cursors")
    fd = os.open(tmp_path / "copy", os.O_RDONLY)
    assert not cursors_file.open_writable(fd, IDENTITY).usable
    assert not cursors_file.open_for_reading(fd, IDENTITY).cells.shared
    os.close(fd)


def test_reader_of_a_recovering_log_gets_private_cells(ready: int) -> None:
    writer = cursors_file.open_writable(ready, IDENTITY)
    writer.cells["state"] = kernel.STATE_RECOVERING
    assert writer.usable
    assert not writer.ready
    stand_in = cursors_file.open_for_reading(ready, IDENTITY)
    assert not stand_in.usable
    assert not stand_in.cells.shared
    stand_in.cells["committed"] = 5
    assert writer.cells["committed"] == 0


@pytest.mark.parametrize("size", [0, 1, 4096])
def test_short_file_is_replaced_by_a_writer(dir_fd: int, tmp_path: Path, size: int) -> None:
    (tmp_path / "cursors").write_bytes(b"\xff" * size)
    assert not cursors_file.open_for_reading(dir_fd, IDENTITY).cells.shared
    assert (tmp_path / "cursors").stat().st_size == size
    assert not cursors_file.open_writable(dir_fd, IDENTITY).usable
    assert (tmp_path / "cursors").stat().st_size == kernel.CURSORS_SIZE


def test_boot_id_is_sixteen_constant_bytes() -> None:
    assert len(boot_id()) == 16
    assert boot_id() == boot_id()


def test_irregular_lock_file_leaks_no_descriptor(ready: int, tmp_path: Path) -> None:
    cells = cursors_file.open_for_reading(ready, IDENTITY).cells
    os.mkfifo(tmp_path / "lock")
    before = os.listdir("/proc/self/fd")
    for _ in range(3):
        with pytest.raises(IOFailureError):
            cursors_file.writers(ready, cells)
    assert os.listdir("/proc/self/fd") == before
