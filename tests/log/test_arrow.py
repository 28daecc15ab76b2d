"""Append from Arrow: each kind of column, the meaning of nulls, and input refused before any
append.
"""

from __future__ import annotations

import datetime as dt
import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from commitlog import CommitLog
from commitlog._kernel.engine import RowColumns
from commitlog.errors import (
    ClaimError,
    CommitLogError,
    ReadOnlyError,
    RecordTooLargeError,
    RecordTypeError,
)
from tests.setups import LARGEST_VALUE, Logs, Setup, all_appended

VALUES = [b"first", b"", b"a third one", b"\xc3\xa9", b"x" * 40]


def rows(log: CommitLog) -> list[tuple[bytes, bytes | None, int, int]]:
    return [
        (record.value, record.key, record.type, record.timestamp_ns)
        for record in log.tailer(visibility="appended")
    ]


def chunked(kind: pa.DataType) -> pa.ChunkedArray:
    return pa.chunked_array(
        [pa.array(VALUES[:2], kind), pa.array([], kind), pa.array(VALUES[2:], kind)]
    )


KINDS = [
    pa.binary(),
    pa.large_binary(),
    pa.string(),
    pa.large_string(),
    pa.binary_view(),
    pa.string_view(),
]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_each_row_of_an_array_is_a_record(logs: Logs, setup: Setup, kind: pa.DataType) -> None:
    log = logs.open_as(setup)
    positions = log.append_arrow(pa.array(VALUES, kind))
    assert positions.dtype == np.int64
    assert [log.read(int(position)).value for position in positions] == VALUES
    log.append_arrow(chunked(kind))
    log.append_arrow(pa.array(VALUES, kind).slice(1, 3))
    log.append_arrow(
        pa.array(VALUES, kind).dictionary_encode() if kind in KINDS[:4] else pa.array([], kind)
    )
    expected = VALUES * 2 + VALUES[1:4] + (VALUES if kind in KINDS[:4] else [])
    assert all_appended(log) == expected
    assert (log.flushed_position == log.tail_position) or setup.flush != "sync"


def test_rows_of_a_fixed_size_are_records_sliced_or_not(logs: Logs) -> None:
    log = logs.open()
    array = pa.array([b"%04d" % number for number in range(100)], pa.binary(4))
    log.append_arrow(array)
    log.append_arrow(array.slice(90, 5))
    log.append_arrow(
        pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"u" * 16], pa.binary(16)))
    )
    assert all_appended(log) == [b"%04d" % number for number in [*range(100), *range(90, 95)]] + [
        b"u" * 16
    ]


def test_table_columns_give_keys_types_and_timestamps(logs: Logs) -> None:
    log = logs.open()
    table = pa.table(
        {
            "timestamp": pa.array([5, None, 7], pa.int64()),
            "key": pa.array(["k", None, ""]),
            "type": pa.array([1, None, 4294967295], pa.int64()),
            "value": pa.array([b"a", b"b", b"c"], pa.large_binary()),
        }
    )
    log.append_arrow(table, timestamp_ns=None)
    (first, second, third) = rows(log)
    assert first == (b"a", b"k", 1, 5)
    assert second[:3] == (b"b", None, 0)
    assert second[3] > 1_000_000_000_000_000_000
    assert third == (b"c", b"", 4294967295, 7)
    log.append_arrow(table.drop_columns(["timestamp"]).slice(2, 1), timestamp_ns=9)
    assert rows(log)[3] == (b"c", b"", 4294967295, 9)


def test_timestamp_column_of_any_unit_and_zone_is_used(logs: Logs) -> None:
    log = logs.open()
    when = dt.datetime(2026, 5, 1, 12, tzinfo=dt.UTC)
    for kind in (
        pa.timestamp("s", "UTC"),
        pa.timestamp("ms", "Europe/Berlin"),
        pa.timestamp("us", "UTC"),
        pa.timestamp("ns", "UTC"),
    ):
        log.append_arrow(pa.table({"value": ["v"], "timestamp": pa.array([when], kind)}))
    assert {row[3] for row in rows(log)} == {int(when.timestamp()) * 10**9}


