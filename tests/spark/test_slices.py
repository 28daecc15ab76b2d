"""Decoding segment files into Arrow, without Spark."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import commitlog
from commitlog.errors import (
    CorruptRecordError,
    CorruptSegmentError,
    InvalidOptionError,
    IOFailureError,
    PositionError,
)
from commitlog.spark import segment_bytes
from commitlog.spark import slices as slices_module
from commitlog.spark.columns import FIELDS, HEADERS_TYPE, RowBuilder, arrow_schema
from commitlog.spark.slices import Slice, SliceReader, read_slices
from tests.log_files import HEADER, LogFiles
from tests.spark.logs_in_spark import (
    EPOCH,
    SIZE,
    archive,
    fill,
    numbered,
    rows,
    schema,
    sealed,
    slices,
    values,
)


def test_columns_match_records_of_a_tailer(tmp_path: Path) -> None:
    keys = [None, b"", b"k" * 300, None] * 300
    path = tmp_path / "orders"
    with commitlog.open(path, segment_size=SIZE) as log:
        for number, key in enumerate(keys):
            log.append(
                b"v" * (number % 700),
                key=key,
                type=number * 3_000_000,
                timestamp_ns=1_234_567_891 * number,
            )
        expected = [
            {
                "key": record.key,
                "value": record.value,
                "topic": "orders",
                "partition": 0,
                "offset": record.position,
                "timestamp": EPOCH.timestamp() + record.timestamp_ns // 1000 / 1e6,
                "timestampType": 0,
                "sequence": record.sequence,
                "type": record.type,
            }
            for record in log.tailer()
        ]
    found = rows(path=path)
    for row in found:
        row["timestamp"] = row["timestamp"].timestamp()
    assert found == expected


def test_columns_have_requested_names_and_order(tmp_path: Path) -> None:
    fill(tmp_path / "log", [b"a"], keys=[b"k"])
    (batch,) = read_slices(slices(path=tmp_path / "log"), schema("type", "value", "key"))
    assert batch.schema.names == ["type", "value", "key"]
    assert batch.to_pylist() == [{"type": 0, "value": b"a", "key": b"k"}]


@pytest.mark.parametrize("name", FIELDS)
def test_unrequested_columns_allocate_no_buffers(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path / "log", [b"a" * 5000] * 5)
    allocated: list[int] = []
    allocate = pa.allocate_buffer
    monkeypatch.setattr(
        pa, "allocate_buffer", lambda size: allocated.append(size) or allocate(size)
    )
    (batch,) = read_slices(slices(path=tmp_path / "log"), schema(name))
    assert batch.schema.names == [name]
    batch.validate(full=True)
    if name not in ("key", "value"):
        assert max(allocated, default=0) < 1 << 20


def test_rows_beyond_batch_size_go_to_the_next_batch(tmp_path: Path) -> None:
    expected = numbered(1000) + [b"x" * 7000] * 3
    fill(tmp_path / "log", expected)
    builder = RowBuilder(schema("value"), most=100)
    found = [
        batch
        for piece in slices(path=tmp_path / "log")
        for batch in SliceReader(piece, builder).batches()
    ]
    assert max(map(len, found)) == 100
    assert [value.as_py() for batch in found for value in batch.column(0)] == expected


def test_record_larger_than_a_batch_enlarges_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("commitlog.spark.columns._ROOM_BYTES", 256)
    monkeypatch.setattr(slices_module, "PIECE_BYTES", 64)
    expected = [b"a" * 10, b"b" * 5000, b"", b"c" * 300]
    fill(tmp_path / "log", expected, keys=[b"k" * 2000] * 4)
    assert values(path=tmp_path / "log") == expected


@pytest.mark.parametrize("piece_bytes", [8, 24, 136, 4096])
def test_frames_that_cross_chunk_ends_are_read_whole(
    tmp_path: Path, piece_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slices_module, "PIECE_BYTES", piece_bytes)
    expected = [b"v" * (number * 37 % 500) for number in range(500)]
    fill(tmp_path / "log", expected)
    assert values(path=tmp_path / "log") == expected


def test_range_read_reads_few_bytes_outside_the_range(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    positions = fill(tmp_path / "log", numbered(20_000))
    bounds = {
        name: f'{{"log": {{"0": {positions[at]}}}}}'
        for name, at in (("startingOffsets", 10_000), ("endingOffsets", 10_200))
    }
    read: list[int] = []
    preadv = os.preadv
    monkeypatch.setattr(
        segment_bytes.os,
        "preadv",
        lambda fd, views, at: read.append(len(views[0])) or preadv(fd, views, at),
    )
    assert [row["sequence"] for row in rows("sequence", path=tmp_path / "log", **bounds)] == list(
        range(10_000, 10_200)
    )
    # One per cent of the records, the bytes between the nearest index entry and the first record,
    # and the headers.
    assert sum(read) < 0.01 * 20_000 * 120 + 256 * 120 + 2 * HEADER


READ_ALL = """
import pickle, resource, sys
from commitlog.spark.slices import read_slices
from tests.spark.logs_in_spark import schema
pieces = pickle.load(open(sys.argv[1], "rb"))
next(read_slices(pieces, schema("value")))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(sum(len(batch) for batch in read_slices(pieces, schema("value"))))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_memory_use_does_not_grow_with_segment_size(tmp_path: Path, run_python: Any) -> None:
    with commitlog.open(tmp_path / "log", segment_size="128MiB") as log:
        log.append_array(np.zeros((1000, 100 << 10), dtype=np.uint8))
    (tmp_path / "pieces").write_bytes(pickle.dumps(list(slices(path=tmp_path / "log"))))
    done = run_python(READ_ALL, tmp_path / "pieces")
    assert done.returncode == 0, done.stderr
    count, grown_kib = map(int, done.stdout.split())
    assert count == 1000
    assert grown_kib < 64 << 10  # half a segment; pages of the batches count, too


