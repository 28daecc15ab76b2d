"""The frames of segment files, damaged or not, and what is between them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from commitlog._kernel.failure import BUSY, END, ROLLED_BACK
from commitlog._kernel.segments import (
    FRAME_ALIGN,
    FRAME_EXTENDED,
    FRAME_HEADER,
    HEADER_SIZE,
    Segment,
    frame_fields,
    read_opened,
)
from commitlog.log.parts import LogParts

_SEAL = (
    "end_offset",
    "first_sequence",
    "records",
    "first_timestamp_ns",
    "last_timestamp_ns",
    "largest_timestamp_ns",
)


def frame_length(value_bytes: int, key: bytes | None = None, type: int = 0) -> int:
    """Return the bytes of a record's frame before it is padded to `FRAME_ALIGN`."""
    is_extended = key is not None or type != 0
    return (FRAME_EXTENDED if is_extended else FRAME_HEADER) + len(key or b"") + value_bytes


def frame_size(value_bytes: int) -> int:
    """Return the bytes that a record without key and type takes in a log."""
    return -(-frame_length(value_bytes) // FRAME_ALIGN) * FRAME_ALIGN


def segment_fields(segment: Segment) -> dict[str, Any]:
    """Return the header of a segment with its seal; a part that is not written yet is None."""
    opened = read_opened(segment.read(0, HEADER_SIZE))
    seal = segment.sealed()
    return {
        "base_position": segment.base,
        "segment_size": segment.size,
        "segment_id": f"{segment.id:#018x}",
        "opened_ns": None if opened is None else opened[0],
        "cycle": None if opened is None else opened[1],
        "seal": None if seal is None else dict(zip(_SEAL, seal, strict=True)),
    }


def list_frames(
    parts: LogParts, number: int, start: int | None, stop: int | None
) -> Iterator[dict[str, Any]]:
    """Yield the header of a segment, then its frames and what is between them, from one position up
    to another.

    The kind of each is "segment", "record", "skip", "claim" (without an owner or not published),
    "gap", "damage" (up to the next valid frame), or "rest" (the zeros at the end). `step` is the
    distance to the next one.
    """
    parts.directory.fetch(number)
    with parts.directory.opened_segment(number) as segment:
        offset = _offset_before(parts, segment, start)
        yield {"kind": "segment", "path": segment.path, **segment_fields(segment)}
        while offset < segment.size:
            found = _frame(segment, offset)
            position = segment.base + offset
            if stop is not None and position >= stop:
                return
            if start is None or position + found["step"] > start:
                yield found
            offset += found["step"]


def _offset_before(parts: LogParts, segment: Segment, start: int | None) -> int:
    """Return the offset in a segment at which to begin for a position.

    It is the last indexed record before the position, if only valid frames lead there from the
    header: then the output is the same as from the first frame. Otherwise it is the first frame.
    """
    wanted = 0 if start is None else start - segment.base
    if wanted <= HEADER_SIZE:
        return HEADER_SIZE
    index = parts.index
    entry = index.finder.entry(index.reaching(segment, wanted), wanted, before=True)
    is_sound = entry is not None and segment.scan(HEADER_SIZE, entry)[:2] == (entry, 0)
    return entry if entry is not None and is_sound else HEADER_SIZE


def _frame(segment: Segment, offset: int) -> dict[str, Any]:
    code, step = segment.step(offset)
    found: dict[str, Any] = {"position": segment.base + offset, "offset": offset}
    if code == END:
        after = segment.nonzero(offset, segment.size)
        kind = "rest" if after >= segment.size else "gap"
        return {"kind": kind, **found, "step": after - after % FRAME_ALIGN - offset}
    fields = frame_fields(segment, offset)
    key_length = fields.pop("key_length", None)
    if code == BUSY:
        return {"kind": "claim", **found, "step": step or segment.size - offset, **fields}
    if code == ROLLED_BACK:
        return {"kind": "skip", **found, "step": step, **fields, "crc_right": True}
    if code != 0:
        step = segment.resume(offset) - offset
        return {"kind": "damage", **found, "step": step, **fields, "crc_right": False}
    header = FRAME_EXTENDED if "EXT" in fields["flags"] else FRAME_HEADER
    body = segment.read(offset + header, fields["length"] - header)
    content = {
        "key": None if key_length is None else body[:key_length],
        "value": body[key_length or 0 :],
    }
    return {"kind": "record", **found, "step": step, **fields, "crc_right": True, **content}
