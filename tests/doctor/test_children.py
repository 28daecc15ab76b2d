"""Child processes of the doctor: answers, errors, and no process left."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from commitlog.doctor.children import ChildError, Children
from commitlog.doctor.workspace import Workspace


def test_child_returns_its_answer() -> None:
    with Children() as children:
        assert children.answer(children.start(lambda: {"a": [1, 2]})) == {"a": [1, 2]}


def test_child_error_or_death_raises() -> None:
    def fail() -> None:
        raise ValueError("not so")

    with Children() as children:
        with pytest.raises(ChildError, match="ValueError: not so"):
            children.answer(children.start(fail))
        with pytest.raises(ChildError, match="without an answer"):
            children.answer(children.start(lambda: os._exit(3)))


def test_hanging_child_is_killed() -> None:
    with Children() as children:
        child = children.start(lambda: time.sleep(600))
        with pytest.raises(ChildError, match="did not end within"):
            children.answer(child, 0.05)
        assert not _is_there(child)
        left = children.start(lambda: time.sleep(600))
    assert not _is_there(left)


def _is_there(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def test_workspace_leaves_no_file_after_an_error(tmp_path: Path) -> None:
    def work() -> None:
        with Workspace(tmp_path) as workspace, workspace.file("file", 8):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work()
    assert os.listdir(tmp_path) == []
