"""The listener: receives every event in order, delays no append, and its errors stay its own."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from commitlog import CommitLog, Retention
from commitlog.errors import InvalidOptionError
from commitlog.keep import SegmentInfo, SegmentListener, prune
from commitlog.log.parts import parts_of
from commitlog.retention import listener
from commitlog.segment.seal_table import SealTable
from tests.setups import BY_HAND, SEGMENT, Logs, values

ALL = Retention(max_bytes=0)
SEAL = Retention(max_bytes="1TiB")


class Notes:
    """Records its events."""

    def __init__(self) -> None:
        self.told: list[tuple[str, SegmentInfo]] = []
        self.threads: set[str] = set()

    def _note(self, what: str, segment: SegmentInfo) -> None:
        self.told.append((what, segment))
        self.threads.add(threading.current_thread().name)

    def on_created(self, segment: SegmentInfo) -> None:
        self._note("created", segment)

    def on_sealed(self, segment: SegmentInfo) -> None:
        self._note("sealed", segment)

    def on_released(self, segment: SegmentInfo) -> None:
        self._note("released", segment)

    def on_deleted(self, segment: SegmentInfo) -> None:
        self._note("deleted", segment)

    def numbers(self, what: str) -> list[int]:
        return [segment.position // SEGMENT for told, segment in self.told if told == what]


def fill(log: CommitLog, segments: int) -> None:
    for number in range(segments):
        log.append_many([b"%d-%d" % (number, index) for index in range(3)])
        log.roll()
    log.flush()
    log.prune(SEAL)


@pytest.mark.parametrize("pooled", [False, True], ids=["mapped", "pooled"])
def test_listener_gets_segment_events_in_order_in_its_own_thread(logs: Logs, pooled: bool) -> None:
    notes = Notes()
    more: dict[str, Any] = {"pool": logs.pool()} if pooled else {}
    log = logs.open(**BY_HAND, listener=notes, **more)
    fill(log, 4)
    log.prune(ALL)
    log.close()
    assert notes.threads == {f"commitlog listener {log.path}"}
    assert notes.numbers("created")[:3] == [1, 2, 3]
    assert notes.numbers("sealed") == [0, 1, 2, 3]
    assert notes.numbers("deleted") == [0, 1, 2]
    assert {0, 1, 2, 3} <= set(notes.numbers("released"))
    for number in range(3):
        lives = [what for what, segment in notes.told if segment.position == number * SEGMENT]
        assert lives == ["created", "sealed", "released", "deleted"][number == 0 :]


def test_listener_event_describes_the_segment(logs: Logs) -> None:
    notes = Notes()
    log = logs.open(**BY_HAND, listener=notes)
    log.append(b"a", timestamp_ns=5)
    log.append(b"b", timestamp_ns=7)
    log.roll()
    log.append(b"c", timestamp_ns=9)
    log.roll()
    log.flush()
    log.prune(SEAL)
    log.close()
    sealed = [segment for what, segment in notes.told if what == "sealed"]
    path = str(Path(log.path) / f"{SEGMENT:020d}.seg")
    assert sealed[1] == SegmentInfo(path, SEGMENT, SEGMENT, 1, 2, 9, 9)
    assert (
        sealed[0].records,
        sealed[0].first_sequence,
        sealed[0].first_timestamp_ns,
        sealed[0].last_timestamp_ns,
    ) == (2, 0, 5, 7)


def test_listener_gets_deletions_by_other_processes(logs: Logs, until: Callable[..., None]) -> None:
    notes = Notes()
    log = logs.open(listener=notes)
    fill(log, 4)
    prune(log.path, ALL)
    until(lambda: notes.numbers("deleted") == [0, 1, 2])


def test_listener_gets_events_for_segments_of_other_writers(
    logs: Logs, until: Callable[..., None]
) -> None:
    notes = Notes()
    log = logs.open(listener=notes)
    fill(logs.open(), 5)
    until(lambda: notes.numbers("sealed") == [0, 1, 2, 3, 4])
    until(lambda: notes.numbers("created")[:5] == [1, 2, 3, 4, 5])
    assert values(log)[-1] == b"4-2"


def test_writer_behind_deleted_segments_continues_to_seal(
    logs: Logs, until: Callable[..., None]
) -> None:
    """Another process seals and deletes segments before this one looks at them; this one must not
    get stuck.
    """
    behind, ahead = logs.open(), logs.open()
    assert parts_of(behind).writer.allocation is not None
    with parts_of(behind).writer.allocation._sealing.entered():  # as if its thread were stopped
        fill(ahead, 6)
        ahead.prune(ALL)
        assert ahead.first_position == 5 * SEGMENT + 4096
    ahead.close()
    fill(behind, 2)
    seals = SealTable(parts_of(behind).directory)
    until(lambda: seals.get(7) is not None)
    assert behind.first_sequence == 15
    assert behind.last_sequence == 23


def test_listener_error_is_logged_and_counted_and_log_continues(
    logs: Logs, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(Notes):
        def on_sealed(self, segment: SegmentInfo) -> None:
            super().on_sealed(segment)
            raise RuntimeError(f"no use for {segment.position}")

    notes = Broken()
    with caplog.at_level(logging.ERROR, "commitlog.keep"):
        log = logs.open(**BY_HAND, listener=notes)
        fill(log, 3)
        log.close()
    assert notes.numbers("sealed") == [0, 1, 2]
    assert parts_of(log).writer.listener is not None
    assert parts_of(log).writer.listener.failures == 3
    assert caplog.text.count("on_sealed of the segment listener failed") == 3
    assert "no use for 0" in caplog.text


def test_hanging_listener_blocks_no_append_and_counts_drops(
    logs: Logs, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(listener, "_WAITING_MOST", 4)
    go_on = threading.Event()

    class Slow(Notes):
        def _note(self, what: str, segment: SegmentInfo) -> None:
            assert go_on.wait(60)
            super()._note(what, segment)

    notes = Slow()
    with caplog.at_level(logging.WARNING, "commitlog.keep"):
        log = logs.open(**BY_HAND, listener=notes)
        fill(log, 12)
        dropped = log.stats().dropped_events
        assert dropped > 12
        assert values(log)[-1] == b"11-2"
        go_on.set()
        log.close()
    assert caplog.text.count("is too slow") >= 1
    assert caplog.text.count("is too slow") < dropped
    assert len(notes.told) >= 5
    assert len(notes.told) <= 12 * 4


def test_close_does_not_wait_for_a_hanging_listener(
    logs: Logs, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(listener, "_FINISH_S", 0.01)
    go_on = threading.Event()

    class Hanging:
        def on_created(self, segment: SegmentInfo) -> None:
            go_on.wait(60)

    log = logs.open(**BY_HAND, listener=Hanging())
    fill(log, 3)
    with caplog.at_level(logging.WARNING, "commitlog.keep"):
        log.close()
    assert "did not finish in time" in caplog.text
    go_on.set()


def test_object_with_one_listener_method_is_accepted(logs: Logs) -> None:
    told = []

    class OnlyThis:
        def on_deleted(self, segment: SegmentInfo) -> None:
            told.append(segment.position)

    class Derived(SegmentListener):
        on_deleted = OnlyThis.on_deleted

    for name, made in (("one", OnlyThis()), ("two", Derived())):
        log = logs.open(name, **BY_HAND, listener=made)
        fill(log, 3)
        log.prune(ALL)
        log.close()
    assert told == [0, SEGMENT, 0, SEGMENT]


def test_listener_may_append_to_its_log(logs: Logs, until: Callable[..., None]) -> None:
    class Own:
        def on_sealed(self, segment: SegmentInfo) -> None:
            log.append(b"sealed %d" % (segment.position // SEGMENT))

    log = logs.open(listener=Own())
    fill(log, 4)
    until(
        lambda: (
            [value for value in values(log) if value.startswith(b"sealed")]
            == [b"sealed %d" % number for number in range(4)]
        )
    )


def test_listener_in_a_forked_child_gets_the_childs_events(
    logs: Logs, in_child: Callable[..., Any]
) -> None:
    notes = Notes()
    log = logs.open(**BY_HAND, listener=notes)

    def child() -> tuple[list[int], list[int]]:
        fill(log, 2)
        log.close()
        return notes.numbers("sealed"), notes.numbers("deleted")

    assert in_child(child) == ([0, 1], [])
    log.close()


class _Misspelt:
    def on_create(self, segment: SegmentInfo) -> None: ...


class _Nothing: ...


@pytest.mark.parametrize(
    "wrong",
    [7, "print", _Nothing(), _Misspelt(), Notes, print],
    ids=lambda wrong: type(wrong).__name__,
)
def test_invalid_listener_is_refused(logs: Logs, wrong: object) -> None:
    with pytest.raises(InvalidOptionError, match="on_created"):
        logs.open(listener=wrong)
