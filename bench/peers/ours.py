"""commitlog in the roles of the comparison: ``python -m bench.peers.ours ROLE PATH KEY=VALUE...``.

Says "ready", waits for a line on standard input, works, and prints one JSON object: the protocol of
`MappedbusPeer.java`.
"""

from __future__ import annotations

import json
import os
import signal
import struct
import sys
import time
from array import array
from collections.abc import Callable, Iterator
from itertools import islice, repeat

import numpy as np
import numpy.typing as npt

import commitlog
from commitlog.errors import LogNotFoundError
from commitlog.tail.tailer import Tailer

SIZE = 12
ROWS_A_CALL = 1024
SIZES = range(258)
_STAMPED = struct.Struct("<qi")
_STAMP = np.dtype([("due_ns", "<i8"), ("number", "<i4")])
_PREPARATION_NS, _PREPARATION_EACH_NS = 200_000_000, 1_000
_FIND_S = 20.0
Result = dict[str, object]


class Peer:
    """One process's part in a row."""

    def __init__(self, path: str, settings: dict[str, str]) -> None:
        self.path = path
        self.form = settings.get("form", "")
        self.warm = int(settings["warm"])
        self.messages = int(settings["messages"])
        self.writers = int(settings["writers"])
        self.per_minute = int(settings["per_minute"])

    # --- appending and reading --------------------------------------------------------------------

    def log(self, suffix: str = "") -> commitlog.CommitLog:
        """Open to append. Nothing is flushed, as Mappedbus flushes nothing."""
        return commitlog.open(self.path + suffix, flush="none")

    def found(self, suffix: str = "") -> commitlog.CommitLog:
        """Open to read, once it is there."""
        deadline = time.monotonic() + _FIND_S
        while True:
            try:
                return commitlog.open(self.path + suffix, mode="r")
            except LogNotFoundError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.01)

    def write(self) -> Result:
        """Append as fast as it goes, one call a message or one call for many."""
        with self.log() as log:
            put = _put_array if self.form == "array" else _put_single
            wait_for_go()
            put(log, self.warm)
            began = time.perf_counter_ns()
            put(log, self.messages)
            return {"nanoseconds": time.perf_counter_ns() - began, "messages": self.messages}

    def read(self) -> Result:
        """Take every message, as it comes or as it stands there."""
        with self.found() as log, log.tailer() as tailer:
            wait_for_go()
            take = (
                _take_batches
                if self.form == "batch"
                else _take_records
                if self.form == "follow"
                else _take_values
            )
            take(tailer, self.writers * self.warm)
            began = time.perf_counter_ns()
            take(tailer, self.writers * self.messages)
            return {
                "nanoseconds": time.perf_counter_ns() - began,
                "messages": self.writers * self.messages,
            }

    # --- there and back ---------------------------------------------------------------------------

    def ping(self) -> Result:
        """Send, wait for the answer, and say how long that took."""
        taken = array("q", bytes(8 * self.messages))
        with self.log("-there") as log:
            wait_for_go()
            tailer = self.found("-back").tailer()
            answers = tailer.values(timeout=None, idle="spin")
            append, clock = log.append, time.perf_counter_ns
            for number in range(-self.warm, self.messages):
                value = _STAMPED.pack(0, number)
                began = clock()
                append(value)
                answer = next(answers)
                took = clock() - began
                if answer != value:
                    raise RuntimeError("another answer came")
                if number >= 0:
                    taken[number] = took
        return percentiles(taken)

    def pong(self) -> Result:
        """Answer each message with itself."""
        with self.log("-back") as log:
            wait_for_go()
            tailer = self.found("-there").tailer()
            append = log.append
            for value in islice(
                tailer.values(timeout=None, idle="spin"), self.warm + self.messages
            ):
                append(value)
        return {}

    # --- at a rate --------------------------------------------------------------------------------

    def paced_write(self) -> Result:
        """Each message carries when it was due: a writer that falls behind does not hide it."""
        with self.log() as log:
            wait_for_go()
            append, clock = log.append, time.perf_counter_ns
            for due, value in self._due():
                while clock() < due:
                    pass
                append(value)
        return {}

    def _due(self) -> Iterator[tuple[int, bytes]]:
        """When each message is due, and the message. Made before the first one is, since that takes
        as long as to append.
        """
        count = self.warm + self.messages
        began = time.perf_counter_ns() + _PREPARATION_NS + count * _PREPARATION_EACH_NS
        due = began + np.arange(count, dtype=np.int64) * 60_000_000_000 // self.per_minute
        stamped = np.empty(count, _STAMP)
        stamped["due_ns"], stamped["number"] = due, np.arange(count)
        content = stamped.tobytes()
        values = [content[at : at + SIZE] for at in range(0, len(content), SIZE)]
        made = zip(due.tolist(), values, strict=True)
        if time.perf_counter_ns() > began:
            raise RuntimeError(
                "the messages were not made in time: run it on a machine that does less beside it"
            )
        return made

    def paced_read(self) -> Result:
        """How long each message took from when it was due. What they say is looked at when all are
        there.
        """
        came = array("q", bytes(8 * self.messages))
        kept: list[bytes] = []
        with self.found() as log, log.tailer() as tailer:
            wait_for_go()
            clock, keep = time.perf_counter_ns, kept.append
            values = tailer.values(timeout=None, idle="spin")
            for _ in islice(values, self.warm):
                pass
            for number, value in enumerate(islice(values, self.messages)):
                came[number] = clock()
                keep(value)
        stamped = np.frombuffer(b"".join(kept), _STAMP)
        if not np.array_equal(stamped["number"], np.arange(self.warm, self.warm + self.messages)):
            raise RuntimeError("the messages came in another order")
        return percentiles(np.frombuffer(came, np.int64) - stamped["due_ns"])

    # --- what Mappedbus is not asked --------------------------------------------------------------

    def dead(self) -> Result:
        """Writers that were killed between claim and publish stand in a reader's way: how long
        until it reads on.
        """
        # Forked before this process has the log, and let go one by one while it has it: no
        # child finds the log without a writer.
        children = [self._will_die_with_a_claim() for _ in range(self.writers)]
        with (
            self.log() as log,
            self.found() as reading,
            log.tailer() as tailer,
            reading.tailer() as late,
        ):
            for child, go in children:
                os.write(go, b"!")
                os.close(go)
                os.waitpid(child, 0)
            wait_for_go()
            log.append(b"behind them")
            began = time.perf_counter_ns()
            record = tailer.read(timeout=60, idle="spin")
            took = time.perf_counter_ns() - began
            again = late.read(timeout=60)
            if record is None or record.value != b"behind them" or again != record:
                raise RuntimeError("the reader did not come past the dead claims")
            if log.stats().rolled_back_claims < self.writers:
                raise RuntimeError("there were fewer dead claims than writers")
        return {"nanoseconds": took, "messages": 1}

    def _will_die_with_a_claim(self) -> tuple[int, int]:
        """A child that claims once it can read a byte, and is killed before it publishes; and where
        to write the byte.
        """
        waits, go = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(go)
            os.read(waits, 1)
            claim = self.log().claim(SIZE)
            claim.buffer[:] = bytes(SIZE)
            os.kill(os.getpid(), signal.SIGKILL)
        os.close(waits)
        return child, go

    def sizes(self) -> Result:
        """Nanoseconds of an append for each size, and every message read back as it was."""
        with self.log() as log, log.tailer() as tailer:
            wait_for_go()
            lines = split_lock_lines()
            taken = [_time_of(log, bytes([size % 256]) * size, self.messages) for size in SIZES]
            for size in SIZES:
                value = bytes([size % 256]) * size
                if any(read != value for read in islice(tailer.values(), self.messages)):
                    raise RuntimeError(f"a value of {size} bytes was not read back as it was")
            after = split_lock_lines()
        return {
            "by_size": taken,
            "split_lock_lines": None if lines is None or after is None else after - lines,
        }


