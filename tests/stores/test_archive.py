"""Archives: equal to the log, resumed after a kill, read in place, and never misread when
damaged.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import re
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import commitlog
from commitlog import CommitLog, Retention, Store
from commitlog.base import failpoint
from commitlog.errors import (
    CommitLogError,
    CorruptRecordError,
    CorruptSegmentError,
    DiskFullError,
    InvalidOptionError,
    IOFailureError,
    LogExistsError,
    LogNotFoundError,
    NotALogError,
    PositionError,
    ReadOnlyError,
)
from commitlog.keep import (
    archive_segments,
    archived_bases,
    open_segment_bytes,
    prune,
    read_identity,
    restore,
    target_of,
)
from commitlog.log.parts import parts_of
from commitlog.repair.verification import verify
from commitlog.source.source_directory import SourceDirectory
from commitlog.stores.archive_source import ArchiveSource
from commitlog.stores.target import LocalTarget
from tests.copies import copy_log
from tests.setups import BY_HAND, SEGMENT, Logs, values
from tests.steps import killed_at, replace_hook

COUNT = 6
SEAL = Retention(max_bytes="1TiB")
zstandard = pytest.importorskip("zstandard")


def filled(logs: Logs, segments: int = COUNT) -> CommitLog:
    """Return a log of sealed, durable segments."""
    log = logs.open(**BY_HAND)
    for number in range(segments):
        log.append_many(
            [b"%d-%d" % (number, index) * 20 for index in range(40)], keys=[b"key"] * 40
        )
        log.roll()
    log.flush()
    log.prune(SEAL)
    return log


def archived(logs: Logs, place: Path) -> CommitLog:
    log = filled(logs)
    archive_segments(log.path, Store(place), keep=True)
    return log


def name(number: int) -> str:
    return f"{number * SEGMENT:020d}.seg.zst"


def expected(log: CommitLog, stop: int = COUNT) -> list[tuple[int, int, bytes | None, bytes, int]]:
    return [row for row in rows(log) if row[0] < stop * SEGMENT]


def rows(log: CommitLog) -> list[tuple[int, int, bytes | None, bytes, int]]:
    return [
        (record.position, record.timestamp_ns, record.key, record.value, record.sequence)
        for record in log.tailer()
    ]


# --- round trips ----------------------------------------------------------------------------------


def test_archive_is_read_like_its_log(logs: Logs, tmp_path: Path) -> None:
    log = archived(logs, tmp_path / "archive")
    assert sorted(path.name for path in (tmp_path / "archive").iterdir()) == [
        *map(name, range(COUNT)),
        "log.json",
    ]
    with commitlog.open(tmp_path / "archive", "r") as copy:
        assert rows(copy) == expected(log)
        assert (copy.first_sequence, copy.last_sequence, copy.count()) == (
            0,
            COUNT * 40 - 1,
            COUNT * 40,
        )
        backward = [record.position for record in copy.tailer(direction="backward")]
        assert backward == [row[0] for row in reversed(expected(log))]
        some = expected(log)[100]
        assert copy.read(some[0]).value == some[3]
        tailer = copy.tailer()
        tailer.seek(sequence=some[4])
        assert next(iter(tailer)).position == some[0]
        batch = copy.tailer().read_batch(10_000)
        assert batch.values() == [row[3] for row in expected(log)][: len(batch)]


def test_archived_segment_unpacks_to_the_original_file(logs: Logs, tmp_path: Path) -> None:
    log = archived(logs, tmp_path / "archive")
    for number in range(COUNT):
        original = Path(parts_of(log).directory.segment_path(number)).read_bytes()
        assert open_segment_bytes(tmp_path / "archive", number * SEGMENT) == original
        frame = (tmp_path / "archive" / name(number)).read_bytes()
        assert zstandard.decompress(frame) == original
        parameters = zstandard.get_frame_parameters(frame)
        assert (parameters.content_size, parameters.has_checksum) == (SEGMENT, True)
    assert archived_bases(target_of(tmp_path / "archive"), SEGMENT) == [
        number * SEGMENT for number in range(COUNT)
    ]
    assert read_identity(target_of(tmp_path / "archive")).uuid == log.identity.uuid


def test_archive_unpacked_by_hand_opens_as_a_log(logs: Logs, tmp_path: Path) -> None:
    log = archived(logs, tmp_path / "archive")
    again = tmp_path / "again"
    again.mkdir()
    shutil.copy(tmp_path / "archive" / "log.json", again)
    for number in range(COUNT):
        (again / name(number).removesuffix(".zst")).write_bytes(
            zstandard.decompress((tmp_path / "archive" / name(number)).read_bytes())
        )
    with commitlog.open(again) as opened:
        assert rows(opened) == expected(log)
        opened.append(b"on")
        assert opened.last_sequence == COUNT * 40


def test_archiving_moves_segments_of_an_open_log(logs: Logs, tmp_path: Path) -> None:
    log = filled(logs)
    everything = rows(log)
    pruned = archive_segments(log.path, Store(tmp_path / "archive"))
    assert len(pruned.segments) == COUNT - 1
    with commitlog.open(tmp_path / "archive", "r") as copy:
        assert [*rows(copy), *rows(log)] == everything


def test_retention_of_a_log_with_a_store_deletes_what_is_stored(
    logs: Logs, tmp_path: Path, until: Callable[..., None]
) -> None:
    rule = Retention(max_bytes=3 * SEGMENT, interval="2ms")
    log = logs.open(retention=rule, store=Store(tmp_path / "archive", every="10ms"))
    for number in range(10):
        log.append(b"%d" % number)
        log.roll()
    until(lambda: log.first_position > 7 * SEGMENT)
    log.close()
    with commitlog.open(tmp_path / "archive", "r") as copy, logs.open(mode="r") as rest:
        both = [*values(copy), *values(rest)]
    assert list(dict.fromkeys(both)) == [b"%d" % number for number in range(10)]


def test_second_archive_run_rewrites_no_file(logs: Logs, tmp_path: Path) -> None:
    log = archived(logs, tmp_path / "archive")
    before = {path: path.stat().st_ino for path in (tmp_path / "archive").iterdir()}
    done = archive_segments(log.path, Store(tmp_path / "archive", level=19), keep=True)
    assert len(done.segments) == COUNT
    assert {path: path.stat().st_ino for path in (tmp_path / "archive").iterdir()} == before


def test_dry_run_archives_nothing(logs: Logs, tmp_path: Path) -> None:
    log = filled(logs)
    done = archive_segments(log.path, Store(tmp_path / "archive"), dry_run=True)
    assert len(done.segments) == COUNT - 1
    assert not (tmp_path / "archive").exists()
    assert log.first_position < SEGMENT


def test_reader_of_long_archive_keeps_few_segments(
    logs: Logs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
    log = filled(logs, 30)
    archive_segments(log.path, Store(tmp_path / "archive"), keep=True)
    most = 0
    with commitlog.open(
        tmp_path / "archive", "r", tuning=commitlog.Tuning(archive_cache=0)
    ) as copy:
        tailer = copy.tailer()
        for index, _ in enumerate(tailer.values()):
            if index % 40 == 0:
                most = max(most, len(list((tmp_path / "scratch").rglob("*.seg"))))
        assert index == 30 * 40 - 1
        assert rows(copy) == expected(log, 30)
        with open("/proc/self/maps", encoding="ascii") as maps:
            assert sum(str(tmp_path / "scratch") in line for line in maps) <= 16
    assert 2 <= most <= 5
    assert list((tmp_path / "scratch").iterdir()) == []


def test_verify_of_long_archive_keeps_few_segments(
    logs: Logs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
    log = filled(logs, 30)
    archive_segments(log.path, Store(tmp_path / "archive"), keep=True)
    seen, mapped = [], []
    open_segment = SourceDirectory.open_segment

    def counted(directory: SourceDirectory, number: int, *, writable: bool) -> Any:
        opened = open_segment(directory, number, writable=writable)
        seen.append(len([path for path in (tmp_path / "scratch").rglob("*") if path.is_file()]))
        with open("/proc/self/maps", encoding="ascii") as maps:
            mapped.append(
                len({line.split()[-1] for line in maps if str(tmp_path / "scratch") in line})
            )
        return opened

    monkeypatch.setattr(SourceDirectory, "open_segment", counted)
    report = verify(tmp_path / "archive")
    assert (report.kind, report.sound, report.records, report.clean) == (
        "archive",
        True,
        30 * 40,
        True,
    )
    assert len(seen) == 30
    # Three are kept, one more while the oldest goes, and the next is unpacked meanwhile.
    assert (max(seen) <= 5, max(mapped)) == (True, 1)
    assert list((tmp_path / "scratch").iterdir()) == []


@pytest.mark.parametrize("cache", ["1GiB", 0])
def test_unpacked_segment_is_reused_if_archive_cache_has_room(
    logs: Logs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: object
) -> None:
    archived(logs, tmp_path / "archive")
    unpack, unpacked = ArchiveSource.fill, []
    monkeypatch.setattr(
        ArchiveSource,
        "fill",
        lambda self, number, fd: (unpacked.append(number), unpack(self, number, fd))[1],
    )
    with commitlog.open(
        tmp_path / "archive", "r", tuning=commitlog.Tuning(archive_cache=cache)
    ) as copy:  # type: ignore[arg-type]
        for number in (*range(COUNT), *range(COUNT)):
            parts_of(copy).directory.fetch(number)
    assert (len(unpacked) == COUNT) == (cache != 0)


def test_disk_bytes_of_an_archive_are_those_of_its_files(logs: Logs, tmp_path: Path) -> None:
    archived(logs, tmp_path / "archive")
    sizes = {
        number: (tmp_path / "archive" / name(number)).stat().st_size for number in range(COUNT)
    }
    for place in (str(tmp_path / "archive"), (tmp_path / "archive").as_uri()):
        with commitlog.open(place, "r") as copy:
            assert parts_of(copy).directory.whole_disk_bytes() == sum(sizes.values())
            assert {
                number: parts_of(copy).directory.disk_bytes(number) for number in range(COUNT)
            } == sizes
            assert parts_of(copy).directory.disk_bytes(COUNT) == 0
            assert [cycle.disk_bytes for cycle in copy.cycles()] == list(sizes.values())


def test_archive_has_sequences_of_its_log_across_gaps(logs: Logs, tmp_path: Path) -> None:
    log = archived(logs, tmp_path / "archive")
    first, last = log.first_sequence, expected(log)[-1][4]
    for missing in (None, 2, 0, COUNT - 1):
        if missing is not None:
            (tmp_path / "archive" / name(missing)).unlink()
        directory = SourceDirectory(ArchiveSource(str(tmp_path / "archive")), 0)
        try:
            assert directory.sequences() == (
                first + 40 * (missing in (0, COUNT - 1)),
                last + 1 - 40 * (missing == COUNT - 1),
            )
        finally:
            directory.close()


# --- kills ----------------------------------------------------------------------------------------


def test_crash_at_any_archive_step_is_resumed_without_loss(logs: Logs, tmp_path: Path) -> None:
    log = filled(logs, 4)
    everything = rows(log)
    log.close()
    step, kills = 0, 0
    while True:
        step += 1
        here, there = tmp_path / f"log{step}", tmp_path / f"archive{step}"
        copy_log(log.path, here)

        def prepare(here: Path = here, there: Path = there) -> Callable[[], object]:
            return lambda: archive_segments(here, Store(there))

        killed = killed_at(step, prepare)
        kills += killed
        # Each segment deleted from the log is complete in the archive.
        gone = {
            number for number in range(4) if not (here / name(number).removesuffix(".zst")).exists()
        }
        for number in gone:
            assert (
                open_segment_bytes(there, number * SEGMENT)
                == Path(log.path, name(number).removesuffix(".zst")).read_bytes()
            )
        archive_segments(here, Store(there))
        assert sorted(path.name for path in there.iterdir()) == [*map(name, range(3)), "log.json"]
        with commitlog.open(there, "r") as copy, commitlog.open(here, "r") as rest:
            assert [*rows(copy), *rows(rest)] == everything
        shutil.rmtree(here)
        shutil.rmtree(there)
        if not killed:
            break
    assert kills >= 12


def test_truncated_archive_copy_is_rewritten_before_deletion(
    logs: Logs, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = archived(logs, tmp_path / "archive")
    whole = (tmp_path / "archive" / name(2)).read_bytes()
    (tmp_path / "archive" / name(2)).write_bytes(whole[:100])
    with caplog.at_level(logging.WARNING, "commitlog.keep"):
        archive_segments(log.path, Store(tmp_path / "archive"))
    assert name(2) in caplog.text
    assert (tmp_path / "archive" / name(2)).read_bytes() == whole
    assert log.first_position == (COUNT - 1) * SEGMENT + 4096


def test_damaged_segment_is_kept_and_not_archived(logs: Logs, tmp_path: Path) -> None:
    log = filled(logs)
    log.close()
    damaged = Path(log.path, name(2).removesuffix(".zst"))
    content = bytearray(damaged.read_bytes())
    content[6000] ^= 1
    damaged.write_bytes(content)
    with pytest.raises(CorruptSegmentError, match="is damaged and was not archived") as caught:
        archive_segments(log.path, Store(tmp_path / "archive"))
    assert caught.value.path == str(damaged)
    assert damaged.exists()
    assert sorted(path.name for path in (tmp_path / "archive").iterdir()) == [
        name(0),
        name(1),
        "log.json",
    ]


def test_copier_waits_for_the_sweep_of_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copier that goes on without a lock loses its temporary file to the next sweep."""
    target = LocalTarget(str(tmp_path))
    flock, swept, refused = fcntl.flock, threading.Event(), threading.Event()

    def told(fd: int, kind: int) -> None:
        try:
            flock(fd, kind)
        except BlockingIOError:
            if kind == fcntl.LOCK_SH | fcntl.LOCK_NB:
                refused.set()
            raise

    def passed(step: str) -> None:
        if step == "archive folder swept" and not swept.is_set():
            swept.set()
            assert refused.wait(60)
        elif step == "archive file written":
            first.join()
            target.settle()  # a third copier sweeps, if it gets the lock

    monkeypatch.setattr(fcntl, "flock", told)
    first = threading.Thread(target=target.settle)
    replace_hook(passed)
    try:
        first.start()
        assert swept.wait(60)
        target.put("copy", lambda file: file.write(b"whole"))
    finally:
        replace_hook(None)
        first.join()
    assert (tmp_path / "copy").read_bytes() == b"whole"


