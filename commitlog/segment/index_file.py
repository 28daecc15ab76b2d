"""Index files: the sparse index of a segment, on disk beside it. It can always be built again, and
each use checks it. The index of a segment without a seal is written at a close.

See docs/format.md for the layout. A file is written whole under a temporary name and then renamed;
it is not flushed, because its CRC shows whether it survived a power cut.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from typing import Literal

from commitlog._kernel.segments import (
    ENTRY_SIZE,
    FRAME_HEADER,
    HEADER_SIZE,
    Segment,
    SparseIndex,
    crc32c,
    frame_fields,
)
from commitlog.base.regular_file import opened_regular, read_at_most, write_whole
from commitlog.base.temporary_file import temporary_file
from commitlog.options.tuning import INDEX_SPACING_LARGEST
from commitlog.segment.directory import LogDirectory, index_name
from commitlog.segment.segment_header import Seal

MAGIC = b"CMLIDX01"
MAJOR, MINOR = 1, 0
# Magic, major, minor, header size, log uuid, segment id, CRC of the seal or of the last indexed
# record, spacing, records, CRC of the entries; the header's CRC follows.
_HEADER = struct.Struct("<8sHHI16sQIIQI")
_CRC = struct.Struct("<I")
_ENTRY = struct.Struct("<Qq")
INDEX_HEADER_SIZE = _HEADER.size + _CRC.size

State = Literal["sound", "missing", "damaged", "stale"]


def write(directory: LogDirectory, number: int, index: SparseIndex, seal: Seal) -> bool:
    """Write the index of a sealed segment. Return False if the system refuses: a missing index is
    no error.
    """
    content = _Content(seal.crc, index.spacing, index.records, index.content())
    return _write(directory, number, index.segment_id, content)


def write_unsealed(directory: LogDirectory, segment: Segment, index: SparseIndex) -> bool:
    """Write the index of an unsealed segment, up to the last indexed record: see `write`.

    The caller makes sure that the indexed records are durable.
    """
    if len(index) < 2:
        return False  # nothing is before the last indexed record
    entries = index.content()
    last, _ = _ENTRY.unpack_from(entries, len(entries) - ENTRY_SIZE)
    records = (len(index) - 1) * index.spacing + 1
    content = _Content(frame_fields(segment, last)["crc"], index.spacing, records, entries)
    return _write(directory, segment.number, segment.id, content)


def _write(directory: LogDirectory, number: int, segment_id: int, content: _Content) -> bool:
    header = _HEADER.pack(
        MAGIC,
        MAJOR,
        MINOR,
        INDEX_HEADER_SIZE,
        directory.log_uuid,
        segment_id,
        content.crc,
        content.spacing,
        content.records,
        crc32c(content.entries),
    )
    name = index_name(number * directory.segment_size)
    try:
        with temporary_file(directory.fd, name) as (fd, temporary):
            write_whole(fd, header + _CRC.pack(crc32c(header)) + content.entries, 0)
            os.rename(temporary, name, src_dir_fd=directory.fd, dst_dir_fd=directory.fd)
    except OSError:
        return False
    return True


def read(directory: LogDirectory, number: int, seal: Seal) -> tuple[SparseIndex | None, State]:
    """Return the index of the segment that has this seal, and the state of its file. The file is
    "stale" if it belongs to another segment, or to other contents.
    """
    content, state = _read(directory, number, seal.segment_id)
    if content is None:
        return None, state
    if (content.crc, content.records) != (seal.crc, seal.record_count):
        return None, "stale"
    try:
        index = SparseIndex(
            seal.segment_id,
            directory.segment_size,
            content.spacing,
            content.entries,
            content.records,
            seal.largest,
        )
    except ValueError:
        return None, "damaged"
    return index, "sound"


def read_unsealed(directory: LogDirectory, segment: Segment) -> tuple[SparseIndex | None, State]:
    """Return the index of a segment that has no seal, which ends at its last indexed record; and
    the state of its file.
    """
    content, state = _read(directory, segment.number, segment.id)
    if content is None:
        return None, state
    if content.records <= content.spacing or content.records % content.spacing != 1:
        return None, "stale"
    last, largest_ns = _ENTRY.unpack_from(content.entries, len(content.entries) - ENTRY_SIZE)
    try:
        index = SparseIndex(
            segment.id,
            directory.segment_size,
            content.spacing,
            content.entries[:-ENTRY_SIZE],
            content.records - 1,
            largest_ns,
            end=last,
        )
        if frame_fields(segment, last).get("crc") != content.crc:
            return None, "stale"
    except ValueError:
        return None, "damaged"
    return index, "sound"


@dataclass(frozen=True, slots=True)
class _Content:
    """The fields of an index file; `crc` is that of the seal or of the last indexed record."""

    crc: int
    spacing: int
    records: int
    entries: bytes


def _read(directory: LogDirectory, number: int, segment_id: int) -> tuple[_Content | None, State]:
    try:
        with opened_regular(index_name(number * directory.segment_size), dir_fd=directory.fd) as fd:
            return _checked(fd, directory, segment_id)
    except (FileNotFoundError, PermissionError):
        return None, "missing"
    except OSError:
        return None, "damaged"  # includes a directory, a FIFO or the like with this name


def _checked(fd: int, directory: LogDirectory, segment_id: int) -> tuple[_Content | None, State]:
    header = read_at_most(fd, INDEX_HEADER_SIZE)
    if len(header) < INDEX_HEADER_SIZE or _CRC.unpack_from(header, _HEADER.size)[0] != crc32c(
        header[: _HEADER.size]
    ):
        return None, "damaged"
    magic, major, _, header_size, uuid, indexed_id, crc, spacing, records, entries_crc = (
        _HEADER.unpack_from(header)
    )
    if magic != MAGIC or (major == MAJOR and header_size != INDEX_HEADER_SIZE):
        return None, "damaged"
    # An index of a newer major format counts as stale, too.
    if major > MAJOR or (uuid, indexed_id) != (directory.log_uuid, segment_id):
        return None, "stale"
    if (
        not 0 < spacing <= INDEX_SPACING_LARGEST
        or records > (directory.segment_size - HEADER_SIZE) // FRAME_HEADER
    ):
        return None, "damaged"
    size = INDEX_HEADER_SIZE + -(-records // spacing) * ENTRY_SIZE
    entries = read_at_most(fd, size)[INDEX_HEADER_SIZE:]
    if os.fstat(fd).st_size != size or crc32c(entries) != entries_crc:
        return None, "damaged"
    return _Content(crc, spacing, records, entries), "sound"
