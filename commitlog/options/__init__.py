"""Options of `commitlog.open`, and their checks."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol, Self, TypedDict, TypeVar, Unpack, get_args

from commitlog._kernel import segments
from commitlog.base.keywords import refuses_unknown, unknown
from commitlog.base.option import (
    Option,
    chosen,
    lasting,
    optional,
    segment_listener,
    sized,
    switch,
)
from commitlog.base.roll_cycle import RollCycle, cycle_name
from commitlog.base.units import MIB, Duration, Size, parse_size
from commitlog.errors import InvalidOptionError
from commitlog.options.tuning import Tuning as Tuning
from commitlog.stats import StoreStats

Rule = TypeVar("Rule")
Flush = Literal["sync", "async", "none"]
Timestamps = Literal["coarse", "precise"]
OnLag = Literal["wait", "raise", "drop"]

PAGE_SIZE = segments.HEADER_SIZE  # a segment's size is a multiple of it
SEGMENT_SIZE_SMALLEST = segments.SMALLEST
SEGMENT_SIZE_LARGEST = segments.LARGEST
SEGMENT_SIZE_DEFAULT = 64 * MIB
_READY_WAIT_S = 10.0


class BufferSource(Protocol):
    """The part of a pool that the options use."""

    @property
    def buffer_size(self) -> int:
        """Return the size of a buffer, which is the size of a segment."""


class RetentionRule(Protocol):
    """The part of a `Retention` that the options use."""

    @property
    def interval(self) -> float:
        """Return the seconds between two checks of the segments."""


class StoreWork(Protocol):
    """The service that stores a log."""

    def start(self) -> None:
        """Start the thread."""

    def join(self, timeout_s: float) -> bool:
        """Store the rest, and end the thread; False if it still runs."""

    def stored(self) -> StoreStats | None:
        """Return what this handle has stored, without a lag; None if another handle stores the
        log, or before the store was compared with the log.
        """


class StoreRule(Protocol):
    """The part of a `Store` that the options use."""

    @property
    def every(self) -> float:
        """Return the seconds between two objects of the end of the log."""

    def _begin(self, view: Any) -> StoreWork:
        """Store a log that was opened for writing, which the `LogView` shows; return the service,
        not started.
        """

    def _open_source(self) -> Any:
        """Open what is stored, as a `SegmentSource`; raise `LogNotFoundError` if nothing is."""


class CopiesRule(Protocol):
    """How one log waits for its copies."""

    @property
    def position(self) -> int:
        """Return the position below which no wait is needed."""

    def wait(self, end: int, timeout_s: float) -> bool:
        """Wait until enough copies have everything below `end`; False if the time expired."""

    def complete(self, end: int, timeout_s: float) -> None:
        """Wait likewise; raise if the time expired, unless the log continues without copies."""

    def expire(self, end: int) -> None:
        """Raise because too few copies have what is below `end`, or continue without them."""

    def limit_s(self, sync_timeout_s: float) -> float:
        """Return how long a record waits."""

    def close(self) -> None:
        """End every wait."""


class ReplicationRule(Protocol):
    """The part of a `Replication` that an open log uses."""

    @property
    def require(self) -> int:
        """Return how many copies must have a record before it is acknowledged."""

    def _begin(self, view: Any) -> CopiesRule:
        """Serve a log, which the `LogView` shows, and return how it waits for its copies."""


_segment_size = sized(SEGMENT_SIZE_SMALLEST, SEGMENT_SIZE_LARGEST, PAGE_SIZE)
_segment_size_or_none = optional(_segment_size)
_interval = lasting(0.001)
_interval_or_none = optional(_interval)
_wait_or_none = optional(lasting(0.0))
_clock: Callable[[Timestamps, str], Timestamps] = chosen(get_args(Timestamps))
_clock_or_none = optional(_clock)


def _having(
    attribute: str, kind: type, what: str, check: Callable[[Any, str], object] | None = None
) -> Callable[[Rule, str], Rule]:
    """Accept None, and an object whose attribute has that type and passes a check."""

    def read(value: Rule, name: str) -> Rule:
        if value is None:
            return value
        found = getattr(value, attribute, None)
        if not isinstance(found, kind):
            raise InvalidOptionError(f"{name} must be a {what} or None, not {type(value).__name__}")
        if check is not None:
            check(found, f"{name}.{attribute}")
        return value

    return read


def _roll_cycle(value: RollCycle | str | Duration | None, name: str) -> RollCycle | None:
    if value is None or isinstance(value, RollCycle):
        return value
    return RollCycle(cycle_name(value, name))


def _tuning(value: Tuning, name: str) -> Tuning:
    if not isinstance(value, Tuning):
        raise InvalidOptionError(f"{name} must be a commitlog.Tuning, not {type(value).__name__}")
    return value


class OptionOverrides(TypedDict, total=False):
    """The keyword arguments of `open`: the fields of `Options`."""

    segment_size: Size | None
    pool: BufferSource | None
    flush: Flush
    sync_timeout: Duration
    flush_interval: Duration
    commit_interval: Duration
    claim_timeout: Duration
    timestamps: Timestamps | None
    roll_cycle: RollCycle | str | Duration | None
    prefault: bool
    posting_lists: bool
    wait_for_log: Duration | None
    close_timeout: Duration
    on_lag: OnLag
    lag_timeout: Duration
    evict_after: Duration | None
    retention: RetentionRule | None
    store: StoreRule | None
    replicate: ReplicationRule | None
    listener: object | None
    min_free_bytes: Size
    tuning: Tuning


def _explain(name: str) -> str | None:
    """Return what to do with an option that has moved."""
    if name in (field.name for field in dataclasses.fields(Tuning)):
        return f"{name} is a field of Tuning: use tuning=commitlog.Tuning({name}=...)"
    return None


@refuses_unknown(_explain)
@dataclass(frozen=True, kw_only=True)
class Options:
    """Set how a log is written and read.

    A size is a number of bytes or text such as `"64MiB"`; a duration is seconds, `"500ms"` or a
    `datetime.timedelta`. Both are stored as numbers.

    Parameters
    ----------
    segment_size : int, str or None
        Bytes in a segment, 64 KiB to 1 GiB, a multiple of 4096; None means the pool's
        `buffer_size`, else 64 MiB. Fixed when the log is created. Smaller segments roll more often
        and bound the largest record (an eighth of a segment); larger ones are deleted later.
    pool : TransientStorePool or None
        The buffers that appends write to. With a pool, appends are steadier and faster, and only
        one process writes; uncommitted records are lost when that process dies, unless the pool has
        `backing="shm"`. Without one, any number of processes append to the mapped file.
    flush : {"async", "sync", "none"}
        "sync": an append returns when its record is durable. "async": the flush thread flushes
        behind the appends; an OS crash loses what it has not flushed yet, up to
        `flush_thorough_interval`. "none": only `flush()` and closing make records durable; an OS
        crash may lose everything that the system has not written.
    sync_timeout : float or str
        Seconds (at least 0.001) that a sync append waits before `SyncTimeoutError`. Shorter loses
        nothing: the record stays in the log. The append that leads a flush may exceed the timeout
        by the duration of one `msync`, which cannot be interrupted.
    flush_interval : float or str
        Seconds (at least 0.001) between the flush thread's rounds. Longer: fewer flushes, and more
        is lost in an OS crash.
    commit_interval : float or str
        Pooled logs: seconds (at least 0.001) between the commit thread's rounds. Longer: more is
        lost when the process dies (anonymous buffers), and other processes see records later.
    claim_timeout : float or str
        Seconds (at least 0.001) after which a live writer's open claim is rolled back so that
        readers can proceed. Shorter: a slow writer loses its claim and must append again. Longer: a
        stuck writer blocks readers and sync appends for longer.
    timestamps : {"coarse", "precise"} or None
        "coarse" is Linux's tick (1 to 10 ms apart, 6 ns to read), "precise" its clock (34 ns
        to read). Coarse loses the time between neighbouring records, not their order. Fixed when
        the log is created. None: the log's own, and "coarse" for a new log.
    roll_cycle : RollCycle, str, float or None
        When the log rolls by time; it also rolls when a segment is full. ``"DAILY"``, another
        name or a period such as ``"90s"`` is that `RollCycle` in UTC; a `RollCycle` also has a time
        zone and an epoch. Fixed when the log is created. None: the log's own; a new log rolls by
        size alone. Each cycle with records takes at least one segment; a shorter cycle makes more
        and smaller files.
    prefault : bool
        Whether a thread pre-faults pages ahead of the appends. Off: less memory is touched, and the
        slowest appends take milliseconds.
    posting_lists : bool
        Whether a thread of a writing handle builds the posting lists of each sealed segment, for
        `view` and `find`: up to 8 bytes on the disk for each record and list, and about as much of
        a core as a reader of the log takes. Off: no record is lost; a writing handle builds a list
        when a view first reads a segment, and reading handles scan segments that have none.
    wait_for_log : float, str or None
        Seconds that opening waits until the log is ready. A writer waits for another process that
        opens or recovers it, before `OpenTimeoutError`. Mode "r" waits for a writer to create a
        missing log, before `LogNotFoundError`, and for the server of a log on another machine. 0
        does not wait. None: 10 s, but not for a missing log, which mode "r" never creates.
    close_timeout : float or str
        Seconds (at least 0.001) that closing may take to commit and flush everything, before
        `CloseTimeoutError`. A timeout drops nothing.
    on_lag : {"wait", "raise", "drop"}
        The back-pressure of a required tailer that lags by more than its `max_lag`. "wait": the
        append waits for the tailer. "raise": it raises `TailerLagError`. "drop": the record is not
        appended, the append returns -1, and both this handle and the tailer count the drop. A
        writer observes a newly required tailer within 1 MiB or a quarter of a segment of appends,
        whichever is less.
    lag_timeout : float or str
        With ``on_lag="wait"``: seconds that an append waits before it raises `TailerLagError`. 0
        does not wait.
    evict_after : float, str or None
        Seconds (at least 0.001) after which this handle evicts a required tailer that blocks its
        appends and has not moved. An evicted tailer is not required any more, and retention may
        delete what it has not read. None: the handle evicts no tailer.
    retention : Retention or None
        Which old segments a writing handle deletes, and when. None: it deletes segments only if a
        caller asks for it. Deleted records are lost.
    store : Store or None
        Where a writing handle stores the log's segments and, every second, its end, so that the log
        survives the loss of the machine. Retention deletes a segment only after it is stored. A
        handle with mode "r" reads records that are no longer on the disk from the store. None: the
        log is not stored.
    replicate : Replication or None
        Serve the log to followers on other machines, and let an append that waits for durability
        also wait until `require` of them have the record durably. None: the log is not served, an
        append waits for this machine alone, and the loss of this machine loses the record.
    listener : object or None
        An object with some of `on_created`, `on_sealed`, `on_released` and `on_deleted`;
        `commitlog.keep.SegmentListener` has all. A writing handle calls it in a separate thread
        when a segment changes. A listener that is too slow misses events; `stats()` counts them.
    min_free_bytes : int or str
        Free bytes that a new segment must leave. If it would leave less, appends fail with
        `DiskFullError` once the current segment is full, until there is room. 0: appends continue
        while the file system has room for a segment, and may leave no space for other programs.
    tuning : Tuning
        The options that few logs need to change: see `Tuning`.

    Raises
    ------
    InvalidOptionError
        A value is out of range, or two options contradict each other; the message names them.
    """

    segment_size: Option[int | None, Size | None] = Option(None, _segment_size_or_none)
    pool: Option[BufferSource | None, BufferSource | None] = Option(
        None, _having("buffer_size", int, "TransientStorePool", _segment_size)
    )
    flush: Option[Flush, Flush] = Option("async", chosen(get_args(Flush)))
    sync_timeout: Option[float, Duration] = Option(5.0, _interval)
    flush_interval: Option[float, Duration] = Option(0.5, _interval)
    commit_interval: Option[float, Duration] = Option(0.2, _interval)
    claim_timeout: Option[float, Duration] = Option(2.0, _interval)
    timestamps: Option[Timestamps | None, Timestamps | None] = Option(None, _clock_or_none)
    roll_cycle: Option[RollCycle | None, RollCycle | str | Duration | None] = Option(
        None, _roll_cycle
    )
    prefault: Option[bool, bool] = Option(True, switch)
    posting_lists: Option[bool, bool] = Option(False, switch)
    wait_for_log: Option[float | None, Duration | None] = Option(None, _wait_or_none)
    close_timeout: Option[float, Duration] = Option(60.0, _interval)
    on_lag: Option[OnLag, OnLag] = Option("wait", chosen(get_args(OnLag)))
    lag_timeout: Option[float, Duration] = Option(30.0, lasting(0.0))
    evict_after: Option[float | None, Duration | None] = Option(None, _interval_or_none)
    retention: Option[RetentionRule | None, RetentionRule | None] = Option(
        None, _having("interval", float, "commitlog.Retention")
    )
    store: Option[StoreRule | None, StoreRule | None] = Option(
        None, _having("every", float, "commitlog.Store")
    )
    replicate: Option[ReplicationRule | None, ReplicationRule | None] = Option(
        None, _having("require", int, "commitlog.replication.Replication")
    )
    listener: Option[object | None, object | None] = Option(None, segment_listener)
    min_free_bytes: Option[int, Size] = Option(0, parse_size)
    tuning: Option[Tuning, Tuning] = Option(Tuning(), _tuning)

    def __post_init__(self) -> None:
        pool, size = self.pool, self.segment_size
        if pool is not None and size is not None and size != pool.buffer_size:
            raise InvalidOptionError(
                f"segment_size ({size}) and pool.buffer_size ({pool.buffer_size}) contradict each "
                "other: a buffer holds exactly one segment; leave out segment_size, or use a pool "
                "of that buffer_size"
            )

    @classmethod
    def of(cls, options: Options | None, **overrides: Unpack[OptionOverrides]) -> Options:
        """Return the given options (None: the defaults) with some of them overridden.

        Raises
        ------
        InvalidOptionError
            `options` has another type, a name is unknown, or the result is not valid.
        """
        if options is None:
            options = _default_options()
        if not isinstance(options, Options):
            raise InvalidOptionError(
                f"options must be a commitlog.Options or None, not {type(options).__name__}"
            )
        return options.replace(**overrides) if overrides else options

    def replace(self, **overrides: Unpack[OptionOverrides]) -> Self:
        """Copy the options with some of them overridden.

        Raises
        ------
        InvalidOptionError
            A name is unknown, or the result is not valid.
        """
        known = [field.name for field in dataclasses.fields(self)]
        for name in overrides:
            if name not in known:
                raise InvalidOptionError(_explain(name) or unknown(name, known))
        return dataclasses.replace(self, **overrides)


def new_segment_size(options: Options) -> int:
    """Return the segment size of a log created with these options."""
    if options.segment_size is not None:
        return options.segment_size
    return SEGMENT_SIZE_DEFAULT if options.pool is None else options.pool.buffer_size


def ready_wait_s(options: Options) -> float:
    """Return how long to wait for another process or machine that has the log."""
    return _READY_WAIT_S if options.wait_for_log is None else options.wait_for_log


@functools.cache
def _default_options() -> Options:
    return Options()
