"""ChunkStream: the chunks of a log as they arrive; a silent stream ends."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Any, Self

from commitlog.errors import CommitLogError
from commitlog.recovery.lineage import Rank
from commitlog.replication import wire

SILENT_S = 20 * wire.HEARTBEAT_S
_SLICE_S = 0.5


class ChunkStream:
    """Read the chunks of a stream and acknowledge them, in one thread.

    The server sends a chunk each `HEARTBEAT_S` at least. If none arrives for `SILENT_S`, the other
    end has lost the request or a part of the stream, and a thread cancels it; gRPC's pings do not
    show that. Each half of this time the thread asks the server something: chunks may arrive
    although acknowledgements do not get through.
    """

    def __init__(self, exchange: tuple[Any, Any], url: str, ask: Callable[[], object]) -> None:
        self._writer, self._reader = exchange
        self._url = url
        self._ask = ask
        self._writer.begin(wire.schema())
        self._waits_since_s: float | None = None
        self._ended = threading.Event()
        self._watch = threading.Thread(target=self._run, name="commitlog silence", daemon=True)
        self._watch.start()

    def next(self) -> wire.Chunk | None:
        """Return the next chunk; None if the server closes."""
        self._waits_since_s = time.monotonic()
        try:
            message = self._reader.read_chunk()
            chunk = wire.chunk_of(message.data, message.app_metadata, self._url)
            if chunk is None:
                # The server has ended its side: end this one, and raise the error of the server.
                self._writer.done_writing()
                self._reader.read_chunk()
            return chunk
        except StopIteration:
            return None
        finally:
            self._waits_since_s = None  # writing the chunk may take any time

    def acknowledge(self, rank: Rank, position: int) -> None:
        """Tell the server how far the copy is durable."""
        self._writer.write_metadata(wire.acknowledgement(rank, position))

    def cancel(self) -> None:
        """End the stream, from any thread."""
        with contextlib.suppress(wire.arrow_exception()):
            self._reader.cancel()

    def _run(self) -> None:
        asked_s = time.monotonic()
        while not self._ended.wait(_SLICE_S):
            since_s, now_s = self._waits_since_s, time.monotonic()
            lost = since_s is not None and now_s - since_s > SILENT_S
            if not lost and now_s - asked_s > SILENT_S / 2:
                lost, asked_s = not self._is_answered(), time.monotonic()
            if lost:
                self.cancel()

    def _is_answered(self) -> bool:
        try:
            self._ask()
        except (wire.arrow_exception(), OSError, CommitLogError):
            return False
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self.cancel()
        # Bounded, because the thread may wait for an answer that does not come.
        self._watch.join(_SLICE_S)
        with contextlib.suppress(wire.arrow_exception()):
            self._writer.close()
