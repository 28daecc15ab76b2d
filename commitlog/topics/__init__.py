"""Topics: messages of Python classes in a log, with their schemas.

`commitlog.topic` opens a topic. `tailer` reads several topics of a log in its order. `aliases`
names the former names of a field. `to_arrow` reads messages without their classes, and
`history_of` the history of a record. A `Codec` turns messages into bytes. `Zstd` says how messages
are compressed, and a `KeyRing` encrypts them.
"""

from __future__ import annotations

from commitlog.topics.arrow import to_arrow
from commitlog.topics.arrow_codec import ArrowCodec
from commitlog.topics.avro_codec import AvroCodec
from commitlog.topics.codec import Codec
from commitlog.topics.compression import Zstd
from commitlog.topics.history import History, Hop
from commitlog.topics.key_ring import KeyRing
from commitlog.topics.method_reader import MethodReader
from commitlog.topics.msgspec_codec import aliases
from commitlog.topics.opening import open_tailer_of as tailer
from commitlog.topics.record_history import history_of
from commitlog.topics.topic import Topic
from commitlog.topics.topic_tailer import MessageLoop, TopicTailer

__all__ = [
    "ArrowCodec",
    "AvroCodec",
    "Codec",
    "History",
    "Hop",
    "KeyRing",
    "MessageLoop",
    "MethodReader",
    "Topic",
    "TopicTailer",
    "Zstd",
    "aliases",
    "history_of",
    "tailer",
    "to_arrow",
]
