"""S3 that fails, is silent or slow, refuses new objects, or lists what was.

Nothing is lost, nothing is skipped in silence, and every wait ends.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import commitlog
from commitlog import CommitLog, Store
from commitlog.errors import CommitLogError, CorruptSegmentError, IOFailureError, PositionError
from commitlog.keep import restore
from commitlog.log.parts import parts_of
from commitlog.repair.verification import verify
from commitlog.replication import promote
from commitlog.source import tiered_directory
from commitlog.stores import object_target
from tests.setups import SEGMENT, Logs, values
from tests.stores import s3_server
from tests.stores.s3_server import S3Server, served_bucket
from tests.stores.test_store import SOON, is_stored, service_of

pytest.importorskip("obstore.store")
pytest.importorskip("zstandard")
ADDRESS = "s3://bucket/orders"
LIMIT_S = 30.0
Until = Callable[..., None]


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    monkeypatch.setattr(object_target, "_SILENT_S", 0.5)
    monkeypatch.setattr(object_target, "_TRIES_S", 3)
    monkeypatch.setattr(object_target, "_TRIES_MOST", 2)
    monkeypatch.setattr(object_target, "_PAUSE_S", 0.01)
    with served_bucket(monkeypatch) as server:
        yield server


def append(log: CommitLog, name: str, count: int = 100) -> list[bytes]:
    added = [b"%s-%d" % (name.encode(), number) * 150 for number in range(count)]
    log.append_many(added)
    return added


def stored_log(logs: Logs, count: int = 500) -> list[bytes]:
    log = logs.open(store=Store(ADDRESS))
    added = append(log, "stored", count)
    log.close()
    return added


@pytest.mark.parametrize("fault", ["500", "503", "409", "412", "drop", "lost", "hang", "stall"])
def test_faults_of_any_request_lose_and_skip_nothing(s3: S3Server, logs: Logs, fault: str) -> None:
    seed = random.randrange(1 << 32)
    print("seed", seed)
    rng = random.Random(seed)
    failed: Counter[tuple[str, str]] = Counter()

    def sometimes(method: str, key: str) -> str | None:
        if failed[method, key] >= 2 or (fault[0] == "4" and method != "PUT"):
            return None
        if failed.total() and rng.random() < 0.5:  # the first request always fails
            return None
        failed[method, key] += 1
        return fault

    s3.fault = sometimes
    everything = []
    for run in range(3):
        log = logs.open(store=Store(ADDRESS, every=SOON))
        everything += append(log, str(run))
        log.close()
        assert parts_of(log).writer.store.error is None  # type: ignore[union-attr]
    assert failed
    failed.clear()
    s3.fault = lambda method, key: None
    logs.open(store=Store(ADDRESS)).close()  # stores what a failed one left
    s3.fault = sometimes
    for _ in range(40):  # a reader sees all records or an error
        with contextlib.suppress(IOFailureError), commitlog.open(ADDRESS, "r") as copy:
            assert values(copy) == everything
            break
    else:
        pytest.fail("the log was never read")
    s3.fault = lambda method, key: None
    assert verify(ADDRESS).sound


def test_silent_store_delays_no_append_and_bounds_each_wait(
    s3: S3Server,
    logs: Logs,
    until: Until,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(object_target, "_TRIES_MOST", 0)
    s3.fault = lambda method, key: "hang" if method == "PUT" else None
    log = logs.open(store=Store(ADDRESS, every=SOON))
    started_s = time.monotonic()
    everything = append(log, "one")
    log.flush()
    until(lambda: "the log cannot be stored now" in caplog.text)
    log.close()
    assert "closed before positions" in caplog.text
    s3.fault = lambda method, key: None
    everything += stored_log(logs, 10)
    for hung in ("list", "object"):
        s3.fault = lambda method, key, hung=hung: (  # type: ignore[misc]
            "hang" if key.endswith(".zst") == (hung == "object") else None
        )
        with pytest.raises(IOFailureError), commitlog.open(ADDRESS, "r") as copy:
            values(copy)
    assert time.monotonic() - started_s < LIMIT_S
    s3.fault = lambda method, key: None
    with commitlog.open(ADDRESS, "r") as copy:
        assert values(copy) == everything


def test_slow_body_is_read_and_a_stalled_one_is_an_error(
    s3: S3Server, logs: Logs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A body may take longer than the time in which a store has to answer."""
    monkeypatch.setattr(s3_server, "SLOW_S", 0.03)
    monkeypatch.setattr(object_target, "_TRIES_MOST", 0)
    everything = stored_log(logs, 20)
    s3.fault = lambda method, key: "slow" if key.endswith(".zst") else None
    started_s = time.monotonic()
    with commitlog.open(ADDRESS, "r") as copy:
        assert values(copy) == everything
    assert time.monotonic() - started_s > object_target._SILENT_S
    s3.fault = lambda method, key: "stall" if key.endswith(".zst") else None
    with pytest.raises(IOFailureError), commitlog.open(ADDRESS, "r") as copy:
        values(copy)
    with pytest.raises(IOFailureError):
        restore(ADDRESS, tmp_path / "again")
    assert not list((tmp_path / "again").iterdir())


