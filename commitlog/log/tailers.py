"""TailerMethods: the tailers and cycles of an open log."""

from __future__ import annotations

from functools import partial

from commitlog.base.units import Size
from commitlog.errors import ReadOnlyError
from commitlog.log.parts import LogParts
from commitlog.segment.directory import check_file_system
from commitlog.tail import tailer_file, tailer_state
from commitlog.tail.cycles import Cycle, CycleLike
from commitlog.tail.name_options import Durable, NameOptions, name_options
from commitlog.tail.seek import Direction, Seeker, Start, Visibility
from commitlog.tail.segment_holder import OnDamage
from commitlog.tail.tailer import Tailer
from commitlog.tail.tailer_file import TailerFile
from commitlog.tail.tailer_folder import check_name
from commitlog.tail.tailer_state import TailerState


class TailerMethods:
    """The methods of `CommitLog` for readers."""

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
        """A reader's handle.

        Parameters
        ----------
        name : str, optional
            Keep the tailer's place in the log under this name: the next tailer of that name goes on
            there. One at a time reads under a name. 1 to 128 bytes of letters, digits and ``_ @ : +
            . -``, not beginning with ``.`` or ``-``.
        start : {"first", "end"}, int or None
            The oldest record, the present end, or a record's position. None: "first", and "end" for
            a backward tailer. A name that was there before goes on where it stood, whatever this
            says: use `Tailer.seek`.
        direction : {"forward", "backward"}
            Which way it reads. It can be turned around at any time: `Tailer.direction`. It is not
            kept under the name.
        visibility : {"committed", "appended", "flushed"}
            "committed": what every process sees. "appended": also what only this process's pool
            buffers hold; a kill takes that back. "flushed": only what no crash can take back.
        on_damage : {"raise", "skip"}
            Raise `CorruptRecordError`, or go on at the next whole frame.
        durable : bool, float or str
            False: a saved place survives a kill of the process, and a power cut takes back some
            seconds of them: those records come again. True: it is on the disk before `read`, or the
            next step of a loop, goes on, tens of microseconds a record. A duration, such as
            ``"1s"``: at most once in that time, and when the tailer is closed; a power cut takes
            back what came after.
        required : bool, optional
            True: retention deletes nothing that this tailer has not read, until it is evicted,
            deleted, or opened with False; that is on the disk when this returns. None: as it was
            declared last.
        max_lag : int or str, optional
            With ``required=True``: appends may be so many bytes ahead of this tailer, and are then
            held as the log's ``on_lag=`` says.

        Returns
        -------
        Tailer

        Raises
        ------
        TailerInUseError
            Another tailer reads under the name; the error says whose it is.
        CorruptTailerError
            The name's file is damaged: `reset_tailer` says from where to go on.
        ReadOnlyError, DiskFullError, UnsupportedError
            The place cannot be kept here.
        """
        parts = self._parts
        parts.check_open()
        named = name_options(name, required, max_lag, durable)
        seeker = Seeker(
            parts.engine,
            parts.queue,
            parts.index,
            start=start,
            direction=direction,
            visibility=visibility,
            on_damage=on_damage,
        )
        if named is None:
            return Tailer(seeker, log=self)
        file = _open_file(parts, named, seeker.cursor.position)
        try:
            tailer = Tailer(seeker, file, log=self)
        except BaseException:
            file.close()
            raise
        with parts.named_lock:
            parts.named.add(file)
        if parts.closed:  # meanwhile, and perhaps without this file
            file.close()
            parts.check_open()
        return tailer

    def cycles(self) -> list[Cycle]:
        """The cycles that the log has segments of, oldest first; of a log that rolls by size alone,
        its segments.

        Returns
        -------
        list of Cycle
        """
        self._parts.check_open()
        return self._parts.index.cycles.cycles()

    def records_in_cycle(self, cycle: CycleLike) -> int:
        """How many records a cycle has.

        Parameters
        ----------
        cycle : int, datetime.datetime or datetime.date
            Its number; an instant in it, with a time zone; or a day of the log's time zone, for the
            cycle that its first moment is in.

        Returns
        -------
        int
            0 where the cycle was skipped, deleted, or has yet to come.

        Raises
        ------
        InvalidOptionError
            It is none of these, or the log rolls by size alone.
        SequenceError
            A claim in between is still open.
        """
        self._parts.check_open()
        return self._parts.index.cycles.records_in(cycle)

    def tailers(self) -> list[TailerState]:
        """All named tailers, by name: where they stand, how far behind, who reads with them, and
        what is wrong with their files.

        Returns
        -------
        list of TailerState
        """
        self._parts.check_open()
        return tailer_state.states(self._parts.directory, self._parts.engine.tail_position)

    def reset_tailer(self, name: str, position: Start) -> None:
        """Have a named tailer go on somewhere else. Nobody may be reading with it. A damaged file
        is made anew, and required no more.

        Parameters
        ----------
        name : str
            The tailer's.
        position : {"first", "end"} or int
            The oldest record, the present end, or a record's position.

        Raises
        ------
        TailerNotFoundError, TailerInUseError
            There is no such tailer, or somebody reads with it.
        PositionError
            No record starts there.
        """
        parts = self._parts
        parts.check_open()
        check_name(name)
        place = Seeker(parts.engine, parts.queue, parts.index, start=position).cursor.position
        tailer_file.reset(parts.directory, name, place, partial(_tell_writers, parts))
        _look_who_is_required(parts)

    def delete_tailer(self, name: str) -> None:
        """Forget a named tailer. Nobody may be reading with it.

        Raises
        ------
        TailerNotFoundError, TailerInUseError
            There is no such tailer, or somebody reads with it.
        """
        parts = self._parts
        parts.check_open()
        tailer_file.delete(parts.directory, check_name(name), partial(_tell_writers, parts))
        _look_who_is_required(parts)

    def evict_tailer(self, name: str) -> bool:
        """Require a named tailer no more: neither retention nor appends wait for it. It may go on
        reading, and be declared anew.

        Returns
        -------
        bool
            False where it was not required.

        Raises
        ------
        TailerNotFoundError, CorruptTailerError
            There is no such tailer, or its file is damaged.
        """
        parts = self._parts
        parts.check_open()
        _check_told(parts)
        evicted = tailer_file.evict(
            parts.directory, check_name(name), partial(_tell_writers, parts)
        )
        _look_who_is_required(parts)
        return evicted


