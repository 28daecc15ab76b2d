"""ReadOptions: the options of the source, with the names that Spark's Kafka source uses."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from commitlog.base.units import parse_duration, parse_size
from commitlog.errors import CommitLogError, InvalidOptionError
from commitlog.spark import places
from commitlog.spark.slices import OnDamage

Edge = Literal["earliest", "latest"]
# Kafka's JSON has these numbers for the oldest record and for the end.
_EDGES: dict[int, Edge] = {-2: "earliest", -1: "latest"}
_DELAY_DEFAULT_S = 15 * 60.0

_NO_BROKER = "there is no broker: name the log in load(path)"
_NO_GROUPS = "there are no groups of readers: a query keeps its offsets in its checkpoint"
_REFUSED = {
    "assign": "a log has one partition: name the log with subscribe",
    "groupidprefix": _NO_GROUPS,
    "kafka.group.id": _NO_GROUPS,
    "fetchoffset.numretries": _NO_BROKER,
    "fetchoffset.retryintervalms": _NO_BROKER,
    "kafkaconsumer.polltimeoutms": _NO_BROKER,
    "maxrecordsperpartition": "a segment is split by its bytes: ask for more partitions with "
    "minPartitions",
    "recursivefilelookup": "name the folder of logs, and the logs in it with subscribe or "
    "subscribePattern",
}
_BOTH = (
    "path",
    "paths",
    "subscribe",
    "subscribePattern",
    "startingOffsets",
    "startingOffsetsByTimestamp",
    "startingTimestamp",
    "startingOffsetsByTimestampStrategy",
    "minPartitions",
    "failOnDataLoss",
    "visibility",
    "onDamage",
    "store",
    "decode",
    "messageTopic",
    "includeHeaders",
)
_BATCH_ONLY = ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp")
_STREAM_ONLY = (
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "maxBytesPerTrigger",
)


@dataclass(frozen=True)
class Bound:
    """Where a read starts or ends: at an edge, at a position for each topic, at a time for each
    topic, or at one time for all topics. Times are nanoseconds since 1970. `uuids` names the logs
    that the positions are of, where the offset of a stream was given.
    """

    edge: Edge | None = None
    positions: Mapping[str, int | Edge] | None = None
    uuids: Mapping[str, str] = field(default_factory=dict)
    times_ns: Mapping[str, int] | None = None
    time_ns: int | None = None


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """The checked options of one read. docs/spark.md explains each."""

    paths: tuple[str, ...]
    subscribe: tuple[str, ...] = ()
    subscribe_pattern: str | None = None
    start: Bound = field(default_factory=Bound)
    end: Bound = field(default_factory=Bound)
    latest_where_no_time_matches: bool = False
    min_partitions: int = 0
    fail_on_data_loss: bool = True
    visibility: Literal["flushed", "committed"] = "flushed"
    on_damage: OnDamage = "fail"
    max_offsets: int | None = None
    min_offsets: int | None = None
    max_trigger_delay_s: float = _DELAY_DEFAULT_S
    max_bytes: int | None = None
    store: str | None = None
    decode: bool = False
    message_topic: str | None = None
    include_headers: bool = False

    @classmethod
    def parse(cls, options: Mapping[str, str], *, stream: bool) -> ReadOptions:
        given = {name.lower(): value for name, value in options.items()}
        _refuse_others(given, stream=stream)
        ask = _OptionText(given)
        if "subscribe" in given and "subscribepattern" in given:
            raise InvalidOptionError("subscribe and subscribePattern are both given: choose one")
        return cls(
            paths=_paths(given),
            subscribe=ask.names("subscribe"),
            subscribe_pattern=ask.pattern("subscribePattern"),
            start=ask.bound("starting", "latest" if stream else "earliest"),
            end=ask.bound("ending", "latest"),
            latest_where_no_time_matches=ask.choice(
                "startingOffsetsByTimestampStrategy", ("error", "latest")
            )
            == "latest",
            min_partitions=ask.count("minPartitions") or 0,
            fail_on_data_loss=ask.flag("failOnDataLoss", True),
            visibility=ask.choice("visibility", ("flushed", "committed")),
            on_damage=ask.choice("onDamage", ("fail", "skip")),
            max_offsets=ask.count("maxOffsetsPerTrigger"),
            min_offsets=ask.count("minOffsetsPerTrigger"),
            max_trigger_delay_s=ask.delay("maxTriggerDelay"),
            max_bytes=ask.size("maxBytesPerTrigger"),
            store=_store(given),
            decode=ask.flag("decode", False) or "messagetopic" in given,
            message_topic=given.get("messagetopic"),
            include_headers=ask.flag("includeHeaders", False),
        )

    @classmethod
    def of_places(cls, options: Mapping[str, str]) -> ReadOptions:
        """Read only the options that name the logs, before it is known whether a stream reads."""
        given = {name.lower(): value for name, value in options.items()}
        ask = _OptionText(given)
        return cls(
            paths=_paths(given),
            subscribe=ask.names("subscribe"),
            subscribe_pattern=ask.pattern("subscribePattern"),
            store=_store(given),
        )


def _store(given: Mapping[str, str]) -> str | None:
    return places.normalized(given["store"]) if "store" in given else None


def _refuse_others(given: Mapping[str, str], *, stream: bool) -> None:
    known = (*_BOTH, *(_STREAM_ONLY if stream else _BATCH_ONLY))
    names = {name.lower() for name in known}
    elsewhere = {name.lower(): name for name in (_BATCH_ONLY if stream else _STREAM_ONLY)}
    for name in given:
        if name in names:
            continue
        if name in elsewhere:
            raise InvalidOptionError(
                f"{elsewhere[name]} is an option of {'batch reads' if stream else 'streams'} "
                "only: leave it out here"
            )
        why = _REFUSED.get(name) or (_NO_BROKER if name.startswith("kafka.") else None)
        if why is not None:
            raise InvalidOptionError(f"the option {name} is not supported: {why}")
        raise InvalidOptionError(
            f"{name} is not an option of this source: choose among {', '.join(known)}"
        )


def _paths(given: Mapping[str, str]) -> tuple[str, ...]:
    found = []
    if "paths" in given:
        try:
            several = json.loads(given["paths"])
        except ValueError:
            several = None
        if not isinstance(several, list) or not all(isinstance(path, str) for path in several):
            raise InvalidOptionError(
                f"paths must be a JSON list of strings, not {given['paths']!r}"
            )
        found += several
    if "path" in given:
        found.append(given["path"])
    if not found:
        raise InvalidOptionError(
            "path is missing: name the log in load(path) or with the option path. Spark does not "
            "pass on the path of a catalog table: use SELECT ... FROM table WITH "
            "(path = '/logs/orders'), or CREATE TEMPORARY VIEW orders USING commitlog OPTIONS "
            "(path '/logs/orders')"
        )
    return tuple(places.normalized(path) for path in found)


class _OptionText:
    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = given

    def _get(self, name: str) -> str | None:
        return self._given.get(name.lower())

    def _refuse(self, name: str, wanted: str) -> InvalidOptionError:
        return InvalidOptionError(f"{name} must be {wanted}, not {self._get(name)!r}")

    def names(self, name: str) -> tuple[str, ...]:
        text = self._get(name)
        if text is None:
            return ()
        found = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
        if not found or any("/" in part or part in (".", "..") for part in found):
            raise self._refuse(name, "names of logs, separated by commas")
        return found

    def pattern(self, name: str) -> str | None:
        text = self._get(name)
        if text is not None:
            try:
                re.compile(text)
            except re.error as error:
                raise self._refuse(name, f"a regular expression ({error})") from None
        return text

    def choice(self, name: str, choices: tuple[str, ...]) -> Any:
        text = self._get(name)
        if text is None:
            return choices[0]
        if text.lower() not in choices:
            raise self._refuse(name, " or ".join(map(repr, choices)))
        return text.lower()

    def flag(self, name: str, default: bool) -> bool:
        text = self._get(name)
        if text is None:
            return default
        if text.lower() not in ("true", "false"):
            raise self._refuse(name, "true or false")
        return text.lower() == "true"

    def whole(self, name: str, wanted: str, least: int) -> int | None:
        text = self._get(name)
        if text is None:
            return None
        if not re.fullmatch(r"[0-9]{1,18}", text.strip()) or int(text) < least:
            raise self._refuse(name, wanted)
        return int(text)

    def count(self, name: str) -> int | None:
        return self.whole(name, "a whole number of at least 1", 1)

    def delay(self, name: str) -> float:
        text = self._get(name)
        if text is None:
            return _DELAY_DEFAULT_S
        try:
            return parse_duration(text, name)
        except CommitLogError:
            raise self._refuse(name, 'a duration like "15m", "30s" or "500ms"') from None

    def size(self, name: str) -> int | None:
        text = self._get(name)
        if text is None:
            return None
        try:
            size = parse_size(text, name)
        except CommitLogError:
            size = 0
        if size < 1:
            raise self._refuse(name, 'a size of at least one byte, like "64MiB" or 1000000')
        return size

    # --- bounds -----------------------------------------------------------------------------------

    def bound(self, which: Literal["starting", "ending"], default: Edge) -> Bound:
        """Read a bound. As in Kafka's source, one time for all topics overrides a time for each
        topic, and that overrides offsets.
        """
        time_ms = self.whole(f"{which}Timestamp", "milliseconds since 1970", 0)
        if time_ms is not None:
            return Bound(time_ns=time_ms * 1_000_000)
        name = f"{which}OffsetsByTimestamp"
        if self._get(name) is not None:
            times, uuids = self._by_topic(name, "milliseconds since 1970")
            if uuids or any(value < 0 for value in times.values()):
                raise self._refuse(
                    name, 'JSON like {"orders": {"0": 1700000000000}}, milliseconds since 1970'
                )
            return Bound(times_ns={topic: value * 1_000_000 for topic, value in times.items()})
        name = f"{which}Offsets"
        text = self._get(name)
        edge = default if text is None else _edge_of(text)
        if edge is None:
            positions, uuids = self._by_topic(name, "-2 for earliest, -1 for latest, or a position")
            if any(value < -2 for value in positions.values()):
                raise self._refuse(name, "positions, -2 for earliest or -1 for latest")
            if which == "ending" and -2 in positions.values():
                raise self._refuse(
                    name, "positions or -1 for latest (a read that ends at -2 is empty)"
                )
            return Bound(
                positions={topic: _EDGES.get(value, value) for topic, value in positions.items()},
                uuids=uuids,
            )
        if (which, edge) == ("ending", "earliest"):
            raise self._refuse(name, "latest or JSON (a read that ends at earliest is empty)")
        return Bound(edge=edge)

    def _by_topic(self, name: str, of_what: str) -> tuple[dict[str, int], dict[str, str]]:
        """Return the number for each topic, and the uuids that stand beside them."""
        text = self._get(name)
        wanted = f'earliest, latest, or JSON like {{"orders": {{"0": 4096}}}} with {of_what}'
        try:
            content = json.loads(text or "")
        except (ValueError, RecursionError):
            raise self._refuse(name, wanted) from None
        if not isinstance(content, dict) or not content:
            raise self._refuse(name, wanted)
        found, uuids = {}, {}
        for topic, partitions in content.items():
            if not isinstance(partitions, dict) or partitions.keys() - {"uuid"} != {"0"}:
                raise self._refuse(name, f'{wanted}; a log has one partition, "0"')
            value = partitions["0"]
            if isinstance(partitions.get("uuid"), str):
                uuids[topic] = partitions["uuid"]
            elif "uuid" in partitions:
                raise self._refuse(name, f"{wanted}; a uuid is a string")
            if not isinstance(value, int) or isinstance(value, bool) or value >= 1 << 63:
                raise self._refuse(name, wanted)
            found[topic] = value
        return found, uuids


def _edge_of(text: str) -> Edge | None:
    word = text.strip().lower()
    if word == "earliest":
        return "earliest"
    return "latest" if word == "latest" else None
