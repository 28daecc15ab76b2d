"""A damaged or foreign `cursors` file, and logs of another size or identity: refused or rebuilt,
and no record lost.
"""

from __future__ import annotations

import json
import os
import shutil
import struct
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

import commitlog
from commitlog.errors import CorruptSegmentError, InvalidOptionError, OpenTimeoutError
from commitlog.log.parts import parts_of
from tests.faults import image
from tests.faults.account import Account
from tests.faults.child import Child
from tests.faults.writers import APPENDED, SEGMENT_SIZE, How, open_log, value_of, write, write_some

Start = Callable[..., Child]
CURSORS_SIZE = 64 << 10
_UUID_AT = 16


def cut_short(file: Path) -> None:
    os.truncate(file, 100)


def make_sparse(file: Path) -> None:
    os.truncate(file, 0)
    os.truncate(file, CURSORS_SIZE)


def make_huge(file: Path) -> None:
    file.write_bytes(b"\xff" * (1 << 20))


def put_fifo(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


SPOILED: dict[str, Callable[[Path], object]] = {
    "missing": os.unlink,
    "empty": lambda file: os.truncate(file, 0),
    "cut short": cut_short,
    "sparse": make_sparse,
    "zeros": lambda file: file.write_bytes(bytes(CURSORS_SIZE)),
    "garbage": lambda file: file.write_bytes(os.urandom(CURSORS_SIZE)),
    "huge": make_huge,
    "of another version": lambda file: image.poke(file, 8, struct.pack("<I", 99)),
    "of another log": lambda file: image.poke(file, _UUID_AT, uuid.uuid4().bytes),
    "of another boot": lambda file: image.forget_boot(file.parent),
    "copied": lambda file: (
        shutil.copy(file, file.with_name("copy")),
        os.replace(file.with_name("copy"), file),
    ),
}


@pytest.mark.parametrize("spoiled", SPOILED)
def test_damaged_cursors_of_a_killed_writer_are_rebuilt(
    path: Path, spoiled: str, start: Start
) -> None:
    account = Account()
    writer = start(write, str(path), 1, "append", How(None, {}))
    account.note(report for report in writer.hear(300) if report.kind == APPENDED)
    account.note(report for report in writer.kill() if report.kind == APPENDED)
    SPOILED[spoiled](path / "cursors")
    with commitlog.open(path, "r") as reader:
        assert not parts_of(reader).engine.cursors.shared
        account.check(reader)
    with commitlog.open(path) as log:
        account.check(log)
        log.append(value_of(2, 0))
        assert (path / "cursors").stat().st_blocks * 512 >= CURSORS_SIZE
    with commitlog.open(path) as log:
        account.check(log)


@pytest.mark.parametrize(
    "spoiled",
    [
        name
        for name in SPOILED
        if name not in ("empty", "cut short", "sparse", "zeros", "garbage", "huge")
    ],
)
def test_unusable_cursors_refuse_new_opens_and_stay_unchanged(
    path: Path, spoiled: str, start: Start
) -> None:
    """Other processes have the log open and write; the file that they mapped must not be
    rebuilt.
    """
    account = Account()
    writer = start(write, str(path), 1, "append", How(None, {}))
    account.note(report for report in writer.hear(100) if report.kind == APPENDED)
    SPOILED[spoiled](path / "cursors")
    before = (path / "cursors").stat().st_ino if spoiled != "missing" else None
    with pytest.raises(OpenTimeoutError, match="`cursors` was deleted, replaced or truncated"):
        commitlog.open(path, wait_for_log=0.03)
    assert before == ((path / "cursors").stat().st_ino if spoiled != "missing" else None)
    with commitlog.open(path, "r") as reader:
        account.note(report for report in writer.hear(100) if report.kind == APPENDED)
        found = {record.position for record in reader.tailer()}
        assert account.promised.keys() <= found
    account.note(report for report in writer.kill() if report.kind == APPENDED)
    with commitlog.open(path) as log:
        account.check(log)


@pytest.mark.parametrize("spoiled", ["empty", "cut short", "sparse"])
def test_cursors_truncated_under_a_writer_lose_no_record(
    path: Path, spoiled: str, start: Start
) -> None:
    """The system kills a process that touches a page beyond the end of its file. The library cannot
    prevent that, and loses no record by it.
    """
    account = Account()
    writer = start(write_some, str(path), 1, 300, How(None, {"flush": "none"}))
    account.note(report for report in writer.hear(301) if report.kind == APPENDED)
    writer.pause()
    SPOILED[spoiled](path / "cursors")
    size = (path / "cursors").stat().st_size
    with pytest.raises(OpenTimeoutError, match="deleted, replaced or truncated"):
        commitlog.open(path, wait_for_log=0.03)
    assert (path / "cursors").stat().st_size == size, (
        "only under the exclusive lock it may be changed"
    )
    with commitlog.open(path, "r") as reader:
        account.check(reader)
    writer.kill()
    with commitlog.open(path) as log:
        account.check(log)


@pytest.mark.parametrize(
    "put",
    [
        put_fifo,
        lambda file: (file.unlink(), file.mkdir()),
        lambda file: (file.unlink(), file.symlink_to("x")),
    ],
)
def test_irregular_cursors_file_refuses_writers_only(
    path: Path, put: Callable[[Path], object]
) -> None:
    log, _ = open_log(str(path), None, {})
    log.append(b"kept")
    log.close()
    put(path / "cursors")
    with pytest.raises(commitlog.CommitLogError) as caught:
        commitlog.open(path)
    assert isinstance(caught.value, OSError)
    with commitlog.open(path, "r") as reader:
        assert list(reader.tailer().values()) == [b"kept"]


# --- another size, another log --------------------------------------------------------------------


def test_option_mismatch_beside_a_writer_is_refused_by_name(path: Path, start: Start) -> None:
    writer = start(write, str(path), 1, "append", How(None, {}))
    writer.hear(10)
    for mode in ("a", "r"):
        with pytest.raises(
            InvalidOptionError,
            match="segment_size is 131072, but the log was created with segments of 65536 bytes",
        ):
            commitlog.open(path, mode, segment_size="128KiB")
    with pytest.raises(InvalidOptionError, match="timestamps is 'precise'"):
        commitlog.open(path, timestamps="precise")
    writer.hear(10)
    writer.kill()


def test_wrong_segment_size_in_log_json_is_refused_unchanged(
    path: Path,
) -> None:
    log, _ = open_log(str(path), None, {})
    log.append_many([value_of(0, index) for index in range(300)])
    log.close()
    identity = json.loads((path / "log.json").read_text())
    before = {file.name: file.read_bytes() for file in image.segments(path)}
    (path / "log.json").write_text(json.dumps(identity | {"segment_size": 128 << 10}))
    for mode in ("a", "r"):
        with pytest.raises(CorruptSegmentError), commitlog.open(path, mode) as log:
            list(log.tailer())
    assert {file.name: file.read_bytes() for file in image.segments(path)} == before
    (path / "log.json").write_text(json.dumps(identity))
    with commitlog.open(path) as log:
        assert len(list(log.tailer())) == 300


def test_segment_of_another_log_is_refused_as_foreign(
    path: Path, folder: Path, start: Start
) -> None:
    for place in (path, folder / "other"):
        log, _ = open_log(str(place), None, {"allocate_ahead": 0})
        log.append_many([value_of(0, index) for index in range(300)])
        log.close()
    name = f"{SEGMENT_SIZE:020d}.seg"
    original = (path / name).read_bytes()
    shutil.copy(folder / "other" / name, path / name)
    with (
        pytest.raises(CorruptSegmentError, match="names another log") as caught,
        commitlog.open(path, "r") as reader,
    ):
        list(reader.tailer())
    assert caught.value.path == str(path / name)
    assert (path / name).read_bytes() == (folder / "other" / name).read_bytes()
    (path / name).write_bytes(original)
    with commitlog.open(path) as log:
        assert len(list(log.tailer())) == 300
