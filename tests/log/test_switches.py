"""Arguments that must be True or False."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import commitlog
from commitlog import keep
from commitlog.errors import ClosedError, InvalidOptionError


class Order(msgspec.Struct):
    id: int


class Orders:
    def sold(self, item: str) -> None: ...


Call = Callable[[commitlog.CommitLog, Any], Any]
SYNC: dict[str, Call] = {
    "append": lambda log, sync: log.append(b"x", sync=sync),
    "append with a key": lambda log, sync: log.append(b"x", key=b"k", sync=sync),
    "append once": lambda log, sync: log.append(b"x", producer="p", producer_sequence=1, sync=sync),
    "append_many": lambda log, sync: log.append_many([b"x"], sync=sync),
    "append_array": lambda log, sync: log.append_array(np.zeros((1, 4), np.uint8), sync=sync),
    "claim": lambda log, sync: log.claim(4, sync=sync),
    "append_async": lambda log, sync: asyncio.run(log.append_async(b"x", sync=sync)),
    "append_many_async": lambda log, sync: asyncio.run(log.append_many_async([b"x"], sync=sync)),
}
SYNC_OF_TOPICS: dict[str, Call] = {
    "topic": lambda log, sync: commitlog.topic(log, Order).append(Order(1), sync=sync),
    "topic many": lambda log, sync: commitlog.topic(log, Order).append_many([Order(1)], sync=sync),
}
OTHERS: dict[str, Call] = {
    "prune": lambda log, value: log.prune(commitlog.Retention(max_age="1d"), dry_run=value),
    "tailer": lambda log, value: log.tailer("name", required=value),
    "prefault": lambda log, value: log.options.replace(prefault=value),
    "outside prune": lambda log, value: keep.prune(
        log.path, commitlog.Retention(max_age="1d"), dry_run=value
    ),
}


OF_TOPICS: dict[str, Call] = {
    "validate": lambda log, value: commitlog.topic(log, Order, validate=value),
    "history": lambda log, value: commitlog.topic(log, Order, history=value),
    "seal_keys": lambda log, value: commitlog.topic(log, Order, seal_keys=value),
    "seal_positions": lambda log, value: commitlog.topic(log, Order, seal_positions=value),
    "method_writer": lambda log, value: commitlog.method_writer(log, Orders, history=value),
    "method_reader": lambda log, value: commitlog.method_reader(log, Orders(), history=value),
}
CALLS = SYNC | SYNC_OF_TOPICS | OTHERS | OF_TOPICS
NO_SWITCHES = ["no", "", 1, 0, b"", [], 0.0, np.False_]


def in_wings(names: Iterable[str]) -> list[Any]:
    return [pytest.param(name, marks=pytest.mark.wing) for name in names]


@pytest.mark.parametrize("name", [*SYNC, *OTHERS, *in_wings(SYNC_OF_TOPICS | OF_TOPICS)])
def test_value_that_is_no_bool_is_refused(tmp_path: Path, name: str) -> None:
    call = CALLS[name]
    with commitlog.open(tmp_path / "log") as log:
        for value in NO_SWITCHES:
            with pytest.raises(InvalidOptionError, match="True"):
                call(log, value)
        assert log.count() <= 1  # a topic's schema


@pytest.mark.parametrize("name", [*SYNC, *in_wings(SYNC_OF_TOPICS)])
def test_sync_may_be_given_or_left_out(tmp_path: Path, name: str) -> None:
    for value in (True, False, None):
        with commitlog.open(tmp_path / f"{value}") as log:
            found = CALLS[name](log, value)
            if name == "claim":
                with found:
                    found.truncate(1)
            assert value is not True or log.flushed_position == log.committed_position


@pytest.mark.wing
def test_closed_log_pool_and_topic_cannot_be_entered(tmp_path: Path) -> None:
    log = commitlog.open(tmp_path / "log")
    topic = commitlog.topic(log, Order)
    pool = commitlog.TransientStorePool(buffers=2, buffer_size="64KiB")
    for closed in (log, topic, pool):
        closed.close()
    for closed in (log, topic, pool):
        with pytest.raises(ClosedError), closed:
            pass
