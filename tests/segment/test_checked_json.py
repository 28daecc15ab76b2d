"""Small JSON files of a log: a damaged one and another log's are refused; none is there in part."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

import commitlog
from commitlog.errors import CorruptSegmentError
from commitlog.segment import checked_json, identity
from commitlog.segment.directory import LogDirectory

CONTENT = {"number": 41, "text": "é", "list": [1, 2]}


def directory_at(path: Path) -> LogDirectory:
    commitlog.open(path).close()
    known = identity.read_path(str(path))
    assert known is not None
    return LogDirectory(str(path), known)


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[LogDirectory]:
    found = directory_at(tmp_path / "log")
    checked_json.write(found, "notes", CONTENT)
    yield found
    found.close()


def test_written_content_is_read(directory: LogDirectory) -> None:
    read = checked_json.read(directory, "notes")
    assert read is not None
    assert {name: read[name] for name in CONTENT} == CONTENT
    assert checked_json.read(directory, "other") is None


def test_changed_value_is_refused(directory: LogDirectory) -> None:
    file = Path(directory.path) / "notes"
    text = file.read_bytes()
    assert text.count(b'"number":41') == 1
    file.write_bytes(text.replace(b'"number":41', b'"number":42'))
    with pytest.raises(CorruptSegmentError, match="damaged"):
        checked_json.read(directory, "notes")


def test_file_of_another_log_is_refused(tmp_path: Path, directory: LogDirectory) -> None:
    other = directory_at(tmp_path / "other")
    checked_json.write(other, "notes", CONTENT)
    (tmp_path / "other" / "notes").rename(Path(directory.path) / "notes")
    other.close()
    with pytest.raises(CorruptSegmentError, match="belongs to another log"):
        checked_json.read(directory, "notes")


def test_content_is_durable_before_its_name_and_then_the_name(
    directory: LogDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    fsync, rename = os.fsync, os.rename

    def synced(fd: int) -> None:
        steps.append("directory" if stat.S_ISDIR(os.fstat(fd).st_mode) else "file")
        fsync(fd)

    def renamed(*given: str, src_dir_fd: int, dst_dir_fd: int) -> None:
        steps.append("name")
        rename(*given, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "rename", renamed)
    checked_json.write(directory, "notes", CONTENT)
    assert steps == ["file", "name", "directory"]
