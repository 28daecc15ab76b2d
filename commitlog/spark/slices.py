"""Slices: the ranges of segment files that tasks read, and their conversion to rows."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from commitlog.errors import CorruptRecordError, CorruptSegmentError, PositionError
from commitlog.extension import FRAME_ALIGN, HEADER_SIZE, PieceDecoder
from commitlog.spark.columns import RowBuilder
from commitlog.spark.presence import check_deleted, other_log
from commitlog.spark.segment_bytes import SegmentBytes, Window, open_bytes

OnDamage = Literal["fail", "skip"]
PIECE_BYTES = 4 << 20
PAGE_BYTES = 4096
_logger = logging.getLogger("commitlog.spark")


@dataclass(frozen=True, kw_only=True)
class Slice:
    """A byte range of a segment file. Executors get it pickled, so it holds no credential and no
    open file.

    Attributes
    ----------
    topic : str
        The log's name.
    location : str
        The segment file: a path or a URI.
    uuid : bytes
        The log's identity.
    log : str
        The log, its archive, its store or its only segment, to open for the schemas of messages.
    store : str or None
        The store of the log, which may have the schemas of deleted segments.
    base, size : int
        Base and size of the segment.
    scan : int
        Offset of the frame at which decoding begins. Records before `start` are only counted.
    start, stop : int
        The task returns the records that begin in [start, stop).
    sequence : int or None
        Sequence of the first record at or after `scan`; None if unknown or not requested.
    listed : bytes or None
        The offsets of the records to read, as uint32, ascending; None: all.
    records : int or None
        The number of these records, if no column needs more of them. The task does not read them.
    may_be_partial : bool
        The segment is the last of an archive and may have been copied before it was full. It ends
        after its last whole frame.
    """

    topic: str
    location: str
    uuid: bytes
    log: str = ""
    store: str | None = None
    base: int
    size: int
    scan: int = HEADER_SIZE
    start: int = HEADER_SIZE
    stop: int
    sequence: int | None = None
    listed: bytes | None = None
    records: int | None = None
    may_be_partial: bool = False

    @property
    def read_bytes(self) -> int:
        """Number of bytes to read, without the header: of a listed record, a page."""
        whole = self.stop - self.scan
        return whole if self.listed is None else min(whole, len(self.listed) // 4 * PAGE_BYTES)

    @property
    def ranges(self) -> Iterator[tuple[int, int]]:
        """The ranges of offsets in which the records to read begin."""
        if self.listed is None:
            yield max(self.scan, HEADER_SIZE), self.stop
            return
        for offset in memoryview(self.listed).cast("I"):
            yield offset, offset + FRAME_ALIGN


class SliceReader:
    """Read one slice into record batches. With `on_damage` "skip" it continues at the next whole
    frame: the records before it are lost to this read, and a warning says where.
    """

    def __init__(self, piece: Slice, builder: RowBuilder, on_damage: OnDamage = "fail") -> None:
        self._slice = piece
        self._builder = builder
        self._on_damage = on_damage
        self._sequence = piece.sequence

    def check(self) -> None:
        """Raise `PositionError` if the segment was deleted."""
        with self._open() as source:
            self._decoder_of(Window(source, self._slice.size))

    def _open(self) -> SegmentBytes:
        try:
            return open_bytes(self._slice.location)
        except FileNotFoundError:
            check_deleted(self._slice.location, self._slice.uuid, self._slice.base)
            raise PositionError(
                "the segment was deleted",
                path=self._slice.location,
                position=self._slice.base + self._slice.start,
            ) from None

    def batches(self) -> Iterator[pa.RecordBatch]:
        with self._open() as source:
            try:
                yield from self._decode(source)
            except CorruptSegmentError as error:
                if self._on_damage == "fail":
                    raise
                _logger.warning(
                    "%s: skipped the rest of the slice: %s", self._slice.location, error.message
                )
        if self._builder.count:
            yield self._finish()
        self._builder.clear()

    def _decode(self, source: SegmentBytes) -> Iterator[pa.RecordBatch]:
        window = Window(source, self._slice.size)
        decoder = self._decoder_of(window)
        for start, stop in self._slice.ranges:
            yield from self._decode_range(window, decoder, start, stop)

    def _decode_range(
        self, window: Window, decoder: PieceDecoder, offset: int, stop: int
    ) -> Iterator[pa.RecordBatch]:
        wanted, builder = self._slice, self._builder
        needed = 8
        while offset < stop:
            back = PieceDecoder.HEADERS_BACK if builder.has_headers else 0
            begin = max(HEADER_SIZE, offset - back)
            wanted_bytes = max(needed, min(PIECE_BYTES, stop - offset))
            if (
                not window.reach(begin, offset - begin + wanted_bytes)
                and window.stop - offset < needed
            ):
                self._refuse_short(window.stop)
                break
            found, offset, needed = decoder.decode(
                window.data, window.start, offset, wanted.start, stop, rows=builder.rows
            )
            needed = max(needed, 8)
            if builder.has_headers:
                self._add_headers(decoder, window)
            if found == "end":
                break
            if found == "full":
                if builder.count:
                    yield self._finish()
                else:
                    builder.grow(needed)
            elif found == "damage":
                resume = self._resume(decoder, window, offset)
                if resume >= stop and wanted.may_be_partial:
                    break
                self._report_damage(offset, resume)
                offset, needed = resume, 8

    def _add_headers(self, decoder: PieceDecoder, window: Window) -> None:
        positions = self._builder.headless_positions()
        headers = decoder.headers(window.data, window.start, positions)
        for position, each in zip(positions, headers, strict=True):
            if each is None:
                self._report_headers(position)
        self._builder.add_headers(headers)

    def _report_headers(self, position: int) -> None:
        location = self._slice.location
        if self._on_damage == "skip":
            _logger.warning("%s: the headers at position %d are damaged", location, position)
            return
        raise CorruptSegmentError(
            "the headers of this record are damaged, and the record is not: run `commitlog repair` "
            "on the log, or read it without headers, or with onDamage=skip",
            path=location,
            position=position,
        )

    def _finish(self) -> pa.RecordBatch:
        first = None
        if self._sequence is not None:
            first = self._sequence + self._builder.rows.passed
            self._sequence = first + self._builder.count
        return self._builder.finish(self._slice.topic, first)

    def _decoder_of(self, window: Window) -> PieceDecoder:
        """Check the header page against the slice, and return a decoder."""
        wanted = self._slice
        if not window.reach(0, HEADER_SIZE):
            raise self._short(window.stop)
        page = bytes(window.data[:HEADER_SIZE])
        found = PieceDecoder.identify(page)
        if found is not None and found[0] != wanted.uuid:
            raise other_log(wanted.location)
        return PieceDecoder(page, wanted.uuid, wanted.base, wanted.size, wanted.location)

    # --- damage -----------------------------------------------------------------------------------

    def _short(self, end: int) -> CorruptSegmentError:
        return CorruptSegmentError(
            f"the segment file ends after {end} of {self._slice.size} bytes: restore it from a "
            "copy, or skip the rest with onDamage=skip",
            path=self._slice.location,
            position=self._slice.base + end,
        )

    def _refuse_short(self, end: int) -> None:
        if not self._slice.may_be_partial:
            raise self._short(end)

    def _resume(self, decoder: PieceDecoder, window: Window, offset: int) -> int:
        """Return the offset of the next whole frame, or the slice's end. The search goes in steps,
        which bounds the memory.
        """
        largest, stop = self._slice.size // 8 + 8, self._slice.stop
        while offset < stop:
            step_end = min(offset + PIECE_BYTES, stop)
            if not window.reach(offset, step_end - offset + largest) and window.stop <= offset + 8:
                return stop
            found = decoder.resume(window.data, window.start, offset, step_end)
            if found < step_end:
                return found
            offset = step_end - 8 if step_end < stop else stop
        return stop

    def _report_damage(self, offset: int, resume: int) -> None:
        wanted = self._slice
        position, resume_position = wanted.base + offset, wanted.base + resume
        if self._on_damage == "skip":
            _logger.warning(
                "%s: skipped damage from position %d to %d",
                wanted.location,
                position,
                resume_position,
            )
            return
        raise CorruptRecordError(
            f"the segment is damaged up to position {resume_position}: run `commitlog repair` on "
            "the log, or continue after the damage with onDamage=skip",
            path=wanted.location,
            position=position,
            resume_position=resume_position,
        )


def read_slices(
    slices: Iterable[Slice],
    schema: pa.Schema,
    *,
    on_damage: OnDamage = "fail",
    fail_on_data_loss: bool = True,
) -> Iterator[pa.RecordBatch]:
    """Yield the record batches of some slices, one after the other, in bounded memory.

    `on_damage` is as for `SliceReader`; "skip" skips the whole segment if its header is damaged.
    Without `fail_on_data_loss`, deleted segments are skipped. A machine that does not see the log
    fails in any case.
    """
    builder = RowBuilder(schema)
    for piece in without_deleted(slices, fail_on_data_loss=fail_on_data_loss):
        if piece.records is not None:
            yield from builder.counted(piece.topic, piece.sequence, piece.records)
            continue
        try:
            yield from SliceReader(piece, builder, on_damage).batches()
        except PositionError as error:
            _report_deleted(piece, error, fail_on_data_loss)


def without_deleted(slices: Iterable[Slice], *, fail_on_data_loss: bool) -> Iterator[Slice]:
    """Yield the slices without those that are only counted and were deleted after the plan.

    Retention deletes the oldest segments first. So once one segment of a log is there, the later
    ones are, too.
    """
    there: set[tuple[str, bytes]] = set()
    for piece in slices:
        log = piece.topic, piece.uuid
        if piece.records is not None and log not in there:
            try:
                SliceReader(piece, RowBuilder(pa.schema([]), most=1)).check()
            except PositionError as error:
                _report_deleted(piece, error, fail_on_data_loss)
                continue
            there.add(log)
        yield piece


def _report_deleted(piece: Slice, error: PositionError, fail_on_data_loss: bool) -> None:
    if fail_on_data_loss:
        raise PositionError(
            "the segment was deleted before it was read: start at a later offset, or skip the lost "
            "records with failOnDataLoss=false",
            path=error.path,
            position=error.position,
            first_position=error.first_position,
        ) from None
    _logger.warning(
        "%s: deleted before it was read: its records are lost to this query", piece.location
    )
