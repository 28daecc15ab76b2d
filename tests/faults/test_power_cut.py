"""Power cuts at random moments: everything flushed is there, for any subset of other pages that the
kernel wrote back.
"""

from __future__ import annotations

import itertools
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

import commitlog
from commitlog._kernel.memory import read_checkpoint
from commitlog.flush.checkpoint import Checkpoint
from tests.faults import image
from tests.faults.account import Account
from tests.faults.child import Child, Link, Report
from tests.faults.shim import Shim
from tests.faults.writers import (
    APPENDED,
    OPENED,
    SEGMENT_SIZE,
    How,
    close_log,
    open_log,
    value_of,
    write_some,
)
from tests.length import long_count

Start = Callable[..., Child]
Until = Callable[[Callable[[], bool]], None]
FLUSHED = "F"
CUTS = 12
LONG_CUTS = long_count(120)
POOLS: dict[str, dict[str, Any] | None] = {"mapped": None, "pooled": {}, "shm": {"backing": "shm"}}
QUICK = {
    "flush_interval": 0.001,
    "flush_least_pages": 0,
    "checkpoint_interval": 0.001,
    "sync_timeout": 60,
}


def append_and_flush(link: Link, path: str, sync: bool, pool: dict[str, Any] | None) -> None:
    """Append until killed: each record is synced, or the records are flushed at intervals, by
    `flush` and by the service.
    """
    log, _ = open_log(path, pool, QUICK | {"flush": "sync" if sync else "async"})
    for index in itertools.count():
        position = log.append(value_of(0, index))
        link.say(APPENDED, 0, index, position)
        if sync:
            link.say(FLUSHED, 0, index, position + 1)
        elif index % 100 == 0:
            link.say(FLUSHED, 0, index, log.flush())
        elif index % 10 == 0:
            link.say(FLUSHED, 0, index, log.flushed_position)


@pytest.fixture
def run_cuts(
    tmp_path: Path, numbers: random.Random, start: Start, shim: Shim
) -> Callable[[bool, str, int], None]:
    """Return a function that stops a writer at random moments and checks what a power cut would
    leave.
    """

    def run(sync: bool, kind: str, cuts: int) -> None:
        live = tmp_path / "live"
        child = start(
            append_and_flush,
            str(live),
            sync,
            POOLS[kind],
            environment=shim.environment(shadow=True),
        )
        reports: list[Report] = []
        for turn in range(cuts):
            reports += child.hear(numbers.randint(2, 60 if sync else 400))
            reports += child.pause()
            target = tmp_path / f"cut-{turn}"
            shim.shadow.cut_power(
                live, target, numbers, numbers.choice([0.0, 0.0, 0.2, 0.5, 0.9, 1.0])
            )
            flushed = max(
                (report.position for report in reports if report.kind == FLUSHED), default=0
            )
            account = Account()
            account.note(
                report
                for report in reports
                if report.kind == APPENDED and report.position < flushed
            )
            check_cut(target, account)
            shutil.rmtree(target)
            child.resume()
        child.kill()

    return run


def check_cut(target: Path, account: Account) -> None:
    """Open the remains of a power cut twice, with appends in between."""
    log, made = open_log(str(target), None, {})
    account.check(log)
    end = log.tail_position
    assert image.behind(target, end) == b""
    for index in range(40):
        log.append(value_of(5, index))
    account.check(log)
    close_log(log, made)
    assert image.temporaries(target) == []
    log, made = open_log(str(target), {}, {})
    account.check(log)
    close_log(log, made)


@pytest.mark.parametrize("kind", POOLS)
@pytest.mark.parametrize("sync", [True, False], ids=["sync", "flush"])
def test_everything_flushed_survives_power_cuts(
    kind: str, sync: bool, run_cuts: Callable[[bool, str, int], None]
) -> None:
    run_cuts(sync, kind, CUTS)


def append_and_idle(link: Link, path: str, kind: str, flush: str) -> None:
    """Append and flush a burst, then do nothing until killed."""
    options = {"flush": flush, "flush_interval": 0.01, "checkpoint_interval": 0.2}
    log, _ = open_log(path, POOLS[kind], options)
    for index in range(100):
        link.say(APPENDED, 0, index, log.append(value_of(0, index)))
    link.say(FLUSHED, 0, 99, log.flush())
    link.wait()


