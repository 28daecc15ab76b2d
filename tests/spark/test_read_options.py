"""The options of the source: accepted and refused values."""

from __future__ import annotations

import pytest

from commitlog.errors import InvalidOptionError
from commitlog.spark.read_options import Bound, ReadOptions


def _parse(*, stream: bool = False, **options: str) -> ReadOptions:
    return ReadOptions.parse(
        {"path": "/logs", **{name.replace("_", "."): value for name, value in options.items()}},
        stream=stream,
    )


def test_defaults_match_kafka() -> None:
    batch, stream = _parse(), _parse(stream=True)
    assert (batch.start, batch.end) == (Bound(edge="earliest"), Bound(edge="latest"))
    assert stream.start == Bound(edge="latest")
    assert (batch.fail_on_data_loss, batch.visibility, batch.on_damage) == (True, "flushed", "fail")


def test_option_names_and_values_ignore_case() -> None:
    assert _parse(STARTINGoffsets="Latest", failondataloss="FALSE").start == Bound(edge="latest")


def test_time_for_all_overrides_times_per_log_and_offsets() -> None:
    offsets, times = '{"a": {"0": -2}}', '{"a": {"0": 7}}'
    everything = {
        "startingOffsets": offsets,
        "startingOffsetsByTimestamp": times,
        "startingTimestamp": "5",
    }
    assert _parse(**everything).start == Bound(time_ns=5_000_000)
    del everything["startingTimestamp"]
    assert _parse(**everything).start == Bound(times_ns={"a": 7_000_000})
    del everything["startingOffsetsByTimestamp"]
    assert _parse(**everything).start == Bound(positions={"a": "earliest"})


@pytest.mark.parametrize(
    ("text", "seconds"), [("15m", 900), ("30s", 30), ("500ms", 0.5), ("2 min", 120)]
)
def test_max_trigger_delay_accepts_kafka_durations(text: str, seconds: float) -> None:
    assert _parse(stream=True, maxTriggerDelay=text).max_trigger_delay_s == seconds


@pytest.mark.parametrize(("text", "size"), [("1000", 1000), ("64MiB", 64 << 20)])
def test_max_bytes_per_trigger_accepts_bytes_and_units(text: str, size: int) -> None:
    assert _parse(stream=True, maxBytesPerTrigger=text).max_bytes == size


def test_paths_option_is_parsed_as_json() -> None:
    assert ReadOptions.parse({"paths": '["/a", "/b/"]'}, stream=False).paths == ("/a", "/b")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("kafka.bootstrap.servers", "kafka.bootstrap.servers is not supported: there is no broker"),
        ("kafka.group.id", "is not supported: there are no groups of readers"),
        ("assign", "is not supported: a log has one partition"),
        ("includeHeaders", "includeHeaders must be true or false"),
        ("maxRecordsPerPartition", "is not supported: .*minPartitions"),
        ("startingOfsets", "is not an option of this source: choose among path, paths, subscribe"),
        ("maxOffsetsPerTrigger", "maxOffsetsPerTrigger is an option of streams only"),
    ],
)
def test_unsupported_kafka_option_raises_with_the_reason(name: str, says: str) -> None:
    with pytest.raises(InvalidOptionError, match=says):
        ReadOptions.parse({"path": "/logs", name: "1"}, stream=False)


@pytest.mark.parametrize("stream", [False, True])
def test_include_headers_is_a_switch(stream: bool) -> None:
    assert not _parse(stream=stream, includeHeaders="False").include_headers
    assert _parse(stream=stream, includeHeaders="true").include_headers


def test_ending_offsets_of_a_stream_raise() -> None:
    with pytest.raises(InvalidOptionError, match="endingOffsets is an option of batch reads only"):
        _parse(stream=True, endingOffsets="latest")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("startingOffsets", "first"),
        ("startingOffsets", "{"),
        ("startingOffsets", "[1]"),
        ("startingOffsets", '{"a": {"1": 5}}'),
        ("startingOffsets", '{"a": {"0": "5"}}'),
        ("startingOffsets", '{"a": {"0": -3}}'),
        ("startingOffsets", '{"a": {"0": 9223372036854775808}}'),
        ("endingOffsets", "earliest"),
        ("endingOffsets", '{"a": {"0": -2}}'),
        ("startingTimestamp", "yesterday"),
        ("startingTimestamp", "-1"),
        ("startingOffsetsByTimestamp", '{"a": {"0": -1}}'),
        ("startingOffsetsByTimestampStrategy", "earliest"),
        ("minPartitions", "0"),
        ("minPartitions", "1.5"),
        ("failOnDataLoss", "yes"),
        ("visibility", "appended"),
        ("onDamage", "ignore"),
        ("subscribe", " , "),
        ("subscribe", "../other"),
        ("subscribePattern", "("),
    ],
)
def test_wrong_batch_option_value_names_accepted_values(name: str, value: str) -> None:
    with pytest.raises(InvalidOptionError, match=f"^{name} must be "):
        _parse(**{name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [("maxTriggerDelay", "soon"), ("maxBytesPerTrigger", "0"), ("maxOffsetsPerTrigger", "-5")],
)
def test_wrong_stream_option_value_names_accepted_values(name: str, value: str) -> None:
    with pytest.raises(InvalidOptionError, match=f"^{name} must be "):
        _parse(stream=True, **{name: value})


def test_missing_path_option_raises() -> None:
    with pytest.raises(InvalidOptionError, match="path is missing"):
        ReadOptions.parse({}, stream=False)


def test_subscribe_with_subscribe_pattern_raises() -> None:
    with pytest.raises(InvalidOptionError, match="subscribe and subscribePattern are both given"):
        _parse(subscribe="a", subscribePattern="a.*")
