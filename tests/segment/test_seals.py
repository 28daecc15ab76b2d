"""Seals: a segment is sealed with its counts once everything before its end is published."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from commitlog import CommitLog
from commitlog.log.parts import parts_of
from commitlog.segment.seals import Sealer
from tests.setups import BY_HAND, HEADER, SEGMENT, Logs, Setup


def seals(log: CommitLog) -> list[tuple[int, ...] | None]:
    return [
        parts_of(log).queue.get(number).segment.sealed() for number in parts_of(log).queue.numbers()
    ]


def test_seal_holds_end_sequence_count_and_timestamps(
    logs: Logs, setup: Setup, until: Callable[..., None]
) -> None:
    log = logs.open_as(setup)
    for stamp in (5, 9, 7):
        log.append(b"x" * 8, timestamp_ns=stamp)
    log.roll()
    log.append(b"y", timestamp_ns=20)
    log.roll()
    log.roll()
    log.append(b"z")
    log.commit()
    until(lambda: seals(log)[2] is not None)
    assert seals(log)[:4] == [
        (HEADER + 72, 0, 3, 5, 7, 9),
        (HEADER + 24, 3, 1, 20, 20, 20),
        (HEADER, 4, 0, 0, 0, 0),
        None,
    ]


def test_segment_with_an_open_claim_stays_unsealed(logs: Logs, until: Callable[..., None]) -> None:
    log = logs.open(claim_timeout=60, **BY_HAND)
    assert parts_of(log).writer.allocation is not None
    with ThreadPoolExecutor(1) as pool:
        claim = pool.submit(log.claim, 8).result()
    log.roll()
    log.append(b"next")
    assert parts_of(log).writer.allocation.sealed_below() == 0
    with claim:
        claim.buffer[:] = b"12345678"
    assert parts_of(log).writer.allocation.sealed_below() == 1
    assert seals(log)[0] is not None


def test_close_seals_every_segment_rolled_past(logs: Logs) -> None:
    """A pooled log that commits only at close cannot seal before."""
    with logs.open(pool=logs.pool(buffers=8), **BY_HAND) as log:
        for number in range(5):
            log.append(b"%d" % number)
            log.roll()
        assert parts_of(log).writer.allocation is not None
        assert parts_of(log).writer.allocation.sealed_below() == 0
    assert [seal is not None for seal in seals(logs.open(mode="r"))][:6] == [True] * 5 + [False]


def test_sequences_continue_after_a_restart(logs: Logs, until: Callable[..., None]) -> None:
    for _ in range(3):
        with logs.open() as log:
            log.append_many([b"a", b"b"])
            log.roll()
            log.append(b"c")
            assert parts_of(log).writer.allocation is not None
            parts_of(log).writer.allocation.sealed_below()
    found = [seal[1:3] for seal in seals(logs.open(mode="r")) if seal is not None]
    assert found == [(0, 2), (2, 3), (5, 3)]


def test_sealer_starts_after_the_last_seal(logs: Logs) -> None:
    log = logs.open(**BY_HAND)
    for _ in range(5):
        log.append(b"x")
        log.roll()
    first = Sealer(parts_of(log).queue)
    assert first.reached == -1
    first.seal_below(3)
    assert first.reached == 3
    second = Sealer(parts_of(log).queue)
    second.seal_below(5)
    assert second.reached == 5
    assert [seal[1] for seal in seals(log) if seal is not None] == [0, 1, 2, 3, 4]


def test_deletion_keeps_the_sequences_of_later_segments(logs: Logs) -> None:
    log = logs.open()
    for _ in range(5):
        log.append_many([b"x"] * 3)
        log.roll()
    log.flush()
    assert len(log.delete_before(5 * SEGMENT)) == 4
    log.append(b"y")
    log.roll()
    log.close()
    log = logs.open()
    log.append(b"z")
    assert parts_of(log).writer.allocation is not None
    parts_of(log).writer.allocation.sealed_below()
    assert [seal[1:3] for seal in seals(log) if seal is not None] == [(12, 3), (15, 1)]
