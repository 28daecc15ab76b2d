"""Tokens of a server: each may read or follow some of its logs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import commitlog
from commitlog import replication
from commitlog.errors import InvalidOptionError, IOFailureError, ReplicationError
from commitlog.network.remote.wire import RefusedError
from commitlog.network.replication import tailer_leases
from commitlog.network.replication.primary import Access
from commitlog.network.replication.promise import Asked
from commitlog.recovery.lineage import Rank
from tests.network.replication.scene import LIMIT_S, SEGMENT

TOKENS = """\
# the dashboard
reader   read   orders trades
any read *

copier\tfollow\torders
"""


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    path = tmp_path / "tokens.txt"
    path.write_text(TOKENS)
    return path


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[list[commitlog.CommitLog]]:
    found = [commitlog.open(tmp_path / name, segment_size=SEGMENT) for name in ("orders", "trades")]
    for log in found:
        log.append(b"one")
        log.flush()
    yield found
    for log in found:
        log.close()


@pytest.fixture
def server(logs: list[commitlog.CommitLog], tokens: Path) -> Iterator[replication.Server]:
    with replication.serve([log.path for log in logs], tokens=tokens) as server:
        yield server


def read(url: str) -> list[bytes]:
    with commitlog.open(url, "r") as far, far.tailer() as tailer:
        return [bytes(record.value) for record in iter(tailer.read, None)]


@pytest.mark.parametrize(
    ("token", "readable"),
    [("reader", {"orders", "trades"}), ("any", {"orders", "trades"}), ("copier", {"orders"})],
)
def test_token_reads_the_logs_of_its_line(
    server: replication.Server, monkeypatch: pytest.MonkeyPatch, token: str, readable: set[str]
) -> None:
    monkeypatch.setenv("COMMITLOG_TOKEN", token)
    for name in server.names:
        if name in readable:
            assert read(server.url(name)) == [b"one"]
        else:
            with pytest.raises(ReplicationError, match=f"not allow to read the log '{name}'"):
                read(server.url(name))


@pytest.mark.parametrize("token", ["reade", "readers", "#", "read"])
def test_unknown_token_reads_nothing(
    server: replication.Server, monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    monkeypatch.setenv("COMMITLOG_TOKEN", token)
    with pytest.raises(ReplicationError, match="refuses the token"):
        read(server.url("orders"))


def test_unserved_log_is_named_as_one_that_is_not_allowed(
    server: replication.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for token, said in (("copier", "not allow to read the log 'none'"), ("any", "no log 'none'")):
        monkeypatch.setenv("COMMITLOG_TOKEN", token)
        with pytest.raises(ReplicationError, match=said):
            read(server.url("orders").replace("orders", "none"))


def test_only_a_token_that_follows_is_followed(server: replication.Server, tmp_path: Path) -> None:
    for token in ("reader", "any"):
        with pytest.raises(ReplicationError, match="'orders', but not to follow it"):
            replication.follow(server.url("orders"), tmp_path / "copy", token=token)
    with pytest.raises(ReplicationError, match="not allow to read the log 'trades'"):
        replication.follow(server.url("trades"), tmp_path / "copy", token="copier")
    with replication.follow(server.url("orders"), tmp_path / "copy", token="copier") as copy:
        assert copy.wait(4097, timeout=LIMIT_S)
    assert read(str(tmp_path / "copy")) == [b"one"]


def test_reader_can_neither_acknowledge_nor_fence_nor_copy(server: replication.Server) -> None:
    primary = Access("any").primary(server.url("orders"))
    with primary.connect() as client:
        with pytest.raises(RefusedError):
            primary.acknowledge(client, "copy", Rank(), 1 << 20)
        with pytest.raises(RefusedError):
            primary.fence(client, Asked(Rank(1)), LIMIT_S)
        # A word of a reader's call does not make it one.
        for more in ({"read": []}, {"watch": None}):
            with pytest.raises(RefusedError):
                primary._endpoint.ask(client, "fence", {"rank": Rank(1)._asdict(), **more}, LIMIT_S)
        with primary.stream("copy", Rank(), 0, []) as stream, pytest.raises(RefusedError):
            stream.next()
    assert server.followers("orders") == {}


def test_tokens_of_an_open_log_hold_for_its_followers(tmp_path: Path, tokens: Path) -> None:
    rule = replication.Replication(tokens=tokens, require=1)
    with commitlog.open(tmp_path / "orders", flush="sync", replicate=rule) as log:
        url = rule.server.url("orders")
        with pytest.raises(ReplicationError, match="not to follow"):
            replication.follow(url, tmp_path / "copy", token="reader")
        with replication.follow(url, tmp_path / "copy", token="copier"):
            assert log.append(b"one") == 4096


def test_changed_file_of_tokens_holds_for_the_next_call(
    server: replication.Server, tokens: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def replaced(text: str) -> None:
        new = tokens.with_name("new.txt")
        new.write_text(text)
        new.replace(tokens)

    url = server.url("orders")
    with replication.follow(url, tmp_path / "copy", token="copier") as copy:
        assert copy.wait(4097, timeout=LIMIT_S)
        replaced("other follow orders\n")
        with pytest.raises(ReplicationError, match="the token is missing or wrong"):
            replication.follow(url, tmp_path / "refused", token="copier")
        with replication.follow(url, tmp_path / "next", token="other") as following:
            assert following.wait(4097, timeout=LIMIT_S)
    for unusable in ("", "new line\n"):
        replaced(unusable)
        with replication.follow(url, tmp_path / "next", token="other") as following:
            assert following.wait(4097, timeout=LIMIT_S)
    assert caplog.text.count("the tokens are not changed") == 2
    tokens.unlink()
    with replication.follow(url, tmp_path / "next", token="other") as following:
        assert following.wait(4097, timeout=LIMIT_S)


def test_follower_without_its_token_ends_at_an_acknowledgement(
    server: replication.Server, logs: list[commitlog.CommitLog], tokens: Path, tmp_path: Path
) -> None:
    with replication.follow(server.url("orders"), tmp_path / "copy", token="copier") as copy:
        assert server.wait_replicated(4096, timeout=LIMIT_S, log="orders")
        acknowledged = server.followers("orders")
        new = tokens.with_name("new.txt")
        new.write_text("other follow orders\n")
        new.replace(tokens)
        logs[0].append(b"two")
        logs[0].flush()
        with pytest.raises(ReplicationError, match="the token is missing or wrong"):
            copy.wait(timeout=LIMIT_S)
        assert server.followers("orders") == acknowledged


def test_stream_ends_without_its_token(
    server: replication.Server,
    logs: list[commitlog.CommitLog],
    tokens: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neither has anything to acknowledge or to read."""
    monkeypatch.setenv("COMMITLOG_TOKEN", "reader")
    with (
        replication.follow(server.url("orders"), tmp_path / "copy", token="copier") as copy,
        commitlog.open(server.url("orders"), mode="r") as far,
        far.tailer() as tailer,
    ):
        assert tailer.read(timeout=LIMIT_S) is not None
        assert server.wait_replicated(4096, timeout=LIMIT_S, log="orders")
        new = tokens.with_name("new.txt")
        new.write_text("other follow orders\n")
        new.replace(tokens)
        with pytest.raises(ReplicationError, match="the token is missing or wrong"):
            copy.wait(timeout=LIMIT_S)
        with pytest.raises(ReplicationError, match="refuses the token"):
            tailer.read(timeout=LIMIT_S)


