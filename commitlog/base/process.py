"""Other processes: whether one lives, and how a message names it."""

from __future__ import annotations

import os


def pid_namespace() -> int:
    """Return the inode of this process's pid namespace; 0 if the system does not show it."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return 0


def is_foreign(namespace: int) -> bool:
    """Whether pids of that namespace are not valid in this process's namespace."""
    return namespace != 0 and namespace != pid_namespace()


def describe_process(pid: int, namespace: int, name: str = "") -> str:
    """Name the process that recorded this pid, for a message."""
    if pid == 0:
        return "another process"
    if is_foreign(namespace):
        return f"a process in another pid namespace, where it is process {pid}" + (
            f" ({name})" if name else ""
        )
    if pid == os.getpid():
        return "this process"
    return f"process {pid} ({name or process_name(pid)})"


def is_process(pid: int) -> bool:
    """Return whether a process of this namespace lives. `/proc` may hide it from this user."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True  # another user's
    except (ProcessLookupError, OverflowError):
        return False
    return True


def process_name(pid: int) -> str:
    """Return a process's name, or "unknown"."""
    import psutil  # a quarter of numpy's import time, for an error's message

    try:
        return str(psutil.Process(pid).name())
    except psutil.Error:
        return "unknown"
