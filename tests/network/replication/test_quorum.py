"""A promotion takes its epoch at so many copies that the old primary can acknowledge no more."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

import commitlog
from commitlog import replication
from commitlog.errors import FencedError, InvalidOptionError, ReplicationError
from commitlog.network.replication.promise import Asked, Standing
from commitlog.network.replication.served import Served
from commitlog.recovery.epochs import Epochs
from commitlog.recovery.lineage import Rank
from tests.network.replication.scene import (
    LIMIT_S,
    SEGMENT,
    check_same,
    fill,
    killed_process,
    records,
)

NOWHERE = "tcp://127.0.0.1:1/copy"


@contextmanager
def cluster(
    folder: Path, names: str
) -> Iterator[tuple[commitlog.CommitLog, replication.Server, dict[str, replication.Follower]]]:
    """Run a primary with some records, and followers that listen and have all of them."""
    with ExitStack() as stack:
        log = stack.enter_context(commitlog.open(folder / "orders", segment_size=SEGMENT))
        server = stack.enter_context(replication.serve(folder / "orders"))
        copies = {
            name: stack.enter_context(
                replication.follow(server.url(), folder / name, name=name, listen="127.0.0.1:0")
            )
            for name in names
        }
        fill(log, 50)
        for copy in copies.values():
            assert copy.wait(log.flushed_position, LIMIT_S)
        yield log, server, copies


def fence_closed_never(_: Asked) -> tuple[Rank, Standing]:
    pytest.fail("no promotion asks")


def url_of(copy: replication.Follower) -> str:
    assert copy.server is not None
    return copy.server.url()


def test_promised_copies_acknowledge_no_more_to_the_old_primary(tmp_path: Path) -> None:
    with cluster(tmp_path, "bc") as (log, server, copies):
        assert server.wait_replicated(log.first_position, copies=2, timeout=LIMIT_S)
        copies["b"].close()
        epoch = replication.promote(tmp_path / "b", others=[url_of(copies["c"])])
        late = log.append(b"late")
        log.flush()
        with pytest.raises(FencedError, match=f"epoch {epoch.number}"):
            server.wait_replicated(late, timeout=LIMIT_S)
        assert copies["c"].position <= late
        assert copies["c"].error is None


def test_promotion_with_too_few_copies_is_refused(tmp_path: Path) -> None:
    with cluster(tmp_path, "bc") as (_, _, copies):
        copies["b"].close()
        with pytest.raises(ReplicationError, match="1 of 2 copies"):
            replication.promote(tmp_path / "b", others=[NOWHERE], timeout="5s")
        found = Epochs.at(str(tmp_path / "b"))
        assert found is not None
        assert (found[1].number, found[1].fence) == (0, None)
        assert replication.promote(tmp_path / "b", others=[NOWHERE], require=2).number == 1


def test_forced_promotion_warns_of_lost_records(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with cluster(tmp_path, "b") as (_, _, copies):
        copies["b"].close()
        with caplog.at_level(logging.WARNING, "commitlog.replication"):
            epoch = replication.promote(tmp_path / "b", others=[NOWHERE], force="promises")
    assert epoch.number == 1
    assert "acknowledged records that only the others have would be lost" in caplog.text
    with commitlog.open(tmp_path / "b") as log:
        assert log.append(b"next") == epoch.start


@pytest.mark.parametrize("force", [True, "all", ("copies", "disk"), 1])
def test_unknown_force_is_refused(force: Any, tmp_path: Path) -> None:
    commitlog.open(tmp_path / "orders").close()
    with pytest.raises(InvalidOptionError, match="promises, copies, store"):
        replication.promote(tmp_path / "orders", force=force)


def test_force_waives_only_what_it_names(tmp_path: Path) -> None:
    with cluster(tmp_path, "b") as (_, _, copies):
        copies["b"].close()
        with pytest.raises(ReplicationError, match="with force promises, and lose"):
            replication.promote(tmp_path / "b", others=[NOWHERE], force=("copies", "store"))


@pytest.mark.parametrize("idle", [False, True])
def test_shorter_copy_gets_the_rest_and_is_promoted(idle: bool, tmp_path: Path) -> None:
    with cluster(tmp_path, "bc") as (log, _, copies):
        copies["b"].close()
        fill(log, 300)
        assert copies["c"].wait(log.flushed_position, LIMIT_S)
        end = log.flushed_position
        if idle:
            copies["c"].close()
            with replication.serve(tmp_path / "c") as server:
                epoch = replication.promote(tmp_path / "b", others=[server.url()])
        else:
            epoch = replication.promote(tmp_path / "b", others=[url_of(copies["c"])])
    assert epoch.start == end
    check_same(tmp_path / "orders", tmp_path / "b", end)
    with commitlog.open(tmp_path / "b") as log:
        log.append(b"next")
    assert records(tmp_path / "b")[:-1] == records(tmp_path / "orders")


def test_promised_copy_follows_the_new_primary_at_the_same_url(tmp_path: Path) -> None:
    with cluster(tmp_path, "bc") as (log, server, copies):
        copies["b"].close()
        replication.promote(tmp_path / "b", others=[url_of(copies["c"])])
        server.close()
        log.close()
        (tmp_path / "orders").rename(tmp_path / "old")
        (tmp_path / "b").rename(tmp_path / "orders")
        with (
            commitlog.open(tmp_path / "orders") as new,
            replication.serve(tmp_path / "orders", listen=f"127.0.0.1:{server.port}") as serving,
        ):
            position = new.append(b"new")
            assert serving.wait_replicated(position, timeout=LIMIT_S)
            assert copies["c"].wait(position, LIMIT_S)
        assert records(tmp_path / "c") == records(tmp_path / "orders")


def test_second_promotion_takes_a_higher_epoch(tmp_path: Path) -> None:
    with cluster(tmp_path, "bc") as (_, server, copies):
        for name in "bc":
            copies[name].close()
        server.close()
        with replication.serve(tmp_path / "c") as idle:
            first = replication.promote(tmp_path / "b", others=[idle.url()])
        with replication.serve(tmp_path / "b") as idle:
            with pytest.raises(ReplicationError, match="in epoch 1"):
                replication.promote(tmp_path / "c", others=[idle.url()])
            second = replication.promote(tmp_path / "c", others=[idle.url()], force="copies")
    assert second.number > first.number
    with pytest.raises(FencedError, match="promised to a copy"):
        commitlog.open(tmp_path / "b")


def test_promised_log_is_not_written_before_its_promotion(tmp_path: Path) -> None:
    with cluster(tmp_path, "b") as (log, server, copies):
        server.close()
        log.close()
        copies["b"].close()
        with replication.serve(tmp_path / "orders") as idle:
            replication.promote(tmp_path / "b", others=[idle.url()])
    with pytest.raises(FencedError, match="promised to a copy"):
        commitlog.open(tmp_path / "orders")
    with replication.serve(tmp_path / "b") as new:
        replication.follow(new.url(), tmp_path / "orders").close()


def test_log_open_for_writing_is_not_promoted(tmp_path: Path) -> None:
    with cluster(tmp_path, "b") as (log, server, copies):
        copies["b"].close()
        with pytest.raises(ReplicationError, match="open for writing"):
            replication.promote(tmp_path / "b", others=[server.url()])
        log.append(b"more")


def test_copy_that_is_named_twice_is_refused(tmp_path: Path) -> None:
    with cluster(tmp_path, "bc") as (_, _, copies):
        copies["b"].close()
        other = url_of(copies["c"])
        with pytest.raises(InvalidOptionError, match="same copy"):
            replication.promote(tmp_path / "b", others=[other, other], require=2)
        with (
            replication.serve(tmp_path / "b") as itself,
            pytest.raises(InvalidOptionError, match="this copy"),
        ):
            replication.promote(tmp_path / "b", others=[itself.url()])


@pytest.mark.parametrize("require", [0, 3, True, "1"])
def test_wrong_count_of_copies_is_refused(require: int, tmp_path: Path) -> None:
    with cluster(tmp_path, "b") as (_, _, copies):
        copies["b"].close()
        with pytest.raises(InvalidOptionError, match="require"):
            replication.promote(tmp_path / "b", others=[NOWHERE], require=require)


def test_copy_of_another_log_is_refused(tmp_path: Path) -> None:
    commitlog.open(tmp_path / "other").close()
    with cluster(tmp_path, "b") as (_, _, copies):
        copies["b"].close()
        with (
            replication.serve(tmp_path / "other") as other,
            pytest.raises(ReplicationError, match="another log"),
        ):
            replication.promote(tmp_path / "b", others=[other.url()])


def test_copy_below_the_start_of_an_epoch_does_not_count(tmp_path: Path) -> None:
    commitlog.open(tmp_path / "orders").close()
    start = replication.promote(tmp_path / "orders").start
    with commitlog.open(tmp_path / "orders", "r") as log:
        served = Served(log, fence_closed_never)
        rank = served.lineage().rank
        served.take("b", rank, start - 32, start)
        assert served.acknowledged.reached(1) == 0
        served.take("b", rank, start, start)
        assert served.acknowledged.reached(1) == start
        served.take("b", Rank(), start + 32, start + 32)
        assert served.acknowledged.reached(1) == start


def test_promotion_drops_epochs_that_the_copy_has_not_reached(tmp_path: Path) -> None:
    with cluster(tmp_path, "bc") as (log, server, copies):
        copies["c"].close()
        fill(log, 20)
        assert copies["b"].wait(log.flushed_position, LIMIT_S)
        copies["b"].close()
        server.close()
    replication.promote(tmp_path / "b")

    with replication.serve(tmp_path / "b") as new:
        # Step 2 is the adoption of the lineage, before any record.
        assert killed_process(2, "follow", tmp_path / "c", new.url())
    found = Epochs.at(str(tmp_path / "c"))
    assert found is not None
    epoch = replication.promote(tmp_path / "c")
    assert epoch.number == found[1].number + 1
    with commitlog.open(tmp_path / "c") as log:
        assert log.append(b"next") == epoch.start


def test_promotion_killed_at_any_step_keeps_its_promise(tmp_path: Path) -> None:
    step = 1
    while True:
        folder = tmp_path / str(step)
        with cluster(folder, "b") as (log, server, copies):
            copies["b"].close()
            server.close()
            log.close()
        with replication.serve(folder / "orders") as idle:
            url = idle.url()
            killed = killed_process(step, "promote", folder / "b", url)
            found = Epochs.at(str(folder / "b"))
            assert found is not None
            if not killed:
                break
            again = replication.promote(folder / "b", others=[url])
            assert again.number > found[1].promised.number or again.number == 1
        step += 1
    assert step > 2
