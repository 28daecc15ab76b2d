"""StagingWriter: write Arrow columns to complete segment files outside of a log, for a later join.

A frame's CRC covers its segment's id and its offset, and not its position in a log. Only the header
holds the position, and the join writes it.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING

import numpy as np

from commitlog._kernel import segments as kernel
from commitlog._kernel.engine import encoded_headers
from commitlog._kernel.segments import SEAL_AT, Frames
from commitlog.base.path import make_directory, sync_directory, translate_errors
from commitlog.base.regular_file import write_whole
from commitlog.log.arrow import rows_of
from commitlog.segment.directory import STAGED

if TYPE_CHECKING:
    import pyarrow as pa

_PIECE = 1 << 20  # bytes in memory at a time
_DOING = "stage a segment"
_COLUMNS = ("value", "key", "type", "timestamp", "headers")


class StagingWriter:
    """Write segment files into a directory on the log's file system, which is created if it does
    not exist. The files are durable when `finish` returns; after an error, `discard` removes them.
    """

    FOLDER = STAGED  # in a log's directory, for the folders of its writers
    LOG_UUID = bytes(16)  # of no log; the join writes the uuid of its log

    def __init__(self, directory: str, segment_size: int) -> None:
        self.directory = directory
        self.segment_size = segment_size
        self.staged: list[str] = []  # paths
        self._frames: Frames | None = None
        self._fd = -1
        self._name = ""
        self._id = 0
        with translate_errors(directory, _DOING):
            make_directory(directory)

    def write(self, batch: pa.RecordBatch) -> None:
        """Add the records of a batch, one a row.

        The columns value, key, type, timestamp and headers are those of `CommitLog.append_arrow`;
        others are ignored. A null timestamp means the time of this call.
        """
        names = [name for name in batch.schema.names if name in _COLUMNS]
        now_ns = time.time_ns()
        for rows in rows_of(batch.select(names), "staging"):
            values, offsets = rows.values
            keys, key_offsets, keyed = rows.keys or (None, None, None)
            times_ns = rows.timestamps_ns
            if times_ns is not None:
                times_ns = np.where(times_ns < 0, now_ns, times_ns)
            headers = None if rows.headers is None else encoded_headers(rows.headers)
            first = 0
            while first < len(rows):
                frames = self._open()
                first, full = frames.lay(
                    values,
                    offsets,
                    keys,
                    key_offsets,
                    keyed,
                    rows.types,
                    times_ns,
                    now_ns,
                    first,
                    headers,
                )
                if full:
                    self._close()
                elif first < len(rows):
                    self._spill(frames)

    def finish(self) -> list[str]:
        """Complete the last segment and make all durable; return their paths in order."""
        self._close()
        if self.staged:
            with translate_errors(self.directory, _DOING):
                sync_directory(self.directory)
        return self.staged

    def discard(self) -> None:
        self._frames = None
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        for path in [self._temporary, *self.staged]:
            with contextlib.suppress(OSError):
                os.unlink(path)
        self.staged = []

    @property
    def _temporary(self) -> str:
        return os.path.join(self.directory, f".{self._name}.tmp")

    def _open(self) -> Frames:
        """Return the current segment's frames; begin a segment if there is none."""
        if self._frames is None:
            self._id = int.from_bytes(os.urandom(8), "little")
            self._name = f"{self._id:016x}.seg"
            with translate_errors(self._temporary, _DOING):
                self._fd = os.open(
                    self._temporary,
                    os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW,
                    0o666,
                )
            self._frames = Frames(self._id, self.segment_size, min(_PIECE, self.segment_size))
        return self._frames

    def _spill(self, frames: Frames) -> None:
        with translate_errors(self._temporary, _DOING), frames.piece() as piece:
            write_whole(self._fd, piece, frames.start)
        frames.advance()

    def _close(self) -> None:
        """Complete the current segment: close it with a SKIP, write header and seal, sync, rename.

        Behind the last frame the file has a hole. No appender writes there, so no store can find
        the disk full.
        """
        frames = self._frames
        if frames is None:
            return
        self._spill(frames)
        end, records, first_ns, last_ns, largest_ns = frames.tally
        page = bytearray(
            kernel.header_page(self.LOG_UUID, self._id, 0, self.segment_size, time.time_ns())
        )
        seal = kernel.seal_part(self._id, end, 0, records, first_ns, last_ns, largest_ns)
        page[SEAL_AT : SEAL_AT + len(seal)] = seal
        path = os.path.join(self.directory, self._name)
        with translate_errors(path, _DOING):
            os.ftruncate(self._fd, self.segment_size)
            write_whole(self._fd, memoryview(frames.closing()), frames.offset)
            write_whole(self._fd, memoryview(page), 0)
            os.fsync(self._fd)
            os.rename(self._temporary, path)
        os.close(self._fd)
        self._fd = -1
        self._frames = None
        self.staged.append(path)
