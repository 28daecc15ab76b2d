"""Streams over logs that are deleted, created again or restored while a query runs or rests."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import commitlog
from commitlog import Store, replication
from commitlog.errors import CommitLogError, LogNotFoundError, PositionError
from commitlog.spark.stream import LogStreamReader
from tests.copies import copy_log
from tests.spark.logs_in_spark import SIZE, archive, fill, numbered, values
from tests.spark.test_stream import Query
from tests.spark.test_stream_reader import ALL, Streams, _batches, _read, stream

__all__ = ["stream"]  # a fixture
OLD = [b"old%d" % number for number in range(10)]
NEW = numbered(3000)


class Kind:
    """A kind of source under one path, which can be deleted and created again."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "log"
        self.path: Any = self.log
        self.options: dict[str, object] = {}

    def create(self, values: list[bytes]) -> None:
        fill(self.log, values)

    def delete(self) -> None:
        shutil.rmtree(self.log)

    def close(self) -> None:
        pass


class Live(Kind):
    """A log that a writer has open."""

    writer: commitlog.CommitLog

    def create(self, values: list[bytes]) -> None:
        self.writer = commitlog.open(self.log, segment_size=SIZE)
        self.writer.append_many(values)
        self.writer.flush()

    def delete(self) -> None:
        self.writer.close()
        shutil.rmtree(self.log)

    def close(self) -> None:
        self.writer.close()


class Pattern(Kind):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.path, self.options = folder, {"subscribePattern": "log"}


class Stored(Kind):
    """The store of a log."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.path = folder / "store" / "log"

    def create(self, values: list[bytes]) -> None:
        with commitlog.open(self.log, segment_size=SIZE, store=Store(self.path)) as log:
            log.append_many(values)

    def delete(self) -> None:
        shutil.rmtree(self.log)
        shutil.rmtree(self.path)


class Archived(Kind):
    """An archive, which a stream follows as a store."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.path = folder / "archive" / "log"

    def create(self, values: list[bytes]) -> None:
        with commitlog.open(self.log, segment_size=SIZE) as log:
            log.append_many(values)
            log.roll()
            log.append(b"not archived")
        archive(self.log, self.path)

    def delete(self) -> None:
        shutil.rmtree(self.log)
        shutil.rmtree(self.path)


class Served(Kind):
    """A log of another machine."""

    server: replication.Server | None = None

    def create(self, values: list[bytes]) -> None:
        super().create(values)
        listen = f"127.0.0.1:{0 if self.server is None else self.server.port}"
        self.server = replication.serve(self.log, listen=listen)
        self.path = self.server.url("log")

    def delete(self) -> None:
        assert self.server is not None
        self.server.close()
        super().delete()

    def close(self) -> None:
        assert self.server is not None
        self.server.close()


@pytest.fixture(params=[Kind, Live, Pattern, Stored, Archived, Served])
def kind(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kind]:
    if request.param in (Stored, Archived):
        pytest.importorskip("zstandard")
    made: Kind = request.param(tmp_path / "logs")
    made.log.parent.mkdir()
    made.create(OLD)
    yield made
    made.close()


def again(kind: Kind, values: list[bytes]) -> None:
    kind.delete()
    kind.create(values)


def test_restart_over_a_new_log_is_refused(kind: Kind, stream: Streams) -> None:
    before = stream(kind.path, **kind.options)
    offset = before.latestOffset(before.initialOffset(), ALL)
    before.stop()
    again(kind, NEW)
    for limits in ({}, {"maxOffsetsPerTrigger": 100}):
        reader = stream(kind.path, **kind.options, **limits)
        with pytest.raises(PositionError, match="deleted and created again.*failOnDataLoss=false"):
            reader.latestOffset(offset, reader.getDefaultReadLimit())
        with pytest.raises(PositionError, match="deleted and created again"):
            reader.partitions(offset, reader.initialOffset())
        reader.stop()


def test_restart_without_failing_reads_the_new_log_whole(kind: Kind, stream: Streams) -> None:
    before = stream(kind.path, **kind.options)
    start = before.initialOffset()
    offset = before.latestOffset(start, ALL)
    before.stop()
    again(kind, NEW)
    for limits in ({}, {"maxOffsetsPerTrigger": 1700}):
        reader = stream(kind.path, failOnDataLoss="false", **kind.options, **limits)
        found = [value for batch in _batches(reader, offset) for value in batch]
        assert found == NEW
        # A batch that was planned before the log was replaced has nothing to read any more.
        assert _read(reader, start, offset) == []
        reader.stop()


def test_offset_of_an_older_release_continues(kind: Kind, stream: Streams) -> None:
    again(kind, NEW)
    reader = stream(kind.path, **kind.options)
    end = reader.latestOffset(reader.initialOffset(), ALL)
    half = reader.latestOffset(reader.initialOffset(), ALL)["log"]["0"] // 2 // SIZE * SIZE
    old = {"log": {"0": half}}
    found = _read(reader, old, end)
    assert found
    assert found == NEW[-len(found) :]
    # Also an end that an older release planned, and an offset that it reached.
    assert _read(reader, old, {"log": {"0": end["log"]["0"]}}) == found
    assert reader.latestOffset({"log": {"0": end["log"]["0"]}}, ALL) == end


