"""Logs with headers, which the first code that knew them made: today's code reads, checks and
continues them.
"""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

import commitlog
from commitlog.repair.verification import verify
from tests.golden.headers import COUNT, TARGET, fill, rows
from tests.golden.make import SEGMENT
from tests.oracle.segment_file import log_values


@pytest.fixture(params=["mapped", "pooled"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    with tarfile.open(TARGET) as file:
        file.extractall(tmp_path, filter="data")
    return tmp_path / str(request.param)


def test_golden_headers_are_read_and_continued(path: Path) -> None:
    expected = list(rows())
    assert verify(path).sound
    with commitlog.open(path) as log:
        batch = log.tailer(start="first").read_batch(COUNT + 1)
        assert batch.headers == [headers for _, _, headers in expected]
        assert batch.values() == [value for value, _, _ in expected]
        position = log.append(b"more", headers={"a": b"1"})
        assert log.read(position).headers == {"a": b"1"}
        assert log.append(b"", producer="till", producer_sequence=5) == batch.positions[5]


def test_reader_without_headers_reads_the_golden_records(path: Path) -> None:
    found = [(each.value, each.key) for each in log_values(path)]
    assert found == [(value, key) for value, key, _ in rows()]


def test_bytes_of_the_golden_headers_are_written_today(path: Path, tmp_path: Path) -> None:
    """The same appends give the same bytes, up to segment ids and CRCs."""
    with commitlog.open(tmp_path / "new", segment_size=SEGMENT) as log:
        fill(log)
    with commitlog.open(path, "r") as old, commitlog.open(tmp_path / "new", "r") as new:
        one, two = (each.tailer(start="first").read_batch(COUNT) for each in (old, new))
        assert one.positions.tolist() == two.positions.tolist()
        assert one.headers == two.headers
