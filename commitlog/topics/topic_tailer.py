"""TopicTailer: read messages as objects."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, Literal, Self, TypeAlias, TypeVar

from commitlog import CommitLog, Record, Tailer
from commitlog.base.process_bound import ProcessBound
from commitlog.base.units import Duration, parse_duration
from commitlog.errors import (
    KeyUnavailableError,
    UndecodableError,
)
from commitlog.extension import view_of
from commitlog.topics.choices import check_choice
from commitlog.topics.handled import HANDLED, Handled
from commitlog.topics.history import History
from commitlog.topics.message_decoders import MessageDecoders, NotDecodedError, TopicReading
from commitlog.topics.schema import SCHEMA_TYPE
from commitlog.topics.value_path import value_at
from commitlog.types import Durable, Idle, OnDamage, Start, Timestamp, Visibility

T = TypeVar("T")
OnUndecodable: TypeAlias = Literal["raise", "skip", "raw"]
_PATH = re.compile(r"`(\$[^`]*)`$")
_SKIPPED: Any = object()  # in place of a message; a message may be None


class TopicTailer(ProcessBound, Generic[T]):
    """Read the messages of one topic or several, in order; `Topic.tailer` returns it.

    Only one thread at a time may use it. Records that are no messages of its topics are skipped.
    Under a name, it continues where the last tailer of that name ended; if a loop is left early,
    it yields the last message again.

    Attributes
    ----------
    record : Record or None
        The record of the message that was read last, with its position, time, sequence and key.
    undecodable : int
        How many messages could not be decoded and were skipped or yielded as records.
    """

    def __init__(
        self,
        log: CommitLog,
        tailer: Tailer,
        topics: dict[str, TopicReading],
        on_undecodable: OnUndecodable,
        on_missing_key: OnUndecodable = "raise",
    ) -> None:
        """Wrap a tailer; only `Topic.tailer` calls this."""
        self.record: Record | None = None
        self.undecodable = 0
        self._log = log
        self._tailer = tailer
        self._decoders = MessageDecoders(log, topics)
        self._on_undecodable = on_undecodable
        self._on_missing_key = on_missing_key

    # --- reading ----------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[T]:
        return self._messages(self._tailer.__iter__)

    def _messages(self, begin: Callable[[], Iterable[Record]]) -> Iterator[T]:
        decoders = self._decoders
        for record in begin():
            decode = decoders[record.type]
            if decode is None:
                if record.type in decoders.of_records:
                    message = self._decode(record)
                    if message is not _SKIPPED:
                        yield message
                elif record.type == SCHEMA_TYPE:
                    decoders.note(record)
                continue
            try:
                message = decode(record.value)
            except (ValueError, RecursionError) as error:
                message = self._undecodable(record, error)
                if message is _SKIPPED:
                    continue
            self.record = record
            yield message

    def read(self, timeout: Duration | None = 0, idle: Idle = "backoff") -> T | None:
        """Read the next message, and move past it.

        Parameters
        ----------
        timeout, idle
            As for `Tailer.read`.

        Returns
        -------
        object or None
            None if no message arrived in time. For a message that is None, `record` is its record.

        Raises
        ------
        UndecodableError
            The message cannot be decoded, and `on_undecodable` is "raise".
        KeyUnavailableError
            The message is sealed, and the key ring has no key for it.
        """
        end = None if timeout is None else time.monotonic() + parse_duration(timeout, "timeout")
        while True:
            left = None if end is None else max(0.0, end - time.monotonic())
            record = self._tailer.read(left, idle)
            if record is None:
                return None
            message: T | Any = self._decode(record)
            if message is not _SKIPPED:
                return message

    @contextlib.contextmanager
    def reading(self, timeout: Duration | None = 0, idle: Idle = "backoff") -> Iterator[T | None]:
        """Read the next message for a `with` block; an exception in the block rewinds the tailer.

        Messages that are appended to topics in the block carry the history of this one.

        Parameters
        ----------
        timeout, idle
            As for `Tailer.read`.

        Yields
        ------
        object or None
            None if no message arrived in time.
        """
        end = None if timeout is None else time.monotonic() + parse_duration(timeout, "timeout")
        while True:
            left = None if end is None else max(0.0, end - time.monotonic())
            with self._tailer.reading(left, idle) as record:
                message = None if record is None else self._decode(record)
                if record is None:
                    yield None
                    return
                if message is not _SKIPPED:
                    with self._handling(record):
                        yield message
                    return

    @contextlib.contextmanager
    def _handling(self, record: Record) -> Iterator[None]:
        """Give the history of a message to what is written in a `with` block."""
        handled = Handled(self._log, self._decoders.has_history)
        handled.begin(record)
        token = HANDLED.set(handled)
        try:
            yield
        finally:
            handled.is_over = True
            HANDLED.reset(token)

    def follow(self, timeout: Duration | None = None, idle: Idle = "backoff") -> MessageLoop[T]:
        """Iterate over messages as they arrive, without end.

        Parameters
        ----------
        timeout : float, str or None
            End if no record arrives for that long; None ends only when the log is closed.
        idle : {"spin", "yield", "backoff", "block"}
            How to wait: see `Tailer.follow`.

        Returns
        -------
        MessageLoop
            Usable in `for` and in `async for`.
        """
        return MessageLoop(self, lambda: self._tailer.follow(timeout, idle))

    def _decode(self, record: Record) -> Any:
        """Decode a record; `_SKIPPED` if the tailer skips it."""
        decode = self._decoders[record.type]
        message: Any
        try:
            if decode is not None:
                message = decode(record.value)
            elif record.type in self._decoders.of_records:
                message = self._decoders.of_records[record.type].of_record(record)
            else:
                if record.type == SCHEMA_TYPE:
                    self._decoders.note(record)
                return _SKIPPED
        except KeyUnavailableError:
            if self._on_missing_key == "raise":
                self._tailer.seek(record.position)
                raise
            self.undecodable += 1
            if self._on_missing_key == "skip":
                return _SKIPPED
            message = record
        except (ValueError, RecursionError) as error:
            message = self._undecodable(record, error)
            if message is _SKIPPED:
                return _SKIPPED
        self.record = record
        return message

    def _undecodable(self, record: Record, error: Exception) -> Any:
        if self._on_undecodable == "raise":
            self._tailer.seek(record.position)
            raise self._error(record, error) from error
        self.undecodable += 1
        return record if self._on_undecodable == "raw" else _SKIPPED

    def _error(self, record: Record, error: Exception) -> UndecodableError:
        schema = self._decoders.schemas.get(record.type)
        path = _PATH.search(str(error))
        field = error.field if isinstance(error, NotDecodedError) else path[1] if path else None
        value = None
        if schema is not None and field is not None:
            value = value_at(lambda: self._decoders.plain(schema), record, field)
        return UndecodableError(
            f"{'a message' if schema is None else f'a message of topic {schema.topic!r}'} cannot "
            f"be decoded: {error}{'' if value is None else f', which is {value}'}; correct the "
            'message class, or read with on_undecodable="skip" or "raw"',
            path=self._log.path,
            position=record.position,
            topic=None if schema is None else schema.topic,
            field=field,
        )

    # --- the position -----------------------------------------------------------------------------

    @property
    def history(self) -> History | None:
        """Return the history of the message that was read last; None if it has none.

        Raises
        ------
        UndecodableError
            The history is damaged.
        """
        record = self.record
        if record is None or not self._decoders.has_history(record.type):
            return None
        try:
            return History.of_value(record.value)
        except ValueError as error:
            raise self._error(record, error) from error

    @property
    def headers(self) -> dict[str, bytes]:
        """Return the headers of the message that was read last; empty if it has none."""
        return {} if self.record is None else self.record.headers

    @property
    def key(self) -> bytes | None:
        """Return the key that the message that was read last was appended with. `record.key` is the
        key that the log has, which a topic with `seal_keys=True` encrypts.

        Raises
        ------
        UndecodableError
            The key is not authentic.
        KeyUnavailableError
            The key is sealed, and the key ring has no key for it.
        """
        record = self.record
        if record is None:
            return None
        try:
            return self._decoders.key_of(record)
        except ValueError as error:
            raise self._error(record, error) from error
        except KeyUnavailableError as error:
            error.position = record.position
            raise

    @property
    def name(self) -> str | None:
        """Return the name under which the position is saved; None if it is not saved."""
        return self._tailer.name

    @property
    def position(self) -> int:
        """Return the position of the next read."""
        return self._tailer.position

    @property
    def next_sequence(self) -> int:
        """Return the sequence of the next record, of any kind: for `expect=`, if the tailer has
        read all messages.
        """
        view = view_of(self._log)
        view.check_open()
        return view.sequence_of(self._tailer.position)

    def seek(
        self,
        position: Start | None = None,
        *,
        sequence: int | None = None,
        timestamp: Timestamp | None = None,
        key: bytes | None = None,
    ) -> bool:
        """Move the tailer before the record that exactly one of the arguments selects.

        Parameters
        ----------
        position, sequence, timestamp, key
            As for `Tailer.seek`. The key is the one that a message was appended with.

        Returns
        -------
        bool
            As for `Tailer.seek`.

        Raises
        ------
        KeyUnavailableError
            The keys of a topic are sealed, and the key ring has no key for them.
        """
        self._decoders.refresh()
        if isinstance(key, bytes) and (position, sequence, timestamp) == (None, None, None):
            return self._seek_key(key)
        return self._tailer.seek(position, sequence=sequence, timestamp=timestamp, key=key)

    def _seek_key(self, key: bytes) -> bool:
        """Move before the next record that has a key, as it is or sealed."""
        tailer = self._tailer
        start, found = tailer.position, []
        for stored in self._decoders.stored_keys(key):
            if tailer.seek(key=stored):
                found.append(tailer.position)
                tailer.seek(start)
        if found:
            tailer.seek(min(found))
        return bool(found)

    def close(self) -> None:
        """Release the segment and the name. A second call does nothing."""
        self._tailer.close()

    def __repr__(self) -> str:
        return f"<TopicTailer at {self._tailer.position} of {self._log.path!r}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class MessageLoop(Generic[T]):
    """Iterate over messages as they arrive, in `for` or in `async for`."""

    def __init__(self, owner: TopicTailer[T], begin: Callable[[], Any]) -> None:
        """Prepare a loop; only `TopicTailer.follow` calls this."""
        self._owner = owner
        self._begin = begin

    def __iter__(self) -> Iterator[T]:
        return self._owner._messages(self._begin)

    async def __aiter__(self) -> AsyncIterator[T]:
        async for record in self._begin():
            message = self._owner._decode(record)
            if message is not _SKIPPED:
                yield message


def open_tailer(
    log: CommitLog,
    topics: Sequence[tuple[str, TopicReading]],
    on_undecodable: OnUndecodable,
    on_missing_key: OnUndecodable,
    *,
    name: str | None,
    start: Start | None,
    visibility: Visibility,
    on_damage: OnDamage,
    durable: Durable,
) -> TopicTailer[Any]:
    """Open a tailer for topics, by their names: see `Topic.tailer`."""
    check_choice("on_undecodable", on_undecodable, ("raise", "skip", "raw"))
    check_choice("on_missing_key", on_missing_key, ("raise", "skip", "raw"))
    tailer = log.tailer(
        name, start=start, visibility=visibility, on_damage=on_damage, durable=durable
    )
    return TopicTailer(log, tailer, dict(topics), on_undecodable, on_missing_key)
