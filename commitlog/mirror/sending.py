"""Sending: the records of a log to a topic, batch by batch."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from commitlog import Batch, CommitLog
from commitlog.base.host import host
from commitlog.errors import MirrorError, SchemaError
from commitlog.extension import view_of
from commitlog.mirror import repeats
from commitlog.mirror.broker import Broker, code_of
from commitlog.mirror.place import Place, digest_of, resume_position

_IDLE_S = 0.2  # until the end is looked at again
_CALL_S = 5.0  # one attempt of a call of a transaction
_REFRESH_S = 86_400.0  # brokers forget the offsets of a group after seven days
_DEFAULTS = {
    "partitioner": "murmur2_random",  # as Kafka's own producer
    "linger.ms": 5,
    "message.max.bytes": 1_000_000_000,  # the topic decides
}
_FIXED = {"enable.idempotence": True, "delivery.report.only.error": True}
# A broker that is away is waited for. No record is sent behind one that failed.
_UNENDING = {"message.timeout.ms": 0, "enable.gapless.guarantee": True}
_PASSING = ("_MSG_TIMED_OUT", "_PURGE_QUEUE", "_PURGE_INFLIGHT", "_TIMED_OUT", "_TRANSPORT")
_logger = logging.getLogger("commitlog.mirror")


class AgainError(Exception):
    """The transaction was aborted: its records are sent again."""


class EndedError(Exception):
    """The mirror is being closed."""


class Sending:
    """Send a log to a topic. A batch is sent, acknowledged, and only then behind the named tailer.

    The place of each batch is committed as the offset of a consumer group: with `transactional_id`
    in one transaction with the records. The tailer has the id of the topic in its name, so a topic
    that was created again is noticed.

    Attributes
    ----------
    position : int
        The broker has acknowledged everything below it.
    """

    def __init__(
        self,
        log: CommitLog,
        broker: Broker,
        *,
        name: str | None,
        transactional_id: str | None,
        partition: int | None,
        required: bool,
        most: int,
        **reading: Any,
    ) -> None:
        self._log, self._view, self._broker = log, view_of(log), broker
        self._partition, self._most = partition, most
        self._uuid = self._view.identity.uuid.hex()
        self._names: dict[int, str | None] = {}
        self._refused: tuple[Any, int] | None = None
        self._place: Place | None = None
        self._placed_s = host.monotonic()
        self._is_transactional = transactional_id is not None
        known = name or f"kafka:{broker.topic}"
        topic = broker.describe()
        if partition is not None and not 0 <= partition < topic.partitions:
            raise MirrorError(
                f"{broker.url}: the topic has {topic.partitions} partitions, from 0: correct "
                f"partition={partition}"
            )
        self._check_topic(known, topic.id)
        self._tailer = log.tailer(f"{known}@{topic.id}", required=required, **reading)
        try:
            group = transactional_id or f"commitlog.{self._uuid}.{known}"
            self._consumer = broker.client(
                "Consumer", {}, {"group.id": group, "enable.auto.commit": False}
            )
            fixed: dict[str, object] = {
                "enable.idempotence": True,
                "delivery.report.only.error": True,
            }
            if transactional_id is None:
                self._producer = broker.client("Producer", {**_DEFAULTS, **_UNENDING}, fixed)
            else:
                fixed["transactional.id"] = transactional_id
                self._producer = broker.client("Producer", _DEFAULTS, fixed)
                # What an earlier mirror has begun is committed or aborted when this returns.
                self._try("take the transactional id", self._producer.init_transactions)
            self._resume()
        except BaseException:
            self._tailer.close()
            raise

    def _check_topic(self, name: str, topic: str) -> None:
        for state in self._log.tailers():
            before, _, id = state.name.rpartition("@")
            if before == name and id != topic:
                raise MirrorError(
                    f"{self._broker.url}: tailer {state.name!r} belongs to another topic of this "
                    "name: the topic was created again, or it is of another cluster; delete that "
                    "tailer to send the log to this topic from its start, or take another name"
                )

    def _resume(self) -> None:
        """Go to the place at the broker, or stay where the tailer is."""
        kafka, log, tailer = self._broker.kafka, self._log, self._tailer
        try:
            asked = [kafka.TopicPartition(self._broker.topic, 0)]
            (found,) = self._consumer.committed(asked, timeout=self._broker.timeout_s)
            if found.error is not None:
                raise kafka.KafkaException(found.error)
        except kafka.KafkaException as error:
            raise self._broker.failure(error, "the place cannot be read") from None
        place = Place.parse(found.offset, found.metadata)
        digest = None
        end = self._view.flushed_position
        if place is not None and log.first_position <= place.last < end:
            record = log.read(place.last)
            digest = digest_of(record.timestamp_ns, record.value)
        position = resume_position(place, tailer.position, self._uuid, end, digest)
        if position != tailer.position:
            tailer.seek(position)
        self._place, self.position = place, position

    @property
    def lag(self) -> int:
        """Return how many bytes of the log the broker has not acknowledged."""
        return max(0, self._view.committed_position - self.position)

    def step(self) -> None:
        """Send one batch, or wait a moment for one."""
        if self._view.committed_position > self._view.flushed_position:
            self._view.ask_for_flush()
        try:
            with self._tailer.reading_batch(self._most, timeout=_IDLE_S) as batch:
                if len(batch):
                    self._send(batch)
        except AgainError as again:
            _logger.warning("%s: %s; sending again", self._broker.url, again)
        self.position = self._tailer.position
        if not len(batch):
            if self._view.is_removed:
                raise MirrorError("the log was removed", path=self._log.path)
            if self._place is not None and host.monotonic() > self._placed_s + _REFRESH_S:
                self._transact(lambda: None, self._place)

    def close(self) -> None:
        """Release the name, and the connections."""
        self._tailer.close()
        self._consumer.close()

    # --- one batch --------------------------------------------------------------------------------

    def _send(self, batch: Batch) -> None:
        last = len(batch) - 1
        place = Place(
            self._uuid,
            self._tailer.position,
            int(batch.positions[last]),
            digest_of(int(batch.timestamps_ns[last]), batch.value(last)),
        )
        self._transact(lambda: self._produce(batch), place)
        self._place = place

    def _transact(self, produce: Callable[[], None], place: Place) -> None:
        """Send records and place; with a transaction, both or none."""
        producer, self._refused = self._producer, None
        offset = self._broker.kafka.TopicPartition(
            self._broker.topic, 0, place.position, place.metadata()
        )
        self._placed_s = host.monotonic()
        if not self._is_transactional:
            produce()
            self._consumer.commit(offsets=[offset], asynchronous=True)
            return
        producer.begin_transaction()
        try:
            produce()
            group = self._consumer.consumer_group_metadata()
            send = partial(producer.send_offsets_to_transaction, [offset], group)
            self._try("commit the place", send)
            self._try("commit the transaction", producer.commit_transaction)
        except MirrorError:
            with contextlib.suppress(MirrorError, AgainError):
                self._abort()
            raise
        except (AgainError, EndedError):
            self._abort()
            raise

    def _abort(self) -> None:
        self._try("abort the transaction", self._producer.abort_transaction, once=True)

    def _produce(self, batch: Batch) -> None:
        """Send the records, and wait until the broker has acknowledged all."""
        producer, topic = self._producer, self._broker.topic
        own = {repeats.LOG: self._uuid, repeats.EPOCH: str(self._view.epochs.read().number)}
        partition = -1 if self._partition is None else self._partition
        rows = zip(
            batch.positions.tolist(),
            batch.sequences.tolist(),
            batch.timestamps_ns.tolist(),
            batch.types.tolist(),
            batch.headers,
            strict=True,
        )
        for row, (position, sequence, timestamp_ns, kind, given) in enumerate(rows):
            headers = {
                **given,
                **own,
                repeats.POSITION: str(position),
                repeats.SEQUENCE: str(sequence),
                repeats.TIMESTAMP: str(timestamp_ns),
            }
            if kind:
                headers |= self._kind_headers(kind)
            send = partial(
                producer.produce,
                topic,
                batch.value(row),
                batch.key(row),
                partition,
                partial(self._note, position),
                timestamp=max(0, timestamp_ns // 1_000_000),
                headers=headers,
            )
            self._queue(send, position)
        while self._deliver(producer.flush):
            pass

    def _queue(self, send: Callable[[], None], position: int) -> None:
        while True:
            try:
                return send()
            except BufferError:  # the user's queue.buffering.max.messages
                self._deliver(self._producer.poll)
            except self._broker.kafka.KafkaException as error:
                raise self._failed(error, "a record is refused", position) from None

    def _deliver(self, wait: Callable[[float], int]) -> int:
        """Wait a moment for reports, and return what `wait` does; raise what they say."""
        fatal, left = None, 0
        try:
            left = wait(_IDLE_S)
        except self._broker.kafka.KafkaException as error:
            fatal = error
            if code_of(error) == "_GAPLESS_GUARANTEE":  # the report says why
                with contextlib.suppress(self._broker.kafka.KafkaException):
                    self._producer.poll(_CALL_S)
        if self._refused is not None:
            raise self._failed(self._refused[0], "a record is refused", self._refused[1])
        if fatal is not None:
            raise self._failed(fatal, "the mirror cannot go on")
        if self._broker.ending.is_set():
            raise EndedError
        return left

    def _note(self, position: int, error: Any, _: Any) -> None:
        """Take the report of a record that failed; those after the first one only follow it."""
        if error is not None and self._refused is None:
            self._refused = error, position

    def _failed(self, error: Any, what: str, position: int | None = None) -> Exception:
        """Return the error that ends the mirror, or the one after which it tries again."""
        kafka_error = error.args[0] if isinstance(error, BaseException) else error
        is_passing = code_of(error) in _PASSING or kafka_error.txn_requires_abort()
        if self._is_transactional and is_passing and not kafka_error.fatal():
            return AgainError(kafka_error.str())
        failure: Exception = self._broker.failure(error, what, position)
        return failure

    def _try(self, what: str, call: Callable[[float], object], *, once: bool = False) -> None:
        """Call until the broker has answered; `once`: or the time is over."""
        until_s = host.monotonic() + self._broker.timeout_s
        while True:
            try:
                call(_CALL_S)
                return
            except self._broker.kafka.KafkaException as error:
                is_late = host.monotonic() > until_s and (once or self._place is None)
                if self._broker.ending.is_set() or not error.args[0].retriable() or is_late:
                    if once and self._broker.ending.is_set():
                        return  # the broker aborts it when the next mirror comes
                    raise self._failed(error, f"cannot {what}") from None
                _logger.info("%s: cannot %s: %s", self._broker.url, what, error.args[0].str())

    def _kind_headers(self, kind: int) -> dict[str, str]:
        """Return the type of a record, and the name of its topic if it is a message."""
        if kind not in self._names:
            from commitlog.topics.topics_state import catalog_of

            found = catalog_of(self._log).checked(kind)
            self._names[kind] = None if isinstance(found, SchemaError) else found.topic
        name = self._names[kind]
        return {repeats.TYPE: str(kind)} | ({} if name is None else {repeats.TOPIC: name})
