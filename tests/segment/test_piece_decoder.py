"""PieceDecoder: frames of a segment file, decoded from pieces."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import commitlog
from commitlog.errors import CorruptSegmentError
from commitlog.extension import HEADER_SIZE, PieceDecoder
from tests.setups import SEGMENT


@pytest.fixture
def segment(tmp_path: Path) -> tuple[bytes, bytes, int]:
    """A segment's bytes, the log's uuid, and the end of its three records."""
    with commitlog.open(tmp_path, segment_size=SEGMENT) as log:
        log.append_many([b"one", b"two", b"three"])
        uuid, end = log.identity.uuid, log.tail_position
    return (tmp_path / f"{0:020d}.seg").read_bytes(), uuid, end


def decoder_of(data: bytes, uuid: bytes) -> PieceDecoder:
    return PieceDecoder(data[:HEADER_SIZE], uuid, 0, SEGMENT, "a segment")


def test_pieces_are_decoded_up_to_their_end(segment: tuple[bytes, bytes, int]) -> None:
    data, uuid, end = segment
    decoder, positions = decoder_of(data, uuid), np.zeros(4, np.int64)
    rows = PieceDecoder.rows(4, positions=positions)
    piece = data[HEADER_SIZE : HEADER_SIZE + 30]  # one record, and a part of the next one
    found, offset, _ = decoder.decode(piece, HEADER_SIZE, HEADER_SIZE, 0, end, rows=rows)
    assert (found, rows.count) == ("more", 1)
    found, offset, _ = decoder.decode(data[offset:end], offset, offset, 0, end, rows=rows)
    assert (found, offset, rows.count) == ("end", end, 3)
    assert positions[0] == HEADER_SIZE


def test_full_rows_and_damage_stop_the_decoding(segment: tuple[bytes, bytes, int]) -> None:
    data, uuid, end = segment
    decoder = decoder_of(data, uuid)
    rows = PieceDecoder.rows(2, positions=np.zeros(2, np.int64))
    found, offset, _ = decoder.decode(data, 0, HEADER_SIZE, 0, end, rows=rows)
    assert (found, rows.count) == ("full", 2)
    broken = bytearray(data)
    broken[HEADER_SIZE + 17] ^= 1  # a byte of the first value
    rows = PieceDecoder.rows(3, positions=np.zeros(3, np.int64))
    found, offset, _ = decoder.decode(broken, 0, HEADER_SIZE, 0, end, rows=rows)
    assert (found, offset, rows.count) == ("damage", HEADER_SIZE, 0)
    assert HEADER_SIZE < decoder.resume(broken, 0, HEADER_SIZE, end) < end


def test_header_of_another_segment_is_refused(segment: tuple[bytes, bytes, int]) -> None:
    data, uuid, _ = segment
    with pytest.raises(CorruptSegmentError, match="another log"):
        PieceDecoder(data[:HEADER_SIZE], bytes(16), 0, SEGMENT, "a segment")
    with pytest.raises(CorruptSegmentError):
        PieceDecoder(bytes(HEADER_SIZE), uuid, 0, SEGMENT, "a segment")


def test_unsealed_segment_has_no_seal(segment: tuple[bytes, bytes, int]) -> None:
    data, uuid, _ = segment
    assert decoder_of(data, uuid).seal is None
