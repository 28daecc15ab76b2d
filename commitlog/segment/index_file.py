"""Index files: the sparse index of a sealed segment, on disk beside it. It can always be built
again, and is nowhere believed unchecked.

See docs/format.md for the layout. A file is written whole under a temporary name and then renamed;
it is not flushed, because after a power cut its CRC tells what is left of it.
"""

from __future__ import annotations

import os
import struct
from typing import Literal

from commitlog._kernel.segments import ENTRY_SIZE, FRAME_HEADER, HEADER_SIZE, SparseIndex, crc32c
from commitlog.base.regular_file import opened_regular, read_at_most, write_whole
from commitlog.base.temporary_file import temporary_file
from commitlog.options import INDEX_SPACING_LARGEST
from commitlog.segment.directory import LogDirectory, index_name
from commitlog.segment.seal_table import Seal

MAGIC = b"CMLIDX01"
MAJOR, MINOR = 1, 0
# Magic, major, minor, header size, log uuid, segment id, the seal's CRC, spacing, records, CRC of
# the entries; the header's CRC follows.
_HEADER = struct.Struct("<8sHHI16sQIIQI")
_CRC = struct.Struct("<I")
INDEX_HEADER_SIZE = _HEADER.size + _CRC.size

State = Literal["sound", "missing", "damaged", "stale"]


def write(directory: LogDirectory, number: int, index: SparseIndex, seal: Seal) -> bool:
    """Put the index of a sealed segment beside it; False, and no error, if the system refuses."""
    content = index.content()
    header = _HEADER.pack(
        MAGIC,
        MAJOR,
        MINOR,
        INDEX_HEADER_SIZE,
        directory.log_uuid,
        seal.segment_id,
        seal.crc,
        index.spacing,
        index.records,
        crc32c(content),
    )
    name = index_name(number * directory.segment_size)
    try:
        with temporary_file(directory.fd, name) as (fd, temporary):
            write_whole(fd, header + _CRC.pack(crc32c(header)) + content, 0)
            os.rename(temporary, name, src_dir_fd=directory.fd, dst_dir_fd=directory.fd)
    except OSError:
        return False
    return True


def read(directory: LogDirectory, number: int, seal: Seal) -> tuple[SparseIndex | None, State]:
    """The index of a segment that has this seal, and what is to be said of its file: "stale" is one
    of another segment, or of another content."""
    try:
        with opened_regular(index_name(number * directory.segment_size), dir_fd=directory.fd) as fd:
            return _read(fd, directory, seal)
    except (FileNotFoundError, PermissionError):
        return None, "missing"
    except OSError:
        return None, "damaged"  # includes a directory, a FIFO or the like with this name


def _read(fd: int, directory: LogDirectory, seal: Seal) -> tuple[SparseIndex | None, State]:
    fields = _checked_header(read_at_most(fd, INDEX_HEADER_SIZE))
    if fields is None:
        return None, "damaged"
    major, uuid, segment_id, seal_crc, spacing, records, entries_crc = fields
    # An index of a newer major format counts as stale, too.
    if major > MAJOR or (uuid, segment_id, seal_crc, records) != (
        directory.log_uuid,
        seal.segment_id,
        seal.crc,
        seal.record_count,
    ):
        return None, "stale"
    if (
        not 0 < spacing <= INDEX_SPACING_LARGEST
        or records > (directory.segment_size - HEADER_SIZE) // FRAME_HEADER
    ):
        return None, "damaged"
    size = INDEX_HEADER_SIZE + -(-records // spacing) * ENTRY_SIZE
    if os.fstat(fd).st_size != size:
        return None, "damaged"
    entries = read_at_most(fd, size)[INDEX_HEADER_SIZE:]
    try:
        if crc32c(entries) == entries_crc:
            return SparseIndex(
                segment_id, directory.segment_size, spacing, entries, records, seal.largest
            ), "sound"
    except ValueError:
        pass
    return None, "damaged"


def _checked_header(content: bytes) -> tuple[int, bytes, int, int, int, int, int] | None:
    """The header's fields, without magic, minor version and sizes; None if it is no header."""
    if len(content) < INDEX_HEADER_SIZE or _CRC.unpack_from(content, _HEADER.size)[0] != crc32c(
        content[: _HEADER.size]
    ):
        return None
    magic, major, _, header_size, uuid, segment_id, seal_crc, spacing, records, entries_crc = (
        _HEADER.unpack_from(content)
    )
    if magic != MAGIC or (major == MAJOR and header_size != INDEX_HEADER_SIZE):
        return None
    return major, uuid, segment_id, seal_crc, spacing, records, entries_crc
