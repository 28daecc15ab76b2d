"""Receiving: the records of a topic into a log, each exactly once."""

from __future__ import annotations

from typing import Any

from commitlog import CommitLog
from commitlog.base.host import host
from commitlog.errors import InvalidOptionError, MirrorError, RecordTooLargeError
from commitlog.extension import view_of
from commitlog.mirror.broker import Broker, code_of

_MOST = 10_000  # messages of a batch
_IDLE_S = 0.2
_LOOK_S = 30.0  # for new partitions
# The client tries again by itself.
_PASSING = ("_TRANSPORT", "_ALL_BROKERS_DOWN", "_TIMED_OUT", "_RESOLVE")
_DEFAULTS = {"auto.offset.reset": "error", "isolation.level": "read_committed"}
_FIXED = {"enable.auto.commit": False, "enable.partition.eof": True}


class Receiving:
    """Append the records of a topic to a log.

    Each partition of a topic with its id is a producer of the log, and the offset is the number of
    the record. So the log itself says where to go on; what the group commits is for Kafka's tools,
    and for a log that has no record of the topic yet.

    Attributes
    ----------
    name : str
        What it is for statistics; its lag is the figure `unit`.
    position : int
        The end of the log behind the last batch.
    lag : int
        How many offsets the log is behind the topic, as far as is known.
    """

    unit = "lag_records"

    def __init__(self, log: CommitLog, broker: Broker, group: str | None) -> None:
        self._log, self._broker = log, broker
        self.name = f"mirror from {broker.url}"
        self._view = view_of(log)
        uuid = self._view.identity.uuid.hex()
        self._mine = f"commitlog {uuid}"  # beside the offsets that this log has durably
        self._topic = broker.describe()
        fixed = {"group.id": group or f"commitlog.{uuid}", **_FIXED}
        self._consumer = broker.client("Consumer", _DEFAULTS, fixed)
        self._next: list[int] = []  # by partition
        self._look_s = 0.0
        self.position, self.lag = log.tail_position, 0
        self._assign(self._topic.partitions)

    def _at(self, number: int, *offset: object) -> Any:
        return self._broker.kafka.TopicPartition(self._broker.topic, number, *offset)

    def _watermarks(self, number: int, *, cached: bool = False) -> tuple[int, int]:
        limit_s = self._broker.timeout_s
        found = self._consumer.get_watermark_offsets(self._at(number), limit_s, cached=cached)
        return found or (0, 0)

    def _assign(self, count: int) -> None:
        """Begin to read partitions that are not read yet."""
        new, limit_s = range(len(self._next), count), self._broker.timeout_s
        if not new:
            return
        try:
            # The consumer does not know new partitions before it asks.
            self._consumer.list_topics(self._broker.topic, limit_s)
            known = self._consumer.committed([self._at(number) for number in new], limit_s)
            begun = [self._begin(number, found) for number, found in zip(new, known, strict=True)]
            self._consumer.incremental_assign(list(map(self._at, new, begun)))
        except self._broker.kafka.KafkaException as error:
            raise self._broker.failure(error, "the topic cannot be read") from None
        self._next += begun

    def _begin(self, number: int, committed: Any) -> int:
        """Return the offset from which on to read a partition."""
        first, end = self._watermarks(number)
        last = self._view.last_producer_sequence(self._producer(number))
        if last is not None:
            if last >= end:
                raise MirrorError(
                    f"{self._broker.url}: the log has offset {last} of partition {number}, which "
                    f"ends at {end}: the broker has lost records; let it find them, or create the "
                    "topic again"
                )
            return last + 1
        # What this log has committed and does not have: it was restored.
        is_ours = committed.metadata == self._mine
        return first if is_ours or committed.offset < 0 else int(committed.offset)

    def _producer(self, number: int) -> str:
        return f"kafka {self._topic.id} {number}"

    def step(self) -> None:
        """Append one batch, or wait a moment for one."""
        try:
            if host.monotonic() > self._look_s:
                self._look_s = host.monotonic() + _LOOK_S
                self._look()
            messages = self._consumer.consume(_MOST, _IDLE_S)
        except self._broker.kafka.KafkaException as error:
            if code_of(error) in _PASSING:
                return
            raise self._broker.failure(error, "the topic cannot be read") from None
        for message in messages:
            failed = message.error()
            if failed is None:
                self._append(message)
            elif failed.name() == "_PARTITION_EOF":  # behind markers of transactions, too
                self._next[message.partition()] = message.offset()
            elif not failed.retriable() and failed.name() not in _PASSING:
                raise self._broker.failure(failed, f"partition {message.partition()}")
        if messages:
            self.position = self._log.flush()
            numbers = {message.partition() for message in messages}
            places = [self._at(number, self._next[number], self._mine) for number in numbers]
            self._consumer.commit(offsets=places, asynchronous=True)
        ends = (self._watermarks(number, cached=True)[1] for number in range(len(self._next)))
        self.lag = sum(max(0, end - at) for end, at in zip(ends, self._next, strict=True))

    def _look(self) -> None:
        """Begin to read new partitions, and notice a topic that was created again."""
        try:
            found = self._broker.describe()
        except MirrorError:
            return  # reading says why, if it lasts
        if found.id != self._topic.id:
            raise MirrorError(f"{self._broker.url}: the topic was created again: start again")
        self._assign(found.partitions)

    def _append(self, message: Any) -> None:
        number, offset = message.partition(), message.offset()
        try:
            position = self._log.append(
                message.value() or b"",
                key=message.key(),
                headers=_headers(message),
                producer=self._producer(number),
                producer_sequence=offset,
            )
        except (RecordTooLargeError, InvalidOptionError) as error:
            raise MirrorError(
                f"{self._broker.url}: the record at offset {offset} of partition {number} does not "
                f"fit the log: {error}"
            ) from error
        if position < 0:
            raise MirrorError(
                "the log drops records because a required tailer is behind: open it with "
                "on_lag='wait'",
                path=self._log.path,
            )
        self._next[number] = offset + 1

    def close(self) -> None:
        """Leave the group."""
        self._consumer.close()


def _headers(message: Any) -> dict[str, bytes]:
    """Return the headers of a message, and what the log does not have elsewhere."""
    found = {name: value or b"" for name, value in message.headers() or ()}
    found["kafka-partition"] = b"%d" % message.partition()
    found["kafka-offset"] = b"%d" % message.offset()
    kind, timestamp_ms = message.timestamp()
    if kind:
        found["kafka-timestamp-ms"] = b"%d" % timestamp_ms
    if message.value() is None:
        found["kafka-null"] = b""
    return found
