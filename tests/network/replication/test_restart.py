"""A primary that lost records in a crash of its machine: its copies have them, and are cut."""

from __future__ import annotations

import contextlib
import functools
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import commitlog
from commitlog import replication
from commitlog._kernel.segments import HEADER_SIZE
from commitlog.errors import FencedError, ReplicationError
from commitlog.keep import verify
from commitlog.log.locked_log import LockedLog
from commitlog.log.open_calls import open_log
from commitlog.log.parts import parts_of
from commitlog.network.replication.promise import Asked
from commitlog.network.replication.replica import Replica, fence_closed
from commitlog.network.replication.sender import Sender
from commitlog.network.replication.served import Served
from commitlog.recovery import epochs as epochs_file
from commitlog.recovery.admission import note_recovery
from commitlog.recovery.epochs import Epochs
from commitlog.recovery.lineage import Epoch, Lineage, Rank
from tests.copies import copy_log
from tests.network.replication.scene import LIMIT_S, SEGMENT, check_same, fill, records, settle
from tests.steps import killed_at


def opened(path: Path) -> commitlog.CommitLog:
    """Open a log that sends committed records while it flushes them."""
    rule = replication.Replication(require=0)
    return commitlog.open(path, segment_size=SEGMENT, replicate=rule)


def copy_files(log: Path, to: Path) -> None:
    """Copy what a crash leaves of an open log: another boot does not use `cursors`."""
    copy_log(log, to, "cursors")
    settle(to)


def url_of(log: commitlog.CommitLog) -> str:
    rule = log.options.replicate
    assert isinstance(rule, replication.Replication)
    return rule.server.url(Path(log.path).name)


def epochs_of(path: Path) -> tuple[Epoch, ...]:
    known = Epochs.at(str(path))
    assert known is not None
    return known[1].epochs


@pytest.fixture
def crashed(tmp_path: Path) -> Path:
    """A log as a crash of its machine leaves it, whose copy has more records."""
    primary, left = tmp_path / "orders", tmp_path / "left"
    rule = replication.Replication(require=0)
    with (
        commitlog.open(primary, segment_size=SEGMENT, flush="none", replicate=rule) as log,
        replication.follow(url_of(log), tmp_path / "copy") as follower,
    ):
        fill(log, 10)
        copy_files(primary, left)
        for number in range(100):
            log.append(f"lost {number} ".encode() * (1 + number % 90))
        log.commit()  # and no flush: the copy has them, and the crash takes them
        assert follower.wait(log.committed_position, LIMIT_S)
    shutil.rmtree(primary)
    left.rename(primary)
    return primary


