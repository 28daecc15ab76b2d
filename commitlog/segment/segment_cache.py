"""SegmentCache: segments of another place as files in a temporary folder, fetched on first use."""

from __future__ import annotations

import contextlib
import functools
import os
from collections import OrderedDict
from collections.abc import Callable

from commitlog.base.host import Thread, host
from commitlog.base.temporary_file import temporary_file
from commitlog.errors import ClosedError, CommitLogError, ForkedError, IOFailureError
from commitlog.segment.directory import segment_name

_LEAST_KEPT = 3  # the one before, the present one and the next one of a reader
_AHEAD = 2  # at the same time
_END_S = 5.0


class SegmentCache:
    """Fetch segments on first use, and the next two ahead of a reader that goes forward.

    The most recently used ones stay until `close`: up to `cache_bytes`, but at least three.

    Parameters
    ----------
    segment_size, cache_bytes : int
        Bytes.
    write : callable
        Writes the segment of a number to an open file, which is empty.
    has : callable
        Returns whether there is a segment of that number to read ahead.
    path_of : callable
        Returns where a segment comes from, for errors.
    """

    def __init__(
        self,
        segment_size: int,
        cache_bytes: int,
        *,
        write: Callable[[int, int], None],
        has: Callable[[int], bool],
        path_of: Callable[[int], str],
    ) -> None:
        from commitlog.segment.cache_folder import CacheFolder  # takes long to import

        self._folder = CacheFolder()
        self.folder = self._folder.path
        self._size = segment_size
        self._most = max(_LEAST_KEPT, cache_bytes // segment_size)
        self._write = write
        self._has = has
        self._path_of = path_of
        self._pid = os.getpid()
        self._news = host.condition()
        self._kept: OrderedDict[int, None] = OrderedDict()
        self._coming: set[int] = set()
        self._last = -1
        self._ahead: list[Thread] = []
        self._closed = False

    def __contains__(self, number: int) -> bool:
        return number in self._kept

    def fetch(self, number: int) -> None:
        """Fetch the file of a segment into the folder, unless it is there; wait for another call's
        fetch.
        """
        self._bring(number)
        with self._news:
            follows, self._last = number == self._last + 1, number
            if not follows or self._closed or self._pid != os.getpid():
                return
            self._ahead = [thread for thread in self._ahead if thread.is_alive()]
            for onward in range(number + 1, number + 1 + min(_AHEAD, self._most - 2)):
                here = onward in self._kept or onward in self._coming
                if not here and len(self._ahead) < _AHEAD and self._has(onward):
                    self._ahead.append(self._start_ahead(onward))

    def _start_ahead(self, number: int) -> Thread:
        """Start to read a segment ahead; the caller has the lock, which the thread needs."""
        thread = host.thread("commitlog cache", functools.partial(self._read_ahead, number))
        thread.start()
        self._coming.add(number)
        return thread

    def _read_ahead(self, number: int) -> None:
        with contextlib.suppress(CommitLogError):  # the reader that needs it gets the error
            self._add(number)

    def _bring(self, number: int) -> None:
        with self._news:
            self._news.wait_for(lambda: number not in self._coming)
            if number in self._kept:
                self._kept.move_to_end(number)
                return
            self._coming.add(number)
        self._add(number)

    def _add(self, number: int) -> None:
        try:
            self._place(number)
        finally:
            with self._news:
                self._coming.discard(number)
                self._news.notify_all()

    def _make_room(self) -> None:
        """Remove the oldest files until one more is within the bound."""
        while len(self._kept) >= self._most:
            # A mapping of the file stays valid.
            oldest, _ = self._kept.popitem(last=False)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(self.folder, segment_name(oldest * self._size)))

    def _place(self, number: int) -> None:
        name = segment_name(number * self._size)
        try:
            folder_fd = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                with temporary_file(folder_fd, name, 0o600) as (fd, temporary):
                    self._write(number, fd)
                    with self._news:
                        self._make_room()
                        os.rename(temporary, name, src_dir_fd=folder_fd, dst_dir_fd=folder_fd)
                        self._kept[number] = None
            finally:
                os.close(folder_fd)
        except OSError as error:
            if isinstance(error, CommitLogError):
                raise
            raise self._gone(number, error) or self.refused(number, error) from error

    def _gone(self, number: int, error: OSError) -> CommitLogError | None:
        """Return the error for a folder that another thread or process has removed by `close`."""
        path = self._path_of(number)
        if self._closed:
            return ClosedError("the log is closed: open it again", path=path)
        if self._pid != os.getpid() and isinstance(error, FileNotFoundError):
            return ForkedError(
                "the parent process has closed this log, and removed the segments that it had "
                "fetched: open it again in this process",
                path=path,
            )
        return None

    def refused(self, number: int, error: OSError) -> IOFailureError:
        """Return the error for a segment that the folder cannot take."""
        return IOFailureError(
            f"a segment cannot be written to {self.folder}: {error.strerror}; free space there, "
            "or set TMPDIR to another folder",
            path=self._path_of(number),
            position=number * self._size,
            errno=error.errno,
        )

    def forget(self, number: int) -> None:
        """Remove a segment's file; its next use fetches it again."""
        with self._news:
            if self._kept.pop(number, 0) is None:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(os.path.join(self.folder, segment_name(number * self._size)))

    def forked(self) -> None:
        """In the child of a fork: a thread of the parent may have held the lock."""
        self._news = host.condition()
        self._coming = set()
        self._ahead = []

    def close(self) -> None:
        """Remove the folder, unless this is the child of a fork."""
        with self._news:
            self._closed = True
        for thread in self._ahead:
            thread.join(_END_S)
        if self._pid == os.getpid():
            self._folder.remove()
        else:
            self._folder.release()
