"""Backups to a directory: whole and consistent, of live logs; and what is refused."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import commitlog
from commitlog import CommitLog, Retention
from commitlog.backup import source_log
from commitlog.errors import (
    CommitLogError,
    CorruptRecordError,
    CorruptSegmentError,
    DiskFullError,
    FencedError,
    InvalidOptionError,
    LogExistsError,
    LogNotFoundError,
    PositionError,
)
from commitlog.extension import Epochs, LogFiles
from commitlog.keep import BackedUp, backup, verify
from commitlog.recovery.lineage import Lineage, Member
from commitlog.replication import Replication, follow, promote, serve
from tests.copies import copy_log
from tests.faults.image import poke
from tests.setups import BY_HAND, HEADER, SEGMENT, Logs, Setup
from tests.steps import replace_hook

Row = tuple[int, int, bytes]


@dataclass
class Order:
    sku: str


def rows(path: Path | str) -> list[Row]:
    with commitlog.open(path, "r") as log:
        return [(record.position, record.timestamp_ns, record.value) for record in log.tailer()]


def fill(log: CommitLog, first: int = 0, stop: int = 300) -> None:
    for number in range(first, stop):
        log.append(b"%d" % number * 200)


@pytest.fixture
def log(logs: Logs) -> CommitLog:
    """A log of two whole segments and a part of the third."""
    log = logs.open(timestamps="precise")
    fill(log)
    log.flush()
    log.prune(Retention(max_bytes="1TiB"))  # seals whole segments, which a thread does later
    return log


@pytest.fixture
def to(tmp_path: Path) -> Path:
    return tmp_path / "copy"


def listed(path: Path) -> list[str]:
    return sorted(os.listdir(path))


# --- what a backup has ----------------------------------------------------------------------------


def test_backup_of_each_setup_has_all_appended(logs: Logs, setup: Setup, to: Path) -> None:
    log = logs.open_as(setup)
    fill(log)
    done = log.backup(to)
    assert done.verified
    assert done.end_position == log.tail_position == log.flushed_position
    assert rows(to) == [(r.position, r.timestamp_ns, r.value) for r in log.tailer()]
    assert verify(to).sound
    with commitlog.open(to) as copy:
        assert (copy.tail_position, copy.last_sequence) == (done.end_position, 299)
        copy.append(b"on")
        assert copy.last_sequence == 300


def test_backup_by_path_is_made_while_the_log_is_open(log: CommitLog, to: Path) -> None:
    log.flush()
    done = backup(log.path, to)
    assert done == BackedUp(
        path=str(to),
        first_position=HEADER,
        end_position=log.tail_position,
        segments=3,
        written_segments=3,
        written_bytes=log.tail_position,
        verified=True,
    )
    assert rows(to) == rows(log.path)


def test_backup_by_path_asks_the_writer_to_flush(logs: Logs, to: Path) -> None:
    log = logs.open(flush_interval=0.01, flush_thorough_interval=60, flush_least_pages=262144)
    fill(log)
    assert backup(log.path, to).end_position == log.tail_position == log.flushed_position


def test_backup_of_an_empty_log_is_an_empty_log(logs: Logs, to: Path) -> None:
    assert logs.open().backup(to).end_position == HEADER
    with commitlog.open(to) as copy:
        assert copy.append(b"first") == HEADER


def test_backup_at_the_end_of_a_segment_can_be_appended_to(logs: Logs, to: Path) -> None:
    log = logs.open()
    fill(log, 0, 10)
    log.roll()
    done = log.backup(to)
    assert (done.end_position, done.segments) == (SEGMENT, 1)
    with commitlog.open(to) as copy:
        assert copy.append(b"on") == SEGMENT + HEADER
        assert copy.last_sequence == 10


def test_backup_of_a_backup_equals_it(log: CommitLog, to: Path, tmp_path: Path) -> None:
    log.backup(to)
    backup(to, tmp_path / "again")
    assert rows(tmp_path / "again") == rows(log.path)


def test_backup_under_appends_is_a_prefix(log: CommitLog, to: Path) -> None:
    ending = threading.Event()

    def append() -> None:
        number = 300
        while not ending.is_set():
            log.append(b"%d" % number * 200)
            number += 1

    thread = threading.Thread(target=append)
    thread.start()
    try:
        for _ in range(5):
            done = log.backup(to, incremental=to.exists())
            copied = rows(to)
            assert [row[2] for row in copied] == [b"%d" % n * 200 for n in range(len(copied))]
            assert copied[-1][0] < done.end_position <= log.tail_position
    finally:
        ending.set()
        thread.join()
    assert verify(to).sound


def test_backup_has_chosen_contents(logs: Logs, to: Path, tmp_path: Path) -> None:
    log = logs.open()
    fill(log)
    with log.tailer("reader", required=True, max_lag="1GiB") as tailer:
        tailer.read()
        position = tailer.position
    log.append(b"once", producer="till", producer_sequence=7)
    commitlog.topic(log, Order).append(Order("lamp"))
    with commitlog.queue(log, "mails") as queue:
        job = queue.take(timeout=10)
        assert job is not None
        job.accept()
        done = log.backup(to)
    assert done.tailers == ("reader",)
    assert done.queues == ("mails",)
    assert done.producers
    assert done.schemas
    with commitlog.open(to) as copy:
        state = next(each for each in copy.tailers() if each.name == "reader")
        assert (state.position, state.required, state.owner) == (position, True, None)
        assert state.max_lag_bytes == 1 << 30
        end = copy.tail_position
        assert copy.append(b"again", producer="till", producer_sequence=7) < end
        with commitlog.queue(copy, "mails") as again:
            assert again.stats().depth == queue_depth(log)
    bare = log.backup(tmp_path / "bare", without=("tailers", "queues", "producers", "schemas"))
    assert (bare.tailers, bare.queues, bare.producers, bare.schemas) == ((), (), False, False)
    assert [name for name in listed(tmp_path / "bare") if not name.endswith(".seg")] == [
        "backup",
        "checkpoint",
        "log.json",
    ]


def queue_depth(log: CommitLog) -> int:
    with commitlog.queue(log, "mails") as queue:
        return queue.stats().depth


def test_tailer_is_never_behind_the_end_of_the_backup(logs: Logs, to: Path) -> None:
    log = logs.open()
    fill(log)
    tailer = log.tailer("reader", visibility="appended")
    begun = threading.Event()

    def move(name: str) -> None:
        if name == "segment restored" and not begun.is_set():
            begun.set()
            fill(log, 300, 400)
            list(tailer)

    replace_hook(move)
    try:
        done = log.backup(to)
    finally:
        replace_hook(None)
    with commitlog.open(to) as copy:
        assert copy.tailers()[0].position <= done.end_position < log.tail_position


def test_backup_commits_what_was_appended(logs: Logs, to: Path) -> None:
    log = logs.open(pool=logs.pool(), **BY_HAND)
    fill(log, 0, 10)
    assert log.backup(to).end_position == log.tail_position


def test_tailer_of_uncommitted_records_is_set_back(logs: Logs, to: Path) -> None:
    log = logs.open(pool=logs.pool(), **BY_HAND)
    fill(log, 0, 10)
    log.commit()
    fill(log, 10, 20)
    tailer = log.tailer("reader", visibility="appended")
    assert len(list(tailer)) == 20
    done = backup(log.path, to)
    with commitlog.open(to, "r") as copy:
        assert copy.tailers()[0].position == done.end_position < tailer.position
    with commitlog.open(to) as copy:
        copy.append(b"on")
        with copy.tailer("reader") as again:
            assert list(again.values()) == [b"on"]


def test_segment_that_is_sealed_meanwhile_is_cut(log: CommitLog, to: Path) -> None:
    def seal() -> None:
        fill(log, 300, 500)
        log.flush()
        log.prune(Retention(max_bytes="1TiB"))  # seals

    during(seal)
    done = log.backup(to)
    assert done.end_position < log.tail_position
    last = done.segments - 1
    with LogFiles(log.path) as files, LogFiles(str(to)) as copied:
        assert files.sealed_before(last, last + 1) == last + 1
        assert copied.sealed_before(last, last + 1) == last
    assert len(rows(to)) == 300
    with commitlog.open(to) as copy:
        copy.append(b"on")
        assert copy.last_sequence == 300


def test_backup_has_epochs_and_no_promises(log: CommitLog, to: Path) -> None:
    log.flush()
    log.close()
    with serve(log.path) as server:
        follow(server.url(), str(to) + "-live").close()
    promote(str(to) + "-live")
    files = LogFiles(str(to) + "-live")
    with files:
        known = files.lineage()
        assert known is not None
        member = Member.new()
        changed = Lineage(known.epochs, require=1, member=known.member, members=(member,), copies=1)
        Epochs(files.directory).write(changed)
    backup(str(to) + "-live", to)
    with LogFiles(str(to)) as copied:
        found = copied.lineage()
        assert found is not None
        assert found.epochs == known.epochs
        assert (found.copies, found.members, found.fence, found.follows) == (0, (), None, None)
        assert found.member == ""  # each copy of it gets an id of its own
        assert not copied.restored
    with commitlog.open(to) as opened:  # it is no restored primary
        opened.append(b"on")


# --- incremental ----------------------------------------------------------------------------------


def test_incremental_backup_writes_only_what_is_lacking(log: CommitLog, to: Path) -> None:
    log.backup(to)
    inode = os.stat(to / f"{0:020d}.seg").st_ino
    fill(log, 300, 400)
    done = log.backup(to, incremental=True)
    assert done.written_segments < done.segments
    assert os.stat(to / f"{0:020d}.seg").st_ino == inode
    assert rows(to) == rows(log.path)
    assert verify(to).sound
    assert listed(to.parent) == ["copy", "log"]
    with commitlog.open(to) as copy:
        assert copy.last_sequence == 399


def test_incremental_backup_keeps_what_the_log_deleted(log: CommitLog, to: Path) -> None:
    log.backup(to)
    everything = rows(log.path)
    fill(log, 300, 400)
    log.flush()
    assert log.delete_before(log.tail_position)
    done = log.backup(to, incremental=True)
    assert done.first_position == HEADER
    assert rows(to)[:300] == everything
    assert len(rows(to)) == 400


def test_incremental_backup_refuses_a_gap(log: CommitLog, to: Path) -> None:
    log.backup(to)
    fill(log, 300, 700)
    log.flush()
    assert log.delete_before(log.tail_position)
    with pytest.raises(PositionError, match="and the backup ends at") as caught:
        log.backup(to, incremental=True)
    assert caught.value.first_position == log.first_position - HEADER
    assert len(rows(to)) == 300


def test_incremental_backup_of_nothing_new_changes_nothing(log: CommitLog, to: Path) -> None:
    log.backup(to)
    before = rows(to)
    done = log.backup(to, incremental=True)
    assert done.written_segments == 1  # the last one
    assert rows(to) == before


def test_backup_of_another_log_is_refused(logs: Logs, log: CommitLog, to: Path) -> None:
    log.backup(to)
    other = logs.open("other")
    fill(other)
    with pytest.raises(LogExistsError, match="another log"):
        other.backup(to, incremental=True)
    assert rows(to) == rows(log.path)


def test_backup_of_another_history_is_refused(logs: Logs, to: Path, tmp_path: Path) -> None:
    log = logs.open()
    fill(log)
    log.close()
    copy_log(log.path, tmp_path / "fork")
    with commitlog.open(log.path) as again:
        fill(again, 300, 310)
        again.backup(to)
    with commitlog.open(tmp_path / "fork") as fork:
        with pytest.raises(LogExistsError, match="restored from an older state"):
            fork.backup(to, incremental=True)
        fill(fork, 400, 480)
        with pytest.raises(LogExistsError, match="different records"):
            fork.backup(to, incremental=True)
    assert len(rows(to)) == 310


def test_backup_of_another_promotion_is_refused(log: CommitLog, to: Path, tmp_path: Path) -> None:
    log.flush()
    log.close()
    for name in ("a", "b"):
        with serve(log.path) as server:
            follow(server.url(), tmp_path / name).close()
        promote(tmp_path / name)
        with commitlog.open(tmp_path / name) as promoted:
            promoted.append(b"of %b" % name.encode())
    backup(tmp_path / "a", to)
    with pytest.raises(LogExistsError, match="different promotions"):
        backup(tmp_path / "b", to, incremental=True)
    backup(tmp_path / "a", to, incremental=True)


def test_log_that_is_no_backup_is_not_replaced(logs: Logs, log: CommitLog, to: Path) -> None:
    log.flush()
    log.close()
    copy_log(log.path, to)
    with pytest.raises(LogExistsError, match="not a backup"):
        backup(log.path, to, incremental=True)
    assert len(rows(to)) == 300


def test_backup_that_was_appended_to_is_not_replaced(log: CommitLog, to: Path) -> None:
    log.backup(to)
    with commitlog.open(to) as copy:
        with pytest.raises(LogExistsError, match="opened for writing"):
            log.backup(to, incremental=True)
        copy.append(b"mine")
    with pytest.raises(LogExistsError, match="opened for writing"):
        log.backup(to, incremental=True)
    assert rows(to)[-1][2] == b"mine"


def test_first_backup_is_not_incremental(log: CommitLog, to: Path) -> None:
    with pytest.raises(LogNotFoundError, match="leave `--incremental` out"):
        log.backup(to, incremental=True)
    assert listed(to.parent) == ["log"]


def test_incremental_backup_without_exchange(
    log: CommitLog, to: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("commitlog.backup.workplace._exchange", lambda one, other: False)
    log.backup(to)
    fill(log, 300, 310)
    log.backup(to, incremental=True)
    assert rows(to) == rows(log.path)
    assert listed(to.parent) == ["copy", "log"]


def test_incremental_backup_without_links(
    log: CommitLog, to: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(source: str, target: str) -> None:
        raise OSError(95, "Operation not supported")

    log.backup(to)
    fill(log, 300, 400)
    monkeypatch.setattr("os.link", refuse)
    log.backup(to, incremental=True)
    assert rows(to) == rows(log.path)


# --- what happens meanwhile -----------------------------------------------------------------------


def during(step: Callable[[], object], name: str = "segment restored") -> None:
    """Run a step once, when the first segment is copied."""
    done = threading.Event()

    def passed(found: str) -> None:
        if found == name and not done.is_set():
            done.set()
            step()

    replace_hook(passed)


@pytest.fixture(autouse=True)
def without_hook() -> object:
    yield
    replace_hook(None)


def test_segments_deleted_meanwhile_are_left_out(log: CommitLog, to: Path) -> None:
    fill(log, 300, 700)
    log.append(b"once", producer="till", producer_sequence=7)
    during(lambda: log.delete_before(log.tail_position))
    done = log.backup(to)
    assert done.first_position == log.first_position > HEADER
    assert rows(to) == rows(log.path)
    with commitlog.open(to) as copy:
        assert copy.last_sequence == 700
        assert copy.append(b"again", producer="till", producer_sequence=7) < copy.tail_position


def test_marks_of_deleted_segments_are_in_the_backup(logs: Logs, to: Path) -> None:
    log = logs.open()
    log.append(b"once", producer="till", producer_sequence=7)
    fill(log, 0, 700)
    during(lambda: log.delete_before(log.tail_position))
    log.backup(to)
    with commitlog.open(to) as copy:
        end = copy.tail_position
        assert copy.append(b"again", producer="till", producer_sequence=7) < end
        assert copy.tail_position == end


def test_log_that_is_replaced_meanwhile_is_refused(log: CommitLog, to: Path) -> None:
    log.flush()
    log.close()
    during(lambda: os.rename(log.path, log.path + "-moved"))
    with pytest.raises(FencedError, match="replaced, moved or removed"):
        backup(log.path, to)
    assert not to.exists()
    assert listed(to.parent) == ["log-moved"]


def test_log_that_is_promoted_meanwhile_is_refused(log: CommitLog, to: Path) -> None:
    log.flush()
    log.close()
    during(lambda: promote(log.path))
    with pytest.raises(FencedError, match="promoted, recovered or cut"):
        backup(log.path, to)
    assert listed(to.parent) == ["log"]


def test_second_backup_to_the_same_path_is_refused(log: CommitLog, to: Path) -> None:
    seen: list[CommitLogError] = []

    def second() -> None:
        with pytest.raises(LogExistsError, match="another process makes this backup") as caught:
            log.backup(to)
        seen.append(caught.value)

    during(second)
    log.backup(to)
    assert seen
    assert rows(to) == rows(log.path)


def test_path_that_is_taken_meanwhile_is_left_unchanged(log: CommitLog, to: Path) -> None:
    def take() -> None:
        to.mkdir()
        (to / "mine").write_bytes(b"mine")

    during(take)
    with pytest.raises(LogExistsError, match="something at this path"):
        log.backup(to)
    assert listed(to) == ["mine"]
    assert listed(to.parent) == ["copy", "log"]


def test_progress_rises_to_its_total(log: CommitLog, to: Path) -> None:
    seen: list[tuple[int, int]] = []
    log.backup(to, progress=lambda done, total: seen.append((done, total)))
    assert seen == sorted(seen)
    assert seen[-1][0] == seen[-1][1] == 2 * log.tail_position


def test_progress_that_raises_leaves_no_backup(log: CommitLog, to: Path) -> None:
    def stop(done: int, total: int) -> None:
        if total:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        log.backup(to, progress=stop)
    assert listed(to.parent) == ["log"]
    log.append(b"on")


# --- what is refused ------------------------------------------------------------------------------


def test_directory_with_something_is_refused(log: CommitLog, to: Path) -> None:
    to.mkdir()
    log.backup(to)  # an empty one is taken
    with pytest.raises(LogExistsError, match="--incremental"):
        log.backup(to)
    (to.parent / "file").write_bytes(b"mine")
    with pytest.raises(LogExistsError):
        log.backup(to.parent / "file")
    assert (to.parent / "file").read_bytes() == b"mine"


def test_path_in_the_log_is_refused(log: CommitLog) -> None:
    for name in ("", "copy", "copy.tar.zst"):
        with pytest.raises(LogExistsError):
            log.backup(os.path.join(log.path, name))


def test_link_in_place_of_the_workplace_is_refused(log: CommitLog, to: Path) -> None:
    precious = to.parent / "precious"
    precious.mkdir()
    (precious / "letter").write_text("dear reader")
    for each in (to, to.with_name("copy.tar.zst")):
        work = each.with_name(f".{each.name}.backup.tmp")
        work.symlink_to(precious)
        with pytest.raises(LogExistsError, match="link"):
            log.backup(each)
        work.unlink()
    assert [each.name for each in precious.iterdir()] == ["letter"]


def test_truncated_segment_of_a_backup_is_written_again(log: CommitLog, to: Path) -> None:
    log.backup(to)
    os.truncate(to / f"{SEGMENT:020d}.seg", 5000)
    fill(log, 300, 301)
    log.backup(to, incremental=True)
    assert verify(to).sound
    assert rows(to) == rows(log.path)


def test_link_to_a_backup_is_followed(log: CommitLog, to: Path, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    (disk / "real").mkdir(parents=True)
    to.symlink_to(disk / "real")
    log.backup(to)
    for number in range(2):
        fill(log, 300 + number, 301 + number)
        log.backup(to, incremental=True)
    assert to.is_symlink()
    assert os.listdir(disk) == ["real"]
    assert rows(disk / "real") == rows(log.path)


def test_mount_point_is_refused_before_anything_is_written(log: CommitLog) -> None:
    mount = next(each for each in ("/dev/shm", "/proc") if os.path.ismount(each))
    with pytest.raises(LogExistsError, match="mounted"):
        log.backup(mount)


def test_damaged_log_is_refused_with_its_position(log: CommitLog, to: Path) -> None:
    position = log.last_position
    assert position is not None
    log.flush()
    poke(
        Path(log.path) / f"{position // SEGMENT * SEGMENT:020d}.seg", position % SEGMENT + 24, b"!"
    )
    with pytest.raises(CorruptRecordError, match="commitlog verify") as caught:
        log.backup(to)
    assert caught.value.position == position
    assert listed(to.parent) == ["log"]


def test_log_without_a_segment_is_refused(log: CommitLog, to: Path) -> None:
    log.flush()
    log.close()
    os.unlink(os.path.join(log.path, f"{SEGMENT:020d}.seg"))
    with pytest.raises(CommitLogError) as caught:
        backup(log.path, to)
    assert isinstance(caught.value, CorruptSegmentError)
    assert listed(to.parent) == ["log"]


def test_full_disk_leaves_nothing(
    log: CommitLog, to: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(fd: int, offset: int, length: int) -> None:
        raise OSError(28, "No space left on device")

    log.flush()
    monkeypatch.setattr("os.posix_fallocate", refuse)
    with pytest.raises(DiskFullError, match="no room to write the backup"):
        log.backup(to)
    assert listed(to.parent) == ["log"]


def test_damage_on_the_way_is_found_by_verification(
    log: CommitLog, to: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = source_log.write_sparse

    def flip(file: object, content: bytes) -> None:
        whole(file, bytes(content[:40]) + bytes([content[40] ^ 1]) + bytes(content[41:]))

    monkeypatch.setattr(source_log, "write_sparse", flip)
    with pytest.raises(CorruptSegmentError, match="written and is damaged"):
        log.backup(to)
    assert listed(to.parent) == ["log"]


@pytest.mark.parametrize(
    "given",
    [{"without": "tailer"}, {"without": ("queues", 3)}, {"incremental": 1}, {"progress": 3}],
)
def test_wrong_options_are_refused(log: CommitLog, to: Path, given: dict[str, object]) -> None:
    with pytest.raises(InvalidOptionError):
        log.backup(to, **given)
    assert not to.exists()


def test_log_that_is_missing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LogNotFoundError):
        backup(tmp_path / "none", tmp_path / "copy")


def test_retention_prunes_a_backup(log: CommitLog, to: Path) -> None:
    log.backup(to)
    done = commitlog.keep.prune(to, Retention(max_bytes=0))
    assert done.segments
    assert log.backup(to, incremental=True).first_position > HEADER


def test_backup_over_the_network_equals_the_log(log: CommitLog, to: Path) -> None:
    log.flush()
    with serve(log.path) as server:
        backup(server.url(), to)
    assert rows(to) == rows(log.path)


def test_copies_of_a_backup_get_ids_of_their_own(log: CommitLog, to: Path, tmp_path: Path) -> None:
    log.flush()
    log.close()
    promote(log.path)
    backup(log.path, to)
    copy_log(to, tmp_path / "twin")
    members = set()
    for path in (to, tmp_path / "twin", Path(log.path)):
        rule = Replication(require=1)
        with (
            commitlog.open(path, replicate=rule, flush="sync") as opened,
            follow(rule.server.url(path.name), tmp_path / f"of-{path.name}"),
        ):
            opened.append(b"on")
        with LogFiles(str(path)) as files:
            known = files.lineage()
            assert known is not None
            assert known.copies == 1
            members.add(known.member)
    assert len(members) == 3
    assert "" not in members
