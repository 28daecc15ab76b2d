"""Batches: columns of equal length, as NumPy and as Arrow."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import commitlog
from commitlog import Batch
from tests.setups import Logs, Setup

KEYS = [None, b"", b"key", b"\0\xff" * 3]
VALUES = [b"", b"v", b"value" * 20, bytes(300)]


def batch_of(logs: Logs, count: int = 40) -> Batch:
    log = logs.open()
    for index in range(count):
        log.append(
            VALUES[index % 4], key=KEYS[index // 2 % 4], type=index % 3, timestamp_ns=1000 - index
        )
    return log.tailer().read_batch()


def test_columns_have_their_types_and_lengths(logs: Logs) -> None:
    batch = batch_of(logs)
    assert len(batch) == 40
    types = {
        name: getattr(batch, name).dtype
        for name in (
            "positions",
            "timestamps_ns",
            "types",
            "keyed",
            "data",
            "offsets",
            "keys",
            "key_offsets",
        )
    }
    assert types == {
        "positions": np.int64,
        "timestamps_ns": np.int64,
        "types": np.uint32,
        "keyed": np.bool_,
        "data": np.uint8,
        "offsets": np.int64,
        "keys": np.uint8,
        "key_offsets": np.int64,
    }
    assert len(batch.offsets) == len(batch.key_offsets) == 41
    assert (batch.offsets[-1], batch.key_offsets[-1]) == (len(batch.data), len(batch.keys))


def test_rows_are_indexed_from_either_end(logs: Logs) -> None:
    batch = batch_of(logs)
    assert (
        [batch.value(row) for row in range(40)]
        == batch.values()
        == [VALUES[row % 4] for row in range(40)]
    )
    assert [batch.key(row) for row in range(40)] == [KEYS[row // 2 % 4] for row in range(40)]
    assert batch.value(-1) == VALUES[39 % 4]
    assert batch.key(-1) == KEYS[39 // 2 % 4]
    for row in (40, -41):
        with pytest.raises(IndexError):
            batch.value(row)
        with pytest.raises(IndexError):
            batch.key(row)


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 40])
def test_arrow_table_equals_the_batch(logs: Logs, count: int) -> None:
    batch = batch_of(logs, count)
    table = batch.to_arrow()
    table.validate(full=True)
    assert table.schema.names == ["position", "sequence", "timestamp", "type", "key", "value"]
    assert table.num_rows == count
    assert table["position"].to_pylist() == batch.positions.tolist()
    assert table["sequence"].to_pylist() == list(range(count))
    assert table["timestamp"].cast(pa.int64()).to_pylist() == batch.timestamps_ns.tolist()
    assert table["type"].to_pylist() == [row % 3 for row in range(count)]
    assert table["key"].to_pylist() == [KEYS[row // 2 % 4] for row in range(count)]
    assert table["value"].to_pylist() == [VALUES[row % 4] for row in range(count)]
    assert table.schema.field("value").type == pa.large_binary()


def test_arrow_shares_the_memory_and_outlives_the_log(logs: Logs) -> None:
    batch = batch_of(logs)
    table = batch.to_arrow()
    address = table["value"].buffers()[2].address
    assert address == batch.data.ctypes.data
    expected = batch.values()
    del batch
    logs.close()
    assert table["value"].to_pylist() == expected


def test_arrow_c_interface_equals_to_arrow(logs: Logs) -> None:
    batch = batch_of(logs)
    assert pa.record_batch(batch).equals(batch.to_arrow())
    assert pa.table(batch).equals(pa.Table.from_batches([batch.to_arrow()]))
    assert pl.DataFrame(batch)["value"].to_list() == batch.values()


def test_pickled_batch_equals_the_original(logs: Logs) -> None:
    batch = batch_of(logs)
    assert pickle.loads(pickle.dumps(batch)).to_arrow().equals(batch.to_arrow())


def test_missing_pyarrow_error_names_the_extra(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = batch_of(logs, 1)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ModuleNotFoundError, match="commitlog-engine\\[arrow\\]"):
        batch.to_arrow()


def test_dead_claim_does_not_delay_read_batch(
    tmp_path: Path, in_child: Callable[[Callable[[], Any]], Any]
) -> None:
    path = tmp_path / "log"
    kept: list[object] = []

    def die_with_a_claim() -> None:
        log = commitlog.open(path, segment_size=65536, claim_timeout="1h")
        log.append(b"before")
        kept.extend((log, log.claim(100).__enter__()))
        log.append(b"behind")

    in_child(die_with_a_claim)
    with commitlog.open(path, "r") as log:
        tailer = log.tailer()
        assert tailer.read_batch().values() == [b"before"]
        assert tailer.read_batch(timeout=30).values() == [b"behind"]


def test_read_batch_of_empty_log_has_empty_columns(logs: Logs, setup: Setup) -> None:
    batch = logs.open_as(setup).tailer().read_batch(timeout=0.001)
    assert (len(batch), batch.values(), batch.offsets.tolist(), batch.key_offsets.tolist()) == (
        0,
        [],
        [0],
        [0],
    )
