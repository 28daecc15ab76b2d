"""The index of an unsealed segment: a close writes it, the next handle begins with it."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

import commitlog
from commitlog import CommitLog, Options, Tuning
from commitlog._kernel.segments import crc32c
from commitlog.log.parts import parts_of
from commitlog.repair.verification import verify

SIZE = 4 << 20
COUNT = 30_000  # 72 bytes each: half of a segment
SPACING = 64
OPTIONS = Options(segment_size=SIZE, tuning=Tuning(index_spacing=SPACING))


def written(path: Path, count: int = COUNT) -> Path:
    """Append numbered records, a microsecond apart, and close; return the index's file."""
    with commitlog.open(path, "a", OPTIONS) as log:
        began = log.count()
        for number in range(began, began + count):
            log.append(b"%056d" % number, timestamp_ns=1000 * number)
    return path / f"{0:020d}.idx"


def restored(log: CommitLog) -> int:
    """Return how many records of the first segment a fresh handle knows without a scan."""
    with parts_of(log).queue.held(0, "test") as segment:
        assert segment is not None
        return parts_of(log).index.reaching(segment, 0).records


def check_lookups(log: CommitLog, count: int) -> None:
    """Find the count, the last record, and one by time."""
    assert log.count() == count
    tailer = log.tailer()
    for number in (0, count // 2, count - 1):
        tailer.seek(sequence=number)
        assert tailer.read(timeout=0).value == b"%056d" % number  # type: ignore[union-attr]
        tailer.seek(timestamp=1000 * number)
        assert tailer.read(timeout=0).sequence == number  # type: ignore[union-attr]


def test_reader_begins_with_the_index_of_the_last_close(tmp_path: Path) -> None:
    file = written(tmp_path / "log")
    assert (len(file.read_bytes()) - 64) // 16 == -(-COUNT // SPACING)
    with commitlog.open(tmp_path / "log", "r") as log:
        assert restored(log) == (COUNT - 1) // SPACING * SPACING
        check_lookups(log, COUNT)


def test_next_close_extends_the_index(tmp_path: Path) -> None:
    written(tmp_path / "log", COUNT)
    written(tmp_path / "log", COUNT // 2)
    with commitlog.open(tmp_path / "log", "r") as log:
        count = COUNT + COUNT // 2
        assert restored(log) == (count - 1) // SPACING * SPACING
        check_lookups(log, count)
    assert verify(tmp_path / "log").segments[0].notes == []


def test_short_unsealed_part_gets_no_index(tmp_path: Path) -> None:
    assert not written(tmp_path / "log", 1000).exists()


def test_unchanged_log_keeps_its_index_file(tmp_path: Path) -> None:
    file = written(tmp_path / "log")
    before = file.stat().st_ino
    written(tmp_path / "log", 1)
    assert file.stat().st_ino == before


def test_seal_replaces_the_index(tmp_path: Path) -> None:
    written(tmp_path / "log")
    with commitlog.open(tmp_path / "log", "a", OPTIONS) as log:
        log.roll()
        log.append(b"%056d" % COUNT, timestamp_ns=1000 * COUNT)
    with commitlog.open(tmp_path / "log", "r") as log:
        assert restored(log) == COUNT
        check_lookups(log, COUNT + 1)


def resigned(content: bytes, at: int, field: bytes) -> bytes:
    """Change a field of the header and make both CRCs right."""
    header = content[:at] + field + content[at + len(field) : 56]
    header += struct.pack("<I", crc32c(content[64:]))
    return header + struct.pack("<I", crc32c(header)) + content[64:]


def without_last_entry(content: bytes) -> bytes:
    """An index that ends before, with the CRC of another record."""
    shorter = content[:-16]
    records = struct.unpack_from("<Q", content, 48)[0] - SPACING
    return resigned(shorter, 48, struct.pack("<Q", records))


BROKEN: dict[str, Callable[[bytes], bytes]] = {
    "the CRC of another record": lambda content: resigned(content, 40, bytes(4)),
    "of another segment": lambda content: resigned(content, 32, bytes(8)),
    "a last record that is not indexed": lambda content: resigned(
        content, 48, struct.pack("<Q", COUNT)
    ),
    "an older end": without_last_entry,
    "short": lambda content: content[:-8],
    "zeros": lambda content: bytes(len(content)),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_wrong_index_of_unsealed_segment_is_not_used(tmp_path: Path, kind: str) -> None:
    file = written(tmp_path / "log")
    file.write_bytes(BROKEN[kind](file.read_bytes()))
    with commitlog.open(tmp_path / "log", "r") as log:
        assert restored(log) == 0
        check_lookups(log, COUNT)


def test_record_changed_at_the_end_of_the_index_makes_it_stale(tmp_path: Path) -> None:
    file = written(tmp_path / "log")
    (last,) = struct.unpack_from("<Q", file.read_bytes(), len(file.read_bytes()) - 16)
    with open(tmp_path / "log" / f"{0:020d}.seg", "r+b") as segment:
        segment.seek(last + 4)
        segment.write(bytes(4))
    with commitlog.open(tmp_path / "log", "r") as log:
        assert restored(log) == 0
        assert log.count() == COUNT - 1
