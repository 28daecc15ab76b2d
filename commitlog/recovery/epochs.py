"""Epochs: the epochs of one log, in its file `epoch`.

A log without the file is a primary in epoch 0. The file is replaced whole and durably, before the
first append under a new epoch. Once a log has the file, each recovery after a crash is in it, too:
copies may have records that the crash took from the log.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import replace

from commitlog._kernel.segments import file_version
from commitlog.base.boot import boot_id
from commitlog.base.life_lock import LifeLock, open_lock_file
from commitlog.base.polling import attempts
from commitlog.base.regular_file import opened_regular
from commitlog.errors import CorruptSegmentError, ReplicationError
from commitlog.recovery.epoch import new_id
from commitlog.recovery.lineage import Lineage
from commitlog.recovery.place import Place
from commitlog.segment import checked_json, lock_file
from commitlog.segment import identity as identities
from commitlog.segment.directory import LogDirectory
from commitlog.segment.identity import Identity

NAME = "epoch"
_NAME = NAME.encode()
_READS = 16  # of a file that other processes replace
_CHANGE_S = 10.0  # to wait for another process that writes the file


class Epochs:
    """Read and change under which epochs a log was written, and which log it follows.

    Parameters
    ----------
    directory : LogDirectory
        Of the log.
    """

    def __init__(self, directory: LogDirectory) -> None:
        self._directory = directory

    @staticmethod
    def at(path: str) -> tuple[Identity, Lineage] | None:
        """Return identity and lineage of the log at a path; None if there is no log."""
        with contextlib.suppress(FileNotFoundError):
            identity = identities.read_path(path)
            if identity is not None:
                with contextlib.closing(LogDirectory(path, identity)) as directory:
                    return identity, Epochs(directory).read()
        return None

    def read(self) -> Lineage:
        """Return what the file says; a damaged one is a `CorruptSegmentError`."""
        return self._parsed()[0]

    def _parsed(self) -> tuple[Lineage, Place | None]:
        content = checked_json.read(self._directory, NAME)
        try:
            if content is None:
                return Lineage(), None
            return Lineage.parse(content), Place.parse(content.get("place"))
        except ValueError as error:
            raise CorruptSegmentError(
                f"`{NAME}` is damaged: {error}; restore it from another copy of the log",
                path=os.path.join(self._directory.path, NAME),
            ) from None

    def read_placed(self) -> tuple[Lineage, Place | None]:
        """Return the lineage, and where the file was written if that was elsewhere."""
        for _ in range(_READS):
            before = self.version()
            known, written = self._parsed()
            if written is None:
                return known, None
            with opened_regular(NAME, os.O_RDONLY, dir_fd=self._directory.fd) as fd:
                is_same = written.is_same(Place.of(self._directory.fd, fd))
            if is_same or self.version() == before:
                break
        return known, None if is_same else written

    def is_restored(self) -> bool:
        """Return whether a log that is a copy or has copies is in another directory, or a file of
        it is another one, than when its file was written: it was restored from a backup, cloned, or
        moved to another file system. It may lack records and promises.
        """
        known, elsewhere = self.read_placed()
        return elsewhere is not None and known.is_replicated

    def exists(self) -> bool:
        """Return whether the log has the file."""
        return self.version() != (0, 0)

    def version(self) -> tuple[int, int]:
        """Return a value that differs after each `write`; it takes about a microsecond."""
        return file_version(self._directory.fd, _NAME)

    def copy_id(self) -> str:
        """Return a text that differs between directories: this boot and the directory."""
        status = os.fstat(self._directory.fd)
        return f"{boot_id().hex()}:{status.st_dev}:{status.st_ino}"

    def change(self, of: Callable[[Lineage], Lineage]) -> Lineage:
        """Replace the file by what `of` makes of its content, while no other process does the same;
        return what it has then.
        """
        with self._directory.translate_errors(f"lock `{NAME}`"):
            # A byte of `lock`: a user who may only read could lock the directory without end.
            lock = LifeLock(
                lambda: open_lock_file(lock_file.NAME, self._directory.fd),
                kind=None,
                span=lock_file.EPOCH,
            )
        with contextlib.closing(lock):
            changing = attempts(
                _CHANGE_S, f"the process that writes `{NAME}` of {self._directory.path}"
            )
            if any(lock.acquire("exclusive") for _ in changing):
                known = self.read()
                new = of(known)
                return known if new == known else self.write(new)
        raise ReplicationError(
            f"another process has locked `{NAME}` for {_CHANGE_S:g} s: end it, or try again",
            path=self._directory.path,
        )

    def write(self, lineage: Lineage, place: Place | None = None) -> Lineage:
        """Replace the file durably, and return the lineage, with an id if it had none; refuse more
        epochs than a reader of it accepts. The caller owns the log.

        Parameters
        ----------
        place : Place, optional
            Where the file was written first.
        """
        if len(lineage.epochs) > Lineage.EPOCHS_LIMIT:
            raise ReplicationError(
                f"`{NAME}` has {Lineage.EPOCHS_LIMIT} promotions and recoveries, its limit, and is "
                "not changed: remove all copies of this log, then its file `epoch`, open the log, "
                "and follow it again; if it has a store, promote it with the store",
                path=self._directory.path,
            )
        new = lineage if lineage.member else replace(lineage, member=new_id())

        def placed(fd: int) -> dict[str, object]:
            return {"place": (place or Place.of(self._directory.fd, fd)).content()}

        with self._directory.translate_errors(f"write `{NAME}`"):
            checked_json.write(self._directory, NAME, new.content(), placed)
        return new