# --- addresses ------------------------------------------------------------------------------------


def test_archive_at_a_file_uri_is_read(logs: Logs, tmp_path: Path) -> None:
    log = filled(logs)
    address = (tmp_path / "archive").as_uri()
    archive_segments(log.path, Store(address), keep=True)
    with commitlog.open(address, "r") as copy:
        assert rows(copy) == expected(log)
    assert verify(address).records == COUNT * 40


def test_archive_in_a_pyarrow_file_system_is_read(logs: Logs, tmp_path: Path) -> None:
    fs = pytest.importorskip("pyarrow.fs")
    log = filled(logs)
    place = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    archive_segments(log.path, Store("deep/archive", filesystem=place), keep=True)
    with commitlog.open(tmp_path / "deep" / "archive", "r") as copy:
        assert rows(copy) == expected(log)
    assert (
        open_segment_bytes("deep/archive", SEGMENT, filesystem=place)
        == Path(parts_of(log).directory.segment_path(1)).read_bytes()
    )


def test_archive_at_an_fsspec_address_is_read(logs: Logs, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    memory = pytest.importorskip("fsspec").filesystem("memory")
    log = filled(logs)
    everything = rows(log)
    address = f"memory://bucket{tmp_path}/orders"
    try:
        archive_segments(log.path, Store(address))
        with commitlog.open(address, "r") as copy:
            assert [*rows(copy), *rows(log)] == everything
        assert len(memory.ls(f"/bucket{tmp_path}/orders")) == COUNT
        assert verify(address).sound
        with memory.open(f"/bucket{tmp_path}/orders/{name(1)}", "wb") as file:
            file.write(b"cut")
        with pytest.raises(CorruptSegmentError, match=f"memory://.*{name(1)}"):
            verify_all(address)
    finally:
        memory.rm("/bucket", recursive=True)


def verify_all(place: str) -> None:
    with commitlog.open(place, "r") as copy:
        rows(copy)


# --- damage and refusals --------------------------------------------------------------------------


def _cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


def _without_checksum(content: bytes) -> bytes:
    return content[:-4]


def _flipped(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 0x40]) + content[middle + 1 :]


