"""How large and how long a run is."""

from __future__ import annotations

from dataclasses import dataclass

from commitlog.base.units import GIB, MIB


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Sizes in bytes, times in seconds; one object a run, kept with its results.

    Attributes
    ----------
    turns, warm_up : int
        How often each case is measured, and how many turns are not counted before that. None by
        default: each turn of the short ones warms up by itself, with appends or reads that are not
        counted. The long ones have turns of their own.
    burst_bytes, append_bytes : int
        The append workloads: what is appended without a rest, and altogether, a turn.
    rest_s : float
        What a rest gives pre-faulting and zeroing, so that a burst meets a log at rest, as a burst
        of a real program does.
    settle_s : float
        How long a turn that waits for the disk waits at most, beforehand, for what others have left
        the disk to do.
    sync_s : float
        How long sync appends go on, a turn.
    read_bytes, read_s : int, float
        The size of a log that is read, and how long reading goes on, a turn.
    paced_s, paced_turns, rate : float, int, int
        The constant rate: how long, how often, and how many bytes of values a second.
    recovery_bytes, open_segments : int
        The size of the log that is recovered; the segments of the one that is opened.
    sustained_bytes, sustained_turns : int
        What is appended in one piece, and how often.
    segment_size, buffers : int
        Of the logs and of the pool.
    latency_appends : int
        How many appends are timed one by one, a turn.
    quick : bool
        Whether it is all too small for its figures to mean much.
    """

    turns: int = 5
    warm_up: int = 0
    burst_bytes: int = 32 * MIB
    append_bytes: int = 64 * MIB
    rest_s: float = 0.01
    settle_s: float = 10.0
    sync_s: float = 0.5
    read_bytes: int = 64 * MIB
    read_s: float = 0.3
    paced_s: float = 15.0
    paced_turns: int = 3
    rate: int = 200_000_000
    recovery_bytes: int = 256 * MIB
    open_segments: int = 1000
    sustained_bytes: int = 8 * GIB
    sustained_turns: int = 2
    segment_size: int = 64 * MIB
    buffers: int = 5
    latency_appends: int = 20_000
    quick: bool = False


QUICK = Settings(
    turns=1,
    warm_up=0,
    burst_bytes=MIB // 2,
    append_bytes=MIB // 2,
    rest_s=0.001,
    settle_s=0.0,
    sync_s=0.005,
    read_bytes=MIB,
    read_s=0.005,
    paced_s=0.1,
    paced_turns=1,
    rate=20_000_000,
    recovery_bytes=2 * MIB,
    open_segments=10,
    sustained_bytes=8 * MIB,
    sustained_turns=1,
    segment_size=MIB,
    buffers=4,
    latency_appends=200,
    quick=True,
)
