"""Options: what a log can be told when it is opened, and what contradicts what."""

from __future__ import annotations

import dataclasses
import datetime as dt
import difflib
import zoneinfo
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol, Self, SupportsIndex, TypedDict, Unpack, get_args

from commitlog.base import roll_cycle as cycles
from commitlog.base.option import (
    Option,
    chosen,
    counted,
    did_you_mean,
    lasting,
    optional,
    sized,
    switch,
)
from commitlog.base.roll_cycle import RollCycle
from commitlog.base.units import (
    DURATION_LARGEST_S,
    GIB,
    KIB,
    MIB,
    SECOND_NS,
    Duration,
    Size,
    parse_duration,
    parse_size,
    seconds_of,
)
from commitlog.errors import InvalidOptionError

Flush = Literal["sync", "async", "none"]
Timestamps = Literal["coarse", "precise"]
OnLag = Literal["wait", "raise", "drop"]

PAGE_SIZE = 4096
SEGMENT_SIZE_SMALLEST = 64 * KIB
SEGMENT_SIZE_LARGEST = GIB
SEGMENT_SIZE_DEFAULT = 64 * MIB
TIMESTAMPS_DEFAULT: Timestamps = "coarse"
ALLOCATE_AHEAD_MOST = 8
INDEX_SPACING_SMALLEST = 16
INDEX_SPACING_LARGEST = 65536
INDEX_SPACING_DEFAULT = 256
LISTENER_METHODS = ("on_created", "on_sealed", "on_released", "on_deleted")

MILLISECOND_S = 0.001


class BufferSource(Protocol):
    """What the options need to know of a pool."""

    @property
    def buffer_size(self) -> int:
        """Bytes in each buffer, and so in each segment."""


class RetentionRule(Protocol):
    """What the options need to know of a `Retention`."""

    @property
    def interval_s(self) -> float:
        """Seconds from one look at the segments to the next."""


_PAGES_MOST = SEGMENT_SIZE_LARGEST // PAGE_SIZE
_segment_size = sized(SEGMENT_SIZE_SMALLEST, SEGMENT_SIZE_LARGEST, PAGE_SIZE)
_segment_size_or_none = optional(_segment_size)
_prefault_distance = optional(sized(PAGE_SIZE, ALLOCATE_AHEAD_MOST * SEGMENT_SIZE_LARGEST))
_size_or_none = optional(parse_size)
_interval = lasting(MILLISECOND_S)
_interval_or_none = optional(_interval)
_clock: Callable[[Timestamps, str], Timestamps] = chosen(get_args(Timestamps))
_clock_or_none = optional(_clock)


def _pool(value: BufferSource | None, name: str) -> BufferSource | None:
    if value is None:
        return None
    buffer_size = getattr(value, "buffer_size", None)
    if not isinstance(buffer_size, int):
        raise InvalidOptionError(
            f"{name} must be a TransientStorePool or None, not {type(value).__name__}"
        )
    _segment_size(buffer_size, f"{name}.buffer_size")
    return value


def _retention(value: RetentionRule | None, name: str) -> RetentionRule | None:
    if value is not None and not isinstance(getattr(value, "interval_s", None), float):
        raise InvalidOptionError(
            f"{name} must be a commitlog.Retention or None, not {type(value).__name__}"
        )
    return value


def _roll_cycle(value: str | Duration | None, name: str) -> str | None:
    if value is None:
        return None
    if isinstance(value, str) and value.upper() in cycles.NAMES:
        return value.upper()
    period_s = seconds_of(value)
    try:
        return cycles.period_name(
            round(period_s * SECOND_NS) if 0 <= period_s <= DURATION_LARGEST_S else 0
        )
    except ValueError:
        raise InvalidOptionError(
            f"{name} must be one of {', '.join(cycles.NAMES)}, or a period of whole milliseconds "
            "from 10 ms to 366 days, such as 90 or "
            f"'15min', not {value!r}{did_you_mean(str(value).upper(), cycles.NAMES)}"
        ) from None


