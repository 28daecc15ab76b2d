"""The column `message` of one topic: its type in Spark, by the schemas in the logs."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from pyspark.errors import PySparkTypeError
from pyspark.sql.pandas.types import from_arrow_schema, from_arrow_type, to_arrow_type
from pyspark.sql.types import DataType, StringType, StructType

from commitlog.errors import TopicNotFoundError
from commitlog.spark.columns import FIELDS, HEADERS, HEADERS_TYPE, MESSAGE
from commitlog.spark.read_options import ReadOptions
from commitlog.spark.schema_log import open_schema_log
from commitlog.spark.topics import locate
from commitlog.topics.arrow_types import arrow_type_of
from commitlog.topics.schema import Schema
from commitlog.topics.topics_state import catalog_of


def schema_with(options: Mapping[str, str], *, with_headers: bool) -> StructType:
    """Return all columns of a read, with `message` as the newest version of the topic has it.

    Raises
    ------
    TopicNotFoundError
        No log of the read has the topic.
    CommitLogError
        The logs cannot be opened.
    """
    columns = from_arrow_schema(pa.schema(list(FIELDS.items())))
    columns = columns.add(MESSAGE, _message_type(options))
    return columns.add(HEADERS, from_arrow_type(HEADERS_TYPE)) if with_headers else columns


def _message_type(options: Mapping[str, str]) -> DataType:
    kind = arrow_type_of(_newest(options))
    try:
        return from_arrow_type(kind)
    except PySparkTypeError:  # Spark lacks a type of an Arrow schema
        return StringType()


def _newest(options: Mapping[str, str]) -> Schema:
    """Return the newest schema of the topic, in any log of the read."""
    topic = next(value for name, value in options.items() if name.lower() == "messagetopic")
    newest: tuple[int, Schema] | None = None
    missing: TopicNotFoundError | None = None
    reading = ReadOptions.of_places(options)
    for place in locate(reading).values():
        with open_schema_log(place, reading.store) as log:
            try:
                found = catalog_of(log).newest(topic)
            except TopicNotFoundError as error:
                missing = error
                continue
        if newest is None or found[0] > newest[0]:
            newest = found
    if newest is None:
        assert missing is not None
        raise missing
    return newest[1]


def message_type_in(schema: StructType) -> pa.DataType | None:
    """Return the Arrow type of the column `message` in a schema of Spark; None if it has none."""
    types = [field.dataType for field in schema.fields if field.name.lower() == MESSAGE]
    return to_arrow_type(types[0], timezone="UTC") if types else None
