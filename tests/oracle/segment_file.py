"""Reads and writes segment files in pure Python, from `docs/format.md` alone.

The kernel and this module share no code, so each confirms what the other writes. The module is for
small logs: a megabyte takes about 0.1 s.
"""

from __future__ import annotations

import json
import struct
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import NamedTuple

MAGIC = b"CMLSEG01"
MAJOR = 1
MINOR = 0
HEADER_SIZE = 4096
OPENED_AT = 128
SEAL_AT = 256

LENGTH_MASK = 0x0FFFFFFF
CLAIMED = 0x10000000
SKIP = 0x20000000
EXT = 0x40000000
BATCH = 0x80000000
KEYLEN_NONE = 0xFFFFFFFF
FRAME_HEADER = 16
FRAME_EXTENDED = 24

_IDENTITY = struct.Struct("<8sHHI16sQQQq")  # the CRC follows
_OPENED = struct.Struct("<qq")
_SEAL = struct.Struct("<QQQqqq")
_CELL = struct.Struct("<II")
_EXTENSION = struct.Struct("<II")


class FormatError(ValueError):
    """The bytes do not follow the format."""


class Kind(Enum):
    """The kind of a cell."""

    RECORD = "record"
    SKIP = "skip"
    CLAIMED = "claimed"
    DAMAGED = "damaged"  # an invalid word: the start of the next frame is unknown


@dataclass(frozen=True, slots=True)
class Opened:
    """The part of a header that a roll into the segment writes; `crc_ok=False` builds a wrong
    CRC.
    """

    opened_ns: int
    cycle: int
    crc_ok: bool = True


@dataclass(frozen=True, slots=True)
class Seal:
    """The part of a header written after the last record; `crc_ok=False` builds a wrong CRC."""

    end: int
    first_sequence: int
    record_count: int
    first_timestamp_ns: int
    last_timestamp_ns: int
    largest_timestamp_ns: int
    crc_ok: bool = True


@dataclass(frozen=True, slots=True)
class Header:
    """A segment's header with a valid identity."""

    major: int
    minor: int
    log_uuid: bytes
    segment_id: int
    base: int
    size: int
    created_ns: int
    opened: Opened | None
    seal: Seal | None


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame in its segment; the last four fields are those of a record."""

    position: int
    offset: int
    kind: Kind
    flags: int
    length: int  # as in the word: before padding, and 0 for a SKIP to the end
    step: int  # to the next frame
    crc_ok: bool
    timestamp_ns: int = 0
    type: int = 0
    key: bytes | None = None
    value: bytes = b""


class LogValue(NamedTuple):
    """A data record of a log."""

    position: int
    timestamp_ns: int
    type: int
    key: bytes | None
    value: bytes


def _crc_table() -> list[int]:
    table = []
    for byte in range(256):
        register = byte
        for _ in range(8):
            register = register >> 1 ^ (0x82F63B78 if register & 1 else 0)
        table.append(register)
    return table


_TABLE = _crc_table()


def crc32c(data: bytes, crc: int = 0) -> int:
    """Return the CRC-32C of `data`; `crc` is that of the preceding bytes."""
    register = crc ^ 0xFFFFFFFF
    for byte in data:
        register = register >> 8 ^ _TABLE[(register ^ byte) & 0xFF]
    return register ^ 0xFFFFFFFF


def frame_crc(segment_id: int, offset: int, word: int, rest: bytes = b"") -> int:
    """Return the CRC of a frame; `rest` is its bytes from 8 on, empty for a SKIP."""
    return crc32c(struct.pack("<QQI", segment_id, offset, word) + rest)


def _aligned(length: int) -> int:
    return -(-length // 8) * 8


def largest_frame(segment_size: int) -> int:
    """Return the size of the largest frame, padding included."""
    return min(2**28 - 8, segment_size // 8)


def build_header(
    *,
    log_uuid: bytes,
    segment_id: int,
    base: int,
    size: int,
    created_ns: int = 0,
    opened: Opened | None = None,
    seal: Seal | None = None,
    major: int = MAJOR,
    minor: int = MINOR,
) -> bytes:
    """Return the 4,096 bytes in front of a segment's first frame."""
    header = bytearray(HEADER_SIZE)
    identity = _IDENTITY.pack(
        MAGIC, major, minor, HEADER_SIZE, log_uuid, segment_id, base, size, created_ns
    )
    header[: len(identity) + 4] = identity + struct.pack("<I", crc32c(identity))
    seed = struct.pack("<Q", segment_id)
    if opened is not None:
        body = _OPENED.pack(opened.opened_ns, opened.cycle)
        header[OPENED_AT : OPENED_AT + 20] = body + struct.pack(
            "<I", crc32c(seed + body) ^ (not opened.crc_ok)
        )
    if seal is not None:
        body = _SEAL.pack(
            seal.end,
            seal.first_sequence,
            seal.record_count,
            seal.first_timestamp_ns,
            seal.last_timestamp_ns,
            seal.largest_timestamp_ns,
        )
        header[SEAL_AT : SEAL_AT + 56] = body + struct.pack(
            "<II", crc32c(seed + body) ^ (not seal.crc_ok), 1
        )
    return bytes(header)


