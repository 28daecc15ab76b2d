"""Restores: the whole log or the state before a time or position, and else no log at all."""

from __future__ import annotations

import datetime as dt
import os
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import commitlog
from commitlog import Store
from commitlog.errors import (
    CommitLogError,
    CorruptSegmentError,
    InvalidOptionError,
    LogExistsError,
    LogNotFoundError,
    NotALogError,
    PositionError,
)
from commitlog.keep import restore
from commitlog.repair.verification import verify
from tests.faults.image import poke
from tests.setups import HEADER, SEGMENT, Logs
from tests.steps import killed_at, replace_hook

pytest.importorskip("zstandard")
Row = tuple[int, int, bytes]


def rows(path: Path) -> list[Row]:
    with commitlog.open(path, "r") as log:
        return [(record.position, record.timestamp_ns, record.value) for record in log.tailer()]


@pytest.fixture
def place(logs: Logs, tmp_path: Path) -> Path:
    """A store of two whole segments and a part of the third."""
    log = logs.open(store=Store(tmp_path / "store"), timestamps="precise")
    for number in range(300):
        log.append(b"%d" % number * 200)
    log.close()
    return tmp_path / "store"


def test_restored_log_equals_the_original(place: Path, tmp_path: Path) -> None:
    done = restore(place, tmp_path / "again")
    everything = rows(tmp_path / "log")
    assert rows(tmp_path / "again") == everything
    assert (done.first_position, done.segments) == (HEADER, 3)
    assert verify(tmp_path / "again").sound
    with commitlog.open(tmp_path / "again") as log:
        assert (log.tail_position, log.last_sequence) == (done.end_position, 299)
        log.append(b"on")
        assert log.last_sequence == 300


@pytest.mark.parametrize("kept", [1, 2, 150, 299, 300])
def test_log_ends_at_the_given_position(place: Path, tmp_path: Path, kept: int) -> None:
    everything = rows(tmp_path / "log")
    with commitlog.open(place, "r") as store:
        ends = [*(row[0] for row in everything[1:]), store.committed_position]
    done = restore(place, tmp_path / "again", until=ends[kept - 1])
    assert rows(tmp_path / "again") == everything[:kept]
    assert verify(tmp_path / "again").sound
    with commitlog.open(tmp_path / "again") as log:
        assert (log.tail_position, log.last_sequence) == (done.end_position, kept - 1)
        log.append(b"on")
        assert log.last_sequence == kept


@pytest.mark.parametrize("kept", [1, 200, 300])
def test_log_ends_before_newer_records(place: Path, tmp_path: Path, kept: int) -> None:
    everything = rows(tmp_path / "log")
    since = everything[kept - 1][1]
    seconds, rest = divmod(since, 10**9)
    restore(place, tmp_path / "again", until=f"@{seconds}.{rest:09d}")
    assert rows(tmp_path / "again") == [row for row in everything if row[1] <= since]


@pytest.mark.parametrize(
    ("until", "error"),
    [
        (HEADER + 1, PositionError),
        (HEADER, PositionError),
        (SEGMENT * 100, PositionError),
        (dt.datetime(2001, 1, 1, tzinfo=dt.UTC), PositionError),
        (dt.datetime(2001, 1, 1), InvalidOptionError),  # noqa: DTZ001
        (-1, InvalidOptionError),
        (True, InvalidOptionError),
        (1.5, InvalidOptionError),
        ("some day", InvalidOptionError),
    ],
    ids=repr,
)
def test_unusable_state_is_refused_without_a_trace(
    place: Path, tmp_path: Path, until: Any, error: type[CommitLogError]
) -> None:
    with pytest.raises(error):
        restore(place, tmp_path / "again", until=until)
    assert not (tmp_path / "again").exists()


