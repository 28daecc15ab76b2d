"""The rows of the comparison: what each appends or reads, and which pairs it compares.

A side is a program and its settings: "ours ..." is commitlog, "capi ..." its C API, "alone" the
pacing loop without a log; the others are the peers of `programs.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

GIB = 1 << 30
BATCH = 1024
MORE_IS_BETTER = ("per_s", "mb_s")
JVM = ("rocketmq", "chronicle", "mappedbus", "kafka")
SLOW = ("lmdb", "sqlite", "rocksdict", "kafka")  # by single appends
# By the role of the measured process: its figures.
FIGURES = {
    "burst": ("ns",),
    "sync": ("per_s", "p99"),
    "paced": ("p99", "p999"),
    "sustained": ("mb_s",),
    "read": ("ns",),
    "take": ("ns",),
    "paced-take": ("p50", "p999"),
    "ping": ("p50", "p999"),
}
# Small sizes, which only show that a row works.
QUICK = {
    "burst": {"records": 20 * BATCH, "bursts": 3, "warm": 2},
    "sync": {"ms": 200, "warm_appends": 20},
    "paced": {"ms": 500, "warm_ms": 300, "rate": 40_000},
    "sustained": {"bytes": 64 << 20, "warm_records": 10 * BATCH},
    "read": {"records": 20 * BATCH, "passes": 2, "warm": 1},
    "take": {"records": 20 * BATCH, "warm_records": 10 * BATCH},
    "paced-take": {"records": 10_000, "warm_records": 5_000},
    "ping": {"records": 10_000, "warm_records": 5_000},
}
# What the compilers of a JVM need: RocketMQ's append takes a million calls to become fast.
JVM_WARM = {
    "burst": {"warm": 60, "warm_ms": 3000},
    "sync": {"warm_ms": 2000},
    "paced": {"jit_records": 500_000},
    "read": {"warm": 12},
}
JVM_QUICK = {
    "burst": {"warm": 12, "warm_ms": 500},
    "sync": {"warm_ms": 200},
    "paced": {"jit_records": 100_000},
    "read": {"warm": 4},
}


@dataclass(frozen=True)
class Row:
    """One piece of work.

    Attributes
    ----------
    name, title : str
        The name on the command line and in the table; the work in words.
    roles : tuple of str
        The processes in the order of their start; the last one is measured.
    settings : dict
        The size of the work, the same for each side.
    pairs : tuple of pairs of str
        Sides that are compared: ours and a peer.
    rolls : bool
        Whether only the calls that roll to the next segment count, over all turns.
    room : float
        GiB of the disk that a turn needs.
    memory : bool
        Whether the row runs in /dev/shm and not on the disk.
    """

    name: str
    title: str
    roles: tuple[str, ...]
    settings: dict[str, int]
    pairs: tuple[tuple[str, str], ...]
    rolls: bool = False
    room: float = 4
    memory: bool = False

    @property
    def figures(self) -> tuple[str, ...]:
        return ("p50", "p99", "p999") if self.rolls else FIGURES[self.roles[-1]]

    def sides(self) -> list[str]:
        """Return each side once; those of a pair are neighbours where possible."""
        return list(dict.fromkeys(side for pair in self.pairs for side in pair))

    def settings_of(self, side: str, quick: bool) -> dict[str, str]:
        """Return the settings of a side's processes."""
        program, *own = side.split()
        role = self.roles[-1]
        given: dict[str, object] = {**self.settings, **(QUICK[role] if quick else {})}
        if program in JVM:
            given |= (JVM_QUICK if quick else JVM_WARM).get(role, {})
        given |= dict(setting.split("=", 1) for setting in own)
        if program == "mappedbus" and role == "burst":
            given["warm"] = 12  # nothing flushes or reuses its file
        if program in SLOW and role == "burst" and given.get("batch") == "1":
            given["records"] = min(int(str(given["records"])), 40 * BATCH)
        if quick and "segment" in given:
            given["segment"] = 4 << 20 if self.rolls else 64 << 20
        return {name: str(value) for name, value in given.items()}


