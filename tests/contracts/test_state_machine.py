"""A log compared with a plain list: after any operations in any order, both hold the same
records.
"""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import tempfile
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import commitlog
from commitlog import CommitLog, Options, TransientStorePool
from commitlog.errors import PositionError
from commitlog.log.parts import parts_of
from tests.setups import BY_HAND, LARGEST_VALUE, PATIENT, SEGMENT, tuned

Backing = Literal["mapped", "anonymous", "shm"]


class Row(NamedTuple):
    """A record in the list."""

    position: int
    value: bytes
    key: bytes | None
    type: int


class Undone(Exception):  # noqa: N818 - it is no error
    """Leaves a claim without publishing it."""


def undo() -> None:
    raise Undone


SIZES = st.one_of(
    st.integers(0, 40), st.sampled_from([100, 1000, 4080, LARGEST_VALUE - 64, LARGEST_VALUE - 100])
)
VALUES = st.builds(
    lambda size, seed: bytes((seed + index) % 256 for index in range(size)),
    SIZES,
    st.integers(0, 255),
)
# Zeros, and bytes that look like frame words, which a reader could mistake for frames.
ODD_VALUES = st.one_of(
    VALUES, st.builds(bytes, SIZES), st.just(b"\x18\0\0\x10" * 12), st.just(b"\x08\0\0\x20" * 12)
)
KEYS = st.none() | st.binary(max_size=20)
TYPES = st.sampled_from([0, 0, 1, 2**32 - 1])
CHILD_STEPS = st.lists(
    st.one_of(ODD_VALUES, st.sampled_from(["commit", "flush", "roll", "open claim"])),
    min_size=1,
    max_size=12,
)


class LogMachine(RuleBasedStateMachine):
    """Drives one log. Background services are practically off, so that each step has only its own
    effect.
    """

    start_backing: ClassVar[Backing]

    def __init__(self) -> None:
        super().__init__()
        self.path = Path(tempfile.mkdtemp(prefix="commitlog-machine-"))
        self.rows: list[Row] = []
        self.committed = 0
        self.flushed = 0
        self.pool: TransientStorePool | None = None
        self.log: CommitLog | None = None

    @initialize(flush=st.sampled_from(["sync", "async", "none"]))
    def open_first(self, flush: str) -> None:
        self.flush_option: Any = flush
        self.open(self.start_backing)

    def open(self, backing: Backing) -> None:
        self.backing = backing
        self.pool = None if backing == "mapped" else make_pool(backing)
        self.log = open_log(self.path / "log", self.pool, self.flush_option)

    def close(self) -> None:
        if self.log is not None:
            self.log.close()
        if self.pool is not None:
            self.pool.close()
        self.log = self.pool = None

    def added(self, *rows: Row) -> None:
        self.rows += rows
        if self.flush_option == "sync":
            self.flushed = self.committed = len(self.rows)
        if self.backing == "mapped":
            self.committed = len(self.rows)

    # --- steps ------------------------------------------------------------------------------------

    @rule(value=ODD_VALUES, key=KEYS, kind=TYPES)
    def append(self, value: bytes, key: bytes | None, kind: int) -> None:
        assert self.log is not None
        self.added(Row(self.log.append(value, key=key, type=kind), value, key, kind))

    @rule(values=st.lists(st.tuples(ODD_VALUES, KEYS, TYPES), max_size=30))
    def append_many(self, values: list[tuple[bytes, bytes | None, int]]) -> None:
        assert self.log is not None
        columns = tuple(zip(*values, strict=True)) or ((), (), ())
        positions = self.log.append_many(columns[0], keys=columns[1], types=columns[2])
        self.added(
            *(Row(int(position), *row) for position, row in zip(positions, values, strict=True))
        )

    @rule(value=ODD_VALUES, key=KEYS, kind=TYPES, spare=st.integers(0, 50))
    def claim(self, value: bytes, key: bytes | None, kind: int, spare: int) -> None:
        assert self.log is not None
        spare = min(spare, LARGEST_VALUE - 8 - len(key or b"") - len(value))
        with self.log.claim(len(value) + spare, key=key, type=kind) as claim:
            claim.buffer[: len(value)] = value
            claim.truncate(len(value))
        self.added(Row(claim.position, value, key, kind))

    @rule(value=ODD_VALUES)
    def roll_back(self, value: bytes) -> None:
        assert self.log is not None
        claim = self.log.claim(len(value))
        claim.buffer[:] = value
        with pytest.raises(Undone), claim:
            undo()
        with pytest.raises(PositionError):
            self.log.read(claim.position)

    @rule()
    def commit(self) -> None:
        assert self.log is not None
        assert self.log.commit() is True
        self.committed = len(self.rows)

    @rule()
    def flush(self) -> None:
        assert self.log is not None
        assert self.log.flush() == self.log.tail_position
        self.committed = self.flushed = len(self.rows)

    @rule()
    def roll(self) -> None:
        assert self.log is not None
        self.log.roll()

    @rule(backing=st.sampled_from(["mapped", "anonymous", "shm"]))
    def reopen(self, backing: Backing) -> None:
        self.close()
        self.open(backing)
        self.committed = self.flushed = len(self.rows)

    @precondition(lambda self: self.rows)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        assert self.log is not None
        self.log.delete_before(data.draw(st.sampled_from(self.rows)).position)
        gone = sum(row.position < self.log.first_position for row in self.rows)
        self.rows = self.rows[gone:]
        self.committed, self.flushed = max(0, self.committed - gone), max(0, self.flushed - gone)
        numbers = parts_of(self.log).queue.numbers()
        assert numbers == list(range(numbers[0], numbers[-1] + 1))

    @rule(
        steps=CHILD_STEPS,
        backing=st.sampled_from(["mapped", "anonymous", "shm"]),
        after=st.sampled_from(["mapped", "anonymous", "shm"]),
    )
    def kill_another_writer(
        self, steps: list[bytes | str], backing: Backing, after: Backing
    ) -> None:
        """Let a child write to the log and kill it; only uncommitted records at the end may be
        lost.
        """
        self.close()
        safe = len(self.rows)
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            write_and_die(self.path / "log", backing, self.flush_option, steps, writer)
        os.close(writer)
        with os.fdopen(reader, "rb") as stream:
            said = stream.read()
        assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
        written, committed = pickle.loads(said)
        self.rows += written
        self.open(after)
        assert self.log is not None
        kept = len(list(self.log.tailer(visibility="flushed")))
        least = len(self.rows) if backing != "anonymous" else safe + committed
        assert least <= kept <= len(self.rows)
        self.rows = self.rows[:kept]
        self.committed = self.flushed = kept

    # --- invariants -------------------------------------------------------------------------------

    @invariant()
    def the_log_is_the_list(self) -> None:
        if self.log is None:
            return
        found = [
            Row(record.position, record.value, record.key, record.type)
            for record in self.log.tailer(visibility="appended")
        ]
        assert found == self.rows

    @invariant()
    def every_visibility_shows_a_beginning_of_it(self) -> None:
        if self.log is None:
            return
        flushed = self.log.tailer(visibility="flushed").read_batch().values()
        committed = list(self.log.tailer(visibility="committed").values())
        everything = [row.value for row in self.rows]
        assert flushed == everything[: len(flushed)]
        assert committed == everything[: len(committed)]
        assert self.flushed <= len(flushed) <= len(committed)
        assert self.committed <= len(committed)

    @precondition(lambda self: self.rows)
    @rule(data=st.data())
    def read_from_somewhere(self, data: st.DataObject) -> None:
        assert self.log is not None
        index = data.draw(st.integers(0, len(self.rows) - 1))
        row = self.rows[index]
        assert self.log.read(row.position).value == row.value
        assert (
            len(list(self.log.tailer(start=row.position, visibility="appended").values()))
            == len(self.rows) - index
        )

    @precondition(lambda self: self.rows)
    @rule(data=st.data())
    def look_inside_a_record(self, data: st.DataObject) -> None:
        """Only a record's own position is accepted, and a refused one changes nothing."""
        assert self.log is not None
        row = data.draw(st.sampled_from(self.rows))
        inside = (
            row.position + data.draw(st.integers(1, 16 + len(row.value) - 1))
            if row.value
            else row.position + 8
        )
        with pytest.raises(PositionError):
            self.log.read(inside)

    def teardown(self) -> None:
        self.close()
        shutil.rmtree(self.path)


