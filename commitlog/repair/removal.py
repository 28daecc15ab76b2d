"""LogRemoval: deletes a log and no other file."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from dataclasses import dataclass, field
from typing import Self

from commitlog.base.boot import boot_id
from commitlog.errors import LogLockedError, NotALogError, ReadOnlyError
from commitlog.pool import shm_survey
from commitlog.repair.log_files import LogFiles
from commitlog.segment.directory import STAGED, LogDirectory
from commitlog.segment.lock_file import NAME as LOCK_NAME
from commitlog.segment.lock_file import LockFile

_TAILERS, _TOPICS, _QUEUES = "tailers", "topics", "queues"
_IDENTITY = "log.json"
# The files of a log: segments, indexes, posting lists, the files beside them, the copies that
# recovery and repair save, and the temporary files that a killed process leaves.
_ANY = re.compile(".*")
_SCHEMA = re.compile(r"[0-9a-f]{8}\.json|complete|\..*\.tmp")
_SEGMENT = re.compile(r"[0-9]{20}\.(?:seg|idx|pst)")
_BESIDE = r"log\.json|checkpoint|epoch|followed|joining|joined|producers|sessions|stored"
_OURS = re.compile(
    rf"(?:[0-9]{{20}}\.(?:seg|idx|pst)|cursors|lock|{_BESIDE})(?:\.(?:cut|broken)(?:\.[0-9]+)?)?"
    rf"|\.(?:[0-9]{{20}}\.(?:seg|idx|pst)|{_BESIDE})(?:\.(?:cut|broken))?\.[0-9a-f]{{16}}\.tmp"
)


@dataclass
class Removed:
    """What was deleted, and what was left because it is not part of a log."""

    path: str
    files: list[str] = field(default_factory=list)
    bytes: int = 0
    buffers: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    directory_removed: bool = False


class LogRemoval:
    """Delete a log that no process has open for writing; a context manager.

    Raises
    ------
    LogNotFoundError, NotALogError
        There is no log at the path, or it is a symbolic link.
    LogLockedError
        A process has the log open for writing.
    ReadOnlyError
        A file cannot be deleted. Nothing was deleted.
    """

    def __init__(self, path: str) -> None:
        if os.path.islink(path.rstrip("/")):
            raise NotALogError(
                "this is a symbolic link: give the log itself, " + os.path.realpath(path),
                path=path,
            )
        self._files = LogFiles(path)
        self._directory = self._files.directory
        self.removed = Removed(path)
        try:
            self._check_permission()
            # It is not held until `run`: a user may decide meanwhile, which may take long.
            self._lock().close()
        except BaseException:
            self._files.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._files.close()

    @property
    def segments(self) -> int:
        """The number of segments of the log."""
        return len(self._files.segment_numbers())

    def run(self) -> None:
        """Delete the log; `removed` says what was deleted."""
        directory, removed = self._directory, self.removed
        lock_file = self._lock()
        try:
            self._discard_buffers(lock_file)
            _remove_folder(directory, _TAILERS, _ANY, removed)
            _remove_folder(directory, _TOPICS, _SCHEMA, removed)
            _remove_tree(directory, STAGED, removed)
            _remove_tree(directory, _QUEUES, removed)
            for name in _in_order(directory.names()):
                _unlink(directory, name, removed)
            directory.sync()
            removed.left = sorted(set(directory.names()) - {LOCK_NAME})
            if not removed.left:
                # Last, with the directory: a process that waits for this lock then cannot create a
                # log here. If the directory stays, the lock file stays, too: a second file of that
                # name would let two processes hold the lock.
                _unlink(directory, LOCK_NAME, removed)
                os.rmdir(os.path.realpath(directory.path))
                removed.directory_removed = True
        finally:
            lock_file.close()

    def _check_permission(self) -> None:
        """Refuse before the first deletion: otherwise buffers and named tailers would be deleted,
        and the log would stay.
        """
        folders = [
            path
            for name in ("", _TAILERS, _TOPICS, STAGED)
            if os.path.isdir(path := os.path.join(self._directory.path, name))
        ]
        for folder in folders:
            if not os.access(folder, os.R_OK | os.W_OK | os.X_OK, effective_ids=True):
                raise ReadOnlyError(
                    "no permission to delete the files in this directory: run it as their owner, "
                    "or change the permissions",
                    path=folder,
                )

    def _lock(self) -> LockFile:
        lock_file = LockFile(self._directory.fd)
        if lock_file.acquire("exclusive"):
            return lock_file
        holders = ", ".join(self._files.holders()) or (
            "another process, which is opening, recovering or repairing it"
        )
        lock_file.close()
        raise LogLockedError(
            f"the log is open for writing in {holders}: close it there first",
            path=self._directory.path,
            holder=holders,
        )

    def _discard_buffers(self, lock_file: LockFile) -> None:
        """Delete the buffers of a killed process in shared memory, which no later process frees."""
        holder = lock_file.read()
        if holder.boot_id != boot_id().hex() or holder.inode != self._directory.inode[1]:
            return  # the lock file was copied from another log, or is of another boot
        names = (*holder.pool_names, *holder.lent_names)
        survey = shm_survey.find_buffers(names, self._files.identity.uuid)
        names = tuple(buffer.name for buffer in survey.recoverable)
        for buffer in survey.recoverable:
            buffer.memory.close()
        for name in (*names, *survey.free):
            shm_survey.discard(name)
            self.removed.buffers.append(name)


def _in_order(names: list[str]) -> list[str]:
    """Return the files to delete: segments first, the oldest first, and the identity last, so that
    a killed run leaves a log.
    """
    ours = [name for name in names if _OURS.fullmatch(name) and name not in (LOCK_NAME, _IDENTITY)]
    ours.sort(key=lambda name: (_SEGMENT.fullmatch(name) is None, name))
    return ours + [_IDENTITY] * (_IDENTITY in names)


def _unlink(directory: LogDirectory, name: str, removed: Removed) -> None:
    try:
        size = os.stat(name, dir_fd=directory.fd, follow_symlinks=False).st_size
        os.unlink(name, dir_fd=directory.fd)
    except (FileNotFoundError, IsADirectoryError):
        return  # deleted by another process; or a directory, which is reported as left
    removed.files.append(name)
    removed.bytes += size


def _remove_folder(
    directory: LogDirectory, folder: str, ours: re.Pattern[str], removed: Removed
) -> None:
    try:
        fd = os.open(
            folder,
            os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW,
            dir_fd=directory.fd,
        )
    except OSError:
        return
    try:
        for name in filter(ours.fullmatch, sorted(os.listdir(fd))):
            with contextlib.suppress(IsADirectoryError):  # reported as left
                os.unlink(name, dir_fd=fd)
                removed.files.append(os.path.join(folder, name))
        if not os.listdir(fd):
            os.rmdir(folder, dir_fd=directory.fd)
    finally:
        os.close(fd)


def _remove_tree(directory: LogDirectory, name: str, removed: Removed) -> None:
    """Delete a folder whose files are all of the log: staged segments, or queues."""
    folder = os.path.join(directory.path, name)
    if os.path.isdir(folder) and not os.path.islink(folder):
        removed.files += [
            os.path.relpath(os.path.join(place, each), directory.path)
            for place, _, names in os.walk(folder)
            for each in names
        ]
        shutil.rmtree(folder)
