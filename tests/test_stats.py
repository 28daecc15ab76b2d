"""`log.stats()`: counters, and latencies with their percentiles."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import pickle
from collections.abc import Callable

import pytest

import commitlog
from commitlog import Latency
from commitlog.errors import InvalidOptionError
from commitlog.log.parts import parts_of
from tests.log_files import numbered
from tests.setups import BY_HAND, Logs, Setup

Until = Callable[..., None]
NAMES = [
    field.name
    for field in dataclasses.fields(commitlog.LogStats)
    if field.name.endswith("_latency")
]
HUNDRED = Latency(
    tuple((number * 1000, 1) for number in range(1, 101)), total_ns=5_050_000, longest_ns=99_990
)


def test_percentiles_round_up_to_the_longest_at_most() -> None:
    assert (HUNDRED.count, HUNDRED.mean_seconds) == (100, 50.5e-6)
    assert (HUNDRED.p50_seconds, HUNDRED.p99_seconds, HUNDRED.p999_seconds) == (
        50e-6,
        99e-6,
        99.99e-6,
    )
    assert (
        HUNDRED.percentile_seconds(0),
        HUNDRED.percentile_seconds(100),
        HUNDRED.longest_seconds,
    ) == (1e-6, 99.99e-6, 99.99e-6)


def test_empty_latency_is_zero() -> None:
    nothing = Latency()
    assert (
        nothing.count,
        nothing.mean_seconds,
        nothing.p50_seconds,
        nothing.p999_seconds,
        nothing.longest_seconds,
    ) == (0, 0, 0, 0, 0)
    assert nothing.since(nothing) == nothing


@pytest.mark.parametrize("percentile", [-1, 100.1, float("nan")])
def test_percentile_out_of_range_raises(percentile: float) -> None:
    with pytest.raises(InvalidOptionError, match="percentile must be from 0 to 100, not"):
        HUNDRED.percentile_seconds(percentile)


def test_since_returns_the_later_samples() -> None:
    now = Latency(
        (*HUNDRED.buckets[:-1], (100_000, 3), (200_000, 2)), HUNDRED.total_ns + 600_000, 190_000
    )
    assert now.since(HUNDRED) == Latency(((100_000, 2), (200_000, 2)), 600_000, 190_000)
    assert HUNDRED.since(HUNDRED) == Latency()


def test_stats_time_commits_flushes_and_syncs(setup: Setup, logs: Logs) -> None:
    log = logs.open_as(setup, **BY_HAND)
    for value in numbered(20):
        log.append(value, sync=True)
    log.append(b"not waited for", sync=False)
    stats = log.stats()
    assert stats.sync_latency.count == stats.syncs == 20
    assert stats.flush_latency.count == stats.flushes == 20
    assert stats.commit_latency.count == stats.commits >= 20
    assert 0 < stats.flush_latency.mean_seconds <= stats.sync_latency.mean_seconds
    for name in NAMES:
        latency = getattr(stats, name)
        assert (
            latency.p50_seconds
            <= latency.p99_seconds
            <= latency.p999_seconds
            <= latency.longest_seconds
        ), name
    assert stats.flushed_bytes <= stats.committed_bytes
    assert pickle.loads(pickle.dumps(stats)) == stats


def test_stats_time_the_waits_of_appends_for_rolls(setup: Setup, logs: Logs) -> None:
    log = logs.open_as(setup)
    log.append_many([bytes(8000)] * 40)
    stats = log.stats()
    assert stats.roll_latency.count >= stats.rolls >= 5
    assert stats.roll_latency.longest_seconds > 0


def test_stats_time_the_waits_of_commits_for_claims(logs: Logs) -> None:
    log = logs.open(**BY_HAND)
    with log.claim(64):
        assert not log.commit()
        assert log.stats().claim_latency.count == 0
    assert log.commit()
    held = log.stats().claim_latency
    assert (held.count, held.longest_ns > 0) == (1, True)


def test_stats_count_a_sync_append_that_timed_out(logs: Logs) -> None:
    # The open claim of another thread keeps the append from becoming durable.
    other = logs.open()
    log = logs.open(sync_timeout="50ms", claim_timeout=60)
    with other.claim(64):
        with pytest.raises(commitlog.errors.SyncTimeoutError):
            log.append(b"late", sync=True)
        assert log.stats().sync_latency.longest_seconds >= 0.05


def test_stats_count_coroutines_that_waited_for_a_flush(logs: Logs) -> None:
    log = logs.open(flush="sync")

    async def append_twice() -> None:
        await asyncio.gather(
            log.append_async(b"one"),
            log.append_async(b"two"),
            log.append_async(b"three", sync=False),
        )

    asyncio.run(append_twice())
    assert log.stats().syncs == 2


def test_stats_of_a_reader_have_watermarks_and_zeros(logs: Logs) -> None:
    log = logs.open(**BY_HAND)
    log.append(b"one", sync=True)
    log.append(b"two")
    stats = logs.open(mode="r").stats()
    assert (stats.tail_position, stats.flushed_position) == (
        log.tail_position,
        log.flushed_position,
    )
    assert (stats.records, stats.rolls, stats.syncs, stats.pool) == (0, 0, 0, None)
    assert all(getattr(stats, name) == Latency() for name in NAMES)
    parts_of(log).engine.fail(5)
    assert logs.open(mode="r").stats().failed == "Input/output error"
    with pytest.raises(commitlog.CommitLogError):
        log.close()


def test_forked_child_counts_its_own_stats(logs: Logs) -> None:
    log = logs.open(**BY_HAND)
    log.append(b"one", sync=True)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            log.append(b"two", sync=True)
            status = 0 if log.stats().syncs == 2 else 2
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert log.stats().syncs == 1


def test_printed_stats_are_a_table(logs: Logs) -> None:
    with logs.open(**BY_HAND) as log:
        log.append(b"one", sync=True)
        stats = log.stats()
    lines = str(stats).splitlines()
    words = {line.split()[0]: line.split() for line in lines if line}
    assert lines[1].split() == ["tail", f"{stats.tail_position:,}", "0"]
    assert [
        name in words
        for name in (
            "appended",
            "committed",
            "flushed",
            "commit",
            "flush",
            "sync",
            "roll",
            "claim",
            "lag",
        )
    ] == [True] * 9
    assert words["sync"][1] == "1"
    assert float(words["sync"][-1].replace(",", "")) == pytest.approx(
        stats.sync_latency.longest_seconds * 1e3, abs=1e-3
    )
    assert max(map(len, lines)) <= 100
