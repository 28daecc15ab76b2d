"""A segment's id, found again from its CRCs when its header is damaged.

Every CRC of a segment begins with the eight bytes of its id, and a CRC is linear in them: the four
bytes of a known CRC determine any four bytes of the id, where the other four are right. Where all
eight are lost, the id that comes out has the same CRC as the lost one, and so all frames fit it as
well.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from commitlog._kernel import segments as kernel
from commitlog._kernel.segments import (
    FRAME_ALIGN,
    FRAME_HEADER,
    HEADER_SIZE,
    OPENED_AT,
    SEAL_AT,
    WORD_EXT,
    WORD_LENGTH,
    WORD_SKIP,
    crc32c,
)

_ID_BYTES = 8
_WINDOW_BITS = 32
_FRAMES = 8  # that are asked
_CELL = struct.Struct("<II")
_OPENED = struct.Struct(f"<{kernel.OPENED_CRC}sI")
_SEAL = struct.Struct(f"<{kernel.SEAL_CRC}sI")


@dataclass(frozen=True)
class _Evidence:
    """A CRC that the segment's id has a part in: how it is computed from an id, and what it is."""

    compute: Callable[[int], int]
    crc: int

    def fits(self, segment_id: int) -> bool:
        return self.compute(segment_id) == self.crc


def find_segment_id(
    page: bytes, content: memoryview, log_uuid: bytes, base: int, size: int
) -> int | None:
    """The id of a segment whose header is damaged, or None where too little of it is left.

    Parameters
    ----------
    page : bytes
        The header page.
    content : memoryview
        The whole file.
    log_uuid, base, size
        What the header has to say besides.
    """
    _, found, _, _, created_ns = kernel.header_fields(page)

    def identity_crc(segment_id: int) -> int:
        return kernel.header_crc(kernel.header_page(log_uuid, segment_id, base, size, created_ns))

    identity = _Evidence(identity_crc, kernel.header_crc(page))
    evidence = [identity, *_parts(page), *_frames(content, size)]
    candidates = [found, *(_solve(found, part) for part in evidence)]
    # An id can be made for any one CRC: it takes two to prove one, and where CRCs are damaged, too,
    # most of them agree on the right id.
    fits = {candidate: sum(part.fits(candidate) for part in evidence) for candidate in candidates}
    best = max(candidates, key=lambda candidate: fits[candidate])
    if fits[best] > 1:
        return best
    # The first frames are damaged, too. Any frame of the file may prove an id, but the search reads
    # each cell.
    return next(
        (segment_id for segment_id in candidates[:2] if kernel.frames_fit(content, segment_id)),
        None,
    )


def _parts(page: bytes) -> Iterator[_Evidence]:
    """The CRCs of the other parts of the header, those that were written."""
    for part, at in ((_OPENED, OPENED_AT), (_SEAL, SEAL_AT)):
        content, crc = part.unpack_from(page, at)
        if crc or content.strip(b"\0"):
            yield _evidence(content, crc)


def _frames(content: memoryview, size: int) -> Iterator[_Evidence]:
    """The CRCs of the first frames."""
    offset, largest = HEADER_SIZE, kernel.frame_largest(size)
    for _ in range(_FRAMES):
        if offset + _CELL.size > len(content):
            return
        word, crc = _CELL.unpack_from(content, offset)
        length, skip = word & WORD_LENGTH, word & ~WORD_LENGTH == WORD_SKIP
        stop = offset + length
        if skip:
            yield _evidence(struct.pack("<QI", offset, word), crc)
        elif (
            word & ~WORD_LENGTH in (0, WORD_EXT)
            and FRAME_HEADER <= length <= largest
            and stop <= len(content)
        ):
            yield _evidence(
                struct.pack("<QI", offset, word) + bytes(content[offset + _CELL.size : stop]), crc
            )
        else:
            return
        if not length:
            return
        offset += -(-length // FRAME_ALIGN) * FRAME_ALIGN


def _evidence(behind_id: bytes, crc: int) -> _Evidence:
    return _Evidence(
        lambda segment_id: crc32c(segment_id.to_bytes(_ID_BYTES, "little") + behind_id), crc
    )


def _solve(segment_id: int, evidence: _Evidence) -> int:
    """The id that fits the CRC and differs from a damaged one within four neighbouring bytes; of
    the five such ids, the one that differs in the fewest bytes. A single damaged byte, or a single
    bit, is always found: no other change of four bytes has the same effect."""
    present = evidence.compute(segment_id)
    effects = [evidence.compute(segment_id ^ 1 << bit) ^ present for bit in range(8 * _ID_BYTES)]
    changes = [
        _combine(present ^ evidence.crc, effects, first)
        for first in range(0, 8 * _ID_BYTES - _WINDOW_BITS + 1, 8)
    ]
    best = min(
        changes, key=lambda change: sum(1 for byte in change.to_bytes(_ID_BYTES, "little") if byte)
    )
    return segment_id ^ best


def _combine(wanted: int, effects: list[int], first: int) -> int:
    """Which of the bits from `first` on have that effect together: Gauss's elimination, over
    bits.
    """
    rows: dict[
        int, tuple[int, int]
    ] = {}  # by the highest bit of an effect: the effect, and the bits that have it

    def reduce(effect: int, bits: int) -> tuple[int, int]:
        while effect and (row := rows.get(effect.bit_length())):
            effect, bits = effect ^ row[0], bits ^ row[1]
        return effect, bits

    for bit in range(first, first + _WINDOW_BITS):
        effect, bits = reduce(effects[bit], 1 << bit)
        if effect:
            rows[effect.bit_length()] = effect, bits
    return reduce(wanted, 0)[1]
