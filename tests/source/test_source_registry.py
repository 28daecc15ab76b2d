"""Archives and lone segments are recognized by their path, in one place."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import commitlog
from commitlog.errors import NotALogError, UnsupportedError
from commitlog.keep import Store, archive_segments
from commitlog.log.parts import parts_of
from commitlog.options import Options
from commitlog.source import source_registry
from commitlog.source.source_directory import SourceDirectory
from commitlog.source.source_registry import open_source_directory
from commitlog.stores.archive_source import ArchiveSource


def open_elsewhere(path: str) -> SourceDirectory | None:
    return open_source_directory(path, Options())


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log"
    with commitlog.open(path, segment_size=64 << 10) as log:
        for number in range(6):
            log.append(b"%d" % number)
            log.roll()
    return path


def test_path_of_a_log_or_nothing_opens_no_source(log: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert [
        open_elsewhere(str(path))
        for path in (log, tmp_path / "empty", tmp_path / "absent", Path("/dev/null"))
    ] == [None] * 4


def test_file_is_opened_as_a_lone_segment_or_refused(log: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copy(min(log.glob("*.seg")), tmp_path / "x.seg"))
    found = open_elsewhere(str(copy))
    assert found is not None
    assert (found.kind, found.end()) == ("segment", found.segment_size)
    found.close()
    (tmp_path / "text").write_bytes(b"mine")
    with pytest.raises(NotALogError, match="not a segment of a log"):
        open_elsewhere(str(tmp_path / "text"))


def test_archive_opens_by_directory_and_by_address(log: Path, tmp_path: Path) -> None:
    pytest.importorskip("zstandard")
    archive_segments(log, Store(tmp_path / "archive"), keep=True)
    for place in (str(tmp_path / "archive"), (tmp_path / "archive").as_uri()):
        found = open_elsewhere(place)
        assert found is not None
        assert isinstance(found.source, ArchiveSource)
        with commitlog.open(place, "r") as opened:
            assert (found.kind, found.path, found.segment_numbers()) == (
                "archive",
                opened.path,
                parts_of(opened).queue.numbers(),
            )
        found.close()


def test_log_of_this_machine_loads_no_entry_points(log: Path) -> None:
    script = (
        "import sys, commitlog; commitlog.open(sys.argv[1], 'a').close(); "
        "print([each for each in sys.modules if each.startswith(('importlib.metadata', "
        "'commitlog.stores', 'commitlog.network.remote', 'commitlog.topics'))])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, log], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_source_that_cannot_be_imported_leaves_the_others(log: Path, tmp_path: Path) -> None:
    information = tmp_path / "site" / "acme_logs-1.0.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-logs\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(
        "[commitlog.sources]\nacme = acme_missing:SOURCE\nzero = os:sep\n"
    )
    archive_segments(log, Store(tmp_path / "archive"), keep=True)
    script = (
        "import logging, sys, commitlog; logging.basicConfig(); "
        "print(commitlog.open(sys.argv[1], 'r').count())"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, tmp_path / "archive"],
        env=os.environ | {"PYTHONPATH": str(tmp_path / "site")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "6\n"
    assert "the source 'acme' cannot be used: ModuleNotFoundError" in done.stderr
    assert "the source 'zero' cannot be used: os:sep is not a commitlog SourceKind" in done.stderr


def test_missing_entry_points_are_one_clear_error(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_registry, "_announced", tuple)
    (tmp_path / "archive").mkdir()
    shutil.copy(log / "log.json", tmp_path / "archive")
    for mode in ("r", "a"):
        with pytest.raises(UnsupportedError, match="no package announces a source"):
            commitlog.open(tmp_path / "archive", mode)  # type: ignore[arg-type]
        with pytest.raises(UnsupportedError, match="begins with tls://"):
            commitlog.open("tls://localhost/log", mode)  # type: ignore[arg-type]
    commitlog.open(log, "r").close()
