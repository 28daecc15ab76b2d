"""Back-pressure: appends wait for a required tailer that lags too far, raise, or are dropped and
counted; or the tailer is evicted.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import commitlog
from commitlog.errors import ClosedError, InvalidOptionError, RecordTooLargeError, TailerLagError
from tests.setups import LARGEST_VALUE, SEGMENT, Logs, Setup
from tests.tail.lagging import FRAME, MAX_LAG, VALUE, append_until_refused, required

# --- raise ----------------------------------------------------------------------------------------


def test_append_past_max_lag_is_refused_naming_the_tailer(logs: Logs, setup: Setup) -> None:
    log = logs.open_as(setup, on_lag="raise")
    tailer = required(log)
    # The first append after the declaration is not checked. The append that passes the limit is the
    # last one.
    assert append_until_refused(log) == 21
    for _ in range(3):
        with pytest.raises(
            TailerLagError,
            match="'a' is 2520 bytes behind, and its max_lag is 2400: nothing was appended",
        ) as caught:
            log.append(VALUE)
    assert (caught.value.name, caught.value.position) == ("a", tailer.position)
    assert pickle.loads(pickle.dumps(caught.value)).name == "a"
    for _ in range(3):
        assert tailer.read() is not None
    assert append_until_refused(log) == 3
    assert len(list(tailer)) == 21
    assert append_until_refused(log) == 21
    assert log.stats().records == 45


def test_every_kind_of_append_is_refused(logs: Logs) -> None:
    log = logs.open(on_lag="raise")
    tailer = required(log)
    append_until_refused(log)
    end = log.tail_position
    rows = np.zeros((10, 100), dtype=np.uint8)
    calls: list[Callable[[], Any]] = [
        lambda: log.append(VALUE, key=b"k"),
        lambda: log.append_many([VALUE] * 3),
        lambda: log.append_array(rows),
        lambda: log.append_arrow(pa.array([VALUE] * 3)),
        lambda: log.claim(10),
    ]
    for call in calls:
        with pytest.raises(TailerLagError):
            call()
    assert log.tail_position == end
    list(tailer)
    for call in calls[:-1]:
        list(tailer)
        call()


def test_too_large_record_at_the_lag_limit_is_refused(logs: Logs) -> None:
    log = logs.open(on_lag="raise")
    required(log)
    append_until_refused(log)
    large = bytes(LARGEST_VALUE + 1)
    for call in (
        lambda: log.append_many([large]),
        lambda: log.claim(len(large)),
        lambda: log.append(large),
    ):
        with pytest.raises((RecordTooLargeError, TailerLagError)):
            call()
    with pytest.raises(RecordTooLargeError):
        log.append_array(np.zeros((2, LARGEST_VALUE + 1), dtype=np.uint8))


def test_required_tailer_without_max_lag_delays_no_append(logs: Logs) -> None:
    log = logs.open(on_lag="raise")
    log.tailer("a", required=True).close()
    log.tailer("b").close()
    log.append_many([VALUE] * 20_000)
    assert log.count() == 20_000


def test_slowest_of_several_required_tailers_sets_the_limit(logs: Logs) -> None:
    log = logs.open(on_lag="raise")
    fast, slow = required(log, "fast"), required(log, "slow")
    append_until_refused(log)
    list(fast)
    with pytest.raises(TailerLagError, match="'slow'"):
        log.append(VALUE)
    list(slow)
    log.append(VALUE)


def test_padding_at_the_end_of_a_segment_is_no_lag(logs: Logs) -> None:
    """A reader that has read all records delays no writer, even if padding follows the last one."""
    log = logs.open(on_lag="raise")
    tailer = log.tailer("a", required=True, max_lag=1)
    for turn in range(3 * SEGMENT // 5000):
        log.append(bytes(5000 + turn))
        assert len(list(tailer)) == 1


def test_tailer_required_before_open_exerts_backpressure(logs: Logs) -> None:
    log = logs.open()
    required(log).close()
    log.close()
    log = logs.open(on_lag="raise")
    assert append_until_refused(log) == 21
    log.close()
    log = logs.open(on_lag="raise")
    assert (
        # Otherwise a program that opens the log for each append would never be refused.
        append_until_refused(log) == 0
    )


def test_change_of_another_tailer_releases_no_append(logs: Logs) -> None:
    log = logs.open(on_lag="raise")
    required(log)
    append_until_refused(log)
    log.tailer("b", required=True, max_lag="1MiB").close()
    assert append_until_refused(log) == 0
    log.reset_tailer("b", "end")
    assert append_until_refused(log) == 0
    log.evict_tailer("b")
    assert append_until_refused(log) == 0


# --- wait -----------------------------------------------------------------------------------------


def test_appends_wait_for_the_tailer(logs: Logs, setup: Setup) -> None:
    log = logs.open_as(setup)
    tailer = required(log)
    seen: list[int] = []
    furthest = 0

    def read() -> None:
        for record in tailer.follow(timeout=60):
            nonlocal furthest
            furthest = max(furthest, log.tail_position - record.position)
            seen.append(record.position)
            if len(seen) == 500:
                return

    reader = threading.Thread(target=read)
    reader.start()
    positions = [log.append(VALUE) for _ in range(500)]
    reader.join()
    assert seen == positions
    assert furthest <= MAX_LAG + 3 * FRAME + 8192  # a header and padding may lie in between


def test_wait_for_a_lagging_tailer_ends_at_lag_timeout(logs: Logs) -> None:
    log = logs.open(lag_timeout="20ms")
    required(log)
    for _ in range(21):
        log.append(VALUE)
    with pytest.raises(TailerLagError, match=r"did not catch up within 0\.02 s"):
        log.append(VALUE)
    assert log.stats().lag_latency.longest_seconds >= 0.02


def test_close_ends_an_append_waiting_for_a_tailer(logs: Logs, until: Callable[..., None]) -> None:
    log = logs.open()
    required(log)
    outcome: list[BaseException] = []

    def append() -> None:
        try:
            append_until_refused(log)
        except ClosedError as error:
            outcome.append(error)

    waiting = threading.Thread(target=append)
    waiting.start()
    until(lambda: log.stats().records >= 21)
    log.close()
    waiting.join(60)
    assert len(outcome) == 1


# --- drop -----------------------------------------------------------------------------------------


def test_dropped_records_are_counted_by_log_and_tailer(logs: Logs) -> None:
    log = logs.open(on_lag="drop")
    tailer = required(log)
    positions = [log.append(VALUE) for _ in range(30)]
    assert [position > 0 for position in positions] == [True] * 21 + [False] * 9
    assert set(positions[21:]) == {-1}
    assert log.append_many([VALUE] * 5).tolist() == [-1] * 5
    assert log.append_many([VALUE] * 5, sync=True).tolist() == [-1] * 5
    assert log.append_array(np.zeros((7, 100), dtype=np.uint8)).tolist() == [-1] * 7
    assert log.append_arrow(pa.array([VALUE] * 2)).tolist() == [-1] * 2
    assert log.append(VALUE, sync=True) == -1
    log.roll()
    with pytest.raises(TailerLagError, match="a claim cannot be dropped"):
        log.claim(10)
    assert len(list(tailer)) == 21
    assert (
        tailer.dropped_records,
        log.tailers()[0].dropped_records,
        log.stats().dropped_records,
    ) == (30, 30, 30)
    assert log.append(VALUE) > 0
    assert tailer.dropped_records == 30


def test_append_many_past_the_limit_drops_its_last_records(logs: Logs) -> None:
    """A batch is one claim of up to 64 KiB, so a batch may pass the limit by that much."""
    log = logs.open(on_lag="drop")
    tailer = required(log)
    positions = log.append_many([VALUE] * 5000, sync=True)
    kept = int((positions >= 0).sum())
    assert 21 <= kept <= 1 + (64 << 10) // FRAME
    assert (positions[:kept] >= 0).all()
    assert (positions[kept:] == -1).all()
    assert tailer.dropped_records == 5000 - kept
    list(tailer)
    positions = log.append_array(np.zeros((5000, 100), dtype=np.uint8))
    assert tailer.dropped_records == 5000 - kept + int((positions < 0).sum())
    assert [record.position for record in tailer] == positions[positions >= 0].tolist()


def test_append_many_async_awaits_the_records_not_dropped(logs: Logs) -> None:
    log = logs.open(on_lag="drop")
    tailer = required(log)

    async def append() -> None:
        positions = await log.append_many_async([VALUE] * 5000, sync=True)
        assert positions[-1] == -1
        assert log.flushed_position > positions.max() > 0
        assert await log.append_async(VALUE, sync=True) == -1
        assert len(list(tailer)) == (positions >= 0).sum()

    asyncio.run(append())


# --- evict ----------------------------------------------------------------------------------------


def test_evicted_tailer_delays_no_append_and_keeps_reading(logs: Logs) -> None:
    log = logs.open(on_lag="raise")
    tailer = required(log)
    append_until_refused(log)
    assert log.evict_tailer("a") is True
    assert log.evict_tailer("a") is False
    log.append_many([VALUE] * 1000)
    (state,) = log.tailers()
    assert (state.required, state.owner is not None) == (False, True)
    assert state.evicted_ns
    assert len(list(tailer)) == 1021
    tailer.close()
    required(log).close()
    assert append_until_refused(log) == 21
    assert log.tailers()[0].evicted_ns is None


def test_deleted_redeclared_or_reset_tailer_blocks_no_append(logs: Logs) -> None:
    log = logs.open(on_lag="raise")
    for end in (
        lambda: log.delete_tailer("a"),
        lambda: log.tailer("a", required=False).close(),
        lambda: log.reset_tailer("a", "end"),
    ):
        required(log).close()
        append_until_refused(log)
        end()
        log.append(VALUE)


def test_tailer_lagging_beyond_evict_after_is_evicted(
    logs: Logs, caplog: pytest.LogCaptureFixture
) -> None:
    log = logs.open(evict_after="30ms")
    required(log)
    for _ in range(100):
        log.append(VALUE)
    assert log.tailers()[0].required is False
    assert "'a'" in caplog.text
    assert "evicted" in caplog.text


def test_advancing_tailer_is_not_evicted(logs: Logs) -> None:
    log = logs.open(evict_after=5)
    tailer = required(log)
    moving = threading.Thread(target=lambda: [tailer.read(timeout=1) for _ in range(100)])
    moving.start()
    for _ in range(100):
        log.append(VALUE)
    moving.join()
    assert log.tailers()[0].required is True


# --- two processes --------------------------------------------------------------------------------


def test_new_required_tailer_is_noticed_by_a_running_writer(logs: Logs) -> None:
    """The writer checks at least every quarter of a segment."""
    writer = logs.open(on_lag="raise")
    writer.append(VALUE)
    reader = logs.open(mode="r")
    tailer = reader.tailer("a", start="end", required=True, max_lag=MAX_LAG)
    assert append_until_refused(writer) <= SEGMENT // 4 // FRAME + 1
    reader.evict_tailer("a")
    writer.append(VALUE)
    tailer.close()


def test_writer_in_another_process_waits_for_the_tailer(
    logs: Logs, until: Callable[..., None]
) -> None:
    log = logs.open()
    tailer = required(log)
    child = os.fork()
    if child == 0:
        with commitlog.open(log.path) as writer:
            for _ in range(200):
                writer.append(VALUE)
        os._exit(0)
    until(lambda: log.tail_position - tailer.position > MAX_LAG)
    held = log.tail_position
    for _ in range(200):
        record = tailer.read(timeout=60)
        assert record is not None
        assert log.tail_position - record.position <= MAX_LAG + 2 * FRAME + 8192
    assert os.waitpid(child, 0)[1] == 0
    assert log.tail_position > held


def test_dead_required_tailer_blocks_appends_until_evicted(
    logs: Logs, until: Callable[..., None]
) -> None:
    log = logs.open(on_lag="raise")
    child = os.fork()
    if child == 0:
        with commitlog.open(log.path, "r") as reader:
            tailer = reader.tailer("a", required=True, max_lag=MAX_LAG)
            tailer.read()
            signal.pause()
    until(lambda: any(state.required for state in log.tailers()))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    append_until_refused(log)
    (state,) = log.tailers()
    assert (state.owner, state.required) == (None, True)
    with pytest.raises(TailerLagError):
        log.append(VALUE)
    log.evict_tailer("a")
    log.append(VALUE)


def test_forked_child_is_refused_like_its_parent(
    logs: Logs, in_child: Callable[[Callable[[], Any]], Any]
) -> None:
    log = logs.open(on_lag="raise")
    required(log)
    append_until_refused(log)
    assert in_child(lambda: append_until_refused(log)) == 0


# --- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"on_lag": "block"}, "on_lag must be one of 'wait', 'raise', 'drop'"),
        ({"on_lag": None}, "on_lag must be one of"),
        ({"lag_timeout": "long"}, "lag_timeout must be a duration"),
        ({"lag_timeout": -1}, "lag_timeout must be a duration"),
        ({"evict_after": 0}, "evict_after must be at least 0.001 seconds"),
        ({"evict_after": "never"}, "evict_after must be a duration"),
    ],
    ids=str,
)
def test_invalid_lag_options_are_refused(logs: Logs, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidOptionError, match=message):
        logs.open(**options)
