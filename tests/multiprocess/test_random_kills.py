"""Writers killed and stopped at any instant, under load: each acknowledged record is there once, at
its reported position; no rolled-back claim is; and all readers saw the same records.
"""

from __future__ import annotations

import itertools
import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import commitlog
from commitlog.errors import RolledBackError
from tests.faults.child import Child, Link, Report
from tests.faults.writers import (
    APPENDED,
    CLAIMED,
    PUBLISHED,
    SEGMENT_SIZE,
    Mark,
    mark_of,
    open_log,
    value_of,
)
from tests.length import long_count
from tests.multiprocess.readers import LAST, digest_of, read_to_last, seen_by, values_of

Start = Callable[..., Child]
ROLLED_BACK = "R"
WRITERS = 5
READERS = [("records", "r"), ("values", "a"), ("batches", "r")]
CLAIM_TIMEOUT_S = 0.15
OPTIONS: dict[str, Any] = {
    "flush": "async",
    "claim_timeout": CLAIM_TIMEOUT_S,
    "sync_timeout": 3600,
    "flush_interval": 0.05,
}


def write_anything(link: Link, path: str, session: int) -> None:
    """Append in every way until killed, and report each outcome; each record has its own number."""
    log, _ = open_log(path, None, OPTIONS)
    numbers = random.Random(session)
    for index in itertools.count(step=10):
        if index % 500 == 0:
            time.sleep(0.005)  # between bursts, so that the test can kill or stop this process
        way = numbers.random()
        if way < 0.6:
            link.say(APPENDED, session, index, log.append(value_of(session, index)))
        elif way < 0.75:
            positions = log.append_many([value_of(session, index + step) for step in range(10)])
            for step, position in enumerate(positions.tolist()):
                link.say(APPENDED, session, index + step, position)
        elif way < 0.8:
            link.say(APPENDED, session, index, log.append(value_of(session, index), sync=True))
        else:
            claim_one(link, log, session, index, numbers.random() * 0.02 if way > 0.95 else 0)


def claim_one(
    link: Link, log: commitlog.CommitLog, session: int, index: int, held_s: float
) -> None:
    """Publish a claim, which fails if this process is stopped in it for too long."""
    value = value_of(session, index)
    claim = log.claim(len(value))
    link.say(CLAIMED, session, index, claim.position)
    try:
        with claim:
            claim.buffer[:] = value
            if held_s:
                time.sleep(held_s)
    except RolledBackError:
        link.say(ROLLED_BACK, session, index, claim.position)
    else:
        link.say(PUBLISHED, session, index, claim.position)


class Ledger:
    """The reports of the writers."""

    def __init__(self) -> None:
        self.promised: dict[int, Mark] = {}
        self.rolled_back: set[int] = set()

    def note(self, reports: list[Report]) -> None:
        """Record a writer's reports; no two acknowledged records may share a position."""
        for report in reports:
            if report.kind in (APPENDED, PUBLISHED):
                assert report.position not in self.promised, (
                    f"position {report.position} was given twice"
                )
                self.promised[report.position] = Mark(report.session, report.index)
            elif report.kind == ROLLED_BACK:
                self.rolled_back.add(report.position)

    def check(self, found: dict[int, Mark]) -> None:
        """Check that every acknowledged record is there, no rolled-back one is, none is there
        twice, and each session's are in order.
        """
        lost = self.promised.items() - found.items()
        assert not lost, (
            f"{len(lost)} acknowledged records are not at their acknowledged positions, such as "
            f"{min(lost)}"
        )
        assert not self.rolled_back & found.keys(), (
            "a claim reported as rolled back has become a record"
        )
        before: dict[int, int] = {}
        for mark in found.values():
            assert mark.index > before.get(mark.session, -1), (
                f"{mark} comes after record {before[mark.session]}"
            )
            before[mark.session] = mark.index


def kill_and_stop(path: Path, seconds: float, numbers: random.Random, start: Start) -> None:
    """Kill and stop writers at random instants, then compare the log with their reports."""
    ledger = Ledger()
    with commitlog.open(path, segment_size=SEGMENT_SIZE, **OPTIONS | {"flush": "none"}) as log:
        readers = [start(read_to_last, str(path), style, mode, "first") for style, mode in READERS]
        for reader in readers:
            reader.hear(1)
        sessions = itertools.count(1)
        writers = [start(write_anything, str(path), next(sessions)) for _ in range(WRITERS)]
        stopped: dict[Child, float] = {}
        kills = stops = 0
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if (kills + stops) % 8 == 7:
                for writer in writers:
                    ledger.note(writer.hear_some())
            for writer in [writer for writer, until in stopped.items() if until < time.monotonic()]:
                del stopped[writer]
                os.kill(writer.pid, signal.SIGCONT)
            victim = numbers.randrange(WRITERS)
            writer = writers[victim]
            spin(numbers.randint(0, 3000))
            if numbers.random() < 0.3:
                stopped.pop(writer, None)
                ledger.note(writer.kill())
                writer.end()
                writers[victim] = start(write_anything, str(path), next(sessions))
                kills += 1
            elif writer not in stopped:
                os.kill(writer.pid, signal.SIGSTOP)
                stopped[writer] = time.monotonic() + numbers.uniform(0, 3 * CLAIM_TIMEOUT_S)
                stops += 1
        for writer in writers:
            ledger.note(writer.kill())
        log.append(LAST)
        seen = [seen_by(reader) for reader in readers]
        found = {
            record.position: mark_of(record.value)
            for record in log.tailer()
            if record.value != LAST
        }
        ledger.check(found)
        values = values_of(log)
        assert [reader[0::2] for reader in seen] == [(len(values), digest_of(values))] * len(
            readers
        )
        stats = log.stats()
        print(
            f"{kills} kills, {stops} stops, {len(found)} records, {len(ledger.promised)} "
            f"reported, {len(ledger.rolled_back)} claims told, "
            f"{stats.rolled_back_claims} rolled back by this process"
        )


def spin(microseconds: int) -> None:
    """Busy-wait."""
    end = time.perf_counter_ns() + microseconds * 1000
    while time.perf_counter_ns() < end:
        pass


def test_kills_and_stops_lose_and_duplicate_no_record(
    path: Path, numbers: random.Random, start: Start
) -> None:
    kill_and_stop(path, 2.0, numbers, start)


@pytest.mark.long
def test_minute_of_kills_and_stops_loses_no_record(
    path: Path, numbers: random.Random, start: Start
) -> None:
    kill_and_stop(path, long_count(60), numbers, start)
