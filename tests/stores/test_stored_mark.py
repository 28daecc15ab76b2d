"""A log knows that it has a store, and no deletion of any process passes what is stored."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import commitlog
from commitlog import CommitLog, Retention, Store
from commitlog.errors import CorruptSegmentError, DiskFullError, InvalidOptionError, IOFailureError
from commitlog.keep import prune
from commitlog.log.parts import parts_of
from commitlog.retention import stored_mark
from commitlog.segment import checked_json
from commitlog.stats import StoreStats
from commitlog.stores.marker import place_of
from tests.copies import copy_log
from tests.setups import SEGMENT, Logs

SOON = 0.01
ALL = Retention(max_bytes=0)
NOT_STORED = "it is not stored in"


@pytest.fixture
def away(tmp_path: Path) -> Path:
    """A place where no store can be written until the file there is removed."""
    place = tmp_path / "away"
    place.write_bytes(b"a file where the store's directory should be")
    return place


def fill(log: CommitLog, segments: int) -> None:
    for _ in range(segments):
        log.append(b"record")
        log.roll()
    log.flush()


def mark_of(log: CommitLog) -> StoreStats:
    mark = stored_mark.read(parts_of(log).directory)
    assert mark is not None
    return mark


def first_of(log: CommitLog) -> int:
    return parts_of(log).directory.segment_numbers()[0]


def test_delete_before_keeps_what_is_not_stored(
    logs: Logs, away: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = logs.open(store=Store(away / "store", every=SOON))
    fill(log, 4)
    with caplog.at_level(logging.WARNING, "commitlog.keep"):
        assert log.delete_before(log.tail_position) == []
    assert f"at position 0: {NOT_STORED} {away}/store yet" in caplog.text


def test_prune_of_another_process_keeps_what_is_not_stored(logs: Logs, away: Path) -> None:
    log = logs.open(store=Store(away / "store", every=SOON))
    fill(log, 4)
    log.prune(Retention(max_bytes="1TiB"))  # seals
    assert prune(log.path, ALL).stopped_by == f"{NOT_STORED} {away}/store yet"
    log.close()
    assert prune(log.path, ALL).stopped_by == f"{NOT_STORED} {away}/store yet"


def test_handle_without_the_store_keeps_what_is_not_stored(logs: Logs, away: Path) -> None:
    log = logs.open(store=Store(away / "store", every=SOON))
    fill(log, 4)
    with commitlog.open(log.path) as other:
        assert other.delete_before(other.tail_position) == []
        assert other.prune(ALL).stopped_by == f"{NOT_STORED} {away}/store yet"
    log.close()
    with commitlog.open(log.path, retention=ALL) as later:
        assert later.prune().segments == ()


def test_forced_deletion_passes_what_is_not_stored(logs: Logs, away: Path) -> None:
    log = logs.open(store=Store(away / "store", every=SOON))
    fill(log, 6)
    assert len(log.delete_before(2 * SEGMENT, force="store")) == 2
    assert len(prune(log.path, Retention(max_bytes=0), force=["store"]).segments) == 3
    fill(log, 2)
    assert len(log.prune(ALL, force="store").segments) == 2
    for call in (log.prune, lambda *given, **named: log.delete_before(0, **named)):
        with pytest.raises(InvalidOptionError, match="force must be some of"):
            call(ALL, force="tailers")  # type: ignore[operator]


def test_stored_segments_are_deleted_by_every_handle(
    logs: Logs, tmp_path: Path, until: Callable[..., None]
) -> None:
    log = logs.open(store=Store(tmp_path / "store", every=SOON))
    fill(log, 4)
    until(lambda: mark_of(log).kept_position == 4 * SEGMENT)
    assert len(prune(log.path, ALL).segments) == 3
    log.close()
    with commitlog.open(log.path) as other:
        fill(other, 3)
        other.prune(ALL)
        assert first_of(other) == 4  # the store does not have what was appended without it


def test_other_store_begins_with_nothing(
    logs: Logs, tmp_path: Path, away: Path, until: Callable[..., None]
) -> None:
    log = logs.open(store=Store(tmp_path / "store", every=SOON))
    fill(log, 3)
    until(lambda: mark_of(log).kept_position == 3 * SEGMENT)
    log.close()
    with commitlog.open(log.path, store=Store(away / "store", every=SOON)) as moved:
        mark = mark_of(moved)
        assert (mark.target, mark.kept_position, mark.position) == (f"{away}/store", 0, 0)
        assert moved.prune(ALL).segments == ()


def test_mark_of_records_that_were_replaced_counts_nothing(
    logs: Logs, tmp_path: Path, until: Callable[..., None]
) -> None:
    """An older copy of the directory gets the newer file, then other records."""
    log = logs.open(store=Store(tmp_path / "store", every=SOON))
    fill(log, 2)
    until(lambda: mark_of(log).kept_position == 2 * SEGMENT)
    log.close()
    backup = tmp_path / "backup"
    copy_log(log.path, backup)
    with commitlog.open(log.path, store=Store(tmp_path / "store", every=SOON)) as longer:
        fill(longer, 2)
        until(lambda: mark_of(longer).kept_position == 4 * SEGMENT)
    shutil.copy(Path(log.path) / stored_mark.NAME, backup)
    with commitlog.open(backup) as copy:
        assert mark_of(copy).kept_position == 0
        fill(copy, 3)
        assert mark_of(copy).kept_position == 0
        assert copy.prune(ALL).segments == ()


@pytest.mark.parametrize("harm", [b"", b"{}", b"\xff" * 64])
def test_damaged_mark_keeps_everything_until_the_next_open(
    logs: Logs, tmp_path: Path, until: Callable[..., None], harm: bytes
) -> None:
    place = Store(tmp_path / "store", every=SOON)
    log = logs.open(store=place)
    fill(log, 3)
    until(lambda: mark_of(log).kept_position == 3 * SEGMENT)
    log.close()
    (Path(log.path) / stored_mark.NAME).write_bytes(harm)
    assert "it is not known what the store has" in prune(log.path, ALL).stopped_by
    with commitlog.open(log.path, store=place) as again:
        until(lambda: mark_of(again).kept_position == 3 * SEGMENT)
        assert len(again.prune(ALL).segments) == 2


@pytest.mark.parametrize(
    "harm", [{"position": -5}, {"end": "a"}, {"end": 1 << 70}, {"error": 5}, {"requests": None}]
)
def test_mark_with_impossible_values_is_damaged(logs: Logs, harm: dict[str, object]) -> None:
    log = logs.open()
    fill(log, 3)
    directory = parts_of(log).directory
    checked_json.write(directory, stored_mark.NAME, {"target": "x", "position": 0, **harm})
    with pytest.raises(CorruptSegmentError, match="`stored` is damaged"):
        stored_mark.read(directory)
    parts_of(log).writing().allocation.sealed_below()
    assert "it is not known what the store has" in str(prune(log.path, ALL).stopped_by)


def test_mark_beyond_the_log_counts_nothing(logs: Logs) -> None:
    log = logs.open()
    fill(log, 3)
    stored_mark.write(parts_of(log).directory, StoreStats(target="x", kept_position=9 * SEGMENT))
    assert mark_of(log).kept_position == 0
    assert prune(log.path, ALL).segments == ()


def test_folder_instead_of_the_mark_is_named(logs: Logs, tmp_path: Path) -> None:
    log = logs.open()
    (Path(log.path) / stored_mark.NAME).mkdir()
    with pytest.raises(IOFailureError, match="cannot write `stored`: Is a directory"):
        commitlog.open(log.path, store=Store(tmp_path / "store"))


def test_retention_of_the_storing_handle_works_on_a_full_disk(
    logs: Logs, tmp_path: Path, until: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file cannot be written, and the deletion of what is stored is what makes room."""
    log = logs.open(store=Store(tmp_path / "store", every=SOON))
    until((tmp_path / "store" / "0000000001.epoch").exists)  # its session is noted

    def refuse(*_: object) -> None:
        raise DiskFullError("no room")

    monkeypatch.setattr(checked_json, "write", refuse)
    fill(log, 4)
    until(lambda: log.prune(ALL).first_position == 3 * SEGMENT)
    assert mark_of(log).kept_position == 0


