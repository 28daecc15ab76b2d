"""A log's directory: its segments, and the creation of new ones."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

from commitlog._kernel import segments as kernel
from commitlog._kernel.failure import FAILED, failure
from commitlog._kernel.segments import Segment
from commitlog.base import temporary_file
from commitlog.base.failpoint import failpoint
from commitlog.base.path import translate_errors
from commitlog.base.regular_file import Descriptor, opened_regular, read_range
from commitlog.base.roll_cycle import clock_of
from commitlog.errors import ClosedError, DiskFullError, IOFailureError
from commitlog.segment.identity import Identity
from commitlog.segment.new_file import put_new_file

_NAME = re.compile(r"^([0-9]{20})\.seg$")
_BESIDE = re.compile(r"^[0-9]{20}\.(?:idx|pst)$")
NUMBER_MOST = 2**32 - 1  # the largest number that fits a packed tail
BLOCK = 512  # the unit of `st_blocks`, in bytes
# Lists staged segments that are about to join this log: see commitlog/recovery/join_note.py.
JOIN_NOTE = "joining"
# The directory in which segments for this log are made, before they join it.
STAGED = ".staged"


def segment_name(base: int) -> str:
    """The file name of the segment that starts at position `base`."""
    return f"{base:020d}.seg"


def index_name(base: int) -> str:
    return f"{base:020d}.idx"


def posting_name(base: int) -> str:
    """The file name of the posting lists of the segment that starts at position `base`."""
    return f"{base:020d}.pst"


def names_in(dir_fd: int) -> list[str]:
    """Return the names of all files in a directory; none once it is removed.

    Read through a descriptor of its own: threads and children of a fork that list by the same
    descriptor, or a duplicate of it, share its read offset, and each would miss names that another
    has just read. A caller that lists by its own descriptor does not need this.
    """
    try:
        own_fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=dir_fd)
    except FileNotFoundError:
        return []
    try:
        return os.listdir(own_fd)
    finally:
        os.close(own_fd)


def segment_bases(names: Iterable[str]) -> dict[str, int]:
    """Return the base of each segment file among other names, ascending."""
    bases = {name: int(match[1]) for name in names if (match := _NAME.match(name))}
    return dict(sorted(bases.items()))


def is_base(base: int, segment_size: int) -> bool:
    """Return whether a segment of that size can begin at a position."""
    return base % segment_size == 0 and base // segment_size <= NUMBER_MOST


def holes(numbers: list[int], segment_size: int) -> list[tuple[int, int]]:
    """Return the ranges of positions at which segments are missing between others."""
    return [
        ((before + 1) * segment_size, after * segment_size)
        for before, after in pairwise(numbers)
        if after != before + 1
    ]


def open_folder(path: str) -> Descriptor:
    """Open a directory of segments."""
    return Descriptor(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))


class LogDirectory:
    """An open directory of segments.

    Parameters
    ----------
    path : str
        The directory, and its name in messages.
    identity : Identity
        The log.
    fd : Descriptor, optional
        The directory, if it is open already.
    """

    # Segments that stay mapped for the next reader after the last one has left.
    idle_kept = 16
    # The same once a view has read: the first touch of a page of a mapping takes microseconds.
    viewed_kept = 256
    # What is printed: "log", or the kind of the source that the segments come from.
    kind = "log"
    # Marks the log as failed with an errno; None unless a writable handle has the log open.
    fail_log: Callable[[int], None] | None = None

    def __init__(self, path: str, identity: Identity, fd: Descriptor | None = None) -> None:
        self.path = path
        self.identity = identity
        self.segment_size = identity.segment_size
        self.log_uuid = identity.uuid
        cycle = identity.roll_cycle
        self.cycle_clock = None if cycle is None else clock_of(cycle)
        self._fd: Descriptor | None = fd or open_folder(path)
        status = os.fstat(self._fd)
        # Which directory it is, by device and inode.
        self.inode = (status.st_dev, status.st_ino)
        # Files of segments below this number do not change any more: each is measured once.
        self.settled_below = 0
        self._settled: dict[str, int] = {}

    @property
    def fd(self) -> Descriptor:
        """The directory's descriptor. Keep it no longer than a call takes: the last reference to it
        closes it, once `close` was called.
        """
        fd = self._fd
        if fd is None:
            raise ClosedError("the log is closed: open it again", path=self.path)
        return fd

    def sequences(self) -> tuple[int, int] | None:
        """Return the first sequence, and the one behind the last, if few headers tell them."""
        return None

    def forked(self) -> None:
        """In the child of a fork: another thread of the parent may have held a lock."""

    def close(self) -> None:
        """Release the descriptor; idempotent. Present calls of other threads keep it open."""
        self._fd = None

    def segment_path(self, number: int) -> str:
        return os.path.join(self.path, segment_name(number * self.segment_size))

    def translate_errors(self, doing: str) -> contextlib.AbstractContextManager[None]:
        return translate_errors(self.path, doing)

    def names(self) -> list[str]:
        """Return the names of all files in the directory; none once it is removed."""
        with self.translate_errors("list the log's directory"):
            return names_in(self.fd)

    def segment_numbers(self) -> list[int]:
        """Return the numbers of all segment files, ascending; other names are ignored."""
        size = self.segment_size
        bases = segment_bases(self.names()).values()
        return [base // size for base in bases if is_base(base, size)]

    def cycle_at(self, opened_ns: int) -> int:
        """Return the cycle of a roll at that time; 0 if the log rolls by size alone."""
        return 0 if self.cycle_clock is None else self.cycle_clock.number_at(opened_ns)

    def header_page(
        self,
        number: int,
        segment_id: int,
        created_ns: int,
        opened_ns: int = 0,
        durable: int = 0,
    ) -> bytes:
        """Return the first page of a segment without a seal, into which the log rolled at
        `opened_ns`. Everything below the position `durable` is durable now.
        """
        cycle = self.cycle_at(opened_ns) if opened_ns else 0
        base = number * self.segment_size
        return kernel.header_page(
            self.log_uuid,
            segment_id,
            base,
            self.segment_size,
            created_ns,
            opened_ns,
            cycle,
            durable,
        )

    def has(self, number: int) -> bool:
        return self.has_file(segment_name(number * self.segment_size))

    def has_file(self, name: str) -> bool:
        """Return whether the directory has a file of that name."""
        with self.translate_errors(f"look for {name}"):
            try:
                os.stat(name, dir_fd=self.fd, follow_symlinks=False)
            except FileNotFoundError:
                return False
        return True

    def check(self) -> None:
        """Raise if no new records can arrive, because their source is out of reach."""

    def look_again(self) -> None:
        """List another place anew, if segments come from one: an error will name the first."""

    def fetch(self, number: int) -> None:
        """Fetch a segment file, if it comes from another place."""

    def is_older(self, number: int) -> bool:
        """Return whether a segment is in the log's store, and below those of this directory."""
        return False

    def is_stored(self, number: int) -> bool:
        """Return whether the log's store has a segment whole; this directory may have it, too."""
        return False

    def elsewhere(self, number: int) -> Segment | None:
        """Open and map a segment whose file is in another place than this directory; None for one
        that is here.
        """
        return None

    def read_header(self, number: int) -> bytes | None:
        """Read the header page of a segment from its file; None if it cannot be read."""
        with contextlib.suppress(OSError), self.opened_file(number) as fd:
            return read_range(fd, kernel.HEADER_SIZE, 0)
        return None

    def opened_file(
        self, number: int, flags: int = os.O_RDONLY
    ) -> contextlib.AbstractContextManager[int]:
        """Open a segment's file for the length of a `with`."""
        name = segment_name(number * self.segment_size)
        return opened_regular(name, flags, dir_fd=self.fd)

    def disk_bytes(self, number: int) -> int:
        """Return the disk space of a segment file; 0 if it is gone."""
        return self._disk_bytes_of(segment_name(number * self.segment_size))

    def whole_disk_bytes(self) -> int:
        """Return the disk space of all files, also of those that are no segments."""
        known, stop = self._settled, segment_name(self.settled_below * self.segment_size)
        taken = {name: known.get(name) or self._disk_bytes_of(name) for name in self.names()}
        self._settled = {name: taken[name] for name in taken if name[:1].isdigit() and name < stop}
        return sum(taken.values())

    def _disk_bytes_of(self, name: str) -> int:
        with self.translate_errors(f"measure {name}"), contextlib.suppress(FileNotFoundError):
            return os.stat(name, dir_fd=self.fd, follow_symlinks=False).st_blocks * BLOCK
        return 0

    @property
    def joining(self) -> bool:
        """Whether a join has begun and is not finished, also if its process died."""
        return self.has_file(JOIN_NOTE)

    def open_segment(self, number: int, *, writable: bool) -> Segment:
        """Open and map a segment outside a kernel handle's table: for recovery and verification."""
        return Segment.open(self.fd, self.path, number, self.segment_size, self.log_uuid, writable)

    @contextlib.contextmanager
    def opened_segment(self, number: int, *, writable: bool = False) -> Iterator[Segment]:
        """Open and map a segment for the length of a `with`: see `open_segment`."""
        segment = self.open_segment(number, writable=writable)
        try:
            yield segment
        finally:
            segment.release()

    def create_segment(
        self,
        number: int,
        *,
        opened_ns: int = 0,
        segment_id: int | None = None,
        frames: bytes = b"",
        allocated: int | None = None,
        durable: int = 0,
    ) -> bool:
        """Create a segment complete under a temporary name, then put it in place; return False if
        another handle has created it.

        `segment_id` is for recovery and repair, which have frames that carry it; a new segment gets
        a random one. One that is created with `frames` is closed: nothing is written behind them,
        and the rest of the file is a hole. Otherwise `allocated` says how much of it gets blocks;
        None: all. The header keeps `durable`, a position below which everything is durable now.

        If this raises `LogFailedError`, the segment is in place, and its name could not be made
        durable. After other errors nothing is in place, and the next try starts over.
        """
        base = number * self.segment_size
        if segment_id is None:
            segment_id = int.from_bytes(os.urandom(8), "little")
        page = self.header_page(number, segment_id, time.time_ns(), opened_ns, durable)
        allocated = self.segment_size if allocated is None else allocated
        placed = False
        try:
            with translate_errors(
                self.segment_path(number), f"create a segment of {allocated} bytes"
            ):
                placed = put_new_file(
                    self.fd,
                    segment_name(base),
                    page + frames,
                    self.segment_size,
                    allocated=0 if frames else allocated,
                )
        except DiskFullError:
            # Another handle that created it meanwhile may have used the last free space.
            if not self.has(number):
                raise
        self.sync()
        failpoint("directory synced")
        return placed

    def _unlink(self, name: str, *harmless: type[OSError]) -> None:
        with (
            self.translate_errors(f"remove {name}"),
            contextlib.suppress(FileNotFoundError, *harmless),
        ):
            os.unlink(name, dir_fd=self.fd)

    def remove_segment(self, number: int) -> None:
        """Remove a segment file, its index and its posting lists; missing ones are no error."""
        self._unlink(segment_name(number * self.segment_size))
        self.remove_index(number)

    def remove_index(self, number: int) -> None:
        """Remove the index and the posting lists of a segment that was deleted or changed."""
        # A directory is never read as an index.
        for name in (index_name, posting_name):
            self._unlink(name(number * self.segment_size), IsADirectoryError)

    def landing(self, position: int) -> int:
        """Return where a reader from the segment's start continues at or behind a position: behind
        the SKIP that contains it.
        """
        number, offset = divmod(position, self.segment_size)
        if offset % kernel.FRAME_ALIGN or not self.has(number):
            return position
        with self.opened_segment(number) as segment:
            return number * self.segment_size + segment.landing(offset)

    def sweep(self) -> None:
        """Remove what killed creations and deletions have left. Only under the exclusive lock."""
        with self.translate_errors("remove temporary files"):
            temporary_file.sweep(self.fd)
        names = set(self.names())
        for name in names:
            if _BESIDE.match(name) and f"{name[:20]}.seg" not in names:
                self._unlink(name, IsADirectoryError)

    def sync(self) -> None:
        """Make the directory's entries durable.

        The system reports a failed fsync once; the next one may succeed without having written
        anything. So a failure here fails a log that is open for writing: `LogFailedError`.
        """
        try:
            os.fsync(self.fd)
        except OSError as error:
            if self.fail_log is not None:
                cause = error.errno or errno.EIO
                self.fail_log(cause)
                raise failure(FAILED, cause, path=self.path) from error
            raise IOFailureError(
                f"the log's directory could not be made durable: {error.strerror}; fix the cause, "
                "then open the log again",
                path=self.path,
                errno=error.errno,
            ) from error
