"""Buffers of pools whose process was killed, and their contents."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

from commitlog.pool.buffer import BufferState
from commitlog.pool.shm import ShmBuffer
from tests.log_files import HEADER, SIZE, UUID, LogFiles
from tests.oracle import segment_file as oracle
from tests.steps import die

Content = tuple[int, int, int, bytes]  # number, segment id, offset, bytes
DeadPool = Callable[[list[Content]], list[str]]


def die_with(contents: list[Content]) -> list[str]:
    """Fill buffers in a child that kills itself with SIGKILL; return their names."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            buffers = [(ShmBuffer.allocate(SIZE), content) for content in contents]
            os.write(writer, "\n".join(str(buffer.name) for buffer, _ in buffers).encode())
            for buffer, content in buffers:
                fill(buffer, *content)
            die()
        finally:
            os._exit(1)
    os.close(writer)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    with os.fdopen(reader, "rb") as stream:
        return stream.read().decode().split()


def fill(buffer: ShmBuffer, number: int, segment_id: int, offset: int, content: bytes) -> None:
    """Lend a buffer to a segment and write into it."""
    buffer.state = BufferState.BORROWED
    buffer.bind(UUID, number * SIZE, segment_id)
    memoryview(buffer.memory)[offset : offset + len(content)] = content


def frames(
    files: LogFiles, number: int, values: list[bytes], offset: int = HEADER, *, full: bool = False
) -> bytes:
    """Return frames as a buffer holds them."""
    content = b""
    for value in values:
        content += oracle.build_frame(
            files.segment_id(number), offset + len(content), value, timestamp_ns=7
        )
    if full:
        content += oracle.build_skip(files.segment_id(number), offset + len(content), 0)
    return content
