"""Contract of claims in every setup: written in place, rolled back on an error, never blocking
other appends.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from commitlog.errors import (
    ClaimError,
    PositionError,
    RolledBackError,
)
from tests.setups import BY_HAND, Open, Setup, all_appended, values


def test_claim_is_written_in_place(open_log: Open) -> None:
    log = open_log()
    with log.claim(10, key=b"k", type=7, timestamp_ns=3) as claim:
        claim.buffer[:] = b"0123456789"
    record = log.read(claim.position)
    assert (record.value, record.key, record.type, record.timestamp_ns) == (
        b"0123456789",
        b"k",
        7,
        3,
    )


@pytest.mark.parametrize("size", [0, 1, 7, 8, 99, 100])
def test_truncated_claim_publishes_the_shorter_value(open_log: Open, size: int) -> None:
    log = open_log()
    with log.claim(100) as claim:
        claim.buffer[:] = bytes(range(100))
        claim.truncate(size)
        with pytest.raises(ClaimError):
            claim.truncate(size + 1)
    log.append(b"next")
    assert all_appended(log) == [bytes(range(size)), b"next"]


def test_exception_in_a_claim_rolls_it_back(open_log: Open) -> None:
    log = open_log()
    log.append(b"before")
    claim = log.claim(50)
    with pytest.raises(ZeroDivisionError), claim:
        1 // len(claim.buffer[50:])
    log.append(b"after")
    assert all_appended(log) == [b"before", b"after"]
    with pytest.raises(PositionError):
        log.read(claim.position)


def test_view_kept_past_its_claim_rolls_it_back(open_log: Open) -> None:
    log = open_log()
    claim = log.claim(50)
    with pytest.raises(ClaimError), claim:
        kept = memoryview(claim.buffer)[10:20]
    kept[:] = b"0123456789"  # reaches no file and does no harm
    log.append(b"after")
    assert all_appended(log) == [b"after"]
    kept.release()


def test_claim_collected_without_exit_is_rolled_back(open_log: Open) -> None:
    log = open_log()
    claim = log.claim(50)
    del claim
    log.append(b"after")
    assert all_appended(log) == [b"after"]


def test_flush_past_expired_claim_rolls_it_back(open_log: Open) -> None:
    log = open_log(claim_timeout=0.03, **BY_HAND)
    claim = log.claim(50)
    claim.buffer[:4] = b"late"
    # in another thread, because a flush behind an own claim raises
    with ThreadPoolExecutor(1) as pool:
        position = pool.submit(lambda: log.append(b"behind", sync=False)).result()
        assert pool.submit(log.flush).result() > position
    with pytest.raises(RolledBackError), claim:
        pass
    assert values(log, visibility="flushed") == [b"behind"]


def test_flush_behind_an_own_claim_is_refused(open_log: Open) -> None:
    log = open_log()
    with log.claim(8) as claim:
        claim.buffer[:] = b"in place"
        with pytest.raises(ClaimError):
            log.flush()
        with pytest.raises(ClaimError):
            log.append(b"x", sync=True)
        log.append(b"unwaited", sync=False)
    log.flush()
    assert values(log, visibility="flushed") == [b"in place", b"unwaited"]


def test_commit_before_an_open_claim_returns_false(open_log: Open, setup: Setup) -> None:
    log = open_log(**BY_HAND)
    log.append(b"before", sync=False)
    with log.claim(8):
        assert log.commit() is False
        assert values(log) == [b"before"]
    assert log.commit() is True
