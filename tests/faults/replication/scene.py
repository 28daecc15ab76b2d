"""A primary and a follower in processes of their own, and an account of acknowledged records."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path
from typing import Self

import commitlog
from commitlog import replication
from commitlog.repair.verification import verify
from tests.host import start_code

LIMIT_S = 60.0
SEGMENT = 64 << 10

# Appends numbers, and prints each one with the time of its begin once enough copies have it.
_PRIMARY = """
import sys, time
import commitlog
from commitlog import replication
with commitlog.open(sys.argv[1], segment_size=65536, flush="sync") as log:
    with replication.serve(sys.argv[1]) as server:
        print(server.port, flush=True)
        for number in range(int(sys.argv[2]), 1 << 30):
            began_ns = time.monotonic_ns()
            position = log.append(b"%d " % number * (1 + number % 500))
            if server.wait_replicated(position, copies=int(sys.argv[3]), timeout=0.2):
                print(number, began_ns, flush=True)
"""

# Follows again whenever the follower has ended, as a supervisor does.
_FOLLOWER = """
import sys
from commitlog import replication
from commitlog.errors import CommitLogError
while True:
    try:
        with replication.follow(*sys.argv[1:3], name=sys.argv[3], connect_timeout=5) as follower:
            follower.wait()
    except CommitLogError as error:
        print(error, file=sys.stderr, flush=True)
"""


class Process:
    """Python code in a process of its own, which is killed at the end of the block."""

    def __init__(self, code: str, *arguments: object) -> None:
        self._child = start_code(
            code,
            *arguments,
            imports=("commitlog.replication",),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def kill(self) -> None:
        self._child.kill()
        self._child.wait(LIMIT_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        assert self._child.stdout is not None
        self._child.stdout.close()


class Follower(Process):
    """A follower that is started again when it ends."""

    def __init__(self, url: str, path: Path) -> None:
        super().__init__(_FOLLOWER, url, path, path.name)


class Primary(Process):
    """A primary that appends numbers from `first` on, each after the one before was acknowledged or
    0.2 s have passed.
    """

    def __init__(self, path: Path, first: int, copies: int = 1) -> None:
        super().__init__(_PRIMARY, path, first, copies)
        assert self._child.stdout is not None
        self.port = int(self._child.stdout.readline())
        self.acknowledged: dict[int, int] = {}  # when the append began, by number
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            words = line.split()
            if len(words) < 2 or not line.endswith("\n"):
                continue  # the kill has torn the last line
            with self._news:
                self.acknowledged[int(words[0])] = int(words[1])
                self._news.notify_all()

    def acknowledge(self, count: int) -> None:
        """Wait until so many more records are acknowledged."""
        with self._news:
            wanted = len(self.acknowledged) + count
            assert self._news.wait_for(lambda: len(self.acknowledged) >= wanted, LIMIT_S)

    def kill(self) -> None:
        """Kill the process, then take what it had acknowledged before."""
        super().kill()
        self._reader.join(LIMIT_S)


def numbers_of(path: Path) -> list[int]:
    """Return the numbers in a log."""
    with commitlog.open(path, "r") as log, log.tailer() as tailer:
        return [int(bytes(value).partition(b" ")[0]) for value in tailer.values()]


def check_account(path: Path, acknowledged: set[int]) -> int:
    """Check that a log is sound and has each acknowledged number, none twice; return the next."""
    found = numbers_of(path)
    assert acknowledged <= set(found), sorted(acknowledged - set(found))
    assert found == sorted(set(found))
    assert verify(path).sound
    return found[-1] + 1 if found else 0


def rejoin(primary: Path, copy: Path) -> None:
    """Have a former primary follow the new one, and check that they do not differ."""
    with (
        replication.serve(primary) as server,
        replication.follow(server.url(), copy) as follower,
        commitlog.open(primary, "r") as log,
    ):
        assert follower.wait(log.committed_position, LIMIT_S)
    assert numbers_of(copy) == numbers_of(primary)
