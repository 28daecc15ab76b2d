"""Topics: the logs and archives of one read, as the driver sees them."""

from __future__ import annotations

import os
import re

from commitlog._kernel.segments import HEADER_SIZE
from commitlog.errors import InvalidOptionError, LogNotFoundError, NotALogError, PositionError
from commitlog.spark import places
from commitlog.spark.archive_topic import ArchiveTopic
from commitlog.spark.log_topic import LogTopic
from commitlog.spark.read_options import Bound, ReadOptions
from commitlog.spark.topic import Topic

_LOG_JSON = "log.json"
_WATERMARKS = ("cursors", "checkpoint")


# --- finding them ---------------------------------------------------------------------------------


def locate(options: ReadOptions) -> dict[str, str]:
    """The places of the logs that a read is about, by topic. A place is a directory, or a segment
    file.

    Raises
    ------
    LogNotFoundError, NotALogError
        There is none.
    InvalidOptionError
        Two have one name.
    """
    found = present(options)
    if not found:
        wanted = options.subscribe_pattern
        raise LogNotFoundError(
            "there is no log here"
            + (f" whose name matches subscribePattern={wanted}" if wanted else ""),
            path=", ".join(options.paths),
        )
    return found


def present(options: ReadOptions) -> dict[str, str]:
    """Return what `locate` does, but nothing where no log matches a pattern yet."""
    found: dict[str, str] = {}
    for path in options.paths:
        matches = places.expanded(path)
        for place in matches:
            for one in _logs_at(place, options, certain=matches == [path]):
                name = _topic_of(one)
                if found.setdefault(name, one) != one:
                    raise InvalidOptionError(
                        f"two logs are called {name!r}, {found[name]} and {one}, and rows would "
                        "not say of which they are: read them apart"
                    )
    return found


def _topic_of(place: str) -> str:
    name = places.name_of(place)
    return name if places.segment_of(name) is None else places.name_of(places.parent(place))


def _logs_at(place: str, options: ReadOptions, *, certain: bool) -> list[str]:
    """The logs at a place: itself, or those below it that are asked for."""
    if places.segment_of(places.name_of(place)) is not None:
        if options.subscribe or options.subscribe_pattern is not None:
            raise InvalidOptionError(
                "subscribe and subscribePattern choose among the logs below a directory, and the "
                "path is a segment"
            )
        return [place]
    content = places.names(place)
    if content is None:
        if certain:
            raise LogNotFoundError("there is no log here: nor any directory", path=place)
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
            f"this directory has no {_LOG_JSON}: it is not a log. Name the logs below it with "
            "subscribe or subscribePattern",
            path=place,
        )
    return []


# --- bounds ---------------------------------------------------------------------------------------


def check_names(bound: Bound, name: str, topics: list[str]) -> None:
    """Refuse a bound that names other topics than are read: Kafka's source wants all of them,
    too.
    """
    named = bound.positions if bound.positions is not None else bound.times_ns
    if named is None or set(named) == set(topics):
        return
    strange = sorted(set(named) - set(topics))
    if strange:
        raise InvalidOptionError(
            f"{name} names {strange[0]!r}, and what is read is {', '.join(sorted(topics))}"
        )
    missing = sorted(set(topics) - set(named))
    raise InvalidOptionError(
        f"{name} does not name {missing[0]!r}: it has to say for each log that is read (-2: "
        "earliest, -1: latest)"
    )


def start_of(topic: Topic, options: ReadOptions) -> int:
    """Where reading a topic starts.

    Raises
    ------
    PositionError
        No record is as young as the given time, or the given position is not in the log.
    """
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
            "or later: choose an earlier one, or "
            "startingOffsetsByTimestampStrategy=latest",
            path=topic.location,
            position=topic.end,
        )
    where = bound.edge if bound.positions is None else bound.positions[topic.name]
    if where == "earliest":
        return topic.first
    if where == "latest" or where is None:
        return topic.end
    return settled(topic, where, options, "startingOffsets")


def end_of(topic: Topic, options: ReadOptions) -> int:
    """Where reading a topic ends, before the record there."""
    bound = options.end
    time_ns = bound.time_ns if bound.times_ns is None else bound.times_ns[topic.name]
    if time_ns is not None:
        found = topic.position_since(time_ns)
        return topic.end if found is None else min(found, topic.end)
    where = bound.edge if bound.positions is None else bound.positions[topic.name]
    if isinstance(where, str) or where is None:
        return topic.end
    return settled(topic, where, options, "endingOffsets")


def settled(topic: Topic, position: int, options: ReadOptions, what: str) -> int:
    """A position that somebody gave, held against what the log has.

    Raises
    ------
    PositionError
        It is outside, and `fail_on_data_loss`.
    """
    first, end = topic.first, topic.end
    if first <= position - position % topic.segment_size and position <= max(end, HEADER_SIZE):
        return position
    if position < first + HEADER_SIZE and position >= first:
        return first
    if not options.fail_on_data_loss:
        return min(max(position, first), end)
    if position > end:
        why = (
            f"{what} has {position} for {topic.name}, and the log ends at {end}: give an "
            "offset that a row had, or failOnDataLoss=false"
        )
    else:
        why = (
            f"{what} has {position} for {topic.name}, and retention has deleted the log's records "
            f"before {first}: start there, or give "
            "failOnDataLoss=false to go on with what is left"
        )
    raise PositionError(why, path=topic.location, position=position, first_position=first)


def open_topic(name: str, place: str, options: ReadOptions) -> Topic:
    """A log that is open for reading, or an archive that was looked through.

    Raises
    ------
    LogNotFoundError, NotALogError, CorruptSegmentError
        It is none, or cannot be read.
    """
    if not places.is_uri(place):
        only = places.segment_of(places.name_of(place))
        folder = place if only is None else os.path.dirname(place)
        content = places.names(folder)
        if content is None or (only is not None and places.name_of(place) not in content):
            raise LogNotFoundError(
                "there is no such file" if only is not None else "there is no log here", path=place
            )
        # Without its watermarks nothing says what is durable: then it is a copy, and as good as a
        # copy can be.
        if _LOG_JSON in content and not content.keys().isdisjoint(_WATERMARKS):
            return LogTopic(name, folder, options.visibility, None if only is None else only[0])
    return ArchiveTopic(name, place)


def open_only(log: str, work: str) -> tuple[Topic, str]:
    """The one log at a place, for work that is done to one at a time; and where it was found, a
    directory or a segment file.

    Raises
    ------
    InvalidOptionError
        There are several.
    CommitLogError
        As for `locate` and `open_topic`.
    """
    reading = ReadOptions.parse({"path": log}, stream=False)
    found = locate(reading)
    if len(found) != 1:
        raise InvalidOptionError(
            f"{work} is of one log, and at {log} are {len(found)}: give each of them a "
            "destination of its own"
        )
    ((name, place),) = found.items()
    return open_topic(name, place, reading), place
