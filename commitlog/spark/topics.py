"""Topics: the logs and archives of one read, as the driver sees them."""

from __future__ import annotations

import os
import re

from commitlog.base.path import is_remote
from commitlog.errors import InvalidOptionError, LogNotFoundError, NotALogError, PositionError
from commitlog.extension import HEADER_SIZE
from commitlog.spark import places
from commitlog.spark.archive_topic import ArchiveTopic
from commitlog.spark.log_topic import LogTopic
from commitlog.spark.read_options import Bound, ReadOptions
from commitlog.spark.remote_topic import RemoteTopic
from commitlog.spark.spark_topic import SparkTopic
from commitlog.spark.store_topic import StoreTopic, is_object_place, is_store
from commitlog.spark.stream_offset import text_of

_LOG_JSON = "log.json"
_WATERMARKS = ("cursors", "checkpoint")


# --- locating -------------------------------------------------------------------------------------


def locate(options: ReadOptions) -> dict[str, str]:
    """Return the places of the logs of a read, by topic: directories or segment files."""
    found = present(options)
    if not found:
        wanted = options.subscribe_pattern
        raise LogNotFoundError(
            "there is no log here"
            + (f" whose name matches subscribePattern={wanted}" if wanted else "")
            + ": correct the options",
            path=", ".join(options.paths),
        )
    return found


def present(options: ReadOptions) -> dict[str, str]:
    """Return what `locate` does, or an empty mapping if no log matches the pattern yet."""
    found: dict[str, str] = {}
    for path in options.paths:
        matches = places.expanded(path)
        for place in matches:
            logs = (
                _served_at(place, options)
                if is_remote(place)
                else _stored_at(place, options)
                or _logs_at(place, options, certain=matches == [path])
            )
            for one in logs:
                name = _topic_of(one)
                if found.setdefault(name, one) != one:
                    raise InvalidOptionError(
                        f"two logs are called {name!r}, {found[name]} and {one}, and the column "
                        "topic cannot tell them apart: read each in a query of its own"
                    )
    if options.store is not None and len(found) > 1:
        raise InvalidOptionError(
            f"the option store names the store of one log, and this query reads {len(found)}: "
            "read each in a query of its own"
        )
    return found


def _topic_of(place: str) -> str:
    name = places.name_of(place)
    return name if places.segment_of(name) is None else places.name_of(places.parent(place))


def _logs_at(place: str, options: ReadOptions, *, certain: bool) -> list[str]:
    """Return the logs at a place: the place itself, or the subscribed logs below it."""
    if places.segment_of(places.name_of(place)) is not None:
        if options.subscribe or options.subscribe_pattern is not None:
            raise InvalidOptionError(
                "subscribe and subscribePattern need a directory of logs, and the path is a "
                "segment: remove them"
            )
        return [place]
    content = places.names(place)
    if content is None:
        if certain:
            raise LogNotFoundError(
                "there is no log here: this directory does not exist", path=place
            )
        return []
    if options.subscribe:
        missing = [name for name in options.subscribe if not content.get(name)]
        if missing:
            raise LogNotFoundError(
                f"there is no log {missing[0]!r} below this directory: correct subscribe",
                path=place,
            )
        return [places.join(place, name) for name in options.subscribe]
    if options.subscribe_pattern is not None:
        pattern = re.compile(options.subscribe_pattern)
        matching = [
            name
            for name, is_folder in sorted(content.items())
            if is_folder and pattern.fullmatch(name)
        ]
        return [
            one
            for name in matching
            if _LOG_JSON in (places.names(one := places.join(place, name)) or {})
        ]
    if _LOG_JSON in content or any(places.segment_of(name) for name in content):
        return [place]
    if certain:
        raise NotALogError(
            f"this directory has no {_LOG_JSON}, so it is not a log: name the logs below it with "
            "subscribe or subscribePattern",
            path=place,
        )
    return []


def _served_at(place: str, options: ReadOptions) -> list[str]:
    """Return the logs of a server: the one that the URL names, or the subscribed ones."""
    if options.subscribe_pattern is not None:
        raise InvalidOptionError(
            f"subscribePattern needs a directory, and {place} is a server: name the logs with "
            "subscribe"
        )
    return [places.join(place, name) for name in options.subscribe] or [place]


def _stored_at(place: str, options: ReadOptions) -> list[str]:
    """Return the stores of logs in a bucket, which a folder of it need not be listed for."""
    if not is_object_place(place) or options.subscribe_pattern is not None:
        return []
    if options.subscribe:
        return [places.join(place, name) for name in options.subscribe]
    return [place] if is_store(place, stream=True) else []


# --- bounds ---------------------------------------------------------------------------------------


def check_names(bound: Bound, name: str, topics: list[str]) -> None:
    """Check that a bound names exactly the topics of the read, as Kafka's source requires."""
    named = bound.positions if bound.positions is not None else bound.times_ns
    if named is None or set(named) == set(topics):
        return
    strange = sorted(set(named) - set(topics))
    if strange:
        raise InvalidOptionError(
            f"{name} names {strange[0]!r}, which is not read: name {', '.join(sorted(topics))}"
        )
    missing = sorted(set(topics) - set(named))
    raise InvalidOptionError(
        f"{name} does not name {missing[0]!r}: give an offset for each log that is read (-2: "
        "earliest, -1: latest)"
    )