def read_header(data: bytes) -> Header:
    """Return the header of a segment file.

    Raises FormatError if the identity is missing, fails its CRC or is of a newer major version. The
    other parts are None if not written, and their `crc_ok` tells whether their CRC matches.
    """
    if len(data) < HEADER_SIZE:
        raise FormatError(f"a segment has a header of {HEADER_SIZE} bytes; here are {len(data)}")
    magic, major, minor, header_size, log_uuid, segment_id, base, size, created_ns = (
        _IDENTITY.unpack_from(data)
    )
    if magic != MAGIC:
        raise FormatError(f"magic is {magic!r}, not {MAGIC!r}")
    if major > MAJOR:
        raise FormatError(f"format {major}.{minor} is newer than {MAJOR}.{MINOR}")
    (crc,) = struct.unpack_from("<I", data, _IDENTITY.size)
    if crc != crc32c(data[: _IDENTITY.size]) or header_size != HEADER_SIZE:
        raise FormatError("the identity part fails its CRC or has another header size")
    seed = struct.pack("<Q", segment_id)
    return Header(
        major,
        minor,
        log_uuid,
        segment_id,
        base,
        size,
        created_ns,
        _read_opened(data, seed),
        _read_seal(data, seed),
    )


def _read_opened(data: bytes, seed: bytes) -> Opened | None:
    opened_ns, cycle = _OPENED.unpack_from(data, OPENED_AT)
    (crc,) = struct.unpack_from("<I", data, OPENED_AT + _OPENED.size)
    return (
        None
        if opened_ns == 0
        else Opened(
            opened_ns, cycle, crc == crc32c(seed + data[OPENED_AT : OPENED_AT + _OPENED.size])
        )
    )


def _read_seal(data: bytes, seed: bytes) -> Seal | None:
    crc, sealed = struct.unpack_from("<II", data, SEAL_AT + _SEAL.size)
    if sealed != 1:
        return None
    end, first_sequence, record_count, first_ns, last_ns, largest_ns = _SEAL.unpack_from(
        data, SEAL_AT
    )
    crc_ok = crc == crc32c(seed + data[SEAL_AT : SEAL_AT + _SEAL.size])
    return Seal(end, first_sequence, record_count, first_ns, last_ns, largest_ns, crc_ok)


def build_frame(
    segment_id: int,
    offset: int,
    value: bytes,
    *,
    timestamp_ns: int = 0,
    type: int = 0,
    key: bytes | None = None,
) -> bytes:
    """Return a published record, padded to 8 bytes."""
    rest = struct.pack("<q", timestamp_ns)
    word = FRAME_HEADER + len(value)
    if type != 0 or key is not None:
        rest += _EXTENSION.pack(type, KEYLEN_NONE if key is None else len(key)) + (key or b"")
        word = EXT | FRAME_EXTENDED + len(key or b"") + len(value)
    rest += value
    frame = _CELL.pack(word, frame_crc(segment_id, offset, word, rest)) + rest
    return frame.ljust(_aligned(len(frame)), b"\0")


def build_skip(segment_id: int, offset: int, length: int) -> bytes:
    """Return the cell of a SKIP; length 0 reaches to the end of the segment. The rest of the SKIP
    may be any bytes.
    """
    return _CELL.pack(SKIP | length, frame_crc(segment_id, offset, SKIP | length))


def build_claim(length: int, slot: int, generation: int) -> bytes:
    """Return the cell of a claim that is not published."""
    return _CELL.pack(CLAIMED | length, generation << 10 & 0xFFFFFFFF | slot)


