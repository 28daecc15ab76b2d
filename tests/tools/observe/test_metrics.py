"""Metrics for Prometheus: what a collector exports for a log, and when it cannot."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

import commitlog
from commitlog import Retention, Store
from commitlog.errors import InvalidOptionError
from commitlog.keep import archive_segments
from commitlog.log.parts import parts_of
from commitlog.metrics import LogCollector
from commitlog.retention import listener
from commitlog.tail.tailer_file import TailerFile
from commitlog.tools.observe.watching import LogWatch
from tests.log_files import numbered
from tests.setups import BY_HAND, SEGMENT, Logs

Until = Callable[..., None]


def registry_of(*logs: Any) -> CollectorRegistry:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(LogCollector(*logs))
    return registry


def value(registry: CollectorRegistry, name: str, log: Any, **labels: str) -> float | None:
    return registry.get_sample_value(f"commitlog_{name}", {"log": log.path, **labels})


def said(caplog: pytest.LogCaptureFixture, words: str) -> list[str]:
    """Return the messages with these words; a slow disk may be warned of, too."""
    return [message for message in caplog.messages if words in message]


def test_collector_of_a_writer_exports_positions_and_counters(logs: Logs) -> None:
    log = logs.open(**BY_HAND, allocate_ahead=0)  # no segment is allocated between two scrapes
    registry = registry_of(log)
    log.append_many(numbered(5000))
    log.append(b"durable", sync=True)
    log.append(b"not yet")
    stats = log.stats()
    for name in ("tail", "appended", "committed", "flushed"):
        assert value(registry, f"{name}_position_bytes", log) == getattr(stats, f"{name}_position")
    assert (
        value(registry, "up", log),
        value(registry, "failed", log),
        value(registry, "recovering", log),
    ) == (1, 0, 0)
    assert (value(registry, "records_total", log), value(registry, "rolls_total", log)) == (
        5002,
        stats.rolls,
    )
    assert (value(registry, "segments", log), value(registry, "segment_size_bytes", log)) == (
        len(parts_of(log).queue.numbers()),
        SEGMENT,
    )
    assert (
        value(registry, "sync_seconds_count", log),
        value(registry, "flush_seconds_count", log),
    ) == (1, stats.flushes)
    assert value(registry, "flush_seconds_sum", log) == pytest.approx(
        stats.flush_latency.total_ns / 1e9
    )
    assert value(registry, "flush_seconds_bucket", log, le="+Inf") == stats.flushes
    assert value(registry, "writers", log, state="idle") == 1
    assert [value(registry, "disk", log, state=state) for state in ("fine", "low", "full")] == [
        1,
        0,
        0,
    ]
    assert value(registry, "pool_buffers", log) is None


def test_listener_failures_and_drops_are_exported(
    logs: Logs, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "_WAITING_MOST", 2)
    go_on = threading.Event()

    class SlowAndBroken:
        def on_sealed(self, segment: object) -> None:
            assert go_on.wait(60)
            raise RuntimeError("no use for it")

    log = logs.open(**BY_HAND, listener=SlowAndBroken())
    registry = registry_of(log)
    assert (
        value(registry, "listener_failures_total", log),
        value(registry, "dropped_events_total", log),
    ) == (0, 0)
    for _ in range(8):
        log.append(b"x")
        log.roll()
    log.prune(Retention(max_bytes="1TiB"))  # deletes nothing, but seals
    until(lambda: (value(registry, "dropped_events_total", log) or 0) > 0)
    assert value(registry, "listener_failures_total", log) == 0
    go_on.set()
    until(lambda: (value(registry, "listener_failures_total", log) or 0) > 0)
    stats = log.stats()
    assert stats.dropped_events == value(registry, "dropped_events_total", log)
    assert stats.listener_failures > 0


def test_latency_buckets_count_up_to_their_bound(logs: Logs) -> None:
    log = logs.open(**BY_HAND)
    for took_ns in (5_000, 9_000, 24_000, 2_000_000, 60_000_000_000):
        parts_of(log).engine.note_latency("roll", took_ns)
    registry = registry_of(log)
    counts = {
        le: value(registry, "roll_seconds_bucket", log, le=le)
        for le in ("1e-05", "2.5e-05", "0.001", "0.0025", "10.0", "+Inf")
    }
    assert counts == {"1e-05": 2, "2.5e-05": 3, "0.001": 3, "0.0025": 4, "10.0": 4, "+Inf": 5}


def test_pools_and_named_tailers_are_exported(logs: Logs) -> None:
    log = logs.open(pool=logs.pool(), **BY_HAND)
    log.append(b"one")
    log.commit()
    with contextlib.closing(TailerFile(parts_of(log).directory, "billing", log.first_position)):
        registry = registry_of(log)
        assert (
            value(registry, "pool_buffers", log),
            value(registry, "pool_available_buffers", log),
        ) == (3, 2)
        assert value(registry, "tailer_position_bytes", log, tailer="billing") == log.first_position
        assert (
            value(registry, "tailer_lag_bytes", log, tailer="billing")
            == log.tail_position - log.first_position
        )
        assert value(registry, "tailer_reading", log, tailer="billing") == 1
    assert value(registry, "tailer_reading", log, tailer="billing") == 0
    page = Path(log.path) / "tailers" / "billing"
    page.write_bytes(bytes(page.stat().st_size))
    assert value(registry, "tailer_damaged", log, tailer="billing") == 1
    assert value(registry, "tailer_position_bytes", log, tailer="billing") is None


def test_log_watch_exports_log_state_and_no_own_counters(logs: Logs) -> None:
    log = logs.open(**BY_HAND)
    log.append_many(numbered(10))
    with LogWatch(log.path) as watch:
        registry = registry_of(watch)
        assert value(registry, "tail_position_bytes", watch) == log.tail_position
        assert value(registry, "records_total", watch) is None


def test_archive_exports_its_size_and_no_free_space(logs: Logs, tmp_path: Path) -> None:
    pytest.importorskip("zstandard")
    log = logs.open(**BY_HAND)
    log.append_many(numbered(10))
    log.roll()
    log.flush()
    log.prune(Retention(max_bytes="1TiB"))
    archive_segments(log.path, Store(tmp_path / "archive"), keep=True)
    with LogWatch(tmp_path / "archive") as watch:
        registry = registry_of(watch)
        assert value(registry, "disk_bytes", watch) == sum(
            file.stat().st_size for file in (tmp_path / "archive").glob("*.zst")
        )
        assert (value(registry, "next_sequence", watch), value(registry, "segments", watch)) == (
            10,
            1,
        )
        assert (
            value(registry, "free_disk_bytes", watch),
            value(registry, "disk_size_bytes", watch),
        ) == (None, None)


def test_every_metric_has_a_name_help_and_samples(logs: Logs) -> None:
    log = logs.open(pool=logs.pool())
    log.append(b"one", sync=True)
    TailerFile(parts_of(log).directory, "billing", log.first_position).close()
    text = generate_latest(registry_of(log)).decode()
    families = list(text_string_to_metric_families(text))
    assert len({family.name for family in families}) == len(families) > 30
    for family in families:
        assert re.fullmatch(r"commitlog_[a-z_]+", family.name)
        assert family.documentation.endswith(".")
        assert family.samples
        assert not family.name.endswith("_total")
        assert {sample.name.endswith("_total") for sample in family.samples} == {
            family.type == "counter"
        }, family.name
        assert all(sample.labels["log"] == log.path for sample in family.samples)


def test_closed_or_absent_log_is_down_and_others_are_exported(
    logs: Logs, caplog: pytest.LogCaptureFixture
) -> None:
    gone, log = logs.open("gone"), logs.open("log")
    with LogWatch(logs.path / "absent") as absent:
        registry = registry_of(gone, log, absent)
        gone.close()
        for _ in range(2):
            assert [value(registry, "up", each) for each in (gone, log, absent)] == [0, 1, 0]
        assert value(registry, "segments", gone) is None
        # Once for each, no matter how many scrapes.
        assert len(said(caplog, "no metrics")) == 2
        commitlog.open(absent.path, segment_size=SEGMENT).close()
        assert value(registry, "up", absent) == 1


def test_failed_log_is_exported_as_failed(logs: Logs) -> None:
    log = logs.open()
    parts_of(log).engine.fail(5)
    assert value(registry_of(log), "failed", log) == 1
    with pytest.raises(commitlog.CommitLogError):
        log.close()


def test_concurrent_scrapes_are_complete(logs: Logs) -> None:
    log = logs.open()
    found: list[bytes] = []
    with LogWatch(log.path) as watch:
        registry = registry_of(watch)
        threads = [
            threading.Thread(
                target=lambda: found.extend(generate_latest(registry) for _ in range(20))
            )
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(found) == 80
    assert all(b'commitlog_up{log="' in text for text in found)


def test_collector_refuses_paths_and_duplicates(logs: Logs) -> None:
    log = logs.open()
    with pytest.raises(
        InvalidOptionError, match="a LogCollector takes CommitLog and LogWatch objects, not str"
    ):
        LogCollector(log.path)  # type: ignore[arg-type]
    with pytest.raises(InvalidOptionError, match="the log is given twice"):
        LogCollector(log, log)
    with pytest.raises(ValueError, match="Duplicated timeseries"):
        registry_of(log).register(LogCollector(logs.open("other")))


def test_missing_prometheus_client_error_names_the_extra(
    run_python: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    done = run_python(
        "import sys\nsys.modules['prometheus_client'] = None\nimport commitlog.metrics"
    )
    assert done.stderr.splitlines()[-1] == (
        "ModuleNotFoundError: commitlog.metrics needs prometheus_client: pip install "
        "'commitlog-engine[metrics]'"
    )


def test_path_that_is_not_text_is_exported_with_escapes(tmp_path: Path) -> None:
    path = os.fsdecode(os.fsencode(tmp_path) + b"/\xff")
    with commitlog.open(path, segment_size=SEGMENT) as log:
        text = generate_latest(registry_of(log)).decode()
        assert f'commitlog_up{{log="{tmp_path}/\\\\xff"}} 1.0' in text
