"""A user's program with every public name and method, whose types `make lint` checks.

tests/typing/test_program.py runs it and finds public names that it does not use.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import enum
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Protocol, assert_never, assert_type

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl
import prometheus_client
import sqlalchemy as sa

import commitlog
import commitlog.polars
import commitlog.types
from commitlog import (
    bus,
    doctor,
    errors,
    keep,
    metrics,
    mirror,
    outbox,
    queues,
    replication,
    spark,
    topics,
    watching,
)
from commitlog.spark import jobs

Positions = npt.NDArray[np.int64]
_HOUR_NS = 3_600_000_000_000


class Side(enum.Enum):
    BUY = 1
    SELL = 2


class Tick(bus.Message, type=7):
    """A message with a number of each kind."""

    a: bus.int8
    b: bus.int16
    c: bus.int32
    d: bus.int64
    e: bus.uint8
    f: bus.uint16
    g: bus.uint32
    h: bus.uint64
    x: bus.float32
    y: bus.float64


class Order(bus.Message, type=9):
    """A message with the other kinds of fields."""

    side: Annotated[Side, bus.uint8]
    at: dt.datetime
    flag: bool
    name: Annotated[str, 16]
    digest: Annotated[bytes, 4]
    note: Annotated[bytes, bus.MaxLen(max_length=8)] = b""
    levels: Annotated[tuple[bus.float64, ...], 2] = (0.0, 0.0)


class Listener(keep.SegmentListener):
    """Counts segment events."""

    def __init__(self) -> None:
        self.seen: list[keep.SegmentInfo] = []

    def on_created(self, segment: keep.SegmentInfo) -> None:
        self.seen.append(segment)

    def on_sealed(self, segment: keep.SegmentInfo) -> None:
        records: int | None = segment.records
        span = (segment.first_sequence, segment.first_timestamp_ns, segment.last_timestamp_ns)
        assert records is None or None not in span

    def on_released(self, segment: keep.SegmentInfo) -> None:
        self.seen.append(segment)

    def on_deleted(self, segment: keep.SegmentInfo) -> None:
        self.seen.append(segment)


def append(log: commitlog.CommitLog) -> int:
    position: int = log.append(b"value", key=b"key", type=1, timestamp_ns=1, sync=True)
    position = append_expected(log)
    many: Positions = log.append_many([b"a", bytearray(b"b")], keys=[None, b"k"], types=[0, 1])
    rows: Positions = log.append_array(np.zeros((2, 8), dtype=np.uint8))
    columns: Positions = append_arrow(log)
    with log.claim(8) as claim:
        claimed: commitlog.Claim = claim
        view: memoryview = claimed.buffer
        view[:4] = b"data"
        del view
        claimed.truncate(4)
        assert claimed.position > max(position, *many, *rows, *columns)
    return position


def append_expected(log: commitlog.CommitLog) -> int:
    try:
        return int(log.append_many([b"a"], expect=7)[0])
    except errors.ConflictError as conflict:
        end: int | None = conflict.actual
        log.append(b"value", expect=end)
    log.append_many([b"value"], headers=[None])
    return log.append(b"value", producer="till", producer_sequence=0, headers={"a": b"1"})


def append_arrow(log: commitlog.CommitLog) -> Positions:
    whole: int = log.to_arrow(columns=["value"], headers=True).num_rows
    assert whole == log.to_reader().read_all().num_rows
    return log.append_arrow(log.tailer().read_batch().to_arrow()["value"])


async def append_async(log: commitlog.CommitLog) -> None:
    position: int = await log.append_async(b"value")
    await log.append_async(b"value", producer="till", producer_sequence=1, headers={"a": b"1"})
    many: Positions = await log.append_many_async([b"a"])
    with contextlib.suppress(errors.ConflictError):
        many = await log.append_many_async([b"a"], expect=0)
    assert position < many[0]
    async for record in log.tailer().follow(timeout="10s"):
        assert record.value
        break


def look(log: commitlog.CommitLog) -> None:
    watermarks: list[int] = [
        log.flushed_position,
        log.committed_position,
        log.appended_position,
        log.tail_position,
    ]
    assert watermarks == sorted(watermarks)
    sizes: list[int] = [log.segment_size, log.largest_value, log.first_position]
    ends: list[int | None] = [log.last_position, log.first_sequence, log.last_sequence, log.count()]
    flags: list[bool] = [log.closed, log.pooled, log.commit()]
    options: commitlog.Options = log.options
    print(log.path, log.mode, log.identity, sizes, ends, flags, options)
    log.flush(timeout="10s")
    log.pretouch()
    log.roll()


def look_at_figures(log: commitlog.CommitLog) -> None:
    stats: commitlog.LogStats = log.stats()
    for flow in stats.flows:
        print(flow.name, flow.lag_bytes, flow.lag_records, flow.lag_seconds, flow.failed)
    counts: list[int] = [stats.commits, stats.flushes, stats.syncs]
    latency: commitlog.Latency = stats.sync_latency
    figures: list[float | None] = [
        latency.mean_seconds,
        latency.p50_seconds,
        latency.p99_seconds,
        latency.p999_seconds,
    ]
    figures += [
        latency.longest_seconds,
        latency.percentile_seconds(90.0),
        latency.since(latency).total_ns,
        latency.longest_ns,
    ]
    print(stats.pool, counts, figures, latency.count, latency.buckets)
    cycle: commitlog.Cycle
    for cycle in log.cycles():
        assert cycle.number is None or log.records_in_cycle(cycle.number) == cycle.records


def records(log: commitlog.CommitLog) -> Iterator[commitlog.Record]:
    yield from log.tailer(direction="backward")
    yield from log.tailer(start="first", visibility="committed", on_damage="skip").striding()


def read(log: commitlog.CommitLog, position: int) -> None:
    record: commitlog.Record = log.read(position)
    key: bytes | None = record.key
    headers: dict[str, bytes] = record.headers
    numbers: list[int] = [record.position, record.sequence, record.timestamp_ns, record.type]
    assert bytes(record.view()) == record.value
    print(key, headers, numbers, [each.value for each in records(log)])
    tailer: commitlog.Tailer = log.tailer()
    first: commitlog.Record | None = tailer.read(timeout=0, idle="spin")
    assert first is not None
    assert next(tailer.values())
    with tailer.reading(timeout=0) as waited:
        assert waited is None or waited.value
    with tailer.reading_batch(10) as several:
        assert len(several.values()) <= 10
    for each in tailer.follow(timeout=0.0):
        assert each.value
    tailer.seek("first")
    batch: commitlog.Batch = tailer.read_batch(10)
    value: bytes = batch.value(0)
    of_key: bytes | None = batch.key(0)
    of_row: dict[str, bytes] = batch.headers[0]
    sound: dict[str, bytes] | None = batch.sound_headers[0]
    print(value in batch.values(), of_key == key, of_row == headers == sound, batch.sequences[0])
    found: bool = (
        tailer.seek(position)
        and tailer.seek(sequence=0)
        and tailer.seek(timestamp=0)
        and tailer.seek(key=b"key")
    )
    assert found
    assert tailer.search(lambda each: each.position, position)
    tailer.seek("end")
    print(tailer.position, tailer.direction, tailer.damaged, tailer.name, tailer.dropped_records)
    tailer.close()


def use_views(log: commitlog.CommitLog) -> list[commitlog.Record]:
    how: commitlog.types.TailerOptions = {"direction": "backward", "visibility": "flushed"}
    with log.view("mine", type=7, key=b"k", start="first", durable="1s") as tailer:
        print(tailer.read(), tailer.read_batch().values())
    try:
        print(list(log.view(topic="orders", **how)), log.find(b"k", topic="orders"))
    except commitlog.CommitLogError as error:
        print(error)
    return log.find(b"k", type=7, since="-1h", until=1, last=None)


def use_named_tailers(log: commitlog.CommitLog, position: int) -> None:
    with log.tailer("audit", durable=True, required=True, max_lag="1GiB") as tailer:
        assert tailer.seek_cycle(dt.datetime.now(dt.UTC).date())
    state: commitlog.TailerState = log.tailers()[0]
    print(
        state.name,
        state.position,
        state.lag_bytes,
        state.required,
        state.max_lag_bytes,
        state.owner,
        state.pid,
    )
    print(state.created_ns, state.saved_ns, state.evicted_ns, state.dropped_records, state.damage)
    log.reset_tailer("audit", position)
    evicted: bool = log.evict_tailer("audit")
    assert not evicted or log.tailers()
    log.delete_tailer("audit")


def use_pool(path: Path) -> None:
    pool = commitlog.TransientStorePool(
        buffers=2, buffer_size="64KiB", backing="anonymous", on_exhausted="grow"
    )
    with pool, commitlog.open(path, pool=pool, flush="none") as log:
        log.append(b"value")
        print(
            pool.available,
            pool.buffers,
            pool.buffer_size,
            pool.backing,
        )
        print(pool.stats())
    pool.close()
    assert pool.closed


def prune(path: Path, archive: Path) -> None:
    target = commitlog.Store(archive, level=1)
    rule = commitlog.Retention(
        max_age="1h", max_bytes="1GiB", min_free_percent=0.01, between="02:00-05:30"
    )
    print(
        rule.min_free_bytes,
        rule.time_zone,
        rule.interval,
        rule.interval,
        rule.acts_at(_HOUR_NS),
        rule.room_wanted(1),
    )
    with commitlog.open(path) as log:
        pruned: keep.Pruned = log.prune(rule, dry_run=True)
        log.delete_before(log.first_position, force_after=1, force="store")
    removals: tuple[keep.Removal, ...] = keep.archive_segments(path, target, keep=True).segments
    print(pruned.bytes, pruned.kept, removals, target.level, target.filesystem)
    place = keep.target_of(archive)
    segment_size = keep.read_identity(place).segment_size
    for base in keep.archived_bases(place, segment_size):
        assert len(keep.open_segment_bytes(archive, base)) == segment_size
    keep.prune(path, keep.Retention(max_bytes="1GiB"), dry_run=True)


def check(path: Path) -> None:
    found: keep.VerifyReport = keep.verify(path)
    torn: keep.TornTail | None = found.torn
    segments: list[keep.SegmentReport] = found.segments
    damage: list[keep.Damage] = found.damage
    print(found.kind, found.joining, found.skipped_bytes, found.sound, torn, segments, damage)
    repaired: keep.RepairReport = keep.repair(path, dry_run=True)
    actions: list[keep.Action] = repaired.actions
    print(actions, repaired.copies, repaired.remaining)


def store(path: Path, bucket: str) -> None:
    place = commitlog.Store(bucket, level=1, every="500ms")
    with commitlog.open(path, store=place, retention=commitlog.Retention(max_age="7d")) as log:
        log.append(b"one")
    restored: keep.Restored = keep.restore(
        bucket, path / "again", until="2026-05-01", follows="tls://host:7070/orders"
    )
    print(place.every, place.target, restored.end_position, restored.segments)
    with keep.StoreLease(bucket, 4096, lasts="10m", filesystem=None) as lease:
        lease.renew(lease.position)
        lease.renew()
    lease.release()


def back_up(path: Path, to: Path) -> None:
    def show(done: int, total: int) -> None:
        print(done, total)

    left_out: commitlog.types.BackupContent = "queues"
    told: commitlog.types.Progress = show
    with commitlog.open(path) as log:
        done: keep.BackedUp = log.backup(to, without=left_out, verify=False, progress=told)
    again: commitlog.types.BackedUp = keep.backup(
        path, commitlog.Store("s3://bucket/orders"), incremental=True, without=["tailers"]
    )
    print(done.end_position, done.written_bytes, done.tailers, again.queues, again.verified)
    print(done.producers, done.schemas, done.written_segments, done.incremental, done.segments)
    keep.verify(to, progress=told)
    keep.repair(to, progress=told)
    keep.prune(to, commitlog.Retention(max_age="7d"), progress=told)
    keep.restore("orders.tar.zst", path, progress=told)
    keep.archive_segments(path, commitlog.Store(to), progress=told)


def mirrored(path: Path, copy: Path, url: str) -> None:
    with (
        commitlog.open(path, "r") as log,
        mirror.to_kafka(
            log,
            url,
            name="orders",
            transactional_id="orders-1",
            partition=0,
            start="end",
            visibility="replicated",
            required=False,
            settings={"linger.ms": 50},
            timeout="10s",
        ) as sending,
    ):
        print(sending.wait(log.flushed_position, timeout="1min"), sending.url, sending.lag)
    try:
        with commitlog.open(copy) as log:
            receiving: mirror.Mirror = mirror.from_kafka(url, log, group="copies")
            print(receiving.wait(), receiving.error, receiving.position)
            receiving.close()
    except errors.MirrorError as refused:
        print(refused.position)
    repeats = mirror.Repeats()
    print(repeats.has(0, [("commitlog-position", b"4096")]))


def replicate(path: Path, copy: Path) -> None:
    server: replication.Server
    follower: replication.Follower
    with commitlog.open(path) as log, replication.serve(path, token="secret") as server:
        print(server.names, server.port, server.followers(), server.replicated_position(2))
        with replication.follow(
            server.url(),
            copy,
            name="b",
            token="secret",
            listen="127.0.0.1:0",
            tokens=None,
            tls=None,
        ) as follower:
            listening: replication.Server | None = follower.server
            assert server.wait_replicated(log.append(b"x", sync=True), copies=1, timeout="30s")
            assert follower.name == "b"
            assert follower.wait(log.flushed_position, timeout="30s")
            try:
                commitlog.open(copy)
            except errors.FencedError as fenced:
                print(listening, fenced, follower.position, follower.lag_bytes, follower.error)
        try:
            replication.follow(server.url(), copy)
        except errors.ReplicationError as refused:
            print(refused)
        follower.close()
        server.close()
    tokens = copy.with_name("tokens.txt")
    tokens.write_text("secret read *\n", encoding="utf-8")
    replication.serve(path, tokens=tokens).close()
    missing: replication.OnMissing = "async"
    rule = replication.Replication(require=1, on_missing=missing, timeout="2s")
    with commitlog.open(path, flush="sync", replicate=rule) as log:
        serving: replication.ServingProcess = rule.server
        print(serving.url(), serving.pid, rule.require, log.append(b"x"), log.replicated_position)
        print(list(log.tailer(visibility="replicated").values()))
    print(replication.Epoch.parse)
    epoch: replication.Epoch = replication.promote(
        copy,
        others=["tls://b:7070/copy"],
        require=1,
        copies=2,
        force=("promises", "store"),
        token="secret",
        timeout="2s",
        store=commitlog.Store("memory://bucket", single_writer=True),
    )
    print(epoch.number, epoch.start, epoch.id, epoch.restart, epoch.rank)


def watch(path: Path, page: Path) -> None:
    check = doctor.Check("moon", "no log needs it", lambda workspace: doctor.ok(str(workspace)))
    finding: doctor.Finding = doctor.warning(check.name, check.means)
    verdict: doctor.Verdict = finding.verdict
    print(verdict, doctor.failed("no moon", "wait for the night"))
    watched = watching.LogWatch(path)
    figures: watching.LogFigures = watched.look()
    writers: tuple[watching.WriterFigures, ...] = figures.writers
    store: watching.StoreStats | None = figures.store
    if store is not None:
        age_and_state: tuple[float, bool] = store.lag_seconds, store.is_failing
        kept_and_lag: tuple[int, float] = store.kept_position, store.lag_ms
        failure: tuple[str | None, int | None] = store.last_error, store.failing_since_ns
        counted: tuple[int, int] = store.failed_rounds, store.requests
        print(age_and_state, kept_and_lag, failure, counted)
    print(
        writers,
        figures.uncommitted_bytes,
        figures.replication_lag_seconds,
        figures.unflushed_bytes,
        figures.seconds_since(figures),
    )
    registry = prometheus_client.CollectorRegistry()
    collector = metrics.LogCollector(watched)
    registry.register(collector)
    assert list(collector.describe()) is not None
    assert list(collector.collect())
    watched.close()


def use_bus(path: Path) -> None:
    layout: bus.Layout = bus.Layout.of_dtype(
        "pair", 8, np.dtype([("left", "<i8"), ("right", "<i8")])
    )
    assert (
        layout.size
        == bus.Layout.of_annotations("pair", 8, {"left": bus.int64, "right": bus.int64}).size
    )
    print(layout.name, layout.type, layout.dtype)
    writer: bus.BusWriter = bus.writer(path, segment_size="64KiB")
    reader: bus.BusReader = bus.reader(path, start="first", idle="yield")
    tick = Tick(a=1, b=2, c=3, d=4, e=5, f=6, g=7, h=8, x=0.5, y=0.25)
    writer.write(tick)
    with writer.claim(Tick) as claimed:
        claimed.d = 4
    blank: Tick = Tick.blank()
    while reader.next(timeout=0):
        read_into: Tick = reader.read(blank)
        assert reader.read(Tick).d == read_into.d == 4
        print(
            reader.type, reader.length, reader.position, reader.timestamp_ns, reader.has_recovered
        )
    writer.write(Order(Side.SELL, dt.datetime.now(dt.UTC), True, "EURUSD", b"1234"))
    reader.let_go()
    reader.close()
    writer.close()
    dispatch(path)


class Sale(msgspec.Struct):
    item: str
    amount: Annotated[int, topics.aliases("price")]


class Refund(msgspec.Struct):
    sale: int


VISITS = """
{"type": "record", "name": "Visit", "fields": [{"name": "page", "type": "string"}]}
"""


class TextCodec:
    """A codec of this program."""

    name = "text"
    message_class = str

    @property
    def form(self) -> dict[str, object]:
        return {}

    def encode(self, message: str, /) -> bytes:
        return message.encode()

    def decoder(self, schema: object, /) -> Callable[[bytes], str]:
        return bytes.decode


class Shop(Protocol):
    def sold(self, item: str, amount: int) -> None: ...


class Company(Protocol):
    def to(self, town: str) -> Shop: ...


def through(name: str, arguments: dict[str, Any], proceed: Callable[[dict[str, Any]], Any]) -> None:
    proceed(arguments)


class Till:
    def sold(self, item: str, amount: int) -> None:
        print(item, amount)


def use_methods(log: commitlog.CommitLog) -> None:
    assert_type(commitlog.method_writer(log, Shop, history=False), Shop).sold("lamp", 3)
    commitlog.method_writer(log, Shop, headers=lambda: {"a": b"1"}).sold("lamp", 3)
    company = commitlog.method_writer(log, Company, intercept=through)
    assert_type(company.to("berlin"), Shop).sold("lamp", 3)
    till = Till()
    with commitlog.method_reader(
        log, till, name="methods", history=True, intercept=through
    ) as reader:
        assert_type(reader, topics.MethodReader)
        print(assert_type(reader.headers, dict[str, bytes]))
        print(assert_type(reader.read_one(), bool), assert_type(reader.run(0), int), reader.unknown)
        history = assert_type(reader.history, topics.History | None)
        if history is not None:
            hop: topics.Hop = history.hops[-1]
            print(hop.source, hop.position, hop.written_ns, hop.read_ns)
            print(history.written_ns, history.earlier, history.remaining)
            print(topics.History.of_value(log.read(hop.position).value))
        assert_type(asyncio.run(reader.run_async(timeout=0)), int)
        assert_type(reader.start(), topics.MethodReader).stop()
        assert_type(reader.wait("1s"), int | None)
    commitlog.method_reader(log, Till(), start="first", after_last_written=log).close()


def use_topics(path: Path) -> None:
    text: topics.Codec[str] = TextCodec()
    with commitlog.topic(path, Sale, codec="msgpack", validate=True, segment_size="64KiB") as sales:
        assert_type(sales, topics.Topic[Sale])
        assert_type(sales.append(Sale("lamp", 3), key=b"lamp"), int)
        assert_type(sales.append(Sale("lamp", 3), producer="till", producer_sequence=1), int)
        assert_type(sales.append(Sale("lamp", 3), headers={"a": b"1"}), int)
        assert_type(sales.append_many([Sale("desk", 9)], sync=True), Positions)
        with sales.tailer("till", start="first", durable=True) as tailer:
            assert_type(tailer, topics.TopicTailer[Sale])
            for sale in tailer:
                print(assert_type(sale, Sale).item, tailer.record, tailer.position, tailer.name)
            tailer.seek("first")
            assert_type(tailer.read(timeout=0), Sale | None)
            with tailer.reading() as sale_or_none:
                assert_type(sale_or_none, Sale | None)
            loop: topics.MessageLoop[Sale] = tailer.follow(timeout=0)
            print(list(loop), tailer.undecodable, tailer.history)
            sales.append(Sale("sofa", 1), expect=assert_type(tailer.next_sequence, int))
        raw = sales.tailer(on_undecodable="raw")
        assert_type(raw, topics.TopicTailer[Sale | commitlog.Record])
        print(sales.log.path, sales.name, sales.message_class, list(raw))
        raw.close()
        use_methods(sales.log)
        small = topics.Zstd(level=3, dictionary=b"")
        ring = topics.KeyRing("k1", lambda key_id, key: key, lambda key_id, wrapped: wrapped)
        others = [topics.KeyRing.of_text(""), topics.KeyRing.of_environment()]
        print(ring.key_ids, topics.KeyRing.of_file("/dev/null"), others)
        refunds = commitlog.topic(sales.log, Refund, name="refunds", compress=small, keys=ring)
        print(small.level, small.dictionary)
        refunds.append(Refund(1))
        both: list[topics.Topic[Sale] | topics.Topic[Refund]] = [sales, refunds]
        print(len(both))
        commitlog.topic(sales.log, Refund, keys=ring, seal_keys=True, seal_positions=True)
        assert_type(commitlog.method_writer(sales.log, Shop, keys=ring, seal_positions=True), Shop)
        words = commitlog.topic(sales.log, str, name="words", codec=text)
        words.append("hello")
        visits = commitlog.topic(sales.log, dict, name="visits", codec=topics.AvroCodec(VISITS))
        visits.append({"page": "/"})
        batch = sales.log.to_arrow().to_batches()[0]
        columns = topics.ArrowCodec(schema=batch.schema)
        commitlog.topic(sales.log, type(batch), name="batches", codec=columns).append(batch)
        print(topics.to_arrow(sales.log, ["Sale"], start=None, end=None, history=True))
        assert_type(
            topics.history_of(sales.log, sales.log.read(sales.log.last_position or 0)),
            topics.History | None,
        )
        print(text.form, text.message_class)
        asyncio.run(use_topics_async(sales))
        refunds.close()


async def use_topics_async(sales: topics.Topic[Sale]) -> None:
    assert_type(await sales.append_async(Sale("chair", 4)), int)
    async for sale in topics.tailer([sales]).follow(timeout=0):
        print(assert_type(sale, Sale).amount)


def dispatch(path: Path) -> None:
    # Without the annotation, mypy takes the classes' common base for what the loop gives.
    reader: bus.BusReader[Tick | Order] = bus.reader(path, [Tick, Order])
    for message in reader:
        match message:
            case Tick(a, x=x):
                assert_type((a, x), tuple[int, float])
            case Order(side, at, name=name, levels=levels, note=note):
                assert_type((side, at), tuple[Side, dt.datetime])
                assert_type((name, levels, note), tuple[str, tuple[float, ...], bytes])
            case _:
                assert_never(message)
    reader.close()
    with bus.reader(path, classes=[Tick]) as ticks, bus.reader(path) as contents:
        for tick in ticks.follow(timeout=0):
            assert_type(tick, Tick)
        for content in contents:
            assert_type(content, bytes)


def query(path: Path) -> pl.DataFrame:
    lazy: pl.LazyFrame = commitlog.polars.scan(path, headers=True)
    return lazy.select("sequence").collect()


def use_spark(path: Path) -> None:
    """Checked for its types alone, because a session takes a Java machine."""
    session = spark.session("program", master="local[1]", config={})
    spark.register(session)
    exported: jobs.Export = jobs.export(session, str(path), "parquet")
    compacted: jobs.Compaction = jobs.compact(session, str(path), "compact", step="1MiB")
    checked: jobs.Verification = jobs.verify(session, [path])
    to_check: type[jobs.LogCheck] = jobs.LogCheck
    print(exported.records, compacted.kept, checked.sound, to_check)


def details_of(error: commitlog.CommitLogError) -> object:
    details: object = error.message
    match error:
        case errors.CorruptRecordError():
            details = error.resume_position
        case errors.RecordTooLargeError():
            details = error.size, error.limit
        case errors.LogLockedError():
            details = error.holder
        case errors.InUseError():
            details = error.holder
        case errors.SegmentHeldError():
            details = error.holders
        case errors.PositionError():
            details = error.first_position
        case errors.PoolMemoryError():
            details = error.wanted, error.available
        case errors.TailerLagError():
            details = error.name
        case errors.SchemaError() | errors.UndecodableError():
            details = error.topic, error.field
        case errors.TopicNotFoundError():
            details = error.topic
        case errors.MissingExtraError():
            details = error.extra
        case _:
            pass
    return details


OTHER_ERRORS: tuple[type[errors.CommitLogError], ...] = (
    *(
        errors.ClaimError,
        errors.ClosedError,
        errors.CloseTimeoutError,
        errors.ConflictError,
        errors.InUseError,
        errors.ProducerSequenceError,
        errors.CorruptSegmentError,
        errors.CorruptTailerError,
    ),
    *(
        errors.DiskFullError,
        errors.ForkedError,
        errors.IOFailureError,
        errors.InvalidOptionError,
        errors.KeyUnavailableError,
        errors.LogExistsError,
    ),
    *(
        errors.LogFailedError,
        errors.LogNotFoundError,
        errors.MessageError,
        errors.MessageValueError,
        errors.OutboxError,
    ),
    *(
        errors.CorruptQueueError,
        errors.JobFinishedError,
        errors.LeaseLostError,
        errors.NoJobError,
        errors.QueueNotFoundError,
    ),
    *(
        errors.NotALogError,
        errors.OpenTimeoutError,
        errors.PoolBufferError,
        errors.PoolExhaustedError,
        errors.ReadOnlyError,
    ),
    *(
        errors.RecordTypeError,
        errors.RolledBackError,
        errors.SequenceError,
        errors.SyncTimeoutError,
        errors.TailerNotFoundError,
    ),
    *(errors.UnsupportedError, errors.UnsupportedVersionError),
)


def use_outbox(folder: Path) -> None:
    engine = sa.create_engine(f"sqlite:///{folder}.db")
    orders = outbox.Outbox("orders", sa.MetaData(), schema=None)
    orders.create(engine)
    with engine.begin() as connection:
        orders.put(connection, b"a", key=b"k", type=1, headers={}, topic=None)
        stats: outbox.OutboxStats = orders.stats(connection)
        assert_type(stats.lag_s, float | None)
        assert (stats.waiting, stats.dead, orders.table.name) == (1, 0, "orders")
    with (
        commitlog.open(folder) as log,
        orders.relay(engine, log, topics=[], poll="1s", wait=0, restored=False) as relay,
    ):
        assert_type(relay, outbox.Relay)
        assert relay.run_once() == relay.moved == 1
        assert relay.refused == 0
        relay.stop()
        relay.run()
        relay.close()
    engine.dispose()


def use_queues(path: Path) -> None:
    with commitlog.queue(
        path,
        "mailer",
        start="first",
        lease="10s",
        max_attempts=3,
        backoff="1ms",
        backoff_most=1,
        in_flight=100,
        worker_in_flight=10,
        order="key",
        sync=False,
        segment_size="64KiB",
    ) as queue:
        position: int = queue.put(b"a", key=b"k", type=1, sync=False)
        queue.put(b"b", after="1h")
        queue.put(b"c", at=dt.datetime.now(dt.UTC))
        with queue.take(timeout=1) as job:
            print(job.value, job.key, job.type, job.attempt, job.position == position, job.record)
            job.renew()
        jobs: list[queues.Job] = queue.take_many(1, timeout="30s")
        queue.accept(jobs, sync=True)
        for each in queue.taking(batch=10, timeout=0):
            each.release(after=0, reason="why")
        asyncio.run(work(queue))
        terms: queues.Terms = queue.change(lease="20s")
        print(terms.lease_s, terms.max_attempts, queue.terms.order, queue.name, queue.log.path)
        stats: queues.QueueStats = queue.stats()
        print(stats.depth, stats.dead, [(each.pid, each.age_s) for each in stats.jobs])
        letters: list[queues.DeadLetter] = list(queue.dead())
        print([(each.reason, each.attempts, each.history) for each in letters])
        print(queue.requeue(letters), queue.peek(3), queue.purge(), queue.drain(timeout=1))
        queue.resume()
        queue.close()


async def work(queue: queues.Queue) -> None:
    queue.put(b"d")
    job = await queue.take_async(timeout="30s")
    job.reject("no")
    print(await queue.take_many_async(5, timeout=0), job.is_finished)
    async for each in queue.taking_async(batch=2, timeout=0):
        each.accept(sync=False)


def main(folder: Path) -> None:
    assert Path(commitlog.get_include(), "commitlog", "capi.h").is_file()
    path = folder / "log"
    tuning = commitlog.Tuning(allocate_ahead=2, index_spacing=64)
    options = commitlog.Options(
        segment_size="64KiB", flush="sync", roll_cycle="DAILY", tuning=tuning, listener=Listener()
    )
    cycle = commitlog.RollCycle("DAILY", time_zone="UTC", epoch=0.0)
    assert (cycle.name, cycle.time_zone, cycle.epoch_ns) == ("DAILY", "UTC", 0)
    with commitlog.open(path, options=options, roll_cycle=cycle) as log:
        position = append(log)
        asyncio.run(append_async(log))
        look(log)
        look_at_figures(log)
        read(log, position)
        use_views(log)
        use_named_tailers(log, append(log))
        log.close()
    use_pool(folder / "pooled")
    prune(path, folder / "archive")
    check(path)
    replicate(path, folder / "copy")
    watch(path, folder / "page.prom")
    use_bus(folder / "bus")
    use_topics(folder / "topics")
    use_outbox(folder / "outbox")
    use_queues(folder / "queue")
    print(query(path))
    try:
        commitlog.open(path, mode="x")
    except commitlog.CommitLogError as error:
        print(details_of(error), isinstance(error, OTHER_ERRORS))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
