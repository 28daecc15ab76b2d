"""Names and options of a named tailer: invalid ones are refused before any file is created."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from commitlog.errors import InvalidOptionError
from commitlog.tail.tailer_folder import FOLDER
from tests.setups import Logs


@pytest.mark.parametrize("name", ["", "a/b", "..", 7])
def test_invalid_tailer_name_is_refused_by_every_call(logs: Logs, name: Any) -> None:
    log = logs.open()
    for call in (
        log.tailer,
        lambda name: log.reset_tailer(name, "first"),
        log.delete_tailer,
        log.evict_tailer,
    ):
        with pytest.raises(InvalidOptionError, match="name must be"):
            call(name)


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"name": "a", "required": 1}, "required must be True, False or None"),
    ({"name": "a", "required": "yes"}, "required must be"),
    ({"required": True}, "required is for a named tailer"),
    ({"durable": True}, "durable is for a named tailer"),
    ({"name": "a", "durable": "fast"}, "durable must be a duration"),
    ({"name": "a", "durable": -1}, "durable must be a duration"),
    ({"name": "a", "max_lag": "1MiB"}, "add required=True"),
    ({"name": "a", "required": False, "max_lag": "1MiB"}, "add required=True"),
    ({"name": "a", "required": True, "max_lag": "much"}, "max_lag must be a size"),
    ({"name": "a", "required": True, "max_lag": 0}, "max_lag must be at least one byte"),
]


@pytest.mark.parametrize(("options", "message"), WRONG, ids=str)
def test_invalid_tailer_options_leave_no_file(
    logs: Logs, options: dict[str, Any], message: str
) -> None:
    log = logs.open()
    with pytest.raises(InvalidOptionError, match=message):
        log.tailer(**options)
    assert not (Path(log.path) / FOLDER).exists()
