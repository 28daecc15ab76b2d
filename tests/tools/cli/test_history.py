"""`commitlog history`: how long messages waited and were handled, by hop and by source."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import commitlog
from commitlog import CommitLog
from commitlog.topics.history import FORMAT, HEAD, HOP, MOST_HOPS
from commitlog.topics.history_report import MOST_PROBLEMS, MOST_SOURCES
from tests.tools.cli.program import run
from tests.topics.orders import Order, Refund

SOURCES = [uuid.UUID(int=number) for number in range(1, MOST_SOURCES + 4)]
START = 1_700_000_000 * 10**9


@pytest.fixture
def log(tmp_path: Path) -> Iterator[CommitLog]:
    with commitlog.open(tmp_path / "log") as opened:
        yield opened


def type_with_history(log: CommitLog) -> int:
    """Append one message without and one with a history; return the type of the latter."""
    refunds = commitlog.topic(log, Refund)
    refunds.append(Refund(1))
    with refunds.tailer() as tailer, tailer.reading():
        refunds.append(Refund(2))
    return log.read(log.last_position or 0).type


def value(*hops: tuple[uuid.UUID, int, int], earlier: int = 0, version: int = FORMAT) -> bytes:
    """Return a message whose hops waited and were handled for so many nanoseconds."""
    now, packed = START, b""
    for source, waited, handled in hops:
        packed += HOP.pack(source.bytes, 64, now, now + waited)
        now += waited + handled
    return HEAD.pack(version, len(hops), earlier, 0, now) + packed + b'{"order":1}'


def printed(log: CommitLog, *arguments: Any, status: int = 0) -> dict[str, Any]:
    log.flush()
    done = run("history", "--json", *arguments, log.path)
    assert done.returncode == status, done.stderr
    content: dict[str, Any] = json.loads(done.stdout)
    return content


def stages(content: dict[str, Any]) -> dict[tuple[Any, ...], dict[str, Any]]:
    return {
        (each["kind"], each["hop"] or each["source"], each["step"]): each
        for each in content["stages"]
    }


def test_percentiles_are_those_of_each_hop_and_source(log: CommitLog) -> None:
    number = type_with_history(log)
    first, second = SOURCES[:2]
    start = log.append(b"not a message")
    for each in range(1, 1001):
        log.append(value((first, each * 1000, 500), (second, 70, each)), type=number)
    content = printed(log, "--from", start)
    counts = ("records", "messages", "histories", "shortened", "most_hops")
    assert [content[name] for name in counts] == [1001, 1000, 1000, 0, 2]
    found = stages(content)
    assert list(found)[:4] == [("hop", hop, step) for hop in (1, 2) for step in STEPS]
    for row in (found["hop", 1, "waited"], found["source", str(first), "waited"]):
        assert (row["count"], row["negative"], row["max_ns"]) == (1000, 0, 1_000_000)
        for name, exact in (("p50", 500), ("p90", 900), ("p99", 990), ("p999", 999)):
            assert row[f"{name}_ns"] == pytest.approx(exact * 1000, rel=0.01)
    assert found["hop", 2, "waited"]["p50_ns"] == 70
    assert found["source", str(second), "handled"]["max_ns"] == 1000
    assert found["way", None, "total"]["max_ns"] == 1_000_000 + 500 + 70 + 1000


STEPS = ("waited", "handled")


def test_archive_and_segment_files_have_histories(log: CommitLog, tmp_path: Path) -> None:
    for _ in range(3):  # the last sealed segment is not archived
        type_with_history(log)
        log.roll()
    log.close()
    done = run("archive", log.path, tmp_path / "archive")
    assert done.returncode == 0, done.stderr
    segment = min(Path(log.path).glob("*.seg"))
    for place, count in ((tmp_path / "archive", 2), (segment, 1)):
        done = run("history", "--json", place)
        assert (done.returncode, json.loads(done.stdout)["histories"]) == (0, count), place


def test_compressed_messages_have_histories(log: CommitLog) -> None:
    refunds = commitlog.topic(log, Refund, compress="zstd")
    refunds.append(Refund(1))
    with refunds.tailer() as tailer, tailer.reading():
        refunds.append_many([Refund(2), Refund(3)])
    content = printed(log)
    assert (content["messages"], content["histories"]) == (3, 2)


def test_damage_ends_the_report_or_is_skipped(log: CommitLog) -> None:
    type_with_history(log)
    type_with_history(log)
    position = [record.position for record in log.tailer()][3]
    log.close()
    (segment,) = Path(log.path).glob("*.seg")
    with segment.open("r+b") as file:
        file.seek(position + 40)
        file.write(b"\xff")
    done = run("history", log.path)
    assert done.returncode == 1
    assert f"position {position})" in done.stderr.decode()
    done = run("history", "--on-damage", "skip", "--json", log.path)
    assert (done.returncode, json.loads(done.stdout)["histories"]) == (1, 1)
    assert b"damage: skipped position" in done.stderr


def test_negative_durations_are_counted_apart(log: CommitLog) -> None:
    number = type_with_history(log)
    start = log.append(value((SOURCES[0], -30, 500)), type=number)
    log.append(value((SOURCES[0], -70, 500)), type=number)
    row = stages(printed(log, "--from", start))["hop", 1, "waited"]
    assert (row["count"], row["negative"], row["least_ns"]) == (2, 2, -70)
    assert (row["p50_ns"], row["max_ns"]) == (None, None)
    log.append(value((SOURCES[0], 40, 500)), type=number)
    row = stages(printed(log, "--from", start))["hop", 1, "waited"]
    assert (row["count"], row["negative"], row["p50_ns"]) == (3, 2, 40)


def test_out_of_range_times_are_clamped(log: CommitLog) -> None:
    number = type_with_history(log)
    late, early = (1 << 63) - 1, -(1 << 63)
    hop = HOP.pack(SOURCES[0].bytes, 64, early, late)
    start = log.append(HEAD.pack(FORMAT, 1, 0, 0, early) + hop, type=number)
    found = stages(printed(log, "--from", start))
    assert found["hop", 1, "waited"]["max_ns"] == 1 << 62
    assert found["hop", 1, "handled"]["least_ns"] == -(1 << 62)
    assert run("history", "--chart", log.path).returncode == 0


def test_excess_sources_and_hops_share_a_row(log: CommitLog) -> None:
    number = type_with_history(log)
    start = log.append(
        value(*((SOURCES[0], 10, 10) for _ in range(MOST_HOPS)), earlier=5), type=number
    )
    for source in SOURCES[1:]:
        log.append(value((source, 10, 10)), type=number)
    content = printed(log, "--from", start)
    found = stages(content)
    assert (content["shortened"], content["most_hops"]) == (1, MOST_HOPS + 5)
    assert found["hop", None, "waited"]["count"] == 5
    assert found["source", None, "waited"]["count"] == len(SOURCES) - MOST_SOURCES
    assert len({source for kind, source, _ in found if kind == "source"}) == MOST_SOURCES + 1
    assert found["way", None, "total"]["count"] == len(SOURCES) - 1
    text = run("history", "--from", start, log.path).stdout.decode()
    assert "later hops" in text
    assert "other sources" in text


def test_times_and_topics_choose_messages(log: CommitLog) -> None:
    type_with_history(log)
    orders = commitlog.topic(log, Order)
    with commitlog.topic(log, Refund).tailer() as tailer, tailer.reading():
        orders.append(Order(1))
    assert printed(log)["histories"] == 2
    assert printed(log, "--topic", "Order")["histories"] == 1
    assert printed(log, "--to", log.last_position)["histories"] == 1
    assert printed(log, "--until", "2000-01-01")["histories"] == 0
    done = run("history", "--topic", "Nothing", log.path)
    assert (done.returncode, done.stderr.count(b"\n")) == (1, 1)
    assert b"no topic 'Nothing'" in done.stderr


def test_table_has_a_bar_for_each_row(log: CommitLog) -> None:
    number = type_with_history(log)
    start = log.append(value((SOURCES[0], 1000, 10**9)), type=number)
    plain = run("history", "--from", start, log.path).stdout.decode().splitlines()
    assert plain[0].endswith("1 record, 1 message, 1 with a history")
    assert plain[2].split()[:4] == ["stage", "step", "count", "negative"]
    assert plain[4].split()[:6] == ["hop", "1", "waited", "1", "0", "1.00"]
    drawn = run("history", "--chart", "--from", start, log.path).stdout.decode().splitlines()
    bars = [line[len(before) :] for line, before in zip(drawn[4:9], plain[4:9], strict=True)]
    assert all(bar.strip() for bar in bars)
    begins = [len(bar) - len(bar.lstrip()) for bar in bars]
    assert begins[0] < begins[1]  # one microsecond is left of a second


def test_log_without_histories_explains_how_to_get_one(log: CommitLog) -> None:
    commitlog.topic(log, Refund).append(Refund(1))
    log.flush()
    done = run("history", log.path)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"No message has a history. A message gets one if it is written while" in done.stdout


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda whole: b"", "history is damaged"),
        (lambda whole: whole[:30], "history is damaged"),
        (lambda whole: whole[:1] + b"\0" + whole[2:], "history is damaged"),
        (lambda whole: whole[:1] + b"\xff" + whole[2:], "history is damaged"),
        (
            lambda whole: b"\2" + whole[1:],
            "history has version 2, and this release reads versions up to 1",
        ),
    ],
    ids=["empty", "short", "no hop", "too many hops", "newer"],
)
def test_bad_histories_are_reported_in_one_line(
    log: CommitLog, change: Callable[[bytes], bytes], said: str
) -> None:
    number = type_with_history(log)
    whole = value((SOURCES[0], 10, 10))
    position = log.append(change(whole), type=number)
    log.append(change(whole), type=number)
    log.flush()
    done = run("history", log.path)
    assert (done.returncode, done.stderr.count(b"\n")) == (1, 1)
    assert f"2 messages, the first one at position {position}: its {said}" in done.stderr.decode()
    assert "1 with a history" in done.stdout.decode()


def test_excess_problems_are_counted_in_a_last_line(log: CommitLog) -> None:
    number = type_with_history(log)
    for version in range(2, MOST_PROBLEMS + 5):
        log.append(value((SOURCES[0], 10, 10), version=version), type=number)
    problems = printed(log, status=1)["problems"]
    assert len(problems) == MOST_PROBLEMS + 1
    assert problems[-1]["messages"] == 3


def test_messages_without_a_schema_are_reported(log: CommitLog) -> None:
    log.append(b"?", type=0xC123_4567)
    log.flush()
    done = run("history", log.path)
    assert (done.returncode, done.stderr.count(b"\n")) == (1, 1)
    assert b"no schema of its type number" in done.stderr
