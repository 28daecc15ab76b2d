"""`commitlog remove`: delete a log and no other file."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
from dataclasses import asdict, dataclass, field

import click

from commitlog.base.boot import boot_id
from commitlog.base.process import describe_process
from commitlog.cli import FAILURE
from commitlog.cli.commands import UnsuggestedCommand
from commitlog.cli.interrupt import Stop
from commitlog.cli.output import echo, print_json
from commitlog.cli.quantities import size_text
from commitlog.errors import CommitLogError, LogLockedError, NotALogError, ReadOnlyError
from commitlog.errors.printable import printable
from commitlog.pool import shm_survey
from commitlog.repair.verification import opened_log_directory, read_identity
from commitlog.segment import cursors_file
from commitlog.segment.directory import STAGED, LogDirectory
from commitlog.segment.lock_file import NAME as LOCK_NAME
from commitlog.segment.lock_file import LockFile
from commitlog.types import Identity

_TAILERS, _TOPICS = "tailers", "topics"
_IDENTITY = "log.json"
# The files of a log: segments, indexes, the files beside them, the copies that recovery and repair
# save, and the temporary files that a killed process leaves.
_ANY = re.compile(".*")
_SCHEMA = re.compile(r"[0-9a-f]{8}\.json|complete|\..*\.tmp")
_SEGMENT = re.compile(r"[0-9]{20}\.(?:seg|idx)")
_BESIDE = r"log\.json|checkpoint|epoch|followed|joining|joined|producers|sessions|stored"
_OURS = re.compile(
    rf"(?:[0-9]{{20}}\.(?:seg|idx)|cursors|lock|{_BESIDE})(?:\.(?:cut|broken)(?:\.[0-9]+)?)?"
    rf"|\.(?:[0-9]{{20}}\.seg|{_BESIDE})(?:\.(?:cut|broken))?\.[0-9a-f]{{16}}\.tmp"
)


@dataclass
class _Removed:
    path: str
    files: list[str] = field(default_factory=list)
    bytes: int = 0
    buffers: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    directory_removed: bool = False


@click.command(cls=UnsuggestedCommand)
@click.argument("log", type=click.Path())
@click.option("-y", "--yes", is_flag=True, help="Delete without asking.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@click.pass_context
def command(context: click.Context, *, log: str, yes: bool, as_json: bool) -> None:
    """Delete LOG with all its records.

    It fails if a process has LOG open for writing. On a terminal it asks for confirmation;
    elsewhere it needs --yes. It deletes only the files of a log: if the directory has other files,
    they stay, and so does the directory.

    \b
    Examples:
      commitlog remove orders
      commitlog remove --yes --json orders
    """
    if os.path.islink(log.rstrip("/")):
        raise NotALogError(
            f"this is a symbolic link: give the log itself, {os.path.realpath(log)}", path=log
        )
    with opened_log_directory(log) as fd:
        identity, _ = read_identity(fd, log)
    directory = LogDirectory(log, identity)
    try:
        _check_permission(directory)
        # It is not held while the user decides, which may take long.
        _lock(directory, identity).close()
        if not yes and not _confirmed(directory):
            echo("nothing was deleted", err=True)
            context.exit(FAILURE)
        removed = _remove(directory, identity)
    finally:
        directory.close()
    if as_json:
        print_json(asdict(removed))
    else:
        echo(*_lines(removed))
    context.exit(0 if removed.directory_removed else FAILURE)


def _check_permission(directory: LogDirectory) -> None:
    """Refuse before the first deletion: otherwise buffers and named tailers would be deleted, and
    the log would stay.
    """
    folders = [
        path
        for name in ("", _TAILERS, _TOPICS, STAGED)
        if os.path.isdir(path := os.path.join(directory.path, name))
    ]
    for folder in folders:
        if not os.access(folder, os.R_OK | os.W_OK | os.X_OK, effective_ids=True):
            raise ReadOnlyError(
                "no permission to delete the files in this directory: run it as their owner, or "
                "change the permissions",
                path=folder,
            )


def _lock(directory: LogDirectory, identity: Identity) -> LockFile:
    lock_file = LockFile(directory.fd)
    if lock_file.acquire("exclusive"):
        return lock_file
    holders = _describe_holders(directory, identity)
    lock_file.close()
    raise LogLockedError(
        f"the log is open for writing in {holders}: close it there first",
        path=directory.path,
        holder=holders,
    )


def _describe_holders(directory: LogDirectory, identity: Identity) -> str:
    with contextlib.suppress(CommitLogError, OSError):
        found = cursors_file.live_writers(directory.fd, identity)
        if found:
            return ", ".join(
                sorted({describe_process(writer.pid, writer.pid_namespace) for writer in found})
            )
    return "another process, which is opening, recovering or repairing it"


def _confirmed(directory: LogDirectory) -> bool:
    if sys.stdin is None or not sys.stdin.isatty():
        raise click.UsageError(
            "standard input is not a terminal to confirm on: add --yes to delete the log"
        )
    count = len(directory.segment_numbers())
    with Stop() as stop:
        # Not `input`: it acts on a Ctrl-C between prompt and read only after the next key.
        click.echo(
            f"Delete {printable(directory.path)} with all its records ({count} segments)? [y/N]: ",
            nl=False,
            err=True,
        )
        if not stop.wait_for(sys.stdin.fileno()):
            raise KeyboardInterrupt
        answer = os.read(sys.stdin.fileno(), 1024)
    return answer.strip().lower() in (b"y", b"yes")


def _remove(directory: LogDirectory, identity: Identity) -> _Removed:
    removed = _Removed(directory.path)
    lock_file = _lock(directory, identity)
    try:
        _discard_buffers(directory, identity, lock_file, removed)
        _remove_folder(directory, _TAILERS, _ANY, removed)
        _remove_folder(directory, _TOPICS, _SCHEMA, removed)
        _remove_staged(directory, removed)
        for name in _in_order(directory.names()):
            _unlink(directory, name, removed)
        directory.sync()
        removed.left = sorted(set(directory.names()) - {LOCK_NAME})
        if not removed.left:
            # Last, with the directory: a process that waits for this lock then cannot create a log
            # here. If the directory stays, the lock file stays, too: a second file of that name
            # would let two processes hold the lock.
            _unlink(directory, LOCK_NAME, removed)
            os.rmdir(os.path.realpath(directory.path))
            removed.directory_removed = True
    finally:
        lock_file.close()
    return removed


def _in_order(names: list[str]) -> list[str]:
    """Return the files to delete: segments first, the oldest first, and the identity last, so that
    a killed run leaves a log.
    """
    ours = [name for name in names if _OURS.fullmatch(name) and name not in (LOCK_NAME, _IDENTITY)]
    ours.sort(key=lambda name: (_SEGMENT.fullmatch(name) is None, name))
    return ours + [_IDENTITY] * (_IDENTITY in names)


def _unlink(directory: LogDirectory, name: str, removed: _Removed) -> None:
    try:
        size = os.stat(name, dir_fd=directory.fd, follow_symlinks=False).st_size
        os.unlink(name, dir_fd=directory.fd)
    except (FileNotFoundError, IsADirectoryError):
        return  # deleted by another process; or a directory, which is reported as left
    removed.files.append(name)
    removed.bytes += size


def _remove_folder(
    directory: LogDirectory, folder: str, ours: re.Pattern[str], removed: _Removed
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


def _remove_staged(directory: LogDirectory, removed: _Removed) -> None:
    """Delete the staged segments that did not join the log."""
    staged = os.path.join(directory.path, STAGED)
    if os.path.isdir(staged) and not os.path.islink(staged):
        removed.files += [
            os.path.relpath(os.path.join(place, name), directory.path)
            for place, _, names in os.walk(staged)
            for name in names
        ]
        shutil.rmtree(staged)


def _discard_buffers(
    directory: LogDirectory, identity: Identity, lock_file: LockFile, removed: _Removed
) -> None:
    """Delete the shared-memory buffers of a killed process: no later process would free them."""
    holder = lock_file.read()
    if holder.boot_id != boot_id().hex() or holder.inode != os.fstat(directory.fd).st_ino:
        return  # the lock file was copied from another log, or is of another boot
    survey = shm_survey.find_buffers((*holder.pool_names, *holder.lent_names), identity.uuid)
    names = [buffer.name for buffer in survey.recoverable]
    for buffer in survey.recoverable:
        buffer.memory.close()
    for name in (*names, *survey.free):
        shm_survey.discard(name)
        removed.buffers.append(name)


def _lines(removed: _Removed) -> list[str]:
    text = [f"{removed.path}: deleted {len(removed.files)} files, {size_text(removed.bytes)}"]
    if removed.buffers:
        text.append(f"  and {len(removed.buffers)} shared-memory buffers of a killed process")
    text += [f"  left: {name}, which is not part of a log" for name in removed.left]
    if removed.left:
        text.append("  the directory is kept with them")
    return text
