"""Topic: append and read the messages of one class."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal, Self, TypeVar, overload

from commitlog import CommitLog, Record
from commitlog.base.process_bound import ProcessBound
from commitlog.extension import view_of
from commitlog.topics.appender import Condition, ProducerNumber
from commitlog.topics.arrow import to_arrow
from commitlog.topics.compiled.messages import DeclaredSegment, TopicWriter
from commitlog.topics.draft import Headers, Key
from commitlog.topics.encoder import MessageEncoder
from commitlog.topics.handled import HANDLED
from commitlog.topics.message_decoders import TopicReading
from commitlog.topics.part import Positions
from commitlog.topics.pipe import TopicPipe
from commitlog.topics.topic_tailer import OnUndecodable, TopicTailer, open_tailer
from commitlog.topics.topics_state import state_of
from commitlog.types import Durable, OnDamage, Start, Visibility

T = TypeVar("T")


class Topic(ProcessBound, TopicWriter[T]):
    """Append and read the messages of one class; `commitlog.topic` returns it.

    Any thread may use it. A message is a record whose type number stands for the topic, the codec
    and the version of the schema. The schema is a record, too, before the first message of each
    segment.

    Attributes
    ----------
    log : CommitLog
        The log of the topic.
    name : str
        The name of the topic.
    message_class : type
        The class of its messages.
    """

    def __init__(
        self,
        log: CommitLog,
        reading: TopicReading,
        encoder: MessageEncoder[T],
        pipe: TopicPipe,
        *,
        name: str,
        owns_log: bool,
    ) -> None:
        """Take the parts of a topic; only `commitlog.topic` calls this."""
        super().__init__(
            log,
            encoder.message_class,
            encoder.encode,
            encoder.screen,
            pipe,
            None if pipe.plain is None else pipe.plain.type,
            state_of(log).last,
            DeclaredSegment() if pipe.plain is None else pipe.plain.declared,
            HANDLED,
        )
        self.log = log
        self._view = view_of(log)
        self.name = name
        self.message_class = reading.codec.message_class
        self._reading = reading
        self._encoder = encoder
        self._pipe = pipe
        self._owns_log = owns_log

    # --- appending --------------------------------------------------------------------------------

    def _append_otherwise(
        self,
        message: T,
        given: tuple[Key | None, int | None, bool | None],
        expect: int | None,
        number: tuple[str | None, int | None],
        headers: Headers | None,
    ) -> int:
        """Append a message with headers or on a condition, while another one is handled, or of a
        wrong class or value; `given` has its key, its timestamp and `sync`, and `number` its
        producer and that one's number for it.
        """
        value = self._encoder.encoded(message)
        condition: Condition = expect
        if number != (None, None):
            condition = self._number(*number, expect)
        return self._pipe.append(value, *given, condition, headers=headers)

    def append_many(
        self,
        messages: Iterable[T],
        *,
        keys: Iterable[Key | None] | None = None,
        timestamp_ns: int | None = None,
        sync: bool | None = None,
        expect: int | None = None,
        headers: Iterable[Headers | None] | None = None,
    ) -> Positions:
        """Append a list of messages, after encoding all of them.

        Parameters
        ----------
        messages : iterable
            Messages of the topic's class.
        keys : iterable of bytes-like or None, optional
            One for each message.
        timestamp_ns, sync
            As for `CommitLog.append_many`.
        expect : int, optional
            As for `append`: all messages are appended, or none of them.
        headers : iterable of mapping or None, optional
            One for each message.

        Returns
        -------
        numpy.ndarray
            The positions, int64, one per message; -1 for a dropped one.

        Raises
        ------
        MessageError, MessageValueError, RecordTooLargeError
            A message is of another class, or cannot be encoded. Nothing was appended.
        CommitLogError
            As for `CommitLog.append_many`.
        """
        values = self._encoder.encoded_many(list(messages))
        return self._pipe.append_many(values, keys, timestamp_ns, sync, expect, headers=headers)

    async def append_async(
        self,
        message: T,
        *,
        key: Key | None = None,
        timestamp_ns: int | None = None,
        sync: bool | None = None,
        expect: int | None = None,
        producer: str | None = None,
        producer_sequence: int | None = None,
        headers: Headers | None = None,
    ) -> int:
        """Append one message; wait for durability as `CommitLog.append_async` does.

        Parameters
        ----------
        message, key, timestamp_ns, sync, expect, producer, producer_sequence, headers
            As for `append`.

        Returns
        -------
        int
            The position of the message; -1 if it was dropped.
        """
        value = self._encoder.encoded(message)
        condition: Condition = expect
        if producer is not None or producer_sequence is not None:
            condition = self._number(producer, producer_sequence, expect)
        return await self._pipe.append_async(
            value, key, timestamp_ns, sync, condition, headers=headers
        )

    def _number(self, producer: object, sequence: object, expect: object) -> ProducerNumber:
        """Check the arguments before the schema is appended."""
        return ProducerNumber(*self._view.check_producer(producer, sequence, expect))

    # --- reading ----------------------------------------------------------------------------------

    @overload
    def tailer(
        self,
        name: str | None = None,
        *,
        start: Start | None = None,
        visibility: Visibility = "committed",
        on_damage: OnDamage = "raise",
        on_undecodable: Literal["raise", "skip"] = "raise",
        on_missing_key: Literal["raise", "skip"] = "raise",
        durable: Durable = False,
    ) -> TopicTailer[T]: ...
    @overload
    def tailer(
        self,
        name: str | None = None,
        *,
        start: Start | None = None,
        visibility: Visibility = "committed",
        on_damage: OnDamage = "raise",
        on_undecodable: Literal["raw"],
        on_missing_key: OnUndecodable = "raise",
        durable: Durable = False,
    ) -> TopicTailer[T | Record]: ...
    def tailer(
        self,
        name: str | None = None,
        *,
        start: Start | None = None,
        visibility: Visibility = "committed",
        on_damage: OnDamage = "raise",
        on_undecodable: OnUndecodable = "raise",
        on_missing_key: OnUndecodable = "raise",
        durable: Durable = False,
    ) -> TopicTailer[Any]:
        """Create a tailer that reads the topic's messages as objects.

        Parameters
        ----------
        name, start, visibility, on_damage, durable
            As for `CommitLog.tailer`.
        on_undecodable : {"raise", "skip", "raw"}
            What to do with a message that cannot be decoded: raise `UndecodableError` and stay
            before it; skip and count it; or yield its `Record`.
        on_missing_key : {"raise", "skip", "raw"}
            Likewise, with an encrypted message that the key ring has no key for: `skip` loses it,
            if the key only arrives later. By default `KeyUnavailableError` is raised.

        Returns
        -------
        TopicTailer

        Raises
        ------
        InUseError, CorruptTailerError, ReadOnlyError, DiskFullError, UnsupportedError
            As for `CommitLog.tailer`.
        """
        return open_tailer(
            self.log,
            [self._named_reading()],
            on_undecodable,
            on_missing_key,
            name=name,
            start=start,
            visibility=visibility,
            on_damage=on_damage,
            durable=durable,
        )

    def _named_reading(self) -> tuple[str, TopicReading]:
        return self.name, self._reading

    # --- the end ----------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the log if `commitlog.topic` opened it. A second call does nothing."""
        if self._owns_log:
            self.log.close()

    def __iter__(self) -> Iterator[T]:
        """Iterate from the oldest message to the last one at the time of the call; what cannot be
        decoded raises. To go on from there, or to wait for messages, use `tailer`.
        """
        return self._below(self._view.committed_position)

    def _below(self, end: int) -> Iterator[T]:
        with self.tailer() as tailer:
            for message in tailer:
                if tailer.record is None or tailer.record.position >= end:
                    return
                yield message

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export the messages of `topics.to_arrow` through Arrow's C interface; needs pyarrow. The
        column `message` is a struct of the message's fields. All messages are read into memory.
        """
        found = to_arrow(self.log, [self.name])
        place = found.schema.get_field_index("message")
        fields = found.column(place).combine_chunks().field(self.name)
        found = found.drop_columns(["topic"]).set_column(place - 1, "message", fields)
        return found.__arrow_c_stream__(requested_schema)

    def __enter__(self) -> Self:
        self._view.check_open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Topic {self.name!r} of {self.log.path!r}>"
