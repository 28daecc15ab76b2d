"""StoreTopic: the store of a log, which tasks read in place of its machine."""

from __future__ import annotations

from commitlog.errors import MissingExtraError
from commitlog.extension import HEADER_SIZE, open_source
from commitlog.spark import places
from commitlog.spark.log_topic import LogTopic
from commitlog.stores.archive_source import ArchiveSource
from commitlog.stores.object_target import SCHEMES
from commitlog.stores.tail_object import TailObject
from commitlog.stores.target import reading, target_of
from commitlog.types import Identity


def is_object_place(place: str) -> bool:
    """Return whether a place is an address that obstore opens; one with a query is pyarrow's."""
    return place.partition("://")[0] in SCHEMES and "?" not in place


def is_store(place: str, *, stream: bool) -> bool:
    """Return whether a place is read as a store: it has segments and parts that belong together.

    A local archive without parts is read as a store by a stream only.
    """
    if places.is_uri(place):
        if not is_object_place(place):
            return False
        try:
            target = target_of(place)
        except MissingExtraError:
            return False  # pyarrow may open it
        with reading(place):
            names = set(target.names())
        stream = True
    else:
        names = set(places.names(place) or ())
    if Identity.FILE_NAME not in names or any(name.endswith(".seg") for name in names):
        return False
    return stream or any(TailObject.is_named(name) for name in names)


class StoreTopic(LogTopic):
    """A store, whole segments and parts, up to its last part. A stream lists it every second."""

    def __init__(self, name: str, place: str) -> None:
        super().__init__(name, place, "committed", store=place)

    @property
    def _schema_store(self) -> str | None:
        return None

    def _open_log(self) -> None:
        self._source = ArchiveSource(self.location)
        self._begin(open_source(self._source))

    def _has_changed(self) -> bool:
        """List the store; return whether it has grown, or was made again."""
        return self._source.has_changed()

    def _stamped(self) -> tuple[int, ...]:
        return ()  # the listing says it

    def _is_stored(self, number: int) -> bool:
        return True

    def _scan(self, position: int, *, with_sequence: bool) -> int:
        base = position - position % self.segment_size
        # The sequence inside a segment is not known here, so the task counts from its beginning.
        found = base if with_sequence else self._source.part_start(position)
        return max(found, base + HEADER_SIZE)
