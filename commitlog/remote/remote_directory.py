"""RemoteDirectory: present the log of a server as a log's directory to readers."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterable
from typing import Any

from commitlog._kernel.memory import MODE_POOLED, STATE_READY, Cursors
from commitlog._kernel.segments import (
    FRAME_ALIGN,
    HEADER_SIZE,
    SEAL_AT,
    SEAL_SIZE,
    Segment,
    read_seal,
)
from commitlog.base.boot import boot_id
from commitlog.base.regular_file import write_whole
from commitlog.errors import (
    FencedError,
    ForkedError,
    NotALogError,
    PositionError,
    ReplicationError,
)
from commitlog.recovery.lineage import Lineage
from commitlog.remote import wire
from commitlog.remote.connection import Connection
from commitlog.remote.growing import Growing
from commitlog.remote.live_end import LiveEnd
from commitlog.remote.remote_tailers import RemoteTailers
from commitlog.remote.update import Update
from commitlog.segment import cursors_file
from commitlog.segment.directory import LogDirectory
from commitlog.segment.identity import Identity
from commitlog.segment.segment_cache import SegmentCache
from commitlog.stores.tiered_directory import TieredDirectory

_BLOCK_BYTES = 16 << 20  # of one call
_HEADERS = 64  # that one call brings
_UNSEALED_S = 1.0  # how often to fetch a header again whose seal is missing
_CLOSE_S = 10.0
_SEGMENTS_LIMIT = 1 << 20  # of a log


class RemoteDirectory(LogDirectory):
    """The segments of a log that a server has, each fetched on first use, and its live end.

    The most recently used ones stay in a temporary folder until this is closed: up to
    `cache_bytes`, but at least three. A thread keeps the watermarks in `cells`, and the end of the
    log in the folder if it is there.
    """

    idle_kept = 1
    kind = "remote"

    def __init__(self, url: str, cache_bytes: int, timeout_s: float) -> None:
        self.connection = Connection(url)
        said = self.connection.ask("look", limit_s=timeout_s)
        identity = Identity.parse(str(said.get("identity")), url)
        size = identity.segment_size
        self._cache = SegmentCache(
            size, cache_bytes, write=self._fill, has=self.has, path_of=self.segment_path
        )
        self._growing = Growing(size, self._cache.refused, self._read)
        self._headers: dict[int, tuple[bytes, float]] = {}
        self._numbers: frozenset[int] = frozenset()
        self._lineage = Lineage()
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self.live: LiveEnd | None = None
        try:
            super().__init__(self._cache.folder, identity)
            self.path = url
            self.cells = self._new_cells()
            self.adopt(said)
        except BaseException:
            self._cache.close()
            self.connection.close()
            raise
        self.tailers = RemoteTailers(self, self.connection)
        self.live = LiveEnd(self.connection, self.adopt, self.take, lambda: self._growing.end)
        self.live.start()

    def _new_cells(self) -> Cursors:
        """Make the file of watermarks, as a pooled log's readers see it: they wait at its end."""
        file = cursors_file.open_writable(self.fd, self.identity)
        cells = file.cells
        cells.rebuild(self.identity.uuid, boot_id(), file.inode, self.segment_size)
        cells.mode = MODE_POOLED
        cells["state"] = STATE_READY
        return cells

    def forked(self) -> None:
        self._cache.forked()
        self._lock = threading.Lock()

    def close(self) -> None:
        if self._pid == os.getpid() and self.live is not None:
            self.tailers.close()
        super().close()
        if self._pid == os.getpid():
            if self.live is not None:
                self.live.stop(_CLOSE_S)
            self._growing.close()
        self._cache.close()

    def check(self) -> None:
        """Raise if the server is out of reach, or has another log by now."""
        if self.live is not None and self._pid == os.getpid():
            self.live.check()

    # --- what the server says ---------------------------------------------------------------------

    def adopt(self, said: dict[str, Any]) -> None:
        """Take the server's description of its log, after a connection; refuse another log."""
        committed = self._checked(said)
        with self._lock:
            self._numbers = frozenset(_numbers_of(said, self.path))
        self.take(
            Update(
                position=0,
                first=(self._first() or 0) * self.segment_size,
                committed=committed,
                flushed=wire.number_of(said, "flushed", self.path),
            )
        )

    def _checked(self, said: dict[str, Any]) -> int:
        """Refuse another log, and one that lacks records that were read; return its committed
        position.
        """
        url = self.path
        if Identity.parse(str(said.get("identity")), url).uuid != self.log_uuid:
            raise NotALogError(
                "the server now has another log of this name: open it again", path=url
            )
        committed = wire.number_of(said, "committed", url)
        theirs = _lineage_of(said, url)
        ours, self._lineage = self._lineage, theirs
        later = theirs.epochs[len(ours.epochs) :]
        end = int(self.cells["committed"])
        forked = theirs.epochs[: len(ours.epochs)] != ours.epochs
        if forked or (later and later[0].start < end) or committed < end:
            raise FencedError(
                f"this handle has read up to {end}, and the server's log went on elsewhere: "
                "records that were not durable are lost, or another copy was promoted; open it "
                "again",
                path=url,
                position=end,
            )
        return committed

    def take(self, update: Update) -> None:
        """Take the bytes and the watermarks of an update, then show them to readers."""
        size, cells = self.segment_size, self.cells
        if (update.first | update.committed | update.flushed) % FRAME_ALIGN:
            raise ReplicationError(
                f"{self.path} says that its log begins at {update.first} and ends at "
                f"{update.committed}, where no record can"
            )
        # An update before the last one of a range has an older watermark.
        committed = max(update.committed, int(cells["committed"]))
        with self._lock:
            last = max(self._numbers, default=-1)
            reached = (committed - 1) // size
            grown = range(max(last + 1, update.first // size), reached + 1)
            if len(self._numbers) + len(grown) > _SEGMENTS_LIMIT:
                raise ReplicationError(
                    f"{self.path} says that it has a record at {committed - 1}, and so more than "
                    f"{_SEGMENTS_LIMIT} segments"
                )
            if update.first > (self._first() or 0) * size or grown:
                kept = (each for each in self._numbers if each * size >= update.first)
                self._numbers = frozenset((*kept, *grown))
        with self._growing.lock:
            self._growing.extend(update, committed)
            cells["appended"] = cells["committed"] = committed
        cells.end_flush(max(min(update.flushed, committed), int(cells["flushed"])))
        cells.wake_readers()

    # --- a directory of segments ------------------------------------------------------------------

    def _first(self) -> int | None:
        return min(self._numbers, default=None)

    def segment_path(self, number: int) -> str:
        return f"{self.path}#{number * self.segment_size}"

    def segment_numbers(self) -> list[int]:
        return sorted(self._numbers)

    def has(self, number: int) -> bool:
        return number in self._numbers

    @property
    def joining(self) -> bool:
        return False

    def disk_bytes(self, number: int) -> int:
        """Return the size of a segment; 0 if the server does not have it."""
        return self.segment_size if self.has(number) else 0

    def whole_disk_bytes(self) -> int:
        return len(self._numbers) * self.segment_size

    def read_header(self, number: int) -> bytes | None:
        """Return the first page of a segment. Its seal counts when all of its records are here."""
        page = self._page(number)
        if page is not None and (number + 1) * self.segment_size > int(self.cells["committed"]):
            return page[:SEAL_AT] + bytes(SEAL_SIZE) + page[SEAL_AT + SEAL_SIZE :]
        return page

    def _page(self, number: int) -> bytes | None:
        known, looked_s = self._headers.get(number, (None, 0.0))
        last = max(self._numbers, default=-1)
        if known is not None and (number == last or self._is_sealed(number, known)):
            return known
        if known is not None and time.monotonic() - looked_s < _UNSEALED_S:
            return known
        wanted = [number] if number in self._numbers else []
        following = range(number + 1, number + _HEADERS)
        wanted += [each for each in following if each in self._numbers - self._headers.keys()]
        if not wanted or wanted[0] != number:
            return None
        size, now_s = self.segment_size, time.monotonic()

        def take(update: Update) -> None:
            self._headers[update.position // size] = bytes(update.content), now_s

        self._read([(each * size, each * size + HEADER_SIZE) for each in wanted], take)
        return self._headers[number][0]

    def _is_sealed(self, number: int, page: bytes) -> bool:
        base = number * self.segment_size
        return read_seal(page, self.log_uuid, base, self.segment_size) is not None

    def open_segment(self, number: int, *, writable: bool) -> Segment:
        self.fetch(number)
        return super().open_segment(number, writable=writable)

    def fetch(self, number: int) -> None:
        """Fetch a segment into the temporary folder, unless it is there."""
        if number in self._numbers:
            self._cache.fetch(number)

    def _read(self, ranges: Iterable[tuple[int, int]], take: Any) -> None:
        if self._pid != os.getpid():
            raise ForkedError(
                "a log on another machine belongs to the process that opened it: open it again in "
                "this one",
                path=self.path,
            )
        try:
            self.connection.read(list(ranges), take)
        except PositionError as error:  # retention has deleted the segment
            if error.first_position is not None:
                self._drop_below(error.first_position)
            raise
        except ReplicationError:
            with contextlib.suppress(ReplicationError):
                # Raises if the server has lost records.
                self._checked(self.connection.ask("look", limit_s=0))
            raise

    def _fill(self, number: int, fd: int) -> None:
        """Write what the server has of a segment to a file."""
        base, size = number * self.segment_size, self.segment_size
        os.posix_fallocate(fd, 0, size)  # a full disk would end a read of a hole by SIGBUS

        def take(update: Update) -> None:
            write_whole(fd, memoryview(update.content), update.position - base)

        def end() -> int:
            return min(size, max(HEADER_SIZE, int(self.cells["committed"]) - base))

        filled = 0
        while filled < end():
            stop = min(end(), filled + _BLOCK_BYTES)
            self._read([(base + filled, base + stop)], take)
            filled = stop
        with self._growing.lock:
            if filled < size:
                self._growing.add(number, fd, filled)

    def _drop_below(self, first: int) -> None:
        with self._lock:
            size = self.segment_size
            self._numbers = frozenset(each for each in self._numbers if each * size >= first)


class TieredRemoteDirectory(TieredDirectory, RemoteDirectory):
    """The segments that a server has, and below the first of them those of the log's store."""


def _lineage_of(said: dict[str, Any], url: str) -> Lineage:
    try:
        return Lineage.parse(said)
    except ValueError as error:
        raise ReplicationError(f"{url} sent an unusable lineage: {error}") from None


def _numbers_of(said: dict[str, Any], url: str) -> Iterable[int]:
    runs = said.get("segments")
    sound = isinstance(runs, list) and all(
        isinstance(run, list)
        and len(run) == 2
        and all(type(number) is int and 0 <= number < 1 << 32 for number in run)
        and 0 <= run[1] - run[0] < _SEGMENTS_LIMIT
        for run in runs
    )
    if not sound or not isinstance(runs, list) or sum(b - a for a, b in runs) > _SEGMENTS_LIMIT:
        raise ReplicationError(f"{url} sent no usable list of segments")
    return (number for first, last in runs for number in range(first, last + 1))
