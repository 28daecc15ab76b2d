"""Backups in one file: what `tar` unpacks, what `open` and `restore` read, and damage."""

from __future__ import annotations

import json
import os
import subprocess
from io import BytesIO
from pathlib import Path

import pytest

import commitlog
from commitlog import CommitLog, Retention, Store
from commitlog.backup.source_log import SourceLog
from commitlog.backup.tar_file import TarFile
from commitlog.errors import (
    CommitLogError,
    CorruptSegmentError,
    InvalidOptionError,
    LogExistsError,
    NotALogError,
)
from commitlog.extension import SegmentHeader
from commitlog.keep import archive_segments, backup, restore, verify
from commitlog.stores import tar_target
from commitlog.stores.tar_target import TarTarget
from tests.setups import SEGMENT, Logs, values
from tests.steps import replace_hook

pytest.importorskip("zstandard")


@pytest.fixture
def log(logs: Logs) -> CommitLog:
    log = logs.open()
    with log.tailer("reader") as tailer:
        for number in range(300):
            log.append(b"%d" % number * 200, producer="till", producer_sequence=number)
        tailer.read()
    log.flush()
    log.prune(Retention(max_bytes="1TiB"))  # seals whole segments, which a thread does later
    return log


@pytest.fixture
def to(tmp_path: Path) -> Path:
    return tmp_path / "copy.tar.zst"


def values_at(path: Path) -> list[bytes]:
    with commitlog.open(path, "r") as log:
        return values(log)


def test_file_is_read_like_a_log(log: CommitLog, to: Path) -> None:
    done = log.backup(to)
    assert done.verified
    assert sorted(os.listdir(to.parent)) == ["copy.tar.zst", "log"]
    with commitlog.open(to, "r") as copy:
        assert values(copy) == values(log)
        assert (copy.tail_position, copy.last_sequence) == (done.end_position, 299)
        middle = copy.read(log.last_position or 0)
        assert middle.value == b"299" * 200
    report = verify(to)
    assert (report.sound, report.records, report.kind) == (True, 300, "archive")


def test_tar_unpacks_a_file_to_a_log(log: CommitLog, to: Path, tmp_path: Path) -> None:
    log.backup(to)
    place = tmp_path / "unpacked"
    place.mkdir()
    subprocess.run(["tar", "--zstd", "-xf", to], cwd=place, check=True)
    assert verify(place).sound
    with commitlog.open(place) as copy:
        assert values(copy) == values(log)
        assert [state.name for state in copy.tailers()] == ["reader"]
        end = copy.tail_position
        assert copy.append(b"again", producer="till", producer_sequence=299) < end
        assert copy.append(b"on") == end


def test_restored_file_has_all_of_the_backup(log: CommitLog, to: Path, tmp_path: Path) -> None:
    log.backup(to)
    done = restore(to, tmp_path / "again")
    assert done.end_position == log.tail_position
    assert verify(tmp_path / "again").sound
    with commitlog.open(tmp_path / "again") as copy:
        assert values(copy) == values(log)
        assert [state.position for state in copy.tailers()] == [
            state.position for state in log.tailers()
        ]


def test_file_is_restored_up_to_a_position(log: CommitLog, to: Path, tmp_path: Path) -> None:
    positions = [record.position for record in log.tailer()]
    log.backup(to)
    restore(to, tmp_path / "again", until=positions[200])
    assert len(values_at(tmp_path / "again")) == 200
    with commitlog.open(tmp_path / "again") as copy:
        assert copy.tailers() == []  # they belong to the end


def test_segment_deleted_meanwhile_is_not_in_the_file(log: CommitLog, to: Path) -> None:
    log.flush()
    seen = []

    def delete(name: str) -> None:
        if name == "segment restored" and not seen:
            seen.append(name)
            log.roll()
            log.append(b"on")
            log.flush()
            assert log.delete_before(log.tail_position)

    replace_hook(delete)
    try:
        done = log.backup(to)
    finally:
        replace_hook(None)
    assert done.first_position == log.first_position
    assert values_at(to) == values(log)


