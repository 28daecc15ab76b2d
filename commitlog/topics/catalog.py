"""SchemaCatalog: the schemas of a log's topics, found without reading the log."""

from __future__ import annotations

import contextlib
import difflib
import errno
import fcntl
import operator
import os
from collections.abc import Collection, Iterator
from typing import TypeVar

import numpy as np

from commitlog import CommitLog
from commitlog.base.failpoint import failpoint
from commitlog.base.folder_lock import lock_folder
from commitlog.base.path import sync_directory, translate_refusals
from commitlog.base.polling import attempts
from commitlog.errors import IOFailureError, PositionError, SchemaError, TopicNotFoundError
from commitlog.extension import view_of
from commitlog.topics.known_schemas import KnownSchemas, file_name
from commitlog.topics.schema import SCHEMA_TYPE, Schema, key_of, number_of
from commitlog.types import Start, Visibility

T = TypeVar("T")
FOLDER = "topics"
NO_SCHEMA = "no schema of its type number is in the log"
# Its presence says that the folder had all schemas of the log when it was made.
_COMPLETE = "complete"
# Records of other programs may have the type numbers of messages, so the number of remembered ones
# is limited.
_MOST_KNOWN = 1 << 10
_MOST_MISSED = 1 << 16
_MOST_SHOWN = 10  # topics in an error
_LOCK_WAIT_S = 30.0  # a key service may be asked under the lock


