"""What is of a file or a peer reaches a terminal without control characters."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

import commitlog
from commitlog.errors import IOFailureError, ReplicationError
from commitlog.errors.printable import printable
from commitlog.network.remote import update, wire
from tests.network.remote.server import answering
from tests.tools.cli.program import run

# A title, a line that overwrites another one, C1, and characters that change the order of text.
EVIL = "\x1b]0;title\x07\x1b[2Jall is well\r\n\x9b31m\u202e\u2066\x7f"
SHOWN = "\\x1b]0;title\\x07\\x1b[2Jall is well\\r\\n\\u009b31m\\u202e\\u2066\\x7f"


def checked(done: subprocess.CompletedProcess[bytes]) -> str:
    """Return the output of a command, all of which is printable."""
    text = (done.stdout + done.stderr).decode()
    assert not [each for each in text if not (each.isprintable() or each in "\n\t")]
    return text


def evil_log(folder: Path) -> Path:
    path = folder / "a\x1b[2J\nb: sound\u202e"
    with commitlog.open(path) as log:
        log.append(b"one")
    return path


def test_printable_escapes_what_a_terminal_acts_on() -> None:
    assert printable(EVIL) == SHOWN
    assert printable("größe 日本 a\\b") == "größe 日本 a\\b"
    assert printable("\udcff\U000e0001") == "\\udcff\\U000e0001"


def test_error_is_shown_without_control_characters() -> None:
    error = IOFailureError(f"cannot read {EVIL}", path=f"/tmp/{EVIL}", position=1)
    assert str(error) == f"cannot read {SHOWN} (path /tmp/{SHOWN}, position 1)"
    assert error.message == f"cannot read {EVIL}"
    told = update.error_of(update.text_of(ReplicationError(EVIL)), "tcp://a:1/b")
    assert told.message == SHOWN


@pytest.mark.parametrize("kind", ["request", "token", "busy", "error"])
@pytest.mark.parametrize("command", ["follow", "tail", "info", "cat", "tailers", "promote"])
def test_text_of_a_server_is_escaped(command: str, kind: str, tmp_path: Path) -> None:
    if kind == "busy" and command != "promote":
        pytest.skip("the command tries again for ten seconds")

    def answer(_: dict[str, Any]) -> list[tuple[bytes, bytes]]:
        if kind != "error":
            return [(wire.text({"refused": kind, "why": EVIL}), b"")]
        return [(wire.text({"error": update.text_of(IOFailureError(EVIL))}), b"")]

    with answering(answer) as port:
        url = f"tcp://127.0.0.1:{port}/orders"
        commitlog.open(tmp_path / "log").close()
        words = {
            "follow": ["follow", url, tmp_path / "copy"],
            "promote": ["promote", "--other", url, "--other", f"{url}2", tmp_path / "log"],
        }
        done = run(*words.get(command, [command, url]))
    assert done.returncode == 1
    checked(done)


def test_names_of_a_file_system_are_escaped(tmp_path: Path) -> None:
    path = evil_log(tmp_path)
    for words in (
        ["list", tmp_path],
        ["info", path],
        ["verify", path],
        ["tailers", path],
        ["topics", path],
        ["repair", path],
        ["prune", "--max-bytes", "1", path],
        ["history", path],
        ["export-metrics", path],
        ["archive", "--keep", path, tmp_path / "archive"],
        ["append", path / "none" / EVIL[:9], tmp_path / EVIL],
        ["cat", tmp_path / EVIL],
        ["follow", "tcp://127.0.0.1:1/x", path],
    ):
        text = checked(run(*words))
        assert "\nb: sound" not in text, words
    (path / f"note {EVIL}").touch()
    assert f"left: note {SHOWN}" in checked(run("remove", "--yes", path))


@pytest.mark.parametrize("field", ["timestamps", "uuid", "format", "segment_size", "roll_cycle"])
def test_content_of_a_hostile_file_is_escaped(tmp_path: Path, field: str) -> None:
    commitlog.open(tmp_path / "log").close()
    place = tmp_path / "log" / "log.json"
    place.write_text(json.dumps(json.loads(place.read_text()) | {field: EVIL}))
    for words in (["info"], ["verify"], ["cat"], ["tail"], ["repair"], ["tailers"]):
        checked(run(*words, tmp_path / "log"))
    checked(run("list", tmp_path))


def test_tailer_files_of_strange_names_are_escaped(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with commitlog.open(path) as log:
        log.append(b"one")
        log.tailer("billing").close()
    (path / "tailers" / f"x{EVIL}".replace("\n", "")).write_bytes(b"x")
    for words in (["tailers"], ["info"], ["verify"], ["prune", "--max-bytes", "1"]):
        checked(run(*words, path))


class Sale(msgspec.Struct):
    what: str
    more: dict[str, str] = {}


@pytest.mark.parametrize("codec", ["json", "msgpack"])
def test_text_of_messages_is_escaped(tmp_path: Path, codec: Any) -> None:
    path = tmp_path / "log"
    with commitlog.open(path) as log:
        topic = commitlog.topic(log, Sale, codec=codec)
        topic.append(Sale(EVIL, {EVIL: EVIL}), key=EVIL.encode())
        log.append(EVIL.encode())
    for words in (
        ["tail", "--decode"],
        ["tail", "--decode", "--format", "jsonl"],
        ["tail"],
        ["topics"],
        ["info"],
        ["dump"],
    ):
        done = run(*words, path)
        assert done.returncode == 0, words
        text = checked(done)
        if words[-1] == "jsonl":
            messages = [json.loads(line) for line in text.splitlines()]
            assert messages[-2]["message"] == {"what": EVIL, "more": {EVIL: EVIL}}


def test_warning_of_the_library_is_escaped(tmp_path: Path) -> None:
    script = (
        "import logging, sys\n"
        "from commitlog.tools.cli import _Warnings\n"
        "logger = logging.getLogger('commitlog')\n"
        "logger.addHandler(_Warnings(logging.WARNING))\n"
        f"logger.warning('lost %s', {EVIL!r})\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert checked(done) == f"commitlog: lost {SHOWN}\n"
