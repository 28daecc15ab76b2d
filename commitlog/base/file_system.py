"""The type of a file system, and whether shared mappings and locks work on it."""

from __future__ import annotations

import ctypes
import os

from commitlog.base.path import path_behind
from commitlog.errors import IOFailureError, UnsupportedError
from commitlog.errors.advice import with_advice

# File systems whose mappings or locks do not hold between machines: NFS, CIFS, SMB2, FUSE, 9P,
# Ceph, AFS, Lustre, GFS2, OCFS2.
_REMOTE = {
    0x6969: "NFS",
    0xFF534D42: "CIFS",
    0xFE534D42: "SMB2",
    0x517B: "SMB",
    0x65735546: "FUSE",
    0x01021997: "9P",
    0x00C36400: "Ceph",
    0x5346414F: "AFS",
    0x0BD00BD0: "Lustre",
    0x01161970: "GFS2",
    0x7461636F: "OCFS2",
}


def check_file_system(path: str, fd: int | None = None) -> None:
    """Refuse network and FUSE file systems, on which a mapped log can be read, but not written. For
    an open log, pass its descriptor: its path may be relative to a former working directory, or
    lead to another directory by now.
    """
    kind = _REMOTE.get(file_system_type(path if fd is None else fd))
    if kind is not None:
        raise UnsupportedError(
            f"{kind} is a network or FUSE file system: shared mappings and locks on it cannot "
            "keep a log consistent. Put the log on a local disk; "
            "reading with mode 'r' works here",
            path=path,
        )


def file_system_type(place: str | int) -> int:
    """Return the `f_type` of `statfs`, as in linux/magic.h, of a path or a descriptor."""
    libc = ctypes.CDLL(None, use_errno=True)
    buffer = (ctypes.c_long * 32)()
    asked = (
        libc.fstatfs(place, ctypes.byref(buffer))
        if isinstance(place, int)
        else libc.statfs(os.fsencode(place), ctypes.byref(buffer))
    )
    if asked != 0:
        cause = ctypes.get_errno()
        path = place if isinstance(place, str) else path_behind(place)
        raise IOFailureError(
            "cannot determine the type of the file system: "
            f"{with_advice(os.strerror(cause), cause)}",
            path=path,
            errno=cause,
        )
    return int(buffer[0]) & 0xFFFFFFFF
