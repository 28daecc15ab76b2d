"""TailerMethods: the tailers and cycles of an open log."""

from __future__ import annotations

from collections.abc import Iterator

from commitlog._kernel.readers import Record, Selection
from commitlog.base.name import check_name
from commitlog.base.units import Size, parse_duration, parse_size
from commitlog.errors import InvalidOptionError
from commitlog.log.parts import LogParts
from commitlog.tail.cycles import Cycle, CycleLike
from commitlog.tail.seek import Direction, Seeker, Start, Visibility
from commitlog.tail.segment_holder import OnDamage
from commitlog.tail.tailer import Tailer
from commitlog.tail.tailer_file import Durable
from commitlog.tail.tailer_state import TailerState

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
        return self._selected(
            None,
            name,
            start=start,
            direction=direction,
            visibility=visibility,
            on_damage=on_damage,
            durable=durable,
            required=required,
            max_lag=max_lag,
        )

    def _selected(
        self,
        selection: Selection | None,
        name: str | None,
        *,
        start: Start | None = None,
        direction: Direction = "forward",
        visibility: Visibility = "committed",
        on_damage: OnDamage = "raise",
        durable: Durable = False,
        required: bool | None = None,
        max_lag: Size | None = None,
    ) -> Tailer:
        """Create a tailer of the selected records; None: of all. See `tailer`."""
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
            selection=selection,
        )
        if named is None:
            return Tailer(seeker, log=self)
        file = parts.places.open(
            named, seeker.cursor.position, required=required, max_lag_bytes=lag, every_ns=every_ns
        )
        try:
            tailer = Tailer(seeker, file, log=self)
        except BaseException:
            file.close()
            raise
        parts.know(file)
        if parts.closed:  # closed meanwhile, perhaps before the file was added
            file.close()
            parts.check_open()
        return tailer

    def __iter__(self) -> Iterator[Record]:
        """Iterate from the oldest record to the last one that is committed at the time of the call.

        To go on from there, or to wait for records, use `tailer`.
        """
        self._parts.check_open()
        return _below(self.tailer(), self._parts.engine.committed_position)

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
        return self._parts.places.states()

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
        self._parts.check_open()
        self._parts.places.reset(check_name(name), position)

    def delete_tailer(self, name: str) -> None:
        """Delete a named tailer that is not open.

        Raises
        ------
        TailerNotFoundError, InUseError
            There is no such tailer, or it is open.
        """
        self._parts.check_open()
        self._parts.places.delete(check_name(name))

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
        self._parts.check_open()
        return self._parts.places.evict(check_name(name))


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


def _below(tailer: Tailer, end: int) -> Iterator[Record]:
    with tailer:
        for record in tailer:
            if record.position >= end:
                return
            yield record
