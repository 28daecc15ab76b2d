"""ArchivedDirectory: present an archive as a log's directory to readers."""

from __future__ import annotations

import contextlib
import os
import threading
from collections import OrderedDict

from commitlog._kernel.segments import Segment
from commitlog.base.temporary_file import temporary_file
from commitlog.errors import CorruptSegmentError, IOFailureError
from commitlog.retention.archived import (
    archived_name,
    archived_sizes,
    read_header,
    read_identity,
    read_pieces,
)
from commitlog.retention.target import Target, target_of
from commitlog.segment.directory import LogDirectory, segment_name
from commitlog.segment.seal_table import Seal, SealTable

_LEAST_KEPT = 2  # a reader moves from one to the next


class ArchivedDirectory(LogDirectory):
    """The segments that an archive has now, each decompressed on first use.

    The most recently used ones stay decompressed in a temporary folder until this is closed: up to
    `cache_bytes`, but at least two.
    """

    idle_kept = 1
    kind = "archive"

    def __init__(self, place: str, cache_bytes: int) -> None:
        self.target: Target = target_of(place)
        identity = read_identity(self.target)
        sizes = archived_sizes(self.target, identity.segment_size)
        self._sizes = {base // identity.segment_size: size for base, size in sizes.items()}
        self._headers: dict[int, bytes] = {}
        self._most = max(_LEAST_KEPT, cache_bytes // identity.segment_size)
        self._cached: OrderedDict[int, None] = OrderedDict()
        self._lock = threading.Lock()
        self._pid = os.getpid()
        import tempfile

        self._folder = tempfile.mkdtemp(prefix="commitlog-")
        try:
            super().__init__(self._folder, identity)
        except BaseException:
            self._remove_folder()
            raise
        self.path = self.target.name

    def forked(self) -> None:
        self._lock = threading.Lock()

    def close(self) -> None:
        super().close()
        if self._pid == os.getpid():
            self._remove_folder()

    def _remove_folder(self) -> None:
        import shutil

        shutil.rmtree(self._folder, ignore_errors=True)

    def find_end(self) -> int:
        """Return the position behind the last segment."""
        return (max(self._sizes) + 1) * self.segment_size if self._sizes else 0

    def sequences(self) -> tuple[int, int]:
        """Return the first sequence, and the one behind the last, from the first and last seal."""
        if not self._sizes:
            return 0, 0
        first, last = self._seal(min(self._sizes)), self._seal(max(self._sizes))
        return first.first_sequence, last.first_sequence + last.record_count

    def _seal(self, number: int) -> Seal:
        seal = SealTable(self).get(number)
        if seal is None:
            raise CorruptSegmentError(
                "this archived segment is not sealed, so it is damaged: restore it from another "
                "copy of the archive",
                path=self.segment_path(number),
                position=number * self.segment_size,
            )
        return seal

    def segment_path(self, number: int) -> str:
        return self.target.path_of(archived_name(number * self.segment_size))

    def segment_numbers(self) -> list[int]:
        return list(self._sizes)

    def has(self, number: int) -> bool:
        return number in self._sizes

    def disk_bytes(self, number: int) -> int:
        """Return a segment's compressed size in the archive; 0 if it is not there."""
        return self._sizes.get(number, 0)

    def whole_disk_bytes(self) -> int:
        return sum(self._sizes.values())

    def read_header(self, number: int) -> bytes | None:
        if number not in self._sizes:
            return None
        header = self._headers.get(number)
        if header is None:
            header = self._headers[number] = read_header(
                self.target, number * self.segment_size, self.identity
            )
        return header

    def open_segment(self, number: int, *, writable: bool) -> Segment:
        self.fetch(number)
        return super().open_segment(number, writable=writable)

    def fetch(self, number: int) -> None:
        """Decompress an archived segment into the temporary folder, unless it is there."""
        if number not in self._sizes:
            return
        with self._lock:
            if number in self._cached:
                self._cached.move_to_end(number)
                return
            self._unpack(number)
            self._cached[number] = None
            while len(self._cached) > self._most:
                # A mapping of the file stays valid.
                oldest, _ = self._cached.popitem(last=False)
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(segment_name(oldest * self.segment_size), dir_fd=self.fd)

    def _unpack(self, number: int) -> None:
        base = number * self.segment_size
        name = segment_name(base)
        try:
            with temporary_file(self.fd, name, 0o600) as (fd, temporary):
                with open(fd, "wb", closefd=False) as file:
                    for piece in read_pieces(self.target, base, self.identity):
                        if piece.count(0) == len(piece):
                            file.seek(len(piece), os.SEEK_CUR)  # a hole takes no room
                        else:
                            file.write(piece)
                    file.truncate(self.segment_size)
                os.rename(temporary, name, src_dir_fd=self.fd, dst_dir_fd=self.fd)
        except OSError as error:
            if isinstance(error, IOFailureError):
                raise
            raise IOFailureError(
                f"an archived segment cannot be decompressed into {self._folder}: "
                f"{error.strerror}; free space there, or set TMPDIR to another folder",
                path=self.segment_path(number),
                errno=error.errno,
            ) from error
