"""Deltas: which messages are deltas, of which key frames, and that each reader reads them."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

import commitlog
from commitlog import topics
from commitlog.errors import ConflictError, InvalidOptionError
from commitlog.messages import delta_encoder, key_frame
from commitlog.messages.appender import TopicAppender
from commitlog.messages.key_frame import LARGEST, WHOLE, Delta, KeyFrame, KeyFrameCache
from commitlog.messages.schema import SCHEMA_TYPE
from tests.messages.states import (
    DELTA,
    SEGMENT,
    State,
    States,
    append,
    deltas,
    key_of,
    messages,
    topic_of,
)

pytest.importorskip("zstandard")


def key_frames(log: commitlog.CommitLog) -> list[int]:
    """Return the position of the key frame of each delta."""
    return [Delta(record.value).position for record in deltas(log)]


# --- which messages are deltas --------------------------------------------------------------------


def test_states_are_deltas_of_key_frames_in_their_segment(log: commitlog.CommitLog) -> None:
    topic, states = topic_of(log), States(20).some(3000)
    append(topic, states)
    assert list(topic.tailer()) == states
    size = log.segment_size
    found = deltas(log)
    assert len(found) > 2500
    assert max(len(record.value) for record in found) < 80
    whole = {record.position: record for record in messages(log) if record.value[:1] == WHOLE}
    for record, position in zip(found, key_frames(log), strict=True):
        assert whole[position].key == record.key
        assert position // size == record.position // size
    assert log.tail_position > 3 * size


def test_states_are_half_as_large_as_with_a_dictionary(tmp_path: Path) -> None:
    states = States(50).some(1000)
    sizes = []
    for name, compress in (("plain", "zstd"), ("delta", DELTA)):
        with commitlog.topic(tmp_path / name, State, compress=compress) as topic:
            append(topic, states)
            sizes.append(sum(len(record.value) for record in messages(topic.log)))
    assert sizes[0] > 2 * sizes[1]


def test_message_without_a_key_or_with_a_large_value_is_whole(log: commitlog.CommitLog) -> None:
    topic = commitlog.topic(log, str, name="text", codec="json", compress=DELTA)
    text = os.urandom(LARGEST // 2 - 1).hex()
    with commitlog.open(log.path + "2", segment_size="1MiB") as wide:
        large = commitlog.topic(wide, str, name="text", codec="json", compress=DELTA)
        for _ in range(3):
            topic.append("a text without a key" * 20)
            large.append(text + "..", key=b"k")
        assert deltas(log) == deltas(wide) == []
        assert list(large.tailer()) == [text + ".."] * 3
        large.append(text, key=b"k")
        large.append(text[1:] + "y", key=b"k")
        assert len(deltas(wide)) == 1
        assert list(large.tailer())[-1] == text[1:] + "y"


def test_damage_of_one_key_frame_costs_a_bounded_number(log: commitlog.CommitLog) -> None:
    topic, states = topic_of(log), States(1).some(3 * delta_encoder.MOST_DELTAS)
    append(topic, states)
    found = key_frames(log)
    assert max(found.count(each) for each in set(found)) == delta_encoder.MOST_DELTAS
    assert list(topic.tailer()) == states


def test_key_frame_is_new_when_deltas_have_grown(log: commitlog.CommitLog) -> None:
    """A list that gets longer and longer is far from the first one."""
    topic = commitlog.topic(log, list, name="list", codec="json", compress=DELTA)
    lines: list[str] = [os.urandom(100).hex()]
    for _ in range(40):
        lines.append(os.urandom(10).hex())
        topic.append(lines, key=b"k")
    assert 2 < len(messages(log)) - len(deltas(log)) < 20
    assert list(topic.tailer())[-1] == lines


def test_key_frames_in_memory_have_a_bound(
    log: commitlog.CommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_frame, "_GENERATION_BYTES", 20 * 1024)
    topic, states = topic_of(log), States(5000)
    found = states.some(2000)
    append(topic, found)
    assert len(deltas(log)) < 100  # most keys are forgotten before they return
    assert list(topic.tailer()) == found
    few = States(10, seed=2).some(100)
    append(topic, few)
    assert len(deltas(log)) > 80
    cache: KeyFrameCache[int, int] = KeyFrameCache()
    for number in range(1000):
        cache.put(number, number, KeyFrame(number, bytes(500)))
        cache.get(0)
    kept = {*cache._new, *cache._old}
    assert 20 < len(kept) < 44
    assert 0 in kept  # it was used


def test_keys_by_thousands_have_key_frames(tmp_path: Path) -> None:
    states = States(5000)
    with commitlog.topic(tmp_path / "log", State, compress=DELTA) as topic:
        found = states.some(12000)
        append(topic, found)
        assert len(deltas(topic.log)) > 6500
        assert list(topic.tailer()) == found


# --- ways to append -------------------------------------------------------------------------------


def test_lists_are_deltas_of_messages_before_them(log: commitlog.CommitLog) -> None:
    topic, states = topic_of(log), States(20)
    found = []
    for _ in range(30):
        part = states.some(50)
        positions = topic.append_many(part, keys=map(key_of, part))
        assert [record.position for record in messages(log)[-50:]] == positions.tolist()
        found += part
    more = states.some(20)
    topic.append_many(more, keys=[key_of(each) for each in more], expect=log.count())
    with pytest.raises(ConflictError):
        topic.append_many(more, keys=map(key_of, more), expect=0)
    assert list(topic.tailer()) == found + more
    assert len(deltas(log)) > 800
    assert set(topic_positions(log)) >= set(key_frames(log))


def topic_positions(log: commitlog.CommitLog) -> list[int]:
    return [record.position for record in messages(log)]


@pytest.mark.parametrize("count", [2, 4])
def test_list_with_too_few_or_too_many_keys_is_refused(
    log: commitlog.CommitLog, count: int
) -> None:
    with pytest.raises(InvalidOptionError, match=f"{count} keys for 3 messages"):
        topic_of(log).append_many(States(2).some(3), keys=[b"k"] * count)
    assert messages(log) == []


def test_list_longer_than_a_segment_is_read(log: commitlog.CommitLog) -> None:
    topic, states = topic_of(log), States(20).some(2000)
    append(topic, states[:100])
    topic.append_many(states[100:], keys=map(key_of, states[100:]))
    assert list(topic.tailer()) == states
    assert log.tail_position > log.segment_size


def test_coroutines_append_deltas(log: commitlog.CommitLog) -> None:
    topic, states = topic_of(log), States(5).some(300)

    async def work() -> None:
        for state in states:
            await topic.append_async(state, key=key_of(state))

    asyncio.run(work())
    assert len(deltas(log)) > 250
    assert list(topic.tailer()) == states


def test_number_that_two_threads_use_makes_no_wrong_key_frame(
    log: commitlog.CommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One appends the message of a number while another one has made its message of it."""
    topic, states = topic_of(log), States(1).some(3)
    append = TopicAppender.append

    def second(self: TopicAppender, *given: Any) -> int:
        patch.undo()
        topic.append(states[0], key=b"k", producer="till", producer_sequence=1)
        return append(self, *given)

    with monkeypatch.context() as patch:
        patch.setattr(TopicAppender, "append", second)
        topic.append(states[1], key=b"k", producer="till", producer_sequence=1)
    topic.append(states[2], key=b"k")
    assert len(deltas(log)) == 1
    assert list(topic.tailer()) == [states[0], states[2]]


