"""Topic: append and read the messages of one class."""

from __future__ import annotations

import contextlib
import os
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import (
    Any,
    Generic,
    Literal,
    Self,
    TypeAlias,
    TypeVar,
    Unpack,
    is_typeddict,
    overload,
)

import numpy as np
import numpy.typing as npt

from commitlog._kernel.readers import Record
from commitlog.base.failpoint import failpoint
from commitlog.base.process_bound import ProcessBound
from commitlog.errors import (
    CommitLogError,
    InvalidOptionError,
    MessageError,
    MessageValueError,
    RecordTooLargeError,
    SchemaError,
    TopicNotFoundError,
)
from commitlog.log.commit_log import CommitLog, open_log
from commitlog.log.parts import Mode
from commitlog.messages.catalog import SchemaCatalog
from commitlog.messages.codec import Codec, CodecName, codec_for
from commitlog.messages.schema import SCHEMA_TYPE, Schema
from commitlog.messages.topic_tailer import OnUndecodable, TopicTailer, open_tailer
from commitlog.options import OptionOverrides
from commitlog.tail.name_options import Durable
from commitlog.tail.seek import Start, Visibility
from commitlog.tail.segment_holder import OnDamage
from commitlog.tail.tailer_folder import check_name

T = TypeVar("T")
Key: TypeAlias = bytes | bytearray
Positions = npt.NDArray[np.int64]
# More than a frame has beside key and value: its header and its padding, and a closing cell.
_FRAME_MOST = 48
_CLAIM_MOST = 1 << 16  # bytes of the records that are appended at once, as one claim


@dataclass(eq=False, slots=True)
class _Shared:
    """What the topics of one handle share.

    Attributes
    ----------
    classes : dict
        The class of each topic.
    position : int
        Of the record that the topics appended last.
    """

    classes: dict[str, Any] = field(default_factory=dict)
    position: int = 0


_SHARED: weakref.WeakKeyDictionary[CommitLog, _Shared] = weakref.WeakKeyDictionary()