def _empty(content: bytes) -> bytes:
    return b""


def _text(content: bytes) -> bytes:
    return b"not a frame at all"


def _longer(content: bytes) -> bytes:
    return content + b"more"


def _unchecked_frame(content: bytes) -> bytes:
    return bytes(
        zstandard.ZstdCompressor(write_checksum=False).compress(zstandard.decompress(content))
    )


def _shorter_segment(content: bytes) -> bytes:
    return bytes(
        zstandard.ZstdCompressor(write_checksum=True).compress(
            zstandard.decompress(content)[:-4096]
        )
    )


def _bomb(content: bytes) -> bytes:
    return bytes(
        zstandard.ZstdCompressor(write_checksum=True, write_content_size=False).compress(
            bytes(1 << 26)
        )
    )


HARMS = [
    _cut,
    _without_checksum,
    _flipped,
    _empty,
    _text,
    _longer,
    _unchecked_frame,
    _shorter_segment,
    _bomb,
]


@pytest.mark.parametrize("harm", HARMS, ids=lambda harm: harm.__name__[1:])
def test_damaged_archive_file_is_named_and_not_misread(
    logs: Logs, tmp_path: Path, harm: Callable[[bytes], bytes]
) -> None:
    log = archived(logs, tmp_path / "archive")
    good = expected(log)
    file = tmp_path / "archive" / name(3)
    file.write_bytes(harm(file.read_bytes()))
    with commitlog.open(tmp_path / "archive", "r") as copy:
        seen: list[bytes] = []
        with pytest.raises(CorruptSegmentError, match=name(3)) as caught:
            seen.extend(copy.tailer().values())
        assert caught.value.path == str(file)
        assert seen == [row[3] for row in good if row[0] < 3 * SEGMENT]
        assert values(copy, start=4 * SEGMENT) == [row[3] for row in good if row[0] > 4 * SEGMENT]
    report = verify(tmp_path / "archive")
    assert not report.sound
    assert [segment.base for segment in report.segments if segment.problems] == [3 * SEGMENT]
    assert report.records == (COUNT - 1) * 40