def test_repeat_of_a_producer_is_no_key_frame(log: commitlog.CommitLog) -> None:
    states = States(1).some(8)
    topic = topic_of(log)
    for number, state in enumerate(states[:3]):
        topic.append(state, key=b"k", producer="till", producer_sequence=number)
    later = topic_of(log, history=False)
    repeated = later.append(states[4], key=b"k", producer="till", producer_sequence=2)
    assert repeated == topic_positions(log)[2]
    for number, state in enumerate(states[5:], 3):
        later.append(state, key=b"k", producer="till", producer_sequence=number)
    assert list(topic.tailer()) == states[:3] + states[5:]
    assert repeated not in key_frames(log)


def test_dropped_message_is_no_key_frame(
    log: commitlog.CommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a pooled log whose appends are dropped while no buffer is free."""
    topic, states = topic_of(log), States(1).some(4)
    append(topic, [States(1, seed=2).next()])
    with monkeypatch.context() as patch:
        patch.setattr(commitlog.CommitLog, "append", lambda *_, **__: -1)
        topic.append(states[0], key=b"k")
    append(topic, states[1:])
    assert list(topic.tailer())[1:] == states[1:]


def test_outputs_with_a_history_are_deltas(tmp_path: Path) -> None:
    states = States(3).some(60)

    class Service:
        def sold(self, first: int) -> None:
            part = states[first : first + 6]
            out.append(part[0], key=key_of(part[0]))
            out.append_many(part[1:], keys=map(key_of, part[1:]))

    class Shop:
        def sold(self, first: int) -> None: ...

    with (
        commitlog.open(tmp_path / "in") as source,
        commitlog.topic(tmp_path / "out", State, compress=DELTA, segment_size=SEGMENT) as out,
    ):
        shop = commitlog.method_writer(source, Shop)
        for first in range(0, 60, 6):
            shop.sold(first)
        for _ in range(2):  # again: nothing is appended twice
            with commitlog.method_reader(source, Service(), after_last_written=out.log) as reader:
                reader.run(timeout=0)
        tailer = out.tailer()
        assert list(tailer) == states
        assert tailer.history is not None
        sizes = sorted(len(record.value) for record in messages(out.log))
        assert sizes[40] < 56 + 60  # a history and a delta


def test_dictionary_is_trained_and_used_beside_deltas(tmp_path: Path) -> None:
    states = States(300)
    found = states.some(400)
    with commitlog.topic(tmp_path / "log", State, compress=DELTA) as topic:
        append(topic, found)
        assert list(topic.tailer()) == found
    with commitlog.topic(tmp_path / "log", State, compress="zstd") as topic:
        more = states.some(10)
        append(topic, more)
        assert list(topic.tailer()) == found + more
        values = [record.value for record in topic.log.tailer() if record.type == SCHEMA_TYPE]
        layers = [msgspec.json.decode(value)["layers"][0] for value in values]
    assert [layer["name"] for layer in layers] == ["zstd-delta", "zstd-delta", "zstd"]
    assert layers[1]["dictionary"] == layers[2]["dictionary"]


def test_threads_append_deltas_at_once(log: commitlog.CommitLog) -> None:
    topic = topic_of(log)
    states = States(10).some(2000)

    def work(number: int) -> None:
        append(topic, states[number::4])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    encode = msgspec.json.encode
    assert sorted(map(encode, topic.tailer())) == sorted(map(encode, states))


def test_only_true_and_false_choose_deltas() -> None:
    with pytest.raises(InvalidOptionError, match="delta must be True or False, not 'yes'"):
        topics.Zstd(delta="yes")  # type: ignore[arg-type]
