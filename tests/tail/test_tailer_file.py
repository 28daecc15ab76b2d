"""The files of named tailers: consistent at every instant, locked by one reader, checked before
use.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from commitlog._kernel.readers import TAILER_SIZE, TailerPage
from commitlog.errors import (
    CorruptTailerError,
    DiskFullError,
    InUseError,
    ReadOnlyError,
    TailerNotFoundError,
)
from commitlog.segment.directory import LogDirectory
from commitlog.segment.identity import Identity
from commitlog.tail import tailer_file, tailer_folder, tailer_state
from commitlog.tail.tailer_file import TailerFile
from tests.setups import HEADER, SEGMENT

TERMS_AT, SAVED_AT, STRIDE = 0, 1024, 512
PLACE = struct.Struct("<QI")  # the check follows


def no_writers() -> None:
    """Stand in for notifying writers, of which there are none."""


def kept(directory: LogDirectory, name: str, position: int) -> Path:
    """Create a tailer's file and release it; return its path."""
    TailerFile(directory, name, position).close()
    return Path(tailer_folder.tailer_path(directory, name))


def place_of(position: int, count: int) -> bytes:
    """Return the record of a saved position, as docs/format.md describes it."""
    mixed = (position ^ (count << 32 | count)) * 0x9E3779B97F4A7C15 & 2**64 - 1
    return PLACE.pack(position, count) + struct.pack("<I", mixed >> 32 ^ 0x434D4C54)


