"""Read the files of an archive: `log.json`, and `<base>.seg.zst` for each segment.

A segment's file is one zstd frame of all the bytes of the segment, with their number and a
checksum. Every file is checked before it is used.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, BinaryIO

from commitlog.base.extras import imported
from commitlog.errors import CorruptSegmentError, LogNotFoundError, NotALogError
from commitlog.extension import HEADER_SIZE, SegmentHeader
from commitlog.stores.tar_target import is_tar_backup
from commitlog.stores.target import Target, is_address, reading, target_of
from commitlog.types import Identity

SUFFIX = ".seg.zst"
_NAME = re.compile(r"^([0-9]{20})\.seg\.zst$")
# A part of a segment: see commitlog/stores/tail_object.py.
PART_NAME = re.compile(
    r"^([0-9]{10})-([0-9]{20})-([0-9]{20})(?:-([0-9]{10})-([0-9a-f]{8})-([0-9a-f]{8}))?\.tail\.zst$"
)
# A damaged frame may expand without bound: small pieces bound the memory until that is found.
_PIECE = 16 << 10
_FRAME_HEADER_MOST = 18
# Bytes of a file that hold the header page: a zstd block takes at most 128 KiB and three bytes.
_FIRST_BLOCK = _FRAME_HEADER_MOST + (128 << 10) + 3
# bytes; for larger segments, a compressor takes the next power of two that holds the segment
_WINDOW_LEAST = 1 << 20


def archived_name(base: int) -> str:
    """Return the file name of the archived segment that starts at position `base`."""
    return f"{base:020d}{SUFFIX}"


def zstandard() -> Any:
    """Import the library, or raise with the extra that installs it."""
    return imported("zstandard", "an archive", "archive")


def compressor(level: int) -> Any:
    """Return a compressor whose frames say their size and have a checksum."""
    return zstandard().ZstdCompressor(level=level, write_checksum=True, write_content_size=True)


def is_archive(path: str) -> bool:
    """Return whether a path is an address, a directory with archived segments or parts of them
    alone, or a backup in one file.
    """
    if is_address(path) or is_tar_backup(path):
        return True
    try:
        names = os.listdir(path)
    except OSError:
        return False
    archived = any(_NAME.match(name) or PART_NAME.match(name) for name in names)
    return archived and not any(name.endswith(".seg") for name in names)


def read_identity(target: Target) -> Identity:
    """Read the identity of an archive's log.

    Raises
    ------
    LogNotFoundError
        The target is empty or does not exist.
    NotALogError
        The target is no archive, or its `log.json` is missing or damaged.
    UnsupportedVersionError
        A newer release wrote it.
    IOFailureError
        It cannot be read.
    """
    path = target.path_of(Identity.FILE_NAME)
    try:
        return _read_identity(target, path)
    except FileNotFoundError:
        with reading(target.name):
            names = target.names()
        if not names:
            raise LogNotFoundError("there is no archive here", path=target.name) from None
        if Identity.FILE_NAME in names:  # it was made in between
            return _read_identity(target, path)
        raise NotALogError(
            f"this directory has no {Identity.FILE_NAME}: if it is an archive, copy the file from "
            "its log, or from another archive of the log",
            path=target.name,
        ) from None


def _read_identity(target: Target, path: str) -> Identity:
    with reading(path), target.open(Identity.FILE_NAME) as file:
        return Identity.read_from(file, path)


def archived_bases(target: Target, segment_size: int) -> list[int]:
    """List the bases of the archived segments, ascending: multiples of the segment size."""
    with reading(target.name):
        names = target.names()
    return sorted(archived_bases_in(names, segment_size).values())


def archived_bases_in(names: Iterable[str], segment_size: int) -> dict[str, int]:
    """Return the base of each name of an archived segment among others."""
    matches = (match for name in names if (match := _NAME.match(name)))
    found = {match[0]: int(match[1]) for match in matches}
    return {name: base for name, base in found.items() if base % segment_size == 0}


def read_pieces(target: Target, base: int, identity: Identity) -> Iterator[bytes]:
    """Yield the bytes of an archived segment in pieces. They are verified only at the end: if the
    file is missing, truncated or damaged, or is not that segment of that log, raise
    `CorruptSegmentError`.
    """
    try:
        yield from segment_pieces(target, base, identity)
    except FileNotFoundError:
        raise missing(target.path_of(archived_name(base)), base) from None


def segment_pieces(
    target: Target, base: int, identity: Identity, most: int | None = None
) -> Iterator[bytes]:
    """Do the same, but raise `FileNotFoundError` if the file is missing. With `most`, only so many
    bytes of the file are read, and what they hold is not verified.
    """
    path = target.path_of(archived_name(base))
    library = zstandard()
    with reading(path), target.open(archived_name(base), most) as file:
        try:
            yield from _checked(
                decompressed(library, file, path, base, identity.segment_size),
                path,
                base,
                identity,
            )
        except library.ZstdError as error:
            raise damaged(path, base, f"is damaged: {error}") from None


def missing(path: str, base: int) -> CorruptSegmentError:
    """Return the error for an archived segment that should be there."""
    return damaged(path, base, "is missing")


def decompressed(library: Any, file: BinaryIO, path: str, base: int, size: int) -> Iterator[bytes]:
    """Yield the content of exactly one frame of that size, with a checksum."""
    # Spark's `CompressedBytes` reads only a part of a frame and cannot check the rest.
    unfit = partial(damaged, path, base)
    data = file.read(_PIECE)
    try:
        frame = library.get_frame_parameters(data[:_FRAME_HEADER_MOST])
    except library.ZstdError:
        why = "is not a zstd frame, or is truncated" if data else "is empty"
        raise unfit(why) from None
    if frame.content_size != size or not frame.has_checksum:
        raise unfit(f"is not a zstd frame with a checksum and a content size of {size} bytes")
    if frame.window_size > max(_WINDOW_LEAST, 2 * size):
        raise unfit(
            f"needs a zstd window of {frame.window_size} bytes, too large for a segment of {size}"
        )
    inflater = library.ZstdDecompressor().decompressobj()
    left = size
    while data:
        piece = inflater.decompress(data)
        left -= len(piece)
        if left < 0:
            break
        if piece:
            yield piece
        if inflater.eof:
            break
        data = file.read(_PIECE)
    if left or not inflater.eof:
        raise unfit("is truncated")
    if inflater.unused_data or file.read(1):
        raise unfit("has data after its zstd frame")


def _checked(pieces: Iterator[bytes], path: str, base: int, identity: Identity) -> Iterator[bytes]:
    """Yield the pieces, if they begin with the header of that segment of that log."""
    head = b""
    for piece in pieces:
        if len(head) < HEADER_SIZE:
            head += piece
            if len(head) < HEADER_SIZE:
                continue
            header = SegmentHeader(head[:HEADER_SIZE])
            if not header.is_of(identity, base // identity.segment_size):
                raise damaged(path, base, "does not have the header of this segment")
            yield head
        else:
            yield piece


def read_header(target: Target, base: int, identity: Identity) -> bytes:
    """Read the header page of an archived segment, which has its own CRCs, and not the rest."""
    try:
        # The first piece is the header page at least.
        return next(segment_pieces(target, base, identity, _FIRST_BLOCK))[:HEADER_SIZE]
    except FileNotFoundError:
        raise missing(target.path_of(archived_name(base)), base) from None


def open_segment_bytes(
    place: str | os.PathLike[str], base: int, *, filesystem: object = None
) -> bytes:
    """Read all bytes of an archived segment and verify them.

    Parameters
    ----------
    place : str or path
        The archive: a directory or an address.
    base : int
        The position at which the segment begins.
    filesystem : pyarrow.fs.FileSystem or fsspec file system, optional
        The file system in which `place` is a path.

    Raises
    ------
    CorruptSegmentError
        The file is missing, truncated or damaged, or is not that segment of that log.
    """
    target = target_of(place, filesystem)
    return b"".join(read_pieces(target, base, read_identity(target)))


def damaged(path: str, position: int, what: str) -> CorruptSegmentError:
    """Return the error for a damaged or missing file of an archive or a store."""
    return CorruptSegmentError(
        f"{os.path.basename(path)} {what}: restore it from another copy of the archive",
        path=path,
        position=position,
    )
