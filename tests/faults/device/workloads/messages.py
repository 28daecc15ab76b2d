"""Topics with schemas, and sealed topics."""

from __future__ import annotations

import os
from typing import Any

import commitlog
from commitlog import CommitLog
from commitlog.errors import KeyUnavailableError
from commitlog.topics.key_ring import VARIABLE
from tests.faults.device.checks import FLUSHED, check_sound
from tests.faults.device.diary import Diary, Story
from tests.faults.device.workload import Place, Workload
from tests.faults.writers import APPENDED, OPENED
from tests.topics.orders import Order, Refund
from tests.topics.sealed import OLD, RING

_COUNT = 500
_SEALED: dict[str, Any] = {
    "keys": RING,
    "seal_keys": True,
    "seal_positions": True,
    "compress": "zstd",
}


def _opened(place: Place, **options: Any) -> CommitLog:
    return commitlog.open(place.disk / "log", segment_size="64KiB", **options)


def _topics(log: CommitLog, options: dict[str, Any]) -> list[Any]:
    """Return two topics of a log: their schemas and keys are records between the messages."""
    return [commitlog.topic(log, Order, **options), commitlog.topic(log, Refund, **options)]


def _message(which: int, index: int) -> Order | Refund:
    return Refund(index) if which else Order(index, "lamp " * (index % 40))


def _number(message: Order | Refund) -> int:
    return message.order if isinstance(message, Refund) else message.id


def _write(diary: Diary, place: Place, options: dict[str, Any]) -> None:
    """Append to both topics from one handle and the next; every third message is synced."""
    for turn in range(2):
        log = _opened(place, flush="async")
        diary.say(OPENED)
        topics = _topics(log, options)
        for index in range(turn * _COUNT // 2, (turn + 1) * _COUNT // 2):
            for which, topic in enumerate(topics):
                key = b"%d" % (index % 5)
                position = topic.append(_message(which, index), key=key, sync=index % 3 == 0)
                diary.say(APPENDED, which, index, position)
                if index % 3 == 0:
                    diary.say(FLUSHED, which, index, position + 1)
            if index % 100 == 99:
                log.roll()
        log.close()


def _write_topics(diary: Diary, place: Place, number: int) -> None:
    _write(diary, place, {})


def _write_sealed(diary: Diary, place: Place, number: int) -> None:
    _write(diary, place, _SEALED)


def _messages(log: CommitLog, options: dict[str, Any]) -> list[list[int]]:
    """Return the numbers of the messages of each topic, whose content is compared, too."""
    found = []
    for which, topic in enumerate(_topics(log, options)):
        with topic.tailer() as tailer:
            messages = list(tailer)
        numbers = [_number(message) for message in messages]
        assert messages == [_message(which, number) for number in numbers]
        found.append(numbers)
    return found


def _check(place: Place, story: Story, options: dict[str, Any]) -> int:
    folder = place.disk / "log"
    if story.last(OPENED) is not None:
        check_sound(folder)
    with _opened(place) as log:
        found = _messages(log, options)
        promised = _promised(found, story)
        for which, topic in enumerate(_topics(log, options)):
            topic.append(_message(which, len(found[which])), key=b"1")
        after = _messages(log, options)
    assert after == [[*numbers, len(numbers)] for numbers in found]
    check_sound(folder)
    with commitlog.open(folder, "r") as log:
        assert _messages(log, options) == after
    return promised


def _promised(found: list[list[int]], story: Story) -> int:
    flushed = max((report.position for report in story.kinds(FLUSHED)), default=0)
    promised = 0
    for which, numbers in enumerate(found):
        assert numbers == list(range(len(numbers)))
        told = [
            report.index
            for report in story.kinds(APPENDED)
            if report.session == which and report.position < flushed
        ]
        assert not told or max(told) < len(numbers), (
            f"{max(told)} of topic {which} was acknowledged; the log has {len(numbers)}"
        )
        promised += len(told)
    return promised


def _check_topics(place: Place, story: Story) -> int:
    return _check(place, story, {})


def _check_sealed(place: Place, story: Story) -> int:
    """Check that the topic is still sealed, and that each message is authentic."""
    promised = _check(place, story, _SEALED)
    os.environ[VARIABLE] = OLD
    check_sound(place.disk / "log")
    del os.environ[VARIABLE]
    with _opened(place) as log:
        try:
            commitlog.topic(log, Order).append(Order(1))
        except KeyUnavailableError:
            return promised
    raise AssertionError("a message was appended to a sealed topic without a key")


WORKLOADS = (
    Workload("topics", (_write_topics,), _check_topics),
    Workload("sealed-topics", (_write_sealed,), _check_sealed),
)
