"""Print the records of a closed log from a tar file, without unpacking it: tar_log.py LOG.tar"""

from __future__ import annotations

import os
import re
import sys
import tarfile
from collections.abc import Sequence

import commitlog
from commitlog.extension import (
    HEADER_SIZE,
    Identity,
    SegmentHeader,
    SegmentRef,
    SegmentSource,
    SourceKind,
    open_source,
    register_source,
)

_SEGMENT = re.compile(r"([0-9]{20})\.seg")
_PIECE_BYTES = 1 << 20


class TarLog(SegmentSource):
    """The log in an uncompressed tar file, which holds the files of its directory."""

    kind = "tar"

    def __init__(self, path: str) -> None:
        self.location = path
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            with open(path, "rb") as file, tarfile.open(fileobj=file, mode="r:") as tar:
                members = {os.path.basename(each.name): each for each in tar if each.isfile()}
            if "log.json" not in members:
                raise commitlog.errors.NotALogError("this tar file has no log.json", path=path)
            self.identity = Identity.parse(self._read(members["log.json"], 0, 1 << 16), path)
            size = self.identity.segment_size
            found = {int(match[1]) // size: members[name]
                     for name in members if (match := _SEGMENT.fullmatch(name))}  # fmt: skip
            self._members = dict(sorted(found.items()))
            self._segments = [
                SegmentRef(number, member.size, self._is_sealed(number))
                for number, member in self._members.items()
            ]
        except BaseException:
            self.close()
            raise

    def _read(self, member: tarfile.TarInfo, offset: int, size: int) -> bytes:
        size = min(size, member.size - offset)
        return os.pread(self._fd, size, member.offset_data + offset)  # needs no lock

    def _is_sealed(self, number: int) -> bool:
        return SegmentHeader(self.header(number)).seal_of(self.identity, number) is not None

    def segments(self) -> Sequence[SegmentRef]:
        return self._segments

    def header(self, number: int) -> bytes:
        return self._read(self._members[number], 0, HEADER_SIZE)

    def fill(self, number: int, fd: int) -> None:
        member, offset = self._members[number], 0
        while piece := self._read(member, offset, _PIECE_BYTES):
            offset += os.write(fd, piece)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


# From here on, commitlog.open("orders.tar", "r") opens one, too.
register_source(
    SourceKind(
        "a tar file",
        lambda path, options: TarLog(path),
        claims=lambda path: os.path.isfile(path) and tarfile.is_tarfile(path),
    )
)


def main() -> None:
    with open_source(TarLog(sys.argv[1])) as log, log.tailer() as tailer:
        for record in tailer:
            print(record.position, bytes(record.value), flush=True)


if __name__ == "__main__":
    main()
