"""Records beside those of a later epoch are cut off when their log follows it, and saved."""

from __future__ import annotations

from pathlib import Path

import commitlog
from commitlog import Store, replication
from commitlog.repair.verification import verify
from tests.copies import copy_log
from tests.network.replication.scene import (
    LIMIT_S,
    SEGMENT,
    check_same,
    copy_of,
    fill,
    killed_process,
    records,
)


def test_records_of_a_returning_primary_are_cut_and_saved(tmp_path: Path) -> None:
    copy_of(tmp_path / "orders", tmp_path / "copy")
    epoch = replication.promote(tmp_path / "copy")
    with commitlog.open(tmp_path / "orders") as old:
        fill(old, 100, "late")
        stop = old.flushed_position
    late = {int(path.stem): path.read_bytes() for path in (tmp_path / "orders").glob("*.seg")}
    with commitlog.open(tmp_path / "copy") as log:
        fill(log, 5, "new")
        with (
            replication.serve(tmp_path / "copy") as server,
            replication.follow(server.url(), tmp_path / "orders") as follower,
        ):
            assert follower.wait(log.flushed_position, LIMIT_S)
        check_same(tmp_path / "copy", tmp_path / "orders", log.flushed_position)
    assert records(tmp_path / "orders") == records(tmp_path / "copy")
    saved = sorted((tmp_path / "orders").glob("*.seg.fork"))
    assert len(saved) == stop // SEGMENT - epoch.start // SEGMENT + 1
    for path in saved:
        base = int(path.name.partition(".")[0])
        begin, end = max(epoch.start - base, 4096), min(stop - base, SEGMENT - 4096)
        assert path.read_bytes()[begin:end] == late[base][begin:end]


def test_cut_of_a_returning_primary_forgets_its_store(tmp_path: Path) -> None:
    copy_of(tmp_path / "orders", tmp_path / "copy")
    replication.promote(tmp_path / "copy")
    with commitlog.open(tmp_path / "orders", store=Store(tmp_path / "store", every=0.01)) as old:
        fill(old, 100, "late")
    mark = tmp_path / "orders" / "stored"
    assert mark.exists()
    with replication.serve(tmp_path / "copy") as server:
        replication.follow(server.url(), tmp_path / "orders").close()
    assert not mark.exists()


def test_cut_of_a_returning_primary_survives_kills(tmp_path: Path) -> None:
    copy_of(tmp_path / "orders", tmp_path / "copy")
    replication.promote(tmp_path / "copy")
    with commitlog.open(tmp_path / "orders") as old:
        fill(old, 100, "late")
    with replication.serve(tmp_path / "copy") as server:
        step = 1
        while True:
            old_path = tmp_path / str(step)
            copy_log(tmp_path / "orders", old_path)
            killed = killed_process(step, "follow", old_path, server.url())
            replication.follow(server.url(), old_path).close()
            assert records(old_path) == records(tmp_path / "copy")
            assert verify(old_path).sound
            if not killed:
                break
            step += 1
    assert step > 5


def test_running_copy_with_other_records_is_cut(tmp_path: Path) -> None:
    copy_of(tmp_path / "orders", tmp_path / "b")
    with replication.serve(tmp_path / "orders") as server:
        port = server.port
        copy = replication.follow(server.url(), tmp_path / "c", listen="127.0.0.1:0")
        with commitlog.open(tmp_path / "orders") as log:
            fill(log, 100, "late")
            assert copy.wait(log.flushed_position, LIMIT_S)
    replication.promote(tmp_path / "b")
    (tmp_path / "orders").rename(tmp_path / "old")
    (tmp_path / "b").rename(tmp_path / "orders")
    with (
        commitlog.open(tmp_path / "orders") as log,
        replication.serve(tmp_path / "orders", listen=f"127.0.0.1:{port}") as server,
    ):
        fill(log, 5, "new")
        assert server.wait_replicated(log.flushed_position - 1, timeout=LIMIT_S)
        assert copy.server is not None
        with replication.follow(copy.server.url(), tmp_path / "d") as last:
            assert last.wait(log.flushed_position, LIMIT_S)
        copy.close()
    assert records(tmp_path / "c") == records(tmp_path / "d") == records(tmp_path / "orders")
