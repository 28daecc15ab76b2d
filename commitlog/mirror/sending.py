"""Sending: the records of a log to a topic, batch by batch."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from commitlog import Batch, CommitLog
from commitlog.base.host import host
from commitlog.errors import MirrorError, PositionError, SchemaError
from commitlog.extension import view_of
from commitlog.mirror import repeats
from commitlog.mirror.broker import Broker, code_of
from commitlog.mirror.place import Place, digest_of, resume_position

_MOST = 10_000  # records of a batch: what a kill repeats without a transaction
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
_PASSING = (
    *("_MSG_TIMED_OUT", "_PURGE_QUEUE", "_PURGE_INFLIGHT", "_TIMED_OUT", "_TRANSPORT"),
    *("NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS"),
)
_logger = logging.getLogger("commitlog.mirror")


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
        **reading: Any,
    ) -> None:
        self._log, self._view, self._broker = log, view_of(log), broker
        self._partition = partition
        self._uuid = self._view.identity.uuid.hex()
        self._names: dict[int, str | None] = {}
        self._refused: tuple[Any, str, int] | None = None
        self._limit = _MOST  # less if a record further on is refused
        self._id = transactional_id
        self._producer: Any = None
        topic, partitions = broker.describe()
        if partition is not None and not 0 <= partition < partitions:
            raise MirrorError(
                f"{broker.url}: the topic has {partitions} partitions, from 0: correct "
                f"partition={partition}"
            )
        known = name or f"kafka:{broker.topic}"
        self._check_topic(known, topic)
        self._tailer = log.tailer(f"{known}@{topic}", required=required, **reading)
        try:
            group = transactional_id or f"commitlog.{self._uuid}.{known}"
            place = {"group.id": group, "enable.auto.commit": False}
            self._consumer = broker.client("Consumer", {}, place)
            self._take_producer()
            self._place = self._resume()
        except AgainError as error:
            self._tailer.close()
            raise broker.failure(error, "the mirror cannot begin") from None
        except BaseException:
            self._tailer.close()
            raise
        self.position, self._placed_s = self._tailer.position, host.monotonic()

    def _check_topic(self, name: str, topic: str) -> None:
        for state in self._log.tailers():
            before, _, id = state.name.rpartition("@")
            if before == name and id != topic:
                raise MirrorError(
                    f"{self._broker.url}: tailer {state.name!r} belongs to another topic of this "
                    "name: the topic was created again, or it is of another cluster; delete that "
                    "tailer to send the log to this topic from its start, or take another name"
                )

    def _renew(self) -> None:
        """Begin with a new producer, which aborts an open transaction of the one before.

        The old one is ended first, so that it cannot take the transactional id back.
        """
        while True:
            self._producer = None
            try:
                self._take_producer()
                self._place = self._resume()
                return
            except AgainError as again:
                _logger.warning("%s: %s; trying again", self._broker.url, again)

    def _take_producer(self) -> None:
        self._refused = None
        if self._id is None:
            self._producer = self._broker.client("Producer", {**_DEFAULTS, **_UNENDING}, _FIXED)
            return
        fixed = {**_FIXED, "transactional.id": self._id}
        self._producer = self._broker.client("Producer", _DEFAULTS, fixed)
        # What an earlier mirror has begun is committed or aborted when this returns.
        self._try("take the transactional id", self._producer.init_transactions)

    def _resume(self) -> Place | None:
        """Go to the place at the broker, which is returned, or stay where the tailer is."""
        kafka, log, tailer = self._broker.kafka, self._log, self._tailer
        answers: list[Any] = []

        def ask(limit_s: float) -> None:
            asked = [kafka.TopicPartition(self._broker.topic, 0)]
            (answer,) = self._consumer.committed(asked, timeout=limit_s)
            if answer.error is not None:
                raise kafka.KafkaException(answer.error)
            answers.append(answer)

        self._try("read the place", ask)
        (found,) = answers
        place, digest = Place.parse(found.offset, found.metadata), None
        end = self._view.committed_position
        if place is not None and log.first_position <= place.last < end:
            try:
                record = log.read(place.last)
                digest = digest_of(record.timestamp_ns, record.value)
            except PositionError:
                digest = ""  # of none
        position = resume_position(place, tailer.position, self._uuid, end, digest)
        if position != tailer.position:
            tailer.seek(position)
        return place

    @property
    def lag(self) -> int:
        """Return how many bytes of the log the broker has not acknowledged."""
        return max(0, self._view.committed_position - self.position)

    def step(self) -> None:
        """Send one batch, or wait a moment for one."""
        if self._view.committed_position > self._view.flushed_position:
            self._view.ask_for_flush()
        count, has_failed = 0, False
        try:
            with self._tailer.reading_batch(self._limit, timeout=_IDLE_S) as batch:
                count = len(batch)
                if count:
                    self._send(batch)
                elif self._place is not None and host.monotonic() > self._placed_s + _REFRESH_S:
                    self._transact(lambda: None, self._place)
            self._limit = _MOST
        except AgainError as again:
            _logger.warning("%s: %s; sending again", self._broker.url, again)
            has_failed = True
        except MirrorError as error:
            # First send what is before a refused record: then the tailer can be moved past it.
            before = 0 if error.position is None else int((batch.positions < error.position).sum())
            if not before:
                raise
            self._limit, has_failed = before, True
        if has_failed:  # here, because the error holds the old producer
            self._renew()
        self.position = self._tailer.position
        if not count and self._view.is_removed:
            raise MirrorError("the log was removed", path=self._log.path)

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
        if self._id is None:
            produce()
            self._consumer.commit(offsets=[offset], asynchronous=True)
            return
        self._try("begin a transaction", lambda _: producer.begin_transaction())
        produce()  # the commit waits for it, and tells early if the transaction has failed
        group = self._consumer.consumer_group_metadata()
        self._try("commit the place", partial(self._send_place, producer, [offset], group))
        self._try("commit the transaction", producer.commit_transaction)

    def _send_place(self, producer: Any, offsets: list[Any], group: Any, limit_s: float) -> None:
        """Add the place to the transaction, in a thread of its own.

        If the broker of the group is lost, librdkafka can wait for it without an end and ignores
        the limit (its issues 5456 and 5511). The thread keeps such a producer until that ends.
        """
        done = host.event()
        failed: list[Exception] = []

        def send() -> None:
            try:
                producer.send_offsets_to_transaction(offsets, group, limit_s)
            except self._broker.kafka.KafkaException as error:
                failed.append(error)
            done.set()

        host.thread(f"commitlog mirror place {self._log.path}", send).start()
        until_s = host.monotonic() + 2 * limit_s
        while not done.wait(_IDLE_S):
            self._deliver(lambda _: int(producer.poll(0)))
            if host.monotonic() > until_s:
                raise AgainError("the place was not committed in time")
        if failed:
            raise failed[0]

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
        while self._id is None and self._deliver(producer.flush):
            pass

    def _queue(self, send: Callable[[], None], position: int) -> None:
        while True:
            try:
                return send()
            except BufferError:  # the user's queue.buffering.max.messages
                self._deliver(self._producer.poll)
            except self._broker.kafka.KafkaException as error:
                self._deliver(self._producer.poll)  # a report says why the producer has failed
                refused = position if code_of(error) == "MSG_SIZE_TOO_LARGE" else None
                raise self._failed(error, "cannot send a record", refused) from None

    def _deliver(self, wait: Callable[[float], int]) -> int:
        """Wait a moment for reports, and return what `wait` does; raise what they say."""
        fatal, left = None, 0
        self._consumer.poll(0)  # what it logs
        try:
            left = wait(_IDLE_S)
        except self._broker.kafka.KafkaException as error:
            fatal = error
            if code_of(error) == "_GAPLESS_GUARANTEE":  # the report says why
                with contextlib.suppress(self._broker.kafka.KafkaException):
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

    def _try(self, what: str, call: Callable[[float], object]) -> None:
        """Call until the broker has answered, or the time is over."""
        until_s = host.monotonic() + self._broker.timeout_s
        while True:
            try:
                call(_CALL_S)
                return
            except self._broker.kafka.KafkaException as error:
                self._deliver(self._producer.poll)  # a refused record is the cause
                found = error.args[0]
                if _is_lost(found) or not _is_passing(found):
                    raise self._failed(error, f"cannot {what}") from None
                text = f"cannot {what}: {found.str()}"
                if host.monotonic() > until_s:
                    raise AgainError(text) from None
                _logger.info("%s: %s", self._broker.url, text)

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
