"""An acknowledged record is durable on as many copies as were asked for."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import commitlog
from commitlog import replication
from commitlog.errors import FencedError, InvalidOptionError, SyncTimeoutError
from commitlog.network.remote.wire import RefusedError
from commitlog.network.replication.acknowledgements import Acknowledgements
from commitlog.network.replication.chunk_stream import ChunkStream
from commitlog.network.replication.primary import Access
from commitlog.network.replication.promise import Asked
from commitlog.network.replication.quota import Copied, Promised
from commitlog.recovery.epoch import EPOCH_GAP
from commitlog.recovery.lineage import Lineage, Rank
from tests.network.replication.scene import LIMIT_S, SEGMENT, fill, records

_FOLLOW = """
import sys
from commitlog import replication
with replication.follow(sys.argv[1], sys.argv[2], name=sys.argv[3]) as follower:
    follower.wait()
"""


@pytest.fixture
def primary(tmp_path: Path) -> Iterator[commitlog.CommitLog]:
    with commitlog.open(tmp_path / "orders", segment_size=SEGMENT, flush="sync") as log:
        yield log


def test_replicated_record_is_in_the_copy(primary: commitlog.CommitLog, tmp_path: Path) -> None:
    with (
        replication.serve(primary.path) as server,
        replication.follow(server.url(), tmp_path / "copy", name="b") as follower,
    ):
        for number in range(100):
            position = primary.append(b"%d" % number)
            assert server.wait_replicated(position, timeout=LIMIT_S)
            assert follower.position > position
        assert server.followers() == {"b": primary.flushed_position}
        assert server.replicated_position() == primary.flushed_position
    assert records(tmp_path / "copy") == records(Path(primary.path))


def test_async_log_is_flushed_for_a_waiter(tmp_path: Path) -> None:
    with (
        commitlog.open(tmp_path / "orders", flush_interval="10ms") as log,
        replication.serve(tmp_path / "orders") as server,
        replication.follow(server.url(), tmp_path / "copy"),
    ):
        assert server.wait_replicated(log.append(b"one"), timeout=LIMIT_S)


def test_one_follower_is_not_counted_twice(primary: commitlog.CommitLog, tmp_path: Path) -> None:
    position = primary.append(b"one")
    with replication.serve(primary.path) as server:
        with replication.follow(server.url(), tmp_path / "b"):
            assert server.wait_replicated(position, timeout=LIMIT_S)
        with replication.follow(server.url(), tmp_path / "b"):
            assert not server.wait_replicated(position, copies=2, timeout=0.2)
            assert server.replicated_position(2) == 0
        with replication.follow(server.url(), tmp_path / "c"):
            assert server.wait_replicated(position, copies=2, timeout=LIMIT_S)


def test_killed_follower_counts_for_its_durable_records(
    primary: commitlog.CommitLog, tmp_path: Path
) -> None:
    with replication.serve(primary.path) as server:
        arguments = [sys.executable, "-c", _FOLLOW, server.url(), tmp_path / "copy", "b"]
        with subprocess.Popen(arguments) as child:
            first = primary.append(b"one")
            assert server.wait_replicated(first, timeout=LIMIT_S)
            os.kill(child.pid, signal.SIGKILL)
        second = primary.append(b"two")
        assert server.wait_replicated(first, timeout=LIMIT_S)
        assert not server.wait_replicated(second, timeout=0.2)
        with replication.follow(server.url(), tmp_path / "copy", name="b"):
            assert server.wait_replicated(second, timeout=LIMIT_S)


def test_replaced_primary_acknowledges_nothing_more(
    primary: commitlog.CommitLog, tmp_path: Path
) -> None:
    fill(primary, 10)
    with replication.serve(primary.path) as server:
        with replication.follow(server.url(), tmp_path / "copy") as follower:
            assert follower.wait(primary.flushed_position, LIMIT_S)
        replication.promote(tmp_path / "copy")
        with replication.serve(tmp_path / "copy") as new:
            replication.follow(new.url(), tmp_path / "other").close()
        with pytest.raises(FencedError, match="does not know it"):
            replication.follow(server.url(), tmp_path / "other")
        for position in (primary.first_position, primary.append(b"late")):
            with pytest.raises(FencedError, match="epoch 1"):
                server.wait_replicated(position, timeout=LIMIT_S)


def test_log_that_is_promoted_again_acknowledges(tmp_path: Path) -> None:
    path = tmp_path / "orders"
    with commitlog.open(path, segment_size=SEGMENT) as log:
        fill(log, 10)
    with replication.serve(path) as server:
        with replication.follow(server.url(), tmp_path / "copy") as follower:
            assert follower.wait(4097, LIMIT_S)
        replication.promote(tmp_path / "copy")
        with replication.serve(tmp_path / "copy") as new:
            replication.follow(new.url(), tmp_path / "other").close()
            with pytest.raises(FencedError, match="does not know it"):
                replication.follow(server.url(), tmp_path / "other")
            with pytest.raises(FencedError, match="epoch 1"):
                server.wait_replicated(4096, timeout=LIMIT_S)
            epoch = replication.promote(path, others=[new.url()], force=["promises", "copies"])
        assert epoch.number == 2
        with (
            commitlog.open(path, flush="sync") as log,
            replication.follow(server.url(), tmp_path / "next"),
        ):
            assert server.wait_replicated(log.append(b"one"), timeout=LIMIT_S)


def test_follower_adopts_the_epoch_of_a_served_copy(tmp_path: Path) -> None:
    with commitlog.open(tmp_path / "orders", segment_size=SEGMENT) as log:
        fill(log, 10)
    with (
        replication.serve(tmp_path / "orders") as server,
        replication.follow(server.url(), tmp_path / "copy") as follower,
    ):
        assert server.wait_replicated(0, timeout=LIMIT_S)
        replication.promote(tmp_path / "orders")
        with commitlog.open(tmp_path / "orders", flush="sync") as log:
            position = log.append(b"next")
            assert server.wait_replicated(position, timeout=LIMIT_S)
        assert follower.position > position
    with replication.serve(tmp_path / "orders") as server:
        replication.follow(server.url(), tmp_path / "copy").close()
    assert replication.promote(tmp_path / "copy").number == 2


def test_wrong_arguments_are_refused(primary: commitlog.CommitLog, tmp_path: Path) -> None:
    with replication.serve(primary.path) as server:
        for copies in (0, -1, 1.5, True, "1"):
            with pytest.raises(InvalidOptionError, match="copies"):
                server.wait_replicated(0, copies=copies)  # type: ignore[arg-type]
        with pytest.raises(InvalidOptionError, match="none"):
            server.replicated_position(log="none")
        with pytest.raises(InvalidOptionError, match="512"):
            replication.follow(server.url(), tmp_path / "copy", name="b" * 513)


@contextlib.contextmanager
def liar(url: str, position: int) -> Iterator[ChunkStream]:
    """Follow as a peer that has no copy, and say that it has one up to a position."""
    with Access().primary(url).stream("liar", Rank(), position, []) as stream:
        yield stream


@pytest.mark.parametrize("acknowledged", [1 << 62, (1 << 63) - 32, 4096 + 64, 4096 + 1])
def test_acknowledgement_beyond_what_was_sent_is_refused(tmp_path: Path, acknowledged: int) -> None:
    rule = replication.Replication(require=1, timeout=0.2)
    with commitlog.open(tmp_path / "orders", flush="sync", replicate=rule) as log:
        with liar(rule.server.url(), 4096) as stream:
            stream.acknowledge(Rank(), acknowledged)
            with pytest.raises(RefusedError, match=f"acknowledged position {acknowledged}"):
                list(iter(stream.next, None))
        assert rule.server.followers() == {}
        with pytest.raises(SyncTimeoutError):
            log.append(b"no copy has this")


def test_request_without_a_stream_acknowledges_nothing(tmp_path: Path) -> None:
    rule = replication.Replication(require=1, timeout=0.2)
    with commitlog.open(tmp_path / "orders", flush="sync", replicate=rule) as log:
        with pytest.raises(SyncTimeoutError):
            log.append(b"one")
        primary = Access().primary(rule.server.url())
        for position in (log.flushed_position, 1 << 62):
            with primary.connect() as client:
                assert primary.acknowledge(client, "liar", Rank(), position) == Rank()
        assert rule.server.followers() == {}
        assert rule.server.replicated_position() == 0


@pytest.mark.parametrize("position", [1 << 62, 4096 + SEGMENT, 4096 + 32])
def test_stream_from_beyond_the_end_is_refused(primary: commitlog.CommitLog, position: int) -> None:
    with replication.serve(primary.path) as server:
        with liar(server.url(), position) as stream:
            stream.acknowledge(Rank(), position)
            with pytest.raises(ConnectionError, match="beyond the end of the log"):
                stream.next()
        assert server.followers() == {}


@pytest.mark.parametrize("unsealed", [[0], [-1], [1 << 62], [1 << 80], [True], ["0"], 0, None])
def test_request_for_a_strange_seal_is_refused(primary: commitlog.CommitLog, unsealed: Any) -> None:
    with replication.serve(primary.path) as server:
        asked = Access().primary(server.url())
        content = {"name": "b", "rank": Rank()._asdict(), "position": 0, "unsealed": unsealed}
        with asked.connect() as client, pytest.raises(RefusedError):
            asked._endpoint.ask(client, "follow", content, LIMIT_S)


INVENTED = [Rank((1 << 63) - 1, "a" * 32), Rank(1 << 30, "a" * 32), Rank(1, "a" * 32, 1 << 30)]


@pytest.mark.parametrize("rank", INVENTED)
def test_invented_epoch_fences_nothing(tmp_path: Path, rank: Rank) -> None:
    rule = replication.Replication(require=0)
    with commitlog.open(tmp_path / "orders", flush="sync", replicate=rule) as log:
        primary = Access().primary(rule.server.url())
        with primary.connect() as client:
            assert primary.acknowledge(client, "liar", rank, 0) == Rank()
        with liar(rule.server.url(), 4096) as stream:
            stream.acknowledge(rank, 4096)
            with pytest.raises(RefusedError, match="no promotion"):
                list(iter(stream.next, None))
        log.append(b"one")
    assert b"fence" not in (tmp_path / "orders" / "epoch").read_bytes()


@pytest.mark.parametrize("rank", INVENTED)
def test_copy_promises_no_invented_epoch(
    primary: commitlog.CommitLog, tmp_path: Path, rank: Rank
) -> None:
    with (
        replication.serve(primary.path) as server,
        replication.follow(server.url(), tmp_path / "copy", listen="127.0.0.1:0") as copy,
    ):
        assert copy.server is not None
        asked = Access().primary(copy.server.url())
        with asked.connect() as client, pytest.raises(RefusedError, match="no promotion"):
            asked.fence(client, Asked(rank), LIMIT_S)
        assert copy.wait(primary.append(b"one") + 1, LIMIT_S)
    assert replication.promote(tmp_path / "copy").number == 1


def test_fence_by_a_peer_is_undone_by_a_promotion(tmp_path: Path) -> None:
    rule = replication.Replication(require=0)
    rank = Rank(EPOCH_GAP, "f" * 32)
    log = commitlog.open(tmp_path / "orders", flush="sync", replicate=rule)
    primary = Access().primary(rule.server.url())
    with primary.connect() as client:
        primary.acknowledge(client, "copy", rank, 0)
    with pytest.raises(FencedError):
        list(iter(lambda: log.append(b"one"), None))
    with pytest.raises(FencedError):
        log.close()
    assert replication.promote(tmp_path / "orders").number == rank.number + 1
    with commitlog.open(tmp_path / "orders") as log:
        log.append(b"two")


def test_wait_ends_when_enough_copies_have_the_record() -> None:
    acknowledged, known = Acknowledgements("orders"), Lineage()
    assert not acknowledged.wait(4096, 1, 0.01)
    for name, copies in (("b", 1), ("c", 2)):
        with ThreadPoolExecutor(1) as pool:
            waits = pool.submit(acknowledged.wait, 4096, copies, LIMIT_S)
            acknowledged.take(Copied(name, known.rank, 4128, known, 4128))
            assert waits.result()
    assert not acknowledged.wait(4128, 1, 0.0)


def test_fence_ends_a_wait() -> None:
    acknowledged, known = Acknowledgements("orders"), Lineage()
    acknowledged.take(Copied("b", known.rank, 4128, known, 4128))
    with ThreadPoolExecutor(1) as pool:
        waits = pool.submit(acknowledged.wait, 4128, 1, LIMIT_S)
        acknowledged.take(Promised(Rank(1, "a" * 32), known))
        with pytest.raises(FencedError, match="promoted to epoch 1"):
            waits.result()
    with pytest.raises(FencedError):  # although a copy has it
        acknowledged.wait(4096, 1, LIMIT_S)


def test_close_ends_a_wait() -> None:
    acknowledged = Acknowledgements("orders")
    acknowledged.close()
    assert not acknowledged.wait(0, 1, None)