MAPPED, POOLED = "ours setup=mapped flush=async", "ours setup=pooled flush=async"
NONE = "ours setup=mapped flush=none"
CAPI_MAPPED = "capi setup=mapped flush=none form=capi"
CAPI_POOLED = "capi setup=pooled flush=async form=capi"
POOL, MAP = "rocketmq pool=1", "rocketmq"
Pairs = Iterator[tuple[str, str]]


def aligned(size: int, room: int) -> int:
    """Return how many records of a size fill the room, in whole batches."""
    return room // ((16 + size + 7) & ~7) // BATCH * BATCH


def _burst_pairs(size: int) -> Pairs:
    single, many, array = (f"{NONE} form={form}" for form in ("single", "many", "array"))
    if size == 40:
        yield from ((side, "mappedbus") for side in (single, CAPI_MAPPED, array))
        yield from ((side, "mappedbus") for side in (f"{POOLED} form=single", CAPI_POOLED))
        yield from ((side, "chronicle") for side in (single, array))
    else:
        yield f"{POOLED} form=single", POOL
        yield f"{MAPPED} form=single", MAP
        yield from ((single, peer) for peer in ("mappedbus", "chronicle", "kafka batch=1"))
        yield single, "rustcommitlog"
    if size == 100:
        yield f"{POOLED} form=single", f"{POOL} full=1"
        for form in ("many", "array"):
            yield f"{POOLED} form={form}", f"{POOL} batch={BATCH}"
        yield many, f"kafka batch={BATCH}"
        for store in ("lmdb", "sqlite", "rocksdict"):
            yield single, f"{store} batch=1"
            yield many, f"{store} batch={BATCH}"
    yield from ((single, peer) for peer in ("file", "c"))


def burst(size: int) -> Row:
    records = aligned(size, 32 << 20)
    settings = {"size": size, "records": records, "bursts": 7, "warm": 5}
    title = f"{size} B in bursts of {records:,}; what drains them is not counted"
    return Row(f"burst-{size}", title, ("burst",), settings, tuple(_burst_pairs(size)))


def sync(size: int, threads: int) -> Row:
    peers = ["chronicle", MAP, "okaywal"]
    if size == 100:
        peers.append("rocksdict")
    if threads == 1:
        peers += ["c", "c overwrite=1"]
        peers += ["kafka", "sqlite", "lmdb", "file"] if size == 100 else []
    else:
        peers.remove("chronicle")
    pairs = [("ours setup=mapped", peer) for peer in peers]
    if size == 100:
        pairs.append(("ours setup=pooled", MAP))
    settings = {"size": size, "threads": threads, "ms": 2000, "warm_appends": 200}
    title = f"{size} B, each append durable before the next, threads: {threads}"
    return Row(f"sync-{size}-{threads}", title, ("sync",), settings, tuple(pairs))


def paced(rate: int, label: str) -> Row:
    pairs = [
        (POOLED, "alone"),
        (POOLED, POOL),
        (MAPPED, "alone"),
        (MAPPED, f"{MAP} warm_files=1"),
        (MAPPED, MAP),
        (f"{POOLED} segment={GIB} buffers=4", f"{POOL} segment={GIB} buffers=4"),
        *((NONE, peer) for peer in ("chronicle", "mappedbus", "kafka", "rustcommitlog", "c")),
    ]
    settings = {"size": 1024, "rate": rate, "ms": 6000, "warm_ms": 2000}
    title = f"1 KiB at {rate:,} a second, from when an append was due"
    return Row(f"paced-{label}", title, ("paced",), settings, tuple(pairs), room=8)


def _sustained_pairs() -> Pairs:
    yield from ((f"{MAPPED} form={form}", f"kafka batch={BATCH}") for form in ("many", "array"))
    single = f"{MAPPED} form=single"
    yield f"{POOLED} form=single", POOL
    yield f"{POOLED} form=single", "c"
    yield f"{POOLED} form=single", "file"
    yield from ((single, peer) for peer in (MAP, "chronicle", "mappedbus", "rustcommitlog"))


