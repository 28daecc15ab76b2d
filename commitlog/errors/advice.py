"""What to do about the errno of a system call."""

from __future__ import annotations

import errno

_ADVICE = {
    errno.EIO: "check the disk",
    errno.EMFILE: "raise the limit of open files (`ulimit -n`), or close some",
    errno.ENFILE: "raise the system's limit of open files (`sysctl fs.file-max`), or close some",
    errno.ENOMEM: "free memory, or raise the limit of mappings (`sysctl vm.max_map_count`)",
    errno.EAGAIN: "free memory, or raise the limit of locked memory (`ulimit -l`)",
    errno.ENOLCK: "use a file system with locks, or end programs that hold many",
    errno.ENODEV: "put the log on a local disk whose file system has shared mappings",
    errno.EFBIG: "raise the limit of a file's size (`ulimit -f`)",
    errno.EBUSY: "end the program that uses the file",
    errno.ENOSPC: "free space",
    errno.EDQUOT: "free space, or raise the quota",
    errno.EACCES: "fix the permissions",
    errno.EPERM: "fix the permissions",
    errno.EROFS: "mount the file system for writing",
}


def with_advice(why: str, number: int | None) -> str:
    """Return why a call failed, and what to do, if its errno tells."""
    advice = _ADVICE.get(number or 0)
    return why if advice is None else f"{why}; {advice}, then try again"