class SchemaCatalog:
    """Find and declare schemas. `state_of` has the one catalog of each open log.

    The records of the log are the truth. The folder `topics` has a copy of each, by its number, so
    that a log of any size is opened at once. The folder is made from the records if it is missing.

    Parameters
    ----------
    log : CommitLog
        An open log.
    """

    def __init__(self, log: CommitLog) -> None:
        self._log = log
        self._notes = view_of(log).notes
        self._folder = os.path.join(log.path, FOLDER)
        self._folded = KnownSchemas()
        self._known = self._folded.found
        # Schemas that were not found: the log's tail then, and where to continue the search.
        self._missed: dict[int, tuple[int, int]] = {}
        self._refused: dict[int, int | None] = {}  # where schemas are that cannot be read

    def schemas_of(self, *topics: str) -> dict[int, Schema]:
        """Return the schemas of topics by the type number of their messages. Those of other topics
        may be of a newer release.

        Raises
        ------
        SchemaError
            A newer release wrote a schema of the topics, or a schema is damaged.
        """
        found = {}
        for number, schema in self._all(topics):
            if isinstance(schema, Schema):
                if schema.topic in topics:
                    found[number] = schema
            elif schema.topic is None or schema.topic in topics:
                raise schema
        return found

    def newest(self, topic: str) -> tuple[int, Schema]:
        """Return the schema of a topic whose first record is the newest, and the time of that
        record in nanoseconds; -1 if no record of it remains. Those without messages are the oldest.

        Raises
        ------
        SchemaError
            As for `schemas_of`.
        TopicNotFoundError
            The log has no such topic.
        """
        self.check_topics([topic])
        found = []
        for number, schema in self.schemas_of(topic).items():
            position = self._position_of(number)
            time_ns = -1 if position is None else self._log.read(position).timestamp_ns
            found.append((time_ns, number, schema))
        time_ns, _, schema = max(found, key=operator.itemgetter(0, 1))
        return time_ns, schema

    def topics(self, codec: str | None = None) -> list[str]:
        """Return the names of all topics, or of those with a codec, sorted. Those whose schemas are
        damaged are not known.
        """
        found = {
            schema.topic
            for _, schema in self._all()
            if codec is None or (isinstance(schema, Schema) and schema.codec == codec)
        }
        return sorted(name for name in found if name is not None)

    def check_topics(self, names: Collection[str]) -> None:
        """Refuse a topic that the log does not have.

        Raises
        ------
        TopicNotFoundError
            The message names a similar topic, or those that there are.
        """
        known = self.topics() if names else []
        for name in names:
            if name not in known:
                raise TopicNotFoundError(
                    f"the log has no topic {name!r}: {instead(name, known)}",
                    path=self._log.path,
                    topic=name,
                )

    def _all(
        self, topics: Collection[str] | None = None
    ) -> Iterator[tuple[int, Schema | SchemaError]]:
        """Yield the number of each schema with the schema, or with the error that it raises. With
        `topics`, those of other topics may be left out.
        """
        if self._log.mode == "r" and not self._is_complete():
            for number, value in self._scan():
                try:
                    found = self._read(number, value)
                except SchemaError as error:
                    yield number, error
                else:
                    _keep(self._known, number, found, _MOST_KNOWN)
                    yield number, found
            return
        if not self._is_complete():
            self._build()
        names = set(os.listdir(self._folder))
        for name, number in self._folded.new_among(names):
            try:
                schema = self.find(number)
            except SchemaError as error:
                yield number, error
            else:
                if schema is not None:
                    self._folded.add(name, number, schema)
        yield from self._folded.those_of(topics, names)

    def is_listed(self) -> bool:
        """Return whether `listed` has all schemas of the log."""
        return self._log.mode != "r" or self._is_complete()

    def listed(self) -> Iterator[Schema]:
        """Yield the schemas in the folder, or, without it, those that this handle has found; not
        those that cannot be read.
        """
        found = self._all() if self.is_listed() else list(self._known.items())
        return (schema for _, schema in found if isinstance(schema, Schema))

    def stamp(self) -> int:
        """Return a number that changes if the folder gets another schema."""
        try:
            return os.stat(self._folder).st_mtime_ns
        except OSError:
            return -1

    def find(self, number: int) -> Schema | None:
        """Return the schema of messages with a type number: from the folder, else from the
        records. If it is not found, a later search covers only the records that were appended
        since.
        """
        known = self._known.get(number)
        if known is None:
            known = self._search(number)
            if known is not None:
                _keep(self._known, number, known, _MOST_KNOWN)
        return known

    def schema_of(self, number: int) -> Schema:
        """Return the schema of messages with a type number.

        Raises
        ------
        SchemaError
            The log has none that this release can read.
        """
        schema = self.find(number)
        if schema is None:
            raise SchemaError(NO_SCHEMA)
        return schema

    def checked(self, number: int) -> Schema | SchemaError:
        """Return the schema of messages with a type number, or what is wrong with it."""
        try:
            return self.schema_of(number)
        except SchemaError as error:
            return error

    def _search(self, number: int) -> Schema | None:
        tail = self._log.tail_position
        missed = self._missed.get(number)
        if missed is not None and missed[0] == tail:
            return None
        with contextlib.suppress(OSError):
            with open(self._file_of(number), "rb") as file:
                content = file.read()
            if number_of(content) == number:
                return self._read(number, content)
        found = self._search_records(number, "first" if missed is None else missed[1], tail)
        if found is not None:
            self._missed.pop(number, None)
        return found

    def declare(self, schema: Schema) -> None:
        """Put a schema into the folder, durably, before its first record is appended.

        Raises
        ------
        SchemaError
            Another schema has the same number.
        """
        with translate_refusals(self._folder):
            if not self._is_complete():
                self._build()
            self._put(schema.number, schema.value, schema.topic)

    @property
    def lock_path(self) -> str:
        """Return the path of a file that the folder has, and that is never written to."""
        return os.path.join(self._folder, _COMPLETE)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other threads and processes that call this out, while schemas are found and
        declared.

        Raises
        ------
        IOFailureError
            Another one has kept this one out for 30 s.
        """
        with translate_refusals(self._folder):
            if not self._is_complete():
                self._build()
            fd = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            tries = attempts(_LOCK_WAIT_S, f"the lock on {self._folder}")
            if not any(lock_folder(fd, fcntl.LOCK_EX) for _ in tries):
                raise IOFailureError(
                    "another process has been declaring a schema of this log for "
                    f"{_LOCK_WAIT_S:g} s: check for a stopped process",
                    path=self._folder,
                    errno=errno.EAGAIN,
                )
            yield
        finally:
            fcntl.flock(fd, fcntl.LOCK_UN)  # also for a child that was forked meanwhile
            os.close(fd)

    def has_record(self, number: int) -> bool:
        """Return whether a record of the schema remains; the messages of a schema without any were
        deleted.
        """
        return self._position_of(number) is not None

    def forget(self, number: int) -> None:
        """Remove a schema from the folder, because its messages were deleted."""
        self._known.pop(number, None)
        if self._log.mode != "r":
            with contextlib.suppress(OSError):
                os.unlink(self._file_of(number))

    def _read(self, number: int, value: bytes) -> Schema:
        """Read a schema; an error names the log, and the position of its first record."""
        try:
            return Schema.of_value(value)
        except SchemaError as error:
            if number not in self._refused:
                _keep(self._refused, number, self._position_of(number), _MOST_KNOWN)
            error.path, error.position = self._log.path, self._refused[number]
            raise

    def _position_of(self, number: int) -> int | None:
        """Return the position of the first record of a schema that remains."""
        with self._log.tailer(on_damage="skip", visibility=self._visibility()) as tailer:
            return tailer.position if tailer.seek(key=key_of(number)) else None

    def _file_of(self, number: int) -> str:
        return os.path.join(self._folder, file_name(number))

    def _visibility(self) -> Visibility:
        return "committed" if self._log.mode == "r" else "appended"

    def _is_complete(self) -> bool:
        return os.path.exists(self.lock_path)

    def _build(self) -> None:
        """Make the folder. Several processes may do so at once, and may be killed meanwhile."""
        with contextlib.suppress(FileExistsError):
            os.mkdir(self._folder)
        failpoint("topics made")
        for number, value in self._scan():
            self._put(number, value)
        self._notes.add_file(FOLDER, _COMPLETE, b"")
        sync_directory(self._log.path)

    def _put(self, number: int, value: bytes, topic: str | None = None) -> None:
        name = file_name(number)
        if not self._notes.add_file(FOLDER, name, value):
            self._check_same(number, value, topic)

    def _check_same(self, number: int, value: bytes, topic: str | None) -> None:
        path = self._file_of(number)
        with open(path, "rb") as file:
            content = file.read()
        if content == value:
            return
        if number_of(content) == number:
            raise SchemaError(
                f"topic {topic!r}: another schema of this log has the same type number "
                f"{number}: {content.decode(errors='replace')}; give the topic another name",
                path=path,
                topic=topic,
            )
        os.unlink(path)  # damaged: the record is the truth
        self._put(number, value, topic)

    def _scan(self) -> Iterator[tuple[int, bytes]]:
        """Yield the value of each schema that the records have, by reading the whole log."""
        seen = set()
        with self._log.tailer(on_damage="skip", visibility=self._visibility()) as tailer:
            while len(batch := tailer.read_batch()):
                for row in np.flatnonzero(batch.types == SCHEMA_TYPE).tolist():
                    value = batch.value(row)
                    number = number_of(value)
                    if number not in seen and batch.key(row) == key_of(number):
                        seen.add(number)
                        yield number, value

    def _search_records(self, number: int, start: Start, tail: int) -> Schema | None:
        with self._log.tailer(on_damage="skip", visibility=self._visibility()) as tailer:
            tailer.seek("end")
            end = tailer.position
            try:
                tailer.seek(start)
            except PositionError:  # deleted, or no record begins there
                tailer.seek("first")
            while tailer.seek(key=key_of(number)):
                record = tailer.read()
                if record is None:
                    return None
                if record.type == SCHEMA_TYPE and number_of(record.value) == number:
                    return self._read(number, record.value)
        _keep(self._missed, number, (tail, end), _MOST_MISSED)
        return None


def instead(name: str, known: list[str], what: str = "topics") -> str:
    """Return the end of an error about an unknown topic: a similar topic, or all topics."""
    similar = difflib.get_close_matches(name, known, 1)
    if similar:
        return f"did you mean {similar[0]!r}?"
    if not known:
        return f"it has no {what}"
    more = f" and {len(known) - _MOST_SHOWN} more" if len(known) > _MOST_SHOWN else ""
    return f"it has {', '.join(known[:_MOST_SHOWN])}{more}"


def _keep(kept: dict[int, T], number: int, value: T, most: int) -> None:
    if len(kept) >= most:
        kept.clear()
    kept[number] = value
