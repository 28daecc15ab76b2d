"""Tuning: the options that few logs need to change, and their checks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import SupportsIndex

from commitlog._kernel import segments
from commitlog.base.keywords import refuses_unknown
from commitlog.base.option import Option, counted, lasting, optional, sized
from commitlog.base.units import Duration, Size, parse_size

ALLOCATE_AHEAD_MOST = 8
INDEX_SPACING_SMALLEST = 16
INDEX_SPACING_LARGEST = 65536
INDEX_SPACING_DEFAULT = 256

_PAGE_SIZE = segments.HEADER_SIZE
_PAGES_MOST = segments.LARGEST // _PAGE_SIZE
_allocate_ahead = optional(counted(ALLOCATE_AHEAD_MOST))
_prefault_distance = optional(sized(_PAGE_SIZE, ALLOCATE_AHEAD_MOST * segments.LARGEST))
_size_or_none = optional(parse_size)
_interval = lasting(0.001)


@refuses_unknown()
@dataclass(frozen=True, kw_only=True)
class Tuning:
    """Set the options that few logs need to change; docs/tuning.md gives the measurements.

    Parameters
    ----------
    flush_least_pages : int
        A round flushes only if at least that many 4 KiB pages are dirty, 0 to 262144. More: a slow
        trickle waits for the round of `flush_thorough_interval`.
    flush_thorough_interval : float or str
        Seconds (at least 0.001) after which a round flushes every dirty page. It bounds what an OS
        crash loses from a slow trickle. If a reader waits for durability
        (``visibility="flushed"``), the next round flushes.
    commit_least_pages : int
        Pooled logs: a round commits only if at least that many 4 KiB pages are uncommitted, 0 to
        262144. More: the same effect as a longer `commit_interval`.
    commit_thorough_interval : float or str
        Pooled logs: seconds (at least 0.001) after which a round commits everything. It bounds
        what a slow trickle loses when the process dies.
    checkpoint_interval : float or str
        Seconds (at least 0.001) between writes of the checkpoint. Longer: recovery after a crash
        scans more. No record is lost.
    allocate_ahead : int or None
        Segments created ahead of need, 0 to 8. None: as many as appends fill in the time that
        creating one takes, at least 1. Fewer take less disk; with 0 the appender that rolls waits
        for the file system.
    prefault_distance : int, str or None
        Bytes that pre-faulting keeps ahead of the tail, 4096 to 8 GiB. None: half a second of
        appends at the present rate, 16 to 256 MiB. Shorter takes less memory; a burst may overtake
        it.
    index_spacing : int
        Records between two entries of a segment's index, 16 to 65536, for new indexes. More: a seek
        by sequence or time scans more records, and an index takes less disk (16 bytes an entry). No
        record is lost.
    archive_cache : int or str
        Mode "r" of an archive: bytes of unpacked segments to cache for the next reader; the cache
        keeps at least three segments. Less: reading a segment again fetches and unpacks it again.
    warn_free_bytes : int, str or None
        Free bytes of the log's file system below which the log warns, once, and `stats().disk` is
        "low". None: `min_free_bytes` plus four segments. Less: the warning comes later.

    Raises
    ------
    InvalidOptionError
        A value is out of range; the message names the option.
    """

    flush_least_pages: Option[int, SupportsIndex] = Option(4, counted(_PAGES_MOST))
    flush_thorough_interval: Option[float, Duration] = Option(10.0, _interval)
    commit_least_pages: Option[int, SupportsIndex] = Option(4, counted(_PAGES_MOST))
    commit_thorough_interval: Option[float, Duration] = Option(0.2, _interval)
    checkpoint_interval: Option[float, Duration] = Option(1.0, _interval)
    allocate_ahead: Option[int | None, SupportsIndex | None] = Option(None, _allocate_ahead)
    prefault_distance: Option[int | None, Size | None] = Option(None, _prefault_distance)
    index_spacing: Option[int, SupportsIndex] = Option(
        INDEX_SPACING_DEFAULT, counted(INDEX_SPACING_LARGEST, INDEX_SPACING_SMALLEST)
    )
    archive_cache: Option[int, Size] = Option("1GiB", parse_size)
    warn_free_bytes: Option[int | None, Size | None] = Option(None, _size_or_none)
