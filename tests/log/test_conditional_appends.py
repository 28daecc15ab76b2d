"""Appends with `expect=`: appended at that sequence, or not at all."""

from __future__ import annotations

import asyncio
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from commitlog import CommitLog
from commitlog.errors import (
    ClaimError,
    ClosedError,
    ConflictError,
    CorruptRecordError,
    ReadOnlyError,
    RecordTooLargeError,
    RecordTypeError,
    SequenceError,
)
from commitlog.log.parts import parts_of
from tests.setups import LARGEST_VALUE, SEGMENT, Logs, Setup, all_appended

MAPPED = Setup("none", "mapped")
BOTH = pytest.mark.parametrize("setup", [MAPPED, Setup("none", "anonymous")], ids=str)
BAD = [-1, True, False, 1.0, "0", b"0", 2**64, np.float64(0)]


def end_of(log: CommitLog) -> int:
    """The sequence of the next record."""
    last = log.last_sequence
    return 0 if last is None else last + 1


def test_append_at_the_expected_end_has_that_sequence(setup: Setup, logs: Logs) -> None:
    log = logs.open_as(setup)
    first = log.append(b"first", expect=0)
    second = log.append(b"second", key=b"key", type=3, timestamp_ns=5, expect=1, sync=False)
    assert (log.read(first).value, log.read(first).sequence) == (b"first", 0)
    record = log.read(second)
    assert (record.key, record.type, record.timestamp_ns) == (b"key", 3, 5)
    assert record.sequence == 1


@BOTH
@pytest.mark.parametrize("expect", [0, 2, 2**63])
def test_append_at_an_unexpected_end_is_refused(setup: Setup, logs: Logs, expect: int) -> None:
    log = logs.open_as(setup)
    log.append(b"there")
    end = log.tail_position
    for append in (
        lambda: log.append(b"never", expect=expect),
        lambda: log.append_many([b"never", b"never"], expect=expect),
    ):
        with pytest.raises(ConflictError, match=f"sequence 1, not at {expect}: nothing") as caught:
            append()
        assert (caught.value.expected, caught.value.actual) == (expect, 1)
        assert (caught.value.path, caught.value.position) == (log.path, end)
    assert log.tail_position == end
    log.append(b"next", expect=1)


@BOTH
@pytest.mark.parametrize("expect", BAD, ids=repr)
def test_bad_expect_raises_and_appends_nothing(setup: Setup, logs: Logs, expect: Any) -> None:
    log = logs.open_as(setup)
    for append in (
        lambda: log.append(b"never", expect=expect),
        lambda: log.append_many([b"never"], expect=expect),
        lambda: asyncio.run(log.append_async(b"never", expect=expect)),
        lambda: asyncio.run(log.append_many_async([b"never"], expect=expect)),
    ):
        with pytest.raises(RecordTypeError, match="expect must be a sequence"):
            append()
    assert all_appended(log) == []


def test_numpy_integer_is_accepted(logs: Logs) -> None:
    log = logs.open()
    log.append(b"first", expect=np.int64(0))
    log.append(b"second", expect=np.uint32(1))
    assert end_of(log) == 2


