"""Sequences: every record has its ordinal, no matter which other frames lie between the records and
how a caller reads them.
"""

from __future__ import annotations

import os
import pickle
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import commitlog
from commitlog import Options
from commitlog.errors import PositionError, SequenceError
from commitlog.log.parts import parts_of
from tests.faults.image import copy_live, poke
from tests.log_files import LogFiles
from tests.setups import BY_HAND, HEADER, SEGMENT, Logs, Setup


def test_sequences_count_records_only(logs: Logs, setup: Setup) -> None:
    log = logs.open_as(setup, index_spacing=16)
    for index in range(1500):
        log.append(b"%d" % index, sync=False)
        if index % 5 == 0:
            with pytest.raises(ZeroDivisionError), log.claim(100):
                raise ZeroDivisionError
    log.append_many([b"%d" % index for index in range(1500, 3000)])
    forward = list(log.tailer(visibility="appended"))
    assert (
        [record.sequence for record in forward]
        == [int(record.value) for record in forward]
        == list(range(3000))
    )
    assert [
        record.sequence for record in log.tailer(direction="backward", visibility="appended")
    ] == list(range(2999, -1, -1))
    assert (log.first_sequence, log.last_sequence, log.last_position) == (
        0,
        2999,
        forward[-1].position,
    )
    assert log.read(forward[1234].position).sequence == 1234


def test_batch_has_sequences_in_reading_order(logs: Logs, setup: Setup) -> None:
    log = logs.open_as(setup)
    log.append_many([b"%d" % index for index in range(4000)])
    for direction in ("forward", "backward"):
        tailer = log.tailer(direction=direction, visibility="appended")  # type: ignore[arg-type]
        total = 0
        while len(batch := tailer.read_batch(700)):
            assert batch.sequences.dtype == np.int64
            assert batch.sequences.tolist() == [int(value) for value in batch.values()]
            total += len(batch)
        assert total == 4000
        assert batch.sequences.tolist() == []


def test_sequences_survive_close_and_pickling(logs: Logs) -> None:
    log = logs.open()
    log.append_many([b"%d" % index for index in range(3000)])
    records = list(log.tailer())
    batch = log.tailer(start=records[10].position).read_batch(5)
    copies = pickle.loads(pickle.dumps((records[7], batch)))
    # Each segment has a known sequence near these records.
    assert [record.sequence for record in records[::500]] == list(range(0, 3000, 500))
    logs.close()
    assert [record.sequence for record in records] == list(range(3000))
    assert copies[0].sequence == 7
    assert copies[1].sequences.tolist() == batch.sequences.tolist() == [10, 11, 12, 13, 14]


def test_sequence_after_an_open_claim_raises_until_it_closes(logs: Logs, setup: Setup) -> None:
    log = logs.open_as(setup, claim_timeout=60, **BY_HAND)
    log.append(b"before", sync=False)
    with ThreadPoolExecutor(1) as pool:
        claim = pool.submit(log.claim, 16).result()
    position = log.append(b"behind", sync=False)
    record = log.read(position)
    with pytest.raises(SequenceError, match="again"):
        _ = record.sequence
    with claim:
        claim.buffer[:] = b"sixteen bytes ok"
    assert record.sequence == 2


def test_crash_with_open_claim_leaves_no_gap_in_sequences(logs: Logs, tmp_path: Path) -> None:
    """From Chronicle Queue: a process dies in the middle of a message; the next writer continues
    after it, and the sequences have no gap.
    """
    child = os.fork()
    if child == 0:
        with commitlog.open(tmp_path / "log", "a", Options(segment_size=SEGMENT)) as log:
            log.append_many([b"0", b"1"])
            log.claim(50)
            os.kill(os.getpid(), signal.SIGKILL)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    log = logs.open()
    log.append(b"2")
    log.append(b"3")
    assert [(record.sequence, record.value) for record in log.tailer()] == [
        (0, b"0"),
        (1, b"1"),
        (2, b"2"),
        (3, b"3"),
    ]
    tailer = log.tailer()
    tailer.seek(sequence=2)
    assert tailer.read().value == b"2"  # type: ignore[union-attr]


def test_reader_sees_no_record_of_a_claim_cut_by_an_exit(logs: Logs, tmp_path: Path) -> None:
    """From Chronicle Queue: two whole messages and a half; a reader sees two, before and after the
    recovery, in both directions.
    """
    child = os.fork()
    if child == 0:
        log = commitlog.open(tmp_path / "log", "a", Options(segment_size=SEGMENT))
        log.append_many([b"one", b"two"])
        log.claim(50).buffer[:25] = b"h" * 25
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    for mode in ("r", "a", "r"):
        log = logs.open(mode=mode)
        assert list(log.tailer().values()) == [b"one", b"two"]
        assert list(log.tailer(direction="backward").values()) == [b"two", b"one"]
        assert (log.count(), log.last_sequence) == (2, 1)
        log.close()


def test_last_position_is_kept_across_restarts(logs: Logs, setup: Setup) -> None:
    for turn in range(5):
        log = logs.open_as(setup)
        expected = log.last_position
        assert (expected is None) == (turn == 0)
        if expected is not None:
            assert log.read(expected).value == b"%d" % (turn - 1)
        assert log.last_sequence == (turn - 1 if turn else None)
        assert log.append(b"%d" % turn, sync=False) == log.last_position
        if turn % 2:
            log.roll()
        log.close()


