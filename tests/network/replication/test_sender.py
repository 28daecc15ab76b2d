"""What a primary sends: whole frames, byte for byte, and no damaged one."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import commitlog
from commitlog._kernel.segments import HEADER_SIZE, crc32c
from commitlog.errors import CorruptRecordError
from commitlog.log.open_calls import open_log
from commitlog.network.replication.replica import fence_closed
from commitlog.network.replication.sender import Sender
from commitlog.network.replication.served import Served
from commitlog.network.replication.wire import CHUNK_BYTES, Chunk

SIZE = 16 << 20
FIRST = f"{0:020d}.seg"


@contextmanager
def chunks_of(path: Path) -> Iterator[Iterator[Chunk]]:
    """Serve a log; yield the chunks with frames that a new copy gets."""
    served = Served(open_log(path, "r"), functools.partial(fence_closed, str(path)))
    try:
        yield (chunk for chunk in Sender(served, 0, []).chunks() if chunk.frames)
    finally:
        served.log.close()


def test_chunks_are_the_bytes_of_the_log(tmp_path: Path) -> None:
    """Chunks of short frames have at most their size; a longer frame is one by itself."""
    with commitlog.open(tmp_path, segment_size=SIZE) as log:
        for length in [0, 1000, CHUNK_BYTES, 50_000, 1_900_000, 7, 600_000, 600_000] * 2:
            log.append(bytes([length % 251]) * length)
        log.flush()
        end, sent = log.flushed_position, b""
        with chunks_of(tmp_path) as chunks:
            while HEADER_SIZE + len(sent) < end:
                chunk = next(chunks)
                assert chunk.offset == HEADER_SIZE + len(sent)
                if len(chunk.frames) > CHUNK_BYTES:
                    assert log.count(chunk.offset, chunk.offset + len(chunk.frames)) == 1
                assert chunk.crc == crc32c(chunk.frames)
                sent += chunk.frames
    assert sent == (tmp_path / FIRST).read_bytes()[HEADER_SIZE:end]


def test_damaged_frame_is_refused_with_its_position(tmp_path: Path) -> None:
    with commitlog.open(tmp_path, segment_size=SIZE) as log:
        log.append(b"sound")
        damaged = log.append(b"damaged", sync=True)
    file = tmp_path / FIRST
    content = bytearray(file.read_bytes())
    content[damaged + 20] ^= 1
    file.write_bytes(content)
    with chunks_of(tmp_path) as chunks:
        assert len(next(chunks).frames) == damaged - HEADER_SIZE
        with pytest.raises(CorruptRecordError, match="no follower gets past it") as error:
            next(chunks)
    assert error.value.position == damaged
