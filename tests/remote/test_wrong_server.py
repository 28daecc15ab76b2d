"""A server that sends other bytes than a reader asks for is refused, with one clear error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyarrow import flight

import commitlog
from commitlog.errors import ReplicationError
from commitlog.log.commit_log import open_log
from commitlog.remote import update as updates
from commitlog.remote.update import Update
from commitlog.replication import wire
from commitlog.replication.reading import Reading

Change = Callable[[Iterator[Update]], Iterator[Update]]


class WrongServer(flight.FlightServerBase):  # type: ignore[misc]
    """Answers for a log, and changes the updates that it sends."""

    def __init__(self, path: Path, change: Change) -> None:
        super().__init__("grpc://127.0.0.1:0")
        self.log = open_log(path, "r")
        self.change = change

    def do_action(self, context: Any, action: Any) -> Iterator[Any]:
        return iter([flight.Result(wire.text(Reading(self.log).look()))])

    def do_get(self, context: Any, ticket: Any) -> Any:
        content = wire.content_of(ticket.ticket, "a reader")
        if "read" not in content:
            raise flight.FlightUnavailableError("nothing is new")
        layout, found = updates.schema(), self.change(Reading(self.log).read(content["read"]))
        return flight.GeneratorStream(layout, (updates.batch_of(each, layout) for each in found))


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
    server = WrongServer(tmp_path / "log", change)
    try:
        url = f"tcp://127.0.0.1:{server.port}/log"
        with pytest.raises(ReplicationError, match=message), commitlog.open(url, mode="r") as log:
            list(log.tailer().values())
    finally:
        server.shutdown()
        server.log.close()


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
