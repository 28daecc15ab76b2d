"""PieceDecoder: the frames of a segment file that is read in pieces, from wherever it is."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from commitlog._kernel.failure import ABSENT, FULL, ROLL, failure
from commitlog._kernel.segments import (
    HEADERS_BACK,
    FrameDecoder,
    RowBuffers,
    check_header,
    header_fields,
    read_seal,
)
from commitlog.segment.segment_header import Seal

Piece = bytes | bytearray | memoryview
Found = Literal["more", "full", "end", "damage"]
_FOUND: dict[int, Found] = {ABSENT: "more", FULL: "full", ROLL: "end"}


class PieceProgress(NamedTuple):
    """How far a piece was decoded, and why no further.

    "more": the piece ends inside a frame. "full": the rows are full. "end": no frame is left.
    "damage": the next bytes are no frame. `needed` are the bytes that the next call needs, of the
    file from `offset` on or in the rows.
    """

    found: Found
    offset: int
    needed: int


class PieceDecoder:
    """Decode the frames of a segment into rows, from pieces that the caller has read.

    `data` is a piece that begins at the offset `start` of the segment.

    Attributes
    ----------
    seal : Seal or None
        The counts and times of the segment, if its header page has a seal.
    HEADERS_BACK : int
        How far before a record its headers may begin.

    Raises
    ------
    CorruptSegmentError
        The header page is damaged, or that of another segment.
    UnsupportedVersionError
        A newer release wrote it.
    """

    HEADERS_BACK = HEADERS_BACK

    def __init__(self, page: bytes, log_uuid: bytes, base: int, size: int, path: str) -> None:
        code = check_header(page, log_uuid, base, size)
        if code != 0:
            raise failure(code, path=path, position=base)
        seal = read_seal(page, log_uuid, base, size)
        self.seal = None if seal is None else Seal(*seal)
        self._decoder = FrameDecoder(header_fields(page)[1], base, size)

    @staticmethod
    def identify(page: bytes) -> tuple[bytes, int, int] | None:
        """Return the log's uuid and the segment's base and size, as a header page says; None if
        the page is damaged.
        """
        uuid, _, base, size, _ = header_fields(page)
        return (uuid, base, size) if check_header(page, uuid, base, size) == 0 else None

    @staticmethod
    def rows(most: int, **buffers: Any) -> RowBuffers:
        """Return rows to decode into, at most so many, which fill the buffers of some columns."""
        return RowBuffers(most, **buffers)

    def decode(
        self, data: Piece, start: int, offset: int, first: int, stop: int, *, rows: RowBuffers
    ) -> PieceProgress:
        """Decode from an offset up to `stop`; count the records below `first`, and keep others."""
        code, offset, needed = self._decoder.decode(data, start, offset, first, stop, rows)
        return PieceProgress(_FOUND.get(code, "damage"), offset, needed)

    def headers(
        self, data: Piece, start: int, positions: memoryview
    ) -> list[dict[str, bytes] | None]:
        """Return the headers of decoded records, at positions of 8 bytes; None for damaged ones.
        The piece must reach back from the first record by `HEADERS_BACK`, or to the first frame.
        """
        return self._decoder.headers(data, start, positions)

    def resume(self, data: Piece, start: int, offset: int, stop: int) -> int:
        """Return the offset of the next whole frame, or `stop`."""
        return self._decoder.resume(data, start, offset, stop)
