"""Directions: forward a tailer reads the record after its cursor, backward the one before."""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from commitlog import CommitLog, Tailer
from commitlog.errors import CorruptRecordError, InvalidOptionError, PositionError
from commitlog.log.parts import parts_of
from tests.log_files import LogFiles
from tests.setups import BY_HAND, HEADER, LARGEST_VALUE, SEGMENT, Logs, Setup

SEED = 20260214


def sizes(count: int) -> list[bytes]:
    """Return values of many lengths; the last has an eighth of a segment."""
    draw = random.Random(SEED)
    return [b"%d:" % index + bytes(draw.choice((0, 3, 40, 300))) for index in range(count - 1)] + [
        bytes(LARGEST_VALUE)
    ]


def backward(log: CommitLog, **options: Any) -> list[bytes]:
    return list(log.tailer(direction="backward", **options).values())


@pytest.fixture
def filled(logs: Logs, setup: Setup) -> tuple[CommitLog, list[bytes]]:
    """A log of several segments with keys, SKIP frames and a batch; everything is appended."""
    log = logs.open_as(setup, index_spacing=16)
    expected = sizes(900)
    for value in expected[:600]:
        log.append(value, key=value[:1] or None, sync=False)
    log.append_many(expected[600:])
    return log, expected


def test_backward_read_reverses_the_forward_read(
    filled: tuple[CommitLog, list[bytes]],
) -> None:
    log, expected = filled
    forward = list(log.tailer(visibility="appended"))
    assert [record.value for record in forward] == expected
    assert list(log.tailer(direction="backward", visibility="appended")) == forward[::-1]
    assert backward(log, visibility="appended") == expected[::-1]


def test_reversed_tailer_rereads_the_last_record(
    filled: tuple[CommitLog, list[bytes]],
) -> None:
    log, expected = filled
    draw = random.Random(SEED)
    tailer = log.tailer(visibility="appended")
    place = 0
    for _ in range(6000):
        if draw.random() < 0.2:
            tailer.direction = draw.choice(("forward", "backward"))
        found = tailer.read()
        step = 1 if tailer.direction == "forward" else -1
        index = place if step == 1 else place - 1
        if not 0 <= index < len(expected):
            assert found is None
            continue
        assert found is not None
        assert found.value == expected[index]
        place += step


@pytest.mark.parametrize("most", [1, 7, 250, 65536])
def test_batches_backward_have_their_rows_in_reading_order(
    filled: tuple[CommitLog, list[bytes]], most: int
) -> None:
    log, expected = filled
    expected = expected[-300:] if most == 1 else expected
    tailer = log.tailer(direction="backward", visibility="appended")
    found: list[bytes] = []
    while len(found) < len(expected) and len(batch := tailer.read_batch(most)):
        assert np.all(np.diff(batch.positions) < 0)
        found += batch.values()
    assert found == expected[::-1]


def test_batches_in_both_directions_mix_with_single_reads(
    filled: tuple[CommitLog, list[bytes]],
) -> None:
    log, expected = filled
    tailer = log.tailer(visibility="appended")
    assert tailer.read_batch(100).values() == expected[:100]
    tailer.direction = "backward"
    assert tailer.read_batch(30).values() == expected[70:100][::-1]
    assert tailer.read().value == expected[69]  # type: ignore[union-attr]
    tailer.direction = "forward"
    assert tailer.read_batch(2).values() == expected[69:71]


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_each_start_reads_its_side_in_both_directions(logs: Logs, direction: Any) -> None:
    log = logs.open()
    positions = log.append_many([b"a", b"b", b"c"])
    expected = {
        "first": ([b"a", b"b", b"c"], []),
        "end": ([], [b"c", b"b", b"a"]),
        int(positions[0]): ([b"a", b"b", b"c"], []),
        int(positions[1]): ([b"b", b"c"], [b"a"]),
        log.tail_position: ([], [b"c", b"b", b"a"]),
        None: ([b"a", b"b", b"c"], [b"c", b"b", b"a"]),
    }
    for start, found in expected.items():
        assert (
            list(log.tailer(start=start, direction=direction).values())
            == found[direction == "backward"]
        )  # type: ignore[arg-type]


def test_empty_log_has_no_record_in_either_direction(logs: Logs, setup: Setup) -> None:
    log = logs.open_as(setup)
    for start in ("first", "end", 0, HEADER):
        tailer = log.tailer(start=start, direction="backward", visibility="appended")  # type: ignore[arg-type]
        assert tailer.read() is None
        assert len(tailer.read_batch()) == 0
        assert tailer.position == HEADER
    log.append(b"x")
    assert tailer.read() is None
    tailer.direction = "forward"
    assert tailer.read().value == b"x"  # type: ignore[union-attr]
    assert tailer.read() is None
    tailer.direction = "backward"
    assert tailer.read().value == b"x"  # type: ignore[union-attr]


