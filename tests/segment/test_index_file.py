"""Index files: an index matches its segment or is rebuilt; a damaged one breaks no lookup."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import commitlog
from commitlog import CommitLog
from commitlog._kernel.segments import SparseIndex, crc32c
from commitlog.log.parts import parts_of
from commitlog.segment import index_file
from commitlog.segment.seal_table import SealTable
from commitlog.segment.segment_header import Seal
from tests.setups import HEADER, SEGMENT, Logs

COUNT = 3000


def written(logs: Logs, spacing: int = 16, **options: Any) -> CommitLog:
    """A log with a sealed and a live segment."""
    log = logs.open(index_spacing=spacing, **options)
    for index in range(COUNT):
        log.append(b"%08d" % index, timestamp_ns=1000 + index)
    log.commit()
    assert parts_of(log).writer.allocation is not None
    assert parts_of(log).writer.allocation.sealed_below() == 1
    return log


def idx(log: CommitLog, number: int = 0) -> Path:
    return Path(log.path) / f"{number * SEGMENT:020d}.idx"


def seal_of(log: CommitLog, number: int = 0) -> Seal:
    seal = SealTable(parts_of(log).directory).get(number)
    assert seal is not None
    return seal


def state(log: CommitLog) -> str:
    return index_file.read(parts_of(log).directory, 0, seal_of(log))[1]


def found(log: CommitLog) -> list[int]:
    """Return sequences found by sequence, by time and by reading backward, which all use the
    index.
    """
    tailer = log.tailer()
    tailer.seek(sequence=1234)
    by_sequence = tailer.read()
    tailer.seek(timestamp=1000 + 777)
    by_time = tailer.read()
    assert by_sequence is not None
    assert by_time is not None
    backward = [record.value for record in log.tailer(start=SEGMENT, direction="backward")]
    assert backward == [b"%08d" % index for index in range(len(backward) - 1, -1, -1)]
    assert len(backward) == seal_of(log).record_count
    return [int(by_sequence.value), int(by_time.value), by_time.sequence]


@pytest.mark.parametrize("pooled", [True, False])
def test_sealed_segment_has_an_index_with_its_spacing(logs: Logs, pooled: bool) -> None:
    # A pooled log builds the index while it commits, and scans what it has not committed itself.
    log = written(logs, **({"pool": logs.pool()} if pooled else {}))
    seal = seal_of(log)
    index, said = index_file.read(parts_of(log).directory, 0, seal)
    assert said == "sound"
    assert index is not None
    assert (index.spacing, index.records, index.offset, index.complete) == (
        16,
        seal.record_count,
        SEGMENT,
        True,
    )
    entries = list(struct.iter_unpack("<Qq", index.content()))
    assert entries == [
        (HEADER + 24 * at, 1000 + at - 1 if at else -(1 << 63))
        for at in range(0, seal.record_count, 16)
    ]


def test_index_layout_is_the_documented_one(logs: Logs) -> None:
    log = written(logs)
    seal = seal_of(log)
    content = idx(log).read_bytes()
    header, entries = content[:64], content[64:]
    fields = struct.unpack("<8sHHI16sQIIQII", header)
    assert fields[:9] == (
        b"CMLIDX01",
        1,
        0,
        64,
        log.identity.uuid,
        seal.segment_id,
        seal.crc,
        16,
        seal.record_count,
    )
    assert fields[9:] == (crc32c(entries), crc32c(header[:60]))
    assert crc32c(b"123456789") == 0xE3069283


def flip(content: bytes, at: int) -> bytes:
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


def foreign_entries(content: bytes) -> bytes:
    """Entries that do not ascend, with matching CRCs."""
    entries = content[80:96] + content[64:80] + content[96:]
    header = content[:56] + struct.pack("<I", crc32c(entries))
    return header + struct.pack("<I", crc32c(header)) + entries


BROKEN: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "empty": (lambda content: b"", "damaged"),
    "short": (lambda content: content[:63], "damaged"),
    "no entries": (lambda content: content[:64], "damaged"),
    "an entry too few": (lambda content: content[:-16], "damaged"),
    "half an entry more": (lambda content: content + bytes(8), "damaged"),
    "another magic": (lambda content: flip(content, 0), "damaged"),
    "a flipped bit in the header": (lambda content: flip(content, 40), "damaged"),
    "a flipped bit in an entry": (lambda content: flip(content, 100), "damaged"),
    "entries that do not ascend": (foreign_entries, "damaged"),
    "zeros": (lambda content: bytes(len(content)), "damaged"),
}


@pytest.mark.parametrize("kind", BROKEN)
@pytest.mark.parametrize("mode", ["a", "r"])
def test_damaged_index_is_rebuilt_and_lookups_succeed(logs: Logs, kind: str, mode: str) -> None:
    path = idx(written(logs))
    logs.close()
    good = path.read_bytes()
    change, said = BROKEN[kind]
    path.write_bytes(change(good))
    log = logs.open(mode=mode, index_spacing=16)
    assert state(log) == said
    assert found(log) == [1234, 777, 777]
    assert (path.read_bytes() == good) == (mode == "a")  # a reader writes no index


@pytest.mark.parametrize("mode", ["a", "r"])
def test_missing_index_is_rebuilt(logs: Logs, mode: str) -> None:
    path = idx(written(logs))
    logs.close()
    path.unlink()
    log = logs.open(mode=mode)
    assert state(log) == "missing"
    assert found(log) == [1234, 777, 777]
    assert path.exists() == (mode == "a")


def test_index_of_other_records_of_its_segment_is_stale(logs: Logs) -> None:
    """After a cut, a segment keeps its id and may get as many records again."""
    log = written(logs)
    content = bytearray(idx(log).read_bytes())
    content[40] ^= 1  # the CRC of the seal
    content[60:64] = struct.pack("<I", crc32c(content[:60]))
    idx(log).write_bytes(content)
    assert state(log) == "stale"


def test_entry_that_is_damaged_but_ascends_is_detected(logs: Logs) -> None:
    log = written(logs)
    content = bytearray(idx(log).read_bytes())
    content[-8] ^= 1  # of the largest timestamp before the last entry
    idx(log).write_bytes(content)
    assert state(log) == "damaged"


def test_index_of_another_segment_is_stale(logs: Logs) -> None:
    log = written(logs)
    other = commitlog.open(Path(log.path).parent / "other", "a", log.options)
    with other:
        for index in range(COUNT):
            other.append(b"%08d" % index)
        assert parts_of(other).writer.allocation is not None
        parts_of(other).writer.allocation.sealed_below()
    idx(log).write_bytes((Path(other.path) / idx(log).name).read_bytes())
    assert state(log) == "stale"
    assert found(log) == [1234, 777, 777]


@pytest.mark.parametrize("kind", ["directory", "fifo", "link"])
def test_irregular_index_file_does_not_stop_lookups(logs: Logs, kind: str) -> None:
    path = idx(written(logs))
    logs.close()
    path.unlink()
    if kind == "directory":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    assert found(logs.open()) == [1234, 777, 777]


def test_index_with_another_spacing_stays_valid(logs: Logs) -> None:
    written(logs, spacing=16)
    logs.close()
    log = logs.open(index_spacing=100)
    assert found(log) == [1234, 777, 777]
    assert state(log) == "sound"


def test_index_creation_leaves_no_temporary_file(logs: Logs) -> None:
    log = written(logs)
    assert [name for name in os.listdir(log.path) if ".idx." in name] == []


def test_refused_index_write_returns_false(logs: Logs) -> None:
    log = written(logs)
    seal = seal_of(log)
    index = index_file.read(parts_of(log).directory, 0, seal)[0]
    assert index is not None
    os.unlink(idx(log))
    os.mkdir(idx(log))
    assert not index_file.write(parts_of(log).directory, 0, index, seal)
    assert [name for name in os.listdir(log.path) if ".idx." in name] == []


@pytest.mark.parametrize(
    "content",
    [b"\0" * 16, struct.pack("<Qq", HEADER + 4, 0), struct.pack("<Qq", SEGMENT, 0), bytes(32), b""],
)
def test_invalid_index_entries_are_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match="index|content"):
        SparseIndex(1, SEGMENT, 16, content, 16, 0)
    with pytest.raises(ValueError, match="spacing"):
        SparseIndex(1, SEGMENT, 0)
