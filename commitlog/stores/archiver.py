"""Archiver: compress sealed segments of a log into a store."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator
from typing import BinaryIO

from commitlog.base.failpoint import failpoint
from commitlog.errors import (
    CommitLogError,
    CorruptSegmentError,
    IOFailureError,
    LogExistsError,
    PositionError,
)
from commitlog.errors.advice import with_advice
from commitlog.extension import HEADER_SIZE, LogFiles
from commitlog.stores import own_sessions
from commitlog.stores.archived import archived_name, compressor, read_pieces
from commitlog.stores.store_options import StoreOptions
from commitlog.stores.store_session import foreign, newest_session
from commitlog.stores.target import LocalTarget, target_of
from commitlog.types import Identity

_logger = logging.getLogger("commitlog.keep")
_PIECE = 1 << 20


class Archiver:
    """Put segments of one log into a store."""

    def __init__(self, files: LogFiles, store: StoreOptions) -> None:
        self._files = files
        self._size = files.identity.segment_size
        self._level = store.level
        self.target = target_of(store.target, store.filesystem)
        self._checked = False
        self._named = False
        self._there: frozenset[str] | None = None  # what the target had at the first look
        self._is_own = False

    def put(self, number: int, *, replace: bool = True) -> bool:
        """Store a sealed segment durably; return False if an identical copy exists.

        A different copy, which a killed process or a power cut left, is replaced. Without
        `replace`, another writer put it: raise `LogExistsError`. A segment that is damaged or not
        sealed is refused, and so is a target that holds another log.
        """
        name = archived_name(number * self._size)
        with self._translate_errors(number):
            if replace:
                self._refuse_foreign()
            self._name_log()
            with self._opened(number) as content:
                self._check(number)
                if replace and self._has(number, content):
                    self.target.settle()
                    return False
                content.seek(0)
                sizes: list[int] = []
                if self.target.put(
                    name,
                    lambda file: sizes.append(self._compress(content, file)),
                    replace=replace,
                ):
                    self._check_size(name, sizes[-1])
                    return True
                # This call put it and the answer was lost, an earlier process did, or another one.
                content.seek(0)
                if self._is_same(number, content):
                    return False
            raise LogExistsError(
                "another writer stored another segment at this position, so this log is not stored "
                "any more: use a new target",
                path=self.target.path_of(name),
                position=number * self._size,
            )

    def prepare(self) -> None:
        """Refuse the target of another log, and write this one's identity into an empty one."""
        with self._translate_errors(0):
            self._name_log()

    def check_target(self) -> None:
        """Raise if the target cannot be reached, or belongs to another log or another writer."""
        with self._translate_errors(0):
            self._refuse_foreign()
            self.target.check()

    def check(self, number: int) -> None:
        """Raise what `put` would for a segment, if the target can be written."""
        with self._translate_errors(number), self._opened(number):
            self._check(number)

    @contextlib.contextmanager
    def _translate_errors(self, number: int) -> Iterator[None]:
        """Check once that the target is empty, or the archive of this log; translate an OSError."""
        try:
            if not self._checked:
                self._refuse_others()
                self._checked = True
            yield
        except CommitLogError:
            raise
        except FileNotFoundError as error:
            raise PositionError(
                "the segment was deleted before it was archived",
                path=self._files.location(number),
            ) from error
        except OSError as error:
            raise IOFailureError(
                "the archive cannot be written: "
                f"{with_advice(error.strerror or str(error), error.errno)}",
                path=self.target.name,
                errno=error.errno,
            ) from error

    def _name_log(self) -> None:
        """Write the log's identity to the target before any segment."""
        if not self._named and Identity.FILE_NAME not in self.target.names():
            text = self._files.identity_text()
            if not self.target.put(
                Identity.FILE_NAME, lambda file: file.write(text), replace=False
            ):
                self._refuse_others()  # another process has just written it
        self._named = True

    def _refuse_others(self) -> None:
        names = self.target.names()
        if any(name.endswith(".seg") for name in names) or self._lies_in_log():
            raise LogExistsError(
                "the target is in a log's directory: choose another directory for the archive",
                path=self.target.name,
            )
        if Identity.FILE_NAME not in names:
            if any(name.endswith(".zst") for name in names):
                raise LogExistsError(
                    f"the target has archived segments but no {Identity.FILE_NAME}: choose another",
                    path=self.target.name,
                )
            return
        with self.target.open(Identity.FILE_NAME) as file:
            there = Identity.read_from(file, self.target.path_of(Identity.FILE_NAME))
        if there.uuid != self._files.identity.uuid:
            raise LogExistsError(
                "the target holds the archive of another log: choose another one",
                path=self.target.name,
            )

    def _refuse_foreign(self) -> None:
        """Refuse a store whose writer is not this directory: a copy would replace its segments."""
        if self._is_own:
            return
        newest = newest_session(self.target)
        if newest.number and not own_sessions.read(self._files.notes).has(newest.id):
            raise foreign(self.target, newest.number)
        self._is_own = True

    def _lies_in_log(self) -> bool:
        """Return whether the target is in the log, where its files would be mistaken for others."""
        if not isinstance(self.target, LocalTarget):
            return False
        own = os.path.realpath(self._files.path)
        return os.path.commonpath((own, os.path.realpath(self.target.name))) == own

    @contextlib.contextmanager
    def _opened(self, number: int) -> Iterator[BinaryIO]:
        with self._files.opened_file(number) as fd, open(fd, "rb", closefd=False) as content:
            if os.fstat(fd).st_size != self._size:
                raise self._corrupt(number, "has the wrong size")
            yield content

    def _check(self, number: int) -> None:
        """Check every frame, because the archived copy will be the only one."""
        with self._files.opened_segment(number) as segment:
            seal = segment.sealed()
            if seal is None:
                raise self._corrupt(number, "is not sealed")
            found = segment.scan(HEADER_SIZE)
            if found[1] != 0 or (found[4], found[2]) != (seal[0], seal[2]):
                raise self._corrupt(number, "is damaged")

    def _corrupt(self, number: int, what: str) -> CorruptSegmentError:
        return CorruptSegmentError(
            f"the segment {what} and was not archived: run `commitlog verify` on the log",
            path=self._files.location(number),
            position=number * self._size,
        )

    def _has(self, number: int, content: BinaryIO) -> bool:
        base = number * self._size
        if self._there is None:
            self._there = frozenset(self.target.names())
        if archived_name(base) not in self._there:
            return False
        try:
            same = self._is_same(number, content)
        except FileNotFoundError:  # deleted since
            return False
        except CorruptSegmentError as error:
            _logger.warning("%s; it is written again", error)
            return False
        if not same:
            _logger.warning(
                "%s differs from the segment; it is written again",
                self.target.path_of(archived_name(base)),
            )
        return same

    def _is_same(self, number: int, content: BinaryIO) -> bool:
        base = number * self._size
        return all(
            content.read(len(piece)) == piece
            for piece in read_pieces(self.target, base, self._files.identity)
        )

    def _check_size(self, name: str, size: int) -> None:
        """Refuse an object that is cut short, because the segment is deleted for it."""
        if (found := self.target.size(name)) != size:
            raise IOFailureError(
                f"the archive has {found} bytes of an object of {size}: check its store, then "
                "delete the object",
                path=self.target.path_of(name),
            )

    def _compress(self, content: BinaryIO, file: BinaryIO) -> int:
        stream = compressor(self._level).compressobj(size=self._size)
        file.writelines(stream.compress(piece) for piece in iter(lambda: content.read(_PIECE), b""))
        file.write(stream.flush())
        failpoint("segment compressed")
        return file.tell()