def read(size: int) -> Row:
    records = aligned(size, 64 << 20)
    values, batch = (f"{NONE} form={form}" for form in ("values", "read_batch"))
    pairs = [(side, peer) for peer in ("mappedbus", "chronicle") for side in (values, batch)]
    pairs.append((f"{NONE} form=records", "chronicle"))
    if size == 40:
        pairs.append((CAPI_MAPPED, "mappedbus"))
    if size == 100:
        peers = (MAP, f"{MAP} no_crc=1", "kafka", "rustcommitlog", "lmdb", "sqlite", "rocksdict")
        pairs += [(values, peer) for peer in peers]
    settings = {"size": size, "records": records, "passes": 5, "warm": 4}
    title = f"{records:,} records of {size} B, read again from the page cache"
    return Row(f"read-{size}", title, ("read",), settings, tuple(pairs))


def messages(role: str, title: str) -> Row:
    forms = ("methods", "topic", "topic_many") if role == "burst" else ("methods", "topic")
    pairs = tuple((f"{NONE} form={form}", "chronicle form=methods") for form in forms)
    settings = {"records": 64 * BATCH, "bursts": 7, "passes": 5, "warm": 4}
    return Row(f"messages-{role}", f"messages of 6 fields, {title}", (role,), settings, pairs)


def live(size: int, writers: int, memory: bool) -> Row:
    records = (2_000_000 if size < 1000 else 400_000) // writers // BATCH * BATCH
    single = f"{NONE} form=single"
    pairs = [(single, "mappedbus")]
    if not memory:
        pairs.append((single, "chronicle"))
    if writers == 1 and size == 40:
        pairs.append((f"{NONE} form=array", "mappedbus"))
    settings = {
        "size": size,
        "records": records,
        "warm_records": records // 2 // BATCH * BATCH,
        "writers": writers,
    }
    name = f"live-{size}-{writers}{'-shm' if memory else ''}"
    title = f"{size} B from {writers} writing processes to a reading one"
    roles = ("write",) * writers + ("take",)
    return Row(name, title, roles, settings, tuple(pairs), memory=memory)


def live_paced(rate: int, size: int) -> Row:
    settings = {"size": size, "rate": rate, "records": 4 * rate, "warm_records": 2 * rate}
    title = f"{size} B at {rate:,} a second, from when a record was due to when it was read"
    pairs = ((NONE, "mappedbus"), (NONE, "chronicle"))
    name = f"livepaced-{rate // 1000}k-{size}"
    return Row(name, title, ("write", "paced-take"), settings, pairs)


def round_trip(memory: bool) -> Row:
    settings = {"size": 12, "records": 500_000, "warm_records": 100_000}
    name = f"roundtrip{'-shm' if memory else ''}"
    title = "12 B to another process and back"
    pairs = ((NONE, "mappedbus"),)
    return Row(name, title, ("pong", "ping"), settings, pairs, memory=memory)


ROWS = (
    *(burst(size) for size in (40, 100, 1024)),
    *(sync(size, threads) for size in (100, 1024) for threads in (1, 16)),
    Row(
        "roll",
        "1 KiB at 195,312 a second: the calls that roll to the next 64 MiB segment",
        ("paced",),
        {"size": 1024, "rate": 195_312, "ms": 25_000, "warm_ms": 2000, "segment": 64 << 20},
        ((POOLED, MAPPED), (POOLED, POOL), (MAPPED, MAP)),
        rolls=True,
        room=8,
    ),
    paced(195_312, "200mb"),
    paced(40_000, "40k"),
    Row(
        "sustained",
        "4 GiB of 1 KiB records, the last flush included",
        ("sustained",),
        {"size": 1024, "bytes": 4 * GIB, "warm_records": 400 * BATCH},
        tuple(_sustained_pairs()),
        room=6,
    ),
    *(read(size) for size in (40, 100, 1024)),
    messages("burst", "appended in bursts of 65,536"),
    messages("read", "65,536 read again from the page cache"),
    *(live(size, n, memory) for memory in (False, True) for size in (12, 40, 256) for n in (1, 4)),
    live(1024, 1, False),
    *(live_paced(rate, size) for rate, size in ((40_000, 100), (200_000, 100), (40_000, 1024))),
    *(round_trip(memory) for memory in (False, True)),
)