def make_pool(backing: Backing) -> TransientStorePool:
    assert backing != "mapped"
    return TransientStorePool(
        buffers=2,
        buffer_size=SEGMENT,
        backing=backing,
        lock_memory="off",
        low_water=0,
        wait_timeout=60,
    )


def open_log(path: Path, pool: TransientStorePool | None, flush: Any) -> CommitLog:
    options = Options(segment_size=SEGMENT, pool=pool, flush=flush, **tuned({**BY_HAND, **PATIENT}))
    return commitlog.open(path, "a", options)


def write_and_die(
    path: Path, backing: Backing, flush: Any, steps: list[bytes | str], out: int
) -> None:
    """In the child: report what was written and how much of it was committed, then exit without
    closing the log.
    """
    try:
        log = open_log(path, None if backing == "mapped" else make_pool(backing), flush)
        rows: list[Row] = []
        committed = 0
        for step in steps:
            if isinstance(step, bytes):
                rows.append(Row(log.append(step, sync=False), step, None, 0))
            elif step == "commit":
                log.commit()
                committed = len(rows)
            elif step == "flush":
                log.flush()
                committed = len(rows)
            elif step == "roll":
                log.roll()
            elif steps.index(step) == len(steps) - 1:
                log.claim(100, sync=False).buffer[:5] = b"lost?"
        os.write(out, pickle.dumps((rows, committed)))
        os.kill(os.getpid(), signal.SIGKILL)
    finally:
        os._exit(1)


@pytest.mark.parametrize("backing", ["mapped", "anonymous", "shm"])
@pytest.mark.parametrize("examples", [8, pytest.param(80, marks=pytest.mark.long)])
def test_log_equals_a_list_after_any_operations(backing: Backing, examples: int) -> None:
    machine = type(f"LogMachineOn{backing.capitalize()}", (LogMachine,), {"start_backing": backing})
    run_state_machine_as_test(
        machine,
        settings=settings(
            settings.get_profile("fixed"), max_examples=examples, stateful_step_count=25
        ),
    )
