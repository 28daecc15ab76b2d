"""Open a log for writing: find, lock, create, join or recover it."""

from __future__ import annotations

import contextlib
import logging
import os

from commitlog._kernel import memory as kernel
from commitlog.base.boot import boot_id
from commitlog.base.failpoint import failpoint
from commitlog.base.file_system import check_file_system
from commitlog.base.path import make_directory, open_directory, sync_directory
from commitlog.base.polling import attempts
from commitlog.base.process import is_foreign, is_process
from commitlog.errors import (
    LogExistsError,
    LogLockedError,
    NotALogError,
    OpenTimeoutError,
    ReadOnlyError,
)
from commitlog.flush import checkpoint as checkpoints
from commitlog.log.opened import Opened, check_options, refuse_foreign
from commitlog.options import Options, new_segment_size, ready_wait_s
from commitlog.pool import shm_survey
from commitlog.recovery import Recovered, recover
from commitlog.recovery.admission import note_recovery, refuse_follower
from commitlog.recovery.pending_join import finish_pending
from commitlog.segment import cursors_file
from commitlog.segment import identity as identities
from commitlog.segment.cursors_file import CursorsFile
from commitlog.segment.directory import LogDirectory
from commitlog.segment.identity import Identity
from commitlog.segment.lock_file import Holder, LockFile, new_holder
from commitlog.source.source_registry import source_kind
from commitlog.tail import tailer_file

_logger = logging.getLogger("commitlog")


def open_for_writing(path: str, mode: str, options: Options, *, follower: bool = False) -> Opened:
    """Lock the log, then create, recover or join it.

    Only `follower` opens a log that follows another one.
    """
    kind = source_kind(path)
    if kind is not None:
        raise ReadOnlyError(
            f"this is {kind.what}, which can only be read: open it with mode 'r'", path=path
        )
    fd = _open_directory(path, mode)
    try:
        check_file_system(path)
        refuse_foreign(fd, path)
        lock_file = LockFile(fd)
        try:
            if not follower:
                _refuse_follower(fd, path)
            return _open_locked(fd, path, mode, options, lock_file, follower=follower)
        except BaseException:
            lock_file.close()
            raise
    finally:
        os.close(fd)


def _open_directory(path: str, mode: str) -> int:
    with contextlib.suppress(FileNotFoundError):
        return open_directory(path)
    try:
        make_directory(path)
    except (FileExistsError, FileNotFoundError, NotADirectoryError) as error:
        _refuse_dangling_link(path)
        if isinstance(error, FileNotFoundError):
            raise
        raise NotALogError(
            "a component of this path is a file, not a directory: check the path", path=path
        ) from None
    return open_directory(path)


def _refuse_dangling_link(path: str) -> None:
    part = path
    while part:
        if os.path.islink(part) and not os.path.exists(part):
            raise NotALogError(
                f"{part} is a symbolic link to {os.readlink(part)}, which does not exist: create "
                "that directory, or remove the link",
                path=path,
            )
        part = os.path.dirname(part) if part != os.path.dirname(part) else ""


def _refuse_follower(fd: int, path: str) -> None:
    """Refuse before the wait for the lock, which a follower holds."""
    identity = identities.read(fd, path)
    if identity is not None:
        directory = LogDirectory(path, identity)
        try:
            refuse_follower(directory)
        finally:
            directory.close()


def _open_locked(
    fd: int, path: str, mode: str, options: Options, lock_file: LockFile, *, follower: bool
) -> Opened:
    for _ in attempts(ready_wait_s(options), f"the process that opens or recovers {path}"):
        if lock_file.acquire("exclusive"):
            return _open_exclusively(fd, path, mode, options, lock_file, follower=follower)
        opened = _try_to_join(fd, path, mode, options, lock_file)
        if opened is not None:
            return opened
    raise OpenTimeoutError(_why_not_ready(fd, path, lock_file, ready_wait_s(options)), path=path)


def _try_to_join(
    fd: int, path: str, mode: str, options: Options, lock_file: LockFile
) -> Opened | None:
    """Join the handles that have the log open, if it and this handle are mapped.

    Return None if the log is not ready yet: another handle is opening or recovering it.
    """
    if lock_file.is_exclusive():
        holder = lock_file.read()
        if _is_there(fd, path, holder):
            raise LogLockedError(
                f"the log is held by {holder.describe()}, and a pool, a follower or a promotion "
                "admits no other writer: end it there, or open the log with mode 'r'",
                path=path,
                holder=holder.describe(),
            )
        return None
    identity = identities.read(fd, path)
    if identity is None:
        return None
    if mode == "x":
        raise LogExistsError("the log exists: mode 'x' creates a new one", path=path)
    check_options(identity, options, path)
    # Check before the lock: if many handles opened at once and each held the shared lock for a
    # moment, none would get the exclusive one.
    if not _is_joinable(cursors_file.find(fd, identity)) or not lock_file.acquire("shared"):
        return None
    file = cursors_file.find(fd, identity)
    if file is None or not _is_joinable(file):
        lock_file.release()
        return None
    if options.pool is not None:
        names = cursors_file.describe(cursors_file.live_writers(fd, identity))
        raise LogLockedError(
            f"a pooled log has one writer, but this log is open for writing in {names}: close it "
            "there, or open it without a pool",
            path=path,
            holder=names,
        )
    checkpoint = checkpoints.read(fd, identity.uuid)
    return Opened(
        LogDirectory(path, identity),
        file.cells,
        lock_file=lock_file,
        tail=file.cells.tail,
        # The count continues, because the checkpoint with the higher count of the two is valid.
        checkpoint_count=checkpoint.count if checkpoint is not None else 0,
    )