def test_log_without_records_has_no_last_position(logs: Logs, setup: Setup) -> None:
    for mode in ("a", "a", "r"):
        log = logs.open_as(setup) if mode == "a" else logs.open(mode="r")
        assert (log.last_position, log.last_sequence, log.first_sequence, log.count()) == (
            None,
            None,
            0,
            0,
        )
        assert log.first_position == log.tail_position == HEADER
        assert log.tailer(direction="backward").read() is None
        tailer = log.tailer()
        assert tailer.seek(sequence=0)
        assert not tailer.seek(timestamp=0)
        with pytest.raises(PositionError, match="the log has no records"):
            tailer.seek(sequence=1)
        log.close()
    log = logs.open_as(setup)
    log.roll()
    assert (log.last_position, log.first_sequence, log.count()) == (None, 0, 0)


def test_count_across_segments_equals_reads(logs: Logs, setup: Setup) -> None:
    log = logs.open_as(setup, index_spacing=16)
    log.append_many([b"%d" % index for index in range(2500)])
    log.roll()
    log.append_many([b"%d" % index for index in range(2500, 5000)])
    positions = [record.position for record in log.tailer(visibility="appended")]
    assert log.count() == 5000
    for low, high in [(0, 4999), (0, 1), (2499, 2500), (2490, 2510), (17, 17), (100, 4000)]:
        assert log.count(positions[low], positions[high]) == high - low
        assert log.count(positions[high], positions[low]) == high - low
        assert log.count(positions[low]) == 5000 - low
        assert log.count(last_position=positions[high]) == high
    assert log.count(positions[0], log.tail_position) == log.count(0, log.tail_position) == 5000


@pytest.mark.parametrize("wrong", [HEADER + 1, HEADER + 8, 1 << 40])
def test_count_from_position_without_record_raises(logs: Logs, wrong: int) -> None:
    log = logs.open()
    log.append_many([b"x" * 50] * 5)
    with pytest.raises(PositionError):
        log.count(wrong)
    with pytest.raises(PositionError):
        log.count(last_position=wrong)


def test_deletion_keeps_the_remaining_sequences(logs: Logs) -> None:
    log = logs.open()
    first = log.append(b"x")
    for _ in range(6):
        log.append_many([b"x"] * 9)
        log.roll()
    log.flush()
    log.delete_before(4 * SEGMENT)
    assert (log.first_sequence, log.last_sequence, log.count()) == (37, 54, 18)
    with pytest.raises(PositionError) as caught:
        log.count(first)
    assert caught.value.first_position == 4 * SEGMENT
    log.close()
    log = logs.open()
    assert [record.sequence for record in log.tailer()] == list(range(37, 55))


def test_log_without_seals_counts_from_its_beginning(files: LogFiles, logs: Logs) -> None:
    for number in range(3):
        files.create(number, opened=True)
        files.skip(number, files.records(number, [b"%d" % number] * 40), 0)
    log = logs.open(mode="r", index_spacing=16)
    assert [record.sequence for record in log.tailer()] == list(range(120))
    assert log.tailer(start=2 * SEGMENT).read().sequence == 80  # type: ignore[union-attr]
    tailer = log.tailer()
    tailer.seek(sequence=79)
    assert [tailer.read().value for _ in range(2)] == [b"1", b"2"]  # type: ignore[union-attr]


def test_forked_child_counts_its_own_sequences(
    logs: Logs, in_child: Callable[[Callable[[], Any]], Any]
) -> None:
    log = logs.open()
    log.append_many([b"x"] * 100)
    tailer = log.tailer()

    def in_the_child() -> list[int]:
        log.append(b"y")
        return [record.sequence for record in tailer][-2:]

    assert in_child(in_the_child) == [99, 100]
    assert log.last_sequence == 100


def test_unclean_torn_copy_counts_the_readable_records(logs: Logs, tmp_path: Path) -> None:
    """After the first torn frame above the checkpoint, the copy has whole, sealed segments, which
    the next writable open cuts off.
    """
    log = logs.open(flush="none", checkpoint_interval=3600)
    log.append_many([b"%03d" % index * 300 for index in range(200)])
    assert parts_of(log).writer.allocation is not None
    parts_of(log).writer.allocation.sealed_below()
    bad, later = (list(log.tailer())[index].position for index in (10, 150))
    assert bad < SEGMENT < later
    copy_live(Path(log.path), tmp_path / "copy")
    logs.close()
    poke(tmp_path / "copy" / f"{0:020d}.seg", bad + 896, bytes(24))  # its end was not written
    with commitlog.open(tmp_path / "copy", "r") as reader:
        tailer = reader.tailer()
        records = list(tailer)
        assert len(records) == reader.count() == 10
        assert tailer.position == bad
        assert [cycle.records for cycle in reader.cycles()] == [10]
        assert [tailer.seek(sequence=sequence) for sequence in (9, 10)] == [True, True]
        assert tailer.read() is None
        for wanted in ({"sequence": 11}, {"sequence": 150}, {"position": later}):
            with pytest.raises(PositionError):
                tailer.seek(**wanted)
        assert not tailer.seek(timestamp=records[9].timestamp_ns + 1)
        assert tailer.position == bad
        assert [record.sequence for record in tailer.striding()] == []
        assert reader.last_sequence == 9
    with commitlog.open(tmp_path / "copy") as recovered:
        assert recovered.count() == len(list(recovered.tailer())) == 10