def test_directory_that_is_not_empty_is_left_unchanged(place: Path, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_bytes(b"mine")
    before = rows(tmp_path / "log")
    for there in (tmp_path / "full", tmp_path / "log"):
        with pytest.raises(LogExistsError, match="is not empty"):
            restore(place, there)
    assert os.listdir(tmp_path / "full") == ["mine"]
    assert rows(tmp_path / "log") == before


def test_directory_of_another_restore_is_left_unchanged(place: Path, tmp_path: Path) -> None:
    """Both began while it was empty."""
    again, seen = tmp_path / "again", list[Exception]()

    def passed(step: str) -> None:
        if step != "segments durable":
            return
        replace_hook(None)
        names = {name: (again / name).rename(tmp_path / name) for name in os.listdir(again)}
        try:
            restore(place, again)
        except LogExistsError as error:
            seen.append(error)
        for name, path in names.items():
            path.rename(again / name)

    replace_hook(passed)
    try:
        restore(place, again)
    finally:
        replace_hook(None)
    assert "another process restores a log here" in str(seen)
    assert rows(again) == rows(place)


def test_place_without_a_store_is_refused(place: Path, tmp_path: Path) -> None:
    (tmp_path / "nothing").mkdir()
    for wrong in (tmp_path / "nothing", tmp_path / "missing", tmp_path / "log"):
        with pytest.raises((NotALogError, LogNotFoundError), match="no store and no archive"):
            restore(wrong, tmp_path / "again")
    with pytest.raises(LogNotFoundError):
        restore((tmp_path / "missing").as_uri(), tmp_path / "again")
    assert not (tmp_path / "again").exists()


@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("harm", ["missing", "changed"])
def test_damaged_store_restores_nothing(
    place: Path, tmp_path: Path, number: int, harm: str
) -> None:
    (file,) = [path for path in place.iterdir() if f"{number * SEGMENT:020d}" in path.name]
    if harm == "missing":
        file.unlink()
    else:
        content = bytearray(file.read_bytes())
        content[-9] ^= 1
        file.write_bytes(content)
    if (number, harm) in [(0, "missing"), (2, "missing")]:
        return  # what a retention in the store leaves, and an earlier state of the store
    with pytest.raises(CorruptSegmentError):
        restore(place, tmp_path / "again")
    assert not (tmp_path / "again").exists() or os.listdir(tmp_path / "again") == []


def test_kill_at_any_step_leaves_a_whole_log_or_none(place: Path, tmp_path: Path) -> None:
    everything, step = rows(tmp_path / "log"), 0
    while True:
        step += 1
        there = tmp_path / f"again{step}"
        if not killed_at(step, lambda there=there: partial(restore, place, there)):
            break
        if (there / "log.json").exists():
            assert rows(there) == everything
        else:
            with pytest.raises(CommitLogError):
                commitlog.open(there, "r")
    assert step >= 5


def test_damage_in_a_restored_log_is_not_cut(place: Path, tmp_path: Path) -> None:
    """All of it was durable, so even a lost sector is no torn tail."""
    done = restore(place, tmp_path / "again")
    file = max((tmp_path / "again").glob("*.seg"))
    poke(file, 5120, bytes(512))
    for mode in ("r", "a"):
        with (
            commitlog.open(tmp_path / "again", mode) as log,
            log.tailer(on_damage="skip") as tailer,
        ):
            assert list(tailer)[-1].position == log.last_position
            assert (log.tail_position, len(tailer.damaged)) == (done.end_position, 1)


@pytest.mark.parametrize("released", ["this", "older"])
def test_log_restored_without_its_beginning_keeps_sequences(
    place: Path, tmp_path: Path, released: str
) -> None:
    """An older release restored no checkpoint."""
    next(place.glob(f"{0:020d}*")).unlink()
    restore(place, tmp_path / "again")
    if released == "older":
        (tmp_path / "again" / "checkpoint").unlink()
    with commitlog.open(tmp_path / "again", "r") as log:
        sequences = [record.sequence for record in log.tailer()]
        assert (log.first_sequence, log.last_sequence) == (sequences[0], 299)
        assert sequences == list(range(sequences[0], 300))
        assert sequences[0] > 0
        with log.tailer() as tailer:
            assert tailer.seek(sequence=290)
            assert bytes(tailer.read().value[:3]) == b"290"
