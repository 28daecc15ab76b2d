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
    """Say that retention has overtaken a query.

    Raises
    ------
    PositionError
        Unless data may be lost.
    """
    if options.fail_on_data_loss:
        raise PositionError(
            f"retention was faster than this query: of {topic.name}, the segments with positions "
            f"from {start} to {stop} are deleted, and "
            "what was not read of them is lost; keep more, or go on with what is left with "
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
    """The logs of one query. New ones that match `subscribePattern` are found when something
    changes in the directory above them.

    Parameters
    ----------
    options : ReadOptions
        What was asked for.
    """

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._topics: dict[str, LogTopic] = {}
        self._seen_ns: tuple[int, ...] | None = None

    def topic(self, name: str) -> LogTopic:
        """One of them."""
        return self._topics[name]

    def starts(self) -> dict[str, int]:
        """Where a new query starts in each."""
        self._look()
        check_names(self._options.start, "startingOffsets", list(self._topics))
        return {
            name: _at_record(topic, start_of(topic, self._options))
            for name, topic in self._topics.items()
        }

    def ends(self) -> dict[str, int]:
        """Where each ends at present. What is appended and not durable is going to be waited for:
        its writers are asked to flush it.
        """
        self._look()
        for topic in self._topics.values():
            topic.ask_for_flush()
        return {name: topic.end for name, topic in self._topics.items()}

    def _look(self) -> None:
        """Find the logs, once; with a pattern, again when a directory above has changed."""
        follows = self._options.subscribe_pattern is not None
        if self._topics and not follows:
            return
        seen_ns = self._changes()
        if seen_ns == self._seen_ns:
            return
        for name, place in (present if follows else locate)(self._options).items():
            if name not in self._topics:
                self._topics[name] = self._open(name, place)
        # A directory may have been there before its log: then the next look is to be another one.
        self._seen_ns = None if self._has_more_to_come() else seen_ns

    def _changes(self) -> tuple[int, ...]:
        return tuple(
            os.stat(path).st_mtime_ns for path in self._options.paths if os.path.exists(path)
        )

    def _has_more_to_come(self) -> bool:
        pattern = re.compile(self._options.subscribe_pattern or "(?!)")
        folders = [
            name
            for path in self._options.paths
            for name, is_folder in (places.names(path) or {}).items()
            if is_folder
        ]
        return any(pattern.fullmatch(name) and name not in self._topics for name in folders)

    def _open(self, name: str, place: str) -> LogTopic:
        topic = open_topic(name, place, self._options)
        if not isinstance(topic, LogTopic):
            raise InvalidOptionError(
                f"the log {name} is an archive, which a stream does not follow: read it with "
                "spark.read",
                path=place,
            )
        return topic

    def check_there(self, wanted: Mapping[str, int]) -> None:
        """Refuse to go on where a log of the checkpoint is gone."""
        self._look()
        missing = sorted(set(wanted) - set(self._topics))
        if missing:
            raise LogNotFoundError(
                f"the query has read the log {missing[0]!r}, which is not there any more: restore "
                "it, or start with a new checkpoint",
                path=", ".join(self._options.paths),
            )

    def check_reached(self, topic: LogTopic, stop: int) -> None:
        """Refuse an offset that the log has not come to: it is another log than the checkpoint is
        about.

        Raises
        ------
        PositionError
            Unless data may be lost.
        """
        tail = max(topic.log.tail_position, topic.log.appended_position)
        if stop > tail and self._options.fail_on_data_loss:
            raise PositionError(
                f"the query has read {topic.name} up to {stop}, and the log ends at {tail}: it is "
                "another log, or has lost its end; start "
                "with a new checkpoint, or go on with failOnDataLoss=false",
                path=topic.location,
                position=stop,
            )

    def close(self) -> None:
        """Let go of all of them."""
        for topic in self._topics.values():
            topic.close()
        self._topics = {}


def _at_record(topic: LogTopic, position: int) -> int:
    """A position where a record begins, from one that anybody may have given: that of the next one,
    or the end.
    """
    end = topic.end
    if position >= end or position <= topic.first:
        return position
    schema = pa.schema([("offset", FIELDS["offset"])])
    for piece in topic.slices(position, end, with_sequence=False, fail_on_data_loss=True):
        for batch in SliceReader(piece, RowBuilder(schema, most=1), "skip").batches():
            return int(batch.column(0)[0].as_py())
    return end
