"""Floors: from which positions on the messages of a topic must be sealed.

A reader with keys refuses what is behind a floor and was written without the keys. The floor is in
each schema whose messages are sealed, so any of them gives it, also after retention has deleted the
first ones. A forged schema can only lower it.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from commitlog.errors import SchemaError
from commitlog.topics.catalog import SchemaCatalog
from commitlog.topics.schema import Schema, key_of, number_of
from commitlog.topics.seal_layer import BOUND, PLAIN, SEALED, rank_of, start_of

NEVER = 1 << 63
_MOST_NOTED = 1 << 10


@dataclass(eq=False, slots=True)
class Floor:
    """From which positions on the messages of a topic must be sealed, and for their positions."""

    sealed: int = NEVER
    bound: int = NEVER

    def least(self, rank: int) -> int:
        """Return from which position on messages of a rank are refused."""
        return self.bound if rank == SEALED else min(self.sealed, self.bound)


class Floors:
    """The floors of the topics of one handle, which all its readers share.

    Attributes
    ----------
    version : int
        How often a floor was lowered.
    """

    def __init__(self) -> None:
        self.version = 0
        self._topics: dict[str, Floor] = {}  # of topics that were asked for
        self._noted: set[bytes] = set()
        self._stamp = -1

    def of(self, topic: str, catalog: SchemaCatalog) -> Floor:
        """Return the floor of a topic, which is lowered in place, as the known schemas have it."""
        floor = self._topics.setdefault(topic, Floor())
        for schema in catalog.listed():
            self._add(schema)
        return floor

    def note(self, key: bytes | None, value: bytes) -> int:
        """Note a schema from its record in the log; return the version."""
        if key is not None and key not in self._noted and key == key_of(number_of(value)):
            with contextlib.suppress(SchemaError):
                schema = Schema.of_value(value)
                self._add(schema)
                if len(self._noted) >= _MOST_NOTED:
                    self._noted = set()
                if schema.topic in self._topics:
                    self._noted.add(key)
        return self.version

    def refresh(self, catalog: SchemaCatalog) -> int:
        """Note the schemas that other handles have declared; return the version."""
        stamp = catalog.stamp()
        if stamp != self._stamp:
            self._stamp = stamp
            for schema in catalog.listed():
                self._add(schema)
        return self.version

    def _add(self, schema: Schema) -> None:
        floor = self._topics.get(schema.topic)
        rank = rank_of(schema)
        if floor is None or rank == PLAIN:
            return
        sealed = min(floor.sealed, start_of(schema, SEALED))
        bound = min(floor.bound, start_of(schema, BOUND)) if rank == BOUND else floor.bound
        if (sealed, bound) != (floor.sealed, floor.bound):
            floor.sealed, floor.bound = sealed, bound
            self.version += 1
