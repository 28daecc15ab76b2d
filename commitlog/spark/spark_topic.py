"""SparkTopic: one log or archive, as the driver sees it."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from commitlog.errors import PositionError
from commitlog.spark.slices import Slice

_EARLIEST_NS, _LATEST_NS = -(1 << 63), (1 << 63) - 1  # that a record can have
_logger = logging.getLogger("commitlog.spark")


class SparkTopic(ABC):
    """One log or archive. Positions are those of the log.

    Attributes
    ----------
    name : str
        The name of its directory.
    location : str
        Its directory, a path or a URI.
    segment_size : int
        Bytes of each of its segments.
    uuid : bytes
        The log's identity.
    """

    name: str
    location: str
    segment_size: int
    uuid: bytes

    @property
    @abstractmethod
    def first(self) -> int:
        """The base of the oldest segment."""

    @property
    @abstractmethod
    def end(self) -> int:
        """The position at which a read must end at present."""

    def position_since(self, timestamp_ns: int) -> int | None:
        """Return the position of the first record with at least this timestamp; None if there is
        no such record. The timestamp may be one that no record can have.
        """
        if timestamp_ns > _LATEST_NS:
            return None
        return self._since(max(timestamp_ns, _EARLIEST_NS))

    @abstractmethod
    def _since(self, timestamp_ns: int) -> int | None:
        """Do the same for a timestamp that a record can have."""

    @abstractmethod
    def boundary(self, position: int) -> int:
        """Return the last position at or before `position` at which a slice may end: the start of a
        frame or of a segment.
        """

    @abstractmethod
    def slices(
        self, start: int, stop: int, *, with_sequence: bool, fail_on_data_loss: bool
    ) -> Iterator[Slice]:
        """Yield [start, stop) as slices, one for each segment. With `fail_on_data_loss`, a missing
        segment raises `PositionError`; otherwise it is skipped.
        """

    def sequence_of(self, position: int) -> int:
        """Return the sequence of the record at a boundary inside a segment."""
        raise NotImplementedError("an archive is cut between segments only")

    @abstractmethod
    def records_in(self, piece: Slice) -> int | None:
        """Return how many records a slice has, if that is known without reading them."""

    def listed(
        self, base: int, types: Sequence[int] | None, key: bytes | None
    ) -> npt.NDArray[np.uint32] | None:
        """Return the ascending offsets of at least all records of a segment with one of the types
        and with the key; None if they are not known without a scan.
        """
        return None

    @abstractmethod
    def close(self) -> None:
        """Release it."""

    def __enter__(self) -> SparkTopic:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def refuse_gap(topic: SparkTopic, start: int, stop: int, fail_on_data_loss: bool) -> None:
    """Report that segments are missing."""
    if fail_on_data_loss:
        raise PositionError(
            f"the segments with positions from {start} to {stop} are missing: restore them, or "
            "skip them with failOnDataLoss=false",
            path=topic.location,
            position=start,
            first_position=stop,
        )
    _logger.warning(
        "%s: positions %d to %d are missing and lost to this query",
        topic.location,
        start,
        stop,
    )
