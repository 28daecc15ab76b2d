"""SegmentSource: where the segments of a log come from, if not from its directory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from commitlog.segment.identity import Identity
from commitlog.source.growing import Growing
from commitlog.source.place_keeper import NoPlaces, PlaceKeeper


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


class SegmentSource(ABC):
    """Segments of a log in another place: an archive, a store, another machine, a tar file.

    The core copies each segment into a temporary folder on its first use, because the kernel maps
    files, and reads it there. Calls may come from several threads at once. The core checks numbers,
    sizes, headers and frames, so a source may pass on what a file or a peer says. Inherit from this
    class; the methods that are not abstract are optional. See docs/extending.md.

    Attributes
    ----------
    location : str
        A path or an address for messages. It is never parsed.
    identity : Identity
        The identity of the log, as its `log.json` has it.
    kind : str
        What `info`, `verify` and metrics print.
    """

    location: str
    identity: Identity
    kind: str = "source"

    @abstractmethod
    def segments(self) -> Sequence[SegmentRef]:
        """Return the segments that are there now, by ascending number. Return the same object again
        if nothing has changed: the core then checks nothing again.
        """

    @abstractmethod
    def header(self, number: int) -> bytes | None:
        """Return the first 4096 bytes of a segment, with its seal if all of it is there; None if
        they cannot be had without the rest.
        """

    @abstractmethod
    def fill(self, number: int, fd: int) -> None:
        """Write a segment to an open file, which is empty; leave it as large as a segment is."""

    def end(self) -> int | None:
        """Return the position at which the log ends: below it, all is durable there, and bytes that
        are no frame are damage. None: the core finds the end by the frames of the last segment.
        """
        return None

    def locate(self, number: int) -> str:
        """Return where a segment is, for messages."""
        return f"{self.location}#{number * self.identity.segment_size}"

    def check(self) -> None:  # noqa: B027  (optional)
        """Raise if a reader cannot get what it needs: asked when a log is opened, and by readers
        that wait at the end.
        """

    def list_again(self) -> None:  # noqa: B027  (optional)
        """List the segments anew: some may have been added or deleted."""

    def notes(self) -> list[str]:
        """Return what `verify` reports beside the segments, as sentences."""
        return []

    def after_fork(self) -> None:  # noqa: B027  (optional)
        """In the child of a fork: make new locks, because a thread of the parent may hold them."""

    def close(self) -> None:  # noqa: B027  (optional)
        """Release what the source holds. A second call does nothing."""

    @property
    def live(self) -> LiveSource | None:
        """This source, if its log grows while it is read."""
        return None

    @property
    def places(self) -> PlaceKeeper:
        """The keeper of the log's named tailers."""
        return NoPlaces(self.location)


class LiveSource(SegmentSource):
    """A source whose log grows while it is read, such as a server."""

    @abstractmethod
    def follow(self, growing: Growing) -> None:
        """Pass the watermarks to `growing.take`, now and whenever they rise, until `close`."""

    @abstractmethod
    def read(
        self, ranges: Iterable[tuple[int, int]], take: Callable[[int, bytes | memoryview], None]
    ) -> None:
        """Pass the bytes of ranges of positions to `take`, in pieces of any size."""

    @property
    def live(self) -> LiveSource | None:
        return self
