"""Writers to be killed: each record names its writer and its index, and is recognized by its
bytes.
"""

from __future__ import annotations

import itertools
import os
import random
import secrets
import threading
from typing import Any, NamedTuple

import commitlog
from commitlog import CommitLog, TransientStorePool
from commitlog.pool import shm
from tests.faults.child import Link
from tests.setups import PATIENT, tuned

SEGMENT_SIZE = 64 << 10
SHM_PREFIX = "COMMITLOG_TEST_SHM_PREFIX"
# Kinds of reports.
APPENDED, CLAIMED, PUBLISHED, OPENED = "A", "C", "P", "O"
CLAIM_EVERY = 9  # in the style "claims"


class Mark(NamedTuple):
    """The identity of a record: its session and its index there."""

    session: int
    index: int


def value_of(session: int, index: int) -> bytes:
    """Return the record with that mark: the mark and 0 to 700 bytes of its own pattern."""
    mark = b"%d:%d:" % (session, index)
    size = (session * 2654435761 + index * 40503) % 701
    return mark + (mark * (size // len(mark) + 1))[:size]


def mark_of(value: bytes) -> Mark:
    """Return the mark of a record; fail if `value_of` did not make it."""
    session, index, _ = bytes(value).split(b":", 2)
    assert value_of(int(session), int(index)) == bytes(value), f"not a record of ours: {value!r}"
    return Mark(int(session), int(index))


def _prefixed_name() -> str:
    """Return a random name of a buffer, with the prefix by which the test's clean-up finds it."""
    return f"/commitlog-{(os.environ.get(SHM_PREFIX, '') + secrets.token_hex(16))[:32]}"


class How(NamedTuple):
    """The options of a pool (None for a mapped log) and of the log."""

    pool: dict[str, Any] | None
    options: dict[str, Any]


def open_log(
    path: str, pool: dict[str, Any] | None, options: dict[str, Any]
) -> tuple[CommitLog, TransientStorePool | None]:
    """Open with a pool of the given options, or without one."""
    made = None
    if pool is not None:
        shm.new_name = _prefixed_name
        filled = {
            "buffers": 3,
            "buffer_size": SEGMENT_SIZE,
            "lock_memory": "off",
            "low_water": 0.0,
            "wait_timeout": 60,
        } | pool
        made = TransientStorePool(**filled)
        try:
            return commitlog.open(path, pool=made, **tuned(PATIENT | options)), made
        except BaseException:
            made.close()
            raise
    return commitlog.open(path, **tuned({"segment_size": SEGMENT_SIZE} | PATIENT | options)), None


def close_log(log: CommitLog, pool: TransientStorePool | None) -> None:
    """Close the log and its pool."""
    log.close()
    if pool is not None:
        pool.close()


def write(link: Link, path: str, session: int, style: str, how: How) -> None:
    """Append until killed, and report each record after its call has returned."""
    log, _ = open_log(path, *how)
    link.say(OPENED, session, 0, log.tail_position)
    STYLES[style](link, log, session)


def write_some(link: Link, path: str, session: int, count: int, how: How) -> None:
    """Append `count` records, report them, wait for permission, and close."""
    log, made = open_log(path, *how)
    for index in range(count):
        link.say(APPENDED, session, index, log.append(value_of(session, index)))
    link.say(OPENED, session, count, log.tail_position)
    link.wait()
    close_log(log, made)


def _append(link: Link, log: CommitLog, session: int) -> None:
    for index in itertools.count():
        link.say(APPENDED, session, index, log.append(value_of(session, index)))


def _append_many(link: Link, log: CommitLog, session: int) -> None:
    numbers = random.Random(session)
    index = 0
    while True:
        count = numbers.randint(1, 40)
        positions = log.append_many([value_of(session, index + step) for step in range(count)])
        for step, position in enumerate(positions.tolist()):
            link.say(APPENDED, session, index + step, position)
        index += count


def _claim(link: Link, log: CommitLog, session: int) -> None:
    """Make every ninth record a claim that stays open over the next records, the last ones until
    the kill.
    """
    numbers = random.Random(session)
    open_claims: list[tuple[Any, int]] = []
    for index in itertools.count():
        if index % CLAIM_EVERY:
            link.say(APPENDED, session, index, log.append(value_of(session, index)))
        else:
            claim = log.claim(len(value_of(session, index)))
            link.say(CLAIMED, session, index, claim.position)
            open_claims.append((claim, index))
        while len(open_claims) > numbers.randint(1, 3):
            claim, claimed = open_claims.pop(0)
            with claim:
                claim.buffer[:] = value_of(session, claimed)
            link.say(PUBLISHED, session, claimed, claim.position)


def _append_from_threads(link: Link, log: CommitLog, session: int) -> None:
    """Append from three threads, each with its own session."""
    for number in range(3):
        threading.Thread(target=_append, args=(link, log, session + number), daemon=True).start()
    threading.Event().wait()


STYLES = {
    "append": _append,
    "many": _append_many,
    "claims": _claim,
    "threads": _append_from_threads,
}
