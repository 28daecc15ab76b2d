"""An append that waits for durability also waits until so many copies have the record."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import commitlog
from commitlog import replication
from commitlog.errors import ClosedError, FencedError, InvalidOptionError, SyncTimeoutError
from commitlog.log.parts import parts_of
from commitlog.network.replication.required_copies import RequiredCopies
from commitlog.recovery.lineage import Rank
from tests.network.replication.scene import LIMIT_S, SEGMENT, records

SHORT_S = 0.2
Until = Callable[..., None]


@pytest.fixture
def required() -> replication.Replication:
    return replication.Replication(require=1)


@pytest.fixture
def primary(tmp_path: Path, required: replication.Replication) -> Iterator[commitlog.CommitLog]:
    with commitlog.open(
        tmp_path / "orders", segment_size=SEGMENT, flush="sync", replicate=required
    ) as log:
        yield log


def alone(
    folder: Path, *, on_missing: replication.OnMissing = "wait", require: int = 1
) -> commitlog.CommitLog:
    """Open a log that no follower follows."""
    rule = replication.Replication(require=require, on_missing=on_missing, timeout=SHORT_S)
    return commitlog.open(folder / "alone", flush="sync", replicate=rule)


def append_one(log: commitlog.CommitLog, coroutine: bool) -> None:
    if coroutine:
        asyncio.run(log.append_async(b"one"))
    else:
        log.append(b"one")


def test_sync_append_returns_when_a_copy_has_the_record(
    primary: commitlog.CommitLog, required: replication.Replication, tmp_path: Path
) -> None:
    with replication.follow(required.server.url(), tmp_path / "copy") as copy:
        for number in range(50):
            position = primary.append(b"%d" % number * 1000)
            assert copy.position > position
            assert primary.replicated_position > position
        primary.append(b"behind", sync=False)
        flushed = primary.flush()
        assert copy.position >= flushed
    assert records(tmp_path / "copy") == records(tmp_path / "orders")


def test_coroutines_wait_for_copies_together(
    primary: commitlog.CommitLog, required: replication.Replication, tmp_path: Path
) -> None:
    async def append_all(copy: replication.Follower) -> None:
        async def append(number: int) -> None:
            position = await primary.append_async(b"%d" % number)
            assert copy.position > position

        await asyncio.gather(*map(append, range(200)))
        positions = await primary.append_many_async([b"many"] * 10)
        assert copy.position > positions.max()

    with replication.follow(required.server.url(), tmp_path / "copy") as copy:
        asyncio.run(append_all(copy))


@pytest.mark.parametrize("coroutine", [False, True])
def test_append_without_copies_is_not_acknowledged(coroutine: bool, tmp_path: Path) -> None:
    with alone(tmp_path) as log:
        with pytest.raises(SyncTimeoutError):
            append_one(log, coroutine)
        log.append(b"two", sync=False)
        assert log.replicated_position == 0
    assert [value for *_, value in records(tmp_path / "alone")] == [b"one", b"two"]


def test_producer_without_copies_is_not_acknowledged(tmp_path: Path) -> None:
    with alone(tmp_path) as log:
        for _ in range(2):  # the repeat appends nothing, and waits again
            with pytest.raises(SyncTimeoutError):
                log.append(b"one", producer="till", producer_sequence=1)
    assert [value for *_, value in records(tmp_path / "alone")] == [b"one"]


@pytest.mark.parametrize("coroutine", [False, True])
def test_async_log_goes_on_without_copies_until_they_are_there(
    coroutine: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture, until: Until
) -> None:
    with alone(tmp_path, on_missing="async") as log:
        with caplog.at_level(logging.WARNING, "commitlog.replication"):
            append_one(log, coroutine)
        assert "fewer than 1 copies" in caplog.text
        log.append(b"two")
        rule = log.options.replicate
        assert isinstance(rule, replication.Replication)
        with replication.follow(rule.server.url(), tmp_path / "copy") as copy:
            assert copy.wait(log.flushed_position, LIMIT_S)
            until(lambda: log.replicated_position >= log.flushed_position)
            position = log.append(b"three")
            assert copy.position > position


def test_log_without_copies_acknowledges_nothing_after_a_fence(tmp_path: Path) -> None:
    log = alone(tmp_path, on_missing="async")
    log.append(b"one")
    copies = parts_of(log).engine.copies
    assert isinstance(copies, RequiredCopies)
    end = log.flushed_position
    assert copies.wait(end, SHORT_S)
    copies.fence(Rank(1, "a" * 32))
    with pytest.raises(FencedError, match="promoted to epoch 1"):
        copies.wait(end, SHORT_S)
    with pytest.raises(FencedError):
        log.close()


def test_log_that_requires_no_copy_is_served_only(tmp_path: Path) -> None:
    with alone(tmp_path, require=0) as log:
        log.append(b"one")
        assert log.replicated_position == 0


def test_log_whose_copy_was_promoted_appends_no_more(
    primary: commitlog.CommitLog, required: replication.Replication, tmp_path: Path, until: Until
) -> None:
    url = required.server.url()
    copy = replication.follow(url, tmp_path / "b", name="b")
    with replication.follow(url, tmp_path / "c", name="c", listen="127.0.0.1:0") as other:
        position = primary.append(b"kept")
        until(lambda: min(copy.position, other.position) > position)
        copy.close()
        assert other.server is not None
        replication.promote(tmp_path / "b", others=[other.server.url()])
        with pytest.raises(FencedError):
            primary.append(b"late")
        with pytest.raises(FencedError):
            primary.append(b"not acknowledged", sync=False)
    with pytest.raises(FencedError):
        primary.close()
    with pytest.raises(FencedError, match="promised"):
        commitlog.open(tmp_path / "orders")


def test_logs_share_the_port_of_a_replication(
    primary: commitlog.CommitLog, required: replication.Replication, tmp_path: Path
) -> None:
    server = required.server
    first = replication.follow(server.url("orders"), tmp_path / "first")
    with commitlog.open(tmp_path / "trades", flush="sync", replicate=required) as trades:
        assert required.server is server
        with replication.follow(server.url("trades"), tmp_path / "second") as copy:
            position = trades.append(b"trade")
            assert copy.position > position
    assert server.names == ["orders"]
    position = primary.append(b"order")
    assert first.position > position
    first.close()
    primary.close()
    with pytest.raises(InvalidOptionError, match="no log is open"):
        print(required.server)


def test_follower_of_a_closed_log_waits_for_its_next_open(
    required: replication.Replication, tmp_path: Path
) -> None:
    with commitlog.open(tmp_path / "other", replicate=required):
        with commitlog.open(tmp_path / "orders", replicate=required) as log:
            log.append(b"one")
            copy = replication.follow(required.server.url("orders"), tmp_path / "copy")
        with commitlog.open(tmp_path / "orders", replicate=required) as log:
            position = log.append(b"two", sync=True)
            assert copy.position > position
        copy.close()


def test_close_ends_a_wait_for_copies(tmp_path: Path, until: Until) -> None:
    rule = replication.Replication()
    log = commitlog.open(tmp_path / "orders", replicate=rule, sync_timeout="10min")
    errors: list[Exception] = []

    def append() -> None:
        try:
            log.append(b"one", sync=True)
        except ClosedError as error:
            errors.append(error)

    thread = threading.Thread(target=append)
    thread.start()
    until(lambda: log.flushed_position > log.first_position)
    log.close()
    thread.join(LIMIT_S)
    assert len(errors) == 1


def test_child_of_a_fork_acknowledges_nothing(tmp_path: Path) -> None:
    commitlog.open(tmp_path / "plain").close()
    with alone(tmp_path) as log:
        copies = log._parts.engine.copies
        copies._pid = os.getppid()
        with pytest.raises(commitlog.CommitLogError, match="only in the process that opened it"):
            log.append(b"one")
        copies._pid = os.getpid()


@pytest.mark.parametrize(
    "wrong",
    [{"require": -1}, {"require": True}, {"require": 65}, {"on_missing": "never"},
     {"timeout": "soon"}, {"listen": "nowhere"}, {"listen": "0.0.0.0:0"}],
)  # fmt: skip
def test_wrong_options_of_a_replication_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidOptionError):
        replication.Replication(**wrong)  # type: ignore[arg-type]


def test_reader_with_replicate_is_refused(
    tmp_path: Path, required: replication.Replication
) -> None:
    commitlog.open(tmp_path / "orders").close()
    with pytest.raises(InvalidOptionError, match="served|serve"):
        commitlog.open(tmp_path / "orders", "r", replicate=required)
    with pytest.raises(InvalidOptionError, match="Replication"):
        commitlog.open(tmp_path / "orders", replicate="yes")  # type: ignore[arg-type]
    commitlog.open(tmp_path / "orders").close()
