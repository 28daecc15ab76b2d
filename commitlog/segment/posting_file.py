"""Posting files: where the records of each type and of each key are in a segment, on disk beside
it. A posting file can always be built again, and each use checks what it reads.

See docs/format.md for the layout. A file is written whole under a temporary name and then renamed;
it is not flushed, because its CRCs show whether it survived a power cut.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from commitlog._kernel.segments import FRAME_ALIGN, HEADER_SIZE, crc32c
from commitlog.base.regular_file import opened_regular, read_range, write_whole
from commitlog.base.temporary_file import temporary_file
from commitlog.segment.directory import LogDirectory, posting_name
from commitlog.segment.segment_header import Seal

MAGIC = b"CMLPST01"
MAJOR, MINOR = 1, 0
PART_RECORDS = 1 << 20  # what a build holds in memory
# Magic, major, minor, header size, log uuid, segment id, CRC of the seal, sections, file size, 0.
_HEADER = struct.Struct("<8sHHI16sQIIQI")
# Kind, shift, dense hashes, rows, entries, CRC of the table, 0.
_SECTION = struct.Struct("<7I")
_PLACE = struct.Struct("<QQ")  # segment id, and the offset in the file
_CRC = struct.Struct("<I")
_HEADER_SIZE = _HEADER.size + _CRC.size
_SECTION_SIZE = _SECTION.size + _CRC.size
_BLOCK = 4096
_HASH_BITS, _PRINT_BITS = 32, 16
_DENSE_SHARE, _DENSE_MOST = 4, 3  # more than a quarter of the records: three hashes at most
_NUMBER = np.dtype("<u4")
_PRINT = np.dtype("<u2")

Kind = Literal["types", "keys"]
_KINDS: tuple[Kind, ...] = ("types", "keys")  # by their numbers in a file
Offsets = NDArray[np.uint32]
Pairs = NDArray[np.uint64]
State = Literal["sound", "missing", "damaged", "stale"]


class DamagedPostingsError(ValueError):
    """What a posting file holds has another CRC, or cannot be offsets of records."""


def hash_of_type(type: int) -> int:
    """Return the hash under which the records of a type are listed; each type has another one."""
    return crc32c(type.to_bytes(4, "little"))


def hash_of_key(key: bytes) -> int:
    """Return the hash under which the records with a key are listed; keys may share one."""
    return crc32c(key)


# --- writing --------------------------------------------------------------------------------------


def write(
    directory: LogDirectory, number: int, seal: Seal, parts: Iterable[tuple[Kind, Pairs, int]]
) -> bool:
    """Write the posting file of a sealed segment. Return False if the system refuses: a missing
    file is no error.

    A part is a kind, the pairs of up to `PART_RECORDS` consecutive records, each a hash times 2**32
    plus an offset, and the number of these records. The arrays are sorted here.
    """
    name = posting_name(number * directory.segment_size)
    try:
        with temporary_file(directory.fd, name) as (fd, temporary):
            count, size = 0, _HEADER_SIZE
            for part in parts:
                section = _encoded(seal, size, *part)
                write_whole(fd, section, size)
                count, size = count + 1, size + len(section)
            header = _HEADER.pack(
                MAGIC,
                MAJOR,
                MINOR,
                _HEADER_SIZE,
                directory.log_uuid,
                seal.segment_id,
                seal.crc,
                count,
                size,
                0,
            )
            write_whole(fd, header + _CRC.pack(crc32c(header)), 0)
            os.rename(temporary, name, src_dir_fd=directory.fd, dst_dir_fd=directory.fd)
    except OSError:
        return False
    return True


def _encoded(seal: Seal, at: int, kind: Kind, pairs: Pairs, records: int) -> bytes:
    """Return the section that begins at an offset of the file.

    Hashes that more than a quarter of the records have get no list, because a scan is as fast. If
    most hashes occur once, hashes that begin with the same bits share a list, in which 16 more bits
    of each tell them apart.
    """
    pairs.sort()
    hashes = (pairs >> _HASH_BITS).astype(_NUMBER)
    first = _firsts(hashes)
    counts = np.diff(first, append=len(hashes))
    dense = hashes[first][counts * _DENSE_SHARE > records]
    if len(dense):
        kept = ~np.isin(hashes, dense)
        pairs, hashes = pairs[kept], hashes[kept]
        first = _firsts(hashes)
    shift = 0
    terms, body = hashes, pairs.astype(_NUMBER).tobytes()
    if len(first) * 2 > len(hashes):
        bits = min(_PRINT_BITS, max(0, (len(hashes) // 8).bit_length() - 1))
        shift = _HASH_BITS - bits
        terms = (hashes.astype(np.uint64) >> shift).astype(_NUMBER)
        body += (hashes >> (shift - _PRINT_BITS)).astype(_PRINT).tobytes()
        first = _firsts(terms)
    ends = np.append(first[1:], len(hashes))[: len(first)].astype(_NUMBER)
    crcs = np.array([crc32c(block) for block in _blocks(body)], dtype=_NUMBER)
    table = b"".join(each.tobytes() for each in (dense, terms[first], ends, crcs))
    header = _SECTION.pack(
        _KINDS.index(kind), shift, len(dense), len(first), len(hashes), crc32c(table), 0
    )
    place = _PLACE.pack(seal.segment_id, at)
    return header + _CRC.pack(crc32c(place + header)) + table + body


def _firsts(sorted_hashes: NDArray[np.uint32]) -> NDArray[np.int64]:
    """Return where each new hash begins."""
    changes = np.flatnonzero(sorted_hashes[1:] != sorted_hashes[:-1]) + 1
    return np.concatenate(([0], changes))[: len(sorted_hashes)]


def _blocks(body: bytes) -> Sequence[memoryview]:
    view = memoryview(body)
    return [view[at : at + _BLOCK] for at in range(0, len(body), _BLOCK)]


# --- reading --------------------------------------------------------------------------------------


class _Table(NamedTuple):
    dense: NDArray[np.uint32]
    terms: NDArray[np.uint32]
    ends: NDArray[np.uint32]
    crcs: NDArray[np.uint32]


@dataclass(frozen=True)
class _Section:
    """The lists of one kind of up to `PART_RECORDS` records. The table is read on first use."""

    kind: Kind
    shift: int
    entries: int
    lengths: tuple[int, ...]
    table_crc: int
    at: int

    @property
    def table_size(self) -> int:
        return sum(self.lengths) * _NUMBER.itemsize

    @property
    def body_at(self) -> int:
        return self.at + _SECTION_SIZE + self.table_size

    @property
    def body_size(self) -> int:
        return _body_size(self.entries, self.shift)

    def table(self, fd: int) -> _Table:
        content = read_range(fd, self.table_size, self.at + _SECTION_SIZE)
        if len(content) != self.table_size or crc32c(content) != self.table_crc:
            raise DamagedPostingsError("the table of a section has another CRC")
        return _Table(*np.split(np.frombuffer(content, _NUMBER), np.cumsum(self.lengths)[:-1]))

    def read(self, fd: int, crcs: NDArray[np.uint32], start: int, stop: int) -> bytes:
        """Read a range of the body, after a check of the blocks that it is in."""
        begin, end = start - start % _BLOCK, min(-(-stop // _BLOCK) * _BLOCK, self.body_size)
        content = read_range(fd, end - begin, self.body_at + begin)
        for at, block in enumerate(_blocks(content), begin // _BLOCK):
            if crc32c(block) != crcs[at]:
                raise DamagedPostingsError("a block of lists has another CRC")
        if len(content) != end - begin:
            raise DamagedPostingsError("the file is too short")
        return content[start - begin : stop - begin]

    def find(self, fd: int, table: _Table, wanted: int) -> Offsets | None:
        """Return the offsets under a hash; None if it has no list, because it has too many."""
        if (table.dense == wanted).any():
            return None
        term = wanted >> self.shift
        row = int(np.searchsorted(table.terms, term))
        if row == len(table.terms) or table.terms[row] != term:
            return np.empty(0, _NUMBER)
        start, stop = int(table.ends[row - 1]) if row else 0, int(table.ends[row])
        if not start <= stop <= self.entries:
            raise DamagedPostingsError("a list has no end")
        offsets = np.frombuffer(self.read(fd, table.crcs, start * 4, stop * 4), _NUMBER)
        if self.shift:
            begin = self.entries * 4
            found = self.read(fd, table.crcs, begin + start * 2, begin + stop * 2)
            prints = np.frombuffer(found, _PRINT)
            mark = (wanted >> (self.shift - _PRINT_BITS)) & ((1 << _PRINT_BITS) - 1)
            offsets = np.sort(offsets[prints == mark])
        return offsets


class PostingFile:
    """A posting file that was found sound. It reads only what it is asked for.

    It keeps no descriptor, which would keep the disk space of a deleted file in use. A build writes
    the same bytes again, so that a file that takes its place meanwhile does no harm.

    Attributes
    ----------
    seal_crc : int
        The CRC of the seal of its segment.
    table_bytes : int
        What it keeps in memory at most.
    """

    def __init__(self, directory: LogDirectory, number: int, seal: Seal, sections: list[_Section]):
        self.seal_crc = seal.crc
        self._directory = directory
        self._name = posting_name(number * directory.segment_size)
        self._size = directory.segment_size
        self._sections = sections
        self._tables: dict[int, _Table] = {}
        self.table_bytes = sum(each.table_size for each in sections)

    def find(self, kind: Kind, wanted: int) -> Offsets | None:
        """Return the ascending offsets of all records under a hash; None if they are too many for a
        list.

        Raises
        ------
        DamagedPostingsError
            The file is damaged.
        OSError
            It is gone, or cannot be read.
        """
        found = []
        with self._opened() as fd:
            for section in self._sections:
                if section.kind == kind:
                    offsets = section.find(fd, self._table(fd, section), wanted)
                    if offsets is None:
                        return None
                    found.append(offsets)
        listed = np.concatenate(found) if found else np.empty(0, _NUMBER)
        self._check(listed)
        return listed

    def _check(self, offsets: Offsets) -> None:
        if len(offsets) and (
            offsets[0] < HEADER_SIZE
            or offsets[-1] >= self._size
            or (offsets % FRAME_ALIGN).any()
            or (offsets[1:] <= offsets[:-1]).any()
        ):
            raise DamagedPostingsError("a list is not ascending")

    def check(self) -> None:
        """Check the CRC of every block; raise as `find` does."""
        with self._opened() as fd:
            for section in self._sections:
                crcs, size = section.table(fd).crcs, section.body_size
                for start in range(0, size, _BLOCK << 8):
                    section.read(fd, crcs, start, min(start + (_BLOCK << 8), size))

    def _opened(self) -> AbstractContextManager[int]:
        return opened_regular(self._name, dir_fd=self._directory.fd)

    def _table(self, fd: int, section: _Section) -> _Table:
        table = self._tables.get(section.at)
        if table is None:
            table = self._tables[section.at] = section.table(fd)
        return table


def read(directory: LogDirectory, number: int, seal: Seal) -> tuple[PostingFile | None, State]:
    """Return the posting file of the segment that has this seal, and its state. The file is "stale"
    if it belongs to another segment, or to other contents.
    """
    name = posting_name(number * directory.segment_size)
    try:
        with opened_regular(name, dir_fd=directory.fd) as fd:
            sections, state = _read(fd, directory, seal)
    except (FileNotFoundError, PermissionError):
        return None, "missing"
    except (OSError, DamagedPostingsError):
        return None, "damaged"  # includes a directory, a FIFO or the like with this name
    if sections is None:
        return None, state
    return PostingFile(directory, number, seal, sections), state


def checked(directory: LogDirectory, number: int, seal: Seal) -> State:
    """Return the state of the posting file of the segment that has this seal, after a check of the
    whole file.
    """
    file, state = read(directory, number, seal)
    try:
        if file is not None:
            file.check()
    except (OSError, DamagedPostingsError):
        return "damaged"
    return state


def _read(fd: int, directory: LogDirectory, seal: Seal) -> tuple[list[_Section] | None, State]:
    header = read_range(fd, _HEADER_SIZE, 0)
    if len(header) < _HEADER_SIZE or _CRC.unpack_from(header, _HEADER.size)[0] != crc32c(
        header[: _HEADER.size]
    ):
        return None, "damaged"
    magic, major, _, header_size, uuid, segment_id, seal_crc, count, size, _ = _HEADER.unpack_from(
        header
    )
    if magic != MAGIC or (major == MAJOR and header_size != _HEADER_SIZE):
        return None, "damaged"
    if major > MAJOR or (uuid, segment_id, seal_crc) != (
        directory.log_uuid,
        seal.segment_id,
        seal.crc,
    ):
        return None, "stale"
    if os.fstat(fd).st_size != size:
        return None, "damaged"
    sections, at = [], _HEADER_SIZE
    for _ in range(count):
        section = _read_section(fd, at, size, seal)
        sections.append(section)
        at = section.body_at + section.body_size
    if at != size:
        return None, "damaged"
    return sections, "sound"


def _body_size(entries: int, shift: int) -> int:
    return entries * (_NUMBER.itemsize + (_PRINT.itemsize if shift else 0))


def _read_section(fd: int, at: int, size: int, seal: Seal) -> _Section:
    header = read_range(fd, _SECTION_SIZE, at)
    place = _PLACE.pack(seal.segment_id, at)
    if len(header) < _SECTION_SIZE or _CRC.unpack_from(header, _SECTION.size)[0] != crc32c(
        place + header[: _SECTION.size]
    ):
        raise DamagedPostingsError("the header of a section has another CRC")
    kind, shift, dense, rows, entries, table_crc, _ = _SECTION.unpack_from(header)
    if (
        kind >= len(_KINDS)
        or entries > PART_RECORDS
        or rows > entries
        or dense > _DENSE_MOST
        or shift not in (0, *range(_PRINT_BITS, _HASH_BITS + 1))
    ):
        raise DamagedPostingsError("the header of a section has another form")
    blocks = -(-_body_size(entries, shift) // _BLOCK)
    section = _Section(_KINDS[kind], shift, entries, (dense, rows, rows, blocks), table_crc, at)
    if section.body_at + section.body_size > size:
        raise DamagedPostingsError("a section is longer than the file")
    return section
