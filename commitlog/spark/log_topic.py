"""LogTopic: a log on this machine's disks. A writer may append to it meanwhile."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

import commitlog
from commitlog.errors import LogNotFoundError, PositionError, SequenceError
from commitlog.extension import HEADER_SIZE, view_of
from commitlog.spark import places
from commitlog.spark.presence import check_present
from commitlog.spark.segment_bytes import stored_location
from commitlog.spark.slices import Slice
from commitlog.spark.spark_topic import SparkTopic, refuse_gap
from commitlog.types import Identity

LOOK_S = 1.0  # between two looks of a stream for another log in the same place


class LogTopic(SparkTopic):
    """A log that is open for reading, up to the watermark `visibility`; with `only`, one segment of
    it, by its base. Tasks find the segments that are in the log's `store` there.
    """

    _looks_always = False  # because a look costs nothing

    def __init__(
        self,
        name: str,
        place: str,
        visibility: Literal["flushed", "committed"],
        only: int | None = None,
        store: str | None = None,
    ) -> None:
        self.name = name
        self.location = place
        self._visibility = visibility
        self._only = only
        self._store = store
        self._open_log()
        self._looked_s = time.monotonic()
        self._is_there = True

    @property
    def _schema_store(self) -> str | None:
        """The store to open the log with for its schemas."""
        return self._store

    def _open_log(self) -> None:
        self._stamp = self._stamped()
        self._begin(commitlog.open(self.location, mode="r", store=self._opened_store()))

    def _opened_store(self) -> commitlog.Store | None:
        return None if self._store is None else commitlog.Store(self._store)

    def _begin(self, log: commitlog.CommitLog) -> None:
        self.log = log
        self._view = view_of(self.log)
        self.segment_size = self.log.segment_size
        self.uuid = self.log.identity.uuid

    @property
    def first(self) -> int:
        return self._bounded(self._view.first_position)

    @property
    def end(self) -> int:
        """The watermark, read from memory."""
        return self._bounded(
            self.log.flushed_position
            if self._visibility == "flushed"
            else self.log.committed_position
        )

    @property
    def tail(self) -> int:
        """The end of what is appended, which readers may not see yet."""
        return max(self.end, self.log.tail_position, self.log.appended_position)

    def refresh(self) -> bool:
        """Before a stream looks for the end: open the log again if another one has taken its place,
        and ask its writer for a flush if this read waits for durable records. Return whether there
        is a log in this place.
        """
        now_s = time.monotonic()
        if self._looks_always or now_s - self._looked_s >= LOOK_S:
            self._looked_s = now_s
            try:
                if self._has_changed():
                    self._open_again()
                self._is_there = True
            except LogNotFoundError:
                self._is_there = False
        self._ask_for_flush()
        return self._is_there

    def _ask_for_flush(self) -> None:
        if self._visibility == "flushed":
            self._view.ask_for_flush()

    def _has_changed(self) -> bool:
        """Return whether the files of this place are no longer those that are open."""
        return self._stamped() != self._stamp

    def _stamped(self) -> tuple[int, ...]:
        """Return what changes if `log.json` is written again, also with the same uuid."""
        path = places.join(self.location, Identity.FILE_NAME)
        try:
            found = os.stat(path)
        except FileNotFoundError:
            raise LogNotFoundError("there is no log here any more", path=self.location) from None
        return found.st_dev, found.st_ino, found.st_ctime_ns

    def _open_again(self) -> None:
        before = self.log
        self._open_log()
        before.close()

    def _bounded(self, position: int) -> int:
        if self._only is None:
            return position
        return min(max(position, self._only), self._only + self.segment_size)

    def _since(self, timestamp_ns: int) -> int | None:
        found = self._view.position_since(timestamp_ns)
        return None if found is None or found >= self.end else self._bounded(found)

    def sequence_of(self, position: int) -> int:
        """Return the number of records before a position at which a frame or a segment begins or
        ends.
        """
        return self._view.sequence_of(position)

    def position_of(self, sequence: int) -> int:
        return self._view.position_of(sequence)

    def boundary(self, position: int) -> int:
        number, offset = divmod(position, self.segment_size)
        base = position - offset
        # A task reads a stored segment from its beginning.
        found = None if self._is_stored(number) else self._entry(position)
        return base if found is None or found < base else found

    def _entry(self, position: int) -> int | None:
        return self._view.entry_before(position)

    def _is_stored(self, number: int) -> bool:
        """Return whether a task reads a segment from the store."""
        return self._view.is_older(number)

    def _location(self, number: int) -> str:
        if self._store is not None and self._is_stored(number):
            return stored_location(self._store, number * self.segment_size)
        return self._view.location(number)

    def _scan(self, position: int, *, with_sequence: bool) -> int:
        """Return where a task begins to decode, at or before a position."""
        base = position - position % self.segment_size
        return max(self.boundary(position + 8), base + HEADER_SIZE)

    def slices(
        self, start: int, stop: int, *, with_sequence: bool, fail_on_data_loss: bool
    ) -> Iterator[Slice]:
        there = set(self._view.segment_numbers())
        size = self.segment_size
        # If the range ends directly after a segment's header, it ends with the segment before. That
        # header's segment may not exist yet.
        stop -= stop % size if stop % size <= HEADER_SIZE else 0
        for number in range(start // size, -(-stop // size)):
            base = number * size
            if number not in there:
                self._check_present()
                refuse_gap(self, base, base + size, fail_on_data_loss)
                continue
            seal = self._view.seal(number)
            # A segment that rolled early has no frames above its seal's end.
            wanted_start, wanted_stop = (
                max(start - base, HEADER_SIZE),
                min(stop - base, size if seal is None else seal.end),
            )
            if wanted_start >= wanted_stop:
                continue
            scan = (
                HEADER_SIZE
                if wanted_start == HEADER_SIZE
                else self._scan(base + wanted_start, with_sequence=with_sequence) - base
            )
            yield Slice(
                topic=self.name,
                location=self._location(number),
                uuid=self.uuid,
                log=self.location,
                store=self._schema_store,
                base=base,
                size=size,
                scan=scan,
                start=wanted_start,
                stop=wanted_stop,
                sequence=self._sequence_at(number, scan) if with_sequence else None,
            )

    def _check_present(self) -> None:
        """Raise if a missing segment was not deleted, but its log is missing, too."""
        check_present(self.location, self.uuid)

    def _sequence_at(self, number: int, offset: int) -> int:
        seal = self._view.seal(number)
        if seal is not None and offset <= HEADER_SIZE:
            return seal.first_sequence
        return self.sequence_of(number * self.segment_size + offset)

    def records_in(self, piece: Slice) -> int | None:
        if piece.scan < piece.start or piece.sequence is None:
            return None
        seal = self._view.seal(piece.base // self.segment_size)
        if seal is not None and piece.stop == seal.end:
            return seal.first_sequence + seal.record_count - piece.sequence
        try:
            return self.sequence_of(piece.base + piece.stop) - piece.sequence
        except (PositionError, SequenceError):
            return None  # the slice ends inside a record

    def listed(
        self, base: int, types: Sequence[int] | None, key: bytes | None
    ) -> npt.NDArray[np.uint32] | None:
        number = base // self.segment_size
        return None if self._is_stored(number) else self._view.listed(number, types, key)

    def close(self) -> None:
        self.log.close()
