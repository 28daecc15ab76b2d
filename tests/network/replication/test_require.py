"""A log remembers how many copies acknowledge, and all of its logs promise to change that."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import commitlog
from commitlog import replication
from commitlog.errors import InvalidOptionError, ReplicationError
from commitlog.network.replication.promise import Asked
from commitlog.network.replication.replica import fence_closed
from commitlog.recovery.epochs import Epochs
from commitlog.recovery.lineage import Lineage, Rank
from commitlog.replication import Replication
from tests.network.replication.scene import LIMIT_S, fill

NOWHERE = "tcp://127.0.0.1:1/copy"
NAMES = ("orders", "b", "c")


def known(path: Path) -> Lineage:
    found = Epochs.at(str(path))
    assert found is not None
    return found[1]


def append_with(folder: Path, require: int, *names: str) -> None:
    """Append some records that copies of these names acknowledge, and close all."""
    rule = Replication(require=require)
    with commitlog.open(folder / "orders", replicate=rule) as log:
        followers = [replication.follow(rule.server.url(), folder / name) for name in names]
        fill(log, 5)
        for follower in followers:
            assert follower.wait(log.flushed_position, LIMIT_S)
            follower.close()


@contextmanager
def served(folder: Path, *names: str) -> Iterator[list[str]]:
    """Serve copies, so that they can promise; return their URLs."""
    with replication.serve([folder / name for name in names]) as server:
        yield [server.url(name) for name in names]


def test_smaller_require_is_refused_until_promoted(tmp_path: Path) -> None:
    append_with(tmp_path, 2, "b", "c")
    with pytest.raises(InvalidOptionError, match="less than the 2 copies .* --require 1 and all"):
        commitlog.open(tmp_path / "orders", replicate=Replication(require=1))
    with served(tmp_path, "b", "c") as others:
        epoch = replication.promote(tmp_path / "orders", others=others, require=1)
    assert epoch.number == 1
    append_with(tmp_path, 1, "b")
    assert [known(tmp_path / name).require for name in NAMES] == [1, 1, 2]


@pytest.mark.parametrize("require", [0, 2, 3])
def test_no_smaller_require_is_accepted(require: int, tmp_path: Path) -> None:
    append_with(tmp_path, 2, "b", "c")
    commitlog.open(tmp_path / "orders", replicate=Replication(require=require)).close()
    assert known(tmp_path / "orders").require == 2


def test_require_is_durable_before_a_copy_acknowledges(tmp_path: Path) -> None:
    append_with(tmp_path, 0, "b")
    assert known(tmp_path / "b").require == 0
    append_with(tmp_path, 1, "b")
    assert known(tmp_path / "orders").require == known(tmp_path / "b").require == 1


def test_promotion_counts_with_the_noted_require(tmp_path: Path) -> None:
    append_with(tmp_path, 2, "b", "c")
    assert replication.promote(tmp_path / "b", others=[NOWHERE]).number == 1
    assert known(tmp_path / "b").require == 2


def test_copy_does_not_change_require(tmp_path: Path) -> None:
    append_with(tmp_path, 2, "b", "c")
    with served(tmp_path, "c") as others, pytest.raises(InvalidOptionError, match="every log"):
        replication.promote(tmp_path / "b", others=others, require=1)


def test_changed_require_needs_every_promise(tmp_path: Path) -> None:
    append_with(tmp_path, 2, "b", "c")
    with served(tmp_path, "b") as others, pytest.raises(ReplicationError, match="2 of 3 copies"):
        replication.promote(tmp_path / "orders", others=[*others, NOWHERE], require=1)
    assert known(tmp_path / "b").fence is None


def test_greater_require_needs_copies_that_caught_up(tmp_path: Path) -> None:
    append_with(tmp_path, 1, "b", "c")
    append_with(tmp_path, 1, "b")
    with (
        served(tmp_path, "b", "c") as others,
        pytest.raises(ReplicationError, match="c ends at .* until it has caught up"),
    ):
        replication.promote(tmp_path / "orders", others=others, require=2)
    with (
        served(tmp_path, "orders") as (url,),
        commitlog.open(tmp_path / "orders", "r") as log,
        replication.follow(url, tmp_path / "c") as follower,
    ):
        assert follower.wait(log.committed_position, LIMIT_S)
    with served(tmp_path, "b", "c") as others:
        replication.promote(tmp_path / "orders", others=others, require=2)
    assert known(tmp_path / "orders").require == 2


def test_promised_change_makes_the_next_promotion_ask_all(tmp_path: Path) -> None:
    """The log cannot know whether the epoch with the other number has begun elsewhere."""
    append_with(tmp_path, 2, "b", "c")
    fence_closed(str(tmp_path / "b"), Asked(Rank(1, "a" * 32), changes=True))
    promoting = functools.partial(replication.promote, tmp_path / "b", timeout=LIMIT_S)
    with served(tmp_path, "c") as others:
        with pytest.raises(ReplicationError, match="2 of 3 copies"):
            promoting(others=others)
        promoting(others=others, force="promises")
    assert not known(tmp_path / "b").changing


def test_later_promise_keeps_a_promised_change(tmp_path: Path) -> None:
    """The copy has its old number, and promoted alone it would lack what others acknowledged."""
    append_with(tmp_path, 2, "b", "c")
    with served(tmp_path, "b", "c") as others:
        replication.promote(tmp_path / "orders", others=others, require=1)
    append_with(tmp_path, 1, "b")
    fence_closed(str(tmp_path / "c"), Asked(Rank(2, "a" * 32)))  # then that promotion is killed
    with pytest.raises(ReplicationError, match="1 of 3 copies"):
        replication.promote(tmp_path / "c", others=[NOWHERE])


def test_change_of_an_epoch_that_is_known_counts(tmp_path: Path) -> None:
    """A primary may have heard of the epoch, from its copies, before it promises it."""
    append_with(tmp_path, 1, "b")
    rank = Rank(1, "a" * 32)
    fence_closed(str(tmp_path / "b"), Asked(rank))
    assert not known(tmp_path / "b").changing
    fence_closed(str(tmp_path / "b"), Asked(rank, changes=True))
    assert known(tmp_path / "b").changing


@pytest.mark.parametrize("require", [-1, 65, "1", True])
def test_damaged_require_is_refused(require: object) -> None:
    with pytest.raises(ValueError, match="required copies"):
        Lineage.parse({"follows": None, "epochs": [], "require": require})