def test_archive_file_of_another_segment_is_refused(logs: Logs, tmp_path: Path) -> None:
    archived(logs, tmp_path / "archive")
    shutil.copy(tmp_path / "archive" / name(1), tmp_path / "archive" / name(3))
    with pytest.raises(
        CorruptSegmentError, match=f"{name(3)} does not have the header of this segment"
    ):
        verify_all(str(tmp_path / "archive"))


def test_archived_segment_is_read_up_to_its_damaged_frame(logs: Logs, tmp_path: Path) -> None:
    """The compression is valid but the compressed frame is not: its CRC does not match."""
    archived(logs, tmp_path / "archive")
    file = tmp_path / "archive" / name(1)
    content = bytearray(zstandard.decompress(file.read_bytes()))
    content[6000] ^= 1
    file.write_bytes(zstandard.ZstdCompressor(write_checksum=True).compress(bytes(content)))
    with pytest.raises(CorruptRecordError):
        verify_all(str(tmp_path / "archive"))
    (segment,) = [segment for segment in verify(tmp_path / "archive").segments if segment.damage]
    assert segment.base == SEGMENT


def test_missing_archive_segment_is_damage(logs: Logs, tmp_path: Path) -> None:
    archived(logs, tmp_path / "archive")
    (tmp_path / "archive" / name(2)).unlink()
    with commitlog.open(tmp_path / "archive", "r") as copy:
        with pytest.raises(CorruptSegmentError, match="segment 2 is missing") as caught:
            rows(copy)
        assert caught.value.position == 2 * SEGMENT
    assert verify(tmp_path / "archive").holes == [(2 * SEGMENT, 3 * SEGMENT)]


