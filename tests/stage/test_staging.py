"""Staged segments: complete files, with every column that a record can have, and no file left after
a discard.
"""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import commitlog
from commitlog.errors import IOFailureError, ReadOnlyError, RecordTooLargeError, RecordTypeError
from commitlog.keep import verify
from commitlog.stage.joining import join
from commitlog.stage.staging import StagingWriter
from tests.oracle import segment_file as oracle
from tests.stage.making import SIZE, batch_of, numbered, stage


def records_of(path: Path) -> list[Any]:
    with commitlog.open(path, "r") as log:
        return list(log.tailer())


def test_staged_file_is_a_complete_segment(tmp_path: Path) -> None:
    (staged,) = stage(tmp_path / "staged", batch_of(numbered(50)))
    page = Path(staged).read_bytes()
    assert len(page) == SIZE
    assert [
        frame.value
        for frame in oracle.frames(page)
        if frame.kind is oracle.Kind.RECORD and frame.crc_ok
    ] == numbered(50)
    seal = oracle.read_header(page).seal
    assert seal is not None
    assert seal.record_count == 50
    assert seal.crc_ok


def test_staged_records_of_several_segments_keep_their_order(tmp_path: Path) -> None:
    values = numbered(3000)
    staged = stage(
        tmp_path / "staged",
        batch_of(values[:10]),
        batch_of(values[10:2500]),
        batch_of(values[2500:]),
    )
    assert len(staged) > 4
    join(tmp_path / "log", staged, options=commitlog.Options(segment_size=SIZE))
    assert [record.value for record in records_of(tmp_path / "log")] == values


def test_staged_keys_types_and_timestamps_are_kept(tmp_path: Path) -> None:
    times = [dt.datetime(2026, 1, day, tzinfo=dt.UTC) for day in (1, 3, 2)]
    batch = pa.RecordBatch.from_pydict(
        {
            "type": pa.array([7, None, 2**32 - 1], pa.int64()),
            "timestamp": pa.array(times, pa.timestamp("us", "UTC")),
            "value": pa.array(["ä", None, ""]),
            "key": pa.array([b"a", b"", None], pa.large_binary()),
            "more": [1, 2, 3],
        }
    )
    join(
        tmp_path / "log",
        stage(tmp_path / "staged", batch.slice(0, 2), batch.slice(2)),
        options=commitlog.Options(segment_size=SIZE),
    )
    found = records_of(tmp_path / "log")
    assert [(record.key, record.value, record.type) for record in found] == [
        (b"a", "ä".encode(), 7),
        (b"", b"", 0),
        (None, b"", 2**32 - 1),
    ]
    assert [record.timestamp_ns for record in found] == [
        int(time.timestamp()) * 10**9 for time in times
    ]


@pytest.mark.parametrize("columns", [{}, {"timestamp": pa.array([None], pa.timestamp("us"))}])
def test_staged_records_without_timestamps_get_the_clocks(
    tmp_path: Path, columns: dict[str, Any]
) -> None:
    join(
        tmp_path / "log",
        stage(tmp_path / "staged", batch_of([b"x"], **columns)),
        options=commitlog.Options(segment_size=SIZE),
    )
    age_ns = (
        dt.datetime.now(dt.UTC).timestamp() * 1e9 - records_of(tmp_path / "log")[0].timestamp_ns
    )
    assert 0 <= age_ns < 60e9


