"""Reading: what a server gives to readers of a log on other machines."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

from commitlog import CommitLog
from commitlog.base.host import host
from commitlog.base.regular_file import read_range
from commitlog.errors import PositionError, ReplicationError
from commitlog.extension import HEADER_SIZE, view_of
from commitlog.network.remote.update import UPDATE_BYTES, Update
from commitlog.network.remote.wire import HEARTBEAT_S

_SLEEP_S = 0.02  # in the kernel; an append ends it
_RANGES_LIMIT = 1024


class Reading:
    """The bytes and the watermarks of one log, for readers.

    What a reader gets is committed here, so readers of this machine see it, too.
    """

    def __init__(self, log: CommitLog) -> None:
        self._log = log
        self._view = view_of(log)
        self._size = log.segment_size

    def look(self) -> dict[str, Any]:
        """Return identity, lineage, segments and watermarks, as `RemoteDirectory` reads them."""
        self._view.refresh()
        committed = self._log.committed_position
        numbers = self._view.segment_numbers()
        visible = [each for each in numbers if each * self._size < committed or each == numbers[0]]
        return {
            "identity": self._view.identity.to_json(),
            "segments": _runs(visible),
            "committed": committed,
            "flushed": self._log.flushed_position,
            **self._view.epochs.read().content(),
        }

    def read(self, ranges: object) -> Iterator[Update]:
        """Yield the bytes of ranges of positions, each within one segment."""
        for start, stop in self._checked(ranges):
            at = start
            while at < stop:
                content = self._bytes(at, min(stop, at + UPDATE_BYTES))
                yield self._update(at, content)
                at += len(content)

    def watch(self, position: object, stopping: threading.Event) -> Iterator[Update]:
        """Yield what becomes visible until the server stops or the log is promoted: watermarks,
        with the bytes from a position on unless it is None.
        """
        at = None if position is None else self._checked_position(position)
        view = self._view
        version = view.epochs.version()
        sent_s, sent = 0.0, (-1, -1, -1)
        while not stopping.is_set():
            seen = view.signal("append")
            now = self._watermarks()
            if view.epochs.version() != version:
                return
            if at is not None and now[1] > at:
                stop = min(now[1], at + UPDATE_BYTES, (at // self._size + 1) * self._size)
                content = self._bytes(at, stop)
                at += len(content)
                # The end is visible when all bytes below it are sent.
                now = now if at >= now[1] else (now[0], max(sent[1], 0), max(sent[2], 0))
                yield self._update(at - len(content), content, now)
            elif now == sent and host.monotonic() - sent_s < HEARTBEAT_S:
                view.wait("append", seen, _SLEEP_S)
                continue
            else:
                self._view.refresh()
                yield self._update(0, b"", now)
            sent_s, sent = host.monotonic(), now

    def find(self, content: dict[str, Any]) -> dict[str, Any]:
        """Find a position for Spark's driver, which has no segments."""
        view, value = self._view, content.get("value")
        if type(value) is not int or not -(1 << 63) <= value < 1 << 63:
            raise ReplicationError("a reader sent no usable 'value'")
        what = content.get("what")
        found: int | None = None
        if what == "flush":
            view.ask_for_flush()
        elif what == "since":
            found = view.position_since(value)
        elif what == "sequence_of":
            found = view.sequence_of(self._position_in_log(value))
        elif what == "position_of":
            found = view.position_of(value)
        elif what == "boundary":
            found = view.entry_before(self._position_in_log(value))
        else:
            raise ReplicationError(f"a reader asked for an unknown place: {what!r:.100}")
        return {"found": found}

    def _watermarks(self) -> tuple[int, int, int]:
        first = self._view.first_position
        # In this order: the flushed position never passes the other in an update.
        flushed = self._log.flushed_position
        committed = self._log.committed_position
        if committed % self._size == HEADER_SIZE and committed - HEADER_SIZE > first:
            # A full segment ends here, and the file of the next one may not exist yet.
            committed -= HEADER_SIZE
        return first, committed, min(flushed, committed)

    def _update(
        self, position: int, content: bytes, watermarks: tuple[int, int, int] | None = None
    ) -> Update:
        marks = self._watermarks() if watermarks is None else watermarks
        return Update(position, *marks, content=content)

    def _bytes(self, start: int, stop: int) -> bytes:
        number, offset = divmod(start, self._size)
        content = b""
        try:
            with self._view.opened_file(number) as fd:
                content = read_range(fd, stop - start, offset)
            self._view.check_open()  # the name may be that of another file by now
        except FileNotFoundError:
            content = b""
        if not content:
            raise PositionError(
                "retention deleted this segment: continue at a later position",
                position=start,
                first_position=self._view.first_position,
            )
        return content

    def _checked(self, ranges: object) -> list[tuple[int, int]]:
        if not isinstance(ranges, list) or len(ranges) > _RANGES_LIMIT:
            raise ReplicationError(f"a reader may ask for a list of {_RANGES_LIMIT} ranges")
        end = self._log.committed_position
        for each in ranges:
            pair = isinstance(each, list) and len(each) == 2 and all(type(n) is int for n in each)
            if not pair or not 0 <= each[0] < each[1]:
                raise ReplicationError(f"a reader asked for an unusable range: {each!r:.100}")
            base = each[0] - each[0] % self._size
            if each[1] > base + self._size:
                raise ReplicationError(f"a reader asked for more than a segment: {each!r:.100}")
        # What is not committed may not be whole. Headers are: a segment gets its name with one.
        header = [max(end, start - start % self._size + HEADER_SIZE) for start, _ in ranges]
        return [
            (start, min(stop, most)) for (start, stop), most in zip(ranges, header, strict=True)
        ]

    def _position_in_log(self, value: int) -> int:
        """Refuse a position beyond the end: a search would go through all segments in between."""
        position, end = self._checked_position(value), self._log.tail_position
        if position > end:
            raise PositionError(
                f"the log ends at {end}",
                position=position,
                first_position=self._view.first_position,
            )
        return position

    def _checked_position(self, position: object) -> int:
        if type(position) is not int or not 0 <= position < 1 << 63:
            raise ReplicationError(f"a reader asked for an unusable position: {position!r:.100}")
        return position


def _runs(numbers: list[int]) -> list[list[int]]:
    """Return ascending numbers as pairs of the first and the last of each run."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return runs