def test_segment_deleted_after_a_listing_names_the_first_one(logs: Logs, tmp_path: Path) -> None:
    archived(logs, tmp_path / "archive")
    source = ArchiveSource(tmp_path / "archive")
    directory = SourceDirectory(source, 1 << 20)
    (tmp_path / "archive" / name(0)).unlink()
    assert source.has_changed()
    with pytest.raises(PositionError) as caught:
        directory.fetch(0)
    directory.close()
    assert caught.value.first_position == SEGMENT
    assert not directory.has(0)


def test_archive_cannot_be_opened_for_writing(logs: Logs, tmp_path: Path) -> None:
    archived(logs, tmp_path / "archive")
    before = sorted(path.name for path in (tmp_path / "archive").iterdir())
    for mode in ("a", "x"):
        with pytest.raises(ReadOnlyError, match="archive"):
            commitlog.open(tmp_path / "archive", mode)
        with pytest.raises(ReadOnlyError, match="archive"):
            commitlog.open("memory://nowhere/log", mode)
    assert sorted(path.name for path in (tmp_path / "archive").iterdir()) == before
    assert not Path("memory:").exists()


def test_named_tailer_of_an_archive_is_refused(logs: Logs, tmp_path: Path) -> None:
    archived(logs, tmp_path / "archive")
    with (
        commitlog.open(tmp_path / "archive", "r") as copy,
        pytest.raises(ReadOnlyError, match="cannot save a tailer's position"),
    ):
        copy.tailer(name="mine")


