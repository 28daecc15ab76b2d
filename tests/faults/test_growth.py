"""Several processes write a log whose first segment still grows, at once or one after another."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import commitlog
from commitlog import CommitLog
from commitlog.log.parts import parts_of
from commitlog.segment.blocks import FIRST_BYTES
from tests.faults.child import Child, Link
from tests.segment.test_blocks import CALM, MIB, SIZE, SLACK, taken, values
from tests.setups import Logs
from tests.steps import die

Start = Callable[..., Child]


def test_several_processes_allocate_no_extra_blocks(tmp_path: Path, start: Start) -> None:
    path = tmp_path / "log"
    with commitlog.open(path):
        children = [start(append_three, str(path)) for _ in range(3)]
        for child in children:
            child.join()
        assert taken(path) <= 4 * MIB
    assert values(path) == [b"a line"] * 9


def append_three(link: Link, path: str) -> None:
    with commitlog.open(path) as log:
        for _ in range(3):
            log.append(b"a line")


def test_concurrent_writers_share_a_growing_segment(logs: Logs, start: Start) -> None:
    log = logs.open(segment_size=SIZE)
    children = [start(append_numbered, log.path, session) for session in range(3)]
    append_to(log, 3)
    for child in children:
        child.join()
    log.flush()
    assert parts_of(log).engine.allocated(0) == SIZE
    found = [bytes(record.value) for record in log.tailer()]
    assert sorted(found) == sorted(
        value for session in range(4) for value in numbered_values(session)
    )


def numbered_values(session: int) -> list[bytes]:
    return [b"%d:%d" % (session, index) * 200 for index in range(1500)]


def append_numbered(link: Link, path: str, session: int) -> None:
    with commitlog.open(path) as log:
        append_to(log, session)


def append_to(log: CommitLog, session: int) -> None:
    for value in numbered_values(session):
        log.append(value)


def test_recovery_after_kill_in_roll_allocates_no_blocks(logs: Logs, start: Start) -> None:
    path = logs.path / "log"
    child = start(leave_segment_and_die, str(path))
    child.wait()
    log = logs.open(segment_size=SIZE, **CALM)
    log.append(b"two")
    first = path / f"{0:020}.seg"
    assert first.stat().st_blocks * 512 <= FIRST_BYTES + SLACK
    assert [bytes(record.value) for record in log.tailer()] == [b"one", b"two"]


def leave_segment_and_die(link: Link, path: str) -> None:
    log = commitlog.open(path, segment_size=SIZE)
    log.append(b"one")
    parts_of(log).engine.tail = (0, SIZE)
    die()
