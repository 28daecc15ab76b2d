"""Messages sealed for their positions: several processes, kills and copies."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

import commitlog
from commitlog import CommitLog
from commitlog.topics.authentication import Authentication
from tests.topics.orders import Order, ended, records, run
from tests.topics.sealed import OLD, RING
from tests.topics.test_sealed_copies import (
    Made,
    archived,
    copied,
    followed,
    promoted,
    restored_from_archive,
    restored_from_store,
)
from tests.topics.test_sealed_positions import overtaken

pytest.importorskip("cryptography")
SEGMENT = "64KiB"
COUNT = 3000

WRITER = """
from commitlog.topics import KeyRing
ring, first, count = KeyRing.of_text(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
with commitlog.topic(
    sys.argv[1], Order, keys=ring, seal_positions=True, segment_size="64KiB"
) as orders:
    print("begun", flush=True)
    number = first
    while number < first + count:
        orders.append(Order(number, "x" * 100))
        orders.append_many([Order(number + more, "x" * 100) for more in range(1, 10)])
        number += 10
"""


def writing(path: Path, first: int, count: int) -> subprocess.Popen[str]:
    return run(WRITER, path, OLD, first, count)


def read(log: CommitLog) -> list[int]:
    """Return the numbers of the messages, all of which are authentic."""
    orders = commitlog.topic(log, Order, keys=RING, seal_positions=True)
    found = [order.id for order in orders.tailer()]
    authentication = Authentication(log, RING)
    assert (authentication.authentic, authentication.refused) == (len(found), 0)
    return found


@pytest.mark.parametrize("writers", [2, 4])
def test_processes_append_at_once_and_lose_nothing(tmp_path: Path, writers: int) -> None:
    programs = [writing(tmp_path / "log", each * COUNT, COUNT) for each in range(writers)]
    assert [ended(program) for program in programs] == [0] * writers
    with commitlog.open(tmp_path / "log", "r") as log:
        found = read(log)
    assert sorted(found) == list(range(writers * COUNT))
    for each in range(writers):
        own = [number for number in found if number // COUNT == each]
        assert own == sorted(own)


def test_killed_process_leaves_a_prefix(tmp_path: Path) -> None:
    first = writing(tmp_path / "log", 0, COUNT)
    killed = writing(tmp_path / "log", COUNT, 1_000_000)
    assert killed.stdout is not None
    killed.stdout.readline()
    assert ended(first) == 0
    killed.send_signal(signal.SIGKILL)
    assert ended(killed) == -signal.SIGKILL
    assert ended(writing(tmp_path / "log", 2_000_000, 100)) == 0
    with commitlog.open(tmp_path / "log", "r") as log:
        found = read(log)
    assert [number for number in found if number < COUNT] == list(range(COUNT))
    assert [number for number in found if number >= 2_000_000] == list(range(2_000_000, 2_000_100))
    own = [number for number in found if COUNT <= number < 2_000_000]
    assert own == list(range(COUNT, COUNT + len(own)))


@pytest.mark.parametrize(
    "made", [archived, followed, copied, promoted, restored_from_archive, restored_from_store]
)
def test_copy_has_the_messages_at_their_positions(
    log: CommitLog, tmp_path: Path, made: Made
) -> None:
    orders = commitlog.topic(log, Order, keys=RING, seal_positions=True)
    orders.append_many([Order(number, "x" * 200) for number in range(500)])
    log.flush()
    made(log, tmp_path / "copy")
    with commitlog.open(tmp_path / "copy", "r") as copy:
        assert read(copy) == list(range(500))


def test_kill_while_a_range_is_claimed_leaves_nothing(
    log: CommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = commitlog.topic(log, Order, keys=RING, seal_positions=True)
    orders.append(Order(0))
    child = os.fork()
    if child == 0:

        def act() -> None:
            if len(asked) == 9:
                os._exit(7)
            other.append(b"other")

        with commitlog.open(log.path) as other:
            asked = overtaken(monkeypatch, act, 9)
            orders.append(Order(1))
        os._exit(100)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    orders.append(Order(2), sync=True)
    assert read(log) == [0, 2]
    assert log.count() == len(records(log))
