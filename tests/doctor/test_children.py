"""Children do their part and are gone afterwards, also after an error."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from commitlog.doctor.children import ChildError, Children
from commitlog.doctor.workspace import Workspace


def test_an_answer_comes_back() -> None:
    with Children() as children:
        assert children.answer(children.start(lambda: {"a": [1, 2]})) == {"a": [1, 2]}


def test_what_a_child_raises_and_how_it_dies_is_said() -> None:
    def fail() -> None:
        raise ValueError("not so")

    with Children() as children:
        with pytest.raises(ChildError, match="ValueError: not so"):
            children.answer(children.start(fail))
        with pytest.raises(ChildError, match="without an answer"):
            children.answer(children.start(lambda: os._exit(3)))


def test_a_child_that_hangs_is_ended() -> None:
    with Children() as children:
        child = children.start(lambda: time.sleep(600))
        with pytest.raises(ChildError, match="did not end within"):
            children.answer(child, 0.05)
        assert not _is_there(child)
        left = children.start(lambda: time.sleep(600))
    assert not _is_there(left)


def _is_there(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def test_ground_leaves_nothing_behind(tmp_path: Path) -> None:
    def work() -> None:
        with Workspace(tmp_path) as workspace, workspace.file("file", 8):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work()
    assert os.listdir(tmp_path) == []