def test_empty_segments_are_passed_in_both_directions(logs: Logs) -> None:
    log = logs.open()
    log.append(b"a")
    for _ in range(4):
        log.roll()
    log.append(b"b")
    log.roll()
    assert backward(log) == [b"b", b"a"]
    tailer = log.tailer()
    for direction, value in (
        ("forward", b"a"),
        ("forward", b"b"),
        ("backward", b"b"),
        ("backward", b"a"),
        ("forward", b"a"),
    ):
        tailer.direction = direction  # type: ignore[assignment]
        assert tailer.read().value == value  # type: ignore[union-attr]


def test_log_of_skip_frames_has_no_record_backward(logs: Logs) -> None:
    log = logs.open()
    for _ in range(3):
        with pytest.raises(ZeroDivisionError), log.claim(100):
            raise ZeroDivisionError
    tailer = log.tailer(direction="backward")
    assert tailer.read() is None
    log.append(b"x")
    tailer.direction = "forward"
    assert tailer.read().value == b"x"  # type: ignore[union-attr]


def test_rolled_back_claims_are_passed_backward(logs: Logs, setup: Setup) -> None:
    log = logs.open_as(setup)
    expected = []
    for index in range(300):
        if index % 3:
            expected.append(b"%d" % index)
            log.append(expected[-1], sync=False)
        else:
            with pytest.raises(ZeroDivisionError), log.claim(index):
                raise ZeroDivisionError
    assert backward(log, visibility="appended") == expected[::-1]


def test_backward_read_stops_above_an_open_claim_until_it_ends(logs: Logs, setup: Setup) -> None:
    log = logs.open_as(setup, claim_timeout=60, **BY_HAND)
    log.append(b"below", sync=False)
    with ThreadPoolExecutor(1) as pool:
        claim = pool.submit(log.claim, 16).result()
    position = log.append(b"above", sync=False)
    tailer = log.tailer(start=position, direction="backward", visibility="appended")
    assert tailer.read() is None
    tailer.direction = "forward"
    assert tailer.read().value == b"above"  # type: ignore[union-attr]
    tailer.direction = "backward"
    with claim:
        claim.buffer[:] = b"sixteen bytes ok"
    assert [record.value for record in tailer] == [b"above", b"sixteen bytes ok", b"below"]


@pytest.mark.parametrize("backing", ["mapped", "anonymous", "shm"])
def test_backward_read_respects_visibility(logs: Logs, backing: Any) -> None:
    log = logs.open_as(Setup("none", backing), **BY_HAND)
    log.append(b"flushed")
    log.flush()
    log.append(b"committed")
    log.commit()
    position = log.append(b"appended")
    log.append(b"and more")
    assert backward(log, visibility="flushed") == [b"flushed"]
    assert backward(log, visibility="flushed", start=position) == [b"flushed"]
    everything = [b"and more", b"appended", b"committed", b"flushed"]
    assert backward(log, visibility="committed") == everything[2 if backing != "mapped" else 0 :]
    assert backward(log, visibility="appended") == everything
    reader = logs.open(mode="r")
    assert backward(reader) == everything[2 if backing != "mapped" else 0 :]
    log.flush()
    assert backward(log, visibility="flushed") == everything


def test_backward_read_ends_at_the_first_kept_segment(logs: Logs) -> None:
    log = logs.open()
    for index in range(6):
        log.append(b"%d" % index)
        log.roll()
    stale = log.tailer(start=SEGMENT)
    log.flush()
    assert len(log.delete_before(3 * SEGMENT)) == 3
    assert backward(log) == [b"5", b"4", b"3"]
    assert not [name for name in Path(log.path).glob("*.idx") if int(name.stem) < 3 * SEGMENT]
    stale.direction = "backward"
    with pytest.raises(PositionError) as caught:
        stale.read()
    assert caught.value.first_position == 3 * SEGMENT


def test_backward_read_at_missing_segment_raises(files: LogFiles, logs: Logs) -> None:
    for number in range(3):
        files.create(number, opened=True)
        files.skip(number, files.record(number, HEADER, b"%d" % number), 0)
    log = logs.open(mode="r")
    tailer = log.tailer(direction="backward", start=2 * SEGMENT)
    files.file(1).unlink()
    with pytest.raises(PositionError, match="missing"):
        tailer.read()


def damaged_log(files: LogFiles, logs: Logs, at: int, change: Callable[[int], object]) -> CommitLog:
    """Return a log of sixty durable records of 24 bytes; `change` alters the one with index
    `at`.
    """
    files.create(0)
    files.skip(0, files.records(0, [b"%02d" % index for index in range(60)]), 0)
    with logs.open(index_spacing=16) as log:
        assert parts_of(log).writer.allocation is not None
        assert parts_of(log).writer.allocation.sealed_below() == 1
    change(HEADER + 24 * at)
    return logs.open(mode="r", index_spacing=16)


