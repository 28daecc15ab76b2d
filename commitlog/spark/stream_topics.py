"""StreamTopics: the logs that a stream follows, kept open on the driver."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping

import pyarrow as pa

from commitlog.errors import InvalidOptionError, LogNotFoundError, PositionError
from commitlog.spark import places
from commitlog.spark.columns import FIELDS, RowBuilder
from commitlog.spark.log_topic import LogTopic
from commitlog.spark.read_options import ReadOptions
from commitlog.spark.slices import SliceReader
from commitlog.spark.stream_offset import Extent, LogPosition, Loss, text_of
from commitlog.spark.topics import check_names, locate, open_topic, present, start_of

_logger = logging.getLogger("commitlog.spark")


class StreamTopics:
    """The logs of one query. When their directory changes, new logs that match `subscribePattern`
    are added.
    """

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._topics: dict[str, LogTopic] = {}
        self._seen_ns: tuple[int, ...] | None = None
        self._reported: dict[str, Loss | None] = {}

    def topic(self, name: str) -> LogTopic:
        return self._topics[name]

    def extent(self, name: str) -> Extent:
        """Return what a log has now."""
        topic = self._topics[name]
        return Extent(text_of(topic.uuid), topic.first, topic.end, topic.tail)

    def report(self, name: str, position: int, loss: Loss | None) -> None:
        """Report what a query lost in a log: by an error, or once by a warning."""
        topic = self._topics[name]
        if loss is not None and self._options.fail_on_data_loss:
            raise PositionError(
                f"{loss.why}: {loss.remedy} with failOnDataLoss=false",
                path=topic.location,
                position=position,
                first_position=topic.first,
            )
        if loss is not None and self._reported.get(name) != loss:
            _logger.warning("%s: %s", topic.location, loss.why)
        self._reported[name] = loss

    def starts(self) -> dict[str, LogPosition]:
        """Return where a new query starts in each log."""
        self._find_logs()
        check_names(self._options.start, "startingOffsets", list(self._topics))
        return {
            name: LogPosition(
                _at_record(topic, start_of(topic, self._options)), text_of(topic.uuid)
            )
            for name, topic in self._topics.items()
        }

    def ends(self) -> dict[str, LogPosition]:
        """Return where each log ends at present. The query will wait for records that are appended
        and not durable, so this asks the writers for a flush.
        """
        self._find_logs()
        for topic in self._topics.values():
            if not topic.refresh() and self._options.fail_on_data_loss:
                raise LogNotFoundError(
                    f"the log {topic.name} was deleted or moved while this query ran: restore it, "
                    "or wait for a new log there with failOnDataLoss=false",
                    path=topic.location,
                )
        return {
            name: LogPosition(topic.end, text_of(topic.uuid))
            for name, topic in self._topics.items()
        }

    def _find_logs(self) -> None:
        """Find the logs once. With a pattern, find them again after their directory changed."""
        follows = self._options.subscribe_pattern is not None
        if self._topics and not follows:
            return
        seen_ns = self._changes()
        if seen_ns == self._seen_ns:
            return
        for name, place in (present if follows else locate)(self._options).items():
            if name not in self._topics:
                self._topics[name] = self._open(name, place)
        # A matching directory may not have its log yet. Then the next call looks again.
        self._seen_ns = None if self._awaits_logs() else seen_ns

    def _changes(self) -> tuple[int, ...]:
        return tuple(
            os.stat(path).st_mtime_ns for path in self._options.paths if os.path.exists(path)
        )

    def _awaits_logs(self) -> bool:
        if self._options.subscribe_pattern is None:
            return False
        pattern = re.compile(self._options.subscribe_pattern)
        folders = [
            name
            for path in self._options.paths
            for name, is_folder in (places.names(path) or {}).items()
            if is_folder
        ]
        return any(pattern.fullmatch(name) and name not in self._topics for name in folders)

    def _open(self, name: str, place: str) -> LogTopic:
        topic = open_topic(name, place, self._options, stream=True)
        if not isinstance(topic, LogTopic):
            raise InvalidOptionError(
                f"a stream cannot follow {name}, which has plain segments and no live log, or a "
                "URI with a query: read it with spark.read",
                path=place,
            )
        return topic

    def check_present(self, wanted: Mapping[str, LogPosition]) -> None:
        """Refuse to continue if a log of the checkpoint is missing."""
        self._find_logs()
        missing = sorted(set(wanted) - set(self._topics))
        if missing:
            raise LogNotFoundError(
                f"the checkpoint names the log {missing[0]!r}, which does not exist any more: "
                "restore it, or start with a new checkpoint",
                path=", ".join(self._options.paths),
            )

    def close(self) -> None:
        for topic in self._topics.values():
            topic.close()
        self._topics = {}


def _at_record(topic: LogTopic, position: int) -> int:
    """Return the position of the first record at or after a position, or the end. The position
    comes from an option and may be inside a record.
    """
    end = topic.end
    if position >= end or position <= topic.first:
        return position
    schema = pa.schema([("offset", FIELDS["offset"])])
    for piece in topic.slices(position, end, with_sequence=False, fail_on_data_loss=True):
        for batch in SliceReader(piece, RowBuilder(schema, most=1), "skip").batches():
            return int(batch.column(0)[0].as_py())
    return end