def test_older_release_reads_the_offsets_of_this_one(kind: Kind, stream: Streams) -> None:
    reader = stream(kind.path, **kind.options)
    offset = reader.latestOffset(reader.initialOffset(), ALL)
    # What releases before this one do with an offset.
    assert {name: int(parts["0"]) for name, parts in offset.items()} == {"log": offset["log"]["0"]}
    assert json.loads(json.dumps(offset)) == offset


def _eventually(
    reader: LogStreamReader, offset: Any, until: Callable[..., None]
) -> tuple[Any, CommitLogError | None]:
    """Poll until the offset changes or an error comes."""
    found: list[tuple[Any, CommitLogError | None]] = []

    def changed() -> bool:
        try:
            end = reader.latestOffset(offset, ALL)
        except CommitLogError as error:
            found.append((None, error))
            return True
        if end != offset:
            found.append((end, None))
        return end != offset

    until(changed, limit_s=30)
    return found[-1]


def test_running_stream_notices_a_new_log(kind: Kind, stream: Streams, until: Any) -> None:
    failing = stream(kind.path, **kind.options)
    going_on = stream(kind.path, failOnDataLoss="false", **kind.options)
    offset = failing.latestOffset(failing.initialOffset(), ALL)
    assert going_on.latestOffset(going_on.initialOffset(), ALL) == offset
    again(kind, NEW)
    _, error = _eventually(failing, offset, until)
    assert "deleted" in str(error)
    end, error = _eventually(going_on, offset, until)
    assert error is None
    assert _read(going_on, offset, end) == NEW


def test_running_stream_notices_a_deleted_log(tmp_path: Path, stream: Streams, until: Any) -> None:
    kind = Kind(tmp_path)
    kind.create(OLD)
    reader, patient = stream(kind.path), stream(kind.path, failOnDataLoss="false")
    offset = reader.latestOffset(reader.initialOffset(), ALL)
    assert patient.latestOffset(patient.initialOffset(), ALL) == offset
    kind.delete()
    _, error = _eventually(reader, offset, until)
    assert isinstance(error, LogNotFoundError)
    assert patient.latestOffset(offset, ALL) == offset


def test_running_stream_follows_a_directory_restored_in_place(
    tmp_path: Path, stream: Streams, until: Any
) -> None:
    fill(tmp_path / "log", OLD)
    copy_log(tmp_path / "log", tmp_path / "copy")
    reader = stream(tmp_path / "log")
    offset = reader.latestOffset(reader.initialOffset(), ALL)
    shutil.rmtree(tmp_path / "log")
    copy_log(tmp_path / "copy", tmp_path / "log")
    fill(tmp_path / "log", [b"more"])
    end, error = _eventually(reader, offset, until)
    assert error is None
    assert _read(reader, offset, end) == [b"more"]


def test_log_that_lost_its_end_is_read_on_from_its_end(
    tmp_path: Path, stream: Streams, caplog: pytest.LogCaptureFixture
) -> None:
    fill(tmp_path / "log", OLD)
    reader = stream(tmp_path / "log", failOnDataLoss="false")
    beyond = {"log": {"0": 10_000_000}}
    end = reader.latestOffset(beyond, ALL)
    assert end["log"]["0"] < 10_000_000
    assert _read(reader, beyond, end) == []
    assert caplog.text.count("lost its end") == 1
    fill(tmp_path / "log", [b"next"])
    again = stream(tmp_path / "log", failOnDataLoss="false")
    assert _read(again, end, again.latestOffset(end, ALL)) == [b"next"]


def test_restarted_query_is_refused_until_told_to_go_on(spark: Any, tmp_path: Path) -> None:
    log, checkpoint = tmp_path / "log", tmp_path / "checkpoint"
    fill(log, numbered(1000))
    first = Query(spark, log, checkpoint)
    first.run()
    shutil.rmtree(log)
    fill(log, NEW)
    with pytest.raises(Exception, match="deleted and created again"):
        Query(spark, log, checkpoint).run()
    second = Query(spark, log, checkpoint, failOnDataLoss="false")
    second.run()
    assert second.values == sorted(NEW)


def test_checkpoint_of_an_older_release_starts(spark: Any, tmp_path: Path) -> None:
    log, checkpoint = tmp_path / "log", tmp_path / "checkpoint"
    fill(log, numbered(1000))
    Query(spark, log, checkpoint).run()
    for path in (checkpoint / "offsets").glob("[0-9]*"):
        lines = path.read_text(encoding="utf-8").splitlines()
        old = {name: {"0": parts["0"]} for name, parts in json.loads(lines[-1]).items()}
        path.write_text("\n".join([*lines[:-1], json.dumps(old)]), encoding="utf-8")
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    fill(log, [b"later"])
    again = Query(spark, log, checkpoint)
    again.run()
    assert again.values == [b"later"]


def test_offset_of_a_stream_is_a_bound_of_a_batch(tmp_path: Path, stream: Streams) -> None:
    path = tmp_path / "log"
    fill(path, OLD)
    reader = stream(path, maxOffsetsPerTrigger=4)
    offset = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    start, end = {"startingOffsets": json.dumps(offset)}, {"endingOffsets": json.dumps(offset)}
    assert values(path=path, **start) == OLD[4:]
    assert values(path=path, **end) == OLD[:4]
    shutil.rmtree(path)
    fill(path, NEW)
    for bound in (start, end):
        with pytest.raises(PositionError, match="an offset of the log with uuid"):
            values(path=path, **bound)
        assert values(path=path, failOnDataLoss="false", **bound) == NEW