@BOTH
def test_conditional_and_other_appends_mix_over_rolls(setup: Setup, logs: Logs) -> None:
    """The count stays exact across values of every size, keys, batches, claims, and segments that
    are closed early.
    """
    seed = random.randrange(1 << 32)
    print("seed", seed)
    numbers = random.Random(seed)
    log = logs.open_as(setup)
    end = 0
    while log.tail_position < 12 * SEGMENT:
        way = numbers.random()
        size = numbers.choice([0, 7, 100, 2000, LARGEST_VALUE])
        if way < 0.5:
            log.append(bytes(size), expect=end)
        elif way < 0.6:
            log.append(bytes(size // 2), key=bytes(size // 3), expect=end)
        elif way < 0.7:
            log.append(bytes(size))
        elif way < 0.8:
            values = [bytes(numbers.randrange(60)) for _ in range(numbers.randrange(1, 100))]
            log.append_many(values, expect=end if way < 0.75 else None)
            end += len(values) - 1
        elif way < 0.9:
            with log.claim(size):
                pass
        elif way < 0.95:
            with pytest.raises(ConflictError):
                log.append(b"never", expect=end + numbers.choice([-1, 1]) if end else 1)
            end -= 1
        else:
            log.roll()
            end -= 1
        end += 1
    assert end_of(log) == end
    assert len(all_appended(log)) == end


@BOTH
def test_list_is_appended_as_a_whole_or_not_at_all(setup: Setup, logs: Logs) -> None:
    log = logs.open_as(setup)
    values = [b"%d" % number for number in range(200)]
    positions = log.append_many(values, expect=0)
    assert [log.read(position).value for position in positions[[0, 199]]] == [b"0", b"199"]
    with pytest.raises(ConflictError):
        log.append_many(values, expect=199)
    assert len(log.append_many(values, keys=values, expect=200)) == 200
    assert all_appended(log) == 2 * values


@BOTH
def test_list_larger_than_a_record_raises(setup: Setup, logs: Logs) -> None:
    log = logs.open_as(setup)
    with pytest.raises(RecordTooLargeError, match="with expect= a list is appended as a whole"):
        log.append_many([bytes(LARGEST_VALUE // 2)] * 3, expect=0)
    with pytest.raises(RecordTooLargeError):
        log.append(bytes(LARGEST_VALUE + 1), expect=0)
    assert end_of(log) == 0
    log.append_many([bytes(LARGEST_VALUE - 16), b""], expect=0)


def test_empty_list_with_expect_appends_nothing(logs: Logs) -> None:
    assert len(logs.open().append_many([], expect=7)) == 0


@BOTH
def test_one_thread_wins_each_sequence(setup: Setup, logs: Logs) -> None:
    log = logs.open_as(setup)
    others = [log] if setup.pooled else [log, logs.open(flush="none")]
    won: list[tuple[int, int]] = []

    def compete(name: int) -> None:
        handle = others[name % len(others)]
        mine = 0
        expect = 0
        while mine < 150:
            try:
                handle.append(b"%d %d" % (name, mine), expect=expect)
                won.append((expect, name))
                mine += 1
                expect += 1
            except ConflictError as conflict:
                expect = conflict.actual or 0

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(compete, range(6)))
    assert sorted(sequence for sequence, _ in won) == list(range(900))
    names = dict(won)
    records = list(log.tailer(visibility="appended"))
    assert [record.sequence for record in records] == list(range(900))
    assert [int(record.value.split()[0]) for record in records] == [names[n] for n in range(900)]


@BOTH
def test_append_waits_for_an_open_claim_below_the_end(setup: Setup, logs: Logs) -> None:
    log = logs.open_as(setup)
    log.append(b"first", expect=0)
    with ThreadPoolExecutor(1) as pool:
        with log.claim(5) as claim:
            claim.buffer[:] = b"claim"
            waiting = pool.submit(log.append, b"last", expect=2)
            assert not waiting.done()
        assert log.read(waiting.result()).sequence == 2
    assert all_appended(log) == [b"first", b"claim", b"last"]


@BOTH
def test_claim_that_is_rolled_back_leaves_the_end(setup: Setup, logs: Logs) -> None:
    log = logs.open_as(setup)
    with ThreadPoolExecutor(1) as pool:
        claim = log.claim(5)
        waiting = pool.submit(log.append, b"only", expect=0)
        claim.__exit__(ZeroDivisionError, ZeroDivisionError(), None)
        waiting.result()
    assert all_appended(log) == [b"only"]


@BOTH
def test_own_open_claim_raises_at_once(setup: Setup, logs: Logs) -> None:
    log = logs.open_as(setup)
    with log.claim(5):
        with pytest.raises(ClaimError):
            log.append(b"never", expect=1)
        with pytest.raises(ClaimError):
            asyncio.run(log.append_async(b"never", expect=1))
    log.append(b"second", expect=1)


def test_conflict_below_an_open_claim_raises_at_once(logs: Logs) -> None:
    """Records below the claim are already more than expected."""
    log = logs.open(flush="none")
    log.append_many([b"first", b"second"])
    with ThreadPoolExecutor(1) as pool:
        claim = pool.submit(log.claim, 5).result()
        with pytest.raises(ConflictError) as caught:
            log.append(b"never", expect=1)
        assert caught.value.actual == 2
        with claim:
            pass


def test_wait_for_successive_claims_has_a_limit(logs: Logs) -> None:
    """Each of them may use up the claim timeout, and the append waits twice as long and a second,
    not for all of them.
    """
    log = logs.open(flush="none", claim_timeout=0.02)
    with ThreadPoolExecutor(1) as pool:
        claims = pool.submit(lambda: [log.claim(1) for _ in range(300)]).result()
        with pytest.raises(SequenceError, match="nothing was appended"):
            log.append(b"never", expect=0)
    assert len(claims) == 300


@BOTH
def test_coroutine_does_not_block_its_loop_at_a_claim(setup: Setup, logs: Logs) -> None:
    log = logs.open_as(setup)

    async def run() -> int:
        with ThreadPoolExecutor(1) as pool:
            claim = pool.submit(log.claim, 5).result()
            waiting = asyncio.create_task(log.append_async(b"last", expect=1))
            beside = asyncio.create_task(log.append_many_async([b"beside", b"it"], expect=2))
            for _ in range(5):
                await asyncio.sleep(0.001)
            assert not waiting.done()
            with claim:
                claim.buffer[:] = b"claim"
            await beside
            return await waiting

    assert log.read(asyncio.run(run())).sequence == 1
    assert all_appended(log) == [b"claim", b"last", b"beside", b"it"]


def test_cancelled_coroutine_that_waits_appends_nothing(logs: Logs) -> None:
    log = logs.open(flush="none")

    async def run() -> None:
        with ThreadPoolExecutor(1) as pool:
            claim = pool.submit(log.claim, 5).result()
            waiting = asyncio.create_task(log.append_async(b"never", expect=1))
            await asyncio.sleep(0.001)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            with claim:
                claim.buffer[:] = b"claim"

    asyncio.run(run())
    assert all_appended(log) == [b"claim"]


def test_coroutine_that_conflicts_raises(logs: Logs) -> None:
    log = logs.open()
    with pytest.raises(ConflictError):
        asyncio.run(log.append_async(b"never", expect=1))
    with pytest.raises(ConflictError):
        asyncio.run(log.append_many_async([b"never"], expect=1))
    assert all_appended(log) == []


@BOTH
def test_reopened_log_continues_its_sequences(setup: Setup, logs: Logs) -> None:
    log = logs.open_as(setup)
    for sequence in range(500):
        log.append(bytes(500), expect=sequence)
    log.close()
    again = logs.open_as(setup)
    with pytest.raises(ConflictError) as caught:
        again.append(b"never", expect=0)
    assert caught.value.actual == 500
    again.append(b"after", expect=500)


@BOTH
def test_conditional_append_after_a_full_segment_succeeds(setup: Setup, logs: Logs) -> None:
    """The tail is at the end of a segment, and the next record goes to the next one."""
    log = logs.open_as(setup)
    log.append(b"first")
    parts_of(log).engine.close_segment()
    log.append(b"second", expect=1)
    log.append(b"third", expect=2)


def test_deleted_segments_still_count(logs: Logs) -> None:
    log, beside = logs.open(flush="sync"), logs.open(flush="none")
    beside.append(b"first", expect=0)
    log.append_array(np.zeros((1500, 500), np.uint8))
    for segment in (log.segment_size, 4 * log.segment_size):
        log.delete_before(segment)
    assert log.first_position > 2 * SEGMENT
    beside.append(b"after", expect=1501)
    log.append(b"last", expect=1502)


def test_handle_far_behind_counts_records_of_others(logs: Logs) -> None:
    log, beside = logs.open(flush="none"), logs.open(flush="none")
    beside.append(b"first", expect=0)
    log.append_array(np.zeros((4000, 500), np.uint8))
    with pytest.raises(ConflictError) as caught:
        beside.append(b"never", expect=0)
    assert caught.value.actual == 4001
    beside.append(b"after", expect=4001)


@pytest.mark.parametrize("failed", ["closed", "reader"])
def test_conditional_append_to_an_unusable_log_raises(logs: Logs, failed: str) -> None:
    log = logs.open()
    if failed == "closed":
        log.close()
        with pytest.raises(ClosedError):
            log.append(b"never", expect=0)
    else:
        with pytest.raises(ReadOnlyError):
            logs.open(mode="r").append(b"never", expect=0)


def test_forked_child_counts_sequences_itself(logs: Logs, in_child: Any) -> None:
    log = logs.open(flush="none")
    log.append(b"parent", expect=0)
    assert in_child(lambda: log.append(b"child", expect=1)) > 0
    with pytest.raises(ConflictError):
        log.append(b"never", expect=1)
    log.append(b"parent again", expect=2)


def test_damaged_frame_before_the_end_raises_its_position(logs: Logs) -> None:
    log = logs.open(flush="none")
    log.append(b"first", expect=0)
    damaged = log.append(b"second")
    with parts_of(log).queue.held(0, "a test") as segment:
        assert segment is not None
        path = segment.path
    with Path(path).open("r+b") as file:
        file.seek(damaged)
        whole = file.read(4)
        file.seek(damaged)
        file.write(b"\x03\x00\x00\x00")
        file.flush()
        with pytest.raises(CorruptRecordError) as caught:
            log.append(b"never", expect=2)
        file.seek(damaged)
        file.write(whole)
    assert caught.value.position == damaged
    log.append(b"third", expect=2)
