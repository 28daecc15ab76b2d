"""Job: a record that one worker has, until it finishes it or its lease ends."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Protocol, Self

from commitlog import Record
from commitlog.base.process_bound import ProcessBound
from commitlog.base.units import Duration
from commitlog.errors import ClosedError, ForkedError, InvalidOptionError, JobFinishedError
from commitlog.queues.compiled.leases import Lease
from commitlog.queues.parts import Parts

Kind = type[BaseException]


class JobEnds(Protocol):
    """What finishes the jobs of a process."""

    @property
    def path(self) -> str: ...
    @property
    def parts(self) -> Parts: ...
    def accept(self, jobs: list[Job], sync: bool | None = None) -> None: ...
    def release(self, job: Job, after: Duration | None, reason: str) -> None: ...
    def give_back(self, job: Job, error: Exception) -> None: ...
    def return_untried(self, jobs: list[Job]) -> None: ...
    def reject(self, job: Job, reason: str) -> None: ...
    def renew(self, job: Job) -> None: ...


class Job(ProcessBound, Lease):
    """A record that this process has to handle; `Queue.take` returns it.

    Use it in a `with` block: the job is accepted at its end, and released if the block raises. Or
    call one of `accept`, `release` and `reject`. Any thread of this process may do so.

    Attributes
    ----------
    record : Record
        The record, with its timestamp, type and sequence.
    position : int
        The position of the record in the log.
    attempt : int
        How many times the job was handed out, from 1.
    """

    __slots__ = ("_message",)
    _instead = "take the job in the process that handles it"
    record: Record
    queue: JobEnds

    def __init__(self) -> None:
        raise TypeError("a queue makes its jobs: call `Queue.take`")

    @property
    def value(self) -> Any:
        """Return the appended bytes; for a queue of a topic, the message."""
        return self.record.value if self.queue.parts.decode is None else self._message

    @property
    def key(self) -> bytes | None:
        return self.record.key

    @property
    def type(self) -> int:
        return self.record.type

    @property
    def headers(self) -> dict[str, bytes]:
        return self.record.headers

    # --- the end ----------------------------------------------------------------------------------

    def accept(self, *, sync: bool | None = None) -> None:
        """Finish the job: it does not come again.

        Parameters
        ----------
        sync : bool, optional
            True: return when this is durable. False: a power cut may lose it, and the job comes
            again. By default the queue's `sync=` decides.

        Raises
        ------
        LeaseLostError
            The lease has ended. The job goes, or went, to another worker.
        JobFinishedError, ForkedError
            The job is finished already, or is another process's.
        DiskFullError, LogFailedError
            The acceptance cannot be written. The job is still held: try again.
        """
        if self.finished is not None:
            self.check()
        self.queue.accept([self], sync)

    def release(self, after: Duration | None = None, *, reason: str = "") -> None:
        """Give the job back; it comes again, up to `max_attempts` times.

        Parameters
        ----------
        after : float or str, optional
            How long it waits; 0: not at all. By default, the queue's `backoff=` for its attempt.
        reason : str
            Why; it is in the history of a dead letter.
        """
        self.check()
        _check_reason(reason)
        self.queue.release(self, after, reason)

    def reject(self, reason: str = "") -> None:
        """Set the job aside: it becomes a dead letter, and does not come again."""
        self.check()
        _check_reason(reason)
        self.queue.reject(self, reason)

    def renew(self) -> None:
        """Begin the lease again, for a job that takes longer."""
        self.check()
        self.queue.renew(self)

    @property
    def is_finished(self) -> bool:
        """Whether it was accepted, released or rejected."""
        return self.finished is not None

    def check(self) -> None:
        """Raise unless this process may finish the job."""
        if self.finished is not None:
            raise JobFinishedError(
                f"the job was {self.finished} already", path=self.queue.path, position=self.position
            )
        worker = self.queue.parts.worker
        if worker.closed:
            raise ClosedError(
                "the queue was closed, and its jobs go to other workers",
                path=self.queue.path,
                position=self.position,
            )
        table = worker.table
        if table.worker != self.worker or table.generation != self.generation:
            raise ForkedError(
                "the job is the parent's: finish it in the process that took it",
                path=self.queue.path,
                position=self.position,
            )

    def set_message(self, message: Any) -> None:
        """Note what the value was decoded to; only the queue calls this."""
        self._message = message

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: Kind | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.finished is not None:
            return
        if error is None:
            self.accept()
        elif isinstance(error, Exception):
            self.queue.give_back(self, error)
        else:  # the program ends: the attempt does not count
            self.queue.return_untried([self])

    def __repr__(self) -> str:
        state = self.finished or "held"
        return (
            f"<Job of queue {self.queue.parts.name!r}, position {self.position}, attempt "
            f"{self.attempt}, {state}>"
        )


def _check_reason(reason: object) -> None:
    if not isinstance(reason, str):
        raise InvalidOptionError(
            f"reason must be a str, not {type(reason).__name__}: pass str() of it"
        )
