"""Restore the id of a segment whose header is damaged, from the segment's CRCs.

Every CRC of a segment covers the eight bytes of its id first, and a CRC is linear in them: a known
CRC determines four bytes of the id if the other four are right. If all eight are lost, the result
is an id with the same CRC as the lost one, and all frames match it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from commitlog._kernel import segments as kernel
from commitlog._kernel.segments import OPENED_AT, SEAL_AT, crc32c

_ID_BYTES = 8
_WINDOW_BITS = 32
_FRAMES = 8  # whose CRCs are tried
_OPENED = struct.Struct(f"<{kernel.OPENED_CRC}sI")
_SEAL = struct.Struct(f"<{kernel.SEAL_CRC}sI")


@dataclass(frozen=True)
class _Evidence:
    """A CRC that covers the segment's id: its value, and how to compute it from an id."""

    compute: Callable[[int], int]
    crc: int

    def fits(self, segment_id: int) -> bool:
        return self.compute(segment_id) == self.crc


def find_segment_id(
    page: bytes, content: memoryview, log_uuid: bytes, base: int, size: int
) -> int | None:
    """Return the id of a segment whose header page is damaged, or None if too little of it is left.
    `content` is the whole file; the other arguments are fields of a sound header.
    """
    _, found, _, _, created_ns = kernel.header_fields(page)

    def identity_crc(segment_id: int) -> int:
        return kernel.header_crc(kernel.header_page(log_uuid, segment_id, base, size, created_ns))

    identity = _Evidence(identity_crc, kernel.header_crc(page))
    frames = kernel.first_frames(content, size, _FRAMES)
    evidence = [identity, *_parts(page), *(_evidence(*frame) for frame in frames)]
    candidates = [found, *(_solve(found, part) for part in evidence)]
    # Some id matches any single CRC, so two must match. If CRCs are damaged, too, most of the
    # others match the right id.
    fits = {candidate: sum(part.fits(candidate) for part in evidence) for candidate in candidates}
    best = max(candidates, key=lambda candidate: fits[candidate])
    if fits[best] > 1:
        return best
    # The first frames are damaged, too. Any frame of the file proves an id, but this search reads
    # every cell.
    return next(
        (segment_id for segment_id in candidates[:2] if kernel.frames_fit(content, segment_id)),
        None,
    )


def _parts(page: bytes) -> Iterator[_Evidence]:
    """The CRCs of the opened part and of the seal, if they were written."""
    for part, at in ((_OPENED, OPENED_AT), (_SEAL, SEAL_AT)):
        content, crc = part.unpack_from(page, at)
        if crc or content.strip(b"\0"):
            yield _evidence(content, crc)


def _evidence(behind_id: bytes, crc: int) -> _Evidence:
    return _Evidence(
        lambda segment_id: crc32c(segment_id.to_bytes(_ID_BYTES, "little") + behind_id), crc
    )


def _solve(segment_id: int, evidence: _Evidence) -> int:
    """Change four neighbouring bytes of a damaged id so that it matches the CRC.

    Of the five such ids, the one with the fewest changed bytes is returned. A single damaged byte
    is always restored: no other change of four bytes has the same effect.
    """
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
    """Return the bits from `first` on that have the wanted effect (Gaussian elimination)."""
    # By the highest bit of an effect: the effect, and the bits that have it.
    rows: dict[int, tuple[int, int]] = {}

    def reduce(effect: int, bits: int) -> tuple[int, int]:
        while effect and (row := rows.get(effect.bit_length())):
            effect, bits = effect ^ row[0], bits ^ row[1]
        return effect, bits

    for bit in range(first, first + _WINDOW_BITS):
        effect, bits = reduce(effects[bit], 1 << bit)
        if effect:
            rows[effect.bit_length()] = effect, bits
    return reduce(wanted, 0)[1]
