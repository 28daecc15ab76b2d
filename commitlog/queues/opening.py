"""Open the queues of logs."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

from commitlog import CommitLog, Record
from commitlog import open as open_log
from commitlog.base.failpoint import failpoint
from commitlog.base.name import check_name
from commitlog.base.option import check_switches
from commitlog.base.path import make_directory, translate_errors
from commitlog.errors import (
    CorruptQueueError,
    InUseError,
    InvalidOptionError,
    LogLockedError,
    QueueNotFoundError,
    ReadOnlyError,
)
from commitlog.extension import LogView, view_of
from commitlog.queues import notes
from commitlog.queues.dead_letters import DeadLetters
from commitlog.queues.finishing import Finishing
from commitlog.queues.leases_file import LeasesFile
from commitlog.queues.parts import Parts
from commitlog.queues.queue import Queue
from commitlog.queues.recovery import agree, restore, settled
from commitlog.queues.replay import Replay
from commitlog.queues.scanner import Scanner
from commitlog.queues.state_log import Beginning, Loaded, StateLog
from commitlog.queues.terms import GivenTerms, QueueOverrides, Terms, taken_terms
from commitlog.queues.upkeep import Upkeep, begin_hold, hold_name, write_base
from commitlog.queues.worker import Worker
from commitlog.types import Mode, Start

if TYPE_CHECKING:
    from commitlog.topics import Topic

FOLDER = "queues"


class Reading(NamedTuple):
    """Which records are jobs, what makes their values, and whether acceptances are durable."""

    wants: Callable[[Record], bool] | None
    decode: Callable[[Record], Any] | None
    sync: bool


def open_queue(
    log: CommitLog | str | os.PathLike[str] | None = None,
    name: str = "jobs",
    *,
    topic: Topic[Any] | None = None,
    start: Start = "first",
    change: bool = False,
    sync: bool = False,
    mode: Mode = "a",
    **overrides: Unpack[QueueOverrides],
) -> Queue:
    """Open a queue: take the records of a log as jobs, each by one of its workers.

    Queues of other names on the same log are independent: each gets every record.

    Parameters
    ----------
    log : CommitLog, str or path-like
        An open log, or the path of a log, which is created if it is missing.
    name : str
        The name of the queue, in the form of a named tailer's.
    topic : Topic, optional
        Take the messages of this topic, decoded, instead of the records of a log.
    start : {"first", "end"} or int
        Where a new queue begins: the oldest record, the current end, or a position.
    lease : float or str, optional
        How long a worker may hold a job before it goes to another one. 30 s for a new queue.
    max_attempts : int, optional
        How often a job is handed out before it becomes a dead letter, 1 to 4000. 5 by default.
    backoff, backoff_most : float or str, optional
        How long a job waits that failed once, twice as long after each further failure, and at
        most. 1 s and 10 min by default.
    in_flight, worker_in_flight : int, optional
        How many jobs all workers, and one process, hold at the same time, at most 65536.
    order : {"none", "key"}, optional
        "key": one job of a key at a time, in the order of the log. A job that waits for its next
        attempt keeps the later ones of its key waiting.
    change : bool
        Change the terms above for all workers. Otherwise, those that are given must be those that
        the queue has.
    sync : bool
        Whether an acceptance is durable when the call returns. If not, a power cut may take it, and
        the job comes again.
    mode : {"a", "r", "x"}
        "r": only look; the queue must exist. "x": the log must not exist.
    **overrides
        As for `commitlog.open`, if `log` is a path.

    Returns
    -------
    Queue
        Close it, or use it in a `with` statement.

    Raises
    ------
    InvalidOptionError
        A name or a term is invalid, or differs from that of the queue.
    QueueNotFoundError
        The mode is "r", and there is no such queue.
    CorruptQueueError
        The state of the queue is damaged, or another log's.
    InUseError
        The queue has 1024 workers.
    CommitLogError
        As for `commitlog.open`.
    """
    title = check_name(name)
    check_name(hold_name(title))
    check_switches(change=change, sync=sync)
    options: dict[str, Any] = dict(overrides)
    given = taken_terms(options)
    if (log is None) == (topic is None):
        raise InvalidOptionError("queue() takes either a log or topic=, and not both")
    with ExitStack() as undo:
        opened, owns_log = _log_of(log, topic, mode, options)
        if owns_log:
            undo.callback(opened.close)
        opening = _Opening(opened, title, given, start, change=change, reads_only=mode == "r")
        parts, dead = opening.open(undo, _reading(topic, sync=sync))
        queue = Queue(parts, dead, owns_log=owns_log)
        undo.pop_all()
    if not owns_log:
        view_of(opened).at_close(_closing(weakref.ref(queue)))
    return queue


def _closing(queue: weakref.ref[Queue]) -> Callable[[], None]:
    def close() -> None:
        opened = queue()
        if opened is not None:
            opened.close()

    return close


def _log_of(
    log: CommitLog | str | os.PathLike[str] | None,
    topic: Topic[Any] | None,
    mode: Mode,
    overrides: Any,
) -> tuple[CommitLog, bool]:
    """Return the log, and whether it was opened for the queue."""
    if topic is not None:
        log = topic.log
    if isinstance(log, CommitLog):
        if overrides:
            raise InvalidOptionError(
                f"{', '.join(overrides)}: an open log has its options; give them to open()"
            )
        return log, False
    assert log is not None
    try:
        return open_log(log, mode, **overrides), True
    except LogLockedError:
        if mode != "a":
            raise
        # The writer of a pooled log is another process: jobs are taken of what it has committed.
        return open_log(log, "r", **overrides), True


def _reading(topic: Topic[Any] | None, *, sync: bool) -> Reading:
    if topic is None:
        return Reading(None, None, sync)
    from commitlog.queues.topic_jobs import TopicJobs

    jobs = TopicJobs(topic)
    return Reading(jobs.wants, jobs.decode, sync)


def folder_of(view: LogView, name: str) -> str:
    """Return the folder of a queue."""
    return os.path.join(view.path, FOLDER, name)


class _Opening:
    """Open a queue, and recover it if its leases are not valid."""

    def __init__(
        self,
        log: CommitLog,
        name: str,
        given: GivenTerms,
        start: Start,
        *,
        change: bool,
        reads_only: bool,
    ) -> None:
        self._log = log
        self._view = view_of(log)
        self._name = name
        self._given = given
        self._start = start
        self._change = change
        self._reads_only = reads_only
        self._folder = folder_of(self._view, name)
        if not self._view.grows or not os.path.isdir(log.path):
            raise ReadOnlyError(
                "this log is read from another place, where nothing can be taken: open a queue on "
                "the log's own directory",
                path=log.path,
            )

    def open(self, undo: ExitStack, reading: Reading) -> tuple[Parts, DeadLetters]:
        if self._reads_only:
            if not StateLog.exists(self._folder):
                raise QueueNotFoundError(
                    f"the log has no queue {self._name!r}: `commitlog queue LOG` lists its queues",
                    path=self._log.path,
                )
        else:
            with translate_errors(self._folder, "make the folder of the queue"):
                make_directory(self._folder)
        failpoint("queue folder made")
        mode = "r" if self._reads_only else "a"
        with translate_errors(self._folder, "open the queue"):
            file = LeasesFile(self._folder, self._view, writable=not self._reads_only)
        undo.callback(file.close)
        dead = DeadLetters(
            self._folder,
            self._view,
            self._log.segment_size,
            mode,
            lambda: {job[1] for job in file.table.snapshot()[1]},
        )
        if self._reads_only:
            state = StateLog(self._folder, mode)
            undo.callback(state.close)
            return self._parts(file, state, self._known(state), reading), dead
        with file.opening():
            state = StateLog(self._folder)
            undo.callback(state.close)
            parts = self._joined(file, state, dead, self._agreed(state), reading)
            undo.callback(parts.worker.leave)
        return parts, dead

    def _parts(
        self,
        file: LeasesFile,
        state: StateLog,
        beginning: Beginning,
        reading: Reading,
    ) -> Parts:
        return Parts(
            self._log,
            self._view,
            self._name,
            self._folder,
            Worker(file, reads_only=self._reads_only),
            state,
            Scanner(self._log, file.table, reading.wants),
            beginning,
            reading.sync,
            reading.decode,
        )

    # --- terms ------------------------------------------------------------------------------------

    def _known(self, state: StateLog) -> Beginning:
        known = state.beginning()
        if known is None:
            raise QueueNotFoundError(
                f"queue {self._name!r} has never been opened for work", path=self._folder
            )
        return known

    def _agreed(self, state: StateLog) -> Loaded:
        """Return the state of the queue; the terms of a new one are durable then."""
        uuid, loaded = self._view.identity.uuid.hex(), state.load()
        if loaded is None:
            new = Beginning(uuid, self._first(), self._given.over(Terms()))
            state.begin(new)
            failpoint("terms noted")
            return Loaded(new, Replay(new.start, is_clean=True))
        if loaded.beginning.uuid != uuid:
            raise CorruptQueueError(
                "this folder is the queue of another log: move it back, or delete it",
                path=self._folder,
            )
        if not self._change:
            self._given.check_agree(loaded.beginning.terms, self._folder)
        return loaded

    def _first(self) -> int:
        """Return where a new queue begins."""
        if self._start == "first":
            return 0
        with self._log.tailer(start=self._start) as tailer:
            return tailer.position

    # --- leases -----------------------------------------------------------------------------------

    def _joined(
        self,
        file: LeasesFile,
        state: StateLog,
        dead: DeadLetters,
        loaded: Loaded,
        reading: Reading,
    ) -> Parts:
        """Become a worker; the first one since the machine began makes the leases."""
        beginning, replay, _ = loaded
        is_first = not file.has_other_workers()
        is_valid = file.is_valid
        if is_valid and is_first:
            is_valid = agree(self._log, state, file.table, replay)
        if not is_valid and not is_first:
            raise InUseError(
                "`leases` was deleted or replaced while processes work for this queue: close the "
                "queue in every process, then open it again",
                path=self._folder,
            )
        table = file.table
        prints = []
        if not is_valid:
            left, is_clean = settled(self._log, state.path, loaded, dead), replay.is_clean
            table.set_identity(bytes(len(file.identity)))
            suspect_below = 0 if is_clean else self._view.tail_position
            instance = int.from_bytes(os.urandom(8), "little") | 1
            table.format(left.scan, beginning.terms.table_terms, suspect_below, instance)
            prints = left.prints
        parts = self._parts(file, state, beginning, reading)
        finishing = Finishing(parts, dead)
        accepting = parts.worker.join()
        if not is_valid:
            restore(self._log, state, table, left, reading.wants, is_suspect=not is_clean)
            dead.remove_places(left.again)
            write_base(parts, prints=prints)
            begin_hold(parts, table.low())
            table.set_identity(file.identity)
            failpoint("leases made")
        else:
            finishing.complete(accepting)
            if is_first:
                begin_hold(parts, table.low())
                state.append(b"", notes.OPENED, sync=True)
        if self._change:
            Upkeep(parts, finishing).change_terms(self._given)
        return parts


def queue_names(path: str) -> list[str]:
    """Return the names of the queues of the log at a path."""
    try:
        names = os.listdir(os.path.join(path, FOLDER))
    except (FileNotFoundError, NotADirectoryError):
        return []
    folders = {name: os.path.join(path, FOLDER, name) for name in names if name[:1] != "."}
    return sorted(name for name, folder in folders.items() if StateLog.exists(folder))
