"""docs/json.md names every key that a command prints, with its type."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import commitlog
from commitlog import replication
from commitlog.tools.cli import group
from commitlog.tools.cli.commands.spark import as_object
from tests.log_files import HEADER, LogFiles, numbered
from tests.tools.cli.program import ROOT, SEGMENT, run, sealed_log
from tests.topics.orders import Refund

PAGE = ROOT / "docs" / "json.md"
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z")
ROW = re.compile(r"^\| (\(?)`([^`]+)`\)? \| (\w+)(\??) \|", re.MULTILINE)
Schema = dict[str, tuple[str, bool, bool]]


def schemas() -> dict[str, Schema]:
    """Return the keys of each command: type, whether null is allowed, whether the key may be
    missing.
    """
    found: dict[str, Schema] = {}
    for section in PAGE.read_text(encoding="utf-8").split("\n## ")[1:]:
        names, _, text = section.partition("\n")
        if names == "Progress":  # is of several commands, on standard error
            continue
        rows = {
            name: (kind, bool(null), bool(bracket))
            for bracket, name, kind, null in ROW.findall(text)
        }
        for name in names.split(", "):
            found[name] = rows
    tailers = {
        f"tailers[].{name.partition('.')[2]}": rest
        for name, rest in found["tailers"].items()
        if "[]" in name
    }
    queues = {name: rest for name, rest in found["queue"].items() if name.startswith("queues[]")}
    found["top"] = found["top"] | tailers | queues
    return found


def keys_of(content: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, str, Any]]:
    """Yield every key in the notation of the page, with its type and value."""
    for key, value in content.items():
        kind = {"dict": "object", "NoneType": "null"}.get(
            type(value).__name__, type(value).__name__
        )
        yield prefix + key, kind, value
        if isinstance(value, dict) and key not in (
            "schema",
            "message",
            "headers",
        ):  # keys of a codec
            yield from keys_of(value, f"{prefix}{key}.")
        for element in value if isinstance(value, list) else ():
            if isinstance(element, dict):
                yield from keys_of(element, f"{prefix}{key}[].")


def check(schema: Schema, content: dict[str, Any], seen: set[str]) -> None:
    """Check that an object has the keys and types of the page, and one form of UUIDs and times."""
    present = set()
    for name, kind, value in keys_of(content):
        assert name in schema, f"{name} is not in {PAGE.name}"
        expected, null, _ = schema[name]
        assert (
            kind == expected or (kind == "null" and null) or (kind, expected) == ("int", "float")
        ), (name, kind, expected)
        last = name.rpartition(".")[2]
        if last == "uuid" and value is not None:
            assert UUID.fullmatch(value), value
        if (last.endswith("_time") or last == "timestamp") and value is not None:
            assert TIME.fullmatch(value), value
        present.add(name)
    required = {
        name
        for name, (_, _, bracket) in schema.items()
        if not bracket and not re.search(r"[.\[]", name)
    }
    assert required <= present, required - present
    seen |= present


def printed(*arguments: object, feed: bytes = b"") -> list[dict[str, Any]]:
    """Return the objects that a command prints with --json."""
    done = run(*arguments, "--json", feed=feed)
    assert done.stdout, done.stderr
    if done.stdout.startswith(b"{\n"):
        return [json.loads(done.stdout)]
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture
def damaged(files: LogFiles) -> Path:
    """A log of two segments with damage, a claim, a torn tail and a gap."""
    files.create(1, opened=True)
    end = files.records(1, numbered(10))
    files.flip(1, HEADER + 3 * 32 + 20)
    files.records(1, numbered(2), files.claim(1, end, 40))
    files.create(3)
    files.checkpoint(0)
    return files.path


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log of six sealed segments, with a named tailer."""
    path = sealed_log(tmp_path / "sealed")
    with commitlog.open(path) as opened, opened.tailer("billing", required=True):
        opened.append(b"\xff", key=b"\xfe", headers={"source": b"\xff"})
    return path


