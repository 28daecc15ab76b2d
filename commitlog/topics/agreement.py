"""Agreement: the handles of a log agree from which position on a topic is sealed.

A handle that appends messages of a lower rank holds a lock until it is closed. Meanwhile no handle
raises the rank of the topic, so no message of the lower rank is behind that position.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from commitlog import CommitLog
from commitlog.errors import InUseError, SchemaError
from commitlog.topics.schema import Schema
from commitlog.topics.seal_layer import (
    BOUND,
    NAME,
    PLAIN,
    POSITIONS,
    SEALED,
    SINCE,
    has_positions,
    rank_of,
    start_of,
)
from commitlog.topics.topics_state import state_of

_OPTIONS = {PLAIN: "keys=", SEALED: "seal_positions=True"}  # what appenders of a rank are without


def declare(log: CommitLog, schema: Schema) -> None:
    """Declare a schema before its first record is appended.

    Raises
    ------
    SchemaError
        Another handle has raised the rank of the topic since this one was opened, or another
        schema has the same number.
    """
    rank, state = rank_of(schema), state_of(log)
    catalog = state.catalog
    if rank == BOUND or state.has_lock(schema.topic, rank):
        catalog.declare(schema)
        return
    with catalog.locked():
        known = catalog.schemas_of(schema.topic).values()
        if any(rank_of(each) > rank for each in known):
            raise SchemaError(
                f"another handle has sealed topic {schema.topic!r} since this one opened it: open "
                "the topic again",
                path=log.path,
                topic=schema.topic,
            )
        state.locks(log).take(schema.topic, rank)
        catalog.declare(schema)


class Agreement:
    """Find the layer of sealed messages of a topic.

    Parameters
    ----------
    log : CommitLog
        A log open for appending.
    topic : str
        The name of the topic.
    binds : bool
        Seal messages for their positions, also if those of the topic are not.
    """

    def __init__(self, log: CommitLog, topic: str, *, binds: bool) -> None:
        self._log = log
        self._topic = topic
        self._state = state_of(log)
        self._binds = binds
        self._layer: dict[str, Any] | None = None

    def layer(self, schema: Schema) -> dict[str, Any]:
        """Return the layer of messages that have a schema without it. At the first call, the schema
        with it is declared, so other handles find it.

        Raises
        ------
        InUseError
            Another topic object or handle appends to the topic without sealing as this one does.
        """
        if self._layer is None:
            catalog = self._state.catalog
            with catalog.locked():
                known = list(catalog.schemas_of(self._topic).values())
                layer: dict[str, Any] = {"name": NAME, SINCE: self._start(known, SEALED)}
                if self._binds or any(map(has_positions, known)):
                    layer[POSITIONS] = self._start(known, BOUND)
                catalog.declare(replace(schema, layers=(*schema.layers, layer)))
            self._layer = layer
        return self._layer

    def _start(self, known: list[Schema], rank: int) -> int:
        """Return from where on the topic has a rank: from the end of the log on if it had a lower
        one, else from its beginning.
        """
        starts = [start_of(each, rank) for each in known if rank_of(each) >= rank]
        if starts or not known:
            return min(starts, default=0)
        locks = self._state.locks(self._log)
        for lower in range(rank):
            if locks.is_taken(self._topic, lower):
                option = _OPTIONS[lower]
                raise InUseError(
                    f"topic {self._topic!r} cannot be sealed: an open log has appended to it "
                    f"without {option}; close each one that does, and then give it {option}",
                    path=self._log.path,
                )
        return self._log.tail_position
