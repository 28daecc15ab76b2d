"""A copy remembers how far its primary was durable."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import commitlog
from commitlog.network.replication.followed_mark import NAME, FollowedMark
from commitlog.segment import identity as identities
from commitlog.segment.directory import LogDirectory
from commitlog.segment.notes import Notes


@pytest.fixture
def notes(tmp_path: Path) -> Iterator[Notes]:
    commitlog.open(tmp_path / "log").close()
    identity = identities.read_path(str(tmp_path / "log"))
    assert identity is not None
    opened = LogDirectory(str(tmp_path / "log"), identity)
    yield Notes(opened)
    opened.close()


def test_lag_is_what_the_primary_had_beyond_the_copy(notes: Notes) -> None:
    mark = FollowedMark(notes)
    mark.note(5000, 9000)
    mark.settle()
    assert (FollowedMark(notes).position, FollowedMark(notes).lag_bytes) == (5000, 4000)
    mark.lower(4500)
    assert (FollowedMark(notes).position, FollowedMark(notes).lag_bytes) == (4500, 0)


@pytest.mark.parametrize("content", [{}, {"durable": 4096}, {"durable": "x", "flushed": -1}])
def test_mark_without_a_usable_number_has_no_lag(notes: Notes, content: dict[str, object]) -> None:
    notes.write(NAME, content)
    assert FollowedMark(notes).lag_bytes == 0
