"""Writers killed beside a living one: it continues without waiting for the dead, and every
acknowledged record of all of them is there.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.faults.account import Account
from tests.faults.child import Child
from tests.faults.writers import How, close_log, open_log, write
from tests.length import long_count

Start = Callable[..., Child]
KILLS = 5
LONG_KILLS = long_count(150)
# With these timeouts, a dead claim mistaken for a slow one would block the survivor beyond the
# test's limit.
PATIENT: dict[str, Any] = {"claim_timeout": 3600, "sync_timeout": 3600}


@pytest.fixture
def kill_beside(
    path: Path, numbers: random.Random, start: Start
) -> Callable[[str, str, int], None]:
    """Return a function that kills writers of one style and flush mode beside a survivor with
    synced appends.
    """

    def run(style: str, flush: str, kills: int) -> None:
        account = Account()
        survivor = start(write, str(path), 1, "append", How(None, PATIENT | {"flush": "sync"}))
        account.note(survivor.hear(2))
        for turn in range(1, kills + 1):
            victims = [
                start(
                    write,
                    str(path),
                    100 * turn + 10 * number,
                    style,
                    How(None, PATIENT | {"flush": flush}),
                )
                for number in range(2)
            ]
            for victim in victims:
                account.note(victim.hear(numbers.randint(1, 200)))
            for victim in victims:
                account.note(victim.kill())
                victim.end()
            account.note(survivor.pause())
            survivor.resume()
            account.note(survivor.hear(20))  # more reports than could have been under way
        account.note(survivor.kill())
        log, made = open_log(str(path), None, {})
        account.check(log)
        close_log(log, made)

    return run


@pytest.mark.parametrize(
    ("style", "flush"),
    [("append", "sync"), ("many", "async"), ("claims", "none"), ("threads", "sync")],
)
def test_writer_continues_beside_killed_writers(
    style: str, flush: str, kill_beside: Callable[[str, str, int], None]
) -> None:
    kill_beside(style, flush, KILLS)


@pytest.mark.long
@pytest.mark.parametrize(
    ("style", "flush"),
    [("append", "sync"), ("many", "async"), ("claims", "none"), ("threads", "sync")],
)
def test_writer_continues_beside_hundreds_of_killed_writers(
    style: str, flush: str, kill_beside: Callable[[str, str, int], None]
) -> None:
    kill_beside(style, flush, LONG_KILLS)