@pytest.mark.parametrize("at", [0, 1, 30, 59])
def test_damage_is_raised_or_skipped_backward(files: LogFiles, logs: Logs, at: int) -> None:
    log = damaged_log(files, logs, at, lambda offset: files.flip(0, offset + 16))
    above = [b"%02d" % index for index in range(59, at, -1)]
    below = [b"%02d" % index for index in range(at - 1, -1, -1)]
    tailer = log.tailer(direction="backward")
    assert [tailer.read().value for _ in above] == above  # type: ignore[union-attr]
    for _ in range(2):
        with pytest.raises(CorruptRecordError) as caught:
            tailer.read()
        assert (caught.value.position, caught.value.resume_position) == (
            HEADER + 24 * at,
            HEADER + 24 * (at + 1),
        )
    skipping = log.tailer(direction="backward", on_damage="skip")
    assert list(skipping.values()) == above + below
    assert skipping.damaged == [(HEADER + 24 * at, HEADER + 24 * (at + 1))]
    batches = log.tailer(direction="backward", on_damage="skip")
    assert [value for _ in range(4) for value in batches.read_batch().values()] == above + below


@pytest.mark.parametrize("length", [0x0FFFFFFF, 24 * 10, 24 * 40, 28, 17, 0])
def test_damaged_length_loses_one_record_in_both_directions(
    files: LogFiles, logs: Logs, length: int
) -> None:
    log = damaged_log(
        files, logs, 20, lambda offset: files.put(0, offset, length.to_bytes(4, "little"))
    )
    forward = list(log.tailer(on_damage="skip"))
    assert [int(record.value) for record in forward] == [
        index for index in range(60) if index != 20
    ]
    assert list(log.tailer(on_damage="skip", direction="backward")) == forward[::-1]
    batches = log.tailer(on_damage="skip", direction="backward")
    assert [value for _ in range(2) for value in batches.read_batch().values()] == [
        record.value for record in forward[::-1]
    ]
    tailer = log.tailer(on_damage="skip")
    # A damaged frame with a valid length keeps its sequence number; one without loses it up to the
    # next indexed record.
    renumbered = 21 if length == 17 else 32
    for sequence in range(60):
        tailer.seek(sequence=sequence)
        expected = sequence + (20 <= sequence < renumbered)
        assert int(tailer.read().value) == expected  # type: ignore[union-attr]


def test_torn_tail_is_not_read_backward(files: LogFiles, logs: Logs) -> None:
    files.create(0)
    end = files.records(0, [b"a", b"b"])
    files.put(0, end, b"\x30\0\0\0torn")
    assert backward(logs.open(mode="r")) == [b"b", b"a"]


def test_backward_tailer_does_not_wait_or_follow(logs: Logs) -> None:
    log = logs.open()
    log.append(b"x")
    tailer = log.tailer(direction="backward")
    with pytest.raises(InvalidOptionError, match="forward"):
        tailer.follow()
    assert tailer.read(timeout=None).value == b"x"  # type: ignore[union-attr]
    assert tailer.read(timeout=None) is None
    assert len(tailer.read_batch(timeout=None)) == 0
    tailer.direction = "forward"
    following = tailer.follow()
    assert next(following).value == b"x"
    tailer.direction = "backward"
    assert next(following).value == b"x"
    assert list(following) == []


@pytest.mark.parametrize("direction", ["up", None, 1, "FORWARD"])
def test_unknown_direction_is_refused(logs: Logs, direction: Any) -> None:
    log = logs.open()
    with pytest.raises(InvalidOptionError, match="direction must be one of 'forward', 'backward'"):
        log.tailer(direction=direction)
    tailer = log.tailer()
    with pytest.raises(InvalidOptionError, match="direction"):
        tailer.direction = direction
    assert tailer.direction == "forward"


def test_backward_read_is_complete_while_the_log_grows(logs: Logs, setup: Setup) -> None:
    log = logs.open_as(setup, index_spacing=16)
    expected: list[bytes] = []

    def append(count: int) -> None:
        fresh = [b"%d" % (len(expected) + index) for index in range(count)]
        expected.extend(fresh)
        log.append_many(fresh)

    for turn in range(12):
        append(500)
        tailer = log.tailer(direction="backward", visibility="appended")
        most = 700 + turn
        found = [record.value for record, _ in zip(tailer, range(most), strict=False)]
        assert found == expected[::-1][: len(found)]
        assert len(found) == min(most, len(expected))


def test_concurrent_reader_rereads_followed_records_backward(
    logs: Logs, until: Callable[..., None]
) -> None:
    writer = logs.open(index_spacing=16)
    reader = logs.open(mode="r")
    tailer: Tailer = reader.tailer()
    seen = []
    for index in range(5000):
        writer.append(b"%d" % index)
        if index % 100 == 50:
            seen += list(tailer.values())
    until(lambda: bool(seen.extend(tailer.values()) or len(seen) == 5000))
    tailer.direction = "backward"
    assert list(tailer.values()) == seen[::-1]
