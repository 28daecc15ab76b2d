"""An acknowledged record is durable on as many copies as were asked for."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import commitlog
from commitlog import replication
from commitlog.errors import FencedError, InvalidOptionError, ReplicationError
from commitlog.recovery.lineage import Rank
from commitlog.replication.acknowledgements import Acknowledgements
from tests.replication.scene import LIMIT_S, SEGMENT, fill, records

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


def test_names_of_followers_are_bounded() -> None:
    acknowledged = Acknowledgements("orders")
    for number in range(1024):
        acknowledged.add(str(number), Rank(), number)
    with pytest.raises(ReplicationError, match="1024"):
        acknowledged.add("one more", Rank(), 1)
    acknowledged.add("7", Rank(), 5000)
    assert acknowledged.reached(1) == 5000
    assert acknowledged.reached(1024) == 0


def test_close_ends_a_wait() -> None:
    acknowledged = Acknowledgements("orders")
    acknowledged.close()
    assert not acknowledged.wait(0, 1, None)
