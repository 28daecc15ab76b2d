"""Statistics of an open log, and of a pool."""

from __future__ import annotations

import html
import math
from dataclasses import dataclass, field

from commitlog.errors import InvalidOptionError

_LATENCY_COLUMNS = ("count", "mean", "p50", "p99", "p99.9", "longest")


@dataclass(frozen=True)
class Latency:
    """Hold a latency histogram: counts in log-linear buckets with a resolution of 1/32.

    Attributes
    ----------
    buckets : tuple of (int, int)
        The upper bound of a bucket in nanoseconds, and its count; ascending, without empty buckets.
        The last one also counts everything above 2**40 ns (18 minutes).
    total_ns : int
        The exact sum.
    longest_ns : int
        The exact maximum. In a difference from `since`, the maximum is the bucket's upper bound.
    """

    buckets: tuple[tuple[int, int], ...] = ()
    total_ns: int = 0
    longest_ns: int = 0

    @property
    def count(self) -> int:
        """Return the number of measurements."""
        return sum(count for _, count in self.buckets)

    @property
    def mean_seconds(self) -> float:
        """Return the mean; 0 if there are no measurements."""
        return self.total_ns / 1e9 / max(1, self.count)

    @property
    def p50_seconds(self) -> float:
        """Return the median."""
        return self.percentile_seconds(50)

    @property
    def p99_seconds(self) -> float:
        """Return the 99th percentile."""
        return self.percentile_seconds(99)

    @property
    def p999_seconds(self) -> float:
        """Return the 99.9th percentile."""
        return self.percentile_seconds(99.9)

    @property
    def longest_seconds(self) -> float:
        """Return the maximum."""
        return self.longest_ns / 1e9

    def percentile_seconds(self, percentile: float) -> float:
        """Return a percentile, rounded up by at most 1/32; 0 if there are no measurements.

        Parameters
        ----------
        percentile : float
            From 0 to 100.

        Raises
        ------
        InvalidOptionError
            The percentile is outside 0 to 100.
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
        """Return the measurements since an earlier snapshot of the same log.

        Parameters
        ----------
        earlier : Latency
            From an earlier `stats()` of the same log.
        """
        before = dict(earlier.buckets)
        buckets = tuple(
            (upto_ns, count - before.get(upto_ns, 0))
            for upto_ns, count in self.buckets
            if count > before.get(upto_ns, 0)
        )
        longest_ns = min(buckets[-1][0], self.longest_ns) if buckets else 0
        return Latency(buckets, self.total_ns - earlier.total_ns, longest_ns)


@dataclass(slots=True, kw_only=True)
class PoolStats:
    """Hold a snapshot of a `TransientStorePool`'s counters.

    Attributes
    ----------
    buffers : int
        All buffers, including lent ones.
    available : int
        Free buffers.
    locked : int
        Buffers that are locked into RAM.
    borrows, returns : int
        Buffers lent and taken back.
    waits : int
        Borrows that had to wait, whether or not they got a buffer.
    wait_seconds : float
        Time spent in those waits.
    exhausted : int
        Borrows that found no free buffer, under any policy; `try_borrow` does not count.
    grown : int
        Buffers added under ``on_exhausted="grow"``.
    low_water_warnings : int
        Times that a borrow left too few buffers.
    """

    buffers: int = 0
    available: int = 0
    locked: int = 0
    borrows: int = 0
    returns: int = 0
    waits: int = 0
    wait_seconds: float = 0.0
    exhausted: int = 0
    grown: int = 0
    low_water_warnings: int = 0


@dataclass(slots=True)
class TopicStats:
    """Count the messages that a handle compressed or sealed for one topic.

    A message counts when it is compressed or sealed, also if its append then fails.

    Attributes
    ----------
    messages : int
    plain_bytes : int
        Of the messages, as the codec encoded them.
    value_bytes : int
        Of the same messages, compressed, sealed, or both. Histories and frames are left out.
    """

    messages: int = 0
    plain_bytes: int = 0
    value_bytes: int = 0

    @property
    def ratio(self) -> float:
        """Return how many times smaller the messages became; 1 without messages."""
        return self.plain_bytes / self.value_bytes if self.value_bytes else 1.0


@dataclass(frozen=True, kw_only=True)
class StoreStats:
    """Say how far a log is stored.

    Attributes
    ----------
    target : str
        The address of the store, without credentials, or its directory.
    position : int
        The store has what is below this position. Another process than the one that stores the log
        may see it up to 5 s late.
    kept_position : int
        Each segment below this position is stored whole, so retention may delete it.
    lag_bytes : int
        The bytes that the loss of this machine would lose, if no copy has them.
    lag_ms : float
        The age of the oldest record among them, by its timestamp; 0 if there is none.
    last_error : str or None
        Why the log cannot be stored now.
    failing_since_ns : int or None
        Since when, in nanoseconds since 1970.
    failed_rounds : int
        How many rounds failed since the handle that stores the log was opened. Each is tried again.
    requests : int
        The requests of that handle to the store.
    """

    target: str
    position: int = 0
    kept_position: int = 0
    lag_bytes: int = 0
    lag_ms: float = 0.0
    last_error: str | None = None
    failing_since_ns: int | None = None
    failed_rounds: int = 0
    requests: int = 0

    @property
    def lag_seconds(self) -> float:
        """Return `lag_ms` in seconds."""
        return self.lag_ms / 1e3

    @property
    def is_failing(self) -> bool:
        """Return whether the log cannot be stored now."""
        return self.last_error is not None


@dataclass(frozen=True, kw_only=True)
class FlowStats:
    """Say how far a mirror or the relay of an outbox is behind.

    Attributes
    ----------
    name : str
        What it is, and from where or to where it moves records.
    lag_bytes : int or None
        The bytes of the log that it has not moved; None if it moves records into the log.
    lag_records : int or None
        The records that it has not moved into the log, as far as it knows.
    lag_ms : float or None
        The age of the oldest of them, if it is known.
    error : str or None
        Why it has ended, or cannot go on now.
    """

    name: str
    lag_bytes: int | None = None
    lag_records: int | None = None
    lag_ms: float | None = None
    error: str | None = None

    @property
    def lag_seconds(self) -> float | None:
        """Return `lag_ms` in seconds."""
        return None if self.lag_ms is None else self.lag_ms / 1e3

    @property
    def failed(self) -> bool:
        """Return whether it has an error."""
        return self.error is not None

    def __str__(self) -> str:
        known = {"bytes": self.lag_bytes, "records": self.lag_records, "ms": self.lag_ms}
        behind = " and ".join(
            f"{value:,.0f} {unit}" for unit, value in known.items() if value is not None
        )
        return f"{self.name}: {behind} behind" + (f"; {self.error}" if self.failed else "")


@dataclass(frozen=True)
class LogStats:
    """Hold a snapshot of one open log's watermarks, counters and latencies.

    Counters and latencies cover what this handle did since it was opened. A handle with
    ``mode="r"`` reports the watermarks it sees and whether the log has failed; its counters are 0.

    Attributes
    ----------
    tail_position, appended_position, committed_position, flushed_position : int
        The watermarks.
    uncommitted_bytes, unflushed_bytes : int
        What a kill of this process (anonymous buffers) and a power cut would lose now.
    replicated_position, replication_lag_bytes : int or None
        The end of the records that enough copies have, as for `CommitLog.replicated_position`; and
        the bytes that the loss of this machine would lose now. None if no writer uses `replicate=`.
    replication_lag_ms : float or None
        The age of the oldest record that this loss would lose, by its timestamp.
    appends, records, appended_bytes : int
        Claims published (a batch is one), records in them, bytes of their frames.
    refused_claims, rolled_back_claims : int
        Claims of this handle that other handles rolled back; claims that this handle rolled back.
    rolls : int
        Segments that this handle closed by moving the tail to the next one.
    committed_bytes, flushed_bytes : int
        Bytes that this handle's commits and flushes covered.
    commit_latency : Latency
        Duration of a commit round: in a pooled log the copy from buffer to segment, in a mapped log
        the walk over the published frames.
    flush_latency : Latency
        Duration of the flushes that this handle led, without the commit.
    sync_latency : Latency
        Time that appends waited for durability, including earlier flushes of other appenders and
        waits that timed out.
    roll_latency : Latency
        Time that appends waited for the next segment and, in a pooled log, for a buffer.
    claim_latency : Latency
        Time that an open claim blocked the commit, at the resolution of this handle's commits.
    lag_latency : Latency
        Time that appends waited for required tailers, including waits that timed out.
    dropped_records : int
        Records that were not appended, because a required tailer was too far behind.
    failed : str or None
        Why the log has failed; None if it has not.
    free_disk_bytes : int
        Free bytes of the log's file system for this user.
    disk : {"fine", "low", "full"}
        "low": the free bytes are below `warn_free_bytes`. "full": they do not suffice for the next
        segment, and appends fail when the current one is full. A writer checks once a second; a
        handle that only reads always reports "fine".
    dropped_events, listener_failures : int
        Events that a segment listener was too slow to receive, and exceptions that it raised.
    pool : PoolStats or None
        The statistics of the pool.
    topics : dict of str to TopicStats
        By name, the topics whose messages this handle compresses or seals.
    store : StoreStats or None
        How far the log is stored; None if it has no store.
    flows : tuple of FlowStats
        How far the mirrors and relays are that use this handle.
    """

    tail_position: int
    appended_position: int
    committed_position: int
    flushed_position: int
    replicated_position: int | None
    uncommitted_bytes: int
    unflushed_bytes: int
    replication_lag_bytes: int | None
    replication_lag_ms: float | None
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
    pool: PoolStats | None = None
    topics: dict[str, TopicStats] = field(default_factory=dict)
    store: StoreStats | None = None
    flows: tuple[FlowStats, ...] = ()

    @property
    def commits(self) -> int:
        """Return the number of commit rounds."""
        return self.commit_latency.count

    @property
    def flushes(self) -> int:
        """Return the number of flushes that this handle led."""
        return self.flush_latency.count

    @property
    def syncs(self) -> int:
        """Return the number of appends that waited for durability."""
        return self.sync_latency.count

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"

    def __str__(self) -> str:
        """Format the statistics as a table."""
        lines = [f"{'position':<13}{'bytes':>18}{'behind the tail':>18}"]
        for name in ("tail", "appended", "committed", "flushed", "replicated"):
            position = getattr(self, f"{name}_position")
            if position is None:
                continue
            lines.append(f"{name:<13}{position:>18,}{max(0, self.tail_position - position):>18,}")
        lines.append(f"\n{'counter':<13}{'records':>18}{'bytes':>18}")
        lines.append(f"{'appended':<13}{self.records:>18,}{self.appended_bytes:>18,}")
        lines.append(f"{'committed':<13}{'':>18}{self.committed_bytes:>18,}")
        lines.append(f"{'flushed':<13}{'':>18}{self.flushed_bytes:>18,}")
        lines.append(f"{'dropped':<13}{self.dropped_records:>18,}")
        lines.append(f"\n{'latency, ms':<13}" + "".join(f"{name:>11}" for name in _LATENCY_COLUMNS))
        for name in ("commit", "flush", "sync", "roll", "claim", "lag"):
            latency: Latency = getattr(self, f"{name}_latency")
            seconds = (
                latency.mean_seconds,
                latency.p50_seconds,
                latency.p99_seconds,
                latency.p999_seconds,
            )
            columns = "".join(
                f"{value * 1e3:>11,.3f}" for value in (*seconds, latency.longest_seconds)
            )
            lines.append(f"{name:<13}{latency.count:>11,}{columns if latency.count else ''}")
        lines.append(
            f"\n{self.appends:,} appends, {self.rolls:,} rolls, {self.refused_claims:,} refused "
            "claims, "
            f"{self.rolled_back_claims:,} rolled back; disk {self.disk}, {self.free_disk_bytes:,} "
            "bytes free"
        )
        for name, each in self.topics.items():
            lines.append(
                f"topic {name}: {each.messages:,} messages, {each.plain_bytes:,} bytes became "
                f"{each.value_bytes:,}, {each.ratio:.1f} times smaller"
            )
        if self.store is not None:
            lines.append(
                f"stored to {self.store.position:,} in {self.store.target}, "
                f"{self.store.lag_bytes:,} bytes and {self.store.lag_ms:,.0f} ms behind"
            )
            if self.store.last_error is not None:
                lines.append(f"NOT STORED: {self.store.last_error}")
        lines += map(str, self.flows)
        if self.failed is not None:
            lines.append(f"FAILED: {self.failed}")
        if self.pool is not None:
            lines.append(str(self.pool))
        return "\n".join(lines)
