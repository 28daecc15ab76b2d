"""Processes that compete with `expect=`, while they are killed and stopped at any moment: each
record is at the sequence that its append expected, and each sequence has one winner.
"""

from __future__ import annotations

import os
import random
import signal
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import commitlog
from commitlog import CommitLog, TransientStorePool
from commitlog.errors import ConflictError, RolledBackError
from tests.faults.child import Child, Link, Report

Start = Callable[..., Child]
SEGMENT = 64 << 10
CLAIM_TIMEOUT_S = 0.1
OPTIONS: dict[str, Any] = {"flush": "none", "claim_timeout": CLAIM_TIMEOUT_S}
WON, OPENED = "W", "O"
ANY = -1
_VALUE = struct.Struct("<qqq")


def open_log(path: str, pooled: bool) -> CommitLog:
    if pooled:
        pool = TransientStorePool(
            buffers=3, buffer_size=SEGMENT, backing="shm", lock_memory="off", low_water=0
        )
        return commitlog.open(path, pool=pool, **OPTIONS)
    return commitlog.open(path, segment_size=SEGMENT, **OPTIONS)


def compete(link: Link, log: CommitLog, session: int, most: int) -> None:
    """Append on conditions, singly and in lists, and now and then without one or in an open claim.
    Report each sequence won. A record holds the sequence that its append expected.
    """
    numbers = random.Random(session)
    expect = 0
    for index in range(most):
        way = numbers.random()
        padding = bytes(numbers.choice([0, 10, 400]))
        try:
            if way < 0.7:
                log.append(_VALUE.pack(session, index, expect) + padding, expect=expect)
                link.say(WON, session, index, expect)
                expect += 1
            elif way < 0.8:
                count = numbers.randrange(1, 9)
                values = [_VALUE.pack(session, index, expect + n) + padding for n in range(count)]
                log.append_many(values, expect=expect)
                for number in range(count):
                    link.say(WON, session, index, expect + number)
                expect += count
            elif way < 0.9:
                log.append(_VALUE.pack(session, index, ANY) + padding)
            else:
                with log.claim(_VALUE.size) as claim:
                    claim.buffer[:] = _VALUE.pack(session, index, ANY)
                    if way > 0.98:
                        time.sleep(0.001)
        except ConflictError as conflict:
            expect = conflict.actual or 0
        except RolledBackError:
            pass


def compete_alone(link: Link, path: str, session: int, most: int) -> None:
    """Compete with other processes over a mapped log."""
    with open_log(path, pooled=False) as log:
        link.say(OPENED, session)
        compete(link, log, session, most)


def compete_in_threads(link: Link, path: str, session: int, most: int) -> None:
    """Compete with other threads over a pooled log."""
    with open_log(path, pooled=True) as log:
        link.say(OPENED, session)
        threads = [
            threading.Thread(target=compete, args=(link, log, session * 10 + number, most))
            for number in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def check(path: Path, reports: list[Report]) -> int:
    """Check the log against the reports, and return how many sequences were won."""
    won = [report for report in reports if report.kind == WON]
    owners = {report.position: report.session for report in won}
    assert len(owners) == len(won), "a sequence has two winners"
    with commitlog.open(path, segment_size=SEGMENT, flush="none") as log:
        records = list(log.tailer())
        assert [record.sequence for record in records] == list(range(len(records)))
        for record in records:
            session, _, expect = _VALUE.unpack_from(record.value)
            assert expect in (ANY, record.sequence), (
                f"a record that expected sequence {expect} has {record.sequence}"
            )
            if record.sequence in owners:
                assert (session, expect) == (owners.pop(record.sequence), record.sequence)
        assert not owners, f"{len(owners)} acknowledged records are lost"
        log.append(b"after", expect=len(records))
    return len(won)


def test_processes_win_each_sequence_once(path: Path, start: Start) -> None:
    children = [start(compete_alone, str(path), session, 1500) for session in range(4)]
    reports = [report for child in children for report in child.join()]
    assert check(path, reports) > 1000


def disturb(children: list[Child], numbers: random.Random, rounds: int) -> list[Report]:
    """Kill or stop processes at random moments, until a second beyond the claim timeout."""
    reports = []
    for _ in range(rounds):
        time.sleep(numbers.random() * 0.02)
        child = numbers.choice(children)
        if not child.alive():
            continue
        if numbers.random() < 0.4:
            os.kill(child.pid, signal.SIGSTOP)
            time.sleep(numbers.random() * 2 * CLAIM_TIMEOUT_S)
            os.kill(child.pid, signal.SIGCONT)
        else:
            reports += child.kill_if_alive()
    return reports


def test_processes_killed_and_stopped_leave_one_winner(path: Path, start: Start) -> None:
    seed = random.randrange(1 << 32)
    print("seed", seed)
    numbers = random.Random(seed)
    reports: list[Report] = []
    for wave in range(3):
        children = [
            start(compete_alone, str(path), wave * 10 + number, 2000, ahead=1 << 20)
            for number in range(4)
        ]
        for child in children:
            reports += child.hear(1)
        reports += disturb(children, numbers, 6)
        for child in children:
            reports += child.kill_if_alive() if child.status is None else []
    assert check(path, reports) > 0


def test_killed_pooled_writer_leaves_one_winner(path: Path, start: Start) -> None:
    """Buffers in shared memory keep what was appended before the kill."""
    seed = random.randrange(1 << 32)
    print("seed", seed)
    numbers = random.Random(seed)
    reports: list[Report] = []
    for session in range(4):
        child = start(compete_in_threads, str(path), session, 2000)
        reports += child.hear(1)
        time.sleep(numbers.random() * 0.15)
        reports += child.kill_if_alive()
    assert check(path, reports) > 0
