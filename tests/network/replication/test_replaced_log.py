"""A server notices that its log was removed, and that another one was created at its path."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import commitlog
from commitlog import replication
from commitlog.errors import CommitLogError, NotALogError, ReplicationError
from tests.network.replication.scene import LIMIT_S, SEGMENT

Until = Callable[..., None]


def made(path: Path, value: bytes) -> None:
    with commitlog.open(path, segment_size=SEGMENT) as log:
        log.append(value)


def replace(path: Path, how: str) -> None:
    """Put another log at the path of one."""
    if how == "renamed":
        path.rename(path.with_name("old"))
        made(path, b"new")
    elif how == "emptied":  # the directory stays
        for each in list(path.iterdir()):
            shutil.rmtree(each) if each.is_dir() else each.unlink()
        made(path, b"new")
    else:
        shutil.rmtree(path)
        made(path, b"new")


@pytest.mark.parametrize("how", ["removed", "renamed", "emptied"])
def test_reader_of_a_replaced_log_is_told(tmp_path: Path, how: str) -> None:
    path = tmp_path / "orders"
    made(path, b"old")
    with replication.serve(path) as server:
        with commitlog.open(server.url(), "r") as far, far.tailer() as tailer:
            assert tailer.read() is not None
            replace(path, how)
            with pytest.raises(NotALogError, match="another log of this name"):
                tailer.read(timeout=LIMIT_S)
        with commitlog.open(server.url(), "r") as far:
            assert list(far.tailer().values()) == [b"new"]
            with far.tailer("billing") as named:
                assert named.read() is not None
        with commitlog.open(path, "r") as near:
            assert [each.name for each in near.tailers()] == ["billing"]


def test_copies_of_a_replaced_log_count_for_nothing(tmp_path: Path) -> None:
    path = tmp_path / "orders"
    made(path, b"old")
    with (
        replication.serve(path) as server,
        replication.follow(server.url(), tmp_path / "copy") as copy,
    ):
        assert server.wait_replicated(4096, timeout=LIMIT_S)
        replace(path, "removed")
        with pytest.raises(ReplicationError, match="is another log"):
            copy.wait(timeout=LIMIT_S)
        assert server.followers() == {}
        with replication.follow(server.url(), tmp_path / "new"):
            assert server.wait_replicated(4096, timeout=LIMIT_S)
    with commitlog.open(tmp_path / "new", "r") as log:
        assert list(log.tailer().values()) == [b"new"]


def test_log_that_comes_back_is_served_again(tmp_path: Path, until: Until) -> None:
    path = tmp_path / "orders"
    made(path, b"old")
    with (
        replication.serve(path) as server,
        replication.follow(server.url(), tmp_path / "copy") as copy,
    ):
        path.rename(tmp_path / "away")
        with pytest.raises(CommitLogError, match="was removed here"):
            commitlog.open(server.url(), "r", wait_for_log=0.2)
        (tmp_path / "away").rename(path)
        with commitlog.open(path) as log:
            log.append(b"more")
            log.flush()
            assert copy.wait(log.flushed_position, LIMIT_S)
        assert copy.error is None


def test_served_log_is_found_from_another_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    made(Path("orders"), b"old")
    with replication.serve("orders") as server:
        monkeypatch.chdir("/")
        with commitlog.open(server.url(), "r") as far:
            assert list(far.tailer().values()) == [b"old"]


def test_log_of_a_program_is_not_replaced(tmp_path: Path) -> None:
    """The program still writes the one that was removed."""
    path = tmp_path / "orders"
    rule = replication.Replication(require=0)
    with commitlog.open(path, replicate=rule) as log:
        url = rule.server.url()
        log.append(b"old")
        os.rename(path, tmp_path / "away")
        made(path, b"new")
        with pytest.raises(CommitLogError, match="was removed here"):
            commitlog.open(url, "r", wait_for_log=0.2)