def start_of(topic: SparkTopic, options: ReadOptions) -> int:
    """Return the position at which the read of a topic starts."""
    bound = options.start
    time_ns = bound.time_ns if bound.times_ns is None else bound.times_ns[topic.name]
    if time_ns is not None:
        found = topic.position_since(time_ns)
        if found is not None and found < topic.end:
            return found
        if options.latest_where_no_time_matches:
            return topic.end
        raise PositionError(
            f"no record of {topic.name} has a timestamp of {time_ns // 1_000_000} ms since 1970 "
            "or later: give an earlier time, or startingOffsetsByTimestampStrategy=latest",
            path=topic.location,
            position=topic.end,
        )
    where = bound.edge if bound.positions is None else bound.positions[topic.name]
    if where == "earliest":
        return topic.first
    if where == "latest" or where is None:
        return topic.end
    if _is_of_another_log(topic, bound, options, "startingOffsets"):
        return topic.first
    return checked_position(topic, where, options, "startingOffsets")


def end_of(topic: SparkTopic, options: ReadOptions) -> int:
    """Return the position before which the read of a topic ends."""
    bound = options.end
    time_ns = bound.time_ns if bound.times_ns is None else bound.times_ns[topic.name]
    if time_ns is not None:
        found = topic.position_since(time_ns)
        return topic.end if found is None else min(found, topic.end)
    where = bound.edge if bound.positions is None else bound.positions[topic.name]
    if isinstance(where, str) or where is None:
        return topic.end
    if _is_of_another_log(topic, bound, options, "endingOffsets"):
        return topic.end
    return checked_position(topic, where, options, "endingOffsets")


def _is_of_another_log(topic: SparkTopic, bound: Bound, options: ReadOptions, what: str) -> bool:
    """Return whether an offset names another log, which is refused with `failOnDataLoss`."""
    named, here = bound.uuids.get(topic.name), text_of(topic.uuid)
    if named in (None, here):
        return False
    if options.fail_on_data_loss:
        raise PositionError(
            f"{what} has an offset of the log with uuid {named}, and the log {topic.name} has uuid "
            f"{here}: give an offset of this log, or failOnDataLoss=false to read all of it",
            path=topic.location,
        )
    return True


def checked_position(topic: SparkTopic, position: int, options: ReadOptions, what: str) -> int:
    """Check a position from the options against the bounds of the log."""
    first, end = topic.first, topic.end
    if first <= position - position % topic.segment_size and position <= max(end, HEADER_SIZE):
        return position
    if position < first + HEADER_SIZE and position >= first:
        return first
    if not options.fail_on_data_loss:
        return min(max(position, first), end)
    if position > end:
        why = (
            f"{what} has {position} for {topic.name}, and the log ends at {end}: give the offset "
            "of a record, or failOnDataLoss=false"
        )
    else:
        why = (
            f"{what} has {position} for {topic.name}, and retention has deleted the log's records "
            f"before {first}: start there, or give failOnDataLoss=false"
        )
    raise PositionError(why, path=topic.location, position=position, first_position=first)


def open_topic(name: str, place: str, options: ReadOptions, *, stream: bool = False) -> SparkTopic:
    """Open a log or an archive for reading; for a `stream`, an archive as a store that grows."""
    if is_remote(place):
        return RemoteTopic(name, place, options.visibility, options.store)
    if not places.is_uri(place):
        only = places.segment_of(places.name_of(place))
        folder = place if only is None else os.path.dirname(place)
        content = places.names(folder)
        if content is None or (only is not None and places.name_of(place) not in content):
            raise LogNotFoundError(
                f"there is no {'log' if only is None else 'such file'} here: correct the path",
                path=place,
            )
        # A log without `cursors` and `checkpoint` is a copy. It has no watermark and is read like
        # an archive.
        if _LOG_JSON in content and not content.keys().isdisjoint(_WATERMARKS):
            base = None if only is None else only[0]
            return LogTopic(name, folder, options.visibility, base, options.store)
    if options.store is not None:
        raise InvalidOptionError(
            f"the option store is for a live log, and {place} is not one: leave it out"
        )
    if is_store(place, stream=stream):
        return StoreTopic(name, place)
    return ArchiveTopic(name, place)


def open_only(log: str, work: str) -> tuple[SparkTopic, str]:
    """Open the only log that a path names; return it with its place."""
    reading = ReadOptions.parse({"path": log}, stream=False)
    found = locate(reading)
    if len(found) != 1:
        raise InvalidOptionError(
            f"{work} takes one log, and {log} names {len(found)}: run it for each log, with a "
            "destination of its own"
        )
    ((name, place),) = found.items()
    return open_topic(name, place, reading), place
