"""MappedFile: one segment in this process, its watermarks, and who holds it."""

from __future__ import annotations

import itertools
import threading
import time
from typing import NamedTuple

from commitlog._kernel.engine import Core
from commitlog._kernel.segments import Segment
from commitlog.errors import SegmentHeldError

_MOMENT_S = 1.0  # that those who are here briefly are waited for


class _Holder(NamedTuple):
    who: str
    since: float  # seconds since 1970
    briefly: bool  # leaves again at once


class MappedFile:
    """A mapped segment with a reference count that has names on it.

    It is born available. `hold` counts somebody in, `release` out; after `shutdown` nobody new gets
    in, and when the last holder has left the mapping goes. The model is RocketMQ's
    ReferenceResource, which after its interval unmaps under the holder's feet; here a hung holder
    is named in an error instead, and keeps its bytes.

    Parameters
    ----------
    core : Core
        The handle whose table the segment is in.
    segment : Segment
        Its mapping; this object releases it.
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
    def available(self) -> bool:
        """Whether it can still be held."""
        return self._available

    @property
    def holders(self) -> list[tuple[str, float]]:
        """Who holds it, and since when (seconds since 1970)."""
        with self._state:
            return self._named()

    @property
    def staying(self) -> list[str]:
        """Who holds it for longer than a moment."""
        with self._state:
            return [holder.who for holder in self._holders.values() if not holder.briefly]

    def _named(self) -> list[tuple[str, float]]:
        return [(holder.who, holder.since) for holder in self._holders.values()]

    def _has_brief(self) -> bool:
        return any(holder.briefly for holder in self._holders.values())

    def hold(self, who: str, *, briefly: bool = False) -> int | None:
        """Count a holder in, who leaves again at once where it is said to be here briefly.

        Returns
        -------
        int or None
            A token for `release`; None when the segment is being shut down.
        """
        with self._state:
            if not self._available:
                return None
            token = next(self._tokens)
            self._holders[token] = _Holder(who, time.time(), briefly)
            return token

    def release(self, token: int) -> None:
        """Count a holder out. A token that was given back before is no error."""
        with self._state:
            self._holders.pop(token, None)
            if not self._has_brief():
                self._state.notify_all()

    def forked(self) -> None:
        """In the child of a fork: another thread of the parent may have held the lock. Those who
        are here briefly are threads of the parent; tailers and views are in the child, too."""
        self._state = threading.Condition()
        self._holders = {
            token: holder for token, holder in self._holders.items() if not holder.briefly
        }

    def shutdown(self, force_after: float) -> None:
        """Let nobody new in, wait for the holders to leave, and unmap. Raises what `drain` does."""
        self.drain(force_after)
        self.unmap()

    def unmap(self) -> None:
        """Give the mapping back; idempotent."""
        self._core.forget(self.number)
        self.segment.release()

    def drain(self, force_after: float) -> None:
        """Let nobody new in, and wait for the holders to leave. The mapping stays.

        Parameters
        ----------
        force_after : float
            Seconds to wait for them, after those who are here briefly have left.

        Raises
        ------
        SegmentHeldError
            Somebody still holds it, named with the time since when. The segment is available again.
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

    def _clip(self, position: int) -> int:
        return max(0, min(position - self.base, self.size))

    @property
    def appended(self) -> int:
        """Offset up to which every claim in this segment is published or rolled back."""
        return self._clip(self._core.appended_position)

    @property
    def committed(self) -> int:
        """Offset up to which the file has it."""
        return self._clip(self._core.committed_position)

    @property
    def flushed(self) -> int:
        """Offset up to which it survives a power cut."""
        return self._clip(self._core.flushed_position)

    @property
    def full(self) -> bool:
        """Whether nothing more will be appended to it."""
        return self.appended >= self.size