def _open_file(parts: LogParts, options: NameOptions, position: int) -> TailerFile:
    """The file of a named tailer, with its terms declared. A new tailer stands at `position`."""
    if parts.directory.detached:
        why = (
            "an archive, or a segment alone, keeps no tailer's place: read it with a tailer "
            "without a name"
        )
        raise ReadOnlyError(why, path=parts.path)
    # Elsewhere locks and shared mappings do not keep a name to one reader.
    check_file_system(parts.path, parts.directory.fd)
    if options.required is not None:
        _check_told(parts)
    file = TailerFile(parts.directory, options.name, position)
    try:
        file.page.keep_durable(options.durable_every_ns)
        if options.required is not None:
            tell = partial(_tell_writers, parts)
            file.declare(options.required, options.max_lag_bytes, tell)
            _look_who_is_required(parts)
    except BaseException:
        file.close()
        raise
    return file


def _check_told(parts: LogParts) -> None:
    """Refuse to change what is required if the writers cannot be told."""
    cursors = parts.engine.cursors
    if cursors.shared and not cursors.writable:
        why = (
            "the log's writers cannot be told who is required, for want of a permission to write "
            "its `cursors`: say it as a user who has that"
        )
        raise ReadOnlyError(why, path=parts.path)


def _tell_writers(parts: LogParts) -> None:
    if not parts.engine.cursors.shared:
        # A writer may have come since, and looked before there was anything to see.
        parts.find_cursors()
    parts.check_open()  # a log that is being closed tells nobody any more
    cursors = parts.engine.cursors
    if cursors.shared and cursors.writable:
        cursors.raise_cell("required")


def _look_who_is_required(parts: LogParts) -> None:
    if parts.writer is not None:
        parts.writer.backpressure.begin()  # this handle need not wait until it is told
