"""A file served over FUSE that records each write and flush of the loop device above it, in order.

The kernel hands a write of the block device to this process before the device reports it as done,
because the file is opened for direct I/O. The block layer turns a write with FUA into a write and a
flush. One thread answers the requests one by one, so their order is the order of the record.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import struct
from collections.abc import Callable
from pathlib import Path

from tests.faults.device import system
from tests.preloaded import ending_the_process

WRITE, FLUSH = 0, 1
ENTRY = struct.Struct(
    "<QQQ"
)  # where the device was written, bytes (0: a flush), where they are kept
_IN, _OUT = struct.Struct("<IIQQIIIHH"), struct.Struct("<IiQ")
_INIT, _INIT_REPLY = struct.Struct("<IIII"), struct.Struct("<IIIIHHIIHHI28x")
_READ = struct.Struct("<QQI")
_ATTRIBUTES = struct.Struct("<QIIQQQQQQIIIIIIIIII")
_MAJOR, _MINOR, _MANY_PAGES, _BIG_WRITES = 7, 31, 1 << 22, 1 << 5
_MOST_PAGES = 256
_MOST_BYTES = _MOST_PAGES * 4096
_DIRECT = 1  # FOPEN_DIRECT_IO
_NO_REPLY = {2, 36, 42}  # FORGET, INTERRUPT, BATCH_FORGET


class Recorder:
    """Serves one image file and records its writes and flushes.

    Parameters
    ----------
    image : Path
        The file with the bytes of the device, which is changed.
    folder : Path
        Where the record is kept: `entries`, `bytes` and `count`.
    device : int
        A descriptor of ``/dev/fuse``.
    """

    def __init__(self, image: Path, folder: Path, device: int) -> None:
        self._image = os.open(image, os.O_RDWR)
        self._size = os.fstat(self._image).st_size
        self._entries = os.open(folder / "entries", os.O_WRONLY | os.O_CREAT)
        self._bytes = os.open(folder / "bytes", os.O_WRONLY | os.O_CREAT)
        self._kept = 0
        self._counter = counter(folder)
        self._count = 0
        self._device = device
        self._answers: dict[int, Callable[[memoryview], bytes]] = {
            26: self._begin,
            3: self._attributes,
            4: self._attributes,
            14: lambda body: struct.pack("<QII", 1, _DIRECT, 0),
            15: self._read,
            16: self._write,
            20: self._flush,
            25: lambda body: b"",  # FLUSH: a descriptor is closed
            18: lambda body: b"",  # RELEASE
            38: lambda body: b"",  # DESTROY
        }

    def serve(self) -> None:
        """Answer requests until the file is unmounted."""
        buffer = bytearray(_MOST_BYTES + 8192)
        view = memoryview(buffer)
        while True:
            try:
                length = os.readv(self._device, [buffer])
            except OSError as error:
                if error.errno in (errno.EINTR, errno.ENOENT, errno.EAGAIN):
                    continue
                if error.errno == errno.ENODEV:
                    return
                raise
            _, operation, unique, *_ = _IN.unpack_from(buffer)
            if operation in _NO_REPLY:
                continue
            answer = self._answers.get(operation)
            code, reply = -errno.ENOSYS, b""
            if answer is not None:
                code, reply = 0, answer(view[_IN.size : length])
            with contextlib.suppress(FileNotFoundError):  # the request was interrupted meanwhile
                os.writev(self._device, [_OUT.pack(_OUT.size + len(reply), code, unique), reply])

    def _begin(self, body: memoryview) -> bytes:
        flags = _INIT.unpack_from(body)[3] & (_MANY_PAGES | _BIG_WRITES)
        return _INIT_REPLY.pack(_MAJOR, _MINOR, 0, flags, 1, 1, _MOST_BYTES, 1, _MOST_PAGES, 0, 0)

    def _attributes(self, body: memoryview) -> bytes:
        mode = 0o100600
        file = (1, self._size, self._size // 512, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)
        return struct.pack("<QII6Q10I", 3600, 0, 0, *file)

    def _read(self, body: memoryview) -> bytes:
        _, offset, size = _READ.unpack_from(body)
        return os.pread(self._image, size, offset)

    def _write(self, body: memoryview) -> bytes:
        _, offset, size = _READ.unpack_from(body)
        content = body[40 : 40 + size]
        os.pwrite(self._image, content, offset)
        os.pwrite(self._bytes, content, self._kept)
        self._note(offset, size)
        self._kept += size
        return struct.pack("<II", size, 0)

    def _flush(self, body: memoryview) -> bytes:
        self._note(0, 0)
        return b""

    def _note(self, offset: int, size: int) -> None:
        entry = ENTRY.pack(offset, size, self._kept)
        os.pwrite(self._entries, entry, self._count * ENTRY.size)
        self._count += 1
        struct.pack_into("<Q", self._counter, 0, self._count)


def counter(folder: Path) -> mmap.mmap:
    """Map the number of entries in the record of a folder."""
    path = folder / "count"
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        os.ftruncate(fd, mmap.PAGESIZE)
        return mmap.mmap(fd, mmap.PAGESIZE)
    finally:
        os.close(fd)


def serve(image: Path, folder: Path) -> tuple[int, Path]:
    """Start a process that serves an image; return its process id and the served file."""
    point = folder / "device"
    point.touch()
    counter(folder).close()
    device = os.open("/dev/fuse", os.O_RDWR)
    system.mount("record", point, "fuse", f"fd={device},rootmode=100600,user_id=0,group_id=0")
    pid = os.fork()
    if pid == 0:
        with ending_the_process():
            system.end_with_parent()
            # If this process were the last one that sees the mount of the device, its end would
            # unmount it, and wait for answers that nothing gives any more.
            system.enter_namespace()
            system.unmount(point)
            Recorder(image, folder, device).serve()
    os.close(device)
    return pid, point
