"""Recovery of empty and of cleanly closed logs: they open at their end, and a clean mark that
contradicts the segments is ignored.
"""

from __future__ import annotations

import sys

import pytest

from commitlog._kernel.segments import Segment
from commitlog.recovery import Recovered, location
from tests.log_files import HEADER, SIZE, UUID, LogFiles, numbered
from tests.oracle import segment_file as oracle


def test_log_without_segments_opens_its_first_segment(files: LogFiles) -> None:
    recovered = files.recover()
    assert recovered == Recovered("empty", (0, HEADER), HEADER)
    assert oracle.read_header(files.get(0)).opened is not None
    assert files.values() == []


def test_log_that_lost_its_segments_continues_after_them(
    files: LogFiles, caplog: pytest.LogCaptureFixture
) -> None:
    recovered = files.recover(checkpoint=files.checkpoint(2 * SIZE + 5000))
    assert (recovered.case, recovered.tail) == ("empty", (3, HEADER))
    assert "missing" in caplog.text


def test_clean_log_opens_at_its_end_unchanged(files: LogFiles) -> None:
    files.full(0, numbered(10))
    files.create(1, opened=True)
    end = files.records(1, numbered(5, 10))
    files.create(2)
    before = files.snapshot()
    recovered = files.recover(checkpoint=files.checkpoint(SIZE + end, clean=True))
    assert recovered == Recovered("clean", (1, end), SIZE + end)
    after = files.snapshot()
    after.pop("checkpoint")
    assert after == before


@pytest.mark.parametrize("position", [SIZE, SIZE + HEADER])
@pytest.mark.parametrize("ahead", [False, True])
def test_clean_log_full_to_the_segment_end_recovers_there(
    files: LogFiles, position: int, ahead: bool
) -> None:
    files.full(0, numbered(10))
    if ahead:
        files.create(1)
    recovered = files.recover(checkpoint=files.checkpoint(position, clean=True))
    assert (recovered.case, recovered.tail, recovered.end) == ("clean", (0, SIZE), SIZE)


def test_clean_log_opens_in_the_segment_of_a_finished_roll(files: LogFiles) -> None:
    files.full(0, numbered(10))
    files.create(1, opened=True)
    assert files.recover(checkpoint=files.checkpoint(SIZE, clean=True)).tail == (1, HEADER)


def test_clean_log_of_1000_segments_opens_touching_at_most_5(
    files: LogFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(1000):
        with files.file(number).open("wb") as file:
            file.truncate(SIZE)
    files.full(998, numbered(3))
    files.create(999, opened=True)
    end = files.records(999, numbered(3))
    touched: list[str] = []
    opens: list[int] = []
    watching = True
    sys.addaudithook(
        lambda event, args: touched.append(str(args[0])) if watching and event == "open" else None
    )
    original = Segment.open
    monkeypatch.setattr(
        location.LogDirectory,
        "open_segment",
        lambda self, number, writable: (
            opens.append(number) or original(self.fd, self.path, number, SIZE, UUID, writable)
        ),
    )
    recovered = files.recover(checkpoint=files.checkpoint(999 * SIZE + end, clean=True))
    watching = False
    assert (recovered.case, recovered.tail) == ("clean", (999, end))
    assert len([name for name in touched if name.endswith(".seg")]) + len(opens) <= 5, (
        touched,
        opens,
    )


def test_clean_mark_contradicting_the_next_cell_is_ignored(files: LogFiles) -> None:
    files.create(0)
    middle = files.records(0, numbered(5))
    end = files.records(0, numbered(5, 5), middle)
    recovered = files.recover(checkpoint=files.checkpoint(middle, clean=True))
    assert (recovered.case, recovered.tail, recovered.cut_range) == ("cut", (0, end), None)
    assert files.values() == numbered(10)


def test_clean_mark_contradicting_a_later_segment_is_ignored(files: LogFiles) -> None:
    files.create(0)
    end = files.records(0, numbered(5))
    files.create(1)
    files.record(1, HEADER, b"stale")
    recovered = files.recover(checkpoint=files.checkpoint(end, clean=True))
    assert (recovered.case, recovered.tail, recovered.cut_range) == (
        "cut",
        (0, end),
        (end, 2 * SIZE),
    )
    assert files.numbers() == [0]


def test_missing_last_segments_leave_other_files_unchanged(
    files: LogFiles, caplog: pytest.LogCaptureFixture
) -> None:
    files.full(0, numbered(10))
    files.create(1, opened=True)
    end = files.records(1, numbered(5, 10))
    before = files.snapshot()
    recovered = files.recover(checkpoint=files.checkpoint(5 * SIZE + 9000, clean=True))
    assert (recovered.case, recovered.tail) == ("cut", (1, end))
    assert recovered.cut_range is None
    after = files.snapshot()
    after.pop("checkpoint")
    assert after == before
    assert "do not reach it" in caplog.text


def test_damage_before_missing_segments_ends_log_at_segment_end(
    files: LogFiles,
) -> None:
    files.create(0)
    end = files.records(0, numbered(50))
    files.flip(0, end - 8)
    before = files.get(0)
    assert files.recover(checkpoint=files.checkpoint(3 * SIZE)).tail == (0, SIZE)
    assert files.get(0) == before
