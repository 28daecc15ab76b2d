"""Deltas in each reader, and what damage, foreign copies and hostile records do to them."""

from __future__ import annotations

import json
import zlib
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
import pytest

import commitlog
from commitlog import keep, topics
from commitlog.errors import KeyUnavailableError, UndecodableError
from commitlog.messages.decoding import MessageDecoder
from commitlog.messages.delta_decoder import key_of as repeated_key
from commitlog.messages.key_frame import WHOLE, Delta, KeyFrame
from commitlog.messages.key_ring import VARIABLE
from commitlog.messages.schema import SCHEMA_TYPE, Schema
from tests.cli.program import run as run_command
from tests.copies import copy_log
from tests.messages.sealed import NEW, OLD, RING
from tests.messages.states import (
    DELTA,
    SEGMENT,
    State,
    States,
    append,
    deltas,
    key_of,
    messages,
    read,
    read_alone,
)

pytest.importorskip("zstandard")
pytest.importorskip("cryptography")


@pytest.fixture
def states() -> list[State]:
    return States(10).some(3000)


@pytest.fixture
def path(tmp_path: Path, states: list[State]) -> Path:
    """A log of several segments."""
    path = tmp_path / "log"
    with commitlog.topic(path, State, compress=DELTA, segment_size=SEGMENT) as topic:
        append(topic, states)
    return path


# --- readers --------------------------------------------------------------------------------------


def test_tailer_reads_from_any_position(path: Path, states: list[State]) -> None:
    with commitlog.topic(path, State, mode="r") as topic:
        records = messages(topic.log)
        for number in (0, 7, 1700, 2999):
            with topic.tailer(start=records[number].position) as tailer:
                assert list(tailer) == states[number:]
        with topic.tailer() as tailer:
            assert tailer.seek(key=key_of(states[5]))
            assert tailer.read() == next(each for each in states if each.id == states[5].id)


def test_records_are_decoded_backward_and_without_the_class(
    path: Path, states: list[State]
) -> None:
    found = run_command("tail", "--decode", "--json", "-n", "9", str(path)).stdout.splitlines()
    expected = msgspec.to_builtins(states)
    assert [json.loads(line)["message"] for line in found] == expected[-9:]
    with commitlog.open(path, "r") as log:
        table = topics.to_arrow(log, start=messages(log)[900].position)
    assert [each["State"] for each in table["message"].to_pylist()] == expected[900:]


def test_key_frame_of_before_a_truncation_is_read_again(path: Path, states: list[State]) -> None:
    """A reader has decoded a message; another one is then at its position."""
    with commitlog.open(path, "r") as log:
        records = messages(log)
        at, delta = next(
            (row, each) for row, each in enumerate(records) if not each.value.startswith(WHOLE)
        )
        position = Delta(delta.value).position
        former = next(
            each for each in records[at:] if each.value.startswith(WHOLE) and each.key != delta.key
        )
        decoder = MessageDecoder(log)
        decoder.decode(former.type, former.value, position, former.key)
        found = decoder.decode(delta.type, delta.value, delta.position, delta.key)
    assert found is not None
    assert found.message == msgspec.to_builtins(states[at])


def test_named_tailer_goes_on_at_a_delta(path: Path, states: list[State]) -> None:
    for first in (0, 1):
        with commitlog.topic(path, State) as topic, topic.tailer("billing") as tailer:
            assert tailer.read() == states[first]


def test_archive_prune_and_copies_are_read(path: Path, states: list[State], tmp_path: Path) -> None:
    copy_log(path, tmp_path / "copy")
    keep.archive_segments(str(path), commitlog.Store(tmp_path / "archive"))
    rest = read(path)  # the archived segments are deleted
    assert 0 < len(rest) < len(states)
    assert rest == states[-len(rest) :]
    archived = read(tmp_path / "archive")
    assert archived == states[: len(archived)]
    assert len(archived) + len(rest) == len(states)
    assert read(tmp_path / "copy") == states


def test_follower_and_reader_of_another_machine_decode(
    path: Path, states: list[State], tmp_path: Path
) -> None:
    from commitlog import replication

    with commitlog.open(path) as log, replication.serve(path) as server:
        with commitlog.topic(server.url(), State, mode="r") as far:
            start = deltas(log)[-200].position
            count = sum(record.position >= start for record in messages(log))
            assert list(far.tailer(start=start)) == states[-count:]
        copy = tmp_path / "copy"
        with replication.follow(server.url(), copy):
            log.flush()
            server.wait_replicated(log.last_position or 0, copies=1, timeout=60)
        assert read(copy) == states


