"""`commitlog serve`, `follow` and `promote`: together, interrupted, and with wrong input."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import commitlog
from commitlog import replication
from tests.copies import copy_log
from tests.tools.cli.program import LIMIT_S, SEGMENT, interrupted, run, started


def first_line(process: subprocess.Popen[bytes]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().decode().strip()


def test_promoted_copy_has_every_served_record(tmp_path: Path) -> None:
    orders, copy = tmp_path / "orders", tmp_path / "copy"
    with commitlog.open(orders, segment_size=SEGMENT) as log:
        log.append_many([b"one", b"two"])
        log.flush()
        with started("serve", "--listen", "127.0.0.1:0", "--token", "secret", orders) as server:
            url = first_line(server).removeprefix("serving ")
            with started("follow", "--token", "secret", url, copy) as follower:
                assert first_line(follower) == f"following {url} from position 4096"
                with commitlog.open(copy, "r") as read, read.tailer() as tailer:
                    for value in (b"one", b"two"):
                        record = tailer.read(timeout=LIMIT_S)
                        assert record is not None
                        assert record.value == value
                assert interrupted(follower) == (130, b"", b"\n")
            with started("follow", "--token", "secret", url, copy) as follower:
                assert first_line(follower).startswith(f"following {url} from position ")
                follower.terminate()
                assert follower.communicate(timeout=LIMIT_S) == (b"", b"")
                assert follower.returncode == 0
            server.terminate()
            assert server.communicate(timeout=LIMIT_S) == (b"", b"")
            assert server.returncode == 0
    refused = run("append", copy, feed=b"three\n")
    assert (refused.returncode, refused.stdout) == (1, b"")
    assert b"commitlog promote" in refused.stderr
    done = run("promote", copy)
    assert done.stdout.decode().startswith(f"{copy}: epoch 1 begins at position ")
    assert run("append", copy, feed=b"three\n").returncode == 0
    assert run("cat", copy).stdout == b"one\ntwo\nthree\n"
    assert run("verify", copy).stdout.decode().splitlines()[-1] == "sound"


def test_file_of_tokens_replaces_the_token_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders, tokens = tmp_path / "orders", tmp_path / "tokens"
    with commitlog.open(orders, segment_size=SEGMENT) as log:
        log.append(b"one")
    tokens.write_text("reader read orders\n")
    monkeypatch.setenv("COMMITLOG_TOKEN", "other")
    with started("serve", "--listen", "127.0.0.1:0", "--tokens", tokens, orders) as server:
        url = first_line(server).removeprefix("serving ")
        assert b"refuses the token" in run("cat", url).stderr
        monkeypatch.setenv("COMMITLOG_TOKEN", "reader")
        assert run("cat", url).stdout == b"one\n"
        assert interrupted(server)[0] == 130


def test_follower_has_a_name_and_prints_its_lag(tmp_path: Path) -> None:
    with commitlog.open(tmp_path / "orders") as log, replication.serve(log.path) as server:
        arguments = ["--name", "second", "--interval", "100ms", server.url(), tmp_path / "copy"]
        with started("follow", *arguments) as follower:
            assert first_line(follower).startswith("following ")
            log.append(b"one")
            log.flush()
            assert server.wait_replicated(4096, timeout=LIMIT_S)
            lines = iter(lambda: first_line(follower), "")  # the first may be of a moment before
            assert f"position {log.flushed_position}, 0 B behind" in lines
            assert server.followers() == {"second": log.flushed_position}
            follower.terminate()
            assert follower.communicate(timeout=LIMIT_S) == (b"", b"")


@pytest.mark.parametrize(
    "arguments",
    [
        ["serve", "--listen", "127.0.0.1:0", "log"],
        ["serve", "--listen", "127.0.0.1:0", "--token", "", "log"],
        ["follow", "tcp://127.0.0.1:1/log", "copy"],
        ["follow", "--token", "", "tcp://127.0.0.1:1/log", "copy"],
        ["promote", "log"],
        ["promote", "--token", "", "log"],
        ["cat", "tcp://127.0.0.1:1/log"],
        ["info", "tcp://127.0.0.1:1/log"],
    ],
)
def test_empty_token_of_the_environment_is_refused(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    commitlog.open("log").close()
    monkeypatch.setenv("COMMITLOG_TOKEN", "")
    done = run(*arguments)
    assert done.returncode == 1
    assert b"is empty: a token is a str of 1 to 1024" in done.stderr
    assert not Path("copy").exists()


def test_file_of_tokens_replaces_an_empty_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commitlog.open(tmp_path / "log").close()
    (tmp_path / "tokens").write_text("reader read log\n")
    monkeypatch.setenv("COMMITLOG_TOKEN", "")
    arguments = ["--listen", "127.0.0.1:0", "--tokens", tmp_path / "tokens", tmp_path / "log"]
    with started("serve", *arguments) as server:
        assert first_line(server).startswith("serving tcp://")
        assert interrupted(server)[0] == 130


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["serve"], 2, "Missing argument"),
        (["serve", "none"], 1, "no log here"),
        (["serve", "--listen", "port", "log"], 1, "HOST:PORT"),
        (["serve", "--listen", "0.0.0.0:0", "log"], 1, "plain text"),
        (["serve", "--listen", "192.0.2.1:7070", "--plain-text", "log"], 1, "cannot listen"),
        (["serve", "--tls", "no.pem", "no.key", "log"], 1, "no.pem"),
        (["serve", "--tokens", "tokens", "log"], 1, "line 1 of"),
        (["serve", "--tokens", "log/log.json", "--token", "x", "log"], 1, "not both"),
        (["follow", "log", "copy"], 1, "HOST:PORT"),
        (["follow", "tcp://192.0.2.1:7070/log", "copy"], 1, "plain text"),
        (["promote", "none"], 1, "no log here"),
    ],
)
def test_wrong_input_is_one_line(
    arguments: list[str], status: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    commitlog.open("log").close()
    Path("tokens").write_text("secret reads log\n")
    before = sorted(path.name for path in tmp_path.rglob("*"))
    done = run(*arguments)
    last = done.stderr.decode().splitlines()[-1]
    assert done.returncode == status, last
    assert said in last
    assert b"Traceback" not in done.stderr
    assert sorted(path.name for path in tmp_path.rglob("*")) == before


def test_plain_log_is_promoted_only_as_a_primary(tmp_path: Path) -> None:
    commitlog.open(tmp_path / "log").close()
    refused = run("promote", tmp_path / "log")
    assert refused.returncode == 2
    assert b"is not a copy of another log" in refused.stderr
    assert b"--primary" in refused.stderr
    assert not (tmp_path / "log" / "epoch").exists()
    assert run("promote", "--primary", tmp_path / "log").returncode == 0


def test_restored_copy_follows_only_as_a_new_one(tmp_path: Path) -> None:
    with commitlog.open(tmp_path / "log") as log, replication.serve(tmp_path / "log") as server:
        log.append(b"one")
        replication.follow(server.url(), tmp_path / "copy").close()
        copy_log(tmp_path / "copy", tmp_path / "restored")
        refused = run("follow", server.url(), tmp_path / "restored")
        assert refused.returncode == 1
        assert b"commitlog follow --restored" in refused.stderr
        refused = run("promote", tmp_path / "restored")
        assert refused.returncode == 1
        assert b"with force restored" in refused.stderr
        replication.follow(server.url(), tmp_path / "restored", restored=True).close()
    assert run("promote", tmp_path / "restored").returncode == 0
