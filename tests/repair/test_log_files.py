"""LogFiles: the files of a log, open or closed, damaged or not."""

from __future__ import annotations

from pathlib import Path

import pytest

import commitlog
from commitlog.errors import LogNotFoundError, NotALogError
from commitlog.extension import LogFiles, LogRemoval
from tests.setups import SEGMENT


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with commitlog.open(tmp_path / "log", segment_size=SEGMENT) as log:
        log.append(b"one")
    return tmp_path / "log"


def test_files_of_a_closed_log_have_its_end_and_no_writer(path: Path) -> None:
    with commitlog.open(path, "r") as log:
        end = log.tail_position
    with LogFiles(str(path)) as files:
        checkpoint = files.checkpoint()
        assert checkpoint is not None
        assert (checkpoint.clean, checkpoint.position) == (True, end)
        assert (files.live, files.live_writers(), files.holders()) == (False, [], [])
        assert (files.segment_numbers()[0], files.fault, files.lineage()) == (0, None, None)


def test_files_of_an_open_log_name_its_writer(path: Path) -> None:
    with commitlog.open(path), LogFiles(str(path)) as files:
        assert files.live
        assert len(files.live_writers()) == 1
        assert files.holders() == ["this process"]


def test_lost_identity_is_deduced_and_its_fault_named(path: Path) -> None:
    with commitlog.open(path, "r") as log:
        uuid = log.identity.uuid
    (path / "log.json").unlink()
    with LogFiles(str(path)) as files:
        assert (files.identity.uuid, files.fault) == (uuid, "log.json is missing")


def test_place_without_a_log_is_told_from_one_with_another_file(tmp_path: Path) -> None:
    assert LogFiles.identity_at(str(tmp_path / "none")) is None
    assert LogFiles.identity_at(str(tmp_path)) is None
    LogFiles.check_new(str(tmp_path))
    (tmp_path / "notes.txt").touch()
    with pytest.raises(NotALogError, match=r"notes\.txt"):
        LogFiles.check_new(str(tmp_path))
    with pytest.raises(LogNotFoundError):
        LogFiles.check_directory(str(tmp_path / "none"))


def test_removal_deletes_the_log_and_leaves_another_file(path: Path) -> None:
    (path / "notes.txt").touch()
    with LogRemoval(str(path)) as removal:
        assert removal.segments >= 1
        assert (path / "log.json").exists()
        removal.run()
    assert (removal.removed.left, removal.removed.directory_removed) == (["notes.txt"], False)
    assert sorted(each.name for each in path.iterdir()) == ["lock", "notes.txt"]
