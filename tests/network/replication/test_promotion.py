"""A promotion begins an epoch durably, and logs that diverged never mix."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import commitlog
from commitlog import replication
from commitlog.errors import (
    CorruptSegmentError,
    FencedError,
    LogLockedError,
    LogNotFoundError,
)
from commitlog.recovery.epochs import Epochs
from tests.network.replication.scene import LIMIT_S, SEGMENT, copy_of, fill, records
from tests.steps import killed_at


def test_promoted_copy_goes_on_at_its_end(tmp_path: Path) -> None:
    copy_of(tmp_path / "orders", tmp_path / "copy")
    before = records(tmp_path / "copy")
    epoch = replication.promote(tmp_path / "copy")
    assert epoch.number == 1
    with commitlog.open(tmp_path / "copy") as log:
        assert log.append(b"next") == epoch.start
    assert records(tmp_path / "copy")[:-1] == before == records(tmp_path / "orders")


def test_promoted_copy_knows_the_numbers_of_producers(tmp_path: Path) -> None:
    with commitlog.open(tmp_path / "orders", segment_size=SEGMENT) as log:
        first = log.append(b"sold", producer="till", producer_sequence=7)
    copy_of(tmp_path / "orders", tmp_path / "copy")
    replication.promote(tmp_path / "copy")
    with commitlog.open(tmp_path / "copy") as log:
        end = log.tail_position
        assert log.append(b"sold", producer="till", producer_sequence=7) == first
        assert log.tail_position == end


def test_each_promotion_takes_the_next_epoch(tmp_path: Path) -> None:
    commitlog.open(tmp_path / "orders").close()
    epochs = [replication.promote(tmp_path / "orders") for _ in range(3)]
    assert [epoch.number for epoch in epochs] == [1, 2, 3]
    assert len({epoch.id for epoch in epochs}) == 3


def test_promotion_of_a_log_that_is_no_copy_warns(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    copy_of(tmp_path / "orders", tmp_path / "copy")
    replication.promote(tmp_path / "copy")
    assert "was not a copy" not in caplog.text
    replication.promote(tmp_path / "copy")
    assert "was not a copy" in caplog.text


def test_old_primary_without_more_records_follows_the_new_one(tmp_path: Path) -> None:
    copy_of(tmp_path / "orders", tmp_path / "copy")
    replication.promote(tmp_path / "copy")
    with (
        commitlog.open(tmp_path / "copy") as log,
        replication.serve(tmp_path / "copy") as server,
        replication.follow(server.url(), tmp_path / "orders") as follower,
    ):
        fill(log, 100, "new")
        assert follower.wait(log.flushed_position, LIMIT_S)
    assert records(tmp_path / "orders") == records(tmp_path / "copy")
    with pytest.raises(FencedError):
        commitlog.open(tmp_path / "orders")


def test_promoted_copy_does_not_follow_its_old_primary(tmp_path: Path) -> None:
    copy_of(tmp_path / "orders", tmp_path / "copy")
    replication.promote(tmp_path / "copy")
    with (
        replication.serve(tmp_path / "orders") as server,
        pytest.raises(FencedError, match="higher epoch"),
    ):
        replication.follow(server.url(), tmp_path / "copy")


def test_copy_of_the_lower_of_two_promotions_follows_the_higher(tmp_path: Path) -> None:
    for name in ("a", "b"):
        copy_of(tmp_path / "orders", tmp_path / name)
        replication.promote(tmp_path / name)
    replication.promote(tmp_path / "a")
    with replication.serve(tmp_path / "b") as server, pytest.raises(FencedError, match="higher"):
        replication.follow(server.url(), tmp_path / "a")
    with replication.serve(tmp_path / "a") as server:
        replication.follow(server.url(), tmp_path / "b").close()
    assert records(tmp_path / "b") == records(tmp_path / "a")


def test_follower_of_an_epoch_refuses_an_older_primary(tmp_path: Path) -> None:
    copy_of(tmp_path / "orders", tmp_path / "copy")
    replication.promote(tmp_path / "copy")
    with replication.serve(tmp_path / "copy") as server:
        replication.follow(server.url(), tmp_path / "other").close()
    with (
        replication.serve(tmp_path / "orders") as server,
        pytest.raises(FencedError, match="does not know it"),
    ):
        replication.follow(server.url(), tmp_path / "other")


def test_promotion_of_an_open_log_is_refused(tmp_path: Path) -> None:
    with commitlog.open(tmp_path / "orders"), pytest.raises(LogLockedError):
        replication.promote(tmp_path / "orders")
    assert not (tmp_path / "orders" / "epoch").exists()


def test_promotion_without_a_log_creates_nothing(tmp_path: Path) -> None:
    with pytest.raises(LogNotFoundError):
        replication.promote(tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_promotion_killed_at_any_step_can_be_repeated(tmp_path: Path) -> None:
    step = 1
    while True:
        folder = tmp_path / str(step)
        copy_of(folder / "orders", folder / "copy")
        killed = killed_at(step, lambda folder=folder: lambda: replication.promote(folder / "copy"))
        found = Epochs.at(os.fspath(folder / "copy"))
        assert found is not None
        assert (found[1].number, found[1].follows is None) in ((0, False), (1, True))
        if not killed:
            break
        number = found[1].number
        assert replication.promote(folder / "copy").number == number + 1
        with commitlog.open(folder / "copy") as log:
            log.append(b"next")
        assert records(folder / "copy")[:-1] == records(folder / "orders")
        step += 1
    assert step > 1


def test_damaged_epoch_file_is_refused(tmp_path: Path) -> None:
    commitlog.open(tmp_path / "orders").close()
    replication.promote(tmp_path / "orders")
    path = tmp_path / "orders" / "epoch"
    sound = path.read_bytes()
    for damaged in (b"", b"{}", sound[:-9], sound.replace(b'"number":1', b'"number":2')):
        path.write_bytes(damaged)
        with pytest.raises(CorruptSegmentError, match="epoch"):
            commitlog.open(tmp_path / "orders")
    path.write_bytes(sound)
    commitlog.open(tmp_path / "orders").close()
