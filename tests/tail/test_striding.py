"""Striding: reading only the indexed records."""

from __future__ import annotations

import itertools

from tests.setups import Logs, Setup


def test_striding_gives_every_spacing_th_record_of_each_segment(logs: Logs, setup: Setup) -> None:
    log = logs.open_as(setup, index_spacing=16)
    log.append_many([b"%d" % index for index in range(6000)])
    records = list(log.tailer(visibility="appended"))
    per_segment = [
        list(group) for _, group in itertools.groupby(records, lambda record: record.position >> 16)
    ]
    assert len(per_segment) > 2
    expected = [record for segment in per_segment for record in segment[::16]]
    assert list(log.tailer(visibility="appended").striding()) == expected
    assert (
        list(log.tailer(visibility="appended", direction="backward").striding()) == expected[::-1]
    )


def test_striding_starts_at_and_advances_the_tailer(logs: Logs) -> None:
    log = logs.open(index_spacing=16)
    positions = log.append_many([b"%d" % index for index in range(100)])
    tailer = log.tailer(start=int(positions[17]))
    assert [record.value for record in itertools.islice(tailer.striding(), 2)] == [b"32", b"48"]
    assert tailer.read().value == b"49"  # type: ignore[union-attr]
    tailer.direction = "backward"
    assert [record.value for record in itertools.islice(tailer.striding(), 2)] == [b"48", b"32"]
    assert tailer.read().value == b"31"  # type: ignore[union-attr]


def test_striding_respects_visibility(logs: Logs) -> None:
    log = logs.open(
        pool=logs.pool(),
        commit_interval=60,
        commit_thorough_interval=60,
        flush="none",
        index_spacing=16,
    )
    log.append_many([b"%d" % index for index in range(40)])
    log.commit()
    log.append_many([b"%d" % index for index in range(40, 80)])
    assert len(list(log.tailer(visibility="appended").striding())) == 5
    tailer = log.tailer()
    assert len(list(tailer.striding())) == 3
    assert tailer.read().value == b"33"  # type: ignore[union-attr]
    assert [
        record.value
        for record in log.tailer(start=log.tail_position, direction="backward").striding()
    ] == [b"32", b"16", b"0"]


def test_striding_an_empty_log_returns_no_record(logs: Logs) -> None:
    log = logs.open()
    assert list(log.tailer().striding()) == []
    assert list(log.tailer(direction="backward").striding()) == []