def test_restore_needs_no_right_to_write(s3: S3Server, logs: Logs, tmp_path: Path) -> None:
    everything = stored_log(logs)
    stored = dict(s3.objects)
    s3.fault = lambda method, key: None if method in ("GET", "HEAD") else "403"
    restore(ADDRESS, tmp_path / "again")
    assert s3.objects == stored
    s3.fault = lambda method, key: None
    with commitlog.open(tmp_path / "again", "r") as again:
        assert values(again) == everything


@pytest.mark.parametrize("fault", ["409", "412"])
def test_refusal_of_a_new_object_is_no_other_writer(
    s3: S3Server, logs: Logs, until: Until, caplog: pytest.LogCaptureFixture, fault: str
) -> None:
    """S3 answers 409 if another request for the key is under way."""
    s3.fault = lambda method, key: fault if method == "PUT" else None
    log = logs.open(store=Store(ADDRESS, every=SOON))
    everything = append(log, "one")
    until(lambda: "If-None-Match" in caplog.text)
    assert not s3.objects
    s3.fault = lambda method, key: None
    until(lambda: is_stored(log))
    assert service_of(log).error is None
    log.close()
    with commitlog.open(ADDRESS, "r") as copy:
        assert values(copy) == everything
    assert all("\n" not in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("fault", ["409", "500", "hang"])
def test_promotion_without_its_epoch_in_the_store_fails(
    s3: S3Server, logs: Logs, tmp_path: Path, fault: str
) -> None:
    everything = stored_log(logs, 10)
    restore(ADDRESS, tmp_path / "copy")
    before = set(s3.objects)
    s3.fault = lambda method, key: fault if method == "PUT" else None
    with pytest.raises(CommitLogError):
        promote(tmp_path / "copy", store=Store(ADDRESS))
    s3.fault = lambda method, key: None
    assert not any(key.endswith(".epoch") for key in set(s3.objects) - before)
    assert promote(tmp_path / "copy", store=Store(ADDRESS)).number == 1
    copy = logs.open("copy", store=Store(ADDRESS))
    everything += append(copy, "copy")
    copy.close()
    with commitlog.open(ADDRESS, "r") as stored:
        assert values(stored) == everything


@pytest.mark.parametrize("number", [1, 3])
def test_listing_without_a_segment_is_an_error_until_it_is_there(
    s3: S3Server, logs: Logs, tmp_path: Path, number: int
) -> None:
    everything = stored_log(logs)
    name = f"{number * SEGMENT:020d}.seg.zst"
    s3.listed = {key: each for key, each in s3.objects.items() if not key.endswith(name)}
    with commitlog.open(ADDRESS, "r") as copy, copy.tailer() as tailer:
        seen = []
        with pytest.raises(CorruptSegmentError, match=f"segment {number} is missing"):
            seen.extend(bytes(record.value) for record in iter(tailer.read, None))
    assert seen == everything[: len(seen)]
    with pytest.raises(CorruptSegmentError, match="are missing in the store"):
        restore(ADDRESS, tmp_path / "again")
    s3.listed = None
    with commitlog.open(ADDRESS, "r") as copy:
        assert values(copy) == everything


def test_old_listing_behind_a_live_log_leaves_no_gap(
    s3: S3Server, logs: Logs, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiered_directory, "_LIST_S", 0.0)
    log = logs.open(store=Store(ADDRESS, every=SOON))
    everything = append(log, "one")
    until(lambda: service_of(log).kept_position >= SEGMENT)
    s3.listed = dict(s3.objects)
    everything += append(log, "two", 400)
    log.flush()
    goal = (log.tail_position // SEGMENT - 1) * SEGMENT
    until(lambda: service_of(log).kept_position >= goal)
    log.delete_before(goal)
    with commitlog.open(log.path, "r", store=Store(ADDRESS)) as whole, whole.tailer() as tailer:
        seen = []
        with pytest.raises(PositionError):
            seen.extend(bytes(record.value) for record in iter(tailer.read, None))
        s3.listed = None
        assert seen == everything[: len(seen)]
        seen.extend(bytes(record.value) for record in iter(tailer.read, None))
        assert seen == everything
