"""Open topics, and tailers of several topics."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar, Unpack

from commitlog import CommitLog
from commitlog import open as open_log
from commitlog.base.name import check_name
from commitlog.base.option import check_switches
from commitlog.errors import (
    InvalidOptionError,
    MessageError,
    RecordTooLargeError,
    SchemaError,
)
from commitlog.extension import view_of
from commitlog.options import OptionOverrides
from commitlog.topics.agreement import Agreement
from commitlog.topics.catalog import SchemaCatalog
from commitlog.topics.codec import Codec, CodecName, codec_for, typed_decoder
from commitlog.topics.compression import (
    DICTIONARY_BYTES,
    Compression,
    Zstd,
    form_of,
    zstd_of,
)
from commitlog.topics.encoder import MessageEncoder, name_of
from commitlog.topics.key_ring import KeyRing, key_ring_of
from commitlog.topics.message_decoders import TopicReading
from commitlog.topics.pipe import Layer, TopicPipe
from commitlog.topics.record_keys import RecordKeys
from commitlog.topics.schema import Schema
from commitlog.topics.seal_layer import has_sealed_keys, is_sealed
from commitlog.topics.sealed_dictionary import SEAL_BYTES
from commitlog.topics.sealer import MessageSealer
from commitlog.topics.topic import Topic
from commitlog.topics.topic_compressor import TopicCompressor
from commitlog.topics.topic_dictionary import TopicDictionary
from commitlog.topics.topic_tailer import OnUndecodable, TopicTailer, open_tailer
from commitlog.topics.topics_state import state_of
from commitlog.types import Durable, Mode, OnDamage, Start, Visibility

T = TypeVar("T")


def open_topic(
    log: CommitLog | str | os.PathLike[str],
    message_class: type[T],
    *,
    name: str | None = None,
    codec: CodecName | Codec[T] | None = None,
    validate: bool = False,
    history: bool = True,
    compress: Compression | None = None,
    keys: KeyRing | None = None,
    seal_keys: bool = False,
    seal_positions: bool = False,
    mode: Mode = "a",
    **overrides: Unpack[OptionOverrides],
) -> Topic[T]:
    """Open a topic: append and read messages of one class.

    The first append creates it. A reader may open it before, and then waits for its first message.

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
        Decode each message before it is appended, to refuse values of wrong types. Without it, such
        a message is appended, and readers cannot decode it.
    history : bool
        Give each message that is appended while another one is handled a history: see `History`. It
        takes 16 bytes, and 40 for each hop. Without it, readers cannot find where such a message
        came from.
    compress : "zstd" or topics.Zstd, optional
        Compress each message, with a dictionary that the log keeps. Readers need no option. The
        append that completes the first 256 messages trains the dictionary, in about 20 ms.
    keys : topics.KeyRing, optional
        Encrypt each message, by keys that this ring wraps. Readers need a ring, too. By default it
        is that of the environment variable `COMMITLOG_KEYS`, and messages are encrypted only if the
        topic has encrypted messages already. An append that begins to encrypt them raises
        `InUseError` while an open log has appended to the topic without encryption.
    seal_keys : bool
        Encrypt the record keys, too: what `key=` takes. Equal keys of the topic stay equal, so
        seeks by key work. A topic that has encrypted record keys keeps encrypting them.
    seal_positions : bool
        Bind each message to its position. Readers refuse one that was moved, repeated or reordered
        in the files, and the tailers of this topic each one that is not bound. A topic that has
        bound messages keeps binding them, and takes no `producer=`.
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
    MissingExtraError
        A package of the codec, the compression or the encryption is not installed: the error names
        the extra.
    CommitLogError
        As for `commitlog.open`, if `log` is a path.
    """
    check_switches(
        validate=validate, history=history, seal_keys=seal_keys, seal_positions=seal_positions
    )
    made = codec_for(message_class, codec)
    zstd = zstd_of(compress)
    title = check_name(name_of(message_class) if name is None else name)

    def join(log: CommitLog, *, owns_log: bool) -> Topic[T]:
        return _join(
            log,
            title,
            made,
            zstd,
            keys,
            seal_keys=seal_keys,
            seal_positions=seal_positions,
            validate=validate,
            history=history,
            owns_log=owns_log,
        )

    if isinstance(log, CommitLog):
        if overrides or mode != "a":
            given = ", ".join(["mode"] * (mode != "a") + [*overrides])
            raise InvalidOptionError(f"{given}: an open log has its options; give them to open()")
        return join(log, owns_log=False)
    opened = open_log(log, mode, **overrides)
    try:
        return join(opened, owns_log=True)
    except BaseException:
        opened.close()
        raise


def _join(
    log: CommitLog,
    name: str,
    codec: Codec[T],
    zstd: Zstd | None,
    keys: KeyRing | None,
    *,
    seal_keys: bool,
    seal_positions: bool,
    validate: bool,
    history: bool,
    owns_log: bool,
) -> Topic[T]:
    """Make a topic of its parts: the encoder makes values, and the pipe appends them."""
    state = state_of(log)
    known = state.classes.get(name, codec.message_class)
    if known is not codec.message_class and not _is_redefined(known, codec.message_class):
        raise MessageError(
            f"topic {name!r} of this handle has the class {known!r}, not {codec.message_class!r}: "
            "give one of them another name=, or open the log again if this class replaces that one",
            path=log.path,
        )
    schema = Schema(name, codec.name, codec.form)
    schemas = _checked_schemas(log, state.catalog, codec, schema)
    ring = key_ring_of(keys)
    seals = keys is not None or any(map(is_sealed, schemas.values()))
    for option, is_given in ("seal_keys", seal_keys), ("seal_positions", seal_positions):
        if is_given and not seals:
            raise InvalidOptionError(f"{option}=True needs keys=: give the topic a key ring")
    _check_size(log, schema, zstd, SEAL_BYTES if seals else 0)
    layers: list[Layer] = []
    if zstd is not None:
        dictionary = TopicDictionary(log, schema, schemas, ring, seals=seals)
        layers.append(TopicCompressor(log, schema, zstd, dictionary))
    if seals:
        agreed = Agreement(log, name, binds=seal_positions).layer
        record_keys = None
        if seal_keys or any(map(has_sealed_keys, schemas.values())):
            record_keys = RecordKeys(log, schema, ring, agreed)
        layers.append(MessageSealer(log, ring, agreed, record_keys))
    stats = view_of(log).topic_stats(name) if layers else None
    topic = Topic(
        log,
        TopicReading(codec, ring, seal_positions),
        MessageEncoder(codec, schema, path=log.path, validate=validate),
        TopicPipe(log, schema, layers, history=history, stats=stats),
        name=name,
        owns_log=owns_log,
    )
    state.classes[name] = codec.message_class
    return topic


def _is_redefined(known: Any, given: Any) -> bool:
    """Return whether a class statement ran again, as in a notebook. Its messages are those of the
    same topic, if its schema can read them.
    """
    return (
        isinstance(known, type)
        and isinstance(given, type)
        and (known.__module__, known.__qualname__) == (given.__module__, given.__qualname__)
    )


def _checked_schemas(
    log: CommitLog, catalog: SchemaCatalog, codec: Codec[Any], schema: Schema
) -> dict[int, Schema]:
    """Return the schemas of the topic; refuse a class that cannot take its messages."""
    known = catalog.schemas_of(schema.topic)
    for number, each in known.items():
        try:
            typed_decoder(codec, each)
        except SchemaError as error:
            if catalog.has_record(number):
                error.path = log.path
                raise
            catalog.forget(number)
    return known


def _check_size(log: CommitLog, schema: Schema, zstd: Zstd | None, more: int) -> None:
    """Refuse a schema that has no room, with the dictionary that it may get."""
    if zstd is not None:
        given = zstd.dictionary
        dictionary = bytes(DICTIONARY_BYTES) if given is None else given
        schema = replace(schema, layers=(form_of(dictionary + bytes(more)),))
    size = len(schema.value) + len(schema.key) + 8
    if log.mode != "r" and size > log.largest_value:
        raise RecordTooLargeError(
            f"the schema of topic {schema.topic!r} has {size} bytes, and a record of this log at "
            f"most {log.largest_value}: create the log with a larger segment_size",
            path=log.path,
            size=size,
            limit=log.largest_value,
        )


def open_tailer_of(
    topics: Sequence[Topic[T]],
    name: str | None = None,
    *,
    start: Start | None = None,
    visibility: Visibility = "committed",
    on_damage: OnDamage = "raise",
    on_undecodable: OnUndecodable = "raise",
    on_missing_key: OnUndecodable = "raise",
    durable: Durable = False,
) -> TopicTailer[T]:
    """Create a tailer that reads the messages of several topics in the order of the log.

    Parameters
    ----------
    topics : sequence of Topic
        Topics of one open log.
    name, start, visibility, on_damage, on_undecodable, on_missing_key, durable
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
    if isinstance(topics, Topic):
        raise InvalidOptionError("topics must be a list of topics: use Topic.tailer for one topic")
    if not topics or any(topic.log is not topics[0].log for topic in topics):
        raise InvalidOptionError("topics must be at least one topic, and all of one open log")
    return open_tailer(
        topics[0].log,
        [topic._named_reading() for topic in topics],
        on_undecodable,
        on_missing_key,
        name=name,
        start=start,
        visibility=visibility,
        on_damage=on_damage,
        durable=durable,
    )