@pytest.mark.parametrize(
    "error", [ConnectionResetError(104, "reset"), RuntimeError("many\nlines"), EOFError()], ids=repr
)
@pytest.mark.parametrize("step", ["find", "_open"])
def test_archive_read_failure_is_reported_in_one_line(
    logs: Logs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, error: Exception
) -> None:
    memory = pytest.importorskip("fsspec").filesystem("memory")
    log = filled(logs)
    address = f"memory://bucket{tmp_path}/orders"
    archive_segments(log.path, Store(address), keep=True)

    def fail(*given: object, **named: object) -> None:
        raise error

    try:
        monkeypatch.setattr(type(memory), step, fail)
        for use in (verify, commitlog.open):
            with pytest.raises(IOFailureError, match="the archive cannot be read: ") as caught:
                use(address, *("r",) * (use is commitlog.open))
            assert "\n" not in str(caught.value)
            assert str(caught.value.path).startswith(address)
            assert caught.value.__cause__ is error
    finally:
        monkeypatch.undo()
        memory.rm("/bucket", recursive=True)


def test_directory_that_is_no_archive_is_refused(logs: Logs, tmp_path: Path) -> None:
    log = archived(logs, tmp_path / "archive")
    identity = tmp_path / "archive" / "log.json"
    identity.write_text("{}")
    with pytest.raises(NotALogError):
        commitlog.open(tmp_path / "archive", "r")
    with pytest.raises(NotALogError):
        archive_segments(log.path, Store(tmp_path / "archive"))
    identity.unlink()
    with pytest.raises(NotALogError, match="no log.json"):
        commitlog.open(tmp_path / "archive", "r")
    with pytest.raises(LogExistsError, match="no log.json"):
        archive_segments(log.path, Store(tmp_path / "archive"))
    with pytest.raises(LogNotFoundError):
        commitlog.open((tmp_path / "none").as_uri(), "r")
    with pytest.raises(InvalidOptionError, match="nonsense://"):
        commitlog.open("nonsense://here", "r")


def test_archive_target_of_another_log_is_refused_and_log_kept(logs: Logs, tmp_path: Path) -> None:
    archived(logs, tmp_path / "archive")
    other = logs.open("other", **BY_HAND)
    for _ in range(3):
        other.append(b"other")
        other.roll()
    other.flush()
    other.prune(SEAL)
    for target in (
        tmp_path / "archive",
        other.path,
        tmp_path / "log",
        tmp_path / "other" / "tailers",
    ):
        with pytest.raises(LogExistsError):
            archive_segments(other.path, Store(target))
    assert other.first_position < SEGMENT


@pytest.mark.parametrize(
    "error",
    [
        DiskFullError("no room: free space, then try again", path="store", errno=errno.ENOSPC),
        ReadOnlyError("no permission: fix it", path="store", errno=errno.EACCES),
        LogNotFoundError("there is no archive here", path="store"),
    ],
)
def test_error_with_advice_is_not_wrapped(
    logs: Logs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: CommitLogError
) -> None:
    def fail(step: str) -> None:
        if step == "segment compressed":
            raise error

    log = filled(logs)
    monkeypatch.setattr(failpoint, "hook", fail)
    with pytest.raises(type(error)) as caught:
        archive_segments(log.path, Store(tmp_path / "archive"))
    assert caught.value is error
    assert log.first_position < SEGMENT