def test_copy_is_served_to_its_own_tokens(
    server: replication.Server, tokens: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tokens.with_name("own.txt")
    own.write_text("guest read *\n")
    with replication.follow(
        server.url("orders"), tmp_path / "copy", token="copier", listen="127.0.0.1:0", tokens=own
    ) as copy:
        assert copy.wait(4097, timeout=LIMIT_S)
        assert copy.server is not None
        monkeypatch.setenv("COMMITLOG_TOKEN", "guest")
        assert read(copy.server.url()) == [b"one"]
        monkeypatch.setenv("COMMITLOG_TOKEN", "copier")
        with pytest.raises(ReplicationError, match="refuses the token"):
            read(copy.server.url())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has no token: write a line such as"),
        ("# nothing\n\n", "has no token: write a line such as"),
        ("secret\n", "line 1 of .* must be a token, then read, tail"),
        ("secret read\n", "line 1 of .* must be a token, then read, tail"),
        ("# one\nsecret write orders\n", "line 2 of .* must be a token, then read, tail"),
        ("sécret read orders\n", "the token in line 1 of .* cannot be used"),
        ("secret tail orders\n", "line 1 of .* must be a token, then read, tail"),
        ("secret tail:a/b orders\n", "line 1 of .* must be a token, then read, tail"),
        ("secret required orders\n", "line 1 of .* must be a token, then read, tail"),
        ("secret follow:a orders\n", "line 1 of .* must be a token, then read, tail"),
        ("a read orders\na follow orders\n", "line 2 of .* repeats the token"),
        ("a read orders ordres\nb read x\n", "not served: ordres, x; correct the file"),
    ],
)
def test_unusable_file_of_tokens_is_refused_with_its_reason(
    logs: list[commitlog.CommitLog], tokens: Path, text: str, said: str
) -> None:
    tokens.write_text(text)
    with pytest.raises(InvalidOptionError, match=said) as caught:
        replication.serve(logs[0].path, tokens=tokens)
    assert "secret" not in str(caught.value)