def put(path: Path, at: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(content)


def flip(path: Path, at: int) -> None:
    put(path, at, bytes([path.read_bytes()[at] ^ 0x10]))


# --- the place ------------------------------------------------------------------------------------


def test_new_tailer_obeys_start_and_known_tailer_resumes(
    directory: LogDirectory,
) -> None:
    first = TailerFile(directory, "billing", 4096)
    assert (first.created, first.page.position) == (True, 4096)
    first.page.save(8192)
    first.close()
    second = TailerFile(directory, "billing", 4096)
    assert (second.created, second.page.position) == (False, 8192)
    second.close()


def test_file_is_one_page_with_allocated_blocks(directory: LogDirectory) -> None:
    path = kept(directory, "billing", 4096)
    assert path.stat().st_size == TAILER_SIZE
    assert path.stat().st_blocks * 512 >= TAILER_SIZE
    assert os.listdir(path.parent) == ["billing"]


def test_saves_alternate_between_two_checked_records(directory: LogDirectory) -> None:
    file = TailerFile(directory, "billing", 4096)
    for position in (8, 16, 24):
        file.page.save(position)
    content = Path(file.path).read_bytes()
    records = [content[at : at + 24] for at in (SAVED_AT, SAVED_AT + STRIDE)]
    assert sorted(PLACE.unpack_from(record)[0] for record in records) == [16, 24]
    for record in records:
        assert record[:16] == place_of(*PLACE.unpack_from(record))
    file.close()


@pytest.mark.parametrize("turn", [0, 1])
def test_one_valid_record_of_each_pair_suffices(directory: LogDirectory, turn: int) -> None:
    path = kept(directory, "billing", 64)
    for at in (TERMS_AT, SAVED_AT):
        flip(path, at + turn * STRIDE + 1)
    state = tailer_state.read_state(directory, "billing")
    assert (state.damage, state.position) == (None, 64)


def test_kill_between_two_stores_leaves_a_saved_position(
    directory: LogDirectory,
) -> None:
    """A kill leaves the first bytes of a save in the older record; the newer record stays valid."""
    file = TailerFile(directory, "billing", 0)
    file.page.save(800)
    before = Path(file.path).read_bytes()
    file.page.save(1600)
    after = Path(file.path).read_bytes()
    file.close()
    changed = [at for at in range(TAILER_SIZE) if before[at] != after[at]]
    assert changed
    for stop in range(changed[0], changed[-1] + 2):
        Path(file.path).write_bytes(after[:stop] + before[stop:])
        assert tailer_state.read_state(directory, "billing").position in (800, 1600)


def test_read_during_a_save_returns_a_complete_record(
    directory: LogDirectory, until: Callable[..., None]
) -> None:
    file = TailerFile(directory, "billing", 0)
    child = os.fork()
    if child == 0:
        fd = os.open(file.path, os.O_RDWR)
        page = TailerPage(fd, str(file.path))
        while True:
            for position in range(0, 8000, 8):
                page.save(position)
    try:
        until(lambda: tailer_state.read_state(directory, "billing").position != 0)
        for _ in range(2000):
            state = tailer_state.read_state(directory, "billing")
            assert state.damage is None
            assert state.position is not None
            assert 0 <= state.position < 8000
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
        file.close()


def test_saved_position_with_a_flipped_bit_is_rejected(directory: LogDirectory) -> None:
    path = kept(directory, "billing", 64)
    put(path, SAVED_AT + STRIDE, bytes(24))
    for bit in range(8 * 16):
        put(path, SAVED_AT, place_of(1 << 40, 7))
        put(
            path,
            SAVED_AT + bit // 8,
            bytes([path.read_bytes()[SAVED_AT + bit // 8] ^ 1 << bit % 8]),
        )
        assert tailer_state.read_state(directory, "billing").position is None


def test_count_of_saves_wraps_around(directory: LogDirectory) -> None:
    path = kept(directory, "billing", 64)
    for turn, (position, count) in enumerate(((80, 0), (72, 2**32 - 1))):
        put(path, SAVED_AT + turn * STRIDE, place_of(position, count))
    assert tailer_state.read_state(directory, "billing").position == 80
    file = TailerFile(directory, "billing", 0)
    for position in (88, 96, 104):
        file.page.save(position)
        assert tailer_state.read_state(directory, "billing").position == position
    file.close()


# --- damage ---------------------------------------------------------------------------------------


def damage_garbage(path: Path) -> None:
    path.write_bytes(os.urandom(0) + b"\xa5" * TAILER_SIZE)


def damage_empty(path: Path) -> None:
    path.write_bytes(b"")


def damage_short(path: Path) -> None:
    os.truncate(path, TAILER_SIZE - 1)


def damage_long(path: Path) -> None:
    os.truncate(path, TAILER_SIZE + 1)


def damage_zeros(path: Path) -> None:
    path.write_bytes(bytes(TAILER_SIZE))


def damage_terms(path: Path) -> None:
    flip(path, TERMS_AT)
    flip(path, TERMS_AT + STRIDE)


def damage_place(path: Path) -> None:
    flip(path, SAVED_AT)
    flip(path, SAVED_AT + STRIDE)


def damage_between_frames(path: Path) -> None:
    """A position with a valid check at which no frame can start."""
    for turn in range(2):
        put(path, SAVED_AT + turn * STRIDE, place_of(4099, 9 + turn))


def damage_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def damage_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


DAMAGES = [
    damage_garbage,
    damage_empty,
    damage_short,
    damage_long,
    damage_zeros,
    damage_terms,
    damage_place,
    damage_between_frames,
]


@pytest.mark.parametrize("damage", [*DAMAGES, damage_folder, damage_fifo])
def test_damaged_file_is_reported_and_not_used(
    directory: LogDirectory, damage: Callable[[Path], None]
) -> None:
    path = kept(directory, "billing", 64)
    damage(path)
    state = tailer_state.read_state(directory, "billing")
    assert state.damage
    assert state.position is None
    with pytest.raises((CorruptTailerError, OSError), match="billing"):
        TailerFile(directory, "billing", 0)


@pytest.mark.parametrize("damage", DAMAGES)
def test_reset_replaces_a_damaged_file(
    directory: LogDirectory, damage: Callable[[Path], None]
) -> None:
    damage(kept(directory, "billing", 64))
    with pytest.raises(CorruptTailerError, match=r"log.reset_tailer\('billing', ...\)") as caught:
        TailerFile(directory, "billing", 0)
    assert caught.value.path == tailer_folder.tailer_path(directory, "billing")
    tailer_file.reset(directory, "billing", 128, no_writers)
    assert tailer_state.read_state(directory, "billing").position == 128


def test_tailer_file_of_another_log_is_refused(directory: LogDirectory, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = LogDirectory(str(tmp_path / "other"), Identity(bytes(16), SEGMENT, "coarse", 0))
    path = kept(directory, "billing", 64)
    foreign = kept(other, "billing", 128)
    other.close()
    path.write_bytes(foreign.read_bytes())
    with pytest.raises(CorruptTailerError, match="another log"):
        TailerFile(directory, "billing", 0)


# --- one reader a name ----------------------------------------------------------------------------


def test_second_reader_is_refused_and_the_first_is_named(directory: LogDirectory) -> None:
    file = TailerFile(directory, "billing", 0)
    assert tailer_state.read_state(directory, "billing").pid == os.getpid()
    for refused in (
        lambda: TailerFile(directory, "billing", 0),
        lambda: tailer_file.reset(directory, "billing", 8, no_writers),
        lambda: tailer_file.delete(directory, "billing", no_writers),
    ):
        with pytest.raises(InUseError, match="this process") as caught:
            refused()
        assert caught.value.holder == "this process"
    file.close()
    assert tailer_state.read_state(directory, "billing").owner is None
    TailerFile(directory, "billing", 0).close()


def test_deleted_name_can_be_used_again(directory: LogDirectory) -> None:
    kept(directory, "billing", 64)
    tailer_file.delete(directory, "billing", no_writers)
    assert tailer_folder.names(directory) == []
    with pytest.raises(TailerNotFoundError, match="billing"):
        tailer_file.delete(directory, "billing", no_writers)
    file = TailerFile(directory, "billing", 8)
    assert (file.created, file.page.position) == (True, 8)
    file.close()


@pytest.mark.parametrize("folder", [True, False])
def test_unknown_tailer_name_raises_not_found(directory: LogDirectory, folder: bool) -> None:
    if folder:
        kept(directory, "other", 0)
    for call in (
        lambda: tailer_file.evict(directory, "billing", no_writers),
        lambda: tailer_file.delete(directory, "billing", no_writers),
        lambda: tailer_file.reset(directory, "billing", 8, no_writers),
        lambda: tailer_state.read_state(directory, "billing"),
    ):
        with pytest.raises(TailerNotFoundError, match="there is no tailer 'billing'"):
            call()


# --- required -------------------------------------------------------------------------------------


def require(directory: LogDirectory, name: str, position: int, required: bool = True) -> None:
    file = TailerFile(directory, name, position)
    file.declare(required, 0, no_writers)
    file.close()


def test_lowest_required_is_that_of_the_slowest_tailer(directory: LogDirectory) -> None:
    assert tailer_state.lowest_required(directory) is None
    require(directory, "idle", 8, required=False)
    assert tailer_state.lowest_required(directory) is None
    require(directory, "fast", 160)
    require(directory, "slow", 80)
    assert tailer_state.lowest_required(directory) == 80
    assert tailer_file.evict(directory, "slow", no_writers) is True
    assert tailer_file.evict(directory, "slow", no_writers) is False
    assert tailer_state.lowest_required(directory) == 160
    evicted = tailer_state.read_state(directory, "slow")
    assert (evicted.required, evicted.position) == (False, 80)
    assert evicted.evicted_ns


def test_damaged_tailer_file_blocks_retention(
    directory: LogDirectory, caplog: pytest.LogCaptureFixture
) -> None:
    require(directory, "fast", 160)
    damage_garbage(kept(directory, "billing", 64))
    assert tailer_state.lowest_required(directory) == 0
    assert "billing" in caplog.text


def test_tailer_beyond_the_end_of_a_cut_log_is_moved_back(
    directory: LogDirectory, caplog: pytest.LogCaptureFixture
) -> None:
    kept(directory, "ahead", 8000)
    kept(directory, "below", 80)
    tailer_file.cut_back(directory, 5000)
    assert [(state.name, state.position) for state in tailer_state.states(directory)] == [
        ("ahead", 5000),
        ("below", 80),
    ]
    assert "ahead" in caplog.text


def test_tailer_at_the_start_of_the_next_segment_stays(
    directory: LogDirectory, caplog: pytest.LogCaptureFixture
) -> None:
    kept(directory, "at-the-end", SEGMENT + HEADER)
    tailer_file.cut_back(directory, SEGMENT)
    assert caplog.text == ""


# --- what the system refuses ----------------------------------------------------------------------


def test_full_disk_leaves_no_incomplete_file(
    directory: LogDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: Any) -> None:
        raise OSError(28, os.strerror(28))

    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_fallocate", refuse)
        with pytest.raises(DiskFullError, match="free space"):
            TailerFile(directory, "billing", 0)
    assert os.listdir(os.path.join(directory.path, tailer_folder.FOLDER)) == []
    TailerFile(directory, "billing", 0).close()


def test_missing_permission_error_says_what_to_do(
    directory: LogDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: Any, **options: Any) -> None:
        raise PermissionError(13, os.strerror(13))

    monkeypatch.setattr(os, "mkdir", refuse)
    with pytest.raises(ReadOnlyError, match="read without a name"):
        TailerFile(directory, "billing", 0)


def test_sweep_removes_only_temporary_files(
    directory: LogDirectory,
) -> None:
    tailer_folder.sweep(directory)
    folder = kept(directory, "billing", 0).parent
    (folder / f".billing.{'0' * 16}.tmp").write_bytes(b"")
    (folder / ".keep").write_bytes(b"")
    tailer_folder.sweep(directory)
    assert sorted(os.listdir(folder)) == [".keep", "billing"]
