"""TailerMethods: the tailers and cycles of an open log."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from commitlog.base.file_system import check_file_system
from commitlog.base.units import Size, parse_duration, parse_size
from commitlog.errors import InvalidOptionError, ReadOnlyError
from commitlog.log.parts import LogParts
from commitlog.tail import tailer_file, tailer_state
from commitlog.tail.cycles import Cycle, CycleLike
from commitlog.tail.seek import Direction, Seeker, Start, Visibility
from commitlog.tail.segment_holder import OnDamage
from commitlog.tail.tailer import Tailer
from commitlog.tail.tailer_file import Durable, Notify, TailerFile
from commitlog.tail.tailer_folder import check_name
from commitlog.tail.tailer_state import TailerState

if TYPE_CHECKING:
    from commitlog.remote.remote_tailers import RemoteTailers

_NEVER_NS = -1


class TailerMethods:
    """The tailer and cycle methods of `CommitLog`."""

    _parts: LogParts

    def tailer(
        self,
        name: str | None = None,
        *,
        start: Start | None = None,
        direction: Direction = "forward",
        visibility: Visibility = "committed",
        on_damage: OnDamage = "raise",
        durable: Durable = False,
        required: bool | None = None,
        max_lag: Size | None = None,
    ) -> Tailer:
        """Create a tailer, a reader of the log.

        Parameters
        ----------
        name : str, optional
            Save the tailer's position under this name; the next tailer of that name resumes there.
            One tailer at a time may use a name. 1 to 128 bytes of letters, digits and ``_ @ : +
            . -``, not beginning with ``.`` or ``-``.
        start : {"first", "end"}, int or None
            The oldest record, the current end, or a record's position. None: "first", and "end" for
            a backward tailer. An existing named tailer ignores it and resumes at its saved
            position; use `Tailer.seek` to move it.
        direction : {"forward", "backward"}
            The direction of reading; `Tailer.direction` changes it. It is not saved under the name.
        visibility : {"committed", "appended", "flushed", "replicated"}
            "committed": records that every process sees. "appended": also the records in this
            process's pool buffers; a kill loses them. "flushed": only durable records.
            "replicated": only records that enough copies have durably; see
            `CommitLog.replicated_position`. A writer on this machine must use `replicate=`.
        on_damage : {"raise", "skip"}
            Raise `CorruptRecordError`, or continue at the next whole frame.
        durable : bool, float or str
            False: a saved position survives a kill of the process; a power cut may lose the last
            seconds of progress, and the tailer reads those records again. True: each position is on
            the disk before `read` or the next step of a loop continues, at a cost of tens of
            microseconds per record. A duration, such as ``"1s"``: the position is flushed at most
            once in that time, and on close; a power cut loses the progress since then.
        required : bool, optional
            True: retention deletes nothing that this tailer has not read, until it is evicted,
            deleted, or opened with False. The setting is on the disk when this returns. None: keep
            the current setting.
        max_lag : int or str, optional
            With ``required=True``: how many bytes appends may be ahead of this tailer, before the
            log's ``on_lag=`` applies back-pressure.

        Raises
        ------
        InUseError
            Another tailer uses the name; the error names its process.
        CorruptTailerError
            The file of the named tailer is damaged: set its position with `reset_tailer`.
        ReadOnlyError, DiskFullError, UnsupportedError
            The position cannot be saved here.
        """
        parts = self._parts
        parts.check_open()
        lag, every_ns = _checked_options(name, required, max_lag, durable)
        named = None if name is None else check_name(name)
        if str(visibility) == "replicated":
            _check_replicated(parts)
        seeker = Seeker(
            parts.index,
            start=start,
            direction=direction,
            visibility=visibility,
            on_damage=on_damage,
        )
        if named is None:
            return Tailer(seeker, log=self)
        far, position = _far(parts), seeker.cursor.position
        if far is not None:
            file = far.open(
                named, position, required=required, max_lag_bytes=lag, every_ns=every_ns
            )
        else:
            file = _open_file(parts, named, position, required)
        try:
            if far is None:
                file.page.keep_durable(every_ns)
            if far is None and required is not None:
                with _changing(parts, named) as notify:
                    file.declare(required, lag, notify)
            tailer = Tailer(seeker, file, log=self)
        except BaseException:
            file.close()
            raise
        parts.know(file)
        if parts.closed:  # closed meanwhile, perhaps before the file was added
            file.close()
            parts.check_open()
        return tailer

    def cycles(self) -> list[Cycle]:
        """List the cycles for which the log has segments, oldest first.

        A log that rolls by size alone returns one entry per segment.
        """
        self._parts.check_open()
        return self._parts.cycles.cycles()

    def records_in_cycle(self, cycle: CycleLike) -> int:
        """Count the records of a cycle; 0 if it was skipped or deleted, or is in the future.

        Parameters
        ----------
        cycle : int, datetime.datetime or datetime.date
            As for `Tailer.seek_cycle`.

        Raises
        ------
        SequenceError
            A claim in the cycle or before it is still open.
        """
        self._parts.check_open()
        return self._parts.cycles.records_in(cycle)

    def tailers(self) -> list[TailerState]:
        """List all named tailers by name: position, lag, owner, and damage of their files."""
        self._parts.check_open()
        far = _far(self._parts)
        if far is not None:
            return far.states()
        return tailer_state.states(self._parts.directory, self._parts.engine.tail_position)

    def reset_tailer(self, name: str, position: Start) -> None:
        """Set the position of a named tailer that is not open.

        A damaged file is created again; its tailer is then not required.

        Parameters
        ----------
        name : str
            The tailer's name.
        position : {"first", "end"} or int
            The oldest record, the current end, or a record's position.

        Raises
        ------
        TailerNotFoundError, InUseError
            There is no such tailer, or it is open.
        PositionError
            No record starts there.
        """
        parts = self._parts
        parts.check_open()
        check_name(name)
        far = _far(parts)
        if far is not None:
            far.reset(name, position)
            return
        place = Seeker(parts.index, start=position).cursor.position
        with _changing(parts, name) as notify:
            tailer_file.reset(parts.directory, name, place, notify)

    def delete_tailer(self, name: str) -> None:
        """Delete a named tailer that is not open.

        Raises
        ------
        TailerNotFoundError, InUseError
            There is no such tailer, or it is open.
        """
        parts = self._parts
        parts.check_open()
        far = _far(parts)
        if far is not None:
            far.delete(check_name(name))
            return
        with _changing(parts, check_name(name)) as notify:
            tailer_file.delete(parts.directory, name, notify)

    def evict_tailer(self, name: str) -> bool:
        """Evict a named tailer: neither retention nor appends wait for it any more.

        The tailer may continue to read, and may be declared required again.

        Returns
        -------
        bool
            False if it was not required.

        Raises
        ------
        TailerNotFoundError, CorruptTailerError
            There is no such tailer, or its file is damaged.
        """
        parts = self._parts
        parts.check_open()
        far = _far(parts)
        if far is not None:
            return far.evict(check_name(name))
        _check_notifiable(parts)
        with _changing(parts, check_name(name)) as notify:
            return tailer_file.evict(parts.directory, name, notify)


def _far(parts: LogParts) -> RemoteTailers | None:
    """Return the tailers of a log on another machine; None for other logs."""
    if parts.directory.kind != "remote":
        return None
    # Imported here, because most programs read no log of another machine.
    from commitlog.remote.remote_directory import RemoteDirectory

    assert isinstance(parts.directory, RemoteDirectory)
    return parts.directory.tailers


def _checked_options(
    name: object, required: object, max_lag: Size | None, durable: Durable
) -> tuple[int, int]:
    """Check the options of a named tailer. Return its `max_lag` in bytes, 0 for none, and the least
    time between two flushes of its position, in nanoseconds; `_NEVER_NS`: the system flushes it.
    """
    if required is not None and not isinstance(required, bool):
        raise InvalidOptionError(
            f"required must be True, False or None (keep the setting), not {required!r}"
        )
    if max_lag is not None and not required:
        raise InvalidOptionError(
            "max_lag limits appends for a required tailer only: add required=True"
        )
    every_ns = _NEVER_NS
    if durable is not False:
        every_ns = 0 if durable is True else int(parse_duration(durable, "durable") * 1e9)
    if name is None and (required or every_ns != _NEVER_NS):
        raise InvalidOptionError(
            f"{'required' if required else 'durable'} is for a named tailer: add name="
        )
    lag = 0 if max_lag is None else parse_size(max_lag, "max_lag")
    if max_lag is not None and lag < 1:
        raise InvalidOptionError(
            f"max_lag must be at least one byte, such as '64MiB', not {max_lag!r}"
        )
    return lag, every_ns


def _check_replicated(parts: LogParts) -> None:
    """Raise unless a writer publishes how far the copies are."""
    parts.find_cursors()
    if not parts.engine.cursors["replicated"]:
        raise InvalidOptionError(
            "visibility='replicated' is for a log that a writer on this machine has opened with "
            "replicate=: open the tailer after that writer",
            path=parts.path,
        )


def _open_file(parts: LogParts, name: str, position: int, required: bool | None) -> TailerFile:
    """Open the file of a named tailer; a new one starts at `position`."""
    if parts.directory.detached:
        why = (
            "an archive or a single segment file cannot save a tailer's position: read it with a "
            "tailer without a name"
        )
        raise ReadOnlyError(why, path=parts.path)
    # On other file systems, locks and shared mappings cannot enforce one reader per name.
    check_file_system(parts.path, parts.directory.fd)
    if required is not None:
        _check_notifiable(parts)
    return TailerFile(parts.directory, name, position)


def _check_notifiable(parts: LogParts) -> None:
    """Raise if this user cannot notify the writers of a changed `required` setting."""
    cursors = parts.engine.cursors
    if cursors.shared and not cursors.writable:
        why = (
            "the log's writers cannot be notified of a changed `required` setting, because this "
            "user may not write `cursors`: run this as a user who can write it"
        )
        raise ReadOnlyError(why, path=parts.path)


@contextlib.contextmanager
def _changing(parts: LogParts, name: str) -> Iterator[Notify]:
    """Yield what notifies the writers of a change of a tailer's terms; at the end, this handle
    applies the change at once.
    """
    numbers: list[int] = []
    yield lambda: numbers.extend(_notify_writers(parts))
    if parts.writer is not None:
        parts.writer.backpressure.changed(name, numbers[-1] if numbers else None)


def _notify_writers(parts: LogParts) -> Iterator[int]:
    """Notify the writers, and yield the number of the change, if they can be notified. The caller
    holds the lock on terms, so no other change gets the same number.
    """
    if not parts.engine.cursors.shared:
        # A writer may have opened the log since, and checked before the setting changed.
        parts.find_cursors()
    parts.check_open()  # a closing log no longer notifies the writers
    cursors = parts.engine.cursors
    if cursors.shared and cursors.writable:
        cursors.raise_cell("required")
        yield cursors["required"]
