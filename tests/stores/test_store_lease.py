"""Leases of readers in a store: retention deletes nothing that one of them needs."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

import commitlog
from commitlog import CommitLog, Store
from commitlog.base.host import host
from commitlog.errors import InvalidOptionError, LogNotFoundError, PositionError
from commitlog.keep import StoreLease, restore, target_of
from commitlog.stores import restore as restoring
from commitlog.stores import store_lease
from commitlog.stores.archive_source import ArchiveSource
from commitlog.stores.store_session import StoreSession
from tests.setups import HEADER, SEGMENT, Logs, values
from tests.stores.test_store import names, stored

pytest.importorskip("zstandard")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "store"


def append_segments(logs: Logs, store: Store, count: int = 5) -> CommitLog:
    log = logs.open(store=store)
    last = log.last_sequence
    for number in range(count):
        log.append(b"%d" % (number if last is None else last + 1 + number))
        log.roll()
    log.close()
    return log


def leases(place: Path) -> list[str]:
    return [name for name in names(place) if name.endswith(".lease")]


def test_leased_segments_stay_until_the_lease_is_released(logs: Logs, place: Path) -> None:
    append_segments(logs, Store(place))
    with StoreLease(place, 2 * SEGMENT + HEADER) as lease:
        append_segments(logs, Store(place, max_bytes=1))
        assert lease.position == 2 * SEGMENT + HEADER
        assert stored(place) == [b"%d" % number for number in range(2, 10)]
        assert len(leases(place)) == 1
    assert leases(place) == []
    append_segments(logs, Store(place, max_age="0s"), 1)
    assert stored(place) == [b"10"]


def test_lease_without_a_position_keeps_all_that_is_there(
    logs: Logs, place: Path, tmp_path: Path
) -> None:
    append_segments(logs, Store(place, max_bytes=1))
    with StoreLease(place), StoreLease(place, 100 * SEGMENT):
        append_segments(logs, Store(place, max_bytes=1))
        restore(place, tmp_path / "again")
        with commitlog.open(tmp_path / "again", "r") as again:
            assert values(again) == [b"%d" % number for number in range(4, 10)]


def test_ended_lease_keeps_nothing_and_is_removed(
    logs: Logs, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append_segments(logs, Store(place))
    lease = StoreLease(place, lasts="1min")
    now_ns = time.time_ns()
    monkeypatch.setattr(host, "time_ns", lambda: now_ns + 59 * 10**9)
    append_segments(logs, Store(place, max_bytes=1), 1)
    assert stored(place)[0] == b"0"
    monkeypatch.setattr(host, "time_ns", lambda: now_ns + 61 * 10**9)
    append_segments(logs, Store(place, max_bytes=1), 1)
    assert stored(place) == [b"6"]
    assert leases(place) == []
    lease.release()


def test_renewed_lease_moves_on_and_lasts_from_then(
    logs: Logs, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append_segments(logs, Store(place))
    with StoreLease(place, lasts="1min") as lease:
        before = leases(place)
        lease.renew(3 * SEGMENT)  # it has just begun
        assert leases(place) == before
        now_ns, now_s = time.time_ns(), time.monotonic()
        monkeypatch.setattr(host, "time_ns", lambda: now_ns + 40 * 10**9)
        monkeypatch.setattr(host, "monotonic", lambda: now_s + 40)
        lease.renew(3 * SEGMENT)
        assert len(leases(place)) == 1 != before
        monkeypatch.setattr(host, "time_ns", lambda: now_ns + 80 * 10**9)
        append_segments(logs, Store(place, max_bytes=1), 1)
        assert stored(place)[0] == b"3"


def test_lease_that_comes_too_late_names_the_first_position(logs: Logs, place: Path) -> None:
    append_segments(logs, Store(place, max_bytes=1))
    with pytest.raises(PositionError, match="before the lease") as caught:
        StoreLease(place, SEGMENT)
    assert caught.value.first_position == 4 * SEGMENT
    assert leases(place) == []


def test_restore_keeps_what_it_reads(
    logs: Logs, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append_segments(logs, Store(place))
    unpack, seen = ArchiveSource.unpack, []

    def unpacked(source: ArchiveSource, number: int, *where: Any) -> None:
        if number == 0:
            append_segments(logs, Store(place, max_bytes=1), 1)
            seen.extend(leases(place))
        unpack(source, number, *where)

    monkeypatch.setattr(ArchiveSource, "unpack", unpacked)
    monkeypatch.setattr(restoring, "_AT_A_TIME", 1)  # the others are read later
    restore(place, tmp_path / "again")
    with commitlog.open(tmp_path / "again", "r") as again:
        assert values(again) == [b"%d" % number for number in range(5)]
    assert len(seen) == 1
    assert leases(place) == []
    append_segments(logs, Store(place, max_bytes=1), 1)
    assert stored(place) == [b"6"]


def test_invalid_lease_is_refused(logs: Logs, place: Path) -> None:
    with pytest.raises(LogNotFoundError):
        StoreLease(place)
    append_segments(logs, Store(place), 1)
    wrong: list[Any] = [-1, "0", 1 << 63]
    given: list[dict[str, Any]] = [{"lasts": "0.5s"}, *({"position": each} for each in wrong)]
    for each in given:
        with pytest.raises(InvalidOptionError):
            StoreLease(place, **each)
    assert leases(place) == []
    with StoreLease(place) as lease:
        for position in wrong:
            with pytest.raises(InvalidOptionError):
                lease.renew(position)


def test_foreign_names_are_no_leases(logs: Logs, place: Path) -> None:
    append_segments(logs, Store(place))
    target = target_of(place)
    for name in ("x.lease", "0-0-0.lease", StoreSession(7, 0, 0, "").name):
        target.put(name, lambda file: None)
    assert store_lease.expire_leases(target) is None