def test_missing_file_of_tokens_is_named(logs: list[commitlog.CommitLog], tokens: Path) -> None:
    with pytest.raises(IOFailureError, match="cannot read the tokens"):
        replication.serve(logs[0].path, tokens=tokens.with_name("missing"))


def test_tokens_of_a_copy_that_is_not_served_are_refused(tokens: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidOptionError, match="pass listen"):
        replication.follow("tcp://127.0.0.1:1/orders", tmp_path / "copy", tokens=tokens)


def test_token_beside_a_file_of_tokens_is_refused(
    logs: list[commitlog.CommitLog], tokens: Path
) -> None:
    with pytest.raises(InvalidOptionError, match="token or tokens, not both"):
        replication.serve(logs[0].path, token="reader", tokens=tokens)
    with pytest.raises(OSError, match=r"none\.txt"):
        replication.serve(logs[0].path, tokens=tokens.with_name("none.txt"))


UNUSABLE = ["", " ", "a b", "secret\n", "\u00e9", "a" * 1025, b"secret", 7]


@pytest.mark.parametrize("token", UNUSABLE)
def test_unusable_token_is_refused_at_every_door(
    logs: list[commitlog.CommitLog], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, token: Any
) -> None:
    path, url = logs[0].path, "tcp://127.0.0.1:1/orders"
    doors: list[Callable[[], object]] = [
        lambda: replication.serve(path, token=token),
        lambda: replication.Replication(token=token),
        lambda: replication.follow(url, tmp_path / "copy", token=token),
        lambda: replication.follow(url, tmp_path / "copy", token=token, listen="127.0.0.1:0"),
        lambda: replication.promote(path, token=token),
        lambda: replication.promote(path, token=token, others=[url]),
    ]
    if isinstance(token, str):
        monkeypatch.setenv("COMMITLOG_TOKEN", token)
        doors.append(lambda: commitlog.open(url, "r"))
    for door in doors:
        with pytest.raises(InvalidOptionError, match="1 to 1024 visible ASCII") as caught:
            door()
        assert "secret" not in str(caught.value)
    assert not (tmp_path / "copy").exists()


# --- named tailers --------------------------------------------------------------------------------


RIGHTS = """\
reader read *
tailer tail:app. orders
keeper required:app. *
every  tail: *
copier follow *
"""


@pytest.fixture
def orders(logs: list[commitlog.CommitLog], tokens: Path) -> Iterator[replication.Server]:
    tokens.write_text(RIGHTS)
    with logs[0].tailer("billing") as mine:
        mine.seek("end")
    with replication.serve(logs[0].path, tokens=tokens) as server:
        yield server


Act = Callable[[commitlog.CommitLog], object]


def opened(name: str, **terms: Any) -> Act:
    def act(far: commitlog.CommitLog) -> None:
        far.tailer(name, **terms).close()

    return act


