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
from commitlog.spark.topics import check_names, locate, open_topic, present, start_of

_logger = logging.getLogger("commitlog.spark")


def lost(topic: LogTopic, start: int, stop: int, options: ReadOptions) -> None:
    """Report that retention deleted records before a query read them."""
    if options.fail_on_data_loss:
        raise PositionError(
            f"retention deleted records of {topic.name} before this query read them, positions "
            f"{start} to {stop}: keep more segments, or continue with the remaining records with "
            "failOnDataLoss=false",
            path=topic.location,
            position=start,
            first_position=stop,
        )
    _logger.warning(
        "%s: retention deleted positions %d to %d before they were read",
        topic.location,
        start,
        stop,
    )


class StreamTopics:
    """The logs of one query. When their directory changes, new logs that match `subscribePattern`
    are added.
    """

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._topics: dict[str, LogTopic] = {}
        self._seen_ns: tuple[int, ...] | None = None

    def topic(self, name: str) -> LogTopic:
        return self._topics[name]

    def starts(self) -> dict[str, int]:
        """Return where a new query starts in each log."""
        self._find_logs()
        check_names(self._options.start, "startingOffsets", list(self._topics))
        return {
            name: _at_record(topic, start_of(topic, self._options))
            for name, topic in self._topics.items()
        }

    def ends(self) -> dict[str, int]:
        """Return where each log ends at present. The query will wait for records that are appended
        and not durable, so this asks the writers for a flush.
        """
        self._find_logs()
        for topic in self._topics.values():
            topic.refresh()
        return {name: topic.end for name, topic in self._topics.items()}

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

    def check_present(self, wanted: Mapping[str, int]) -> None:
        """Refuse to continue if a log of the checkpoint is missing."""
        self._find_logs()
        missing = sorted(set(wanted) - set(self._topics))
        if missing:
            raise LogNotFoundError(
                f"the checkpoint names the log {missing[0]!r}, which does not exist any more: "
                "restore it, or start with a new checkpoint",
                path=", ".join(self._options.paths),
            )

    def check_reached(self, topic: LogTopic, stop: int) -> None:
        """Refuse an offset beyond the log's tail, because the log is then not the one of the
        checkpoint.
        """
        tail = max(topic.log.tail_position, topic.log.appended_position)
        if stop > tail and self._options.fail_on_data_loss:
            raise PositionError(
                f"the checkpoint has position {stop} for {topic.name}, and the log ends at {tail}: "
                "the log was replaced or lost its end. Start with a new checkpoint, or continue "
                "with failOnDataLoss=false",
                path=topic.location,
                position=stop,
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
