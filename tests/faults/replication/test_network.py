"""Bad networks and stopped processes: no acknowledged record is lost, none is there twice."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

import commitlog
from commitlog import replication
from commitlog.errors import FencedError
from tests.faults.replication.proxy import Proxy
from tests.faults.replication.scene import (
    LIMIT_S,
    Follower,
    Primary,
    check_account,
    numbers_of,
    rejoin,
)


class Scene(NamedTuple):
    primary: Primary
    follower: Follower
    proxy: Proxy
    numbers: random.Random


def pause(scene: Scene) -> None:
    """Let a fault last for a random while."""
    threading.Event().wait(scene.numbers.uniform(0.02, 0.3))


def delay(scene: Scene) -> None:
    scene.proxy.delay_s = scene.numbers.uniform(0.001, 0.02)
    scene.primary.acknowledge(5)


def cut(scene: Scene) -> None:
    for _ in range(scene.numbers.randrange(1, 4)):
        scene.proxy.cut()
        scene.primary.acknowledge(1)


def hold_requests(scene: Scene) -> None:
    scene.proxy.hold("up")
    pause(scene)


def hold_answers(scene: Scene) -> None:
    scene.proxy.hold("down")
    pause(scene)


def hold_and_cut(scene: Scene) -> None:
    scene.proxy.hold("up", "down")
    pause(scene)
    scene.proxy.cut()


def double(scene: Scene) -> None:
    scene.proxy.doubles = True
    scene.proxy.cut()
    scene.primary.acknowledge(20)


def tear(scene: Scene) -> None:
    scene.proxy.tears = 0.1
    pause(scene)


def flip(scene: Scene) -> None:
    scene.proxy.flips = 0.1
    pause(scene)


def stop_follower(scene: Scene) -> None:
    scene.follower.stop()
    pause(scene)
    scene.follower.resume()


def stop_primary(scene: Scene) -> None:
    scene.primary.stop()
    pause(scene)
    scene.primary.resume()


Fault = Callable[[Scene], None]
FAULTS: list[Fault] = [
    delay, cut, hold_requests, hold_answers, hold_and_cut, double, tear, flip, stop_follower,
    stop_primary,
]  # fmt: skip


def check_round(
    primary: Path, copy: Path, first: int, faults: list[Fault], numbers: random.Random
) -> set[int]:
    """Append through faults, and at last kill the primary; return what was acknowledged."""
    with (
        Primary(primary, first) as writer,
        Proxy(writer.port, numbers) as proxy,
        Follower(proxy.url(primary.name), copy) as follower,
    ):
        scene = Scene(writer, follower, proxy, numbers)
        for fault in faults:
            proxy.heal()
            writer.acknowledge(numbers.randrange(1, 10))
            fault(scene)
        writer.kill()
    return set(writer.acknowledged)


def test_promoted_copy_has_each_record(tmp_path: Path, numbers: random.Random) -> None:
    faults = numbers.sample(FAULTS, len(FAULTS))
    print([fault.__name__ for fault in faults])
    acknowledged = check_round(tmp_path / "a", tmp_path / "b", 0, faults, numbers)
    replication.promote(tmp_path / "b")
    check_account(tmp_path / "b", acknowledged)
    rejoin(tmp_path / "b", tmp_path / "a")


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_many_promoted_copies_have_each_record(tmp_path: Path, numbers: random.Random) -> None:
    primary, copy = tmp_path / "a", tmp_path / "b"
    first, acknowledged = 0, set[int]()
    for number in range(300):
        faults = numbers.choices(FAULTS, k=numbers.randrange(1, 4))
        print(number, [fault.__name__ for fault in faults])
        acknowledged |= check_round(primary, copy, first, faults, numbers)
        replication.promote(copy)
        first = check_account(copy, acknowledged)
        rejoin(copy, primary)
        primary, copy = copy, primary


def test_old_primary_acknowledges_nothing_after_a_promotion(
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
    assert all(at_ns <= promoted_ns for at_ns in writer.acknowledged.values())
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