def test_store_of_an_older_release_is_marked_at_the_next_open(
    logs: Logs, tmp_path: Path, until: Callable[..., None]
) -> None:
    place = Store(tmp_path / "store", every=SOON)
    log = logs.open(store=place)
    fill(log, 3)
    log.close()
    (Path(log.path) / stored_mark.NAME).unlink()
    with commitlog.open(log.path, store=place) as again:
        until(lambda: mark_of(again).kept_position == 3 * SEGMENT)


def test_log_without_a_store_is_pruned_as_before(logs: Logs) -> None:
    log = logs.open()
    fill(log, 3)
    assert stored_mark.read(parts_of(log).directory) is None
    assert len(log.prune(ALL).segments) == 2


def test_error_of_a_store_is_marked(logs: Logs, away: Path, until: Callable[..., None]) -> None:
    log = logs.open(store=Store(away / "store", every=SOON))
    fill(log, 1)
    until(lambda: mark_of(log).last_error is not None)
    assert mark_of(log).failing_since_ns is not None
    away.unlink()
    until(lambda: (mark_of(log).kept_position, mark_of(log).last_error) == (SEGMENT, None))
    assert mark_of(log).failing_since_ns is None


@pytest.mark.parametrize(
    ("target", "place"),
    [
        ("s3://key:secret@bucket/orders/", "s3://bucket/orders"),
        ("s3://bucket/orders?region=x", "s3://bucket/orders"),
        ("file:///var/a%20b", "/var/a b"),
        ("backup", f"{os.getcwd()}/backup"),
    ],
)
def test_place_of_a_store_has_no_credentials(target: Any, place: str) -> None:
    store = object.__new__(Store)
    object.__setattr__(store, "target", target)
    object.__setattr__(store, "filesystem", None)
    assert place_of(store) == place


