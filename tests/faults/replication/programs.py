"""Programs of the machines: what appends, follows, reads and promotes. Each says what it does."""

from __future__ import annotations

import itertools
import os
import signal
import threading
import time
from collections.abc import Callable

import commitlog
from commitlog import Store, replication
from commitlog.base import failpoint
from commitlog.errors import CommitLogError, FencedError, SyncTimeoutError
from commitlog.stores import object_target

SEGMENT = 64 << 10
TURNS = 4
Say = Callable[..., None]
_PAUSE_S = 0.05  # of a supervisor, before it starts again what has ended
_STORE_EVERY_S = 0.1


def shorten_waits() -> None:
    """Have this process notice within a round that a bucket hangs."""
    object_target._SILENT_S, object_target._PAUSE_S = 0.5, 0.01
    object_target._TRIES_S, object_target._TRIES_MOST = 3, 2


def payload(number: int) -> bytes:
    """Return the record of a number."""
    return b"%d " % number * (1 + number % 100)


def append(
    say: Say, *, path: str, listen: str, store: str, require: int, first: int, threads: int
) -> None:
    """Append numbers from `first` on, and say which ones are acknowledged, and when their appends
    began; open the log again when it fails, until it is fenced.
    """
    rule = replication.Replication(listen=listen, require=require, timeout=1)
    numbers = [itertools.count(first + turn, TURNS) for turn in range(threads)]
    if threads == 1:
        numbers = [itertools.count(first)]
    while True:
        try:
            with commitlog.open(
                path,
                segment_size=SEGMENT,
                flush="sync",
                replicate=rule,
                store=Store(store, every=_STORE_EVERY_S),
            ) as log:
                say("up")
                _append_to(say, log, numbers)
        except FencedError as error:
            say("fenced", str(error))
            return
        except CommitLogError as error:
            say("failed", str(error))
            threading.Event().wait(_PAUSE_S)


def _append_to(say: Say, log: commitlog.CommitLog, numbers: list[itertools.count[int]]) -> None:
    errors: list[CommitLogError] = []

    def run(mine: itertools.count[int]) -> None:
        while not errors:
            number, began_ns = next(mine), time.monotonic_ns()
            try:
                log.append(payload(number))
            except SyncTimeoutError:
                continue
            except CommitLogError as error:
                errors.append(error)
            else:
                say("acknowledged", number, began_ns)

    started = [threading.Thread(target=run, args=(each,)) for each in numbers]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    fenced = [error for error in errors if isinstance(error, FencedError)]
    raise (fenced or errors)[0]


def follow(say: Say, *, url: str, path: str, name: str, listen: str) -> None:
    """Follow, and do so again when the follower has ended."""
    while True:
        try:
            with replication.follow(
                url, path, name=name, listen=listen, connect_timeout=5
            ) as follower:
                say("up")
                follower.wait()
        except CommitLogError as error:
            say("ended", str(error))
            threading.Event().wait(_PAUSE_S)


def serve(say: Say, *, path: str, listen: str) -> None:
    """Offer a log that no program writes, so that it can promise."""
    with replication.serve(path, listen=listen):
        say("up")
        signal.pause()


def read(say: Say, *, place: str, visibility: str) -> None:
    """Read from the end on, and say position and number of each record."""
    while True:
        try:
            with (
                commitlog.open(place, "r") as log,
                log.tailer(start="end", visibility=visibility) as tailer,
            ):
                while True:
                    record = tailer.read(timeout=1)
                    if record is not None:
                        say("read", record.position, int(bytes(record.value).split(b" ")[0]))
        except CommitLogError as error:
            say("ended", str(error))
            threading.Event().wait(_PAUSE_S)


def promote(
    say: Say,
    *,
    path: str,
    others: list[str],
    require: int,
    store: str | None,
    killed_at: int,
    forces: bool,
) -> None:
    """Promote a log; say its rank and start, or why not. `killed_at`: die at that step. `forces`:
    do so although the store has records that no copy has acknowledged.
    """
    steps = itertools.count(1)

    def passed(name: str) -> None:
        if next(steps) == killed_at:
            say("killed", name)
            os.kill(os.getpid(), signal.SIGKILL)

    if killed_at:
        failpoint.hook = passed
    try:
        epoch = replication.promote(
            path,
            others=others,
            require=require,
            store=None if store is None else Store(store),
            force="store" if forces else (),
            timeout=10,
        )
        say("promoted", epoch.number, epoch.id, epoch.start, time.monotonic_ns())
    except CommitLogError as error:
        say("refused", str(error))
