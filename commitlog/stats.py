"""What a log can tell about itself, as numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from commitlog.errors import InvalidOptionError

_HDR_LARGEST_NS = 1 << 40
_HDR_DIGITS = 2


@dataclass(frozen=True)
class Latency:
    """How long something took, each time that it was done: counts in log-linear buckets, which tell
    a value to a 32nd of it.

    Attributes
    ----------
    buckets : tuple of (int, int)
        The largest nanoseconds that a bucket stands for, and how many it holds; ascending, the
        empty ones left out. What took more than 2**40 ns, 18 minutes, is in the last one.
    total_ns : int
        Of all together, exactly.
    longest_ns : int
        The longest, exactly; of a difference that `since` made, as the buckets tell it.
    """

    buckets: tuple[tuple[int, int], ...] = ()
    total_ns: int = 0
    longest_ns: int = 0

    @property
    def count(self) -> int:
        """How many there were."""
        return sum(count for _, count in self.buckets)

    @property
    def mean_seconds(self) -> float:
        """Of all; 0 where there were none."""
        return self.total_ns / 1e9 / max(1, self.count)

    @property
    def p50_seconds(self) -> float:
        """The median."""
        return self.percentile_seconds(50)

    @property
    def p99_seconds(self) -> float:
        """Which one in a hundred exceeded."""
        return self.percentile_seconds(99)

    @property
    def p999_seconds(self) -> float:
        """Which one in a thousand exceeded."""
        return self.percentile_seconds(99.9)

    @property
    def longest_seconds(self) -> float:
        """The longest."""
        return self.longest_ns / 1e9

    def percentile_seconds(self, percentile: float) -> float:
        """What so many in a hundred did not exceed, told from above and at most a 32nd too large; 0
        where there were none.

        Parameters
        ----------
        percentile : float
            From 0 to 100.

        Raises
        ------
        InvalidOptionError
            It is not.
        """
        if not 0 <= percentile <= 100:
            raise InvalidOptionError(f"percentile must be from 0 to 100, not {percentile!r}")
        wanted = max(1, math.ceil(self.count * percentile / 100))
        for upto_ns, count in self.buckets:
            wanted -= count
            if wanted <= 0:
                return min(upto_ns, self.longest_ns) / 1e9
        return self.longest_ns / 1e9

    def since(self, earlier: Latency) -> Latency:
        """What has come since an earlier look at the same figures.

        Parameters
        ----------
        earlier : Latency
            From an earlier `stats()` of the same log.

        Returns
        -------
        Latency
        """
        before = dict(earlier.buckets)
        buckets = tuple(
            (upto_ns, count - before.get(upto_ns, 0))
            for upto_ns, count in self.buckets
            if count > before.get(upto_ns, 0)
        )
        longest_ns = min(buckets[-1][0], self.longest_ns) if buckets else 0
        return Latency(buckets, self.total_ns - earlier.total_ns, longest_ns)

    def to_hdr(self) -> Any:
        """The same as an `hdrh.histogram.HdrHistogram` of nanoseconds, two digits: `encode()` it
        for HdrHistogram's tools, or `add` it.

        Raises
        ------
        ModuleNotFoundError
            hdrhistogram is not there: ``pip install 'commitlog-engine[metrics]'``.
        """
        try:
            from hdrh.histogram import HdrHistogram
        except ImportError as error:
            raise ModuleNotFoundError(
                "HdrHistogram's format needs hdrhistogram: pip install 'commitlog-engine[metrics]'"
            ) from error
        histogram = HdrHistogram(1, _HDR_LARGEST_NS, _HDR_DIGITS)
        for upto_ns, count in self.buckets:
            histogram.record_value(max(1, min(upto_ns, self.longest_ns)), count)
        return histogram


@dataclass(frozen=True)
class LogStats:
    """A moment's figures of one open log. Counters and latencies are of what this handle did since
    it was opened.

    A handle with ``mode="r"`` has done nothing of the kind: it tells the watermarks as it sees
    them, whether the log has failed, and zeros.

    Attributes
    ----------
    tail_position, appended_position, committed_position, flushed_position : int
        The watermarks.
    uncommitted_bytes, unflushed_bytes : int
        What a kill of this process (anonymous buffers) and a power cut would take back now.
    appends, records, appended_bytes : int
        Claims published (a batch is one), records in them, bytes of their frames.
    refused_claims, rolled_back_claims : int
        Claims of this handle that others rolled back; claims that this handle rolled back.
    rolls : int
        Segments that this handle moved the tail on from.
    committed_bytes, flushed_bytes : int
        What its commits and flushes went over.
    commit_latency : Latency
        Rounds of the commit: of a pooled log the copy from buffer to segment, of a mapped one the
        walk over what is published.
    flush_latency : Latency
        Flushes that this handle led, commit not included.
    sync_latency : Latency
        What appends waited for the disk, their share of the flush and of others' flushes before it
        included; those that timed out, too.
    roll_latency : Latency
        What appends waited for the next segment and, in a pooled log, for a buffer.
    claim_latency : Latency
        How long a claim that somebody had open held the commit up, as exactly as commits come by:
        one that flushes all half a second sees it 10 ms later.
    lag_latency : Latency
        What appends waited for required tailers that were too far behind; those that gave up, too.
    dropped_records : int
        Records that were not appended, because a required tailer was too far behind.
    failed : str or None
        Why the log has failed.
    free_disk_bytes : int
        Room on the log's file system for this user.
    disk : {"fine", "low", "full"}
        Whether that is less than `warn_free_bytes`, or too little for the next segment, so that
        appends are refused when the present one is full. What this handle saw at its last look,
        once a second; always "fine" for one that only reads.
    dropped_events, listener_failures : int
        What a segment listener was not told, since it was too slow, and what it raised.
    pool : object or None
        The pool's own figures, `PoolStats`.
    """

    tail_position: int
    appended_position: int
    committed_position: int
    flushed_position: int
    uncommitted_bytes: int
    unflushed_bytes: int
    appends: int
    records: int
    appended_bytes: int
    refused_claims: int
    rolled_back_claims: int
    rolls: int
    committed_bytes: int
    flushed_bytes: int
    commit_latency: Latency
    flush_latency: Latency
    sync_latency: Latency
    roll_latency: Latency
    claim_latency: Latency
    lag_latency: Latency
    dropped_records: int
    failed: str | None
    free_disk_bytes: int
    disk: str
    dropped_events: int
    listener_failures: int
    pool: Any = None

    @property
    def commits(self) -> int:
        """Rounds of the commit."""
        return self.commit_latency.count

    @property
    def flushes(self) -> int:
        """Flushes that this handle led."""
        return self.flush_latency.count

    @property
    def syncs(self) -> int:
        """Appends that waited for the disk."""
        return self.sync_latency.count