def test_whole_segment_without_a_seal_is_in_parts(
    log: CommitLog, to: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = SourceLog.page

    def unsealed(self: SourceLog, number: int, end: int) -> bytes:  # as just after a roll
        return SegmentHeader.without_seal(page(self, number, end))

    monkeypatch.setattr(SourceLog, "page", unsealed)
    log.backup(to)
    assert not [name for name in TarTarget(str(to)).names() if name.endswith(".seg.zst")]
    assert values_at(to) == values(log)


def test_segment_sealed_before_an_older_one_is_read(
    log: CommitLog, to: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = SourceLog.page

    def unsealed(self: SourceLog, number: int, end: int) -> bytes:  # the seal came after the copy
        found = page(self, number, end)
        return found if number else SegmentHeader.without_seal(found)

    log.delete_before(0)  # seals
    monkeypatch.setattr(SourceLog, "page", unsealed)
    log.backup(to)
    restore(to, tmp_path / "again")
    assert values_at(to) == values_at(tmp_path / "again") == values(log)


def test_existing_file_and_increments_are_refused(log: CommitLog, to: Path) -> None:
    log.backup(to)
    with pytest.raises(LogExistsError, match="give a new one"):
        log.backup(to)
    with pytest.raises(InvalidOptionError, match="written whole"):
        log.backup(to, incremental=True)
    assert len(values_at(to)) == 300


def test_file_is_not_written_to(log: CommitLog, to: Path) -> None:
    log.backup(to)
    before = to.read_bytes()
    with pytest.raises(CommitLogError, match="not changed"):
        archive_segments(log.path, Store(to))
    with pytest.raises(CommitLogError):
        commitlog.open(to)
    assert to.read_bytes() == before


def test_every_changed_byte_is_noticed(log: CommitLog, to: Path, tmp_path: Path) -> None:
    log.backup(to)
    content = to.read_bytes()
    for at in range(0, len(content), max(1, len(content) // 97)):
        changed = bytearray(content)
        changed[at] ^= 0x10
        to.write_bytes(changed)
        try:
            if not verify(to).sound:
                continue
            restore(to, tmp_path / f"again-{at}")
        except CommitLogError:
            continue
        # What is left are bytes that only `tar` reads: headers of members, and padding.
        assert values_at(to) == values_at(tmp_path / f"again-{at}") == values(log)


@pytest.mark.parametrize("kept", [0, 10, 5000, -1, -9])
def test_truncated_file_is_refused(log: CommitLog, to: Path, kept: int) -> None:
    log.backup(to)
    to.write_bytes(to.read_bytes()[:kept])
    with pytest.raises(NotALogError, match="cut short"):
        commitlog.open(to, "r")


def test_tar_of_another_program_is_refused(log: CommitLog, to: Path) -> None:
    log.close()
    subprocess.run(["tar", "--zstd", "-cf", to, "-C", log.path, "."], check=True)
    with pytest.raises(NotALogError, match="tar --zstd"):
        commitlog.open(to, "r")


def forge(to: Path, log: CommitLog, name: str, content: bytes) -> None:
    """Write a backup of one segment with a foreign file."""
    source = to.parent / f"{to.name}.source"
    log.backup(source)
    file = TarFile(str(to), 3)
    segment = f"{0:020d}.seg"
    members = {
        "log.json": ("log.json", (source / "log.json").read_bytes()),
        name: ("foreign", content),
        f"{segment}.zst": (segment, (source / segment).read_bytes()),
    }
    for each, (path, held) in members.items():
        file.begin(path, len(held))
        file.content(each, BytesIO(held), len(held))
    file.close(index=True)


@pytest.mark.parametrize(
    "name", ["../stolen", "/tmp/stolen", "tailers/../../stolen", "a/", "stolen\0", "\ud800stolen"]
)
def test_member_outside_of_the_log_is_refused(
    log: CommitLog, to: Path, tmp_path: Path, name: str
) -> None:
    forge(to, log, name, b"stolen")
    with pytest.raises(CorruptSegmentError, match="not written by commitlog"):
        restore(to, tmp_path / "again")
    assert not list(tmp_path.glob("**/*stolen*"))
    assert not os.path.exists("/tmp/stolen")


def test_file_that_inflates_beyond_bounds_is_refused(
    log: CommitLog, to: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tar_target, "_SMALL_MOST", 1 << 20)
    forge(to, log, "epoch", bytes(2 << 20))
    with pytest.raises(CorruptSegmentError, match="too large"):
        restore(to, tmp_path / "again")
    forge(to.with_name("second.tar.zst"), log, "topics/zeros", bytes(8 << 20))
    pieces = TarTarget(str(to.with_name("second.tar.zst"))).pieces("topics/zeros")
    assert max(map(len, pieces)) <= 1 << 16


def test_index_names_every_object(log: CommitLog, to: Path) -> None:
    log.backup(to)
    target = TarTarget(str(to))
    names = target.names()
    assert f"{0:020d}.seg.zst" in names
    assert "log.json" in names
    assert json.loads(b"".join(target.pieces("log.json")))["segment_size"] == SEGMENT
    assert sum(target.sizes().values()) < to.stat().st_size


def test_backup_of_a_file_is_a_directory_again(log: CommitLog, to: Path, tmp_path: Path) -> None:
    log.backup(to)
    backup(to, tmp_path / "again")
    assert values_at(tmp_path / "again") == values(log)


def test_file_of_an_empty_log_is_restored(logs: Logs, to: Path, tmp_path: Path) -> None:
    logs.open().backup(to)
    restore(to, tmp_path / "again")
    with commitlog.open(tmp_path / "again") as again:
        assert again.append(b"first") == again.first_position
