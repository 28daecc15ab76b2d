"""Collecting kernel objects as garbage, in any order, uses no freed memory."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import commitlog
from commitlog import Claim, CommitLog
from commitlog._kernel.engine import raise_event
from commitlog._kernel.readers import FollowIterator, RecordIterator, ValueIterator
from commitlog.errors import ClaimError
from commitlog.log.parts import parts_of
from tests.setups import BY_HAND, Logs


def offset_of_event(log: CommitLog) -> int:
    """Return the offset, in an engine object, of the word that `raise_event` increments."""
    engine = parts_of(log).engine
    size = type(engine).__basicsize__
    before = ctypes.string_at(id(engine), size)
    raise_event(engine)
    after = ctypes.string_at(id(engine), size)
    return next(at for at in range(size) if before[at] != after[at])


def test_collecting_a_claim_view_changes_no_foreign_memory(logs: Logs) -> None:
    log = commitlog.open(logs.path / "log", "a", logs.open("other", pool=logs.pool()).options)
    offset = offset_of_event(log)
    with contextlib.suppress(ClaimError), log.claim(100) as claim:
        view = claim.buffer[:10]
    log.roll()
    log.append(b"on")
    log.close()
    event = ctypes.c_uint32.from_address(id(None) + offset)
    before = event.value
    cycle = [log, view, claim]
    cycle.append(cycle)
    del log, view, claim, cycle
    gc.collect()
    assert event.value == before


def test_tailer_closed_during_a_read_is_safe(logs: Logs) -> None:
    log = logs.open(**BY_HAND)
    log.append_many([b"x"] * 100)
    for idle in ("spin", "yield", "backoff", "block"):
        tailer = log.tailer(start="end")
        thread = threading.Thread(target=tailer.read, args=(0.2, idle))
        thread.start()
        while thread.is_alive():
            tailer.close()
        thread.join()


COLLECT_ALWAYS = """
import gc, sys
gc.set_threshold(1)
import commitlog

pool = None
if sys.argv[2] == "pooled":
    pool = commitlog.TransientStorePool(buffers=3, buffer_size="64KiB", lock_memory="off")
log = commitlog.open(sys.argv[1], **({"pool": pool} if pool else {"segment_size": "64KiB"}))
values = [number.to_bytes(2, "little") * 2000 for number in range(100)]
log.append_many(values[:50])
for value in values[50:]:
    with log.claim(len(value)) as claim:
        claim.buffer[:] = value
log.flush()
tailer = log.tailer("name")
records = list(tailer)
cycle = [log, tailer, iter(tailer), [record.view() for record in records]]
cycle.append(cycle)
assert [record.value for record in records] == values
assert records[-1].sequence == 99
log.close()
"""


@pytest.mark.parametrize("backing", ["mapped", "pooled"])
def test_collection_at_every_allocation_is_harmless(
    tmp_path: Path, backing: str, run_python: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    done = run_python(COLLECT_ALWAYS, tmp_path / "log", backing)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("kind", [Claim, RecordIterator, ValueIterator, FollowIterator])
def test_objects_made_only_by_a_log_cannot_be_constructed(kind: type) -> None:
    with pytest.raises(TypeError):
        kind()
