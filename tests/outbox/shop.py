"""A shop whose orders go through an outbox, with processes to be killed, and the oracle."""

from __future__ import annotations

import contextlib
import itertools
import random
from collections.abc import Callable
from pathlib import Path

import sqlalchemy as sa

import commitlog
from commitlog.outbox import Outbox
from tests.faults.child import Child, Link
from tests.steps import replace_hook

KEYS = 8
BOUGHT, TAKEN = "B", "T"
METADATA = sa.MetaData()
OUTBOX = Outbox("shop_outbox", METADATA)
COUNTERS = sa.Table(
    "counters",
    METADATA,
    sa.Column("key", sa.Integer, primary_key=True),
    sa.Column("last", sa.Integer, nullable=False),
)
ORDERS = sa.Table("orders", METADATA, sa.Column("text", sa.Text, primary_key=True))


def engine_of(url: str) -> sa.Engine:
    given = {"connect_args": {"timeout": 60}} if url.startswith("sqlite") else {}
    return sa.create_engine(url, **given)


def create_shop(url: str) -> None:
    engine = engine_of(url)
    METADATA.create_all(engine)
    with engine.begin() as connection:
        connection.execute(COUNTERS.insert(), [{"key": key, "last": 0} for key in range(KEYS)])
    engine.dispose()


def buy(connection: sa.Connection, generator: random.Random) -> None:
    """Count orders of some keys, note them, and put them into the outbox."""
    for key in sorted(generator.sample(range(KEYS), generator.randint(1, 3))):
        counted = sa.update(COUNTERS).where(COUNTERS.c.key == key)
        counted = counted.values(last=COUNTERS.c.last + 1).returning(COUNTERS.c.last)
        number = connection.execute(counted).scalar_one()
        text = f"{key} {number} {generator.getrandbits(64)} {'.' * generator.randrange(300)}"
        connection.execute(ORDERS.insert(), {"text": text})
        OUTBOX.put(connection, text.encode(), key=b"%d" % key)


def run_application(link: Link, url: str, seed: int) -> None:
    """Buy, and commit or roll back, until the end."""
    generator = random.Random(seed)
    engine = engine_of(url)
    for number in itertools.count():
        try:
            with engine.connect() as connection:
                buy(connection, generator)
                if generator.random() < 0.75:
                    connection.commit()
            link.say(BOUGHT, 0, number)
        except sa.exc.DBAPIError:
            pass  # the server was ended; whether it has the orders is in its table


def run_relay(link: Link, url: str, path: str) -> None:
    """Move rows until the end, and report each transaction of the relay."""
    replace_hook(lambda name: link.say(TAKEN) if name == "outbox transaction committed" else None)
    log = commitlog.open(path, segment_size="64KiB", wait_for_log=60)
    while True:  # the server may be down
        with contextlib.suppress(sa.exc.OperationalError):
            OUTBOX.relay(engine_of(url), log, wait="60s").run()


def kill_often(
    url: str, path: Path, kills: int, seed: int, crash: Callable[[], None] | None = None
) -> int:
    """Kill applications and relays at random; return how many orders the log has after all."""
    print(f"seed {seed}")
    generator = random.Random(seed)
    create_shop(url)
    seeds = itertools.count(seed)

    def application() -> Child:
        return Child(run_application, url, next(seeds), ahead=64 << 10)

    def relay() -> Child:
        return Child(run_relay, url, str(path), ahead=64 << 10)

    makers = [application, application, relay]
    running = [make() for make in makers]
    try:
        for kill in range(1, kills + 1):
            chosen = generator.choice([0, 1, 2, 2])
            running[chosen].hear(generator.randrange(4))
            if crash is not None and kill % 40 == 0:
                crash()
            running[chosen].kill()
            running[chosen].end()
            running[chosen] = makers[chosen]()
        for child in running:
            child.hear(1)
    finally:
        for child in running:
            child.end()
    return check(url, path)


def check(url: str, path: Path) -> int:
    """Move what is left; check that the log has each committed order once, in order by key."""
    engine = engine_of(url)
    with commitlog.open(path, wait_for_log=60) as log:
        with OUTBOX.relay(engine, log, wait="60s") as relay:
            while relay.run_once():
                pass
        found = [record.value.decode() for record in log.tailer()]
    with engine.connect() as connection:
        bought = list(connection.execute(sa.select(ORDERS.c.text)).scalars())
        assert OUTBOX.stats(connection).waiting == 0
    engine.dispose()
    assert len(found) == len(set(found)), "moved twice"
    assert sorted(found) == sorted(bought), "lost, or never committed"
    for key in range(KEYS):
        numbers = [int(text.split()[1]) for text in found if text.startswith(f"{key} ")]
        assert numbers == list(range(1, len(numbers) + 1)), key
    return len(found)
