"""Backups that are killed at each step: at the path is the earlier backup or the new one, whole."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

import commitlog
from commitlog.keep import backup, verify
from tests.length import every
from tests.setups import SEGMENT
from tests.steps import killed_at


def values_at(path: Path) -> list[bytes]:
    with commitlog.open(path, "r") as log:
        return list(log.tailer().values())


def made(path: Path, count: int) -> list[bytes]:
    """Append records up to a number, and return all of them."""
    with commitlog.open(path, segment_size=SEGMENT) as log:
        first = log.last_sequence
        for number in range(0 if first is None else first + 1, count):
            log.append(b"%d" % number * 400, producer="till", producer_sequence=number)
        with log.tailer("reader") as tailer:
            tailer.read()
    return values_at(path)


def writing(path: Path, to: Path, *, incremental: bool) -> Callable[[], object]:
    return partial(backup, path, to, incremental=incremental)


@every(3)
@pytest.mark.parametrize("name", ["copy", "copy.tar.zst"])
def test_killed_backup_leaves_none_or_a_whole_one(tmp_path: Path, name: str, every: int) -> None:
    whole = made(tmp_path / "log", 120)
    to = tmp_path / "to" / name
    for step in itertools.count(1, every):
        killed = killed_at(step, partial(writing, tmp_path / "log", to, incremental=False))
        if to.exists():
            assert values_at(to) == whole
            assert verify(to).sound
            assert not killed or os.listdir(to.parent)
            if to.is_dir():
                shutil.rmtree(to)
            else:
                to.unlink()
        else:
            assert killed
        if not killed:
            break
    assert step > 3
    backup(tmp_path / "log", to)  # removes what the killed ones left
    assert os.listdir(to.parent) == [name]


@every(3)
@pytest.mark.parametrize("exchanges", [True, False])
def test_killed_increment_leaves_the_earlier_or_the_new(
    tmp_path: Path, exchanges: bool, every: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not exchanges:
        monkeypatch.setattr("commitlog.backup.workplace._exchange", lambda one, other: False)
    log, to, first = tmp_path / "log", tmp_path / "to" / "copy", tmp_path / "first"
    earlier = made(log, 60)
    backup(log, first)
    whole = made(log, 120)
    for step in itertools.count(1, every):
        shutil.rmtree(to.parent, ignore_errors=True)
        to.parent.mkdir()
        shutil.copytree(first, to)
        killed = killed_at(step, partial(writing, log, to, incremental=True))
        if to.exists():
            found = values_at(to)
            assert found in (earlier, whole)
            assert verify(to).sound
            assert killed or found == whole
        else:
            assert not exchanges
        if not killed:
            break
        backup(log, to, incremental=True)
        assert values_at(to) == whole
        assert os.listdir(to.parent) == ["copy"]
    assert step > 3


@every(4)
def test_killed_backup_to_a_store_is_continued(tmp_path: Path, every: int) -> None:
    whole = made(tmp_path / "log", 120)
    for step in itertools.count(1, every):
        to = tmp_path / f"store-{step}"
        run = partial(backup, tmp_path / "log", f"file://{to}")
        killed = killed_at(step, lambda run=run: run)
        run(incremental=True)
        assert values_at(to) == whole
        assert verify(to).sound
        if not killed:
            break
    assert step > 3
