"""Archives and lone segments are recognized by their path, in one place."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import commitlog
from commitlog.errors import NotALogError
from commitlog.keep import Store, archive_segments
from commitlog.log.parts import parts_of
from commitlog.segment.lone_segment import LoneSegment
from commitlog.stores.archived_directory import ArchivedDirectory
from commitlog.stores.detached import open_detached
from tests.cli.program import sealed_log


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return sealed_log(tmp_path / "log")


def test_path_of_a_log_or_nothing_is_not_detached(log: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert [
        open_detached(str(path))
        for path in (log, tmp_path / "empty", tmp_path / "absent", Path("/dev/null"))
    ] == [None] * 4


def test_file_is_opened_as_a_lone_segment_or_refused(log: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copy(min(log.glob("*.seg")), tmp_path / "x.seg"))
    found = open_detached(str(copy))
    assert isinstance(found, LoneSegment)
    assert (found.kind, found.detached, found.find_end()) == ("segment", True, found.segment_size)
    found.close()
    (tmp_path / "text").write_bytes(b"mine")
    with pytest.raises(NotALogError, match="not a segment of a log"):
        open_detached(str(tmp_path / "text"))


def test_archive_opens_by_directory_and_by_address(log: Path, tmp_path: Path) -> None:
    pytest.importorskip("zstandard")
    archive_segments(log, Store(tmp_path / "archive"), keep=True)
    for place in (str(tmp_path / "archive"), (tmp_path / "archive").as_uri()):
        found = open_detached(place)
        assert isinstance(found, ArchivedDirectory)
        with commitlog.open(place, "r") as opened:
            assert (found.kind, found.path, found.segment_numbers()) == (
                "archive",
                opened.path,
                parts_of(opened).queue.numbers(),
            )
        found.close()
