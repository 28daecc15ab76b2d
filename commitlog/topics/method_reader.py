"""MethodReader: call the methods of objects with the calls in a log."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import Self

from commitlog import CommitLog, Record, Tailer
from commitlog.base.process_bound import ProcessBound
from commitlog.base.units import Duration, parse_duration
from commitlog.errors import (
    CommitLogError,
    InUseError,
    InvalidOptionError,
)
from commitlog.topics.call_handler import CallHandler
from commitlog.topics.deadline import Deadline
from commitlog.topics.history import History
from commitlog.topics.method_table import MethodTable
from commitlog.topics.pipeline import Pipeline
from commitlog.topics.reader_thread import ReaderThread


class MethodReader(ProcessBound):
    """Call the methods of objects; `commitlog.method_reader` returns it.

    Only one thread at a time may use it, except for `stop`. That is the thread of `start` from
    `start` until `wait`.
    """

    def __init__(
        self,
        log: CommitLog,
        tailer: Tailer,
        table: MethodTable,
        handler: CallHandler,
        pipeline: Pipeline | None,
    ) -> None:
        """Take the parts of a reader; only `commitlog.method_reader` calls this."""
        self._log = log
        self._tailer = tailer
        self._table = table
        self._handler = handler
        self._pipeline = pipeline
        self._is_running = self._is_stopping = False
        self._thread: ReaderThread | None = None  # from `start` until `wait`

    @property
    def unknown(self) -> int:
        """Return how many calls of unknown methods were skipped or handed to `on_unknown`."""
        return self._handler.unknown

    @property
    def undecodable(self) -> int:
        """Return how many calls could not be decoded, and were skipped or given to `on_error`."""
        return self._handler.undecodable

    @property
    def history(self) -> History | None:
        """Return the history of the call that is handled, or was handled last.

        None if it has no history, or without ``history=``.
        """
        return self._handler.history

    @property
    def headers(self) -> dict[str, bytes]:
        """Return the headers of the call that is handled, or was handled last; empty if it has
        none.

        Raises
        ------
        InvalidOptionError
            The reader has ``history=False``.
        """
        return self._handler.headers

    def _resuming(self) -> contextlib.AbstractContextManager[None]:
        """Handle calls in a `with` block. After an exception, the next block begins behind the last
        outputs.
        """
        return contextlib.nullcontext() if self._pipeline is None else self._pipeline.running()

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
            The arguments cannot be decoded: see `on_undecodable`. The reader stays before the call.
        KeyUnavailableError
            The call is encrypted, and the key ring has no key for it: see `on_missing_key`. The
            reader stays before it.
        Exception
            What the method raised, without `on_error`. The reader stays before the call.
        """
        self._check_usable()
        end = None if timeout is None else time.monotonic() + parse_duration(timeout, "timeout")
        while True:
            left = None if end is None else max(0.0, end - time.monotonic())
            with (
                self._handler.handling(),
                self._resuming(),
                self._tailer.reading(left) as record,
            ):
                if record is None:
                    return False
                if self._handler.handle(record):
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
        self._check_usable()
        return self._run(Deadline(timeout))

    def _run(self, deadline: Deadline) -> int:
        count = 0
        self._is_running = True
        try:
            while not self._is_stopping:
                with self._handler.handling(), self._resuming():
                    records, handled = self._handle_arriving(deadline.next_s)
                count += handled
                if deadline.has_passed(records):
                    break
        finally:
            self._is_running = self._is_stopping = False
        return count

    def _handle_arriving(self, timeout_s: float) -> tuple[int, int]:
        """Handle calls until no record arrives for that long, or `stop`.

        Returns the numbers of records and of calls.
        """
        records = count = 0
        handle = self._handler.handle
        for record in self._tailer.follow(timeout_s):
            records += 1
            try:
                if handle(record):
                    count += 1
            except BaseException:
                self._go_back(record)
                raise
            if self._is_stopping:
                # The loop would save the position behind this record at its next step.
                self._tailer.seek(self._tailer.position)
                break
        return records, count

    async def run_async(self, timeout: Duration | None = None) -> int:  # noqa: ASYNC109
        """As `run`, in an event loop: wait for records and for methods without blocking it.

        `async def` methods, `on_unknown` and `on_error` are awaited, and one call is handled after
        the other. If this is cancelled, the call that it handled is handled again.

        Parameters
        ----------
        timeout : float, str or None
            As for `run`.

        Returns
        -------
        int
            How many calls were handled.
        """
        self._check_unused()
        deadline = Deadline(timeout)
        count = 0
        self._is_running = True
        try:
            while not self._is_stopping:
                with self._resuming():
                    records, handled = await self._handle_arriving_async(deadline.next_s)
                count += handled
                if deadline.has_passed(records):
                    break
        finally:
            self._is_running = self._is_stopping = False
        return count

    async def _handle_arriving_async(self, timeout_s: float) -> tuple[int, int]:
        records = count = 0
        async for record in self._tailer.follow(timeout_s):
            records += 1
            try:
                with self._handler.handling():
                    count += await self._handler.handle_async(record)
            except BaseException:
                self._go_back(record)
                raise
            if self._is_stopping:
                self._tailer.seek(self._tailer.position)
                break
        return records, count

    def start(self) -> Self:
        """Begin to `run` in a thread of its own, until `stop`; return this reader.

        An error ends the thread and is logged; `wait` or `close` raises it.

        Raises
        ------
        InUseError
            The reader was started, and `wait` has not returned since.
        """
        self._check_usable()
        self._is_stopping = False
        self._thread = ReaderThread(self._log.path, lambda: self._run(Deadline(None)))
        self._thread.start()
        return self

    def stop(self) -> None:
        """End `run` after the call that it handles, from any thread, without waiting for its end.

        If the reader does not run, its next `run` or `run_async` ends at once.
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
        InUseError
            A method of the objects called this in that thread.
        Exception
            What ended the thread. The reader stays before that call.
        """
        thread = self._thread
        limit = threading.TIMEOUT_MAX if timeout is None else parse_duration(timeout, "timeout")
        if thread is None:
            return 0
        if thread.thread_id == threading.get_ident():
            raise InUseError(
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
        if self._thread is not None or self._is_running:
            raise InUseError(
                "the method reader is running: call stop() first, and wait() after start()",
                path=self._log.path,
            )

    def _check_usable(self) -> None:
        self._check_unused()
        if self._table.async_method is not None:
            raise InvalidOptionError(
                f"the method {self._table.async_method} is async: await run_async() in place of "
                "run(), read_one() or start()",
                path=self._log.path,
            )

    def _go_back(self, record: Record) -> None:
        with contextlib.suppress(CommitLogError):  # the log is closed
            self._tailer.seek(record.position)

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

    def __repr__(self) -> str:
        return f"<MethodReader at {self._tailer.position} of {self._log.path!r}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
