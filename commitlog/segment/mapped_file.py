"""MappedFile: one segment in this process, and who holds it."""

from __future__ import annotations

import itertools
import threading
import time
from typing import NamedTuple

from commitlog._kernel.engine import Core
from commitlog._kernel.segments import Segment
from commitlog.errors import SegmentHeldError

_MOMENT_S = 1.0  # how long to wait for short-term holders


class _Holder(NamedTuple):
    who: str
    since: float  # seconds since 1970
    briefly: bool  # held only for the duration of one operation


class MappedFile:
    """A mapped segment with a reference count of named holders.

    `hold` adds a holder, `release` removes it; `drain` admits no new holder and waits for the last.
    The model is RocketMQ's ReferenceResource, which after its interval unmaps despite a holder;
    here an error names the hung holder instead, and its mapping stays.
    """

    def __init__(self, core: Core, segment: Segment) -> None:
        self._core = core
        self.segment = segment
        self.number: int = segment.number
        self.base: int = segment.base
        self.size: int = segment.size
        self.path: str = segment.path
        self._state = threading.Condition()
        self._tokens = itertools.count(1)
        self._holders: dict[int, _Holder] = {}
        self._available = True

    @property
    def holders(self) -> list[tuple[str, float]]:
        """The holders, and since when (seconds since 1970)."""
        with self._state:
            return self._named()

    @property
    def staying(self) -> list[str]:
        """The holders that are not brief."""
        with self._state:
            return [holder.who for holder in self._holders.values() if not holder.briefly]

    def _named(self) -> list[tuple[str, float]]:
        return [(holder.who, holder.since) for holder in self._holders.values()]

    def _has_brief(self) -> bool:
        return any(holder.briefly for holder in self._holders.values())

    def hold(self, who: str, *, briefly: bool = False) -> int | None:
        """Add a holder. A brief holder must release the segment at once.

        Return a token for `release`; None when the segment is being shut down.
        """
        with self._state:
            if not self._available:
                return None
            token = next(self._tokens)
            self._holders[token] = _Holder(who, time.time(), briefly)
            return token

    def release(self, token: int) -> None:
        """Remove a holder. A token that was released before is no error."""
        with self._state:
            self._holders.pop(token, None)
            if not self._has_brief():
                self._state.notify_all()

    def forked(self) -> None:
        """In the child of a fork: another thread of the parent may have held the lock. Brief
        holders are threads of the parent; tailers and views exist in the child, too.
        """
        self._state = threading.Condition()
        self._holders = {
            token: holder for token, holder in self._holders.items() if not holder.briefly
        }

    def unmap(self) -> None:
        """Release the mapping; idempotent."""
        self._core.forget(self.number)
        self.segment.release()

    def drain(self, force_after: float) -> None:
        """Admit no new holder, and wait for the present ones to release: for the brief ones, then
        for the others at most `force_after` seconds. The mapping stays.

        If it still has holders, `SegmentHeldError` names them, and the segment is available again.
        """
        with self._state:
            self._state.wait_for(lambda: not self._has_brief(), timeout=_MOMENT_S)
            self._available = False
            if not self._state.wait_for(lambda: not self._holders, timeout=force_after):
                self._available = True
                names = ", ".join(
                    f"{who} for {time.time() - since:.1f} s" for who, since in self._named()
                )
                raise SegmentHeldError(
                    f"the segment is still held after {force_after:g} s, by {names}: close those, "
                    "then try again",
                    path=self.path,
                    position=self.base,
                    holders=self._named(),
                )
