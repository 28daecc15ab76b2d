"""Programs of the soak, each in a process of its own: what appends, reads, follows and promotes."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from pathlib import Path
from typing import Any

import commitlog
from commitlog import CommitLog, Retention, Store, TransientStorePool, replication
from commitlog.errors import CommitLogError, FencedError, PositionError, SyncTimeoutError
from tests.faults.child import Link
from tests.soak.account import SENDERS, Cells, Mark, Place, Seen, value_of

SEGMENT = 1 << 20
KEPT = 4 * SEGMENT  # of a log
_STORE: dict[str, Any] = {
    "every": 0.2,
    "max_age": "30s",
}  # so that it is full within the first minute
UP, ENDED, ROUND = "U", "E", "R"
_ROUND_S = 1.0
_ROUNDS_OPEN = 10  # then the log is closed and opened again
_SYNC_PAUSE_S, _ASYNC_PAUSE_S = 0.004, 0.001
_RULE = Retention(max_bytes=KEPT, interval="1s")
# The log with copies has fewer records a second, and is to be full within the first minute, too. No
# required tailer reads it: its reader must not be behind by more than this.
_PAIR_SEGMENT = SEGMENT // 4
PAIR_RULE = Retention(max_bytes=16 * _PAIR_SEGMENT, interval="1s")


class Senders:
    """Threads that append while the log is open: two wait for each record, of which one is a
    coroutine, and two do not.

    Parameters
    ----------
    path : str
        The log, beside the file of what is acknowledged.
    kept : bool
        Whether an append that does not wait survives a kill.
    """

    def __init__(self, path: str, session: int, kept: bool) -> None:
        self._cells = Cells(Path(path).with_name("acknowledged"))
        self._session = session
        self._kept = kept
        self._next = [1] * SENDERS
        self._ending = threading.Event()
        self.errors: list[BaseException] = []

    def run(self, log: CommitLog) -> list[threading.Thread]:
        self._ending.clear()
        works = [self._sync, self._coroutine, self._async, self._async]
        threads = [
            threading.Thread(target=self._caught, args=(work, log, sender))
            for sender, work in enumerate(works)
        ]
        for thread in threads:
            thread.start()
        return threads

    def stop(self, log: CommitLog, threads: list[threading.Thread]) -> None:
        """End the appends; all of them are acknowledged after a flush."""
        self._ending.set()
        for thread in threads:
            thread.join()
        if self.errors:
            raise self.errors[0]
        log.flush()
        for sender in range(SENDERS):
            self._note(sender, self._next[sender] - 1)

    def _caught(self, work: Any, log: CommitLog, sender: int) -> None:
        try:
            work(log, sender)
        except CommitLogError as error:
            self.errors.append(error)

    def _value(self, sender: int) -> bytes:
        return value_of(Mark(self._session, sender, self._next[sender]))

    def _note(self, sender: int, number: int) -> None:
        self._cells.set(Mark(self._session, sender, number))

    def _sync(self, log: CommitLog, sender: int) -> None:
        while not self._ending.wait(_SYNC_PAUSE_S) and not self.errors:
            value = self._value(sender)
            self._next[sender] += 1  # a record that waits too long stays in the log
            try:
                log.append(value, sync=True)
            except SyncTimeoutError:
                continue
            self._note(sender, self._next[sender] - 1)

    def _coroutine(self, log: CommitLog, sender: int) -> None:
        async def send() -> None:
            while not self._ending.is_set() and not self.errors:
                value = self._value(sender)
                self._next[sender] += 1
                try:
                    await log.append_async(value, sync=True)
                except SyncTimeoutError:
                    continue
                self._note(sender, self._next[sender] - 1)
                await asyncio.sleep(_SYNC_PAUSE_S)

        asyncio.run(send())

    def _async(self, log: CommitLog, sender: int) -> None:
        while not self._ending.wait(_ASYNC_PAUSE_S) and not self.errors:
            log.append(self._value(sender), sync=False)
            self._next[sender] += 1
            if self._kept:
                self._note(sender, self._next[sender] - 1)


def write(link: Link, path: str, session: int, backing: str | None, store: str | None) -> None:
    """Append until the file `stop` is there; open the log again every few rounds."""
    senders = Senders(path, session, kept=backing != "anonymous")
    stop = Path(path).with_name("stop")
    pool = None
    if backing is not None:
        pool = TransientStorePool(buffers=4, buffer_size=SEGMENT, backing=backing)
    while not stop.exists():
        options: dict[str, Any] = {"segment_size": SEGMENT} if pool is None else {"pool": pool}
        if store is not None:
            options["store"] = Store(store, **_STORE)
        with commitlog.open(path, retention=_RULE, **options) as log:
            link.say(UP)
            threads = senders.run(log)
            for number in range(_ROUNDS_OPEN):
                if stop.exists():
                    break
                time.sleep(_ROUND_S)
                _look(log, number)
            senders.stop(log, threads)
        # A closed log is a cycle of references with a mapping. Only what a collection leaves grows.
        del log
        gc.collect()
    if pool is not None:
        pool.close()
    link.say(ENDED)


def _look(log: CommitLog, number: int) -> None:
    """Use the log as its programs do beside the appends: tailers, a roll, figures."""
    with log.tailer(start="end", direction="backward") as tailer:
        for _ in range(100):
            tailer.read()
    with log.tailer(name=f"side{number % 3}") as tailer:
        try:
            tailer.read_batch(100)
        except PositionError:  # retention was faster
            tailer.seek("first")
    if number % 3 == 2:
        log.delete_tailer(f"side{number % 3}")
    log.roll()
    log.stats()


def write_beside(link: Link, path: str, session: int) -> None:
    """Append to a log of other processes, until it is killed."""
    senders = Senders(path, session, kept=True)
    with commitlog.open(path) as log:
        link.say(UP)
        for thread in senders.run(log):
            thread.join()


def read(link: Link, path: str, seen: str) -> None:
    """Read everything by a required tailer, until the log has ended and nothing is left."""
    account = Seen(Path(seen))
    drained = Path(path).with_name("drained")
    with (
        commitlog.open(path, mode="r", wait_for_log=60) as log,
        log.tailer(name="reader", start="first", required=True) as tailer,
    ):
        link.say(UP)
        while True:
            last = drained.exists()
            with tailer.reading(timeout=0.2) as record:
                if record is not None:
                    account.take(bytes(record.value))
                elif last:
                    break
    link.say(ENDED)


# --- the replicated log ---------------------------------------------------------------------------


def lead(link: Link, path: str, session: int, listen: str, store: str) -> None:
    """Be the primary: append with copies that acknowledge, until it is killed."""
    senders = Senders(path, session, kept=False)
    rule = replication.Replication(listen=listen, require=2, timeout=10)
    with commitlog.open(
        path,
        segment_size=_PAIR_SEGMENT,
        flush="sync",
        replicate=rule,
        retention=PAIR_RULE,
        store=Store(store, **_STORE),
    ) as log:
        link.say(UP)
        threads = senders.run(log)
        stop = Path(path).with_name("stop")
        while not stop.exists() and not senders.errors:
            time.sleep(_ROUND_S)
        senders.stop(log, threads)
    link.say(ENDED)


def follow(link: Link, url: str, path: str, name: str, listen: str) -> None:
    """Follow, and do so again when the follower has ended, until it is killed."""
    while True:
        try:
            with replication.follow(url, path, name=name, listen=listen) as follower:
                link.say(UP)
                follower.wait()
        except FencedError:
            raise
        except CommitLogError as error:
            print(error, flush=True)
            time.sleep(0.1)


def promote(link: Link, path: str, others: list[str], store: str) -> None:
    """Promote a copy. What the store has and no copy has was not acknowledged: it is waived."""
    replication.promote(path, others=others, store=Store(store), timeout=1, force="store")
    link.say(ENDED)


def read_replicated(link: Link, path: str, seen: str, place: str) -> None:
    """Read what is replicated, from where the last reader ended."""
    account, cell = Seen(Path(seen)), Place(Path(place))
    drained = Path(path).with_name("drained")
    with (
        commitlog.open(path, mode="r", wait_for_log=60) as log,
        log.tailer(visibility="replicated") as tailer,
    ):
        link.say(UP)
        if cell.position:
            tailer.seek(cell.position)
        while True:
            last = drained.exists()
            record = tailer.read(timeout=0.2)
            if record is not None:
                account.take(bytes(record.value))
                cell.position = record.position
            elif last:
                break
    link.say(ENDED)
