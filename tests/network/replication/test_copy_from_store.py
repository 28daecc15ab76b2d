"""A store begins a copy, which a follower then goes on with; the two logs never differ."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import commitlog
from commitlog import Retention, Store
from commitlog.errors import FencedError, InvalidOptionError
from commitlog.keep import restore
from commitlog.repair.log_files import LogFiles
from commitlog.replication import Replication, follow, promote, serve
from commitlog.stores.archiver import Archiver
from tests.network.replication.scene import LIMIT_S, SEGMENT, check_same, fill, records
from tests.network.replication.test_restart import copy_files, epochs_of
from tests.stores.test_store import SOON, is_stored, service_of

pytest.importorskip("zstandard")
Until = Callable[..., None]
URL = "tcp://127.0.0.1:7070/orders"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "store"


def follow_to_the_end(log: commitlog.CommitLog, copy: Path) -> None:
    with serve(log.path) as server, follow(server.url(), copy) as follower:
        assert follower.wait(log.flushed_position, LIMIT_S)


def test_copy_begins_with_what_only_the_store_has(
    tmp_path: Path, place: Path, until: Until
) -> None:
    with commitlog.open(
        tmp_path / "orders", segment_size=SEGMENT, store=Store(place, every=SOON)
    ) as log:
        fill(log, 300)
        everything = records(tmp_path / "orders")
        until(lambda: service_of(log).kept_position >= SEGMENT)
        log.prune(Retention(max_bytes=0))
        assert log.first_position > SEGMENT
        restore(place, tmp_path / "copy", follows=URL)
        with pytest.raises(FencedError, match="follows tcp://"):
            commitlog.open(tmp_path / "copy")
        fill(log, 100, "more")
        follow_to_the_end(log, tmp_path / "copy")
        check_same(tmp_path / "orders", tmp_path / "copy", log.flushed_position)
    copied = records(tmp_path / "copy")
    assert copied[: len(everything)] == everything
    assert len(copied) == len(everything) + 100


def test_copy_from_a_store_is_not_cut_at_a_restart(
    tmp_path: Path, place: Path, until: Until
) -> None:
    with commitlog.open(
        tmp_path / "before", segment_size=SEGMENT, replicate=Replication(require=0)
    ) as log:
        fill(log, 20)
        copy_files(tmp_path / "before", tmp_path / "orders")
    with commitlog.open(tmp_path / "orders", store=Store(place, every=SOON)) as log:
        fill(log, 300)
        until(lambda: is_stored(log) and service_of(log).kept_position >= SEGMENT)
        log.prune(Retention(max_bytes=0))
        assert log.first_position > SEGMENT
        restore(place, tmp_path / "copy", follows=URL)
        fill(log, 100, "more")
        follow_to_the_end(log, tmp_path / "copy")
        check_same(tmp_path / "orders", tmp_path / "copy", log.flushed_position)
    assert epochs_of(tmp_path / "copy") == epochs_of(tmp_path / "orders") != ()
    assert not list((tmp_path / "copy").glob("*.fork"))


@pytest.mark.parametrize("is_late", [False, True], ids=["in time", "late"])
def test_copy_from_a_store_that_was_promoted_never_differs(
    tmp_path: Path, place: Path, until: Until, is_late: bool
) -> None:
    """A fenced writer may put a whole segment after the claim, and until the new primary stores
    that segment the store has it.
    """
    with commitlog.open(tmp_path / "old", segment_size=SEGMENT, store=Store(place)) as old:
        fill(old, 20)
    restore(place, tmp_path / "orders")
    epoch = promote(tmp_path / "orders", store=Store(place))
    with commitlog.open(tmp_path / "orders", store=Store(place, every=SOON)) as log:
        fill(log, 20, "new")
        until(lambda: is_stored(log))
        if is_late:
            with commitlog.open(tmp_path / "old") as zombie:
                fill(zombie, 100, "late")
                zombie.roll()
                fill(zombie, 1)
                zombie.prune(Retention(max_bytes="1TiB"))  # seals
                Archiver(LogFiles(zombie.path), Store(place)).put(0, replace=False)
        done = restore(place, tmp_path / "copy", follows=URL)
        assert done.end_position > epoch.start
        fill(log, 1 if is_late else 100, "on")
        follow_to_the_end(log, tmp_path / "copy")
        check_same(tmp_path / "orders", tmp_path / "copy", log.flushed_position)
        assert records(tmp_path / "copy") == records(tmp_path / "orders")
    assert bool(list((tmp_path / "copy").glob("*.fork"))) is is_late


@pytest.mark.parametrize("url", ["copy", "s3://bucket/orders", ""])
def test_wrong_url_to_follow_is_refused(tmp_path: Path, place: Path, url: str) -> None:
    with pytest.raises(InvalidOptionError, match="follows must be the URL"):
        restore(place, tmp_path / "copy", follows=url)
    assert not (tmp_path / "copy").exists()