@pytest.mark.parametrize(
    ("kind", "flush"), [("mapped", "sync"), ("mapped", "none"), ("pooled", "sync"), ("shm", "none")]
)
def test_damage_in_a_burst_before_an_idle_time_is_not_cut(
    path: Path, kind: str, flush: str, *, start: Start, shim: Shim, until: Until
) -> None:
    """The checkpoint covers the burst durably, so even a lost sector in it is no torn tail."""
    environment = shim.environment(shadow=True)
    child = start(append_and_idle, str(path), kind, flush, environment=environment)
    reports = child.hear(101)
    flushed = reports[-1].position
    until(lambda: checkpoint_of(path, shim).position == flushed)
    child.kill()
    harmed = next(report.position for report in reports[20:] if report.position % 512 < 400)
    for name, harm in (("flipped", b"?"), ("lost", bytes(512))):
        remains = path.with_name(name)
        shim.shadow.cut_power(path, remains, random.Random(0), 0.0)
        at = harmed % SEGMENT_SIZE
        at = at + 17 if name == "flipped" else at - at % 512
        image.poke(image.segment_path(remains, harmed), at, harm)
        log, made = open_log(str(remains), None, {})
        with log.tailer(on_damage="skip") as tailer:
            read = {record.position for record in tailer}
            first, behind = tailer.damaged[0]
        assert len(tailer.damaged) == 1
        assert log.tail_position == flushed
        assert {each.position for each in reports[:-1]} - read == {
            each.position for each in reports[:-1] if first <= each.position < behind
        }
        close_log(log, made)
        assert not list(remains.glob("*.cut"))


def append_and_delete(link: Link, path: str, sync: bool) -> None:
    """Append some segments, and delete the first ones at once; then do nothing until killed."""
    flush = {"flush": "sync" if sync else "none"}
    log, _ = open_log(path, None, flush | {"checkpoint_interval": 3600})
    for index in range(600):
        log.append(value_of(0, index), sync=False)
    log.flush()
    log.delete_before(log.last_position)
    with log.tailer() as tailer:
        for record in tailer:
            link.say(APPENDED, 0, record.sequence, record.position)
    link.say(FLUSHED, 0, 600, log.flushed_position)
    link.wait()


@pytest.mark.parametrize("written_share", [0.0, 0.5])
@pytest.mark.parametrize("sync", [True, False], ids=["sync", "none"])
def test_power_cut_after_a_deletion_keeps_what_is_left(
    path: Path, sync: bool, written_share: float, start: Start, shim: Shim
) -> None:
    """The checkpoint is not below the first segment, and a reader sees what a writer recovers."""
    child = start(append_and_delete, str(path), sync, environment=shim.environment(shadow=True))
    reports: list[Report] = []
    while not reports or reports[-1].kind != FLUSHED:
        reports += child.hear(1)
    child.kill()
    first = int(image.segments(path)[0].stem)
    assert first > 0
    assert checkpoint_of(path, shim).position >= first
    remains = path.with_name("remains")
    shim.shadow.cut_power(path, remains, random.Random(0), written_share)
    expected = [(report.index, report.position) for report in reports[:-1]]
    for mode in ("r", "a", "r"):
        with commitlog.open(remains, mode) as log:
            found = [(record.sequence, record.position) for record in log.tailer()]
            assert found[-len(expected) :] == expected
            assert log.first_sequence == found[0][0]


def open_and_wait(link: Link, path: str, kind: str) -> None:
    log, _ = open_log(path, POOLS[kind], {"flush": "none"})
    link.say(OPENED, 0, 0, log.tail_position)
    link.wait()


@pytest.mark.parametrize("recoverer", POOLS)
@pytest.mark.parametrize("writer", ["mapped", "shm"])
def test_records_exposed_by_recovery_survive_a_power_cut(
    path: Path, writer: str, recoverer: str, start: Start, shim: Shim
) -> None:
    """Killed, recovered in the same boot, then a power cut: readers may have seen every record."""
    remains = path.with_name("remains")
    child = start(
        write_some,
        str(path),
        0,
        300,
        How(POOLS[writer], {"flush": "none"}),
        environment=shim.environment(shadow=True),
    )
    account = Account()
    account.note(child.hear(301))
    child.kill()
    child = start(open_and_wait, str(path), recoverer, environment=shim.environment(shadow=True))
    child.hear(1)
    child.pause()
    shim.shadow.cut_power(path, remains, random.Random(0), 0.0)
    check_cut(remains, account)
    child.kill()
    open_log(str(path), None, {})[0].close()


@pytest.mark.parametrize("kind", POOLS)
def test_clean_mark_is_durably_removed_before_the_first_claim(
    path: Path, kind: str, start: Start, shim: Shim
) -> None:
    for _ in range(2):
        child = start(
            write_some,
            str(path),
            0,
            0,
            How(POOLS[kind], {}),
            environment=shim.environment(shadow=True),
        )
        child.hear(1)
        assert not checkpoint_of(path, shim).clean
        child.go_on()
        child.join()
        assert checkpoint_of(path, shim).clean


def checkpoint_of(path: Path, shim: Shim) -> Checkpoint:
    """Return the checkpoint as a power cut would leave it."""
    uuid = UUID(json.loads((path / "log.json").read_text())["uuid"]).bytes
    found = read_checkpoint(shim.shadow.durable(path / "checkpoint"), uuid)
    assert found is not None
    return Checkpoint(position=found[0], clean=found[1], count=found[2])


@pytest.mark.long
@pytest.mark.parametrize("kind", POOLS)
@pytest.mark.parametrize("sync", [True, False], ids=["sync", "flush"])
def test_everything_flushed_survives_hundreds_of_power_cuts(
    kind: str, sync: bool, run_cuts: Callable[[bool, str, int], None]
) -> None:
    run_cuts(sync, kind, LONG_CUTS)
