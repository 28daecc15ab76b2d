"""ServerSource: the log of a server, as a source of segments."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from commitlog.base.host import host
from commitlog.errors import (
    FencedError,
    ForkedError,
    NotALogError,
    PositionError,
    ReplicationError,
)
from commitlog.extension import (
    FRAME_ALIGN,
    HEADER_SIZE,
    Growing,
    Lineage,
    LiveSource,
    SegmentHeader,
    SegmentRef,
)
from commitlog.network.remote import wire
from commitlog.network.remote.connection import Connection
from commitlog.network.remote.live_end import LiveEnd
from commitlog.network.remote.remote_tailers import RemoteTailers
from commitlog.network.remote.update import Update
from commitlog.types import Identity

_HEADERS = 64  # that one call brings
_UNSEALED_S = 1.0  # how often to fetch a header again whose seal is missing
_CLOSE_S = 10.0
_SEGMENTS_LIMIT = 1 << 18  # of a log: a reader lists so many in half a second if a server lies


class ServerSource(LiveSource):
    """The segments of a log that a server has, and its live end, which a thread follows.

    Parameters
    ----------
    url : str
        The log's address.
    timeout_s : float
        How long to wait for the server.
    """

    kind = "remote"

    def __init__(self, url: str, timeout_s: float) -> None:
        self.location = url
        self.connection = Connection(url)
        self._pid = os.getpid()
        self._lock = host.lock()
        self._headers: dict[int, tuple[bytes, float]] = {}
        self._numbers: frozenset[int] = frozenset()
        self._segments: tuple[frozenset[int], tuple[SegmentRef, ...]] = frozenset(), ()
        self._lineage = Lineage()
        self._tailers: RemoteTailers | None = None
        self._growing: Growing | None = None
        self._live_end: LiveEnd | None = None
        try:
            self._said = self.connection.ask("look", limit_s=timeout_s)
            self.identity = Identity.parse(str(self._said.get("identity")), url)
        except BaseException:
            self.connection.close()
            raise
        self._size = self.identity.segment_size

    def follow(self, growing: Growing) -> None:
        self._growing = growing
        self.adopt(self._said)
        self._tailers = RemoteTailers(growing, self.connection, self._check_history)
        self._live_end = LiveEnd(self.connection, self.adopt, self.take, lambda: growing.wanted)
        self._live_end.start()

    def after_fork(self) -> None:
        self._lock = host.lock()

    def close(self) -> None:
        if self._pid != os.getpid():
            return
        if self._tailers is not None:
            self._tailers.close()
        if self._live_end is None:
            self.connection.close()
        else:
            self._live_end.stop(_CLOSE_S)

    def check(self) -> None:
        """Raise if the server is out of reach, or has another log by now."""
        if self._live_end is not None and self._pid == os.getpid():
            self._live_end.check()

    @property
    def places(self) -> RemoteTailers:
        assert self._tailers is not None  # `follow` has made them
        return self._tailers

    # --- what the server says ---------------------------------------------------------------------

    @property
    def growing(self) -> Growing:
        """The end of the log, as readers here see it."""
        assert self._growing is not None
        return self._growing

    def adopt(self, said: dict[str, Any]) -> None:
        """Take the server's description of its log, after a connection; refuse another log."""
        committed = self._checked(said)
        with self._lock:
            self._numbers = frozenset(_numbers_of(said, self.location))
        self.take(
            Update(
                position=0,
                first=(self._first() or 0) * self._size,
                committed=committed,
                flushed=wire.number_of(said, "flushed", self.location),
            )
        )

    def _checked(self, said: dict[str, Any]) -> int:
        """Refuse another log, and one that lacks records that were read; return its committed
        position.
        """
        url = self.location
        if Identity.parse(str(said.get("identity")), url).uuid != self.identity.uuid:
            raise NotALogError(
                "the server now has another log of this name: open it again", path=url
            )
        committed = wire.number_of(said, "committed", url)
        theirs = _lineage_of(said, url)
        ours = self._lineage
        later = theirs.epochs[len(ours.epochs) :]
        end = self.growing.committed
        forked = theirs.epochs[: len(ours.epochs)] != ours.epochs
        if forked or (later and later[0].start < end) or committed < end:
            raise FencedError(
                f"this handle has read up to {end}, and the server's log went on elsewhere: "
                "records that were not durable are lost, or another copy was promoted; open it "
                "again",
                path=url,
                position=end,
            )
        self._lineage = theirs
        return committed

    def _check_history(self) -> None:
        """Raise `FencedError` if the server's log lacks records that this handle has."""
        self._checked(self.connection.ask("look"))

    def take(self, update: Update) -> None:
        """Take the bytes and the watermarks of an update, then show them to readers."""
        size, growing = self._size, self.growing
        if (update.first | update.committed | update.flushed) % FRAME_ALIGN:
            raise ReplicationError(
                f"{self.location} says that its log begins at {update.first} and ends at "
                f"{update.committed}, where no record can"
            )
        self._check_bytes(update)
        # An update before the last one of a range has an older watermark.
        committed = max(update.committed, growing.committed)
        with self._lock:
            last = max(self._numbers, default=-1)
            reached = (committed - 1) // size
            grown = range(max(last + 1, update.first // size), reached + 1)
            if len(self._numbers) + len(grown) > _SEGMENTS_LIMIT:
                raise ReplicationError(
                    f"{self.location} says that it has a record at {committed - 1}, and so more "
                    f"than {_SEGMENTS_LIMIT} segments"
                )
            if update.first > (self._first() or 0) * size or grown:
                kept = (each for each in self._numbers if each * size >= update.first)
                self._numbers = frozenset((*kept, *grown))
        growing.take(committed, update.flushed, update.position, update.content)

    def _check_bytes(self, update: Update) -> None:
        stop = update.position + len(update.content)
        if update.content and update.position // self._size != (stop - 1) // self._size:
            raise ReplicationError(f"{self.location} sent bytes beyond their segment")

    # --- a source of segments ---------------------------------------------------------------------

    def _first(self) -> int | None:
        return min(self._numbers, default=None)

    def segments(self) -> Sequence[SegmentRef]:
        numbers, (listed, refs) = self._numbers, self._segments
        if numbers is not listed:
            refs = tuple(SegmentRef(each, self._size) for each in sorted(numbers))
            self._segments = numbers, refs
        return refs

    def end(self) -> int:
        return self.growing.committed

    def header(self, number: int) -> bytes | None:
        known, looked_s = self._headers.get(number, (None, 0.0))
        last = max(self._numbers, default=-1)
        if known is not None and (number == last or self._is_sealed(number, known)):
            return known
        if known is not None and host.monotonic() - looked_s < _UNSEALED_S:
            return known
        wanted = [number] if number in self._numbers else []
        following = range(number + 1, number + _HEADERS)
        wanted += [each for each in following if each in self._numbers - self._headers.keys()]
        if not wanted or wanted[0] != number:
            return None
        size, now_s = self._size, host.monotonic()

        def take(position: int, content: bytes | memoryview) -> None:
            self._headers[position // size] = bytes(content), now_s

        self.read([(each * size, each * size + HEADER_SIZE) for each in wanted], take)
        return self._headers[number][0]

    def _is_sealed(self, number: int, page: bytes) -> bool:
        return SegmentHeader(page).seal_of(self.identity, number) is not None

    def fill(self, number: int, fd: int) -> None:
        self.growing.fill(number, fd)

    def read(
        self, ranges: Iterable[tuple[int, int]], take: Callable[[int, bytes | memoryview], None]
    ) -> None:
        if self._pid != os.getpid():
            raise ForkedError(
                "a log on another machine belongs to the process that opened it: open it again in "
                "this one",
                path=self.location,
            )

        def checked(update: Update) -> None:
            self._check_bytes(update)
            take(update.position, update.content)

        try:
            self.connection.read(list(ranges), checked)
        except PositionError as error:  # retention has deleted the segment
            if error.first_position is not None:
                self._drop_below(error.first_position)
            raise
        except ReplicationError:
            with contextlib.suppress(ReplicationError):
                # Raises if the server has lost records.
                self._checked(self.connection.ask("look", limit_s=0))
            raise

    def _drop_below(self, first: int) -> None:
        with self._lock:
            self._numbers = frozenset(each for each in self._numbers if each * self._size >= first)


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
