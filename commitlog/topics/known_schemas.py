"""KnownSchemas: the schemas that a catalog has found, so that none of them is read twice."""

from __future__ import annotations

import re
from collections.abc import Collection

from commitlog.topics.schema import Schema

_NAME = re.compile(r"([0-9a-f]{8})\.json")


def file_name(number: int) -> str:
    """Return the name of a schema's file in the folder `topics`."""
    return f"{number:08x}.json"


class KnownSchemas:
    """The schemas of one log. A number always stands for one schema.

    `found` has those that were looked up by number; the folder's are also kept by topic.
    """

    def __init__(self) -> None:
        self.found: dict[int, Schema] = {}
        self._names: set[str] = set()
        self._topics: dict[str, dict[int, Schema]] = {}

    def new_among(self, names: Collection[str]) -> list[tuple[str, int]]:
        """Return name and number of each schema's file that was not added yet, sorted."""
        new = sorted(set(names) - self._names)
        return [(name, int(match[1], 16)) for name in new if (match := _NAME.fullmatch(name))]

    def add(self, name: str, number: int, schema: Schema) -> None:
        """Add the schema of a file of the folder."""
        self._names.add(name)
        self._topics.setdefault(schema.topic, {})[number] = schema

    def those_of(
        self, topics: Collection[str] | None, names: Collection[str]
    ) -> list[tuple[int, Schema]]:
        """Return the schemas of topics, or of all, whose files are there; ascending by number."""
        chosen = list(self._topics) if topics is None else topics
        found = [each for topic in chosen for each in self._topics.get(topic, {}).items()]
        return sorted(
            ((number, schema) for number, schema in found if file_name(number) in names),
            key=lambda each: each[0],
        )
