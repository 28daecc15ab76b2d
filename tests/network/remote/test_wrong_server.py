"""A server that sends other bytes than a reader asks for is refused, with one clear error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import commitlog
from commitlog.errors import ReplicationError
from commitlog.log.open_calls import open_log
from commitlog.network.remote import update as updates
from commitlog.network.remote import wire
from commitlog.network.remote.update import Update
from commitlog.network.replication.reading import Reading
from tests.network.remote.server import answering

Change = Callable[[Iterator[Update]], Iterator[Update]]


def answers(
    log: commitlog.CommitLog, change: Change, content: dict[str, Any]
) -> Iterator[tuple[bytes, bytes]]:
    """Answer for a log, and change the updates that are sent."""
    if content["action"] == "look":
        yield wire.text(Reading(log).look()), b""
    elif content["action"] == "read":
        for each in change(Reading(log).read(content["read"])):
            yield updates.head_of(each), bytes(each.content)
        yield wire.text({}), b""


def moved(found: Iterator[Update]) -> Iterator[Update]:
    for each in found:
        yield replace(each, position=each.position + 8)


def none(found: Iterator[Update]) -> Iterator[Update]:
    yield from ()


def repeated(found: Iterator[Update]) -> Iterator[Update]:
    for each in found:
        yield each
        yield each


@pytest.mark.parametrize(
    ("change", "message"),
    [(moved, "other bytes"), (none, "fewer bytes"), (repeated, "other bytes")],
)
def test_bytes_that_were_not_asked_for_are_refused(
    tmp_path: Path, change: Change, message: str
) -> None:
    with commitlog.open(tmp_path / "log", segment_size="64KiB") as log:
        log.append_many([b"a record"] * 3000)
    with open_log(tmp_path / "log", "r") as log, answering(partial(answers, log, change)) as port:
        url = f"tcp://127.0.0.1:{port}/log"
        with pytest.raises(ReplicationError, match=message), commitlog.open(url, mode="r") as far:
            list(far.tailer().values())


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", "null", "1", '"error"', "{", "[" * 5000, "{}", '{"error":"x","message":"y"}'),
        '{"message":"no error","position":1,"first_position":1}',
    ],
)
def test_error_of_a_wrong_shape_is_a_replication_error(text: str) -> None:
    error = updates.error_of(text, "tcp://peer/log")
    assert type(error) is ReplicationError
    assert error.message == "tcp://peer/log sent an error that cannot be read"