def frames(data: bytes, stop_at_zero: bool = True) -> Iterator[Frame]:
    """Yield the frames of a complete segment file, in order.

    A frame with a wrong CRC is yielded with `crc_ok=False`, and its length is used. A DAMAGED frame
    or a zero cell is the end; with `stop_at_zero=False` zero cells are skipped.
    """
    header = read_header(data)
    if len(data) != header.size:
        raise FormatError(f"the header says {header.size} bytes; here are {len(data)}")
    offset = HEADER_SIZE
    while offset < header.size:
        if data[offset : offset + 8] == bytes(8):
            if stop_at_zero:
                return
            offset += 8
            continue
        frame = read_frame(data, header, offset)
        yield frame
        if frame.kind is Kind.DAMAGED:
            return
        offset += frame.step


def read_frame(data: bytes, header: Header, offset: int) -> Frame:
    """Return the frame at `offset`, whose cell is not zero."""
    word, crc = _CELL.unpack_from(data, offset)
    flags, length = word & ~LENGTH_MASK, word & LENGTH_MASK
    position, room = header.base + offset, header.size - offset
    to_the_end = flags == SKIP and length == 0
    step = room if to_the_end else _aligned(length)
    least = {0: FRAME_HEADER, EXT: FRAME_EXTENDED, CLAIMED: FRAME_HEADER, SKIP: 8}.get(flags)
    if least is None or (length < least and not to_the_end) or step > room:
        return Frame(position, offset, Kind.DAMAGED, flags, length, 0, crc_ok=False)
    if flags == CLAIMED:
        return Frame(position, offset, Kind.CLAIMED, flags, length, step, crc_ok=False)
    rest = data[offset + 8 : offset + length] if flags != SKIP else b""
    crc_ok = crc == frame_crc(header.segment_id, offset, word, rest)
    if flags == SKIP:
        return Frame(position, offset, Kind.SKIP, flags, length, step, crc_ok)
    (timestamp_ns,) = struct.unpack_from("<q", rest)
    record_type, key, value = _split_body(rest[8:], extended=flags == EXT)
    fits = value is not None
    return Frame(
        position,
        offset,
        Kind.RECORD,
        flags,
        length,
        step,
        crc_ok and fits,
        timestamp_ns,
        record_type,
        key,
        value or b"",
    )


def _split_body(body: bytes, *, extended: bool) -> tuple[int, bytes | None, bytes | None]:
    """Return type, key and value; the value is None if the key would be longer than the frame."""
    if not extended:
        return 0, None, body
    record_type, key_length = _EXTENSION.unpack_from(body)
    body = body[_EXTENSION.size :]
    if key_length == KEYLEN_NONE:
        return record_type, None, body
    if key_length > len(body):
        return record_type, None, None
    return record_type, body[:key_length], body[key_length:]


def segment_paths(directory: Path) -> list[Path]:
    """Return the segment files of a log, in order of their base."""
    return sorted(
        path
        for path in directory.iterdir()
        if path.suffix == ".seg" and path.stem.isdigit() and len(path.stem) == 20
    )


def log_values(directory: str | Path) -> list[LogValue]:
    """Return all data records of a log directory, in order, as its files have them.

    Ends at the first cell that is zero or CLAIMED. Raises FormatError at a damaged frame, at a
    missing segment, and at a segment of another log or place. Uncommitted records of a pooled log
    are not in its files.
    """
    directory = Path(directory)
    log = json.loads((directory / "log.json").read_bytes())
    if log["format"]["major"] > MAJOR:
        raise FormatError(f"{directory}: format {log['format']} is newer than {MAJOR}.{MINOR}")
    values: list[LogValue] = []
    expected_base: int | None = None
    for path in segment_paths(directory):
        data = path.read_bytes()
        header = read_header(data)
        if (header.log_uuid, header.size, header.base) != (
            uuid.UUID(log["uuid"]).bytes,
            log["segment_size"],
            int(path.stem),
        ):
            raise FormatError(f"{path}: belongs to another log or another place")
        if expected_base not in {None, header.base}:
            raise FormatError(f"{directory}: the segment at {expected_base} is missing")
        expected_base = header.base + header.size
        end = HEADER_SIZE
        for frame in frames(data):
            if frame.kind is Kind.CLAIMED:
                return values
            if not frame.crc_ok:
                raise FormatError(f"{path}: damaged frame at position {frame.position}")
            end = frame.offset + frame.step
            if frame.kind is Kind.RECORD:
                values.append(
                    LogValue(frame.position, frame.timestamp_ns, frame.type, frame.key, frame.value)
                )
        if end < header.size:
            return values
    return values
