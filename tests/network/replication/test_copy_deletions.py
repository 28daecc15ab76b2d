"""No retention acts on a copy: `prune` deletes its segments, also while it follows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import commitlog
from commitlog import Retention, Store, replication
from commitlog.keep import prune
from commitlog.repair.verification import verify
from commitlog.replication import Replication
from tests.network.replication.scene import LIMIT_S, SEGMENT, fill, records

KEPT = Retention(max_bytes=3 * SEGMENT)


def test_copy_is_pruned_while_it_follows_and_promoted(
    tmp_path: Path, until: Callable[..., None]
) -> None:
    def is_pruned() -> bool:
        prune(tmp_path / "copy", KEPT)  # as far as the seals have come, which follow the frames
        return len(records(tmp_path / "copy")) < 500

    with (
        commitlog.open(tmp_path / "orders", segment_size=SEGMENT) as log,
        replication.serve(tmp_path / "orders") as server,
        replication.follow(server.url(), tmp_path / "copy") as follower,
    ):
        for _ in range(2):
            fill(log, 500)
            assert follower.wait(log.flushed_position, LIMIT_S)
            assert prune(tmp_path / "copy", KEPT).segments
        until(is_pruned)
    left = records(tmp_path / "copy")
    assert 0 < len(left) < 500
    assert left == records(tmp_path / "orders")[-len(left) :]
    replication.promote(tmp_path / "copy")
    with commitlog.open(tmp_path / "copy") as log:
        fill(log, 10, "new")
    assert records(tmp_path / "copy")[:-10] == left
    assert verify(tmp_path / "copy").sound


def test_former_primary_is_pruned_as_a_copy(tmp_path: Path) -> None:
    rule, store = Replication(require=1), Store(tmp_path / "store", every=0.01)
    with (
        commitlog.open(
            tmp_path / "orders", replicate=rule, segment_size=SEGMENT, store=store
        ) as log,
        replication.follow(rule.server.url("orders"), tmp_path / "copy") as follower,
    ):
        fill(log, 150)
        assert follower.wait(log.flushed_position, LIMIT_S)
    replication.promote(tmp_path / "copy", store=store)
    with (
        commitlog.open(tmp_path / "copy", store=store) as log,
        replication.serve(tmp_path / "copy") as server,
        replication.follow(server.url(), tmp_path / "orders") as follower,
    ):
        fill(log, 500)
        assert follower.wait(log.flushed_position, LIMIT_S)
        pruned = prune(tmp_path / "orders", KEPT)
        assert pruned.first_position > log.flushed_position - 4 * SEGMENT, pruned.stopped_by