@pytest.mark.parametrize("width", [0, 1, 7, 8, 1000, SIZE // 8 - 16])
def test_values_of_any_width_fill_segments_to_their_ends(tmp_path: Path, width: int) -> None:
    values = [bytes([number % 251]) * width for number in range(2 * SIZE // (width + 16))]
    staged = stage(tmp_path / "staged", batch_of(values))
    join(tmp_path / "log", staged, options=commitlog.Options(segment_size=SIZE))
    assert [record.value for record in records_of(tmp_path / "log")] == values
    assert commitlog.open(tmp_path / "log").close() is None


def test_frame_larger_than_the_write_buffer_is_staged(tmp_path: Path) -> None:
    values = [b"a" * 10, b"b" * (6 << 20), b"c" * 10]
    staged = stage(tmp_path / "staged", batch_of(values), segment_size=64 << 20)
    join(tmp_path / "log", staged, options=commitlog.Options(segment_size=64 << 20))
    assert [record.value for record in records_of(tmp_path / "log")] == values


def test_staging_no_records_creates_no_file(tmp_path: Path) -> None:
    assert stage(tmp_path / "staged", batch_of([])) == []
    assert os.listdir(tmp_path / "staged") == []


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"key": [b"k"]}, "there must be exactly one value column"),
        ({"value": [1]}, "column value must hold bytes or text, not int64"),
        ({"value": [b"v"], "key": [1.5]}, "column key must hold bytes or text, not double"),
        (
            {"value": [b"v", None], "key": [None, None]},
            "row 1 has a null value and no key",
        ),
        ({"value": [b"v"], "type": ["a"]}, "column type must hold whole numbers, not string"),
        ({"value": [b"v"], "type": [-1]}, "cannot be stored in records: .* -1"),
        ({"value": [b"v"], "timestamp": [1.5]}, "whole numbers or timestamps, not double"),
        (
            {"value": [b"v"], "timestamp": pa.array([-1], pa.timestamp("us"))},
            "row 0 of the column timestamp is -1000: it must not be negative",
        ),
        (
            {"value": [b"v"], "timestamp": pa.array([2**62], pa.timestamp("us"))},
            "cannot be stored in records",
        ),
    ],
)
def test_invalid_columns_are_refused_with_expected_type(
    tmp_path: Path, columns: dict[str, Any], words: str
) -> None:
    writer = StagingWriter(str(tmp_path), SIZE)
    with pytest.raises(RecordTypeError, match=words):
        writer.write(pa.RecordBatch.from_pydict(columns))


def test_record_that_fits_no_segment_is_named(tmp_path: Path) -> None:
    writer = StagingWriter(str(tmp_path), SIZE)
    with pytest.raises(
        RecordTooLargeError, match=f"row 1 of the batch has a value of {SIZE} bytes"
    ):
        writer.write(batch_of([b"fits", bytes(SIZE)]))
    writer.discard()
    assert os.listdir(tmp_path) == []


def test_discarded_staging_leaves_no_file(tmp_path: Path) -> None:
    writer = StagingWriter(str(tmp_path), SIZE)
    writer.write(batch_of(numbered(2000)))
    assert os.listdir(tmp_path)
    writer.discard()
    assert os.listdir(tmp_path) == []


def test_unwritable_staging_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(IOFailureError, match="cannot stage a segment"):
        StagingWriter(str(tmp_path / "file" / "staged"), SIZE)
    if os.geteuid():
        with pytest.raises(ReadOnlyError):
            StagingWriter("/proc/staged", SIZE)


def test_staged_headers_are_kept(tmp_path: Path) -> None:
    given = [{"a": b"x" * 100, "b": b""}, None, {}, *[{"n": b"%d" % n} for n in range(2000)]]
    headers = [None if each is None else list(each.items()) for each in given]
    batch = pa.RecordBatch.from_pydict(
        {
            "value": pa.array([b"v" * (n % 40) for n in range(len(given))], pa.binary()),
            "headers": pa.array(headers, pa.map_(pa.string(), pa.binary())),
        }
    )
    staged = stage(tmp_path / "staged", batch)
    assert len(staged) > 1
    join(tmp_path / "log", staged, options=commitlog.Options(segment_size=SIZE))
    with commitlog.open(tmp_path / "log", "r") as log:
        assert log.tailer().read_batch(9999).headers == [each or {} for each in given]
    assert not verify(tmp_path / "log").damage
    large = pa.array([[("a", b"x" * (SIZE // 8))]], pa.map_(pa.string(), pa.binary()))
    wrong = pa.RecordBatch.from_pydict({"value": pa.array([b""], pa.binary()), "headers": large})
    with pytest.raises(RecordTooLargeError, match="its headers"):
        stage(tmp_path / "large", wrong)
