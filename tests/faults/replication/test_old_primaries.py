"""Old primaries and two promoted copies: neither acknowledges beside the new primary."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import commitlog
from commitlog import replication
from commitlog.errors import FencedError
from commitlog.network.replication import follower_stream
from tests.faults.replication.proxy import Proxy
from tests.faults.replication.scene import (
    LIMIT_S,
    Follower,
    Primary,
    check_account,
    numbers_of,
    rejoin,
)

Until = Callable[..., None]


def test_old_primary_acknowledges_no_append_after_a_promotion(
    tmp_path: Path, numbers: random.Random
) -> None:
    old, b, c = tmp_path / "a", tmp_path / "b", tmp_path / "c"
    with (
        Primary(old, 0) as writer,
        Proxy(writer.port, numbers) as proxy,
        Proxy(writer.port, numbers) as proxy_of_third,
    ):
        with replication.follow(proxy_of_third.url("a"), c, listen="127.0.0.1:0") as third:
            assert third.server is not None
            with replication.follow(proxy.url("a"), b, listen="127.0.0.1:0"):
                writer.acknowledge(10)
                proxy_of_third.hold("up", "down")
                writer.acknowledge(2)  # by b, which now has all that the third has
                proxy.hold(numbers.choice(("up", "down")))
            replication.promote(b, others=[third.server.url()], require=1)
            promoted_ns = time.monotonic_ns()
            proxy.heal()
            proxy_of_third.heal()
            with commitlog.open(b, flush="sync") as log, replication.serve(b) as server:
                for number in range(10):
                    log.append(b"%d " % (1_000_000 + number))
                assert server.replicated_position() == 0
            assert not third.wait(timeout=0.3)  # it gets nothing from the old primary any more
        writer.kill()
    # What a copy has acknowledged before may reach the old primary later.
    assert all(began_ns <= promoted_ns for began_ns in writer.acknowledged.values())
    check_account(b, set(writer.acknowledged))
    rejoin(b, old)
    rejoin(b, c)


def test_two_promoted_copies_never_mix(tmp_path: Path, numbers: random.Random) -> None:
    old, b, c = tmp_path / "a", tmp_path / "b", tmp_path / "c"
    with (
        Primary(old, 0, copies=2) as writer,
        Proxy(writer.port, numbers) as proxy,
        Follower(proxy.url("a"), b),
        Follower(proxy.url("a"), c),
    ):
        writer.acknowledge(10)
        proxy.cut()
        writer.acknowledge(1)
        writer.kill()
    epochs = {path: replication.promote(path) for path in (b, c)}
    for path in (b, c):
        check_account(path, set(writer.acknowledged))
        with commitlog.open(path, flush="sync") as log:
            log.append(b"%d %s" % (1_000_000, path.name.encode()))
    low, high = sorted(epochs, key=lambda path: (epochs[path].number, epochs[path].id))
    with (
        replication.serve(low) as server,
        pytest.raises(FencedError),
        replication.follow(server.url(), high) as follower,
    ):
        follower.wait(timeout=LIMIT_S)
    rejoin(high, low)
    assert list(low.glob("*.fork"))
    rejoin(high, old)
    assert set(writer.acknowledged) <= set(numbers_of(old))


def test_server_leaves_a_follower_that_cannot_acknowledge(
    tmp_path: Path, numbers: random.Random, monkeypatch: pytest.MonkeyPatch, until: Until
) -> None:
    monkeypatch.setattr(follower_stream, "_SILENCE_S", 2.0)
    with (
        commitlog.open(tmp_path / "a", flush="sync") as log,
        replication.serve(log.path) as server,
        Proxy(server.port, numbers) as proxy,
        replication.follow(proxy.url("a"), tmp_path / "b") as follower,
    ):
        log.append(b"one")
        assert server.wait_replicated(log.first_position, timeout=LIMIT_S)
        before = proxy.accepted
        proxy.hold("up")
        log.append(b"two")
        assert follower.wait(log.flushed_position, LIMIT_S)
        until(lambda: proxy.accepted > before)
        proxy.heal()
        assert server.wait_replicated(log.flushed_position - 8, timeout=LIMIT_S)
