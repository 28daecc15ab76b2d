"""Synced appends of several processes share flushes: one process leads, the others wait for the
shared watermark.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import commitlog
from commitlog.log.parts import parts_of
from tests.faults import image
from tests.faults.child import Child, Link
from tests.faults.shim import Shim
from tests.faults.writers import APPENDED, OPENED, SEGMENT_SIZE, open_log, value_of

Start = Callable[..., Child]
Until = Callable[..., None]
A_MINUTE_US = 60_000_000
PROCESSES, ROUNDS = 4, 10


def append_synced(link: Link, path: str, session: int, count: int, claim_timeout: float) -> None:
    """Append on request, wait until each record is durable, and report the number of flushes
    led.
    """
    log, _ = open_log(
        path,
        None,
        {"flush": "sync", "flush_interval": 60, "claim_timeout": claim_timeout, "sync_timeout": 60},
    )
    link.say(OPENED, session, parts_of(log).engine.slot or 0, log.tail_position)
    for index in range(count):
        link.wait()
        link.say(APPENDED, session, index, log.append(value_of(session, index)))
    link.say(OPENED, session, log.stats().flushes)
    link.wait()


def test_synced_appends_of_several_processes_share_flushes(
    path: Path, start: Start, shim: Shim, until: Until
) -> None:
    """No flush ends before all have appended: the current one serves the earlier records, the next
    one all others.
    """
    with commitlog.open(path, segment_size=SEGMENT_SIZE, flush="none") as log:
        writers = [
            start(append_synced, str(path), session, ROUNDS, 3600, environment=shim.environment())
            for session in range(PROCESSES)
        ]
        for writer in writers:
            writer.hear(1)
        for turn in range(1, ROUNDS + 1):
            shim.delay("msync", A_MINUTE_US)
            for writer in writers:
                writer.go_on()
            until(lambda turn=turn: len(list(log.tailer().values())) == turn * PROCESSES)
            shim.delay("msync", 0)
            for writer in writers:
                assert writer.hear(1)[0].kind == APPENDED
        flushes = sum(writer.hear(1)[0].index for writer in writers)
        print(f"{PROCESSES * ROUNDS} appends that waited, {flushes} flushes")
        assert ROUNDS <= flushes <= 2 * ROUNDS


def led_by(path: Path) -> int:
    """Return the owner word of the flush leader."""
    return image.cell(path, "flusher")


def start_leader(path: Path, start: Start, shim: Shim, until: Until) -> Child:
    """Return a process that hangs in the flush that it leads."""
    leader = start(append_synced, str(path), 1, 1, 3600, environment=shim.environment())
    leader.hear(1)
    shim.delay("msync", A_MINUTE_US)
    before = shim.count("msync")
    leader.go_on()
    until(lambda: shim.count("msync") > before)
    assert led_by(path) != 0
    return leader


def follow(path: Path, start: Start, session: int, claim_timeout: float) -> Child:
    """Return a process whose append waits behind that flush."""
    follower = start(append_synced, str(path), session, 1, claim_timeout)
    follower.hear(1)
    follower.go_on()
    return follower


def tail_reaches(path: Path, count: int) -> Callable[[], bool]:
    """Return a condition: `count` records are appended, durable or not."""

    def reached() -> bool:
        with commitlog.open(path, "r") as log:
            return len(list(log.tailer().values())) == count

    return reached


def test_leader_killed_in_its_flush_is_replaced_at_once(
    path: Path, start: Start, shim: Shim, until: Until
) -> None:
    """Any waiting process takes over; the claim timeout is an hour."""
    with commitlog.open(path, segment_size=SEGMENT_SIZE, flush="none"):
        leader = start_leader(path, start, shim, until)
        followers = [follow(path, start, session, 3600) for session in (2, 3)]
        until(tail_reaches(path, 3))
        assert [follower.hear_some() for follower in followers] == [[], []]
        began = time.perf_counter()
        leader.kill()
        for follower in followers:
            assert follower.hear(1)[0].kind == APPENDED
        print(
            f"both were acknowledged {(time.perf_counter() - began) * 1000:.1f} ms after the kill"
        )


def test_leader_stopped_in_flush_is_replaced_after_claim_timeout(
    path: Path, start: Start, shim: Shim, until: Until
) -> None:
    """The old leader resumes later, completes its flush, and does not disturb the new leader."""
    with commitlog.open(path, segment_size=SEGMENT_SIZE, flush="none") as log:
        leader = start_leader(path, start, shim, until)
        os.kill(leader.pid, signal.SIGSTOP)
        began = time.perf_counter()
        follower = follow(path, start, 2, 0.2)
        appended = follower.hear(1)[0]
        took = time.perf_counter() - began
        print(
            f"acknowledged after {took * 1000:.0f} ms behind a stopped leader, with a timeout of "
            "200 ms"
        )
        assert took >= 0.2
        assert log.flushed_position > appended.position
        assert led_by(path) == 0
        shim.delay("msync", 0)
        os.kill(leader.pid, signal.SIGCONT)
        assert leader.hear(1)[0].kind == APPENDED
        flushed = log.flushed_position
        assert flushed > appended.position
        assert len(list(log.tailer(visibility="flushed").values())) == 2


def claim_and_wait(link: Link, path: str, options: dict[str, Any]) -> None:
    """Leave a claim open."""
    log, _ = open_log(path, None, options)
    claim = log.claim(100)
    link.say(OPENED, position=claim.position)
    link.wait()


def test_dead_claim_below_is_resolved_by_the_flush_leader(
    path: Path, start: Start, until: Until
) -> None:
    """The leader itself resolves the claim, without a reader."""
    with commitlog.open(path, segment_size=SEGMENT_SIZE, flush="none"):
        owner = start(claim_and_wait, str(path), {"flush": "none"})
        owner.hear(1)
        writers = [follow(path, start, session, 3600) for session in (1, 2, 3)]
        assert [writer.hear_some() for writer in writers] == [[], [], []]
        began = time.perf_counter()
        owner.kill()
        for writer in writers:
            assert writer.hear(1)[0].kind == APPENDED
        print(
            f"three were acknowledged {(time.perf_counter() - began) * 1000:.1f} ms after the kill"
        )
