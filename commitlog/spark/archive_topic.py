"""ArchiveTopic: finished segments, plain or compressed, on this machine or in a file system that
`pyarrow.fs` supports.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from commitlog.base.cached import Cached
from commitlog.errors import CorruptSegmentError, LogNotFoundError, NotALogError
from commitlog.extension import HEADER_SIZE, PieceDecoder
from commitlog.spark import places
from commitlog.spark.columns import FIELDS
from commitlog.spark.presence import identity_at
from commitlog.spark.segment_bytes import open_bytes
from commitlog.spark.slices import Slice, read_slices
from commitlog.spark.spark_topic import SparkTopic, refuse_gap
from commitlog.types import Identity


@dataclass(frozen=True)
class _File:
    location: str
    base: int


class ArchiveTopic(SparkTopic):
    """An archive: a folder with `log.json` and segments, or a single segment. A compressed segment
    is one zstd frame.
    """

    def __init__(self, name: str, place: str) -> None:
        self.name = name
        self.location = place
        self._pages: dict[str, bytes] = {}
        only = places.segment_of(places.name_of(place))
        content: dict[str, bool] = {}
        if only is not None:
            self._files = [_File(place, only[0])]
        else:
            content = places.names(place) or {}
            self._files = self._list(content)
        if not self._files:
            raise LogNotFoundError("this archive has no segment: correct the path", path=place)
        self.uuid, self.segment_size = self._identity(content)
        strange = next((file for file in self._files if file.base % self.segment_size), None)
        if strange is not None:
            raise CorruptSegmentError(
                f"no segment of {self.segment_size} bytes begins at {strange.base}: move the file "
                "out of the archive",
                path=strange.location,
            )

    def _list(self, content: dict[str, bool]) -> list[_File]:
        """List the segments. If a segment is present plain and compressed, choose the plain file,
        which can be read from any offset.
        """
        found: dict[int, tuple[bool, str]] = {}
        for name in content:
            segment = places.segment_of(name)
            if segment is not None:
                base, compressed = segment
                found[base] = min(found.get(base, (compressed, name)), (compressed, name))
        return [
            _File(places.join(self.location, name), base)
            for base, (_, name) in sorted(found.items())
        ]

    def _identity(self, content: dict[str, bool]) -> tuple[bytes, int]:
        identity = identity_at(self.location) if Identity.FILE_NAME in content else None
        if identity is not None:
            return identity.uuid, identity.segment_size
        first = self._files[0]
        found = PieceDecoder.identify(self._page(first))
        if found is None or found[1] != first.base:
            raise NotALogError(
                f"neither a {Identity.FILE_NAME} beside this segment nor the segment's header "
                f"says to which log it belongs: restore {Identity.FILE_NAME}",
                path=first.location,
            )
        return found[0], found[2]

    def _page(self, file: _File) -> bytes:
        """Return a segment's first page, and read it only once."""
        page = self._pages.get(file.location)
        if page is None:
            buffer = bytearray(HEADER_SIZE)
            try:
                with open_bytes(file.location) as source:
                    got = source.read_into(memoryview(buffer), 0)
            except FileNotFoundError:
                raise LogNotFoundError(
                    "the segment does not exist: correct the path", path=file.location
                ) from None
            if got < HEADER_SIZE:
                raise CorruptSegmentError(
                    "the segment is shorter than its header: restore it from a copy",
                    path=file.location,
                    position=file.base,
                )
            page = self._pages[file.location] = bytes(buffer)
        return page

    def _decoder(self, file: _File) -> PieceDecoder:
        page = self._page(file)
        return PieceDecoder(page, self.uuid, file.base, self.segment_size, file.location)

    # --- bounds -----------------------------------------------------------------------------------

    @property
    def first(self) -> int:
        return self._files[0].base

    @property
    def end(self) -> int:
        """Where the last segment ends if it is full."""
        return self._files[-1].base + self.segment_size

    @Cached
    def _largest_ns(self) -> list[int | None]:
        """The largest timestamp of each segment; None for a segment without a seal."""
        return [
            None if (seal := self._decoder(file).seal) is None else seal.largest
            for file in self._files
        ]

    def _since(self, timestamp_ns: int) -> int | None:
        """Find the first such record. This process scans the segments that may have it."""
        for file, largest in zip(self._files, self._largest_ns, strict=True):
            if largest is None or largest >= timestamp_ns:
                found = self._since_in(file, timestamp_ns)
                if found is not None:
                    return found
        return None

    def _since_in(self, file: _File, timestamp_ns: int) -> int | None:
        import pyarrow as pa
        import pyarrow.compute as pc

        schema = pa.schema([(name, FIELDS[name]) for name in ("offset", "timestamp")])
        for batch in read_slices(
            [self._slice(file, file.base, file.base + self.segment_size, sequence=None)], schema
        ):
            times_us = batch.column(1).cast(pa.int64())
            found = pc.index(pc.greater_equal(times_us, timestamp_ns // 1000), True).as_py()
            if found >= 0:
                return int(batch.column(0)[found].as_py())
        return None

    def boundary(self, position: int) -> int:
        return position - position % self.segment_size

    def slices(
        self, start: int, stop: int, *, with_sequence: bool, fail_on_data_loss: bool
    ) -> Iterator[Slice]:
        size = self.segment_size
        expected = start - start % size
        for file in self._files:
            if file.base + size <= start or file.base >= stop:
                continue
            if file.base != expected:
                refuse_gap(self, expected, file.base, fail_on_data_loss)
            expected = file.base + size
            sequence = self._first_sequence(file) if with_sequence else None
            if max(start - file.base, HEADER_SIZE) < min(stop - file.base, size):
                yield self._slice(file, start, stop, sequence=sequence)

    def _first_sequence(self, file: _File) -> int | None:
        """Return it from the segment's seal or its predecessor's; without both, 0 at base 0."""
        seal = self._decoder(file).seal
        if seal is not None:
            return seal.first_sequence
        at = self._files.index(file)
        before = (
            self._decoder(self._files[at - 1]).seal
            if at and self._files[at - 1].base + self.segment_size == file.base
            else None
        )
        if before is not None:
            return before.first_sequence + before.record_count
        return 0 if file.base == 0 else None

    def _slice(self, file: _File, start: int, stop: int, *, sequence: int | None) -> Slice:
        is_last = file is self._files[-1]
        return Slice(
            topic=self.name,
            location=file.location,
            uuid=self.uuid,
            log=self.location,
            base=file.base,
            size=self.segment_size,
            start=max(start - file.base, HEADER_SIZE),
            stop=min(stop - file.base, self.segment_size),
            sequence=sequence,
            may_be_partial=is_last and self._decoder(file).seal is None,
        )

    def records_in(self, piece: Slice) -> int | None:
        seal = self._decoder(_File(piece.location, piece.base)).seal
        whole = seal is not None and piece.start == HEADER_SIZE and piece.stop >= seal.end
        return seal.record_count if seal is not None and whole else None

    def close(self) -> None:
        """Do nothing: no file is kept open."""
