"""Commands and sealed topics: what they show with keys, with other keys, and without."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import commitlog
from commitlog.topics.key_ring import VARIABLE
from tests.tools.cli.program import run
from tests.topics.forged import forge
from tests.topics.orders import Order, Refund
from tests.topics.sealed import NEW, OLD, RING, messages

pytest.importorskip("cryptography")


class Shop:
    def sold(self, item: str) -> None: ...


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv(VARIABLE, raising=False)
    path = tmp_path / "log"
    with commitlog.open(path) as opened:
        commitlog.topic(opened, Order, keys=RING).append(Order(1, "secret"), key=b"lena")
        commitlog.topic(opened, Refund).append(Refund(7))
        commitlog.method_writer(opened, Shop, keys=RING).sold("secret desk")
    return path


@pytest.mark.parametrize("command", ["cat", "tail"])
def test_decode_needs_the_keys_of_the_environment(
    log: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    done = run(command, "--decode", "--json", log)
    assert done.returncode != 0
    assert b"the key '2025' is not in the key ring, which has none" in done.stderr
    assert VARIABLE.encode() in done.stderr
    done = run(command, "--json", log)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"secret" not in done.stdout
    done = run(command, "--decode", "--topic", "Refund", "--json", log)
    assert done.returncode == 0
    monkeypatch.setenv(VARIABLE, f"{NEW}\n{OLD}")
    done = run(command, "--decode", "--json", log)
    assert (done.returncode, done.stderr) == (0, b"")
    found = [json.loads(line)["message"] for line in done.stdout.splitlines()]
    assert [found[0]["item"], *found[1:]] == ["secret", {"order": 7}, {"item": "secret desk"}]


def test_exported_table_has_opened_messages(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, OLD)
    out = tmp_path / "orders.parquet"
    done = run("cat", "--decode", "--topic", "Order", "--format", "parquet", "-o", out, log)
    assert done.returncode == 0
    assert b'"secret"' in out.read_bytes()


def test_decode_prints_sealed_record_keys(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with commitlog.topic(log, Refund, name="keyed", keys=RING, seal_keys=True) as keyed:
        keyed.append_many([Refund(8), Refund(9)], keys=[b"omar", None])
    monkeypatch.setenv(VARIABLE, OLD)
    chosen = ("--decode", "--topic", "keyed")
    done = run("cat", *chosen, "--json", log)
    found = [json.loads(line)["key"] for line in done.stdout.splitlines()]
    assert (done.returncode, done.stderr, found) == (0, b"", ["omar", None])
    lines = run("tail", *chosen, log).stdout.decode().splitlines()
    heads = [line for line in lines if line.startswith("---")]
    assert [line.endswith('"omar"') for line in heads] == [True, False]
    out = tmp_path / "keyed.parquet"
    assert run("cat", *chosen, "--format", "parquet", "-o", out, log).returncode == 0
    assert b"omar" in out.read_bytes()
    assert b"omar" not in run("cat", "--json", log).stdout


def test_call_of_a_sealed_method_is_sealed(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = run("call", log, "sold", '"secret lamp"')
    assert done.returncode != 0
    assert b"give keys=" in done.stderr
    monkeypatch.setenv(VARIABLE, OLD)
    done = run("call", log, "sold", '"secret lamp"')
    assert done.returncode == 0
    with commitlog.open(log, "r") as opened:
        assert len(messages(opened)) == 4
        assert not any(b"secret" in record.value for record in messages(opened))


def test_topics_shows_which_are_sealed(log: Path) -> None:
    lines = run("topics", log).stdout.decode().splitlines()
    assert lines[1].startswith("Order: json, sealed, 1 message, ")
    assert lines[3].startswith("Refund: json, 1 message, ")
    found = json.loads(run("topics", "--json", log).stdout)["topics"]
    assert [each["versions"][0]["layers"] for each in found] == [
        ["aes-256-gcm"],
        [],
        ["aes-256-gcm"],
    ]


def test_verify_authenticates_with_keys(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = run("verify", log)
    assert (done.returncode, b"sealed" in done.stdout) == (0, False)
    monkeypatch.setenv(VARIABLE, OLD)
    done = run("verify", log)
    assert done.returncode == 0
    assert b"note: sealed messages that are authentic: 2\n" in done.stdout
    monkeypatch.setenv(VARIABLE, NEW)
    done = run("verify", log)
    assert done.returncode == 0
    assert b"note: sealed messages that need the key '2025' to be authenticated: 2" in done.stdout


def test_verify_reports_changed_messages(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with commitlog.open(log) as opened:
        record = messages(opened)[0]
        position = opened.append(record.value, type=record.type, key=b"omar")
        for _ in range(120):
            opened.append(record.value, type=record.type)
    assert run("verify", log).returncode == 0  # each CRC is correct
    monkeypatch.setenv(VARIABLE, OLD)
    done = run("verify", "--json", log)
    assert done.returncode == 1
    report = json.loads(done.stdout)
    assert report["sound"] is False
    assert report["problems"][0].startswith(f"position {position}: the sealed message is not auth")
    assert len(report["problems"]) == 100
    assert report["notes"][-1] == "more messages that are not authentic: 21"


def test_verify_reports_messages_at_wrong_positions(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with commitlog.topic(log, Refund, name="bound", keys=RING, seal_positions=True) as bound:
        bound.append(Refund(8))
        record = messages(bound.log)[-1]
        position = bound.log.append(record.value, type=record.type)
    monkeypatch.setenv(VARIABLE, OLD)
    done = run("verify", "--json", log)
    assert done.returncode == 1
    report = json.loads(done.stdout)
    assert [text.split(":")[0] for text in report["problems"]] == [f"position {position}"]
    assert report["notes"] == ["sealed messages that are authentic: 3"]


def test_unusable_variable_is_refused_without_its_text(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, OLD[:-2])
    for arguments in (["verify"], ["cat", "--decode"]):
        done = run(*arguments, log)
        assert done.returncode != 0
        assert b"COMMITLOG_KEYS: key 1 must be id:base64" in done.stderr
        assert OLD[6:20].encode() not in done.stdout + done.stderr


@pytest.mark.parametrize("command", ["cat", "tail"])
def test_decode_and_verify_report_forged_messages(
    log: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    with commitlog.open(log) as opened:
        position = forge(opened, "Order", b'{"id":9}')
    monkeypatch.setenv(VARIABLE, OLD)
    done = run(command, "--decode", "--json", log)
    assert done.returncode == 1
    assert b"not sealed, and the topic was sealed before it: position %d" % position in done.stderr
    assert [b'"message": {"id": 9' in line for line in done.stdout.splitlines()] == [False] * 4
    done = run("verify", "--json", log)
    assert done.returncode == 1
    report = json.loads(done.stdout)
    assert [text.split(":")[0] for text in report["problems"]] == [f"position {position}"]
