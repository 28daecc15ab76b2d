"""The offsets of streams, and where a stream continues in a log that has changed."""

from __future__ import annotations

import pytest

from commitlog.spark.stream_offset import (
    Extent,
    LogPosition,
    advanced,
    ended,
    offset_of,
    places_of,
    resumed,
)

LOG = Extent("new", first=100, end=500, tail=600)


def test_offset_is_kafkas_json_with_the_uuid() -> None:
    places = {"b": LogPosition(7, "u"), "a": LogPosition(5, None)}
    assert offset_of(places) == {"a": {"0": 5}, "b": {"0": 7, "uuid": "u"}}
    assert list(offset_of(places)) == ["a", "b"]
    assert places_of(offset_of(places)) == places
    assert places_of(None) == {}


@pytest.mark.parametrize(
    ("place", "start", "why"),
    [
        (None, 100, None),
        (LogPosition(300, "new"), 300, None),
        (LogPosition(300, None), 300, None),  # of an older release
        (LogPosition(550, "new"), 550, None),  # appended, and not yet readable
        (LogPosition(601, "new"), 500, "lost its end"),
        (LogPosition(601, None), 500, "lost its end"),
        (LogPosition(99, "new"), 100, "retention deleted"),
        (LogPosition(99, None), 100, "retention deleted"),
        (LogPosition(300, "old"), 100, "deleted and created again"),
        (LogPosition(0, "old"), 100, "deleted and created again"),
        (LogPosition(10**6, "old"), 100, "deleted and created again"),
    ],
)
def test_stream_resumes_or_says_what_it_lost(
    place: LogPosition | None, start: int, why: str | None
) -> None:
    found, loss = resumed(place, LOG)
    assert found == start
    assert (loss is None) == (why is None)
    assert loss is None or str(why) in loss.why


def test_batch_planned_for_another_log_reads_nothing() -> None:
    assert ended(LogPosition(400, "new"), LOG) == (400, None)
    assert ended(LogPosition(400, None), LOG) == (400, None)
    stop, loss = ended(LogPosition(400, "old"), LOG)
    assert (stop, loss is not None) == (LOG.first, True)
    stop, loss = ended(LogPosition(700, "new"), LOG)
    assert (stop, loss is not None) == (LOG.end, True)


def test_next_offset_goes_back_only_in_another_log() -> None:
    end = LogPosition(500, "new")
    assert advanced(None, end, 600) == end
    assert advanced(LogPosition(400, None), end, 600) == end
    assert advanced(LogPosition(550, "new"), end, 600) == LogPosition(550, "new")
    assert advanced(LogPosition(550, "old"), end, 600) == end
    assert advanced(LogPosition(700, "new"), end, 600) == end