def test_null_value_is_a_tombstone_with_a_key_else_refused(logs: Logs) -> None:
    log = logs.open()
    values = pa.array([b"kept", None, b"also"], pa.binary())
    log.append_arrow(pa.table({"value": values, "key": ["a", "b", None]}))
    log.append_arrow(
        pa.table({"value": pa.array([None, b"four"], pa.binary(4)), "key": ["c", "d"]})
    )
    log.append_arrow(pa.table({"value": pa.nulls(1), "key": ["e"]}))
    assert [row[:2] for row in rows(log)] == [
        (b"kept", b"a"),
        (b"", b"b"),
        (b"also", None),
        (b"", b"c"),
        (b"four", b"d"),
        (b"", b"e"),
    ]
    for refused in (
        values,
        pa.table({"value": values, "key": ["a", None, "c"]}),
        pa.chunked_array([values[:1], values[1:]]),
    ):
        with pytest.raises(RecordTypeError, match="row 1 has a null value and no key"):
            log.append_arrow(refused)
    assert log.count() == 6


def test_batch_as_arrow_appended_again_is_unchanged(logs: Logs, setup: Setup) -> None:
    log, copy = logs.open_as(setup), logs.open("copy")
    log.append_many(
        [b"v%d" % number for number in range(3000)],
        keys=[None if number % 3 else b"%d" % number for number in range(3000)],
    )
    log.append(b"", key=b"gone", type=8)
    batch = log.tailer(visibility="appended").read_batch()
    copy.append_arrow(batch.to_arrow())
    assert rows(copy) == rows(log)
    again = copy.tailer().read_batch().to_arrow().drop_columns(["position"])
    assert again.equals(batch.to_arrow().drop_columns(["position"]))


def test_append_arrow_across_many_rolls_keeps_every_row(logs: Logs, setup: Setup) -> None:
    log = logs.open_as(setup)
    values = [b"%d " % number * (number % 50) for number in range(10_000)]
    positions = log.append_arrow(
        pa.table({"value": pa.chunked_array([values[:5000], values[5000:]])}), sync=False
    )
    assert all_appended(log) == values
    assert log.stats().rolls > 5
    assert (np.diff(positions) > 0).all()


class Stream:
    """A table of another library."""

    def __init__(self, data: Any) -> None:
        self._data = data

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._data.__arrow_c_stream__(requested_schema)


def test_object_with_arrow_c_stream_is_appended(logs: Logs) -> None:
    log = logs.open()
    log.append_arrow(Stream(pa.table({"value": ["table"]})))
    log.append_arrow(Stream(pa.chunked_array([["array"]])))
    log.append_arrow(pa.table({"value": ["reader"], "key": ["k"]}).to_reader())
    assert all_appended(log) == [b"table", b"array", b"reader"]


def test_empty_arrow_data_appends_nothing(logs: Logs, setup: Setup) -> None:
    log = logs.open_as(setup)
    for empty in (
        pa.array([], pa.binary()),
        pa.chunked_array([], pa.string()),
        pa.table({"value": pa.array([], pa.binary(3))}),
    ):
        assert len(log.append_arrow(empty, sync=True)) == 0
    assert log.count() == 0


def value_and(**columns: Any) -> pa.Table:
    return pa.table({"value": [b"good", b"too"], **columns})


REFUSED: dict[str, tuple[Any, str]] = {
    "list": ([b"a"], "not list: use append_many"),
    "numpy": (np.zeros((2, 2), np.uint8), "append_array for NumPy"),
    "none": (None, "not NoneType"),
    "integers": (pa.array([1, 2]), "must hold bytes or text, not int64"),
    "structs": (pa.array([{"value": b"x"}]), "must hold bytes or text, not struct"),
    "lists": (pa.array([[b"x"]]), "must hold bytes or text, not list"),
    "dictionary of numbers": (pa.array([1, 2]).dictionary_encode(), "must hold bytes or text"),
    "all null": (pa.nulls(2), "row 0 has a null"),
    "no value": (pa.table({"key": ["k"]}), "there must be exactly one value column"),
    "no columns": (pa.table({}), "there must be exactly one value column"),
    "other column": (value_and(colour=["red", "blue"]), "unknown column 'colour'"),
    "two values": (
        pa.table([["a"], ["b"]], names=["value", "value"]),
        "there must be exactly one value column",
    ),
    "old time": (value_and(timestamp_ns=[1, 2]), "unknown column 'timestamp_ns'"),
    "number keys": (value_and(key=[1, 2]), "the column key must hold bytes"),
    "text types": (
        value_and(type=["1", "2"]),
        "the column type must hold whole numbers, not string",
    ),
    "negative type": (value_and(type=[1, -1]), "cannot be stored"),
    "large type": (value_and(type=[1, 1 << 32]), "cannot be stored"),
    "fractional types": (value_and(type=[1.0, 2.0]), "must hold whole numbers, not double"),
    "negative time": (value_and(timestamp=[None, -5]), "row 1 of the column timestamp is -5"),
    "early time": (
        value_and(timestamp=pa.array([0, -1], pa.timestamp("s"))),
        "row 1 of the column timestamp is -1000000000",
    ),
    "far time": (value_and(timestamp=pa.array([0, 1 << 60], pa.timestamp("s"))), "be stored"),
    "text times": (value_and(timestamp=["now", "then"]), "whole numbers or timestamps"),
}