def test_topics_shows_how_many_times_smaller_messages_are(path: Path, states: list[State]) -> None:
    shown = run_command("topics", str(path)).stdout.decode().splitlines()[1]
    assert shown.startswith("State: json, compressed with deltas 1")
    (listed,) = json.loads(run_command("topics", "--json", str(path)).stdout)["topics"]
    for version in listed["versions"]:  # without a dictionary, and with one
        assert version["layers"] == ["zstd-delta"]
        assert version["plain_bytes"] > 5 * version["value_bytes"]
    sizes = (len(msgspec.json.encode(state)) for state in states)
    assert sum(version["plain_bytes"] for version in listed["versions"]) == sum(sizes)


# --- sealed ---------------------------------------------------------------------------------------


@pytest.fixture
def sealed(tmp_path: Path, states: list[State]) -> Path:
    path = tmp_path / "sealed"
    options: Any = {"compress": DELTA, "keys": RING, "segment_size": SEGMENT}
    with commitlog.topic(path, State, **options) as topic:
        append(topic, states)
    return path


def test_sealed_deltas_are_read_with_keys_alone(
    sealed: Path, states: list[State], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert read(sealed, keys=RING) == states
    with commitlog.open(sealed, "r") as log:
        assert max(len(record.value) for record in messages(log)[-9:]) < 36 + 80
    with commitlog.topic(sealed, State, mode="r") as topic, pytest.raises(KeyUnavailableError):
        topic.tailer().read()
    monkeypatch.setenv(VARIABLE, f"{NEW}\n{OLD}")
    assert list(chain(*read_alone(sealed))) == states
    done = run_command("verify", str(sealed))
    assert done.returncode == 0
    assert b"sealed messages that are authentic: 3000" in done.stdout


def test_sealed_delta_in_another_segment_brings_its_key_frame(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, states = tmp_path / "log", States(1).some(3)
    options: Any = {"compress": DELTA, "keys": RING, "segment_size": SEGMENT}
    delta = KeyFrame.delta
    with commitlog.topic(path, State, **options) as topic:
        append(topic, states[:2])

        def rolled(self: KeyFrame, content: bytes) -> bytes:
            topic.log.roll()
            return delta(self, content)

        monkeypatch.setattr(KeyFrame, "delta", rolled)
        append(topic, states[2:])
    monkeypatch.setenv(VARIABLE, OLD)
    assert list(read_alone(path)) == [states[:2], states[2:]]


# --- damage ---------------------------------------------------------------------------------------


def first_delta(log: commitlog.CommitLog) -> tuple[commitlog.Record, int]:
    """Return a delta and the position of its key frame."""
    record = deltas(log)[-1]
    return record, Delta(record.value).position


def flip(path: Path, position: int) -> None:
    """Change a byte of the record at a position."""
    size = 64 << 10
    file = path / f"{position - position % size:020d}.seg"
    content = bytearray(file.read_bytes())
    content[position % size + 30] ^= 1
    file.write_bytes(content)


def test_damaged_key_frame_is_named(path: Path, states: list[State]) -> None:
    with commitlog.topic(path, State, mode="r") as topic:
        record, at = first_delta(topic.log)
        lost = [each for each in deltas(topic.log) if Delta(each.value).position == at]
    flip(path, at)
    with commitlog.topic(path, State, mode="r") as topic:
        with pytest.raises(
            UndecodableError, match=f"topic 'State' .*message at position {at}, which is damaged"
        ) as caught:
            topic.tailer(start=record.position).read()
        assert (caught.value.position, caught.value.topic) == (record.position, "State")
        skipping = topic.tailer(on_damage="skip", on_undecodable="skip")
        assert len(list(skipping)) == len(states) - len(lost) - 1
        assert skipping.undecodable == len(lost)
        raw = topic.tailer(start=record.position, on_undecodable="raw").read()
        assert isinstance(raw, commitlog.Record)
    done = run_command("cat", "--decode", "--json", "--on-damage", "skip", str(path))
    assert done.returncode == 1
    assert f"which is damaged: restore the log from a copy: position {record.position}" in (
        done.stderr.decode()
    )


def test_flipped_bits_of_deltas_never_make_another_message(path: Path, states: list[State]) -> None:
    with commitlog.topic(path, State) as topic:
        record, _ = first_delta(topic.log)
        number = len(messages(topic.log))
        changed = 0
        for bit in range(len(record.value) * 8):
            value = bytearray(record.value)
            value[bit // 8] ^= 1 << bit % 8
            topic.log.append(bytes(value), key=record.key, type=record.type)
        tailer = topic.tailer(on_undecodable="skip")
        changed = len(list(tailer)) - number
        assert changed + tailer.undecodable == len(record.value) * 8
        assert tailer.undecodable > len(record.value) * 4


def test_records_copied_to_another_log_are_undecodable(path: Path, tmp_path: Path) -> None:
    """A delta names a position, so it is never taken for one of another message."""
    with commitlog.open(path, "r") as log:
        records = list(log.tailer())[:400]
    options: Any = {"segment_size": SEGMENT}
    for name, skipped in (("all", 0), ("fewer", 1), ("more", -1)):
        with commitlog.open(tmp_path / name, **options) as other:
            if skipped < 0:
                other.append(b"more")
            for number, record in enumerate(records):
                if number < 3 or number % 7 or skipped <= 0:
                    other.append(record.value, key=record.key, type=record.type)
            with commitlog.topic(other, State) as topic:
                found = topic.tailer(on_undecodable="skip")
                read_now = list(found)
                if skipped == 0:
                    assert found.undecodable == 0  # at the same positions
                else:
                    assert found.undecodable > 100
                    whole = [each for each in messages(other) if each.value[:1] == WHOLE]
                    assert len(read_now) < len(whole) + 100


def hostile(log: commitlog.CommitLog, *values: bytes) -> list[int]:
    """Append messages of topic State as a hostile program may; return their positions."""
    schema = Schema("State", "json", {}, layers=({"name": "zstd-delta"},))
    log.append(schema.value, key=schema.key, type=SCHEMA_TYPE)
    return [log.append(value, key=b"k", type=schema.number) for value in values]


def test_hostile_deltas_are_refused(tmp_path: Path) -> None:
    import zstandard

    whole = WHOLE + zstandard.compress(b"{}")
    with commitlog.open(tmp_path / "log", segment_size=SEGMENT) as log:
        first, plain = hostile(log, whole)[0], log.append(b"plain")
        frame = KeyFrame(first, b"{}")
        bomb = frame.delta(bytes(1 << 21))
        delta = hostile(log, frame.delta(b"{ }"))[0]
        later = log.tail_position + 4096
        bad = {
            b"": "is a damaged delta",
            b"\1": "is a damaged delta",
            b"\xff" + bytes(300): "position 0, which is not in the log",
            b"\xff" + b"\xff" * 300: r"position \d+, which is not in the log",
            KeyFrame(later, b"{}").delta(b"{}"): f"position {later}, which is not in the log",
            KeyFrame(plain, b"{}").delta(b"{}"): f"position {plain}, which is not in the log",
            KeyFrame(delta, b"{}").delta(b"{}"): f"position {delta}, which is not a key frame",
            KeyFrame(first, b"{1").delta(b"{}"): f"position {first}, which has other content",
            bomb: f"position {first}, which does not match it, or makes it larger than 8192 bytes",
            frame.delta(b"{}") + b"more": "does not match it",
            frame.delta(b"{}")[:-1]: "does not match it",
        }
        positions = hostile(log, *bad)
        with commitlog.topic(log, dict, name="State", codec="json") as topic:
            for position, match in zip(positions, bad.values(), strict=True):
                with pytest.raises(UndecodableError, match=match) as caught:
                    topic.tailer(start=position).read()
                assert caught.value.position == position
            assert topic.tailer(start=delta).read() == {}


def test_hostile_repeats_of_a_key_frame_are_refused(tmp_path: Path) -> None:
    import zstandard

    other = WHOLE + zstandard.compress(b"[1]")
    with commitlog.open(tmp_path / "log", segment_size=SEGMENT) as log:
        for value in (b"", b"\1x", other):
            at = log.append(b"plain")
            log.append(value, key=repeated_key(at), type=SCHEMA_TYPE)
            position = hostile(log, KeyFrame(at, b"{}").delta(b"{}"))[0]
            topic = commitlog.topic(log, dict, name="State", codec="json")
            with pytest.raises(UndecodableError, match="which (is not a key|has other)"):
                topic.tailer(start=position).read()


def test_key_frame_that_is_repeated_later_is_found(tmp_path: Path) -> None:
    import zstandard

    with commitlog.open(tmp_path / "log", segment_size=SEGMENT) as log:
        at = log.append(b"plain")
        value = KeyFrame(at, b"{}").delta(b"{}")
        hostile(log, value)
        topic = commitlog.topic(log, dict, name="State", codec="json")
        tailer = topic.tailer()
        with pytest.raises(UndecodableError, match="which is not in the log"):
            tailer.read()
        whole = WHOLE + zstandard.compress(b"{}")
        log.append(whole, key=repeated_key(at), type=SCHEMA_TYPE)
        hostile(log, value)
        assert tailer.read() == {}


def test_delta_says_what_it_is_made_of() -> None:
    frame = KeyFrame(0x01_0000, b"lamp" * 50)
    value = frame.delta(b"lamp" * 49 + b"desk")
    assert value[:1] == b"\3"
    assert value[1:4] == b"\0\0\1"
    assert value[4:8] == zlib.crc32(frame.content).to_bytes(4, "little")
    unpacker = zlib.decompressobj(-15, zdict=frame.content)
    assert unpacker.decompress(value[8:]) == b"lamp" * 49 + b"desk"
    assert frame.content_of(Delta(value), 1000) == b"lamp" * 49 + b"desk"