def _is_joinable(file: CursorsFile | None) -> bool:
    return (
        file is not None
        and file.ready
        and file.cells.writable
        and file.cells.mode == kernel.MODE_MAPPED
    )


def _why_not_ready(fd: int, path: str, lock_file: LockFile, timeout_s: float) -> str:
    identity = identities.read(fd, path)
    file = cursors_file.find(fd, identity) if identity is not None else None
    if identity is not None and (file is None or not file.usable) and not lock_file.is_exclusive():
        return (
            "`cursors` was deleted, replaced or truncated while the log is open elsewhere (waited "
            f"{timeout_s:g} s): close every handle, then reopen, which recovers the log"
        )
    return (
        f"another process has been opening or recovering this log for {timeout_s:g} s: try "
        "again, or check for a stopped process"
    )


def _is_there(fd: int, path: str, holder: Holder) -> bool:
    """Return whether the pooled writer holds the lock, and not a process that recovers its log.

    A pid of another namespace is meaningless here; the lock on the writer's slot decides then.
    """
    if not holder.pid or holder.boot_id != boot_id().hex():
        return False
    if not is_foreign(holder.pid_namespace):
        return is_process(holder.pid)
    identity = identities.read(fd, path)
    writers = cursors_file.live_writers(fd, identity) if identity is not None else []
    return any(
        (writer.pid, writer.pid_namespace) == (holder.pid, holder.pid_namespace)
        for writer in writers
    )


def _open_exclusively(
    fd: int, path: str, mode: str, options: Options, lock_file: LockFile, *, follower: bool
) -> Opened:
    identity = identities.read(fd, path)
    if identity is not None and mode == "x":
        raise LogExistsError("the log exists: mode 'x' creates a new one", path=path)
    if identity is None:
        identity = Identity.new(
            new_segment_size(options), options.timestamps or "coarse", options.roll_cycle
        )
        # First: if it fails, the next open finds no log and repeats it. A parent directory that
        # this user may not read cannot be synced.
        with contextlib.suppress(PermissionError):
            sync_directory(os.path.dirname(os.path.realpath(path)))
        identities.write(fd, identity)
    check_options(identity, options, path)
    directory = LogDirectory(path, identity)
    try:
        if not follower:
            refuse_follower(directory)
        finish_pending(directory)
        return _recover(directory, options, lock_file)
    except BaseException:
        directory.close()
        raise


def _recover(directory: LogDirectory, options: Options, lock_file: LockFile) -> Opened:
    identity = directory.identity
    inode = os.fstat(directory.fd).st_ino
    boot = boot_id()
    before = lock_file.read()
    same_place = before.boot_id == boot.hex() and before.inode == inode
    _leave_readers(directory)
    file = cursors_file.open_writable(directory.fd, identity)
    if not file.usable:
        file.cells.rebuild(identity.uuid, boot, file.inode, identity.segment_size)
    checkpoint = checkpoints.read(directory.fd, identity.uuid)
    recovered = recover(
        directory,
        file.cells,
        cursors_usable=file.usable,
        checkpoint=checkpoint,
        shm_names=before.lent_names if same_place else (),
    )
    _report(directory.path, recovered)
    if recovered.case in ("kept", "cut"):
        note_recovery(directory, recovered.end)
    if same_place:
        for name in shm_survey.find_buffers(before.pool_names, identity.uuid).free:
            shm_survey.discard(name)
    pooled = options.pool is not None
    file.cells.mode = kernel.MODE_POOLED if pooled else kernel.MODE_MAPPED
    holder = new_holder(boot, inode) if pooled else Holder()
    lock_file.write(holder)
    return Opened(
        directory,
        file.cells,
        pooled=pooled,
        exclusive=True,
        lock_file=lock_file,
        holder=holder,
        tail=recovered.tail,
        end=recovered.end,
        checkpoint_count=checkpoint.count if checkpoint is not None else 0,
    )


def _leave_readers(directory: LogDirectory) -> None:
    """If the log was cut at a fork, leave its open readers behind, with the files of before: what
    they read next may be other records.
    """
    if cursors_file.is_cut(directory.fd, directory.identity):
        tailer_file.replace_files(directory)
        # Last: a kill before leaves the file of before, which has it all done again.
        cursors_file.replace(directory.fd)
        failpoint("cursors replaced")


def _report(path: str, recovered: Recovered) -> None:
    if recovered.case in ("kept", "cut"):
        _logger.info(
            "recovered %s (%s): it ends at %d, %d claims rolled back, %d buffers taken over",
            path,
            recovered.case,
            recovered.end,
            recovered.rolled_back,
            len(recovered.from_shm),
        )
