"""Mirror: a thread that copies records to a topic of Kafka, or from it."""

from __future__ import annotations

import logging
import os
from typing import Self

from commitlog import CommitLog
from commitlog.base.host import host
from commitlog.base.reached import Reached
from commitlog.base.units import Duration, parse_duration
from commitlog.errors import CommitLogError, ForkedError, MirrorError
from commitlog.extension import view_of
from commitlog.mirror.broker import Broker, Settings
from commitlog.mirror.receiving import Receiving
from commitlog.mirror.sending import EndedError, Sending
from commitlog.stats import FlowStats
from commitlog.types import Start, Visibility

_logger = logging.getLogger("commitlog.mirror")


class Mirror:
    """Mirror a log; `to_kafka` and `from_kafka` return it. Close it, or use it in a `with`
    statement, before the log is closed.
    """

    def __init__(self, log: CommitLog, broker: Broker, flow: Sending | Receiving) -> None:
        self.url = broker.url
        self._pid, self._path = os.getpid(), log.path
        self._ending, self._flow = broker.ending, flow
        self._reached = Reached(self._ending)
        self._flows = view_of(log).flows
        self._flows[flow.name] = self._figures
        self._thread = host.thread(f"commitlog mirror {log.path}", self._run)
        self._thread.start()
        view_of(log).at_close(self.close)

    @property
    def position(self) -> int:
        """Return the position in the log below which everything is mirrored."""
        return self._flow.position

    @property
    def lag(self) -> int:
        """Return how far the mirror is behind: bytes of the log, or offsets of the topic."""
        return self._flow.lag

    @property
    def error(self) -> CommitLogError | None:
        """Return the error that ended the mirror; None while it runs."""
        return self._reached.error

    def wait(self, position: int | None = None, timeout: Duration | None = None) -> bool:
        """Wait until the mirror reaches a position, or, without one, until it ends.

        Parameters
        ----------
        position : int, optional
            A position of the log, such as its `flushed_position`.
        timeout : float or str, optional
            Seconds, or a duration such as ``"5s"``.

        Returns
        -------
        bool
            False if the time expired.

        Raises
        ------
        MirrorError, CommitLogError
            The mirror has ended with this error.
        """
        if self._pid != os.getpid():
            raise ForkedError("a mirror runs in the process that began it: begin one in this one")
        return self._reached.wait(lambda: self.position, position, timeout)

    def close(self) -> None:
        """Stop behind the last batch that was acknowledged; a second call does nothing, and neither
        does a call in the child of a fork.
        """
        if self._pid == os.getpid():
            self._ending.set()
            self._flows.pop(self._flow.name, None)
            if self._thread.ident != host.ident():
                self._thread.join()

    def _figures(self) -> FlowStats:
        error = None if self.error is None else str(self.error)
        return FlowStats(name=self._flow.name, error=error, **{self._flow.unit: self._flow.lag})

    def _run(self) -> None:
        try:
            while not self._ending.is_set():
                self._flow.step()
                self._reached.note()
        except EndedError:
            pass
        except CommitLogError as error:
            self._end(error)
        except Exception as error:
            self._end(MirrorError(f"{self.url}: the mirror failed: {error!r}; begin it again"))
            raise
        finally:
            self._flow.close()
            self._reached.note()

    def _end(self, error: CommitLogError) -> None:
        self._reached.error = error
        _logger.error("%s: the mirror ended: %s", self._path, error)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def to_kafka(
    log: CommitLog,
    url: str,
    *,
    name: str | None = None,
    transactional_id: str | None = None,
    partition: int | None = None,
    start: Start = "first",
    visibility: Visibility = "flushed",
    required: bool = True,
    settings: Settings | None = None,
    timeout: Duration = "30s",
) -> Mirror:
    """Send a log's records to a topic, in order, until the mirror is closed.

    Parameters
    ----------
    log : CommitLog
        An open log; mode "r" suffices.
    url : str
        ``"kafka://host:port/topic"``; several brokers with commas. The topic must be there.
    name : str, optional
        The mirror's own, if there are several of this log to topics of one name. Its tailer is
        ``name@`` and the topic's id.  By default ``kafka:`` and the topic.
    transactional_id : str, optional
        Send records and place in transactions under this id, so that a consumer that reads what is
        committed gets each record exactly once. Without one, a kill repeats at most one batch,
        which `Repeats` finds.
    partition : int, optional
        Send all records to this partition. By default the key decides, as for Kafka's producer.
    start : {"first", "end"} or int
        Where a new mirror begins.
    visibility : {"flushed", "replicated", "committed"}
        Send only what is durable; only what enough copies have; or everything that readers see, of
        which a power cut may take from the log what the broker has.
    required : bool
        Retention keeps what the broker has not acknowledged.
    settings : mapping, optional
        Settings of confluent-kafka's producer. Those of the environment are below them:
        ``COMMITLOG_KAFKA_SASL_PASSWORD`` is ``sasl.password``.
    timeout : float or str
        How long the first answer of the broker may take. Later the mirror waits for it.

    Raises
    ------
    InvalidOptionError
        The URL or a setting is none.
    MirrorError
        The broker was not reached, refuses this user, has no such topic, or has records that this
        log does not have.
    InUseError
        Another mirror of this name runs.
    MissingExtraError
        confluent-kafka is not installed.
    """
    broker = Broker(url, settings, parse_duration(timeout, "timeout"))

    sending = Sending(
        log,
        broker,
        name=name,
        transactional_id=transactional_id,
        partition=partition,
        required=required,
        start=start,
        visibility=visibility,
    )
    return Mirror(log, broker, sending)


def from_kafka(
    url: str,
    log: CommitLog,
    *,
    group: str | None = None,
    settings: Settings | None = None,
    timeout: Duration = "30s",
) -> Mirror:
    """Append the records of a topic to a log, each exactly once, until the mirror is closed.

    Parameters
    ----------
    url, settings, timeout
        As for `to_kafka`; the settings are those of the consumer. With
        ``{"auto.offset.reset": "earliest"}``, the mirror goes on if the broker has deleted records
        that the log does not have.
    log : CommitLog
        A log that is open for writing.
    group : str, optional
        The consumer group under which the progress is seen at the broker. If the log has no record
        of the topic, it begins where this group is.

    Raises
    ------
    InvalidOptionError, MirrorError, InUseError, MissingExtraError
        As for `to_kafka`.
    """
    broker = Broker(url, settings, parse_duration(timeout, "timeout"))
    return Mirror(log, broker, Receiving(log, broker, group))
