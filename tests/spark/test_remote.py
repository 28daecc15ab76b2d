"""Spark reads logs of another machine: tasks fetch their ranges from the server."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import commitlog
from commitlog import replication
from commitlog.errors import InvalidOptionError, NotALogError, PositionError, ReplicationError
from commitlog.spark.read_options import ReadOptions
from commitlog.spark.slices import Slice, read_slices
from commitlog.spark.topics import open_topic
from tests.spark.logs_in_spark import SIZE, fill, numbered, rows, schema, slices
from tests.spark.test_stream import Query

TOKEN = "secret"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[replication.Server]:
    monkeypatch.setenv("COMMITLOG_TOKEN", TOKEN)
    fill(tmp_path / "orders", numbered(3000))
    fill(tmp_path / "trades", numbered(50))
    logs = tmp_path / "orders", tmp_path / "trades"
    with replication.serve(logs, token=TOKEN) as server:
        yield server


@pytest.fixture
def open_server(tmp_path: Path) -> Iterator[replication.Server]:
    """A server without a token: the session's workers have started without one."""
    fill(tmp_path / "orders", numbered(3000))
    with replication.serve(tmp_path / "orders") as server:
        yield server


def read(planned: list[Slice]) -> None:
    list(read_slices(planned, schema()))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"startingOffsets": "earliest", "minPartitions": 7},
        {"startingTimestamp": 1_500_000},
        {"startingTimestamp": 700_000, "endingTimestamp": 900_000},
    ],
)
def test_slices_from_the_server_have_the_rows_on_disk(
    server: replication.Server, tmp_path: Path, options: dict[str, object]
) -> None:
    near = rows(path=tmp_path / "orders", **options)
    assert near
    assert rows(path=server.url("orders"), **options) == near


def test_planning_fetches_no_segment(server: replication.Server) -> None:
    reading = ReadOptions.parse({"path": server.url("orders")}, stream=False)
    with open_topic("orders", server.url("orders"), reading) as topic:
        found = list(topic.slices(topic.first, topic.end, with_sequence=True,
                                  fail_on_data_loss=True))  # fmt: skip
        assert len(found) > 3
        assert topic.boundary(SIZE * 2 + SIZE // 2) > SIZE * 2
        log = topic.log  # type: ignore[attr-defined]
        folder = Path(f"/proc/self/fd/{int(log._parts.directory.fd)}")
        assert list(folder.glob("*.seg")) == []


def test_several_logs_of_a_server_are_subscribed(server: replication.Server) -> None:
    place = server.url("orders").removesuffix("/orders")
    topics = [row["topic"] for row in rows("topic", path=place, subscribe="orders,trades")]
    assert (topics.count("orders"), topics.count("trades")) == (3000, 50)
    with pytest.raises(InvalidOptionError, match="subscribe"):
        rows(path=place, subscribePattern="o.*")


def test_task_for_a_deleted_segment_raises_position_error(
    server: replication.Server, tmp_path: Path
) -> None:
    planned = list(slices(path=server.url("orders")))
    with commitlog.open(tmp_path / "orders") as log:
        log.flush()
        log.delete_before(log.tail_position)
    with pytest.raises(PositionError, match="deleted"):
        read(planned)


def test_task_at_another_log_or_without_a_token_is_refused(
    server: replication.Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = list(slices(path=server.url("orders")))
    monkeypatch.delenv("COMMITLOG_TOKEN")
    with pytest.raises(ReplicationError, match="COMMITLOG_TOKEN"):
        read(planned)
    monkeypatch.setenv("COMMITLOG_TOKEN", TOKEN)
    port = server.port
    server.close()
    shutil.rmtree(tmp_path / "orders")
    fill(tmp_path / "orders", numbered(3000))
    again = replication.serve(tmp_path / "orders", token=TOKEN, listen=f"127.0.0.1:{port}")
    with again, pytest.raises(NotALogError, match="another log"):
        read(planned)


def test_batch_query_reads_from_the_server(open_server: replication.Server, spark: Any) -> None:
    frame = (
        spark.read.format("commitlog").option("minPartitions", "4").load(open_server.url("orders"))
    )
    rows = frame.select("sequence", "value").collect()
    assert sorted(row.sequence for row in rows) == list(range(3000))
    assert {bytes(row.value) for row in rows} == set(numbered(3000))
    assert frame.count() == 3000


def test_streaming_query_follows_the_server(
    open_server: replication.Server, spark: Any, tmp_path: Path
) -> None:
    first = Query(
        spark, open_server.url("orders"), tmp_path / "checkpoint", maxOffsetsPerTrigger=1100
    )
    first.run()
    assert [len(batch) for batch in first.batches] == [1100, 1100, 800]
    with commitlog.open(tmp_path / "orders") as log:
        for value in numbered(3300)[3000:]:
            log.append(value)
        log.flush()
        second = Query(spark, open_server.url("orders"), tmp_path / "checkpoint")
        second.run()
    assert second.values == sorted(numbered(3300)[3000:])
