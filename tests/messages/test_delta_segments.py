"""Deltas and segments: rolls, kills, forks and other processes behind a key frame."""

from __future__ import annotations

import os
import shutil
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

import commitlog
from commitlog.errors import UndecodableError
from commitlog.messages import key_frame
from commitlog.messages.catalog import FOLDER
from tests.messages.orders import ended, run
from tests.messages.sealed import RING
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
    topic_of,
)
from tests.steps import replace_hook

pytest.importorskip("zstandard")
BOUND = {"keys": RING, "seal_positions": True}


def test_each_segment_is_read_alone(tmp_path: Path) -> None:
    states = States(20).some(2000)
    with commitlog.topic(tmp_path / "log", State, compress=DELTA, segment_size=SEGMENT) as topic:
        append(topic, states)
    parts = list(read_alone(tmp_path / "log"))
    assert list(chain(*parts)) == states
    assert len(parts) > 2


def rolling(log: commitlog.CommitLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin a segment by another handle between a delta and its append."""
    delta = key_frame.KeyFrame.delta

    def rolled(self: key_frame.KeyFrame, content: bytes) -> bytes:
        with commitlog.open(log.path) as other:
            other.roll()
        return delta(self, content)

    monkeypatch.setattr(key_frame.KeyFrame, "delta", rolled)


@pytest.mark.parametrize("options", [{}, BOUND])
@pytest.mark.parametrize("history", [False, True])
def test_delta_in_another_segment_brings_its_key_frame(
    log: commitlog.CommitLog, monkeypatch: pytest.MonkeyPatch, history: bool, options: Any
) -> None:
    topic, states = topic_of(log, **options), States(1).some(6)

    def add(state: State) -> None:
        if not history:
            topic.append(state, key=b"k")
            return
        with topic.tailer(start="first").reading():
            topic.append(state, key=b"k")

    topic.append(states[0], key=b"k")
    add(states[1])
    with monkeypatch.context() as patch:
        rolling(log, patch)
        add(states[2])
    add(states[3])
    add(states[4])
    assert list(topic.tailer()) == states[:5]
    log.roll()
    topic.append(states[5])
    log.delete_before(messages(log)[2].position)
    assert log.first_position > log.segment_size
    assert list(topic.tailer()) == states[2:]
    log.close()
    assert read(Path(log.path), **options) == states[2:]
    assert next(read_alone(Path(log.path), **options)) == states[2:5]


def test_list_that_another_process_moves_brings_key_frames(
    log: commitlog.CommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, states = topic_of(log), States(8).some(150)
    append(topic, states[:100])
    with monkeypatch.context() as patch:
        rolling(log, patch)
        topic.append_many(states[100:], keys=map(key_of, states[100:]))
    log.close()
    last = list(read_alone(Path(log.path)))[-1]
    assert last == states[100:]
    with commitlog.open(log.path, "r") as opened:
        repeats = [each for each in opened.tailer() if (each.key or b"").startswith(b"keyframe:")]
    assert len(repeats) == 8


@pytest.mark.parametrize("options", [{}, {"keys": RING}, BOUND])
def test_key_frame_behind_another_roll_is_found(
    log: commitlog.CommitLog, monkeypatch: pytest.MonkeyPatch, options: Any
) -> None:
    """Another handle begins one segment before a delta, and one more before the records that this
    handle appends behind the delta.
    """
    topic, states = topic_of(log, **options), States(1).some(4)

    def roll(name: str) -> None:
        if name == "message in a new segment":
            with commitlog.open(log.path) as other:
                other.roll()

    append(topic, states[:2])
    with monkeypatch.context() as patch:
        rolling(log, patch)
        replace_hook(roll)
        try:
            append(topic, states[2:3])
        finally:
            replace_hook(None)
    append(topic, states[3:])
    log.roll()
    topic.append(states[0])
    first, last = messages(log)[2:4]
    assert first.position // log.segment_size + 1 == last.position // log.segment_size
    log.delete_before(first.position)
    assert messages(log)[0].position == first.position
    assert list(topic.tailer()) == [*states[2:], states[0]]
    log.close()
    shutil.rmtree(Path(log.path) / FOLDER)
    assert read(Path(log.path), **options) == [*states[2:], states[0]]


KILLED = """
from tests.messages.states import *
from tests.steps import *
from commitlog.messages.key_frame import KeyFrame
topic = commitlog.topic(sys.argv[1], State, compress=DELTA, segment_size="64KiB")
states = States(1).some(3)
append(topic, states[:2])
delta = KeyFrame.delta
def rolled(self, content):
    with commitlog.open(sys.argv[1]) as other:
        other.roll()
    return delta(self, content)
KeyFrame.delta = rolled
replace_hook(lambda name: die() if name == "delta in a new segment" else None)
append(topic, states[2:])
"""


def test_kill_before_the_key_frame_leaves_a_readable_log(tmp_path: Path) -> None:
    states = States(1).some(5)
    path = tmp_path / "log"
    assert ended(run(KILLED, path)) == -9
    with commitlog.topic(path, State, compress=DELTA) as topic:
        append(topic, states[3:])
        assert list(topic.tailer()) == states
        topic.log.roll()
        append(topic, states[:1])
        topic.log.delete_before(messages(topic.log)[2].position)
    with commitlog.topic(path, State, mode="r") as topic:
        at = messages(topic.log)[0].position
        with pytest.raises(UndecodableError, match=r"position \d+, which is not in the log") as e:
            topic.tailer().read()
        assert e.value.position == at
        assert list(topic.tailer(on_undecodable="skip")) == states[3:] + states[:1]


WRITER = """
from tests.messages.states import *
topic = commitlog.topic(sys.argv[1], State, compress=DELTA, segment_size="64KiB")
states = States(10, seed=int(sys.argv[2]))
for _ in range(int(sys.argv[3])):
    append(topic, states.some(20))
    part = states.some(20)
    topic.append_many(part, keys=map(key_of, part))
topic.close()
"""


def test_processes_that_append_at_once_are_read(tmp_path: Path) -> None:
    path = tmp_path / "log"
    writers = [run(WRITER, path, seed, 30) for seed in (1, 2, 3)]
    assert [ended(writer) for writer in writers] == [0, 0, 0]
    found = read(path)
    assert list(chain(*read_alone(path))) == found
    for seed in (1, 2, 3):
        own = [state for state in found if state.id.startswith(f"{seed}-")]
        assert own == States(10, seed).some(1200)


def test_killed_writers_leave_what_is_read(tmp_path: Path) -> None:
    path = tmp_path / "log"
    for number in range(1, 7):
        writer = run(WRITER, path, number, 1 << 40)
        start = 0
        while True:  # until it has appended for a while
            if (path / "log.json").exists():
                with commitlog.open(path, "r") as log:
                    start = start or log.committed_position
                    if log.committed_position > start + number * 7919:
                        break
        writer.kill()
        ended(writer)
        with commitlog.topic(path, State, compress=DELTA) as topic:  # recovers
            found = list(topic.tailer())
        own = [state for state in found if state.id.startswith(f"{number}-")]
        assert own == States(10, number).some(len(own))
    assert list(chain(*read_alone(path))) == found


def test_child_of_a_fork_appends_deltas(log: commitlog.CommitLog) -> None:
    topic, states = topic_of(log), States(1).some(9)
    append(topic, states[:3])
    child = os.fork()
    if child == 0:
        status = 1
        try:
            append(topic, states[3:6])
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    append(topic, states[6:])
    assert list(topic.tailer()) == states
    assert len(deltas(log)) == 8