def test_copy_is_cut_where_its_primary_was_recovered(crashed: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    with opened(crashed) as log:
        start = log.tail_position
        assert epochs_of(crashed) == (Epoch(0, start, "", 1),)
        fill(log, 300, "other")  # beyond the end of the copy
        with replication.follow(url_of(log), copy) as follower:
            assert follower.wait(log.flushed_position, LIMIT_S)
        check_same(crashed, copy, log.flushed_position)
    assert records(copy) == records(crashed)
    assert epochs_of(copy) == epochs_of(crashed)
    assert list(copy.glob("*.fork*"))


def test_acknowledgements_count_from_the_recovery_on(crashed: Path, tmp_path: Path) -> None:
    with opened(crashed) as log:
        rule = log.options.replicate
        assert isinstance(rule, replication.Replication)
        with replication.follow(url_of(log), tmp_path / "copy", name="b") as follower:
            assert follower.wait(log.flushed_position, LIMIT_S)
            assert rule.server.wait_replicated(log.append(b"one"), timeout=LIMIT_S)
        assert rule.server.followers() == {"b": log.flushed_position}


def test_primary_that_restarted_is_cut_when_it_follows_its_copy(
    crashed: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    with opened(crashed) as log:
        start = log.tail_position
        fill(log, 20, "other")  # below the end of the copy
    assert replication.promote(copy).start > start
    with opened(copy) as log:
        with replication.follow(url_of(log), crashed) as follower:
            assert follower.wait(log.flushed_position, LIMIT_S)
        check_same(copy, crashed, log.flushed_position)
    assert list(crashed.glob("*.fork*"))


def test_kill_while_a_restarted_log_is_cut_leaves_it_sound(tmp_path: Path) -> None:
    path, cut = tmp_path / "orders", tmp_path / "cut"
    with commitlog.open(path, segment_size=SEGMENT) as log:
        log.append(b"kept")
        position = log.tail_position
        fill(log, 20)
    with contextlib.closing(LockedLog.open(str(path))) as locked:
        locked.epochs.write(Lineage().restarted(locked.end))

    def prepare() -> Callable[[], object]:
        replica = Replica(str(cut), checked=True)
        return lambda: replica.cut(position)

    step, killed = 0, True
    while killed:
        step += 1
        shutil.rmtree(cut, ignore_errors=True)
        copy_files(path, cut)
        killed = killed_at(step, prepare)
        (cut / "cursors").unlink()  # as after another boot
        LockedLog.open(str(cut)).close()
        assert verify(cut).sound, step
    assert step > 3


def test_promotion_prefers_a_copy_of_the_restarted_log(crashed: Path, tmp_path: Path) -> None:
    with (
        opened(crashed) as log,
        replication.follow(url_of(log), tmp_path / "new") as follower,
    ):
        fill(log, 5, "other")
        assert follower.wait(log.flushed_position, LIMIT_S)
    with replication.serve(tmp_path / "copy") as server:  # longer, and of before the restart
        replication.promote(tmp_path / "new", others=[server.url()], require=1)


def test_copy_ahead_of_its_restarted_primary_is_promoted(crashed: Path, tmp_path: Path) -> None:
    commitlog.open(crashed).close()  # the restarted log has no record of its own
    with replication.serve(crashed) as server:
        replication.promote(tmp_path / "copy", others=[server.url()], require=1)
    assert epochs_of(crashed)[0].restart == 1


def test_restart_at_the_end_of_a_segment_cuts_nothing(tmp_path: Path) -> None:
    primary, left = tmp_path / "orders", tmp_path / "left"
    with opened(primary) as log, replication.follow(url_of(log), tmp_path / "copy") as follower:
        while log.tail_position < SEGMENT:
            log.append(bytes(8000))
        while log.tail_position % SEGMENT > 4096:
            log.append(b"")
        log.flush()
        assert follower.wait(log.flushed_position, LIMIT_S)
        copy_files(primary, left)
    with opened(left) as log, replication.follow(url_of(log), tmp_path / "copy") as follower:
        assert follower.wait(log.flushed_position, LIMIT_S)
    assert not list((tmp_path / "copy").glob("*.fork*"))


def test_log_that_promises_an_epoch_notes_its_recovery(crashed: Path) -> None:
    fence_closed(str(crashed), Asked(Rank()))  # recovers the log, and closes it cleanly
    assert [epoch.restart for epoch in epochs_of(crashed)] == [1]


def test_crashed_log_promises_after_its_recovery(crashed: Path, tmp_path: Path) -> None:
    with replication.serve(crashed) as server:
        replication.promote(tmp_path / "copy", others=[server.url()])
    assert [epoch.restart for epoch in epochs_of(crashed)] == [1]


def test_recovery_at_the_end_of_a_segment_begins_in_the_next_one(tmp_path: Path) -> None:
    with opened(tmp_path / "orders") as log:
        note_recovery(parts_of(log).directory, SEGMENT)
    assert [epoch.start for epoch in epochs_of(tmp_path / "orders")] == [SEGMENT + HEADER_SIZE]


def test_older_state_of_a_recovered_log_is_not_followed(crashed: Path, tmp_path: Path) -> None:
    copy_log(crashed, tmp_path / "older")
    with opened(crashed) as log:
        replication.follow(url_of(log), tmp_path / "copy").close()
    with (
        replication.serve(tmp_path / "older") as server,
        pytest.raises(FencedError, match="older state of the log; promote the copy"),
    ):
        replication.follow(server.url(), tmp_path / "copy")


def test_log_without_copies_notes_no_recovery(tmp_path: Path) -> None:
    path, left = tmp_path / "orders", tmp_path / "left"
    with commitlog.open(path, segment_size=SEGMENT) as log:
        fill(log, 10)
        copy_files(path, left)
    commitlog.open(left).close()
    assert not (left / epochs_file.NAME).exists()


def test_committed_records_are_sent_before_their_flush(tmp_path: Path) -> None:
    with commitlog.open(tmp_path / "orders", segment_size=SEGMENT, flush="none") as log:
        log.append(b"one")
        served = Served(
            open_log(log.path, "r"), functools.partial(fence_closed, log.path), ahead=True
        )
        chunks = Sender(served, 0, []).chunks()
        assert next(chunks).header
        log.commit()
        chunk = next(chunks)
        assert chunk.frames
        assert chunk.flushed < served.log.committed_position
        while log.tail_position < SEGMENT:
            log.append(bytes(1000))
        log.commit()
        assert not next(chunks).frames  # the end of a segment waits for its flush
        log.flush()
        chunk = next(chunks)
        assert chunk.offset + len(chunk.frames) == SEGMENT
        position = log.append(b"two")
        log.commit()
        # A copy that has more does not acknowledge it for this log.
        served.take("b", Rank(), 2 * SEGMENT, 2 * SEGMENT)
        assert served.reached(1) == served.log.flushed_position
        assert not served.wait_replicated(position, 1, 0.01)
        served.log.close()


def test_restart_is_later_than_its_epoch_and_before_the_next_one() -> None:
    first = Lineage().promoted(4096, Rank(1, "a" * 32))
    again = first.restarted(8192)
    assert Rank() < first.rank < again.rank < Rank(1, "b" * 32) < Rank(2, "a" * 32)
    assert Lineage.parse(again.content()) == again
    assert first.content()["epochs"] == [{"number": 1, "start": 4096, "id": "a" * 32}]
    assert again.parted(first) == 8192
    assert again.promotion == first.epochs[0]
    for epochs in (
        [{"number": 0, "start": 0, "id": "", "restart": 0}],
        [{"number": 1, "start": 0, "id": "a" * 32, "restart": 1}],
        [*first.content()["epochs"], {"number": 1, "start": 0, "id": "b" * 32, "restart": 1}],  # type: ignore[misc]
    ):
        with pytest.raises(ValueError, match="epochs"):
            Lineage.parse({"follows": None, "epochs": epochs})


def test_restart_replaces_those_that_start_there_or_later() -> None:
    first = Lineage().promoted(4096, Rank(1, "a" * 32))
    once = first.restarted(16384)
    again = once.restarted(16384)  # a program that fails before it appends does not fill the file
    assert again.epochs == (*first.epochs, Epoch(1, 16384, "a" * 32, 2))
    assert again.parted(once) == again.parted(first) == 16384
    assert len(once.restarted(20480).epochs) == 3
    below = once.restarted(8192)
    assert below.epochs == (*first.epochs, Epoch(1, 8192, "a" * 32, 2))
    assert below.parted(once) == 8192
    assert Lineage.parse(below.content()) == below


def test_recovery_beyond_the_limit_is_refused_without_loss(
    crashed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, epochs = records(crashed), (crashed / epochs_file.NAME).read_bytes()
    monkeypatch.setattr(Lineage, "EPOCHS_LIMIT", 0)
    for _ in range(2):
        with pytest.raises(ReplicationError, match="remove all copies of this log, then its file"):
            commitlog.open(crashed)
        assert (crashed / epochs_file.NAME).read_bytes() == epochs
    assert records(crashed) == before
    (crashed / epochs_file.NAME).unlink()
    with commitlog.open(crashed) as log:
        log.append(b"on")
    assert records(crashed)[:-1] == before
