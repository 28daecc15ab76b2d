"""States of objects, of which few fields change from one to the next, for tests of deltas."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

import commitlog
from commitlog import topics
from commitlog.messages.key_frame import WHOLE
from commitlog.messages.schema import is_message_type

DELTA = topics.Zstd(delta=True)
SEGMENT = "64KiB"


class State(msgspec.Struct):
    id: str
    customer: str
    address: str
    lines: list[str]
    status: str = "new"
    revision: int = 0


class States:
    """Objects whose states change one after the other, the same ones for the same seed."""

    def __init__(self, objects: int, seed: int = 1) -> None:
        self._generator = random.Random(seed)
        self._states = [self._new(number, seed) for number in range(objects)]

    def _new(self, number: int, seed: int) -> State:
        drawn = self._generator.randbytes
        lines = [drawn(20).hex() for _ in range(4)]
        return State(f"{seed}-{number}", drawn(12).hex(), drawn(30).hex(), lines)

    def next(self) -> State:
        """Change a state and return it."""
        number = self._generator.randrange(len(self._states))
        state = self._states[number]
        changed = msgspec.structs.replace(
            state,
            status=self._generator.choice(["new", "paid", "sent"]),
            revision=state.revision + 1,
        )
        self._states[number] = changed
        return changed

    def some(self, count: int) -> list[State]:
        """Return the next states."""
        return [self.next() for _ in range(count)]


def key_of(state: State) -> bytes:
    return state.id.encode()


def append(topic: topics.Topic[State], states: list[State]) -> None:
    for state in states:
        topic.append(state, key=key_of(state))


def topic_of(log: commitlog.CommitLog, **options: Any) -> topics.Topic[State]:
    return commitlog.topic(log, State, compress=DELTA, **options)


def messages(log: commitlog.CommitLog) -> list[commitlog.Record]:
    return [record for record in log.tailer() if is_message_type(record.type)]


def deltas(log: commitlog.CommitLog) -> list[commitlog.Record]:
    """Return the messages that are deltas, of a topic without keys and histories."""
    return [record for record in messages(log) if not record.value.startswith(WHOLE)]


def read(path: Path, **options: Any) -> list[State]:
    with commitlog.topic(path, State, mode="r", **options) as topic:
        return list(topic.tailer())


def read_alone(path: Path, **options: Any) -> Iterator[list[State]]:
    """Yield the states of each segment of a log, which is opened alone."""
    for segment in sorted(path.glob("*.seg")):
        with commitlog.open(segment, "r") as log:
            if log.count():
                yield read(segment, **options)
