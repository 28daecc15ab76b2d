"""Topic: one log or archive, as the driver sees it."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterator

from commitlog.errors import PositionError
from commitlog.spark.slices import Slice

_logger = logging.getLogger("commitlog.spark")


class Topic(ABC):
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
        """Where the oldest segment that is still there begins."""

    @property
    @abstractmethod
    def end(self) -> int:
        """Where what may be read ends at present."""

    @abstractmethod
    def position_since(self, timestamp_ns: int) -> int | None:
        """Where the first record stands that is not older; None where all are, or where there is
        none.
        """

    @abstractmethod
    def boundary(self, position: int) -> int:
        """Where a slice may end, at a position or before it: a frame's beginning, or a
        segment's.
        """

    @abstractmethod
    def slices(
        self, start: int, stop: int, *, with_sequence: bool, fail_on_data_loss: bool
    ) -> Iterator[Slice]:
        """What there is of [start, stop), a segment at a time. Segments that are missing in between
        are refused, or passed over.
        """

    def sequence_of(self, position: int) -> int:
        """The sequence of the record at a boundary that is inside a segment."""
        raise NotImplementedError("this is cut between segments only")

    @abstractmethod
    def close(self) -> None:
        """Let go of it."""

    def __enter__(self) -> Topic:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def refuse_gap(topic: Topic, start: int, stop: int, fail_on_data_loss: bool) -> None:
    """Say that segments are missing.

    Raises
    ------
    PositionError
        Unless data may be lost.
    """
    if fail_on_data_loss:
        raise PositionError(
            f"the segments with positions from {start} to {stop} are missing: restore them, or "
            "pass over what is lost with "
            "failOnDataLoss=false",
            path=topic.location,
            position=start,
            first_position=stop,
        )
    _logger.warning(
        "%s: the positions from %d to %d are missing, and lost to this query",
        topic.location,
        start,
        stop,
    )
