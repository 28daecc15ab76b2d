"""WriteOptions: the options of the sink, and the columns that it takes."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from commitlog.base.units import parse_size
from commitlog.errors import InvalidOptionError, RecordTypeError
from commitlog.options import Options
from commitlog.spark import places

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

TOPIC_NAME = re.compile(r"^(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}$")
_OPTIONS = ("path", "topic", "segmentSize", "txnAppId", "txnVersion")
# Spark passes these options of its own.
_SPARKS = ("checkpointlocation", "queryname", "outputmode")
# Kafka's sink ignores it, too: the column `headers` is written if there is one.
_IGNORED = "includeheaders"
_REFUSED = {
    "kafka.bootstrap.servers": "there is no broker: name the log in save(path) or start(path)",
    "partitionby": "a log has one partition; the column 'topic' chooses among logs",
}
_TAKEN = {
    "value": ("binary", "string"),
    "key": ("binary", "string", "void"),
    "topic": ("string",),
    "timestamp": ("timestamp", "timestamp_ntz"),
    "type": ("tinyint", "smallint", "int", "bigint"),
    "headers": ("array<struct<key:string,value:binary>>", "map<string,binary>"),
}
# Further columns of a read. The written log assigns its own, so they are ignored.
_PASSED_OVER = ("partition", "offset", "timestamptype", "sequence")
_EXPECTED = (
    "value (binary or string) and, if wanted, key (binary or string), topic (string), "
    "timestamp (timestamp), type (a whole number), headers (array<struct<key:string,value:binary>>)"
)


@dataclass(frozen=True)
class WriteOptions:
    """The checked options of one write.

    Attributes
    ----------
    path : str
        The log, or the directory of the topics' logs.
    topic : str or None
        The log below `path` for all records. It overrides the column.
    segment_size : int or None
        Segment size of logs that the write creates.
    transaction : tuple of str and int, or None
        Name of an application and number of this write. A write is skipped if the log has one of
        that name with the same or a higher number.
    """

    path: str
    topic: str | None = None
    segment_size: int | None = None
    transaction: tuple[str, int] | None = None

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> WriteOptions:
        given = {name.lower(): value for name, value in options.items()}
        known = {name.lower(): name for name in _OPTIONS}
        for name, value in given.items():
            if name == _IGNORED and value.lower() in ("true", "false"):
                continue
            if name in _REFUSED or name.startswith("kafka."):
                raise InvalidOptionError(
                    f"option {name!r} is not supported: "
                    f"{_REFUSED.get(name, 'there is no broker to configure')}"
                )
            if name not in known and name not in _SPARKS:
                near = difflib.get_close_matches(name, known, 1)
                hint = (
                    f"; did you mean {known[near[0]]!r}?"
                    if near
                    else f": choose among {', '.join(_OPTIONS)}"
                )
                raise InvalidOptionError(f"unknown option {name!r}{hint}")
        topic = given.get("topic")
        size = given.get("segmentsize")
        if size is not None:
            size_bytes = parse_size(size, "segmentSize")
            Options(segment_size=size_bytes)  # for its bounds
        return cls(
            _path(given),
            None if topic is None else check_topic(topic),
            None if size is None else size_bytes,
            _transaction(given),
        )


def _transaction(given: Mapping[str, str]) -> tuple[str, int] | None:
    application, version = given.get("txnappid"), given.get("txnversion")
    if application is None and version is None:
        return None
    if not application or version is None or not re.fullmatch("[0-9]{1,18}", version):
        raise InvalidOptionError(
            "txnAppId and txnVersion go together, a name and a whole number of at least 0, not "
            f"{application!r} and {version!r}: give both or neither"
        )
    return application, int(version)


def _path(given: Mapping[str, str]) -> str:
    path = given.get("path", "")
    if not path:
        raise InvalidOptionError("path is missing: name the log in save(path) or start(path)")
    place = places.normalized(path)
    if places.is_uri(place):
        raise InvalidOptionError(
            f"path must be on a local disk, not {places.shown(place)}: write to a local log, and "
            "copy finished segments with `commitlog archive`"
        )
    return place


def check_topic(topic: str) -> str:
    """Check the name of a topic, which is the name of a directory, and return it."""
    if not TOPIC_NAME.match(topic):
        raise InvalidOptionError(
            f"topic {topic[:250]!r} is not a name of up to 249 letters, digits, '.', '_' and '-': "
            "rename it"
        )
    return topic


def check_schema(schema: StructType) -> None:
    """Check that the columns of a data frame can be written."""
    seen = set()
    for field in schema.fields:
        name, kind = field.name.lower(), field.dataType.simpleString()
        if name in seen:
            raise RecordTypeError(f"the data frame has two columns {name!r}: drop one")
        seen.add(name)
        if name in _PASSED_OVER:
            continue
        if name not in _TAKEN:
            raise RecordTypeError(
                f"the data frame has a column {field.name!r}, which a record has no place for; "
                f"expected {_EXPECTED}: drop it, or put it into value, for instance with "
                "to_json(struct(...))"
            )
        if kind.partition("(")[0] not in _TAKEN[name]:
            raise RecordTypeError(f"column {name!r} is {kind}; expected {_EXPECTED}: cast it")
    if "value" not in seen:
        raise RecordTypeError(f"the data frame has no column 'value'; expected {_EXPECTED}: add it")