def test_forked_child_keeps_what_the_file_says(
    logs: Logs, tmp_path: Path, until: Callable[..., None], in_child: Callable[..., Any]
) -> None:
    """The service of the parent does not run in the child, and what it knew gets old."""
    log = logs.open(store=Store(tmp_path / "store", every=SOON))
    fill(log, 2)
    until(lambda: mark_of(log).kept_position == 2 * SEGMENT)

    def prune_there() -> tuple[int, int]:
        log.append(b"from a child")
        store = log.stats().store
        assert store is not None
        pruned = log.prune(ALL)
        return store.kept_position, pruned.first_position

    assert in_child(prune_there) == (2 * SEGMENT, SEGMENT)


def test_error_of_a_server_is_stored_as_plain_text(logs: Logs) -> None:
    directory = parts_of(logs.open()).directory
    error = "\x1b[2J\ngone\x07" + "x" * 9999
    stored_mark.write(directory, StoreStats(target="s3://bucket", last_error=error))
    mark = stored_mark.read(directory)
    assert mark is not None
    assert mark.last_error is not None
    assert mark.last_error.startswith(" [2J gone x")
    assert len(mark.last_error) == 500


def test_pruning_handler_of_a_warning_does_not_hang(logs: Logs, away: Path) -> None:
    """Every lock that is held while something is logged can be taken again by the same thread."""
    log = logs.open(store=Store(away / "store", every=SOON))
    fill(log, 3)
    pruned = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "delete_before" in record.getMessage():
                pruned.append(log.prune(ALL).stopped_by)

    handler, logger = Handler(), logging.getLogger("commitlog.keep")
    logger.addHandler(handler)
    try:
        log.delete_before(log.tail_position)
    finally:
        logger.removeHandler(handler)
    assert pruned == [f"{NOT_STORED} {away}/store yet"]
