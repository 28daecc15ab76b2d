"""The oracle itself: known CRCs, round trips, and damage is reported."""

from __future__ import annotations

import json
import struct
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.oracle import segment_file as oracle
from tests.oracle.segment_file import FormatError, Kind, Opened, Seal

LOG = uuid.UUID("7d1f0a52-93c4-4b86-8e5d-2c6b9f10a3e7")
ID = 0xA5A5_0123_4567_89AB
SIZE = 65536


def build_segment(*cells: Callable[[int], bytes], base: int = 0) -> bytes:
    """Return a segment of frames, each built by a function of its offset."""
    segment = oracle.build_header(log_uuid=LOG.bytes, segment_id=ID, base=base, size=SIZE)
    for build in cells:
        segment += build(len(segment))
    return segment.ljust(SIZE, b"\0")


def record(value: bytes, **fields: object) -> Callable[[int], bytes]:
    return lambda offset: oracle.build_frame(ID, offset, value, **fields)  # type: ignore[arg-type]


def skip(length: int, body: bytes = b"") -> Callable[[int], bytes]:
    return lambda offset: oracle.build_skip(ID, offset, length) + body


def write_log(directory: Path, *segments: bytes) -> None:
    log = {"format": {"major": 1, "minor": 0}, "uuid": str(LOG), "segment_size": SIZE}
    (directory / "log.json").write_text(json.dumps(log), encoding="utf-8")
    for number, segment in enumerate(segments):
        (directory / f"{number * SIZE:020}.seg").write_bytes(segment)


@pytest.mark.parametrize(
    ("data", "crc"),
    [(b"", 0), (b"123456789", 0xE3069283), (bytes(32), 0x8A9136AA), (b"\xff" * 32, 0x62A8AB43)],
    ids=repr,
)
def test_crc32c_equals_published_values(data: bytes, crc: int) -> None:
    assert oracle.crc32c(data) == crc
    assert oracle.crc32c(data[3:], oracle.crc32c(data[:3])) == crc


def test_built_header_is_read_back() -> None:
    opened, seal = Opened(5, -3), Seal(4200, 17, 2, 9, 8, 10, crc_ok=False)
    header = oracle.read_header(
        oracle.build_header(
            log_uuid=LOG.bytes,
            segment_id=ID,
            base=SIZE,
            size=SIZE,
            created_ns=-1,
            opened=opened,
            seal=seal,
            minor=7,
        )
    )
    assert header == oracle.Header(1, 7, LOG.bytes, ID, SIZE, SIZE, -1, opened, seal)


@pytest.mark.parametrize("at", [0, 8, 33, 60, 64])
def test_changed_identity_is_refused(at: int) -> None:
    segment = bytearray(build_segment())
    segment[at] ^= 0x40
    with pytest.raises(FormatError):
        oracle.read_header(bytes(segment))


def test_built_frames_are_read_back() -> None:
    segment = build_segment(
        record(b""),
        record(b"v", type=9),
        skip(24, b"zombie writes.. "),
        record(b"w", key=b""),
        skip(0),
    )
    found = [
        (frame.kind, frame.type, frame.key, frame.value, frame.crc_ok)
        for frame in oracle.frames(segment)
    ]
    assert found == [
        (Kind.RECORD, 0, None, b"", True),
        (Kind.RECORD, 9, None, b"v", True),
        (Kind.SKIP, 0, None, b"", True),
        (Kind.RECORD, 0, b"", b"w", True),
        (Kind.SKIP, 0, None, b"", True),
    ]


def test_zero_cells_end_the_frames_or_are_skipped() -> None:
    segment = build_segment(record(b"a"), lambda _: bytes(16), record(b"b"))
    assert [frame.value for frame in oracle.frames(segment)] == [b"a"]
    assert [frame.value for frame in oracle.frames(segment, stop_at_zero=False)] == [b"a", b"b"]


@pytest.mark.parametrize(
    "word",
    [
        15,
        oracle.EXT | 23,
        oracle.SKIP | 7,
        oracle.SKIP | oracle.EXT | 32,
        oracle.BATCH | 32,
        SIZE,
        oracle.CLAIMED | oracle.SKIP | 16,
    ],
    ids=hex,
)
def test_invalid_word_is_damage_and_the_end(word: int) -> None:
    found = list(
        oracle.frames(build_segment(lambda _: struct.pack("<II", word, 1), record(b"behind")))
    )
    assert [(frame.kind, frame.crc_ok) for frame in found] == [(Kind.DAMAGED, False)]


def test_moved_frame_fails_its_crc() -> None:
    moved = oracle.build_frame(ID, 4096 + 8, b"moved")
    (frame,) = oracle.frames(build_segment(lambda _: moved))
    assert (frame.kind, frame.value, frame.crc_ok) == (Kind.RECORD, b"moved", False)


def test_log_is_read_across_segments_up_to_a_claim(tmp_path: Path) -> None:
    first = build_segment(record(b"one"), skip(0))
    second = build_segment(
        record(b"two", key=b"k"),
        lambda _: oracle.build_claim(32, 3, 1).ljust(32, b"\0"),
        record(b"three"),
        base=SIZE,
    )
    write_log(tmp_path, first, second)
    assert oracle.log_values(tmp_path) == [
        (4096, 0, 0, None, b"one"),
        (SIZE + 4096, 0, 0, b"k", b"two"),
    ]


def test_log_with_a_bad_frame_or_foreign_segment_is_refused(tmp_path: Path) -> None:
    write_log(tmp_path, build_segment(record(b"one"), record(b"two")).replace(b"two", b"TWO"))
    with pytest.raises(FormatError, match=f"damaged frame at position {4096 + 24}"):
        oracle.log_values(tmp_path)
    write_log(tmp_path, build_segment(base=SIZE))
    with pytest.raises(FormatError, match="another log or another place"):
        oracle.log_values(tmp_path)
