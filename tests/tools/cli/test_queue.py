"""`commitlog queue`: the work queues of a log, and their changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import commitlog
from tests.tools.cli.program import SEGMENT, run


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log of five jobs with a queue: one is accepted, one rejected, one waits."""
    path = tmp_path / "log"
    with commitlog.queue(path, "mailer", segment_size=SEGMENT, backoff="1h") as queue:
        for number in range(5):
            queue.put(b"mail %d" % number)
        queue.take(0).accept()
        queue.take(0).reject("no such address")
        queue.take(0).release(reason="busy")
    return path


def said(*arguments: object) -> list[str]:
    done = run("queue", *arguments)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode().splitlines()


def printed(*arguments: object) -> dict[str, Any]:
    found: dict[str, Any] = json.loads("\n".join(said("--json", *arguments)))
    return found


def test_list_has_each_queue(log: Path) -> None:
    head, line = said(log)
    assert head == f"{log}: 1 queue"
    assert line.startswith("  mailer: depth 3, 0 held by 0 workers, 1 waiting, 1 dead, oldest ")
    assert said(log, "mailer")[1] == line or said(log, "mailer")[1].startswith("  mailer: depth 3")


def test_looks_take_nothing(log: Path) -> None:
    values = [each["value"] for each in printed(log, "mailer", "peek")["records"]]
    assert values == ["mail 2", "mail 3", "mail 4"]
    (letter,) = printed(log, "mailer", "dead")["letters"]
    assert (letter["value"], letter["reason"]) == ("mail 1", "no such address")
    assert any("no such address" in line for line in said(log, "mailer", "dead"))
    assert printed(log, "mailer")["depth"] == 3


def test_requeued_and_purged_jobs_are_counted(log: Path) -> None:
    assert said(log, "mailer", "requeue") == ["1 dead letter made jobs again"]
    assert printed(log, "mailer")["depth"] == 4
    assert said(log, "mailer", "purge") == ["4 jobs finished"]
    assert printed(log, "mailer")["depth"] == 0


def test_drained_queue_waits_for_resume(log: Path) -> None:
    assert said(log, "mailer", "drain")[0].startswith("drained")
    with commitlog.queue(log, "mailer") as queue:
        assert queue.take_many(1, 0) == []
        assert said(log, "mailer", "resume") == ["jobs are handed out again"]
        assert queue.take(0).value == b"mail 3"


def test_missing_queue_is_refused(log: Path) -> None:
    for action in ((), ("purge",)):
        done = run("queue", log, "absent", *action)
        assert done.returncode == 1
        assert b"no queue 'absent'" in done.stderr
    assert not (log / "queues" / "absent").exists()
