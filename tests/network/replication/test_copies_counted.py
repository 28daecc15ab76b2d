"""A log knows its copies, durably, and each promotion counts with them."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

import commitlog
from commitlog import replication
from commitlog.base import failpoint
from commitlog.errors import (
    CommitLogError,
    FencedError,
    InvalidOptionError,
    ReplicationError,
)
from commitlog.network.replication.follower_stream import FollowerStream
from commitlog.network.replication.served import Served
from commitlog.recovery.epochs import Epochs
from commitlog.recovery.lineage import Lineage, Rank
from commitlog.replication import Replication
from tests.length import every
from tests.network.replication.scene import LIMIT_S, SEGMENT, fill, killed_process, records

NOWHERE = "tcp://127.0.0.1:1/c"


def known(path: Path) -> Lineage:
    found = Epochs.at(str(path))
    assert found is not None
    return found[1]


@contextmanager
def primary(path: Path, require: int = 1) -> Iterator[tuple[commitlog.CommitLog, str]]:
    rule = Replication(require=require)
    with commitlog.open(path, segment_size=SEGMENT, flush="sync", replicate=rule) as log:
        yield log, rule.server.url(path.name)


def acknowledged(path: Path, *copies: Path, count: int = 5) -> int:
    """Append records that copies acknowledge, and close all; return the end."""
    with primary(path) as (log, url), ExitStack() as stack:
        followers = [
            stack.enter_context(replication.follow(url, copy, name=copy.name)) for copy in copies
        ]
        fill(log, count, path.name)
        for follower in followers:
            assert follower.wait(log.flushed_position, LIMIT_S)
        return log.flushed_position


def promoted(path: Path, *others: Path, **options: object) -> commitlog.replication.Epoch:
    """Promote a log while others are served."""
    if not others:
        return replication.promote(path, **options)  # type: ignore[arg-type]
    with replication.serve(others) as server:
        urls = [server.url(other.name) for other in others]
        return replication.promote(path, others=urls, **options)  # type: ignore[arg-type]


def test_copy_is_counted_before_it_acknowledges(tmp_path: Path) -> None:
    a, b, c = (tmp_path / name for name in "abc")
    acknowledged(a, b, c)
    for path in (a, b, c):
        assert known(path).copies == 2
        assert {each.name for each in known(path).members} == {"", "b", "c"}
        assert len({known(each).member for each in (a, b, c)}) == 3


def test_second_follower_of_a_name_is_refused_while_both_run(tmp_path: Path) -> None:
    """It would take the place of the first one, which has acknowledged what it lacks."""
    a, b, c = (tmp_path / name for name in "abc")
    with primary(a) as (log, url):
        with replication.follow(url, b, name="x") as follower:
            fill(log, 3)
            assert follower.wait(log.flushed_position, LIMIT_S)
            with pytest.raises(ReplicationError, match="another copy of the name 'x'"):
                replication.follow(url, c, name="x", connect_timeout=0.2)
            assert known(b).member in {each.id for each in known(a).members}
        replication.follow(url, c, name="x").close()  # as a copy that was made again
    assert known(c).member in {each.id for each in known(a).members}
    assert known(a).copies == 1


def test_copy_that_joins_later_is_known_to_those_that_follow(tmp_path: Path) -> None:
    a, b, c, d = (tmp_path / name for name in "abcd")
    with (
        primary(a) as (log, url),
        replication.follow(url, b, name="b") as first,
        replication.follow(url, c, name="c") as second,
    ):
        assert second.wait(log.append(b"one") + 1, LIMIT_S)
        with replication.follow(url, d, name="d"):
            assert first.wait(log.append(b"two") + 1, LIMIT_S)
    assert known(a).copies == known(b).copies == 3
    with pytest.raises(ReplicationError, match="1 of 3 copies"):
        promoted(b)
    assert promoted(b, c, d).number == 1


@pytest.mark.parametrize("ahead", [False, True])
def test_older_follower_acknowledges_nothing_that_counts(ahead: bool, tmp_path: Path) -> None:
    commitlog.open(tmp_path / "a").close()
    with commitlog.open(tmp_path / "a", "r") as log:
        served = Served(log, lambda _: pytest.fail("no promotion asks"), ahead=ahead)
        said = {"name": "b", "rank": Rank()._asdict(), "position": 0, "unsealed": []}
        if not ahead:
            assert FollowerStream(served, said).has_epoch
            return
        with pytest.raises(ReplicationError, match="upgrade commitlog there"):
            FollowerStream(served, said)


def test_served_log_counts_no_copies(tmp_path: Path) -> None:
    commitlog.open(tmp_path / "a").close()
    with replication.serve(tmp_path / "a") as server:
        replication.follow(server.url(), tmp_path / "b").close()
    assert not (tmp_path / "a" / "epoch").exists()


@pytest.mark.parametrize("returns", [False, True])
def test_returned_primary_needs_a_promise_of_the_new_ones(returns: bool, tmp_path: Path) -> None:
    a, b, c = (tmp_path / name for name in "abc")
    acknowledged(a, b, c)
    promoted(b, c)
    acknowledged(b, c)
    lost = records(c)
    if returns:
        acknowledged(b, a)
        acknowledged(b, c)
        lost = records(c)
    shutil.rmtree(b)
    with pytest.raises(ReplicationError, match="1 of 2 copies"):
        promoted(a)
    with pytest.raises(ReplicationError, match="1 of 2 copies"):
        replication.promote(a, others=[NOWHERE])
    if returns:
        promoted(a, c)
        assert records(a) == lost
    else:
        with pytest.raises(ReplicationError, match="what only the other copy has"):
            promoted(a, c)
        promoted(c, a)
        acknowledged(c, a)
        assert records(a)[: len(lost)] == lost


def test_returned_primary_after_two_promotions_is_refused(tmp_path: Path) -> None:
    a, b, c = (tmp_path / name for name in "abc")
    acknowledged(a, b, c)
    promoted(b, c)
    acknowledged(b, c)
    promoted(c, b)
    acknowledged(c, b)
    for others in ((), (b,), (c,)):
        with pytest.raises(ReplicationError):
            promoted(a, *others)
    acknowledged(c, a)
    assert records(a) == records(c)


def test_copy_of_the_same_name_does_not_count_twice(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    acknowledged(a, b)
    shutil.rmtree(b)
    acknowledged(a, b)
    assert known(a).copies == 1
    assert promoted(b).number == 1


def test_operator_forgets_a_copy_that_is_gone(tmp_path: Path) -> None:
    a, b, c = (tmp_path / name for name in "abc")
    acknowledged(a, b)
    shutil.rmtree(b)
    acknowledged(a, c)
    shutil.rmtree(a)
    with pytest.raises(ReplicationError, match=r"counts 2 copies, .*b.*copies=, --copies"):
        promoted(c)
    assert promoted(c, copies=1).number == 1
    assert known(c).copies == 1
    with pytest.raises(InvalidOptionError, match="copies must be an int from 1"):
        promoted(c, copies=0)


def test_planned_switch_with_a_busy_primary_loses_nothing(tmp_path: Path) -> None:
    a, b, c = (tmp_path / name for name in "abc")
    done: list[int] = []
    rule = Replication(require=1)
    log = commitlog.open(a, segment_size=SEGMENT, flush="sync", replicate=rule)

    def work() -> None:
        with suppress(FencedError):
            while True:
                done.append(log.append(b"x" * 500))

    url = rule.server.url("a")
    with replication.follow(url, c, name="c", listen="127.0.0.1:0") as last:
        first = replication.follow(url, b, name="b")
        thread = threading.Thread(target=work)
        thread.start()
        while len(done) < 50:
            threading.Event().wait(0.001)
        first.close()
        assert last.wait(first.position + 20_000, LIMIT_S)
        assert last.server is not None
        epoch = replication.promote(b, others=[last.server.url()])
        thread.join(LIMIT_S)
    with pytest.raises(FencedError):
        log.close()
    have = {position for position, *_ in records(b)}
    assert set(done) <= have
    assert max(have) < epoch.start


def test_refused_promotion_leaves_the_primary_as_it_was(tmp_path: Path) -> None:
    a, b, c, d = (tmp_path / name for name in "abcd")
    rule = Replication(require=1)
    with commitlog.open(a, flush="sync", replicate=rule) as log, ExitStack() as stack:
        url = rule.server.url("a")
        copies = {
            path.name: stack.enter_context(
                replication.follow(url, path, name=path.name, listen="127.0.0.1:0")
            )
            for path in (b, c, d)
        }
        position = log.append(b"one")
        for copy in copies.values():
            assert copy.wait(position + 1, LIMIT_S)
        others = [copies[name].server.url() for name in "cd"]  # type: ignore[union-attr]
        copies["b"].close()
        with pytest.raises(InvalidOptionError):
            replication.promote(b, others=others, require=2)
        with pytest.raises(ReplicationError, match="2 of 3 copies"):
            replication.promote(b, others=[others[0], NOWHERE])
        assert known(c).fence is None
        log.append(b"two")


def test_failed_claim_withdraws_the_promises(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b, c = (tmp_path / name for name in "abc")
    acknowledged(a, b, c)

    def fails(passed: str) -> None:
        if passed == "promises asked":
            assert known(c).fence is not None
            raise OSError(5, "as if the disk failed")

    with replication.serve(c) as server:
        monkeypatch.setattr(failpoint, "hook", fails)
        with pytest.raises(CommitLogError):
            replication.promote(b, others=[server.url()])
        monkeypatch.undo()
    assert known(c).fence is None
    acknowledged(a, b, c)


@every(3)
def test_promotion_that_is_killed_can_be_repeated_elsewhere(tmp_path: Path, every: int) -> None:
    step = 1
    while True:
        a, b, c = (tmp_path / str(step) / name for name in "abc")
        acknowledged(a, b, c)
        with replication.serve(c) as server:
            killed = killed_process(step, "promote", b, server.url())
        if not killed:
            break
        if known(b).follows is None:  # it has begun, and says so to the next one
            promoted(b, c)
        else:
            promoted(c, b)
            b, c = c, b
        acknowledged(b, a, c)
        assert records(a) == records(b) == records(c)
        step += every
    assert step > 2