# --- damage ---------------------------------------------------------------------------------------


def _damaged(tmp_path: Path, piece_bytes: int, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, int]:
    """A log with one bit flipped in the record with sequence 100, and the position of that
    record.
    """
    monkeypatch.setattr(slices_module, "PIECE_BYTES", piece_bytes)
    positions = fill(tmp_path / "log", numbered(1000))
    segment = tmp_path / "log" / f"{0:020d}.seg"
    content = bytearray(segment.read_bytes())
    content[positions[100] + 50] ^= 1
    segment.write_bytes(content)
    return tmp_path / "log", positions[100]


@pytest.mark.parametrize("piece_bytes", [64, 4 << 20])
def test_damage_raises_with_file_and_position(
    tmp_path: Path, piece_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, position = _damaged(tmp_path, piece_bytes, monkeypatch)
    with pytest.raises(
        CorruptRecordError, match=f"onDamage=skip .*{0:020d}.seg, position {position}"
    ) as caught:
        values(path=path)
    assert caught.value.resume_position == position + 120


@pytest.mark.parametrize("piece_bytes", [64, 4 << 20])
def test_on_damage_skip_skips_the_damaged_record(
    tmp_path: Path, piece_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, _ = _damaged(tmp_path, piece_bytes, monkeypatch)
    expected = numbered(1000)
    del expected[100]
    assert values(path=path, onDamage="skip") == expected


@pytest.mark.parametrize("what", ["magic", "uuid", "short"])
def test_wrong_segment_file_fails_or_is_skipped(tmp_path: Path, what: str) -> None:
    fill(tmp_path / "log", numbered(1500))
    segment = tmp_path / "log" / f"{SIZE:020d}.seg"
    pieces = list(slices(path=tmp_path / "log"))
    content = bytearray(segment.read_bytes())
    if what == "short":
        del content[20_000:]
    else:
        content[{"magic": 0, "uuid": 20}[what]] ^= 1
    segment.write_bytes(content)
    with pytest.raises(CorruptSegmentError, match=segment.name):
        list(read_slices(pieces, schema("value")))
    found = [
        row["value"]
        for batch in read_slices(pieces, schema("value"), on_damage="skip")
        for row in batch.to_pylist()
    ]
    per_segment = (SIZE - HEADER) // 120
    kept = (20_000 - HEADER) // 120 if what == "short" else 0
    assert found == [
        value
        for at, value in enumerate(numbered(1500))
        if not per_segment + kept <= at < 2 * per_segment
    ]


def test_deleted_segment_raises_or_is_skipped(tmp_path: Path) -> None:
    fill(tmp_path / "log", numbered(1500))
    pieces = list(slices(path=tmp_path / "log"))
    os.unlink(pieces[0].location)
    with pytest.raises(PositionError, match="failOnDataLoss=false .*position 4096"):
        list(read_slices(pieces, schema("value")))
    found = [
        row["value"]
        for batch in read_slices(pieces, schema("value"), fail_on_data_loss=False)
        for row in batch.to_pylist()
    ]
    assert found == numbered(1500)[(SIZE - HEADER) // 120 :]


def test_rolled_back_claims_give_no_rows(files: LogFiles) -> None:
    files.create(0)
    offset = files.record(0, HEADER, b"before")
    offset = files.skip(0, offset, 64)
    files.record(0, offset, b"after")
    piece = Slice(
        topic="t",
        location=str(files.file(0)),
        uuid=files.directory.log_uuid,
        base=0,
        size=SIZE,
        stop=offset + 24,
        sequence=0,
    )
    (batch,) = read_slices([piece], schema("value", "sequence"))
    assert batch.to_pylist() == [
        {"value": b"before", "sequence": 0},
        {"value": b"after", "sequence": 1},
    ]


# --- archives -------------------------------------------------------------------------------------


@pytest.mark.parametrize("compressed", [True, False])
@pytest.mark.parametrize("as_uri", [True, False])
def test_archive_gives_the_rows_of_the_log(
    # pyarrow reads a local file system behind a URI like any other.
    tmp_path: Path,
    compressed: bool,
    as_uri: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if as_uri:
        monkeypatch.setattr("commitlog.spark.places.normalized", lambda place: place)
    fill(tmp_path / "log", numbered(1500))
    target = archive(tmp_path / "log", tmp_path / "cold" / "log", compressed=compressed)
    found = rows(path=target.as_uri() if as_uri else target)
    assert found == rows(path=tmp_path / "log")[: len(found)]
    assert len(found) == len(sealed(tmp_path / "log")) * ((SIZE - HEADER) // 120)


def test_single_compressed_segment_is_read(tmp_path: Path) -> None:
    fill(tmp_path / "log", numbered(1500))
    target = archive(tmp_path / "log", tmp_path / "cold" / "log")
    found = rows("topic", "sequence", path=target / f"{SIZE:020d}.seg.zst")
    per_segment = (SIZE - HEADER) // 120
    assert found == [{"topic": "log", "sequence": at} for at in range(per_segment, 2 * per_segment)]


def test_single_segment_of_a_log_is_read_to_durable_end(tmp_path: Path) -> None:
    with commitlog.open(tmp_path / "log", segment_size=SIZE, flush="sync") as log:
        for value in numbered(600):
            log.append(value)
        per_segment = (SIZE - HEADER) // 120
        assert values(path=tmp_path / "log" / f"{SIZE:020d}.seg") == numbered(600)[per_segment:]


def test_lone_segment_is_read_to_its_last_whole_frame(tmp_path: Path) -> None:
    fill(tmp_path / "log", numbered(700))
    alone = tmp_path / "alone"
    alone.mkdir()
    segment = sorted((tmp_path / "log").glob("*.seg"))[1]
    os.rename(segment, alone / segment.name)
    # Without log.json and index, the count of earlier records is unknown.
    found = rows("value", "sequence", path=alone / segment.name)
    assert [row["value"] for row in found] == numbered(700)[(SIZE - HEADER) // 120 :]
    assert {row["sequence"] for row in found} == {None}


@pytest.mark.parametrize("at", [100, -10])
def test_damaged_compressed_segment_raises_naming_the_file(tmp_path: Path, at: int) -> None:
    fill(tmp_path / "log", [os.urandom(100) for _ in range(1500)])
    target = archive(tmp_path / "log", tmp_path / "cold" / "log")
    pieces = list(slices(path=target))
    file = target / f"{SIZE:020d}.seg.zst"
    content = file.read_bytes()
    file.write_bytes(content[:at] if at < 0 else content[:at] + b"\xff" * 50 + content[at + 50 :])
    with pytest.raises((CorruptSegmentError, CorruptRecordError), match=file.name):
        list(read_slices(pieces, schema("value")))


def test_hole_in_archive_raises_or_is_skipped(tmp_path: Path) -> None:
    fill(tmp_path / "log", numbered(2500))
    target = archive(tmp_path / "log", tmp_path / "cold" / "log", without=[1])
    with pytest.raises(PositionError, match=f"from {SIZE} to {2 * SIZE} are missing"):
        values(path=target)
    per_segment = (SIZE - HEADER) // 120
    found = values(path=target, failOnDataLoss="false")
    assert found[: per_segment + 1] == [*numbered(per_segment), b"%0100d" % (2 * per_segment)]


# --- schemas --------------------------------------------------------------------------------------


def test_column_names_ignore_case() -> None:
    assert arrow_schema([("VALUE", "binary", False)]) == pa.schema(
        [pa.field("VALUE", pa.binary(), False)]
    )


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        (
            [("tags", "binary", True)],
            "a column 'tags', which a commit log does not have: choose among key, value, topic",
        ),
        ([("value", "string", True)], "value as string, and a commit log has it as binary"),
        ([("value", "binary", True), ("Value", "binary", True)], "names a column twice"),
    ],
)
def test_impossible_schema_raises(fields: Any, says: str) -> None:
    with pytest.raises(InvalidOptionError, match=says):
        arrow_schema(fields)


@pytest.mark.parametrize("name", ["a.seg", "a.seg.zst"])
def test_fifo_as_segment_raises_without_blocking(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(IOFailureError, match="this is a FIFO, and not a regular file"):
        segment_bytes.open_bytes(str(tmp_path / name))


LATEST_MS = 253_402_300_799_999  # the end of the year 9999
FAR = {"startingOffsetsByTimestampStrategy": "latest", "startingTimestamp": LATEST_MS}


@pytest.mark.parametrize("is_archived", [False, True])
def test_bounds_at_times_that_no_record_has_are_no_error(tmp_path: Path, is_archived: bool) -> None:
    path = tmp_path / "log"
    fill(path, numbered(1500))
    if is_archived:
        path = archive(path, tmp_path / "archive" / "log")
    whole = values(path=path)
    largest = json.dumps({"log": {"0": (1 << 63) - 1}})
    assert values(path=path, endingTimestamp=LATEST_MS) == whole
    assert values(path=path, endingTimestamp="9" * 18) == whole
    assert values(path=path, endingOffsetsByTimestamp=largest) == whole
    assert values(path=path, **FAR) == []
    with pytest.raises(PositionError, match="no record of log has a timestamp"):
        values(path=path, startingOffsetsByTimestamp=largest)


# --- headers --------------------------------------------------------------------------------------

HEADED = pa.schema([("headers", HEADERS_TYPE), ("value", FIELDS["value"])])


def _headed(path: Path, count: int = 400) -> list[dict[str, Any]]:
    """Fill a log whose records have headers, but for each third; return their rows."""
    found = []
    with commitlog.open(path, segment_size=SIZE) as log:
        for number in range(count):
            headers = {"n": b"%d" % number, "z": bytes(number * 9 % 2500)} if number % 3 else {}
            log.append(
                b"%d" % number,
                headers=headers,
                producer="till" if number % 2 else None,
                producer_sequence=number if number % 2 else None,
            )
            row = [{"key": name, "value": value} for name, value in headers.items()]
            found.append({"headers": row or None, "value": b"%d" % number})
    return found


@pytest.mark.parametrize("piece_bytes", [64, 1000, slices_module.PIECE_BYTES])
@pytest.mark.parametrize("partitions", [1, 50])
def test_headers_are_read_whatever_the_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece_bytes: int, partitions: int
) -> None:
    monkeypatch.setattr(slices_module, "PIECE_BYTES", piece_bytes)
    expected = _headed(tmp_path / "orders")
    pieces = list(slices(path=tmp_path / "orders", minPartitions=partitions))
    batches = list(read_slices(pieces, HEADED))
    assert [row for batch in batches for row in batch.to_pylist()] == expected


def test_headers_of_an_archive_are_those_of_the_log(tmp_path: Path) -> None:
    expected = _headed(tmp_path / "orders", 900)
    archived = archive(tmp_path / "orders", tmp_path / "archive")
    batches = list(read_slices(slices(path=archived), HEADED))
    found = [row for batch in batches for row in batch.to_pylist()]
    assert len(found) > 300
    assert found == expected[: len(found)]


def test_damaged_headers_fail_or_are_null(tmp_path: Path) -> None:
    expected = _headed(tmp_path / "orders", 3)
    (segment,) = (tmp_path / "orders").glob("0*0.seg")
    content = bytearray(segment.read_bytes())
    content[content.index(b"HDRS") + 10] ^= 1
    segment.write_bytes(content)
    pieces = list(slices(path=tmp_path / "orders"))
    with pytest.raises(CorruptSegmentError, match="headers of this record are damaged"):
        list(read_slices(pieces, HEADED))
    batches = list(read_slices(pieces, HEADED, on_damage="skip"))
    expected[1]["headers"] = None
    assert [row for batch in batches for row in batch.to_pylist()] == expected