def test_unusable_archive_target_keeps_the_segments(logs: Logs, tmp_path: Path) -> None:
    log = filled(logs)
    (tmp_path / "file").write_bytes(b"mine")
    with pytest.raises(IOFailureError):
        archive_segments(log.path, Store(tmp_path / "file" / "below"))
    assert log.first_position < SEGMENT


@pytest.mark.parametrize(
    "given",
    [
        ("",),
        (7,),
        ("nonsense://x",),
        ("file://host/x",),
        ("place", 0),
        ("place", 23),
        ("place", True),
        ("place", 3, object()),
    ],
    ids=[
        "empty",
        "a number",
        "an unknown scheme",
        "another host",
        "level 0",
        "level 23",
        "a level that is no number",
        "no file system",
    ],
)
def test_invalid_archive_target_is_refused(given: tuple[object, ...]) -> None:
    with pytest.raises(InvalidOptionError, match=re.compile("^(target|level|filesystem) must")):
        Store(*given)  # type: ignore[arg-type]


def test_prune_or_archive_of_an_archive_is_refused(logs: Logs, tmp_path: Path) -> None:
    archived(logs, tmp_path / "archive")
    with pytest.raises(NotALogError, match="an archive, and not a log"):
        prune(tmp_path / "archive", Retention(max_bytes=0))
    with pytest.raises(NotALogError, match="an archive, and not a log"):
        archive_segments(tmp_path / "archive", Store(tmp_path / "second"))


def test_frame_that_asks_for_large_window_is_refused(logs: Logs, tmp_path: Path) -> None:
    archived(logs, tmp_path / "archive")
    # The size in four bytes, with a checksum; a window of 2^27 bytes.
    magic, descriptor, window = (
        b"\x28\xb5\x2f\xfd",
        b"\x84",
        b"\x88",
    )
    (tmp_path / "archive" / name(1)).write_bytes(
        magic + descriptor + window + SEGMENT.to_bytes(4, "little") + bytes(100)
    )
    with pytest.raises(CorruptSegmentError, match="needs a zstd window of 134217728 bytes"):
        open_segment_bytes(tmp_path / "archive", SEGMENT)


@pytest.mark.parametrize("irregular", ["log.json", name(1)])
def test_irregular_file_of_archive_is_refused(logs: Logs, tmp_path: Path, irregular: str) -> None:
    archived(logs, tmp_path / "archive")
    (tmp_path / "archive" / irregular).unlink()
    os.mkfifo(tmp_path / "archive" / irregular)
    refused = pytest.raises(IOFailureError, match="this is a FIFO, and not a regular file")
    with refused, commitlog.open(tmp_path / "archive", "r") as log:
        list(log.tailer())


@pytest.mark.parametrize("first", [["part"], []], ids=["deleted later", "deleted before"])
def test_listing_during_a_change_is_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: list[str]
) -> None:
    """A store deletes a part once the whole segment is there, which the first listing lacks."""
    target = LocalTarget(str(tmp_path))
    (tmp_path / "other").touch()
    (tmp_path / "whole").write_bytes(b"segment")
    listings = iter([["other", *first]])
    monkeypatch.setattr(target, "names", lambda: next(listings, ["other", "whole"]))
    assert target.sizes() == {"other": 0, "whole": 7}


def test_archive_and_its_restoration_have_the_headers(logs: Logs, tmp_path: Path) -> None:
    log = logs.open(**BY_HAND)
    given = [{"n": b"%d" % number} if number % 2 else {} for number in range(900)]
    log.append_many([b"." * 200] * 900, headers=given)
    log.roll()
    log.flush()
    log.prune(SEAL)
    archive_segments(log.path, Store(tmp_path / "archive"), keep=True)
    restore(tmp_path / "archive", tmp_path / "restored")
    for place in ("archive", "restored"):
        with commitlog.open(tmp_path / place, "r") as copy:
            assert copy.tailer(start="first").read_batch(1000).headers == given