def test_json_of_every_command_follows_the_page(log: Path, damaged: Path, tmp_path: Path) -> None:
    pytest.importorskip("zstandard")
    copy = tmp_path / "copy.seg"
    copy.write_bytes(min(log.glob("*.seg")).read_bytes())
    flipped = tmp_path / "flipped.seg"
    content = bytearray(copy.read_bytes())
    content[HEADER + 16] ^= 1
    flipped.write_bytes(content)
    with (
        commitlog.open(
            tmp_path / "open", segment_size=SEGMENT, store=commitlog.Store(tmp_path / "store")
        ) as opened,
        opened.tailer("billing"),
    ):
        opened.append(b"one", key=b"k")
        live = [
            ("info", printed("info", tmp_path / "open")),
            ("top", printed("top", "--interval", "0.1", tmp_path / "open")),
        ]
    outputs: list[tuple[str, list[dict[str, Any]]]] = [
        *live,
        ("append", printed("append", log, feed=b"one\n")),
        ("cat", printed("cat", log)),
        ("tail", printed("tail", "-n", 3, log)),
        ("info", printed("info", log) + printed("info", damaged) + printed("info", copy)),
        ("info --cycles", printed("info", "--cycles", log)),
        ("list", printed("list", tmp_path)),
        ("dump", printed("dump", log) + printed("dump", damaged)),
        ("tailers", printed("tailers", log)),
        (
            "verify",
            printed("verify", log) + printed("verify", damaged) + printed("verify", flipped),
        ),
        ("repair", printed("repair", "--dry-run", damaged)),
        ("tailers LOG ACTION", printed("tailers", log, "delete", "billing")),
        ("prune", printed("prune", "--dry-run", "--max-bytes", "1", log)),
        ("archive", printed("archive", "--keep", log, tmp_path / "archive")),
        ("info", printed("info", tmp_path / "archive")),
        ("restore", printed("restore", tmp_path / "archive", tmp_path / "restored")),
        ("backup", printed("backup", log, tmp_path / "backup")),
        ("promote", printed("promote", "--primary", tmp_path / "restored")),
        ("doctor", printed("doctor", tmp_path)),
        ("remove", printed("remove", "--yes", tmp_path / "open")),
        *_of_queues(tmp_path / "queues"),
        ("topics", printed("topics", _with_topics(tmp_path / "topics"))),
        ("info", printed("info", tmp_path / "topics") + printed("info", _copy(log, tmp_path))),
        ("history", printed("history", _with_histories(tmp_path / "histories"))),
        *((each, printed(each, "--history", tmp_path / "histories")) for each in ("cat", "tail")),
        ("spark export", [as_object(_export())]),
        ("spark compact", [as_object(_compaction())]),
    ]
    known = schemas()
    seen: dict[str, set[str]] = {name: set() for name in known}
    for name, contents in outputs:
        assert contents, name
        for content in contents:
            check(known[name], content, seen[name])
    never = {name: set(schema) - seen[name] for name, schema in known.items()}
    assert not {name: keys for name, keys in never.items() if keys}, (
        "the page names what no command prints"
    )
    without = {"export-metrics", "bench", "call", "serve", "follow", "mirror", "outbox", "spark"}
    assert {name.split()[0] for name in known} | without == set(group.own_commands()) | {"spark"}


def _copy(log: Path, folder: Path) -> Path:
    with replication.serve(log) as server:
        replication.follow(server.url(), folder / "copied").close()
    return folder / "copied"


def _with_topics(path: Path) -> Path:
    """A log of a message with a schema, and one without."""
    with commitlog.topic(path, Refund) as refunds:
        refunds.append(Refund(1))
        refunds.log.append(b"?", type=0xC123_4567)
    return path


def _with_histories(path: Path) -> Path:
    """A log of a message with a history, and one whose history is damaged."""
    with commitlog.topic(path, Refund) as refunds:
        refunds.append(Refund(1))
        with refunds.tailer() as tailer, tailer.reading():
            refunds.append(Refund(2))
        refunds.log.append(b"?", type=refunds.log.read(refunds.log.last_position or 0).type)
    return path


def _export() -> Any:
    pytest.importorskip("pyspark")
    from commitlog.spark.jobs.exporting import Export

    return Export("log", "out", 4096, uuid="0" * 32)


def _compaction() -> Any:
    from commitlog.spark.jobs.compaction import Compaction

    return Compaction("log", "out", 4096)


def _of_queues(path: Path) -> list[tuple[str, list[dict[str, Any]]]]:
    """What `commitlog queue` prints of a queue with a job of each kind."""
    with commitlog.queue(path, "mailer", segment_size=SEGMENT, backoff="1h") as queue:
        for number in range(4):
            queue.put(b"%d" % number)
        queue.take(0).release(reason="busy")
        queue.take(0).reject("no")
        held = queue.take(0)
        found = [
            ("queue", printed("queue", path)),
            ("top", printed("top", "--interval", "0.1", path)),
            ("queue LOG NAME", printed("queue", path, "mailer")),
            ("queue LOG NAME peek", printed("queue", path, "mailer", "peek")),
            ("queue LOG NAME dead", printed("queue", path, "mailer", "dead")),
            ("queue LOG NAME ACTION", printed("queue", path, "mailer", "resume")),
        ]
        held.accept()
    return found
