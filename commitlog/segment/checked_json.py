"""Small JSON files in a log's directory: replaced whole and durably, and protected by a CRC."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from typing import Any

from commitlog._kernel.segments import crc32c
from commitlog.base.regular_file import read_small_file, write_whole
from commitlog.base.temporary_file import temporary_file
from commitlog.errors import CorruptSegmentError, IOFailureError, UnsupportedVersionError
from commitlog.segment.directory import LogDirectory

FORMAT = 1
_SIZE_LIMIT = 64 << 20  # bytes: a join of half a million segments


def _text(content: dict[str, Any]) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()


def write(
    directory: LogDirectory,
    name: str,
    content: dict[str, Any],
    of_file: Callable[[int], dict[str, Any]] = lambda _: {},
) -> None:
    """Replace the file's content durably; `of_file` returns what depends on the new file, by its
    descriptor.
    """
    with temporary_file(directory.fd, name) as (fd, temporary):
        whole = _whole(directory, name, {**content, **of_file(fd)})
        write_whole(fd, whole, 0)
        os.fsync(fd)
        os.rename(temporary, name, src_dir_fd=directory.fd, dst_dir_fd=directory.fd)
    directory.sync()


def _whole(directory: LogDirectory, name: str, content: dict[str, Any]) -> bytes:
    content = {"format": FORMAT, "uuid": directory.log_uuid.hex(), **content}
    whole = _text({**content, "crc32c": crc32c(_text(content))}) + b"\n"
    if len(whole) > _SIZE_LIMIT:
        raise IOFailureError(
            f"`{name}` would have {len(whole)} bytes, and the limit is {_SIZE_LIMIT}: join fewer "
            "segments at a time",
            path=os.path.join(directory.path, name),
            errno=errno.EFBIG,
        )
    return whole


def read(directory: LogDirectory, name: str) -> dict[str, Any] | None:
    """Read the content, or None. Refuse a damaged file, another log's, and a newer release's."""
    path = os.path.join(directory.path, name)
    try:
        text = read_small_file(name, _SIZE_LIMIT, dir_fd=directory.fd)
    except FileNotFoundError:
        return None
    except IOFailureError as error:
        raise CorruptSegmentError(
            f"`{name}` cannot be read: {error.message}, or run `commitlog repair` on the log",
            path=path,
        ) from None
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict) or content.pop("crc32c", None) != crc32c(_text(content)):
        raise CorruptSegmentError(
            f"`{name}` is damaged and was not used: run `commitlog repair` on the log", path=path
        )
    if content.get("format") != FORMAT:
        raise UnsupportedVersionError(
            f"`{name}` was written by a newer release: use that release or a later one", path=path
        )
    if content.get("uuid") != directory.log_uuid.hex():
        raise CorruptSegmentError(
            f"`{name}` belongs to another log: move it out of this directory", path=path
        )
    return content
