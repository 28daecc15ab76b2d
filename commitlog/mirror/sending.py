"""Sending: the records of a log to a topic, batch by batch."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from commitlog import Batch, CommitLog
from commitlog.base.host import host
from commitlog.errors import MirrorError, PositionError, SchemaError
from commitlog.extension import view_of
from commitlog.mirror import repeats
from commitlog.mirror.broker import Broker, Settings, code_of
from commitlog.mirror.place import Place, digest_of, resume_position

_MOST = 10_000  # records of a batch: what a kill repeats without a transaction
_IDLE_S = 0.2  # until the end is looked at again
_CALL_S = 5.0  # one attempt of a call of a transaction
_STUCK_MOST = 8  # calls that do not return
_REFRESH_S = 86_400.0  # brokers forget the offsets of a group after seven days
_DEFAULTS = {
    "partitioner": "murmur2_random",  # as Kafka's own producer
    "linger.ms": 5,
    "message.max.bytes": 1_000_000_000,  # the topic decides
}
_FIXED = {"enable.idempotence": True, "delivery.report.only.error": True}
# A broker that is away is waited for. No record is sent behind one that failed.
_UNENDING = {"message.timeout.ms": 0, "enable.gapless.guarantee": True}
_PASSING = (
    *("_MSG_TIMED_OUT", "_PURGE_QUEUE", "_PURGE_INFLIGHT", "_TIMED_OUT", "_TRANSPORT"),
    *("NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS"),
)
_logger = logging.getLogger("commitlog.mirror")
# Of the process: a call that does not return keeps its thread when its mirror has ended.
_stuck = threading.BoundedSemaphore(_STUCK_MOST)
T = TypeVar("T")


class AgainError(Exception):
    """The producer has failed: a new one sends what is not acknowledged."""


class EndedError(Exception):
    """The mirror is being closed."""


class Sending:
    """Send a log to a topic. A batch is sent, acknowledged, and only then behind the named tailer.

    The place of each batch is committed as the offset of a consumer group: with `transactional_id`
    in one transaction with the records. The tailer has the id of the topic in its name, so a topic
    that was created again is noticed.

    Attributes
    ----------
    name : str
        What it is for statistics; its lag is the figure `unit`.
    position : int
        The broker has acknowledged everything below it.
    """

    unit = "lag_bytes"

    def __init__(
        self,
        log: CommitLog,
        broker: Broker,
        *,
        name: str | None,
        transactional_id: str | None,
        partition: int | None,
        **reading: Any,
    ) -> None:
        self._log, self._view, self._broker = log, view_of(log), broker
        self._kafka_error = broker.kafka.KafkaException
        self._uuid = self._view.identity.uuid.hex()
        self._names: dict[int, str | None] = {}
        self._refused: tuple[Any, str, int] | None = None
        self._limit = _MOST  # less if a record further on is refused
        self._id, self._partition = transactional_id, -1 if partition is None else partition
        self._producer: Any = None
        topic, partitions = broker.describe()
        if not -1 <= self._partition < partitions:
            raise MirrorError(
                f"{broker.url}: the topic has {partitions} partitions, from 0: correct "
                f"partition={partition}"
            )
        known = name or f"kafka:{broker.topic}"
        self.name = f"mirror to {broker.url}" + (f" as {name}" if name else "")
        self._check_topic(known, topic)
        self._tailer = log.tailer(f"{known}@{topic}", **reading)
        group = transactional_id or f"commitlog.{self._uuid}.{known}"
        try:
            place = {"group.id": group, "enable.auto.commit": False}
            self._consumer = broker.client("Consumer", {}, place)
            self._begin()
        except BaseException as error:
            self._tailer.close()
            if isinstance(error, AgainError):
                raise broker.failure(error, "the mirror cannot begin") from None
            raise
        self.position = self._tailer.position

    def _check_topic(self, name: str, topic: str) -> None:
        for state in self._log.tailers():
            before, _, id = state.name.rpartition("@")
            if before == name and id != topic:
                raise MirrorError(
                    f"{self._broker.url}: tailer {state.name!r} belongs to another topic of this "
                    "name: the topic was created again, or it is of another cluster; delete that "
                    "tailer to send the log to this topic from its start, or take another name"
                )

    def _begin(self) -> None:
        """Take a producer, and go to the place at the broker, or stay where the tailer is.

        What an earlier producer of the transactional id has begun is committed or aborted then.
        """
        defaults: Settings = {**_DEFAULTS, **_UNENDING}
        fixed: Settings = _FIXED
        if self._id is not None:
            defaults, fixed = _DEFAULTS, {**_FIXED, "transactional.id": self._id}
        self._refused, self._producer = None, self._broker.client("Producer", defaults, fixed)
        if self._id is not None:
            self._try("take the transactional id", self._producer.init_transactions)
        found = self._try("read the place", self._committed)
        self._place, digest = Place.parse(found.offset, found.metadata), None
        log, tailer, end = self._log, self._tailer, self._view.committed_position
        if self._place is not None and log.first_position <= self._place.last < end:
            digest = ""  # of no record
            with contextlib.suppress(PositionError):
                record = log.read(self._place.last)
                digest = digest_of(record.timestamp_ns, record.value)
        position = resume_position(self._place, tailer.position, self._uuid, end, digest)
        if position != tailer.position:
            tailer.seek(position)
        self._placed_s = host.monotonic()

    def _committed(self, limit_s: float) -> Any:
        (found,) = self._consumer.committed(self._offset(), timeout=limit_s)
        if found.error is not None:
            raise self._kafka_error(found.error)
        return found

    def _offset(self, *place: object) -> list[Any]:
        return [self._broker.kafka.TopicPartition(self._broker.topic, 0, *place)]

    @property
    def lag(self) -> int:
        """Return how many bytes of the log the broker has not acknowledged."""
        return max(0, self._view.committed_position - self.position)

    def step(self) -> None:
        """Send one batch, or wait a moment for one."""
        if self._view.committed_position > self._view.flushed_position:
            self._view.ask_for_flush()
        count = 0
        try:
            if self._producer is None:
                self._begin()
            with self._tailer.reading_batch(self._limit, timeout=_IDLE_S) as batch:
                count = len(batch)
                if count:
                    self._send(batch, self._place_of(batch, count - 1))
                elif self._place is not None and host.monotonic() > self._placed_s + _REFRESH_S:
                    self._send(None, self._place)
            self._limit = _MOST
        except AgainError as again:
            _logger.warning("%s: %s; trying again", self._broker.url, again)
            self._producer = None  # ended, so that it cannot take the transactional id back
        except MirrorError as error:
            # First send what is before a refused record: then the tailer can be moved past it.
            before = 0 if error.position is None else int((batch.positions < error.position).sum())
            if not before:
                raise
            self._limit, self._producer = before, None
        self.position = self._tailer.position
        if not count and self._view.is_removed:
            raise MirrorError("the log was removed", path=self._log.path)

    def close(self) -> None:
        """Release the name, and the connections."""
        self._tailer.close()
        self._consumer.close()

    # --- one batch --------------------------------------------------------------------------------

    def _place_of(self, batch: Batch, last: int) -> Place:
        digest = digest_of(int(batch.timestamps_ns[last]), batch.value(last))
        return Place(self._uuid, self._tailer.position, int(batch.positions[last]), digest)

    def _send(self, batch: Batch | None, place: Place) -> None:
        """Send records and place; with a transaction, both or none."""
        producer, self._refused, self._placed_s = self._producer, None, host.monotonic()
        offset = self._offset(place.position, place.metadata())
        if self._id is not None:
            self._try("begin a transaction", lambda _: producer.begin_transaction())
        if batch is not None:
            self._produce(batch)
        if self._id is None:
            self._consumer.commit(offsets=offset, asynchronous=True)
        else:  # the commit waits for the records, and tells early if the transaction has failed
            group = self._consumer.consumer_group_metadata()
            send = partial(producer.send_offsets_to_transaction, offset, group)
            self._try("commit the place", partial(self._unless_stuck, send))
            self._try("commit the transaction", producer.commit_transaction)
        self._place = place

    def _unless_stuck(self, call: Callable[[float], object], limit_s: float) -> None:
        """Call in a thread of its own.

        If the broker of the group is lost, librdkafka can wait for it without an end and ignores
        the limit (its issues 5456 and 5511). The thread keeps the producer until that ends.
        """
        done = host.event()
        failed: list[Exception] = []

        def act() -> None:
            try:
                call(limit_s)
            except self._kafka_error as error:
                failed.append(error)
            finally:
                _stuck.release()
                done.set()

        if not _stuck.acquire(blocking=False):
            raise MirrorError(
                f"{self._broker.url}: {_STUCK_MOST} calls of librdkafka do not return: begin the "
                "mirror in a new process"
            )
        host.thread(f"commitlog mirror place {self._log.path}", act).start()
        until_s = host.monotonic() + 2 * limit_s
        while not done.wait(_IDLE_S):
            self._deliver(lambda _: int(self._producer.poll(0)))
            if host.monotonic() > until_s:
                raise AgainError("the place was not committed in time")
        if failed:
            raise failed[0]

    def _produce(self, batch: Batch) -> None:
        """Send the records; without a transaction, wait until the broker has acknowledged all."""
        producer, topic = self._producer, self._broker.topic
        own = {repeats.LOG: self._uuid, repeats.EPOCH: str(self._view.epochs.read().number)}
        columns = (batch.positions, batch.sequences, batch.timestamps_ns, batch.types)
        rows = zip(*(column.tolist() for column in columns), batch.headers, strict=True)
        for row, (position, sequence, timestamp_ns, kind, given) in enumerate(rows):
            headers = {
                **given,
                **own,
                repeats.POSITION: str(position),
                repeats.SEQUENCE: str(sequence),
                repeats.TIMESTAMP: str(timestamp_ns),
                **(self._kind_headers(kind) if kind else {}),
            }
            record = topic, batch.value(row), batch.key(row), self._partition
            report = partial(self._note, position)
            timestamp_ms = max(0, timestamp_ns // 1_000_000)
            self._queue(
                partial(producer.produce, *record, report, timestamp=timestamp_ms, headers=headers),
                position,
            )
        while self._id is None and self._deliver(producer.flush):
            pass

    def _queue(self, send: Callable[[], None], position: int) -> None:
        while True:
            try:
                return send()
            except BufferError:  # the user's queue.buffering.max.messages
                self._deliver(self._producer.poll)
            except self._kafka_error as error:
                self._deliver(self._producer.poll)  # a report says why the producer has failed
                refused = position if code_of(error) == "MSG_SIZE_TOO_LARGE" else None
                raise self._failed(error, "cannot send a record", refused) from None

    def _deliver(self, wait: Callable[[float], int]) -> int:
        """Wait a moment for reports, and return what `wait` does; raise what they say."""
        fatal, left = None, 0
        self._consumer.poll(0)  # what it logs
        try:
            left = wait(_IDLE_S)
        except self._kafka_error as error:
            fatal = error
            if code_of(error) == "_GAPLESS_GUARANTEE":  # the report says why
                with contextlib.suppress(self._kafka_error):
                    self._producer.poll(_CALL_S)
        if self._refused is not None:
            raise self._failed(*self._refused)
        if fatal is not None:
            raise self._failed(fatal, "the mirror cannot go on")
        if self._broker.ending.is_set():
            raise EndedError
        return left

    def _note(self, position: int, error: Any, _: Any) -> None:
        """Take the report of a record that failed; those after the first one only follow it."""
        if error is not None and self._refused is None:
            self._refused = error, "a record is refused", position

    def _failed(self, error: Any, what: str, position: int | None = None) -> Exception:
        """Return the error that ends the mirror, or the one after which it tries again."""
        found = error.args[0] if isinstance(error, BaseException) else error
        if self._id is not None and not found.fatal() and (_is_lost(found) or _is_passing(found)):
            return AgainError(f"{what}: {found.str()}")
        return self._broker.failure(error, what, position)

    def _try(self, what: str, call: Callable[[float], T]) -> T:
        """Call until the broker has answered, or the time is over."""
        until_s = host.monotonic() + self._broker.timeout_s
        while True:
            try:
                return call(_CALL_S)
            except self._kafka_error as error:
                self._deliver(self._producer.poll)  # a refused record is the cause
                found = error.args[0]
                if _is_lost(found) or not _is_passing(found):
                    raise self._failed(error, f"cannot {what}") from None
                if host.monotonic() > until_s:
                    raise AgainError(f"cannot {what}: {found.str()}") from None

    def _kind_headers(self, kind: int) -> dict[str, str]:
        """Return the type of a record, and the name of its topic if it is a message."""
        if kind not in self._names:
            from commitlog.topics.topics_state import catalog_of

            found = catalog_of(self._log).checked(kind)
            self._names[kind] = None if isinstance(found, SchemaError) else found.topic
        name = self._names[kind]
        return {repeats.TYPE: str(kind)} | ({} if name is None else {repeats.TOPIC: name})


def _is_passing(error: Any) -> bool:
    """Return whether the same call can succeed later."""
    return bool(error.retriable() or error.name() in _PASSING)


def _is_lost(error: Any) -> bool:
    """Return whether the transaction has failed: only a new producer helps."""
    return bool(error.txn_requires_abort() or error.name() == "_STATE")
