"""Posting lists of a log: built when they are missing, and never a wrong result without them."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import commitlog
from commitlog import CommitLog
from commitlog.base import failpoint
from commitlog.errors import CorruptRecordError
from commitlog.keep import verify
from commitlog.log.parts import parts_of
from commitlog.segment import posting_file
from tests.setups import BY_HAND, SEGMENT, Logs
from tests.steps import killed_at

COUNT = 4500


def filled(logs: Logs, name: str = "log", **options: Any) -> CommitLog:
    """A log with at least two sealed segments."""
    log = logs.open(name, **{**BY_HAND, **options})
    append(log)
    return log


def append(log: CommitLog, first: int = 0) -> None:
    for number in range(first, first + COUNT):
        log.append(b"%d" % number, type=number % 40, key=b"k%d" % (number % 70), sync=False)
    log.flush()
    assert parts_of(log).writer.allocation.sealed_below() > 1


def expected(log: CommitLog, type: int = 7) -> list[bytes]:
    return [record.value for record in log.tailer() if record.type == type]


def viewed(log: CommitLog, type: int = 7, **options: Any) -> list[bytes]:
    return list(log.view(type=type, **options).values())


def pst(log: CommitLog, number: int = 0) -> Path:
    return Path(log.path) / f"{number * SEGMENT:020d}.pst"


def lists(log: CommitLog) -> list[str]:
    return sorted(path.name for path in Path(log.path).glob("*.pst*"))


def state(log: CommitLog, number: int = 0) -> str:
    parts = parts_of(log)
    seal = parts.index.seals.get(number)
    assert seal is not None
    return posting_file.checked(parts.directory, number, seal)


def damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def test_lists_are_built_on_first_use_by_a_writer(logs: Logs) -> None:
    log = filled(logs)
    reader = logs.open(mode="r")
    assert viewed(reader) == expected(log)
    assert lists(log) == []
    later = [r.value for r in log.tailer(start=SEGMENT) if r.type == 7]
    assert viewed(log, start=SEGMENT) == later
    assert not pst(log).exists()  # only what was read
    assert viewed(log) == expected(log)
    assert state(log) == state(log, 1) == "sound"


def test_lists_are_built_behind_the_appends(logs: Logs, until: Callable[..., None]) -> None:
    log = filled(logs, posting_lists=True)
    until(lambda: len(lists(log)) > 1)
    append(log, COUNT)
    until(lambda: len(lists(log)) > 3)
    assert viewed(logs.open(mode="r")) == expected(log)
    pst(log).unlink()
    log.close()
    again = logs.open(posting_lists=True)
    until(pst(again).exists)


def test_lists_are_read_and_no_other_record(logs: Logs) -> None:
    log = filled(logs)
    wanted = expected(log)
    viewed(log)
    log.close()
    other = next(record for record in logs.open(mode="r").tailer() if record.type == 8)
    with open(Path(log.path) / f"{0:020d}.seg", "r+b") as file:
        file.seek(other.position + 20)
        file.write(b"damage")
    reader = logs.open(mode="r")
    assert viewed(reader) == wanted
    with pytest.raises(CorruptRecordError):
        viewed(reader, 8)
    assert len(viewed(reader, 8, on_damage="skip")) == len(wanted) - 1
    pst(log).unlink()
    with pytest.raises(CorruptRecordError):
        viewed(logs.open(mode="r"), 7)


def test_damaged_lists_are_built_again(logs: Logs) -> None:
    log = filled(logs)
    viewed(log)
    damage(pst(log))
    with commitlog.open(log.path, "r") as reader:
        assert list(reader.view(key=b"k7").values()) == [
            record.value for record in log.tailer() if record.key == b"k7"
        ]
    notes = [note for segment in verify(log.path).segments for note in segment.notes]
    assert notes == [
        f"its posting lists {pst(log).name} are damaged; the next view of a writer rebuilds them"
    ]
    assert state(log) == "damaged"
    again = logs.open()
    for number in range(70):
        assert len(list(again.view(key=b"k%d" % number))) in (64, 65)
    assert state(log) == "sound"


def test_damaged_segment_gets_no_lists(logs: Logs) -> None:
    log = filled(logs)
    record = next(record for record in log.tailer() if record.type == 7)
    log.close()
    with open(Path(log.path) / f"{0:020d}.seg", "r+b") as file:
        file.seek(record.position + 25)
        file.write(b"damage")
    log = logs.open()
    with pytest.raises(CorruptRecordError):
        viewed(log)
    assert not pst(log).exists()
    assert len(viewed(log, on_damage="skip")) > 50


def test_lists_of_other_contents_are_not_used(logs: Logs) -> None:
    """A backup of the log's directory is written over its files, but for the lists."""
    log = filled(logs)
    log.close()
    backup = shutil.copytree(log.path, f"{log.path}.backup")
    log = logs.open()
    append(log, COUNT)
    viewed(log)
    last = max(int(name[:20]) for name in lists(log))
    log.close()
    for path in Path(log.path).glob("*.seg"):
        path.unlink()
    shutil.copytree(backup, log.path, dirs_exist_ok=True)
    log = logs.open()
    append(log, 10 * COUNT)
    assert viewed(logs.open(mode="r")) == expected(log)
    assert viewed(log) == expected(log)
    assert state(log, last // SEGMENT) == "sound"


def test_copied_directory_has_its_own_lists(logs: Logs) -> None:
    log = filled(logs)
    viewed(log)
    log.close()
    copy = shutil.copytree(log.path, f"{log.path}.copy")
    with commitlog.open(copy, "r") as reader:
        assert viewed(reader) == expected(reader)


def test_deleted_segments_take_their_lists_along(logs: Logs) -> None:
    log = filled(logs)
    viewed(log)
    log.delete_before(SEGMENT)
    assert not pst(log).exists()
    assert pst(log, 1).exists()
    assert viewed(log) == expected(log)
    held = [link.readlink().name for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    assert not [name for name in held if ".pst" in name]  # it would keep disk space in use


def test_lists_filed_after_the_deletion_are_removed(
    logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = filled(logs)

    def delete(step: str) -> None:
        if step == "postings filed" and pst(log).exists():
            os.unlink(Path(log.path) / f"{0:020d}.seg")

    monkeypatch.setattr(failpoint, "hook", delete)
    tailer = log.view(type=7)
    assert tailer.read() is not None
    assert not pst(log).exists()


def test_next_open_removes_lists_without_a_segment(logs: Logs) -> None:
    log = filled(logs)
    viewed(log)
    log.close()
    orphan = Path(log.path) / f"{99 * SEGMENT:020d}.pst"
    pst(log).rename(orphan)
    logs.open()
    assert not orphan.exists()


def test_refused_file_means_a_scan(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    log = filled(logs)

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(posting_file, "write_whole", refuse)
    assert viewed(log) == expected(log)
    assert lists(log) == []
    assert not [name for name in os.listdir(log.path) if ".pst." in name]


def test_kill_at_any_step_of_a_build_does_no_harm(logs: Logs) -> None:
    log = filled(logs)
    path = log.path
    wanted = expected(log)
    log.close()
    step = 1
    while killed_at(step, lambda: lambda: viewed(commitlog.open(path))):
        with commitlog.open(path, "r") as reader:
            assert viewed(reader) == wanted
        step += 1
    assert step > 4
    log = logs.open()
    assert viewed(log) == wanted
    assert state(log) == state(log, 1) == "sound"
    assert not [name for name in os.listdir(path) if name.endswith(".tmp")]


def test_threads_that_build_at_once_read_the_same(logs: Logs) -> None:
    log = filled(logs)
    wanted, found = expected(log), []
    other = logs.open()  # another handle, as of another process
    threads = [
        threading.Thread(target=lambda one=one: found.append(viewed(one)))
        for one in (log, other, log, other)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [wanted] * 4
    assert state(log) == "sound"


def test_child_of_a_fork_reads_and_builds(logs: Logs) -> None:
    log = filled(logs, flush="none")
    wanted = expected(log)
    viewed(log, start=SEGMENT)
    child = os.fork()
    if child == 0:
        os._exit(0 if viewed(log) == wanted else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert viewed(log) == wanted


def test_all_keys_different_take_bounded_memory(
    logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("commitlog.tail.postings.PART_RECORDS", 100)
    log = logs.open(**BY_HAND)
    for number in range(5000):
        log.append(b"", type=number, key=b"%d" % number, sync=False)
    log.flush()
    assert parts_of(log).writer.allocation.sealed_below() > 1
    for number in range(0, 5000, 97):
        assert [record.type for record in log.view(key=b"%d" % number)] == [number]
        assert [record.key for record in log.view(type=number)] == [b"%d" % number]
    seal = parts_of(log).index.seals.get(0)
    assert seal is not None
    file = posting_file.read(parts_of(log).directory, 0, seal)[0]
    assert file is not None
    assert len(file._sections) == 2 * -(-seal.record_count // 100)
