"""How far a log is stored: in the handle that stores it, in every other process, and as metrics."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

import commitlog
from commitlog import Store
from commitlog.metrics import LogCollector
from commitlog.watching import LogWatch
from tests.setups import SEGMENT, Logs
from tests.tools.cli.program import run

SOON = 0.01
Until = Callable[..., None]


@pytest.fixture
def away(tmp_path: Path) -> Path:
    place = tmp_path / "away"
    place.write_bytes(b"a file where the store's directory should be")
    return place


def test_stats_say_how_far_a_log_is_stored(logs: Logs, tmp_path: Path, until: Until) -> None:
    log = logs.open(store=Store(tmp_path / "store", every=SOON))
    log.append(b"one")
    log.roll()
    log.append(b"two")
    until(lambda: log.stats().store.position == log.tail_position)  # type: ignore[union-attr]
    until(lambda: log.stats().store.kept_position == SEGMENT)  # type: ignore[union-attr]
    store = log.stats().store
    assert store is not None
    assert (store.target, store.lag_bytes, store.lag_ms) == (f"{tmp_path}/store", 0, 0)
    assert (store.last_error, store.is_failing, store.failing_since_ns) == (None, False, None)
    assert store.requests > 0
    assert f"in {tmp_path}/store, 0 bytes and 0 ms behind" in str(log.stats())


def test_failing_store_is_visible_to_every_process(logs: Logs, away: Path, until: Until) -> None:
    log = logs.open(store=Store(away / "store", every=SOON))
    log.append(b"one")
    log.flush()
    with LogWatch(log.path) as watch:
        until(lambda: watch.look().store.is_failing)  # type: ignore[union-attr]
        seen = watch.look().store
        assert seen is not None
        assert (seen.position, seen.kept_position) == (0, 0)
        assert seen.lag_bytes == log.tail_position - 4096
        assert seen.lag_seconds > 0
        assert "Not a directory" in str(seen.last_error)
        assert seen.failing_since_ns is not None
        own = log.stats().store
        assert own is not None
        assert own.is_failing
        assert own.failed_rounds >= 1
        assert "NOT STORED: " in str(log.stats())
        away.unlink()
        until(lambda: not watch.look().store.is_failing)  # type: ignore[union-attr]
    log.close()
    with LogWatch(log.path) as watch:
        closed = watch.look().store
        assert closed is not None
        assert (closed.lag_bytes, closed.last_error) == (0, None)


def test_log_without_a_store_has_no_figures_of_one(logs: Logs) -> None:
    log = logs.open()
    assert log.stats().store is None
    with LogWatch(log.path) as watch:
        assert watch.look().store is None
    assert "store" not in json.loads(run("info", "--json", log.path).stdout)


def test_metrics_have_the_figures_of_a_store(logs: Logs, away: Path, until: Until) -> None:
    log = logs.open(store=Store(away / "store", every=SOON))
    plain = logs.open("plain")
    log.append(b"one")
    until(lambda: log.stats().store.is_failing)  # type: ignore[union-attr]
    registry = CollectorRegistry()
    registry.register(LogCollector(log, plain))

    def sample(name: str, path: str = log.path) -> float | None:
        return registry.get_sample_value(f"commitlog_{name}", {"log": path})

    assert (sample("store_failing"), sample("store_failing", plain.path)) == (1, None)
    assert sample("store_failed_rounds_total") is not None
    away.unlink()
    until(lambda: sample("store_failing") == 0)
    until(lambda: sample("stored_position_bytes") == log.tail_position)
    assert (sample("store_lag_bytes"), sample("store_lag_seconds")) == (0, 0)
    assert sample("store_kept_position_bytes") == 0
    assert (sample("store_requests_total") or 0) > 0


def test_info_names_the_store_and_its_error(tmp_path: Path, away: Path) -> None:
    path = tmp_path / "log"
    with commitlog.open(path, segment_size=SEGMENT, store=Store(away / "store", every=SOON)) as log:
        log.append(b"one")
    said = json.loads(run("info", "--json", path).stdout)
    assert (said["store"], said["stored_position"]) == (f"{away}/store", 0)
    assert said["store_lag_bytes"] > 0
    assert "Not a directory" in said["store_error"]
    assert "store error" in run("info", path).stdout.decode()


def test_damaged_mark_is_the_error_of_the_figures(logs: Logs, tmp_path: Path) -> None:
    log = logs.open(store=Store(tmp_path / "store", every=3600))
    log.close()
    (Path(log.path) / "stored").write_bytes(b"{}")
    with LogWatch(log.path) as watch:
        store = watch.look().store
    assert store is not None
    assert "`stored` is damaged" in str(store.last_error)


def test_refusal_by_the_store_is_visible_after_the_close(logs: Logs, tmp_path: Path) -> None:
    place = Store(tmp_path / "store", every=SOON)
    other = logs.open("other", store=place)
    other.append(b"of another log")
    other.close()
    log = logs.open(store=place)
    log.append(b"one")
    log.close()
    with LogWatch(log.path) as watch:
        store = watch.look().store
    assert store is not None
    assert "the archive of another log" in str(store.last_error)
    assert store.position == 0
