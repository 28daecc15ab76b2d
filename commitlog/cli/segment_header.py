"""What the header of a segment says, its seal included, for `dump` and `info`."""

from __future__ import annotations

from typing import Any

from commitlog._kernel.segments import HEADER_SIZE, Segment, read_opened

_SEAL = (
    "end",
    "first_sequence",
    "record_count",
    "first_timestamp_ns",
    "last_timestamp_ns",
    "largest_timestamp_ns",
)


def segment_header(segment: Segment) -> dict[str, Any]:
    """By name, as it is printed; None for what is not there yet."""
    opened = read_opened(segment.read(0, HEADER_SIZE))
    seal = segment.sealed()
    return {
        "base": segment.base,
        "size": segment.size,
        "id": f"{segment.id:#018x}",
        "opened_ns": None if opened is None else opened[0],
        "cycle": None if opened is None else opened[1],
        "seal": None if seal is None else dict(zip(_SEAL, seal, strict=True)),
    }