def _roll_epoch(value: Duration | dt.datetime | None, name: str) -> float | dt.datetime | None:
    if value is None:
        return None
    if not isinstance(value, dt.datetime):
        return parse_duration(value, name)
    if value.tzinfo is None:
        raise InvalidOptionError(
            f"{name} must have a time zone, which {value!r} has not: use replace(tzinfo=...)"
        )
    return value


def _time_zone(value: str | None, name: str) -> str | None:
    if value is None:
        return None
    try:
        return cycles.zone_of(value).key
    except ValueError:
        known = sorted(zoneinfo.available_timezones())
        raise InvalidOptionError(
            f"{name} must be the name of a time zone, such as 'Europe/Berlin' or 'UTC', not "
            f"{value!r}{did_you_mean(value, known)}"
        ) from None


def _listener(value: object | None, name: str) -> object | None:
    if value is None:
        return None
    named = [method for method in dir(value) if method.startswith("on_")]
    for method in named:
        if method not in LISTENER_METHODS and difflib.get_close_matches(
            method, LISTENER_METHODS, n=1, cutoff=0.8
        ):
            raise InvalidOptionError(
                f"{name} has {method}, which nobody calls: there are "
                f"{', '.join(LISTENER_METHODS)}{did_you_mean(method, LISTENER_METHODS)}"
            )
    if isinstance(value, type) or not any(callable(getattr(value, method)) for method in named):
        raise InvalidOptionError(
            f"{name} must be an object with some of {', '.join(LISTENER_METHODS)}, not {value!r}"
        )
    return value


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """What few logs need to change. The defaults are those that measured well: see docs/tuning.md.

    Parameters
    ----------
    flush_least_pages : int
        A round flushes only when that many 4 KiB pages are waiting, 0 to 262144. More: a slow
        trickle waits for the thorough round.
    flush_thorough_interval : float or str
        Seconds (at least 0.001) after which a round flushes whatever waits. It bounds what an OS
        crash loses from a slow trickle. If a reader waits for durability
        (``visibility="flushed"``), the next round flushes.
    commit_least_pages : int
        Pooled logs: a round commits only when that many 4 KiB pages are waiting, 0 to 262144. More:
        as with a longer interval.
    commit_thorough_interval : float or str
        Pooled logs: seconds (at least 0.001) after which a round commits whatever waits. It bounds
        what a slow trickle loses when the process dies.
    checkpoint_interval : float or str
        Seconds (at least 0.001) between writes of the checkpoint. Longer: recovery after a crash
        scans more; no record is lost by it.
    allocate_ahead : int
        Segments created ahead of need, 0 to 8. Fewer take less disk; with 0 the appender that rolls
        waits for the file system.
    prefault_distance : int, str or None
        Bytes that pre-faulting keeps ahead of the tail, 4096 to 8 GiB; None follows the appends:
        what half a second of them takes, 16 to 256 MiB. Shorter takes less memory; a burst may
        overtake it.
    index_spacing : int
        Records from one entry of a segment's index to the next, 16 to 65536, of indexes that are
        made from now on. More: a seek by sequence or time goes over more records, and an index
        takes less disk (16 bytes an entry). No record is lost by it.
    archive_cache : int or str
        Mode "r" of an archive: bytes of unpacked segments that are kept for the next reader, of
        which two always are. Less: a segment that is read again is fetched and unpacked again.
    warn_free_bytes : int, str or None
        Free bytes of the log's file system below which a warning is logged, once, and
        `stats().disk` is "low". None: `min_free_bytes` and four segments. Less: the warning comes
        later.

    Raises
    ------
    InvalidOptionError
        When a value is not one of these; the message names it.
    """

    flush_least_pages: Option[int, SupportsIndex] = Option(4, counted(_PAGES_MOST))
    flush_thorough_interval: Option[float, Duration] = Option(10.0, _interval)
    commit_least_pages: Option[int, SupportsIndex] = Option(4, counted(_PAGES_MOST))
    commit_thorough_interval: Option[float, Duration] = Option(0.2, _interval)
    checkpoint_interval: Option[float, Duration] = Option(1.0, _interval)
    allocate_ahead: Option[int, SupportsIndex] = Option(1, counted(ALLOCATE_AHEAD_MOST))
    prefault_distance: Option[int | None, Size | None] = Option(None, _prefault_distance)
    index_spacing: Option[int, SupportsIndex] = Option(
        INDEX_SPACING_DEFAULT, counted(INDEX_SPACING_LARGEST, INDEX_SPACING_SMALLEST)
    )
    archive_cache: Option[int, Size] = Option("1GiB", parse_size)
    warn_free_bytes: Option[int | None, Size | None] = Option(None, _size_or_none)


