"""`commitlog remove`: deletes a log, and nothing else."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
from dataclasses import asdict, dataclass, field

import click

from commitlog.base.boot import boot_id
from commitlog.cli import FAILURE
from commitlog.cli.output import print_json
from commitlog.cli.quantities import size_text
from commitlog.cli.stop import Stop
from commitlog.errors import CommitLogError, LogLockedError, NotALogError, ReadOnlyError
from commitlog.pool import shm
from commitlog.repair.verification import open_directory, read_identity
from commitlog.segment import cursors_file
from commitlog.segment.directory import STAGED, LogDirectory
from commitlog.segment.identity import Identity
from commitlog.segment.lock_file import NAME as LOCK_NAME
from commitlog.segment.lock_file import LockFile, describe_process, is_foreign, process_name

_TAILERS = "tailers"
_IDENTITY = "log.json"
# What a log consists of, its index, what recovery and repair have saved from it, and what they left
# when they were killed.
_SEGMENT = re.compile(r"[0-9]{20}\.(?:seg|idx)")
_OURS = re.compile(
    r"(?:[0-9]{20}\.(?:seg|idx)|log\.json|checkpoint|cursors|lock|joining|joined)(?:\.(?:cut|broken)(?:\.[0-9]+)?)?"
    r"|\.(?:[0-9]{20}\.seg|log\.json|checkpoint|joining|joined)(?:\.(?:cut|broken))?\.[0-9a-f]{16}\.tmp"
)


@dataclass
class _Removed:
    """What came of it."""

    path: str
    files: list[str] = field(default_factory=list)
    bytes: int = 0
    buffers: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    directory_removed: bool = False


@click.command()
@click.argument("log", type=click.Path())
@click.option("-y", "--yes", is_flag=True, help="Delete without asking.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@click.pass_context
def command(context: click.Context, *, log: str, yes: bool, as_json: bool) -> None:
    """Delete LOG with all its records for good.

    It refuses while a process has LOG open for writing. It asks on a terminal, and needs --yes
    elsewhere. It deletes only the files of a log; if there are others, they stay, with the
    directory.

    \b
    Examples:
      commitlog remove orders
      commitlog remove --yes --json orders
    """
    if os.path.islink(log.rstrip("/")):
        raise NotALogError(
            f"this is a symbolic link: name the log itself, {os.path.realpath(log)}", path=log
        )
    fd = open_directory(log)
    try:
        identity, _ = read_identity(fd, log)
    finally:
        os.close(fd)
    directory = LogDirectory(log, identity.segment_size, identity.uuid, identity.roll_cycle)
    try:
        _check_permission(directory)
        _check_unheld(directory, identity)
        if not yes and not _confirmed(directory):
            click.echo("nothing was deleted", err=True)
            context.exit(FAILURE)
        removed = _remove(directory, identity)
    finally:
        directory.close()
    if as_json:
        print_json(asdict(removed))
    else:
        click.echo("\n".join(_lines(removed)))
    context.exit(0 if removed.directory_removed else FAILURE)


def _check_permission(directory: LogDirectory) -> None:
    """Refuse at once: what is not there for others to see, buffers and the places of tailers, would
    go, and the log would stay.
    """
    folders = [
        path
        for name in ("", _TAILERS, STAGED)
        if os.path.isdir(path := os.path.join(directory.path, name))
    ]
    for folder in folders:
        if not os.access(folder, os.R_OK | os.W_OK | os.X_OK, effective_ids=True):
            raise ReadOnlyError(
                "no permission to delete what is in here: do it as another user, or fix the "
                "permissions",
                path=folder,
            )


def _check_unheld(directory: LogDirectory, identity: Identity) -> None:
    """Refuse before anybody is asked. The lock is not kept meanwhile: a question may stay
    unanswered for long.
    """
    _lock(directory, identity).close()


def _lock(directory: LogDirectory, identity: Identity) -> LockFile:
    lock_file = LockFile(directory.fd)
    if lock_file.acquire("exclusive"):
        return lock_file
    holders = _describe_holders(directory, identity, lock_file)
    lock_file.close()
    raise LogLockedError(
        f"the log is open for writing in {holders}: close it there first",
        path=directory.path,
        holder=holders,
    )


def _describe_holders(directory: LogDirectory, identity: Identity, lock_file: LockFile) -> str:
    """Name the processes that hold the lock, for a message."""
    with contextlib.suppress(CommitLogError, OSError):
        found = cursors_file.live_writers(directory.fd, identity)
        if found:
            return ", ".join(
                sorted({describe_process(writer.pid, writer.pid_namespace) for writer in found})
            )
    holder = lock_file.read()
    if (
        holder.boot_id == boot_id().hex()
        and not is_foreign(holder.pid_namespace)
        and process_name(holder.pid) == holder.name
    ):
        return holder.describe()
    return "another process, which is opening, recovering or repairing it"


def _confirmed(directory: LogDirectory) -> bool:
    if sys.stdin is None or not sys.stdin.isatty():
        raise click.UsageError("there is no terminal to ask on: say --yes to delete the log")
    count = len(directory.segment_numbers())
    with Stop() as stop:
        # Not `input`: a Ctrl-C between its prompt and its reading is not seen before the next key.
        click.echo(
            f"Delete {directory.path} with all its records ({count} segments)? [y/N]: ",
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
        _remove_tailers(directory, removed)
        _remove_staged(directory, removed)
        for name in _in_order(directory.names()):
            _unlink(directory, name, removed)
        directory.sync()
        removed.left = sorted(set(directory.names()) - {LOCK_NAME})
        if not removed.left:
            # Last, and with the directory: whoever waits for this lock finds no place left to
            # create a log in. Where the directory stays, the lock stays too, since two could
            # otherwise hold two files of that name.
            _unlink(directory, LOCK_NAME, removed)
            os.rmdir(os.path.realpath(directory.path))
            removed.directory_removed = True
    finally:
        lock_file.close()
    return removed


def _in_order(names: list[str]) -> list[str]:
    """The files to delete: segments first, oldest first, so that a log stays a log when this is
    killed half-way; the identity last.
    """
    ours = [name for name in names if _OURS.fullmatch(name) and name not in (LOCK_NAME, _IDENTITY)]
    ours.sort(key=lambda name: (_SEGMENT.fullmatch(name) is None, name))
    return ours + [_IDENTITY] * (_IDENTITY in names)


def _unlink(directory: LogDirectory, name: str, removed: _Removed) -> None:
    try:
        size = os.stat(name, dir_fd=directory.fd, follow_symlinks=False).st_size
        os.unlink(name, dir_fd=directory.fd)
    except (FileNotFoundError, IsADirectoryError):
        return  # gone already, or not what its name says: then it is listed as left
    removed.files.append(name)
    removed.bytes += size


def _remove_tailers(directory: LogDirectory, removed: _Removed) -> None:
    """The positions of named tailers: plain files in a folder of their own."""
    try:
        fd = os.open(
            _TAILERS,
            os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW,
            dir_fd=directory.fd,
        )
    except OSError:
        return
    try:
        for name in sorted(os.listdir(fd)):
            with contextlib.suppress(
                IsADirectoryError
            ):  # no tailer's: then the folder is listed as left
                os.unlink(name, dir_fd=fd)
                removed.files.append(os.path.join(_TAILERS, name))
        if not os.listdir(fd):
            os.rmdir(_TAILERS, dir_fd=directory.fd)
    finally:
        os.close(fd)


def _remove_staged(directory: LogDirectory, removed: _Removed) -> None:
    """Segments that were made for this log and did not join it."""
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
    """Shared-memory buffers that a killed process left with records of this log would stay in
    memory for ever.
    """
    holder = lock_file.read()
    if holder.boot_id != boot_id().hex() or holder.inode != os.fstat(directory.fd).st_ino:
        return  # a copy of another log's file, or of another boot: they are not ours
    survey = shm.find_buffers((*holder.pool_names, *holder.lent_names), identity.uuid)
    names = [buffer.name for buffer in survey.recoverable]
    for buffer in survey.recoverable:
        buffer.header.close()
        buffer.memory.close()
    for name in (*names, *survey.free):
        shm.discard(name)
        removed.buffers.append(name)


def _lines(removed: _Removed) -> list[str]:
    said = [f"{removed.path}: deleted {len(removed.files)} files, {size_text(removed.bytes)}"]
    if removed.buffers:
        said.append(
            f"  and {len(removed.buffers)} shared-memory buffers that a killed process had left"
        )
    said += [f"  left: {name}, which is no part of a log" for name in removed.left]
    if removed.left:
        said.append("  the directory stays for what is left")
    return said
