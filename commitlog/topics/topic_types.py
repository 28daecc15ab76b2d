"""TopicTypes: the type numbers of a topic's messages, for a view of the topic."""

from __future__ import annotations

import contextlib

from commitlog import CommitLog, Record
from commitlog.errors import InvalidOptionError, PositionError, SchemaError
from commitlog.topics.schema import SCHEMA_TYPE, Schema, key_of, number_of
from commitlog.topics.seal_layer import has_sealed_keys
from commitlog.topics.topics_state import catalog_of
from commitlog.types import Start


class TopicTypes:
    """The types that the log's schemas have at present, and those that later schemas announce.

    Raises
    ------
    TopicNotFoundError
        The log has no such topic.
    SchemaError
        As for `SchemaCatalog.schemas_of`.
    InvalidOptionError
        A key is selected, too, and the keys of the topic's messages are sealed.
    """

    noted_type = SCHEMA_TYPE

    def __init__(self, log: CommitLog, topic: str, *, with_key: bool) -> None:
        self._log = log
        with log.tailer(start="end") as tailer:
            self._seen = tailer.position  # the catalog has all schemas below
        catalog = catalog_of(log)
        catalog.check_topics([topic])
        schemas = catalog.schemas_of(topic)
        if with_key and any(has_sealed_keys(schema) for schema in schemas.values()):
            raise InvalidOptionError(
                f"the record keys of topic {topic!r} are sealed, and a view compares them as they "
                "are stored: use the topic's tailer, and seek(key=...)",
                path=log.path,
            )
        self._topic = topic
        self._types = set(schemas)

    def types(self) -> frozenset[int]:
        """Return the types that are known."""
        return frozenset(self._types)

    def note(self, record: Record) -> frozenset[int] | None:
        """Take the record of a schema; return all types if it is a new one of the topic."""
        value = record.value
        number = number_of(value)
        if number not in self._types and record.key == key_of(number):
            with contextlib.suppress(SchemaError):
                if Schema.of_value(value).topic == self._topic:
                    self._types.add(number)
                    return self.types()
        return None

    def more(self) -> frozenset[int] | None:
        """Read the schemas that were appended since; return all types if there is a new one."""
        before = len(self._types)
        try:
            self._look(self._seen)
        except PositionError:  # retention has deleted what was there
            self._look("first")
        return self.types() if len(self._types) > before else None

    def _look(self, start: Start) -> None:
        with self._log.view(type=SCHEMA_TYPE, start=start, on_damage="skip") as schemas:
            for record in schemas:
                self.note(record)
            self._seen = schemas.position