_TUNING_NAMES = tuple(field.name for field in dataclasses.fields(Tuning))


def _tuning(value: Tuning, name: str) -> Tuning:
    if not isinstance(value, Tuning):
        raise InvalidOptionError(f"{name} must be a commitlog.Tuning, not {type(value).__name__}")
    return value


class OptionOverrides(TypedDict, total=False):
    """The keywords that `open` takes beside an `Options`: its fields, each as `Options` describes
    it.
    """

    segment_size: Size | None
    pool: BufferSource | None
    flush: Flush
    sync_timeout: Duration
    flush_interval: Duration
    commit_interval: Duration
    claim_timeout: Duration
    timestamps: Timestamps | None
    roll_cycle: str | Duration | None
    roll_epoch: Duration | dt.datetime | None
    time_zone: str | None
    prefault: bool
    open_timeout: Duration
    close_timeout: Duration
    on_lag: OnLag
    lag_timeout: Duration
    evict_after: Duration | None
    wait_for_log: Duration
    retention: RetentionRule | None
    listener: object | None
    min_free_bytes: Size
    tuning: Tuning


@dataclass(frozen=True, kw_only=True)
class Options:
    """How a log is written and read. Sizes are bytes or `"64MiB"`, durations seconds or `"500ms"`;
    both are kept as numbers.

    Parameters
    ----------
    segment_size : int, str or None
        Bytes in a segment, 64 KiB to 1 GiB, a multiple of 4096; None means the pool's
        `buffer_size`, else 64 MiB. Fixed when the log is created. Smaller segments roll more often
        and bound the largest record (an eighth of a segment); larger ones are deleted later.
    pool : TransientStorePool or None
        The buffers that appends land in. With a pool, appends are steadier and faster, one process
        alone writes, and what is not yet committed is lost when the process dies (not with
        `backing="shm"`). Without one, any number of processes append to the mapped file.
    flush : {"async", "sync", "none"}
        "sync": an append returns when its record is durable. "async": a service flushes behind the
        appends; an OS crash loses what it had not reached, up to `flush_thorough_interval`. "none":
        only `flush()` and closing make anything durable; an OS crash may lose all that the kernel
        had not written of its own accord.
    sync_timeout : float or str
        Seconds (at least 0.001) that a sync append waits before `SyncTimeoutError`. Shorter loses
        nothing: the record stays in the log. The append that leads a flush may take as long as one
        `msync` more, which nothing can end.
    flush_interval : float or str
        Seconds (at least 0.001) between the flush service's rounds. Longer: fewer flushes, and more
        is lost in an OS crash.
    commit_interval : float or str
        Pooled logs: seconds (at least 0.001) between the commit service's rounds. Longer: more is
        lost when the process dies (anonymous buffers), and other processes see records later.
    claim_timeout : float or str
        Seconds (at least 0.001) after which a live writer's open claim is rolled back so that
        readers go on. Shorter: a slow writer loses its claim and must append again. Longer: one
        stuck writer holds readers and sync appends up for longer.
    timestamps : {"coarse", "precise"} or None
        "coarse" is the kernel's tick (1 to 10 ms apart, 6 ns to read), "precise" its clock (34 ns
        to read). Coarse loses the time between neighbouring records, not their order. Fixed when
        the log is created; None means as the log has it, and "coarse" for a new one.
    roll_cycle : str, float or None
        When the log rolls by time, beside rolling where a segment is full: "MINUTELY",
        "FIVE_MINUTELY", "TEN_MINUTELY", "TWENTY_MINUTELY", "HALF_HOURLY", "HOURLY", "TWO_HOURLY",
        "FOUR_HOURLY", "SIX_HOURLY", "DAILY", "WEEKLY", or a period of your own, from 10 ms to 366
        days, such as ``"90s"``. Fixed when the log is created; None means as the log has it, and by
        size alone for a new one. Each cycle that has records takes at least one segment; a shorter
        one makes more and smaller files.
    roll_epoch : float, str, datetime.datetime or None
        Where cycles are counted from: a duration after midnight of 1 January 1970 (``"6h"`` begins
        a "DAILY" cycle at six), or an instant with a time zone. Fixed when the log is created; None
        means as the log has it, and 0 for a new one.
    time_zone : str or None
        The IANA time zone on whose clock cycles of two hours and longer that have a name begin,
        with its daylight saving; shorter ones and periods of your own have a fixed length and are
        counted in UTC. Fixed when the log is created; None means as the log has it, and "UTC" for a
        new one.
    prefault : bool
        Whether pages are brought into memory ahead of the appends. Off, less memory is touched and
        the slowest appends take milliseconds.
    open_timeout : float or str
        Seconds that opening waits for another process that opens or recovers the log, before
        `OpenTimeoutError`. 0 does not wait.
    close_timeout : float or str
        Seconds (at least 0.001) that closing may take to commit and flush everything, before
        `CloseTimeoutError`. Nothing is dropped then.
    on_lag : {"wait", "raise", "drop"}
        What an append does while it is further ahead of a required tailer than that tailer's
        `max_lag`. "wait": it waits for the tailer. "raise": it raises `TailerLagError`. "drop": the
        record is not appended, the append returns -1, and the drop is counted, here and at the
        tailer. A tailer that is declared required becomes known to a writer within 1 MiB, or a
        fourth of a segment, of appends.
    lag_timeout : float or str
        With ``on_lag="wait"``: seconds that an append waits before it raises `TailerLagError`. 0
        does not wait.
    evict_after : float, str or None
        Seconds (at least 0.001) after which a required tailer that holds this handle's appends up,
        and has not moved, is evicted: it is not required any more, and retention may delete what it
        has not read. None: nobody is evicted for that.
    wait_for_log : float or str
        Mode "r": seconds that opening waits for a writer to create the log where there is none yet,
        before `LogNotFoundError`. 0 does not wait. Opening to read never creates anything.
    retention : Retention or None
        Which old segments a handle that writes deletes, and when. None: segments stay until
        somebody deletes them. What is deleted is gone.
    listener : object or None
        Has some of `on_created`, `on_sealed`, `on_released` and `on_deleted`;
        `commitlog.keep.SegmentListener` has all. It is told, in a thread of its own, what becomes
        of the segments of a handle that writes. One that is too slow misses events; they are
        counted.
    min_free_bytes : int or str
        Free bytes that a new segment must leave. Where it would not, appends fail with
        `DiskFullError` when the present segment is full, and go on when there is room. 0: appends
        go on while the file system has room for a segment, and other programs may find it full.
    tuning : Tuning
        What a measurement or a particular disk may ask for: see `Tuning`.

    Raises
    ------
    InvalidOptionError
        When a value is not one of these, or when two options contradict each other; the message
        names them.
    """

    segment_size: Option[int | None, Size | None] = Option(None, _segment_size_or_none)
    pool: Option[BufferSource | None, BufferSource | None] = Option(None, _pool)
    flush: Option[Flush, Flush] = Option("async", chosen(get_args(Flush)))
    sync_timeout: Option[float, Duration] = Option(5.0, _interval)
    flush_interval: Option[float, Duration] = Option(0.5, _interval)
    commit_interval: Option[float, Duration] = Option(0.2, _interval)
    claim_timeout: Option[float, Duration] = Option(2.0, _interval)
    timestamps: Option[Timestamps | None, Timestamps | None] = Option(None, _clock_or_none)
    roll_cycle: Option[str | None, str | Duration | None] = Option(None, _roll_cycle)
    roll_epoch: Option[float | dt.datetime | None, Duration | dt.datetime | None] = Option(
        None, _roll_epoch
    )
    time_zone: Option[str | None, str | None] = Option(None, _time_zone)
    prefault: Option[bool, bool] = Option(True, switch)
    open_timeout: Option[float, Duration] = Option(10.0, lasting(0.0))
    close_timeout: Option[float, Duration] = Option(60.0, _interval)
    on_lag: Option[OnLag, OnLag] = Option("wait", chosen(get_args(OnLag)))
    lag_timeout: Option[float, Duration] = Option(30.0, lasting(0.0))
    evict_after: Option[float | None, Duration | None] = Option(None, _interval_or_none)
    wait_for_log: Option[float, Duration] = Option(0.0, lasting(0.0))
    retention: Option[RetentionRule | None, RetentionRule | None] = Option(None, _retention)
    listener: Option[object | None, object | None] = Option(None, _listener)
    min_free_bytes: Option[int, Size] = Option(0, parse_size)
    tuning: Option[Tuning, Tuning] = Option(Tuning(), _tuning)

    def __post_init__(self) -> None:
        if self.pool is not None and self.segment_size not in (None, self.pool.buffer_size):
            raise InvalidOptionError(
                f"segment_size ({self.segment_size}) and pool.buffer_size "
                f"({self.pool.buffer_size}) contradict each other:"
                " a buffer holds exactly one segment; leave segment_size out, or use a pool of "
                "that buffer_size"
            )
        for name in ("roll_epoch", "time_zone"):
            if self.roll_cycle is None and getattr(self, name) is not None:
                raise InvalidOptionError(
                    f"{name} says how the cycles of roll_cycle are counted: give roll_cycle, too, "
                    f"or leave {name} out"
                )
        try:
            _ = self.new_roll_cycle
        except (ValueError, OverflowError):
            raise InvalidOptionError(
                f"roll_epoch must be within a thousand years of 1970, not {self.roll_epoch!r}"
            ) from None

    @property
    def new_segment_size(self) -> int:
        """Bytes in a segment of a log that is created with these options."""
        if self.segment_size is not None:
            return self.segment_size
        return SEGMENT_SIZE_DEFAULT if self.pool is None else self.pool.buffer_size

    @property
    def new_timestamps(self) -> Timestamps:
        """The clock of a log that is created with these options."""
        return TIMESTAMPS_DEFAULT if self.timestamps is None else self.timestamps

    @property
    def new_roll_cycle(self) -> RollCycle | None:
        """The cycle of a log that is created with these options; None: it rolls by size alone."""
        if self.roll_cycle is None:
            return None
        zone = cycles.TIME_ZONE_DEFAULT if self.time_zone is None else self.time_zone
        cycle = RollCycle(self.roll_cycle, 0, zone)
        epoch = self.roll_epoch
        if isinstance(epoch, dt.datetime):
            return dataclasses.replace(cycle, epoch_ns=cycle.epoch_of(epoch))
        return (
            cycle
            if epoch is None
            else dataclasses.replace(cycle, epoch_ns=round(epoch * SECOND_NS))
        )

    @classmethod
    def of(cls, options: Options | None, **overrides: Unpack[OptionOverrides]) -> Options:
        """The given options (None: the defaults) with some of them overridden.

        Raises
        ------
        InvalidOptionError
            When `options` is something else, a name is unknown, or the outcome is not valid.
        """
        if options is None:
            options = cls()
        if not isinstance(options, Options):
            raise InvalidOptionError(
                f"options must be a commitlog.Options or None, not {type(options).__name__}"
            )
        return options.replace(**overrides)

    def replace(self, **overrides: Unpack[OptionOverrides]) -> Self:
        """A copy with some options overridden.

        Raises
        ------
        InvalidOptionError
            When a name is unknown, or the outcome is not valid.
        """
        known = [field.name for field in dataclasses.fields(self)]
        for name in overrides:
            if name in _TUNING_NAMES:
                raise InvalidOptionError(
                    f"{name} is a field of Tuning: use tuning=commitlog.Tuning({name}=...)"
                )
            if name not in known:
                raise InvalidOptionError(
                    "there is no option "
                    f"{name!r}{did_you_mean(name, known) or '; there are: ' + ', '.join(known)}"
                )
        return dataclasses.replace(self, **overrides)
