"""MethodReader: call the methods of objects with the calls in a log."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Self

from commitlog._kernel.readers import Record
from commitlog.base.process_bound import ProcessBound
from commitlog.base.service import Service
from commitlog.base.units import Duration, parse_duration
from commitlog.errors import (
    CommitLogError,
    InvalidOptionError,
    TailerInUseError,
    UndecodableError,
)
from commitlog.log.commit_log import CommitLog
from commitlog.messages.handled import HANDLED, Handled
from commitlog.messages.history import History
from commitlog.messages.method_table import MethodTable
from commitlog.messages.pipeline import Pipeline
from commitlog.tail.seek import Start
from commitlog.tail.tailer import Tailer

OnUnknown = Callable[[str, dict[str, Any]], object]
OnError = Callable[[Exception, Record], object]
_STOP_INTERVAL_S = 0.1  # how often a waiting reader looks whether it shall stop


class _RunningReader(Service):
    """The thread of `MethodReader.start`."""

    def __init__(self, path: str, handle: Callable[[], int]) -> None:
        super().__init__(f"commitlog methods {path}")
        self.thread_id: int | None = None
        self.handled = 0
        self.failure: BaseException | None = None
        self._handle = handle

    def run(self) -> None:
        self.thread_id = threading.get_ident()
        try:
            self.handled = self._handle()
        except BaseException as error:
            self.failure = error
            raise


class MethodReader(ProcessBound):
    """Call the methods of objects; `commitlog.method_reader` returns it.

    Only one thread at a time may use it, except for `stop`. That is the thread of `start` from
    `start` until `wait`.

    Attributes
    ----------
    unknown : int
        How many calls of unknown methods were skipped or handed to `on_unknown`.
    """

    def __init__(
        self,
        log: CommitLog,
        tailer: Tailer,
        table: MethodTable,
        on_unknown: OnUnknown | None,
        on_error: OnError | None,
        *,
        history: bool,
        pipeline: Pipeline | None,
    ) -> None:
        """Take the parts of a reader; only `commitlog.method_reader` calls this."""
        self.unknown = 0
        self._log = log
        self._tailer = tailer
        self._table = table
        self._on_unknown = on_unknown
        self._on_error = on_error
        self._handled: Handled | None = None
        if history:
            outputs = None if pipeline is None else pipeline.outputs
            self._handled = Handled(log, table.with_history.__contains__, outputs)
        self._pipeline = pipeline
        self._is_stopping = False
        self._thread: _RunningReader | None = None  # from `start` until `wait`

    @property
    def history(self) -> History | None:
        """Return where the call came from that is handled, or was handled last.

        None if it has no history, or without ``history=``.
        """
        record = None if self._handled is None else self._handled.record
        if record is None or record.type not in self._table.with_history:
            return None
        return History.of_value(record.value)

    @contextlib.contextmanager
    def _handling(self) -> Iterator[None]:
        """Let what is written in a `with` block have the history of the call that is handled."""
        token = HANDLED.set(self._handled)
        try:
            if self._pipeline is None:
                yield
            else:
                with self._pipeline.running():
                    yield
        finally:
            HANDLED.reset(token)

    def read_one(self, timeout: Duration | None = 0) -> bool:
        """Handle the next call.

        Parameters
        ----------
        timeout : float, str or None
            How long to wait for it; None waits without end.

        Returns
        -------
        bool
            False if no call arrived in time.

        Raises
        ------
        UndecodableError
            The arguments cannot be decoded. The reader stays before the call.
        Exception
            What the method raised, without `on_error`. The reader stays before the call.
        """
        self._check_unused()
        end = None if timeout is None else time.monotonic() + parse_duration(timeout, "timeout")
        while True:
            left = None if end is None else max(0.0, end - time.monotonic())
            with self._handling(), self._tailer.reading(left) as record:
                if record is None:
                    return False
                if self._handle(record):
                    return True

    def run(self, timeout: Duration | None = None) -> int:
        """Handle calls as they arrive, until `stop`, Ctrl-C or an error.

        Parameters
        ----------
        timeout : float, str or None
            End if no record arrives for that long, whether or not it is a call; None does not end.

        Returns
        -------
        int
            How many calls were handled.
        """
        self._check_unused()
        limit = None if timeout is None else parse_duration(timeout, "timeout")
        return self._run(limit)

    def _run(self, limit: float | None) -> int:
        count = 0
        end = None if limit is None else time.monotonic() + limit
        try:
            while not self._is_stopping:
                left = _STOP_INTERVAL_S
                if end is not None:
                    left = min(left, max(0.0, end - time.monotonic()))
                with self._handling():
                    records, handled = self._handle_arriving(left)
                count += handled
                if end is not None and limit is not None:
                    now = time.monotonic()
                    if records:
                        end = now - left + limit
                    elif now >= end:
                        break
        finally:
            self._is_stopping = False
        return count

    def _handle_arriving(self, timeout_s: float) -> tuple[int, int]:
        """Handle calls until no record arrives for that long, or `stop`.

        Returns the numbers of records and of calls.
        """
        records = count = 0
        for record in self._tailer.follow(timeout_s):
            records += 1
            try:
                count += self._handle(record)
            except BaseException:
                with contextlib.suppress(CommitLogError):  # the log is closed
                    self._tailer.seek(record.position)
                raise
            if self._is_stopping:
                # The loop would save the place behind this record at its next step.
                self._tailer.seek(self._tailer.position)
                break
        return records, count

    def start(self) -> Self:
        """Begin to `run` in a thread of its own, until `stop`; return this reader.

        An error ends the thread and is logged; `wait` or `close` raises it.

        Raises
        ------
        TailerInUseError
            The reader was started, and `wait` has not returned since.
        """
        self._check_unused()
        self._is_stopping = False
        self._thread = _RunningReader(self._log.path, lambda: self._run(None))
        self._thread.start()
        return self

    def stop(self) -> None:
        """End `run` after the call that it handles, from any thread, without waiting for its end.

        If the reader does not run, its next `run` ends at once.
        """
        self._is_stopping = True

    def wait(self, timeout: Duration | None = None) -> int | None:
        """Wait until the thread that `start` began has ended.

        Parameters
        ----------
        timeout : float, str or None
            How long to wait; None waits without end.

        Returns
        -------
        int or None
            How many calls it handled, 0 without a thread; None if it still runs.

        Raises
        ------
        TailerInUseError
            A method of the objects called this in that thread.
        Exception
            What ended the thread. The reader stays before that call.
        """
        thread = self._thread
        limit = threading.TIMEOUT_MAX if timeout is None else parse_duration(timeout, "timeout")
        if thread is None:
            return 0
        if thread.thread_id == threading.get_ident():
            raise TailerInUseError(
                "a method cannot wait for the reader that calls it: call stop()",
                path=self._log.path,
            )
        if not thread.join(limit):
            return None
        self._thread = None
        if thread.failure is not None:
            raise thread.failure
        return thread.handled

    def _check_unused(self) -> None:
        if self._thread is not None:
            raise TailerInUseError(
                "the method reader runs in a thread of its own: call stop() and wait() first",
                path=self._log.path,
            )

    def _handle(self, record: Record) -> bool:
        """Handle a record; return whether it is a call."""
        try:
            target = self._table[record.type]
            if target is None:
                return False
            decode, call, name = target
            arguments = decode(record.value)
        except ValueError as error:
            raise UndecodableError(
                f"a call cannot be decoded: {getattr(error, 'message', error)}; correct the method",
                path=self._log.path,
                position=record.position,
            ) from error
        handled = self._handled
        if handled is not None:
            handled.record = record
            handled.read_ns = time.time_ns()
        try:
            if call is not None:
                call(*arguments)
            else:
                self.unknown += 1
                if self._on_unknown is not None:
                    self._on_unknown(name, arguments)
        except Exception as error:
            if self._on_error is None:
                raise
            if self._pipeline is not None:
                self._pipeline.outputs.discard()
            self._on_error(error, record)
        if self._pipeline is not None and handled is not None:
            self._pipeline.outputs.append(handled.head)
        return True

    def close(self) -> None:
        """Stop, and wait for the thread of `start`; release the name and the segment.

        A second call does nothing.

        Raises
        ------
        Exception
            What ended the thread, unless `wait` raised it.
        """
        try:
            if self._thread is not None:
                self.stop()
                self.wait()
        finally:
            self._tailer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def method_reader(
    log: CommitLog,
    *objects: object,
    name: str | None = None,
    start: Start | None = None,
    on_unknown: OnUnknown | None = None,
    on_error: OnError | None = None,
    history: bool = True,
    after_last_written: CommitLog | None = None,
) -> MethodReader:
    """Return a reader that calls the public methods of objects with the calls in a log.

    If a method raises, a named reader repeats its call when it runs again.

    Parameters
    ----------
    log : CommitLog
        The log that a method writer appends to.
    *objects : object
        Each public method returns None, and belongs to one of the objects only.
    name, start
        As for `CommitLog.tailer`.
    on_unknown : callable, optional
        Takes name and arguments of a call that no object has a method for; by default such calls
        are skipped and counted.
    on_error : callable, optional
        Takes what a method raised, and the record of the call, which then counts as handled.
    history : bool
        Let messages that a method appends to topics, or by a method writer, carry the history of
        its call.
    after_last_written : CommitLog, optional
        A log open for appending, which has what the methods write. The reader begins behind the
        last call whose outputs it has, or at `start` if it has none. The place of the name is not
        used. The outputs of a call are appended when its method has returned, all of them or none.
        So each call has its outputs once, after any kill. `name` keeps a second reader away.

    Raises
    ------
    InvalidOptionError
        There is no object, an object has no public method, or `after_last_written` needs history.
    PositionError
        The last call whose outputs are in `after_last_written` is not in this log.
    MessageError
        Two objects have a method of the same name, a method returns a value, is async, or msgspec
        cannot decode a parameter.
    SchemaError
        A method cannot take the calls that the log has.
    """
    table = MethodTable(log, objects)
    if after_last_written is not None and not history:
        raise InvalidOptionError("after_last_written needs history: leave history=False out")
    is_resumed = name is not None and any(each.name == name for each in log.tailers())
    tailer = log.tailer(name, start=start)
    pipeline = None
    try:
        if after_last_written is not None:
            pipeline = Pipeline(log, after_last_written, tailer, start=start, is_resumed=is_resumed)
    except BaseException:
        tailer.close()
        raise
    return MethodReader(
        log, tailer, table, on_unknown, on_error, history=history, pipeline=pipeline
    )