CHANGES: dict[str, Act] = {
    "open billing": opened("billing"),
    "open new": opened("another"),
    "reset": lambda far: far.reset_tailer("billing", "first"),
    "delete": lambda far: far.delete_tailer("billing"),
    "evict": lambda far: far.evict_tailer("billing"),
    "require": opened("app.x", required=True),
    "require with a lag": opened("app.x", required=True, max_lag="64KiB"),
    "release": opened("app.x", required=False),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("token", ["reader", "tailer"])
def test_tailer_beyond_the_right_of_a_token_is_left(
    orders: replication.Server,
    logs: list[commitlog.CommitLog],
    monkeypatch: pytest.MonkeyPatch,
    token: str,
    change: str,
) -> None:
    before = logs[0].tailers()
    monkeypatch.setenv("COMMITLOG_TOKEN", token)
    with commitlog.open(orders.url("orders"), "r") as far:
        with pytest.raises(ReplicationError, match="the token"):
            CHANGES[change](far)
        assert [each.name for each in far.tailers()] == ["billing"]
        assert [bytes(value) for value in far.tailer().values()] == [b"one"]
    assert logs[0].tailers() == before


@pytest.mark.parametrize("token", ["tailer", "keeper", "every", "copier"])
def test_tailer_under_the_prefix_of_a_token_is_moved(
    orders: replication.Server,
    logs: list[commitlog.CommitLog],
    monkeypatch: pytest.MonkeyPatch,
    token: str,
) -> None:
    monkeypatch.setenv("COMMITLOG_TOKEN", token)
    with commitlog.open(orders.url("orders"), "r") as far:
        with far.tailer("app.x") as tailer:
            assert tailer.read() is not None
        far.reset_tailer("app.x", "first")
        far.delete_tailer("app.x")
    assert [each.name for each in logs[0].tailers()] == ["billing"]


@pytest.mark.parametrize("token", [None, "single", "tailer", "every", "copier"])
def test_required_tailer_is_refused_without_its_right(
    logs: list[commitlog.CommitLog],
    tokens: Path,
    monkeypatch: pytest.MonkeyPatch,
    token: str | None,
) -> None:
    tokens.write_text(RIGHTS)
    alone = token in (None, "single")
    if token is not None:
        monkeypatch.setenv("COMMITLOG_TOKEN", token)
    logs[0].tailer("app.held", required=True, max_lag="1MiB").close()
    before = logs[0].tailers()
    with (
        replication.serve(
            logs[0].path, token=token if alone else None, tokens=None if alone else tokens
        ) as server,
        commitlog.open(server.url(), "r") as far,
    ):
        for act in (
            opened("app.x", required=True),
            opened("app.held"),
            opened("app.held", required=False),
            lambda far: far.reset_tailer("app.held", "end"),
            lambda far: far.delete_tailer("app.held"),
            lambda far: far.evict_tailer("app.held"),
        ):
            with pytest.raises(ReplicationError, match="required:PREFIX"):
                act(far)
    assert logs[0].tailers() == before


def test_required_tailer_is_changed_with_its_right(
    orders: replication.Server,
    logs: list[commitlog.CommitLog],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COMMITLOG_TOKEN", "keeper")
    with commitlog.open(orders.url("orders"), "r") as far:
        opened("app.x", required=True)(far)
        assert logs[0].tailers()[0].required
        assert far.evict_tailer("app.x")
        far.delete_tailer("app.x")
        with pytest.raises(ReplicationError, match="begin with 'app.'"):
            opened("billing", required=True)(far)


def test_tailers_of_readers_are_bounded(
    orders: replication.Server,
    logs: list[commitlog.CommitLog],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tailer_leases, "_PREFIX_LIMIT", 2)
    monkeypatch.setattr(tailer_leases, "_TAILERS_LIMIT", 4)
    monkeypatch.setenv("COMMITLOG_TOKEN", "tailer")
    with commitlog.open(orders.url("orders"), "r") as far:
        for name in ("app.1", "app.2", "app.1"):
            opened(name)(far)
        with pytest.raises(InvalidOptionError, match="more than 2"):
            opened("app.3")(far)
    monkeypatch.setenv("COMMITLOG_TOKEN", "every")
    with commitlog.open(orders.url("orders"), "r") as far:
        opened("one")(far)
        with pytest.raises(InvalidOptionError, match="more than 4"):
            opened("two")(far)
    assert len(logs[0].tailers()) == 4
