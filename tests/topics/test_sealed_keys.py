"""Key rings of sealed topics: missing, wrong, rotated and unusable keys."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import pytest

import commitlog
from commitlog.errors import (
    InvalidOptionError,
    IOFailureError,
    KeyUnavailableError,
    RecordTypeError,
)
from commitlog.topics import KeyRing
from commitlog.topics.key_ring import VARIABLE
from tests.topics.orders import Order
from tests.topics.sealed import NEW, OLD, RING, messages, orders_of

pytest.importorskip("cryptography")


def test_missing_key_is_named_and_the_tailer_stays(
    log: commitlog.CommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    position = orders_of(log).append(Order(1))
    other = KeyRing.of_text(NEW)
    for ring, known in ((None, "none"), (other, "2026")):
        for choice in ("raise", "skip", "raw"):
            tailer = orders_of(log, ring).tailer("billing", on_undecodable=choice)  # type: ignore[call-overload]
            with tailer:
                for act in (tailer.read, lambda each=tailer: list(each)):
                    with pytest.raises(KeyUnavailableError, match=f"which has {known}") as caught:
                        act()
                    error = caught.value
                    assert (error.key_id, error.path) == ("2025", log.path)
                    assert error.position == tailer.position == position
                assert tailer.undecodable == 0
    monkeypatch.setenv(VARIABLE, OLD)
    with orders_of(log, None).tailer("billing") as tailer:
        assert list(tailer) == [Order(1)]


def test_wrong_key_of_the_right_id_is_named(log: commitlog.CommitLog) -> None:
    orders_of(log).append(Order(1))
    wrong = KeyRing.of_text(NEW.replace("2026", "2025"))
    with pytest.raises(KeyUnavailableError, match="'2025' does not open a data key") as caught:
        orders_of(log, wrong).tailer().read()
    assert caught.value.key_id == "2025"


def test_rotated_ring_reads_old_and_seals_with_the_new_key(tmp_path: Path) -> None:
    both = KeyRing.of_text(f"{OLD}\n{NEW}\n")
    assert both.key_ids == ("2025", "2026")
    for number, ring in enumerate((RING, both)):
        with commitlog.topic(tmp_path / "log", Order, keys=ring) as orders:
            orders.append(Order(number))
    with commitlog.topic(tmp_path / "log", Order, keys=both) as orders:
        assert [order.id for order in orders.tailer()] == [0, 1]
        position = messages(orders.log)[1].position
    with commitlog.topic(tmp_path / "log", Order, keys=KeyRing.of_text(NEW)) as orders:
        assert list(orders.tailer(start=position)) == [Order(1)]
        with pytest.raises(KeyUnavailableError, match="'2025' is not in the key ring"):
            orders.tailer().read()


def test_ring_of_a_service_wraps_and_unwraps(log: commitlog.CommitLog) -> None:
    calls: list[tuple[str, str]] = []

    def wrap(key_id: str, data_key: bytes) -> bytes:
        calls.append(("wrap", key_id))
        return data_key[::-1]

    def unwrap(key_id: str, wrapped: bytes) -> bytes:
        calls.append(("unwrap", key_id))
        return wrapped[::-1]

    ring = KeyRing("alias/orders", wrap, unwrap)
    orders = orders_of(log, ring)
    for number in range(3):
        orders.append(Order(number))
    assert len(list(orders.tailer())) == 3
    assert calls == [("wrap", "alias/orders"), ("unwrap", "alias/orders")]


def test_failing_service_appends_nothing(log: commitlog.CommitLog) -> None:
    def refuse(*_: Any) -> bytes:
        raise ConnectionError("the service is away")

    ring = KeyRing("k1", refuse, lambda *_: b"short")
    with pytest.raises(KeyUnavailableError, match="the service is away") as caught:
        orders_of(log, ring).append(Order(1))
    assert isinstance(caught.value.__cause__, ConnectionError)
    assert log.count() == 0
    orders_of(log, KeyRing("k1", lambda _, key: key, refuse)).append(Order(1))
    with pytest.raises(KeyUnavailableError, match="unwrap must return 32 bytes"):
        orders_of(log, ring).tailer().read()


def test_ring_shows_ids_and_no_key(tmp_path: Path) -> None:
    ring = KeyRing.of_text(f"{OLD}\n{NEW}")
    assert repr(ring) == "<KeyRing 2025, 2026>"
    assert repr(KeyRing.of_environment()) == "<KeyRing without a key>"
    for act in (pickle.dumps, copy.copy):
        with pytest.raises(TypeError, match=f"set {VARIABLE} in each process"):
            act(ring)
    file = tmp_path / "keys"
    file.write_text(f"{OLD}\n{NEW}\n")
    assert KeyRing.of_file(file).key_ids == ring.key_ids
    with pytest.raises(IOFailureError, match="cannot read the keys"):
        KeyRing.of_file(tmp_path / "none")


@pytest.mark.parametrize(
    "text",
    [
        "2025",
        "2025:c2hvcnQ=",
        f"{OLD}\n{OLD}",
        f"{OLD} *:*",
        OLD.removeprefix("2025"),
        f"{'x' * 65}{OLD[4:]}",
        OLD[:-1],
    ],
    ids=["no key", "short", "twice", "no base64", "no id", "long id", "truncated"],
)
def test_unusable_line_is_refused_without_its_text(text: str, tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(text)
    with pytest.raises(InvalidOptionError, match=r"keys: key \d must be id:base64") as caught:
        KeyRing.of_file(file)
    assert OLD[5:20] not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_unusable_ring_is_refused(log: commitlog.CommitLog) -> None:
    def nothing(*_: Any) -> bytes:
        return b""

    for ids in (("a", "a"), ("a b",), "", ("é" * 65,)):
        with pytest.raises(InvalidOptionError, match="key ids must differ"):
            KeyRing(ids, nothing, nothing)
    with pytest.raises(InvalidOptionError, match=r"must be a topics\.KeyRing, not a str"):
        commitlog.topic(log, Order, keys=OLD)  # type: ignore[arg-type]
    with pytest.raises(RecordTypeError, match="the key must be bytes, not str"):
        orders_of(log).append(Order(1), key="lena")  # type: ignore[arg-type]
    with pytest.raises(RecordTypeError, match="the key must be bytes, not str"):
        orders_of(log).append_many([Order(1), Order(2)], keys=[b"a", "lena"])  # type: ignore[list-item]
    with pytest.raises(InvalidOptionError, match="2 keys for 1 messages"):
        orders_of(log).append_many([Order(1)], keys=[b"a", b"b"])
    assert log.count() == 0
