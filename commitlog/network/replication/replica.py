"""Replica: the log that a follower writes, byte for byte as its primary's."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace

from commitlog.base.failpoint import failpoint
from commitlog.base.host import host
from commitlog.base.path import translate_errors
from commitlog.errors import FencedError, ReplicationError
from commitlog.extension import Lineage, LockedLog, Rank
from commitlog.network.replication.digests import Digests
from commitlog.network.replication.followed_mark import FollowedMark
from commitlog.network.replication.following import Copy
from commitlog.network.replication.promise import Asked, Standing, standing_of
from commitlog.network.replication.wire import Chunk

_SCHEMAS = "topics"  # a folder: a copy of the schemas of messages


def fence_closed(path: str, asked: Asked) -> tuple[Rank, Standing]:
    """Have a log promise an epoch that no follower and no writer has open."""
    replica = Replica(path)
    try:
        return replica.promise(asked)
    finally:
        replica.close()


class Replica:
    """The log of a follower: chunks, epochs, promises, and how far its primary was durable.

    Parameters
    ----------
    path : str
        A directory with `log.json`, `epoch` and at least one segment.
    restored : bool
        Go on with a directory that was restored or cloned, as a new copy.
    checked : bool
        The caller has checked that already.
    """

    def __init__(self, path: str, *, restored: bool = False, checked: bool = False) -> None:
        self.log = log = LockedLog.open(path)
        try:
            self.lineage = log.epochs.read() if checked else self._admit(restored=restored)
            self.digests = Digests(log)
            self.followed = FollowedMark(log.notes)
            self.follows_primary = False  # and not another copy of it
            # Held by the thread that writes here, or that changes the lineage.
            self.lock = host.lock()
            self._writer = log.writer()
        except BaseException:
            log.close()
            raise
        self._size = log.identity.segment_size
        self._closed = False

    def _admit(self, *, restored: bool) -> Lineage:
        """Return the lineage; refuse a directory that is another one than before."""
        epochs = self.log.epochs
        known = epochs.read()
        if epochs.is_restored():
            if not restored:
                raise FencedError(
                    "this directory is another one than before: it was restored from a backup, "
                    "cloned, or moved to another file system, so it may lack records and promises "
                    "that it gave. Remove it and follow again, or go on with it as a new copy: "
                    "`commitlog follow --restored`, or restored=True",
                    path=self.log.path,
                )
            known = replace(known, member="")
        # Written anew each time, so that an older state of the directory shows.
        return epochs.write(known) if known.is_replicated else known

    @property
    def position(self) -> int:
        """The end of what is durable here."""
        return self._writer.durable

    @property
    def is_fenced(self) -> bool:
        """Whether the copy has promised an epoch that it does not have yet."""
        return self.lineage.promised > self.lineage.rank

    def copy(self) -> Copy:
        """Return what the copy is now."""
        return Copy(self.log.identity, self.lineage, self.position, self.followed.position)

    def identify(self) -> str:
        """Return the id of this log; give it one if it has none."""
        with self.lock:
            if not self.lineage.member:
                self._write(self.lineage)
            return self.lineage.member

    def adopt(self, new: Lineage) -> None:
        """Record the primary's lineage durably, before frames of a new epoch."""
        if new != self.lineage:
            self.check_in_place()
            # Nothing updates what a former primary knows of its store: it would keep all segments.
            self.log.forget_store()
            self._write(new)
            failpoint("lineage adopted")

    def check_in_place(self) -> None:
        """Raise `FencedError` if the files here were replaced, and nothing counts any more."""
        self._writer.check_in_place()

    def _write(self, new: Lineage) -> None:
        self.check_in_place()  # else a restored directory would say that it was written here
        self.lineage = self.log.epochs.write(new)

    def promise(self, asked: Asked) -> tuple[Rank, Standing]:
        """Promise durably to follow nothing below an epoch, unless a higher one was promised.

        Returns what is promised now, and the standing, which does not change before that epoch.
        """
        with self.lock:
            if self._closed:
                raise ReplicationError(
                    "the copy is closed or cut at this moment: ask again", path=self.log.path
                )
            self.sync()
            new = asked.answered(self.lineage)
            if new != self.lineage:
                self._write(new)
                failpoint("fence written")
            self.check_in_place()
            standing = standing_of(self.lineage, self.position, self.log.identity)
            return self.lineage.promised, standing

    def cut(self, position: int) -> None:
        """Cut the records from a position on, which the primary's log does not have; save them to
        `<segment>.fork`. The copy has to be closed and opened again.
        """
        if position < self._writer.first:
            raise FencedError(
                f"this log and its primary diverged at {position}, and the segments before are "
                "deleted here: keep what you need of this log, remove it, and follow again",
                path=self.log.path,
                position=position,
            )
        # First: what an epoch says was durable would be missing after a kill.
        self.adopt(self.lineage.reached(position))
        self.followed.lower(position)
        # It may name schemas that are cut, and is made again from those in the segments.
        shutil.rmtree(os.path.join(self.log.path, _SCHEMAS), ignore_errors=True)
        self._writer.cut(position)

    def unsealed(self) -> list[int]:
        """Return the whole segments without a seal."""
        return self._writer.unsealed()

    def write(self, chunk: Chunk) -> None:
        """Write a chunk, show it to readers, and make it durable; refuse one that does not fit.

        If more chunks come at once, because the primary has flushed beyond this one, several are
        made durable together. `FencedError`: the files here were replaced.
        """
        with translate_errors(self.log.path, "write the copy"):
            try:
                if chunk.header:
                    self._write_header(chunk)
                elif chunk.frames:
                    self._write_frames(chunk)
            except ValueError as error:
                raise ReplicationError(
                    f"the primary sent {error}", path=self.log.path, position=self.position
                ) from error
            self.check_in_place()
            if self.follows_primary:  # a copy flushes what its primary may not have flushed yet
                self.followed.note(min(chunk.flushed, self.position), chunk.flushed)
            self._writer.mark()

    def _write_header(self, chunk: Chunk) -> None:
        if chunk.offset == self._size:
            self._writer.seal(chunk.number, chunk.header)
        else:
            self._writer.header(chunk.number, chunk.header)

    def _write_frames(self, chunk: Chunk) -> None:
        position = chunk.number * self._size + chunk.offset
        end = position + len(chunk.frames)
        self._writer.frames(position, chunk.frames, more=end < chunk.flushed)

    def sync(self) -> None:
        """Make durable what was written; the caller holds the lock."""
        self._writer.sync()

    def settle(self) -> None:
        """Make durable what was written and known of the primary, when a stream of it ends."""
        self.sync()
        self.check_in_place()
        self.followed.settle()

    def close(self) -> None:
        """Mark the copy as closed cleanly, and release its lock; a second call does nothing."""
        self._closed = True
        self._writer.close()