class Topic(ProcessBound, Generic[T]):
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
        self, log: CommitLog, name: str, codec: Codec[T], shared: _Shared, *, validate: bool
    ) -> None:
        """Join a topic of an open log; only `commitlog.topic` calls this."""
        self.log = log
        self.name = name
        self.message_class = codec.message_class
        self._codec = codec
        self._shared = shared
        self._schema = Schema(name, codec.name, codec.form)
        self._type = self._schema.number
        self._checked_class = _class_to_check(codec.message_class)
        self._encode = _validating(codec, self._schema) if validate else codec.encode
        self._append = log.append
        self._owns_log = False
        self._is_declared = False
        # The end of the segment in which this handle has appended the schema. Behind `_far_end`,
        # an append first checks whether it fits the segment.
        self._segment_end = self._far_end = -1
        self._catalog = SchemaCatalog(log)
        self._check_schemas()

    # --- opening ----------------------------------------------------------------------------------

    def _check_schemas(self) -> None:
        known = [each for each in self._catalog.schemas().values() if each.topic == self.name]
        for schema in known:
            try:
                self._codec.decoder(schema)
            except SchemaError:
                if self._catalog.has_record(schema.number):
                    raise
                self._catalog.forget(schema.number)
        if not known and self.log.mode == "r":
            raise TopicNotFoundError(
                f"the log has no topic {self.name!r}: check the name, or open the log with mode "
                '"a" to create the topic',
                path=self.log.path,
                topic=self.name,
            )
        size = len(self._schema.value) + len(self._schema.key) + 8
        if self.log.mode != "r" and size > self.log.largest_value:
            raise RecordTooLargeError(
                f"the schema of topic {self.name!r} has {size} bytes, and a record of this log at "
                f"most {self.log.largest_value}: create the log with a larger segment_size",
                path=self.log.path,
                size=size,
                limit=self.log.largest_value,
            )

    # --- appending --------------------------------------------------------------------------------

    def append(
        self,
        message: T,
        *,
        key: Key | None = None,
        timestamp_ns: int | None = None,
        sync: bool | None = None,
    ) -> int:
        """Append one message.

        Parameters
        ----------
        message : object
            A message of the topic's class.
        key, timestamp_ns, sync
            As for `CommitLog.append`.

        Returns
        -------
        int
            The position of the message; -1 if it was dropped, as for `CommitLog.append`.

        Raises
        ------
        MessageError, MessageValueError, RecordTooLargeError
            The message is of another class, or its codec cannot encode a value. Nothing was
            appended.
        CommitLogError
            As for `CommitLog.append`.
        """
        if message.__class__ is not self._checked_class:
            self._check_class(message)
        try:
            value = self._encode(message)
        except (ValueError, TypeError, ArithmeticError, RecursionError) as error:
            raise self._value_error(message, error) from error
        shared = self._shared
        if (
            shared.position < self._far_end
            and key is None
            and timestamp_ns is None
            and sync is None
        ):
            position = shared.position = self._append(value, type=self._type)
            if position >= self._segment_end:
                self._declare_behind(position)
            return position
        return int(self._append_parts([value], [key], timestamp_ns, sync)[0])

    def append_many(
        self,
        messages: Iterable[T],
        *,
        keys: Iterable[Key | None] | None = None,
        timestamp_ns: int | None = None,
        sync: bool | None = None,
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
        values = self._encoded_many(list(messages))
        given = self._keys_for(values, keys)
        self._check_sizes(values, given)
        return self._append_parts(values, given, timestamp_ns, sync)

    async def append_async(
        self,
        message: T,
        *,
        key: Key | None = None,
        timestamp_ns: int | None = None,
        sync: bool | None = None,
    ) -> int:
        """Append one message; wait for durability as `CommitLog.append_async` does.

        Parameters
        ----------
        message, key, timestamp_ns, sync
            As for `append`.

        Returns
        -------
        int
            The position of the message; -1 if it was dropped.
        """
        value = self._encoded(message)
        position = -1
        for part in self._parts([value], [key], sync):
            positions = await self.log.append_many_async(
                part.values,
                keys=part.keys,
                types=part.types,
                timestamp_ns=timestamp_ns,
                sync=part.sync,
            )
            for each in self._noted(part, positions):
                position = int(each)
        return position

    def _encoded_many(self, messages: list[T]) -> list[bytes]:
        if set(map(type, messages)) == {self._checked_class}:
            with contextlib.suppress(ValueError, TypeError, ArithmeticError, RecursionError):
                return list(map(self._encode, messages))
        return [self._encoded(message) for message in messages]  # raises with the field

    # --- records ----------------------------------------------------------------------------------

    def _encoded(self, message: T) -> bytes:
        if message.__class__ is not self._checked_class:
            self._check_class(message)
        try:
            return self._encode(message)
        except (ValueError, TypeError, ArithmeticError, RecursionError) as error:
            raise self._value_error(message, error) from error

    def _append_parts(
        self, values: list[bytes], keys: list[Any], timestamp_ns: int | None, sync: bool | None
    ) -> Positions:
        found = [
            self._noted(
                part,
                self.log.append_many(
                    part.values,
                    keys=part.keys,
                    types=part.types,
                    timestamp_ns=timestamp_ns,
                    sync=part.sync,
                ),
            )
            for part in self._parts(values, keys, sync)
        ]
        return np.concatenate(found) if found else np.empty(0, dtype=np.int64)

    def _parts(self, values: list[bytes], keys: list[Any], sync: bool | None) -> Iterator[_Part]:
        """Yield lists of records, each of which is appended before the next one is asked for.

        A list has messages that fit the segment, which has the schema, or the schema and a message.
        """
        count = len(values)
        first = 0
        is_alone = False
        while first < count:
            last = self._fitting(values, keys, first)
            is_plain = last > first or is_alone
            last = max(last, first + 1)
            # The flush of the last part makes all of them durable.
            durable = sync if last == count or not sync else False
            if not is_plain:
                self._declare()
                is_alone = not self._fits_beside_schema(values[first], keys[first])
                if is_alone:
                    yield _Part([self._schema.value], [self._schema.key], [SCHEMA_TYPE], False)
                    continue
            types = [self._type] * (last - first)
            part = _Part(values[first:last], keys[first:last], types, durable)
            if not is_plain:
                part.values.insert(0, self._schema.value)
                part.keys.insert(0, self._schema.key)
                part.types.insert(0, SCHEMA_TYPE)
            yield part
            first = last
            is_alone = False

    def _fits_beside_schema(self, value: bytes, key: Any) -> bool:
        """Return whether the schema and a message are one claim. If they are not, make sure that
        the segment has room for both.
        """
        values, keys = [self._schema.value, value], [self._schema.key, key]
        length = _length(values, keys)
        if length <= min(_CLAIM_MOST, self.log.largest_value):
            return True
        if length > self.log.segment_size - self.log.tail_position % self.log.segment_size:
            self.log.roll()
        return False

    def _fitting(self, values: list[bytes], keys: list[Any], first: int) -> int:
        """Return the end of the messages from `first` on that fit the segment."""
        room = self._segment_end - _FRAME_MOST - self.log.tail_position
        if room <= 0:
            return first
        least = _length(values, keys) if first == 0 else room
        if least < room:
            return len(values)
        last = first
        while last < len(values):
            room -= _length(values[last : last + 1], keys[last : last + 1])
            if room <= 0:
                break
            last += 1
        return last

    def _declare(self) -> None:
        if not self._is_declared and self.log.mode != "r":
            self._catalog.declare(self._schema)
            self._is_declared = True

    def _noted(self, part: _Part, positions: Positions) -> Positions:
        """Note which segment has the schema; return the positions of the messages."""
        if part.types[0] == SCHEMA_TYPE:
            self._note(int(positions[0]))
            positions = positions[1:]
        last = int(positions.max(initial=-1))
        if last >= self._segment_end:
            self._declare_behind(last)
        self._shared.position = max(last, self._shared.position)
        return positions

    def _note(self, position: int) -> None:
        if position >= 0:
            size = self.log.segment_size
            self._segment_end = (position // size + 1) * size
            # Two of the largest records, an eighth of a segment each, fit behind it.
            self._far_end = self._segment_end - size // 4 - 2 * _FRAME_MOST

    def _declare_behind(self, position: int) -> None:
        """Append the schema to a segment that another appender, or the end of a cycle, began before
        this message.
        """
        failpoint("message in a new segment")
        # The message is appended: a failure must not say otherwise. The next append tries again.
        with contextlib.suppress(CommitLogError):
            self._note(
                self.log.append(
                    self._schema.value, key=self._schema.key, type=SCHEMA_TYPE, sync=False
                )
            )

    # --- checks -----------------------------------------------------------------------------------

    def _check_class(self, message: object) -> None:
        if self._checked_class is not None and not isinstance(message, self._checked_class):
            raise MessageError(
                f"topic {self.name!r} takes {_name_of(self.message_class)}, not "
                f"{type(message).__name__}: append it to its own topic",
                path=self.log.path,
            )

    def _keys_for(self, values: list[bytes], keys: Iterable[Any] | None) -> list[Any]:
        given = [None] * len(values) if keys is None else list(keys)
        if len(given) != len(values):
            raise InvalidOptionError(
                f"keys must have one key for each message: {len(given)} keys for {len(values)} "
                "messages",
                path=self.log.path,
            )
        return given

    def _check_sizes(self, values: list[bytes], keys: list[Any]) -> None:
        """Refuse before the first part is appended."""
        limit = self.log.largest_value - 8
        if (
            max(map(len, values), default=0) + max((len(key or b"") for key in keys), default=0)
            <= limit
        ):
            return
        for value, key in zip(values, keys, strict=True):
            size = len(value) + len(key or b"")
            if size > limit:
                raise RecordTooLargeError(
                    f"a message of topic {self.name!r} has {size} bytes with its key, and a record "
                    f"of this log has room for {limit}: split it, or create the log with a larger "
                    "segment_size",
                    path=self.log.path,
                    size=size,
                    limit=limit,
                )

    def _value_error(self, message: object, error: Exception) -> MessageValueError:
        field, value = _failing_field(message, self._codec.encode)
        where = "" if field is None else f" at $.{field}, which is {value!r}"
        return MessageValueError(
            f"a message of topic {self.name!r} cannot be encoded{where}: {error}",
            path=self.log.path,
        )

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

        Returns
        -------
        TopicTailer

        Raises
        ------
        TailerInUseError, CorruptTailerError, ReadOnlyError, DiskFullError, UnsupportedError
            As for `CommitLog.tailer`.
        """
        return open_tailer(
            self.log,
            [self._codec_by_name()],
            on_undecodable,
            name=name,
            start=start,
            visibility=visibility,
            on_damage=on_damage,
            durable=durable,
        )

    def _codec_by_name(self) -> tuple[str, Codec[T]]:
        return self.name, self._codec

    # --- the end ----------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the log if `commitlog.topic` opened it. A second call does nothing."""
        if self._owns_log:
            self.log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Topic {self.name!r} of {self.log.path!r}>"


@dataclass
class _Part:
    """Records to append at once."""

    values: list[bytes]
    keys: list[Any]
    types: list[int]
    sync: bool | None


def _length(values: list[bytes], keys: list[Any]) -> int:
    """Return at least how many bytes the frames take."""
    keyed = [key for key in keys if key is not None]
    return sum(map(len, values)) + sum(map(len, keyed)) + len(values) * _FRAME_MOST


def _class_to_check(message_class: Any) -> Any:
    """Return the class that messages have; None if the codec alone can tell."""
    if is_typeddict(message_class):
        return dict
    return message_class if isinstance(message_class, type) else None


def _name_of(message_class: Any) -> str:
    return str(getattr(message_class, "__name__", message_class))


def _validating(codec: Codec[T], schema: Schema) -> Callable[[T], bytes]:
    """Return an encoder that refuses what the decoder would refuse."""
    encode, decode = codec.encode, codec.decoder(schema)

    def validated(message: T) -> bytes:
        value = encode(message)
        decode(value)
        return value

    return validated


def _failing_field(message: Any, encode: Callable[[Any], bytes]) -> tuple[str | None, Any]:
    """Return the name and the value of the first field that cannot be encoded alone."""
    if isinstance(message, dict):
        fields = dict(message)
    else:
        names: Iterable[str] = getattr(
            message, "__struct_fields__", getattr(message, "__dataclass_fields__", ())
        )
        fields = {name: getattr(message, name) for name in names if hasattr(message, name)}
    for name, value in fields.items():
        try:
            encode(value)
        except (ValueError, TypeError, ArithmeticError, RecursionError):
            return str(name), value
    return None, None


def open_topic(
    log: CommitLog | str | os.PathLike[str],
    message_class: type[T],
    *,
    name: str | None = None,
    codec: CodecName | Codec[T] | None = None,
    validate: bool = False,
    mode: Mode = "a",
    **overrides: Unpack[OptionOverrides],
) -> Topic[T]:
    """Open a topic: append and read messages of one class. Create it if the log has none.

    Parameters
    ----------
    log : CommitLog, str or path-like
        An open log, which several topics may share, or the path of a log to open.
    message_class : type
        A `msgspec.Struct`, a dataclass, a TypedDict, another type of msgspec, a generated class of
        Protocol Buffers, a `bus.Message`, or the class of `codec`.
    name : str, optional
        The name of the topic, in the form of a named tailer's; by default the name of the class.
    codec : {"json", "msgpack", "protobuf", "fixed"} or Codec, optional
        How messages are encoded; by default the class decides, and "json" is the choice for those
        of msgspec. `topics.AvroCodec` and `topics.ArrowCodec` take a schema.
    validate : bool
        Decode each message before it is appended, to refuse values of wrong types. Without it, the
        appender trusts the annotations, and a reader meets what cannot be decoded.
    mode, **overrides
        As for `commitlog.open`, if `log` is a path.

    Returns
    -------
    Topic
        Close it, or use it in a `with` statement, if `log` is a path.

    Raises
    ------
    InvalidOptionError, MessageError
        The name or the codec is invalid, the codec cannot encode the class, or this handle has the
        topic with another class.
    SchemaError
        The class cannot take messages that the log has: the error has both schemas and the field.
    TopicNotFoundError
        The log is open with mode "r" and has no such topic.
    MissingExtraError
        A package of the codec is not installed: the error names the extra.
    CommitLogError
        As for `commitlog.open`, if `log` is a path.
    """
    made = codec_for(message_class, codec)
    title = check_name(_name_of(message_class) if name is None else name)
    if isinstance(log, CommitLog):
        if overrides or mode != "a":
            given = ", ".join(["mode"] * (mode != "a") + [*overrides])
            raise InvalidOptionError(f"{given}: an open log has its options; give them to open()")
        return _joined(log, title, made, validate=validate)
    opened = open_log(log, mode, **overrides)
    try:
        topic = _joined(opened, title, made, validate=validate)
    except BaseException:
        opened.close()
        raise
    topic._owns_log = True
    return topic


def _joined(log: CommitLog, name: str, codec: Codec[T], *, validate: bool) -> Topic[T]:
    shared = _SHARED.setdefault(log, _Shared())
    known = shared.classes.get(name, codec.message_class)
    if known is not codec.message_class:
        raise MessageError(
            f"topic {name!r} of this handle has the class {known!r}, not {codec.message_class!r}: "
            "give one of them another name=",
            path=log.path,
        )
    topic = Topic(log, name, codec, shared, validate=validate)
    shared.classes[name] = codec.message_class
    return topic


def open_tailer_of(
    topics: Sequence[Topic[T]],
    name: str | None = None,
    *,
    start: Start | None = None,
    visibility: Visibility = "committed",
    on_damage: OnDamage = "raise",
    on_undecodable: OnUndecodable = "raise",
    durable: Durable = False,
) -> TopicTailer[T]:
    """Create a tailer that reads the messages of several topics in the order of the log.

    Parameters
    ----------
    topics : sequence of Topic
        Topics of one open log.
    name, start, visibility, on_damage, on_undecodable, durable
        As for `Topic.tailer`.

    Returns
    -------
    TopicTailer
        It yields objects of the classes of the topics.

    Raises
    ------
    InvalidOptionError
        There is no topic, or the topics have different logs.
    """
    if not topics or any(topic.log is not topics[0].log for topic in topics):
        raise InvalidOptionError("topics must be at least one topic, and all of one open log")
    return open_tailer(
        topics[0].log,
        [topic._codec_by_name() for topic in topics],
        on_undecodable,
        name=name,
        start=start,
        visibility=visibility,
        on_damage=on_damage,
        durable=durable,
    )
