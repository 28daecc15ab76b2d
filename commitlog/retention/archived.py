"""The files of an archive, and how one is read: `log.json`, and `<base>.seg.zst` for each segment.

A segment's file is one zstd frame of all the bytes of the segment, with their number and a
checksum. Nothing that is read here is believed before it was checked.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any, BinaryIO

from commitlog._kernel.segments import HEADER_SIZE, check_header
from commitlog.errors import CorruptSegmentError, LogNotFoundError, NotALogError
from commitlog.retention.target import Target, is_address, reading, target_of
from commitlog.segment import identity as identities
from commitlog.segment.identity import Identity

SUFFIX = ".seg.zst"
_NAME = re.compile(r"^([0-9]{20})\.seg\.zst$")
# A damaged frame may claim to expand to anything: so little of it at a time bounds what it takes to
# find out.
_PIECE = 4096
_FRAME_HEADER_MOST = 18
_WINDOW_LEAST = (
    1 << 20
)  # bytes; above, a compressor takes the next power of two that holds the segment


def archived_name(base: int) -> str:
    """The file name of the archived segment that starts at position `base`."""
    return f"{base:020d}{SUFFIX}"


def zstandard() -> Any:
    """The library.

    Raises
    ------
    ModuleNotFoundError
        It is not there: ``pip install 'commitlog-engine[archive]'``.
    """
    try:
        import zstandard as found
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "an archive needs zstandard: pip install 'commitlog-engine[archive]'"
        ) from error
    return found


def is_archive(path: str) -> bool:
    """Whether a path names an archive: an address, or a directory with archived segments, which a
    log's does not have.
    """
    if is_address(path):
        return True
    try:
        names = os.listdir(path)
    except OSError:
        return False
    return any(map(_NAME.match, names)) and not any(name.endswith(".seg") for name in names)


def refuse_archive(path: str) -> None:
    """For what can be done with a log alone.

    Raises
    ------
    NotALogError
        It is an archive.
    """
    if is_archive(path):
        raise NotALogError(
            "this is an archive, and not a log: it can be read, exported and verified, and "
            "nothing else",
            path=path,
        )


def read_identity(target: Target) -> Identity:
    """What log an archive is of.

    Raises
    ------
    LogNotFoundError
        There is nothing.
    NotALogError
        There is something else, or its `log.json` is missing or damaged.
    UnsupportedVersionError
        A newer release wrote it.
    IOFailureError
        It cannot be read.
    """
    path = target.path_of(identities.NAME)
    try:
        with reading(path), target.open(identities.NAME) as file:
            text = file.read(identities.SIZE_LIMIT)
    except FileNotFoundError:
        with reading(target.name):
            empty = not target.names()
        if empty:
            raise LogNotFoundError("there is no archive here", path=target.name) from None
        raise NotALogError(
            f"this archive has no {identities.NAME}, or is none: copy that of the log here, or of "
            "another archive of it",
            path=target.name,
        ) from None
    return identities.parse(text, path)


def archived_bases(target: Target, segment_size: int) -> list[int]:
    """The bases of the segments that an archive holds, ascending. Files whose base is no multiple
    of the segment size are not counted.
    """
    return list(archived_sizes(target, segment_size))


def archived_sizes(target: Target, segment_size: int) -> dict[int, int]:
    """The same with how many bytes each takes there."""
    with reading(target.name):
        sizes = target.sizes()
    found = {int(match[1]): size for name, size in sizes.items() if (match := _NAME.match(name))}
    return {base: found[base] for base in sorted(found) if base % segment_size == 0}


def read_pieces(target: Target, base: int, identity: Identity) -> Iterator[bytes]:
    """The bytes of an archived segment in pieces. They were right when the iterator has come to its
    end, and not before.

    Raises
    ------
    CorruptSegmentError
        The file is missing, cut short or damaged, or is not that segment of that log; the error
        names it.
    IOFailureError
        It cannot be read.
    """
    path = target.path_of(archived_name(base))
    library = zstandard()
    try:
        with reading(path), target.open(archived_name(base)) as file:
            try:
                yield from _checked(
                    _decompressed(library, file, path, identity.segment_size), path, base, identity
                )
            except library.ZstdError as error:
                raise _damaged(path, base, f"is damaged: {error}") from None
    except FileNotFoundError:
        raise _damaged(path, base, "is missing") from None


def _decompressed(library: Any, file: BinaryIO, path: str, size: int) -> Iterator[bytes]:
    """The content of exactly one frame of that size, with a checksum."""
    # Spark's `CompressedBytes` is another reader for a reason: it reads a part of a frame, of which
    # it cannot know that the rest is right.
    data = file.read(_PIECE)
    base = int(os.path.basename(path)[:20])
    try:
        frame = library.get_frame_parameters(data[:_FRAME_HEADER_MOST])
    except library.ZstdError:
        raise _damaged(
            path, base, "is no zstd frame, or cut short" if data else "is empty"
        ) from None
    if frame.content_size != size or not frame.has_checksum:
        raise _damaged(path, base, f"is not the frame of a segment of {size} bytes with a checksum")
    if frame.window_size > max(_WINDOW_LEAST, 2 * size):
        raise _damaged(
            path, base, f"asks for a window of {frame.window_size} bytes, for a segment of {size}"
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
        raise _damaged(path, base, "is cut short")
    if inflater.unused_data or file.read(1):
        raise _damaged(path, base, "has something behind its frame")


def _checked(pieces: Iterator[bytes], path: str, base: int, identity: Identity) -> Iterator[bytes]:
    """The same pieces, if the first of them begins with the header of that segment of that log."""
    head = b""
    for piece in pieces:
        if len(head) < HEADER_SIZE:
            head += piece
            if len(head) < HEADER_SIZE:
                continue
            if check_header(head[:HEADER_SIZE], identity.uuid, base, identity.segment_size) != 0:
                raise _damaged(path, base, "is not that segment of this log")
            yield head
        else:
            yield piece


def read_header(target: Target, base: int, identity: Identity) -> bytes:
    """The header page of an archived segment, the seal included, which have checksums of their own;
    the rest is not looked at.
    """
    head = b""
    pieces = read_pieces(target, base, identity)
    while len(head) < HEADER_SIZE:
        head += next(pieces, b"") or bytes(HEADER_SIZE)
    return head[:HEADER_SIZE]


def open_segment_bytes(
    place: str | os.PathLike[str], base: int, *, filesystem: object = None
) -> bytes:
    """All bytes of an archived segment, checked: what its file had before it was archived.

    Parameters
    ----------
    place : str or path
        The archive: a directory or an address.
    base : int
        The position at which the segment begins.
    filesystem : pyarrow.fs.FileSystem or fsspec file system, optional
        Where `place` is a path.

    Raises
    ------
    CorruptSegmentError
        The file is missing, cut short or damaged, or is not that segment of that log; the error
        names it.
    """
    target = target_of(place, filesystem)
    return b"".join(read_pieces(target, base, read_identity(target)))


def _damaged(path: str, base: int, what: str) -> CorruptSegmentError:
    return CorruptSegmentError(
        f"{os.path.basename(path)} {what}: restore it from another copy of the archive",
        path=path,
        position=base,
    )
