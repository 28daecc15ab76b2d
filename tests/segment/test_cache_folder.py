"""The temporary folders of readers go with their processes, also when these are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import commitlog
from commitlog.segment.cache_folder import CacheFolder
from tests.forks import forked_child

_KILLED = """
import os, signal, sys
import commitlog
far = commitlog.open(sys.argv[1], "r")
assert far.tailer().read() is not None
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setenv("TMPDIR", str(place))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return place


def killed_reader(url: str) -> None:
    done = subprocess.run([sys.executable, "-c", _KILLED, url], check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL


@pytest.mark.wing
def test_folder_of_a_killed_reader_is_removed_by_the_next(tmp_path: Path, temporary: Path) -> None:
    from commitlog import replication

    with commitlog.open(tmp_path / "orders") as log:
        log.append(b"one")
    with replication.serve(tmp_path / "orders") as server:
        killed_reader(server.url())
        assert len(list(temporary.iterdir())) == 1
        with commitlog.open(server.url(), "r") as far:
            assert list(far.tailer().values()) == [b"one"]
            assert len(list(temporary.iterdir())) == 1
            killed_reader(server.url())
            assert list(far.tailer().values()) == [b"one"]
            CacheFolder().remove()
            assert len(list(temporary.iterdir())) == 1
            assert list(far.tailer().values()) == [b"one"]
    assert list(temporary.iterdir()) == []


def test_folder_of_something_else_stays(tmp_path: Path, temporary: Path) -> None:
    (temporary / "commitlog-notes").mkdir(mode=0o700)
    (temporary / "commitlog-segments-notes").mkdir(mode=0o755)
    (temporary / "commitlog-segments-file").touch()
    target = CacheFolder()
    os.symlink(target.path, temporary / "commitlog-segments-link")
    CacheFolder().remove()
    assert {each.name for each in temporary.iterdir()} == {
        "commitlog-notes",
        "commitlog-segments-notes",
        "commitlog-segments-file",
        "commitlog-segments-link",
        Path(target.path).name,
    }
    target.remove()


def test_folder_stays_while_a_forked_child_lives(temporary: Path) -> None:
    folder = CacheFolder()
    with forked_child():
        folder.release()
        CacheFolder().remove()
        assert Path(folder.path).is_dir()
    CacheFolder().remove()
    assert not Path(folder.path).exists()
