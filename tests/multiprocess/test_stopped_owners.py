"""Owners stopped between claim and publish: one that continues in time keeps its record; another
gets an error or appends again, and no reader sees its unpublished bytes.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import commitlog
from commitlog import CommitLog
from commitlog.errors import RolledBackError
from commitlog.log.parts import parts_of
from commitlog.tail.tailer import Tailer
from tests.faults.child import Child, Link
from tests.faults.writers import APPENDED, CLAIMED, OPENED, PUBLISHED, open_log, value_of
from tests.multiprocess.readers import LIMIT_S
from tests.multiprocess.stepping import Driven, append_driven

Start = Callable[..., Child]
AN_HOUR, SHORT = 3600.0, 0.1
ROLLED_BACK = "R"


def open_survivor(path: Path, claim_timeout: float) -> CommitLog:
    return commitlog.open(path, flush="none", segment_size=1 << 16, claim_timeout=claim_timeout)


def claim_and_publish(link: Link, path: str, session: int) -> None:
    """Claim, write half of the value, on request the rest, and report the outcome."""
    log, _ = open_log(path, None, {"flush": "none", "claim_timeout": AN_HOUR})
    value = value_of(session, 0)
    claim = log.claim(len(value))
    link.say(CLAIMED, session, parts_of(log).engine.slot or 0, claim.position)
    try:
        with claim:
            claim.buffer[: len(value) // 2] = value[: len(value) // 2]
            link.wait()
            claim.buffer[:] = value
        link.say(PUBLISHED, session, 0, claim.position)
    except RolledBackError as error:
        link.say(ROLLED_BACK, session, 0, error.position or 0)
    link.say(APPENDED, session, 0, log.append(b"after all"))
    log.close()


def next_value(tailer: Tailer) -> bytes | None:
    record = tailer.read(timeout=60)
    return None if record is None else record.value


def test_claim_stopped_past_the_timeout_raises_on_publish(path: Path, start: Start) -> None:
    with open_survivor(path, SHORT) as log, commitlog.open(path, "r") as reader:
        child = start(claim_and_publish, str(path), 1)
        claimed = child.hear(1)[0]
        child.pause()
        log.append(b"later")
        early, watching = log.tailer(), reader.tailer()
        assert watching.read(timeout=0.05) is None, "who may not write waits for the living"
        assert next_value(early) == b"later"
        assert next_value(watching) == b"later"
        child.resume()
        child.go_on()
        told, appended = child.hear(2)
        child.join()
        assert (told.kind, told.position) == (ROLLED_BACK, claimed.position)
        assert [next_value(early), next_value(watching)] == [b"after all"] * 2
        for one in (log, reader):
            assert list(one.tailer().values()) == [b"later", b"after all"]
        assert log.read(appended.position).value == b"after all"


def test_claim_stopped_within_the_timeout_is_published(path: Path, start: Start) -> None:
    with open_survivor(path, AN_HOUR) as log, commitlog.open(path, "r") as reader:
        child = start(claim_and_publish, str(path), 1)
        claimed = child.hear(1)[0]
        child.pause()
        log.append(b"later")
        early, watching = log.tailer(), reader.tailer()
        assert [early.read(timeout=0.1), watching.read(timeout=0.05), log.appended_position] == [
            None,
            None,
            claimed.position,
        ]
        child.resume()
        child.go_on()
        assert child.hear(1)[0].kind == PUBLISHED
        child.join()
        for tailer in (early, watching, log.tailer(), reader.tailer()):
            assert [next_value(tailer) for _ in range(3)] == [
                value_of(1, 0),
                b"later",
                b"after all",
            ]


@pytest.mark.parametrize("place", ["gap", "claimed"])
def test_append_stopped_past_the_timeout_lands_once(path: Path, start: Start, place: str) -> None:
    """In the gap, the owner finds marks where its first swap should go, and writes nothing between
    them.
    """
    with open_survivor(path, SHORT) as log, commitlog.open(path, "r") as reader:
        driven = Driven(start(append_driven, str(path), 1, AN_HOUR), path)
        driven.drive(place)
        driven.stop()
        log.append(b"later")
        early, watching = log.tailer(), reader.tailer()
        assert watching.read(timeout=0.02) is None
        assert next_value(early) == b"later"
        marked = {file.name: file.read_bytes() for file in path.glob("*.seg")}
        driven.resume()
        landed = driven.child.hear(1)[0]
        assert landed.index == 1, "its claim was refused once"
        assert landed.position > driven.position
        for tailer in (early, log.tailer(), watching):
            values = [next_value(tailer) for _ in range(1 if tailer is early else 2)]
            assert values == [b"later", value_of(1, 0)][-len(values) :]
        if place == "gap":
            first = path / f"{0:020d}.seg"
            assert first.read_bytes()[: landed.position] == marked[first.name][: landed.position]


@pytest.mark.parametrize("place", ["gap", "claimed"])
def test_append_stopped_within_the_timeout_keeps_its_position(
    path: Path, start: Start, place: str
) -> None:
    with open_survivor(path, AN_HOUR) as log, commitlog.open(path, "r") as reader:
        driven = Driven(start(append_driven, str(path), 1, AN_HOUR), path)
        driven.drive(place)
        driven.stop()
        log.append(b"later")
        tailers = [log.tailer(), reader.tailer()]
        assert [tailer.read(timeout=0.1) for tailer in tailers] == [None, None]
        driven.resume()
        landed = driven.child.hear(1)[0]
        assert (landed.index, landed.position) == (0, driven.position)
        for tailer in [*tailers, log.tailer()]:
            assert [next_value(tailer), next_value(tailer)] == [value_of(1, 0), b"later"]


def test_stopped_owner_costs_one_timeout_despite_other_deaths(path: Path, start: Start) -> None:
    """The stopped owner is in an odd window and is a suspect of every later gap."""
    claim_timeout = 2.0  # eight times that exceeds what a busy machine needs for one
    with open_survivor(path, claim_timeout) as log:
        stopped = Driven(start(append_driven, str(path), 0, AN_HOUR), path)
        stopped.drive("gap")
        stopped.stop()
        for session in range(1, 9):
            driven = Driven(start(append_driven, str(path), session, AN_HOUR), path)
            driven.drive("gap")
            driven.child.kill()
            log.append(value_of(session, 1))
        began = time.monotonic()
        tailer = log.tailer()
        assert [next_value(tailer) for _ in range(8)] == [
            value_of(session, 1) for session in range(1, 9)
        ]
        took = time.monotonic() - began
        print(
            f"8 dead owners behind a stopped one: {took:.3f} s with a timeout of "
            f"{claim_timeout:g} s"
        )
        assert took < 8 * claim_timeout
        stopped.resume()
        assert stopped.child.hear(1)[0].index == 1
        assert next_value(tailer) == value_of(0, 0)


def race(link: Link, path: str, rounds: int, claim_timeout: float) -> None:
    """Publish each claim at about its timeout, and report the outcome."""
    log, _ = open_log(path, None, {"flush": "none", "claim_timeout": AN_HOUR})
    numbers = random.Random(4)
    link.wait()
    for index in range(rounds):
        value = value_of(1, index)
        claim = log.claim(len(value))
        end = time.perf_counter() + claim_timeout * numbers.uniform(0.9, 1.2)
        try:
            with claim:
                claim.buffer[:] = value
                while time.perf_counter() < end:
                    pass
            link.say(PUBLISHED, 1, index, claim.position)
        except RolledBackError:
            link.say(ROLLED_BACK, 1, index, claim.position)
    log.append(b"over")
    link.say(OPENED, log.stats().refused_claims)
    log.close()


def watch_race(link: Link, path: str, claim_timeout: float) -> None:
    """Roll back claims that are not published in time, and report the records read."""
    log, _ = open_log(path, None, {"flush": "none", "claim_timeout": claim_timeout})
    tailer = log.tailer()
    link.say(OPENED)
    for record in tailer.follow(timeout=60, idle="spin"):
        if record.value == b"over":
            break
        link.say(APPENDED, 0, 0, record.position)
    link.say(OPENED, log.stats().rolled_back_claims)
    log.close()


def run_race(path: Path, rounds: int, start: Start) -> None:
    claim_timeout = 0.002
    with open_survivor(path, AN_HOUR) as log:
        readers = [start(watch_race, str(path), claim_timeout) for _ in range(2)]
        writer = start(race, str(path), rounds, claim_timeout)
        for reader in readers:
            reader.hear(1)
        writer.go_on()
        *outcomes, ended = writer.hear(rounds + 1, LIMIT_S)
        writer.join()
        published = [report.position for report in outcomes if report.kind == PUBLISHED]
        rolled_back = 0
        for reader in readers:
            *seen, counted = reader.hear(len(published) + 1, LIMIT_S)
            reader.join()
            assert [report.position for report in seen] == published
            rolled_back += counted.session
        # A busy machine may stop the writer so long between the add and the first swap that it
        # claims again.
        assert rolled_back == ended.session >= rounds - len(published), (
            "each roll-back was one reader's, and its writer noticed"
        )
        print(f"{len(published)} published, {rolled_back} rolled back")
        assert [record.position for record in log.tailer()][:-1] == published


def test_rollback_racing_a_publish_is_agreed_by_all_processes(path: Path, start: Start) -> None:
    run_race(path, 150, start)


@pytest.mark.long
def test_thousands_of_rollback_races_are_agreed_by_all(path: Path, start: Start) -> None:
    run_race(path, 3000, start)


def test_suspended_machine_expires_no_claim(path: Path, start: Start) -> None:
    """Owner and observer are stopped together for longer than the timeout, which counts only the
    observer's own time.

    The observer is awake from its first poll to the stop and from there to the publish: much less
    than the timeout, on a busy machine, too.
    """
    claim_timeout = 4.0
    with open_survivor(path, AN_HOUR):
        owner = start(claim_and_publish, str(path), 1)
        owner.hear(1)
        observer = start(watch_race, str(path), claim_timeout)
        observer.hear(1)
        for pid in (owner.pid, observer.pid):
            os.kill(pid, signal.SIGSTOP)
        stood_still = time.monotonic() + claim_timeout + 0.5
        while time.monotonic() < stood_still:
            time.sleep(0.01)
        for pid in (observer.pid, owner.pid):
            os.kill(pid, signal.SIGCONT)
        owner.go_on()
        assert owner.hear(1)[0].kind == PUBLISHED
        owner.join()
