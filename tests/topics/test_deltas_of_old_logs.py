"""Deltas, which releases before 1.0.0 appended: each is an error, and all else in their log is
read.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import commitlog
from commitlog import keep, topics
from commitlog.errors import InvalidOptionError, UndecodableError
from commitlog.topics.decoding import MessageDecoder
from commitlog.topics.key_ring import VARIABLE
from tests.tools.cli.program import run
from tests.topics.golden import (
    DELTA,
    DELTAS,
    RING,
    SALES,
    WHOLE,
    Sale,
    State,
    log_with_deltas,
)

pytest.importorskip("zstandard")
pytest.importorskip("cryptography")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return log_with_deltas(tmp_path)


def states_of(log: Any, name: str = "states", **options: Any) -> topics.Topic[State]:
    return commitlog.topic(
        log, State, name=name, keys=RING if name == "sealed" else None, **options
    )


def test_other_messages_are_read(path: Path) -> None:
    with commitlog.open(path) as log:
        sales = commitlog.topic(log, Sale, name="sales")
        assert [sale.item for sale in sales.tailer()] == SALES
        with states_of(log).tailer(on_undecodable="skip") as tailer:
            assert [(state.id, state.revision) for state in tailer] == WHOLE
            assert tailer.undecodable == DELTAS


@pytest.mark.parametrize(("name", "position"), [("states", DELTA), ("sealed", 5656)])
@pytest.mark.parametrize("mode", ["a", "r"])
def test_delta_is_an_error_with_its_topic_and_position(
    path: Path, mode: Any, name: str, position: int
) -> None:
    with states_of(path, name, mode=mode) as topic, topic.tailer() as tailer:
        assert next(iter(tailer)).revision == 0
        for _ in range(2):
            with pytest.raises(UndecodableError, match="a delta .* this release .* new log") as it:
                tailer.read()
            assert (it.value.topic, it.value.position) == (name, position)
        assert tailer.position == position


def test_deltas_are_given_raw_on_request(path: Path) -> None:
    with states_of(path, mode="r") as topic:
        found = list(topic.tailer(on_undecodable="raw"))
    assert sum(isinstance(each, commitlog.Record) for each in found) == DELTAS
    assert len(found) == DELTAS + len(WHOLE)


def test_archives_and_segments_alone_are_read_alike(path: Path, tmp_path: Path) -> None:
    segments = sorted(path.glob("*.seg"))
    for place, expected in ((segments[0], WHOLE[:2]), (segments[1], WHOLE[2:])):
        with states_of(place, mode="r") as topic:
            tailer = topic.tailer(on_undecodable="skip")
            assert [(state.id, state.revision) for state in tailer] == expected
    with commitlog.open(path) as log:
        log.roll()  # the last sealed segment is not archived
    keep.archive_segments(str(path), commitlog.Store(tmp_path / "archive"))
    with states_of(tmp_path / "archive", mode="r") as topic:
        tailer = topic.tailer(on_undecodable="skip")
        assert [(state.id, state.revision) for state in tailer] == WHOLE[:2]


def test_topic_continues_without_deltas(path: Path) -> None:
    with states_of(path, compress="zstd") as topic:
        for revision in range(3):
            topic.append(State("c", "x" * 100, revision), key=b"c")
        found = [state.revision for state in topic.tailer(on_undecodable="skip")]
        assert found[-3:] == [0, 1, 2]
        assert [each.revision for each in topic.tailer(on_undecodable="skip")][:4] == [0, 0, 6, 6]


def test_tables_and_decoders_refuse_deltas(path: Path) -> None:
    with commitlog.open(path, "r") as log:
        with pytest.raises(UndecodableError, match="a delta of an earlier message") as caught:
            topics.to_arrow(log, topics=["states"])
        assert caught.value.position == DELTA
        decoder = MessageDecoder(log, keys=RING)
        record = log.read(DELTA)
        with pytest.raises(UndecodableError, match="a delta of an earlier message"):
            decoder.decode(record.type, record.value, DELTA, record.key)


def test_commands_show_deltas_as_undecodable(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "golden:Z29sZGVuIGtleSBvZiAzMiBieXRlcyBmb3IgdGVzdHM=")
    lines = run("cat", path, "--decode", "--topic", "states", "--json")
    assert lines.returncode != 0
    assert b"a delta of an earlier message" in lines.stderr
    listed = run("topics", path, "--json")
    layers = {
        topic["name"]: topic["versions"][0]["layers"]
        for topic in json.loads(listed.stdout)["topics"]
    }
    assert layers["states"] == ["zstd-delta"]
    assert b"authentic: 10" in run("verify", path).stdout


def test_option_delta_is_refused_as_unknown() -> None:
    with pytest.raises(InvalidOptionError, match="delta"):
        topics.Zstd(delta=True)  # type: ignore[call-arg]