@pytest.mark.parametrize("name", list(REFUSED))
def test_unsupported_arrow_input_appends_nothing(logs: Logs, name: str) -> None:
    log = logs.open()
    data, expected = REFUSED[name]
    with pytest.raises(RecordTypeError, match=expected):
        log.append_arrow(data)
    assert log.count() == 0


def test_bad_row_in_the_last_chunk_appends_nothing(logs: Logs) -> None:
    log = logs.open()
    large = b"x" * (LARGEST_VALUE + 1)
    with pytest.raises(RecordTooLargeError):
        log.append_arrow(pa.chunked_array([[b"fine"] * 10_000, [b"fine", large]]))
    with pytest.raises(RecordTooLargeError):
        log.append_arrow(pa.table({"value": [b""], "key": [large]}))
    assert log.count() == 0
    log.append_arrow(pa.array([large[1:]]))


@pytest.mark.parametrize("offsets", [[0, 3, 2], [0, 1, 9], [-1, 0, 1], [5, 6, 6]], ids=str)
@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()], ids=str)
def test_invalid_offsets_are_refused(logs: Logs, kind: pa.DataType, offsets: list[int]) -> None:
    log = logs.open()
    dtype = np.int64 if kind == pa.large_binary() else np.int32
    mutable = np.array([0, 1, 4], dtype)
    damaged = pa.Array.from_buffers(kind, 2, [None, pa.py_buffer(mutable), pa.py_buffer(b"data")])
    keyed = pa.table({"value": ["a", "b"], "key": damaged})
    mutable[:] = offsets  # Arrow has validated the offsets before
    for data in (damaged, keyed):
        with pytest.raises(RecordTypeError, match="offset"):
            log.append_arrow(data)
    assert log.count() == 0


def test_columns_of_unequal_length_are_refused() -> None:
    data, offsets = np.zeros(4, np.uint8), np.array([0, 2, 4])
    for wrong in (
        {"types": np.zeros(3, np.uint32)},
        {"timestamps_ns": np.zeros(1, np.int64)},
        {"keys": (data, offsets[:2], np.zeros(2, np.uint8))},
    ):
        with pytest.raises(RecordTypeError, match="one row for each value"):
            RowColumns(data, offsets, **wrong)


def test_contradictory_or_negative_timestamp_is_refused(logs: Logs) -> None:
    log = logs.open()
    with pytest.raises(RecordTypeError, match="contradict"):
        log.append_arrow(value_and(timestamp=[1, 2]), timestamp_ns=5)
    with pytest.raises(RecordTypeError, match="must not be before 1970"):
        log.append_arrow(value_and(), timestamp_ns=-5)
    assert log.count() == 0


def test_append_arrow_to_unusable_log_raises(logs: Logs) -> None:
    log = logs.open(flush="sync")
    with log.claim(1) as claim:
        with pytest.raises(ClaimError):
            log.append_arrow(value_and())
        claim.buffer[:] = b"c"
    with pytest.raises(ReadOnlyError):
        logs.open(mode="r").append_arrow(value_and())
    log.close()
    with pytest.raises(CommitLogError):
        log.append_arrow(value_and())


def test_missing_pyarrow_error_says_what_to_install(
    logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = logs.open()
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(
        ModuleNotFoundError,
        match="append_arrow needs pyarrow: pip install 'commitlog-engine\\[arrow\\]'",
    ):
        log.append_arrow(None)
