"""The bus: many processes write messages to one log, and all read them in the same order.

`writer` opens a log for writing, `reader` for reading. `Message` is the base of message classes;
annotate their fields with the numeric types and `MaxLen`.
"""

from __future__ import annotations

from commitlog.topics.kinds import (
    MaxLen,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from commitlog.topics.layout import Layout
from commitlog.topics.message import Message
from commitlog.topics.reader import BusReader
from commitlog.topics.reader import open_reader as reader
from commitlog.topics.writer import BusWriter
from commitlog.topics.writer import open_writer as writer

__all__ = [
    "BusReader",
    "BusWriter",
    "Layout",
    "MaxLen",
    "Message",
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "reader",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "writer",
]