def _time_of(log: commitlog.CommitLog, value: bytes, count: int) -> float:
    append = log.append
    began = time.perf_counter_ns()
    for _ in repeat(None, count):
        append(value)
    return (time.perf_counter_ns() - began) / count


def _put_single(log: commitlog.CommitLog, count: int) -> None:
    append, value = log.append, bytes(SIZE)
    for _ in repeat(None, count):
        append(value)


def _put_array(log: commitlog.CommitLog, count: int) -> None:
    rows = np.zeros((ROWS_A_CALL, SIZE), np.uint8)
    for _ in repeat(None, count // ROWS_A_CALL):
        log.append_array(rows)
    log.append_array(rows[: count % ROWS_A_CALL])


def _take_values(tailer: Tailer, count: int) -> None:
    for _ in islice(tailer.values(timeout=None, idle="spin"), count):
        pass


def _take_records(tailer: Tailer, count: int) -> None:
    for _ in islice(tailer.follow(idle="spin"), count):
        pass


def _take_batches(tailer: Tailer, count: int) -> None:
    while count:
        count -= len(tailer.read_batch(min(count, 65536), timeout=None, idle="spin"))


def percentiles(taken: array[int] | npt.NDArray[np.int64]) -> Result:
    """Of nanoseconds: the median, those that one in a hundred and one in a thousand exceeds, and
    the largest.
    """
    ordered = np.sort(np.asarray(taken, np.int64))
    last = len(ordered) - 1
    at = {"p50": 0.5, "p99": 0.99, "p999": 0.999, "largest": 1.0}
    return {name: int(ordered[int(last * part)]) for name, part in at.items()}


def split_lock_lines() -> int | None:
    """How often the kernel's log speaks of a locked instruction across two cache lines; None where
    it may not be read.
    """
    try:
        descriptor = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    count = 0
    with open(descriptor, "rb", buffering=0) as lines:
        while True:
            try:
                line = lines.read(8192)
            except OSError:
                continue  # this line was overwritten before it was read
            if not line:
                return count
            count += b"split_lock" in line or b"split lock" in line


def wait_for_go() -> None:
    """All parts are in place before any of them begins."""
    print("ready", flush=True)
    sys.stdin.readline()


ROLES: dict[str, Callable[[Peer], Result]] = {
    "write": Peer.write,
    "read": Peer.read,
    "ping": Peer.ping,
    "pong": Peer.pong,
    "paced-write": Peer.paced_write,
    "paced-read": Peer.paced_read,
    "dead": Peer.dead,
    "sizes": Peer.sizes,
}


def main(arguments: list[str]) -> None:
    role, path, *settings = arguments
    result = ROLES[role](Peer(path, dict(setting.split("=", 1) for setting in settings)))
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
