"""A table of leases that another program overwrites neither crashes its workers nor hangs them."""

from __future__ import annotations

import os
import random
import struct
import tempfile
from types import SimpleNamespace

import pytest

from commitlog.queues.compiled.leases import TABLE_SIZE, Lease, LeaseTable

HEAD = 256  # the identity, which no operation reads
GUARDS = slice(256, 264), slice(472, 480)  # the instance, and the turns of worker 0
LOCK_AT = 264
FIGURES_END = 1024  # the counts, lists and terms are in front
DEAD_OWNER = (7 << 11) | 900
ROUNDS = 40


class Held(Lease):
    __slots__ = ()


def overwrite(memory: bytearray, numbers: random.Random) -> None:
    """Put random bytes in some places, often where counts and lists begin."""
    for _ in range(numbers.randrange(1, 200)):
        end = FIGURES_END if numbers.random() < 0.3 else TABLE_SIZE
        at = numbers.randrange(HEAD, end - 64)
        memory[at : at + 64] = numbers.randbytes(64)
    owner = 0 if numbers.random() < 0.7 else DEAD_OWNER
    struct.pack_into("<II", memory, LOCK_AT, owner, 0)


def use_while_overwritten(fd: int, numbers: random.Random) -> None:
    memory = bytearray(TABLE_SIZE)
    table = LeaseTable(memory, True, fd, "queue")
    table.format(0, (100, 3, 1000, 1000, numbers.random() < 0.5), 0, 1)
    table.become(0, os.getpid(), 1000)
    records = [
        SimpleNamespace(
            position=10 * n, key=numbers.choice([None, b"a"]), value=b"v", timestamp_ns=1, type=0
        )
        for n in range(20)
    ]
    table.add(0, 200, records, records[-1])
    held, _ = table.acquire(Held, None, 6, 1000, False)
    first, second, *_, last = held
    known = [memory[each] for each in GUARDS]
    overwrite(memory, numbers)
    for each, content in zip(GUARDS, known, strict=True):
        memory[each] = content  # as if nothing showed that it was overwritten
    operations = [
        lambda: table.acquire(Held, None, 4, 2000, False),
        lambda: table.expire(3000),
        lambda: table.wake_due(1 << 62),
        lambda: table.release(first, 5000, True),
        lambda: table.renew(second, 2000),
        lambda: table.finish(table.begin_accept([last], 5)[0]),
        lambda: table.doom(second),
        lambda: table.orphan(3, 0),
        table.next_event_ns,
        table.dead_workers,
        table.snapshot,
        table.workers,
        table.low,
    ]
    for operation in numbers.choices(operations, k=20):
        operation()
    struct.pack_into("<II", memory, LOCK_AT, DEAD_OWNER, 0)
    table.snapshot()  # takes the lock of a dead worker, and makes all lists anew


@pytest.mark.parametrize("seed", range(6))
def test_overwritten_table_ends_each_operation(seed: int) -> None:
    numbers = random.Random(seed)
    with tempfile.TemporaryFile() as file:
        for _ in range(ROUNDS):
            use_while_overwritten(file.fileno(), numbers)
