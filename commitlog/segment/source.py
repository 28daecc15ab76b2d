"""SegmentSource: where the segments of a log come from, if not from its directory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from commitlog.segment.identity import Identity


class SegmentRef(NamedTuple):
    """One segment of a source.

    Attributes
    ----------
    number : int
        Its base position divided by the segment size.
    stored_bytes : int
        What it takes where it is.
    whole : bool
        All of it is there: nothing is added to it any more.
    """

    number: int
    stored_bytes: int
    whole: bool = True


class SourceEnds(NamedTuple):
    """How far the log of a source reaches, as positions.

    Attributes
    ----------
    committed : int
        The end of what readers may see.
    flushed : int
        The end of what is durable there.
    uncertain_from : int
        From here on bytes that are no frame are the end of the log, and below it damage.
    """

    committed: int
    flushed: int
    uncertain_from: int


class SegmentSource(Protocol):
    """Segments of a log in another place: an archive, a store, another machine, a tar file.

    The core copies each segment into a temporary folder on its first use, because the kernel maps
    files, and reads it there. Calls may come from several threads at once. Numbers, sizes and
    bytes are checked by the core, so a source may return what a file or a peer says.

    Attributes
    ----------
    location : str
        A path or an address for messages. It is never parsed.
    identity : Identity
        The identity of the log, as its `log.json` has it.
    """

    location: str
    identity: Identity

    def segments(self) -> Sequence[SegmentRef]:
        """Return the segments that are there now, by number."""

    def header(self, number: int) -> bytes | None:
        """Return the first 4096 bytes of a segment, with its seal if all of it is there; None if
        it cannot be read.
        """

    def fill(self, number: int, fd: int) -> None:
        """Write a segment to an open file, which is empty; leave it as large as a segment is."""

    def ends(self) -> SourceEnds:
        """Return how far the log reaches now."""

    def locate(self, number: int) -> str:
        """Return where a segment is, for messages."""

    def after_fork(self) -> None:
        """In the child of a fork: make new locks, because a thread of the parent may hold them."""

    def close(self) -> None:
        """Release what the source holds. A second call does nothing."""
